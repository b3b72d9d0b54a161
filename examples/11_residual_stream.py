# %% [markdown]
# # Layer norm, and the residual stream
# Document 002 sees a transformer as a stream of vectors, one for each word. A sublayer reads the stream, normalised,
# and adds its result: X → X + f(LayerNorm(X)). Why the sum, and why the norm? We train without each.

# %%
import sys
from pathlib import Path

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.symbolic import prove
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.data import grammar, pairs
from models.data.tokenizers import WordTokenizer
from models.inference.translate import residual_stream, translate
from models.transformer import BEGIN, PAD, Config, Sublayer, Transformer

FIGURES = Path("runs/lessons")

# %% [markdown]
# ## The gradient of the norm
# z = r (x − ⟨x⟩), r = 1/√(variance + ε) (000, "Layer normalization"; 003, after (1)). It is tempting to treat ⟨x⟩ and r
# as constants, and to pass on r dz. But both depend on every x, which removes from dz its mean and its part along z: dx
# = r (dz − ⟨dz⟩ − z ⟨z dz⟩). And x and 2x have the same z, so a step along x gains nothing.

# %%
tt.manual_seed(0)
x, dz = tt.randn(8, dtype=tt.float64, requires_grad=True), tt.randn(8, dtype=tt.float64)
z, r = F.layer_norm(x, (8,)), 1 / (x.var(unbiased=False) + 1e-5).sqrt()
z.backward(dz)
assert tt.allclose(x.grad, r * (dz - dz.mean() - z * (z * dz).mean()), rtol=0, atol=1e-12)
print(f"along x: {(x.grad @ x).item():.4f} for dx, {(r * dz @ x).item():.4f} for r dz")
print(prove(lambda x: F.layer_norm(x, (3,)), (2, 3)))

# %% [markdown]
# ## With both, and without one
# The encoder-decoder of 004 in the layout of 002 learns 64 sentences. It has 30 sublayers: few would change little.

# %%
short = [s for s in grammar.pairs() if len(s.source.split()) <= 4]
sentences = short[::6][:63] + [s for s in short if s.source == grammar.KNOWN]
words = pairs.train_tokenizer(WordTokenizer, sentences, None)
inputs, outputs = (tt.tensor(a) for a in pairs.batch([pairs.example(words, s) for s in sentences], 8, len(sentences)))


def train(residual: int, norm: int, rate: float):
    tt.manual_seed(0)
    model = Transformer(Config(N=6, d_model=32, h=4, d_ff=64, n_vol=words.vocab_size, n_max=12, norm="before"))
    for part in [p for p in model.modules() if isinstance(p, Sublayer)]:
        read = part.norm if norm else tt.nn.Identity()
        part.forward = lambda X, f, read=read: residual * X + f(read(X))
    optimizer = tt.optim.AdamW(model.parameters(), lr=rate)

    @tt.compile
    def step():
        optimizer.zero_grad()
        loss = model(inputs, outputs)[1] / (outputs != PAD).sum()
        loss.backward()
        optimizer.step()
        return loss

    return [step().item() for _ in range(150)], model


settings = {"no sum": (0, 1, 0.02), "no norm": (1, 0, 0.02), "no norm, rate / 10": (1, 0, 0.002), "both": (1, 1, 0.02)}
runs = {name: train(*how) for name, how in settings.items()}
figure, [[panel]] = plots.panels()
plots.lines(panel, range(150), {name: run[0] for name, run in runs.items()})
panel.set(xlabel="step", ylabel="nats a word", yscale="log", ylim=(3e-4, 30), title="64 sentences, 30 sublayers")
end = {name: run[0][-1] for name, run in runs.items()}
assert max(end["both"], end["no norm, rate / 10"]) < 0.3 < 2 < end["no sum"] and not end["no norm"] < 2
plots.show(figure, FIGURES / "11_residual_stream.png")

# %% [markdown]
# Without the sum the model knows which words are frequent, and no more. Why? Look at the decoder's gradients below:
# with the sum they reach all layers; without it they shrink in each sublayer, until float32 has hardly a smaller
# number. Without the norm nothing holds the size of the stream, and such large steps break it (a loss that is not a
# number is not drawn); with smaller steps the model learns. So the norm allows large steps.

# %%
named = [(f"{run}: {name}", p) for run in ("no sum", "both") for name, p in runs[run][1].decoder.named_parameters()]
plots.show(plots.norms([(name, p) for name, p in named if "W_1" in name]), FIGURES / "10_norms.png")

# %% [markdown]
# ## What each sublayer writes
# At its end the stream is the embedding plus all that was written. What would the model say if it were read earlier?

# %%
model, source = runs["both"][1], pairs.encode(words, grammar.KNOWN)
stream = residual_stream(model, source, output := translate(model, [source])[0])[-18:]  # the decoder's part
assert tt.allclose(stream[0][1] + sum(after - before for _, before, after in stream), stream[-1][2], atol=1e-3)
for name, _, X in stream:
    said = (model.decoder_norm(X) @ model.W_S + model.b_S).argmax(-1).tolist()
    print(f"{name:<20}" + " ".join(f"{word:>10}" for word in pairs.labels(words, said)))
plots.show(plots.stream(stream, {"decoder": pairs.labels(words, [BEGIN, *output])}), FIGURES / "10_written.png")

# %% [markdown]
# ## Exercise
# Many models do not subtract the mean (RMS norm): z = r x with r = 1/√(⟨x²⟩ + ε). What is its gradient?


# %%
def answer(x, z, r, dz):
    """dx, when dz arrives at z = r x; x, z and dz have shape (D,)."""
    ...


def check(answer) -> str:
    r = 1 / ((x * x).mean() + 1e-5).sqrt()
    (dx,) = tt.autograd.grad(r * x, x, dz)
    if (found := answer(x, r * x, r, dz)) is None:
        return "not solved yet. Hint: nothing was subtracted from x, so which of the three terms is left out?"
    off = (found - dx).abs().max().item()
    return "right" if off < 1e-9 else f"wrong: an entry is off by {off:.2g}. Look again at what r depends on."


print("exercise:", check(answer))

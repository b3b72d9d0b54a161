# %% [markdown]
# # An operation of your own
#
# The feed-forward network of the documents is max(0, x W_1 + b_1) W_2 + b_2 (003, eq. 10; 000; 004). Today's models
# have something else in its place, says 000 at its end, and names SwiGLU: y = a σ(a) b with a = x W, b = x V, σ(a) = 1
# / (1 + e^−a) (Shazeer 2020, eqs. 5 and 6). The engine has no such operation. How do we add one?

# %%
import sys
from pathlib import Path

import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.symbolic import prove
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.data import grammar, pairs
from models.data.tokenizers import WordTokenizer
from models.transformer import PAD, Config, Transformer

FIGURES = Path("runs/lessons")
tt.manual_seed(0)

# %% [markdown]
# ## Equation, kernel, rules
#
# The kernel computes y from two numbers. Numba compiles it, with a loop around it for tensors of any shape; type(a) is
# their dtype, since a plain 1.0 would make float64 of float32. A rule computes, in tensors, the gradient that an input
# gets when g arrives at y: g ∂y/∂a. Do not forget the product rule: a stands in y twice. Nothing forces kernel and
# rules to agree. `gradcheck` compares them at one point; `prove` runs the source of both over symbols, for all values.


# %%
@tt.op
class swiglu:
    r"y = a \sigma(a) b, \sigma(a) = 1 / (1 + e^{-a})"

    def kernel(a, b):
        return a / (type(a)(1) + np.exp(-a)) * b

    def grad_a(g, a, b):
        s = a.sigmoid()
        return g * b * (s + a * s * (1 - s))

    def grad_b(g, a):
        return g * a * a.sigmoid()


assert tt.gradcheck(swiglu, [tt.randn(3, 4, dtype=tt.float64, requires_grad=True) for _ in "ab"])
print(prove(swiglu, (2, 2), (2, 2)))

# %% [markdown]
# ## In a model
#
# The encoder-decoder of 004 learns French sentences with either network. SwiGLU has a third matrix, so it gets 2/3 of
# the inner width: then both have about as many parameters (Shazeer 2020).

# %%
words = pairs.train_tokenizer(WordTokenizer, sentences := grammar.pairs()[::180], None)
x, y = (tt.tensor(a) for a in pairs.batch([pairs.example(words, s) for s in sentences], 16, len(sentences)))


def train(gated: bool, seed: int) -> list[float]:
    tt.manual_seed(seed)
    model = Transformer(Config(N=2, d_model=32, h=4, d_ff=64 if gated else 96, n_vol=words.vocab_size, n_max=16))
    for ffn in [stack.ffn for stack in [*model.encoder, *model.decoder] if gated]:
        ffn.W_1, ffn.b_1, ffn.b_2 = nn.Parameter(tt.randn(32, 128) / 32**0.5), None, None  # W and V, side by side
        ffn.forward = lambda X, ffn=ffn: swiglu(*(X @ ffn.W_1).chunk(2, -1)) @ ffn.W_2
    optimizer = tt.optim.AdamW(model.parameters(), lr=3e-3)

    @tt.compile  # your own operation is recorded like the others
    def step():
        optimizer.zero_grad()
        loss = model(x, y)[1] / (y != PAD).sum()
        loss.backward()
        optimizer.step()
        return loss

    print("SwiGLU" if gated else "ReLU", f"has {model.num_parameters():,} parameters")
    return [step().item() for _ in range(100)]


means = {name: np.mean([train(name == "SwiGLU", seed) for seed in range(3)], 0) for name in ("ReLU", "SwiGLU")}
figure, [[panel]] = plots.panels()
plots.lines(panel, range(100), means)
panel.set(xlabel="step", ylabel="nats a word", yscale="log", title="means of three runs each: one run says little")
plots.show(figure, FIGURES / "15_own_operation.png")

# %% [markdown]
# ## Exercise
#
# Write the rule of softplus, y = ln(1 + e^x), a smooth max(0, x).


# %%
def answer(g, x):
    """The gradient that x gets when g arrives at y."""
    ...


def check(answer) -> str:
    @tt.op
    class softplus:
        def kernel(x):
            return np.log(type(x)(1) + np.exp(x))

        grad_x = answer

    if answer(*tt.ones(2)) is None:
        return "not solved yet. Hint: e^x / (1 + e^x) is a function that you have seen in this lesson."
    proof = prove(softplus, (2,))
    return "right" if proof else f"wrong: {str(proof).splitlines()[1].strip()}"


print("exercise:", check(answer))

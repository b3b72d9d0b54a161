# %% [markdown]
# # The residual stream
#
# Document 002 looks at a transformer as one stream of vectors, a vector for each word. A sublayer reads from the
# stream, X, and adds what it computes: X + f(LayerNorm(X)). Nothing is overwritten, so that the stream at its end is
# the embedding plus everything that was written. Here a small encoder-decoder learns some French, and we look at its
# stream.

# %%
import importlib.util
import sys
import tempfile
from pathlib import Path

import tinytensor as tt

sys.path.append(str(Path(__file__).resolve().parents[1]))  # models/ stands beside examples/, installed it is not
from models import grammar, pairs
from models.tokenizers import WordTokenizer
from models.transformer import BEGIN, PAD, Config, Sublayer, Transformer
from models.translate import residual_stream, translate
from tinytensor.viz import plots

tt.manual_seed(0)

# %% [markdown]
# ## A model that knows a few sentences
#
# Sixty-four sentences of the grammar that the translator learns, "je suis étudiant" among them. `norm="before"` is the
# layout of 002; document 004 has LayerNorm after the sum, and there the stream is rewritten at every sublayer.

# %%
sentences = [s for s in grammar.pairs() if len(s.source.split()) <= 4][::6][:63]
sentences.append(next(s for s in grammar.pairs() if s.source == grammar.KNOWN))
words = pairs.train_tokenizer(WordTokenizer, sentences, None)
model = Transformer(Config(N=2, d_model=32, h=4, d_ff=64, n_vol=words.vocab_size, n_max=12, norm="before"))
x, y = (tt.tensor(a) for a in pairs.batch([pairs.example(words, s) for s in sentences], 8, len(sentences)))
optimizer = tt.optim.AdamW(model.parameters(), lr=5e-3)


@tt.compile
def step():
    optimizer.zero_grad()
    loss = model(x, y)[1] / (y != PAD).sum()
    loss.backward()
    optimizer.step()
    return loss


for i in range(301):
    loss = step()
    if i % 100 == 0:
        print(f"step {i:3}   loss {loss.item():.4f} nats a word")
source = pairs.encode(words, grammar.KNOWN)
output = translate(model, [source])[0]
print(f"{grammar.KNOWN} -> {pairs.decode(words, output)}")

# %% [markdown]
# ## Reading between the sublayers
#
# Each `Sublayer` takes the stream and returns it with its own part added; a forward hook sees both.

# %%
stream, hooks = [], []
for name, module in model.decoder.named_modules():
    if isinstance(module, Sublayer):

        def look(module, given, after, name=name):
            stream.append((name.replace("add_", ""), given[0][0], after[0]))  # (words, d_model) of the one sentence

        hooks.append(module.register_forward_hook(look))
model.eval()
with tt.no_grad():
    model.decode(tt.tensor([[BEGIN, *output]]), *model.encode(tt.tensor([source])))
for hook in hooks:
    hook.remove()

# %% [markdown]
# ## The stream is a sum
#
# The embedding plus all that was written is the stream at its end, but for rounding.

# %%
embedding, end = stream[0][1], stream[-1][2]
written = {name: after - before for name, before, after in stream}
print(f"the sum and the stream differ by {(embedding + sum(written.values()) - end).abs().max().item():.1e} at most")

# %% [markdown]
# ## Who writes how much
#
# How long each vector is that a sublayer writes. In the column of "i" the stream is on its way to "am", and so on.

# %%
columns = ["∅", *pairs.labels(words, output)]
print(f"{'':<14}" + "".join(f"{word:>10}" for word in columns))
for name, vectors in {"embedding": embedding, **written, "at the end": end}.items():
    print(f"{name:<14}" + "".join(f"{length:>10.2f}" for length in vectors.norm(dim=-1).tolist()))

# %% [markdown]
# ## What it would say so far
#
# The words are read from the end of the stream: LayerNorm, then W^S. Nothing keeps us from reading earlier. Who the
# sentence is about, only the attention to the French can know.

# %%
for name, vectors in [("embedding", embedding), *((name, after) for name, _, after in stream)]:
    with tt.no_grad():
        said = (model.decoder_norm(vectors) @ model.W_S + model.b_S).argmax(-1).tolist()
    print(f"{name:<14}" + "".join(f"{word:>10}" for word in pairs.labels(words, said)))

# %% [markdown]
# ## A picture of it all
#
# `residual_stream` of `models/translate.py` reads both halves in the same way; `python -m models train --task translate
# --norm before` leaves such a picture of its own model.

# %%
if importlib.util.find_spec("matplotlib"):
    picture = Path(tempfile.mkdtemp()) / "stream.png"
    labels = {"encoder": pairs.labels(words, source), "decoder": columns}
    plots.save(plots.stream(residual_stream(model, source, output), labels), picture)
    print("drawn:", picture)

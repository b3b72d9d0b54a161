# %% [markdown]
# # Embeddings: the table at both ends
#
# Eq. (1) of document 003 (see `documents.md`) begins a model with E[t] + P_n: an **embedding**, the row of a table for
# the token t, and a row for its position n. Eq. (11) ends it with a product with another table, O. Must the two tables
# differ? How large should their numbers be? And why are token and position added, and not put beside each other?

# %%
import os
import sys
from pathlib import Path
from pydoc_data.topics import topics

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.data.tokenizers import WordTokenizer
from models.decoder import Config, Decoder
from models.transformer import positional_encoding

FIGURES = Path("runs/lessons")
STEPS, V, B, C = (1, 20, 1, 8) if os.environ.get("NUMBA_DISABLE_JIT") else (400, 500, 16, 32)  # few in Python
D, root = 32, 32**0.5
text = " ".join(" ".join(p.split()) for page in topics.values() for p in page.split("\n\n") if p.endswith("."))[:100000]
words = WordTokenizer.train([text], V)  # the most frequent words of Python's language reference; the others are unknown
tokens = tt.tensor(words.encode(text))

# %% [markdown]
# ## A row, or a product
#
# E[t] is a product, too: that of a row which is 1 at t, and else 0, with E. So an embedding is a linear layer, whose
# product need not be computed. Predict: after C tokens, how many of the V rows of E have a gradient?

# %%
tt.manual_seed(28)
E, t = tt.randn(V, D, requires_grad=True), tokens[:C]
assert tt.equal(E[t], F.one_hot(t, V).float() @ E)
E[t].square().sum().backward()
print(f"{C} tokens, {len(set(t.tolist()))} of them different: {(E.grad != 0).any(-1).sum().item()} rows of {V}")

# %% [markdown]
# ## One table at both ends, and √D
#
# **Weight tying** takes Eᵀ for O (Press and Wolf, 2017): V D numbers less, and each row learns in each step, since
# softmax moves all logits. But a row has two jobs, which ask for two sizes. A logit is a sum over D components, so
# entries of size 1/√D give a fresh model logits of size one, and a loss near log V. On the way in, these are nearly
# lost beside sinusoids, of size √½ (lesson 12). So Vaswani et al. (2017) multiply E[t] by √D there. Predict how the
# loss of a tied model falls with √D, without it, and with entries of size one.


# %%
class Sinusoids(Decoder):  # of 003, with E[t] times a factor, and with sinusoids for P
    def __init__(self, size, factor, tied):
        super().__init__(Config(D=D, C=C, V=V, final_norm=True, tied=tied, positions=False))
        nn.init.normal_(self.E, std=size)
        self.factor, self.r = factor, tt.tensor(positional_encoding(C, D), dtype=tt.float32)

    def positioned(self, Z, at):
        return self.factor * Z + self.r[: Z.shape[1]]


def losses(model):
    optimizer, results = tt.optim.AdamW(model.parameters(), lr=0.01), []
    for _ in range(STEPS):
        t = tokens[tt.randint(0, len(tokens) - C - 1, (B, 1)) + tt.arange(C + 1)]
        optimizer.zero_grad()
        loss = model(t[:, :-1], t[:, 1:])[1]
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    return results


ways = {"two tables": (1, 1, False), "tied, 1/√D, times √D": (1 / root, root, True)}
ways |= {"tied, 1/√D": (1 / root, 1, True), "tied, size 1": (1, 1, True)}
curves, last = {}, {}
for name, options in ways.items():
    tt.manual_seed(28)
    model = Sinusoids(*options)
    curves[name] = losses(model)
    last[name] = sum(curves[name][-40:]) / 40
    print(f"{name}: {model.num_parameters():,} numbers, loss {curves[name][0]:.2f} -> {last[name]:.2f}")
assert STEPS == 1 or max(last["two tables"], last["tied, 1/√D, times √D"]) < last["tied, 1/√D"] - 0.1

# %% [markdown]
# ## Why are positions added, and not put beside?
#
# A matrix can read both: beside each other [x, p] W is x W_1 + p W_2, with the upper and the lower rows of W, so what
# follows computes a sum anyway. But then x and p share the width D, and added both have all of it. Are they not mixed
# up? In many dimensions random vectors are nearly perpendicular: the cosine of their angle is about 1/√D. Predict: for
# which D does a product with Eᵀ name the token of 99 % of all sums E[t] + P_n?


# %%
def legible(D):
    E, P = (F.normalize(tt.randn(n, D), dim=-1) for n in (V, C))
    named = ((E.unsqueeze(1) + P) @ E.T).argmax(-1)  # (V, C): a token for each sum
    return (named == tt.arange(V).unsqueeze(1)).float().mean().item()


widths = [2**i for i in range(1, 8)]
shares = [legible(width) for width in widths]
print({width: f"{share:.1%}" for width, share in zip(widths, shares)})
figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.6))
plots.lines(left, range(STEPS), curves, linewidth=1.2)
plots.lines(right, widths, {"token named": shares}, marker="o")
left.set(xlabel="step", ylabel="nats a word", ylim=(2, 8), title="the loss in training")
right.set(xscale="log", xlabel="width D", ylabel="share of the sums", title="which token is in E[t] + P_n?")
plots.show(figure, FIGURES / "28_embeddings.png", alt="Tied tables learn fast only with √D. D = 32 names most tokens.")

# %% [markdown]
# How well learned positions and sinusoids do, lesson 12 has measured. **Rotary** positions (Su et al., 2021) add
# nothing: they turn queries and keys by the angles of lesson 12, so a score depends on the distance alone; exercise 4.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/28_embeddings.py`. Each has a check.

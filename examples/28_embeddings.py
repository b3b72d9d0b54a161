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
STEPS, V, B, C, D = (1, 20, 1, 8, 32) if os.environ.get("NUMBA_DISABLE_JIT") else (400, 500, 16, 32, 32)
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


ways = {"two tables": (1, 1, False), "tied, 1/√D, times √D": (D**-0.5, D**0.5, True)}
ways |= {"tied, 1/√D": (D**-0.5, 1, True), "tied, size 1": (1, 1, True)}
curves = {}
for name, options in ways.items():
    tt.manual_seed(28)
    curves[name] = losses(model := Sinusoids(*options))
    last = sum(curves[name][-40:]) / 40
    print(f"{name}: {model.num_parameters():,} numbers, loss {curves[name][0]:.2f} -> {last:.2f}")
assert STEPS == 1 or sum(curves["tied, 1/√D, times √D"][-40:]) < sum(curves["tied, 1/√D"][-40:]) - 4

# %% [markdown]
# Two of them rest for long near the dotted line of the picture below, the loss of a model that knows how frequent each
# word is, and no more. One of them hardly sees its words; the other one begins sure of nonsense, and has to unlearn it.
#
# ## Why are positions added, and not put beside?
#
# Beside each other, [x, p] W is x W_1 + p W_2, with the upper and lower rows of W: a sum anyway, but of vectors that
# share the width D. Does adding not mix them up? In many dimensions random vectors are nearly perpendicular: the cosine
# of their angle is about 1/√D. Predict: for which D does a product with Eᵀ name the token in 99 % of all E[t] + P_n?


# %%
def legible(D):
    E, P = (F.normalize(tt.randn(n, D), dim=-1) for n in (V, C))
    named = ((E.unsqueeze(1) + P) @ E.T).argmax(-1)  # (V, C): a token for each sum
    return (named == tt.arange(V).unsqueeze(1)).float().mean().item()


shares = {width: legible(width) for width in (2, 4, 8, 16, 32, 64, 128)}
print({width: f"{share:.1%}" for width, share in shares.items()})
figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.6))
plots.lines(left, range(STEPS), curves, linewidth=1.2)
left.axhline(-tt.xlogy(p := F.one_hot(tokens, V).float().mean(0), p).sum().item(), color="black", linestyle=":")
plots.lines(right, list(shares), {"token named": list(shares.values())}, marker="o")
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

# %% [markdown]
# # Attention by hand
#
# How does a word get information from the others? Document 002 begins without a single parameter: each output is an
# average of all inputs, y_i = Σ_j w_ij x_j, with the softmax (lesson 6) of dot products as weights, w_ij =
# softmax_j(x_i · x_j). In Algorithm 1 of document 000 each word plays three parts, with a matrix for each:
#
#     Q = X W_q,  K = X W_k,  V = X W_v,  Y = softmax(Q Kᵀ / √d_k) V

# %%
import math
from pathlib import Path

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
tt.manual_seed(0)


def attention(Q, K, V):
    return (Q @ K.mT / math.sqrt(Q.shape[-1])).softmax(-1) @ V


print(prove(attention, (2, 2), (2, 2), (2, 2)))

# %% [markdown]
# **Without parameters.** Which word attends to which? The first picture shows it. For any input the weights of a row
# are positive and sum to 1, so each output lies among the inputs: a "convex combination" (001). Attention chooses and
# mixes; it adds nothing new. And x_i · x_j is the same from i to j as from j to i: "king" cannot look for "man" unless
# "man" looks for "king". With W_q and W_k a word can look for one thing and show another.

# %%
words, properties = ["king", "queen", "man", "woman", "apple"], ["royal", "male", "female", "edible"]
X = tt.tensor([[2.0, 1, 0, 0], [2, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2]])
S = X @ X.mT
w = S.softmax(-1)
assert (w > 0).all() and (w.sum(-1) - 1).abs().max().item() < 1e-6

# %% [markdown]
# **The mask.** A model that writes from left to right must not read later words. Eqs. (4) and (5) of document 003 add
# -∞ to the scores where m > i: e^-∞ is 0, and the rest sums to 1. (Set weights to 0 afterwards, and it does not.)
#
# **Why √d_k?** How large is a dot product of d_k terms, if the components have variance 1? Its variance is d_k (001).
# Unscaled, the scores spread, and softmax gives all weight to the largest: a hard argmax, in the limit. There a weight
# is 1 or 0 and does not change with the scores: no gradient, no learning.

# %%
masked = (S + tt.full((5, 5), -math.inf).triu(1)).softmax(-1)
widths = [1, 4, 16, 64, 256]
variances = {"q · k": [(tt.randn(6000, d) * tt.randn(6000, d)).sum(-1).var().item() for d in widths]}
variances["q · k / √d_k"] = [v / d for v, d in zip(variances["q · k"], widths)]
factors = 0.1 * 1.15 ** tt.arange(40)
limits = (factors.unsqueeze(1) * tt.tensor([1.0, 0.8, 0.3, -0.5])).softmax(-1)  # (40, 4)

# %% [markdown]
# **Heads.** "Using a single attention head can lead to averaging over these effects" (000). A task: of six numbers one
# carries flag A, one flag B; return both, in this order. Scores see the flags, values are the numbers. One head gives
# one average, λ a + (1 - λ) b at best. For no λ can a and b, of variance 1, be found from it with a mean squared error
# below 1/2. And from two heads?


# %%
def learn(heads):
    u, W_o = (tt.randn(heads, 2, requires_grad=True) for _ in range(2))  # query times W_k; from heads to outputs
    optimizer, errors = tt.optim.Adam([u, W_o], lr=0.05), []
    for _ in range(400):
        values, order = tt.randn(256, 6, 1), tt.rand(256, 6).argsort(1)
        flags = tt.stack([order == 0, order == 1], dim=1).to(tt.float32)  # (256, 2, 6)
        heard = (u @ flags).softmax(-1) @ values  # the weights are (256, heads, 6), the averages (256, heads, 1)
        error = ((heard.mT @ W_o - (flags @ values).mT) ** 2).mean()  # of (256, 1, 2)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(error.item())
    return errors


learned = {"one head": learn(1), "two heads": learn(2)}
print("errors of the last 50 steps:", last := {name: sum(errors[-50:]) / 50 for name, errors in learned.items()})
assert last["one head"] > 0.45 and last["two heads"] < 0.02

# %%
figure, grid = plots.panels(3, 2, size=(9, 10))
tables = {"without parameters": (w, words), "masked": (masked, words), "what each word becomes": (w @ X, properties)}
for panel, (title, (values, columns)) in zip(grid[:, 0], tables.items()):
    plots.heat(panel, values, words, columns, numbers=True)
    panel.set(title=title)
plots.lines(grid[0, 1], widths, variances, marker="o")
grid[0, 1].set(xscale="log", yscale="log", xlabel="d_k", title="variance of a score")
plots.lines(grid[1, 1], factors, {f"score {s}": limits[:, i] for i, s in enumerate((1.0, 0.8, 0.3, -0.5))})
grid[1, 1].set(xscale="log", xlabel="factor on the scores", title="weights: from an average to a hard argmax")
plots.lines(grid[2, 1], range(400), learned | {"1/2": [0.5] * 400}, linewidth=1)
grid[2, 1].set(xlabel="step", title="the two numbers: mean squared error")
plots.show(figure, FIGURES / "09_attention.png")

# %% [markdown]
# ## Exercise
#
# Some sequences are shorter than others, and filled up with padding. No word may attend to padding.


# %%
def answer(S: tt.Tensor, real: tt.Tensor) -> tt.Tensor:
    """The weights for scores S (n, n), where real (n) is True for words and False for padding."""
    ...


# %%
def check(answer) -> str:
    S, real = tt.tensor([[1.0, 2, 3], [0, 0, 9], [5, 1, 2]]), tt.tensor([True, True, False])
    given, right = answer(S, real), S[:, :2].softmax(-1)
    if given is None:
        return "not solved yet. Hint: -∞ in the columns of the padding, before softmax; `masked_fill` writes it."
    well = given[:, 2].tolist() == [0, 0, 0] and (given[:, :2] - right).abs().max().item() < 1e-6
    return "right" if well else f"wrong: {right.tolist()} and 0 for the padding are right; you give {given.tolist()}."


print("exercise:", check(answer))

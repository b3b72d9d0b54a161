# %% [markdown]
# # Attention by hand
#
# How does a word get information from the others? It takes an average of them, with weights that it chooses itself.
# Document 002 (see `documents.md`) begins without a single parameter: the weights are the softmax (lesson 6) of dot
# products, which are large for vectors that point the same way.
#
# $$ y_i = \sum_j w_{ij} \, x_j \qquad w_{ij} = \text{softmax}_j (x_i \cdot x_j) $$
#
# Each word here has four properties. Predict: which words does "woman" look at most?

# %%
import math
from pathlib import Path

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
tt.manual_seed(0)


def table(values, columns, title, unit, name, alt):
    figure, [[panel]] = plots.panels(size=(5.6, 3))
    shown = plots.heat(panel, values, words, columns, numbers=True, bounds=(0, 1 if unit == "weight" else 2))
    figure.colorbar(shown, label=unit)
    panel.set(title=title)
    return plots.show(figure, FIGURES / f"09_attention_{name}.png", alt=alt)


words, properties = ["king", "queen", "man", "woman", "apple"], ["royal", "male", "female", "edible"]
X = tt.tensor([[2.0, 1, 0, 0], [2, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2]])  # (words, properties)
w = (X @ X.mT).softmax(-1)
table(w, words, "without parameters: row looks at column", "weight", "plain", "Woman looks at queen and woman, 0.32.")

# %% [markdown]
# "woman" looks at "queen" as much as at "woman": both dot products are 1. The weights of a row are positive and sum to
# 1, so each result lies among the inputs: a "convex combination" (document 001). Attention mixes; it adds nothing.
# But the choice is poor. Each word looks for words like itself. And $x_i \cdot x_j = x_j \cdot x_i$: "king" cannot look
# for "queen" unless "queen" looks for "king" as much.
#
# ## To look for one thing, and to show another
#
# In Algorithm 1 of document 000 each word plays three parts, with a matrix for each: its query says what it looks for,
# its key what it shows, and its value what it passes on to those that look at it.
#
# $$ Q = X W_q \qquad K = X W_k \qquad V = X W_v \qquad
#    Y = \text{softmax} \Big( \frac{Q K^\top}{\sqrt{d_k}} \Big) V $$
#
# Here queries and keys have two components, royal and female: $d_k = 2$. Royal words look for royal ones. Male words
# look for female ones, which they do not show themselves. Training finds such matrices; here we write them by hand.
# Predict: which word does "king" look at most, and does it look back as much? What does "woman" look at?


# %%
def attention(Q, K, V, mask=0.0):
    return (Q @ K.mT / math.sqrt(Q.shape[-1]) + mask).softmax(-1) @ V


W_q = tt.tensor([[1.0, 0], [0, 3], [0, 0], [0, 0]])  # royal looks for royal, male looks for female
W_k = tt.tensor([[1.0, 0], [0, 0], [0, 1], [0, 0]])  # royal shows royal, female shows female
Q, K, V = X @ W_q, X @ W_k, X  # W_v is the unit matrix: each word passes on all that it is
w = attention(Q, K, tt.eye(5))  # with the unit matrix as values, the results are the weights themselves
print("q_king · k_queen", (Q @ K.mT)[0, 1].item(), " q_queen · k_king", (Q @ K.mT)[1, 0].item())
assert w[0].argmax().item() == 1 and abs(w[0, 1] - w[1, 0]) > 0.3
print(prove(attention, (2, 2), (2, 2), (2, 2)))  # true_divide is a score; the conditions are those of lesson 6
table(w, words, "with W_q and W_k: row looks at column", "weight", "directed", "King to queen 0.84, back 0.46.")

# %% [markdown]
# "king" looks at "queen", which alone is royal and female; "queen" looks at both royal words alike. "man" looks at the
# two female words, and neither prefers "man" in return. "woman" and "apple" look for nothing: their queries are 0, and
# they take the mean of all. What do the words become? "king" has received "female" from "queen".

# %%
table(attention(Q, K, V), properties, "what each word becomes", "amount of a property", "result", "King is female.")

# %% [markdown]
# ## Why divide by the root of d_k?
#
# How large is a score? It is a sum of $d_k$ products. If all components of queries and keys are independent and have
# variance 1, so has each product. Predict: which variance has a score for $d_k = 64$, and what is left of it if it is
# divided by 8? Then look what softmax does with large scores: it gives all weight to the largest one. There its
# gradient vanishes: $w_i (\delta_{ij} - w_j)$, from lesson 6, is 0 if each weight is 0 or 1. No gradient, no learning.

# %%
q, k = tt.randn(6000, 64), tt.randn(6000, 64)
print(f"variance of q · k: {(q * k).sum(-1).var().item():.1f}, of q · k / 8: {((q * k).sum(-1) / 8).var().item():.2f}")
factors = 0.1 * 1.15 ** tt.arange(40)
weights = (factors.unsqueeze(1) * tt.tensor([1.0, 0.8, 0.3, -0.5])).softmax(-1)  # (40, 4)
curves = {f"weight of score {s}": weights[:, i] for i, s in enumerate((1.0, 0.8, 0.3, -0.5))}
figure, [[panel]] = plots.panels(size=(6.4, 3.2))
plots.lines(panel, factors, curves | {"slope w (1 - w) of the first": weights[:, 0] * (1 - weights[:, 0])}, linewidth=2)
panel.set(xscale="log", xlabel="factor on the scores", ylabel="weight; slope", title="from a mean to one choice")
plots.show(figure, FIGURES / "09_attention_scale.png", alt="With the factor one weight goes to 1, the slope to 0.")

# %% [markdown]
# Variances of independent terms add up to $d_k$ (001), so the root of $d_k$ is how large a score is.
#
# ## The mask
#
# A model that writes from left to right must not read later words: they are what it is to predict. Eqs. (4) and (5) of
# document 003 add -∞ to the scores of later words. $e^{-\infty}$ is 0, and the others' weights still sum to 1. (If you
# set weights to 0 after softmax, they do not.) A mask may close a whole row, such as one of **padding**, which fills
# short texts up. Then softmax divides 0 by 0, and the gradient of all keys is NaN, even if the loss does not read this
# row: 0 · NaN is NaN. With -1e9 in place of -∞ the scores of the row are rounded to one number, so its result is a
# mean, and sends back 0. Predict: what is the first row in the picture, and what does "king" look at now?

# %%
for closed in (-math.inf, -1e9):
    keys, mask = K.clone().requires_grad_(), tt.tensor([[0.0]] * 4 + [[closed]])  # the row of "apple" is closed
    attention(Q, keys, V, mask)[:4].sum().backward()  # the loss reads the other rows
    print(f"a row closed by {closed}: {keys.grad.isnan().sum().item()} of {K.numel()} gradients of the keys are NaN")
w = attention(Q, K, tt.eye(5), mask=tt.full((5, 5), -math.inf).triu(1))  # -∞ above the diagonal
table(w, words, "masked: row looks at column", "weight", "masked", "No weight lies above the diagonal.")

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/09_attention.py`. Each has a check.

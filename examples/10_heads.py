# %% [markdown]
# # Heads
#
# In lesson 9 a word takes one average of the others. What if it needs two things, from two different words? "Using a
# single attention head can lead to averaging over these effects", says document 000 (see `documents.md`). Is it so?
# Here is a task on which it shows. Of six numbers, one carries flag A and one flag B. Return the number a of flag A and
# the number b of flag B, in this order. The scores see only the flags; the values are the numbers.
#
# One head returns one number, m = λ a + μ b at best, with weights λ + μ = 1. We can multiply it by one factor c for a,
# and by another for b. Let the numbers be independent, with mean 0 and variance 1. Then the mean squared error of c m
# as a guess of a is $(c \lambda - 1)^2 + c^2 \mu^2$, smallest for $c = \lambda / (\lambda^2 + \mu^2)$. This leaves
#
# $$ \text{error of } a = 1 - \frac{\lambda^2}{\lambda^2 + \mu^2} \qquad
#    \text{error of } b = 1 - \frac{\mu^2}{\lambda^2 + \mu^2} $$
#
# Predict: which mean of both errors is the best that one head can reach, and for which λ? And two heads?

# %%
import math
import os
from pathlib import Path

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
STEPS = 400 if not os.environ.get("NUMBA_DISABLE_JIT") else 8  # few if the kernels run as slow, plain Python
tt.manual_seed(0)


def learn(heads):
    u, W_o = (tt.randn(heads, 2, requires_grad=True) for _ in range(2))  # scores are u · flags
    optimizer, errors = tt.optim.Adam([u, W_o], lr=0.05), []
    for _ in range(STEPS):
        values, order = tt.randn(256, 6, 1), tt.rand(256, 6).argsort(1)
        flags = tt.stack([order == 0, order == 1], dim=1).to(tt.float32)  # (256, 2, 6)
        heard = (u @ flags).softmax(-1) @ values  # the weights are (256, heads, 6), the averages (256, heads, 1)
        error = ((heard.mT @ W_o - (flags @ values).mT) ** 2).mean()  # of (256, 1, 2)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(error.item())
    return errors, u.detach(), W_o.detach()


one, two = learn(1), learn(2)
last = {name: sum(errors[-50:]) / len(errors[-50:]) for name, errors in (("one head", one[0]), ("two heads", two[0]))}
print("errors of the last 50 steps:", last)
assert STEPS < 400 or (last["one head"] > 0.45 and last["two heads"] < 0.02)

figure, [[panel]] = plots.panels(size=(6.4, 3.2))
plots.lines(panel, range(STEPS), {"one head": one[0], "two heads": two[0]}, linewidth=1.5)
panel.axhline(0.5, color="black", linestyle=":", linewidth=1)
panel.set(xlabel="step", ylabel="mean squared error", ylim=(0, None), title="two numbers, from one head and from two")
plots.show(figure, FIGURES / "10_heads_errors.png", alt="One head stays at 1/2; two heads come near 0 in 60 steps.")

# %% [markdown]
# The two errors sum to 1, so their mean is 1/2, whatever λ is. (Attending to other numbers, too, is worse.) No training
# helps: one average does not hold two numbers. Two heads have no such limit.
#
# ## What does each head look at?
#
# Predict: of two heads, does each look at one flag?

# %%
flags = tt.tensor([[0.0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0]])  # flag A on the second number, flag B on the fifth
weights = (tt.cat([one[1], two[1]]) @ flags).softmax(-1)  # (3, 6)
figure, [[panel]] = plots.panels(size=(6.4, 2.6))
rows, columns = ["the only head", "head 1 of 2", "head 2 of 2"], ["", "flag A", "", "", "flag B", ""]
figure.colorbar(plots.heat(panel, weights, rows, columns, numbers=True, bounds=(0, 1)), label="weight")
panel.set(title="how each head spreads its attention over six numbers")
print("W_o of two heads, from head 1 and 2 (rows) to a and b (columns):", two[2].tolist(), sep="\n")
plots.show(figure, FIGURES / "10_heads_weights.png", alt="The only head has chosen A; of two heads one looks at B.")

# %% [markdown]
# Here the only head has chosen one number, and gives up the other. Of two heads, one looks at one flag, the other at
# both! That is enough: two different averages are two equations for a and b, and $W_o$, which was trained with the
# heads, solves them. It makes a of much of one head, minus some of the other. So do not expect that each head of a
# trained model has a job with a name. Only all heads with $W_o$ have one.
#
# ## Side by side, then one matrix
#
# Document 003 writes it with the letter W for $W_o$. In eq. (7), ⊕ puts the results of the heads side by side; eq. (8)
# multiplies with W. Row by row of W, this is a sum over the heads, each with its own part $W_h$ of the rows:
#
# $$ \hat{Y}_i = Y_i^{(1)} \oplus \dots \oplus Y_i^{(H)} \quad (7) \qquad
#    A_i = \hat{Y}_i \, W = \sum_h Y_i^{(h)} \, W_h \quad (8) $$
#
# Do more heads need more weights? In a model of width D each of H heads has the width K = D / H. Predict: how many
# numbers do W and the $W_q$, $W_k$, $W_v$ of all heads hold for D = 32, with one head? And with four? And the
# variance of the scores, divided by √K (lesson 9), or by the root of the model's width, √D?


# %%
def multi_head(X, W_q, W_k, W_v, W):
    """X (n, D), W_q, W_k, W_v (H, D, K), W (H K, D) give (n, D): all heads at once, as the first dimension."""
    Q, K, V = X @ W_q, X @ W_k, X @ W_v  # (H, n, K) each
    Y = (Q @ K.mT / math.sqrt(Q.shape[-1])).softmax(-1) @ V  # (H, n, K)
    return Y.transpose(0, 1).flatten(1) @ W  # side by side, (n, H K), then (n, D)


X = tt.randn(50, 32, dtype=tt.float64)
for H in (1, 4):
    heads, W = [tt.randn(H, 32, 32 // H).double() / math.sqrt(32) for _ in range(3)], tt.randn(32, 32).double()
    alone = [multi_head(X, *(w[h : h + 1] for w in heads), W.unflatten(0, (H, -1))[h]) for h in range(H)]
    assert (multi_head(X, *heads, W) - sum(alone)).abs().max().item() < 1e-9  # (8) as a sum over the heads
    scores = (X @ heads[0]) @ (X @ heads[1]).mT  # (H, 50, 50)
    by_head, by_model = ((scores / math.sqrt(width)).var().item() for width in (32 // H, 32))
    print(f"H = {H}: {sum(w.numel() for w in (*heads, W)):,} numbers; variance {by_head:.2f} and {by_model:.2f}")
print(prove(multi_head, (2, 2), (2, 2, 1), (2, 2, 1), (2, 2, 1), (2, 2)))

# %% [markdown]
# Both hold 4 D² numbers: heads divide the width among themselves. But each compares words by fewer components, K. (The
# conditions of the proof are those of lesson 6, here for the scores of each head.) So a score is a sum of K products:
# divided by √D it is too small, by √H, and the weights of all heads are nearer to a mean than they should be.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/10_heads.py`. Each has a check.

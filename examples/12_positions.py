# %% [markdown]
# # Positions: who bit whom?
#
# "The food was bad, not good at all" and "The food was good, not bad at all" are the same words (document 000, see
# `documents.md`). How can attention tell which it reads? It cannot: a weighted sum does not know the order.

# %%
import os
import sys
from pathlib import Path

import sympy

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.attention import algorithm_1  # attention as in lesson 9, by 000's name
from models.transformer import positional_encoding

FIGURES = Path("runs/lessons")
STEPS, BATCH, TESTS = (1, 1, 1) if os.environ.get("NUMBA_DISABLE_JIT") else (600, 64, 500)  # few for kernels in Python
SHORT, LONG, BACK, V, D = 16, 64, 3, 8, 32
tt.manual_seed(0)
bad, good = (f"the food was {a} not {b} at all".split() for a, b in (("bad", "good"), ("good", "bad")))
word, W = {w: tt.randn(D) for w in bad}, tt.randn(3, D, D) / D**0.5  # a vector for each word, random weights

# %% [markdown]
# ## The encoding
#
# So position n gets a vector r_n of its own, which is added to that of the word (000 and 004; n and i begin at 0):
#
# $$ r_{n,2j} = \sin(n\,\omega_j), \qquad r_{n,2j+1} = \cos(n\,\omega_j), \qquad \omega_j = 10000^{-2j/D} $$
#
# It is tempting to add the number n itself, but at n = 100 it would drown the word; no entry of r is larger than 1.
# Predict: we average what attention makes of each sentence. By how much do the two averages differ without r?

# %%
r = tt.tensor(positional_encoding(LONG, D), dtype=tt.float32)  # (64, 32)
for name, positions in (("without", 0.0), ("with", r[: len(bad)])):
    means = [algorithm_1(tt.stack([word[w] for w in sentence]) + positions, *W).mean(0) for sentence in (bad, good)]
    print(name, f"positions the two sentences differ by {(means[0] - means[1]).abs().max().item():.0e}")
    assert tt.allclose(*means, atol=1e-5) == (name == "without")
figure, [[panel]] = plots.panels(size=(6.4, 3.4))
figure.colorbar(plots.heat(panel, r.T, signed=True), label="r")
panel.set(xlabel="position n", ylabel="component i", title="the encoding: fast waves above, slow ones below")
plots.show(figure, FIGURES / "12_positions.png", alt="Waves: component 0 repeats after 6 positions, 31 hardly moves.")

# %% [markdown]
# ## Clocks, and a shift that is a rotation
#
# Why sine and cosine? Together they are the tip of a clock's hand at the angle nω. Each pair of components is a clock,
# slower than the one before. (A sine alone is the same at 1 and 5 o'clock.) "For any fixed offset k, $r_{n+k}$ can be
# represented as a linear function of $r_n$" (002). Which one? k positions turn a hand by kω, wherever it is: proved.

# %%
n, k, ω = sympy.symbols("n k ω")
hand = sympy.Matrix([sympy.sin(n * ω), sympy.cos(n * ω)])
turn = sympy.Matrix([[sympy.cos(k * ω), sympy.sin(k * ω)], [-sympy.sin(k * ω), sympy.cos(k * ω)]])
assert sympy.simplify(turn * hand - hand.subs(n, n + k)).is_zero_matrix
figure, [clocks] = plots.panels(1, 4, size=(7.6, 2.5))
for clock, i in zip(clocks, (0, 4, 8, 12)):
    clock.plot(*zip(*[(x.sin().item(), x.cos().item()) for x in tt.linspace(0, 6.3, 60)]), "k-", linewidth=0.8)
    for at, colour, dash in ((5, plots.COLOURS[0], "-"), (8, plots.COLOURS[1], "--")):
        clock.plot([0, r[at, i].item()], [0, r[at, i + 1].item()], dash, color=colour, linewidth=2.5, label=f"n = {at}")
    clock.set(title=f"components {i}, {i + 1}", aspect="equal", xticks=[], yticks=[])
figure.legend(*clocks[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
plots.show(figure, FIGURES / "12_positions_clocks.png", alt="Three positions turn each hand, the first one the most.")

# %% [markdown]
# ## Does it extrapolate?
#
# So a model can "attend to k steps away", says 002, and "extrapolate to sequence lengths longer than the ones
# encountered during training". Can it? A layer learns at length 16 which of 8 tokens stood 3 positions before; we test
# it at 64. Another layer learns a vector for each position (the P of document 003). Predict: how often is it right
# beyond position 16, where these vectors remain as they were drawn?


# %%
def train(kind: str):  # the part of right answers at each position
    P = {"sinusoids": r, "learned": tt.randn(LONG, D).requires_grad_(), "none": tt.zeros(LONG, D)}[kind]
    E, Q, K, W, O = ((tt.randn(m, n) / D**0.5).requires_grad_() for m, n in [(V, D), *3 * [(D, D)], (D, V)])
    optimizer = tt.optim.AdamW([p for p in (E, P, Q, K, W, O) if p.requires_grad], lr=5e-3)

    def logits(t):
        X = E[t] * D**0.5 + P[: t.shape[1]]
        return (F.scaled_dot_product_attention(X @ Q, X @ K, X @ W, is_causal=True) @ O)[:, BACK:]

    @tt.compile  # recorded once, then replayed (lesson 18)
    def step():
        t = tt.randint(0, V, (BATCH, SHORT))
        optimizer.zero_grad()
        F.cross_entropy(logits(t).flatten(0, 1), t[:, :-BACK].flatten()).backward()
        optimizer.step()

    for _ in range(STEPS):
        step()
    t = tt.randint(0, V, (TESTS, LONG))
    return (logits(t).argmax(-1) == t[:, :-BACK]).float().mean(0)


curves = {kind: train(kind) for kind in ("sinusoids", "learned", "none")}
for kind, curve in curves.items():
    inside, outside = (part.mean().item() for part in curve.split([SHORT - BACK, LONG - SHORT]))
    print(f"{kind:<10} right at positions seen in training {inside:.0%}, beyond {outside:.0%}")
    assert STEPS == 1 or ((inside > 0.95) == (kind != "none") and outside < 0.9)
figure, [[panel]] = plots.panels(size=(6.4, 3.6))
plots.lines(panel, range(BACK, LONG), curves | {"guessing": [1 / V] * (LONG - BACK)})
panel.axvline(SHORT - 0.5, color="black", linewidth=0.8)
panel.set(xlabel="position (in training up to the line)", ylabel="part that is right", title="three steps back")
plots.show(figure, FIGURES / "12_positions_extrapolation.png", alt="All fall at position 16. Sinusoids come and go.")

# %% [markdown]
# Not by itself. Beyond the line the learned vectors guess. The sinusoids work again at some positions where the clocks
# come round, and fail again: training at 16 positions says nothing about the others.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/12_positions.py`. Each has a check.

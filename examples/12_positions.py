# %% [markdown]
# # Positions: who bit whom?
#
# "The food was bad, not good at all" and "The food was good, not bad at all" are the same words (000). How can
# attention tell which sentence it reads? It cannot: a weighted sum does not know the order of its terms.

# %%
import sys
from pathlib import Path

import sympy

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.attention import algorithm_1
from models.transformer import positional_encoding

FIGURES = Path("runs/lessons")
SHORT, LONG, BACK, V, D = 16, 64, 3, 8, 32
tt.manual_seed(0)
bad, good = (f"the food was {a} not {b} at all".split() for a, b in (("bad", "good"), ("good", "bad")))
word, W = {w: tt.randn(32) for w in bad}, tt.randn(3, 32, 32) / 32**0.5  # a vector for each word, random weights

# %% [markdown]
# ## The encoding
#
# So position n gets a vector that is added to its word: x̃_n = x_n + r_n, with r_ni = sin(n / T^{i/D}) for even i and
# cos(n / T^{(i−1)/D}) for odd i, T = 10⁴ (000, 004; 000 says there that i is the position, but that is n). It is
# tempting to add n itself, but at n = 100 it would drown the word. Here each pair of components is the hand of a clock.

# %%
r = tt.tensor(positional_encoding(64, 32), dtype=tt.float32)
for name, positions in (("without", 0.0), ("with", r[: len(bad)])):  # the mean output of Algorithm 1 of 000
    means = [algorithm_1(tt.stack([word[w] for w in sentence]) + positions, *W).mean(0) for sentence in (bad, good)]
    print(name, f"positions the two sentences differ by {(means[0] - means[1]).abs().max().item():.0e}")
    assert tt.allclose(*means, atol=1e-5) == (name == "without")
plots.show(plots.positions(r), FIGURES / "12_positions.png")

# %% [markdown]
# ## A shift is a rotation
#
# "For any fixed offset k, r_{n+k} can be represented as a linear function of r_n" (002). Which one? Each hand turns by
# an angle kω of its own, from any position. Proved for one hand, and all n, k and ω:

# %%
n, k, ω = sympy.symbols("n k ω")
hand = sympy.Matrix([sympy.sin(n * ω), sympy.cos(n * ω)])
turn = sympy.Matrix([[sympy.cos(k * ω), sympy.sin(k * ω)], [-sympy.sin(k * ω), sympy.cos(k * ω)]])
assert sympy.simplify(turn * hand - hand.subs(n, n + k)).is_zero_matrix

# %% [markdown]
# ## Does it extrapolate?
#
# So a model can "attend to k steps away", says 002, and "extrapolate to sequence lengths longer than the ones
# encountered during training". Can it? A layer learns at length 16 which token stood 3 places before; we test it at 64.


# %%
def train(kind: str):  # the part of right answers at each place
    P = {"sinusoids": r, "learned": tt.randn(LONG, D).requires_grad_(), "none": tt.zeros(LONG, D)}[kind]
    E, Q, K, W, O = ((tt.randn(m, n) / D**0.5).requires_grad_() for m, n in [(V, D), *3 * [(D, D)], (D, V)])
    optimizer = tt.optim.AdamW([p for p in (E, P, Q, K, W, O) if p.requires_grad], lr=5e-3)

    def logits(t):
        X = E[t] * D**0.5 + P[: t.shape[1]]
        return (F.scaled_dot_product_attention(X @ Q, X @ K, X @ W, is_causal=True) @ O)[:, BACK:]

    @tt.compile
    def step():
        t = tt.randint(0, V, (64, SHORT))
        optimizer.zero_grad()
        F.cross_entropy(logits(t).flatten(0, 1), t[:, :-BACK].flatten()).backward()
        optimizer.step()

    for _ in range(600):
        step()
    t = tt.randint(0, V, (500, LONG))
    return (logits(t).argmax(-1) == t[:, :-BACK]).float().mean(0)


curves = {kind: train(kind) for kind in ("sinusoids", "learned", "none")}
for kind, curve in curves.items():
    inside, outside = (part.mean().item() for part in curve.split([SHORT - BACK, LONG - SHORT]))
    print(f"{kind:<10} right at places seen in training {inside:.0%}, beyond {outside:.0%}")
    assert (inside > 0.95) == (kind != "none") and outside < 0.9
figure, [[panel]] = plots.panels()
plots.lines(panel, range(BACK, LONG), curves)
panel.axvline(SHORT - 0.5, color="black", linestyle="-", linewidth=0.8)
panel.set(xlabel="position (in training up to the line)", ylabel="part that is right", title="three steps back")
plots.show(figure, FIGURES / "12_positions_extrapolation.png")

# %% [markdown]
# Not by itself. The learned vectors beyond the line were never trained. The sinusoids fail there too, work again at
# some places where the clocks come round, and fail again: training at 16 places says nothing about the others.
#
# ## Exercise
#
# The distance k of two places can be read from r_n · r_{n+k}, which does not depend on n. Which function of k is it?


# %%
def answer(k: int, d: int) -> float:
    """r_n · r_{n+k}, with d components (d even)."""
    ...


def check(answer) -> str:
    if answer(0, 32) is None:
        return "not solved yet. Hint: sin a sin b + cos a cos b = cos(a − b), once for each clock."
    for d, n, k in ((32, 0, 0), (32, 5, 3), (8, 40, 7)):
        found, true = answer(k, d), positional_encoding(64, d)[n] @ positional_encoding(64, d)[n + k]
        if not abs(found - true) < 1e-9:
            return f"wrong: r_{n} · r_{n + k} with {d} components is {true:.4f}, not {found:.4f}."
    return "right"


print("exercise:", check(answer))

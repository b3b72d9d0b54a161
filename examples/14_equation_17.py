# %% [markdown]
# # Equation (17): a gradient for any size
#
# Document 003 (see `documents.md`) lists in (17) the gradients that training needs, and says that one gets them "going
# through chains of Jacobian matrices", "without going into excess detail". Which details are these? We derive one of
# the gradients, ∂𝓛/∂Q, with every size left as a symbol, prove it, and run it. First softmax alone, by hand.
#
# Indices do it without matrices. In one row $σ_m = e_m / T$, with $e_m = \exp S_m$ and $T = Σ_m e_m$. S_n stands in its
# own e_n, with the derivative e_n, and by way of T in all σ_m, where the derivative of 1/T is −1/T². So
#
# $$ \frac{\partial σ_m}{\partial S_n} = \frac{δ_{mn} e_n}{T} - \frac{e_m e_n}{T^2} = σ_n (δ_{mn} - σ_m) $$
#
# $$ \frac{\partial 𝓛}{\partial S_n} = \sum_m \frac{\partial 𝓛}{\partial σ_m} \frac{\partial σ_m}{\partial S_n}
# = σ_n \Big( \frac{\partial 𝓛}{\partial σ_n} - \sum_m σ_m \frac{\partial 𝓛}{\partial σ_m} \Big) $$
#
# (δ is 1 where its indices are equal, else 0.) The project's index calculus does this for whole programs. There an
# index has a size, up to which it runs; an array has a size for each of its indices; `total(x, m)` is Σ_m x.

# %%
import sys
from pathlib import Path

import numpy as np
from sympy import Add, exp, expand, sqrt, symbols

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from derivations.adjoints import Program, line, prove_form, with_adjoints
from derivations.claims import Refuted
from models.decoder import Config, Decoder
from tinytensor.symbolic.index_calculus.adjoints import d
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, total
from tinytensor.symbolic.index_calculus.notation import tex, text

FIGURES = Path("runs/lessons")
C, D, K = Size("C", "i m p"), Size("D", "j n"), Size("K", "k")  # positions, width, width of a head; letters for each
i, m, j, k = Index("i", C), Index("m", C), Index("j", D), Index("k", K)
Z, Q, q, keys, v, Y = (Array(name, sizes) for name, sizes in zip("ZQqkvY", [(C, D), (D, K), *4 * [(C, K)]]))
M, S, e, σ, T = *(Array(name, (C, C)) for name in "MSeσ"), Array("T", (C,))

# %% [markdown]
# **A head as a program.** These are (2) to (6) for one head: q, k, v are Z Q, Z K and Z V of (2); M_im is 1 where
# position i may look at position m, else 0. Q alone is learned. `let` adds a line, and refuses indices that do not fit.

# %%
forward = Program([Q[j, k]], [Z, keys, v, M])
forward.let(q[i, k], total(Z[i, j] * Q[j, k], j))  # (2)
forward.let(S[i, m], total(q[i, k] * keys[m, k], k) / sqrt(K))  # (3)
forward.let(e[i, m], M[i, m] * exp(S[i, m]))  # (4), (5)
forward.let(T[i], total(e[i, m], m))  # (6)
forward.let(σ[i, m], e[i, m] / T[i])  # (6)
forward.let(Y[i, k], total(σ[i, m] * v[m, k], m))  # (6)

# %% [markdown]
# ## Backward, line by line
#
# `with_adjoints` goes back from ∂𝓛/∂Y, which the rest of the model sends. SymPy differentiates each line on its own; a
# name that two lines use gets the sum of what comes from both. That is the tape's rule (lesson 3), on symbols. Predict:
# which name is it here? In the picture each arrow is one step, with what it sends back.

# %%
backward = with_adjoints(forward, Y)
print(*[f"{text(one.left):>9} = {text(one.right)}" for one in backward.lines if one.is_adjoint], sep="\n")
places = {Q: (0, 0), q: (1.6, 0), S: (3.2, 0), e: (4.7, 0), T: (5.6, 1), σ: (6.5, 0), Y: (8.2, 0)}
figure, [[panel]] = plots.panels(size=(9, 3))
for start, end, colour in zip((Y, σ, σ, T, e, S, q), (σ, T, e, e, S, q, Q), 2 * plots.COLOURS[:4]):
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 2, "shrinkA": 14, "shrinkB": 14}
    panel.annotate("", places[end], places[start], arrowprops=style)
    share = sum(one for one in Add.make_args(backward[d(end)].right) if d(start) in one.atoms(Array))
    (x, y), beside = np.mean([places[start], places[end]], axis=0), 1.05 if end is T else -0.5
    at = (x + beside, y + 0.2) if T in (start, end) else (x, y - 0.6)
    panel.text(*at, f"${tex(share)}$", size=17, ha="center", va="center", color=colour, math_fontfamily="cm")
for name, at in places.items():
    panel.text(*at, name.text, size=16, ha="center", va="center", bbox={"boxstyle": "round", "facecolor": "white"})
panel.set(xlim=(-0.4, 8.6), ylim=(-1.1, 1.3))
panel.set_axis_off()
plots.show(figure, FIGURES / "14_equation_17.png", alt="From Y back to Q. Two arrows meet at e: from σ, and from T.")

# %% [markdown]
# **Is it what we found by hand?** `prove_form` replaces names by their definitions until both sides are one expression,
# so that a formula holds for every size. A common mistake is σ ∂𝓛/∂σ, as if T did not depend on S.

# %%
through = (e, σ, d(e), d(T))  # d(x) is ∂𝓛/∂x
prove_form(backward, d(S)[i, m], σ[i, m] * (d(σ)[i, m] - total(σ[i, m] * d(σ)[i, m], m)), through)
try:
    prove_form(backward, d(S)[i, m], σ[i, m] * d(σ)[i, m], through)
except Refuted as refuted:
    print("refuted:", refuted)

# %% [markdown]
# It runs, too: `line` writes each line for NumPy. Beside it runs the engine, with its own kernel and rule.

# %%
print(program := "\n".join(line(one) for one in backward.lines))
size, rng = type("size", (), {"C": 7, "D": 5, "K": 4}), np.random.default_rng(0)  # any other sizes will do
given = {n: rng.normal(size=s) for n, s in zip(("Z", "Q", "k", "v", "dY"), ((7, 5), (5, 4), *3 * [(7, 4)]))}
names = given | {"M": np.tri(7), "size": size, "np": np}
exec(program, names)
z, w, keys_, v_, dy = (tt.tensor(array, requires_grad=True) for array in given.values())
F.scaled_dot_product_attention(z @ w, keys_, v_, is_causal=True).backward(dy.detach())
assert np.allclose(w.grad.numpy(), names["dQ"], rtol=0, atol=1e-12)  # derivation and engine agree

# %% [markdown]
# **Equation (19), counted.** N = [(4D + 1) D + (2D + 1) F] L + (C + 2V) D. A model "on meta" has shapes and no numbers,
# so its sizes may be symbols, and its number of parameters is a formula: for one layer, for two, and so for any L.

# %%
D, F_, V, C, L = symbols("D F V C L", positive=True)
one, two = (Decoder(Config(D=D, H=1, F=F_, V=V, C=C, L=layers), "meta").num_parameters() for layers in (1, 2))
print("counted:", counted := expand(one + (L - 1) * (two - one)))
assert expand(counted - ((4 * D + 1) * D + (2 * D + 1) * F_) * L - (C + 2 * V) * D) == 0

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/14_equation_17.py`. Each has a check.

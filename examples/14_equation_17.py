# %% [markdown]
# # Equation (17): a gradient for any size
#
# Document 003 lists in (17) the gradients that training needs, and says that one gets them "going through chains of
# Jacobian matrices", "without going into excess detail". Which details are these? We derive one of the gradients,
# ∂𝓛/∂Q, with every size left as a symbol; then we print it, prove it, and run it.

# %%
import sys
from pathlib import Path

import numpy as np
from sympy import expand, symbols

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.symbolic import prove
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from derivations.calculus.adjoints import d, prove_form, with_adjoints
from derivations.calculus.formulas import total
from derivations.calculus.notation import tex, text
from derivations.claims import Refuted
from derivations.equations import ZK, ZQ, ZV, M, Q, S, T, Y, Z, block, e, h, i, j, k, m, σ
from derivations.proofs.program import line
from models.decoder import Config, Decoder

FIGURES = Path("runs/lessons")

# %% [markdown]
# The forward pass is (2) to (6), as `derivations/equations.py` has them. Sums are written out, and indices run over
# ranges that are symbols. M_im is 1 where position i may look at position m.

# %%
forward = block().excerpt([ZQ, S, e, T, σ, Y], [Q[h, j, k]], [Z, ZK, ZV, M])  # Q alone is learned
print(*[f"{text(one.left):>14} = {text(one.right):<28} {one.source}" for one in forward.lines], sep="\n")

# %% [markdown]
# ## Backward, line by line
#
# SymPy differentiates each line on its own; a name that several lines use gets the sum of the gradients from all of
# them. That is the tape's rule (lesson 3), on symbols. It begins at ∂𝓛/∂Y, which the rest of the model sends.

# %%
backward = with_adjoints(forward, Y)
derived = [one for one in backward.lines if one.is_adjoint]
print(*[f"{text(one.left):>14} = {text(one.right)}" for one in derived], sep="\n")
figure = plots.panels(size=(8, 4.8))[0]
figure.clear()  # formulas need no axes
for place, one in enumerate([*forward.lines, *derived]):
    at = (0.03 + place // 6 * 0.45, 0.91 - place % 6 * 0.165)
    figure.text(*at, f"${tex(one.left)} = {tex(one.right)}$", size=17, va="center", math_fontfamily="cm")
plots.show(figure, FIGURES / "14_equation_17.png")

# %% [markdown]
# ## The formula as written by hand
#
# For the softmax that is ∂𝓛/∂S = σ (∂𝓛/∂σ − Σ σ ∂𝓛/∂σ). Names are replaced by their definitions until both sides are
# one expression, so the formula holds for every size. A common mistake is σ ∂𝓛/∂σ, as if T did not depend on S.

# %%
weight, d_weight, through = σ[h, i, m], d(σ)[h, i, m], (e, σ, d(e), d(T))
prove_form(backward, d(S)[h, i, m], weight * (d_weight - total(weight * d_weight, m)), through)
try:
    prove_form(backward, d(S)[h, i, m], weight * d_weight, through)
except Refuted as refuted:
    print("refuted:", refuted)

# %% [markdown]
# It runs, too: each line is an `einsum`. Beside it runs the engine, with its own kernel and rule, proved at one size.

# %%
print(program := "\n".join(line(one) for one in backward.lines))
size, rng = type("size", (), {"H": 3, "C": 7, "D": 5, "K": 4}), np.random.default_rng(0)  # any other sizes will do
shapes = {Z: (size.C, size.D), Q: (size.H, size.D, size.K)} | dict.fromkeys((ZK, ZV, d(Y)), (size.H, size.C, size.K))
given = {str(name.label): rng.normal(size=shape) for name, shape in shapes.items()}
names = given | {"M": np.tri(size.C), "size": size, "einsum": np.einsum, "exp": np.exp, "sqrt": np.sqrt}
exec(program, names)
z, q, zk, zv, dy = (tt.tensor(array, requires_grad=True) for array in given.values())
F.scaled_dot_product_attention(z @ q, zk, zv, is_causal=True).backward(dy.detach())
assert np.allclose(q.grad.numpy(), names["dQ"], rtol=0, atol=1e-12)  # derivation and engine agree
print(prove(F.scaled_dot_product_attention, (2, 2), (2, 2), (2, 1)))

# %% [markdown]
# ## Equation (19), counted
#
# N = [(4D + 1) D + (2D + 1) F] L + (C + 2V) D. A model "on meta" has shapes and no numbers, so its sizes may be
# symbols, and its number of parameters is a formula: for one layer, for two, and by their difference for any L.

# %%
D_, F_, V_, C_, L_ = symbols("D F V C L", positive=True)
one, two = (Decoder(Config(D=D_, H=1, F=F_, V=V_, C=C_, L=L), "meta").num_parameters() for L in (1, 2))
print("counted:", counted := expand(one + (L_ - 1) * (two - one)))
assert expand(counted - ((4 * D_ + 1) * D_ + (2 * D_ + 1) * F_) * L_ - (C_ + 2 * V_) * D_) == 0

# %% [markdown]
# ## Exercise
#
# Y_i = Σ_m σ_im (ZV)_m: what is ∂𝓛/∂(ZV)_m? Write it with `total(expression, index)`, σ and d(Y).


# %%
def answer(h, m, k):
    """∂𝓛/∂ʰ(ZV)_m^k."""
    ...


def check(answer) -> str:
    values = block().excerpt([Y], [ZV[h, m, k]], [σ])
    try:
        if (form := answer(h, m, k)) is None:
            return "not solved yet. Hint: in which Y_i does (ZV)_m appear? Their shares add up: total(..., i)."
        prove_form(with_adjoints(values, Y), d(ZV)[h, m, k], form)
        return "right"
    except (Refuted, TypeError) as refuted:  # TypeError: an index out of place
        return f"wrong: {refuted}"


print("exercise:", check(answer))

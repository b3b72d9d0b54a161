# %% [markdown]
# # Exercises: equation (17)
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. These are the lines of the lesson for one head, from the scores on:
#
#     S_im = Σ_k q_ik k_mk / √K      e_im = M_im exp S_im      T_i = Σ_m e_im      σ_im = e_im / T_i
#     Y_ik = Σ_m σ_im v_mk
#
# In exercises 3 and 4 a formula is written as in the lesson: `total(σ[i, m] * v[m, k], m)`; d(Y)[i, k] is ∂𝓛/∂Y_ik.

# %%
import contextlib
import random
import re
import sys
from pathlib import Path

from judge import Wrong, came, check
from sympy import Expr, Float, Rational, Symbol, sqrt, sympify

import tinytensor as tt

sys.path.append(str(Path(__file__).resolve().parents[2]) if "__file__" in globals() else "../..")
from derivations.adjoints import Program, prove_form, with_adjoints
from derivations.claims import Refuted
from tinytensor.symbolic.index_calculus.adjoints import d, name_of
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, total

C, K = Size("C", "i m p"), Size("K", "k")
i, m, k = Index("i", C), Index("m", C), Index("k", K)
q, keys, v, Y = (Array(name, (C, K)) for name in "qkvY")
M, S, e, σ, T = *(Array(name, (C, C)) for name in "MSeσ"), Array("T", (C,))
t = Symbol("t", real=True)


def prove(program: Program, left: Expr, result: Expr, mistakes: dict[str, Expr], through: tuple = ()) -> None:
    """Raise `Wrong` if `left` is not `result` in the program, for all sizes. mistakes: what to say -> formula."""
    if isinstance(result, bool) or not isinstance(result, Expr | int | float):
        raise Wrong(f"{left}: a formula is asked for, and you return {came(result)}.")
    result = sympify(result)
    result = result.xreplace({x: Rational(str(x)) for x in result.atoms(Float)})  # K ** 0.5 is the root of K
    try:
        prove_form(program, left, result, through)
    except (Refuted, TypeError) as refuted:  # TypeError: an index out of place
        said = re.sub("derived .*?, closed form", "yours is", str(refuted))
        for sentence, wrong in mistakes.items():
            with contextlib.suppress(Refuted, TypeError):
                prove_form(program.replaced(name_of(left), lambda right, wrong=wrong: wrong), left, result, through)
                raise Wrong(f"{said}. {sentence}") from None
        raise Wrong(said) from None


# %% [markdown]
# ## 1 ★ Predict: the matrix that is never formed
#
# "Chains of Jacobian matrices": ∂Y/∂S has one entry for each entry of Y and each entry of S. How many are these, and
# how many of them are not 0? (No mask: M is 1 everywhere.)


# %%
def answer_1(C: int, K: int) -> tuple[int, int]:
    """The number of entries of ∂Y/∂S, and the number of those that are not always 0."""
    ...


@check("Y has C K entries, S has C². And which S does Y_ik depend on?")
def check_1(answer) -> None:
    for C, K in random.sample([(2, 3), (3, 2), (4, 2), (3, 4)], 2):
        S, v = tt.randn(C, C, requires_grad=True), tt.randn(C, K)
        Y = S.softmax(-1) @ v
        rows = [tt.autograd.grad(Y[i, k], S, retain_graph=True)[0] for i in range(C) for k in range(K)]
        right = sum(row.numel() for row in rows), sum((row != 0).sum().item() for row in rows)
        mistakes = {
            "Y_ik depends on row i of S alone.": (..., right[0]),
            "Y_ik depends on each S_im of its row: the sum in softmax holds all of them.": (..., C * K),
            "Y has the shape (C, K), not (C, C).": (C**4, ...),
        }
        names = ("the number of entries", "the number of those that are not 0")
        answer.compare((C, K), right, f"for C = {C}, K = {K}", mistakes, names=names)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: a sum over the wrong index
#
# `answer_2` should be ∂𝓛/∂S = σ (∂𝓛/∂σ − Σ_m σ ∂𝓛/∂σ). It runs, and its result has the right shape: scores are square.


# %%
def answer_2(σ: tt.Tensor, dσ: tt.Tensor) -> tt.Tensor:
    """∂𝓛/∂S (C, C), for the weights σ and ∂𝓛/∂σ, (C, C) each; a row belongs to one i."""
    return σ * (dσ - (σ * dσ).sum(0))


@check("which index does the sum run over, and which one is left?")
def check_2(answer) -> None:
    for C in (2, 1, 5):
        S, dσ = tt.randn(C, C, requires_grad=True), tt.randn(C, C)
        weights = S.softmax(-1)
        weights.backward(dσ)
        σ = weights.detach()
        mistakes = {
            "The sum runs over the rows: i is left in it, and should be m.": σ * (dσ - (σ * dσ).sum(0)),
            "The sum over m has a number for each i, and is read as a row: keep its dimension.": σ
            * (dσ - (σ * dσ).sum(1)),
            "Each row has a sum of its own.": σ * (dσ - (σ * dσ).sum()),
            "The sum is missing: rows of the result should sum to 0.": σ * dσ,
            "In the sum each ∂𝓛/∂σ has its weight σ.": σ * (dσ - dσ.sum(1).unsqueeze(1)),
        }
        answer.compare((σ, dσ), S.grad, f"with C = {C} the gradient of S", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the gradient of the values
#
# Y_ik = Σ_m σ_im v_mk. What is ∂𝓛/∂v_mk, for any size?


# %%
def answer_3(m: Index, k: Index):
    """∂𝓛/∂v_mk, in σ and d(Y); the index i is free for your sum."""
    ...


@check("in which Y_ik does v_mk appear? Their shares add up: total(..., i).")
def check_3(answer) -> None:
    program = Program([v[m, k]], [σ])
    program.let(Y[i, k], total(σ[i, m] * v[m, k], m))
    mistakes = {
        "σ is transposed: which row of σ made Y_ik?": total(σ[m, i] * d(Y)[i, k], i),
        "v_mk stands in Y_ik for every i, not for i = m alone.": σ[m, m] * d(Y)[m, k],
    }
    prove(with_adjoints(program, Y), d(v)[m, k], answer(m, k), mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: a head that learns how sharp it is
#
# Multiply the scores by a number t that is learned: S_im = t Σ_k q_ik k_mk / √K. Extend the program by t, and derive
# ∂𝓛/∂t. It stands in every score, so there is a sum over two indices; S itself may help to write it briefly.


# %%
def answer_4(i: Index, m: Index):
    """(The right-hand side of S_im, in t, q and keys; ∂𝓛/∂t, in d(S) and what you like.) The index k is free."""
    ...


@check("total(..., i, m) sums over two indices. What is the slope of S_im in t?")
def check_4(answer) -> None:
    scores, gradient = answer(i, m)
    plain = total(q[i, k] * keys[m, k], k)
    program = Program([t, q[i, k], keys[m, k]], [])
    program.let(S[i, m], t * plain / sqrt(K))
    prove(program, S[i, m], scores, {"The root of K is missing.": t * plain, "t is missing.": plain / sqrt(K)})
    mistakes = {
        "The slope of S_im in t has no t: divide the score by it.": total(S[i, m] * d(S)[i, m], i, m),
        "t stands in every score, not in those with m = i alone.": total(
            total(q[i, k] * keys[i, k], k) / sqrt(K) * d(S)[i, i], i
        ),
    }
    prove(with_adjoints(program, S), d(t), gradient, mistakes, through=(S,))


print("exercise 4:", check_4(answer_4))

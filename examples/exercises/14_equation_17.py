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
import random
import re
import sys
from pathlib import Path

from sympy import Symbol, sqrt

import tinytensor as tt

sys.path.append(str(Path(__file__).resolve().parents[2]) if "__file__" in globals() else "../..")
from derivations.claims import Refuted
from tinytensor.symbolic.index_calculus.adjoints import Program, d, prove_form, with_adjoints
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, total

C, K = Size("C", "i m p"), Size("K", "k")
i, m, k = Index("i", C), Index("m", C), Index("k", K)
q, keys, v, Y = (Array(name, (C, K)) for name in "qkvY")
M, S, e, σ, T = *(Array(name, (C, C)) for name in "MSeσ"), Array("T", (C,))
t = Symbol("t", real=True)


def refutation(program: Program, left, given, through=()) -> str:
    """One sentence: "right" if `left` is `given` in the program, for all sizes and values; else why not."""
    try:
        prove_form(program, left, given, through)
    except (Refuted, TypeError) as refuted:  # TypeError: an index out of place
        return f"wrong: {re.sub('derived .*?, closed form', 'yours is', str(refuted))}"
    return "right"


# %% [markdown]
# ## 1 ★ Predict: the matrix that is never formed
#
# "Chains of Jacobian matrices": ∂Y/∂S has one entry for each entry of Y and each entry of S. How many are these, and
# how many of them are not 0? (No mask: M is 1 everywhere.)


# %%
def answer_1(C: int, K: int) -> tuple[int, int]:
    """The number of entries of ∂Y/∂S, and the number of those that are not always 0."""
    ...


def check_1(answer) -> str:
    for C, K in random.sample([(2, 3), (3, 2), (4, 2), (3, 4)], 2):
        S, v = tt.randn(C, C, requires_grad=True), tt.randn(C, K)
        Y = S.softmax(-1) @ v
        rows = [tt.autograd.grad(Y[i, k], S, retain_graph=True)[0] for i in range(C) for k in range(K)]
        right = sum(row.numel() for row in rows), sum((row != 0).sum().item() for row in rows)
        given = answer(C, K)
        if given is None:
            return "not solved yet. Hint: Y has C K entries, S has C². And which S does Y_ik depend on?"
        if tuple(given) != right:
            return (
                f"wrong: for C = {C}, K = {K} there are {right[0]} entries, {right[1]} of them not 0; you say {given}."
            )
    return "right"


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: a sum over the wrong index
#
# `answer_2` should be ∂𝓛/∂S = σ (∂𝓛/∂σ − Σ_m σ ∂𝓛/∂σ). It runs, and its result has the right shape: scores are square.


# %%
def answer_2(σ: tt.Tensor, dσ: tt.Tensor) -> tt.Tensor:
    """∂𝓛/∂S (C, C), for the weights σ and ∂𝓛/∂σ, (C, C) each; a row belongs to one i."""
    return σ * (dσ - (σ * dσ).sum(0))


def check_2(answer) -> str:
    for C in (1, 2, 5):
        S, dσ = tt.randn(C, C, requires_grad=True), tt.randn(C, C)
        weights = S.softmax(-1)
        weights.backward(dσ)
        given = answer(weights.detach(), dσ)
        if given is None:
            return "not solved yet. Hint: which index does the sum run over, and which one is left?"
        if (off := (given - S.grad).abs().max().item()) > 1e-5:
            rows = given.sum(1).abs().max().item()
            return f"wrong: with C = {C} an entry is off by {off:.2g}; rows should sum to 0, and one has {rows:.2g}."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the gradient of the values
#
# Y_ik = Σ_m σ_im v_mk. What is ∂𝓛/∂v_mk, for any size?


# %%
def answer_3(m: Index, k: Index):
    """∂𝓛/∂v_mk, in σ and d(Y); the index i is free for your sum."""
    ...


def check_3(answer) -> str:
    program = Program([v[m, k]], [σ])
    program.let(Y[i, k], total(σ[i, m] * v[m, k], m))
    try:
        given = answer(m, k)
    except TypeError as wrong:
        return f"wrong: {wrong}"
    if given is None:
        return "not solved yet. Hint: in which Y_ik does v_mk appear? Their shares add up: total(..., i)."
    return refutation(with_adjoints(program, Y), d(v)[m, k], given)


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


def check_4(answer) -> str:
    try:
        given = answer(i, m)
    except TypeError as wrong:
        return f"wrong: {wrong}"
    if given is None:
        return "not solved yet. Hint: total(..., i, m) sums over two indices. What is the slope of S_im in t?"
    program = Program([t, q[i, k], keys[m, k]], [])
    program.let(S[i, m], t * total(q[i, k] * keys[m, k], k) / sqrt(K))
    if (first := refutation(program, S[i, m], given[0])) != "right":
        return first
    return refutation(with_adjoints(program, S), d(t), given[1], through=(S,))


print("exercise 4:", check_4(answer_4))

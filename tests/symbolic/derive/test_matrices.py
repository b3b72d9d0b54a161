"""Inverses, determinants and Cholesky factors: derivations beside backward() and differences; laws; wrong gradients."""

import itertools

import numpy as np
import pytest

from tests.symbolic.derive.derived_matrices import DD, D, derived, log_det, quadratic, trace_of_inverse
from tinytensor.symbolic import check, derive, positive_definite
from tinytensor.symbolic.derive import check as checking
from tinytensor.symbolic.derive.facts import of_fact
from tinytensor.symbolic.derive.samples import Comparison
from tinytensor.symbolic.index_calculus import linear_algebra, matrix_laws
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, derivative, total, value
from tinytensor.symbolic.index_calculus.functions import upto
from tinytensor.symbolic.index_calculus.linear_algebra import (
    Cholesky,
    Determinant,
    LogAbsDet,
    PositiveDefiniteArray,
    entry,
    in_names,
    inverse_of,
)
from tinytensor.symbolic.index_calculus.matrix_laws import normal_of_matrices
from tinytensor.symbolic.numbers import STYLES

NOISE = "(K + s**2 * eye(len(y)))"
RIDGE = "solve(X.T @ X + lam * eye(X.shape[1]), X.T @ y)"
OUTER = "outer(inv(S) @ (x - m), inv(S) @ (x - m))"
# name in TABLE, argument; wrong gradients of questions, with a part of the answer; right ones
BY_HAND = [
    ("log_det", "A",
     {"-linalg.inv(A).T": "the sign is wrong",
      "linalg.inv(A).T / linalg.det(A)": "the term A⁻¹_id/det(A) is not in the derivative"},
     ["linalg.inv(A).T", "linalg.inv(A.T)", "linalg.solve(A.T, linalg.inv(A) @ A)"]),
    ("determinant", "A",
     {"linalg.inv(A).T": "the term A⁻¹_id is not in the derivative",
      "linalg.det(A) * linalg.inv(A)": "the term det(A) A⁻¹_di is not in the derivative"},
     ["linalg.det(A) * linalg.inv(A).T"]),
    ("inverse", "A",
     {"linalg.inv(A).T @ g @ linalg.inv(A).T": "the sign is wrong",
      "-linalg.inv(A).T @ linalg.inv(A).T @ g": "is not in the derivative",
      "-linalg.inv(A) @ linalg.inv(A) * g": "is not in the derivative"},
     ["-linalg.inv(A).T @ g @ linalg.inv(A).T", "-linalg.inv(A.T) @ g @ inv(A.T)"]),
    ("trace_of_inverse", "A",
     {"-linalg.inv(A) @ linalg.inv(A)": "the term -Σ_j A⁻¹_dj A⁻¹_ji is not in the derivative"},
     ["-(linalg.inv(A) @ linalg.inv(A)).T", "-linalg.matrix_power(A, -2).T"]),
    ("through_inverse", "A", {"-outer(inv(A) @ b, inv(A) @ b)": "is not in the derivative"},
     ["-outer(inv(A).T @ b, inv(A) @ b)"]),
    ("quadratic symmetric", "x", {"A @ x": "the factor 2 is missing"}, ["2 * A @ x"]),
    ("quadratic", "x",
     {"A @ x": "is missing", "A.T @ x": "the term Σ_i x_i A_di is missing", "2 * A @ x": "at D = 2"},
     ["(A + A.T) @ x", "A @ x + x @ A"]),
    ("quadratic", "A", {"2 * outer(x, x)": "the factor 1/2 is missing"}, ["outer(x, x)"]),
    ("trace_of_product of squares", "X",
     {"B @ A": "the term Σ_j A_ji B_dj is not in the derivative", "A.T @ B": "is not in the derivative",
      "B.T @ A.T": "is not in the derivative"}, ["A.T @ B.T", "(B @ A).T"]),
    ("squared_distance", "X",
     {"A.T @ (A @ X - B)": "the factor 2 is missing everywhere", "2 * A.T @ (B - A @ X)": "the sign is wrong"},
     ["2 * A.T @ (A @ X - B)"]),
    ("gaussian positive definite", "S",
     {"inv(S) @ outer(x - m, x - m) @ inv(S) - inv(S)": "the factor 1/2 is missing everywhere",
      f"{OUTER} - 0.5 * inv(S)": "the factor 1/2 is missing in the term A_d A_i",
      f"0.5 * inv(S) - 0.5 * {OUTER}": "the sign is wrong everywhere",
      "-0.5 * (linalg.inv(S) + outer(x - m, x - m))": "the term A_d A_i/2 is missing"},
     ["-0.5 * (linalg.inv(S) - linalg.inv(S) @ outer(x - m, x - m) @ linalg.inv(S))"]),
    ("gaussian positive definite", "m",
     {"inv(S) @ (m - x)": "the sign is wrong", "S @ (x - m)": "the term Σ_i d_i S_id is not in the derivative",
      "2 * solve(S, x - m)": "the factor 1/2 is missing"},
     ["inv(S) @ (x - m)", "cholesky_solve((x - m)[:, None], linalg.cholesky(S))[:, 0]"]),
    ("gaussian_by_cholesky", "S",
     {f"0.5 * (inv(S) - {OUTER})": "the sign is wrong", f"tril({OUTER} - inv(S))": ""},
     [f"0.5 * ({OUTER} - inv(S))", f"0.5 * ({OUTER} - cholesky_inverse(linalg.cholesky(S)))"]),
    ("gaussian", "m", {"inv(S) @ (x - m)": "the factor 1/2"}, ["(inv(S) + inv(S).T) @ (x - m) / 2"]),
    ("divergence positive definite positive definite", "T", {"0.5 * (inv(T) - inv(T) @ S @ inv(T))": "is missing"},
     ["0.5 * (inv(T) - inv(T) @ (S + outer(m - n, m - n)) @ inv(T))"]),
    ("divergence positive definite positive definite", "S",
     {"0.5 * (inv(S) - inv(T))": "the sign is wrong", "inv(T) - inv(S)": "the factor 1/2 is missing"},
     ["0.5 * (inv(T) - inv(S))"]),
    ("evidence positive definite", "K",
     {f"inv({NOISE})": "the factor -1/2 is missing",
      "0.5 * (outer(solve(K, y), solve(K, y)) - inv(K))": "the term -K⁻¹_in/2 is not in the derivative"},
     [f"0.5 * (outer(solve({NOISE}, y), solve({NOISE}, y)) - inv({NOISE}))",
      f"0.5 * (outer(solve({NOISE}.mT, y), solve({NOISE}, y)) - inv({NOISE}.T))"]),
    ("evidence positive definite", "s", {f"-0.5 * s * trace(inv({NOISE}))": "the term s Σ_n Z_n² is missing"},
     [f"s * ((solve({NOISE}, y) ** 2).sum() - trace(inv({NOISE})))"]),
    ("mahalanobis", "x", {"inv(S) @ (x - m)": "the term A_d/𝓛 is missing"},
     ["inv(S) @ (x - m) / sqrt((x - m) @ inv(S) @ (x - m))"]),
    ("ridge", "lam", {f"2 * lam * ({RIDGE} ** 2).sum()": "the term Σ_d w_d² is missing"}, [f"({RIDGE} ** 2).sum()"]),
    ("trace with a symmetric factor", "S", {"(A + A.T) / 2": "is missing"}, ["A.T"]),
    ("trace with a symmetric factor", "A", {}, ["S.T", "S"]),
]  # fmt: skip


@pytest.mark.slow
def test_facts_are_assumptions_and_their_convention_is_said():
    derivation = derived("gaussian positive definite")
    said = "S is symmetric and positive definite; its gradient is that of all entries"
    assert any(said in assumption for assumption in derivation.assumptions)
    assert "where" not in derivation.verdict  # a positive definite matrix is regular, and its determinant above 0
    plain = derived("gaussian")
    assert "every matrix that is inverted is regular" in plain.value_conditions


def test_a_fact_may_be_text():
    for where in ("symmetric(A)", ['symmetric("A")', "D > 1"]):
        derivation = derive(quadratic, where=where, x=D, A=DD)
        assert derivation and any(assumption.startswith("A is symmetric") for assumption in derivation.assumptions)
    assert repr(positive_definite("S")) == 'positive_definite("S")'


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_samples_have_the_property(style, n):
    values = np.random.default_rng(n).normal(size=(n, n))
    assert (of_fact(values, "symmetric", style) == of_fact(values, "symmetric", style).T).all()
    definite = of_fact(values, "positive definite", style)
    assert np.allclose(definite, definite.T) and np.linalg.eigvalsh(definite).min() > 0


def test_samples_meet_both_signs_of_a_determinant():
    signs = {np.sign(np.linalg.det(s.inputs["A"].detach().numpy())) for s in derived("log_abs_det").samples}
    assert {1.0, -1.0} <= signs


SIZE = Size("D_of_laws", "i j k l")
I, J, K, L = (Index(letter, SIZE) for letter in "ijkl")
A_, S_ = Array("A_of_laws", (SIZE, SIZE)), PositiveDefiniteArray("S_of_laws", (SIZE, SIZE))
LOWER = Cholesky(S_)
FORMS = {
    "inverse": (A_, entry(inverse_of(A_), I, J)),
    "inverse of a symmetric matrix": (S_, entry(inverse_of(S_), I, J)),
    "Cholesky": (S_, entry(LOWER, I, J)),
    "inverse of Cholesky": (S_, entry(inverse_of(LOWER), I, J)),
    "Cholesky of an inverse": (S_, entry(Cholesky(inverse_of(S_)), I, J)),
    "determinant": (A_, Determinant(A_)),
    "logarithm of a determinant": (A_, LogAbsDet(A_)),
}


@pytest.fixture
def at():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(3, 3))
    return {SIZE: 3, A_: values, S_: values @ values.T + np.eye(3)}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", FORMS)
def test_derivatives_are_differences(name, at):
    array, form = FORMS[name]
    slope = derivative(form, array[K, L])
    for i, j, k, l in itertools.product((1, 3), (1, 2), (1, 3), (2, 3)):
        numbers = []
        for h in (1e-6, -1e-6):
            moved = np.array(at[array])
            moved[k - 1, l - 1] += h
            numbers.append(float(value(form, at | {array: moved, I: i, J: j})))
        difference = (numbers[0] - numbers[1]) / 2e-6
        assert float(value(slope, at | {I: i, J: j, K: k, L: l})) == pytest.approx(difference, abs=1e-5)


INVERSE, OF_LOWER, OF_SYMMETRIC = inverse_of(A_), inverse_of(LOWER), inverse_of(S_)
LAWS = {
    "A A⁻¹": total(A_[I, J] * entry(INVERSE, J, K), J),
    "A⁻¹ A": total(A_[J, K] * entry(INVERSE, I, J), J),
    "Aᵀ A⁻¹ stays": total(A_[J, I] * entry(INVERSE, J, K), J),
    "S S⁻¹": total(S_[J, I] * entry(OF_SYMMETRIC, J, K), J),
    "L Lᵀ": total(entry(LOWER, I, J) * entry(LOWER, K, J), J),
    "Lᵀ L stays": total(entry(LOWER, J, I) * entry(LOWER, J, K), J),
    "L⁻ᵀ L⁻¹": total(entry(OF_LOWER, J, I) * entry(OF_LOWER, J, K), J),
    "L⁻¹ L⁻ᵀ stays": total(entry(OF_LOWER, I, J) * entry(OF_LOWER, K, J), J),
    "S⁻¹ Lᵀ stays": total(entry(OF_SYMMETRIC, I, J) * entry(LOWER, K, J), J),
    "L L": total(entry(LOWER, I, J) * entry(LOWER, J, K), J),
    "above": entry(LOWER, I, K) * upto(I, K),
    "below": entry(OF_LOWER, I, K) * upto(K, I),
    "symmetric": S_[I, K] - S_[K, I] + entry(OF_SYMMETRIC, I, K) - 2 * entry(OF_SYMMETRIC, K, I),
    "comparisons": total(upto(J, L) * A_[J, I] * A_[L, I] * entry(OF_SYMMETRIC, L, J), J, L),
}
STAY = {name for name in LAWS if name.endswith("stays") or name == "L L"}


@pytest.mark.parametrize("name", LAWS)
def test_laws_keep_the_value(name, at):
    form = normal_of_matrices(LAWS[name])
    for i, k in itertools.product((1, 2, 3), repeat=2):
        here = at | {I: i, K: k}
        assert float(value(form, here)) == pytest.approx(float(value(LAWS[name], here)), abs=1e-9)
    assert (len(str(form)) < len(str(LAWS[name]))) != (name in STAY) or name in ("symmetric", "comparisons", "above")


def test_a_wrong_law_is_noticed(at, monkeypatch):
    monkeypatch.setattr(matrix_laws, "_product_of", lambda x, a, y, b, r, c, symmetry: entry(x, r, c))
    form = normal_of_matrices(LAWS["A A⁻¹"])
    assert float(value(form, at | {I: 1, K: 2})) != pytest.approx(float(value(LAWS["A A⁻¹"], at | {I: 1, K: 2})))


def test_numbers_refute_a_wrong_rule(monkeypatch):
    right = linear_algebra.MatrixEntry.slope
    monkeypatch.setattr(linear_algebra.MatrixEntry, "slope", lambda self, by: -right(self, by))
    derivation = derive(trace_of_inverse, A=DD)
    assert not derivation and "does not match these formulas" in derivation.verdict
    assert check(derivation, {"A": "linalg.matrix_power(A, -2).T"})["A"].verdict == "refuted"


def test_numbers_refute_a_law_where_it_does_not_hold(monkeypatch):
    monkeypatch.setattr(matrix_laws, "is_symmetric", lambda matrix: True)
    assert check(log_det, {"A": "linalg.inv(A)"}, A=DD)["A"].verdict == "refuted"


def test_exact_numbers_contradict_a_law_where_it_does_not_hold(monkeypatch):
    monkeypatch.setattr(matrix_laws, "is_symmetric", lambda matrix: True)
    monkeypatch.setattr(checking, "compare_at_samples", lambda *_: Comparison())
    checked = check(trace_of_inverse, {"A": "-linalg.inv(A) @ linalg.inv(A)"}, A=DD)["A"]
    assert checked.verdict == "undecided" and "in exact numbers the difference is" in checked.why


def test_a_matrix_form_is_typeset():
    assert r"{A}^{-\top}" in derived("log_det").matrix()[-1].latex()


def test_an_index_in_a_table_beside_a_matrix_stays_bound():
    """Σ_k A⁻¹_ik A[k, t_k] is no entry of the identity: t changes with k."""
    table = Array("t_of_laws", (SIZE,), values=SIZE)
    assert normal_of_matrices(total(entry(inverse_of(A_), I, K) * A_[K, table[K]], K)).has(inverse_of(A_))


def test_two_indices_of_one_name_are_not_taken_for_each_other(at):
    """Σ_pq A⁻¹_pi A⁻¹_qi' [p ≤ q] is not symmetric in p and q."""
    second = Index(I.name, SIZE)
    formula = total(upto(J, L) * entry(INVERSE, J, I) * entry(INVERSE, L, second), J, L)
    here = at | {I: 1, second: 2}
    assert float(value(normal_of_matrices(formula), here)) == pytest.approx(float(value(formula, here)))


def test_an_inverse_of_a_factor_of_a_transpose_is_not_transposed(at):
    turned = Array("T_of_laws", (SIZE, SIZE))
    formula = entry(inverse_of(Cholesky(turned)), I, K)
    form = in_names(formula, turned, turned[I, K], S_[K, I])
    here = at | {I: 2, K: 1, turned: at[S_].T}
    assert float(value(form, here)) == pytest.approx(float(value(formula, here))) != 0

"""The index calculus: every rule against plain loops, its errors, and the wrong answers of SymPy that it avoids."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Eq, Heaviside, IndexedBase, KroneckerDelta, MatrixSymbol, Max, Piecewise, S, Sum, Symbol, exp, log

from derivations.adjoints import Program, prove_form, with_adjoints
from derivations.claims import Refuted, claims_of, result_of
from derivations.proofs.index import RULES, X, a, b, i, j, k, m, n, p, random_expression, same_values, t
from tinytensor.symbolic.index_calculus.adjoints import adjoint_of, d
from tinytensor.symbolic.index_calculus.formulas import (
    Array,
    Index,
    Size,
    delta,
    derivative,
    fits,
    free,
    fresh,
    normal,
    random_entries,
    top,
    total,
    value,
)
from tinytensor.symbolic.index_calculus.functions import relu, theta
from tinytensor.symbolic.index_calculus.notation import tex, text

l = Index("l", m)
v = Array("v", (n,))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("claim", claims_of(["index"]), ids=lambda claim: claim.run.__name__)
def test_claim_holds(claim):
    result = result_of(claim)
    assert result.error is None, result.why


# ---- every rule keeps the value -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "one", "other"), RULES, ids=lambda x: x if isinstance(x, str) else "")
def test_rule_keeps_value_and_normal_form(rule, one, other):
    same_values(one, other, seed=1)
    assert normal(one - other) == 0


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_normal_form_keeps_the_value(rng):
    expr = random_expression(rng, [i, j, k])
    same_values(expr, normal(expr), largest=2)


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_equal_expressions_have_one_normal_form(rng):
    one, other, third = (random_expression(rng, [i, j, k], depth=2) for _ in range(3))
    form = normal(one * (other + third))
    assert form == normal(fresh(third) * one + fresh(one) * other)
    assert form == normal(form)


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_derivatives_match_a_polynomial(rng):
    # an entry of `a` occurs to the power of at most 4 here: differences at five points know the derivative exactly
    expr = random_expression(rng, [i, j, k], depth=2)
    where = Index("w", n)
    result = normal(derivative(expr, a[where]))
    sizes = {n: 2, m: 2}
    at = sizes | {x: random_entries(x, sizes, rng, lambda r: Fraction(r.randint(1, 5))) for x in (a, X, t)}
    for numbers in itertools.product([1, 2], repeat=4):
        here = at | dict(zip([i, j, k, where], numbers))
        entries = at[a]

        def moved(by, here=here, entries=entries):
            other = entries.copy()
            other[here[where] - 1] += by
            return value(expr, here | {a: other})

        five_points = Fraction(-moved(2) + 8 * moved(1) - 8 * moved(-1) + moved(-2), 12)
        assert value(result, here) == five_points


def test_a_sum_of_zeros_is_zero_and_so_is_its_derivative():
    assert total(S.Zero, i) == 0
    assert derivative(total(0 * a[i], i) ** 2 + a[i], a[Index("w", n)]).is_finite is not False


@pytest.mark.parametrize(
    ("one", "wrong"),
    [
        (total(delta(i, j) * a[i], i), a[i].xreplace({i: p}) + 0 * a[j]),
        (total(a[i], i) * total(b[i], i), total(a[i] * b[i], i)),
        (total(a[j], i), a[j]),
        (total(a[i], i) ** 2, total(a[i] ** 2, i)),
        (total(delta(k, t[i]) * X[i, k], k), total(X[i, k], k)),
    ],
)
def test_a_wrong_rule_is_refuted(one, wrong):
    with pytest.raises(Refuted, match="with"):
        same_values(one, wrong)
    assert normal(one - wrong) != 0


def test_nested_sums_keep_their_own_indices():
    inner = total(X[i, k], k)  # its bound index gets the number 0, so the outer sum has to take another
    form = normal(total(theta(total(a[j] * theta(inner), j)) * a[p] * theta(total(a[j], j) * a[p]), p))
    same_values(form, total(theta(total(a[j] * theta(inner), j)) * a[p] * theta(total(a[j], j) * a[p]), p), largest=2)


def test_bound_index_of_a_normal_form_stays_bound():
    bound = normal(total(a[i], i)).limits[0][0]
    with pytest.raises(TypeError, match="put a fresh index in its place"):
        normal(total(a[i] * a[bound], i))  # else it would be caught: Σ a²
    assert normal(total(a[i] * a[bound.fresh()], i)).has(Sum)


# ---- types ----------------------------------------------------------------------------------------------------------


def test_an_index_fits_where_its_range_lies_within():
    assert fits(i, n)
    assert fits(i, n + 1)
    assert fits(i + 1, n + 1)
    assert fits(t[i], m)
    assert fits(n, n)
    assert fits(3, 4)
    assert fits(i + 1, n) is False
    assert fits(0, n) is False
    assert fits(5, 4) is False
    assert fits(i, m) is None
    assert fits((i - i.fresh()) ** 2 + 1, n) is None
    assert top(t[i]) == m


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: X[k, i], "X: k:m stands where an index of 1..n belongs, but it runs up to m"),
        (lambda: X[i], "X: 1 indices, but it has 2"),
        (lambda: X[i + 1, k], "runs up to n . 1"),
        (lambda: X[t[i], k], "runs up to m"),
        (lambda: X[a[i], k], "is not an index: its values have no range"),
        (lambda: delta(i, k), "run over different ranges"),
        (lambda: normal(total(KroneckerDelta(i, k) * a[i], i)), "run over different ranges"),
        (lambda: derivative(a[i] ** 2, a[i]), "stands in the expression too"),
    ],
)
def test_type_errors(wrong, message):
    with pytest.raises(TypeError, match=message):
        wrong()


def test_a_delta_is_not_contracted_beyond_the_range():
    further = Index("q", n + 1)
    expr = total(KroneckerDelta(i, further) * a[i], i)  # 0 where q = n + 1, so not a[q]
    same_values(expr, normal(expr))
    assert normal(expr).has(KroneckerDelta)


# ---- SymPy's wrong answers, and ours --------------------------------------------------------------------------------


D = Symbol("D", integer=True, positive=True)
y, z, x = Symbol("y", integer=True), Symbol("z", integer=True), IndexedBase("x")


def test_trap_derivative_by_a_bound_index():
    assert Sum(x[y], (y, 1, D)).diff(x[y]).doit() == D  # wrong: each x occurs once
    assert normal(derivative(total(a[i], i), a[i])) == 1


def test_trap_substitution_catches_an_index():
    sum_ = Sum(x[y] * x[z], (y, 1, D))
    assert sum_.subs(z, y) == Sum(x[y] ** 2, (y, 1, D))  # wrong
    assert sum_.xreplace({z: y}) == Sum(x[y] ** 2, (y, 1, D))  # wrong
    program = Program([a[i]])
    program.let(b[j], total(a[i] * a[j], i))
    bound = program[b].right.limits[0][0]
    caught = program[b].at(b[bound])  # b at the very index that is bound in it
    assert normal(caught - a[bound] * total(a[p], p)) == 0


def test_trap_sums_that_differ_in_a_name():
    assert Sum(x[y], (y, 1, D)) - Sum(x[z], (z, 1, D)) != 0
    assert normal(total(a[i], i) - total(a[j], j)) == 0


def test_trap_a_delta_becomes_a_case_distinction():
    assert Sum(KroneckerDelta(y, z) * x[y], (y, 1, D)).doit().has(Piecewise)
    assert Sum(KroneckerDelta(y, z) ** 2 * x[y], (y, 1, D)).doit().has(Piecewise)
    assert normal(total(delta(i, j) ** 2 * a[i], i)) == a[j]
    assert Eq(normal(total(delta(i, j), i)), 1)


def test_trap_simplify_frees_a_bound_index():
    delta_within = KroneckerDelta(y, z, (1, D))
    wrong = sympy.simplify(-Sum(Piecewise((delta_within, x[y] > 0), (0, True)), (y, 1, D)))
    assert y in wrong.free_symbols  # the sum bound it (SymPy issue 27359)
    ours = normal(-total(delta(i, j) * theta(a[i]), i))
    assert ours == -theta(a[j]) and free(ours) == {j}


def test_trap_derivatives_by_a_matrix():
    size = Symbol("N", integer=True, positive=True)
    w, A, B = MatrixSymbol("w", size, 1), MatrixSymbol("A", size, size), MatrixSymbol("B", size, size)
    assert log((sympy.OneMatrix(size, 1).T * w.applyfunc(exp))[0, 0]).diff(w) == sympy.ZeroMatrix(size, 1)  # wrong
    squares = sympy.Trace(A.T * A) + sympy.Trace((A - B).T * (A - B))
    assert squares.diff(A) == sympy.ZeroMatrix(size, size)  # wrong: it is 4 A - 2 B

    assert normal(derivative(log(total(exp(a[i]), i)), a[j]) - exp(a[j]) / total(exp(a[i]), i)) == 0
    Y = Array("Y", (n, m))
    squares = total(X[i, k] ** 2, i, k) + total((X[i, k] - Y[i, k]) ** 2, i, k)
    assert normal(derivative(squares, X[j, l]) - 4 * X[j, l] + 2 * Y[j, l]) == 0


def test_trap_the_step_at_zero():
    assert Max(0, x[y]).diff(x[y]).subs(x[y], 0) == Heaviside(0) == S.Half
    assert derivative(relu(a[i]), a[j]) == theta(a[i]) * KroneckerDelta(i, j)
    assert value(theta(a[i]), {i: 1, a: np.array([0])}) == 0


# ---- programs and adjoints ------------------------------------------------------------------------------------------


def small() -> tuple[Program, Symbol]:
    """Four lines with a mean, a table of indices, a function, and a name that is used twice."""
    loss, mean = Symbol("loss", real=True), Symbol("mean", real=True)
    program = Program([a[i], X[i, k]], [t])
    program.let(mean, total(a[i], i) / n)
    program.let(v[i], (a[i] - mean) * X[i, t[i]])
    program.let(b[i], exp(v[i]))
    program.let(loss, total(b[i] * relu(v[i]), i))
    return program, loss


def test_adjoints_match_finite_differences():
    program, loss = small()
    backward = with_adjoints(program, loss)
    at = program.point(seed=4)
    result = backward.run(at)
    for array in (a, X):
        for where in itertools.product(*[range(length) for length in at[array].shape]):
            up, down = at[array].copy(), at[array].copy()
            up[where] += 1e-5
            down[where] -= 1e-5
            slope = (program.run(at | {array: up})[loss] - program.run(at | {array: down})[loss]) / 2e-5
            assert result[d(array)][where] == pytest.approx(slope, rel=1e-7, abs=1e-9)


def test_adjoints_use_computed_arrays():
    program, loss = small()
    backward = with_adjoints(program, loss)
    used = backward[d(v)].right
    assert used.has(b)
    assert not used.has(exp)  # the derivative of exp(v) is b, which is there already


def test_a_wrong_form_is_refuted_with_a_counterexample():
    program, loss = small()
    backward = with_adjoints(program, loss)
    right = relu(v[i])
    prove_form(backward, d(b)[i], right)
    for wrong in (-right, 2 * right, right / n, right * b[i]):
        with pytest.raises(Refuted, match=r"∂𝓛/∂b_i: derived .* closed form .* with m = 2, n = 3"):
            prove_form(backward, d(b)[i], wrong)


def test_prove_form_refuses_an_index_missing_on_the_left():
    program, loss = small()
    with pytest.raises(Refuted, match=r"index j of the closed form .* is not on the left"):
        prove_form(with_adjoints(program, loss), d(b)[i], relu(v[j]))


def test_prove_form_tells_refuted_from_unproved():
    program, loss = small()
    with pytest.raises(Refuted, match="no proof: the rest of the difference"):
        prove_form(with_adjoints(program, loss), d(b)[i], v[i] * (1 - theta(-v[i])))  # true, by a law that needs v ≠ 0


def test_replaced_plants_a_mistake_in_one_line():
    program, loss = small()
    other = program.replaced(b, lambda right: 2 * right)
    assert other[b].right == 2 * program[b].right
    at = program.point()
    assert other.run(at)[loss] == pytest.approx(2 * program.run(at)[loss])


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (a[i], S.One, "a is defined already"),
        (b[i], X[i, k], "index k:m stands on the right only"),
        (b[i], Array("Y", (n,))[i], "Y is not defined before it is used"),
    ],
)
def test_invalid_definitions_are_refused(left, right, message):
    with pytest.raises(TypeError, match=message):
        Program([a[i], X[i, k]]).let(left, right)


def test_an_adjoint_adds_up_all_lines():
    c = Array("c", (n,))
    program = Program([a[i]])
    program.let(b[i], a[i] ** 2)
    program.let(c[i], 3 * a[i] + b[i])
    result = adjoint_of(a[j], program.lines)
    assert normal(result - 2 * a[j] * d(b)[j] - 3 * d(c)[j]) == 0


# ---- printing -------------------------------------------------------------------------------------------------------


def test_printed_in_the_notation_of_the_source():
    Q = Array("Q", (n, m), "_^")
    A = Array("A", (m, n, n), "<__", tex=r"\alpha")
    expr = total(Q[i, k] * A[k, i, j] / n, k)
    assert text(expr) == "Σ_k Q_i^k ^(k)A_ij/n"
    assert tex(expr) == r"\sum_{k} \frac{Q_{i}^{k} {}^{k}\alpha_{ij}}{n}"
    assert text(-d(Q)[i, k] * a[i] ** 3 / 2) == "-a_i³/2 ∂𝓛/∂Q_i^k"
    assert tex(d(Q)[i, k]) == r"\frac{\partial\mathcal{L}}{\partial Q_{i}^{k}}"


def test_a_size_has_one_set_of_letters():
    assert Size("n", "i j") is n
    with pytest.raises(ValueError, match="this size has the letters i j already"):
        Size("n", "k")
    assert n.letters == ["i", "j"]


def test_bound_letters_do_not_shadow_free_letters():
    form = normal(total(a[i] * b[j] * a[p], i, p).xreplace({j: i}))
    assert text(form) in ("(Σ_j a_j)² b_i", "b_i (Σ_j a_j)²")
    assert free(form) == {i}

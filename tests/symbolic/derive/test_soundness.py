"""A proof is never false: gradients by hand that are wrong at some size or value are not called proved.

Each fault that was found is a row. For each safeguard there is a planted mistake in the checker, without which a row
would be called proved: a meaning that is off by one, a size that is never tried, a question that is not heard, a
condition that is dropped, a derivation that is not asked.
"""

from functools import partial

import numpy as np
import pytest
from sympy import S

import tinytensor as tt
from tests.symbolic.derive.reviewed import OTHER_WORDS, REVIEW
from tests.symbolic.programs import with_backward
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index, NotDerivable, check, derive, hvp, jvp, positive_definite, symmetric
from tinytensor.symbolic.derive import by_hand, domains, samples
from tinytensor.symbolic.derive import check as checking
from tinytensor.symbolic.derive import derivation as derivations
from tinytensor.symbolic.derive import trace as tracing
from tinytensor.symbolic.derive.conditions import conditions_in
from tinytensor.symbolic.derive.samples import Comparison
from tinytensor.symbolic.derive.semantics import elementwise
from tinytensor.symbolic.index_calculus import formulas, functions, quotients, vanishing
from tinytensor.symbolic.index_calculus.adjoints import Definition
from tinytensor.symbolic.index_calculus.vanishing import together, vanishes

N, ND = ("N",), ("N", "D")
T, CLASSES = Index(N, "K"), Index(N, "D")
X, XT, ROWS = {"x": N}, {"x": N, "t": T}, {"x": ND, "t": CLASSES}


def by_branch(x):
    return (x**2).sum() if x.shape[0] > 3 else (x**3).sum()


def square_part(x):
    rows, columns = x.shape
    return x[:, :1].sum() * 2 if rows == columns else x.sum()


def every_third(x):
    h = -x if not len(x) % 3 else x
    return (h * h).sum()


def off_the_tape_alone(compute):
    """A result that is off the tape."""

    def f(x, **arguments):
        with tt.no_grad():
            y = compute(x, **arguments)
        return (x * x).sum() + (y * (y > 20)).sum()

    return f


SHARED = "2 * x[:-1] * (x[:-1] ** 2 == (x[:-1] ** 2).max()) / (x[:-1] ** 2 == (x[:-1] ** 2).max()).sum()"
# function, its arguments, gradients of x by hand that are wrong at some size or value, and right ones
FAULTS = {
    "the threshold of a softplus": (lambda x: F.softplus(x, 1, 5).sum(), X,
        ["sigmoid(x)"], ["where(x > 5, 1.0, sigmoid(x))"]),
    "an argument called as the adjoint of another": (lambda x, dx: (x * dx**2).sum(), {"x": N, "dx": N},
        ["dx", "2 * x * dx"], ["dx**2"]),
    "a factor before a logarithm": (lambda x: (2.5 * (1 + x**2 / 4).log()).sum(), X,
        ["5 * x / (4 + x)"], ["5 * x / (4 + x**2)"]),
    "a mask of places": (lambda x: tt.where(tt.arange(len(x)) < 3, x, 2 * x).sum(), X,
        ["where(arange(N) < 4, 1.0, 2.0)", "2.0 * ones(N)"], ["where(arange(N) < 3, 1.0, 2.0)"]),
    "arange counts from 0": (lambda x: (x * tt.arange(len(x))).sum(), X,
        ["arange(N) + 1.0", "ones(N).cumsum(0)", "2.0 * arange(N)"],
        ["arange(N)", "1.0 * arange(N)", "ones(N).cumsum(0) - 1"]),
    "arange with steps": (lambda x: (x * tt.arange(1, 2 * len(x), 2)).sum(), X,
        ["2 * arange(N)", "arange(1, N + 1)"], ["2 * arange(N) + 1"]),
    "arange downward": (lambda x: (x * tt.arange(len(x)).flip(0)).sum(), X, ["N - arange(N)"], ["N - 1 - arange(N)"]),
    "a comparison that always meets equal numbers": (lambda x: (x * x.sign()).mean(), X,
        ["x.relu().sign() / N", "x.relu().relu().sign() * x.sign() / N"], ["x.sign() / N"]),
    "a truth value of a size as a factor": (lambda x: (x**2).sum() * (x.shape[0] < 5), X,
        ["2 * x", "2 * x * (N < 6)"], []),
    "a roll by 0": (lambda x: (tt.roll(x, 0, 1) ** 2).sum(), {"x": ND},
        ["2 * roll(x, 1, 1)"], ["2 * roll(x, 0, 1)", "roll(2 * x, -0, 1)"]),
    "a roll by a number": (lambda x, y: (x.roll(-2) * y).sum(), {"x": ("N + 1",), "y": ("N + 1",)},
        ["y.roll(-2)", "y.roll(1)"], ["y.roll(2)"]),
    "a third, with nothing beside it": (lambda x: (x.chunk(3, -1)[0] ** 2).sum(), {"x": ("N", "3*D")},
        ["pad(2 * x.chunk(3, -1)[0], (len(x[0]) // 3 * 2, 0))", "pad(x.chunk(3, -1)[0], (0, len(x[0]) // 3 * 2))"],
        ["pad(2 * x.chunk(3, -1)[0], (0, len(x[0]) // 3 * 2))"]),
    "whole numbers in arithmetic": (lambda x, t: (x * (t + 1)).sum(), XT,
        ["t", "t + 2", "1.0 * t"], ["t + 1", "1.0 + t"]),
    "quotients of whole numbers": (lambda x, t: (x * (t // 2)).sum(), XT,
        ["t / 2", "(t + 1) // 2"], ["t // 2", "(t - t % 2) / 2"]),
    "sums of whole numbers": (lambda x, t: x.sum() * t.sum(), XT, ["(t.sum() + N) * ones(N)"], ["t.sum() * ones(N)"]),
    "whole numbers compared with one": (lambda x, t: (x * (t != 0)).sum(), XT,
        ["(t != 1) * 1.0", "ones(N)", "(t > 1) * 1.0"], ["(t != 0) * 1.0", "1.0 - (t == 0) * 1.0"]),
    "floats made whole": (lambda x: (x * x.long()).sum(), X, ["x.floor()", "x"], ["x.long()"]),
    "an ignored class": (lambda x, t: F.cross_entropy(x, t, ignore_index=0), ROWS,
        ["(softmax(x, -1) - one_hot(t, D)) / N", "(softmax(x, -1) - one_hot(t, D)) * (t != 0).unsqueeze(1) / N"],
        ["(softmax(x, -1) - one_hot(t, D)) * (t != 0).unsqueeze(1) / (t != 0).sum()"]),
    "the last class ignored": (lambda x, t: F.cross_entropy(x, t, ignore_index=x.shape[1] - 1, reduction="sum"), ROWS,
        ["softmax(x, -1) - one_hot(t, D)"], ["(softmax(x, -1) - one_hot(t, D)) * (t != D - 1).unsqueeze(1)"]),
    "a number that is no class": (lambda x, t: F.cross_entropy(x, t, ignore_index=-1), ROWS,
        ["(softmax(x, -1) - one_hot(t, D)) * (t != 0).unsqueeze(1) / (t != 0).sum()"],
        ["(softmax(x, -1) - one_hot(t, D)) / N"]),
    "padding": (lambda x, t: F.embedding(t, x, padding_idx=0).sum(), {"x": ("D", "E"), "t": CLASSES},
        ["one_hot(t, D).sum(0).unsqueeze(1).expand(D, E) * 1.0"],
        ["(one_hot(t, D).sum(0) * (arange(D) != 0)).unsqueeze(1).expand(D, E) * 1.0"]),
    "the last row is padding": (lambda x, t: F.embedding(t, x, padding_idx=-1).sum(), {"x": ("D", "E"), "t": CLASSES},
        ["(one_hot(t, D).sum(0) * (arange(D) != D)).unsqueeze(1).expand(D, E) * 1.0"],
        ["(one_hot(t, D).sum(0) * (arange(D) != D - 1)).unsqueeze(1).expand(D, E) * 1.0"]),
    "equal whole numbers are no ties": (lambda x, t: ((x * (1 - F.one_hot(t, x.shape[1]))) ** 2).sum(), ROWS,
        ["2 * x * (1 - one_hot(t, D)) * (1 - one_hot((t + 1) % D, D))", "2 * x * (1 - one_hot(t * 0, D))", "2 * x"],
        ["2 * x * (1 - one_hot(t, D))"]),
    "a denominator by hand": (lambda x: (x * x).sum(), X, ["2 * x * (arange(N).sum() / (N * (N - 1) / 2))"], ["2 * x"]),
    "a branch by hand": (lambda x: (x * x).sum(), X,
        ["2 * x * (1 if N > 3 else 2)", "2 * x * (1 if N % 3 else -1)", "2 * x * min(N, 4) / 4", "2 * x * (N % 2)"],
        ["2 * x * (1 if N > 0 else 2)", "x + x"]),
    "a constant by hand": (lambda x: (x * x).sum(), X,
        ["2 * x * (arange(N) < 20)", "2 * x * tensor(1.0 if N > 3 else 2.0)",
         "2 * x * clamp(arange(N), min=-100, max=100).sum()"], ["2 * x * (arange(N) < N)"]),
    "an empty slice": (lambda x: (x * x[1:-1].sum()).sum(), X, ["2 * x"], []),
    "squeezed": (lambda x: (x.squeeze() * x.squeeze().sum(0)).sum(), {"x": ND}, ["2 * x"], []),
    "the largest of all but one": (lambda x: (x[:-1] ** 2).max(), X,
        [f"pad({SHARED}, (1, 0))",
         "pad(2 * x[:-1] * (x[:-1] ** 2 == x[:-1].max()) / (x[:-1] ** 2 == (x[:-1] ** 2).max()).sum(), (0, 1))",
         "0 * x"], [f"pad({SHARED}, (0, 1))"]),
    "the largest, shared": (lambda x: x.amax(-1).sum(), {"x": ND},
        ["0 * x", "(x == x.amax(-1, keepdim=True)) / D"],
        ["(x == x.amax(-1, keepdim=True)) / (x == x.amax(-1, keepdim=True)).sum(-1, keepdim=True)"]),
    "clamped on both sides": (lambda x: x.clamp(0, 1).sum(), X,
        ["(x > 0) * 1.0", "((x > 0) & (x < 2)) * 1.0", "((x > -1) & (x < 1)) * 1.0"],
        ["((x > 0) & (x < 1)) * 1.0", "((x >= 0) & (x <= 1)) * 1.0"]),
    "Huber's loss": (lambda x, y: F.smooth_l1_loss(x, y), {"x": N, "y": N},
        ["(x - y).clamp(-1, 2) / N", "(x - y) / N", "(y - x).clamp(-1, 1) / N", "(x - y).sign() / N"],
        ["(x - y).clamp(-1, 1) / N", "-(y - x).clamp(-1, 1) / N"]),
    "entries off the tape": (off_the_tape_alone(lambda x, t: x[t]), {"x": ND, "t": Index(N, "N")},
        ["2 * x + ((x[t] > 20).unsqueeze(1) * one_hot(t, N).unsqueeze(2)).sum(0)",
         "2 * x + one_hot(t, N).sum(0).unsqueeze(1) * (x > 20)"], ["2 * x"]),
    "an angle off the tape": (off_the_tape_alone(lambda x: tt.atan2(x, 0 * x + 2) * (x > 20) * 1e5), X,
        ["2 * x + (x > 20) * 2e5 / (x * x + 4)"], ["2 * x"]),
    "a triangle": (lambda x: x.tril(-2).sum(), {"x": ND},
        ["ones(N, D).tril(-1)", "ones(N, D).tril()"], ["ones(N, D).tril(-2)"]),
}  # fmt: skip


RESTRICTED = [  # function, its arguments, the condition, and a gradient that is right only where it holds
    (lambda x: (x**2).sum() * (x.shape[0] % 2), X, "N % 2 == 1", "2 * x", "odd N"),
    (lambda x: (x**2).sum() * (len(x) // 2), X, "N % 2 == 0", "N * x", "even N"),
    (lambda x: (x**2).sum() * min(x.size(0), 4), X, "N > 4", "8 * x", "N > 4"),
    (lambda x: (x**2).sum() * max(x.numel() - 2, 0), X, "N > 1", "2 * x * (N - 2)", "N > 1"),
    (by_branch, X, "N > 3", "2 * x", "N > 3"),
    (by_branch, X, "N <= 3", "3 * x**2", "N < 4"),
    (every_third, X, "N % 3 == 2", "2 * x", "N % 3 = 2"),
    (square_part, {"x": ND}, "N != D", "ones(N, D)", "N ≠ D"),
    (lambda x: x.sum() if len(x) < x.shape[1] else (x**2).sum(), {"x": ND}, "N < D", "ones(N, D)", "N < D"),
    (by_branch, X, "N > 5", "2 * x", "N > 5"),
    (lambda x: (x * (tt.arange(len(x)) < 100)).sum(), X, "N < 101", "ones(N)", "N < 101"),
    (lambda x: (x * (tt.tensor(len(x)) > 3)).sum(), X, "N > 3", "ones(N)", "N > 3"),
    (lambda x: (x * tt.full((len(x),), len(x) if len(x) > 4 else 4)).sum(), X, "N > 4", "N * ones(N)", "N > 4"),
    (lambda x: (x[: len(x) // 2] ** 2).sum(), X, "N % 2 == 0", "cat((2 * x[: N // 2], 0 * x[N // 2 :]))", "even N"),
]  # fmt: skip


def test_conditions_stand_beside_the_verdict():
    fn, arguments, where, gradient, words = RESTRICTED[4]
    assert words in check(fn, {"x": gradient}, where, **arguments)["x"].conditions
    alone = check(fn, {"x": gradient}, **arguments)
    assert not alone and alone["x"].restricted and f"proved only for {words}" in str(alone)
    fn, arguments, gradient, condition = VALUES[0]
    verdict = check(fn, {"x": gradient}, **arguments)
    assert condition in verdict["x"].conditions and condition in verdict.assumptions


def test_conditions_of_where_are_read():
    D = derive(lambda x: x.sum(), x=ND).derived.trace.sizes
    assert list(map(str, conditions_in("2 < N < 9 and D == 3", D))) == ["N > 2", "N < 9", "D = 3"]
    assert list(map(str, conditions_in(["N >= 2", "D % 2 == 0 and D != 4"], D))) == ["N > 1", "even D", "D ≠ 4"]
    assert conditions_in("N > 0", D) == []
    assert derive(lambda A: tt.linalg.pinv(A), "N > D", A=ND).verdict.startswith("proved for N > D, where")


TIES = "no two numbers that are compared are equal"
FINITE = "every number that isfinite() is asked about is finite"
ARC = "every argument of asin and acos lies between -1 and 1"
VALUES = [  # function, its arguments, a gradient, and the condition in its verdict
    (lambda x: (x * x).sum(), X, "2 * x * x / x", "no denominator is 0"),
    (lambda x: x.prod(), X, "x.prod() / x", "every factor of a product is above 0"),
    (lambda x: x.norm(), X, "x / x.norm()", "every argument of a root is above 0"),
    (lambda x: x.log().sum(), X, "1 / x", "every argument of a logarithm is above 0"),
    (lambda x: (x.clamp(min=0.5) ** 2).sum(), X, "2 * x * (x >= 0.5)", TIES),
    (lambda x: x.relu().sum(), X, "(x >= 0) * 1.0", TIES),
    (lambda x: x.asin().sum(), X, "1 / (1 - x**2).sqrt()", ARC),
    (lambda x: (x * x + 0 * x / x).sum(), X, "2 * x", "no denominator is 0"),
    (lambda x: (x * x + tt.zeros(len(x)) / x).sum(), X, "2 * x", "no denominator is 0"),
    (lambda x: (x * x.exp().isfinite()).sum(), X, "ones(x.shape)", FINITE),
    (lambda x: (x.exp() / x.exp().sum()).sum(), X, "0 * x", "no condition"),
    (lambda x: (1 / (1 + x**2)).sum(), X, "-2 * x / (1 + x**2)**2", "no condition"),
    (lambda x: F.softplus(x).sum(), X, "sigmoid(x)", "no argument of softplus is above its threshold"),
    (lambda x: x.sum() * (tt.tensor(len(x)).double() % 2), X, "tensor(N).double() % 2 * ones(N)", "no condition"),
    (lambda x: x.sum() * (len(x) // 4), X, "N // 4 * ones(N)", "no condition"),
    (lambda x, t: (x * (t.double() // 2)).sum(), XT, "t // 2", "no condition"),
]  # fmt: skip


EQUAL = {  # x == y where that may hold at all values of a size, or at all sizes from some on
    "a truth value": lambda x: tt.where((x > 30).double() == 1.0, x**3, x**2).sum(),
    "a clamped number": lambda x: tt.where(x.clamp(-50, 50) == 50, x**3, x**2).sum(),
    "a rounded number": lambda x: tt.where(x.floor() != 255, x**2, x**3).sum(),
    "a quotient that is rounded": lambda x: tt.where((x / 500).trunc() == 1, x**3, x**2).sum(),
    "a number times a size": lambda x: tt.where(x * (len(x) - 300) == 0, x**3, x**2).sum(),
    "a sum that may be empty": lambda x: (x**2).sum() + (x[1:].norm() == 0) * x.sum(),
    "numbers of one array": lambda x: (x**2 + (x[:, None] - x == 0) * (x * (tt.arange(len(x)) > 250))).sum(),
    "whole numbers as floats": lambda x: (x**2 + (tt.arange(len(x)) * 1.0 == 250.0) * x).sum(),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equality_is_left_out_only_where_it_is_rare(name):
    assert check(EQUAL[name], {"x": "2 * x"}, x=N)["x"].verdict != "proved"


def test_laws_of_symmetric_matrices_are_not_differentiated():
    """2 S + 2 Sᵀ is 4 S at a symmetric S, but its derivative is another. No number that is tried is above 100."""

    def two_squares(S, y):
        return ((S * S).sum() + (S @ S).trace()) * (y > 100)

    same, turned = (f"2 * (y > 100) * einsum('{pair}->ijkl', eye(N), eye(N))" for pair in ("ik,jl", "il,jk"))
    arguments = {"S": ("N", "N"), "y": (), "where": symmetric("S")}
    assert check(two_squares, hessian={"S": f"{same} + {turned}"}, **arguments)
    for wrong in (f"2 * {same}", f"2 * {turned}"):
        assert check(two_squares, hessian={"S": wrong}, **arguments)["S"].verdict != "proved"
    assert hvp(lambda S, x: x @ tt.linalg.solve(S, x), where=positive_definite("S"), S=("N", "N"), x=N)


def test_the_gradient_of_a_cholesky_factor_is_not_differentiated():
    """It is that of the symmetric part, S⁻¹/2 at symmetric matrices alone."""

    def log_det(S, s):
        return tt.linalg.cholesky(S + s * tt.eye(len(S))).diagonal().log().sum()

    arguments = {"S": ("N", "N"), "s": (), "where": positive_definite("S")}
    with pytest.raises(NotDerivable, match="that at symmetric matrices"):
        hvp(log_det, wrt="S", **arguments)
    assert hvp(log_det, wrt="s", **arguments) and jvp(log_det, **arguments)


def squares(ctx, x):
    ctx.save_for_backward(x)
    return (x * x).sum()


def rows(ctx, x, w):
    ctx.save_for_backward(x, w)
    return (x * x) @ w


def exponentials(ctx, x):
    y = x.exp()
    ctx.calls = []
    ctx.save_for_backward(y)
    return y * 1.0


def marked(ctx, x, mark):
    y = x * x
    ctx.save_for_backward(x)
    mark(ctx, y)
    return y


def off_the_tape(ctx, x):
    with tt.no_grad():
        y = x * x
    return x + y


def counts(ctx, g):
    ctx.calls.append(1)
    return ctx.saved_tensors[0] * g * len(ctx.calls)


def of_rows(ctx, g, factor=2):
    x, w = ctx.saved_tensors
    return factor * x * (g @ w.T), (x * x).T @ g


Squares = with_backward(squares, lambda ctx, g: 2 * ctx.saved_tensors[0] * g)
Scaled = type("Scaled", (Squares,), {"apply": classmethod(lambda cls, x: super(cls, cls).apply(3 * x))})
BACKWARD = {  # name: (function, arguments); one without "wrong" in its name is right, or refused
    "squares": (Squares, X),
    "wrong: once for each multiple": (with_backward(squares, lambda ctx, g: 2 * ctx.saved_tensors[0] * g**0), X),
    "wrong: nine times for three": (with_backward(squares, lambda ctx, g: 2 * ctx.saved_tensors[0] * g**2), X),
    "too many gradients": (with_backward(squares, lambda ctx, g: (2 * ctx.saved_tensors[0] * g, g)), X),
    "an apply of its own": (Scaled, X),
    "marked as dirty": (with_backward(partial(marked, mark=lambda ctx, y: ctx.mark_dirty(y)), Squares.backward), X),
    "marked as constant": (
        with_backward(partial(marked, mark=lambda ctx, y: ctx.mark_non_differentiable(y)), Squares.backward),
        X,
    ),
    "detached, where there is no tape": (with_backward(lambda ctx, x: x * x.detach(), lambda ctx, g: g), X),
    "a detached square": (with_backward(lambda ctx, x: x.detach() ** 2, lambda ctx, g: g), X),
    "no_grad, where there is no tape": (with_backward(off_the_tape, lambda ctx, g: g), X),
    "a product with 1": (with_backward(lambda ctx, x: x * 1.0, lambda ctx, g: g), X),
    "a saved tensor that is changed": (with_backward(exponentials, lambda ctx, g: ctx.saved_tensors[0].mul_(g)), X),
    "a context that is changed": (with_backward(exponentials, counts), X),
    "rows": (with_backward(rows, of_rows), {"x": ND, "w": ("D", "K")}),
    "wrong: rows without their factor": (with_backward(rows, partial(of_rows, factor=1)), {"x": ND, "w": ("D", "K")}),
}


def test_a_meaning_that_is_off_by_one_is_noticed(monkeypatch):
    monkeypatch.setattr(tracing, "as_number", lambda value: value)  # an index for a number
    monkeypatch.setattr(by_hand, "as_number", lambda value: value)
    fn, arguments, _, right = FAULTS["whole numbers in arithmetic"]
    assert not derive(fn, **arguments)
    assert not check(fn, {"x": right[0]}, **arguments)


def test_a_tie_that_excuses_every_difference_is_noticed(monkeypatch):
    """Where all x are below 0 the largest part above 0 is 0, so neither it nor its negative is above 0."""
    wrong = "where(-relu(x).max() > 0, 0.0, exp(x)) / N"

    def fn(x):
        return (x.exp() * (x.relu().max() > 0)).mean()

    assert check(fn, {"x": wrong}, x=N)["x"].verdict == "refuted"
    monkeypatch.setattr(samples, "excuses", lambda edges, inputs: {*edges})
    assert check(fn, {"x": wrong}, x=N)


def test_a_question_that_is_not_heard_is_noticed(monkeypatch):
    """A planted mistake: the conditions of a reading are dropped. Small sizes refute what they leave."""
    assert derive(by_branch, x=N).restrictions
    monkeypatch.setattr(tracing.Trace, "_conditions", lambda trace: [])
    derivation = derive(by_branch, x=N)
    assert not derivation.restrictions
    assert not derivation
    monkeypatch.setattr(samples, "SMALL", range(4, 10))
    assert derive(by_branch, x=N)


def test_a_condition_on_values_that_is_dropped_is_noticed(monkeypatch):
    fn, arguments, gradient, _ = VALUES[4]
    monkeypatch.setattr(tracing, "domain_of", lambda *_: together([]))
    monkeypatch.setattr(samples, "edges_of", lambda *_: set())
    derivation = derive(fn, **arguments)
    assert not derivation and "does not match" in derivation.verdict
    assert not check(derivation, {"x": gradient})


def test_a_derivation_that_is_not_proved_proves_nothing(monkeypatch):
    monkeypatch.setattr(derivations.Derivation, "differs", property(lambda self: "planted"))
    verdict = check(lambda x: (x * x).sum(), {"x": "2 * x"}, x=N)
    assert verdict["x"].verdict == "undecided"
    assert "planted" in str(verdict)


def test_a_gradient_of_infinities_at_large_sizes_is_no_formula():
    for wrong in ("where(arange(N) < 1000, 2 * x, -inf)", "2 * x.masked_fill(arange(N) ** 2 > 10**6, -inf)"):
        verdict = check(lambda x: (x * x).sum(), {"x": wrong}, x=N)["x"]
        assert (verdict.verdict, "-inf in places" in verdict.term) == ("undecided", True)


def test_a_normal_form_that_is_wrong_is_noticed(monkeypatch):
    monkeypatch.setattr(checking, "vanishes", lambda *_: vanishes([S.Zero]))
    monkeypatch.setattr(checking, "compare_at_samples", lambda *_: Comparison())
    verdict = check(lambda x: (x * x).sum(), {"x": "3 * x"}, x=N)
    assert verdict["x"].verdict == "undecided"
    assert "in exact numbers the difference is" in str(verdict)


def test_a_comparison_of_whole_numbers_as_of_floats_is_noticed(monkeypatch):
    """A comparison of floats may be taken to have no ties, one of whole numbers may not."""
    wrong = "(t > 0) * 1.0 + (1 * t == 0)"
    fn, arguments = lambda x, t: (x * (t > 0)).sum(), {"x": N, "t": T}
    assert check(fn, {"x": wrong}, **arguments)["x"].verdict == "refuted"
    monkeypatch.setattr(elementwise, "_whole", lambda value: False)
    monkeypatch.setattr(checking, "compare_at_samples", lambda *_: Comparison())
    assert check(fn, {"x": wrong}, **arguments)["x"].verdict == "undecided"  # [t = 1] is no tie of floats
    monkeypatch.setattr(quotients, "off_ties", lambda *_: S.Zero)
    assert "in exact numbers the difference is" in str(check(fn, {"x": wrong}, **arguments))  # which alone keeps it out
    monkeypatch.setattr(checking, "contradiction", lambda *_: "")
    assert check(fn, {"x": wrong}, **arguments)["x"].verdict == "proved"


@pytest.mark.parametrize(("factor", "verdict"), [(1, "proved"), (2, "undecided")])
def test_a_formula_of_another_function_is_read_in_its_own_names(factor, verdict):
    """2 Σ_n X_nd A_n is the gradient of both, but A is another array."""

    def loss(X, w):
        A = X @ w
        return (A**2).sum()

    def scaled(X, w):
        A = factor * X @ w
        return (A**2).sum() / factor

    arguments = {"X": ND, "w": ("D",)}
    formula = derive(scaled, **arguments).gradients["w"]
    assert str(formula) == str(derive(loss, **arguments).gradients["w"])
    assert check(loss, {"w": formula}, **arguments)["w"].verdict == verdict


def test_numbers_of_samples_meet_zeros_ties_and_every_class():
    samples_ = derive(lambda x, t: (x * t).sum(), x=N, t=T).samples
    assert {s.at[n] for s in samples_ for n in s.at} >= set(range(1, 10))
    floats = [s.inputs["x"].detach().numpy() for s in samples_]
    assert any((x == 0).all() for x in floats) and any((x < 0).any() for x in floats)
    assert any(len(np.unique(x)) < x.size for x in floats)
    classes = [(s.inputs["t"].numpy(), next(n for size, n in s.at.items() if str(size) == "K")) for s in samples_]
    assert any(set(t) == set(range(k)) and k > 3 for t, k in classes)
    assert any((t == 0).all() for t, k in classes if k > 1) and any((t == k - 1).all() for t, k in classes if k > 1)


def test_rounding_that_decides_a_comparison_refutes_no_gradient(monkeypatch):
    triplet, arguments = REVIEW["distances of a triplet"]
    derivation = derive(triplet, **arguments)
    assert not check(derivation, {"z": "-(x - z) / N"})
    assert check(derivation, {"y": lambda x, y, z, N: _gradient(x, y, z) / N})
    assert check(derivation, {"y": lambda x, y, z, N: -_gradient(x, y, z) / N})["y"].verdict == "refuted"
    monkeypatch.setattr(domains, "CANCELLED", 0.0)
    assert "does not match" in derive(triplet, **arguments).verdict


def _gradient(x, y, z):
    near, far = F.pairwise_distance(x, y), F.pairwise_distance(x, z)
    return -(x - y + 1e-6) / near.unsqueeze(1) * (near - far + 1 > 0).unsqueeze(1)


def test_a_small_bound_is_that_of_norms_alone(monkeypatch):
    assert check(lambda x: x.clamp(min=1e-6).sum(), {"x": "1 + 0 * x"}, **X)["x"].verdict == "refuted"
    near = lambda x, y: F.normalize(x - y + 1e-6, dim=-1, eps=1e-5)  # noqa: E731
    arguments = dict.fromkeys("xy", ND)
    assert "every norm is above the bound" in derive(near, **arguments).verdict
    monkeypatch.setattr(domains, "_is_clamped_norm", lambda *_: False)
    assert "does not match" in derive(near, **arguments).verdict


def test_a_small_number_is_a_tie_beside_large_ones_alone():
    small = [np.array([1e-15, 3.0])]
    assert domains.edges_of("relu", small, lambda: 1.0) == {"tie"}
    assert domains.edges_of("relu", small, lambda: 1e-3) == set() == domains.edges_of("relu", small)
    assert domains.edges_of("relu", [np.array([1e-13])], lambda: 1.0) == set()


@pytest.mark.parametrize(
    ("fn", "gradient"),
    [
        (lambda x: tt.where(x > 77.5, 3 * x, x * x).sum(), "2 * x"),
        (lambda x: tt.maximum(x * x, x * 0 + 5000).sum(), "0 * x"),
        (lambda x: x.clamp(-500, 500).sum(), "1.0 * (x > -500)"),
        (lambda x: F.relu(x / 2 - 40).sum(), "0 * x"),
    ],
)
def test_a_mistake_beyond_a_number_that_is_compared_is_refuted(fn, gradient, monkeypatch):
    assert check(fn, {"x": gradient}, x=N)["x"].verdict == "refuted"
    monkeypatch.setattr(derivations, "compared_numbers", lambda lines: [])
    assert check(fn, {"x": gradient}, x=N)["x"].verdict != "refuted"


def test_numbers_that_lines_compare_with():
    size = formulas.Size("of_compared_numbers", "n")
    x, a, y = (formulas.Array(name, (size,))[formulas.Index("n", size)] for name in "xay")
    steps = functions.theta(2 * x - 15) + functions.larger(x, 20) - functions.relu(a) + functions.same(x - 10**6)
    lines = [Definition(a, 5 * (x + 30)), Definition(y, steps)]
    assert samples.compared_numbers(lines) == [-30.0, 7.5, 20.0]


def test_a_wrong_formula_of_an_operation_that_is_read_as_one_is_noticed(monkeypatch):
    slope = functions.arctan2.fdiff
    monkeypatch.setattr(functions.arctan2, "fdiff", lambda self, k=1: slope(self, k) if k == 1 else -slope(self, k))
    fn, arguments, *_ = OTHER_WORDS["an angle"]
    assert not derive(fn, **arguments)


def test_a_wrong_count_is_noticed(monkeypatch):
    """A planted mistake, Σ_j [i ≤ j] = N - i: the right gradient is no longer proved."""
    count = vanishing._count
    monkeypatch.setattr(vanishing, "_count", lambda sum_: None if (n := count(sum_)) is None else n - 1)
    fn, arguments, wrong, right = OTHER_WORDS["running sums"]
    assert not any(check(fn, {"x": hand}, **arguments) for hand in (*right[:2], wrong[0]))

"""Hessians and Jacobians for any size: blocks by hand, the plain derivative, and a planted mistake."""

import pytest

from tests.symbolic.derive.second_functions import REGRESSION, N, believe, derived, logistic, plant_factor
from tinytensor.nn import functional as F
from tinytensor.symbolic import Hessian, Index, Jacobian, derive
from tinytensor.symbolic.derive import second
from tinytensor.symbolic.index_calculus.adjoints import d as adjoint
from tinytensor.symbolic.index_calculus.adjoints import expanded
from tinytensor.symbolic.index_calculus.formulas import derivative
from tinytensor.symbolic.index_calculus.vanishing import vanishes


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "name", ["least squares", "quadratic form", "norm", "log-sum-exp", "squares of positive parts"]
)
def test_blocks_are_the_plain_derivative_of_the_plain_derivative(name):
    """The proof goes line by line; here the gradient is written in arguments alone, and differentiated as a whole."""
    d = derived(name)
    raw, forward = d.derived.raw, d.derived.forward
    for (row, _), block in d.gradients.items():
        line = raw[adjoint(d.derived.trace.arrays[row])]
        gradient = expanded(expanded(line.at(block.of), list(raw.values())), forward)
        shown = expanded(expanded(block.right, list(d.derived.adjoints.values())), forward)
        assert vanishes([derivative(gradient, block.by) - shown], d.derived.facts) is not None


LOGISTIC = "(lambda p: {})((X @ w).sigmoid())"
SOFTMAX = "(lambda q: {})(softmax(x, -1))"
LOGITS_BY_HAND = "(lambda q, rows, classes: {})(softmax(z, -1), diag(ones(N)), diag(ones(K)))"
DIAGONAL, OUTER = "einsum('nm,ni,ik->nimk', rows, q, classes)", "einsum('nm,ni,nk->nimk', rows, q, q)"
LOGITS = {"z": ("N", "K"), "t": Index(N, "K")}
# function, arguments, block, right ones, and wrong ones with words of the term that is named
BY_HAND = {
    "logistic regression": (logistic, REGRESSION, ("w", "w"),
        [LOGISTIC.format("X.T @ diag(p * (1 - p)) @ X / N"), LOGISTIC.format("(X * (p - p**2)[:, None]).T @ X / N")],
        {LOGISTIC.format("X.T @ diag(p) @ X / N"): "σ(A_n)² X_nd X_ni is missing",
         LOGISTIC.format("X.T @ diag(p * (1 + p)) @ X / N"): "the sign is wrong",
         LOGISTIC.format("2 * X.T @ diag(p * (1 - p)) @ X / N"): "the factor 1/2 is missing",
         LOGISTIC.format("X @ X.T"): "the shape (N, N)",
         LOGISTIC.format("-X.T @ diag(p * (1 - p)) @ X / N"): "the sign is wrong"}),
    "logistic regression, mixed": (logistic, REGRESSION, ("w", "y"), ["-X.T / N"],
        {"X.T / N": "the sign is wrong", "-X / N": "the shape (N, D)", "-X.T": "the factor 1/N is missing"}),
    "least squares": (lambda X, w, y: ((X @ w - y) ** 2).mean(), REGRESSION, ("w", "w"),
        ["2 * X.T @ X / N", "2 / N * einsum('nd,ne->de', X, X)",
         "2 * X.T @ X / N + 0 * w.log().sum()", "2 * X.T @ X / N * (y != 1.0).prod()"],
        {"X.T @ X / N": "the factor 2 is missing", "2 * X.T @ X": "the factor 1/N is missing",
         "2 * X.T @ X / max(N, 3)": "", "2 * X.T @ X / N * (1 if D > 2 else 2)": "",
         "2 * X.T @ X / N * (arange(D) < 8)": "", "2 * X.T @ X / N * (N < 100)": ""}),
    "ridge": (lambda X, w, y, c: ((X @ w - y) ** 2).sum() / 2 + c / 2 * (w**2).sum(), REGRESSION | {"c": ()},
        ("w", "w"), ["X.T @ X + c * diag(ones(D))"],
        {"X.T @ X": "the term c δ(d, i) is missing", "X.T @ X + c": "the term c is not in the derivative"}),
    "cross-entropy in logits": (lambda z, t: F.cross_entropy(z, t), LOGITS, ("z", "z"),
        [LOGITS_BY_HAND.format(f"({DIAGONAL} - {OUTER}) / N")],
        {LOGITS_BY_HAND.format(f"{DIAGONAL} - {OUTER}"): "the factor 1/N is missing",
         LOGITS_BY_HAND.format(f"({DIAGONAL} + {OUTER}) / N"): "the sign is wrong",
         LOGITS_BY_HAND.format(f"({DIAGONAL} - einsum('ni,mk->nimk', q, q)) / N"): "is missing"}),
    "quadratic form": (lambda x, A: x @ A @ x, {"x": N, "A": ("N", "N")}, ("x", "x"), ["A + A.T"],
        {"2 * A": "A_in is missing", "(A + A.T) / 2": "the factor 2 is missing"}),
    "quadratic form, mixed": (lambda x, A: x @ A @ x, {"x": N, "A": ("N", "N")}, ("x", "A"),
        ["einsum('ij,k->ijk', diag(1 + 0 * x), x) + einsum('ik,j->ijk', diag(1 + 0 * x), x)"],
        {"einsum('ij,k->ijk', diag(1 + 0 * x), x)": "is missing"}),
    "norm": (lambda x: x.norm(), {"x": N}, ("x", "x"), ["(diag(ones(N)) - outer(x, x) / (x @ x)) / x.norm()"],
        {"diag(ones(N)) / x.norm()": "is missing", "(diag(ones(N)) + outer(x, x) / (x @ x)) / x.norm()": "sign"}),
    "positive parts": (lambda x: (x.relu() ** 2).sum(), {"x": N}, ("x", "x"), ["2 * diag((x > 0) * 1.0)"],
        {"2 * diag(ones(N))": "> 0] δ(i, n) is missing", "diag((x > 0) * 1.0)": "the factor 2 is missing",
         "2 * diag((x > 0.5) * 1.0)": ""}),
    "x |x|": (lambda x: (x.abs() * x).sum(), {"x": N}, ("x", "x"), [], {"2 * diag(ones(N))": ""}),
    "squares of rows": (lambda x, t: (x[t] ** 2).sum(), {"x": ("K",), "t": Index(N, "K")}, ("x", "x"),
        [], {"2 * diag(ones(K)) * N / K": ""}),
    "softmax": (lambda x: x.softmax(-1), {"x": N}, "x", [SOFTMAX.format("diag(q) - outer(q, q)")],
        {SOFTMAX.format("diag(q)"): "Y_i Y_n is missing",
         SOFTMAX.format("diag(q) + outer(q, q)"): "the sign is wrong",
         SOFTMAX.format("q * (1 - q)"): "the shape (N)",
         SOFTMAX.format("diag(q) - outer(q, q) * (N > 1)"): "",
         SOFTMAX.format("diag(q) - outer(q, q).tril(6)"): ""}),
    "layer norm without weights": (lambda x: (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt(), {"x": N}, "x",
        ["(lambda r, z: (diag(ones(N)) - outer(z, z) / N - 1 / N) * r)(1 / (x.var(correction=0) + 1e-5).sqrt(), "
         "(x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt())"],
        {"(diag(ones(N)) - 1 / N) / (x.var(correction=0) + 1e-5).sqrt()": "",
         "diag(ones(N)) / (x.var(correction=0) + 1e-5).sqrt()": ""}),
}  # fmt: skip


def test_a_wrong_double_backward_is_noticed_by_differences(monkeypatch):
    pulled = second.pulled
    monkeypatch.setattr(second, "pulled", lambda *a: [2 * x for x in pulled(*a)])
    plant_factor(monkeypatch)
    believe(monkeypatch)
    assert "finite differences" in derive(lambda x: (x**3).sum(), order=2, x=N).verdict


def test_interface():
    of_number, of_array = derive(lambda x, y: (x * y).sum(), order=2, x=N, y=N), derived("joined vectors")
    assert isinstance(of_number, Hessian) and isinstance(of_array, Jacobian)
    assert set(of_number.hessian) == {(a, b) for a in "xy" for b in "xy"}
    assert set(of_array.jacobian) == {"a", "b"}

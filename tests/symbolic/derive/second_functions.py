"""Functions whose second derivatives and Jacobians are in textbooks, with the textbook's lines.

A block is written as a textbook has it, in the names of the derivation. The tests compare the values and count terms.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import tinytensor as tt
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index, derive
from tinytensor.symbolic.derive import adjoints, forward_mode
from tinytensor.symbolic.index_calculus.vanishing import together

ND, N, D = ("N", "D"), ("N",), ("D",)


@dataclass(frozen=True)
class Case:
    """A function, its arguments, the options of `derive`, and the textbook's right sides by blocks."""

    fn: Callable
    arguments: dict
    options: dict
    textbook: dict = field(default_factory=dict)


def logistic(X, w, y):
    return F.binary_cross_entropy_with_logits(X @ w, y)


def logistic_with_bias(X, w, b, y):
    A = X @ w + b
    return F.binary_cross_entropy_with_logits(A, y)


def least_squares(X, w, y):
    return ((X @ w - y) ** 2).mean()


def ridge(X, w, y, c):
    return ((X @ w - y) ** 2).sum() / 2 + c / 2 * (w**2).sum()


def classifier(X, W, t):
    return F.cross_entropy(X @ W, t)


def poisson(X, w, y):
    A = X @ w
    return (A.exp() - y * A).sum()


def quadratic(x, A):
    return x @ A @ x / 2


def attention_row(q, K, V):
    return (K @ q / q.shape[0] ** 0.5).softmax(-1) @ V


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def gated(a):
    value, gate = a.chunk(2, -1)
    return value * gate.sigmoid()


def mlp(X, W, V, Y):
    return (((X @ W).tanh() @ V - Y) ** 2).mean()


REGRESSION = {"X": ND, "w": D, "y": N}
LAYERS = {"X": ND, "W": ("D", "H"), "V": ("H", "K"), "Y": ("N", "K")}
SECOND = {"order": 2}
CASES = {
    "logistic regression": Case(
        logistic, REGRESSION, SECOND | {"wrt": "w"}, {("w", "w"): "1/N Σ_n X_nd X_ni σ(A_n) (1 - σ(A_n))"}
    ),
    "logistic regression, weights and bias": Case(
        logistic_with_bias,
        REGRESSION | {"b": ()},
        SECOND | {"wrt": ("w", "b")},
        {
            ("w", "b"): "1/N Σ_n X_nd σ(A_n) (1 - σ(A_n))",
            ("b", "b"): "1/N Σ_n σ(A_n) (1 - σ(A_n))",
        },
    ),
    "least squares": Case(least_squares, REGRESSION, SECOND | {"wrt": "w"}, {("w", "w"): "2/N Σ_n X_nd X_ni"}),
    "ridge": Case(
        ridge,
        REGRESSION | {"c": ()},
        SECOND | {"wrt": ("w", "c")},
        {("w", "w"): "c δ(d, i) + Σ_n X_nd X_ni", ("w", "c"): "w_d", ("c", "c"): "0"},
    ),
    "cross-entropy in logits": Case(
        lambda z, t: F.cross_entropy(z, t),
        {"z": ("N", "K"), "t": Index(N, "K")},
        SECOND,
        {("z", "z"): "q_ni (δ(i, k) - q_nk) δ(j, n)/N"},
    ),
    "cross-entropy in weights": Case(
        classifier,
        {"X": ND, "W": ("D", "K"), "t": Index(N, "K")},
        SECOND | {"wrt": "W"},
        {("W", "W"): "1/N Σ_n X_nd X_nj q_ni (δ(i, k) - q_nk)"},
    ),
    "log-sum-exp": Case(
        lambda x: x.logsumexp(-1), {"x": N}, SECOND, {("x", "x"): "exp(x_n - 𝓛) (δ(i, n) - exp(x_i - 𝓛))"}
    ),
    "Poisson regression": Case(poisson, REGRESSION, SECOND | {"wrt": "w"}, {("w", "w"): "Σ_n X_nd X_ni e_n"}),
    "norm": Case(lambda x: x.norm(), {"x": N}, SECOND, {("x", "x"): "(δ(i, n) - x_i x_n/𝓛²)/𝓛"}),
    "quadratic form": Case(
        quadratic,
        {"x": N, "A": ("N", "N")},
        SECOND,
        {("x", "x"): "A_in/2 + A_ni/2", ("x", "A"): "x_j δ(i, n)/2 + x_i δ(j, n)/2", ("A", "A"): "0"},
    ),
    "squares of positive parts": Case(
        lambda x: (x.relu() ** 2).sum() / 2, {"x": N}, SECOND, {("x", "x"): "[x_n > 0] δ(i, n)"}
    ),
    "two layers": Case(
        mlp, LAYERS, SECOND | {"wrt": ("W", "V")}, {("V", "V"): "2 δ(i, k)/(K N) Σ_n h_nh h_nj"}
    ),
    "softmax": Case(
        lambda x: x.softmax(-1), {"x": N}, {"jacobian": True}, {("Y", "x"): "Y_n (δ(i, n) - Y_i)"}
    ),
    "softmax of rows": Case(
        lambda x: x.softmax(-1), {"x": ND}, {"jacobian": True}, {("Y", "x"): "Y_nd (δ(d, j) - Y_nj) δ(i, n)"}
    ),
    "log-softmax": Case(lambda x: x.log_softmax(-1), {"x": N}, {"jacobian": True}, {("Y", "x"): "δ(i, n) - exp(Y_i)"}),
    "layer norm": Case(
        layer_norm,
        {"x": ND, "w": D, "b": D},
        {"jacobian": True},
        {
            ("Y", "x"): "w_d r_n (δ(d, j) - z_nd z_nj/D - 1/D) δ(i, n)",
            ("Y", "w"): "z_nd δ(d, i)",
            ("Y", "b"): "δ(d, i)",
        },
    ),
    "a row of attention": Case(
        attention_row,
        {"q": ("d",), "K": ("T", "d"), "V": ("T", "v")},
        {"jacobian": True},
        {
            ("Y", "q"): "1/√d Σ_t K_td σ_t (V_ti - Σ_j V_ji σ_j)",
            ("Y", "K"): "q_d σ_t (V_ti - Σ_j V_ji σ_j)/√d",
            ("Y", "V"): "σ_t δ(i, j)",
        },
    ),
    "a linear layer": Case(
        lambda X, W, b: X @ W + b,
        {"X": ND, "W": ("D", "K"), "b": ("K",)},
        {"jacobian": True},
        {("Y", "X"): "W_di δ(j, n)", ("Y", "W"): "X_nd δ(i, j)", ("Y", "b"): "δ(i, j)"},
    ),
    "normalized": Case(
        lambda x: x / x.norm(), {"x": N}, {"jacobian": True}, {("Y", "x"): "(δ(i, n) - Y_n Y_i)/r"}
    ),
    "halves": Case(
        gated, {"a": ("N", "E"), "where": "E % 2 == 0"}, {"jacobian": True}
    ),
    "joined": Case(lambda a, b: tt.cat([a, b], 1).tanh(), {"a": ND, "b": ("N", "K")}, {"jacobian": True}),
}  # fmt: skip


@cache
def derived(name: str):
    """The result of `derive` for a case, once."""
    case = CASES[name]
    return derive(case.fn, **case.options, **case.arguments)


def plant_factor(monkeypatch) -> None:
    """A planted mistake: each derivative of a line is shown with a factor 2."""
    moved = forward_mode.moved
    monkeypatch.setattr(forward_mode, "moved", lambda *args: 2 * moved(*args))


def believe(monkeypatch) -> None:
    """A planted mistake: a prover that takes each form for proved."""
    monkeypatch.setattr(adjoints, "vanishes", lambda *_: together([]))

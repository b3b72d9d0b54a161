"""Functions whose second derivatives and Jacobians are in textbooks."""

import tinytensor as tt
from tests.symbolic.programs import derivations
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index
from tinytensor.symbolic.derive import adjoints, forward_mode
from tinytensor.symbolic.index_calculus.vanishing import together

ND, N, D = ("N", "D"), ("N",), ("D",)


def logistic(X, w, y):
    return F.binary_cross_entropy_with_logits(X @ w, y)


def logistic_with_bias(X, w, b, y):
    A = X @ w + b
    return F.binary_cross_entropy_with_logits(A, y)


def classifier(X, W, t):
    return F.cross_entropy(X @ W, t)


def poisson(X, w, y):
    A = X @ w
    return (A.exp() - y * A).sum()


def attention_row(q, K, V):
    return (K @ q / q.shape[0] ** 0.5).softmax(-1) @ V


def gated(a):
    value, gate = a.chunk(2, -1)
    return value * gate.sigmoid()


def mlp(X, W, V, Y):
    return (((X @ W).tanh() @ V - Y) ** 2).mean()


REGRESSION = {"X": ND, "w": D, "y": N}
LAYERS = {"X": ND, "W": ("D", "H"), "V": ("H", "K"), "Y": ("N", "K")}
SECOND, JACOBIAN = {"order": 2}, {"jacobian": True}
CASES = {  # name: (function, arguments, where, options)
    "logistic regression": (logistic, REGRESSION, (), SECOND | {"wrt": "w"}),
    "logistic regression, weights and bias": (logistic_with_bias, REGRESSION | {"b": ()}, (),
        SECOND | {"wrt": ("w", "b")}),
    "least squares": (lambda X, w, y: ((X @ w - y) ** 2).mean(), REGRESSION, (), SECOND | {"wrt": "w"}),
    "ridge": (lambda X, w, y, c: ((X @ w - y) ** 2).sum() / 2 + c / 2 * (w**2).sum(), REGRESSION | {"c": ()},
        (), SECOND | {"wrt": ("w", "c")}),
    "cross-entropy in logits": (lambda z, t: F.cross_entropy(z, t), {"z": ("N", "K"), "t": Index(N, "K")}, (), SECOND),
    "cross-entropy in weights": (classifier, {"X": ND, "W": ("D", "K"), "t": Index(N, "K")}, (), SECOND | {"wrt": "W"}),
    "log-sum-exp": (lambda x: x.logsumexp(-1), {"x": N}, (), SECOND),
    "Poisson regression": (poisson, REGRESSION, (), SECOND | {"wrt": "w"}),
    "norm": (lambda x: x.norm(), {"x": N}, (), SECOND),
    "quadratic form": (lambda x, A: x @ A @ x / 2, {"x": N, "A": ("N", "N")}, (), SECOND),
    "squares of positive parts": (lambda x: (x.relu() ** 2).sum() / 2, {"x": N}, (), SECOND),
    "positive parts": (lambda x: x.relu().sum(), {"x": N}, (), SECOND),
    "x |x|": (lambda x: (x * x.abs()).sum(), {"x": N}, (), SECOND),
    "square of the largest": (lambda x: x.max() ** 2, {"x": N}, (), SECOND),
    "Huber": (lambda x: F.smooth_l1_loss(x, 0 * x), {"x": N}, (), SECOND),
    "rounded": (lambda x: (x * x.floor()).sum(), {"x": N}, (), SECOND),
    "held constant": (lambda x: (x * x.detach()).sum(), {"x": N}, (), SECOND),
    "two layers": (mlp, LAYERS, (), SECOND | {"wrt": ("W", "V")}),
    "an argument with the name of a direction": (lambda x, x_dot: (x * x_dot**2).sum(), {"x": N, "x_dot": N}, (),
        SECOND),
    "waves shorter than the steps of differences": (lambda x: (1e5 * x).sin().sum(), {"x": N}, (), SECOND),
    "more entries than other blocks have": (lambda x: (x**2).sum(), {"x": (300,)}, (), SECOND),
    "softmax": (lambda x: x.softmax(-1), {"x": N}, (), JACOBIAN),
    "softmax of rows": (lambda x: x.softmax(-1), {"x": ND}, (), JACOBIAN),
    "log-softmax": (lambda x: x.log_softmax(-1), {"x": N}, (), JACOBIAN),
    "layer norm": (lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), {"x": ND, "w": D, "b": D}, (), JACOBIAN),
    "a row of attention": (attention_row, {"q": ("d",), "K": ("T", "d"), "V": ("T", "v")}, (), JACOBIAN),
    "a linear layer": (lambda X, W, b: X @ W + b, {"X": ND, "W": ("D", "K"), "b": ("K",)}, (), JACOBIAN),
    "normalized": (lambda x: x / x.norm(), {"x": N}, (), JACOBIAN),
    "halves": (gated, {"a": ("N", "E")}, "E % 2 == 0", JACOBIAN),
    # δ(d, n) for a row d of N + D and a column n of N is no identity matrix
    "joined vectors": (lambda a, b: 3 * tt.cat([a, b]) ** 2, {"a": N, "b": D}, (), JACOBIAN),
    "joined": (lambda a, b: tt.cat([a, b], 1).tanh(), {"a": ND, "b": ("N", "K")}, (), JACOBIAN),
}  # fmt: skip
derived = derivations(CASES)


def plant_factor(monkeypatch) -> None:
    """A planted mistake: each derivative of a line is shown with a factor 2."""
    moved = forward_mode.moved
    monkeypatch.setattr(forward_mode, "moved", lambda *args: 2 * moved(*args))


def believe(monkeypatch) -> None:
    """A planted mistake: a prover that takes each form for proved."""
    monkeypatch.setattr(adjoints, "vanishes", lambda *_: together([]))

"""Losses and layers with one of their gradients as a textbook writes it, in the names that `derive` gives.

A textbook writes a line of its own for a step of the chain rule, too; G stands for none of them here: where `derive`
has such a line, its terms count together with those of the line that uses it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import tinytensor as tt
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index

N, ND, NK, D = ("N",), ("N", "D"), ("N", "K"), ("D",)
XY, LINEAR, CLASSES = {"x": N, "y": N}, {"X": ND, "w": D, "y": N}, {"x": NK, "t": Index(N, "K")}
NORMAL = {"x": N, "m": (), "s": ()}


@dataclass(frozen=True)
class Form:
    """A function, its arguments, the name whose gradient is meant, and the right side of the textbook's line.

    whole: do the lines count which the line is written in?
    """

    function: Callable
    arguments: dict
    name: str
    textbook: str
    whole: bool = True


def logistic(X, w, y):
    A = X @ w
    return F.binary_cross_entropy_with_logits(A, y)


def logistic_in_steps(X, w, y):
    A = X @ w
    p = tt.sigmoid(A)
    return -(y * tt.log(p) + (1 - y) * tt.log(1 - p)).mean()


def logistic_of_logarithms(X, w, y):
    A = X @ w
    return -(y * F.logsigmoid(A) + (1 - y) * F.logsigmoid(-A)).mean()


def least_squares(X, w, y):
    A = X @ w
    return ((A - y) ** 2).mean()


def ridge(X, w, y):
    A = X @ w
    return ((A - y) ** 2).mean() + 0.1 * (w**2).sum()


def lasso(X, w, y):
    A = X @ w
    return ((A - y) ** 2).mean() + 0.1 * w.abs().sum()


def softmax_regression(X, W, t):
    A = X @ W
    return F.cross_entropy(A, t)


def poisson(X, w, y):
    A = X @ w
    return (A.exp() - y * A).mean()


def normal_density(x, m, s):
    return (((x - m) / s) ** 2 / 2 + s.log()).sum()


def entropy(x):
    q = F.softmax(x, -1)
    return -(q * q.log()).sum()


def focal(x):
    p = tt.sigmoid(x)
    return -((1 - p) ** 2 * p.log()).mean()


def triplet(x, near, far):
    v = ((x - near) ** 2).sum(-1) - ((x - far) ** 2).sum(-1) + 1
    return F.relu(v).mean()


def layer_norm(x, w):
    return F.layer_norm(x, x.shape[-1:], w, None)


UP = "∂𝓛/∂Y_n"
FORMS = {
    "squared error": Form(lambda x, y: F.mse_loss(x, y), XY, "x", "2 (x_n - y_n)/N"),
    "half the squared error": Form(lambda x, y: ((x - y) ** 2).sum() / 2, XY, "x", "x_n - y_n"),
    "absolute error": Form(lambda x, y: F.l1_loss(x, y), XY, "x", "sign(x_n - y_n)/N"),
    "Huber": Form(lambda x, y: F.smooth_l1_loss(x, y), XY, "x", "min(max(x_n - y_n, -1), 1)/N"),
    "logits": Form(lambda x, y: F.binary_cross_entropy_with_logits(x, y), XY, "x", "(σ(x_n) - y_n)/N"),
    "binary cross-entropy": Form(
        lambda x, y: -(y * x.log() + (1 - y) * (1 - x).log()).mean(), XY, "x", "(x_n - y_n)/(N x_n (1 - x_n))"
    ),
    "logistic regression": Form(logistic, LINEAR, "A", "(σ(A_n) - y_n)/N"),
    "logistic regression in steps": Form(logistic_in_steps, LINEAR, "A", "(p_n - y_n)/N"),
    "logistic regression of logarithms": Form(logistic_of_logarithms, LINEAR, "A", "(σ(A_n) - y_n)/N"),
    "logistic, targets 1 and -1": Form(lambda x, y: F.softplus(-y * x).mean(), XY, "x", "-y_n σ(-x_n y_n)/N"),
    "logistic of a margin": Form(lambda x, y: -F.logsigmoid(y * x).mean(), XY, "x", "-y_n σ(-x_n y_n)/N"),
    "hinge": Form(lambda x, y: tt.clamp(1 - y * x, min=0).mean(), XY, "x", "-y_n [1 > x_n y_n]/N"),
    "hinge by relu": Form(lambda x, y: F.relu(1 - y * x).mean(), XY, "x", "-y_n [1 > x_n y_n]/N"),
    "squared hinge": Form(lambda x, y: (F.relu(1 - y * x) ** 2).mean(), XY, "x", "-2 y_n max(0, 1 - x_n y_n)/N"),
    "perceptron": Form(lambda x, y: F.relu(-y * x).mean(), XY, "x", "-y_n [0 > x_n y_n]/N"),
    "exponential loss": Form(lambda x, y: (-y * x).exp().mean(), XY, "x", "-y_n exp(-x_n y_n)/N"),
    "log-cosh": Form(lambda x, y: (x - y).cosh().log().mean(), XY, "x", "tanh(x_n - y_n)/N"),
    "quantile": Form(
        lambda x, y: tt.where(y > x, 0.9 * (y - x), 0.1 * (x - y)).mean(), XY, "x", "(0.1 - [y_n > x_n])/N"
    ),
    "quantile by a maximum": Form(
        lambda x, y: tt.maximum(0.9 * (y - x), -0.1 * (y - x)).mean(), XY, "x", "(0.1 - [y_n > x_n])/N"
    ),
    "Poisson regression": Form(poisson, LINEAR, "A", "(exp(A_n) - y_n)/N"),
    "normal density, mean": Form(normal_density, NORMAL, "m", "Σ_n (m - x_n)/s²"),
    "normal density, scale": Form(normal_density, NORMAL, "s", "N/s - Σ_n (x_n - m)²/s³"),
    "cross-entropy": Form(lambda x, t: F.cross_entropy(x, t), CLASSES, "x", "(q_ni - δ(i, t_n))/N"),
    "likelihood of a log-softmax": Form(
        lambda x, t: F.nll_loss(F.log_softmax(x, -1), t), CLASSES, "x", "(exp(y_ni) - δ(i, t_n))/N"
    ),
    "softmax regression": Form(
        softmax_regression, {"X": ND, "W": ("D", "K"), "t": Index(N, "K")}, "A", "(q_ni - δ(i, t_n))/N"
    ),
    "soft targets": Form(
        lambda x, p: -(p * F.log_softmax(x, -1)).sum(), {"x": NK, "p": NK}, "x", "exp(y_ni) Σ_j p_nj - p_ni"
    ),
    "KL divergence": Form(lambda x, y: (y * (y.log() - x)).sum(), XY, "x", "-y_n"),
    "KL divergence, target": Form(lambda x, y: (y * (y.log() - x)).sum(), XY, "y", "1 + log(y_n) - x_n"),
    "entropy": Form(entropy, {"x": NK}, "x", "-q_ni (log(q_ni) - Σ_j q_nj log(q_nj))"),
    "log-sum-exp": Form(lambda x: tt.logsumexp(x, -1).sum(), {"x": NK}, "x", "exp(x_ni - L_n)"),
    "least squares": Form(least_squares, LINEAR, "A", "2 (A_n - y_n)/N"),
    "ridge": Form(ridge, LINEAR, "w", "0.2 w_d + Σ_n X_nd ∂𝓛/∂A_n", whole=False),
    "lasso": Form(lasso, LINEAR, "w", "0.1 sign(w_d) + Σ_n X_nd ∂𝓛/∂A_n", whole=False),
    "softmax": Form(lambda x: F.softmax(x, -1), {"x": NK}, "x", "Y_ni (∂𝓛/∂Y_ni - Σ_j Y_nj ∂𝓛/∂Y_nj)"),
    "log-softmax": Form(lambda x: F.log_softmax(x, -1), {"x": NK}, "x", "∂𝓛/∂Y_ni - exp(Y_ni) Σ_j ∂𝓛/∂Y_nj"),
    "sigmoid": Form(lambda x: tt.sigmoid(x), {"x": N}, "x", f"Y_n (1 - Y_n) {UP}"),
    "tanh": Form(lambda x: tt.tanh(x), {"x": N}, "x", f"(1 - Y_n²) {UP}"),
    "relu": Form(lambda x: F.relu(x), {"x": N}, "x", f"[x_n > 0] {UP}"),
    "leaky relu": Form(lambda x: F.leaky_relu(x, 0.1), {"x": N}, "x", f"([x_n > 0] + 0.1 [x_n ≤ 0]) {UP}"),
    "silu": Form(lambda x: F.silu(x), {"x": N}, "x", f"s_n (1 + x_n (1 - s_n)) {UP}"),
    "gelu": Form(lambda x: F.gelu(x), {"x": N}, "x", f"(p_n + x_n exp(-x_n²/2)/√(2 π)) {UP}"),
    "elu": Form(lambda x: F.elu(x), {"x": N}, "x", f"([x_n > 0] + exp(x_n) [x_n ≤ 0]) {UP}"),
    "softplus": Form(lambda x: F.softplus(x), {"x": N}, "x", f"σ(x_n) {UP}"),
    "log-sigmoid": Form(lambda x: F.logsigmoid(x), {"x": N}, "x", f"σ(-x_n) {UP}"),
    "softsign": Form(lambda x: F.softsign(x), {"x": N}, "x", f"{UP}/(1 + |x_n|)²"),
    "mish": Form(lambda x: F.mish(x), {"x": N}, "x", f"(h_n + x_n σ(x_n) (1 - h_n²)) {UP}"),
    "hard tanh": Form(lambda x: F.hardtanh(x), {"x": N}, "x", f"[x_n > -1] [1 > x_n] {UP}"),
    "2-norm": Form(lambda x: x.norm(), {"x": N}, "x", "x_n/𝓛"),
    "3-norm": Form(lambda x: x.norm(3), {"x": N}, "x", "x_n |x_n|/𝓛²"),
    "standard deviation": Form(lambda x: x.std(), {"x": N}, "x", "(x_n - 1/N Σ_i x_i)/((N - 1) 𝓛)"),
    "variance": Form(lambda x: x.var(), {"x": N}, "x", "2 (x_n - 1/N Σ_i x_i)/(N - 1)"),
    "layer norm": Form(
        layer_norm,
        {"x": ND, "w": D},
        "x",
        "r_n (w_d ∂𝓛/∂Y_nd - 1/D Σ_i w_i ∂𝓛/∂Y_ni - z_nd/D Σ_i w_i z_ni ∂𝓛/∂Y_ni)",
    ),
    "normalised rows": Form(
        lambda x: F.normalize(x, dim=-1), {"x": ND}, "x", "1/r_n (∂𝓛/∂Y_nd - Y_nd Σ_i Y_ni ∂𝓛/∂Y_ni)"
    ),
    "cosine": Form(lambda x, y: F.cosine_similarity(x, y, 0), XY, "x", "(y_n/r2 - 𝓛 x_n/r)/r"),
    "triplet": Form(triplet, {"x": ND, "near": ND, "far": ND}, "x", "2 [v_n > 0] (far_nd - near_nd)/N"),
    "focal": Form(focal, {"x": N}, "x", "(1 - p_n)² (2 p_n log(p_n) + p_n - 1)/N"),
    "preferences": Form(lambda x, y: -F.logsigmoid(0.1 * (x - y)).mean(), XY, "x", "-0.1 σ(0.1 (y_n - x_n))/N"),
    "geometric mean": Form(lambda x: x.log().mean().exp(), {"x": N}, "x", "𝓛/(N x_n)"),
    "product": Form(lambda x: x.prod(), {"x": N}, "x", "𝓛/x_n"),
    "angle": Form(lambda x, y: tt.atan2(y, x).sum(), XY, "x", "-y_n/(x_n² + y_n²)"),
}  # fmt: skip

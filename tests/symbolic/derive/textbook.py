"""Losses and layers of textbooks."""

import tinytensor as tt
from tests.symbolic.programs import programs
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index

N, ND, NK, D = ("N",), ("N", "D"), ("N", "K"), ("D",)
XY, LINEAR, CLASSES = {"x": N, "y": N}, {"X": ND, "w": D, "y": N}, {"x": NK, "t": Index(N, "K")}
NORMAL = {"x": N, "m": (), "s": ()}


class Textbook:
    """Functions with the sizes of their arguments."""

    def logistic(X: ND, w: D, y: N):
        A = X @ w
        return F.binary_cross_entropy_with_logits(A, y)

    def logistic_in_steps(X: ND, w: D, y: N):
        A = X @ w
        p = tt.sigmoid(A)
        return -(y * tt.log(p) + (1 - y) * tt.log(1 - p)).mean()

    def logistic_of_logarithms(X: ND, w: D, y: N):
        A = X @ w
        return -(y * F.logsigmoid(A) + (1 - y) * F.logsigmoid(-A)).mean()

    def poisson(X: ND, w: D, y: N):
        A = X @ w
        return (A.exp() - y * A).mean()

    def entropy(x: NK):
        q = F.softmax(x, -1)
        return -(q * q.log()).sum()

    def ridge(X: ND, w: D, y: N):
        A = X @ w
        return ((A - y) ** 2).mean() + 0.1 * (w**2).sum()

    def lasso(X: ND, w: D, y: N):
        A = X @ w
        return ((A - y) ** 2).mean() + 0.1 * w.abs().sum()

    def triplet(x: ND, near: ND, far: ND):
        v = ((x - near) ** 2).sum(-1) - ((x - far) ** 2).sum(-1) + 1
        return F.relu(v).mean()

    def focal(x: N):
        p = tt.sigmoid(x)
        return -((1 - p) ** 2 * p.log()).mean()


FORMS = {  # name: (function, arguments)
    **programs(Textbook),
    "squared error": (lambda x, y: F.mse_loss(x, y), XY),
    "half the squared error": (lambda x, y: ((x - y) ** 2).sum() / 2, XY),
    "absolute error": (lambda x, y: F.l1_loss(x, y), XY),
    "Huber": (lambda x, y: F.smooth_l1_loss(x, y), XY),
    "logits": (lambda x, y: F.binary_cross_entropy_with_logits(x, y), XY),
    "binary cross-entropy": (lambda x, y: -(y * x.log() + (1 - y) * (1 - x).log()).mean(), XY),
    "logistic, targets 1 and -1": (lambda x, y: F.softplus(-y * x).mean(), XY),
    "logistic of a margin": (lambda x, y: -F.logsigmoid(y * x).mean(), XY),
    "hinge": (lambda x, y: tt.clamp(1 - y * x, min=0).mean(), XY),
    "hinge by relu": (lambda x, y: F.relu(1 - y * x).mean(), XY),
    "squared hinge": (lambda x, y: (F.relu(1 - y * x) ** 2).mean(), XY),
    "perceptron": (lambda x, y: F.relu(-y * x).mean(), XY),
    "exponential loss": (lambda x, y: (-y * x).exp().mean(), XY),
    "log-cosh": (lambda x, y: (x - y).cosh().log().mean(), XY),
    "quantile": (lambda x, y: tt.where(y > x, 0.9 * (y - x), 0.1 * (x - y)).mean(), XY),
    "quantile by a maximum": (lambda x, y: tt.maximum(0.9 * (y - x), -0.1 * (y - x)).mean(), XY),
    "normal density, mean": (lambda x, m, s: (((x - m) / s) ** 2 / 2 + s.log()).sum(), NORMAL),
    "cross-entropy": (lambda x, t: F.cross_entropy(x, t), CLASSES),
    "likelihood of a log-softmax": (lambda x, t: F.nll_loss(F.log_softmax(x, -1), t), CLASSES),
    "soft targets": (lambda x, p: -(p * F.log_softmax(x, -1)).sum(), {"x": NK, "p": NK}),
    "KL divergence": (lambda x, y: (y * (y.log() - x)).sum(), XY),
    "log-sum-exp": (lambda x: tt.logsumexp(x, -1).sum(), {"x": NK}),
    "softmax": (lambda x: F.softmax(x, -1), {"x": NK}),
    "log-softmax": (lambda x: F.log_softmax(x, -1), {"x": NK}),
    "sigmoid": (lambda x: tt.sigmoid(x), {"x": N}),
    "tanh": (lambda x: tt.tanh(x), {"x": N}),
    "relu": (lambda x: F.relu(x), {"x": N}),
    "leaky relu": (lambda x: F.leaky_relu(x, 0.1), {"x": N}),
    "silu": (lambda x: F.silu(x), {"x": N}),
    "gelu": (lambda x: F.gelu(x), {"x": N}),
    "elu": (lambda x: F.elu(x), {"x": N}),
    "softplus": (lambda x: F.softplus(x), {"x": N}),
    "log-sigmoid": (lambda x: F.logsigmoid(x), {"x": N}),
    "softsign": (lambda x: F.softsign(x), {"x": N}),
    "mish": (lambda x: F.mish(x), {"x": N}),
    "hard tanh": (lambda x: F.hardtanh(x), {"x": N}),
    "3-norm": (lambda x: x.norm(3), {"x": N}),
    "variance": (lambda x: x.var(), {"x": N}),
    "layer norm": (lambda x, w: F.layer_norm(x, x.shape[-1:], w, None), {"x": ND, "w": D}),
    "normalised rows": (lambda x: F.normalize(x, dim=-1), {"x": ND}),
    "cosine": (lambda x, y: F.cosine_similarity(x, y, 0), XY),
    "preferences": (lambda x, y: -F.logsigmoid(0.1 * (x - y)).mean(), XY),
}  # fmt: skip

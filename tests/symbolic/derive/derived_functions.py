"""Functions with every kind of operation that `derive` knows, and the losses and layers of textbooks."""

import math

import numpy as np

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.symbolic.programs import derivations, programs
from tinytensor.symbolic import Index
from tinytensor.symbolic.derive.derivation import Derivation

N, D, NK, NUMBER = ("N",), ("D",), ("N", "K"), ()
ROWS, TABLE = Index(("N",), "D"), Index(("B", "T"), "V")
ND, N3, TD, Td, Tv, DE = ("N", "D"), ("N", 3), ("T", "D"), ("T", "d"), ("T", "v"), ("D", "E")
XY, LINEAR, CLASSES = {"x": N, "y": N}, {"X": ND, "w": D, "y": N}, {"x": NK, "t": Index(N, "K")}
NORMAL = {"x": N, "m": (), "s": ()}
WAVES = tt.tensor([[math.sin(1.0 + i * j) for j in range(3)] for i in range(3)], dtype=tt.float64)


def gated(a):
    value, gate = a.chunk(2, -1)
    return value * F.silu(gate)


class Functions:
    """Functions with the sizes of their arguments."""

    def attention(Q: Td, K: Td, V: Tv):
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        allowed = tt.tril(tt.ones(S.shape[0], S.shape[0]))
        P = S.masked_fill(allowed == 0, float("-inf")).softmax(-1)
        return P @ V

    def heads(X: ND, W: DE):
        q = (X @ W).view(X.shape[0], 2, -1).transpose(0, 1)
        return (q @ q.mT).softmax(-1) @ q

    def softmax_by_hand(x: ND):
        m = x.max(-1, keepdim=True).values
        e = (x - m).exp()
        return e / e.sum(-1, keepdim=True)

    def table_of_values(x: N3):
        return (x @ WAVES).tanh()

    def angles(x: TD):
        n = x.shape[-1]
        rate = 10000 ** (-2 * tt.arange(n, dtype=tt.float64) / n)
        return (x * rate).cos() + (x * rate).sin()


FUNCTIONS = {  # name: (function, arguments)
    **programs(Functions),
    "cross entropy": (lambda X, W, t: F.cross_entropy(X @ W, t),
        {"X": ("N", "D"), "W": ("D", "K"), "t": Index(("N",), "K")}),
    "smoothed": (lambda X, t: F.cross_entropy(X, t, label_smoothing=0.1, reduction="none"),
        {"X": ("N", "D"), "t": ROWS}),
    "squared error": (lambda X, w, y: ((X @ w - y) ** 2).mean(), {"X": ("N", "D"), "w": ("D",), "y": ("N",)}),
    "fused attention": (lambda Q, K, V: F.scaled_dot_product_attention(Q, K, V, is_causal=True),
        {"Q": ("B", "H", "T", "k"), "K": ("B", "H", "T", "k"), "V": ("B", "H", "T", "v")}),
    "log softmax": (lambda x, t: -x.log_softmax(-1)[tt.arange(x.shape[0]), t].mean(), {"x": ("N", "D"), "t": ROWS}),
    "logsumexp": (lambda x: x.logsumexp(0), {"x": ("N", "D")}),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b), {"x": ("N", "D"), "w": ("D",), "b": ("D",)}),
    "rms norm": (lambda x, w: F.rms_norm(x, (x.shape[-1],), w), {"x": ("B", "N", "D"), "w": ("D",)}),
    "standardised": (lambda q: (q - q.mean(-1, keepdim=True)) * (q.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt(),
        {"q": ("N", "D")}),
    "cosine": (lambda a, b: F.cosine_similarity(a, b, dim=-1).mean(), {"a": ("N", "D"), "b": ("N", "D")}),
    "embedding": (lambda E, t: E[t], {"E": ("V", "D"), "t": TABLE}),
    "gather": (lambda x, t: x.gather(1, t[:, None]), {"x": ("N", "D"), "t": ROWS}),
    "one hot": (lambda x, t: (x * F.one_hot(t, x.shape[1]).to(x.dtype)).sum(-1), {"x": ("N", "D"), "t": ROWS}),
    "gated": (gated, {"a": ("N", "E"), "where": "E % 2 == 0"}),
    "gelu": (lambda x: F.gelu(x) * F.gelu(x, approximate="tanh"), {"x": ("N", "D")}),
    "linear": (lambda x, W, b: F.relu(F.linear(x, W, b)), {"x": ("B", "N", "D"), "W": ("K", "D"), "b": ("K",)}),
    "largest": (lambda x: x.amax(0) - 2 * x.amin(1).sum(), {"x": ("N", "D")}),
    "first largest": (lambda x: x.max(0).values * x.min(0).values, {"x": ("N", "D")}),
    "running sum": (lambda x: x.cumsum(1) ** 2, {"x": ("N", "D")}),
    "joined": (lambda a, b: tt.cat([a, b], 1).tanh(), {"a": ("N", "D"), "b": ("N", "K")}),
    "stacked": (lambda a, b: tt.stack([a, b, a * b], 1), {"a": ("N", "D"), "b": ("N", "D")}),
    "neighbours": (lambda x: (x[:, 1:] - x[:, :-1]).abs().sum(-1) + x[:, 0] * x[:, -1], {"x": ("N", "D")}),
    "diagonal": (lambda A: A.diagonal().sigmoid() * A.sum(0), {"A": ("N", "N")}),
    "einsum": (lambda a, b: tt.einsum("bthk,bshk->bhts", a, b), {"a": ("B", "T", "H", "K"), "b": ("B", "S", "H", "K")}),
    "merged": (lambda X, W: X.reshape(X.shape[0], -1) @ W, {"X": ("N", "H", "K"), "W": ("H*K", "D")}),
    "fixed size": (lambda x, a: (x * a).sum(-1, keepdim=True), {"x": ("N", 3), "a": (1, 3)}),
    "scalars": (lambda x, a: (a * x).exp() / a, {"x": ("N",), "a": ()}),
    "held": (lambda x: 0.07 * (x * x.detach()).sum(), {"x": ("N", "D")}),
    "clipped": (lambda x: x.clamp(-0.5, 0.7) + tt.where(x > 0, x * x, -x), {"x": ("N", "D")}),
    "elementwise": (lambda x, y: F.softplus(x) * F.logsigmoid(y) + (x * x + 1).sqrt().log() / (2 + y.sin()) + F.elu(y),
        {"x": ("N", "D"), "y": ("D",)}),
    "special": (lambda x: x.erf() + x.atan(), {"x": ("N",)}),
    "gamma": (lambda x: (1 + x * x).lgamma() * x.erf() + (1 + x * x).polygamma(1) + (x.tanh() / 2).erfinv(),
        {"x": ("N",)}),
    "sinc": (lambda x, a: tt.sinc(a * x) * tt.atan2(1 + tt.arange(len(x)), tt.tensor(2)), {"x": ("N",), "a": ()}),
    "names that collide": (lambda E, e: (E * e).exp().sum(-1), {"E": ("lambda", "E_"), "e": ("E_",)}),
}  # fmt: skip


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


derived = derivations(FUNCTIONS)


def arrays(d: Derivation, numbers: tuple[int, ...], seed: int = 0) -> dict[str, np.ndarray]:
    """Arguments of these sizes: floats of both signs, and indices that repeat."""
    rng, result = np.random.default_rng(seed), {}
    trace = d.derived.trace
    at = dict(zip(trace.sizes, numbers))
    for name, argument in trace.tensors.items():
        shape = [int(n.xreplace(at)) for n in argument.shape]
        below = argument.below and int(argument.below.xreplace(at))
        result[name] = rng.integers(0, below, shape) if below else rng.normal(size=shape)
    return result

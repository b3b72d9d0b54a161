"""Functions and what a program, a textbook or a paper makes of them: `derive` proves them or refuses them.

What it says of each is in collection.json.
"""

import math

import numpy as np

import tinytensor as tt
from examples.gradients.functions import rotary
from tests.symbolic.derive.derived_functions import NORMAL
from tests.symbolic.derive.recurrent_functions import XH, Recurrent
from tests.symbolic.programs import programs, with_backward
from tinytensor import linalg, nn
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index, positive_definite, symmetric

N, D, T, NUMBER, CLASS = ("N",), ("D",), ("T",), (), Index(("N",), "K")
ND, DD, KK, NN, NK, NM, TK = ("N", "D"), ("D", "D"), ("K", "K"), ("N", "N"), ("N", "K"), ("N", "M"), ("T", "K")
DK, DH, HK, Td, MD, ROTATED = ("D", "K"), ("D", "H"), ("H", "K"), ("T", "d"), ("M", "D"), ("T", "K*2")
EVEN = "N % 2 == 0"
ROWS = {"x": ND, "t": Index(N, "D")}
SECOND = {"order": 2}
LEFT = tt.tensor([[1.0, 2.5], [0.3, 7.0]], dtype=tt.float64)
RIGHT = tt.tensor([[4.0, -2.5], [3.3, 1.0]], dtype=tt.float64)
INDEXED, XM = {"x": N, "t": Index(N, "K")}, {"x": N, "y": ("M",)}
X, XY, XYW, CLASSES = {"x": N}, {"x": N, "y": N}, {"x": N, "y": N, "w": N}, {"x": NK, "t": Index(N, "K")}


def in_floats(x):
    return tt.arange(len(x)) * 0.0 + len(x)


def odd(n):
    return (2 * n + 1) % 2


def by_another_size(x, y):
    return x.square().sum() * (3 if len(y) > 400 else 1) + y.sum()


def by_size(x, y):
    return (x * x).sum() * (2 if len(x) > 100 else 3) + y.sum()


def standard(x):
    return (x - x.mean()) / x.std(correction=0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


class Twice(nn.Module):
    """A parameter that is in a list, too."""

    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(tt.ones(3))
        self.all = [self.p]

    def forward(self, x):
        return (x * self.p).sum() + (self.all[0] ** 3).sum()


def part_changed(x):
    y = x * 2
    y[:, 0] = 0
    return y


def view_changed(x):
    y = x * 2
    y[0].mul_(2)
    return y


def every_other_row(x):
    h = x[0]
    for row in x[::2]:
        h = h * 0.5 + row
    return h


Wrong = with_backward(lambda ctx, x: x * x, lambda ctx, g: g)


def square(x):
    return (x * x).sum()


def hooked():
    module = Twice()
    module.p.register_hook(lambda g: g * 2)
    return module


def causal(S, diagonal=0, fill=-tt.inf):
    return S.masked_fill(tt.ones(len(S), len(S)).tril(diagonal) == 0, fill)


def slope_of_scores(x, N, count=0):
    """The gradient of `cubes_of_scores`; count = 1 divides by N in place of N - 1."""
    r = x.std(0)
    z = (x - x.mean(0)) / r
    g = 3 * z**2
    return (g - g.mean(0) - z * (g * z).sum(0) / (N - 1 + count)) / r


def share(x, length):
    return tt.where(length == 0, 0, x / tt.where(length == 0, 1, length))


def up_to(x, count):
    """x with a mask of -inf where the square of the last index is not below count."""
    return x.masked_fill(tt.arange(x.shape[-1]).square() >= count, -tt.inf)


def reversed_mask(x):
    return (x + up_to(0 * tt.arange(len(x)).double(), 90000).flip(0)).softmax(0)


class Reviewed:
    """Functions with the sizes of their arguments."""

    def correlation(x: N, y: N):
        a, b = x - x.mean(), y - y.mean()
        return (a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt()

    def nt_xent(x: ND, y: ND):
        a, b = F.normalize(x, dim=-1), F.normalize(y, dim=-1)
        alone = tt.eye(len(x)) > 0
        same = (a @ a.T / 0.5).masked_fill(alone, float("-inf"))
        return (tt.cat([a @ b.T / 0.5, same], 1).logsumexp(1) - (a * b).sum(1) / 0.5).mean()

    def barlow_twins(x: ND, y: ND):
        a, b = (x - x.mean(0)) / x.std(0), (y - y.mean(0)) / y.std(0)
        C = a.T @ b / len(x)
        return ((C.diagonal() - 1) ** 2).sum() + 0.005 * ((C**2).sum() - (C.diagonal() ** 2).sum())

    def mixture(x: N, y: NUMBER):
        parts = [F.softplus(y).sum() - (x - n) ** 2 / 2 * (1 + y * y) for n in (0.0, 1.0)]
        return -tt.stack(parts).logsumexp(0).sum()

    def sinkhorn(C: NM, steps: T):
        f, g = 0 * C.sum(1), 0 * C.sum(0)
        for _ in range(len(steps)):
            f = -(g - C).logsumexp(1)
            g = -(f[:, None] - C).logsumexp(0)
        return ((f[:, None] + g - C).exp() * C).sum()

    def crf(e: TK, A: KK):
        a = e[0]
        for t in range(1, e.shape[0]):
            a = (a[:, None] + A).logsumexp(0) + e[t]
        return a.logsumexp(0)

    def viterbi(e: TK, A: KK):
        a = e[0]
        for t in range(1, e.shape[0]):
            a = (a[:, None] + A).amax(0) + e[t]
        return a.amax(0)

    def state_space(x: T, a: D, b: D, c: D):
        h, result = 0 * a, []
        for t in range(len(x)):
            h = a * h + b * x[t]
            result.append((c * h).sum())
        return tt.stack(result)

    def kalman(y: T, A: DD, h: D, Q: DD, r: NUMBER, m0: D, P0: DD):
        m, P, losses = m0, P0, []
        for t in range(len(y)):
            before = A @ m
            C = A @ P @ A.T + Q
            s = h @ C @ h + r
            k = C @ h / s
            m = before + k * (y[t] - h @ before)
            P = C - k[:, None] * (h @ C)
            losses.append((y[t] - h @ before) ** 2 / s + s.log())
        return tt.stack(losses).sum() / 2

    def arcface(x: ND, W: DK, t: CLASS):
        cosine = F.normalize(x, dim=1) @ F.normalize(W, dim=0)
        angle = cosine.acos() + 0.5 * F.one_hot(t, W.shape[1])
        return F.cross_entropy(30 * angle.cos(), t)

    def momentum(w: D, A: DD, steps: T):
        v = 0 * w
        for _ in range(len(steps)):
            v = 0.9 * v - 0.1 * (A @ w)
            w = w + v
        return (w * w).sum()

    def newton_schulz(A: DD, steps: T):
        Z = A.T
        for _ in range(len(steps)):
            Z = 2 * Z - Z @ A @ Z
        return Z.sum()

    def changes_its_input(x: ND):
        y = x * 2
        y += x
        y.mul_(3)
        return y

    def halves(x: N):
        if len(x) % 2:
            raise ValueError("an even number of entries is needed")
        return (x[: len(x) // 2] * x[len(x) // 2 :]).sum()

    def rotary_from_positions(x: ROTATED):
        T, D = x.shape
        frequency = 10000.0 ** (-tt.arange(0, D, 2, dtype=tt.float64) / D)
        angle = tt.arange(T, dtype=tt.float64)[:, None] * frequency
        cos, sin = angle.cos(), angle.sin()
        return rotary(x, cos, sin)

    def smoothing_by_hand(z: NK, t: CLASS):
        K = z.shape[-1]
        q = F.one_hot(t, K).to(z.dtype) * 0.9 + 0.1 / K
        return -(q * F.log_softmax(z, -1)).sum(-1).mean()

    def network(X: ND, W: DH, V: HK):
        h = (X @ W).relu()
        A = h @ V
        s = A.sum(-1)
        return (s * s).mean()

    def discrepancy(x: ND, y: MD):
        def kernel(a, b):
            return (-((a[:, None] - b) ** 2).sum(-1) / 2).exp().mean()

        return kernel(x, x) + kernel(y, y) - 2 * kernel(x, y)

    def largest_shares(x: ND):  # the softmax gets its name after the maximum is taken of it
        q = x.softmax(0)
        return (q.amax(0) ** 2).sum()

    def next_to_the_diagonal(x: NN):  # N + 1 is compared with an index up to N
        part = x * (tt.arange(len(x))[:, None] == tt.arange(len(x)) + 1)
        return (part**3).sum()

    def softmax_of_numpy(x: ND):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def attend(Q: Td, K: Td):
        S = Q @ K.T + 1
        S = S.masked_fill(tt.ones(S.shape[0], S.shape[0], dtype=tt.bool).triu(1), -tt.inf)
        return S.softmax(-1)


PARTS = {"x.roll(2)": lambda x: x.roll(2), "x.roll(-2)": lambda x: x.roll(-2)}
PARTS |= {"x[-2:]": lambda x: x[-2:], "x[:2]": lambda x: x[:2]}
FRACTIONS = ("N/2 > M", "N > 3*M/2", "(N + M) % 3 == 1")
REVIEW = {  # name: (function, arguments, where, and options)
    **programs(Reviewed),
    "root of a quotient": (lambda x, y: (x / y).sqrt().sum(), XY),
    "root of a product of sums": (lambda x, y: (x.sum() * y.sum()).sqrt(), XY),
    "Bhattacharyya's distance": (lambda x, y: -(x * y).sqrt().sum().log(), XY),
    "Sharpe's ratio": (lambda x: x.mean() / x.std(), X),
    "likelihood of Bernoulli": (lambda x, y: (x**y * (1 - x) ** (1 - y)).prod(), XY),
    "power of a product": (lambda x, y: ((x * y) ** 0.3).sum(), XY),
    "root of a square": (lambda x: (x * x).sqrt(), {"x": ()}),
    "Gini's mean difference": (lambda x: (x[:, None] - x).abs().sum(), X),
    "cosine": (lambda x, y: (x * y).sum() / ((x * x).sum() * (y * y).sum()).sqrt(), XY),
    "harmonic mean": (lambda x: len(x) / (1 / x).sum(), X),
    "geometric mean": (lambda x: x.log().mean().exp(), X),
    "power mean": (lambda x: (x**3).mean() ** (1 / 3), X),
    "covariance": (lambda x, y: ((x - x.mean()) * (y - y.mean())).mean(), XY),
    "coefficient of variation": (lambda x: x.std() / x.mean(), X),
    "skewness": (lambda x: (standard(x) ** 3).mean(), X),
    "index of dispersion": (lambda x: x.var() / x.mean(), X),
    "root of the mean square": (lambda x, y: ((x - y) ** 2).mean().sqrt(), XY),
    "determination": (lambda x, y: 1 - ((x - y) ** 2).sum() / ((y - y.mean()) ** 2).sum(), XY),
    "t of a mean": (lambda x: x.mean() / (x.var() / len(x)).sqrt(), X),
    "weighted mean": (lambda x, w: (w * x).sum() / w.sum(), {"x": N, "w": N}),
    "Hellinger's distance": (lambda x, y: ((x.sqrt() - y.sqrt()) ** 2).sum().sqrt(), XY),
    "Jensen and Shannon": (lambda x, y: (x * (2 * x / (x + y)).log() + y * (2 * y / (x + y)).log()).sum(), XY),
    "chi-squared": (lambda x, y: ((x - y) ** 2 / (x + y)).sum(), XY),
    "entropy of shares": (lambda x: -(x / x.sum() * (x / x.sum()).log()).sum(), X),
    "odds ratio": (lambda x, y: (x / (1 - x) / (y / (1 - y))).log().sum(), XY),
    "logarithm with a bound": (lambda x, y: F.binary_cross_entropy(x.sigmoid(), y), XY),
    "hypot at 0": (lambda x, y: (x * x - 4).hypot(y * y - 9).sum(), XY),
    "maximum": (lambda x: x.maximum(0).sum(), X),
    "prelu": (lambda x: F.prelu(x, tt.tensor(0.25)).sum(), X),
    "sign": (lambda x: (x * x.sign()).sum(), X),
    "mask on detached numbers": (lambda x: (x * (x.detach() > 0)).sum(), X),
    "remainder": (lambda x: (x % 1).sum(), X),
    "absolute value": (lambda x: x.abs().sum(), X),
    "absolute value by where": (lambda x: tt.where(x > 0, x, -x).sum(), X),
    "jump at 0": (lambda x: tt.where(x > 0, x + 1, x).sum(), X),
    "jump at 1.5": (lambda x: (x * (x > 1.5)).sum(), X),
    "jump at each whole number": (lambda x: (x * x.floor()).sum(), X),
    "jump of wing's loss": (lambda x: tt.where(x < 10, 10 * (1 + x / 2).log(), x - 1.79).sum(), X),
    "mean of all but the first": (lambda x: x[1:].mean(), X),
    "log-sum-exp of all but the first": (lambda x: x[1:].logsumexp(0), X),
    "threshold": (lambda x: F.threshold(x, 0.5, 2.0).sum(), X),
    "hardshrink": (lambda x: F.hardshrink(x).sum(), X),
    "selu": (lambda x: F.selu(x).sum(), X),
    "RankNet": (lambda x: F.softplus(x - x[:, None]).triu(1).sum(), X),
    "focal loss of logits": (lambda x, y: ((x.sigmoid() - y) ** 2 * (F.softplus(x) - x * y)).mean(), XY),
    "Dice's loss": (lambda x, y: 1 - 2 * (x.sigmoid() * y).sum() / (x.sigmoid().sum() + y.sum()), XY),
    "intersection over union": (lambda x, y: 1 - (x * y).sum() / (x + y - x * y).sum(), XY),
    "Student's t": (lambda x, m, s: (2.5 * (1 + ((x - m) / s) ** 2 / 4).log() + s.log()).sum(), NORMAL),
    "variational bound": (lambda m, s: -0.5 * (1 + s - m**2 - s.exp()).sum(-1).mean(), {"m": ND, "s": ND}),
    "zero-inflated Poisson": (lambda x, y: -(y + (1 - y) * (-x.exp()).exp()).log().sum(), XY),
    "Gaussian kernel": (lambda x, s: (-((x[:, None] - x) ** 2).sum(-1) / (2 * s * s)).exp().sum(), {"x": ND, "s": ()}),
    "principal components": (lambda X, W: ((X - X @ W @ W.T) ** 2).sum(), {"X": ND, "W": ("D", "K")}),
    "Gaussian process": (lambda A, y: y @ linalg.solve(A, y) + tt.logdet(A), {"A": NN, "y": N}, positive_definite("A")),
    "fixed point": (lambda A, b: (linalg.solve(tt.eye(len(b)) - A, b) ** 2).sum(), {"A": DD, "b": ("D",)}),
    "spectral norm": (lambda W, u: (u @ W) @ (u @ W) / (u @ W).norm(), {"W": ND, "u": N}),
    "batch norm": (lambda x, w, b: (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt() * w + b,
                   {"x": ND, "w": ("D",), "b": ("D",)}),
    "weight norm": (lambda x, V, s: x @ (s * V / V.norm(dim=0)), {"x": ND, "V": ("D", "K"), "s": ("K",)}),
    "LoRA": (lambda x, W, A, B: x @ (W + 0.5 * A @ B), {"x": ND, "W": ("D", "K"), "A": ("D", "R"), "B": ("R", "K")}),
    "mixture of experts": (lambda x, G, W: tt.einsum("ne,edk,nd->nk", (x @ G).softmax(-1), W, x),
                           {"x": ND, "G": ("D", "E"), "W": ("E", "D", "K")}),
    "causal linear attention": (lambda Q, K, V: (Q @ K.T).tril() @ V, {"Q": ND, "K": ND, "V": ("N", "K")}),
    "distances of a triplet": (lambda x, y, z: F.relu(F.pairwise_distance(x, y) - F.pairwise_distance(x, z) + 1).mean(),
                               {"x": ND, "y": ND, "z": ND}),
    "three largest": (lambda x: x.topk(3).values.sum(), X),
    "batch of solves": (lambda A, b: linalg.solve(A, b).sum(), {"A": ("B", "D", "D"), "b": ("B", "D")}),
    "floor and remainder": (lambda x: (x - x.floor()) * (x % 0.3), {"x": ("N",)}),
    "product": (lambda x: x.prod(-1), {"x": ("N", "D")}),
    "pad": (lambda x: F.pad(x, (1, 2)), {"x": ("N", "D")}),
    "variance": (lambda x: x.var(-1), {"x": ("N", "D")}),
    "power": (lambda x, a: x**a, {"x": ("N",), "a": ()}),
    "embedding": (lambda E, t: F.embedding(t, E).tanh(), {"E": ("V", "D"), "t": Index(("N",), "V")}),
    "sums of rows": (lambda x, t: tt.zeros(*x.shape, dtype=tt.float64).index_add(0, t, x),
        {"x": ("N", "D"), "t": Index(("N",), "N")}),
    "differences of rows": (lambda x: (x[1:] - x[:-1]).square().sum(), {"x": ("N", "D")}),
    "gelu": (lambda x, W: F.gelu(x @ W), {"x": ("N", "D"), "W": ("D", "F")}),
    "diagonal": (lambda v: tt.diag(v) @ v, {"v": ("N",)}),
    "einsum": (lambda a, b: tt.einsum("ntd,nsd->nts", a, b), {"a": ("N", "T", "D"), "b": ("N", "S", "D")}),
    "module": (Net(), {"x": ("N", "D=16")}),
    "linear layer": (nn.Linear(16, 32), {"input": ("N", "D=16")}),
    "a parameter that is in a list, too": (Twice(), {"x": ("N", 3)}),
    "every other row": (every_other_row, {"x": ND}, EVEN),
    "every other row, without where": (every_other_row, {"x": ND}),
    "two branches": (lambda x: (x**2).sum() if len(x) > 3 else (x**3).sum(), X, "N > 1"),
    "conditions that never hold": (lambda x: (x * x).sum(), X, ("N > 3", "N < 3")),
    "always a tie": (lambda x: x.maximum(x).sum(), X),
    "no value at any point": (lambda x: (-1 - x.abs()).log().sum(), X),
    "a size that is a number": (lambda x: x.sum(), X, "N == 3"),
    "softplus of a multiple": (lambda x: F.softplus(x, 2).sum(), X),
    "a largest whole number": (lambda x, t: (x * (t == t.amax())).sum(), {"x": N, "t": Index(N, "N")}),
    "a dtype that is asked for": (lambda x: x.sum() if x.dtype == tt.ones(2).dtype == tt.float64 else -x.sum(), X),
    "mean of every other entry": (lambda x: (x[::2] ** 2).mean(), X, EVEN),
    "sums of two that are stacked": (lambda x, y: (tt.stack((x, y)).sum(1) ** 2).sum(), XY),
    "largest later": (Recurrent.largest_later, XH, "T > 1"),
    "a Sequential": (nn.Sequential(nn.Linear(3, 2), nn.Tanh()), {"x": ("B", 3)}),
    "third power of a size": (lambda x: x / len(x) ** 3 + len(x) ** 3, X),
    "exponential of a size": (lambda x: x.sum() * math.exp(3 * len(x)), X),
    "power of a size": (lambda x: x.sum() * 10.0 ** (2 * len(x)), X),
    "layer norm without epsilon": (lambda x: F.layer_norm(x, x.shape[-1:], eps=0.0), {"x": ND}),
    "masks of -inf": (lambda x: tt.where(tt.arange(len(x)) < 1, x, tt.full_like(x, -tt.inf)).softmax(0), X),
    "mask with a scale": (lambda S: (causal(S) / len(S) ** 0.5).softmax(-1), {"S": NN}),
    "mask with a temperature": (lambda S: (causal(S) * S[0, 0].exp()).softmax(-1), {"S": NN}),
    "finite entries of a mask": (lambda S: tt.where(causal(S).isfinite(), S, 3 * S), {"S": NN}),
    "mask of a large number": (lambda S: causal(S, fill=-1e30).softmax(-1), {"S": NN}),
    "mask by where": (lambda S: tt.where(tt.ones(len(S), len(S)).tril() == 1, S, -1e30).softmax(-1), {"S": NN}),
    "mask of a window": (lambda S: causal(S, -250).softmax(-1), {"S": NN}),
    "diagonal of a mask": (lambda x: causal(x).diagonal().exp().sum(), {"x": NN}),
    "diagonal that is masked": (lambda x: causal(x, -1).diagonal().exp().sum(), {"x": NN}),
    "mask of another triangle": (
        lambda S: S.masked_fill(tt.ones(len(S), len(S)).triu() == 0, -tt.inf).softmax(-1), {"S": NN}
    ),
    "whole numbers below their largest": (lambda x, t: (x * (2 * t >= 3) * (t < t.amax())).sum(), INDEXED),
    "a remainder by a sum": (lambda x, y: x.sum() * y.sum(), XM, "N % (M + 1) == 0"),
    "rows of 3": (lambda x: x.view(-1, 3)[:, 0].sum(), X),
    "rows of 20, a size above those that are tried": (lambda x: x.view(-1, 20)[:, 0].sum(), X),
    "a few times as many numbers, which memory bounds": (lambda x: x.repeat(3) * tt.arange(3 * len(x)), X),
    "a few numbers more, which memory bounds": (lambda x: F.pad(x, (2, 1)) * tt.arange(len(x) + 3), X),
    **{f"{part} of N + 1": (fn, {"x": ("N + 1",)}) for part, fn in PARTS.items()},
    **{f"a branch by size, where {condition}": (by_size, XM, condition) for condition in FRACTIONS},
    "a remainder by what is above 0": (lambda x, y: x.sum() * y.sum(), XM, ("M > 1", "N % (M - 1) == 0")),
    "Hessian of x log x": (lambda x: (x * x.log()).sum(), X, (), SECOND),
    "Hessian by size": (lambda x: (x**3).sum() if len(x) > 3 else x.sum(), X, (), SECOND),
    "Hessian of a size": (lambda x: (x**3).sum() if len(x) > 3 else x.sum(), X, "N > 3", SECOND),
    "mask of numbers": (lambda S: S.masked_fill(S > 250, -tt.inf).logsumexp(-1), {"S": NN}),
    "a symmetric matrix of a product of sizes": (
        lambda S, x: x @ S @ x, {"S": ("2*N", "2*N"), "x": ("2*N",)}, symmetric("S")),
    "remainder of whole numbers below 0": (lambda x, t: (x * ((t - 100) % 7)).sum(), INDEXED),
    "sigmoid by hand": (lambda x: 1 / (1 + (-x).exp()), X),
    "exponent that is a size": (lambda x: (x ** (x.shape[0] - 1)).sum(), X),
    "mask that is reversed": (reversed_mask, X),
    "rows of another length": (lambda x: (x.reshape(x.shape[1], x.shape[0])[0] ** 2).sum(), {"x": NM},
                               "1000 * (N % M) < N"),
    "angles of 0 and -0": (
        lambda x: (x * tt.atan2(tt.where(tt.arange(len(x)).square() < 90000, 0.0, -0.0), tt.tensor(-1.0))).sum(), X),
    "columns of an inverse": (lambda A, W, t: (linalg.solve(A, F.one_hot(t, len(A)).double()) * W).sum(),
                              {"A": NN, "W": NN, "t": Index(N, "N")}),
    "bytes that go down": (lambda x: (x * tt.tensor([3, 2, 1], dtype=tt.uint8)).sum(), {"x": (3,)}),
    "bytes that go up and down": (lambda x: (x * tt.tensor([0, 128, 0], dtype=tt.uint8)).sum(), {"x": (3,)}),
    "whole numbers in a shorter float": (lambda x, t: (x * (t.float().double() - t) * 1e9 + x).sum(), INDEXED),
    "a count in a shorter float": (lambda x: (x * tt.arange(len(x), dtype=tt.float32)).sum(), X),
    "truth values in a shorter float": (lambda x: (x * (x > 0).float()).sum(), X),
    "diagonal of two sizes": (lambda x: ((x * tt.eye(*x.shape, dtype=tt.float64)).tril() ** 2).sum(), {"x": ND}),
    "triangle of two ranges": (lambda x: (tt.ones(len(x), len(x), dtype=tt.float64).tril(-2) @ x).sum(), X),
    "band of two ranges": (lambda x, t: -((x.tril(2).triu(-2) - x).log_softmax(-1)[tt.arange(len(x)), t]).mean(), ROWS),
}  # fmt: skip
OTHER_WORDS = {  # function, arguments, gradients of the first argument by hand, wrong ones and right ones, where
    "weights that are large": (lambda x, t, w: F.cross_entropy(x, t, w.exp(), reduction="sum"), ROWS | {"w": ("D",)},
        ["w.exp()[t][:, None] * (x.softmax(-1) - 1.001 * F.one_hot(t, D))"],
        ["w.exp()[t][:, None] * (x.softmax(-1) - F.one_hot(t, D))"]),
    "numbers before zeros": (lambda x, y: (x * F.pad(tt.ones(3), (0, len(y) - 3)) * y).sum(), XY, ["y"],
                             ["y * F.pad(tt.ones(3), (0, len(y) - 3))"], "N > 3"),
    "sin² by cos²": (lambda x: (x - x.sin() * x.cos()).sum(), X, ["2 * cos(x)**2"], ["2 - 2 * cos(x)**2"]),
    "twice the angle": (lambda x: (x.sin() ** 2).sum(), X, ["sin(x)"], ["sin(2 * x)"]),
    "log of a product": (lambda x, y: (x * (x * y).log()).sum(), XY, ["log(x) + log(y)"], ["log(x) + log(y) + 1"]),
    "sign": (lambda x: (x**2).sqrt().sum(), X, ["x"], ["x / (x**2).sqrt()", "x.sign()"]),
    "roots": (lambda x, y: (x * y).sqrt().sum(), XY, ["y.sqrt() / x.sqrt()"], ["y.sqrt() / (2 * x.sqrt())"]),
    "fractions": (lambda x, y: (1 / (x * (x + y))).sum(), XY,
                  ["(1 / (x + y)**2 + 1 / x**2) / y"], ["(1 / (x + y)**2 - 1 / x**2) / y"]),
    "largest of three": (lambda x, y, z: tt.maximum(x, tt.maximum(y, z)).sum(), XY | {"z": N},
                         ["(x > y) * 1.0"], ["(x > maximum(z, y)) * 1.0"]),
    "running sum from the end": (lambda x, y: (x.cumsum(0) * y).sum(), XY,
                                 ["y.cumsum(0)"], ["y.flip(0).cumsum(0).flip(0)"]),
    "determinant of a product": (lambda A, B: linalg.det(A @ B), {"A": DD, "B": DD},
                                 ["linalg.inv(A).T"], ["linalg.det(A) * linalg.det(B) * linalg.inv(A).T"]),
    "log-determinant of a product": (lambda A, B: linalg.slogdet(A @ B).logabsdet, {"A": DD, "B": DD},
                                     ["linalg.inv(A)"], ["linalg.inv(A).T"]),
    "a sum of angles": (lambda x, y: -(x + y).cos().sum(), XY, [], ["sin(x) * cos(y) + cos(x) * sin(y)"]),
    "log of a quotient": (lambda x, y: (x * (x / y).log()).sum(), XY, [], ["log(x) - log(y) + 1"]),
    "log of a power": (lambda x: (x * (x**3).log()).sum(), X, [], ["3 * log(x) + 3"]),
    "log of a root": (lambda x: (x * x.sqrt().log()).sum(), X, [], ["log(x) / 2 + 1 / 2"]),
    "a quotient by |x|": (lambda x: (x**2).sqrt().sum(), X, [], ["x / abs(x)"]),
    "a root above": (lambda x: x.sqrt().sum(), X, [], ["x.sqrt() / (2 * x)"]),
    "a power as roots": (lambda x: (x**1.5).sum(), X, [], ["1.5 * x / x.sqrt()"]),
    "an exponential of logarithms": (lambda x, y: (x**y).sum(), XY, [], ["y * exp(y * log(x)) / x"]),
    "partial fractions": (lambda x: (x / (1 + x)).log().sum(), X, [], ["1 / x - 1 / (1 + x)"]),
    "σ by tanh": (lambda x: F.softplus(x).sum(), X, [], ["(1 + tanh(x / 2)) / 2"]),
    "σ by exponentials": (lambda x: F.softplus(x).sum(), X, [], ["exp(x) / (1 + exp(x))"]),
    "tanh by σ": (lambda x: (x.exp() + (-x).exp()).log().sum(), X, [], ["2 * sigmoid(2 * x) - 1"]),
    "σ': the other half": (lambda x: x.sigmoid().sum(), X, [], ["sigmoid(x) * sigmoid(-x)"]),
    "softmax by differences": (lambda x: x.logsumexp(0), X, [], ["1 / (x - x[:, None]).exp().sum(1)"]),
    "softmax of two": (lambda x, y: (x.exp() + y.exp()).log().sum(), XY, [], ["sigmoid(x - y)"]),
    "a norm squared": (lambda x: (x * x).sum().sqrt(), X, [], ["x * (x * x).sum()**-0.5"]),
    "a mean of squares": (lambda x: x.var(correction=0), X, [], ["2 * x / N - 2 * x.sum() / N**2"]),
    "a cube": (lambda x, y: ((x + y) ** 3).sum(), XY, [], ["3 * x**2 + 6 * x * y + 3 * y**2"]),
    "relu by |x|": (lambda x: (x.relu() ** 2).sum(), X, [], ["x + abs(x)"]),
    "inverse of a product": (lambda A, B: linalg.inv(A @ B).sum(), {"A": DD, "B": DD},
                             [], ["-(linalg.inv(B) @ linalg.inv(A)).T @ ones(D, D) @ linalg.inv(A).T"]),
    "determinant of a square": (lambda A: linalg.det(A @ A), {"A": DD}, [], ["2 * linalg.det(A)**2 * linalg.inv(A).T"]),
    "sum of places": (lambda x: x.sum() * tt.arange(len(x)).sum(), X, ["N * ones(N)"], ["N * (N - 1) / 2 * ones(N)"]),
    "largest": (lambda x: x.max(), X, [], ["(x == x.max()) * 1.0", "(x == x.max()) / (x == x.max()).sum()"]),
    "largest of two copies": (lambda x: tt.cat((x, x)).max(), X, ["2.0 * (x == x.max())"], []),
    "a constant of no dtype": (lambda x: (x * tt.full((len(x),), 0.1)).sum(), X, [], ["full((N,), 0.1)"]),
    "std": (lambda x: x.std(), X, ["7 * x", "(x - x.mean()) / (N * x.std())", "x / ((N - 1) * x.std())"],
        ["(x - x.mean()) / ((N - 1) * x.std())"]),
    "z-scores": (lambda x: (((x - x.mean(0)) / x.std(0)) ** 3).sum(), {"x": ND},
        [lambda x, N: slope_of_scores(x, N, 1), lambda x, N: slope_of_scores(x, N) * x.std(0)],
        [lambda x, N: slope_of_scores(x, N)]),
    "Dice's loss, whose denominator may be 0 but for rounding": (
        lambda x, y: 1 - 2 * (x * y).sum() / (x.sum() + y.sum()), XY,
        ["-2 * y / (x.sum() + y.sum())", "2 * (y - (x * y).sum() / (x.sum() + y.sum())) / (x.sum() + y.sum())"],
        ["2 * ((x * y).sum() / (x.sum() + y.sum()) - y) / (x.sum() + y.sum())"]),
    "the largest entry, the only one where no two are equal": (lambda x: (x.amax(1) ** 2).sum(), {"x": ND},
        ["2 * x * (x == x.amax(0, keepdim=True))", "x.amax(1, keepdim=True) * (x == x.amax(1, keepdim=True))"],
        ["2 * x.amax(1, keepdim=True) * (x == x.amax(1, keepdim=True))"]),
    "the square of a mask, which is the mask": (
        lambda x: (tt.tril(x, -1) ** 2).sum() + (((x > 0) * x) ** 2).sum() + ((x == 1) * x**3).square().sum(),
        {"x": KK},
        ["2 * tt.tril(x) + 2 * x * (x > 0) + 6 * x**5 * (x == 1)", "2 * tt.tril(x, -1) + 2 * x + 6 * x**5 * (x == 1)"],
        ["2 * tt.tril(x, -1) + 2 * x * (x > 0) + 6 * x**5 * (x == 1)"]),
    "an argument that is not used": (lambda x, y: (y * y).sum(), XY, ["2 * y", "x", "ones(N)"], ["0 * x", "zeros(N)"]),
    "least squares in NumPy": (lambda w, X, y: np.mean(np.square(np.matmul(X, w) - y)), {"w": D, "X": ND, "y": N},
        [lambda X, w, y: np.matmul(X.T, np.matmul(X, w) - y) / len(y)],
        [lambda X, w, y: 2 * np.matmul(X.T, np.matmul(X, w) - y) / len(y)]),
    "a number that is not used": (lambda x, y: (y * y).sum(), {"x": (), "y": N}, ["1", "N", "x"], ["0", "0 * x"]),
    "stacked and summed": (lambda x, y: (tt.stack((x, y)).sum(0) ** 2).sum(), XY,
        ["2 * x", "2 * x + y", "2 * (x + y).sum() * ones(N)"], ["2 * (x + y)"]),
    "every other entry": (lambda x: (x[::2] ** 2).sum(), X,
        ["2 * x", "2 * x * (arange(N) % 2 == 1)", "2 * x * (arange(N) < N // 2)", "2 * x * (arange(N) % 2)"],
        ["2 * x * (arange(N) % 2 == 0)", "2 * x * (1 - arange(N) % 2)",
         "2 * stack((x[::2], 0 * x[1::2]), 1).flatten()"], EVEN),
    "every other entry, weighted": (lambda x: (x[::2] * x[1::2] * tt.arange(0, len(x), 2)).sum(), X,
        ["stack((x[1::2], x[::2]), 1).flatten()", "stack((x[1::2], x[::2]), 1).flatten() * arange(N)"],
        ["stack((x[1::2], x[::2]), 1).flatten() * (arange(N) - arange(N) % 2)"], EVEN),
    "the first half": (lambda x: (x[: len(x) // 2] ** 2).sum(), X,
        ["2 * x", "2 * x * (arange(N) % 2 == 0)", "2 * x * (arange(N) >= N // 2)"],
        ["2 * x * (arange(N) < N // 2)", "2 * x * (arange(N) < N / 2)"], EVEN),
    "a step down to 1": (lambda x: (x * tt.arange(len(x), 0, -1)).sum(), X,
        ["arange(N - 1, -1, -1)", "arange(1, N + 1)", "arange(N)"],
        ["arange(N, 0, -1)", "N - arange(N)", "1.0 * arange(N, 0, -1)"]),
    "steps of three": (lambda x: (x * tt.arange(3 * len(x), 0, -3)).sum(), X,
        ["arange(3 * N - 1, -1, -3)", "3 * arange(N)"], ["3 * arange(N, 0, -1)", "3.0 * (N - arange(N))"]),
    "halves": (lambda x: (x * (tt.arange(len(x)) / 2)).sum(), X,
        ["arange(N)", "arange(1, N + 1) / 2"], ["arange(N) / 2", "0.5 * arange(N)"]),
    "a trace": (lambda x: tt.trace(x) ** 2, {"x": KK}, ["2 * eye(K)", "2 * trace(x) * ones(K, K)", "trace(x) * eye(K)"],
        ["2 * trace(x) * eye(K)", "2 * tt.trace(x) * tt.eye(K)", "2 * diag(x).sum() * diag(ones(K))"]),
    "a diagonal": (lambda x: (tt.diag(x) ** 2).sum(), {"x": KK},
        ["2 * x", "2 * diag(x) * eye(K) * 2"], ["2 * diag(diag(x))", "2 * x * eye(K)"]),
    "an angle": (lambda x, y: tt.atan2(y, x).sum(), XY,
        ["y / (x**2 + y**2)", "x / (x**2 + y**2)", "-y / (x**2 + y**2) ** 0.5", "-y.abs() / (x**2 + y**2)"],
        ["-y / (x**2 + y**2)"]),
    "the 3-norm": (lambda x: x.norm(3), X,
        ["7 * x", "x**2 / x.norm(3) ** 2", "x * x.abs() / x.norm(3)", "x.sign() * x**2 / x.norm(2) ** 2"],
        ["x * x.abs() / x.norm(3) ** 2", "x.sign() * x**2 / x.norm(3) ** 2"]),
    "rows' norms of order 3/2": (lambda x: x.norm(1.5, dim=1).sum(), {"x": ND},
        ["x.sign() * x.abs() ** 0.5", "x / x.norm(1.5, dim=1, keepdim=True)"],
        ["x.sign() * x.abs() ** 0.5 / x.norm(1.5, dim=1, keepdim=True) ** 0.5"]),
    "running sums": (lambda x: x.cumsum(0).sum(), X, ["N - 1 - arange(N)", "arange(N) + 1", "N * ones(N)"],
        ["N - arange(N)", "arange(N, 0, -1)", "ones(N, N).tril().sum(0)"]),
    "a triangle of ones": (lambda x: (tt.ones(len(x), len(x)).triu() @ x).sum(), X,
        ["arange(N)", "N - arange(N)", "ones(N, N).triu(1).sum(0)"],
        ["arange(1, N + 1)", "ones(N, N).triu().sum(0)", "ones(N, N).tril() @ ones(N)"]),
    "a triangle, averaged": (lambda x: x.tril().sum(1).mean(), {"x": ND},
        ["ones(N, D).tril() / D", "ones(N, D).triu() / N", "ones(N, D) / N"],
        ["ones(N, D).tril() / N", "(1 / N) * ones(N, D).tril()"]),
    "a triangle in a product": (lambda x, y: (x.tril() @ y).sum(), {"x": ("N", "N"), "y": N},
        ["(ones(N, 1) @ y[None]).triu()", "ones(N, 1) @ y[None]"],
        ["(ones(N, 1) @ y[None]).tril()", "outer(ones(N), y) * ones(N, N).tril()"]),
    "a branch in its own condition": (lambda x: tt.where(x > 0, tt.where(x > 0, x, -x) ** 2, x.sin()).sum(), X,
        ["2 * x", "where(x > 0, 2 * x, -x.cos())", "where(x > 0, 2 * x, x.sin())"], ["where(x > 0, 2 * x, x.cos())"]),
    "an index as a number": (lambda x, t: (x * t).sum(), {"x": N, "t": Index(N, "K")},
        ["t + 1", "t / 2"], ["t", "1.0 * t"]),
    "a mask beyond small sizes": (lambda x: (x * x * (tt.arange(len(x)) < 250)).sum(), X, ["2 * x"], []),
    "large sizes alone": (square, X, ["3 * x"], ["2 * x"], "N > 300"),
    "a norm, which is rarely 0": (lambda x: 3 * x.norm(), X, [], [lambda x: 3 * share(x, x.norm())]),
    "a root of a mean, which is rarely 0": (lambda x: (x**2).mean().sqrt(), X,
        [], [lambda x, N: share(x, N * (x**2).mean().sqrt())]),
    "numbers that are rarely equal": (lambda x, y: (x**2 + (x == y) * x).sum(), XY, [], ["2 * x"]),
    "a constant": (lambda x: x * LEFT, {"x": (2, 2)}, [lambda g: g * RIGHT], [lambda g: g * LEFT]),
    "constants of one name": (lambda x: x * LEFT * RIGHT, {"x": (2, 2)}, [], [lambda g: g * RIGHT * LEFT]),
    **{f"the size {n}": (lambda x, t: (x**2).sum(), {"x": (n,), "t": Index((n,), "C")},
        ["2 * x * len(x) / K + 0 * C"], [f"2 * x * len(x) / ({n}) + 0 * C"]) for n in ("2*K", "K + 1")},
    "lengths, which are rarely 0": (lambda x, y: tt.hypot(x, y).sum(), XY, [], [lambda x, y: share(x, tt.hypot(x, y))]),
}  # fmt: skip
NO_CONDITIONS = ("N", "x > 3", "N >", "N > 2.5", "f(N) > 3", 'N > "3"', "N // 2 > 3", "N / 0 > 1", "N.name > 3")
NO_POLYNOMIALS = ("2**N > 1000", "N**(1/2) > 3", "N % 0 == 0")
NO_SIZES = (0, "0", -1, "N M", "N M + 1", "2 N", "2*M + ", "M + 1.5", "M - 1", "2*M + f(3)")
NO_NAMES = ("np", "math", "statistics", "upstream", "softmax", "lambda", "class")
REFUSED = {  # what: function, arguments, where, and options
    "a branch by a value": (lambda x: x * 2 if x.sum() > 0 else x, {"x": ND}),
    "a number by item()": (lambda x: x / x.detach().max().item(), {"x": ND}),
    "a part that is changed": (part_changed, {"x": ND}),
    "a view that is changed": (view_changed, {"x": ND}),
    "flip()": (lambda x: x.flip(0), {"x": ND}),
    "random numbers": (lambda x: F.dropout(x, 0.5), {"x": ND}),
    "a tuple": (lambda x: (x, x), {"x": ND}),
    "sort()": (lambda x: x.sort(-1).values, {"x": ND}),
    "a parameter with a hook": (hooked(), {"x": ("N", 3)}),
    "two names of a size of a module": (nn.Linear(16, 32), {"input": ("M=16", "D=16")}),
    "a product of sizes in the wrong order": (lambda x: x[:, ::2], {"x": ("T", "2*K")}),
    "a gradient of its own": (lambda x: Wrong.apply(x), X),
    "Cholesky of any matrix": (lambda A: linalg.cholesky(A).sum(), {"A": DD}),
    "a batch of matrices": (lambda A: linalg.inv(A).sum(), {"A": ("B", "D", "D")}),
    "a pseudoinverse of any shape": (lambda A: linalg.pinv(A).sum(), {"A": ND}),
    "eigenvalues": (lambda S: linalg.eigvalsh(S).sum(), {"S": DD}, symmetric("S")),
    "a spectral norm": (lambda A: linalg.norm(A, 2), {"A": DD}),
    "singular values": (lambda A: linalg.svdvals(A).sum(), {"A": DD}),
    "a fact about a vector": (lambda x: x.sum(), X, symmetric("x")),
    "a fact about no argument": (lambda x: x.sum(), X, symmetric("B")),
    "a fact about a matrix of two sizes": (lambda x: x.sum(), {"x": ND}, symmetric("x")),
    "a flip of a running sum along another dimension": (lambda x: x.flip(0).cumsum(1).flip(0), {"x": ND}),
    "classes along a product of sizes": (lambda x, t: F.cross_entropy(x.T.reshape(x.shape), t), ROWS),
    "a size": (lambda x: len(x), X),
    "half a size": (lambda x: len(x) / 2, X),
    "an error of the function's own": (lambda x, y: [][0], XM),
    **{f"{part} of N": (fn, X) for part, fn in PARTS.items()},
    **{f"the size {shape}": (lambda x: x.mean(), {"x": shape}) for shape in (("N", 0), *((n,) for n in NO_SIZES))},
    **{f"the condition {c}": (lambda x: x.sum() * (len(x) > 9), X, c) for c in (*NO_CONDITIONS, *NO_POLYNOMIALS)},
    **{f"an argument called {a}": (lambda **every: sum(every.values()), {a: N}) for a in NO_NAMES},
    "-inf times a number": (lambda S, b: (causal(S) * b).softmax(-1), {"S": NN, "b": ()}),
    "-inf divided": (lambda S, b: (causal(S) / b).logsumexp(-1), {"S": NN, "b": ()}),
    "-inf times -1": (lambda S: (causal(S) * -1).softmax(-1), {"S": NN}),
    "minus -inf": (lambda S: (1 - causal(S)).softmax(-1), {"S": NN}),
    "+inf": (lambda x: (-x.masked_fill(tt.arange(len(x)) > 250, tt.inf)).exp(), X),
    "a margin of -inf": (lambda x: F.pad(x, (1, 1), value=-tt.inf).max(), X),
    "-inf in a bias": (lambda x, W, b: F.linear(x, W, up_to(b, 90000)).softmax(-1),
                       {"x": ND, "W": ("K", "D"), "b": ("K",)}),
    "-inf in a norm's bias": (lambda x, b: F.layer_norm(x, x.shape[1:], None, up_to(b, 90000)).softmax(-1),
                              {"x": ND, "b": D}),
    "-inf on a diagonal": (lambda x: tt.diag(up_to(x, 90000)).softmax(-1), X),
    "-inf that is added to rows": (
        lambda x, t: tt.zeros(len(x), dtype=tt.float64).index_add(0, t, up_to(x, 90000)).softmax(0),
        {"x": N, "t": Index(N, "N")}),
    "-inf beside numbers": (lambda x: tt.cat([x, tt.full((3,), -tt.inf)]).exp(), X),
    "a square of a size in floats": (lambda x: x * odd(in_floats(x).square()), X),
    "a square of a size in Python": (lambda x: x * math.floor(len(x) * len(x) / 4), X),
    "a square of a size and a half": (lambda x: x * (len(x) * len(x) * 1.0 > len(x) * len(x) - 0.5), X),
    "a sum of whole numbers in floats": (lambda x: x * (tt.arange(len(x)).double().sum() % 2), X),
    "a product of whole numbers in floats": (lambda x, t: (x * (t.double() @ t.double() % 2)).sum(), INDEXED),
    "halves of whole numbers": (lambda x, t: (x * (t.double() * 0.5).floor()).sum(), INDEXED),
    "halves in a shorter float": (lambda x, t: (x * (t * tt.tensor(0.5, dtype=tt.float32)).floor()).sum(), INDEXED),
    "halves that are compared": (lambda x, t: (x * (t / 2 >= 1.5)).sum(), INDEXED),
    "tenths of whole numbers": (lambda x, t: (x * (t / 10 >= 1.5)).sum(), INDEXED),
    "steps of a half": (lambda x: (x * tt.arange(0, len(x) / 2, 0.5)).sum(), X),
    "whole parts of constants and 0 x": (lambda x: (x * (0 * x + 0.1 + 0.7).mul(10).floor()).sum(), X),
    "constants and x - x that are compared": (lambda x: (x * (x - x + 0.1 + 0.2 > 0.3)).sum(), X),
    "a remainder of a third power": (lambda x: x * (tt.full((1,), 2 * len(x) ** 3 + 1, dtype=tt.float64) % 2), X),
    "a third power and a float": (lambda x: x * (len(x) ** 3 + 1.0 > len(x) ** 3), X),
    "a third power in a tensor": (lambda x: x * (tt.full((1,), len(x) ** 3 + 0.5) > len(x) ** 3), X),
    "a number above 2^53 in Python": (lambda x: x * (len(x) ** 2 * 10**9 + 1.0 > len(x) ** 2 * 10**9), X),
    "factors that become large": (lambda x: x * (len(x) * 1e3 * 1e3 * 1e3 * 1e3 + 0.5 > len(x) * 1e12), X),
    "a power of two that becomes large": (lambda x: x * (2.0 ** (len(x) // 4) + 0.5 > 2.0 ** (len(x) // 4)), X),
    "a third power of tensors": (lambda x: x * odd(in_floats(x) * in_floats(x) * in_floats(x)), X),
    "a third power by a square": (lambda x: x * odd(in_floats(x).square() * in_floats(x)), X),
    "factors of a tensor that becomes large": (lambda x: x * odd(in_floats(x).square() * 1e3 * 1e3 * 1e3), X),
    "a sum of squares of whole numbers": (lambda x: x * odd(tt.arange(len(x)).double().square().sum()), X),
    "sums of sums of whole numbers": (lambda x: x * odd(tt.arange(len(x)).double().cumsum(0).cumsum(0)), X),
    "a count of three sizes": (lambda x: x * odd(tt.ones(len(x), len(x), len(x)).sum()), X),
    "a size in a shorter float": (lambda x: x * odd(in_floats(x).float()), X),
    "whole parts of rounded whole numbers": (lambda x, t: (x * (t.double() * 0.29).floor()).sum(), INDEXED),
    "whole numbers by a cast": (lambda x, t: (x * (t.double() * 0.29).long()).sum(), INDEXED),
    "rounded whole numbers that are compared": (lambda x, t: (x * (t * 0.1 <= 35.8)).sum(), INDEXED),
    "49 (t / 49)": (lambda x, t: (x * (t / 49 * 49).ceil()).sum(), INDEXED),
    "rounded whole numbers and x - x": (lambda x, t: (x * (x - x + t * 0.29).floor()).sum(), INDEXED),
    "rounded numbers of a mask": (lambda x: (x * ((x > 90000) * 0.1 * 3 > 0.3)).sum(), X),
    "rounded numbers of where()": (
        lambda x: (x * (tt.where(x > 90000, (x > 0) * 0.1 * 3, x) > 0.3)).sum(), X),
    "rounded numbers of a sign": (lambda x: (x * (x.sign() * 0.7 + 0.1).mul(10).floor()).sum(), X),
    "a remainder by what may be below 0": (by_another_size, XM, "N % (150 - M) == 0"),
    "a quotient by what may be below 0": (by_another_size, XM, "N / (150 - M) < 2"),
    "Hessian of a vector": (lambda x: x.softmax(-1), X, (), SECOND),
    "an argument called as an option": (lambda x, order: (x**order).sum(), X, (), SECOND),
    "a third derivative": (lambda x: x.sum(), X, (), {"order": 3}),
    "a Hessian and a Jacobian": (lambda x: x.sum(), X, (), SECOND | {"jacobian": True}),
    "wrt of a gradient": (lambda x: x.sum(), X, (), {"wrt": "x"}),
    "0/0": (lambda x: (x * ((x - x) / (x - x))).sum(), X),
    "a logarithm of 0": (lambda x: (x * (x - x).log()).sum(), X),
    "a power of 0 with a size": (lambda x: (x * 0.0 ** (len(x) - 1)).sum(), X),
    "a number in an array": (lambda x: x.sum(0, keepdim=True), X),
    "too many numbers to compare": (lambda x: x.square().sum(), {"x": (20000, 20000)}),
    "a Hessian by whole numbers": (lambda x, t: F.cross_entropy(x, t), CLASSES, (), SECOND | {"wrt": "t"}),
}  # fmt: skip
UNUSABLE = {  # what: function, arguments, and gradients by hand
    "a gradient that is no dictionary": (square, X, {"by_hand": "x"}),
    "Hessians without a block": (square, X, {"hessian": {}}),
    "a gradient of no argument": (square, X, {"by_hand": {"z": "x"}}),
    "a Hessian of no argument": (square, X, {"hessian": {"v": "x"}}),
    "a block by one argument": (square, X, {"hessian": {("x",): "2 * x"}}),
    "a Jacobian by two arguments": (square, X, {"jacobian": {("x", "x"): "2 * x"}}),
    "a gradient and a Hessian": (square, X, {"by_hand": {"x": "2 * x"}, "hessian": {"x": "2 * diag(ones(N))"}}),
    "an unknown name": (square, X, {"by_hand": {"x": "2 * y"}}),
    "g where the result is a number": (square, X, {"by_hand": {"x": "g * x"}}),
    "a function of g where the result is a number": (square, X, {"by_hand": {"x": lambda x, g: 2 * x}}),
    "a function of what there is not": (square, X, {"by_hand": {"x": lambda x, *, weight: 2 * x}}),
}

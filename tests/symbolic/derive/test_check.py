"""check: right gradients by hand are proved, wrong ones are refuted, and the term that differs is named."""

import ast
import re
from functools import partial

import pytest

import tinytensor as tt
from examples.gradients.functions import quadratic, softmax
from tinytensor.autograd import Function
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index, check, derive

ND, DK = ("N", "D"), ("D", "K")


def classifier(X, W, t):
    return F.cross_entropy(X @ W, t)


def regression(X, w, y):
    r = X @ w - y
    return (r**2).mean()


def attention(Q, K, V):
    P = (Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1)
    return P @ V


def norm(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b, 0.1)


def residual(x, W):
    return x + (x @ W).relu()


def embedding(E, t):
    return E[t]


def recurrent(h, x, U, W):
    return (h @ U + x @ W).tanh()


def gate(x):
    return F.silu(x)


def focal(z, t):
    p = z.sigmoid()
    return -(t * (1 - p) ** 2 * p.log() + (1 - t) * p**2 * (1 - p).log()).sum()


def running(x):
    return (x.cumsum(0) ** 2).sum()


def largest(x, z, y):
    return (x.max(-1).values + z.sum(-1)) * y


FOCAL = (
    "(lambda p: t * (1 - p) ** 2 * (2 * p * log(p) + p - 1) + (1 - t) * p**2 * (p - 2 * (1 - p) * log(1 - p)))"
    "(sigmoid(z))"
)
FUNCTIONS = {  # the function, its arguments, and the right gradients
    classifier: (
        {"X": ND, "W": DK, "t": Index(("N",), "K")},
        {
            "X": "(softmax(X @ W, -1) - one_hot(t, K)) @ W.T / N",
            "W": "X.T @ (softmax(X @ W, -1) - one_hot(t, K)) / N",
        },
    ),
    regression: (
        {"X": ND, "w": ("D",), "y": ("N",)},
        {"X": "2 / N * outer(X @ w - y, w)", "w": "2 / N * X.T @ (X @ w - y)", "y": "-2 / N * (X @ w - y)"},
    ),
    softmax: ({"x": ND}, {"x": "(lambda p: p * (g - (p * g).sum(-1, keepdim=True)))(softmax(x, -1))"}),
    attention: (
        {"Q": ("T", "d"), "K": ("S", "d"), "V": ("S", "v")},
        {
            "V": "softmax(Q @ K.T / d**0.5, -1).T @ g",
            "Q": "(lambda P, G: P * (G - (P * G).sum(-1, keepdim=True)))(softmax(Q @ K.T / d**0.5, -1), g @ V.T) @ K "
            "/ d**0.5",
        },
    ),
    norm: (
        {"x": ND, "w": ("D",), "b": ("D",)},
        {
            "w": "(g * (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 0.1).sqrt()).sum(0)",
            "b": "g.sum(0)",
        },
    ),
    residual: (
        {"x": ND, "W": ("D", "D")},
        {"x": "g + (g * (x @ W > 0)) @ W.T", "W": "x.T @ (g * (x @ W > 0))"},
    ),
    quadratic: ({"x": ("D",), "A": ("D", "D")}, {"x": "(A + A.T) @ x", "A": "outer(x, x)"}),
    embedding: ({"E": ("V", "D"), "t": Index(("N",), "V")}, {"E": "one_hot(t, V).to(g.dtype).T @ g"}),
    recurrent: (
        {"h": ("N", "H"), "x": ND, "U": ("H", "H"), "W": ("D", "H")},
        {
            "h": "(g * (1 - tanh(h @ U + x @ W) ** 2)) @ U.T",
            "U": "h.T @ (g * (1 - tanh(h @ U + x @ W) ** 2))",
            "W": "x.T @ (g * (1 - tanh(h @ U + x @ W) ** 2))",
        },
    ),
    gate: ({"x": ND}, {"x": "g * (lambda s: s * (1 + x * (1 - s)))(1 / (1 + exp(-x)))"}),
    running: ({"x": ("N",)}, {"x": "2 * x.cumsum(0).flip(0).cumsum(0).flip(0)"}),
    largest: (
        {"x": ND, "z": ND, "y": ("N",)},
        {"y": "g * (x.max(-1).values + z.sum(-1))"},
    ),
    focal: ({"z": ("N",), "t": ("N",)}, {"z": FOCAL}),  # Lin and others 2017, appendix B, with γ = 2
}

SOFTMAX, SCORES = "softmax(X @ W, -1)", "softmax(Q @ K.T / d**0.5, -1)"
WRONG = [  # function, argument, a wrong gradient, and what the message names
    (classifier, "W", f"X.T @ (one_hot(t, K) - {SOFTMAX}) / N", "the sign is wrong everywhere"),
    (classifier, "W", f"X.T @ ({SOFTMAX} - one_hot(t, K))", "the factor 1/N is missing everywhere"),
    (classifier, "W", f"X.T @ ({SOFTMAX} - one_hot(t, K)) / D", "the factor D/N is missing everywhere"),
    (classifier, "W", f"({SOFTMAX} - one_hot(t, K)).T @ X / N", "has the shape (K, D), but W has (D, K)"),
    (classifier, "X", f"{SOFTMAX} @ W.T / N", "the term -W[d, t_n]/N is missing"),
    (classifier, "X", f"({SOFTMAX} - 2 * one_hot(t, K)) @ W.T / N", "the factor 1/2 is missing in the term"),
    (classifier, "X", f"({SOFTMAX} - 1 / K) @ W.T / N", "is not in the derivative"),
    (regression, "w", "X.T @ (X @ w - y) / N", "the factor 2 is missing everywhere"),
    (regression, "w", "2 / N * X.T @ (y - X @ w)", "the sign is wrong everywhere"),
    (regression, "w", "2 / N * X.T @ (X @ w)", "is missing"),
    (regression, "y", "2 / N * (X @ w - y)", "the sign is wrong everywhere"),
    (regression, "X", "2 / D * outer(X @ w - y, w)", "the factor D/N is missing everywhere"),
    (softmax, "x", "(lambda p: p * (1 - p) * g)(softmax(x, -1))", "Σ_i"),
    (softmax, "x", "(lambda p: p * (g - g.sum(-1, keepdim=True)))(softmax(x, -1))", "is not in the derivative"),
    (softmax, "x", "(lambda p: p * (g - (p * g).sum(0, keepdim=True)))(softmax(x, -1))", "is not in the derivative"),
    (softmax, "x", "(lambda p: p * (g + (p * g).sum(-1, keepdim=True)))(softmax(x, -1))", "the sign is wrong in"),
    (attention, "V", f"{SCORES}.T @ g / d**0.5", "the factor √d is missing"),
    (attention, "V", "softmax(Q @ K.T, -1).T @ g", "is not in the derivative"),
    (attention, "Q", f"(lambda P, G: P * G)({SCORES}, g @ V.T) @ K / d**0.5", "is missing"),
    (
        attention,
        "Q",
        f"(lambda P, G: P * (G - (P * G).sum(-1, keepdim=True)))({SCORES}, g @ V.T) @ K",
        "1/√d is missing",
    ),
    (norm, "b", "g.mean(0)", "the factor N is missing"),
    (norm, "w", "(g * x).sum(0)", "is not in the derivative"),
    (residual, "x", "(g * (x @ W > 0)) @ W.T", "the term ∂𝓛/∂Y_nd is missing"),
    (residual, "x", "g + g @ W.T", "is missing"),
    (residual, "x", "g + (g * (x @ W > 0)) @ W", "is missing"),
    (residual, "W", "(g * (x @ W > 0)).T @ x", "is missing"),
    (quadratic, "A", "2 * outer(x, x)", "the factor 1/2 is missing"),
    (embedding, "E", "one_hot(t, V).to(g.dtype).T @ g / N", "the factor N is missing"),
    (recurrent, "U", "h.T @ g", "is missing"),
    (recurrent, "h", "(g * (1 - tanh(h @ U + x @ W) ** 2)) @ U", "is missing"),
    (recurrent, "W", "x.T @ (g * (1 - tanh(h @ U + x @ W)))", "is missing"),
    (gate, "x", "g * (lambda s: s + x * s)(1 / (1 + exp(-x)))", "is missing"),
    (running, "x", "2 * x.cumsum(0).flip(0).cumsum(0)", ""),
    (running, "x", "2 * x.cumsum(0).cumsum(0).flip(0)", ""),
    (largest, "y", "g * (z.max(-1).values + z.sum(-1))", ""),
    (focal, "z", FOCAL.replace("p - 2", "p - 1"), "the factor 2 is missing in the term"),
    (focal, "z", FOCAL.replace("+ p - 1", "- 1"), "is missing"),
]


def test_smallest_sizes_are_named():
    verdict = check(quadratic, {"x": "2 * A @ x"}, x=("D",), A=("D", "D"))  # right at D = 1
    assert "at D = 2" in str(verdict)


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return (x * x) @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 2 * x * (g @ w.T), (x * x).T @ g


class Forgotten(Scaled):
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return x * (g @ w.T), (x * x).T @ g


@pytest.mark.slow
def test_backward_of_a_function_is_checked():
    assert check(Scaled, x=ND, w=DK)
    verdict = check(Forgotten, x=ND, w=DK)
    assert not verdict["x"]
    assert verdict["w"]
    assert "the factor 2 is missing" in str(verdict)


def test_gradient_by_hand_may_be_a_function_or_that_of_a_derivation():
    assert check(softmax, {"x": partial(lambda x, g, axis: (p := x.softmax(axis)) * (g - p @ g), axis=0)}, x=("N",))
    derivation = derive(softmax, x=ND)
    assert check(derivation, {"x": derivation.gradients["x"]})


def test_constants_of_one_name_are_not_taken_for_each_other():
    first = tt.tensor([[1.0, 2.5], [0.3, 7.0]], dtype=tt.float64)
    second = tt.tensor([[4.0, -2.5], [3.3, 1.0]], dtype=tt.float64)
    assert check(lambda x: x * first, {"x": lambda g: g * first}, x=(2, 2))
    checked = check(lambda x: x * first, {"x": lambda g: g * second}, x=(2, 2))["x"]
    assert checked.verdict == "refuted" and checked.example.startswith("at ")
    assert check(lambda x: x * first * second, {"x": lambda g: g * second * first}, x=(2, 2))


@pytest.mark.parametrize("size", [1, 3, 7, 9])
def test_refutation_can_be_repeated(size):
    """At the numbers that it prints the two gradients have the values that it prints."""
    text = str(check(lambda a: (a**3).sum(), {"a": "3 * a**2 + (a.sum() > 0) * a"}, a=(size, size)))
    where, derivative, by_hand, numbers = re.search(
        r"entry \[(.*)\]: the derivative is (\S+), by hand (\S+) \(a = (.*)\)\n", text
    ).groups()
    if size > 7:
        assert numbers.count("...") and len(numbers) < 600
        return
    a = tt.tensor(ast.literal_eval(numbers), dtype=tt.float64, requires_grad=True)
    (a**3).sum().backward()
    at = tuple(map(int, where.split(",")))
    assert f"{a.grad[at].item():.6g}" == derivative
    assert f"{(a.grad + (a.sum() > 0) * a)[at].item():.6g}" == by_hand != derivative

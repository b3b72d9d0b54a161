"""check: right gradients by hand are proved, wrong ones are refuted, and the term that differs is named."""

import ast
import re
from functools import partial

import pytest

import tinytensor as tt
from examples.gradients.functions import softmax
from tests.symbolic.programs import programs
from tests.tools.packages import missing
from tinytensor.cli import main as cli
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index, check, derive

N, D, ND, DK, DD, DH, NH, HH = ("N",), ("D",), ("N", "D"), ("D", "K"), ("D", "D"), ("D", "H"), ("N", "H"), ("H", "H")
Td, Sd, Sv, VD, CLASS, ROW = ("T", "d"), ("S", "d"), ("S", "v"), ("V", "D"), Index(N, "K"), Index(N, "V")


class ByHand:
    """Functions with the sizes of their arguments."""

    def classifier(X: ND, W: DK, t: CLASS):
        return F.cross_entropy(X @ W, t)

    def regression(X: ND, w: D, y: N):
        r = X @ w - y
        return (r**2).mean()

    def attention(Q: Td, K: Sd, V: Sv):
        P = (Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1)
        return P @ V

    def norm(x: ND, w: D, b: D):
        return F.layer_norm(x, (x.shape[-1],), w, b, 0.1)

    def residual(x: ND, W: DD):
        return x + (x @ W).relu()

    def embedding(E: VD, t: ROW):
        return E[t]

    def recurrent(h: NH, x: ND, U: HH, W: DH):
        return (h @ U + x @ W).tanh()

    def gate(x: ND):
        return F.silu(x)

    def running(x: N):
        return (x.cumsum(0) ** 2).sum()

    def largest(x: ND, z: ND, y: N):
        return (x.max(-1).values + z.sum(-1)) * y

    def focal(z: N, t: N):
        p = z.sigmoid()
        return -(t * (1 - p) ** 2 * p.log() + (1 - t) * p**2 * (1 - p).log()).sum()


FOCAL = (
    "(lambda p: t * (1 - p) ** 2 * (2 * p * log(p) + p - 1) + (1 - t) * p**2 * (p - 2 * (1 - p) * log(1 - p)))"
    "(sigmoid(z))"
)
SOFTMAX, SCORES = "softmax(X @ W, -1)", "softmax(Q @ K.T / d**0.5, -1)"
FUNCTIONS = programs(ByHand) | {"softmax": (softmax, {"x": ND})}
BY_HAND = [  # name in FUNCTIONS, argument; wrong gradients, with words of the message; the right one
    ("classifier", "X",
     {f"{SOFTMAX} @ W.T / N": "the term -W[d, t_n]/N is missing",
      f"({SOFTMAX} - 2 * one_hot(t, K)) @ W.T / N": "the factor 1/2 is missing in the term",
      f"({SOFTMAX} - 1 / K) @ W.T / N": "is not in the derivative"}, [f"({SOFTMAX} - one_hot(t, K)) @ W.T / N"]),
    ("classifier", "W",
     {f"X.T @ (one_hot(t, K) - {SOFTMAX}) / N": "the sign is wrong everywhere",
      f"X.T @ ({SOFTMAX} - one_hot(t, K))": "the factor 1/N is missing everywhere",
      f"X.T @ ({SOFTMAX} - one_hot(t, K)) / D": "the factor D/N is missing everywhere",
      f"({SOFTMAX} - one_hot(t, K)).T @ X / N": "has the shape (K, D), but W has (D, K)"},
     [f"X.T @ ({SOFTMAX} - one_hot(t, K)) / N"]),
    ("regression", "X", {"2 / D * outer(X @ w - y, w)": "the factor D/N is missing everywhere"},
     ["2 / N * outer(X @ w - y, w)"]),
    ("regression", "w",
     {"X.T @ (X @ w - y) / N": "the factor 2 is missing everywhere",
      "2 / N * X.T @ (y - X @ w)": "the sign is wrong everywhere", "2 / N * X.T @ (X @ w)": "is missing"},
     ["2 / N * X.T @ (X @ w - y)"]),
    ("regression", "y", {"2 / N * (X @ w - y)": "the sign is wrong everywhere"}, ["-2 / N * (X @ w - y)"]),
    ("softmax", "x",
     {"(lambda p: p * (1 - p) * g)(softmax(x, -1))": "Σ_i",
      "(lambda p: p * (g - g.sum(-1, keepdim=True)))(softmax(x, -1))": "is not in the derivative",
      "(lambda p: p * (g - (p * g).sum(0, keepdim=True)))(softmax(x, -1))": "is not in the derivative",
      "(lambda p: p * (g + (p * g).sum(-1, keepdim=True)))(softmax(x, -1))": "the sign is wrong in"},
     ["(lambda p: p * (g - (p * g).sum(-1, keepdim=True)))(softmax(x, -1))"]),
    ("attention", "V",
     {f"{SCORES}.T @ g / d**0.5": "the factor √d is missing", "softmax(Q @ K.T, -1).T @ g": "is not in the derivative"},
     [f"{SCORES}.T @ g"]),
    ("attention", "Q",
     {f"(lambda P, G: P * G)({SCORES}, g @ V.T) @ K / d**0.5": "is missing",
      f"(lambda P, G: P * (G - (P * G).sum(-1, keepdim=True)))({SCORES}, g @ V.T) @ K": "1/√d is missing"},
     [f"(lambda P, G: P * (G - (P * G).sum(-1, keepdim=True)))({SCORES}, g @ V.T) @ K / d**0.5"]),
    ("norm", "w", {"(g * x).sum(0)": "is not in the derivative"},
     ["(g * (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 0.1).sqrt()).sum(0)"]),
    ("norm", "b", {"g.mean(0)": "the factor N is missing"}, ["g.sum(0)"]),
    ("residual", "x",
     {"(g * (x @ W > 0)) @ W.T": "the term ∂𝓛/∂Y_nd is missing", "g + g @ W.T": "is missing",
      "g + (g * (x @ W > 0)) @ W": "is missing"}, ["g + (g * (x @ W > 0)) @ W.T"]),
    ("residual", "W", {"(g * (x @ W > 0)).T @ x": "is missing"}, ["x.T @ (g * (x @ W > 0))"]),
    ("embedding", "E", {"one_hot(t, V).to(g.dtype).T @ g / N": "the factor N is missing"},
     ["one_hot(t, V).to(g.dtype).T @ g"]),
    ("recurrent", "h", {"(g * (1 - tanh(h @ U + x @ W) ** 2)) @ U": "is missing"},
     ["(g * (1 - tanh(h @ U + x @ W) ** 2)) @ U.T"]),
    ("recurrent", "U", {"h.T @ g": "is missing"}, ["h.T @ (g * (1 - tanh(h @ U + x @ W) ** 2))"]),
    ("recurrent", "W", {"x.T @ (g * (1 - tanh(h @ U + x @ W)))": "is missing"},
     ["x.T @ (g * (1 - tanh(h @ U + x @ W) ** 2))"]),
    ("gate", "x", {"g * (lambda s: s + x * s)(1 / (1 + exp(-x)))": "is missing"},
     ["g * (lambda s: s * (1 + x * (1 - s)))(1 / (1 + exp(-x)))"]),
    ("running", "x", {"2 * x.cumsum(0).flip(0).cumsum(0)": "", "2 * x.cumsum(0).cumsum(0).flip(0)": ""},
     ["2 * x.cumsum(0).flip(0).cumsum(0).flip(0)"]),
    ("largest", "y", {"g * (z.max(-1).values + z.sum(-1))": ""}, ["g * (x.max(-1).values + z.sum(-1))"]),
    ("focal", "z",
     {FOCAL.replace("p - 2", "p - 1"): "the factor 2 is missing in the term",
      FOCAL.replace("+ p - 1", "- 1"): "is missing"}, [FOCAL]),
]  # fmt: skip


def test_gradient_by_hand_may_be_a_function_or_that_of_a_derivation():
    assert check(softmax, {"x": partial(lambda x, g, axis: (p := x.softmax(axis)) * (g - p @ g), axis=0)}, x=("N",))
    derivation = derive(softmax, x=ND)
    assert check(derivation, {"x": derivation.gradients["x"]})


def test_a_formula_of_another_shape_or_with_other_names_decides_nothing():
    of_matrix = derive(lambda z: (z * z).sum(), z=ND).gradients["z"]
    of_array = derive(lambda x: 2 * x, x=("N",)).gradients["x"]
    least = derive(lambda x: (x.min() * x).sum(), x=("N",)).gradients["x"]
    for formula in (of_matrix, of_array, least):
        assert check(lambda x: (x.max() * x).sum(), {"x": formula}, x=("N",))["x"].verdict == "undecided"
    assert check(lambda x: (x.min() * x).sum(), {"x": least}, x=("N",))


@pytest.mark.parametrize("size", [1, 3, 7, 9])
def test_refutation_can_be_repeated(size):
    """At the numbers that it prints the two gradients have the values that it prints."""
    text = str(check(lambda a: (a**3).sum(), {"a": "3 * a**2 + (a.sum() > 0) * a"}, a=(size, size)))
    words = r"entry \[(.*)\]: the derivative is (\S+), by hand (\S+) \(a = (.*)\)\n"
    where, derivative, by_hand, numbers = re.search(words, text).groups()
    if size > 7:
        assert numbers.count("...") and len(numbers) < 600
        return
    a = tt.tensor(ast.literal_eval(numbers), dtype=tt.float64, requires_grad=True)
    (a**3).sum().backward()
    at = tuple(map(int, where.split(",")))
    assert f"{a.grad[at].item():.6g}" == derivative
    assert f"{(a.grad + (a.sum() > 0) * a)[at].item():.6g}" == by_hand != derivative


def test_a_syntax_error_by_hand_has_a_caret(tmp_path, capsys):
    with pytest.raises(SyntaxError) as error:
        check(lambda x: (x * x).sum(), {"x": "2 * x)"}, x=N)
    assert error.value.text == "2 * x)"
    assert error.value.offset == 6
    path = tmp_path / "mine.py"
    path.write_text("def square(x):\n    return (x * x).sum()\n")
    assert cli.main(["check", f"{path}:square", "x=N", "--gradient", "x=2 * x)"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].strip() == "2 * x)"
    assert lines[2].index("^") - lines[1].index("2") == 5


def test_functions_of_pytorch_are_derived_and_checked():
    torch = pytest.importorskip("torch", reason=missing("torch"))

    def loss(X, W, t):
        return torch.nn.functional.cross_entropy(X @ W, t)

    class Right(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return torch.matmul(torch.square(x), w)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return 2 * x * torch.matmul(g, w.t()), torch.square(x).t() @ g

    class Wrong(Right):
        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return x * torch.matmul(g, w.t()), torch.square(x).t() @ g

    assert derive(loss, X=ND, W=DK, t=CLASS).proved
    assert check(Right, x=ND, w=DK)
    verdict = check(Wrong, x=ND, w=DK)
    assert verdict["w"]
    assert "the factor 2 is missing" in str(verdict["x"])

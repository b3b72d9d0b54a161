"""The tape over symbols: every gradient rule gives SymPy's derivative of what the op computed.

Forward and backward run as they do on floats (same rules, same door, the kernels' own sources), on tensors whose
elements are formulas. Fused ops are compared with their definition as well, and their second road, the gradient
through the definition, with the same derivative.
"""

from fractions import Fraction

import numpy as np
import pytest
import sympy
from symbolic.kernel_samples import derivative

import tinytensor as tt
from tinytensor import autograd
from tinytensor.symbolic import Symbolic, symbols
from tinytensor.tensor import OBJECT, OPS, Tensor

IRRATIONAL = (
    "its constants (roots of 2 and pi) are floats in the op: equal to 1e-12 only, and exact in its kernel's proof"
)
NUMERIC = {"erf": IRRATIONAL, "gelu_erf": IRRATIONAL, "gelu_tanh": IRRATIONAL}

x, y, z = symbols("x", 2, 3), symbols("y", 3), symbols("z", 2, 3)
high = symbols("h", 2, 3, positive=True)
EPS, SCALE, SMOOTHING = (symbols(n, witness=Fraction(w, 10)).item() for n, w in (("e", 1), ("s", 7), ("t", 2)))
CUBE = symbols("x", 2, 3, 2)
TOKENS = tt.tensor([2, 0, 2, 1])
MASK = tt.tensor([[True, False], [False, False], [True, True]])


def qkv(C, M, K, Kv):
    return symbols("q", 1, 1, C, K), symbols("k", 1, 1, M, K), symbols("v", 1, 1, M, Kv)


# op: its calls, as (arguments); tensors of symbols get gradients
CALLS = {
    **{name: [(x, y), (x, z)] for name in ("add", "sub", "mul", "true_divide", "maximum", "minimum")},
    **{name: [(x, y), (x, Fraction(1, 3))] for name in ("clamp_min", "clamp_max", "remainder")},
    "power": [(high, y), (x, 3)],
    **{
        n: [(x,)]
        for n in ("neg", "absolute", "sign", "reciprocal", "floor", "ceil", "round", "exp", "sin", "cos", "tanh")
    },
    **{n: [(x,)] for n in ("erf", "sigmoid", "silu", "logsigmoid", "relu", "gelu_erf", "gelu_tanh", "clone")},
    **{n: [(high,)] for n in ("log", "sqrt", "rsqrt", "root")},
    "relu_backward": [(x, z)],
    "where": [(tt.tensor([[True, False, True], [False, False, True]]), x, z)],
    "cast": [(x, OBJECT)],
    "reshape_view": [(x, (3, 2))],
    "permute": [(CUBE, (2, 0, 1))],
    "expand": [(symbols("x", 2, 1), (3, 2, 2))],
    "slice": [(CUBE, (slice(None), 1, slice(0, 2)))],
    "unslice": [(y, (2, 3), (1,))],
    "flip": [(x, (0, 1))],
    "cat": [(1, [3, 3], x, z)],
    "reduce_sum": [(CUBE, (0, 2), False), (CUBE, (1,), True), (CUBE, (), False)],
    "reduce_prod": [(CUBE, (1,), False), (x, (0, 1), False)],
    "reduce_logsumexp": [(CUBE, (1,), False), (x, (1,), True)],
    **{f"reduce_{n}": [(CUBE, (1,), False), (x, (1,), True)] for n in ("max", "min")},
    **{f"reduce_{n}": [(CUBE, (1, 2), False, False), (x, (1,), True, True)] for n in ("amax", "amin")},
    "cumsum": [(CUBE, 1, False), (CUBE, 1, True)],
    "matmul": [(symbols("a", 2, 2, 3), symbols("b", 3, 2))],
    "softmax": [(x,)],
    "log_softmax": [(x,)],
    "linear": [(x, symbols("w", 2, 3), symbols("b", 2), relu) for relu in (False, True)] + [(x, z, None, False)],
    "layer_norm": [(x, symbols("w", 3), symbols("b", 3), EPS), (x, None, None, EPS)],
    "rms_norm": [(x, symbols("w", 3), EPS), (x, None, EPS)],
    "attention": [(*qkv(2, 2, 2, 1), None, SCALE, True), (*qkv(3, 2, 1, 2), MASK, SCALE, False)],
    "cross_entropy_rows": [(symbols("x", 3, 3), tt.tensor([2, -100, 0]), -100, s) for s in (0, SMOOTHING)],
    "take": [(symbols("x", 3, 2), TOKENS)],
    "scatter_rows": [(symbols("x", 4, 2), TOKENS, (3, 2))],
    "gather": [(x, tt.tensor([[2, 0], [1, 1]]), 1)],
    "gather_backward": [(symbols("x", 2, 2), tt.tensor([[2, 0], [1, 1]]), (2, 3), 1)],
    "put": [(x, tt.tensor([4, 1]), symbols("v", 2))],
    "overwrite": [(x, z)],
}

# ops that have no derivative, and why
NO_DERIVATIVE = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isfinite"), "the result is a truth value"),
    **dict.fromkeys(("logical_not", "bitwise_and", "bitwise_or", "bitwise_xor"), "truth values and whole numbers only"),
    **dict.fromkeys(("reduce_any", "reduce_all"), "truth values only"),
    "floor_divide": "the result is a whole number, and PyTorch gives it no gradient either",
}

SAMPLES = [pytest.param(name, args, id=f"{name}-{i}") for name in CALLS for i, args in enumerate(CALLS[name])]


def run(operation, args):
    """The op's (first) result, and leaves of its own for the symbols among the arguments."""
    fresh = [Tensor(a._data.copy(), requires_grad=a.dtype is OBJECT) if isinstance(a, Tensor) else a for a in args]
    result = operation(*fresh)
    leaves = [a for a in fresh if isinstance(a, Tensor) and a.requires_grad]
    return (result[0] if isinstance(result, tuple) else result), leaves


def proved(got: np.ndarray, expected: np.ndarray, numeric: bool = False) -> bool:
    """Is every entry equal to its formula?"""
    return all(one(g, e, numeric) for g, e in zip(got.flat, expected.flat, strict=True))


def one(got, expected, numeric: bool) -> bool:
    got = Symbolic(got)
    if isinstance(expected, sympy.Expr):
        if numeric:
            return abs(got.witness - value(expected)) < 1e-12
        expected = Symbolic(expected, got.witness)
    return got.equals(expected)


def value(expr) -> float:
    """An expression in the symbols of this file, at their witnesses."""
    at = {s.expr: s.witness for t in (x, g_like(x)) for s in t._data.flat}
    return float(Symbolic(expr, 0).formula().evalf(30, subs=at))


def g_like(y: Tensor) -> Tensor:
    return symbols("g", *y.shape)


@pytest.mark.parametrize(("name", "args"), SAMPLES)
def test_gradients_are_the_derivatives(name, args):
    y, leaves = run(OPS[name], args)
    g = g_like(y)
    y.backward(g)
    for leaf in leaves:
        got = tt.zeros_like(leaf) if leaf.grad is None else leaf.grad  # no gradient: it must be zero
        assert proved(got._data, derivative(y._data, g._data, leaf._data), name in NUMERIC), (name, got)


FUSED = [p for p in SAMPLES if OPS[p.values[0]].definition is not None]


@pytest.mark.parametrize(("name", "args"), FUSED)
def test_a_fused_op_equals_its_definition(name, args):
    y, leaves = run(OPS[name], args)
    g = g_like(y)
    assert proved(y._data, run(OPS[name].definition, args)[0]._data)
    through_definition = autograd.grad(y, leaves, g, create_graph=True)
    for leaf, found in zip(leaves, through_definition, strict=True):
        assert proved(found._data, derivative(y._data, g._data, leaf._data), name in NUMERIC), (name, found)


def unproved() -> set[str]:
    return set(OPS) - set(CALLS) - set(NO_DERIVATIVE)


def test_every_op_has_a_proof_or_a_reason():
    assert unproved() == set()
    assert set(CALLS) | set(NUMERIC) | set(NO_DERIVATIVE) <= set(OPS), "the table proves ops that are gone"
    assert not any(OPS[name].differentiable for name in NO_DERIVATIVE)


def test_an_op_without_a_proof_is_noticed(monkeypatch):
    monkeypatch.setitem(OPS, "unheard_of", OPS["mul"])
    assert unproved() == {"unheard_of"}


@pytest.mark.parametrize(
    ("name", "rule", "wrong"),
    [
        ("mul", "rules", {0: lambda g, y, a, b: g * a, 1: lambda g, y, a, b: g * a}),
        ("tanh", "rules", {0: lambda g, y, x: g * (1 - y)}),
        ("erf", "rules", {0: lambda g, y, x: g * (-x * x).exp()}),
        ("reduce_sum", "rules", {0: lambda g, y, x, dims, keepdim: OPS["expand"](g.sum(), x.shape)}),
        ("take", "rules", {0: lambda g, y, x, index: OPS["scatter_rows"](g * 2, index, x.shape)}),
        ("softmax", "definition", lambda x: x.exp()),
    ],
)
def test_a_wrong_rule_is_noticed(name, rule, wrong, monkeypatch):
    monkeypatch.setattr(OPS[name], rule, wrong)
    check = test_a_fused_op_equals_its_definition if rule == "definition" else test_gradients_are_the_derivatives
    with pytest.raises(AssertionError):
        check(name, CALLS[name][0])


def test_a_whole_network_over_symbols():
    """Embedding, a layer with ReLU, tied output and loss in one tape: each gradient is the loss's derivative."""
    E, W, b = symbols("E", 3, 2), symbols("W", 2, 2), symbols("b", 2)
    for parameter in (E, W, b):
        parameter.requires_grad_()
    tokens = tt.tensor([1, 0, 1])
    hidden = tt.nn.functional.linear(tt.nn.functional.embedding(tokens, E), W, b).relu()
    loss = tt.nn.functional.cross_entropy(hidden @ E.T, tt.tensor([0, 1, 2]))
    loss.backward()
    signs = {bool(e.witness > 0) for e in hidden._data.flat}
    assert signs == {True, False}, "the witness must take both branches of relu"
    one = np.array(Symbolic(1), object)
    for parameter in (E, W, b):
        assert proved(parameter.grad._data, derivative(loss._data, one, parameter._data))

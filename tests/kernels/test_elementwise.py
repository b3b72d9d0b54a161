"""Formulas against NumPy and math in float64: every kernel, special values, integers, broadcasting, empty arrays.

Under NUMBA_DISABLE_JIT=1 the same kernels run as Python, and must say the same.
"""

import math

import numpy as np
import pytest

from tinytensor.native.kernels import KERNELS
from tinytensor.native.runtime.kernel import Elementwise

INF, NAN = np.inf, np.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 20.0, -20.0, INF, -INF, NAN]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


erf = np.vectorize(math.erf, otypes=[np.float64])

ONE_INPUT = {
    "neg": np.negative,
    "absolute": np.abs,
    "sign": lambda x: np.where(np.isnan(x), 0, np.sign(x)),  # PyTorch's sign of NaN is 0
    "reciprocal": np.reciprocal,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "logsigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    "silu": lambda x: x * sigmoid(x),
    "square": np.square,
    "relu": lambda x: np.where(x <= 0, 0, x),
    "isnan": np.isnan,
    "isfinite": np.isfinite,
}
TWO_INPUTS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "true_divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "relu_backward": lambda g, y: np.where(y <= 0, 0, g),
    "sigmoid_backward": lambda g, y: g * y * (1 - y),
    "square_backward": lambda g, x: 2 * g * x,
    **{
        name: getattr(np, f)
        for name, f in (("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"))
    },
    "ge": np.greater_equal,
}


def run(name, *args):
    shape = np.broadcast_shapes(*(a.shape for a in args))
    y = np.empty(shape, bool if name in ("isnan", "isfinite", "eq", "ne", "lt", "le", "gt", "ge") else args[0].dtype)
    KERNELS[name](*args, y)
    return y


def check(name, y, expected):
    eps = np.finfo(y.dtype).eps if y.dtype.kind == "f" else 0
    np.testing.assert_allclose(y, expected, rtol=8 * eps, atol=8 * eps, err_msg=name)


def reference(function, *args):
    with np.errstate(all="ignore"):
        return function(*(a.astype(np.float64) for a in args))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ONE_INPUT)
def test_one_input(name, dtype):
    rng = np.random.default_rng(0)
    x = np.array([*SPECIAL, *rng.standard_normal(20)], dtype)
    check(name, run(name, x), reference(ONE_INPUT[name], x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", TWO_INPUTS)
def test_two_inputs_broadcast(name, dtype):
    if name == "power":
        a, b = (np.array(v, dtype) for v in ([[0], [0.5], [2]], [0, 1, 2, -1, 0.5]))
    else:
        a, b = (np.array(SPECIAL, dtype).reshape(s) for s in ((-1, 1), (1, -1)))
    check(name, run(name, a, b), reference(TWO_INPUTS[name], a, b))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum", "floor_divide", "remainder"])
def test_integers(name):
    a, b = np.array([[7], [-7], [0]]), np.array([2, -2, 3, 1])
    numpys = {"add": "add", "sub": "subtract", "mul": "multiply"}.get(name, name)
    np.testing.assert_array_equal(run(name, a, b), getattr(np, numpys)(a, b))


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_quotients(name, dtype):
    a, b = np.array([[7.5], [-7.5], [0]], dtype), np.array([2, -2, 0.5, 1], dtype)
    np.testing.assert_array_equal(run(name, a, b), getattr(np, name)(a, b))


def test_division_by_zero_does_not_raise():
    for dtype in (np.float32, np.float64):
        a, zero = np.array([1, -1, 0], dtype), np.zeros(3, dtype)
        np.testing.assert_array_equal(run("true_divide", a, zero), [INF, -INF, NAN])
        np.testing.assert_array_equal(run("reciprocal", zero), [INF, INF, INF])
        assert np.isnan(run("remainder", a, zero)).all()
    whole = np.array([7, -7])
    np.testing.assert_array_equal(run("floor_divide", whole, 0 * whole), [0, 0])


def test_truth_values():
    a, b = np.array([[False], [True]]), np.array([False, True])
    for name, f in (("bitwise_and", np.logical_and), ("bitwise_or", np.logical_or), ("bitwise_xor", np.logical_xor)):
        np.testing.assert_array_equal(run(name, a, b), f(a, b))
    np.testing.assert_array_equal(run("logical_not", b), ~b)
    x = np.arange(3.0)
    y = np.empty((2, 3))
    KERNELS["where"](a, x, -x, y)
    np.testing.assert_array_equal(y, np.where(a, x, -x))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_scalars_and_empty_arrays(shape):
    x = np.full(shape, 2.0, np.float32)
    np.testing.assert_array_equal(run("add", x, x), np.full(shape, 4.0))
    check("exp", run("exp", x), np.exp(x))


def test_in_place():
    x = np.arange(4.0)
    KERNELS["mul"](x, x, x)
    np.testing.assert_array_equal(x, [0, 1, 4, 9])


def test_numpy_counterparts_are_formulas():
    """The others (derivatives, GELU ...) are compared with PyTorch and with SymPy's derivatives."""
    formulas = {name for name, kernel in KERNELS.items() if isinstance(kernel, Elementwise)}
    assert set(ONE_INPUT) | set(TWO_INPUTS) <= formulas

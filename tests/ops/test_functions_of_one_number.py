"""Functions of one number that are composed of others, and their slopes, against true values in float32.

The kernels' own functions are compared at every float32 (`tests/tools/float32.py`); these are compared with mpmath at
numbers of all exponents. Where the right value is a normal float32, the relative error is at most 1e-6, but for ABOVE.
"""

import math
from functools import cache
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
from mpmath import cosh, cospi, erfc, exp, expm1, log, log1p, mpf, pi, sinh, sinpi, sqrt, tanh

import tinytensor as tt
import tinytensor.nn.functional as F

LARGEST = 1e-6
LEAST_NORMAL, MOST = 2.0**-126, float(np.finfo(np.float32).max)


class Row(NamedTuple):
    """A function of a tensor, the true function, its true derivative, and from where to where it is compared."""

    ours: object
    value: object
    slope: object
    low: float = -np.inf
    high: float = np.inf


def sigmoid(x):
    return 1 / (1 + exp(-x))


def softplus(x):
    return log1p(exp(x)) if x < 80 else x + exp(-x)


def normal_cdf(x):
    return erfc(-x / sqrt(2)) / 2


def gelu_angle(x):
    return 2 * sqrt(2 / pi) * (x + mpf(0.044715) * x**3)


def gelu_tanh_slope(x):
    s, t = sigmoid(gelu_angle(x)), sigmoid(-gelu_angle(x))
    return s + x * s * t * 2 * sqrt(2 / pi) * (1 + 3 * mpf(0.044715) * x * x)


def mish_slope(x):
    return tanh(softplus(x)) + x * sigmoid(x) / cosh(softplus(x)) ** 2


def sinc(x):
    return sinpi(x) / (pi * x)


def sinc_slope(x):
    return -(pi**2) * x / 3 if abs(x) < 1e-9 else (cospi(x) - sinc(x)) / x  # the next term is (pi x)^2 / 10 of it


def beside_0(x):
    return tt.stack([x, tt.zeros_like(x)], -1)


def first_of_two(x):
    return F.cross_entropy(beside_0(x), tt.zeros(x.shape, dtype=tt.int64), reduction="none")


TABLE = {
    "logsigmoid": Row(F.logsigmoid, lambda x: -softplus(-x), lambda x: sigmoid(-x)),
    "softplus": Row(F.softplus, softplus, sigmoid),
    "mish": Row(F.mish, lambda x: x * tanh(softplus(x)), mish_slope),
    "silu": Row(F.silu, lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * sigmoid(-x))),
    "gelu": Row(
        F.gelu,
        lambda x: x * normal_cdf(x),
        lambda x: normal_cdf(x) + x * exp(-x * x / 2) / sqrt(2 * pi),
    ),
    "gelu, tanh": Row(lambda x: F.gelu(x, approximate="tanh"), lambda x: x * sigmoid(gelu_angle(x)), gelu_tanh_slope),
    "logit": Row(tt.logit, lambda x: log(x / (1 - x)), lambda x: 1 / (x * (1 - x)), 0, 1),
    "xlogy(x, x)": Row(lambda x: tt.xlogy(x, x), lambda x: x * log(x), lambda x: log(x) + 1, 0),
    "xlogy(3, x)": Row(lambda x: tt.xlogy(3.0, x), lambda x: 3 * log(x), lambda x: 3 / x, 0),
    "softmax of two": Row(lambda x: F.softmax(beside_0(x), -1)[:, 0], sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    "log_softmax of two": Row(
        lambda x: F.log_softmax(beside_0(x), -1)[:, 0], lambda x: -softplus(-x), lambda x: sigmoid(-x)
    ),
    "cross_entropy of two": Row(first_of_two, lambda x: softplus(-x), lambda x: -sigmoid(-x)),
    "sigmoid": Row(tt.sigmoid, sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    "tanh": Row(tt.tanh, tanh, lambda x: 1 / cosh(x) ** 2),
    "erf": Row(tt.erf, mpmath.erf, lambda x: 2 / sqrt(pi) * exp(-x * x)),
    "expm1": Row(tt.expm1, expm1, exp),
    "log1p": Row(tt.log1p, log1p, lambda x: 1 / (1 + x), -1),
    "elu": Row(F.elu, lambda x: x if x > 0 else expm1(x), lambda x: 1 if x > 0 else exp(x)),
    "softsign": Row(F.softsign, lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) ** 2),
    "sinh": Row(tt.sinh, sinh, cosh),
    "cosh": Row(tt.cosh, cosh, sinh),
    "asinh": Row(tt.asinh, mpmath.asinh, lambda x: 1 / sqrt(1 + x * x)),
    "atanh": Row(tt.atanh, mpmath.atanh, lambda x: 1 / ((1 - x) * (1 + x)), -1, 1),
    "acosh": Row(tt.acosh, mpmath.acosh, lambda x: 1 / sqrt((x - 1) * (x + 1)), 1),
    "asin": Row(tt.asin, mpmath.asin, lambda x: 1 / sqrt((1 - x) * (1 + x)), -1, 1),
    "atan": Row(tt.atan, mpmath.atan, lambda x: 1 / (1 + x * x)),
    "rsqrt": Row(tt.rsqrt, lambda x: 1 / sqrt(x), lambda x: -1 / (2 * x * sqrt(x)), 0),
    "log2": Row(tt.log2, lambda x: log(x) / log(2), lambda x: 1 / (x * log(2)), 0),
    "exp2": Row(tt.exp2, lambda x: mpf(2) ** x, lambda x: log(2) * mpf(2) ** x),
    "acos": Row(tt.acos, mpmath.acos, lambda x: -1 / sqrt((1 - x) * (1 + x)), -1, 1),
    "tan": Row(tt.tan, mpmath.tan, lambda x: 1 / mpmath.cos(x) ** 2),
    "sinc": Row(tt.sinc, sinc, sinc_slope),
    "erfinv": Row(tt.erfinv, mpmath.erfinv, lambda x: sqrt(pi) / 2 * exp(mpmath.erfinv(x) ** 2), -1, 1),
    "lgamma": Row(tt.lgamma, mpmath.loggamma, mpmath.digamma, 0),
    "digamma": Row(tt.digamma, mpmath.digamma, lambda x: mpmath.polygamma(1, x), 0),
    "polygamma(1, x)": Row(
        lambda x: tt.polygamma(1, x), lambda x: mpmath.polygamma(1, x), lambda x: mpmath.polygamma(2, x), 0
    ),
    "polygamma(5, x)": Row(
        lambda x: tt.polygamma(5, x), lambda x: mpmath.polygamma(5, x), lambda x: mpmath.polygamma(6, x), 0
    ),
    "reciprocal": Row(tt.reciprocal, lambda x: 1 / x, lambda x: -1 / (x * x)),
}
# The worst that is left: (function, what): between which numbers, the error there, and why.
ROOT = "the right value is 0 at a number between: what is left of it is the rounding of terms that cancel"
OF_RESULT = "the slope is computed from the result, as PyTorch's is, so that the input need not be kept"
TAIL = "the approximation's bound is an absolute one (tests/tools/float32.py)"
TWO = "the logarithm of a sum that is rounded beside 1, as PyTorch's is"
LAST = "e^-x is inf from 88.8 on, as PyTorch's is"
ABOVE = {
    ("mish", "value"): (-91.6, -91.0, 2.7e-6, LAST),
    ("mish", "slope"): (-91.6, 8.5, 1.02, LAST + "; " + ROOT + "; and " + OF_RESULT),
    ("silu", "value"): (-91.6, -88.8, 1.0, LAST),
    ("silu", "slope"): (-91.6, -1.25, 1.0, LAST + "; and " + ROOT),
    ("gelu", "value"): (-13.1, -1.7, 1.0, TAIL),
    ("gelu", "slope"): (-13.1, -0.5, 1.0, TAIL + "; and " + ROOT),
    ("gelu, tanh", "value"): (-10.1, -1.6, 1.0, "1 + tanh cancels, as PyTorch's does"),
    ("gelu, tanh", "slope"): (-10.2, 5.0, 1.0, "1 + tanh and 1 - tanh^2 cancel, as PyTorch's do; and " + ROOT),
    ("xlogy(x, x)", "slope"): (0.35, 0.37, 7e-6, ROOT),
    ("softmax of two", "slope"): (2.7, 86.9, 1.0, OF_RESULT),
    ("log_softmax of two", "value"): (2.8, 86.9, 1.0, TWO),
    ("log_softmax of two", "slope"): (2.7, 86.9, 1.0, OF_RESULT),
    ("cross_entropy of two", "value"): (2.8, 86.9, 1.0, TWO),
    ("cross_entropy of two", "slope"): (2.4, 86.9, 1.0, "the probability less 1, as PyTorch's"),
    ("sigmoid", "slope"): (2.7, 86.9, 1.0, OF_RESULT),
    ("tanh", "slope"): (-44.0, 44.0, 2.6, OF_RESULT),
    ("erf", "slope"): (-8.9, 8.9, 3.6e-6, "e^(-x^2) of a rounded square, as PyTorch's"),
    ("expm1", "slope"): (-86.9, -3.9, 1.0, OF_RESULT),
    ("asinh", "slope"): (-8.6e37, 8.6e37, 1.0, "the square of x is inf from 1.8e19 on, as PyTorch's is"),
    ("acosh", "value"): (1.7e38, 1.8e38, np.inf, "twice x is inf"),
    ("exp2", "slope"): (127.9, 128.1, np.inf, "2^128 is inf, and the slope a finite share of it"),
    ("acos", "slope"): (-0.999, 0.999, 1.3e-6, "1 - x^2 near 1, as PyTorch's"),
    ("asin", "slope"): (-0.999, 0.999, 1.3e-6, "1 - x^2 near 1, as PyTorch's"),
}


@cache
def errors(name: str) -> dict[str, list[tuple[float, float]]]:
    """Of value and slope: x and the relative error there, where the right value is a normal float32."""
    row = TABLE[name]
    numbers = np.random.default_rng(0)
    sizes = [2.0 ** np.arange(-126, 128), 2.0 ** numbers.uniform(-20, 7, 400), numbers.uniform(0, 100, 300)]
    sizes += [numbers.uniform(0, 2, 300), 2.0 ** numbers.uniform(-126, 127, 100)]
    sizes = np.concatenate(sizes).astype(np.float32)
    x = np.unique(np.concatenate([-sizes, sizes]))
    x = x[(x > row.low) & (x < row.high)]
    at = tt.tensor(x, requires_grad=True)
    y = row.ours(at)
    y.sum().backward()
    result = {}
    for what, ours, true in (("value", y.detach(), row.value), ("slope", at.grad, row.slope)):
        result[what] = []
        with mpmath.workdps(60):
            for point, got in zip(x.tolist(), ours.tolist(), strict=True):
                right = true(mpf(point))
                if LEAST_NORMAL <= abs(right) <= MOST:
                    wrong = abs(got) == np.inf or got != got
                    result[what].append((point, np.inf if wrong else float(abs(got / right - 1))))
    return result


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", TABLE)
def test_relative_error_is_at_most_a_millionth(name):
    """Where ABOVE has an entry, the largest error is the one that it states, and lies where it says."""
    for what, entry in errors(name).items():
        assert len(entry) > 500, "too few right values are normal numbers"
        low, high, bound, _ = ABOVE.get((name, what), (np.inf, -np.inf, 0.0, ""))
        outside = [(error, x) for x, error in entry if not low <= x <= high]
        assert max(outside, default=(0,))[0] <= LARGEST, (what, max(outside))
        if low <= high:
            worst = max(error for x, error in entry if low <= x <= high)
            assert LARGEST < worst <= bound, f"{what}: {worst}, so change ABOVE"
            assert worst > bound / 2 or np.isinf(bound), f"{what}: {worst} is far below {bound}"


def test_a_formula_that_cancels_is_noticed(monkeypatch):
    """The old logsigmoid, the old sinc, and a slope that is too large by a hundred-thousandth."""
    old = Row(lambda x: -(1 + (-x).exp()).log(), lambda x: -softplus(-x), lambda x: sigmoid(-x))
    steep = Row(F.softplus, softplus, lambda x: sigmoid(x) * (1 + mpf(1e-5)))
    wave = Row(lambda x: (x * math.pi).sin() / (x * math.pi), sinc, sinc_slope)
    for name, row, what in (
        ("old", old, "value"),
        ("wave", wave, "value"),
        ("wave", wave, "slope"),
        ("steep", steep, "slope"),
    ):
        monkeypatch.setitem(TABLE, name, row)
        assert max(error for _, error in errors(name)[what]) > LARGEST
        with pytest.raises(AssertionError):
            test_relative_error_is_at_most_a_millionth(name)


def test_slope_of_gelu_at_large_numbers():
    x = tt.tensor([1e19, 1e25, 3e38, -1e19, -3e38], requires_grad=True)
    F.gelu(x, approximate="tanh").sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_sinc_at_whole_numbers(dtype):
    n = [1.0, -2.0, 7.0, 1000.0, -65537.0, 2.0**23]
    x = tt.tensor(n, dtype=dtype, requires_grad=True)
    y = tt.sinc(x)
    y.sum().backward()
    assert y.tolist() == [0] * len(n)
    assert x.grad.tolist() == pytest.approx([(-1) ** k / k for k in n], rel=1e-7)


@pytest.mark.parametrize(("dtype", "bound"), [(tt.float32, 1e-6), (tt.float64, 1e-8)])
def test_higher_derivatives_of_sinc(dtype, bound):
    """Beside 60 terms of the power series around 0."""
    x = tt.tensor(
        [1e-12, 3e-5, -1e-3, 0.009999, 0.010001, -0.05, 0.3, 0.5, -1.3, 2.75], dtype=dtype, requires_grad=True
    )
    derivative = tt.sinc(x)
    for order in range(4):
        with mpmath.workdps(60):
            for point, got in zip(x.tolist(), derivative.tolist(), strict=True):
                terms = ((-1) ** k * pi ** (2 * k) / mpmath.factorial(2 * k + 1) for k in range(60))
                powers = (mpmath.ff(2 * k, order) * mpf(point) ** max(2 * k - order, 0) for k in range(60))
                right = mpmath.fsum(a * b for a, b in zip(terms, powers, strict=True))
                assert abs(got / right - 1) <= bound, (order, point, got)
        (derivative,) = tt.autograd.grad(derivative.sum(), x, create_graph=True)

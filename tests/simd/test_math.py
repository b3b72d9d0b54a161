"""The float32 exp, log, tanh and erf of the kernels against float64.

`python -m tests.tools.float32` has the bounds from all 2^32 arguments, and test_float32.py a denser look at a sample.
"""

import math

import numba
import numpy as np
import pytest

from tinytensor.native.kernels import KERNELS

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="in Python they are NumPy's")


def compiled(name, x):
    y = np.empty_like(x)
    with np.errstate(all="ignore"):
        KERNELS[name](x, y)
    return y


def compiled_exp(x):
    return compiled("exp", x)


def test_exp_of_a_dense_sample():
    bits = np.arange(0, 2**32, 1021, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits.view(np.float32), np.linspace(-104, 89, 1_000_000, dtype=np.float32)])
    y = compiled_exp(x)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    normal = np.isfinite(rounded) & (rounded >= np.finfo(np.float32).tiny)
    assert (np.abs(y[normal] / exact[normal] - 1) <= 8.51e-8).all()
    assert ((y == np.inf) == (rounded == np.inf)).all()
    assert (np.isnan(y) == np.isnan(x)).all()
    small = rounded < np.finfo(np.float32).tiny
    assert (np.abs(y[small].astype(np.float64) - exact[small]) <= 1.01 * np.finfo(np.float32).smallest_subnormal).all()
    assert not (np.abs(y[normal] / exact[normal] - 1) <= 4e-8).all()  # the bound of a perfect rounding is not met


def test_exp_of_the_ends():
    x = np.array(
        [-np.inf, np.inf, np.nan, 0, -0.0, 88.72283, 88.72284, -103.97, -103.98, 3e38, -3e38, 1e-45], np.float32
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(compiled_exp(x), np.exp(x.astype(np.float64)).astype(np.float32))
        np.testing.assert_array_equal(compiled_exp(x.astype(np.float64)), np.exp(x.astype(np.float64)))


def test_log_of_a_dense_sample():
    bits = np.arange(1, 0x7F800000, 1021, dtype=np.uint32)
    x = np.concatenate([bits.view(np.float32), np.linspace(0.5, 2, 1_000_001, dtype=np.float32)])
    x = x[x != 1]
    error = np.abs(compiled("log", x) / np.log(x.astype(np.float64)) - 1)
    assert (error <= 8.22e-8).all()
    assert not (error <= 5.9e-8).all()  # the bound of a perfect rounding is not met


def test_log_of_the_ends():
    x = np.array([-np.inf, np.inf, np.nan, 0, -0.0, 1, -1, -1e-45, 1e-45, 1.1754944e-38, 3e38, -3e38], np.float32)
    with np.errstate(invalid="ignore", divide="ignore"):
        np.testing.assert_array_equal(compiled("log", x), np.log(x.astype(np.float64)).astype(np.float32))
        np.testing.assert_array_equal(compiled("log", x.astype(np.float64)), np.log(x.astype(np.float64)))


ODD = {"tanh": (np.tanh, 3.12e-7), "erf": (np.vectorize(math.erf, otypes=[np.float64]), 3.89e-7)}


@pytest.mark.parametrize("name", ODD)
def test_tanh_and_erf_of_a_dense_sample(name):
    function, bound = ODD[name]
    bits = np.arange(0, 0x7F800000, 4099, dtype=np.uint32)
    x = np.concatenate([bits.view(np.float32), np.linspace(0, 10, 500_000, dtype=np.float32)])
    y, exact = compiled(name, x), function(x.astype(np.float64))
    normal = exact >= np.finfo(np.float32).tiny
    error = np.abs(y[normal] / exact[normal] - 1)
    assert (error <= bound).all()
    assert not (error <= bound / 4).all()  # the comparison tells a bound that is not met
    assert (np.abs(y[~normal].astype(np.float64) - exact[~normal]) <= np.finfo(np.float32).smallest_subnormal).all()
    assert y.max() == 1
    np.testing.assert_array_equal(compiled(name, -x), -y)


@pytest.mark.parametrize("name", ODD)
def test_tanh_and_erf_of_the_ends(name):
    function, _ = ODD[name]
    x = np.array([-np.inf, np.inf, np.nan, 0, -0.0, 1e-45, 10, -10, 3e38, -3e38], np.float32)
    y = compiled(name, x)
    np.testing.assert_array_equal(y, function(x.astype(np.float64)).astype(np.float32))
    np.testing.assert_array_equal(np.signbit(y[3:5]), [False, True])
    np.testing.assert_array_equal(compiled(name, x.astype(np.float64)), function(x.astype(np.float64)))


def normal_cdf(x):
    return (1 + ODD["erf"][0](x * math.sqrt(0.5))) / 2


def gelu_slope(x):
    return normal_cdf(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


CONSTANTS = {"half": 0.5, "root_half": math.sqrt(0.5), "density": 1 / math.sqrt(2 * math.pi)}
OF_GELU = {"gelu_erf": (normal_cdf, 1.94e-7), "gelu_erf_backward": (gelu_slope, 3.5e-7)}


def of_gelu(name, x):
    """The normal distribution times x, and the slope times 1."""
    y, constants = np.empty_like(x), [x.dtype.type(c) for c in CONSTANTS.values()]
    if name == "gelu_erf":
        KERNELS[name](x, *constants[:2], y)
    else:
        KERNELS[name](np.ones_like(x), x, *constants, y)
    return y


@pytest.mark.parametrize("name", OF_GELU)
def test_gelu_of_a_dense_sample(name):
    function, bound = OF_GELU[name]
    bits = np.arange(0, 0x7F000000, 8191, dtype=np.uint32)
    dense = np.concatenate([bits.view(np.float32), np.linspace(0, 7, 300_000, dtype=np.float32)])
    x = np.concatenate([dense, -dense])
    exact = function(x.astype(np.float64))
    error = np.abs(of_gelu(name, x) - (x * exact if name == "gelu_erf" else exact))
    if name == "gelu_erf":  # the product is rounded as well, and the least ones to whole units
        error = np.maximum(error - 2**-24 * np.abs(x * exact) - np.finfo(np.float32).tiny, 0) / np.maximum(
            np.abs(x), 1e-30
        )
    assert (error <= bound).all()
    assert not (error <= bound / 4).all()  # the comparison tells a bound that is not met


@pytest.mark.parametrize("name", OF_GELU)
def test_gelu_far_from_zero(name):
    x = np.array([-3e38, -100, 0, 100, 3e38, np.nan], np.float32)
    ends = np.array([0, 0, 0.5, 1, 1, np.nan], np.float32)
    for dtype in (np.float32, np.float64):
        expected = ends * x if name == "gelu_erf" else ends
        np.testing.assert_array_equal(of_gelu(name, x.astype(dtype)), expected.astype(dtype))

"""The float32 exp of the kernels against float64; all 2^32 arguments give the same bounds, in a minute."""

import numba
import numpy as np
import pytest

from tinytensor.kernels import elementwise

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="in Python exp is np.exp")


def compiled_exp(x):
    y = np.empty_like(x)
    with np.errstate(all="ignore"):
        elementwise.exp(x, y)
    return y


def test_exp_of_a_dense_sample():
    bits = np.arange(0, 2**32, 1021, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits.view(np.float32), np.linspace(-104, 89, 1_000_000, dtype=np.float32)])
    y = compiled_exp(x)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    normal = np.isfinite(rounded) & (rounded >= np.finfo(np.float32).tiny)
    assert (np.abs(y[normal] / exact[normal] - 1) <= 8.6e-8).all()
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

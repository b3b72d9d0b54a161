"""Running sums against NumPy."""

import numpy as np
import pytest
from numba import config

from tinytensor.native.kernels import scan

# without the compiler NumPy warns of the infinities and NaNs that are asked for here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZES = (0, 1, 2, 3, 7) if config.DISABLE_JIT else (0, 1, 2, 3, 7, 31, 33, 100)
INF, NAN = np.inf, np.nan


def run(x, reverse):
    y = np.full_like(x, 7)
    scan.cumsum(x, reverse, y, np.full((x.shape[0], x.shape[2]), 7, x.dtype))
    return y


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_cumsum(dtype):
    rng = np.random.default_rng(0)
    for n in SIZES:
        for outer, inner in ((1, 1), (3, 1), (2, 5), (0, 2), (2, 0)):
            x = (10 * rng.standard_normal((outer, n, inner))).astype(dtype)
            y = run(x, False)
            wide, bound = (x, 0) if dtype is np.int64 else (x.astype(np.longdouble), 4 * np.finfo(dtype).eps)
            atol = bound * np.abs(wide).sum(1).max(initial=0)
            np.testing.assert_allclose(y, np.cumsum(wide, 1), rtol=bound, atol=atol)
            np.testing.assert_allclose(run(x, True), np.cumsum(wide[:, ::-1], 1)[:, ::-1], rtol=bound, atol=atol)
            if n > 1 and y.size:
                assert not (y == run(x, True)).all()  # the direction matters


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_and_inf(dtype):
    x = np.array([1, INF, -INF, 2], dtype).reshape(1, 4, 1)
    np.testing.assert_array_equal(run(x, False).ravel(), [1, INF, NAN, NAN])
    np.testing.assert_array_equal(run(x, True).ravel(), [NAN, NAN, -INF, 2])

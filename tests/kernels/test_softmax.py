"""Softmax kernels against NumPy in float64, finite differences, and PyTorch 2.13 for NaN and infinities."""

import numpy as np
import pytest
from numba import config

from tinytensor.native.kernels import softmax

# without the compiler NumPy warns of the infinities and NaNs that are asked for here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZES = (1, 2, 3, 7) if config.DISABLE_JIT else (*range(1, 34), 100, 300)  # every tail of a row
DTYPES = (np.float32, np.float64)
INF, NAN = np.inf, np.nan


def samples(dtype):
    rng = np.random.default_rng(0)
    for rows in (1, 3):
        for n in SIZES:
            yield (3 * rng.standard_normal((rows, n))).astype(dtype), rng.standard_normal((rows, n)).astype(dtype)


def run(kernel, *args):
    y = np.full_like(args[0], 7)
    kernel(*args, y)
    return y


def reference(x):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def close(y, expected, dtype, factor=8):
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(y, expected, rtol=factor * eps, atol=factor * eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_forward(dtype):
    for x, _ in samples(dtype):
        for z in (x, 30 * x, x + 1000, x - 1000):
            p = reference(z)
            close(run(softmax.softmax, z), p, dtype)
            w = z.astype(np.float64)
            m = w.max(-1, keepdims=True)
            expected = w - m - np.log(np.exp(w - m).sum(-1, keepdims=True))
            close(run(softmax.log_softmax, z), expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_backward(dtype):
    for x, g in samples(dtype):
        p, up = reference(x), g.astype(np.float64)
        y = run(softmax.softmax, x)
        close(run(softmax.softmax_backward, g, y), p * (up - (up * p).sum(-1, keepdims=True)), dtype, 30)
        y = run(softmax.log_softmax, x)
        close(run(softmax.log_softmax_backward, g, y), up - p * up.sum(-1, keepdims=True), dtype, 100)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_backward_matches_the_numerical_slope(name):
    forward, backward = getattr(softmax, name), getattr(softmax, f"{name}_backward")
    rng = np.random.default_rng(1)
    x, g = rng.standard_normal((2, 5)), rng.standard_normal((2, 5))
    slope, h = np.zeros_like(x), 1e-5
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        slope[i] = ((run(forward, x + step) - run(forward, x - step)) * g).sum() / (2 * h)
    dx = run(backward, g, run(forward, x))
    np.testing.assert_allclose(dx, slope, rtol=1e-7, atol=1e-9)
    with pytest.raises(AssertionError):  # the comparison tells a wrong gradient
        np.testing.assert_allclose(3 * dx, slope, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_inf(dtype):
    """Expected: what PyTorch gives."""
    for row, soft, log in (
        ([-INF, -INF], [NAN, NAN], [NAN, NAN]),
        ([INF, 0], [NAN, NAN], [NAN, NAN]),
        ([NAN, 0], [NAN, NAN], [NAN, NAN]),
        ([0, NAN], [NAN, NAN], [NAN, NAN]),
        ([-INF, NAN], [NAN, NAN], [NAN, NAN]),
        ([0, -INF], [1, 0], [0, -INF]),
        ([-INF] * 20 + [0] + [-INF] * 20, [0] * 20 + [1] + [0] * 20, [-INF] * 20 + [0] + [-INF] * 20),
        ([1] * 40 + [NAN], [NAN] * 41, [NAN] * 41),
    ):
        x = np.array([row, row], dtype)
        np.testing.assert_array_equal(run(softmax.softmax, x), np.array([soft, soft], dtype))
        np.testing.assert_array_equal(run(softmax.log_softmax, x), np.array([log, log], dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_maximum_at_every_position(dtype):
    """A maximum that is missed lets exp overflow."""
    for n in range(1, 10 if config.DISABLE_JIT else 41):
        x = np.where(np.eye(n), 1000, 0).astype(dtype)
        assert (run(softmax.softmax, x) == np.eye(n)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty(dtype, shape):
    x = np.zeros(shape, dtype)
    for kernel in (softmax.softmax, softmax.log_softmax):
        assert run(kernel, x).shape == shape
    for kernel in (softmax.softmax_backward, softmax.log_softmax_backward):
        assert run(kernel, x, x).shape == shape


def test_thread_count_changes_no_bit(one_and_two_threads):
    rng = np.random.default_rng(2)
    x, g = (rng.standard_normal((1001, 77)).astype(np.float32) for _ in range(2))

    def work():
        y, z = run(softmax.softmax, x), run(softmax.log_softmax, x)
        backs = run(softmax.softmax_backward, g, y), run(softmax.log_softmax_backward, g, z)
        return [a.tobytes() for a in (y, z, *backs)]

    one, two = one_and_two_threads(work, launches=4)
    assert one == two

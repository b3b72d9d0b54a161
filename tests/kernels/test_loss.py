"""Cross-entropy against NumPy in float64, finite differences, and PyTorch 2.13 for NaN and infinities."""

import numpy as np
import pytest
from numba import config

from tinytensor.native.kernels import loss

# without the compiler NumPy warns of the infinities and NaNs that are asked for here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZES = (1, 2, 3, 7) if config.DISABLE_JIT else (1, 2, 3, 7, 31, 33, 100, 300)
DTYPES = (np.float32, np.float64)
INF, NAN = np.inf, np.nan


def forward(x, target, smoothing=0.0, ignore_index=-100):
    losses, lse = np.full(len(x), 7, x.dtype), np.full(len(x), 7, x.dtype)
    target, bad = np.asarray(target, np.int64), np.zeros(2, np.int64)
    loss.cross_entropy(x, target, ignore_index, x.dtype.type(smoothing), losses, lse, bad)
    assert (bad == 0).all()
    return losses, lse


def backward(g, x, target, lse, smoothing=0.0, ignore_index=-100):
    dx = np.full_like(x, 7)
    target = np.asarray(target, np.int64)
    loss.cross_entropy_backward(g, x, target, lse, ignore_index, x.dtype.type(smoothing), dx)
    return dx


def reference(x, target, smoothing):
    x = x.astype(np.float64)
    m = x.max(1)
    lse = m + np.log(np.exp(x - m[:, None]).sum(1))
    wanted = np.full(x.shape, smoothing / x.shape[1])
    wanted[np.arange(len(x)), target] += 1 - smoothing
    return lse - (wanted * x).sum(1), lse, np.exp(x - lse[:, None]) - wanted


def close(y, expected, dtype, factor=20):
    tolerance = factor * np.finfo(dtype).eps
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance * max(1, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smoothing", [0, 0.1, 1])
def test_against_numpy(dtype, smoothing):
    rng = np.random.default_rng(0)
    for rows in (1, 3, 33):
        for size in SIZES:
            x = (2 * rng.standard_normal((rows, size))).astype(dtype)
            g, target = rng.standard_normal(rows).astype(dtype), rng.integers(0, size, rows)
            expected, expected_lse, slope = reference(x, target, smoothing)
            losses, lse = forward(x, target, smoothing)
            close(losses, expected, dtype)
            close(lse, expected_lse, dtype)
            close(backward(g, x, target, lse, smoothing), g[:, None] * slope, dtype)


def test_backward_matches_the_numerical_slope():
    rng = np.random.default_rng(1)
    x, g, target = rng.standard_normal((3, 4)), rng.standard_normal(3), [1, -100, 3]
    for smoothing in (0, 0.2):
        slope, h = np.zeros_like(x), 1e-5
        for i in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[i] = h
            high, low = forward(x + step, target, smoothing)[0], forward(x - step, target, smoothing)[0]
            slope[i] = ((high - low) * g).sum() / (2 * h)
        dx = backward(g, x, target, forward(x, target, smoothing)[1], smoothing)
        np.testing.assert_allclose(dx, slope, rtol=1e-7, atol=1e-9)
        with pytest.raises(AssertionError):  # the comparison tells a wrong gradient
            np.testing.assert_allclose(3 * dx, slope, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ignore_index", [-100, 1, 10**12])
def test_ignored_rows(dtype, ignore_index):
    """They give 0 whatever stands in them; and all rows may be ignored."""
    x = np.array([[1, 2, 3], [NAN, INF, -INF], [0, 5, 1]], dtype)
    for target in ([0, ignore_index, 2], [ignore_index] * 3):
        losses, lse = forward(x, target, ignore_index=ignore_index)
        dx = backward(np.ones(3, dtype), x, target, lse, ignore_index=ignore_index)
        for r, t in enumerate(target):
            if t == ignore_index:
                assert losses[r] == 0
                assert (dx[r] == 0).all()
            else:
                expected, _, slope = reference(x[r : r + 1], [t], 0)
                close(losses[r], expected[0], dtype)
                close(dx[r], slope[0], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_mean_is_over_rows_that_are_not_ignored(dtype):
    losses, target = np.array([1, 0, 2, 4], dtype), np.array([0, -100, 2, 1])
    y, count = np.full(1, 7, dtype), np.full(1, 7, dtype)
    loss.mean_of_counted(losses, target, -100, y, count)
    assert (y[0], count[0]) == (dtype(7) / dtype(3), 3)
    loss.mean_of_counted(np.zeros(2, dtype), np.full(2, -100), -100, y, count)
    assert np.isnan(y[0])
    assert count[0] == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong", [-1, 3, 2**62, -(2**62)])
def test_target_out_of_range_is_reported(dtype, wrong):
    """It is told, and nothing is read or written at it: its row counts as an ignored one."""
    x, target, bad = np.ones((3, 3), dtype), np.array([0, wrong, 2]), np.zeros(2, np.int64)
    losses, lse = np.full(3, 7, dtype), np.full(3, 7, dtype)
    loss.cross_entropy(x, target, -100, dtype(0), losses, lse, bad)
    assert bad.tolist() == [1, wrong]
    close(losses, np.log(3) * np.array([1, 0, 1]), dtype)
    dx = backward(np.ones(3, dtype), x, target, lse)
    assert (dx[1] == 0).all()
    close(dx[[0, 2]], np.full((2, 3), 1 / 3) - np.eye(3)[[0, 2]], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_inf(dtype):
    """Expected: what PyTorch gives for target 0."""
    third = 0.1 / 3
    p = 1 / (1 + np.e)
    for smoothing, row, value, grad in (
        (0, [0, -INF, 1], 1.3132616875182228, [p - 1, 0, 1 - p]),
        (0, [-INF, 0], INF, [-1, 1]),
        (0, [-INF, -INF, -INF], NAN, [NAN, NAN, NAN]),
        (0, [INF, 0, 0], NAN, [NAN, NAN, NAN]),
        (0, [NAN, 0, 0], NAN, [NAN, NAN, NAN]),
        (0, [1e4, 0, -1e4], 0, [0, 0, 0]),
        (0, [-1e4, 0, 1e4], 2e4, [-1, 0, 1]),
        (0.1, [0, -INF, 1], INF, [p - 0.9 - third, -third, 1 - p - third]),
        (0.1, [1e4, 0, -1e4], 1000, [0.1 - third, -third, -third]),
        (0.1, [NAN, 0, 0], NAN, [NAN, NAN, NAN]),
    ):
        x = np.array([row], dtype)
        losses, lse = forward(x, [0], smoothing)
        dx = backward(np.ones(1, dtype), x, [0], lse, smoothing)
        np.testing.assert_allclose(losses, [value], rtol=4e-7 if dtype is np.float32 else 1e-15)
        np.testing.assert_allclose(dx, [grad], rtol=1e-6 if dtype is np.float32 else 1e-14, atol=1e-15)


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty(dtype):
    for shape in ((0, 5), (0, 0)):
        x = np.zeros(shape, dtype)
        losses, lse = forward(x, [])
        assert losses.size == 0
        assert backward(losses, x, [], lse).shape == shape
    x = np.zeros((2, 0), dtype)  # no class: only ignored rows are possible
    losses, lse = forward(x, [-100, -100])
    assert (losses == 0).all()
    assert backward(losses, x, [-100, -100], lse).shape == (2, 0)


def test_thread_count_changes_no_bit(one_and_two_threads):
    rng = np.random.default_rng(2)
    x, g = rng.standard_normal((3333, 77)).astype(np.float32), rng.standard_normal(3333).astype(np.float32)
    target = rng.integers(0, 77, 3333)

    def work():
        losses, lse = forward(x, target, 0.1)
        return [a.tobytes() for a in (losses, lse, backward(g, x, target, lse, 0.1))]

    one, two = one_and_two_threads(work, launches=2)
    assert one == two

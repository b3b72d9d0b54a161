"""Layer norm and RMS norm against NumPy in float64, finite differences, and PyTorch 2.13 for NaN."""

import numpy as np
import pytest
from numba import config

from tinytensor.native.kernels import norm, reduce

# without the compiler NumPy warns of the infinities and NaNs that are asked for here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZES = (1, 2, 3, 7) if config.DISABLE_JIT else (*range(1, 34), 100)  # every tail of a row
DTYPES = (np.float32, np.float64)
EPS = 1e-5


def layer_norm(x, weight, bias):
    y, mean, rstd = np.full_like(x, 7), np.full(len(x), 7, x.dtype), np.full(len(x), 7, x.dtype)
    norm.layer_norm(x, weight, bias, x.dtype.type(EPS), y, mean, rstd)
    return y, mean, rstd


def added_up(partial):
    """The sums over all blocks of rows, as the operations take them."""
    y = np.full((partial.shape[0], partial.shape[2]), 7, partial.dtype)
    reduce.reduce_sum(partial, y)
    return y


def layer_norm_backward(g, x, weight, bias, mean, rstd):
    rows, size = x.shape
    dx, partial = np.full_like(x, 7), np.full((2, norm.norm_blocks(rows, size), size), 7, x.dtype)
    norm.layer_norm_backward(g, x, weight, mean, rstd, dx, partial)
    dweight, dbias = added_up(partial)
    alone = np.full_like(x, 7)
    norm.layer_norm_backward(g, x, weight, mean, rstd, alone, partial[:, :, :0].copy())  # without the sums
    np.testing.assert_array_equal(alone, dx)
    first = partial[:1].copy()  # the weight's alone
    norm.layer_norm_backward(g, x, weight, mean, rstd, alone, first)
    np.testing.assert_array_equal(alone, dx)
    np.testing.assert_array_equal(first, partial[:1])
    return dx, dweight[: weight.size], dbias[: bias.size]


def rms_norm(x, weight):
    y, rstd = np.full_like(x, 7), np.full(len(x), 7, x.dtype)
    norm.rms_norm(x, weight, x.dtype.type(EPS), y, rstd)
    return y, rstd


def rms_norm_backward(g, x, weight, rstd):
    rows, size = x.shape
    dx, partial = np.full_like(x, 7), np.full((1, norm.norm_blocks(rows, size), size), 7, x.dtype)
    norm.rms_norm_backward(g, x, weight, rstd, dx, partial)
    return dx, added_up(partial)[0][: weight.size]


def samples(dtype):
    rng = np.random.default_rng(0)
    for rows in (1, 3, 70):
        for size in SIZES:
            x, g = rng.standard_normal((2, rows, size)) * 2
            weight, bias = rng.standard_normal((2, size))
            yield [a.astype(dtype) for a in (x + 0.5, g, weight, bias)]


def close(y, expected, dtype, factor=30):
    tolerance = factor * np.finfo(dtype).eps
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance * max(1, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm(dtype):
    for x, g, weight, bias in samples(dtype):
        if x.shape[1] == 2:
            x = np.abs(x) * np.array([1, -1], dtype)  # of two nearby numbers the deviation is all rounding error
        none = weight[:0]
        w, up = x.astype(np.float64), g.astype(np.float64)
        mean, rstd = w.mean(1), 1 / np.sqrt(w.var(1) + EPS)
        n = (w - mean[:, None]) * rstd[:, None]
        for a, b in ((weight, bias), (weight, none), (none, bias), (none, none)):
            y, saved_mean, saved_rstd = layer_norm(x, a, b)
            close(y, n * (a if a.size else 1) + (b if b.size else 0), dtype)
            close(saved_mean, mean, dtype)
            close(saved_rstd, rstd, dtype)
            dx, da, db = layer_norm_backward(g, x, a, b, saved_mean, saved_rstd)
            h = up * (a if a.size else 1)
            expected = h - h.mean(1, keepdims=True) - n * (h * n).mean(1, keepdims=True)
            close(dx / rstd[:, None], expected, dtype, 100)  # the rounding error grows with rstd
            close(da, (up * n).sum(0)[: a.size], dtype, 100)
            close(db, up.sum(0)[: b.size], dtype, 100)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(dtype):
    for x, g, weight, _ in samples(dtype):
        w, up = x.astype(np.float64), g.astype(np.float64)
        rstd = 1 / np.sqrt((w * w).mean(1) + EPS)
        n = w * rstd[:, None]
        for a in (weight, weight[:0]):
            y, saved_rstd = rms_norm(x, a)
            close(y, n * (a if a.size else 1), dtype)
            close(saved_rstd, rstd, dtype)
            dx, da = rms_norm_backward(g, x, a, saved_rstd)
            h = up * (a if a.size else 1)
            close(dx / rstd[:, None], h - n * (h * n).mean(1, keepdims=True), dtype, 100)
            close(da, (up * n).sum(0)[: a.size], dtype, 100)


def slope(f, x, g):
    result, h = np.zeros_like(x), 1e-5
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        result[i] = ((f(x + step) - f(x - step)) * g).sum() / (2 * h)
    return result


def test_backward_matches_the_numerical_slope():
    rng = np.random.default_rng(1)
    x, g = rng.standard_normal((2, 3, 4))
    weight, bias = rng.standard_normal((2, 4))
    _, mean, rstd = layer_norm(x, weight, bias)
    dx, dweight, dbias = layer_norm_backward(g, x, weight, bias, mean, rstd)
    expected = slope(lambda z: layer_norm(z, weight, bias)[0], x, g)
    np.testing.assert_allclose(dx, expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(dweight, slope(lambda z: layer_norm(x, z, bias)[0], weight, g), rtol=1e-6)
    np.testing.assert_allclose(dbias, slope(lambda z: layer_norm(x, weight, z)[0], bias, g), rtol=1e-6)
    with pytest.raises(AssertionError):  # the comparison tells a wrong gradient
        np.testing.assert_allclose(rstd[:, None] * weight * g, expected, rtol=1e-6, atol=1e-8)

    _, rstd = rms_norm(x, weight)
    dx, dweight = rms_norm_backward(g, x, weight, rstd)
    np.testing.assert_allclose(dx, slope(lambda z: rms_norm(z, weight)[0], x, g), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(dweight, slope(lambda z: rms_norm(x, z)[0], weight, g), rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_mean_small_deviation(dtype):
    """The variance takes the mean off first: E[x^2] - E[x]^2 would have lost everything."""
    x = np.array([[4096, 4097, 4098, 4099]], dtype)
    none = np.zeros(0, dtype)
    expected = np.array([[-1.5, -0.5, 0.5, 1.5]]) / np.sqrt(1.25 + EPS)
    close(layer_norm(x, none, none)[0], expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_constant_rows_nan_and_inf(dtype):
    none = np.zeros(0, dtype)
    assert (layer_norm(np.full((2, 33), 3, dtype), none, none)[0] == 0).all()
    assert (rms_norm(np.zeros((2, 33), dtype), none)[0] == 0).all()
    for value in (np.nan, np.inf):
        x = np.ones((2, 5), dtype)
        x[0, 3] = value
        y = layer_norm(x, none, none)[0]
        assert np.isnan(y[0]).all()
        assert (y[1] == 0).all()  # the other row is not touched


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty(dtype, shape):
    x = np.zeros(shape, dtype)
    weight, bias = np.zeros((2, shape[1]), dtype)
    y, mean, rstd = layer_norm(x, weight, bias)
    assert y.shape == shape
    dx, dweight, dbias = layer_norm_backward(x, x, weight, bias, mean, rstd)
    assert dx.shape == shape
    assert (dweight == 0).all()
    assert (dbias == 0).all()
    y, rstd = rms_norm(x, weight)
    dx, dweight = rms_norm_backward(x, x, weight, rstd)
    assert dx.shape == shape
    assert (dweight == 0).all()


def test_thread_count_changes_no_bit(one_and_two_threads):
    rng = np.random.default_rng(2)
    x, g = rng.standard_normal((2, 3333, 33)).astype(np.float32)
    weight, bias = rng.standard_normal((2, 33)).astype(np.float32)

    def work():
        y, mean, rstd = layer_norm(x, weight, bias)
        z, scale = rms_norm(x, weight)
        grads = *layer_norm_backward(g, x, weight, bias, mean, rstd), *rms_norm_backward(g, x, weight, scale)
        return [a.tobytes() for a in (y, z, *grads)]

    one, two = one_and_two_threads(work, launches=4)
    assert one == two

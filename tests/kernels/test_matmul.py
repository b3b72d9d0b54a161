"""matmul and linear against NumPy in float64, and the promises about bits: rows and threads."""

import math

import numba
import numpy as np
import pytest

from tinytensor.kernels.kernel import KERNELS
from tinytensor.kernels.matmul import (
    SMALL,
    linear,
    linear_scratch,
    matmul,
    matmul_scratch,
)

JIT = not numba.config.DISABLE_JIT
SIZES = range(1, 41) if JIT else (1, 2, 4, 5, 9)
LARGE = (96, 40, 70) if JIT else (6, 5, 33)  # M, K, N
EPS = {np.float32: 2.0**-24, np.float64: 2.0**-53}


def run_matmul(a, b):
    # NaN in what the kernel must overwrite: a number that it forgets to write or reads too early shows
    y = np.full((a.shape[0], a.shape[1], b.shape[2]), np.nan if a.dtype.kind == "f" else -77, a.dtype)
    scratch = np.full(matmul_scratch(a.shape, b.shape), y.flat[0] if y.size else 0, a.dtype)
    matmul(a, b, y, scratch)
    return y


def run_linear(x, weight, bias, relu):
    y = np.full((x.shape[0], weight.shape[0]), np.nan, x.dtype)
    linear(x, weight, bias, relu, y, np.full(linear_scratch(x.shape, weight.shape), np.nan, x.dtype))
    return y


def check_product(y, a, b):
    """|y - a b| <= K eps |a| |b|: the bound of a sum of K products in any order (float64 products as the truth)."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    bound = a.shape[-1] * EPS[a.dtype.type] * (np.abs(a64) @ np.abs(b64)) * 1.01
    assert (np.abs(y - a64 @ b64) <= bound).all(), (a.shape, b.shape)


def draw(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("which", range(3), ids="MKN")
def test_every_size(which, dtype):
    rng = np.random.default_rng(which)
    for size in SIZES:
        m, k, n = rng.integers(1, max(SIZES) + 1, 3)
        m, k, n = [size if i == which else int(other) for i, other in enumerate((m, k, n))]
        a, b = draw(rng, (2, m, k), dtype), draw(rng, (2, k, n), dtype)
        check_product(run_matmul(a, b), a, b)
        at, bt = a.transpose(0, 2, 1).copy().transpose(0, 2, 1), b.transpose(0, 2, 1).copy().transpose(0, 2, 1)
        check_product(run_matmul(at, b), a, b)
        check_product(run_matmul(a, bt), a, b)
        check_product(run_linear(a[0], bt[0].T, np.zeros(0, dtype), 0), a[0], b[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_and_tails_of_large_products(dtype):
    rng = np.random.default_rng(0)
    m, k, n = LARGE
    if JIT:
        assert m * k * n > SMALL
    for dm in range(4):
        for dn in (0, 1, 25, 26):
            a, b = draw(rng, (1, m + dm, k + dm), dtype), draw(rng, (1, k + dm, n + dn), dtype)
            check_product(run_matmul(a, b), a, b)


def test_the_check_sees_a_wrong_element():
    rng = np.random.default_rng(0)
    a, b = draw(rng, (1, 7, 9), np.float32), draw(rng, (1, 9, 33), np.float32)
    y = run_matmul(a, b)
    for place in ((0, 0, 0), (0, 6, 32), (0, 3, 31)):
        wrong = y.copy()
        wrong[place] += np.float32(3e-5)
        with pytest.raises(AssertionError):
            check_product(wrong, a, b)


def repeat(x, axis):
    """The first slice of `axis` again and again, by a stride of 0."""
    return np.lib.stride_tricks.as_strided(x, x.shape, [0 if i == axis else s for i, s in enumerate(x.strides)])


def test_strides():
    rng = np.random.default_rng(0)
    a, b = draw(rng, (3, 10, 14), np.float32), draw(rng, (3, 14, 80), np.float32)
    for av in (a[:, ::2], a[:, ::-1], a[::-1, 3:8], repeat(a, 0), repeat(a, 1), repeat(a, 2)):
        for bv in (b[:, :, ::2], b[:, ::-1, ::-1], repeat(b, 0), repeat(b, 1), repeat(b, 2)):
            check_product(run_matmul(av, bv), av, bv)


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0), (1, 0, 0, 0)])
def test_empty(shape):
    n, m, k, columns = shape
    y = run_matmul(np.zeros((n, m, k), np.float32), np.zeros((n, k, columns), np.float32))
    assert y.shape == (n, m, columns) and (y == 0).all()
    z = run_linear(np.zeros((m, k), np.float32), np.zeros((columns, k), np.float32), np.ones(columns, np.float32), 1)
    assert z.shape == (m, columns) and (z == 1).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_are_exact(dtype):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-99, 99, (2, 5, 7)).astype(dtype), rng.integers(-99, 99, (2, 7, 35)).astype(dtype)
    assert (run_matmul(a, b) == a @ b).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_does_not_depend_on_the_others(dtype):
    """The promise behind the key/value cache: bit for bit, alone or in any company, in either kernel."""
    rng = np.random.default_rng(0)
    sizes = [(m, k, n) for m in (1, 2, 5, 64, 131) for k in (1, 3, 8, 33, 130) for n in (1, 8, 31, 32, 65, 300)]
    for m, k, n in sizes if JIT else [(5, 3, 33), (3, 5, 8)]:
        a, b = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
        a[rng.random(a.shape) < 0.2] = 0  # signs of zeros are bits too
        y = run_matmul(a[None], b[None])[0]
        assert bits_equal(y, run_linear(a, b.T, np.zeros(0, dtype), 0))
        for i in {0, m // 2, m - 1}:
            assert bits_equal(y[i : i + 1], run_matmul(a[None, i : i + 1], b[None])[0])
            assert bits_equal(y[i:], run_matmul(a[None, i:], np.asfortranarray(b)[None])[0])


def bits_equal(a, b):
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def test_bits_equal_sees_a_sign_of_zero():
    assert not bits_equal(np.array([0.0]), np.array([-0.0]))


@pytest.mark.skipif(not JIT, reason="Python code has one thread")
def test_the_number_of_threads_does_not_change_a_bit():
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one processor")
    rng = np.random.default_rng(0)
    for n, m, k, columns in ((1, 131, 70, 70), (5, 33, 40, 41), (1, 7, 900, 100)):
        a, b = draw(rng, (n, m, k), np.float32), draw(rng, (n, k, columns), np.float32)
        before = numba.get_num_threads()
        try:
            numba.set_num_threads(1)
            one = run_matmul(a, b)
            numba.set_num_threads(2)
            assert bits_equal(one, run_matmul(a, b))
        finally:
            numba.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_is_matmul_then_bias_then_relu(dtype):
    rng = np.random.default_rng(0)
    for m, k, n in ((1, 1, 1), (5, 7, 33), (3, 4, 31), (9, 2, 64), *([(70, 32, 96)] if JIT else [])):
        x, weight, bias = draw(rng, (m, k), dtype), draw(rng, (n, k), dtype), draw(rng, n, dtype)
        product = run_matmul(x[None], weight.T[None])[0] + bias
        assert bits_equal(run_linear(x, weight, bias, 0), product)
        y = run_linear(np.asfortranarray(x), np.asfortranarray(weight), bias, 1)
        assert bits_equal(y, np.where(product > 0, product, dtype(0)))
        assert (y == 0).any() or m * n < 9


@pytest.mark.filterwarnings("ignore:invalid value")  # NumPy's scalars, where the kernel runs as Python
def test_nan_and_inf_pass():
    x = np.array([[np.nan, 1.0], [np.inf, 1.0], [-np.inf, 1.0], [1.0, 1.0]], np.float32)
    weight, bias = np.ones((3, 2), np.float32), np.array([0.0, np.nan, -9.0], np.float32)
    y = run_linear(x, weight, bias, 1)
    expected = np.array([[np.nan] * 3, [np.inf, np.nan, np.inf], [0, np.nan, 0], [2, np.nan, 0]], np.float32)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(run_matmul(x[None], weight.T[None])[0, :3, 0], [np.nan, np.inf, -np.inf])


def test_scratch_holds_the_panels():
    assert matmul_scratch((2, 5, 7), (2, 7, 33))[0] >= 2 * 7 * 64
    assert math.prod(linear_scratch((5, 7), (33, 7))) == math.prod(matmul_scratch((1, 5, 7), (1, 7, 33)))


def test_names():
    assert KERNELS["matmul"] is matmul and KERNELS["linear"] is linear

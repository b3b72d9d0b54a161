"""Tiles of registers: the compiled meaning of each function against its plain one, whole tiles and every edge."""

from functools import cache

import numpy as np
import pytest
from numba import njit

from tinytensor.native.simd.isa import BYTES
from tinytensor.native.simd.tile import (
    STEPS,
    add_tile,
    load_tile,
    load_transposed,
    prefetch_tile,
    relu_tile,
    store_tile,
    sum_tile,
    zero_tile,
)

DTYPES = (np.float32, np.float64, np.int32)
ROWS, COLUMNS = 3, 2


@cache
def build(function):
    return njit(error_model="numpy")(function)


def check(function, *args):
    """The compiled function and the plain one change the arguments alike."""
    compiled, plain = ([a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    build(function)(*compiled)
    function(*plain)
    for a, b in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(a, b)
    return plain


def lanes(dtype) -> int:
    return BYTES // np.dtype(dtype).itemsize


def draw(dtype, *shape):
    """Whole numbers, so that products and sums are exact in any order."""
    return np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)


def moved(x, y, height, width):
    """What lies within the edges is copied, and nothing else is written."""
    store_tile(load_tile(zero_tile(x, 3, 2), height, width, x, 1, 2), 3, width + 1, y, 0, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_edges_of_loads_and_stores(dtype):
    wide = COLUMNS * lanes(dtype)
    x = draw(dtype, ROWS + 2, wide + 4)
    for height in range(ROWS + 1):
        for width in range(wide + 1):
            y = check(moved, x, np.full((ROWS, wide + 2), -77, dtype), height, width)[1]
            assert (y[:height, 1 : 1 + width] == x[1 : 1 + height, 2 : 2 + width]).all()
            assert (y[:, 0] == -77).all() and (y[:, width + 2 :] == -77).all()


def summed(a, b, y, height, k, count, asks):
    """The rows of b are read from row 2 on, as a panel's may be; y holds what there was before."""
    c = load_tile(zero_tile(y, 3, 2), height, y.shape[1], y, 0, 0)
    store_tile(sum_tile(c, height, a, 1, k, b, 2, 0, count, asks), height, y.shape[1], y, 0, 0)


def summed_tall(a, b, y, height, k, count, asks):
    """A tile of more rows than STEPS, which may ask; the memory of the last one's next rows belongs to no array."""
    c = load_tile(zero_tile(y, 6, 2), height, y.shape[1], y, 0, 0)
    prefetch_tile(c, y, 0, 0)
    store_tile(sum_tile(c, height, a, 1, k, b, 2, 0, count, asks), height, y.shape[1], y, 0, 0)


@pytest.mark.parametrize("rows", [ROWS, 2 * ROWS])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_products(dtype, rows):
    function = {ROWS: summed, 2 * ROWS: summed_tall}[rows]
    wide = COLUMNS * lanes(dtype)
    b, y = draw(dtype, 3 * STEPS + 2, wide), draw(dtype, rows, wide)
    for a in (draw(dtype, 1 + rows, 3 * STEPS), draw(dtype, 3 * STEPS, 1 + rows).T):
        for height in range(1, rows + 1):
            for count in range(2 * STEPS + 2):
                expected = y[:height] + a[1 : 1 + height, 1 : 1 + count] @ b[2 : 2 + count]
                for asks in (False, True):
                    result = check(function, a, b, y, height, 1, count, asks)[2]
                    np.testing.assert_array_equal(result[:height], expected)
                    np.testing.assert_array_equal(result[height:], y[height:])


def arithmetic(x, y):
    c = load_tile(zero_tile(x, 3, 2), 3, x.shape[1], x, 0, 0)
    store_tile(add_tile(c, c), 3, x.shape[1], y, 0, 0)
    store_tile(relu_tile(c, 3), 3, x.shape[1], y, 3, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(dtype):
    x = draw(dtype, ROWS, COLUMNS * lanes(dtype))
    if dtype != np.int32:
        x.flat[:5] = np.nan, np.inf, -np.inf, 0.0, -0.0
    y = check(arithmetic, x, np.zeros((2 * ROWS, x.shape[1]), dtype))[1]
    np.testing.assert_array_equal(y[:ROWS], x + x)
    np.testing.assert_array_equal(y[ROWS:], np.maximum(x, 0))
    assert not np.signbit(y.flat[ROWS * x.shape[1] + 4]) or dtype == np.int32


def turned(x, y, height, width):
    store_tile(load_transposed(height, width, x, 1, 2), y.shape[0], y.shape[1], y, 0, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposed_squares(dtype):
    n = lanes(dtype)
    x = draw(dtype, n + 1, n + 2)
    for height in range(n + 1):
        for width in range(n + 1):
            y = check(turned, x, np.full((n, n), -77, dtype), height, width)[1]
            expected = np.zeros((n, n), dtype)
            expected[:width, :height] = x[1 : 1 + height, 2 : 2 + width].T
            np.testing.assert_array_equal(y, expected)

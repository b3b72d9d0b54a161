"""Reductions against NumPy in float64 and against what PyTorch 2.13 gives for NaN, infinities and ties."""

import numpy as np
import pytest
from numba import config

import tinytensor
from tinytensor.native.kernels import reduce

# without the compiler NumPy warns of the infinities and NaNs that are asked for here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZES = (1, 2, 3, 7) if config.DISABLE_JIT else (1, 2, 3, 7, 8, 31, 33, 100)
DTYPES = (np.float32, np.float64)
INF, NAN = np.inf, np.nan


def samples(dtype, sizes=SIZES):
    rng = np.random.default_rng(0)
    for n in sizes:
        for outer, inner in ((1, 1), (3, 1), (1, 5), (2, 33)):
            yield rng.standard_normal((outer, n, inner)).astype(dtype)


def run(kernel, x, dtype=None, extra=()):
    """The result of a reduction; it starts from garbage, which must not show."""
    y = np.full((x.shape[0], x.shape[2]), 7, dtype or x.dtype)
    more = [np.full(y.shape, 99, e) for e in extra]
    kernel(x, y, *more)
    return (y, *more) if more else y


def repeat(line, shape):
    """A fresh, writable array of this shape with the same values in every column."""
    return np.broadcast_to(line, shape).copy()


def close(y, expected, dtype, n):
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(y, expected, rtol=4 * eps, atol=4 * eps * np.sqrt(n))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_and_prod(dtype):
    for x in samples(dtype):
        n = x.shape[1]
        close(run(reduce.reduce_sum, x), x.astype(np.float64).sum(1), dtype, n)
        x = 1 + x / 100
        np.testing.assert_allclose(
            run(reduce.reduce_prod, x), x.astype(np.float64).prod(1), rtol=2 * n * np.finfo(dtype).eps
        )


def test_lost_element_is_noticed():
    x = np.ones((1, 33, 2), np.float32)
    x[0, 32] = 1e-4
    with pytest.raises(AssertionError):
        close(run(reduce.reduce_sum, x[:, :32].copy()), x.astype(np.float64).sum(1), np.float32, 33)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.bool_])
def test_integers(dtype):
    rng = np.random.default_rng(1)
    low, high = (0, 2) if dtype is np.bool_ else (-3, 4)
    for n in SIZES:
        for inner in (1, 3):
            x = rng.integers(low, high, (2, n, inner)).astype(dtype)
            assert (run(reduce.reduce_sum, x, np.int64) == x.sum(1)).all()
            assert (run(reduce.reduce_prod, x, np.int64) == x.prod(1, dtype=np.int64)).all()
            for kernel, value, position in (
                (reduce.reduce_max, x.max(1), x.argmax(1)),
                (reduce.reduce_min, x.min(1), x.argmin(1)),
            ):
                y, index = run(kernel, x, extra=(np.int64,))
                assert (y == value).all()
                assert (index == position).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [1, 3])
def test_empty_sizes(dtype, inner):
    x = np.zeros((2, 0, inner), dtype)
    assert (run(reduce.reduce_sum, x) == 0).all()
    assert (run(reduce.reduce_prod, x) == 1).all()
    assert (run(reduce.reduce_logsumexp, x) == -INF).all()
    assert not run(reduce.reduce_any, x.astype(bool)).any()
    assert run(reduce.reduce_all, x.astype(bool)).all()
    run(reduce.reduce_max, x, extra=(np.int64,))  # refused by the op; the kernel must only not read beside it
    for shape in ((0, 3, 2), (3, 2, 0), (0, 0, 0)):
        x = np.zeros(shape, dtype)
        for kernel in (reduce.reduce_sum, reduce.reduce_prod):
            assert run(kernel, x).size == 0
        for kernel, extra in ((reduce.reduce_max, np.int64), (reduce.reduce_min, np.int64)):
            assert run(kernel, x, extra=(extra,))[0].size == 0
        assert run(reduce.reduce_logsumexp, x).size == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_max_and_min(dtype):
    rng = np.random.default_rng(2)
    for x in samples(dtype):
        for z in (x, rng.integers(0, 3, x.shape).astype(dtype)):  # the second has ties: the first one counts
            y, index = run(reduce.reduce_max, z, extra=(np.int64,))
            assert (y == z.max(1)).all()
            assert (index == z.argmax(1)).all()
            y, index = run(reduce.reduce_min, z, extra=(np.int64,))
            assert (y == z.min(1)).all()
            assert (index == z.argmin(1)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [1, 2, 9])
@pytest.mark.parametrize("pad", [0, 40])
def test_max_and_min_of_nan_and_inf(dtype, inner, pad):
    """Expected: what PyTorch gives. `pad` copies of the last element lengthen the row."""
    for row, high, low in (
        ([1, NAN, 3, NAN], (NAN, 1), (NAN, 1)),
        ([NAN, NAN, 3], (NAN, 0), (NAN, 0)),
        ([3, INF, INF], (INF, 1), (3, 0)),
        ([-INF, -INF], (-INF, 0), (-INF, 0)),
        ([INF, INF], (INF, 0), (INF, 0)),
        ([INF, -INF, NAN], (NAN, 2), (NAN, 2)),
    ):
        line = np.array(row + row[-1:] * pad, dtype)
        x = repeat(line[None, :, None], (2, line.size, inner))
        for kernel, (value, position) in ((reduce.reduce_max, high), (reduce.reduce_min, low)):
            y, index = run(kernel, x, extra=(np.int64,))
            np.testing.assert_array_equal(y, np.full((2, inner), value, dtype))
            assert (index == position).all(), (row, kernel)


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_and_nan_at_every_position(dtype):
    """The largest and the smallest element, and a NaN, at every position of rows of 1 to 40."""
    for n in range(1, 10 if config.DISABLE_JIT else 41):
        for inner in (1, 2):
            x = np.zeros((n, n, inner), dtype)
            for value, kernel in ((1, reduce.reduce_max), (-1, reduce.reduce_min), (NAN, reduce.reduce_max)):
                x[...] = np.where(np.eye(n), value, 5 if np.isnan(value) else 0)[:, :, None]
                y, index = run(kernel, x, extra=(np.int64,))
                np.testing.assert_array_equal(y, np.full(y.shape, value, dtype))
                assert (index == np.arange(n)[:, None]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_logsumexp(dtype):
    for x in samples(dtype):
        for z in (x, x * 100, x + 1e4):
            w = z.astype(np.float64)
            m = w.max(1, keepdims=True)
            expected = (m + np.log(np.exp(w - m).sum(1, keepdims=True)))[:, 0]
            y = run(reduce.reduce_logsumexp, z)
            np.testing.assert_allclose(y, expected, rtol=3 * np.finfo(dtype).eps, atol=10 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [1, 2, 9])
def test_logsumexp_of_nan_and_inf(dtype, inner):
    """Expected: what PyTorch gives."""
    for row, expected in (
        ([-INF, -INF], -INF),
        ([INF, 0], INF),
        ([INF, -INF], INF),
        ([NAN, 0], NAN),
        ([0, NAN], NAN),
        ([NAN, INF], NAN),
        ([-INF, NAN], NAN),
        ([0, -INF], 0),
    ):
        x = repeat(np.array(row, dtype)[None, :, None], (2, 2, inner))
        y = run(reduce.reduce_logsumexp, x)
        np.testing.assert_array_equal(y, np.full((2, inner), expected, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_nan_and_inf(dtype):
    for row, expected in (([0, NAN], NAN), ([INF, -INF], NAN), ([INF, 1], INF), ([-INF, 1], -INF)):
        for inner in (1, 9):
            for pad in (0, 40):
                line = np.array(row + [1] * pad, dtype)
                x = repeat(line[None, :, None], (1, line.size, inner))
                np.testing.assert_array_equal(run(reduce.reduce_sum, x), np.full((1, inner), expected, dtype))


def test_any_and_all():
    for n in SIZES:
        for inner in (1, 3):
            for hits in (0, 1, n):
                x = np.zeros((2, n, inner), bool)
                x[:, n - hits :] = True
                assert (run(reduce.reduce_any, x) == (hits > 0)).all()
                assert (run(reduce.reduce_all, x) == (hits == n)).all()


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="too long for plain Python")
def test_long_sums_are_accurate():
    for shape in ((1, 1_000_000, 1), (1, 2**24 + 5, 1), (1, 1_000_000, 3), (1, 2**24 + 16, 1)):
        assert (run(reduce.reduce_sum, np.ones(shape, np.float32)) == shape[1]).all()
    x = np.random.default_rng(3).random((1, 1_000_003, 1), dtype=np.float32)
    exact = x.astype(np.float64).sum()
    assert abs(run(reduce.reduce_sum, x)[0, 0] - exact) <= max(
        abs(x.ravel().sum() - exact), np.spacing(np.float32(exact))
    )


def test_parts_of_a_long_sum():
    """A long sum is cut into parts, by sizes alone: for all threads, and so that no column is longer than a block."""
    assert [reduce.sum_parts(outer, 768, 512) for outer in (1, 2, 32, 1000)] == [16, 16, 2, 2]
    assert [reduce.sum_parts(1000, n, 2) for n in (7, 512, 513, 1 << 26)] == [1, 1, 2, 1 << 17]
    assert reduce.sum_parts(1, 2**20, 1) == reduce.sum_parts(1, 97 * 10_007, 1) == 32
    assert reduce.sum_parts(0, 0, 0) == reduce.sum_parts(1, 0, 5) == 1


@pytest.mark.skipif(config.DISABLE_JIT, reason="too long for the interpreter")
def test_long_sum_through_the_operation():
    x = np.random.default_rng(6).standard_normal((768, 512)).astype(np.float32)
    t = tinytensor.tensor(x)
    for y, expected in ((t.sum(0), x.sum(0, dtype=np.float64)), (t.sum(), x.sum(dtype=np.float64))):
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-4)
    whole = tinytensor.tensor(np.arange(2**20))
    assert whole.sum().item() == 2**19 * (2**20 - 1)

"""Indexing, sorting and drawing against NumPy, and PyTorch 2.13 for NaN and ties."""

import numpy as np
import pytest
from numba import config

from tinytensor.native.kernels import index as kernels

# without the compiler NumPy warns of the infinities and NaNs that are asked for here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZES = (1, 2, 3, 7) if config.DISABLE_JIT else (1, 2, 3, 7, 31, 33, 100)
DTYPES = (np.float32, np.float64, np.int64)
INF, NAN = np.inf, np.nan


def random(rng, shape, dtype):
    return (10 * rng.standard_normal(shape)).astype(dtype)


def read(kernel, x, index, y):
    """Run take or gather; what they say of the index."""
    bad = np.zeros(2, np.int64)
    kernel(x, index, y, bad)
    return bad.tolist()


@pytest.mark.parametrize("dtype", [*DTYPES, np.bool_])
def test_take(dtype):
    rng = np.random.default_rng(0)
    for size in (0, *SIZES):
        for rows in (0, 1, 50):
            x, index = random(rng, (5, size), dtype), rng.integers(0, 5, rows)
            y = np.full((rows, size), 7, dtype)
            assert read(kernels.take, x, index, y) == [0, 0]
            assert (y == x[index]).all()
    assert read(kernels.take, np.zeros((0, 3), dtype), np.zeros(0, np.int64), np.zeros((0, 3), dtype)) == [0, 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_add(dtype):
    rng = np.random.default_rng(1)
    for size in (0, *SIZES):
        for rows in (0, 1, 50):  # 50 rows for 5 targets: every index comes up again and again
            g, index = random(rng, (rows, size), dtype), rng.integers(0, 5, rows)
            dx = np.full((6, size), 7, dtype)
            kernels.scatter_add(g, index, dx)
            expected = np.zeros_like(dx)
            np.add.at(expected, index, g)  # in the order of the rows too, so the bits agree
            assert (dx == expected).all()
            assert (dx[5] == 0).all()
    kernels.scatter_add(np.zeros((0, 3), dtype), np.zeros(0, np.int64), np.zeros((0, 3), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_write_rows(dtype):
    rng = np.random.default_rng(1)
    for size in (0, *SIZES):
        for rows in (0, 1, 4):
            source, index = random(rng, (3, rows, size), dtype), rng.permutation(5)[:rows]
            y = random(rng, (3, 5, size), dtype)
            expected = y.copy()
            expected[:, index] = source
            assert read(kernels.write_rows, source, index, y) == [0, 0]
            assert (y == expected).all()


def test_write_rows_writes_nothing_beyond():
    y = np.zeros((2, 3, 2))
    memory = np.pad(y, ((1, 1), (0, 0), (0, 0)))
    y = memory[1:3]
    for wrong in (-1, 3, 2**40):
        assert read(kernels.write_rows, np.ones((2, 1, 2)), np.array([wrong]), y) == [1, wrong]
    assert not memory.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_check_weights(dtype):
    for row, needed, expected in [
        ([0, 1, 2], 2, [0, 0]),
        ([0, 1, 2], 3, [1, 2]),
        ([0, 0, -0.0], 1, [1, 0]),
        ([1, -1, 2], 1, [1, -1]),
        ([1, NAN, 2], 1, [1, -1]),
        ([1, INF, 2], 1, [1, -1]),
        ([1, -INF, 2], 1, [1, -1]),
    ]:
        bad = np.zeros(2, np.int64)
        kernels.check_weights(np.array([[1, 1, 1], row, [1, 1, 1]], dtype), needed, bad)
        assert bad.tolist() == expected, row


def test_scatter_add_differs_from_assignment():
    g, index, dx = np.ones((2, 3)), np.array([1, 1]), np.zeros((2, 3))
    kernels.scatter_add(g, index, dx)
    assigned = np.zeros((2, 3))
    assigned[index] = g
    assert not (dx == assigned).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_its_backward(dtype):
    rng = np.random.default_rng(2)
    for n in SIZES:
        for outer, m, inner in ((1, 1, 1), (2, 5, 1), (3, 2, 7), (2, 0, 3), (0, 2, 3), (2, 3, 0)):
            x, index = random(rng, (outer, n, inner), dtype), rng.integers(0, n, (outer, m, inner))
            y = np.full(index.shape, 7, dtype)
            assert read(kernels.gather, x, index, y) == [0, 0]
            assert (y == np.take_along_axis(x, index, 1)).all()

            g, dx = random(rng, index.shape, dtype), np.full(x.shape, 7, dtype)
            kernels.gather_backward(g, index, dx)
            expected = np.zeros_like(dx)
            for o, j, i in np.ndindex(index.shape):
                expected[o, index[o, j, i], i] += g[o, j, i]
            assert (dx == expected).all()


@pytest.mark.parametrize("wrong", [-1, 3, 2**62, -(2**62)])
def test_an_index_out_of_range(wrong):
    """It is told, and nothing is read or written at it: what would have been read is 0, what it brings is dropped."""
    index = np.array([1, wrong, 2])
    x, y, dx = np.arange(1.0, 7).reshape(3, 2), np.full((3, 2), 7.0), np.full((3, 2), 7.0)
    assert read(kernels.take, x, index, y) == [1, wrong]
    np.testing.assert_array_equal(y, [x[1], [0, 0], x[2]])
    kernels.scatter_add(x, index, dx)
    np.testing.assert_array_equal(dx, [[0, 0], x[0], x[2]])

    index, y, dx = index.reshape(1, 3, 1), np.full((1, 3, 1), 7.0), np.full((1, 3, 1), 7.0)
    assert read(kernels.gather, x[:, :1].copy().reshape(1, 3, 1), index, y) == [1, wrong]
    assert y.reshape(-1).tolist() == [3, 0, 5]
    kernels.gather_backward(y + 1, index, dx)
    assert dx.reshape(-1).tolist() == [0, 4, 6]


def test_a_large_scatter_is_cut_into_tasks():
    rng = np.random.default_rng(5)
    rows = 50 if config.DISABLE_JIT else 5000
    g, index, dx = rng.standard_normal((rows, 64)), rng.integers(-1, 71, rows), np.full((70, 64), 7.0)
    assert config.DISABLE_JIT or kernels.scatter_add.tasks(g, index, dx) > 1
    kernels.scatter_add(g, index, dx)
    expected, inside = np.zeros_like(dx), (index >= 0) & (index < 70)
    np.add.at(expected, index[inside], g[inside])
    np.testing.assert_array_equal(dx, expected)


def argsort(x, descending):
    y, scratch = np.full(x.shape, 99), np.full(x.shape, 99)
    kernels.argsort(x, descending, y, scratch)
    return y


@pytest.mark.parametrize("dtype", DTYPES)
def test_argsort(dtype):
    rng = np.random.default_rng(3)
    for n in range(10 if config.DISABLE_JIT else 70):
        for x in (random(rng, (3, n), dtype), rng.integers(0, 3, (3, n)).astype(dtype)):  # with many ties
            assert (argsort(x, False) == np.argsort(x, 1, kind="stable")).all()
            assert (argsort(x, True) == np.argsort(-x, 1, kind="stable")).all()
    assert argsort(np.zeros((0, 3), dtype), False).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_argsort_of_nan_inf_and_bool(dtype):
    """Expected: what PyTorch gives with stable=True."""
    x = np.array([[1, NAN, -INF, INF, NAN, 0]], dtype)
    assert argsort(x, False).tolist() == [[2, 5, 0, 3, 1, 4]]
    assert argsort(x, True).tolist() == [[1, 4, 3, 0, 5, 2]]
    assert argsort(np.array([[-0.0, 0.0, -0.0]], dtype), True).tolist() == [[0, 1, 2]]
    assert argsort(np.array([[True, False, True]]), False).tolist() == [[1, 0, 2]]


def sample(p, u):
    y = np.full(len(p), 99)
    kernels.sample_rows(p, u, y)
    return y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sample_rows(dtype):
    p = np.array([[0, 1, 0, 2, 1, 0]] * 5, dtype)
    assert sample(p, np.array([0, 0.24, 0.25, 0.5, 0.75], dtype)).tolist() == [1, 1, 3, 3, 4]
    below_one = np.nextafter(dtype(1), dtype(0))
    assert sample(p[:2], np.array([below_one, 1], dtype)).tolist() == [4, 4]  # never the 0 at the end
    assert sample(np.zeros((1, 3), dtype), np.zeros(1, dtype)).tolist() == [-1]
    assert sample(np.zeros((1, 0), dtype), np.zeros(1, dtype)).tolist() == [-1]
    assert sample(np.zeros((0, 3), dtype), np.zeros(0, dtype)).tolist() == []


def test_sample_rows_draws_in_proportion():
    rng = np.random.default_rng(4)
    n = 200 if config.DISABLE_JIT else 100_000
    p = np.broadcast_to([1.0, 0.0, 3.0, 4.0], (n, 4)).copy()
    share = np.bincount(sample(p, rng.random(n)), minlength=4) / n
    assert share[1] == 0
    assert np.abs(share - p[0] / 8).max() < 4 * np.sqrt(0.25 / n)


def test_thread_count_changes_no_bit(one_and_two_threads):
    rng = np.random.default_rng(5)
    x, g, index = rng.standard_normal((333, 77)), rng.standard_normal((5000, 77)), rng.integers(0, 333, 5000)

    def work():
        y, dx = np.empty_like(g), np.zeros_like(x)
        read(kernels.take, x, index, y)
        kernels.scatter_add(g, index, dx)
        return y.tobytes(), dx.tobytes()

    one, two = one_and_two_threads(work, launches=2)
    assert one == two

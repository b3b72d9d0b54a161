"""Each function of score tiles: its compiled meaning against its plain one, and e^x against NumPy's."""

import numba
import numpy as np
import pytest
from numba import njit

from tinytensor.native.simd import score_tile as st
from tinytensor.native.simd.score_tile import LANES, WIDTH
from tinytensor.native.simd.vector import store

SIZE = WIDTH * LANES
pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="there is no compiled meaning")

# Functions of a matrix x (LANES + 3 rows of LANES + 5), a row z of numbers and two places: what they write into y, and
# for those that take part of a row or column, z, is compared.


def registers(x, z, i, j, y):
    store(st.load_register(z, i), y, j)
    store(st.splat(z[i]), y, j + LANES)
    y[j + 2 * LANES] = st.sum_elements(z, i)


def memory(x, z, i, j, y):
    st.store_score_tile(st.load_score_tile(z, i), y, j)
    st.store_score_tile(st.splat_tile(z[j]), y, j + SIZE)


def blocks(x, z, i, j, y):
    st.store_score_tile(st.load_rows(x, i, j), y, 0)
    st.store_rows(st.load_score_tile(z, 0), x, i, j)
    for r in range(x.shape[0]):
        for c in range(x.shape[1]):
            y[SIZE + r * x.shape[1] + c] = x[r, c]


def columns(x, z, i, j, y):
    st.store_score_tile(st.load_columns(x, i, j), y, 0)
    st.store_columns(st.load_score_tile(z, 0), x, i, j)
    for r in range(x.shape[0]):
        for c in range(x.shape[1]):
            y[SIZE + r * x.shape[1] + c] = x[r, c]


def arithmetic(x, z, i, j, y):
    a, b, v = st.load_score_tile(z, i), st.load_score_tile(z, SIZE), st.load_register(z, j)
    st.store_score_tile(st.mul_register(a, v), y, 0)
    st.store_score_tile(st.fma_tiles(a, b, a), y, SIZE)
    store(st.sum_registers(a), y, 2 * SIZE)
    st.store_score_tile(st.sub_register(a, v), y, 3 * SIZE)
    st.store_score_tile(st.sub_elements(a, z, j), y, 4 * SIZE)
    st.store_score_tile(st.mul_tiles(st.min_zero(a), b), y, 5 * SIZE)


def halves(x, z, i, j, y):
    a, b = st.load_score_tile(z, i), st.load_half_register(z, j)
    store(b, y, 0)
    st.store_score_tile(a, y, SIZE)
    st.store_score_tile(st.load_half_score_tile(z, SIZE), y, SIZE)
    st.store_score_tile(a, y, 2 * SIZE)
    st.store_score_tile(st.outer(st.load_half_score_tile(z, i), z, j, 2, b), y, 2 * SIZE)


def products(x, z, i, j, y):
    a, v = st.load_score_tile(z, i), st.load_register(z, j)
    st.store_score_tile(st.outer(a, z, j, 2, v), y, 0)
    store(st.inner(v, a, z, j), y, SIZE)
    st.store_score_tile(st.outer_rows(a, x, i, j, z, i, 4), y, 2 * SIZE)
    st.store_score_tile(st.outer_rows(a, x, i, j, z, i, 1), y, 3 * SIZE)
    st.store_score_tile(a, y, 4 * SIZE)
    st.inner_rows(a, x, i, j, y, 4 * SIZE, 4)
    st.inner_rows(a, x, i, j, y, 4 * SIZE + 4 * LANES, 1)


def visible(x, z, i, j, y):
    a, b, v = st.load_score_tile(z, i), st.load_score_tile(z, SIZE), st.load_register(z, j)
    first, second = (
        st.registers_less_than(i, st.load_register(z, 2 * SIZE)),
        st.lanes_less_than(j, z, 2 * SIZE),
    )
    st.store_score_tile(st.zero_where_not(a, first), y, 0)
    st.store_score_tile(st.zero_where_not(a, second), y, SIZE)
    st.store_score_tile(st.zero_where_not(a, st.logical_and(first, st.is_positive(b))), y, 2 * SIZE)
    store(st.masked_inner(v, a, z, j, second), y, 3 * SIZE)
    st.store_score_tile(a, y, 4 * SIZE)
    st.masked_inner_rows(a, x, i, j, y, 4 * SIZE, first)
    st.masked_inner_rows(a, x, i, j, y, 4 * SIZE + LANES, second)
    st.store_score_tile(st.masked_outer(a, z, j, LANES, v, z[SIZE:]), y, 6 * SIZE)
    none = st.neg_inf(z[0])
    store(st.max_registers(st.max_registers(none, a), b), y, 5 * SIZE)
    store(
        st.masked_max_registers(st.max_registers(none, a), b, st.is_positive(b)),
        y,
        5 * SIZE + LANES,
    )


def both_meanings(function, dtype, i, j):
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((LANES + 3, 2, LANES + 5)).astype(dtype)
    z = rng.standard_normal(5 * SIZE).astype(dtype)
    z[2 * SIZE : 2 * SIZE + LANES] = rng.integers(0, 2 * LANES, LANES)  # the ends of what is seen
    results = []
    for run in (njit(error_model="numpy")(function), function):
        x, y = wide.copy()[:, 1], np.full(9 * SIZE, -7, dtype)
        run(x, z.copy(), i, j, y)
        results.append(y)
    return results


FUNCTIONS = (registers, memory, blocks, columns, arithmetic, halves, products, visible)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_compiled_and_plain_score_tiles_agree(function, dtype):
    for i, j in ((0, 0), (3, 1), (WIDTH - 1, WIDTH)):
        compiled, plain = both_meanings(function, dtype, i, j)
        np.testing.assert_allclose(compiled, plain, rtol=0, atol=64 * np.finfo(dtype).eps)
        assert (plain != -7).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("write", "rows", "lanes"), [(st.store_rows, WIDTH, LANES), (st.store_columns, LANES, WIDTH)])
def test_writes_stop_at_the_matrix_edge(write, rows, lanes, dtype):
    """What lies beyond its ends, in the array of which it is a part, stays as it is."""

    def plain(x, z, i, j):
        write(st.load_score_tile(z, 0), x, i, j)

    compiled = njit(error_model="numpy")(plain)
    z = np.arange(1, SIZE + 1).astype(dtype)
    for height in range(1, LANES + 2):
        for width in range(1, LANES + 2):
            results = [np.zeros((LANES + 4, LANES + 4), dtype) for _ in range(2)]
            for run, x in zip((compiled, plain), results, strict=True):
                run(x[1 : height + 2, 1 : width + 2], z, 1, 1)
            np.testing.assert_array_equal(*results)
            assert np.count_nonzero(results[0]) == min(height, rows) * min(width, lanes)


def test_every_function_of_score_tiles_is_tried():
    tried = set().union(*(function.__code__.co_names for function in (*FUNCTIONS, exponentials, expectation)))
    ours = [f for f in vars(st).values() if getattr(f, "__module__", "") == st.__name__]
    public = {f.__name__ for f in ours if f.__name__[0] != "_"}
    assert public - tried == {"select"}  # which compiled code has no need of


def expectation(x, i):
    st.prefetch_rows(x, 1, 0, i, False)
    st.prefetch_rows(x, 1, 0, i, True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_prefetch_changes_nothing(dtype):
    x = np.random.default_rng(0).standard_normal((2, LANES + 3, 2, 21)).astype(dtype).swapaxes(1, 2)
    registers_less_than, compiled = x.copy(), njit(expectation)
    for i in (0, LANES, LANES + 3, 10 * LANES):  # a whole register of rows, the last three, none
        compiled(x, i)
        np.testing.assert_array_equal(x, registers_less_than)
    (code,) = compiled.inspect_llvm().values()
    asked = {line.split(",", 1)[1] for line in code.split("\n") if "call void @llvm.prefetch" in line}
    assert asked == {" i32 0, i32 2, i32 1)", " i32 1, i32 3, i32 1)"}  # to be read, second cache; to be written, first


def exponentials(x, y):
    for at in range(0, x.size, SIZE):
        st.store_score_tile(st.exp_tile(st.load_score_tile(x, at)), y, at)


@pytest.mark.parametrize(("dtype", "bound", "least"), [(np.float32, 7.8e-8, -126), (np.float64, 1.5e-16, -1022)])
def test_exp_of_nonpositive_numbers(dtype, bound, least):
    """The bound in float32 was found on all of them."""
    if dtype == np.float32:
        bits = np.arange(0x80000000, 0x100000000, 4093, dtype=np.uint64).astype(np.uint32)  # -0, ..., -inf, NaNs
        x = bits[: bits.size // SIZE * SIZE].view(np.float32)
    else:
        x = -np.concatenate([10.0 ** np.linspace(-20, 3, 1 << 16), np.linspace(0, 709, 1 << 16)])
    y = np.empty_like(x)
    njit(exponentials)(x, y)
    assert (np.isnan(y) == np.isnan(x)).all()
    x, y = x[~np.isnan(x)], y[~np.isnan(x)]
    exact = np.exp(x.astype(np.longdouble))
    normal = exact >= np.longdouble(2) ** least
    assert np.abs(y[normal] / exact[normal] - 1).max() <= bound
    assert (y[~normal] == 0).all() and 0 < normal.mean() < 1
    ends = np.array([0, -0.0, -np.inf, np.nan] * (SIZE // 4), dtype)
    y = np.empty_like(ends)
    njit(exponentials)(ends, y)
    np.testing.assert_array_equal(y[:4], [1, 1, 0, np.nan])

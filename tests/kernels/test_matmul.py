"""Matrix products against NumPy in float64, and the promises about bits: rows and threads."""

import numba
import numpy as np
import pytest

from tinytensor.core.kernel import KERNELS, MOST_TASKS
from tinytensor.core.poison import LINE
from tinytensor.native.kernels import matmul as module
from tinytensor.native.kernels.matmul import (
    A_LANES,
    A_ROWS,
    AT_ONCE,
    GROUP,
    KC,
    LARGE,
    MC_PACKED,
    MR,
    PRODUCTS,
    matmul,
    matmul_plan,
    packed_a_shape,
    panel_shape,
)
from tinytensor.native.simd.isa import BYTES

JIT = not numba.config.DISABLE_JIT
SIZES = range(1, 41) if JIT else (1, 2, 4, 5, 9)
CUT = (96, 400, 130) if JIT else (6, 5, 33)  # M, K, N of a product of several tasks
EPS = {np.float32: 2.0**-24, np.float64: 2.0**-53}
compiled_only = pytest.mark.skipif(not JIT, reason="products of this size take minutes where the kernel runs as Python")


def plan_of(a, b, block=None, room=None):
    """Rows and columns of a block, and the shapes of scratch and copy; `block` and `room` as in run_matmul."""
    rows, columns, scratch, copy = matmul_plan(*a.shape, b.shape[2], a.itemsize, a.strides[1:])
    deep, width = panel_shape(a.shape[2], a.itemsize)
    if block is not None:
        rows, columns = block
        scratch = a.shape[0] * -(-a.shape[1] // rows) * -(-b.shape[2] // columns), *scratch[1:]
    if room is not None:
        wide = -(-columns // width)
        scratch = scratch[0], (min(GROUP, wide) * deep + wide * rows if room else deep), width
    if room is not None or block is not None:
        copied = room != 0 and a.itemsize in a.strides[1:]
        shape = packed_a_shape(a.shape[2], rows, a.itemsize, a.strides[1] == a.itemsize)
        copy = (scratch[0], *shape) if copied else (0, 0, 0)
    return rows, columns, scratch, copy


def run_matmul(a, b, term=None, relu=0, block=None, room=None):
    """The product as the engine asks for it; `block`: in blocks of so many rows and columns, a task for each.

    `room` = 0: no copy of a, one panel, and no place for unfinished sums; 1: there is room for all of these, wherever a
    has dense rows or columns. Without it the plan decides, but with a `block` there are copies, too.
    """
    # NaN in what the kernel must overwrite: a number that it forgets to write or reads too early shows
    shape = a.shape[0], a.shape[1], b.shape[2]
    y = np.full(shape, np.nan if a.dtype.kind == "f" else -77, a.dtype)
    rows, columns, *others = plan_of(a, b, block, room)
    term = np.empty((a.shape[0], 0, 0), a.dtype) if term is None else np.broadcast_to(term, shape)
    scratch, copy = (np.full(other, np.nan if a.dtype.kind == "f" else -77, a.dtype) for other in others)
    matmul(a, b, term, relu, rows, columns, y, scratch, copy)
    return y


def run_linear(x, weight, bias, relu):
    return run_matmul(x[None], weight.T[None], bias, relu)[0]


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
        check_product(run_linear(a[0], bt[0].T, None, 0), a[0], b[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tasks_and_tails_of_large_products(dtype):
    rng = np.random.default_rng(0)
    m, k, n = CUT
    if JIT:
        assert m * k * n > 2 * PRODUCTS and k > KC
    for dm, dn in zip(range(MR + 1), (0, 1, 15, 25, 31, 16, 2)):
        a, b = draw(rng, (1, m + dm, k + dm), dtype), draw(rng, (1, k + dm, n + dn), dtype)
        check_product(run_matmul(a, b), a, b)
        check_product(run_matmul(a, np.asfortranarray(b[0])[None]), a, b)


def test_wrong_element_is_noticed():
    rng = np.random.default_rng(0)
    a, b = draw(rng, (1, 7, 9), np.float32), draw(rng, (1, 9, 33), np.float32)
    y = run_matmul(a, b)
    for position in ((0, 0, 0), (0, 6, 32), (0, 3, 31)):
        wrong = y.copy()
        wrong[position] += np.float32(3e-5)
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
    sizes.append((3, 600, 300))  # more rows of b than a panel has
    for m, k, n in sizes if JIT else [(5, 3, 33), (3, 5, 8)]:
        a, b = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
        a[rng.random(a.shape) < 0.2] = 0  # signs of zeros are bits too
        y = run_matmul(a[None], b[None])[0]
        assert bits_equal(y, run_linear(a, b.T, None, 0))
        for i in {0, m // 2, m - 1}:
            assert bits_equal(y[i : i + 1], run_matmul(a[None, i : i + 1], b[None])[0])
            assert bits_equal(y[i:], run_matmul(a[None, i:], np.asfortranarray(b)[None])[0])


def bits_equal(a, b):
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def test_bits_equal_tells_zero_from_negative_zero():
    assert not bits_equal(np.array([0.0]), np.array([-0.0]))


def test_task_count_changes_no_bit():
    rng = np.random.default_rng(0)
    sizes = ((1, 131, 70, 70), (5, 33, 40, 41), (1, 7, 900, 100)) if JIT else ((2, 7, 5, 19),)
    for n, m, k, columns in sizes:
        a, b = draw(rng, (n, m, k), np.float32), draw(rng, (n, k, columns), np.float32)
        at, bt = a.transpose(0, 2, 1).copy().transpose(0, 2, 1), b.transpose(0, 2, 1).copy().transpose(0, 2, 1)
        expected = run_matmul(a, b)
        width = 2 * BYTES // 4
        for block in ((MR, width), (2 * MR, 3 * width), (m, 5), (1, columns), (m, columns)):
            for left in (a, at):
                for right in (b, bt):
                    assert bits_equal(expected, run_matmul(left, right, block=block)), (block, left.strides)


def test_thread_count_changes_no_bit(one_and_two_threads):
    rng = np.random.default_rng(0)
    for n, m, k, columns in ((1, 131, 170, 170), (5, 133, 40, 141), (1, 7, 900, 300)):
        a, b = draw(rng, (n, m, k), np.float32), draw(rng, (n, k, columns), np.float32)
        one, two = one_and_two_threads(lambda a=a, b=b: run_matmul(a, b), launches=1)
        assert bits_equal(one, two)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_a_term_is_added_last(dtype):
    rng = np.random.default_rng(0)
    for n, m, k, columns in ((2, 7, 3, 35), (1, 1, 5, 9), (1, 9, KC + 1 if JIT else 5, 40)):
        a, b, term = (rng.integers(-9, 9, s).astype(dtype) for s in ((n, m, k), (n, k, columns), (n, m, columns)))
        assert (run_matmul(a, b, term) == a @ b + term).all()
        assert (run_matmul(a, b, term[:1, :1], 1) == np.maximum(a @ b + term[:1, :1], 0)).all()


def test_the_term_may_be_the_result():
    """y += a b: as gradients are accumulated."""
    rng = np.random.default_rng(0)
    a, b, y = (rng.integers(-9, 9, s).astype(np.float32) for s in ((1, 13, 9), (1, 9, 37), (1, 13, 37)))
    expected = a @ b + y
    rows, columns, *others = plan_of(a, b)
    matmul(a, b, y, 0, rows, columns, y, *(np.full(other, np.nan, np.float32) for other in others))
    assert (y == expected).all()


def columns_dense(x):
    """The same matrices, whose columns lie in one piece."""
    return x.transpose(0, 2, 1).copy().transpose(0, 2, 1)


# Each of M, K and N lies just beside a size at which blocks, panels or groups of panels begin.
AROUND = [
    (LARGE, 2 * KC + 1, LARGE),
    (LARGE - 1, 2 * KC, LARGE),
    (MC_PACKED, KC + 1, LARGE // 2),
    (MC_PACKED + 1, 2 * KC + 1, MC_PACKED + 1),
    (LARGE + MR + 1, 4 * KC + 1, GROUP * 32 + 1),
    (LARGE + 3, 4 * KC - 1, LARGE + GROUP * 32 + 17),
    (2 * MC_PACKED + MR // 2, KC // 4, LARGE - 1),
]


@compiled_only
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", AROUND, ids=lambda sizes: "x".join(map(str, sizes)))
def test_products_beyond_every_block(sizes, dtype):
    rng = np.random.default_rng(sum(sizes))
    m, k, n = sizes
    a, b = draw(rng, (1, m, k), dtype), draw(rng, (1, k, n), dtype)
    expected = run_matmul(a, b, room=0)
    check_product(expected, a, b)
    for left in (a, columns_dense(a)):
        for right in (b, columns_dense(b)):
            assert bits_equal(expected, run_matmul(left, right)), (left.strides, right.strides)


@compiled_only
def test_the_sizes_beyond_blocks_are_copied_both_ways():
    """As a rule; the others show that a size just below one that is worth copies is right, too."""
    copied = [
        (rows, matmul_plan(1, m, k, n, 4, (k * 4, 4) if rows else (4, m * 4))[3][0] > 0)
        for m, k, n in AROUND
        for rows in (True, False)
    ]
    assert all(copied.count((rows, made)) >= 1 for rows in (True, False) for made in (True, False))
    assert sum(made for _, made in copied) >= len(AROUND)


FACTORS = ("rows", "columns")  # of which the numbers lie in one piece


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("left", FACTORS)
def test_small_blocks_with_copies_change_no_bit(left, dtype):
    """Rows and columns that end anywhere in a tile, a pair of tiles, a register, a panel and a group of panels."""
    rng = np.random.default_rng(0)
    width = 2 * BYTES // np.dtype(dtype).itemsize
    rows = (*range(1, 2 * A_ROWS + 2), 4 * A_ROWS - 1) if JIT else (1, A_ROWS + 1)
    for at, high in enumerate(rows):
        m, k = 2 * high + at % 3, (1, AT_ONCE - 1, AT_ONCE, 2 * AT_ONCE + 1, KC, KC + 3)[at % 6 if JIT else 2]
        wide = (1, width - 1, width, 2 * width + 1, GROUP * width, (GROUP + 1) * width + 3)[(at // 2) % 6 if JIT else 2]
        n = wide + (0, 1, width // 2 + 1)[at % 3]
        a, b = draw(rng, (2, m, k), dtype), draw(rng, (2, k, n), dtype)
        expected = run_matmul(a, b, room=0)
        check_product(expected, a, b)
        factor = columns_dense(a) if left == "columns" else a
        assert plan_of(factor, b, (high, wide))[3][0] > 1
        for right in (b, columns_dense(b), np.repeat(b, 2, 2)[:, :, ::2]):
            for room in (0, 1):
                assert bits_equal(expected, run_matmul(factor, right, block=(high, wide), room=room)), (high, wide, k)


def test_factors_of_any_strides_with_room_for_copies():
    """Dense rows of every other row, dense columns of every other one, overlapping windows; and neither way dense."""
    rng = np.random.default_rng(0)
    depth = KC + 5 if JIT else 7
    x, b = draw(rng, (2, 4 * MR + 6, 2 * depth), np.float32), draw(rng, (2, depth, 70), np.float32)
    series = draw(rng, (2, 2 * MR + 3 + depth), np.float32)
    shape = 2, 2 * MR + 3, depth
    factors = {
        "every other row": x[:, ::2, :depth],
        "rows from the last": x[:, ::-1, 3 : 3 + depth],
        "every other column": columns_dense(x)[:, :, ::2],
        "columns from the last": columns_dense(x)[:, 1:, depth - 1 :: -1],
        "windows": np.lib.stride_tricks.as_strided(series, shape, (series.strides[0], 4, 4)),
        "one matrix for both": np.broadcast_to(x[:1, :, :depth], (2, x.shape[1], depth)),
        "one row for all": np.broadcast_to(x[:, :1, :depth], shape),
        "neither": x[:, :, ::2],
        "neither, from the last": x[:, ::-2, ::-2],
    }
    for what, a in factors.items():
        y = run_matmul(a, b, block=(A_ROWS + MR, 33))
        check_product(y, a, b)
        assert bits_equal(y, run_matmul(a.copy(), b, room=0)), what
        copied = plan_of(a, b, (A_ROWS + MR, 33))[3][0] > 0
        assert copied != what.startswith("neither"), what


def test_a_copy_of_another_shape_is_refused():
    rng = np.random.default_rng(0)
    b = draw(rng, (1, 20, 40), np.float32)
    for a in (draw(rng, (1, 30, 20), np.float32), columns_dense(draw(rng, (1, 30, 20), np.float32))):
        rows, columns, scratch, (tasks, high, wide) = plan_of(a, b, (16, 32))
        y, term = np.empty((1, 30, 40), np.float32), np.empty((1, 0, 0), np.float32)

        def call(shape, a=a, rows=rows, columns=columns, scratch=scratch, y=y, term=term):
            matmul(a, b, term, 0, rows, columns, y, np.empty(scratch, np.float32), np.empty(shape, np.float32))

        call((tasks, high, wide))
        wrong = [(tasks - 1, high, wide), (tasks, high - 1, wide), (tasks, high, wide - 1), (tasks, high + 1, wide)]
        for shape in (*wrong, (tasks, wide, high), (high, wide), (tasks, high, wide, 1)):
            with pytest.raises(
                ValueError, match=r"matmul\(.*: expected .*packed_a_fits\(packed_a.*\); got .*, packed_a \("
            ):
                call(shape)
        apart = np.repeat(np.repeat(a, 2, 1), 2, 2)[:, ::2, ::2]  # its numbers lie together neither way
        with pytest.raises(ValueError, match="packed_a_fits"):
            call((tasks, high, wide), a=apart)


def test_a_fitting_copy_excuses_no_other_wrong_size():
    rng = np.random.default_rng(0)
    a, b = draw(rng, (1, 30, 20), np.float32), draw(rng, (1, 20, 40), np.float32)
    rows, columns, scratch, copy = plan_of(a, b, (16, 32))

    def check(b=b, y=(1, 30, 40), rows=rows, deep=scratch[1]):
        arrays = (np.empty(shape, np.float32) for shape in (y, (scratch[0], deep, scratch[2]), copy))
        matmul.check((a, b, np.empty((1, 0, 0), np.float32), 0, rows, columns, *arrays))

    check()
    for wrong in ({"b": b[:, :19]}, {"y": (1, 29, 40)}, {"y": (1, 30, 41)}, {"deep": 3}, {"rows": 0}):
        with pytest.raises(ValueError, match="matmul"):
            check(**wrong)


@compiled_only
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_nan_of_a_copied_factor_stays_in_its_row(dtype):
    """What a copy has beyond the last row or product is multiplied with nothing that is kept."""
    rng = np.random.default_rng(0)
    a, b = draw(rng, (1, LARGE + 5, 2 * KC + 3), dtype), draw(rng, (1, 2 * KC + 3, LARGE), dtype)
    positions = (0, 0), (LARGE // 2 + 3, KC), (LARGE + 4, 2 * KC + 2)
    for i, k in positions:
        a[0, i, k] = np.nan
    for left in (a, columns_dense(a)):
        assert plan_of(left, b)[3][0] > 0
        assert (np.isnan(run_matmul(left, b)).all(2)[0].nonzero()[0] == [i for i, _ in positions]).all()
        assert np.isnan(run_matmul(left, b)).sum() == len(positions) * LARGE


def test_plan_has_whole_tiles_and_enough_tasks():
    for m in (0, 1, 6, 7, 96, 768, 5000):
        for k in (0, 1, 32, 1000):
            for n in (0, 1, 32, 65, 512, 3000):
                rows, columns, (tasks, depth, width), copy = matmul_plan(1, m, k, n, 4)
                assert copy == (0, 0, 0)  # without its strides nothing is known of a
                blocks = -(-m // rows) * -(-n // columns)
                assert rows % MR == 0 and columns % width == 0 and rows > 0 and columns > 0
                assert 1 <= tasks <= max(1, min(blocks, MOST_TASKS)) and depth >= min(k, KC)
                assert tasks == 1 or m * k * n >= 2 * PRODUCTS
    for m, k, n in ((768, 32, 64), (32, 768, 32), (96, 32, 300), (768, 32, 32)):
        tasks = matmul_plan(1, m, k, n, 4)[2][0]
        assert tasks % 2 == 0 or tasks > 8  # enough for two threads, and as much for each
    for m, k, n in ((512, 16, 16), (512, 16, 27), (16, 512, 16)):  # micro's: too little to wake a thread for
        alone, together = (matmul_plan(1, m, k, n, 4, (0, 0), in_program)[2][0] for in_program in (False, True))
        assert alone == 1 and together % 2 == 0
    assert matmul_plan(1, 16, 16, 16, 4, (0, 0), True)[2][0] == 1  # too little to be worth a word between threads


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_plan_of_copies_bounds_their_memory(itemsize, threads, monkeypatch):
    """A block has less than SIDE + HEIGHT rows, and less than SIDE + two registers columns, however large the product.

    So the copy of a task holds less than (SIDE + HEIGHT + BESIDE) ACROSS / BESIDE columns or rows of DEPTH numbers and
    a line, its scratch GROUP panels and a number for each place of the block; and there are two tasks for each thread.
    """
    monkeypatch.setattr(module.config, "NUMBA_NUM_THREADS", threads)
    matmul_plan.cache_clear()
    deepest, width = panel_shape(KC, itemsize)
    most_rows, most_columns = MC_PACKED + MR - 1, MC_PACKED + width - 1
    most_copied = -(-most_rows // A_ROWS) * A_ROWS * max(deepest * A_LANES / A_ROWS, deepest + LINE // itemsize)
    made = set()
    for n in (1, 3):
        for m in (LARGE - 1, LARGE, 300, MC_PACKED + 1, 5000, 10**6):
            for k in (1, KC // 4, KC, 2 * KC, 2 * KC + 1, 10**5):
                for columns_of_b in (1, LARGE // 2, LARGE, MC_PACKED + 1, 3000, 10**6):
                    for strides in ((itemsize, m * itemsize), (k * itemsize, itemsize), (itemsize,) * 2, (0, 8 * k)):
                        rows, columns, scratch, copy = matmul_plan(n, m, k, columns_of_b, itemsize, strides)
                        tasks, deep, wide = scratch
                        assert rows % MR == 0 and columns % width == 0 and wide == width
                        made.add((copy[0] > 0, strides[0] == itemsize))
                        if copy[0] == 0:
                            assert copy == (0, 0, 0) and deep == panel_shape(k, itemsize)[0]
                            continue
                        blocks = n * -(-m // rows) * -(-columns_of_b // columns)
                        assert copy[0] == tasks <= min(2 * threads, blocks)
                        assert copy[1:] == packed_a_shape(k, rows, itemsize, strides[0] == itemsize)
                        assert copy[1] * copy[2] <= most_copied
                        assert rows <= most_rows and columns <= most_columns
                        assert deep * wide <= GROUP * deepest * width + most_rows * most_columns
                        assert k <= KC or deep >= min(GROUP, columns // width) * deepest + rows * columns // width
                        assert m >= LARGE and (tasks == 2 * threads or n * m * k * columns_of_b < 10**9)
    assert made == {(True, True), (True, False), (False, True), (False, False)}
    matmul_plan.cache_clear()


def test_kernel_is_registered_by_its_name():
    assert KERNELS["matmul"] is matmul

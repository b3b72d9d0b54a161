"""Matrix products against NumPy in float64, and the promises about bits: rows and threads."""

import numba
import numpy as np
import pytest

from tinytensor.kernels.matmul import DEPTH, HEIGHT, LINE, PAGE, PRODUCTS, matmul, matmul_plan
from tinytensor.native.kernel import KERNELS, MOST_TASKS
from tinytensor.native.simd import BYTES

JIT = not numba.config.DISABLE_JIT
SIZES = range(1, 41) if JIT else (1, 2, 4, 5, 9)
LARGE = (96, 400, 130) if JIT else (6, 5, 33)  # M, K, N
EPS = {np.float32: 2.0**-24, np.float64: 2.0**-53}


def run_matmul(a, b, term=None, relu=0, block=None, room=1):
    """The product as the engine asks for it; `block`: in blocks of so many rows and columns, a task for each.

    `room` = 0: no room for a copy of a block of a, wherever its columns lie.
    """
    # NaN in what the kernel must overwrite: a number that it forgets to write or reads too early shows
    shape = a.shape[0], a.shape[1], b.shape[2]
    y = np.full(shape, np.nan if a.dtype.kind == "f" else -77, a.dtype)
    rows, columns, scratch = matmul_plan(*a.shape, b.shape[2], a.itemsize, a.strides[2] * room)
    if block is not None:
        rows, columns = block
        scratch = (shape[0] * -(-shape[1] // rows) * -(-shape[2] // columns), *scratch[1:])
    term = np.empty((a.shape[0], 0, 0), a.dtype) if term is None else np.broadcast_to(term, shape)
    matmul(a, b, term, relu, rows, columns, y, np.full(scratch, y.flat[0] if y.size else 0, a.dtype))
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
    m, k, n = LARGE
    if JIT:
        assert m * k * n > 2 * PRODUCTS and k > DEPTH
    for dm, dn in zip(range(HEIGHT + 1), (0, 1, 15, 25, 31, 16, 2)):
        a, b = draw(rng, (1, m + dm, k + dm), dtype), draw(rng, (1, k + dm, n + dn), dtype)
        check_product(run_matmul(a, b), a, b)
        check_product(run_matmul(a, np.asfortranarray(b[0])[None]), a, b)


def test_wrong_element_is_noticed():
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
        for block in ((HEIGHT, width), (2 * HEIGHT, 3 * width), (m, 5), (1, columns), (m, columns)):
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
    for n, m, k, columns in ((2, 7, 3, 35), (1, 1, 5, 9), (1, 9, DEPTH + 1 if JIT else 5, 40)):
        a, b, term = (rng.integers(-9, 9, s).astype(dtype) for s in ((n, m, k), (n, k, columns), (n, m, columns)))
        assert (run_matmul(a, b, term) == a @ b + term).all()
        assert (run_matmul(a, b, term[:1, :1], 1) == np.maximum(a @ b + term[:1, :1], 0)).all()


def test_the_term_may_be_the_result():
    """y += a b: as gradients are accumulated."""
    rng = np.random.default_rng(0)
    a, b, y = (rng.integers(-9, 9, s).astype(np.float32) for s in ((1, 13, 9), (1, 9, 37), (1, 13, 37)))
    expected = a @ b + y
    rows, columns, scratch = matmul_plan(1, 13, 9, 37, 4)
    matmul(a, b, y, 0, rows, columns, y, np.full(scratch, np.nan, np.float32))
    assert (y == expected).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copied_columns_give_the_same_bits(dtype):
    rng = np.random.default_rng(4)
    page = PAGE // np.dtype(dtype).itemsize
    for m, k, n in ((1, 3, 70), (13, 5, 70), LARGE) if JIT else ((3, 5, 70),):
        rows = draw(rng, (2, k, 2 * page), dtype)[:, :, page - 3 :]  # the first number of a row may lie anywhere
        a, b = rows[:, :, :m].transpose(0, 2, 1), draw(rng, (2, k, n), dtype)
        height, _, scratch = matmul_plan(*a.shape, n, a.itemsize, a.strides[2])
        assert scratch[2] >= 2 * BYTES // a.itemsize + height and scratch[2] * a.itemsize % (2 * LINE) == LINE
        y = run_matmul(a, b)
        check_product(y, a, b)
        assert (y == run_matmul(a.copy(), b)).all()
        assert (y == run_matmul(a, b, room=0)).all()  # without the room, the kernel reads it in place


def test_plan_has_whole_tiles_and_enough_tasks():
    for m in (0, 1, 6, 7, 96, 768, 5000):
        for k in (0, 1, 32, 1000):
            for n in (0, 1, 32, 65, 512, 3000):
                rows, columns, (tasks, depth, width) = matmul_plan(1, m, k, n, 4)
                blocks = -(-m // rows) * -(-n // columns)
                assert rows % HEIGHT == 0 and columns % width == 0 and rows > 0 and columns > 0
                assert 1 <= tasks <= max(1, min(blocks, MOST_TASKS)) and depth >= min(k, DEPTH)
                assert tasks == 1 or m * k * n >= 2 * PRODUCTS
    for m, k, n in ((768, 32, 64), (32, 768, 32), (96, 32, 300), (768, 32, 32)):
        tasks = matmul_plan(1, m, k, n, 4)[2][0]
        assert tasks % 2 == 0 or tasks > 8  # enough for two threads, and as much for each
    for m, k, n in ((512, 16, 16), (512, 16, 27), (16, 512, 16)):  # micro's: too little to wake a thread for
        alone, together = (matmul_plan(1, m, k, n, 4, 0, in_program)[2][0] for in_program in (False, True))
        assert alone == 1 and together % 2 == 0
    assert matmul_plan(1, 16, 16, 16, 4, 0, True)[2][0] == 1  # too little to be worth a word between threads


def test_kernel_is_registered_by_its_name():
    assert KERNELS["matmul"] is matmul

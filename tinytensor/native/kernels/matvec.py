"""Products of a matrix and a vector: y = a b, in blocks of products, so that a long sum is not one chain.

Each number of y depends on its own row of a (and on b) alone, whatever the other rows are and however tasks share them.
A matrix with dense rows is multiplied row by row; one with dense columns, as a transposed matrix has, a register of
rows at a time.
"""

from tinytensor.core.kernel import EXACT_ORDER, num_tasks
from tinytensor.native.kernels.sums import BLOCK, carried_lanes
from tinytensor.native.runtime.kernel import device_function, kernel, task_range
from tinytensor.native.simd.isa import BYTES
from tinytensor.native.simd.vector import add, fma, lanes, load_first, load_splat, store_first, sum_lanes, zero


@device_function
def add_products(count, a, b, m, i, k, s):
    """s + a[m, i, k:] b[m, k:], lane by lane."""
    return fma(load_first(count, a, m, i, k), load_first(count, b, m, k), s)


@device_function
def dense_row(a, b, m, i):
    """sum_k a[m, i, k] b[m, k]."""
    K, width = a.shape[2], lanes(a)
    rest = K % (4 * width)
    total = lost = zero(a)
    for begin in range(0, K - rest, BLOCK):
        s = t = u = v = zero(a)
        for k in range(begin, min(begin + BLOCK, K - rest), 4 * width):
            s = add_products(width, a, b, m, i, k, s)
            t = add_products(width, a, b, m, i, k + width, t)
            u = add_products(width, a, b, m, i, k + 2 * width, u)
            v = add_products(width, a, b, m, i, k + 3 * width, v)
        total, lost = carried_lanes(total, add(add(s, t), add(u, v)), lost, a)
    s = zero(a)
    for k in range(K - rest, K, width):
        s = add_products(K - k, a, b, m, i, k, s)
    return sum_lanes(add(total, s))


@device_function
def dense_columns(count, a, b, m, i, y):
    """y[m, i:] = sum_k a[m, i:, k] b[m, k], `count` rows."""
    columns, K = a[m].T, a.shape[2]
    total = lost = zero(a)
    for begin in range(0, K, BLOCK // 8):
        s = t = zero(a)
        end = min(begin + BLOCK // 8, K)
        for k in range(begin, end - 1, 2):
            s = fma(load_splat(b, m, k), load_first(count, columns, k, i), s)
            t = fma(load_splat(b, m, k + 1), load_first(count, columns, k + 1, i), t)
        if (end - begin) % 2:
            s = fma(load_splat(b, m, end - 1), load_first(count, columns, end - 1, i), s)
        total, lost = carried_lanes(total, add(s, t), lost, a)
    store_first(count, total, y, m, i)


def registers_of_rows(a):
    """The number of registers that hold a number for each row of the matrices a."""
    return a.shape[0] * -(-a.shape[1] * a.itemsize // BYTES)


@kernel(
    "a[n, M, K], b[n, K], y[n, M], a.itemsize in a.strides[1:]",
    tasks=lambda a, b, y: num_tasks(a.size // 10, registers_of_rows(a)),
    fastmath=EXACT_ORDER,
    strided=("a",),
)
def matvec(a, b, y, task, tasks):
    r"""y_{ni} = \sum_k a_{nik} b_{nk}; K = 0 gives zeros, the empty sums. The rows or the columns of a are dense."""
    n, M, _ = a.shape
    width = lanes(a)
    down = (M + width - 1) // width
    start, stop = task_range(n * down, task, tasks)
    for unit in range(start, stop):
        m, i = unit // down, unit % down * width
        if a.strides[2] == a.itemsize:
            for row in range(i, min(i + width, M)):
                y[m, row] = dense_row(a, b, m, row)
        elif i + width <= M:
            dense_columns(width, a, b, m, i, y)
        else:
            dense_columns(M - i, a, b, m, i, y)

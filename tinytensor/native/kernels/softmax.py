"""Softmax and its logarithm over the rows of x (R, n).

A pass over a row takes a register at a time, and then the remaining elements: the same lines twice, where `count` is
the number of elements from `j` on. For whole registers the compiler knows this number, and leaves the masks out of the
loop. Short sums go in two chains, so that one addition does not wait for the other: then two registers are taken at a
time, and `count` may exceed a register, or be less than 0. Exponentials, which are long chains, are taken four
registers at a time as far as a row has them. A row's exponentials wait for its largest number; so this is found before
the exponentials of the row above, and is ready when they begin.
"""

from tinytensor.core.kernel import EXACT_ORDER, num_tasks
from tinytensor.native.kernels.sums import sums_of_blocks
from tinytensor.native.runtime.kernel import device_function, kernel, task_range
from tinytensor.native.simd.vector import (
    add,
    exp,
    exps,
    fma,
    lanes,
    load,
    load_first,
    load_splat,
    log,
    max_lanes,
    maximum,
    mul,
    select_first,
    splat,
    store,
    store_first,
    sub,
    sum_lanes,
    zero,
)


@device_function
def larger(count, x, r, j, m):
    """The larger one of m and the elements of x_r from j on, lane by lane."""
    return maximum(select_first(count, load_first(count, x, r, j), m), m)


@device_function
def row_max(x, r):
    """max_j x_rj in every lane, for a row that is not empty; any number where one is NaN."""
    n, width = x.shape[1], lanes(x)
    rest = n % width
    m = load_splat(x, r, 0)
    for j in range(0, n - rest, width):
        m = larger(width, x, r, j, m)
    if rest:
        m = larger(rest, x, r, n - rest, m)
    return splat(x, max_lanes(m))


@device_function
def shifted_exp(count, x, r, j, m):
    """exp(x_rj - m_r); 0 past the end."""
    e = exp(select_first(count, sub(load_first(count, x, r, j), m), zero(x)))
    return select_first(count, e, zero(x))


@device_function
def shifted_exps(x, r, j, m):
    """exp(x_rj - m_r) in four registers."""
    k, width = j + 2 * lanes(x), lanes(x)
    a, b, c, d = load(x, r, j), load(x, r, j + width), load(x, r, k), load(x, r, k + width)
    return exps(sub(a, m), sub(b, m), sub(c, m), sub(d, m))


@device_function
def store_four(a, b, c, d, y, r, j):
    """Write four registers side by side, into y_r from j on."""
    k, width = j + 2 * lanes(y), lanes(y)
    store(a, y, r, j)
    store(b, y, r, j + width)
    store(c, y, r, k)
    store(d, y, r, k + width)


@device_function
def exponentials(begin, end, x, r, m, y):
    """Write y_rj = exp(x_rj - m_r), begin <= j < end, and return the sum in each lane."""
    s = zero(x)
    for j in range(begin, end, 4 * lanes(x)):
        a, b, c, d = shifted_exps(x, r, j, m)
        store_four(a, b, c, d, y, r, j)
        s = add(s, add(add(a, b), add(c, d)))
    return s, zero(x)


@kernel(tasks=lambda x, y: num_tasks(x.size // 2, x.shape[0]))
def softmax(x, y, task, tasks):
    """y_rj = exp(x_rj - m_r) / sum_k exp(x_rk - m_r) with m_r = max_k x_rk.

    A row of -inf, or with a +inf or NaN in it, gives NaN.
    """
    n, width = x.shape[1], lanes(x)
    rest, few = n % width, n % (4 * width)
    start, stop = task_range(x.shape[0] if n > 0 else 0, task, tasks)
    below = row_max(x, start) if start < stop else zero(x)
    for r in range(start, stop):
        m, below = below, row_max(x, min(r + 1, stop - 1))
        (s, _), e = sums_of_blocks(exponentials, n - few, x, r, m, y), zero(x)
        for j in range(n - few, n - rest, width):
            e = shifted_exp(width, x, r, j, m)
            store(e, y, r, j)
            s = add(s, e)
        if rest:
            e = shifted_exp(rest, x, r, n - rest, m)  # it stays in its register until the sum is known
            s = add(s, e)
        factor = splat(x, x.dtype.type(1) / sum_lanes(s))
        for j in range(0, n - rest, width):
            store(mul(load(y, r, j), factor), y, r, j)
        if rest:
            store_first(rest, mul(e, factor), y, r, n - rest)


@device_function
def add_products(count, a, b, r, j, s):
    """s + a_rj b_rj."""
    return fma(load_first(count, a, r, j), load_first(count, b, r, j), s)


@device_function
def products(begin, end, y, g, r):
    """The sum of g_rj y_rj, begin <= j < end, in the lanes of two registers."""
    s = t = zero(y)
    for j in range(begin, end, 2 * lanes(y)):
        s = add_products(lanes(y), g, y, r, j, s)
        t = add_products(lanes(y), g, y, r, j + lanes(y), t)
    return s, t


@device_function
def softmax_slope(count, g, y, r, j, dot, dx):
    """dx_rj = y_rj (g_rj - dot_r)."""
    store_first(count, mul(load_first(count, y, r, j), sub(load_first(count, g, r, j), dot)), dx, r, j)


@kernel(tasks=lambda g, y, dx: num_tasks(y.size // 5, y.shape[0]))
def softmax_backward(g, y, dx, task, tasks):
    """dx_rj = y_rj (g_rj - sum_k g_rk y_rk), where y is the softmax."""
    n, width = y.shape[1], lanes(y)
    rest = n % (2 * width)
    start, stop = task_range(y.shape[0], task, tasks)
    for r in range(start, stop):
        s, t = sums_of_blocks(products, n - rest, y, g, r)
        if rest:
            s = add_products(rest, g, y, r, n - rest, s)
            t = add_products(rest - width, g, y, r, n - rest + width, t)
        dot = splat(y, sum_lanes(add(s, t)))
        for j in range(0, n - rest, width):
            softmax_slope(width, g, y, r, j, dot, dx)
        if rest:
            softmax_slope(rest, g, y, r, n - rest, dot, dx)
            softmax_slope(rest - width, g, y, r, n - rest + width, dot, dx)


@device_function
def exps_of_block(begin, end, x, r, m):
    """The sum of exp(x_rj - m_r), begin <= j < end, in each lane."""
    s = zero(x)
    for j in range(begin, end, 4 * lanes(x)):
        a, b, c, d = shifted_exps(x, r, j, m)
        s = add(s, add(add(a, b), add(c, d)))
    return s, zero(x)


@device_function
def sum_of_exps(x, r, m):
    """sum_j exp(x_rj - m_r)."""
    n, width = x.shape[1], lanes(x)
    rest, few = n % width, n % (4 * width)
    s, _ = sums_of_blocks(exps_of_block, n - few, x, r, m)
    for j in range(n - few, n - rest, width):
        s = add(s, shifted_exp(width, x, r, j, m))
    if rest:
        s = add(s, shifted_exp(rest, x, r, n - rest, m))
    return sum_lanes(s)


@device_function
def log_share(count, x, r, j, m, log_total):
    """(x_rj - m_r) - log_total in this order: added up first, m + log_total would lose digits."""
    return sub(sub(load_first(count, x, r, j), m), log_total)


@kernel(tasks=lambda x, y: num_tasks(x.size // 2, x.shape[0]), fastmath=EXACT_ORDER)
def log_softmax(x, y, task, tasks):
    """y_rj = x_rj - m_r - log(sum_k exp(x_rk - m_r)) with m_r = max_k x_rk.

    A row of -inf, or with a +inf or NaN in it, gives NaN.
    """
    n, width = x.shape[1], lanes(x)
    rest = n % width
    start, stop = task_range(x.shape[0] if n > 0 else 0, task, tasks)
    below = row_max(x, start) if start < stop else zero(x)
    for r in range(start, stop):
        m, below = below, row_max(x, min(r + 1, stop - 1))
        log_total = log(splat(x, sum_of_exps(x, r, m)))
        for j in range(0, n - rest, width):
            store_first(width, log_share(width, x, r, j, m, log_total), y, r, j)
        if rest:
            store_first(rest, log_share(rest, x, r, n - rest, m, log_total), y, r, n - rest)


@device_function
def registers_sum(begin, end, g, r):
    """The sum of g_rj, begin <= j < end, in each lane."""
    s = zero(g)
    for j in range(begin, end, lanes(g)):
        s = add(s, load(g, r, j))
    return s, zero(g)


@device_function
def log_softmax_slope(count, g, y, r, j, sum_g, dx):
    """dx_rj = g_rj - exp(y_rj) sum_g."""
    slope = sub(load_first(count, g, r, j), mul(exp(load_first(count, y, r, j)), sum_g))
    store_first(count, slope, dx, r, j)


@kernel(tasks=lambda g, y, dx: num_tasks(y.size // 3, y.shape[0]))
def log_softmax_backward(g, y, dx, task, tasks):
    """dx_rj = g_rj - exp(y_rj) sum_k g_rk, where y is the logarithm of the softmax."""
    n, width = y.shape[1], lanes(y)
    rest = n % width
    start, stop = task_range(y.shape[0], task, tasks)
    for r in range(start, stop):
        s, _ = sums_of_blocks(registers_sum, n - rest, g, r)
        if rest:
            s = add(s, load_first(rest, g, r, n - rest))
        sum_g = splat(y, sum_lanes(s))
        for j in range(0, n - rest, width):
            log_softmax_slope(width, g, y, r, j, sum_g, dx)
        if rest:
            log_softmax_slope(rest, g, y, r, n - rest, sum_g, dx)

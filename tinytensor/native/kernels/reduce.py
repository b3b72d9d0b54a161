"""Reductions over the middle of x (outer, n, inner) to y (outer, inner).

A reduction over neighbouring dims of a contiguous array always has this form. With inner = 1 each row is reduced along
its length; with inner > 1 rows of length inner are combined one after the other: two loops, so that both run along the
memory. Tasks share the outer dimension; for one long row, or few, the sum is taken in two launches (`sum_parts`).
"""

import numpy as np

from tinytensor.core.kernel import EXACT_ORDER, MOST_TASKS, num_tasks
from tinytensor.native.kernels.softmax import row_max, sum_of_exps
from tinytensor.native.kernels.sums import BLOCK, block_squares, block_sum, carried_lanes, row_sum
from tinytensor.native.runtime.kernel import device_function, kernel, reassoc_device_function, task_range
from tinytensor.native.simd.vector import (
    add,
    exp,
    lanes,
    load_first,
    log,
    max_lanes,
    maximum,
    splat,
    store_first,
    sub,
    where_less,
    zero,
)

ROWS = 32  # exponentials of a column that are added before their sum is added to the total


def sum_parts(outer, n, inner):
    """The number of parts into which n is cut for a sum; their sums are added in another launch.

    So many that there are enough tasks, if the outer dimension alone gives too few; and with inner > 1 enough parts
    that none is longer than a block. With inner = 1 the kernel itself adds up blocks.
    """
    wanted = num_tasks(outer * n * inner // 10, MOST_TASKS) // max(outer, 1)
    return max(min(wanted, -(-n // 8)), -(-n // BLOCK) if inner > 1 else 1, 1)


@device_function
def add_rows(x, o, y, r):
    """y[r, i] = sum_j x[o, j, i]."""
    _, n, inner = x.shape
    zero = y.dtype.type(0)
    for i in range(inner):
        y[r, i] = zero
    for k in range(n // 8):  # eight rows at a time: y is read less often, and the error grows with n / 8
        j = 8 * k
        for i in range(inner):
            a = (zero + x[o, j, i] + x[o, j + 1, i]) + (zero + x[o, j + 2, i] + x[o, j + 3, i])
            b = (zero + x[o, j + 4, i] + x[o, j + 5, i]) + (zero + x[o, j + 6, i] + x[o, j + 7, i])
            y[r, i] += a + b
    for j in range(n - n % 8, n):
        for i in range(inner):
            y[r, i] += x[o, j, i]


@device_function
def add_squares(x, o, y, r):
    """y[r, i] = sum_j x[o, j, i]^2."""
    _, n, inner = x.shape
    zero = y.dtype.type(0)
    for i in range(inner):
        y[r, i] = zero
    for k in range(n // 4):  # four rows at a time: y is read less often
        j = 4 * k
        for i in range(inner):
            a, b, c, d = zero + x[o, j, i], zero + x[o, j + 1, i], zero + x[o, j + 2, i], zero + x[o, j + 3, i]
            y[r, i] += (a * a + b * b) + (c * c + d * d)
    for j in range(n - n % 4, n):
        for i in range(inner):
            value = zero + x[o, j, i]
            y[r, i] += value * value


@device_function
def sums(x, y, sum_block, sum_rows, task, tasks):
    """y[o, i] = the sum of x[o, :, i] by one of these functions."""
    outer, n, inner = x.shape
    rows = x.reshape((outer, n * inner))
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        if inner == 1:
            y[o, 0] = row_sum(rows[o], sum_block, BLOCK, y.dtype.type(0))
        else:
            sum_rows(x, o, y, o)


@device_function
def sums_of_parts(x, y, sum_block, sum_rows, task, tasks):
    """y[o, p, i] = the sum of the p-th part of x[o, :, i] by one of these functions; parts begin at eighth rows."""
    outer, n, inner = x.shape
    parts = y.shape[1]
    columns, rows, results = x.reshape((outer, n * inner)), x.reshape((outer * n, inner)), y.reshape((-1, inner))
    start, stop = task_range(outer * parts, task, tasks)
    for r in range(start, stop):
        o = r // parts
        begin, end = task_range((n + 7) // 8, r % parts, parts)
        begin, end = 8 * begin, min(8 * end, n)
        if inner == 1:
            results[r, 0] = row_sum(columns[o, begin:end], sum_block, BLOCK, y.dtype.type(0))
        else:
            part = rows[o * n + begin : o * n + end]
            sum_rows(part.reshape((1, end - begin, inner)), 0, results, r)


@kernel(tasks=lambda x, *_: num_tasks(x.size // 10, x.shape[0]))
def reduce_sum(x, y, task, tasks):
    """y[o, i] = sum_j x[o, j, i]; 0 for an empty sum. Summed in the dtype of y."""
    sums(x, y, block_sum, add_rows, task, tasks)


@kernel(tasks=lambda x, *_: num_tasks(x.size // 10, x.shape[0]))
def reduce_squares(x, y, task, tasks):
    """y[o, i] = sum_j x[o, j, i]^2; 0 for an empty sum. Squared and summed in the dtype of y."""
    sums(x, y, block_squares, add_squares, task, tasks)


@kernel("x[O, N, I], y[O, P, I]", tasks=lambda x, y, *_: num_tasks(x.size // 10, y.shape[0] * y.shape[1]))
def partial_sum(x, y, task, tasks):
    """y[o, p, i] = the sum of the p-th of P parts of x[o, :, i]: the sums over p are those of reduce_sum."""
    sums_of_parts(x, y, block_sum, add_rows, task, tasks)


@kernel("x[O, N, I], y[O, P, I]", tasks=lambda x, y, *_: num_tasks(x.size // 10, y.shape[0] * y.shape[1]))
def partial_squares(x, y, task, tasks):
    """y[o, p, i] = the sum of the squares in the p-th of P parts of x[o, :, i]."""
    sums_of_parts(x, y, block_squares, add_squares, task, tasks)


# exact order: in another order a product may overflow though the result does not
@kernel(tasks=lambda x, *_: num_tasks(x.size, x.shape[0]), fastmath=EXACT_ORDER)
def reduce_prod(x, y, task, tasks):
    """y[o, i] = prod_j x[o, j, i]; 1 for an empty product. Multiplied in the dtype of y."""
    outer, n, inner = x.shape
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        if inner == 1:
            product = y.dtype.type(1)  # in a register: in memory each multiplication would wait for the one before
            for j in range(n):
                product *= x[o, j, 0]
            y[o, 0] = product
            continue
        for i in range(inner):
            y[o, i] = y.dtype.type(1)
        for j in range(n):
            for i in range(inner):
                y[o, i] *= x[o, j, i]


@reassoc_device_function
def first_nan(row):
    """The first j at which row is NaN, or row.size; it compares all elements, which vectors do faster than a search."""
    first = row.size
    for j in range(row.size):
        first = min(first, j if np.isnan(row[j]) else row.size)
    return first


@device_function
def best_of(row, better):
    """The largest or least element, `better` being max or min, of a row that is not empty and holds no NaN."""
    a = b = c = d = row[0]  # four chains, so that a comparison does not wait for the one before
    quarter = row.size // 4
    for k in range(quarter):
        j = 4 * k
        a = better(a, row[j])
        b = better(b, row[j + 1])
        c = better(c, row[j + 2])
        d = better(d, row[j + 3])
    for j in range(4 * quarter, row.size):
        a = better(a, row[j])
    return better(better(a, b), better(c, d))


@reassoc_device_function
def first_equal(row, value):
    """The first j with row[j] = value; there must be one."""
    first = row.size
    for j in range(row.size):
        first = min(first, j if row[j] == value else row.size)
    return first


@kernel(tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
def reduce_max(x, y, index, task, tasks):
    """y[o, i] = max_j x[o, j, i], and index its first j. A NaN counts as the maximum. Needs n > 0."""
    outer, n, inner = x.shape
    rows = x.reshape((outer, n * inner))
    start, stop = task_range(outer if n > 0 else 0, task, tasks)
    for o in range(start, stop):
        if inner == 1:
            first = first_nan(rows[o])
            if first == n:
                first = first_equal(rows[o], best_of(rows[o], max))
            y[o, 0], index[o, 0] = rows[o, first], first
            continue
        for i in range(inner):
            y[o, i] = x[o, 0, i]
            index[o, i] = 0
        for j in range(1, n):
            for i in range(inner):
                value, best = x[o, j, i], y[o, i]
                better = not (value <= best) and not np.isnan(best)  # a NaN beats every number; no number beats a NaN
                y[o, i] = value if better else best
                index[o, i] = j if better else index[o, i]


@kernel(tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
def reduce_min(x, y, index, task, tasks):
    """y[o, i] = min_j x[o, j, i], and index its first j. A NaN counts as the minimum. Needs n > 0."""
    outer, n, inner = x.shape
    rows = x.reshape((outer, n * inner))
    start, stop = task_range(outer if n > 0 else 0, task, tasks)
    for o in range(start, stop):
        if inner == 1:
            first = first_nan(rows[o])
            if first == n:
                first = first_equal(rows[o], best_of(rows[o], min))
            y[o, 0], index[o, 0] = rows[o, first], first
            continue
        for i in range(inner):
            y[o, i] = x[o, 0, i]
            index[o, i] = 0
        for j in range(1, n):
            for i in range(inner):
                value, best = x[o, j, i], y[o, i]
                better = not (value >= best) and not np.isnan(best)
                y[o, i] = value if better else best
                index[o, i] = j if better else index[o, i]


@device_function
def finite_or_zero(m, x):
    """m, or 0 where m is infinite or NaN: inf - inf would make a NaN of a sum that has a value."""
    return where_less(sub(m, m), splat(x, 1), m, zero(x))


@device_function
def column_logsumexp(count, x, y, o, i):
    """y[o, i:] = log(sum_j exp(x[o, j, i:])), `count` columns."""
    n = x.shape[1]
    m = load_first(count, x, o, 0, i) if n > 0 else zero(x)
    for j in range(1, n):
        m = maximum(load_first(count, x, o, j, i), m)
    m = finite_or_zero(m, x)
    total = lost = zero(x)
    for begin in range(0, n, ROWS):
        s = zero(x)
        for j in range(begin, min(begin + ROWS, n)):
            s = add(s, exp(sub(load_first(count, x, o, j, i), m)))
        total, lost = carried_lanes(total, s, lost, x)
    store_first(count, add(m, log(total)), y, o, i)


@kernel(tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
def reduce_logsumexp(x, y, task, tasks):
    """y[o, i] = m + log(sum_j exp(x[o, j, i] - m)) with m = max_j x[o, j, i].

    -inf where all elements are -inf (and for n = 0), +inf where one is +inf, NaN where one is NaN.
    """
    outer, n, inner = x.shape
    rows = x.reshape((outer, n * inner))
    rest = inner % lanes(x)
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        if inner == 1 and n > 0:
            m = finite_or_zero(row_max(rows, o), x)
            y[o, 0] = max_lanes(add(m, log(splat(x, sum_of_exps(rows, o, m)))))
            continue
        for i in range(0, inner - rest, lanes(x)):
            column_logsumexp(lanes(x), x, y, o, i)
        if rest:
            column_logsumexp(rest, x, y, o, inner - rest)


@kernel(tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
def reduce_any(x, y, task, tasks):
    """y[o, i] = is one of x[o, :, i] true? x and y are bool; false for n = 0."""
    outer, n, inner = x.shape
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        for i in range(inner):
            y[o, i] = False
        for j in range(n):
            for i in range(inner):
                y[o, i] = y[o, i] or x[o, j, i]


@kernel(tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
def reduce_all(x, y, task, tasks):
    """y[o, i] = are all of x[o, :, i] true? x and y are bool; true for n = 0."""
    outer, n, inner = x.shape
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        for i in range(inner):
            y[o, i] = True
        for j in range(n):
            for i in range(inner):
                y[o, i] = y[o, i] and x[o, j, i]

"""Reductions over the middle of x (outer, n, inner) to y (outer, inner).

A reduction over neighbouring dims of a contiguous array always has this form. With inner = 1 each row is reduced along
its length; with inner > 1 rows of length inner are combined one after the other: two loops, so that both run along the
memory. Tasks share the outer dimension; for one long row, or few, the sum is taken in two launches (`sum_parts`).
"""

import numpy as np

from tinytensor.kernels.softmax import row_max
from tinytensor.runtime.kernel import (
    EXACT_ORDER,
    MOST_TASKS,
    device_function,
    kernel,
    num_tasks,
    reassoc_device_function,
    task_range,
)
from tinytensor.simd.math import exp, log
from tinytensor.simd.vector import max_lanes

BLOCK = 512  # numbers of a row that are summed before their sum is added to the total, with the rounding error carried


def sum_parts(outer, n, inner):
    """The number of equal parts into which n is cut for a sum, if the outer dimension alone gives too few tasks.

    The parts are summed as if the array were (outer * parts, n / parts, inner), and then their sums are added.
    """
    wanted = num_tasks(outer * n * inner // 10, MOST_TASKS) // max(outer, 1)
    return 1 if wanted < 2 else max([parts for parts in range(1, wanted + 1) if n % parts == 0])


@device_function
def carried_sum(total, part, lost, zero):
    """(total + part, the rounding error in it), where `lost` is the rounding error of the addition before."""
    part -= lost
    after = total + part
    lost = (after - total) - part
    return after, lost if lost - lost == zero else zero  # inf - inf is no rounding error


@reassoc_device_function
def block_sum(block, zero):
    """The sum of a few numbers."""
    part = zero
    for j in range(block.size):
        part += block[j]
    return part


@device_function
def row_sum(row, zero):
    """The sum of a row, block by block; the rounding error of each addition is carried to the next."""
    total, lost = zero, zero
    for begin in range(0, row.size, BLOCK):
        part = block_sum(row[begin : min(begin + BLOCK, row.size)], zero)
        total, lost = carried_sum(total, part, lost, zero)
    return total


@kernel("x[O, N, I], y[O, I]", tasks=lambda x, *_: num_tasks(x.size // 10, x.shape[0]))
def reduce_sum(x, y, task, tasks):
    """y[o, i] = sum_j x[o, j, i]; 0 for an empty sum. Summed in the dtype of y."""
    outer, n, inner = x.shape
    zero = y.dtype.type(0)
    rows = x.reshape((outer, n * inner))
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        if inner == 1:
            y[o, 0] = row_sum(rows[o], zero)
            continue
        for i in range(inner):
            y[o, i] = zero
        for k in range(n // 8):  # eight rows at a time: y is read less often, and the error grows with n / 8
            j = 8 * k
            for i in range(inner):
                a = (zero + x[o, j, i] + x[o, j + 1, i]) + (zero + x[o, j + 2, i] + x[o, j + 3, i])
                b = (zero + x[o, j + 4, i] + x[o, j + 5, i]) + (zero + x[o, j + 6, i] + x[o, j + 7, i])
                y[o, i] += a + b
        for j in range(n - n % 8, n):
            for i in range(inner):
                y[o, i] += x[o, j, i]


@reassoc_device_function
def block_squares(block, zero):
    """The sum of the squares of a few numbers."""
    part = zero
    for j in range(block.size):
        value = zero + block[j]
        part += value * value
    return part


@kernel("x[O, N, I], y[O, I]", tasks=lambda x, *_: num_tasks(x.size // 10, x.shape[0]))
def reduce_squares(x, y, task, tasks):
    """y[o, i] = sum_j x[o, j, i]^2; 0 for an empty sum. Squared and summed in the dtype of y."""
    outer, n, inner = x.shape
    zero = y.dtype.type(0)
    rows = x.reshape((outer, n * inner))
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        if inner == 1:
            total, lost = zero, zero
            for begin in range(0, n, BLOCK):
                part = block_squares(rows[o, begin : min(begin + BLOCK, n)], zero)
                total, lost = carried_sum(total, part, lost, zero)
            y[o, 0] = total
            continue
        for i in range(inner):
            y[o, i] = zero
        for k in range(n // 4):  # four rows at a time: y is read less often
            j = 4 * k
            for i in range(inner):
                a, b, c, d = zero + x[o, j, i], zero + x[o, j + 1, i], zero + x[o, j + 2, i], zero + x[o, j + 3, i]
                y[o, i] += (a * a + b * b) + (c * c + d * d)
        for j in range(n - n % 4, n):
            for i in range(inner):
                value = zero + x[o, j, i]
                y[o, i] += value * value


# exact order: in another order a product may overflow though the result does not
@kernel("x[O, N, I], y[O, I]", tasks=lambda x, *_: num_tasks(x.size, x.shape[0]), fastmath=EXACT_ORDER)
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


@kernel("x[O, N, I], y[O, I], index[O, I]", tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
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


@kernel("x[O, N, I], y[O, I], index[O, I]", tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
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
def finite_or_zero(m, zero):
    """m, or 0 where m is infinite or NaN: inf - inf would make a NaN of a sum that has a value."""
    return m if m - m == zero else zero


@kernel("x[O, N, I], y[O, I], peak[O, I]", tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
def reduce_logsumexp(x, y, peak, task, tasks):
    """y[o, i] = m + log(sum_j exp(x[o, j, i] - m)) with m = max_j x[o, j, i], kept in peak (outer, inner).

    -inf where all elements are -inf (and for n = 0), +inf where one is +inf, NaN where one is NaN.
    """
    outer, n, inner = x.shape
    zero = x.dtype.type(0)
    rows = x.reshape((outer, n * inner))
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        if inner == 1 and n > 0:
            row = rows[o]
            shift, total = finite_or_zero(max_lanes(row_max(rows, o)), zero), zero
            for j in range(n):
                total += exp(row[j] - shift)
            peak[o, 0] = shift
            y[o, 0] = shift + log(total)
            continue
        for i in range(inner):
            y[o, i] = zero
            peak[o, i] = x[o, 0, i] if n > 0 else zero
        for j in range(1, n):
            for i in range(inner):
                peak[o, i] = max(peak[o, i], x[o, j, i])
        for i in range(inner):
            peak[o, i] = finite_or_zero(peak[o, i], zero)
        for j in range(n):
            for i in range(inner):
                y[o, i] += exp(x[o, j, i] - peak[o, i])
        for i in range(inner):
            y[o, i] = peak[o, i] + log(y[o, i])


@kernel("x[O, N, I], y[O, I]", tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
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


@kernel("x[O, N, I], y[O, I]", tasks=lambda x, *_: num_tasks(x.size, x.shape[0]))
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

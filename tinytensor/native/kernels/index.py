"""Reading and adding at positions given by an index; sorting; drawing from weights.

An index is int64. A number in it that is out of range is never used as a place to read or write: it is skipped, and the
value read is 0. Kernels that first get an index (take, gather) report such a number in `bad`: int64 (2,), at first 0;
bad[0] becomes 1 and bad[1] one of the wrong numbers. The kernels of the gradients get an index that was checked there.
"""

import numpy as np

from tinytensor.core.kernel import EXACT_ORDER, num_tasks
from tinytensor.native.runtime.kernel import device_function, kernel, task_range


@kernel(
    tasks=lambda x, index, y, bad: num_tasks(y.size // 8 + 2 * index.size, index.size),
)
def take(x, index, y, bad, task, tasks):
    """y[r, d] = x[index[r], d]: rows of x (V, D) to y (R, D)."""
    size = x.shape[1]
    start, stop = task_range(index.size, task, tasks)
    for r in range(start, stop):
        v, row = index[r], y[r]
        if 0 <= v < x.shape[0]:
            source = x[v]
            for d in range(size):
                row[d] = source[d]
        else:
            bad[0] = 1
            bad[1] = v
            for d in range(size):
                row[d] = y.dtype.type(0)


@kernel()
def write_rows(source, index, y, bad):
    """y[o, index[r]] = source[o, r]: rows of source (outer, R, D) over those of y (outer, V, D), in the order of r."""
    outer, R, size = source.shape
    for r in range(R):
        v = index[r]
        if 0 <= v < y.shape[1]:
            for o in range(outer):
                for d in range(size):
                    y[o, v, d] = source[o, r, d]
        else:
            bad[0] = 1
            bad[1] = v


@kernel(
    tasks=lambda g, index, dx: num_tasks((g.size + dx.size) // 8, dx.shape[0]),
    fastmath=EXACT_ORDER,
)
def scatter_add(g, index, dx, task, tasks):
    """dx[v, d] = sum over the r with index[r] = v of g[r, d], in the order of r; the backward of take.

    Each task searches the whole index for its own rows of dx.
    """
    size = dx.shape[1]
    start, stop = task_range(dx.shape[0], task, tasks)
    for v in range(start, stop):
        target = dx[v]
        for d in range(size):
            target[d] = dx.dtype.type(0)
    for r in range(index.size):
        v = index[r]
        if start <= v < stop:
            row, target = g[r], dx[v]
            for d in range(size):
                target[d] += row[d]


@kernel(
    tasks=lambda x, index, y, bad: num_tasks(2 * index.size, index.shape[0]),
)
def gather(x, index, y, bad, task, tasks):
    """y[o, j, i] = x[o, index[o, j, i], i]: x (outer, n, inner), index and y (outer, m, inner)."""
    outer, m, inner = index.shape
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        for j in range(m):
            for i in range(inner):
                k = index[o, j, i]
                if 0 <= k < x.shape[1]:
                    y[o, j, i] = x[o, k, i]
                else:
                    bad[0] = 1
                    bad[1] = k
                    y[o, j, i] = y.dtype.type(0)


@kernel(
    tasks=lambda g, index, dx: num_tasks(2 * g.size + dx.size // 8, dx.shape[0]),
    fastmath=EXACT_ORDER,
)
def gather_backward(g, index, dx, task, tasks):
    """dx[o, k, i] = sum over the j with index[o, j, i] = k of g[o, j, i], in the order of j."""
    outer, m, inner = index.shape
    start, stop = task_range(outer, task, tasks)
    for o in range(start, stop):
        for k in range(dx.shape[1]):
            for i in range(inner):
                dx[o, k, i] = dx.dtype.type(0)
        for j in range(m):
            for i in range(inner):
                k = index[o, j, i]
                if 0 <= k < dx.shape[1]:
                    dx[o, k, i] += g[o, j, i]


@device_function
def before(a, b, descending):
    """Does a stand strictly before b in the order? NaN counts as larger than every number."""
    if descending:
        return a > b or (np.isnan(a) and not np.isnan(b))
    return a < b or (np.isnan(b) and not np.isnan(a))


@device_function
def merge(row, descending, start, middle, stop, source, target):
    """Merge the sorted runs source[start:middle] and source[middle:stop] into target[start:stop]."""
    left, right = start, middle
    for k in range(start, stop):
        # the left one on ties: that makes the sort stable
        if right < stop and (left >= middle or before(row[source[right]], row[source[left]], descending)):
            target[k] = source[right]
            right += 1
        else:
            target[k] = source[left]
            left += 1


@kernel("scratch[R, N]", tasks=lambda x, *_: num_tasks(40 * x.size, x.shape[0]))
def argsort(x, descending, y, scratch, task, tasks):
    """y[r] = the positions that sort row r of x (R, n); equal elements keep their order; NaN is the largest.

    y and scratch are int64 (R, n). A merge sort: runs of 1, 2, 4 ... are merged from one array into the other.
    """
    n = x.shape[1]
    start, stop = task_range(x.shape[0], task, tasks)
    for r in range(start, stop):
        row, source, target = x[r], y[r], scratch[r]
        for j in range(n):
            source[j] = j
        width = 1
        while width < n:
            for j in range(0, n, 2 * width):
                merge(row, descending, j, min(j + width, n), min(j + 2 * width, n), source, target)
            for j in range(n):
                source[j] = target[j]
            width *= 2


@kernel(fastmath=EXACT_ORDER)
def check_weights(p, needed, bad):
    """bad = (1, -1) if a weight in p (R, n) is negative or not finite, (1, m) if a row has m < needed positive ones."""
    for r in range(p.shape[0]):
        positive, valid = 0, True
        for j in range(p.shape[1]):
            w = p[r, j]
            valid = valid and w >= w - w and w - w == p.dtype.type(0)  # inf - inf is NaN
            positive += w > p.dtype.type(0)
        if not valid or positive < needed:
            bad[0] = 1
            bad[1] = positive if valid else -1


# exact order, since both sums must be added in the same order
@kernel(tasks=lambda p, *_: num_tasks(3 * p.size, p.shape[0]), fastmath=EXACT_ORDER)
def sample_rows(p, u, y, task, tasks):
    """y[r] = the first j with p[r, 0] + ... + p[r, j] > u[r] sum_k p[r, k]: weights p (R, n) >= 0, u (R,) in [0, 1).

    An element of weight 0 is never drawn; y[r] = -1 if all weights are 0.
    """
    n = p.shape[1]
    start, stop = task_range(p.shape[0], task, tasks)
    for r in range(start, stop):
        total = p.dtype.type(0)
        for j in range(n):
            total += p[r, j]
        threshold = u[r] * total
        y[r] = -1
        total = p.dtype.type(0)
        sampled = False
        for j in range(n):
            total += p[r, j]
            if p[r, j] > p.dtype.type(0) and not sampled:
                y[r] = j  # the last positive one, if rounding keeps the sum below the threshold
                sampled = total > threshold

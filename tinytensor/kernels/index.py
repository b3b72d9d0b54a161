"""Reading and adding at positions given by an index; sorting; drawing from weights. Indices are int64 and in range."""

import numpy as np

from tinytensor.kernels.kernel import EXACT_ORDER, helper, kernel


@kernel()
def take(x, index, y, task, tasks):
    """y[r, d] = x[index[r], d]: rows of x (V, D) to y (R, D)."""
    for r in range(index.size):
        source, row = x[index[r]], y[r]
        for d in range(x.shape[1]):
            row[d] = source[d]


@kernel(fastmath=EXACT_ORDER)
def scatter_add(g, index, dx, task, tasks):
    """dx[v, d] = sum over the r with index[r] = v of g[r, d], in the order of r; the backward of take."""
    size = dx.shape[1]
    everything = dx.reshape(dx.size)
    for k in range(dx.size):
        everything[k] = dx.dtype.type(0)
    for r in range(index.size):
        row, target = g[r], dx[index[r]]
        for d in range(size):
            target[d] += row[d]


@kernel()
def gather(x, index, y, task, tasks):
    """y[o, j, i] = x[o, index[o, j, i], i]: x (outer, n, inner), index and y (outer, m, inner)."""
    outer, m, inner = index.shape
    for o in range(outer):
        for j in range(m):
            for i in range(inner):
                y[o, j, i] = x[o, index[o, j, i], i]


@kernel(fastmath=EXACT_ORDER)
def gather_backward(g, index, dx, task, tasks):
    """dx[o, k, i] = sum over the j with index[o, j, i] = k of g[o, j, i], in the order of j."""
    outer, m, inner = index.shape
    everything = dx.reshape(dx.size)
    for k in range(dx.size):
        everything[k] = dx.dtype.type(0)
    for o in range(outer):
        for j in range(m):
            for i in range(inner):
                dx[o, index[o, j, i], i] += g[o, j, i]


@helper
def before(a, b, descending):
    """Does a stand strictly before b in the order? NaN counts as larger than every number."""
    if descending:
        return a > b or (np.isnan(a) and not np.isnan(b))
    return a < b or (np.isnan(b) and not np.isnan(a))


@helper
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


@kernel()
def argsort(x, descending, y, scratch, task, tasks):
    """y[r] = the positions that sort row r of x (R, n); equal elements keep their order; NaN is the largest.

    y and scratch are int64 (R, n). A merge sort: runs of 1, 2, 4 ... are merged from one array into the other.
    """
    n = x.shape[1]
    for r in range(x.shape[0]):
        row, source, target = x[r], y[r], scratch[r]
        for j in range(n):
            source[j] = j
        width = 1
        while width < n:
            for start in range(0, n, 2 * width):
                merge(row, descending, start, min(start + width, n), min(start + 2 * width, n), source, target)
            for j in range(n):
                source[j] = target[j]
            width *= 2


@kernel(fastmath=EXACT_ORDER)  # both sums must see the same order
def sample_rows(p, u, y, task, tasks):
    """y[r] = the first j with p[r, 0] + ... + p[r, j] > u[r] sum_k p[r, k]: weights p (R, n) >= 0, u (R,) in [0, 1).

    An element of weight 0 is never drawn; -1 where all weights are 0.
    """
    n = p.shape[1]
    for r in range(p.shape[0]):
        total = p.dtype.type(0)
        for j in range(n):
            total += p[r, j]
        threshold = u[r] * total
        y[r] = -1
        total = p.dtype.type(0)
        found = False
        for j in range(n):
            total += p[r, j]
            if p[r, j] > p.dtype.type(0) and not found:
                y[r] = j  # the last positive one, should rounding keep the sum below the threshold
                found = total > threshold

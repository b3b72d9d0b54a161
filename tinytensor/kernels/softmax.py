"""Softmax and its logarithm over the rows of x (R, n)."""

import numpy as np

from tinytensor.kernels.fastmath import exp
from tinytensor.kernels.kernel import helper, kernel


@helper
def row_max(row):
    """The largest element of a row that is not empty; any number where one is NaN."""
    a = b = c = d = row[0]  # four chains: a comparison need not wait for the one before
    quarter = row.size // 4
    for k in range(quarter):
        j = 4 * k
        a = max(a, row[j])
        b = max(b, row[j + 1])
        c = max(c, row[j + 2])
        d = max(d, row[j + 3])
    for j in range(4 * quarter, row.size):
        a = max(a, row[j])
    return max(max(a, b), max(c, d))


@helper
def log_share(a, m, log_total):
    """(a - m) - log_total in this order: a kernel may make a - (m + log_total) of it, which loses digits."""
    return a - m - log_total


@kernel()
def softmax(x, y, task, tasks):
    """y_rj = exp(x_rj - m_r) / sum_k exp(x_rk - m_r) with m_r = max_k x_rk.

    A row of -inf, or with a +inf or NaN in it, gives NaN.
    """
    n = x.shape[1]
    rows = x.shape[0] if n > 0 else 0
    for r in range(rows):
        a, b = x[r], y[r]
        m = row_max(a)
        total = x.dtype.type(0)
        for j in range(n):
            b[j] = exp(a[j] - m)
            total += b[j]
        scale = x.dtype.type(1) / total
        for j in range(n):
            b[j] *= scale


@kernel()
def softmax_backward(g, y, dx, task, tasks):
    """dx_rj = y_rj (g_rj - sum_k g_rk y_rk), where y is the softmax."""
    n = y.shape[1]
    for r in range(y.shape[0]):
        a, b, d = g[r], y[r], dx[r]
        dot = y.dtype.type(0)
        for j in range(n):
            dot += a[j] * b[j]
        for j in range(n):
            d[j] = b[j] * (a[j] - dot)


@kernel()
def log_softmax(x, y, task, tasks):
    """y_rj = x_rj - m_r - log(sum_k exp(x_rk - m_r)) with m_r = max_k x_rk.

    A row of -inf, or with a +inf or NaN in it, gives NaN.
    """
    n = x.shape[1]
    rows = x.shape[0] if n > 0 else 0
    for r in range(rows):
        a, b = x[r], y[r]
        m = row_max(a)
        total = x.dtype.type(0)
        for j in range(n):
            total += exp(a[j] - m)
        log_total = np.log(total)
        for j in range(n):
            b[j] = log_share(a[j], m, log_total)


@kernel()
def log_softmax_backward(g, y, dx, task, tasks):
    """dx_rj = g_rj - exp(y_rj) sum_k g_rk, where y is the logarithm of the softmax."""
    n = y.shape[1]
    for r in range(y.shape[0]):
        a, b, d = g[r], y[r], dx[r]
        total = y.dtype.type(0)
        for j in range(n):
            total += a[j]
        for j in range(n):
            d[j] = a[j] - exp(b[j]) * total

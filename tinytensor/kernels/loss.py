"""Cross-entropy of rows of logits (R, V) against class indices, document 003 eq. 14 to 16."""

import numpy as np

from tinytensor.kernels.fastmath import exp
from tinytensor.kernels.kernel import kernel
from tinytensor.kernels.softmax import log_share, row_max


@kernel()
def cross_entropy(x, target, ignore_index, label_smoothing, losses, lse, task, tasks):
    """losses_r = lse_r - (1 - s) x_r,target_r - s sum_v x_rv / V with lse_r = log sum_v exp(x_rv), s = label_smoothing.

    0 (and lse 0) where target_r = ignore_index; all other targets must lie in [0, V). lse is kept for backward.
    """
    rows, size = x.shape
    zero, one, count = x.dtype.type(0), x.dtype.type(1), x.dtype.type(size)
    for r in range(rows):
        t = target[r]
        losses[r] = zero
        lse[r] = zero
        if t != ignore_index:
            a = x[r]
            m = row_max(a)
            total = zero
            for v in range(size):
                total += exp(a[v] - m)
            log_total = np.log(total)
            lse[r] = m + log_total
            nll = -log_share(a[t], m, log_total)
            if label_smoothing == zero:  # 0 times an infinite logit would be NaN
                losses[r] = nll
            else:
                all_nll = zero
                for v in range(size):
                    all_nll -= log_share(a[v], m, log_total)
                losses[r] = (one - label_smoothing) * nll + label_smoothing * (all_nll / count)


@kernel()
def cross_entropy_backward(g, x, target, lse, ignore_index, label_smoothing, dx, task, tasks):
    """dx_rv = g_r (exp(x_rv - lse_r) - (1 - s) [v = target_r] - s / V); 0 where target_r = ignore_index."""
    rows, size = x.shape
    zero, one = x.dtype.type(0), x.dtype.type(1)
    each = label_smoothing / x.dtype.type(size) if size > 0 else zero
    for r in range(rows):
        t = target[r]
        a, d = x[r], dx[r]
        if t == ignore_index:
            for v in range(size):
                d[v] = zero
        else:
            scale, shift = g[r], lse[r]
            for v in range(size):
                d[v] = scale * (exp(a[v] - shift) - each)
            d[t] -= scale * (one - label_smoothing)

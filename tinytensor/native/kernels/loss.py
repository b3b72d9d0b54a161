"""Cross-entropy of rows of logits (R, V) against class indices, document 003 eq. 14 to 16.

A target that is no class is never used as a place to read or write: its row is ignored, and `bad` reports it. `bad` is
int64 (2,), at first 0: bad[0] becomes 1, and bad[1] one of the wrong targets.
"""

from tinytensor.core.kernel import EXACT_ORDER, num_tasks
from tinytensor.native.kernels.softmax import log_share, row_max, shifted_exps, store_four, sum_of_exps
from tinytensor.native.kernels.sums import BLOCK, block_sum, row_sum
from tinytensor.native.runtime.kernel import device_function, kernel, task_range
from tinytensor.native.simd.vector import (
    exp,
    lanes,
    load_first,
    log,
    max_lanes,
    mul,
    select_first,
    splat,
    store_first,
    sub,
    sum_lanes,
    zero,
)


@kernel(
    tasks=lambda x, *_: num_tasks(x.size // 2, x.shape[0]),
    fastmath=EXACT_ORDER,
)
def cross_entropy(x, target, ignore_index, label_smoothing, losses, lse, bad, task, tasks):
    """losses_r = lse_r - (1 - s) x_r,target_r - s sum_v x_rv / V with lse_r = log sum_v exp(x_rv), s = label_smoothing.

    0 (and lse 0) where target_r = ignore_index; all other targets must lie in [0, V). lse is kept for backward.
    """
    rows, size = x.shape
    width = lanes(x)
    rest = size % width
    nothing, one, count = x.dtype.type(0), x.dtype.type(1), x.dtype.type(size)
    start, stop = task_range(rows, task, tasks)
    for begin in range(start, stop, width):  # the logarithms of a register of rows are taken at once
        end = min(begin + width, stop)
        for r in range(begin, end):
            t = target[r]
            losses[r] = nothing
            lse[r] = one
            if t != ignore_index and not 0 <= t < size:
                bad[0] = 1
                bad[1] = t
            elif t != ignore_index:
                losses[r] = max_lanes(row_max(x, r))  # the exponentials below wait for it
        for r in range(begin, end):
            if target[r] != ignore_index and 0 <= target[r] < size:
                lse[r] = sum_of_exps(x, r, splat(x, losses[r]))
        sums = select_first(end - begin, load_first(end - begin, lse, begin), splat(x, one))
        store_first(end - begin, log(sums), lse, begin)
        for r in range(begin, end):
            t = target[r]
            if t != ignore_index and 0 <= t < size:
                peak, log_total = losses[r], lse[r]
                lse[r] = peak + log_total
                nll = log_total - (x[r, t] - peak)
                if label_smoothing == nothing:  # 0 times an infinite logit would be NaN
                    losses[r] = nll
                else:
                    s, m, shift = zero(x), splat(x, peak), splat(x, log_total)
                    for v in range(0, size - rest, width):
                        s = sub(s, log_share(width, x, r, v, m, shift))
                    if rest:
                        s = sub(s, select_first(rest, log_share(rest, x, r, size - rest, m, shift), zero(x)))
                    losses[r] = (one - label_smoothing) * nll + label_smoothing * (sum_lanes(s) / count)


@kernel()
def mean_of_counted(losses, target, ignore_index, y, count):
    """y = sum_r losses_r / n, and count = n: the number of targets other than ignore_index; if it is 0, y is NaN."""
    counted = 0
    for r in range(target.size):
        if target[r] != ignore_index:
            counted += 1
    count[0] = losses.dtype.type(counted)
    y[0] = row_sum(losses, block_sum, BLOCK, losses.dtype.type(0)) / count[0]


@device_function
def loss_slope(count, x, r, v, scale, shift, each, dx):
    """dx_rv = scale (exp(x_rv - shift) - each)."""
    p = exp(select_first(count, sub(load_first(count, x, r, v), shift), zero(x)))
    store_first(count, mul(scale, sub(p, each)), dx, r, v)


@kernel(
    tasks=lambda g, x, *_: num_tasks(x.size // 3, x.shape[0]),
    strided=("g",),  # one number for all rows of a mean, with stride 0
)
def cross_entropy_backward(g, x, target, lse, ignore_index, label_smoothing, dx, task, tasks):
    """dx_rv = g_r (exp(x_rv - lse_r) - (1 - s) [v = target_r] - s / V); 0 where target_r = ignore_index."""
    rows, size = x.shape
    width = lanes(x)
    rest, few = size % width, size % (4 * width)
    nothing, one = x.dtype.type(0), x.dtype.type(1)
    each = label_smoothing / x.dtype.type(size) if size > 0 else nothing
    start, stop = task_range(rows, task, tasks)
    for r in range(start, stop):
        t = target[r]
        if t != ignore_index and 0 <= t < size:
            scale, shift, level = splat(x, g[r]), splat(x, lse[r]), splat(x, each)
            for v in range(0, size - few, 4 * width):
                a, b, c, d = shifted_exps(x, r, v, shift)
                a, b = mul(scale, sub(a, level)), mul(scale, sub(b, level))
                c, d = mul(scale, sub(c, level)), mul(scale, sub(d, level))
                store_four(a, b, c, d, dx, r, v)
            for v in range(size - few, size - rest, width):
                loss_slope(width, x, r, v, scale, shift, level, dx)
            if rest:
                loss_slope(rest, x, r, size - rest, scale, shift, level, dx)
            dx[r, t] -= g[r] * (one - label_smoothing)
        else:
            for v in range(size):
                dx[r, v] = nothing

"""Layer norm and RMS norm over the rows of x (R, D).

A pass over a row takes one register or two at a time, and then the remaining elements (see softmax.py).

The gradients of weight and bias are sums over all rows. The rows are cut into blocks, by the shape of x alone, and each
block adds up its own part in `partial`; a second launch (reduce_sum) adds the parts in order. So no bit of the result
depends on the number of threads.
"""

import numpy as np

from tinytensor.core.kernel import EXACT_ORDER, num_tasks
from tinytensor.native.kernels.sums import sums_of_blocks
from tinytensor.native.runtime.kernel import device_function, kernel, task_range
from tinytensor.native.simd.vector import (
    add,
    fma,
    lanes,
    load_first,
    mul,
    select_first,
    splat,
    store_first,
    sub,
    sum_lanes,
    zero,
)


@device_function
def centred(count, x, r, d, mu):
    """x_rd - mu_r; 0 past the end."""
    return select_first(count, sub(load_first(count, x, r, d), mu), zero(x))


@device_function
def add_square(v, s):
    """s + v^2."""
    return fma(v, v, s)


@device_function
def weighted(count, v, weight, d):
    """w_d v, or v if there is no weight."""
    if weight.size > 0:
        v = mul(v, load_first(count, weight, d))
    return v


@device_function
def normed(count, x, r, d, mu, scale, shift, weight, bias, y):
    """y_rd = w_d ((x_rd - mu_r) scale_r + shift_r) + b_d."""
    v = weighted(count, fma(centred(count, x, r, d, mu), scale, shift), weight, d)
    if bias.size > 0:
        v = add(v, load_first(count, bias, d))
    store_first(count, v, y, r, d)


@device_function
def row_sums(begin, end, x, r):
    """The sum of x_rd, begin <= d < end, in the lanes of two registers."""
    s = t = zero(x)
    for d in range(begin, end, 2 * lanes(x)):
        s = add(s, load_first(lanes(x), x, r, d))
        t = add(t, load_first(lanes(x), x, r, d + lanes(x)))
    return s, t


@device_function
def moments(begin, end, x, r, mu):
    """The sums of c_rd and of c_rd^2 with c_rd = x_rd - mu_r, begin <= d < end, in each lane."""
    error = s = t = zero(x)
    for d in range(begin, end, 2 * lanes(x)):
        v, w = centred(lanes(x), x, r, d, mu), centred(lanes(x), x, r, d + lanes(x), mu)
        error, s, t = add(error, add(v, w)), add_square(v, s), add_square(w, t)
    return error, add(s, t)


@kernel(
    tasks=lambda x, *_: num_tasks(x.size // 4 + 10 * x.shape[0], x.shape[0]),
)
def layer_norm(x, weight, bias, eps, y, mean, rstd, task, tasks):
    """y_rd = w_d (x_rd - mean_r) rstd_r + b_d with rstd_r = 1 / sqrt(var_r + eps), var_r = sum_d (x_rd - mean_r)^2 / D.

    weight and bias are (D,), or (0,) for none; mean and rstd (R,) are kept for backward.
    """
    size, width = x.shape[1], lanes(x)
    rest = size % (2 * width)
    one, count = x.dtype.type(1), x.dtype.type(size)
    start, stop = task_range(x.shape[0], task, tasks)
    for r in range(start, stop):
        s, t = sums_of_blocks(row_sums, size - rest, x, r)
        if rest:
            s = add(s, load_first(rest, x, r, size - rest))
            t = add(t, load_first(rest - width, x, r, size - rest + width))
        mean[r] = sum_lanes(add(s, t)) / count
        mu = splat(x, mean[r])
        error, s = sums_of_blocks(moments, size - rest, x, r, mu)
        if rest:
            v, w = centred(rest, x, r, size - rest, mu), centred(rest - width, x, r, size - rest + width, mu)
            error, s = add(error, add(v, w)), add_square(v, add_square(w, s))
        error_r = sum_lanes(error) / count  # of mean_r, which is a rounded number
        rstd[r] = one / np.sqrt(sum_lanes(s) / count - error_r * error_r + eps)
        scale, shift = splat(x, rstd[r]), splat(x, -error_r * rstd[r])
        for d in range(0, size - rest, width):
            normed(width, x, r, d, mu, scale, shift, weight, bias, y)
        if rest:
            normed(rest, x, r, size - rest, mu, scale, shift, weight, bias, y)
            normed(rest - width, x, r, size - rest + width, mu, scale, shift, weight, bias, y)


def norm_blocks(R, D):
    """The number of blocks of rows for x (R, D); each block sums its own part of the weight's gradient."""
    return num_tasks(R * (D // 4 + 4), R // 8)


@device_function
def add_to(count, v, sums, k, block, d):
    """sums_k,block,d += v."""
    store_first(count, add(load_first(count, sums, k, block, d), v), sums, k, block, d)


@device_function
def add_both(count, v, w, sums, k, block, d):
    """sums_k,block,d += v, and then += w."""
    store_first(count, add(add(load_first(count, sums, k, block, d), v), w), sums, k, block, d)


@device_function
def clear(sums, block):
    """sums_k,block,d = 0 for all k and d."""
    for k in range(sums.shape[0]):
        for d in range(sums.shape[2]):
            sums[k, block, d] = sums.dtype.type(0)


@device_function
def layer_norm_sums(count, g, x, weight, r, d, mu, sum_h, sum_hc):
    """(sum_h + h_rd, sum_hc + h_rd c_rd) with c_rd = x_rd - mu_r."""
    h = weighted(count, load_first(count, g, r, d), weight, d)
    return add(sum_h, h), fma(h, centred(count, x, r, d, mu), sum_hc)


@device_function
def slopes_sums(begin, end, x, g, weight, r, mu):
    """The sums of h_rd and of h_rd c_rd, begin <= d < end, in each lane."""
    h, hc, sum_h, sum_hc = zero(x), zero(x), zero(x), zero(x)
    for d in range(begin, end, 2 * lanes(x)):
        h, hc = layer_norm_sums(lanes(x), g, x, weight, r, d, mu, h, hc)
        sum_h, sum_hc = layer_norm_sums(lanes(x), g, x, weight, r, d + lanes(x), mu, sum_h, sum_hc)
    return add(h, sum_h), add(hc, sum_hc)


@device_function
def layer_norm_row(g, x, weight, mean, rstd, r):
    """The numbers of row r, in all lanes: (mean_r, scale_r, level_r, tilt_r), as `layer_norm_slope` takes them.

    They come from rstd (h - mean_h - n mean_hn), multiplied out.
    """
    size, width = x.shape[1], lanes(x)
    rest = size % (2 * width)
    inverse = x.dtype.type(1) / x.dtype.type(size)
    scale_r = rstd[r]
    mu = splat(x, mean[r])
    h, hc = sums_of_blocks(slopes_sums, size - rest, x, g, weight, r, mu)
    if rest:
        h, hc = layer_norm_sums(rest, g, x, weight, r, size - rest, mu, h, hc)
        h, hc = layer_norm_sums(rest - width, g, x, weight, r, size - rest + width, mu, h, hc)
    mean_h, mean_hc = sum_lanes(h) * inverse, sum_lanes(hc) * inverse
    level, tilt = splat(x, -scale_r * mean_h), splat(x, -scale_r * scale_r * scale_r * mean_hc)
    return mu, splat(x, scale_r), level, tilt


@device_function
def layer_norm_slope(count, g, x, weight, r, d, row, dx):
    """Write dx_rd = scale_r h_rd + level_r + tilt_r c_rd, and return (g_rd n_rd, g_rd)."""
    mu, scale, level, tilt = row
    up, c = load_first(count, g, r, d), centred(count, x, r, d, mu)
    h = weighted(count, up, weight, d)
    store_first(count, fma(c, tilt, fma(scale, h, level)), dx, r, d)
    return mul(up, mul(c, scale)), up


@device_function
def layer_norm_slopes(count, g, x, weight, r, d, row, following, dx, block, partial):
    """`layer_norm_slope` of row r and of the next row; their results are added to the block's part.

    So a sum in memory is read and written once for both rows.
    """
    gn, up = layer_norm_slope(count, g, x, weight, r, d, row, dx)
    gn_next, up_next = layer_norm_slope(count, g, x, weight, r + 1, d, following, dx)
    if partial.size > 0:
        add_both(count, gn, gn_next, partial, 0, block, d)
        if partial.shape[0] > 1:
            add_both(count, up, up_next, partial, 1, block, d)


@device_function
def layer_norm_last(count, g, x, weight, r, d, row, dx, block, partial):
    """`layer_norm_slopes` for a single row."""
    gn, up = layer_norm_slope(count, g, x, weight, r, d, row, dx)
    if partial.size > 0:
        add_to(count, gn, partial, 0, block, d)
        if partial.shape[0] > 1:
            add_to(count, up, partial, 1, block, d)


@kernel(
    "partial[sums, blocks, D | 0]",
    tasks=lambda *args: args[-1].shape[1],
    fastmath=EXACT_ORDER,
)
def layer_norm_backward(g, x, weight, mean, rstd, dx, partial, task, tasks):
    """With n_rd = (x_rd - mean_r) rstd_r and h_rd = w_d g_rd:

    dx_rd = rstd_r (h_rd - sum_k h_rk / D - n_rd sum_k h_rk n_rk / D), and for each block of rows
    partial_0,block,d = sum_r g_rd n_rd (a part of dw_d), partial_1,block,d = sum_r g_rd (a part of db_d).
    weight may be (0,) for none. partial is (2, norm_blocks(R, D), D), or begins with 1 to leave out the second sum, or
    ends in 0 to leave out both.
    """
    rows, size = x.shape
    blocks = partial.shape[1]
    width = lanes(x)
    rest = size % (2 * width)
    start, stop = task_range(blocks, task, tasks)
    for block in range(start, stop):
        clear(partial, block)
        begin, end = task_range(rows, block, blocks)
        for r in range(begin, end - 1, 2):
            row = layer_norm_row(g, x, weight, mean, rstd, r)
            following = layer_norm_row(g, x, weight, mean, rstd, r + 1)
            for d in range(0, size - rest, 2 * width):
                layer_norm_slopes(width, g, x, weight, r, d, row, following, dx, block, partial)
                layer_norm_slopes(width, g, x, weight, r, d + width, row, following, dx, block, partial)
            if rest:
                d, e = size - rest, size - rest + width
                layer_norm_slopes(rest, g, x, weight, r, d, row, following, dx, block, partial)
                layer_norm_slopes(rest - width, g, x, weight, r, e, row, following, dx, block, partial)
        if (end - begin) % 2:
            row = layer_norm_row(g, x, weight, mean, rstd, end - 1)
            for d in range(0, size, width):
                layer_norm_last(size - d, g, x, weight, end - 1, d, row, dx, block, partial)


@device_function
def scaled_by(count, x, r, d, scale, weight, y):
    """y_rd = w_d x_rd scale_r."""
    store_first(count, weighted(count, mul(load_first(count, x, r, d), scale), weight, d), y, r, d)


@device_function
def squares(begin, end, x, r):
    """The sum of x_rd^2, begin <= d < end, in the lanes of two registers."""
    s = t = zero(x)
    for d in range(begin, end, 2 * lanes(x)):
        s = add_square(load_first(lanes(x), x, r, d), s)
        t = add_square(load_first(lanes(x), x, r, d + lanes(x)), t)
    return s, t


@kernel(tasks=lambda x, *_: num_tasks(x.size // 6 + 8 * x.shape[0], x.shape[0]))
def rms_norm(x, weight, eps, y, rstd, task, tasks):
    """y_rd = w_d x_rd rstd_r with rstd_r = 1 / sqrt(sum_d x_rd^2 / D + eps), kept for backward.

    weight is (D,), or (0,) for none.
    """
    size, width = x.shape[1], lanes(x)
    rest = size % (2 * width)
    one, count = x.dtype.type(1), x.dtype.type(size)
    start, stop = task_range(x.shape[0], task, tasks)
    for r in range(start, stop):
        s, t = sums_of_blocks(squares, size - rest, x, r)
        if rest:
            s = add_square(load_first(rest, x, r, size - rest), s)
            t = add_square(load_first(rest - width, x, r, size - rest + width), t)
        rstd[r] = one / np.sqrt(sum_lanes(add(s, t)) / count + eps)
        scale = splat(x, rstd[r])
        for d in range(0, size - rest, width):
            scaled_by(width, x, r, d, scale, weight, y)
        if rest:
            scaled_by(rest, x, r, size - rest, scale, weight, y)
            scaled_by(rest - width, x, r, size - rest + width, scale, weight, y)


@device_function
def rms_norm_sums(count, g, x, weight, r, d, scale, block, partial, sum_hn):
    """sum_hn + h_rd n_rd, after g_rd n_rd has been added to the block's part."""
    up = load_first(count, g, r, d)
    n = mul(load_first(count, x, r, d), scale)
    if partial.size > 0:
        add_to(count, mul(up, n), partial, 0, block, d)
    return fma(weighted(count, up, weight, d), n, sum_hn)


@device_function
def rms_norm_block(begin, end, x, g, weight, r, scale, block, partial):
    """`rms_norm_sums` for begin <= d < end."""
    sum_hn = zero(x)
    for d in range(begin, end, lanes(x)):
        sum_hn = rms_norm_sums(lanes(x), g, x, weight, r, d, scale, block, partial, sum_hn)
    return sum_hn, zero(x)


@device_function
def rms_norm_slope(count, g, x, weight, r, d, scale, mean_hn, dx):
    """dx_rd = scale_r (h_rd - n_rd mean_hn)."""
    n = mul(load_first(count, x, r, d), scale)
    h = weighted(count, load_first(count, g, r, d), weight, d)
    store_first(count, mul(scale, sub(h, mul(n, mean_hn))), dx, r, d)


@kernel(
    "partial[sums, blocks, D | 0]",
    tasks=lambda *args: args[-1].shape[1],
)
def rms_norm_backward(g, x, weight, rstd, dx, partial, task, tasks):
    """With n_rd = x_rd rstd_r and h_rd = w_d g_rd:

    dx_rd = rstd_r (h_rd - n_rd sum_k h_rk n_rk / D), and for each block of rows
    partial_0,block,d = sum_r g_rd n_rd, a part of dw_d.
    weight may be (0,) for none; partial is (1, norm_blocks(R, D), D), or ends in 0 where dw is not wanted.
    """
    rows, size = x.shape
    blocks = partial.shape[1]
    width = lanes(x)
    rest = size % width
    count = x.dtype.type(size)
    start, stop = task_range(blocks, task, tasks)
    for block in range(start, stop):
        clear(partial, block)
        begin, end = task_range(rows, block, blocks)
        for r in range(begin, end):
            scale = splat(x, rstd[r])
            sum_hn, _ = sums_of_blocks(rms_norm_block, size - rest, x, g, weight, r, scale, block, partial)
            if rest:
                sum_hn = rms_norm_sums(rest, g, x, weight, r, size - rest, scale, block, partial, sum_hn)
            mean_hn = splat(x, sum_lanes(sum_hn) / count)
            for d in range(0, size - rest, width):
                rms_norm_slope(width, g, x, weight, r, d, scale, mean_hn, dx)
            if rest:
                rms_norm_slope(rest, g, x, weight, r, size - rest, scale, mean_hn, dx)

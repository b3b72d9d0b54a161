"""Layer norm and RMS norm over the rows of x (R, D).

The gradients of weight and bias are sums over all rows. Each of a fixed number of blocks of rows sums its own
part in `scratch`, and the parts are added in order: the result does not depend on the number of threads.
"""

import numpy as np

from tinytensor.kernels.kernel import kernel


@kernel()
def layer_norm(x, weight, bias, eps, y, mean, rstd, task, tasks):
    """y_rd = w_d (x_rd - mean_r) rstd_r + b_d with rstd_r = 1 / sqrt(var_r + eps), var_r = sum_d (x_rd - mean_r)^2 / D.

    weight and bias are (D,), or (0,) for none; mean and rstd (R,) are kept for backward.
    """
    size = x.shape[1]
    zero, one, count = x.dtype.type(0), x.dtype.type(1), x.dtype.type(size)
    for r in range(x.shape[0]):
        a, b = x[r], y[r]
        total = zero
        for d in range(size):
            total += a[d]
        mu = total / count
        total = zero
        for d in range(size):
            total += (a[d] - mu) * (a[d] - mu)
        scale = one / np.sqrt(total / count + eps)
        for d in range(size):
            b[d] = (a[d] - mu) * scale
        if weight.size > 0:
            for d in range(size):
                b[d] *= weight[d]
        if bias.size > 0:
            for d in range(size):
                b[d] += bias[d]
        mean[r] = mu
        rstd[r] = scale


def layer_norm_backward_scratch(R, D):
    """The shape of the scratch array of layer_norm_backward for x (R, D)."""
    return (min(16, (R + 31) // 32), 2, D)


@kernel()
def layer_norm_backward(g, x, weight, mean, rstd, dx, dweight, dbias, scratch, task, tasks):
    """With n_rd = (x_rd - mean_r) rstd_r and h_rd = w_d g_rd:

    dx_rd = rstd_r (h_rd - sum_k h_rk / D - n_rd sum_k h_rk n_rk / D), dw_d = sum_r g_rd n_rd, db_d = sum_r g_rd.
    weight, dweight and dbias may be (0,) for none. scratch has the shape layer_norm_backward_scratch(R, D).
    """
    rows, size = x.shape
    blocks = scratch.shape[0]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    inverse = one / x.dtype.type(size) if size > 0 else zero
    for block in range(blocks):
        for d in range(size):
            scratch[block, 0, d] = zero
            scratch[block, 1, d] = zero
        for r in range(block * rows // blocks, (block + 1) * rows // blocks):
            mu, scale = mean[r], rstd[r]
            sum_h, sum_hn = zero, zero
            for d in range(size):
                h = g[r, d] * (weight[d] if weight.size > 0 else one)
                n = (x[r, d] - mu) * scale
                sum_h += h
                sum_hn += h * n
                scratch[block, 0, d] += g[r, d] * n
                scratch[block, 1, d] += g[r, d]
            sum_h *= inverse
            sum_hn *= inverse
            for d in range(size):
                h = g[r, d] * (weight[d] if weight.size > 0 else one)
                n = (x[r, d] - mu) * scale
                dx[r, d] = scale * (h - sum_h - n * sum_hn)
    for d in range(dweight.size):
        dweight[d] = zero
        for block in range(blocks):
            dweight[d] += scratch[block, 0, d]
    for d in range(dbias.size):
        dbias[d] = zero
        for block in range(blocks):
            dbias[d] += scratch[block, 1, d]


@kernel()
def rms_norm(x, weight, eps, y, rstd, task, tasks):
    """y_rd = w_d x_rd rstd_r with rstd_r = 1 / sqrt(sum_d x_rd^2 / D + eps), kept for backward.

    weight is (D,), or (0,) for none.
    """
    size = x.shape[1]
    zero, one, count = x.dtype.type(0), x.dtype.type(1), x.dtype.type(size)
    for r in range(x.shape[0]):
        a, b = x[r], y[r]
        total = zero
        for d in range(size):
            total += a[d] * a[d]
        scale = one / np.sqrt(total / count + eps)
        for d in range(size):
            b[d] = a[d] * scale
        if weight.size > 0:
            for d in range(size):
                b[d] *= weight[d]
        rstd[r] = scale


def rms_norm_backward_scratch(R, D):
    """The shape of the scratch array of rms_norm_backward for x (R, D)."""
    return (min(16, (R + 31) // 32), D)


@kernel()
def rms_norm_backward(g, x, weight, rstd, dx, dweight, scratch, task, tasks):
    """With n_rd = x_rd rstd_r and h_rd = w_d g_rd:

    dx_rd = rstd_r (h_rd - n_rd sum_k h_rk n_rk / D), dw_d = sum_r g_rd n_rd.
    weight and dweight may be (0,) for none. scratch has the shape rms_norm_backward_scratch(R, D).
    """
    rows, size = x.shape
    blocks = scratch.shape[0]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    inverse = one / x.dtype.type(size) if size > 0 else zero
    for block in range(blocks):
        for d in range(size):
            scratch[block, d] = zero
        for r in range(block * rows // blocks, (block + 1) * rows // blocks):
            scale = rstd[r]
            sum_hn = zero
            for d in range(size):
                n = x[r, d] * scale
                sum_hn += g[r, d] * (weight[d] if weight.size > 0 else one) * n
                scratch[block, d] += g[r, d] * n
            sum_hn *= inverse
            for d in range(size):
                h = g[r, d] * (weight[d] if weight.size > 0 else one)
                dx[r, d] = scale * (h - x[r, d] * scale * sum_hn)
    for d in range(dweight.size):
        dweight[d] = zero
        for block in range(blocks):
            dweight[d] += scratch[block, d]

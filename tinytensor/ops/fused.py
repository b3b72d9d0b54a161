"""Operations with their own kernels for forward and backward, each with its definition in simpler operations."""

import math

import numpy as np

from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import check, contiguous, empty, launch, move
from tinytensor.core.op import op
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import promote_floats_to_exact, refuse_bools
from tinytensor.ops.arrays import absent_input, apply_formula, as_rows, constants, matrix_product, reduce_array, setting
from tinytensor.ops.creation import ones, tensor
from tinytensor.ops.elementwise import exp, logical_and, maximum, relu_backward, sqrt, true_divide, where
from tinytensor.ops.index import gather, no_index_is_bad
from tinytensor.ops.products import matmul
from tinytensor.ops.reduce import amax, amin, mean, sum
from tinytensor.ops.shape import expand, expand_op, reshape, t, transpose
from tinytensor.ops.softmax import log_softmax_op


@op
class linear_op:
    r"y_{ij} = \sum_k x_{ik} w_{jk} + b_j"

    gradient = (
        r"\frac{\partial L}{\partial x_{ik}} = \sum_j g_{ij} w_{jk}",
        r"\frac{\partial L}{\partial w_{jk}} = \sum_i g_{ij} x_{ik}",
        r"\frac{\partial L}{\partial b_j} = \sum_i g_{ij}",
    )

    def forward(x, weight, bias):
        return _rows_by_weight(x, weight, bias, False)

    def backward(needs, accumulated, g, x, weight):
        g, x_rows = _flat_rows(g), _flat_rows(x)
        accumulated = None if accumulated is None else _neighbours(_flat_rows(accumulated))[None]
        dx = matrix_product(g[None], weight[None], accumulated)[0].reshape(x.shape) if needs[0] else None
        dweight = _weight_gradient(g, x_rows, weight) if needs[1] else None
        dbias = reduce_array(kernels.reduce_sum, g, (0,), False) if needs[2] else None
        return dx, dweight, dbias

    def definition(x, weight, bias):
        y = matmul(x, t(weight))
        return y if bias is None else y + bias


@op
class linear_relu_op:
    r"y_{ij} = \max(0, \sum_k x_{ik} w_{jk} + b_j): only this one needs its y again, which may not be changed then"

    gradient = (
        r"h_{ij} = g_{ij} [y_{ij} > 0]",
        r"\frac{\partial L}{\partial x_{ik}} = \sum_j h_{ij} w_{jk}",
        r"\frac{\partial L}{\partial w_{jk}} = \sum_i h_{ij} x_{ik}",
        r"\frac{\partial L}{\partial b_j} = \sum_i h_{ij}",
    )

    def forward(x, weight, bias):
        return _rows_by_weight(x, weight, bias, True)

    def backward(needs, accumulated, g, y, x, weight):
        return linear_op.backward(needs, accumulated, apply_formula(relu_backward.kernel, g, y), x, weight)

    def definition(x, weight, bias):
        return maximum(linear_op.definition(x, weight, bias), 0)


def _rows_by_weight(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, relu: bool) -> np.ndarray:
    y = matrix_product(_flat_rows(x)[None], weight.T[None], bias, relu)
    return y.reshape(*x.shape[:-1], weight.shape[0])


def _weight_gradient(g: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """g^T x (N, K) of rows g (R, N) and x (R, K), laid out in memory as the weight is.

    A weight that is stored as (K, N) arrives here as its transpose, and its gradient goes back through a transposition.
    In this layout the gradient of the leaf is contiguous without a copy.
    """
    if weight.T.flags.c_contiguous and x.shape[1] > 1:
        return matrix_product(x.T[None], g[None])[0].T
    return matrix_product(g.T[None], x[None])[0]


def _flat_rows(x: np.ndarray) -> np.ndarray:
    """x (..., n) as rows (R, n) of any strides, copied only if necessary."""
    shape = math.prod(x.shape[:-1]), x.shape[-1]
    try:
        return np.reshape(x, shape, copy=False)
    except ValueError:
        return contiguous(x).reshape(shape)


@register("linear F.linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """y = x w^T + b, then max(0, y) if relu; x (..., K), w (N, K), b (N)."""
    if weight.ndim == 1 and bias is None and not relu:
        return matmul(x, weight)
    if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
        raise RuntimeError(
            f"linear: x {x.shape} with weight {weight.shape}: the last size of x must be the last size of the weight "
            "(out, in)"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise RuntimeError(f"linear: bias {bias.shape} with weight {weight.shape}: expected shape {weight.shape[:1]}")
    x, weight, bias = promote_floats_to_exact(x, weight, bias)
    if len({v.dtype for v in (x, weight, bias) if v is not None}) > 1:
        raise RuntimeError(
            f"linear: x is {x.dtype}, weight is {weight.dtype}: the dtypes must be equal; use .to(dtype)"
        )
    refuse_bools("linear", x)
    return linear_relu_op(x, weight, bias) if relu else linear_op(x, weight, bias)


@op
class layer_norm_op:
    r"y_i = \gamma_i (x_i - \mu) / \sqrt{\sigma^2 + \epsilon} + \delta_i along the last dimension"

    gradient = (
        r"z_{ni} = r_n (x_{ni} - \mu_n); in each row n, with r = 1 / \sqrt{\sigma^2 + \epsilon}",
        r"h_{ni} = \gamma_i g_{ni}",
        r"\frac{\partial L}{\partial x_{ni}} = r_n (h_{ni} - \frac1D \sum_j h_{nj} (1 + z_{ni} z_{nj}))",
        r"\frac{\partial L}{\partial \gamma_i} = \sum_n g_{ni} z_{ni}",
        r"\frac{\partial L}{\partial \delta_i} = \sum_n g_{ni}",
    )

    saved = ("mean", "rstd")

    def forward(x, weight, bias, eps):
        rows = as_rows(x)
        y, mean, rstd = empty(rows.shape, x.dtype), empty(rows.shape[:1], x.dtype), empty(rows.shape[:1], x.dtype)
        weight, bias = (absent_input(x) if p is None else contiguous(p) for p in (weight, bias))
        launch(kernels.layer_norm, rows, weight, bias, setting(eps, x.dtype), y, mean, rstd)
        return y.reshape(x.shape), mean, rstd

    def backward(needs, g, x, weight, mean, rstd):
        rows = as_rows(x)
        dx = empty(rows.shape, x.dtype)
        gamma = absent_input(x) if weight is None else contiguous(weight)
        sums = empty((2 if needs[2] else 1, rows.shape[1] if needs[1] or needs[2] else 0), x.dtype)
        launch(kernels.layer_norm_backward, as_rows(g), rows, gamma, mean, rstd, dx, sums)
        if rows.shape[1] == 1:  # y does not depend on x; the kernel would leave rounding errors times 1 / sqrt(eps)
            move(np.zeros((), x.dtype), dx)
        return dx.reshape(x.shape), sums[0] if needs[1] else None, sums[1] if needs[2] else None, None

    def definition(x, weight, bias, eps):
        centred = x - mean(x, -1, keepdim=True)
        y = centred / sqrt(mean(centred * centred, -1, keepdim=True) + eps)
        y = y if weight is None else y * weight
        return y if bias is None else y + bias


@op
class rms_norm_op:
    r"y_i = \gamma_i x_i / \sqrt{\frac1D \sum_j x_j^2 + \epsilon} along the last dimension"

    gradient = (
        r"z_{ni} = r_n x_{ni}; in each row n, with r = 1 / \sqrt{\frac1D \sum_j x_j^2 + \epsilon}",
        r"h_{ni} = \gamma_i g_{ni}",
        r"\frac{\partial L}{\partial x_{ni}} = r_n (h_{ni} - z_{ni} \frac1D \sum_j h_{nj} z_{nj})",
        r"\frac{\partial L}{\partial \gamma_i} = \sum_n g_{ni} z_{ni}",
    )

    saved = ("rstd",)

    def forward(x, weight, eps):
        rows = as_rows(x)
        y, rstd = empty(rows.shape, x.dtype), empty(rows.shape[:1], x.dtype)
        weight = absent_input(x) if weight is None else contiguous(weight)
        launch(kernels.rms_norm, rows, weight, setting(eps, x.dtype), y, rstd)
        return y.reshape(x.shape), rstd

    def backward(needs, g, x, weight, rstd):
        rows = as_rows(x)
        dx = empty(rows.shape, x.dtype)
        gamma = absent_input(x) if weight is None else contiguous(weight)
        sums = empty((1, rows.shape[1] if needs[1] else 0), x.dtype)
        launch(kernels.rms_norm_backward, as_rows(g), rows, gamma, rstd, dx, sums)
        return dx.reshape(x.shape), sums[0] if needs[1] else None, None

    def definition(x, weight, eps):
        y = x / sqrt(mean(x * x, -1, keepdim=True) + eps)
        return y if weight is None else y * weight


@op
class attention:
    r"y_i = \sum_m \mathrm{softmax}_m(s\, q_i \cdot k_m) v_m over the m that the mask allows; a row without any gives 0"

    gradient = (
        r"a_{im} = \frac{e^{s\, q_i \cdot k_m}}{\sum_n e^{s\, q_i \cdot k_n}}; the weights, 0 where the mask forbids m",
        r"u_{im} = a_{im} (g_i \cdot v_m - g_i \cdot y_i); the gradient of the scores, through the softmax",
        r"\frac{\partial L}{\partial q_i} = s \sum_m u_{im} k_m",
        r"\frac{\partial L}{\partial k_m} = s \sum_i u_{im} q_i",
        r"\frac{\partial L}{\partial v_m} = \sum_i a_{im} g_i",
    )

    saved = ("lse",)

    def forward(q, k, v, mask, scale, is_causal):
        B, H, C, _ = q.shape
        M, Kv = v.shape[-2:]
        # The result is laid out as the queries: heads cut from rows stay side by side, and join without a copy.
        side_by_side = 0 < q.strides[1] < q.strides[2]
        y = empty((B, C, H, Kv), q.dtype).transpose(0, 2, 1, 3) if side_by_side else empty((B, H, C, Kv), q.dtype)
        lse = empty((B, H, C), q.dtype)
        args = *(_neighbours(x) for x in (q, k, v)), _mask(mask, (B, H, C, M)), setting(scale, q.dtype), int(is_causal)
        launch(kernels.attention, *args, y, lse)
        return y, lse

    def backward(g, y, q, k, v, mask, scale, is_causal, lse):
        B, H, C, K = q.shape
        M, Kv = v.shape[-2:]
        dq, dk, dv = (empty((B, n, H, w), q.dtype).transpose(0, 2, 1, 3) for n, w in ((C, K), (M, K), (M, Kv)))
        settings = lse, setting(scale, q.dtype), int(is_causal)
        heads = [_neighbours(x) for x in (g, q, k, v)]
        mask = _mask(mask, (B, H, C, M))
        launch(kernels.attention_backward, *heads, mask, y, *settings, dq, dk, dv)
        return dq, dk, dv, None, None, None

    def definition(q, k, v, mask, scale, is_causal):
        scores = matmul(q, transpose(k, -1, -2)) * scale
        allowed = ones(scores.shape[-2:], dtype=bool) if mask is None else mask
        if is_causal:
            allowed = logical_and(allowed, tensor(constants(np.tri, *scores.shape[-2:], 0, dtype=bool)))
        allowed = expand(allowed, scores.shape)
        lowest = amin(scores.detach(), -1, keepdim=True)
        peak = amax(where(allowed, scores.detach(), lowest), -1, keepdim=True)
        e = where(allowed, exp(where(allowed, scores - peak, 0)), 0)
        total = sum(e, -1, keepdim=True)
        return matmul(e / where(total == 0, 1, total), v)


def _neighbours(x: np.ndarray) -> np.ndarray:
    """x, or a copy if the elements of a row are not neighbours in memory, which the kernel assumes."""
    return x if x.strides[-1] == x.itemsize else contiguous(x)


def _mask(mask: np.ndarray | None, shape: tuple) -> np.ndarray:
    return np.empty((0, 0, 0, 0), bool) if mask is None else expand_op.view(mask, shape)


@op
class cross_entropy_rows:
    r"y_i = \ln \sum_j e^{x_{ij}} - (1 - s) x_{i t_i} - \frac{s}{V} \sum_j x_{ij}; 0 where t_i is the ignored index"

    gradient = (
        r"q_{ij} = \frac{e^{x_{ij}}}{\sum_k e^{x_{ik}}}; the prediction",
        r"p_{ij} = (1 - s) [j = t_i] + \frac{s}{V}; the target, smoothed by s",
        r"\frac{\partial L}{\partial x_{ij}} = g_i (q_{ij} - p_{ij}); 0 where t_i is the ignored index",
    )

    saved = ("lse",)

    def forward(x, target, ignore_index, label_smoothing):
        rows = contiguous(x)
        y, lse = empty(rows.shape[:1], x.dtype), empty(rows.shape[:1], x.dtype)
        settings = ignore_index, setting(label_smoothing, x.dtype)
        bad, classes = no_index_is_bad(), rows.shape[1]
        launch(kernels.cross_entropy, rows, contiguous(target), *settings, y, lse, bad)
        check(bad, lambda bad: _refuse_target(bad[1], classes, ignore_index))
        return y, lse

    def backward(g, x, target, ignore_index, label_smoothing, lse):
        dx = empty(x.shape, x.dtype)
        settings = lse, ignore_index, setting(label_smoothing, x.dtype)
        launch(kernels.cross_entropy_backward, g, contiguous(x), contiguous(target), *settings, dx)
        return dx, None, None, None

    def definition(x, target, ignore_index, label_smoothing):
        counted = target != ignore_index
        logp = log_softmax_op.definition(x)
        picked = reshape(gather(logp, 1, reshape(where(counted, target, 0), (-1, 1))), (-1,))
        loss = -picked if label_smoothing == 0 else -(picked * (1 - label_smoothing) + mean(logp, 1) * label_smoothing)
        return where(counted, loss, 0)


@op
class cross_entropy_mean:
    r"y = \frac1n \sum_i \ell_i: the mean of cross_entropy_rows over the n rows whose target is not the ignored index"

    gradient = (
        r"q_{ij} = \frac{e^{x_{ij}}}{\sum_k e^{x_{ik}}}; the prediction",
        r"p_{ij} = (1 - s) [j = t_i] + \frac{s}{V}; the target, smoothed by s",
        r"\frac{\partial L}{\partial x_{ij}} = \frac{g}{n} (q_{ij} - p_{ij}); 0 where t_i is the ignored index",
    )

    saved = ("lse", "count")

    def forward(x, target, ignore_index, label_smoothing):
        losses, lse = cross_entropy_rows.forward(x, target, ignore_index, label_smoothing)
        y, count = empty((1,), x.dtype), empty((1,), x.dtype)
        launch(kernels.mean_of_counted, losses, contiguous(target), ignore_index, y, count)
        return y.reshape(()), lse, count

    def backward(g, x, target, ignore_index, label_smoothing, lse, count):
        each = np.broadcast_to(apply_formula(true_divide.kernel, g, count), target.shape)
        return cross_entropy_rows.backward(each, x, target, ignore_index, label_smoothing, lse)

    def definition(x, target, ignore_index, label_smoothing):
        losses = cross_entropy_rows.definition(x, target, ignore_index, label_smoothing)
        return sum(losses) / sum((target != ignore_index).to(x.dtype))


def _refuse_target(target: int, classes: int, ignore_index: int) -> None:
    raise IndexError(
        f"cross_entropy: target {target} is outside 0 to {classes - 1} (and is not ignore_index {ignore_index})"
    )

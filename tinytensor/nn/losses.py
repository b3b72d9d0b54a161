"""Losses: functions that compare a model's outputs with their targets.

Each computes a number for every position, and returns the mean or the sum of them. The modules (`nn.CrossEntropyLoss`)
are made from these functions.
"""

import math
import warnings

import numpy as np

from tinytensor.core.dispatch import host
from tinytensor.core.dtypes import int64, result_type
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import expect_probabilities, only_floats, whole_number
from tinytensor.ops.creation import arange, ones_like
from tinytensor.ops.elementwise import (
    absolute,
    clamp_min,
    clipped_log,
    exp,
    huber_slope,
    log,
    logsigmoid,
    minimum,
    relu,
    sqrt,
    where,
)
from tinytensor.ops.fused import cross_entropy_mean, cross_entropy_rows
from tinytensor.ops.index import check_range
from tinytensor.ops.index import embedding as rows_of
from tinytensor.ops.reduce import norm
from tinytensor.ops.shape import broadcast_tensors
from tinytensor.ops.softmax import log_softmax


def _reduced(loss: Tensor, reduction: str, total: Tensor | None, what: str) -> Tensor:
    """The loss of each position, or their sum, or their mean (over `total` counted positions)."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction == "mean":
        return loss.mean() if total is None else loss.sum() / total
    raise ValueError(f"{what}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def _classes_last(x: Tensor) -> Tensor:
    """(V,) or (N, V, d1, ...) as rows (N d1 ..., V)."""
    if x.ndim == 2:
        return x
    if x.ndim > 2:
        x = x.movedim(1, -1)
    return x.reshape((-1, x.shape[-1])) if x.shape[-1] else x.reshape((0, 0))


@register("F.cross_entropy nn.CrossEntropyLoss")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""H(p, q) = -\sum_j p^j \ln q^j with q = softmax(input) (003, eqs. 12-16).

    input (V,), (N, V) or (N, V, d1, ...). target: class indices (int64), or class probabilities in the shape of the
    input (the general p of eq. 13). Positions with the target `ignore_index` count neither in the sum nor in the mean;
    the mean of no position is NaN, as in PyTorch.
    """
    what = "cross_entropy"
    for name, value in (("input", input), ("target", target)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{what}: the {name} must be a tensor, got {type(value).__name__}; use tinytensor.tensor()")
    only_floats(what, input)
    ignore_index, shape = _ignored(what, ignore_index), input.shape
    if not shape:
        raise RuntimeError(f"{what}: expected logits of shape (V,), (N, V) or (N, V, ...), got {shape}")
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"{what}: label_smoothing must be between 0 and 1, got {label_smoothing}")
    V = shape[0] if len(shape) == 1 else shape[1]
    if weight is not None:
        input, weight = only_floats(what, input, weight)
        if weight.shape != (V,):
            raise RuntimeError(f"{what}: weight of shape {weight.shape}, but there are {V} classes")
    target_kind = target.dtype.kind
    if target_kind in "fO":
        if ignore_index >= 0:
            raise RuntimeError(
                f"{what}: ignore_index = {ignore_index} has no meaning where the targets are probabilities"
            )
        return _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing, V)
    expected = () if len(shape) == 1 else (shape[0], *shape[2:])
    if target.shape != expected:
        raise RuntimeError(
            f"{what}: input of shape {shape} needs targets of shape {expected} (class indices), or class "
            f"probabilities of shape {shape}; got {target.shape}"
        )
    if target_kind not in "iu":
        raise RuntimeError(f"{what}: expected integer class indices or probabilities, got {target.dtype}")
    rows, flat = _classes_last(input), (target if len(shape) == 2 else target.reshape((-1,))).to(int64)
    if weight is None and reduction == "mean":
        return cross_entropy_mean(rows, flat, ignore_index, label_smoothing)
    if weight is None:
        losses, total = cross_entropy_rows(rows, flat, ignore_index, label_smoothing), None
    else:
        losses, counted = cross_entropy_rows(rows, flat, ignore_index, 0.0), flat != ignore_index
        weights = where(counted, rows_of(where(counted, flat, 0), weight.reshape((-1, 1)))[:, 0], 0)
        losses, total = losses * weights, weights.sum()
        if label_smoothing:
            spread = -(log_softmax(rows, -1) * weight).sum(-1) * (label_smoothing / V)
            losses = losses * (1 - label_smoothing) + where(counted, spread, 0)
    return _reduced(losses.reshape(expected), reduction, total, what)


def _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing, V):
    if target.shape != input.shape:
        raise RuntimeError(
            f"cross_entropy: class probabilities of shape {target.shape}, but the input has shape {input.shape}"
        )
    p = _classes_last(target)
    if label_smoothing:
        p = p * (1 - label_smoothing) + label_smoothing / V
    terms = p * log_softmax(_classes_last(input), -1)
    losses = -(terms if weight is None else terms * weight).sum(-1)
    shape = () if input.ndim == 1 else (input.shape[0], *input.shape[2:])
    return _reduced(losses.reshape(shape), reduction, None, "cross_entropy")


def _ignored(what: str, ignore_index: int) -> int:
    """`ignore_index` as kernels expect it: a whole number of 64 bits."""
    number = ignore_index if ignore_index.__class__ is int else whole_number(ignore_index, f"{what}: ignore_index")
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{what}: ignore_index is {number}, which is too large")
    return number


@register("F.nll_loss nn.NLLLoss")
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """y_i = -x_{i, t_i}, for log-probabilities (N, V) or (N, V, d1, ...)."""
    if input.ndim == 0:
        raise ValueError("nll_loss: expected log-probabilities (V,) or (N, V, ...), got a 0-d tensor")
    shape = () if input.ndim == 1 else (input.shape[0], *input.shape[2:])
    if target.shape != shape:
        raise RuntimeError(f"nll_loss: input of shape {input.shape} needs targets of shape {shape}, got {target.shape}")
    input, weight = only_floats("nll_loss", input, weight)
    ignore_index = _ignored("nll_loss", ignore_index)
    if target.dtype.kind not in "iu":
        raise RuntimeError(f"nll_loss: expected integer class indices, got {target.dtype}")
    rows, flat = _classes_last(input), target.reshape((-1,)).to(int64)
    counted = flat != ignore_index
    safe = where(counted, flat, 0)
    picked = rows.gather(1, safe.unsqueeze(1))[:, 0]
    weights = ones_like(picked.detach()) if weight is None else rows_of(safe, weight.unsqueeze(1))[:, 0]
    weights = where(counted, weights, 0)
    losses = where(counted, -picked * weights, 0)
    return _reduced(losses.reshape(shape), reduction, weights.sum(), "nll_loss")


def _difference(input: Tensor, target: Tensor, what: str) -> Tensor:
    """input - target, with a warning if the shapes differ: broadcasting is rarely meant here."""
    if input.shape != target.shape:
        together = broadcast_shape(what, input.shape, target.shape)
        warnings.warn(
            f"{what}: the target has shape {target.shape}, and the input {input.shape}: they are broadcast to "
            f"{together}, which is rarely intended; bring both to one shape, with .view_as() or .squeeze()",
            stacklevel=4,
        )
        input, target = input.expand(together), target.expand(together)  # so that a 0-d one counts for the dtype
    dtype = result_type(input, target)
    only_floats(what, dtype)
    return input.to(dtype) - target.to(dtype)


@register("F.mse_loss nn.MSELoss")
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """y = (x - t)^2, and its mean."""
    difference = _difference(input, target, "mse_loss")
    return _reduced(difference * difference, reduction, None, "mse_loss")


@register("F.l1_loss nn.L1Loss")
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """y = |x - t|, and its mean."""
    return _reduced(absolute(_difference(input, target, "l1_loss")), reduction, None, "l1_loss")


def _huber(difference: Tensor, delta: float) -> Tensor:
    r"""d^2 / 2 where |d| < \delta, else \delta (|d| - \delta / 2)."""
    # With m = d clamped to [-delta, delta], both cases are m (d - m / 2). (|d| instead of d has no derivative at 0.)
    m = huber_slope(difference, -delta, delta)
    return m * (difference - m / 2)


@register("F.huber_loss nn.HuberLoss")
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    r"""y = (x - t)^2 / 2 where |x - t| < \delta, else \delta (|x - t| - \delta / 2)."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be positive, got {delta}")
    return _reduced(_huber(_difference(input, target, "huber_loss"), delta), reduction, None, "huber_loss")


@register("F.smooth_l1_loss nn.SmoothL1Loss")
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    r"""y = (x - t)^2 / 2 \beta where |x - t| < \beta, else |x - t| - \beta / 2."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    difference = _difference(input, target, "smooth_l1_loss")
    loss = _huber(difference, beta) / beta if beta else absolute(difference)
    return _reduced(loss, reduction, None, "smooth_l1_loss")


@register("F.kl_div nn.KLDivLoss")
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    r"""t (\ln t - x), for log-probabilities x and probabilities t (their logarithms if log_target); 0 where t = 0.

    reduction="batchmean" gives the divergence of distributions (N, V): the sum divided by N. A target that is 0 has the
    gradient 0 - x, without the logarithm, which would be infinite there.
    """
    broadcast_shape("kl_div", input.shape, target.shape)
    for x in (input, target):
        only_floats("kl_div", x)
    if log_target:
        loss = exp(target) * (target - input)
    else:
        loss = target * log(where(target == 0, 1, target)) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return _reduced(loss, reduction, None, "kl_div")


@register("F.binary_cross_entropy nn.BCELoss")
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    r"""y = -(t \ln x + (1 - t) \ln(1 - x)) for probabilities x, with logarithms of at least -100."""
    what = "binary_cross_entropy"
    if input.shape != target.shape:
        raise ValueError(f"{what}: target of shape {target.shape}, but the input has shape {input.shape}")
    only_floats(what, input)
    expect_probabilities(what, input, "; use binary_cross_entropy_with_logits for other numbers")
    loss = -(target * clipped_log(input) + (1 - target) * clipped_log(1 - input))
    return _reduced(loss if weight is None else loss * weight, reduction, None, what)


@register("F.binary_cross_entropy_with_logits nn.BCEWithLogitsLoss")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    r"""y = -(t \ln \sigma(x) + (1 - t) \ln(1 - \sigma(x))), computed so that large |x| do not overflow."""
    if input.shape != target.shape:
        raise ValueError(
            f"binary_cross_entropy_with_logits: target of shape {target.shape}, but the input has shape {input.shape}"
        )
    only_floats("binary_cross_entropy_with_logits", input)
    log_of_positive, log_of_negative = logsigmoid(input), logsigmoid(-input)
    positive = target if pos_weight is None else target * pos_weight
    loss = -(positive * log_of_positive + (1 - target) * log_of_negative)
    return _reduced(loss if weight is None else loss * weight, reduction, None, "binary_cross_entropy_with_logits")


@register("F.margin_ranking_loss nn.MarginRankingLoss")
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, -t (x - z) + margin): x should be ranked above z where t = 1, and below where t = -1."""
    return _reduced(clamp_min(-target * (input1 - input2) + margin, 0), reduction, None, "margin_ranking_loss")


@register("F.cosine_similarity nn.CosineSimilarity")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    r"""y = x \cdot z / (\max(|x|, \epsilon) \max(|z|, \epsilon)) along `dim`."""
    x1, x2 = broadcast_tensors(x1, x2)
    dtype = result_type(x1, x2)
    only_floats("cosine_similarity", dtype)
    x1, x2 = x1.to(dtype), x2.to(dtype)
    lengths = (clamp_min(norm(x, 2, dim, keepdim=True), eps) for x in (x1, x2))
    a, b = (x / length for x, length in zip((x1, x2), lengths))
    return (a * b).sum(dim)


@register("F.pairwise_distance nn.PairwiseDistance")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    r"""y = |x - z + \epsilon|_p along the last dimension."""
    return norm(x1 - x2 + eps, p, -1, keepdim)


@register("F.cosine_embedding_loss nn.CosineEmbeddingLoss")
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos(x, z) where t = 1, and max(0, cos(x, z) - margin) where t = -1."""
    tiny = 1e-12
    products = (input1 * input2).sum(-1)
    cosine = products / sqrt(((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny))
    alike, different = where(target == 1, 1 - cosine, 0), where(target == -1, clamp_min(cosine - margin, 0), 0)
    return _reduced(alike + different, reduction, None, "cosine_embedding_loss")


@register("F.triplet_margin_loss nn.TripletMarginLoss")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    r"""y = \max(0, d(a, p) - d(a, n) + margin); with `swap` d(a, n) is the smaller of d(a, n) and d(p, n)."""
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced(clamp_min(near - far + margin, 0), reduction, None, "triplet_margin_loss")


@register("F.hinge_embedding_loss nn.HingeEmbeddingLoss")
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """x where t = 1, and max(0, margin - x) where t = -1."""
    # a target that is neither counts as both, as in PyTorch
    loss = where(target != -1, input, 0) + where(target != 1, clamp_min(margin - input, 0), 0)
    return _reduced(loss, reduction, None, "hinge_embedding_loss")


@register("F.soft_margin_loss nn.SoftMarginLoss")
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    r"""\ln(1 + e^{-t x}), for t = 1 and t = -1."""
    only_floats("soft_margin_loss", input)
    return _reduced(-logsigmoid(input * target.to(input.dtype)), reduction, None, "soft_margin_loss")


@register("F.poisson_nll_loss nn.PoissonNLLLoss")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    r"""y = e^x - t x, for the logarithm x of the rate; y = x - t \ln(x + \epsilon) for the rate x if not `log_input`.

    With `full` Stirling's approximation of \ln t!, t \ln t - t + \ln(2 \pi t) / 2, is added where t > 1.
    """
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        small = target <= 1
        t = where(small, 1, target)
        loss = loss + where(small, 0, t * log(t) - t + 0.5 * log(2 * math.pi * t))
    return _reduced(loss, reduction, None, "poisson_nll_loss")


@register("F.gaussian_nll_loss nn.GaussianNLLLoss")
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    r"""y = (\ln v + (x - t)^2 / v) / 2, and \ln(2 \pi) / 2 more if `full`, with a variance v of at least \epsilon.

    var is a number, or has the shape of the input, or that without the last dimension, or with one dimension of size 1.
    Where v is less than \epsilon its gradient is the one at \epsilon, as in PyTorch, so that it can grow again.
    """
    what = "gaussian_nll_loss"
    var = var if isinstance(var, Tensor) else ones_like(input) * var
    only_floats(what, var)
    if var.dtype.kind != "O" and not var.is_meta:
        host(_refuse_negative_variances, var._data)
    if var.shape == input.shape[:-1] != input.shape:
        var = var.unsqueeze(-1)
    elif var.shape != input.shape:
        others = [m for n, m in zip(input.shape, var.shape) if n != m]
        if var.ndim != input.ndim or others != [1]:
            raise ValueError(
                f"{what}: var of shape {var.shape} for an input of shape {input.shape}; expected that shape, or that "
                "shape without its last dimension, or with one dimension of size 1"
            )
    at_least = var + clamp_min(eps - var, 0).detach()
    loss = 0.5 * (log(at_least) + (input - target) ** 2 / at_least)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, None, what)


def _refuse_negative_variances(var: np.ndarray) -> None:
    if var.size and var.min() < 0:
        raise ValueError(f"gaussian_nll_loss: expected var of 0 or more, got {var.min()}")


@register("F.multi_margin_loss nn.MultiMarginLoss")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""y = \sum_{j \ne t} w_t \max(0, m - x_t + x_j)^p / V with p = 1 or 2, for scores (N, V), or (V,) of one row.

    Where m - x_t + x_j is 0 the gradient is 0.
    """
    what = "multi_margin_loss"
    input, weight = only_floats(what, input, weight)
    if p not in (1, 2):
        raise ValueError(f"{what}: expected p of 1 or 2, got {p}")
    if input.ndim > 2 or 0 in input.shape[-1:]:
        raise RuntimeError(f"{what}: expected scores (V,) or (N, V), with at least one class, got {input.shape}")
    rows, flat = input.reshape((-1, input.shape[-1] if input.ndim else 1)), target.reshape((-1,))
    N, V = rows.shape
    if target.dtype.kind not in "iu" or target.ndim > 1 or flat.shape != (N,):
        raise RuntimeError(
            f"{what}: input of shape {input.shape} needs {N} integer class indices, got {target.dtype} {target.shape}"
        )
    if weight is not None and weight.shape != (V,):
        raise (ValueError if weight.ndim != 1 else RuntimeError)(
            f"{what}: weight of shape {weight.shape}, but there are {V} classes"
        )
    host(check_range, flat._data, V, what)
    index = flat.to(int64).unsqueeze(1)
    over = relu(margin - rows.gather(1, index) + rows)
    losses = where(index == arange(V), 0, over if p == 1 else over * over).sum(-1) / V
    losses = losses if weight is None else losses * rows_of(flat, weight.unsqueeze(1))[:, 0]
    return _reduced(losses.reshape(target.shape), reduction, None, what)


@register("F.multilabel_soft_margin_loss nn.MultiLabelSoftMarginLoss")
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    r"""y = -\sum_j (t_j \ln \sigma(x_j) + (1 - t_j) \ln \sigma(-x_j)) / V, over the last dimension of the input."""
    what = "multilabel_soft_margin_loss"
    only_floats(what, input)
    if not input.ndim:
        raise IndexError(f"{what}: expected scores of shape (..., V), got a 0-d tensor")
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return _reduced(loss.sum(input.ndim - 1) / input.shape[-1], reduction, None, what)

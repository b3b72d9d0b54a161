"""Layers as functions: PyTorch's names, shapes and defaults."""

import math
import warnings
from collections.abc import Sequence

import numpy as np

from tinytensor.autograd.function import Function
from tinytensor.core.dispatch import host
from tinytensor.core.dtypes import bool_, int64
from tinytensor.core.in_place import assign_result
from tinytensor.core.modes import no_grad
from tinytensor.core.op import Op
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.registry import REGISTRY, register
from tinytensor.core.tensor import Tensor
from tinytensor.nn import losses  # noqa: F401 (its functions appear here)
from tinytensor.ops.argument_errors import public_as
from tinytensor.ops.arguments import only_floats, rounding_error
from tinytensor.ops.arrays import constants
from tinytensor.ops.creation import arange, ones, tensor, zeros
from tinytensor.ops.elementwise import silu as silu_op
from tinytensor.ops.elementwise import where
from tinytensor.ops.fused import attention, layer_norm_op, linear, rms_norm_op
from tinytensor.ops.generator import Generator
from tinytensor.ops.in_place import in_place
from tinytensor.ops.index import check_range, scatter_rows
from tinytensor.ops.index import embedding as rows_of
from tinytensor.ops.order import drop
from tinytensor.ops.shape import cat, stack
from tinytensor.ops.softmax import softmax

# functions that are declared elsewhere: operations (tanh, gelu, softmax, linear ...), activations, losses
globals().update({appearance[2:]: function for appearance, function in REGISTRY.items() if appearance.startswith("F.")})


@register("nn.ReLU")
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """y = max(0, x); eq. (10) of 003."""
    return input.relu_() if inplace else input.relu()


@register("nn.SiLU")
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    r"""y = x \sigma(x); Elfwing and others (2017)."""
    return in_place(silu_op)(input) if inplace else silu_op(input)


def _check_probability(what: str, p: float) -> None:
    if not isinstance(p, int | float) or not 0 <= p <= 1:
        raise (ValueError if isinstance(p, int | float) else TypeError)(
            f"{what}: the probability must be between 0 and 1, got {p!r}"
        )


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """y = x / (1 - p) with probability 1 - p, else 0 (while training; otherwise y = x).

    From Srivastava and others (2014).
    """
    _check_probability("dropout", p)
    if not training or p == 0:
        return input
    if p == 1:  # no random numbers are drawn, so the dtype can stay
        y = (input * 0).to(input.dtype)
    else:
        only_floats("dropout", input)
        y = drop(input, 1 - p, generator)
    return assign_result(input, y) if inplace else y


def _drop_channels(what: str, input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    """dropout(), with one draw for each channel: dimension 1 behind a batch, else dimension 0."""
    _check_probability(what, p)
    if not training or p in (0, 1):
        return dropout(input, p, training, inplace)
    only_floats(what, input)
    channels = input.shape[: 1 + batched]
    drawn = drop(ones(*channels, *(1,) * (input.ndim - len(channels)), dtype=input.dtype), 1 - p)
    return assign_result(input, input * drawn) if inplace else input * drawn


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """y = x / (1 - p) for a whole channel with probability 1 - p, else 0; x is (N, C, L) or (C, L).

    From Tompson and others (2015).
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: input of shape {input.shape}, expected (N, C, L) or (C, L)")
    return _drop_channels("dropout1d", input, p, training, inplace, input.ndim == 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """y = x / (1 - p) for a whole channel with probability 1 - p, else 0; x is (N, C, H, W).

    As in PyTorch, three dimensions mean (N, C, L), and two mean (N, C), where each number is a channel; both give a
    warning. From Tompson and others (2015).
    """
    if input.ndim < 2:
        raise RuntimeError(f"dropout2d: input of shape {input.shape}, expected (N, C, H, W)")
    if input.ndim != 4:
        instead = {2: "dropout", 3: "dropout1d", 5: "dropout3d"}.get(input.ndim, "a shape of four dimensions")
        _warn_of_dimensions("dropout2d", input, "(N, C, H, W)", instead)
    return _drop_channels("dropout2d", input, p, training, inplace, True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """y = x / (1 - p) for a whole channel with probability 1 - p, else 0; x is (N, C, D, H, W) or (C, D, H, W).

    From Tompson and others (2015).
    """
    if input.ndim < 2:
        raise RuntimeError(f"dropout3d: input of shape {input.shape}, expected (N, C, D, H, W) or (C, D, H, W)")
    if input.ndim not in (4, 5):
        instead = {2: "dropout", 3: "dropout1d"}.get(input.ndim, "a shape of five dimensions")
        _warn_of_dimensions("dropout3d", input, "(N, C, D, H, W) or (C, D, H, W)", instead)
    return _drop_channels("dropout3d", input, p, training, inplace, input.ndim != 4)


def _warn_of_dimensions(what: str, input: Tensor, expected: str, instead: str) -> None:
    warnings.warn(
        f"{what}: input of shape {input.shape}, expected {expected}; dimension 0 is taken for the batch, "
        f"dimension 1 for the channels: use {instead}",
        stacklevel=4,
    )


class _ByFrequency(Function):
    """The rows that an index names; the gradient of a row is the mean, not the sum, over the places that name it."""

    @staticmethod
    def forward(ctx, index: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = weight.shape
        return rows_of(index, weight)

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[None, Tensor]:
        (index,) = ctx.saved_tensors
        index = index.to(int64).flatten()
        often = scatter_rows(ones(index.numel(), 1, dtype=g.dtype), index, (ctx.shape[0], 1))
        return None, scatter_rows(g.reshape(-1, ctx.shape[1]) / rows_of(index, often), index, ctx.shape)


def _shorten(index: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that the index names and that are longer than max_norm to this length, in place."""
    with no_grad():
        index = index.flatten()
        rows = rows_of(index, weight)
        length = rows.norm(norm_type, -1, keepdim=True)
        weight[index.to(int64)] = where(length > max_norm, rows * (max_norm / (length + 1e-7)), rows)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """y = weight[input]: the rows that the indices name; the row `padding_idx` gets no gradient.

    With `max_norm` the named rows whose `norm_type`-norm is larger are first scaled to it: the weight is changed in
    place, as in PyTorch. With `scale_grad_by_freq` the gradient of a row is divided by the number of indices that name
    it. `sparse` raises: gradients are dense here.
    """
    if sparse:
        raise NotImplementedError(
            "embedding: sparse=True is not offered, gradients are dense here; leave it out, the values are the same"
        )
    if max_norm is not None:
        _shorten(input, weight, max_norm, norm_type)
    y = _ByFrequency.apply(input, weight) if scale_grad_by_freq else rows_of(input, weight)
    if padding_idx is None:
        return y
    padding = (input == padding_idx % weight.shape[0]).unsqueeze(-1)
    return where(padding, y.detach(), y)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """y_{...c} = [x_{...} = c], as int64."""
    if tensor.dtype.kind != "i":
        raise RuntimeError(f"one_hot: expected an integer tensor of classes, got {tensor.dtype}")
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1 if tensor.numel() else 0
    host(check_range, tensor._data, num_classes, "one_hot")
    classes = arange(num_classes)
    return (tensor.unsqueeze(-1) == classes).to(int64)


def _check_normalized(what: str, x: Tensor, normalized_shape, **parameters: Tensor | None) -> int:
    """The number of trailing dimensions that are normalised together."""
    if not isinstance(normalized_shape, Sequence):
        raise TypeError(f"{what}: normalized_shape must be a tuple or a list of sizes, got {normalized_shape!r}")
    shape = tuple(normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise RuntimeError(f"{what}: x of shape {x.shape} does not end in the normalized shape {shape}")
    for name, p in parameters.items():
        if p is not None and p.shape != shape:
            raise RuntimeError(f"{what}: {name} of shape {p.shape}, but the normalized shape is {shape}")
    return len(shape)


def _over_last(x: Tensor, n: int, *parameters: Tensor | None):
    """The last n dimensions as one."""
    if n == 1:
        return x, parameters
    return x.flatten(-n), tuple(None if p is None else p.flatten() for p in parameters)


def layer_norm(
    input: Tensor, normalized_shape, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    r"""y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \delta over the last dimensions (000)."""
    n = _check_normalized("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    input, weight, bias = only_floats("layer_norm", input, weight, bias)
    x, (weight, bias) = _over_last(input, n, weight, bias)
    return layer_norm_op(x, weight, bias, eps).reshape(input.shape)


def rms_norm(input: Tensor, normalized_shape, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    r"""y = \gamma x / \sqrt{\overline{x^2} + \epsilon} over the last dimensions; Zhang and Sennrich (2019)."""
    n = _check_normalized("rms_norm", input, normalized_shape, weight=weight)
    input, weight = only_floats("rms_norm", input, weight)
    if eps is None:
        eps = rounding_error(input._data.dtype)
    x, (weight,) = _over_last(input, n, weight)
    return rms_norm_op(x, weight, eps).reshape(input.shape)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """y = x / max(|x|_p, eps) along `dim`."""
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""softmax(Q K^T / \sqrt{d_k} + mask) V (001; 004; eqs. 3-6 of 003), without storing the C x M weights.

    query (..., C, K), key (..., M, K), value (..., M, Kv); `attn_mask` is bool (True: may attend) or is added to the
    scores, and broadcasts to (..., C, M); `is_causal` lets row i attend to m <= i. A row that may attend to no key
    (its mask is all False or all -inf) gives 0 and no gradient. With `enable_gqa` each head of key and value
    (dimension -3) serves several heads of the query.
    """
    what = "scaled_dot_product_attention"

    def shapes() -> str:
        return f"query {query.shape}, key {key.shape}, value {value.shape}"

    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(f"{what}: {shapes()}: expected at least 2 dimensions each, (..., positions, width)")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(f"{what}: {shapes()}: query and key need one width, key and value one number of positions")
    if attn_mask is not None and attn_mask.dtype.kind not in "bfO":
        raise RuntimeError(
            f"{what}: attn_mask must be bool (True: may attend) or floating-point, got {attn_mask.dtype}"
        )
    if attn_mask is not None and is_causal:
        raise RuntimeError(f"{what}: give attn_mask or is_causal, not both; combine them in the mask")
    query, key, value = only_floats(what, query, key, value)
    if enable_gqa:
        heads = query.shape[-3] if query.ndim > 2 else 0
        if not heads or any(x.ndim < 3 or not x.shape[-3] or heads % x.shape[-3] for x in (key, value)):
            raise RuntimeError(
                f"{what}: {shapes()}: enable_gqa needs (..., heads, positions, width), and query heads that are a "
                "multiple of the heads of key and of value"
            )
        key, value = (x.repeat_interleave(heads // x.shape[-3], -3) for x in (key, value))
    C, M = query.shape[-2], key.shape[-2]
    scale = _scale(query, scale)
    if isinstance(scale, float) and not -math.inf < scale < math.inf:
        raise ValueError(f"{what}: the scale must be finite, got {scale}")
    try:
        batch = broadcast_shape(what, query.shape[:-2], key.shape[:-2], value.shape[:-2])
        if attn_mask is not None and broadcast_shape(what, attn_mask.shape, (*batch, C, M)) != (*batch, C, M):
            raise RuntimeError
    except RuntimeError:
        mask = "" if attn_mask is None else f", mask {attn_mask.shape}"
        raise RuntimeError(f"{what}: {shapes()}{mask}: these shapes do not broadcast") from None
    if dropout_p > 0 or (attn_mask is not None and attn_mask.dtype != bool_):
        weights = attention_weights(query, key, attn_mask, is_causal, scale)
        return dropout(weights, dropout_p, generator=generator).matmul(value)

    def four(x: Tensor) -> Tensor:  # (B, H, positions, width)
        shape = (*batch, *x.shape[-2:])
        x = x if x.shape == shape else x.expand(shape)
        return x if len(batch) == 2 else x.reshape((1, math.prod(batch), *x.shape[-2:]))

    if attn_mask is not None:
        attn_mask = four(attn_mask.expand((*batch, C, M)))
    y = attention(four(query), four(key), four(value), attn_mask, scale, is_causal)
    return y if len(batch) == 2 else y.reshape((*batch, C, value.shape[-1]))


def _scale(query: Tensor, scale: float | None) -> float:
    """The factor of the scores; for width 0, where all scores are 0, it is 1."""
    return 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale


def attention_weights(
    query: Tensor, key: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    r"""A = softmax(Q K^T / \sqrt{d_k} + mask): rows of weights over the keys, (..., C, M) (001, step 2).

    A row that may attend to no key is 0: its mask is all False (bool) or all -inf (float).
    """
    scores = query.matmul(key.transpose(-1, -2)) * _scale(query, scale)
    if is_causal:
        attn_mask = tensor(constants(np.tri, *scores.shape[-2:], 0, dtype=bool))
    if attn_mask is None:
        return softmax(scores, -1)
    if attn_mask.dtype.kind == "O":  # exact scalars are finite
        return softmax(scores + attn_mask, -1)
    if (
        attn_mask.dtype != bool_
    ):  # -inf excludes an entry, as False does; added to all scores of a row it would give NaN
        finite = attn_mask != -math.inf
        scores, attn_mask = scores + where(finite, attn_mask, 0), finite
    allowed = attn_mask.expand(scores.shape)
    none = allowed.any(-1, keepdim=True).logical_not()
    masked = where(allowed.logical_or(none), scores, -math.inf)
    return where(none, 0, softmax(masked, -1))


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride=1, padding=0, dilation=1, groups: int = 1
) -> Tensor:
    r"""y_{n o l} = b_o + \sum_{c k} w_{o c k} x_{n c (s l + d k)}: x (N, C, L) or (C, L), w (out, C / groups, kernel).

    With several groups the channels of x and of the result are split alike, and each part reads only its own channels.
    """
    fits = input.ndim in (2, 3) and weight.ndim == 3 and groups > 0 and weight.shape[0] % groups == 0
    if not fits or input.shape[-2] != weight.shape[1] * groups:
        raise RuntimeError(
            f"conv1d: input {input.shape} with weight {weight.shape} and groups={groups}: expected (N, C, L) or (C, L) "
            "and (out, C / groups, kernel)"
        )
    if groups > 1:  # each group of channels by itself
        parts = (x.chunk(groups, dim) for x, dim in ((input, -2), (weight, 0)))
        biases = [None] * groups if bias is None else bias.chunk(groups)
        each = [conv1d(x, w, b, stride, padding, dilation) for x, w, b in zip(*parts, biases, strict=True)]
        return cat(each, -2)
    s, p, d = (n[0] if isinstance(n, tuple | list) else n for n in (stride, padding, dilation))
    x = input if input.ndim == 3 else input.unsqueeze(0)
    N, C, L = x.shape
    if p:
        edge = zeros(N, C, p, dtype=x.dtype)
        x, L = cat([edge, x, edge], 2), L + 2 * p
    kernel = weight.shape[2]
    out = (L - d * (kernel - 1) - 1) // s + 1
    if out < 1:
        raise RuntimeError(f"conv1d: the kernel spans {d * (kernel - 1) + 1} places, but the padded input has only {L}")
    # all windows, by one copy for each place of the kernel: (N, out, C, kernel), then rows of C * kernel numbers
    windows = stack([x[:, :, d * k : d * k + s * (out - 1) + 1 : s] for k in range(kernel)], 3)
    y = (
        linear(windows.transpose(1, 2).flatten(2), weight.flatten(1), bias).transpose(1, 2).contiguous()
    )  # (N, out channels, out)
    return y if input.ndim == 3 else y.squeeze(0)


for _name, _function in list(globals().items()):
    _declared = f"F.{_name}" in REGISTRY and not isinstance(_function, Op)
    if _declared or (getattr(_function, "__module__", "") == __name__ and not _name.startswith("_")):
        globals()[_name] = public_as(f"{__name__}.{_name}", _function)

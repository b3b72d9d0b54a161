"""Distances between vectors, and vectors of a limited length."""

from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension, only_floats
from tinytensor.ops.elementwise import absolute, where
from tinytensor.ops.index import index_select
from tinytensor.ops.manipulation import triu_indices
from tinytensor.ops.reduce import norm, power_of_length, sum
from tinytensor.ops.shape import clone, unsqueeze


@register("dist Tensor.dist")
def dist(a: Tensor, b: Tensor, p: float = 2) -> Tensor:
    """y = |a - b|_p over all elements."""
    return norm(a - b, p)


@register("cdist")
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """y_{ij} = |a_i - b_j|_p of the rows of (..., P, M) and (..., R, M): all distances, (..., P, R).

    PyTorch's compute modes are accepted and change nothing: the differences are always computed, since a matrix product
    loses small ones.
    """
    modes = [f"{way}use_mm_for_euclid_dist{when}" for way, when in (("", "_if_necessary"), ("", ""), ("donot_", ""))]
    if compute_mode not in (None, *modes):
        raise ValueError(f"cdist: compute_mode {compute_mode!r}: expected one of {', '.join(modes)}")
    if p < 0:
        raise RuntimeError(f"cdist: p must be 0 or more, got {p}")
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist: {x1.shape} and {x2.shape}: expected rows of one length, (..., P, M) and (..., R, M)"
        )
    x1, x2 = only_floats("cdist", x1, x2)
    return _lengths(unsqueeze(x1, -2) - unsqueeze(x2, -3), p)


def _lengths(apart: Tensor, p: float) -> Tensor:
    """|x|_p along the last dimension, with the gradient 0 for p = 0; 0 where there are no coordinates."""
    if p == 0:
        return sum(power_of_length(absolute(apart), 0), -1)
    return norm(apart, p if apart.shape[-1] else 1, -1)  # of no coordinates none is the largest


@register("pdist F.pdist")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """y_k = |x_i - x_j|_p of the rows i < j of (N, M), in the order (0, 1), (0, 2), ..., (1, 2) ...: N (N - 1) / 2."""
    if input.ndim != 2 or not p >= 0:
        raise RuntimeError(f"pdist: expected rows (N, M) and p of 0 or more, got shape {input.shape} and p = {p}")
    only_floats("pdist", input)
    first, second = triu_indices(input.shape[0], input.shape[0], 1)
    return _lengths(index_select(input, 0, first) - index_select(input, 0, second), p)


@register("renorm Tensor.renorm Tensor.renorm_")
def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """y = x, but each slice s along `dim` with |s|_p > m is s m / (|s|_p + 10^{-7})."""
    only_floats("renorm", x)
    dim = dimension(x, dim, "renorm")
    if x.ndim < 2 or not p > 0 or not maxnorm >= 0:
        raise RuntimeError(
            f"renorm: expected at least 2 dimensions, p above 0 and maxnorm of 0 or more, got shape {x.shape}, p = {p} "
            f"and maxnorm = {maxnorm}"
        )
    if not x.numel():
        return clone(x)
    length = norm(x, p, [d for d in range(x.ndim) if d != dim], keepdim=True)
    return x * where(length > maxnorm, maxnorm / (length + 1e-7), 1)

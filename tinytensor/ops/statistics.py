"""Statistics: sums without NaN, extremes, medians, quantiles. They are composed of other operations."""

import builtins
import math
from collections.abc import Sequence
from numbers import Real

from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import nonempty_dimensions, only_floats, refuse_only_bools
from tinytensor.ops.creation import tensor
from tinytensor.ops.elementwise import isnan, logical_and, logical_or, where
from tinytensor.ops.index import gather, index_select, nonzero
from tinytensor.ops.order import sort
from tinytensor.ops.reduce import ValuesIndices, amax, amin, max, mean, min, std, sum, var
from tinytensor.ops.shape import flatten, make_contiguous, movedim, reshape


@register("nansum Tensor.nansum")
def nansum(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = sum of x over `dim`, NaN counting as 0."""
    return sum(where(isnan(x), 0, x).to(x.dtype), dim, keepdim, dtype=dtype)


@register("nanmean Tensor.nanmean")
def nanmean(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = mean of the x over `dim` that are not NaN."""
    only_floats("nanmean", x)
    return nansum(x, dim, keepdim, dtype=dtype) / sum((x == x).to(x.dtype), dim, keepdim)


@register("count_nonzero Tensor.count_nonzero")
def count_nonzero(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    r"""y = \sum_i [x_i \neq 0]: how many elements are not 0, over `dim` (one, several, or all)."""
    return sum(x != 0, dim)


@register("argwhere Tensor.argwhere")
def argwhere(x: Tensor) -> Tensor:
    """The indices of the nonzero elements, a row each."""
    return nonzero(x)


@register("var_mean")
def var_mean(
    x: Tensor, dim: int | Sequence[int] | None = None, unbiased: bool = True, keepdim: bool = False, *, correction=None
) -> tuple[Tensor, Tensor]:
    """var and mean of x over `dim`."""
    about = None if isinstance(dim, bool) else dim
    return var(x, dim, unbiased, keepdim, correction=correction), mean(x, about, keepdim)


@register("std_mean")
def std_mean(
    x: Tensor, dim: int | Sequence[int] | None = None, unbiased: bool = True, keepdim: bool = False, *, correction=None
) -> tuple[Tensor, Tensor]:
    """std and mean of x over `dim`."""
    about = None if isinstance(dim, bool) else dim
    return std(x, dim, unbiased, keepdim, correction=correction), mean(x, about, keepdim)


class MinMax(tuple):
    """The result of aminmax: `.min` and `.max`."""

    min = property(lambda self: self[0])
    max = property(lambda self: self[1])


@register("aminmax Tensor.aminmax")
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest of x over `dim` (one or all): (min, max)."""
    return MinMax((amin(x, dim, keepdim), amax(x, dim, keepdim)))


def _rows(x: Tensor, dim: int | None, what: str) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """x with `dim` (or all) as the last dimension; the shape without it, and with a size of 1 in its place."""
    refuse_only_bools(what, x.dtype)
    dims = nonempty_dimensions(x, dim, what)
    if dim is None or x.ndim == 0:
        return flatten(x), (), (1,) * x.ndim
    kept = tuple(1 if d == dims[0] else n for d, n in enumerate(x.shape))
    return movedim(x, dims[0], -1), kept[: dims[0]] + kept[dims[0] + 1 :], kept


@register("kthvalue Tensor.kthvalue")
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element along `dim`, the first being number 1: (values, indices)."""
    rows, shape, kept = _rows(x, dim, "kthvalue")
    n = rows.shape[-1]
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue: k = {k} is outside 1 to {n}, the size of dimension {dim} of shape {x.shape}")
    parts = [make_contiguous(part[..., k - 1]) for part in sort(rows, -1)]
    return ValuesIndices(tuple(reshape(part, kept if keepdim else shape) for part in parts))


@register("median Tensor.median")
def median(x: Tensor, dim: int | None = None, keepdim: bool = False):
    """The element in the middle, the lower of two; over one `dim`: (values, indices). NaN if there is one.

    Of all elements, equal ones share the gradient; over one `dim`, the one at the index takes it.
    """
    if dim is None and x.requires_grad and x.dtype.kind == "f":
        return _shared_among_equals(x, median(x.detach()))
    rows, shape, kept = _rows(x, dim, "median")
    values, indices = sort(rows, -1)  # NaN is the last
    n = rows.shape[-1]
    middle = where(isnan(values[..., -1]), n - 1, (n - 1) // 2).unsqueeze(-1)
    values, indices = (reshape(gather(part, -1, middle), kept if keepdim else shape) for part in (values, indices))
    return values if dim is None else ValuesIndices((values, indices))


def _shared_among_equals(x: Tensor, value: Tensor) -> Tensor:
    """The value of some elements of x, as the largest of them: max shares its gradient among equals.

    The others count as -inf; -inf itself is the least of all elements.
    """
    low, equal = value == -math.inf, logical_or(x.detach() == value, logical_and(isnan(x.detach()), isnan(value)))
    return where(low, min(x), max(where(equal, x, -math.inf)))


@register("quantile Tensor.quantile")
def quantile(
    x: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """y = x_{(q (n - 1))}: below it lies the share q of the elements, for each q; between two by `interpolation`."""
    only_floats("quantile", x)
    roundings = {"lower": math.floor, "higher": math.ceil, "nearest": builtins.round}
    if interpolation not in ("linear", "midpoint", *roundings):
        raise ValueError(
            f"quantile: interpolation {interpolation!r}: expected linear, lower, higher, nearest, midpoint"
        )
    shares = q.tolist() if isinstance(q, Tensor) else q
    several = isinstance(shares, list)
    if not builtins.all(isinstance(s, Real) and 0 <= s <= 1 for s in (shares if several else [shares])):
        raise RuntimeError(f"quantile: q must be a number between 0 and 1, or a vector of them, got {q}")
    rows, shape, kept = _rows(x, dim, "quantile")
    values = sort(rows, -1)[0]
    at = [s * (rows.shape[-1] - 1) for s in (shares if several else [shares])]
    at = [roundings[interpolation](rank) for rank in at] if interpolation in roundings else at
    below, above = [math.floor(rank) for rank in at], [math.ceil(rank) for rank in at]
    between = [rank - first for rank, first in zip(at, below, strict=True)]
    if interpolation == "midpoint":
        between = [0.5 if share else 0.0 for share in between]
    low, high = (index_select(values, -1, tensor(edge)) for edge in (below, above))
    y = low + tensor(between, dtype=x.dtype) * (high - low)
    last = values[..., -1:]  # NaN if there is one
    y = movedim(where(isnan(last), last, y), -1, 0)
    shape = kept if keepdim else shape
    return reshape(y, (len(at), *shape) if several else shape)

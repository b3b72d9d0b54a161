"""Running values along a dimension: products, extremes, logarithms of sums; and differences."""

import builtins

from tinytensor.core.dtypes import int64
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension, only_floats
from tinytensor.ops.creation import arange, tensor
from tinytensor.ops.elementwise import isnan, logical_or, maximum, minimum, where
from tinytensor.ops.index import gather
from tinytensor.ops.pointwise import logaddexp
from tinytensor.ops.reduce import ValuesIndices
from tinytensor.ops.shape import cat, clone, make_contiguous, movedim, narrow, reshape


@register("cumprod Tensor.cumprod Tensor.cumprod_")
def cumprod(x: Tensor, dim: int, *, dtype=None) -> Tensor:
    """y_i = x_0 x_1 ... x_i along `dim`; integers and bools give int64.

    It multiplies 1, 2, 4 ... neighbours: without a division, a 0 among the factors is no special case.
    """
    dim = dimension(x, dim, "cumprod")
    y = x.to(dtype if dtype is not None else int64 if x.dtype.kind in "biu" else x.dtype)
    n, width = y.shape[dim] if y.ndim else 1, 1
    while width < n:
        later = narrow(y, dim, width, n - width) * narrow(y, dim, 0, n - width)
        y, width = cat([narrow(y, dim, 0, width), later], dim), 2 * width
    return y if n > 1 else clone(y)


def _scanned(x: Tensor, dim: int, together) -> Tensor:
    """y_i = x_0, x_1 ... x_i taken together, along `dim`; in steps that double, so that there are few of them."""
    y, step = clone(movedim(x, dim, 0)), 1
    while step < y.shape[0]:
        y = cat([y[:step], together(y[step:], y[:-step])])
        step *= 2
    return make_contiguous(movedim(y, 0, dim))


def _running_extreme(what: str, x: Tensor, dim: int, extreme) -> ValuesIndices:
    """The largest or smallest of x_0 ... x_i for each i, and the last place at which it stands; NaN is an extreme."""
    dim = dimension(x, dim, what)
    if not x.ndim:
        return ValuesIndices((x.clone(), tensor(0)))
    constant = x.detach()
    peaks = _scanned(constant, dim, extreme)
    positions = reshape(arange(x.shape[dim]), [-1 if d == dim else 1 for d in range(x.ndim)])
    stands = logical_or(constant == peaks, isnan(constant)) if x.dtype.kind == "f" else constant == peaks
    index = _scanned(where(stands, positions, 0), dim, maximum)
    return ValuesIndices((gather(x, dim, index), index))


@register("cummax Tensor.cummax")
def cummax(x: Tensor, dim: int) -> ValuesIndices:
    r"""y_i = \max(x_0, ..., x_i) along `dim`: (values, indices), the last index where several are equal."""
    return _running_extreme("cummax", x, dim, maximum)


@register("cummin Tensor.cummin")
def cummin(x: Tensor, dim: int) -> ValuesIndices:
    r"""y_i = \min(x_0, ..., x_i) along `dim`: (values, indices), the last index where several are equal."""
    return _running_extreme("cummin", x, dim, minimum)


@register("logcumsumexp Tensor.logcumsumexp")
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    r"""y_i = \ln(e^{x_0} + ... + e^{x_i}) along `dim`."""
    only_floats("logcumsumexp", x)
    dim = dimension(x, dim, "logcumsumexp")
    return _scanned(x, dim, logaddexp) if x.ndim else x.clone()


@register("diff Tensor.diff")
def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """y_i = x_{i+1} - x_i along `dim`, n times over, of x with `prepend` before it and `append` behind it."""
    dim = dimension(x, dim, "diff")
    if x.ndim == 0 or n < 0:
        raise RuntimeError(f"diff: expected at least one dimension and n of 0 or more, got shape {x.shape} and n = {n}")
    if prepend is not None or append is not None:
        x = cat([part for part in (prepend, x, append) if part is not None], dim)
    for _ in range(builtins.min(n, x.shape[dim])):
        after, before = (narrow(x, dim, start, x.shape[dim] - 1) for start in (1, 0))
        x = after.logical_xor(before) if x.dtype.kind == "b" else after - before
    return x

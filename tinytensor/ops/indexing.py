"""Writing and reading at indices: scatter, index_add, masked_scatter, take. They are composed of other operations."""

import builtins
from collections.abc import Sequence

import numpy as np

from tinytensor.core.dispatch import host
from tinytensor.core.dtypes import bool_, int64
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension, scaled
from tinytensor.ops.creation import full, ones
from tinytensor.ops.elementwise import where
from tinytensor.ops.in_place import index_copy_, setitem
from tinytensor.ops.index import check_range, gather, gather_backward, nonzero, put, read, scatter_extreme, scatter_rows
from tinytensor.ops.keys import parse_index
from tinytensor.ops.order import argsort
from tinytensor.ops.shape import (
    broadcast_tensors,
    cat,
    clone,
    expand,
    flatten,
    movedim,
    narrow,
    reshape,
    slice_op,
    with_dimension,
)


def _vector(what: str, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """An index vector, checked: its numbers are places along a dimension of x."""
    if index.dtype.kind != "i" or index.ndim > 1:
        raise (IndexError if index.ndim > 1 else RuntimeError)(
            f"{what}: the index must be a vector of whole numbers, got {index.dtype} of shape {index.shape}"
        )
    host(check_range, index._data, x.shape[dim], what)
    return with_dimension(index).to(int64)


def _scatter_operands(
    what: str, x: Tensor, dim: int, index: Tensor, src: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The index of a scatter, and the part of src to which it gives places; x has at least one dimension."""
    if index.dtype.kind != "i":
        raise RuntimeError(f"{what}: the index must be an integer tensor, got {index.dtype}")
    index = with_dimension(index).to(int64)
    src = src if src is None else with_dimension(src)
    shape = index.shape
    fits = len(shape) == x.ndim and builtins.all(
        n <= m or d == dim for d, (n, m) in enumerate(zip(shape, x.shape, strict=True))
    )
    if src is not None:
        fits = fits and src.ndim == x.ndim and builtins.all(n <= m for n, m in zip(shape, src.shape, strict=True))
        if src.dtype != x.dtype:
            raise RuntimeError(f"{what}: {src.dtype} for a tensor of {x.dtype}: the dtypes must be equal")
    if index.numel() and not fits:
        came = "" if src is None else f" and the source {src.shape}"
        raise RuntimeError(
            f"{what}: the index {shape} does not fit x {x.shape}{came}: only dimension {dim} may be larger than x's, "
            "and none larger than the source's"
        )
    host(check_range, index._data, x.shape[dim], what)
    return index, src if src is None else slice_op(src, tuple([slice(n) for n in shape]))


@register("scatter Tensor.scatter Tensor.scatter_")
def scatter(x: Tensor, dim: int, index: Tensor, src=None, *, value=None, reduce: str | None = None) -> Tensor:
    """y = x, but y[index[i][j]][j] = src[i][j] (dim 0), y[i][index[i][j]] = src[i][j] (dim 1), and so on.

    `src` (or `value`) may be a number. Where an index comes twice, the later element stays. With reduce="add" the
    elements are added to those of x, with reduce="multiply" those of x are multiplied by them.
    """
    src = value if src is None else src
    if src is None:
        raise TypeError("scatter: give src, a tensor or a number")
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(f"scatter: reduce={reduce!r}: expected 'add' or 'multiply'; scatter_reduce() has others")
    rows, dim = with_dimension(x), dimension(x, dim, "scatter")
    index, part = _scatter_operands("scatter", rows, dim, index, src if isinstance(src, Tensor) else None)
    if not index.numel():
        return clone(x)
    if part is None:
        part = full(index.shape, src, dtype=x.dtype)
    at = _numbers_at(rows, dim, index)
    write = {None: put, "add": _added_at, "multiply": _multiplied_at}[reduce]
    return reshape(write(rows, at, flatten(part)), x.shape)


def _numbers_at(rows: Tensor, dim: int, index: Tensor) -> Tensor:
    """A vector: for each element of a scatter's index its place in the flattened tensor that the scatter writes to."""
    numbers = Tensor.of(np.arange(rows.numel()).reshape(rows.shape))
    return flatten(gather(numbers, dim, index))


def _added_at(x: Tensor, at: Tensor, values: Tensor) -> Tensor:
    """y = x, but y[at] += values, as often as a place comes."""
    return x + reshape(scatter_rows(values, at, (x.numel(),)), x.shape)


def _multiplied_at(x: Tensor, at: Tensor, values: Tensor) -> Tensor:
    """y = x, but y[at] *= values, as often as a place comes.

    The values are sorted by their places, and those of one place multiplied in steps that double: without a division,
    a 0 among them is no special case. The last value of a place is then the product of all, and put() keeps the last.
    """
    order = argsort(at)
    at, product, step = at[order], values[order], 1
    while step < at.numel():
        same = at[step:] == at[:-step]
        product = cat([product[:step], product[step:] * where(same, product[:-step], 1)])
        step *= 2
    return x * put(ones(x.shape, dtype=x.dtype), at, product)


@register("scatter_reduce Tensor.scatter_reduce Tensor.scatter_reduce_")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """y = x, but y[index[i][j]][j] = the sum (prod, mean, amax, amin) of all src[i][j] that go there, for dim 0.

    The element of x at that place counts as one of them unless `include_self` is False. Equal extremes share the
    gradient. The mean of whole numbers is rounded down.
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"scatter_reduce: reduce={reduce!r}: expected 'sum', 'prod', 'mean', 'amax' or 'amin'")
    rows, dim = with_dimension(x), dimension(x, dim, "scatter_reduce")
    index, part = _scatter_operands("scatter_reduce", rows, dim, index, src)
    if not index.numel():
        return clone(x)
    at, values = _numbers_at(rows, dim, index), flatten(part)
    if reduce in ("amax", "amin"):
        return reshape(scatter_extreme(rows, at, values, include_self, reduce == "amax"), x.shape)
    if not include_self:
        nothing = full(at.shape, int(reduce == "prod"), dtype=x.dtype)
        rows = put(rows, at, nothing)
    y = (_multiplied_at if reduce == "prod" else _added_at)(rows, at, values)
    if reduce == "mean":
        counts = full(rows.shape, int(include_self), dtype=int64)
        counts = _added_at(counts, at, ones(at.shape, dtype=int64)).clamp(min=1).to(x.dtype)
        y = y / counts if x.dtype.kind in "fO" else y // counts
    return reshape(y, x.shape)


@register("put Tensor.put Tensor.put_")
def put_at(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """y = x, but the elements at these places of the flattened x are the source's, or have them added.

    Where an index comes twice, the later element stays; with `accumulate` both are added.
    """
    if index.dtype != int64 or source.dtype != x.dtype:
        raise RuntimeError(
            f"put: expected an int64 index and a source of {x.dtype}, got {index.dtype} and {source.dtype}"
        )
    if index.numel() != source.numel():
        raise RuntimeError(f"put: the index has {index.numel()} elements, the source {source.numel()}")
    at, n = flatten(index), x.numel()
    host(check_range, at._data, n, "put", -n)
    at = where(at < 0, at + n, at)
    return (_added_at if accumulate else put)(x, at, flatten(source))


@register("scatter_add Tensor.scatter_add Tensor.scatter_add_")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """y = x, but y[index[i][j]][j] += src[i][j] (dim 0), y[i][index[i][j]] += src[i][j] (dim 1), and so on."""
    rows, dim = with_dimension(x), dimension(x, dim, "scatter_add")
    index, part = _scatter_operands("scatter_add", rows, dim, index, src)
    if not index.numel():
        return clone(x)
    return reshape(rows + gather_backward(part, index, rows.shape, dim), x.shape)


@register("index_add Tensor.index_add Tensor.index_add_")
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """y = x, with the slices of alpha times the source added at the places along `dim` that the index names."""
    dim, rows, parts = dimension(x, dim, "index_add"), with_dimension(x), with_dimension(source)
    index = _vector("index_add", rows, dim, index)
    expected = (*rows.shape[:dim], index.numel(), *rows.shape[dim + 1 :])
    if parts.shape != expected or source.dtype != x.dtype:
        raise RuntimeError(
            f"index_add: a source of {source.dtype} {source.shape} for {x.dtype} {x.shape} along {dim}: "
            f"expected {x.dtype} {expected}"
        )
    # alpha scales the parts before they are added: inf times the zeros at other places would be NaN
    parts = movedim(parts if alpha == 1 else scaled("index_add", parts, alpha, x.dtype), dim, 0)
    added = movedim(scatter_rows(parts, index, (rows.shape[dim], *parts.shape[1:])), 0, dim)
    return reshape(rows + added, x.shape)


@register("index_copy Tensor.index_copy")
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """y = x, with the source's slices at the places along `dim` that the index names."""
    y = clone(with_dimension(x))
    return reshape(
        index_copy_(y, dimension(x, dim, "index_copy"), with_dimension(index), with_dimension(source)), x.shape
    )


@register("index_fill Tensor.index_fill Tensor.index_fill_")
def index_fill(x: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Tensor:
    """y = x, with one value at the places along `dim` that the index names."""
    if index.dtype.kind != "i" or index.ndim > 1:
        raise (IndexError if index.ndim > 1 else RuntimeError)(
            f"index_fill: the index must be a vector of whole numbers, got {index.dtype} of shape {index.shape}"
        )
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"index_fill: expected one value, got a tensor of shape {value.shape}; use index_copy()")
    y = clone(with_dimension(x))
    setitem(y, (slice(None),) * dimension(x, dim, "index_fill") + (with_dimension(index),), value)
    return reshape(y, x.shape)


@register("index_put Tensor.index_put Tensor.index_put_")
def index_put(x: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """y = x, but y[indices] = values; with accumulate y[indices] += values, as often as an index comes."""
    key, y = tuple(indices), clone(x)
    if not accumulate:
        setitem(y, key, values)
        return y
    at = read(Tensor.of(np.arange(x.numel()).reshape(x.shape)), parse_index(x, key))
    return _added_at(x, flatten(at), flatten(expand(values, at.shape)))


@register("masked_scatter Tensor.masked_scatter Tensor.masked_scatter_")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """y = x, but the elements of the source one after the other where the mask holds."""
    if mask.dtype != bool_ or source.dtype != x.dtype:
        raise RuntimeError(
            f"masked_scatter: expected a bool mask and a source of {x.dtype}, got {mask.dtype} and {source.dtype}"
        )
    x, mask = broadcast_tensors(x, mask)
    at = flatten(nonzero(flatten(mask)))
    if at.numel() > source.numel():
        raise RuntimeError(f"masked_scatter: the mask holds {at.numel()} times, the source has {source.numel()}")
    return put(x, at, narrow(flatten(source), 0, 0, at.numel()))


@register("take Tensor.take")
def take(x: Tensor, index: Tensor) -> Tensor:
    """y = the elements of x at these places of the flattened x."""
    if index.dtype.kind != "i":
        raise RuntimeError(f"take: the index must be an integer tensor, got {index.dtype}")
    return flatten(x)[index]


@register("take_along_dim Tensor.take_along_dim")
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """y = gather(x, dim, indices); other dimensions broadcast. Without `dim`, x and the indices are flattened."""
    if dim is None:
        return gather(flatten(x), 0, flatten(indices))
    dim = dimension(x, dim, "take_along_dim")
    if x.ndim != indices.ndim:
        raise RuntimeError(f"take_along_dim: expected as many dimensions as {x.shape} has, got {indices.shape}")
    shape = broadcast_shape("take_along_dim", *((*t.shape[:dim], 1, *t.shape[dim + 1 :]) for t in (x, indices)))
    x, indices = (expand(t, (*shape[:dim], t.shape[dim], *shape[dim + 1 :])) for t in (x, indices))
    return gather(x, dim, indices)

"""Functions that arrange values: stacks, pieces, flips, padding, diagonals. They are composed of other operations."""

import builtins
import math
from collections.abc import Sequence
from itertools import pairwise

from tinytensor.core.dtypes import bool_, int64, result_type
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension, dimension_with_size, list_of_tensors, sizes_of, whole_number
from tinytensor.ops.creation import ones, tensor, zeros
from tinytensor.ops.index import index_select, nonzero
from tinytensor.ops.reduce import sum
from tinytensor.ops.shape import (
    cat,
    clone,
    diagonal,
    expand,
    flatten,
    flip,
    narrow,
    repeat,
    reshape,
    slice_op,
    stack,
    transpose,
    tril,
    triu,
    undiagonal,
    unsqueeze,
    with_dimension,
)

MOST_PIECES = 10**6  # unless the dimension is larger
_diagonal_of = diagonal  # the function, which diag's parameter of this name hid


def _each(function, tensors: tuple):
    """The function of one tensor, or of each of several, given as arguments or as one list."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    return tuple(
        [function(x) for x in list_of_tensors(tensors[0] if len(tensors) == 1 else tensors, function.__name__)]
    )


@register("atleast_1d")
def atleast_1d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """A 0-d tensor with a dimension of size 1; others as they are."""
    return _each(_atleast_1d, tensors)


@register("atleast_2d")
def atleast_2d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """A tensor with dimensions of size 1 in front, until it has two."""
    return _each(_atleast_2d, tensors)


@register("atleast_3d")
def atleast_3d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """A matrix with a third dimension of size 1 behind, a vector between two of them."""
    return _each(_atleast_3d, tensors)


def _atleast_1d(x: Tensor) -> Tensor:
    return with_dimension(x)


def _atleast_2d(x: Tensor) -> Tensor:
    return x if x.ndim > 1 else unsqueeze(_atleast_1d(x), 0)


def _atleast_3d(x: Tensor) -> Tensor:
    return x if x.ndim > 2 else unsqueeze(_atleast_2d(x), 2)


@register("hstack")
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join side by side: vectors one after the other, all else along dimension 1."""
    parts = [_atleast_1d(x) for x in list_of_tensors(tensors, "hstack")]
    return cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


@register("vstack row_stack")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join one below the other; a vector is a row."""
    return cat([_atleast_2d(x) for x in list_of_tensors(tensors, "vstack")])


@register("dstack")
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join one behind the other, along dimension 2."""
    return cat([_atleast_3d(x) for x in list_of_tensors(tensors, "dstack")], 2)


@register("column_stack")
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Join side by side; a vector is a column."""
    return hstack([x if x.ndim > 1 else reshape(x, -1, 1) for x in list_of_tensors(tensors, "column_stack")])


@register("block_diag")
def block_diag(*tensors: Tensor) -> Tensor:
    """The matrices one after the other along the diagonal, 0 elsewhere; a vector is a row."""
    tensors = list_of_tensors(tensors, "block_diag")
    dtype = result_type(*tensors)  # first: a 0-d tensor counts less in it, and the next line adds dimensions
    blocks = [_atleast_2d(x.to(dtype)) for x in tensors]
    width, before, rows = builtins.sum([x.shape[1] for x in blocks]), 0, []
    for x in blocks:
        if x.ndim > 2:
            raise RuntimeError(f"block_diag: expected tensors of at most 2 dimensions, got shape {x.shape}")
        height, n = x.shape
        rows.append(cat([zeros(height, before, dtype=dtype), x, zeros(height, width - before - n, dtype=dtype)], 1))
        before += n
    return cat(rows)


@register("tile Tensor.tile")
def tile(x: Tensor, *dims) -> Tensor:
    """y = x, repeated along its last dimensions as often as `dims` says, and once along the others."""
    times = sizes_of(dims, "tile")
    return repeat(x, (1,) * (x.ndim - len(times)) + times)


@register("ravel Tensor.ravel")
def ravel(x: Tensor) -> Tensor:
    """y = x as a vector."""
    return reshape(x, -1)


@register("fliplr Tensor.fliplr")
def fliplr(x: Tensor) -> Tensor:
    """y = x with its columns in reverse order."""
    if x.ndim < 2:
        raise RuntimeError(f"fliplr: expected at least 2 dimensions, got shape {x.shape}")
    return flip(x, 1)


@register("flipud Tensor.flipud")
def flipud(x: Tensor) -> Tensor:
    """y = x with its rows in reverse order."""
    if x.ndim < 1:
        raise RuntimeError("flipud: a 0-d tensor has no rows")
    return flip(x, 0)


@register("rot90 Tensor.rot90")
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """y = x, turned k times by a right angle, from the first of the two dimensions towards the second."""
    if len(dims) != 2 or x.ndim < 2 or dimension(x, dims[0], "rot90") == dimension(x, dims[1], "rot90"):
        raise RuntimeError(f"rot90: expected two different dimensions, got {tuple(dims)} for shape {x.shape}")
    turned = whole_number(k, "rot90: k") % 4
    if turned % 2:
        return transpose(flip(x, dims[1] if turned == 1 else dims[0]), *dims)
    return flip(x, dims) if turned else clone(x)


@register("select Tensor.select")
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """y = x at one index of a dimension, which y does not have (a view)."""
    dim, index = dimension_with_size(x, dim, "select"), whole_number(index, "select: index")
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(f"select: index {index} is outside dimension {dim} of shape {x.shape}")
    return slice_op(x, (slice(None),) * dim + (index,))


@register("tensor_split Tensor.tensor_split")
def tensor_split(x: Tensor, indices_or_sections, dim: int = 0) -> tuple[Tensor, ...]:
    """x in a number of pieces, the first ones larger by 1 if they can't be equal, or cut before the indices listed."""
    return _cut("tensor_split", x, indices_or_sections, dimension_with_size(x, dim, "tensor_split"))


@register("hsplit Tensor.hsplit")
def hsplit(x: Tensor, indices_or_sections) -> tuple[Tensor, ...]:
    """x in pieces beside one another, of equal size, or cut before the indices listed."""
    return _cut("hsplit", x, indices_or_sections, builtins.min(x.ndim - 1, 1), equal=True)


@register("vsplit Tensor.vsplit")
def vsplit(x: Tensor, indices_or_sections) -> tuple[Tensor, ...]:
    """x in pieces below one another, of equal size, or cut before the indices listed."""
    return _cut("vsplit", x, indices_or_sections, 0 if x.ndim > 1 else -1, equal=True)


def _cut(what: str, x: Tensor, sections, dim: int, equal: bool = False) -> tuple[Tensor, ...]:
    if dim < 0:
        raise RuntimeError(f"{what}: shape {x.shape} has too few dimensions")
    n = x.shape[dim]
    if isinstance(sections, Tensor):
        sections = sections.tolist()
    if isinstance(sections, Sequence) and not isinstance(sections, str):
        ends = [0, *sizes_of((sections,), what), n]
    else:
        pieces = whole_number(sections, f"{what}: the number of pieces")
        if pieces <= 0 or (equal and n % pieces):
            raise RuntimeError(f"{what}: dimension {dim} of shape {x.shape} can't be cut into {pieces} equal pieces")
        if pieces > builtins.max(n, MOST_PIECES):
            raise RuntimeError(f"{what}: {pieces} pieces, nearly all empty, are more than {MOST_PIECES}")
        ends = [i * (n // pieces) + builtins.min(i, n % pieces) for i in range(pieces + 1)]
    return tuple([slice_op(x, (slice(None),) * dim + (slice(a, b),)) for a, b in pairwise(ends)])


@register("meshgrid")
def meshgrid(*tensors: Tensor, indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of a grid: y_k[i_1, ..., i_n] = x_k[i_k], one tensor for each vector x_k.

    With indexing="xy" the first two dimensions are exchanged, as for pictures.
    """
    tensors = list_of_tensors(
        tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors, "meshgrid"
    )
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    if builtins.any(x.ndim > 1 for x in tensors):
        raise RuntimeError(f"meshgrid: expected vectors, got shapes {', '.join([str(x.shape) for x in tensors])}")
    shape, n = tuple([x.numel() for x in tensors]), len(tensors)
    grids = [expand(reshape(x, [-1 if d == k else 1 for d in range(n)]), shape) for k, x in enumerate(tensors)]
    return tuple([transpose(x, 0, 1) if indexing == "xy" and n > 1 else x for x in grids])


@register("cartesian_prod")
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All ways to take one element of each vector, one in each row; a single vector is returned as it is."""
    tensors = list_of_tensors(tensors, "cartesian_prod")
    if builtins.any(x.ndim != 1 for x in tensors):
        raise RuntimeError(f"cartesian_prod: expected vectors, got shapes {', '.join([str(x.shape) for x in tensors])}")
    return tensors[0] if len(tensors) == 1 else stack([flatten(x) for x in meshgrid(*tensors)], 1)


@register("diag_embed Tensor.diag_embed")
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """y = 0 everywhere, but the last dimension of x along a diagonal of two new ones."""
    if x.ndim == 0:
        raise RuntimeError("diag_embed: expected at least 1 dimension, got a 0-d tensor")
    a, b = (dimension(x, d, "diag_embed", extra=1) for d in (dim1, dim2))
    if a == b:
        raise RuntimeError(f"diag_embed: dim1 = {dim1} and dim2 = {dim2} are the same dimension")
    offset = whole_number(offset, "diag_embed: offset")
    shape, n = list(x.shape[:-1]), x.shape[-1] + abs(offset)
    for d in sorted((a, b)):
        shape.insert(d, n)
    return undiagonal(x, tuple(shape), offset, a, b)


@register("diag Tensor.diag")
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, as a copy; for a vector, the matrix with this diagonal."""
    if x.ndim not in (1, 2):
        raise RuntimeError(f"diag: expected a vector or a matrix, got shape {x.shape}; use diagonal() or diag_embed()")
    return diag_embed(x, diagonal) if x.ndim == 1 else clone(_diagonal_of(x, diagonal))


@register("trace Tensor.trace")
def trace(x: Tensor) -> Tensor:
    r"""y = \sum_i x_{ii}."""
    if x.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, got shape {x.shape}")
    return sum(diagonal(x))


@register("tril_indices")
def tril_indices(row: int, col: int, offset: int = 0, *, dtype=int64, device=None) -> Tensor:
    """The places (2, n) of a matrix on and below a diagonal."""
    return nonzero(tril(ones(row, col, dtype=bool_, device=device), offset)).t().contiguous().to(dtype)


@register("triu_indices")
def triu_indices(row: int, col: int, offset: int = 0, *, dtype=int64, device=None) -> Tensor:
    """The places (2, n) of a matrix on and above a diagonal."""
    return nonzero(triu(ones(row, col, dtype=bool_, device=device), offset)).t().contiguous().to(dtype)


@register("F.pad")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """x with pad[0] elements before its last dimension and pad[1] after it, pad[2] and pad[3] for the one before ...

    "constant": they are `value` (0); "replicate": the edge; "reflect": the elements mirrored at the edge; "circular":
    the other end. Negative numbers cut elements off.
    """
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(f"pad: expected two numbers for each of at most {input.ndim} dimensions, got {tuple(pad)}")
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"pad: mode {mode!r}: expected constant, reflect, replicate or circular")
    if mode != "constant" and value not in (None, 0):
        raise ValueError(f"pad: mode {mode!r} takes no value, got {value}")
    for i in range(0, len(pad), 2):
        input = _padded(input, input.ndim - 1 - i // 2, *pad[i : i + 2], mode, value or 0)
    return input


def _padded(x: Tensor, dim: int, before: int, after: int, mode: str, value: float) -> Tensor:
    n = x.shape[dim] + builtins.min(before, 0) + builtins.min(after, 0)
    if n < 0:
        raise RuntimeError(f"pad: ({before}, {after}) cuts more off than dimension {dim} of shape {x.shape} has")
    x = narrow(x, dim, builtins.max(-before, 0), n)
    before, after = builtins.max(before, 0), builtins.max(after, 0)
    if mode == "constant":
        left, right = (x.new_full((*x.shape[:dim], k, *x.shape[dim + 1 :]), value) for k in (before, after))
        return cat([left, x, right], dim)
    longest = {"reflect": n - 1, "circular": n, "replicate": math.inf if n else 0}[mode]
    if builtins.max(before, after) > longest:
        raise RuntimeError(f"pad: ({before}, {after}) in mode {mode!r}: dimension {dim} of {x.shape} allows {longest}")
    source_index = {  # in the input, of the element at place i of the result, counted from where the input begins
        "reflect": lambda i: i if 0 <= i < n else -i if i < 0 else 2 * (n - 1) - i,  # 2 1 | 0 1 2 3 | 2 1
        "replicate": lambda i: builtins.min(builtins.max(i, 0), n - 1),
        "circular": lambda i: i % n,
    }[mode]
    return index_select(x, dim, tensor([source_index(i) for i in range(-before, n + after)]))

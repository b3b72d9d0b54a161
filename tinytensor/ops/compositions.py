"""Functions composed of other operations: arranging, products, writing at indices, counting, looking up.

None has a kernel or a rule of its own: its gradient, and the proof of it, are those of the operations it calls. The
functions here say where values stand and which of them meet; functions of the values are in functions.py.
"""

import builtins
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tinytensor.core.dispatch import host
from tinytensor.core.dtypes import bool_, int32, int64, result_type
from tinytensor.core.promotion import broadcast_shape, only_floats, promote_floats_to_exact, to_0d_array
from tinytensor.core.registry import appears
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import (
    dimension,
    dimension_with_size,
    list_of_tensors,
    scaled,
    sizes_of,
    whole_number,
)
from tinytensor.ops.creation import arange, full, linspace, ones, tensor, zeros
from tinytensor.ops.elementwise import floor, isnan, where
from tinytensor.ops.in_place import index_copy_, setitem
from tinytensor.ops.index import check_range, gather, gather_backward, nonzero, put, read, scatter_extreme, scatter_rows
from tinytensor.ops.keys import understand
from tinytensor.ops.order import argsort, sort
from tinytensor.ops.products import bmm, matmul, outer
from tinytensor.ops.reduce import cumsum, sum
from tinytensor.ops.shape import (
    broadcast_tensors,
    cat,
    clone,
    diagonal,
    expand,
    flatten,
    flip,
    make_contiguous,
    movedim,
    narrow,
    permute,
    repeat,
    reshape,
    slice_op,
    stack,
    transpose,
    tril,
    triu,
    undiagonal,
    unsqueeze,
)

# ----------------------------------------------------------------------------------------------------- arranging


def _each(function, tensors: tuple):
    """The function of one tensor, or of each of several, given as arguments or as one list."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    return tuple(
        [function(x) for x in list_of_tensors(tensors[0] if len(tensors) == 1 else tensors, function.__name__)]
    )


@appears("atleast_1d")
def atleast_1d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """A 0-d tensor with a dimension of size 1; others as they are."""
    return _each(_atleast_1d, tensors)


@appears("atleast_2d")
def atleast_2d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """A tensor with dimensions of size 1 in front, until it has two."""
    return _each(_atleast_2d, tensors)


@appears("atleast_3d")
def atleast_3d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """A matrix with a third dimension of size 1 behind, a vector between two of them."""
    return _each(_atleast_3d, tensors)


def _atleast_1d(x: Tensor) -> Tensor:
    return x if x.ndim else reshape(x, 1)


def _atleast_2d(x: Tensor) -> Tensor:
    return x if x.ndim > 1 else unsqueeze(_atleast_1d(x), 0)


def _atleast_3d(x: Tensor) -> Tensor:
    return x if x.ndim > 2 else unsqueeze(_atleast_2d(x), 2)


@appears("hstack")
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join side by side: vectors one after the other, all else along dimension 1."""
    parts = [_atleast_1d(x) for x in list_of_tensors(tensors, "hstack")]
    return cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


@appears("vstack row_stack")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join one below the other; a vector is a row."""
    return cat([_atleast_2d(x) for x in list_of_tensors(tensors, "vstack")])


@appears("dstack")
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join one behind the other, along dimension 2."""
    return cat([_atleast_3d(x) for x in list_of_tensors(tensors, "dstack")], 2)


@appears("column_stack")
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Join side by side; a vector is a column."""
    return hstack([x if x.ndim > 1 else reshape(x, -1, 1) for x in list_of_tensors(tensors, "column_stack")])


@appears("block_diag")
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


@appears("tile Tensor.tile")
def tile(x: Tensor, *dims) -> Tensor:
    """y = x, repeated along its last dimensions as often as `dims` says, and once along the others."""
    times = sizes_of(dims, "tile")
    return repeat(x, (1,) * (x.ndim - len(times)) + times)


@appears("ravel Tensor.ravel")
def ravel(x: Tensor) -> Tensor:
    """y = x as a vector."""
    return reshape(x, -1)


@appears("fliplr Tensor.fliplr")
def fliplr(x: Tensor) -> Tensor:
    """y = x with its columns in reverse order."""
    if x.ndim < 2:
        raise RuntimeError(f"fliplr: expected at least 2 dimensions, got shape {x.shape}")
    return flip(x, 1)


@appears("flipud Tensor.flipud")
def flipud(x: Tensor) -> Tensor:
    """y = x with its rows in reverse order."""
    if x.ndim < 1:
        raise RuntimeError("flipud: a 0-d tensor has no rows")
    return flip(x, 0)


@appears("rot90 Tensor.rot90")
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """y = x, turned k times by a right angle, from the first of the two dimensions towards the second."""
    if len(dims) != 2 or x.ndim < 2 or dimension(x, dims[0], "rot90") == dimension(x, dims[1], "rot90"):
        raise RuntimeError(f"rot90: expected two different dimensions, got {tuple(dims)} for shape {x.shape}")
    turned = whole_number(k, "rot90: k") % 4
    if turned % 2:
        return transpose(flip(x, dims[1] if turned == 1 else dims[0]), *dims)
    return flip(x, dims) if turned else clone(x)


@appears("select Tensor.select")
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """y = x at one index of a dimension, which y does not have (a view)."""
    dim, index = dimension_with_size(x, dim, "select"), whole_number(index, "select: index")
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(f"select: index {index} is outside dimension {dim} of shape {x.shape}")
    return slice_op(x, (slice(None),) * dim + (index,))


@appears("tensor_split Tensor.tensor_split")
def tensor_split(x: Tensor, indices_or_sections, dim: int = 0) -> tuple[Tensor, ...]:
    """x in a number of pieces, the first ones larger by 1 if they can't be equal, or cut before the indices listed."""
    return _cut("tensor_split", x, indices_or_sections, dimension_with_size(x, dim, "tensor_split"))


@appears("hsplit Tensor.hsplit")
def hsplit(x: Tensor, indices_or_sections) -> tuple[Tensor, ...]:
    """x in pieces beside one another, of equal size, or cut before the indices listed."""
    return _cut("hsplit", x, indices_or_sections, builtins.min(x.ndim - 1, 1), equal=True)


@appears("vsplit Tensor.vsplit")
def vsplit(x: Tensor, indices_or_sections) -> tuple[Tensor, ...]:
    """x in pieces below one another, of equal size, or cut before the indices listed."""
    return _cut("vsplit", x, indices_or_sections, 0 if x.ndim > 1 else -1, equal=True)


MOST_PIECES = 10**6  # unless the dimension is larger


def _cut(what: str, x: Tensor, places, dim: int, equal: bool = False) -> tuple[Tensor, ...]:
    if dim < 0:
        raise RuntimeError(f"{what}: shape {x.shape} has too few dimensions")
    n = x.shape[dim]
    if isinstance(places, Tensor):
        places = places.tolist()
    if isinstance(places, Sequence) and not isinstance(places, str):
        ends = [0, *sizes_of((places,), what), n]
    else:
        pieces = whole_number(places, f"{what}: the number of pieces")
        if pieces <= 0 or (equal and n % pieces):
            raise RuntimeError(f"{what}: dimension {dim} of shape {x.shape} can't be cut into {pieces} equal pieces")
        if pieces > builtins.max(n, MOST_PIECES):
            raise RuntimeError(f"{what}: {pieces} pieces, nearly all empty, are more than {MOST_PIECES}")
        ends = [i * (n // pieces) + builtins.min(i, n % pieces) for i in range(pieces + 1)]
    return tuple([slice_op(x, (slice(None),) * dim + (slice(a, b),)) for a, b in pairwise(ends)])


@appears("meshgrid")
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


@appears("cartesian_prod")
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All ways to take one element of each vector, one in each row; a single vector is returned as it is."""
    tensors = list_of_tensors(tensors, "cartesian_prod")
    if builtins.any(x.ndim != 1 for x in tensors):
        raise RuntimeError(f"cartesian_prod: expected vectors, got shapes {', '.join([str(x.shape) for x in tensors])}")
    return tensors[0] if len(tensors) == 1 else stack([flatten(x) for x in meshgrid(*tensors)], 1)


# ----------------------------------------------------------------------------------------------------- diagonals


@appears("diag_embed Tensor.diag_embed")
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


@appears("diag Tensor.diag")
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, as a copy; for a vector, the matrix with this diagonal."""
    if x.ndim not in (1, 2):
        raise RuntimeError(f"diag: expected a vector or a matrix, got shape {x.shape}; use diagonal() or diag_embed()")
    return diag_embed(x, diagonal) if x.ndim == 1 else clone(_diagonal_of(x, diagonal))


_diagonal_of = diagonal  # the function, which diag's parameter of this name hides


@appears("trace Tensor.trace")
def trace(x: Tensor) -> Tensor:
    r"""y = \sum_i x_{ii}."""
    if x.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, got shape {x.shape}")
    return sum(diagonal(x))


@appears("tril_indices")
def tril_indices(row: int, col: int, offset: int = 0, *, dtype=int64, device=None) -> Tensor:
    """The places (2, n) of a matrix on and below a diagonal."""
    return nonzero(tril(ones(row, col, dtype=bool_, device=device), offset)).t().contiguous().to(dtype)


@appears("triu_indices")
def triu_indices(row: int, col: int, offset: int = 0, *, dtype=int64, device=None) -> Tensor:
    """The places (2, n) of a matrix on and above a diagonal."""
    return nonzero(triu(ones(row, col, dtype=bool_, device=device), offset)).t().contiguous().to(dtype)


# ------------------------------------------------------------------------------------------------------ products


def _sum_of(what: str, x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """beta x + alpha product; if beta is 0, x does not count, even if it is NaN.

    With whole numbers PyTorch cuts beta and alpha to whole numbers: 2.5 is 2.
    """
    dtype = product.dtype
    if dtype.kind in "iu":
        beta, alpha = (to_0d_array(what, factor, dtype).item() for factor in (beta, alpha))
    x, product = promote_floats_to_exact(x, product)
    if x.dtype != product.dtype:
        raise RuntimeError(f"{what}: {x.dtype} + {dtype}: the dtypes must be equal; use .to(dtype)")
    if broadcast_shape(what, x.shape, product.shape) != product.shape:
        raise RuntimeError(f"{what}: shape {x.shape} does not fit a product of shape {product.shape}")
    product = product if alpha == 1 else scaled(what, product, alpha, dtype)
    if beta == 0:
        return product
    return (x if beta == 1 else scaled(what, x, beta, dtype)) + product


@appears("addmm Tensor.addmm Tensor.addmm_")
def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y = beta x + alpha mat1 mat2."""
    if mat1.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"addmm: expected two matrices, got {mat1.shape} and {mat2.shape}")
    return _sum_of("addmm", x, matmul(mat1, mat2), beta, alpha)


@appears("addmv Tensor.addmv Tensor.addmv_")
def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y = beta x + alpha mat vec."""
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"addmv: expected a matrix and a vector, got {mat.shape} and {vec.shape}")
    return _sum_of("addmv", x, matmul(mat, vec), beta, alpha)


@appears("baddbmm Tensor.baddbmm Tensor.baddbmm_")
def baddbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y = beta x + alpha batch1 batch2, for each pair of matrices."""
    if batch1.ndim != 3 or batch2.ndim != 3:
        raise RuntimeError(f"baddbmm: expected two batches of matrices, got {batch1.shape} and {batch2.shape}")
    return _sum_of("baddbmm", x, matmul(batch1, batch2), beta, alpha)


@appears("addr Tensor.addr Tensor.addr_")
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y_{ij} = beta x_{ij} + alpha a_i b_j."""
    product = outer(vec1, vec2)
    dtype = result_type(x, product)  # the only one of these sums for which PyTorch mixes dtypes and cuts no factor
    if dtype.kind in "iu" and not (isinstance(alpha, int) and isinstance(beta, int)):
        raise RuntimeError(f"addr: whole numbers can't be scaled by {beta!r} and {alpha!r}; use .float() first")
    return _sum_of("addr", x.to(dtype), product.to(dtype), beta, alpha)


@appears("addbmm Tensor.addbmm Tensor.addbmm_")
def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y = beta x + alpha times the sum over the batch of a b."""
    return _sum_of("addbmm", x, sum(bmm(batch1, batch2), 0).to(batch1.dtype), beta, alpha)


@appears("tensordot")
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence | Tensor = 2) -> Tensor:
    """y = the sum over dims[0] of a and dims[1] of b; a number n means the last n of a and the first n of b."""
    if isinstance(dims, Sequence | Tensor):
        if len(dims) != 2:
            raise RuntimeError(f"tensordot: dims names the dimensions of a and those of b, two lists; got {dims}")
        first, second = (list(d) if isinstance(d, Sequence) else [d] for d in dims)
        if (first and not a.ndim) or (second and not b.ndim):
            raise RuntimeError(f"tensordot: shapes {a.shape} and {b.shape} do not have the dimensions {dims}")
        first, second = [dimension(a, d, "tensordot") for d in first], [dimension(b, d, "tensordot") for d in second]
    else:
        n = whole_number(dims, "tensordot: dims")
        if not 0 <= n <= builtins.min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot: {n} dimensions can't be summed of shapes {a.shape} and {b.shape}")
        first, second = list(range(a.ndim - n, a.ndim)), list(range(n))
    if [a.shape[d] for d in first] != [b.shape[d] for d in second]:
        raise RuntimeError(f"tensordot: the sizes at {first} of {a.shape} and {second} of {b.shape} must be equal")
    rows, columns = ([d for d in range(x.ndim) if d not in gone] for x, gone in ((a, first), (b, second)))
    n = math.prod([a.shape[d] for d in first])
    left = reshape(permute(a, rows + first), math.prod([a.shape[d] for d in rows]), n)
    right = reshape(permute(b, second + columns), n, math.prod([b.shape[d] for d in columns]))
    return reshape(matmul(left, right), [a.shape[d] for d in rows] + [b.shape[d] for d in columns])


@appears("vdot Tensor.vdot")
def vdot(a: Tensor, b: Tensor) -> Tensor:
    """y = sum_i a_i b_i of two vectors."""
    return a.dot(b)


@appears("inner Tensor.inner")
def inner(a: Tensor, b: Tensor) -> Tensor:
    """y = the sum over the last dimensions of a and b."""
    return tensordot(a, b, ([-1], [-1])) if a.ndim and b.ndim else a * b


@appears("kron Tensor.kron")
def kron(a: Tensor, b: Tensor) -> Tensor:
    """y_{ip,jq} = a_{ij} b_{pq}, Kronecker's product: each element of a times all of b, in its place."""
    n = builtins.max(a.ndim, b.ndim)
    one, other = ((1,) * (n - x.ndim) + x.shape for x in (a, b))
    left = reshape(a, [k for m in one for k in (m, 1)])
    right = reshape(b, [k for m in other for k in (1, m)])
    return reshape(left * right, [k * m for k, m in zip(one, other, strict=True)])


@appears("cumprod Tensor.cumprod Tensor.cumprod_")
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


# -------------------------------------------------------------------------------------------- writing at indices


def _vector(what: str, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """An index vector, checked: its numbers are places along a dimension of x."""
    if index.dtype.kind != "i" or index.ndim > 1:
        raise (IndexError if index.ndim > 1 else RuntimeError)(
            f"{what}: the index must be a vector of whole numbers, got {index.dtype} of shape {index.shape}"
        )
    host(check_range, index._data, x.shape[dim], what)
    return _atleast_1d(index).to(int64)


def _places(what: str, x: Tensor, dim: int, index: Tensor, src: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The index of a scatter, and the part of src to which it gives places; x has at least one dimension."""
    if index.dtype.kind != "i":
        raise RuntimeError(f"{what}: the index must be an integer tensor, got {index.dtype}")
    index = _atleast_1d(index).to(int64)
    src = src if src is None else _atleast_1d(src)
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


@appears("scatter Tensor.scatter Tensor.scatter_")
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
    rows, dim = _atleast_1d(x), dimension(x, dim, "scatter")
    index, part = _places("scatter", rows, dim, index, src if isinstance(src, Tensor) else None)
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


@appears("scatter_reduce Tensor.scatter_reduce Tensor.scatter_reduce_")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """y = x, but y[index[i][j]][j] = the sum (prod, mean, amax, amin) of all src[i][j] that go there, for dim 0.

    The element of x at that place counts as one of them unless `include_self` is False. Equal extremes share the
    gradient. The mean of whole numbers is rounded down.
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"scatter_reduce: reduce={reduce!r}: expected 'sum', 'prod', 'mean', 'amax' or 'amin'")
    rows, dim = _atleast_1d(x), dimension(x, dim, "scatter_reduce")
    index, part = _places("scatter_reduce", rows, dim, index, src)
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


@appears("put Tensor.put Tensor.put_")
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


@appears("scatter_add Tensor.scatter_add Tensor.scatter_add_")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """y = x, but y[index[i][j]][j] += src[i][j] (dim 0), y[i][index[i][j]] += src[i][j] (dim 1), and so on."""
    rows, dim = _atleast_1d(x), dimension(x, dim, "scatter_add")
    index, part = _places("scatter_add", rows, dim, index, src)
    if not index.numel():
        return clone(x)
    return reshape(rows + gather_backward(part, index, rows.shape, dim), x.shape)


@appears("index_add Tensor.index_add Tensor.index_add_")
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """y = x, with the slices of alpha times the source added at the places along `dim` that the index names."""
    dim, rows, parts = dimension(x, dim, "index_add"), _atleast_1d(x), _atleast_1d(source)
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


@appears("index_copy Tensor.index_copy")
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """y = x, with the source's slices at the places along `dim` that the index names."""
    y = clone(_atleast_1d(x))
    return reshape(index_copy_(y, dimension(x, dim, "index_copy"), _atleast_1d(index), _atleast_1d(source)), x.shape)


@appears("index_fill Tensor.index_fill Tensor.index_fill_")
def index_fill(x: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Tensor:
    """y = x, with one value at the places along `dim` that the index names."""
    if index.dtype.kind != "i" or index.ndim > 1:
        raise (IndexError if index.ndim > 1 else RuntimeError)(
            f"index_fill: the index must be a vector of whole numbers, got {index.dtype} of shape {index.shape}"
        )
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"index_fill: expected one value, got a tensor of shape {value.shape}; use index_copy()")
    y = clone(_atleast_1d(x))
    setitem(y, (slice(None),) * dimension(x, dim, "index_fill") + (_atleast_1d(index),), value)
    return reshape(y, x.shape)


@appears("index_put Tensor.index_put Tensor.index_put_")
def index_put(x: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """y = x, but y[indices] = values; with accumulate y[indices] += values, as often as an index comes."""
    key, y = tuple(indices), clone(x)
    if not accumulate:
        setitem(y, key, values)
        return y
    at = read(Tensor.of(np.arange(x.numel()).reshape(x.shape)), understand(x, key))
    return _added_at(x, flatten(at), flatten(expand(values, at.shape)))


@appears("masked_scatter Tensor.masked_scatter Tensor.masked_scatter_")
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


@appears("take Tensor.take")
def take(x: Tensor, index: Tensor) -> Tensor:
    """y = the elements of x at these places of the flattened x."""
    if index.dtype.kind != "i":
        raise RuntimeError(f"take: the index must be an integer tensor, got {index.dtype}")
    return flatten(x)[index]


@appears("take_along_dim Tensor.take_along_dim")
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


# -------------------------------------------------------------------------------------- counting and looking up


@appears("bincount Tensor.bincount")
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """y_v = how often v stands in a vector of whole numbers of 0 or more, or the sum of the weights where it stands."""
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise RuntimeError(f"bincount: expected a vector of whole numbers, got {x.dtype} of shape {x.shape}")
    if weights is not None and weights.shape != x.shape:
        raise RuntimeError(f"bincount: weights of shape {weights.shape} do not fit x of shape {x.shape}")
    if whole_number(minlength, "bincount: minlength") < 0 or (x.numel() and x.min().item() < 0):
        raise RuntimeError("bincount: expected whole numbers of 0 or more")
    n = builtins.max(minlength, x.max().item() + 1 if x.numel() else 0)
    if weights is None:
        weights = ones(x.shape, dtype=int64)
    elif weights.dtype.kind != "f":
        weights = weights.double()
    return scatter_rows(weights, x.to(int64), (n,))


def _runs(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The runs of equal rows: the first row of each run, the run of each row, and the length of each run."""
    n = x.shape[0]
    begins = ones(builtins.min(n, 1), dtype=bool_)
    if n > 1:
        differ = narrow(x, 0, 1, n - 1) != narrow(x, 0, 0, n - 1)
        begins = cat([begins, differ if x.ndim == 1 else differ.any(1)])
    starts = flatten(nonzero(begins))
    ends = cat([starts, tensor([n])])
    return x[starts], cumsum(begins, 0) - 1, narrow(ends, 0, 1, starts.numel()) - starts


def _asked_for(values: Tensor, inverse: Tensor, counts: Tensor, return_inverse: bool, return_counts: bool):
    if not return_inverse and not return_counts:
        return values
    return (values, *[inverse] * return_inverse, *[counts] * return_counts)


def _as_rows(what: str, x: Tensor, dim: int | None) -> tuple[Tensor, Callable]:
    """The elements, or the slices along `dim` as rows, for unique() to compare; and a function from rows to slices."""
    if dim is None:
        return flatten(x.detach()), lambda rows: rows
    dim = dimension_with_size(x, dim, what)
    moved = movedim(x.detach(), dim, 0)
    if not x.numel() and x.shape[dim]:
        raise RuntimeError(f"{what}: the slices of shape {x.shape} along dimension {dim} are empty")
    back = lambda rows: make_contiguous(movedim(reshape(rows, (rows.shape[0], *moved.shape[1:])), 0, dim))  # noqa: E731
    return reshape(moved, (x.shape[dim], math.prod(moved.shape[1:]))), back


def _sorting(rows: Tensor) -> Tensor:
    """The indices that sort elements, or rows by their first number, equal ones by their second, and so on."""
    if rows.ndim == 1:
        return argsort(rows)
    order = arange(rows.shape[0])
    for column in range(rows.shape[1])[::-1]:
        order = order[argsort(rows[order, column])]
    return order


@appears("unique Tensor.unique")
def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
):
    """The different elements of x in ascending order; where each element of x is among them; how often each comes.

    With `dim`, the slices along this dimension are compared, and sorted by their elements one after another.
    """
    rows, back = _as_rows("unique", x, dim)
    order = _sorting(rows)
    values, run, counts = _runs(rows[order])
    inverse = put(zeros(run.shape, dtype=int64), order, run)
    inverse = reshape(inverse, x.shape) if dim is None else inverse
    return _asked_for(back(values), inverse, counts, return_inverse, return_counts)


@appears("unique_consecutive Tensor.unique_consecutive")
def unique_consecutive(x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None):
    """x with one element for each run of equal ones; in which run each element of x is; how long each run is.

    With `dim`, the slices along this dimension are compared.
    """
    rows, back = _as_rows("unique_consecutive", x, dim)
    values, run, counts = _runs(rows)
    run = reshape(run, x.shape) if dim is None else run
    return _asked_for(back(values), run, counts, return_inverse, return_counts)


@appears("searchsorted")
def searchsorted(
    sorted_sequence: Tensor,
    values: Tensor | float | Sequence,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """y = how many elements of a sorted vector are smaller than each value (right: not larger).

    A sequence of several dimensions has a row for each row of values. A sequence that is not sorted needs the indices
    that sort it, `sorter`, of its shape.
    """
    if side not in (None, "left", "right") or (right and side == "left"):
        raise RuntimeError(f"searchsorted: side must be 'left' or 'right', and agree with right={right}; got {side!r}")
    if not isinstance(values, Tensor):
        known = None if isinstance(values, Sequence) else result_type(sorted_sequence, values)
        values = tensor(values, dtype=known)
    sequence, shape = sorted_sequence.detach(), values.shape
    if sorter is not None:
        if sorter.shape != sequence.shape or sorter.dtype != int64:
            raise RuntimeError(
                f"searchsorted: the sorter is {sorter.dtype} {sorter.shape}: expected the int64 indices that sort the "
                f"sequence, of shape {sequence.shape}"
            )
        sequence = gather(sequence, -1, sorter)
    if sequence.ndim != 1 and (sequence.ndim != values.ndim or sequence.shape[:-1] != shape[:-1]):
        raise RuntimeError(f"searchsorted: rows of shape {sequence.shape} do not fit values of shape {shape}")
    rows = values.detach() if sequence.ndim > 1 else flatten(values.detach())
    # Sorted together, equal elements keeping their order, each value stands behind the elements that it counts.
    behind = right or side == "right"
    order = argsort(cat([sequence, rows] if behind else [rows, sequence], -1), -1)
    n = sequence.shape[-1]
    of_sequence = order < n if behind else order >= rows.shape[-1]
    counts = scatter(zeros(order.shape, dtype=int64), -1, order, cumsum(of_sequence, -1))
    counts = narrow(counts, -1, n if behind else 0, rows.shape[-1])
    if rows.dtype.kind == "f":  # NaN stands behind everything, NaN included
        counts = where(isnan(rows), n, counts)
    return reshape(make_contiguous(counts), shape).to(int32 if out_int32 else int64)


@appears("bucketize")
def bucketize(
    x: Tensor | float | Sequence, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """y = the number of the bucket, between sorted boundaries, into which each element of x falls."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize: expected a vector of boundaries, got shape {boundaries.shape}")
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


class Histogram(NamedTuple):
    """The result of histogram(): the sum of weights between each edge and the next, and the edges."""

    hist: Tensor
    bin_edges: Tensor


def _check_bins(what: str, bins: int) -> None:
    if not 0 < whole_number(bins, f"{what}: bins") < 2**31:
        raise RuntimeError(f"{what}: bins must be between 1 and 2**31 - 1, got {bins}")


def _ends(what: str, x: Tensor, low: float, high: float, given: bool, widen: float) -> tuple[float, float]:
    """The range of the bins: as given, or that of the elements; by `widen` larger at both ends if it is empty."""
    if not given and x.numel():
        low, high = x.min().item(), x.max().item()
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise RuntimeError(f"{what}: expected a finite range whose max is not below its min, got {low} to {high}")
    return (low - widen, high + widen) if low == high else (low, high)


def _counted(place: Tensor, inside: Tensor, weight: Tensor, bins: int) -> Tensor:
    """y_b = the sum of the weights of the elements that are inside the range and in bin b."""
    place = where(inside, place, 0).to(int64).clamp(0, bins - 1)
    return scatter_rows(where(inside, weight, 0), place, (bins,))


@appears("histc Tensor.histc")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """y_b = how many elements are in part b of the range from min to max, cut into equal parts; others do not count.

    If min and max are both 0, the range is that of the elements. There is no gradient.
    """
    only_floats("histc", x)
    _check_bins("histc", bins)
    flat = flatten(x.detach())
    low, high = _ends("histc", flat, min, max, min != max or min != 0, 1)
    place = (flat - low) * bins / (high - low)
    return _counted(floor(place), (flat >= low) & (flat <= high), ones(flat.shape, dtype=x.dtype), bins)


@appears("histogram Tensor.histogram")
def histogram(
    x: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """y_b = how many elements e_b <= x < e_{b+1}, the last one also x = e_n: (hist, bin_edges).

    `bins` are the edges e, or the number of equal parts of the `range` (that of the elements unless given). An element
    counts as its `weight`, 1 unless given. With `density` the sum of y_b (e_{b+1} - e_b) is 1. There is no gradient.
    """
    only_floats("histogram", x)
    flat = flatten(x.detach())
    if isinstance(bins, Tensor):
        if bins.ndim != 1 or bins.numel() < 2 or bins.dtype != x.dtype or range is not None:
            raise RuntimeError(
                f"histogram: the edges are {bins.dtype} {bins.shape}: expected a vector of 2 or more of {x.dtype}, "
                "and no range beside it"
            )
        edges = clone(bins.detach())
    else:
        _check_bins("histogram", bins)
        if range is not None and len(range) != 2:
            raise RuntimeError(f"histogram: the range is two numbers, got {range}")
        edges = linspace(*_ends("histogram", flat, *(range or (0, 1)), range is not None, 0.5), bins + 1, dtype=x.dtype)
    if weight is not None and (weight.shape != x.shape or weight.dtype != x.dtype):
        raise RuntimeError(f"histogram: the weight is {weight.dtype} {weight.shape}: expected {x.dtype} {x.shape}")
    weight = ones(flat.shape, dtype=x.dtype) if weight is None else flatten(weight.detach())
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    hist = _counted(searchsorted(edges, flat, right=True) - 1, inside, weight, edges.numel() - 1)
    return Histogram(hist / sum(hist) / (edges[1:] - edges[:-1]) if density else hist, edges)


@appears("isin")
def isin(
    elements: Tensor | float | Sequence,
    test_elements: Tensor | float | Sequence,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:
    """y = [the element is among the test elements]."""
    elements, tests = (x.detach() if isinstance(x, Tensor) else tensor(x) for x in (elements, test_elements))
    if not tests.numel():
        found = zeros(elements.shape, dtype=bool_)
    else:
        tests = sort(flatten(tests))[0]
        at = searchsorted(tests, elements).clamp(max=tests.numel() - 1)
        found = tests[at] == elements
    return ~found if invert else found

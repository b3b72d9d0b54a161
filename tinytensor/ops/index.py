"""Reading and writing rows and elements at indices; gradients are added up at the place of origin."""

import builtins
import math

import numpy as np

from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import check, contiguous, empty, host, launch, move, state
from tinytensor.core.dtypes import bool_, int32, int64
from tinytensor.core.op import op
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension
from tinytensor.ops.creation import ones, zeros
from tinytensor.ops.elementwise import logical_and, where
from tinytensor.ops.keys import Key, parse_index
from tinytensor.ops.shape import broadcast_tensors, clone, flatten, make_contiguous, permute, reshape, slice_op


@op
class take:
    r"y_{r} = x_{i_r}: rows of x by their number"

    def forward(x, index):
        rows, index = contiguous(x), contiguous(index)
        width = math.prod(x.shape[1:])
        y, bad, n = empty(index.shape + x.shape[1:], x.dtype), no_index_is_bad(), x.shape[0]
        flat = rows.reshape(n, width), index.reshape(-1), y.reshape(index.size, width)
        launch(kernels.take, *flat, bad)
        check(bad, lambda bad: refuse_index("embedding", bad[1], n))
        return y

    def grad_x(g, x_shape, index):
        return scatter_rows(g, index, x_shape)


@op
class scatter_rows:
    r"y_v = \sum_{r: i_r = v} x_r: rows added up at their numbers"

    def forward(x, index, shape):
        y = empty(shape, x.dtype)
        width = math.prod(shape[1:])
        rows = contiguous(x).reshape(index.size, width)
        launch(kernels.scatter_add, rows, contiguous(index).reshape(-1), y.reshape(shape[0], width))
        return y

    def grad_x(g, index):
        return take(g, index)


@op
class gather_op:
    r"y_{..j..} = x_{.. i_{..j..} ..} along one dimension"

    def forward(x, index, dim):
        y = empty(index.shape, x.dtype)
        outer, inner = math.prod(index.shape[:dim]), math.prod(index.shape[dim + 1 :])
        rows = contiguous(x[tuple(slice(n) if d != dim else slice(None) for d, n in enumerate(index.shape))])
        shapes = (outer, x.shape[dim], inner), (outer, index.shape[dim], inner)
        flat = rows.reshape(shapes[0]), contiguous(index).reshape(shapes[1]), y.reshape(shapes[1])
        bad, n = no_index_is_bad(), x.shape[dim]
        launch(kernels.gather, *flat, bad)
        check(bad, lambda bad: refuse_index("gather", bad[1], n))
        return y

    def grad_x(g, x_shape, index, dim):
        return gather_backward(g, index, x_shape, dim)


@op
class gather_backward:
    r"y_{..i..} = \sum_{j: i_j = i} x_{..j..} along one dimension"

    def forward(x, index, shape, dim):
        outer, inner = math.prod(index.shape[:dim]), math.prod(index.shape[dim + 1 :])
        seen = index.shape[:dim] + (shape[dim],) + index.shape[dim + 1 :]
        part = empty(seen, x.dtype)
        rows, at = (contiguous(a).reshape(outer, index.shape[dim], inner) for a in (x, index))
        launch(kernels.gather_backward, rows, at, part.reshape(outer, shape[dim], inner))
        if seen == tuple(shape):
            return part
        y = empty(shape, x.dtype)
        move(np.zeros((), x.dtype), y)
        move(part, y[tuple(slice(n) for n in seen)])
        return y

    def grad_x(g, index, dim):
        return gather_op(g, index, dim)


@register("gather Tensor.gather")
def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """y[i][j] = x[index[i][j]][j] (dim 0) or x[i][index[i][j]] (dim 1), and so on."""
    dim = dimension(x, dim, "gather")
    if index.dtype.kind != "i":
        raise RuntimeError(f"gather: the index must be an integer tensor, got {index.dtype}")
    if x.ndim == 0:
        return reshape(clone(x), index.shape)
    if index.ndim != x.ndim or builtins.any(
        n > m for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=False)) if d != dim
    ):
        raise RuntimeError(f"gather: index {index.shape} does not fit x {x.shape}: only dimension {dim} may be larger")
    return gather_op(x, index.to(int64), dim)


def check_range(index: np.ndarray, n: int, what: str, least: int = 0) -> None:
    if index.size and (index.min() < least or index.max() >= n):
        refuse_index(what, index.min() if index.min() < least else index.max(), n, least)


def no_index_is_bad() -> np.ndarray:
    """(0, 0), which a kernel that reads indices sets to (1, the index) if one is out of range."""
    return np.zeros(2, int64)


def refuse_index(what: str, index: int, n: int, least: int = 0) -> None:
    raise IndexError(f"{what}: index {index} is outside {least} to {n - 1}")


@register("embedding")
def embedding(index: Tensor, weight: Tensor) -> Tensor:
    """y = the rows of the weight (V, D) that the index names; y has the index's shape and D."""
    if not isinstance(index, Tensor) or index.dtype.kind != "i":
        raise RuntimeError(f"embedding: expected an integer tensor of indices, got {getattr(index, 'dtype', index)}")
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: expected a weight of shape (V, D), got {weight.shape}")
    return take(weight, index.to(int64))


@register("index_select Tensor.index_select")
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """y = the slices of x along `dim` that the index names."""
    dim = dimension(x, dim, "index_select")
    if index.dtype not in (int32, int64):  # truth values would be a mask in a key
        raise RuntimeError(f"index_select: the index must be int32 or int64, got {index.dtype}; use index.long()")
    if index.ndim > 1:
        raise IndexError(f"index_select: the index must be a vector, got shape {index.shape}; x[index] takes any")
    if x.ndim == 0:  # it counts as a vector of one element; only the result's shape differs
        return reshape(index_select(flatten(x), 0, index), ())
    index = index if index.ndim else reshape(index, (1,))
    host(check_range, index._data, x.shape[dim], "index_select")  # a key may count from the end
    return x[(slice(None),) * dim + (index,)]


@register("nonzero Tensor.nonzero")
def nonzero(x: Tensor, as_tuple: bool = False):
    """The indices of the elements that are not zero: (n, ndim), or one tensor a dimension."""
    values = x._values("nonzero()")
    indices = np.nonzero(values if x.ndim else values.reshape(1))
    return (
        tuple(Tensor.of(np.ascontiguousarray(i)) for i in indices)
        if as_tuple
        else Tensor.of(np.stack(indices, 1)[:, : x.ndim])
    )


@register("masked_select Tensor.masked_select")
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of x where the mask holds, in order, as a vector."""
    if mask.dtype != bool_:
        raise RuntimeError(f"masked_select: the mask must be a bool tensor, got {mask.dtype}; compare first (x != 0)")
    x, mask = broadcast_tensors(x, mask)
    return x[mask]


@register("Tensor.__getitem__")
def getitem(x: Tensor, key) -> Tensor:
    """y = x[key]: a view for slices and whole numbers, a copy where index tensors or masks are among them."""
    y = part_at_once(x, key)
    return read(x, parse_index(x, key)) if y is None else y


def part_at_once(x: Tensor, key) -> Tensor | None:
    """The view x[key] for a key of whole numbers and slices, as most are; None for others, for `parse_index`."""
    parts = key if key.__class__ is tuple else (key,)
    if x._data.__class__ is np.ndarray and (key.__class__ is int or all(map(_means_the_same, parts))):
        try:
            return slice_op.quick(x, parts)
        except IndexError:  # `parse_index` raises it with its reason
            pass
    return None if state.reading is None else state.reading.part(x, key)


def _means_the_same(part) -> bool:
    """Is this part of a key one that NumPy reads as PyTorch does: a whole number, or a slice of whole numbers?"""
    if part.__class__ is slice:
        start, stop = part.start, part.stop
        return (
            part.step is None and (start is None or start.__class__ is int) and (stop is None or stop.__class__ is int)
        )
    return part.__class__ is int


def read(x: Tensor, key: Key) -> Tensor:
    """x at a key that `parse_index` has read."""
    if not key.arrays:
        return slice_op(x, key.view)
    rows, index, finish = _advanced(x, key)
    return finish(take(rows, index))


@op
class put:
    r"y = x, but y[p_r] = v_r at positions in the flattened tensor; where a position comes twice, the last value stays"

    def forward(x, positions, value):
        y = empty(x.shape, x.dtype)
        move(x, y)
        host(_put, y.reshape(-1), positions, value)
        return y

    def grad_x(g, positions, value_shape):
        return put(g, positions, zeros(value_shape, dtype=g.dtype))

    def grad_value(g, x_shape, positions):
        # A value that a later one overwrote is in no element of y and has no gradient.
        return where(_stays(positions, math.prod(x_shape)), take(flatten(g), positions), 0)


def _put(flat, positions, value):
    flat[positions.reshape(-1)] = value.reshape(-1)  # an array of objects would store a 0-d array as an element


@op
class scatter_extreme:
    r"y = x, but y_p = \max (or \min) of the v_r with p_r = p, and of x_p; equal ones share the gradient"

    def forward(x, positions, value, include_self, largest):
        y = empty(x.shape, x.dtype)
        move(x, y)
        host(_extreme_at, y.reshape(-1), positions, value, include_self, largest)
        return y

    def grad_x(g, y, x, positions, value, include_self):
        equal, _, share = _equal_ones(g, y, x, positions, value, include_self)
        written = put(zeros(x.shape, dtype=bool_), positions, ones(positions.shape, dtype=bool_))
        return where(written, where(equal, reshape(share, x.shape), 0), g)

    def grad_value(g, y, x, positions, value, include_self):
        _, equal, share = _equal_ones(g, y, x, positions, value, include_self)
        return where(equal, take(share, positions), 0)


def _extreme_at(flat, positions, value, include_self: bool, largest: bool) -> None:
    if not include_self:
        flat[positions] = value  # one of the values to compare replaces the old element
    with np.errstate(invalid="ignore"):  # NaN is the extreme
        (np.maximum if largest else np.minimum).at(flat, positions, value)


def _equal_ones(g, y, x, positions, value, include_self):
    """Which elements of x and of the value equal the extreme of their place, and the share of each in its gradient."""
    equal = logical_and(x == y, include_self)
    equal_values = value == take(flatten(y), positions)
    count = flatten(equal.to(g.dtype)) + scatter_rows(equal_values.to(g.dtype), positions, (g.numel(),))
    return equal, equal_values, flatten(g) / where(count == 0, 1, count)  # 0 where nothing was written, or NaN


def _stays(positions: Tensor, n: int) -> Tensor:
    """For each position among n: is it not repeated later?"""
    y = empty(positions.shape, bool_)
    host(_mark_last, positions._data.reshape(-1), n, y.reshape(-1))
    return Tensor.of(y)


def _mark_last(positions: np.ndarray, n: int, y: np.ndarray) -> None:
    """y[r] = is r the last place where positions[r] stands? (NumPy assigns in order, so the last one is kept.)"""
    last, order = np.empty(n, int64), np.arange(positions.size)
    last[positions] = order
    y[...] = last[positions] == order


def _advanced(x: Tensor, key: Key):
    """x[key] as rows of a matrix: (rows (V, ...), index, how to arrange the taken rows).

    First the view is taken, then the dimensions that index arrays address are brought to the front and made one.
    """
    x, (_, arrays, dims) = slice_op(x, key.view), key
    try:
        shape = broadcast_shape("indexing", *(a.shape for a in arrays))
    except RuntimeError as error:
        raise IndexError(*error.args) from None
    sizes = tuple(x.shape[p] for p in dims)
    index = empty(shape, int64)
    host(_flat_index, list(arrays), sizes, index)
    rest = [d for d in range(x.ndim) if d not in dims]
    rows = permute(x, [*dims, *rest])
    rows = reshape(rows, (math.prod(sizes), *rows.shape[len(dims) :]))

    # A 0-d index (in a recording, which does not know its value) is a whole number, and its dimension goes first.
    gone = [p for p, a in zip(dims, arrays, strict=True) if a.ndim == 0]
    stand = [p - builtins.sum(q < p for q in gone) for p in dims if p not in gone]
    together = stand == list(range(stand[0], stand[0] + len(stand))) if stand else False

    def finish(taken: Tensor) -> Tensor:
        """Index arrays that stand together leave their dimensions at their place, others in front."""
        before = stand[0] if together else 0
        if not before:
            return taken
        n = len(shape)
        order = [*range(n, n + before), *range(n), *range(n + before, taken.ndim)]
        return make_contiguous(permute(taken, order))

    return rows, Tensor.of(index), finish


def _flat_index(arrays: list[np.ndarray], sizes: tuple[int, ...], index: np.ndarray) -> None:
    """index = the arrays' position in row-major order; negative numbers count from the end."""
    index[...] = 0
    for array, n in zip(arrays, sizes, strict=True):
        if index.size and (array.min() < -n or array.max() >= n):
            wrong = array.max() if array.max() >= n else array.min()
            raise IndexError(f"indexing: index {wrong} is out of range for a dimension of size {n}")
        index *= n
        index += np.where(array < 0, array + n, array)

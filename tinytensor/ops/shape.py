"""Dtypes, copies and shapes. Most of these operations return views of memory that exists."""

import builtins
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from tinytensor.core.devices import check_device
from tinytensor.core.dispatch import empty, may_be_copied, move
from tinytensor.core.dtype_objects import DType
from tinytensor.core.dtypes import bool_, float32, float64, int32, int64, result_type, uint8
from tinytensor.core.meta import Meta
from tinytensor.core.op import op
from tinytensor.core.promotion import broadcast_shape, is_one
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import (
    dimension,
    dimension_of_shape,
    dimension_with_size,
    dimensions,
    list_of_tensors,
    sizes_of,
    whole_number,
)
from tinytensor.ops.arrays import constants
from tinytensor.ops.creation import TENSOR_TYPES, as_dtype, full, tensor
from tinytensor.ops.creation import empty as empty_of
from tinytensor.ops.elementwise import masked_fill

_concatenate = np.concatenate


@op
class cast:
    r"y = x, in another dtype"

    def forward(x, dtype):
        y = empty(x.shape, dtype)
        move(x, y)
        return y

    def grad_x(g):
        return g  # backward() gives it the dtype of x


@op
class clone_op:
    r"y = x, in memory of its own"

    def forward(x):
        y = empty(x.shape, x.dtype)
        move(x, y)
        return y

    def grad_x(g):
        return g


@register("clone Tensor.clone")
def clone(x: Tensor) -> Tensor:
    """y = x, in memory of its own."""
    return clone_op(x)


@register("Tensor.contiguous")
def make_contiguous(x: Tensor) -> Tensor:
    """x itself if its elements lie in order, else a copy."""
    return x if x._data.flags.c_contiguous else clone(x)


@register("Tensor.to")
def to(x: Tensor, *args, dtype=None, device=None, copy: bool = False, non_blocking: bool = False) -> Tensor:
    """x in another dtype (`x.to(float64)`, `x.to(other)`) or place (`x.to("cpu")`); itself if nothing changes.

    Whole numbers are taken modulo 2**bits: 300 is 44 in a byte. A float that the whole numbers of a dtype do not hold
    (300.5, NaN) becomes what the processor makes of it, as in PyTorch.
    """
    same = len(args) == 1 and (args[0] is x._data.dtype or args[0] is x.dtype)  # NumPy's object, or ours
    if same and dtype is None and device is None and not copy:  # most often
        return x
    for arg in args:
        if isinstance(arg, Tensor):
            dtype = arg.dtype
        elif isinstance(arg, str | int):
            device = arg
        elif arg is not None:
            dtype = arg
    target = x.device if device is None else check_device(device, "to")
    dtype = x._data.dtype if dtype is None else as_dtype(dtype)
    if target != x.device:
        if x.is_meta:
            raise RuntimeError("to: a meta tensor has a shape, but no values to copy; build it without device='meta'")
        return Tensor.of(Meta(x.shape, dtype))
    if dtype != x._data.dtype:
        if dtype is uint8 and x.dtype.kind == "f":  # 300.0 becomes 44, as 300 does, on every processor
            x = cast(x, int64)
        return cast(x, dtype)
    return clone(x) if copy else x


def _conversion(name: str, dtype: np.dtype) -> None:
    """Declare the method that converts to a dtype and bears its name."""

    def convert(x: Tensor) -> Tensor:
        return to(x, dtype)

    convert.__doc__ = f"x as {dtype}; x itself if it has that dtype."
    register(f"Tensor.{name}")(convert)


for _name, _dtype in zip(
    ("float", "double", "byte", "int", "long", "bool"), (float32, float64, uint8, int32, int64, bool_), strict=True
):
    _conversion(_name, _dtype)


@register("Tensor.type")
def to_type(x: Tensor, dtype=None, non_blocking: bool = False) -> Tensor | str:
    """x in another dtype, or x itself if it has that dtype; without a dtype, PyTorch's name of x's tensor type."""
    if dtype is None:
        return next((name for name, of in TENSOR_TYPES.items() if of == x.dtype), str(x.dtype))
    return to(x, dtype=dtype)


@register("Tensor.type_as")
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the dtype of another tensor."""
    return to(x, other.dtype)


@register("Tensor.cpu Tensor.pin_memory Tensor.__pos__")
def itself(x: Tensor) -> Tensor:
    """x itself: it is on the CPU, where pinning memory has no use, and a unary + changes nothing."""
    return x


@register("Tensor.is_cuda Tensor.is_nested Tensor.is_sparse")
@property
def is_cuda(x: Tensor) -> bool:
    """False: tensors are on the CPU, dense, and their rows have one length."""
    return False


@op
class reshape_view:
    r"y = x, read in another shape"

    def view(x, shape):  # NumPy does not have to search for strides if x is contiguous
        return x.reshape(shape) if x.flags.c_contiguous else x.reshape(shape, copy=False)

    def grad_x(g, x_shape):
        return reshape(g, x_shape)


@op
class permute_op:
    r"y_{i_{d_1} i_{d_2} ...} = x_{i_1 i_2 ...}"

    def view(x, dims):
        return x.transpose(dims)

    def grad_x(g, dims):
        return permute_op(g, tuple(int(d) for d in np.argsort(dims)))


@op
class expand_op:
    r"y = x, repeated along new dimensions or those of size 1, without a copy"

    def view(x, shape):
        strides = (0,) * (len(shape) - x.ndim) + tuple(
            0 if n == 1 and m != 1 else s
            for n, m, s in zip(x.shape, shape[len(shape) - x.ndim :], x.strides, strict=True)
        )
        return np.lib.stride_tricks.as_strided(x, shape, strides)

    def grad_x(g):
        return g  # summed to x's shape in backward()


@op
class slice_op:
    r"y = x[key] with slices, whole numbers, None and ... in the key"

    is_part = True

    def view(x, key):
        return x[_with_dots(key)]

    def grad_x(g, x_shape, key):
        return g if g.shape == x_shape else unslice(g, x_shape, key)  # steps are positive, so this is all of x


@op
class unslice:
    r"y = 0 everywhere, but y[key] = x"

    def forward(x, shape, key):
        y = empty(shape, x.dtype)
        move(np.zeros((), x.dtype), y)
        move(x, y[_with_dots(key)])
        return y

    def grad_x(g, key):
        return slice_op(g, key)


def _with_dots(key):
    """A key for which NumPy always returns a view: without `...` it copies a single element into a scalar."""
    return key if key is ... else (*key, ...)


@op
class flip_op:
    r"y = x, back to front along the given dimensions"

    def forward(x, dims):
        y = empty(x.shape, x.dtype)
        move(np.flip(x, dims), y)
        return y

    def grad_x(g, dims):
        return flip_op(g, dims)


@register("reshape Tensor.reshape")
def reshape(x: Tensor, *shape) -> Tensor:
    """y = x in another shape, with one size -1 to be found; a view where memory allows, else a copy."""
    old, sizes = x._data.shape, sizes_of(shape, "reshape")
    try:
        shape = _known_shape(old, sizes, "reshape")
    except TypeError:  # sizes without numbers, which no cache can hold
        shape = _infer(old, sizes, "reshape")
    try:
        return reshape_view.quick(x, shape)
    except ValueError:
        return reshape_view(clone(x), shape)


@register("Tensor.view")
def view(x: Tensor, *shape) -> Tensor:
    """y = x in another shape, sharing memory."""
    if len(shape) == 1 and shape[0].__class__ is not int and isinstance(shape[0], DType | np.dtype):
        raise TypeError("view: reading memory as another dtype is not offered; use .to(dtype)")
    old, wanted = x._data.shape, sizes_of(shape, "view")
    try:
        shape = _known_shape(old, wanted, "view")
    except TypeError:  # as in reshape
        shape = _infer(old, wanted, "view")
    try:
        return reshape_view.quick(x, shape)
    except ValueError:
        raise RuntimeError(
            f"view: shape {x.shape} with strides {x.stride()} can't be read as {wanted} without a copy; use reshape()"
        ) from None


@register("Tensor.view_as")
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """y = x in the shape of another tensor, sharing memory."""
    return view(x, other.shape)


def _infer(old: tuple, shape: tuple, what: str) -> tuple[int, ...]:
    """The shape in which to read a tensor of the old shape, with the number in place of the size -1."""
    size, known = math.prod(old), math.prod([n for n in shape if n != -1])
    if shape.count(-1) > 1 or builtins.any(n < -1 for n in shape):
        raise RuntimeError(f"{what}: {shape}: sizes must be 0 or more, and at most one may be -1")
    if -1 in shape and known and size % known == 0:
        shape = tuple([size // known if n == -1 else n for n in shape])
    if -1 in shape or math.prod(shape) != size:
        raise RuntimeError(f"{what}: {size} elements of shape {old} do not fill the shape {shape}")
    return shape


_known_shape = functools.lru_cache(maxsize=1024)(_infer)  # programs use the same few shapes again and again


@register("flatten Tensor.flatten")
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """y = x with the dimensions from start to end (inclusive) made one; x itself if that is one dimension."""
    start, end = dimension(x, start_dim, "flatten"), dimension(x, end_dim, "flatten")
    if x.ndim == 0:
        return reshape(x, 1)
    if start > end:
        raise RuntimeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim} for shape {x.shape}")
    if start == end:
        return x
    return reshape(x, x.shape[:start] + (math.prod(x.shape[start : end + 1]),) + x.shape[end + 1 :])


@register("unflatten Tensor.unflatten")
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """y = x with one dimension split into several; one of the sizes may be -1."""
    dim = dimension_with_size(x, dim, "unflatten")
    return reshape(
        x, x.shape[:dim] + _infer((x.shape[dim],), sizes_of((sizes,), "unflatten"), "unflatten") + x.shape[dim + 1 :]
    )


@register("permute Tensor.permute")
def permute(x: Tensor, *dims) -> Tensor:
    """y = x with its dimensions in another order (a view)."""
    dims = sizes_of(dims, "permute")
    order = tuple(dimension(x, d, "permute") for d in dims)
    if sorted(order) != list(range(x.ndim)):
        raise RuntimeError(f"permute: {dims} must name each of the {x.ndim} dimensions of shape {x.shape} once")
    return permute_op(x, order)


@functools.lru_cache(maxsize=1024, typed=True)  # as _infer
def _exchanged(ndim: int, dim0: int, dim1: int) -> tuple[int, ...]:
    """The order of the dimensions when two of them are exchanged."""
    a, b = (dimension_of_shape(range(ndim), d, "transpose") for d in (dim0, dim1))
    order = list(range(ndim))
    if order:
        order[a], order[b] = b, a
    return tuple(order)


@register("transpose swapaxes swapdims Tensor.transpose Tensor.swapaxes Tensor.swapdims")
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """y = x with two dimensions exchanged (a view)."""
    try:
        order = _exchanged(x._data.ndim, dim0, dim1)
    except IndexError:  # raised again with the shape
        order = dimension(x, dim0, "transpose"), dimension(x, dim1, "transpose")
    return permute_op.quick(x, order) if order else x


@register("t Tensor.t")
def t(x: Tensor) -> Tensor:
    """y_{ji} = x_{ij}."""
    if x.ndim > 2:
        raise RuntimeError(f"t: expected at most 2 dimensions, got shape {x.shape}; use transpose() or .mT")
    return x if x.ndim < 2 else permute_op(x, (1, 0))


@register("movedim moveaxis Tensor.movedim Tensor.moveaxis")
def movedim(x: Tensor, source, destination) -> Tensor:
    """y = x with the dimensions at `source` moved to `destination`."""
    source, destination = (
        [dimension(x, d, "movedim") for d in sizes_of((dims,), "movedim")] for dims in (source, destination)
    )
    if len(source) != len(destination) or len(set(source)) < len(source) or len(set(destination)) < len(source):
        raise RuntimeError(
            f"movedim: expected as many places as dimensions, none of them twice, got {source} to {destination}"
        )
    if x.ndim == 0:
        return x
    order = [d for d in range(x.ndim) if d not in source]
    for position, dim in sorted(zip(destination, source, strict=True)):
        order.insert(position, dim)
    return permute_op(x, tuple(order))


@register("Tensor.expand")
def expand(x: Tensor, *shape) -> Tensor:
    """y = x, repeated to a larger shape without a copy; -1 keeps a size."""
    sizes = sizes_of(shape, "expand")
    old, added = x._data.shape, len(sizes) - x._data.ndim
    new = sizes[:added] + tuple([n if m == -1 else m for n, m in zip(old, sizes[added:], strict=False)])
    if added < 0 or not builtins.all(map(_may_become, (1,) * added + old, new)):
        raise RuntimeError(
            f"expand: shape {x.shape} can't become {sizes}: only new dimensions and those of size 1 grow"
        )
    return expand_op(x, new)


def _may_become(n: int, m: int) -> bool:
    return m >= 0 and (is_one(n) or n in (m, 1))


@register("Tensor.expand_as")
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """y = x, repeated to the shape of another tensor without a copy."""
    return expand(x, other.shape)


@register("broadcast_tensors")
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors, expanded to the shape they have together."""
    shape = broadcast_shape("broadcast_tensors", *(x.shape for x in tensors))
    return tuple(expand(x, shape) for x in tensors)


@register("squeeze Tensor.squeeze")
def squeeze(x: Tensor, dim=None) -> Tensor:
    """y = x without its dimensions of size 1 (all, or those named)."""
    nothing = isinstance(dim, Sequence) and not dim
    dims = () if nothing else dimensions(x, dim, "squeeze")
    return reshape_view(x, tuple(n for d, n in enumerate(x.shape) if d not in dims or n != 1))


@register("unsqueeze Tensor.unsqueeze")
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """y = x with a new dimension of size 1."""
    dim = dimension(x, dim, "unsqueeze", extra=1)
    return reshape_view(x, x.shape[:dim] + (1,) + x.shape[dim:])


@register("narrow Tensor.narrow")
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """y = the part of x from start, `length` long, along one dimension (a view)."""
    dim = dimension_with_size(x, dim, "narrow")
    start, length = whole_number(start, "narrow: start"), whole_number(length, "narrow: length")
    start += x.shape[dim] if start < 0 else 0
    if not 0 <= start <= start + length <= x.shape[dim]:
        raise RuntimeError(f"narrow: {start} to {start + length} is outside dimension {dim} of shape {x.shape}")
    return slice_op(x, (slice(None),) * dim + (slice(start, start + length),))


@register("split Tensor.split")
def split(x: Tensor, split_size_or_sections, dim: int = 0) -> tuple[Tensor, ...]:
    """x in pieces of one size (the last may be smaller) or of the sizes listed, as views."""
    dim = dimension_with_size(x, dim, "split")
    n, sizes = x.shape[dim], split_size_or_sections
    if isinstance(sizes, Sequence) and not isinstance(sizes, str):
        sizes = sizes_of(tuple(sizes), "split")
    else:
        size = whole_number(sizes, "split: the size of a piece")
        if size < 0 or (size == 0 and n):
            raise RuntimeError(f"split: the size of a piece must be positive, got {size}")
        sizes = [builtins.min(size, n - i) for i in range(0, n, size)] if n else [0]
    if builtins.sum(sizes) != n:
        raise RuntimeError(
            f"split: the sizes {list(sizes)} add up to {builtins.sum(sizes)}, but dimension {dim} has {n}"
        )
    starts = itertools.accumulate(sizes, initial=0)
    return tuple(narrow(x, dim, start, m) for start, m in zip(starts, sizes, strict=False))


@register("chunk Tensor.chunk")
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """x in (at most) `chunks` pieces of equal size, as views."""
    chunks = whole_number(chunks, "chunk: the number of pieces")
    if chunks <= 0:
        raise RuntimeError(f"chunk: the number of pieces must be positive, got {chunks}")
    n = x.shape[dimension_with_size(x, dim, "chunk")]
    return split(x, -(-n // chunks), dim) if n else (x,) * chunks


@register("unbind Tensor.unbind")
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """x's slices along one dimension, as views."""
    dim = dimension_with_size(x, dim, "unbind")
    return tuple(slice_op(x, (slice(None),) * dim + (i,)) for i in range(x.shape[dim]))


@op
class cat_op:
    r"y = x_1 \oplus x_2 \oplus ... along one dimension"

    def forward(dim, *xs):  # all checks stand here: the launch cache skips them for calls that it knows
        shapes = [x.shape for x in xs]
        if len(set(shapes)) > 1:  # tensors of shape (0,) among others are PyTorch's old form of nothing
            xs = [x for x in xs if x.shape != (0,)]
        dim, shape = joined_shape([x.shape for x in xs], dim)
        y, start, before = empty(shape, _dtype_of_all(xs)), 0, (slice(None),) * dim
        if may_be_copied(y):
            return _concatenate(xs, dim, out=y)
        for x in xs:
            move(x, y[(*before, slice(start, start + x.shape[dim]))])
            start += x.shape[dim]
        return y

    def grad_xs(g, dim, xs_shape):
        sizes = [0 if shape == (0,) else shape[dim] for shape in xs_shape]
        pieces = zip(split(g, sizes, dim), xs_shape, strict=True)
        return [piece if piece.shape == shape else reshape(piece, shape) for piece, shape in pieces]


@op
class stack_op:
    r"y = x_1, x_2, ... one after the other along a new dimension"

    def forward(dim, *xs):
        shape, dim = xs[0].shape, dimension_of_shape(xs[0].shape, dim, "stack", extra=1)
        if builtins.any(x.shape != shape for x in xs):
            raise RuntimeError(f"stack: expected equal shapes, got {', '.join(str(x.shape) for x in xs)}")
        y = empty((*shape[:dim], len(xs), *shape[dim:]), _dtype_of_all(xs))
        for i, x in enumerate(xs):
            move(x, y[(*(slice(None),) * dim, i, ...)])
        return y

    def grad_xs(g, dim):
        return unbind(g, dim)


def _dtype_of_all(xs: Sequence[np.ndarray]) -> np.dtype:
    """The common dtype of arrays."""
    alike = builtins.all(x.dtype is xs[0].dtype for x in xs)
    return xs[0].dtype if alike else result_type(*map(Tensor.of, xs))


def joined_shape(shapes: list[tuple], dim: int) -> tuple[int, tuple[int, ...]]:
    """The dimension in which tensors of these shapes are joined, from the front, and the shape of the result."""
    first = shapes[0]
    if not first:
        raise RuntimeError("cat: 0-d tensors can't be joined; use stack()")
    dim = dimension_of_shape(first, dim, "cat")
    for shape in shapes:
        if len(shape) != len(first) or shape[:dim] != first[:dim] or shape[dim + 1 :] != first[dim + 1 :]:
            raise RuntimeError(f"cat: shapes {', '.join(map(str, shapes))} differ elsewhere than in dimension {dim}")
    return dim, (*first[:dim], builtins.sum([shape[dim] for shape in shapes]), *first[dim + 1 :])


@register("cat concat concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join tensors along a dimension they have."""
    tensors = list_of_tensors(tensors, "cat")
    if not tensors:
        raise RuntimeError("cat: expected at least one tensor")
    return cat_op.quick(dim if dim.__class__ is int else whole_number(dim, "cat: dim"), *tensors)


@register("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join tensors of one shape along a new dimension."""
    tensors = list_of_tensors(tensors, "stack")
    if not tensors:
        raise RuntimeError("stack: expected at least one tensor")
    return stack_op.quick(dim if dim.__class__ is int else whole_number(dim, "stack: dim"), *tensors)


def _triangle(x: Tensor, diagonal: int, upper: bool, what: str) -> Tensor:
    if x.ndim < 2:
        raise RuntimeError(f"{what}: expected at least 2 dimensions, got shape {x.shape}")
    keep = constants(np.tri, *x.shape[-2:], diagonal - 1 if upper else diagonal, dtype=bool)
    return masked_fill(x, Tensor.of(keep if upper else ~keep), 0)


@register("tril Tensor.tril Tensor.tril_")
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """y_{ij} = x_{ij} where j <= i + diagonal, else 0."""
    return _triangle(x, diagonal, False, "tril")


@register("triu Tensor.triu Tensor.triu_")
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """y_{ij} = x_{ij} where j >= i + diagonal, else 0."""
    return _triangle(x, diagonal, True, "triu")


@register("flip Tensor.flip")
def flip(x: Tensor, *dims) -> Tensor:
    """y = x, back to front along the given dimensions."""
    order = tuple(dimension(x, d, "flip") for d in sizes_of(dims, "flip"))
    if len(set(order)) < len(order):
        raise RuntimeError(f"flip: a dimension appears twice in {order}")
    return flip_op(x, order) if x.ndim else clone(x)


@register("roll Tensor.roll")
def roll(x: Tensor, shifts, dims=None) -> Tensor:
    """y_i = x_{(i - shift) mod n} along one dimension, or several (with a shift each)."""
    if dims is None:
        return reshape(roll(flatten(x), shifts, 0), x.shape)
    dims, shifts = sizes_of((dims,), "roll"), sizes_of((shifts,), "roll")
    if len(shifts) != len(dims):
        raise RuntimeError(f"roll: expected a shift for each of the dimensions {dims}, got {shifts}")
    for shift, dim in zip(shifts, dims, strict=True):
        dim = dimension_with_size(x, dim, "roll")
        n = x.shape[dim]
        shift = shift + n if -n <= shift < 0 else shift if 0 <= shift <= n else shift % n if n else 0
        x = cat([narrow(x, dim, n - shift, shift), narrow(x, dim, 0, n - shift)], dim) if n else x
    return x


@register("Tensor.repeat")
def repeat(x: Tensor, *repeats) -> Tensor:
    """y = x, repeated repeats[d] times along each dimension d; further dimensions are added in front."""
    times = sizes_of(repeats, "repeat")
    if len(times) < x.ndim or builtins.any(n < 0 for n in times):
        raise RuntimeError(f"repeat: expected at least {x.ndim} numbers of 0 or more for shape {x.shape}, got {times}")
    shape = (1,) * (len(times) - x.ndim) + x.shape
    doubled = reshape(x, [k for n in shape for k in (1, n)])
    spread = expand(doubled, [k for m, n in zip(times, shape, strict=True) for k in (m, n)])
    return reshape_view(clone(spread), tuple(m * n for m, n in zip(times, shape, strict=True)))  # never x's own memory


@register("repeat_interleave Tensor.repeat_interleave")
def repeat_interleave(
    x: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """y = x with each element repeated in place along a dimension: all as often, or element i as often as repeats[i].

    Without `dim` x is flattened first. A tensor of whole numbers alone is taken as `repeats`; y then has each index i
    repeats[i] times. `output_size`, if given, must be the size of the result along the dimension.
    """
    if repeats is None:
        x, repeats, dim = Tensor.of(constants(np.arange, x.numel())), x, 0
    if dim is None:
        return repeat_interleave(flatten(x), repeats, 0, output_size=output_size)
    if isinstance(repeats, Tensor):
        return _repeated(x, repeats, dimension(x, dim, "repeat_interleave"), output_size)
    dim = dimension(x, dim, "repeat_interleave")
    repeats = whole_number(repeats, "repeat_interleave: repeats")
    if repeats < 0:
        raise RuntimeError(f"repeat_interleave: repeats must be 0 or more, got {repeats}")
    spread = expand(unsqueeze(x, dim + 1), *x.shape[: dim + 1], repeats, *x.shape[dim + 1 :])
    if output_size not in (None, repeats * x.shape[dim]):
        raise RuntimeError(f"repeat_interleave: the size is {repeats * x.shape[dim]}, not output_size={output_size}")
    return flatten(clone(spread), dim, dim + 1)  # never x's own memory


def _repeated(x: Tensor, repeats: Tensor, dim: int, output_size: int | None) -> Tensor:
    """x with each slice i along `dim` repeated repeats[i] times."""
    n = x.shape[dim] if x.ndim else 1
    if repeats.dtype.kind != "i" or repeats.ndim > 1 or repeats.numel() not in (1, n):
        raise RuntimeError(
            f"repeat_interleave: repeats of {repeats.dtype} {repeats.shape} for a dimension of size {n}: expected "
            "whole numbers, one for all or one for each"
        )
    times = repeats._values("repeat_interleave() with a tensor of repeats")
    if (times < 0).any():
        raise RuntimeError(f"repeat_interleave: repeats must be 0 or more, got {times.min()}")
    at = Tensor.of(np.arange(n).repeat(times))
    if output_size not in (None, at.numel()):
        raise RuntimeError(f"repeat_interleave: the size is {at.numel()}, not output_size={output_size}")
    return x[(slice(None),) * dim + (at,)]


@op
class diagonal_op:
    r"y_{... i} = x_{.. i .. i + offset ..} along two dimensions"

    is_part = True

    def view(x, offset, dim1, dim2):
        y = np.diagonal(x, offset, dim1, dim2)
        y.flags.writeable = True  # NumPy makes it read-only, because users may take it for a copy
        return y

    def grad_x(g, x_shape, offset, dim1, dim2):
        return undiagonal(g, x_shape, offset, dim1, dim2)


@op
class undiagonal:
    r"y = 0 everywhere, but x along a diagonal"

    def forward(x, shape, offset, dim1, dim2):
        y = empty(shape, x.dtype)
        move(np.zeros((), x.dtype), y)
        move(x, diagonal_op.view(y, offset, dim1, dim2))
        return y

    def grad_x(g, offset, dim1, dim2):
        return diagonal_op(g, offset, dim1, dim2)


@register("diagonal Tensor.diagonal")
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """y_{... i} = x with i at dim1 and i + offset at dim2 (a view)."""
    a, b = dimension(x, dim1, "diagonal"), dimension(x, dim2, "diagonal")
    if a == b:
        raise RuntimeError(f"diagonal: dim1 = {dim1} and dim2 = {dim2} are the same dimension of shape {x.shape}")
    return diagonal_op(x, whole_number(offset, "diagonal: offset"), a, b)


@register("broadcast_to Tensor.broadcast_to")
def broadcast_to(x: Tensor, size: Sequence[int]) -> Tensor:
    """y = x, repeated to a larger shape without a copy."""
    return expand(x, size)


# --- ---------------- short forms of the above


@register("Tensor.T")
@property
def T(x: Tensor) -> Tensor:
    """y = x with its dimensions in reverse order."""
    return permute(x, *reversed(range(x.ndim)))


@register("Tensor.mT")
@property
def mT(x: Tensor) -> Tensor:
    """y = x with its last two dimensions exchanged: each matrix transposed."""
    return transpose(x, -1, -2) if x.ndim else x


@register("Tensor.__iter__")
def iterate(x: Tensor):
    """The slices of x along its first dimension, one after the other."""
    if x.ndim == 0:
        raise TypeError("iteration over a 0-d tensor: it has no slices; use .item()")
    return iter(unbind(x))


@register("Tensor.new_zeros")
def new_zeros(x: Tensor, *size, dtype=None, device=None, requires_grad: bool = False) -> Tensor:
    """Zeros in the dtype of x."""
    return new_full(x, sizes_of(size, "new_zeros"), 0, dtype, device, requires_grad)


@register("Tensor.new_ones")
def new_ones(x: Tensor, *size, dtype=None, device=None, requires_grad: bool = False) -> Tensor:
    """Ones in the dtype of x."""
    return new_full(x, sizes_of(size, "new_ones"), 1, dtype, device, requires_grad)


@register("Tensor.new_empty")
def new_empty(x: Tensor, *size, dtype=None, device=None, requires_grad: bool = False) -> Tensor:
    """A tensor with uninitialised values, in the dtype of x."""
    return empty_of(
        sizes_of(size, "new_empty"),
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
        requires_grad=requires_grad,
    )


@register("Tensor.new_full")
def new_full(
    x: Tensor, size: Sequence[int], fill_value, dtype=None, device=None, requires_grad: bool = False
) -> Tensor:
    """One value in the dtype of x."""
    return full(
        size,
        fill_value,
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
        requires_grad=requires_grad,
    )


@register("Tensor.new_tensor")
def new_tensor(x: Tensor, data, dtype=None, device=None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of `data` in the dtype of x."""
    return tensor(
        data,
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
        requires_grad=requires_grad,
    )


def with_dimension(x: Tensor) -> Tensor:
    """x, with a dimension of size 1 if it has none."""
    return x if x.ndim else reshape(x, 1)

"""Changes in place: the twins x.f_() of functions, new values for a tensor, and x[key] = value (core/views.py)."""

import functools
import math
from collections.abc import Callable

import numpy as np

from tinytensor.core import backend, late_bound
from tinytensor.core.backend import kernels
from tinytensor.core.batched_data import BatchedData
from tinytensor.core.dispatch import check, contiguous, launch, state
from tinytensor.core.dtypes import int64
from tinytensor.core.in_place import assign_result, check_in_place
from tinytensor.core.modes import no_grad
from tinytensor.core.op import Op, op
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.recorder import notice
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.core.views import regenerate_grad_fn
from tinytensor.ops.arguments import dimension, only_floats, tensor_of_dtype
from tinytensor.ops.creation import rand, randn, tensor, zeros
from tinytensor.ops.index import no_index_is_bad, part_at_once, put, read, refuse_index
from tinytensor.ops.keys import parse_index
from tinytensor.ops.shape import cast, clone, expand, flatten, slice_op, squeeze


def in_place(operation: Callable, name: str = "", otherwise: Callable | None = None) -> Callable:
    """The twin x.f_(...) of a function x.f(...), called `name`: the result takes the place of x.

    `otherwise(twin, x, other, error)` is the result for an operand that the function has refused.
    """

    @functools.wraps(operation)
    def changed(x: Tensor, *args, **kwargs) -> Tensor:
        others = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and a is not x]
        now = state.__dict__
        for a in others if now["grad"] else ():
            regenerate_grad_fn(a)
        check_in_place(x)
        if x._data.__class__ is BatchedData or (others and any(a._data.__class__ is BatchedData for a in others)):
            return assign_result(x, operation(clone(x), *args, **kwargs))
        try:
            if now["grad"] and any(a._requires_grad for a in (x, *others)):
                # rules may read the old values, so a copy keeps them
                return assign_result(x, operation(_as_it_was(x), *args, **kwargs))
            # The old values are not read again: the kernel may write over them, unless it reads them at other places.
            whole = isinstance(operation, Op) and now["reading"] is None
            if whole and not any(np.may_share_memory(a._data, x._data) for a in others):
                y = operation(x, *args, **kwargs, into=x)
                return y if y is x else assign_result(x, y)
            return assign_result(x, operation(x, *args, **kwargs))
        except TypeError as error:  # of an operand that is none of ours; nothing has changed
            converted = late_bound.convert_foreign_tensors(args, kwargs)
            if converted is None:
                if otherwise is None:
                    raise
                return otherwise(changed, x, *args, error)
        return changed(x, *converted[0], **converted[1])

    changed.__doc__ = f"Like {name or operation.__name__}, in place."
    return changed


def _as_it_was(x: Tensor) -> Tensor:
    """A copy of x at the same place on the tape."""
    with no_grad():
        copy = clone(x)
    copy.node, copy._requires_grad = x.node, x._requires_grad
    return copy


# --- New values for a tensor


@op
class overwrite:
    r"y = value, in the place of x"

    def forward(x, value):
        return value

    def grad_x(g, x_shape):
        return zeros(x_shape, dtype=g.dtype)

    def grad_value(g):
        return g


@register("Tensor.copy_")
def copy_(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """x[...] = source (broadcast), in place."""
    _fits(source, x.shape, "copy_")
    return assign_result(x, expand(cast(source, x.dtype) if source.dtype != x.dtype else source, x.shape))


@register("Tensor.fill_")
def fill_(x: Tensor, value: Tensor | float) -> Tensor:
    """x[...] = value, in place."""
    return copy_(x, tensor_of_dtype(value, x.dtype, "fill_"))


@register("Tensor.zero_")
def zero_(x: Tensor) -> Tensor:
    """x[...] = 0, in place."""
    return fill_(x, 0)


@register("Tensor.uniform_")
def uniform_(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator=None) -> Tensor:
    """Draw every element from [low, high), in place."""
    only_floats("uniform_", x)
    limit = math.inf if x.dtype.kind == "O" else float(np.finfo(x.dtype).max)
    if not (-limit <= low <= high <= limit and high - low <= limit):
        raise RuntimeError(
            f"uniform_: from {low} to {high}: expected two numbers of {x.dtype}, the first not above the second, whose "
            "difference is one, too"
        )
    return copy_(x, rand(x.shape, dtype=x.dtype, generator=generator) * (high - low) + low)


@register("Tensor.normal_")
def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator=None) -> Tensor:
    """Draw every element from the normal distribution, in place."""
    only_floats("normal_", x)
    if not std >= 0:
        raise RuntimeError(f"normal_: expected std of 0 or more, got {std}")
    return copy_(x, randn(x.shape, dtype=x.dtype, generator=generator) * std + mean)


@register("Tensor.index_copy_")
def index_copy_(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """x[:, index] = source for dim 1, in place: the slices along `dim` that the index (n,) names.

    Without gradients only these slices are touched, by a kernel that reads the index. An index below 0 is refused, as
    in PyTorch.
    """
    dim = dimension(x, dim, "index_copy_")
    expected = (*x.shape[:dim], index.numel(), *x.shape[dim + 1 :])
    fits = x.ndim and index.ndim == 1 and source.shape == expected
    if not fits or index.dtype.kind != "i" or source.dtype != x.dtype:
        raise RuntimeError(
            f"index_copy_: {source.dtype} {source.shape} for {x.dtype} {x.shape} along {dim}, at {index.dtype} "
            f"{index.shape}: expected a vector of whole numbers and a source of {x.dtype} {expected}"
        )
    for t in (x, source):
        regenerate_grad_fn(t)
    check_in_place(x)
    tracked = state.grad and (x._requires_grad or source._requires_grad)
    if tracked or not x._data.flags.c_contiguous or np.may_share_memory(x._data, source._data):
        setitem(x, (slice(None),) * dim + (index,), source)
        return x
    for t in (x, index, source):
        notice(t)
    outer, inner, bad, n = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :]), no_index_is_bad(), x.shape[dim]
    rows = contiguous(source._data).reshape(outer, index.numel(), inner)
    launch(kernels.write_rows, rows, contiguous(index._data, int64), x._data.reshape(outer, n, inner), bad)
    x._version.count += 1
    check(bad, lambda bad: refuse_index("index_copy_", bad[1], n))
    return x


# --- X[key] = value


@register("Tensor.__setitem__")
def setitem(x: Tensor, key, value) -> None:
    """x[key] = value, in place; the gradient flows to the value and to the elements of x that stay.

    An index that is out of range is an IndexError, also where x is empty and nothing would be written.
    """
    if not isinstance(value, Tensor):
        value = tensor_of_dtype(value, x.dtype, "setitem") if value.__class__ is float else tensor(value, dtype=x.dtype)
    part = part_at_once(x, key)
    if state.reading is not None:
        state.reading.check_part(x, part)
    if part is None:
        key = parse_index(x, key)
    if part is not None or not key.arrays:  # slices and whole numbers: a view, and a change of it
        part = slice_op(x, key.view) if part is None else part
        if value._version is part._version and _is_there_already(part, value):
            return
        value = _leading_ones_off(value, part.ndim)
        _fits(value, part.shape, "setitem")
        copy_(part, value)
        return
    positions = Tensor.of(np.arange(x.numel()).reshape(x.shape))
    with no_grad():
        chosen = read(positions, key)
    value = _leading_ones_off(value, chosen.ndim)
    _fits(value, chosen.shape, "setitem")
    value = expand(value.to(x.dtype), chosen.shape)
    assign_result(x, put(x, flatten(chosen), flatten(value)))


def _is_there_already(part: Tensor, value: Tensor) -> bool:
    """Is the value the very view to be changed? `x[i] += 1` changes a view of x, then Python assigns it to x[i].

    Nothing is left to do then, unless it is on the tape.
    """
    if state.grad and (part._requires_grad or value._requires_grad):
        return False
    check_in_place(part)
    return part._data.__class__ is not BatchedData and backend.current.same_memory(part._data, value._data)


def _fits(value: Tensor, shape: tuple, what: str) -> None:
    if broadcast_shape(what, value.shape, shape) != tuple(shape):
        raise RuntimeError(f"{what}: a value of shape {value.shape} does not fit the place of shape {tuple(shape)}")


def _leading_ones_off(value: Tensor, ndim: int) -> Tensor:
    while value.ndim > ndim and value.shape[0] == 1:
        value = squeeze(value, 0)
    return value

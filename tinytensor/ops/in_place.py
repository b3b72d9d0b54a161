"""Changes in place, and how views and the tape follow them.

The tape speaks of values, and a change in place puts new values where old ones were. Three things keep this honest:

- A change is the operation that gives the new values, followed by `become`: the tensor takes over the values of the
  result, and its place on the tape. What was computed from it before stays attached to its old place.
- Tensors on one memory share a `Version` that counts the changes, so backward notices that values it kept are gone.
- A change of a view is a change of its base: where it is on the tape, the base gets a new place there, "the base with
  these elements put in". Other views of it lead to its old place; each gets a new one when it is used (`follow_base`).
"""

import functools
import math
from collections.abc import Callable

import numpy as np

from tinytensor import kernels
from tinytensor.core import provided
from tinytensor.core.dispatch import check, contiguous, empty, launch, move, state
from tinytensor.core.dtypes import CATEGORY, int64
from tinytensor.core.meta import Example
from tinytensor.core.modes import no_grad, set_grad_enabled
from tinytensor.core.op import Node, Op, op
from tinytensor.core.promotion import only_floats
from tinytensor.core.registry import appears
from tinytensor.core.tensor import Tensor, notice
from tinytensor.ops.arguments import dimension, tensor_of_dtype
from tinytensor.ops.creation import rand, randn, tensor, zeros
from tinytensor.ops.index import no_index_is_bad, part_at_once, put, read, refuse_index, take
from tinytensor.ops.keys import understand
from tinytensor.ops.shape import cast, clone, expand, flatten, reshape, reshape_view, slice_op, squeeze
from tinytensor.runtime.launch_args import same_memory

# --------------------------------------------------------------------------------------------- how a change is made


def become(x: Tensor, y: Tensor) -> Tensor:
    """x takes over the values of y and the place of y on the tape; every change in place ends here."""
    if y.shape != x.shape:
        raise RuntimeError(f"in place: a result of shape {y.shape} does not fit a tensor of shape {x.shape}")
    if CATEGORY[y.dtype.kind] > CATEGORY[x.dtype.kind]:
        raise RuntimeError(f"in place: a result of dtype {y.dtype} can't be stored in a tensor of {x.dtype}")
    if x._data.__class__ is Example or y._data.__class__ is Example:
        return provided.change_batch(x, y)
    check_in_place(x)
    if state.grad and x._requires_grad and not y._requires_grad:
        y = overwrite(x, y.to(x.dtype))  # the new values do not depend on the old ones, to which no gradient goes
    notice(x)
    if y._data is not x._data:
        values = y._data
        if np.may_share_memory(values, x._data):  # as in x.copy_(x.T), which would read elements that it has written
            values = empty(y.shape, y.dtype)
            move(y._data, values)
        move(values, x._data)
    x._version.count += 1
    if y._requires_grad:
        x._version.tracked += 1
        if x._base is not None:
            _put_into_base(x, y)
            x._tracked = -1  # stale, as all views of this base: its uses count as uses of the base (follow_base)
        _stand_at(x, y.node)
    return x


def check_in_place(x: Tensor) -> None:
    """Refuse a change that would lose gradients, or that the memory does not allow."""
    if x._data.__class__ is Example:  # inside vmap: the change comes here again, with the tensors of all examples
        return
    if (
        0 in x._data.strides
        and x.numel()
        and any(n > 1 and step == 0 for n, step in zip(x.shape, x._data.strides, strict=True))
    ):
        raise RuntimeError("in place: several elements of this expanded tensor share memory; clone() it first")
    if not state.grad:
        return
    follow_base(x)
    base = x._base
    if base is not None and base.requires_grad and not x._requires_grad and not base.is_leaf:
        raise RuntimeError(
            "in place: this view was taken under no_grad(), and a change of it could not reach the gradient of its "
            "base; take the view anew"
        )
    for t in (x, base):
        if t is not None and t._requires_grad and t.is_leaf:
            raise RuntimeError(
                "in place: this is (a view of) a tensor that requires grad and was made by the user; its gradient "
                "would be lost. Change it under no_grad(), or work on a clone()"
            )


def _stand_at(x: Tensor, node: Node) -> None:
    """Move x to another place on the tape. A retained gradient is from then on that of the new values."""
    before = x.node
    if before is not None and before.retained is not None and before.retained() is x:
        node.retained, before.retained = before.retained, None
    x.node, x._requires_grad = node, True


def _put_into_base(view: Tensor, value: Tensor) -> None:
    """Give the base a new place on the tape: its old value, with the view's elements replaced by the new value.

    Nothing is computed, for the memory has these values already.
    """
    base = view._base
    before, after = _at_its_place(base), Tensor.of(base._data)
    after._version = base._version
    if _is_whole(view):
        with set_grad_enabled(True):
            value = reshape(value, base.shape)
        _stand_at(base, Node(overwrite, (before, value), after, ()))
    else:
        _stand_at(base, Node(put, (before, _window(view), value), after, ()))


def follow_base(view: Tensor) -> None:
    """Give a view a new place on the tape if its base was changed since, itself or through any view of it.

    The view's memory shows the new values, but its node leads to the old ones, or past the base. Its new node reads it
    from the base as it is now. Every use of a tensor calls this first. Nothing is computed here either.
    """
    if view._base is None or view._tracked == view._version.tracked:
        return
    if view.node is not None and not isinstance(view.node.op, Op):  # of an autograd.Function
        raise RuntimeError(
            f"in place: this is what {view.node.op.name.removesuffix('Backward')} returned, a view of its "
            "argument, which was changed since; its backward does not know the new values. Change a clone()"
        )
    view._tracked = view._version.tracked
    if view._base.requires_grad:
        base, after = _at_its_place(view._base), Tensor.of(view._data)
        after._version = view._version
        if _is_whole(view):
            _stand_at(view, Node(reshape_view, (base, view.shape), after, ()))
        else:
            with set_grad_enabled(True):
                elements = flatten(base)
            _stand_at(view, Node(take, (elements, _window(view)), after, ()))


provided.follow_base = follow_base


def _at_its_place(x: Tensor) -> Tensor:
    """x at its present place on the tape, for an edge that must lead there after x has moved."""
    result = Tensor.of(x._data)
    result.node, result._requires_grad = x.node, x._requires_grad
    return result


def _is_whole(view: Tensor) -> bool:
    """Is a view all of its base in order, and so the base in another shape?"""
    x, base = view._data, view._base._data
    return x.size == base.size and x.flags.c_contiguous and base.flags.c_contiguous and np.may_share_memory(x, base)


def _window(view: Tensor) -> Tensor:
    """The places of a view's elements in the flattened base, read by the same strides from a memory of numbers."""
    base, size = view._base, view.dtype.itemsize
    if not view.numel():
        return Tensor.of(np.zeros(view.shape, np.int64))
    if not np.may_share_memory(view._data, base._data):
        raise RuntimeError("in place: the base of this view was given other memory (.data = ...); take the view anew")
    strides, of_base = ([s // size * 8 for s in t._data.strides] for t in (view, base))
    offset = (view._data.__array_interface__["data"][0] - base._data.__array_interface__["data"][0]) // size
    memory = np.zeros(1 + sum([(n - 1) * s // 8 for n, s in zip(base.shape, of_base, strict=True)]), np.int64)
    as_strided = np.lib.stride_tricks.as_strided
    as_strided(memory, base.shape, of_base)[...] = np.arange(base.numel()).reshape(base.shape)
    return Tensor.of(as_strided(memory[offset:], view.shape, strides).copy())


def in_place(operation: Callable, name: str = "") -> Callable:
    """The twin x.f_(...) of a function x.f(...), called `name`: the result takes the place of x."""

    @functools.wraps(operation)
    def changed(x: Tensor, *args, **kwargs) -> Tensor:
        others = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and a is not x]
        for a in others if state.grad else ():
            follow_base(a)
        check_in_place(x)
        if x._data.__class__ is Example or (others and any(a._data.__class__ is Example for a in others)):
            return become(x, operation(clone(x), *args, **kwargs))
        try:
            if state.grad and any(a._requires_grad for a in (x, *others)):
                # rules may read the old values, so a copy keeps them
                return become(x, operation(_as_it_was(x), *args, **kwargs))
            # The old values are not read again: the kernel may write over them, unless it reads them at other places.
            if isinstance(operation, Op) and not any(np.may_share_memory(a._data, x._data) for a in others):
                y = operation(x, *args, **kwargs, into=x)
                return y if y is x else become(x, y)
            return become(x, operation(x, *args, **kwargs))
        except TypeError:  # of an operand that is none of ours; nothing has changed
            again = provided.again(args, kwargs)
            if again is None:
                raise
        return changed(x, *again[0], **again[1])

    changed.__doc__ = f"Like {name or operation.__name__}, in place."
    return changed


def _as_it_was(x: Tensor) -> Tensor:
    """A copy of x at the same place on the tape."""
    with no_grad():
        copy = clone(x)
    copy.node, copy._requires_grad = x.node, x._requires_grad
    return copy


# ------------------------------------------------------------------------------------------ new values for a tensor


@op
class overwrite:
    r"y = value, in the place of x"

    def forward(x, value):
        return value

    def grad_x(g, x_shape):
        return zeros(x_shape, dtype=g.dtype)

    def grad_value(g):
        return g


@appears("Tensor.copy_")
def copy_(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """x[...] = source (broadcast), in place."""
    try:
        fits = np.broadcast_shapes(source.shape, x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"copy_: values of shape {source.shape} do not fit a tensor of shape {x.shape}")
    return become(x, expand(cast(source, x.dtype) if source.dtype != x.dtype else source, x.shape))


@appears("Tensor.fill_")
def fill_(x: Tensor, value: Tensor | float) -> Tensor:
    """x[...] = value, in place."""
    return copy_(x, tensor_of_dtype(value, x.dtype, "fill_"))


@appears("Tensor.zero_")
def zero_(x: Tensor) -> Tensor:
    """x[...] = 0, in place."""
    return fill_(x, 0)


@appears("Tensor.uniform_")
def uniform_(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator=None) -> Tensor:
    """Draw every element from [low, high), in place."""
    only_floats("uniform_", x)
    return copy_(x, rand(x.shape, dtype=x.dtype, generator=generator) * (high - low) + low)


@appears("Tensor.normal_")
def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator=None) -> Tensor:
    """Draw every element from the normal distribution, in place."""
    only_floats("normal_", x)
    return copy_(x, randn(x.shape, dtype=x.dtype, generator=generator) * std + mean)


@appears("Tensor.index_copy_")
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
        follow_base(t)
    check_in_place(x)
    tracked = state.grad and (x._requires_grad or source._requires_grad)
    if tracked or not x._data.flags.c_contiguous or np.may_share_memory(x._data, source._data):
        setitem(x, (slice(None),) * dim + (index,), source)
        return x
    for t in (x, index, source):
        notice(t)
    outer, inner, bad, n = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :]), no_index_is_bad(), x.shape[dim]
    rows = contiguous(source._data).reshape(outer, index.numel(), inner)
    launch(kernels.index.write_rows, rows, contiguous(index._data, int64), x._data.reshape(outer, n, inner), bad)
    x._version.count += 1
    check(bad, lambda bad: refuse_index("index_copy_", bad[1], n))
    return x


# ------------------------------------------------------------------------------------------------------ x[key] = value


@appears("Tensor.__setitem__")
def setitem(x: Tensor, key, value) -> None:
    """x[key] = value, in place; the gradient flows to the value and to the elements of x that stay.

    An index that is out of range is an IndexError, also where x is empty and nothing would be written.
    """
    if not isinstance(value, Tensor):
        value = tensor_of_dtype(value, x.dtype, "setitem") if value.__class__ is float else tensor(value, dtype=x.dtype)
    part = part_at_once(x, key)
    if part is None:
        key = understand(x, key)
    if part is not None or not key.arrays:  # slices and whole numbers: a view, and a change of it
        part = slice_op(x, key.view) if part is None else part
        if value._version is part._version and _is_there_already(part, value):
            return
        _fits(value, part.shape, "setitem")
        copy_(part, _leading_ones_off(value, part.ndim))
        return
    positions = Tensor.of(np.arange(x.numel()).reshape(x.shape))
    with no_grad():
        chosen = read(positions, key)
    _fits(value, chosen.shape, "setitem")
    value = expand(_leading_ones_off(value, chosen.ndim).to(x.dtype), chosen.shape)
    become(x, put(x, flatten(chosen), flatten(value)))


def _is_there_already(part: Tensor, value: Tensor) -> bool:
    """Is the value the very view to be changed? `x[i] += 1` changes a view of x, then Python assigns it to x[i].

    Nothing is left to do then, unless it is on the tape.
    """
    if state.grad and (part._requires_grad or value._requires_grad):
        return False
    check_in_place(part)
    return part._data.__class__ is not Example and same_memory(part._data, value._data)


def _fits(value: Tensor, shape: tuple, what: str) -> None:
    try:
        if np.broadcast_shapes(_leading_ones_off(value, len(shape)).shape, shape) == tuple(shape):
            return
    except ValueError:
        pass
    raise RuntimeError(f"{what}: a value of shape {value.shape} does not fit the place of shape {tuple(shape)}")


def _leading_ones_off(value: Tensor, ndim: int) -> Tensor:
    while value.ndim > ndim and value.shape[0] == 1:
        value = squeeze(value, 0)
    return value

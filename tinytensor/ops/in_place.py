"""Changes in place, and what they mean for views and for the tape.

The tape speaks of values, and a change in place puts new values where old ones were. Three things keep this honest:

- A change is the operation that gives the new values, followed by `become`: the tensor takes over the values of the
  result, and its place on the tape. What was computed from it before stays attached to its old place.
- Tensors on one memory share a `Version` that counts the changes. Whoever kept the old values for backward finds out.
- A change of a view is a change of its base: where it is on the tape, the base gets a new place there, "the base with
  these elements put in", and other views taken before are stale: they are refused from then on.
"""

import functools
import math
from collections.abc import Callable

import numpy as np

from tinytensor import kernels
from tinytensor.appearances import appears
from tinytensor.creation import rand, randn, tensor, zeros
from tinytensor.door import check, contiguous, launch, move, state
from tinytensor.dtypes import CATEGORY, int64
from tinytensor.form import Node, Op, op
from tinytensor.modes import no_grad
from tinytensor.operands import only_floats, refuse_stale_view
from tinytensor.ops.elementwise import _as_tensor
from tinytensor.ops.index import _key, getitem, no_index_is_bad, put, refuse_index
from tinytensor.ops.shape import _dim, _slice, cast, clone, expand, flatten, squeeze
from tinytensor.tensors import Tensor, notice

# --------------------------------------------------------------------------------------------- how a change is made


def become(x: Tensor, y: Tensor) -> Tensor:
    """x takes over the values of y, and its place on the tape; every change in place ends here."""
    if y.shape != x.shape:
        raise RuntimeError(f"in place: a result of shape {y.shape} does not fit a tensor of shape {x.shape}")
    if CATEGORY[y.dtype.kind] > CATEGORY[x.dtype.kind]:
        raise RuntimeError(f"in place: a result of dtype {y.dtype} can't be stored in a tensor of {x.dtype}")
    check_in_place(x, y.requires_grad)
    notice(x)
    if y._data is not x._data:
        move(y._data, x._data)
    x._version.count += 1
    if y.requires_grad:
        x._version.tracked += 1
        x._tracked = x._version.tracked  # this view is the one that is not stale
        if x._base is not None:
            _put_into_base(x, y)
        _stand_at(x, y.node)
    return x


def check_in_place(x: Tensor, tracked: bool) -> None:
    """Refuse a change that would lose gradients, or that the memory does not allow."""
    if not state.grad:
        return
    refuse_stale_view(x, "in place")
    base = x._base
    if base is not None and base.requires_grad and not x.requires_grad and not base.is_leaf:
        raise RuntimeError(
            "in place: this view was taken under no_grad(), and a change of it could not reach the gradient of its "
            "base; take the view anew"
        )
    for t in (x, base):
        if t is not None and t.requires_grad and t.is_leaf:
            raise RuntimeError(
                "in place: this is (a view of) a tensor that requires grad and was made by the user; its gradient "
                "would be lost. Change it under no_grad(), or work on a clone()"
            )
    if tracked and x.numel() and any(n > 1 and step == 0 for n, step in zip(x.shape, x._data.strides, strict=True)):
        raise RuntimeError("in place: several elements of this expanded tensor share memory; clone() it first")


def _stand_at(x: Tensor, node: Node) -> None:
    """Take another place on the tape; a gradient that is kept is from then on that of the new values."""
    before = x.node
    if before is not None and before.retained is not None and before.retained() is x:
        node.retained, before.retained = before.retained, None
    x.node, x.requires_grad = node, True


def _put_into_base(view: Tensor, value: Tensor) -> None:
    """The base's new place on the tape: what it was, with the value put where the view looks.

    Nothing is computed, for the values are there already. Where the view looks is found by looking at numbered elements
    through the same window.
    """
    base = view._base
    if not base._data.flags.c_contiguous:
        raise RuntimeError("in place: a view of a strided tensor can't be changed on the tape; clone() the base first")
    size = base.dtype.itemsize
    offset = (view._data.__array_interface__["data"][0] - base._data.__array_interface__["data"][0]) // size
    numbers = np.arange(base.numel())
    window = np.lib.stride_tricks.as_strided(numbers[offset:], view.shape, [s // size * 8 for s in view._data.strides])
    before = Tensor.of(base._data)  # the base as it was: its values are not needed, its place on the tape is
    before.node, before.requires_grad = base.node, base.requires_grad
    after = Tensor.of(base._data)
    after._version = base._version
    _stand_at(base, Node(put, (before, Tensor.of(window.copy()), value), after, ()))


def in_place(operation: Callable) -> Callable:
    """The twin x.f_(...) of a function x.f(...): the result takes the place of x."""

    @functools.wraps(operation)
    def changed(x: Tensor, *args, **kwargs) -> Tensor:
        tracked = state.grad and any(isinstance(a, Tensor) and a.requires_grad for a in (x, *args))
        check_in_place(x, tracked)
        if tracked:  # the rules may need the values from before, so they are kept in a copy
            return become(x, operation(_as_it_was(x), *args, **kwargs))
        if isinstance(operation, Op):  # nobody will ask for the old values: the kernel may write over them
            y = operation(x, *args, **kwargs, out=x)
            return y if y is x else become(x, y)
        return become(x, operation(x, *args, **kwargs))

    changed.__doc__ = f"Like {operation.__name__}, in place."
    return changed


def _as_it_was(x: Tensor) -> Tensor:
    """A copy of x at the same place on the tape."""
    with no_grad():
        copy = clone(x)
    copy.node, copy.requires_grad = x.node, x.requires_grad
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
    check_in_place(x, x.requires_grad or source.requires_grad)
    value = expand(cast(source, x.dtype) if source.dtype != x.dtype else source, x.shape)
    return become(x, overwrite(x, value) if x.requires_grad else value)


@appears("Tensor.fill_")
def fill_(x: Tensor, value) -> Tensor:
    """x[...] = value, in place."""
    return copy_(x, _as_tensor(value, x.dtype))


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
    """x's slices along `dim` that the index (n,) names = those of the source, in place; x[:, index] = source for dim 1.

    Where no gradient is asked for, only these are touched, and the index stays where kernels read it. An index below 0
    is refused, as in PyTorch.
    """
    dim = _dim(x, dim, "index_copy_")
    expected = (*x.shape[:dim], index.numel(), *x.shape[dim + 1 :])
    fits = x.ndim and index.ndim == 1 and source.shape == expected
    if not fits or index.dtype.kind != "i" or source.dtype != x.dtype:
        raise RuntimeError(
            f"index_copy_: {source.dtype} {source.shape} for {x.dtype} {x.shape} along {dim}, at {index.dtype} "
            f"{index.shape}: expected a vector of whole numbers and a source of {x.dtype} {expected}"
        )
    tracked = state.grad and (x.requires_grad or source.requires_grad)
    check_in_place(x, tracked)
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
    """x[key] = value, in place; the gradient flows to the value and to what was kept of x."""
    key = _key(x, key)
    if not isinstance(value, Tensor):
        value = tensor(value, dtype=x.dtype)
    if not any(isinstance(k, np.ndarray) for k in key):  # slices and whole numbers: a view, and a change of it
        part = _slice(x, key)
        _fits(value, part.shape, "setitem")
        copy_(part, _leading_ones_off(value, part.ndim))
        if part.requires_grad and x._base is None:
            x._tracked = x._version.tracked
        return
    positions = Tensor.of(np.arange(x.numel()).reshape(x.shape))
    with no_grad():
        chosen = getitem(positions, key)
    _fits(value, chosen.shape, "setitem")
    value = expand(_leading_ones_off(value, chosen.ndim).to(x.dtype), chosen.shape)
    become(x, put(x, flatten(chosen), flatten(value)))


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

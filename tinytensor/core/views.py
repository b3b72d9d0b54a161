"""Views and changes in place: how the tape follows memory that several tensors share.

The tape speaks of values, and a change in place puts new values where old ones were. Three things keep this honest:

- A change is the operation that gives the new values, followed by `assign_result`: the tensor takes over the values of
  the result, and its node. What was computed from it before stays attached to its old node.
- Tensors on one memory share a `Version` that counts the changes, so backward notices that values it kept are gone.
- A change of a view is a change of its base: where it is on the tape, the base gets a new node, "the base with these
  elements put in". Other views of it have an old node; each gets a new one when it is used (`regenerate_grad_fn`).
"""

import weakref
from collections.abc import Callable

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.dispatch import empty, move, state
from tinytensor.core.dtypes import CATEGORY
from tinytensor.core.graph import Node
from tinytensor.core.meta import BatchedData
from tinytensor.core.modes import set_grad_enabled
from tinytensor.core.registry import OPS, appears
from tinytensor.core.tensor import Tensor, notice
from tinytensor.core.tensor_base import RemovableHandle


def assign_result(x: Tensor, y: Tensor) -> Tensor:
    """x takes over the values and the node of y; every change in place ends here."""
    if y.shape != x.shape:
        raise RuntimeError(f"in place: a result of shape {y.shape} does not fit a tensor of shape {x.shape}")
    if CATEGORY[y.dtype.kind] > CATEGORY[x.dtype.kind]:
        raise RuntimeError(f"in place: a result of dtype {y.dtype} can't be stored in a tensor of {x.dtype}")
    if x._data.__class__ is BatchedData or y._data.__class__ is BatchedData:
        return late_bound.change_batch(x, y)
    check_in_place(x)
    if state.grad and x._requires_grad and not y._requires_grad:
        y = OPS["overwrite"](x, y.to(x.dtype))  # the new values do not depend on the old ones
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
            scatter_into_base(x, y)
            x._tracked = -1  # stale, as all views of this base: its uses count as uses of the base
        rebase_history(x, y.node)
    return x


def check_in_place(x: Tensor) -> None:
    """Refuse a change that would lose gradients, or that the memory does not allow."""
    if x._data.__class__ is BatchedData:  # inside vmap: the change comes here later, with the tensors of all examples
        return
    if (
        0 in x._data.strides
        and x.numel()
        and any(n > 1 and step == 0 for n, step in zip(x.shape, x._data.strides, strict=True))
    ):
        raise RuntimeError("in place: several elements of this expanded tensor share memory; clone() it first")
    if not state.grad:
        return
    regenerate_grad_fn(x)
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


# --------------------------------------------------------------------------------------- nodes after a change in place


def rebase_history(x: Tensor, node: Node) -> None:
    """Give x another node. A retained gradient is from then on that of the new values."""
    before = x.node
    if before is not None and before.retained is not None and before.retained() is x:
        node.retained, before.retained = before.retained, None
    x.node, x._requires_grad = node, True


def scatter_into_base(view: Tensor, value: Tensor) -> None:
    """Give the base a new node: its old value, with the view's elements replaced by the new value.

    Nothing is computed, for the memory has these values already.
    """
    base = view._base
    before, after = alias_at_node(base), Tensor.of(base._data)
    after._version = base._version
    if _is_whole(view):
        rebase_history(base, Node(OPS["overwrite"], (before, _reshape(value, base.shape)), after, ()))
    else:
        rebase_history(base, Node(OPS["put"], (before, view_indices(view), value), after, ()))


def regenerate_grad_fn(view: Tensor) -> None:
    """Give a view a new node if its base was changed since, itself or through any view of it.

    The view's memory shows the new values, but its node leads to the old ones, or past the base. Its new node reads it
    from the base as it is now. Every use of a tensor calls this first.
    """
    if not view._is_stale_view:
        return
    if view.node is not None and view.node.gradients is not None:  # of an autograd.Function
        raise RuntimeError(
            f"in place: this is what {view.node.op.name.removesuffix('Backward')} returned, a view of its "
            "argument, which was changed since; its backward does not know the new values. Change a clone()"
        )
    view._tracked = view._version.tracked
    if view._base.requires_grad:
        base, after = alias_at_node(view._base), Tensor.of(view._data)
        after._version = view._version
        if _is_whole(view):
            rebase_history(view, Node(OPS["reshape_view"], (base, view.shape), after, ()))
        else:
            elements = base if base.ndim == 1 else _reshape(base, (base.numel(),))
            rebase_history(view, Node(OPS["take"], (elements, view_indices(view)), after, ()))


def alias_at_node(x: Tensor) -> Tensor:
    """x at its present node, for an edge that must lead there after x has another."""
    result = Tensor.of(x._data)
    result.node, result._requires_grad = x.node, x._requires_grad
    return result


def _reshape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    with set_grad_enabled(True):
        return OPS["reshape_view"](x if x._data.flags.c_contiguous else OPS["clone"](x), shape)


def _is_whole(view: Tensor) -> bool:
    """Is a view all of its base in order, and so the base in another shape?"""
    x, base = view._data, view._base._data
    return x.size == base.size and x.flags.c_contiguous and base.flags.c_contiguous and np.may_share_memory(x, base)


def view_indices(view: Tensor) -> Tensor:
    """The positions of a view's elements in the flattened base, read by the same strides from a memory of numbers."""
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


# ------------------------------------------------------------------------------------------- what asks for the node


@appears("Tensor.register_hook")
def register_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call `hook(grad)` when this tensor's gradient is complete; a gradient that the hook returns replaces it.

    A gradient is complete when all its shares have arrived, so a hook sees each gradient once. A computed tensor's
    hooks are kept at its node, since the tensor itself may be gone by then. Returns a handle that removes the hook.
    """
    regenerate_grad_fn(self)
    if not self._requires_grad:
        raise RuntimeError("register_hook: this tensor does not require grad")
    holder = self if self.node is None else self.node
    holder._hooks = holder._hooks or []
    holder._hooks.append(hook)
    return RemovableHandle(holder._hooks, hook)


@appears("Tensor.retain_grad")
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this computed tensor in `.grad` too."""
    regenerate_grad_fn(self)
    if self.node is not None:
        # A weak reference: the tensor holds the node, and if the node held the tensor, neither would be freed.
        self.node.retained = weakref.ref(self)

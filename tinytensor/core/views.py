"""Views: how the tape follows memory that several tensors share.

The tape speaks of values, and a change in place puts new values where old ones were. Three things keep this honest:

- A change is the operation that gives the new values; then the tensor takes over the values of the result, and its node
  (`assign_result` in in_place.py). What was computed from it before stays attached to its old node.
- Tensors on one memory share a `VersionCounter` of its changes, so backward notices that values it saved are gone.
- A change of a view is a change of its base: where it is on the tape, the base gets a new node, "the base with these
  elements put in". Other views of it have an old node; each gets a new one when it is used (`regenerate_grad_fn`).
"""

import numpy as np

from tinytensor.core.graph import Node
from tinytensor.core.modes import set_grad_enabled
from tinytensor.core.registry import OPS
from tinytensor.core.tensor import Tensor


def rebase_history(x: Tensor, node: Node) -> None:
    """Give x another node. A retained gradient is from then on that of the new values."""
    before = x.node
    if before is not None and before.retained is not None and before.retained() is x:
        node.retained, before.retained = before.retained, None
    x.node, x._requires_grad = node, True


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
    view._tape_count = view._version.tape_count
    if view._base.requires_grad:
        base, after = alias_at_node(view._base), Tensor.of(view._data)
        after._version = view._version
        if is_whole(view):
            rebase_history(view, Node(OPS["reshape_view"], (base, view.shape), after, ()))
        else:
            elements = base if base.ndim == 1 else reshaped(base, (base.numel(),))
            rebase_history(view, Node(OPS["take"], (elements, view_indices(view)), after, ()))


def alias_at_node(x: Tensor) -> Tensor:
    """x at its present node, for an edge that must lead there after x has another."""
    result = Tensor.of(x._data)
    result.node, result._requires_grad = x.node, x._requires_grad
    return result


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x in another shape, on the tape."""
    with set_grad_enabled(True):
        return OPS["reshape_view"](x if x._data.flags.c_contiguous else OPS["clone"](x), shape)


def is_whole(view: Tensor) -> bool:
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

"""Changes in place: a tensor takes over the values of a result, and its node (views.py says how the tape follows)."""

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.batched_data import BatchedData
from tinytensor.core.dispatch import empty, move, state
from tinytensor.core.dtypes import CATEGORY
from tinytensor.core.graph import Node
from tinytensor.core.recorder import notice
from tinytensor.core.registry import OPS
from tinytensor.core.tensor import Tensor
from tinytensor.core.views import alias_at_node, is_whole, rebase_history, regenerate_grad_fn, reshaped, view_indices


def assign_result(x: Tensor, y: Tensor) -> Tensor:
    """x takes over the values and the node of y; every change in place ends here."""
    now = state.__dict__
    if now["reading"] is not None and now["reading"].assign_result(x, y):
        return x
    if y.shape != x.shape:
        raise RuntimeError(f"in place: a result of shape {y.shape} does not fit a tensor of shape {x.shape}")
    if CATEGORY[y.dtype.kind] > CATEGORY[x.dtype.kind]:
        raise RuntimeError(f"in place: a result of dtype {y.dtype} can't be stored in a tensor of {x.dtype}")
    if x._data.__class__ is BatchedData or y._data.__class__ is BatchedData:
        return late_bound.change_batch(x, y)
    check_in_place(x)
    if now["grad"] and x._requires_grad and not y._requires_grad:
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
        x._version.tape_count += 1
        if x._base is not None:
            scatter_into_base(x, y)
            x._tape_count = -1  # stale, as all views of this base: its uses count as uses of the base
        rebase_history(x, y.node)
    return x


def check_in_place(x: Tensor) -> None:
    """Refuse a change that would lose gradients, or that the memory does not allow."""
    if x._data.__class__ is BatchedData:  # inside vmap: the change comes here later, with the tensors of all examples
        return
    now = state.__dict__
    if now["reading"] is not None and now["reading"].check_in_place(x):
        return
    if (
        0 in x._data.strides
        and x.numel()
        and any(n > 1 and step == 0 for n, step in zip(x.shape, x._data.strides, strict=True))
    ):
        raise RuntimeError("in place: several elements of this expanded tensor share memory; clone() it first")
    if not now["grad"]:
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


def scatter_into_base(view: Tensor, value: Tensor) -> None:
    """Give the base a new node: its old value, with the view's elements replaced by the new value.

    Nothing is computed, for the memory has these values already.
    """
    base = view._base
    before, after = alias_at_node(base), Tensor.of(base._data)
    after._version = base._version
    if is_whole(view):
        rebase_history(base, Node(OPS["overwrite"], (before, reshaped(value, base.shape)), after, ()))
    else:
        rebase_history(base, Node(OPS["put"], (before, view_indices(view), value), after, ()))

"""Leaves whose gradient somebody awaits: when it is complete, and who is told.

A walk brings gradients to leaves last, when no node is left that could send them more. Who trains on several processes
wants each gradient earlier: it can be on its way to the others while the walk computes the rest. For that the walk must
know of each such leaf when the last node that leads to it has been walked. So the edges that lead there are counted
beforehand. It costs a look at the whole graph, and is done only where there is such a leaf at all.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tinytensor.core.interchange import HookHandle
from tinytensor.core.op import Node
from tinytensor.core.registry import appears
from tinytensor.core.tensor import Tensor


class _Awaiting(threading.local):
    """What is awaited in this thread's walk."""

    def __init__(self):
        self.endings: list[Callable] = []  # what is to be called when the walk has ended


_awaiting = _Awaiting()
_ever: list[bool] = []  # has any leaf had such a hook? Until then no walk looks for one


@appears("Tensor.register_post_accumulate_grad_hook")
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> HookHandle:
    """Call `hook(leaf)` as soon as backward() has added all of this leaf's gradient to `.grad`.

    It is called while backward() still computes gradients of leaves that were used earlier. Returns a handle that
    removes the hook. RuntimeError for a tensor that is no leaf, or asks for no gradient.
    """
    if self.node is not None or not self._requires_grad:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: only a leaf that requires grad accumulates a gradient; "
            "register_hook() sees that of any other tensor"
        )
    if not self._awaited_by:
        _ever[:] = [True]
        self._hooks = self._hooks or []  # a replay looks at both lists where one is there (recording/external.py)
        self._awaited_by = []
    self._awaited_by.append(hook)
    return HookHandle(self._awaited_by, hook)


def edges_to_awaited(outputs: Sequence[Tensor]) -> dict[Tensor, int]:
    """How many edges of the graph behind the outputs lead to each leaf that is awaited."""
    found: dict[Tensor, int] = {}
    reached, todo = set(), [y.node for y in outputs if y.node is not None] if _ever else []
    while todo:
        node = todo.pop()
        if node in reached:
            continue
        reached.add(node)
        for edge in node.edges:
            if isinstance(edge, Node):
                todo.append(edge)
            elif edge is not None and edge._awaited_by:
                found[edge] = found.get(edge, 0) + 1
    return found


def complete_after(node: Node, edges: dict[Tensor, int]) -> Iterator[Tensor]:
    """The awaited leaves to which no edge leads any more when this node has been walked; counts them down."""
    for edge in node.edges:
        if edge in edges:
            edges[edge] -= 1
            if edges[edge] == 0:
                yield edge


def tell(leaf: Tensor) -> None:
    """The leaf's gradient has been accumulated."""
    for hook in tuple(leaf._awaited_by):
        hook(leaf)


def at_end(function: Callable[[], None]) -> None:
    """Call `function()` when the walk that has called a hook has reached its end."""
    _awaiting.endings.append(function)


@contextmanager
def ending() -> Iterator[None]:
    """Within this a walk brings gradients to leaves; if it ends well, those are called that asked for it."""
    _awaiting.endings = []  # not those of a walk that an exception has ended
    yield
    for function in _awaiting.endings:
        function()

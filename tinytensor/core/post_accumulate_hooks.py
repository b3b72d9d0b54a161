"""Awaited leaves: leaves with a hook that backward() calls as soon as their gradient is complete.

A walk brings gradients to leaves last, when no node is left that could send them more. Training on several processes
needs each gradient earlier: it can be on its way to the others while the walk computes the rest. For that the walk must
know when it has visited the last node that leads to such a leaf. So it counts the edges to each of them beforehand.
The count visits the whole graph, and is made only if there is such a leaf at all.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tinytensor.core.hooks import RemovableHandle
from tinytensor.core.op import Node
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor

_ever: list[bool] = []  # has any leaf had such a hook? Until then no walk looks for one


@register("Tensor.register_post_accumulate_grad_hook")
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(leaf)` as soon as backward() has added all of this leaf's gradient to `.grad`.

    The hook runs while backward() still computes gradients of leaves that were used earlier. Returns a handle that
    removes the hook. RuntimeError for a tensor that is no leaf or does not require grad.
    """
    if self.node is not None or not self._requires_grad:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: only a leaf that requires grad accumulates a gradient; "
            "register_hook() sees that of any other tensor"
        )
    if not self._post_accumulate_grad_hooks:
        _ever[:] = [True]
        self._hooks = self._hooks or []  # a replay reads both lists if one exists (native/recording/external.py)
        self._post_accumulate_grad_hooks = []
    self._post_accumulate_grad_hooks.append(hook)
    return RemovableHandle(self._post_accumulate_grad_hooks, hook)


def completed_by(outputs: Sequence[Tensor]) -> Callable[[Node], Iterator[Tensor]] | None:
    """For a walk's observer: the awaited leaves that are complete after a node; None where no leaf is awaited."""
    edges = _edges_to_awaited_leaves(outputs)
    return partial(_leaves_done_after, edges) if edges else None


def _edges_to_awaited_leaves(outputs: Sequence[Tensor]) -> dict[Tensor, int]:
    """The number of edges to each awaited leaf in the graph behind the outputs."""
    counts: dict[Tensor, int] = {}
    reached, todo = set(), [y.node for y in outputs if y.node is not None] if _ever else []
    while todo:
        node = todo.pop()
        if node in reached:
            continue
        reached.add(node)
        for edge in node.edges:
            if isinstance(edge, Node):
                todo.append(edge)
            elif edge is not None and edge._post_accumulate_grad_hooks:
                counts[edge] = counts.get(edge, 0) + 1
    return counts


def _leaves_done_after(edges: dict[Tensor, int], node: Node) -> Iterator[Tensor]:
    """Count down the edges of this node, which was just walked; yields the awaited leaves that have no edge left."""
    for edge in node.edges:
        if edge in edges:
            edges[edge] -= 1
            if edges[edge] == 0:
                yield edge


def run_hooks(leaf: Tensor) -> None:
    """Call the hooks of a leaf whose gradient has been accumulated."""
    for hook in tuple(leaf._post_accumulate_grad_hooks):
        hook(leaf)

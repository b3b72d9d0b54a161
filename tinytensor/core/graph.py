"""The tape as a graph: PyTorch's attributes of nodes (torchviz reads them), and the nodes between two tensors."""

from collections.abc import Sequence

from tinytensor.core.tensor import Tensor


class AccumulateGrad:
    """The end of the tape at a leaf."""

    next_functions = ()

    def __init__(self, variable: Tensor):
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"


class NodeBase:
    """The part of a Node with PyTorch's attributes: its name, and the nodes that its edges lead to."""

    __slots__ = ()

    def name(self) -> str:
        """The operation's name."""
        return self.op.name

    @property
    def next_functions(self) -> tuple[tuple["NodeBase | AccumulateGrad | None", int], ...]:
        """The nodes that gradients go to from here, each with the number 0 of its one result."""
        return tuple((AccumulateGrad(e) if isinstance(e, Tensor) else e, 0) for e in self.edges)


def between(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], freed: list[NodeBase] | None = None
) -> set[NodeBase | Tensor]:
    """The nodes from which the inputs can be reached, and the inputs: only these need a gradient.

    `freed` collects the nodes on the way that an earlier walk has freed.

    `grad` computes a few gradients of a graph that may be large. Nodes are visited from the outputs down as far as the
    oldest input, and then from the oldest up: a node is useful if one of its edges leads to a useful node or input.
    """
    # Both nodes and leaves have a hash by identity, so that they can stand in one set.
    useful = {x if x.node is None else x.node for x in inputs}
    oldest = min((x.node.time if x.node is not None else -1) for x in inputs)  # no older node leads to an input
    reached, todo = set(), [y.node for y in outputs if y.node is not None]
    while todo:
        node = todo.pop()
        if node not in reached and node.time >= oldest:
            reached.add(node)
            if freed is not None and node.freed and node not in useful:
                freed.append(node)
            todo.extend(edge for edge in node.edges if isinstance(edge, NodeBase))
    for node in sorted(reached, key=lambda n: n.time):
        if any(edge in useful for edge in node.edges if edge is not None):
            useful.add(node)
    return useful

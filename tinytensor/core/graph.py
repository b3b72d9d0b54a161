"""Node: the mark that an operation leaves on the tape; and the nodes that lead from some tensors to others."""

from collections.abc import Sequence
from typing import Any

from tinytensor.core.dispatch import state
from tinytensor.core.tensor import Tensor, generations


class AccumulateGrad:
    """The end of the tape at a leaf."""

    next_functions = ()

    def __init__(self, variable: Tensor):
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"


class Node:
    """One call of an operation on the tape: the operation, the edges to its arguments, and the values its rules read.

    `edges[i]` is the receiver of argument i's gradient: the node that made the argument, or the argument itself if it
    is a leaf, or None if its gradient is not wanted. Edges point only to older nodes and leaves, so the tape has no
    circle, and dropping the last result drops the whole tape.

    `saved` has values by the names that rules use for them, and only those that a needed rule names: a ReLU's input can
    be forgotten at once, since its rule reads y alone. The node keeps the array of y, never the tensor: the tensor
    holds the node, and two objects that hold each other live until the garbage collector runs.
    """

    gradients = None  # of an autograd.Function: calls the user's own backward (autograd/function.py)

    __slots__ = ["__weakref__", "_hooks", "dtype", "edges", "generation"]
    __slots__ += ["op", "retained", "saved", "shape", "versions", "walked"]

    def __init__(self, op: Any, args: tuple, y: Tensor, saved: tuple):
        self.op = op
        self.generation = next(generations)  # no two nodes have the same, so there is always one youngest node
        self.shape, self.dtype = y._data.shape, y._data.dtype
        self._hooks, self.walked = None, False
        self.retained = None  # a weak reference to a tensor that keeps its gradient (retain_grad)
        self.edges = tuple([(a.node or a) if isinstance(a, Tensor) and a._requires_grad else None for a in args])
        # The kept values depend on the wanted gradients: for a * b with a constant b, the rule for a reads b, and the
        # rule for b, which would read a, never runs.
        wanted = op.saved_values_for(tuple([edge is not None for edge in self.edges]))
        self.saved, self.versions = {}, []
        for name, position in wanted.inputs:
            value = self.saved[name] = args[position]
            for x in value if value.__class__ is tuple else (value,):
                if isinstance(x, Tensor):
                    self.versions.append((name, x._version, x._version.count))
        for name, position in wanted.shapes:
            xs = args[position]
            self.saved[name] = tuple([x.shape for x in xs]) if xs.__class__ is tuple else getattr(xs, "shape", None)
        for name, position in wanted.saved:
            self.saved[name] = saved[position]
        if wanted.output:
            self.saved["y"] = y._data
            self.versions.append(("y", y._version, y._version.count))
        if state.on_node is not None:
            state.on_node(self, args, y._data)

    def refuse_changed(self, names: tuple[str, ...]) -> None:
        """Raise an error if a value among `names` was changed in place after the forward pass.

        Values are kept without a copy, so a change in place reaches them. A gradient computed from new values would be
        silently wrong; a change of a value that no rule reads does no harm, and is allowed.
        """
        for name, version, seen in self.versions:
            if version.count != seen and name in names:
                what = "output" if name == "y" else "result" if name in self.op.saved else "input"
                raise RuntimeError(
                    f"backward: the {what} {name} of {self.op.name} was changed in place after it was used, and its "
                    "gradient needs the old values; change a clone() instead"
                )

    def free(self) -> None:
        """Drop all kept values and the edges; a node that keeps no values stays as it is, and can be walked again.

        backward() does so after each node: the memory of the last layers can then hold the gradients of the first.
        """
        self.walked = True
        if self.versions or self.op.saved:
            self.saved, self.edges, self.versions = None, (), ()

    @property
    def freed(self) -> bool:
        """Has backward() dropped values that a second walk would read?"""
        return self.saved is None

    def name(self) -> str:
        """The operation's name."""
        return self.op.name

    @property
    def next_functions(self) -> tuple[tuple["Node | AccumulateGrad | None", int], ...]:
        """The nodes that gradients go to from here, each with the number 0 of its one result."""
        return tuple((AccumulateGrad(e) if isinstance(e, Tensor) else e, 0) for e in self.edges)

    def __repr__(self):
        return f"<{self.op.name} on the tape>"


def between(outputs: Sequence[Tensor], inputs: Sequence[Tensor], freed: list[Node] | None = None) -> set[Node | Tensor]:
    """The nodes from which the inputs can be reached, and the inputs: only these need a gradient.

    `freed` collects the nodes on the way that an earlier walk has freed.

    `grad` computes a few gradients of a graph that may be large. Nodes are visited from the outputs down as far as the
    oldest input, and then from the oldest up: a node is useful if one of its edges leads to a useful node or input.
    """
    # Both nodes and leaves have a hash by identity, so that they can stand in one set.
    useful = {x if x.node is None else x.node for x in inputs}
    oldest = min((x.node.generation if x.node is not None else -1) for x in inputs)  # no older node leads to an input
    reached, todo = set(), [y.node for y in outputs if y.node is not None]
    while todo:
        node = todo.pop()
        if node not in reached and node.generation >= oldest:
            reached.add(node)
            if freed is not None and node.freed and node not in useful:
                freed.append(node)
            todo.extend(edge for edge in node.edges if isinstance(edge, Node))
    for node in sorted(reached, key=lambda n: n.generation):
        if any(edge in useful for edge in node.edges if edge is not None):
            useful.add(node)
    return useful

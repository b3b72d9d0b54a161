"""What programs that walk a graph (torchviz, say) ask a node: its name, and the nodes to which gradients go."""

from tinytensor.core.tensor import Tensor


class AccumulateGrad:
    """The end of the tape at a leaf."""

    next_functions = ()

    def __init__(self, variable: Tensor):
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"


class Linked:
    """The part of a Node that answers them."""

    __slots__ = ()

    def name(self) -> str:
        """The operation's name."""
        return self.op.name

    @property
    def next_functions(self) -> tuple[tuple["Linked | AccumulateGrad | None", int], ...]:
        """The nodes to which gradients go from here, each with the number 0 of its one result."""
        return tuple((AccumulateGrad(e) if isinstance(e, Tensor) else e, 0) for e in self.edges)

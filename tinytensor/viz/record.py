"""The record of one backward pass, in plain objects: `look` (trace.py) makes it, and all pictures and texts read it."""

from dataclasses import dataclass, field

import numpy as np

from tinytensor.core.op import Node
from tinytensor.core.tensor import Tensor

UNKNOWN = object()  # an argument that the tape did not keep


@dataclass(eq=False)
class Group:
    """One call of a module: its path in the module tree (with a number if it was called again), and its operations."""

    path: str
    module: str  # the path without the number, as in the names of parameters
    parent: "Group | None"
    steps: list["Step"] = field(default_factory=list)  # without those in groups inside this one

    @property
    def chain(self) -> tuple["Group", ...]:
        """This group and those around it, the innermost first."""
        return (self, *(self.parent.chain if self.parent else ()))


def chain(group: Group | None) -> tuple[Group, ...]:
    return () if group is None else group.chain


@dataclass(eq=False)
class Rule:
    """The code that computed a gradient: the function's source, and the values that it read, by name.

    Of an operation whose gradients are computed by kernels, the formulas are shown instead of the source.
    """

    name: str
    source: str
    where: str  # file:line, or ""
    reads: dict[str, object]
    formulas: tuple[str, ...] = ()


@dataclass(eq=False)
class Share:
    """The gradient that a node sends to one of its arguments: that of the result by one use of a value."""

    sender: "Step"
    position: int  # which argument
    argument: str  # its name in the operation
    target: "Step | Leaf"
    raw: np.ndarray  # as the rule gave it
    sent: np.ndarray  # in the argument's shape and dtype


@dataclass(eq=False)
class Value:
    """A place where a gradient arrives: the result of a node, or a leaf."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    value: np.ndarray | None = None  # None where the tape did not keep it
    shares: list[Share] = field(default_factory=list)  # in the order in which they came
    seed: np.ndarray | None = None  # the gradient that the walk began with
    gradient: np.ndarray | None = None  # complete; None if nothing arrived
    hooks: int = 0
    consumers: list["Step"] = field(default_factory=list)  # the steps that read it, the oldest first
    named: bool = False  # by the user
    group: Group | None = None  # the call of a module that it belongs to

    def sums(self) -> list[tuple["Share | None", np.ndarray]]:
        """The gradient as it grows: the sum after the seed (which has no share) and after each share."""
        partial_sums: list[tuple[Share | None, np.ndarray]] = [] if self.seed is None else [(None, self.seed)]
        for share in self.shares:
            partial_sums.append((share, share.sent if not partial_sums else partial_sums[-1][1] + share.sent))
        return partial_sums


@dataclass(eq=False)
class Argument:
    """An argument of a node: a value that has a gradient (`source` says which), or a constant."""

    name: str  # its name in the operation
    source: "Step | Leaf | None"
    value: object  # an array, a setting, or UNKNOWN
    called: str  # the user's name for it, or ""


@dataclass(eq=False)
class Leaf(Value):
    """A tensor that the user made, where the walk ends."""

    tensor: Tensor | None = None
    before: np.ndarray | None = None  # the .grad so far, to which backward() will add


@dataclass(eq=False)
class Step(Value):
    """A node of the tape: an operation, and its result."""

    node: Node | None = None
    number: int = 0  # by age: 1 is the oldest
    turn: int = 0  # when the walk came here: 1 is the first, 0 is never
    waiting: list["Step"] = field(default_factory=list)  # the others that had a gradient and waited when it was chosen
    arguments: list[Argument] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    road: str = ""  # the way to a gradient that the engine took, one of three
    sends: list[Share] = field(default_factory=list)
    part_of: "Step | None" = None  # the fused operation whose definition this is a part of

    @property
    def op(self):
        """The operation of the node that was visited."""
        return self.node.op

    @property
    def order(self) -> tuple[int, ...]:
        """When the walk came here: (3,), or (3, 2) for the second node in the definition of the third."""
        return (self.turn,) if self.part_of is None else (*self.part_of.order, self.turn)

    @property
    def mark(self) -> str:
        """The visit as it is written: 3, or 3.2."""
        return ".".join(map(str, self.order))


@dataclass(eq=False)
class BackwardTrace:
    """A backward pass: its nodes from the oldest to the youngest, and the leaves in the order of their first use."""

    result: Value
    steps: list[Step]
    leaves: list[Leaf]

    @property
    def walked(self) -> list[Step]:
        """The nodes in the order of their visits."""
        return sorted((step for step in self.steps if step.turn), key=lambda step: step.order)

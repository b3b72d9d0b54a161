"""The derivatives of some values by some others: grad, and gradients through a definition, which are just that.

Both walk the tape as backward() does, but only as far as the inputs, and nothing is added to a leaf's `.grad`.
`backward()` of several tensors is here too, and what a walker of graphs asks a node: whom it leads to.
"""

from collections.abc import Sequence

from tinytensor.autograd.awaited import ending
from tinytensor.core.modes import enable_grad
from tinytensor.core.op import Node
from tinytensor.core.seed import seed_of
from tinytensor.core.tape import _accumulate, walk
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import zeros_like


def _between(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], freed: list[Node] | None = None
) -> set[Node | Tensor]:
    """The nodes from which the inputs can be reached, and the inputs: only these need a gradient.

    `freed` collects nodes on the way of which an earlier walk has left nothing.

    `grad` asks for a few gradients of a graph that may be large. Nodes are looked at from the outputs down as far as
    the oldest input, and then from the oldest up: a node is useful if one of its edges leads to something useful.
    """
    # Both nodes and leaves have a hash by identity, so that they can stand in one set.
    useful = {x if x.node is None else x.node for x in inputs}
    oldest = min((x.node.time if x.node is not None else -1) for x in inputs)  # nothing older leads to an input
    reached, todo = set(), [y.node for y in outputs if y.node is not None]
    while todo:
        node = todo.pop()
        if node not in reached and node.time >= oldest:
            reached.add(node)
            if freed is not None and node.freed and node not in useful:
                freed.append(node)
            todo.extend(edge for edge in node.edges if isinstance(edge, Node))
    for node in sorted(reached, key=lambda n: n.time):
        if any(edge in useful for edge in node.edges if edge is not None):
            useful.add(node)
    return useful


def _wanted(inputs: Tensor | Sequence[Tensor], what: str) -> list[Tensor]:
    """The inputs as a list, of which each may have a gradient."""
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if not inputs:
        raise ValueError(f"{what}: the list of inputs is empty; give the tensors whose gradients are wanted")
    for x in inputs:
        x._follow_base()
    if any(not x.requires_grad for x in inputs):
        raise RuntimeError(f"{what}: an input does not require grad; call requires_grad_() before it is used")
    return inputs


def _between_for_backward(outputs: Sequence[Tensor], inputs: Tensor | Sequence[Tensor]) -> set[Node | Tensor]:
    """What backward(inputs=...) walks; computed tensors among the inputs keep their gradient from now on."""
    inputs = _wanted(inputs, "backward")
    for x in inputs:
        x.retain_grad()
    return _between(outputs, inputs)


Node.between = staticmethod(_between_for_backward)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Add the derivative of several numbers' sum to `.grad` of every leaf, or only of `inputs`.

    Each of the tensors is weighted by its grad_tensor, which may be None for a tensor of one number.
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    starts = [grad_tensors] if isinstance(grad_tensors, Tensor) else grad_tensors
    starts = [None] * len(tensors) if starts is None else list(starts)
    seeds = [seed_of(y, g, "backward") for y, g in zip(tensors, starts, strict=True)]
    retain = create_graph if retain_graph is None else retain_graph
    useful = None if inputs is None else _between_for_backward(tensors, inputs)
    with ending():
        walk(tensors, seeds, retain, create_graph, _accumulate(create_graph), useful)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The derivatives of outputs by inputs, returned instead of added to `.grad`.

    Several outputs count as their sum, each weighted by its grad_output. Only what leads from an output to an input is
    walked, so a few gradients of a large graph are cheap, and the `.grad` of parameters stays as it is. Inputs may be
    leaves or computed tensors. An input that the outputs do not depend on raises, unless `allow_unused`: then its
    gradient is None, or zeros with `materialize_grads`. (`only_inputs` is always so.)
    """
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not offered; call backward() for the gradients of all leaves")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads=True gives zeros for unused inputs, which allow_unused=False forbids")
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = _wanted(inputs, "grad")
    starts = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
    starts = [None] * len(outputs) if starts is None else list(starts)
    # An input is found where its gradient arrives: at itself if it is a leaf, else at the node that made it.
    seeds = [seed_of(y, g, "grad") for y, g in zip(outputs, starts, strict=True)]
    found: list[Tensor | None] = [None] * len(inputs)
    wanted: dict[Node | Tensor, list[int]] = {}  # an input may be given twice
    for i, x in enumerate(inputs):
        wanted.setdefault(x if x.node is None else x.node, []).append(i)

    def keep(target: Node | Tensor, g: Tensor, is_new: bool) -> None:
        for i in wanted.get(target, ()):
            found[i] = g

    retain = create_graph if retain_graph is None else retain_graph
    freed: list[Node] = []
    useful = _between(outputs, inputs, freed)
    walk(outputs, seeds, retain, create_graph, keep, useful)
    if freed and any(g is None for g in found):  # what it led to is forgotten, the inputs perhaps
        raise RuntimeError(
            f"grad: a part of the tape ({freed[0].op.name}) was freed by an earlier backward() or grad(); call that "
            "one with retain_graph=True to walk it twice"
        )
    if materialize_grads:
        return tuple(zeros_like(x) if g is None else g for g, x in zip(found, inputs))
    if not allow_unused and any(g is None for g in found):
        unused = [i for i, g in enumerate(found) if g is None]
        raise RuntimeError(
            f"grad: the outputs do not depend on the inputs number {unused}; allow_unused=True gives None"
        )
    return tuple(found)


def _through_definition(node: Node, g: Tensor, needs: tuple[bool, ...], create_graph: bool) -> list[Tensor | None]:
    """The gradients of a fused operation through its definition: this is where its higher derivatives come from.

    The definition runs on the arguments that were kept, with the tape on, and what it put there is walked in its turn.
    Seen through a view that is made now, the inputs are the oldest things that `grad` has to look at. Without
    create_graph they are cut off from what they came from, since the walk around this one goes there.
    """
    op = node.op
    node.refuse_changed(op.params)
    values = [(node.kept[name], place.stop is None) for name, place in zip(op.params, op.places, strict=True)]
    args = [a for value, several in values for a in (value if several else (value,))]
    with enable_grad():
        args = [
            a if not n else a[...] if create_graph else a.detach().requires_grad_()[...] for a, n in zip(args, needs)
        ]
        inputs = [a for a, n in zip(args, needs) if n]
        found = iter(grad(op.definition(*args), inputs, g, create_graph=create_graph, allow_unused=True))
    return [next(found) if n else None for n in needs]


Node.through_definition = _through_definition


# ------------------------------------------------------------------------------------- what walkers of graphs ask for


class AccumulateGrad:
    """The end of the tape at a leaf, as PyTorch's walkers of graphs (torchviz, say) know it."""

    next_functions = ()

    def __init__(self, variable: Tensor):
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"


def _next_functions(node: Node) -> tuple[tuple[Node | AccumulateGrad | None, int], ...]:
    """The nodes to which gradients go from here, each with the number 0 of its one result."""
    return tuple((AccumulateGrad(e) if isinstance(e, Tensor) else e, 0) for e in node.edges)


Node.name = lambda node: node.op.name
Node.next_functions = property(_next_functions)

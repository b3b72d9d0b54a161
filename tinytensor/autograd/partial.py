"""The derivatives of some values by some others: grad, and gradients through a definition, which are just that.

Both walk the tape as backward() does, but only as far as the inputs, and nothing is added to a leaf's `.grad`.
"""

from collections.abc import Sequence

from tinytensor.autograd.tape import seed_of, walk
from tinytensor.form import Node
from tinytensor.modes import enable_grad
from tinytensor.tensors import Tensor


def _between(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> set[Node | Tensor]:
    """The nodes from which the inputs can be reached, and the inputs: only these need a gradient.

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
            todo.extend(edge for edge in node.edges if isinstance(edge, Node))
    for node in sorted(reached, key=lambda n: n.time):
        if any(edge in useful for edge in node.edges if edge is not None):
            useful.add(node)
    return useful


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """The derivatives of outputs by inputs, returned instead of added to `.grad`.

    Several outputs count as their sum, each weighted by its grad_output. Only what leads from an output to an input is
    walked, so a few gradients of a large graph are cheap, and the `.grad` of parameters stays as it is. Inputs may be
    leaves or computed tensors. An input that the outputs do not depend on raises, unless `allow_unused`: then its
    gradient is None.
    """
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    starts = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
    starts = [None] * len(outputs) if starts is None else list(starts)
    if any(not x.requires_grad for x in inputs):
        raise RuntimeError("grad: an input does not require grad; call requires_grad_() before it is used")
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
    walk(outputs, seeds, retain, create_graph, keep, _between(outputs, inputs))
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
    args = [a for i, name in enumerate(op.params) for a in (node.kept[name] if op.varied(i) else (node.kept[name],))]
    with enable_grad():
        args = [
            a if not n else a[...] if create_graph else a.detach().requires_grad_()[...] for a, n in zip(args, needs)
        ]
        inputs = [a for a, n in zip(args, needs) if n]
        found = iter(grad(op.definition(*args), inputs, g, create_graph=create_graph, allow_unused=True))
    return [next(found) if n else None for n in needs]


Node.through_definition = _through_definition

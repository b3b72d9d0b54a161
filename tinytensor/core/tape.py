"""Walking the tape backwards, which `backward` and `grad` do (autograd/derivatives.py).

The youngest node goes first. A node is younger than all it came from and older than all that was made from it: so when
the youngest one left is taken, every gradient that flows into it has arrived, and it need be visited only once. (To
follow each edge as soon as it is seen would pass a value's gradient on as often as the value was used: `y = y + y`,
eighteen times over, would take 2^18 visits.) A heap by age finds the youngest. There is no recursion, so a chain may
have as many operations as memory holds.

For c = a * b and d = c + a the walk takes d first, with the gradient 1, and sends 1 to c and 1 to a. Then c, whose
gradient is complete: it sends b to a and a to b. What has arrived at a, 1 and b, is added up: the derivative of
a * b + a by a. `examples/03_chain_rule.py` does this by hand, and shows what goes wrong without the order.

At a node the walk asks the operation for its rules, and calls them with what they read. A rule is ordinary Tensor code:
what it computes passes the same door as everything else, and with `create_graph` it goes on the tape in its turn, so
that gradients can be differentiated again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush

import numpy as np

from tinytensor.core import provided
from tinytensor.core.awaited import complete_after, edges_to_awaited
from tinytensor.core.dispatch import state
from tinytensor.core.graph import between
from tinytensor.core.modes import set_grad_enabled
from tinytensor.core.op import Node
from tinytensor.core.rule_arguments import asked
from tinytensor.core.tensor import Tensor

# ------------------------------------------------------------------------------------------------------ at one node


def _gradients(node: Node, g: Tensor, create_graph: bool, onto: Tensor | None = None) -> list[Tensor | None]:
    """The gradients of a node's arguments, given the gradient g of its result; None where none is needed.

    An operation says what its gradient is in one of three ways, and they are tried in the order of what they cost: on
    arrays, by kernels of its own; by a rule for each input, in tensors; through its definition in simpler operations.
    The first leaves nothing on the tape. So where gradients are to be differentiated again, one of the others is taken.
    """
    op = node.op
    needs = tuple([edge is not None for edge in node.edges])
    if op.backward is not None and not create_graph:
        read = [getattr(v, "_data", v) for v in _read(node, op.backward, g, needs, onto)]
        results = provided.on_arrays(op.backward)(*read)
        return [None if r is None or not n else Tensor.of(r) for r, n in zip(results, needs)]
    if node.gradients is not None:
        return node.gradients(g, needs, create_graph)
    if not op.rules:
        return _through_definition(node, g, needs, create_graph)

    # A rule is tensor code. What it does goes on the tape with create_graph, and then each of its operations must run;
    # otherwise only its launches count, and these are made again without it.
    results: list[Tensor | None] = [None] * len(needs)
    for i, rule in op.rules.items():
        place = op.places[i]
        if any(needs[place]):  # nobody asked for the gradients of the others, so nobody computes them
            r = (rule if create_graph else provided.on_tensors(rule))(*_read(node, rule, g, needs))
            results[place] = (r,) if isinstance(r, Tensor) else r
    return [r if n else None for r, n in zip(results, needs)]


def _through_definition(node: Node, g: Tensor, needs: tuple[bool, ...], create_graph: bool) -> list[Tensor | None]:
    """The gradients of a fused operation through its definition: this is where its higher derivatives come from.

    The definition runs on the arguments that were kept, with the tape on, and what it put there is walked in its turn,
    as far as the arguments. Each is seen through a view that is made now, whose node ends the walk. Without
    create_graph it is cut off from what it came from, since the walk around this one goes there.
    """
    op = node.op
    node.refuse_changed(op.params)
    values = [(node.kept[name], place.stop is None) for name, place in zip(op.params, op.places, strict=True)]
    args = [a for value, several in values for a in (value if several else (value,))]
    with set_grad_enabled(True):
        args = [
            a if not n else a[...] if create_graph else a.detach().requires_grad_()[...] for a, n in zip(args, needs)
        ]
        y = op.definition(*args)
    inputs = [a for a, n in zip(args, needs) if n]
    found: dict[Node | Tensor, Tensor | None] = dict.fromkeys(a.node for a in inputs)

    def keep(target: Node | Tensor, r: Tensor, is_new: bool) -> None:
        if target in found:
            found[target] = r

    walk([y], [g.to(y.dtype)], create_graph, create_graph, keep, between([y], inputs))
    return [found[a.node] if n else None for a, n in zip(args, needs)]


def _read(node: Node, rule: Callable, g: Tensor, needs: tuple[bool, ...], onto: Tensor | None = None) -> list:
    """What a rule asks for by name, if it is still what the forward pass saw.

    This is checked here and not where a value is changed: a change does no harm to a gradient that nobody asks for.
    """
    names, values = asked(rule), []
    node.refuse_changed(names)
    given = {"g": g, "needs": needs, "onto": onto}  # comes with the call; the rest was kept
    for name in names:
        value = given[name] if name in given else node.kept[name]
        if name == "y" or name in node.op.saved:
            # A node keeps arrays of its results, not tensors (a tensor would hold the node); for rules they are tensors
            # again. What is computed from y depends on the inputs as y does, where that matters.
            value = Tensor.of(value)
            if name == "y":
                value.node, value._requires_grad = node, True
        values.append(value)
    return values


def _fitted(r: Tensor, edge: Node | Tensor, node: Node) -> Tensor:
    """A rule's result in the shape and dtype of the value that it is the gradient of.

    Broadcasting repeats a value along dimensions that it lacks or has once; each copy has its share of the gradient,
    and the shares add up: a bias (N) that was added to rows (R, N) has a gradient (R, N) from the rule, which is summed
    over the rows here. Done once for all operations, no rule needs to know that its input was broadcast.
    """
    late = isinstance(edge, Tensor) and edge._version.reshaped > node.time  # .data = ...: no sum leads there any more
    if late or r.shape != edge.shape:
        # Dimensions were added in front, and those of size 1 may have been stretched: one kernel sums over them all.
        new = r.ndim - len(edge.shape)
        if late or new < 0 or any(n not in (1, r.shape[d + new]) for d, n in enumerate(edge.shape)):
            raise RuntimeError(
                f"backward: a gradient of shape {r.shape} arrives at a tensor of shape {edge.shape}; was .data given "
                "another shape after the tensor was used? Compute forward anew"
            )
        stretched = [d + new for d, n in enumerate(edge.shape) if n == 1]
        dims = [*range(new), *stretched]  # a sum of one number is that number, as in a batch of one
        r = r if all(r.shape[d] == 1 for d in dims) else r.sum(dims)
        r = r if r.shape == edge.shape else r.reshape(edge.shape)
    if r.dtype != edge.dtype and edge.dtype.kind not in "fO":  # of .data = whole numbers
        raise RuntimeError(f"backward: a tensor of {edge.dtype} has no gradient; only floating-point tensors have one")
    return r if r.dtype == edge.dtype else r.to(edge.dtype)


def _is_new(fitted: Tensor, results: list[Tensor | None], i: int, g: Tensor, is_new: bool, node: Node) -> bool:
    """Will nobody else look at the memory of `fitted`, which was made of the rule's result number i?

    A leaf keeps its gradient, and the user may change it in place, so it needs memory of its own. A copy would do, but
    costs as much as the smaller kernels. None is needed if the memory is none of what the rule was given (the sum hands
    on its g, a transposition looks at g from another side) nor of what else it returned: then the rule has made it. Or
    it is g's, but g was made for this node alone (is_new): a weight's gradient comes through W.t() so.
    """
    array = fitted._data
    others = [*results[:i], *results[i + 1 :], *node.kept.values(), *(() if is_new else (g,))]
    others = [x for other in others for x in (other if isinstance(other, tuple) else (other,))]
    arrays = [getattr(x, "_data", x) for x in others if isinstance(x, (Tensor, np.ndarray))]
    return not any(np.may_share_memory(array, other) for other in arrays)


# --------------------------------------------------------------------------------------------------------- the walk


def walk(
    outputs: Sequence[Tensor],
    gradients: Sequence[Tensor],
    retain_graph: bool,
    create_graph: bool,
    arrived: Callable[[Node | Tensor, Tensor, bool], None],
    useful: set[Node | Tensor] | None = None,
    sent: Callable[[Node, int, Tensor, Tensor], None] | None = None,
) -> None:
    """Send gradients from outputs to leaves, or only through `useful` nodes, if these are given.

    A rule computes the share of one use of a value, and need not know of the others: the walk adds the shares where
    they meet, or hands the rule what has met there, `onto`, if its kernel adds it up for less.

    `arrived(target, g, is_new)` is told of each gradient when it is complete; is_new says that its memory was made for
    it, so that a leaf may keep it as it is. `sent(node, i, r, g)` is told of each share, r, fitted to argument i: g.
    """
    # What has arrived so far at each node or leaf (None while a rule adds to it), and whether it is new. A node is in
    # the heap from the first arrival on; when it comes to the top, nothing younger is left that could send it more.
    pending: dict[Node | Tensor, tuple[Tensor | None, bool]] = {}
    heap: list[tuple[int, Node]] = []  # the youngest on top
    leaves: list[Tensor] = []
    shares = create_graph or state.anomaly or sent  # are they wanted one by one, before they add up?
    awaited = edges_to_awaited(outputs)  # how many edges lead to each leaf whose gradient somebody waits for

    def send(target: Node | Tensor, g: Tensor, is_new: bool) -> None:
        """Put a gradient down at the place where it belongs, beside what is there."""
        if useful is not None and target not in useful:
            return
        if target in pending:  # a value that was used twice: its gradients add up, to a new tensor
            before = pending[target][0]
            pending[target] = g if before is None else before + g, True
            return
        pending[target] = g, is_new
        if isinstance(target, Node):
            heappush(heap, (-target.time, target))  # no two times are equal, so nodes themselves are never compared
        else:
            leaves.append(target)

    def deliver(leaf: Tensor) -> None:
        g, is_new = pending.pop(leaf)  # all shares have been added up
        lies_well = g._data.flags.c_contiguous or g._data.strides == leaf._data.strides  # what goes through it is fast
        is_new = is_new and not leaf._hooks and lies_well  # a hook may have kept it
        arrived(leaf, _hooked(leaf, g), is_new)

    def onto(node: Node) -> Tensor | None:
        """What has arrived at a node's first argument, taken from there for a rule that adds its share itself."""
        target, rule = node.edges[0], node.op.backward
        if shares or target not in pending or rule is None or "onto" not in asked(rule):
            return None
        # The bits are those of a sum made here, but all of these numbers are read and written once less.
        before, pending[target] = pending[target][0], (None, True)
        return before

    def pass_on(node: Node, g: Tensor, is_new: bool) -> None:
        """Send a node's gradients on: a function of its own, so that what was added to others is freed on return."""
        compute = partial(state.anomaly.gradients, _gradients) if state.anomaly else _gradients
        results = compute(node, g, create_graph, onto(node))
        for i, (edge, r) in enumerate(zip(node.edges, results)):
            if r is not None:
                fitted = _fitted(r, edge, node)
                if sent is not None:  # viz looks on from here
                    sent(node, i, r, fitted)
                # To most nodes it does not matter: only a view hands on the memory that it gets.
                matters = isinstance(edge, Tensor) or edge.op.view is not None
                send(edge, fitted, matters and _is_new(fitted, results, i, g, is_new, node))

    # Without create_graph the rules, the same code, run without a tape: a first derivative that nobody differentiates
    # again would otherwise keep all that it was computed from.
    with set_grad_enabled(create_graph):
        for y, g in zip(outputs, gradients, strict=True):
            send(y if y.node is None else y.node, g, False)
        while heap:
            _, node = heappop(heap)
            g, is_new = pending.pop(node)
            g = _hooked(node, g)
            arrived(node, g, False)
            if useful is not None and not any(edge in useful for edge in node.edges if edge is not None):
                continue  # an input of grad() itself, below which nothing is wanted: its rules need not run
            if node.freed:
                raise RuntimeError(
                    f"backward: this part of the tape ({node.op.name}) was freed by an earlier backward(); "
                    "call that one with retain_graph=True to walk it twice"
                )
            pass_on(node, g, is_new and not node._hooks)  # so nobody has kept it
            del g  # its memory can serve at the next node already
            for leaf in complete_after(node, awaited) if awaited else ():  # those that nothing leads to any more
                if leaf in pending:
                    deliver(leaf)
            if not retain_graph:
                node.free()
        # Leaves come last, but for those that somebody awaits: any node that is left could still send them more.
        while leaves:
            if (leaf := leaves.pop()) in pending:
                deliver(leaf)


def _hooked(holder: Node | Tensor, g: Tensor) -> Tensor:
    """g after the hooks have seen it, complete as it is now; each may replace it for those that follow."""
    for hook in tuple(holder._hooks or ()):  # as they were registered; a hook may remove itself meanwhile
        replaced = hook(g)
        g = g if replaced is None else replaced
    # A computed tensor that asked for it (retain_grad) gets a copy, if it still lives. A view that was changed itself
    # stands at its base since, and only what is used from there on counts.
    tensor = holder.retained() if isinstance(holder, Node) and holder.retained is not None else None
    if tensor is not None and (tensor._base is None or tensor._tracked >= 0):
        tensor._grad = g.clone() if tensor._grad is None else tensor.held_grad() + g
    return g

"""The walk back along the tape that `backward` and `grad` (autograd/backward.py) make.

The youngest node goes first. A node is younger than its arguments and older than all values computed from it: so when
the walk takes the youngest node left, every gradient that flows into it has arrived, and one visit is enough. (A walk
that followed each edge at once would pass a value's gradient on as often as the value was used: `y = y + y`, eighteen
times over, would take 2^18 visits.) A heap by age finds the youngest. There is no recursion, so a chain may have as
many operations as memory holds.

For c = a * b and d = c + a the walk takes d first, with the gradient 1, and sends 1 to c and 1 to a. Then it takes c,
whose gradient is complete, and sends b to a and a to b. At a, 1 and b have arrived; their sum is the derivative of
a * b + a by a. `examples/03_chain_rule.py` does this by hand, and shows how another order goes wrong.

At a node the walk calls the operation's rules with the values that they read. A rule is ordinary Tensor code: its
computations pass `launch` as all others do, and with `create_graph` they go on the tape in their turn, so that
gradients can be differentiated again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.dispatch import state
from tinytensor.core.graph import between
from tinytensor.core.modes import set_grad_enabled
from tinytensor.core.op import Node
from tinytensor.core.post_accumulate_hooks import edges_to_hooked_leaves, leaves_done_after
from tinytensor.core.rule_arguments import parameter_names
from tinytensor.core.tensor import Tensor

# ------------------------------------------------------------------------------------------------------ at one node


def _gradients(node: Node, g: Tensor, create_graph: bool, onto: Tensor | None = None) -> list[Tensor | None]:
    """The gradients of a node's arguments, given the gradient g of its result; None where none is needed.

    An operation declares its gradient in one of three ways, which are tried in the order of their cost: on arrays, by
    kernels of its own; by a rule for each input, in tensors; through its definition in simpler operations. The first
    way leaves nothing on the tape. So where gradients will be differentiated again, one of the others is taken.
    """
    op = node.op
    needs = tuple([edge is not None for edge in node.edges])
    if op.backward is not None and not create_graph:
        read = [getattr(v, "_data", v) for v in _read(node, op.backward, g, needs, onto)]
        results = late_bound.on_arrays(op.backward)(*read)
        return [None if r is None or not n else Tensor.of(r) for r, n in zip(results, needs)]
    if node.gradients is not None:
        return node.gradients(g, needs, create_graph)
    if not op.rules:
        return _through_definition(node, g, needs, create_graph)

    # A rule is tensor code. With create_graph its operations go on the tape, so each of them must run; otherwise only
    # its launches count, and a fast path (core/late_bound.py) may repeat these without the rule.
    results: list[Tensor | None] = [None] * len(needs)
    for i, rule in op.rules.items():
        place = op.arg_slices[i]
        if any(needs[place]):  # the gradients of the other arguments are not wanted, so not computed
            r = (rule if create_graph else late_bound.on_tensors(rule))(*_read(node, rule, g, needs))
            results[place] = (r,) if isinstance(r, Tensor) else r
    return [r if n else None for r, n in zip(results, needs)]


def _through_definition(node: Node, g: Tensor, needs: tuple[bool, ...], create_graph: bool) -> list[Tensor | None]:
    """The gradients of a fused operation through its definition: the source of its higher derivatives.

    The definition runs on the kept arguments, with the tape on, and its nodes are walked in their turn, as far as the
    arguments. Each argument is replaced by a view that is made now, whose node ends the inner walk. Without
    create_graph the view is cut off from the argument's own past, which the outer walk visits.
    """
    op = node.op
    node.refuse_changed(op.params)
    values = [(node.kept[name], place.stop is None) for name, place in zip(op.params, op.arg_slices, strict=True)]
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
    """The values that a rule names; an error if one was changed since the forward pass.

    The check is here and not where a value is changed: a change does no harm to a gradient that is not wanted.
    """
    names, values = parameter_names(rule), []
    node.refuse_changed(names)
    given = {"g": g, "needs": needs, "onto": onto}  # these come with the call; all other values were kept
    for name in names:
        value = given[name] if name in given else node.kept[name]
        if name == "y" or name in node.op.saved:
            # A node keeps arrays of its results, not tensors (a tensor would hold the node); rules get tensors again.
            # This y stands at the node, so that values computed from it depend on the inputs (for create_graph).
            value = Tensor.of(value)
            if name == "y":
                value.node, value._requires_grad = node, True
        values.append(value)
    return values


def _fitted(r: Tensor, edge: Node | Tensor, node: Node) -> Tensor:
    """A rule's result, fitted to the shape and dtype of its argument.

    Broadcasting repeats a value along dimensions that it lacks or that have size 1; each copy has its share of the
    gradient, and the shares add up: for a bias (N) that was added to rows (R, N) the rule gives a gradient (R, N), and
    it is summed over the rows here. So no rule needs to know that its input was broadcast.
    """
    late = isinstance(edge, Tensor) and edge._version.reshaped > node.time  # .data = ... gave it another shape since
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
    """Does `fitted`, made of the rule's result number i, have memory that no other tensor uses?

    A leaf keeps its gradient, and the user may change it in place, so it needs memory of its own. A copy would do, but
    costs as much as the smaller kernels. No copy is needed if the memory belongs neither to an argument of the rule
    (the sum passes its g on, a transposition is a view of g) nor to another of its results: then the rule made it. Nor
    is one if the memory is g's and g was made for this node alone (is_new), as for a weight's gradient through W.t().
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

    A rule computes the share of one use of a value, without regard to other uses: the walk adds the shares where they
    meet, or passes their sum so far to the rule, as `onto`, if the rule's kernel adds to it at a lower cost.

    The walk calls `arrived(target, g, is_new)` with each complete gradient; is_new says that its memory was made for
    it, so that a leaf may keep it. It calls `sent(node, i, r, g)` with each share r; g is r fitted to argument i.
    """
    # The sum so far at each node or leaf (None while a rule adds to it), and whether it is new. A node is in the heap
    # from the first arrival on; when it comes to the top, no younger node is left that could send it more.
    pending: dict[Node | Tensor, tuple[Tensor | None, bool]] = {}
    heap: list[tuple[int, Node]] = []  # the youngest on top
    leaves: list[Tensor] = []
    shares = create_graph or state.anomaly or sent  # must each share be seen before they add up?
    awaited = edges_to_hooked_leaves(outputs)  # the number of edges to each leaf with a hook for its complete gradient

    def send(target: Node | Tensor, g: Tensor, is_new: bool) -> None:
        """Add a gradient to those that have arrived at the target."""
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
        lies_well = g._data.flags.c_contiguous or g._data.strides == leaf._data.strides  # loops over it are fast
        is_new = is_new and not leaf._hooks and lies_well  # a hook may have kept it
        arrived(leaf, _hooked(leaf, g), is_new)

    def onto(node: Node) -> Tensor | None:
        """The sum so far at a node's first argument, taken from there for a rule that adds its share itself."""
        target, rule = node.edges[0], node.op.backward
        if shares or target not in pending or rule is None or "onto" not in parameter_names(rule):
            return None
        # The bits are the same as of a sum made here, but each number is read and written once less.
        before, pending[target] = pending[target][0], (None, True)
        return before

    def pass_on(node: Node, g: Tensor, is_new: bool) -> None:
        """Send a node's gradients on: a separate function, so that its locals are freed on return."""
        compute = partial(state.anomaly.gradients, _gradients) if state.anomaly else _gradients
        results = compute(node, g, create_graph, onto(node))
        for i, (edge, r) in enumerate(zip(node.edges, results)):
            if r is not None:
                fitted = _fitted(r, edge, node)
                if sent is not None:  # viz watches the walk through it
                    sent(node, i, r, fitted)
                # is_new matters to leaves and to views, which pass the memory of g on; other nodes make new memory.
                matters = isinstance(edge, Tensor) or edge.op.view is not None
                send(edge, fitted, matters and _is_new(fitted, results, i, g, is_new, node))

    # Without create_graph the rules run without a tape: a first derivative that is not differentiated again would
    # otherwise keep all values that it was computed from.
    with set_grad_enabled(create_graph):
        for y, g in zip(outputs, gradients, strict=True):
            send(y if y.node is None else y.node, g, False)
        while heap:
            _, node = heappop(heap)
            g, is_new = pending.pop(node)
            g = _hooked(node, g)
            arrived(node, g, False)
            if useful is not None and not any(edge in useful for edge in node.edges if edge is not None):
                continue  # an input of grad() itself, and no gradient below it is wanted: its rules do not run
            if node.freed:
                raise RuntimeError(
                    f"backward: this part of the tape ({node.op.name}) was freed by an earlier backward(); "
                    "call that one with retain_graph=True to walk it twice"
                )
            pass_on(node, g, is_new and not node._hooks)  # a hook may have kept g
            del g  # its memory can serve at the next node already
            for leaf in leaves_done_after(node, awaited) if awaited else ():  # leaves to which no edge is left
                if leaf in pending:
                    deliver(leaf)
            if not retain_graph:
                node.free()
        # Leaves come last, except those with a hook: any node that is left could still send them more.
        while leaves:
            if (leaf := leaves.pop()) in pending:
                deliver(leaf)


def _hooked(holder: Node | Tensor, g: Tensor) -> Tensor:
    """The complete gradient g after the hooks have seen it; each hook may replace it for those that follow."""
    for hook in tuple(holder._hooks or ()):  # in the order of registration; a copy, since a hook may remove itself
        replaced = hook(g)
        g = g if replaced is None else replaced
    # A computed tensor with retain_grad() gets a copy, if it still lives. A view that was itself changed in place has
    # moved to a node of its base, so the gradient at its old node is no longer its own.
    tensor = holder.retained() if isinstance(holder, Node) and holder.retained is not None else None
    if tensor is not None and (tensor._base is None or tensor._tracked >= 0):
        tensor._grad = g.clone() if tensor._grad is None else tensor.held_grad() + g
    return g

"""The walk back along the tape that `backward` and `grad` (autograd/backward.py) make.

The youngest node goes first. A node is younger than its arguments and older than all values computed from it: so when
the walk takes the youngest node left, every gradient that flows into it has arrived, and one visit is enough. (A walk
that followed each edge at once would pass a value's gradient on as often as the value was used: `y = y + y`, eighteen
times over, would take 2^18 visits.) A heap by age finds the youngest. There is no recursion, so a chain may have as
many operations as memory holds.

For c = a * b and d = c + a the walk takes d first, with the gradient 1, and sends 1 to c and 1 to a. Then it takes c,
whose gradient is complete, and sends b to a and a to b. At a, 1 and b have arrived; their sum is the derivative of
a * b + a by a. `examples/03_chain_rule.py` does this by hand, and shows how another order goes wrong.

At a node the walk calls the operation's rules with the values that they read. A rule is ordinary Tensor code: with
`create_graph` its computations go on the tape in their turn, so that gradients can be differentiated again.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.dispatch import launch, state
from tinytensor.core.graph import between
from tinytensor.core.meta import Meta
from tinytensor.core.modes import set_grad_enabled
from tinytensor.core.op import Node
from tinytensor.core.registry import OPS
from tinytensor.core.rule_arguments import parameter_names
from tinytensor.core.tensor import Tensor

# ------------------------------------------------------------------------------------------------------ at one node


def _gradients(
    node: Node, g: Tensor, needs: tuple[bool, ...], create_graph: bool, accumulated: Tensor | None = None
) -> list[Tensor | None]:
    """The gradients of a node's arguments from the gradient g of its result; None where none is needed.

    An operation declares its gradient in one of three ways, which are tried in the order of their cost: on arrays, by
    kernels of its own; by a rule for each input, in tensors; through its definition in simpler operations. The first
    way leaves nothing on the tape, where gradients are differentiated again, and takes no batch of gradients (vmap).
    """
    op, batch = node.op, isinstance(g._data, Meta)
    if op.backward is not None and not create_graph and not batch:
        read = [getattr(v, "_data", v) for v in _read(node, op.backward, g, needs, accumulated)]
        results = late_bound.on_arrays(op.backward)(*read)
        return [None if r is None or not n else Tensor.of(r) for r, n in zip(results, needs)]
    if node.gradients is not None:
        each = late_bound.for_each_example(node.gradients, (g,), {}, op.name) if batch else node.gradients(g)
        return [r if n else None for r, n in zip(each, needs)]
    if not op.rules:
        return _through_definition(node, g, needs, create_graph)

    # A rule is tensor code. With create_graph its operations go on the tape, so each of them must run; otherwise only
    # its launches count, and a fast path (core/late_bound.py) may repeat these without the rule.
    results: list[Tensor | None] = [None] * len(needs)
    for i, rule in op.rules.items():
        args = op.arg_slices[i]
        if any(needs[args]):  # the gradients of the other arguments are not wanted, so not computed
            r = (rule if create_graph or batch else late_bound.on_tensors(rule))(*_read(node, rule, g, needs))
            results[args] = (r,) if isinstance(r, Tensor) else r
    return [r if n else None for r, n in zip(results, needs)]


def _through_definition(node: Node, g: Tensor, needs: tuple[bool, ...], create_graph: bool) -> list[Tensor | None]:
    """The gradients of a fused operation through its definition: the source of its higher derivatives.

    The definition runs on the kept arguments, with the tape on, and its nodes are walked in their turn, as far as the
    arguments. Each argument is replaced by a view that is made now, whose node ends the inner walk. Without
    create_graph the view is cut off from the argument's own past, which the outer walk visits.
    """
    op = node.op
    node.refuse_changed(op.params)
    values = [(node.saved[name], args.stop is None) for name, args in zip(op.params, op.arg_slices, strict=True)]
    args = [a for value, several in values for a in (value if several else (value,))]
    with set_grad_enabled(True):
        args = [
            a if not n else a[...] if create_graph else a.detach().requires_grad_()[...] for a, n in zip(args, needs)
        ]
        y = op.definition(*args)
    inputs = [a for a, n in zip(args, needs) if n]
    gradients: dict[Node | Tensor, Tensor | None] = dict.fromkeys(a.node for a in inputs)

    def keep(target: Node | Tensor, r: Tensor, owned: bool) -> None:
        if target in gradients:
            gradients[target] = r

    backward_pass([y], [g.to(y.dtype)], create_graph, create_graph, Observer(keep), between([y], inputs))
    return [gradients[a.node] if n else None for a, n in zip(args, needs)]


def _read(node: Node, rule: Callable, g: Tensor, needs: tuple[bool, ...], accumulated: Tensor | None = None) -> list:
    """The values that a rule names; an error if one was changed since the forward pass.

    The check is here and not where a value is changed: a change does no harm to a gradient that is not wanted.
    """
    names, values = parameter_names(rule), []
    node.refuse_changed(names)
    of_call = {"g": g, "needs": needs, "accumulated": accumulated}  # all other values were kept
    for name in names:
        value = of_call[name] if name in of_call else node.saved[name]
        if name == "y" or name in node.op.saved:
            # A node keeps arrays of its results, not tensors (a tensor would hold the node); rules get tensors again.
            # This y stands at the node, so that values computed from it depend on the inputs (for create_graph).
            value = Tensor.of(value)
            if name == "y":
                value.node, value._requires_grad = node, True
        values.append(value)
    return values


def _unbroadcast(r: Tensor, edge: Node | Tensor, node: Node) -> Tensor:
    """A rule's result in the shape and dtype of its argument.

    Broadcasting repeats a value along dimensions that it lacks or that have size 1; each copy has its share of the
    gradient, and the shares add up: for a bias (N) that was added to rows (R, N) the rule gives a gradient (R, N), and
    it is summed over the rows here. So no rule needs to know that its input was broadcast.
    """
    late = (
        isinstance(edge, Tensor) and edge._version.reshaped > node.generation
    )  # .data = ... gave it another shape since
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


# ------------------------------------------------------------------------------------------ gradients under way


class Observer(NamedTuple):
    """What a walk reports to: `backward` and `grad` read complete gradients, viz reads the shares as well.

    Leaves get theirs at the end, unless `completed_by` knows of some that are complete before.
    """

    on_gradient: Callable[[Node | Tensor, Tensor, bool], None]  # (target, g, owned): a complete gradient
    on_edge: Callable[[Node, int, Tensor, Tensor], None] | None = None  # (node, i, r, g): a share r; g is r, fitted
    completed_by: Callable[[Node], Iterable[Tensor]] | None = None  # the leaves to which no edge is left after a node


class _Accumulator:
    """The sums of the shares that have arrived so far, and the nodes and leaves that wait for the rest.

    Each sum comes with a flag, owned: its memory was made for it, so no other tensor uses it.
    """

    def __init__(self, useful: set[Node | Tensor] | None, create_graph: bool, batch: bool, observer: Observer):
        self.useful, self.create_graph, self.batch, self.observer = useful, create_graph, batch, observer
        self.sums: dict[Node | Tensor, tuple[Tensor | None, bool]] = {}  # None while a rule adds to the sum
        self.summed: set[Node | Tensor] = set()  # the targets whose sum is a tensor that only this walk has
        self.heap: list[tuple[int, Node]] = []  # the youngest on top; a node is in it from the first arrival on
        self.leaves: list[Tensor] = []

    def accumulate(self, target: Node | Tensor, g: Tensor, owned: bool) -> None:
        """Add a share to those that have arrived at the target."""
        if self.useful is not None and target not in self.useful:
            return
        if target in self.sums:  # a value that was used twice: its gradients add up, to a new tensor
            before = self.sums[target][0]
            self.sums[target] = g if before is None else before + g, True
            self.summed.add(target)
            return
        self.sums[target] = g, owned
        if isinstance(target, Node):
            heappush(self.heap, (-target.generation, target))  # no two are equal, so nodes are never compared
        else:
            self.leaves.append(target)

    def complete(self, target: Node | Tensor) -> tuple[Tensor, bool]:
        """Take the sum of a target to which no more is sent, after its hooks, and report it."""
        g, owned = self.sums.pop(target)
        g, owned = _after_hooks(target, g), owned and not target._hooks  # a hook may have kept g
        self.observer.on_gradient(target, g, owned)
        return g, owned

    def take_accumulated(self, node: Node) -> Tensor | None:
        """The sum so far at a node's first argument, if its kernel adds its share to it: the bits are the same."""
        target, rule = node.edges[0], node.op.backward
        if target not in self.sums or rule is None or "accumulated" not in parameter_names(rule):
            return None
        before, self.sums[target] = self.sums[target][0], (None, True)
        return before

    def add_part(self, node: Node, g: Tensor) -> bool:
        """Add the gradient of a part of a tensor to that part of the sum; False if the sum is not the walk's own.

        The rule makes a gradient of the whole tensor for each part, with zeros around it.
        """
        before = self.sums.get(node.edges[0], (None,))[0] if node.edges[0] in self.summed else None
        if before is None or (before.shape, before.dtype) != (node.saved["x_shape"], g.dtype):
            return False
        part = node.op.view(before._data, *[node.saved[name] for name in node.op.params[1:]])
        launch(OPS["add"].kernel, part, g._data, part)
        return True

    def propagate(self, node: Node, g: Tensor, g_owned: bool, needs: tuple[bool, ...]) -> None:
        """Run the rules of a node on its complete gradient, and send each argument its share.

        A rule computes the share of one use of a value, without regard to other uses; where they meet, shares add up.
        """
        on_edge = self.observer.on_edge
        compute = partial(state.anomaly.gradients, _gradients) if state.anomaly else _gradients
        alone = not (self.create_graph or self.batch or state.anomaly or on_edge)  # does nothing else need the share?
        if alone and node.op.is_part and self.add_part(node, g):
            return
        accumulated = self.take_accumulated(node) if alone else None
        results = compute(node, g, needs, self.create_graph, accumulated)
        for i, (edge, r) in enumerate(zip(node.edges, results)):
            if r is not None:
                fitted = _unbroadcast(r, edge, node)
                if on_edge is not None:
                    on_edge(node, i, r, fitted)
                # Only leaves and views pass the memory of g on, and have to know; other nodes make new memory.
                matters = not self.batch and (isinstance(edge, Tensor) or edge.op.view is not None)
                self.accumulate(edge, fitted, matters and _is_owned(fitted, results, i, g, g_owned, node))
                if alone and node.op.is_part and r.shape != g.shape:  # the rule has made zeros around g
                    self.summed.add(edge)


def _after_hooks(holder: Node | Tensor, g: Tensor) -> Tensor:
    """The complete gradient g after the hooks have seen it; each hook may replace it for those that follow."""
    for hook in tuple(holder._hooks or ()):  # in the order of registration; a copy, since a hook may remove itself
        replaced = hook(g)
        g = g if replaced is None else replaced
    # A computed tensor with retain_grad() gets a copy, if it still lives. A view that was itself changed in place has
    # moved to a node of its base, so the gradient at its old node is no longer its own.
    tensor = holder.retained() if isinstance(holder, Node) and holder.retained is not None else None
    if tensor is not None and (tensor._base is None or tensor._tape_count >= 0):
        tensor._grad = g.clone() if tensor._grad is None else tensor.held_grad() + g
    return g


def _is_owned(fitted: Tensor, results: list[Tensor | None], i: int, g: Tensor, g_owned: bool, node: Node) -> bool:
    """Does `fitted`, made of the rule's result number i, have memory that no other tensor uses?

    A leaf keeps its gradient, and the user may change it in place, so it needs memory of its own. It has if the memory
    belongs neither to an argument of the rule (the sum passes its g on, a transposition is a view of g) nor to another
    of its results: then the rule made it. It also has if the memory is g's and g was made for this node alone.
    """
    others = [*results[:i], *results[i + 1 :], *node.saved.values(), *(() if g_owned else (g,))]
    others = [x for other in others for x in (other if isinstance(other, tuple) else (other,))]
    arrays = [getattr(x, "_data", x) for x in others if isinstance(x, (Tensor, np.ndarray))]
    return not any(np.may_share_memory(fitted._data, other) for other in arrays)


# --------------------------------------------------------------------------------------------------------- the walk


def backward_pass(
    outputs: Sequence[Tensor],
    gradients: Sequence[Tensor],
    retain_graph: bool,
    create_graph: bool,
    observer: Observer,
    useful: set[Node | Tensor] | None = None,
) -> None:
    """Send gradients from outputs to leaves, or only through `useful` nodes, if these are given (`between`).

    The youngest node comes first, which is the reverse of a topological order: a node is younger than its arguments.
    Without create_graph the rules run without a tape, which would keep all values that a gradient was computed from.
    Leaves come last, since any node that is left could send them more.
    """
    batch = any(isinstance(g._data, Meta) for g in gradients)
    accumulator = _Accumulator(useful, create_graph, batch, observer)
    with set_grad_enabled(create_graph):
        for y, g in zip(outputs, gradients, strict=True):
            accumulator.accumulate(y if y.node is None else y.node, g, False)
        while accumulator.heap:
            node = heappop(accumulator.heap)[1]
            g, owned = accumulator.complete(node)
            needs = tuple([e is not None and (useful is None or e in useful) for e in node.edges])
            if useful is not None and not any(needs):
                continue  # an input of grad(): no gradient below it is wanted
            if node.freed:
                raise RuntimeError(
                    f"backward: this part of the tape ({node.op.name}) was freed by an earlier backward(); "
                    "call that one with retain_graph=True to walk it twice"
                )
            accumulator.propagate(node, g, owned, needs)
            del g  # its memory can serve at the next node already
            for leaf in observer.completed_by(node) if observer.completed_by else ():
                if leaf in accumulator.sums:
                    accumulator.complete(leaf)
            if not retain_graph:
                node.free()
        while accumulator.leaves:
            if (leaf := accumulator.leaves.pop()) in accumulator.sums:
                accumulator.complete(leaf)

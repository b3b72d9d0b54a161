"""Walking the tape backwards: backward and grad.

Nodes are visited latest first: a node is younger than all it came from, so when the youngest one left is
taken, every gradient that flows into it has arrived. No recursion, each node once.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from heapq import heappop, heappush

import numpy as np

from tinytensor import ops
from tinytensor.creation import ones_like
from tinytensor.door import state
from tinytensor.recording import Lease
from tinytensor.tensor import Node, Tensor, enable_grad, no_grad, set_grad_enabled


def sum_to_shape(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """g summed over the dimensions along which a value of `shape` was broadcast."""
    if g.shape == shape:
        return g
    new = g.ndim - len(shape)
    stretched = [d + new for d, n in enumerate(shape) if n == 1 and g.shape[d + new] != 1]
    return ops.reshape(g.sum([*range(new), *stretched]), shape)


def _vjp(node: Node, g: Tensor, create_graph: bool) -> Sequence[Tensor | None]:
    """The gradients of a node's inputs, given the gradient g of its output."""
    op = node.op
    for what, version, count, read in node.versions:
        if version.count != count and (read or (create_graph and what == "an input")):
            raise RuntimeError(
                f"backward: {what} of {op.name} was changed in place after it was used, and its gradient needs the "
                "old values; change a clone() instead"
            )
    needs = tuple(edge is not None for edge in node.edges)
    if op.backward is not None and not create_graph:
        arrays = (a._data if isinstance(a, Tensor) else a for a in node.args)
        dense = g._data
        results = op.backward(needs, dense, node.out, *arrays, *node.saved)
        return [Tensor(r) if n and r is not None else None for r, n in zip(results, needs, strict=False)]
    if op.rules or op.grads:
        y = None
        if node.out is not None:
            y = Tensor(node.out)
            if create_graph:
                y.node, y.requires_grad = node, True
        saved = tuple(Tensor(s) for s in node.saved)
        if op.grads:
            return [r if n else None for r, n in zip(op.grads(g, y, *node.args, *saved), needs, strict=True)]
        return [
            op.rules[i](g, y, *node.args, *saved) if needed and i in op.rules else None
            for i, needed in enumerate(needs)
        ]
    # a fused operation: its definition in simpler ones carries the higher derivatives
    with enable_grad():
        # seen through a view made now, inputs are the oldest things that `grad` has to look at
        args = [ops.slice_(a if create_graph else a.detach().requires_grad_(), ...) if n else a
                for a, n in zip(node.args, needs, strict=True)]  # fmt: skip
        inputs = [a for a, n in zip(args, needs, strict=True) if n]
        y = op.definition(*args)
        found = iter(grad(y, inputs, g, create_graph=create_graph, allow_unused=True))
    return [next(found) if n else None for n in needs]


def _between(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> set[Node | Tensor]:
    """The nodes from which the inputs can be reached, and the inputs: only these need a gradient."""
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


def _walk(
    outputs: Sequence[Tensor],
    gradients: Sequence[Tensor],
    retain_graph: bool,
    create_graph: bool,
    leaf: Callable[[Tensor, Tensor], None],
    useful: set[Node | Tensor] | None = None,
    wanted: dict[Node, list[int]] | None = None,
    found: list | None = None,
) -> None:
    """Send gradients from outputs to leaves (only through `useful` nodes, if given); those `wanted` go to `found`."""
    pending: dict[Node | Tensor, Tensor] = {}
    heap: list[tuple[int, Node]] = []
    leaves: list[Tensor] = []

    def send(target: Node | Tensor, g: Tensor) -> None:
        if useful is not None and target not in useful:
            return
        if target in pending:
            pending[target] = pending[target] + g
            return
        pending[target] = g
        if isinstance(target, Node):
            heappush(heap, (-target.time, target))  # times are unique: nodes are never compared
        else:
            leaves.append(target)

    with set_grad_enabled(create_graph):
        for y, g in zip(outputs, gradients, strict=True):
            send(y if y.node is None else y.node, g)
        while heap:
            _, node = heappop(heap)
            g = _hooked(node, pending.pop(node))
            for i in (wanted or {}).get(node, ()):
                found[i] = g
            if useful is not None and not any(edge in useful for edge in node.edges if edge is not None):
                continue
            if node.args is None:
                raise RuntimeError(
                    f"backward: this part of the tape ({node.op.name}) was freed by an earlier backward(); "
                    "call that one with retain_graph=True to walk it twice"
                )
            results = _vjp(node, g, create_graph) if not state.anomaly else _watched_vjp(node, g, create_graph)
            for edge, r in zip(node.edges, results, strict=False):
                if edge is not None and r is not None:
                    r = sum_to_shape(r, edge.shape)
                    send(edge, r if r.dtype == edge.dtype else r.to(edge.dtype))
            del g, results
            if not retain_graph:
                node.free()
        while leaves:
            target = leaves.pop()
            leaf(target, _hooked(target, pending.pop(target)))


def _hooked(holder: Node | Tensor, g: Tensor) -> Tensor:
    """g after the hooks have seen it."""
    for hook in holder._hooks or ():
        replaced = hook(g)
        g = g if replaced is None else replaced
    if isinstance(holder, Node) and holder.retained is not None:
        tensor = holder.retained()
        if tensor is not None:
            tensor._grad = g.clone()
    return g


def _watched_vjp(node: Node, g: Tensor, create_graph: bool) -> Sequence[Tensor | None]:
    """The gradients of a node's inputs; raises where the first NaN or inf arises."""
    try:
        results = _vjp(node, g, create_graph)
    except FloatingPointError as error:
        raise FloatingPointError(f"backward of {node.op.name}: {error}") from None
    for position, r in enumerate(results):
        if r is not None and r.dtype.kind == "f" and np.isfinite(g._data).all() and not np.isfinite(r._data).all():
            name = node.op.params[min(position, len(node.op.params) - 1)]
            raise FloatingPointError(
                f"backward of {node.op.name}: the first {'NaN' if np.isnan(r._data).any() else 'inf'} arose in the "
                f"gradient of {name}, of shape {r.shape}"
            )
    return results


# how many references Python counts for a second argument that only the called function knows
ALONE = (lambda leaf, g: sys.getrefcount(g))(None, object())


def _accumulate(create_graph: bool) -> Callable[[Tensor, Tensor], None]:
    def into(leaf: Tensor, g: Tensor) -> None:
        old = leaf.grad
        if old is None:
            # an array that looks at no other's memory is ours alone if nothing else refers to it: no copy is needed
            whole = g._data.base is None or isinstance(g._data.base, Lease)
            mine = whole and sys.getrefcount(g._data) == 2 and sys.getrefcount(g) == ALONE
            leaf.grad = g.clone() if create_graph else Tensor(g._data) if mine else g.detach().clone()
        elif create_graph:
            leaf.grad = old + g
        else:
            with no_grad():
                old.add_(g)

    return into


def _seed(y: Tensor, gradient: Tensor | None, what: str) -> Tensor:
    if not y.requires_grad:
        raise RuntimeError(
            f"{what}: this tensor does not require grad: nothing that it was computed from does (or no_grad() was on)"
        )
    if gradient is None:
        if y.numel() != 1:
            raise RuntimeError(
                f"{what}() starts from one number, but this tensor has shape {y.shape}: call .sum() or .mean() first, "
                "or give the gradient to start from"
            )
        return ones_like(y)
    if gradient.shape != y.shape:
        raise RuntimeError(f"{what}: the gradient has shape {gradient.shape}, but the tensor has shape {y.shape}")
    return gradient.to(y.dtype)


def backward(
    self: Tensor, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """Add the derivative of this number to `.grad` of every leaf it was computed from.

    `gradient` is where to start from if this is not one number. The tape is freed as it is walked unless
    `retain_graph`; with `create_graph` the gradients are on the tape themselves.
    """
    retain = create_graph if retain_graph is None else retain_graph
    seed = _seed(self, gradient, "backward")
    _walk([self], [seed], retain, create_graph, _accumulate(create_graph))


Tensor.backward = backward


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """The derivatives of outputs by inputs, returned instead of added to `.grad`.

    Inputs may be leaves or computed tensors. An input that the outputs do not depend on raises, unless
    `allow_unused`: then its gradient is None.
    """
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    starts = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
    starts = [None] * len(outputs) if starts is None else list(starts)
    if any(not x.requires_grad for x in inputs):
        raise RuntimeError("grad: an input does not require grad; call requires_grad_() before it is used")
    seeds = [_seed(y, g, "grad") for y, g in zip(outputs, starts, strict=True)]
    found: list[Tensor | None] = [None] * len(inputs)
    wanted: dict[Node, list[int]] = {}
    for i, x in enumerate(inputs):
        if x.node is not None:
            wanted.setdefault(x.node, []).append(i)
    by_leaf: dict[int, list[int]] = {}
    for i, x in enumerate(inputs):
        if x.node is None:
            by_leaf.setdefault(id(x), []).append(i)

    def keep(leaf: Tensor, g: Tensor) -> None:
        for i in by_leaf.get(id(leaf), ()):
            found[i] = g

    retain = create_graph if retain_graph is None else retain_graph
    _walk(outputs, seeds, retain, create_graph, keep, _between(outputs, inputs), wanted, found)
    if not allow_unused and any(g is None for g in found):
        unused = [i for i, g in enumerate(found) if g is None]
        raise RuntimeError(
            f"grad: the outputs do not depend on the inputs number {unused}; allow_unused=True gives None"
        )
    return tuple(found)


class detect_anomaly(ContextDecorator):
    """Name the operation in which the first NaN or inf arises, forward or backward (slow: for finding a fault)."""

    def __init__(self):
        self.before = []  # a decorated function may call itself

    def __enter__(self):
        self.before.append(state.anomaly)
        state.anomaly = True
        return self

    def __exit__(self, *exc):
        state.anomaly = self.before.pop()
        return False


class set_detect_anomaly:
    """Switch the search for the first NaN or inf on or off, at once (a function, or a context that ends it)."""

    def __init__(self, mode: bool):
        self.before = state.anomaly
        state.anomaly = bool(mode)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        state.anomaly = self.before
        return False

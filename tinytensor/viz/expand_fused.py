"""A backward pass with each fused operation replaced by its definition in simpler ones."""

from tinytensor.core.modes import enable_grad
from tinytensor.core.tensor import Tensor
from tinytensor.viz.capture import watch
from tinytensor.viz.record import BackwardTrace, Step, Value
from tinytensor.viz.trace import look


def definition(step: Step) -> BackwardTrace | None:
    """A fused operation in simpler ones: its definition, computed and walked from the gradient that arrived.

    This is another way to its gradients (`Op` takes it for higher derivatives): equal up to rounding. None if
    there is no definition, or if no gradient arrived. The leaves of the returned pass are the operation's arguments.
    """
    op = step.op
    if getattr(op, "definition", None) is None or step.gradient is None:
        return None
    args_kept = [step.node.saved[name] for name in op.params]
    flat = [a for a, slot in zip(args_kept, op.arg_slices) for a in (a if slot.stop is None else (a,))]
    needs = [edge is not None for edge in step.node.edges]
    with enable_grad(), watch():
        args = [a.detach().requires_grad_() if n else a for a, n in zip(flat, needs)]
        y = op.definition(*args)
    inner = {a.name: arg for a, arg, n in zip(step.arguments, args, needs) if n}
    return look(y, inner, Tensor.of(step.gradient.copy()), "unfold") if y.requires_grad else None


def expanded(seen: BackwardTrace) -> BackwardTrace:
    """The same backward pass, with each fused operation replaced by its definition."""
    steps: list[Step] = []
    stands_for: dict[Value, Value] = {}  # a fused operation: the result of its definition
    for step in seen.steps:
        inner = definition(step)
        if inner is None or not isinstance(inner.result, Step):
            steps.append(step)
            continue
        sources = {a.name: a.source for a in step.arguments if a.source is not None}
        outer = {leaf: sources[leaf.name] for leaf in inner.leaves}
        for part in inner.steps:
            part.part_of, part.group = step, step.group
            part.name = part.name.replace("#", f"#{step.number}.")
            for a in part.arguments:
                if a.source in outer:
                    a.source = outer[a.source]
            for share in part.sends:
                share.target = outer.get(share.target, share.target)
        inner.result.seed, inner.result.shares, inner.result.name = step.seed, step.shares, step.name
        inner.result.value = step.value if inner.result.value is None else inner.result.value
        for share in step.shares:
            share.target = inner.result
        stands_for[step] = inner.result
        for source in dict.fromkeys(outer.values()):
            mine = [share for part in inner.steps for share in part.sends if share.target is source]
            first = [share.sender for share in source.shares].index(step) if mine and source.shares else 0
            source.shares = [share for share in source.shares if share.sender is not step]
            source.shares[first:first] = mine
        steps += inner.steps
    for step in steps:
        for a in step.arguments:
            a.source = stands_for.get(a.source, a.source)
            a.called = a.called if a.source is None else a.source.name
    for value in (*steps, *seen.leaves):
        value.consumers = [step for step in steps if any(a.source is value for a in step.arguments)]
    return BackwardTrace(stands_for.get(seen.result, seen.result), steps, seen.leaves)

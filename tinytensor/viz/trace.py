"""`look(loss)`: watch one backward pass, and record it (record.py): visits, gradients, and the rules that ran.

It lets the tape walk as `backward()` does and records what the walk reports (`walk` in core/tape.py):
each share of a gradient when it leaves a node, and each gradient when it is complete. No gradient is computed here; a
wrong rule is shown with its wrong numbers.

Afterwards the tape is as it was: nothing is freed, and `.grad` of every tensor is unchanged. Hooks run, since they may
replace a gradient; they run once more when `backward()` is called.

The tape keeps only the values that its rules read. To see all of them, watch the forward pass, too:

    with watch():
        loss = F.cross_entropy(model(x), target)
    print(explain(loss, model))
"""

import inspect
import textwrap
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import numpy as np

from tinytensor.autograd.seed import seed_of
from tinytensor.core.op import Node
from tinytensor.core.rule_arguments import parameter_names
from tinytensor.core.tape import Observer, backward_pass
from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.viz.capture import array_of, captured
from tinytensor.viz.groups import group, paths_of
from tinytensor.viz.record import UNKNOWN, Argument, BackwardTrace, Leaf, Rule, Share, Step

# --- Looking


def look(
    loss: Tensor,
    names: Module | Mapping[str, object] | None = None,
    gradient: Tensor | None = None,
    what: str = "explain",
) -> BackwardTrace:
    """Walk the tape from `loss` as `backward()` does, and record it; nothing is changed.

    `names` is a Module, whose parameters have names, or a dictionary of names to tensors and Modules (other values are
    skipped, so that `vars()` works). `gradient` is the gradient to start from if `loss` is not one number.
    """
    if not isinstance(loss, Tensor):
        raise TypeError(f"{what}: expected the tensor whose backward() would be called, got {type(loss).__name__}")
    loss._values(what)  # refused in a compiled step, and where there are no values
    seed = seed_of(loss, gradient, what)
    nodes = _nodes(loss, what)
    kept = _kept_gradients(nodes)
    try:
        return _walk(loss, seed, nodes, named(names, what), paths_of(names))
    finally:
        for restore in kept:
            restore()


def _nodes(loss: Tensor, what: str) -> list[Node]:
    """All nodes that lead to this tensor, the oldest first."""
    nodes, todo = set(), [loss.node]
    while todo:
        node = todo.pop()
        if isinstance(node, Node) and node not in nodes:
            if node.freed:
                raise RuntimeError(
                    f"{what}: this part of the tape ({node.op.name}) was freed by an earlier backward(), and there is "
                    f"nothing to show; call {what}() before backward(), or backward(retain_graph=True)"
                )
            nodes.add(node)
            todo.extend(node.edges)
    return sorted(nodes, key=lambda node: node.generation)


def _kept_gradients(nodes: list[Node]) -> list[Callable[[], None]]:
    """The state to restore after the walk: the gradients of tensors that asked for them by retain_grad()."""
    restore = []
    for node in nodes:
        tensor = node.retained() if node.retained is not None else None
        if tensor is not None:
            restore.append(lambda tensor=tensor, grad=tensor._grad: setattr(tensor, "_grad", grad))
        if hasattr(node, "arrived"):  # a Function of several results notes which of them have a gradient
            restore.append(lambda node=node, arrived=set(node.arrived): node.arrived.intersection_update(arrived))
    return restore


def named(names: Module | Mapping[str, object] | None, what: str) -> dict[Node | Tensor, str]:
    """The names of the targets of gradients; if a tensor has two names, the first counts."""
    if names is not None and not isinstance(names, Module | Mapping):
        raise TypeError(f"{what}: names must be a Module or a dict of names to tensors, got {type(names).__name__}")
    names_by_value: dict[Node | Tensor, str] = {}
    for name, value in {"": names}.items() if isinstance(names, Module) else (names or {}).items():
        if isinstance(value, Module):
            for inner, p in value.named_parameters():
                names_by_value.setdefault(p, f"{name}.{inner}" if name else inner)
        elif isinstance(value, Tensor):
            names_by_value.setdefault(value if value.node is None else value.node, name)
            names_by_value.setdefault(value, name)
    return names_by_value


def _walk(
    loss: Tensor, seed: Tensor, nodes: list[Node], names: dict[Node | Tensor, str], paths: dict[Module, str]
) -> BackwardTrace:
    steps = {node: _step(node, number, names) for number, node in enumerate(nodes, 1)}
    values: dict[Node | Tensor, Step | Leaf] = dict(steps)
    for node, step in steps.items():
        for i, edge in enumerate(node.edges):
            if isinstance(edge, Tensor) and edge not in values:
                values[edge] = _leaf(edge, names, len(values) - len(steps) + 1)
            source = None if edge is None else values[edge]
            operand, value = _given(node, i)
            label = names.get(operand, "") if isinstance(operand, Tensor) else ""
            called = source.name if source is not None else label
            step.arguments.append(Argument(_parameter(node.op, i), source, value, called))
            if source is not None and step not in source.consumers[-1:]:
                source.consumers.append(step)
    if loss.node is None and loss not in values:
        values[loss] = _leaf(loss, names, 1)
    for target in names:  # a tensor with a name has its value at hand
        if isinstance(target, Tensor) and target.node in steps:
            steps[target.node].value = target._data.copy()
    group(list(steps.values()), [p for p in values.values() if isinstance(p, Leaf)], paths, set(names.values()))
    for step in steps.values():
        for argument in step.arguments:
            if argument.source is not None:
                argument.called = argument.source.name
    for step in steps.values():  # an argument that a reader has kept is the value of its source
        for argument in step.arguments:
            if argument.source is not None and argument.source.value is None and isinstance(argument.value, np.ndarray):
                argument.source.value = argument.value
    result = values[loss if loss.node is None else loss.node]
    result.value, result.seed = loss._data.copy(), seed._data.copy()

    turns = count(1)
    waiting = {result} if isinstance(result, Step) else set()

    def on_gradient(target: Node | Tensor, g: Tensor, owned: bool) -> None:
        target_value = values[target]
        target_value.gradient = g._data.copy()
        if isinstance(target_value, Step):
            waiting.discard(target_value)
            target_value.turn = next(turns)
            target_value.waiting = sorted(waiting, key=lambda step: -step.number)
            target_value.road, target_value.rules = _rules(target)

    def on_edge(node: Node, i: int, r: Tensor, g: Tensor) -> None:
        target, sender = values[node.edges[i]], steps[node]
        share = Share(sender, i, _parameter(node.op, i), target, r._data.copy(), g._data.copy())
        sender.sends.append(share)
        target.shares.append(share)
        if isinstance(target, Step):
            waiting.add(target)

    backward_pass([loss], [seed], True, False, Observer(on_gradient, on_edge))
    return BackwardTrace(result, list(steps.values()), [p for p in values.values() if isinstance(p, Leaf)])


def _step(node: Node, number: int, names: dict[Node | Tensor, str]) -> Step:
    value = captured[node].y if node in captured else node.saved.get("y")
    step = Step(names.get(node, f"#{number}"), node.shape, node.dtype, value)
    step.node, step.number, step.named, step.hooks = node, number, node in names, len(node._hooks or ())
    return step


def _leaf(tensor: Tensor, names: dict[Node | Tensor, str], number: int) -> Leaf:
    leaf = Leaf(names.get(tensor, f"leaf {number}"), tensor.shape, tensor.dtype, tensor._data.copy())
    leaf.tensor, leaf.hooks = tensor, len(tensor._hooks or ())
    grad = tensor.held_grad()
    leaf.before = None if grad is None else grad._data.copy()
    return leaf


def _parameter(op, i: int) -> str:
    """The name of argument i of an operation; the arguments of `*xs` are xs[0], xs[1] ..."""
    for name, slot in zip(op.params, getattr(op, "arg_slices", ()), strict=False):
        if slot.start <= i and (slot.stop is None or i < slot.stop):
            return name if slot.stop is not None else f"{name}[{i - slot.start}]"
    return f"{op.params[-1]} {i}"


def _given(node: Node, i: int) -> tuple[object, object]:
    """Argument i, if it was watched or kept for the rules: the object, and its value at that time."""
    if node in captured:
        return captured[node].args[i], captured[node].values[i]
    name, _, number = _parameter(node.op, i).partition("[")
    value = node.saved.get(name, UNKNOWN)
    if number and value is not UNKNOWN:
        value = value[int(number[:-1])]
    return value, array_of(value)


# --- Rules


def _rules(node: Node) -> tuple[str, list[Rule]]:
    """The engine's way to a gradient at this node (`_gradients` in tape.py), and the functions that it calls."""
    op = node.op
    if hasattr(node, "function"):
        return "the backward of a Function", [rule_of(node.function.backward)]
    if op.backward is not None:
        return "on arrays, for all arguments together", [rule_of(op.backward, node, op.gradient)]
    if not op.rules:
        return "through its definition in simpler operations", [rule_of(op.definition, node)]
    needs = [edge is not None for edge in node.edges]
    asked_for = [rule for i, rule in op.rules.items() if any(needs[op.arg_slices[i]])]
    return "one for each argument", [rule_of(rule, node) for rule in asked_for]


def rule_of(function: Callable, node: Node | None = None, formulas: tuple[str, ...] = ()) -> Rule:
    """A rule as it is shown, with the values that it reads at a node."""
    kept = {} if node is None else node.saved
    reads = {name: array_of(kept[name]) for name in parameter_names(function) if name in kept} if kept else {}
    try:
        lines, first = inspect.getsourcelines(function)
        file = Path(inspect.getsourcefile(function) or "")
    except (OSError, TypeError):
        return Rule(function.__name__, "", "", reads, formulas)
    here = Path(__file__).parents[2]
    where = file.relative_to(here).as_posix() if file.is_relative_to(here) else file.name
    return Rule(function.__name__, textwrap.dedent("".join(lines)).rstrip(), f"{where}:{first}", reads, formulas)

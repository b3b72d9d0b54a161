"""The parts of a graph: the calls of modules, with the names inside them, and the views that a picture leaves out.

A pass that ran inside `watch()` knows the modules that each operation was a part of. The operations of one call stand
next to each other by age, so a call can be drawn as one box, and the graph stays without a circle. A module that
computes a single operation is no part of its own: it gives the operation its name.

A view (a transposition, a slice) computes nothing. A picture shows it as a mark on the line from the value that is
viewed, its base, to the operation that reads it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tinytensor.nn.module import Module, Parameter
from tinytensor.viz.capture import captured
from tinytensor.viz.record import BackwardTrace, Group, Leaf, Share, Step, Value, chain

SMALL = "₀₁₂₃₄₅₆₇₈₉"


def numbered(name: str, count: int) -> str:
    """The name, or from the second time on the name with a small number: x, x₂, x₃."""
    return name if count == 1 else name + "".join(SMALL[int(digit)] for digit in str(count))


def local(name: str, group: Group | None) -> str:
    """A name as it is written inside a group: without the path that the group has anyway.

    A number alone, the name of a module in a Sequential, would read as a number: it keeps the name before it.
    """
    for around in chain(group):
        for path in (around.path, around.module):
            if name.startswith(f"{path}."):
                short = name[len(path) + 1 :]
                return f"{path.rpartition('.')[2]}.{short}" if short[0].isdigit() else short
    return name


def paths_of(names: Module | Mapping[str, object] | None) -> dict[Module, str]:
    """The paths of the modules in a dictionary of names, as `named_parameters` has them."""
    paths: dict[Module, str] = {}
    for name, value in {"": names}.items() if isinstance(names, Module) else (names or {}).items():
        if isinstance(value, Module):
            for path, module in value.named_modules(prefix=name):
                paths.setdefault(module, path)
    return paths


def group(steps: list[Step], leaves: list[Leaf], paths: dict[Module, str], taken: set[str]) -> None:
    """Put each step into the group of the call that it was a part of, and name it; `taken` are the user's names."""
    groups = _runs(steps, paths)
    named_by_module: dict[Step, str] = {}
    for one in reversed(groups):  # what is inside comes before what is around it
        _dissolve(one, [g for g in groups if g.parent is one], groups, named_by_module)
    variables = {step: captured[step.node].variable for step in steps if step.node in captured}
    for step in steps:  # a view of a result that has no name: it is the result's
        if variables.get(step) and is_view(step):
            viewed = base(step)
            if viewed in variables and viewed.group is step.group and viewed not in named_by_module:
                variables[viewed] = variables[viewed] or variables.pop(step)
    times = Counter(taken)
    for step in steps:
        if step.name not in taken:
            variable = variables.get(step, "")
            name = named_by_module.get(step) or (f"{step.group.path}.{variable}" if step.group else variable)
            if name and (variable or step in named_by_module):
                times[name] += 1
                step.name = numbered(name, times[name])
    for one in groups:  # what a module returns is its output, if it has no other name
        inside = [step for step in steps if one in chain(step.group) and not is_view(step)]
        if inside[-1].group is one and inside[-1].name.startswith("#"):
            inside[-1].name = f"{one.path}.output"
    for leaf in leaves:  # a parameter stands where it is used
        if isinstance(leaf.tensor, Parameter):
            around = [chain(reader.group) for reader in leaf.consumers]
            common = [g for g in around[0] if all(g in other for other in around)] if around else []
            leaf.group = common[0] if common else None


def _runs(steps: list[Step], paths: dict[Module, str]) -> list[Group]:
    """A group for each row of operations, one after the other by age, that were computed by the same calls."""
    groups: list[Group] = []
    stack: list[tuple[Module, Group]] = []
    times: Counter = Counter()
    for step in steps:
        modules = captured[step.node].modules if step.node in captured else ()
        same = 0
        while same < min(len(stack), len(modules)) and stack[same][0] is modules[same]:
            same += 1
        del stack[same:]
        for module in modules[same:]:
            outer = stack[-1] if stack else None
            path = paths.get(module)
            path = _path(module, outer) if path is None else path
            times[path] += 1
            stack.append((module, Group(numbered(path, times[path]), path, outer[1] if outer else None)))
            groups.append(stack[-1][1])
        step.group = stack[-1][1] if stack else None
        if step.group is not None:
            step.group.steps.append(step)
    return groups


def _path(module: Module, outer: tuple[Module, Group] | None) -> str:
    """The path of a module that the user has not named."""
    if outer is None:
        return type(module).__name__
    inside = next((path for path, inner in outer[0].named_modules() if inner is module), type(module).__name__)
    return f"{outer[1].module}.{inside}" if outer[1].module else inside


def _dissolve(one: Group, inside: list[Group], groups: list[Group], names: dict[Step, str]) -> None:
    """Leave a group out that is the whole model, or holds a single operation or a single group."""
    work = [step for step in one.steps if not is_view(step)]
    if one.path and len(work) + len(inside) > 1:
        return
    if one.path and len(work) == 1:
        names[work[0]] = f"layer{one.path}" if one.path.isdigit() else one.path
    groups.remove(one)
    for part in (*inside, *one.steps):
        if isinstance(part, Group):
            part.parent = one.parent
        else:
            part.group = one.parent
    if one.parent is not None:
        one.parent.steps += one.steps


# --- Views


def is_view(value: Value) -> bool:
    """Does it only look at another value in another shape or order?"""
    return getattr(getattr(getattr(value, "node", None), "op", None), "view", None) is not None


def word_for(value: Value) -> str:
    """A value by its name; a view without a name of its own (or with its base's: Q₂ of Q) by its base's."""
    while is_view(value) and not value.named and (value.name.startswith("#") or value.name[-1] in SMALL):
        value = next(a.source for a in value.arguments if a.source is not None)
    return value.name


@dataclass(frozen=True, eq=False)
class Use:
    """A line of a picture: a value, the operation that reads it, and the views on the way, the nearest one first."""

    source: Value
    step: Step
    position: int  # which argument
    through: tuple[Step, ...]
    share: Share | None  # the gradient that comes back to the source

    @property
    def mark(self) -> str:
        """The view on the way, or how many there are; with the name that the operation reads, if they have one."""
        if not self.through:
            return ""
        words = self.words if len(self.through) == 1 else f"{len(self.through)} views"
        name = word_for(self.through[0])
        return words if name == self.source.name else f"{local(name, self.step.group)}: {words}"

    @property
    def words(self) -> str:
        """The names of the views, in the order in which the data pass them."""
        return ", ".join(view.op.name.removesuffix("_view") for view in reversed(self.through))


def base(value: Value, hidden: Callable[[Value], bool] = is_view) -> Value:
    """The value that a view looks at, through all views between."""
    while hidden(value):
        value = next(a.source for a in value.arguments if a.source is not None)
    return value


def uses(seen: BackwardTrace, hidden: Callable[[Value], bool]) -> Iterator[Use]:
    """The lines between the values that are not hidden."""
    shares = {(share.sender, share.position): share for step in seen.steps for share in step.sends}
    for step in seen.steps:
        if hidden(step):
            continue
        for i, a in enumerate(step.arguments):
            if a.source is None:
                continue
            source, sender, position, through = a.source, step, i, []
            while hidden(source):
                through.append(source)
                sender = source
                position = next(j for j, b in enumerate(source.arguments) if b.source is not None)
                source = source.arguments[position].source
            yield Use(source, step, i, tuple(through), shares.get((sender, position)))

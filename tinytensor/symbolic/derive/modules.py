"""A Module as a function of its inputs and its parameters, so that `derive` gives the gradient of each of them."""

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tinytensor.core.dispatch import state
from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.symbolic.derive.arguments import Index
from tinytensor.symbolic.reading.errors import NotDerivable


def as_function(module: Module, user_arguments: dict[str, object]) -> tuple[Callable, dict[str, object], list[str]]:
    """The module as a function, its arguments, and what is assumed about its sizes.

    A parameter is an argument under its own name, dots as underscores, p0_weight for "0.weight".
    Its sizes are numbers, unless the user names one: in X=("N", "D=16") each size 16 of the module is called D.
    """
    named: dict[int, str] = {}
    inputs = {name: _without_numbers(value, named) for name, value in user_arguments.items()}
    names = {name: re.sub(r"^(?=\d)", "p", name.replace(".", "_")) for name, _ in module.named_parameters()}
    if clash := [n for n in names.values() if n in inputs]:
        raise ValueError(f"derive: {clash[0]} is an input of the module and a parameter of it; rename the input")
    shapes = {names[name]: tuple(p.shape) for name, p in module.named_parameters()}
    arguments = {n: tuple(named.get(size, size) for size in shape) for n, shape in shapes.items()}

    hooked = [n for n, p in module.named_parameters() if p._hooks or p._post_accumulate_grad_hooks]
    if hooked:
        raise NotDerivable(f"derive: {hooked[0]} has a gradient hook, which no formula has; remove it")

    def run(**values):
        parameters = {id(p): values.pop(names[name]) for name, p in module.named_parameters()}
        pairs = [pair for p in module.parameters() for pair in zip(p.shape, parameters[id(p)].shape)]
        changed = {old: new for old, new in pairs if old in named}
        if state.reading is not None:  # the module itself is read, so that its changes are seen
            with _in_place_of_parameters(module, parameters), _other_sizes(module, changed):
                return _call(module, values)
        made = copy.deepcopy(module, parameters)
        with _other_sizes(made, changed):
            return _call(made, values)

    run.__name__ = type(module).__name__
    run.forward = module.forward  # whose file is the user's
    return run, inputs | arguments, _notes(shapes.values(), named)


def _notes(shapes: Iterable[tuple[int, ...]], named: dict[int, str]) -> list[str]:
    """What is assumed about the sizes of a module."""
    notes = [f"each {number} of the module is {name}" for number, name in named.items()]
    numbers = sorted({size for shape in shapes for size in shape} - set(named))
    if numbers:
        notes.append(f"the module's sizes {', '.join(map(str, numbers))} are these numbers")
    return notes


def _without_numbers(value, named: dict[int, str]):
    """The sizes of an input, "D=16" as "D", which is noted."""
    if isinstance(value, Index):
        return Index(_without_numbers(value.shape, named), _size(value.below, named))
    return tuple(_size(n, named) for n in value) if isinstance(value, tuple | list) else value


def _size(size, named: dict[int, str]):
    if not isinstance(size, str) or "=" not in size:
        return size
    name, _, number = size.partition("=")
    if not number.strip().isdigit() or named.setdefault(int(number), name.strip()) != name.strip():
        raise ValueError(f'derive: the size {size!r}: expected a name and a number of the module, each once: "D=16"')
    return name.strip()


def _call(module: Module, inputs: dict[str, Tensor]):
    try:
        inspect.signature(module.forward).bind(**inputs)
    except TypeError:  # such as *inputs of a Sequential
        return module(*inputs.values())
    return module(**inputs)


@contextmanager
def _in_place_of_parameters(module: Module, values: dict[int, Tensor]) -> Iterator[None]:
    """Inside, each parameter is a tensor of the reading, whatever holds it: a tied module, a list, a closure."""
    before = [(p, p.__class__, p._data) for p in module.parameters()]
    try:
        for p, *_ in before:
            p.__class__, p._data = values[id(p)].__class__, values[id(p)]._data
        yield
    finally:
        for p, cls, data in before:
            p.__class__, p._data = cls, data


@contextmanager
def _other_sizes(module: Module, sizes: dict[int, int]) -> Iterator[None]:
    """Inside, a module has other sizes wherever it keeps them as attributes."""
    before = []
    for part in module.modules():
        for name, value in vars(part).items():
            if isinstance(value, int) and not isinstance(value, bool) and value in sizes:
                before.append((part.__dict__, name, value, sizes[value]))
            elif isinstance(value, tuple) and any(isinstance(n, int) and n in sizes for n in value):
                changed = tuple(sizes.get(n, n) if isinstance(n, int) else n for n in value)
                before.append((part.__dict__, name, value, changed))
    try:
        for attributes, name, _, changed in before:
            attributes[name] = changed
        yield
    finally:
        for attributes, name, value, _ in before:
            attributes[name] = value

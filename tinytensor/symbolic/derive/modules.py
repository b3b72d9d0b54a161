"""A Module as a function of its inputs and its parameters, so that `derive` gives the gradient of each of them."""

import copy
import inspect
import re
from collections.abc import Callable

from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.symbolic.derive.arguments import Index


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

    def run(**values):
        own = {n: values.pop(n) for n in shapes}
        made = copy.deepcopy(module)
        changed = {old: new for n, shape in shapes.items() for old, new in zip(shape, own[n].shape) if old in named}
        _put(made, {id(p): own[names[name]] for name, p in made.named_parameters()}, changed)
        try:
            inspect.signature(module.forward).bind(**values)
        except TypeError:  # such as *inputs of a Sequential
            return made(*values.values())
        return made(**values)

    run.__name__ = type(module).__name__
    run.forward = module.forward  # whose file is the user's
    numbers = sorted({size for shape in shapes.values() for size in shape} - set(named))
    notes = [f"each {number} of the module is {name}" for number, name in named.items()]
    if numbers:
        notes.append(f"the module's sizes {', '.join(map(str, numbers))} are these numbers")
    return run, inputs | arguments, notes


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


def _put(made: Module, values: dict[int, Tensor], sizes: dict[int, int]) -> None:
    """Give a copy of a module other parameters, and other sizes wherever it keeps them as attributes."""
    for part in made.modules():
        part._parameters.update({n: values[id(p)] for n, p in part._parameters.items() if p is not None})
        for name, value in vars(part).items():
            if isinstance(value, int) and not isinstance(value, bool) and value in sizes:
                part.__dict__[name] = sizes[value]
            elif isinstance(value, tuple) and any(isinstance(n, int) and n in sizes for n in value):
                part.__dict__[name] = tuple(sizes.get(n, n) if isinstance(n, int) else n for n in value)

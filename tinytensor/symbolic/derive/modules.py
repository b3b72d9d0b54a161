"""A Module as a function of its inputs and its parameters, so that `derive` gives the gradient of each of them."""

import copy
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tinytensor.core.dispatch import state
from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.symbolic.reading.errors import NotDerivable


def as_function(module: Module, inputs: dict[str, object]) -> tuple[Callable, dict[str, object], list[str]]:
    """The module as a function, its arguments, and what is assumed about its sizes, which are numbers.

    A parameter is an argument under its own name, dots as underscores, p0_weight for "0.weight".
    """
    names = {name: re.sub(r"^(?=\d)", "p", name.replace(".", "_")) for name, _ in module.named_parameters()}
    if clash := [n for n in names.values() if n in inputs]:
        raise ValueError(f"derive: {clash[0]} is an input of the module and a parameter of it; rename the input")
    shapes = {names[name]: tuple(p.shape) for name, p in module.named_parameters()}
    hooked = [n for n, p in module.named_parameters() if p._hooks or p._post_accumulate_grad_hooks]
    if hooked:
        raise NotDerivable(f"derive: {hooked[0]} has a gradient hook, which no formula has; remove it")

    def run(**values):
        parameters = {id(p): values.pop(names[name]) for name, p in module.named_parameters()}
        if state.reading is None:
            return _call(copy.deepcopy(module, parameters), values)
        with _in_place_of_parameters(module, parameters):  # the module itself is read, so that its changes are seen
            return _call(module, values)

    run.__name__ = type(module).__name__
    run.forward = module.forward  # whose file is the user's
    sizes = ", ".join(map(str, sorted({size for shape in shapes.values() for size in shape})))
    return run, inputs | shapes, [f"the module's sizes {sizes} are these numbers"]


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

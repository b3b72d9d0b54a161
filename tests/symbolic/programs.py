"""Programs as rows of a table: those of a class, by name; an annotation says the sizes of an argument."""

from collections.abc import Callable
from functools import cache, partial
from types import FunctionType, MappingProxyType

from tinytensor.autograd import Function
from tinytensor.symbolic import derive


def functions_of(space: type) -> dict[str, FunctionType]:
    """The functions of a class, by name."""
    return {name: value for name, value in vars(space).items() if isinstance(value, FunctionType)}


def programs(space: type, arguments: dict | None = None, *where) -> dict[str, tuple]:
    """The functions of a class with their arguments, by name, and what is known where they are called."""
    return {name: (fn, arguments or fn.__annotations__, *where) for name, fn in functions_of(space).items()}


def with_backward(forward: Callable, backward: Callable) -> type[Function]:
    return type("Mine", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def call(fn: Callable, arguments: dict, where=(), options: dict = MappingProxyType({})) -> Callable:
    """The derivation that a row says, as a function without arguments."""
    return partial(derive, fn, **{"where": where} | options | arguments)


def derivations(table: dict[str, tuple]) -> Callable:
    """From the name of a row to its derivation, which is made once."""
    return cache(lambda name: call(*table[name])())

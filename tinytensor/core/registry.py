"""The registry of public names: `@register` gives the names of an operation where the operation is declared."""

from collections.abc import Callable
from typing import Any

from tinytensor.core import late_bound
from tinytensor.core.kernel import is_ours

OPS: dict[str, Any] = {}  # all operations of the engine, by name
REGISTRY: dict[str, Callable] = {}  # by public name: "Tensor.tanh", "tanh", "F.tanh", "nn.Tanh"


class Docstring(str):
    """The docstring of a public function; it is completed when it is first read.

    `inspect.getdoc`, which help() and notebooks call, begins with `expandtabs`, so the docstring is completed there:
    shapes, rule and definition are read from the source.
    """

    __slots__ = ("function",)

    def expandtabs(self, tabsize: int = 8) -> str:
        return late_bound.documentation(self.function, str.__str__(self)).expandtabs(tabsize)


def _documented(function: Callable) -> None:
    if function.__doc__ and not isinstance(function, property):
        said = Docstring(function.__doc__)
        said.function, function.__doc__ = function, said


def register(names: str) -> Callable:
    """Register an operation or a function of tensors under its public names: `@register("relu Tensor.relu nn.ReLU")`.

    A name alone is a function of the package, tinytensor.relu. `Tensor.relu` is a method, `Tensor.relu_` one that
    changes the tensor in place, `Tensor.__add__`, `__radd__` and `__iadd__` are the operator +, with a number on the
    left, and +=. `F.relu` stands in nn.functional, and `nn.ReLU` is a module without parameters, whose arguments are
    those of the function that have default values. The modules that hold these names read REGISTRY.
    """

    def note(function: Callable | property) -> Callable | property:
        for name in names.split() if is_ours(getattr(function, "fget", function)) else ():
            if name in REGISTRY:
                raise ValueError(f"{name} is taken by {REGISTRY[name]}")
            REGISTRY[name] = function
        _documented(function)
        return function

    return note

"""The registry of public names: `@appears` states the names of an operation where the operation is declared."""

from collections.abc import Callable

from tinytensor.core import provided
from tinytensor.runtime.entry_points import is_ours

APPEARANCES: dict[str, Callable] = {}  # by public name: "Tensor.tanh", "tanh", "F.tanh", "nn.Tanh"


class Docstring(str):
    """The docstring of a public function; it is completed when it is first read.

    `inspect.getdoc`, which help() and notebooks call, begins with `expandtabs`, so the docstring is completed there.
    Shapes, rule and definition are then read from the source; at every import that would take longer than the import.
    """

    __slots__ = ("function",)

    def expandtabs(self, tabsize: int = 8) -> str:
        return provided.documentation(self.function, str.__str__(self)).expandtabs(tabsize)


def _documented(function: Callable) -> None:
    if function.__doc__ and not isinstance(function, property):
        said = Docstring(function.__doc__)
        said.function, function.__doc__ = function, said


def appears(places: str) -> Callable:
    """State the public names of an operation or a function of tensors: `@appears("relu Tensor.relu nn.ReLU")`.

    A name alone is a function of the package, tinytensor.relu. `Tensor.relu` is a method, `Tensor.relu_` one that
    changes the tensor in place, `Tensor.__add__`, `__radd__` and `__iadd__` are the operator +, with a number on the
    left, and +=. `F.relu` stands in nn.functional, and `nn.ReLU` is a module without parameters, whose arguments are
    those of the function that have default values. The modules that hold these names read APPEARANCES.
    """

    def note(function: Callable | property) -> Callable | property:
        for place in places.split() if is_ours(getattr(function, "fget", function)) else ():
            if place in APPEARANCES:
                raise ValueError(f"{place} is taken by {APPEARANCES[place]}")
            APPEARANCES[place] = function
        _documented(function)
        return function

    return note

"""What stands where: an operation is declared once, and says itself under which names it is to be found."""

from collections.abc import Callable

from tinytensor.core import provided
from tinytensor.native.entries import is_ours

APPEARANCES: dict[str, Callable] = {}  # what stands where: "Tensor.tanh", "tanh", "F.tanh", "nn.Tanh"


class Docstring(str):
    """The docstring of what appears somewhere, which is completed when somebody reads it.

    `inspect.getdoc`, which help() and notebooks ask, spreads the tabs of a docstring first: that is where it is done.
    Shapes, rule and definition are read from the source then; at every import that would cost more than the import.
    """

    __slots__ = ("function",)

    def expandtabs(self, tabsize: int = 8) -> str:
        return provided.documentation(self.function, str.__str__(self)).expandtabs(tabsize)


def _documented(function: Callable) -> None:
    if function.__doc__ and not isinstance(function, property):
        said = Docstring(function.__doc__)
        said.function, function.__doc__ = function, said


def appears(places: str) -> Callable:
    """Say where an operation, or a function of tensors, is to be found: `@appears("relu Tensor.relu nn.ReLU")`.

    A name alone is a function of the package, tinytensor.relu. `Tensor.relu` is a method, `Tensor.relu_` one that
    changes the tensor in place, `Tensor.__add__`, `__radd__` and `__iadd__` are the operator +, with a number on the
    left, and +=. `F.relu` stands in nn.functional, and `nn.ReLU` is a module without parameters, whose arguments are
    those of the function that have default values. The files that own these places look into APPEARANCES.
    """

    def note(function: Callable | property) -> Callable | property:
        for place in places.split() if is_ours(getattr(function, "fget", function)) else ():
            if place in APPEARANCES:
                raise ValueError(f"{place} is taken by {APPEARANCES[place]}")
            APPEARANCES[place] = function
        _documented(function)
        return function

    return note

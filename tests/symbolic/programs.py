"""Programs as rows of a table: those of a class, by name; an annotation says the sizes of an argument."""

from types import FunctionType


def functions_of(space: type) -> dict[str, FunctionType]:
    """The functions of a class, by name."""
    return {name: value for name, value in vars(space).items() if isinstance(value, FunctionType)}


def programs(space: type, arguments: dict | None = None) -> dict[str, tuple[FunctionType, dict]]:
    """The functions of a class with their arguments, by name."""
    return {name: (fn, arguments or fn.__annotations__) for name, fn in functions_of(space).items()}

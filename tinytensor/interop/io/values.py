"""The values that files without code hold: tensors, and the lists, dictionaries, numbers and text around them."""

from typing import Any

import numpy as np

from tinytensor.core.dtypes import bool_, float32, float64, int32, int64, uint8

DTYPES = (float32, float64, uint8, int32, int64, bool_)  # those that tensors have
DEEPEST = 100  # levels of nested lists; a deeper value is a circle or an attack
MOST_BITS = 2000  # of a whole number; a pickle and JSON both hold these


def named_place(path: tuple) -> str:
    """The name of a place in a value, for sentences: the keys that lead to it."""
    return ".".join(map(str, path)) or "the object"


def check_depth(path: tuple) -> None:
    """Raise ValueError for a place that is too deep."""
    if len(path) > DEEPEST:
        raise ValueError(f"save: {named_place(path[:3])}... goes deeper than {DEEPEST} levels; is it a circle?")


def plain(value: Any) -> Any:
    """NumPy's number as Python's, in which form files hold it; any other value is itself."""
    return value.item() if isinstance(value, np.bool_ | np.number) else value


def check_whole(path: tuple, value: Any) -> None:
    """Raise ValueError for a whole number that is too long for a file."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        size = f"{value.bit_length()} bits, above {MOST_BITS:,}"
        raise ValueError(f"save: {named_place(path)} is a whole number of {size}")


def unsupported(path: tuple, value: Any) -> TypeError:
    """The error for a value that no file without code holds."""
    type_name = type(value).__name__
    advice = f"save the vars() of a {type_name}"
    if hasattr(value, "state_dict"):
        advice = (
            f"save the state_dict() of this {type_name}, and later give it to one that the program has built anew: "
            "save(x.state_dict(), path), x.load_state_dict(load(path))"
        )
    return TypeError(
        f"save: {named_place(path)} is a {type_name}; "
        "a file without code holds tensors, numbers, text, None, lists, tuples "
        f"and dictionaries of them: {advice}"
    )

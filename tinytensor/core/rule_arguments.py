"""The values that an operation's rules read: the parameters of a rule name them.

So the declaration of a gradient itself shows which values must be kept for it.
"""

import inspect
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

RESERVED = ("g", "y", "needs", "accumulated")  # reserved: a rule of any operation may name these, beside its inputs


@cache
def parameter_names(function: Callable) -> tuple[str, ...]:
    """The names of a rule's parameters, and so of the values that are kept for it."""
    return tuple(inspect.signature(function).parameters)


class SavedValues(NamedTuple):
    """The values that the needed rules of an operation read, as (name, place among the arguments or saved arrays).

    Names are looked up once and not at each node, since all nodes of an operation have them in the same places.
    """

    inputs: tuple[tuple[str, int | slice], ...]
    shapes: tuple[tuple[str, int | slice], ...]
    saved: tuple[tuple[str, int], ...]
    output: bool


def values_to_save(op, needs: tuple[bool, ...]) -> SavedValues:
    """The values to keep if gradients of these arguments are needed; a definition may read all arguments."""
    names = {n for i, rule in op.rules.items() if any(needs[op.arg_slices[i]]) for n in parameter_names(rule)}
    names |= set(parameter_names(op.backward)) if op.backward is not None else set()
    names |= set(op.params) if op.definition is not None else set()
    inputs = [(name, op.arg_slices[i] if op.arg_slices[i].stop is None else i) for i, name in enumerate(op.params)]
    return SavedValues(
        tuple((n, position) for n, position in inputs if n in names),
        tuple((f"{n}_shape", position) for n, position in inputs if f"{n}_shape" in names),
        tuple((n, i) for i, n in enumerate(op.saved) if n in names),
        "y" in names,
    )


def check_inputs(op) -> None:
    """Input names must not clash with the reserved parameters of rules."""
    if not set(RESERVED).isdisjoint(op.params):
        reserved = f"{', '.join(RESERVED[:-1])} and {RESERVED[-1]}"
        raise TypeError(f"op {op.name}: {reserved} are reserved parameters of rules; give the inputs other names")


def check_names(op, rule: Callable) -> None:
    """Raise an error for a misspelt name where the operation is declared, not at the first backward()."""
    known = {*RESERVED, *op.params, *op.saved, *(f"{name}_shape" for name in op.params)}
    for name in parameter_names(rule):
        if name not in known:
            raise TypeError(
                f"op {op.name}: {rule.__name__} asks for {name!r}; it may ask for "
                f"{', '.join((*RESERVED, *op.params, *op.saved))}, or a shape, as {op.params[0]}_shape"
            )

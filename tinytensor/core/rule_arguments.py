"""The values that an operation's rules read: the parameters of a rule name them.

So the declaration of a gradient itself shows which values must be kept for it.
"""

import inspect
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

GIVEN = ("g", "y", "needs", "onto")  # reserved: a rule of any operation may name these, beside its inputs


@cache
def asked(function: Callable) -> tuple[str, ...]:
    """The names of a rule's parameters, and so of the values that are kept for it."""
    return tuple(inspect.signature(function).parameters)


class Reads(NamedTuple):
    """The values that the needed rules of an operation read, as (name, place among the arguments or saved arrays).

    Names are looked up once and not at each node, since all nodes of an operation have them in the same places.
    """

    inputs: tuple[tuple[str, int | slice], ...]
    shapes: tuple[tuple[str, int | slice], ...]
    saved: tuple[tuple[str, int], ...]
    output: bool


def reads(op, needs: tuple[bool, ...]) -> Reads:
    """The values to keep if gradients of these arguments are needed; a definition may read all arguments."""
    names = {n for i, rule in op.rules.items() if any(needs[op.places[i]]) for n in asked(rule)}
    names |= set(asked(op.backward)) if op.backward is not None else set()
    names |= set(op.params) if op.definition is not None else set()
    inputs = [(name, op.places[i] if op.places[i].stop is None else i) for i, name in enumerate(op.params)]
    return Reads(
        tuple((n, place) for n, place in inputs if n in names),
        tuple((f"{n}_shape", place) for n, place in inputs if f"{n}_shape" in names),
        tuple((n, i) for i, n in enumerate(op.saved) if n in names),
        "y" in names,
    )


def check_inputs(op) -> None:
    """Input names must not clash with the reserved parameters of rules."""
    if not set(GIVEN).isdisjoint(op.params):
        given = f"{', '.join(GIVEN[:-1])} and {GIVEN[-1]}"
        raise TypeError(f"op {op.name}: {given} are reserved parameters of rules; give the inputs other names")


def check_names(op, rule: Callable) -> None:
    """Raise an error for a misspelt name where the operation is declared, not at the first backward().

    There the error would come from the middle of a walk, far from the faulty form.
    """
    known = {*GIVEN, *op.params, *op.saved, *(f"{name}_shape" for name in op.params)}
    for name in asked(rule):
        if name not in known:
            raise TypeError(
                f"op {op.name}: {rule.__name__} asks for {name!r}; it may ask for "
                f"{', '.join((*GIVEN, *op.params, *op.saved))}, or a shape, as {op.params[0]}_shape"
            )

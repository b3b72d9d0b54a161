"""What the rules of an operation read: a rule asks by the names of its parameters.

So the declaration of a gradient says in plain sight what must be kept for it, and nobody need say it twice.
"""

import inspect
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

GIVEN = ("g", "y", "needs", "onto")  # what a rule may ask for of any operation, whatever its inputs are called


@cache
def asked(function: Callable) -> tuple[str, ...]:
    """What a rule reads: the names of its parameters. They say in plain sight what is kept for it."""
    return tuple(inspect.signature(function).parameters)


class Reads(NamedTuple):
    """What the needed rules of an operation ask for, as (name, place among the arguments or saved arrays).

    Names are looked up once and not at each node, since they stand in the same places for all nodes of an operation.
    """

    inputs: tuple[tuple[str, int | slice], ...]
    shapes: tuple[tuple[str, int | slice], ...]
    saved: tuple[tuple[str, int], ...]
    output: bool


def reads(op, needs: tuple[bool, ...]) -> Reads:
    """What to keep if gradients of these arguments of an operation are needed; a definition may read all of them."""
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
    """An input that is called as what rules ask for could not be asked for."""
    if not set(GIVEN).isdisjoint(op.params):
        given = f"{', '.join(GIVEN[:-1])} and {GIVEN[-1]}"
        raise TypeError(f"op {op.name}: {given} are what rules ask for; give the inputs other names")


def check_names(op, rule: Callable) -> None:
    """A misspelt name is told where the operation is declared, not at the first backward().

    By then the message would come from the middle of a walk, far from the form that has the fault.
    """
    known = {*GIVEN, *op.params, *op.saved, *(f"{name}_shape" for name in op.params)}
    for name in asked(rule):
        if name not in known:
            raise TypeError(
                f"op {op.name}: {rule.__name__} asks for {name!r}; it may ask for "
                f"{', '.join((*GIVEN, *op.params, *op.saved))}, or a shape, as {op.params[0]}_shape"
            )

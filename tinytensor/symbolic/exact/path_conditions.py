"""Path conditions: the comparisons that led to a value, stored with the value.

A kernel that compares takes one path, and its result is right on that path alone: ReLU returns x only where x > 0. So
each result of a launch stores the conditions of the launch and of its inputs; `latex` prints them after the formula.
An elementwise kernel is tracked entry by entry, any other kernel as a whole launch. A scalar has its conditions in an
attribute; those of a boolean array (x > 0) are in a table. Values computed from booleans alone, and indices (of a sort)
are not tracked, nor is an `if` in Python: `path` collects all of them.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from tinytensor.core.kernel import OBJECT, Kernel, is_ours
from tinytensor.native.runtime.kernel import Elementwise
from tinytensor.symbolic.exact.scalars import Condition, Symbolic, get_scalar_type, path

# Kernels that compare to avoid overflow, or to cut their work: on each path the formula is the same.
SAME_EITHER_WAY = frozenset(
    ["softmax", "log_softmax", "reduce_logsumexp", "cross_entropy", "attention", "attention_of_one", "logsigmoid"]
)

_mask_conditions: dict[int, tuple[weakref.ref, list[Condition]]] = {}  # arrays of truth values, by their addresses


def conditions_of(arrays: Iterable) -> list[Condition]:
    """The comparisons that the entries of arrays remember, each once."""
    conditions: dict[Condition, None] = {}
    for array in arrays:
        if not isinstance(array, np.ndarray):
            continue
        if array.dtype is OBJECT:
            for value in array.flat:
                conditions.update(dict.fromkeys(getattr(value, "conditions", ())))
        elif array.dtype.kind == "b":
            while array is not None:  # for a view also its base (NumPy puts a stand-in between some of them)
                conditions.update(dict.fromkeys(_mask_conditions.get(id(array), (None, ()))[1]))
                array = getattr(array, "base", None)
    return list(conditions)


def with_conditions(value, conditions: list[Condition]):
    """The same scalar, which remembers these conditions."""
    if not conditions or not isinstance(value, Symbolic):
        return value
    result = object.__new__(Symbolic)  # a new one: other code may hold this very scalar, without these comparisons
    result._expr, result.witness = value.expr, value.witness
    result.conditions = tuple(dict.fromkeys((*getattr(value, "conditions", ()), *conditions)))
    return result


@contextmanager
def track_conditions(kernel: Kernel, source: Callable, args: tuple) -> Iterator[Callable]:
    """Yield the function that launches the kernel; entries that it writes remember their conditions."""
    if get_scalar_type() is not Symbolic:
        yield source
        return
    collected: list[Condition] = []
    if isinstance(kernel, Elementwise):
        masks = conditions_of(a for a in args[:-1] if isinstance(a, np.ndarray) and a.dtype is not OBJECT)

        def entry(*operands):
            with path() as met:
                value = source(*operands)
            holds_for = [*masks, *(c for x in operands for c in getattr(x, "conditions", ())), *_relevant(kernel, met)]
            collected.extend(holds_for)
            return with_conditions(value, holds_for)

        yield entry
        y = args[-1]
        if collected and y.dtype.kind == "b":
            address = id(y)
            _mask_conditions[address] = weakref.ref(y, lambda _: _mask_conditions.pop(address, None)), collected
        return
    arrays = [a for a in args if isinstance(a, np.ndarray) and a.dtype is OBJECT]
    known, before = conditions_of(args), [a.copy() for a in arrays]
    with path() as met:
        yield source
    if holds_for := [*known, *_relevant(kernel, met)]:
        for array, old in zip(arrays, before, strict=True):
            for index in np.ndindex(array.shape):
                if array[index] is not old[index]:  # it was written
                    array[index] = with_conditions(array[index], holds_for)


def _relevant(kernel: Kernel, met: list[Condition]) -> list[Condition]:
    return [] if kernel.name in SAME_EITHER_WAY and is_ours(kernel.py_func) else met


def carry_over(x: np.ndarray, y: np.ndarray) -> None:
    """Copy to the numbers y the comparisons that are kept beside the truth values x."""
    if conditions := conditions_of([x]):
        for index in np.ndindex(y.shape):
            y[index] = with_conditions(Symbolic.of(y[index]), conditions)

"""The values of its symbols for which a formula holds: the comparisons that led to it, kept with the result.

A kernel that compares takes one path, and its result holds on that path alone: ReLU gives x only where x > 0. So the
results of a launch remember its comparisons, and those that its inputs remember; `latex` writes them behind a formula.
An elementwise kernel is followed entry by entry, any other kernel as a whole launch. A scalar carries its comparisons
itself; those of an array of truth values (x > 0) are kept beside the array. Values computed from truth values alone are
not followed, and neither is an `if` in Python: `path` collects both.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from tinytensor.runtime.entry_points import OBJECT
from tinytensor.runtime.kernel import Elementwise, Kernel
from tinytensor.symbolic.scalars import Condition, Symbolic, kind_of_numbers, path

# Kernels that compare to avoid overflow, or to cut their work: on each path the formula is the same.
SAME_EITHER_WAY = frozenset(
    ["softmax", "log_softmax", "reduce_logsumexp", "cross_entropy", "attention", "attention_of_one", "logsigmoid"]
)

_beside: dict[int, tuple[weakref.ref, list[Condition]]] = {}  # arrays of truth values, by their addresses


def remembered(arrays: Iterable) -> list[Condition]:
    """The comparisons that the entries of arrays remember, each once."""
    found: dict[Condition, None] = {}
    for array in arrays:
        if not isinstance(array, np.ndarray):
            continue
        if array.dtype is OBJECT:
            for value in array.flat:
                found.update(dict.fromkeys(getattr(value, "given", ())))
        elif array.dtype.kind == "b":
            while array is not None:  # for a view also its base (NumPy puts a stand-in between some of them)
                found.update(dict.fromkeys(_beside.get(id(array), (None, ()))[1]))
                array = getattr(array, "base", None)
    return list(found)


def holding(value, conditions: list[Condition]):
    """The same scalar, which remembers these conditions."""
    if not conditions or not isinstance(value, Symbolic):
        return value
    result = object.__new__(Symbolic)  # a new one: other code may hold this very scalar, without these comparisons
    result._expr, result.witness = value.expr, value.witness
    result.given = tuple(dict.fromkeys((*getattr(value, "given", ()), *conditions)))
    return result


@contextmanager
def following(kernel: Kernel, source: Callable, args: tuple) -> Iterator[Callable]:
    """Yield the function that launches the kernel; entries that it writes remember their conditions."""
    if kind_of_numbers() is not Symbolic:
        yield source
        return
    told: list[Condition] = []
    if isinstance(kernel, Elementwise):
        masks = remembered(a for a in args[:-1] if isinstance(a, np.ndarray) and a.dtype is not OBJECT)

        def entry(*given):
            with path() as met:
                value = source(*given)
            holds_for = [*masks, *(c for x in given for c in getattr(x, "given", ())), *_matter(kernel, met)]
            told.extend(holds_for)
            return holding(value, holds_for)

        yield entry
        y = args[-1]
        if told and y.dtype.kind == "b":
            address = id(y)
            _beside[address] = weakref.ref(y, lambda _: _beside.pop(address, None)), told
        return
    arrays = [a for a in args if isinstance(a, np.ndarray) and a.dtype is OBJECT]
    known, before = remembered(args), [a.copy() for a in arrays]
    with path() as met:
        yield source
    if holds_for := [*known, *_matter(kernel, met)]:
        for array, old in zip(arrays, before, strict=True):
            for at in np.ndindex(array.shape):
                if array[at] is not old[at]:  # it was written
                    array[at] = holding(array[at], holds_for)


def _matter(kernel: Kernel, met: list[Condition]) -> list[Condition]:
    return [] if kernel.name in SAME_EITHER_WAY else met


def carry_over(x: np.ndarray, y: np.ndarray) -> None:
    """Copy to the numbers y the comparisons that are kept beside the truth values x."""
    if conditions := remembered([x]):
        for at in np.ndindex(y.shape):
            y[at] = holding(Symbolic.of(y[at]), conditions)

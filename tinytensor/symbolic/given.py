"""For which values of its symbols a formula holds: the comparisons that led to it, kept with what was computed.

A kernel that compares takes one way, and what it computes holds on that way alone: of a ReLU x, where x > 0. So what a
launch has written remembers its comparisons, and those that its inputs remember; `latex` writes them behind a formula.
Entry by entry this is told where the kernel is a formula, else for the launch as a whole. A scalar remembers by itself,
and for an array of truth values (x > 0) it is remembered beside it. What is computed of truth values alone is not
followed, and neither is an `if` in Python: `path` tells of both.
"""

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from tinytensor.kernels.entries import OBJECT
from tinytensor.kernels.kernel import Kernel
from tinytensor.symbolic.scalars import Condition, Symbolic, path

# Kernels that compare to avoid overflow, or to cut their work: whichever way they take, the formula is the same.
SAME_EITHER_WAY = frozenset(
    ["softmax", "log_softmax", "reduce_logsumexp", "cross_entropy", "attention", "attention_of_one", "logsigmoid"]
)

_beside: dict[int, tuple[weakref.ref, list[Condition]]] = {}  # arrays of truth values, by their addresses


def remembered(arrays: Iterable) -> list[Condition]:
    """What the entries of arrays hold for, each comparison once."""
    found: dict[Condition, None] = {}
    for array in arrays:
        if not isinstance(array, np.ndarray):
            continue
        if array.dtype is OBJECT:
            for value in array.flat:
                found.update(dict.fromkeys(getattr(value, "given", ())))
        elif array.dtype.kind == "b":
            while array is not None:  # of a view also what it looks at (NumPy has a stand-in between some of them)
                found.update(dict.fromkeys(_beside.get(id(array), (None, ()))[1]))
                array = getattr(array, "base", None)
    return list(found)


@contextmanager
def compared(kernel: Kernel) -> Iterator[list[Condition]]:
    """What a kernel compares inside, on which its formulas depend; empty until the end."""
    told: list[Condition] = []
    with path() as met:
        yield told
    if kernel.name not in SAME_EITHER_WAY:
        told += met


def holding(value, conditions: list[Condition]):
    """The same scalar, which remembers what it holds for."""
    if not conditions or not isinstance(value, Symbolic):
        return value
    result = object.__new__(Symbolic)  # a new one: others may have this very scalar, whatever is compared here
    result._expr, result.witness = value.expr, value.witness
    result.given = tuple(dict.fromkeys((*getattr(value, "given", ()), *conditions)))
    return result


def keep(arrays: Iterable[np.ndarray], before: Iterable[np.ndarray], conditions: list[Condition]) -> None:
    """What a launch has written into arrays of scalars, which held others before, remembers what it holds for."""
    for array, old in zip(arrays, before, strict=True):
        for at in np.ndindex(array.shape) if conditions else ():
            if array[at] is not old[at]:
                array[at] = holding(array[at], conditions)


def keep_beside(array: np.ndarray, conditions: list[Condition]) -> None:
    """The same of an array of truth values."""
    if conditions and array.dtype.kind == "b":
        address = id(array)
        _beside[address] = weakref.ref(array, lambda _: _beside.pop(address, None)), conditions


def carry_over(x: np.ndarray, y: np.ndarray) -> None:
    """Truth values that have become numbers remember what was remembered beside them."""
    if conditions := remembered([x]):
        for at in np.ndindex(y.shape):
            y[at] = holding(Symbolic.of(y[at]), conditions)

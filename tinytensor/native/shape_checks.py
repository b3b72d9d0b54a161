"""What a loop says of the sizes of its arrays, and the question, before each launch, whether they are so.

    @kernel("x[V, D], index[R], y[R, D], bad[2]", ...)
    def take(x, index, y, bad, task, tasks): ...

A name stands for the same size wherever it stands; the first array that has it says how much it is. `D | 0` is D or 0,
and any other expression is computed, with the names of the kernel's file. What is no array with its sizes is a
condition, on settings say: `rows > 0`. `dense(q, k)` is one that stands for arrays of any strides: the elements of
their rows are neighbours.

The statement becomes a Python function of the arguments, a few comparisons long, when the kernel is declared. It costs
some 0.2 microseconds a launch in eager mode, and nothing in a replay, whose launches have the arrays that they had.
"""

import ast
from collections.abc import Callable

import numpy as np


def dense(*arrays: np.ndarray) -> bool:
    """Are the elements of a row neighbours in memory, in each of these arrays? (A single one has no neighbours.)"""
    for a in arrays:  # noqa: SIM110 (a generator would cost more than all the comparisons)
        if a.strides[-1] != a.itemsize and a.shape[-1] > 1 and a.size > 0:
            return False
    return True


def checker(name: str, parameters: tuple[str, ...], statement: str, scope: dict) -> Callable[[tuple], None]:
    """A function of a launch's arguments that refuses those whose sizes are not as the kernel says."""
    fits = question(parameters, statement, scope)

    def check(args: tuple) -> None:
        try:
            if fits(*args):
                return
        except (AttributeError, TypeError, ValueError):
            pass
        if len(args) != len(parameters):
            called = f"{name}({', '.join(parameters)})"
            raise TypeError(f"kernel {called}: expected {len(parameters)} arguments, got {len(args)}")
        told = (f"{n} {getattr(a, 'shape', a)}" for n, a in zip(parameters, args))
        raise ValueError(f"kernel {name}({', '.join(parameters)}): expected {statement}; got {', '.join(told)}")

    return check


def question(parameters: tuple[str, ...], statement: str, scope: dict) -> Callable[..., bool]:
    """The statement as a function of the kernel's arguments: are they as it says?

    For `take` above it is

        def fits(x, index, y, bad):
            V, D, = x.shape
            R, = index.shape
            return y.shape == (R, D,) and bad.shape == (2,)

    Too many arguments raise instead, as do an array with another number of dimensions, and a number in its place.
    """
    sizes, lines, conditions = set(), [], []
    for part in ast.parse(f"({statement},)", mode="eval").body.elts if statement else ():
        if not isinstance(part, ast.Subscript):
            conditions.append(ast.unparse(part))
            continue
        name = ast.unparse(part.value)
        if name not in parameters:
            raise ValueError(f"the sizes of {name} are said, which is none of {parameters}")
        dims = [ast.unparse(d) for d in (part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice])]
        if not any((d.isidentifier() and d not in sizes) or "|" in d for d in dims):
            conditions.append(f"{name}.shape == ({', '.join(dims)},)")
            continue
        found = []
        for i, d in enumerate(dims):
            if d.isidentifier() and d not in sizes:
                sizes.add(d)
                found.append(d)
            else:
                found.append(f"{name}_{i}")
                conditions.append(f"{name}_{i} in ({d.replace(' | ', ', ')},)")
        lines.append(f"    {', '.join(found)}, = {name}.shape\n")
    text = f"def fits({', '.join(parameters)}):\n{''.join(lines)}    return {' and '.join(conditions) or True}\n"
    made: dict[str, Callable] = {}
    exec(text, scope | {"dense": dense}, made)
    return made["fits"]

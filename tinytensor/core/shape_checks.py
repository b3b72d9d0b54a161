"""Shape checks: a loop declares the sizes of its arrays, and each launch is checked against them.

    @kernel("x[V, D], index[R], y[R, D], bad[2]", ...)
    def take(x, index, y, bad, task, tasks): ...

A name means the same size everywhere; the first array with that name sets its value. `D | 0` is D or 0, and any other
expression is computed, with the names of the kernel's file. A part that is not an array with its sizes is a condition,
on settings for instance: `rows > 0`. `dense(q, k)` is a condition on arrays of any strides: the elements of their rows
are neighbours.

The statement becomes a Python function of the arguments, a few comparisons long, when the kernel is declared. It takes
some 0.2 microseconds a launch in eager mode, and no time in a replay, whose launches have the same arrays as before.
"""

import ast
from collections.abc import Callable
from textwrap import indent

import numpy as np


def dense(*arrays: np.ndarray) -> bool:
    """Are the elements of a row neighbours in memory, in each of these arrays? (A single one has no neighbours.)"""
    for a in arrays:  # noqa: SIM110 (a generator would cost more than all the comparisons)
        if a.strides[-1] != a.itemsize and a.shape[-1] > 1 and a.size > 0:
            return False
    return True


def checker(name: str, parameters: tuple[str, ...], statement: str, scope: dict) -> Callable[[tuple], None]:
    """A function that checks a launch's arguments; it raises ValueError if sizes differ from the kernel's statement."""
    fits = shape_test(parameters, statement, scope)

    def check(args: tuple) -> None:
        try:
            if fits(*args):
                return
        except (AttributeError, TypeError, ValueError):
            pass
        if len(args) != len(parameters):
            called = f"{name}({', '.join(parameters)})"
            raise TypeError(f"kernel {called}: expected {len(parameters)} arguments, got {len(args)}")
        values = (f"{n} {getattr(a, 'shape', a)}" for n, a in zip(parameters, args))
        raise ValueError(f"kernel {name}({', '.join(parameters)}): expected {statement}; got {', '.join(values)}")

    return check


def shape_test(parameters: tuple[str, ...], statement: str, scope: dict) -> Callable[..., bool]:
    """The statement as a function of the kernel's arguments: do they satisfy it?

    For `take` above it is

        def fits(x, index, y, bad):
            V, D, = x.shape
            R, = index.shape
            return y.shape == (R, D,) and bad.shape == (2,)

    It raises an error for a wrong number of arguments or dimensions, and for a number in the place of an array.
    """
    sizes, lines, conditions = set(), [], []
    for part in ast.parse(f"({statement},)", mode="eval").body.elts if statement else ():
        if not isinstance(part, ast.Subscript):
            conditions.append(f"({ast.unparse(part)})")  # an `or` binds weaker than the `and` between conditions
            continue
        name = ast.unparse(part.value)
        if name not in parameters:
            raise ValueError(f"sizes are given for {name}, which is not a parameter; the parameters are {parameters}")
        dims = [ast.unparse(d) for d in (part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice])]
        if not any((d.isidentifier() and d not in sizes) or "|" in d for d in dims):
            conditions.append(f"{name}.shape == ({', '.join(dims)},)")
            continue
        dims_of_array = []
        for i, d in enumerate(dims):
            if d.isidentifier() and d not in sizes:
                sizes.add(d)
                dims_of_array.append(d)
            else:
                dims_of_array.append(f"{name}_{i}")
                conditions.append(f"{name}_{i} in ({d.replace(' | ', ', ')},)")
        lines.append(f"    {', '.join(dims_of_array)}, = {name}.shape\n")
    text = f"def fits({', '.join(parameters)}):\n{''.join(lines)}    return {' and '.join(conditions) or True}\n"
    text = f"def closure(dense):\n{indent(text, '    ')}    return fits\n"  # its globals are the kernel's own
    made: dict[str, Callable] = {}
    exec(compile(text, scope.get("__file__", __file__), "exec"), scope, made)
    return made["closure"](dense)

"""`read`: the program of a function, from one run on tensors without values and sizes without numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from sympy import Expr, Mod, Mul

from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.derive.arguments import Argument
from tinytensor.symbolic.derive.conditions import SizeCondition
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.reading.engine import engine_for_sizes
from tinytensor.symbolic.reading.errors import NotDerivable, Refused
from tinytensor.symbolic.reading.language import only_readable, snapshot
from tinytensor.symbolic.reading.sizes import Polynomial, Reading, SymInt, add, constant
from tinytensor.symbolic.reading.tensors import SymbolicData, SymbolicTensor, Term, as_term, tensor_of, terms_of


@dataclass
class Program:
    """What a function computes: the terms in their order, the result, and under which conditions it was read.

    conditions: (">=" or "==" or "!=", p) for p >= 0 and so on. values: keys of conditions.VALUES.
    """

    reading: Reading
    terms: list[Term]
    result: object  # a term, or an array that no argument reaches
    shape: tuple
    arguments: dict[str, Term]
    conditions: list[tuple[str, Polynomial]] = field(default_factory=list)
    values: dict[str, None] = field(default_factory=dict)


def read(fn: Callable, arguments: dict[str, object], where: Sequence[SizeCondition] = (), split=None) -> Program:
    """The program of fn for all sizes >= 1 that meet `where` and its conditions; NotDerivable names what can't be read."""
    reading = Reading()
    reading.outside[getattr(fn, "__name__", "the function")] = fn, snapshot(fn)
    values = {name: _value(reading, name, a) if isinstance(a, Argument) else a for name, a in arguments.items()}
    for one in where:
        reading.conditions += _known(reading, one, split or {})
    reading.given = len(reading.conditions)
    result = None
    try:
        with double_precision(), engine_for_sizes(reading), only_readable(reading):
            result = fn(**values)
    except Refused:
        pass
    reading.over = True
    changed = [name for name, (value, held) in reading.outside.items() if snapshot(value) != held]
    problems = {
        f"an error or a warning that names a size was not raised{reading.texts}": reading.texts,
        "a loop over a size is left before its last step": reading.open_loops,
        f"{', '.join(changed)} changed: another call would differ": changed,
    }
    for problem in [*reading.refusals, *[p for p, met in problems.items() if met]]:  # also of an exception that was caught
        raise NotDerivable(f"derive: {problem}")
    if not isinstance(result, Tensor):
        came = type(result).__name__
        raise NotDerivable(f"derive: the function returned {came}; expected one tensor: return the one to derive")
    program = Program(
        reading,
        reading.terms,
        as_term(result),
        tuple(result.shape),
        {name: x._data.term for name, x in values.items() if isinstance(x, SymbolicTensor)},
        [(operation, p) for operation, p, _ in reading.conditions[reading.given :]],
        reading.values,
    )
    if isinstance(program.result, Term) and _outside(program.result, {}):
        raise NotDerivable("derive: a value of one step of a loop is used outside of it")
    return program


def _value(reading: Reading, name: str, argument: Argument) -> SymbolicTensor:
    """A tensor without values for an argument."""
    shape = tuple(prod((reading.number(f) for f in dim), start=1) for dim in argument.dims)
    high = None if argument.below is None else reading.number(argument.below) - 1
    if type(n := prod(shape)) is SymInt:
        reading.products.append(n.p)
    term = Term("argument", name)
    term.depends, term.on_tape = True, high is None
    return tensor_of(SymbolicData(reading, term, shape, np.float64 if high is None else np.int64, high))


def _known(reading: Reading, one: SizeCondition, split: dict) -> list[tuple[str, Polynomial, str]]:
    """A condition of `where` as what is known of the sizes."""

    def side(formula: Expr):
        formula = formula.xreplace({s: Mul(*parts) for s, parts in split.items()})
        if isinstance(formula, Mod):
            return side(formula.args[0]) % side(formula.args[1])
        return reading.number(formula)

    difference = side(one.left) - side(one.right)
    p = difference.p if type(difference) is SymInt else constant(difference)
    if not any(p):
        return []
    negative = {m: -c for m, c in p.items()}
    p = {">": add(p, constant(-1)), "<": add(negative, constant(-1)), "<=": negative}.get(one.operation, p)
    return [(one.operation if one.operation in ("==", "!=") else ">=", p, "")]


def _outside(term: Term, memo: dict) -> set[int]:
    """The carried values that a term has outside of their loops: there must be none."""
    if id(term) not in memo:
        memo[id(term)] = set()
        parts = [t for t in terms_of(term.args) if term.name not in ("rows", "final")]
        inside = set().union(*[_outside(t, memo) for t in parts])
        memo[id(term)] = {id(term)} if term.name == "carried" else inside
    return memo[id(term)]

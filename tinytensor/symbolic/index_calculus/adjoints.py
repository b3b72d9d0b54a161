"""Programs of definitions, and the adjoints of their names.

    Program         a list of definitions, name[indices] := expression in earlier names
    adjoint_of      the gradient of a name, summed over all lines that use it
    contradiction   a number that refutes a normal form of 0, in exact fractions

The adjoint of a name is the derivative of the last number of a program, the loss, by it: ∂𝓛/∂name. Trusted are
formulas.py and SymPy's diff of one line; no size is a number here. derivations/adjoints.py proves closed forms by hand.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from sympy import Expr, Function, Indexed, KroneckerDelta, Pow, S, Symbol, preorder_traversal
from sympy.matrices.exceptions import NonInvertibleMatrixError

from tinytensor.symbolic.index_calculus.formulas import (
    Array,
    Name,
    Size,
    derivative,
    everywhere,
    free,
    fresh,
    index_order,
    name_of,
    names_in,
    normal,
    random_entries,
    sizes_of,
    total,
    value,
)
from tinytensor.symbolic.index_calculus.functions import HEADS
from tinytensor.symbolic.index_calculus.linear_algebra import Cholesky, LogAbsDet, SymmetricArray, in_names


class Definition(NamedTuple):
    """left := right, where `left` is an entry (or a symbol) and its indices are the only free ones on the right.

    source: the equation of the source; erratum: "place: the error there", if it is corrected here.
    """

    left: Expr
    right: Expr
    source: str = ""
    erratum: str = ""

    @property
    def name(self) -> Name:
        return name_of(self.left)

    @property
    def is_adjoint(self) -> bool:
        """Is the name the adjoint of an array?"""
        return isinstance(self.name, Array) and self.name.of is not None

    def at(self, left: Expr) -> Expr:
        """The right-hand side for other indices."""
        if isinstance(self.left, Symbol):
            return fresh(self.right)
        return fresh(self.right).xreplace(dict(zip(self.left.indices, left.indices, strict=True)))


def d(x):
    """The adjoint of an array, an entry or a symbol: the derivative of a program's last number by it."""
    if isinstance(x, Indexed):
        return d(x.base)[x.indices]
    if isinstance(x, Array):
        return Array(f"d{x.label}", x.sizes, x.positions, of=x)
    return Symbol(f"d{x.name}", real=True)


def expanded(expr: Expr, lines: Sequence[Definition]) -> Expr:
    """expr with the names of these lines replaced by their definitions, the last one first."""
    for line in reversed(lines):
        if any(name_of(e) == line.name for e in expr.atoms(Indexed, Symbol)):
            expr = fresh(expr)
            entries = {e for e in expr.atoms(Indexed, Symbol) if name_of(e) == line.name}
            expr = expr.xreplace({e: line.at(e) for e in entries})
        if isinstance(line.name, Array) and expr.has(line.name):
            expr = in_names(expr, line.name, line.left, line.right)
    return expr


def lengths(lines: Sequence[Definition]) -> Iterator[tuple[Definition, int]]:
    """Each line, with the number of operations that it has with all names before it written out."""
    known: dict[Name, int] = {}
    for line in lines:
        names = (name_of(e) for e in preorder_traversal(line.right) if isinstance(e, Indexed | Symbol))
        known[line.name] = int(line.right.count_ops()) + sum(known.get(name, 0) for name in names)
        yield line, known[line.name]


class Program:
    """Definitions in order, each in terms of parameters, constants and names before it.

    parameters: entries such as E[k, j], printed with these letters; their adjoints are derived.
    constants: arrays and symbols that have no adjoints.
    """

    def __init__(self, parameters: Iterable[Expr] = (), constants: Iterable[Name] = ()):
        self.parameters = {name_of(entry): entry for entry in parameters}
        self.constants = tuple(constants)
        self.definitions: dict[Name, Definition] = {}

    def let(self, left: Expr, right, source: str = "", erratum: str = "") -> None:
        """Append left := right; TypeError if a name is taken or unknown, or an index is not on the left."""
        right, new = S(right), name_of(left)
        known = {*self.parameters, *self.constants, *self.definitions}
        if new in known:
            raise TypeError(f"{new} is defined already: a name keeps its meaning")
        if unknown := names_in(right) - known:
            raise TypeError(f"{left}: {min(unknown, key=str)} is not defined before it is used")
        if loose := free(right) - free(left):
            raise TypeError(f"{left}: index {loose.pop()} stands on the right only: sum over it, or put it on the left")
        self.definitions[new] = Definition(left, right, source, erratum)

    @property
    def lines(self) -> list[Definition]:
        """The definitions, the first one first."""
        return list(self.definitions.values())

    @property
    def entries(self) -> list[Expr]:
        """The parameters and the defined names, each with its letters."""
        return [*self.parameters.values(), *(line.left for line in self.lines)]

    def expand(self, expr: Expr, through: Iterable[Name]) -> Expr:
        """expr with the names `through` replaced by their definitions, the last one first."""
        return expanded(expr, [line for line in self.lines if line.name in through])


def adjoint_of(entry: Expr, lines: Iterable[Definition], loss: Symbol | None = None) -> Expr:
    """The adjoint of an entry: the sum, over all lines that use its name, of their adjoint times their derivative.

    loss: the symbol whose adjoint is 1. Where the derivative contains a result of the line, the name replaces it:
    exp(S) becomes e, (s + eps)^(-3/2) becomes r^3. These are the cached interim results. SymPy's `subs` only proposes
    this: putting the right-hand side back must give the same normal form.
    """
    new = {i: i.fresh() for i in free(entry)}  # indices that stand in no line
    by, adjoint = entry.xreplace(new), S.Zero
    for line in lines:
        if name_of(entry) not in names_in(line.right):
            continue
        partial = derivative(line.right, by)
        kept = partial.subs(line.right, line.left)
        if kept != partial and normal(kept.xreplace({line.left: line.right}) - partial) != 0:
            kept = partial  # as where a number times a sum was replaced in part
        arriving = S.One if line.left == loss else d(line.left)
        adjoint += total(arriving * kept, *sorted(free(line.left), key=index_order))
    return normal(adjoint).xreplace({fresh_one: i for i, fresh_one in new.items()})


def contradiction(difference: Expr, lines: Sequence[Definition] = ()) -> str:
    """Where a difference whose normal form is 0 is another number, in exact fractions; empty if nowhere.

    This is a check of the normal form. Only differences without roots and exponentials are computed, at sizes 2 and 3.
    """
    difference = expanded(difference, lines)
    inside = [x for x in lines if x.name in names_in(difference)]  # of an inverse
    formulas = [difference, *(expanded(x.right, lines) for x in inside)]
    if not all(map(_is_rational, formulas)):
        return ""
    names = sorted(set().union(*map(names_in, formulas)) - {x.name for x in inside}, key=str)
    sizes = {s for a in names if isinstance(a, Array) for s in sizes_of(a)} | difference.atoms(Size)
    sizes |= {s for i in free(difference) for s in S(i.size).atoms(Size)}
    point: dict = {size: 2 + n % 2 for n, size in enumerate(sorted(sizes, key=str))}
    rng = random.Random(0)
    try:
        for x in names:
            point[x] = random_entries(x, point, rng, _fraction) if isinstance(x, Array) else _fraction(rng)
            if isinstance(x, SymmetricArray):
                point[x] = point[x] + point[x].T
        for line in inside:
            point[line.name] = value_of(line, point)
        rows = list(everywhere(sorted(free(difference), key=index_order), point))
        for here in rows[:: 1 + len(rows) // 8]:
            if (number := value(difference, here)) != 0:
                return f"the normal form is 0, but in exact numbers the difference is {number}: please report this"
    except (ZeroDivisionError, NonInvertibleMatrixError, IndexError):  # or a table that is longer than these sizes
        return ""
    return ""


def value_of(line: Definition, point: dict):
    """A line's number or array by plain loops."""
    if isinstance(line.left, Symbol):
        return value(line.right, point)
    result = np.empty([value(size, point) for size in line.name.sizes], dtype=object)
    for where in np.ndindex(result.shape):
        result[where] = value(line.right, point | dict(zip(line.left.indices, (n + 1 for n in where))))
    return result


def _is_rational(expr: Expr) -> bool:
    """Does the expression have fractions for values, at fractions?"""
    functions = expr.atoms(Function) - expr.atoms(KroneckerDelta)
    rational = all(f.func in HEADS and HEADS[f.func].is_rational for f in functions)
    return rational and all(p.exp.is_integer for p in expr.atoms(Pow)) and not expr.has(Cholesky, LogAbsDet)


def _fraction(rng: random.Random) -> Fraction:
    return Fraction(rng.choice((-1, 1)) * rng.randint(1, 40), rng.randint(1, 9))

"""Tensors whose sizes are symbols: entries as formulas, and the lines that give some of them a name."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from sympy import Expr, Indexed, Mul, S, Symbol

from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, fresh, normal
from tinytensor.symbolic.index_calculus.signs import Signs

Dims = tuple[tuple[Expr, ...], ...]


class Factored:
    """A tensor whose dimensions are products: `dims` has the factors of each."""

    dims: Dims

    @property
    def sizes(self) -> tuple[Expr, ...]:
        """The sizes of all factors, in order."""
        return tuple(itertools.chain(*self.dims))

    @property
    def shape(self) -> tuple[Expr, ...]:
        return tuple(Mul(*dim) for dim in self.dims)


@dataclass
class Value(Factored):
    """A tensor: the factors of each dimension, and the formula of an entry.

    dims: (N,) for a dimension of size N, (H, K) for one of size H K, () for one of size 1. entry: takes an index for
    each factor. dtype: "f", "n" (a whole number), "i" (an index: a whole number from 0 on, whose entry counts from 1,
    so that it is 1 more) or "b" (1 or 0). finite: 0 where the value is -inf, elsewhere 1; None if it is finite
    everywhere.
    """

    dims: Dims
    entry: Callable[..., Expr]
    dtype: str = "f"
    finite: Callable[..., Expr] | None = None

    def indices(self, used: Sequence[Index] = ()) -> list[Index]:
        """An index for each factor, with letters that differ from one another and from those of `used`."""
        letters, result = {i.name for i in used}, []
        for n in self.sizes:
            of_symbols = (letter for s in sorted(n.atoms(Size), key=str) for letter in s.letters)  # of those in N - 1
            name = next(letter for letter in (*of_symbols, *"ijklmpqrsuvabcdefgh") if letter not in letters)
            letters.add(name)
            result.append(Index(name, n))
        return result


def dims_of(shape: Sequence[Expr]) -> Dims:
    """The dimensions of a shape, its products taken apart."""
    return tuple(_factors(S(n)) for n in shape)


def _factors(n: Expr) -> tuple[Expr, ...]:
    if n == 1:
        return ()
    if n.is_Mul:
        return tuple(f for part in n.args for f in _factors(part))
    if n.is_Pow and n.exp.is_Integer and n.exp > 1:
        return _factors(n.base) * int(n.exp)
    return (n,)


@dataclass
class Group:
    """Lines that belong together, such as those of a softmax, and the closed forms of their gradients.

    The last line is the result; the names of the others are used in the group and in its closed forms. closed: what the
    group adds to the adjoint of an entry, on the left.
    """

    lines: list[Definition]
    closed: list[Definition] = field(default_factory=list)
    where: str = ""
    by_user: bool = False  # is the result named by the user?
    wanted: str = ""  # the user's name for it, where the operation gave it another one
    inline: str = ""  # may it be put in where it is used: "term" as a term, "anywhere" in roots and logarithms, too

    @property
    def output(self) -> Definition:
        return self.lines[-1]


@dataclass(frozen=True)
class ExtremeMask:
    """A constant that marks the largest entries, or the like: `function` (of numpy_printer.HELPERS) of an array."""

    function: str
    of: Expr  # an entry of the array
    indices: tuple[Index, ...]  # those of the constant's axes
    axes: tuple[int, ...]  # along which the entries are compared

    def note(self, name: Name) -> str:
        """What the constant of this name is, in words."""
        which, _, ties = self.function.partition("_")
        ties = {"shared": "shared among equal ones", "first": "the first of equal ones"}[ties]
        return f"{name.label} is 1 at the {which} entry of {self.of.base.label}, {ties}, 0 elsewhere"


def tensors_of(args) -> list[Tensor]:
    """The tensors among arguments, those in tuples and lists, too."""
    return [a for x in args for a in (x if isinstance(x, tuple | list) else (x,)) if isinstance(a, Tensor)]


def formula_key(right: Expr, indices: Sequence[Index]) -> tuple:
    """The same for the same formula, whatever its indices are called."""
    marks = {i: Symbol(f"#{n}", integer=True, positive=True) for n, i in enumerate(indices)}
    return normal(right).xreplace(marks), tuple(i.size for i in indices)


class Step(Index):
    """The index of a loop's steps, 1..n, while the calls of one step are read."""


class StepArray(Array):
    """A name that has a value for each step of a loop, its first index; without it, the entry at the step itself."""

    def __new__(cls, name, sizes, step: Step | None = None):
        if step is None:  # SymPy makes one anew from its name and all of its sizes
            return Array(name, sizes)
        self = super().__new__(cls, name, (step.size, *sizes))
        self.step = step
        return self

    def __getitem__(self, indices) -> Indexed:
        indices = indices if isinstance(indices, tuple) else (indices,)
        return super().__getitem__((self.step, *indices) if len(indices) == len(self.sizes) - 1 else indices)


@dataclass
class Lines:
    """The program that a function amounts to, as it is written down; `step` is that of the loop that is being read."""

    names: set[str]
    groups: list[Group] = field(default_factory=list)
    constants: dict[Name, ExtremeMask | np.ndarray] = field(default_factory=dict)  # and what they are
    notes: dict[str, None] = field(default_factory=dict)  # assumptions
    known: dict[tuple, Name] = field(default_factory=dict)  # names by their formulas
    reserved: set[str] = field(default_factory=set)  # the user's names for other tensors than the one that is named
    avoided: set[str] = field(default_factory=set)  # those of them that a line would have had
    step: Step | None = None
    silent: bool = False  # is a constant read, whose formula gets no name?

    @property
    def signs(self) -> Signs:
        """What is known of signs, by the definitions so far."""
        return Signs(line for group in self.groups for line in group.lines)

    def unused(self, wanted: str) -> str:
        """The name that was wanted, with a number behind it if it is taken or reserved."""
        wanted = wanted if wanted.isidentifier() else "u"
        numbered = (f"{wanted}{k}" for k in itertools.count(2))
        if wanted in self.reserved and wanted not in self.names:
            self.avoided.add(wanted)
        name = next(n for n in itertools.chain([wanted], numbered) if n not in self.names | self.reserved)
        self.names.add(name)
        return name

    def left(self, name: str, value: Value) -> tuple[Name, Expr, list[Index]]:
        """A new name for a value: the array (or symbol), its entry, and the indices of that."""
        indices = value.indices([self.step] if self.step is not None else ())
        name = self.unused(name)
        if self.step is not None and S(value.entry(*indices)).has(self.step):
            array = StepArray(name, tuple(value.sizes), self.step)
            return array, array[tuple(indices)], indices
        if not indices:
            symbol = Symbol(name, real=True)
            return symbol, symbol, indices
        array = Array(name, tuple(value.sizes))
        return array, array[tuple(indices)], indices

    def name(self, value: Value, wanted: str, where: str = "", **marks) -> Value:
        """Write the line `wanted := value`, and give the value back as an entry of it; `marks` are of its group."""
        if self.silent:
            return value
        indices = value.indices()
        if (old := self.known.get(formula_key(value.entry(*indices), indices))) is not None:
            return value_of_name(old, value)  # the same formula has a name already
        array, entry, indices = self.left(wanted, value)
        right = fresh(S(value.entry(*indices)))
        self.known[formula_key(right, indices)] = array
        self.groups.append(Group([Definition(entry, right)], [], where, **marks))
        return value_of_name(array, value)


def value_of_name(array: Name, like: Value) -> Value:
    """The entries of a name as a value."""
    return replace(like, entry=(lambda: array) if isinstance(array, Symbol) else (lambda *indices: array[indices]))


def as_plain_entry(value: Value) -> Indexed | Symbol | None:
    """The entry of a name that a value is, its indices in any order; None if it is a formula."""
    indices = value.indices()
    expr = value.entry(*indices)
    if isinstance(expr, Symbol) and not isinstance(expr, Size | Index):
        return expr
    if isinstance(expr, Indexed) and len(set(expr.indices)) == len(expr.indices):
        letters = {i for i in expr.indices if not isinstance(i, Step)}
        return expr if letters == set(indices) and value.finite is None else None
    return None


def name_like(name: Name, text: str) -> Name:
    """Another name for the same array or number."""
    return Array(text, name.sizes) if isinstance(name, Array) else Symbol(text, real=True)


def entry_like(entry: Expr, name: Name) -> Expr:
    """The entry of a name at the indices of another entry."""
    return name[entry.indices] if isinstance(entry, Indexed) else name


def renamed(expr: Expr, change: Mapping[Name, Name]) -> Expr:
    """The expression with other names for arrays and numbers."""
    entries = {e: change[e.base][e.indices] for e in expr.atoms(Indexed) if e.base in change}
    return expr.xreplace(entries | {s: change[s] for s in expr.atoms(Symbol) if s in change})

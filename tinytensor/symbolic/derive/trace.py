"""From the user's function to a program of formulas: the terms of its reading, with meanings, as lines with names."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

import numpy as np
from sympy import Expr, Integer, Mod, Mul, Pow, S, Symbol, cos, exp, floor, log, sin

from tinytensor.symbolic.derive.arguments import Argument, arguments, symbols_of
from tinytensor.symbolic.derive.conditions import SizeCondition, remainder, size_condition
from tinytensor.symbolic.derive.domains import domain_of
from tinytensor.symbolic.derive.facts import ARRAYS, Fact
from tinytensor.symbolic.derive.loops import Loop, LoopLines, all_steps
from tinytensor.symbolic.derive.semantics import (
    INDEX_OPERATIONS,
    OP_SEMANTICS,
    REFUSED,
    SymbolicCall,
    as_number,
    moved,
    number,
)
from tinytensor.symbolic.derive.values import Lines, Value, as_plain_entry, dims_of, value_of_name
from tinytensor.symbolic.index_calculus.adjoints import Name
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size
from tinytensor.symbolic.index_calculus.functions import PiecewiseConstant, detach
from tinytensor.symbolic.index_calculus.linear_algebra import MatrixEntry, OfMatrix
from tinytensor.symbolic.index_calculus.signs import of_numbers
from tinytensor.symbolic.index_calculus.vanishing import together
from tinytensor.symbolic.reading.errors import NotDerivable, Split
from tinytensor.symbolic.reading.program import read
from tinytensor.symbolic.reading.rounding import ROUNDED
from tinytensor.symbolic.reading.sizes import formula_of, never_negative, remainders, sides
from tinytensor.symbolic.reading.tensors import Term
from tinytensor.symbolic.time_limit import step

LATER = {"result_1", "rows", "flip"}
CONSTANTS = {"full", "arange", "tri", "eye", "linspace"}
_SCALARS = {"layer_norm", "rms_norm", "attention", "cross_entropy_rows", "cross_entropy_mean"}


class Trace:
    """A function's program: its arguments, lines and result.

    arguments: by name; a tensor as `Argument`. lines: the groups of definitions. result: the result as a value.
    """

    def __init__(
        self,
        fn: Callable,
        args: dict[str, object],
        split: dict,
        needs_gradient: bool = True,
        where: Sequence[SizeCondition] = (),
        reserved: Collection[str] = (),
    ):
        self.fn, self.arguments, self.split = fn, arguments(args, split), split
        self.sizes, self.user = symbols_of(self.arguments), symbols_of(arguments(args, {}))
        self.tensors = {n: a for n, a in self.arguments.items() if isinstance(a, Argument)}
        self.program = read(fn, self.arguments, where, split)
        conditions = dict.fromkeys([*where, *_divisible(split, self.user), *self._conditions()])
        self.size_conditions = [condition for condition in conditions if condition is not None]
        self.domains = [together([], self.program.values)]  # where the operations have values
        self.lines = Lines({str(s) for s in self.sizes} | set(self.tensors) | set(reserved))
        self.arrays = {}
        self.values: dict[int, Value] = {}  # by the id of a term
        self.loops: list[Loop] = []
        self.steps: dict[Symbol, Expr] = {}  # the number of a step in the formulas of the reading
        self.rows = {}  # what a loop has collected, by the id of the term of all steps: see all_steps()
        for name, a in self.tensors.items():
            below = a.below
            taken = {f"d{n}" for n in self.tensors}  # the adjoint of x is called dx
            label, shown = (f"{name}_", {"text": name}) if name in taken else (name, {})
            array = ARRAYS[a.what if len(a.sizes) == 2 else ""]  # the laws of matrices are those of two indices
            array = array(label, a.sizes, values=below, **shown) if a.sizes else Symbol(label, real=True)
            if a.what:
                self.lines.notes[str(Fact(name, a.what))] = None
            self.arrays[name] = array
            value = value_of_name(array, Value(a.dims, None, "f" if below is None else "i"))
            self.values[id(self.program.arguments[name])] = value
        self.labels = {t.label for t in self.program.terms if t.label}
        self._read()
        self.lines.reserved = set()
        if needs_gradient and not getattr(self.program.result, "on_tape", False):
            raise NotDerivable("derive: the result has no gradient: no float argument reaches it on the tape")
        self.result = self.value(self.program.result)

    @property
    def unnamed_sizes(self) -> dict[Size, Expr]:
        """The sizes that the user did not name, N2 of N = 2 N2, by those that have a name: N/2."""
        whole = {}
        for size, parts in self.split.items():
            unnamed = [p for p in parts if isinstance(p, Size) and p not in self.user]
            if size in self.user and len(unnamed) == 1:
                whole[unnamed[0]] = size * unnamed[0] / Mul(*parts)
        return whole

    def entry_of(self, name: str, used: Sequence[Index] = ()) -> Expr:
        """An entry of an argument, with letters for its indices that are not used."""
        value = value_of_name(self.arrays[name], Value(self.tensors[name].dims, None))
        return value.entry(*value.indices(used))

    @property
    def parameters(self) -> dict[str, Expr]:
        """An entry of each argument that has a gradient."""
        return {n: self.entry_of(n) for n, a in self.tensors.items() if a.below is None}

    @property
    def tables(self) -> list[Name]:
        """The arguments of whole numbers, which have no gradient."""
        return [self.arrays[n] for n, a in self.tensors.items() if a.below is not None]

    def formula(self, n) -> Expr:
        """A number, a size or a formula of sizes, with the index of the step that is read."""
        return formula_of(n).xreplace(self.program.solved | self.steps)

    def _conditions(self) -> Iterator[SizeCondition | None]:
        """The conditions of the reading, in the user's sizes; None for one that holds always."""
        whole = self.unnamed_sizes
        for operation, p, _ in self.program.conditions:
            solved = lambda q: q.xreplace(self.program.solved).xreplace(whole)  # noqa: E731
            _, over, divisor, rem = next(iter(remainders(p) if operation != ">=" else ()), [None] * 4)
            if over is None:
                yield size_condition(operation, *map(solved, sides(p)))
            elif operation == "==" or divisor == 2:  # N == 2 (N // 2) + 1 as N % 2 == 1
                yield remainder(solved(over), divisor, rem if operation == "==" else 1 - rem % 2)
            else:
                yield SizeCondition(Mod(solved(over), divisor, evaluate=False), "!=", rem % divisor)

    # ------------------------------------------------------------------------------------------------ terms

    def _read(self) -> None:
        """Turn the terms, in their order, into values and lines."""
        for term in self.program.terms:
            if term.name == "loop":
                body = [t for t in self.program.terms if t.inside is term.loop]
                loop = LoopLines(self, term.loop, body, term.where)
                loop.begin()
                for inner in body:
                    self._read_term(inner)
                loop.end()
            elif term.inside is None:
                self._read_term(term)

    def _read_term(self, term: Term) -> None:
        step()
        if term.depends and term.name not in LATER and (term.name, _first(term)) != ("cumsum", "flip"):
            self.value(term)  # those are read where they are used

    def value(self, a) -> Value:
        """The value of a term, or of an array that no argument reaches."""
        if not isinstance(a, Term):
            return self.constant(np.asarray(a))
        if id(a) not in self.values:
            before, self.lines.silent = self.lines.silent, self.lines.silent or not a.depends
            try:
                self.values[id(a)] = self._value(a)
            finally:
                self.lines.silent = before
            if not a.depends and a.label and not before:
                self.values[id(a)] = self._named_constant(self.values[id(a)], a)
        return self.values[id(a)]

    def _named_constant(self, value: Value, term: Term) -> Value:
        """A constant that the user's code names, as a line if its formula is no mask and no polynomial."""
        expr = S(value.entry(*value.indices()))
        powers = any(not p.exp.is_Integer for p in expr.atoms(Pow))
        if value.dtype == "f" and value.finite is None and value.sizes and (powers or expr.has(cos, sin, exp, log)):
            return self.lines.name(value, term.label, where=term.where, by_user=True)
        return value

    def _value(self, term: Term) -> Value:
        if term.name == "same":
            return self.value(term.args[0])
        if term.name == "detach":
            value = self.value(term.args[0])
            if value.dtype == "f" and getattr(term.args[0], "on_tape", False):
                return Value(value.dims, lambda *indices: _detached(value.entry(*indices)), "f", value.finite)
            return value
        if term.name.startswith("result_"):
            self.value(term.args[0])
            if (value := self.values.get((id(term.args[0]), int(term.name[7:])))) is None:
                raise NotDerivable(f"derive: {term.args[0].name}{term.where}: the places of its result have no formula")
            return value
        if term.name == "flip" and (value := self._flipped(term)) is not None:
            return value
        if term.name == "rows":
            value = all_steps(*self.rows[id(term)], term.where)
            return self.lines.name(value, term.label, where=term.where, by_user=True) if term.label else value
        args = self._settings(term) if term.name in CONSTANTS else [self._argument(a, term) for a in term.args]
        value, *further = self._semantics(term, args, term.label)
        for n, more in enumerate([value, *further]):
            self.values[id(term), n] = more
        return value

    def _flipped(self, term: Term) -> Value | None:
        """A constant in the reversed order; flip(flip(x)); flip(cumsum(flip(x))), the running sum from the end."""
        inner, dims = term.args
        if _first(term) == "flip" and inner.args[1] == dims:
            return self.value(inner.args[0])
        if _first(term) == "cumsum" and _first(inner) == "flip" and inner.args[0].args[1] == dims == inner.args[1:2]:
            x, axis, reverse = inner.args[0].args[0], *map(Integer, inner.args[1:])
            return self._semantics(term, [as_number(self.value(x)), axis, 1 - reverse], term.label, "cumsum")[0]
        if term.depends:
            return None
        x = as_number(self.value(inner))
        turned = [n in {int(d) % len(x.dims) for d in dims} for n, dim in enumerate(x.dims) for _ in dim]

        def source(*indices):
            return [n + 1 - i if turn else i for i, n, turn in zip(indices, x.sizes, turned, strict=True)]

        return moved(x, x.dims, source)

    def _semantics(self, term: Term, args: list, name: str, op: str = "") -> tuple[Value, ...]:
        """The values of an operation on these arguments; a line gets the name, if there is one."""
        op = op or term.name
        semantics = OP_SEMANTICS.get(op)
        if semantics is None:
            why = REFUSED.get(op, "there is no index formula for this operation; prove() checks it at small sizes")
            raise NotDerivable(f"derive: {op}{term.where}: {why}")
        symbolic_call = SymbolicCall(op, args, self.lines, name, term.where)
        symbolic_call.never_negative = lambda p: never_negative(self.program.number(p))
        self.lines.reserved = self.labels - {name}
        try:
            symbolic_call.check_finite(op)
            self._check_rounding(term, symbolic_call)
            value, *further = results if isinstance(results := semantics(symbolic_call), tuple) else (results,)
            if op in INDEX_OPERATIONS:
                value.entry(*value.indices())
            wanted = symbolic_call.wanted
            if wanted and value.dtype == "f" and value.finite is None and not self.lines.silent:
                value = self._name_by_user(value, wanted, term.where)
        except NotDerivable:
            raise
        except TypeError as error:  # an index that does not fit for each size
            reading = self.program
            reading.take_multiples(*[a for a in reading.quotients if str(a) in str(error)])
            advice = "; a slice, or flip() for a reversed order, can be read" if op == "take" else ""
            raise NotDerivable(f"derive: {op}{term.where}: {error}{advice}") from error
        self.domains.append(together([domain_of(op, args, self.lines.signs)], symbolic_call.conditions))
        return value, *further

    def _check_rounding(self, term: Term, call: SymbolicCall) -> None:
        """Refuse to compare or round 0 x + 7/10, of which no condition leaves out a value, as of real numbers."""
        formulas = [S(a.entry(*a.indices())) for a in call.args if isinstance(a, Value)]
        if not term.is_sure and not any(of_numbers(f) or f.has(OfMatrix) for f in formulas):
            raise NotDerivable(f"derive: {term.name} {ROUNDED}{term.where}")

    def _name_by_user(self, value: Value, wanted: str, where: str) -> Value:
        """A formula under the user's own name; a view of a name stays a view."""
        expr = value.entry(*value.indices())
        if as_plain_entry(value) is not None:
            for group in self.lines.groups:
                if group.output.name == getattr(expr, "base", None) and not group.by_user:
                    group.wanted = group.wanted or wanted  # the operation's result, seen in another order
        if expr.is_Atom or hasattr(expr, "base") or isinstance(expr, MatrixEntry):  # S⁻¹ is its own name
            return value
        return self.lines.name(value, wanted, where=where, by_user=True)

    # ------------------------------------------------------------------------------------ arguments of a term

    def _argument(self, a, term: Term):
        if isinstance(a, Term | np.ndarray):
            return self.value(a) if term.name in INDEX_OPERATIONS else as_number(self.value(a))
        if isinstance(a, tuple | list):
            return tuple(self._argument(part, term) for part in a)
        if isinstance(a, slice):
            return slice(*(self._argument(part, term) for part in (a.start, a.stop, a.step)))
        if a is None or a is ... or isinstance(a, str | np.dtype):
            return a
        # an elementwise operation has operands alone; a setting, such as an axis, is no value
        formulas = term.name != "entries" if term.op is None else term.op.kernel is not None
        if formulas or ((isinstance(a, float) or term.name in _SCALARS) and not isinstance(a, bool)):
            return number(self.formula(a))
        return self._whole(self.formula(a), f"{term.name}{term.where}")

    def _whole(self, formula: Expr, what: str) -> Expr:
        """A formula that is whole at every size; a size that is halved in it is taken apart."""
        fractions = [term for term, number in formula.as_coefficients_dict().items() if not number.is_Integer]
        if S.One not in fractions:
            self.program.take_multiples(formula)  # a size is halved, as in x[: N // 2]
        if formula.has(floor) or fractions:
            widths = [n for part in formula.atoms(floor) if (n := part.args[0].as_numer_denom()[1]).is_Integer]
            advice = f'; write the size as "{widths[0]}*M + 1", whose steps can be counted for any M' if widths else ""
            raise NotDerivable(f"derive: {what}: {formula} is whole at some sizes alone{advice}")
        return formula

    # ------------------------------------------------------------------------------------ constants

    def constant(self, array: np.ndarray) -> Value:
        """An array of numbers: one number, evenly spaced whole numbers, or an array of any values."""
        dims = dims_of(array.shape)
        dtype = {"b": "b", "i": "n", "u": "n"}.get(array.dtype.kind, "f")
        if array.size and (array == array.flat[0]).all():
            number = self.formula(array.flat[0].item())
            return Value(dims, lambda *indices: number, dtype)
        if array.ndim == 1 and dtype == "n" and len(set(np.diff(array.astype(object)))) == 1:
            start, each = int(array[0]), int(array[1]) - int(array[0])
            return Value(dims, lambda i: start + each * (i - 1), dtype)
        if dtype == "f" and np.isneginf(array).any():
            finite, inside = self.constant(~np.isneginf(array)), self.constant(np.where(np.isneginf(array), 0.0, array))
            return Value(inside.dims, inside.entry, "f", finite.entry)
        for name, known in self.lines.constants.items():
            if isinstance(known, np.ndarray) and known.shape == array.shape and np.array_equal(known, array):
                return value_of_name(name, Value(dims, None, dtype))
        name = self.lines.unused("const")
        made = Array(name, tuple(f for dim in dims for f in dim)) if any(dims) else Symbol(name, real=True)
        self.lines.constants[made] = array
        self.lines.notes[f"{name}, of shape ({', '.join(map(str, array.shape))}), may have any values"] = None
        return value_of_name(made, Value(dims, None, dtype))

    def _settings(self, term: Term) -> list:
        """The dimensions of a constant, N2*2 and not 2*N2 for a size that was taken apart; its numbers as values."""
        sizes, *numbers = term.args
        dims = dims_of([self._whole(self.formula(n), f"{term.name}{term.where}") for n in sizes])
        orders = {Mul(*parts): tuple(parts) for parts in self.split.values()}
        dims = tuple(orders.get(Mul(*dim), dim) if len(dim) > 1 else dim for dim in dims)
        return [dims, *map(self._number, numbers)]

    def _number(self, n) -> Value:
        if isinstance(n, Term | np.ndarray):
            return as_number(self.value(n))
        formula, dtype = self.formula(n), "b" if isinstance(n, bool) else "n" if isinstance(n, int) else "f"
        return Value((), lambda: formula, dtype)


def _first(term: Term) -> str:
    """The name of a term's first argument."""
    return getattr(term.args[0], "name", "") if term.args else ""


def _detached(entry: Expr) -> Expr:
    """The entry, held constant; steps are constant in any case."""
    return entry if entry.is_number or isinstance(entry, PiecewiseConstant) else detach(entry)


def format_sizes(numbers: dict[Size, int]) -> str:
    """Numbers for sizes in words: N = 5, D = 7."""
    return ", ".join(f"{s} = {n}" for s, n in numbers.items())


def _divisible(split: dict[Size, tuple[Expr, ...]], user: list[Size]) -> list[SizeCondition]:
    """The conditions that the user's sizes are multiples of numbers and of sizes, since they were taken apart."""
    unequal = {s: parts for s, parts in split.items() if s in user and not {*parts} <= {*user}}  # N = H K says more
    numbers = {s: Mul(*[p for p in parts if p.is_Integer or p in user]) for s, parts in unequal.items()}
    return [SizeCondition(Mod(s, n, evaluate=False), "==", S.Zero) for s, n in numbers.items() if n != 1]


def _more(split: dict, whole: Size, parts: tuple[Expr, ...]) -> dict[Size, tuple[Expr, ...]]:
    """Sizes that are taken apart, and one more."""
    parts = tuple(map(S, parts))
    within = {s: tuple(q for p in ps for q in (parts if p == whole else (p,))) for s, ps in split.items()}
    return within | {whole: parts}


def trace(
    fn: Callable,
    arguments: dict[str, object],
    needs_gradient: bool = True,
    where: Sequence[SizeCondition] = (),
    split: dict[Size, tuple[Expr, ...]] | None = None,
    reserved: Collection[str] = (),
) -> Trace:
    """The program of a function; sizes that it takes apart, or that `split` does, are taken apart everywhere.

    reserved: names that its lines must not have.
    """
    split = dict(split or {})
    for _ in range(8):
        try:
            return Trace(fn, arguments, split, needs_gradient, where, reserved)
        except Split as error:
            *before, last = [_more(split, error.size, parts) for parts in error.products]
            for known in before:
                with suppress(NotDerivable):
                    return trace(fn, arguments, needs_gradient, where, known, reserved)
            split = last
    raise NotDerivable(f"derive: the sizes would have to be taken apart again and again: {split}")

"""From the user's function to a program of formulas: its recorded runs, read as one with sizes that are symbols."""

import itertools
import math
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import numpy as np
from sympy import Add, Expr, Indexed, Integer, KroneckerDelta, Mul, S, Symbol

from tinytensor.core.tensor import Tensor
from tinytensor.ops.matrices import LinAlgError
from tinytensor.runtime.entry_points import is_ours
from tinytensor.symbolic.derive.arguments import (
    NUMBERS,
    Argument,
    arguments,
    numbers_for,
    sample,
    symbols_of,
)
from tinytensor.symbolic.derive.conditions import (
    NEGATED,
    Signs,
    SizeCondition,
    conditions_of,
    remainder,
    size_condition,
)
from tinytensor.symbolic.derive.facts import ARRAYS, Fact
from tinytensor.symbolic.derive.loops import collected_steps, read_loop, refuse_questions_about_steps
from tinytensor.symbolic.derive.recording import (
    NotDerivable,
    RecordedCall,
    Run,
    Stamp,
    as_written,
    fit,
    fit_linear,
    record,
)
from tinytensor.symbolic.derive.semantics import (
    INDEX_OPERATIONS,
    OP_SEMANTICS,
    REFUSED,
    FactoredIndex,
    SymbolicCall,
    as_number,
    number,
)
from tinytensor.symbolic.derive.steps import Loop, Repeated, calls_as_keys, parts_of
from tinytensor.symbolic.derive.values import (
    Lines,
    RecordedConstant,
    Split,
    Value,
    as_plain_entry,
    dims_of,
    tensors_of,
    value_of_name,
)
from tinytensor.symbolic.index_calculus.adjoints import names_in
from tinytensor.symbolic.index_calculus.formulas import Array, PiecewiseConstant, Size, detach, not_negative, upto
from tinytensor.symbolic.index_calculus.interruption import step
from tinytensor.symbolic.index_calculus.linear_algebra import MatrixEntry

LARGEST = 200_000  # entries of an argument in a run
STEPS = 400  # of a loop in its longest run
RETRIES = (1, 2, 4, 3, 6, 8, 12)  # sizes are multiples of these if the function fails at primes


class Unexplained(NotDerivable):
    """A number of the runs for which there is no formula of the sizes; other sizes may show one."""


class Trace:
    """A function's program: its arguments, lines and result, and the runs that they were read from.

    arguments: by name; a tensor as `Argument`. lines: the groups of definitions. result: the result as a value.
    """

    def __init__(
        self,
        fn: Callable,
        args: dict[str, object],
        split: dict,
        needs_gradient: bool = True,
        start: int = 0,
        where: Sequence[SizeCondition] = (),
        reserved: Collection[str] = (),
    ):
        self.fn, self.arguments, self.split, self._args = fn, arguments(args, split), split, args
        self.sizes = symbols_of(self.arguments)
        self.tensors = {n: a for n, a in self.arguments.items() if isinstance(a, Argument)}
        self.compared_runs = _runs(fn, self.arguments, self.sizes, split, where, start)
        self.runs = [*self.compared_runs, *self._long_runs(where)]
        self.at = [run.at for run in self.runs]
        user = symbols_of(arguments(args, {}))
        self.size_conditions = list(dict.fromkeys([*where, *_divisible(split, user), *self._answers(user)]))
        self.value_conditions: dict[str, None] = {}  # keys of conditions.VALUES
        self.lines = Lines({str(s) for s in self.sizes} | set(self.tensors) | set(reserved))
        self.arrays = {}
        self.tables: list[tuple[list[np.ndarray], Value]] = []  # constants of any values
        self.values: list[dict] = [{} for _ in self.runs]  # Stamp.values of a tensor of a run: its formula
        self.nodes: list[dict] = [{} for _ in self.runs]  # Stamp.node
        self.ranges: dict[SizeCondition, None] = {}  # under which no size of a tensor is below 0
        self.loops: list[Loop] = []
        self.steps: list[dict] = [{} for _ in self.runs]  # Stamp.values of a result of a loop: (loop, step, call)
        for name, a in self.tensors.items():
            below = a.below
            array = ARRAYS[a.what](name, a.sizes, values=below) if a.sizes else Symbol(name, real=True)
            if a.what:
                self.lines.notes[str(Fact(name, a.what))] = None
            self.arrays[name] = array
            value = value_of_name(array, Value(a.dims, None, "f" if below is None else "i"))
            for values, run in zip(self.values, self.runs, strict=True):
                values[Stamp.of(run.inputs[name]).values] = value
        self._read()
        self.lines.reserved = set()
        if needs_gradient and not self.runs[0].result._requires_grad:
            raise NotDerivable("derive: the result has no gradient: no float argument reaches it on the tape")
        self.result = self._value([run.result for run in self.runs], "the result", None)

    def _long_runs(self, where: Sequence[SizeCondition]) -> list[Run]:
        """Runs of many steps of a loop, one for each size that changes the number of calls.

        In the other runs a step that differs late would not be met. The results of these runs are not compared with
        the formulas, since rounding may grow from step to step.
        """
        first, runs = self.compared_runs[0], []
        if len({len(run.calls) for run in self.compared_runs}) == 1:
            return runs
        for size in self.sizes:

            def run_of(number: int, size: Size = size) -> Run | None:
                at = first.at | {size: number}
                return _run_at(self.fn, self.arguments, at, self.split, where)

            run = run_of(STEPS)
            if run is None:  # at the largest number that the function takes arrays may be empty, or of one element
                fits, fails = first.at[size], STEPS
                while fails - fits > 1:
                    number = (fits + fails) // 2
                    takes = run_of(number) is not None
                    fits, fails = (number, fails) if takes else (fits, number)
                run = run_of(first.at[size] + (fits - first.at[size]) * 9 // 10)
            if run is not None and len(run.calls) != len(first.calls):
                runs.append(run)
        return runs

    @property
    def unnamed_sizes(self) -> dict[Size, Expr]:
        """The sizes that the user did not name, N2 of N = 2 N2, by those that have a name: N/2."""
        whole, user = {}, symbols_of(arguments(self._args, {}))
        for size, parts in self.split.items():
            unnamed = [p for p in parts if isinstance(p, Size) and p not in user]
            if size in user and len(unnamed) == 1:
                whole[unnamed[0]] = size * unnamed[0] / Mul(*parts)
        return whole

    def _answers(self, user: list[Size]) -> list[SizeCondition]:
        """The conditions under which the code's questions about sizes have the answers that they have in the runs."""
        conditions, whole = [], self.unnamed_sizes
        for questions in itertools.zip_longest(*(run.questions for run in self.runs)):
            first = next(q for q in questions if q is not None)
            if any(q is None or (q.operation, q.where) != (first.operation, first.where) for q in questions):
                raise NotDerivable(
                    f"derive: the function asks other things about its sizes at other sizes{first.where}"
                )
            left, right = (fit_linear([getattr(q, side) for q in questions], self.at) for side in ("left", "right"))
            if left is None or right is None or first.operation == "bits":
                raise NotDerivable(
                    f"derive: the code depends on a number that no formula of the sizes explains{first.where}; write "
                    "it for all sizes at once, or prove() it at one"
                )
            left, right = left.xreplace(whole), right.xreplace(whole)
            answers = {q.answer for q in questions}
            what = f"{left} {first.operation} {right}"
            if len(answers) > 1:
                answers_in_words = "; ".join(
                    f"{q.answer} at {format_sizes(run.at)}" for q, run in zip(questions, self.runs, strict=True)
                )
                raise Unexplained(
                    f"derive: the function depends on {what}, which is {answers_in_words}{first.where}; "
                    'choose one case, as in where="N > 3", write it for all sizes at once, or prove() it at one'
                )
            answer = answers.pop()
            if first.operation == "%":
                condition = remainder(left, right, as_written(answer))
            else:
                condition = size_condition(first.operation if answer else NEGATED[first.operation], left, right)
            conditions += [condition] if condition is not None else []
        return conditions

    def _read(self) -> None:
        """Turn the calls of all runs, in step, into values and lines."""
        counts = [len(run.calls) for run in self.runs]
        same_calls = zip(*(run.calls for run in self.runs), strict=False)
        if len(set(counts)) == 1 and all(len({c.op.name for c in calls}) == 1 for calls in same_calls):
            for calls in zip(*(run.calls for run in self.runs), strict=True):
                self._read_call(calls)
            return
        refuse_questions_about_steps(self.runs)
        parts = parts_of([calls_as_keys(run) for run in self.runs], self.at)
        if parts is None:
            pairs = zip(*(run.calls for run in self.runs), strict=False)
            other = next((calls[0] for calls in pairs if len({c.op.name for c in calls}) > 1), None)
            longest = max(self.runs, key=lambda run: len(run.calls))
            raise NotDerivable(_calls_differ(other or longest.calls[min(counts)], self.runs))
        read = 0  # calls behind a loop that were read with it
        for part in parts:
            if isinstance(part, Repeated):
                read = read_loop(self, part)
            elif read:
                read -= 1
            else:
                self._read_call(tuple(run.calls[n] for run, n in zip(self.runs, part, strict=True)))

    def _read_call(self, calls: Sequence[RecordedCall]) -> None:
        """Turn one call, as it is in each run, into a value and lines."""
        first, others = calls[0], []
        if not any(self._known(n, a, c.stamps[id(a)]) for n, c in enumerate(calls) for a in tensors_of(c.args)):
            if (collected := collected_steps(self, calls)) is None:
                return  # computed from numbers alone: a constant, which is read where it is used
            value = collected
        elif (collected := collected_steps(self, calls)) is not None:
            value = collected
        else:
            args = [self._argument([c.args[k] for c in calls], first, calls) for k in range(len(first.args))]
            value, *others = self._semantics(first, args, self.runs[0].names.get(id(first.result)) or "")
        for n, c in enumerate(calls):
            self._know(n, c, value)
            for more, known in zip(c.result[1:] if others else (), others, strict=True):
                self.values[n][c.stamps[id(more)].values] = known

    def _know(self, run: int, call: RecordedCall, value: Value) -> None:
        """Note the value of a call's result, and that none of its sizes is below 0."""
        for n in value.sizes:
            if n.is_Add and not not_negative(n) and (one := _not_below_zero(n)) is not None:
                self.ranges[one] = None
        out = call.result[0] if isinstance(call.result, tuple) else call.result
        stamp = call.stamps[id(out)]
        self.values[run][stamp.values] = value
        if stamp.node is not None:
            self.nodes[run][stamp.node] = value

    def _semantics(self, call: RecordedCall, args: list, name: str, op: str = "") -> tuple[Value, ...]:
        """The values of a call of these arguments, or of the operation `op`; a line gets the name, if there is one."""
        if not op and not is_ours(call.op):
            raise NotDerivable(
                f"derive: {call.op.name}{call.where}: an operation of your own has no index formula; write it with "
                "those of tinytensor, or prove() it at small sizes"
            )
        op = op or call.op.name
        semantics = OP_SEMANTICS.get(op)
        if semantics is None:
            why = REFUSED.get(op, "there is no index formula for this operation; prove() checks it at small sizes")
            raise NotDerivable(f"derive: {op}{call.where}: {why}")
        if op not in INDEX_OPERATIONS:
            args = [_numbers(a) for a in args]
        symbolic_call = SymbolicCall(op, args, self.lines, name, call.where)
        self.lines.reserved = set(self.runs[0].names.values()) - {name}
        symbolic_call.at = self.at
        try:
            value, *others = results if isinstance(results := semantics(symbolic_call), tuple) else (results,)
            if op in INDEX_OPERATIONS:
                value.entry(*value.indices())
        except NotDerivable:
            raise
        except TypeError as error:  # an index that does not fit for each size
            advice = "; a slice, or flip() for a reversed order, can be read" if op == "take" else ""
            raise NotDerivable(f"derive: {op}{call.where}: {error}{advice}") from error
        self.value_conditions |= dict.fromkeys(
            (*symbolic_call.conditions, *conditions_of(op, args, Signs(self.lines.groups)))
        )
        self.size_conditions += [c for c in symbolic_call.size_conditions if c not in self.size_conditions]
        wanted = symbolic_call.wanted
        if wanted and value.dtype == "f" and value.finite is None:
            value = self._name_by_user(value, wanted, call.where)
        return value, *others

    def _name_by_user(self, value: Value, wanted: str, where: str) -> Value:
        """A formula under the user's own name; a view of a name stays a view."""
        expr = value.entry(*value.indices())
        if isinstance(expr, MatrixEntry):
            return value  # S⁻¹ is its own name
        if isinstance(expr, Indexed):
            group = next((g for g in self.lines.groups if g.output.name == expr.base), None)
            if group is not None and not group.by_user and as_plain_entry(value) is not None:
                group.wanted = group.wanted or wanted  # the operation's result, seen in another order
            return value
        if expr.is_Atom:
            return value
        return self.lines.name(value, wanted, where=where, by_user=True)

    # ------------------------------------------------------------------------------------ arguments of a call

    def _known(self, run: int, a, stamp: Stamp) -> bool:
        return isinstance(a, Tensor) and (a._requires_grad or self._lookup(run, a, stamp) is not None)

    def _lookup(self, run: int, a: Tensor, stamp: Stamp) -> Value | None:
        """The formula of a tensor, or of a known one that has the same memory, as detach() and Function make."""
        for known, key in ((self.values[run], stamp.values), (self.nodes[run], stamp.node)):
            if key in known:
                return known[key]
        for x in (*self.runs[run].inputs.values(), *self.runs[run].kept):
            for b in tensors_of(x if isinstance(x, tuple) else (x,)):
                if b is not a and (value := self.values[run].get((id(b), stamp.values[1]))) and _one_memory(a, b):
                    return value
        return None

    def _moves(self, value: Value) -> bool:
        """Does the value depend on an argument of floats, so that a gradient could pass?"""
        moving = {self.arrays[n] for n, a in self.tensors.items() if a.below is None}
        moving |= {name for loop in self.loops for state in loop.states for name in (state.before, state.final)}
        for line in [line for group in self.lines.groups for line in group.lines]:
            if names_in(line.right) & moving:
                moving.add(line.name)
        return bool(names_in(S(value.entry(*value.indices()))) & moving)

    def _argument(self, values: list, call: RecordedCall, calls):
        first = values[0]
        if isinstance(first, Tensor) and all(isinstance(v, Tensor) for v in values):
            return self._value(values, call.op.name + call.where, calls)
        if isinstance(first, tuple | list):
            if len({len(g) for g in values}) > 1:
                raise NotDerivable(_calls_differ(call, self.runs))
            return tuple(self._argument([g[k] for g in values], call, calls) for k in range(len(first)))
        if isinstance(first, slice):
            return slice(
                *(self._argument([getattr(g, k) for g in values], call, calls) for k in ("start", "stop", "step"))
            )
        if first is None or first is ... or isinstance(first, str | np.dtype):
            return first
        formula = fit(values, self.at)
        if formula is None and all(isinstance(v, int) for v in values):
            linear = fit_linear(values, self.at)  # the half of an odd size has another formula at even ones
            whole = linear is not None and all(c.is_Integer for c in linear.as_coefficients_dict().values())
            formula = linear if whole else None
        if formula is None:
            raise Unexplained(
                f"derive: {call.op.name}{call.where}: the number {first} is {', '.join(map(str, values))} at the sizes "
                f"{'; '.join(format_sizes(a) for a in self.at)}, which no simple formula of the sizes explains"
            )
        return self.operand(formula, first, call)

    def operand(self, formula: Expr, first, call: RecordedCall) -> Value | Expr:
        """A number of a call by its formula: an operand as a value, a setting such as an axis as it is."""
        is_setting = isinstance(first, bool) and call.op.kernel is None  # an elementwise operation has operands alone
        is_scalar = isinstance(first, float) or call.op.kernel is not None or call.op.name in _SCALARS
        return number(formula) if is_scalar and not is_setting else formula

    def _value(self, tensors: list, what: str, calls) -> Value:
        known = []
        for n, x in enumerate(tensors):
            stamp = Stamp.of(x) if calls is None else calls[n].stamps.get(id(x), Stamp.of(x))
            known.append(self._lookup(n, x, stamp))
        if (value := known[0]) is not None:
            on_tape = calls is None or any(y._requires_grad for y in tensors_of((calls[0].result,)))
            if on_tape and not tensors[0]._requires_grad and value.dtype == "f" and self._moves(value):  # detach()
                return Value(value.dims, lambda *at: _detached(value.entry(*at)), "f", value.finite)
            return value
        arrays = None
        if calls is not None and all(id(x) in c.constants for c, x in zip(calls, tensors, strict=True)):
            arrays = [c.constants[id(x)] for c, x in zip(calls, tensors, strict=True)]
        if calls is None and not any(x._requires_grad for x in tensors):
            arrays = [x._data for x in tensors]  # a result that is a constant
        if arrays is None or any(x._requires_grad for x in tensors):
            raise NotDerivable(
                f"derive: {what}: a tensor that was changed in place, or made from an argument's values, in a way that "
                "can't be followed; make a new tensor (y = y * 2, tt.where, tt.cat) in place of changing a part of one"
                if arrays is None or any(x._version.count for x in tensors)
                else f"derive: {what}: a tensor that requires grad, but is no argument; give it as one, or detach() it"
            )
        wanted, taken = self.runs[0].names.get(id(tensors[0]), ""), None
        if calls is not None:
            position = next((k for k, a in enumerate(tensors_of(calls[0].args)) if a is tensors[0]), None)
            number = next(n for n, c in enumerate(self.runs[0].calls) if c is calls[0])
            taken = None if position is None else RecordedConstant(number, calls[0].op.name, position)
        return self.constant([np.asarray(a) for a in arrays], what, taken, wanted)

    # ------------------------------------------------------------------------------------ constants

    def constant(
        self, arrays: list[np.ndarray], what: str, taken: RecordedConstant | None = None, wanted: str = ""
    ) -> Value:
        """A tensor that was made from numbers: one of a few patterns, or an array of any values (`taken`: whence)."""
        if len({a.ndim for a in arrays}) > 1:
            raise NotDerivable(f"derive: {what}: a constant has the shapes {', '.join(str(a.shape) for a in arrays)}")
        shape = [fit([int(n) for n in sizes], self.at) for sizes in zip(*(a.shape for a in arrays), strict=True)]
        if any(n is None for n in shape):
            raise Unexplained(f"derive: {what}: no formula of the sizes explains the shape {arrays[0].shape}")
        dims = dims_of(shape)
        whole = arrays[0].dtype.kind in "iu"
        dtype = "b" if arrays[0].dtype.kind == "b" else "n" if whole else "f"
        if all(a.size for a in arrays) and all((a == a.flat[0]).all() for a in arrays):
            value = fit([a.flat[0].item() for a in arrays], self.at)
            if value is not None:
                return Value(dims, lambda *at: value, dtype)
        dims = self._as_split(dims)
        if whole and (pattern := self._index_table(arrays, dims)) is not None:
            return pattern
        if (pattern := _pattern(arrays, dims, dtype, self.at)) is not None:
            return pattern
        if dtype == "b" and (pattern := self._part(arrays, dims)) is not None:
            return pattern
        if any(len(dim) > 1 for dim in dims) and (pattern := self._in_factors(arrays, dims, dtype)) is not None:
            return pattern
        if dtype == "f" and any(np.isneginf(a).any() for a in arrays):
            finite = self._derived(arrays, what, taken, lambda a: ~np.isneginf(a))
            rest = self._derived(arrays, what, taken, lambda a: np.where(np.isneginf(a), 0.0, a))
            return Value(rest.dims, rest.entry, "f", finite.entry)
        if all(a.size for a in arrays) and (two := _two_values(arrays)) is not None:
            first, other = two  # of one mask, which is true in the first entry
            if dtype != "b" or not first:
                mask = self._derived(arrays, what, taken, lambda a: a == first)
                one, rest = as_written(first), as_written(other)
                return Value(dims, lambda *at: rest + (one - rest) * mask.entry(*at), dtype)
        for others, value in self.tables:
            if all(a.shape == b.shape and (a == b).all() for a, b in zip(arrays, others, strict=True)):
                return value
        name = self.lines.unused(wanted or "const", by_user=bool(wanted))
        array = Array(name, tuple(f for dim in dims for f in dim)) if any(dims) else Symbol(name, real=True)
        self.lines.constants[array] = taken
        self.lines.notes[f"{name}, of shape ({', '.join(map(str, shape))}), may have any values"] = None
        value = value_of_name(array, Value(dims, None, dtype))
        self.tables.append((arrays, value))
        return value

    def _as_split(self, dims):
        """The dimensions, those of a size that was taken apart with the factors in its order: N2*2, not 2*N2."""
        orders = {Mul(*parts): tuple(parts) for parts in self.split.values()}
        return tuple(orders.get(Mul(*dim), dim) if len(dim) > 1 else dim for dim in dims)

    def _in_factors(self, arrays: list[np.ndarray], dims, dtype: str) -> Value | None:
        """A pattern along the factors of dimensions that are products, each factor as a dimension of its own."""
        flat = tuple((factor,) for dim in dims for factor in dim)
        shapes = [[int(factor.xreplace(at)) for (factor,) in flat] for at in self.at]
        apart = [a.reshape(shape) for a, shape in zip(arrays, shapes, strict=True)]
        pattern = self._part(apart, flat) if dtype == "b" else None
        pattern = _pattern(apart, flat, dtype, self.at) if pattern is None else pattern
        return None if pattern is None else pattern.like(pattern.entry, dims, pattern.finite)

    def _part(self, arrays: list[np.ndarray], dims) -> Value | None:
        """A mask along one dimension: true, or false, at one place; or true up to a place, or from one on."""
        for k, dim in enumerate(dims):
            rows = [np.moveaxis(a, k, -1).reshape(-1, a.shape[k]) for a in arrays]
            if len(dim) != 1 or not all(r.size and (r == r[0]).all() for r in rows):
                continue
            at = sum(len(d) for d in dims[:k])
            true, false = ([np.flatnonzero(r[0] == which) for r in rows] for which in (True, False))
            for positions, other in ((true, False), (false, True)):
                if all(len(p) == 1 for p in positions) and (one := self._position(positions, 0)) is not None:
                    return Value(dims, partial(_at_one, at, one, other), "b")
            if all(len(p) and p[0] == 0 and p[-1] == len(p) - 1 for p in true) and (last := self._position(true, -1)):
                return Value(dims, lambda *i: upto(i[at], last), "b")  # noqa: B023
            if all(len(p) and p[0] == 0 and p[-1] == len(p) - 1 for p in false) and (last := self._position(false, -1)):
                return Value(dims, lambda *i: upto(last + 1, i[at]), "b")  # noqa: B023
        return None

    def _position(self, positions: list[np.ndarray], which: int) -> Expr | None:
        """A place of each run as an index, which counts from 1, by a formula of the sizes."""
        return fit_linear([int(p[which]) + 1 for p in positions], self.at)

    def _derived(self, arrays: list[np.ndarray], what: str, taken: RecordedConstant | None, change: Callable) -> Value:
        """The constant that `change` makes of another one."""
        return self.constant([change(a) for a in arrays], what, taken and taken.changed(change))

    def _index_table(self, arrays: list[np.ndarray], dims) -> Value | None:
        """Whole numbers as indices: an argument of indices, the numbers of a dimension, or both for each factor."""
        tables = {n: a for n, a in self.tensors.items() if a.below is not None}
        for factors in self._ranges():
            numbers = [[int(f.xreplace(at)) for f in factors] for at in self.at]
            try:
                parts = [np.unravel_index(a, n) for a, n in zip(arrays, numbers, strict=True)]
            except ValueError:
                continue
            rules = []
            for k in range(len(factors)):
                rules.append(self._rule([p[k] for p in parts], dims, tables))
            if all(rule is not None for rule in rules):
                return _index_value(dims, rules, factors)
        return None

    def _ranges(self) -> list[tuple[Expr, ...]]:
        """The dimensions into which these numbers may lead, one factor first."""
        sizes = list(self.sizes)
        return [
            (Integer(10**9),),
            *[(a, b) for a in sizes for b in sizes],
            *[(a, b, c) for a in sizes for b in sizes for c in sizes],
        ]

    def _rule(self, parts: list[np.ndarray], dims, tables: dict) -> Callable | None:
        """The index that stands in these places, as a function of the indices of the table."""
        shape = [len(dim) for dim in dims]
        for name, argument in tables.items():
            tables_by_run = [run.inputs[name].numpy() for run in self.runs]
            for left in range(len(dims) - len(argument.dims) + 1):
                middle = slice(left, left + len(argument.dims))
                if dims[middle] == argument.dims and all(
                    (p == g.reshape(g.shape + (1,) * (p.ndim - left - g.ndim))).all()
                    for p, g in zip(parts, tables_by_run, strict=True)
                ):
                    start, n = sum(shape[:left]), sum(shape[middle])
                    array = self.arrays[name]
                    return lambda *at, array=array, start=start, n=n: array[at[start : start + n]]
        for k, dim in enumerate(dims):
            if len(dim) != 1:
                continue
            along = [np.arange(p.shape[k]).reshape([-1 if n == k else 1 for n in range(p.ndim)]) for p in parts]
            offsets = {int((p - a).flat[0]) for p, a in zip(parts, along, strict=True) if p.size}
            if all((p - a == (p - a).flat[0]).all() for p, a in zip(parts, along, strict=True)) and len(offsets) == 1:
                start, offset = sum(shape[:k]), offsets.pop()
                return lambda *at, start=start, offset=offset: at[start] + offset
        if all((p == p.flat[0]).all() for p in parts) and len({int(p.flat[0]) for p in parts}) == 1:
            return lambda *at, n=int(parts[0].flat[0]): S(n + 1)
        return None


def _index_value(dims, rules: list[Callable], factors: tuple[Expr, ...]) -> Value:
    if len(rules) == 1:
        return Value(dims, rules[0], "i")
    value = FactoredIndex(dims, lambda *at: rules[0](*at), "i")
    value.factor_indices = lambda *at: [rule(*at) for rule in rules]
    widths = [Mul(*factors[k + 1 :]) for k in range(len(factors))]  # of a step in each factor
    value.number = lambda *at: sum(((rule(*at) - 1) * width for rule, width in zip(rules, widths, strict=True)), S.Zero)
    return value


def _numbers(a):
    """The argument of a call with whole numbers as numbers, not as indices, which count from 1."""
    if isinstance(a, tuple):
        return tuple(map(_numbers, a))
    return as_number(a) if isinstance(a, Value) else a


_SCALARS = {"layer_norm", "rms_norm", "attention", "cross_entropy_rows", "cross_entropy_mean"}


def _not_below_zero(size: Expr) -> SizeCondition | None:
    """The condition that a size such as L - K + 1 is 0 or more, or 1 or more where that is shorter: L >= K."""
    shorter = size - 1
    above, below = (
        Add(*[t for t in Add.make_args(shorter) if (t.could_extract_minus_sign()) == side]) for side in (False, True)
    )
    if shorter.atoms(Size) and not shorter.as_coeff_Add()[0] and below:
        return size_condition(">=", above, -below)
    return size_condition(">=", size, S.Zero)


def _detached(entry: Expr) -> Expr:
    """The entry, held constant; steps are constant in any case."""
    return entry if entry.is_number or isinstance(entry, PiecewiseConstant) else detach(entry)


def _one_memory(a: Tensor, b: Tensor) -> bool:
    x, y = a._data, b._data
    return (
        x.ctypes.data == y.ctypes.data
        and x.shape == y.shape
        and x.strides == y.strides
        and x.dtype == y.dtype
        and a._version is b._version
    )


def _pattern(arrays: list[np.ndarray], dims, dtype: str, at: list[dict[Size, int]]) -> Value | None:
    """A constant that is a triangle, a diagonal, or the numbers of one dimension; None if it is none of these."""
    if not all(a.size for a in arrays):
        return _range_value(dims, 0, S.Zero, S.Zero, dtype)
    if dtype != "b":
        for k, dim in enumerate(dims):
            if dim and (steps := _steps(arrays, k, at)) is not None:
                return _range_value(dims, k, *steps, dtype)
        if all(len(dim) == 1 for dim in dims[-2:]) and len(dims) > 1 and (plane := _plane(arrays)) is not None:
            return _plane_value(dims, sum(len(d) for d in dims[:-2]), *plane, dtype)
    if (identity := _identities(arrays, dims, dtype, at)) is not None:
        return identity
    if arrays[0].ndim < 2 or any(len(dim) != 1 for dim in dims[-2:]):
        return None
    low = [a.reshape(-1, *a.shape[-2:]) for a in arrays]
    if not all((a == a[0]).all() for a in low):
        return None
    low, axis = [a[0] for a in low], sum(len(dim) for dim in dims[:-2])
    for offset in sorted(range(-9, 10), key=abs):
        if (values := _inside_and_outside([np.tri(*a.shape, k=offset, dtype=bool) for a in low], low, at)) is not None:
            return _mask_value(dims, dtype, *values, partial(_triangle, axis, offset))
    if (
        dims[-1] == dims[-2]
        and (values := _inside_and_outside([np.eye(*a.shape, dtype=bool) for a in low], low, at)) is not None
    ):
        return _mask_value(dims, dtype, *values, partial(_diagonal, axis))
    return None


def _steps(arrays: list[np.ndarray], k: int, at: list[dict[Size, int]]) -> tuple[Expr, Expr] | None:
    """The first number and the distance of the next, if the numbers along dimension k are evenly spaced."""
    if not all(a.size for a in arrays):
        return None
    rows = [np.moveaxis(a, k, -1).reshape(-1, a.shape[k]) for a in arrays]
    if not all(r.shape[1] > 1 and (r == r[0]).all() and np.isfinite(r).all() for r in rows):
        return None
    starts, distances = [r[0, 0].item() for r in rows], [np.diff(r[0]).mean().round(12).item() for r in rows]
    for r, start, distance in zip(rows, starts, distances, strict=True):
        if not np.allclose(r[0], start + distance * np.arange(r.shape[1]), 1e-13, 1e-13):
            return None
    first, each = (fit_linear([_whole(n) for n in numbers], at) for numbers in (starts, distances))
    return None if first is None or each is None else (first, each)


def _whole(number: float) -> int | float:
    """A whole number as an int, whose formula of the sizes is easier to find."""
    return int(number) if float(number).is_integer() else number


def _plane(arrays: list[np.ndarray]) -> tuple[Expr, Expr, Expr] | None:
    """The first number and the distances along the last two dimensions, if both are evenly spaced."""
    low = [a.reshape(-1, *a.shape[-2:]) for a in arrays]
    if not all(min(a.shape[1:]) > 1 and (a == a[0]).all() and np.isfinite(a).all() for a in low):
        return None
    planes = {(float(a[0, 0, 0]), float(a[0, 1, 0] - a[0, 0, 0]), float(a[0, 0, 1] - a[0, 0, 0])) for a in low}
    if len(planes) != 1:
        return None
    start, down, right = planes.pop()
    for a in low:
        n, m = a.shape[1:]
        if not np.allclose(a[0], start + down * np.arange(n)[:, None] + right * np.arange(m), 1e-13, 1e-13):
            return None
    return as_written(start), as_written(down), as_written(right)


def _plane_value(dims, axis: int, start: Expr, down: Expr, right: Expr, dtype: str) -> Value:
    return Value(dims, lambda *at: start + down * (at[axis] - 1) + right * (at[axis + 1] - 1), dtype)


def _range_value(dims, k: int, start: Expr, step: Expr, dtype: str) -> Value:
    """start + step n along dimension k, where n counts from 0 through all of its factors."""
    if not step:
        return Value(dims, lambda *at: start, dtype)
    first, dim = sum(len(d) for d in dims[:k]), dims[k]
    widths = [Mul(*dim[n + 1 :]) for n in range(len(dim))]
    number = lambda at: sum(((at[first + n] - 1) * width for n, width in enumerate(widths)), S.Zero)  # noqa: E731
    return Value(dims, lambda *at: start + step * number(at), dtype)


def _two_values(arrays: list[np.ndarray]) -> tuple | None:
    """The first value and the other one, if each array has just these two and begins with the same."""
    pairs = {tuple(sorted({v.item() for v in np.unique(a)})) for a in arrays}
    first = {a.flat[0].item() for a in arrays}
    if len(pairs) != 1 or len(first) != 1 or len(values := pairs.pop()) != 2:
        return None
    (one,) = first
    return one, next(v for v in values if v != one)


def _inside_and_outside(masks: list[np.ndarray], arrays: list[np.ndarray], at: list[dict]) -> tuple[Expr, Expr] | None:
    """The one value inside of the masks and the other outside, if each array has just these two."""
    formulas = []
    for chosen in (masks, [~m for m in masks]):
        values = [a[m] for a, m in zip(arrays, chosen, strict=True)]
        if not all(v.size and (v == v.flat[0]).all() for v in values):
            return None
        formulas.append(fit([v.flat[0].item() for v in values], at))
    inside, outside = formulas
    return None if inside is None or outside is None or inside == outside else (inside, outside)


def _triangle(axis: int, offset: int, *at) -> Expr:
    return upto(at[axis + 1], at[axis] + offset)


def _diagonal(axis: int, *at) -> Expr:
    return KroneckerDelta(at[axis], at[axis + 1])


def _identities(arrays: list[np.ndarray], dims, dtype: str, at: list[dict[Size, int]]) -> Value | None:
    """One value where two axes have the same number, or two pairs of axes have, and another value elsewhere."""
    alike = [
        p for p in itertools.combinations(range(len(dims)), 2) if len(dims[p[0]]) == 1 and dims[p[0]] == dims[p[1]]
    ]
    for pairs in (*((p,) for p in alike), *itertools.combinations(alike, 2)):
        if len({axis for pair in pairs for axis in pair}) < 2 * len(pairs) or pairs == (
            (len(dims) - 2, len(dims) - 1),
        ):
            continue
        masks = [_equal_along(a.shape, pairs) for a in arrays]
        if (values := _inside_and_outside(masks, arrays, at)) is not None:
            starts = [[sum(len(d) for d in dims[:axis]) for axis in pair] for pair in pairs]
            return _mask_value(dims, dtype, *values, partial(_product_of_diagonals, starts))
    return None


def _equal_along(shape: tuple[int, ...], pairs) -> np.ndarray:
    """Where the numbers along both axes of each pair are the same."""
    mask = np.ones(shape, bool)
    for one, other in pairs:
        numbers = [np.arange(shape[k]).reshape([-1 if n == k else 1 for n in range(len(shape))]) for k in (one, other)]
        mask &= numbers[0] == numbers[1]
    return mask


def _product_of_diagonals(starts: list[list[int]], *at) -> Expr:
    return Mul(*[KroneckerDelta(at[one], at[other]) for one, other in starts])


def _at_one(axis: int, one: Expr, elsewhere: bool, *at) -> Expr:
    """1 at one place, otherwise 0; or the other way round."""
    mask = KroneckerDelta(at[axis], one)
    return 1 - mask if elsewhere else mask


def _mask_value(dims, dtype: str, one: Expr, other: Expr, mask: Callable) -> Value:
    """`one` where the mask is 1, else `other`; either may be -inf."""
    if other is S.NegativeInfinity:
        return Value(dims, lambda *at: one, dtype, mask)
    if one is S.NegativeInfinity:
        return Value(dims, lambda *at: other, dtype, lambda *at: 1 - mask(*at))
    return Value(dims, lambda *at: other + (one - other) * mask(*at), dtype)


def format_sizes(at: dict[Size, int]) -> str:
    """Numbers for sizes in words: N = 5, D = 7."""
    return ", ".join(f"{s} = {n}" for s, n in at.items())


def _calls_differ(call: RecordedCall, runs: list[Run]) -> str:
    counts = ", ".join(f"{len(run.calls)} at {format_sizes(run.at)}" for run in runs)
    return (
        f"derive: the function makes other calls at other sizes ({counts}), from {call.op.name}{call.where} on: a loop "
        "or a branch depends on a size or on data; write it for all sizes at once (a sum, a mask), or prove() it at one"
    )


def _divisible(split: dict[Size, tuple[Expr, ...]], user: list[Size]) -> list[SizeCondition]:
    """The conditions that the user's sizes are multiples of numbers, since they were taken apart."""
    conditions = []
    for size, parts in ((s, parts) for s, parts in split.items() if s in user):
        divisor = math.prod(int(p) for p in parts if p.is_Integer)
        if divisor > 1 and (made := remainder(size, Integer(divisor), S.Zero)) is not None:
            conditions.append(made)
    return conditions


def _rows(sizes: list[Size], split: dict, where: Sequence[SizeCondition], factor: int) -> Iterator[dict[Size, int]]:
    """Numbers for the sizes that meet the conditions; without conditions those of NUMBERS."""
    rows = [numbers_for(sizes, n) for n in range(len(NUMBERS))]
    if not sizes:
        yield from rows
        return
    if where:
        rng = np.random.default_rng(0)
        choices = [sorted(NUMBERS[0]), range(2, 40), range(1, 10)]
        rows += [
            dict(zip(sizes, map(int, rng.choice(numbers, len(sizes))), strict=True))
            for numbers in choices
            for _ in range(200)
        ]
        rows.sort(key=lambda row: len({*row.values()}) < len(row))  # equal sizes may make a step superfluous
    seen = []
    for row in rows:
        at = {s: factor * n for s, n in row.items()}
        whole = at | {s: int(Mul(*parts).xreplace(at)) for s, parts in split.items()}
        if at not in seen and all(c.holds(whole) for c in where):
            seen.append(at)
            yield at


def _values(arguments: dict[str, object], at: dict[Size, int], seed: int) -> dict[str, object]:
    """The arguments of a run."""
    rng = np.random.default_rng(seed)
    return {k: sample(a, at, rng) if isinstance(a, Argument) else a for k, a in arguments.items()}


def _runs(
    fn: Callable,
    arguments: dict[str, object],
    sizes: list[Size],
    split: dict,
    where: Sequence[SizeCondition] = (),
    start: int = 0,
) -> list[Run]:
    """Three runs, at numbers that the function takes."""
    first: Exception | None = None
    for factor in RETRIES[start:]:
        rows = list(itertools.islice(_rows(sizes, split, where, factor), len(NUMBERS)))
        if len(rows) < len(NUMBERS):
            continue
        runs = []
        step()
        try:
            for n, at in enumerate(rows):
                tensors = [a for a in arguments.values() if isinstance(a, Argument)]
                if first is not None and any(Mul(*a.sizes).xreplace(at) > LARGEST for a in tensors):
                    raise first
                if n == 0:  # so that each kernel is built before Python's `len` is another function (sizes.py)
                    record(fn, _values(arguments, at, n), at, code=False)
                runs.append(record(fn, _values(arguments, at, n), at))
            return runs
        except NotDerivable:
            raise
        except LinAlgError as error:
            if any(a.what == "" for a in tensors):
                raise NotDerivable(
                    f'derive: {error}; the runs take random numbers; where=positive_definite("S") makes those of the '
                    "argument S symmetric and positive definite"
                ) from error
            first = first or error
        except NotImplementedError as error:  # an operation without a gradient, which says what to do instead
            raise NotDerivable(f"derive: {error}") from error
        except Exception as error:
            first = first or error
    if first is None:
        raise ValueError(f"derive: too few sizes meet {', '.join(map(str, where))}; three choices of them are run")
    rows = _rows_that_run(fn, arguments, sizes, split, where)
    if len(rows) < len(NUMBERS):
        raise first
    return [record(fn, _values(arguments, at, n), at) for n, at in enumerate(rows)]


TRIES = 60  # choices of sizes for a function that refuses most of them


def _run_at(
    fn: Callable,
    arguments: dict[str, object],
    at: dict[Size, int],
    split: dict,
    where: Sequence[SizeCondition],
    seed: int = 0,
    code: bool = True,
) -> Run | None:
    """A run at these sizes; None if they fail a condition or make large arrays, or if the function refuses them."""
    whole = at | {s: int(Mul(*parts).xreplace(at)) for s, parts in split.items()}
    tensors = [a for a in arguments.values() if isinstance(a, Argument)]
    if any(Mul(*a.sizes).xreplace(at) > LARGEST for a in tensors) or not all(c.holds(whole) for c in where):
        return None
    try:
        return record(fn, _values(arguments, at, seed), at, code)
    except Exception:  # whatever the function raises: it does not take these sizes
        return None


def _rows_that_run(
    fn: Callable, arguments: dict[str, object], sizes: list[Size], split: dict, where: Sequence[SizeCondition]
) -> list[dict[Size, int]]:
    """Numbers for the sizes that a function with demands takes, such as a kernel that is no longer than the input."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(TRIES if 1 < len(sizes) <= len(NUMBERS[0]) else 0):
        at = dict(zip(sizes, map(int, rng.permutation(NUMBERS[0])), strict=False))
        if at not in rows and _run_at(fn, arguments, at, split, where, len(rows), code=False) is not None:
            rows.append(at)
        if len(rows) == len(NUMBERS):
            break
    return rows


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
    start, unexplained = 0, None
    for _ in range(8):
        try:
            return Trace(fn, arguments, split, needs_gradient, start, where, reserved)
        except Unexplained as error:  # such as the half of an odd size
            if start:
                raise
            start, unexplained = 1, error
        except ValueError:  # no multiples of 2 meet the conditions
            raise unexplained or sys.exception() from None
        except Split as error:
            parts = tuple(S(p) for p in error.parts)
            split = {s: tuple(q for p in ps for q in (parts if p == error.size else (p,))) for s, ps in split.items()}
            split[error.size] = parts
    raise NotDerivable(f"derive: the sizes would have to be taken apart again and again: {split}")

"""The calls of a loop's steps: where they repeat, and where the arguments of each step come from.

`parts_of` finds where the calls of the runs repeat with a period, as often as a formula of the sizes says. `Steps`
compares the calls of all steps of all runs: an argument is the same in each step, or a result of the same step, or a
state, which the step before has computed, or a number that is linear in the step, such as the position in x[t].
loops.py reads one step as formulas.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from sympy import Expr

from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.derive.recording import NotDerivable, RecordedCall, Run, Stamp, fit
from tinytensor.symbolic.derive.values import Group, Lines, Step, Value
from tinytensor.symbolic.index_calculus.adjoints import Name
from tinytensor.symbolic.index_calculus.formulas import Array, Size


class Reader(Protocol):
    """What reads the runs of a function, call by call: `Trace` of trace.py."""

    runs: list[Run]
    at: list[dict[Size, int]]  # the sizes of each run
    lines: Lines
    loops: list["Loop"]
    steps: list[dict]  # of a run, Stamp.values of a result of a loop: (loop, step, call)
    size_conditions: list
    ranges: dict  # conditions that are needed where numbers show it

    def operand(self, formula: Expr, first, call: RecordedCall) -> Value | Expr:
        """A number of a call by its formula."""


class Repeated(NamedTuple):
    """Calls that repeat: where they begin in each run, how many one step has, and the number of steps in each run.

    later: by how many calls the steps may begin later, since the calls after the last one are those before the first.
    """

    starts: tuple[int, ...]
    period: int
    counts: tuple[int, ...]
    later: int = 0


class Differs(NotDerivable):
    """The steps of a loop are not alike."""


@dataclass
class State:
    """What a step takes from the one before; each a name: before[t, ...], out[t, ...], and final[...] after the loop.

    group: the line of `out`. initial: the value before the first step, and `first` what stood there in each run.
    """

    call: int  # of the step, whose result it is
    initial: Value
    before: Array
    final: Name
    group: Group
    first: tuple

    @property
    def out(self) -> Array:
        return self.group.output.name


@dataclass
class Loop:
    """A loop of `count` steps: the index of a step, whether t runs down, and the states.

    values: the results of the calls of a step, with t in their entries. sums: those calls whose results are sums over
    all steps.
    """

    step: Step
    count: Expr
    down: bool
    where: str
    states: list[State] = field(default_factory=list)
    values: dict[int, Value] = field(default_factory=dict)
    sums: set[int] = field(default_factory=set)


# ------------------------------------------------------------------------------------------------ where calls repeat


def calls_as_keys(run: Run) -> list[tuple]:
    """What the same call has in each step: its operation, its line, and for a row of an argument which one it is of."""
    names = {id(x): name for name, x in run.inputs.items()}

    def row_of(call: RecordedCall) -> str | None:
        is_row = call.op.name == "slice" and all(isinstance(k, int) for k in call.args[1])
        return names.get(id(call.args[0])) if is_row else None

    return [(c.op.name, c.where, row_of(c)) for c in run.calls]


def parts_of(keys: list[list], sizes: list[dict[Size, int]]) -> list[tuple[int, ...] | Repeated] | None:
    """The calls of all runs in step: a position in each run, or calls that repeat; None if they differ otherwise."""
    at, parts = [0] * len(keys), []
    while any(p < len(own) for p, own in zip(at, keys, strict=True)):
        if (loop := _repeated(keys, at, sizes)) is not None:
            parts.append(loop)
            at = [p + loop.period * n for p, n in zip(at, loop.counts, strict=True)]
            continue
        if any(p >= len(own) for p, own in zip(at, keys, strict=True)):
            return None
        if len({own[p][0] for p, own in zip(at, keys, strict=True)}) > 1:
            return None
        parts.append(tuple(at))
        at = [p + 1 for p in at]
    return parts


def _repeated(keys: list[list], at: list[int], sizes: list[dict[Size, int]]) -> Repeated | None:
    """The shortest sequence of calls that begins here and repeats, in each run another number of times."""
    longest = max(range(len(keys)), key=lambda r: len(keys[r]) - at[r])
    own, start = keys[longest], at[longest]
    for period in range(1, (len(own) - start) // 2 + 1):
        if own[start] != own[start + period]:
            continue
        block = own[start : start + period]
        counts = tuple(_count(one, p, block) for one, p in zip(keys, at, strict=True))
        if len(set(counts)) > 1 and counts[longest] > 1 and fit(list(counts), sizes) is not None:
            ends = [p + period * n for p, n in zip(at, counts, strict=True)]
            later = 0
            while later < period - 1 and all(
                one[end + later : end + later + 1] == [block[later]] for one, end in zip(keys, ends, strict=True)
            ):
                later += 1
            return Repeated(tuple(at), period, counts, later)
    return None


def _count(keys: list, start: int, block: list) -> int:
    """How often the block of calls stands here, one after the other."""
    n = 0
    while keys[start + n * len(block) : start + (n + 1) * len(block)] == block:
        n += 1
    return n


# ------------------------------------------------------------------------------------------ the arguments of a step


class Same(NamedTuple):
    """An argument that is the same object in each step, or equal numbers."""

    by_run: tuple


class Local(NamedTuple):
    """The result of another call of the same step; `constant`: after detach()."""

    call: int
    constant: bool = False


class Carried(NamedTuple):
    """The result of a call of the step before; in the first step what stood there before the loop, in each run.

    constant: after detach().
    """

    call: int
    initial: tuple
    constant: bool = False


class Linear(NamedTuple):
    """A number that is linear in the number k of the steps before: first + slope k; `inverse`: its reciprocal is.

    first, slope: a number for each run. ratio: a number is `ratio` times the number of the step before instead.
    """

    first: tuple
    slope: tuple
    inverse: bool = False
    ratio: float | None = None


class Earlier(NamedTuple):
    """The result of a call of an earlier loop, of its step first + slope k, counted from 0; or the state before it."""

    loop: "Loop"
    call: int
    first: tuple
    slope: tuple
    before: bool = False


class Steps:
    """The calls of a loop in all runs, and where its results come from."""

    def __init__(self, trace: Reader, part: Repeated, before: int):
        """`before`: the number of calls that do not belong to it."""
        self.trace, self.period, self.before = trace, part.period, before
        peeled = before // part.period
        self.counts = [n - peeled for n in part.counts]
        self.calls: list[list[list[RecordedCall]]] = []  # run, step, call
        for run, start, n in zip(trace.runs, part.starts, part.counts, strict=True):
            first = start + before
            steps = range(first, first + (n - peeled) * part.period, part.period)
            self.calls.append([run.calls[p : p + part.period] for p in steps])
        self.made = [dict(_results(steps)) for steps in self.calls]  # of a run: Stamp.values: (step, call)
        self.at_memory = [  # the same by memory, which the result of detach() shares
            {_memory(result_of(c)): (k, b) for k, step in enumerate(steps) for b, c in enumerate(step)}
            for steps in self.calls
        ]

    @property
    def last(self) -> RecordedCall:
        """The last call of all steps in the first run."""
        return self.calls[0][-1][-1]

    def origin(self, run: int, call: RecordedCall, x) -> tuple[int, int] | None:
        """The step and the call whose result a tensor is."""
        if not isinstance(x, Tensor):
            return None
        ref = self.made[run].get(stamp_of(call, x))
        return self.at_memory[run].get(_memory(x)) if ref is None and not x._requires_grad else ref

    def sources(self) -> list[list]:
        """Where each argument of each call comes from; Differs if the steps are not alike."""
        result = []
        for b in range(self.period):
            rows = [[step[b] for step in steps] for steps in self.calls]
            lengths = {len(c.args) for row in rows for c in row}
            if len(lengths) > 1:
                raise self.differs(rows[0][0], "it takes another number of arguments")
            result.append([self._source(rows, lambda c, n=n: c.args[n]) for n in range(lengths.pop())])
        return result

    def differs(self, call: RecordedCall, why: str) -> Differs:
        return Differs(
            f"derive: {call.op.name}{call.where}: the steps of this loop are not alike: {why}; take that step out of "
            "the loop, write a branch as a mask or tt.where(), or prove() it at one size"
        )

    def _source(self, rows: list[list[RecordedCall]], pick):
        """The source of one argument, `pick(call)`, from the calls of all steps (run, step)."""
        values = [[pick(c) for c in row] for row in rows]
        call, flat = rows[0][0], [v for row in values for v in row]
        if any(isinstance(v, Tensor) for v in flat):
            return self._tensor(rows, values)
        first = flat[0]
        if any(type(v) is not type(first) and not _numeric(v, first) for v in flat):
            raise self.differs(call, "an argument has another type")
        if isinstance(first, tuple | list):
            if len({len(v) for v in flat}) > 1:
                raise self.differs(call, "an argument has another length")
            return tuple(self._source(rows, lambda c, n=n: pick(c)[n]) for n in range(len(first)))
        if isinstance(first, slice):
            parts = (self._source(rows, lambda c, k=k: getattr(pick(c), k)) for k in ("start", "stop", "step"))
            return slice(*parts)
        if isinstance(first, int | float) and not isinstance(first, bool):
            return self._number(call, [[plain(v) for v in row] for row in values])
        if any(v != first for v in flat):
            raise self.differs(call, f"an argument is {first} in one and another in others")
        return Same((first,) * len(rows))

    def _number(self, call: RecordedCall, values: list[list]) -> Same | Linear:
        if all(v == row[0] for row in values for v in row):
            return Same(tuple(row[0] for row in values))
        if all(len(row) > 1 for row in values):
            first = tuple(row[0] for row in values)
            if all(isinstance(v, int) for row in values for v in row):
                slopes = tuple(row[1] - row[0] for row in values)
                if all(v == row[0] + s * k for row, s in zip(values, slopes, strict=True) for k, v in enumerate(row)):
                    return Linear(first, slopes)
            for inverse in (False, True):
                if inverse and not all(v for row in values for v in row):
                    continue
                numbers = [[1 / v if inverse else float(v) for v in row] for row in values]
                slopes = tuple((row[-1] - row[0]) / (len(row) - 1) for row in numbers)
                if all(_on_line(row, slope) for row, slope in zip(numbers, slopes, strict=True)):
                    return Linear(tuple(row[0] for row in numbers), slopes, inverse)
            ratio = values[0][1] / values[0][0] if values[0][0] else 0.0
            if ratio and all(_close(v, row[0] * ratio**k) for row in values for k, v in enumerate(row)):
                return Linear(first, (0,) * len(values), False, ratio)
        long = max(values, key=len)
        raise self.differs(call, f"the number {long[0]} is {', '.join(map(str, long[1:5]))} in the steps after it")

    def _tensor(self, rows: list[list[RecordedCall]], values: list[list]):
        call = rows[0][0]
        refs = [
            [self.origin(r, c, v) for c, v in zip(row, own, strict=True)]
            for r, (row, own) in enumerate(zip(rows, values, strict=True))
        ]
        flat = [(k, ref) for row in refs for k, ref in enumerate(row)]
        on_tape = {
            v._requires_grad
            for row, own in zip(rows, values, strict=True)
            for c, v in zip(row, own, strict=True)
            if isinstance(v, Tensor) and result_of(c)._requires_grad
        }
        constant = on_tape == {False}
        calls = {ref[1] for _, ref in flat if ref is not None}
        if len(calls) == 1 and all(ref is not None and ref[0] == k for k, ref in flat):
            return Local(calls.pop(), constant)
        if len(calls) == 1 and all((ref is None) == (k == 0) and (ref is None or ref[0] == k - 1) for k, ref in flat):
            if len(on_tape) > 1 and any(isinstance(row[0], Tensor) and row[0]._requires_grad for row in values):
                raise self.differs(call, "a state is held constant in some of them")
            later = {v._requires_grad for row in values for v in row[1:]}
            constant = constant or (bool(on_tape) and later == {False})
            return Carried(calls.pop(), tuple(row[0] for row in values), constant)
        if calls:
            raise self.differs(call, "an argument is a result of another step than the one before")
        if not all(isinstance(v, Tensor) for row in values for v in row):
            raise self.differs(call, "an argument is a number in one and a tensor in another")
        stamps = [
            {stamp_of(c, v) for c, v in zip(row, own, strict=True)} for row, own in zip(rows, values, strict=True)
        ]
        if all(len(one) == 1 for one in stamps):
            return Same(tuple(row[0] for row in values))
        return self._of_earlier_loop(rows, values) or self._constant(rows, values)

    def _of_earlier_loop(self, rows: list[list[RecordedCall]], values: list[list]) -> Earlier | None:
        """The result of an earlier loop, in the step that belongs to each step of this one."""
        refs = [
            [known.get(stamp_of(c, v)) for c, v in zip(row, own, strict=True)]
            for known, row, own in zip(self.trace.steps, rows, values, strict=True)
        ]
        ref = next((ref for row in refs for ref in row if ref is not None), None)
        if ref is None:
            return None
        loop, _, call = ref
        first = next((s.first for s in loop.states if s.call == call), ())
        steps, before = [], False
        for r, (row, own) in enumerate(zip(refs, values, strict=True)):
            steps.append([])
            for one, x in zip(row, own, strict=True):
                if one is not None and (one[0] is not loop or one[2] != call):
                    return None
                if one is None and not (first and x is first[r]):
                    return None
                before = before or one is None
                steps[-1].append(-1 if one is None else one[1])
        number = self._number(rows[0][0], [[k + before for k in row] for row in steps])
        if isinstance(number, Same):
            return Earlier(loop, call, number.by_run, (0,) * len(rows), before)
        return Earlier(loop, call, number.first, number.slope, before)

    def _constant(self, rows: list[list[RecordedCall]], values: list[list]) -> Same | Linear:
        """Constants that are made anew in each step: equal ones, or numbers."""
        call = rows[0][0]
        arrays = [
            [c.constants.get(id(v)) for c, v in zip(row, own, strict=True)]
            for row, own in zip(rows, values, strict=True)
        ]
        if any(a is None for row in arrays for a in row):
            raise self.differs(call, "an argument is another tensor in each, and none that the step before has made")
        if all(np.array_equal(a, row[0], equal_nan=a.dtype.kind == "f") for row in arrays for a in row):
            return Same(tuple(row[0] for row in values))
        if all(a.ndim == 0 for row in arrays for a in row):
            return self._number(call, [[a.item() for a in row] for row in arrays])
        raise self.differs(call, "a constant has other values in each")


def _numeric(one, other) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in (one, other))


def plain(v) -> int | float:
    return int.__add__(v, 0) if isinstance(v, int) else float.__add__(v, 0.0)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-300)


def _on_line(row: list[float], slope: float) -> bool:
    """Are these first + slope k?"""
    size = max(map(abs, row))
    return all(abs(v - row[0] - slope * k) <= 1e-13 * size for k, v in enumerate(row))


def stamp_of(call: RecordedCall, x: Tensor) -> tuple[int, int]:
    return call.stamps.get(id(x), Stamp.of(x)).values


def result_of(call: RecordedCall) -> Tensor:
    return call.result[0] if isinstance(call.result, tuple) else call.result


def _memory(x: Tensor) -> tuple:
    """The same for tensors that are views of the same numbers."""
    return x._data.ctypes.data, x._data.shape, x._data.strides, x._data.dtype, id(x._version), x._version.count


def _results(steps: list[list[RecordedCall]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """(Stamp.values, (step, call)) of each result."""
    for k, step in enumerate(steps):
        for b, call in enumerate(step):
            yield call.stamps[id(result_of(call))].values, (k, b)

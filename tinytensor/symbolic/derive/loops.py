"""Loops whose number of steps is a size: the calls of all steps, read as those of one step t.

steps.py compares the calls of all steps of all runs. Where the steps are alike, one of them is read with the symbol t,
and the names that it defines have an entry for each step:

    before_1 = initial,   out_t = f(before_t, x_t, W),   before_(t+1) = out_t,   final = out_n

A sum, s = s + g_t, is no state but Σ_t g_t. A loop that runs through its positions backward is read with t from n to 1:
before_n = initial, before_(t-1) = out_t, final = out_1. recurrences.py has the adjoints.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

from sympy import Expr, Indexed, S, Symbol

from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.derive.conditions import size_condition
from tinytensor.symbolic.derive.recording import NotDerivable, RecordedCall, Run, Stamp, as_written, fit, fit_linear
from tinytensor.symbolic.derive.sizes import FIRST_STEPS
from tinytensor.symbolic.derive.steps import (
    Carried,
    Differs,
    Earlier,
    Linear,
    Local,
    Loop,
    Reader,
    Repeated,
    Same,
    State,
    Steps,
    plain,
    result_of,
    stamp_of,
)
from tinytensor.symbolic.derive.values import ExtremeMask, Group, Step, StepArray, Value, dims_of, value_of_name
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, detach, fresh, normal, not_negative, total

PEELED = FIRST_STEPS  # steps at the beginning of a loop that may differ from the others


def refuse_questions_about_steps(runs: Sequence[Run]) -> None:
    """Raise NotDerivable where the code asks about the number of a step: another step may have another answer."""
    for _, question in (one for run in runs for one in run.about_steps):
        asked = f"{question.left} {question.operation} {question.right}"
        raise NotDerivable(
            f"derive: the code asks about the step of a loop over a size: {asked}{question.where}; take that step out "
            "of the loop, write the branch as a mask for all steps at once, or prove() it at one size"
        )


def read_loop(trace: Reader, whole: Repeated) -> int:
    """Read the calls of a loop as those of one step, and tell how many calls after the last step are read, too.

    The first steps may differ from the others, and are read alone. Of the calls with which a step may begin, that one
    is taken that leaves the fewest states.
    """
    failure: Differs | None = None
    longer = [f for f in (1, 2, 3, 4) if not any(n % f for n in whole.counts)]  # equal calls may stand side by side
    for factor, peeled in itertools.product(longer, range(PEELED + 1)):
        counts = tuple(n // factor for n in whole.counts)
        part = Repeated(whole.starts, whole.period * factor, counts, whole.later)
        choices = []
        for later in range(part.later + 1) if peeled < min(counts) else ():
            try:
                steps = Steps(trace, part, peeled * part.period + later)
                choices.append((steps, steps.sources()))
            except Differs as error:
                failure = failure or error
        if choices:
            names = trace.runs[0].names  # a step ends where the user names its result
            steps, sources = min(choices, key=lambda c: (len(_carried(c[1])), id(c[0].last.result) not in names))
            for n in range(steps.before):
                trace._read_call(tuple(run.calls[p + n] for run, p in zip(trace.runs, part.starts, strict=True)))
            _OneStep(trace, steps, sources).read()
            return steps.before % part.period
    raise failure


def _carried(source) -> set[int]:
    """The calls whose results the next step takes."""
    if isinstance(source, list) or type(source) is tuple:
        return set().union(*map(_carried, source))
    return {source.call} if isinstance(source, Carried) else set()


class _OneStep:
    """One step of a loop, read with the symbol t."""

    def __init__(self, trace: Reader, steps: Steps, sources: list[list]):
        self.trace, self.steps, self.sources = trace, steps, sources
        count = fit_linear(steps.counts, trace.at)
        if (condition := size_condition(">=", count, S.Zero)) is not None and condition not in trace.size_conditions:
            trace.size_conditions.append(condition)
        if (first := size_condition(">=", count, S.One)) is not None:
            trace.ranges[first] = None  # calls of the first step that stand before the loop here
        where = steps.calls[0][0][0].where
        self.loop = Loop(Step("t", count), count, self._down(), where)
        self.states: dict[int, tuple[tuple, Value, Name, Name]] = {}  # call: initial, value, before, final
        self.reserved: dict[int, str] = {}  # call: the user's name of its result, which no other line may get

    def _down(self) -> bool:
        """Do the positions fall from step to step?"""

        def slopes(source) -> Iterator[float]:
            if isinstance(source, Linear | Earlier):
                yield from source.slope
            elif isinstance(source, slice):
                yield from (s for part in (source.start, source.stop, source.step) for s in slopes(part))
            elif type(source) is tuple:
                yield from (s for part in source for s in slopes(part))

        signs = {math.copysign(1, s) for row in self.sources for source in row for s in slopes(source) if s}
        return signs == {-1.0}

    @property
    def before(self) -> Expr:
        """The number of steps before step t."""
        return self.loop.count - self.loop.step if self.loop.down else self.loop.step - 1

    def read(self) -> None:
        trace, loop, lines = self.trace, self.loop, self.trace.lines
        groups, constants = len(lines.groups), len(lines.constants)
        for source in (s for row in self.sources for s in row):
            self._declare(source)
        lines.step = loop.step
        try:
            for b, row in enumerate(self.sources):
                call = self.steps.calls[0][0][b]
                if not any(map(self._known, row)):
                    continue
                args = [self._argument(source, b) for source in row]
                last = self.steps.calls[0][-1][b] if self.steps.calls[0] else call
                name = trace.runs[0].names.get(id(last.result)) or ""
                lines.names.discard(self.reserved.get(b))
                value, *others = trace._semantics(call, args, "" if self._may_be_sum(b, call) else name)
                if others:
                    raise NotDerivable(
                        f"derive: {call.op.name}{call.where}: an operation with several results, inside of a loop over "
                        "a size; compute it before or after the loop"
                    )
                loop.values[b] = value
        finally:
            lines.step = None
        masks = list(lines.constants.items())[constants:]
        if any(isinstance(one, ExtremeMask) and one.of.has(loop.step) for _, one in masks):
            raise NotDerivable(
                f"derive{loop.where}: the largest or smallest entry inside of a loop over a size; take it after the "
                "loop, of all steps at once, or prove() it at one size"
            )
        self._finish(groups)

    def _declare(self, source) -> None:
        """Give the states names."""
        if isinstance(source, tuple) and type(source) is tuple:
            for part in source:
                self._declare(part)
        if not isinstance(source, Carried):
            return
        if source.call in self.states:
            same = zip(self.states[source.call][0], source.initial, strict=True)
            if not all(a is b or (not isinstance(a, Tensor) and not isinstance(b, Tensor) and a == b) for a, b in same):
                raise NotDerivable(
                    f"derive{self.loop.where}: two states of this loop begin with different values, and are one later; "
                    "give them the same one, or prove() it at one size"
                )
            return
        dims = self._dims(source.call)
        initial = self._initial(source, dims)
        name = self._state_name(source.call)
        lines = self.trace.lines
        if name not in lines.names:
            lines.names.add(name)
            self.reserved[source.call] = name
        before = StepArray(lines.unused(f"{name}_before"), tuple(f for dim in dims for f in dim), self.loop.step)
        sizes = before.sizes[1:]
        final = lines.unused(f"{name}_final")
        final = Array(final, sizes) if sizes else Symbol(final, real=True)
        self.states[source.call] = (source.initial, initial, before, final)

    def _state_name(self, b: int) -> str:
        call = self.steps.calls[0][-1][b]
        return self.trace.runs[0].names.get(id(call.result)) or "h"

    def _dims(self, b: int) -> tuple:
        shapes = [{step[b].result._data.shape for step in steps} for steps in self.steps.calls]
        if any(len(s) > 1 for s in shapes):
            raise NotDerivable(f"derive{self.loop.where}: a state of this loop grows; collect a list, and tt.cat() it")
        shape = [fit_linear(list(map(int, n)), self.trace.at) for n in zip(*(s.pop() for s in shapes), strict=True)]
        if any(n is None for n in shape):
            raise NotDerivable(f"derive{self.loop.where}: no formula of the sizes explains the shape of a state")
        return dims_of(shape)

    def _initial(self, source: Carried, dims: tuple) -> Value:
        first = source.initial[0]
        if isinstance(first, Tensor):
            calls = [steps[0][self._user(source)] for steps in self.steps.calls]
            value = self.trace._value(list(source.initial), "the first value of a state" + self.loop.where, calls)
            if value.finite is not None or value.dtype in "ib":
                raise NotDerivable(f"derive{self.loop.where}: a state begins with no finite floats")
            if value.dims != dims:
                raise NotDerivable(
                    f"derive{self.loop.where}: a state has another shape before the loop ({_shape(value.dims)}) than "
                    f"after a step ({_shape(dims)}); give it its shape before the loop, by expand() or zeros()"
                )
            return value
        formula = fit_linear([plain(n) for n in source.initial], self.trace.at)
        if formula is None:
            raise NotDerivable(f"derive{self.loop.where}: the first value of a state is {first}, by no simple formula")
        return Value(dims, lambda *at: formula)

    def _user(self, source: Carried) -> int:
        """The first call that takes this state."""

        def takes(one) -> bool:
            return one is source or (type(one) is tuple and any(map(takes, one)))

        return next(b for b, row in enumerate(self.sources) if any(map(takes, row)))

    def _known(self, source) -> bool:
        """Does the argument depend on an argument of the function, or on t?"""
        if isinstance(source, Local):
            return source.call in self.loop.values
        if isinstance(source, Same):
            x = source.by_run[0]
            return isinstance(x, Tensor) and self.trace._known(0, x, Stamp.of(x))
        if type(source) is tuple:
            return any(map(self._known, source)) or any(isinstance(part, Linear) for part in source)
        return isinstance(source, Carried | Earlier)

    def _argument(self, source, b: int):
        trace, calls = self.trace, [steps[0][b] for steps in self.steps.calls]
        call = calls[0]
        if isinstance(source, Same):
            return trace._argument(list(source.by_run), call, calls)
        if isinstance(source, Local):
            if source.call in self.loop.values:
                value = self.loop.values[source.call]
                return _held_constant(value) if source.constant and value.dtype == "f" else value
            rows = [[step[b] for step in steps] for steps in self.steps.calls]
            return self._argument(self._made_in_step(source, rows), b)
        if isinstance(source, Carried):
            _, initial, before, _ = self.states[source.call]
            value = value_of_name(before, initial)
            return _held_constant(value) if source.constant else value
        if isinstance(source, Linear):
            return trace.operand(self._linear(source, call), _example(source), call)
        if isinstance(source, Earlier):
            first = fit_linear(list(source.first), trace.at)
            if first is None:
                raise NotDerivable(f"derive{call.where}: no formula explains which step of an earlier loop is used")
            slope = fit_linear(list(source.slope), trace.at)
            return value_at_step(source.loop, source.call, first + slope * self.before, call.where, source.before)
        if isinstance(source, slice):
            return slice(*(self._argument(part, b) for part in (source.start, source.stop, source.step)))
        return tuple(self._argument(part, b) for part in source)

    def _made_in_step(self, source: Local, rows: list[list[RecordedCall]]) -> Same | Linear:
        """A constant that another call of the step makes from numbers."""
        values = [[step[source.call].result for step in steps] for steps in self.steps.calls]
        return self.steps._constant(rows, values)

    def _linear(self, source: Linear, call: RecordedCall) -> Expr:
        """The number as a formula of t."""
        k = self.before
        if source.ratio is not None:
            first = fit(list(source.first), self.trace.at)
            if first is None:
                raise self.steps.differs(call, "a number in it has no simple formula of the sizes")
            return first * as_written(source.ratio) ** k
        first = fit_linear(list(source.first), self.trace.at)
        slope = fit_linear([_whole(s) for s in source.slope], self.trace.at)
        if first is None or slope is None:
            raise self.steps.differs(call, "a number in it has no simple formula of the sizes")
        linear = first + slope * k
        return 1 / linear if source.inverse else linear

    # ------------------------------------------------------------------------------------ what the loop leaves

    def _may_be_sum(self, b: int, call: RecordedCall) -> bool:
        """Is the call s + g for a state s, of which no other step than the last is used later?"""
        if b not in self.states or call.op.name not in ("add", "sub"):
            return False
        carried = [isinstance(s, Carried) and s.call == b for s in self.sources[b]]
        uses = sum(_mentions(s, b) for row in self.sources for s in row)
        return carried[0] != any(carried[1:]) and uses == 1 and b not in self._collected()

    def _collected(self) -> set[int]:
        """The calls whose results in other steps than the last are used after the loop."""
        if not hasattr(self, "_collected_calls"):
            self._collected_calls = set()
            for run, made, n in zip(self.trace.runs, self.steps.made, self.steps.counts, strict=True):
                inside = {id(c) for steps in self.steps.calls for step in steps for c in step}
                for call in run.calls:
                    if id(call) not in inside:
                        refs = (made.get(s.values) for x, s in call.stamps.items())
                        self._collected_calls |= {ref[1] for ref in refs if ref is not None and ref[0] != n - 1}
        return self._collected_calls

    def _finish(self, groups: int) -> None:
        """Make states and sums of what was carried, and note which value each result of each step has."""
        trace, loop, lines = self.trace, self.loop, self.trace.lines
        t, rest = loop.step, dict(self.states)
        finals: dict[int, Value] = {}
        for b in list(rest):
            if b not in loop.values:
                raise NotDerivable(f"derive{loop.where}: a state of this loop does not depend on the arguments")
            call = self.steps.calls[0][0][b]
            if not self._may_be_sum(b, call):
                continue
            _, initial, before, _ = rest[b]
            at = initial.indices()
            own, value = before[tuple(at)], loop.values[b]
            term = S(value.entry(*at)) - own
            term = normal(term) if names_in(term) & {before} else term
            if names_in(term) & {before} or value.dims != initial.dims:
                continue
            del rest[b]
            loop.sums.add(b)
            finals[b] = self._total(b, initial, term, at)
        new = lines.groups[groups:]
        for b, (first, initial, before, final) in rest.items():
            value = loop.values[b]
            if value.finite is not None or value.dtype != "f" or value.dims != initial.dims:
                raise NotDerivable(f"derive{loop.where}: a state is no tensor of finite floats of one shape")
            indices = value.indices()
            expr = value.entry(*indices)
            group = next((g for g in new if _defines(g, expr, indices)), None)
            if group is None or any(s.group is group for s in loop.states):
                array = StepArray(lines.unused(self._state_name(b)), before.sizes[1:], t)
                group = Group([Definition(array[tuple(indices)], fresh(S(expr)))], [], loop.where)
                lines.groups.append(group)
                new.append(group)
            group.inline = ""
            state = State(b, initial, before, final, group, first)
            loop.states.append(state)
            loop.values[b] = value_of_name(state.out, initial)
            finals[b] = value_of_name(final, initial)
        trace.loops.append(loop)
        self._note(finals)
        count = f"{loop.count} steps"
        lines.notes[f"each of the {count} of the loop{loop.where} makes the calls that it makes in the runs"] = None
        if loop.states:
            lines.notes[
                "the adjoints of a recurrence follow from those of one step, which are proved, by the chain rule: "
                "induction over the steps"
            ] = None

    def _total(self, b: int, initial: Value, term: Expr, at: list) -> Value:
        """The initial value and the sum of the terms of all steps, as a line."""
        t = self.loop.step
        value = Value(
            initial.dims,
            lambda *i: initial.entry(*i) + total(fresh(term).xreplace(dict(zip(at, i, strict=True))), t),
        )
        name = self.trace.runs[0].names.get(id(self.steps.calls[0][-1][b].result)) or ""
        return self.trace.lines.name(value, name or "s", where=self.loop.where, by_user=bool(name))

    def _note(self, finals: dict[int, Value]) -> None:
        trace, loop = self.trace, self.loop
        last = S.One if loop.down else loop.count
        for run, steps in enumerate(self.steps.calls):
            for k, step in enumerate(steps):
                for b, call in enumerate(step):
                    if b not in loop.values:
                        continue
                    if b not in loop.sums:
                        trace.steps[run][call.stamps[id(result_of(call))].values] = (loop, k, b)
                    if k < len(steps) - 1:
                        continue
                    if b in finals:
                        trace._know(run, call, finals[b])
                    elif not_negative(loop.count - 1):
                        trace._know(run, call, _at(loop, loop.values[b], last))


def _defines(group: Group, expr: Expr, indices: list) -> bool:
    """Is the expression the entry, at a step and these indices, of the one line of this group?"""
    left = group.output.left
    if len(group.lines) > 1 or group.closed or not isinstance(left, Indexed):
        return False
    return left.xreplace(dict(zip(left.indices[1:], indices))) == expr


def _mentions(source, call: int) -> bool:
    """Is it the result of this call, or does it hold one?"""
    if type(source) is tuple:
        return any(_mentions(part, call) for part in source)
    return isinstance(source, Carried | Local) and source.call == call


def _whole(x: float) -> int | float:
    return int(x) if float(x).is_integer() else x


def _example(source: Linear):
    """A number of the kind of this one."""
    if source.ratio is not None or source.inverse or any(isinstance(s, float) for s in source.slope):
        return 0.5
    return source.first[0]


def _shape(dims) -> str:
    return ", ".join("*".join(map(str, dim)) or "1" for dim in dims)


def _at(loop: Loop, value: Value, position: Expr) -> Value:
    """The value in one step."""

    def entry(*at):
        return fresh(S(value.entry(*at))).xreplace({loop.step: position})

    return Value(value.dims, entry, value.dtype, value.finite)


def value_at_step(loop: Loop, call: int, before: Expr, where: str, state: bool = False) -> Value:
    """The result of a call of a loop, or the state before it, in the step that has `before` steps before it."""
    position = (loop.count - before if loop.down else before + 1).expand()
    value = loop.values[call]
    if state:
        value = next(value_of_name(s.before, s.initial) for s in loop.states if s.call == call)
    value = _at(loop, value, position)
    try:
        from_one = not_negative(position - 1)
    except TypeError:
        from_one = None
    if from_one is False:
        raise NotDerivable(f"derive{where}: step {position} of a loop is used, which it may not have")
    return value


def collected_steps(trace: Reader, calls: Sequence[RecordedCall]) -> Value | None:
    """The value of cat or stack of a result of all steps of a loop, in their order; None if it is another call."""
    call = calls[0]
    if call.op.name not in ("cat", "stack"):
        return None
    pieces = [c.args[1] if len(c.args) == 2 and isinstance(c.args[1], tuple | list) else c.args[1:] for c in calls]
    axes = {int(c.args[0]) for c in calls}
    refs = [
        [known.get(stamp_of(c, x)) if isinstance(x, Tensor) else None for x in own]
        for c, own, known in zip(calls, pieces, trace.steps, strict=True)
    ]
    if len({len(own) for own in pieces}) == 1 or len(axes) > 1:
        return None
    flat = [ref for ref in refs[0] if ref is not None]
    before, after = (next((n for n, ref in enumerate(own) if ref is not None), 0) for own in (refs[0], refs[0][::-1]))
    loop, _, of = flat[0] if flat else (None, 0, 0)
    for at, own in zip(trace.at, refs, strict=True):
        steps = range(int(loop.count.xreplace(at))) if loop else ()
        wanted = [(loop, k, of) for k in (reversed(steps) if loop and loop.down else steps)]
        if not loop or own != [None] * before + wanted + [None] * after:
            raise NotDerivable(
                f"derive: {call.op.name}{call.where}: another number of tensors at other sizes; expected the same "
                "result of each step of a loop, once, in the order of the positions in the arguments, and the same "
                "tensors before and after them; tt.stack() the results of the loop first"
            )
    value, axis = loop.values[of], axes.pop()
    if value.finite is not None or value.dtype != "f":
        raise NotDerivable(f"derive: {call.op.name}{call.where}: the results of a loop are no finite floats")
    n = dims_of([loop.count])[0]
    if len(n) != 1:
        raise NotDerivable(f"derive: {call.op.name}{call.where}: a loop of {loop.count} steps, which is a product")
    if call.op.name == "stack":
        axis += len(value.dims) + 1 if axis < 0 else 0
        dims = (*value.dims[:axis], n, *value.dims[axis:])
    else:
        axis += len(value.dims) if axis < 0 else 0
        dims = (*value.dims[:axis], (*n, *value.dims[axis]), *value.dims[axis + 1 :])
    k = sum(len(dim) for dim in value.dims[:axis])

    def entry(*at):
        return fresh(S(value.entry(*at[:k], *at[k + 1 :]))).xreplace({loop.step: at[k]})

    name = trace.runs[0].names.get(id(call.result)) or ""
    result = Value(dims, entry)
    others = [trace._value([own[k] for own in pieces], call.where, calls) for k in (*range(before), *range(-after, 0))]
    if others:
        if call.op.name == "stack":
            others = [x.like(x.entry, (*x.dims[:axis], (), *x.dims[axis:])) for x in others]
        return trace._semantics(call, [S(axis), *others[:before], result, *others[before:]], name, "cat")[0]
    return trace.lines.name(result, name, where=call.where, by_user=True) if name else result


def _held_constant(value: Value) -> Value:
    return value.like(lambda *at: detach(value.entry(*at)), None, value.finite)

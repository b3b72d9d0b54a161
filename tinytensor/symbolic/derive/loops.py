"""Loops whose number of steps is a size, as recurrences of lines.

reading/loops.py reads the body of a loop once, at a step t, on carried values. Here the names that the body defines
have an entry for each step:

    before_1 = initial,   out_t = f(before_t, x_t, W),   before_(t+1) = out_t,   final = out_n

A sum, s = s + g_t, is no state but Σ_t g_t. A loop that runs through its positions backward is read with t from n to 1:
before_n = initial, before_(t-1) = out_t, final = out_1. recurrences.py has the adjoints.
"""

from dataclasses import dataclass, field

from sympy import Expr, Indexed, KroneckerDelta, S, Symbol

from tinytensor.symbolic.derive.values import ExtremeMask, Group, Step, StepArray, Value, dims_of, value_of_name
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, Index, fits, fresh, normal, total
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.reading.loops import Carried
from tinytensor.symbolic.reading.loops import Loop as ReadLoop
from tinytensor.symbolic.reading.tensors import Term, terms_of


@dataclass(eq=False)
class State:
    """What a step takes from the one before; each a name: before[t, ...], out[t, ...], and final[...] after the loop.

    initial: the value before the first step. group: the line of `out`.
    """

    initial: Value
    before: Array
    final: Name
    group: Group | None = None

    @property
    def out(self) -> Array:
        return self.group.output.name

    @property
    def indices(self) -> list[Index]:
        """Letters for the indices of an entry."""
        return self.initial.indices([self.before.step])

    def final_at(self, indices: list[Index]) -> Expr:
        """The entry of the value after the loop."""
        return value_of_name(self.final, self.initial).entry(*indices)


@dataclass
class Loop:
    """A loop of `count` steps: the index of a step, whether t runs down, and the states."""

    step: Step
    count: Expr
    down: bool
    where: str
    states: list[State] = field(default_factory=list)


class LoopLines:
    """The lines of a loop, while the terms of its body are read."""

    def __init__(self, trace, read: ReadLoop, body: list[Term], where: str):
        self.trace, self.read, self.body, self.lines = trace, read, body, trace.lines
        count = trace.formula(read.steps)
        self.loop = Loop(Step("t", count), count, read.down, where)
        self.groups, self.constants = len(self.lines.groups), len(self.lines.constants)
        self.states: dict[str, State] = {}  # of all carried values, sums among them

    def begin(self) -> None:
        """Give the carried values their names before step t."""
        trace, lines = self.trace, self.lines
        trace.steps[self.read.t] = self.loop.step - 1
        for name, state in self.read.states.items():
            dims = dims_of([trace.formula(n) for n in state.shape])
            value = self._initial(state, dims)
            if self.is_sum(state):
                state.end.label = ""  # which is no line of a step
            elif name not in lines.names and isinstance(state.end, Term):
                state.end.label = name
                trace.labels.add(name)
            before = StepArray(lines.unused(f"{name}_before"), tuple(value.sizes), self.loop.step)
            sizes, final = before.sizes[1:], lines.unused(f"{name}_final")
            final = Array(final, sizes) if sizes else Symbol(final, real=True)
            self.states[name] = State(value, before, final)
            trace.values[id(state.term)] = value_of_name(before, value)
        lines.step = self.loop.step

    def _initial(self, state: Carried, dims) -> Value:
        start = state.start
        if not isinstance(start, Term) and not hasattr(start, "shape"):
            number = self.trace.formula(start)
            return Value(dims, lambda *indices: number)
        value = self.trace.value(start)
        if value.finite is not None or value.dtype in "ib":
            raise NotDerivable(f"derive{self.loop.where}: a state begins with no finite floats")
        if value.dims != dims:
            raise NotDerivable(
                f"derive{self.loop.where}: a state has another shape before the loop ({_shape(value.dims)}) than "
                f"after a step ({_shape(dims)}); give it its shape before the loop, by expand() or zeros()"
            )
        return value

    def end(self) -> None:
        """Make states and sums of what is carried, and note the values after the last step."""
        trace, loop, lines = self.trace, self.loop, self.lines
        values = {name: trace.value(state.end) for name, state in self.read.states.items()}
        for term in self.read.collected:
            trace.value(*term.args)
        lines.step = None
        masks = list(lines.constants.items())[self.constants :]
        if any(isinstance(mask, ExtremeMask) and mask.of.has(loop.step) for _, mask in masks):
            raise NotDerivable(
                f"derive{loop.where}: the largest or smallest entry inside of a loop over a size; take it after the "
                "loop, of all steps at once, or prove() it at one size"
            )
        new = lines.groups[self.groups :]
        for name, state in self.read.states.items():
            made, value = self.states[name], values[name]
            if value.finite is not None or value.dtype != "f" or value.dims != made.initial.dims:
                raise NotDerivable(f"derive{loop.where}: a state is no tensor of finite floats of one shape")
            indices = value.indices([loop.step])
            if (total_value := self._total(state, made, value)) is not None:
                trace.values[id(state.final)] = total_value
                continue
            expr = value.entry(*indices)
            group = next((g for g in new if _defines(g, expr, indices)), None)
            if group is None or any(s.group is group for s in loop.states):
                array = StepArray(lines.unused(name), made.before.sizes[1:], loop.step)
                group = Group([Definition(array[tuple(indices)], fresh(S(expr)))], [], loop.where)
                lines.groups.append(group)
                new.append(group)
            group.inline = ""
            made.group = group
            loop.states.append(made)
            trace.values[id(state.end)] = value_of_name(made.out, made.initial)
            trace.values[id(state.final)] = value_of_name(made.final, made.initial)
        trace.loops.append(loop)
        for term in self.read.collected:
            trace.rows[id(term)] = loop, trace.value(*term.args), self.states.get(term.state)
        if loop.states:
            lines.notes[
                "the adjoints of a recurrence follow from those of one step, which are proved, by the chain rule: "
                "induction over the steps"
            ] = None

    def is_sum(self, state: Carried) -> bool:
        """Is it s + g for a state s, of which no other step than the last is used?"""
        end = state.end
        collected = [t for term in self.read.collected for t in terms_of(term.args)]
        if not isinstance(end, Term) or end.name not in ("add", "sub") or end in collected:
            return False
        carried = [a is state.term for a in end.args]
        everywhere = [t for term in self.body for t in terms_of(term.args)] + collected
        everywhere += [s.end for s in self.read.states.values() if s is not state]
        uses = [sum(t is value for t in everywhere) for value in (state.term, end)]
        return carried[0] != any(carried[1:]) and uses == [1, 0]

    def _total(self, state: Carried, made: State, value: Value) -> Value | None:
        """The initial value and the sum of what all steps add to it, as a line; None if the carried value is no sum."""
        if not self.is_sum(state):
            return None
        t, initial, letters = self.loop.step, made.initial, made.initial.indices([self.loop.step])
        term = S(value.entry(*letters)) - made.before[tuple(letters)]
        term = normal(term) if names_in(term) & {made.before} else term
        if names_in(term) & {made.before}:
            return None

        def entry(*i):
            return initial.entry(*i) + total(fresh(term).xreplace(dict(zip(letters, i, strict=True))), t)

        return self.lines.name(Value(initial.dims, entry), state.name, where=self.loop.where, by_user=True)


def _defines(group: Group, expr: Expr, indices: list) -> bool:
    """Is the expression the entry, at a step and these indices, of the one line of this group?"""
    left = group.output.left
    if len(group.lines) > 1 or group.closed or not isinstance(left, Indexed):
        return False
    return left.xreplace(dict(zip(left.indices[1:], indices))) == expr


def _shape(dims) -> str:
    return ", ".join("*".join(map(str, dim)) or "1" for dim in dims)


def all_steps(loop: Loop, value: Value, state: State | None, where: str) -> Value:
    """The results of all steps along a new first dimension, by positions; of a state with its initial value."""
    if value.finite is not None or value.dtype != "f":
        raise NotDerivable(f"derive{where}: the results of a loop are no finite floats")
    # where the result of step t is, t + shift, and the initial value
    shift, first = (0, loop.count + 1) if loop.down or state is None else (1, 1)
    n = loop.count + int(state is not None)

    def result(t, *indices):
        return fresh(S(value.entry(*indices))).xreplace({loop.step: t})

    def entry(i, *indices):
        if fits(i - shift, loop.count):
            return result(i - shift, *indices)
        if not fits(i, n) or state is None:
            raise TypeError(f"{i} stands where an index of 1..{n} belongs")
        if fits(i - 1 + shift, loop.count):
            return state.before[(i - 1 + shift, *indices)]
        k = Index("k", loop.count)
        later = total(KroneckerDelta(i, k + shift) * result(k, *indices), k)
        return KroneckerDelta(i, first) * state.initial.entry(*indices) + later

    return Value(((n,), *value.dims), entry)

"""The recurrences of a gradient by hand as those of the function: by induction over the steps.

A state of a loop by hand is taken for a sequence that the derivation has: a state of a loop of the function, or the
adjoint δ of one, which runs the other way. It is this sequence if its first value is the same, and if a step by hand
makes of the sequence's value before the step its value after the step. Both are compared by normal forms.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sympy import Expr, Indexed, S

from tinytensor.symbolic.derive.loops import Loop, State
from tinytensor.symbolic.derive.recurrences import Recurrence
from tinytensor.symbolic.derive.values import Step
from tinytensor.symbolic.index_calculus.adjoints import Definition, d, expanded, name_of
from tinytensor.symbolic.index_calculus.formulas import Array
from tinytensor.symbolic.index_calculus.vanishing import vanishes

CHOICES = 24  # ways to take the states of one loop for sequences that are tried


class Known(NamedTuple):
    """A sequence of the derivation: a state of a loop of the function, or the adjoint of this state."""

    recurrence: Recurrence
    state: State
    adjoint: Array | None

    def before(self, t: Expr, indices: list) -> Expr:
        """Its value before step t; the adjoint's steps run the other way."""
        if self.adjoint is None:
            return self.state.before[(t, *indices)]
        return self.adjoint[(self.recurrence.position(t, True), *indices)]

    def final(self, indices: list) -> Expr:
        """Its value after the last step."""
        if self.adjoint is None:
            return self.state.final_at(indices)
        return Indexed(self.adjoint, self.recurrence.at_end(False), *indices)

    def first_and_after(self, derived, t: Expr, indices: list) -> tuple[Expr, Expr]:
        """Its first value, and its value after step t, in the names of the function."""
        if self.adjoint is None:
            return S(self.state.initial.entry(*indices)), self.state.out[(t, *indices)]
        lines = list(derived.adjoints.values())
        entries = d(self.state.final_at(indices)), d(self.state.before)[(t, *indices)]
        first, after = (expanded(derived.adjoints[name_of(entry)].at(entry), lines) for entry in entries)
        return first, after


def states_as_known(
    derived, loops: list[Loop], lines: list[Definition], rename: Callable
) -> tuple[list[Definition], set[str]]:
    """The states of loops by hand, defined as the sequences of the derivation that they are; and conditions on values.

    lines: those of the gradient by hand. rename: from its names to those of the function. A state that is none of these
    sequences has no definition.
    """
    definitions: list[Definition] = []
    hypotheses: set[str] = set()
    for loop in loops:
        for choice in itertools.islice(_choices(derived, loop), CHOICES):
            more = [*definitions, *_definitions(loop, choice)]
            pairs = zip(loop.states, choice, strict=True)
            conditions = [_conditions(derived, loop.step, *pair, [*more, *lines], rename) for pair in pairs]
            if None not in conditions:
                definitions, hypotheses = more, hypotheses.union(*conditions)
                break
    return definitions, hypotheses


def _choices(derived, loop: Loop) -> Iterator[tuple[Known, ...]]:
    """Sequences for the states of a loop, with as many steps and the same shapes."""
    options: list[list[Known]] = [[] for _ in loop.states]
    for r in (r for r in derived.recurrences if r.count == loop.count):
        for known, adjoint in zip(r.states, r.adjoints, strict=True):
            for state, fitting in zip(loop.states, options, strict=True):
                if known.out.sizes == state.out.sizes:
                    fitting.append(Known(r, known, adjoint if r.down != loop.down else None))
    return (choice for choice in itertools.product(*options) if choice and len(set(choice)) == len(choice))


def _definitions(loop: Loop, choice: tuple[Known, ...]) -> list[Definition]:
    result = []
    for state, known in zip(loop.states, choice, strict=True):
        indices = state.indices
        result.append(Definition(state.before[(loop.step, *indices)], known.before(loop.step, indices)))
        result.append(Definition(state.final_at(indices), known.final(indices)))
    return result


def _conditions(
    derived, step: Step, state: State, known: Known, lines: list[Definition], rename: Callable
) -> set[str] | None:
    """The conditions on values under which the first value and a step by hand are those of the sequence, or None."""
    hypotheses: set[str] = set()
    indices = state.indices
    by_hand = S(state.initial.entry(*indices)), state.out[(step, *indices)]
    try:
        for hand, derivative in zip(by_hand, known.first_and_after(derived, step, indices), strict=True):
            difference = expanded(rename(expanded(hand, lines)) - derivative, derived.forward)
            theorem = vanishes([difference], derived.facts)
            if theorem is None or "equality" in theorem.hypotheses:
                return None
            hypotheses |= theorem.hypotheses
    except TypeError:  # indices of two ranges meet
        return None
    return hypotheses

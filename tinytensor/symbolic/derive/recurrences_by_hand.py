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
from tinytensor.symbolic.derive.values import value_of_name
from tinytensor.symbolic.index_calculus.adjoints import Definition, d, expanded
from tinytensor.symbolic.index_calculus.vanishing import vanishes

CHOICES = 24  # ways to take the states of one loop for sequences that are tried


class Known(NamedTuple):
    """A sequence of the derivation: a state of a loop of the function, or its adjoint."""

    recurrence: Recurrence
    number: int
    adjoint: bool

    @property
    def state(self) -> State:
        return self.recurrence.states[self.number]

    def before(self, t: Expr, own: list) -> Expr:
        """Its value before step t; the adjoint's steps run the other way."""
        if self.adjoint:
            return self.recurrence.adjoints[self.number][(self.recurrence.position(t, True), *own)]
        return self.state.before[(t, *own)]

    def final(self, own: list) -> Expr:
        """Its value after the last step."""
        if self.adjoint:
            return Indexed(self.recurrence.adjoints[self.number], self.recurrence.at_end(False), *own)
        return value_of_name(self.state.final, self.state.initial).entry(*own)

    def first_and_after(self, derived, t: Expr, own: list) -> tuple[Expr, Expr]:
        """Its first value, and its value after step t, in the names of the function."""
        if not self.adjoint:
            return S(self.state.initial.entry(*own)), self.state.out[(t, *own)]
        lines = list(derived.adjoints.values())
        last = value_of_name(self.state.final, self.state.initial).entry(*own)
        pairs = (d(self.state.final), d(last)), (d(self.state.before), d(self.state.before)[(t, *own)])
        first, after = (expanded(derived.adjoints[name].at(entry), lines) for name, entry in pairs)
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
            known = [_is_known(derived, loop, s, k, [*more, *lines], rename) for s, k in zip(loop.states, choice)]
            if None not in known:
                definitions, hypotheses = more, hypotheses.union(*known)
                break
    return definitions, hypotheses


def _choices(derived, loop: Loop) -> Iterator[tuple[Known, ...]]:
    """Sequences for the states of a loop, with as many steps and the same shapes."""
    options = []
    for state in loop.states:
        own = []
        for r in derived.recurrences:
            for number, other in enumerate(r.states):
                if r.count == loop.count and other.out.sizes == state.out.sizes:
                    own.append(Known(r, number, r.down != loop.down))
        options.append(own)
    return (choice for choice in itertools.product(*options) if choice and len(set(choice)) == len(choice))


def _definitions(loop: Loop, choice: tuple[Known, ...]) -> list[Definition]:
    result = []
    for state, known in zip(loop.states, choice, strict=True):
        own = state.initial.indices([loop.step])
        result.append(Definition(state.before[(loop.step, *own)], known.before(loop.step, own)))
        result.append(Definition(value_of_name(state.final, state.initial).entry(*own), known.final(own)))
    return result


def _is_known(
    derived, loop: Loop, state: State, known: Known, lines: list[Definition], rename: Callable
) -> set[str] | None:
    """The conditions on values under which the first value and a step by hand are those of the sequence, or None."""
    hypotheses: set[str] = set()
    own = state.initial.indices([loop.step])
    by_hand = S(state.initial.entry(*own)), state.out[(loop.step, *own)]
    try:
        for one, other in zip(by_hand, known.first_and_after(derived, loop.step, own), strict=True):
            difference = expanded(rename(expanded(one, lines)) - other, derived.forward)
            theorem = vanishes([difference], derived.facts)
            if theorem is None or "equality" in theorem.hypotheses:
                return None
            hypotheses |= theorem.hypotheses
    except TypeError:  # indices of two ranges meet
        return None
    return hypotheses

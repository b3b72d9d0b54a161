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
from tinytensor.symbolic.index_calculus.adjoints import Definition, d, expanded, name_of
from tinytensor.symbolic.index_calculus.formulas import Array, Index
from tinytensor.symbolic.index_calculus.vanishing import vanishes

CHOICES = 24  # ways to take the states of one loop for sequences that are tried


class Known(NamedTuple):
    """A sequence of the derivation: its values before and after step t, the first and the last one, at `indices`."""

    array: Array
    indices: list[Index]
    before: Expr
    final: Expr
    first: Expr
    after: Expr


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
        every = itertools.product(*[[*_sequences(derived, loop, state)] for state in loop.states])
        choices = (choice for choice in every if choice and len({known.array for known in choice}) == len(choice))
        for choice in itertools.islice(choices, CHOICES):
            pairs, more = [*zip(loop.states, choice, strict=True)], list(definitions)
            for state, known in pairs:
                more.append(Definition(state.before[(loop.step, *known.indices)], known.before))
                more.append(Definition(state.final_at(known.indices), known.final))
            conditions = [_conditions(derived, loop, *pair, [*more, *lines], rename) for pair in pairs]
            if None not in conditions:
                definitions, hypotheses = more, hypotheses.union(*conditions)
                break
    return definitions, hypotheses


def _sequences(derived, loop: Loop, state: State) -> Iterator[Known]:
    """The sequences with as many steps and the same shape; the adjoint of a state runs the other way."""
    t, indices, lines = loop.step, state.indices, list(derived.adjoints.values())
    for r in (r for r in derived.recurrences if r.count == loop.count):
        for known, adjoint in zip(r.states, r.adjoints, strict=True):
            if known.out.sizes != state.out.sizes:
                continue
            if r.down == loop.down:
                first, after = S(known.initial.entry(*indices)), known.out[(t, *indices)]
                yield Known(known.out, indices, known.before[(t, *indices)], known.final_at(indices), first, after)
                continue
            entries = d(known.final_at(indices)), d(known.before)[(t, *indices)]
            first, after = (expanded(derived.adjoints[name_of(entry)].at(entry), lines) for entry in entries)
            final = Indexed(adjoint, r.at_end(False), *indices)
            yield Known(adjoint, indices, adjoint[(r.position(t, True), *indices)], final, first, after)


def _conditions(
    derived, loop: Loop, state: State, known: Known, lines: list[Definition], rename: Callable
) -> set[str] | None:
    """The conditions on values under which the first value and a step by hand are those of the sequence, or None."""
    hypotheses: set[str] = set()
    by_hand = S(state.initial.entry(*known.indices)), state.out[(loop.step, *known.indices)]
    try:
        for hand, derivative in zip(by_hand, (known.first, known.after), strict=True):
            difference = expanded(rename(expanded(hand, lines)) - derivative, derived.forward)
            theorem = vanishes([difference], derived.facts)
            if theorem is None or "equality" in theorem.hypotheses:
                return None
            hypotheses |= theorem.hypotheses
    except TypeError:  # indices of two ranges meet
        return None
    return hypotheses

"""Loops over a size: their recurrences and adjoints are proved, and steps that are not alike are refused."""

import time
from functools import cache

import numpy as np
import pytest

from tests.symbolic.derive.recurrent_functions import (
    READ,
    RECURRENT,
    REFUSED,
    RIGHT,
    WRONG,
    all_states,
    dU_without_transpose,
    largest_later,
    last_state,
    late_step_twice,
    lstm,
    one_more_at_first,
)
from tinytensor.symbolic import check, derive
from tinytensor.symbolic.derive import by_hand, loops, recurrences, recurrences_by_hand, samples, time_limit
from tinytensor.symbolic.derive import check as checking
from tinytensor.symbolic.derive import trace as tracing
from tinytensor.symbolic.derive.comparison import Comparison
from tinytensor.symbolic.reading import language
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.reading.sizes import Reading

XH = {"x": ("T", "D"), "h": ("D",)}


def names(one):
    return getattr(one, "__name__", str(one))


@cache
def derivation_of(function):
    return derive(function, **RECURRENT[function][0])


@pytest.mark.parametrize("function", RECURRENT, ids=names)
def test_recurrence_is_proved(function):
    derivation = derivation_of(function)
    assert derivation, derivation.verdict
    lines = [line.strip() for line in str(derivation).splitlines()]
    for wanted in RECURRENT[function][1]:
        assert any(line == wanted or line.startswith(f"{wanted} ") for line in lines), (wanted, str(derivation))


@pytest.mark.parametrize("function", READ, ids=names)
def test_numbers_of_the_step_and_changes_in_place_are_read(function):
    derivation = derive(function, **XH)
    assert derivation.verdict == READ[function]


@pytest.mark.parametrize("function", REFUSED, ids=names)
def test_steps_that_are_not_alike_are_refused(function):
    arguments = XH | ({"h": ()} if function.__name__ == "every_entry" else {})
    with pytest.raises(NotDerivable, match=REFUSED[function]):
        derive(function, **arguments)


def weights_of_200_steps(x):
    weights, s = [1.0] * 200, 0 * x.sum()
    weights[150] = 2.0
    for t in range(x.shape[0]):
        s = s + weights[t] * x[t] ** 2
    return s


def late_count(x):
    s, n = 0 * x.sum(), 0
    for t in range(x.shape[0]):
        n = n + 1
        s = s + (3.0 if n == 300 else 1.0) * x[t] ** 2
    return s


@pytest.mark.parametrize("function", [weights_of_200_steps, late_count])
def test_state_of_python_that_changes_from_step_to_step_is_refused(function):
    with pytest.raises(NotDerivable, match=r"no number here|bool"):
        derive(function, x=("T",))


def test_question_that_is_not_heard_proves_a_loop_that_changes_late(monkeypatch):
    """A planted mistake: a question about the step is answered for one step, and not refused."""

    def ask(self, operation, p, wanted=None):
        if wanted is None and p.free_symbols & self.steps.keys() and self.decide(operation, p) is None:
            return False
        return asked(self, operation, p, wanted)

    asked = Reading.ask
    monkeypatch.setattr(language, "check_code", lambda *_: None)  # which would look at ask()
    monkeypatch.setattr(Reading, "ask", ask)
    assert derive(late_step_twice, **XH)  # the planted mistake: this must not be called proved


@pytest.mark.parametrize(("function", "argument", "hand"), RIGHT, ids=names)
def test_right_recurrence_by_hand_is_proved(function, argument, hand):
    checked = check(derivation_of(function), {argument: hand})
    assert checked, str(checked)


@pytest.mark.parametrize(("function", "argument", "hand"), WRONG, ids=names)
def test_wrong_gradient_by_hand_is_refuted(function, argument, hand):
    checked = check(derivation_of(function), {argument: hand})[argument]
    assert checked.verdict == "refuted"
    assert checked.example


def test_term_that_differs_is_named_as_it_is_printed():
    hand = next(hand for function, _, hand in WRONG if hand.__name__ == "dU_of_new_states")
    assert "the term Σ_t δ_tj h[t - 1, i] is missing" in check(derivation_of(last_state), {"U": hand})["U"].term


@pytest.mark.parametrize(("function", "argument", "hand"), WRONG[:6], ids=names)
def test_wrong_recurrence_is_not_proved_without_numbers(function, argument, hand, monkeypatch):
    monkeypatch.setattr(checking, "compare_at_samples", lambda *_: Comparison())
    monkeypatch.setattr(time_limit.TimeLimit, "clock", lambda self: time.process_time())  # five steps in a row are long
    assert not check(derivation_of(function), {argument: hand}, limit=4)


def test_induction_that_compares_nothing_proves_a_wrong_recurrence(monkeypatch):
    monkeypatch.setattr(checking, "compare_at_samples", lambda *_: Comparison())
    monkeypatch.setattr(recurrences_by_hand, "_is_known", lambda *_: set())
    assert check(derivation_of(last_state), {"U": dU_without_transpose})  # the planted mistake


@pytest.mark.parametrize("planted", ["position", "at_end"])
def test_adjoint_at_a_wrong_step_is_not_proved(planted, monkeypatch):
    right = getattr(recurrences.Recurrence, planted)
    wrong = {
        "position": lambda self, t, after: right(self, t, False),
        "at_end": lambda self, final: right(self, False),
    }
    monkeypatch.setattr(recurrences.Recurrence, planted, wrong[planted])
    assert not derive(last_state, **RECURRENT[last_state][0])


def test_state_that_is_left_out_is_not_proved(monkeypatch):
    """A state taken for a constant: the link between the steps is missing."""
    monkeypatch.setattr(loops.LoopLines, "is_sum", lambda self, state: False)
    assert derive(lstm, **RECURRENT[lstm][0])  # sums as states are right, too
    definition = recurrences.Recurrence.definition
    monkeypatch.setattr(
        recurrences.Recurrence,
        "definition",
        property(lambda self: definition.fget(self)._replace(right=definition.fget(self).right.args[0])),
    )
    assert not derive(last_state, **RECURRENT[last_state][0])


def test_number_of_steps_below_zero_is_a_condition():
    derivation = derive(largest_later, **XH)
    assert derivation.verdict.startswith("proved only for T > 1, where no two numbers that are compared are equal")
    assert derive(largest_later, "T > 1", **XH)


def test_first_step_that_there_may_not_be_is_a_condition():
    derivation = derive(one_more_at_first, **XH)
    assert derivation.verdict == 'proved only for T > 1; if that is what you mean, say where="T > 1"'


def test_assumptions_say_how_the_loop_is_read():
    assumptions = " ".join(derivation_of(last_state).assumptions)
    assert "by the chain rule: induction over the steps" in assumptions


def test_program_has_a_loop_forward_and_one_backward():
    source = derivation_of(all_states).source()
    assert source.index("for t in range(T):") < source.index("for t in reversed(range(T)):")
    assert "δ[t] = U @ da[t]" in source


def test_no_steps_leave_the_first_state():
    derivation = derivation_of(next(f for f in RECURRENT if f.__name__ == "chain_of_neighbours"))
    computed = derivation.evaluate(x=np.ones((1, 3)), h=np.arange(3.0))
    assert computed["value"] == 3.0
    assert (computed["h"] == 1).all()
    assert (computed["x"] == 0).all()


def test_sizes_of_samples_reach_no_step_and_many():
    numbers = {next(iter(at.values())) for at, _ in samples.points([tracing.Size("T", "t")])}
    assert {1, 2, 3, 16, 33, 211} <= numbers
    assert by_hand.UPSTREAM == "g"

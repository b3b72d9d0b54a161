"""Loops over a size: planted mistakes in recurrences and their adjoints, and the program."""

import time

import numpy as np
import pytest

from examples.gradients import functions as examples
from tests.symbolic.derive.recurrent_functions import BY_HAND, RECURRENT, XH, ByHand, Refused
from tests.symbolic.programs import derivations
from tinytensor.symbolic import check, derive, time_limit
from tinytensor.symbolic.derive import by_hand, loops, recurrences, recurrences_by_hand, samples
from tinytensor.symbolic.derive import check as checking
from tinytensor.symbolic.derive import trace as tracing
from tinytensor.symbolic.derive.samples import Comparison
from tinytensor.symbolic.reading import language
from tinytensor.symbolic.reading.sizes import Reading

derivation_of = derivations(RECURRENT)


def test_question_that_is_not_heard_proves_a_loop_that_changes_late(monkeypatch):
    """A planted mistake: a question about the step is answered for one step, and not refused."""

    def ask(self, operation, p, wanted=None):
        if wanted is None and p.free_symbols & self.steps.keys() and self.decide(operation, p) is None:
            return False
        return asked(self, operation, p, wanted)

    asked = Reading.ask
    monkeypatch.setattr(language, "check_code", lambda *_: None)  # which would look at ask()
    monkeypatch.setattr(Reading, "ask", ask)
    assert derive(Refused.late_step_twice, **XH)  # the planted mistake: this must not be called proved


@pytest.mark.slow
@pytest.mark.parametrize(("name", "argument", "wrong", "right"), BY_HAND[:4])
def test_wrong_recurrence_is_not_proved_without_numbers(name, argument, wrong, right, monkeypatch):
    monkeypatch.setattr(checking, "compare_at_samples", lambda *_: Comparison())
    monkeypatch.setattr(time_limit.TimeLimit, "clock", lambda self: time.process_time())  # five steps in a row are long
    assert not any(check(derivation_of(name), {argument: hand}, limit=4) for hand in wrong)


@pytest.mark.slow
def test_induction_that_compares_nothing_proves_a_wrong_recurrence(monkeypatch):
    monkeypatch.setattr(checking, "compare_at_samples", lambda *_: Comparison())
    monkeypatch.setattr(recurrences_by_hand, "_conditions", lambda *_: set())
    assert check(derivation_of("last_state"), {"U": ByHand.dU_without_transpose})  # the planted mistake


@pytest.mark.slow
@pytest.mark.parametrize("planted", ["position", "at_end"])
def test_adjoint_at_a_wrong_step_is_not_proved(planted, monkeypatch):
    right = getattr(recurrences.Recurrence, planted)
    wrong = {"position": lambda self, t, after: right(self, t, False), "at_end": lambda self, final: right(self, False)}
    monkeypatch.setattr(recurrences.Recurrence, planted, wrong[planted])
    assert not derivation_of.__wrapped__("last_state")


@pytest.mark.slow
def test_state_that_is_left_out_is_not_proved(monkeypatch):
    """A state taken for a constant: the link between the steps is missing."""
    monkeypatch.setattr(loops.LoopLines, "is_sum", lambda self, state: False)
    lstm = examples.TABLE["lstm"]
    assert derive(lstm.function, **lstm.arguments)  # sums as states are right, too
    definition = recurrences.Recurrence.definition
    wrong = property(lambda self: definition.fget(self)._replace(right=definition.fget(self).right.args[0]))
    monkeypatch.setattr(recurrences.Recurrence, "definition", wrong)
    assert not derivation_of.__wrapped__("last_state")


def test_assumptions_say_how_the_loop_is_read():
    assumptions = " ".join(derivation_of("last_state").assumptions)
    assert "by the chain rule: induction over the steps" in assumptions


@pytest.mark.slow
def test_program_has_a_loop_forward_and_one_backward():
    source = derivation_of("all_states").source()
    assert source.index("for t in range(T):") < source.index("for t in reversed(range(T)):")
    assert "δ[t] = U @ da[t]" in source


@pytest.mark.slow
def test_no_steps_leave_the_first_state():
    derivation = derivation_of("chain_of_neighbours")
    computed = derivation.evaluate(x=np.ones((1, 3)), h=np.arange(3.0))
    assert computed["value"] == 3.0
    assert (computed["h"] == 1).all()
    assert (computed["x"] == 0).all()


def test_sizes_of_samples_reach_no_step_and_many():
    numbers = {next(iter(at.values())) for at, _ in samples.points([tracing.Size("T", "t")])}
    assert {1, 2, 3, 16, 33, 211} <= numbers
    assert by_hand.UPSTREAM == "g"

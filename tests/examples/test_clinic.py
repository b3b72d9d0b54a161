"""The training runs of lesson 20: each fault shows its sign, a mended run shows none, and other repairs do not help.

The signs are those of the key, SIGNS in the answers: each compares a number that was measured with a limit.
"""

import math

import pytest

from examples.exercises.clinic import FAULTS, REPAIRS, Run, V, train, with_fault
from tests.examples.test_checks import key
from tests.tools.sampling_rate import THOROUGH, some

SEEDS = range(20 if THOROUGH else 2)

each_fault = pytest.mark.parametrize("name", FAULTS)


def shown(run: Run) -> str:
    """The fault that a run shows, or "healthy"."""
    return key("20_training_clinic")["right_4"](train(run))


@each_fault
def test_each_fault_shows_its_sign(name):
    assert [shown(with_fault(name, seed=seed)) for seed in SEEDS] == [name for _ in SEEDS]


def test_mended_run_shows_none():
    assert {shown(Run(seed)) for seed in SEEDS} == {"healthy"}
    assert all(getattr(with_fault(name), name) != getattr(Run(), name) for name in FAULTS)


@each_fault
def test_repair_of_something_else_does_not_help(name):
    assert len(REPAIRS[name]) == 2
    for change in some(REPAIRS[name], one_in=2):
        assert change and name not in change
        assert shown(Run(**change)) != name, "the sign should come from the fault"
        assert [shown(with_fault(name, seed=seed, **change)) for seed in SEEDS] == [name for _ in SEEDS], change


HELPFUL = {"rate": {"max_norm": 0.1}, "text": {"text": 3000}, "gain": {"gain": 1.5}, "softmax": {"softmax": False}}


@pytest.mark.parametrize("name", HELPFUL)
def test_repair_that_helps_is_seen(name):
    """Steps are no longer than rate · max_norm, so the smaller limit of clipping is a smaller rate."""
    assert [shown(with_fault(name, **{"seed": seed} | HELPFUL[name])) for seed in SEEDS] == ["healthy" for _ in SEEDS]


def test_loss_of_two_softmaxes_has_a_floor():
    floor = math.log(math.e + V - 1) - 1  # exercise 3
    assert all(min(train(with_fault("softmax", seed=seed)).loss) > floor for seed in SEEDS)
    assert min(train(Run()).loss) < floor


def test_limit_of_clipping_after_the_step_changes_nothing():
    """What the lesson says of it, to the last digit."""
    assert train(with_fault("clip", max_norm=0.1)).loss == train(with_fault("clip")).loss
    assert train(Run(max_norm=0.1)).loss != train(Run()).loss

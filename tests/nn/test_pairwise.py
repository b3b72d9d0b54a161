"""Modules with their options in combination (pairwise.py), and a few mistakes where two of them meet."""

import itertools

import pytest

from tests.mutants import options
from tests.nn import pairwise

CASES = [
    pytest.param(subject, case, id=f"{subject}-{number}")
    for subject in pairwise.SUBJECTS
    for number, case in enumerate(pairwise.cases(subject))
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("subject", "case"), CASES)
def test_options_in_combination(subject, case):
    assert pairwise.SUBJECTS[subject][2](case) == []


@pytest.mark.parametrize("subject", pairwise.SUBJECTS)
def test_every_pair_occurs(subject):
    choices = pairwise.SUBJECTS[subject][0]
    cases = pairwise.cases(subject)
    assert len(cases) <= 20
    for (a, some), (b, others) in itertools.combinations(choices.items(), 2):
        seen = {(case[a], case[b]) for case in cases}
        missing = set(itertools.product(some, others)) - seen
        assert all({a, b} == {"way", "training"} and pair in ((True, "cache"),) for pair in missing), (a, b, missing)


def test_pairs_of_three_options():
    chosen = pairwise.all_pairs({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, lambda case: case["a"] or case["b"])
    assert len(chosen) <= 6
    assert not any(case["a"] == case["b"] == 0 for case in chosen)
    for x, y in itertools.combinations("abc", 2):
        assert len({(case[x], case[y]) for case in chosen}) == (3 if x + y == "ab" else 4)


MEETING = [  # a few; `python -m tests.mutants` plants all
    "padding is forgotten where scores are added",
    "what a sublayer gives is not dropped where the norm comes first",
    "the causal mask is forgotten where weights are dropped",
    "a bias is forgotten in the cache of the input",
]


@pytest.mark.parametrize("what", MEETING)
def test_mistake_between_two_options_is_noticed(what):
    subject, *change = options.HAND[what]
    with options.planted(*change):
        assert not options.passes(subject)

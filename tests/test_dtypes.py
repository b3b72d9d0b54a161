"""The dtype that every operation gives for every dtype, and what it refuses, beside PyTorch's stored answers."""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
from dtype_samples import NOT_NARROWER, NUMBER, ONE, TWO, WALK, WIDER, answer, differs

import tinytensor as tt
from tinytensor.appearances import APPEARANCES

STORED = json.loads((Path(__file__).parent / "oracle" / "dtypes.json").read_text())
BY_EXPRESSION = defaultdict(list)
for _walk in WALK:
    BY_EXPRESSION[_walk[0]].append(_walk)
REFUSED_BY_PYTORCH, DEPART = (
    {expression for expressions in table.values() for expression in expressions}
    for table in (WIDER, WIDER | NOT_NARROWER)
)

# what has no dtype to choose (a tensor's operators are walked as operators), or is a module of a function walked here
ELSEWHERE = re.compile(r"nn\..*|Tensor\.__\w+__|Tensor\.(backward|is_cuda|pin_memory)")


def told(expression: str) -> list[str]:
    """Where an expression's answers are not PyTorch's."""
    found = ((walk, differs(answer(tt, *walk), STORED[" | ".join(walk)])) for walk in BY_EXPRESSION[expression])
    return [f"{expression} with {' '.join(dtypes)}: {what}" for (_, *dtypes), what in found if what]


@pytest.mark.parametrize("expression", BY_EXPRESSION)
def test_the_dtype_is_pytorchs_or_it_is_refused(expression):
    wrong = told(expression)
    if expression in DEPART:  # listed with a reason; and it must still depart
        assert wrong
        assert not any("refused:" in line for line in wrong)
        assert expression not in REFUSED_BY_PYTORCH or all("PyTorch gives refused" in line for line in wrong), wrong
    else:
        assert not wrong, "\n".join(wrong)


def test_the_stored_answers_are_those_of_the_table():
    assert STORED.keys() == {" | ".join(walk) for walk in WALK}


def test_no_operation_is_left_to_chance():
    """Every operation stands in an expression, under one of its names."""
    spoken = {word.rstrip("_") for word in re.findall(r"\w+", " ".join([*ONE, *TWO, *NUMBER]))}
    names = {place: place.rpartition(".")[2].rstrip("_") for place in APPEARANCES if not ELSEWHERE.fullmatch(place)}
    walked = {APPEARANCES[place] for place, name in names.items() if name in spoken}
    assert not {place for place in names if APPEARANCES[place] not in walked}


@pytest.mark.parametrize(
    ("found", "noticed"),
    [
        ([["float32", [1.0, 2.5]]], False),
        ([["float32", [1.0, 2.0]]], True),  # cut down on the way
        ([["int64", [1, 2]]], True),
        ([["float64", [1.0, 2.5]]], True),
        ("refused: a sentence", True),
    ],
)
def test_a_wrong_answer_is_noticed(found, noticed):
    assert bool(differs(found, [["float32", [1.0, 2.5]]])) == noticed
    assert bool(differs(found, "refused")) != (found == "refused: a sentence")

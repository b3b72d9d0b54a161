"""The checks of the exercises: what is no answer, answers with NaN, unusual right answers, and mutants of the key."""

import contextlib
import io
import math
import random
import re
import runpy
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tinytensor as tt
from examples.exercises import judge
from tests.examples.mutated import SAME, mutants
from tests.tools.sampling_rate import THOROUGH, some

ROOT = Path(__file__).parents[2]
EXERCISES = ROOT / "examples" / "exercises"
ANSWERS = Path(__file__).parent / "answers"
SHEETS = sorted(path.stem for path in EXERCISES.glob("[0-9]*.py"))

each_sheet = pytest.mark.parametrize("name", SHEETS)


def run(path: Path, names: dict | None = None, run_name: str = "<run_path>") -> tuple[dict, str]:
    """The names of a program, and what it prints, with the judge beside it."""
    with mock.patch.object(sys, "path", [*sys.path, str(EXERCISES)]), contextlib.redirect_stdout(io.StringIO()) as said:
        return runpy.run_path(str(path), names, run_name), said.getvalue()


@cache
def sheet(name: str) -> dict:
    return run(EXERCISES / f"{name}.py")[0]


@cache
def key(name: str) -> dict[str, Any]:
    """The names of the key, those of the exercises among them."""
    return run(ANSWERS / f"{name}.py", sheet(name))[0]


def verdict(name: str, number: int | str, answer: Callable, seed: int = 0) -> str:
    """What the check of an exercise says of an answer."""
    random.seed(seed)
    tt.manual_seed(seed)
    return sheet(name)[f"check_{number}"](answer)


def each(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The change of each part of a result."""
    return lambda x: type(x)(map(each(change), x)) if isinstance(x, list | tuple) else change(x)


# What is no answer

NO_ANSWERS: dict[str, Callable[..., Any]] = {
    "NaN": lambda *inputs: math.nan,
    "infinity": lambda *inputs: math.inf,
    "minus infinity": lambda *inputs: -math.inf,
    "an empty list": lambda *inputs: [],
    "a text": lambda *inputs: "text",
    "None": lambda *inputs: None,
    "True": lambda *inputs: True,
    "a huge number": lambda *inputs: 10**400,
    "a very long number": lambda *inputs: 10**9999,
    "a complex number": lambda *inputs: 1 + 2j,
    "the input": lambda *inputs: inputs[0] if inputs else None,
    "all inputs": lambda *inputs: inputs,
    "a tensor of another shape": lambda *inputs: tt.zeros(2, 3, 4, 1),
    "a tensor of truth values": lambda *inputs: tt.ones(2) > 0,
    "a tensor without entries": lambda *inputs: tt.zeros(0),
    "a tensor of NaN": lambda *inputs: tt.full((), math.nan),
    "a number": lambda *inputs: 1.5,
    "a list": lambda *inputs: [1.5, 2.5],
    "a ragged list": lambda *inputs: [[1.5], [2.5, 3.5]],
    "a tuple of NaNs": lambda *inputs: (math.nan, math.nan),
    "three texts": lambda *inputs: ("a", "b", "c"),
    "an array": lambda *inputs: np.ones(3),
    "an iterator": lambda *inputs: iter([1.5, 2.5]),
    "a dictionary": lambda *inputs: {},
    "a function": lambda *inputs: len,
    "a type": lambda *inputs: tt.Tensor,
    "two functions": lambda *inputs: (len, abs, len),
    "an error": lambda *inputs: 1 / 0,
    "the end of the program": lambda *inputs: sys.exit(),
    "a function of no inputs": lambda: 1.5,
}


@each_sheet
def test_what_is_no_answer_is_refused(name):
    for number in "1234":
        for what, answer in some(NO_ANSWERS.items(), 3):
            said = verdict(name, number, answer)
            assert re.fullmatch(r"not solved yet\. Hint: .+|wrong: .{15,}", said), f"{number}, {what}: {said}"
            assert len(said) < 2000, f"{number}, {what}: {len(said)} characters"


@each_sheet
def test_each_answer_with_nan_is_refused(name):
    replaced = []

    def with_nans(value: Any) -> Any:
        """A result with NaN in the place of each float."""
        if isinstance(value, list | tuple):
            return type(value)(map(with_nans, value))
        if isinstance(value, dict):
            return {each: with_nans(part) for each, part in value.items()}
        if callable(value):
            return lambda *inputs: with_nans(value(*inputs))
        if hasattr(value, "sources"):  # an entry of a tape
            value.data = with_nans(value.data)
        floats = isinstance(value, tt.Tensor) and value.is_floating_point()
        if floats or isinstance(value, float | np.floating | np.ndarray):
            replaced.append(value)
            return value * math.nan
        return value

    def spoilt(right: Callable) -> Callable:
        def answer(*inputs: Any) -> Any:
            result = with_nans(right(*inputs))
            for x in inputs:
                if isinstance(x, np.ndarray):  # of which some are overwritten with the result
                    replaced.append(x)
                    x *= math.nan
            return result

        return answer

    for number in "1234":
        replaced.clear()
        said = verdict(name, number, spoilt(key(name)[f"right_{number}"]))
        assert said.startswith("wrong: ") or not replaced, f"{number}: {said}"


@each_sheet
def test_later_exercises_are_judged_when_an_earlier_answer_ends_the_program(name, tmp_path):
    text = (EXERCISES / f"{name}.py").read_text()
    (tmp_path / "broken.py").write_text(re.sub(r"\n    \.\.\.\n", "\n    raise SystemExit\n", text))
    lines = run(tmp_path / "broken.py", run_name="__main__")[1].splitlines()
    assert [line[:12] for line in lines] == [f"exercise {n}: " for n in "1234"]
    assert any("stops with an error in broken.py, line" in line for line in lines)


# Right answers

UNUSUAL = {  # answers that a check took for wrong once
    "03_chain_rule 1 in float32": """
def answer(x, times):
    x = tt.tensor(x, requires_grad=True)
    for _ in range(times):
        (x * x).backward()
    return x.grad""",
    "06_softmax 2 as a float": "answer = lambda L, t: right_2(L, t).item()",
    "08_matmul 3 without return": "answer = lambda *inputs: (right_3(*inputs), None)[1]",
    "09_attention 4 in float64": "answer = lambda n: tuple(W.double() for W in right_4(n))",
    "09_attention 4 in whole numbers": "answer = lambda n: tuple((W * 50).round().to(tt.int64) for W in right_4(n))",
    "13_transformer 4 with a float": "answer = lambda *inputs: (right_4(*inputs)[0].item(), right_4(*inputs)[1])",
    "14_equation_17 4 with K ** 0.5": """
def answer(i, m):
    plain = total(q[i, k] * keys[m, k], k) / K**0.5
    return t * plain, total(plain * d(S)[i, m], i, m)""",
    "15_own_operation 2 with tanh": """
def answer(g, a, b):
    half = ((a - b) / 2).tanh() / 2
    return g * (0.5 + half), g * (0.5 - half)""",
    "15_own_operation 3 with tanh": "answer = lambda g, x: g * (1 + (x / 2).tanh()) / 2",
    "15_own_operation 4 with a power": "answer = lambda: (lambda a, b: (a * a + b * b) ** 0.5, *right_4()[1:])",
    "15_own_operation 4 with hypot": "answer = lambda: (np.hypot, *right_4()[1:])",
    "17_translation 2 in place": """
def answer(outputs):
    outputs[:, 1:] = outputs[:, :-1].clone()
    outputs[:, 0] = BEGIN
    return outputs""",
    "03_chain_rule 4 that empties the graph": """
def answer(edges, last):
    order = right_4(edges, last)
    edges.clear()
    return order""",
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_unusual_right_answer_is_right(what):
    name, number = what.split()[:2]
    names = dict(key(name))
    exec(UNUSUAL[what], names)
    for seed in range(50 if THOROUGH else 5):
        assert verdict(name, number, names["answer"], seed) == "right"


def exchanged(x: Any) -> Any:
    """Lists for tuples, and tuples for lists."""
    if isinstance(x, list | tuple):
        return (tuple if isinstance(x, list) else list)(map(exchanged, x))
    return x


ANOTHER_FORM: dict[str, Callable[[Any], Any]] = {
    "NumPy's numbers": each(lambda x: np.float64(x) if isinstance(x, float) else x),
    "tensors of one number": each(lambda x: tt.tensor(x, dtype=tt.float64) if isinstance(x, float) else x),
    "numbers of tensors": each(lambda x: x.item() if isinstance(x, tt.Tensor) and not x.ndim else x),
    "floats for whole numbers": each(lambda x: float(x) if type(x) is int else x),
    "float64": each(lambda x: x.double() if isinstance(x, tt.Tensor) and x.is_floating_point() else x),
    "lists for tuples": exchanged,
    "an array for a list": lambda x: np.array(x) if isinstance(x, list) and isinstance(x[0], float) else x,
}


@pytest.mark.one_in(3)
@each_sheet
def test_right_answers_in_another_form_are_right(name):
    for number in "1234":
        right = key(name)[f"right_{number}"]
        for what, change in ANOTHER_FORM.items():
            said = verdict(name, number, lambda *inputs, right=right, change=change: change(right(*inputs)))
            assert said == "right", f"{number}, {what}: {said}"


@each_sheet
def test_answer_that_spoils_its_inputs_is_right(name):
    def spoilt(right: Callable) -> Callable:
        def answer(*inputs: Any) -> Any:
            result = each(lambda x: x.clone() if isinstance(x, tt.Tensor) else x)(right(*inputs))
            for x in inputs:
                if isinstance(x, list | dict):
                    x.clear()
                elif isinstance(x, tt.Tensor) and not x.requires_grad:
                    x.zero_()
            return result

        return answer

    for number in "1234":
        if f"{name[:2]}.{number}" not in ("00.4", "02.4", "18.2", "18.4"):  # the first two ask for it, two are compiled
            assert verdict(name, number, spoilt(key(name)[f"right_{number}"])) == "right", number


# Wrong answers


def test_most_wrong_answers_of_the_key_get_a_sentence_that_names_the_mistake():
    said = {}
    for name in SHEETS:
        for each_name, answer in key(name).items():
            if each_name.startswith("wrong_"):
                said[f"{name[:2]} {each_name}"] = verdict(name, each_name.split("_")[1], answer)
    assert all(sentence.startswith("wrong: ") for sentence in said.values())
    unnamed = r"wrong: .+ (is|has the shape) .+, not (nan|[-+\de.]+|\[.*\]|\(.*\))\.( \d+ of \d+ numbers are right\.)?"
    bare = [each_name for each_name, sentence in said.items() if re.fullmatch(unnamed, sentence)]
    assert len(said) - len(bare) >= 220 and len(bare) < 5, bare


def accepted(name: str, one_in: int) -> list[str]:
    """The mutants of a lesson's key that a check takes for right, without those that are."""
    results = []
    for number, what, mutant in some(mutants(ANSWERS / f"{name}.py", key(name)), one_in):
        said = {verdict(name, number, mutant, seed) for seed in range(3)}
        assert all(re.fullmatch(r"right|not solved yet.*|wrong: .{15,}", sentence) for sentence in said), (what, said)
        if said == {"right"} and what not in SAME.get(name[:2], ()):
            results.append(what)
    return results


@each_sheet
def test_mutants_of_the_key_are_refused(name):
    assert accepted(name, one_in=20) == []


def test_mutant_that_is_taken_for_right_is_found(monkeypatch):
    monkeypatch.setitem(sheet("00_nudge"), "check_1", lambda answer: "right")
    assert len(accepted("00_nudge", one_in=5)) >= 2


# The comparison

RIGHT = np.array([[1.5, -2.0], [3.0, 0.25]])
PROPERTIES = [
    (-RIGHT, RIGHT, "The sign is the other way round."),
    (RIGHT.T, RIGHT, "It is transposed."),
    (5 * RIGHT, RIGHT, "All entries are the right ones times 5"),
    (RIGHT + 1, RIGHT, "All entries are off by 1"),
    (np.abs(RIGHT), RIGHT, "Only signs are wrong."),
    (RIGHT, RIGHT.sum(0), "A sum over dimension 0 is missing."),
    (RIGHT.sum(1), RIGHT, "You have summed over dimension 1, which should stay."),
    ([1.0, 2.0, 4.0], [4.0, 2.0, 1.0], "The entries are in reverse order."),
    ([1.0, 2.0, 4.0, 3.0], [2.0, 4.0, 3.0, 1.0], "All entries stand one place too far back."),
    ([1.0, 2.0, 4.0, 3.0], [4.0, 1.0, 2.0, 3.0], "These are the right numbers, in another order."),
    ([1.0, 2.0, 4.0], [1.0, 2.0], "1 too many."),
    (6, 5, "One too many."),
    (4.0, 5, "One too few."),
    (0.3, 0.6, "That is half of the right result."),
    (0.5, 2.0, "That is the right result upside down"),
    (math.inf, 0.7, "An infinite number comes from"),
    (math.nan, 0.7, "NaN is no number"),
    (2.1, 0.7, "The factor x stands there once too often."),
    (3.0, 0.7, "That is x itself."),
    (-2.3, 0.7, "The term x is missing"),
    ((2.0, 1.0), (1.0, 2.0), "The two are exchanged."),
]


@pytest.mark.parametrize(("result", "right", "said"), PROPERTIES, ids=lambda x: x if isinstance(x, str) else "")
def test_comparison_names_the_mistake(result, right, said):
    with pytest.raises(judge.Wrong) as caught:
        judge.compare(result, right, "it", inputs={"x": np.array(3.0)})
    assert said in str(caught.value)
    judge.compare(right, right, "it")


def test_comparison_names_no_mistake_that_is_not_there():
    with pytest.raises(judge.Wrong) as caught:
        judge.compare(0.7123, 1.9345, "it", {"a mistake": 0.7}, inputs={"x": np.array(2.2)})
    assert str(caught.value) == "it is 1.9345, not 0.7123."
    with pytest.raises(judge.Wrong, match=r"0\.1, not 0\.10002\.$"):  # as many digits as show the difference
        judge.compare(0.10002, 0.1, "it")


def test_mistake_is_named_only_where_it_differs_from_what_is_right():
    with pytest.raises(judge.Wrong) as caught:
        judge.compare((1.0, 7.0), (1.0, 2.0), "it", {"the first part is wrong": (1.0, ...)})
    assert "the first part is wrong" not in str(caught.value)


def test_every_check_is_judged():
    for name in SHEETS:
        assert all(hasattr(sheet(name)[f"check_{n}"], "__wrapped__") for n in "1234"), name

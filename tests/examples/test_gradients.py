"""The table of gradients: its entries fit their functions, the command prints them, and wrong gradients are refuted."""

import inspect
import itertools
from dataclasses import replace

import pytest

import tinytensor as tt
from examples.gradients.__main__ import main
from examples.gradients.functions import LIMIT, TABLE
from tests.tools.sampling_rate import some
from tinytensor.symbolic import Derivation, Index, check, time_limit


@pytest.mark.parametrize("name", TABLE)
def test_entries_fit_their_functions(name):
    entry = TABLE[name]
    assert list(inspect.signature(entry.function).parameters) == list(entry.arguments)
    sizes = {size for value in entry.arguments.values() for size in getattr(value, "shape", value)}
    sizes |= {value.below for value in entry.arguments.values() if isinstance(value, Index)}
    assert set(inspect.signature(entry.wrong).parameters) <= {*entry.arguments, *sizes, "g"}
    assert entry.argument in entry.arguments


@pytest.mark.slow
@pytest.mark.parametrize("name", list(some(TABLE, 4)))
def test_gradient_with_a_mistake_is_refuted(name):
    entry = TABLE[name]
    derivation = entry.derived(None)
    assert derivation.proved
    assert entry.checked(derivation, None)[entry.argument].verdict == "refuted"


MENDED = {
    "logistic": lambda X, w, N: TABLE["logistic"].wrong(X, w) / N,
    "softmax_loss": lambda z, N, K: (
        TABLE["softmax_loss"].wrong(z, N, K)
        - tt.einsum("nm,ni,nk->nimk", tt.eye(N, dtype=z.dtype), z.softmax(-1), z.softmax(-1)) / N
    ),
    "softmax": lambda x: x.softmax(-1).diag() - tt.outer(x.softmax(-1), x.softmax(-1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MENDED)
def test_second_derivatives_and_jacobians_are_proved_without_their_mistake(name):
    entry = TABLE[name]
    derivation = entry.derived(None)
    assert derivation.proved
    assert entry.checked(derivation, None)[entry.argument].verdict == "refuted"
    assert replace(entry, wrong=MENDED[name]).checked(derivation, None)


def test_command_prints_one_derivation(capsys):
    assert main(["dpo"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("DPO. ") and "arXiv:2305.18290" in output and "proved for any size" in output
    with pytest.raises(SystemExit):
        main(["nothing"])


def test_rotation_back_is_proved():
    entry = TABLE["rotary"]
    back = lambda cos, sin, g: entry.wrong(cos, -sin, g)  # noqa: E731
    assert check(entry.function, {"x": back}, limit=None, **entry.arguments)


LOOKS = (10, 60, 200, 10**6)  # at the clock until the limit: before the formulas, the gradients, the proof; never


def slow(monkeypatch, looks: int) -> None:
    """A machine whose limit is over after so many looks at the clock."""
    seconds = itertools.count(step=LIMIT / looks)
    monkeypatch.setattr(time_limit.TimeLimit, "clock", lambda self: next(seconds))


@pytest.mark.parametrize("looks", LOOKS)
def test_command_says_what_its_limit_ended(looks, monkeypatch, capsys):
    slow(monkeypatch, looks)
    assert main(["dpo"]) == 0
    said = capsys.readouterr().out
    assert ("NOT proved: " in said and "stopped at limit = 120 seconds" in said) is (looks < LOOKS[-1])
    assert ("∂𝓛/∂win_n = " in said) is (looks > LOOKS[1])


def test_command_fails_where_a_line_is_not_proved(monkeypatch):
    monkeypatch.setattr(Derivation, "differs", "the value does not match")
    monkeypatch.setattr(Derivation, "proved", False)
    for looks in LOOKS[1:]:
        slow(monkeypatch, looks)
        assert main(["dpo"]) == 1

"""The table of gradients: its entries fit their functions, the command prints them, and wrong gradients are refuted."""

import inspect

import pytest

from examples.gradients.__main__ import main
from examples.gradients.functions import TABLE
from tests.tools.sampling_rate import some
from tinytensor.symbolic import check


@pytest.mark.parametrize("name", TABLE)
def test_entries_fit_their_functions(name):
    entry = TABLE[name]
    assert list(inspect.signature(entry.function).parameters) == list(entry.arguments)
    assert set(inspect.signature(entry.wrong).parameters) <= {*entry.arguments, "g"}
    assert entry.argument in entry.arguments


@pytest.mark.parametrize("name", list(some(TABLE, 4)))
def test_gradient_with_a_mistake_is_refuted(name):
    entry = TABLE[name]
    result = check(entry.function, {entry.argument: entry.wrong}, entry.where, **entry.arguments)
    assert result.derivation.proved
    assert result[entry.argument].verdict == "refuted"


def test_command_prints_one_derivation(capsys):
    assert main(["dpo"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("DPO. ") and "arXiv:2305.18290" in output and "proved for any size" in output
    with pytest.raises(SystemExit):
        main(["nothing"])


def test_rotation_back_is_proved():
    entry = TABLE["rotary"]
    assert check(entry.function, {"x": lambda cos, sin, g: entry.wrong(cos, -sin, g)}, **entry.arguments)

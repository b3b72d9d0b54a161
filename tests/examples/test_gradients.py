"""The table of gradients: its entries fit their functions, the command prints them, and wrong gradients are refuted."""

import inspect
from dataclasses import replace

import pytest

import tinytensor as tt
from examples.gradients.__main__ import main
from examples.gradients.functions import TABLE
from tests.tools.sampling_rate import some
from tinytensor.symbolic import Index, check


@pytest.mark.parametrize("name", TABLE)
def test_entries_fit_their_functions(name):
    entry = TABLE[name]
    assert list(inspect.signature(entry.function).parameters) == list(entry.arguments)
    sizes = {size for value in entry.arguments.values() for size in getattr(value, "shape", value)}
    sizes |= {value.below for value in entry.arguments.values() if isinstance(value, Index)}
    assert set(inspect.signature(entry.wrong).parameters) <= {*entry.arguments, *sizes, "g"}
    assert entry.argument in entry.arguments


@pytest.mark.parametrize("name", list(some(TABLE, 4)))
def test_gradient_with_a_mistake_is_refuted(name):
    entry = TABLE[name]
    result = entry.checked()
    assert result.derivation.proved
    assert result[entry.argument].verdict == "refuted"


MENDED = {
    "logistic": lambda X, w, N: TABLE["logistic"].wrong(X, w) / N,
    "softmax_loss": lambda z, N, K: (
        TABLE["softmax_loss"].wrong(z, N, K)
        - tt.einsum("nm,ni,nk->nimk", tt.eye(N, dtype=z.dtype), z.softmax(-1), z.softmax(-1)) / N
    ),
    "softmax": lambda x: x.softmax(-1).diag() - tt.outer(x.softmax(-1), x.softmax(-1)),
}


@pytest.mark.parametrize("name", MENDED)
def test_second_derivatives_and_jacobians_are_proved_without_their_mistake(name):
    entry = TABLE[name]
    assert entry.derived().proved
    assert entry.checked()[entry.argument].verdict == "refuted"
    assert check(entry.function, **replace(entry, wrong=MENDED[name]).by_hand, **entry.arguments)


def test_command_prints_one_derivation(capsys):
    assert main(["dpo"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("DPO. ") and "arXiv:2305.18290" in output and "proved for any size" in output
    with pytest.raises(SystemExit):
        main(["nothing"])


def test_rotation_back_is_proved():
    entry = TABLE["rotary"]
    assert check(entry.function, {"x": lambda cos, sin, g: entry.wrong(cos, -sin, g)}, **entry.arguments)

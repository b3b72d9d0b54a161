"""What print() shows of tensors is what PyTorch shows, but for the library's name and grad_fn's."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tests.samples import printing as samples

STORED = json.loads((Path(__file__).parent / "samples" / "oracle" / "printing.json").read_text())


def wrong(option: str) -> dict[str, list[str]]:
    """The values whose text is not PyTorch's."""
    results = {value: samples.shown(tt, option, value).splitlines() for value in samples.VALUES}
    return {value: text for value, text in results.items() if text != STORED[option].get(value)}


@pytest.mark.parametrize("option", samples.OPTIONS)
def test_values_as_pytorch_prints_them(option):
    assert STORED[option].keys() == samples.VALUES.keys()
    assert not wrong(option)


@pytest.mark.parametrize("option", ["precision 2", "exponents", "no exponents", "narrow", "few"])
def test_ignored_print_option_is_noticed(option, monkeypatch):
    monkeypatch.setitem(samples.OPTIONS, option, {})
    assert len(wrong(option)) >= 5


def test_a_result_names_its_operation():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<mul>)"


def test_default_dtype_is_not_printed():
    tt.set_default_dtype(tt.float64)
    try:
        assert repr(tt.tensor([1.5])) == "tensor([1.5000])"
        assert repr(tt.tensor([1.5]).float()) == "tensor([1.5000], dtype=tinytensor.float32)"
    finally:
        tt.set_default_dtype(tt.float32)


def test_exact_numbers():
    x = tt.Tensor.of(np.array([Fraction(1, 3), Fraction(2)], object))
    assert repr(x) == "tensor([Fraction(1, 3), Fraction(2, 1)], dtype=object)"

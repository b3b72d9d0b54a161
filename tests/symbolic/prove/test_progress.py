"""The time of a proof: its progress and limit."""

import time

import numpy as np
import pytest

import tinytensor.nn.functional as F
from tinytensor.symbolic import TooLong, prove, symbols
from tinytensor.symbolic.prove import prover
from tinytensor.symbolic.time_limit import TimeLimit


def product(a, b):
    return a @ b


def test_one_large_operation_ends_when_its_time_is_up():
    start = time.monotonic()
    with pytest.raises(TooLong, match=r"stopped at limit = 0\.5 seconds"):
        prove(product, (60, 60), (60, 60), limit=0.5)
    assert time.monotonic() - start < 10  # of the minutes that it takes


@pytest.mark.parametrize("size", ["small", "real"])
def test_a_proof_ends_when_its_time_is_up(size, monkeypatch):
    seconds = iter(range(1000))
    monkeypatch.setattr(TimeLimit, "clock", lambda self: next(seconds))  # a second for each call
    with pytest.raises(TooLong, match="stopped at limit = 3 seconds"):
        prove(lambda x: x.exp().softmax(-1), (2, 2), size=size, limit=3)


@pytest.mark.parametrize("size", ["small", "real"])
def test_progress_is_printed(size, monkeypatch, capsys):
    monkeypatch.setattr(prover, "LONG", 0.0)
    fn = lambda x: (x * x).exp().tanh() * x  # noqa: E731
    assert prove(fn, (3, 3), size=size, progress=True)
    output = capsys.readouterr().err.splitlines()
    percents = [float(line.split()[1]) for line in output]
    assert all(line.startswith("<lambda>: ") and line.endswith(" left") for line in output)
    assert percents == sorted(percents) and 3 < len(percents) <= 10 and 90 <= percents[-1] <= 100
    assert prove(fn, (3, 3), size=size, progress=False)
    assert prove(fn, (3, 3), size=size)  # a file is no terminal
    assert capsys.readouterr().err == ""


def test_long_proof_shows_progress(monkeypatch, capsys):
    monkeypatch.setattr(prover, "LONG", 20.0)
    seconds = iter(range(10**6))
    monkeypatch.setattr(TimeLimit, "clock", lambda self: next(seconds))  # a second for each call
    assert prove(lambda x: (x * x).exp().tanh() * x, (3, 3), progress=True, limit=None)
    assert len(capsys.readouterr().err.splitlines()) > 3


@pytest.mark.slow
def test_large_matrices_are_proved():
    assert prove(product, (12, 12), (12, 12))
    assert prove(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (3, 2))
    assert np.prod(symbols("x", 60, 60).shape) == 3600  # more than there are witnesses with one denominator

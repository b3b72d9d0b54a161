"""The time of a proof: its estimate, progress and limit; and derivatives by the chain rule, which save time."""

import math
import sys
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
import sympy
from sympy.polys.rings import PolyElement

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.tools.packages import missing
from tinytensor.symbolic import TooLong, prove, symbols
from tinytensor.symbolic.exact.differentiate import Derivatives
from tinytensor.symbolic.prove import cost_estimate, progress
from tinytensor.symbolic.prove.cost_estimate import Count, estimate_cost, estimate_cost_at_real_size
from tinytensor.symbolic.prove.progress import Estimate, Lines, Progress, duration


def product(a, b):
    return a @ b


def leaves(*shapes):
    return [symbols(name, *shape).requires_grad_() for name, shape in zip("abc", shapes, strict=False)]


def test_pairs_are_counted():
    """Each of the 2 x 4 entries of a product depends on 3 + 3 numbers."""
    args = leaves((2, 3), (3, 4))
    before = [a._data for a in args]
    estimate = estimate_cost(product, args, args)
    assert estimate.weights == [8 * 6]
    assert all(a._data is b for a, b in zip(args, before, strict=True))
    args = leaves((2, 3))
    assert estimate_cost(lambda x: (x * 2).softmax(-1), args, args).weights == [6, 7 * 6 * 3]
    assert estimate_cost(lambda x: x * 2 * 3, args, args).bytes == 12 * (
        cost_estimate.BYTES_A_PAIR + cost_estimate.BYTES_AN_ENTRY
    )


@contextmanager
def work_done():
    """The calls inside, and the terms of multiplied polynomials: the same amount of work on any machine.

    A product of two terms goes through the powers of all variables; five of these count as a call.
    """
    done, multiply = [0.0], PolyElement.__mul__

    def product(a, b):
        if isinstance(b, PolyElement):
            done[0] += len(a) * len(b) * len(a.ring.gens) / 5
        return multiply(a, b)

    def note(frame, event, argument):
        done[0] += event in ("call", "c_call")

    PolyElement.__mul__, before = product, sys.getprofile()
    sys.setprofile(note)
    try:
        yield done
    finally:
        sys.setprofile(before)
        PolyElement.__mul__ = multiply


CALLS_A_SECOND = 5e6  # where cost_estimate.py measured
FACTOR = 2.0  # as cost_estimate.py says
LONGER = {
    "a product": (product, [(12, 12), (12, 12)]),
    "a layer": (lambda x, w, b: F.linear(x, w, b, relu=True), [(8, 8), (8, 8), (8,)]),
    "softmax": (lambda x: x.softmax(-1), [(4, 8)]),
    "cross-entropy": (lambda x: F.cross_entropy(x, tt.arange(4)), [(4, 12)]),
    "a long row of layer norm": (lambda x: F.layer_norm(x, (11,)), [(1, 11)]),
    "short rows of layer norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), [(5, 4), (4,), (4,)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(4, 2)] * 3),
    "attention, masked": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(5, 2)] * 3),
    "functions": (lambda x: (x * x).exp().tanh() * x, [(12, 12)]),
    "a function of several": (lambda x: F.gelu(x) + F.silu(x), [(8, 8)]),
}


@cache
def seconds_of_proof(what):
    fn, shapes = LONGER[what]
    assert prove(fn, *shapes)  # work done once in a process does not count
    with work_done() as done:
        assert prove(fn, *shapes)
    return done[0] / CALLS_A_SECOND


def ratio(what):
    """The ratio of a proof's work to its estimate."""
    fn, shapes = LONGER[what]
    args = leaves(*shapes)
    return seconds_of_proof(what) / estimate_cost(fn, args, args).seconds


@pytest.mark.parametrize("what", LONGER)
def test_estimate_is_right_within_a_factor(what):
    assert 1 / FACTOR < ratio(what) < FACTOR


@pytest.mark.parametrize("what", ["a long row of layer norm", "attention"])
def test_estimate_without_the_table_is_wrong(what, monkeypatch):
    monkeypatch.setattr(cost_estimate, "GROWING", {})
    assert ratio(what) > FACTOR


def test_an_estimate_grows_with_the_size():
    small, large = (estimate_cost(product, args := leaves((n, n), (n, n)), args) for n in (4, 8))
    assert large.weights == [8 * small.weights[0]]
    assert 6 < large.seconds / small.seconds < 9
    assert 6 < large.bytes / small.bytes < 8
    short, long = (estimate_cost(lambda x: F.layer_norm(x, (n,)), args := leaves((1, n)), args) for n in (12, 24))  # noqa: B023
    assert 40 < long.seconds / short.seconds < 2**6


def test_uncountable_work_has_no_estimate():
    args = leaves((2,))
    assert estimate_cost(lambda x: x.undefined, args, args) is None
    assert estimate_cost_at_real_size(lambda x: x.undefined, args, args) is None


def test_counting_ends(monkeypatch):
    monkeypatch.setattr(cost_estimate, "MOST", 100)
    args = leaves((9, 9), (9, 9))
    assert estimate_cost(product, args, args).seconds == math.inf
    with pytest.raises(TooLong, match="prove: product would take about days and more memory than there is"):
        prove(product, (9, 9), (9, 9))
    assert prove(product, (9, 9), (9, 9), limit=None)


def test_counts_follow_the_witnesses():
    x, y = Count(2.0, 1), Count(-3.0, 2)
    assert ((x + y).inputs, (x + y).witness, (x * y + 1).inputs, (x / y).inputs) == (3, -1.0, 3, 3)
    assert (x > y, x == 2, max(x, y) is x, (x**2).witness, x.exp().witness) == (True, True, True, 4, math.exp(2))
    assert ((x**0.5).witness, Count(0).log().witness, Count(3).number()) == (pytest.approx(2**0.5), -math.inf, 3)
    with pytest.raises(TypeError, match="is no number"):
        Count("1")


@pytest.mark.parametrize("size", ["small", "real"])
def test_too_long_proof_is_refused_before_it_starts(size):
    with pytest.raises(TooLong) as caught:
        prove(lambda x: x.softmax(-1).sum(), (30, 30), size=size, limit=1e-3)
    output = str(caught.value)
    assert output.startswith("prove: <lambda> would take about ")
    assert "limit = 0.001 seconds; give smaller shapes" in output
    assert 'size="real"' in output


@pytest.mark.parametrize("size", ["small", "real"])
def test_a_proof_ends_when_its_time_is_up(size, monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", iter(range(1000)).__next__)  # a second for each call
    with pytest.raises(TooLong, match="was stopped after limit = 3 seconds"):
        prove(lambda x: x.exp().softmax(-1), (2, 2), size=size, limit=3)


@pytest.mark.parametrize("size", ["small", "real"])
def test_progress_is_printed(size, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LONG", 0.0)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    fn = lambda x: (x * x).exp().tanh() * x  # noqa: E731
    assert prove(fn, (3, 3), size=size, progress=True)
    output = capsys.readouterr().err.splitlines()
    assert output[0].startswith("prove: <lambda>: about 0 seconds and 1 MB, at an estimate")
    percents = [float(line.split()[1]) for line in output[1:]]
    assert all(line.startswith("<lambda>: ") and line.endswith(" left") for line in output[1:])
    assert percents == sorted(percents) and len(percents) > 3 and 90 <= percents[-1] <= 100
    assert prove(fn, (3, 3), size=size, progress=False)
    assert prove(fn, (3, 3), size=size)  # a file is no terminal
    assert capsys.readouterr().err == ""


def test_underestimated_proof_shows_progress(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LONG", 20.0)
    monkeypatch.setattr(progress.time, "monotonic", iter(range(10**6)).__next__)  # a second for each call
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert prove(lambda x: (x * x).exp().tanh() * x, (3, 3), progress=True, limit=None)
    output = capsys.readouterr().err.splitlines()
    assert output[0] == "prove: <lambda>: it takes longer than was estimated"
    assert len(output) > 3


def test_progress_bar_with_tqdm(monkeypatch, capsys):
    pytest.importorskip("tqdm", reason=missing("tqdm"))
    monkeypatch.setattr(progress, "LONG", 0.0)
    assert prove(tt.exp, (3, 3), progress=True)
    assert "exp: 100%" in capsys.readouterr().err


def test_progress_line_for_each_tenth(capsys):
    lines = Lines("it")
    for _ in range(40):
        lines.update(2.5)
    lines.close()
    assert len(capsys.readouterr().err.splitlines()) == 10


def test_times_in_words():
    assert [duration(t) for t in (5, 119, 300, 7300)] == ["5 seconds", "119 seconds", "5 minutes", "2 hours"]
    assert str(Estimate([], 240.0, 2.5e9)) == "about 4 minutes and 2.5 GB"
    assert Progress("it", None, None, None).end == math.inf


def test_chain_rule_agrees_with_sympy():
    x, y, z = sympy.symbols("x y z")
    for expr in (x * y + z, (x + y) ** 3 / z, sympy.exp(x * y) * (x + 1), x**y, sympy.S(3), (x + y + z) ** -1 * x):
        slopes = Derivatives().of(expr)
        for symbol in (x, y, z):
            assert sympy.simplify(slopes.get(symbol, 0) - sympy.diff(expr, symbol)) == 0, (expr, symbol)


def test_large_matrices_are_proved():
    assert prove(product, (12, 12), (12, 12))
    assert prove(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (3, 2))
    assert np.prod(symbols("x", 60, 60).shape) == 3600  # more than there are witnesses with one denominator

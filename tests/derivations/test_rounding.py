"""Balls contain the true numbers and refuse open questions; the table of errors notices wrong steps."""

import math
import operator
from contextlib import nullcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import tinytensor as tt
from derivations.claims import Refuted, claims_of
from derivations.proofs import rounding
from tests.mutants.planting import planted_rule, rule_with
from tests.tools.packages import missing
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic import Undecided

flint = pytest.importorskip("flint", reason=missing("flint"))

from derivations.exact import balls  # noqa: E402, it needs python-flint
from derivations.exact.balls import Ball, enclosing  # noqa: E402

SIZES = {"C": 16, "D": 8, "F": 10, "V": 11, "H": 2, "L": 2}  # whole squares of attention: see the last test of balls
NUMBERS = (0.75, -0.5, 1.625, 3.0, 2**-40, -7.3)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("claim", claims_of(["rounding"]), ids=lambda claim: claim.statement)
def test_claim_runs(claim):
    claim.run()


# --- Balls


def wide(middle: float, radius: float) -> Ball:
    return Ball(flint.arb(middle, radius))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_arithmetic_contains_the_exact_result(name):
    operation = getattr(operator, name)
    with enclosing(53):
        for a in NUMBERS:
            for b in NUMBERS:
                exact = operation(Fraction(a), Fraction(b))
                for y in (operation(Ball(a), Ball(b)), operation(Ball(a), b), operation(a, Ball(b))):
                    assert y.arb.contains(Ball(exact).arb) or y.arb.overlaps(Ball(exact).arb)
                    assert abs(y.witness - exact) <= 1e-15 * abs(exact)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "erf", "sin"])
def test_functions_contain_the_result_to_forty_digits(name):
    with enclosing(192), mpmath.workdps(80):
        for x in (0.75, 1.625, 3.0, 2**-40):
            ball = getattr(Ball(x), name)()
            near = flint.arb(mpmath.nstr(getattr(mpmath, name)(x), 70))
            assert ball.arb.overlaps(near)
            assert ball.radius <= 1e-50 * abs(ball.witness)
        assert not (Ball(0.75).exp() + 1e-40).arb.overlaps(Ball(0.75).exp().arb)  # it would notice the 40th digit


def test_undecided_comparison_is_refused():
    open_ones = [wide(0.0, 1e-30), wide(0.5, 1.0)]
    for x in open_ones:
        assert not x.arb > 0  # Arb says False, as it does where that is certain
        assert not x.arb <= 0
        for compare in (operator.gt, operator.lt, operator.ge, operator.le, operator.eq, operator.ne):
            with pytest.raises(Undecided, match="the balls overlap"):
                compare(x, 0)
        with pytest.raises(Undecided):
            max(x, Ball(0))
        with pytest.raises(Undecided):
            bool(x)
    with enclosing(), pytest.raises(Undecided):
        Tensor.of(np.array([open_ones[0]], object)).relu()


def test_certain_comparison_is_decided():
    x = wide(1.0, 0.25)
    assert x > 0.5 and x >= 0.7 and x < 2 and x <= 1.3 and x != 0 and x != 2 and not x < 0.5
    assert x >= x and x == x and not x > x  # the same number, wherever it lies
    assert (x - x).arb == 0
    assert Ball(2) == 2 and Ball(2) >= 2 and not Ball(2) > 2


def test_function_undefined_on_part_of_a_ball_is_refused():
    with pytest.raises(Undecided, match=r"log.*not defined"):
        wide(0.5, 1.0).log()
    with pytest.raises(Undecided, match=r"sqrt.*not defined"):
        wide(0.5, 1.0).sqrt()
    with pytest.raises(ZeroDivisionError, match="contains 0"):
        1 / wide(0.5, 1.0)
    for x in (wide(0.5, 1.0), wide(1.0, 1e-9)):
        with pytest.raises(Undecided, match="no whole number"):
            x.floor()
    assert wide(2.5, 0.25).floor() == 2 and wide(2.6, 0.05).rint() == 3 and wide(2.5, 0.25).ceil() == 3
    assert Ball(2.5).rint() == 2 and Ball(3.5).rint() == 4 and Ball(-2.5).floor() == -3
    with pytest.raises(ValueError, match="no infinity"):
        Ball(math.inf)


def test_rounded_constants_are_reported():
    x = balls.balls(np.float32([0.1, 0.5]))
    with enclosing() as constants:
        Tensor.of(x) * 2
        assert constants == set()  # the numbers themselves are what they are
        Tensor.of(x) * 0.1
        assert constants == {0.1}


def test_definitions_match_kernel_sources(monkeypatch):
    by_definition = rounding.enclosed(rounding.Case(*parts()))
    monkeypatch.setattr(Ball, "launches", {})
    from_source = rounding.enclosed(rounding.Case(*parts()))
    for name, one in by_definition.items():
        for a, b in zip(one.flat, from_source[name].flat, strict=True):
            assert a.arb.overlaps(b.arb) and max(a.radius, b.radius) < 1e-40, name


# --- Errors


def parts():
    case = rounding.case(**SIZES)
    return case.model, case.tokens, case.targets


MISTAKES = {  # in rules
    "a part in a million": ("add", "grad_b", "return g", "return g * 1000001 / 1000000"),
    "no ReLU": ("linear_relu", "backward", "apply_formula(relu_backward.kernel, g, y)", "g"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mistake", [None, *MISTAKES])
def test_the_difference_quotient_notices_a_wrong_rule(mistake):
    with planted_rule(*rule_with(*MISTAKES[mistake])) if mistake else nullcontext():
        quotient, slope = rounding.slopes(rounding.Case(*parts()))
    close = abs(quotient - slope) <= rounding.AGREEMENT * abs(slope)
    assert close == (mistake is None)


def test_unexplained_constant_is_refused(monkeypatch):
    monkeypatch.setattr(rounding, "meanings", lambda model: {})
    with pytest.raises(Refuted, match=r"rounded constants .*\[1e-05, 0.5\]"):
        rounding.enclosed(rounding.Case(*parts()))


@pytest.mark.parametrize("dtype", rounding.LIMITS["003"])
def test_errors_are_measured_in_units_of_the_largest_entry(dtype):
    case = rounding.Case(*parts())
    nearest = {
        name: np.vectorize(lambda b: b.witness)(truth).astype(dtype) for name, truth in rounding.enclosed(case).items()
    }
    assert all(0 < e.ulp <= 0.501 for e in rounding.errors(case, nearest))
    name, units = "blocks.0.Q", rounding.LIMITS["003"][dtype] + 1
    values = nearest[name].copy()
    smallest, largest = (at(np.abs(values)) for at in (np.argmin, np.argmax))
    values.flat[smallest] += units * np.spacing(np.abs(values.flat[largest]))
    (actual,) = (e for e in rounding.errors(case, nearest | {name: values}) if e.name == name)
    assert actual.ulp == pytest.approx(units, abs=0.51)
    assert actual.relative == actual.distance / actual.largest
    assert actual.largest == pytest.approx(abs(float(values.flat[largest])), rel=1e-6)


@pytest.mark.slow
def test_larger_error_fails_the_claim(monkeypatch):
    monkeypatch.setattr(rounding, "LIMITS", {d: {"float32": 0.4, "float64": 0.4} for d in rounding.LIMITS})
    shipped = [claim for claim in claims_of(["rounding"]) if "the shipped step" in claim.statement]
    assert len(shipped) == 4
    for claim in shipped:
        with pytest.raises(Refuted, match="units in the last place"):
            claim.run()


def test_tolerance_is_the_sum_of_two_errors():
    for document, limits in rounding.LIMITS.items():
        for dtype, units in limits.items():
            assert rounding.tolerance(dtype, document) == 2 * units * np.finfo(dtype).eps


def test_balls_go_through_the_engines_tape():
    """Balls go through Tensor, Op and backward(): nothing is computed beside the engine."""
    with enclosing():
        x = Tensor.of(balls.balls(np.float32([1, 2])), requires_grad=True)
        y = tt.nn.functional.gelu(x).sum()
        y.backward()
    assert [g.radius < 1e-50 for g in x.grad._data] == [True, True]

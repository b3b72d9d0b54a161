"""Code that computes one thing on exact numbers and another on floats is refuted, by its results on floats."""

import sys

import pytest

import tinytensor as tt
from tests.symbolic.prove.functions import square
from tinytensor.core.kernel import OBJECT
from tinytensor.symbolic import prove

SIZES = ("small", "real")


def square_of(is_proved, of_floats):
    """x^2 with a right rule where `is_proved` says so, else with a slope of `of_floats(x)`."""
    return square(lambda g, x: g * (2 * x if is_proved(x) else of_floats(x)))


def has_exact_numbers(x):
    return x.dtype is OBJECT


def is_called_by_a_proof(x):
    frame = sys._getframe()
    while frame is not None:
        if "symbolic" in frame.f_code.co_filename.rpartition("tests")[0] or frame.f_code.co_name == "prove":
            return True
        frame = frame.f_back
    return False


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_proved", [has_exact_numbers, is_called_by_a_proof])
def test_rule_right_only_on_symbols_is_refuted(size, is_proved):
    proof = prove(square_of(is_proved, lambda x: 3 * x), (2, 3), size=size)
    assert proof.verdict == "refuted" and not proof
    assert "the gradient of input0 at [0, 0] is" in repr(proof) and "on floats" in repr(proof)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wrong", [lambda x: x * tt.nan, lambda x: 2 * x + 0.001 * (x > 0)])
def test_slope_wrong_or_nan_at_some_points_is_refuted(size, wrong):
    assert prove(square_of(has_exact_numbers, wrong), (5,), size=size).verdict == "refuted"


@pytest.mark.parametrize("size", SIZES)
def test_dtype_dependent_rule_with_equal_results_is_undecided(size):
    proof = prove(square_of(has_exact_numbers, lambda x: x + x), (2, 3), size=size)
    assert proof.verdict == "undecided" and " on floats" not in repr(proof)
    assert "the function asks for dtype of exact numbers (test_on_floats.py, line " in repr(proof)


@pytest.mark.parametrize("size", SIZES)
def test_value_differing_on_floats_is_refuted(size):
    proof = prove(lambda x: x * x if x.dtype is OBJECT else x * x + 1, (2,), size=size)
    assert proof.verdict == "refuted" and proof.against[0].startswith("result 0 at [0] is")


@pytest.mark.parametrize("size", SIZES)
def test_each_of_several_results_is_compared(size):
    def both(x):
        return x.exp(), x * x if x.dtype is OBJECT else x * x + 1

    assert prove(both, (2,), size=size).against[0].startswith("result 1 at [0] is")

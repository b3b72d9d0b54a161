"""Code that computes one thing on exact numbers and another on floats is refuted, by its results on floats."""

import sys

import pytest

import tinytensor as tt
from tests.symbolic.prove.functions import square
from tinytensor.core.kernel import OBJECT
from tinytensor.symbolic import prove


def has_exact_numbers(x):
    return x.dtype is OBJECT


def is_called_by_a_proof(x):
    frame = sys._getframe()
    while frame is not None:
        if "symbolic" in frame.f_code.co_filename.rpartition("tests")[0] or frame.f_code.co_name == "prove":
            return True
        frame = frame.f_back
    return False


def square_of(of_floats, is_proved=has_exact_numbers):
    """x^2 with a right rule where `is_proved` says so, else with a slope of `of_floats(x)`."""
    return square(lambda g, x: g * (2 * x if is_proved(x) else of_floats(x)))


GRADIENT = "the gradient of input0 at ["
CASES = {  # a function, the verdict, how its sentence begins
    "another slope": (square_of(lambda x: 3 * x), "refuted", GRADIENT),
    "another slope, by its callers": (square_of(lambda x: 3 * x, is_called_by_a_proof), "refuted", GRADIENT),
    "a slope that is NaN": (square_of(lambda x: x * tt.nan), "refuted", GRADIENT),
    "a slope that is wrong at some entries": (square_of(lambda x: 2 * x + 0.001 * (x > 0)), "refuted", GRADIENT),
    "the same numbers": (square_of(lambda x: x + x), "undecided", "the function asks for dtype of exact numbers ("),
    "another value": (lambda x: x * x if x.dtype is OBJECT else x * x + 1, "refuted", "result 0 at [0] is"),
    "the second of two": (lambda x: (x, x if x.dtype is OBJECT else x + 1), "refuted", "result 1 at [0] is"),
}


@pytest.mark.parametrize("size", ["small", "real"])
@pytest.mark.parametrize("what", CASES)
def test_another_function_on_floats_is_not_proved(what, size):
    fn, verdict, sentence = CASES[what]
    proof = prove(fn, (5,), size=size)
    assert proof.verdict == verdict and proof.against[0].startswith(sentence)

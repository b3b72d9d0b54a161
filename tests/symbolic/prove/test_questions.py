"""A function whose rule depends on what exact scalars answer otherwise than floats is not proved.

Each rule of TRICKS is wrong at one number that no test meets, and was once called proved.
"""

import pickle
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.symbolic.prove import questions

SIZES = ("small", "real")
WRONG_AT = 7.25


def square(is_wrong):
    """x^2 with a slope of 3 x where the condition holds."""

    class Square(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (3 if is_wrong(x) else 2) * x

    return Square.apply


def is_float(x):
    try:
        return float(x[0].item()) == WRONG_AT
    except TypeError:
        return False


def becomes_double(x):
    try:
        return x.detach().double()[0] == WRONG_AT
    except TypeError:
        return False


def counts_calls():
    calls = []
    return lambda x: calls.append(1) or len(calls) > 1000


COUNT = 0


def counts_globally(x):
    global COUNT
    COUNT += 1
    return COUNT > 1000


HOLDER = SimpleNamespace(gone=weakref.proxy(set()))  # of an object that is no more


def is_proved():
    return sys._getframe(5).f_code.co_name == "run_backward"


TRICKS = {  # by what is asked, the condition and the words of the verdict
    "text": (lambda x: "e+" in repr(x), "asks for __repr__"),
    "str": (lambda x: "7.25" in str(x), "asks for __repr__"),
    "format": (lambda x: "7.25" in f"{x[0]}", "asks for __format__"),
    "text of an item": (lambda x: "e+" in str(x[0].item()), "asks for item"),
    "pickle": (lambda x: pickle.dumps(WRONG_AT)[3:11] in pickle.dumps(x), "asks for __getstate__"),
    "bytes": (lambda x: np.float64(WRONG_AT).tobytes() in x.detach().numpy().tobytes(), "asks for numpy"),
    "list": (lambda x: not {WRONG_AT}.isdisjoint(x.tolist()), "asks for tolist"),
    "hash": (lambda x: hash(x[0].item()) == hash(WRONG_AT), "asks for item"),
    "set": (lambda x: x[0].item() in {WRONG_AT}, "asks for item"),
    "key": (lambda x: {WRONG_AT: True}.get(x[0].item()), "asks for item"),
    "type": (lambda x: type(x[0].item()) is float and x[0] == WRONG_AT, "asks for item"),
    "class": (lambda x: isinstance(x[0].item(), float) and x[0] == WRONG_AT, "asks for item"),
    "type of a sum": (lambda x: type(x[0].item() + 1) is float and x[0] == WRONG_AT, "asks for item"),
    "dtype": (lambda x: x.dtype.name == "float64" and x[0] == WRONG_AT, "asks for dtype"),
    "dtype by an object": (
        lambda x: SimpleNamespace(d=x.dtype).d.name == "float64" and x[0] == WRONG_AT,
        "asks for dtype",
    ),
    "dtype by NumPy": (
        lambda x: np.zeros(1, dtype=x.dtype).dtype.name == "float64" and x[0] == WRONG_AT,
        "asks for dtype",
    ),
    "dtype of an array": (
        lambda x: x.detach().numpy().dtype == np.float64 and x[0] == WRONG_AT,
        "asks for numpy",
    ),
    "is_floating_point": (lambda x: x.is_floating_point() and x[0] == WRONG_AT, "asks for is_floating_point"),
    "result type": (lambda x: tt.result_type(x, x) == tt.float64 and x[0] == WRONG_AT, "asks for result_type"),
    "a caught error of float()": (is_float, "asks for item"),
    "a caught error of a cast": (becomes_double, "catches TypeError, which floats need not raise"),
    "the array": (lambda x: x._data.dtype.name == "float64" and x[0] == WRONG_AT, "uses _data"),
    "the callers": (lambda x: not is_proved() and "7.25" in str(x), "uses _getframe"),
    "a counter": (counts_calls(), "changed: another call would differ"),
    "an object that is gone": (
        lambda x: HOLDER is None,
        "holds a ProxyType, whose changes are not seen: another call would differ",
    ),
    "a global counter": (counts_globally, "changes the global COUNT"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("what", TRICKS)
def test_question_to_exact_scalars_is_not_proved(what, size):
    is_wrong, words = TRICKS[what]
    proof = prove(square(is_wrong), (3,), size=size)
    assert proof.verdict == "undecided" and words in repr(proof), proof
    assert "another call would differ" in words or "test_questions.py, line" in repr(proof)


def with_dtype(x):
    return x * (tt.zeros(3, dtype=x.dtype) + tt.ones(3).to(x.dtype))


def with_local_state(x):
    rows = []

    def add(row):
        rows.append(row)

    for n in range(2):
        add(x * n)
    return tt.stack(rows)


GENERATOR = tt.Generator()
INDEX = tt.tensor([2, 0])

HONEST = {
    "nothing": square(lambda x: False),
    "a dtype that is handed on": with_dtype,
    "a compared number": lambda x: x * 2 if x.max().item() > 0.5 else x,
    "a truth value": lambda x: x * 2 if x[0] > 0 else x * 3,
    "the type of a tensor": lambda x: x * 2 if isinstance(x, tt.Tensor) else x,
    "sizes": lambda x: x.reshape(*x.shape, 1) / len(x),
    "a NumPy function": lambda x: np.exp(x) * np.pi,
    "local state": with_local_state,
    "whole numbers": lambda x: x[INDEX.tolist()] * INDEX[0].item() if INDEX.dtype == tt.int64 else x,
    "random numbers": lambda x: x * tt.rand(3, generator=GENERATOR),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("what", HONEST)
def test_honest_functions_stay_proved(what, size):
    proof = prove(HONEST[what], (3,), size=size)
    assert proof, proof


@pytest.mark.parametrize("size", SIZES)
def test_question_for_nan_is_a_condition(size):
    proof = prove(square(lambda x: x.isnan().any()), (3,), size=size)
    assert proof and questions.FINITE in repr(proof).splitlines()[0]


def test_questions_that_are_not_looked_at_are_missed(monkeypatch):
    monkeypatch.setattr(questions.Questions, "answers", lambda self: [])
    assert prove(square(TRICKS["text"][0]), (3,))

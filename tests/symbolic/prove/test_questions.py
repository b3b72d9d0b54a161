"""A function whose rule depends on what exact scalars answer otherwise than floats is not proved.

Each rule of TRICKS is wrong at one number that no test meets, and was once called proved.
"""

import copy
import itertools
import pickle
import random
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import tinytensor as tt
from tests.symbolic.prove import functions
from tinytensor.symbolic import prove
from tinytensor.symbolic.prove import questions

SIZES = ("small", "real")
WRONG_AT = 7.25


def square(is_wrong):
    """x^2 with a slope of 3 x where the condition holds."""
    return functions.square(lambda g, x: g * (3 if is_wrong(x) else 2) * x)


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
STEPS = itertools.count()


def counts_globally(x):
    global COUNT
    COUNT += 1
    return COUNT > 1000


HOLDER = SimpleNamespace(gone=weakref.proxy(set()))  # of an object that is no more


OF_DTYPE = "{0._data.dtype}".format


def applied(f):
    return lambda x: f(x)


BY_ABS, BY_ID = applied(abs), applied(id)


def is_proved():
    return sys._getframe(5).f_code.co_name == "run_backward"


def asks_in_a_thread(x):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: "7.25" in str(x)).result()


def sees_callers(x):
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__.tb_frame.f_back is None


TRICKS = {  # by what is asked, the condition and the words of the verdict
    "text": (lambda x: "e+" in repr(x), "asks for __repr__"),
    "format": (lambda x: "7.25" in f"{x[0]}", "asks for __format__"),
    "pickle": (lambda x: pickle.dumps(WRONG_AT)[3:11] in pickle.dumps(x), "asks for __getstate__"),
    "bytes": (lambda x: np.float64(WRONG_AT).tobytes() in x.detach().numpy().tobytes(), "asks for numpy"),
    "list": (lambda x: not {WRONG_AT}.isdisjoint(x.tolist()), "asks for tolist"),
    "hash": (lambda x: hash(x[0].item()) == hash(WRONG_AT), "asks for item"),
    "set": (lambda x: x[0].item() in {WRONG_AT}, "asks for item"),
    "type": (lambda x: type(x[0].item()) is float and x[0] == WRONG_AT, "asks for item"),
    "type of a sum": (lambda x: type(x[0].item() + 1) is float and x[0] == WRONG_AT, "asks for item"),
    "dtype": (lambda x: x.dtype.name == "float64" and x[0] == WRONG_AT, "asks for dtype"),
    "dtype by an object": (
        lambda x: SimpleNamespace(d=x.dtype).d.name == "float64" and x[0] == WRONG_AT,
        "uses SimpleNamespace",
    ),
    "dtype of an array": (lambda x: x.detach().numpy().dtype == np.float64 and x[0] == WRONG_AT, "asks for numpy"),
    "dtype by NumPy": (
        lambda x: np.zeros(1, dtype=x.dtype).dtype.name == "float64" and x[0] == WRONG_AT,
        "asks for dtype",
    ),
    "is_floating_point": (lambda x: x.is_floating_point() and x[0] == WRONG_AT, "asks for is_floating_point"),
    "result type": (lambda x: tt.result_type(x, x) == tt.float64 and x[0] == WRONG_AT, "asks for result_type"),
    "the type of a tensor": (
        lambda x: isinstance(x, tt.FloatTensor) and x[0] == WRONG_AT,
        "asks for __instancecheck__",
    ),
    "a caught error of float()": (is_float, "catches errors"),
    "a caught error of a cast": (becomes_double, "catches errors, which floats need not raise"),
    "the array": (lambda x: x._data.dtype.name == "float64" and x[0] == WRONG_AT, "uses _data"),
    "the callers": (lambda x: not is_proved() and "7.25" in str(x), "uses sys"),
    "a thread": (asks_in_a_thread, "uses ThreadPoolExecutor"),
    "callers of an error": (sees_callers, "uses "),
    "a computed name": (
        lambda x: getattr(x, "_da" + "ta").dtype.name == "float64" and x[0] == WRONG_AT,
        "uses getattr",
    ),
    "an attribute in a text": (
        lambda x: "float" in str.format("{._data.dtype}", x) and x[0] == WRONG_AT,
        "uses format",
    ),
    "a text's method": (lambda x: "float" in OF_DTYPE(x) and x[0] == WRONG_AT, "uses OF_DTYPE"),
    "an address by a default": (lambda x, f=id: f(x) % 7919 == 0, "uses backward"),
    "an address by the second of two closures": (lambda x: BY_ABS(1.0) and BY_ID(x) % 7919 == 0, "uses f"),
    "a copy": (lambda x: "7.25" in str(copy.deepcopy(x)), "uses copy"),
    "chance": (lambda x: random.random() < 1e-9, "uses random"),
    "the time": (lambda x: time.time() % 1 < 1e-9, "uses time"),
    "an address": (lambda x: id(x) % 7919 == 0, "uses id"),
    "text by eval": (lambda x: eval("'7.25' in str(x)"), "uses eval"),
    "an iterator": (lambda x: next(STEPS) > 1000, "uses STEPS"),
    "a counter": (counts_calls(), "changed: another call would differ"),
    "an object that is gone": (lambda x: HOLDER is None, "uses HOLDER"),
    "a global counter": (counts_globally, "changes the global COUNT"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("what", TRICKS)
def test_question_to_exact_scalars_is_not_proved(what, size):
    is_wrong, words = TRICKS[what]
    proof = prove(square(is_wrong), (3,), size=size)
    assert proof.verdict == "undecided" and words in repr(proof), proof
    assert "another call would differ" in words or "s.py, line" in repr(proof)  # this file, or functions.py


ARRAYS = {  # questions in an operation's forward, which gets arrays
    "itemsize": lambda x: x.itemsize == 4,
    "dtype": lambda x: x.dtype == np.float64,
    "class": lambda x: isinstance(x.flat[0], float),
    "bytes": lambda x: x.tobytes()[:3] == b"abc",
    "result_type": lambda x: np.issubdtype(np.result_type(x), np.floating),
    "a method that only floats have": lambda x: ends(lambda: x.reshape(-1)[0].is_integer()),
    "a function of floats": lambda x: ends(lambda: divmod(x.reshape(-1)[0], 1.0)),
    "identity": lambda x: x.reshape(-1)[0] is not x.reshape(-1)[0],
    "can_cast": lambda x: np.can_cast(x, np.float64),
    "a function of another name": lambda x: smallest_type(x).kind == "f",
    "a second call of a function": lambda x: is_double(np.ones(1)) and is_double(x),
    "an array in a list": lambda x: first_is_double([x]),
    "an array in an object": lambda x: Holding(x).is_double(),
}


def ends(call):
    try:
        call()
    except (TypeError, AttributeError):
        return False
    return True


def is_double(x):
    return x.dtype == np.float64


def first_is_double(arrays):
    return arrays[0].dtype == np.float64


class Holding:
    def __init__(self, x):
        self.x = x

    def is_double(self):
        return self.x.dtype == np.float64


smallest_type = np.min_scalar_type


@pytest.mark.parametrize("what", ARRAYS)
def test_question_to_arrays_is_not_proved(what):
    asked = ARRAYS[what]

    @tt.op
    class Square:
        r"y = x^2"

        def forward(x):
            return np.where(x == WRONG_AT, x * x * x, x * x) if asked(x) else x * x

        def grad_x(g, x):
            return 2 * g * x

    proof = prove(Square, (3,))
    assert proof.verdict == "undecided" and "(test_questions.py, line" in repr(proof), proof


def by_identity(x):
    if x is -1 * -x and x == 7:  # which one formula is, is for Numba whether two floats are equal
        return x * x * x
    return x * x


def hashing(value_of):
    return lambda x: x * x * x if value_of(x) == 7 else x * x


@pytest.mark.parametrize("formula", [by_identity, hashing(hash)])
def test_kernel_that_asks_is_not_proved(formula):
    @tt.op
    class Square:
        r"y = x^2"

        kernel = formula

        def grad_x(g, x):
            return 2 * g * x

    assert prove(Square, (3,)).verdict == "undecided"


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


class Cached(tt.nn.Module):
    """A module that makes its table in the first call."""

    table = None

    def forward(self, x):
        if self.table is None:
            self.table = tt.arange(3) / 2
        return x * self.table


@tt.op
class Cube:
    r"y = x^3"

    def forward(x):
        y = np.empty(x.shape, x.dtype)
        y[...] = x
        return y * np.square(x)

    def grad_x(g, x):
        return 3 * g * x**2


def with_a_class(x):
    class Half:
        """Made at each call."""

        of = x / 2

    return Half.of * x


HONEST = {
    "a class": with_a_class,
    "a table of the first call": Cached(),
    "arrays": Cube,
    "nothing": square(lambda x: False),
    "a dtype that is handed on": with_dtype,
    "a compared number": lambda x: x * 2 if x.max().item() > 0.5 else x,
    "a number that is compared with it": lambda x, least=0.5: x * 2 if least < x.max().item() else x,
    "a truth value": lambda x: x * 2 if x[0] > 0 else x * 3,
    "the type of a tensor": lambda x: x * 2 if isinstance(x, tt.Tensor) else x,
    "sizes": lambda x: x.reshape(*x.shape, 1) / len(x),
    "a NumPy function": lambda x: np.exp(x) * np.pi,
    "local state": with_local_state,
    "whole numbers": lambda x: x[INDEX.tolist()] * INDEX[0].item() if INDEX.dtype == tt.int64 else x,
    "random numbers": lambda x: x * tt.rand(3, generator=GENERATOR),
    "functions of one code in a kernel": functions.five_times,
    "kernels": lambda x: functions.running_sums(x * x),
    "two steps back": lambda x: tt.autograd.grad((x**3).sum(), x, create_graph=True)[0] ** 2,
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("what", HONEST)
def test_honest_functions_stay_proved(what, size):
    proof = prove(HONEST[what], (3,), size=size)
    assert proof, proof


def test_state_of_the_first_call_is_a_condition():
    assert "Cached is as its first call leaves it" in repr(prove(Cached(), (3,))).splitlines()[0]


@pytest.mark.parametrize("size", SIZES)
def test_question_for_nan_is_a_condition(size):
    proof = prove(square(lambda x: x.isnan().any()), (3,), size=size)
    assert proof and questions.FINITE in repr(proof).splitlines()[0]


def test_questions_that_are_not_looked_at_are_missed(monkeypatch):
    monkeypatch.setattr(questions.Questions, "answers", lambda self: [])
    assert prove(square(TRICKS["text"][0]), (3,))

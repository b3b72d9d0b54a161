"""Sizes as the user's code sees them in a recorded run: numbers that record what is asked about them.

While `track_sizes` is active, `x.shape`, `x.size()`, `x.numel()` and `len(x)` give the user's code a `TracedInt`: a
whole number, whose arithmetic returns a TracedInt or a TracedFloat. A comparison, a remainder, a rounded quotient or a
truth value of one is a `Question`. Its answer may differ at another size, so trace.py makes it a condition of the
proof. The engine's own code gets plain numbers.

So do the numbers of range(N) and enumerate(), which are of a class of their own: loops.py refuses a loop over a size
whose code asks about the step. Hidden from this is a number that leaves Python's arithmetic, as in int(N), int(str(N))
or math.sqrt(N). The comparison with backward() at small sizes (samples.py) is for these.
"""

import builtins
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.platform.locks import ThreadLock
from tinytensor.symbolic.prove.advice import is_own, line


class Question(NamedTuple):
    """What the code asked about numbers that depend on sizes: `left operation right`, and the answer."""

    operation: str  # <, <=, >, >=, ==, !=, or % for the remainder
    left: int | float
    right: int | float
    answer: int | float
    where: str  # the user's line, in words


_current = threading.local()  # .questions: the list of the recorded run of this thread


def _questions() -> list[Question] | None:
    return getattr(_current, "questions", None)


def _note(operation: str, left, right, answer) -> None:
    """Note a question of the user's own code; the frame is that of the caller of an AskedInt's method."""
    questions = _questions()
    if questions is None:
        return
    frame = sys._getframe(2)
    if operation == "%" or is_own(frame.f_code.co_filename):
        question = Question(operation, _plain(left), _plain(right), _plain(answer), line(frame))
        if not any(isinstance(x, StepInt | StepFloat) for x in (left, right)):
            questions.append(question)
        elif not any(_about_first_steps(operation, *pair) for pair in ((left, right), (right, left))):
            _current.about_steps.append((_current.position(), question))


FIRST_STEPS = 2  # of a loop, which may differ from the others


def _about_first_steps(operation: str, number, other) -> bool:
    """Has the question the same answer for all numbers of a range but the first few?"""
    return operation != "%" and getattr(number, "counts", False) and type(other) is int and other < FIRST_STEPS


def _plain(x) -> int | float:
    return int.__add__(x, 0) if isinstance(x, int) else float.__add__(x, 0.0)


def _whole(x: float) -> int | float:
    """A whole number as an int, whose formula of the sizes is easier to find."""
    return int(x) if x.is_integer() else x


def traced_number(x):
    """The number as one that notes what is asked about it."""
    if isinstance(x, bool) or not isinstance(x, int | float):
        return x
    return TracedInt(x) if isinstance(x, int) else TracedFloat(x)


def _like(x, *operands):
    """The result of arithmetic: a number that depends on the step of a loop if one of the operands does."""
    if not any(isinstance(one, StepInt | StepFloat) for one in operands) or isinstance(x, bool):
        return traced_number(x)
    return StepInt(x) if isinstance(x, int) else StepFloat(x) if isinstance(x, float) else x


def _arithmetic(compute: Callable, reflected: bool = False) -> Callable:
    def method(self, other):
        if not isinstance(other, int | float):
            return NotImplemented
        one, two = _plain(self), _plain(other)
        return _like(compute(two, one) if reflected else compute(one, two), self, other)

    return method


def _divided(whole: bool, reflected: bool = False) -> Callable:
    """// and %: the remainder is the question, since both follow from it by arithmetic."""

    def method(self, other):
        if not isinstance(other, int | float):
            return NotImplemented
        one, two = (other, self) if reflected else (self, other)
        quotient, rest = divmod(_plain(one), _plain(two))
        _note("%", one, two, rest)
        return _like(quotient if whole else rest, self, other)

    return method


def _comparison(symbol: str, compute: Callable) -> Callable:
    def method(self, other):
        if not isinstance(other, int | float):
            return NotImplemented
        answer = compute(_plain(self), _plain(other))
        _note(symbol, self, other, answer)
        return answer

    return method


def _rounding(compute: Callable) -> Callable:
    """floor, ceil, trunc and round of a number: a question about its distance from the whole number below."""

    def method(self, *digits):
        x = _plain(self)
        _note("%", self, 1, x % 1)
        return _like(compute(x, *digits), self)

    return method


class _TracedNumber:
    """The methods that AskedInt and AskedFloat share."""

    __add__, __radd__ = _arithmetic(operator.add), _arithmetic(operator.add, True)
    __sub__, __rsub__ = _arithmetic(operator.sub), _arithmetic(operator.sub, True)
    __mul__, __rmul__ = _arithmetic(operator.mul), _arithmetic(operator.mul, True)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv), _arithmetic(operator.truediv, True)
    __pow__, __rpow__ = _arithmetic(operator.pow), _arithmetic(operator.pow, True)
    __floordiv__, __rfloordiv__ = _divided(True), _divided(True, True)
    __mod__, __rmod__ = _divided(False), _divided(False, True)
    __lt__, __le__ = _comparison("<", operator.lt), _comparison("<=", operator.le)
    __gt__, __ge__ = _comparison(">", operator.gt), _comparison(">=", operator.ge)
    __eq__, __ne__ = _comparison("==", operator.eq), _comparison("!=", operator.ne)
    __floor__, __ceil__, __round__ = _rounding(math.floor), _rounding(math.ceil), _rounding(round)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __neg__(self):
        return _like(-_plain(self), self)

    def __pos__(self):
        return self

    def __abs__(self):
        answer = _plain(self) < 0
        _note("<", self, 0, answer)
        return _like(abs(_plain(self)), self)

    def __bool__(self):
        answer = _plain(self) != 0
        _note("!=", self, 0, answer)
        return answer


class TracedInt(_TracedNumber, int):
    """A whole number that depends on sizes."""

    __hash__ = int.__hash__
    __repr__ = int.__repr__

    def _bit(compute: Callable, reflected: bool = False) -> Callable:
        def method(self, other):
            if not isinstance(other, int):
                return NotImplemented
            one, two = (other, self) if reflected else (self, other)
            answer = compute(_plain(one), _plain(two))
            _note("bits", one, two, answer)
            return _like(answer, self, other)

        return method

    __and__, __rand__ = _bit(operator.and_), _bit(operator.and_, True)
    __or__, __ror__ = _bit(operator.or_), _bit(operator.or_, True)
    __xor__, __rxor__ = _bit(operator.xor), _bit(operator.xor, True)
    __lshift__, __rlshift__ = _bit(operator.lshift), _bit(operator.lshift, True)
    __rshift__, __rrshift__ = _bit(operator.rshift), _bit(operator.rshift, True)
    del _bit

    def __trunc__(self):
        return self

    __floor__ = __ceil__ = __trunc__

    def __round__(self, *digits):
        return self


class TracedFloat(_TracedNumber, float):
    """A number that was computed from sizes."""

    __hash__ = float.__hash__
    __repr__ = float.__repr__
    __trunc__ = _rounding(math.trunc)

    def __int__(self):
        x = _plain(self)
        _note("%", self, 1, x % 1)
        return int(x)


class StepInt(TracedInt):
    """A whole number that depends on the step of a loop; `counts`: one of a range that runs upward from 0 or more."""

    counts = False


class StepFloat(TracedFloat):
    """A number that depends on the step of a loop."""


def questions_of(op: str, arrays: list, where: str) -> list[Question]:
    """What a call asks about numbers that no argument reaches, such as arange(N) < 20, which is true up to N = 20.

    A step has its place somewhere: where all numbers lie on one side of it, as they do in the runs, a larger size may
    lie on both. Where they lie on both sides, the result is a pattern or a table, and depends on no such question.
    """
    if op not in STEPS or not all(isinstance(a, np.ndarray | int | float | np.number) for a in arrays[:2]):
        return []
    with np.errstate(all="ignore"):
        questions = []
        for distance in STEPS[op](*[np.asarray(a, dtype=np.float64) for a in arrays if not isinstance(a, np.dtype)]):
            if not distance.size or not np.isfinite(distance).all():
                continue
            low, high = float(distance.min()), float(distance.max())
            below, above = _whole(low), _whole(high)
            if op in ROUNDED:
                if np.floor(low) == np.floor(high) and not low == high == np.floor(low):
                    questions += [Question("<", above, int(np.floor(high)) + 1, True, where)]
                    questions += [Question(">=", below, int(np.floor(low)), True, where)]
            elif high < 0 or (high <= 0 and op not in ("eq", "ne")):
                questions.append(Question("<" if high < 0 else "<=", above, 0, True, where))
            elif low > 0 or (low >= 0 and op not in ("eq", "ne")):
                questions.append(Question(">" if low > 0 else ">=", below, 0, True, where))
    return questions


ROUNDED = {"floor", "ceil", "round", "cast", "floor_divide", "remainder"}
STEPS: dict[str, Callable] = {  # operation: the distances from its steps
    **dict.fromkeys(("gt", "lt", "ge", "le", "eq", "ne"), lambda a, b: [a - b]),
    **dict.fromkeys(("maximum", "minimum", "clamp_min", "clamp_max"), lambda a, b: [a - b]),
    "clamped": lambda x, low, high: [x - low, x - high],
    **dict.fromkeys(("relu", "absolute", "sign"), lambda x: [x]),
    **dict.fromkeys(("floor", "ceil", "round", "cast"), lambda x, *_: [x]),
    **dict.fromkeys(("floor_divide", "remainder"), lambda a, b: [a / b]),
}

_lock, _active, _plain_len = ThreadLock(), [0], builtins.len
_plain_range, _plain_enumerate = builtins.range, builtins.enumerate


def _by_user() -> bool:
    """Was the function that calls this one called by the user's own code, in a run that is recorded?"""
    return _questions() is not None and is_own(sys._getframe(2).f_code.co_filename)


_shape, _size, _numel = Tensor.shape, Tensor.size, Tensor.numel


def _traced_shape(x: Tensor):
    shape = _shape.fget(x)
    return tuple(map(traced_number, shape)) if _by_user() else shape


def _traced_size(x: Tensor, dim: int | None = None):
    sizes = _size(x, dim)
    if not _by_user():
        return sizes
    return traced_number(sizes) if dim is not None else tuple(map(traced_number, sizes))


def _traced_numel(x: Tensor):
    return traced_number(_numel(x)) if _by_user() else _numel(x)


def _traced_len(x, /):
    length = _plain_len(x)
    return traced_number(length) if isinstance(x, Tensor) and _by_user() else length


def _counted(numbers: range) -> list[StepInt]:
    """The numbers of a range, which note what is asked about them."""
    result = [StepInt(n) for n in numbers]
    if numbers.start >= 0 and numbers.step > 0:
        for n in result:
            n.counts = True
    return result


class _RangeType(type):
    def __instancecheck__(cls, x):
        return isinstance(x, _plain_range)


class _TracedRange(metaclass=_RangeType):
    """Python's range; of sizes, a list of numbers that note what is asked about them."""

    def __new__(cls, *numbers):
        plain = _plain_range(*numbers)
        traced = any(isinstance(n, TracedInt) for n in numbers)
        return _counted(plain) if traced and _by_user() else plain


def _traced_enumerate(iterable, start=0):
    if not _by_user():
        return _plain_enumerate(iterable, start)
    items = list(iterable)
    return zip(_counted(_plain_range(start, start + len(items))), items, strict=True)


@contextmanager
def track_sizes(
    questions: list[Question],
    about_steps: list[tuple[int, Question]] | None = None,
    position: Callable[[], int] = lambda: 0,
) -> Iterator[None]:
    """Give the user's code, in this thread, sizes that note in `questions` what is asked about them.

    Python's `len` makes a plain number of whatever an object's method returns, so the function itself is replaced. So
    are `range` and `enumerate`: the numbers of a loop note in `about_steps` what is asked about them, and when
    (`position`).
    """
    with _lock.lock:
        _active[0] += 1
        if _active[0] == 1:
            builtins.range, builtins.enumerate = _TracedRange, _traced_enumerate
            Tensor.shape, Tensor.size = property(_traced_shape), _traced_size
            Tensor.numel = Tensor.nelement = _traced_numel
            builtins.len = _traced_len
    before, _current.questions = _questions(), questions
    steps = getattr(_current, "about_steps", None), getattr(_current, "position", None)
    _current.about_steps, _current.position = [] if about_steps is None else about_steps, position
    try:
        yield
    finally:
        _current.questions = before
        _current.about_steps, _current.position = steps
        with _lock.lock:
            _active[0] -= 1
            if not _active[0]:
                builtins.len, Tensor.shape = _plain_len, _shape
                builtins.range, builtins.enumerate = _plain_range, _plain_enumerate
                del Tensor.size, Tensor.numel, Tensor.nelement  # those of the base class again

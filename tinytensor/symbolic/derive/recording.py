"""A run of the user's function as a list of calls of operations, and several such runs as one with sizes.

The function runs on floats at three choices of numbers for the sizes. All three runs must make the same calls. `fit`
finds a formula of the sizes for each number that differs between them: a shape, the end of a slice, a factor 1/sqrt(K).
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from types import FrameType
from typing import NamedTuple

import numpy as np
from sympy import Expr, Integer, Rational, S, log, pi, sqrt

from tinytensor.core import late_bound
from tinytensor.core.observers import observe
from tinytensor.core.op import Op
from tinytensor.core.tensor import Tensor
from tinytensor.ops.pointwise import atan2
from tinytensor.ops.reduce import power_of_length
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.sizes import Question, questions_of, track_sizes
from tinytensor.symbolic.derive.values import tensors_of
from tinytensor.symbolic.index_calculus.formulas import Size
from tinytensor.symbolic.prove.advice import is_own, line


class NotDerivable(TypeError):
    """A function that `derive` can't follow: the message names the line and the step."""


@dataclass
class RecordedCall:
    """One call of an operation in one run."""

    op: Op
    args: tuple
    result: Tensor | tuple
    where: str  # the user's line, in words
    constants: dict[int, np.ndarray] = field(default_factory=dict)  # copies of tensors that no argument reaches
    stamps: dict[int, "Stamp"] = field(default_factory=dict)  # of arguments and result at this time, by their ids


class Stamp(NamedTuple):
    """Which values a tensor has at one time: its id and the number of changes in place; its node on the tape."""

    values: tuple[int, int]
    node: int | None

    @classmethod
    def of(cls, x: Tensor) -> "Stamp":
        return cls((id(x), x._version.count), None if x.node is None else id(x.node))


@dataclass
class Run:
    """A run of the function at numbers for the sizes."""

    at: dict[Size, int]
    inputs: dict[str, Tensor]
    calls: list[RecordedCall]
    result: Tensor
    names: dict[int, str]  # the user's names of tensors, by their ids
    kept: list  # everything that was met, so that no two things have the same id
    questions: list[Question]  # what the user's code asked about sizes
    about_steps: list[tuple[int, Question]] = field(default_factory=list)  # about the step of a loop, after which call


@dataclass(frozen=True)
class ComposedOperation:
    """A function of several operations that is read as one, by its own formula."""

    name: str
    kernel: None = None


COMPOSED = {f.__code__: ComposedOperation(f.__name__) for f in (atan2, power_of_length)}


def _arguments_of(frame: FrameType) -> tuple:
    return tuple(frame.f_locals[n] for n in frame.f_code.co_varnames[: frame.f_code.co_argcount])


def composed_call(frame: FrameType | None) -> tuple[str, list] | None:
    """The name and the arguments of the function of COMPOSED that makes a call, tensors as arrays; None outside."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        if frame.f_code in COMPOSED:
            return COMPOSED[frame.f_code].name, [getattr(a, "_data", a) for a in _arguments_of(frame)]
        frame = frame.f_back
    return None


@contextmanager
def _watching_functions(fn: Callable, names: dict[int, str], kept: list, calls: list, code: bool) -> Iterator[None]:
    """Note the local names of tensors in the user's own functions, when they return, if `code`.

    The calls inside of a function of COMPOSED become one call.
    """
    own_code = getattr(getattr(fn, "forward", fn), "__code__", None)
    own = own_code.co_filename if own_code is not None and is_own(own_code.co_filename) else ""
    globals_of_own = getattr(getattr(fn, "forward", fn), "__globals__", None)

    def users(frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        if file[:1] == "<":  # typed in; code that a library has made is called <string>, too
            return file == own and frame.f_globals is globals_of_own
        return file == own or ("site-packages" not in file and is_own(file))

    entered: list[tuple] = []

    def look(frame, event, result):
        if frame.f_code in COMPOSED:
            if event == "call":
                entered.append((len(calls), _arguments_of(frame)))
            elif event == "return":
                _compose(calls, frame, *entered.pop(), result, kept)
        elif code and event == "return" and users(frame):
            for name, value in frame.f_locals.items():
                if isinstance(value, Tensor) and not name.startswith((".", "_")):
                    names.setdefault(id(value), name)
                    kept.append(value)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def _compose(calls: list[RecordedCall], frame: FrameType, start: int, values: tuple, result, kept: list) -> None:
    """Put one call in the place of all calls since `start`, if its arguments are tensors and numbers."""
    inner, tensors = calls[start:], tensors_of(values)
    if not inner or not isinstance(result, Tensor) or not tensors:
        return
    made = {id(c.result) for c in inner}
    constants, stamps = {}, {id(result): Stamp.of(result)}
    for one in inner:  # what was noted before anything was changed
        constants |= {k: v for k, v in one.constants.items() if k not in made}
        stamps |= {k: v for k, v in one.stamps.items() if k not in stamps}
    if not all(id(x) in stamps for x in tensors):
        return
    kept.append((values, result))
    calls[start:] = [RecordedCall(COMPOSED[frame.f_code], values, result, line(frame), constants, stamps)]


def record(fn: Callable, values: dict[str, object], at: dict[Size, int], code: bool = True) -> Run:
    """Run the function on these arguments, and note all calls of operations.

    code: note the user's names of tensors, and what the code asks about sizes, too.
    """
    calls, names, kept, questions, about_steps = [], {}, [], [], []
    reached = {_address(x) for x in values.values() if isinstance(x, Tensor)}

    def note(op, args, result):
        flat = [a for x in args for a in (x if isinstance(x, tuple | list) else (x,)) if isinstance(a, Tensor)]
        if any(_address(a) in reached for a in flat):
            reached.update(map(_address, result if isinstance(result, tuple | list) else (result,)))
        elif code:
            arrays = [a._data if isinstance(a, Tensor) else a for a in args]
            questions.extend(questions_of(op.name, arrays, line(sys._getframe(2))))
        kept.append((args, result))
        results = [r for r in (result if isinstance(result, tuple | list) else (result,)) if isinstance(r, Tensor)]
        kept.extend(x.node for x in (*flat, *results))
        constants = {id(a): a._data.copy() for a in flat if not a._requires_grad and _address(a) not in reached}
        stamps = {id(x): Stamp.of(x) for x in (*flat, *results)}
        calls.append(RecordedCall(op, args, result, line(sys._getframe(2)), constants, stamps))
        return result

    def read(what, tensor):
        if _address(tensor) in reached:
            raise NotDerivable(
                f"derive: {what}{line(sys._getframe(2))}: Python reads a value that depends on an argument, and the "
                "formula can't follow what is done with it; choose by tt.where() or a mask, or prove() it at one size"
            )

    with ExitStack() as entered:
        entered.enter_context(_watching_functions(fn, names, kept, calls, code))
        if code:
            entered.enter_context(track_sizes(questions, about_steps, lambda: len(calls)))
        entered.enter_context(observe(on_op=note, on_read=read))
        entered.enter_context(late_bound.pytorch_follows_us())
        entered.enter_context(double_precision())
        result = fn(**values)
    if not isinstance(result, Tensor):
        raise NotDerivable(
            f"derive: the function returned {type(result).__name__}; expected one tensor: return the one to derive"
        )
    inputs = {name: x for name, x in values.items() if isinstance(x, Tensor)}
    return Run(at, inputs, calls, result, names, kept, questions, about_steps)


def _address(x) -> int:
    """Where a tensor's memory begins: the same for its views that begin there, as detach() makes."""
    return x._data.__array_interface__["data"][0] if isinstance(x, Tensor) else 0


# ------------------------------------------------------------------------------------------ numbers of several runs

UNITS = (
    sqrt(2),
    sqrt(3),
    pi,
    sqrt(pi),
    sqrt(2 / pi),
    sqrt(2 * pi),
    1 / sqrt(pi),
    1 / sqrt(2 * pi),
    log(2),
    log(10),
    log(2 * pi),
)


def fit(numbers: list, sizes: list[dict[Size, int]]) -> Expr | None:
    """One formula of the sizes for a number that was seen in several runs; None if none was found."""
    first = numbers[0]
    if all(n == first and type(n) is type(first) for n in numbers):
        return as_written(first)
    if any(isinstance(n, bool) or not isinstance(n, int | float | np.number) for n in numbers):
        return None
    if all(isinstance(n, int | np.integer) for n in numbers):
        return _whole(list(map(int, numbers)), sizes)
    return _real(list(map(float, numbers)), sizes)


def fit_linear(numbers: list, sizes: list[dict[Size, int]]) -> Expr | None:
    """A formula as `fit` finds it, or else a multiple of a product of sizes and a number: 2 N - 1, (N - 1)/2."""
    if (formula := fit(numbers, sizes)) is not None or any(isinstance(n, bool) for n in numbers):
        return formula
    values = [Fraction(n).limit_denominator(1000) for n in numbers]
    if any(float(v) != n for v, n in zip(values, numbers, strict=True)):
        return None
    for expr in _products(list(sizes[0])):
        at = [int(expr.xreplace(a)) for a in sizes]
        other = next((n for n, number in enumerate(at) if number != at[0]), 0)
        if other and (slope := (values[other] - values[0]) / (at[other] - at[0])).denominator <= 64:
            rest = values[0] - slope * at[0]
            if all(v == slope * n + rest for v, n in zip(values, at, strict=True)):
                return Rational(slope.numerator, slope.denominator) * expr + Rational(rest.numerator, rest.denominator)
    return None


def as_written(number) -> Expr:
    """A number as it was written: 0.07 is 7/100; fractions with small divisors and roots of them are found."""
    if isinstance(number, bool | np.bool_):
        return S(int(number))
    if isinstance(number, int | np.integer):
        return Integer(int(number))
    number = float(number)
    if not math.isfinite(number):
        return {math.inf: S.Infinity, -math.inf: S.NegativeInfinity}.get(number, S.NaN)
    short = Rational(repr(number))
    if short.q < 10**8:
        return short
    near = Fraction(number).limit_denominator(1000)
    if float(near) == number:
        return Rational(near.numerator, near.denominator)
    for unit in UNITS:
        near = Fraction(number / float(unit)).limit_denominator(1000)
        if near and math.isclose(float(near) * float(unit), number, rel_tol=4e-16):
            return Rational(near.numerator, near.denominator) * unit
    return short


def _products(sizes: list[Size]) -> Iterator[Expr]:
    for n in (1, 2, 3):
        for chosen in itertools.combinations_with_replacement(sizes, n):
            product = S.One
            for one in chosen:
                product *= one
            yield product


def _whole(numbers: list[int], at: list[dict[Size, int]]) -> Expr | None:
    sizes = list(at[0])
    for expr in _products(sizes):
        values = [int(expr.xreplace(a)) for a in at]
        ratios = {Fraction(n, v) for n, v in zip(numbers, values, strict=True)}
        if len(ratios) == 1 and (ratio := ratios.pop()).denominator <= 64 and ratio != 0:
            return Rational(ratio.numerator, ratio.denominator) * expr
    for expr in _products(sizes):
        values = [int(expr.xreplace(a)) for a in at]
        for sign in (1, -1):
            differences = {n - sign * v for n, v in zip(numbers, values, strict=True)}
            if len(differences) == 1:
                return sign * expr + differences.pop()
    for one, other in itertools.combinations(sizes, 2):
        for expr in (one + other, one - other, other - one):
            differences = {n - int(expr.xreplace(a)) for n, a in zip(numbers, at, strict=True)}
            if len(differences) == 1:
                return expr + differences.pop()
    return None


def _real(numbers: list[float], at: list[dict[Size, int]]) -> Expr | None:
    powers = (Rational(-1, 2), Rational(1, 2), -1, 1, Rational(-1, 4), Rational(1, 4), -2, 2)
    for expr in (*_products(list(at[0])), *[s - 1 for s in at[0]]):
        for power in powers:
            values = [float(expr.xreplace(a)) ** float(power) for a in at]
            ratios = [n / v for n, v in zip(numbers, values, strict=True)]
            if all(math.isclose(r, ratios[0], rel_tol=1e-14) for r in ratios):
                factor = min((as_written(float(r)) for r in ratios), key=lambda r: len(str(r)))
                return factor * expr**power
    return None

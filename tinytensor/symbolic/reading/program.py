"""`read`: the terms of a function, from one run on tensors without values and sizes without numbers."""

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np
from sympy import Mod, Mul, floor

from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.derive.arguments import Argument
from tinytensor.symbolic.derive.conditions import SizeCondition
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.prove.advice import describe_line, is_own
from tinytensor.symbolic.reading.engine import functions_for_sizes
from tinytensor.symbolic.reading.errors import NotDerivable, Refused, Restart, Split
from tinytensor.symbolic.reading.language import changed_names, only_readable, snapshot
from tinytensor.symbolic.reading.loops import ELSEWHERE
from tinytensor.symbolic.reading.sizes import Reading, SymFloat, SymInt, fraction, never_negative
from tinytensor.symbolic.reading.tensors import (
    SymbolicData,
    SymbolicTensor,
    Term,
    as_term,
    tensor_of,
)


def read(fn: Callable, arguments: dict[str, object], where: Sequence[SizeCondition] = (), split=None) -> Reading:
    """The terms of fn for all sizes >= 1 that meet `where` and its conditions; NotDerivable names what can't be read.

    Where the function fails, its last open question about sizes gets the other answer, which is then a condition.
    """
    forced: list[bool] = []
    learnt: dict = {}
    first: Exception | None = None
    while True:
        reading = Reading()
        reading.forced, reading.learnt = forced, learnt
        try:
            _run(reading, fn, arguments, where, split or {})
            return reading
        except Restart:
            continue
        except NotImplementedError as error:  # an operation without a gradient, which says what to do instead
            raise NotDerivable(f"derive: {error}{_line_of(error)}") from error
        except NotDerivable:
            raise first or sys.exception() from None
        except Exception as error:
            first = first or error
            if len(reading.answers) <= len(forced):  # both answers of the last question were tried
                raise first from None
            forced = [*reading.answers[:-1], not reading.answers[-1]]


def _run(reading: Reading, fn: Callable, arguments: dict[str, object], where, split: dict) -> None:
    """Run fn once, and note its terms and its result."""
    written = getattr(fn, "forward", fn)  # of a function that is made for a Module, or for a gradient by hand
    outside = {getattr(written, "__name__", "the function"): written}
    outside |= {name: a for name, a in arguments.items() if not isinstance(a, Argument)}
    reading.outside |= {(name, id(x)): (x, snapshot(x)) for name, x in outside.items()}
    values = {name: _value(reading, name, a) if isinstance(a, Argument) else a for name, a in arguments.items()}
    for condition in where:
        _assume(reading, condition, split)
    result, failure = None, None
    try:
        with double_precision(), functions_for_sizes(reading), only_readable(reading):
            result = fn(**values)
            reading.result = as_term(result) if isinstance(result, Tensor) else None
    except Refused:
        pass
    except (Exception, Split, Restart) as error:
        failure = error
    finally:
        outside = [line for x, *_, line in reading.written if sys.getrefcount(x) > 3 + (x is result)]
        for x, data, cls, _ in reversed(reading.written):
            x._data, x.__class__ = data, cls
    reading.over = True
    if problem := next(_problems(reading, outside, failure), ""):  # also where the function caught the exception
        raise NotDerivable(f"derive: {problem}")
    if isinstance(failure, Split | Restart):
        raise failure
    if "SymInt" in str(failure) or "SymFloat" in str(failure):  # Python's own, of an operation that no size has
        raise NotDerivable(f"derive: {failure}{_line_of(failure)}") from failure
    if failure is not None:
        raise failure
    if not isinstance(result, Tensor):
        came = "a size" if type(result) in (SymInt, SymFloat) else type(result).__name__
        raise NotDerivable(f"derive: the function returned {came}; expected one tensor: return the one to derive")
    reading.arguments = {name: x._data.term for name, x in values.items() if isinstance(x, SymbolicTensor)}
    if getattr(reading.result, "inside", None) is not None:
        raise NotDerivable("derive: a value of one step of a loop is used outside of it")


def _problems(reading: Reading, written: list[str], failure: BaseException | None) -> Iterator[str]:
    """Why a run does not show the function, in words. written: the lines that change tensors from outside of it."""
    yield from reading.refusals
    if failure is None:
        yield from reading.doubts
    if failure is None and reading.open_loops:
        yield f"a loop over a size is left before its last step{reading.open_loops[-1].where}"
    if failure is None and reading.comprehensions:
        yield f"{ELSEWHERE}{reading.comprehensions[-1].where}"
    if changed := changed_names(reading.outside):
        yield f"{', '.join(f'{name} {how}' for name, how in changed.items())}: another call would differ"
    if failure is None and written:
        yield f"a tensor from outside of the function is changed in place{written[0]}: another call would differ"


def _line_of(error: Exception) -> str:
    """The line of the user's own code at which an error came up, in words."""
    lines = [f for f in traceback.extract_tb(error.__traceback__) if is_own(f.filename)]
    return f" ({describe_line(lines[-1].filename, lines[-1].lineno, lines[-1].name)})" if lines else ""


def _value(reading: Reading, name: str, argument: Argument) -> SymbolicTensor:
    """A tensor without values for an argument."""
    shape = tuple(prod((reading.number(f) for f in dim), start=1) for dim in argument.dims)
    span = None if argument.below is None else (0, reading.number(argument.below) - 1)
    if type(n := prod(shape)) is SymInt:
        reading.products.append(n.expr)
    term = Term("argument", name)
    term.depends, term.is_real, term.on_tape = True, span is None, span is None
    return tensor_of(SymbolicData(reading, term, shape, np.float64 if span is None else np.int64, span))


def _assume(reading: Reading, condition: SizeCondition, split: dict) -> None:
    """Let a condition of `where` be known of the sizes."""
    parts = {s: Mul(*p) for s, p in split.items()}
    left, right = (
        side.xreplace(parts).replace(Mod, lambda a, b: a - b * floor(a / b))
        for side in (condition.left, condition.right)
    )
    difference, below = (right - left if condition.operation in ("<", "<=") else left - right).as_numer_denom()
    for divisor in (below, *[fraction(a)[1] for a in difference.atoms(floor)]):
        if not never_negative(reading.number(divisor - 1)):
            raise ValueError(
                f"where: {condition.code()!r} divides by {divisor}, which may be 0 or below: demand > 0 first"
            )
    difference = reading.number(difference - int(condition.operation in ("<", ">")))
    operation = condition.operation if condition.operation in ("==", "!=") else ">="
    if type(difference) is SymInt:
        reading.known.append((operation, difference.expr, ""))
        if operation == "==":
            reading.solve(difference.expr)
    elif not {"==": difference == 0, "!=": difference != 0, ">=": difference >= 0}[operation]:
        why = f", since the function takes {', '.join(map(str, split))} apart" if split else ""
        raise NotDerivable(f"derive: no sizes meet {condition}{why}")

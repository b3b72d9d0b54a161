"""The judge of the exercises: it compares an answer with what is right, and says in one sentence what is wrong.

A check draws random cases and calls `answer.compare(inputs, right, case)`. What an answer returns may be anything: the
judge says what came, and looks for a property that names the mistake (a sign, a factor, a missing sum, one too many).
"""

import contextlib
import functools
import inspect
import linecache
import math
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np


class Wrong(Exception):
    """What a check says of a wrong answer: one or more sentences."""


class Open(Wrong):
    """The answer is still three dots."""


FROM_MATH = "For arrays use NumPy's functions (np.exp), for tensors their own (x.exp()), not those of math."
HINTS = (  # part of a message of Python or NumPy -> what is behind it
    ("only length-1 arrays", FROM_MATH),  # the next one, in older versions of NumPy
    ("only 0-dimensional arrays", FROM_MATH),
    (
        "truth value of an array",
        "`if` and `max` cannot choose for each entry of an array; np.where and np.maximum can.",
    ),
    (
        "math range error",
        "An exponential of more than 709 is larger than any float: subtract the largest number first.",
    ),
    ("maximum recursion depth", "The function calls itself too often: keep a list of what is left, and use a loop."),
    ("'NoneType'", "None is the value of a function that ends without `return`."),
    ("unexpected keyword argument", "Keep the arguments that the file came with: later steps use them."),
)


@contextlib.contextmanager
def running(what: str, own: Callable[[traceback.FrameSummary], bool]) -> Iterator[None]:
    """Run a student's code: an exception becomes a sentence with their line, found by `own`."""
    try:
        with np.errstate(all="ignore"):
            yield
    except Wrong:
        raise
    except (Exception, SystemExit) as error:
        raise Wrong(describe(error, own, what)) from error


def describe(error: BaseException, own: Callable[[traceback.FrameSummary], bool], what: str) -> str:
    """An exception in the student's code: where, which line, what Python says, and a hint where one is known."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if own(frame)]
    if isinstance(error, SyntaxError) and own(traceback.FrameSummary(error.filename or "", error.lineno, "")):
        line = linecache.getline(error.filename, error.lineno or 0).strip()
        return f"Python cannot read {Path(error.filename).name}, line {error.lineno}: {error.msg}\n    {line}"
    shown = frames[:1] + [frame for frame in frames[-1:] if frame.lineno != frames[0].lineno]  # its begin and its end
    steps = [f"{Path(frame.filename).name}, line {frame.lineno}:\n    {frame.line}\n" for frame in shown]
    where = " in " + "which leads to ".join(steps) if steps else ""
    hint = next((hint for part, hint in HINTS if part in str(error)), "")
    message = f"{what} stops with an error{where or ': '}{type(error).__name__}: {error}"
    return message + (f"\n{hint}" if hint else "")


def check(hint: str) -> Callable[[Callable], Callable[[Callable], str]]:
    """Let a check, which raises `Wrong`, return one sentence: "right", "wrong: ..." or "not solved yet. Hint: ..."."""

    def decorate(function: Callable) -> Callable[[Callable], str]:
        @functools.wraps(function)
        def judged(answer: Callable) -> str:
            tried = Answer(answer)
            try:
                function(tried)
            except Open:
                return f"not solved yet. Hint: {hint}"
            except Wrong as wrong:
                said = str(wrong)
            except Exception as error:  # the check met something that it did not foresee
                said = describe(error, tried.owns, f"the check, with {came(tried.result)} as your result,")
            else:
                return "right"
            said = re.sub(r"\n    (.*)\n", r" `\1`: ", said).replace("\n", ". ")  # lines of code, and what follows them
            return f"wrong: {' '.join(said.split())}"

        return judged

    return decorate


def three_dots() -> None:
    """A function that is still open; a docstring and three dots."""
    ...


class Answer:
    """An answer to an exercise: a student's function, whose inputs are remembered when it is called."""

    def __init__(self, function: Callable):
        self.function, self.inputs, self.name = function, {}, getattr(function, "__name__", "your answer")
        self.code, self.result = getattr(function, "__code__", check.__code__), None

    def owns(self, frame: traceback.FrameSummary) -> bool:
        """Does a line that was reached belong to the student? (The check may stand in the same file.)"""
        return frame.filename == self.code.co_filename and not frame.name.startswith("check_")

    def run(self, *inputs: Any) -> Any:
        """What the function returns; `Open` if it is three dots."""
        with contextlib.suppress(TypeError, ValueError):  # of a function that has no signature
            self.inputs = dict(zip(inspect.signature(self.function).parameters, map(numeric, inputs)))
        with running(self.name, self.owns):
            self.result = self.function(*inputs)
        if self.result is None and len(self.code.co_code) == len(three_dots.__code__.co_code):
            raise Open
        return self.result

    def __call__(self, *inputs: Any) -> Any:
        """What the function returns, which is not None."""
        if self.run(*inputs) is None:
            raise Wrong(f"{self.name} returns None, as a function does that ends without `return`.")
        return self.result

    def compare(self, inputs: tuple, right: Any, case: str, mistakes: dict | None = None, **options: Any) -> None:
        """Run the function on these inputs, and compare its result with the right one, which was computed before."""
        compare(self(*inputs), right, case, mistakes, inputs=self.inputs, **options)


def compare(
    result: Any,
    right: Any,
    case: str,
    mistakes: dict[str, Any] | None = None,
    tolerance: float = 1e-5,
    names: Sequence[str] = (),
    inputs: dict[str, Any] | None = None,
    hint: str = "",
) -> None:
    """Raise `Wrong` if `result` is not `right`: a number, a text, a list, a tensor, or a tuple or dictionary of these.

    case: the beginning of a sentence that goes on with "is ..., not ...". mistakes: what to say -> the result that this
    mistake gives, with three dots for a part that does not matter. tolerance: relative to the largest number, or to 1.
    names: those of the parts of a tuple. inputs: those of the answer, among which missing factors and terms are sought.
    hint: what to say if it is none of these mistakes.
    """
    differs = difference(result, right, case, tolerance, names)
    if not differs:
        return
    sentence, got, wanted = differs
    known = {"The two are exchanged.": right[::-1]} if isinstance(right, tuple) and len(right) == 2 else {}
    named = [
        said
        for said, value in (known | (mistakes or {})).items()
        if difference(right, value, "", tolerance, names) and not difference(result, value, "", tolerance, names)
    ]
    if named:
        raise Wrong(f"{sentence} {' Or: '.join(named)}")
    if wanted is not None:
        with np.errstate(all="ignore"):
            named = list(properties(got, wanted, inputs or {}, max(tolerance, 1e-5)))[:1]
        if not (named or hint) and got.shape == wanted.shape != ():
            named = [f"{(np.abs(got - wanted) <= tolerance).sum()} of {got.size} numbers are right."]
    raise Wrong(" ".join([sentence, *named, hint]).rstrip())


def difference(result: Any, right: Any, case: str, tolerance: float, names: Sequence[str]) -> tuple | None:
    """None if `result` is `right`; else a sentence, and both as arrays of numbers, None where they are none."""
    if right is ...:
        return None
    if isinstance(right, tuple):
        parts = list(result) if isinstance(result, list | tuple) or (library(result) and len(result.shape) == 1) else []
        if len(parts) != len(right):
            return f"{case}: {len(right)} results are asked for, and you return {came(result)}.", None, None
        for i, (mine, part) in enumerate(zip(parts, right)):
            name = names[i] if i < len(names) else f"part {i + 1}"
            if differs := difference(mine, part, f"{case}: {name}", tolerance, ()):
                return differs
        return None
    if isinstance(right, dict):
        if not isinstance(result, dict) or set(result) != set(right):
            return f"{case}: a dictionary with the keys {list(right)} is asked for, not {came(result)}.", None, None
        right, result = list(right.values()), [result[each] for each in right]
    wanted, got = numeric(right), numeric(result)
    if wanted is None:  # a text, or a list of texts
        alike = type(result) is type(right) and result == right
        return None if alike else (f"{case} is {right}, not {came(result)}.", None, None)
    if got is None or (got.ndim and not wanted.ndim) or (wanted.ndim and library(result) != library(right) != ""):
        return f"{case}: {asked(right)} is asked for, and you return {came(result)}.", None, None
    if got.shape != wanted.shape and isinstance(right, list):
        return f"{case} is {right}, not {came(result)}.", got, wanted
    if got.shape != wanted.shape:
        return f"{case} has the shape {wanted.shape}, not {got.shape}.", got, wanted
    return None if near(got, wanted, tolerance, 1.0) else (f"{case}{pair(got, wanted)}.", got, wanted)


def numeric(x: Any) -> np.ndarray | None:
    """A number, or lists, an array or a tensor of numbers, as an array of float64; None for anything else."""
    if library(x):
        x = x.tolist()
    if isinstance(x, list | tuple):
        rows = [numeric(row) for row in x]
        alike = all(row is not None and row.shape == rows[0].shape for row in rows)
        return np.array(rows) if alike else None
    if isinstance(x, bool) or not isinstance(x, Real):
        return None
    try:
        return np.array(float(x))
    except OverflowError:  # a whole number that is larger than any float
        return np.array(math.inf)


def library(x: Any) -> str:
    """The package of an array or a tensor, "numpy" or "tinytensor" (which is not loaded here: it takes long), or ""."""
    name = type(x).__module__.partition(".")[0]
    return name if hasattr(x, "tolist") and hasattr(x, "shape") and not isinstance(x, type) else ""


def near(a: np.ndarray, b: np.ndarray, tolerance: float, least: float = 0.0) -> bool:
    """Do all numbers agree, up to the tolerance times the largest, or `least`? NaN agrees with NaN alone."""
    if a.shape != b.shape:
        return False
    finite = np.abs(b[np.isfinite(b)])
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= tolerance * finite.max(initial=least)
    return bool(np.all((a == b) | close | (np.isnan(a) & np.isnan(b))))


def came(x: Any) -> str:
    """What an answer returned, in words."""
    if library(x):
        name = "an array" if library(x) == "numpy" else "a tensor"
        return f"{name} of shape {tuple(x.shape)}" if tuple(x.shape) else f"{x.item()}"
    if isinstance(x, Iterator):
        return "an iterator (list(...) makes a list of it)"
    if callable(x):
        return "a function"
    with contextlib.suppress(ValueError):  # Python writes no number of 5,000 digits
        if isinstance(x, str | bool | int | float | complex | list | tuple | dict) and len(repr(x)) <= 80:
            return repr(x)
    return f"something of the type {type(x).__name__}"


def asked(right: Any) -> str:
    """What a result should be, in words."""
    shape = np.shape(numeric(right))
    if not shape:
        return "a number"
    if isinstance(right, list):
        return f"a list of {shape[0]} numbers" if len(shape) == 1 else f"a list of {shape[0]} lists"
    return f"{'an array' if library(right) == 'numpy' else 'a tensor'} of shape {shape}"


def pair(got: np.ndarray, wanted: np.ndarray) -> str:
    """The right number and the one that came, where they differ most, with as many digits as show the difference."""
    with np.errstate(all="ignore"):
        off = np.where(np.isfinite(got), np.abs(got - wanted), np.inf)
    at = np.unravel_index(np.argmax(off), got.shape)
    a, b = float(wanted[at]), float(got[at])
    digits = next((d for d in (5, 8, 12) if f"{a:.{d}g}" != f"{b:.{d}g}"), 17)
    where = f" at {[int(i) for i in at]}" * bool(at)
    return f"{where} is {a:.{digits}g}, not {b:.{digits}g}"


def properties(got: np.ndarray, wanted: np.ndarray, inputs: dict[str, Any], tolerance: float) -> Iterator[str]:
    """What is true of a wrong result, each a sentence: the first ones say most."""
    if np.isnan(got).any():
        yield "NaN is no number: it comes from 0 / 0, ∞ − ∞, or the root or logarithm of a negative number."
    if np.isinf(got).any():
        yield "An infinite number comes from a division by 0, or from an exponential of a large number."
    for sentence, value in relatives(wanted, inputs):
        if np.isfinite(value).all() and near(got, value, tolerance):
            yield sentence
    for axis in range(got.ndim):
        if any(near(got.sum(axis, keepdims=kept), wanted, tolerance) for kept in (False, True)):
            yield f"A sum over dimension {axis} is missing."
    for axis in range(wanted.ndim):
        if near(got, wanted.sum(axis), tolerance):
            yield f"You have summed over dimension {axis}, which should stay."
    if got.ndim == wanted.ndim == 1 and len(got) != len(wanted):
        yield f"{abs(len(got) - len(wanted))} too {'many' if len(got) > len(wanted) else 'few'}."
    if got.ndim and got.shape == wanted.shape:
        yield from entries(got, wanted, tolerance)


def relatives(right: np.ndarray, inputs: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """What may stand in the place of the right result: what to say, and the value."""
    yield "The sign is the other way round.", -right
    for name, x in inputs.items():
        if x is None or x.ndim > right.ndim or x.shape not in ((), right.shape, right.shape[1:]):
            continue
        yield f"That is {name} itself.", x + 0 * right
        yield f"The factor {name} is missing.", right / x
        yield f"The factor {name} stands there once too often.", right * x
        yield f"Multiply by {name}, do not divide by it.", right / x**2
        yield f"Divide by {name}, do not multiply by it.", right * x**2
        yield f"The term {name} is missing, or subtracted once too often.", right - x
        yield f"The term {name} is one too many.", right + x
        yield f"The term {name} has the wrong sign.", right - 2 * x
        yield f"The term {name} has the wrong sign.", right + 2 * x
    for factor, word in ((2, "twice"), (-2, "minus twice"), (0.5, "half of"), (-0.5, "minus half of")):
        yield f"That is {word} the right result.", factor * right
    if (np.round(right) == right).all():
        yield "One too many.", right + 1
        yield "One too few.", right - 1
    yield "That is the right result upside down, 1 divided by it.", 1 / right
    yield "That is the square of the right result.", right**2
    yield "That is the square root of the right result.", right**0.5
    yield "That is the logarithm of the right result.", np.log(right)
    yield "The right result is the logarithm of that.", np.exp(right)
    for axis in range(right.ndim):
        yield "The entries are in reverse order.", np.flip(right, axis)
        for steps in (1, -1):
            yield (
                "All entries stand one place too far " + ("back." if steps > 0 else "in front."),
                np.roll(right, steps, axis),
            )
    if right.ndim > 1:
        yield "It is transposed.", right.swapaxes(-1, -2)


def entries(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> Iterator[str]:
    """What is true of the entries of a wrong result of the right shape."""
    if near(np.abs(got), np.abs(wanted), tolerance):
        yield "Only signs are wrong."
    if near(np.sort(got, axis=None), np.sort(wanted, axis=None), tolerance):
        yield "These are the right numbers, in another order."
    ratio, step = got / wanted, got - wanted
    ratio = ratio[~np.isnan(ratio)]
    if got.size > 1 and np.ptp(step) <= tolerance:
        yield f"All entries are off by {float(step.flat[0]):.4g}: a term is missing, or one too many."
    if ratio.size > 1 and np.isfinite(ratio).all() and ratio.any() and np.ptp(ratio) <= tolerance * np.abs(ratio).max():
        yield f"All entries are the right ones times {float(ratio[0]):.4g}: a factor is missing, or one too many."

"""The messages of `prove` about a function that it can't prove: the line of the user's code, and what to do."""

import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

import numpy as np

from tinytensor.autograd.func.pytree import leaves
from tinytensor.core.kernel import OBJECT
from tinytensor.core.observers import observe
from tinytensor.core.op import Op
from tinytensor.core.tensor import Tensor
from tinytensor.native.platform.distribution import PACKAGE
from tinytensor.symbolic.exact.scalars import Exact
from tinytensor.symbolic.time_limit import TooLong

# ------------------------------------------------------------------------------------------ the line of the user's code


def line(frame: FrameType | None) -> str:
    """The line of the user's own code that made a call, in words."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return ""
    return f" ({describe_line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)})"


def describe_line(file: str, number: int, function: str) -> str:
    """A line in words; without its code if Python keeps no source: with -c and, before 3.13, at the prompt."""
    code = linecache.getline(file, number).strip()
    return f"{Path(file).name}, line {number}: {code}" if code else f"{file}, line {number}, in {function}"


@cache
def is_own(file: str) -> bool:
    """Is this the user's own code, neither the engine's nor Python's, nor that of NumPy, SymPy or PyTorch?"""
    path = Path(file)
    if path.is_relative_to(PACKAGE) or file.startswith("<frozen "):
        return False
    if "site-packages" in path.parts:
        return not {"numpy", "sympy", "torch"} & set(path.parts)
    return not path.is_relative_to(Path(os.__file__).parent)


@contextmanager
def line_named() -> Iterator[None]:
    """Add to an exception the line of the user's own code that raised it, and advice."""
    try:
        yield
    except TooLong:
        raise
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if is_own(f.filename)]
        if frames:
            error.add_note(f"prove: in {describe_line(frames[-1].filename, frames[-1].lineno, frames[-1].name)}")
        if not isinstance(error, AttributeError) and EXACT.search(str(error)):
            error.add_note(HELP)
        raise


EXACT = re.compile(r"an exact scalar|values of object|got object|dtype object")
HELP = (
    "prove: inputs and parameters hold exact scalars now (dtype object), which become no floats and no whole numbers: "
    "leave .float(), .long(), .item(), float(), int() and .numpy() out of the function; make tensors that are to hold "
    "them with zeros_like(x) or dtype=x.dtype; values that have no gradient are computed beforehand, as constants. "
    "A shape stands for exact scalars: give indices, targets and masks as tensors, tt.tensor([0, 2])"
)


def no_stranger(op: Op, edge, leaves: dict[str, Tensor]) -> None:
    """ValueError if an operation reads a tensor that requires grad and is none of the inputs."""
    if isinstance(edge, Tensor) and not any(edge is leaf for leaf in leaves.values()):
        raise ValueError(
            f"prove: {op.name} reads a tensor of shape {edge.shape} that requires grad and is no input; give it as an "
            "input, or prove the Module that it is a parameter of (an nn.Parameter), or detach() it if it is a constant"
        )


# ------------------------------------------------------------------------------------------- where the gradient ends


SEEN = Tensor, Exact, np.ndarray, np.generic, int, float, str, type(None)  # what holds no further tensor
ENDS = (
    "expected a tensor that is computed from an input with a gradient, alone or in tuples, lists and dicts. What to "
    "do: leave detach(), .data, no_grad(), .item(), .tolist(), .numpy() and float() out; whole numbers and truth "
    "values have no derivative, so return values that are computed before them, x.max() and not x.argmax()"
)


def results_of(fn: Callable, args: list) -> list[Tensor]:
    """The tensors that a function returns and that its inputs have a gradient of; ValueError if there is none."""
    returned = leaves(fn(*args))
    results = [y for y in returned if isinstance(y, Tensor) and y.requires_grad]
    unseen = [y for y in returned if not isinstance(y, SEEN)]
    if results and not unseen:
        return results
    came = " and ".join(map(describe, unseen or returned)) or "an empty tuple"
    raise ValueError(f"prove: the function's result has no gradient: it is {came}{_last_end(fn, args)}; {ENDS}")


def describe(value) -> str:
    """A value in words."""
    if isinstance(value, Tensor):
        numbers = "exact numbers" if value.dtype is OBJECT else str(value.dtype).partition(".")[2]
        return f"a tensor of {numbers} and shape {value.shape}"
    return repr(value) if isinstance(value, int | float | str | None) else f"of type {type(value).__name__}"


def _last_end(fn: Callable, args: list) -> str:
    """The line of the last operation that took a tensor with a gradient and returned none; the function runs again."""
    ends = [""]

    def note(op: Op, inputs: tuple, result):
        results = result if isinstance(result, tuple) else (result,)
        if any(getattr(x, "requires_grad", False) for x in inputs) and not any(y.requires_grad for y in results):
            ends.append(line(sys._getframe(1)))
        return result

    with observe(on_op=note):
        fn(*args)
    return ends[-1]


def arguments_of(frame: FrameType) -> list:
    """The arguments of a call."""
    return [x for value in frame.f_locals.values() for x in (value if isinstance(value, tuple) else (value,))]

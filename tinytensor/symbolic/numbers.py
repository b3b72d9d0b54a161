"""Numbers that try to refute a gradient: the values that are tried, difference quotients, and when two numbers differ.

Numbers refute, they never prove. A wrong gradient may show for one sign alone, at zeros and equal numbers, at a number
with which the code compares, or far from 0: `derive`, `check` and `prove` try all of these, with one set of tolerances.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

ROUNDING = 1e-7  # of the largest entry and of 1: how far two computations in float64 may be apart
ROUNDING_IN_FLOAT32 = 100 * float(np.finfo(np.float32).eps)
CANCELLED = 64 * np.finfo(np.float64).eps  # of the numbers of which a difference is computed
QUOTIENT = 1e-5  # relative: a derivative and a difference quotient nearer than this are equal
STEPS = (1e-5, 1e-4, 1e-3, 1e-6)  # of difference quotients: one must agree
TIES = (-2.0, -1.0, 0.0, 1.0, 2.0)
FAR = 8.0  # beyond it, floats overflow, or are flat where the function is not

STYLES: dict[str, Callable[[np.random.Generator, tuple, Sequence[float]], np.ndarray]] = {
    "of both signs": lambda rng, shape, numbers: rng.normal(size=shape),
    "between 0 and 1": lambda rng, shape, numbers: rng.uniform(0.1, 0.9, shape),
    "ties": lambda rng, shape, numbers: rng.choice([*TIES, *numbers], size=shape),  # numbers: those of the code
    "positive": lambda rng, shape, numbers: rng.uniform(0.5, 1.5, shape),
    "zeros": lambda rng, shape, numbers: np.zeros(shape),
    "negative": lambda rng, shape, numbers: rng.uniform(-1.5, -0.5, shape),
    "far": lambda rng, shape, numbers: rng.uniform(-40, 40, shape),
    "equal": lambda rng, shape, numbers: np.full(shape, 0.75),
}
WITHIN: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # any values as those of a style
    "of both signs": lambda x: x,
    "positive": np.abs,
    "between 0 and 1": lambda x: np.abs(x) / (1 + np.abs(x)),
}


def differing_entry(
    want: np.ndarray, got: np.ndarray, tolerance: float | None = None, size: float = 0.0
) -> tuple[int, ...] | None:
    """The first entry in which numbers differ from finite ones beyond rounding, as NaN does; None if there is none.

    size: of the numbers of which they are computed, which may cancel: e^40 (q - 1) is 2e17 times the rounding of q.
    """
    if tolerance is None:
        tolerance = ROUNDING_IN_FLOAT32 if want.dtype == np.float32 else ROUNDING
    finite = np.isfinite(want)
    with np.errstate(all="ignore"):
        limit = tolerance * (1 + np.abs(want[finite]).max(initial=0) + np.abs(want)) + CANCELLED * size
        differs = finite & ~(np.abs(want - got) <= limit)
    return tuple(np.argwhere(differs)[0].tolist()) if differs.any() else None


# ----------------------------------------------------------------------------------------------- difference quotients

Line = Callable[[float], np.ndarray | float]  # a function along a line: its value at x + t v, by t


def agrees(line: Line, slope: np.ndarray | float, size: float) -> bool | None:
    """Is this the derivative along a line, by a difference quotient of one of the steps?

    None if none is finite, or where it differs it depends on the step. size: of the numbers of which the slope is made.
    """
    quotients, differs, rounding = [], True, 0.0
    for step in STEPS:
        above, below = line(step), line(-step)
        quotient = (above - below) / (2 * step)
        if np.isfinite(quotient).all():
            rounding = ROUNDING + 16 * CANCELLED / step * np.abs(above).max(initial=0)
            differs = differs & (np.abs(quotient - slope) > QUOTIENT * size + rounding)
            if not np.any(differs):
                return True
            quotients.append(quotient)
    if not quotients:
        return None
    first, last = quotients[0], quotients[-1]
    certain = np.abs(first - last) <= 0.01 * np.minimum(np.abs(first), np.abs(first - slope)) + rounding
    return False if np.any(differs & certain) else None


class Slope(NamedTuple):
    """The difference quotient of a function of one value along a line, how unsure it is, and the function's size."""

    quotient: float
    unsure: float
    size: float

    def is_unsure(self, error: float) -> bool:
        """Is it less certain than this, or than one part in a hundred? (A step across a kink is.)"""
        return not self.unsure <= min(error, 0.01 * (abs(self.quotient) + self.size + 1))


def slope_along(line: Line) -> Slope:
    """The difference quotient of a function of one value: two steps differ by its error, two sides at a kink."""
    here, step = line(0.0), STEPS[0]
    quotients = []
    for h in (step, step / 4):
        above, below = line(h), line(-h)
        quotients.append((above - below) / (2 * h))
    aside = abs(above + below - 2 * here) / (step / 4)
    return Slope(quotients[1], float(np.maximum(aside, abs(quotients[0] - quotients[1]))), abs(here))

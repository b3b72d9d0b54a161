"""The length of a step along a direction, so that the strong Wolfe conditions hold.

With the loss f(t) at x + t d, a step t must go down far enough, f(t) <= f(0) + c1 t f'(0), and the slope there must be
flatter, |f'(t)| <= c2 |f'(0)| (Nocedal and Wright, Numerical Optimization, equations 3.7).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from tinytensor.core.tensor import Tensor

C1, C2 = 1e-4, 0.9  # Nocedal and Wright's constants for quasi-Newton methods
SHORTEST = 1e-9  # a bracket in which no parameter changes by more than this is not divided
NEAREST, FARTHEST = 0.01, 10.0  # a longer trial is beyond t by 0.01 of the last extension, and at most at 10 t
MARGIN = 0.1  # of a bracket: a trial closer to an end makes little progress


class Point(NamedTuple):
    """A point x + t d of the line: the loss f there (inf if there is none), its gradient, and the slope along d."""

    t: float
    f: float
    gradient: Tensor
    slope: float


def strong_wolfe(at: Callable[[float], Point], start: Point, t: float, largest: float, trials: int) -> Point:
    """A point where the conditions hold, near the first trial t; else, after further trials, the lowest that is known.

    `largest` is the largest element of |d|.
    (Nocedal and Wright, algorithm 3.5.)
    """
    previous, here = start, at(t)
    for trial in range(trials):
        if _is_too_high(here, start) or (trial > 1 and here.f >= previous.f):
            return _zoom(at, start, [previous, here], largest, trials - trial)
        if _is_flat_enough(here, start):
            return here
        if here.slope >= 0:
            return _zoom(at, start, [previous, here], largest, trials - trial)
        farther = minimum_of_cubic(previous, here, here.t + NEAREST * (here.t - previous.t), FARTHEST * here.t)
        previous, here = here, at(farther)
    return here if here.f < start.f else start


def _zoom(at: Callable[[float], Point], start: Point, ends: list[Point], largest: float, trials: int) -> Point:
    """The same within a bracket: its lower end satisfies the first condition (Nocedal and Wright, algorithm 3.6).

    Of two trials in a row near an end, the second one is moved inwards, so that the bracket shrinks.
    """
    low = int(ends[1].f < ends[0].f)  # which end is the lower one
    was_near = False
    for _ in range(trials):
        left, right = sorted(end.t for end in ends)
        if (right - left) * largest < SHORTEST:
            break
        t, margin = minimum_of_cubic(*ends, left, right), MARGIN * (right - left)
        is_near = min(right - t, t - left) < margin
        if is_near and (was_near or not left < t < right):
            t, is_near = right - margin if right - t < t - left else left + margin, False
        was_near, here = is_near, at(t)
        if _is_too_high(here, start) or here.f >= ends[low].f:
            ends[1 - low] = here
            low = int(ends[1].f < ends[0].f)
            continue
        if _is_flat_enough(here, start):
            return here
        if here.slope * (ends[1 - low].t - ends[low].t) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = here
    return ends[low]


def _is_too_high(here: Point, start: Point) -> bool:
    return not here.f <= start.f + C1 * here.t * start.slope  # true of NaN, too


def _is_flat_enough(here: Point, start: Point) -> bool:
    return abs(here.slope) <= -C2 * start.slope


def minimum_of_cubic(a: Point, b: Point, low: float, high: float) -> float:
    """The minimum, from low to high, of the cubic with the losses and slopes of two points; if it has none, the middle.

    (Nocedal and Wright, equation 3.59.)
    """
    a, b = sorted((a, b), key=lambda point: point.t)
    d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:  # NaN, where a loss is not finite, included
        return (low + high) / 2
    d2 = math.sqrt(square)
    over, under = b.slope + d2 - d1, b.slope - a.slope + 2 * d2
    if under == 0:  # a straight line: its minimum lies at infinity
        t = math.copysign(math.inf, -over)
    else:
        t = b.t - (b.t - a.t) * (over / under)
    return (low + high) / 2 if math.isnan(t) else min(max(t, low), high)

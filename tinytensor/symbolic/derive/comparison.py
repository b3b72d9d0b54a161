"""Formulas, or a gradient by hand, beside the function in numbers: one point at which they differ refutes them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinytensor.symbolic.derive.conditions import SizeCondition
from tinytensor.symbolic.derive.samples import Sample
from tinytensor.symbolic.derive.time_limit import is_up

THIN = {"equality", "step", "tie"}  # keys of conditions that fail at single values alone, where the code allows it


@dataclass
class Comparison:
    """What a comparison in numbers says.

    example: the first point at which there is a difference, in words; empty if there is none but where a condition on
    values fails. needed: those conditions, and "equality" for equal numbers in x == y. equal: a point at which they
    differ, and only an x == y is a tie. agreed: the sizes of the points at which there is none, with the conditions
    that fail there.
    """

    example: str = ""
    needed: set[str] = field(default_factory=set)
    equal: str = ""
    agreed: list[tuple[dict, Iterable[str]]] = field(default_factory=lambda: [({}, ())])

    def tried(self, sizes: Sequence[SizeCondition] = (), besides: frozenset[str] = frozenset()) -> bool:
        """Do they agree at a point at which these conditions on sizes, and all on values but `besides`, are met?"""
        return any(not {*edges} - besides and all(c.holds(numbers) for c in sizes) for numbers, edges in self.agreed)


def compare(points: Iterable[Sample], difference: Callable[[Sample], tuple[str | None, set[str]]]) -> Comparison:
    """Compare at the points for which there is time, up to the first that refutes.

    difference: what differs at a point, in words; empty if nothing does, None if nothing is compared. Besides: the keys
    of the conditions on values that fail there.
    """
    result = Comparison(agreed=[])
    for point in points:
        if is_up():
            break
        example, edges = difference(point)
        if example:
            edges = excuses(edges, point.floats)
            if not edges:
                result.example = example
                break
            result.equal = result.equal or (example if edges == {"equality"} else "")
            result.needed |= edges - {"equality"} or edges  # another condition leaves the point out in any case
        elif example is not None:
            result.agreed.append((point.at, edges))
    return result


def excuses(edges: Iterable[str], floats: Iterable[np.ndarray]) -> set[str]:
    """The conditions that fail at these values, and need not hold at those nearby: they excuse a difference.

    Where the floats are of no special form, numbers that are compared and equal are so at all values nearby: relu(x) is
    0 at all negative x, and that its sign compares it with 0 is no reason to leave all of them out.
    """
    return {*edges} - THIN if all((x != x.round(2)).all() for x in floats) else {*edges}

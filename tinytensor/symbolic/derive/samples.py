"""Numbers that try to refute a derivation: the function itself and backward(), at small sizes and edge values.

The formulas of a derivation are compared here with the function in float64: at every size from 1 to 9 and a few larger
ones (every pair for two sizes), at values of both signs, at zeros and ties, and at whole numbers that meet every class,
the first and the last. Where formulas compare with a number, values on both sides of it are tried. One point at which
formulas, or a gradient by hand, differ from the function refutes them, unless a condition on values fails there.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import numpy as np
from sympy import Indexed, Mul, S, Symbol

from tinytensor.autograd import grad
from tinytensor.core import late_bound
from tinytensor.core.dtypes import float64
from tinytensor.core.observers import observe
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import tensor
from tinytensor.ops.matrices import LinAlgError
from tinytensor.ops.pointwise import atan2, sinc
from tinytensor.ops.reduce import power_of_length
from tinytensor.symbolic.derive.arguments import Argument
from tinytensor.symbolic.derive.conditions import SizeCondition
from tinytensor.symbolic.derive.domains import edges_of
from tinytensor.symbolic.derive.facts import of_fact
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.values import tensors_of
from tinytensor.symbolic.index_calculus.adjoints import Definition, name_of
from tinytensor.symbolic.index_calculus.formulas import Size
from tinytensor.symbolic.index_calculus.signs import requirements
from tinytensor.symbolic.numbers import FAR, STYLES, differing_entry
from tinytensor.symbolic.prove.advice import is_own
from tinytensor.symbolic.time_limit import is_up, stopped

SMALL, LARGER, LARGEST = range(1, 10), (16, 33), 211
ENTRIES = 20_000  # of an argument
MOST = 10_000_000  # where each point has more than it may have: those with the fewest entries, up to this number
FARTHEST = 10_000  # a larger number with which a formula compares is no value of an argument


@dataclass
class Sample:
    """The function at one point: its arguments, its value and its gradients by backward().

    at: the sizes. upstream: the gradient of an array result. edges: the keys of conditions.VALUES that fail there.
    error: what the function said if it refuses the point; then there are no numbers. size: of numbers on the way, which
    may cancel, where there are large ones among the arguments.
    """

    at: dict[Size, int]
    inputs: dict[str, object]
    upstream: np.ndarray | None = None
    value: np.ndarray | None = None
    gradients: dict[str, np.ndarray] = field(default_factory=dict)
    edges: frozenset[str] = frozenset()
    error: str = ""
    size: float = 0.0

    @property
    def far(self) -> bool:
        """Are there values so large that a formula may overflow where the function does not?"""
        return any(np.abs(x).max(initial=0) > FAR for x in self.floats)

    @property
    def floats(self) -> list[np.ndarray]:
        """The arguments of floats."""
        tensors = (x for x in self.inputs.values() if isinstance(x, Tensor) and x.requires_grad)
        return [x.detach().numpy() for x in tensors]

    @property
    def finite(self) -> bool:
        """Has the function a value and gradients there?"""
        return self.value is not None and all(np.isfinite(x).all() for x in (self.value, *self.gradients.values()))


def mismatch(want: np.ndarray, by_hand: np.ndarray, size: float = 0.0) -> str:
    """The first entry in which a derivative and one by hand differ, in words; empty if none does."""
    if by_hand.shape != want.shape:
        return f": the derivative has the shape {want.shape}, by hand {by_hand.shape}"
    if (where := differing_entry(want, by_hand, size=size)) is None:
        return ""
    return f", entry {list(where)}: the derivative is {want[where]:.6g}, by hand {by_hand[where]:.6g}"


# ----------------------------------------------------------------------------------------------------- the points


def points(sizes: list[Size], thresholds: Sequence[int] = ()) -> Iterator[tuple[dict[Size, int], str]]:
    """Numbers for the sizes, each with a style of values; small sizes come first, thresholds last."""

    def cycled(*numbers: int) -> dict[Size, int]:
        return dict(zip(sizes, itertools.cycle(numbers), strict=False))

    if not sizes:
        yield from (({}, style) for style in 2 * OFTEN)
    elif len(sizes) == 1:
        yield from ((cycled(n), style) for n, style in itertools.product((*SMALL, *LARGER), OFTEN))
        yield cycled(LARGEST), OFTEN[0]
    else:
        pairs = sorted(itertools.product(SMALL, SMALL), key=lambda pair: (sum(pair), pair))
        for count, (n, m) in enumerate(pairs):  # with more sizes, each two of them still meet in nearly every pair
            row = cycled(n, m, *((n - 1 + k * (m - 1)) % 9 + 1 for k in range(1, len(sizes) - 1)))
            yield row, OFTEN[count % len(OFTEN)]
            if count < 18:
                yield row, OFTEN[(count + 2) % len(OFTEN)]
        yield from ((cycled(*row), OFTEN[0]) for row in (LARGER, LARGER[::-1]))
        yield from ((cycled(2, 3) | {size: LARGEST}, OFTEN[0]) for size in sizes)
    yield from ((cycled(8, 7), style) for style in STYLES if style not in OFTEN)
    yield from ((cycled(2, 3) | {size: n}, OFTEN[0]) for n, size in itertools.product(thresholds, sizes))


def _upward(rng: np.random.Generator, shape, n: int) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int)) % n).reshape(shape)


def _downward(rng: np.random.Generator, shape, n: int) -> np.ndarray:
    return n - 1 - _upward(rng, shape, n)


WHOLE: dict[str, Callable] = {  # whole numbers below n, beside floats of a style; any ones beside the other styles
    "between 0 and 1": lambda rng, shape, n: np.full(shape, n - 1),
    "ties": _upward,
    "positive": lambda rng, shape, n: np.zeros(shape, int),
    "zeros": _downward,
    "far": _downward,
}
AROUND = "on both sides of a number"  # with which a formula compares
FLOATS = STYLES | {
    AROUND: lambda rng, shape, numbers: numbers[0] + rng.choice((-1, 1), shape) * rng.uniform(0.75, 1.25, shape)
}
OFTEN = ("of both signs", "between 0 and 1", "ties", "positive", "zeros")  # styles that all sizes meet


def inputs_at(
    arguments: dict[str, object], assignment: dict[Size, int], style: str, seed: int, constants: Sequence[float] = ()
) -> dict[str, object]:
    """The arguments of a run; zeros are in the first argument of floats only.

    constants: numbers of the function's own calls, which the arguments then meet.
    """
    rng, floats = np.random.default_rng(seed), style
    inputs = {}
    for name, a in arguments.items():
        if not isinstance(a, Argument):
            inputs[name] = a
            continue
        shape = [int(n.xreplace(assignment)) for n in a.shape]
        if a.below is not None:
            n = int(a.below.xreplace(assignment))
            inputs[name] = tensor(WHOLE[style](rng, shape, n) if style in WHOLE else rng.integers(0, n, size=shape))
            continue
        values = FLOATS[floats](rng, shape, constants)
        if floats == OFTEN[0] and values.size <= 6:  # few numbers are shown in examples
            values = values.round(2)
        floats = OFTEN[0] if style == "zeros" else style
        values = of_fact(values, a.what, style).round(4)  # as a refutation prints them
        inputs[name] = tensor(values, dtype=float64, requires_grad=True)
    return inputs


# ------------------------------------------------------------------------------------------------------- the runs


COMPOSED = {f.__code__: f.__name__ for f in (atan2, power_of_length, sinc)}  # several operations that are read as one


def composed_call(frame: FrameType | None) -> tuple[str, list] | None:
    """The name and the arguments of the function of COMPOSED that makes a call, tensors as arrays; None outside."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        if frame.f_code in COMPOSED:
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            return COMPOSED[frame.f_code], [getattr(frame.f_locals[n], "_data", frame.f_locals[n]) for n in names]
        frame = frame.f_back
    return None


@dataclass
class Calls:
    """What the calls of a run show: the conditions on values that fail there, and the tensors, which stay alive."""

    tensors: list[Tensor]  # the arguments of the function, and the results of its calls
    edges: set[str] = field(default_factory=set)

    def size(self) -> float:
        """That of the largest number so far; 0 if none is finite."""
        numbers = (x._data[np.isfinite(x._data)].astype(float) for x in self.tensors)
        return max((float(np.abs(x).max(initial=0)) for x in numbers), default=0.0)


@contextmanager
def record_calls(inputs: dict[str, object]) -> Iterator[Calls]:
    """Note what the calls of a run show, of numbers that depend on the arguments."""
    calls = Calls([x for x in inputs.values() if isinstance(x, Tensor)])
    reached = {_address(x) for x in calls.tensors}

    def note(op, args, result):
        tensors = tensors_of(args)
        if any(_address(a) in reached for a in tensors):
            calls.tensors += tensors_of([result])
            reached.update(map(_address, tensors_of([result])))
            if tensors[0].dtype.kind == "f" and tensors[0].numel():
                call = op.name, [a._data if isinstance(a, Tensor) else a for a in args]
                calls.edges.update(edges_of(*(composed_call(sys._getframe(2)) or call), calls.size))
        return result

    with observe(on_op=note), np.errstate(all="ignore"):
        yield calls


def _address(x: Tensor) -> int:
    return x._data.__array_interface__["data"][0]


def sample(fn: Callable, arguments: dict[str, object], assignment: dict[Size, int], inputs: dict, seed: int) -> Sample:
    """A run of the function, and its gradients."""
    sampled = Sample(assignment, inputs)
    wanted = [n for n, a in arguments.items() if isinstance(a, Argument) and a.below is None]
    try:
        with record_calls(inputs) as calls, late_bound.pytorch_follows_us(), double_precision():
            result = fn(**inputs)
        sampled.edges, sampled.size = frozenset(calls.edges), calls.size() if sampled.far else 0.0
        if result.ndim:
            sampled.upstream = np.random.default_rng(seed + 1).uniform(0.5, 1.5, tuple(result.shape)).round(2)
        alone = sampled.upstream is None or not result._requires_grad
        upstream = None if alone else tensor(sampled.upstream, dtype=result.dtype)
        with observe(on_op=lambda op, args, result: result):  # then no call is planned, which pays where shapes repeat
            slopes = gradients(result, [inputs[n] for n in wanted], upstream)
        sampled.gradients = {n: x.detach().numpy() for n, x in zip(wanted, slopes, strict=True)}
        sampled.value = np.asarray(result.detach().numpy())
    except LinAlgError:  # these numbers, and not their sizes, have no inverse or factor
        sampled.edges |= {"regular"}
    except Exception as error:  # whatever the function raises: it does not take this point
        sampled.error = f"{type(error).__name__}: {error}".splitlines()[0]
    return sampled


def gradients(result: Tensor, inputs: list[Tensor], upstream: Tensor | None = None, **options) -> list[Tensor]:
    """The gradients by backward(); zeros where the result is constant, as at some sizes."""
    if not result._requires_grad:
        return [tensor(np.zeros(x.shape)) for x in inputs]
    return list(grad(result, inputs, upstream, materialize_grads=True, **options))


def samples(
    fn: Callable,
    arguments: dict[str, object],
    sizes: list[Size],
    constants: Sequence[float] = (),
    thresholds: Sequence[int] = (),
    compared: Sequence[float] = (),
) -> list[Sample]:
    """The function at all points; at the first few of them if the time is up."""
    result = []
    arrays = [a for a in arguments.values() if isinstance(a, Argument)]
    around = dict(zip(sizes, itertools.cycle((8, 7)), strict=False))
    everywhere = [(assignment, style, constants) for assignment, style in points(sizes, thresholds)]
    everywhere += [(around, AROUND, [number]) for number in compared]

    def entries(point: tuple) -> float:
        _, (assignment, *_) = point
        return max((float(Mul(*a.shape).xreplace(assignment)) for a in arrays), default=0.0)

    for seed, (assignment, style, numbers) in small_enough(list(enumerate(everywhere)), entries, ENTRIES):
        if is_up():
            break
        inputs = inputs_at(arguments, assignment, style, seed, numbers)
        result.append(sample(fn, arguments, assignment, inputs, seed))
    return result


def small_enough(points: list, entries: Callable[..., float], most: float) -> list:
    """The points with at most so many entries; if each has more, those with the fewest."""
    numbers = [*map(entries, points)]
    most = min(max(most, min(numbers, default=0)), MOST)
    return [point for point, number in zip(points, numbers, strict=True) if number <= most]


def compared_numbers(lines: Sequence[Definition]) -> list[float]:
    """The first few numbers with which lines compare: 7 in [x > 7] and in max(x, 7), 3.5 in a = 2 x - 7 and [a > 0]."""
    numbers, rights = [], {line.name: line.right for line in lines}
    for difference in [term for line in lines for key, term in requirements(line.right) if key == "tie"]:
        names = {entry: rights.get(name_of(entry), entry) for entry in difference.atoms(Indexed, Symbol)}
        number, entries = difference.xreplace(names).expand(deep=False).as_coeff_Add()
        bound = -number / entries.as_coeff_Mul()[0] if entries else S.Zero
        numbers += [float(bound)] if 1 < abs(bound) <= FARTHEST else []
    return sorted(set(numbers))[:4]


def refused_sizes(samples: list[Sample], sizes: list[Size]) -> str:
    """The sizes that the function refuses, in words; empty if it takes all. Beyond LARGER there are few samples."""
    samples = [s for s in samples if max(s.at.values(), default=0) <= max(LARGER)]
    alone = [{size: n} for size in sizes for n in sorted({s.at[size] for s in samples})]
    refused: list[dict[Size, int]] = []
    for part in (*alone, *(s.at for s in samples)):
        known = any(smaller.items() <= part.items() for smaller in refused)
        if not known and all(s.error for s in samples if part.items() <= s.at.items()):
            refused.append(part)
    parts = [" and ".join(f"{size} = {n}" for size, n in assignment.items()) for assignment in refused]
    return ", ".join(parts[:5]) + (f" and {len(parts) - 5} more" if len(parts) > 5 else "")


# ------------------------------------------------------------------------------------------------- the comparison


THIN = {"equality", "step", "tie"}  # keys of conditions that fail at single values alone, where the code allows it


@dataclass
class Comparison:
    """What a comparison in numbers says.

    example: the first point at which there is a difference, in words; empty if there is none but where a condition on
    values fails. needed: those conditions, and "equality" for equal numbers in x == y. equal: a point at which they
    differ, and only an x == y is a tie. agreed: the sizes of the points at which there is none, with the conditions
    that fail there. stopped: where the comparison was ended, in words. samples: all points, also those left out.
    """

    example: str = ""
    needed: set[str] = field(default_factory=set)
    equal: str = ""
    agreed: list[tuple[dict, Iterable[str]]] = field(default_factory=lambda: [({}, ())])
    stopped: str = ""
    samples: list[Sample] = field(default_factory=list)

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
    result.stopped = stopped() if is_up() else ""
    return result


def excuses(edges: Iterable[str], floats: Iterable[np.ndarray]) -> set[str]:
    """The conditions that fail at these values, and need not hold at those nearby: they excuse a difference.

    Where the floats are of no special form, numbers that are compared and equal are so at all values nearby: relu(x) is
    0 at all negative x, and that its sign compares it with 0 is no reason to leave all of them out.
    """
    return {*edges} - THIN if all((x != x.round(2)).all() for x in floats) else {*edges}

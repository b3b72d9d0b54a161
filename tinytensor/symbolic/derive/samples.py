"""Numbers that try to refute a derivation: the function itself and backward(), at small sizes and edge values.

The formulas of a derivation are compared here with the function in float64: at every size from 1 to 9 and a few larger
ones (every pair for two sizes), at values of both signs, at zeros and ties, and at whole numbers that meet every class,
the first and the last.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType

import numpy as np
from sympy import Mul

from tinytensor.autograd import grad
from tinytensor.core import late_bound
from tinytensor.core.dtypes import float64
from tinytensor.core.observers import observe
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import tensor
from tinytensor.ops.matrices import LinAlgError
from tinytensor.ops.pointwise import atan2
from tinytensor.ops.reduce import power_of_length
from tinytensor.symbolic.derive.arguments import Argument
from tinytensor.symbolic.derive.domains import edges_of
from tinytensor.symbolic.derive.facts import of_fact
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.time_limit import is_up
from tinytensor.symbolic.derive.values import tensors_of
from tinytensor.symbolic.index_calculus.formulas import Size
from tinytensor.symbolic.prove.advice import is_own

SMALL, LARGER, LARGEST = range(1, 10), (16, 33), 211
CLOSE = 1e-7  # of numbers in float64, relative to the largest entry
ENTRIES = 20_000  # of an argument


@dataclass
class Sample:
    """The function at one point: its arguments, its value and its gradients by backward().

    at: the sizes. upstream: the gradient of an array result. edges: the keys of conditions.VALUES that fail there.
    error: what the function said if it refuses the point; then there are no numbers.
    """

    at: dict[Size, int]
    inputs: dict[str, object]
    upstream: np.ndarray | None = None
    value: np.ndarray | None = None
    gradients: dict[str, np.ndarray] = field(default_factory=dict)
    edges: frozenset[str] = frozenset()
    error: str = ""

    @property
    def far(self) -> bool:
        """Are there values so large that a formula may overflow where the function does not?"""
        floats = [x for x in self.inputs.values() if isinstance(x, Tensor) and x.requires_grad]
        return any(np.abs(x.detach().numpy()).max(initial=0) > FAR_FROM for x in floats)

    @property
    def finite(self) -> bool:
        """Has the function a value and gradients there?"""
        return self.value is not None and all(np.isfinite(x).all() for x in (self.value, *self.gradients.values()))


def allclose(one: np.ndarray, other: np.ndarray) -> bool:
    """Are the two equal up to rounding, in the dtype of the other? NaN equals nothing."""
    if one.shape != other.shape:
        return False
    close = CLOSE if other.dtype != np.float32 else 100 * np.finfo(np.float32).eps
    with np.errstate(all="ignore"):
        return bool(np.allclose(one, other, rtol=close, atol=close * (1 + np.abs(other).max(initial=0))))


def mismatch(want: np.ndarray, own: np.ndarray) -> str:
    """The first entry in which a derivative and one by hand differ, in words; empty if none does."""
    if own.shape != want.shape:
        return f": the derivative has the shape {want.shape}, by hand {own.shape}"
    if allclose(own, want):
        return ""
    with np.errstate(all="ignore"):
        off = ~(np.abs(want - own) <= 1e-8 * (1 + np.abs(want)))
    where = tuple(int(n) for n in np.argwhere(off)[0])
    return f", entry {list(where)}: the derivative is {want[where]:.6g}, by hand {own[where]:.6g}"


# ----------------------------------------------------------------------------------------------------- the points


def points(sizes: list[Size], thresholds: Sequence[int] = ()) -> Iterator[tuple[dict[Size, int], int]]:
    """Numbers for the sizes, each with the number of a style of values; small sizes come first, thresholds last."""
    if not sizes:
        yield from (({}, style % REPEATED) for style in range(2 * REPEATED))
    elif len(sizes) == 1:
        for n, style in itertools.product((*SMALL, *LARGER), range(REPEATED)):
            yield {sizes[0]: n}, style
        yield {sizes[0]: LARGEST}, 0
    else:
        pairs = sorted(itertools.product(SMALL, SMALL), key=lambda pair: (sum(pair), pair))
        for count, (n, m) in enumerate(pairs):  # with more sizes, each two of them still meet in nearly every pair
            row = [n, m, *((n - 1 + k * (m - 1)) % 9 + 1 for k in range(1, len(sizes) - 1))]
            yield dict(zip(sizes, row, strict=True)), count % REPEATED
            if count < 18:
                yield dict(zip(sizes, row, strict=True)), (count + 2) % REPEATED
        for row in (LARGER, LARGER[::-1]):
            yield dict(zip(sizes, itertools.cycle(row), strict=False)), 0
        for size in sizes:
            yield dict(zip(sizes, itertools.cycle((2, 3)), strict=False)) | {size: LARGEST}, 0
    for style in (NEGATIVE, FAR):
        yield dict(zip(sizes, itertools.cycle((8, 7)), strict=False)), style
    for n, size in itertools.product(thresholds, sizes):
        yield dict(zip(sizes, itertools.cycle((2, 3)), strict=False)) | {size: n}, 0


def _mixed(rng: np.random.Generator, shape) -> np.ndarray:
    values = rng.normal(size=shape)
    return values.round(2) if values.size <= 6 else values  # few numbers are shown in examples


TIES = (-2.0, -1.0, 0.0, 1.0, 2.0)


def _ties(rng: np.random.Generator, shape, constants: Sequence[float] = ()) -> np.ndarray:
    return rng.choice([*TIES, *constants], size=shape)


def _downward(rng: np.random.Generator, shape, n: int) -> np.ndarray:
    return n - 1 - _upward(rng, shape, n)


def _upward(rng: np.random.Generator, shape, n: int) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int)) % n).reshape(shape)


STYLES: tuple[tuple[Callable, Callable], ...] = (  # floats; whole numbers below n
    (_mixed, lambda rng, shape, n: rng.integers(0, n, size=shape)),
    (lambda rng, shape: rng.uniform(0.1, 0.9, shape), lambda rng, shape, n: np.full(shape, n - 1)),
    (_ties, _upward),
    (lambda rng, shape: rng.uniform(0.5, 1.5, shape), lambda rng, shape, n: np.zeros(shape, int)),
    (lambda rng, shape: np.zeros(shape), _downward),
    (lambda rng, shape: rng.uniform(-1.5, -0.5, shape), lambda rng, shape, n: rng.integers(0, n, size=shape)),
    (lambda rng, shape: rng.uniform(-40, 40, shape), _downward),
)
REPEATED = 5  # styles that all sizes meet
FAR_FROM = 10
NEGATIVE, FAR = 5, 6  # the styles of negative and of large numbers, which come once


def inputs_at(
    arguments: dict[str, object], at: dict[Size, int], style: int, seed: int, constants: Sequence[float] = ()
) -> dict[str, object]:
    """The arguments of a run; the zeros of the last style are in the first argument of floats only.

    constants: numbers of the function's own calls, which the arguments then meet.
    """
    rng = np.random.default_rng(seed)
    floats, whole = STYLES[style]
    floats = partial(floats, constants=constants) if floats is _ties else floats
    inputs, first = {}, True
    for name, a in arguments.items():
        if not isinstance(a, Argument):
            inputs[name] = a
            continue
        shape = [int(n.xreplace(at)) for n in a.shape]
        if a.below is not None:
            inputs[name] = tensor(whole(rng, shape, int(a.below.xreplace(at))))
            continue
        values = floats(rng, shape) if first else STYLES[0][0](rng, shape) if style == 4 else floats(rng, shape)
        first = False
        values = of_fact(values, a.what, style).round(4)  # as a refutation prints them
        inputs[name] = tensor(values, dtype=float64, requires_grad=True)
    return inputs


# ------------------------------------------------------------------------------------------------------- the runs


COMPOSED = {f.__code__: f.__name__ for f in (atan2, power_of_length)}  # several operations that are read as one


def composed_call(frame: FrameType | None) -> tuple[str, list] | None:
    """The name and the arguments of the function of COMPOSED that makes a call, tensors as arrays; None outside."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        if frame.f_code in COMPOSED:
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            return COMPOSED[frame.f_code], [getattr(frame.f_locals[n], "_data", frame.f_locals[n]) for n in names]
        frame = frame.f_back
    return None


@contextmanager
def record_edges(inputs: dict[str, object]) -> Iterator[set[str]]:
    """Note which conditions on values fail in the calls of a run, for numbers that depend on the arguments."""
    edges: set[str] = set()
    kept: list = []
    reached = {_address(x) for x in inputs.values() if isinstance(x, Tensor)}

    def note(op, args, result):
        tensors = tensors_of(args)
        if any(_address(a) in reached for a in tensors):
            results = result if isinstance(result, tuple | list) else (result,)
            reached.update(_address(r) for r in results if isinstance(r, Tensor))
            kept.append((tensors, result))
            if tensors[0].dtype.kind == "f" and tensors[0].numel():
                own = op.name, [a._data if isinstance(a, Tensor) else a for a in args]
                edges.update(edges_of(*(composed_call(sys._getframe(2)) or own)))
        return result

    with observe(on_op=note), np.errstate(all="ignore"):
        yield edges


THIN = {"equality", "step", "tie"}  # keys of conditions that fail at single values alone, where the code allows it


def excuses(edges: Iterable[str], inputs: dict[str, object]) -> set[str]:
    """The conditions that fail at these values, and need not hold at those nearby: they excuse a difference.

    Where the floats are of no special form, numbers that are compared and equal are so at all values nearby: relu(x) is
    0 at all negative x, and that its sign compares it with 0 is no reason to leave all of them out.
    """
    floats = [x.detach().numpy() for x in inputs.values() if isinstance(x, Tensor) and x.requires_grad]
    return {*edges} - THIN if all((x != x.round(2)).all() for x in floats) else {*edges}


def _address(x: Tensor) -> int:
    return x._data.__array_interface__["data"][0]


def sample(
    fn: Callable,
    arguments: dict[str, object],
    at: dict[Size, int],
    style: int,
    seed: int,
    constants: Sequence[float] = (),
) -> Sample:
    """A run of the function, and its gradients."""
    inputs = inputs_at(arguments, at, style, seed, constants)
    sampled = Sample(at, inputs)
    wanted = [n for n, a in arguments.items() if isinstance(a, Argument) and a.below is None]
    try:
        with record_edges(inputs) as edges, late_bound.pytorch_follows_us(), double_precision():
            result = fn(**inputs)
        sampled.edges = frozenset(edges)
        if result.ndim:
            sampled.upstream = np.random.default_rng(seed + 1).uniform(0.5, 1.5, tuple(result.shape)).round(2)
        if result._requires_grad:
            upstream = None if sampled.upstream is None else tensor(sampled.upstream, dtype=result.dtype)
            with observe(
                on_op=lambda op, args, result: result
            ):  # then no call is planned: a plan pays where shapes repeat
                slopes = grad(result, [inputs[n] for n in wanted], upstream, materialize_grads=True)
            sampled.gradients = {n: x.detach().numpy() for n, x in zip(wanted, slopes, strict=True)}
        else:  # constant at these sizes
            sampled.gradients = {n: np.zeros(inputs[n].shape) for n in wanted}
        sampled.value = np.asarray(result.detach().numpy())
    except LinAlgError:  # these numbers, and not their sizes, have no inverse or factor
        sampled.edges |= {"regular"}
    except Exception as error:  # whatever the function raises: it does not take this point
        sampled.error = f"{type(error).__name__}: {error}".splitlines()[0]
    return sampled


def samples(
    fn: Callable,
    arguments: dict[str, object],
    sizes: list[Size],
    constants: Sequence[float] = (),
    thresholds: Sequence[int] = (),
) -> list[Sample]:
    """The function at all points; at the first few of them if the time is up."""
    result = []
    for seed, (at, style) in enumerate(points(sizes, thresholds)):
        if is_up():
            break
        arrays = [a for a in arguments.values() if isinstance(a, Argument)]
        if all(Mul(*a.shape).xreplace(at) <= ENTRIES for a in arrays):
            result.append(sample(fn, arguments, at, style, seed, constants))
    return result


def refused_sizes(samples: list[Sample], sizes: list[Size]) -> str:
    """The sizes that the function refuses, in words; empty if it takes all."""
    parts = []
    for size in sizes:
        numbers = sorted({s.at[size] for s in samples})
        none = [n for n in numbers if all(s.error for s in samples if s.at[size] == n)]
        if max(LARGER) not in none:  # at the largest number there is one sample, whose other sizes are small
            none = [n for n in none if n <= max(LARGER)]
        parts += [f"{size} = {n}" for n in none]
    near = [s for s in samples if max(s.at.values(), default=0) <= max(LARGER)]
    rest = [s for s in near if s.error and not any(f"{size} = {n}" in parts for size, n in s.at.items())]
    rest = [s for s in rest if all(o.error for o in samples if o.at == s.at)]
    parts += [" and ".join(f"{size} = {n}" for size, n in s.at.items()) for s in rest]
    parts = list(dict.fromkeys(parts))
    return ", ".join(parts[:5]) + (f" and {len(parts) - 5} more" if len(parts) > 5 else "")

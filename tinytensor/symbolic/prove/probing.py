r"""Numbers that try to refute a proof: the same function on float64, at the sample point and at points off its path.

A proof is about the code that ran on exact numbers. Code that asks for the dtype, or for its callers, may compute
something else on floats: results and gradients at the sample point must be those of the proof, up to rounding. The
function is called in a thread of its own, where no function of this package is among its callers.

A proof holds where comparisons come out as at its sample point. A rule can be right there and wrong elsewhere: at 0,
where two numbers are equal, for other signs, beyond a bound that the code compares with. So the function also runs at
such points, and the gradient on the tape is compared with difference quotients along a random direction v:

    \langle \partial y, v \rangle = \frac{y(x + h v) - y(x - h v)}{2 h}.

A point at which the function may have no derivative (ReLU at 0) refutes nothing: the quotients of both sides, of two
step sizes, and of a sum of two directions must agree first.

At the sample point itself the gradient must also be the same in a later call, if only one input requires grad, if one
tensor is passed twice, with create_graph, for an input that is not contiguous, and in float32 up to its rounding.
"""

import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.exact.scalars import Exact
from tinytensor.symbolic.exact.tensors import witnesses
from tinytensor.symbolic.prove.advice import results_of
from tinytensor.symbolic.prove.passes import swap_data

NOT_COMPARED = "not compared with a run on floats"
ROUNDING = 1e-6  # of the largest entry (or of 1): how far float64 may be from exact numbers
STEP = 1e-5  # of a difference quotient
SAME = 1e-4  # relative: a slope and a quotient nearer than this are equal
SAME_IN_FLOAT32 = 1e-2  # of the largest entry: beyond this, float32 and float64 compute two things
SUSPECTS = 6  # points with quotients that differ, after which no more are tried
EDGES = 3  # so many of the numbers that the code compares with are tried
PAIRS = 3  # so many pairs of inputs are tried as one tensor that is given twice
ALONE = 6  # so many inputs are tried as the only one that requires grad

Point = dict[str, np.ndarray]  # by input


class Run(NamedTuple):
    """One forward and one backward pass: the results, the gradients that arrive at them, and those of the inputs."""

    results: list[np.ndarray]
    seeds: list[np.ndarray]
    gradients: Point

    @property
    def total(self) -> float:
        """The sum of the results, each times its seed."""
        return sum(float(np.sum(y * g)) for y, g in zip(self.results, self.seeds, strict=True))


@dataclass
class ProbeResult:
    """The outcome: what speaks against the proof, in a sentence each."""

    differs: str = ""  # a result or a gradient at the sample point is another number than on exact numbers
    not_run: str = ""  # the function does not run on floats
    refuted: str = ""  # the gradients differ in another circumstance, at the sample point
    unclear: str = ""  # float32 computes something else, or a later call does
    against: list[tuple[str, Point]] = field(default_factory=list)  # quotients that differ, and where
    points: int = 0  # at which a gradient was compared with quotients


class Probe:
    """One function with its inputs as floats; `exact_tensors` are those that it reads."""

    def __init__(
        self, fn: Callable, args: list, leaves: dict[str, Tensor], exact_tensors: Iterable[Tensor], kept: Callable
    ):
        self.fn, self.leaves = fn, leaves
        self.args = [a.witness if isinstance(a, Exact) else a for a in args]
        self.kept = kept  # the context of a call, which restores what the call changes: buffers, random numbers
        self.exact_tensors = list({id(x): x for x in exact_tensors}.values())
        self.symmetric: set[str] = set()  # inputs that are symmetric matrices at the sample point, and stay so
        self.random = np.random.default_rng(0)

    def run(
        self, exact: Run, edges: Iterable[float] | None, within: Callable[[Point], Point], differentiable: bool
    ) -> ProbeResult:
        """Compare with the run on exact numbers; then try other circumstances and points, unless edges is None.

        Quotients are left out if values are held constant, since quotients would have their slopes.
        """
        result, before = ProbeResult(), {name: (x.grad, x._requires_grad) for name, x in self.leaves.items()}
        with ThreadPoolExecutor(1) as self.thread, warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            try:
                self._try(result, exact, edges, within, differentiable)
            finally:
                for name, (grad, requires_grad) in before.items():
                    self.leaves[name].grad, self.leaves[name]._requires_grad = grad, requires_grad
        return result

    def _try(self, result: ProbeResult, exact: Run, edges, within: Callable, differentiable: bool) -> None:
        with np.errstate(all="ignore"):
            sample = {name: witnesses(leaf._data) for name, leaf in self.leaves.items()}
            self.symmetric = {name for name, x in sample.items() if _is_symmetric(x)}
            with swap_data(self.exact_tensors, witnesses):
                self._compare_with_exact(result, sample, exact)
                if result.differs or result.not_run or edges is None:
                    return
                usual = _or_none(lambda: self.gradients(sample))
                if usual is None:
                    return
                self._compare_later(result, sample, usual)
                if not result.unclear:
                    self._compare_variants(result, sample, usual)
                elsewhere = [(self.kept_symmetric(within(p)), size) for p, size in points(sample, sorted(edges))]
                for point, factor in [(sample, 1.0), *elsewhere]:
                    if differentiable and len(result.against) < SUSPECTS and not result.refuted:
                        self._compare_at(result, point, factor)
                self._compare_later(result, sample, usual)
            with swap_data(self.exact_tensors, lambda array: witnesses(array).astype(np.float32)):
                narrow = _or_none(lambda: self.gradients(sample))
            words = " in float32", " in float64"
            result.unclear = result.unclear or _gradients_differ(usual, narrow, self.leaves, SAME_IN_FLOAT32, *words)

    # ------------------------------------------------------------------------------------------------------- runs

    def at(self, point: Point) -> None:
        """Give the inputs these values."""
        for name, values in point.items():
            leaf = self.leaves[name]
            leaf._data = values.astype(leaf._data.dtype) if values.flags.c_contiguous else values
            leaf.grad = None

    def alone(self, call: Callable, *args, **options):
        """A call in the thread of its own."""
        return self.thread.submit(call, *args, **options).result()

    def results(self) -> list[Tensor]:
        return results_of(partial(self.alone, self.fn), self.args)

    def value(self, point: Point, seeds: list[np.ndarray]) -> float:
        """The sum of the results, each times its seed."""
        self.at(point)
        with self.kept():
            return Run([y._data for y in self.results()], seeds, {}).total

    def gradients(self, point: Point, create_graph: bool = False) -> Point:
        """The gradients on the tape, of the results times 1, 2 ..."""
        return self.tape(point, in_order, create_graph).gradients

    def tape(self, point: Point, seed: Callable, create_graph: bool = False) -> Run:
        """The results and the gradients on the tape."""
        self.at(point)
        with self.kept():
            ys = self.results()
            run = Run([np.array(y.detach().numpy()) for y in ys], [np.asarray(seed(y)) for y in ys], {})
            for y, g in zip(ys, run.seeds, strict=True):
                g = Tensor.of(g.astype(y._data.dtype))
                self.alone(y.backward, g, retain_graph=True, create_graph=create_graph)
        for name, x in self.leaves.items():
            known = np.zeros(x.shape) if x.grad is None else x.grad.detach().numpy()
            run.gradients[name] = np.array(known, np.float64)
        return run

    # ------------------------------------------------------------------------------------------- at the sample point

    def _compare_with_exact(self, result: ProbeResult, sample: Point, exact: Run) -> None:
        """Compare results and gradients with those of a run on exact numbers."""
        seeds = iter(exact.seeds)
        try:
            run = self.tape(sample, lambda y: next(seeds))
            pairs = [(f"result {n}", *both) for n, both in enumerate(zip(exact.results, run.results, strict=True))]
            pairs += [(f"the gradient of {name}", g, run.gradients[name]) for name, g in exact.gradients.items()]
            differences = [_difference(*pair, ROUNDING, " on floats", " on exact numbers") for pair in pairs]
            result.differs = next(filter(None, differences), "")
        except Exception as error:
            result.not_run = f"{NOT_COMPARED}, which raised {type(error).__name__}"

    def _compare_later(self, result: ProbeResult, sample: Point, usual: Point) -> None:
        """Compare the gradients with those of a later call."""
        later = _or_none(lambda: self.gradients(sample))
        words = " in a later call", " in the first"
        result.unclear = result.unclear or _gradients_differ(usual, later, self.leaves, SAME, *words)

    def _compare_variants(self, result: ProbeResult, sample: Point, usual: Point) -> None:
        """Compare the gradients with those of the same call in other circumstances."""

        def only(name: str) -> Point:
            for each, leaf in self.leaves.items():
                leaf._requires_grad = each == name
            try:
                return self.gradients(sample)
            finally:
                for leaf in self.leaves.values():
                    leaf._requires_grad = True

        tries = {"with create_graph=True": (lambda: self.gradients(sample, create_graph=True), list(self.leaves))}
        tries["if the inputs are not contiguous"] = lambda: self.gradients(_stretched(sample)), list(self.leaves)
        if len(self.leaves) > 1:
            for name in list(self.leaves)[:ALONE]:
                tries[f"if {name} alone requires grad"] = (lambda name=name: only(name)), [name]
        for when, (gradients, names) in tries.items():
            sentence = _gradients_differ(usual, _or_none(gradients), names, SAME, f" {when}", " otherwise")
            result.refuted = result.refuted or sentence
        self._compare_same_tensor(result, sample)

    def _compare_same_tensor(self, result: ProbeResult, sample: Point) -> None:
        """Compare the gradient of one tensor that is given twice with the sum of those of two equal ones.

        If the results differ already, as those of a call of `grad` for both of them do, these are two functions.
        """
        names, args = {id(leaf): name for name, leaf in self.leaves.items()}, self.args
        inputs = [(i, names[id(a)]) for i, a in enumerate(args) if id(a) in names]
        pairs = [(a, b) for a, b in combinations(inputs, 2) if sample[a[1]].shape == sample[b[1]].shape]
        for (i, first), (k, second) in pairs[:PAIRS]:
            point = {**sample, second: sample[first]}
            apart = _or_none(lambda point=point: self.tape(point, in_order))
            self.args = [args[i] if n == k else a for n, a in enumerate(args)]
            twice = _or_none(lambda point=point: self.tape(point, in_order))
            self.args = args
            if apart is None or twice is None or not math.isclose(apart.total, twice.total, rel_tol=SAME, abs_tol=SAME):
                continue
            of_each, of_both = apart.gradients[first] + apart.gradients[second], twice.gradients[first]
            when = f" if {second} is the same tensor", f" for two equal ones ({first} and {second}, added)"
            sentence = _difference(f"the gradient of {first}", of_each, of_both, SAME, *when)
            result.refuted = result.refuted or sentence

    # --------------------------------------------------------------------------------------------------- elsewhere

    def _compare_at(self, result: ProbeResult, point: Point, factor: float) -> None:
        """Compare the gradient with difference quotients at a point; the seeds have this size."""
        run = _or_none(lambda: self.tape(point, lambda y: factor * self.random.normal(size=y.shape)))
        if run is None or not all(np.isfinite(g).all() for g in run.gradients.values()):
            return
        tape, seeds, here = run.gradients, run.seeds, run.total
        v = self.direction(point)
        along = sum(float(np.sum(tape[name] * v[name])) for name in v)
        size = sum(float(np.sum(np.abs(tape[name] * v[name]))) for name in v)

        def differs(quotient: float) -> bool:
            return not abs(along - quotient) <= SAME * max(size, abs(quotient)) + 1e-7 * (1 + abs(here))

        quick = _or_none(lambda: self.quotient(point, seeds, v, STEP)[0])
        if quick is None or not np.isfinite(quick):
            return
        result.points += 1
        slope = _or_none(lambda: self.slope(point, seeds, here, v)) if differs(quick) else None
        if slope is None or not differs(slope.quotient):
            return
        gap = abs(along - slope.quotient)
        if slope.is_unsure(0.1 * gap):
            return
        if not _or_none(lambda: self.is_linear(point, seeds, here, v, slope.quotient, 0.1 * gap)):
            return
        entry = _or_none(lambda: self.entry(point, seeds, here, tape))
        whole = (
            f"along a random direction the gradients give {along:.6g} on the tape, but difference quotients of the "
            f"forward give {slope.quotient:.6g}"
        )
        result.against.append((entry or whole, point))

    def direction(self, point: Point) -> Point:
        return self.kept_symmetric({name: self.random.normal(size=values.shape) for name, values in point.items()})

    def kept_symmetric(self, point: Point) -> Point:
        return {n: (x + np.swapaxes(x, -1, -2)) / 2 if n in self.symmetric else x for n, x in point.items()}

    def slope(self, point: Point, seeds: list[np.ndarray], here: float, v: Point) -> "Slope | None":
        """The difference quotient along v, of two step sizes; None if a value is not finite."""
        (long, _), (quotient, middle) = (self.quotient(point, seeds, v, h) for h in (STEP, STEP / 4))
        unsure = max(2 * abs(middle - here) / (STEP / 4), abs(long - quotient))
        return Slope(quotient, unsure, abs(here)) if np.isfinite([quotient, unsure]).all() else None

    def quotient(self, point: Point, seeds: list[np.ndarray], v: Point, h: float) -> tuple[float, float]:
        """The difference quotient along v with this step, and the mean of its two values."""
        after, before = (
            self.value({name: values + step * v[name] for name, values in point.items()}, seeds) for step in (h, -h)
        )
        return (after - before) / (2 * h), (after + before) / 2

    def is_linear(self, point: Point, seeds: list, here: float, v: Point, along: float, error: float) -> bool:
        """Are the slopes of sums of directions the sums of their slopes? (That of a median at equal numbers is not.)"""
        for _ in range(3):
            w = self.direction(point)
            alone = self.slope(point, seeds, here, w)
            both = self.slope(point, seeds, here, {name: v[name] + w[name] for name in v})
            if alone is None or both is None or alone.is_unsure(error) or both.is_unsure(error):
                return False
            if abs(both.quotient - along - alone.quotient) > error:
                return False
        return True

    def entry(self, point: Point, seeds: list, here: float, tape: Point) -> str | None:
        """A sentence on the entry with the largest error, among the first thousand."""
        worst, sentence = 0.0, None
        for name, values in point.items() if not self.symmetric else ():
            for at in list(np.ndindex(values.shape))[:1000]:
                v = {each: np.zeros(x.shape) for each, x in point.items()}
                v[name][at] = 1.0
                slope = self.slope(point, seeds, here, v)
                error = 0.0 if slope is None else abs(slope.quotient - tape[name][at]) - slope.unsure
                if error > worst:
                    worst = error
                    sentence = (
                        f"the gradient of {name} at {list(at)} is {tape[name][at]:.6g} on the tape, but difference "
                        f"quotients of the forward give {slope.quotient:.6g}"
                    )
        return sentence


@dataclass
class Slope:
    """A difference quotient: how unsure it is, and the size of the function."""

    quotient: float
    unsure: float
    size: float

    def is_unsure(self, error: float) -> bool:
        """Is it less certain than this, or than one part in a hundred? (A step across a kink is.)"""
        return self.unsure > min(error, 0.01 * (abs(self.quotient) + self.size + 1))


def in_order(y: Tensor) -> np.ndarray:
    """The factors 1, 2, ... for the entries of a result."""
    return 1.0 + np.arange(y.numel()).reshape(y.shape)


def points(sample: Point, edges: list[float]) -> Iterator[tuple[Point, float]]:
    """Points off the path of the sample, each with the size of the gradient that arrives."""
    random = np.random.default_rng(1)

    def each(change: Callable[[np.ndarray], np.ndarray]) -> Point:
        return {name: np.asarray(change(values), float) for name, values in sample.items()}

    def where(mask: Point, value: float) -> Point:
        return {name: np.where(mask[name], value, values) for name, values in sample.items()}

    mask = each(lambda x: random.random(x.shape) < 0.5)
    mask = {name: m.astype(bool) for name, m in mask.items()}
    unmasked = {name: ~m for name, m in mask.items()}
    yield each(lambda x: np.flip(x) * -2.5), -30.0
    yield each(lambda x: random.normal(size=x.shape)), 1e-3
    yield where(mask, 0.0), 1.0
    yield where(unmasked, 0.0), -1.0
    yield each(np.zeros_like), 1.0
    yield each(lambda x: np.full(x.shape, 0.75)), 1.0  # all numbers are equal, of all inputs
    yield each(lambda x: np.rint(1.5 * random.normal(size=x.shape))), 1.0
    for edge in edges[:EDGES]:
        for value in (edge + 1, -edge - 1, edge, -edge):
            yield where(mask, value), 1.0
            yield where(unmasked, value), edge + 1
        yield sample, 2 * edge + 1


def _is_symmetric(x: np.ndarray) -> bool:
    """Is this a matrix of more than one entry that a function of symmetric matrices may take?"""
    return x.ndim >= 2 and x.shape[-1] == x.shape[-2] > 1 and np.array_equal(x, np.swapaxes(x, -1, -2))


def _stretched(point: Point) -> Point:
    """The same values in arrays whose last dimension is not contiguous."""
    return {name: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x for name, x in point.items()}


def _or_none(run: Callable):
    """The result; None if the function raises here."""
    try:
        return run()
    except Exception:
        return None


def _difference(what: str, usual: np.ndarray, tried: np.ndarray, same: float, when: str, usually: str) -> str:
    """A sentence about the first entry that differs."""
    known = np.isfinite(usual)
    limit = same * max(1.0, np.abs(usual[known]).max(initial=0.0))
    for at in np.argwhere(known & ~(np.abs(usual - tried) <= limit)).tolist():  # also where the float is NaN
        return f"{what} at {at} is {tried[tuple(at)]:.6g}{when}, and {usual[tuple(at)]:.6g}{usually}"
    return ""


def _gradients_differ(usual: Point, tried: Point | None, names: Iterable[str], same: float, *words: str) -> str:
    """A sentence about the first gradient that differs; empty if there is none, or nothing was tried."""
    if tried is None:
        return ""
    sentences = (_difference(f"the gradient of {name}", usual[name], tried[name], same, *words) for name in names)
    return next(filter(None, sentences), "")

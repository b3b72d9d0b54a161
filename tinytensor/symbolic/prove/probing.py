r"""Numbers that try to refute a proof: the same function on float64, at the sample point and at points off its path.

A proof is about the code that ran on exact numbers. Code that asks for the dtype, or for its callers, may compute
something else on floats: results and gradients at the sample point must be those of the proof, up to rounding. The
function is called in a thread of its own, where no function of this package is among its callers.

A proof holds where comparisons come out as at its sample point. A rule can be right there and wrong elsewhere: at 0,
where two numbers are equal, for other signs, beyond a bound that the code compares with. So the function also runs at
such points, and the gradient on the tape is compared with difference quotients along a random direction v:

    \langle \partial y, v \rangle = \frac{y(x + h v) - y(x - h v)}{2 h}.

A point at which the function may have no derivative (ReLU at 0) refutes nothing: the quotients of both sides, of two
step sizes, and of a sum of two directions must agree first (../numbers.py).

At the sample point itself the gradient must also be the same in a later call, if only one input requires grad, if one
tensor is passed twice, with create_graph, for an input that is not contiguous, and in float32 up to its rounding.
"""

import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tinytensor.core.kernel import OBJECT
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.exact.scalars import Exact
from tinytensor.symbolic.exact.tensors import witnesses
from tinytensor.symbolic.numbers import ROUNDING, STYLES, WITHIN, Line, agrees, differing_entry, slope_along
from tinytensor.symbolic.prove.advice import results_of
from tinytensor.symbolic.prove.passes import Subject, restored, swap_data

NOT_COMPARED = "not compared with a run on floats"
OVERWRITES = "backward() changes the gradient that it gets, which other values may share"
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


def distinct(y: Tensor | np.ndarray) -> np.ndarray:
    """Factors for the entries of a result: from 1 on, below 4, and no two equal."""
    n = math.prod(y.shape)
    return 1.0 + 3.0 * np.arange(n).reshape(y.shape) / max(n, 1)


distinct_of_each = partial(map, distinct)


@dataclass
class Outcome:
    """What speaks against a proof: at the sample point the first sentence, which may refute it; sentences elsewhere."""

    sentence: str = ""
    refuted: bool = False
    not_run: str = ""  # why the function was not compared with a run on floats
    elsewhere: list[tuple[str, Point]] = field(default_factory=list)  # quotients that differ, and where

    def note(self, sentence: str, refuted: bool = False) -> None:
        if sentence and not self.sentence:
            self.sentence, self.refuted = sentence, refuted


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, nothing is printed, and nothing is warned of."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def in_floats(args: Iterable) -> list:
    """The arguments, those that are exact scalars as floats."""
    return [a.witness if isinstance(a, Exact) else a for a in args]


class Probe:
    """One function with its inputs as floats, inside of `on_floats`; `sample` is the sample point."""

    def __init__(self, subject: Subject):
        self.fn, self.leaves, self.args = subject.fn, subject.leaves, in_floats(subject.args.values())
        known = (subject.args | self.leaves | subject.state).values()
        self.floats = {x: witnesses(x._data) for x in known if isinstance(x, Tensor) and x.dtype is OBJECT}
        self.sample = {name: self.floats[x] for name, x in self.leaves.items()}
        self.symmetric = {name for name, x in self.sample.items() if _is_symmetric(x)}  # matrices, which stay so
        self.kept = subject.kept
        self.overwrites = False  # has backward() changed the gradient that it got?
        self.random = np.random.default_rng(0)

    @contextmanager
    def on_floats(self) -> Iterator[None]:
        """Inside, the tensors that the function reads hold floats."""
        with ThreadPoolExecutor(1) as self.thread, quiet(), restored(self.leaves.values()), swap_data(self.floats):
            yield

    def counterexample(self) -> str:
        """How the gradient differs from difference quotients at the sample point; empty if it does not."""
        with self.on_floats():
            return _or_none(self.differs_from_quotients, self.sample) or ""

    def run(self, exact: Run, style: str, edges: Iterable[float], differentiable: bool, proved: bool) -> Outcome:
        """Compare with the run on exact numbers; then try other circumstances and points.

        Quotients are left out if values are held constant, since quotients would have their slopes; and if they differ
        at the sample point, where the gradients are proved.
        """
        result = Outcome()
        with self.on_floats():
            self.compare_with_exact(result, exact)
            if result.sentence or result.not_run:
                return result
            usual = _or_none(self.tape, self.sample)
            if usual is None:
                result.not_run = f"{NOT_COMPARED} with other gradients that arrive"
                return result
            later = partial(self.differs, usual.gradients, self.leaves, " in a later call", " in the first")
            result.note(OVERWRITES if self.overwrites else later())
            if not result.sentence:
                result.note(self.differs_in_variants(usual.gradients), refuted=True)
            if differentiable and not result.refuted:
                self.try_points(result, WITHIN[style], sorted(edges), proved)
            result.note(later())
            with swap_data({x: array.astype(np.float32) for x, array in self.floats.items()}):
                words = " in float32", " in float64"
                narrow = self.differs(usual.gradients, self.leaves, *words, tolerance=SAME_IN_FLOAT32)
                result.note(narrow)
        return result

    def try_points(self, result: Outcome, within: Callable, edges: list[float], proved: bool) -> None:
        """Compare with difference quotients at the sample point and elsewhere."""
        if sentence := _or_none(self.differs_from_quotients, self.sample):
            if proved:
                return result.note(sentence)
            result.elsewhere.append((sentence, self.sample))
        for off_path, factor in points(self.sample, edges):
            point = self.kept_symmetric({name: within(x) for name, x in off_path.items()})
            if len(result.elsewhere) < SUSPECTS and (sentence := _or_none(self.differs_from_quotients, point, factor)):
                result.elsewhere.append((sentence, point))
        return None

    # ------------------------------------------------------------------------------------------------------- runs

    def alone(self, call: Callable, *args, **options):
        """A call in the thread of its own."""
        return self.thread.submit(call, *args, **options).result()

    def tape(
        self,
        point: Point,
        seeds: Callable = distinct_of_each,
        prepare: Callable = lambda: None,
        create_graph: bool = False,
        walks: int = 1,
    ) -> Run:
        """The results and the gradients on the tape, the mean of so many walks over it.

        prepare: changes the inputs before, or returns other arguments.
        """
        for name, values in point.items():
            self.leaves[name]._data = values.astype(self.leaves[name]._data.dtype)
        with self.kept():
            ys = results_of(partial(self.alone, self.fn), prepare() or self.args)
            run = Run([np.array(y.detach().numpy()) for y in ys], [*map(np.asarray, seeds(ys))], {})
            for y, g in zip(ys, run.seeds, strict=True):
                arriving = Tensor.of(g.astype(y._data.dtype))
                for _ in range(walks):
                    self.alone(y.backward, arriving, retain_graph=True, create_graph=create_graph)
                self.overwrites |= not np.array_equal(arriving._data, g.astype(y._data.dtype))
            for name, x in self.leaves.items() if walks else ():
                known = np.zeros(x.shape) if x.grad is None else x.grad.detach().numpy()
                run.gradients[name] = np.array(known, np.float64) / walks
        return run

    # ------------------------------------------------------------------------------------------- at the sample point

    def compare_with_exact(self, result: Outcome, exact: Run) -> None:
        """Compare results and gradients with those of a run on exact numbers; where these are NaN, nothing is known."""
        try:
            run = self.tape(self.sample, lambda ys: exact.seeds)
            pairs = [(f"result {n}", *both) for n, both in enumerate(zip(exact.results, run.results, strict=True))]
            pairs += [(f"the gradient of {name}", g, run.gradients[name]) for name, g in exact.gradients.items()]
            for what, known, got in pairs:
                known = np.where(np.isfinite(known), known, got)
                if sentence := _difference(what, known, got, " on floats", " on exact numbers"):
                    result.note(f"{sentence}: the code computes something else where it is proved", refuted=True)
        except Exception as error:
            result.not_run = f"{NOT_COMPARED}, which raised {type(error).__name__}"

    def differs(
        self, usual: Point, names: Iterable[str], when: str, usually: str, tolerance: float = ROUNDING, **options
    ) -> str:
        """How gradients differ from the usual ones in other circumstances; empty if the function does not run there."""
        tried = _or_none(self.tape, self.sample, **options)
        differences = (
            _difference(f"the gradient of {name}", usual[name], tried.gradients[name], when, usually, tolerance)
            for name in (names if tried is not None else ())
        )
        return next(filter(None, differences), "")

    def differs_in_variants(self, usual: Point) -> str:
        """How the gradients differ from those of the same call in other circumstances."""

        def results_of_operations() -> list:
            leaves = set(map(id, self.leaves.values()))
            return [a * 1 if id(a) in leaves else a for a in self.args]

        def stretched() -> None:
            for leaf in self.leaves.values():
                leaf._data = np.repeat(leaf._data, 2, axis=-1)[..., ::2] if leaf.ndim else leaf._data

        def with_gradients() -> None:
            for leaf in self.leaves.values():
                leaf.grad = Tensor.of(np.zeros_like(leaf._data))

        def with_one(name: str) -> None:
            for each, leaf in self.leaves.items():
                leaf._requires_grad = each == name

        tries = {" with create_graph=True": (self.leaves, {"create_graph": True})}
        tries[" if the inputs are not contiguous"] = self.leaves, {"prepare": stretched}
        tries[" if the inputs are results of operations"] = self.leaves, {"prepare": results_of_operations}
        tries[" if the inputs have gradients before"] = self.leaves, {"prepare": with_gradients}
        for name in list(self.leaves)[:ALONE] if len(self.leaves) > 1 else ():
            tries[f" if {name} alone requires grad"] = [name], {"prepare": partial(with_one, name)}
        tries[" as the mean of two walks over the tape"] = self.leaves, {"walks": 2}
        sentences = (self.differs(usual, names, when, " otherwise", **how) for when, (names, how) in tries.items())
        return next(filter(None, sentences), "") or self.differs_for_one_tensor()

    def differs_for_one_tensor(self) -> str:
        """How the gradient of one tensor that is given twice differs from the sum of those of two equal ones.

        If the results differ already, as those of a call of `grad` for both of them do, these are two functions.
        """
        names, args, sample = {id(leaf): name for name, leaf in self.leaves.items()}, self.args, self.sample
        inputs = [(i, names[id(a)]) for i, a in enumerate(args) if id(a) in names]
        pairs = [(a, b) for a, b in combinations(inputs, 2) if sample[a[1]].shape == sample[b[1]].shape]
        for (i, first), (k, second) in pairs[:PAIRS]:
            point = {**sample, second: sample[first]}
            apart = _or_none(self.tape, point)
            twice = _or_none(
                self.tape, point, prepare=lambda i=i, k=k: [args[i if n == k else n] for n in range(len(args))]
            )
            if apart is None or twice is None or differing_entry(np.array(apart.total), twice.total) is not None:
                continue
            of_each, of_both = apart.gradients[first] + apart.gradients[second], twice.gradients[first]
            when = f" if {second} is the same tensor", f" for two equal ones ({first} and {second}, added)"
            if sentence := _difference(f"the gradient of {first}", of_each, of_both, *when):
                return sentence
        return ""

    # --------------------------------------------------------------------------------------------------- elsewhere

    def differs_from_quotients(self, point: Point, factor: float | None = None) -> str:
        """How the gradient at a point differs from difference quotients; the seeds are random and have this size."""
        drawn = lambda y: factor * self.random.normal(size=y.shape)  # noqa: E731
        run = self.tape(point, distinct_of_each if factor is None else partial(map, drawn))
        if not all(np.isfinite(g).all() for g in run.gradients.values()):
            return ""
        of = partial(self.line, point, run.seeds)
        v = self.direction(point)
        products = np.concatenate([(g * v[name]).ravel() for name, g in run.gradients.items()])
        along = float(products.sum())
        if agrees(of(v), along, np.abs(products).sum()) is not False:
            return ""
        slope = slope_along(of(v))
        error = 0.1 * abs(along - slope.quotient)
        if slope.is_unsure(error) or not self.is_linear(of, point, v, slope.quotient, error):
            return ""
        return self.worst_entry(of, point, run.gradients) or (
            f"along a random direction the gradients give {along:.6g} on the tape, but difference quotients of the "
            f"forward give {slope.quotient:.6g}"
        )

    def direction(self, point: Point) -> Point:
        return self.kept_symmetric({name: self.random.normal(size=values.shape) for name, values in point.items()})

    def kept_symmetric(self, point: Point) -> Point:
        return {n: (x + np.swapaxes(x, -1, -2)) / 2 if n in self.symmetric else x for n, x in point.items()}

    def line(self, point: Point, seeds: list[np.ndarray], v: Point) -> Line:
        """The sum of the results, each times its seed, along a line; NaN where the function raises."""

        def value(step: float) -> float:
            there = {name: x + step * v[name] for name, x in point.items()}
            run = _or_none(self.tape, there, lambda ys: seeds, walks=0)
            return np.nan if run is None else run.total

        return value

    def is_linear(self, of: Callable[[Point], Line], point: Point, v: Point, along: float, error: float) -> bool:
        """Are the slopes of sums of directions the sums of their slopes? (That of a median at equal numbers is not.)"""
        for _ in range(3):
            w = self.direction(point)
            alone, both = (slope_along(of(u)) for u in (w, {name: v[name] + w[name] for name in v}))
            if alone.is_unsure(error) or both.is_unsure(error):
                return False
            if abs(both.quotient - along - alone.quotient) > error:
                return False
        return True

    def worst_entry(self, of: Callable[[Point], Line], point: Point, tape: Point) -> str:
        """A sentence on the entry with the largest error, among the first thousand of each input."""
        worst, sentence = 0.0, ""
        for name, values in point.items() if not self.symmetric else ():
            for index in list(np.ndindex(values.shape))[:1000]:
                v = {each: np.zeros(x.shape) for each, x in point.items()}
                v[name][index] = 1.0
                slope, on_tape = slope_along(of(v)), tape[name][index]
                error = abs(slope.quotient - on_tape) - slope.unsure
                if error > worst:
                    words = f"{on_tape:.6g} on the tape, but difference quotients of the forward give"
                    worst, sentence = error, f"the gradient of {name} at {list(index)} is {words} {slope.quotient:.6g}"
        return sentence


def points(sample: Point, edges: list[float]) -> Iterator[tuple[Point, float]]:
    """Points off the path of the sample, each with the size of the gradient that arrives."""
    random = np.random.default_rng(1)
    mask = {name: random.random(x.shape) < 0.5 for name, x in sample.items()}

    def where(value: float, masked: bool = True) -> Point:
        return {name: np.where(mask[name] == masked, value, x) for name, x in sample.items()}

    yield {name: np.flip(x) * -2.5 for name, x in sample.items()}, -30.0
    for style, values in STYLES.items():
        point = {name: np.asarray(values(random, x.shape, ()), float) for name, x in sample.items()}
        yield point, 1e-3 if style == "of both signs" else 1.0
    yield where(0.0), 1.0
    yield where(0.0, False), -1.0
    yield {name: np.where(mask[name], 40.0, -40.0) for name in sample}, 1.0
    for edge in edges[:EDGES]:
        for value in (edge + 1, -edge - 1, edge, -edge):
            yield where(value), 1.0
            yield where(value, False), edge + 1
        yield sample, 2 * edge + 1


def _is_symmetric(x: np.ndarray) -> bool:
    """Is this a matrix of more than one entry that a function of symmetric matrices may take?"""
    return x.ndim >= 2 and x.shape[-1] == x.shape[-2] > 1 and np.array_equal(x, np.swapaxes(x, -1, -2))


def _or_none(run: Callable, *args, **options):
    """The result; None if the function raises here."""
    try:
        return run(*args, **options)
    except Exception:
        return None


def _difference(
    what: str, usual: np.ndarray, tried: np.ndarray, when: str, usually: str, tolerance: float = ROUNDING
) -> str:
    """A sentence about the first entry that differs, as NaN does from a number."""
    sides = (usual, tried), (tried, usual)
    index = next((entry for pair in sides if (entry := differing_entry(*pair, tolerance)) is not None), None)
    if index is None:
        return ""
    return f"{what} at {list(index)} is {tried[index]:.6g}{when}, and {usual[index]:.6g}{usually}"

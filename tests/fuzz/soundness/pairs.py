"""Pairs of a random function and a gradient by hand: what `check` says of them, and what numbers say."""

import itertools
import math
import operator
import random
import re
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

import tinytensor as tt
from tests.tools.timeout import limited
from tinytensor.autograd import grad
from tinytensor.symbolic.derive import check as checking
from tinytensor.symbolic.derive.derivation import Derivation
from tinytensor.symbolic.derive.orders import derive
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.numbers import differing_entry

from . import gradients
from .functions import JUMPS, UNLIKE, Sample, compiled, sample, values

LARGEST = 9  # the sizes that are tried: 1 to 9,
LARGER = (16, 33)  # and these
FAR = 100  # numbers whose quotients and powers pass many whole numbers in a step
HOW = 6  # ways to draw values
STEPS = (1e-3, 1e-4, 1e-5, 1e-6)  # of difference quotients, in the values' own unit: one must agree
POINTS = 170
SOME = 12  # points that tell whether a mistake is seen everywhere
BLATANT = 0.2  # how many of those that are, are kept
ERROR = re.compile(r"\w+(Error|Exception): ")  # in place of a difference
SECONDS_OF_A_DERIVATION = 60
SECONDS_OF_A_VERDICT = 2  # a gradient by hand that takes longer is undecided


class TooLong(BaseException):
    """The time of a question is up."""


@dataclass
class Point:
    """Sizes and values, the gradients by backward(), and what conditions ask for.

    ties: does the function compare equal numbers there? any: are the floats any numbers, which no whole one equals?
    large: do powers of e overflow? A formula that does says nothing there, since it is one of real numbers.
    """

    at: dict[str, int]
    values: dict[str, tt.Tensor]
    upstream: tt.Tensor | None
    want: dict[str, np.ndarray]
    ties: bool
    any: bool
    large: bool = False

    def __str__(self):
        shown = [f"{n} = {v}" for n, v in self.at.items()]
        shown += [f"{n} = {np.round(v.detach().numpy(), 3).tolist()}" for n, v in self.values.items()]
        shown += [] if self.upstream is None else [f"g = {np.round(self.upstream.numpy(), 3).tolist()}"]
        return ", ".join(shown)


def PAIRS(x: tt.Tensor) -> np.ndarray:
    """The differences of all pairs of entries."""
    x = x.detach().numpy().ravel()
    return (x[:, None] - x)[np.triu_indices(x.size, 1)]


def points(one: Sample, seed: int) -> list[Point]:
    """Sizes from 1 to 9, most pairs of them, and larger ones, with values of several sorts, as far as it takes them."""
    sizes, fn = one.sizes, one.function()
    compares = compiled(one.compared, "compared", f"{one.name}_compared")
    compares.__globals__["PAIRS"] = PAIRS
    chance = random.Random(f"points {seed} {one.name}")
    every = [
        (n, how) for n in itertools.product(range(1, LARGEST + 1), repeat=min(len(sizes), 2)) for how in range(HOW)
    ]
    if len(sizes) > 2:
        every = [((*n, *(chance.randint(1, LARGEST) for _ in sizes[2:])), how) for n, how in every]
    chance.shuffle(every)
    large = [((n,) * len(sizes), how) for n in LARGER for how in range(2)]
    result = []
    for numbers, how in [*every[:POINTS], *large]:
        at = dict(zip(sizes, numbers, strict=True))
        draw = np.random.default_rng([seed, *numbers, how])
        inputs = values(one, at, how, draw)
        try:
            out = fn(**inputs)
            upstream = tt.tensor(draw.normal(size=out.shape)) if out.ndim else None
            floats = {n: x for n, x in inputs.items() if x.requires_grad}
            slopes = grad(out, [*floats.values()], upstream, materialize_grads=True)
        except Exception:  # the function takes no such sizes
            continue
        if not np.isfinite(out.detach().numpy()).all():  # no value, so no derivative
            continue
        compared = compares(**inputs, **at)
        ties = any((np.asarray(c.detach() if isinstance(c, tt.Tensor) else c) == 0).any() for c in compared)
        want = dict(zip(floats, (s.numpy() for s in slopes), strict=True))
        result.append(Point(at, inputs, upstream, want, ties, how in (0, 2, 5), how == 5))
    return result


def no_derivative(one: Sample, point: Point) -> str:
    """How backward() differs from difference quotients of the function in a random direction; empty if it does not."""
    if point.ties or not point.any or UNLIKE.search(one.source):
        return ""
    far = any(np.abs(x.detach().numpy()).max(initial=0) > FAR for x in point.values.values())
    if far and JUMPS.search(one.source):  # which lie closer than a step
        return ""
    fn, draw = one.function(), np.random.default_rng(0)
    along = {n: draw.normal(size=w.shape) for n, w in point.want.items()}
    slope, size = 0.0, 0.0
    for n, direction in along.items():
        slope += (point.want[n] * direction).sum()
        size += np.abs(point.want[n] * direction).sum()
    if size > 1e50:  # of a weight such as e^600, beside which losses round to 0
        return ""

    def at(step: float, ulps: int = 0) -> float:
        near = {n: point.values[n].detach().numpy() * (1 + ulps * 2.0**-51) for n in along}
        moved = {n: tt.tensor(near[n] + step * direction) for n, direction in along.items()}
        out = fn(**point.values | moved).detach().numpy()
        return float((out if point.upstream is None else out * point.upstream.numpy()).sum())

    def central(step: float) -> float:
        return (at(step) - at(-step)) / (2 * step)

    quotients = []
    with tt.no_grad(), np.errstate(all="ignore"):
        rounding = 4 * max(abs(at(0, ulps) - at(0)) for ulps in (-3, -2, -1, 1, 2, 3)) + 1e-14 * abs(at(0))
        for step in STEPS:  # Richardson's extrapolation: its error is below that of the half step
            whole, half = central(step), central(step / 2)
            quotient = (4 * half - whole) / 3
            if np.isnan(quotient):  # a step out of the domain
                continue
            quotients.append(quotient)
            bound = min(abs(whole - half), 1e-4 * (1 + size)) + 1e-9 * (1 + size) + rounding / step
            if not abs(quotient - slope) > bound:  # what is no number is compared with nothing
                return ""
    if not quotients:
        return ""
    return f"backward() has the slope {slope:.6g}, difference quotients {', '.join(f'{q:.6g}' for q in quotients)}"


def by_hand(hand, argument: str, point: Point) -> np.ndarray:
    """The value of a gradient by hand: a function, or a derivation, which is its own."""
    if isinstance(hand, Derivation):
        arrays = {n: x.detach().numpy() for n, x in point.values.items()}
        extra = {} if point.upstream is None else {"upstream": point.upstream.numpy()}
        free = {hand._program.identifier(s): point.at[str(s)] for s in hand._program.free}
        return hand.evaluate(**arrays, **extra, **free)[argument]
    code = hand.__code__
    takes = code.co_varnames[: code.co_argcount]
    every = point.at | point.values | ({} if point.upstream is None else {"g": point.upstream})
    with tt.no_grad():
        own = hand(**{n: every[n] for n in takes})
    return own.detach().numpy() if isinstance(own, tt.Tensor) else np.asarray(own)


def differs(hand, argument: str, point: Point) -> str:
    """How the gradient by hand differs from backward() there; empty where it does not."""
    want = point.want[argument]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            own = by_hand(hand, argument, point)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if own.shape != want.shape:
        return f"the shape {own.shape} for {want.shape}"
    where = differing_entry(want, np.where(np.isfinite(own), own, want) if point.large else own, 1e-6)
    return "" if where is None else f"{own[where]:.6g} for {want[where]:.6g} at {list(where)}"


# --- Conditions


def conditions(verdict) -> tuple[str, ...]:
    """The conditions that stand in the verdict of `check` or `derive`, as texts."""
    if isinstance(verdict, Derivation):
        return (*verdict.value_conditions, *map(str, verdict.size_conditions))
    return tuple(map(str, verdict.conditions))


RELATION = re.compile(r"^(.+) ([<>≤≥≠=]) (.+)$")
RELATIONS = {
    "<": operator.lt,
    ">": operator.gt,
    "≤": operator.le,
    "≥": operator.ge,
    "≠": operator.ne,
    "=": operator.eq,
}
OUTSIDE = {  # of a condition on values: the values that it excludes, by the words in it
    "denominator": lambda point, how: _no_number(how),
    "logarithm": lambda point, how: _no_number(how) or not point.any,
    "root": lambda point, how: _no_number(how) or not point.any,
    "asin and acos": lambda point, how: _no_number(how),
    "compared are equal": lambda point, how: point.ties or not point.any,
    "rounded is whole": lambda point, how: point.ties or not point.any,
}


def _no_number(how: str) -> bool:
    return how.startswith(("nan", "inf", "-inf"))


def excluded(verdict, point: Point, how: str) -> bool:
    """Does a condition that stands in the verdict exclude these sizes and values? The one reader of conditions.

    how: in which way the gradient by hand differs there.
    """
    return any(_excludes(text, point, how) for text in conditions(verdict))


def _excludes(text: str, point: Point, how: str) -> bool:
    for words, outside in OUTSIDE.items():
        if words in text:
            return outside(point, how)
    parity, _, size = text.partition(" ")
    if parity in ("odd", "even"):
        return _number(size, point) % 2 != (parity == "odd")
    if (match := RELATION.match(text)) is None:
        return False  # whose words are not known: it excludes nothing
    left, relation, right = match.groups()
    return not RELATIONS[relation](_number(left, point), _number(right, point))


def _number(size: str, point: Point):
    """The value of a formula of the sizes."""
    return eval(size, {"floor": math.floor, "ceiling": math.ceil, "sqrt": math.sqrt, **point.at})


# --- Pairs


@dataclass
class Pair:
    """A function, a gradient by hand, how it was made, and the verdict."""

    function: Sample
    argument: str
    source: str
    made: str
    verdict: str = ""
    conditions: tuple[str, ...] = ()
    counterexample: str = ""
    excluded: bool = False
    why: str = ""

    def __str__(self):
        arguments = ", ".join(f"{n}={a}" for n, a in self.function.arguments.items())
        parts = [
            self.function.source.rstrip(),
            f"arguments: {arguments}",
            f"by hand, of {self.argument} ({self.made}):",
        ]
        parts += [
            self.source.rstrip(),
            f"verdict: {self.verdict}" + (f", where {self.conditions}" if self.conditions else ""),
        ]
        parts += [f"by numbers: {self.counterexample}" if self.counterexample else "by numbers: right"]
        return "\n".join(parts + ([self.why] if self.why else []))


@dataclass
class Tally:
    """The counts of a run, and the pairs that must not be."""

    counts: Counter = field(default_factory=Counter)
    seconds: Counter = field(default_factory=Counter)
    unsound: list[Pair] = field(default_factory=list)  # wrong, and called proved
    refuted: list[Pair] = field(default_factory=list)  # right, and called refuted
    undecided: list[Pair] = field(default_factory=list)  # right, and not decided
    refusals: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def share_proved(self) -> float:
        """Of the right gradients, those that are proved."""
        right = sum(n for name, n in self.counts.items() if name.startswith("right: "))
        proved = self.counts["right: proved"] + self.counts["right: proved for some sizes"]
        return proved / right if right else 1.0

    def report(self) -> str:
        lines = [f"{n:7,} {name}" for name, n in sorted(self.counts.items())]
        lines.append(f"{self.share_proved:7.1%} of the right ones are proved")
        refused = self.counts["functions: refused"]
        lines.append(f"{refused / max(refused + self.counts['functions: derived'], 1):7.1%} are refused functions")
        lines.append(", ".join(f"{name} {n:.0f} s" for name, n in self.seconds.items()))
        return "\n".join(lines)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        begun = time.process_time()
        try:
            yield
        finally:
            self.seconds[name] += time.process_time() - begun


def hands(one: Sample, names: list[str], number: int, seed: int, where: list[Point]) -> Iterator[tuple[str, str, str]]:
    """Gradients by hand: (argument, source, how it was made); a third of them meant to be right.

    Of the others most are right at some of the points: a mistake that each point shows is seen by any checker.
    """
    draw = random.Random(f"hands {seed} {one.name}")
    seen = set()
    for argument in names:
        for text in (one.gradients[argument], *one.equal[argument]):
            if (argument, text) not in seen:
                seen.add((argument, text))
                yield argument, text, "right"
    tries = 0
    while len(seen) < number and tries < 10 * number:
        tries += 1
        argument = draw.choice(names)
        text, made = one.gradients[argument], []
        if one.equal[argument] and draw.random() < 0.2:
            text = draw.choice(one.equal[argument])
        right = draw.random() < 0.33
        for _ in range(draw.choice((1, 1, 2)) if right else draw.choice((0, 0, 1))):
            if (step := gradients.apply(text, gradients.rewritings, draw, argument, one.sizes)) is not None:
                text, made = step[0], [*made, step[1]]
        if not right and (step := gradients.apply(text, gradients.mistakes, draw, argument, one.sizes)) is not None:
            text, made = step[0], [*made, step[1]]
        if (argument, text) in seen:
            continue
        hows = [differs(compiled(text, "gradient", one.name), argument, point) for point in where[:SOME]]
        runs = [how for how in hows if not ERROR.match(how)]
        if runs and (right or "" in hows or draw.random() < BLATANT):
            seen.add((argument, text))
            yield argument, text, ("right, " if right else "mistake: ") + ", ".join(made)


def judge(pair: Pair, hand, verdict, where: list[Point], tally: Tally) -> None:
    """Count a pair, by its verdict and by numbers."""
    pair.verdict, pair.conditions = verdict.verdict, conditions(verdict)
    proved, some = verdict.verdict == "proved", False
    if proved and not verdict:
        pair.verdict = "proved for some sizes"
    for point in where:
        how = differs(hand, pair.argument, point)
        if how:
            some = True
            pair.excluded = proved and excluded(verdict, point, how)
            if not pair.excluded:
                pair.counterexample = f"{how}; {point}"
                break
    if pair.counterexample:
        tally.counts[f"wrong: {pair.verdict}"] += 1
        if proved:
            tally.unsound.append(pair)
    elif some:
        tally.counts[f"right under the conditions: {pair.verdict}"] += 1
    else:
        meant = pair.made.startswith("right")
        tally.counts[f"{'right' if meant else 'right in spite of a change'}: {pair.verdict}"] += 1
        if pair.verdict == "refuted" and meant:  # a mistake may show at points that are not tried here
            tally.refuted.append(pair)
        elif pair.verdict == "undecided" and meant:
            pair.why = verdict.why
            tally.undecided.append(pair)


def ask(one: Sample, number: int, seed: int, tally: Tally, check: Callable | None = None) -> None:
    """Derive a function, and check forty gradients by hand."""
    check = check or checking.check
    fn = one.function()
    with tally.timed("derivations"):
        try:
            with limited(SECONDS_OF_A_DERIVATION, TooLong, signal.ITIMER_PROF):
                derivation = derive(fn, **one.arguments)
            proved = derivation.proved
        except TooLong:
            tally.counts["functions: too long"] += 1
            return
        except checking.NotDerivable as error:
            tally.counts["functions: refused"] += 1
            tally.refusals.append(f"{' | '.join(one.constructions)}: {error}")
            return
        except Exception as error:
            tally.counts["functions: another error"] += 1
            tally.errors.append(f"{one.source}{type(error).__name__}: {error}")
            return
    with tally.timed("numbers"):
        where = points(one, seed)
    if not where:
        tally.counts["functions: at no size"] += 1
        return
    names = [n for n in one.gradients if n in derivation.gradients]
    if not names:
        tally.counts["functions: without a gradient"] += 1
        return
    tally.counts["functions: derived"] += 1
    with tally.timed("numbers"):
        hows = [(how, point) for point in where if (how := no_derivative(one, point))]
        tally.errors += [f"{how}; {point}\n{one.source}" for how, point in hows[:1]]
    for name in names:
        with tally.timed("numbers"):
            base = compiled(one.gradients[name], "gradient", one.name + "_gradient")
            for point in where:
                # backward() of what is ignored is 0, also where it is no number
                if (how := differs(base, name, point)) and not excluded(derivation, point, how):
                    tally.errors.append(
                        f"the fuzzer's own gradient of {name}: {how}; {point}\n{one.source}{one.gradients[name]}"
                    )
                    break
    with tally.timed("numbers"):
        for name in names if proved else ():
            own = Pair(one, name, str(derivation), "the derivation's own program", "proved")
            for point in where:
                how = differs(derivation, name, point)
                if how and not excluded(derivation, point, how):
                    own.counterexample = f"{how}; {point}"
                    tally.counts["derivation: proved, and wrong"] += 1
                    tally.unsound.append(own)
                    break
            else:
                tally.counts["derivation: proved, and right"] += 1
    for argument, text, made in hands(one, names, number, seed, where):
        pair = Pair(one, argument, text, made)
        hand = compiled(text, "gradient", one.name + "_gradient")
        with tally.timed("verdicts"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with limited(SECONDS_OF_A_VERDICT, TooLong, signal.ITIMER_PROF):
                    verdict = check(derivation, {argument: hand})[argument]
            except TooLong:
                tally.counts["pairs: too long"] += 1
                verdict = checking.Checked(argument, "", None)
            except Exception as error:  # a program that does not run at all
                tally.counts["pairs: an error"] += 1
                if made.startswith("right"):
                    tally.errors.append(f"{pair}\n{type(error).__name__}: {error}")
                continue
        tally.counts["pairs: checked"] += 1
        with tally.timed("numbers"):
            judge(pair, hand, verdict, where, tally)


def fuzz(functions: int, number: int, seed: int, check: Callable | None = None) -> Iterator[Tally]:
    """Random functions until so many are derived, with that many gradients by hand of each: the tally after each.

    check: what is asked in place of `check`, as in a negative control.
    """
    tally = Tally()
    for n in range(5 * functions):
        if tally.counts["functions: derived"] == functions:
            return
        with double_precision():  # which is a condition of what asks for the default dtype
            ask(sample(seed, n), number, seed, tally, check)
        yield tally

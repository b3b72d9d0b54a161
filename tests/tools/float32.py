"""The float32 approximations of the kernels at every float32 there is: the largest error of each, and where.

    python -m tests.tools.float32                  all of them: some minutes for each
    python -m tests.tools.float32 exp tanh         these
    python -m tests.tools.float32 exp --share 2/8  the second of eight shares of all 2^32 numbers

TINYTENSOR_SIMD chooses the width of registers, as ever. Exits with 1 if an error is above its documented bound
(BOUNDS, which `tinytensor/native/simd/math.py` states), or a special value is wrong.

What the results are compared with is a Taylor polynomial of degree 8 in float64 around the next multiple c of 1/64. Its
coefficients are enclosed by Arb and then rounded. That leaves an error far below what is measured:

- x - c is exact: x is a multiple of 2^-31 wherever c is not 0;
- what the polynomial leaves out is at most M |x - c|^9 / (1 - |x - c|) by Cauchy, where M bounds the function on the
  circle of radius 1 around c: e e^c for exp, and 3 for the others; with |x - c| <= 2^-7 that is 3.1 M 2^-64;
- rounding coefficients and sums adds less than 3 units of 2^-53 of the largest term, which is the function's value (or,
  around 0, its first term, since all of them are odd there or far from 0).

Together below 2^-50 of the value, or 2^-26 of a float32's unit in the last place; for the functions of GELU, whose
bounds are absolute, 2^-50.

log x is n log 2 + log m with x = 2^n m and sqrt(1/2) <= m < sqrt(2), which is exact. The table is one of log(1 + d)
with d = m - 1; the multiples of 1/256 are its centres, and the circles have the radius 1/2, where M = 1.8: what is left
out is at most 1.9 (2 |d - c|)^9 with |d - c| <= 2^-9, so below 2^-61 of the value, around 0 too, where log(1 + d) is d
times some number near 1. Where n is not 0, the sum is at least half of n log 2: that rounds to 4 units of 2^-53 or
less. log(1 + x) is that of 1 + x. Where |x| >= 1/4 it is rounded, which moves the logarithm by less than 2^-50 of it;
below that x itself is d.
"""

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import njit

from tests.tools.sharding import share
from tinytensor.core.kernel import KERNELS
from tinytensor.native.simd import compiled_math as simd_math
from tinytensor.native.simd import score_tile, vector
from tinytensor.native.simd.isa import SIMD

TERMS = 9
LOG_2 = math.log(2)
BLOCK = 1 << 22
BLOCKS = (1 << 32) // BLOCK
HALF, ROOT_HALF, DENSITY = (np.float32(c) for c in (0.5, math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)))


# --- What is measured


@njit
def _vectors_exp(x, y):
    for i in range(0, x.size, vector.lanes(x)):
        vector.store(vector.exp(vector.load(x, i)), y, i)


@njit
def _vectors_log(x, y):
    for i in range(0, x.size, vector.lanes(x)):
        vector.store(vector.log(vector.load(x, i)), y, i)


@njit
def _squares_exp(x, y):
    for i in range(0, x.size, score_tile.WIDTH * score_tile.LANES):
        score_tile.store_score_tile(score_tile.exp_tile(score_tile.load_score_tile(x, i)), y, i)


@njit
def _log1p_of_fraction(x, y):
    for i in range(x.size):
        y[i] = simd_math.log1p_of_fraction(x[i])


@njit
def _normal_cdf(x, y):
    for i in range(x.size):
        y[i] = simd_math.normal_cdf(x[i], HALF, ROOT_HALF)


@njit
def _gelu_slope(x, y):
    for i in range(x.size):
        y[i] = simd_math.gelu_slope(x[i], HALF, ROOT_HALF, DENSITY)


WHOLE, LOG, LOG_1P = range(3)  # how the table is read: at x, or at what is left of x or 1 + x beside a power of two


@dataclass(frozen=True)
class Function:
    """An approximation: what computes it, its series (of flint), and beyond which ends it is as at them."""

    compute: Callable
    series: Callable
    low: float
    high: float
    least: float = -math.inf  # no result is smaller than this one ...
    most: float = math.inf  # ... or larger than that one
    cells: int = 64  # of the table of the reference, in a unit of x
    read: int = WHOLE
    smallest: float = -math.inf  # the domain begins here ...
    largest: float = math.inf  # ... and ends here
    flushes: bool = False  # results that are no normal numbers are 0
    absolute: bool = False  # its bound is an absolute one


def _tanh(z):
    e = (2 * z).exp()
    return (e - 1) / (e + 1)


_AROUND_1 = -0.3125, 0.4375  # sqrt(1/2) - 1 and sqrt(2) - 1 lie between


def _log_1p(z):
    return (1 + z).log()


def _cdf(z):
    from flint import arb

    return (1 + (z / arb(2).sqrt()).erf()) / 2


def _slope(z):
    from flint import arb

    return _cdf(z) + z * (-z * z / 2).exp() / (2 * arb.pi()).sqrt()


FUNCTIONS = {
    "exp": Function(KERNELS["exp"], lambda z: z.exp(), -105, 90, least=0),
    "vectors.exp": Function(_vectors_exp, lambda z: z.exp(), -105, 90, least=0),
    "squares.exp": Function(_squares_exp, lambda z: z.exp(), -105, 90, least=0, largest=0.0, flushes=True),
    "expm1": Function(KERNELS["expm1"], lambda z: z.exp() - 1, -20, 90, least=-1),
    "log": Function(KERNELS["log"], _log_1p, *_AROUND_1, cells=256, read=LOG),
    "vectors.log": Function(_vectors_log, _log_1p, *_AROUND_1, cells=256, read=LOG),
    "log1p": Function(KERNELS["log1p"], _log_1p, *_AROUND_1, cells=256, read=LOG_1P),
    "log1p_of_fraction": Function(
        _log1p_of_fraction, _log_1p, *_AROUND_1, cells=256, read=LOG_1P, smallest=0.0, largest=1.0
    ),
    "tanh": Function(KERNELS["tanh"], _tanh, -20, 20, least=-1, most=1),
    "erf": Function(KERNELS["erf"], lambda z: z.erf(), -7, 7, least=-1, most=1),
    "normal_cdf": Function(_normal_cdf, _cdf, -15, 15, least=0, most=1, absolute=True),
    "gelu_slope": Function(_gelu_slope, _slope, -16, 16, absolute=True),
}
# What native/simd/math.py states: the largest error relative to the result; of the last two the absolute one.
BOUNDS = {
    "exp": 8.51e-8,
    "vectors.exp": 8.51e-8,
    "squares.exp": 7.71e-8,
    "expm1": 1.23e-7,
    "log": 8.22e-8,
    "vectors.log": 8.22e-8,
    "log1p": 8.24e-8,
    "log1p_of_fraction": 1.8e-7,
    "tanh": 3.12e-7,
    "erf": 3.89e-7,
    "normal_cdf": 1.94e-7,
    "gelu_slope": 3.5e-7,
}


# --- The comparison


@cache
def table(name: str) -> np.ndarray:
    """The coefficients around each centre from low to high, the highest power first: (centres, TERMS)."""
    from flint import arb, arb_series, ctx

    function = FUNCTIONS[name]
    before, ctx.cap, ctx.prec = (ctx.cap, ctx.prec), TERMS, 160
    try:
        rows = []
        for cell in range(int((function.high - function.low) * function.cells) + 1):
            series = function.series(arb_series([arb(function.low) + arb(cell) / function.cells, 1], TERMS))
            terms = [series[k] for k in range(TERMS)]
            size = max(1.0, float(abs(terms[0]).mid()))
            assert all(term.rad() < 1e-25 * size for term in terms), (name, cell)
            rows.append([float(term.mid()) for term in reversed(terms)])
    finally:
        ctx.cap, ctx.prec = before
    return np.array(rows)


RELATIVE, ULP, ABSOLUTE, SMALL = range(4)  # the largest errors: of normal results, and in units of the least ones
NOT_NEAREST, WRONG = range(2)  # results that are not the nearest float32; special values that are wrong


@njit
def compare(x, y, terms, low, high, least, most, cells, read, flushes, worst, where, counts):
    """Bring the largest errors up to date with y of x."""
    for i in range(x.size):
        v, got = np.float64(x[i]), np.float64(y[i])
        of = v + 1 if read == LOG_1P else v
        if v != v or (read != WHOLE and of < 0):
            counts[WRONG] += got == got
            continue
        if read != WHOLE and (of == 0 or of == math.inf):
            counts[WRONG] += got != (math.inf if of else -math.inf)
            continue
        counts[WRONG] += not least <= got <= most
        c, n = min(max(v, low), high), 0
        if read == LOG or (read == LOG_1P and abs(v) >= 0.25):
            c, n = math.frexp(of)
            c, n = (c - 1, n) if c * c >= 0.5 else (2 * c - 1, n - 1)
        cell = math.floor((c - low) * cells + 0.5)
        r = c - (low + cell / cells)
        f = terms[cell, 0]
        for k in range(1, TERMS):
            f = f * r + terms[cell, k]
        f += n * LOG_2
        size = abs(f)
        if size >= 2.0**128 - 2.0**103:  # rounds to infinity
            counts[WRONG] += got != f * math.inf
            continue
        if math.isinf(got):
            counts[WRONG] += 1
            continue
        normal = size >= 2.0**-126
        if flushes and not normal:
            counts[WRONG] += got != 0 and got < 2.0**-126
            continue
        if v == (1 if read == LOG else 0) and got != f:
            counts[WRONG] += 1
        error = abs(got - f)
        exponent = max((np.float64(size).view(np.int64) >> 52) - 1023 - 23, -149)
        unit = np.int64((exponent + 1023) << 52).view(np.float64)  # 2^exponent
        counts[NOT_NEAREST] += error > 0.5 * unit
        if error > worst[ABSOLUTE]:
            worst[ABSOLUTE], where[ABSOLUTE] = error, x[i]
        if not normal:
            if error / unit > worst[SMALL]:
                worst[SMALL], where[SMALL] = error / unit, x[i]
            continue
        if error / unit > worst[ULP]:
            worst[ULP], where[ULP] = error / unit, x[i]
        if error / size > worst[RELATIVE]:
            worst[RELATIVE], where[RELATIVE] = error / size, x[i]


@dataclass
class Found:
    """The largest errors so far, each with the float32 where it was, and how many results were not the nearest."""

    name: str
    worst: np.ndarray
    where: np.ndarray
    counts: np.ndarray

    @classmethod
    def nothing(cls, name: str) -> "Found":
        return cls(name, np.zeros(4), np.zeros(4, np.float32), np.zeros(2, np.int64))

    def add(self, x: np.ndarray, compute: Callable | None = None) -> None:
        """Take the float32 numbers x (a whole number of registers) into account."""
        function = FUNCTIONS[self.name]
        y = np.empty_like(x)
        with np.errstate(all="ignore"):
            (compute or function.compute)(x, y)
        keep = ~((x > function.largest) | (x < function.smallest))
        x, y = (x, y) if keep.all() else (x[keep], y[keep])
        ends = float(function.low), float(function.high), float(function.least), float(function.most)
        category = function.cells, function.read, function.flushes
        compare(x, y, table(self.name), *ends, *category, self.worst, self.where, self.counts)

    @property
    def error(self) -> float:
        """What the documented bound is about."""
        return float(self.worst[ABSOLUTE if FUNCTIONS[self.name].absolute else RELATIVE])

    def holds(self) -> bool:
        small = FUNCTIONS[self.name].absolute or self.worst[SMALL] <= 1
        return bool(self.error <= BOUNDS[self.name] and self.counts[WRONG] == 0 and small)

    def __str__(self):
        categories = {RELATIVE: "relative", ULP: "ulp", SMALL: "units of the least number"}
        if FUNCTIONS[self.name].absolute:
            categories = {ABSOLUTE: "absolute"}
        messages = [f"{self.worst[k]:.5g} {category} at {float(self.where[k])!r}" for k, category in categories.items()]
        return (
            f"{self.name} ({SIMD}): {'; '.join(messages)}; {self.counts[NOT_NEAREST]:,} results are not the nearest; "
            f"{self.counts[WRONG]} special values are wrong; documented bound {BOUNDS[self.name]:.3g} "
            f"{'holds' if self.holds() else 'IS WRONG'}"
        )


# Where, of all numbers, the errors of log and of the last two were largest; and the ends.
PLACES = np.array([2.8027222156524658, 3.6534159183502197, 5.339658737182617, math.inf, -math.inf], np.float32)


def sample(step: int = 1021) -> np.ndarray:
    """Those, every float32 at a step of so many bit patterns, and a million of [-104, 89]: whole registers."""
    bits = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([PLACES, bits.view(np.float32), np.linspace(-104, 89, 1_000_000, dtype=np.float32)])
    return np.ascontiguousarray(x[: x.size // 1024 * 1024])


def measured(name: str, piece: int, of: int) -> Found:
    """One of several shares of all 2^32 numbers, counted from 0, with a bar."""
    from tqdm import tqdm

    results = Found.nothing(name)
    mine = range(BLOCKS * piece // of, BLOCKS * (piece + 1) // of)
    for block in tqdm(mine, desc=name, unit="block", disable=None):
        results.add(np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32))
    return results


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.float32", description="Every float32 in turn.")
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=", ".join(FUNCTIONS))
    parser.add_argument(
        "--share", type=share, default=(0, 1), metavar="K/N", help="the K-th of N shares of all numbers"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.functions) - set(FUNCTIONS):
        parser.error(f"no function {', '.join(sorted(unknown))}: choose among {', '.join(FUNCTIONS)}")
    piece, of = options.share
    if of > BLOCKS:  # a share without a number would say that all bounds hold
        parser.error(f"there are no more than {BLOCKS:,} shares, and not {of:,}")
    right = True
    for name in options.functions or FUNCTIONS:
        result = measured(name, piece, of)
        print(result, flush=True)
        right = right and result.holds()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

"""Which constants are numbers of their formulas, and which operations jump where floats round.

A comparison of numbers that floats round, or a whole part of one, may be another one than that of the formulas. So
only whole numbers that floats hold are compared or rounded, unless real numbers decide, which are almost never equal.
"""

import math
from fractions import Fraction

import numpy as np
from sympy import Expr, Integer, Rational, S, log, pi, sqrt

UNITS = (sqrt(2), sqrt(3), pi, sqrt(pi), sqrt(2 / pi), sqrt(2 * pi), 1 / sqrt(pi), 1 / sqrt(2 * pi))
UNITS += (log(2), log(10), log(2 * pi))


def as_written(number) -> Expr:
    """A number as it was written: 0.07 is 7/100; fractions with small divisors and roots of them are found."""
    if isinstance(number, bool | np.bool_):
        return S(int(number))
    if isinstance(number, int | np.integer):
        return Integer(int(number))
    number = float(number)
    if not math.isfinite(number):
        return {math.inf: S.Infinity, -math.inf: S.NegativeInfinity}.get(number, S.NaN)
    short = Rational(repr(number))
    if short.q < 10**8:
        return short
    near = Fraction(number).limit_denominator(1000)
    if float(near) == number:
        return Rational(near.numerator, near.denominator)
    for unit in UNITS:
        near = Fraction(number / float(unit)).limit_denominator(1000)
        if near and math.isclose(float(near) * float(unit), number, rel_tol=4e-16):
            return Rational(near.numerator, near.denominator) * unit
    return short


JUMPS = {"lt", "le", "gt", "ge", "eq", "ne", "floor", "ceil", "sign", "floor_divide", "remainder"}
ROUNDED = "of numbers that floats may round: compare whole ones, as in 2 * tt.arange(N) < N, and divide them by //"


def jumps(name: str, args) -> bool:
    """Does an operation compare its numbers, or round them, so that its result is another one where floats round?"""
    return name in JUMPS or (name == "cast" and np.dtype(args[1]).kind != "f")


def largest_whole(dtype: np.dtype) -> int:
    """Up to this one, floats of a dtype hold all whole numbers."""
    return 2 ** (np.finfo(dtype).nmant + 1)

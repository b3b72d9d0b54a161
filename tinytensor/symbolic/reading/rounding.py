"""Which constants are numbers of their formulas, and which are rounded by floats.

A comparison of rounded numbers, or a whole part of one, may be another one than that of the formulas.
"""

import math
from fractions import Fraction

import numpy as np
from sympy import Expr, Integer, Rational, S, floor, log, pi, sqrt

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


MOST_ROUNDINGS = dict.fromkeys(["lt", "le", "gt", "ge", "eq", "ne", "floor", "ceil", "sign"], 1)  # beside other ones
MOST_ROUNDINGS |= {"floor_divide": 0, "remainder": 0}  # a result may be wrong
WHOLE = {*MOST_ROUNDINGS, "arange", "tri", "eye", "logical_not"}
SHORT = WHOLE - {"arange", "floor", "ceil", "floor_divide", "remainder"}  # of one digit
KEPT = "full cast same add sub mul neg square absolute maximum minimum where reduce_sum cumsum cat stack "
KEPT += "rows permute reshape_view expand slice take entries gather clone flip diagonal detach undiagonal unslice"
EXACT = {*KEPT.split()}  # of numbers that are exact, while floats have digits for them


ROUNDED = "of rounded numbers, which may be whole or equal in the formula alone: use whole ones"


def most_roundings(name: str, args) -> int:
    """How often numbers may be rounded whose comparison, or whole part, is to be that of the formula; 2 if any may."""
    return 1 if name == "cast" and np.dtype(args[1]).kind != "f" else MOST_ROUNDINGS.get(name, 2)


def roundings_of(a) -> int:
    """How often a number, or the numbers of a constant, are rounded, up to 2.

    As Python holds them, 0.5 is not rounded, 0.3 is 3/10, rounded once, and 249/1001 is no fraction that is known. A
    quotient n/m that is rounded once, and such a p/q, are equal in floats only where they are, since p is small: they
    differ by 1/(m q) at least, and floats near p/q by less than p/q 2^-52.
    """
    if isinstance(a, tuple | list):
        return max(map(roundings_of, a), default=0)
    if isinstance(a, np.ndarray):
        return roundings_of(np.unique(a[np.isfinite(a)]).tolist()) if a.dtype.kind == "f" else 0
    known = getattr(a, "roundings", None)
    if (type(a) is int and abs(a) > 2**31) or (type(a) is float and 2**20 < abs(a) < math.inf):
        return 2  # beside it a whole number may be rounded, in float64 or float32
    if known is not None or not isinstance(a, float) or not math.isfinite(a):
        return known or 0
    written = as_written(a)
    return 0 if written == Fraction(a) else 1 if written.is_Rational and abs(written.p) < 10**6 else 2


def rounded(name: str, args) -> int:
    """How often the result of an operation is rounded; that of terms, by their arguments, at least so often."""
    most = max(map(roundings_of, args), default=0)
    if name in ("add", "sub", "mul", "true_divide") and any(is_long(a) for a in args if hasattr(a, "expr")):
        return 2
    if name == "true_divide" and most == 0:
        return 0 if type(args[1]) is int and abs(args[1]).bit_count() == 1 else 1
    if name in ("add", "sub", "mul", "square", "reduce_sum", "cumsum") and most:
        return most if name == "mul" and type(args[1]) is int and args[1] == -1 else 2
    return 0 if name in WHOLE else most if name in EXACT else 2


# ---- binary digits

SIZES = 18, 44  # digits of a size: of one that is looked at, and of the largest one that there is memory for
UNKNOWN, NONE = (10**6, 10**6, 0), (0, 0, 0)  # of other operations; of numbers that are no whole ones
Digits = tuple[int, int, int]  # below 2^top, with sizes of either number of digits, and how many behind the point


def is_long(a, itemsize: int = 8, anywhere: bool = False) -> bool:
    """Has a number more digits than a float, at sizes that are looked at, or anywhere? One of 32 bits holds no size."""
    *tops, behind = digits(a)
    return tops[anywhere] + behind > (53 if itemsize == 8 else min(24, SIZES[anywhere] - 1))


def digits(a) -> Digits:
    """The digits of a number, or of all numbers of a constant."""
    if isinstance(a, tuple | list):
        return _most(map(digits, a))
    if isinstance(a, np.ndarray):
        return digits(np.unique(a[np.isfinite(a)]).tolist())
    if type(a) in (int, bool) or (type(a) is float and math.isfinite(a)):
        return _of_formula(as_written(a))
    return getattr(a, "digits", None) or (_of_formula(a.expr) if hasattr(a, "expr") else NONE)


def digits_of(name: str, args) -> Digits:
    """The digits of the result of an operation. Of a sum, args has the number of its terms as a last one."""
    if name in SHORT:
        return 1, 1, 0
    if name in ("mul", "square", "matmul", "reduce_sum", "cumsum"):
        parts = [*map(digits, args if name == "matmul" else (args[0], args[-1]))]
        return NONE if NONE in parts else _together(*parts)
    if name == "true_divide":  # by a power of two, or it is rounded
        return _together(digits(args[0]), (0, 0, digits(args[1])[0]))
    if name in ("add", "sub", "where", "maximum", "minimum", "cat", "stack", "remainder"):
        return _together(_most(map(digits, args)), (1, 1, 0))
    if name not in EXACT | WHOLE:
        return UNKNOWN
    return digits(args[-1 if name in ("full", "arange") else 0])


def _most(parts) -> Digits:
    return tuple(map(max, *parts, NONE, NONE))


def _together(*parts) -> Digits:
    return tuple(map(sum, zip(*parts, strict=True)))


def _of_formula(formula: Expr) -> Digits:
    if formula.is_Rational:
        top = (abs(formula.p) // formula.q).bit_length()
        return top, top, (formula.q & -formula.q).bit_length() - 1
    if formula.is_Symbol:
        return *SIZES, 0
    parts = [*map(_of_formula, formula.args)]
    if formula.is_Add:
        more = (len(parts) - 1).bit_length()
        return _together(_most(parts), (more, more, 0))
    if formula.is_Mul:
        return _together(*parts)
    if formula.is_Pow and formula.exp.is_Integer:  # a quotient is rounded in any case
        return _together(NONE, *[parts[0]] * max(int(formula.exp), 0))
    return (*parts[0][:2], 0) if isinstance(formula, floor) else UNKNOWN

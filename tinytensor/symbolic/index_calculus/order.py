"""The order in which a person writes factors and terms, which SymPy does not keep; and numbers as they were written.

Factors: numbers, sizes, names in their order, functions, adjoints, and last the sums. Terms: those with a plus first.
"""

from collections.abc import Sequence

from sympy import Add, Expr, Function, Indexed, KroneckerDelta, Mul, Number, Pow, S, Sum

from tinytensor.symbolic.index_calculus.formulas import Array, Index, Name, free, names_in
from tinytensor.symbolic.index_calculus.functions import upto


def decimal(number: Expr) -> str:
    """A fraction as the decimal number that it was written as, 0.07 or 1e-5; empty for 1/2, 1/3 and whole numbers."""
    if not number.is_Rational or number.q < 8 or pow(10, int(number.q).bit_length(), int(number.q)):
        return ""  # a denominator with another prime factor than 2 and 5 divides no power of 10
    mantissa, _, power = repr(number.p / number.q).partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa


def fraction(number: Expr) -> tuple[list[Expr], list[Expr]]:
    """The numbers above and below the line: 0.07, or 3 and 4 for 3/4; for 100/7 none, and 0.07; 1 is left out."""
    if number.is_Rational and number.p % 10 == 0 and number.q != 1 and decimal(1 / number):
        return [], [1 / number]
    if decimal(number) or not number.is_Rational:
        return [number], []
    return [S(number.p)] * (number.p != 1), [S(number.q)] * (number.q != 1)


def rank(expr: Expr, order: Sequence[Name]) -> tuple:
    """The place of a factor: its kind, and the place of the first of its names."""
    names = [order.index(n) for n in names_in(expr) if n in order]
    arrays = expr.atoms(Array)
    if not free(expr) and not arrays:
        group = 0
    elif isinstance(expr, Sum):
        group = 5
    elif any(a.of is not None for a in arrays):
        group = 4
    elif isinstance(expr, KroneckerDelta | upto):
        group = 3
    elif isinstance(expr, Add) or (isinstance(expr, Pow) and isinstance(expr.base, Add)) or expr.has(Sum):
        group = 2
    else:
        group = 1
    return group, min(names, default=len(order))


def factors_of(expr: Expr, order: Sequence[Name] = ()) -> tuple[Number, list[Expr], list[Expr]]:
    """A product as its number, the factors above the line, and those below it."""
    number, product = expr.as_coeff_Mul()
    above, below = [], []
    for factor in Mul.make_args(product):
        if isinstance(factor, Pow) and factor.exp.is_number and factor.exp.is_negative:
            below.append(1 / factor)
        elif factor != 1:
            above.append(factor)
    key = lambda f: rank(f, order)  # noqa: E731
    return number, sorted(above, key=key), sorted(below, key=key)


def terms_of(expr: Expr, order: Sequence[Name] = ()) -> list[Expr]:
    """The terms of a sum: whole numbers, names in their order, deltas, sums, small numbers; minus after plus."""
    terms = Add.make_args(expr)
    if all(isinstance(t, Index) or not free(t) for t in terms):  # an index and a number, i + 1
        return sorted(terms, key=lambda t: (t.could_extract_minus_sign(), t.is_number))
    return sorted(terms, key=lambda t: _term_rank(t, order))


def in_order_of(axes: Sequence[Index], a: Indexed, b: Indexed) -> list[Indexed]:
    """Two factors of a matrix product in the order of its axes: P_tj V_ji for the entry t, i."""
    rows, columns = ([n for n, i in enumerate(axes) if i in free(x) - free(y)] for x, y in ((a, b), (b, a)))
    return [b, a] if rows and columns and columns[0] < rows[0] else [a, b]


def is_negative(expr: Expr) -> bool:
    """Is it written with a minus in front?"""
    return expr.could_extract_minus_sign() and not expr.is_Add


def signed(terms: list[Expr]) -> list[tuple[bool, Expr]]:
    """Each term without the minus in front of it, and whether it has one."""
    return [(is_negative(t), -t if is_negative(t) else t) for t in terms]


def _term_rank(term: Expr, order: Sequence[Name]) -> tuple:
    negative = is_negative(term)
    if term.is_number:
        return negative, (0, 0) if term.is_Integer else (9, 0), 0
    ranks = [rank(f, order) for f in Mul.make_args(term)]
    number_of_factors = sum(not f.is_number for f in Mul.make_args(term))
    group = max(k for k, _ in ranks)
    group = 0 if isinstance(term, Function) and group == 3 else group
    first = min((n for k, n in ranks if k), default=len(order))
    return negative, (1 if group < 3 else group, first), number_of_factors

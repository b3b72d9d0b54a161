r"""Index calculus: formulas with indices, sums and Kronecker deltas, for sizes that stay symbols.

SymPy supplies the expressions, their arithmetic and the derivative of an elementary function. Sums over indices, which
it gets wrong or leaves as they are, are handled here, by a few rules that each fit in one function:

    fits          an index may stand where its range lies within the range of the place        X_i, i = 1..C
    total         a sum binds its index under a name that no other index has, so nothing is captured
    normal        one form for equal expressions: a sum of products, each product under its sums; then
        spread        products of sums are multiplied out                        (Σ_i a_i)(Σ_j b_j) = Σ_ij a_i b_j
        contract      a delta takes its sum away                                 Σ_i δ(i,j) f(i) = f(j)
                      or fixes an index that stays                               δ(i,j) f(i) = δ(i,j) f(j)
                      a sum over nothing counts                                  Σ_i a = C a
        close         independent sums part again, and bound indices get numbers that depend on the formula alone
    value         the meaning of an expression: plain loops over numbers, with which every rule must agree

Contraction needs no case distinction (SymPy makes a Piecewise of it), because the types say that j lies in the range of
i; if they do not, nothing is contracted, and if they cannot be compared, TypeError is raised.

Every proof for sizes that stay symbols trusts this file, SymPy's arithmetic and its `diff`. The part `index` compares
each rule with plain loops at small sizes. Never trusted here: `simplify`, `doit` or `subs` of a Sum, and derivatives by
a MatrixSymbol; tests/derivations/test_calculus.py shows why.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np
from sympy import (
    Add,
    Dummy,
    Expr,
    Function,
    Indexed,
    IndexedBase,
    KroneckerDelta,
    Mul,
    Pow,
    S,
    Sum,
    Symbol,
    acos,
    asin,
    asinh,
    atan,
    cos,
    erf,
    exp,
    log,
    pi,
    sin,
    sqrt,
    tanh,
)

from tinytensor.symbolic.index_calculus.interruption import step

# ---- sizes, indices, arrays -----------------------------------------------------------------------------------------


class Size(Symbol):
    """The range of an index: a whole number of 1 or more that stays a symbol; `letters` are for indices without one.

    A class of its own, since the source has a size K and a weight K: Size("K") and the label of an array K differ.
    """

    made: ClassVar[dict[str, "Size"]] = {}  # one for each name; SymPy's cache drops those not used recently

    def __new__(cls, name: str, letters: str):
        if name not in cls.made:
            cls.made[name] = super().__new__(cls, name, integer=True, positive=True)
            cls.made[name].letters = letters.split()
        self = cls.made[name]
        if self.letters != letters.split():
            raise ValueError(f"Size({name!r}, {letters!r}): this size has the letters {' '.join(self.letters)} already")
        return self


class Index(Dummy):
    """An index that runs over 1..size. Two Index objects differ even if their names are equal."""

    def __new__(cls, name: str, size: Expr):
        self = super().__new__(cls, name, integer=True, positive=True)
        self.size = size
        return self

    def fresh(self) -> "Index":
        """Another index with the same range."""
        return Index(self.name, self.size)

    @property
    def letters(self) -> list[str]:
        """Its possible names in print, the best first: its own, unless that is the number of a bound index."""
        own = [] if self.name.isdigit() else [self.name]
        return [*own, *getattr(self.size, "letters", []), *"abcdefgh"]

    def _sympystr(self, printer) -> str:
        return f"{self.name}:{self.size}"  # by name and range, for the order of terms


class Array(IndexedBase):
    """A name with indices, each with its range: Array("X", (C, D))[i, j].

    values: for a table of indices such as tokens, their range. positions: where each index is printed, "_" below, "^"
    above, "<" above on the left. of: the array whose adjoint this one is. text and tex: its printed forms.
    """

    def __new__(cls, name, sizes, positions="", values=None, text="", tex="", of=None):
        known = {} if values is None else {"integer": True, "positive": True}
        self = super().__new__(cls, name, shape=tuple(sizes), **known)
        self.sizes, self.values, self.of = tuple(sizes), values, of
        self.positions = positions or "_" * len(self.sizes)
        self.text, self.tex = text or str(name), tex or text or str(name)
        return self

    def __getitem__(self, indices) -> Indexed:
        indices = indices if isinstance(indices, tuple) else (indices,)
        if len(indices) != len(self.sizes):
            raise TypeError(f"{self.label}: {len(indices)} indices, but it has {len(self.sizes)}")
        for index, size in zip(indices, self.sizes, strict=True):
            if not fits(index, size):
                raise TypeError(
                    f"{self.label}: {index} stands where an index of 1..{size} belongs, "
                    f"but it runs up to {top(index)}: check the order of the indices"
                )
        return super().__getitem__(indices if len(indices) > 1 else indices[0])


class Constant(Function):
    """A function of a number whose derivative is taken to be 0."""

    nargs = 1

    def fdiff(self, argindex=1):
        return S.Zero


class PiecewiseConstant(Constant):
    """A function that changes in steps only."""


class Indicator(Function):
    """A function whose values are 0 and 1, so that each positive power of it is the function itself."""

    def _eval_power(self, exponent):
        return self if exponent.is_positive else None


class relu(Function):
    """max(0, x), whose derivative is `theta`. (SymPy's Max has Heaviside, which is 1/2 at 0.)"""

    nargs = 1

    def fdiff(self, argindex=1):
        return theta(self.args[0])


class theta(PiecewiseConstant, Indicator):
    """1 where x > 0, otherwise 0, at 0 as well; its derivative is taken to be 0."""


class larger(Function):
    """max(a, b), whose derivative by a is 1 where a > b, otherwise 0."""

    nargs = 2

    def fdiff(self, argindex=1):
        above = theta(self.args[0] - self.args[1])
        return above if argindex == 1 else 1 - above


class sigmoid(Function):
    """1 / (1 + exp(-x)), whose derivative is written in its own value: σ (1 - σ)."""

    nargs = 1

    def fdiff(self, argindex=1):
        return self * (1 - self)


class softplus(Function):
    """log(1 + exp(x)), whose derivative is `sigmoid`."""

    nargs = 1

    def fdiff(self, argindex=1):
        return sigmoid(self.args[0])


class Phi(Function):
    """The distribution function of the standard normal distribution; its derivative is the density."""

    nargs = 1

    def fdiff(self, argindex=1):
        return exp(-(self.args[0] ** 2) / 2) / sqrt(2 * pi)


class arctan2(Function):
    """The angle of the point (x, y), as arctan2(y, x), from -π to π; its derivative is taken where x² + y² is not 0."""

    nargs = 2

    def fdiff(self, argindex=1):
        y, x = self.args
        return (x if argindex == 1 else -y) / (x**2 + y**2)


class absolute(Function):
    """|x|, whose derivative is `sign`."""

    nargs = 1

    def fdiff(self, argindex=1):
        return sign(self.args[0])


class sign(PiecewiseConstant):
    """1, 0 or -1: the sign of x; its derivative is taken to be 0."""


class same(PiecewiseConstant, Indicator):
    """1 where x = 0, otherwise 0; its derivative is taken to be 0."""


class floored(PiecewiseConstant):
    """The largest whole number that is not above x; its derivative is taken to be 0."""


class detach(Constant):
    """x itself, held constant: its derivative is 0, as after detach()."""


class upto(Indicator):
    """1 where a whole number is at most another one, otherwise 0: upto(m, i) is a causal mask. Its derivative is 0."""

    nargs = 2

    def fdiff(self, argindex=1):
        return S.Zero

    @classmethod
    def eval(cls, index, limit):
        distance = S(limit) - S(index)
        if distance.is_Integer:
            return S.One if distance >= 0 else S.Zero
        return None


def top(index) -> Expr:
    """The largest value that an index, a number, index + number or an entry of a table of indices can take."""
    index = S(index)
    if isinstance(index, Indexed):
        if index.base.values is None:
            raise TypeError(f"{index} is not an index: its values have no range")
        return index.base.values
    return index.xreplace({i: i.size for i in index.atoms(Index)})


def fits(index, size) -> bool | None:
    """Is 1 <= index <= size always? None if the two ranges cannot be compared."""
    if isinstance(index, Index) and index.size == size:
        return True
    return not_negative(S(index) - 1) and not_negative(S(size) - top(index))


def not_negative(number: Expr) -> bool | None:
    """Is a number of sizes and indices 0 or more, whatever they are? They are 1 or more each."""
    if (known := number.is_nonnegative) is not None:
        return known
    if number.has(Sum):  # whose own index is no number
        return None
    above = {x: 1 + Dummy(nonnegative=True, integer=True) for x in number.atoms(Size, Index)}
    return number.xreplace(above).expand().is_nonnegative


def delta(i, j) -> Expr:
    """1 where i = j, otherwise 0, for indices, one of which runs within the range of the other."""
    if fits(i, top(j)) is None:
        raise TypeError(f"delta: {i} and {j} run over different ranges")
    return KroneckerDelta(i, j)


def total(expr, *indices: Index) -> Expr:
    """The sum of expr over indices; each is bound under a new name, so `expr` may be used again."""
    new = {i: i.fresh() for i in indices}
    expr = S(expr).xreplace(new)
    if expr == 0:  # SymPy's derivative of Sum(0)**2 is NaN
        return S.Zero
    return Sum(expr, *[(i, 1, i.size) for i in new.values()]) if new else expr


def fresh(expr: Expr) -> Expr:
    """The same expression, each sum with a new bound index, which no index put in later can equal."""
    if not expr.has(Sum):
        return expr
    if isinstance(expr, Sum):
        return total(fresh(expr.function), *[limit[0] for limit in expr.limits])
    return expr.func(*[fresh(a) for a in expr.args])


def free(expr: Expr) -> set[Index]:
    """The indices that are not bound by a sum."""
    if isinstance(expr, Index):
        return {expr}
    inner = set().union(*[free(a) for a in expr.args]) if expr.args and not isinstance(expr, Array) else set()
    return inner - {limit[0] for limit in expr.limits} if isinstance(expr, Sum) else inner


def derivative(expr: Expr, by: Expr) -> Expr:
    """d expr / d by, with SymPy's diff, for an entry of an array with indices that do not occur in expr."""
    clash = free(by) & free(expr)
    if clash:
        raise TypeError(f"derivative by {by}: {clash.pop()} stands in the expression too; take another index")
    return fresh(expr).diff(by)


# ---- the normal form ------------------------------------------------------------------------------------------------


def normal(expr) -> Expr:
    """The normal form: equal polynomials in entries, deltas and functions of them have the same one.

    A difference whose normal form is 0 is 0, for all sizes and values. The converse does not hold: the arguments of
    functions (exp, a power that is no positive whole number) are normalised, but their laws are not used.
    """
    expr = S(expr)
    if loose := [i for i in free(expr) if isinstance(i, _Numbered)]:
        raise TypeError(f"normal: {loose[0]} belongs to a sum of a normal form; put a fresh index in its place")
    form = Add(*[close(*contract(product, bound)) for product, bound in spread(expr)])
    inside = any(p.has(Sum) for p in form.atoms(Function, Pow) if not isinstance(p, Sum | KroneckerDelta))
    return normal(form) if inside and form != expr else form  # a contraction may have changed the arguments


def normal_of_steps(expr) -> Expr:
    """The normal form in which everything that has a corner is written with `theta`, away from its corners.

    max(a, b) is b + (a - b) θ(a - b), |x| is x (2 θ(x) - 1), θ(-x) is 1 - θ(x), and e^(y θ(x)) is θ(x) e^y + 1 - θ(x).
    Assumed is that no two numbers that are compared are equal: there the derivatives are a convention.
    """
    expr = normal_of_quotients(_in_steps(S(expr))).replace(exp, _exp_of_step)
    while True:
        form = expr.replace(theta, _step)
        if (form := normal_of_quotients(form)) == expr:
            return expr
        expr = form


def vanishes_in_cells(expr, cells: int = 64) -> bool:
    """Is the expression 0 wherever no two numbers that are compared are equal, by a look at each cell between corners?

    Its steps must lie at numbers, θ(a v + b) for numbers a and b, such as those of a clamp, |v| or a Huber loss. Each
    is 0 or 1 in a cell, where the rest is compared by its normal form. False for other steps, and for too many cells.
    """
    return _vanishes(_in_steps(S(expr)), {}, [cells])


def _in_steps(expr: Expr) -> Expr:
    """The expression with `theta` for everything that has a corner."""
    expr = expr.replace(larger, lambda a, b: b + (a - b) * theta(a - b)).replace(relu, lambda x: x * theta(x))
    expr = expr.replace(absolute, lambda x: x * (2 * theta(x) - 1)).replace(sign, lambda x: 2 * theta(x) - 1)
    return expr.replace(same, lambda x: S.Zero)


def _vanishes(expr: Expr, bounds: dict[Expr, tuple[Expr, Expr]], left: list[int]) -> bool:
    """The same within bounds of some expressions; `left` counts the cells that may still be looked at."""
    steps = [s for s in expr.atoms(theta) if not s.args[0].has(theta)]
    if not steps:
        left[0] -= 1
        return left[0] >= 0 and normal_of_quotients(expr) == 0
    if not all(free(s) <= free(expr) for s in steps):  # a step inside of a sum is 0 for some of its terms, 1 for others
        return False
    step = min(steps, key=str)
    whole = normal(step.args[0])
    if whole.is_number:
        return _vanishes(expr.xreplace({step: S.One if whole.is_positive else S.Zero}), bounds, left)
    number, rest = whole.as_coeff_Add()
    slope, inner = rest.as_coeff_Mul() if not isinstance(rest, Add) else _primitive(rest)
    corner = -number / slope
    low, high = bounds.get(inner, (S.NegativeInfinity, S.Infinity))
    for above, inside in ((True, (max(low, corner), high)), (False, (low, min(high, corner)))):
        if inside[0] < inside[1] and left[0] > 0:
            value = S.One if above == (slope > 0) else S.Zero
            if not _vanishes(expr.xreplace({step: value}), bounds | {inner: inside}, left):
                return False
    return left[0] >= 0


def _primitive(sum_: Add) -> tuple[Expr, Expr]:
    """A sum as a number times a sum whose first coefficient is 1."""
    first = min(sum_.args, key=lambda term: str(term.as_coeff_Mul()[1]))
    number = first.as_coeff_Mul()[0]
    return number, Add(*[term / number for term in sum_.args])


def of_whole_numbers(expr: Expr) -> Expr:
    """The expression with one form for each comparison of whole numbers.

    m <= i is also not i + 1 <= m; and m <= i + 2 is m <= i, or m = i + 1, or m = i + 2.
    """

    def compared(index: Expr, limit: Expr) -> Expr:
        distance = (limit - index).expand()
        symbols = sorted(distance.atoms(Index, Size, Indexed), key=lambda s: (str(s), isinstance(s, Index)))
        if not symbols:
            return upto(index, limit)
        if distance.coeff(symbols[0]).is_negative:
            return 1 - compared(S.Zero, -distance - 1)
        offset, rest = distance.as_coeff_Add()
        if (
            offset.is_Integer
            and abs(offset) <= NEAR
            and len(symbols) == 2
            and all(isinstance(s, Index) for s in symbols)
        ):
            one, other = symbols
            if rest == one - other:
                between = range(1, int(offset) + 1) if offset > 0 else range(int(offset) + 1, 1)
                steps = Add(*[KroneckerDelta(other, one + k) for k in between])
                return upto(other, one) + (steps if offset > 0 else -steps)
        return upto(S.Zero, distance)

    return expr.replace(upto, compared)


NEAR = 4  # offsets of a comparison that are written out


def _exp_of_step(x: Expr) -> Expr:
    steps = [f for f in Mul.make_args(x) if isinstance(f, theta)]
    return exp(x) if not steps else steps[0] * (exp(x / steps[0]) - 1) + 1


def _step(x: Expr) -> Expr:
    """θ(x) for one of x and -x, and for x instead of x θ(x)."""
    inside = Mul(*[f for f in Mul.make_args(x) if not isinstance(f, theta) and not (f.is_number and f.is_positive)])
    if isinstance(x, Mul) and inside != x and all(f.args[0] == inside for f in x.args if isinstance(f, theta)):
        return theta(inside)
    return 1 - theta(-x) if x.could_extract_minus_sign() else theta(x)


def normal_of_quotients(expr) -> Expr:
    """The normal form in which quotients are divided out: e/(1 + e) is 1 - 1/(1 + e).

    Sigmoids, softplus and the hyperbolic tangent are written in exponentials. A denominator that is a sum of several
    terms, none of them a sum over an index, is divided into the products that hold its leading term. Equal quotients
    of polynomials then have the same form. Assumed is that no denominator is 0.
    """
    rules = [(sigmoid, lambda x: 1 / (1 + exp(-x))), (softplus, lambda x: log(1 + exp(x)))]
    rules += [(tanh, lambda x: 1 - 2 / (1 + exp(2 * x))), (Phi, lambda x: (1 + erf(x / sqrt(2))) / 2)]
    expr = S(expr)
    for function, written in rules:
        expr = expr.replace(function, written)
    form = normal(normal(expr).replace(lambda e: isinstance(e, Pow) and e.base.is_Add, _in_one_exponential))
    form = form.replace(log, _log_of_exponentials)
    form = form.replace(lambda e: isinstance(e, Pow) and e.base.is_Add, _numbers_in_front)
    form = form.replace(lambda e: isinstance(e, Pow) and e.exp.is_Add, lambda e: Mul(*[e.base**a for a in e.exp.args]))
    while (divided := normal(_divide(form))) != form:
        form = divided
    return form


def _log_of_exponentials(x: Expr) -> Expr:
    """log(e^a x) as a + log(x)."""
    if isinstance(x, Add) and (taken := _leading_exponential(x)) is not None:
        return taken[0] + log(taken[1])
    factors = Mul.make_args(x)
    outside = [factor.args[0] for factor in factors if isinstance(factor, exp)]
    return Add(*outside, log(Mul(*[factor for factor in factors if not isinstance(factor, exp)])))


def _in_one_exponential(power: Pow) -> Expr:
    """A power of a sum of exponentials, with one of them taken out: 1 + e^(-x) is e^(-x) (1 + e^x), or stays."""
    taken = _leading_exponential(power.base)
    return power if taken is None else exp(taken[0] * power.exp) * taken[1] ** power.exp


def _leading_exponential(total_: Add) -> tuple[Expr, Expr] | None:
    """The exponent a, and e^(-a) times a sum of exponentials, for the a whose form comes first; None for other sums."""
    exponents = {}
    for term in total_.args:
        number, rest = term.as_coeff_Mul()
        factors = [] if rest == 1 else Mul.make_args(rest)
        if not all(isinstance(factor, exp) for factor in factors):
            return None
        exponents[Add(*[factor.args[0] for factor in factors])] = number
    choices = []
    for first in exponents:
        inside = Add(*[number * exp(e - first) for e, number in exponents.items()])
        choices.append((str(inside), first, inside))
    return min(choices)[1:]


def _numbers_in_front(power: Pow) -> Expr:
    """A power of a sum with the number of its first term, and the factors of sizes of all terms, taken out.

    √(a/(N - 1) + b/(N - 1)) is √(a + b)/√(N - 1), and 1/(1/2 + a/2) is 2/(1 + a). A factor of 0 or more leaves a power;
    where it is 0, it stands in a denominator, or both forms are 0.
    """
    terms = [dict(term.as_powers_dict()) for term in power.base.args]
    first = min(power.base.args, key=lambda term: str(term.as_coeff_Mul()[1]))
    number = first.as_coeff_Mul()[0]
    if all(isinstance(s, Size) for s in power.base.free_symbols):  # N - 1, which is 0 or more
        number = -abs(number) if not_negative(-power.base) else abs(number)
    outside = [(number if power.exp.is_Integer else abs(number), S.One)]
    for base in sorted(terms[0], key=str):
        if base.is_number or not base.free_symbols or any(not isinstance(s, Size) for s in base.free_symbols):
            continue
        exponents = [term.get(base, S.Zero) for term in terms]
        if not all(e.is_Integer for e in exponents) or not not_negative(base):
            continue
        if all(e > 0 for e in exponents) or all(e < 0 for e in exponents):
            outside.append((base, min(exponents) if exponents[0] > 0 else max(exponents)))
    if outside == [(S.One, S.One)]:
        return power
    factor = Mul(*[base**exponent for base, exponent in outside])
    inside = Add(*[term / factor for term in power.base.args])
    return Mul(*[base ** (exponent * power.exp) for base, exponent in outside]) * inside**power.exp


def _divide(expr: Expr) -> Expr:
    """The expression after one division in each of its products."""
    step()
    if isinstance(expr, Sum):
        return total(_divide(expr.function), *[limit[0] for limit in expr.limits]) if expr.function.has(Pow) else expr
    if isinstance(expr, Add):
        return Add(*[_divide(a) for a in expr.args])
    if not isinstance(expr, Mul):
        return expr
    for factor in expr.args:
        if not (isinstance(factor, Pow) and factor.exp.is_Integer and factor.exp < 0 and factor.base.is_Add):
            continue
        base = factor.base
        if base.has(Sum):
            continue
        lead = max((t for t in base.args if not t.is_number), key=str)
        number, term = lead.as_coeff_Mul()
        rest = expr / factor
        quotient = rest / term
        if _holds(rest, term):  # term / base = (1 - (base - lead) / base) / number
            left = base ** (factor.exp + 1)
            return quotient * (left - (base - lead) * factor) / number
    return Mul(*[_divide(a) if isinstance(a, Sum) else a for a in expr.args])


def _holds(product: Expr, term: Expr) -> bool:
    """Is the term a factor of the product? e^(2x) holds e^x."""
    for factor in Mul.make_args(term):
        base, power = factor.as_base_exp() if not isinstance(factor, exp) else (factor, 1)
        available = S.Zero
        for own in Mul.make_args(product):
            if isinstance(base, exp):
                if isinstance(own, exp):
                    ratio = own.args[0] / base.args[0]
                    available += ratio if ratio.is_Integer and ratio > 0 else 0
            elif own.as_base_exp()[0] == base and own.as_base_exp()[1].is_Integer:
                available += own.as_base_exp()[1]
        if available < power:
            return False
    return True


def spread(expr: Expr) -> list[tuple[Expr, list[Index]]]:
    """expr as a sum of products, each with its bound indices, which are new."""
    step()
    if isinstance(expr, Add):
        return [term for a in expr.args for term in spread(a)]
    if isinstance(expr, Sum) and expr.function == 0:
        return [(S.Zero, [])]
    if isinstance(expr, Sum):
        expr = total(expr.function, *[limit[0] for limit in expr.limits])
        indices = [limit[0] for limit in expr.limits]
        return [(product, bound + indices) for product, bound in spread(expr.function)]
    if isinstance(expr, Mul):
        return _multiplied(expr.args)
    if isinstance(expr, Pow) and expr.exp.is_Integer and expr.exp > 0 and (expr.base.is_Add or expr.base.has(Sum)):
        return _multiplied([expr.base] * int(expr.exp))
    if isinstance(expr, Pow) and (expr.base.is_Add or expr.base.is_Mul or expr.base.has(Sum)):
        power = normal(expr.base) ** expr.exp
        return _multiplied(power.args) if power.is_Mul and power != expr else [(power, [])]
    if isinstance(expr, exp):  # e^(a + b) = e^a e^b: a factor that has no index of a sum can leave it
        return [(Mul(*[exp(term) for term in Add.make_args(normal(expr.args[0]))]), [])]
    if isinstance(expr, Function) and not isinstance(expr, KroneckerDelta):
        return [(expr.func(*[normal(a) for a in expr.args]), [])]
    return [(expr, [])]


def _multiplied(factors) -> list[tuple[Expr, list[Index]]]:
    terms = [(S.One, [])]
    for factor in factors:
        parts = spread(factor)
        terms = [(p * q, a + b) for p, a in terms for q, b in parts]
    return terms


def contract(product: Expr, bound: list[Index]) -> tuple[Expr, list[Index]]:
    """Use every delta of a product, and count the sums over nothing."""
    bound = list(bound)
    step()
    while (used := _one_delta(product, bound)) is not None:
        product, bound = used
    for i in [i for i in bound if not product.has(i)]:
        product, bound = product * i.size, [j for j in bound if j is not i]
    return product, bound


def _one_delta(product: Expr, bound: list[Index]) -> tuple[Expr, list[Index]] | None:
    """The product after one use of one delta, or None if no delta can be used."""
    factors = Mul.make_args(product)
    if (changed := _entry_for_number(factors)) is not None:
        return changed, bound
    for at, factor in enumerate(factors):
        if not isinstance(factor, KroneckerDelta):
            continue
        rest = Mul(*factors[:at], *factors[at + 1 :])
        for x, y in (factor.args, factor.args[::-1]):
            if not isinstance(x, Index) or y.has(x):
                continue
            if not free(y) and (y - x.size).is_positive:
                return S.Zero, []  # x never gets as far as y
            within = fits(y, x.size)
            if within is None:
                if _is_index(y):
                    raise TypeError(f"contract: {x} and {y} run over different ranges")
                continue  # a number, such as 3, which lies in the range at some sizes only: the delta stays
            if within and x in bound:
                return rest.xreplace({x: y}), [i for i in bound if i is not x]
            # both stay: the first in a fixed order replaces the other
            if (
                within
                and rest.has(x)
                and y not in bound
                and (not isinstance(y, Index) or index_order(y) < index_order(x))
            ):
                return factor * rest.xreplace({x: y}), bound
    return None


def _is_index(expr: Expr) -> bool:
    """Is it an index or an entry of a table of indices, perhaps with a number added?"""
    moving = [term for term in Add.make_args(expr) if free(term)]
    return len(moving) == 1 and isinstance(moving[0], Index | Indexed)


def _entry_for_number(factors: tuple[Expr, ...]) -> Expr | None:
    """The product with an entry for a number that it equals, in another delta: δ(t_n, 1) δ(i, 1) = δ(t_n, 1) δ(i, t_n).

    The entry lies in the range of its index at all sizes, which a number such as 3 does not.
    """
    deltas = [f for f in factors if isinstance(f, KroneckerDelta)]
    for factor, other in itertools.permutations(deltas, 2):
        entry = next((x for x in factor.args if isinstance(x, Indexed)), None)
        number = next((x for x in factor.args if not free(x)), None)
        if entry is not None and number is not None and number in other.args:
            (index,) = set(other.args) - {number}
            if isinstance(index, Index):
                return Mul(*[f for f in factors if f is not other], KroneckerDelta(index, entry))
    return None


def index_order(i: Index):
    """The key of a fixed order of indices."""
    return i.name, i.dummy_index


def close(product: Expr, bound: list[Index], numbered: Callable[[Expr, set[Index]], Expr] | None = None) -> Expr:
    """The product under its sums, as a product of independent sums with numbered indices.

    numbered: what makes such a sum of a product and its bound indices.
    """
    numbered = numbered or _numbered
    groups = []  # (indices, factors) of sums that have an index in common
    for factor in Mul.make_args(product):
        indices, factors = {i for i in bound if factor.has(i)}, [factor]
        for group in [g for g in groups if g[0] & indices]:
            groups.remove(group)
            indices, factors = indices | group[0], factors + group[1]
        groups.append((indices, factors))
    return Mul(*[numbered(Mul(*factors), indices) for indices, factors in groups])


def _numbered(product: Expr, bound: set[Index]) -> Expr:
    """The sum of a product, with bound indices numbered so that the result does not depend on their names.

    Of all ways to number the indices of each range, the one whose formula sorts first is taken.
    """
    if not bound:
        return product
    taken = product.atoms(Index)  # among them the numbers of sums in functions
    ranges = {}
    for i in sorted(bound, key=index_order):
        ranges.setdefault(i.size, []).append(i)
    choices = []
    for size, indices in sorted(ranges.items(), key=str):
        numbers = [b for n in range(len(indices) + len(taken)) if (b := bound_index(size, n)) not in taken]
        choices.append([dict(zip(order, numbers)) for order in itertools.permutations(indices)])
    forms = []
    for choice in itertools.product(*choices):
        step()
        names = {i: b for part in choice for i, b in part.items()}
        forms.append((product.xreplace(names), sorted(names.values(), key=str)))
    form, indices = min(forms, key=lambda form: str(form[0])) if len(forms) > 1 else forms[0]
    return Sum(form, *[(i, 1, i.size) for i in indices])


class _Numbered(Index):
    """A bound index of a normal form."""

    def fresh(self) -> Index:
        return Index(self.name, self.size)


@cache
def bound_index(size: Expr, number: int) -> _Numbered:
    """The index of this range with this number, used in normal forms only."""
    return _Numbered(str(number), size)


# ---- the meaning: plain loops ----------------------------------------------------------------------------------------


def value(expr: Expr, at: dict):
    """The value of an expression by plain loops: the meaning that every rule above must preserve.

    at: numbers for indices, sizes and symbols, and NumPy arrays (entry 1 comes first) for Arrays. Exact for Fractions
    as long as no function or root occurs.
    """
    if expr in at:
        return at[expr]
    if expr is pi or expr.is_infinite:
        return float(expr)
    if expr.is_Rational:
        return int(expr) if expr.is_Integer else Fraction(int(expr.p), int(expr.q))
    if isinstance(expr, Sum):
        return sum(value(expr.function, here) for here in everywhere([limit[0] for limit in expr.limits], at))
    if isinstance(expr, Indexed):
        return at[expr.base][tuple(value(i, at) - 1 for i in expr.indices)]
    if hasattr(expr, "number_at"):  # a number that is made from a whole matrix (linear_algebra.py)
        return expr.number_at(at)
    arguments = [value(a, at) for a in expr.args]
    if isinstance(expr, KroneckerDelta):
        return int(arguments[0] == arguments[1])
    return _MEANING[expr.func](*arguments)


_MEANING = {
    Add: lambda *terms: sum(terms),
    Mul: lambda *factors: math.prod(factors),
    Pow: lambda base, exponent: Fraction(base) ** exponent if isinstance(base, int) else base**exponent,
    exp: math.exp,
    log: math.log,
    relu: lambda x: max(x, 0),
    theta: lambda x: int(x > 0),
    larger: max,
    sigmoid: lambda x: 1 / (1 + math.exp(-x)),
    softplus: lambda x: math.log1p(math.exp(x)),
    Phi: lambda x: math.erfc(-x / math.sqrt(2)) / 2,
    arctan2: math.atan2,
    absolute: abs,
    sign: lambda x: (x > 0) - (x < 0),
    same: lambda x: int(x == 0),
    floored: math.floor,
    detach: lambda x: x,
    upto: lambda index, limit: int(index <= limit),
    sin: math.sin,
    cos: math.cos,
    tanh: math.tanh,
    asin: math.asin,
    acos: math.acos,
    atan: math.atan,
    asinh: math.asinh,
    erf: math.erf,
}


def everywhere(indices: Iterable[Index], at: dict) -> Iterator[dict]:
    """`at` with numbers for these indices as well, one dict for each combination of their values."""
    indices = list(indices)
    for numbers in itertools.product(*[range(1, value(i.size, at) + 1) for i in indices]):
        yield at | dict(zip(indices, numbers))


def sizes_of(array: Array) -> set[Size]:
    """The symbols in an array's sizes, and in the range of its values."""
    return {symbol for size in (*array.sizes, S(array.values or 0)) for symbol in size.atoms(Size)}


def random_entries(array: Array, at: dict, rng: random.Random, number: Callable[[random.Random], object]) -> np.ndarray:
    """Random entries: numbers, or indices where the array is a table of them."""
    entries = np.empty([value(size, at) for size in array.sizes], dtype=object)
    for where in np.ndindex(entries.shape):
        entries[where] = number(rng) if array.values is None else rng.randint(1, value(array.values, at))
    return entries

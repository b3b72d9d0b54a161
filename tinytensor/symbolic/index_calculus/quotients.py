"""Fractions of polynomials over entries, sums and functions: the normal form by which a formula is seen to be 0.

Each entry, each sum in its normal form and each value of a function is a variable of a fraction (exact/zero_test.py).
Besides √u² = u, exp(a + b) = exp(a) exp(b) and log(exp a) = a, these laws are used:

    sums        Σ_j of a fraction is a sum of its parts: e/(1 + e) is 1 - 1/(1 + e). What has no j leaves the sum.
    roots       √(a b) = √a √b, log(a b) = log a + log b where both are above 0; √u² = |u|
    steps       [x > 0]² = [x > 0], |x| = x (2 [x > 0] - 1), e^([x > 0] y) = 1 + [x > 0] (e^y - 1)
    angles      sin² + cos² = 1, and the angles a + b and n a in those of a and b

`Quotients.assumed` has the conditions on values that the laws need.
"""

import sympy
from sympy import Add, Expr, Indexed, KroneckerDelta, Mul, Pow, S, Sum, Symbol, cos, expand, log, sin
from sympy.polys.orderings import lex
from sympy.polys.rings import ring

from tinytensor.symbolic.exact.zero_test import Fractions
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, free, fresh, normal, not_negative, total
from tinytensor.symbolic.index_calculus.functions import (
    HEADS,
    TABLE,
    Indicator,
    PiecewiseConstant,
    absolute,
    same,
    theta,
    upto,
    with_need,
)
from tinytensor.symbolic.index_calculus.interruption import step
from tinytensor.symbolic.index_calculus.linear_algebra import OfMatrix
from tinytensor.symbolic.index_calculus.signs import Signs, pattern

LEAVES = Symbol | Indexed | OfMatrix | KroneckerDelta | upto
UNDEFINED = (S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity, sympy.I)
TURNS = 4  # sin(4 x) is written in sin x and cos x, sin(5 x) is not
LETTERS = 200  # of a formula, in the name of its variable


class Quotients(Fractions):
    """The variables of one formula; ties: are numbers that are compared assumed to differ?"""

    def __init__(self, known: Signs, ties: bool = False):
        super().__init__()
        self.known, self.ties = known, ties
        self.assumed: set[str] = set()  # keys of conditions.VALUES, and "equality" for x == y
        self.written: dict[Symbol, Expr] = {}  # the formula of each variable
        self.above: dict[Expr, str] = {}  # what is above 0, see `pattern`: a "root" or "logarithm" is taken of it
        self.fractions: dict[Expr, tuple[Expr, Expr]] = {}

    def vanishes(self, formula: Expr) -> bool:
        """Is it 0, under the conditions that are `assumed` then?"""
        if formula.has(*UNDEFINED):
            return False
        try:
            self.assumed = self.known.needs(formula)
            self._note_arguments(formula)
            return self.is_zero(formula)
        except (TypeError, ZeroDivisionError):  # indices of two ranges meet; a denominator is 0
            return False

    def back(self, flat: Expr) -> Expr:
        """The formula with the variables written out."""
        return flat.xreplace(self.written)

    def fraction(self, flat: Expr) -> tuple[Expr, Expr]:
        if flat not in self.fractions:
            step()
            self.fractions[flat] = super().fraction(flat)
        return self.fractions[flat]

    def atom(self, name: str, argument: Expr) -> Symbol:
        """The variable of a function's value, or of a "formula" that has no laws."""
        key = name, argument
        if key not in self.atoms:
            if name == "formula":
                formula = argument
            elif name.startswith("root"):
                formula = self.back(argument) ** sympy.Rational(1, int(name.removeprefix("root")))
            else:
                formula = TABLE[name].head(self.back(argument))
            # Variables are ordered by their names: fresh indices of a sum have the names of those that they replace.
            self.atoms[key] = variable = Symbol(f"{str(formula)[:LETTERS]}#{len(self.atoms)}")
            self.written[variable] = formula
        return self.atoms[key]

    def leaf(self, formula: Expr) -> Symbol:
        """The variable of a formula that has no laws but that its square is itself, if it is 0 or 1."""
        variable = self.atom("formula", formula)
        if isinstance(formula, Indicator | KroneckerDelta):
            self.roots[variable] = variable, 2
        return variable

    def _flat(self, expr: Expr) -> Expr:
        step()
        if expr is S.Exp1:
            return self.exp(S.One)
        if isinstance(expr, LEAVES) or (expr.is_number and expr.is_Atom):
            return self.leaf(expr)
        if isinstance(expr, Sum):
            return self._sum(expr)
        if isinstance(expr, Pow) and not expr.exp.is_Integer:
            return self._power(*expr.args)
        row = HEADS.get(expr.func)
        if row is not None and row.form is not None:
            return self.flat(row.form(*expr.args))
        if isinstance(expr, same) and self.ties and (truth := off_ties(*expr.args, self.known)).is_number:
            self.assumed |= {"tie", "equality"}
            return truth
        if isinstance(expr, theta):
            return self._step(self.flat(expr.args[0]))
        if isinstance(expr, sin | cos):
            return self._angle(self.flat(expr.args[0]))[isinstance(expr, cos)]
        if isinstance(expr, sympy.Function) and (row is None or not row.elementary):
            arguments = [self.fraction(self.flat(a)) for a in expr.args]
            return self.leaf(expr.func(*[self.back(over / under) for over, under in arguments]))
        return super()._flat(expr)

    # ---- sums

    def _sum(self, expr: Sum) -> Expr:
        """A sum as sums over the parts of its fraction, each in its normal form."""
        bound = [limit[0].fresh() for limit in expr.limits]
        inside = expr.function.xreplace({limit[0]: i for limit, i in zip(expr.limits, bound, strict=True)})
        form = normal(total(self._in_parts(self.flat(inside), bound), *bound))
        for sum_ in form.atoms(Sum):
            if sum_ not in self.flattened:
                known = _sum_of_powers(sum_)
                self.flattened[sum_] = self.leaf(sum_) if known is None else self.flat(known)
        return self.flat(form)

    def _in_parts(self, flat: Expr, bound: list[Index]) -> Expr:
        """A formula in which each denominator with these indices is divided into the numerator, as far as it goes."""
        over, under = self.fraction(flat)
        over = self._reduced(over)
        moving = {v for v in over.free_symbols | under.free_symbols if self.written[v].has(*bound)}
        if not under.free_symbols & moving:
            return self.back(over / under)
        number, factors = sympy.factor_list(under)
        own = [(f, m) for f, m in factors if f.free_symbols & moving]
        beside = number * Mul(*[f**m for f, m in factors if not f.free_symbols & moving])
        names = sorted(over.free_symbols | under.free_symbols, key=lambda v: (v not in moving, str(v)))
        domain = ring(names, sympy.QQ, lex)[0]
        divisors = [domain.from_expr(f) for f, _ in own]
        waiting = {tuple(m for _, m in own): domain.from_expr(over)}
        parts: list[Expr] = []
        while waiting:
            step()
            powers = max(waiting)
            rest = waiting.pop(powers)
            for k, divisor in enumerate(divisors):
                if powers[k]:
                    (quotient,), rest = rest.div([divisor])
                    if quotient:
                        fewer = (*powers[:k], powers[k] - 1, *powers[k + 1 :])
                        waiting[fewer] = waiting.get(fewer, domain.zero) + quotient
            parts.append(self.back(rest.as_expr() / Mul(*[f**p for (f, _), p in zip(own, powers, strict=True)])))
        return Add(*parts) / self.back(beside)

    def _reduced(self, polynomial: Expr) -> Expr:
        """The polynomial after the laws of roots and steps whose radicands are polynomials."""
        for root, (base, degree) in reversed(self.roots.items()):
            if root in polynomial.free_symbols:
                over, under = self.fraction(base)
                if not under.free_symbols and sympy.degree(polynomial, root) >= degree:
                    polynomial = expand(sympy.prem(polynomial, root**degree - over / under, root))
        return polynomial

    # ---- signs

    def _note_arguments(self, formula: Expr) -> None:
        """Note each factor of an argument of a root or a logarithm that is the only one whose sign is not known."""
        arguments = [(e.args[0], "logarithm") for e in formula.atoms(log)]
        arguments += [(p.base, "root") for p in formula.atoms(Pow) if p.exp.is_Rational and not p.exp.is_Integer]
        for argument, key in sorted(arguments, key=str):
            number, factors = self.factors(self.flat(argument.xreplace({i: i.fresh() for i in free(argument)})))
            signs = [(f, power, self.sign(f)) for f, power in factors]
            unknown = [f for f, power, own in signs if not own and power % 2]
            if len(unknown) == 1 == len([f for f, _, own in signs if not own]):
                known = sympy.sign(number) * Mul(*[own**power for _, power, own in signs if own])
                self.above[pattern((known * self.back(*unknown)).expand())] = key

    def sign(self, polynomial: Expr, above: bool = False) -> Expr:
        """1 or -1 if it is known to be above or below 0; unless `above`, a size that may be 0 counts as above."""
        formula = self.back(polynomial)
        for number, own in ((S.One, formula), (S.NegativeOne, (-formula).expand())):
            of_sizes = not above and all(isinstance(s, Size) for s in own.free_symbols) and not_negative(own)
            if self.known.positive(own) or of_sizes:
                return number
            if (key := self.above.get(pattern(own))) is not None:
                self.assumed.add(key)
                return number
        return S.Zero

    def apart(self, flat: Expr) -> list[tuple[Expr, int]]:
        """The same, with |u| for the root of u²."""
        *known, (rest, power) = super().apart(flat) or [(S.One, 1)]
        squares = [(u, n) for u, n in self.factors(rest)[1] if n % 2 == 0]
        rest /= Mul(*[u**n for u, n in squares])
        known += [(self.flat(absolute(self.back(u))), n) for u, n in squares]
        return known if rest == 1 else [*known, (rest, power)]

    def assume_above_zero(self, *bases: Expr) -> None:
        if not all(self.known.positive(self.back(base)) for base in bases):
            self.assumed.add("logarithm")

    # ---- functions

    def _power(self, base: Expr, power: Expr) -> Expr:
        """A power that is no whole number."""
        if not power.is_Rational and base.is_number and not base.is_positive:
            return self.leaf(base**power)
        if power.is_Rational:
            return self.root(self.flat(base), power.q) ** power.p
        return self.exp(self.flat(power) * self.log(self.flat(base)))

    def _step(self, u: Expr) -> Expr:
        """[u > 0]: steps among the factors stand before it, and factors above 0 are left out."""
        number, factors = self.factors(u)
        steps, rest = S.One, S(sympy.sign(number))
        for f, power in factors:
            if self.roots.get(f) == (f, 2):
                steps *= f
            elif sign_ := self.sign(f, above=True):
                rest *= sign_**power
            elif power % 2:
                rest *= f
            elif power > 0:  # f² > 0 where f ≠ 0
                rest *= 1 if self.ties else f**2
                self.assumed |= {"tie"} if self.ties else set()
        rest = expand(rest)
        if rest.is_number:
            return steps if rest > 0 else S.Zero
        terms = Add.make_args(rest)
        if self.ties and min(terms, key=str).as_coeff_Mul()[0] < 0:
            self.assumed.add("tie")
            return steps * (1 - self.leaf(theta(self.back(expand(-rest)))))
        return steps * self.leaf(theta(self.back(rest)))

    def _angle(self, u: Expr) -> tuple[Expr, Expr]:
        """sin u and cos u."""
        over, under = self.fraction(u)
        one, other = S.Zero, S.One
        for term in Add.make_args(over):
            factor, rest = term.as_coeff_Mul()
            if not (factor.is_Integer and abs(factor) <= TURNS):
                factor, rest = sympy.sign(factor), abs(factor) * rest
            sine, cosine = (self.atom(name, rest / under) for name in ("sin", "cos"))
            self.roots[sine] = 1 - cosine**2, 2
            sine = sine if factor > 0 else -sine
            for _ in range(abs(int(factor))):
                one, other = expand(one * cosine + other * sine), expand(other * cosine - one * sine)
        return one, other


def in_steps(formula: Expr) -> Expr:
    """The formula with steps for everything that has a corner."""
    for function in with_need("tie"):
        if HEADS[function].form is not None:
            formula = formula.replace(function, HEADS[function].form)
    return formula


def _sum_of_powers(sum_: Sum) -> Expr | None:
    """Σ_i i^k over 1..N by Bernoulli's polynomial; None for another sum."""
    (index, _, size), *others = sum_.limits
    base, power = sum_.function.as_base_exp()
    if others or base != index or not (power.is_Integer and power > 0 and not_negative(size)):
        return None
    return expand(sympy.bernoulli(power + 1, size + 1) - sympy.bernoulli(power + 1, 1)) / (power + 1)


def off_ties(x: Expr, known: Signs) -> Expr:
    """[x = 0] where numbers that are compared differ: known of a number, and 0 where x can be 0 in few points alone.

    So it is for a polynomial in an entry of an array that stands nowhere else in x, with a first factor other than 0;
    for a root of such an x, and for a sum of such terms that are not below 0, if it is not empty.
    All others stay: a clamped number, a step or whole numbers may be equal at all values of a size.
    """
    form = normal(fresh(x).xreplace({i: i.fresh() for i in free(x)}))  # of a sum around it
    factors = [f for f in Mul.make_args(form) if not f.is_number and not known.not_zero(f)]
    if len(factors) == 1 and isinstance(factors[0], Pow) and factors[0].exp.is_positive:
        form = factors[0].base
    if isinstance(form, Sum) and known.not_negative(form.function):
        filled = all(not_negative(size - 1) for _, _, size in form.limits)
        return S.Zero if filled and off_ties(form.function, known) is S.Zero else same(x)
    if form.is_number:
        return S(int(form == 0))
    entries = form.atoms(Indexed, Symbol) - {a.label for a in form.atoms(Array)}
    names = {e: e.base if isinstance(e, Indexed) else e for e in entries if not e.is_integer}
    defined = not known.right.keys().isdisjoint(names.values())
    if defined or form.has(*with_need("tie"), PiecewiseConstant, upto, KroneckerDelta, Sum):
        return same(x)
    for e, name in names.items():
        alone = list(names.values()).count(name) == 1 and getattr(name, "values", None) is None
        polynomial = form.as_poly(e) if alone else None
        if polynomial is not None and polynomial.degree() > 0 and known.not_zero(polynomial.LC()):
            return S.Zero
    return same(x)

"""Is an expression zero? It is brought to one fraction of polynomials, with the values of functions as variables.

SymPy's `simplify` tries a hundred things and may fail at any size; this does one thing. From the inside out each
exp(u), log(u), sqrt(u) ... becomes a variable of its own (an atom), named by its function and the normal form of u.
These rules are applied first:

    exp(u + v) = exp(u) exp(v),   exp(n log u) = u^n,   log(exp(u) v) = u + log(v),   sqrt(u)^2 = u,
    log(u v) = log(u) + log(v) and sqrt(u v) = sqrt(u) sqrt(v) where one of u and v is known to be above 0.

Then the expression is a fraction of polynomials, and it is zero if its numerator is. So `True` is a proof, where each
argument of a root or a logarithm is above 0; `False` says that these rules do not suffice.
"""

import itertools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import sympy
from sympy import QQ, S
from sympy.polys.fields import field
from sympy.polys.rings import PolyElement, ring

from tinytensor.symbolic.index_calculus.functions import HEADS, TABLE, Functions
from tinytensor.symbolic.index_calculus.interruption import step

HIGH = 8  # a power of an exponential that would make a monstrous polynomial
TERMS = 60  # a longer polynomial is not taken apart into factors


# Operations have roots of 2 and pi as floats: the exact number that each of these floats rounds.
ROUNDED = {
    math.sqrt(0.5): sympy.sqrt(2) / 2,
    1 / math.sqrt(2): sympy.sqrt(2) / 2,
    2 / math.sqrt(math.pi): 2 / sympy.sqrt(sympy.pi),
    1 / math.sqrt(2 * math.pi): 1 / sympy.sqrt(2 * sympy.pi),
    math.sqrt(2 / math.pi): sympy.sqrt(2 / sympy.pi),
    0.044715: sympy.Rational(44715, 10**6),
    3 * 0.044715: sympy.Rational(3 * 44715, 10**6),
}


class Opaque(sympy.Function):
    """An elementary function that SymPy only differentiates: it asks no questions about the argument."""

    is_commutative = True

    @classmethod
    def eval(cls, x):
        if x is S.Zero or x is S.One:
            value = TABLE[cls.__name__].head(x)
            return value if value.is_Integer else None
        return None

    def fdiff(self, argindex=1):
        return HEADS[self.func].derivative(OPAQUE, self, self.args)


@cache
def opaque(name: str) -> type[Opaque]:
    """The opaque function of this name."""
    function = type(name, (Opaque,), {})
    HEADS[function] = TABLE[name]
    return function


OPAQUE = Functions(lambda name, x: opaque(name)(x))


def is_zero(expr: sympy.Expr) -> bool:
    """Is this expression zero for all values of its symbols? (True is a proof.)"""
    return (Fractions() if _kept.proof is None else _kept.proof).is_zero(expr)


class _Kept(threading.local):
    proof: "Fractions | None" = None


_kept = _Kept()


@contextmanager
def atoms_kept() -> Iterator[None]:
    """Inside, normal forms are remembered: the entries of a tensor have most of their subexpressions in common."""
    before, _kept.proof = _kept.proof, Fractions()
    try:
        yield
    finally:
        _kept.proof = before


def _parts(expr: sympy.Expr) -> set[sympy.Expr]:
    """The expression and all of its subexpressions, each once."""
    parts, todo = {expr}, [expr]
    while todo:
        for e in todo.pop().args:
            if e not in parts:
                parts.add(e)
                todo.append(e)
    return parts


class Fractions:
    """Fractions of polynomials over atoms: those of one proof, or of several."""

    def __init__(self):
        self.atoms: dict[tuple, sympy.Symbol] = {}  # (function, argument in normal form): its variable
        self.exponents: dict[sympy.Symbol, sympy.Expr] = {}  # t of an atom that is exp(t)
        self.logarithms: dict[sympy.Symbol, sympy.Expr] = {}  # u of an atom that is log(u)
        self.roots: dict[sympy.Symbol, tuple] = {}  # (u, n) of an atom whose power n is u
        self.radicals: set[sympy.Symbol] = set()  # those that are 0 or more: u^(1/n)
        self.flattened: dict[sympy.Expr, sympy.Expr] = {}
        self.divisors: dict[sympy.Expr, sympy.Dummy] = {}  # sums that are denominators: their variables
        # These sums as they stand in expressions: variable / the denominator of the sum.
        self.named: dict[sympy.Expr, sympy.Expr] = {}

    def with_divisors_named(self, flat) -> sympy.Expr:
        """The same with a variable in the place of each sum that is a denominator.

        Most often the expression is zero for any value of that sum, and there is much less to multiply out. Otherwise
        the sums are put back into the numerator (`with_divisors_back`).
        """
        sums = {e.base for e in _parts(flat) if e.is_Pow and e.exp.is_negative and e.base.is_Add}
        for base in sums - self.named.keys():
            over, under = self.fraction(base)
            if over.is_Add:
                over = self.divisors.setdefault(over, sympy.Dummy(f"divisor{len(self.divisors)}"))
            self.named[base] = over / under
        return flat.xreplace({base: self.named[base] for base in sums}) if sums else flat

    def is_zero(self, expr) -> bool:
        flat = self.with_divisors_named(self.flat(expr))
        if not _symbols(flat):
            return flat == 0
        numerator = self.with_divisors_back(self.numerator(flat)).as_expr()
        for root, (base, degree) in reversed(self.roots.items()):  # a later one may have an earlier one inside
            if root in numerator.free_symbols:
                over, under = self.fraction(base)
                numerator = sympy.expand(sympy.prem(numerator, under * root**degree - over, root))
        return numerator == 0

    def with_divisors_back(self, numerator: PolyElement) -> PolyElement:
        """The same with the sums in the place of their variables.

        Terms that are divided by the same sums (row i of attention by its own) are added first. If they cancel, as they
        do most often, the product of all sums is never multiplied out. In a numerator, such terms lack the same
        variables, or powers of them.
        """
        sums = {name: over for over, name in self.divisors.items() if name in numerator.ring.symbols}
        if not numerator or not sums:
            return numerator
        names = {*numerator.ring.symbols, *(name for over in sums.values() for name in over.free_symbols)}
        domain = ring(sorted(names, key=str), QQ)[0]
        positions = [domain.symbols.index(name) for name in sums]
        values = [self.numerator(over).set_ring(domain) for over in sums.values()]
        terms = numerator.set_ring(domain).terms()
        highest = [max(powers[position] for powers, _ in terms) for position in positions]
        groups: dict[tuple, dict[tuple, PolyElement]] = {}
        for powers, factor in terms:
            lacks = tuple(n - powers[position] for n, position in zip(highest, positions, strict=True))
            rest = tuple(0 if i in positions else power for i, power in enumerate(powers))
            group = groups.setdefault(tuple(n > 0 for n in lacks), {})
            group.setdefault(lacks, domain.zero)[rest] = factor
        # Powers of a sum that all terms have are left out: the sum is a denominator, so it is not 0.
        most = [max(column) for column in zip(*itertools.chain(*groups.values()), strict=True)]
        result = domain.zero
        for divided, group in groups.items():
            alone = domain.zero
            for lacks, part in group.items():
                for value, n, lack, own in zip(values, most, lacks, divided, strict=True):
                    part = part * value ** (n - lack) if own else part
                alone += part
            for value, n, own in zip(values, most, divided, strict=True):
                alone = alone if own or not alone else alone * value**n
            result += alone
        return result

    def flat(self, expr) -> sympy.Expr:
        """The expression with atoms in place of its functions."""
        if expr.is_Rational:
            return expr
        if expr not in self.flattened:
            self.flattened[expr] = self._flat(expr)
        return self.flattened[expr]

    def _flat(self, expr):
        row = HEADS.get(expr.func)
        name = row.name if row is not None and row.elementary else None
        if expr.is_Symbol:
            return expr
        if expr.is_Add or expr.is_Mul:
            return expr.func(*(self.flat(a) for a in expr.args))
        if expr.is_Pow:
            base, exponent = expr.args
            if exponent.is_Integer:
                return self.flat(base) ** exponent
            if exponent.is_Rational:
                return self.root(self.flat(base), exponent.q) ** exponent.p
            return self.exp(self.flat(exponent) * self.log(self.flat(base)))
        if name == "exp":
            return self.exp(self.flat(expr.args[0]))
        if name == "log":
            return self.log(self.flat(expr.args[0]))
        if name == "sqrt":
            return self.root(self.flat(expr.args[0]), 2)
        if name is not None:
            over, under = self.fraction(self.flat(expr.args[0]))
            return self.atom(name, over / under)
        if expr.is_number:  # pi
            return self.atom("number", expr)
        raise TypeError(f"{expr.func.__name__}: expressions with this function can't be compared")

    def atom(self, name: str, argument) -> sympy.Symbol:
        key = name, argument
        if key not in self.atoms:
            self.atoms[key] = sympy.Symbol(f"{name}#{len(self.atoms)}")
        return self.atoms[key]

    def exp(self, u):
        over, under = self.fraction(u)
        result = S.One
        for term in sympy.Add.make_args(over):
            factor, rest = term.as_coeff_Mul()
            steps = [f for f in sympy.Mul.make_args(rest) if self.roots.get(f) == (f, 2)]
            if steps:  # a number that is 0 or 1
                result *= 1 + steps[0] * (self.exp(term / steps[0] / under) - 1)
            elif under == 1 and rest in self.logarithms:
                self.assume_above_zero(self.logarithms[rest])
                result *= self.root(self.logarithms[rest], factor.q) ** factor.p
            else:
                if abs(factor.p) > HIGH:
                    factor, rest = factor / abs(factor.p), rest * abs(factor.p)
                atom = self.atom("exp", rest / under)
                self.exponents[atom] = rest / under
                result *= self.radical(atom, factor.q) ** factor.p
        return result

    def log(self, u):
        result, factors = S.Zero, self.apart(u)
        for base, power in factors:
            if base in self.exponents:
                result += power * self.exponents[base]
            elif base in self.radicals:
                result += power * self.log(self.roots[base][0]) / self.roots[base][1]
            else:
                atom = self.atom("log", base)
                self.logarithms[atom] = base
                result += power * atom
        if not result.is_Symbol:
            self.assume_above_zero(*[base for base, _ in factors])
        return result

    def root(self, u, degree: int):
        return sympy.Mul(*[b ** (n // degree) * self.radical(b, degree) ** (n % degree) for b, n in self.apart(u)])

    def radical(self, base, degree: int):
        """The variable of a root that is not taken apart."""
        if degree == 1:
            return base
        atom = self.atom(f"root{degree}", base)
        self.roots[atom] = base, degree
        self.radicals.add(atom)
        return atom

    def apart(self, flat) -> list[tuple[sympy.Expr, int]]:
        """A number that is 0 or more as a product of powers, in which each base is 0 or more."""
        number, factors = self.factors(flat)
        known, rest = [], []
        for base, power in factors:
            sign = self.sign(base)
            (known if sign else rest).append((sign * base if sign else base, power))
            number *= sign**power if sign else 1
        if number > 0 and len(rest) == 1 and rest[0][1] % 2:
            known, rest = known + rest, []
        whole = sympy.Mul(S.NegativeOne if number < 0 else S.One, *[base**power for base, power in rest])
        primes = sympy.factorrat(abs(number)).items() if number else [(0, 1)]
        return [(S(p), power) for p, power in primes] + known + ([(whole, 1)] if whole != 1 else [])

    def factors(self, flat) -> tuple[sympy.Expr, list[tuple[sympy.Expr, int]]]:
        """A fraction as a number times powers of polynomials."""
        number, result = S.One, []
        for part, way in zip(self.fraction(flat), (1, -1), strict=True):
            own, factors = sympy.factor_list(part) if len(part.args) < TERMS else (S.One, [(part, 1)])
            number *= S(own) ** way
            result += [(base, way * power) for base, power in factors]
        return number, result

    def sign(self, polynomial) -> sympy.Expr:
        """1 or -1 if it is known to be above or below 0, otherwise 0."""
        terms = sympy.Add.make_args(polynomial) if polynomial.free_symbols <= self.exponents.keys() else [S.NegativeOne]
        return S.One if all(term.as_coeff_Mul()[0] > 0 for term in terms) else S.Zero

    def assume_above_zero(self, *bases) -> None:
        """These are arguments of logarithms, or factors of one."""

    def fraction(self, flat) -> tuple[sympy.Expr, sympy.Expr]:
        """Numerator and denominator without a common factor; the denominator's leading coefficient is 1."""
        names = _symbols(flat)
        if not names:
            return flat, S.One
        domain, *generators = field(names, QQ)
        values = dict(zip(names, generators, strict=True))
        value = _evaluate(flat, values, domain, sum)
        lead = value.denom.LC
        return value.numer.quo_ground(lead).as_expr(), value.denom.quo_ground(lead).as_expr()

    def numerator(self, flat) -> PolyElement:
        """A numerator of an expression that has symbols: zero if and only if the expression is."""
        names = _symbols(flat)
        domain, *generators = ring(names, QQ)
        values = {name: _Quotient(g, {}) for name, g in zip(names, generators, strict=True)}
        return _evaluate(flat, values, lambda number: _Quotient(domain(number), {}), _Quotient.sum).over


class _Quotient:
    """A polynomial over a product of powers; common factors stay, since finding them takes longer than all the rest."""

    __slots__ = ("over", "under")

    def __init__(self, over, under: dict):
        self.over, self.under = over, under  # under: {polynomial: power}

    @staticmethod
    def sum(terms: "list[_Quotient]") -> "_Quotient":
        """The sum, over one denominator found at once: term by term, the first would be multiplied often."""
        under: dict = {}
        for term in terms:
            for p, power in term.under.items():
                under[p] = max(power, under.get(p, 0))
        over = terms[0].over.ring.zero
        for term in terms:
            over += term._brought_to(under)
        return _Quotient(over, under)

    def _brought_to(self, under: dict):
        factor = self.over.ring.one
        for p, power in under.items():
            if missing := power - self.under.get(p, 0):
                factor = factor * p**missing
        return self.over * factor

    def __mul__(self, other):
        under = {p: self.under.get(p, 0) + other.under.get(p, 0) for p in self.under | other.under}
        return _Quotient(self.over * other.over, under)

    def __pow__(self, exponent: int):
        if exponent >= 0:
            return _Quotient(self.over**exponent, {p: power * exponent for p, power in self.under.items()})
        ones = self.over.ring.one
        over = ones.mul_ground(1 / self.over.LC)
        for p, power in self.under.items():
            over = over * p**power
        rest, under = self.over.monic(), {}
        powers = [min(column) for column in zip(*rest.monoms(), strict=True)]
        for generator, power in zip(rest.ring.gens, powers, strict=True):
            if power:
                under[generator] = power
                rest = rest.quo(generator**power)
        return _Quotient(over, under | ({rest: 1} if rest != ones else {})) ** -exponent


def _symbols(expr) -> list[sympy.Symbol]:
    """The symbols of an expression that shares subexpressions, sorted, so that its normal form is unique."""
    return sorted((e for e in _parts(expr) if e.is_Symbol), key=str)


def _evaluate(expr, values: dict, constant: Callable, total: Callable):
    """A rational expression, computed from the `values` of its symbols; `values` remembers every subexpression."""
    if expr not in values:
        step()
        if expr.is_Rational:
            result = constant(QQ(int(expr.p), int(expr.q)))
        elif not expr.args:
            raise TypeError(f"{expr} is no number and no variable")
        elif expr.is_Pow:
            result = _evaluate(expr.base, values, constant, total) ** int(expr.exp)
        else:
            parts = [_evaluate(a, values, constant, total) for a in expr.args]
            result = total(parts) if expr.is_Add else math.prod(parts[1:], start=parts[0])
        values[expr] = result
    return values[expr]


def float_value(expr: sympy.Expr, values: dict[sympy.Expr, float]) -> float:
    """An expression in floats, NaN if it overflows; `values` has its symbols' floats, and remembers subexpressions."""
    if expr not in values:
        args = [float_value(a, values) for a in expr.args]
        try:
            if expr.is_Add:
                result = sum(args)
            elif expr.is_Mul:
                result = math.prod(args)
            elif expr.is_Pow:
                result = args[0] ** args[1]
            elif args:
                result = HEADS[expr.func].value(*args)
            else:
                result = math.nan if expr.is_Symbol else float(expr)
        except (ArithmeticError, ValueError):
            result = math.nan
        values[expr] = result
    return values[expr]

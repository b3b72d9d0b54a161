"""Fractions of polynomials over entries, sums and functions: the normal form by which a formula is seen to be 0.

SymPy's `simplify` tries a hundred things and may fail at any size; this does one thing. From the inside out each entry,
each sum in its normal form and each value of a function becomes a variable of its own, named by its formula. Then the
formula is a fraction of polynomials, and it is 0 if its numerator is. These laws are used first:

    exponents   exp(a + b) = exp(a) exp(b), exp(n log a) = a^n, log(exp(a) b) = a + log b, √u² = u
    sums        Σ_j of a fraction is a sum of its parts: e/(1 + e) is 1 - 1/(1 + e). What has no j leaves the sum.
    roots       √(a b) = √a √b, log(a b) = log a + log b where both are above 0; √u² = |u|
    steps       [x > 0]² = [x > 0], |x| = x (2 [x > 0] - 1), e^([x > 0] y) = 1 + [x > 0] (e^y - 1)
    angles      sin² + cos² = 1, and the angles a + b and n a in those of a and b

`Fractions.assumed` has the conditions on values that the laws need. A formula that is not seen to be 0 may be 0.
"""

import sympy
from sympy import QQ, Add, Dummy, Expr, Indexed, KroneckerDelta, Mul, Pow, S, Sum, Symbol, expand, log
from sympy.polys.orderings import lex
from sympy.polys.rings import PolyElement, ring

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
from tinytensor.symbolic.index_calculus.linear_algebra import OfMatrix
from tinytensor.symbolic.index_calculus.signs import Signs, pattern, varies
from tinytensor.symbolic.time_limit import step

LEAVES = Symbol | Indexed | OfMatrix | KroneckerDelta | upto
UNDEFINED = (S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity, sympy.I)
TURNS = 4  # sin(4 x) is written in sin x and cos x, sin(5 x) is not
LETTERS = 200  # of a formula, in the name of its variable
HIGH = 8  # a power of an exponential that would make a monstrous polynomial
DEEP = 64  # so would a root of such a degree
TERMS = 60  # a longer polynomial is not taken apart into factors


class Fractions:
    """The variables of one formula, or of several; ties: are numbers that are compared assumed to differ?"""

    def __init__(self, known: Signs, ties: bool = False):
        self.known, self.ties = known, ties
        self.assumed: set[str] = set()  # keys of conditions.VALUES, and "equality" for x == y
        self.atoms: dict[tuple, Symbol] = {}  # (function, argument in normal form): its variable
        self.calls: dict[Symbol, tuple] = {}  # the same the other way round
        self.written: dict[Symbol, Expr] = {}  # the formula of each variable
        self.roots: dict[Symbol, tuple] = {}  # (u, n) of a variable whose power n is u
        self.flattened: dict[Expr, Expr] = {}
        self.fractions: dict[Expr, tuple[Expr, Expr]] = {}
        self.above: dict[Expr, str] = {}  # what is above 0, see `pattern`: a "root" or "logarithm" is taken of it

    def vanishes(self, formula: Expr) -> bool:
        """Is it 0, under the conditions that are `assumed` then? They are those of all formulas so far."""
        if formula.has(*UNDEFINED):
            return False
        try:
            self.assumed |= self.known.needs(formula)
            self._note_arguments(formula)
            return self._is_zero(self.flat(formula))
        except (TypeError, ZeroDivisionError):  # indices of two ranges meet; a denominator is 0
            return False

    def _is_zero(self, flat: Expr) -> bool:
        if not _symbols(flat):
            return flat == 0
        return self._reduced(_fraction(flat)[0].as_expr(), fractions=True) == 0

    def back(self, flat: Expr) -> Expr:
        """The formula with the variables written out."""
        return flat.xreplace(self.written)

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
            self.written[variable], self.calls[variable] = formula, key
        return self.atoms[key]

    def leaf(self, formula: Expr) -> Symbol:
        """The variable of a formula that has no laws but that its square is itself, if it is 0 or 1."""
        variable = self.atom("formula", formula)
        if isinstance(formula, Indicator | KroneckerDelta):
            self.roots[variable] = variable, 2
        return variable

    def flat(self, expr: Expr) -> Expr:
        """The formula with variables in place of its entries, sums and functions."""
        if expr.is_Rational:
            return expr
        if expr not in self.flattened:
            step()
            self.flattened[expr] = self._flat(expr)
        return self.flattened[expr]

    def _flat(self, expr: Expr) -> Expr:
        if isinstance(expr, LEAVES) or (expr.is_number and expr.is_Atom and expr is not S.Exp1):
            return self.leaf(expr)
        if expr.is_Add or expr.is_Mul:
            return expr.func(*map(self.flat, expr.args))
        if isinstance(expr, Sum):
            return self._sum(expr)
        if expr.is_Pow or expr is S.Exp1:
            return self._power(*expr.as_base_exp())
        if isinstance(expr, sympy.Function):
            return self._function(expr)
        raise TypeError(f"{expr.func.__name__}: formulas with it can't be compared")

    def _function(self, expr: Expr) -> Expr:
        """The value of a function, by its laws."""
        row = HEADS.get(expr.func)
        if row is not None and row.form is not None:
            return self.flat(row.form(*expr.args))
        if isinstance(expr, same) and self.ties and (truth := off_ties(*expr.args, self.known)).is_number:
            self.assumed |= {"tie", "equality"}
            return truth
        arguments = list(map(self.flat, expr.args))
        match None if row is None else row.name:
            case "theta":
                return self._step(*arguments)
            case "exp":
                return self.exp(*arguments)
            case "log":
                return self.log(*arguments)
            case "sqrt":  # an opaque function of exact/, in formulas it is a power
                return self.root(*arguments, 2)
            case "sin":
                return self._angle(*arguments)[0]
            case "cos":
                return self._angle(*arguments)[1]
        arguments = [over / under for over, under in map(self.fraction, arguments)]
        if row is not None and row.elementary:
            return self.atom(row.name, *arguments)
        return self.leaf(expr.func(*map(self.back, arguments)))

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
        inside = [(f, m) for f, m in factors if f.free_symbols & moving]
        beside = number * Mul(*[f**m for f, m in factors if not f.free_symbols & moving])
        names = sorted(over.free_symbols | under.free_symbols, key=lambda v: (v not in moving, str(v)))
        domain = ring(names, QQ, lex)[0]
        divisors = [domain.from_expr(f) for f, _ in inside]
        waiting = {tuple(m for _, m in inside): domain.from_expr(over)}
        parts: list[Expr] = []
        while waiting:
            step()
            powers = max(waiting)
            remainder = waiting.pop(powers)
            for k, divisor in enumerate(divisors):
                if powers[k] and remainder:
                    (quotient,), remainder = remainder.div([divisor])
                    if quotient:
                        fewer = (*powers[:k], powers[k] - 1, *powers[k + 1 :])
                        waiting[fewer] = waiting.get(fewer, domain.zero) + quotient
            below = Mul(*[f**p for (f, _), p in zip(inside, powers, strict=True)])
            parts.append(self.back(remainder.as_expr() / below))
        return Add(*parts) / self.back(beside)

    def _reduced(self, polynomial: Expr, fractions: bool = False) -> Expr:
        """The polynomial after the laws of roots and steps whose radicands are polynomials.

        fractions: those of other radicands, too, where the polynomial may be multiplied by their denominators.
        """
        for root, (base, degree) in reversed(self.roots.items()):  # a later one may have an earlier one inside
            if root in polynomial.free_symbols:
                over, under = self.fraction(base)
                if fractions or (not under.free_symbols and sympy.degree(polynomial, root) >= degree):
                    polynomial = expand(sympy.prem(polynomial, under * root**degree - over, root))
        return polynomial

    # ---- signs

    def _note_arguments(self, formula: Expr) -> None:
        """Note each factor of an argument of a root or a logarithm that is the only one whose sign is not known."""
        arguments = [(e.args[0], "logarithm") for e in formula.atoms(log)]
        arguments += [(p.base, "root") for p in formula.atoms(Pow) if p.exp.is_Rational and not p.exp.is_Integer]
        for argument, key in sorted(arguments, key=str):
            number, factors = self.factors(self.flat(argument.xreplace({i: i.fresh() for i in free(argument)})))
            signs = [(f, power, self.sign(f)) for f, power in factors]
            unknown = [(f, power) for f, power, sign in signs if not sign]
            if len(unknown) == 1 and unknown[0][1] % 2:
                known = sympy.sign(number) * Mul(*[sign**power for _, power, sign in signs if sign])
                self.above[pattern((known * self.back(unknown[0][0])).expand())] = key

    def sign(self, polynomial: Expr, above: bool = False) -> Expr:
        """1 or -1 if it is known to be above or below 0; unless `above`, a size that may be 0 counts as above."""
        formula = self.back(polynomial)
        for sign, signed in ((S.One, formula), (S.NegativeOne, (-formula).expand())):
            of_sizes = not above and all(isinstance(s, Size) for s in signed.free_symbols) and not_negative(signed)
            if self.known.positive(signed) or of_sizes:
                return sign
            if (key := self.above.get(pattern(signed))) is not None:
                self.assumed.add(key)
                return sign
        return S.Zero

    def factors(self, flat) -> tuple[Expr, list[tuple[Expr, int]]]:
        """A fraction as a number times powers of polynomials."""
        number, result = S.One, []
        for part, way in zip(self.fraction(flat), (1, -1), strict=True):
            content, factors = sympy.factor_list(part) if len(part.args) < TERMS else (S.One, [(part, 1)])
            number *= S(content) ** way
            result += [(base, way * power) for base, power in factors]
        return number, result

    def apart(self, flat: Expr) -> list[tuple[Expr, int]]:
        """A number that is 0 or more as a product of powers, in which each base is 0 or more; |u| for √u²."""
        number, factors = self.factors(flat)
        known, unknown = [], []
        for base, power in factors:
            sign = self.sign(base)
            (known if sign else unknown).append((sign * base if sign else base, power))
            number *= sign**power if sign else 1
        if number > 0 and len(unknown) == 1 and unknown[0][1] % 2:
            known, unknown = known + unknown, []
        known += [(self.flat(absolute(self.back(u))), n) for u, n in unknown if n % 2 == 0]
        odd = Mul(S.NegativeOne if number < 0 else S.One, *[base**power for base, power in unknown if power % 2])
        primes = sympy.factorrat(abs(number)).items() if number else [(0, 1)]
        return [(S(p), power) for p, power in primes] + known + ([(odd, 1)] if odd != 1 else [])

    def assume_above_zero(self, *bases: Expr) -> None:
        if not all(self.known.positive(self.back(base)) for base in bases):
            self.assumed.add("logarithm")

    # ---- functions

    def _power(self, base: Expr, power: Expr) -> Expr:
        if base is S.Exp1:
            return self.exp(self.flat(power))
        if power.is_Integer:
            return self.flat(base) ** power
        if power.is_Rational:
            return self.root(self.flat(base), power.q) ** power.p
        if base.is_number and not base.is_positive:
            return self.leaf(base**power)
        return self.exp(self.flat(power) * self.log(self.flat(base)))

    def exp(self, u):
        over, under = self.fraction(u)
        result = S.One
        for summand in Add.make_args(over):
            factor, term = summand.as_coeff_Mul()
            steps = [f for f in Mul.make_args(term) if self.roots.get(f) == (f, 2)]
            if steps:  # a number that is 0 or 1
                result *= 1 + steps[0] * (self.exp(summand / steps[0] / under) - 1)
            elif under == 1 and self.calls.get(term, ("",))[0] == "log":
                _, argument = self.calls[term]
                self.assume_above_zero(argument)
                if factor.q <= DEEP:
                    result *= self.root(argument, factor.q) ** factor.p
                else:  # a float such as 1.3, as a fraction: a^0.3 a
                    whole = sympy.floor(factor)
                    result *= self.atom("exp", (factor - whole) * term) * argument**whole
            else:
                unit = abs(factor) if factor.q > DEEP else abs(factor.p) if abs(factor.p) > HIGH else S.One
                factor, term = factor / unit, term * unit
                result *= self.radical(self.atom("exp", term / under), factor.q) ** factor.p
        return result

    def log(self, u):
        result, factors = S.Zero, self.apart(u)
        for base, power in factors:
            function, argument = self.calls.get(base, ("", S.One))
            if function == "exp":
                result += power * argument
            elif function.startswith("root"):
                result += power * self.log(argument) / self.roots[base][1]
            else:
                result += power * self.atom("log", base)
        if not result.is_Symbol:
            self.assume_above_zero(*[base for base, _ in factors])
        return result

    def root(self, u, degree: int):
        return Mul(*[b ** (n // degree) * self.radical(b, degree) ** (n % degree) for b, n in self.apart(u)])

    def radical(self, base, degree: int):
        """The variable of a root that is not taken apart."""
        if degree == 1:
            return base
        atom = self.atom(f"root{degree}", base)
        self.roots[atom] = base, degree
        return atom

    def _step(self, u: Expr) -> Expr:
        """[u > 0]: steps among the factors stand before it, and factors above 0 are left out."""
        number, factors = self.factors(u)
        steps, argument = S.One, S(sympy.sign(number))
        for f, power in factors:
            if self.roots.get(f) == (f, 2):
                steps *= f
            elif sign := self.sign(f, above=True):
                argument *= sign**power
            elif power % 2:
                argument *= f
            elif power > 0:  # f² > 0 where f ≠ 0
                differs = self.ties and varies(self.back(f))
                argument *= 1 if differs else f**2
                self.assumed |= {"tie"} if differs else set()
        argument = expand(argument)
        if argument.is_number:
            return steps if argument > 0 else S.Zero
        negative = min(Add.make_args(argument), key=str).as_coeff_Mul()[0] < 0
        if self.ties and negative and varies(self.back(argument)):
            self.assumed.add("tie")
            return steps * (1 - self.leaf(theta(self.back(expand(-argument)))))
        return steps * self.leaf(theta(self.back(argument)))

    def _angle(self, u: Expr) -> tuple[Expr, Expr]:
        """sin u and cos u."""
        over, under = self.fraction(u)
        sin, cos = S.Zero, S.One
        for summand in Add.make_args(over):
            factor, term = summand.as_coeff_Mul()
            if not (factor.is_Integer and abs(factor) <= TURNS):
                factor, term = sympy.sign(factor), abs(factor) * term
            sine, cosine = (self.atom(name, term / under) for name in ("sin", "cos"))
            self.roots[sine] = 1 - cosine**2, 2
            sine = sine if factor > 0 else -sine
            for _ in range(abs(int(factor))):
                sin, cos = expand(sin * cosine + cos * sine), expand(cos * cosine - sin * sine)
        return sin, cos

    # ---- fractions

    def fraction(self, flat: Expr) -> tuple[Expr, Expr]:
        """Numerator and denominator without a common factor; the denominator's leading coefficient is 1."""
        if not _symbols(flat):
            return flat, S.One
        if flat not in self.fractions:
            over, under = _fraction(flat)
            over, under = over.cancel(under)
            self.fractions[flat] = tuple(part.quo_ground(under.LC).as_expr() for part in (over, under))
        return self.fractions[flat]


def in_steps(formula: Expr) -> Expr:
    """The formula with steps for everything that has a corner."""
    for function in with_need("tie"):
        if HEADS[function].form is not None:
            formula = formula.replace(function, HEADS[function].form)
    return formula


def _sum_of_powers(sum_: Sum) -> Expr | None:
    """Σ_i i^k over 1..N by Bernoulli's polynomial; None for another sum."""
    index, _, size = sum_.limits[0]
    base, power = sum_.function.as_base_exp()
    if len(sum_.limits) > 1 or base != index or not (power.is_Integer and power > 0 and not_negative(size)):
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
    return S.Zero if _zero_in_few_points(form, known) else same(x)


def _zero_in_few_points(form: Expr, known: Signs) -> bool:
    """Is it a polynomial in an entry that stands nowhere else, with a first factor other than 0?"""
    entries = form.atoms(Indexed, Symbol) - {a.label for a in form.atoms(Array)}
    names = {e: e.base if isinstance(e, Indexed) else e for e in entries if not e.is_integer}
    defined = not known.right.keys().isdisjoint(names.values())
    if defined or form.has(*with_need("tie"), PiecewiseConstant, upto, KroneckerDelta, Sum, OfMatrix):
        return False
    for e, name in names.items():
        alone = list(names.values()).count(name) == 1 and getattr(name, "values", None) is None
        polynomial = form.as_poly(e) if alone else None
        if polynomial is not None and polynomial.degree() > 0 and known.not_zero(polynomial.LC()):
            return True
    return False


def _parts(expr: Expr) -> set[Expr]:
    """The expression and all of its subexpressions, each once."""
    parts, todo = {expr}, [expr]
    while todo:
        for e in todo.pop().args:
            if e not in parts:
                parts.add(e)
                todo.append(e)
    return parts


class _Polynomials:
    """The parts of a rational expression as polynomials; 1/p is a variable r of its own for each p that divides.

    The law p r = 1 is used as far as it goes. Terms over one polynomial (row i of attention over its own sum) cancel by
    it, as they do most often, and the product of all polynomials is never multiplied out. Common factors stay, since
    finding them takes longer than all the rest.
    """

    def __init__(self, expr: Expr):
        names, divisors = _symbols(expr), {p.base for p in _parts(expr) if p.is_Pow and p.exp.is_negative}
        self.ring, *variables = ring([*names, *[Dummy() for _ in divisors]], QQ)
        self.known = dict(zip(names, variables))  # the polynomial of each part
        self.reciprocals: dict[PolyElement, PolyElement] = {}  # the variable that is 1/p, for each p
        self.free = variables[len(names) :]

    def of(self, part: Expr) -> PolyElement:
        """The polynomial of a part."""
        if part not in self.known:
            step()
            if part.is_Rational:
                self.known[part] = self.ring(QQ(int(part.p), int(part.q)))
            elif not part.args:
                raise TypeError(f"{part} is no number and no variable")
            elif part.is_Pow:
                base = self.of(part.base)
                self.known[part] = (base if part.exp > 0 else self.reciprocal(base)) ** abs(int(part.exp))
            else:
                self.known[part] = (self.ring.add if part.is_Add else self.ring.mul)(*map(self.of, part.args))
        return self.known[part]

    def reciprocal(self, polynomial: PolyElement) -> PolyElement:
        over, under = self.fraction(polynomial)
        under, over = under.mul_ground(1 / over.LC), over.monic()
        if over == 1:
            return under
        if over not in self.reciprocals:
            self.reciprocals[over] = self.free.pop()
        return under * self.reciprocals[over]

    def fraction(self, over: PolyElement) -> tuple[PolyElement, PolyElement]:
        """Numerator and denominator of a polynomial in reciprocals, too; they may have common factors."""
        over = over.rem([divisor * variable - 1 for divisor, variable in self.reciprocals.items()])
        under = self.ring.one
        for divisor, variable in self.reciprocals.items():
            highest, k = over.degree(variable), self.ring.index(variable)
            if highest > 0:
                parts: dict[int, dict] = {}
                for powers, number in over.terms():
                    parts.setdefault(powers[k], {})[*powers[:k], 0, *powers[k + 1 :]] = number
                over = self.ring.add(*[self.ring.from_dict(p) * divisor ** (highest - n) for n, p in parts.items()])
                under *= divisor**highest
        return over, under


def _symbols(expr) -> list[Symbol]:
    """The symbols of an expression that shares subexpressions, sorted, so that its normal form is unique."""
    return sorted((e for e in _parts(expr) if e.is_Symbol), key=str)


def _fraction(expr: Expr) -> tuple[PolyElement, PolyElement]:
    """Numerator and denominator of a rational expression; they may have common factors."""
    polynomials = _Polynomials(expr)
    return polynomials.fraction(polynomials.of(expr))

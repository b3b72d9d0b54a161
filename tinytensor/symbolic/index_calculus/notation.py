"""Formulas in index notation, as text and as LaTeX: `text(expr)`, `tex(expr)`.

Subclasses of SymPy's printers. Indices are printed where the source has them (Array.positions), an adjoint is ∂𝓛/∂name,
and every bound index gets a letter that no other index nearby has. order.py orders factors and terms. No proof depends
on this file.
"""

import operator
import re
from collections.abc import Sequence

from sympy import Add, Expr, Function, Indexed, KroneckerDelta, Mul, Pow, S, Sum, Symbol
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, free
from tinytensor.symbolic.index_calculus.functions import HEADS, Step, fill, larger, smaller, theta
from tinytensor.symbolic.index_calculus.linear_algebra import with_names
from tinytensor.symbolic.index_calculus.order import (
    Name,
    decimal,
    factors_of,
    fraction,
    in_order_of,
    is_negative,
    signed,
    terms_of,
)

_LETTERS = "α alpha β beta γ gamma δ delta ε epsilon ζ zeta η eta θ theta ι iota κ kappa λ lambda μ mu ν nu ξ xi π pi"
_LETTERS += " ρ rho σ sigma τ tau υ upsilon φ varphi χ chi ψ psi ω omega Γ Gamma Δ Delta Θ Theta Λ Lambda Ξ Xi Π Pi"
_LETTERS += " Σ Sigma Φ Phi Ψ Psi Ω Omega ℓ ell"
GREEK = {letter: chr(92) + name for letter, name in zip(_LETTERS.split()[::2], _LETTERS.split()[1::2], strict=True)}
_SPELLED = {name.removeprefix("var"): f"{chr(92)}{name}" for name in _LETTERS.split()[1::2]}  # mu in code is μ here
_SPELLED["lambda_"] = _SPELLED.pop("lambda")  # a word of Python
_SIGNS = {"≤": r"\le", "≠": r"\ne"}
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def name_tex(name: str) -> str:
    """A name of code as LaTeX: σ, sigma, x, x', a word upright, and a number behind a name above it, A^{(2)}."""
    body, number = re.fullmatch(r"(.*?)(\d*)", name).groups()
    if not body:
        return name
    if len(body) == 1:
        shown = GREEK.get(body, body)
    elif body in _SPELLED:
        shown = _SPELLED[body]
    else:
        shown = rf"\mathrm{{{body.replace('_', chr(92) + '_')}}}"
    return f"{shown}^{{({number})}}" if number else shown


def array_tex(array: Array) -> str:
    """The name of an array as LaTeX."""
    return name_tex(array.tex) if array.tex == str(array.label) else array.tex


class _IndexPrinter:
    """The common part of both printers: letters of bound indices, order, signs, brackets."""

    def __init__(self, names: Sequence[Name] = ()):
        super().__init__()
        self.letters, self.names, self.axes = {}, tuple(names), ()
        self.adjoints = {f"d{s.name}": s for s in names if isinstance(s, Symbol)}

    def doprint(self, expr):
        self.letters = {i: i.name for i in set().union(free(expr), *map(free, self.axes))}
        return super().doprint(_with_minima(with_names(S(expr), name_tex)))

    def equation(self, left, right):
        """left = right; the factors of a matrix product stand in the order of the indices on the left."""
        self.axes = left.indices if isinstance(left, Indexed) else ()
        return f"{self.doprint(left)} = {self.doprint(right)}"

    def _print(self, expr, **_):
        if isinstance(expr, Function) and not isinstance(expr, KroneckerDelta):
            return self._called(expr)
        return super()._print(expr)

    def _print_Sum(self, expr):
        outside = dict(self.letters)
        for index, *_ in expr.limits:
            self.letters[index] = next(a for a in index.letters if a not in self.letters.values())
        result = self._sum("".join(self.letters[limit[0]] for limit in expr.limits), self._summand(expr.function))
        self.letters = outside
        return result

    def _print_Index(self, expr):
        return self.letters.get(expr, expr.name)

    def _print_Symbol(self, expr, style="plain"):
        name = self.adjoints[expr.name].name if self._is_adjoint(expr) else expr.name
        shown = self._symbols.get(name) or self._name(name)
        return self._adjoint(shown) if self._is_adjoint(expr) else shown

    _print_Dummy = _print_Symbol

    def _print_Size(self, expr):
        return self._name(expr.name)

    def _print_NamedNumber(self, expr):
        return expr.name if isinstance(self, StrPrinter) else expr.tex

    def _print_Indexed(self, expr):
        array = expr.base.of or expr.base
        indices, printed = expr.indices, [*map(self._print, expr.indices)]
        if set(expr.base.positions) <= {"_"} and not all(isinstance(i, Index) for i in indices):
            shown = self._entry(array, printed)
        else:
            parts = {"<": "", "_": "", "^": ""}
            for position, index, letters in zip(expr.base.positions, indices, printed, strict=True):
                parts[position] += letters if isinstance(index, Index) or position == "<" else self._index(letters)
            shown = self._with_indices(array, *parts.values())
        return self._adjoint(shown) if expr.base.of else shown

    def _print_Add(self, expr, order=None):
        if _is_condition(expr):
            return self._compared(1 - expr, "≤" if isinstance(1 - expr, theta) else "≠")
        shown = ""
        for negative, term in signed(terms_of(expr, self.names)):
            shown += (" - " if negative else " + ") if shown else "-" * negative
            shown += self._bracket(self._print(term)) if negative and term.is_Add else self._print(term)
        return shown

    def _print_Mul(self, expr):
        """A fraction of factors and divisors, followed by the adjoints, and last the sums."""
        if expr.as_coeff_Mul()[0] < 0:
            negative = -expr
            printed = self._print(negative)
            return f"-{self._bracket(printed) if negative.is_Add else printed}"
        number, factors, divisors = _with_one_root(*factors_of(expr, self.names))
        if len(factors) == 2 and all(isinstance(f, Indexed) and f.base.of is None for f in factors):
            factors = in_order_of(self.axes, *factors)
        last = [f for f in factors if isinstance(f, Sum) or any(a.of for a in f.atoms(Array)) or self._is_adjoint(f)]
        over, under = fraction(number)
        above, below = [*over, *(f for f in factors if f not in last)], [*under, *divisors]
        parts = map(self._factor, above)
        if below:
            parts = [self._fraction(" ".join(self._side(above)) or "1", self._side(below))]
        return " ".join([*parts, *map(self._factor, last[:-1]), *map(self._last, last[-1:])])

    def _side(self, factors):
        """The factors above or below the line of a fraction."""
        return [*map(self._part if len(factors) == 1 else self._factor, factors)]

    def _is_adjoint(self, expr):
        return isinstance(expr, Symbol) and expr.name in self.adjoints

    def _print_Pow(self, expr, rational=False):
        base, power = expr.args
        if power == S.Half:
            return self._root(base)
        if power.is_number and power.is_negative:
            return self._fraction("1", [self._part(1 / expr)])
        alone = isinstance(base, Function | Size | Index) or (base.is_Integer and base >= 0) or self._is_name(base)
        shown = self._print(base)
        return self._raised(shown if alone and not isinstance(base, KroneckerDelta) else self._bracket(shown), power)

    def _is_name(self, expr):
        """Is it a name without anything above it?"""
        if isinstance(expr, Symbol):
            return not self._is_adjoint(expr)
        if not isinstance(expr, Indexed) or expr.base.of is not None:
            return False
        return "^" not in self._print(expr)

    def _called(self, expr):
        if isinstance(expr, Step):
            return self._compared(expr, ">" if isinstance(expr, theta) else "=")
        row, blanks = HEADS.get(expr.func), ", ".join(["{}"] * len(expr.args))
        shown = self._shown(row) if row is not None else f"{expr.func.__name__}({blanks})"
        return fill(shown, map(self._print, expr.args))

    def _compared(self, truth, sign):
        """[a > b] for a condition on a - b."""
        terms = Add.make_args(truth.args[0])
        left = [t for t in terms if not t.could_extract_minus_sign() and not t.is_number]
        left = left or [t for t in terms if not t.could_extract_minus_sign()]
        right = [-t for t in terms if t not in left]
        return self._truth(self._print(Add(*left)), sign, self._print(Add(*right)))

    def _factor(self, expr):
        loose = (expr.is_Add and not _is_condition(expr)) or isinstance(expr, Sum)
        return self._bracket(self._print(expr)) if loose else self._print(expr)

    def _summand(self, expr):
        return self._bracket(self._print(expr)) if is_negative(expr) else self._factor(expr)

    def _last(self, expr):
        return self._print(expr) if isinstance(expr, Sum) else self._factor(expr)

    def _delta(self, expr):
        """The arguments of a delta, an index first, then a table or a number."""
        return [self._print(a) for a in sorted(expr.args, key=lambda a: (not isinstance(a, Index), a.is_Integer))]


def _is_condition(expr: Expr) -> bool:
    """Is it 1 - [a > b], which is [a ≤ b]?"""
    return expr.is_Add and len(expr.args) == 2 and isinstance(1 - expr, Step)


def _with_one_root(number: Expr, factors: list[Expr], divisors: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
    """√2/(2 √π) as 1/√(2 π)."""
    above, below = ([f for f in part if _is_root_of_number(f)] for part in (factors, divisors))
    if not below:
        return number, factors, divisors
    square = Mul(number**2, *[f.base for f in above], *[1 / f.base for f in below])
    if square.as_numer_denom()[0] != 1:
        return number, factors, divisors
    root = Pow(1 / square, S.Half, evaluate=False)
    return S.One, [f for f in factors if f not in above], [root, *[f for f in divisors if f not in below]]


def _is_root_of_number(factor: Expr) -> bool:
    return isinstance(factor, Pow) and factor.exp == S.Half and factor.base.is_number


def _with_minima(expr: Expr) -> Expr:
    """max(-a, -b) as -min(a, b)."""
    while maxima := {f for f in expr.atoms(larger) if all(a.could_extract_minus_sign() for a in f.args)}:
        outer = [f for f in maxima if not any(f is not g and g.has(f) for g in maxima)]
        expr = expr.xreplace({f: -smaller(*[-a for a in f.args]) for f in outer})
    return expr


class _TextPrinter(_IndexPrinter, StrPrinter):
    printmethod = None  # print by the methods below, never by an expression's own
    _adjoint = staticmethod("∂𝓛/∂{}".format)
    _bracket = _index = staticmethod("({})".format)  # _index: an expression as an index, λ + 1
    _sum, _truth = staticmethod("Σ_{} {}".format), staticmethod("[{} {} {}]".format)
    _shown, _name = operator.attrgetter("text"), str
    _symbols = {"epsilon": "ε", "loss": "𝓛"}
    _part = _IndexPrinter._factor

    def _entry(self, array, indices):
        return f"{array.text}[{', '.join(indices)}]"

    def _with_indices(self, array, left, below, above):
        left = left.replace("h", "ʰ") if left in ("", "h") else f"^({left})"
        return f"{left}{array.text}" + (f"_{below}" if below else "") + (f"^{above}" if above else "")

    def _fraction(self, above, below):
        return f"{above}/{below[0] if len(below) == 1 else '(' + ' '.join(below) + ')'}"

    def _root(self, base):
        alone = isinstance(base, Size | Indexed | Symbol | Function) or (base.is_Integer and base >= 0) or base is S.Pi
        return f"√{self._print(base) if alone else self._bracket(self._print(base))}"

    def _raised(self, base, power):
        if power.is_Integer:
            return base + str(power).translate(_RAISED)
        shown = self._print(power)
        return f"{base}^{shown if power.is_Symbol or isinstance(power, Indexed) else self._bracket(shown)}"

    def _print_KroneckerDelta(self, expr):
        return f"δ({', '.join(self._delta(expr))})"

    def _print_Rational(self, expr):
        return decimal(expr) or super()._print_Rational(expr)

    def _print_Pi(self, expr):
        return "π"


class _TexPrinter(_IndexPrinter, LatexPrinter):
    printmethod = None
    _adjoint = staticmethod(r"\frac{{\partial\mathcal{{L}}}}{{\partial {}}}".format)
    _bracket, _index = staticmethod(r"\left({}\right)".format), staticmethod("{}".format)
    _sum = staticmethod(r"\sum_{{{}}} {}".format)
    _shown, _name = operator.attrgetter("tex"), staticmethod(name_tex)
    _symbols = {"epsilon": r"\epsilon", "loss": r"\mathcal{L}"}
    _part = _IndexPrinter._print

    def _entry(self, array, indices):
        return self._with_indices(array, "", ",".join(indices), "")

    def _with_indices(self, array, left, below, above):
        shown = f"{{}}^{{{left}}}{array_tex(array)}" if left else array_tex(array)
        return shown + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")

    def _fraction(self, above, below):
        return rf"\frac{{{above}}}{{{' '.join(below)}}}"

    def _root(self, base):
        return rf"\sqrt{{{self._print(base)}}}"

    def _raised(self, base, power):
        return f"{base}^{{{self._print(power)}}}"

    def _truth(self, left, sign, right):
        return rf"\left[{left} {_SIGNS.get(sign, sign)} {right}\right]"

    def _print_KroneckerDelta(self, expr):
        bare = all(isinstance(a, Index | Indexed) for a in expr.args)
        return rf"\delta_{{{(chr(92) + ',' if bare else ', ').join(self._delta(expr))}}}"

    def _print_Pi(self, expr):
        return r"\pi"

    def _print_Rational(self, expr):
        if not decimal(expr):
            return super()._print_Rational(expr)
        mantissa, _, power = decimal(expr).partition("e")
        before = {"1": "", "-1": "-"}.get(mantissa, rf"{mantissa} \cdot ")
        return rf"{before}10^{{{power}}}" if power else mantissa


def text(expr: Expr, names: Sequence[Name] = ()) -> str:
    """An expression in index notation, as text; names: those of a program, in the order of a product's factors."""
    return _TextPrinter(names).doprint(expr)


def tex(expr: Expr, names: Sequence[Name] = ()) -> str:
    """An expression in index notation, as LaTeX; names as for `text`."""
    return _TexPrinter(names).doprint(expr)


def equation(left: Expr, right: Expr, names: Sequence[Name] = ()) -> str:
    """`left = right` as text; names as for `text`."""
    return _TextPrinter(names).equation(left, right)


def equation_tex(left: Expr, right: Expr, names: Sequence[Name] = ()) -> str:
    """`left = right` as LaTeX; names as for `text`."""
    return _TexPrinter(names).equation(left, right)

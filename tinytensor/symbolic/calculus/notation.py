"""Formulas in index notation, as text and as LaTeX: `text(expr)`, `tex(expr)`.

Indices stand where the source puts them (Array.places), an adjoint is ∂𝓛/∂name, and every bound index gets a letter
that no other index nearby has. No proof depends on this file.
"""

from sympy import Expr, Indexed, Mul, Rational, S, Sum
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from tinytensor.symbolic.calculus.formulas import Array, Index, free

_SYMBOLS = {  # as text and as LaTeX
    "epsilon": ("ε", r"\epsilon"),
    "loss": ("𝓛", r"\mathcal{L}"),
}


def decimal(number: Rational) -> str:
    """A fraction as the decimal number that it was written as, 0.07; empty for 1/2, 1/3 and whole numbers."""
    rest = number.q
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1 or number.q < 8:
        return ""
    return f"{number.p / number.q:.12g}"


class _Letters:
    """The common part of both printers: a letter for each bound index that no other index nearby has."""

    def __init__(self):
        super().__init__()
        self.letters = {}

    def doprint(self, expr):
        self.letters = {i: i.name for i in free(expr)}
        return super().doprint(expr)

    def _print_Sum(self, expr):
        outside = dict(self.letters)
        for index, *_ in expr.limits:
            self.letters[index] = next(one for one in index.letters if one not in self.letters.values())
        result = self._sum("".join(self.letters[limit[0]] for limit in expr.limits), expr.function)
        self.letters = outside
        return result

    def _print_Index(self, expr):
        return self.letters.get(expr, expr.name)

    def _places(self, expr):
        """The indices of an entry: above on the left, below, above."""
        of = expr.base
        parts = {"<": "", "_": "", "^": ""}
        for place, index in zip(of.places, expr.indices, strict=True):
            printed = self._print(index)
            parts[place] += printed if isinstance(index, Index) or place == "<" else self._index(printed)
        return parts.values()

    def _print_Mul(self, expr):
        """A fraction of factors and divisors, followed by the adjoints, and last the sums."""
        number, rest = expr.as_coeff_Mul()
        if number < 0:
            return f"-{self._print(-expr)}"
        above, below, adjoints, sums = [], [], [], []
        for factor in Mul.make_args(rest):
            if isinstance(factor, Sum):
                sums.append(factor)
            elif factor.is_Pow and factor.exp.is_number and factor.exp.is_negative:
                below.append(1 / factor)
            elif any(a.of for a in factor.atoms(Array)):
                adjoints.append(factor)
            elif factor != 1:
                above.append(factor)
        if (short := decimal(number)) and not below:
            above, below = [short, *[self._factor(f) for f in above]], []
        else:
            above = [str(number.p)] * (number.p != 1) + [self._factor(f) for f in above]
            below = [str(number.q)] * (number.q != 1) + [self._factor(f) for f in below]
        fraction = [self._fraction(" ".join(above) or "1", below)] if below else above
        last = [*adjoints, *sums][-1:]
        return " ".join([*fraction, *map(self._factor, [*adjoints, *sums][:-1]), *map(self._last, last)])

    def _factor(self, expr):
        return self._bracket(self._print(expr)) if expr.is_Add or isinstance(expr, Sum) else self._print(expr)

    def _last(self, expr):
        return self._print(expr) if isinstance(expr, Sum) else self._factor(expr)


class _Text(_Letters, StrPrinter):
    printmethod = None  # print by the methods below, never by an expression's own

    def _print_Symbol(self, expr):
        return _SYMBOLS.get(expr.name, (expr.name, expr.name))[0]

    def _bracket(self, printed):
        return f"({printed})"

    _index = _bracket  # an expression as an index: a token, λ + 1

    def _sum(self, indices, inside):
        return f"Σ_{indices} {self._factor(inside)}"

    def _print_Indexed(self, expr):
        left, below, above = self._places(expr)
        of = expr.base
        left = left.replace("h", "ʰ") if left in ("", "h") else f"^({left})"
        shown = f"{left}{(of.of or of).text}" + (f"_{below}" if below else "") + (f"^{above}" if above else "")
        return f"∂𝓛/∂{shown}" if of.of else shown

    def _fraction(self, above, below):
        return f"{above}/{below[0] if len(below) == 1 else '(' + ' '.join(below) + ')'}"

    def _print_Pow(self, expr, rational=False):
        base = self._factor(expr.base)
        if expr.exp == S.Half:
            return f"√{base}"
        if expr.exp.is_number and expr.exp.is_negative:
            return f"1/{self._factor(1 / expr)}"
        base = f"({base})" if "^" in base and not base.startswith("(") else base
        return base + str(expr.exp).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))

    def _print_KroneckerDelta(self, expr):
        return f"δ({self._print(expr.args[0])}, {self._print(expr.args[1])})"

    def _print_relu(self, expr):
        return f"max(0, {self._print(expr.args[0])})"

    def _print_larger(self, expr):
        return f"max({', '.join(map(self._print, expr.args))})"

    def _print_absolute(self, expr):
        return f"|{self._print(expr.args[0])}|"

    def _print_sigmoid(self, expr):
        return f"σ({self._print(expr.args[0])})"

    def _print_Phi(self, expr):
        return f"Φ({self._print(expr.args[0])})"

    def _print_held(self, expr):
        return f"held({self._print(expr.args[0])})"

    def _print_upto(self, expr):
        return f"[{self._print(expr.args[0])} ≤ {self._print(expr.args[1])}]"

    def _print_same(self, expr):
        return f"[{self._print(expr.args[0])} = 0]"

    def _print_Rational(self, expr):
        return decimal(expr) or super()._print_Rational(expr)

    def _print_theta(self, expr):
        return f"θ({self._print(expr.args[0])})"


class _TeX(_Letters, LatexPrinter):
    def _bracket(self, printed):
        return rf"\left({printed}\right)"

    def _index(self, printed):
        return printed

    def _sum(self, indices, inside):
        return rf"\sum_{{{indices}}} {self._factor(inside)}"

    def _print_exp(self, expr, exp=None):
        return rf"\exp\left({self._print(expr.args[0])}\right)"

    def _print_Indexed(self, expr):
        left, below, above = self._places(expr)
        of = expr.base
        shown = f"{{}}^{{{left}}}" if left else ""
        shown += (of.of or of).tex + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")
        return rf"\frac{{\partial\mathcal{{L}}}}{{\partial {shown}}}" if of.of else shown

    def _fraction(self, above, below):
        return rf"\frac{{{above}}}{{{' '.join(below)}}}"

    def _print_Symbol(self, expr, style="plain"):
        return _SYMBOLS.get(expr.name, (expr.name, expr.name))[1]

    def _print_Pow(self, expr):
        if isinstance(expr.base, Indexed) and "^" in expr.base.base.places and expr.exp.is_positive:
            return rf"\left({self._print(expr.base)}\right)^{{{self._print(expr.exp)}}}"
        return super()._print_Pow(expr)

    def _print_KroneckerDelta(self, expr):
        return rf"\delta_{{{self._print(expr.args[0])}\,{self._print(expr.args[1])}}}"

    def _print_larger(self, expr, exp=None):
        return rf"\max\left({', '.join(map(self._print, expr.args))}\right)"

    def _print_absolute(self, expr, exp=None):
        return rf"\left|{self._print(expr.args[0])}\right|"

    def _print_sigmoid(self, expr, exp=None):
        return rf"\sigma\left({self._print(expr.args[0])}\right)"

    def _print_Phi(self, expr, exp=None):
        return rf"\Phi\left({self._print(expr.args[0])}\right)"

    def _print_held(self, expr, exp=None):
        return rf"\mathrm{{held}}\left({self._print(expr.args[0])}\right)"

    def _print_upto(self, expr, exp=None):
        return rf"[{self._print(expr.args[0])} \le {self._print(expr.args[1])}]"

    def _print_same(self, expr, exp=None):
        return rf"[{self._print(expr.args[0])} = 0]"

    def _print_Rational(self, expr):
        return decimal(expr) or super()._print_Rational(expr)

    def _print_relu(self, expr, exp=None):
        return rf"\max\left(0, {self._print(expr.args[0])}\right)"

    def _print_theta(self, expr, exp=None):
        return rf"\theta\left({self._print(expr.args[0])}\right)"


def text(expr: Expr) -> str:
    """An expression in index notation, as text."""
    return _Text().doprint(expr)


def tex(expr: Expr) -> str:
    """An expression in index notation, as LaTeX."""
    return _TeX().doprint(expr)

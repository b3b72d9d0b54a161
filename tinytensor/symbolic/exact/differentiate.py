r"""The derivatives of an expression by all of its symbols at once.

SymPy's `diff` traverses the whole expression once per symbol. Here it differentiates one operation at a time,
f(a, b, ...), whose operands are replaced by symbols, and the chain rule combines the results:

    \frac{\partial f}{\partial x} = \sum_a \frac{\partial f}{\partial a} \frac{\partial a}{\partial x},

Subexpressions that several expressions share are differentiated once.
"""

import sympy

_STAND_INS: list[sympy.Symbol] = []  # always the same symbols, so that SymPy's cache of derivatives is hit


class Derivatives:
    """The derivatives of expressions; `of(expr)` has those that are not 0, by symbol."""

    def __init__(self):
        self.memo: dict[sympy.Expr, dict[sympy.Symbol, sympy.Expr]] = {}

    def of(self, expr: sympy.Expr) -> dict[sympy.Symbol, sympy.Expr]:
        if expr.is_Symbol:
            return {expr: sympy.S.One}
        if not expr.args:
            return {}
        if expr not in self.memo:
            self.memo[expr] = self._sum(expr) if expr.is_Add else self._composed(expr)
        return self.memo[expr]

    def _sum(self, expr) -> dict:
        terms: dict[sympy.Symbol, list] = {}
        for part in expr.args:
            for symbol, slope in self.of(part).items():
                terms.setdefault(symbol, []).append(slope)
        return {symbol: sympy.Add(*slopes) for symbol, slopes in terms.items()}

    def _composed(self, expr) -> dict:
        inner = [self.of(a) for a in expr.args]
        if not any(inner):
            return {}
        # constant operands stay: SymPy must know that the exponent of x^2 is a number
        outer, meant = [], {}
        for n, (a, slopes) in enumerate(zip(expr.args, inner, strict=True)):
            outer.append(_stand_in(n) if slopes else a)
            if slopes:
                meant[outer[-1]] = a
        f = expr.func(*outer)
        terms: dict[sympy.Symbol, list] = {}
        for n, slopes in enumerate(inner):
            if slopes:
                by = sympy.diff(f, outer[n]).xreplace(meant)
                for symbol, slope in slopes.items():
                    terms.setdefault(symbol, []).append(by if slope is sympy.S.One else by * slope)
        return {symbol: sympy.Add(*slopes) for symbol, slopes in terms.items()}


def _stand_in(n: int) -> sympy.Symbol:
    while len(_STAND_INS) <= n:
        _STAND_INS.append(sympy.Dummy(f"a{len(_STAND_INS)}"))
    return _STAND_INS[n]

r"""The derivatives of an expression by all of its symbols at once.

SymPy's `diff` traverses the whole expression once per symbol. Here one operation f(a, b, ...) is differentiated at a
time, a function by the table of functions, and the chain rule combines them:

    \frac{\partial f}{\partial x} = \sum_a \frac{\partial f}{\partial a} \frac{\partial a}{\partial x},

Subexpressions that several expressions share are differentiated once.
"""

import sympy


class Derivatives:
    """The derivatives of expressions; `of(expr)` has those that are not 0, by symbol."""

    def __init__(self):
        self.memo: dict[sympy.Expr, dict[sympy.Symbol, sympy.Expr]] = {}

    def of(self, expr: sympy.Expr) -> dict[sympy.Symbol, sympy.Expr]:
        if expr.is_Symbol:
            return {expr: sympy.S.One}
        if expr not in self.memo:
            terms: dict[sympy.Symbol, list] = {}
            for n, inner in enumerate(map(self.of, expr.args)):
                by = _derivative(expr, n) if inner else sympy.S.Zero
                for symbol, slope in inner.items():
                    terms.setdefault(symbol, []).append(by * slope)
            self.memo[expr] = {symbol: sympy.Add(*slopes) for symbol, slopes in terms.items()}
        return self.memo[expr]


def _derivative(expr: sympy.Expr, n: int) -> sympy.Expr:
    """The derivative of one operation by its argument n."""
    if expr.is_Add:
        return sympy.S.One
    if expr.is_Mul:
        return sympy.Mul(*expr.args[:n], *expr.args[n + 1 :])
    if expr.is_Pow:
        base, power = expr.args
        return expr * sympy.log(base) if n else power * base ** (power - 1)
    return expr.fdiff(n + 1)

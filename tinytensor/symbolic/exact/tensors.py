"""Tensors whose elements are formulas: `symbols` and `exact` make them, `latex` writes them."""

import random
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import sympy

from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.exact.scalars import ROUNDED, Condition, Exact, Symbolic
from tinytensor.utils.display.notebook import Latex

_STEPS = 509  # witnesses are multiples of 1/509 (finer for larger tensors): a prime, so that sums are rarely equal

SMALL_EXPRESSION = 40  # a formula of so many operations is brought to one fraction


def symbols(name: str, *shape, witness=None, positive: bool = False) -> Tensor:
    """A tensor of symbols name_0, name_1, ... (name_0_0, ... for a matrix) with a witness for each, for proofs.

    Witnesses are distinct fractions between -2 and 2 (0 and 2 if `positive`), drawn from a generator that the name
    seeds; or give them: an array or nested lists of the tensor's shape. They decide comparisons only.
    """
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    values = np.empty(shape, object)
    if witness is None:
        parts = _STEPS if values.size <= _STEPS else sympy.nextprime(values.size)
        steps = [n for n in range(1 if positive else -2 * parts, 2 * parts) if n]
        numbers = [Fraction(n, parts) for n in random.Random(name).sample(steps, values.size)]
    else:
        numbers = np.broadcast_to(np.asarray(witness, object), shape).reshape(-1)
    flat = values.reshape(-1)
    for i, (index, number) in enumerate(zip(np.ndindex(values.shape), numbers, strict=True)):
        flat[i] = Symbolic(sympy.Symbol("_".join([name, *map(str, index)])), number)
    return Tensor.of(values)


def exact(x: Tensor, scalar_type: type[Exact] = Symbolic) -> Tensor:
    """A tensor of floats as the fractions that they are."""
    return Tensor.of(np.asarray(np.frompyfunc(scalar_type, 1, 1)(x._data), object))


def variables(values: np.ndarray) -> dict[tuple[int, ...], Symbolic]:
    """The values that depend on a symbol, by their places; all others are numbers."""
    positions = ((index, values[index]) for index in np.ndindex(values.shape))
    return {index: value for index, value in positions if isinstance(value, Symbolic) and value.expr.free_symbols}


def witnesses(array: np.ndarray) -> np.ndarray:
    """The floats beside exact numbers."""
    return np.array([float(getattr(x, "witness", x)) for x in array.flat], np.float64).reshape(array.shape)


def slopes_of(y: np.ndarray, g: np.ndarray) -> dict[sympy.Symbol, sympy.Expr]:
    """The derivatives of the sum of g y that are not 0, by symbol.

    SymPy's `diff` traverses the whole expression once per symbol. Here one operation is differentiated at a time, the
    chain rule combines them, and subexpressions that several entries share are differentiated once.
    """

    @cache
    def slopes(expr: sympy.Expr) -> dict[sympy.Symbol, sympy.Expr]:
        if expr.is_Symbol:
            return {expr: sympy.S.One}
        terms: dict[sympy.Symbol, list] = {}
        for n, inner in enumerate(map(slopes, expr.args)):
            by = _derivative(expr, n) if inner else sympy.S.Zero
            for symbol, slope in inner.items():
                terms.setdefault(symbol, []).append(by * slope)
        return {symbol: sympy.Add(*parts) for symbol, parts in terms.items()}

    return slopes(sympy.Add(*((Symbolic.of(a) * b).expr for a, b in zip(g.flat, y.flat, strict=True))))


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


def latex(x: Tensor, conditions: Iterable[Condition] = ()) -> Latex:
    r"""The values of x as LaTeX: a formula for 0-d, a row for 1-d, a matrix for 2-d, nested brackets beyond.

    Small formulas are brought to one fraction, with common factors cancelled: ten steps of a kernel read better as a
    closed form. Large formulas stay as they were computed; `derive` writes those of any size with sums.

    A float that is no short fraction is written in decimal: 0.1 is 0.1, a name for the fraction of 17 digits that the
    float is.

    A formula that depends on comparisons, as at a ReLU, holds where these come out as at the witnesses: `with path() as
    conditions:` around the computation of x collects them, and `latex(x, conditions)` writes them after the formula.

    The result is a string, which a notebook typesets if it is the value of a cell.
    """
    compared = [_positive(_readable(c.difference)) for c in conditions]
    return Latex(r",\quad ".join([_latex(x.detach().numpy()), *dict.fromkeys(compared)]))


def _positive(formula: sympy.Expr) -> str:
    """`formula > 0`, or `-formula < 0` if that has fewer signs."""
    if formula.could_extract_minus_sign():
        return f"{sympy.latex(-formula)} < 0"
    return f"{sympy.latex(formula)} > 0"


def _latex(values: np.ndarray) -> str:
    if values.ndim == 0:
        return sympy.latex(_readable(values[()]))
    if values.ndim > 2:
        return r"\left[" + r",\; ".join(map(_latex, values)) + r"\right]"
    written = [" & ".join(sympy.latex(_readable(value)) for value in row) for row in np.atleast_2d(values)]
    return r"\begin{bmatrix} " + r" \\ ".join(written) + r" \end{bmatrix}"


def _readable(value) -> sympy.Expr:
    if not isinstance(value, Symbolic):
        return sympy.sympify(value.item() if isinstance(value, np.generic) else value)
    formula = value.formula()
    formula = formula.xreplace({number: _decimal(number) for number in formula.atoms(sympy.Rational)})
    if formula.count_ops() > SMALL_EXPRESSION:
        return formula
    fraction = sympy.together(sympy.expand_power_exp(formula))
    closed = sympy.factor(sympy.powsimp(sympy.cancel(fraction)))
    return min((sympy.powsimp(f, deep=True, combine="exp") for f in (closed, fraction)), key=sympy.count_ops)


def _decimal(number: sympy.Rational) -> sympy.Expr:
    """A float such as 0.1 as a symbol named by its decimal digits; a fraction that reads well as it is."""
    read = ROUNDED.get(abs(float(number)))
    if read is not None and not read.is_Rational and float(number).as_integer_ratio() == (number.p, number.q):
        return read if number > 0 else -read
    if number.q > 10**6 and abs(number.p) & (abs(number.p) - 1) == 0:  # a division by such a float
        return 1 / _decimal(1 / number)
    if number.q < 1000 or number.q & (number.q - 1) or float(number).as_integer_ratio() != (number.p, number.q):
        return number
    name = format(Decimal(repr(abs(float(number)))), "f")
    if len(name) > 20:
        digits, _, exponent = f"{abs(float(number))!r}".partition("e")
        name = rf"{{{digits} \cdot 10^{{{int(exponent)}}}}}"
    return sympy.Symbol(name, positive=True) * (-1 if number < 0 else 1)

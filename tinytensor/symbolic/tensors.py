"""Tensors whose elements are formulas: made by `symbols` and `exact`, differentiated, read by `latex`."""

import random
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import sympy

from tinytensor.symbolic.scalars import Condition, Symbolic
from tinytensor.tensors import Tensor

_STEPS = 509  # witnesses are multiples of 1/509: a prime, so that sums and products rarely meet


def symbols(name: str, *shape, witness=None, positive: bool = False) -> Tensor:
    """A tensor of symbols name_0, name_1, ... with a witness for each, for proofs.

    Witnesses are fractions between -2 and 2 (0 and 2 if `positive`), no two alike, drawn from a generator that the
    name seeds; or give them: an array or nested lists of the tensor's shape. They decide comparisons only.
    """
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    values = np.empty(shape, object)
    if witness is None:
        low = 1 if positive else -2 * _STEPS
        steps = [n for n in range(low, 2 * _STEPS) if n]
        numbers = [Fraction(n, _STEPS) for n in random.Random(name).sample(steps, values.size)]
    else:
        numbers = np.broadcast_to(np.asarray(witness, object), shape).reshape(-1)
    flat = values.reshape(-1)
    for i, number in enumerate(numbers):
        flat[i] = Symbolic(sympy.Symbol(f"{name}_{i}" if shape else name), number)
    return Tensor.of(values)


def exact(x: Tensor) -> Tensor:
    """A tensor of floats as the fractions that they are."""
    return Tensor.of(np.asarray(np.frompyfunc(Symbolic, 1, 1)(x._data), object))


def variables(values: np.ndarray) -> dict[tuple[int, ...], Symbolic]:
    """What depends on a symbol among the values, by its place; all others are numbers."""
    places = ((at, values[at]) for at in np.ndindex(values.shape))
    return {at: value for at, value in places if isinstance(value, Symbolic) and value.expr.free_symbols}


def derivative(y: np.ndarray, g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d(sum of g y)/dx for each symbol of x, by SymPy's `diff`; 0 where x has a number."""
    total = sympy.Add(*((Symbolic.of(a) * b).expr for a, b in zip(np.ravel(g), np.ravel(y), strict=True)))
    result = np.full(np.shape(x), sympy.S.Zero, object)
    for at, value in variables(x).items():
        result[at] = sympy.diff(total, value.expr)
    return result


def latex(x: Tensor, conditions: Iterable[Condition] = ()) -> str:
    r"""The values of x as LaTeX: a formula for 0-d, a row for 1-d, a matrix for 2-d, nested brackets beyond.

    Formulas are brought to one fraction, with common factors cancelled: what a kernel computes in ten steps is read
    better as the closed form it amounts to. A float that is no short fraction stands as it was written: 0.1 is 0.1, not
    the fraction of 17 digits that a computer makes of it, for which it is a name here.

    `conditions`, from `with path() as conditions:` around what computed x, are written behind it: the signs at a ReLU,
    say, for which alone the formulas hold.
    """
    written = dict.fromkeys(_condition(c.difference) for c in conditions)
    return r",\quad ".join([_latex(x.detach().numpy()), *written])


def _condition(difference: Symbolic) -> str:
    """difference > 0, or the other way about where that has fewer signs."""
    formula = _readable(difference)
    if formula.could_extract_minus_sign():
        return f"{sympy.latex(-formula)} < 0"
    return f"{sympy.latex(formula)} > 0"


def _latex(values: np.ndarray) -> str:
    if values.ndim == 0:
        return sympy.latex(_readable(values[()]))
    if values.ndim == 1:
        return _rows([" & ".join(map(_latex_of, values))])
    if values.ndim == 2:
        return _rows([" & ".join(map(_latex_of, row)) for row in values])
    return r"\left[" + r",\; ".join(_latex(block) for block in values) + r"\right]"


def _latex_of(value) -> str:
    return sympy.latex(_readable(value))


def _rows(rows: list[str]) -> str:
    return r"\begin{bmatrix} " + r" \\ ".join(rows) + r" \end{bmatrix}"


def _readable(value) -> sympy.Expr:
    if not isinstance(value, Symbolic):
        return sympy.sympify(value.item() if isinstance(value, np.generic) else value)
    formula = value.formula()
    formula = formula.xreplace({number: _decimal(number) for number in formula.atoms(sympy.Rational)})
    return sympy.factor(sympy.powsimp(sympy.cancel(sympy.together(formula))))


def _decimal(number: sympy.Rational) -> sympy.Expr:
    """A float such as 0.1 under the name that it has in print; a number that is read well as a fraction as it is."""
    if number.q < 1000 or number.q & (number.q - 1) or float(number).as_integer_ratio() != (number.p, number.q):
        return number
    name = format(Decimal(repr(abs(float(number)))), "f")
    if len(name) > 20:
        digits, _, exponent = f"{abs(float(number))!r}".partition("e")
        name = rf"{{{digits} \cdot 10^{{{int(exponent)}}}}}"
    return sympy.Symbol(name, positive=True) * (-1 if number < 0 else 1)

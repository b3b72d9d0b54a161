r"""Balls: certified enclosures of real numbers, as scalars that the engine computes with.

A `Ball` is a midpoint and a radius, and it contains a real number. Arb (in FLINT, by python-flint) computes with balls:
for all real numbers in the operands, the result contains the exact result. So rounding is under control: the loss and
the gradients that the engine's tape gives over balls contain the true ones, and the radii are bounds of their errors.

    with enclosing():
        x = balls(np.float32([0.5, 2]))     # the numbers that these floats are, with radius 0
        y = Tensor.of(x, requires_grad=True).exp().sum()
        y.backward()

A comparison that the balls leave open raises `Undecided`, so the path of a program is certain, too.

Launches run from their kernels' Python source, as for all exact scalars. Only the launches with most of the work,
matrix products and attention, are computed by their definitions, with Arb's products of matrices, in a third of the
time. (A test compares the two ways at a small size.)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import sympy

from tinytensor.native.platform.distribution import install
from tinytensor.symbolic.exact.scalars import (
    NUMBERS,
    Exact,
    Symbolic,
    Undecided,
    fraction,
    number_read_as,
    use_scalar_type,
)

try:
    from flint import arb, arb_mat, ctx, fmpq
except ImportError as error:
    raise ImportError(f"enclosures need {error.name} (python-flint): {install('proofs')}") from error

BITS = 288  # of a midpoint: a gradient of a few layers is known to 1e-40 of its size, where float64 gives 1e-16


@contextmanager
def enclosing(bits: int = BITS) -> Iterator[set[float]]:
    """Inside, numbers in launches become balls, whose midpoints have so many bits.

    Yields the set of floats that were read as they are: constants that may have been rounded. Their exact values can be
    given to `tinytensor.symbolic.exact.scalars.reading`.
    """
    before, ctx.prec = ctx.prec, bits
    met.clear()
    try:
        with use_scalar_type(Ball):
            yield met
    finally:
        ctx.prec = before


met: set[float] = set()


def _constant(expr: sympy.Expr) -> arb:
    """A number of SymPy, made of fractions, powers and pi."""
    if expr.is_Rational:
        return arb(fmpq(int(expr.p), int(expr.q)))
    if expr is sympy.pi:
        return arb.pi()
    parts = [_constant(part) for part in expr.args]
    if expr.is_Mul or expr.is_Add:
        y = parts[0]
        for part in parts[1:]:
            y = y * part if expr.is_Mul else y + part
        return y
    if expr.is_Pow and expr.exp.is_Rational:
        return parts[0] ** fmpq(int(expr.exp.p), int(expr.exp.q))
    raise TypeError(f"{expr}: no ball is known for this constant")


def _enclosure(value) -> arb:
    if isinstance(value, Symbolic):
        value = value.expr
    elif isinstance(value, float | np.floating):
        value = number_read_as(float(value))
        if isinstance(value, float) and not value.is_integer():
            met.add(value)
    if isinstance(value, sympy.Expr):
        return _constant(value)
    if isinstance(value, int):
        return arb(value)
    return arb(fmpq(*fraction(value).as_integer_ratio()))


def _operand(value) -> arb | None:
    """The other operand as a ball; None if it is no number."""
    if value.__class__ is Ball:
        return value.arb
    return _enclosure(value) if isinstance(value, NUMBERS) else None


def _binary(operation: Callable) -> Callable:
    def method(self, other):
        other = other.arb if other.__class__ is Ball else _operand(other)
        return NotImplemented if other is None else _ball(operation(self.arb, other))

    return method


def _comparison(certain: Callable, certainly_not: Callable, symbol: str) -> Callable:
    """True or False if one of them is certain; `arb > arb` is also False if neither is."""

    def method(self, other):
        if self is other:
            return symbol in ("==", "<=", ">=")
        y = _operand(other)
        if y is None:
            return NotImplemented
        if certain(self.arb, y):
            return True
        if certainly_not(self.arb, y):
            return False
        raise Undecided(f"{self} {symbol} {y}: the balls overlap, so this is undecided; compute with more bits")

    return method


def _ball(value: arb) -> "Ball":
    y = _new(Ball)
    y.arb = value
    return y


_new = object.__new__


class Ball(Exact):
    """A real number within a ball: `Ball(0.1)` is exactly this float, `Ball(arb)` that ball."""

    __slots__ = ("arb",)

    def __init__(self, value):
        self.arb = value.arb if isinstance(value, Ball) else value if isinstance(value, arb) else _enclosure(value)

    @property
    def witness(self) -> float:
        """The float next to the midpoint, for reading; it decides nothing."""
        return float(self.arb.mid())

    @property
    def radius(self) -> float:
        """A float that is at least the radius."""
        return float(np.nextafter(float(self.arb.rad()), np.inf)) if not self.arb.is_exact() else 0.0

    def number(self) -> Fraction | None:
        if not self.arb.is_exact():
            return None
        mantissa, exponent = map(int, self.arb.man_exp())
        return Fraction(mantissa) * Fraction(2) ** exponent

    # --- Arithmetic

    __add__ = __radd__ = _binary(lambda a, b: a + b)
    __sub__, __rsub__ = _binary(lambda a, b: a - b if a is not b else arb(0)), _binary(lambda a, b: b - a)
    __mul__ = __rmul__ = _binary(lambda a, b: a * b)

    def __truediv__(self, other):
        other = _operand(other)
        return NotImplemented if other is None else _ball(_quotient(self.arb, other))

    def __rtruediv__(self, other):
        other = _operand(other)
        return NotImplemented if other is None else _ball(_quotient(other, self.arb))

    def __neg__(self):
        return _ball(-self.arb)

    def __abs__(self):
        return _ball(abs(self.arb))  # without a comparison: it is right on both sides of 0

    def _power(self, n: int):
        return _ball(self.arb**n) if n >= 0 else _ball(_quotient(arb(1), self.arb**-n))

    # --- Comparisons: certain, or refused

    __gt__ = _comparison(lambda a, b: a > b, lambda a, b: a <= b, ">")
    __ge__ = _comparison(lambda a, b: a >= b, lambda a, b: a < b, ">=")
    __lt__ = _comparison(lambda a, b: a < b, lambda a, b: a >= b, "<")
    __le__ = _comparison(lambda a, b: a <= b, lambda a, b: a > b, "<=")
    __eq__ = _comparison(lambda a, b: a == b, lambda a, b: a != b, "==")
    __ne__ = _comparison(lambda a, b: a != b, lambda a, b: a == b, "!=")
    __hash__ = None

    def isfinite(self) -> bool:
        return self.arb.is_finite()

    # --- Functions

    def _apply(self, name: str):
        y = getattr(self.arb, name)()
        if not y.is_finite():
            raise Undecided(f"{name}({self}) is not defined, or not bounded, on the whole of this ball")
        return _ball(y)

    def _integer(self, nearest: Callable, shift: Fraction):
        known = self.number()
        if known is not None:
            return Ball(nearest(known))
        n = (self + shift).arb.floor()
        if n.is_exact():
            return _ball(n)
        raise Undecided(f"{self}: no whole number belongs to the whole of this ball")

    def __repr__(self):
        return f"[{self.arb.str(20)}]"


def _quotient(a: arb, b: arb) -> arb:
    if b.contains(0):
        raise ZeroDivisionError(f"{a} / {b}: the divisor's ball contains 0")
    return a / b


def _product(a, b, term, relu, rows, columns, y, scratch, copy) -> None:
    """The launch of `matmul`, by its definition: y[n] = a[n] b[n] + term, then max(0, y) if relu."""
    for n in range(a.shape[0]):
        product = _matrix(a[n]) * _matrix(b[n])
        for i, row in enumerate(product.tolist()):
            for j, value in enumerate(row):
                if term.size:
                    value = value + Ball.of(term[n, i, j]).arb
                one = _ball(value)
                y[n, i, j] = one if not relu or one > 0 else Ball(0)


def _matrix(values: np.ndarray) -> arb_mat:
    return arb_mat([[Ball.of(x).arb for x in row] for row in values.tolist()])


def _weights(q, k, mask, scale, is_causal) -> arb_mat:
    """p_im = exp(scale q_i . k_m) / sum_n exp(scale q_i . k_n) over the keys that i may attend to, and 0 elsewhere."""
    scale, rows = Ball.of(scale).arb, []
    for i, scores in enumerate((_matrix(q) * _matrix(k).transpose()).tolist()):
        seen = [(mask.size == 0 or mask[i, m]) and (m <= i or not is_causal) for m in range(len(scores))]
        e = [(scale * s).exp() if see else arb(0) for s, see in zip(scores, seen, strict=True)]
        total = sum(e, arb(0)) if any(seen) else arb(1)
        rows.append([x / total for x in e])
    return arb_mat(rows)


def _attention(q, k, v, mask, scale, is_causal, y, lse, scratch) -> None:
    """The launch of `attention`, by its definition: y = p v. (Its other outputs are read by its own backward only.)"""
    for at in np.ndindex(q.shape[:2]):
        _write(y[at], _weights(q[at], k[at], mask[at] if mask.size else mask, scale, is_causal) * _matrix(v[at]))


def _attention_backward(g, q, k, v, mask, y, lse, scale, is_causal, dq, dk, dv, scratch) -> None:
    """Its gradient, with dp = g v^T: dv = p^T g, ds_im = p_im (dp_im - sum_n p_in dp_in), dq = scale ds k."""
    for at in np.ndindex(q.shape[:2]):
        p = _weights(q[at], k[at], mask[at] if mask.size else mask, scale, is_causal)
        arriving = _matrix(g[at])
        ds = []
        for weights, slopes in zip(p.tolist(), (arriving * _matrix(v[at]).transpose()).tolist(), strict=True):
            mean = sum((a * b for a, b in zip(weights, slopes, strict=True)), arb(0))
            ds.append([a * (b - mean) for a, b in zip(weights, slopes, strict=True)])
        ds = arb_mat(ds) * Ball.of(scale).arb
        _write(dq[at], ds * _matrix(k[at]))
        _write(dk[at], ds.transpose() * _matrix(q[at]))
        _write(dv[at], p.transpose() * arriving)


def _write(y: np.ndarray, values: arb_mat) -> None:
    for at, value in zip(np.ndindex(y.shape), values.entries(), strict=True):
        y[at] = _ball(value)


Ball.scalar_type = Ball
Ball.launches = {"matmul": _product, "attention": _attention, "attention_backward": _attention_backward}


def balls(values: np.ndarray) -> np.ndarray:
    """An array of balls that are exactly these floats."""
    return np.asarray(np.frompyfunc(lambda x: _ball(arb(float(x))), 1, 1)(values), object)

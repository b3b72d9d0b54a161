"""Exact scalars: the elements of object arrays that replace floats when code is proved.

An exact scalar is a SymPy expression: nothing is rounded. It has a float beside it, its witness, which decides
comparisons: a kernel that takes the larger of two symbols takes one path, and the comparisons on that path are
collected as its conditions.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import sympy
from sympy import S

from tinytensor.symbolic.index_calculus.functions import HEADS, TABLE, Functions
from tinytensor.symbolic.index_calculus.quotients import Fractions
from tinytensor.symbolic.index_calculus.signs import Signs
from tinytensor.symbolic.index_calculus.vanishing import vanishes_at_size
from tinytensor.symbolic.time_limit import replaced, step

CLOSE = 1e-9  # floats nearer than this (relatively) may be two roundings of one number: they decide nothing


def differ(a: float, b: float, close: float = CLOSE) -> bool:
    """Are these floats two different numbers? (False if one is NaN: then nothing is known.)"""
    return abs(a - b) > close * max(1.0, abs(a), abs(b))


def float_or_nan(function: Callable, *args) -> float:
    """The value of a function as a float; NaN where that overflows, or there is none: then nothing is known."""
    try:
        return float(function(*args))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return math.nan


class Undecided(ArithmeticError):
    """A comparison whose witnesses are too close to tell which is larger."""


@dataclass(frozen=True)
class Condition:
    """`difference > 0`: a comparison on which the path of a computation depends."""

    difference: "Symbolic"

    def __str__(self):
        return f"{self.difference} > 0"


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


_fractions: ContextVar[Fractions | None] = ContextVar("fractions", default=None)


def atoms_kept() -> AbstractContextManager:
    """Inside, normal forms are remembered: the entries of a tensor have most of their subexpressions in common."""
    return replaced(_fractions, Fractions(Signs()))


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


_paths: ContextVar[tuple["Path", ...]] = ContextVar("paths", default=())  # the open ones, of this thread
_reading: ContextVar[tuple[dict[float, sympy.Expr], set[float]]] = ContextVar("reading", default=({}, set()))


class Path(list):
    """The conditions of a computation, and what is `needed` for its values to exist: ("denominator", x) for 1 / x.

    The keys, and what they ask of a number, are those of the table of functions (index_calculus/functions.py).
    A formula does not tell: x / x is 1 as a formula, and has no value at 0.
    """

    def __init__(self):
        self.needed: dict[tuple[str, sympy.Expr], None] = {}


@contextmanager
def path():
    """Collect the conditions of computations inside: `with path() as conditions: ...`."""
    with replaced(_paths, (*_paths.get(), Path())) as paths:
        yield paths[-1]


def _needs(key: str, term: sympy.Expr) -> None:
    for conditions in _paths.get() if not term.is_Rational else ():
        conditions.needed[key, term] = None


@contextmanager
def reading(constants: dict[float, sympy.Expr]):
    """Read these floats as the exact numbers that they round: 0.70710678... as the root of 1/2.

    Yields the set of the floats that were met.
    """
    with replaced(_reading, (constants, set())) as (_, met):
        yield met


def number_read_as(value: float) -> float | sympy.Expr:
    """The number that a float stands for: the one of `reading`, else itself."""
    constants, met = _reading.get()
    met |= {value} & constants.keys()
    return constants.get(value, value)


NUMBERS = (int, float, Fraction, np.number, np.bool_, sympy.Expr)  # operands that become exact scalars beside one


def binary(operation: Callable) -> Callable:
    """An operator: a number as other operand becomes exact; any other (array, tensor) gets NotImplemented."""

    def method(self, operand):
        step()
        if not isinstance(operand, self.scalar_type):
            if not isinstance(operand, NUMBERS):
                return NotImplemented
            operand = self.scalar_type.of(operand)
        return operation(self, operand)

    return method


class Exact:
    """The base of all exact scalars: a witness, which decides comparisons, and methods that follow from + * / **.

    Kinds are formulas (`Symbolic`), residues modulo a prime (`field.Residue`), and enclosures of real numbers
    (`derivations.exact.balls.Ball`). A kind defines its sums, products, quotients, powers and functions (`_apply`), its
    comparisons (`_sign`), and which number it is.
    """

    __slots__ = ("witness",)
    scalar_type: type["Exact"]
    launches: dict[str, Callable] = {}  # by name, kernels that this kind computes as a whole

    @classmethod
    def of(cls, value) -> "Exact":
        """`value` as an exact scalar of this kind."""
        return value if value.__class__ is cls else cls(value)

    def stored(self) -> "Exact":
        """This scalar, as it is put into an array."""
        return self

    def number(self) -> Fraction | None:
        """The fraction that this is, None if it is not a known one."""
        raise NotImplementedError

    @binary
    def __pow__(self, operand):
        exponent = operand.number()
        if exponent is not None and exponent.denominator == 1:
            if exponent < 0 and self.number() == 0:
                raise ZeroDivisionError(f"0 ** {exponent}: exact scalars have no infinity")
            return self._power(int(exponent))
        if exponent is not None and exponent.denominator == 2:
            return self._half_power(int(2 * exponent))
        if self > 0:  # a^b = e^(b log a), on the path where a is positive
            return (operand * self.log()).exp()
        if self.number() == 0 and operand > 0:
            return self
        raise Undecided(f"{self} ** {operand}: a power that is no whole number needs a positive base")

    def _half_power(self, n: int):
        """x^(n / 2)."""
        return self.sqrt() ** n

    __sub__ = binary(lambda self, operand: self + -operand)
    __floordiv__ = binary(lambda self, operand: (self / operand).floor())
    __mod__ = binary(lambda self, operand: self - operand * (self // operand))
    __radd__ = binary(lambda self, operand: self + operand)
    __rmul__ = binary(lambda self, operand: self * operand)
    __rsub__ = binary(lambda self, operand: operand - self)
    __rtruediv__ = binary(lambda self, operand: operand / self)
    __rfloordiv__ = binary(lambda self, operand: operand // self)
    __rmod__ = binary(lambda self, operand: operand % self)
    __rpow__ = binary(lambda self, operand: operand**self)

    def __neg__(self):
        return self * -1

    def __pos__(self):
        return self

    # ------------------------------------------------------------------------- comparisons: by witness

    def _gap(self, operand: "Exact") -> float:
        """The witness of self - other; Undecided if the two are too close to say which is larger."""
        if not differ(self.witness, operand.witness):  # NaN and overflow, too
            raise Undecided(
                f"{self} or {operand}: which is larger can't be decided, their witnesses are {self.witness!r} and "
                f"{operand.witness!r}; choose other witnesses"
            )
        return self.witness - operand.witness

    __lt__ = binary(lambda self, operand: self._sign(operand) == -1)
    __le__ = binary(lambda self, operand: self._sign(operand) in (-1, 0))
    __gt__ = binary(lambda self, operand: self._sign(operand) == 1)
    __ge__ = binary(lambda self, operand: self._sign(operand) in (1, 0))
    __eq__ = binary(lambda self, operand: self._sign(operand) == 0)
    __ne__ = binary(lambda self, operand: self._sign(operand) != 0)
    __hash__ = None

    def __bool__(self):
        return self != 0

    def __abs__(self):
        return -self if self < 0 else self

    # ------------------------------------------- functions (exp, log ... are added below the class)

    def isnan(self) -> bool:
        """Is it NaN?"""
        return False

    def isfinite(self) -> bool:
        """Is its value finite at the sample point?"""
        return math.isfinite(self.witness)

    def _float(self, name: str) -> float:
        """The witness of a function of this."""
        try:
            return TABLE[name].value(self.witness)
        except OverflowError:
            return math.inf
        except ValueError:
            where = f"no value at the witness {self.witness!r}; choose other witnesses"
            raise Undecided(f"{name}({self}): {where}") from None

    def floor(self):
        """The largest whole number that is at most x."""
        return self._integer(math.floor, Fraction(0))

    def ceil(self):
        """The smallest whole number that is at least x."""
        return -(-self).floor()

    def rint(self):
        """The nearest whole number; the even one if two are equally near."""
        return self._integer(round, Fraction(1, 2))

    __floor__, __ceil__, __round__ = floor, ceil, rint

    def _integer(self, nearest: Callable, shift: Fraction):
        """The whole number n with n <= self + shift < n + 1; the path has these two conditions."""
        value = self.number()
        if value is not None and value != -math.inf:
            return self.scalar_type.of(nearest(value))
        if not math.isfinite(self.witness):
            raise Undecided(f"{self}: no whole number is next to the witness {self.witness!r}")
        n, zero = nearest(self.witness), self.scalar_type.of(0)
        for difference in (self + shift - n, n + 1 - shift - self):
            difference._sign(zero)  # notes it as positive, or raises Undecided
        return self.scalar_type.of(n)

    # ----------------------------------------------------------------------- conversions that would round

    def __float__(self):
        raise TypeError(f"float({self}): an exact scalar is not rounded; .witness is the float beside it")

    def __int__(self):
        raise TypeError(f"int({self}): an exact scalar is no index or count; use .floor() or .number()")


_new = object.__new__


class Symbolic(Exact):
    """A SymPy expression and its witness; a fraction is one without symbols.

    `Symbolic(3)`, `Symbolic(0.1)` (the fraction that this float is), `Symbolic(expression, witness)`. Functions are
    opaque: exp(x) is never rewritten while a kernel runs, since SymPy's own functions ask so many questions about their
    arguments that a loop does not end. `equals` does the proofs.

    A sum is built when its expression is read: SymPy would sort all terms again after each addition.
    """

    __slots__ = ("_expr", "_parts")

    def __init__(self, value, witness: float | Fraction | None = None):
        if isinstance(value, Symbolic):
            self._expr, self.witness = value.expr, value.witness
            return
        if isinstance(value, float):
            value = number_read_as(value)
        if isinstance(value, sympy.Expr):
            self._expr = value
            if witness is None:
                if value.free_symbols:
                    raise TypeError(f"Symbolic({value}): an expression with symbols needs a witness, a number for it")
                witness = value
        else:
            known = fraction(value)
            self._expr = sympy.Rational(known.numerator, known.denominator)
            witness = known
        self.witness = float_or_nan(float, witness)

    @classmethod
    def _make(cls, expr: sympy.Expr, witness: float) -> "Symbolic":
        result = cls.__new__(cls)
        result._expr = expr
        result.witness = float(expr) if expr.is_Rational or expr is sympy.nan else witness
        return result

    @property
    def expr(self) -> sympy.Expr:
        """The expression."""
        if self._expr is None:
            terms, todo = [], [*self._parts]
            while todo:
                part = todo.pop()
                if part._expr is None:
                    todo.extend(part._parts)
                else:
                    terms.append(part._expr)
            whole = self._make(sympy.Add(*terms), self.witness)
            self._expr, self._parts, self.witness = whole._expr, (), whole.witness
        return self._expr

    def number(self) -> Fraction | None:
        """The fraction that this is, None if it is not a known one."""
        return Fraction(int(self.expr.p), int(self.expr.q)) if self.expr.is_Rational else None

    # ------------------------------------------------------------------------------------- arithmetic

    @binary
    def __add__(self, operand):
        if operand._expr is S.Zero:
            return self
        if self._expr is S.Zero:
            return operand
        result = _new(Symbolic)
        result._expr, result._parts, result.witness = None, (self, operand), self.witness + operand.witness
        return result

    @binary
    def __mul__(self, operand):
        for factor, product in ((self, operand), (operand, self)):
            if factor.expr is S.One or (product.expr is S.Zero and factor.isfinite()):
                return product
        return self._make(self.expr * operand.expr, self.witness * operand.witness)

    @binary
    def __truediv__(self, operand):
        if operand.expr is S.Zero:
            raise ZeroDivisionError(f"{self} / 0: exact scalars have no infinity")
        _needs("denominator", operand.expr)
        if operand.expr is S.One or (self.expr is S.Zero and operand.isfinite()):
            return self
        return self._make(self.expr / operand.expr, self.witness / operand.witness if operand.witness else math.nan)

    def _power(self, n: int):
        if n < 0:
            _needs("denominator", self.expr)
        return self._make(self.expr**n, float_or_nan(pow, self.witness, n))

    # ------------------------------------------------------------------------- comparisons: by witness

    def _sign(self, operand: "Symbolic") -> int | None:
        """The sign of self - other, None for NaN: exact for numbers, else by the witnesses and noted as a condition."""
        a, b = self.number(), operand.number()
        if a is not None and b is not None:
            return (a > b) - (a < b)
        if self.isnan() or operand.isnan():
            return None
        if self.expr == operand.expr:
            return 0
        if not self.isfinite() or not operand.isfinite():
            return (self.witness > operand.witness) - (self.witness < operand.witness)
        gap = self._gap(operand)
        for conditions in _paths.get():
            conditions.append(Condition(self - operand if gap > 0 else operand - self))
        return 1 if gap > 0 else -1

    def __hash__(self):
        return hash(self.expr)

    # ------------------------------------------- functions (exp, log ... are added below the class)

    def _apply(self, name: str):
        if name == "log" and self.expr is S.Zero:  # a row of attention whose places are all masked
            return self._make(S.NegativeInfinity, -math.inf)
        witness = self._float(name)
        for key, term in TABLE[name].needs.items():
            _needs(key, term(OPAQUE, self.expr))
        if name == "sqrt" and self.expr.is_Rational:
            return self._make(sympy.sqrt(self.expr), math.sqrt(self.witness))
        return self._make(opaque(name)(self.expr), witness)

    def isnan(self) -> bool:
        """Is it SymPy's nan?"""
        return self.expr is sympy.nan

    def isfinite(self) -> bool:
        """False if its value at the sample point is minus infinity or NaN."""
        return math.isfinite(self.witness) or not self.expr.has(S.NegativeInfinity, sympy.nan)

    # -------------------------------------------------------------------------------------------- proofs

    def equals(self, operand) -> bool:
        """Is this equal to `other` for all values of the symbols (on the path that was taken)?

        True is a proof, where each argument of a root or a logarithm is above 0: the difference is brought to one
        fraction of polynomials in the symbols and in the functions' values (quotients.py), and its numerator is 0.
        """
        operand = Symbolic.of(operand)
        if not self.isfinite() or not operand.isfinite():
            return self.witness == operand.witness and not self.isfinite() and not operand.isfinite()
        if differ(self.witness, operand.witness, 1e-6):
            return False
        return self.expr == operand.expr or vanishes_at_size(self.expr - operand.expr, _fractions.get()) is not None

    def formula(self) -> sympy.Expr:
        """The expression in SymPy's own functions, to be read or used further."""
        return self.expr.replace(lambda e: isinstance(e, Opaque), lambda e: TABLE[e.func.__name__].head(*e.args))

    def __repr__(self):
        return str(self.expr)


COMPOSED = {  # nothing is rounded here, so that small numbers need no care
    "log1p": lambda x: (x + 1).log(),
    "expm1": lambda x: x.exp() - 1,
    "log2": lambda x: x.log() / x.scalar_type.of(2).log(),
    "log10": lambda x: x.log() / x.scalar_type.of(10).log(),
}

for _name, _function in COMPOSED.items():
    setattr(Exact, _name, _function)
for _row in TABLE.values():  # NumPy's np.exp of an array of dtype object calls x.exp() of each element
    if _row.elementary:
        setattr(Exact, _row.name, lambda self, name=_row.name: self._apply(name))

Symbolic.scalar_type = Symbolic


# ---------------------------------------------------------------------------------------------- the kind of numbers


_scalar_type: ContextVar[type[Exact]] = ContextVar("scalar_type", default=Symbolic)


def get_scalar_type() -> type[Exact]:
    """The kind of exact scalar that numbers become in a lifted kernel."""
    return _scalar_type.get()


def use_scalar_type(scalar_type: type[Exact]) -> AbstractContextManager:
    """Inside, lifted kernels compute with this kind of exact scalar."""
    return replaced(_scalar_type, scalar_type)


def fraction(value) -> Fraction:
    """The exact value of a Python or NumPy number."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value}: exact scalars have no infinity and no NaN; use a mask instead")
    return Fraction(value)

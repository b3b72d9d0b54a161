r"""Scalars over a finite field: they check code at the size of training, up to a computed probability.

The formula of a whole model is too large to be written down. But two formulas can be compared without writing them:
evaluate both at random numbers, and compare the values. Over the residues modulo a prime p
nothing is rounded, and no number grows; and a polynomial of degree d that is not 0 has the value 0 at a random point
with a probability of at most d / p (Schwartz and Zippel). So a `Residue` is the value of a formula at such a point. It
carries

- the value, and its derivative in one direction (`tangent`), computed by the rules of differentiation alone;
- a float (`witness`) for comparisons, drawn independently of the value: it decides the program's path;
- the sizes of the formulas of both: how many variables and constants they would have if they were written out.

**The use of sizes.** Each formula is a fraction N / D of polynomials with whole coefficients. With size s, neither
N nor D has a degree above s, nor are the absolute values of its coefficients together more than 2^((b + 1) s), where b
is the number of bits of the largest constant. This is true of a variable and of a constant (s = 1), and a sum, a
product or a quotient of formulas of the sizes s and t has the size s + t: (N/D) + (M/E) = (N E + M D) / (D E).

**Functions.** Modulo a prime, exp(x) has no value, so a keyed hash of x supplies a random one: in a formula, a variable
of its own. The rule of its derivative is the real one. Residues know these identities, on which code relies:

    exp(x + n log t) = exp(x) t^n,   exp(-x) = 1 / exp(x),   sqrt(x)^2 = x,   tanh, erf, sin ... are odd, cos is even.

Where code relies on others, equal formulas look different: a right gradient may then be refused, but no wrong one is
accepted. `sampling.py` makes proofs with these scalars.
"""

import math
import random
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from fractions import Fraction
from hashlib import blake2b
from types import MappingProxyType

import sympy
from sympy.ntheory.primetest import mr

from tinytensor.symbolic.exact.scalars import (
    Exact,
    Symbolic,
    Undecided,
    binary,
    float_or_nan,
    fraction,
    number_read_as,
    use_scalar_type,
)
from tinytensor.symbolic.index_calculus.functions import TABLE, Functions
from tinytensor.symbolic.time_limit import replaced

try:
    from gmpy2 import mpz as whole  # GMP multiplies numbers of this length in a third of the time
except ImportError:
    whole = int

BITS = 300  # of the prime: as many as ten of CPython's digits hold, so that a smaller one would save nothing
ROUNDS = 160  # of the test of Miller and Rabin; one passes a number that is no prime with a probability below 1/4
ROOTS = 8  # so many roots of numbers are residues whose product is the root of the product; others are variables
_new = object.__new__
_ZERO, _ONE = Fraction(0), Fraction(1)  # the only fractions of `KnownResidue` that are 0 and 1


_field: ContextVar["Field | None"] = ContextVar("field", default=None)


class Field:
    """The residues modulo a prime drawn at random, the functions on them, and counts for the error.

    Inside `with field:` scalars belong to it. All draws follow from `seed`: the prime, the functions and the variables
    of `draw`. Without a seed the operating system draws, and the prime cannot be known beforehand.
    """

    def __init__(self, seed: int | None = None, bits: int = BITS):
        self.generator = secrets.SystemRandom() if seed is None else random.Random(seed)
        self.bits = bits
        self.prime = whole(self._prime())
        self.key = self.generator.getrandbits(256).to_bytes(32, "little")
        self.numbers: dict[tuple[int, int], KnownResidue] = {}
        self.constant_bits = 1  # of the numerator or denominator of the largest constant
        self.roots: set[int] = set()  # the numbers whose roots are residues
        self.comparisons, self.closest = 0, math.inf  # those that witnesses decided; the smallest difference of two
        self.applied = 0  # how often a function was applied
        self.compared = 0  # how often values alone said that two formulas are equal, or that they differ
        self.largest_compared = 1.0  # the size of the largest formula among those, and the arguments of functions
        self.needed: set[str] = set()  # what numbers must be for the values to exist, as in the table of functions

    def _prime(self) -> int:
        """A random prime of `bits` bits that is 7 modulo 8, so that 2 has a square root."""
        while True:
            n = self.generator.getrandbits(self.bits) | 1 << (self.bits - 1) | 7
            if sympy.isprime(n) and mr(n, [self.generator.randrange(2, n - 1) for _ in range(ROUNDS)]):
                return n

    def __enter__(self) -> "Field":
        if _field.get() is not None:
            raise RuntimeError("field: another one is in use; scalars over two fields can't meet")
        self._within = ExitStack()
        self._within.enter_context(replaced(_field, self))
        self._within.enter_context(use_scalar_type(Residue))
        return self

    def __exit__(self, *error):
        self._within.close()

    def draw(self, witness: float) -> "Residue":
        """A variable: its value and its part of the direction are drawn, independently of the witness."""
        value, tangent = (whole(self.generator.randrange(int(self.prime))) for _ in range(2))
        return _make(value, tangent, float(witness), 1.0, 1.0)

    def function(self, name: str, argument: int, size: float = 1.0) -> int:
        """The value of a function: a number drawn at random for each name and argument; `size` is the argument's.

        The hash has 512 bits for 300 of the prime, many more: so all residues are almost equally likely.
        """
        self.applied += 1
        self.largest_compared = max(self.largest_compared, size)
        text = name.encode() + int(argument).to_bytes((self.bits + 7) // 8, "little")
        parts = [blake2b(text, key=self.key, salt=bytes([n])).digest() for n in range(-(-self.bits // BITS))]
        return whole(int.from_bytes(b"".join(parts), "little")) % self.prime

    def number(self, value: int | Fraction) -> "KnownResidue":
        """The residue of a known number."""
        over, under = value.numerator, value.denominator
        residue = self.numbers.get((over, under))
        if residue is None:
            remainder = over * whole(pow(under, -1, int(self.prime))) % self.prime
            known = _ZERO if value == 0 else _ONE if value == 1 else Fraction(value)
            residue = _known(_make(remainder, 0, float_or_nan(float, value), 1.0, 1.0), added=known, fraction=known)
            self.numbers[over, under] = residue
            self.constant_bits = max(self.constant_bits, over.bit_length(), under.bit_length())
        return residue

    def error(self, size: float) -> float:
        """log2 of the probability that a formula of this size that is not 0 has the value 0: `sampling.py` says why."""
        primes = self.bits - math.ceil(3 + math.log2(self.bits))  # more than 2^primes can be drawn
        dividing = len(self.roots) + math.log2((self.constant_bits + 1) / (self.bits - 1))
        pairs = math.log2(3 * self.applied**2 + self.compared + 1) + math.log2(self.largest_compared)
        events = (math.log2(size), pairs)
        return math.log2(sum(2.0 ** (n - self.bits + 1) + 2.0 ** (n + dividing - primes) for n in events))

    def equal(self, a: int, b: int, size: float) -> bool:
        """Are these values equal? Then formulas of this size, both together, count as equal, too."""
        self.compared += 1
        self.largest_compared = max(self.largest_compared, size)
        return (a - b) % self.prime == 0


def field() -> Field:
    """The field in use."""
    current = _field.get()
    if current is None:
        raise RuntimeError("no field is in use: compute inside of `with Field():`")
    return current


def _make(value, tangent, witness: float, size: float, slope_size: float, scalar_type: type | None = None) -> "Residue":
    r = _new(scalar_type or Residue)
    r.value, r.tangent, r.witness, r.size, r.slope_size = value, tangent, witness, size, slope_size
    return r


class Residue(Exact):
    """The value of a formula modulo the prime, its derivative in a direction, a witness, and the sizes of both.

    Value and tangent are whole numbers that leave the right residue; they are reduced only when they are put into an
    array, so that a sum of products is reduced once. `Residue(3)` is a constant; variables come from `Field.draw`.
    """

    __slots__ = ("size", "slope_size", "tangent", "value")
    fraction, logs, square, added = None, MappingProxyType({}), None, _ZERO  # what a `KnownResidue` knows

    def __new__(cls, value=None):
        if value.__class__ is int:
            return field().number(value)
        if isinstance(value, Residue):
            return value
        if isinstance(value, Symbolic):
            value = value.expr
        elif isinstance(value, float):
            value = number_read_as(value)
        if isinstance(value, sympy.Expr):
            return _constant(value)
        if value == -math.inf:
            return MINUS_INFINITY
        return field().number(fraction(value))

    def stored(self) -> "Residue":
        p = field().prime
        self.value %= p
        if self.tangent:
            self.tangent %= p
        return self

    def number(self) -> Fraction | None:
        return self.fraction

    # ------------------------------------------------------------------------------------- arithmetic

    def __add__(self, operand):
        if operand.__class__ is Residue is self.__class__:
            r = _new(Residue)
            r.value = self.value + operand.value
            r.tangent = self.tangent + operand.tangent
            r.witness = self.witness + operand.witness
            r.size = self.size + operand.size
            r.slope_size = self.slope_size + operand.slope_size
            return r
        return _sum(self, operand)

    def __mul__(self, operand):
        if operand.__class__ is Residue is self.__class__:
            r, u, v = _new(Residue), self.value, operand.value
            r.value = u * v
            r.tangent = u * operand.tangent + v * self.tangent
            r.witness = self.witness * operand.witness
            r.size = size = self.size + operand.size
            r.slope_size = size + self.slope_size + operand.slope_size
            return r
        return _product(self, operand)

    __truediv__ = binary(lambda self, operand: _quotient(self, operand))

    def __neg__(self):
        return _make(-self.value, -self.tangent, -self.witness, self.size, self.slope_size)

    __radd__, __rmul__ = __add__, __mul__

    def _power(self, n: int):
        if n < 0:
            return _quotient(field().number(1), self._power(-n))
        if n < 2:
            return self if n else field().number(1)
        p = field().prime
        lower = pow(self.value, n - 1, p)
        size = n * self.size
        return _make(
            lower * self.value,
            n * lower * self.tangent,
            float_or_nan(pow, self.witness, n),
            size,
            size + self.size + self.slope_size + 1,
        )

    def _half_power(self, n: int):
        # As other powers: x^1.5 has the derivative 1.5 x^0.5. That is true of e^(1.5 log x), and would be of sqrt(x)^3
        # if the value of sqrt(x) were a root. But it is a variable, and only its square is known.
        if self.number() is not None:
            return self.sqrt()._power(n)
        return (self.log() * Fraction(n, 2)).exp()

    # ------------------------------------------------------------------------- comparisons: by witness

    def _sign(self, operand: "Residue") -> int:
        """The sign of self - other: exact for numbers, else by the witnesses, unless they and the values are equal."""
        a, b = self.number(), operand.number()
        if (a is not None and b is not None) or a == -math.inf or b == -math.inf:
            a, b = self.witness if a is None else a, operand.witness if b is None else b
            return (a > b) - (a < b)
        f = field()
        if self.witness == operand.witness and f.equal(self.value, operand.value, self.size + operand.size):
            return 0
        gap = self._gap(operand)
        f.comparisons += 1
        f.closest = min(f.closest, abs(gap))
        return 1 if gap > 0 else -1

    def equals(self, operand) -> bool:
        """Has `other` the same value? (Whether the formulas are one is then a matter of probability.)"""
        return (self.value - Residue.of(operand).value) % field().prime == 0

    # --------------------------------------------------------------------------------------- functions

    def _apply(self, name: str) -> "Residue":
        if self is MINUS_INFINITY and name != "exp":
            raise Undecided(f"{name}({self}): {NO_INFINITY}")
        if self.number() is None:
            field().needed.update(TABLE[name].needs)
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self)
        f, witness = field(), self._float(name)
        argument = self.value % f.prime
        row = TABLE[name]
        mirrored = row.parity and argument > f.prime // 2
        value = f.function(name, f.prime - argument if mirrored else argument, self.size)
        y = _make(row.parity * value if mirrored else value, 0, witness, 1.0, 1.0)
        if self.tangent:
            of = Functions(lambda name, x: Residue.of(x)._apply(name))
            slope = Residue.of(row.derivative(of, _without_tangent(y), (_without_tangent(self),)))
            y.tangent = slope.value * self.tangent % f.prime
            y.slope_size = slope.size + self.slope_size
        return y

    def __hash__(self):
        return hash(self.value % field().prime)

    def __repr__(self):
        if self.number() is not None:
            return str(self.number())
        return f"a residue (about {self.witness:.4g})"


class KnownResidue(Residue):
    """A residue with more known about it: its fraction, the logarithms in it, or its square.

    `logs` maps the value of log(t) to t and its factor: for m + 3 log t it has the pair (t, 3). `added` is a number
    that was added: in (x - 1) log t it is -1 for the first factor, so the product contains -1 log t. (A number is 0 and
    what was added to it.)
    """

    __slots__ = ("added", "fraction", "logs", "square")

    __neg__ = Exact.__neg__

    def _power(self, n: int):
        if self is MINUS_INFINITY:
            raise Undecided(f"{self} ** {n}: {NO_INFINITY}")
        if self.fraction is not None:
            return field().number(self.fraction**n)
        if self.square is not None and abs(n) > 1:
            return self.square._power(n // 2) * (self if n % 2 else 1)
        return super()._power(n)


Residue.scalar_type = Residue


def _known(r: Residue, logs: dict | None = None, square: Residue | None = None, added=_ZERO, fraction=None) -> Residue:
    """The same residue, with what is known about it."""
    if not logs and square is None and not added and fraction is None:
        return r
    known = _make(r.value, r.tangent, r.witness, r.size, r.slope_size, KnownResidue)
    known.fraction, known.logs, known.square, known.added = fraction, logs or {}, square, added
    return known


def _without_knowledge(r: Residue) -> Residue:
    """The same residue, without what is known about it."""
    return r if r.__class__ is Residue else _make(r.value, r.tangent, r.witness, r.size, r.slope_size)


# The score of a masked entry: it is less than all numbers, and its exp is 0.
MINUS_INFINITY = _known(_make(0, 0, -math.inf, 1.0, 1.0), added=-math.inf, fraction=-math.inf)
NO_INFINITY = "residues have no infinity except the score of a masked place"


@binary
def _sum(a: Residue, b: Residue) -> Residue:
    over, under = a.number(), b.number()
    if over is _ZERO:
        return b
    if under is _ZERO:
        return a
    if a is MINUS_INFINITY or b is MINUS_INFINITY:
        return MINUS_INFINITY
    if over is not None and under is not None:
        return field().number(over + under)
    logs = dict(a.logs)
    for log, (t, n) in b.logs.items():
        n += logs[log][1] if log in logs else 0
        logs[log] = t, n
    total = _without_knowledge(a) + _without_knowledge(b)
    return _known(total, {log: (t, n) for log, (t, n) in logs.items() if n}, added=a.added + b.added)


@binary
def _product(a: Residue, b: Residue) -> Residue:
    if b.number() is not None and a.number() is None:
        a, b = b, a
    over, under = a.number(), b.number()  # under: None unless both are known
    if a is MINUS_INFINITY or b is MINUS_INFINITY:
        if under is not None and a.witness * b.witness == -math.inf:
            return MINUS_INFINITY
        raise Undecided(f"{a} * {b}: {NO_INFINITY}")
    if over is _ZERO or under is _ONE:
        return a
    if under is _ZERO or over is _ONE:
        return b
    if under is not None:
        return field().number(over * under)
    if a.square is not None and b.square is not None and field().equal(a.value, b.value, a.size + b.size):
        return a.square
    # (x + n) (y + m log t) = ... + n m log t
    logs = {log: (t, n * x.added) for x, y in ((a, b), (b, a)) if x.added for log, (t, n) in y.logs.items()}
    return _known(_without_knowledge(a) * _without_knowledge(b), logs, added=a.added * b.added)


def _quotient(a: Residue, b: Residue) -> Residue:
    over, under = a.number(), b.number()
    p = field().prime
    if under == 0 or b.value % p == 0:
        raise ZeroDivisionError(f"{a} / {b}: there is no such residue")
    if over == 0 or under == 1:
        return a
    if under is not None:
        return _product(a, field().number(1 / under))
    if a is MINUS_INFINITY:
        raise Undecided(f"{a} / {b}: {NO_INFINITY}")
    field().needed.add("denominator")
    inverse = pow(b.value, -1, p)
    value = a.value * inverse % p
    r = _make(
        value,
        (a.tangent - value * b.tangent) * inverse % p if a.tangent or b.tangent else 0,
        a.witness / b.witness if b.witness else math.nan,
        a.size + b.size,
        a.size + a.slope_size + 3 * b.size + b.slope_size,
    )
    known = over == 1 and b.square is not None
    return _known(r, square=_quotient(field().number(1), b.square) if known else None)


def _exp(x: Residue) -> Residue:
    f = field()
    if x.number() in (0, -math.inf):
        return f.number(1 if x.number() == 0 else 0)
    argument, factor = x.value, f.number(1)
    for log, (t, n) in x.logs.items():
        argument -= math.floor(n) * log
        factor = factor * _without_tangent(t)._power(math.floor(n))
    argument %= f.prime
    mirrored = argument > f.prime // 2
    known = f.equal(argument, 0, x.size)
    value = whole(1) if known else f.function("exp", f.prime - argument if mirrored else argument, x.size)
    value = factor.value * (pow(value, -1, f.prime) if mirrored else value) % f.prime
    size = factor.size + 1
    y = _make(value, value * x.tangent % f.prime, x._float("exp"), size, size + x.slope_size)
    if len(x.logs) == 1:
        ((log, (t, n)),) = x.logs.items()
        if Fraction(n).denominator == 2 and f.equal(2 * x.value, int(2 * n) * log, x.size + 4):  # x is n log(t)
            return _known(y, square=t._power(int(2 * n)))
    return y


def _without_tangent(t: Residue) -> Residue:
    """The same value as a constant: its tangent is 0."""
    return t if t.number() is not None else _make(t.value, 0, t.witness, t.size, 1.0)


def _log(x: Residue) -> Residue:
    f = field()
    if x.number() == 1:
        return f.number(0)
    if x.number() == 0:
        raise ZeroDivisionError("log(0): residues have no infinity (a row of attention in which all is hidden?)")
    argument = x.value % f.prime
    value = f.function("log", argument, x.size)
    slope = x.tangent * pow(argument, -1, f.prime) % f.prime if x.tangent else 0
    y = _make(value, slope, x._float("log"), 1.0, x.size + x.slope_size)
    return _known(y, {value: (x, 1)})


def _sqrt(x: Residue) -> Residue:
    f, known, witness = field(), x.number(), x._float("sqrt")
    if known is not None:
        over, under = math.isqrt(known.numerator), math.isqrt(known.denominator)
        if Fraction(over**2, under**2) == known:
            return f.number(Fraction(over, under))
    argument = x.value % f.prime
    value = pow(argument, (f.prime + 1) // 4, f.prime) if known is not None else 0
    is_root = known is not None and value * value % f.prime == argument
    if is_root and (argument in f.roots or len(f.roots) < ROOTS):
        f.roots.add(argument)
    else:
        value = f.function("sqrt", argument, x.size)
    slope = x.tangent * pow(2 * value, -1, f.prime) % f.prime if x.tangent else 0
    return _known(_make(value, slope, witness, 1.0, 2 + x.slope_size), square=x)


_SPECIAL: dict[str, Callable[[Residue], Residue]] = {"exp": _exp, "log": _log, "sqrt": _sqrt}


def _constant(expr: sympy.Expr) -> Residue:
    """A number of SymPy, made of fractions, square roots and pi; here pi is the square of a variable."""
    if expr.is_Rational:
        return field().number(Fraction(int(expr.p), int(expr.q)))
    if expr is sympy.pi or (expr.is_Pow and expr.base is sympy.pi):
        exponent = 2 * (expr.exp if expr.is_Pow else 1)
        if exponent == (n := int(exponent)):
            root = field().function("square root of pi", 0)
            return _make(pow(root, n, field().prime), 0, math.pi ** (n / 2), abs(n), 1.0)
    if expr.is_Mul or expr.is_Add:
        parts = [_constant(part) for part in expr.args]
        return math.prod(parts[1:], start=parts[0]) if expr.is_Mul else sum(parts[1:], start=parts[0])
    if expr.is_Pow and expr.base.is_Rational:
        return _constant(expr.base) ** _constant(expr.exp)
    raise TypeError(f"{expr}: no residue is known for this constant")

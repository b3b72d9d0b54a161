"""Scalars over a finite field: they compute as the rationals do, know the identities in use, and refuse others."""

import math
import operator
import random
from fractions import Fraction

import numpy as np
import pytest
import sympy

from tinytensor.symbolic import Symbolic, Undecided
from tinytensor.symbolic.exact.finite_field import BITS, ROOTS, Field, Residue
from tinytensor.symbolic.exact.finite_field import field as field_in_use
from tinytensor.symbolic.exact.scalars import reading
from tinytensor.symbolic.index_calculus.functions import TABLE, Functions


@pytest.fixture
def field():
    with Field(seed=1) as used:
        yield used


def number(r: Residue, field: Field, denominator: int) -> Fraction:
    """The fraction with this denominator whose residue this is, if its numerator is small."""
    over = int(r.value) * denominator % int(field.prime)
    return Fraction(over if over < field.prime // 2 else over - int(field.prime), denominator)


# ------------------------------------------------------------------------------------------------------ the prime


def test_field_draws_a_prime():
    primes = {Field(seed=n).prime for n in range(3)} | {Field().prime, Field().prime}
    assert len(primes) == 5
    for p in primes:
        assert sympy.isprime(int(p))
        assert int(p).bit_length() == BITS
        assert p % 8 == 7
    assert Field(seed=3).prime == Field(seed=3).prime


def test_scalars_need_a_field():
    with pytest.raises(RuntimeError, match="no field is in use"):
        Residue(3)
    with Field(seed=1), pytest.raises(RuntimeError, match="another one is in use"), Field(seed=2):
        pass
    with pytest.raises(RuntimeError, match="no field is in use"):
        field_in_use()


# ------------------------------------------------------------------------------------------------------ arithmetic


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_residues_compute_like_fractions(field, name):
    operation, r = getattr(operator, name), random.Random(name)
    for _ in range(20):
        a, b = (Fraction(r.randint(-50, 50) or 1, r.randint(1, 20)) for _ in range(2))
        right = operation(a, b)
        operands = [Residue(a), a, unknown(a, field)], [Residue(b), b, unknown(b, field)]
        for x in operands[0]:
            for y in operands[1]:
                if isinstance(x, Residue) or isinstance(y, Residue):
                    result = operation(x, y)
                    assert number(result, field, right.denominator) == right
                    assert result.witness == pytest.approx(float(right))
        assert operation(Residue(a), Residue(b)).number() == right
        assert operation(unknown(a, field), b).number() is None or right in (0, a)


def unknown(value: Fraction, field: Field) -> Residue:
    """A variable whose value is known to the test."""
    x = field.draw(float(value))
    x.value = field.number(value).value
    return x


def test_powers(field):
    x = unknown(Fraction(2, 3), field)
    for n in range(-3, 4):
        assert number(x**n, field, (Fraction(2, 3) ** n).denominator) == Fraction(2, 3) ** n
    assert (x**0.5) ** 2 == x
    assert (x**-0.5) ** 2 == 1 / x
    assert (x**1.5 / x**0.5).equals(x)
    assert not (x**1.25).equals(x)


def test_tangents_are_derivatives(field):
    """Of rational functions, whose derivatives are rational: compared with SymPy's, modulo the prime."""
    a, b, c = sympy.symbols("a b c")
    p = int(field.prime)
    for formula in (a * b + c, a / (b - c), (a + 2) ** 3 * b**-2, (a * b - c) / (a + b * c), -a + 3 / b):
        variables = [field.draw(n) for n in (0.5, 2.5, 1.5)]
        got = sympy.lambdify((a, b, c), formula)(*variables)
        slope = sum(formula.diff(v) * sympy.Symbol(f"d{v}") for v in (a, b, c))
        values = {str(v): int(x.value) for v, x in zip((a, b, c), variables, strict=True)}
        values |= {f"d{v}": int(x.tangent) for v, x in zip((a, b, c), variables, strict=True)}
        for expr, residue in ((formula, got.value), (slope, got.tangent)):
            over, under = (sympy.fraction(sympy.together(expr))[i].subs(values) for i in (0, 1))
            assert int(residue) * int(under) % p == int(over) % p


def test_sizes_bound_degree_and_coefficients(field):
    """For formulas of two variables and small numbers, written out by SymPy."""
    r = random.Random(0)
    x, y = sympy.symbols("x y")
    for _ in range(40):
        pool = [(x, field.draw(0.3)), (y, field.draw(0.7)), *((sympy.Integer(n), Residue(n)) for n in (3, -5))]
        for _ in range(5):
            (e, s), (f, t) = r.choice(pool), r.choice(pool)
            operation = r.choice([operator.add, operator.sub, operator.mul, operator.truediv])
            if operation is operator.truediv and sympy.cancel(f) == 0:
                continue
            pool.append((sympy.together(operation(e, f)), operation(s, t)))
        for expr, scalar in pool:
            for part in sympy.fraction(sympy.cancel(expr)):
                polynomial = sympy.Poly(part, x, y)
                assert polynomial.total_degree() <= scalar.size
                bits = (field.constant_bits + 1) * scalar.size
                assert sum(abs(k) for k in polynomial.coeffs()) <= 2**bits


def test_constants(field):
    assert Residue(0.1).number() == Fraction(0.1)
    assert field.constant_bits == 56
    assert Residue(np.float32(0.5)).number() == Fraction(1, 2)
    assert Residue(Symbolic(3) / 4).number() == Fraction(3, 4)
    root = Residue(sympy.sqrt(2))
    assert (root * root).equals(2)
    assert (Residue(2 / sympy.sqrt(sympy.pi)) ** 2).equals(4 / Residue(sympy.pi))
    with reading({math.sqrt(0.5): sympy.sqrt(2) / 2}):
        assert (Residue(math.sqrt(0.5)) ** 2).equals(Fraction(1, 2))
    assert not (Residue(math.sqrt(0.5)) ** 2).equals(Fraction(1, 2))
    with pytest.raises(TypeError, match="no residue is known"):
        Residue(sympy.E)


def test_many_roots_of_numbers_make_the_error_larger(field):
    """The norm of a number with n different roots is a product of 2^n, each of which p may divide."""
    before = field.error(8.0)
    roots = [Residue(n).sqrt() for n in sympy.primerange(100)]
    assert all((root * root).equals(n) for root, n in zip(roots, sympy.primerange(100), strict=True))
    assert len(field.roots) == ROOTS
    assert field.error(8.0) > before + ROOTS


def test_values_compared_on_the_way_make_the_error_larger(field):
    x = field.draw(0.5)
    before = field.error(1.0)
    for _ in range(1000):
        assert x == x + 0 * x
    assert field.compared == 1000
    assert field.error(1.0) > before + 8


def test_prime_of_any_length():
    with Field(seed=1, bits=700) as long:
        assert int(long.prime).bit_length() == 700
        assert long.error(2.0**600) < -70
        x = long.draw(0.5)
        assert int(x.exp().value).bit_length() > 600
        assert (x.exp() * (-x).exp()).equals(1)


def test_floats_that_overflow_are_unknown(field):
    x = field.draw(100.0)
    assert math.isnan((x**200).witness)
    assert math.isnan((Residue(10) ** 400).witness)
    assert math.isnan((Symbolic(sympy.Symbol("x"), 100.0) ** 200).witness)


# ------------------------------------------------------------------------------------------------------ functions


def test_identities_of_functions(field):
    x, y = field.draw(0.5), field.draw(2.0)
    assert x.exp().equals(x.exp())
    assert not x.exp().equals(y.exp())
    assert (x + y.log()).exp().equals(x.exp() * y)
    assert (x - (3 * y.log() + y)).exp().equals((x - y).exp() / y**3)
    assert (y.log() * Fraction(1, 2)).exp().equals((y.log() * Fraction(-1, 2)).exp() * y)
    assert (-x).exp().equals(1 / x.exp())
    assert y.sqrt() ** 2 == y
    assert (1 / y.sqrt()) ** 2 == 1 / y
    for name in ("tanh", "erf", "sin", "atan"):
        assert getattr(-x, name)().equals(-getattr(x, name)())
    assert (-x).cos().equals(x.cos())
    assert [Residue(n).number() for n in (0, 1)] == [Residue(0).exp().number() - 1, Residue(1).log().number() + 1]
    assert Residue(Fraction(4, 9)).sqrt().number() == Fraction(2, 3)


@pytest.mark.parametrize("name", [row.name for row in TABLE.values() if row.elementary])
def test_functions_have_the_derivative_of_the_definition(field, name):
    """With the same factor for all directions, and the same as in the table of derivatives at the witness."""
    x = field.draw(0.3)
    y = getattr(x, name)()
    value = TABLE[name].value
    assert y.witness == value(0.3)
    of = Functions(lambda g, z: Residue.of(z)._apply(g))
    slope = Residue.of(TABLE[name].derivative(of, y, (x,)))
    assert (y.tangent - slope.value * x.tangent) % field.prime == 0
    h = 1e-6
    assert slope.witness == pytest.approx((value(0.3 + h) - value(0.3 - h)) / (2 * h), rel=1e-6)


def test_functions_differ_between_fields():
    values = set()
    for seed in range(3):
        with Field(seed=seed) as used:
            values.add(int(unknown(Fraction(1, 3), used).exp().value))
    assert len(values) == 3


# ----------------------------------------------------------------------------------------------------- comparisons


def test_witnesses_decide_comparisons(field):
    x, y = field.draw(0.5), field.draw(-0.25)
    assert x > y
    assert abs(y).equals(-y)
    assert max(x, y) is x
    assert not x < x
    assert x == x + 0
    assert field.comparisons > 0
    assert field.closest == 0.25
    with pytest.raises(Undecided, match="choose other witnesses"):
        assert x < field.draw(0.5)
    assert (x * 3).floor().number() == 1
    assert Residue(Fraction(1, 3)) < Fraction(34, 100)


def test_minus_infinity_only_as_a_hidden_score(field):
    hidden, x = Residue(-math.inf), field.draw(-3.0)
    assert hidden < x
    assert not hidden > -(10**9)
    assert hidden == Residue(-math.inf)
    for score in (hidden - x, x + hidden, hidden * 2, hidden / 2, hidden + 1):
        assert score.exp().number() == 0
    wrongs = [lambda: hidden * x, lambda: -hidden, lambda: x - hidden, lambda: hidden / x, lambda: hidden * -1]
    wrongs += [lambda: hidden * 0, lambda: hidden**2, hidden.tanh, hidden.floor, lambda: hidden * hidden]
    for wrong in wrongs:
        with pytest.raises((Undecided, ValueError)):
            wrong()
    with pytest.raises(ValueError, match="no infinity"):
        Residue(math.inf)


def test_residues_have_no_infinity(field):
    with pytest.raises(ZeroDivisionError):
        field.draw(0.5) / 0
    with pytest.raises(ZeroDivisionError, match="no infinity"):
        Residue(0).log()

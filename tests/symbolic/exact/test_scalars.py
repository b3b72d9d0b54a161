"""Exact scalars: arithmetic without rounding, comparisons by witness, and proofs by `equals` (and their limits)."""

import math
import operator
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import tinytensor as tt
from tinytensor.core.kernel import OBJECT
from tinytensor.symbolic import Symbolic, Undecided, path, symbols
from tinytensor.symbolic.exact.scalars import opaque, reading
from tinytensor.symbolic.index_calculus.functions import TABLE, Head

x = symbols("x", witness=Fraction(3, 4)).item()
y = symbols("y", witness=Fraction(-1, 2)).item()
z = symbols("z", witness=Fraction(5, 3)).item()

# ------------------------------------------------------------------------------------------------------ numbers

numbers = st.fractions(-100, 100, max_denominator=50)


@settings(max_examples=50, deadline=None)
@given(numbers, numbers, st.sampled_from(["add", "sub", "mul", "truediv", "floordiv", "mod"]))
def test_numbers_compute_like_fractions(a, b, name):
    operation = getattr(operator, name)
    if b == 0 and name in ("truediv", "floordiv", "mod"):
        with pytest.raises(ZeroDivisionError):
            operation(Symbolic(a), b)
        return
    for left, right in ((Symbolic(a), Symbolic(b)), (Symbolic(a), b), (a, Symbolic(b))):
        result = operation(left, right)
        assert result.number() == operation(a, b)
        assert result.witness == pytest.approx(float(operation(a, b)))


@settings(max_examples=50, deadline=None)
@given(numbers, numbers)
def test_numbers_compare_exactly(a, b):
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        assert getattr(operator, name)(Symbolic(a), b) is getattr(operator, name)(a, b)
    assert [Symbolic(a).floor(), Symbolic(a).ceil(), Symbolic(a).rint()] == [math.floor(a), math.ceil(a), round(a)]
    assert abs(Symbolic(a)) == abs(a)


def test_numbers_closer_than_floats_still_differ():
    assert Symbolic(Fraction(1, 3)) != Fraction(1, 3) + Fraction(1, 10**30)


def test_floats_become_dyadic_fractions():
    assert Symbolic(0.1).number() == Fraction(3602879701896397, 2**55)
    assert Symbolic(np.float32(0.1)).number() == Fraction(13421773, 2**27)
    assert (Symbolic(1) / 3 * 3).number() == 1
    assert [Symbolic(v).number() for v in (True, np.int64(3), Fraction(2, 6))] == [1, 3, Fraction(1, 3)]
    for value in (math.inf, math.nan):
        with pytest.raises(ValueError, match="no infinity and no NaN"):
            Symbolic(value)


def test_inexact_constants():
    root = sympy.sqrt(2) / 2
    with reading({math.sqrt(0.5): root}):
        assert Symbolic(math.sqrt(0.5)).expr == root
        assert (x * math.sqrt(0.5) * math.sqrt(0.5)).equals(x / 2)
        assert Symbolic(0.25).number() == Fraction(1, 4)
        with reading({}):
            assert Symbolic(math.sqrt(0.5)).number() is not None
        assert Symbolic(np.float64(math.sqrt(0.5))).witness == pytest.approx(math.sqrt(0.5))
    assert not (x * math.sqrt(0.5) * math.sqrt(0.5)).equals(x / 2)


def test_symbols_are_never_rounded():
    with pytest.raises(TypeError, match="is not rounded"):
        float(x)
    with pytest.raises(TypeError, match="no index"):
        int(x)
    with pytest.raises(TypeError, match="needs a witness"):
        Symbolic(sympy.Symbol("w"))


def test_powers():
    assert (x**3).equals(x * x * x)
    assert (x**-1).equals(1 / x)
    assert (x**0.5).equals(x.sqrt())
    assert (x ** Fraction(-1, 2)).equals(1 / x.sqrt())
    assert (x**z).equals((z * x.log()).exp())
    assert (2**z).equals((z * Symbolic(2).log()).exp())
    assert Symbolic(9) ** 0.5 == 3
    assert Symbolic(0) ** z == 0
    with pytest.raises(Undecided, match="positive base"):
        y**z
    with pytest.raises(ZeroDivisionError):
        Symbolic(0) ** -1


# -------------------------------------------------------------------------------------- comparisons and paths


def test_comparisons_use_and_note_the_witness():
    with path() as conditions:
        assert x > y
        assert not x < y
        assert y <= x
        assert x != y
        assert not x == y  # noqa: SIM201
        assert bool(y)
        assert x < 2
    assert set(map(str, conditions)) == {"x - y > 0", "-y > 0", "2 - x > 0"}
    assert all(c.difference.witness > 0 for c in conditions)


def test_certain_comparisons_note_no_condition():
    with path() as conditions:
        assert x == x + y - y
        assert x >= x
        assert not x != x  # noqa: SIM202  (how kernels ask for NaN)
        assert Symbolic(2) < 3
        assert not x.isnan()
    assert conditions == []


def test_paths_nest_and_end():
    with path() as outer:
        assert x > y
        with path() as inner:
            assert z > x
        assert z > y
    assert x > 0
    assert [len(outer), len(inner)] == [3, 1]


def test_close_witnesses_decide_nothing():
    near = x + Symbolic(sympy.Symbol("t"), 1e-12)
    with pytest.raises(Undecided, match="choose other witnesses"):
        x < near  # noqa: B015
    with pytest.raises(Undecided, match="choose other witnesses"):
        Symbolic(sympy.Symbol("t"), 1 - 1e-12).floor()


def test_overflowing_witnesses_prove_nothing():
    huge = symbols("huge", witness=1000).item()
    a, b = huge.exp(), (2 * huge).exp()
    assert a.witness == b.witness == math.inf
    for what in (lambda: a < b, lambda: a > 0, lambda: a - b > 0, lambda: a.floor()):
        with pytest.raises(Undecided):
            what()
    assert not a.equals(b)
    assert (a * a).equals(b)
    assert (a * 0).equals(0)
    assert not a.isnan()
    assert a.isfinite()


def test_roots_and_logarithms_of_negative_numbers_are_refused():
    for name in ("log", "sqrt"):
        with pytest.raises(Undecided, match=rf"{name}\(y\): no value at the witness -0.5"):
            getattr(y, name)()


def test_floor_of_a_symbol_is_the_number_on_its_path():
    with path() as conditions:
        assert z.floor().number() == 1
    assert set(map(str, conditions)) == {"z - 1 > 0", "2 - z > 0"}
    assert [z.ceil(), z.rint(), y.floor()] == [2, 2, -1]


# ------------------------------------------------------------------------------------------------ the proofs


def is_own(head) -> bool:
    """Is it a class of ours, which SymPy has under another name, if at all?"""
    return isinstance(head, type) and issubclass(head, Head)


@pytest.mark.parametrize("name", [n for n, row in TABLE.items() if row.elementary and not is_own(row.head)])
def test_opaque_functions_have_sympys_derivatives_and_values(name):
    t = sympy.Symbol("t", positive=True)
    ours, theirs = sympy.diff(opaque(name)(t), t), sympy.diff(getattr(sympy, name)(t), t)
    assert sympy.simplify(Symbolic(ours, 1).formula() - theirs) == 0
    assert Symbolic(opaque(name)(t), 1).formula() == getattr(sympy, name)(t)
    assert getattr(x, name)().witness == TABLE[name].value(0.75)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((x + y) ** 2, x * x + 2 * x * y + y * y),
        (x / y + y / x, (x * x + y * y) / (x * y)),
        ((x + y).exp(), x.exp() * y.exp()),
        ((x - y).exp() * (y - x).exp(), Symbolic(1)),
        ((3 * x).exp(), x.exp() ** 3),
        ((x.exp() * z).log(), x + z.log()),
        ((x.exp() + y.exp()).log(), x + (1 + (y - x).exp()).log()),
        (-(1 + (-x).exp()).log(), x - (1 + x.exp()).log()),
        ((2 * z.log()).exp(), z * z),
        ((x - (x.exp() + y.exp()).log()).exp(), x.exp() / (x.exp() + y.exp())),
        (z.sqrt() * z.sqrt(), z),
        (1 / z.sqrt(), z.sqrt() / z),
        (z**1.7 / z**2, z ** (Fraction(1.7) - 2)),  # a root of degree 2^52 would fill the memory
        ((x * Fraction(0.3)).exp() * (x * Fraction(-0.3)).exp(), Symbolic(1)),
        ((x * x + 1).sqrt() ** 4, (x * x + 1) ** 2),
        ((2 * x - x - x + z).tanh(), z.tanh()),
        (((x + y) / (x * z + y * z)).erf(), (1 / z).erf()),
        (Symbolic(8).sqrt(), 2 * Symbolic(2).sqrt()),
        (x.sin() ** 2 + x.cos() ** 2, Symbolic(1)),
        ((2 * x).tanh(), 2 * x.tanh() / (1 + x.tanh() ** 2)),
        (Symbolic(0).exp() + Symbolic(1).log() + Symbolic(0).sin(), Symbolic(1)),
    ],
)
def test_equals_proves_equality(a, b):
    assert a.equals(b)
    assert b.equals(a)
    assert not a.equals(b + Fraction(1, 10**9))  # too small for the witness to tell
    assert not a.equals(b * (1 + Symbolic(sympy.Symbol("tiny"), 1e-12)))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((x + y).exp(), x.exp() + y.exp()),
        ((x * y).exp(), x.exp() * y.exp()),
        (x.sin(), x),
        (x.sqrt(), x),
        ((x + z).log(), x.log() + z.log()),
        (x.exp(), y.exp()),
        (Symbolic(sympy.gamma(x.expr), 1), Symbolic(sympy.gamma(y.expr), 1)),  # of which nothing is known
    ],
)
def test_equals_refuses_different_formulas(a, b):
    same_witness = Symbolic(b.expr, a.witness)
    assert not a.equals(b)
    assert not a.equals(same_witness), "the proof must not lean on the witness"


def test_normalised_rows_are_compared_one_by_one():
    """The common denominator of these eight would have a billion terms."""
    scores = symbols("s", 8, 4).exp()._data
    g = symbols("g", 4)._data
    p = scores / scores.sum(1, keepdims=True)
    back = p * (g - (g * p).sum(1, keepdims=True))
    other = scores * (g * scores.sum(1, keepdims=True) - (g * scores).sum(1, keepdims=True))
    other = other / scores.sum(1, keepdims=True) ** 2
    assert back.sum().equals(other.sum())
    assert not back[:3].sum().equals(other[:3].sum() + p[0, 0])
    # If seven rows cancel at once, their sums are a factor of the rest, which is never multiplied out.
    most_alike = p * g - p * (g * p).sum(1, keepdims=True)
    most_alike[2] = other[2]
    assert back.sum().equals(most_alike.sum())
    assert not back.sum().equals(most_alike.sum() + (p[2, 0] - scores[2, 0] / scores.sum(1)[3]) / 10**9)


def test_equals_and_infinity():
    """The logarithm of an empty sum: -inf, as in a masked row of attention."""
    nothing = Symbolic(0).log()
    assert nothing.witness == -math.inf
    assert nothing.equals(x + nothing)
    assert not nothing.equals(x)
    assert not (nothing - nothing).equals(0)  # NaN


# ---------------------------------------------------------------------------------- NumPy, tensors, the package


def test_numpy_functions_call_the_scalar_methods():
    a = np.array([x, z], object)
    for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "floor", "ceil", "rint"):
        assert all(got.equals(getattr(e, name)()) for got, e in zip(getattr(np, name)(a), a, strict=True))
    assert (a @ a).equals(x * x + z * z)
    assert (np.float64(2) * x).equals(2 * x)
    assert (a.sum() - x).equals(z)
    assert np.maximum(a, y).tolist() == [x, z]


def test_symbols():
    a = symbols("a", 2, 3)
    assert a.dtype == OBJECT
    assert a.shape == (2, 3)
    assert [e.witness for e in a._data.flat] == [e.witness for e in symbols("a", (2, 3))._data.flat]
    assert len({e.witness for e in a._data.flat}) == 6
    assert all(0 < e.witness < 2 for e in symbols("a", 9, positive=True)._data)
    assert str(symbols("a", 2)) == "tensor([a_0, a_1], dtype=object)"
    assert symbols("a").item().expr == sympy.Symbol("a")
    assert symbols("a", 2, witness=[1, 2])[1].item().witness == 2


def test_exact_tensors_pass_operations_of_each_sort():
    a = tt.tensor([[x, 1], [Fraction(1, 3), 2]], dtype=object, requires_grad=True)
    b = tt.zeros(2, 2, dtype=object) + tt.ones_like(a) * a
    (b @ b).mean().backward()
    assert a.grad[0, 0].item().equals((2 * x + 1 + Fraction(1, 3)) / 4)
    third = tt.tensor([1], dtype=object) / 3
    assert third.item().number() == Fraction(1, 3)
    assert (tt.full((2,), x, dtype=object) * 2)[0].item().equals(2 * x)
    assert tt.tensor([x, y], dtype=object).max().item().expr is x.expr
    assert (tt.tensor([x, y], dtype=object) > 0).tolist() == [True, False]


def test_the_engine_does_not_load_sympy():
    code = "import sys, tinytensor; assert 'sympy' not in sys.modules and 'tinytensor.symbolic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

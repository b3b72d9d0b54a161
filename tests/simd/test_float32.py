"""A dense sample of what `python -m tests.tools.float32` computes: the documented bounds; mistakes are noticed."""

import types
from functools import cache

import numba
import numpy as np
import pytest
from numba import njit

from tests.tools.packages import missing

pytest.importorskip("flint", reason=missing("flint"))

from tests.tools import float32
from tests.tools.float32 import BOUNDS, FUNCTIONS, NOT_NEAREST, RELATIVE, ULP, WRONG, Found
from tests.tools.sampling_rate import some
from tinytensor.native.kernels import KERNELS
from tinytensor.native.simd import compiled_math as simd_math

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="in Python they are NumPy's")
SAMPLE = float32.sample()


@cache
def of_sample(name: str) -> Found:
    errors = Found.nothing(name)
    errors.add(SAMPLE)
    return errors


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_dense_sample_keeps_the_bound(name):
    errors = of_sample(name)
    assert errors.holds(), str(errors)
    assert errors.error > 0.8 * BOUNDS[name]  # the sample comes close to where all numbers have their largest error


@pytest.mark.parametrize("name", ["exp", "log"])
def test_registers_compute_what_scalars_do(name):
    one, two = of_sample(name), of_sample(f"vectors.{name}")
    np.testing.assert_array_equal(one.worst, two.worst)
    np.testing.assert_array_equal(one.counts, two.counts)


@pytest.mark.parametrize(("name", "least"), [("exp", -80), ("expm1", -80), ("log", 0), ("log1p", -1)])
def test_reference_agrees_with_mpmath(name, least):
    """Against mpmath, at numbers of all sizes: its error is far below what is measured."""
    import mpmath

    x = SAMPLE[(least < SAMPLE) & (SAMPLE < 80)]
    x = np.concatenate([x[::9973], np.linspace(0.99, 1.01, 200, dtype=np.float32)])  # where a logarithm is near 0
    with mpmath.workdps(40):
        y = np.array([float(getattr(mpmath, name)(float(v))) for v in x]).astype(np.float32)
    errors = Found.nothing(name)
    errors.add(x, lambda x, out: np.copyto(out, y))
    assert 0.49 < errors.worst[ULP] <= 0.5 + 1e-7
    assert errors.counts[NOT_NEAREST] == errors.counts[WRONG] == 0
    assert errors.worst[RELATIVE] <= 2**-24


def test_wrong_results_are_counted():
    for index, value in ((np.argmax(np.isnan(SAMPLE)), 1.0), (np.argmax(np.isposinf(SAMPLE)), 3e38)):
        errors = Found.nothing("exp")

        def compute(x, y, index=index, value=value):
            FUNCTIONS["exp"].compute(x, y)
            y[index] = value

        errors.add(SAMPLE, compute)
        assert errors.counts[WRONG] == 1 and not errors.holds()


def test_negative_probability_is_noticed():
    """The quotient of normal_cdf is nowhere larger than 1/2, so that nothing has to be cut off."""
    errors = Found.nothing("normal_cdf")

    def compute(x, y):
        FUNCTIONS["normal_cdf"].compute(x, y)
        y[np.argmax(y == 0)] = -1e-9

    errors.add(SAMPLE, compute)
    assert errors.error <= BOUNDS["normal_cdf"]
    assert errors.counts[WRONG] == 1 and not errors.holds()


EXP_NOT_NEAREST = 105_875  # with one rounding for a product and a sum, where vectors are 64 or 32 or 16 bytes wide


def test_count_of_inexact_exp_is_unchanged():
    """A mistake that the largest error does not show: how many of the results are not the nearest float32."""
    for compute in (None, exp_with()):
        errors = Found.nothing("exp")
        errors.add(SAMPLE, compute)
        assert errors.counts[NOT_NEAREST] == EXP_NOT_NEAREST


def exp_with(**constants):
    return shipped_with(simd_math._exp_float32, constants)


def shipped_with(function, constants):
    """The shipped polynomial with other constants, compiled as it is."""
    scope, compiled = {**vars(simd_math), **constants}, njit(**simd_math._FLAGS)
    for each in (simd_math._power, simd_math._log_of, function):
        one = scope[each.__name__] = compiled(types.FunctionType(each.__code__, scope))

    @compiled
    def loop(x, y):
        for i in range(x.size):
            y[i] = one(x[i])

    return loop


@pytest.mark.parametrize("name", list(some(["_Q0", "_Q1", "_Q2", "_Q3", "_Q4"], one_in=2)))
def test_a_wrong_coefficient_is_noticed(name):
    """One part in a million more: the first two move the largest error, the others only some last bits."""
    value = np.float32(getattr(simd_math, name) * np.float64(1.000001))
    assert value != getattr(simd_math, name)
    wrong = Found.nothing("exp")
    wrong.add(SAMPLE, exp_with(**{name: value}))
    assert wrong.counts[NOT_NEAREST] != EXP_NOT_NEAREST
    assert wrong.holds() == (name not in ("_Q0", "_Q1"))


COEFFICIENTS = ["_C0", "_C1", "_C2", "_C3", "_C4", "_C5", "_C6", "_C7", "_C8", "_LN2_LOW"]


@pytest.mark.parametrize("name", list(some(COEFFICIENTS, one_in=3)))
def test_a_wrong_coefficient_of_log_is_noticed(name):
    """One part in ten thousand more: of the last ones, too, the largest error tells it or some last bits."""
    value = np.float32(getattr(simd_math, name) * np.float64(1.0001))
    wrong = Found.nothing("log")
    wrong.add(SAMPLE, shipped_with(simd_math._log_float32, {name: value}))
    assert wrong.counts[NOT_NEAREST] != of_sample("log").counts[NOT_NEAREST]
    if name in ("_C0", "_C1", "_C2", "_LN2_LOW"):
        assert not wrong.holds()


@pytest.mark.parametrize("name", ["_D1", "_D2", "_D3", "_D4"])
def test_a_wrong_coefficient_of_log1p_of_fraction_is_noticed(name):
    """One part in a thousand more."""
    value = np.float32(getattr(simd_math, name) * np.float64(1.001))
    wrong = Found.nothing("log1p_of_fraction")
    wrong.add(SAMPLE, shipped_with(simd_math._log1p_of_fraction_float32, {name: value}))
    assert wrong.counts[NOT_NEAREST] != of_sample("log1p_of_fraction").counts[NOT_NEAREST]
    assert wrong.holds() == (name == "_D4")


ENDS = [
    ("log", "_LEAST_NORMAL", np.float32(0)),
    ("log", "_INF", np.float32(3e38)),
    ("log", "_ROOT_HALF", np.int32(0x3F000000)),
    ("log1p", "_INF", np.float32(3e38)),
    ("log1p", "_ROOT_HALF", np.int32(0x3F000000)),
    ("expm1", "_EIGHTEEN", np.float32(-15)),
    ("expm1", "_HIGHEST", np.float32(88)),
    ("expm1", "_TWICE_ONE", np.int32(255 << 23)),
]


@pytest.mark.parametrize(("function", "name", "value"), list(some(ENDS, one_in=3)))
def test_wrong_end_of_exp_is_noticed(function, name, value):
    """Numbers that are not normal, infinity, where the power of two changes, and what it is."""
    wrong = Found.nothing(function)
    wrong.add(SAMPLE, shipped_with(getattr(simd_math, f"_{function}_float32"), {name: value}))
    assert not wrong.holds(), str(wrong)


@pytest.mark.parametrize("name", ["expm1", "log1p", "tanh", "erf"])
def test_zero_keeps_its_sign(name):
    x = np.array([0.0, -0.0] * 32, np.float32)  # in registers, and beyond them
    y = np.empty_like(x)
    KERNELS[name](x, y)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))
    assert not y.any()


def test_log1p_differs_from_log_of_1_plus_x():
    wrong = Found.nothing("log1p")
    wrong.add(SAMPLE, lambda x, y: KERNELS["log"](np.float32(1) + x, y))
    assert wrong.error > 0.1


@pytest.mark.parametrize("share", ["9/8", "0/8", "x", f"1/{float32.BLOCKS + 1}"])
def test_empty_share_is_refused(share, capsys):
    """Of no numbers every bound would hold."""
    with pytest.raises(SystemExit):
        float32.main(["exp", "--share", share])
    printed = capsys.readouterr()
    assert "share" in printed.err
    assert "holds" not in printed.out

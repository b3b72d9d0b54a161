"""What the functions of math.py are in compiled code: in float32 arithmetic that the compiler vectorises.

Numba's own np.exp, np.tanh and math.erf are a call into the C library for every element, ten times slower. So float32
gets polynomials. These have no branches (the ends of the range are cut off by a minimum and a maximum, or chosen last),
so that a loop over them becomes a loop over vectors.
"""

import math
from collections.abc import Callable

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from tinytensor.native.simd.math import (
    digamma,
    erf,
    erfinv,
    exp,
    expm1,
    floor_quotient,
    floor_rest,
    gelu_slope,
    lgamma,
    log,
    log1p,
    log1p_of_fraction,
    normal_cdf,
    polygamma,
    tanh,
    zeta,
)

# No "reassoc": it could merge the two halves of log 2 below, whatever the calling kernel allows.
_FLAGS = {"error_model": "numpy", "fastmath": {"contract", "nsz"}}
_part = register_jitable(**_FLAGS, forceinline=True, no_cfunc_wrapper=True)  # of several functions: inlined


def _floats(*numbers: float) -> list[np.float32]:
    return [np.float32(number) for number in numbers]


def _in_float32(plain: Callable, ours: Callable) -> None:
    """Let compiled code compute a function of one float32 as `ours` does."""

    @overload(plain, jit_options=_FLAGS)
    def choose(x):
        return ours if x == types.float32 else plain


_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)  # 355/512: nine bits, so that n * _LN2_HIGH is exact
_LN2_LOW = np.float32(-2.12194440054690583e-4)  # log 2 - 355/512
# e^r = 1 + r + r^2 (Q0 + Q1 r + ... + Q4 r^4) for |r| <= log(2)/2; minimax, relative error 3.1e-9
_Q0, _Q1, _Q2, _Q3, _Q4 = _floats(0.49999994039, 0.16666521132, 0.041668388993, 0.0083687454462, 0.001381454058)
_LOWEST = np.float32(-104)  # e^-104 rounds to 0 ...
_HIGHEST = np.float32(89)  # ... and e^89 to inf in float32
_EIGHTEEN = np.float32(-18)  # e^-18 - 1 rounds to -1
# A float32 between 2^23 and 2^24 is a whole number, and has that number's low bits: adding _ROUND rounds to the nearest
# whole n, and leaves n + 2 * 127 in the nine lowest bits (the rest of 1.5 * 2^23 is above them).
_ROUND = np.float32(1.5 * 2**23 + 2 * 127)
_ONE_BIT = np.int32(1)
_TWICE_ONE = np.int32(2 * 127 << 23)  # twice the bits of 1: those of 2^b and 2^-b together
_FRACTION = np.int32(23)  # 2^n is the float32 whose exponent bits, above 23 bits of fraction, hold n + 127
_ZERO = np.float32(0)
_ONE = np.float32(1)


def _exp_float32(x):
    s, first, second = _power(min(max(x, _LOWEST), _HIGHEST))  # in this order of arguments a NaN stays one
    return (_ONE + s) * first * second


_in_float32(exp, _exp_float32)


@_part
def _power(c):
    """(e^r - 1, 2^a, 2^b) with c = (a + b) log 2 + r: two powers, since 2^-150 and 2^128 are no float32."""
    shifted = c * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = c - n * _LN2_HIGH - n * _LN2_LOW
    q = _Q0 + r * (_Q1 + r * (_Q2 + r * (_Q3 + r * _Q4)))
    bits = np.float32(shifted).view(np.int32)
    half = bits >> _ONE_BIT  # a = n // 2, and 127 more
    first = np.int32(half << _FRACTION).view(np.float32)
    second = np.int32((bits - half) << _FRACTION).view(np.float32)
    return r + r * r * q, first, second


def _expm1_float32(x):
    """e^x - 1 = 2^b (2^a (e^r - 1) + (2^a - 2^-b)): the last difference is exact where e^x is near 1."""
    s, first, second = _power(min(max(x, _EIGHTEEN), _HIGHEST))
    inverse = np.int32(_TWICE_ONE - np.float32(second).view(np.int32)).view(np.float32)  # 2^-b
    y = (s * first + (first - inverse)) * second
    return x if x == _ZERO else y  # -0 stays -0


_in_float32(expm1, _expm1_float32)


# log(1 + f) = f + f^2 (C0 + C1 f + ... + C8 f^8) for sqrt(1/2) <= 1 + f < sqrt(2); minimax, and fitted anew after each
# coefficient was rounded. The other factor of x is a power of two; its logarithm is a sum of two parts as in exp.
_ROOT_HALF = np.int32(0x3F3504F3)  # the bits of sqrt(1/2)
_FRACTION_BITS = np.int32((1 << 23) - 1)
_LEAST_NORMAL = np.float32(2**-126)
_TWENTY_THREE = np.float32(23)
_TWO_TO_23 = np.float32(2**23)  # times this, the least number is a normal one
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8 = _floats(
    -0.49999988, 0.33333325, -0.25001606, 0.20002005, -0.16608587, 0.14181012, -0.13246022, 0.12910384, -0.07621866
)
_INF = np.float32(math.inf)
_NAN = np.float32(math.nan)


def _log_float32(x):
    small = x < _LEAST_NORMAL
    y = _log_of(x * _TWO_TO_23 if small else x, _TWENTY_THREE if small else _ZERO, _ZERO)
    y = y if x < _INF else _INF
    return y if x > _ZERO else (-_INF if x == _ZERO else _NAN)


_in_float32(log, _log_float32)


@_part
def _log_of(u, less, lost):
    """log(u / 2^less) + lost = n log 2 + log(1 + f) + lost, where u = 2^(n + less) (1 + f) is a normal number."""
    bits = np.int32(np.float32(u).view(np.int32) - _ROOT_HALF)
    n = np.float32(np.int32(bits >> _FRACTION)) - less
    f = np.int32((bits & _FRACTION_BITS) + _ROOT_HALF).view(np.float32) - _ONE
    p = _C5 + f * (_C6 + f * (_C7 + f * _C8))
    p = _C0 + f * (_C1 + f * (_C2 + f * (_C3 + f * (_C4 + f * p))))
    return n * _LN2_HIGH + (f + (f * f * p + (n * _LN2_LOW + lost)))


def _log1p_float32(x):
    """log(1 + x) = log u + log((1 + x) / u) with u = 1 + x, rounded; the last term is the rounding error over u."""
    u = _ONE + x
    y = _log_of(u, _ZERO, (x - (u - _ONE) if x < _ONE else _ONE - (u - x)) / u)
    y = y if x < _INF else _INF
    y = y if u > _ZERO else (-_INF if u == _ZERO else _NAN)
    return x if x == _ZERO else y  # -0 stays -0


_in_float32(log1p, _log1p_float32)


# ln(1 + x) = 2 artanh (t / 2) = t (1 + t^2 (D1 + ... + D4 t^6)) with t = 2 x / (2 + x), which is at most 2/3 for x from
# 0 to 1; minimax as above, relative error 4.5e-9.
_D1, _D2, _D3, _D4 = _floats(0.08333302, 0.012506699, 0.0021877366, 0.0005470069)
_TWO = np.float32(2)


@overload(log1p_of_fraction, jit_options=_FLAGS)
def _log1p_of_fraction_compiled(x):
    return _log1p_of_fraction_float32 if x == types.float32 else _log1p_of_fraction_float64


def _log1p_of_fraction_float32(x):
    t = (x + x) / (_TWO + x)
    u = t * t
    return t + t * u * (_D1 + u * (_D2 + u * (_D3 + u * _D4)))


def _log1p_of_fraction_float64(x):
    one_more = 1 + x
    return np.log(one_more) + (x - (one_more - 1))


# tanh x and erf x are odd and flat at both ends: x P(x^2) / Q(x^2) with all coefficients positive loses nothing by
# cancellation, and one division costs less than exp would. The coefficients are minimax for the relative error
# (tanh 3.0e-8, erf 5.5e-8), rounded to float32 one after the other and fitted anew after each; the rest of the
# errors stated below is rounding.
_TANH_END = np.float32(9.2)  # tanh rounds to 1 here, and the quotient lies a little above 1
_TANH_P1, _TANH_P2, _TANH_P3, _TANH_P4 = _floats(0.13383317, 0.0034982064, 2.0648195e-05, 1.3401556e-08)
_TANH_Q1, _TANH_Q2, _TANH_Q3, _TANH_Q4 = _floats(0.4671664, 0.025887206, 0.0003289744, 7.797288e-07)

_ERF_END = np.float32(4)  # erf rounds to 1 here, and the quotient lies a little above 1
_ERF_P0, _ERF_P1, _ERF_P2, _ERF_P3, _ERF_P4, _ERF_P5 = _floats(
    1.1283792, 0.17462651, 0.050741103, 0.0031177695, 0.00027535047, 2.2326922e-06
)
_ERF_Q1, _ERF_Q2, _ERF_Q3, _ERF_Q4, _ERF_Q5 = _floats(0.48809332, 0.10766071, 0.013658451, 0.0010154118, 3.9495804e-05)


def _tanh_float32(x):
    c = min(max(x, -_TANH_END), _TANH_END)
    u = c * c
    p = _ONE + u * (_TANH_P1 + u * (_TANH_P2 + u * (_TANH_P3 + u * _TANH_P4)))
    q = _ONE + u * (_TANH_Q1 + u * (_TANH_Q2 + u * (_TANH_Q3 + u * _TANH_Q4)))
    return min(max(c * p / q, -_ONE), _ONE)  # so that the ends give 1


_in_float32(tanh, _tanh_float32)


def _erf_float32(x):
    c = min(max(x, -_ERF_END), _ERF_END)
    u = c * c
    p = _ERF_P0 + u * (_ERF_P1 + u * (_ERF_P2 + u * (_ERF_P3 + u * (_ERF_P4 + u * _ERF_P5))))
    q = _ONE + u * (_ERF_Q1 + u * (_ERF_Q2 + u * (_ERF_Q3 + u * (_ERF_Q4 + u * _ERF_Q5))))
    return min(max(c * p / q, -_ONE), _ONE)


_in_float32(erf, _erf_float32)


# Both functions of GELU are 1/2 plus an odd function, x P(x^2) / Q(x^2) as above, here minimax for the absolute error
# (5.5e-9 and 1.2e-7). So the slope needs no exp of its own, and takes half the time. At the ends the quotients round to
# 1/2, so that both functions are 0 and 1 far from 0; the first quotient is nowhere larger, so Phi stays between them.
_HALF = np.float32(0.5)
_CDF_END = np.float32(5.211452)
_CDF_P0, _CDF_P1, _CDF_P2, _CDF_P3, _CDF_P4, _CDF_P5 = _floats(
    0.39894223, 0.033372343, 0.0046508587, 0.00016432295, 6.3600346e-06, 2.3386676e-08
)
_CDF_Q1, _CDF_Q2, _CDF_Q3, _CDF_Q4, _CDF_Q5 = _floats(
    0.25031814, 0.028378755, 0.0018589884, 7.2400624e-05, 1.2165904e-06
)

_SLOPE_END = np.float32(5.7999997)
_SLOPE_P0, _SLOPE_P1, _SLOPE_P2, _SLOPE_P3, _SLOPE_P4, _SLOPE_P5 = _floats(
    0.79788536, -0.030995904, 0.014230313, 1.9219402e-05, 3.5956044e-05, 1.9293041e-07
)
_SLOPE_Q1, _SLOPE_Q2, _SLOPE_Q3, _SLOPE_Q4, _SLOPE_Q5 = _floats(
    0.29449397, 0.0409802, 0.0035230338, 0.00019203642, 8.952457e-06
)


@overload(normal_cdf, jit_options=_FLAGS)
def _normal_cdf_compiled(x, half, root_half):
    if x == types.float32:
        return _normal_cdf_float32
    return lambda x, half, root_half: half * (1 + math.erf(x * root_half))


def _normal_cdf_float32(x, half, root_half):
    c = min(max(x, -_CDF_END), _CDF_END)
    u = c * c
    p = _CDF_P0 + u * (_CDF_P1 + u * (_CDF_P2 + u * (_CDF_P3 + u * (_CDF_P4 + u * _CDF_P5))))
    q = _ONE + u * (_CDF_Q1 + u * (_CDF_Q2 + u * (_CDF_Q3 + u * (_CDF_Q4 + u * _CDF_Q5))))
    return _HALF + c * p / q


@overload(gelu_slope, jit_options=_FLAGS)
def _gelu_slope_compiled(x, half, root_half, density):
    if x == types.float32:
        return _gelu_slope_float32
    return lambda x, half, root_half, density: (
        half * (1 + math.erf(x * root_half)) + x * density * np.exp(-half * x * x)
    )


def _gelu_slope_float32(x, half, root_half, density):
    c = min(max(x, -_SLOPE_END), _SLOPE_END)
    u = c * c
    p = _SLOPE_P0 + u * (_SLOPE_P1 + u * (_SLOPE_P2 + u * (_SLOPE_P3 + u * (_SLOPE_P4 + u * _SLOPE_P5))))
    q = _ONE + u * (_SLOPE_Q1 + u * (_SLOPE_Q2 + u * (_SLOPE_Q3 + u * (_SLOPE_Q4 + u * _SLOPE_Q5))))
    return _HALF + c * p / q


@overload(floor_quotient, jit_options=_FLAGS)
def _floor_quotient_compiled(a, b):
    if b == types.int64:  # smaller ones are divided as int64
        return lambda a, b: -a if b == -1 else a // b
    return lambda a, b: a // b


@overload(floor_rest, jit_options=_FLAGS)
def _floor_rest_compiled(a, b):
    if b == types.int64:  # smaller ones are divided as int64
        return lambda a, b: a - a if b == -1 else a % b
    return lambda a, b: a % b


for _function in (zeta, lgamma, digamma, polygamma, erfinv):  # in float64, compiled as they stand
    register_jitable(error_model="numpy")(_function)

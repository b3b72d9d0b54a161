"""exp for kernels: in float32 a polynomial that the compiler vectorises, elsewhere NumPy's.

Numba's own np.exp is a call into the C library for every element, ten times slower. Python code,
`NUMBA_DISABLE_JIT=1` and the symbolic reading see only `exp(x) = np.exp(x)`; compiled code gets
the polynomial for float32.
"""

import numpy as np
from numba import types
from numba.extending import overload

# No "reassoc": it could merge the two halves of log 2 below, whatever the calling kernel allows.
_FLAGS = {"error_model": "numpy", "fastmath": {"contract", "nsz"}}

_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)  # 355/512: nine bits, so that n * _LN2_HIGH is exact
_LN2_LOW = np.float32(-2.12194440054690583e-4)  # log 2 - 355/512
# e^r = 1 + r + r^2 (Q0 + Q1 r + ... + Q4 r^4) for |r| <= log(2)/2; minimax, relative error 3.1e-9
_Q0 = np.float32(0.49999994039)
_Q1 = np.float32(0.16666521132)
_Q2 = np.float32(0.041668388993)
_Q3 = np.float32(0.0083687454462)
_Q4 = np.float32(0.001381454058)
_LOWEST = np.float32(-104)  # e^-104 rounds to 0 ...
_HIGHEST = np.float32(89)  # ... and e^89 to inf in float32
_SHIFT = np.int32(23)  # 2^n is the float32 whose exponent bits, above 23 bits of fraction, hold n + 127
_BIAS = np.int32(127)


def exp(x):
    r"""Return y = e^x.

    float32: relative error at most 8.5e-8 for normal results (every float32 was checked), denormal
    results correct to one unit in the last place; exp(-inf) = 0, exp(inf) = inf, exp(nan) = nan.
    """
    return np.exp(x)


@overload(exp, jit_options=_FLAGS)
def _exp_compiled(x):
    if x == types.float32:
        return _exp_float32
    return lambda x: np.exp(x)


def _exp_float32(x):
    """e^x = 2^n e^r with n = rint(x / log 2)."""
    c = max(_LOWEST, min(_HIGHEST, x))  # NaN becomes _HIGHEST here: NaN has no n
    n = np.rint(c * _LOG2_E)
    r = c - n * _LN2_HIGH - n * _LN2_LOW
    q = _Q0 + r * (_Q1 + r * (_Q2 + r * (_Q3 + r * _Q4)))
    p = np.float32(1) + (r + r * r * q)
    n = np.int32(n)
    half = n >> np.int32(1)  # in two steps: 2^-150 and 2^128 are no float32
    first = np.int32((half + _BIAS) << _SHIFT).view(np.float32)
    second = np.int32((n - half + _BIAS) << _SHIFT).view(np.float32)
    y = p * first * second
    return x if np.isnan(x) else y

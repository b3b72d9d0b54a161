"""Functions of numbers for formulas and kernels; this is their meaning in Python, `exp(x) = np.exp(x)`.

The reference backend computes so, as does Python code with `NUMBA_DISABLE_JIT=1`, and a proof reads it so. In compiled
code compiled_math.py replaces them by polynomials for float32, whose errors are stated here.
"""

import math

import numpy as np


def exp(x):
    r"""Return y = e^x.

    float32: relative error at most 8.51e-8 for normal results, 1.01 units in the last place; of denormal results 0.76
    units (every float32 was checked: `python -m tests.tools.float32`); exp(-inf) = 0, exp(inf) = inf, exp(nan) = nan.
    """
    return np.exp(x)


def expm1(x):
    r"""Return y = e^x - 1.

    float32: relative error at most 1.23e-7, 1.46 units in the last place (every float32 was checked); expm1(-inf) = -1,
    expm1(inf) = inf, expm1(nan) = nan.
    """
    return np.expm1(x)


def log(x):
    r"""Return y = \ln x.

    float32: relative error at most 8.22e-8, 0.88 units in the last place (every float32 was checked); log(0) = -inf,
    log(inf) = inf, of negative numbers and NaN it is NaN.
    """
    return np.log(x)


def log1p(x):
    r"""Return y = \ln(1 + x).

    float32: relative error at most 8.24e-8, 0.88 units in the last place (every float32 was checked); log1p(-1) = -inf,
    log1p(inf) = inf, of numbers below -1 and NaN it is NaN.
    """
    return np.log1p(x)


def log1p_of_fraction(x):
    r"""Return y = \ln(1 + x) of a number from 0 to 1, in less time than log1p takes.

    float32: relative error at most 1.8e-7 (every float32 from 0 to 1 was checked). float64: at most 2^-52; the rounding
    error of 1 + x is added to the logarithm, where log1p would add it over 1 + x, which differs by half a unit at most.
    """
    return np.log1p(x)


def tanh(x):
    r"""Return y = \tanh x.

    float32: relative error at most 3.12e-7, 5.23 units in the last place (every float32 was checked), |y| <= 1;
    tanh(+-inf) = +-1, tanh(nan) = nan.
    """
    return np.tanh(x)


def erf(x):
    r"""Return y = \mathrm{erf}(x) = \frac{2}{\sqrt\pi} \int_0^x e^{-t^2} dt.

    float32: relative error at most 3.89e-7 for normal results, 6.52 units in the last place, of denormal results 0.94
    units (every float32 was checked), |y| <= 1;
    erf(+-inf) = +-1, erf(nan) = nan.
    """
    return type(x)(math.erf(x))


def normal_cdf(x, half, root_half):
    r"""Return \Phi(x) = \tfrac12 (1 + \mathrm{erf}(x / \sqrt2)), with half = 1/2 and root_half = \sqrt{1/2}.

    float32: absolute error at most 1.94e-7 (every float32 was checked), 0 <= y <= 1; \Phi(-inf) = 0, \Phi(inf) = 1,
    \Phi(nan) = nan. A kernel's constants are its parameters, and the plain meaning has no others; the polynomial knows
    these two numbers.
    """
    return half * (type(x)(1) + type(x)(math.erf(x * root_half)))


def gelu_slope(x, half, root_half, density):
    r"""Return \Phi(x) + x \varphi(x), the derivative of x \Phi(x), with density = 1 / \sqrt{2 \pi} and as above.

    float32: absolute error at most 3.5e-7 (every float32 was checked); 0 at -inf, 1 at inf, NaN stays.
    """
    return half * (type(x)(1) + type(x)(math.erf(x * root_half))) + x * density * np.exp(-half * x * x)


# No processor divides the least integer by -1. Its quotient, which is no integer of this size, wraps to itself.


def floor_quotient(a, b):
    r"""Return y = \lfloor a / b \rfloor; integers wrap, of the least one and -1 too."""
    return a // b


def floor_rest(a, b):
    r"""Return y = a - b \lfloor a / b \rfloor, which is 0 of all integers a and b = -1."""
    return a % b


# The gamma function's logarithm, its derivatives, and the inverse of erf: in float64, whatever the element's type.
_STIRLING = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)  # B_2k / (2k)
_SHIFT = 10.0  # from here on the series has the digits of float64


def zeta(s, x):
    r"""Return \zeta(s, x) = \sum_{k \ge 0} (x + k)^{-s}, of whole s > 1 and x > 0.

    The terms up to z = 10 + s are added; the rest, by Euler and Maclaurin, is z^{1-s} / (s - 1) + z^{-s} / 2
    + \sum_k B_{2k} / (2k)! s (s + 1) ... (s + 2k - 2) z^{1-s-2k}.
    """
    total, z = 0.0, x
    while z < _SHIFT + s:
        total += z**-s
        z += 1.0
    rest, rising = z / (s - 1.0) + 0.5, s / z
    for k, b in enumerate(_STIRLING):
        rest += b * rising
        rising *= (s + 2.0 * k + 1.0) * (s + 2.0 * k + 2.0) / ((2.0 * k + 2.0) * (2.0 * k + 3.0) * z * z)
    return total + rest * z**-s


def lgamma(x):
    r"""Return \ln |\Gamma(x)|, \infty at the poles, 0, -1, -2 ..."""
    x = float(x)
    return np.inf if x <= 0.0 and x == np.floor(x) else math.lgamma(x)


def digamma(x):
    r"""Return \psi(x), the derivative of \ln |\Gamma(x)|: \mp\infty at \pm0, NaN at the other poles, -1, -2 ..."""
    x = float(x)
    if x == 0.0 or x == -np.inf:
        return np.copysign(np.inf, -x) if x == 0.0 else np.nan
    total, z, part = 0.0, x, np.ceil(x) - x
    if x < 0.0:  # \psi(x) = \psi(1 - x) - \pi / \tan \pi x
        total, z = np.pi / np.tan(np.pi * part) if part != 0.0 else np.nan, 1.0 - x
    while z < _SHIFT:
        total -= 1.0 / z
        z += 1.0
    series, power = 0.0, 1.0
    for b in _STIRLING:
        power /= z * z
        series += b * power
    return total + np.log(z) - 0.5 / z - series


def polygamma(n, x):
    r"""Return \psi^{(n)}(x) = (-1)^{n+1} n! \zeta(n + 1, x), of whole n > 0; below 0 by sums of one period."""
    s, x = float(n) + 1.0, float(x)
    sign = 1.0 if s % 2.0 == 0.0 else -1.0  # of (-1)^s
    part = np.ceil(x) - x
    if x != x or x == -np.inf:
        y = np.nan
    elif x <= 0.0 and part == 0.0:
        y = np.inf
    elif x < 0.0:
        y = zeta(s, 1.0 - part) + sign * (zeta(s, part) - zeta(s, 1.0 - x))
    else:
        y = zeta(s, x) if x < np.inf else 0.0
    return sign * math.gamma(s) * y


def erfinv(x):
    r"""Return y with \mathrm{erf}(y) = x: \pm\infty at \pm1, NaN beyond. A first guess, then Halley's steps."""
    x = float(x)
    if not -1.0 < x < 1.0:
        return x * np.inf if abs(x) == 1.0 else np.nan
    size = abs(x)
    half = np.log((1.0 - size) * (1.0 + size)) / 2.0
    a = 4.330746750799873 + half  # Winitzki's, with 2 / (0.147 pi)
    y = np.sqrt(np.sqrt(a * a - half / 0.0735) - a)
    for _ in range(3):
        miss = math.erf(y) - size if size < 0.5 else (1.0 - size) - math.erfc(y)
        miss *= np.exp(y * y) / 1.1283791670955126
        y -= miss / (1.0 + y * miss)
    return np.copysign(y, x)

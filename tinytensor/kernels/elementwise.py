"""Formulas between scalars; NumPy's ufunc machinery applies them to arrays of any shapes and strides.

`type(x)(1)` is a one of the element's own type: a literal 1 or 0.5 would turn float32 into float64.
"""

import numpy as np

from tinytensor.kernels.fastmath import erf as fast_erf
from tinytensor.kernels.fastmath import exp as fast_exp
from tinytensor.kernels.fastmath import tanh as fast_tanh
from tinytensor.kernels.kernel import elementwise

# ------------------------------------------------------------------------------------------ arithmetic


@elementwise
def add(a, b):
    return a + b


@elementwise
def sub(a, b):
    return a - b


@elementwise
def mul(a, b):
    return a * b


@elementwise
def div(a, b):
    return a / b


@elementwise
def floor_divide(a, b):
    return a // b


@elementwise
def remainder(a, b):
    return a % b


@elementwise
def power(a, b):
    return a**b


@elementwise
def maximum(a, b):
    return a if a > b or a != a else b  # the second test lets NaN through


@elementwise
def minimum(a, b):
    return a if a < b or a != a else b


@elementwise
def neg(x):
    return -x


@elementwise
def absolute(x):
    return -x if x < type(x)(0) else x + type(x)(0)  # -0.0 + 0 is +0.0


@elementwise
def sign(x):
    return type(x)(x > type(x)(0)) - type(x)(x < type(x)(0))


@elementwise
def reciprocal(x):
    return type(x)(1) / x


@elementwise
def floor(x):
    return np.floor(x)


@elementwise
def ceil(x):
    return np.ceil(x)


@elementwise
def rint(x):
    return np.rint(x)


# --------------------------------------------------------------------------------------- transcendental


@elementwise
def exp(x):
    return fast_exp(x)


@elementwise
def log(x):
    return np.log(x)


@elementwise
def sqrt(x):
    return np.sqrt(x)


@elementwise
def rsqrt(x):
    return type(x)(1) / np.sqrt(x)


@elementwise
def sin(x):
    return np.sin(x)


@elementwise
def cos(x):
    return np.cos(x)


@elementwise
def tanh(x):
    return fast_tanh(x)


@elementwise
def erf(x):
    return fast_erf(x)


@elementwise
def sigmoid(x):
    return type(x)(1) / (type(x)(1) + fast_exp(-x))


@elementwise
def log_sigmoid(x):
    zero = type(x)(0)
    size = -x if x > zero else x  # -|x|, so that exp does not overflow
    return (zero if x > zero else x) - np.log(type(x)(1) + fast_exp(size))


@elementwise
def silu(x):
    return x / (type(x)(1) + fast_exp(-x))


@elementwise
def silu_backward(g, x):
    s = type(x)(1) / (type(x)(1) + fast_exp(-x))
    return g * s * (type(x)(1) + x * (type(x)(1) - s))


@elementwise
def relu(x):
    return type(x)(0) if x <= type(x)(0) else x  # NaN passes


@elementwise
def relu_backward(g, y):
    return type(g)(0) if y <= type(y)(0) else g  # the subgradient at 0 is 0, as in PyTorch


@elementwise
def gelu(x, half, sqrt_half):
    return half * x * (type(x)(1) + fast_erf(x * sqrt_half))


@elementwise
def gelu_backward(g, x, half, sqrt_half, density):
    """density = 1/sqrt(2 pi)."""
    cdf = half * (type(x)(1) + fast_erf(x * sqrt_half))
    return g * (cdf + x * density * fast_exp(-half * x * x))


@elementwise
def gelu_tanh(x, half, sqrt_2_pi, cubic):
    return half * x * (type(x)(1) + fast_tanh(sqrt_2_pi * (x + cubic * x * x * x)))


@elementwise
def gelu_tanh_backward(g, x, half, sqrt_2_pi, cubic, three_cubic):
    one = type(x)(1)
    t = fast_tanh(sqrt_2_pi * (x + cubic * x * x * x))
    return g * half * (one + t + x * (one - t * t) * sqrt_2_pi * (one + three_cubic * x * x))


# ------------------------------------------------------------------------- comparison, logic, selection


@elementwise
def eq(a, b):
    return a == b


@elementwise
def ne(a, b):
    return a != b


@elementwise
def lt(a, b):
    return a < b


@elementwise
def le(a, b):
    return a <= b


@elementwise
def gt(a, b):
    return a > b


@elementwise
def ge(a, b):
    return a >= b


@elementwise
def bitwise_and(a, b):
    return a & b


@elementwise
def bitwise_or(a, b):
    return a | b


@elementwise
def bitwise_xor(a, b):
    return a ^ b


@elementwise
def logical_not(x):
    return not x


@elementwise
def isnan(x):
    return x != x


@elementwise
def isfinite(x):
    return x - x == x - x  # inf - inf and NaN - NaN are NaN, which equals nothing


@elementwise
def where(condition, a, b):
    return a if condition else b

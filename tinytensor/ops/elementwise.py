"""Arithmetic, functions, comparisons and choices, element by element.

A `kernel` here is a formula between scalars, and `type(x)(1)` in it is a 1 of the element's own type: a literal 1 or
0.5 would turn float32 into float64. Constants are parameters with a default value, for the same reason. The formula is
what the engine compiles, and what the proofs run over symbols. Rules ignore broadcasting: backward() sums it away
once, for all of them.
"""

import math

import numpy as np

from tinytensor.core.dispatch import host
from tinytensor.core.dtypes import bool_, result_type, uint8
from tinytensor.core.op import op
from tinytensor.core.promotion import broadcast_shape, clamp_to_inf
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.native.simd.math import digamma as true_digamma
from tinytensor.native.simd.math import erf as fast_erf
from tinytensor.native.simd.math import erfinv as true_erfinv
from tinytensor.native.simd.math import exp as fast_exp
from tinytensor.native.simd.math import expm1 as fast_expm1
from tinytensor.native.simd.math import floor_quotient, floor_rest, gelu_slope, log1p_of_fraction, normal_cdf
from tinytensor.native.simd.math import lgamma as true_lgamma
from tinytensor.native.simd.math import log as fast_log
from tinytensor.native.simd.math import log1p as fast_log1p
from tinytensor.native.simd.math import polygamma as true_polygamma
from tinytensor.native.simd.math import tanh as fast_tanh
from tinytensor.ops.arguments import (
    only_floats,
    only_floats_together,
    refuse_only_bools,
    scaled,
    tensor_of_dtype,
    to_0d_array,
    whole_number,
)
from tinytensor.ops.arrays import apply_formula
from tinytensor.ops.creation import zeros

# --- Arithmetic


@register("Tensor.__add__ Tensor.__radd__ Tensor.__iadd__")
@op
class add:
    r"y = a + b"

    def kernel(a, b):
        return a + b

    def grad_a(g):
        return g

    def grad_b(g):
        return g


@register("Tensor.__sub__ Tensor.__rsub__ Tensor.__isub__")
@op
class sub:
    r"y = a - b"

    def kernel(a, b):
        return a - b

    dtype_kinds = "ifO"  # bools have ^ (xor)

    def grad_a(g):
        return g

    def grad_b(g):
        return -g


@register(
    "mul multiply Tensor.mul Tensor.mul_ Tensor.multiply Tensor.multiply_ Tensor.__mul__ Tensor.__rmul__ "
    "Tensor.__imul__"
)
@op
class mul:
    r"y = a \odot b"

    def kernel(a, b):
        return a * b

    def grad_a(g, b):
        return g * b

    def grad_b(g, a):
        return g * a


@register("true_divide Tensor.true_divide Tensor.true_divide_ Tensor.__truediv__ Tensor.__rtruediv__")
@op
class true_divide:
    r"y = a / b"

    def kernel(a, b):
        return a / b

    dtype = "float"

    def grad_a(g, b):
        return g / b

    def grad_b(g, a, b):
        return -g * (a / b) / b  # not y / b: y may be changed in place


@op
class floor_divide_op:
    r"y = \lfloor a / b \rfloor"

    def kernel(a, b):
        return floor_quotient(a, b)


@op
class trunc_divide_op:
    r"y = a / b of whole numbers, without its decimals"

    dtype_kinds = "i"

    def kernel(a, b):
        quotient, zero = floor_quotient(a, b), type(a)(0)
        return quotient + type(a)(1) if quotient * b != a and (a < zero) != (b < zero) else quotient


@op
class remainder_op:
    r"y = a - b \lfloor a / b \rfloor"

    def kernel(a, b):
        return floor_rest(a, b)

    def grad_a(g):
        return g

    def grad_b(g, a, b):
        return -g * floor_divide_op(a, b)


@op
class power:
    r"y = a^b"

    def kernel(a, b):
        return a**b

    def grad_a(g, a, b):
        # at b = 0 the derivative is 0, where b a^(b-1) may be 0 * inf; by b it has the derivative 1 / a there
        if isinstance(b, Tensor):
            nothing = logical_and(eq(b, 0), logical_not(absolute(a) > 0))
            return g * where(nothing, 0.0, b * power(where(nothing, 1.0, a), b - 1))
        return zero_gradient(g) if b == 0 else g * (b * power(a, b - 1))

    def grad_b(g, y, a, b):
        a = tensor_of_dtype(clamp_to_inf(a, y.dtype), y.dtype, "pow")
        # lim a->0 of a^b log a is 0 for b >= 0
        nothing = logical_and(eq(a, 0), ge(b, 0))
        return g * where(nothing, 0.0, y * log(where(nothing, 1.0, a)))


@op
class square_op:
    r"y = x^2"

    def kernel(x):
        return x * x

    def grad_x(g, x):
        return square_backward(g, x)


@op
class cube_op:
    r"y = x^3"

    def kernel(x):
        return x * x * x

    def grad_x(g, x):
        return g * (square_op(x) * 3)


@op
class square_backward:
    r"y = 2 h x: the gradient h that has arrived at x^2, times its derivative"

    def kernel(h, x):
        return h * (x + x)

    def definition(h, x):
        return h * (x + x)


@register("maximum Tensor.maximum")
@op
class maximum:
    r"y = \max(a, b)"

    def kernel(a, b):
        return a if a > b or a != a else b  # the second test lets NaN through

    def grad_a(g, a, b):
        return where(eq(a, b), g / 2, where(lt(a, b), 0, g))  # equal inputs share the gradient; with NaN both get it

    def grad_b(g, a, b):
        return where(eq(a, b), g / 2, where(gt(a, b), 0, g))


@register("minimum Tensor.minimum")
@op
class minimum:
    r"y = \min(a, b)"

    def kernel(a, b):
        return a if a < b or a != a else b

    def grad_a(g, a, b):
        return where(eq(a, b), g / 2, where(gt(a, b), 0, g))

    def grad_b(g, a, b):
        return where(eq(a, b), g / 2, where(lt(a, b), 0, g))


@register("clamp_min Tensor.clamp_min Tensor.clamp_min_")
@op
class clamp_min:
    r"y = \max(x, low); the gradient passes at the bound"

    kernel = maximum.kernel

    def grad_a(g, a, b):
        return where(ge(a, b), g, 0)

    def grad_b(g, a, b):
        return where(lt(a, b), g, 0)


@register("clamp_max Tensor.clamp_max Tensor.clamp_max_")
@op
class clamp_max:
    r"y = \min(x, high); the gradient passes at the bound"

    kernel = minimum.kernel

    def grad_a(g, a, b):
        return where(le(a, b), g, 0)

    def grad_b(g, a, b):
        return where(gt(a, b), g, 0)


@op
class clamped_op:
    r"y = \min(\max(x, low), high) for two numbers; the gradient passes at the bounds"

    dtype_kinds = "fO"

    def kernel(x, low=0.0, high=1.0):
        y = x if x > low or x != x else low
        return y if y < high or y != y else high

    def grad_x(g, x, low, high):
        return where(logical_and(ge(x, low), le(x, high)), g, 0)


@op
class hardtanh_op:
    r"y = \min(\max(x, low), high) for two numbers; the gradient does not pass at the bounds"

    dtype_kinds = "ifO"
    kernel = clamped_op.kernel

    def grad_x(g, x, low, high):
        return where(logical_or(le(x, low), ge(x, high)), 0, g)


@op
class huber_slope:
    r"y = \min(\max(d, low), high) for two numbers; the gradient passes between the bounds alone, not at NaN"

    dtype_kinds = "fO"
    kernel = clamped_op.kernel

    def grad_x(g, x, low, high):
        return where(logical_and(gt(x, low), lt(x, high)), g, 0)


@register("neg negative Tensor.neg Tensor.neg_ Tensor.negative Tensor.negative_ Tensor.__neg__")
@op
class neg:
    r"y = -x"

    def kernel(x):
        return -x

    dtype_kinds = "ifO"

    def grad_x(g):
        return -g


@register("abs absolute Tensor.abs Tensor.abs_ Tensor.absolute Tensor.absolute_ Tensor.__abs__")
@op
class absolute:
    r"y = |x|; the gradient at 0 is 0"

    dtype_kinds = "ifO"

    def kernel(x):
        return abs(x)

    def grad_x(g, x):
        return g * sign(x)


@register("sign sgn Tensor.sign Tensor.sign_ Tensor.sgn Tensor.sgn_")
@op
class sign:
    r"y = \mathrm{sign}(x)"

    def kernel(x):
        return type(x)(x > type(x)(0)) - type(x)(x < type(x)(0))

    def grad_x(g):
        return zero_gradient(g)


@register("reciprocal Tensor.reciprocal Tensor.reciprocal_")
@op
class reciprocal:
    r"y = 1 / x"

    def kernel(x):
        return type(x)(1) / x

    dtype = "float"

    def grad_x(g, y):
        return -g * y * y


@register("floor Tensor.floor Tensor.floor_")
@op
class floor:
    r"y = \lfloor x \rfloor"

    dtype_kinds = "ifO"

    def kernel(x):
        return np.floor(x)

    def grad_x(g):
        return zero_gradient(g)


@register("ceil Tensor.ceil Tensor.ceil_")
@op
class ceil:
    r"y = \lceil x \rceil"

    dtype_kinds = "ifO"

    def kernel(x):
        return np.ceil(x)

    def grad_x(g):
        return zero_gradient(g)


@op
class round_op:
    r"y = the integer next to x, halves to the even one"

    dtype_kinds = "ifO"

    def kernel(x):
        return np.rint(x)

    def grad_x(g):
        return zero_gradient(g)


@register("round Tensor.round Tensor.round_")
def round(x: Tensor, *, decimals: int = 0) -> Tensor:
    """y = the number next to x with so many decimal places (fewer than 0: whole tens, hundreds ...), halves to even."""
    if not whole_number(decimals, "round: decimals"):
        return round_op(x)
    only_floats("round with decimals", x)
    scale = 10.0 ** abs(decimals)
    return round_op(x * scale) / scale if decimals > 0 else round_op(x / scale) * scale


@register("exp Tensor.exp Tensor.exp_")
@op
class exp:
    r"y = e^x"

    def kernel(x):
        return fast_exp(x)

    dtype = "float"

    def grad_x(g, y):
        return g * y


@register("log Tensor.log Tensor.log_")
@op
class log:
    r"y = \ln x"

    def kernel(x):
        return fast_log(x)

    dtype = "float"

    def grad_x(g, x):
        return g / x


@register("log2 Tensor.log2 Tensor.log2_")
@op
class log2:
    r"y = \log_2 x"

    def kernel(x):
        return np.log2(x)

    dtype = "float"

    def grad_x(g, x):
        return g / (x * log(tensor_of_dtype(2, g.dtype)))


@register("log10 Tensor.log10 Tensor.log10_")
@op
class log10:
    r"y = \log_{10} x"

    def kernel(x):
        return np.log10(x)

    dtype = "float"

    def grad_x(g, x):
        return g / (x * log(tensor_of_dtype(10, g.dtype)))


@op
class clipped_log:
    r"y = \max(\ln x, -100): a loss stays finite where a probability is 0"

    dtype_kinds = "fO"

    def kernel(x, low=-100.0):
        y = fast_log(x)
        return low if y < low else y

    def grad_x(g, x):
        return g / clamp_min(x, 1e-12)


@register("log1p Tensor.log1p Tensor.log1p_")
@op
class log1p:
    r"y = \ln(1 + x), exact for small x too"

    def kernel(x):
        return fast_log1p(x)

    dtype = "float"

    def grad_x(g, x):
        return g / (1 + x)


@register("expm1 Tensor.expm1 Tensor.expm1_")
@op
class expm1:
    r"y = e^x - 1, exact for small x too"

    def kernel(x):
        return fast_expm1(x)

    dtype = "float"

    def grad_x(g, y):
        return g * (y + 1)


@register("sqrt Tensor.sqrt Tensor.sqrt_")
@op
class sqrt:
    r"y = \sqrt{x}"

    def kernel(x):
        return np.sqrt(x)

    dtype = "float"

    def grad_x(g, y):
        return g / (2 * y)


@register("F.logsigmoid nn.LogSigmoid")
@op
class logsigmoid:
    r"y = \ln(1 / (1 + e^{-x}))"

    dtype_kinds = "fO"

    def kernel(x):
        zero = type(x)(0)
        size = -x if x > zero else x  # -|x|, so that exp does not overflow
        return (zero if x > zero else x) - log1p_of_fraction(fast_exp(size))

    def grad_x(g, x):
        return g * sigmoid(-x)


@register("rsqrt Tensor.rsqrt Tensor.rsqrt_")
@op
class rsqrt:
    r"y = 1 / \sqrt{x}"

    def kernel(x):
        return type(x)(1) / np.sqrt(x)

    dtype = "float"

    def grad_x(g, y):
        return g * y * y * y / -2


@register("sin Tensor.sin Tensor.sin_")
@op
class sin:
    r"y = \sin x"

    def kernel(x):
        return np.sin(x)

    dtype = "float"

    def grad_x(g, x):
        return g * cos(x)


@register("cos Tensor.cos Tensor.cos_")
@op
class cos:
    r"y = \cos x"

    def kernel(x):
        return np.cos(x)

    dtype = "float"

    def grad_x(g, x):
        return -g * sin(x)


@register("sinh Tensor.sinh Tensor.sinh_")
@op
class sinh:
    r"y = (e^x - e^{-x}) / 2"

    dtype = "float"

    def kernel(x):  # 2 sinh(x / 2) cosh(x / 2), since e^x overflows where half of it does not
        zero, one, two = type(x)(0), type(x)(1), type(x)(2)
        less = fast_expm1((x if x > zero else -x) / two)
        inverse = one / (one + less)
        y = (less + less * inverse) * ((one + less + inverse) / two)
        return x if x == zero or x - x != x - x else y if x > zero else -y  # with the sign of 0, and infinities

    def grad_x(g, x):
        return g * cosh(x)


@register("cosh Tensor.cosh Tensor.cosh_")
@op
class cosh:
    r"y = (e^x + e^{-x}) / 2"

    dtype = "float"

    def kernel(x):
        one, two = type(x)(1), type(x)(2)
        half = fast_exp((x if x > type(x)(0) else -x) / two)  # the root of e^|x|
        return half / two * half + one / (two * half) / half

    def grad_x(g, x):
        return g * sinh(x)


@register("asin Tensor.asin Tensor.asin_ arcsin Tensor.arcsin Tensor.arcsin_")
@op
class asin:
    r"y = \arcsin x"

    def kernel(x):
        return np.arcsin(x)

    dtype = "float"

    def grad_x(g, x):
        return g * rsqrt(1 - x * x)


@register("acos Tensor.acos Tensor.acos_ arccos Tensor.arccos Tensor.arccos_")
@op
class acos:
    r"y = \arccos x"

    def kernel(x):
        return np.arccos(x)

    dtype = "float"

    def grad_x(g, x):
        return -g * rsqrt(1 - x * x)


@register("atan Tensor.atan Tensor.atan_ arctan Tensor.arctan Tensor.arctan_")
@op
class atan:
    r"y = \arctan x"

    def kernel(x):
        return np.arctan(x)

    dtype = "float"

    def grad_x(g, x):
        return g / (1 + x * x)


@register("asinh Tensor.asinh Tensor.asinh_ arcsinh Tensor.arcsinh Tensor.arcsinh_")
@op
class asinh:
    r"y = \ln(x + \sqrt{x^2 + 1})"

    def kernel(x):
        return np.arcsinh(x)

    dtype = "float"

    def grad_x(g, x):
        return g * rsqrt(x * x + 1)


@register("tanh Tensor.tanh Tensor.tanh_ F.tanh nn.Tanh")
@op
class tanh:
    r"y = \tanh x"

    def kernel(x):
        return fast_tanh(x)

    dtype = "float"

    def grad_x(g, y):
        return g * (1 - y * y)


@register("erf Tensor.erf")
@op
class erf:
    r"y = \frac{2}{\sqrt{\pi}} \int_0^x e^{-t^2} dt"

    def kernel(x):
        return fast_erf(x)

    dtype = "float"

    def grad_x(g, x):
        return g * exp(-x * x) * (2 / math.sqrt(math.pi))


@register("erfinv Tensor.erfinv Tensor.erfinv_")
@op
class erfinv:
    r"y = \mathrm{erf}^{-1}(x)"

    def kernel(x):
        return type(x)(true_erfinv(x))

    dtype = "float"

    def grad_x(g, y):
        return g * exp(y * y) / (2 / math.sqrt(math.pi))


@register("lgamma Tensor.lgamma Tensor.lgamma_")
@op
class lgamma:
    r"y = \ln |\Gamma(x)|"

    def kernel(x):
        return type(x)(true_lgamma(x))

    dtype = "float"

    def grad_x(g, x):
        return g * digamma(x)


@register("digamma Tensor.digamma Tensor.digamma_")
@op
class digamma:
    r"y = \psi(x), the derivative of \ln |\Gamma(x)|"

    def kernel(x):
        return type(x)(true_digamma(x))

    dtype = "float"

    def grad_x(g, x):
        return g * polygamma_op(x, 1)


@op
class polygamma_op:
    r"y = \psi^{(n)}(x), the derivative number n of \psi"

    def kernel(x, n=1.0):
        return type(x)(true_polygamma(n, x))

    dtype = "float"

    def grad_x(g, x, n):
        return g * polygamma_op(x, n + 1)


@register("Tensor.polygamma Tensor.polygamma_")
def polygamma_of(x: Tensor, n: int) -> Tensor:
    r"""y = \psi^{(n)}(x), the derivative number n of digamma; n = 0 is digamma itself."""
    if not 0 <= whole_number(n, "polygamma: n") <= 170:
        raise RuntimeError(f"polygamma: n is the number of a derivative, from 0 to 170 (n! must be a float), not {n}")
    return polygamma_op(x, int(n)) if n else digamma(x)


@register("polygamma")
def polygamma(n: int, input: Tensor) -> Tensor:
    r"""y = \psi^{(n)}(x), the derivative number n of digamma; n = 0 is digamma itself."""
    return polygamma_of(input, n)


@register("sigmoid Tensor.sigmoid Tensor.sigmoid_ F.sigmoid nn.Sigmoid")
@op
class sigmoid:
    r"y = 1 / (1 + e^{-x})"

    def kernel(x):
        return type(x)(1) / (type(x)(1) + fast_exp(-x))

    dtype = "float"

    def grad_x(g, y):
        return sigmoid_backward(g, y)


@op
class sigmoid_backward:
    r"y = h z (1 - z): the gradient h that has arrived at z = sigmoid x, times its derivative"

    def kernel(h, z):
        return h * z * (type(z)(1) - z)

    def definition(h, z):
        return h * z * (1 - z)


@register("silu")
@op
class silu:
    r"y = x / (1 + e^{-x})"

    dtype_kinds = "fO"

    def kernel(x):
        return x / (type(x)(1) + fast_exp(-x))

    def grad_x(g, x):
        return silu_backward(g, x)


@op
class silu_backward:
    r"y = h s (1 + x (1 - s)) with s = 1 / (1 + e^{-x}): the gradient h that has arrived at silu, times its derivative"

    def kernel(h, x):
        s = type(x)(1) / (type(x)(1) + fast_exp(-x))
        return h * s * (type(x)(1) + x * (type(x)(1) - s))

    def definition(h, x):
        s = sigmoid(x)
        return h * s * (1 + x * (1 - s))


@register("relu Tensor.relu Tensor.relu_")
@op
class relu:
    r"y = \max(0, x); the gradient at 0 is 0"

    dtype_kinds = "ifO"

    def kernel(x):
        return type(x)(0) if x <= type(x)(0) else x  # NaN passes

    def grad_x(g, y):
        return relu_backward(g, y)


@op
class relu_backward:
    r"y = h where z > 0, else 0"

    def kernel(h, z):
        return type(h)(0) if z <= type(z)(0) else h  # the subgradient at 0 is 0, as in PyTorch

    def grad_h(g, z):
        return relu_backward(g, z)

    def grad_z(g, z_shape):  # a second derivative of 0, not a missing one, as in PyTorch
        return zeros(z_shape, dtype=g.dtype)


def zero_gradient(g: Tensor) -> Tensor:
    """0 for a gradient g that has arrived, also for one that is infinite or NaN, of which g * 0 is NaN."""
    return relu_backward(g, -1)


ROOT_HALF, DENSITY, SLOPE, CUBIC = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi), math.sqrt(2 / math.pi), 0.044715


@op
class gelu_erf:
    r"y = \tfrac12 x (1 + \mathrm{erf}(x / \sqrt2))"

    dtype_kinds = "fO"

    def kernel(x, half=0.5, root_half=ROOT_HALF):
        return x * normal_cdf(x, half, root_half)

    def grad_x(g, x, half, root_half):
        return gelu_erf_backward(g, x, half, root_half)


@op
class gelu_erf_backward:
    r"y = h (\Phi(x) + x \varphi(x)): the gradient h that has arrived at gelu_erf, times its derivative"

    def kernel(h, x, half=0.5, root_half=ROOT_HALF, density=DENSITY):
        return h * gelu_slope(x, half, root_half, density)

    def definition(h, x, half, root_half, density):
        return h * (half * (1 + erf(x * root_half)) + x * density * exp(-half * x * x))


@op
class gelu_tanh:
    r"y = \tfrac12 x (1 + \tanh(\sqrt{2/\pi} (x + 0.044715 x^3)))"

    dtype_kinds = "fO"

    def kernel(x, half=0.5, slope=SLOPE, cubic=CUBIC):
        return half * x * (type(x)(1) + fast_tanh(slope * (x + cubic * x * x * x)))

    def grad_x(g, x, half, slope, cubic):
        return gelu_tanh_backward(g, x, half, slope, cubic)


@op
class gelu_tanh_backward:
    r"y = \tfrac12 h (1 + t + x (1 - t^2) t'), t = \tanh(\sqrt{2/\pi} (x + 0.044715 x^3)), h the gradient at gelu_tanh"

    def kernel(h, x, half=0.5, slope=SLOPE, cubic=CUBIC, three_cubic=3 * CUBIC):
        one, steep = type(x)(1), slope * x
        t = fast_tanh(steep * (one + cubic * x * x))
        rise = steep * (one - t * t)  # 0 where x is large, and there x^2 may be inf
        return h * half * (one + t + (rise + rise * x * (three_cubic * x)))

    def definition(h, x, half, slope, cubic, three_cubic):
        t = tanh(slope * (x + cubic * x * x * x))
        return h * half * (1 + t + x * (1 - t * t) * slope * (1 + three_cubic * x * x))


@op
class where_op:
    r"y = a where the condition holds, else b"

    def kernel(condition, a, b):
        return a if condition else b

    def forward(condition, a, b):  # `where` below has cast a and b to one dtype; the condition stays bool
        return apply_formula(where_op.kernel, condition, a, b)

    def grad_a(g, condition):
        return where(condition, g, 0)

    def grad_b(g, condition):
        return where(condition, 0, g)


@register("eq Tensor.eq Tensor.__eq__")
@op
class eq:
    "y = [a = b]"

    dtype = "bool"

    def kernel(a, b):
        return a == b


@register("ne not_equal Tensor.ne Tensor.not_equal Tensor.__ne__")
@op
class ne:
    r"y = [a \ne b]"

    dtype = "bool"

    def kernel(a, b):
        return a != b


@register("lt less Tensor.lt Tensor.less Tensor.__lt__")
@op
class lt:
    "y = [a < b]"

    dtype = "bool"

    def kernel(a, b):
        return a < b


@register("le less_equal Tensor.le Tensor.less_equal Tensor.__le__")
@op
class le:
    r"y = [a \le b]"

    dtype = "bool"

    def kernel(a, b):
        return a <= b


@register("gt greater Tensor.gt Tensor.greater Tensor.__gt__")
@op
class gt:
    "y = [a > b]"

    dtype = "bool"

    def kernel(a, b):
        return a > b


@register("ge greater_equal Tensor.ge Tensor.greater_equal Tensor.__ge__")
@op
class ge:
    r"y = [a \ge b]"

    dtype = "bool"

    def kernel(a, b):
        return a >= b


@register("isnan Tensor.isnan")
@op
class isnan:
    "y = [x is NaN]"

    dtype = "bool"

    def kernel(x):
        return x != x


@register("isfinite Tensor.isfinite")
@op
class isfinite:
    "y = [x is neither NaN nor infinite]"

    dtype = "bool"

    def kernel(x):
        return x - x == x - x  # inf - inf and NaN - NaN are NaN, which equals nothing


@register("logical_not Tensor.logical_not")
@op
class logical_not:
    r"y = \neg x"

    dtype = "bool"

    def kernel(x):
        return not x


@register("bitwise_and Tensor.bitwise_and Tensor.bitwise_and_ Tensor.__and__ Tensor.__rand__ Tensor.__iand__")
@op
class bitwise_and:
    r"y = a \wedge b"

    def kernel(a, b):
        return a & b

    dtype_kinds = "bi"


@register("bitwise_or Tensor.bitwise_or Tensor.bitwise_or_ Tensor.__or__ Tensor.__ror__ Tensor.__ior__")
@op
class bitwise_or:
    r"y = a \vee b"

    def kernel(a, b):
        return a | b

    dtype_kinds = "bi"


@register("bitwise_xor Tensor.bitwise_xor Tensor.bitwise_xor_ Tensor.__xor__ Tensor.__rxor__ Tensor.__ixor__")
@op
class bitwise_xor:
    r"y = a \oplus b"

    def kernel(a, b):
        return a ^ b

    dtype_kinds = "bi"


def _truth(what: str, x):
    if not isinstance(x, Tensor | int | float | np.generic):
        raise TypeError(f"{what}: expected a tensor or a number, got {x!r}")
    return x.to(bool_) if isinstance(x, Tensor) else bool(x)


@register("logical_and Tensor.logical_and")
def logical_and(a: Tensor | float, b: Tensor | float) -> Tensor:
    """y = a and b, of truth values (nonzero is true)."""
    return bitwise_and(_truth("logical_and", a), _truth("logical_and", b))


@register("logical_or Tensor.logical_or")
def logical_or(a: Tensor | float, b: Tensor | float) -> Tensor:
    """y = a or b, of truth values (nonzero is true)."""
    return bitwise_or(_truth("logical_or", a), _truth("logical_or", b))


@register("logical_xor Tensor.logical_xor")
def logical_xor(a: Tensor | float, b: Tensor | float) -> Tensor:
    """y = either a or b, of truth values (nonzero is true)."""
    return bitwise_xor(_truth("logical_xor", a), _truth("logical_xor", b))


@register("bitwise_not Tensor.bitwise_not Tensor.__invert__")
def bitwise_not(x: Tensor) -> Tensor:
    """y = not x (bool), or the complement -x - 1 (integers)."""
    if x.dtype.kind not in "biu":
        raise RuntimeError(f"bitwise_not: expected bool or integer tensors, got {x.dtype}")
    return logical_not(x) if x.dtype == bool_ else -x - 1


@register("isinf Tensor.isinf")
def isinf(x: Tensor) -> Tensor:
    """y = [x is infinite]."""
    return absolute(x) == math.inf if x.dtype.kind in "fO" else x != x


@register("where")
def where(condition: Tensor, a: Tensor | float | None = None, b: Tensor | float | None = None) -> Tensor:
    """Choose between a and b, elementwise: y = a where the condition holds, else b; shapes broadcast.

    With the condition alone: the indices of its nonzero elements, one tensor a dimension.
    """
    if a is None and b is None:
        return condition.nonzero(as_tuple=True)
    dtype = result_type(a, b)
    if not isinstance(condition, Tensor) or condition.dtype not in (bool_, uint8):
        came = condition.dtype if isinstance(condition, Tensor) else type(condition).__name__
        raise RuntimeError(f"where: the condition must be a bool tensor, got {came}; compare first (x > 0, x != 0)")
    a, b = tensor_of_dtype(a, dtype, "where"), tensor_of_dtype(b, dtype, "where")
    broadcast_shape("where", condition.shape, a.shape, b.shape)
    return where_op(condition.to(bool_), a, b)


@register("Tensor.where")
def where_method(x: Tensor, condition: Tensor, other: Tensor | float) -> Tensor:
    """y = x where the condition holds, else the other: `where` as a method."""
    return where(condition, x, other)


@register("masked_fill Tensor.masked_fill Tensor.masked_fill_")
def masked_fill(x: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """y = value where the mask holds, else x."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"masked_fill: expected one value, got a tensor of shape {value.shape}; use where()")
    if mask.dtype != bool_:
        raise RuntimeError(f"masked_fill: the mask must be a bool tensor, got {mask.dtype}; compare first (x != 0)")
    broadcast_shape("masked_fill", x.shape, mask.shape)
    return where(mask, tensor_of_dtype(value, x.dtype, "masked_fill"), x)


@register("pow Tensor.pow Tensor.pow_ Tensor.__pow__ Tensor.__rpow__ Tensor.__ipow__")
def pow(a: Tensor | float, b: Tensor | float) -> Tensor:
    """y = a^b. Small whole exponents are products, 0.5 and -0.5 are roots."""
    b = b.item() if isinstance(b, np.generic) else b
    dtype = result_type(a, b)
    if isinstance(b, int | float) and isinstance(a, Tensor):
        a = a if a._data.dtype is dtype else a.to(dtype)  # whole numbers to the power 2.0 are floats
    if type(b) in (int, float, bool) and isinstance(a, Tensor):
        if b == 2:
            return square_op(a)
        if b == 3:
            return cube_op(a)
        if b == 1:
            return a.clone()
        if a.dtype.kind in "fO" and b in _ROOTS:
            return _ROOTS[b](a)
        if b < 0 and isinstance(b, int) and a.dtype.kind in "biu":
            raise RuntimeError(f"pow: integers to the negative power {b} are no integers; use x.float() ** {b}")
    refuse_only_bools("pow", dtype)
    if dtype.kind == "i" and isinstance(b, Tensor):  # only 1 and -1 have whole inverses; PyTorch gives 0 for others
        a, b = tensor_of_dtype(a, dtype, "pow"), tensor_of_dtype(b, dtype, "pow")
        inverse = where(a == 1, 1, where(a == -1, 1 - 2 * (b % 2), 0)).to(dtype)
        return where(b < 0, inverse, power(a, clamp_min(b, 0)))
    return power(a, b)


_ROOTS = {0.5: sqrt, -0.5: rsqrt, -1: reciprocal}


@register("trunc Tensor.trunc Tensor.trunc_ fix Tensor.fix Tensor.fix_")
def trunc(x: Tensor) -> Tensor:
    """y = x without its decimals."""
    return where(x < 0, ceil(x), floor(x))


@register("square Tensor.square Tensor.square_")
def square(x: Tensor) -> Tensor:
    """y = x^2."""
    return pow(x, 2)


@register("gelu F.gelu nn.GELU")
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    r"""y = x \Phi(x), exactly or by a tanh (approximate="tanh"); Hendrycks and Gimpel (2016)."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return gelu_erf(x) if approximate == "none" else gelu_tanh(x)


@register("clamp clip Tensor.clamp Tensor.clamp_ Tensor.clip Tensor.clip_")
def clamp(x: Tensor, min=None, max=None) -> Tensor:
    """y = x, but at least min and at most max (numbers or tensors)."""
    if min is None and max is None:
        raise RuntimeError("clamp: give min, max, or both")
    if min.__class__ in (int, float) and max.__class__ in (int, float) and x.dtype.kind in "fO":
        return clamped_op(x, min, max)
    if min is not None:
        x = clamp_min(x, min)
    return x if max is None else clamp_max(x, max)


@register("numel")
def numel(x: Tensor) -> int:
    """The number of elements."""
    return x.numel()


@register("is_floating_point")
def is_floating_point(x: Tensor) -> bool:
    """Is the dtype float32 or float64?"""
    return x.is_floating_point()


def _no_integer_zero(what: str, a, b) -> None:
    dtype = result_type(a, b)
    refuse_only_bools(what, dtype)
    if dtype.kind in "iu":
        host(_check_no_zero, b._data if isinstance(b, Tensor) else np.asarray(b), what)


def _check_no_zero(divisor: np.ndarray, what: str) -> None:
    if (divisor == 0).any():
        raise RuntimeError(f"{what}: an integer was divided by 0; floats give inf or NaN: use .float()")


@register(
    "floor_divide Tensor.floor_divide Tensor.floor_divide_ Tensor.__floordiv__ Tensor.__rfloordiv__ "
    "Tensor.__ifloordiv__"
)
def floor_divide(a: Tensor | float, b: Tensor | float) -> Tensor:
    """y = a / b, rounded down."""
    _no_integer_zero("floor_divide", a, b)
    return floor_divide_op(a, b)


@register("remainder Tensor.remainder Tensor.remainder_ Tensor.__mod__ Tensor.__rmod__ Tensor.__imod__")
def remainder(a: Tensor | float, b: Tensor | float) -> Tensor:
    """y = a - b floor(a / b): it has the sign of b."""
    _no_integer_zero("remainder", a, b)
    return remainder_op(a, b)


@register("add Tensor.add Tensor.add_")
def add_scaled(a: Tensor | float, b: Tensor | float, *, alpha: float = 1) -> Tensor:
    """y = a + alpha b."""
    return add(a, b if alpha == 1 else scaled("add", b, alpha, result_type(a, b)))


@register("sub subtract Tensor.sub Tensor.sub_ Tensor.subtract Tensor.subtract_")
def sub_scaled(a: Tensor | float, b: Tensor | float, *, alpha: float = 1) -> Tensor:
    """y = a - alpha b."""
    return sub(a, b if alpha == 1 else scaled("sub", b, alpha, result_type(a, b)))


@register("div divide Tensor.div Tensor.div_ Tensor.divide Tensor.divide_ Tensor.__itruediv__")
def div(a: Tensor | float, b: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    """y = a / b; integers give floats, unless rounding_mode is "floor" or "trunc"."""
    if rounding_mode is None:
        return true_divide(a, b)
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode == "trunc":
        _no_integer_zero("div", a, b)
        if (dtype := result_type(a, b)).kind in "iu":  # their quotient in float32 has 24 bits
            return trunc_divide_op(tensor_of_dtype(a, dtype, "div"), tensor_of_dtype(b, dtype, "div"))
        return trunc(true_divide(a, b))
    raise RuntimeError(f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")


@register("addcmul Tensor.addcmul Tensor.addcmul_")
def addcmul(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    """y = x + value a b; among whole numbers value is cut to one: 2.5 is 2."""
    dtype = result_type(x, a, b)
    refuse_only_bools("addcmul", dtype)
    return add_scaled(x, a * b, alpha=to_0d_array("addcmul", value, dtype).item() if dtype.kind in "iu" else value)


@register("addcdiv Tensor.addcdiv Tensor.addcdiv_")
def addcdiv(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    """y = x + value a / b."""
    only_floats_together("addcdiv", x, a, b)
    return add_scaled(x, a / b, alpha=value)


@register("lerp Tensor.lerp Tensor.lerp_")
def lerp(a: Tensor, b: Tensor, weight: Tensor | float) -> Tensor:
    """y = a + weight (b - a), counted from the nearer end, which weights of 0 and 1 then reach exactly."""
    only_floats_together("lerp", a, b)
    return lerp_op(a, b, weight)


@op
class lerp_op:
    r"y = a + w (b - a)"

    def kernel(a, b, w):
        one = type(a)(1)
        return a + w * (b - a) if abs(w) + abs(w) < one else b - (one - w) * (b - a)

    def grad_a(g, w):
        return g * (1 - w)

    def grad_b(g, w):
        return g * w

    def grad_w(g, a, b):
        return g * (b - a)

"""Functions of single numbers that are composed of others, or stable forms of formulas: logit, xlogy, hypot, sinc."""

import math

import numpy as np

from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import float64, int64, result_type
from tinytensor.core.op import op
from tinytensor.core.promotion import clamp_to_inf
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.native.simd.math import exp as fast_exp
from tinytensor.native.simd.math import log as fast_log
from tinytensor.native.simd.math import log1p as fast_log1p
from tinytensor.native.simd.math import log1p_of_fraction
from tinytensor.ops.arguments import only_floats, only_floats_together, refuse_only_bools, tensor_of_dtype
from tinytensor.ops.creation import tensor
from tinytensor.ops.elementwise import (
    absolute,
    atan,
    clamp,
    cos,
    eq,
    floor_divide_op,
    isfinite,
    isnan,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    masked_fill,
    pow,
    reciprocal,
    remainder,
    round,
    sigmoid,
    sin,
    sqrt,
    trunc,
    where,
)
from tinytensor.ops.shape import broadcast_tensors, clone


def _float(x: Tensor) -> Tensor:
    """x, or whole numbers and truth values as floats."""
    return x if x.dtype.kind in "fO" else x.float()


@register("tan Tensor.tan Tensor.tan_")
def tan(x: Tensor) -> Tensor:
    r"""y = \sin x / \cos x."""
    return sin(x) / cos(x)


@register("acosh arccosh Tensor.acosh Tensor.arccosh Tensor.acosh_ Tensor.arccosh_")
def acosh(x: Tensor) -> Tensor:
    r"""y = \ln(x + \sqrt{x^2 - 1}), exact near 1 too."""
    above = _float(x) - 1
    return log1p(above + sqrt(above) * sqrt(above + 2))


@register("atanh arctanh Tensor.atanh Tensor.arctanh Tensor.atanh_ Tensor.arctanh_")
def atanh(x: Tensor) -> Tensor:
    r"""y = \ln((1 + x) / (1 - x)) / 2, exact for small x too."""
    x = _float(x)
    return (log1p(x) - log1p(-x)) / 2


@register("atan2 arctan2 Tensor.atan2 Tensor.arctan2 Tensor.atan2_ Tensor.arctan2_")
def atan2(y: Tensor, x: Tensor) -> Tensor:
    r"""\varphi = \arctan(y / x), the angle of the point (x, y), from -\pi to \pi; 0 at (0, 0)."""
    dtype = result_type(y, x)  # first: a 0-d tensor counts less in it, and broadcasting adds dimensions
    y, x = (_float(t.to(dtype)) for t in (y, x))
    if state.reading is not None and (angle := state.reading.whole("atan2", y, x)) is not None:
        return angle
    y, x = broadcast_tensors(y, x)
    # The origin has no direction, and two infinities have the direction of (1, 1): there the gradient is 0.
    left, below = signbit(x), signbit(y)
    origin, corner = logical_and(x == 0, y == 0), logical_and(absolute(x) == absolute(y), logical_not(isfinite(x)))
    x, y = (where(corner, copysign(tensor_of_dtype(1, x.dtype), v.detach()), v) for v in (x, y))
    steep = absolute(y) > absolute(x)  # the smaller is divided by the larger, so that no axis divides by 0
    over, under = where(steep, x, where(origin, y.detach(), y)), where(steep, y, where(origin, 1, x))
    angle = atan(over / under)
    half = where(below, *(tensor_of_dtype(turn, angle.dtype) for turn in (-math.pi, math.pi)))
    return where(steep, half / 2 - angle, where(left, angle + half, angle))


@register("exp2 Tensor.exp2 Tensor.exp2_")
def exp2(x: Tensor) -> Tensor:
    """y = 2^x."""
    return pow(2, _float(x))


@register("logit Tensor.logit Tensor.logit_")
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    r"""y = \ln(x / (1 - x)), of x at least eps and at most 1 - eps if that is given."""
    if eps is not None and not eps <= 0.5:
        raise RuntimeError(f"logit: nothing lies between eps and 1 - eps if eps is {eps}; expected 0.5 or less")
    x = _float(x)
    x = x if eps is None else clamp(x, eps, 1 - eps)
    return logit_op(x)


@op
class logit_op:
    r"y = \ln(x / (1 - x))"

    dtype_kinds = "fO"

    def kernel(x):  # around 1/2 the logarithm of a number near 1: 2 x - 1 is exact there
        one, four = type(x)(1), x + x + x + x
        if four > one and four < one + one + one:
            return fast_log1p((x + x - one) / (one - x))
        return fast_log(x) - fast_log1p(-x)

    def grad_x(g, x):
        return g / x + g / (1 - x)


@register("xlogy Tensor.xlogy Tensor.xlogy_")
def xlogy(x: Tensor | float, y: Tensor | float) -> Tensor:
    r"""z = x \ln y, and 0 where x is 0 (NaN where y is)."""
    dtype = result_type(x, y)
    x, y = (_float(tensor_of_dtype(clamp_to_inf(v, dtype), dtype)) for v in (x, y))
    return xlogy_op(x, y)


@op
class xlogy_op:
    r"y = a \ln b, and 0 where a is 0"

    dtype_kinds = "fO"

    def kernel(a, b):  # b == b is False of NaN
        zero = type(a)(0)
        return zero if a == zero and b == b else a * fast_log(b)

    def grad_a(g, a, b):  # for b <= 0 there is a value at a = 0 only, and no slope leads there
        nothing = logical_and(a == 0, b <= 0)
        return g * where(nothing, 0, log(where(nothing, 1, b)))

    def grad_b(g, a, b):
        nothing = logical_and(a == 0, b == 0)
        return g * where(nothing, 0, a / where(nothing, 1, b))


@op
class logaddexp_op:
    r"y = \ln(e^a + e^b)"

    dtype_kinds = "fO"

    def kernel(a, b):  # the larger one is taken out; equal infinities have no difference
        gap = type(a)(0) if a == b else -abs(a - b)
        return (a if a > b else b) + log1p_of_fraction(fast_exp(gap))

    def grad_a(g, a, b):
        return g * sigmoid(_difference(a, b))

    def grad_b(g, a, b):
        return g * sigmoid(_difference(b, a))


def _difference(a: Tensor, b: Tensor) -> Tensor:
    """a - b, and 0 for two equal infinities."""
    same = logical_and(a == b, logical_not(isfinite(a)))
    return where(same, 0, a) - where(same, 0, b)


@register("logaddexp Tensor.logaddexp")
def logaddexp(a: Tensor, b: Tensor) -> Tensor:
    r"""y = \ln(e^a + e^b), of numbers of any size."""
    only_floats_together("logaddexp", a, b)
    a, b = (x.to(result_type(a, b)) for x in broadcast_tensors(a, b))
    return logaddexp_op(a, b)


@register("hypot Tensor.hypot Tensor.hypot_")
def hypot(a: Tensor, b: Tensor) -> Tensor:
    r"""y = \sqrt{a^2 + b^2}."""
    only_floats_together("hypot", a, b)
    a, b = (x.to(result_type(a, b)) for x in broadcast_tensors(a, b))
    return hypot_op(a, b)


@op
class hypot_op:
    r"y = \sqrt{a^2 + b^2}, with the gradient 0 at the origin, which has no direction"

    dtype_kinds = "fO"

    def kernel(a, b):  # the larger one is taken out, so that no square overflows; an infinity prevails over NaN
        p, q = abs(a), abs(b)
        large, small = (p if p > q else q), (q if p > q else p)
        ratio = small / (large if large > type(a)(0) else type(a)(1))
        length = large * np.sqrt(type(a)(1) + ratio * ratio)
        return p if p - p != p - p and p == p else q if q - q != q - q and q == q else length

    def grad_a(g, y, a):
        return g * _share(a, y)

    def grad_b(g, y, b):
        return g * _share(b, y)


def _share(a: Tensor, length: Tensor) -> Tensor:
    """a / length, and 0 where the length is 0."""
    nothing = length == 0
    return where(nothing, 0, a / where(nothing, 1, length))


@register("frac Tensor.frac Tensor.frac_")
def frac(x: Tensor) -> Tensor:
    """y = the decimals of x, with its sign."""
    only_floats("frac", x)
    return x - trunc(x)


@register("fmod Tensor.fmod Tensor.fmod_")
def fmod(a: Tensor, b: Tensor | float) -> Tensor:
    """y = a - b trunc(a / b): it has the sign of a (remainder has that of b)."""
    dtype = result_type(a, b)
    refuse_only_bools("fmod", dtype)
    a, b = a.to(dtype), tensor_of_dtype(clamp_to_inf(b, dtype), dtype)
    if dtype.kind == "i":  # the least one has no absolute value
        rest = remainder(a, b)
        return where(logical_and(rest != 0, (a < 0) != (b < 0)), rest - b, rest)
    size = absolute(b)
    return where(a < 0, -remainder(-a, size), remainder(a, size))


@register("float_power Tensor.float_power")
def float_power(a: Tensor | float, b: Tensor | float) -> Tensor:
    """y = a^b in float64."""
    exact = result_type(a, b).kind == "O"
    return pow(a, b) if exact else pow(*(tensor_of_dtype(v, float64) for v in (a, b)))


def _shift_operands(what: str, a: Tensor | int, b: Tensor | int) -> tuple[Tensor, Tensor]:
    """Whole numbers a in the common dtype, and the numbers of places by which to shift them."""
    dtype = result_type(a, b)
    if dtype.kind not in "iu":
        came = " and ".join(f"{v.dtype}" if isinstance(v, Tensor) else repr(v) for v in (a, b))
        raise (TypeError if dtype.kind == "O" else RuntimeError)(f"{what}: expected whole numbers, got {came}")
    return tensor_of_dtype(a, dtype, what), tensor_of_dtype(b, int64, what)


@register(
    "bitwise_left_shift Tensor.bitwise_left_shift Tensor.bitwise_left_shift_ Tensor.__lshift__ Tensor.__rlshift__ "
    "Tensor.__ilshift__"
)
def bitwise_left_shift(a: Tensor | int, b: Tensor | int) -> Tensor:
    """y = a 2^b of whole numbers: each bit moves up b places, and is lost where it passes the last (all, if b < 0)."""
    a, bits = _shift_operands("bitwise_left_shift", a, b)
    return a * pow(2, bits).to(a.dtype)


@register(
    "bitwise_right_shift Tensor.bitwise_right_shift Tensor.bitwise_right_shift_ Tensor.__rshift__ Tensor.__rrshift__ "
    "Tensor.__irshift__"
)
def bitwise_right_shift(a: Tensor | int, b: Tensor | int) -> Tensor:
    """y = floor(a / 2^b) of whole numbers: each bit moves down b places; only the sign is left if b has no meaning."""
    a, bits = _shift_operands("bitwise_right_shift", a, b)
    last = 8 * a.dtype.itemsize - a.dtype.is_signed
    bits = where((bits < 0).logical_or(bits > last), last, bits)
    half = floor_divide_op(bits, 2)  # 2^b itself is no number of the dtype where b is the last place
    for part in (half, bits - half):
        a = floor_divide_op(a, pow(2, part).to(a.dtype))
    return a


@register("sinc Tensor.sinc Tensor.sinc_")
def sinc(x: Tensor) -> Tensor:
    r"""y = \sin(\pi x) / (\pi x), and 1 at 0."""
    x = _float(x)
    if state.reading is not None and (y := state.reading.whole("sinc", x)) is not None:
        return y
    exact = x.dtype.kind == "O"
    at = x if exact else x.double()  # rounded to float32, \pi x would miss the zeros, and the slope at 0 would cancel
    near = at == 0 if exact else absolute(at) < 0.01
    square = where(near, at, 0) ** 2 * math.pi**2
    series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42))  # for the slope and the curvature around 0
    angle = where(near, 1, at * math.pi)
    return where(near, series, (sin(angle) if exact else _sin_pi(at)) / angle).to(x.dtype)


def _sin_pi(x: Tensor) -> Tensor:
    r"""y = \sin(\pi x) = (-1)^n \sin(\pi (x - n)) with the whole number n next to x: x - n is exact."""
    n = round(x.detach())
    return (1 - 2 * remainder(n, 2)) * sin((x - n) * math.pi)


@register("positive Tensor.positive")
def positive(x: Tensor) -> Tensor:
    """y = x, which is x itself."""
    refuse_only_bools("positive", x.dtype)
    return x


@register("deg2rad Tensor.deg2rad Tensor.deg2rad_")
def deg2rad(x: Tensor) -> Tensor:
    r"""y = \pi x / 180."""
    return x * (math.pi / 180)


@register("rad2deg Tensor.rad2deg Tensor.rad2deg_")
def rad2deg(x: Tensor) -> Tensor:
    r"""y = 180 x / \pi."""
    return x * (180 / math.pi)


@register("isposinf Tensor.isposinf")
def isposinf(x: Tensor) -> Tensor:
    r"""y = [x = \infty]."""
    return eq(x, math.inf)


@register("isneginf Tensor.isneginf")
def isneginf(x: Tensor) -> Tensor:
    r"""y = [x = -\infty]."""
    return eq(x, -math.inf)


@register("signbit Tensor.signbit")
def signbit(x: Tensor) -> Tensor:
    """y = [x has a minus sign], as -0.0 has."""
    return x < 0 if x.dtype.kind in "biu" else logical_or(x < 0, reciprocal(where(x == 0, x, 1)) < 0)


@register("copysign Tensor.copysign Tensor.copysign_")
def copysign(a: Tensor, b: Tensor | float) -> Tensor:
    """y = |a| with the sign of b; the gradient at a = 0 is 0."""
    dtype = result_type(a, b)
    size = absolute(_float(a.to(dtype)))
    negative = signbit(b) if isinstance(b, Tensor) else tensor(math.copysign(1, b) < 0)
    return where(negative, -size, size)


@register("heaviside Tensor.heaviside Tensor.heaviside_")
def heaviside(x: Tensor, values: Tensor) -> Tensor:
    """y = 0 where x < 0, the value where x = 0, and 1 where x > 0."""
    if x.dtype != values.dtype:
        raise RuntimeError(f"heaviside: x of {x.dtype} and values of {values.dtype}: the dtypes must be equal")
    return where(x == 0, values, (x > 0).to(x.dtype)).detach()


@register("nan_to_num Tensor.nan_to_num Tensor.nan_to_num_")
def nan_to_num(x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """y = x with numbers for NaN (0), inf (the largest of the dtype) and -inf (the smallest)."""
    if x.dtype.kind != "f":
        return clone(x)
    info = np.finfo(x.dtype)
    for mask, value, otherwise in (
        (isnan(x), nan, 0.0),
        (x == math.inf, posinf, float(info.max)),
        (x == -math.inf, neginf, float(info.min)),
    ):
        x = masked_fill(x, mask, otherwise if value is None else value)
    return x

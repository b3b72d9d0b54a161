"""Functions of numbers, statistics, distances, chance and parts of layers, composed of other operations.

Most have no kernel and no rule of their own: the operations that they call have both. Functions of single values, or
from several values to one, are here; functions that say where values stand (arranging, products of matrices, indices,
counting) are in compositions.py.
"""

import builtins
import math
from collections.abc import Sequence
from numbers import Real

import numpy as np

from tinytensor.core.dtypes import float64, int64, result_type
from tinytensor.core.op import op
from tinytensor.core.promotion import only_floats, within
from tinytensor.core.registry import appears
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import (
    dimension,
    nonempty_dimensions,
    only_floats_together,
    refuse_only_bools,
    tensor_of_dtype,
)
from tinytensor.ops.creation import arange, rand, tensor
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
    maximum,
    minimum,
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
from tinytensor.ops.generator import Generator
from tinytensor.ops.in_place import copy_
from tinytensor.ops.index import gather, index_select, nonzero
from tinytensor.ops.order import sort
from tinytensor.ops.reduce import ValuesIndices, amax, amin, max, mean, min, norm, std, sum, var
from tinytensor.ops.shape import (
    broadcast_tensors,
    cat,
    clone,
    flatten,
    make_contiguous,
    movedim,
    narrow,
    reshape,
    unsqueeze,
)
from tinytensor.simd.math import exp as fast_exp
from tinytensor.simd.math import log as fast_log
from tinytensor.simd.math import log1p as fast_log1p
from tinytensor.simd.math import log1p_of_fraction

# ----------------------------------------------------------------------------------------- functions of numbers


def _float(x: Tensor) -> Tensor:
    """x, or whole numbers and truth values as floats."""
    return x if x.dtype.kind in "fO" else x.float()


@appears("tan Tensor.tan Tensor.tan_")
def tan(x: Tensor) -> Tensor:
    r"""y = \sin x / \cos x."""
    return sin(x) / cos(x)


@appears("acosh arccosh Tensor.acosh Tensor.arccosh Tensor.acosh_ Tensor.arccosh_")
def acosh(x: Tensor) -> Tensor:
    r"""y = \ln(x + \sqrt{x^2 - 1}), exact near 1 too."""
    above = _float(x) - 1
    return log1p(above + sqrt(above) * sqrt(above + 2))


@appears("atanh arctanh Tensor.atanh Tensor.arctanh Tensor.atanh_ Tensor.arctanh_")
def atanh(x: Tensor) -> Tensor:
    r"""y = \ln((1 + x) / (1 - x)) / 2, exact for small x too."""
    x = _float(x)
    return (log1p(x) - log1p(-x)) / 2


@appears("atan2 arctan2 Tensor.atan2 Tensor.arctan2 Tensor.atan2_ Tensor.arctan2_")
def atan2(y: Tensor, x: Tensor) -> Tensor:
    r"""\varphi = \arctan(y / x), the angle of the point (x, y), from -\pi to \pi; 0 at (0, 0)."""
    dtype = result_type(y, x)  # first: a 0-d tensor counts less in it, and the next line adds dimensions
    y, x = (_float(t.to(dtype)) for t in broadcast_tensors(y, x))
    # The origin has no direction, and two infinities have the direction of (1, 1): there the gradient is 0.
    left, below = signbit(x), signbit(y)
    origin, corner = logical_and(x == 0, y == 0), logical_and(absolute(x) == absolute(y), logical_not(isfinite(x)))
    x, y = (where(corner, copysign(tensor_of_dtype(1, x.dtype), v.detach()), v) for v in (x, y))
    steep = absolute(y) > absolute(x)  # the smaller is divided by the larger, so that no axis divides by 0
    over, under = where(steep, x, where(origin, y.detach(), y)), where(steep, y, where(origin, 1, x))
    angle = atan(over / under)
    half = where(below, *(tensor_of_dtype(turn, angle.dtype) for turn in (-math.pi, math.pi)))
    return where(steep, half / 2 - angle, where(left, angle + half, angle))


@appears("exp2 Tensor.exp2 Tensor.exp2_")
def exp2(x: Tensor) -> Tensor:
    """y = 2^x."""
    return pow(2, _float(x))


@appears("logit Tensor.logit Tensor.logit_")
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

    kinds = "fO"

    def kernel(x):  # around 1/2 the logarithm of a number near 1: 2 x - 1 is exact there
        one, four = type(x)(1), x + x + x + x
        if four > one and four < one + one + one:
            return fast_log1p((x + x - one) / (one - x))
        return fast_log(x) - fast_log1p(-x)

    def grad_x(g, x):
        return g / x + g / (1 - x)


@appears("xlogy Tensor.xlogy Tensor.xlogy_")
def xlogy(x: Tensor | float, y: Tensor | float) -> Tensor:
    r"""z = x \ln y, and 0 where x is 0 (NaN where y is)."""
    dtype = result_type(x, y)
    x, y = (_float(tensor_of_dtype(within(v, dtype), dtype)) for v in (x, y))
    return xlogy_op(x, y)


@op
class xlogy_op:
    r"y = a \ln b, and 0 where a is 0"

    kinds = "fO"

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

    kinds = "fO"

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


@appears("logaddexp Tensor.logaddexp")
def logaddexp(a: Tensor, b: Tensor) -> Tensor:
    r"""y = \ln(e^a + e^b), of numbers of any size."""
    only_floats_together("logaddexp", a, b)
    a, b = (x.to(result_type(a, b)) for x in broadcast_tensors(a, b))
    return logaddexp_op(a, b)


@appears("hypot Tensor.hypot Tensor.hypot_")
def hypot(a: Tensor, b: Tensor) -> Tensor:
    r"""y = \sqrt{a^2 + b^2}."""
    only_floats_together("hypot", a, b)
    a, b = (x.to(result_type(a, b)) for x in broadcast_tensors(a, b))
    return hypot_op(a, b)


@op
class hypot_op:
    r"y = \sqrt{a^2 + b^2}, with the gradient 0 at the origin, which has no direction"

    kinds = "fO"

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


@appears("frac Tensor.frac Tensor.frac_")
def frac(x: Tensor) -> Tensor:
    """y = the decimals of x, with its sign."""
    only_floats("frac", x)
    return x - trunc(x)


@appears("fmod Tensor.fmod Tensor.fmod_")
def fmod(a: Tensor, b: Tensor | float) -> Tensor:
    """y = a - b trunc(a / b): it has the sign of a (remainder has that of b)."""
    dtype = result_type(a, b)
    refuse_only_bools("fmod", dtype)
    a, b = a.to(dtype), tensor_of_dtype(within(b, dtype), dtype)
    if dtype.kind == "i":  # the least one has no absolute value
        rest = remainder(a, b)
        return where(logical_and(rest != 0, (a < 0) != (b < 0)), rest - b, rest)
    size = absolute(b)
    return where(a < 0, -remainder(-a, size), remainder(a, size))


@appears("float_power Tensor.float_power")
def float_power(a: Tensor | float, b: Tensor | float) -> Tensor:
    """y = a^b in float64."""
    exact = result_type(a, b).kind == "O"
    return pow(a, b) if exact else pow(*(tensor_of_dtype(v, float64) for v in (a, b)))


def _places(what: str, a: Tensor | int, b: Tensor | int) -> tuple[Tensor, Tensor]:
    """Whole numbers a in the common dtype, and the numbers of places by which to shift them."""
    dtype = result_type(a, b)
    if dtype.kind not in "iu":
        came = " and ".join(f"{v.dtype}" if isinstance(v, Tensor) else repr(v) for v in (a, b))
        raise RuntimeError(f"{what}: expected whole numbers, got {came}")
    return tensor_of_dtype(a, dtype, what), tensor_of_dtype(b, int64, what)


@appears(
    "bitwise_left_shift Tensor.bitwise_left_shift Tensor.bitwise_left_shift_ Tensor.__lshift__ Tensor.__rlshift__ "
    "Tensor.__ilshift__"
)
def bitwise_left_shift(a: Tensor | int, b: Tensor | int) -> Tensor:
    """y = a 2^b of whole numbers: each bit moves up b places, and is lost where it passes the last (all, if b < 0)."""
    a, places = _places("bitwise_left_shift", a, b)
    return a * pow(2, places).to(a.dtype)


@appears(
    "bitwise_right_shift Tensor.bitwise_right_shift Tensor.bitwise_right_shift_ Tensor.__rshift__ Tensor.__rrshift__ "
    "Tensor.__irshift__"
)
def bitwise_right_shift(a: Tensor | int, b: Tensor | int) -> Tensor:
    """y = floor(a / 2^b) of whole numbers: each bit moves down b places; only the sign is left if b has no meaning."""
    a, places = _places("bitwise_right_shift", a, b)
    last = 8 * a.dtype.itemsize - a.dtype.is_signed
    places = where((places < 0).logical_or(places > last), last, places)
    half = floor_divide_op(places, 2)  # 2^b itself is no number of the dtype where b is the last place
    for part in (half, places - half):
        a = floor_divide_op(a, pow(2, part).to(a.dtype))
    return a


@appears("sinc Tensor.sinc Tensor.sinc_")
def sinc(x: Tensor) -> Tensor:
    r"""y = \sin(\pi x) / (\pi x), and 1 at 0."""
    x = _float(x)
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


@appears("positive Tensor.positive")
def positive(x: Tensor) -> Tensor:
    """y = x, which is x itself."""
    refuse_only_bools("positive", x.dtype)
    return x


@appears("deg2rad Tensor.deg2rad Tensor.deg2rad_")
def deg2rad(x: Tensor) -> Tensor:
    r"""y = \pi x / 180."""
    return x * (math.pi / 180)


@appears("rad2deg Tensor.rad2deg Tensor.rad2deg_")
def rad2deg(x: Tensor) -> Tensor:
    r"""y = 180 x / \pi."""
    return x * (180 / math.pi)


@appears("isposinf Tensor.isposinf")
def isposinf(x: Tensor) -> Tensor:
    r"""y = [x = \infty]."""
    return eq(x, math.inf)


@appears("isneginf Tensor.isneginf")
def isneginf(x: Tensor) -> Tensor:
    r"""y = [x = -\infty]."""
    return eq(x, -math.inf)


@appears("signbit Tensor.signbit")
def signbit(x: Tensor) -> Tensor:
    """y = [x has a minus sign], as -0.0 has."""
    return x < 0 if x.dtype.kind in "biu" else logical_or(x < 0, reciprocal(where(x == 0, x, 1)) < 0)


@appears("copysign Tensor.copysign Tensor.copysign_")
def copysign(a: Tensor, b: Tensor | float) -> Tensor:
    """y = |a| with the sign of b; the gradient at a = 0 is 0."""
    dtype = result_type(a, b)
    size = absolute(_float(a.to(dtype)))
    negative = signbit(b) if isinstance(b, Tensor) else tensor(math.copysign(1, b) < 0)
    return where(negative, -size, size)


@appears("heaviside Tensor.heaviside Tensor.heaviside_")
def heaviside(x: Tensor, values: Tensor) -> Tensor:
    """y = 0 where x < 0, the value where x = 0, and 1 where x > 0."""
    if x.dtype != values.dtype:
        raise RuntimeError(f"heaviside: x of {x.dtype} and values of {values.dtype}: the dtypes must be equal")
    return where(x == 0, values, (x > 0).to(x.dtype)).detach()


@appears("nan_to_num Tensor.nan_to_num Tensor.nan_to_num_")
def nan_to_num(x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """y = x with numbers for NaN (0), inf (the largest of the dtype) and -inf (the smallest)."""
    if x.dtype.kind != "f":
        return clone(x)
    info = np.finfo(x.dtype)
    for places, value, otherwise in (
        (isnan(x), nan, 0.0),
        (x == math.inf, posinf, float(info.max)),
        (x == -math.inf, neginf, float(info.min)),
    ):
        x = masked_fill(x, places, otherwise if value is None else value)
    return x


# ---------------------------------------------------------------------------------------- sums, order, statistics


@appears("nansum Tensor.nansum")
def nansum(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = sum of x over `dim`, NaN counting as 0."""
    return sum(where(isnan(x), 0, x).to(x.dtype), dim, keepdim, dtype=dtype)


@appears("nanmean Tensor.nanmean")
def nanmean(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = mean of the x over `dim` that are not NaN."""
    only_floats("nanmean", x)
    return nansum(x, dim, keepdim, dtype=dtype) / sum((x == x).to(x.dtype), dim, keepdim)


@appears("count_nonzero Tensor.count_nonzero")
def count_nonzero(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    r"""y = \sum_i [x_i \neq 0]: how many elements are not 0, over `dim` (one, several, or all)."""
    return sum(x != 0, dim)


@appears("argwhere Tensor.argwhere")
def argwhere(x: Tensor) -> Tensor:
    """The indices of the nonzero elements, a row each."""
    return nonzero(x)


@appears("var_mean")
def var_mean(
    x: Tensor, dim: int | Sequence[int] | None = None, unbiased: bool = True, keepdim: bool = False, *, correction=None
) -> tuple[Tensor, Tensor]:
    """var and mean of x over `dim`."""
    about = None if isinstance(dim, bool) else dim
    return var(x, dim, unbiased, keepdim, correction=correction), mean(x, about, keepdim)


@appears("std_mean")
def std_mean(
    x: Tensor, dim: int | Sequence[int] | None = None, unbiased: bool = True, keepdim: bool = False, *, correction=None
) -> tuple[Tensor, Tensor]:
    """std and mean of x over `dim`."""
    about = None if isinstance(dim, bool) else dim
    return std(x, dim, unbiased, keepdim, correction=correction), mean(x, about, keepdim)


class MinMax(tuple):
    """The result of aminmax: `.min` and `.max`."""

    min = property(lambda self: self[0])
    max = property(lambda self: self[1])


@appears("aminmax Tensor.aminmax")
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest of x over `dim` (one or all): (min, max)."""
    return MinMax((amin(x, dim, keepdim), amax(x, dim, keepdim)))


def _rows(x: Tensor, dim: int | None, what: str) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """x with `dim` (or all) as the last dimension; the shape without it, and with a size of 1 in its place."""
    refuse_only_bools(what, x.dtype)
    dims = nonempty_dimensions(x, dim, what)
    if dim is None or x.ndim == 0:
        return flatten(x), (), (1,) * x.ndim
    kept = tuple(1 if d == dims[0] else n for d, n in enumerate(x.shape))
    return movedim(x, dims[0], -1), kept[: dims[0]] + kept[dims[0] + 1 :], kept


@appears("kthvalue Tensor.kthvalue")
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element along `dim`, the first being number 1: (values, indices)."""
    rows, shape, kept = _rows(x, dim, "kthvalue")
    n = rows.shape[-1]
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue: k = {k} is outside 1 to {n}, the size of dimension {dim} of shape {x.shape}")
    parts = [make_contiguous(part[..., k - 1]) for part in sort(rows, -1)]
    return ValuesIndices(tuple(reshape(part, kept if keepdim else shape) for part in parts))


@appears("median Tensor.median")
def median(x: Tensor, dim: int | None = None, keepdim: bool = False):
    """The element in the middle, the lower of two; over one `dim`: (values, indices). NaN if there is one.

    Of all elements, equal ones share the gradient; over one `dim`, the one at the index takes it.
    """
    if dim is None and x.requires_grad and x.dtype.kind == "f":
        return _shared_among_equals(x, median(x.detach()))
    rows, shape, kept = _rows(x, dim, "median")
    values, indices = sort(rows, -1)  # NaN is the last
    n = rows.shape[-1]
    middle = where(isnan(values[..., -1]), n - 1, (n - 1) // 2).unsqueeze(-1)
    values, indices = (reshape(gather(part, -1, middle), kept if keepdim else shape) for part in (values, indices))
    return values if dim is None else ValuesIndices((values, indices))


def _shared_among_equals(x: Tensor, value: Tensor) -> Tensor:
    """The value of some elements of x, as the largest of them: max shares its gradient among equals.

    The others count as -inf; -inf itself is the least of all elements.
    """
    low, equal = value == -math.inf, logical_or(x.detach() == value, logical_and(isnan(x.detach()), isnan(value)))
    return where(low, min(x), max(where(equal, x, -math.inf)))


@appears("quantile Tensor.quantile")
def quantile(
    x: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """y = x_{(q (n - 1))}: below it lies the share q of the elements, for each q; between two by `interpolation`."""
    only_floats("quantile", x)
    roundings = {"lower": math.floor, "higher": math.ceil, "nearest": builtins.round}
    if interpolation not in ("linear", "midpoint", *roundings):
        raise ValueError(
            f"quantile: interpolation {interpolation!r}: expected linear, lower, higher, nearest, midpoint"
        )
    shares = q.tolist() if isinstance(q, Tensor) else q
    several = isinstance(shares, list)
    if not builtins.all(isinstance(s, Real) and 0 <= s <= 1 for s in (shares if several else [shares])):
        raise RuntimeError(f"quantile: q must be a number between 0 and 1, or a vector of them, got {q}")
    rows, shape, kept = _rows(x, dim, "quantile")
    values = sort(rows, -1)[0]
    at = [s * (rows.shape[-1] - 1) for s in (shares if several else [shares])]
    at = [roundings[interpolation](place) for place in at] if interpolation in roundings else at
    below, above = [math.floor(place) for place in at], [math.ceil(place) for place in at]
    between = [place - first for place, first in zip(at, below, strict=True)]
    if interpolation == "midpoint":
        between = [0.5 if share else 0.0 for share in between]
    low, high = (index_select(values, -1, tensor(edge)) for edge in (below, above))
    y = low + tensor(between, dtype=x.dtype) * (high - low)
    last = values[..., -1:]  # NaN if there is one
    y = movedim(where(isnan(last), last, y), -1, 0)
    shape = kept if keepdim else shape
    return reshape(y, (len(at), *shape) if several else shape)


def _scanned(x: Tensor, dim: int, together) -> Tensor:
    """y_i = x_0, x_1 ... x_i taken together, along `dim`; in steps that double, so that there are few of them."""
    y, step = clone(movedim(x, dim, 0)), 1
    while step < y.shape[0]:
        y = cat([y[:step], together(y[step:], y[:-step])])
        step *= 2
    return make_contiguous(movedim(y, 0, dim))


def _running_extreme(what: str, x: Tensor, dim: int, extreme) -> ValuesIndices:
    """The largest or smallest of x_0 ... x_i for each i, and the last place at which it stands; NaN is an extreme."""
    dim = dimension(x, dim, what)
    if not x.ndim:
        return ValuesIndices((x.clone(), tensor(0)))
    constant = x.detach()
    peaks = _scanned(constant, dim, extreme)
    places = reshape(arange(x.shape[dim]), [-1 if d == dim else 1 for d in range(x.ndim)])
    stands = logical_or(constant == peaks, isnan(constant)) if x.dtype.kind == "f" else constant == peaks
    index = _scanned(where(stands, places, 0), dim, maximum)
    return ValuesIndices((gather(x, dim, index), index))


@appears("cummax Tensor.cummax")
def cummax(x: Tensor, dim: int) -> ValuesIndices:
    r"""y_i = \max(x_0, ..., x_i) along `dim`: (values, indices), the last index where several are equal."""
    return _running_extreme("cummax", x, dim, maximum)


@appears("cummin Tensor.cummin")
def cummin(x: Tensor, dim: int) -> ValuesIndices:
    r"""y_i = \min(x_0, ..., x_i) along `dim`: (values, indices), the last index where several are equal."""
    return _running_extreme("cummin", x, dim, minimum)


@appears("logcumsumexp Tensor.logcumsumexp")
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    r"""y_i = \ln(e^{x_0} + ... + e^{x_i}) along `dim`."""
    only_floats("logcumsumexp", x)
    dim = dimension(x, dim, "logcumsumexp")
    return _scanned(x, dim, logaddexp) if x.ndim else x.clone()


@appears("diff Tensor.diff")
def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """y_i = x_{i+1} - x_i along `dim`, n times over, of x with `prepend` before it and `append` behind it."""
    dim = dimension(x, dim, "diff")
    if x.ndim == 0 or n < 0:
        raise RuntimeError(f"diff: expected at least one dimension and n of 0 or more, got shape {x.shape} and n = {n}")
    if prepend is not None or append is not None:
        x = cat([part for part in (prepend, x, append) if part is not None], dim)
    for _ in range(builtins.min(n, x.shape[dim])):
        after, before = (narrow(x, dim, start, x.shape[dim] - 1) for start in (1, 0))
        x = after.logical_xor(before) if x.dtype.kind == "b" else after - before
    return x


# ----------------------------------------------------------------------------------------------------- distances


@appears("dist Tensor.dist")
def dist(a: Tensor, b: Tensor, p: float = 2) -> Tensor:
    """y = |a - b|_p over all elements."""
    return norm(a - b, p)


@appears("cdist")
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """y_{ij} = |a_i - b_j|_p of the rows of (..., P, M) and (..., R, M): all distances, (..., P, R).

    PyTorch's compute modes are accepted and change nothing: the differences are always computed, since a matrix product
    loses small ones.
    """
    modes = [f"{way}use_mm_for_euclid_dist{when}" for way, when in (("", "_if_necessary"), ("", ""), ("donot_", ""))]
    if compute_mode not in (None, *modes):
        raise ValueError(f"cdist: compute_mode {compute_mode!r}: expected one of {', '.join(modes)}")
    if p < 0:
        raise RuntimeError(f"cdist: p must be 0 or more, got {p}")
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist: {x1.shape} and {x2.shape}: expected rows of one length, (..., P, M) and (..., R, M)"
        )
    x1, x2 = only_floats("cdist", x1, x2)
    apart = unsqueeze(x1, -2) - unsqueeze(x2, -3)
    return norm(apart, p if apart.shape[-1] else 1, -1)  # no coordinates: 0, and there is no largest one


@appears("renorm Tensor.renorm Tensor.renorm_")
def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """y = x, but each slice s along `dim` with |s|_p > m is s m / (|s|_p + 10^{-7})."""
    only_floats("renorm", x)
    dim = dimension(x, dim, "renorm")
    if x.ndim < 2 or not p > 0 or not maxnorm >= 0:
        raise RuntimeError(
            f"renorm: expected at least 2 dimensions, p above 0 and maxnorm of 0 or more, got shape {x.shape}, p = {p} "
            f"and maxnorm = {maxnorm}"
        )
    if not x.numel():
        return clone(x)
    length = norm(x, p, [d for d in range(x.ndim) if d != dim], keepdim=True)
    return x * where(length > maxnorm, maxnorm / (length + 1e-7), 1)


# ------------------------------------------------------------------------------------------------------- chance


@appears("bernoulli Tensor.bernoulli")
def bernoulli(p: Tensor, *, generator: Generator | None = None) -> Tensor:
    """P(y = 1) = p: 1 with probability p, else 0, elementwise."""
    only_floats("bernoulli", p)
    return (rand(p.shape, dtype=p.dtype, generator=generator) < p).to(p.dtype)


@appears("Tensor.bernoulli_")
def bernoulli_(x: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with probability p, else 0, for every element, in place."""
    return copy_(x, (rand(x.shape, dtype=float64, generator=generator) < p).to(x.dtype))


@appears("Tensor.exponential_")
def exponential_(x: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    r"""Draw every element with the density \lambda e^{-\lambda x}, in place."""
    only_floats("exponential_", x)
    return copy_(x, log1p(-rand(x.shape, dtype=x.dtype, generator=generator)) / -lambd)


# -------------------------------------------------------------------------------------------------------- layers


@appears("F.pad")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """x with pad[0] elements before its last dimension and pad[1] after it, pad[2] and pad[3] for the one before ...

    "constant": they are `value` (0); "replicate": the edge; "reflect": the elements mirrored at the edge; "circular":
    the other end. Negative numbers cut elements off.
    """
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(f"pad: expected two numbers for each of at most {input.ndim} dimensions, got {tuple(pad)}")
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"pad: mode {mode!r}: expected constant, reflect, replicate or circular")
    if mode != "constant" and value not in (None, 0):
        raise ValueError(f"pad: mode {mode!r} takes no value, got {value}")
    for i in range(0, len(pad), 2):
        input = _padded(input, input.ndim - 1 - i // 2, *pad[i : i + 2], mode, value or 0)
    return input


def _padded(x: Tensor, dim: int, before: int, after: int, mode: str, value: float) -> Tensor:
    n = x.shape[dim] + builtins.min(before, 0) + builtins.min(after, 0)
    if n < 0:
        raise RuntimeError(f"pad: ({before}, {after}) cuts more off than dimension {dim} of shape {x.shape} has")
    x = narrow(x, dim, builtins.max(-before, 0), n)
    before, after = builtins.max(before, 0), builtins.max(after, 0)
    if mode == "constant":
        left, right = (x.new_full((*x.shape[:dim], k, *x.shape[dim + 1 :]), value) for k in (before, after))
        return cat([left, x, right], dim)
    longest = {"reflect": n - 1, "circular": n, "replicate": math.inf if n else 0}[mode]
    if builtins.max(before, after) > longest:
        raise RuntimeError(f"pad: ({before}, {after}) in mode {mode!r}: dimension {dim} of {x.shape} allows {longest}")
    place = {  # in the input, of the element at place i of the result, counted from where the input begins
        "reflect": lambda i: i if 0 <= i < n else -i if i < 0 else 2 * (n - 1) - i,  # 2 1 | 0 1 2 3 | 2 1
        "replicate": lambda i: builtins.min(builtins.max(i, 0), n - 1),
        "circular": lambda i: i % n,
    }[mode]
    return index_select(x, dim, tensor([place(i) for i in range(-before, n + after)]))


@appears("F.group_norm")
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    r"""y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \delta, with \mu and \sigma^2 of each group of channels.

    x is (N, C, ...); \gamma and \delta are (C,).
    """
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise RuntimeError(
            f"group_norm: {num_groups} groups of the channels of {input.shape}: they do not come out even"
        )
    input, weight, bias = only_floats("group_norm", input, weight, bias)
    groups = reshape(input, (input.shape[0], num_groups, -1))
    variance, centre = var_mean(groups, -1, correction=0, keepdim=True)
    y = reshape((groups - centre) * (variance + eps).rsqrt(), input.shape)
    shape = (1, -1) + (1,) * (input.ndim - 2)
    y = y if weight is None else y * reshape(weight, shape)
    return y if bias is None else y + reshape(bias, shape)


@appears("threshold F.threshold")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """y = the value where x <= threshold, else x, which may be NaN."""
    refuse_only_bools("threshold", input.dtype)
    y = where(input <= threshold, tensor_of_dtype(value, input.dtype), input)
    return copy_(input, y) if inplace else y


@appears("F.hardshrink nn.Hardshrink")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    r"""y = x where |x| > \lambda, else 0."""
    only_floats("hardshrink", input)
    return where((input >= -lambd).logical_and(input <= lambd), 0, input)


@appears("F.softshrink nn.Softshrink")
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    r"""y = x - \lambda where x > \lambda, x + \lambda where x < -\lambda, else 0."""
    only_floats("softshrink", input)
    nothing = (input >= -lambd).logical_and(input <= lambd)
    return where(nothing, 0, where(input > 0, input - lambd, input + lambd))

"""Reductions over any dimensions: sums, products, extremes, norms, and running sums."""

import builtins
import math
from collections.abc import Sequence

from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import empty, launch, move, state
from tinytensor.core.dtypes import bool_, float32, float64, int64, uint8
from tinytensor.core.modes import no_grad
from tinytensor.core.op import op
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension, dimensions, nonempty_dimensions, only_floats
from tinytensor.ops.arrays import apply_formula, grouped, reduce_array, reduced_shape
from tinytensor.ops.elementwise import (
    absolute,
    exp,
    isfinite,
    isnan,
    logical_and,
    logical_or,
    maximum,
    minimum,
    pow,
    sqrt,
    sub,
    true_divide,
    where,
)
from tinytensor.ops.index import gather_backward
from tinytensor.ops.shape import cat, expand_op, movedim, reshape


@op
class spread_op:
    r"y = x, which has the shape of a reduction's result, seen in the shape before"

    def view(x, shape, dims):
        return expand_op.view(x.reshape(reduced_shape(shape, dims, True), copy=False), shape)

    def grad_x(g, x_shape, dims):
        return reshape(reduce_sum(g, dims, False), x_shape)


@op
class reduce_sum:
    r"y = \sum_i x_i"

    def forward(x, dims, keepdim):
        return reduce_array(kernels.reduce_sum, x, dims, keepdim)

    def grad_x(g, x_shape, dims):
        return spread_op(g, x_shape, dims)


@op
class reduce_mean:
    r"y = \frac1n \sum_i x_i"

    def forward(x, dims, keepdim):
        total, n = reduce_array(kernels.reduce_sum, x, dims, keepdim), math.prod([x.shape[d] for d in dims])
        return apply_formula(true_divide.kernel, total, n)

    def grad_x(g, x_shape, dims):
        return spread_op(g / math.prod([x_shape[d] for d in dims]), x_shape, dims)


@op
class centred:
    r"y = x - \frac1n \sum_i x_i"

    def forward(x, dims):  # in float64 the mean of numbers that lie close together far from 0 is exact enough
        wide = float64 if x.dtype is float32 else x.dtype
        total, n = (
            reduce_array(kernels.reduce_sum, x, dims, True, dtype=wide),
            math.prod([x.shape[d] for d in dims]),
        )
        y = empty(x.shape, x.dtype)
        launch(sub.kernel, x, apply_formula(true_divide.kernel, total, n), y)
        return y

    def grad_x(g, dims):
        return centred(g, dims)


@op
class reduce_norm:
    r"y = \sqrt{\frac1n \sum_i x_i^2}, with the gradient 0 where y is 0 (a length has no direction there)"

    def forward(x, dims, keepdim, n):  # float64 holds the square of every float32, so that none overflows or is lost
        wide = float64 if x.dtype is float32 else x.dtype
        total = reduce_array(kernels.reduce_squares, x, dims, keepdim, dtype=wide)
        total = total if n == 1 else apply_formula(true_divide.kernel, total, n)
        y = empty(total.shape, x.dtype)
        move(apply_formula(sqrt.kernel, total), y)
        return y

    def grad_x(g, y, x, dims, n):
        length = where(y == 0, 1, y if n == 1 else y * n)
        return x / spread_op(length, x.shape, dims) * spread_op(g, x.shape, dims)


@op
class reduce_prod:
    r"y = \prod_i x_i"

    def forward(x, dims, keepdim):
        return reduce_array(kernels.reduce_prod, x, dims, keepdim)

    def definition(x, dims, keepdim):  # as a tree of products, so that a zero among the factors needs no division
        rows = movedim(x, dims, tuple(range(len(dims))))
        rows = reshape(rows, (math.prod(rows.shape[: len(dims)]), *rows.shape[len(dims) :]))
        if not rows.shape[0]:
            return reduce_sum(x, dims, keepdim) + 1
        while (n := rows.shape[0]) > 1:
            pairs = rows[: n // 2] * rows[n // 2 : n - n % 2]
            rows = cat([pairs, rows[n - 1 :]]) if n % 2 else pairs
        return reshape(rows[0], reduced_shape(x.shape, dims, keepdim))


@op
class reduce_amax:
    r"y = \max_i x_i; equal maxima share the gradient"

    def forward(x, dims, keepdim, nan_is_equal):
        return reduce_array(kernels.reduce_max, x, dims, keepdim, int64)[0]

    def grad_x(g, y, x, dims, nan_is_equal):
        return _shared_among_equals(g, y, x, dims, nan_is_equal)


@op
class reduce_amin:
    r"y = \min_i x_i; equal minima share the gradient"

    def forward(x, dims, keepdim, nan_is_equal):
        return reduce_array(kernels.reduce_min, x, dims, keepdim, int64)[0]

    def grad_x(g, y, x, dims, nan_is_equal):
        return _shared_among_equals(g, y, x, dims, nan_is_equal)


def _shared_among_equals(g, y, x, dims, nan_is_equal):
    equal = x == spread_op(y, x.shape, dims)
    if nan_is_equal:
        equal = logical_or(equal, isnan(x))
    equal = equal.to(g.dtype)
    share = reshape(g, reduced_shape(x.shape, dims, True)) / reduce_sum(equal, dims, True)
    return share * equal


@op
class reduce_max:
    r"y = \max_i x_i and the first i where it stands"

    saved, outputs = ("index",), 2

    def forward(x, dims, keepdim):
        return reduce_array(kernels.reduce_max, x, dims, keepdim, int64)

    def grad_x(g, x_shape, dims, keepdim, index):
        return _at_index(g, x_shape, dims, keepdim, index)


@op
class reduce_min:
    r"y = \min_i x_i and the first i where it stands"

    saved, outputs = ("index",), 2

    def forward(x, dims, keepdim):
        return reduce_array(kernels.reduce_min, x, dims, keepdim, int64)

    def grad_x(g, x_shape, dims, keepdim, index):
        return _at_index(g, x_shape, dims, keepdim, index)


def _at_index(g, shape, dims, keepdim, index):
    if not dims:
        return g
    kept = reduced_shape(shape, dims, True)
    return gather_backward(reshape(g, kept), reshape(index, kept), shape, dims[0])


@op
class reduce_logsumexp:
    r"y = \ln \sum_i e^{x_i}"

    def forward(x, dims, keepdim):
        return reduce_array(kernels.reduce_logsumexp, x, dims, keepdim)

    def grad_x(g, y, x, dims):
        return spread_op(g, x.shape, dims) * exp(x - spread_op(y, x.shape, dims))


@op
class reduce_any:
    r"y = \bigvee_i x_i"

    def forward(x, dims, keepdim):
        return reduce_array(kernels.reduce_any, x, dims, keepdim)


@op
class reduce_all:
    r"y = \bigwedge_i x_i"

    def forward(x, dims, keepdim):
        return reduce_array(kernels.reduce_all, x, dims, keepdim)


def _at_least_int64(x: Tensor, dtype) -> Tensor:
    if dtype is None and x._data.dtype.kind not in "biu":
        return x
    return x.to(int64 if dtype is None else dtype)


@register("sum Tensor.sum")
def sum(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = sum of x over `dim` (one, several, or all); integers and bools give int64."""
    return reduce_sum.quick(_at_least_int64(x, dtype), dimensions(x, dim, "sum"), keepdim)


@register("prod Tensor.prod")
def prod(x: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = product of x over `dim` (one or all); integers and bools give int64."""
    return reduce_prod(_at_least_int64(x, dtype), dimensions(x, dim, "prod"), keepdim)


@register("mean Tensor.mean")
def mean(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = (1/n) sum of x over `dim`."""
    x = x if dtype is None else x.to(dtype)
    only_floats("mean", x)
    return reduce_mean.quick(x, dimensions(x, dim, "mean"), keepdim)


@register("var Tensor.var")
def var(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> Tensor:
    r"""y = \frac{1}{n - c} \sum_i (x_i - \bar x)^2 over `dim`, with the correction c = 1 unless given."""
    deviation, dims, n = _deviation("var", x, dim, unbiased, correction)
    return reduce_sum(deviation * deviation, dims, keepdim) / n


def _deviation(what: str, x: Tensor, dim, unbiased: bool, correction) -> tuple[Tensor, tuple[int, ...], float]:
    r"""x - \bar x, the dimensions of the mean, and n - c, but at least 0."""
    only_floats(what, x)
    if isinstance(dim, bool):  # PyTorch: var(unbiased)
        dim, unbiased = None, dim
    correction = int(unbiased) if correction is None else correction
    if not isinstance(correction, int | float):
        raise TypeError(f"{what}: correction must be a number, got {correction!r}")
    dims = dimensions(x, dim, what)
    n = math.prod(x.shape[d] for d in dims) - correction
    return centred(x, dims) if dims else x * 0, dims, n if n > 0 else 0.0


@register("std Tensor.std")
def std(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> Tensor:
    """y = the square root of var, though that may be no float32; where it is 0 the gradient is 0 too."""
    deviation, dims, n = _deviation("std", x, dim, unbiased, correction)
    return reduce_norm(deviation, dims, keepdim, n)


@register("amax Tensor.amax")
def amax(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """y = the largest of x over `dim`; equal ones share the gradient."""
    return reduce_amax(x, nonempty_dimensions(x, dim, "amax"), keepdim, False)


@register("amin Tensor.amin")
def amin(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """y = the smallest of x over `dim`; equal ones share the gradient."""
    return reduce_amin(x, nonempty_dimensions(x, dim, "amin"), keepdim, False)


def _extreme(x: Tensor, dim, keepdim, all_of, one_of, pairwise, what):
    if dim is None:
        return all_of(x, nonempty_dimensions(x, None, what), False, True)  # NaN among the elements takes the gradient
    if isinstance(dim, Tensor):
        return pairwise(x, dim)
    return one_of(x, nonempty_dimensions(x, dim, what), keepdim)


@register("max Tensor.max")
def max(x: Tensor, dim: int | Tensor | None = None, keepdim: bool = False):
    r"""y = \max_i x_i; over one `dim`: (values, indices), the first index where several are equal.

    max(a, b) of two tensors is maximum(a, b).
    """
    return _pair(_extreme(x, dim, keepdim, reduce_amax, reduce_max, maximum, "max"))


@register("min Tensor.min")
def min(x: Tensor, dim: int | Tensor | None = None, keepdim: bool = False):
    r"""y = \min_i x_i; over one `dim`: (values, indices), the first index where several are equal."""
    return _pair(_extreme(x, dim, keepdim, reduce_amin, reduce_min, minimum, "min"))


class ValuesIndices(tuple[Tensor, Tensor]):
    """The result of max, min, sort and topk: `.values` and `.indices`."""

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


def _pair(result):
    return ValuesIndices(result) if isinstance(result, tuple) else result


@register("argmax Tensor.argmax")
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    r"""y = \arg\max_i x_i: the (first) index of the largest element, of the flattened tensor if no dim is given."""
    with no_grad():
        return reduce_max(x, nonempty_dimensions(x, dim, "argmax"), keepdim)[1]


@register("argmin Tensor.argmin")
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    r"""y = \arg\min_i x_i: the (first) index of the smallest element, of the flattened tensor if no dim is given."""
    with no_grad():
        return reduce_min(x, nonempty_dimensions(x, dim, "argmin"), keepdim)[1]


@register("logsumexp Tensor.logsumexp")
def logsumexp(x: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """y = log of the sum of e^x over `dim`."""
    return reduce_logsumexp(x if x.dtype.kind in "fO" else x.float(), dimensions(x, dim, "logsumexp"), keepdim)


@register("any Tensor.any")
def any(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Is any element true (not zero)? With dim=() nothing is reduced. uint8 gives uint8, 0 or 1."""
    truths = x.to(bool_)
    if not (isinstance(dim, Sequence) and not dim):
        truths = reduce_any(truths, dimensions(x, dim, "any"), keepdim)
    return truths.to(uint8) if x.dtype == uint8 else truths


@register("all Tensor.all")
def all(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Are all elements true (not zero)? With dim=() nothing is reduced. uint8 gives uint8, 0 or 1."""
    truths = x.to(bool_)
    if not (isinstance(dim, Sequence) and not dim):
        truths = reduce_all(truths, dimensions(x, dim, "all"), keepdim)
    return truths.to(uint8) if x.dtype == uint8 else truths


@register("norm Tensor.norm")
def norm(x: Tensor, p: float | str | None = 2, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    r"""y = (\sum_i |x_i|^p)^{1/p} over `dim`; p = 2 unless given.

    p = inf is the largest |x|, -inf the smallest, 0 the number of nonzero elements; "fro" is 2. An element that is
    0 has the gradient 0; for p < 0 all elements beside it have, too, since their norm is 0.
    """
    only_floats("norm", x)
    if p in (2, "fro", None):
        return reduce_norm(x, dimensions(x, dim, "norm"), keepdim, 1)
    if not isinstance(p, int | float):
        raise TypeError(f"norm: p must be a number or 'fro', got {p!r}")
    if p in (math.inf, -math.inf):
        return (amax if p > 0 else amin)(absolute(x), dim, keepdim)
    if p == 0:
        return sum((x != 0).to(x.dtype), dim, keepdim)
    if p == 1:
        return sum(absolute(x), dim, keepdim)
    if p < 0:
        nonempty_dimensions(x, dim, "norm")
    return power_of_length(sum(power_of_length(absolute(x), p), dim, keepdim), 1 / p)


def power_of_length(x: Tensor, p: float) -> Tensor:
    """x^p of x >= 0, with the gradient 0 at 0: a length has no direction there."""
    if state.reading is not None and (y := state.reading.whole("power_of_length", x, p)) is not None:
        return y
    nothing = x == 0
    return where(nothing, 0 if p >= 0 else math.inf, pow(where(nothing, 1, x), p))


@op
class cumsum_op:
    r"y_i = \sum_{j \le i} x_j (or \sum_{j \ge i} x_j)"

    def forward(x, dim, reverse):
        rows = grouped(x, (dim,) if x.ndim else ())
        y = empty(rows.shape, x.dtype)
        launch(kernels.cumsum, rows, int(reverse), y)
        return y.reshape(x.shape)

    def grad_x(g, dim, reverse):
        return cumsum_op(g, dim, not reverse)


@register("cumsum Tensor.cumsum")
def cumsum(x: Tensor, dim: int, *, dtype=None) -> Tensor:
    """y_i = x_0 + ... + x_i along `dim`."""
    if dtype == bool_:
        raise RuntimeError("cumsum: dtype=bool can't hold sums; leave it out, and compare the sums with 0")
    return cumsum_op(_at_least_int64(x, dtype), dimension(x, dim, "cumsum"), False)


@register("equal Tensor.equal")
def equal(a: Tensor, b: Tensor) -> bool:
    """Have both the same shape and the same elements?"""
    return a.shape == b.shape and builtins.bool(all(a == b))


@register("isclose Tensor.isclose")
def isclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """y = [|a - b| <= atol + rtol |b|], or a = b; nothing finite is close to an infinity."""
    if a.dtype == b.dtype == bool_:
        return a == b
    distance = absolute(a - b)
    close = logical_or(logical_and(isfinite(distance), distance <= atol + rtol * absolute(b)), a == b)
    return logical_or(close, logical_and(isnan(a), isnan(b))) if equal_nan else close


@register("allclose Tensor.allclose")
def allclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Is |a - b| <= atol + rtol |b| everywhere?"""
    return builtins.bool(all(isclose(a, b, rtol, atol, equal_nan)))

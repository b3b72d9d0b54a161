"""Arithmetic, functions, comparisons and choices, element by element.

Broadcasting is summed away once, in backward(), for all of them.
"""

import math

import numpy as np

from tinytensor import kernels
from tinytensor.door import OBJECT, empty, host, launch
from tinytensor.tensor import Tensor, bool_, op, result_type


# Broadcasting is summed away once, in backward(), for all of them.
@op
class add:
    r"y = a + b"

    kernel = kernels.elementwise.add

    def grad_a(g, y, a, b):
        return g

    def grad_b(g, y, a, b):
        return g


@op
class sub:
    r"y = a - b"

    kernel = kernels.elementwise.sub
    kinds = "ifO"  # of bools there is ^ (xor)

    def grad_a(g, y, a, b):
        return g

    def grad_b(g, y, a, b):
        return -g


@op
class mul:
    r"y = a \odot b"

    kernel = kernels.elementwise.mul

    def grad_a(g, y, a, b):
        return g * b

    def grad_b(g, y, a, b):
        return g * a


@op
class true_divide:
    r"y = a / b"

    kernel = kernels.elementwise.div
    dtype = "float"

    def grad_a(g, y, a, b):
        return g / b

    def grad_b(g, y, a, b):
        return -g * (a / b) / b  # not y / b: y may be changed in place


@op
class floor_divide_:
    r"y = \lfloor a / b \rfloor"

    kernel = kernels.elementwise.floor_divide


@op
class remainder_:
    r"y = a - b \lfloor a / b \rfloor"

    kernel = kernels.elementwise.remainder

    def grad_a(g, y, a, b):
        return g

    def grad_b(g, y, a, b):
        return -g * floor_divide_(a, b)


@op
class power:
    r"y = a^b"

    kernel = kernels.elementwise.power

    def grad_a(g, y, a, b):
        # at b = 0 the derivative is 0, where b a^(b-1) may be 0 * inf
        if isinstance(b, Tensor):
            return g * where(eq(b, 0), 0.0, b * power(a, b - 1))
        return g * 0 if b == 0 else g * (b * power(a, b - 1))

    def grad_b(g, y, a, b):
        a = _as_tensor(a, y.dtype)
        # lim a->0 of a^b log a is 0 for b >= 0
        return g * where(logical_and(eq(a, 0), ge(b, 0)), 0.0, y * log(a))


@op
class maximum:
    r"y = \max(a, b)"

    kernel = kernels.elementwise.maximum

    def grad_a(g, y, a, b):
        return where(eq(a, b), g / 2, where(lt(a, b), 0, g))  # equal inputs share the gradient; NaN gives it to both

    def grad_b(g, y, a, b):
        return where(eq(a, b), g / 2, where(gt(a, b), 0, g))


@op
class minimum:
    r"y = \min(a, b)"

    kernel = kernels.elementwise.minimum

    def grad_a(g, y, a, b):
        return where(eq(a, b), g / 2, where(gt(a, b), 0, g))

    def grad_b(g, y, a, b):
        return where(eq(a, b), g / 2, where(lt(a, b), 0, g))


@op
class clamp_min:
    r"y = \max(x, low); the gradient passes at the bound"

    kernel = kernels.elementwise.maximum

    def grad_a(g, y, a, b):
        return where(ge(a, b), g, 0)

    def grad_b(g, y, a, b):
        return where(lt(a, b), g, 0)


@op
class clamp_max:
    r"y = \min(x, high); the gradient passes at the bound"

    kernel = kernels.elementwise.minimum

    def grad_a(g, y, a, b):
        return where(le(a, b), g, 0)

    def grad_b(g, y, a, b):
        return where(gt(a, b), g, 0)


@op
class neg:
    r"y = -x"

    kernel = kernels.elementwise.neg
    kinds = "ifO"

    def grad_x(g, y, x):
        return -g


@op
class absolute:
    r"y = |x|; the gradient at 0 is 0"

    kernel = kernels.elementwise.absolute

    def grad_x(g, y, x):
        return g * sign(x)


@op
class sign:
    r"y = \mathrm{sign}(x)"

    kernel = kernels.elementwise.sign

    def grad_x(g, y, x):
        return g * 0


@op
class reciprocal:
    r"y = 1 / x"

    kernel = kernels.elementwise.reciprocal
    dtype = "float"

    def grad_x(g, y, x):
        return -g * y * y


@op
class floor:
    r"y = \lfloor x \rfloor"

    kernel = kernels.elementwise.floor

    def grad_x(g, y, x):
        return g * 0


@op
class ceil:
    r"y = \lceil x \rceil"

    kernel = kernels.elementwise.ceil

    def grad_x(g, y, x):
        return g * 0


@op
class round_:
    r"y = the integer next to x, halves to the even one"

    kernel = kernels.elementwise.rint

    def grad_x(g, y, x):
        return g * 0


@op
class exp:
    r"y = e^x"

    kernel = kernels.elementwise.exp
    dtype = "float"

    def grad_x(g, y, x):
        return g * y


@op
class log:
    r"y = \ln x"

    kernel = kernels.elementwise.log
    dtype = "float"

    def grad_x(g, y, x):
        return g / x


@op
class sqrt:
    r"y = \sqrt{x}"

    kernel = kernels.elementwise.sqrt
    dtype = "float"

    def grad_x(g, y, x):
        return g / (2 * y)


@op
class root:
    r"y = \sqrt{x}, with the gradient 0 at 0 (a length has no direction there)"

    kernel = kernels.elementwise.sqrt

    def grad_x(g, y, x):
        return where(y == 0, 0, g / (2 * y))


@op
class logsigmoid:
    r"y = \ln(1 / (1 + e^{-x}))"

    kernel = kernels.elementwise.log_sigmoid

    def grad_x(g, y, x):
        return g * sigmoid(-x)


@op
class rsqrt:
    r"y = 1 / \sqrt{x}"

    kernel = kernels.elementwise.rsqrt
    dtype = "float"

    def grad_x(g, y, x):
        return g * y * y * y / -2


@op
class sin:
    r"y = \sin x"

    kernel = kernels.elementwise.sin
    dtype = "float"

    def grad_x(g, y, x):
        return g * cos(x)


@op
class cos:
    r"y = \cos x"

    kernel = kernels.elementwise.cos
    dtype = "float"

    def grad_x(g, y, x):
        return -g * sin(x)


@op
class tanh:
    r"y = \tanh x"

    kernel = kernels.elementwise.tanh
    dtype = "float"

    def grad_x(g, y, x):
        return g * (1 - y * y)


@op
class erf:
    r"y = \frac{2}{\sqrt{\pi}} \int_0^x e^{-t^2} dt"

    kernel = kernels.elementwise.erf
    dtype = "float"

    def grad_x(g, y, x):
        return g * exp(-x * x) * (2 / math.sqrt(math.pi))


@op
class sigmoid:
    r"y = 1 / (1 + e^{-x})"

    kernel = kernels.elementwise.sigmoid
    dtype = "float"

    def grad_x(g, y, x):
        return g * y * (1 - y)


@op
class silu:
    r"y = x / (1 + e^{-x})"

    def forward(x):
        return _elementwise(kernels.elementwise.silu, x)

    def backward(needs, g, y, x):
        return (_elementwise(kernels.elementwise.silu_backward, g, x),)

    def definition(x):
        return x * sigmoid(x)


@op
class relu:
    r"y = \max(0, x); the gradient at 0 is 0"

    kernel = kernels.elementwise.relu

    def grad_x(g, y, x):
        return relu_backward(g, y)


@op
class relu_backward:
    r"y = g where z > 0, else 0"

    def forward(g, z):
        return _elementwise(kernels.elementwise.relu_backward, g, z)

    def grad_g(h, y, g, z):
        return relu_backward(h, z)


@op
class gelu_erf:
    r"y = \tfrac12 x (1 + \mathrm{erf}(x / \sqrt2))"

    def forward(x):
        return _elementwise(kernels.elementwise.gelu, x, 0.5, math.sqrt(0.5))

    def backward(needs, g, y, x):
        density = 1 / math.sqrt(2 * math.pi)
        return (_elementwise(kernels.elementwise.gelu_backward, g, x, 0.5, math.sqrt(0.5), density),)

    def definition(x):
        return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


@op
class gelu_tanh:
    r"y = \tfrac12 x (1 + \tanh(\sqrt{2/\pi} (x + 0.044715 x^3)))"

    def forward(x):
        return _elementwise(kernels.elementwise.gelu_tanh, x, 0.5, math.sqrt(2 / math.pi), 0.044715)

    def backward(needs, g, y, x):
        kernel, slope = kernels.elementwise.gelu_tanh_backward, math.sqrt(2 / math.pi)
        return (_elementwise(kernel, g, x, 0.5, slope, 0.044715, 3 * 0.044715),)

    def definition(x):
        return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@op
class where_:
    r"y = a where the condition holds, else b"

    def forward(condition, a, b):
        # the arrays were cast and broadcast by `where` below
        return _elementwise(kernels.elementwise.where, condition, a, b)

    def grad_a(g, y, condition, a, b):
        return where(condition, g, 0)

    def grad_b(g, y, condition, a, b):
        return where(condition, 0, g)


def _elementwise(kernel, *values):
    """y = kernel(arrays and numbers), on arrays; the last array has the result's dtype."""
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    dtype = arrays[-1].dtype
    if dtype is not OBJECT:
        values = [v if isinstance(v, np.ndarray) else dtype.type(v) for v in values]
    y = empty(np.broadcast_shapes(*(a.shape for a in arrays)), dtype)
    launch(kernel, *values, y)
    return y


def _comparison(name: str, equation: str):
    form = type(name, (), {"__doc__": equation, "kernel": getattr(kernels.elementwise, name), "dtype": "bool"})
    form.__module__ = __name__
    return op(form)


eq = _comparison("eq", "y = [a = b]")


ne = _comparison("ne", r"y = [a \ne b]")


lt = _comparison("lt", "y = [a < b]")


le = _comparison("le", r"y = [a \le b]")


gt = _comparison("gt", "y = [a > b]")


ge = _comparison("ge", r"y = [a \ge b]")


isnan = _comparison("isnan", "y = [x is NaN]")


isfinite = _comparison("isfinite", "y = [x is neither NaN nor infinite]")


logical_not = _comparison("logical_not", r"y = \neg x")


@op
class bitwise_and:
    r"y = a \wedge b"

    kernel = kernels.elementwise.bitwise_and
    kinds = "bi"


@op
class bitwise_or:
    r"y = a \vee b"

    kernel = kernels.elementwise.bitwise_or
    kinds = "bi"


@op
class bitwise_xor:
    r"y = a \oplus b"

    kernel = kernels.elementwise.bitwise_xor
    kinds = "bi"


def _truth(x):
    return x.to(bool_) if isinstance(x, Tensor) else bool(x)


def logical_and(a, b) -> Tensor:
    """y = a and b, of truth values (nonzero is true)."""
    return bitwise_and(_truth(a), _truth(b))


def logical_or(a, b) -> Tensor:
    """y = a or b, of truth values (nonzero is true)."""
    return bitwise_or(_truth(a), _truth(b))


def logical_xor(a, b) -> Tensor:
    """y = either a or b, of truth values (nonzero is true)."""
    return bitwise_xor(_truth(a), _truth(b))


def bitwise_not(x: Tensor) -> Tensor:
    """y = not x (bool), or the complement -x - 1 (integers)."""
    if x.dtype.kind not in "bi":
        raise RuntimeError(f"bitwise_not: expected bool or integer tensors, got {x.dtype}")
    return logical_not(x) if x.dtype is bool_ else -x - 1


def isinf(x: Tensor) -> Tensor:
    """y = [x is infinite]."""
    return absolute(x) == math.inf


def where(condition: Tensor, a=None, b=None) -> Tensor:
    """Choose between a and b, elementwise: y = a where the condition holds, else b; shapes broadcast.

    With the condition alone: the indices of its nonzero elements, one tensor a dimension.
    """
    if a is None:
        return condition.nonzero(as_tuple=True)
    dtype = result_type(a, b)
    if not isinstance(condition, Tensor) or condition.dtype is not bool_:
        came = condition.dtype if isinstance(condition, Tensor) else type(condition).__name__
        raise RuntimeError(f"where: the condition must be a bool tensor, got {came}; compare first (x > 0, x != 0)")
    a, b = _as_tensor(a, dtype), _as_tensor(b, dtype)
    _together("where", condition.shape, a.shape, b.shape)
    return where_(condition, a, b)


def _together(what: str, *shapes: tuple) -> tuple:
    """The shape that shapes broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise RuntimeError(
            f"{what}: shapes {' and '.join(map(str, shapes))} do not broadcast: "
            "from the right, sizes must be equal or 1"
        ) from None


def _as_tensor(value, dtype) -> Tensor:
    """A tensor of this dtype, whatever came."""
    if isinstance(value, Tensor):
        return value.to(dtype)
    array = np.empty((), dtype)
    array[()] = value
    return Tensor(array)


def masked_fill(x: Tensor, mask: Tensor, value) -> Tensor:
    """y = value where the mask holds, else x."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"masked_fill: expected one value, got a tensor of shape {value.shape}; use where()")
    if mask.dtype is not bool_:
        raise RuntimeError(f"masked_fill: the mask must be a bool tensor, got {mask.dtype}; compare first (x != 0)")
    _together("masked_fill", x.shape, mask.shape)
    return where(mask, _as_tensor(value, x.dtype), x)


def pow(a, b) -> Tensor:
    """y = a^b. Small whole exponents are products, 0.5 and -0.5 are roots."""
    if isinstance(b, int | float) and isinstance(a, Tensor):
        if b == 2:
            return a * a
        if b == 3:
            return a * a * a
        if b == 1:
            return a.clone()
        if a.dtype.kind in "fO" and b in _ROOTS:
            return _ROOTS[b](a)
        if b < 0 and isinstance(b, int) and a.dtype.kind in "bi":
            raise RuntimeError(f"pow: integers to the negative power {b} are no integers; use x.float() ** {b}")
    return power(a, b)


_ROOTS = {0.5: sqrt, -0.5: rsqrt, -1: reciprocal}


def square(x: Tensor) -> Tensor:
    """y = x^2."""
    return x * x


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    r"""y = x \Phi(x), exactly or by a tanh (approximate="tanh")."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return gelu_erf(x) if approximate == "none" else gelu_tanh(x)


def clamp(x: Tensor, min=None, max=None) -> Tensor:
    """y = x, but at least min and at most max (numbers or tensors)."""
    if min is None and max is None:
        raise RuntimeError("clamp: give min, max, or both")
    if min is not None:
        x = clamp_min(x, min)
    return x if max is None else clamp_max(x, max)


def numel(x: Tensor) -> int:
    """The number of elements."""
    return x.numel()


def is_floating_point(x: Tensor) -> bool:
    """Is the dtype float32 or float64?"""
    return x.is_floating_point()


def _no_integer_zero(what: str, a, b) -> None:
    if result_type(a, b).kind in "bi":
        host(_check_no_zero, b._data if isinstance(b, Tensor) else np.asarray(b), what)


def _check_no_zero(divisor: np.ndarray, what: str) -> None:
    if (divisor == 0).any():
        raise RuntimeError(f"{what}: an integer was divided by 0; floats give inf or NaN: use .float()")


def floor_divide(a, b) -> Tensor:
    """y = a / b, rounded down."""
    _no_integer_zero("floor_divide", a, b)
    return floor_divide_(a, b)


def remainder(a, b) -> Tensor:
    """y = a - b floor(a / b): it has the sign of b."""
    _no_integer_zero("remainder", a, b)
    return remainder_(a, b)


def _scaled(value, alpha):
    return value if alpha == 1 else value * alpha


def add_scaled(a, b, *, alpha=1) -> Tensor:
    """y = a + alpha b."""
    return add(a, _scaled(b, alpha))


def sub_scaled(a, b, *, alpha=1) -> Tensor:
    """y = a - alpha b."""
    return sub(a, _scaled(b, alpha))


def div(a, b, *, rounding_mode: str | None = None) -> Tensor:
    """y = a / b; integers give floats, unless rounding_mode is "floor" or "trunc"."""
    if rounding_mode is None:
        return true_divide(a, b)
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode == "trunc":
        y = true_divide(a, b)
        return where(y < 0, ceil(y), floor(y)).to(result_type(a, b))
    raise RuntimeError(f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")


def addcmul(x: Tensor, a: Tensor, b: Tensor, *, value=1) -> Tensor:
    """y = x + value a b."""
    return x + _scaled(a * b, value)


def addcdiv(x: Tensor, a: Tensor, b: Tensor, *, value=1) -> Tensor:
    """y = x + value a / b."""
    return x + _scaled(a / b, value)


def lerp(a: Tensor, b: Tensor, weight) -> Tensor:
    """y = a + weight (b - a)."""
    return a + weight * (b - a)


def _number(value, dtype):
    """A setting in the kernel's own type, so that it does not widen float32 arithmetic."""
    return value if dtype is OBJECT else dtype.type(value)

"""Every operation, declared once: equation, kernel, shape, gradient. At the end one table: what a Tensor can do."""

import builtins
import math
from collections.abc import Sequence

import numpy as np

from tinytensor import kernels, tensor as core
from tinytensor.creation import as_dtype, check_device, full, ones_like, rand, randn, tensor, zeros
from tinytensor.launch import OBJECT, contiguous, empty, host, launch, move, state
from tinytensor.tensor import OPS, Meta, Op, Tensor, bool_, int32, int64, no_grad, op, result_type

# ruff: noqa: A001  (PyTorch's names: sum, max, abs ... are the operations; Python's own come from `builtins`)

# --------------------------------------------------------------------------------------------- elementwise
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
        return -g * y / b


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
        return nonzero(condition, as_tuple=True)
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
            f"{what}: shapes {' and '.join(map(str, shapes))} do not broadcast: from the right, sizes must be equal or 1"
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


def broadcast_to(x: Tensor, size: Sequence[int]) -> Tensor:
    """y = x, repeated to a larger shape without a copy."""
    return expand(x, size)


def numel(x: Tensor) -> int:
    """The number of elements."""
    return x.numel()


def is_floating_point(x: Tensor) -> bool:
    """Is the dtype float32 or float64?"""
    return x.is_floating_point()


def equal(a: Tensor, b: Tensor) -> bool:
    """Have both the same shape and the same elements?"""
    return a.shape == b.shape and builtins.bool(all(a == b))


def isclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """y = [|a - b| <= atol + rtol |b|]."""
    close = logical_or(absolute(a - b) <= atol + rtol * absolute(b), a == b)
    return logical_or(close, logical_and(isnan(a), isnan(b))) if equal_nan else close


def allclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Is |a - b| <= atol + rtol |b| everywhere?"""
    return builtins.bool(all(isclose(a, b, rtol, atol, equal_nan)))


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


# ------------------------------------------------------------------------------------ data type and copies


@op
class cast:
    r"y = x, in another dtype"

    def forward(x, dtype):
        y = empty(x.shape, dtype)
        move(x, y)
        return y

    def grad_x(g, y, x, dtype):
        return cast(g, x.dtype)


@op
class clone:
    r"y = x, in memory of its own"

    def forward(x):
        y = empty(x.shape, x.dtype)
        move(x, y)
        return y

    def grad_x(g, y, x):
        return g


def contiguous_(x: Tensor) -> Tensor:
    """x itself if its elements lie in order, else a copy."""
    return x if x._meta or x._data.flags.c_contiguous else clone(x)


def to(x: Tensor, *args, dtype=None, device=None, copy: bool = False, non_blocking: bool = False) -> Tensor:
    """x in another dtype (`x.to(float64)`, `x.to(other)`, `x.to("cpu")`); itself if nothing changes."""
    for arg in args:
        if isinstance(arg, Tensor):
            dtype = arg.dtype
        elif isinstance(arg, str):
            device = arg
        elif arg is not None:
            dtype = arg
    check_device(device, "to")
    dtype = x.dtype if dtype is None else as_dtype(dtype)
    if dtype != x.dtype:
        return cast(x, dtype)
    return clone(x) if copy else x


# -------------------------------------------------------------------------------------- shape (these only look)


@op
class reshape_view:
    r"y = x, read in another shape"

    def view(x, shape):
        return np.reshape(x, shape, copy=None if state.meta else False)

    def grad_x(g, y, x, shape):
        return reshape(g, x.shape)


@op
class permute_:
    r"y_{i_{d_1} i_{d_2} ...} = x_{i_1 i_2 ...}"

    def view(x, dims):
        return x.transpose(dims)

    def grad_x(g, y, x, dims):
        return permute_(g, tuple(int(d) for d in np.argsort(dims)))


@op
class expand_:
    r"y = x, repeated along new dimensions or those of size 1, without a copy"

    def view(x, shape):
        strides = (0,) * (len(shape) - x.ndim) + tuple(
            0 if n == 1 and m != 1 else s
            for n, m, s in zip(x.shape, shape[len(shape) - x.ndim :], x.strides, strict=True)
        )
        return np.lib.stride_tricks.as_strided(x, shape, strides)

    def grad_x(g, y, x, shape):
        return g  # summed to x's shape in backward()


@op
class slice_:
    r"y = x[key] with slices, whole numbers, None and ... in the key"

    def view(x, key):
        return x[_with_dots(key)]

    def grad_x(g, y, x, key):
        return unslice(g, x.shape, key)


@op
class unslice:
    r"y = 0 everywhere, but y[key] = x"

    def forward(x, shape, key):
        y = empty(shape, x.dtype)
        move(np.zeros((), x.dtype), y)
        move(x, y[_with_dots(key)])
        return y

    def grad_x(g, y, x, shape, key):
        return slice_(g, key)


def _with_dots(key):
    """A key that always gives a view: without dots NumPy makes a scalar of one element, a copy."""
    return key if key is ... else (*key, ...)


@op
class flip_:
    r"y = x, back to front along the given dimensions"

    def forward(x, dims):
        return contiguous(np.flip(x, dims))

    def grad_x(g, y, x, dims):
        return flip_(g, dims)


def _dim(x: Tensor, dim: int, what: str, extra: int = 0) -> int:
    """A dimension's number counted from the front."""
    n = x.ndim + extra
    if not isinstance(dim, int | np.integer):
        raise TypeError(f"{what}: dim must be a whole number, got {dim!r}")
    if not -builtins.max(n, 1) <= dim < builtins.max(n, 1):
        raise IndexError(
            f"{what}: dim {dim} is out of range for shape {x.shape} (expected {-builtins.max(n, 1)} to "
            f"{builtins.max(n, 1) - 1})"
        )
    return int(dim) % builtins.max(n, 1)


def _dims(x: Tensor, dim, what: str) -> tuple[int, ...]:
    """Dimensions counted from the front; None and () are all of them."""
    if dim is None:
        return tuple(range(x.ndim))
    if isinstance(dim, int | np.integer):
        return (_dim(x, dim, what),) if x.ndim else _dim_of_scalar(x, dim, what)
    dims = tuple(_dim(x, d, what) for d in dim)
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"{what}: a dimension appears twice in dim={tuple(dim)}")
    return tuple(sorted(dims)) if dims else tuple(range(x.ndim))


def _dim_of_scalar(x, dim, what):
    _dim(x, dim, what)
    return ()


def _sizes(args: tuple) -> tuple:
    """view(2, 3) and view((2, 3)) are the same."""
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], Sequence) else tuple(args)


def reshape(x: Tensor, *shape) -> Tensor:
    """y = x in another shape, with one size -1 to be found; a view where memory allows, else a copy."""
    wanted = _sizes(shape)
    shape = _infer(x, wanted, "reshape")
    try:
        return reshape_view(x, shape)
    except ValueError:
        return reshape_view(clone(x), shape)


def view(x: Tensor, *shape) -> Tensor:
    """y = x in another shape, sharing memory."""
    wanted = _sizes(shape)
    if len(wanted) == 1 and isinstance(wanted[0], np.dtype):
        raise TypeError("view: reading memory as another dtype is not offered; use .to(dtype)")
    try:
        return reshape_view(x, _infer(x, wanted, "view"))
    except ValueError:
        raise RuntimeError(
            f"view: shape {x.shape} with strides {x.stride()} can't be read as {wanted} without a copy; use reshape()"
        ) from None


def view_as(x: Tensor, other: Tensor) -> Tensor:
    """y = x in the shape of another tensor, sharing memory."""
    return view(x, other.shape)


def _infer(x: Tensor, shape: tuple, what: str) -> tuple[int, ...]:
    shape = tuple(int(n) for n in shape)
    known = math.prod(n for n in shape if n != -1)
    if shape.count(-1) > 1 or builtins.any(n < -1 for n in shape):
        raise RuntimeError(f"{what}: {shape}: sizes must be 0 or more, and at most one may be -1")
    if -1 in shape and known and x.numel() % known == 0:
        shape = tuple(x.numel() // known if n == -1 else n for n in shape)
    if -1 in shape or math.prod(shape) != x.numel():
        raise RuntimeError(f"{what}: {x.numel()} elements of shape {x.shape} do not fill the shape {shape}")
    return shape


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """y = x with the dimensions from start to end (inclusive) made one."""
    if x.ndim == 0:
        return reshape(x, 1)
    start, end = _dim(x, start_dim, "flatten"), _dim(x, end_dim, "flatten")
    if start > end:
        raise RuntimeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim} for shape {x.shape}")
    return reshape(x, x.shape[:start] + (math.prod(x.shape[start : end + 1]),) + x.shape[end + 1 :])


def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """y = x with one dimension made several."""
    dim = _dim(x, dim, "unflatten")
    return (
        reshape(x, x.shape[:dim] + tuple(sizes) + x.shape[dim + 1 :]) if -1 not in sizes else _unflatten(x, dim, sizes)
    )


def _unflatten(x, dim, sizes):
    known = -math.prod(sizes)
    return unflatten(x, dim, [x.shape[dim] // known if n == -1 else n for n in sizes])


def permute(x: Tensor, *dims) -> Tensor:
    """y = x with its dimensions in another order (a view)."""
    dims = _sizes(dims)
    order = tuple(_dim(x, d, "permute") for d in dims)
    if sorted(order) != list(range(x.ndim)):
        raise RuntimeError(f"permute: {dims} must name each of the {x.ndim} dimensions of shape {x.shape} once")
    return permute_(x, order)


def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """y = x with two dimensions exchanged (a view)."""
    if x.ndim == 0:
        return x
    order = list(range(x.ndim))
    a, b = _dim(x, dim0, "transpose"), _dim(x, dim1, "transpose")
    order[a], order[b] = b, a
    return permute_(x, tuple(order))


def t(x: Tensor) -> Tensor:
    """y_{ji} = x_{ij}."""
    if x.ndim > 2:
        raise RuntimeError(f"t: expected at most 2 dimensions, got shape {x.shape}; use transpose() or .mT")
    return x if x.ndim < 2 else permute_(x, (1, 0))


def movedim(x: Tensor, source, destination) -> Tensor:
    """y = x with the dimensions at `source` moved to `destination`."""
    source = [_dim(x, d, "movedim") for d in ([source] if isinstance(source, int) else source)]
    destination = [_dim(x, d, "movedim") for d in ([destination] if isinstance(destination, int) else destination)]
    order = [d for d in range(x.ndim) if d not in source]
    for to_, from_ in sorted(zip(destination, source, strict=True)):
        order.insert(to_, from_)
    return permute_(x, tuple(order))


def expand(x: Tensor, *shape) -> Tensor:
    """y = x, repeated to a larger shape without a copy; -1 keeps a size."""
    sizes = _sizes(shape)
    old = (1,) * (len(sizes) - x.ndim) + x.shape
    new = tuple(n if m == -1 else int(m) for n, m in zip(old, sizes, strict=False))
    new_ones = sizes[: builtins.max(0, len(sizes) - x.ndim)]
    if len(sizes) < x.ndim or -1 in new_ones or builtins.any(n not in (m, 1) for n, m in zip(old, new, strict=True)):
        raise RuntimeError(
            f"expand: shape {x.shape} can't become {sizes}: only new dimensions and those of size 1 grow"
        )
    return expand_(x, new)


def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """y = x, repeated to the shape of another tensor without a copy."""
    return expand(x, other.shape)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors, expanded to the shape they have together."""
    shape = np.broadcast_shapes(*(x.shape for x in tensors))
    return tuple(expand(x, shape) for x in tensors)


def squeeze(x: Tensor, dim=None) -> Tensor:
    """y = x without its dimensions of size 1 (all, or those named)."""
    dims = _dims(x, dim, "squeeze") if x.ndim else ()
    return reshape_view(x, tuple(n for d, n in enumerate(x.shape) if n != 1 or d not in dims))


def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """y = x with a new dimension of size 1."""
    dim = _dim(x, dim, "unsqueeze", extra=1)
    return reshape_view(x, x.shape[:dim] + (1,) + x.shape[dim:])


def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """y = the part of x from start, `length` long, along one dimension (a view)."""
    dim = _dim(x, dim, "narrow")
    if not 0 <= start <= start + length <= x.shape[dim]:
        raise RuntimeError(f"narrow: {start} to {start + length} is outside dimension {dim} of shape {x.shape}")
    return slice_(x, (slice(None),) * dim + (slice(start, start + length),))


def split(x: Tensor, split_size_or_sections, dim: int = 0) -> tuple[Tensor, ...]:
    """x in pieces of one size (the last may be smaller) or of the sizes listed, as views."""
    dim = _dim(x, dim, "split")
    n, sizes = x.shape[dim], split_size_or_sections
    if isinstance(sizes, int):
        if sizes <= 0 and n:
            raise RuntimeError(f"split: the size of a piece must be positive, got {sizes}")
        sizes = [builtins.min(sizes, n - i) for i in range(0, n, sizes)] if n else [0]
    if builtins.sum(sizes) != n:
        raise RuntimeError(
            f"split: the sizes {list(sizes)} add up to {builtins.sum(sizes)}, but dimension {dim} has {n}"
        )
    starts = np.cumsum([0, *sizes])
    return tuple(narrow(x, dim, int(a), int(m)) for a, m in zip(starts, sizes, strict=False))


def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """x in (at most) `chunks` pieces of equal size, as views."""
    if chunks <= 0:
        raise RuntimeError(f"chunk: the number of pieces must be positive, got {chunks}")
    n = x.shape[_dim(x, dim, "chunk")]
    return split(x, -(-n // chunks), dim) if n else (x,) * chunks


def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """x's slices along one dimension, as views."""
    if x.ndim == 0:
        raise IndexError("unbind: a 0-d tensor has no dimension to take apart")
    dim = _dim(x, dim, "unbind")
    return tuple(slice_(x, (slice(None),) * dim + (i,)) for i in range(x.shape[dim]))


@op
class cat_:
    r"y = x_1 \oplus x_2 \oplus ... along one dimension"

    def forward(dim, sizes, *xs):
        shape = list(xs[0].shape)
        shape[dim] = builtins.sum(sizes)
        y, start = empty(tuple(shape), xs[0].dtype), 0
        for x, n in zip(xs, sizes, strict=True):
            move(x, y[(slice(None),) * dim + (slice(start, start + n),)])
            start += n
        return y

    def grads(g, y, dim, sizes, *xs):
        return (None, None, *split(g, sizes, dim))


def _listed(tensors, what: str) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not builtins.all(isinstance(x, Tensor) for x in tensors):
        raise TypeError(f"{what}: expected a list or tuple of tensors, got {type(tensors).__name__}")
    return list(tensors)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join tensors along a dimension they have."""
    tensors = _listed(tensors, "cat")
    if not tensors:
        raise RuntimeError("cat: expected at least one tensor")
    dtype = result_type(*tensors)
    parts = [x.to(dtype) for x in tensors if x.shape != (0,)] or tensors[:1]  # PyTorch's old way to say "nothing yet"
    if parts[0].ndim == 0:
        raise RuntimeError("cat: 0-d tensors can't be joined; use stack()")
    dim = _dim(parts[0], dim, "cat")
    for x in parts:
        if x.ndim != parts[0].ndim or builtins.any(
            a != b for d, (a, b) in enumerate(zip(x.shape, parts[0].shape, strict=True)) if d != dim
        ):
            shapes = ", ".join(str(x.shape) for x in parts)
            raise RuntimeError(f"cat: shapes {shapes} differ elsewhere than in dimension {dim}")
    return cat_(dim, [x.shape[dim] for x in parts], *parts)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join tensors of one shape along a new dimension."""
    tensors = _listed(tensors, "stack")
    if not tensors:
        raise RuntimeError("stack: expected at least one tensor")
    if len({x.shape for x in tensors}) > 1:
        raise RuntimeError(f"stack: expected equal shapes, got {', '.join(str(x.shape) for x in tensors)}")
    dim = _dim(tensors[0], dim, "stack", extra=1)
    return cat([unsqueeze(x, dim) for x in tensors], dim)


def _triangle(x: Tensor, diagonal: int, upper: bool, what: str) -> Tensor:
    if x.ndim < 2:
        raise RuntimeError(f"{what}: expected at least 2 dimensions, got shape {x.shape}")
    keep = np.tri(*x.shape[-2:], k=diagonal - 1 if upper else diagonal, dtype=bool)
    return masked_fill(x, Tensor(keep if upper else ~keep), 0)


def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """y_{ij} = x_{ij} where j <= i + diagonal, else 0."""
    return _triangle(x, diagonal, False, "tril")


def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """y_{ij} = x_{ij} where j >= i + diagonal, else 0."""
    return _triangle(x, diagonal, True, "triu")


def flip(x: Tensor, *dims) -> Tensor:
    """y = x, back to front along the given dimensions."""
    order = tuple(_dim(x, d, "flip") for d in _sizes(dims))
    if len(set(order)) < len(order):
        raise RuntimeError(f"flip: a dimension appears twice in {_sizes(dims)}")
    return flip_(x, order)


def roll(x: Tensor, shifts, dims=None) -> Tensor:
    """y_i = x_{(i - shift) mod n} along one dimension, or several (with a shift each)."""
    if dims is None:
        return reshape(roll(flatten(x), shifts, 0), x.shape)
    if not isinstance(dims, int):
        if isinstance(shifts, int) or len(shifts) != len(dims):
            raise RuntimeError(f"roll: expected a shift for each of the dimensions {dims}, got {shifts}")
        for shift, dim in zip(shifts, dims, strict=True):
            x = roll(x, shift, dim)
        return x
    dim = _dim(x, dims, "roll")
    n = x.shape[dim]
    return cat([narrow(x, dim, n - shifts % n, shifts % n), narrow(x, dim, 0, n - shifts % n)], dim) if n else x


def repeat(x: Tensor, *repeats) -> Tensor:
    """y = x, laid side by side as often as `repeats` says for each dimension (new ones in front)."""
    times = _sizes(repeats)
    if len(times) < x.ndim or builtins.any(n < 0 for n in times):
        raise RuntimeError(f"repeat: expected at least {x.ndim} numbers of 0 or more for shape {x.shape}, got {times}")
    shape = (1,) * (len(times) - x.ndim) + x.shape
    doubled = reshape(x, [k for n in shape for k in (1, n)])
    spread = expand(doubled, [k for m, n in zip(times, shape, strict=True) for k in (m, n)])
    return reshape(spread, [m * n for m, n in zip(times, shape, strict=True)])


def repeat_interleave(x: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """y = x with each element repeated in place along a dimension."""
    if dim is None:
        return repeat_interleave(flatten(x), repeats, 0)
    dim = _dim(x, dim, "repeat_interleave")
    spread = expand(unsqueeze(x, dim + 1), *x.shape[: dim + 1], repeats, *x.shape[dim + 1 :])
    return flatten(spread, dim, dim + 1)


def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """y_{... i} = x with i at dim1 and i + offset at dim2."""
    a, b = _dim(x, dim1, "diagonal"), _dim(x, dim2, "diagonal")
    if a == b:
        raise RuntimeError(f"diagonal: dim1 = {dim1} and dim2 = {dim2} are the same dimension of shape {x.shape}")
    x = movedim(x, (a, b), (0, 1))
    n = builtins.max(0, builtins.min(x.shape[0] - builtins.max(-offset, 0), x.shape[1] - builtins.max(offset, 0)))
    i = np.arange(n)
    return movedim(x[i + builtins.max(-offset, 0), i + builtins.max(offset, 0)], 0, -1)


# ------------------------------------------------------------------------------------------------ reductions


def _grouped(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """x as (outer, n, inner), C-contiguous, with the reduced dimensions as the middle one."""
    first = dims[0] if dims else x.ndim
    if dims != tuple(range(first, first + len(dims))):  # not neighbours: bring them to the end
        kept = tuple(d for d in range(x.ndim) if d not in dims)
        x, first = x.transpose(kept + dims), len(kept)
    last = first + len(dims)
    shape = math.prod(x.shape[:first]), math.prod(x.shape[first:last]), math.prod(x.shape[last:])
    return contiguous(x).reshape(shape)


def _reduced(shape: tuple, dims: tuple, keepdim: bool) -> tuple:
    return tuple(1 if d in dims else n for d, n in enumerate(shape) if keepdim or d not in dims)


def _reduce(kernel, x: np.ndarray, dims: tuple, keepdim: bool, *extra, dtype=None) -> np.ndarray:
    """y = kernel(x) over dims; `extra` makes further outputs or scratch of y's size, by their dtypes."""
    rows = _grouped(x, dims)
    y = empty((rows.shape[0], rows.shape[2]), dtype or x.dtype)
    more = [empty(y.shape, e) for e in extra]
    launch(kernel, rows, y, *more)
    shape = _reduced(x.shape, dims, keepdim)
    return tuple(a.reshape(shape) for a in (y, *more)) if extra else y.reshape(shape)


def _spread(g: Tensor, shape: tuple, dims: tuple, keepdim: bool) -> Tensor:
    """g, which has the reduced shape, seen in the shape before."""
    return expand(reshape(g, _reduced(shape, dims, True)), shape)


@op
class reduce_sum:
    r"y = \sum_i x_i"

    def forward(x, dims, keepdim):
        return _reduce(kernels.reduce.reduce_sum, x, dims, keepdim)

    def grad_x(g, y, x, dims, keepdim):
        return _spread(g, x.shape, dims, keepdim)


@op
class reduce_prod:
    r"y = \prod_i x_i"

    def forward(x, dims, keepdim):
        return _reduce(kernels.reduce.reduce_prod, x, dims, keepdim)

    def definition(x, dims, keepdim):  # as a tree of products, so that a zero among the factors needs no division
        rows = movedim(x, dims, tuple(range(len(dims))))
        rows = reshape(rows, (math.prod(rows.shape[: len(dims)]), *rows.shape[len(dims) :]))
        if not rows.shape[0]:
            return reduce_sum(x, dims, keepdim) + 1
        while (n := rows.shape[0]) > 1:
            pairs = rows[: n // 2] * rows[n // 2 : n - n % 2]
            rows = cat([pairs, rows[n - 1 :]]) if n % 2 else pairs
        return reshape(rows[0], _reduced(x.shape, dims, keepdim))


@op
class reduce_amax:
    r"y = \max_i x_i; equal maxima share the gradient"

    def forward(x, dims, keepdim, nan_is_equal):
        return _reduce(kernels.reduce.reduce_max, x, dims, keepdim, int64)[0]

    def grad_x(g, y, x, dims, keepdim, nan_is_equal):
        return _shared_among_equals(g, y, x, dims, keepdim, nan_is_equal)


@op
class reduce_amin:
    r"y = \min_i x_i; equal minima share the gradient"

    def forward(x, dims, keepdim, nan_is_equal):
        return _reduce(kernels.reduce.reduce_min, x, dims, keepdim, int64)[0]

    def grad_x(g, y, x, dims, keepdim, nan_is_equal):
        return _shared_among_equals(g, y, x, dims, keepdim, nan_is_equal)


def _shared_among_equals(g, y, x, dims, keepdim, nan_is_equal):
    equal = x == _spread(y, x.shape, dims, keepdim)
    if nan_is_equal:
        equal = logical_or(equal, isnan(x))
    equal = equal.to(g.dtype)
    share = reshape(g, _reduced(x.shape, dims, True)) / reduce_sum(equal, dims, True)
    return share * equal


@op
class reduce_max:
    r"y = \max_i x_i and the first i where it stands"

    outputs = 2

    def forward(x, dims, keepdim):
        return _reduce(kernels.reduce.reduce_max, x, dims, keepdim, int64)

    def grad_x(g, y, x, dims, keepdim, index):
        return _at_index(g, x.shape, dims, keepdim, index)


@op
class reduce_min:
    r"y = \min_i x_i and the first i where it stands"

    outputs = 2

    def forward(x, dims, keepdim):
        return _reduce(kernels.reduce.reduce_min, x, dims, keepdim, int64)

    def grad_x(g, y, x, dims, keepdim, index):
        return _at_index(g, x.shape, dims, keepdim, index)


def _at_index(g, shape, dims, keepdim, index):
    if not dims:
        return g
    kept = _reduced(shape, dims, True)
    return gather_backward(reshape(g, kept), reshape(index, kept), shape, dims[0])


@op
class reduce_logsumexp:
    r"y = \ln \sum_i e^{x_i}"

    def forward(x, dims, keepdim):
        return _reduce(kernels.reduce.reduce_logsumexp, x, dims, keepdim, x.dtype)[0]

    def grad_x(g, y, x, dims, keepdim):
        return _spread(g, x.shape, dims, keepdim) * exp(x - _spread(y, x.shape, dims, keepdim))


@op
class reduce_any:
    r"y = \bigvee_i x_i"

    def forward(x, dims, keepdim):
        return _reduce(kernels.reduce.reduce_any, x, dims, keepdim)


@op
class reduce_all:
    r"y = \bigwedge_i x_i"

    def forward(x, dims, keepdim):
        return _reduce(kernels.reduce.reduce_all, x, dims, keepdim)


def _at_least_int64(x: Tensor, dtype) -> Tensor:
    return x.to(dtype if dtype is not None else int64 if x.dtype.kind in "bi" else x.dtype)


def sum(x: Tensor, dim=None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = sum of x over `dim` (one, several, or all); integers and bools give int64."""
    return reduce_sum(_at_least_int64(x, dtype), _dims(x, dim, "sum"), keepdim)


def prod(x: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = product of x over `dim` (one or all); integers and bools give int64."""
    return reduce_prod(_at_least_int64(x, dtype), _dims(x, dim, "prod"), keepdim)


def _only_floats(x: Tensor, what: str) -> None:
    if x.dtype.kind not in "fO":
        raise RuntimeError(f"{what}: expected a floating-point tensor, got {x.dtype}; use x.float() first")


def mean(x: Tensor, dim=None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """y = (1/n) sum of x over `dim`."""
    x = x if dtype is None else x.to(dtype)
    _only_floats(x, "mean")
    dims = _dims(x, dim, "mean")
    return reduce_sum(x, dims, keepdim) / math.prod(x.shape[d] for d in dims)


def var(x: Tensor, dim=None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None) -> Tensor:
    r"""y = \frac{1}{n - c} \sum_i (x_i - \bar x)^2 over `dim`, with the correction c = 1 unless told."""
    _only_floats(x, "var")
    if isinstance(dim, bool):  # PyTorch: var(unbiased)
        dim, unbiased = None, dim
    correction = int(unbiased) if correction is None else correction
    dims = _dims(x, dim, "var")
    centred = x - mean(x, dims, keepdim=True) if dims else x * 0
    n = math.prod(x.shape[d] for d in dims)
    total = reduce_sum(centred * centred, dims, keepdim)
    return total / (n - correction) if n > correction else total / 0.0


def std(x: Tensor, dim=None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None) -> Tensor:
    """y = the square root of var; where that is 0 the gradient is 0 too."""
    return root(var(x, dim, unbiased, keepdim, correction=correction))


def amax(x: Tensor, dim=None, keepdim: bool = False) -> Tensor:
    """y = the largest of x over `dim`; equal ones share the gradient."""
    return reduce_amax(x, _nonempty(x, dim, "amax"), keepdim, False)


def amin(x: Tensor, dim=None, keepdim: bool = False) -> Tensor:
    """y = the smallest of x over `dim`; equal ones share the gradient."""
    return reduce_amin(x, _nonempty(x, dim, "amin"), keepdim, False)


def _nonempty(x: Tensor, dim, what: str) -> tuple[int, ...]:
    dims = _dims(x, dim, what)
    if math.prod(x.shape[d] for d in dims) == 0:
        raise (IndexError if dim is not None else RuntimeError)(
            f"{what}: nothing to choose from: shape {x.shape} is empty along dim {dim}; give a dim that is not"
        )
    return dims


def _extreme(x: Tensor, dim, keepdim, all_of, one_of, pairwise, what):
    if dim is None:
        return all_of(x, _nonempty(x, None, what), False, True)  # NaN among the elements takes the gradient
    if isinstance(dim, Tensor):
        return pairwise(x, dim)
    return one_of(x, _nonempty(x, dim, what), keepdim)


def max(x: Tensor, dim=None, keepdim: bool = False):
    """The largest element; over one `dim`: (values, indices), the first index where several are equal.

    max(a, b) of two tensors is maximum(a, b).
    """
    return _pair("max", _extreme(x, dim, keepdim, reduce_amax, reduce_max, maximum, "max"))


def min(x: Tensor, dim=None, keepdim: bool = False):
    """The smallest element; over one `dim`: (values, indices), the first index where several are equal."""
    return _pair("min", _extreme(x, dim, keepdim, reduce_amin, reduce_min, minimum, "min"))


class ValuesIndices(tuple):
    """What max, min, sort and topk return: `.values` and `.indices`."""

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


def _pair(what, result):
    return ValuesIndices(result) if isinstance(result, tuple) else result


def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The (first) index of the largest element, of the flattened tensor if no dim is given."""
    with no_grad():
        return reduce_max(x, _nonempty(x, dim, "argmax"), keepdim)[1]


def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The (first) index of the smallest element, of the flattened tensor if no dim is given."""
    with no_grad():
        return reduce_min(x, _nonempty(x, dim, "argmin"), keepdim)[1]


def logsumexp(x: Tensor, dim, keepdim: bool = False) -> Tensor:
    """y = log of the sum of e^x over `dim`."""
    return reduce_logsumexp(x if x.dtype.kind in "fO" else x.float(), _dims(x, dim, "logsumexp"), keepdim)


def any(x: Tensor, dim=None, keepdim: bool = False) -> Tensor:
    """Is any element true (not zero)?"""
    return reduce_any(x.to(bool_), _dims(x, dim, "any"), keepdim)


def all(x: Tensor, dim=None, keepdim: bool = False) -> Tensor:
    """Are all elements true (not zero)?"""
    return reduce_all(x.to(bool_), _dims(x, dim, "all"), keepdim)


def norm(x: Tensor, p: float = 2, dim=None, keepdim: bool = False) -> Tensor:
    r"""y = (\sum_i |x_i|^p)^{1/p} over `dim`; p = 2 unless told, inf for the largest |x|."""
    if p == 2:
        return root(sum(x * x, dim, keepdim))
    if p == math.inf:
        return amax(absolute(x), dim, keepdim)
    return pow(sum(pow(absolute(x), p), dim, keepdim), 1 / p)


@op
class cumsum_:
    r"y_i = \sum_{j \le i} x_j (or \sum_{j \ge i} x_j)"

    def forward(x, dim, reverse):
        rows = _grouped(x, (dim,) if x.ndim else ())
        y = empty(rows.shape, x.dtype)
        launch(kernels.scan.cumsum, rows, int(reverse), y)
        return y.reshape(x.shape)

    def grad_x(g, y, x, dim, reverse):
        return cumsum_(g, dim, not reverse)


def cumsum(x: Tensor, dim: int, *, dtype=None) -> Tensor:
    """y_i = x_0 + ... + x_i along `dim`."""
    return cumsum_(_at_least_int64(x, dtype), _dim(x, dim, "cumsum"), False)


# ----------------------------------------------------------------------------------------- products of matrices


def _matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """y[n] = a[n] b[n] on arrays (n, M, K) and (n, K, N) of any strides."""
    y = empty((a.shape[0], a.shape[1], b.shape[2]), a.dtype)
    scratch = empty(kernels.matmul.matmul_scratch(a.shape, b.shape), a.dtype)
    launch(kernels.matmul.matmul, a, b, y, scratch)
    return y


def _batched(x: np.ndarray, batch: tuple) -> np.ndarray:
    """x (..., M, K) as (n, M, K) with its batch dimensions broadcast to `batch`."""
    x = expand_.view(x, batch + x.shape[-2:])
    try:
        return np.reshape(x, (math.prod(batch), *x.shape[-2:]), copy=None if state.meta else False)
    except ValueError:
        return contiguous(x).reshape(math.prod(batch), *x.shape[-2:])


@op
class matmul_:
    r"y_{ij} = \sum_k a_{ik} b_{kj}, for each matrix of the batch"

    def forward(a, b):
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        y = _matmul(_batched(a, batch), _batched(b, batch))
        return y.reshape(*batch, a.shape[-2], b.shape[-1])

    def grad_a(g, y, a, b):
        return matmul_(g, transpose(b, -1, -2))

    def grad_b(g, y, a, b):
        return matmul_(transpose(a, -1, -2), g)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    r"""y_{ij} = \sum_k a_{ik} b_{kj}; vectors are rows or columns as needed, further dimensions are a batch and broadcast."""
    if not isinstance(b, Tensor) or not isinstance(a, Tensor):
        raise TypeError(f"matmul: expected two tensors, got {type(a).__name__} @ {type(b).__name__}; use * for numbers")
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(f"matmul: {a.shape} @ {b.shape}: expected at least 1 dimension each; use * for numbers")
    if a.dtype != b.dtype:
        raise RuntimeError(f"matmul: {a.dtype} @ {b.dtype}: the dtypes must be equal; convert one with .to(dtype)")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise RuntimeError(f"matmul: {a.shape} @ {b.shape}: the inner sizes {a.shape[-1]} and {inner} must be equal")
    left = unsqueeze(a, 0) if a.ndim == 1 else a
    right = unsqueeze(b, 1) if b.ndim == 1 else b
    if left.ndim > 2 and right.ndim == 2:  # one tall matrix instead of a batch: one product, and one for b's gradient
        y = reshape(matmul_(flatten(left, 0, -2), right), (*left.shape[:-1], right.shape[-1]))
    else:
        try:
            np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        except ValueError:
            raise RuntimeError(f"matmul: {a.shape} @ {b.shape}: the batch sizes do not broadcast") from None
        y = matmul_(left, right)
    if a.ndim == 1:
        y = squeeze(y, -2)
    return squeeze(y, -1) if b.ndim == 1 else y


def _square_product(a, b, ndim, what):
    if a.ndim != ndim or b.ndim != ndim:
        raise RuntimeError(f"{what}: expected {ndim}-d tensors, got {a.shape} and {b.shape}; use matmul()")
    return matmul(a, b)


def mm(a: Tensor, b: Tensor) -> Tensor:
    """y = a b of two matrices."""
    return _square_product(a, b, 2, "mm")


def bmm(a: Tensor, b: Tensor) -> Tensor:
    """y = a b of two batches of matrices."""
    return _square_product(a, b, 3, "bmm")


def mv(a: Tensor, b: Tensor) -> Tensor:
    """y = a b of a matrix and a vector."""
    return matmul(a, b)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """y = sum_i a_i b_i of two vectors."""
    return _square_product(a, b, 1, "dot")


def outer(a: Tensor, b: Tensor) -> Tensor:
    """y_{ij} = a_i b_j."""
    return unsqueeze(a, 1) * unsqueeze(b, 0)


def einsum(equation: str, *operands) -> Tensor:
    """y = the sum over the letters that do not appear after the arrow, as in "bik,bkj->bij"; "..." is a batch.

    Pairs of operands are multiplied from left to right, each as one matrix product.
    """
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], Sequence) else list(operands)
    terms, output = _einsum_letters(equation, operands)
    operands = [_einsum_diagonal(x, term) for x, term in zip(operands, terms, strict=True)]
    terms = ["".join(dict.fromkeys(term)) for term in terms]
    result, have = operands[0], terms[0]
    for i, (x, letters) in enumerate(zip(operands[1:], terms[1:], strict=True), 2):
        later = set(output).union(*terms[i:])
        result, have = _einsum_pair(result, have, x, letters, later)
    result, have = _einsum_sum(result, have, set(output))
    return permute(result, [have.index(c) for c in output]) if output else result


def _einsum_letters(equation, operands):
    left, arrow, right = equation.replace(" ", "").partition("->")
    strange = {c for c in (left + right).replace("...", "") if not c.isalpha() and c != ","}
    if strange:
        raise RuntimeError(f"einsum: {equation!r} may have letters, commas, '...' and '->', but not {sorted(strange)}")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(f"einsum: {equation!r} names {len(terms)} operands, but {len(operands)} came")
    spare = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[::-1]
    spare = [c for c in spare if c not in equation]
    dots = builtins.max(
        x.ndim - len(term.replace("...", "")) if "..." in term else 0 for x, term in zip(operands, terms, strict=True)
    )
    batch = "".join(spare[: builtins.max(dots, 0)])
    full_terms, sizes = [], {}
    for x, term in zip(operands, terms, strict=True):
        if "..." in term:
            n = x.ndim - len(term) + 3
            term = term.replace("...", batch[len(batch) - n :] if n > 0 else "")
        if len(term) != x.ndim:
            raise RuntimeError(
                f"einsum: {term!r} in {equation!r} names {len(term)} dimensions, but its operand has shape {x.shape}"
            )
        for letter, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(letter, n) != n and 1 not in (n, sizes[letter]):
                raise RuntimeError(f"einsum: letter {letter!r} in {equation!r} has the sizes {sizes[letter]} and {n}")
        full_terms.append(term)
    if arrow:
        output = right.replace("...", batch)
    else:
        joined = "".join(full_terms)
        output = batch + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in batch))
    unknown = set(output) - set("".join(full_terms))
    if unknown or len(set(output)) < len(output):
        raise RuntimeError(
            f"einsum: the output {output!r} of {equation!r} must use each letter once, and only known ones"
        )
    return full_terms, output


def _einsum_diagonal(x, term):
    """x with letters that it repeats reduced to the diagonal."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            a = term.index(letter)
            b = term.index(letter, a + 1)
            n = x.shape[a]
            mask = reshape(tensor(np.eye(n, dtype=bool)), [n if d in (a, b) else 1 for d in range(x.ndim)])
            x = sum(where(mask, x, 0), b)
            term = term[:b] + term[b + 1 :]
    return x


def _einsum_sum(x, letters, keep):
    gone = [d for d, c in enumerate(letters) if c not in keep]
    return (sum(x, gone) if gone else x), "".join(c for c in letters if c in keep)


def _einsum_pair(a, la, b, lb, later):
    """One matrix product: batch letters, then rows of a, then columns of b; the rest is summed."""
    a, la = _einsum_sum(a, la, later | set(lb))
    b, lb = _einsum_sum(b, lb, later | set(la))
    shared = [c for c in la if c in lb]
    batch = [c for c in shared if c in later]
    inner = [c for c in shared if c not in later]
    rows, columns = [c for c in la if c not in lb], [c for c in lb if c not in la]
    size = {c: builtins.max(n, m) for c, n, m in ((c, a.shape[la.index(c)], b.shape[lb.index(c)]) for c in shared)}
    size |= {c: a.shape[la.index(c)] for c in rows} | {c: b.shape[lb.index(c)] for c in columns}

    def arranged(x, letters, order, *groups):
        x = permute(x, [letters.index(c) for c in order])
        x = expand(x, [size[c] for c in order])
        return reshape(x, [size[c] for c in batch] + [math.prod(size[c] for c in group) for group in groups])

    left = arranged(a, la, batch + rows + inner, rows, inner)
    right = arranged(b, lb, batch + inner + columns, inner, columns)
    y = matmul_(left, right)
    letters = batch + rows + columns
    return reshape(y, [size[c] for c in letters]), "".join(letters)


# ------------------------------------------------------------------------------------------- fused operations


def _rows(x: np.ndarray) -> np.ndarray:
    """x (..., n) as contiguous rows (R, n)."""
    return contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _absent(x: np.ndarray, *shape) -> np.ndarray:
    """How a kernel is told that an input is not there."""
    return np.empty(shape or (0,), x.dtype)


@op
class softmax_:
    r"y_i = e^{x_i} / \sum_j e^{x_j} along the last dimension"

    def forward(x):
        rows = _rows(x)
        y = empty(rows.shape, x.dtype)
        launch(kernels.softmax.softmax, rows, y)
        return y.reshape(x.shape)

    def backward(needs, g, y, x):
        dx = empty((math.prod(g.shape[:-1]), g.shape[-1]), g.dtype)
        launch(kernels.softmax.softmax_backward, _rows(g), _rows(y), dx)
        return (dx.reshape(g.shape),)

    def definition(x):
        e = exp(x - amax(x.detach(), -1, keepdim=True))
        return e / sum(e, -1, keepdim=True)


@op
class log_softmax_:
    r"y_i = x_i - \ln \sum_j e^{x_j} along the last dimension"

    def forward(x):
        rows = _rows(x)
        y = empty(rows.shape, x.dtype)
        launch(kernels.softmax.log_softmax, rows, y)
        return y.reshape(x.shape)

    def backward(needs, g, y, x):
        dx = empty((math.prod(g.shape[:-1]), g.shape[-1]), g.dtype)
        launch(kernels.softmax.log_softmax_backward, _rows(g), _rows(y), dx)
        return (dx.reshape(g.shape),)

    def definition(x):
        shifted = x - amax(x.detach(), -1, keepdim=True)
        return shifted - log(sum(exp(shifted), -1, keepdim=True))


def _along(operation, x: Tensor, dim: int | None, dtype, what: str) -> Tensor:
    if dim is None:
        raise TypeError(f"{what}: say along which dimension: {what}(x, dim=-1)")
    x = x if dtype is None else x.to(dtype)
    _only_floats(x, what)
    if x.ndim == 0:
        return reshape(operation(reshape(x, 1)), ())
    dim = _dim(x, dim, what)
    if x.numel() == 0:
        return x.clone()
    return operation(x) if dim == x.ndim - 1 else transpose(operation(transpose(x, dim, -1)), dim, -1)


def softmax(x: Tensor, dim: int | None = None, *, dtype=None) -> Tensor:
    r"""y_i = e^{x_i} / \sum_j e^{x_j} along `dim`."""
    return _along(softmax_, x, dim, dtype, "softmax")


def log_softmax(x: Tensor, dim: int | None = None, *, dtype=None) -> Tensor:
    r"""y_i = x_i - \ln \sum_j e^{x_j} along `dim`."""
    return _along(log_softmax_, x, dim, dtype, "log_softmax")


@op
class linear_:
    r"y_{ij} = \sum_k x_{ik} w_{jk} + b_j, then \max(0, y) if relu"

    def forward(x, weight, bias, relu):
        rows = _flat_rows(x)
        y = empty((rows.shape[0], weight.shape[0]), x.dtype)
        scratch = empty(kernels.matmul.linear_scratch(rows.shape, weight.shape), x.dtype)
        bias = _absent(x) if bias is None else contiguous(bias)
        launch(kernels.matmul.linear, rows, weight, bias, int(relu), y, scratch)
        return y.reshape(*x.shape[:-1], weight.shape[0])

    def backward(needs, g, y, x, weight, bias, relu):
        if relu:
            g = _elementwise(kernels.elementwise.relu_backward, g, y)
        g, x_rows = _flat_rows(g), _flat_rows(x)
        dx = _matmul(g[None], weight[None])[0].reshape(x.shape) if needs[0] else None
        dweight = _matmul(g.T[None], x_rows[None])[0] if needs[1] else None
        dbias = _reduce(kernels.reduce.reduce_sum, g, (0,), False) if needs[2] else None
        return dx, dweight, dbias, None

    def definition(x, weight, bias, relu):
        y = matmul(x, t(weight))
        y = y if bias is None else y + bias
        return maximum(y, 0) if relu else y


def _flat_rows(x: np.ndarray) -> np.ndarray:
    """x (..., n) as rows (R, n) of any strides, copied only where it must be."""
    shape = math.prod(x.shape[:-1]), x.shape[-1]
    try:
        return np.reshape(x, shape, copy=None if state.meta else False)
    except ValueError:
        return contiguous(x).reshape(shape)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """y = x w^T + b, then max(0, y) if relu; x (..., K), w (N, K), b (N)."""
    if weight.ndim == 1 and bias is None and not relu:
        return matmul(x, weight)
    if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
        raise RuntimeError(
            f"linear: x {x.shape} with weight {weight.shape}: the last size of x must be the last size of the weight "
            "(out, in)"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise RuntimeError(f"linear: bias {bias.shape} with weight {weight.shape}: expected shape {weight.shape[:1]}")
    if len({v.dtype for v in (x, weight, bias) if v is not None}) > 1:
        raise RuntimeError(
            f"linear: x is {x.dtype}, weight is {weight.dtype}: the dtypes must be equal; use .to(dtype)"
        )
    return linear_(x, weight, bias, bool(relu))


@op
class layer_norm_:
    r"y_i = \gamma_i (x_i - \mu) / \sqrt{\sigma^2 + \epsilon} + \delta_i along the last dimension"

    def forward(x, weight, bias, eps):
        rows = _rows(x)
        y, mean, rstd = empty(rows.shape, x.dtype), empty(rows.shape[:1], x.dtype), empty(rows.shape[:1], x.dtype)
        weight, bias = (_absent(x) if p is None else contiguous(p) for p in (weight, bias))
        launch(kernels.norm.layer_norm, rows, weight, bias, _number(eps, x.dtype), y, mean, rstd)
        return y.reshape(x.shape), mean, rstd

    def backward(needs, g, y, x, weight, bias, eps, mean, rstd):
        rows = _rows(x)
        dx = empty(rows.shape, x.dtype)
        dweight = empty(weight.shape, x.dtype) if weight is not None else _absent(x)
        dbias = empty(bias.shape, x.dtype) if bias is not None else _absent(x)
        gamma = _absent(x) if weight is None else contiguous(weight)
        scratch = empty(kernels.norm.layer_norm_backward_scratch(*rows.shape), x.dtype)
        launch(kernels.norm.layer_norm_backward, _rows(g), rows, gamma, mean, rstd, dx, dweight, dbias, scratch)
        return dx.reshape(x.shape), dweight if needs[1] else None, dbias if needs[2] else None, None

    def definition(x, weight, bias, eps):
        centred = x - mean(x, -1, keepdim=True)
        y = centred / sqrt(mean(centred * centred, -1, keepdim=True) + eps)
        y = y if weight is None else y * weight
        return y if bias is None else y + bias


@op
class rms_norm_:
    r"y_i = \gamma_i x_i / \sqrt{\frac1D \sum_j x_j^2 + \epsilon} along the last dimension"

    def forward(x, weight, eps):
        rows = _rows(x)
        y, rstd = empty(rows.shape, x.dtype), empty(rows.shape[:1], x.dtype)
        weight = _absent(x) if weight is None else contiguous(weight)
        launch(kernels.norm.rms_norm, rows, weight, _number(eps, x.dtype), y, rstd)
        return y.reshape(x.shape), rstd

    def backward(needs, g, y, x, weight, eps, rstd):
        rows = _rows(x)
        dx = empty(rows.shape, x.dtype)
        dweight = empty(weight.shape, x.dtype) if weight is not None else _absent(x)
        gamma = _absent(x) if weight is None else contiguous(weight)
        scratch = empty(kernels.norm.rms_norm_backward_scratch(*rows.shape), x.dtype)
        launch(kernels.norm.rms_norm_backward, _rows(g), rows, gamma, rstd, dx, dweight, scratch)
        return dx.reshape(x.shape), dweight if needs[1] else None, None

    def definition(x, weight, eps):
        y = x / sqrt(mean(x * x, -1, keepdim=True) + eps)
        return y if weight is None else y * weight


def _number(value, dtype):
    """A setting in the kernel's own type, so that it does not widen float32 arithmetic."""
    return value if dtype is OBJECT else dtype.type(value)


@op
class attention:
    r"y_i = \sum_m \mathrm{softmax}_m(s\, q_i \cdot k_m) v_m over the m that the mask allows; a row without any gives 0"

    def forward(q, k, v, mask, scale, is_causal):
        B, H, C, K = q.shape
        M, Kv = v.shape[-2:]
        y = empty((B, C, H, Kv), q.dtype).transpose(0, 2, 1, 3)  # heads side by side: joining them is no copy
        lse = empty((B, H, C), q.dtype)
        scratch = empty(kernels.attention.attention_scratch(B, H, C, M, K, Kv), q.dtype)
        settings = _number(scale, q.dtype), int(is_causal)
        launch(kernels.attention.attention, q, k, v, _mask(mask, (B, H, C, M)), *settings, y, lse, scratch)
        return y, lse

    def backward(needs, g, y, q, k, v, mask, scale, is_causal, lse):
        B, H, C, K = q.shape
        M, Kv = v.shape[-2:]
        dq, dk, dv = (empty((B, n, H, w), q.dtype).transpose(0, 2, 1, 3) for n, w in ((C, K), (M, K), (M, Kv)))
        scratch = empty(kernels.attention.attention_backward_scratch(B, H, C, M, K, Kv), q.dtype)
        settings = lse, _number(scale, q.dtype), int(is_causal)
        mask = _mask(mask, (B, H, C, M))
        launch(kernels.attention.attention_backward, g, q, k, v, mask, y, *settings, dq, dk, dv, scratch)
        return dq, dk, dv, None, None, None

    def definition(q, k, v, mask, scale, is_causal):
        scores = matmul(q, transpose(k, -1, -2)) * scale
        allowed = tensor(np.ones(scores.shape[-2:], bool)) if mask is None else mask
        if is_causal:
            allowed = logical_and(allowed, tensor(np.tri(*scores.shape[-2:], dtype=bool)))
        allowed = expand(allowed, scores.shape)
        lowest = amin(scores.detach(), -1, keepdim=True)
        peak = amax(where(allowed, scores.detach(), lowest), -1, keepdim=True)
        e = where(allowed, exp(where(allowed, scores - peak, 0)), 0)
        total = sum(e, -1, keepdim=True)
        return matmul(e / where(total == 0, 1, total), v)


def _mask(mask: np.ndarray | None, shape: tuple) -> np.ndarray:
    return np.empty((0, 0, 0, 0), bool) if mask is None else expand_.view(mask, shape)


@op
class cross_entropy_rows:
    r"y_i = \ln \sum_j e^{x_{ij}} - (1 - s) x_{i t_i} - \frac{s}{V} \sum_j x_{ij}; 0 where t_i is the ignored index"

    def forward(x, target, ignore_index, label_smoothing):
        rows = contiguous(x)
        y, lse = empty(rows.shape[:1], x.dtype), empty(rows.shape[:1], x.dtype)
        host(_check_targets, target, rows.shape[1], ignore_index)
        settings = ignore_index, _number(label_smoothing, x.dtype)
        launch(kernels.loss.cross_entropy, rows, contiguous(target), *settings, y, lse)
        return y, lse

    def backward(needs, g, y, x, target, ignore_index, label_smoothing, lse):
        dx = empty(x.shape, x.dtype)
        settings = lse, ignore_index, _number(label_smoothing, x.dtype)
        launch(kernels.loss.cross_entropy_backward, contiguous(g), contiguous(x), contiguous(target), *settings, dx)
        return dx, None, None, None

    def definition(x, target, ignore_index, label_smoothing):
        counted = target != ignore_index
        logp = log_softmax_.definition(x)
        picked = reshape(gather(logp, 1, reshape(where(counted, target, 0), (-1, 1))), (-1,))
        loss = -picked if label_smoothing == 0 else -(picked * (1 - label_smoothing) + mean(logp, 1) * label_smoothing)
        return where(counted, loss, 0)


def _check_targets(target: np.ndarray, classes: int, ignore_index: int) -> None:
    wrong = (target != ignore_index) & ((target < 0) | (target >= classes))
    if wrong.any():
        raise IndexError(
            f"cross_entropy: target {target[wrong][0]} is outside 0 to {classes - 1} (and is not ignore_index {ignore_index})"
        )


# -------------------------------------------------------------------------------------------------- indexing


@op
class take:
    r"y_{r} = x_{i_r}: rows of x by their number"

    def forward(x, index):
        rows, index = contiguous(x), contiguous(index)
        width = math.prod(x.shape[1:])
        y = empty(index.shape + x.shape[1:], x.dtype)
        launch(kernels.index.take, rows.reshape(x.shape[0], width), index.reshape(-1), y.reshape(index.size, width))
        return y

    def grad_x(g, y, x, index):
        return scatter_rows(g, index, x.shape)


@op
class scatter_rows:
    r"y_v = \sum_{r: i_r = v} x_r: rows added up at their numbers"

    def forward(x, index, shape):
        y = empty(shape, x.dtype)
        width = math.prod(shape[1:])
        rows = contiguous(x).reshape(index.size, width)
        launch(kernels.index.scatter_add, rows, contiguous(index).reshape(-1), y.reshape(shape[0], width))
        return y

    def grad_x(g, y, x, index, shape):
        return take(g, index)


@op
class gather_:
    r"y_{..j..} = x_{.. i_{..j..} ..} along one dimension"

    def forward(x, index, dim):
        y = empty(index.shape, x.dtype)
        outer, inner = math.prod(index.shape[:dim]), math.prod(index.shape[dim + 1 :])
        rows = contiguous(x[tuple(slice(n) if d != dim else slice(None) for d, n in enumerate(index.shape))])
        shapes = (outer, x.shape[dim], inner), (outer, index.shape[dim], inner)
        launch(
            kernels.index.gather, rows.reshape(shapes[0]), contiguous(index).reshape(shapes[1]), y.reshape(shapes[1])
        )
        return y

    def grad_x(g, y, x, index, dim):
        return gather_backward(g, index, x.shape, dim)


@op
class gather_backward:
    r"y_{..i..} = \sum_{j: i_j = i} x_{..j..} along one dimension"

    def forward(x, index, shape, dim):
        outer, inner = math.prod(index.shape[:dim]), math.prod(index.shape[dim + 1 :])
        seen = index.shape[:dim] + (shape[dim],) + index.shape[dim + 1 :]
        part = empty(seen, x.dtype)
        rows, at = (contiguous(a).reshape(outer, index.shape[dim], inner) for a in (x, index))
        launch(kernels.index.gather_backward, rows, at, part.reshape(outer, shape[dim], inner))
        if seen == tuple(shape):
            return part
        y = empty(shape, x.dtype)
        move(np.zeros((), x.dtype), y)
        move(part, y[tuple(slice(n) for n in seen)])
        return y

    def grad_x(g, y, x, index, shape, dim):
        return gather_(g, index, dim)


def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """y[i][j] = x[index[i][j]][j] (dim 0) or x[i][index[i][j]] (dim 1), and so on."""
    dim = _dim(x, dim, "gather")
    if index.dtype.kind != "i":
        raise RuntimeError(f"gather: the index must be an integer tensor, got {index.dtype}")
    if x.ndim == 0:
        return reshape(x, index.shape)
    if index.ndim != x.ndim or builtins.any(
        n > m for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=False)) if d != dim
    ):
        raise RuntimeError(f"gather: index {index.shape} does not fit x {x.shape}: only dimension {dim} may be larger")
    host(check_range, index._data, x.shape[dim], "gather")
    return gather_(x, index.to(int64), dim)


def check_range(index: np.ndarray, n: int, what: str) -> None:
    if isinstance(index, Meta):
        return  # a shape without values
    if index.size and (index.min() < 0 or index.max() >= n):
        wrong = index.min() if index.min() < 0 else index.max()
        raise IndexError(f"{what}: index {wrong} is outside 0 to {n - 1}")


def embedding(index: Tensor, weight: Tensor) -> Tensor:
    """y = the rows of the weight (V, D) that the index names; y has the index's shape and D."""
    if not isinstance(index, Tensor) or index.dtype.kind != "i":
        raise RuntimeError(f"embedding: expected an integer tensor of indices, got {getattr(index, 'dtype', index)}")
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: expected a weight of shape (V, D), got {weight.shape}")
    host(check_range, index._data, weight.shape[0], "embedding")
    return take(weight, index.to(int64))


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """y = the slices of x along `dim` that the index names."""
    dim = _dim(x, dim, "index_select")
    return x[(slice(None),) * dim + (index,)]


def nonzero(x: Tensor, as_tuple: bool = False):
    """The indices of the elements that are not zero: (n, ndim), or one tensor a dimension."""
    found = np.nonzero(x._values("nonzero()"))
    return (
        tuple(Tensor(i) for i in found)
        if as_tuple
        else Tensor(np.stack(found, 1) if found else np.zeros((1, 0), int64))
    )


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of x where the mask holds, in order, as a vector."""
    x, mask = broadcast_tensors(x, mask)
    return x[mask]


def getitem(x: Tensor, key) -> Tensor:
    """y = x[key]: a view for slices and whole numbers, a copy where index tensors or masks are among them."""
    key = _key(x, key)
    if not builtins.any(isinstance(k, np.ndarray) for k in key):
        return slice_(x, key)
    rows, index, finish = _advanced(x, key)
    return finish(take(rows, index))


def setitem(x: Tensor, key, value) -> None:
    """x[key] = value, in place; the gradient flows to the value and to what was kept of x."""
    key = _key(x, key)
    if not isinstance(value, Tensor):
        value = tensor(value, dtype=x.dtype)
    if not builtins.any(isinstance(k, np.ndarray) for k in key):
        part = slice_(x, key)
        _fits(value, part.shape, "setitem")
        copy_(part, _leading_ones_off(value, part.ndim))
        if part.requires_grad and x._base is None:
            x._tracked = x._version.tracked
        return
    positions = Tensor(np.arange(x.numel()).reshape(x.shape))
    with no_grad():
        chosen = getitem(positions, key)
    _fits(value, chosen.shape, "setitem")
    value = expand(_leading_ones_off(value, chosen.ndim).to(x.dtype), chosen.shape)
    x.become(put(x, flatten(chosen), flatten(value)))


def _fits(value, shape, what):
    try:
        if np.broadcast_shapes(_leading_ones_off(value, len(shape)).shape, shape) == tuple(shape):
            return
    except ValueError:
        pass
    raise RuntimeError(f"{what}: a value of shape {value.shape} does not fit the place of shape {tuple(shape)}")


def _leading_ones_off(value, ndim):
    while value.ndim > ndim and value.shape[0] == 1:
        value = squeeze(value, 0)
    return value


@op
class put:
    r"y = x, but y[p_r] = v_r at positions in the flattened tensor"

    def forward(x, positions, value):
        y = empty(x.shape, x.dtype)
        move(x, y)
        host(_put, y.reshape(-1), positions, value)
        return y

    def grad_x(g, y, x, positions, value):
        return put(g, positions, zeros(value.shape, dtype=g.dtype))

    def grad_value(g, y, x, positions, value):
        return take(flatten(g), positions)


def _put(flat, positions, value):
    flat[positions] = value


def _key(x: Tensor, key) -> tuple:
    """The key as a tuple in which index tensors, lists and masks are int64 arrays (masks: one per dimension)."""
    key = key if isinstance(key, tuple) else (key,)
    if builtins.any(isinstance(k, list) for k in key) or builtins.any(isinstance(k, np.ndarray) for k in key):
        key = tuple(Tensor(np.asarray(k)) if isinstance(k, list | np.ndarray) else k for k in key)
    result = []
    for k in key:
        if isinstance(k, Tensor):
            if k.dtype is bool_:
                if k.ndim == 0:
                    raise IndexError("indexing: a 0-d mask is not offered; use where()")
                at = len([e for e in result if e is not None and e is not Ellipsis])
                part = x.shape[at : at + k.ndim]
                if Ellipsis not in result and k.shape != part:
                    raise IndexError(
                        f"indexing: the mask of shape {k.shape} does not match shape {x.shape} at dimension {at}"
                    )
                result.extend(np.nonzero(k._values("a mask as index")))
            elif k.dtype.kind == "i":
                result.append(int(k.item()) if k.ndim == 0 and state.recording is None else k._data)
            else:
                raise IndexError(f"indexing: tensors used as indices must be integer or bool, this one is {k.dtype}")
        elif isinstance(k, float | str):
            raise IndexError(f"indexing: expected whole numbers, slices, None, ... or tensors, got {k!r}")
        elif isinstance(k, slice) and k.step is not None and k.step <= 0:
            raise ValueError(f"indexing: the step of a slice must be positive, got {k.step}; use flip()")
        else:
            result.append(k)
    used = builtins.sum(k is not None and k is not Ellipsis for k in result)
    if used > x.ndim:
        raise IndexError(f"indexing: {used} indices for a tensor of shape {x.shape} with {x.ndim} dimensions")
    if Ellipsis in [k for k in result if not isinstance(k, np.ndarray)]:
        at = next(i for i, k in enumerate(result) if k is Ellipsis)
        result[at : at + 1] = [slice(None)] * (x.ndim - used)
    dim = 0
    for k in result:
        if k is None:
            continue
        if isinstance(k, int | np.integer) and not -x.shape[dim] <= k < x.shape[dim]:
            raise IndexError(f"indexing: index {k} is out of range for dimension {dim} of shape {x.shape}")
        dim += 1
    return tuple(result)


def _advanced(x: Tensor, key: tuple):
    """x[key] as rows of a matrix: (rows (V, ...), index, how to arrange the taken rows).

    First the slices are cut, then the dimensions that index arrays address are brought to the front and made one.
    """
    basic = tuple(slice(None) if isinstance(k, np.ndarray) else k for k in key)
    x = slice_(x, basic)
    places, dim = [], 0
    for k in key:  # where each index array's dimension is, once whole numbers are gone and Nones are there
        if isinstance(k, np.ndarray):
            places.append(dim)
        dim += not isinstance(k, int | np.integer)
    arrays = [k for k in key if isinstance(k, np.ndarray)]
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise IndexError(f"indexing: index tensors of shapes {shapes} do not broadcast") from None
    sizes = tuple(x.shape[p] for p in places)
    index = empty(shape, int64)
    host(_flat_index, arrays, sizes, index)
    rest = [d for d in range(x.ndim) if d not in places]
    rows = permute(x, places + rest)
    rows = reshape(rows, (math.prod(sizes), *rows.shape[len(places) :]))

    together = places == list(range(places[0], places[0] + len(places)))

    def finish(taken: Tensor) -> Tensor:
        """Index arrays that stand together leave their dimensions at their place, others in front."""
        before = len([d for d in rest if d < places[0]]) if together else 0
        if not before:
            return taken
        n = len(shape)
        order = [*range(n, n + before), *range(n), *range(n + before, taken.ndim)]
        return permute(taken, order)

    return rows, Tensor(index), finish


def _flat_index(arrays: list[np.ndarray], sizes: tuple[int, ...], index: np.ndarray) -> None:
    """index = the arrays' position in row-major order; negative numbers count from the end."""
    index[...] = 0
    for array, n in zip(arrays, sizes, strict=True):
        if array.size and (array.min() < -n or array.max() >= n):
            wrong = array.max() if array.max() >= n else array.min()
            raise IndexError(f"indexing: index {wrong} is out of range for a dimension of size {n}")
        index *= n
        index += np.where(array < 0, array + n, array)


# --------------------------------------------------------------------------------------- order and chance


def argsort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort x along `dim` (equal elements keep their order; NaN counts as the largest)."""
    if x.ndim == 0:
        return zeros((), dtype=int64)
    dim = _dim(x, dim, "argsort")
    last = np.moveaxis(x._data, dim, -1)
    rows = _rows(last)
    index, scratch = empty(rows.shape, int64), empty(rows.shape, int64)
    launch(kernels.index.argsort, rows, int(descending), index, scratch)
    return Tensor(np.moveaxis(index.reshape(last.shape), -1, dim))


def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False):
    """x in ascending (or descending) order along `dim`: (values, indices)."""
    index = argsort(x, dim, descending)
    return ValuesIndices((gather(x, dim, index) if x.ndim else x.clone(), index))


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
    """The k largest (or smallest) elements along `dim`, in order: (values, indices)."""
    at = _dim(x, dim, "topk")
    n = x.shape[at] if x.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(f"topk: k = {k} is outside 0 to {n}, the size of dimension {dim} of shape {x.shape}")
    if x.ndim == 0:
        return ValuesIndices((x.clone(), zeros((), dtype=int64)))
    index = narrow(argsort(x, at, largest), at, 0, k)
    return ValuesIndices((gather(x, at, index), index))


def multinomial(p: Tensor, num_samples: int, replacement: bool = False, *, generator=None) -> Tensor:
    """Indices drawn with probabilities proportional to p (rows of a matrix, or one vector)."""
    if p.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: expected weights of shape (n,) or (rows, n), got {p.shape}")
    rows = _rows(p._data if p.ndim == 2 else p._data[None])
    host(_check_weights, rows, num_samples, replacement)
    draws = []
    for _ in range(num_samples):
        u, y = rand(rows.shape[0], dtype=p.dtype, generator=generator)._data, empty(rows.shape[:1], int64)
        launch(kernels.index.sample_rows, rows, u, y)
        draws.append(Tensor(y))
        if not replacement and num_samples > 1:
            remaining = empty(rows.shape, rows.dtype)
            move(rows, remaining)
            host(_strike_out, remaining, y)
            rows = remaining
    result = stack(draws, 1)
    return result if p.ndim == 2 else result[0]


def _check_weights(rows: np.ndarray, num_samples: int, replacement: bool) -> None:
    if not np.isfinite(rows).all() or (rows < 0).any():
        raise RuntimeError("multinomial: the weights must be finite and not negative")
    possible = (rows > 0).sum(1)
    if (possible < (1 if replacement else num_samples)).any():
        raise RuntimeError(
            f"multinomial: a row has {possible.min()} positive weights, too few for {num_samples} draws"
            f"{'' if replacement else ' without replacement'}"
        )


def _strike_out(rows: np.ndarray, chosen: np.ndarray) -> None:
    rows[np.arange(len(rows)), chosen] = 0


# ------------------------------------------------------------------------------------------------- in place


def _in_place(operation):
    """x.f_(...): the result of f takes the place of x (PyTorch's names end in an underscore)."""

    def changed(x: Tensor, *args, **kwargs) -> Tensor:
        tracked = state.grad and builtins.any(isinstance(a, Tensor) and a.requires_grad for a in (x, *args))
        core.check_in_place(x, tracked)
        if tracked:  # the rules may need the values from before
            return x.become(operation(_as_it_was(x), *args, **kwargs))
        if isinstance(operation, Op):
            y = operation(x, *args, **kwargs, out=x)
            return y if y is x else x.become(y)
        return x.become(operation(x, *args, **kwargs))

    name = operation.__name__.removesuffix("_scaled") + "_"
    changed.__name__, changed.__qualname__ = name, name
    changed.__doc__ = f"Like {name[:-1]}, in place."
    return changed


def _as_it_was(x: Tensor) -> Tensor:
    """A copy of x at the same place on the tape."""
    with no_grad():
        copy = clone(x)
    copy.node, copy.requires_grad = x.node, x.requires_grad
    return copy


@op
class overwrite:
    r"y = value, in the place of x"

    def forward(x, value):
        return value

    def grad_x(g, y, x, value):
        return zeros(x.shape, dtype=g.dtype)

    def grad_value(g, y, x, value):
        return g


def copy_(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """x[...] = source (broadcast), in place."""
    try:
        fits = np.broadcast_shapes(source.shape, x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"copy_: values of shape {source.shape} do not fit a tensor of shape {x.shape}")
    core.check_in_place(x, x.requires_grad or source.requires_grad)
    value = expand(cast(source, x.dtype) if source.dtype != x.dtype else source, x.shape)
    return x.become(overwrite(x, value) if x.requires_grad else value)


def fill_(x: Tensor, value) -> Tensor:
    """x[...] = value, in place."""
    return copy_(x, _as_tensor(value, x.dtype))


def zero_(x: Tensor) -> Tensor:
    """x[...] = 0, in place."""
    return fill_(x, 0)


def uniform_(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator=None) -> Tensor:
    """Draw every element from [low, high), in place."""
    return copy_(x, rand(x.shape, dtype=x.dtype, generator=generator) * (high - low) + low)


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator=None) -> Tensor:
    """Draw every element from the normal distribution, in place."""
    return copy_(x, randn(x.shape, dtype=x.dtype, generator=generator) * std + mean)


# --------------------------------------------------------------- the one table: what a Tensor can do


def _reflected(operation):
    return lambda x, other: operation(other, x)


def _in_place_setitem(x, key, value):
    setitem(x, key, value)


METHODS = {
    f.__name__: f
    for f in (
        *(add_scaled, sub_scaled, mul, div, true_divide, floor_divide, remainder, pow, maximum, minimum, clamp),
        *(clamp_min, clamp_max, neg, sign, reciprocal, floor, ceil, exp, log, sqrt, rsqrt, sin, cos, tanh, erf),
        *(sigmoid, relu, square, addcmul, addcdiv, lerp, isnan, isinf, isfinite, eq, ne, lt, le, gt, ge),
        *(logical_and, logical_or, logical_xor, logical_not, bitwise_and, bitwise_or, bitwise_not, masked_fill),
        *(sum, prod, mean, var, std, amax, amin, max, min, argmax, argmin, logsumexp, any, all, norm, cumsum),
        *(softmax, log_softmax, matmul, mm, bmm, mv, dot, outer, to, clone, reshape, view, view_as, flatten, unflatten),
        *(permute, transpose, t, movedim, expand, expand_as, squeeze, unsqueeze, narrow, split, chunk, unbind, tril),
        *(triu, flip, roll, repeat, repeat_interleave, diagonal, gather, index_select, nonzero, masked_select),
        *(
            argsort,
            sort,
            topk,
            multinomial,
            copy_,
            fill_,
            zero_,
            uniform_,
            normal_,
            broadcast_to,
            equal,
            isclose,
            allclose,
        ),
        *(logsigmoid,),
    )
}
METHODS |= {"add": add_scaled, "sub": sub_scaled, "abs": absolute, "round": round_, "contiguous": contiguous_}
METHODS |= {
    "new_zeros": lambda x, *size, dtype=None: full(_sizes(size), 0, dtype=dtype or x.dtype),
    "new_ones": lambda x, *size, dtype=None: full(_sizes(size), 1, dtype=dtype or x.dtype),
    "new_full": lambda x, size, fill_value, dtype=None: full(size, fill_value, dtype=dtype or x.dtype),
    "new_tensor": lambda x, data, dtype=None: tensor(data, dtype=dtype or x.dtype),
}
METHODS |= {"where": lambda x, condition, other: where(condition, x, other), "sign": sign}
del METHODS["add_scaled"], METHODS["sub_scaled"]
_SELF_CHANGING = (
    "add sub mul div floor_divide remainder pow clamp clamp_min clamp_max neg abs sign reciprocal floor ceil"
)
_SELF_CHANGING += (
    " round exp log sqrt rsqrt sin cos tanh sigmoid relu square addcmul addcdiv lerp masked_fill tril triu"
)
METHODS |= {f"{name}_": _in_place(METHODS[name]) for name in _SELF_CHANGING.split()}
METHODS |= {
    "__add__": add, "__radd__": _reflected(add), "__iadd__": METHODS["add_"],
    "__sub__": sub, "__rsub__": _reflected(sub), "__isub__": METHODS["sub_"],
    "__mul__": mul, "__rmul__": _reflected(mul), "__imul__": METHODS["mul_"],
    "__truediv__": true_divide, "__rtruediv__": _reflected(true_divide), "__itruediv__": METHODS["div_"],
    "__floordiv__": floor_divide, "__rfloordiv__": _reflected(floor_divide),
    "__mod__": remainder, "__rmod__": _reflected(remainder),
    "__pow__": pow, "__rpow__": _reflected(pow), "__ipow__": METHODS["pow_"],
    "__matmul__": matmul, "__neg__": neg, "__pos__": lambda x: x, "__abs__": absolute, "__invert__": bitwise_not,
    "__and__": bitwise_and, "__or__": bitwise_or, "__xor__": bitwise_xor,
    "__eq__": eq, "__ne__": ne, "__lt__": lt, "__le__": le, "__gt__": gt, "__ge__": ge,
    "__getitem__": getitem, "__setitem__": _in_place_setitem,
    "__iter__": lambda x: iter(unbind(x)),
    "float": lambda x: to(x, core.float32), "double": lambda x: to(x, core.float64), "long": lambda x: to(x, int64),
    "int": lambda x: to(x, int32), "bool": lambda x: to(x, bool_), "cpu": lambda x: x,
    "type": lambda x, dtype: to(x, dtype), "type_as": lambda x, other: to(x, other.dtype),
}  # fmt: skip

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method if not isinstance(_method, Op) else (lambda m: lambda *a, **k: m(*a, **k))(_method))
for _name, _property in {
    "T": lambda x: permute(x, *reversed(range(x.ndim))),
    "mT": lambda x: transpose(x, -1, -2),
}.items():
    setattr(Tensor, _name, property(_property))

# what stands in the package beside the methods: tinytensor.exp(x) is x.exp()
FUNCTIONS = {
    name: f
    for name, f in METHODS.items()
    if not name.endswith("_") and name not in ("float", "double", "long", "int", "bool", "type")
}
FUNCTIONS |= {
    f.__name__: f
    for f in (
        einsum,
        cat,
        stack,
        where,
        silu,
        gelu,
        broadcast_tensors,
        bitwise_xor,
        linear,
        embedding,
        numel,
        is_floating_point,
    )
}

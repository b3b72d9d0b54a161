"""More activations than those of elementwise.py: three formulas, and functions composed of them."""

from tinytensor.core.op import op
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.native.simd.math import exp as fast_exp
from tinytensor.native.simd.math import expm1 as fast_expm1
from tinytensor.native.simd.math import log1p as fast_log1p
from tinytensor.ops.arguments import dimension, only_floats, refuse_only_bools, tensor_of_dtype
from tinytensor.ops.elementwise import absolute, exp, hardtanh_op, sigmoid, tanh, where
from tinytensor.ops.in_place import copy_, in_place
from tinytensor.ops.shape import chunk, reshape
from tinytensor.ops.softmax import softmax


@op
class sloped:
    r"y = h where z > 0, else s h"

    dtype_kinds = "fO"

    def kernel(h, z, slope):
        return h if z > type(z)(0) else h * slope

    def grad_h(g, z, slope):
        return sloped(g, z, slope)

    def grad_slope(g, h, z):
        return where(z > 0, 0, g * h)


@op
class softplus_op:
    r"y = \frac1\beta \ln(1 + e^{\beta x}), and x where \beta x lies above the threshold"

    dtype_kinds = "fO"

    def kernel(x, beta=1.0, threshold=20.0):
        z = beta * x
        return x if z > threshold else fast_log1p(fast_exp(z)) / beta

    def grad_x(g, x, beta, threshold):
        return where(x * beta > threshold, g, g * sigmoid(x * beta))


@op
class elu_op:
    r"y = s x where x > 0, else s \alpha (e^{r x} - 1)"

    dtype_kinds = "fO"

    def kernel(x, alpha=1.0, scale=1.0, rate=1.0):
        return scale * x if x > type(x)(0) else scale * alpha * fast_expm1(rate * x)

    def grad_x(g, x, alpha, scale, rate):  # no exp of a positive x, which may be inf
        return where(x <= 0, g * exp(where(x < 0, x, 0) * rate) * (scale * alpha * rate), g * scale)


def _perhaps_in_place(operation, x: Tensor, inplace: bool, *settings) -> Tensor:
    return in_place(operation)(x, *settings) if inplace else operation(x, *settings)


def _sloped_by_its_sign(x: Tensor, slope) -> Tensor:
    return sloped(x, x.detach(), slope)


@register("F.leaky_relu nn.LeakyReLU")
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else negative_slope x."""
    return _perhaps_in_place(_sloped_by_its_sign, input, inplace, negative_slope)


@register("prelu F.prelu")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """y = x where x > 0, else w x; w is one number, or one for each channel (dimension 1)."""
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise RuntimeError(f"prelu: a weight of shape {weight.shape}, expected (1,) or ({channels},) for {input.shape}")
    shape = (-1,) + (1,) * (input.ndim - 2) if weight.numel() > 1 else ()
    input, weight = only_floats("prelu", input, weight)
    return _sloped_by_its_sign(input, reshape(weight, shape))


@register("F.softplus nn.Softplus")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    r"""y = \ln(1 + e^{\beta x}) / \beta, and x where \beta x lies above the threshold."""
    return softplus_op(input, beta, threshold)


@register("F.elu nn.ELU")
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    r"""y = x where x > 0, else \alpha (e^x - 1)."""
    return _perhaps_in_place(elu_op, input, inplace, alpha)


@register("celu F.celu nn.CELU")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    r"""y = x where x > 0, else \alpha (e^{x / \alpha} - 1)."""
    if alpha == 0:
        raise RuntimeError("celu: alpha must not be 0")
    return _perhaps_in_place(elu_op, input, inplace, alpha, 1.0, 1 / alpha)


@register("selu F.selu nn.SELU")
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    r"""y = s (x where x > 0, else \alpha (e^x - 1)), with the constants that keep mean 0 and variance 1."""
    return _perhaps_in_place(
        elu_op, input, inplace, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    )


@register("F.hardtanh nn.Hardtanh")
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """y = x, but at least min_val and at most max_val."""
    if not min_val <= max_val:
        raise ValueError(f"hardtanh: min_val must be at most max_val, got {min_val} and {max_val}")
    if input.dtype.kind in "iu":  # whole numbers stay whole
        min_val, max_val = int(min_val), int(max_val)
    return _perhaps_in_place(hardtanh_op, input, inplace, min_val, max_val)


@register("F.relu6 nn.ReLU6")
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """y = min(max(0, x), 6)."""
    return hardtanh(input, 0, 6, inplace)


@register("F.hardsigmoid nn.Hardsigmoid")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """y = relu6(x + 3) / 6."""
    only_floats("hardsigmoid", input)
    return _perhaps_in_place(lambda x: hardtanh_op(x + 3, 0, 6) / 6, input, inplace)


@register("F.hardswish nn.Hardswish")
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """y = x relu6(x + 3) / 6."""
    only_floats("hardswish", input)
    return _perhaps_in_place(lambda x: x * hardtanh_op(x + 3, 0, 6) / 6, input, inplace)


@register("F.mish nn.Mish")
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    r"""y = x \tanh(\ln(1 + e^x))."""
    return _perhaps_in_place(lambda x: x * tanh(softplus_op(x)), input, inplace)


@register("F.softsign nn.Softsign")
def softsign(input: Tensor) -> Tensor:
    """y = x / (1 + |x|)."""
    return softsign_op(input)


@op
class softsign_op:
    r"y = x / (1 + |x|)"

    dtype = "float"
    dtype_kinds = "ifO"

    def kernel(x):
        return x / (type(x)(1) + abs(x))

    def grad_x(g, x):
        size = absolute(x) + 1
        return g / size / size


@register("F.softmin nn.Softmin")
def softmin(input: Tensor, dim: int | None = None, *, dtype=None) -> Tensor:
    r"""y_i = e^{-x_i} / \sum_j e^{-x_j} along `dim`."""
    return softmax(-input, dim, dtype=dtype)


@register("F.glu nn.GLU")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    r"""y = a \sigma(b) for the two halves a and b of x along `dim`."""
    only_floats("glu", input)
    if input.ndim == 0 or input.shape[dimension(input, dim, "glu")] % 2:
        raise RuntimeError(f"glu: dimension {dim} of shape {input.shape} must have an even size, to be halved")
    a, b = chunk(input, 2, dim)
    return a * sigmoid(b)


@register("threshold F.threshold")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """y = the value where x <= threshold, else x, which may be NaN."""
    refuse_only_bools("threshold", input.dtype)
    y = where(input <= threshold, tensor_of_dtype(value, input.dtype), input)
    return copy_(input, y) if inplace else y


@register("F.hardshrink nn.Hardshrink")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    r"""y = x where |x| > \lambda, else 0."""
    only_floats("hardshrink", input)
    return where((input >= -lambd).logical_and(input <= lambd), 0, input)


@register("F.softshrink nn.Softshrink")
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    r"""y = x - \lambda where x > \lambda, x + \lambda where x < -\lambda, else 0."""
    only_floats("softshrink", input)
    nothing = (input >= -lambd).logical_and(input <= lambd)
    return where(nothing, 0, where(input > 0, input - lambd, input + lambd))

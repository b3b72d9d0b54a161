"""softmax and log_softmax: operations with their own kernels for forward and backward."""

import warnings

import numpy as np

from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import empty, launch
from tinytensor.core.op import op
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension, only_floats
from tinytensor.ops.arrays import as_rows
from tinytensor.ops.elementwise import exp, log
from tinytensor.ops.reduce import amax, sum
from tinytensor.ops.shape import make_contiguous, reshape, transpose


def _by_rows(kernel, *arrays: np.ndarray) -> np.ndarray:
    """y = kernel(arrays), all of one shape, row by row along the last dimension."""
    rows = [as_rows(a) for a in arrays]
    y = empty(rows[0].shape, rows[0].dtype)
    launch(kernel, *rows, y)
    return y if arrays[0].ndim == 2 else y.reshape(arrays[0].shape)


@op
class softmax_op:
    r"y_i = e^{x_i} / \sum_j e^{x_j} along the last dimension"

    gradient = (r"\frac{\partial L}{\partial x_i} = y_i (g_i - \sum_j g_j y_j)",)

    def forward(x):
        return _by_rows(kernels.softmax, x)

    def backward(g, y):
        return (_by_rows(kernels.softmax_backward, g, y),)

    def grad_x(g, y):  # the same in tensors, for second derivatives: hooks of y see this use of it
        gy = g * y
        return gy - y * sum(gy, -1, keepdim=True)

    def definition(x):
        e = exp(x - amax(x.detach(), -1, keepdim=True))
        return e / sum(e, -1, keepdim=True)


@op
class log_softmax_op:
    r"y_i = x_i - \ln \sum_j e^{x_j} along the last dimension"

    gradient = (r"\frac{\partial L}{\partial x_i} = g_i - e^{y_i} \sum_j g_j",)

    def forward(x):
        return _by_rows(kernels.log_softmax, x)

    def backward(g, y):
        return (_by_rows(kernels.log_softmax_backward, g, y),)

    def grad_x(g, y):
        return g - exp(y) * sum(g, -1, keepdim=True)

    def definition(x):
        shifted = x - amax(x.detach(), -1, keepdim=True)
        return shifted - log(sum(exp(shifted), -1, keepdim=True))


def _along(operation, x: Tensor, dim: int | None, dtype, what: str) -> Tensor:
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1
        warnings.warn(f"{what}: say along which dimension; without dim it is {dim} of {x.ndim}", stacklevel=3)
    x = x if dtype is None else x.to(dtype)
    only_floats(what, x)
    dim = dimension(x, dim, what)
    if x.ndim == 0:
        return reshape(operation(reshape(x, 1)), ())
    if x.numel() == 0:
        return x.clone()
    if dim == x.ndim - 1:
        return operation.quick(x)
    return make_contiguous(transpose(operation(transpose(x, dim, -1)), dim, -1))


@register("softmax Tensor.softmax F.softmax nn.Softmax")
def softmax(x: Tensor, dim: int | None = None, *, dtype=None) -> Tensor:
    r"""y_i = e^{x_i} / \sum_j e^{x_j} along `dim`: eqs. (6) and (12) of 003.

    x has any shape and y the same one, in x's dtype or `dtype`; the entries of y along `dim` sum to 1. The largest x is
    subtracted first, so that no e^x overflows. Without `dim`, PyTorch's old choice is taken, with a warning.
    RuntimeError for whole numbers, IndexError for a `dim` that x does not have.
    """
    return _along(softmax_op, x, dim, dtype, "softmax")


@register("log_softmax Tensor.log_softmax F.log_softmax nn.LogSoftmax")
def log_softmax(x: Tensor, dim: int | None = None, *, dtype=None) -> Tensor:
    r"""y_i = x_i - \ln \sum_j e^{x_j} along `dim`; the logarithm of eq. (14) of 003."""
    return _along(log_softmax_op, x, dim, dtype, "log_softmax")

"""Random numbers of the gamma distribution, with gradients."""

import numpy as np

from tinytensor.autograd import Function
from tinytensor.core.dispatch import empty, host
from tinytensor.core.dtypes import float64
from tinytensor.core.tensor import Tensor
from tinytensor.ops.argument_errors import public
from tinytensor.ops.elementwise import digamma, exp, expm1, where
from tinytensor.ops.generator import Generator, drawn_from


def _draw(y: np.ndarray, a: np.ndarray, generator: Generator) -> None:
    """Logarithms, without underflow, of numbers of Gamma(a + 1) times uniform ones to the power of 1 / a."""
    y[...] = np.log(generator.numpy.standard_gamma(a + 1.0)) + np.log1p(-generator.numpy.random(a.shape)) / a


# Places and weights of a double exponential rule for integrals from 0 to infinity
STEP = 1 / 16
_T = np.arange(-3.5, 2.6, STEP)
NODES = np.exp(np.pi / 2 * np.sinh(_T))
WEIGHTS = STEP * np.pi / 2 * np.cosh(_T) * NODES


def slope(a: Tensor, y: Tensor) -> Tensor:
    r"""dy / da of y = \ln z where the probability of a number below z stays the same: z as a function of a.

    That is -\partial F / \partial a divided by z p(z), where \partial F / \partial a is the integral of
    (\ln t - \psi(a)) p(t) from 0 to z, or the negative one from z to infinity. With t = z e^{-s r}, s = 1 below the
    mean a, s = -1 above it, it is -s times the integral of (y - s r - \psi(a)) e^{z (1 - e^{-s r}) - s a r} over r > 0.
    """
    a, y = a.double(), y.double()
    z = y.exp()
    s = where(z < a, 1.0, -1.0)
    width = 2 / ((a - z).abs() + ((a - z) ** 2 + 2 * z).sqrt())
    r = width.unsqueeze(-1) * Tensor.of(NODES)
    a, y, z, s = (t.unsqueeze(-1) for t in (a, y, z, s))
    integrand = (y - s * r - digamma(a)) * exp(-z * expm1(-s * r) - s * a * r)
    return -s.squeeze(-1) * width * (integrand * Tensor.of(WEIGHTS)).sum(-1)


class _LogStandardGamma(Function):
    @staticmethod
    def forward(ctx, a):
        y = Tensor.of(empty(a.shape, float64))
        host(_draw, y._data, a._data, drawn_from("Gamma", None))
        ctx.save_for_backward(a, y)
        return y

    @staticmethod
    def backward(ctx, g):
        a, y = ctx.saved_tensors
        return (g * slope(a, y)).to(a.dtype)


@public
def log_standard_gamma(a: Tensor) -> Tensor:
    """ln z, float64, of numbers z of the gamma distribution with concentration a, as functions of a."""
    return _LogStandardGamma.apply(a)

"""The gamma distribution, and those whose samples are made from its samples: beta, Dirichlet, Student's t."""

import math
from collections.abc import Sequence

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.distributions.distribution import Distribution, are_numbers, broadcast_all
from tinytensor.distributions.gamma_samples import log_standard_gamma
from tinytensor.ops.creation import randn
from tinytensor.ops.elementwise import digamma, lgamma, log1p, where
from tinytensor.ops.pointwise import xlogy
from tinytensor.ops.shape import stack


def _above_0(x):
    return x > 0


def _in_support(x: Tensor, dtype) -> Tensor:
    """Samples in a dtype, 0 replaced by its smallest number, where the density is finite."""
    return x.to(dtype).clamp(min=float(np.finfo(dtype).tiny))


class Gamma(Distribution):
    r"""p(x) = rate^a x^{a - 1} e^{-rate x} / \Gamma(a), of x > 0, a the concentration."""

    has_rsample = True

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, (), validate_args)
        self._expect("a concentration above 0", self.concentration, _above_0)
        self._expect("a rate above 0", self.rate, _above_0)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Their gradient is that of the number below which the probability stays the same."""
        y = log_standard_gamma(self.concentration.expand(self._shape(sample_shape)))
        return _in_support(y.exp() / self.rate, self.rate.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value)."""
        (value,) = broadcast_all(value)
        self._expect("values of 0 or more", value, lambda x: x >= 0)
        a = self.concentration
        return xlogy(a, self.rate) + xlogy(a - 1, value) - self.rate * value - lgamma(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1 - a) * digamma(a)

    @property
    def mean(self) -> Tensor:
        """a / rate."""
        return self.concentration / self.rate

    @property
    def variance(self) -> Tensor:
        """a / rate^2."""
        return self.concentration / self.rate**2


class Dirichlet(Distribution):
    r"""p(x) = \Gamma(\sum a) \prod_i x_i^{a_i - 1} / \Gamma(a_i), of vectors of probabilities; a, the concentration."""

    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        (concentration,) = broadcast_all(concentration)
        if concentration.ndim < 1:
            raise ValueError("Dirichlet: expected at least one dimension, that of the categories")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)
        self._expect("a concentration above 0", concentration, _above_0)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Numbers of Gamma(a_i, 1), divided by their sum, each with its gradient."""
        y = log_standard_gamma(self.concentration.expand(self._shape(sample_shape)))
        return _in_support(y.softmax(-1), self.concentration.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value), of vectors (..., k)."""
        self._expect("probabilities whose sum is 1", value, lambda x: (x >= 0).all(-1) & (abs(x.sum(-1) - 1) < 1e-6))
        a = self.concentration
        return xlogy(a - 1, value).sum(-1) + lgamma(a.sum(-1)) - lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1)
        beta = lgamma(a).sum(-1) - lgamma(total)
        return beta + (total - a.shape[-1]) * digamma(total) - ((a - 1) * digamma(a)).sum(-1)

    @property
    def mean(self) -> Tensor:
        r"""a / \sum a."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        r"""m (1 - m) / (1 + \sum a), m the mean."""
        return self.mean * (1 - self.mean) / (1 + self.concentration.sum(-1, keepdim=True))


class Beta(Distribution):
    r"""p(x) = x^{a - 1} (1 - x)^{b - 1} \Gamma(a + b) / (\Gamma(a) \Gamma(b)), of x from 0 to 1.

    a is `concentration1`, b is `concentration0`; (x, 1 - x) has Dirichlet's distribution.
    """

    has_rsample = True

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)
        self._expect("a concentration1 above 0", self.concentration1, _above_0)
        self._expect("a concentration0 above 0", self.concentration0, _above_0)
        self.dirichlet = Dirichlet(stack([self.concentration1, self.concentration0], -1), False)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The first of two probabilities of Dirichlet's distribution."""
        return self.dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value)."""
        (value,) = broadcast_all(value)
        self._expect("values from 0 to 1", value, lambda x: (x >= 0) & (x <= 1))
        return self.dirichlet.log_prob(stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self.dirichlet.entropy()

    @property
    def mean(self) -> Tensor:
        """a / (a + b)."""
        return self.dirichlet.mean[..., 0]

    @property
    def variance(self) -> Tensor:
        """m (1 - m) / (1 + a + b), m the mean."""
        return self.dirichlet.variance[..., 0]


class StudentT(Distribution):
    r"""p(x) = c (1 + t^2 / df)^{-(df + 1) / 2} / scale, t = (x - loc) / scale, c the number for a probability of 1."""

    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)
        self._expect("a df above 0", self.df, _above_0)
        self._expect("a loc that is a number", self.loc, are_numbers)
        self._expect("a scale above 0", self.scale, _above_0)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        r"""loc + scale \epsilon \sqrt{df / 2 z}, \epsilon of a standard normal distribution, z of Gamma(df / 2, 1)."""
        shape, half = self._shape(sample_shape), self.df / 2
        factor = ((half.log() - log_standard_gamma(half.expand(shape))) / 2).exp().to(half.dtype)
        return self.loc + self.scale * factor * randn(shape, dtype=half.dtype)

    def _log_beta(self) -> Tensor:
        return lgamma(self.df / 2) + math.lgamma(0.5) - lgamma((self.df + 1) / 2)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value)."""
        t = (value - self.loc) / self.scale
        scale = self.scale.log() + 0.5 * self.df.log() + self._log_beta()
        return -0.5 * (self.df + 1) * log1p(t**2 / self.df) - scale

    def entropy(self) -> Tensor:
        n = (self.df + 1) / 2
        return self.scale.log() + n * (digamma(n) - digamma(self.df / 2)) + 0.5 * self.df.log() + self._log_beta()

    @property
    def mean(self) -> Tensor:
        """loc, NaN for df of 1 or less."""
        return where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """scale^2 df / (df - 2), inf for df of 2 or less, NaN for 1 or less."""
        finite = self.scale**2 * self.df / where(self.df > 2, self.df - 2, 1)
        return where(self.df > 2, finite, where(self.df > 1, math.inf, math.nan))

"""Distributions of numbers and vectors: normal, uniform, Laplace."""

import math
from collections.abc import Sequence

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.distributions.distribution import Distribution, are_numbers, broadcast_all
from tinytensor.ops.creation import eye, rand, randn
from tinytensor.ops.elementwise import expm1, log1p, where
from tinytensor.ops.matrices import cholesky, cholesky_inverse, inverse, solve_triangular
from tinytensor.ops.reduce import isclose


class _LocationScale(Distribution):
    """A distribution around `loc`, of which `scale` is the width."""

    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        self._expect("a loc that is a number", self.loc, are_numbers)
        self._expect("a scale above 0", self.scale, lambda scale: scale > 0)

    @property
    def mean(self) -> Tensor:
        """loc."""
        return self.loc


class Normal(_LocationScale):
    r"""p(x) = e^{-(x - loc)^2 / 2 scale^2} / (scale \sqrt{2 \pi})."""

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """loc + scale * epsilon, epsilon from the standard normal distribution."""
        return self.loc + self.scale * randn(self._shape(sample_shape), dtype=self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value)."""
        away = (value - self.loc) / self.scale
        return -away * away / 2 - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a number below value."""
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf())

    @property
    def variance(self) -> Tensor:
        """scale^2."""
        return self.scale**2

    @property
    def stddev(self) -> Tensor:
        """scale."""
        return self.scale


class MultivariateNormal(Distribution):
    r"""p(x) = e^{-|L^{-1} (x - loc)|^2 / 2} / ((2 \pi)^{n/2} \det L), of vectors x, with covariance L L^T.

    Give the covariance, its inverse (the precision), or L itself, lower triangular with a positive diagonal: each is
    (..., n, n). loc is (..., n); the batches of both broadcast. LinAlgError if the matrix is not positive definite.
    """

    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        matrices = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(matrices) != 1:
            raise ValueError(
                f"MultivariateNormal: give one of covariance_matrix, precision_matrix and scale_tril, "
                f"not {len(matrices)}"
            )
        (matrix,) = matrices
        if loc.ndim < 1 or matrix.ndim < 2 or matrix.shape[-2:] != loc.shape[-1:] * 2:
            raise ValueError(
                "MultivariateNormal: expected loc (..., n) and a matrix (..., n, n), "
                f"got {loc.shape} and {matrix.shape}"
            )
        try:
            batch = np.broadcast_shapes(loc.shape[:-1], matrix.shape[:-2])
        except ValueError:
            raise ValueError(
                f"MultivariateNormal: the batches of loc {loc.shape} and the matrix {matrix.shape} do not broadcast"
            ) from None
        super().__init__(batch, loc.shape[-1:], validate_args)
        self._expect("a loc of numbers", loc, are_numbers)
        if scale_tril is None:
            self._expect("a symmetric matrix", matrix, lambda _: isclose(matrix, matrix.mT, atol=1e-6))
            self._tril = cholesky(matrix if precision_matrix is None else inverse(matrix))
        else:
            right = (matrix.tril() == matrix) & (matrix.diagonal(0, -2, -1) > 0).unsqueeze(-1)
            self._expect("a lower triangular matrix with a diagonal above 0", matrix, lambda _: right)
            self._tril = matrix
        self.loc = loc.expand(*batch, *self.event_shape)

    @property
    def scale_tril(self) -> Tensor:
        """L."""
        return self._tril.expand(*self.batch_shape, *self.event_shape, *self.event_shape)

    @property
    def covariance_matrix(self) -> Tensor:
        """L L^T."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """(L L^T)^{-1}."""
        return cholesky_inverse(self.scale_tril)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """loc + L epsilon, epsilon from the standard normal distribution."""
        epsilon = randn(self._shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + times(self._tril, epsilon)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value), of values (..., n)."""
        away = (times(self._inverse(), value - self.loc) ** 2).sum(-1)
        return -0.5 * (self.event_shape[0] * math.log(2 * math.pi) + away) - self._half_log_det()

    def entropy(self) -> Tensor:
        value = 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()
        return value.expand(self.batch_shape)

    @property
    def mean(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The diagonal of L L^T."""
        return (self.scale_tril**2).sum(-1)

    def _inverse(self) -> Tensor:
        """L^{-1}."""
        n = self.event_shape[0]
        return solve_triangular(self._tril, eye(n, dtype=self._tril.dtype), upper=False)

    def _half_log_det(self) -> Tensor:
        r"""\ln \det L = \ln \det(L L^T) / 2."""
        return self._tril.diagonal(0, -2, -1).log().sum(-1)


def times(matrix: Tensor, vectors: Tensor) -> Tensor:
    """matrix (..., n, n) times each of the vectors (..., n)."""
    return (matrix @ vectors.unsqueeze(-1)).squeeze(-1)


class Uniform(Distribution):
    """p(x) = 1 / (high - low) from low to below high."""

    has_rsample = True

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, (), validate_args)
        self._expect("high above low", self.high - self.low, lambda width: width > 0)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """low + (high - low) u, u from [0, 1)."""
        return self.low + (self.high - self.low) * rand(self._shape(sample_shape), dtype=self.low.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value), -inf outside."""
        inside = (value >= self.low) & (value < self.high)
        return where(inside, -(self.high - self.low).log(), -math.inf)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

    @property
    def mean(self) -> Tensor:
        """(low + high) / 2."""
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Tensor:
        """(high - low)^2 / 12."""
        return (self.high - self.low) ** 2 / 12


class Laplace(_LocationScale):
    r"""p(x) = e^{-|x - loc| / scale} / (2 scale)."""

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        r"""loc - scale s \ln(1 - u), u from [0, 1), s from -1 and 1."""
        u = 2 * rand(self._shape(sample_shape), dtype=self.loc.dtype) - 1
        u = u.clamp(min=np.finfo(u.dtype).eps - 1)  # at -1 the logarithm is infinite
        return self.loc + self.scale * where(u < 0, log1p(u), -log1p(-u.abs()))

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value)."""
        return -(value - self.loc).abs() / self.scale - (2 * self.scale).log()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a number below value."""
        away = (value - self.loc) / self.scale
        return 0.5 - 0.5 * away.sign() * expm1(-away.abs())

    def icdf(self, value: Tensor) -> Tensor:
        """The number below which the probability is value."""
        part = value - 0.5
        return self.loc - self.scale * part.sign() * log1p(-2 * part.abs())

    @property
    def variance(self) -> Tensor:
        """2 scale^2."""
        return 2 * self.scale**2

"""Distributions: samples, log-probabilities and entropies, for policies and variational models.

A distribution has a batch shape (the shape of its parameters) and an event shape (the shape of one value, () unless
values are vectors); `sample((n,))` puts n in front of both. `sample` is outside the tape. Some distributions also have
`rsample`, whose samples are functions of the parameters, through which gradients flow.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import get_default_dtype
from tinytensor.core.meta import BatchedData
from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.nn.functional import binary_cross_entropy_with_logits
from tinytensor.ops.creation import eye, full, rand, randn
from tinytensor.ops.elementwise import logsigmoid, where
from tinytensor.ops.matrices import cholesky, cholesky_inverse, inverse, solve_triangular
from tinytensor.ops.order import multinomial
from tinytensor.ops.random import bernoulli
from tinytensor.ops.reduce import isclose


def normal(
    mean: Tensor | float, std: Tensor | float = 1.0, size: Sequence[int] | None = None, *, generator=None
) -> Tensor:
    """Numbers from the normal distribution: one for each element of mean and std, or `size` of them."""
    mean, std = _together(mean, std)
    _expect("normal", "std of 0 or more", std, lambda std: std >= 0)
    shape = mean.shape if size is None else tuple(size)
    return mean + std * randn(shape, dtype=mean.dtype, generator=generator)


def _together(*values: Tensor | float) -> list[Tensor]:
    """Parameters as tensors of one shape; numbers take the dtype of the tensors among them."""
    dtype = next((v.dtype for v in values if isinstance(v, Tensor) and v.is_floating_point()), get_default_dtype())
    tensors = [v.to(dtype) if isinstance(v, Tensor) else full((), v, dtype=dtype) for v in values]
    try:
        shape = np.broadcast_shapes(*(t.shape for t in tensors))
    except ValueError:
        raise ValueError(f"parameters of shapes {[t.shape for t in tensors]} do not broadcast to one shape") from None
    return [t.expand(shape) for t in tensors]


def _expect(name: str, what: str, values: Tensor, holds: Callable[[Any], Any]) -> None:
    """Raise ValueError unless the condition holds everywhere (no check where values can't be read: in a recording).

    The condition takes the array, which is faster than operations, or the tensor if reads are observed.
    """
    if state.recording is not None or values.is_meta or values._data.__class__ is BatchedData:
        return
    if not holds(values._data if state.on_read is None else values.detach()).all():
        raise ValueError(f"{name}: expected {what}, got {values.detach().tolist()}")


def _are_numbers(x):
    return x == x


class Distribution:
    """The base of all distributions; `validate_args=False` leaves out the checks of parameters and values."""

    has_rsample = False
    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...] = ()

    def __init__(self, batch_shape: tuple[int, ...], validate_args: bool | None):
        self.batch_shape, self._validate = batch_shape, validate_args is not False

    def _expect(self, what: str, values: Tensor, holds: Callable[[Any], Any]) -> None:
        if self._validate:
            _expect(type(self).__name__, what, values, holds)

    def _shape(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values, of shape sample_shape + batch_shape + event_shape, outside the tape."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values as functions of the parameters, through which gradients flow."""
        raise NotImplementedError(f"{type(self).__name__}: no gradient flows through such a choice; use sample()")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability (or its density) at a value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def entropy(self) -> Tensor:
        """E[-log p]."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()


def _clamped(p: Tensor) -> Tensor:
    """Probabilities, moved away from 0 and 1 so far that their logarithms are finite."""
    eps = float(np.finfo(p.dtype).eps)
    return p.clamp(eps, 1 - eps)


def _one_of(name: str, probs, logits) -> None:
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: give either probs or logits, and not both")


def _are_weights(x):
    """Can each row be divided by its sum?"""
    total = x.sum(-1)
    return (x >= 0).all(-1) & (total > 0) & (total < math.inf)


def _have_softmax(x):
    return (x < math.inf).all(-1) & (x > -math.inf).any(-1)


class Categorical(Distribution):
    r"""p(i) = probs_i / \sum probs, or softmax(logits)_i, along the last dimension."""

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        _one_of("Categorical", probs, logits)
        parameter = probs if logits is None else logits
        if parameter.ndim < 1:
            raise ValueError("Categorical: expected at least one dimension, that of the categories")
        super().__init__(parameter.shape[:-1], validate_args)
        if logits is None:
            self._expect("probs of 0 or more, finite, and not only 0", probs, _are_weights)
            self.probs = probs / probs.sum(-1, keepdim=True)
            self.logits = _clamped(self.probs).log()
        else:
            self._expect("logits that are numbers, below inf, and not only -inf", logits, _have_softmax)
            self.logits = logits.log_softmax(-1)
            self.probs = logits.softmax(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Indices of categories, int64."""
        n, count = self.probs.shape[-1], math.prod(sample_shape)
        drawn = multinomial(self.probs.detach().reshape(-1, n), count, True)  # (batch, count)
        return drawn.t().reshape(self._shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value), with value and the batch broadcast."""
        shape = np.broadcast_shapes(value.shape, self.batch_shape)
        index = value.long().expand(shape).unsqueeze(-1)
        return self.logits.expand((*shape, self.logits.shape[-1])).gather(-1, index).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.logits.clamp(min=float(np.finfo(self.logits.dtype).min)) * self.probs).sum(-1)


class Bernoulli(Distribution):
    r"""1 with probability probs (or \sigma(logits)), else 0."""

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ):
        _one_of("Bernoulli", probs, logits)
        (parameter,) = _together(probs if logits is None else logits)
        super().__init__(parameter.shape, validate_args)
        if logits is None:
            self._expect("probs from 0 to 1", parameter, lambda p: (p >= 0) & (p <= 1))
            safe = _clamped(parameter)
            self.probs, self.logits = parameter, safe.log() - (1 - safe).log()
        else:
            self._expect("logits that are numbers", parameter, _are_numbers)
            self.probs, self.logits = parameter.sigmoid(), parameter
        self._of_logits = logits is not None

    def _against(self) -> Tensor:
        """The probability of 0."""
        return (-self.logits).sigmoid() if self._of_logits else 1 - self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """0 or 1, in the dtype of the probabilities."""
        return bernoulli(self.probs.detach().expand(self._shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value)."""
        (value,) = _together(value)
        self._expect("values 0 or 1", value, lambda x: (x == 0) | (x == 1))
        logits, value = _together(self.logits, value)
        if self._validate:
            return logsigmoid((2 * value - 1) * logits)  # no product of 0 and an infinite logarithm
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        logits = self.logits
        if self._of_logits:  # 0 times a logarithm is 0
            most = float(np.finfo(logits.dtype).max)
            logits = logits.clamp(-most, most)
        return -(self.probs * logsigmoid(logits) + self._against() * logsigmoid(-logits))

    @property
    def mean(self) -> Tensor:
        """p."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)


class Normal(Distribution):
    r"""p(x) = e^{-(x - loc)^2 / 2 scale^2} / (scale \sqrt{2 \pi})."""

    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None):
        self.loc, self.scale = _together(loc, scale)
        super().__init__(self.loc.shape, validate_args)
        self._expect("a loc that is a number", self.loc, _are_numbers)
        self._expect("a scale above 0", self.scale, lambda scale: scale > 0)

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
    def mean(self) -> Tensor:
        """loc."""
        return self.loc

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
        super().__init__(batch, validate_args)
        self.event_shape = loc.shape[-1:]
        self._expect("a loc of numbers", loc, _are_numbers)
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
        return self.loc + _times(self._tril, epsilon)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value), of values (..., n)."""
        away = (_times(self._inverse(), value - self.loc) ** 2).sum(-1)
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


def _times(matrix: Tensor, vectors: Tensor) -> Tensor:
    """matrix (..., n, n) times each of the vectors (..., n)."""
    return (matrix @ vectors.unsqueeze(-1)).squeeze(-1)


class Uniform(Distribution):
    """p(x) = 1 / (high - low) from low to below high."""

    has_rsample = True

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None):
        self.low, self.high = _together(low, high)
        super().__init__(self.low.shape, validate_args)
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


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    r"""E_p[\log p - \log q], of two distributions of one kind: Normal, MultivariateNormal, Categorical, Bernoulli."""
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio = p.scale / q.scale
        return 0.5 * (ratio**2 + ((p.loc - q.loc) / q.scale) ** 2 - 1) - ratio.log()
    if isinstance(p, MultivariateNormal) and isinstance(q, MultivariateNormal):
        if p.event_shape != q.event_shape:
            raise ValueError(f"kl_divergence: the vectors have {p.event_shape[0]} and {q.event_shape[0]} elements")
        narrower = q._inverse()
        spread = ((narrower @ p._tril) ** 2).sum((-2, -1))
        away = (_times(narrower, q.loc - p.loc) ** 2).sum(-1)
        return 0.5 * (spread + away - p.event_shape[0]) + q._half_log_det() - p._half_log_det()
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return _relative(p.probs, p.logits, q.probs, q.logits).sum(-1)
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        one = _relative(p.probs, logsigmoid(p.logits), q.probs, logsigmoid(q.logits))
        return one + _relative(p._against(), logsigmoid(-p.logits), q._against(), logsigmoid(-q.logits))
    raise NotImplementedError(
        f"kl_divergence: no formula for {type(p).__name__} and {type(q).__name__}; estimate it from samples: "
        "(p.log_prob(x) - q.log_prob(x)).mean()"
    )


def _relative(p: Tensor, log_p: Tensor, q: Tensor, log_q: Tensor) -> Tensor:
    r"""p (\log p - \log q), but 0 where p is 0, and else inf where q is 0."""
    if state.recording is None and not p.is_meta and not q.is_meta and _all_positive(p) and _all_positive(q):
        return p * (log_p - log_q)
    never, impossible = p == 0, q == 0
    apart = where(never, 0, log_p) - where(never | impossible, 0, log_q)
    return where(impossible & ~never, math.inf, p * apart)


def _all_positive(p: Tensor) -> bool:
    return not p.numel() or p.detach().amin().item() > 0

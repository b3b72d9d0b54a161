"""Distributions of choices: categories, yes or no, and how often each category is drawn."""

import math
from collections.abc import Sequence

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.distributions.distribution import Distribution, are_numbers, broadcast_all
from tinytensor.nn.functional import binary_cross_entropy_with_logits
from tinytensor.ops.creation import arange, ones, zeros
from tinytensor.ops.elementwise import lgamma, log1p, logsigmoid, where
from tinytensor.ops.order import multinomial
from tinytensor.ops.random import bernoulli


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
        super().__init__(parameter.shape[:-1], (), validate_args)
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
        (parameter,) = broadcast_all(probs if logits is None else logits)
        super().__init__(parameter.shape, (), validate_args)
        if logits is None:
            self._expect("probs from 0 to 1", parameter, lambda p: (p >= 0) & (p <= 1))
            safe = _clamped(parameter)
            self.probs, self.logits = parameter, safe.log() - (1 - safe).log()
        else:
            self._expect("logits that are numbers", parameter, are_numbers)
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
        (value,) = broadcast_all(value)
        self._expect("values 0 or 1", value, lambda x: (x == 0) | (x == 1))
        logits, value = broadcast_all(self.logits, value)
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


class Multinomial(Distribution):
    r"""p(x) = n! \prod_i probs_i^{x_i} / x_i!: how often each category comes in n = total_count draws."""

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        if not isinstance(total_count, int) or total_count < 0:
            raise ValueError(f"Multinomial: total_count must be a whole number of 0 or more, got {total_count!r}")
        self.total_count, self._each = total_count, Categorical(probs, logits, validate_args)
        super().__init__(self._each.batch_shape, self._each.probs.shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities of the categories."""
        return self._each.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._each.logits

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The numbers of draws, in the dtype of the probabilities."""
        counts = zeros(self._shape(sample_shape), dtype=self.probs.dtype)
        if not self.total_count or not counts.numel():
            return counts
        drawn = self._each.sample((self.total_count, *sample_shape)).movedim(0, -1)
        return counts.scatter_add(-1, drawn, ones(drawn.shape, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value)."""
        self._expect(
            f"whole numbers of 0 or more, whose sum is {self.total_count}",
            value,
            lambda x: ((x >= 0) & (x % 1 == 0)).all(-1) & (x.sum(-1) == self.total_count),
        )
        logits, value = broadcast_all(self.logits, value)
        orders = lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1)
        return orders + (where(value == 0, 0, logits) * value).sum(-1)

    def entropy(self) -> Tensor:
        n, p = self.total_count, _clamped(self.probs).unsqueeze(-1)
        k = arange(n + 1, dtype=p.dtype)
        orders = lgamma(k + 1)
        binomial = (orders[-1] - orders - orders.flip(0) + k * p.log() + (n - k) * log1p(-p)).exp()
        return n * self._each.entropy() - orders[-1] + (binomial * orders).sum((-1, -2))

    @property
    def mean(self) -> Tensor:
        """n p."""
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

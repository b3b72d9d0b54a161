"""Distributions that are made from others: transformed, mixed, or read as those of vectors."""

from collections.abc import Sequence

from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.distributions.discrete import Categorical
from tinytensor.distributions.distribution import Distribution, sum_rightmost
from tinytensor.distributions.transforms import ComposeTransform, Transform


class Independent(Distribution):
    """A distribution whose last batch dimensions are those of one value: log_prob is their sum."""

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ):
        base, n = base_distribution, reinterpreted_batch_ndims
        if not 0 <= n <= len(base.batch_shape):
            raise ValueError(
                f"Independent: expected reinterpreted_batch_ndims from 0 to {len(base.batch_shape)}, the dimensions of "
                f"batch shape {base.batch_shape}, got {n}"
            )
        self.base_dist, self.reinterpreted_batch_ndims, self.has_rsample = base, n, base.has_rsample
        batch = len(base.batch_shape) - n
        super().__init__(base.batch_shape[:batch], base.batch_shape[batch:] + base.event_shape, validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Tensor:
        """Those of the base."""
        return self.base_dist.mean

    @property
    def variance(self) -> Tensor:
        """Those of the base."""
        return self.base_dist.variance


class MixtureSameFamily(Distribution):
    r"""p(x) = \sum_k w_k p_k(x): w is a Categorical, the p_k lie along the last batch dimension of a distribution."""

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ):
        weights, components = mixture_distribution, component_distribution
        if not isinstance(weights, Categorical):
            raise ValueError(f"MixtureSameFamily: expected a Categorical of weights, got {type(weights).__name__}")
        expected = (*weights.batch_shape, weights.probs.shape[-1])
        if components.batch_shape[-len(expected) :] != expected:
            raise ValueError(
                f"MixtureSameFamily: weights of shape {expected} for components of batch shape "
                f"{components.batch_shape}: expected the same"
            )
        self.mixture_distribution, self.component_distribution = weights, components
        super().__init__(components.batch_shape[:-1], components.event_shape, validate_args)

    def _over(self, x: Tensor) -> Tensor:
        """Numbers of the weights, with dimensions for the elements of a value."""
        return x.reshape(*x.shape, *(1 for _ in self.event_shape))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            dim, weights = -1 - len(self.event_shape), self.mixture_distribution
            others = self.batch_shape[
                : len(self.batch_shape) - len(weights.batch_shape)
            ]  # each with a choice of its own
            chosen = weights.sample((*sample_shape, *others)).unsqueeze(-1)
            samples = self.component_distribution.sample(sample_shape)
            index = self._over(chosen).expand(*chosen.shape, *self.event_shape)
            return samples.gather(dim, index).squeeze(dim)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(value)."""
        each = self.component_distribution.log_prob(value.unsqueeze(-1 - len(self.event_shape)))
        return (each + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    @property
    def mean(self) -> Tensor:
        r"""\sum_k w_k E_k[x]."""
        weights = self._over(self.mixture_distribution.probs)
        return (weights * self.component_distribution.mean).sum(-1 - len(self.event_shape))

    @property
    def variance(self) -> Tensor:
        """The mean of the variances, and the variance of the means."""
        dim, weights = -1 - len(self.event_shape), self._over(self.mixture_distribution.probs)
        away = self.component_distribution.mean - self.mean.unsqueeze(dim)
        return (weights * (self.component_distribution.variance + away**2)).sum(dim)


class TransformedDistribution(Distribution):
    """The distribution of f(x), x of the base, f one transform or several, the first one first."""

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        wrong = [t for t in self.transforms if not isinstance(t, Transform)]
        if wrong:
            raise ValueError(f"TransformedDistribution: expected transforms, got {type(wrong[0]).__name__}")
        base, whole = base_distribution, ComposeTransform(self.transforms)
        shape = base.batch_shape + base.event_shape
        event_dim = max(whole.codomain.event_dim, len(base.event_shape))
        if whole.forward_shape(shape) != shape or event_dim > len(shape):
            raise ValueError(
                f"TransformedDistribution: values of shape {shape} become {whole.forward_shape(shape)}, a value of "
                f"{event_dim} dimensions; give the parameters of {type(base).__name__} the shape of the results"
            )
        self.base_dist = (
            Independent(base, event_dim - len(base.event_shape)) if event_dim > len(base.event_shape) else base
        )
        self.has_rsample = base.has_rsample
        batch = len(shape) - event_dim
        super().__init__(shape[:batch], shape[batch:], validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        r"""\ln p(x) - \sum \ln |dy / dx|, where x gives the value."""
        change, y = 0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            each = transform.log_abs_det_jacobian(x, y)
            change, y = change + sum_rightmost(each, len(self.event_shape) - transform.domain.event_dim), x
        return self.base_dist.log_prob(y) - change

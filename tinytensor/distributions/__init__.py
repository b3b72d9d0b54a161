"""Distributions: samples, log-probabilities and entropies, for policies and variational models.

A distribution has a batch shape (the shape of its parameters) and an event shape (the shape of one value, () unless
values are vectors); `sample((n,))` puts n in front of both. `sample` is outside the tape. Some distributions also have
`rsample`, whose samples are functions of the parameters, through which gradients flow.
"""

from tinytensor.distributions import constraints, kl, transformed_distribution, transforms
from tinytensor.distributions.continuous import Laplace, MultivariateNormal, Normal, Uniform
from tinytensor.distributions.discrete import Bernoulli, Categorical, Multinomial
from tinytensor.distributions.distribution import Distribution, normal
from tinytensor.distributions.gamma_family import Beta, Dirichlet, Gamma, StudentT
from tinytensor.distributions.kl import kl_divergence, register_kl
from tinytensor.distributions.transformed_distribution import Independent, MixtureSameFamily, TransformedDistribution
from tinytensor.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    TanhTransform,
    Transform,
)

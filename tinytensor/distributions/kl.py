"""The Kullback-Leibler divergence of two distributions."""

import math
from collections.abc import Callable
from itertools import product

from tinytensor.core.recorder import is_recording
from tinytensor.core.tensor import Tensor
from tinytensor.distributions.continuous import Laplace, MultivariateNormal, Normal, Uniform, times
from tinytensor.distributions.discrete import Bernoulli, Categorical
from tinytensor.distributions.distribution import Distribution, sum_rightmost
from tinytensor.distributions.gamma_family import Beta, Dirichlet, Gamma
from tinytensor.distributions.transformed_distribution import Independent, TransformedDistribution
from tinytensor.ops.elementwise import digamma, lgamma, logsigmoid, where

_FORMULAS: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable:
    """Declare a function of p and q as the divergence of these types, `@register_kl(Normal, Normal)`."""

    def declared(formula: Callable) -> Callable:
        _FORMULAS[type_p, type_q] = formula
        return formula

    return declared


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    r"""E_p[\log p - \log q], of two distributions of one type; `register_kl` declares others."""
    for pair in product(type(p).__mro__, type(q).__mro__):
        if pair in _FORMULAS:
            return _FORMULAS[pair](p, q)
    raise NotImplementedError(
        f"kl_divergence: no formula for {type(p).__name__} and {type(q).__name__}; estimate it from samples: "
        "(p.log_prob(x) - q.log_prob(x)).mean()"
    )


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = p.scale / q.scale
    return 0.5 * (ratio**2 + ((p.loc - q.loc) / q.scale) ** 2 - 1) - ratio.log()


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence: the vectors have {p.event_shape[0]} and {q.event_shape[0]} elements")
    narrower = q._inverse()
    spread = ((narrower @ p._tril) ** 2).sum((-2, -1))
    away = (times(narrower, q.loc - p.loc) ** 2).sum(-1)
    return 0.5 * (spread + away - p.event_shape[0]) + q._half_log_det() - p._half_log_det()


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    inside = (q.low <= p.low) & (p.high <= q.high)
    return where(inside, ((q.high - q.low) / (p.high - p.low)).log(), math.inf)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return away / q.scale + ratio * (-away / p.scale).exp() - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    orders = lgamma(b) - lgamma(a) + (a - b) * digamma(a)
    return b * (p.rate / q.rate).log() + orders + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    first, second = (lgamma(c.sum(-1)) - lgamma(c).sum(-1) for c in (a, b))
    return first - second + ((a - b) * (digamma(a) - digamma(a.sum(-1, keepdim=True)))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p, q):
    return _dirichlet(p.dirichlet, q.dirichlet)


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    return _relative(p.probs, p.logits, q.probs, q.logits).sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    one = _relative(p.probs, logsigmoid(p.logits), q.probs, logsigmoid(q.logits))
    return one + _relative(p._against(), logsigmoid(-p.logits), q._against(), logsigmoid(-q.logits))


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: the values of the two Independent have other dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: the two TransformedDistribution have other transforms or shapes")
    return kl_divergence(p.base_dist, q.base_dist)


def _relative(p: Tensor, log_p: Tensor, q: Tensor, log_q: Tensor) -> Tensor:
    r"""p (\log p - \log q), but 0 where p is 0, and else inf where q is 0."""
    if not is_recording() and not p.is_meta and not q.is_meta and _all_positive(p) and _all_positive(q):
        return p * (log_p - log_q)
    never, impossible = p == 0, q == 0
    apart = where(never, 0, log_p) - where(never | impossible, 0, log_q)
    return where(impossible & ~never, math.inf, p * apart)


def _all_positive(p: Tensor) -> bool:
    return not p.numel() or p.detach().amin().item() > 0

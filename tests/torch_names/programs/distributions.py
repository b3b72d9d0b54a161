"""Models that are made of distributions: a squashed policy, mixtures, priors with their divergences, their edges."""

import math

import torch
from torch import distributions as D
from torch.distributions import constraints, register_kl, transforms
from torch.distributions.kl import kl_divergence

INF = math.inf


class Squash(transforms.Transform):
    """tanh, as the programs of soft actor-critic write it themselves."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1

    def __init__(self, cache_size=1):
        super().__init__(cache_size=cache_size)

    def __eq__(self, other):
        return isinstance(other, Squash)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return torch.atanh(y.clamp(-0.999, 0.999))

    def log_abs_det_jacobian(self, x, y):
        return 2.0 * (math.log(2.0) - x - torch.nn.functional.softplus(-2.0 * x))


class Policy(D.transformed_distribution.TransformedDistribution):
    def __init__(self, loc, scale):
        self.loc = loc
        super().__init__(D.Normal(loc, scale), [Squash()])

    @property
    def mean(self):
        y = self.loc
        for transform in self.transforms:
            y = transform(y)
        return y


class Point(D.Distribution):
    """All of the probability at one number."""

    arg_constraints = {"at": constraints.real}
    support = constraints.real

    def __init__(self, at):
        self.at = at
        super().__init__(at.shape, validate_args=False)

    def rsample(self, sample_shape=()):
        return self.at.expand((*sample_shape, *self.batch_shape))


@register_kl(Point, D.Normal)
def _point_and_normal(p, q):
    return -q.log_prob(p.at)


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


def divergences():
    a, b = f64([0.5, 1.0, 30.0]), f64([2.0, 1.0, 29.0])
    vectors, others = f64([[0.5, 1.5, 3.0], [2.0, 2.0, 2.0]]), f64([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    normal, wider = D.Normal(f64([[0.0, 1.0]]), f64([[1.0, 2.0]])), D.Normal(f64([[0.5, 1.0]]), f64([[2.0, 2.0]]))
    exp = [transforms.ExpTransform()]
    pairs = [
        (D.Gamma(a, b), D.Gamma(b, a)),
        (D.Gamma(a, b), D.Gamma(a, b)),
        (D.Beta(a, b), D.Beta(b, b)),
        (D.Dirichlet(vectors), D.Dirichlet(others)),
        (D.Laplace(a, b), D.Laplace(b, a)),
        (D.Laplace(a, b), D.Laplace(a, b)),
        (D.Uniform(f64([0.0, 0.0, 0.0]), 1.0), D.Uniform(f64([0.0, -1.0, 0.5]), 2.0)),
        (D.Independent(normal, 1), D.Independent(wider, 1)),
        (D.Independent(normal, 2), D.Independent(wider, 2)),
        (D.TransformedDistribution(normal, exp), D.TransformedDistribution(wider, exp)),
        (Policy(a, b), Policy(b, a)),
        (Point(a), D.Normal(b, a)),
    ]
    refused = []
    for p, q in [
        (D.Gamma(a, b), D.StudentT(a, b)),
        (D.Independent(normal, 1), D.Independent(wider, 2)),
        (D.TransformedDistribution(normal, exp), D.TransformedDistribution(wider, [transforms.SigmoidTransform()])),
        (D.Normal(a, b), Point(a)),
    ]:
        try:
            refused.append(kl_divergence(p, q).tolist())
        except NotImplementedError:
            refused.append("NotImplementedError")
    return [kl_divergence(p, q).tolist() for p, q in pairs], refused


def edges():
    """Values at the ends of the support, and the smallest and largest parameters."""
    tiny, huge = f64([1e-30, 1e-3, 1.0, 2.0]), f64([1e4, 1e3, 1.0, 2.0])
    zero, one = f64(0.0), f64(1.0)
    densities = [
        D.Gamma(tiny, 1.0).log_prob(zero),
        D.Gamma(huge, 1.0).log_prob(huge),
        D.Beta(tiny, huge).log_prob(zero),
        D.Beta(huge, tiny).log_prob(one),
        D.Beta(huge, huge).log_prob(f64(0.5)),
        D.Dirichlet(f64([[1.0, 1.0], [2.0, 0.5], [1e-3, 1e-3]])).log_prob(f64([1.0, 0.0])),
        D.StudentT(huge).log_prob(f64([0.0, 1.0, INF, -3.0])),
        D.StudentT(tiny[1:]).log_prob(zero),
        D.Laplace(0.0, tiny).log_prob(f64([0.0, 1.0, INF, -2.0])),
        D.Laplace(zero, one).icdf(f64([0.0, 0.25, 0.5, 1.0])),
        D.Laplace(zero, one).cdf(f64([-INF, -1.0, 0.0, INF])),
        D.Multinomial(0, f64([0.5, 0.5])).log_prob(f64([0.0, 0.0])),
        D.Multinomial(3, f64([1.0, 0.0])).log_prob(f64([[3.0, 0.0], [2.0, 1.0]])),
        D.Multinomial(2, f64([1.0])).log_prob(f64([2.0])),
        D.MixtureSameFamily(D.Categorical(f64([1.0, 0.0])), D.Laplace(f64([0.0, 5.0]), 1.0)).log_prob(f64([1.0, 6.0])),
        D.TransformedDistribution(D.Normal(zero, one), transforms.SigmoidTransform()).log_prob(f64([1e-300, 0.5])),
        D.Gamma(torch.ones(0).double(), 1.0).entropy(),
    ]
    refused = []
    for make in (
        lambda: D.Gamma(0.0, 1.0),
        lambda: D.Gamma(1.0, f64([1.0, -1.0])),
        lambda: D.Beta(1.0, math.nan),
        lambda: D.Dirichlet(f64(1.0)),
        lambda: D.Dirichlet(f64([0.0, 1.0])),
        lambda: D.StudentT(-1.0),
        lambda: D.Laplace(0.0, 0.0),
        lambda: D.Multinomial(-1, f64([1.0])),
        lambda: D.Gamma(1.0, 1.0).log_prob(f64(-1.0)),
        lambda: D.Beta(1.0, 1.0).log_prob(f64(1.5)),
        lambda: D.Dirichlet(f64([1.0, 1.0])).log_prob(f64([0.5, 0.6])),
        lambda: D.Multinomial(2, f64([0.5, 0.5])).log_prob(f64([1.0, 2.0])),
        lambda: D.Independent(D.Normal(zero, one), 1),
        lambda: D.MixtureSameFamily(D.Categorical(f64([0.5, 0.5])), D.Normal(torch.zeros(3), 1.0)),
        lambda: D.TransformedDistribution(D.Normal(zero, one), [torch.exp]),
    ):
        try:
            refused.append(str(make()))
        except ValueError:
            refused.append("ValueError")
    return [t.tolist() for t in densities], refused


def near(values, mean, variance):
    return bool(((values.mean(0) - mean).abs() < 5 * (variance / len(values)).sqrt()).all())


def samples(n=3000):
    """Do samples have the moments of the distribution, and gradients their derivatives?"""
    torch.manual_seed(0)
    a, b = f64([0.05, 0.7, 3.0, 40.0]), f64([0.5, 2.0, 1.0, 3.0])
    simple = [
        D.Gamma(a, b),
        D.Beta(a, b),
        D.Laplace(a, b),
        D.StudentT(b + 4, a, b),
        D.Dirichlet(a),
        D.Multinomial(7, a),
    ]
    simple.append(D.MixtureSameFamily(D.Categorical(f64([[0.3, 0.7]])), D.Normal(f64([[0.0, 4.0]]), f64([[1.0, 2.0]]))))
    follows = [near(d.sample((n,)), d.mean, d.variance) for d in simple]
    for make, derivative in (
        (lambda p: D.Gamma(p, b), 1 / b),
        (lambda p: D.Beta(p, b), b / (a + b) ** 2),
        (lambda p: D.Laplace(p, b), torch.ones(4).double()),
        (lambda p: D.StudentT(b + 4, p, b), torch.ones(4).double()),
    ):
        p = a.expand(n, 4).clone().requires_grad_()
        make(p).rsample().sum().backward()
        follows.append(near(p.grad, derivative, p.grad.var(0) + 1e-12))
    p = a.clone().requires_grad_()
    policy = Policy(p, b)
    action = policy.rsample((3,))
    entropy = -policy.log_prob(action).mean()
    entropy.backward()
    bounds = [bool((action.abs() <= 1).all()), bool(torch.isfinite(p.grad).all()), policy.mean.tolist()]
    return follows, bounds, [d.has_rsample for d in simple]


def run():
    return {"divergences": divergences(), "edges": edges(), "samples": samples()}

"""Distributions: PyTorch's log-probabilities, entropies and gradients, and samples that follow the parameters."""

import contextlib
import math
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from safetensors import safe_open

import tinytensor as tt
from tinytensor import distributions
from tinytensor.distributions import (
    AffineTransform,
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    Independent,
    Laplace,
    MixtureSameFamily,
    Multinomial,
    MultivariateNormal,
    Normal,
    StudentT,
    TanhTransform,
    TransformedDistribution,
    Uniform,
    continuous,
    kl_divergence,
)
from tinytensor.distributions.gamma_samples import slope

P = [[0.1, 0.2, 0.7], [1.0, 3.0, 0.0]]
COVARIANCE = [[2.0, 0.5], [0.5, 1.0]]
L = [[0.5, -1.0, 2.0], [0.0, 30.0, -30.0]]


def f64(lib, values):
    return lib.tensor(values, dtype=lib.float64).requires_grad_()


# programs for both libraries: the distribution of a parameter, the parameter, a value
PROGRAMS = {
    "categorical, probs": (lambda d, p: d.Categorical(p), P, [2, 0]),
    "categorical, logits": (lambda d, p: d.Categorical(logits=p), L, [1, 1]),
    "categorical, one batch": (lambda d, p: d.Categorical(logits=p), L[0], [[0, 1], [2, 2]]),
    "categorical, no batch": (lambda d, p: d.Categorical(p), P[0], 1),
    "bernoulli, probs": (lambda d, p: d.Bernoulli(p), [0.0, 0.3, 1.0], [0.0, 1.0, 1.0]),
    "bernoulli, logits": (lambda d, p: d.Bernoulli(logits=p), [-40.0, 0.3, 2.0], [1.0, 1.0, 0.0]),
    "normal": (lambda d, p: d.Normal(p, 2.0), [0.5, -1.0], [[0.0, 1.0], [3.0, -2.0]]),
    "normal, its scale": (lambda d, p: d.Normal(0.5, p), [0.5, 3.0], [0.25, 9.0]),
    "multivariate, its loc": (lambda d, p: d.MultivariateNormal(p, p.new_tensor(COVARIANCE)), [0.5, -1.0], [1.0, 2.0]),
    "multivariate, its covariance": (
        lambda d, p: d.MultivariateNormal(p.new_tensor([0.5, -1.0]), p),
        COVARIANCE,
        [[0.0, 1.0], [3.0, -2.0]],
    ),
    "multivariate, its precision": (
        lambda d, p: d.MultivariateNormal(p.new_tensor([[0.5, -1.0], [0.0, 3.0]]), precision_matrix=p),
        COVARIANCE,
        [0.0, 1.0],
    ),
    "multivariate, its factor": (
        lambda d, p: d.MultivariateNormal(p.new_tensor([0.5, -1.0]), scale_tril=p),
        [[[2.0, 0.0], [0.3, 0.5]], [[1.0, 0.0], [-4.0, 3.0]]],
        [[[0.0, 1.0]], [[0.5, -1.0]]],
    ),
    "multivariate, of one element": (
        lambda d, p: d.MultivariateNormal(p, p.new_tensor([[4.0]])),
        [0.5],
        [[1.0], [0.5]],
    ),
    "uniform": (lambda d, p: d.Uniform(p, 4.0), [0.5, -1.0], [0.5, 3.0]),
    "uniform, outside": (lambda d, p: d.Uniform(0.0, p), [0.5, 1.0], [0.5, -3.0]),
    "laplace": (lambda d, p: d.Laplace(p, 2.0), [0.5, -1.0], [[0.0, 1.0], [3.0, -2.0]]),
    "laplace, its scale": (lambda d, p: d.Laplace(0.5, p), [0.5, 3.0], [0.25, 9.0]),
    "gamma": (lambda d, p: d.Gamma(p, 2.0), [0.5, 1.0, 30.0], [0.25, 0.5, 12.0]),
    "gamma, its rate": (lambda d, p: d.Gamma(3.0, p), [0.5, 2.0], [[0.0, 1.0], [3.0, 100.0]]),
    "beta": (lambda d, p: d.Beta(p, 2.0), [0.5, 3.0], [0.25, 0.9]),
    "beta, small": (lambda d, p: d.Beta(p, p), [1e-3, 0.1], [0.5, 0.01]),
    "dirichlet": (
        lambda d, p: d.Dirichlet(p),
        [[0.5, 1.5, 3.0], [2.0, 2.0, 2.0]],
        [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]],
    ),
    "dirichlet, of one": (lambda d, p: d.Dirichlet(p), [2.5], [[1.0], [1.0]]),
    "student's t": (lambda d, p: d.StudentT(p), [0.5, 1.5, 30.0], [0.0, 1.0, -20.0]),
    "student's t, its scale": (lambda d, p: d.StudentT(3.0, p, p), [0.5, 2.0], [0.5, -1.0]),
    "multinomial, probs": (lambda d, p: d.Multinomial(4, p), P, [[1.0, 1.0, 2.0], [0.0, 4.0, 0.0]]),
    "multinomial, logits": (lambda d, p: d.Multinomial(3, logits=p), L, [[1.0, 1.0, 1.0], [0.0, 3.0, 0.0]]),
    "independent": (lambda d, p: d.Independent(d.Normal(p, 2.0), 1), [[0.5, -1.0]], [[0.0, 1.0], [3.0, -2.0]]),
    "independent, of nothing": (lambda d, p: d.Independent(d.Normal(p, 2.0), 0), [0.5, -1.0], [0.0, 1.0]),
    "mixture, its weights": (
        lambda d, p: d.MixtureSameFamily(d.Categorical(logits=p), d.Normal(p.new_tensor([0.0, 1.0, -2.0]), 0.5)),
        L[0],
        [0.3, -4.0],
    ),
    "mixture, of vectors": (
        lambda d, p: d.MixtureSameFamily(d.Categorical(p.new_tensor([0.3, 0.7])), d.Independent(d.Normal(p, 1.5), 1)),
        [[0.0, 1.0], [2.0, -1.0]],
        [[0.5, 0.5], [2.0, -1.0]],
    ),
    "transformed, exp": (
        lambda d, p: d.TransformedDistribution(d.Normal(p, 0.5), d.transforms.ExpTransform()),
        [0.5, -1.0],
        [1.0, 0.2],
    ),
    "transformed, tanh": (
        lambda d, p: d.TransformedDistribution(
            d.Normal(p, 0.5), [d.transforms.TanhTransform(), d.transforms.AffineTransform(1.0, 2.0)]
        ),
        [0.5, -1.0],
        [[1.5, -0.9]],
    ),
    "transformed, vectors": (
        lambda d, p: d.TransformedDistribution(d.Independent(d.Normal(p, 1.0), 1), [d.transforms.SigmoidTransform()]),
        [0.5, -1.0],
        [[0.5, 0.1], [0.9, 0.0]],
    ),
    "transformed, to vectors": (
        lambda d, p: d.TransformedDistribution(
            d.Normal(p, 1.0),
            [d.transforms.AffineTransform(p.new_tensor([1.0, 2.0]), p.new_tensor([2.0, -3.0]), event_dim=1)],
        ),
        [0.5, -1.0],
        [0.5, 0.1],
    ),
    "transformed, composed": (
        lambda d, p: d.TransformedDistribution(
            d.Laplace(p, 1.0),
            d.transforms.ComposeTransform([d.transforms.ExpTransform(), d.transforms.AffineTransform(0.0, p, 1)]),
        ),
        [0.5, 1.0],
        [0.5, 0.1],
    ),
    "transformed, inverse": (
        lambda d, p: d.TransformedDistribution(d.Gamma(p, 1.0), d.transforms.ExpTransform().inv),
        [0.5, 3.0],
        [-2.0, 1.0],
    ),
}


def facts(lib, name):
    make, parameter, value = PROGRAMS[name]
    p = f64(lib, parameter)
    d = make(lib.distributions, p)
    whole = isinstance(d, lib.distributions.Categorical)
    x = lib.tensor(value, dtype=lib.int64 if whole else lib.float64)
    results = {"log_prob": d.log_prob(x)}
    with contextlib.suppress(NotImplementedError):
        results["entropy"] = d.entropy()
    finite = lib.where(results["log_prob"] > -1e300, results["log_prob"], lib.zeros_like(results["log_prob"]))
    (finite.sum() + results.get("entropy", finite).sum()).backward()
    results["gradient"] = p.grad
    for attribute in ("mean", "variance", "stddev") if not whole else ("probs", "logits"):
        with contextlib.suppress(NotImplementedError):
            results[attribute] = getattr(d, attribute)
    return {k: np.array(v.tolist()) for k, v in results.items()} | {
        "batch": np.array(tuple(d.batch_shape)),
        "event": np.array(tuple(d.event_shape)),
        "samples": np.array(tuple(d.sample((4, 2)).shape)),
        "has_rsample": np.array(d.has_rsample),
    }


# what the formulas give, apart from PyTorch
def test_values_by_hand():
    d = Categorical(tt.tensor(P, dtype=tt.float64))
    assert np.allclose(d.log_prob(tt.tensor([2, 1])).tolist(), np.log([0.7, 0.75]), rtol=1e-12)
    assert np.allclose(d.entropy()[0].item(), -np.sum(np.array(P[0]) * np.log(P[0])), rtol=1e-12)
    n = Normal(1.0, 2.0)
    assert n.log_prob(tt.tensor(3.0)).item() == pytest.approx(-0.5 - math.log(2 * math.sqrt(2 * math.pi)), rel=1e-6)
    assert n.entropy().item() == pytest.approx(0.5 * math.log(2 * math.pi * math.e * 4), rel=1e-6)
    assert n.cdf(tt.tensor(1.0)).item() == 0.5
    b = Bernoulli(logits=tt.tensor(0.0))
    assert b.log_prob(tt.tensor(1.0)).item() == pytest.approx(math.log(0.5))
    u = Uniform(-1.0, 3.0)
    assert u.log_prob(tt.tensor([0.0, 3.0])).tolist() == pytest.approx([-math.log(4), -math.inf])


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_match_pytorch(name):
    """The table is PyTorch's, written by oracle/generate_distributions.py."""
    ours = facts(tt, name)
    with safe_open(
        Path(__file__).parent / "samples" / "oracle" / "programs" / "distributions.safetensors", "np"
    ) as file:
        theirs = {n.partition("|")[2]: file.get_tensor(n) for n in file.keys() if n.startswith(f"{name}|")}  # noqa: SIM118
    assert ours.keys() == theirs.keys()
    for key in ours:
        # PyTorch's trigamma function, the gradient of digamma in entropies, has nine digits
        rtol = 1e-8 if key == "gradient" and re.match("gamma|beta|dirichlet|student", name) else 1e-12
        np.testing.assert_allclose(ours[key], theirs[key], rtol=rtol, atol=2e-14, err_msg=key)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["Normal", "MultivariateNormal", "Categorical", "Bernoulli"])
def test_kl_divergence(name):
    p, q = {
        "Normal": (Normal(0.5, 2.0), Normal(-1.0, 0.7)),
        "MultivariateNormal": (
            MultivariateNormal(tt.tensor([0.5, -1.0]), tt.tensor(COVARIANCE)),
            MultivariateNormal(tt.zeros(2), precision_matrix=tt.tensor(COVARIANCE)),
        ),
        "Categorical": (Categorical(tt.tensor(P[0])), Categorical(logits=tt.tensor(L[0]))),
        "Bernoulli": (Bernoulli(tt.tensor(0.3)), Bernoulli(tt.tensor(0.8))),
    }[name]
    tt.manual_seed(0)
    x = p.sample((40_000,))
    differences = (p.log_prob(x) - q.log_prob(x)).numpy()
    assert abs(differences.mean() - kl_divergence(p, q).item()) < 5 * differences.std() / 200
    assert kl_divergence(p, p).item() == pytest.approx(0, abs=1e-6)
    with pytest.raises(NotImplementedError, match=r"estimate it from samples"):
        kl_divergence(p, Uniform(0.0, 1.0))


INF = math.inf
KL_AT_EDGES = {  # made of, the first, the second: the divergence
    "probs": [
        (Categorical, [0.5, 0.5, 0.0], [0.5, 0.5, 0.0], 0.0),
        (Categorical, [0.5, 0.5, 0.0], [0.25, 0.25, 0.5], math.log(2)),
        (Categorical, [0.25, 0.25, 0.5], [0.5, 0.5, 0.0], INF),
        (Categorical, [1.0, 0.0], [0.0, 1.0], INF),
        (Categorical, [1.0, 0.0], [1.0, 0.0], 0.0),
        (Bernoulli, 0.0, 0.0, 0.0),
        (Bernoulli, 1.0, 1.0, 0.0),
        (Bernoulli, 0.0, 0.5, math.log(2)),
        (Bernoulli, 1.0, 0.5, math.log(2)),
        (Bernoulli, 0.5, 0.0, INF),
        (Bernoulli, 0.5, 1.0, INF),
        (Bernoulli, 0.0, 1.0, INF),
        (Bernoulli, 1.0, 0.0, INF),
    ],
    "logits": [
        (Categorical, [0.0, 0.0, -INF], [0.0, 0.0, -INF], 0.0),
        (Categorical, [0.0, 0.0, -INF], [0.0, 0.0, math.log(2)], math.log(2)),
        (Categorical, [0.0, 0.0, 0.0], [0.0, 0.0, -INF], INF),
        (Categorical, [0.0, 0.0], [0.0, -80.0], 40 - math.log(2)),
        (Bernoulli, -INF, -INF, 0.0),
        (Bernoulli, INF, INF, 0.0),
        (Bernoulli, -INF, 0.0, math.log(2)),
        (Bernoulli, INF, 0.0, math.log(2)),
        (Bernoulli, 0.0, -INF, INF),
        (Bernoulli, 0.0, INF, INF),
        (Bernoulli, -INF, INF, INF),
        (Bernoulli, 0.0, 80.0, 40 - math.log(2)),
    ],
}


@pytest.mark.parametrize("made_of", KL_AT_EDGES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_kl_divergence_at_the_edges(made_of, dtype):
    """No number is NaN: 0 where both are 0, inf where only the second one is."""
    for category, first, second, right in KL_AT_EDGES[made_of]:
        a, b = (tt.tensor(v, dtype=dtype, requires_grad=True) for v in (first, second))
        y = kl_divergence(category(**{made_of: a}), category(**{made_of: b}))
        assert y.item() == pytest.approx(right, rel=1e-6, abs=1e-9), (category, first, second)
        y.backward()
        assert all(not x.grad.isnan().any() for x in (a, b)), (category, first, second)


def test_entropies_and_probabilities_at_the_edges():
    for logit, value in ((-INF, 0.0), (INF, 1.0)):
        certain = Bernoulli(logits=tt.tensor(logit, requires_grad=True))
        assert certain.entropy().item() == certain.log_prob(tt.tensor(value)).item() == 0
        assert certain.log_prob(tt.tensor(1 - value)).item() == -INF
    for p in (0.0, 1.0):
        assert Bernoulli(tt.tensor(p)).entropy().item() == pytest.approx(0, abs=2e-7)
        assert Categorical(tt.tensor([p, 1 - p])).entropy().item() == pytest.approx(0, abs=2e-7)
        logits = tt.tensor([p, 1 - p]).log()
        assert Categorical(logits=logits).entropy().item() == 0
    narrow = Normal(0.0, 1e-25)
    assert narrow.log_prob(tt.tensor(0.0)).item() == pytest.approx(25 * math.log(10) - 0.5 * math.log(2 * math.pi))
    assert kl_divergence(narrow, Normal(0.0, 1.0)).item() == pytest.approx(25 * math.log(10) - 0.5)
    assert kl_divergence(narrow, narrow).item() == 0


N = 40_000


def near(values, mean, variance):
    values = np.asarray(values, float)
    return abs(values.mean() - mean) < 5 * math.sqrt(variance / values.size)


@pytest.mark.slow
def test_samples_follow_their_distribution():
    tt.manual_seed(0)
    c = Categorical(tt.tensor([P[0], [0.2, 0.8, 0.0]])).sample((N,)).numpy()
    assert c.shape == (N, 2) and c.dtype == np.int64
    assert all(near(c[:, 0] == k, p, p * (1 - p)) for k, p in enumerate(P[0]))
    assert near(c[:, 1] == 1, 0.8, 0.16) and not (c[:, 1] == 2).any() and not near(c[:, 0] == 2, 0.68, 0.21)
    n = Normal(tt.tensor([1.0, -2.0]), tt.tensor([0.5, 3.0])).sample((N,)).numpy()
    assert near(n[:, 0], 1, 0.25) and near(n[:, 1], -2, 9) and near((n[:, 1] + 2) ** 2, 9, 2 * 81)
    b = Bernoulli(tt.tensor(0.3)).sample((N,)).numpy()
    assert near(b, 0.3, 0.21) and set(b) == {0.0, 1.0}
    u = Uniform(-1.0, 3.0).sample((N,)).numpy()
    assert near(u, 1, 16 / 12) and u.min() >= -1 and u.max() < 3
    z = tt.normal(tt.tensor([0.0, 5.0]).repeat(N, 1), 2.0).numpy()
    assert near(z[:, 0], 0, 4) and near(z[:, 1], 5, 4) and near((z[:, 0]) ** 2, 4, 32)
    assert tt.normal(0, 1, (2, 3)).shape == (2, 3) and tt.normal(0.0, tt.ones(4)).shape == (4,)


def test_samples_of_vectors():
    tt.manual_seed(0)
    covariance = np.array([COVARIANCE, [[1.0, -0.9], [-0.9, 1.0]]])
    loc = np.array([[1.0, -2.0], [0.0, 5.0]])
    d = MultivariateNormal(tt.tensor(loc), tt.tensor(covariance))
    x = d.sample((N,)).numpy()
    assert x.shape == (N, 2, 2) and d.batch_shape == d.event_shape + () == (2,)
    for b, i, j in np.ndindex(2, 2, 2):
        products = (x[:, b, i] - loc[b, i]) * (x[:, b, j] - loc[b, j])
        variance = covariance[b, i, i] * covariance[b, j, j] + covariance[b, i, j] ** 2
        assert near(x[:, b, i], loc[b, i], covariance[b, i, i]) and near(products, covariance[b, i, j], variance)
    assert not near(products, covariance[1, 1, 1] + 0.1, variance)


def test_diagonal_multivariate_normal_equals_normals():
    loc, scale = tt.tensor([0.5, -1.0, 3.0]).double(), tt.tensor([0.5, 2.0, 1.0]).double()
    d, each, x = MultivariateNormal(loc, scale_tril=scale.diag()), Normal(loc, scale), tt.zeros(4, 3).double()
    assert tt.allclose(d.log_prob(x), each.log_prob(x).sum(-1), rtol=1e-12)
    assert tt.allclose(d.entropy(), each.entropy().sum(-1), rtol=1e-12)
    other = MultivariateNormal(tt.zeros(3).double(), tt.eye(3).double())
    expected = kl_divergence(each, Normal(tt.zeros(3).double(), tt.ones(3).double())).sum()
    assert tt.allclose(kl_divergence(d, other), expected, rtol=1e-12)
    assert tt.allclose(d.precision_matrix @ d.covariance_matrix, tt.eye(3).double())


def test_gradients_of_vectors_go_through_rsample():
    L = tt.tensor([[2.0, 0.0], [1.0, 3.0]], requires_grad=True)
    d = MultivariateNormal(tt.zeros(2), scale_tril=L)
    assert MultivariateNormal.has_rsample and not d.sample().requires_grad
    tt.manual_seed(3)
    d.rsample((5,)).sum().backward()
    tt.manual_seed(3)
    epsilon = tt.randn(5, 2).sum(0)
    assert tt.allclose(L.grad, epsilon.expand(2, 2))


def test_gradients_go_through_rsample_only():
    loc = tt.tensor([1.0, 2.0], requires_grad=True)
    d = Normal(loc, tt.ones(2))
    assert not d.sample().requires_grad
    (d.rsample((3,)) * 2).sum().backward()
    assert loc.grad.tolist() == [6.0, 6.0]
    assert Normal.has_rsample and Uniform.has_rsample and not Categorical.has_rsample
    with pytest.raises(NotImplementedError, match=r"Bernoulli: no gradient flows through such a choice; use sample"):
        Bernoulli(tt.tensor(0.5)).rsample()


def test_policy_gradient_learns():
    tt.manual_seed(0)
    logits = tt.zeros(3, requires_grad=True)
    optimizer = tt.optim.Adam([logits], lr=0.1)
    for _ in range(100):
        d = Categorical(logits=logits)
        action = d.sample((16,))
        reward = (action == 1).float()
        optimizer.zero_grad()
        (-(d.log_prob(action) * (reward - reward.mean())).mean()).backward()
        optimizer.step()
    assert Categorical(logits=logits).probs[1].item() > 0.9


def test_distributions_in_a_recording():
    step = tt.compile(lambda x: Normal(x, tt.ones(2)).rsample() * 0 + Normal(x, tt.ones(2)).log_prob(x))
    for value in (0.0, 3.0):
        assert step(tt.full((2,), value)).tolist() == pytest.approx([-math.log(math.sqrt(2 * math.pi))] * 2)


def test_parameters_that_differ_by_example():
    """vmap has no values to check."""
    x = tt.tensor([0.5, 2.0])
    y = tt.vmap(lambda x: Normal(x, x).log_prob(x) + Bernoulli(x / 4).log_prob(tt.tensor(1.0)))(x)
    assert y.tolist() == pytest.approx([math.log(n / 4) - math.log(n * math.sqrt(2 * math.pi)) for n in (0.5, 2.0)])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Categorical(), "give either probs or logits, and not both"),
        (lambda: Bernoulli(probs=0.5, logits=0.5), "give either probs or logits"),
        (lambda: Categorical(tt.tensor(0.5)), "at least one dimension"),
        (lambda: Categorical(tt.tensor([0.5, -0.5])), r"Categorical: expected probs of 0 or more, .*got \[0.5, -0.5\]"),
        (lambda: Categorical(tt.zeros(2)), "and not only 0"),
        (lambda: Categorical(logits=tt.tensor([0.0, math.nan])), "logits that are numbers"),
        (lambda: Categorical(logits=tt.tensor([0.0, math.inf])), r"below inf, .* got \[0.0, inf\]"),
        (lambda: Categorical(logits=tt.full((2,), -math.inf)), "and not only -inf"),
        (lambda: Categorical(logits=tt.zeros(2, 0)), "and not only -inf"),
        (lambda: Categorical(tt.tensor([0.5, math.inf])), r"finite, .*got \[0.5, inf\]"),
        (lambda: Categorical(tt.zeros(0)), "and not only 0"),
        (lambda: Normal(math.nan, 1.0), "Normal: expected a loc that is a number, got nan"),
        (lambda: Normal(0.0, math.nan), "expected a scale above 0, got nan"),
        (lambda: Bernoulli(logits=math.nan), "expected logits that are numbers, got nan"),
        (lambda: Bernoulli(math.nan), "expected probs from 0 to 1, got nan"),
        (lambda: Uniform(math.nan, 1.0), "expected high above low"),
        (lambda: MultivariateNormal(tt.tensor([0.0, math.nan]), tt.eye(2)), r"loc of numbers, got \[0.0, nan\]"),
        (lambda: Normal(0.0, 0.0), r"Normal: expected a scale above 0, got 0.0"),
        (lambda: Normal(tt.zeros(2), tt.ones(3)), r"shapes \[\(2,\), \(3,\)\] do not broadcast"),
        (
            lambda: MultivariateNormal(tt.zeros(2)),
            "give one of covariance_matrix, precision_matrix and scale_tril, not 0",
        ),
        (lambda: MultivariateNormal(tt.zeros(2), tt.eye(2), tt.eye(2)), "give one of .* not 2"),
        (lambda: MultivariateNormal(tt.zeros(2), tt.eye(3)), r"got \(2,\) and \(3, 3\)"),
        (lambda: MultivariateNormal(tt.tensor(0.0), tt.eye(1)), r"expected loc \(..., n\)"),
        (lambda: MultivariateNormal(tt.zeros(3, 2), tt.eye(2).expand(4, 2, 2)), r"do not broadcast"),
        (lambda: MultivariateNormal(tt.zeros(2), tt.tensor([[1.0, 2.0], [0.0, 1.0]])), "expected a symmetric matrix"),
        (lambda: MultivariateNormal(tt.zeros(2), scale_tril=-tt.eye(2)), "a lower triangular matrix with a diagonal"),
        (
            lambda: MultivariateNormal(tt.zeros(2), scale_tril=tt.ones(2, 2)),
            "a lower triangular matrix with a diagonal",
        ),
        (lambda: Uniform(1.0, 1.0), "expected high above low"),
        (lambda: Bernoulli(1.5), "expected probs from 0 to 1, got 1.5"),
        (lambda: Bernoulli(0.5).log_prob(tt.tensor(0.5)), "expected values 0 or 1"),
        (lambda: tt.normal(0.0, -1.0, (2,)), "normal: expected std of 0 or more"),
    ],
)
def test_wrong_parameters_raise(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_covariance_that_is_not_positive_definite():
    with pytest.raises(tt.linalg.LinAlgError, match=r"MultivariateNormal: .*positive definite"):
        MultivariateNormal(tt.zeros(2), tt.tensor([[1.0, 2.0], [2.0, 1.0]]))


def test_validation_can_be_switched_off():
    assert Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert issubclass(Normal, distributions.Distribution)


# --- The gamma distribution, and what is made from its samples


def test_gamma_functions():
    """ln Gamma(x) is math.lgamma's; digamma and its derivative have closed forms at 1/2 and at whole numbers."""
    x = [1e-12, 1e-3, 0.5, 1.0, 1.5, 2.0, 3.7, 9.0, 100.0, 1e6, 1e12]
    np.testing.assert_allclose(tt.lgamma(f64(tt, x)).tolist(), [math.lgamma(v) for v in x], rtol=1e-14, atol=1e-14)
    x, euler = f64(tt, [0.5, 1.0, 4.0]), 0.57721566490153286
    y = tt.digamma(x)
    np.testing.assert_allclose(y.tolist(), [-euler - 2 * math.log(2), -euler, 11 / 6 - euler], rtol=1e-14)
    y.sum().backward()
    third = math.pi**2 / 6
    np.testing.assert_allclose(x.grad.tolist(), [3 * third, third, third - 1 - 1 / 4 - 1 / 9], rtol=1e-13)
    tt.lgamma(p := tt.tensor([0.5], requires_grad=True)).backward()
    assert p.grad.dtype == tt.float32 and p.grad.item() == pytest.approx(tt.digamma(p).item(), rel=1e-6)
    a = f64(tt, 1e8)
    peak = -0.5 * math.log(2 * math.pi * 1e8)
    assert Gamma(a, 1.0).log_prob(a).item() == pytest.approx(peak, rel=1e-7)


@pytest.mark.parametrize("a", [1e-3, 0.3, 1.0, 4.5, 60.0])
@pytest.mark.parametrize("u", [1e-6, 0.2, 0.5, 0.8, 0.999])
def test_slope_of_gamma_samples(a, u):
    """As a moves, a sample z moves so that the probability of less stays: dz / da = -(dF / da) / p."""
    z = float(np.quantile(np.random.default_rng(0).standard_gamma(a, 10_000), u)) or 1e-300
    with mpmath.workdps(40):
        moves = mpmath.diff(lambda v: mpmath.gammainc(v, 0, z, regularized=True), a, h=mpmath.mpf(10) ** -12 * a)
        right = -moves * mpmath.gamma(a) * mpmath.e**z / mpmath.mpf(z) ** a
    for factor, is_right in ((1, True), (1 + 1e-6, False)):
        ours = slope(f64(tt, a * factor), f64(tt, math.log(z))).item()
        assert (ours == pytest.approx(float(right), rel=1e-9)) is is_right


def test_slope_of_many_gamma_samples_together():
    """At a million Gamma is nearly normal: z = a + sqrt(a) x, so dz / da = 1 + x / (2 sqrt(a))."""
    a, x = 1e6, np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    z = a + math.sqrt(a) * x
    moves = slope(tt.full((5,), a, dtype=tt.float64), tt.tensor(np.log(z))).numpy() * z
    np.testing.assert_allclose(moves, 1 + x / (2 * math.sqrt(a)), atol=1e-5)
    assert slope(tt.ones(0), tt.ones(0)).shape == (0,)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_samples_of_tiny_concentrations(dtype):
    """Where numbers of Gamma(a, 1) are smaller than any float, their ratios still are numbers."""
    tt.manual_seed(0)
    p = tt.tensor([1e-4, 1e-3, 0.1], dtype=dtype, requires_grad=True)
    samples = {
        "Gamma": Gamma(p, 1.0).rsample((500,)),
        "Beta": Beta(p, p).rsample((500,)),
        "Dirichlet": Dirichlet(p).rsample((500,)),
        "StudentT": StudentT(p + 1).rsample((500,)),
    }
    for name, x in samples.items():
        assert x.dtype == dtype and x.isfinite().all(), name
        assert name == "StudentT" or (x > 0).all(), name
    assert tt.allclose(samples["Dirichlet"].sum(-1), tt.ones(500, dtype=dtype))
    near_a_corner = (samples["Dirichlet"].amax(-1) > 0.99).double().mean().item()
    assert near_a_corner > 0.95 and abs(samples["Beta"][:, 0].mean().item() - 0.5) < 0.15
    sum(x.log().mean() for x in (samples["Gamma"], samples["Beta"], samples["Dirichlet"])).backward()
    assert p.grad.isfinite().all() and p.grad.any()


def test_distributions_of_nothing():
    nothing = tt.ones(0, 3)
    for d in (Gamma(nothing, 1.0), Beta(nothing, 1.0), StudentT(nothing), Laplace(nothing, 1.0), Dirichlet(nothing)):
        assert d.sample((2,)).shape == (2, 0, 3) and d.sample((0,)).shape == (0, 0, 3)
        assert d.entropy().shape == d.batch_shape == d.log_prob(nothing).shape
    counts = Multinomial(0, tt.tensor([0.5, 0.5])).sample((3,))
    assert counts.tolist() == [[0.0, 0.0]] * 3  # PyTorch refuses to draw them
    assert Multinomial(5, tt.tensor([1.0])).sample().tolist() == [5.0]
    assert Multinomial(5, tt.tensor([0.0, 1.0])).sample((2,)).tolist() == [[0.0, 5.0]] * 2


def test_gradients_of_samples_are_those_of_their_mean():
    tt.manual_seed(0)
    a = f64(tt, [0.3, 2.0, 1.0])
    n = 4000
    each = a.detach().expand(n, 3).clone().requires_grad_()
    Dirichlet(each).rsample()[:, 0].sum().backward()
    total = 3.3
    expected = [(total - 0.3) / total**2, -0.3 / total**2, -0.3 / total**2]
    g = each.grad.numpy()
    assert all(near(g[:, i], mean, g[:, i].var()) for i, mean in enumerate(expected))
    assert not near(g[:, 0], expected[0] + 0.1, g[:, 0].var())
    (moment,) = tt.autograd.grad(StudentT(df := f64(tt, [5.0]).expand(n)).rsample().abs().sum(), df)
    assert moment.isfinite().all() and moment.mean().item() < 0  # more degrees of freedom: shorter tails


def test_gamma_in_a_recording_and_under_vmap():
    step = tt.compile(lambda a: Gamma(a, 1.0).sample((1000,)).mean(0))
    means = [step(tt.tensor([a])).item() for a in (2.0, 200.0, 2.0)]
    assert [abs(m / a - 1) < 0.2 for m, a in zip(means, (2, 200, 2), strict=True)] == [True] * 3
    assert means[0] != means[2]
    a = tt.tensor([0.5, 3.0])
    y = tt.vmap(lambda a: Gamma(a, 2.0).log_prob(a) + Beta(a, a).entropy())(a)
    assert tt.allclose(y, Gamma(a, 2.0).log_prob(a) + Beta(a, a).entropy())
    assert tt.vmap(lambda a: Gamma(a, 2.0).sample((3,)), randomness="different")(a).shape == (2, 3)


# --- Distributions that are made from others


def test_a_transform_remembers_its_last_argument():
    x, far = tt.tensor([0.5, 20.0]), tt.tensor([20.0])
    assert TanhTransform().inv(TanhTransform()(far)).isinf().all()
    remembering = TanhTransform(cache_size=1)
    assert remembering.inv(remembering(far)).tolist() == [20.0]
    assert remembering(x) is remembering(x) and remembering.inv(remembering(x)) is x
    assert remembering.inv.inv is remembering and AffineTransform(0.0, 2.0) != AffineTransform(1.0, 2.0)
    assert AffineTransform(tt.ones(2), 2.0) == AffineTransform(tt.ones(2), 2.0)


def test_samples_of_mixtures():
    tt.manual_seed(0)
    weights = Categorical(tt.tensor([0.25, 0.75]))
    corners = Independent(Normal(tt.tensor([[[0.0, 0.0], [10.0, 20.0]], [[5.0, 5.0], [5.0, 5.0]]]), 0.1), 1)
    d = MixtureSameFamily(weights, corners)
    x = d.sample((4000,)).numpy()
    assert x.shape == (4000, 2, 2) and d.batch_shape == d.event_shape == (2,)
    second = x[:, 0, 0] > 5
    assert near(second, 0.75, 0.1875) and np.array_equal(second, x[:, 0, 1] > 5)  # a vector is of one component
    assert np.allclose(d.mean.tolist(), [[7.5, 15.0], [5.0, 5.0]]) and np.allclose(x.mean(0), d.mean.tolist(), atol=0.5)
    with pytest.raises(NotImplementedError, match="MixtureSameFamily: no gradient flows through such a choice"):
        d.rsample()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Gamma(0.0, 1.0), r"Gamma: expected a concentration above 0, got 0.0"),
        (lambda: Dirichlet([1.0, 2.0]), r"Dirichlet: concentration is \[1.0, 2.0\]; expected a tensor"),
        (lambda: Independent(3, 1), "Independent: base_distribution is 3; expected a Distribution"),
        (lambda: Beta(1.0, tt.tensor([1.0, math.nan])), r"Beta: expected a concentration0 above 0, got \[1.0, nan\]"),
        (lambda: Dirichlet(tt.tensor(1.0)), "Dirichlet: expected at least one dimension"),
        (lambda: Multinomial(1.5, tt.ones(2)), "total_count must be a whole number of 0 or more, got 1.5"),
        (
            lambda: Multinomial(2, tt.ones(2)).log_prob(tt.tensor([0.5, 1.5])),
            r"Multinomial: expected whole numbers of 0 or more, whose sum is 2, got \[0.5, 1.5\]",
        ),
        (lambda: Gamma(1.0, 1.0).log_prob(tt.tensor(-1.0)), "Gamma: expected values of 0 or more, got -1.0"),
        (lambda: Independent(Normal(tt.zeros(2), 1.0), 2), r"from 0 to 1, the dimensions of batch shape \(2,\), got 2"),
        (
            lambda: MixtureSameFamily(Categorical(tt.ones(2)), Normal(tt.zeros(3), 1.0)),
            r"weights of shape \(2,\) for components of batch shape \(3,\)",
        ),
        (lambda: MixtureSameFamily(Normal(0.0, 1.0), Normal(tt.zeros(3), 1.0)), "expected a Categorical of weights"),
        (lambda: TransformedDistribution(Normal(0.0, 1.0), [tt.exp]), "expected transforms, got Op"),
        (
            lambda: TransformedDistribution(Normal(0.0, 1.0), AffineTransform(tt.zeros(2), 1.0)),
            r"values of shape \(\) become \(2,\).* give the parameters of Normal the shape of the results",
        ),
        (lambda: TanhTransform(cache_size=2), "cache_size must be 0 or 1, got 2"),
    ],
)
def test_what_is_made_from_others_refuses(make, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_laplace_of_the_least_uniform_number_is_finite(dtype, monkeypatch):
    """rand() gives 0 once in 2^24 numbers of float32."""
    monkeypatch.setattr(continuous, "rand", lambda shape, dtype: tt.zeros(shape, dtype=dtype))
    drawn = Laplace(tt.zeros((), dtype=dtype), 1.0).sample()
    assert drawn.isfinite() and drawn < -15

"""Distributions: PyTorch's log-probabilities, entropies and gradients, and samples that follow the parameters."""

import contextlib
import math
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import tinytensor as tt
from tinytensor import distributions
from tinytensor.distributions import Bernoulli, Categorical, MultivariateNormal, Normal, Uniform, kl_divergence

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
    with pytest.raises(tt.linalg.LinAlgError, match=r"cholesky: .*positive definite"):
        MultivariateNormal(tt.zeros(2), tt.tensor([[1.0, 2.0], [2.0, 1.0]]))


def test_validation_can_be_switched_off():
    assert Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert issubclass(Normal, distributions.Distribution)

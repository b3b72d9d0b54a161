"""Values and gradients where a formula that looks right loses digits, against true ones."""

import math

import mpmath
import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F

SURE = [-100.0, -30.0, -15.0, -1.0, 0.0, 1.0, 5.0, 15.0, 17.0, 30.0, 50.0, 80.0]


def value_and_gradient(function, x: list[float], dtype) -> tuple[np.ndarray, np.ndarray]:
    """The values of a function of each number, and their derivatives."""
    x = tt.tensor(x, dtype=dtype, requires_grad=True)
    y = function(x)
    y.sum().backward()
    return y.detach().numpy().astype(np.float64), x.grad.numpy().astype(np.float64)


def true_values(function, x: list[float]) -> np.ndarray:
    with mpmath.workdps(60):
        return np.array([float(function(mpmath.mpf(v))) for v in x])


@pytest.mark.parametrize(("dtype", "tolerance"), [(tt.float32, 4e-7), (tt.float64, 1e-15)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: -F.logsigmoid(x),
        lambda x: F.binary_cross_entropy_with_logits(x, tt.ones_like(x), reduction="none"),
        lambda x: F.binary_cross_entropy_with_logits(-x, tt.zeros_like(x), reduction="none"),
        lambda x: F.soft_margin_loss(x, tt.ones_like(x), reduction="none"),
        lambda x: F.soft_margin_loss(-x, -tt.ones_like(x), reduction="none"),
        lambda x: tt.logaddexp(-x, tt.zeros_like(x)),
    ],
    ids=["logsigmoid", "bce of 1", "bce of 0", "soft margin of 1", "soft margin of -1", "logaddexp"],
)
def test_confident_right_answers_cost_something(function, dtype, tolerance):
    """ln(1 + e^-x) is e^-x where x is large, and 0 only where e^-x is."""
    y, slope = value_and_gradient(function, SURE, dtype)
    np.testing.assert_allclose(y, true_values(lambda v: mpmath.log1p(mpmath.exp(-v)), SURE), rtol=tolerance)
    np.testing.assert_allclose(slope, true_values(lambda v: -1 / (1 + mpmath.exp(v)), SURE), rtol=tolerance)


@pytest.mark.parametrize("size", [1e-38, 1e-25, 1.0, 1e20, 1e37])
def test_spread_and_length_of_large_and_small_numbers(size):
    """The squares of these are no float32."""
    few = [size, 2 * size]
    for correction, right in ((1, math.sqrt(0.5)), (0, 0.5)):
        y, slope = value_and_gradient(lambda x, c=correction: x.std(correction=c), few, tt.float32)
        np.testing.assert_allclose(y, right * size, rtol=1e-6)
        np.testing.assert_allclose(slope, [-right, right], rtol=1e-6)
    y, mean = tt.std_mean(tt.tensor([few, few]), 1)
    np.testing.assert_allclose(y.numpy(), math.sqrt(0.5) * size, rtol=1e-6)
    np.testing.assert_allclose(mean.numpy(), 1.5 * size, rtol=1e-6)
    y, slope = value_and_gradient(lambda x: x.norm(), few, tt.float32)
    np.testing.assert_allclose(y, math.sqrt(5) * size, rtol=1e-6)
    np.testing.assert_allclose(slope, [1 / math.sqrt(5), 2 / math.sqrt(5)], rtol=1e-6)
    x = tt.tensor([few])
    np.testing.assert_allclose(F.normalize(x, eps=0.0).numpy(), [[1 / math.sqrt(5), 2 / math.sqrt(5)]], rtol=1e-6)
    np.testing.assert_allclose(F.cosine_similarity(x, x, eps=0.0).numpy(), [1.0], rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 5), (1, 70_000), (7, 1300, 3)])
def test_lengths_over_all_dimensions(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    for dtype, tolerance in ((np.float32, 2e-6), (np.float64, 1e-14)):
        t = tt.tensor(x.astype(dtype))
        for dim in (None, 0, 1, -1):
            right = np.sqrt((x.astype(dtype).astype(np.float64) ** 2).sum(dim))
            np.testing.assert_allclose(t.norm(2, dim).numpy(), right, rtol=tolerance)
            np.testing.assert_allclose(
                t.std(dim, correction=0).numpy(), t.numpy().astype(float).std(dim), rtol=tolerance
            )


@pytest.mark.parametrize(("dtype", "least"), [(tt.int64, -(2**63)), (tt.int32, -(2**31))])
def test_whole_quotients_and_rests_at_the_ends(dtype, least):
    """A quotient that is no integer of this size wraps; a rest always is one."""
    dividends, divisors = [least, least + 1, -least - 1, -(2**30) - 1, 7, -7, 0], [-1, 1, 3, -3, least, -least - 1]
    a, b = tt.tensor([[n] * len(divisors) for n in dividends], dtype=dtype), tt.tensor(divisors, dtype=dtype)

    def each(function):
        return [[function(n, m) for m in divisors] for n in dividends]

    def wrapped(n):
        return (n - least) % (-2 * least) + least

    def cut(n, m):
        return abs(n) // abs(m) * (1 if (n < 0) == (m < 0) else -1)

    floors, cuts = each(lambda n, m: wrapped(n // m)), each(lambda n, m: wrapped(cut(n, m)))
    assert (a // b).tolist() == a.div(b, rounding_mode="floor").tolist() == floors
    assert a.div(b, rounding_mode="trunc").tolist() == cuts
    assert (a % b).tolist() == each(lambda n, m: n % m)
    assert tt.fmod(a, b).tolist() == each(lambda n, m: n - m * cut(n, m))
    assert (a // -1).tolist() == [[wrapped(-n)] * len(divisors) for n in dividends]
    assert (a % -1).tolist() == [[0] * len(divisors)] * len(dividends)


@pytest.mark.parametrize(
    ("x", "slope"),
    [
        ([1.0, 2.0, 2.0, 3.0], [0, 0.5, 0.5, 0]),
        ([2.0, 2.0, 2.0], [1 / 3] * 3),
        ([4.0, 1.0], [0, 1]),
        ([5.0], [1]),
        ([0.0, -0.0, 1.0], [0.5, 0.5, 0]),
        ([math.nan, 1.0, math.nan], [0.5, 0, 0.5]),
        ([math.inf, math.inf, 1.0], [0.5, 0.5, 0]),
        ([-math.inf, -math.inf, 1.0], [0.5, 0.5, 0]),
        ([[1.0, 3.0], [3.0, 3.0]], [[0, 1 / 3], [1 / 3, 1 / 3]]),
    ],
)
def test_equal_medians_share_the_gradient(x, slope):
    """Of all elements, as max() and min(); along a dimension one of them takes it, as in PyTorch."""
    x = tt.tensor(x, requires_grad=True)
    y = x.median()
    assert y.item() == x.detach().median().item() or math.isnan(y.item())
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), slope)
    along = tt.tensor([2.0, 2.0, 2.0], requires_grad=True)
    for one in (along.median(0).values, along.kthvalue(2).values):
        (g,) = tt.autograd.grad(one, along)
        assert sorted(g.tolist()) == [0, 0, 1]


@pytest.mark.parametrize(("dtype", "tolerance"), [(tt.float32, 6e-7), (tt.float64, 2e-15)])
def test_hyperbolic_functions_near_0_and_far_from_it(dtype, tolerance):
    """The slope of cosh near 0 is x; e^89 is no float32, but half of it is."""
    points = [0.0, 1e-30, 1e-8, 1e-7, 1e-3, 0.5, 1.0, 9.0, 40.0, 88.5, 89.2]
    points += [-x for x in points]
    for ours, theirs in (("sinh", "cosh"), ("cosh", "sinh")):
        y, slope = value_and_gradient(getattr(tt, ours), points, dtype)
        exact = tt.tensor(points, dtype=dtype).tolist()
        np.testing.assert_allclose(y, true_values(getattr(mpmath, ours), exact), rtol=tolerance)
        np.testing.assert_allclose(slope, true_values(getattr(mpmath, theirs), exact), rtol=tolerance)

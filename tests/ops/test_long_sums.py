"""Long sums in float32: the error against float64 is a few units of rounding, however many numbers there are.

PyTorch 2.13 is as exact, or less so: 7e-6 for x @ x of a million numbers. One chain loses the late numbers.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numba import config

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import Tensor

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="too long for plain Python")

EPS = float(np.finfo(np.float32).eps)
BOUND = 5 * EPS  # of the largest number among the results
LENGTHS = 1, 2, 31, 513, 4_097, 262_145
LONGER = (1 << 24) - 1, 1 << 25


def columns(x: Tensor) -> Tensor:
    return tt.stack([x, 2 * x, x + 1], 1)


def zeros(n: int) -> Tensor:
    return tt.zeros(n, dtype=tt.int64)


VALUES = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "nansum": tt.nansum,
    "norm": lambda x: x.norm(),
    "norm 1": lambda x: x.norm(1),
    "logsumexp": lambda x: x.logsumexp(0),
    "cumsum": lambda x: x.cumsum(0),
    "cumsum of columns": lambda x: columns(x).cumsum(0),
    "x @ x": lambda x: x @ x,
    "1 @ x": lambda x: tt.ones_like(x) @ x,
    "einsum": lambda x: tt.einsum("i,i->", x, x),
    "matrix @ vector": lambda x: columns(x).T @ x,
    "rows @ vector": lambda x: tt.stack([x, x + 1]) @ x,
    "batch of vectors": lambda x: tt.matmul(x.reshape(1, 1, -1), x.reshape(1, -1, 1)),
    "sum of columns": lambda x: columns(x).sum(0),
    "mean of columns": lambda x: columns(x).mean(0),
    "norm of columns": lambda x: columns(x).norm(dim=0),
    "logsumexp of columns": lambda x: columns(x).logsumexp(0),
    "softmax": lambda x: x.softmax(0),
    "softmax of columns": lambda x: columns(x).softmax(0),
    "mse_loss": lambda x: F.mse_loss(x, tt.zeros_like(x)),
    "l1_loss": lambda x: F.l1_loss(x, tt.zeros_like(x)),
    "huber_loss": lambda x: F.huber_loss(x, tt.zeros_like(x)),
    "cross_entropy of rows": lambda x: F.cross_entropy(columns(x), zeros(len(x))),
    "nll_loss": lambda x: F.nll_loss(columns(x), zeros(len(x))),
    "rms_norm": lambda x: F.rms_norm(x, x.shape),
    "normalize": lambda x: F.normalize(x, dim=0),
}

OF_SEVERAL = {  # and these have no value, or 0, for a single number
    "log_softmax": lambda x: x.log_softmax(0),
    "cross_entropy of classes": lambda x: F.cross_entropy(x[None], zeros(1)),
    "label smoothing": lambda x: F.cross_entropy(x[None], zeros(1), label_smoothing=0.3),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(),
    "var of columns": lambda x: columns(x).var(0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape),
    "group_norm": lambda x: F.group_norm(x.reshape(1, 1, -1), 1),
    "batch norm": lambda x: tt.nn.BatchNorm1d(1, dtype=x.dtype)(x.reshape(-1, 1)),
}

GRADIENTS = {  # of two or three numbers, each of which meets all of x
    "added": lambda x, w: columns(x) + w,
    "a single one": lambda x, w: x + w[0],
    "multiplied": lambda x, w: columns(x) * w,
    "expand": lambda x, w: w.expand(len(x), 3),
    "outer": lambda x, w: tt.outer(x, w),
    "matrix @ vector": lambda x, w: columns(x) @ w,
    "linear": lambda x, w: F.linear(x.reshape(-1, 1), w.reshape(3, 1), w),
    "bias": lambda x, w: F.linear(columns(x), tt.eye(3, dtype=x.dtype), w),
    "where": lambda x, w: tt.where(x > 0, w[0], x),
    "prelu": lambda x, w: F.prelu(-x, w[:1]),
    "weight of layer_norm": lambda x, w: F.layer_norm(columns(x * x), (3,), w, w),
    "weight of rms_norm": lambda x, w: F.rms_norm(columns(x), (3,), w),
}


def draw(n: int, dtype=tt.float64) -> Tensor:
    """Numbers from 0.5 to 1.5, which are the same in float32 and float64."""
    return tt.tensor(0.5 + np.random.default_rng(n).random(n, np.float32)).to(dtype)


def error(function: Callable[..., Tensor], n: int) -> float:
    """The largest error of function(x) in float32, relative to the largest number of the same in float64."""
    y, exact = (function(draw(n, dtype)).detach().numpy() for dtype in (tt.float32, tt.float64))
    return float(np.abs(y - exact).max() / np.abs(exact).max())


def gradient(function: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    """The gradient of the parameters w, where positive numbers arrive at function(x, w)."""

    def of(x: Tensor) -> Tensor:
        w = tt.ones(3, dtype=x.dtype, requires_grad=True)
        y = function(x, w)
        y.backward(draw(y.numel(), x.dtype).reshape(y.shape))
        return w.grad

    return of


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    for n in LENGTHS:
        assert error(VALUES[name], n) < BOUND, n


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", OF_SEVERAL)
def test_values_of_several(name):
    for n in LENGTHS[1:]:
        assert error(OF_SEVERAL[name], n) < 2 * BOUND, n


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    for n in LENGTHS:
        assert error(gradient(GRADIENTS[name]), n) < 2 * BOUND, n


def test_gradient_of_cumsum():
    for n in LENGTHS:
        x = tt.ones(n, requires_grad=True)
        x.cumsum(0).backward(tt.ones(n))
        assert (x.grad.numpy() == np.arange(n, 0, -1).astype(np.float32)).all()


def test_one_chain_is_noticed():
    chain = lambda x: tt.tensor(np.add.accumulate(x.numpy())) if x.dtype == tt.float32 else x.cumsum(0)  # noqa: E731
    assert error(chain, LENGTHS[-1]) > 10 * BOUND


@pytest.mark.one_in(3)
@pytest.mark.parametrize("offset", [0.0, 1e7, -1e7])
@pytest.mark.parametrize("copies", [1, 1000, 200_000])
def test_deviations_far_from_0(offset, copies):
    """The variance of 0, 1, 2, 3, 4, 6 does not depend on what is added to them."""
    few = np.tile(np.array([0, 1, 2, 3, 4, 6], np.float32), copies)
    deviations, n = few - few.mean(dtype=np.float64), few.size
    variance = (deviations**2).sum() / (n - 1)
    for x in (tt.tensor(few + np.float32(offset)), tt.tensor(few + np.float32(offset)).reshape(-1, 1).expand(n, 3)):
        x = x.clone().requires_grad_()
        np.testing.assert_allclose(x.var(0).detach().numpy(), variance, rtol=2 * BOUND)
        np.testing.assert_allclose(x.std(0).detach().numpy(), np.sqrt(variance), rtol=2 * BOUND)
        x.std(0).sum().backward()
        slope = (deviations / ((n - 1) * np.sqrt(variance))).reshape(-1, *(1,) * (x.ndim - 1))
        np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(slope, x.shape), rtol=4 * BOUND)
    y = F.layer_norm(tt.tensor(few + np.float32(offset)), (n,)).numpy()
    exact = deviations / np.sqrt((deviations**2).mean() + 1e-5)
    np.testing.assert_allclose(y, exact, rtol=20 * BOUND)  # PyTorch 2.13 is 40 % off


@pytest.mark.slow
@pytest.mark.parametrize("n", LONGER)
def test_tens_of_millions(n):
    x = tt.ones(n, requires_grad=True)
    y = x.cumsum(0)
    assert (y.detach().numpy() == np.arange(1, n + 1).astype(np.float32)).all()
    y.mean().backward()
    assert x.grad[0].item() == pytest.approx(1, rel=BOUND)
    ones = x.detach()
    assert [(ones @ ones).item(), ones.sum().item(), ones.reshape(1, -1).mv(ones).item()] == [float(n)] * 3
    assert ones.norm().item() == pytest.approx(np.sqrt(n), rel=BOUND)


@pytest.mark.slow
def test_as_many_as_a_float_can_count_four_times():
    ones = tt.ones(1 << 26)
    assert (ones @ ones).item() == ones.sum().item() == ones.reshape(-1, 2).sum(0)[0].item() * 2 == 1 << 26
    assert ones.softmax(0)[0].item() == 1 / (1 << 26) and ones.logsumexp(0).item() == pytest.approx(1 + 26 * np.log(2))

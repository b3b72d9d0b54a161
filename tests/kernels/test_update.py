"""Optimizer steps against the formulas of PyTorch's documentation in float64, several steps long."""

import numpy as np
import pytest
from numba import config

from tinytensor.native.kernels import update

# without the compiler NumPy warns of the infinities and NaNs that are asked for here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZES = (0, 1, 2, 3, 7) if config.DISABLE_JIT else (0, 1, 2, 3, 7, 31, 33, 100, 5000)
DTYPES = (np.float32, np.float64)


def close(y, expected, dtype):
    np.testing.assert_allclose(y, expected, rtol=40 * np.finfo(dtype).eps, atol=40 * np.finfo(dtype).eps)


def scales(rng, n, dtype):
    """No multiplier, one for all, one for each element."""
    yield np.zeros(0, dtype)
    yield np.array([0.3], dtype)
    if n > 1:
        yield rng.random(n).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("momentum", "dampening", "decay", "nesterov", "maximize"),
    [(0, 0, 0, 0, 0), (0, 0, 0.1, 0, 1), (0.9, 0, 0, 0, 0), (0.9, 0.5, 0.1, 0, 0), (0.9, 0, 0.1, 1, 0)],
)
def test_sgd(dtype, momentum, dampening, decay, nesterov, maximize):
    rng = np.random.default_rng(0)
    for n in SIZES:
        for scale in scales(rng, n, dtype):
            p = rng.standard_normal(n).astype(dtype)
            buf = np.full(n if momentum else 0, 7, dtype)
            q, b = p.astype(np.float64), None
            for step in range(3):
                g, lr = rng.standard_normal(n).astype(dtype), 0.1 / (step + 1)
                hyper = np.array([lr, momentum, dampening, decay, nesterov, maximize, step == 0], np.float64)
                update.sgd(p, g, buf, scale, hyper)
                d = (-1 if maximize else 1) * g.astype(np.float64) + decay * q
                if momentum:
                    b = d if b is None else momentum * b + (1 - dampening) * d
                    d = d + momentum * b if nesterov else b
                q = q - lr * (scale.astype(np.float64) if scale.size else 1) * d
                close(p, q, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("decay", "decoupled", "maximize"), [(0, 0, 0), (0.1, 0, 0), (0.1, 1, 0), (0, 1, 1), (0.1, 0, 1)]
)
def test_adam(dtype, decay, decoupled, maximize):
    rng = np.random.default_rng(1)
    beta1, beta2, eps = 0.9, 0.99, 1e-8
    for n in SIZES:
        for scale in scales(rng, n, dtype):
            factor = scale.astype(np.float64) if scale.size else 1
            p = rng.standard_normal(n).astype(dtype)
            m, v = np.zeros(n, dtype), np.zeros(n, dtype)
            q, a, b = p.astype(np.float64), np.zeros(n), np.zeros(n)
            for step in range(1, 4):
                g, lr = rng.standard_normal(n).astype(dtype), 0.1 / step
                hyper = np.array([lr, beta1, beta2, eps, decay, decoupled, step, maximize], np.float64)
                update.adam(p, g, m, v, scale, hyper)
                d = (-1 if maximize else 1) * g.astype(np.float64)
                if decoupled:
                    q = q * (1 - lr * factor * decay)
                else:
                    d = d + decay * q
                a = beta1 * a + (1 - beta1) * d
                b = beta2 * b + (1 - beta2) * d * d
                q = q - lr * factor * (a / (1 - beta1**step)) / (np.sqrt(b / (1 - beta2**step)) + eps)
                close(p, q, dtype)
                close(m, a, dtype)
                close(v, b, dtype)


def test_adam_differs_from_adamw():
    results = []
    for decoupled in (0, 1):
        p, m, v = np.ones(3), np.zeros(3), np.zeros(3)
        for step in (1, 2):
            hyper = np.array([0.1, 0.9, 0.99, 1e-8, 0.5, decoupled, step, 0])
            update.adam(p, np.array([1.0, -2.0, 0.1]), m, v, np.zeros(0), hyper)
        results.append(p)
    with pytest.raises(AssertionError):
        close(*results, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_adam_of_zero_gradient_stands_still(dtype):
    p, m, v = np.ones(5, dtype), np.zeros(5, dtype), np.zeros(5, dtype)
    update.adam(p, np.zeros(5, dtype), m, v, np.zeros(0, dtype), np.array([0.1, 0.9, 0.99, 1e-8, 0, 0, 1, 0]))
    assert (p == 1).all()


def sumsq(x):
    parts = np.full(update.sumsq_parts(x.size), 7, x.dtype)
    update.sumsq(x, parts)
    return parts.sum()


@pytest.mark.parametrize("dtype", DTYPES)
def test_sumsq(dtype):
    rng = np.random.default_rng(2)
    for n in (*SIZES, *(() if config.DISABLE_JIT else (4095, 4096, 4097, 100_001))):
        x = rng.standard_normal(n).astype(dtype)
        np.testing.assert_allclose(sumsq(x), (x.astype(np.float64) ** 2).sum(), rtol=10 * np.finfo(dtype).eps)
    assert np.isnan(sumsq(np.array([1, np.nan], dtype)))
    assert sumsq(np.array([1, -np.inf], dtype)) == np.inf


def test_thread_count_changes_no_bit(one_and_two_threads):
    rng = np.random.default_rng(3)
    start, g = rng.standard_normal((2, 333_333)).astype(np.float32)

    def work():
        p, m, v = start.copy(), np.zeros_like(g), np.zeros_like(g)
        for step in (1, 2):
            update.adam(p, g, m, v, g[:0], np.array([0.1, 0.9, 0.99, 1e-8, 0.1, 1, step, 0]))
        return p.tobytes(), m.tobytes(), v.tobytes(), sumsq(p).tobytes()

    one, two = one_and_two_threads(work, launches=3)
    assert one == two

"""Operations with kernels of their own at sizes beyond every block: value, gradient, second derivative."""

import numpy as np
import pytest

import tinytensor as tt
from tests.ops.larger_samples import LARGER, mistakes, unwritten_is_nan
from tinytensor.core.kernel import KERNELS
from tinytensor.core.op import OPS
from tinytensor.native.runtime.kernel import Elementwise

CALLS = [pytest.param(name, args, id=f"{name}-{i}") for name, calls in LARGER.items() for i, args in enumerate(calls)]


@pytest.mark.parametrize(("name", "args"), CALLS)
def test_operations_beyond_every_block(name, args):
    assert mistakes(name, args) == []


def test_every_kernel_is_reached():
    """By the table, but for those that no gradient comes from: these are tried below, or draw random numbers."""
    with tt.profile() as profile:
        for name, calls in LARGER.items():
            for args in calls:
                y = OPS[name](*args)
                y = y[0] if isinstance(y, tuple) else y
                tt.autograd.grad(y, [a for a in args if getattr(a, "requires_grad", False)], tt.ones_like(y))
    loops = {name for name, kernel in KERNELS.items() if not isinstance(kernel, Elementwise)}
    chance = {"next_draw", "uniform", "sample_rows", "check_weights"}  # tests/kernels/test_random.py
    below = {"reduce_any", "reduce_all", "argsort", "sgd", "adam", "sumsq", "write_rows"}
    assert loops - profile.rows.keys() == chance | below


def test_kernels_without_gradients():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 300, (3, 1100)).astype(float)  # many are equal, and keep their order
    truth = np.zeros((1100, 5), bool)
    truth[1070:, 1:4], truth[:, 2] = True, True
    with unwritten_is_nan():
        assert np.array_equal(tt.argsort(tt.tensor(numbers), stable=True).numpy(), numbers.argsort(1, kind="stable"))
        for part in (truth, ~truth):
            for dim in (0, 1):
                assert np.array_equal(tt.tensor(part).any(dim).numpy(), part.any(dim))
                assert np.array_equal(tt.tensor(part).all(dim).numpy(), part.all(dim))


def test_write_rows_beyond_every_block():
    rng = np.random.default_rng(0)
    source, index, bad = rng.standard_normal((2, 70, 5)), rng.permutation(1100)[:70], np.zeros(2, np.int64)
    y = np.zeros((2, 1100, 5))
    expected = y.copy()
    expected[:, index] = source
    KERNELS["write_rows"](source, index, y, bad)
    assert np.array_equal(y, expected)
    assert not bad.any()


@pytest.mark.parametrize("category", ["SGD", "Adam"])
def test_optimizer_updates_beyond_every_block(category):
    """1,100 numbers together take the steps that each of them takes alone; and so with their norm clipped."""
    rng = np.random.default_rng(0)
    start, gradients = rng.standard_normal(1100), rng.standard_normal((3, 1100))
    options = {"momentum": 0.9} if category == "SGD" else {}

    def moved(values: np.ndarray, steps: np.ndarray, clipped: float | None = None) -> np.ndarray:
        p = tt.tensor(values, requires_grad=True)
        optimizer = getattr(tt.optim, category)([p], lr=0.1, **options)
        for g in steps:
            p.grad = tt.tensor(g)
            if clipped is not None:
                tt.nn.utils.clip_grad_norm_([p], clipped)
            optimizer.step()
        return p.detach().numpy()

    with unwritten_is_nan():
        together = moved(start, gradients)
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        np.testing.assert_allclose(moved(start, gradients, 2.0), moved(start, 2 * gradients / norms), rtol=1e-5)
    for i in (0, 1, 64, 511, 1024, 1098, 1099):
        np.testing.assert_allclose(together[i : i + 1], moved(start[i : i + 1], gradients[:, i : i + 1]), rtol=1e-12)

"""Calls of operations at sizes beyond every block of the kernels: what only shows there.

Proofs have two or three entries along each dimension, and blocks that are made small for them. A mistake that begins at
row 65, or with the thirteenth block of rows, needs real sizes: 1,100 rows, columns or classes, 77 keys. `mistakes`
compares the value in float64 with the definition or with NumPy; the gradient with the slope of the value along a random
direction through all inputs; and the second derivative with the slope of the gradient. Memory that was not written is
NaN here, and work is cut into tasks where little of it is left, so that there are many.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

import tinytensor as tt
from tinytensor.autograd import grad
from tinytensor.core import kernel, poison
from tinytensor.core.modes import no_grad
from tinytensor.core.op import OPS
from tinytensor.core.tensor import Tensor
from tinytensor.native.fast.launch_cache import LaunchCache
from tinytensor.native.runtime import native_backend

MANY = 1100
STEP, WITHIN = 1e-7, 1e-6  # of a slope by central differences, and how near it is, relatively
GRAIN = 400  # nanoseconds of work that are a task here

RNG = np.random.default_rng(0)


def x(*shape: int) -> Tensor:
    return tt.tensor(RNG.standard_normal(shape), dtype=tt.float64, requires_grad=True)


def whole(high: int, *shape: int) -> Tensor:
    """Whole numbers below `high`; the last one is among them."""
    numbers = RNG.integers(0, high, shape)
    numbers.flat[0] = high - 1
    return tt.tensor(numbers)


def heads(C: int, M: int, K: int = 5, Kv: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    return x(1, 2, C, K), x(1, 2, M, K), x(1, 2, M, Kv)


def norms(*shape: int) -> list[tuple]:
    D = shape[-1]
    return [(x(*shape), x(D), x(D), 0.1), (x(*shape), x(D), None, 0.1), (x(*shape), None, None, 0.1)]


TALL, WIDE = (MANY, 5), (3, MANY)
HOLES = tt.tensor(RNG.random((70, 77)) < 0.7)
CLASSES = tt.tensor([MANY - 1, -100, 600])
COUNTED = whole(5, MANY)

LARGER: dict[str, list[tuple]] = {
    **{name: [(x(*TALL),), (x(*WIDE),)] for name in ("softmax", "log_softmax")},
    **{
        name: [(x(*TALL), x(7, 5), x(7)), (x(*WIDE), x(5, MANY), None), (x(70, 70), x(70, 70), x(70))]
        for name in ("linear", "linear_relu")
    },
    "layer_norm": [*norms(*TALL), *norms(*WIDE), *norms(420, 40)],
    "rms_norm": [(a, weight, eps) for a, weight, _, eps in [*norms(*TALL), *norms(*WIDE), *norms(420, 40)]],
    "attention": [(*heads(70, 77), mask, 0.7, is_causal) for mask in (None, HOLES) for is_causal in (False, True)]
    + [(*heads(1, 77), None, 0.7, False)],
    **{
        name: [(x(*TALL), COUNTED, -100, smoothing) for smoothing in (0.0, 0.1)]
        + [(x(*WIDE), CLASSES, -100, smoothing) for smoothing in (0.0, 0.1)]
        for name in ("cross_entropy_rows", "cross_entropy_mean")
    },
    "take": [(x(*TALL), whole(MANY, 40)), (x(*WIDE), whole(3, 70))],
    "scatter_rows": [(x(40, 5), whole(MANY, 40), TALL), (x(MANY, 3), whole(70, MANY), (70, 3))],
    "gather": [(x(*TALL), whole(MANY, 70, 5), 0), (x(*WIDE), whole(MANY, 3, 70), 1)],
    "gather_backward": [(x(70, 5), whole(MANY, 70, 5), TALL, 0), (x(3, 70), whole(MANY, 3, 70), WIDE, 1)],
    "cumsum": [(x(*shape), dim, reverse) for shape, dim in ((TALL, 0), (WIDE, 1)) for reverse in (False, True)],
    **{f"reduce_{n}": [(x(*TALL), (0,), False), (x(*WIDE), (1,), True)] for n in ("sum", "mean", "logsumexp")},
    **{f"reduce_{n}": [(x(*TALL), (0,), False), (x(*WIDE), (1,), True)] for n in ("max", "min")},
    "reduce_norm": [(x(*TALL), (0,), False, 1), (x(*WIDE), (1,), True, 7)],
    "reduce_prod": [(1 + x(70, 3).detach() / 9, (0,), False), (1 + x(3, 70).detach() / 9, (1,), True)],
    "matmul": [(x(2, 70, 300), x(300, 130)), (x(*TALL), x(5, 7)), (x(*WIDE), x(MANY, 2)), (x(1, MANY), x(MANY, 70))]
    + [(x(70, MANY), x(MANY, 1))],
    "dropped": [(x(MANY), tt.tensor([7, 3, 2]), 1 << 31, 2.0)],
}
for args in LARGER["reduce_prod"]:
    args[0].requires_grad_()


def added_at(shape: tuple, key, g: np.ndarray) -> np.ndarray:
    y = np.zeros(shape)
    np.add.at(y, key, g)
    return y


def along(index: np.ndarray, dim: int) -> tuple:
    """The key of all elements of an array that an index along one dimension means."""
    return tuple(index if d == dim else np.indices(index.shape)[d] for d in range(index.ndim))


def dropped(a, at, threshold, scale):
    from tinytensor.native.kernels.random import drawn

    start = int(at[2]) * a.size
    kept = [drawn(int(at[0]), int(at[1]), start + i) < threshold for i in range(a.size)]
    return np.where(kept, scale * a, 0)


IN_NUMPY: dict[str, Callable] = {  # of the operations without a definition
    "take": lambda a, index: a[index],
    "scatter_rows": lambda g, index, shape: added_at(shape, index, g),
    "gather": lambda a, index, dim: np.take_along_axis(a, index, dim),
    "gather_backward": lambda g, index, shape, dim: added_at(shape, along(index, dim), g),
    "cumsum": lambda a, dim, reverse: np.flip(np.flip(a, dim).cumsum(dim), dim) if reverse else a.cumsum(dim),
    "reduce_sum": lambda a, dims, keep: a.sum(dims, keepdims=keep),
    "centred": lambda a, dims: a - a.mean(dims, keepdims=True),
    "reduce_mean": lambda a, dims, keep: a.mean(dims, keepdims=keep),
    "reduce_norm": lambda a, dims, keep, n: np.sqrt((a * a).sum(dims, keepdims=keep) / n),
    "reduce_prod": lambda a, dims, keep: a.prod(dims, keepdims=keep),
    "reduce_logsumexp": lambda a, dims, keep: np.log(np.exp(a).sum(dims, keepdims=keep)),
    "reduce_max": lambda a, dims, keep: a.max(dims, keepdims=keep),
    "reduce_min": lambda a, dims, keep: a.min(dims, keepdims=keep),
    "matmul": np.matmul,
    "dropped": dropped,
}


@contextmanager
def unwritten_is_nan() -> Iterator[None]:
    """New memory holds NaN, or a whole number that is no index, until it is written; little work is many tasks."""
    step_by_step = patch.object(LaunchCache, "run", lambda self, args, short: self.function(*args))
    with patch.object(native_backend, "fresh", poison.poisoned), patch.object(kernel, "GRAIN", GRAIN), step_by_step:
        yield


def mistakes(name: str, args: tuple, second: bool = True) -> list[str]:
    """What is wrong with one call of an operation: its value, its gradient, its second derivative."""
    op, rng = OPS[name], np.random.default_rng(1)
    indices = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    here = [args[i].detach().numpy() for i in indices]
    directions = [rng.standard_normal((2, *a.shape)) for a in here]

    def at(step: float, which: int) -> tuple[list[Tensor], Tensor]:
        """Inputs that were moved along a direction, and the result."""
        arguments = list(args)
        leaves = [tt.tensor(a + step * d[which], requires_grad=True) for a, d in zip(here, directions, strict=True)]
        for i, leaf in zip(indices, leaves, strict=True):
            arguments[i] = leaf
        y = op(*arguments)
        return leaves, y[0] if isinstance(y, tuple) else y

    def along_first(gradients) -> Tensor:
        return sum((h * tt.tensor(d[0])).sum() for h, d in zip(gradients, directions, strict=True))

    results = []
    with unwritten_is_nan():
        leaves, y = at(0, 0)
        g = tt.tensor(rng.standard_normal(y.shape))
        with no_grad():
            plain = [a.detach().numpy() if isinstance(a, Tensor) else a for a in args]
            expected = op.definition(*args).numpy() if op.definition is not None else IN_NUMPY[name](*plain)
        if not np.allclose(y.detach().numpy(), expected, rtol=1e-11, atol=1e-11):
            results.append("value")

        def value(step: float) -> float:
            return (at(step, 0)[1].detach() * g).sum().item()

        def gradient(step: float) -> float:
            moved, result = at(step, 1)
            return along_first(grad(result, moved, g)).item()

        slope = along_first(grad(y, leaves, g, retain_graph=True)).item()
        if not near(slope, (value(STEP) - value(-STEP)) / (2 * STEP), here):
            results.append("gradient")
        if second:
            repeated = along_first(grad(y, leaves, g, create_graph=True))
            if not near(repeated.item(), slope, here):
                results.append("gradient by the second road")
            curves = grad(repeated, leaves, allow_unused=True) if repeated.requires_grad else [None] * len(leaves)
            pairs = zip(curves, directions, strict=True)
            curve = sum((c.numpy() * d[1]).sum() for c, d in pairs if c is not None)
            if not near(curve, (gradient(STEP) - gradient(-STEP)) / (2 * STEP), here):
                results.append("second derivative")
    return results


def near(a: float, b: float, inputs: list[np.ndarray]) -> bool:
    """Are two slopes along a direction alike? They are sums of as many terms as there are inputs. (NaN never is.)"""
    return abs(a - b) <= WITHIN * max(1.0, abs(b), math.sqrt(sum(x.size for x in inputs)))

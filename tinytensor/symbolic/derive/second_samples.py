"""Second derivatives in numbers: the engine's double backward, and finite differences of its gradients.

At a point the Hessian is multiplied by a random vector from the left, by a backward pass through the gradient: a wrong
Hessian gives another product, except with probability 0. Differences of gradients tell whether that pass itself is
right; where an operation has no second backward pass, they are all there is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinytensor.autograd import grad
from tinytensor.core import late_bound
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import tensor
from tinytensor.symbolic.derive.samples import CLOSE, Sample

STEPS = (1e-4, 1e-3, 1e-5, 1e-6)  # of finite differences: one must agree
ENTRIES = 60_000  # of a block: larger ones are not compared in numbers
CLOSE_DIFFERENCES = 1e-4  # of a difference to a derivative, relative to the largest entry


@dataclass
class SecondSample:
    """Products of the Hessian at one point: `left[a]` is a random array, `rows[a, b]` its product with the block a, b.

    error: what the engine said if it has no second backward pass for an operation.
    """

    left: dict[str, np.ndarray] = field(default_factory=dict)
    rows: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    error: str = ""


def leaves(one: Sample, moved: dict[str, np.ndarray] | None = None) -> dict[str, object]:
    """The arguments at a point, perhaps moved a little, as new leaves of the tape."""
    values = dict(one.inputs)
    for name, x in one.inputs.items():
        if isinstance(x, Tensor) and x.requires_grad:
            values[name] = tensor(x.detach().numpy() + (0 if moved is None else moved.get(name, 0)), requires_grad=True)
    return values


def gradients(fn: Callable, values: dict[str, object], names: Sequence[str], graph: bool = False) -> list[Tensor]:
    """The gradients of a function's number, on the tape if `graph`."""
    result = fn(**values)
    inputs = [values[n] for n in names]
    if not result._requires_grad:  # constant at these sizes
        return [tensor(np.zeros(x.shape)) for x in inputs]
    return list(grad(result, inputs, create_graph=graph, materialize_grads=True))


def products(
    fn: Callable, values: dict[str, object], names: Sequence[str], left: dict[str, np.ndarray]
) -> dict[tuple[str, str], np.ndarray]:
    """left[a] times the block a, b of the Hessian, by a second backward pass."""
    slopes = gradients(fn, values, names, graph=True)
    rows = {}
    for name, slope in zip(names, slopes, strict=True):
        number = (slope * tensor(left[name])).sum()
        inputs = [values[n] for n in names]
        if number._requires_grad:
            second = grad(number, inputs, retain_graph=True, materialize_grads=True)
            rows |= {(name, n): x.detach().numpy() for n, x in zip(names, second, strict=True)}
        else:
            rows |= {(name, n): np.zeros(x.shape) for n, x in zip(names, inputs, strict=True)}
    return rows


def second_sample(fn: Callable, one: Sample, names: Sequence[str], seed: int) -> SecondSample:
    """The products of the Hessian at a point of the samples."""
    rng = np.random.default_rng(seed)
    result = SecondSample({n: rng.normal(size=tuple(one.inputs[n].shape)) for n in names})
    with late_bound.pytorch_follows_us(), np.errstate(all="ignore"):
        try:
            result.rows = products(fn, leaves(one), names, result.left)
        except Exception as error:  # an operation whose rule has no rule
            result.error = f"{type(error).__name__}: {error}".splitlines()[0]
    return result


def difference(fn: Callable, one: Sample, names: Sequence[str], along: dict[str, np.ndarray], step: float) -> dict:
    """The difference quotient of the gradients at a point, along a direction."""
    sides = []
    with late_bound.pytorch_follows_us(), np.errstate(all="ignore"):
        for sign in (1, -1):
            values = leaves(one, {n: sign * step * x for n, x in along.items()})
            sides.append([x.detach().numpy() for x in gradients(fn, values, names)])
    return {n: (high - low) / (2 * step) for n, high, low in zip(names, *sides, strict=True)}


def hessian_block(fn: Callable, one: Sample, names: Sequence[str], block: tuple[str, str]) -> np.ndarray:
    """A block of the Hessian at a point, a row for each entry of its first argument."""
    first, other = block
    rows = []
    shape = tuple(one.inputs[first].shape)
    for number in range(int(np.prod(shape))):
        hot = np.zeros(int(np.prod(shape)))
        hot[number] = 1
        left = {n: np.zeros(one.inputs[n].shape) for n in names} | {first: hot.reshape(shape)}
        rows.append(products(fn, leaves(one), names, left)[first, other])
    return np.reshape(rows, (*shape, *one.inputs[other].shape))


def times_left(left: np.ndarray, block: np.ndarray) -> np.ndarray:
    """The sum over the axes of `left`, the first ones of the block."""
    return np.tensordot(left, block, left.ndim)


def agree(own: np.ndarray, wanted: np.ndarray, scale: np.ndarray) -> bool:
    """Are two products equal up to rounding, relative to the product of absolute values?"""
    if own.shape != wanted.shape or not np.isfinite(own).all():
        return False
    return bool((np.abs(own - wanted) <= CLOSE * (1 + scale.max(initial=0))).all())


def differences_agree(
    fn: Callable, one: Sample, names: Sequence[str], blocks: dict[tuple[str, str], np.ndarray], seed: int
) -> bool:
    """Is the product of the Hessian with a random vector that of finite differences, at one of the steps?"""
    rng = np.random.default_rng(seed)
    along = {n: rng.normal(size=tuple(one.inputs[n].shape)) for n in names}
    wanted = {a: sum(np.tensordot(blocks[a, b], along[b], along[b].ndim) for b in names) for a in names}
    return any(_close(difference(fn, one, names, along, step), wanted) for step in STEPS)


def _close(own: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> bool:
    size = max(np.abs(x).max(initial=0) for x in wanted.values())
    return all(close_to(x, wanted[n], size) for n, x in own.items())


def close_to(quotient: np.ndarray, wanted: np.ndarray, size: float | None = None) -> bool:
    """Is a difference quotient close to a derivative, relative to `size`?"""
    size = np.abs(wanted).max(initial=0) if size is None else size
    return bool(
        np.isfinite(quotient).all() and np.abs(quotient - wanted).max(initial=0) <= CLOSE_DIFFERENCES * (1 + size)
    )

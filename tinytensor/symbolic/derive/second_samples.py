"""Derivatives in a direction, in numbers: the engine's backward passes, and finite differences.

At a point the formulas are multiplied by a random direction, and so is the engine's matrix, by a backward pass through
the gradient: a wrong formula gives another product, except with probability 0. Differences tell whether that pass
itself is right; where an operation has no second backward pass, they are all there is.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from tinytensor.autograd import grad
from tinytensor.core.observers import observe
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import tensor
from tinytensor.symbolic.derive.samples import Sample, composed_call, gradients
from tinytensor.symbolic.numbers import CANCELLED, ROUNDING, agrees, differing_entry

ENTRIES = 60_000  # of a block: larger ones are not compared in numbers

Arrays = dict[str, np.ndarray]


def leaves(sample: Sample, moved: Arrays | None = None) -> dict[str, object]:
    """The arguments at a point, perhaps moved a little, as new leaves of the tape."""
    values = dict(sample.inputs)
    for name, x in sample.inputs.items():
        if isinstance(x, Tensor) and x.requires_grad:
            values[name] = tensor(x.detach().numpy() + (0 if moved is None else moved.get(name, 0)), requires_grad=True)
    return values


def gradients_at(fn: Callable, values: dict[str, object], names: Iterable[str], graph: bool = False) -> list[Tensor]:
    """The gradients of a function's number, on the tape if `graph`."""
    return gradients(fn(**values), [values[n] for n in names], create_graph=graph)


def product(slopes: list[Tensor], along: list[np.ndarray], inputs: dict[str, Tensor]) -> Arrays:
    """The derivatives of Σ slope · along by the inputs."""
    number = sum((slope * tensor(x)).sum() for slope, x in zip(slopes, along, strict=True))
    second = gradients(number, list(inputs.values()), retain_graph=True)
    return {n: x.detach().numpy() for n, x in zip(inputs, second, strict=True)}


def differences(of: Callable[[dict], list[np.ndarray]], sample: Sample, along: Arrays, products: Arrays) -> bool | None:
    """Are derivatives in a direction difference quotients of some arrays? None where these say nothing."""
    flat = np.concatenate([x.ravel() for x in products.values()])

    def line(step: float) -> np.ndarray:
        return np.concatenate([x.ravel() for x in of(leaves(sample, {n: step * x for n, x in along.items()}))])

    return agrees(line, flat, np.abs(flat).max(initial=0))


def of_value(fn: Callable, sample: Sample, along: Arrays, products: Arrays, smooth: bool) -> str:
    """What differs of the derivative of the value in a direction, in words; empty if nothing does.

    smooth: may it be compared with differences, too?
    """
    (slope,) = products.values()
    left = np.ones(()) if sample.upstream is None else sample.upstream
    wanted = sum((sample.gradients[n] * x).sum() for n, x in along.items())
    size = sum(np.abs(sample.gradients[n] * x).sum() for n, x in along.items()) + np.abs(left * slope).sum()
    if not abs((left * slope).sum() - wanted) <= ROUNDING * (1 + size) + CANCELLED * sample.size:
        return " does not match backward()"
    if smooth and differences(lambda v: [fn(**v).detach().numpy()], sample, along, products) is False:
        return " does not match differences of the value"
    return ""


def of_gradients(fn: Callable, sample: Sample, along: Arrays, products: Arrays, smooth: bool) -> str | None:
    """What differs of the derivatives of the gradients in a direction; None if nothing could be compared."""

    def slopes(values: dict) -> list[np.ndarray]:
        return [x.detach().numpy() for x in gradients_at(fn, values, products)]

    values = leaves(sample)
    try:
        first = gradients_at(fn, values, along, graph=True)
        engine = product(first, list(along.values()), {n: values[n] for n in products})
    except Exception:  # an operation whose rule has no rule: differences are all there is
        engine = {}
    if differs := _differs(products, engine, sample.size):
        return differs
    close = differences(slopes, sample, along, products) if smooth else None
    if close is False:
        return " does not match finite differences of the gradients"
    compared = close or (engine and all(np.isfinite(x).all() for x in engine.values()))
    return "" if compared else None


def _differs(products: Arrays, engine: Arrays, size: float) -> str:
    for name, wanted in engine.items():
        got = products[name]
        same = got.shape == wanted.shape and differing_entry(wanted, got, size=size) is None
        if np.isfinite(wanted).all() and not same:
            return f" by {name} does not match the engine's double backward"
    return ""


def of_gauss_newton(
    fn: Callable, sample: Sample, along: Arrays, products: Arrays, smooth: bool, calls: list[tuple[str, int]]
) -> str | None:
    """What differs of Jᵀ H_z J v: J v by two backward passes, H_z by two, and Jᵀ by one.

    calls: operations whose results are z, which the code may compute twice, each with the number of its calls on the
    tape before. No difference of gradients is this product.
    """
    values, counts, results = leaves(sample), Counter(), {}
    inputs = {n: values[n] for n in along}

    def note(op, args, result):
        first = result[0] if isinstance(result, tuple) else result
        if first._requires_grad and composed_call(sys._getframe(2)) is None:
            results[op.name, counts[op.name]] = first
            counts[op.name] += 1
        return result

    with observe(on_op=note):
        whole = fn(**values)
    z = [results[call] for call in calls if call in results]  # at some sizes it may be off the tape
    engine = {n: np.zeros(x.shape) for n, x in inputs.items()}
    try:
        if z:
            arriving = {str(n): tensor(np.zeros(x.shape), requires_grad=True) for n, x in enumerate(z)}
            slopes = grad(z, [*inputs.values()], [*arriving.values()], create_graph=True, materialize_grads=True)
            forward = product(list(slopes), list(along.values()), arriving)
            slopes = gradients(whole, z, create_graph=True)
            middle = product(slopes, list(forward.values()), dict(zip(arriving, z, strict=True)))
            engine = product(z, list(middle.values()), inputs)
    except RuntimeError:  # an operation whose rule has no rule
        return None
    return _differs(products, engine, sample.size)

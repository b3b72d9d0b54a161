"""Derivatives in a direction, in numbers: the engine's backward passes, and finite differences.

At a point the formulas are multiplied by a random direction, and so is the engine's matrix, by a backward pass through
the gradient: a wrong formula gives another product, except with probability 0. Differences tell whether that pass
itself is right; where an operation has no second backward pass, they are all there is.
"""

from collections.abc import Callable, Iterable

import numpy as np

from tinytensor.autograd import grad
from tinytensor.core import late_bound
from tinytensor.core.observers import observe
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import tensor
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.samples import Sample, gradients
from tinytensor.symbolic.numbers import ROUNDING, agrees, differing_entry

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


def differences(of: Callable[[dict], list[np.ndarray]], sample: Sample, along: Arrays, products: Arrays) -> bool:
    """Are derivatives in a direction close to difference quotients of some arrays, at one of the steps?"""
    flat = np.concatenate([x.ravel() for x in products.values()])

    def line(step: float) -> np.ndarray:
        return np.concatenate([x.ravel() for x in of(leaves(sample, {n: step * x for n, x in along.items()}))])

    return bool(agrees(line, flat, np.abs(flat).max(initial=0)))


def of_value(fn: Callable, sample: Sample, along: Arrays, products: Arrays, smooth: bool) -> str:
    """What differs of the derivative of the value in a direction, in words; empty if nothing does.

    smooth: may it be compared with differences, too?
    """
    (slope,) = products.values()
    left = np.ones(()) if sample.upstream is None else sample.upstream
    wanted = sum((sample.gradients[n] * x).sum() for n, x in along.items())
    size = sum(np.abs(sample.gradients[n] * x).sum() for n, x in along.items()) + np.abs(left * slope).sum()
    if not abs((left * slope).sum() - wanted) <= ROUNDING * (1 + size):
        return " does not match backward()"
    with late_bound.pytorch_follows_us(), np.errstate(all="ignore"), double_precision():
        if smooth and not differences(lambda values: [fn(**values).detach().numpy()], sample, along, products):
            return " does not match differences of the value"
    return ""


def of_gradients(fn: Callable, sample: Sample, along: Arrays, products: Arrays, smooth: bool) -> str | None:
    """What differs of the derivatives of the gradients in a direction; None if nothing could be compared."""

    def slopes(values: dict) -> list[np.ndarray]:
        return [x.detach().numpy() for x in gradients_at(fn, values, products)]

    values = leaves(sample)
    with late_bound.pytorch_follows_us(), np.errstate(all="ignore"), double_precision():
        try:
            first = gradients_at(fn, values, along, graph=True)
            engine = product(first, list(along.values()), {n: values[n] for n in products})
        except Exception:  # an operation whose rule has no rule: differences are all there is
            engine = {}
        if differs := _differs(products, engine):
            return differs
        if smooth and not differences(slopes, sample, along, products):
            return " does not match finite differences of the gradients"
    compared = smooth or (engine and all(np.isfinite(x).all() for x in engine.values()))
    return "" if compared else None


def _differs(products: Arrays, engine: Arrays) -> str:
    for name, wanted in engine.items():
        same_shape = products[name].shape == wanted.shape
        if np.isfinite(wanted).all() and not (same_shape and differing_entry(wanted, products[name]) is None):
            return f" by {name} does not match the engine's double backward"
    return ""


def of_gauss_newton(
    fn: Callable, sample: Sample, along: Arrays, products: Arrays, smooth: bool, call: tuple[str, int]
) -> str | None:
    """What differs of Jᵀ H_z J v: J v by two backward passes, H_z by two, and Jᵀ by one.

    call: the operation whose result is z, and the number of its calls on the tape before. No difference of gradients is
    this product.
    """
    values, calls = leaves(sample), []
    inputs = {n: values[n] for n in along}
    name, number = call

    def note(op, args, result):
        first = result[0] if isinstance(result, tuple) else result
        if op.name == name and first._requires_grad:
            calls.append(first)
        return result

    with late_bound.pytorch_follows_us(), np.errstate(all="ignore"), double_precision():
        with observe(on_op=note):
            whole = fn(**values)
        z = calls[number] if number < len(calls) else whole.detach()
        engine = {n: np.zeros(x.shape) for n, x in inputs.items()}
        try:
            if z._requires_grad:
                arriving = tensor(np.zeros(z.shape), requires_grad=True)
                slopes = grad(z, list(inputs.values()), arriving, create_graph=True, materialize_grads=True)
                forward = product(list(slopes), list(along.values()), {"z": arriving})["z"]
                (slope,) = grad(whole, [z], create_graph=True, materialize_grads=True)
                middle = product([slope], [forward], {"z": z})["z"]
                back = grad(z, list(inputs.values()), tensor(middle), materialize_grads=True)
                engine = {n: x.detach().numpy() for n, x in zip(inputs, back, strict=True)}
        except RuntimeError:  # an operation whose rule has no rule
            return None
    return _differs(products, engine)

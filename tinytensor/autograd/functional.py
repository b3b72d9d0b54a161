"""Derivatives of functions of tensors: Jacobians, Hessians and their products with vectors.

With `create_graph` the results are on the tape, connected to the given inputs. With `strict` an input that the value
does not depend on raises, instead of having zeros as its derivative.
"""

from collections.abc import Callable, Sequence

from tinytensor.autograd.backward import grad
from tinytensor.autograd.func.transforms import jacobians_by_rows
from tinytensor.core.modes import enable_grad
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import ones_like, zeros_like

Tensors = Tensor | tuple[Tensor, ...]


def _inputs(inputs: Tensors, create_graph: bool) -> tuple[tuple[Tensor, ...], bool]:
    """The inputs as tensors that require grad, and whether there was only one."""
    single = isinstance(inputs, Tensor)
    values = (inputs,) if single else tuple(inputs)
    if not create_graph:  # cut off from their own graph, which is not walked
        return tuple(x.detach().clone().requires_grad_() for x in values), single
    with enable_grad():  # a view of each: its graph stays, and a constant can require grad without being changed
        return tuple(x[...] if x.requires_grad else x.detach().requires_grad_() for x in values), single


def _value(func: Callable, xs: tuple[Tensor, ...], what: str, number: bool = False) -> Tensor:
    with enable_grad():
        y = func(*xs)
    if not isinstance(y, Tensor):
        raise TypeError(f"{what}: the function must return one tensor, got {type(y).__name__}")
    if number and y.numel() != 1:
        raise RuntimeError(f"{what}: the function must return one number, got a tensor of shape {y.shape}")
    return y


def _gradients(
    outputs: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor],
    weights: Tensor | Sequence[Tensor] | None,
    what: str,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, ...]:
    """The derivatives, zeros for inputs that have none; the tape is kept."""
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    weights = [weights] if isinstance(weights, Tensor) else weights or [None] * len(outputs)
    pairs = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]  # the others are constants
    gradients: Sequence[Tensor | None] = [None] * len(inputs)
    if pairs:
        with enable_grad():
            gradients = grad(
                *([y for y, _ in pairs], inputs, [w for _, w in pairs]),
                retain_graph=True, create_graph=create_graph, allow_unused=True,
            )  # fmt: skip
    if strict and any(g is None for g in gradients):
        missing = [i for i, g in enumerate(gradients) if g is None]
        raise RuntimeError(f"{what}: the value does not depend on the inputs number {missing}, and strict=True")
    return tuple(zeros_like(x) if g is None else g for g, x in zip(gradients, inputs, strict=True))


def _handed_out(value, create_graph: bool):
    """The results for the caller: without create_graph detached from the tape."""
    if isinstance(value, tuple):
        return tuple(_handed_out(v, create_graph) for v in value)
    return value if create_graph else value.detach()


def _vectors(v: Tensors | None, xs: tuple[Tensor, ...], what: str) -> tuple[Tensor, ...]:
    """The vector of a product, one part for each input."""
    if v is None:
        if len(xs) != 1 or xs[0].numel() != 1:
            raise RuntimeError(f"{what}: v may be left out only for one input of one number")
        return (ones_like(xs[0]).detach(),)
    vs = (v,) if isinstance(v, Tensor) else tuple(v)
    if [w.shape for w in vs] != [x.shape for x in xs]:
        raise RuntimeError(f"{what}: v has the shapes {[w.shape for w in vs]}, the inputs {[x.shape for x in xs]}")
    return vs


def vjp(func: Callable, inputs: Tensors, v: Tensor | None = None, create_graph: bool = False, strict: bool = False):
    """(f(x), v^T J): the product that backward computes, for a function of tensors."""
    xs, single = _inputs(inputs, create_graph)
    y = _value(func, xs, "vjp")
    gradients = _gradients(y, xs, v, "vjp", create_graph, strict)
    return _handed_out((y, gradients[0] if single else gradients), create_graph)


def jvp(func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False):
    """(f(x), J v), by differentiating u -> u^T J, which is linear, by u."""
    xs, _ = _inputs(inputs, create_graph)
    vs = _vectors(v, xs, "jvp")
    y = _value(func, xs, "jvp")
    u = zeros_like(y).detach().requires_grad_()
    through = _gradients(y, xs, u, "jvp", True, strict)
    (result,) = _gradients(through, [u], vs, "jvp", create_graph)
    return _handed_out((y, result), create_graph)


def jacobian(func: Callable, inputs: Tensors, create_graph: bool = False, strict: bool = False):
    """J[i][j] = d f_i / d x_j, of shape f.shape + x.shape (a tuple of them for several inputs)."""
    xs, single = _inputs(inputs, create_graph)
    y = _value(func, xs, "jacobian")
    result = jacobians_by_rows(y, xs, lambda unit: _gradients(y, xs, unit, "jacobian", create_graph, strict))
    return _handed_out(result[0] if single else tuple(result), create_graph)


def hessian(func: Callable, inputs: Tensors, create_graph: bool = False, strict: bool = False):
    """H[i][j] = d^2 f / dx_i dx_j of a function with one number as its value (nested tuples for several inputs)."""
    xs, single = _inputs(inputs, create_graph)
    y = _value(func, xs, "hessian", number=True)
    first = _gradients(y, xs, None, "hessian", True, strict)
    rows = [
        tuple(jacobians_by_rows(g, xs, lambda unit, g=g: _gradients(g, xs, unit, "hessian", create_graph, strict)))
        for g in first
    ]
    return _handed_out(rows[0][0] if single else tuple(rows), create_graph)


def vhp(func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False):
    """(f(x), v^T H) of a function with one number as its value."""
    xs, single = _inputs(inputs, create_graph)
    vs = _vectors(v, xs, "vhp")
    y = _value(func, xs, "vhp", number=True)
    first = _gradients(y, xs, None, "vhp", True, strict)
    gradients = _gradients(first, xs, vs, "vhp", create_graph, strict)
    return _handed_out((y, gradients[0] if single else gradients), create_graph)


def hvp(func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False):
    """(f(x), H v) of a function with one number as its value: v^T H, since H is symmetric; Pearlmutter (1994)."""
    return vhp(func, inputs, v, create_graph, strict)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

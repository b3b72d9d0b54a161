"""Derivatives of functions of tensors: Jacobians, Hessians and their products with vectors."""

from collections.abc import Callable

from tinytensor.autograd.partial import grad
from tinytensor.creation import eye, zeros_like
from tinytensor.modes import enable_grad
from tinytensor.ops.shape import stack
from tinytensor.tensors import Tensor


def _fresh(inputs) -> tuple[tuple[Tensor, ...], bool]:
    single = isinstance(inputs, Tensor)
    return tuple(x.detach().clone().requires_grad_() for x in ((inputs,) if single else inputs)), single


def vjp(func: Callable, inputs, v: Tensor | None = None, create_graph: bool = False):
    """(f(x), v^T J): what backward computes, for a function of tensors."""
    xs, single = _fresh(inputs)
    with enable_grad():
        y = func(*xs)
    found = _or_zeros(grad(y, xs, v, create_graph=create_graph, allow_unused=True), xs)
    return y if create_graph else y.detach(), found[0] if single else found


def _or_zeros(gradients, inputs) -> tuple[Tensor, ...]:
    return tuple(zeros_like(x) if g is None else g for g, x in zip(gradients, inputs, strict=True))


def jvp(func: Callable, inputs, v):
    """(f(x), J v), by differentiating u -> u^T J, which is linear, by u."""
    xs, single = _fresh(inputs)
    vs = (v,) if single else tuple(v)
    with enable_grad():
        y = func(*xs)
        u = zeros_like(y).requires_grad_()
        through = grad(y, xs, u, create_graph=True, allow_unused=True)
        pairs = [(g, w) for g, w in zip(through, vs, strict=True) if g is not None]
        if not pairs:
            return y.detach(), zeros_like(y)
        (result,) = grad([g for g, _ in pairs], u, [w for _, w in pairs], allow_unused=True)
    return y.detach(), zeros_like(y) if result is None else result.detach()


def jacobian(func: Callable, inputs, create_graph: bool = False):
    """J[i][j] = d f_i / d x_j, of shape f.shape + x.shape (a tuple of them for several inputs)."""
    xs, single = _fresh(inputs)
    if create_graph:
        xs = (inputs,) if single else tuple(inputs)
    with enable_grad():
        y = func(*xs)
    columns: list[list[Tensor]] = [[] for _ in xs]
    for row in eye(y.numel(), dtype=y.dtype):
        found = grad(y, xs, row.reshape(y.shape), retain_graph=True, create_graph=create_graph, allow_unused=True)
        for column, g in zip(columns, _or_zeros(found, xs), strict=True):
            column.append(g)
    result = tuple(stack(c).reshape(y.shape + x.shape) for c, x in zip(columns, xs, strict=True))
    return result[0] if single else result


def hessian(func: Callable, inputs):
    """H[i][j] = d^2 f / dx_i dx_j of a function with one number as its value (nested tuples for several inputs)."""
    xs, single = _fresh(inputs)
    with enable_grad():
        first = _or_zeros(grad(func(*xs), xs, create_graph=True, allow_unused=True), xs)
    rows = []
    for g, x in zip(first, xs, strict=True):
        blocks: list[list[Tensor]] = [[] for _ in xs]
        for i in range(g.numel()):
            entry = g.reshape(-1)[i]
            found = grad(entry, xs, retain_graph=True, allow_unused=True) if g.requires_grad else [None] * len(xs)
            for block, h in zip(blocks, _or_zeros(found, xs), strict=True):
                block.append(h)
        rows.append(tuple(stack(b).reshape(x.shape + z.shape) for b, z in zip(blocks, xs, strict=True)))
    return rows[0][0] if single else tuple(rows)


def hvp(func: Callable, inputs, v):
    """(f(x), H v) of a function with one number as its value."""
    xs, single = _fresh(inputs)
    vs = (v,) if single else tuple(v)
    with enable_grad():
        y = func(*xs)
        first = grad(y, xs, create_graph=True, allow_unused=True)
        pairs = [(g, w) for g, w in zip(first, vs, strict=True) if g is not None and g.requires_grad]
        found = grad([g for g, _ in pairs], xs, [w for _, w in pairs], allow_unused=True) if pairs else [None] * len(xs)
    found = _or_zeros(found, xs)
    return y.detach(), found[0] if single else found


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vjp"]

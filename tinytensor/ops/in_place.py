"""Changes in place: every one ends in `Tensor.become`."""

import builtins

import numpy as np

from tinytensor import tensor as core
from tinytensor.creation import rand, randn, tensor, zeros
from tinytensor.door import state
from tinytensor.ops.elementwise import _as_tensor
from tinytensor.ops.index import _key, getitem, put
from tinytensor.ops.shape import cast, clone, expand, flatten, slice_, squeeze
from tinytensor.tensor import Op, Tensor, no_grad, op


def setitem(x: Tensor, key, value) -> None:
    """x[key] = value, in place; the gradient flows to the value and to what was kept of x."""
    key = _key(x, key)
    if not isinstance(value, Tensor):
        value = tensor(value, dtype=x.dtype)
    if not builtins.any(isinstance(k, np.ndarray) for k in key):
        part = slice_(x, key)
        _fits(value, part.shape, "setitem")
        copy_(part, _leading_ones_off(value, part.ndim))
        if part.requires_grad and x._base is None:
            x._tracked = x._version.tracked
        return
    positions = Tensor(np.arange(x.numel()).reshape(x.shape))
    with no_grad():
        chosen = getitem(positions, key)
    _fits(value, chosen.shape, "setitem")
    value = expand(_leading_ones_off(value, chosen.ndim).to(x.dtype), chosen.shape)
    x.become(put(x, flatten(chosen), flatten(value)))


def _fits(value, shape, what):
    try:
        if np.broadcast_shapes(_leading_ones_off(value, len(shape)).shape, shape) == tuple(shape):
            return
    except ValueError:
        pass
    raise RuntimeError(f"{what}: a value of shape {value.shape} does not fit the place of shape {tuple(shape)}")


def _leading_ones_off(value, ndim):
    while value.ndim > ndim and value.shape[0] == 1:
        value = squeeze(value, 0)
    return value


def _in_place(operation):
    """x.f_(...): the result of f takes the place of x (PyTorch's names end in an underscore)."""

    def changed(x: Tensor, *args, **kwargs) -> Tensor:
        tracked = state.grad and builtins.any(isinstance(a, Tensor) and a.requires_grad for a in (x, *args))
        core.check_in_place(x, tracked)
        if tracked:  # the rules may need the values from before
            return x.become(operation(_as_it_was(x), *args, **kwargs))
        if isinstance(operation, Op):
            y = operation(x, *args, **kwargs, out=x)
            return y if y is x else x.become(y)
        return x.become(operation(x, *args, **kwargs))

    name = operation.__name__.removesuffix("_scaled") + "_"
    changed.__name__, changed.__qualname__ = name, name
    changed.__doc__ = f"Like {name[:-1]}, in place."
    return changed


def _as_it_was(x: Tensor) -> Tensor:
    """A copy of x at the same place on the tape."""
    with no_grad():
        copy = clone(x)
    copy.node, copy.requires_grad = x.node, x.requires_grad
    return copy


@op
class overwrite:
    r"y = value, in the place of x"

    def forward(x, value):
        return value

    def grad_x(g, y, x, value):
        return zeros(x.shape, dtype=g.dtype)

    def grad_value(g, y, x, value):
        return g


def copy_(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """x[...] = source (broadcast), in place."""
    try:
        fits = np.broadcast_shapes(source.shape, x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"copy_: values of shape {source.shape} do not fit a tensor of shape {x.shape}")
    core.check_in_place(x, x.requires_grad or source.requires_grad)
    value = expand(cast(source, x.dtype) if source.dtype != x.dtype else source, x.shape)
    return x.become(overwrite(x, value) if x.requires_grad else value)


def fill_(x: Tensor, value) -> Tensor:
    """x[...] = value, in place."""
    return copy_(x, _as_tensor(value, x.dtype))


def zero_(x: Tensor) -> Tensor:
    """x[...] = 0, in place."""
    return fill_(x, 0)


def uniform_(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator=None) -> Tensor:
    """Draw every element from [low, high), in place."""
    return copy_(x, rand(x.shape, dtype=x.dtype, generator=generator) * (high - low) + low)


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator=None) -> Tensor:
    """Draw every element from the normal distribution, in place."""
    return copy_(x, randn(x.shape, dtype=x.dtype, generator=generator) * std + mean)


def _in_place_setitem(x, key, value):
    setitem(x, key, value)

"""Gradient clipping, weights computed from others, parameters as one vector, packed sequences."""

import math
from collections.abc import Iterable
from typing import Any

from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import contiguous, empty, launch
from tinytensor.core.memory_order import memory_order, ordered
from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module, Parameter
from tinytensor.nn.utils import parametrizations, parametrize, rnn
from tinytensor.nn.utils.parametrizations import norm_except_dim
from tinytensor.ops.creation import zeros
from tinytensor.ops.shape import cat, stack


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix ("module.", say) off the names in a state, in place; names without it stay."""
    renamed = {name.removeprefix(prefix): value for name, value in state_dict.items()}
    if len(renamed) < len(state_dict):
        raise ValueError(f"consume_prefix_in_state_dict_if_present: a name is there with and without {prefix!r}")
    state_dict.clear()
    state_dict.update(renamed)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in parameters if p.grad is not None]


def _sum_of_squares(tensors: list[Tensor]) -> Tensor:
    """The sum of squares of all elements of all tensors (of one dtype)."""
    arrays = [t.detach()._data for t in tensors]
    flat = [contiguous(ordered(a, memory_order(a))).reshape(-1) for a in arrays]
    y = empty((), flat[0].dtype)
    launch(kernels.sum_of_squares, y.reshape(1), *flat)
    return Tensor.of(y)


def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Tensor:
    """The norm of all tensors as if they were one vector, in the widest of their dtypes."""
    tensors, norm_type = list(tensors), float(norm_type)  # which may be "inf"
    with no_grad():
        if not tensors:
            return zeros(())
        if norm_type == 2:
            dtypes = {t._data.dtype for t in tensors}
            norms = [_sum_of_squares([t for t in tensors if t._data.dtype == dtype]).sqrt() for dtype in dtypes]
            total = norms[0] if len(norms) == 1 else stack(norms).norm()
        else:
            total = stack([t.norm(norm_type) for t in tensors]).norm(norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(f"clip_grad_norm_: the total norm of the gradients is {total.item()}")
    return total


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their common norm is at most max_norm; returns the norm before.

    From Pascanu, Mikolov and Bengio (2013).
    """
    gradients = _gradients(parameters)
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    with no_grad():
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for g in gradients:
            g.mul_(factor)
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of every gradient to +-clip_value."""
    with no_grad():
        for g in _gradients(parameters):
            g.clamp_(-clip_value, clip_value)


class WeightNorm:
    r"""The hook of `weight_norm` before a module's forward: weight = g \, v / |v|, computed anew at each call."""

    def __init__(self, name: str, dim: int | None):
        self.name, self.dim = name, dim

    def weight(self, module: Module) -> Tensor:
        """The weight from the module's present direction and length."""
        v = getattr(module, f"{self.name}_v")
        return v * (getattr(module, f"{self.name}_g") / norm_except_dim(v, 2, self.dim))

    def __call__(self, module: Module, args: tuple) -> None:
        setattr(module, self.name, self.weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    r"""Train w = g \, v / |v| by its length g and its direction v, for each slice along `dim` (Salimans, Kingma 2016).

    The parameters `name`_g and `name`_v replace the parameter `name`; `name` is computed before each forward. There is
    one length for all of w if `dim` is None or -1, as in PyTorch.
    """
    v = getattr(module, name)
    if not isinstance(v, Parameter):
        raise TypeError(f"weight_norm: expected a parameter under {name!r}, got {type(v).__name__}")
    normed = WeightNorm(name, dim)
    g = Parameter(norm_except_dim(v, 2, dim).detach().clone())
    delattr(module, name)
    module.register_parameter(f"{name}_g", g)
    module.register_parameter(f"{name}_v", Parameter(v.detach().clone()))
    normed(module, ())
    module.register_forward_pre_hook(normed)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make `name` a parameter again, with its present value."""
    for hook in module._pre_hooks:
        if isinstance(hook, WeightNorm) and hook.name == name:
            weight = hook.weight(module).detach().clone()
            module._pre_hooks.remove(hook)
            for gone in (name, f"{name}_g", f"{name}_v"):
                delattr(module, gone)
            module.register_parameter(name, Parameter(weight))
            return module
    raise ValueError(f"remove_weight_norm: {name!r} of {type(module).__name__} has no weight_norm")


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, one after another, as one vector."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give each parameter its part of the vector as its value."""
    parameters = list(parameters)
    if vec.ndim != 1 or vec.numel() != sum(p.numel() for p in parameters):
        raise ValueError(
            f"vector_to_parameters: expected a vector of {sum(p.numel() for p in parameters)} elements, "
            f"got shape {vec.shape}"
        )
    begin = 0
    for p in parameters:
        p.data.copy_(vec.detach()[begin : begin + p.numel()].reshape(p.shape))
        begin += p.numel()

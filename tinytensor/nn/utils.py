"""Gradient clipping, in PyTorch's place."""

import math
from collections.abc import Iterable
from itertools import accumulate, pairwise

import numpy as np

from tinytensor import absent, kernels
from tinytensor.door import contiguous, empty, launch
from tinytensor.modes import no_grad
from tinytensor.ops.shape import stack
from tinytensor.tensors import Tensor


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in parameters if p.grad is not None]


def _sum_of_squares(tensors: list[Tensor]) -> Tensor:
    """The sum over all elements of all tensors (of one dtype), added up from parts: a launch a tensor, and one more."""
    flat = [contiguous(t.detach()._data).reshape(-1) for t in tensors]
    ends = list(accumulate((kernels.update.sumsq_parts(x.size) for x in flat), initial=0))
    parts, y = empty((ends[-1],), flat[0].dtype), empty((), flat[0].dtype)
    for x, (begin, end) in zip(flat, pairwise(ends), strict=True):
        launch(kernels.update.sumsq, x, parts[begin:end])
    launch(kernels.reduce.reduce_sum, parts.reshape(1, -1, 1), y.reshape(1, 1))
    return Tensor.of(y)


def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Tensor:
    """The norm of all tensors as if they were one vector."""
    tensors = list(tensors)
    with no_grad():
        if not tensors:
            return Tensor.of(np.zeros(()))
        if norm_type == 2:
            total = _sum_of_squares(tensors).sqrt()
        else:
            norms = stack([t.norm(norm_type) for t in tensors])
            total = norms.amax() if norm_type == math.inf else norms.norm(norm_type)
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
    """Scale all gradients so that their common norm is at most max_norm; returns the norm before."""
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


__getattr__ = absent.module("nn.utils", __name__)

"""The seed: the gradient from which a walk of the tape starts."""

from tinytensor.core.batched_data import BatchedData
from tinytensor.core.tensor import Tensor
from tinytensor.core.views import regenerate_grad_fn
from tinytensor.ops.creation import ones_like


def seed_of(y: Tensor, gradient: Tensor | None, what: str) -> Tensor:
    """The gradient that a walk starts from: 1 if y is one number, for dy/dy = 1; else the caller's.

    Each number of y has its own derivatives. A walk carries only one gradient to each node, and so computes the sum of
    these derivatives, weighted by the seed. Only the caller can know the weights, and a silent 1 for each would hide
    that a mean was forgotten.
    """
    regenerate_grad_fn(y)
    leaves_get_it = what == "backward"  # and a leaf's .grad outlives the vmap
    if isinstance(y._data, BatchedData) or (leaves_get_it and isinstance(getattr(gradient, "_data", 0), BatchedData)):
        raise RuntimeError(f"{what}: inside vmap a tensor has no tape of its own; use tinytensor.func.grad")
    if not y._requires_grad:
        raise RuntimeError(
            f"{what}: this tensor does not require grad: nothing that it was computed from does (or no_grad() was on)"
        )
    if gradient is None:
        if y.numel() != 1:
            raise RuntimeError(
                f"{what}() starts from one number, but this tensor has shape {y.shape}: call .sum() or .mean() first, "
                "or give the gradient to start from"
            )
        return ones_like(y)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"{what}: the gradient to start from must be a tensor, got {type(gradient).__name__}")
    if gradient.shape != y.shape:
        raise RuntimeError(f"{what}: the gradient has shape {gradient.shape}, but the tensor has shape {y.shape}")
    return gradient.to(y.dtype)

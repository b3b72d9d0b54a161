"""Where a walk of the tape begins: the derivative of a value by itself."""

from tinytensor.core import provided
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import ones_like


def seed_of(y: Tensor, gradient: Tensor | None, what: str) -> Tensor:
    """The gradient that a walk starts from: 1 where y is one number, for dy/dy = 1; else what the caller gives.

    A y of several numbers has a derivative for each of them. A walk carries one gradient to each place, of y's shape,
    and so computes their sum, weighted by the seed. What the weights should be only the caller can know, and a silent 1
    for each would hide that a mean was forgotten.
    """
    provided.follow_base(y)
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
    if gradient.shape != y.shape:
        raise RuntimeError(f"{what}: the gradient has shape {gradient.shape}, but the tensor has shape {y.shape}")
    return gradient.to(y.dtype)

"""Fused steps: one kernel of the native backend makes the whole step of a parameter, by the rule of its optimizer.

A class of optimizers names its kernel in `fused`, None where the backend has none. A test compares both, to rounding.
"""

import numpy as np

from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import contiguous, launch, move
from tinytensor.core.kernel import Kernel
from tinytensor.core.memory_order import memory_order, ordered
from tinytensor.core.tensor import Tensor


def fused_kernel(name: str) -> Kernel | None:
    """The backend's kernel for the step of an optimizer."""
    return getattr(kernels, name, None)


def launch_fused(
    kernel: Kernel, p: Tensor, g: Tensor, slots: list[Tensor | None], scale: np.ndarray, numbers: np.ndarray
) -> None:
    """Launch kernel(p, g, *slots, scale, numbers) on p's numbers in memory order; a p with gaps is copied."""
    order = memory_order(p._data)

    def flat(a: np.ndarray) -> np.ndarray:
        return ordered(a, order) if a.shape == p.shape else a  # any other array is empty or has one number

    changed = [flat(np.empty(0, p.dtype) if x is None else x._data) for x in (p, *slots)]
    whole = [contiguous(a) for a in (*changed, flat(g._data), flat(scale))]
    first, *kept, g, scale = [a.reshape(-1) for a in whole]
    launch(kernel, first, g, *kept, scale, numbers)
    for a, copied in zip(changed, whole):
        if copied is not a:
            move(copied, a)
    p._version.count += 1

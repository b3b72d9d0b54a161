"""Numba kernels: loops on NumPy arrays. `kernel.KERNELS` is the table of all of them."""

from tinytensor.kernels import attention, chance, copy, index, loss, matmul, norm, reduce, scan, softmax, update
from tinytensor.runtime.kernel import KERNELS

__all__ = [
    "KERNELS",
    "attention",
    "chance",
    "copy",
    "index",
    "loss",
    "matmul",
    "norm",
    "reduce",
    "scan",
    "softmax",
    "update",
]

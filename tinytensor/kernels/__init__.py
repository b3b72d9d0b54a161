"""Numba kernels: loops on NumPy arrays. `kernel.KERNELS` is the table of all of them."""

from tinytensor.core.kernel import KERNELS
from tinytensor.kernels import (
    attention,
    chance,
    copy,
    index,
    loss,
    matmul,
    matvec,
    norm,
    reduce,
    scan,
    softmax,
    sums,
    update,
)

__all__ = [
    "KERNELS",
    "attention",
    "chance",
    "copy",
    "index",
    "loss",
    "matmul",
    "matvec",
    "norm",
    "reduce",
    "scan",
    "softmax",
    "sums",
    "update",
]

"""Numba kernels: loops on NumPy arrays. `kernel.KERNELS` is the table of all of them."""

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
from tinytensor.runtime.kernel import KERNELS

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

"""Native kernels: loops on NumPy arrays, which Numba compiles, and the launches that they need (`launches.py`).

`core/reference.py` has a definition for each of them; KERNELS is the table of all.
"""

from tinytensor.core.kernel import KERNELS
from tinytensor.native.kernels import (
    attention,
    copy,
    index,
    loss,
    matmul,
    matvec,
    norm,
    random,
    reduce,
    scan,
    softmax,
    sums,
    update,
)

__all__ = [
    "KERNELS",
    "attention",
    "copy",
    "index",
    "loss",
    "matmul",
    "matvec",
    "norm",
    "random",
    "reduce",
    "scan",
    "softmax",
    "sums",
    "update",
]

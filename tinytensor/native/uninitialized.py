"""New memory, which holds what was there by chance; or, if `TINYTENSOR_UNWRITTEN=nan` is set, what shows that.

What a kernel forgets to write, or reads too early, often holds the right numbers of the last run. With the switch on,
every bit of new memory is 1 until it is written: NaN in floats, and -1 in whole numbers, which is no index. It holds in
all places where memory comes from: the door, a recording's pool (each time that a buffer is lent, and all of it before
each replay), and what `fast/launch_cache.py` keeps. The tests run with it.
"""

import math
import os
from collections.abc import Callable

import numpy as np

from tinytensor.native.entries import OBJECT
from tinytensor.native.simd import LINE


def spoil(memory: np.ndarray) -> None:
    """Set every bit to 1; Python's objects stay None, which nothing computes with."""
    if memory.dtype is not OBJECT:
        memory.reshape(-1).view(np.uint8).fill(255)


def spoiled(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """New memory that shows where it was not written."""
    y = np.empty(shape, dtype)
    spoil(y)
    return y


def chosen(switch: str) -> Callable:
    """What makes new memory: `np.empty` itself, so that the switch costs nothing where it is off."""
    if switch not in ("", "nan"):
        raise ValueError(f"TINYTENSOR_UNWRITTEN={switch}: expected nan, or nothing; unset it")
    return spoiled if switch else np.empty


fresh = chosen(os.environ.get("TINYTENSOR_UNWRITTEN", ""))


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """New memory that begins where a cache line does: vector loads then never straddle two."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(dtype).reshape(shape)

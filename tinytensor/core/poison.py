"""Poisoned memory: with `TINYTENSOR_POISON=nan` every bit of new memory is 1, so a read before a write shows.

An element that a kernel forgets to write, or reads too early, often still holds the right number of the last run. All
bits set are NaN in floats, and -1 in integers, which is not a valid index. It covers all sources of memory:
`dispatch.empty`, a recording's pool (each time that a buffer is lent, and all of it before each replay), and the
buffers of `native/fast/launch_cache.py`. The tests run with it.
"""

import math
import os
from collections.abc import Callable

import numpy as np

LINE = 64  # bytes in a line of the caches, the unit that memory delivers; the widest vector register is as long


def poison(memory: np.ndarray) -> None:
    """Set every bit to 1; Python's objects stay None, which raises an error in any computation."""
    if memory.dtype.kind != "O":
        memory.reshape(-1).view(np.uint8).fill(255)


def poisoned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """New memory with every bit set."""
    y = np.empty(shape, dtype)
    poison(y)
    return y


def allocator_for(switch: str) -> Callable:
    """The function that allocates memory: `np.empty` itself where the switch is off, so that it costs nothing."""
    if switch not in ("", "nan"):
        raise ValueError(f"TINYTENSOR_POISON={switch}: expected nan, or nothing; unset it")
    return poisoned if switch else np.empty


fresh = allocator_for(os.environ.get("TINYTENSOR_POISON", ""))

# glibc returns a large block to the system when it is freed, and the next one costs a page fault for each of its pages,
# ten times as long as a formula on it takes. "Large" is what exceeds the largest such block freed so far, up to 32 MB
# (mallopt(3), M_MMAP_THRESHOLD). This block is freed at once, and no page of it is touched.
np.empty(16 << 20, np.uint8)


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """New memory that begins at a cache line, so that vector loads never straddle two lines."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(dtype).reshape(shape)

"""Memory order: the order of an array's dimensions in which its numbers stand one after the other in memory.

A loop over all numbers of a parameter, in any order, goes through them in memory order. Then a parameter with permuted
strides (`empty_permuted`) needs no copy.
"""

import numpy as np


def memory_order(array: np.ndarray) -> tuple[int, ...] | None:
    """The dimensions of an array, the longest stride first; None if they are in this order already."""
    if array.flags.c_contiguous:
        return None
    return tuple(sorted(range(array.ndim), key=lambda d: -array.strides[d]))


def ordered(array: np.ndarray, order: tuple[int, ...] | None) -> np.ndarray:
    """The array with its dimensions in this order; it is C-contiguous if they lie so in memory, without gaps."""
    return array if order is None else array.transpose(order)


def reordered(array: np.ndarray, order: tuple[int, ...] | None) -> np.ndarray:
    """The inverse of `ordered`: an array whose dimensions are in this order, with them back in their places."""
    return array if order is None else array.transpose([order.index(d) for d in range(array.ndim)])


def laid_like(memory: np.ndarray, array: np.ndarray) -> np.ndarray:
    """`memory`, as many numbers as `array` has, one after the other, as an array of its shape and memory order."""
    order = memory_order(array)
    return reordered(memory.reshape(ordered(array, order).shape), order)

"""How an array lies in memory: in which order of its dimensions its numbers stand one after the other.

Whoever goes through all numbers of a parameter, and does not mind in which order, goes through memory as it lies. Then
a parameter of other strides than those of its shape (`empty_permuted`) needs no copy.
"""

import numpy as np


def memory_order(array: np.ndarray) -> tuple[int, ...] | None:
    """The dimensions of an array, the one of the longest stride first; None if they stand so already."""
    if array.flags.c_contiguous:
        return None
    return tuple(sorted(range(array.ndim), key=lambda d: -array.strides[d]))


def ordered(array: np.ndarray, order: tuple[int, ...] | None) -> np.ndarray:
    """The array with its dimensions in this order; it is C-contiguous if they lie so in memory, without gaps."""
    return array if order is None else array.transpose(order)


def reordered(array: np.ndarray, order: tuple[int, ...] | None) -> np.ndarray:
    """What `ordered` made this array of: its dimensions are in this order, and go back to their places."""
    return array if order is None else array.transpose([order.index(d) for d in range(array.ndim)])


def laid_like(memory: np.ndarray, array: np.ndarray) -> np.ndarray:
    """As many numbers as `array` has, one after the other in memory, in its shape and lying as they do there."""
    order = memory_order(array)
    return reordered(memory.reshape(ordered(array, order).shape), order)

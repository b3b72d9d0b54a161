"""Arrays that are parts of the memory of others: what a deep copy of a view needs."""

import copy

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from tinytensor.core.meta import Meta


def copy_memory(tensor, result, memo: dict) -> None:
    """Make `result`, a new object, a tensor on a copy of a tensor's memory: a view, if that is a view of a leaf.

    The base is copied once in one deep copy, whether it is among the copied objects or not.
    """
    data, base = tensor._data, tensor._base
    if base is None or base.node is not None or not _lies_within(data, base._data):
        tensor.of(data if data.__class__ is Meta else data.copy(), tensor.requires_grad, result)
        return
    other = copy.deepcopy(base, memo)
    tensor.of(_same_part(data, base._data, other._data), tensor.requires_grad, result)
    result._base, result._version, result._tracked = other, other._version, other._version.tracked


def _lies_within(part, whole) -> bool:
    """Are these arrays, and the first one a part of the second one's memory, which is in one piece?"""
    if part.__class__ is Meta or whole.__class__ is Meta or not part.size or not whole.flags.c_contiguous:
        return False
    (start, stop), (first, last) = byte_bounds(part), byte_bounds(whole)
    return first <= start and stop <= last and part.dtype == whole.dtype


def _same_part(part: np.ndarray, whole: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The part of another array that `part` is of `whole`."""
    at = (part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // whole.itemsize
    return as_strided(other.reshape(-1)[at:], part.shape, part.strides)

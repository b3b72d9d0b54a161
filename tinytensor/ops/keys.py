"""Reads the key of x[key] by PyTorch's rules.

NumPy's rules for keys are nearly the same: NumPy counts a whole number beside an index array as another index array,
and the difference shows in the result's shape only. So no key goes to NumPy unread. Reading, writing and the gradients
of both call `parse_index` for its meaning: first a view (slices, whole numbers, None), then index arrays at some
dimensions of that view.
"""

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tinytensor.core.dtypes import int64
from tinytensor.core.meta import Meta
from tinytensor.core.recorder import is_recording, notice
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import nested_numbers

_WHOLE = slice(None)


class Key(NamedTuple):
    """x[view], and then `arrays` of whole numbers (masks have become such arrays) at its dimensions `dims`."""

    view: tuple
    arrays: tuple[np.ndarray, ...]
    dims: tuple[int, ...]


def parse_index(x: Tensor, key) -> Key:
    """The meaning of x[key] for a tensor of x's shape. Raises IndexError (or PyTorch's error) if it has none."""
    parts = [_part(p) for p in _parts(key)]
    shape, used = x.shape, sum([_width(p) for p in parts])
    if used > len(shape):
        raise IndexError(f"indexing: {used} indices for a tensor of shape {shape} with {len(shape)} dimensions")
    view, arrays, dims = [], [], []
    dim = view_dim = 0  # of x, and of the view
    for part in parts:
        if part.__class__ is int:
            n = shape[dim]
            if not -n <= part < n:
                raise IndexError(f"indexing: index {part} is out of range for dimension {dim} of shape {shape}")
            view.append(part)
            dim += 1
            continue
        if part is None:
            view.append(None)
            view_dim += 1
            continue
        if part.__class__ is bool:  # a new dimension, with its one element or without
            view.append(None)
            arrays.append(np.zeros(int(part), int64))
            dims.append(view_dim)
            view_dim += 1
            continue
        width = len(shape) - used if part is ... else _width(part)
        if isinstance(part, np.ndarray | Meta):
            if part.dtype.kind == "b":
                if part.shape != shape[dim : dim + width]:
                    raise IndexError(
                        f"indexing: the mask of shape {part.shape} does not match shape {shape} at dimension {dim}"
                    )
                arrays += np.nonzero(part)
            else:
                arrays.append(part)
            dims += range(view_dim, view_dim + width)
        view += [part if part.__class__ is slice else _WHOLE] * width
        dim += width
        view_dim += width
    return Key(tuple(view), tuple(arrays), tuple(dims))


def _parts(key) -> tuple:
    """The key as a tuple: x[key] is x[key,], unless key is a list of more than numbers, which counts as a tuple."""
    if key.__class__ is tuple:
        parts = key
    elif not isinstance(key, Sequence) or isinstance(key, str | bytes):
        return (key,)
    elif isinstance(key, tuple) or (len(key) < 32 and any(_is_more_than_a_number(k) for k in key)):
        parts = tuple(key)
    else:
        return (key,)
    if sum([p is ... for p in parts]) > 1:
        raise IndexError("indexing: ... may stand once in a key, for all dimensions that nothing else stands for")
    return parts


def _is_more_than_a_number(k) -> bool:
    return k is None or k is ... or isinstance(k, slice | Sequence | np.ndarray | Tensor)


def _part(part):
    """One part of a key as None, ..., a slice, a bool, an int, or an array of whole numbers or truth values."""
    if part.__class__ is int or part is None or part is ... or part.__class__ is bool:
        return part
    if part.__class__ is slice:
        return _slice_of_numbers(part)
    if isinstance(part, Tensor):
        return _part_of_tensor(part)
    if isinstance(part, np.ndarray) or (isinstance(part, Sequence) and not isinstance(part, str | bytes)):
        try:
            array = np.asarray(nested_numbers(part, set()))
        except ValueError:
            array = None
        if array is not None and not array.size and not isinstance(part, np.ndarray):
            array = array.astype(int64)  # [] is an empty list of numbers
        if array is None or array.dtype.kind not in "bi":
            raise IndexError(
                f"indexing: a list or array in a key must hold whole numbers or truth values, got {part!r}"
            )
        return array if array.ndim else array.item()
    try:
        return operator.index(part)  # NumPy's whole numbers, and other objects with __index__
    except TypeError:
        raise IndexError(
            f"indexing: expected whole numbers, slices, None, ..., masks or index tensors, got {part!r}"
        ) from None


def _part_of_tensor(t: Tensor):
    if t.dtype.kind not in "biu":
        raise IndexError(f"indexing: tensors used as indices must be integer or bool, this one is {t.dtype}")
    if t.dtype.kind in "bu":  # bytes in a key are truth values, as before PyTorch had bool
        mask = t._values("a mask as index").astype(bool, copy=False)
        return mask if t.ndim else bool(mask)
    if t.is_meta or (t.ndim == 0 and not is_recording() and not isinstance(t._data, Meta)):
        return int(t.item())
    notice(t)
    return t._data


def _slice_of_numbers(part: slice) -> slice:
    ends = part.start, part.stop, part.step
    if not all(n is None or n.__class__ is int for n in ends):
        try:
            ends = [None if n is None else operator.index(n) for n in ends]
        except TypeError:
            raise TypeError(f"indexing: the ends and the step of a slice must be whole numbers, got {part}") from None
        part = slice(*ends)
    if part.step is not None and part.step <= 0:
        raise ValueError(f"indexing: the step of a slice must be positive, got {part.step}; use flip()")
    return part


def _width(part) -> int:
    """How many dimensions of x a part of a key addresses; `...` addresses the dimensions that are left."""
    if isinstance(part, np.ndarray | Meta):
        return part.ndim if part.dtype.kind == "b" else 1
    return 0 if part is None or part is ... or part.__class__ is bool else 1

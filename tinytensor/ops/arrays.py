"""Helpers for the functions of an op that work on arrays (`forward`, `backward`): formulas, rows, sums, products."""

import functools
import math
from collections.abc import Callable

import numpy as np

from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import contiguous, empty, launch, state
from tinytensor.core.kernel import OBJECT, Kernel
from tinytensor.core.number_arrays import number_array
from tinytensor.core.promotion import to_scalar


def apply_formula(kernel: Kernel, *values) -> np.ndarray:
    """y = kernel(arrays and numbers): runs a formula on arrays; y has the dtype of the last array."""
    arrays = [v for v in values if v.__class__ is np.ndarray]
    dtype, shapes = arrays[-1].dtype, {a.shape for a in arrays}
    if len(values) == 2 and len(arrays) == 1 and (number := number_array(values[1], dtype)) is not None:
        values = arrays[0], number
    elif dtype is not OBJECT and len(arrays) < len(values):
        values = [v if v.__class__ is np.ndarray else to_scalar(v, dtype) for v in values]
    y = empty(shapes.pop() if len(shapes) == 1 else np.broadcast(*arrays).shape, dtype)
    launch(kernel, *values, y)
    return y


def setting(value, dtype):
    """A number in the type of the kernel's arrays, so that it does not widen float32 arithmetic."""
    return value if dtype is OBJECT else to_scalar(value, dtype)


def as_rows(x: np.ndarray) -> np.ndarray:
    """x (..., n) as contiguous rows (R, n)."""
    return contiguous(x) if x.ndim == 2 else contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])


def constants(make: Callable, *settings, dtype=None) -> np.ndarray:
    """np.eye(n, m), np.tri(n, m, k), ...; in a reading, where sizes have no numbers, what stands for this array."""
    if state.reading is not None and (y := state.reading.constants(make, settings, dtype)) is not None:
        return y
    return make(*settings, dtype=dtype)


def absent_input(x: np.ndarray) -> np.ndarray:
    """An empty array, by which kernels recognise an input that was left out."""
    return np.empty(0, x.dtype)


@functools.lru_cache(maxsize=1024)  # a plan takes as long as a small sum
def _plan(shape: tuple, dims: tuple, keepdim: bool) -> tuple:
    """How to sum over dims: the order of dimensions (None if they stay), (outer, n, inner), the shape of the result.

    The dimensions that are summed over become the middle one.
    """
    first, order, moved = dims[0] if dims else len(shape), None, shape
    if dims and dims[-1] - first >= len(dims):  # not neighbours: bring them to the end
        kept = tuple([d for d in range(len(shape)) if d not in dims])
        order, first = kept + dims, len(kept)
        moved = tuple([shape[d] for d in order])
    last = first + len(dims)
    sizes = math.prod(moved[:first]), math.prod(moved[first:last]), math.prod(moved[last:])
    return order, sizes, reduced_shape(shape, dims, keepdim)


def grouped(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """x as (outer, n, inner), C-contiguous, with the reduced dimensions as the middle one."""
    order, sizes, _ = _plan(x.shape, dims, False)
    return contiguous(x if order is None else x.transpose(order)).reshape(sizes)


def reduced_shape(shape: tuple, dims: tuple, keepdim: bool) -> tuple:
    """The shape of a reduction's result."""
    return tuple([1 if d in dims else n for d, n in enumerate(shape) if keepdim or d not in dims])


def reduce_array(kernel, x: np.ndarray, dims: tuple, keepdim: bool, *extra, dtype=None) -> np.ndarray:
    """y = kernel(x) over dims; `extra` makes further outputs of y's size, by their dtypes."""
    order, sizes, shape = _plan(x.shape, dims, bool(keepdim))
    rows = contiguous(x if order is None else x.transpose(order)).reshape(sizes)
    y = empty((sizes[0], sizes[2]), dtype or x.dtype)
    if not extra:
        launch(kernel, rows, y)
        return y.reshape(shape)
    more = [empty(y.shape, e) for e in extra]
    launch(kernel, rows, y, *more)
    return tuple([a.reshape(shape) for a in (y, *more)])


@functools.lru_cache(maxsize=64)
def _nothing(n: int, dtype: np.dtype) -> np.ndarray:
    """An empty array, by which the kernel recognises that there is no term to add."""
    return np.empty((n, 0, 0), dtype)


def matrix_product(a: np.ndarray, b: np.ndarray, term: np.ndarray | None = None, relu: bool = False) -> np.ndarray:
    """y[n] = a[n] b[n] + term, then max(0, y) if relu, on arrays (n, M, K), (n, K, N) of any strides, and (N).

    The term may be a matrix for each of these, too: (n, M, N), each row of it in one piece.
    """
    shape = a.shape[0], a.shape[1], b.shape[2]
    y = empty(shape, a.dtype)
    if term is None:
        term = _nothing(shape[0], a.dtype)
    elif a.dtype is OBJECT:
        term = np.broadcast_to(term, shape)
    elif term.ndim == 1:  # broadcast_to takes eight times as long, as long as a small product
        term = np.ndarray(shape, a.dtype, contiguous(term), strides=(0, 0, a.itemsize))
    launch(kernels.matmul, a, b, term, int(relu), y)
    return y

"""Checks and conversions of the arguments of operations: dimensions, sizes, values, dtypes.

Each takes as `what` the name of the operation that is called, with which its errors begin.
"""

import math
import operator
from collections.abc import Sequence

import numpy as np

from tinytensor.core.dispatch import host, state
from tinytensor.core.dtypes import CATEGORY, bool_, category, result_type, uint8
from tinytensor.core.kernel import OBJECT
from tinytensor.core.promotion import as_byte, clamp_to_inf
from tinytensor.core.tensor import Tensor

# --- Dimensions and sizes


def dimension(x: Tensor, dim: int, what: str, extra: int = 0) -> int:
    """The number of a dimension of x, counted from the front; a 0-d tensor counts as one with a single dimension."""
    return dimension_of_shape(x._data.shape, dim, what, extra)


def dimension_of_shape(shape: tuple[int, ...], dim: int, what: str, extra: int = 0) -> int:
    """The same for a shape instead of a tensor."""
    n = len(shape) + extra or 1
    dim = dim if dim.__class__ is int else whole_number(dim, f"{what}: dim")
    if not -n <= dim < n:
        raise IndexError(f"{what}: dim {dim} is out of range for shape {shape} (expected {-n} to {n - 1})")
    return dim % n


def dimension_with_size(x: Tensor, dim: int, what: str) -> int:
    """The same for operations that take the dimension apart; a 0-d tensor has none, and is refused."""
    if x.ndim == 0:
        raise (IndexError if what in ("unbind", "select") else RuntimeError)(f"{what}: a 0-d tensor has no dimension")
    return dimension(x, dim, what)


def dimensions(x: Tensor, dim, what: str) -> tuple[int, ...]:
    """One or several dimensions of x, counted from the front, in order; None and () mean all."""
    shape = x._data.shape
    if dim is None:
        return tuple(range(len(shape)))
    if dim.__class__ is int or not isinstance(dim, Sequence) or isinstance(dim, str):
        dim = dimension_of_shape(shape, dim, what)
        return (dim,) if shape else ()
    dims = tuple(dimension(x, d, what) for d in dim)
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"{what}: a dimension appears twice in dim={tuple(dim)}")
    return tuple(sorted(dims)) if dims and x.ndim else tuple(range(x.ndim))


def nonempty_dimensions(x: Tensor, dim, what: str) -> tuple[int, ...]:
    """The same as `dimensions`, for operations that choose one element: there must be at least one."""
    dims = dimensions(x, dim, what)
    if math.prod(x.shape[d] for d in dims) == 0:
        raise (IndexError if dim is not None else RuntimeError)(
            f"{what}: nothing to choose from: shape {x.shape} is empty along dim {dim}; give a dim that is not"
        )
    return dims


def whole_number(n, what: str) -> int:
    """A size, a dimension or a number of places as an int. The error for any other value names the argument."""
    try:
        return n if n.__class__ is int else operator.index(n)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, got {n!r}") from None


def sizes_of(args: tuple, what: str) -> tuple[int, ...]:
    """The sizes in `*args`, given one by one or as one sequence: view(2, 3) and view((2, 3)) are the same."""
    for n in args:
        if n.__class__ is not int:
            break
    else:  # most often
        return args
    if len(args) == 1 and isinstance(args[0], Sequence) and not isinstance(args[0], str):
        args = args[0]
    return tuple([n if n.__class__ is int else whole_number(n, f"{what}: a number in {tuple(args)}") for n in args])


# --- Values


# Types that are not exact scalars. (symbolic/ knows the exact scalars, but is not imported for a number.)
_NO_NUMBER = (complex, str, bytes, list, tuple, dict, type, type(None), np.ndarray)


def to_0d_array(what: str, value: float, dtype: np.dtype) -> np.ndarray:
    """A number as a 0-d array; RuntimeError if the dtype cannot hold it: nan as an integer, 10**30 in 64 bits."""
    if state.reading is not None and (number := state.reading.number(value, dtype)) is not None:
        return number
    array = np.empty((), dtype)
    if isinstance(value, _NO_NUMBER) or (not isinstance(value, int | float | np.generic) and dtype.kind != "O"):
        raise TypeError(f"{what}: expected a tensor or a number, got {value!r}")
    if isinstance(value, np.generic):
        value = value.item()  # NumPy checks Python's numbers when it converts them, but not its own
    try:
        if value != clamp_to_inf(value, dtype) and value == value:
            raise OverflowError
        array[()] = as_byte(value) if dtype == uint8 else value
    except (OverflowError, ValueError):
        raise RuntimeError(f"{what}: {value} can't be stored as {dtype}") from None
    return array


def expect_probabilities(what: str, x: Tensor, advice: str = "") -> None:
    """Refuse numbers that are not from 0 to 1, now and in each replay."""
    if x.dtype is not OBJECT and not x.is_meta:
        host(_refuse_others_than_probabilities, what, x._data, advice)


def _refuse_others_than_probabilities(what: str, x: np.ndarray, advice: str) -> None:
    if x.size and not (x.min() >= 0 and x.max() <= 1):
        raise RuntimeError(
            f"{what}: the input must be probabilities between 0 and 1, but goes from {x.min()} to {x.max()}{advice}"
        )


def tensor_of_dtype(value: Tensor | float, dtype: np.dtype, what: str = "tensor") -> Tensor:
    """A tensor or a number as a tensor of this dtype."""
    return value.to(dtype) if isinstance(value, Tensor) else Tensor.of(to_0d_array(what, value, dtype))


def list_of_tensors(tensors, what: str) -> Sequence[Tensor]:
    """The tensors of a list, or of another iterable; a tensor by itself is refused."""
    came = type(tensors).__name__
    if not isinstance(tensors, (Tensor, dict)):
        listed = tensors if tensors.__class__ is list else tuple(tensors)
        for x in listed:
            if not isinstance(x, Tensor):
                came = f"{type(x).__name__} among them"
                break
        else:
            return listed
    raise TypeError(f"{what}: expected a list or tuple of tensors, got {came}")


_PYTHONS = frozenset({int, float, bool})


def nested_numbers(data, met: set):
    """Nested sequences with a number for each tensor of one element; `met` collects dtypes of tensors and arrays."""
    if data.__class__ in _PYTHONS:
        return data
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ValueError(
                f"tensor: an element of the list is a tensor of shape {data.shape}, and only tensors of one element "
                "stand for a number; make one tensor of several with stack(list)"
            )
        data = data.detach()._values("tensor([...])").reshape(())[()]
    if isinstance(data, np.ndarray | np.generic):
        refuse_text(data)
        met.add(data.dtype)
    elif isinstance(data, list | tuple):
        return data if _PYTHONS.issuperset(map(type, data)) else [nested_numbers(d, met) for d in data]
    elif data is None or isinstance(data, str | bytes | dict | set) or data.__class__ is object:  # float("3") is 3.0
        raise TypeError(f"tensor: expected numbers, or lists of them, got {data!r}")
    return data


def refuse_text(array: np.ndarray | np.generic) -> None:
    """Refuse text, dates and None in an array, of which NumPy would make numbers."""
    if array.dtype.kind == "O":
        nested_numbers(array.tolist(), set())
    elif array.dtype.kind not in "biufc":
        raise TypeError(f"tensor: expected numbers, got an array of {array.dtype}; convert it with array.astype(float)")


def scaled(what: str, value, alpha, dtype: np.dtype):
    """alpha times value, in the dtype that the result has without alpha: alpha must not turn integers into floats."""
    if category(alpha) > max(CATEGORY[dtype.kind], 1):
        raise RuntimeError(f"{what}: integers can't be scaled by {alpha!r}; use .float() first")
    y = value * alpha
    return y.to(dtype) if isinstance(y, Tensor) else y


# --- Dtypes


def rounding_error(dtype: np.dtype) -> float:
    """The eps of a dtype of floats; 0 for exact scalars, which are not rounded."""
    if state.reading is not None:
        state.reading.note_precision()
    return 0.0 if dtype is OBJECT else float(np.finfo(dtype).eps)


def refuse_only_bools(what: str, dtype: np.dtype) -> None:
    """Refuse a result of truth values, for operations on numbers."""
    if dtype == bool_:
        raise RuntimeError(f"{what}: expected numbers, got truth values only; use .long() or .float() first")


def refuse_bools(what: str, x: Tensor) -> None:
    """Refuse truth values, for operations that add up products."""
    if x.dtype.kind == "b":
        raise RuntimeError(f"{what}: truth values have no sums of products; use .float() or .long() first")


def promote_floats_to_exact(*values: Tensor | None) -> tuple:
    """The same tensors; if one of them holds exact scalars, floats in the others become exact fractions."""
    if not any(x is not None and x.dtype is OBJECT for x in values):
        return values
    return tuple([x.to(OBJECT) if x is not None and x.dtype.kind == "f" else x for x in values])


def only_floats(what: str, *values: Tensor | np.dtype | None) -> tuple:
    """The values, floats next to exact scalars made exact; RuntimeError for integers, bools, and floats of two dtypes.

    A formula brings its arguments to one dtype by itself; this is for kernels that take arrays as they are, and would
    cut a result down to whole numbers.
    """
    if len(values) == 1 and isinstance(values[0], Tensor) and values[0]._data.dtype.kind == "f":  # most often
        return values
    dtypes = {x.dtype if isinstance(x, Tensor) else x: None for x in values if x is not None}
    for dtype in dtypes:
        if dtype.kind not in "fO":
            raise RuntimeError(f"{what}: expected a floating-point tensor, got {dtype}; use x.float() first")
    if OBJECT in dtypes and len(values) > 1:
        return promote_floats_to_exact(*values)
    if len(dtypes) > 1:
        raise RuntimeError(
            f"{what}: tensors of {' and '.join(d.name for d in dtypes)}: the dtypes must be equal; use .to(dtype)"
        )
    return values


def only_floats_together(what: str, *values: Tensor) -> None:
    """Refuse tensors whose common dtype is of whole numbers, to which the result would be cut down."""
    only_floats(what, result_type(*values))

"""The dtypes that a tensor may have, and the common dtype of several tensors and numbers.

Six dtypes are enough for training and its data. Each kernel is compiled for few of them: the fewer there are, the
sooner the first run starts.
"""

import numpy as np

from tinytensor.core.kernel import OBJECT

float32, float64 = np.dtype("float32"), np.dtype("float64")
uint8, int32, int64 = np.dtype("uint8"), np.dtype("int32"), np.dtype("int64")
bool_ = np.dtype("bool")

# OBJECT holds exact scalars, for proofs; tensors have it on request only. NumPy has one object for each dtype, and
# pickle makes another; a tensor's array always has NumPy's own (tensor_values.py), so `is` may compare them.
DTYPES = {float32, float64, uint8, int32, int64, bool_, OBJECT}

# By NumPy's letter for the kind of a dtype. Where two categories meet, the higher one wins: a truth value can be read
# as a number, a whole number as one with a fraction, but not the other way round.
CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "O": 3}
KINDS = {"b": "bool", "u": "integer", "i": "integer", "f": "floating-point", "O": "exact"}

# float32 takes half the memory of float64, and a vector holds twice as many; training needs no more digits.
_default_dtype = float32


def get_default_dtype() -> np.dtype:
    """The dtype of tensors made from Python floats: float32 unless changed."""
    return _default_dtype


def set_default_dtype(dtype: np.dtype) -> None:
    """Make Python floats become `dtype` (float32 or float64).

    This is for programs that want all their parameters and constants in float64, to compare with finite differences,
    for instance.
    """
    global _default_dtype
    if dtype not in (float32, float64):
        raise TypeError(f"set_default_dtype: expected float32 or float64, got {dtype}")
    _default_dtype = np.dtype(dtype)


def category(value) -> int:
    """The category of a tensor or a number: 0 bool, 1 integer, 2 float, 3 exact scalar.

    A tensor is recognised by its array, `_data`, since this file cannot import the class. Python's bool is a subclass
    of int, so it is tested first. Any other value counts as an exact scalar; the operations check whether it is one.
    """
    if hasattr(value, "_data") or isinstance(value, np.generic):
        return CATEGORY[value.dtype.kind]
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2 if isinstance(value, float) else 3


def result_type(*values) -> np.dtype:
    """The common dtype of tensors and numbers, by PyTorch's rule.

    The highest category among all of them wins (bool < integer < float < exact). Within that category a tensor with
    dimensions outranks a 0-d tensor, and a 0-d tensor a Python number: so `x * 0.5` leaves a float32 tensor float32,
    though 0.5 has 64 bits, and `x * 2` keeps the dtype of x.
    """
    # The best dtype so far of tensors with dimensions, of 0-d tensors, and of numbers.
    ranks: list[np.dtype | None] = [None, None, None]
    for value in values:
        array = getattr(value, "_data", None)
        if array is not None:
            rank, dtype = (0 if array.ndim else 1), array.dtype
        else:
            rank, dtype = 2, (bool_, int64, _default_dtype, OBJECT)[category(value)]
        ranks[rank] = dtype if ranks[rank] is None else _larger(ranks[rank], dtype)
    common_dtype = None
    # A lower rank counts only if its category is higher: `int_tensor * 0.5` is of the default float dtype.
    for dtype in ranks:
        if dtype is not None and (common_dtype is None or CATEGORY[dtype.kind] > CATEGORY[common_dtype.kind]):
            common_dtype = dtype
    return common_dtype


def _larger(dtype: np.dtype, other_dtype: np.dtype) -> np.dtype:
    """The dtype with more bits if both are of one category, else that of the higher category."""
    if CATEGORY[dtype.kind] == CATEGORY[other_dtype.kind]:
        return np.promote_types(dtype, other_dtype)
    return dtype if CATEGORY[dtype.kind] > CATEGORY[other_dtype.kind] else other_dtype

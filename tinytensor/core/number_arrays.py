"""Numbers as arrays of the other operand's dtype, for the fast paths."""

import numpy as np

from tinytensor.core.promotion import to_scalar

REMEMBERED = 256  # numbers that are kept as arrays
_numbers: dict[tuple, np.ndarray] = {}


def number_array(value, dtype: np.dtype) -> np.ndarray | None:
    """A number as an array of the other operand's dtype; None if the number must take the general way.

    Programs use few numbers, so these arrays are remembered (not that of -0.0, whose key Python finds equal to 0.0).
    """
    cls = value.__class__
    array = _numbers.get((value, cls, dtype)) if cls is int or cls is float else None
    if array is None and (cls is int or (cls is float and value != 0)) and dtype.kind in ("fi" if cls is int else "f"):
        try:
            array = np.asarray(to_scalar(value, dtype))
        except OverflowError:  # the general way raises it, with the operation's name
            return None
        if len(_numbers) >= REMEMBERED:
            _numbers.clear()
        _numbers[value, cls, dtype] = array
    return array

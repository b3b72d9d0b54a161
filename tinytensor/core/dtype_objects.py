"""Public dtype objects: `tinytensor.float32` and `x.dtype`, with the attributes of PyTorch's.

Inside, the engine uses the NumPy dtypes of its arrays. Programs see these objects instead: they equal NumPy's in either
order, with the same hash and the same attributes, and every NumPy function that takes a dtype takes them.
"""

from collections.abc import Callable
from functools import wraps

import numpy as np

from tinytensor.core import dtypes


class DType:
    """The kind of a tensor's numbers, with PyTorch's attributes beside NumPy's."""

    __slots__ = ("dtype", "is_complex", "is_floating_point", "is_signed", "itemsize", "kind")

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype  # which NumPy itself reads
        for name in ("itemsize", "kind"):  # NumPy's, kept here because the engine asks for them often
            setattr(self, name, getattr(dtype, name))
        self.is_floating_point, self.is_signed, self.is_complex = dtype.kind == "f", dtype.kind in "fi", False

    def __getattr__(self, name: str):
        return getattr(self.dtype, name)

    def __eq__(self, other) -> bool:
        return self is other or self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"tinytensor.{self.dtype}"

    def __format__(self, spec: str) -> str:
        """The bare name, for sentences: `matmul: float32 @ float64`."""
        return format(str(self.dtype), spec)

    def __reduce__(self):
        return named, (self.dtype,)  # one object for each dtype, so that `is` may compare them


float32, float64, uint8 = DType(dtypes.float32), DType(dtypes.float64), DType(dtypes.uint8)
int32, int64, bool_ = DType(dtypes.int32), DType(dtypes.int64), DType(dtypes.bool_)
NAMED = {d.dtype: d for d in (float32, float64, uint8, int32, int64, bool_)}


def named(dtype: np.dtype) -> DType:
    """The public object for a NumPy dtype; for exact scalars NumPy's own dtype object."""
    return NAMED.get(dtype, dtype)


def naming(function: Callable) -> Callable:
    """A function that returns the public object for the NumPy dtype that `function` returns."""

    @wraps(function)
    def call(*args, **options) -> DType:
        return named(function(*args, **options))

    return call

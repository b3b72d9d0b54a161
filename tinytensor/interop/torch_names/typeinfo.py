"""Queries about dtypes: their limits, their promotion, and the names of PyTorch's dtypes that tensors lack here."""

from functools import wraps

import numpy as np

from tinytensor.core import dtypes
from tinytensor.core.dispatch import state
from tinytensor.core.dtype_objects import DType, naming
from tinytensor.core.dtypes import CATEGORY
from tinytensor.core.tensor import Tensor
from tinytensor.ops.argument_errors import named
from tinytensor.ops.creation import as_dtype


class Unstored:
    """A dtype of PyTorch that no tensor has here: it can be named and compared; using it raises."""

    def __init__(self, name: str):
        self.name, self.__module__ = name, "tinytensor"

    def __reduce__(self):
        return self.name  # pickle writes the name, as for a class

    def __repr__(self) -> str:
        return self.name

    @property
    def is_floating_point(self) -> bool:
        return self.name == "half" or "float" in self.name

    @property
    def is_complex(self) -> bool:
        return self.name.removeprefix("c") in ("half", "float", "double") or self.name.startswith("complex")

    def __call__(self, *data, **options):
        """Raise TypeError for PyTorch's constructor of such tensors, `ShortTensor([0, 1])`."""
        raise TypeError(
            f"{self.name}: tensors are float32, float64, uint8, int32, int64 or bool; short numbers are FloatTensor "
            "or IntTensor"
        )

    def __instancecheck__(self, x) -> bool:
        return False


_NAMES = """float16 half bfloat16 float8_e4m3fn float8_e5m2 int8 int16 short uint16 uint32 uint64
complex32 chalf complex64 cfloat complex128 cdouble"""
_NAMES += " CharTensor ShortTensor HalfTensor BFloat16Tensor"
UNSTORED = {name: Unstored(name) for name in _NAMES.split()}


class finfo:
    """The limits of a floating-point dtype (the default one): bits, eps, max, min, smallest_normal, resolution."""

    def __init__(self, type=None):
        self.dtype = get_default_dtype().dtype if type is None else as_dtype(type)
        if self.dtype.kind != "f":
            raise TypeError(f"finfo: expected a floating-point dtype, got {self.dtype}; use iinfo")
        limits = np.finfo(self.dtype)
        self.bits = limits.bits
        for name in ("eps", "max", "min", "tiny", "smallest_normal", "resolution"):
            setattr(self, name, float(getattr(limits, name)))

    def __repr__(self) -> str:
        return f"finfo(min={self.min:g}, max={self.max:g}, eps={self.eps:g}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype: bits, max, min."""

    def __init__(self, type):
        self.dtype = as_dtype(type)
        if self.dtype.kind not in "iu":
            raise TypeError(f"iinfo: expected an integer dtype, got {self.dtype}; use finfo")
        limits = np.iinfo(self.dtype)
        self.bits, self.max, self.min = limits.bits, limits.max, limits.min

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


@naming
@wraps(dtypes.result_type)
def result_type(*values) -> DType:
    if state.reading is not None:
        state.reading.note_precision()
    return dtypes.result_type(*values)


result_type = named(f"{__name__}.result_type", result_type)


@naming
def get_default_dtype() -> DType:
    """The dtype of tensors made from Python floats: float32 unless changed."""
    if state.reading is not None:
        state.reading.note_precision()
    return dtypes.get_default_dtype()


@naming
def promote_types(type1, type2) -> DType:
    """The smallest dtype that holds both, by PyTorch's rule."""
    return dtypes.result_type(*(Tensor.of(np.empty(1, as_dtype(t))) for t in (type1, type2)))


def can_cast(from_, to) -> bool:
    """Can values be cast by PyTorch's rule: not from floats to integers, and not from numbers to bool?"""
    return CATEGORY[as_dtype(from_).kind] <= CATEGORY[as_dtype(to).kind]


def is_complex(input: Tensor) -> bool:
    """False: tensors are never complex here."""
    return input.is_complex()


def is_tensor(obj) -> bool:
    """Is this a Tensor?"""
    return isinstance(obj, Tensor)

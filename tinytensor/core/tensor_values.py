"""A tensor's dtype, sizes and values: as Python numbers, text, NumPy arrays, through DLPack; no gradient needs them."""

from numbers import Number
from typing import Any

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.devices import CPU, META, device
from tinytensor.core.dispatch import state
from tinytensor.core.dtype_objects import NAMED, DType
from tinytensor.core.recorder import refuse
from tinytensor.core.tensor import BorrowedGrad, Tensor

# The functions that NumPy calls for an operator between an array, or a number of its own, and a tensor; the tensor's
# methods for it where the tensor comes first, and where it comes second.
_ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv"}
_ARITHMETIC |= {"remainder": "mod", "power": "pow", "matmul": "matmul", "left_shift": "lshift", "right_shift": "rshift"}
_ARITHMETIC |= {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_OPERATORS = {ufunc: (f"__{name}__", f"__r{name}__") for ufunc, name in _ARITHMETIC.items()}
_OPERATORS |= {"less": ("__lt__", "__gt__"), "less_equal": ("__le__", "__ge__"), "equal": ("__eq__", "__eq__")}
_OPERATORS |= {"greater": ("__gt__", "__lt__"), "greater_equal": ("__ge__", "__le__")}
_OPERATORS |= {"not_equal": ("__ne__", "__ne__")}


def with_own_dtype(array: np.ndarray) -> np.ndarray:
    """The same memory, with NumPy's own object for its dtype.

    An array out of a pickle has another object, which is equal. The engine compares dtypes by `is`, since `==` is slow;
    so an array that comes from outside has to pass here before it becomes a tensor's.
    """
    own = np.dtype(array.dtype.type)
    return array if array.dtype is own else array.view(own)


def whole_memory(tensor: Any) -> np.ndarray:
    """The array of all the memory that a tensor shares with others: itself, if it is no view."""
    whole = tensor._data if tensor._base is None else tensor._base._data
    while whole.base.__class__ is np.ndarray and whole.base.dtype == whole.dtype:
        whole = whole.base
    return whole


class Storage:
    """The memory that a tensor and its views share, as numbers in a row; of `untyped_storage()`, as bytes."""

    def __init__(self, array: np.ndarray):
        self._array = array

    def __len__(self) -> int:
        return self._array.size

    def __getitem__(self, index):
        return self._array[index].tolist()

    def size(self) -> int:
        """The number of elements; of `untyped_storage()`, of bytes."""
        return self._array.size

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._array.nbytes

    def data_ptr(self) -> int:
        """The address of its first number, which all views of the memory have in common."""
        return self._array.ctypes.data

    def tolist(self) -> list:
        """The numbers as a list."""
        return self._array.tolist()


class TensorValues:
    """The members of Tensor that return its sizes and its values (ops/methods.py adds them)."""

    __array_priority__ = 1000  # array * tensor calls the tensor's method, not NumPy's

    def _values(self, what: str) -> np.ndarray:
        """The array, for code that leaves the tape; RuntimeError if there is none, or if a recording is open."""
        if self._data.__class__ is not np.ndarray and self.is_meta:
            raise RuntimeError(f"{what}: a meta tensor has a shape {self.shape}, but no values")
        if state.on_read is not None:
            state.on_read(what, self)
        refuse(
            f"{what} inside a compiled step: a replay runs kernels only and would not see the value again; "
            "return the tensor from the step and look at it outside"
        )
        return self._data

    # --------------------------------------------------------------------------------------- dtype, device and strides

    @property
    def dtype(self) -> DType:
        """The kind of its numbers; for exact scalars NumPy's own dtype object."""
        dtype = self._data.dtype
        return NAMED.get(dtype, dtype)

    @property
    def device(self) -> device:
        """The CPU, or "meta" for a shape without values; a device is a string, equal to its name."""
        return META if self.is_meta else CPU

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one of its sizes."""
        try:
            return self.shape if dim is None else self.shape[dim]
        except (IndexError, TypeError):
            raise IndexError(f"size: {dim!r} is no dimension of shape {self.shape}") from None

    def numel(self) -> int:
        """The number of elements (a SymPy expression where the sizes are symbols)."""
        return self._data.size

    def nelement(self) -> int:
        """The number of elements."""
        return self._data.size

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    def ndimension(self) -> int:
        """The number of dimensions."""
        return self.ndim

    def is_complex(self) -> bool:
        """False: tinytensor has no complex tensors."""
        return False

    def is_floating_point(self) -> bool:
        """Is it of float32 or float64?"""
        return self.dtype.kind == "f"

    def is_contiguous(self) -> bool:
        """Do its numbers stand in memory one after the other, in the order of its dimensions?"""
        return self._data.flags.c_contiguous

    def stride(self, dim: int | None = None) -> Any:
        """Steps between neighbours, in elements."""
        strides = tuple(s // self.dtype.itemsize for s in self._data.strides)
        try:
            return strides if dim is None else strides[dim]
        except (IndexError, TypeError):
            raise IndexError(f"stride: {dim!r} is no dimension of shape {self.shape}") from None

    def element_size(self) -> int:
        """The bytes of a number."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of its first number."""
        return self._data.ctypes.data

    def storage(self) -> Storage:
        """The numbers of the memory in which the tensor lies, in their order there."""
        self._values("storage")
        return Storage(whole_memory(self).ravel("K"))

    def untyped_storage(self) -> Storage:
        """The bytes of that memory: `x.untyped_storage().data_ptr()` is the same for all tensors that share it."""
        self._values("untyped_storage")
        return Storage(whole_memory(self).ravel("K").view(np.uint8))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len(): a 0-d tensor has no length")
        return self.shape[0]

    def __delitem__(self, key):
        raise TypeError("del: elements of a tensor can't be deleted; x[mask] or cat([...]) is a tensor without them")

    # ------------------------------------------------------------------------------------------ Python's numbers

    def item(self) -> float:
        """The value of a one-element tensor as a Python number."""
        values = self._values("item()")
        if values.size != 1:
            raise RuntimeError(f"item(): expected one element, but this tensor has shape {self.shape}")
        return values.item()

    def tolist(self) -> Any:
        """The values as nested Python lists."""
        return self._values("tolist()").tolist()

    def __bool__(self) -> bool:
        values = self._values("bool()")
        if values.size != 1:
            raise RuntimeError(
                f"bool(): the truth of a tensor of shape {self.shape} is ambiguous; use .any() or .all()"
            )
        return bool(values.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iub" or self.numel() != 1:
            came = f"this one is {self.dtype} of shape {self.shape}"
            raise TypeError(f"only integer tensors of one element can be a whole number for Python, {came}")
        return int(self.item())

    def __contains__(self, value) -> bool:
        if isinstance(value, Tensor):
            value = value.item()
        elif not isinstance(value, Number | np.generic) and self.dtype.kind != "O":
            raise TypeError(f"in: expected a number or a tensor of one element, got {value!r}")
        return bool((self._values("in") == value).any())

    # -------------------------------------------------------------------------------------------------- arrays

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The values as a NumPy array, sharing memory; with `force` also those of a tensor that requires grad."""
        if self.requires_grad and not force:
            raise RuntimeError(
                "numpy(): this tensor requires grad, and NumPy would lose the tape: use .detach().numpy()"
            )
        return self._values("numpy()")

    def to_numpy(self) -> np.ndarray:
        """The same, under the name that matplotlib looks for; without it matplotlib reads element by element."""
        return self.numpy()

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError(
                "a NumPy function was called on a tensor that requires grad; call the tensor's own (tensor.exp(), "
                "tinytensor.exp(tensor)), or .detach() it first"
            )
        return np.array(self._values("a NumPy function"), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        # NumPy calls np.multiply for np.sqrt(2.0) * x and for array * x: an operator, whose result is a tensor.
        if method == "__call__" and not kwargs and ufunc.__name__ in _OPERATORS:
            a, b = [v.item() if isinstance(v, np.generic) else v for v in inputs]
            if isinstance(a, Tensor | np.ndarray | Number) and isinstance(b, Tensor | np.ndarray | Number):
                first, second = _OPERATORS[ufunc.__name__]
                return getattr(a, first)(b) if isinstance(a, Tensor) else getattr(b, second)(a)
        if _is_tracked(inputs) or _is_tracked(kwargs):
            return late_bound.numpy_ufunc(ufunc, method, inputs, kwargs)
        return getattr(ufunc, method)(*_as_arrays(inputs, ufunc.__name__), **_as_arrays(kwargs, ufunc.__name__))

    def __array_function__(self, function, types, args, kwargs):
        if _is_tracked(args) or _is_tracked(kwargs):
            return late_bound.numpy_function(function, args, kwargs)
        return function(*_as_arrays(args, function.__name__), **_as_arrays(kwargs, function.__name__))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        """PyTorch's functions, called with tensors of ours, are our functions of the same names."""
        return late_bound.pytorch_call(function, args, kwargs)

    def __dlpack__(self, **kwargs):
        return self.numpy().__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return (1, 0)  # the CPU

    def __getstate__(self) -> tuple:
        """What pickle writes, and what copy.copy() takes: the values, without the place on the tape.

        A computed tensor comes back as a leaf that requires grad, as PyTorch's does. Hooks are left out, and so is the
        relation of a view to its base: in a pickle, as in one of NumPy's, each tensor has memory of its own.
        """
        written, slots = object.__getstate__(self)
        slots = {name: value for name, value in slots.items() if name != "_tape_count"}
        return written, slots | dict.fromkeys(("node", "_base", "_hooks")) | {"_requires_grad": self.requires_grad}

    def __setstate__(self, state: tuple) -> None:
        """Restore a pickled tensor: the attributes that the program has added, and the slots."""
        written, slots = state
        self.__dict__.update(written or {})
        for name, value in slots.items():
            setattr(self, name, value)
        for holder in (self, self._grad):  # a gradient that is a tensor has its own __setstate__
            if (holder is self and not self.is_meta) or holder.__class__ is BorrowedGrad:
                holder._data = with_own_dtype(holder._data)

    def __deepcopy__(self, memo):
        if self.node is not None:
            raise RuntimeError("deepcopy: only tensors made by the user can be copied; .detach() this one first")
        result = self.__class__.__new__(self.__class__)  # no __init__: a subclass's may have other arguments
        Tensor.of(self._data if self.is_meta else deepcopy_array(self, memo), self.requires_grad, result)
        result._version = memo.setdefault(id(self._version), result._version)
        if self._grad is not None:
            result._grad = Tensor.of(self.held_grad()._data.copy())
        return result

    # ---------------------------------------------------------------------------------------------------- text

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and not self.is_meta:
            return format(self.item(), spec)
        if spec:
            raise TypeError(f"format: {spec!r} is for one number, and this tensor has shape {self.shape}")
        return str(self)

    def __repr__(self) -> str:
        return late_bound.text(self)

    def _repr_html_(self) -> str | None:
        """The value of a notebook's cell as HTML: a table, or a picture of many numbers."""
        return late_bound.html(self)


def deepcopy_array(tensor: Any, memo: dict) -> np.ndarray:
    """The copy of a tensor's array in a deepcopy, in which tensors that share memory have copies that do, too.

    So all of the memory is copied in which the array lies, once, as PyTorch copies a storage. `memo` is deepcopy's,
    in which an array's copy stands under the array's id.
    """
    array = whole = tensor._data
    if array.base is not None or tensor._base is not None:
        whole = whole_memory(tensor)
        if not (whole.flags.owndata or whole.flags.forc):  # it has gaps
            return array.copy()
    # The memory is packed, in some order of the dimensions, which the copy keeps.
    memory = memo.get(id(whole))
    if memory is None:
        memory = memo[id(whole)] = whole.copy("K")
    if array is whole:
        return memory
    start = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, memory.ravel(order="K"), start, array.strides)


def _is_tracked(value) -> bool:
    """Does NumPy have no array for one of these values: a tensor with a gradient, without values, or of formulas?"""
    if isinstance(value, Tensor):
        return value.requires_grad or value._data.__class__ is not np.ndarray or value._data.dtype.kind == "O"
    values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return any(map(_is_tracked, values))


def _as_arrays(value, name: str):
    """The arguments of a NumPy function with arrays for tensors; the function's results are then arrays, too."""
    if isinstance(value, Tensor):
        return value._values(f"numpy.{name}")
    if isinstance(value, tuple | list):
        return type(value)(_as_arrays(v, name) for v in value)
    if isinstance(value, dict):
        return {key: _as_arrays(v, name) for key, v in value.items()}
    return value

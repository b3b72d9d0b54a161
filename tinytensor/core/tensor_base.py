"""TensorBase: what a tensor says of itself: its sizes, its device, whether its gradient is wanted."""

from typing import Any

import numpy as np

from tinytensor.core.devices import CPU, META, device


class BorrowedGrad:
    """A gradient that a replay has left in the recording's own memory, until it is read.

    The next replay will write over that memory, and most gradients are never read from outside the step. So the first
    read of `tensor.grad` makes a copy, and replays make none.
    """

    __slots__ = ("_data",)  # as in a tensor

    def __init__(self, array: np.ndarray):
        self._data = array


def with_own_dtype(array: np.ndarray) -> np.ndarray:
    """The same memory, with NumPy's own object for its dtype.

    An array out of a pickle has another object, which is equal. The engine compares dtypes by `is`, since `==` is slow;
    so an array that comes from outside has to pass here before it becomes a tensor's.
    """
    own = np.dtype(array.dtype.type)
    return array if array.dtype is own else array.view(own)


class TensorBase:
    """The part of a Tensor that needs neither its values nor the tape."""

    __slots__ = ()

    @property
    def device(self) -> device:
        """The CPU, or "meta" for a shape without values; a device is a string, equal to its name."""
        return META if self.is_meta else CPU

    @property
    def requires_grad(self) -> bool:
        """Is the gradient of this tensor wanted? Assigning sets it, as requires_grad_() does."""
        return self._requires_grad or (self._is_stale_view and self._base._requires_grad)

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool):
        self.requires_grad_(requires_grad)

    @property
    def grad_fn(self):
        """PyTorch's name for the node."""
        return self.node

    def detach_(self):
        """Take this tensor itself off the tape: from here on it is a constant."""
        if self._base is not None and self._base.requires_grad:
            raise RuntimeError("detach_: a view can't leave the tape on which its base is; use detach()")
        self.node, self._requires_grad = None, False
        return self

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one of its sizes."""
        try:
            return self.shape if dim is None else self.shape[dim]
        except (IndexError, TypeError):
            raise IndexError(f"size: {dim!r} is no dimension of shape {self.shape}") from None

    def dim(self) -> int:
        return self.ndim

    ndimension = dim

    def is_complex(self) -> bool:
        """False: tinytensor has no complex tensors."""
        return False

    def numel(self) -> int:
        """The number of elements (a SymPy expression where the sizes are symbols)."""
        return self._data.size

    nelement = numel

    def is_floating_point(self) -> bool:
        return self.dtype.kind == "f"

    def is_contiguous(self) -> bool:
        return self._data.flags.c_contiguous

    def stride(self, dim: int | None = None) -> Any:
        """Steps between neighbours, in elements."""
        strides = tuple(s // self.dtype.itemsize for s in self._data.strides)
        return strides if dim is None else strides[dim]

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._data.ctypes.data

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len(): a 0-d tensor has no length")
        return self.shape[0]

    def __delitem__(self, key):
        raise TypeError("del: elements of a tensor can't be deleted; x[mask] or cat([...]) is a tensor without them")

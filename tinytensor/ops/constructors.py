"""PyTorch's older constructors: `Tensor(2, 3)`, `Tensor([1, 2])`, `FloatTensor`, `LongTensor` and their like.

Their arguments are sizes or values, depending on their types, and the result has one dtype whatever the values had.
`tensor(values)` and `zeros(*sizes)` say which of the two is meant, and take options.
"""

from collections.abc import Sequence

import numpy as np

from tinytensor.core.devices import check_device
from tinytensor.core.dtypes import get_default_dtype
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import TENSOR_TYPES, tensor, zeros


def _made(name: str, args: tuple, dtype: np.dtype) -> Tensor:
    """Zeros for sizes, a copy for values. (For sizes PyTorch gives uninitialised memory.)"""
    if all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in args):
        return zeros(*(args or (0,)), dtype=dtype)
    if len(args) != 1 or not isinstance(args[0], Sequence | range | np.ndarray | Tensor) or isinstance(args[0], str):
        shown = ", ".join(map(repr, args))
        raise TypeError(f"{name}({shown}): expected sizes, a list, an array or a tensor; a number is tensor({shown})")
    return tensor(args[0] if isinstance(args[0], np.ndarray | Tensor) else list(args[0]), dtype=dtype)


@register("Tensor.__init__")
def construct(self: Tensor, *data, device=None, **options) -> None:
    """`Tensor(2, 3)` is a tensor of these sizes, `Tensor([1, 2])` one of these values, in the default dtype.

    A tensor is taken as it is: the same memory, in its own dtype, outside the tape. Any number of whole numbers are
    sizes; a tuple is values, as in PyTorch (its torch.Size, which means sizes, is a tuple here).
    """
    check_device(device, "Tensor")
    if options:
        raise TypeError(
            f"Tensor(...) has no option {', '.join(options)}; tensor(values, {next(iter(options))}=...) has"
        )
    if len(data) == 1 and isinstance(data[0], Tensor):
        Tensor.of(data[0].detach()._data, tensor=self)
        self._version = data[0]._version
    else:
        Tensor.of(_made("Tensor", data, get_default_dtype())._data, tensor=self)


@register("Tensor.new")
def new(x: Tensor, *data, device=None) -> Tensor:
    """A tensor of x's dtype: `x.new(2, 3)` of these sizes, `x.new([1, 2])` of these values, `x.new()` empty.

    A tuple of whole numbers is sizes, as `x.new(y.size())` means it; new_empty and new_tensor say which they take.
    """
    check_device(device, "new")
    return _made("new", data[0] if len(data) == 1 and isinstance(data[0], tuple) else data, x.dtype)


class TensorType:
    """PyTorch's type of tensors of one dtype: a constructor, a type for isinstance() and for `x.type(...)`."""

    def __init__(self, name: str, dtype: np.dtype):
        self.__name__, self.__module__, self.dtype = name, "tinytensor", dtype

    def __reduce__(self):
        return self.__name__  # pickle writes the name, as for a class

    def __call__(self, *data, device=None) -> Tensor:
        check_device(device, self.__name__)
        if len(data) == 1 and isinstance(data[0], Tensor) and data[0].dtype != self.dtype:
            raise TypeError(
                f"{self.__name__}: this tensor is {data[0].dtype}, expected {self.dtype}; convert it with "
                f".to({self.dtype})"
            )
        return _made(self.__name__, data, self.dtype)

    def __instancecheck__(self, x) -> bool:
        return isinstance(x, Tensor) and x.dtype == self.dtype

    def __repr__(self) -> str:
        return f"<tensor type {self.__name__}>"


TYPES = {
    name.removeprefix("torch."): TensorType(name.removeprefix("torch."), dtype) for name, dtype in TENSOR_TYPES.items()
}

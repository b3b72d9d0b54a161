"""Makes tensors from values, arrays, constants and random numbers."""

import functools
import math
import operator
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tinytensor.core.devices import CPU, check_device
from tinytensor.core.dispatch import empty as buffer
from tinytensor.core.dispatch import host, move, state
from tinytensor.core.dtype_objects import DType
from tinytensor.core.dtypes import DTYPES, bool_, float32, float64, get_default_dtype, int32, int64, uint8
from tinytensor.core.memory_order import reordered
from tinytensor.core.meta import Meta
from tinytensor.core.poison import aligned
from tinytensor.core.recorder import is_recording, refuse
from tinytensor.core.tensor import Tensor
from tinytensor.core.tensor_values import with_own_dtype
from tinytensor.ops.arguments import nested_numbers, refuse_text, to_0d_array
from tinytensor.ops.arrays import constants
from tinytensor.ops.generator import Generator, drawn_from


def as_dtype(dtype) -> np.dtype:
    """A dtype that tensors may have, from its object, its name, or PyTorch's tensor type ("torch.LongTensor")."""
    if dtype.__class__ is DType:  # most often
        return dtype.dtype
    if isinstance(dtype, np.dtype) and dtype in DTYPES:
        return np.dtype(dtype.type)  # NumPy's own, also of one out of a pickle
    try:
        result = np.dtype(TENSOR_TYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype)
    except (TypeError, ValueError):
        result = None
    if result not in DTYPES:
        raise TypeError(
            f"dtype: tensors are float32, float64, uint8, int32, int64 or bool (object for exact scalars), not "
            f"{dtype}; float32 serves for shorter floats, int32 for shorter integers"
        )
    return result


# PyTorch's tensor types, by which older programs name dtypes
TENSOR_TYPES = {
    f"torch.{name}Tensor": dtype
    for name, dtype in zip(
        ("Float", "Double", "Byte", "Int", "Long", "Bool"), (float32, float64, uint8, int32, int64, bool_), strict=True
    )
}


ALIGNED_FROM = 4096  # bytes; a smaller array is copied faster than an aligned one is made


def _array(data: Any, dtype: np.dtype | None) -> np.ndarray:
    """A new array; numbers too large for float32 become infinite, without a warning."""
    if dtype is not float32:  # np.errstate would take nearly all the time
        return _copy(data, dtype)
    with np.errstate(over="ignore"):
        return _copy(data, dtype)


def _copy(data: Any, dtype: np.dtype | None) -> np.ndarray:
    """np.array(); a large array begins at a cache line, which makes some kernels a tenth faster."""
    if isinstance(data, np.ndarray) and data.nbytes >= ALIGNED_FROM:
        target_dtype = data.dtype if dtype is None else dtype
        if data.dtype in DTYPES and data.dtype.kind != "O" and target_dtype.kind != "O":
            array = aligned(data.shape, target_dtype)
            np.copyto(array, data, casting="unsafe")
            return array
    return np.array(data, dtype)


def tensor(data: Any, *, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """A tensor with a copy of `data`: numbers, nested lists, arrays, tensors.

    Python floats become the default dtype (float32), whole numbers int64; arrays keep their dtype, and a float64 among
    the elements of a list makes all of them that.
    """
    device = check_device(device, "tensor")
    if isinstance(data, Tensor):
        data = data.detach()._values("tensor(tensor)")
    from_array, met = isinstance(data, (np.ndarray, np.generic)), set()
    if not from_array:
        data = nested_numbers(data, met)
    dtype = None if dtype is None else as_dtype(dtype)
    now = state.__dict__
    if now["reading"] is not None and (y := now["reading"].tensor(data, dtype)) is not None:
        return y.requires_grad_() if requires_grad else y
    if from_array and data.dtype.kind not in "biuf" and (dtype is None or dtype.kind != "O"):
        refuse_text(data)
    try:
        array = _array(data, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        array = None if dtype is None else _one_by_one(data, dtype)
        if array is None:
            suffix = "" if dtype is None else f" of {dtype}"
            raise error.__class__(
                f"tensor: expected numbers{suffix}, or lists of them whose rows have equal lengths ({error})"
            ) from None
    if dtype is None and not from_array and array.dtype.kind in "uO" and array.dtype is not uint8:
        _one_by_one(data, int64)  # refuses by name a whole number that takes more than 64 bits
    if dtype is None and not from_array and array.dtype.kind in "fiu" and array.dtype not in (uint8, int32):
        floating = float64 if float64 in met else get_default_dtype()
        array = _array(array, floating if array.dtype.kind == "f" else int64)
    if array.dtype not in DTYPES or (array.dtype.kind == "O" and dtype is None):
        raise TypeError(
            f"tensor: values of {array.dtype} are not stored; expected float32, float64, uint8, int32, int64 or bool "
            "(dtype=object for exact scalars): convert them first"
        )
    if device == "meta":
        return Tensor.of(Meta(array.shape, array.dtype), requires_grad)
    array = with_own_dtype(np.ascontiguousarray(array).reshape(array.shape))
    if is_recording():  # each replay starts from these values, whatever is done to the tensor in place
        constant, array = array, buffer(array.shape, array.dtype)
        if from_array and _is_outside(data):  # each replay looks at it again
            host(_refill, array, data)
        else:
            move(constant, array)
    result = Tensor.of(array)
    return result.requires_grad_() if requires_grad else result


def _one_by_one(data: Any, dtype: np.dtype) -> np.ndarray | None:
    """An array of numbers that NumPy refused. Errors name the number; bytes are read as in PyTorch, -1 as 255."""
    try:
        numbers = np.array(data, dtype=object)
    except ValueError:  # rows of different lengths
        return None
    if any(isinstance(x, list | tuple) or not isinstance(x, int | float | np.generic) for x in numbers.flat):
        return None
    array = np.empty(numbers.shape, dtype)
    for index in np.ndindex(numbers.shape):
        array[index] = to_0d_array("tensor", numbers[index], array.dtype)
    return array


def _refill(array: np.ndarray, data: np.ndarray) -> None:
    np.copyto(array, data, casting="unsafe")


def _is_outside(data: np.ndarray | np.generic) -> bool:
    """Was this array there before the recorded step? If not, the step must not have made it from one that was."""
    function_guards = state.recording.function_guards
    if function_guards.knows(data):
        return True
    caller = sys._getframe(2)
    if caller.f_globals["__name__"] == "tinytensor.ops.argument_errors":  # the wrapper of public functions
        caller = caller.f_back
    if function_guards.has_arrays and not caller.f_globals["__name__"].startswith("tinytensor."):  # not a mask of ours
        refuse(
            "a tensor was made of an array that NumPy computed in the step, perhaps from one that changes; compute "
            "with tensors, or outside of the step"
        )
    return False


def as_tensor(data: Any, *, dtype=None, device=None) -> Tensor:
    """A tensor of `data`, without a copy where memory can be shared (tensors, arrays)."""
    device = check_device(device, "as_tensor")
    if device == "meta":
        return tensor(data, dtype=dtype, device=device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == dtype):
        if is_recording():
            _is_outside(data)
        return from_numpy(data)
    return tensor(data, dtype=dtype)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array (read-only arrays are copied: a kernel might write)."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got {type(array).__name__}; use tensor(data)")
    if array.dtype not in DTYPES or array.dtype.kind == "O":
        raise TypeError(f"from_numpy: dtype {array.dtype} is not offered; convert with array.astype(numpy.float32)")
    if any(step % array.itemsize for step, n in zip(array.strides, array.shape, strict=True) if n > 1):
        raise ValueError(  # a kernel counts steps in elements
            f"from_numpy: the strides {array.strides} are no multiples of the {array.itemsize} bytes of {array.dtype} "
            "(this may be a field of a structured array): share a copy, array.copy()"
        )
    if is_recording():
        _is_outside(array)
    array = with_own_dtype(np.asarray(array))  # kernels take plain arrays; asarray() makes one of a memmap
    return Tensor.of(array if array.flags.writeable and array.dtype.isnative else array.copy())


def from_dlpack(other) -> Tensor:
    """A tensor that shares memory with another library's (through the DLPack protocol)."""
    return from_numpy(np.from_dlpack(other))


def _shape(sizes: tuple, what: str, size: Sequence | None = None) -> tuple:
    if size is None and sizes and set(map(type, sizes)) == {int} and min(sizes) >= 0:  # most often
        return sizes
    if size is not None:
        if sizes:
            raise TypeError(f"{what}: sizes {sizes} and size={size} were both given; give one of them")
        sizes = (size,)
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = tuple(sizes[0])
    for n in sizes:
        if isinstance(n, float) or (isinstance(n, int) and n < 0):
            raise (TypeError if isinstance(n, float) else RuntimeError)(
                f"{what}: sizes must be whole numbers of 0 or more, got {sizes}"
            )
    try:
        return tuple(n.__index__() if n.__class__ is not int and hasattr(n, "__index__") else n for n in sizes)
    except TypeError:
        raise TypeError(f"{what}: sizes must be whole numbers of 0 or more, got {sizes}") from None


_WHOLE, _zeros = (int, np.integer), np.zeros


def _or(dtype, otherwise: np.dtype) -> np.dtype:
    return otherwise if dtype is None else dtype


def _new(what: str, shape: tuple, dtype, requires_grad: bool, device, fill) -> Tensor:
    """A tensor of a shape, filled by `fill(array)` through the door; on "meta" the sizes may be symbols."""
    device = CPU if device is None else check_device(device, what)
    dtype = as_dtype(_or(dtype, get_default_dtype()))
    if state.reading is not None and (y := state.reading.full(what, shape, dtype, fill)) is not None:
        return y
    if device == "meta" or not all(isinstance(n, _WHOLE) for n in shape):
        if device != "meta":
            raise TypeError(f"{what}: sizes {shape} are not all whole numbers; symbols need device='meta'")
        result = Tensor.of(Meta(shape, dtype))
    elif math.prod(filter(None, map(int, shape))) * dtype.itemsize >= 2**63:
        raise RuntimeError(f"{what}: sizes {shape} are more than any memory holds")
    else:
        result = Tensor.of(buffer(shape, dtype))
        if fill is not None:
            fill(result._data)
    return result.requires_grad_() if requires_grad else result


def full(
    size: int | Sequence[int], fill_value: Tensor | float, *, dtype=None, requires_grad: bool = False, device=None
) -> Tensor:
    """A tensor of one value."""
    if dtype is None:
        dtype = bool_ if isinstance(fill_value, bool) else int64 if isinstance(fill_value, int) else None
    size = _shape((size,), "full")
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    value = to_0d_array("full", fill_value, as_dtype(_or(dtype, get_default_dtype())))
    return _new("full", size, dtype, requires_grad, device, partial(move, value))


@functools.cache
def _constant(value: int, dtype: np.dtype) -> np.ndarray:
    """0 or 1 as an array of a dtype, made once."""
    return to_0d_array("full", value, dtype)


def zeros(*sizes, size=None, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """A tensor of zeros."""
    if size is None and device is None and not requires_grad and not state.watched:  # most often
        try:
            return Tensor.of(_zeros(sizes[0] if len(sizes) == 1 else sizes, as_dtype(_or(dtype, get_default_dtype()))))
        except (TypeError, ValueError, MemoryError):  # the call below names the mistake
            pass
    value, shape = _constant(0, as_dtype(_or(dtype, get_default_dtype()))), _shape(sizes, "zeros", size)
    return _new("zeros", shape, value.dtype, requires_grad, device, partial(move, value))


def ones(*sizes, size=None, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """A tensor of ones."""
    value, shape = _constant(1, as_dtype(_or(dtype, get_default_dtype()))), _shape(sizes, "ones", size)
    return _new("ones", shape, value.dtype, requires_grad, device, partial(move, value))


def empty(*sizes, size=None, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """A tensor with uninitialised values."""
    return _new("empty", _shape(sizes, "empty", size), dtype, requires_grad, device, None)


def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype=None, requires_grad: bool = False, device=None
) -> Tensor:
    """A tensor of this size whose dimension physical_layout[0] has the longest stride in memory, and so on."""
    size = _shape((size,), "empty_permuted")
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(
            f"empty_permuted: physical_layout {tuple(physical_layout)} must name each of the {len(size)} dimensions "
            f"of size {size} once"
        )
    lying = _new("empty_permuted", tuple([size[d] for d in physical_layout]), dtype, False, device, None)
    if isinstance(lying._data, Meta):
        result = Tensor.of(Meta(size, lying.dtype))
    else:
        result = Tensor.of(reordered(lying._data, tuple(physical_layout)))
    return result.requires_grad_() if requires_grad else result


def _device(x: Tensor, device):
    return x.device if device is None else device  # 0 is a device too: the first of CUDA


def zeros_like(x: Tensor, *, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """Zeros in the shape and dtype of x."""
    return zeros(x.shape, dtype=_or(dtype, x.dtype), requires_grad=requires_grad, device=_device(x, device))


def ones_like(x: Tensor, *, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """Ones in the shape and dtype of x."""
    return ones(x.shape, dtype=_or(dtype, x.dtype), requires_grad=requires_grad, device=_device(x, device))


def full_like(x: Tensor, fill_value: Tensor | float, *, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """One value in the shape and dtype of x."""
    return full(x.shape, fill_value, dtype=_or(dtype, x.dtype), requires_grad=requires_grad, device=_device(x, device))


def empty_like(x: Tensor, *, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """A tensor with uninitialised values, in the shape and dtype of x."""
    return empty(x.shape, dtype=_or(dtype, x.dtype), requires_grad=requires_grad, device=_device(x, device))


def eye(n: int, m: int | None = None, *, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """The identity matrix, (n, n) or (n, m)."""
    if n < 0 or (m or 0) < 0:
        raise RuntimeError(f"eye: sizes must be 0 or more, got {n} and {m}")
    check_device(device, "eye")
    return tensor(
        constants(np.eye, n, n if m is None else m),
        dtype=_or(dtype, get_default_dtype()),
        requires_grad=requires_grad,
        device=device,
    )


def _whole(n: float) -> int:
    """A number, cut down to a whole one; a size stays what it is."""
    return n if isinstance(n, int) else int(n)


def arange(
    start: Tensor | float,
    end: Tensor | float | None = None,
    step: Tensor | float = 1,
    *,
    dtype=None,
    requires_grad: bool = False,
    device=None,
) -> Tensor:
    """start, start + step, ... below end; whole numbers give int64."""
    start, end = (0, start) if end is None else (start, end)
    start, end, step = [v.item() if isinstance(v, Tensor) else v for v in (start, end, step)]
    whole = dtype is not None and as_dtype(dtype).kind in "iu"
    if whole and as_dtype(dtype) == int64 and all(-math.inf < v < math.inf for v in (start, end, step)):
        start, end, step = map(_whole, (start, end, step))  # PyTorch counts them so in 64 bits, and in no other dtype
    if step == 0 or not (end - start) * step >= 0 or not -math.inf < end - start < math.inf:
        raise RuntimeError(f"arange: from {start} to {end} in steps of {step} never arrives")
    if dtype is None:
        real = isinstance(start, float) or isinstance(end, float) or isinstance(step, float)
        dtype = get_default_dtype() if real else int64
    if all(isinstance(v, int) for v in (start, end, step)):
        n = -((start - end) // step) if step > 0 else -((end - start) // -step)
    else:
        n = math.ceil((end - start) / step)
    if n >= 2**60:
        raise RuntimeError(f"arange: {n} numbers are more than any memory holds")
    check_device(device, "arange")
    if whole:  # cut down before they are added up
        start, step = _whole(start), _whole(step)
    return tensor(start + step * constants(np.arange, n), dtype=dtype, requires_grad=requires_grad, device=device)


def _ends(what: str, start: float, end: float) -> tuple[float, float]:
    if not (-math.inf < start < math.inf and -math.inf < end < math.inf):
        raise RuntimeError(f"{what}: no even steps lead from {start} to {end}; expected two finite numbers")
    return float(start), float(end)


def linspace(start: float, end: float, steps: int, *, dtype=None, requires_grad: bool = False, device=None) -> Tensor:
    """`steps` numbers from start to end, both included, evenly spaced."""
    if steps < 0:
        raise RuntimeError(f"linspace: steps must be 0 or more, got {steps}")
    start, end = _ends("linspace", start, end)
    check_device(device, "linspace")
    values = constants(np.linspace, start, end if steps > 1 else start, steps)
    return tensor(values, dtype=_or(dtype, get_default_dtype()), requires_grad=requires_grad, device=device)


def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype=None, requires_grad: bool = False, device=None
) -> Tensor:
    """`steps` numbers from base^start to base^end, both included, each the same multiple of the one before."""
    if steps < 0:
        raise RuntimeError(f"logspace: steps must be 0 or more, got {steps}")
    start, end = _ends("logspace", start, end)
    check_device(device, "logspace")
    values = np.float64(base) ** constants(np.linspace, start, end, steps)
    return tensor(values, dtype=_or(dtype, get_default_dtype()), requires_grad=requires_grad, device=device)


# --- Chance


def _uniform(array: np.ndarray, generator: Generator) -> None:
    if array.flags.c_contiguous and array.dtype.kind == "f":
        generator.numpy.random(out=array, dtype=array.dtype)
    else:
        array[...] = generator.numpy.random(array.shape)


def _normal(array: np.ndarray, generator: Generator) -> None:
    if array.dtype.kind == "O":  # exact scalars: the floats, as the fractions that they are
        array[...] = generator.numpy.standard_normal(array.shape)
        return
    if array.dtype.kind != "f":
        raise TypeError(f"normal numbers are floats, and have no place in a tensor of {array.dtype}")
    generator.numpy.standard_normal(out=array, dtype=array.dtype)


def _integers(array: np.ndarray, generator: Generator, low: int, high: int) -> None:
    array[...] = generator.numpy.integers(low, high, array.shape)


def _permutation(array: np.ndarray, generator: Generator) -> None:
    array[...] = generator.numpy.permutation(array.size)


def _random(what, fill, size, dtype, requires_grad, device, generator, *args) -> Tensor:
    generator = drawn_from(what, generator)
    fill_now = lambda array: host(fill, array, generator, *args)  # noqa: E731  (a replay draws anew)
    return _new(what, size, dtype, requires_grad, device, fill_now)


def rand(
    *sizes, size=None, dtype=None, requires_grad: bool = False, device=None, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers from [0, 1)."""
    return _random("rand", _uniform, _shape(sizes, "rand", size), dtype, requires_grad, device, generator)


def randn(
    *sizes, size=None, dtype=None, requires_grad: bool = False, device=None, generator: Generator | None = None
) -> Tensor:
    """Numbers from the standard normal distribution."""
    return _random("randn", _normal, _shape(sizes, "randn", size), dtype, requires_grad, device, generator)


def rand_like(
    x: Tensor, *, dtype=None, requires_grad: bool = False, device=None, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers from [0, 1) in the shape and dtype of x."""
    dtype, device = _or(dtype, x.dtype), _device(x, device)
    return rand(x.shape, dtype=dtype, requires_grad=requires_grad, device=device, generator=generator)


def randn_like(
    x: Tensor, *, dtype=None, requires_grad: bool = False, device=None, generator: Generator | None = None
) -> Tensor:
    """Numbers from the standard normal distribution in the shape and dtype of x."""
    dtype, device = _or(dtype, x.dtype), _device(x, device)
    return randn(x.shape, dtype=dtype, requires_grad=requires_grad, device=device, generator=generator)


def randint(
    low: int = 0,
    high=None,
    size=None,
    *,
    dtype=int64,
    requires_grad: bool = False,
    device=None,
    generator: Generator | None = None,
) -> Tensor:
    """Whole numbers from low (0 if left out) to high - 1."""
    if size is None:  # randint(high, size)
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    try:
        low, high = operator.index(low), operator.index(high)
    except TypeError:
        raise TypeError(f"randint: expected whole numbers for low and high, got {low!r} and {high!r}") from None
    if low >= high:
        raise RuntimeError(f"randint: nothing lies between {low} and {high} - 1")
    limits = np.iinfo(as_dtype(dtype) if as_dtype(dtype).kind in "iu" else int64)  # floats are drawn as int64
    for end in (low, high - 1):
        if not limits.min <= end <= limits.max:
            raise RuntimeError(f"randint: {end} is no number of {limits.dtype}; choose a larger dtype")
    return _random("randint", _integers, _shape((size,), "randint"), dtype, requires_grad, device, generator, low, high)


def randint_like(
    x: Tensor,
    low: int,
    high: int | None = None,
    *,
    dtype=None,
    requires_grad: bool = False,
    device=None,
    generator: Generator | None = None,
) -> Tensor:
    """Whole numbers from low (0 if left out) to high - 1, in the shape and dtype of x."""
    low, high = (0, low) if high is None else (low, high)
    dtype, device = _or(dtype, x.dtype), _device(x, device)
    return randint(low, high, x.shape, dtype=dtype, requires_grad=requires_grad, device=device, generator=generator)


def randperm(
    n: int, *, dtype=int64, requires_grad: bool = False, device=None, generator: Generator | None = None
) -> Tensor:
    """The numbers 0 to n - 1 in random order."""
    return _random("randperm", _permutation, _shape((n,), "randperm"), dtype, requires_grad, device, generator)

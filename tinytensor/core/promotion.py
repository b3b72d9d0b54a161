"""Promotion: the arguments of a formula are brought to one dtype, as arrays and numbers, and to one shape."""

import math

import numpy as np

from tinytensor.core.dispatch import empty, launch, move
from tinytensor.core.dtypes import CATEGORY, KINDS, bool_, category, float32, get_default_dtype, result_type, uint8
from tinytensor.core.kernel import OBJECT
from tinytensor.core.tensor import Tensor


def by_formula(op, args: tuple, into: Tensor | None) -> np.ndarray:
    """y[...] = f(a[...], b[...]): all arguments in one dtype, and y in the shape that they broadcast to.

    No values are repeated in memory for this: the kernel reads a broadcast argument with stride 0.
    """
    operands, dtype, shape = promote_and_broadcast(op, args)
    result = bool_ if op.dtype == "bool" else dtype
    if into is not None and into.shape == shape and into.dtype == result:
        y = into._data
    else:
        y = empty(shape, result)
    launch(op.kernel, *operands, y)
    return y


def promote_and_broadcast(op, args: tuple) -> tuple[list, np.dtype, tuple[int, ...]]:
    """The arguments of a formula as arrays and numbers, their common dtype, and the shape that they broadcast to.

    Nearly always the arguments are tensors of one dtype, most often of one shape, and Python numbers that fit into it.
    This case is tested first, which saves a large part of the time of a small operation.
    """
    dtype, shape, fast_kinds, alike = None, None, op.fast_kinds, True
    for a in args:
        if not isinstance(a, Tensor):
            if a.__class__ is not int:  # a float fits into floats; other classes take the general way
                fast_kinds = "f" if a.__class__ is float and "f" in fast_kinds else ""
        elif dtype is None:
            dtype, shape = a._data.dtype, a._data.shape
        else:
            fast_kinds = fast_kinds if a._data.dtype is dtype else ""
            alike = alike and a._data.shape == shape
    if dtype is not None and dtype.kind in fast_kinds and len(args) == len(op.params):
        try:
            operands = [a._data if isinstance(a, Tensor) else to_scalar(a, dtype) for a in args]
            return operands, dtype, shape if alike else common_shape(op.name, operands)
        except OverflowError:  # the general way raises it again, with the operation's name
            pass
    dtype = common_dtype(op, args)
    if op.dtype == "float" and dtype.kind in "biu":
        dtype = get_default_dtype()
    operands = [to_operand(op.name, a, dtype) for a in args]
    return operands, dtype, common_shape(op.name, operands)


def common_dtype(op, args: tuple) -> np.dtype:
    """The common dtype of the arguments; TypeError for a value that is neither tensor nor number."""
    if len(args) != len(op.params):
        raise TypeError(f"{op.name}: expected {len(op.params)} arguments ({', '.join(op.params)}), got {len(args)}")
    dtypes = {a._data.dtype for a in args if isinstance(a, Tensor)}
    if len(dtypes) == 1:  # nearly always: tensors of one dtype, and numbers that fit into it
        (dtype,) = dtypes
        numbers = [category(a) for a in args if not isinstance(a, Tensor)]
        if max(numbers, default=0) <= CATEGORY[dtype.kind] and (
            not op.dtype_kinds or (dtype.kind in op.dtype_kinds and 0 not in numbers)
        ):
            return dtype
    dtype = result_type(*args)
    if OBJECT not in dtypes:
        for a in args:
            if not isinstance(a, Tensor | int | float | np.number | np.bool_):
                hint = "; use tinytensor.from_numpy(array)" if isinstance(a, np.ndarray) else ""
                raise TypeError(f"{op.name}: expected tensors or numbers, got {type(a).__name__}{hint}")
        if not dtypes:
            raise TypeError(f"{op.name}: expected at least one tensor, got {', '.join(map(repr, args))}")
    elif any(hasattr(a, "__torch_function__") and not isinstance(a, Tensor) for a in args):  # no exact scalar
        raise TypeError(f"{op.name}: expected tensors or numbers, got PyTorch's; give it as tinytensor.tensor(...)")
    for a in args if op.dtype_kinds else ():
        letter = a.dtype.kind if isinstance(a, Tensor) else "bifO"[category(a)]
        if letter not in op.dtype_kinds and (
            isinstance(a, Tensor) or letter != "i"
        ):  # a whole number may stand for a float
            allowed = " or ".join(KINDS[k] for k in op.dtype_kinds if k not in "uO")
            came = a.dtype if isinstance(a, Tensor) else repr(a)
            raise RuntimeError(f"{op.name}: expected {allowed} tensors, got {came}")
    return dtype


# Numbers from here on round to infinity in float32: its largest number, 2^128 - 2^104, plus half a step.
_INFINITE = 2.0**128 - 2.0**103


def clamp_to_inf(value: float, dtype: np.dtype) -> float:
    """A number; infinity if it is too large for float32 (NumPy would give the same, with a warning)."""
    if dtype == float32 and isinstance(value, int | float) and abs(value) >= _INFINITE:
        return math.copysign(math.inf, value)
    return value


def to_scalar(value: float, dtype: np.dtype) -> np.generic:
    """A number in the dtype of the tensors beside it."""
    return dtype.type(clamp_to_inf(value, dtype))


def to_operand(what: str, value, dtype: np.dtype):
    """A value as the kernel takes it: an array of `dtype`, or a number of that type."""
    if isinstance(value, Tensor):
        if value._data.dtype is dtype:
            return value._data
        cast = empty(value.shape, dtype)
        move(value._data, cast)
        return cast
    return value if dtype is OBJECT else cast_number(what, value, dtype)


# For these operations the result is the same whether integers are taken modulo 2**bits before or after. PyTorch does so
# before any operation, and finds 1 == 257 among bytes.
_MODULAR = frozenset({"add", "sub", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"})


def cast_number(what: str, value: float, dtype: np.dtype) -> np.generic:
    """A number of that dtype; one too large is taken modulo 2**bits if the operation allows it, or OverflowError."""
    try:
        return dtype.type(as_byte(value) if dtype == uint8 else clamp_to_inf(value, dtype))
    except OverflowError:
        if what in _MODULAR and isinstance(value, int) and -(2**63) <= value < 2**64:  # fits into 64 bits
            return np.array((value + 2**63) % 2**64 - 2**63, np.int64).astype(dtype)[()]
        raise OverflowError(f"{what}: {value} is too large for {dtype}") from None


def as_byte(value: float) -> float:
    """PyTorch's reading of a negative number as a byte, modulo 256: -1 is 255; -0.5 is an OverflowError."""
    if isinstance(value, float) and value < 0:
        raise OverflowError
    return value % 256 if -256 < value < 0 else value


def common_shape(name: str, operands: list) -> tuple[int, ...]:
    """The shape to which the arrays among the operands broadcast."""
    arrays = [a for a in operands if a.__class__ is np.ndarray]
    try:
        return np.broadcast(*arrays).shape
    except ValueError:
        return broadcast_shape(name, *[a.shape for a in arrays])


def broadcast_shape(what: str, *shapes: tuple) -> tuple[int, ...]:
    """The shape to which these shapes broadcast; the error begins with `what`, the name of the operation."""
    result = list(max(shapes, key=len))
    for shape in shapes:
        for d, n in enumerate(shape, len(result) - len(shape)):
            if is_one(result[d]):
                result[d] = n
            elif not (n is result[d] or is_one(n) or n == result[d]):
                raise RuntimeError(
                    f"{what}: shapes {' and '.join(map(str, shapes))} do not broadcast: "
                    "from the right, sizes must be equal or 1"
                )
    return tuple(result)


def is_one(n: int) -> bool:
    """Is this size the number 1? A size without a number (symbolic/reading) is not asked."""
    return type(n) is int and n == 1

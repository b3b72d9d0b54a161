"""Fills the places that `@register` names: methods and operators of Tensor, and functions of the package.

Only this table adds members from other files to Tensor. It is filled last, when all operations are declared.
"""

from collections.abc import Callable
from functools import partial
from numbers import Number
from types import FunctionType

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.op import Op
from tinytensor.core.registry import REGISTRY
from tinytensor.core.tensor import Tensor
from tinytensor.core.tensor_values import TensorValues
from tinytensor.ops import in_place
from tinytensor.ops.argument_errors import named, public, public_as
from tinytensor.ops.creation import as_tensor

# Each operator, and the one that Python asks of the other operand when the tensor gives NotImplemented.
_COMPARISONS = {"__lt__": "__gt__", "__le__": "__ge__", "__eq__": "__eq__"}
_COMPARISONS |= {"__gt__": "__lt__", "__ge__": "__le__", "__ne__": "__ne__"}
_NAMES = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"]
_REFLECTED = {f"__r{name}__": f"__{name}__" for name in _NAMES}
_AUGMENTED = {f"__i{name}__": f"__r{name}__" for name in _NAMES}
_OPERATORS = {f"__{name}__": f"__r{name}__" for name in _NAMES} | _COMPARISONS | _REFLECTED | _AUGMENTED


def _method(name: str, function: Callable) -> Callable | property:
    """The member of Tensor under a name that `register` was given."""
    if name in _OPERATORS:
        return _operator(name, function)
    if name.endswith("_") and name != f"__{name.strip('_')}__":
        in_its_place = getattr(function, "__name__", "").endswith("_")  # copy_ and fill_ work in place themselves
        return function if in_its_place else in_place.in_place(function, name.rstrip("_"))
    call = getattr(function, "quick", function)
    if call is not function and len(function.params) == 1:  # the same as below, for the methods that are called most
        return _documented(
            lambda x, *args, **kwargs: function(x, *args, **kwargs) if args or kwargs else call(x), function
        )
    if isinstance(function, Op):  # a function, so that Python hands it the tensor before the dot
        return _documented(with_pytorchs_tensors(function), function)
    return function


def _operator(name: str, function: Callable) -> Callable:
    """The operator under a name; `_otherwise` says what it gives for operands that the function does not take."""
    call = function.quick if isinstance(function, Op) else public(function, name[2:-2])
    if name in _AUGMENTED:
        function = function if isinstance(function, Op) else call
        return in_place.in_place(function, name.removeprefix("__i").rstrip("_"), partial(_otherwise, name))

    def reflected(x, other):
        try:
            return call(other, x)
        except Exception as error:
            return _otherwise(name, reflected, x, other, error)

    def binary(x, other):
        try:
            return call(x, other if other.__class__ is Tensor else _operand(other))
        except Exception as error:
            return _otherwise(name, binary, x, other, error)

    return reflected if name in _REFLECTED else binary


def _otherwise(name: str, operator: Callable, x: Tensor, other, error: Exception):
    """What an operator gives whose function has refused the other operand.

    NumPy's arrays count as tensors. For a class that the engine does not know the result is NotImplemented if this
    class has the operator itself: Python calls it then. Else the error stands, whose sentence says more than Python's.
    """
    if other.__class__ is np.ndarray and name in _REFLECTED | _AUGMENTED:
        return operator(x, as_tensor(other))
    theirs, cls = _OPERATORS[name], other.__class__
    if isinstance(other, Tensor | Number | np.generic | np.ndarray) or hasattr(cls, "__torch_function__"):
        raise error
    if cls in (list, tuple, str, bytes):  # a whole number repeats them, [0] * n, and a list += x takes the elements
        repeats = theirs in ("__mul__", "__rmul__") and x.dtype.kind in "iub" and x.numel() == 1
        takes = repeats or name == "__radd__"
    else:
        takes = any(theirs in vars(c) for c in cls.__mro__ if c is not object)
    if takes or theirs in ("__eq__", "__ne__"):  # x == None is False, as in Python: other types are not equal
        return NotImplemented
    raise error


def with_pytorchs_tensors(function: Op) -> Callable:
    """An operation that takes PyTorch's tensors as constants; it looks for them when a call has failed."""

    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception:
            converted = late_bound.convert_foreign_tensors(args, kwargs)
            if converted is None:
                raise
        return function(*converted[0], **converted[1])

    return call


def _documented(method: Callable, operation: Op) -> Callable:
    """The method, with the operation's docstring."""
    method.__doc__ = operation.__doc__
    return method


def _operand(other):
    """The right operand of an operator: a NumPy array counts as a tensor, and so does a tensor of PyTorch."""
    if other.__class__ is float or other.__class__ is int:
        return other
    if other.__class__ is np.ndarray:
        return as_tensor(other)
    if hasattr(other, "__torch_function__") and not isinstance(other, Tensor):
        converted = late_bound.convert_foreign_tensors((other,), {})
        return other if converted is None else converted[0][0]
    return other


WALKS = ("tinytensor.autograd.backward", "tinytensor.core.post_accumulate_hooks", "tinytensor.core.hooks")


def _public_member(path: str, function: Callable, what: Callable | property) -> Callable | property:
    """The object at a place. A formula checks its own arguments; functions composed of formulas are wrapped.

    Functions that walk the tape are not wrapped: they run code of the user, whose errors must stay as they are.
    """
    name = path.removeprefix("Tensor.")
    if isinstance(function, Op | property) or function.__module__ in WALKS or name in _OPERATORS:
        return named(path, what) if name != path and isinstance(what, FunctionType) else what
    path = path if name != path else f"tinytensor.{name}"
    return public_as(path, what, name[2:-2] if name.startswith("__") else name)


METHODS = {
    name: _public_member(appearance, function, _method(name, function))
    for appearance, function in REGISTRY.items()
    if (name := appearance.removeprefix("Tensor.")) != appearance
}


class _Empty:
    """What every class has: a docstring, a module ..."""


VALUES = {
    name: named(f"Tensor.{name}", member) if isinstance(member, FunctionType) else member
    for name, member in vars(TensorValues).items()
    if name not in vars(_Empty)
}
for _name, _member in (VALUES | METHODS).items():
    setattr(Tensor, _name, _member)

FUNCTIONS = {
    appearance: _public_member(appearance, function, function)
    for appearance, function in REGISTRY.items()
    if "." not in appearance
}

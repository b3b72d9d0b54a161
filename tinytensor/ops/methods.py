"""Fills the places that `@appears` names: methods and operators of Tensor, and functions of the package.

Only this table adds members from other files to Tensor. It is filled last, when all operations are declared.
"""

from collections.abc import Callable
from numbers import Number
from types import FunctionType

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.op import Op
from tinytensor.core.registry import APPEARANCES
from tinytensor.core.tensor import Tensor
from tinytensor.core.tensor_values import TensorValues
from tinytensor.ops import in_place
from tinytensor.ops.argument_errors import named, public_as
from tinytensor.ops.creation import as_tensor

_OPERATORS = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"]
_OPERATORS += ["and", "or", "xor", "lshift", "rshift"]
_REFLECTED = {f"__r{name}__" for name in _OPERATORS}
_BINARY = {f"__{name}__" for name in ("lt", "le", "gt", "ge", *_OPERATORS)}
_AUGMENTED = {f"__i{name.removeprefix('__r')}" for name in _REFLECTED}


def _method(name: str, function: Callable) -> Callable | property:
    """The member of Tensor under a name that `appears` was given."""
    call = getattr(function, "quick", function)
    if name in _REFLECTED:
        return lambda x, other: call(other, x)
    if name in _AUGMENTED or (name.endswith("_") and name != f"__{name.strip('_')}__"):
        in_its_place = getattr(function, "__name__", "").endswith("_")  # copy_ and fill_ work in place themselves
        return function if in_its_place else in_place.in_place(function, name.removeprefix("__i").rstrip("_"))
    if name in ("__eq__", "__ne__"):  # x == None is False, as in Python: other types are not equal
        return lambda x, other: call(x, _operand(other)) if _is_comparable(x, other) else NotImplemented
    if name in _BINARY:
        return lambda x, other: call(x, other if other.__class__ is Tensor else _operand(other))
    if call is not function and len(function.params) == 1:  # the same as below, for the methods that are called most
        return _documented(
            lambda x, *args, **kwargs: function(x, *args, **kwargs) if args or kwargs else call(x), function
        )
    if isinstance(function, Op):  # a function, so that Python hands it the tensor before the dot
        return _documented(with_pytorchs_tensors(function), function)
    return function


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


def _is_comparable(x: Tensor, other) -> bool:
    known = isinstance(other, Tensor | Number | np.generic | np.ndarray) or x.dtype.kind == "O"
    return known or hasattr(other, "__torch_function__")


WALKS = ("tinytensor.autograd.backward", "tinytensor.core.post_accumulate_hooks", "tinytensor.core.hooks")


def _public_member(path: str, function: Callable, what: Callable | property) -> Callable | property:
    """The object at a place. A formula checks its own arguments; functions composed of formulas are wrapped.

    Functions that walk the tape are not wrapped: they run code of the user, whose errors must stay as they are.
    """
    name = path.removeprefix("Tensor.")
    if isinstance(function, Op | property) or function.__module__ in WALKS:
        return named(path, what) if name != path and isinstance(what, FunctionType) else what
    path = path if name != path else f"tinytensor.{name}"
    return public_as(path, what, name[2:-2] if name.startswith("__") else name)


METHODS = {
    name: _public_member(appearance, function, _method(name, function))
    for appearance, function in APPEARANCES.items()
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
    for appearance, function in APPEARANCES.items()
    if "." not in appearance
}

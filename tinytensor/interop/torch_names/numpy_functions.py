"""Functions written for NumPy take our tensors: np.exp(x), np.sum(x, axis=0), np.einsum("ij,jk->ik", a, b).

NumPy looks for arguments with `__array_ufunc__` and `__array_function__` before it computes. A tensor that NumPy can't
compute with, since it requires grad (or holds formulas, or no values), goes to the function of ours that means the
same; the result is a tensor on the tape. Tensors without a gradient are arrays for NumPy, and so are its results.

A function of NumPy is listed here if it means the same as ours, or with a formula that says what it means: NumPy's
`split` counts parts and PyTorch's counts rows, NumPy's `var` divides by n and PyTorch's by n - 1. NumPy's own
signature says which parameter an argument belongs to.
"""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import as_tensor

UFUNCS = {  # ours, where it has another name than NumPy's
    "power": "pow",
    "rint": "round",
    "fabs": "abs",
    "degrees": "rad2deg",
    "radians": "deg2rad",
    "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
}
REDUCED = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin", "logical_and": "all"}
REDUCED |= {"logical_or": "any", "logaddexp": "logsumexp"}
ACCUMULATED = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}

SAME = """all any amax amin argmax argmin argsort argwhere mean sum prod concatenate concat stack vstack hstack dstack
column_stack where einsum inner outer vdot kron cross tensordot squeeze moveaxis swapaxes broadcast_to atleast_1d
atleast_2d atleast_3d ravel fliplr flipud rot90 tril triu diag isclose allclose nan_to_num nansum nanmean count_nonzero
zeros_like ones_like empty_like full_like diff sinc"""
RENAMED = {"axis": "dim", "keepdims": "keepdim", "k": "diagonal", "axes": "dims"}  # parameters that are given by name
FORMULAS = {
    "max": lambda a, axis=None, keepdims=False: a.amax(_all(a, axis), keepdims),
    "min": lambda a, axis=None, keepdims=False: a.amin(_all(a, axis), keepdims),
    "dot": lambda a, b: a @ b if getattr(a, "ndim", 0) and getattr(b, "ndim", 0) else a * b,
    "ptp": lambda a, axis=None, keepdims=False: a.amax(_all(a, axis), keepdims) - a.amin(_all(a, axis), keepdims),
    "var": lambda a, axis=None, ddof=0, keepdims=False: a.var(_all(a, axis), correction=ddof, keepdim=keepdims),
    "std": lambda a, axis=None, ddof=0, keepdims=False: a.std(_all(a, axis), correction=ddof, keepdim=keepdims),
    "transpose": lambda a, axes=None: a.permute(tuple(range(a.ndim))[::-1] if axes is None else tuple(axes)),
    "permute_dims": lambda a, axes=None: a.permute(tuple(range(a.ndim))[::-1] if axes is None else tuple(axes)),
    "matrix_transpose": lambda x: x.transpose(-1, -2),
    "reshape": lambda a, shape: a.reshape(shape),
    "expand_dims": lambda a, axis: a.unsqueeze(axis),
    "clip": lambda a, a_min=None, a_max=None, min=None, max=None: a.clip(
        min if a_min is None else a_min, max if a_max is None else a_max
    ),
    "cumsum": lambda a, axis=None: a.reshape(-1).cumsum(0) if axis is None else a.cumsum(axis),
    "cumprod": lambda a, axis=None: a.reshape(-1).cumprod(0) if axis is None else a.cumprod(axis),
    "take": lambda a, indices, axis=None: (
        a.reshape(-1)[indices] if axis is None else a[(slice(None),) * (axis % a.ndim) + (indices,)]
    ),
    "take_along_axis": lambda arr, indices, axis=-1: arr.gather(axis, as_tensor(indices)),
    "repeat": lambda a, repeats, axis=None: (
        a.reshape(-1).repeat_interleave(repeats, 0) if axis is None else a.repeat_interleave(repeats, axis)
    ),
    "tile": lambda A, reps: A.tile(reps),
    "roll": lambda a, shift, axis=None: a.roll(shift, axis),
    "flip": lambda m, axis=None: m.flip(_all(m, axis)),
    "diagonal": lambda a, offset=0, axis1=0, axis2=1: a.diagonal(offset, axis1, axis2),
    "trace": lambda a, offset=0, axis1=0, axis2=1: a.diagonal(offset, axis1, axis2).sum(-1),
    "split": lambda ary, indices_or_sections, axis=0: list(ary.tensor_split(indices_or_sections, axis)),
    "array_split": lambda ary, indices_or_sections, axis=0: list(ary.tensor_split(indices_or_sections, axis)),
    "sort": lambda a, axis=-1: a.sort(axis)[0],
    "round": lambda a, decimals=0: a.round(decimals=decimals),
    "copy": lambda a: a.clone(),
    "nonzero": lambda a: a.nonzero(as_tuple=True),
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a, axis=None: a.numel() if axis is None else a.shape[axis],
}


def _all(a: Tensor, axis) -> Any:
    return tuple(range(a.ndim)) if axis is None else axis


# --- Calls


def ufunc_call(ufunc: Callable, method: str, inputs: tuple, keywords: dict) -> Any:
    """What a ufunc of NumPy, or its reduce, accumulate or outer, gives for tensors on the tape."""
    name = ufunc.__name__
    keywords = {key: value for key, value in keywords.items() if not _is_usual(key, value)}
    if "out" in keywords:
        raise TypeError(
            f"numpy.{name}: out= is an array, which can't hold a tensor with a gradient (a += x calls it, too); take "
            "the result: a = a + x"
        )
    inputs = _ours(inputs)
    if method == "__call__":
        return _result(name, _find(UFUNCS.get(name, name), name), inputs, keywords)
    if method == "outer" and not keywords:
        a, b = inputs
        return ufunc(a.reshape((*a.shape, *(1,) * b.ndim)), b)
    table = {"reduce": REDUCED, "accumulate": ACCUMULATED}.get(method, {})
    what = f"{name}.{method}"
    function = _find(table.get(name, ""), what)
    x, axis, *more = (*inputs, keywords.pop("axis", 0)) if len(inputs) == 1 else inputs
    if method == "accumulate":
        result = _result(what, function, (x, axis), keywords)
        return result[0] if isinstance(result, tuple) else result
    if keywords.pop("keepdims", False):
        keywords["keepdim"] = True
    return _result(what, function, (x, _all(x, axis), *more), keywords)


def call(function: Callable, args: tuple, kwargs: dict) -> Any:
    """What a function of NumPy gives for tensors on the tape; NotImplementedError if none of ours means the same."""
    name, linalg = function.__name__, getattr(function, "__module__", "") == "numpy.linalg"
    if name in SAME.split() or name in FORMULAS or linalg:
        first, named = _arguments(function, _ours(args), _ours(kwargs))
        if name in FORMULAS and not linalg:
            return _result(name, FORMULAS[name], (), first | named)
        named = {RENAMED.get(key, key): value for key, value in named.items()}
        several = first.pop("operands", first.pop("arys", ()))  # of einsum and atleast_2d
        return _result(name, _find(name, name, "linalg" if linalg else ""), (*first.values(), *several), named)
    raise NotImplementedError(_refusal(name))


def _arguments(function: Callable, args: tuple, kwargs: dict) -> tuple[dict, dict]:
    """The arguments by NumPy's names: those that we take by position, and settings that differ from the usual."""
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs).arguments
    bound |= bound.pop("kwargs", {})
    usual = {name: p.default for name, p in signature.parameters.items()}
    settings = {name for name, default in usual.items() if default is not inspect.Parameter.empty}
    needed = {key: value for key, value in bound.items() if key not in settings or key in ("x", "y")}
    passed = {key: value for key, value in bound.items() if key not in needed and not _is_usual(key, value)}
    return needed, {key: value for key, value in passed.items() if value is not usual.get(key, needed)}


def _is_usual(key: str, value: Any) -> bool:
    """Is this the value of an option which changes nothing?"""
    if key == "order":  # of the elements in memory
        return value != "F"
    if key in ("casting", "subok", "optimize", "copy"):
        return True
    return value is True if key == "where" else value is None and key != "axis"  # axis=None is no default of reduce


def _ours(value: Any) -> Any:
    """Arrays as tensors, and NumPy's numbers as Python's, also inside lists, tuples and dictionaries."""
    if isinstance(value, np.ndarray):
        return as_tensor(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: _ours(v) for key, v in value.items()}
    return type(value)(map(_ours, value)) if value.__class__ in (list, tuple) else value


def _find(name: str, numpys: str, room: str = "") -> Callable:
    member = getattr(importlib.import_module(f"tinytensor.{room}".rstrip(".")), name, None) if name else None
    if not callable(member):
        raise NotImplementedError(_refusal(f"linalg.{numpys}" if room else numpys))
    return member


def _result(name: str, function: Callable, args: tuple, keywords: dict) -> Any:
    try:
        return function(*args, **keywords)
    except TypeError as error:
        if not keywords:
            raise
        said = str(error).removeprefix("<lambda>() ")  # of a formula above
        raise TypeError(f"numpy.{name} on a tensor that requires grad: {said}") from None


def _refusal(name: str) -> str:
    return (
        f"numpy.{name} was called on a tensor that requires grad, and tinytensor has no function that means the same; "
        "write it with others (dir(tinytensor) lists them), or .detach() the tensor if no gradient is to pass"
    )

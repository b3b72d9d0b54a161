"""What is called nearly always, made short: formulas of one or two operands, and views.

A program of small tensors spends its day here, not in kernels: adding 700 numbers takes as long as asking three
questions in Python. So what `Op.run` finds out step by step is found out here in one, where nothing unusual is asked.
"""

from collections.abc import Callable

import numpy as np

from tinytensor.core.dispatch import empty, launch, state
from tinytensor.core.dtypes import bool_
from tinytensor.core.promotion import together, typed
from tinytensor.core.tensor import Tensor
from tinytensor.native.blocks import FITS
from tinytensor.native.uninitialized import fresh

REMEMBERED = 256  # numbers that are kept as arrays

_ndarray = np.ndarray
_numbers: dict[tuple, np.ndarray] = {}


def by_formula(op, args: tuple, into: Tensor | None) -> np.ndarray:
    """y[...] = f(a[...], b[...]): all arguments in one dtype, and y in the shape that they have together.

    Nothing is repeated in memory for this: the kernel reads a broadcast argument with stride 0.
    """
    operands, dtype, shape = together(op, args)
    result = bool_ if op.dtype == "bool" else dtype
    if into is not None and into.shape == shape and into.dtype == result:
        y = into._data
    else:
        y = empty(shape, result)
    launch(op.kernel, *operands, y)
    return y


def quick_formula(op, mark: Callable) -> Callable | None:
    """The call of a formula of one or two operands; None for one that has more.

    Tensors of one dtype for which there is a build, and a number beside them, are run as they are, if nobody records,
    times or looks at what is computed. Anything else takes the way of all operations, also what turns out to be large,
    or not to fit: the native call looks at the sizes of the very arrays that it gets, and does nothing then. `mark`
    makes the result's node. (A result that goes `into` the place of x has none: see `in_place`.)
    """
    if op.defaults or len(op.params) > 2:
        return None
    builds: dict[np.dtype, tuple] = {}  # by the dtype of the operands: a build, and the dtype of y

    def at_first(args: tuple, dtype: np.dtype, into: Tensor | None):
        """Run it in general, and keep the build that was found."""
        y, result = op.run(args, into), bool_ if op.dtype == "bool" else dtype
        found = op.kernel.entries.get((dtype,) * len(args) + (result,))
        if found is not None and dtype.kind in op.at_once:
            entry, layout = found
            builds[dtype] = layout.call, entry, layout.sizes_at, result
        return y

    def one(x, into=None):
        now, a = state.__dict__, x._data if isinstance(x, Tensor) else None
        if a.__class__ is not _ndarray or now["watched"]:
            return op.run((x,), into)
        if a.dtype not in builds:
            return at_first((x,), a.dtype, into)
        if x._base is not None and x._tracked != x._version.tracked:
            return op.run((x,), into)
        run, entry, sizes, dtype = builds[a.dtype]
        result = fresh(a.shape, dtype) if into is None else into._data
        if into is not None and (dtype is not result.dtype or into is not x):
            return op.run((x,), into)
        if run(entry, sizes, id(a), id(result), 0) != FITS:
            return op.run((x,), into)
        if into is not None:
            into._version.count += 1
            return into
        y = Tensor.of(result)
        if x._requires_grad and now["grad"] and op.differentiable:
            y.node, y._requires_grad = mark(op, (x,), y, ()), True
        return y

    def two(x, z, into=None):
        now = state.__dict__
        if isinstance(x, Tensor):
            s, a = x, x._data
            t, b = (z, z._data) if isinstance(z, Tensor) else (x, number_array(z, a.dtype))
        else:  # a number in front
            s = t = z if isinstance(z, Tensor) else None
            a, b = (None, None) if t is None else (number_array(x, t._data.dtype), t._data)
        if (
            not (a.__class__ is b.__class__ is _ndarray and a.dtype is b.dtype)
            or now["watched"]
            or (s._base is not None and s._tracked != s._version.tracked)
            or (t._base is not None and t._tracked != t._version.tracked)
        ):
            return op.run((x, z), into)
        if a.dtype not in builds:
            return at_first((x, z), a.dtype, into)
        run, entry, sizes, dtype = builds[a.dtype]
        shape = a.shape
        if b.shape != shape:
            try:
                shape = np.broadcast(a, b).shape
            except ValueError:
                return op.run((x, z), into)
        result = fresh(shape, dtype) if into is None else into._data
        if into is not None and (dtype is not result.dtype or shape != result.shape):
            return op.run((x, z), into)
        if run(entry, sizes, id(a), id(b), id(result)) != FITS:
            return op.run((x, z), into)
        if into is not None:
            into._version.count += 1
            return into
        y = Tensor.of(result)
        if (s._requires_grad or t._requires_grad) and now["grad"] and op.differentiable:
            y.node, y._requires_grad = mark(op, (x, z), y, ()), True
        return y

    return one if len(op.params) == 1 else two


def quick_view(op, mark: Callable) -> Callable:
    """The call of a view. Nothing is computed, so nothing but the tape and a recording has to hear of it."""
    look, differentiable = op.view, op.differentiable

    def view(x, *settings):
        a, now = x._data if isinstance(x, Tensor) else None, state.__dict__
        if a.__class__ is not _ndarray or now["watched"] or (x._base is not None and x._tracked != x._version.tracked):
            return op.run((x, *settings))
        y = x._seen_as(look(a, *settings))
        if x._requires_grad and now["grad"] and differentiable:
            y.node, y._requires_grad = mark(op, (x, *settings), y, ()), True
        return y

    return view


def number_array(value, dtype: np.dtype) -> np.ndarray | None:
    """A number as an array of the dtype beside which it stands; None if that must be looked at in general.

    Programs have few numbers, so they are remembered, but for -0.0, which Python takes for 0.0.
    """
    kind = value.__class__
    found = _numbers.get((value, kind, dtype)) if kind is int or kind is float else None
    if (
        found is None
        and (kind is int or (kind is float and value != 0))
        and dtype.kind in ("fi" if kind is int else "f")
    ):
        try:
            found = np.asarray(typed(value, dtype))
        except OverflowError:  # told by name
            return None
        if len(_numbers) >= REMEMBERED:
            _numbers.clear()
        _numbers[value, kind, dtype] = found
    return found

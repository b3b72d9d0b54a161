"""Fast paths for views, for formulas of one or two operands, and for functions on arrays.

A program of small tensors spends its time in such calls, not in kernels: adding 700 numbers takes as long as three
tests in Python. So a call without anything unusual makes the decisions of `Op.run` here in a few tests.
"""

from collections.abc import Callable

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import bool_
from tinytensor.core.number_arrays import number_array
from tinytensor.core.op import Node, Op
from tinytensor.core.poison import fresh
from tinytensor.core.tensor import Tensor
from tinytensor.native.fast.launch_cache import with_launch_cache
from tinytensor.native.runtime.launch_args import FITS

_ndarray = np.ndarray


def quick_formula(op: Op) -> Callable:
    """The call of a formula of one or two operands.

    Tensors of one dtype that has a build, and a number beside them, are run as they are, unless a recording, a profile
    or anomaly mode watches the launches. All other calls go through `Op.run`, as do arrays that are large or do not fit
    together: the native call checks the sizes of the very arrays that it gets, and then does nothing. (A result that is
    written `into` x has no node: see `in_place`.)
    """
    builds: dict[np.dtype, tuple] = {}  # by the dtype of the operands: a build, and the dtype of y

    def at_first(args: tuple, dtype: np.dtype, into: Tensor | None):
        """Run the operation by `Op.run`, and keep the build that it found."""
        y, result = op.run(args, into), bool_ if op.dtype == "bool" else dtype
        build = op.kernel.entries.get((dtype,) * len(args) + (result,))
        if build is not None and dtype.kind in op.fast_kinds:
            entry, layout = build
            builds[dtype] = layout.call, entry, layout.sizes_at, result
        return y

    def one(x, into=None):
        now, a = state.__dict__, x._data if isinstance(x, Tensor) else None
        if a.__class__ is not _ndarray or now["watched"]:
            return op.run((x,), into)
        if a.dtype not in builds:
            return at_first((x,), a.dtype, into)
        if x._base is not None and x._tape_count != x._version.tape_count:
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
            y.node, y._requires_grad = Node(op, (x,), y, ()), True
        return y

    def two(x, z, into=None):
        now = state.__dict__
        if now["watched"]:
            return op.run((x, z), into)
        if isinstance(x, Tensor):
            s, a = x, x._data
            t, b = (z, z._data) if isinstance(z, Tensor) else (x, number_array(z, a.dtype))
        else:  # the number comes first
            s = t = z if isinstance(z, Tensor) else None
            a, b = (None, None) if t is None else (number_array(x, t._data.dtype), t._data)
        if (
            not (a.__class__ is b.__class__ is _ndarray and a.dtype is b.dtype)
            or (s._base is not None and s._tape_count != s._version.tape_count)
            or (t._base is not None and t._tape_count != t._version.tape_count)
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
            y.node, y._requires_grad = Node(op, (x, z), y, ()), True
        return y

    return one if len(op.params) == 1 else two


def quick_view(op: Op) -> Callable:
    """The call of a view. It computes nothing, so only the tape and a recording have to note it."""
    look, differentiable = op.view, op.differentiable

    def view(x, *settings):
        a, now = x._data if isinstance(x, Tensor) else None, state.__dict__
        if (
            a.__class__ is not _ndarray
            or now["watched"]
            or (x._base is not None and x._tape_count != x._version.tape_count)
        ):
            return op.run((x, *settings))
        y = x._make_view(look(a, *settings))
        if x._requires_grad and now["grad"] and differentiable:
            y.node, y._requires_grad = Node(op, (x, *settings), y, ()), True
        return y

    return view


def quick_forward(op: Op) -> Callable:
    """The call of a function on arrays; its launches are repeated if it was called with such arrays before."""
    known, differentiable = with_launch_cache(op.forward), op.differentiable

    def forward(*args, into=None):
        now = state.__dict__
        if now["watched"]:
            return op.run(args, into)
        on_tape, arrays, short = False, [], []  # short: the shapes of arrays, and the settings
        for a in args:
            if isinstance(a, Tensor):
                data = a._data
                if data.__class__ is not _ndarray or (a._base is not None and a._tape_count != a._version.tape_count):
                    return op.run(args, into)
                on_tape = on_tape or a._requires_grad
                arrays.append(data)
                short.append(data.shape)
            else:
                arrays.append(a)
                short.append(a)
        results = known.run(tuple(arrays), tuple(short))
        results = results if results.__class__ is tuple else (results,)
        return op.finish(args, results, on_tape and now["grad"] and differentiable)

    return forward


def shortcut(op: Op) -> Callable:
    """The quick call of an operation, chosen by the kind of its forward function."""
    if op.kernel is None:
        return quick_view(op) if op.view else quick_forward(op)
    return late_bound.plain(op) if op.defaults or len(op.params) > 2 else quick_formula(op)

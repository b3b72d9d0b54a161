"""What the engine does with sizes and with tensors without values: replacements that hold while a function is read.

Each replacement is called only if an argument has a size or no values.
"""

import builtins
import functools
import math
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import sympy

from tinytensor.autograd import grad
from tinytensor.autograd.function import Function
from tinytensor.core import dispatch as core_dispatch
from tinytensor.core import dtypes, late_bound, modes, number_arrays, promotion
from tinytensor.core import in_place as core_in_place
from tinytensor.core.dtypes import int64
from tinytensor.core.observers import observe
from tinytensor.core.registry import OPS
from tinytensor.core.tensor import Tensor
from tinytensor.nn import functional, losses
from tinytensor.ops import (
    argument_errors,
    arguments,
    creation,
    fused,
    in_place,
    index,
    indexing,
    matrices,
    pointwise,
    products,
    reduce,
    shape,
)
from tinytensor.platform.locks import ThreadLock
from tinytensor.runtime import entry_points
from tinytensor.runtime import kernel as runtime_kernel
from tinytensor.symbolic.reading.loops import enumerate_type, of_each, range_type, reversed_type, sum_type
from tinytensor.symbolic.reading.sizes import SymFloat, SymInt, formula_of, is_users, where
from tinytensor.symbolic.reading.tensors import (
    SymbolicData,
    SymbolicTensor,
    Term,
    as_composed,
    as_term,
    bounds,
    broadcast,
    dispatch,
    equal,
    fits,
    inside,
    reading_of,
    span_of,
    tensor_of,
)

# --- Functions of the engine that fail with sizes


def whole_number(n, what):
    return n if type(n) is SymInt else n.reading.refuse(f"{what} must be a whole number")


def to_0d_array(what, value, dtype):
    return SymbolicData(value.reading, Term("number", value), (), dtype, span_of(value))


def host(function, *args, undo=None):
    """A look at values: the range of an Index decides, a condition on values is recorded, all others are refused."""
    if function is arguments._refuse_others_than_probabilities:
        args[1].reading.values["probability"] = None
    elif function is not index.check_range or (args[3] if len(args) > 3 else 0) > 0:
        reading_of(args).refuse(f"{function.__name__} needs the values of a tensor")
    elif not inside(args[0], args[1]):
        reading_of(args).refuse(f"{args[2]}: an index of unknown range; give it as an Index")


def infer(old, new, what):
    size, known = math.prod(old), math.prod([n for n in new if n != -1])
    if reading := reading_of((size, known)):
        reading.take_multiples(size, known)
    unknown = [d for d, n in enumerate(new) if n == -1]
    if len(unknown) > 1 or any(n < -1 for n in new):
        raise RuntimeError(f"{what}: {new}: sizes must be 0 or more, and at most one may be -1")
    if unknown and equal(size % known, 0):
        return tuple(size // known if d in unknown else n for d, n in enumerate(new))
    if unknown or not equal(size, math.prod(new)):
        raise RuntimeError(f"{what}: {size} elements of shape {old} do not fill the shape {new}")
    return new


def exchanged(old, dim0, dim1):
    return shape._exchanged((1,) * len(old), dim0, dim1)


def unflattened(x, dim, sizes):
    return infer((x.shape[dim],), sizes, "unflatten")


def part_at_once(x, key):
    """x[key]: slices in normal form, and index tensors through take(), as a term; masks are refused."""
    reading, parts = reading_of((x, key)), list(key if isinstance(key, tuple) else (key,))
    if any(
        isinstance(p, list | np.ndarray | bool) or (isinstance(p, Tensor) and p._data.dtype.kind != "i") for p in parts
    ):
        reading.refuse("a key of lists or truth values: the result's size depends on values; use where()")
    missing = [slice(None)] * (x.ndim - sum(p is not None and p is not ... for p in parts))
    dots = next((i for i, p in enumerate(parts) if p is ...), None)
    parts[slice(len(parts), None) if dots is None else slice(dots, dots + 1)] = missing
    dim, view, at, kept = 0, [], [], 0  # kept: dimensions of the view
    for p in parts:
        if isinstance(p, slice):
            start, stop, step = bounds(p, x.shape[dim])
            view.append(p if p == slice(None) else slice(start, stop, None if step == 1 else step))
        elif isinstance(p, Tensor):
            at.append((kept, p))
            view.append(slice(None))
        else:
            view.append(None if p is None else p if p >= 0 else p + x.shape[dim])
        dim, kept = dim + (p is not None), kept + (p is None or isinstance(p, slice | Tensor))
    y = x if all(isinstance(v, slice) and v == slice(None) for v in view) else shape.slice_op(x, tuple(view))
    if not at:
        return y
    (d, t), *more = at
    if more:  # x[arange(N), t]
        if [e for e, _ in more] != list(range(d + 1, d + 1 + len(more))):
            reading.refuse("a key of index tensors that are apart")
        indices = [one for _, one in at]
        for n, one in enumerate(indices):
            if isinstance(one._data, SymbolicData) or type(y.shape[d + n]) is SymInt:
                host(index.check_range, one._data, y.shape[d + n], "indexing")
        end = d + len(indices)
        sizes = (*y.shape[:d], *broadcast("indexing", *[one.shape for one in indices]), *y.shape[end:])
        term = Term("entries", y._data.term, d, *map(as_term, indices), reading=reading)
        return tensor_of(SymbolicData(reading, term, sizes, y._data.dtype, span_of(y)))
    rows = index.take(shape.movedim(y, d, 0), t)
    return rows if d == 0 else shape.movedim(rows, list(range(t.ndim)), list(range(d, d + t.ndim)))


def new(what, sizes, dtype, requires_grad, device, fill):
    """zeros, ones, full ...: a constant, whose value is what `fill` writes into a 0-d array."""
    dtype = creation.as_dtype(creation._or(dtype, creation.get_default_dtype()))
    reading, value = reading_of(sizes), np.zeros((), dtype)
    if what.startswith("rand") or fill is None or not all(n >= 0 for n in sizes):
        reading.refuse(f"{what}: its values or sizes are no function of the arguments")
    of_size = [c.cell_contents for c in fill.__closure__ or () if isinstance(c.cell_contents, SymbolicData)]
    value = of_size[0].term if of_size else fill(value) or value
    span = None if of_size or dtype.kind not in "iu" else (int(value), int(value))
    return tensor_of(SymbolicData(reading, Term("full", sizes, value), sizes, dtype, span))


def shape_of(sizes, what, size=None):
    sizes = (size,) if size is not None else sizes
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else tuple(sizes)


def general_zeros(sizes, dtype):
    raise TypeError  # not the fast path of zeros()


class Whole(metaclass=type("WholeType", (type,), {"__instancecheck__": lambda cls, x: isinstance(x, int)})):
    """int(n) in the engine's modules, where n may be a size."""

    def __new__(cls, x=0, *base):
        return math.trunc(x) if type(x) in (SymInt, SymFloat) else int(x, *base)


class SymbolicNumpy:
    """NumPy in the engine's modules: constants whose sizes are symbols are terms of their own."""

    def __init__(self, reading):
        self.reading = reading

    def __getattr__(self, name):
        return getattr(np, name)

    def _constant(name, dtype, span=lambda *sizes: None, ndim=2):
        def make(self, *sizes, k=0, dtype=dtype):
            if reading_of((sizes, k)) is None:
                return getattr(np, name)(*sizes, dtype=dtype, **({"k": k} if name == "tri" else {}))
            sizes = tuple(n for n in sizes if n is not None)
            sizes = sizes * 2 if len(sizes) < ndim else sizes
            settings = (*sizes, k) if name == "tri" else sizes
            return SymbolicData(self.reading, Term(name, *settings), sizes[-ndim:], dtype, span(*sizes))

        return make

    tri, eye = _constant("tri", float), _constant("eye", float, lambda *sizes: (0, 1))
    arange = _constant("arange", int64, lambda n: (0, n - 1), 1)

    def linspace(self, *settings):
        if reading_of(settings) is None:
            return np.linspace(*settings)
        return SymbolicData(self.reading, Term("linspace", *settings), settings[2:], np.float64)

    def ones(self, sizes, dtype=float):
        return (
            np.ones(sizes, dtype)
            if reading_of(sizes) is None
            else SymbolicData(self.reading, Term("full", sizes, 1), sizes, dtype)
        )

    def array(self, data, dtype=None):
        if type(data) in (SymInt, SymFloat):
            return to_0d_array(
                "tensor", data, dtype or (int64 if type(data) is SymInt else creation.get_default_dtype())
            )
        if isinstance(data, SymbolicData):
            return data if dtype is None or dtype == data.dtype else data.astype(dtype)
        return (
            np.array(data, dtype)
            if reading_of(data) is None
            else self.reading.refuse("a list of sizes as a tensor: use stack()")
        )

    def ascontiguousarray(self, x):
        return (
            types.SimpleNamespace(reshape=lambda shape: x) if isinstance(x, SymbolicData) else np.ascontiguousarray(x)
        )

    def broadcast_shapes(self, *shapes):
        return np.broadcast_shapes(*shapes) if reading_of(shapes) is None else broadcast("broadcast", *shapes)

    def may_share_memory(self, a, b):
        return reading_of((a, b)) is None and np.may_share_memory(a, b)

    def cumsum(self, sizes):
        return np.cumsum(sizes) if reading_of(sizes) is None else [sum(sizes[: i + 1]) for i in range(len(sizes))]

    def finfo(self, dtype):
        self.reading.values["float64"] = None
        return np.finfo(dtype)


def may_expand(n, m):
    """May a dimension of size n become one of size m? Asks no question if it is 1, or the same."""
    return (type(n) is int and n == 1) or n == m or n == 1


# Bodies in which one expression differs; their global names are those of ops/shape.py.


def squeeze(x, dim=None):
    dims = () if isinstance(dim, Sequence) and not dim else dimensions(x, dim, "squeeze")  # noqa: F821
    return reshape_view(x, tuple(n for d, n in enumerate(x.shape) if d not in dims or n != 1))  # noqa: F821


def expand(x, *shape):
    sizes = sizes_of(shape, "expand")  # noqa: F821
    old = (1,) * (len(sizes) - x.ndim) + x.shape
    new = tuple(n if m == -1 else m for n, m in zip(old, sizes, strict=False))
    if len(sizes) < x.ndim or not builtins.all(may_expand(n, m) for n, m in zip(old, new, strict=True)):
        raise RuntimeError(f"expand: shape {x.shape} can't become {sizes}")
    return expand_op(x, new)  # noqa: F821


def part_to_change(x, key):
    """The part of x that x[key] = value changes: a view, not the rows that an index tensor takes."""
    part = part_at_once(x, key)
    return part if part is x or part._data.memory is x._data.memory else reading_of((x, key)).refuse(SHARED)


def check_in_place(x):
    """Refuse a change of memory that other tensors share."""
    data = x._data
    if data.reading.open_loops and data.term.inside is not data.reading.open_loops[-1]:
        data.reading.refuse("a step changes a tensor from outside of the loop in place")
    if sum(alive() is not None for alive in data.memory) > 1:
        data.reading.refuse(SHARED)
    if data.term.on_tape and not modes.is_grad_enabled():
        data.reading.refuse("a change in place under no_grad() is not on the tape: make a new tensor")
    if data.term.name == "argument":
        raise RuntimeError(
            "in place: this is (a view of) a tensor that requires grad and was made by the user; its gradient would be "
            "lost. Change it under no_grad(), or work on a clone()"
        )


def assign_result(x, y):
    """x gets the term of the result."""
    before, data = x._data, y._data
    if isinstance(before, SymbolicData):
        check_in_place(x)
    elif x._base is not None or sys.getrefcount(before if before.base is None else before.base) > 3:
        data.reading.refuse(SHARED)
    if not isinstance(data, SymbolicData):
        data = SymbolicData(before.reading, Term("same", data.copy()), data.shape, data.dtype)
    if (
        len(before.shape) != len(data.shape)
        or not all(map(fits, before.shape, data.shape))
        or before.dtype != data.dtype
    ):
        data.reading.refuse("a change in place to another shape or dtype: write y = f(x) for x.f_()")
    if data.reading.open_loops and not isinstance(before, SymbolicData):
        data.reading.refuse("a step changes a tensor from outside of the loop in place")
    if not isinstance(before, SymbolicData):
        data.reading.written.append((x, before, type(x), where()))
    x._data, x.__class__ = data, SymbolicTensor
    x._version.count += 1
    return x


def atan2(y, x):
    return _whole_atan2(y, x)  # noqa: F821


def power_of_length(x, p):
    return _whole_power_of_length(x, p)  # noqa: F821


SHARED = (
    "a tensor that is changed in place, in a way that can't be followed; make a new tensor (y = y * 2, tt.where, "
    "tt.cat) in place of changing a part of one"
)
EVERYWHERE = {  # replaced in each module of the engine that has them
    promotion.broadcast_shape: broadcast,
    promotion.by_formula: lambda *args: dispatch(*args)._data,
    number_arrays.number_array: lambda value, dtype: None,
    core_dispatch.host: host,
    index.part_at_once: part_at_once,
    arguments.whole_number: whole_number,
    arguments.to_0d_array: to_0d_array,
    shape._infer: infer,
    creation._new: new,
    shape._exchanged: exchanged,
    shape._unflattened: unflattened,
    creation._shape: shape_of,
    creation._zeros: general_zeros,
    creation.with_own_dtype: lambda array: array,
    grad: lambda *args, **keywords: reading_of(args).refuse("the tape is used inside of the function"),
    core_in_place.check_in_place: check_in_place,
    core_in_place.assign_result: assign_result,
}
NUMPY = (creation, shape, functional, fused, products, indexing, index, in_place, losses, reduce)


def asked_by_user() -> bool:
    """Does the user's code call the function that calls this one, or the public function around that?"""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == argument_errors.__file__:
        frame = frame.f_back
    return is_users(frame.f_code.co_filename)


def finite(answer: bool):
    """math.isfinite() or isinf() of a size; of a real number of sizes it is known where the engine asks."""

    def function(x):
        if type(x) is SymFloat and is_users(sys._getframe(2).f_code.co_filename):
            x.reading.refuse(f"is {x.expr} finite?")
        return answer

    return function


def if_symbolic(original, replacement):
    @functools.wraps(original)
    def chosen(*args, **kwargs):
        symbolic = reading_of((*args, *kwargs.values())) is not None
        return (replacement if symbolic else original)(*args, **kwargs)

    return chosen


_lock = ThreadLock(reentrant=True)  # the engine is that of the whole process


@contextmanager
def engine_for_sizes(reading) -> Iterator[None]:
    """The engine with these changes; and len(), range(), math.sqrt() that know sizes."""
    undo = []

    def put(owner, name, value):
        undo.append((owner, name, vars(owner).get(name, undo) if name != "__code__" else owner.__code__))
        setattr(owner, name, value)

    def drawn(what, generator):
        reading.refuse(f"{what}: random numbers are no function of the arguments")

    with _lock.lock:
        try:
            _replace(reading, put, undo)
            with observe(on_random=drawn):
                yield
        finally:
            for owner, name, value in reversed(undo):
                delattr(owner, name) if value is undo else setattr(owner, name, value)


def _replace(reading, put: Callable, undo: list) -> None:
    """Put each replacement in; `undo` has what stood there."""
    thread = threading.get_ident()

    def in_reading() -> bool:
        """Is this the thread that reads? Others compute as before."""
        return threading.get_ident() == thread

    engine = [m for n, m in list(sys.modules.items()) if n.startswith("tinytensor") and isinstance(m, types.ModuleType)]
    replaced = {id(original): if_symbolic(original, new) for original, new in EVERYWHERE.items()}
    owners = [*engine, *Tensor.__mro__[:-1]]
    for module, name, value in [(m, n, v) for m in owners for n, v in list(vars(m).items()) if id(v) in replaced]:
        put(module, name, replaced[id(value)])
    for original in (pointwise.atan2, reduce.power_of_length):  # several operations, read as one
        plain = types.FunctionType(original.__code__, original.__globals__)
        name = original.__name__
        put(sys.modules[original.__module__], f"_whole_{name}", if_symbolic(plain, as_composed(name)))
    put(in_place, "part_at_once", if_symbolic(in_place.part_at_once, part_to_change))
    bodies = {
        shape.squeeze: squeeze,
        shape.expand: expand,
        pointwise.atan2: atan2,
        reduce.power_of_length: power_of_length,
    }
    for original, body in bodies.items():
        put(original, "__code__", body.__code__)
    put(shape, "may_expand", may_expand)
    for module in NUMPY:
        put(module, "np", SymbolicNumpy(reading))
    for module in (creation, shape):
        put(module, "int", Whole)
    # pinv() asks for the larger size only to set a tolerance.
    larger = lambda sizes: sum(sizes) if reading_of(sizes) else max(sizes)  # noqa: E731
    put(matrices, "builtins", types.SimpleNamespace(**vars(builtins) | {"max": larger}))
    put(matrices, "float", lambda x: x if type(x) is SymFloat else float(x))
    for name in ("sqrt", "exp", "log"):
        real = lambda *x, name=name: SymFloat(getattr(sympy, name)(*map(formula_of, x)), reading)  # noqa: E731
        put(math, name, if_symbolic(getattr(math, name), real))
    for name, answer in {"isfinite": True, "isinf": False}.items():
        put(math, name, if_symbolic(getattr(math, name), finite(answer)))
    for op in OPS.values():
        put(op, "quick", if_symbolic(op.quick, lambda *args, op=op, into=None: dispatch(op, args, into)))
    plain, plain_len = late_bound.on_shapes, len
    put(late_bound, "on_shapes", lambda op, args, into=None: (dispatch if reading_of(args) else plain)(op, args, into))
    put(Tensor, "of", staticmethod(tensor_of))
    plain_apply = vars(Function)["apply"]

    def apply(function, *args, **keywords):
        if in_reading():
            reading.refuse("a Function has a gradient of its own: check() it by itself")
        return plain_apply.__get__(None, function)(*args, **keywords)

    def grad_enabled() -> bool:
        return (
            modes.is_grad_enabled()
            if not in_reading()
            else reading.refuse("the code asks whether gradients are wanted")
        )

    put(Function, "apply", classmethod(apply))
    for module in engine:
        if module is not modes and "is_grad_enabled" in vars(module):
            put(module, "is_grad_enabled", grad_enabled)

    def length(x, /):
        return x.shape[0] if isinstance(x, Tensor) and reading_of(x) and x.ndim else plain_len(x)

    for name, value in {
        "len": length,
        "range": range_type(range),
        "enumerate": enumerate_type(enumerate),
        "reversed": reversed_type(reversed),
        "sum": sum_type(sum, reading),
        "zip": of_each(zip, lambda t, items: tuple(items)),
    }.items():
        put(builtins, name, value)

    def built(*args):
        """Kernels are compiled with Python's own functions."""
        own = {name: value for owner, name, value in undo if owner is builtins}
        ours = {name: getattr(builtins, name) for name in own}
        vars(builtins).update(own)
        try:
            return plain_build(*args)
        finally:
            vars(builtins).update(ours)

    plain_build = entry_points.build
    put(runtime_kernel, "build", built)

    def default_dtype():
        if in_reading() and asked_by_user():
            reading.values["float64"] = None
        return dtypes.get_default_dtype()

    for module in [m for m in engine if m is not dtypes and "get_default_dtype" in vars(m)]:
        put(module, "get_default_dtype", default_dtype)
    dtype_of = Tensor.dtype

    def dtype(x):
        if x._data.dtype.kind == "f" and in_reading() and asked_by_user():
            reading.values["float64"] = None
        return dtype_of.fget(x)

    for owner in [c for c in Tensor.__mro__ if vars(c).get("dtype") is dtype_of]:
        put(owner, "dtype", property(dtype))

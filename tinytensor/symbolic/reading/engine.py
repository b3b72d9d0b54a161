"""What stands in while a function is read: the engine's questions, and Python's functions that know sizes.

The engine's own code asks `state.reading`, an object of the class Backend: it answers where an argument has a size or
no values, and returns None or False elsewhere. len(), range(), sum(), math.sqrt() ... are those of the whole process,
and are put in for the time of a reading, while no thread compiles. What is compiled meanwhile, by any thread, gets
Python's own.
"""

import builtins
import functools
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType

import numpy as np
import sympy

from tinytensor.core import tensor_values
from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import get_default_dtype, int64
from tinytensor.core.observers import observe
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.tensor import Tensor
from tinytensor.native.platform.locks import ThreadLock
from tinytensor.native.runtime.compiler import around_compilations, compiling, global_compiler_lock
from tinytensor.ops import argument_errors, arguments, index, shape
from tinytensor.ops.keys import parse_index
from tinytensor.symbolic.reading.language import STAND_INS
from tinytensor.symbolic.reading.loops import CarriedNumber, Collected, Range, enumerate_type, of_each, sum_type
from tinytensor.symbolic.reading.rounding import jumps
from tinytensor.symbolic.reading.sizes import SymFloat, SymInt, asked_by_user, check_domain, formula_of, where
from tinytensor.symbolic.reading.tensors import (
    SHARED,
    SymbolicData,
    SymbolicTensor,
    Term,
    as_term,
    cut,
    dispatch,
    inside,
    reading_of,
    span_of,
    taped,
    tensor_of,
)

CONSTANTS = {  # arrays of constants: the shape, the numbers, and the range of whole numbers
    np.eye: lambda n, m: ((n, m), (), (0, 1)),
    np.tri: lambda n, m, k: ((n, m), (k,), (0, 1)),
    np.arange: lambda n: ((n,), (), (0, n - 1)),
    np.linspace: lambda start, end, n: ((n,), (start, end), None),
}


class Backend:
    """The answers to the engine's questions while a function is read."""

    def __init__(self, reading):
        self.refuse, self.values, self.reading = reading.refuse, reading.values, reading

    def run(self, op, args: tuple):
        """An operation; slices are brought to their normal form."""
        if reading_of(args) is None:
            if op.dtype == "bool" or jumps(op.name, args):
                self.note_read(*[a for a in args if isinstance(a, Tensor)])
            return None
        if op is shape.slice_op:
            args = args[0], cut(args[0], parse_index(*args).view)
        result = dispatch(op, args)
        if isinstance(result, Tensor) and {type(a) for a in args if isinstance(a, Tensor)} == {CarriedNumber}:
            result.__class__ = CarriedNumber
        return result

    def whole(self, name: str, *args):
        """A function of several operations, which is read as one by a formula of its own."""
        if (reading := reading_of(args)) is None:
            return None
        sizes = broadcast_shape(name, *[a.shape for a in args if isinstance(a, Tensor)], ())
        dtype = next(a._data.dtype for a in args if isinstance(a, Tensor) and a._data.dtype.kind == "f")
        term = taped(reading, Term(name, *map(as_term, args), reading=reading))
        return tensor_of(SymbolicData(reading, term, sizes, dtype))

    def host(self, function: Callable, args: tuple) -> bool:
        """A look at values: the range of an Index decides, a condition on values is recorded, others are refused."""
        if reading_of(args) is None:
            return False
        if function is arguments._refuse_others_than_probabilities:
            self.values["probability"] = None
        elif function is not index.check_range or (args[3] if len(args) > 3 else 0) > 0:
            self.refuse(f"{function.__name__} needs the values of a tensor")
        elif not inside(args[0], args[1]):
            self.refuse(f"{args[2]}: an index of unknown range; give it as an Index")
        return True

    def note_read(self, *constants: Tensor) -> None:
        """Numbers are read, or compared: those of floats may differ between dtypes."""
        if any(x._data.dtype.kind == "f" for x in constants):
            self.note_precision()

    def note_precision(self) -> None:
        """The result depends on the dtype of floats."""
        self.values["float64"] = None

    # --- Constants

    def number(self, value, dtype) -> SymbolicData | None:
        """A number of sizes as a 0-d array."""
        if type(value) not in (SymInt, SymFloat):
            return None
        natural = int64 if type(value) is SymInt else get_default_dtype()
        dtype = dtype or natural
        exact = dtype if dtype.kind == "f" else natural
        y = tensor_of(SymbolicData(self.reading, Term("full", (), value), (), exact, span_of(value)))
        return y._data if exact == dtype else shape.cast(y, dtype)._data  # 2 is 1 as a truth value, 0.5 is 0 in int64

    def tensor(self, data, dtype) -> Tensor | None:
        """A number, or an array of constants, as a tensor."""
        if (y := self.number(data, dtype)) is not None:
            return tensor_of(y)
        if isinstance(data, SymbolicData):
            return tensor_of(data if dtype is None or dtype == data.dtype else data.astype(dtype))
        return None if reading_of(data) is None else self.refuse("a list of sizes as a tensor: use stack()")

    def constants(self, make: Callable, settings: tuple, dtype) -> SymbolicData | None:
        """An array of constants, such as make = np.eye."""
        if reading_of(settings) is None:
            return None
        sizes, numbers, span = CONSTANTS[make](*settings)
        dtype = dtype or (int64 if make is np.arange else float)
        return SymbolicData(self.reading, Term(make.__name__, sizes, *numbers), sizes, dtype, span)

    def full(self, what: str, sizes: tuple, dtype, fill) -> Tensor | None:
        """zeros, ones, full ...: `fill` copies a number into an array."""
        if reading_of((*sizes, *getattr(fill, "args", ()))) is None:
            return None
        if not isinstance(fill, functools.partial):
            self.refuse(f"{what}: its values or sizes are no function of the arguments")
        (value,) = fill.args
        term = Term("full", sizes, as_term(getattr(value, "term", value)))
        return tensor_of(SymbolicData(self.reading, term, sizes, dtype, span_of(value)))

    # --- Parts, and changes in place

    def part(self, x: Tensor, key) -> Tensor | None:
        """x[key]: a view, and then the entries at index tensors; masks are refused."""
        if reading_of((x, key)) is None:
            return None
        view, indices, dims = parse_index(x, key)
        y = x if all(part == slice(None) for part in view) else shape.slice_op(x, view)
        if not indices:
            return y
        d, end = dims[0], dims[0] + len(dims)
        if dims != (*range(d, end),):  # x[arange(N), :, t]
            self.refuse("a key of index tensors that are apart")
        for n, data in zip(y.shape[d:], indices, strict=False):
            self.host(index.check_range, (data, n, "indexing"))
        sizes = (*y.shape[:d], *broadcast_shape("indexing", *[data.shape for data in indices]), *y.shape[end:])
        term = Term("entries", as_term(y), d, *map(as_term, map(tensor_of, indices)), reading=self.reading)
        return tensor_of(SymbolicData(self.reading, taped(self.reading, term), sizes, y._data.dtype, span_of(y)))

    def check_part(self, x: Tensor, part: Tensor | None) -> None:
        """Refuse x[key] = value where x[key] is no view, but rows that an index tensor takes."""
        if isinstance(part, SymbolicTensor) and part._data.memory is not getattr(x._data, "memory", None):
            self.refuse(SHARED)

    def check_in_place(self, x: Tensor) -> bool:
        """Refuse a change of memory that other tensors share."""
        data = x._data
        if not isinstance(data, SymbolicData):
            return False
        if self.reading.open_loops and data.term.inside is not self.reading.open_loops[-1]:
            self.refuse("a step changes a tensor from outside of the loop in place")
        if sum(alive() is not None for alive in data.memory) > 1:
            self.refuse(SHARED)
        if data.term.on_tape and not state.grad:
            self.refuse("a change in place under no_grad() is not on the tape: make a new tensor")
        if data.term.name == "argument":
            raise RuntimeError(
                "in place: this is (a view of) a tensor that requires grad and was made by the user; its gradient "
                "would be lost. Change it under no_grad(), or work on a clone()"
            )
        return True

    def assign_result(self, x: Tensor, y: Tensor) -> bool:
        """x gets the term of the result."""
        before, data = x._data, y._data
        known = not isinstance(before, SymbolicData)
        if known and self.reading.open_loops:
            self.refuse("a step changes numbers in place")
        if reading_of((x, y)) is None:
            return False
        self.check_in_place(x)
        # what shares memory with an array of numbers is not known, but for the number of references to it
        if known and (x._base is not None or sys.getrefcount(before if before.base is None else before.base) > 3):
            self.refuse(SHARED)
        if not isinstance(data, SymbolicData):
            data = SymbolicData(self.reading, Term("same", data.copy()), data.shape, data.dtype)
        if before.shape != data.shape or before.dtype != data.dtype:
            self.refuse("a change in place to another shape or dtype: write y = f(x) for x.f_()")
        if known:
            self.reading.written.append((x, before, type(x), where()))
        x._data, x.__class__ = data, SymbolicTensor
        x._version.count += 1
        return True


# --- Python's functions


PUBLIC = argument_errors.__file__, tensor_values.__file__  # functions around those of the engine


_lock = ThreadLock(reentrant=True)  # one reading at a time


def put(values: list[tuple]) -> None:
    """Set attributes."""
    for owner, name, value in values:
        setattr(owner, name, value)


@contextmanager
def functions_for_sizes(reading) -> Iterator[None]:
    """Inside, this thread reads: the engine asks `state.reading`, and len(), range(), math.sqrt() know sizes."""
    thread, plain_len, plain_dtype = threading.get_ident(), len, Tensor.dtype

    def drawn(what: str, generator) -> None:
        reading.refuse(f"{what}: random numbers are no function of the arguments")

    def length(x, /):
        if type(x) is Collected:
            return x.count
        return x.shape[0] if isinstance(x, Tensor) and reading_of(x) and x.ndim else plain_len(x)

    def dtype(x):
        if x._data.dtype.kind == "f" and threading.get_ident() == thread and asked_by_user(PUBLIC):
            reading.values["float64"] = None
            states = [state.tensor for loop in reading.open_loops for state in loop.states.values()]
            if CarriedNumber in map(type, states):
                reading.refuse("a step asks for a dtype, which may be another one in the first step")
        return plain_dtype.fget(x)

    def real(name: str) -> Callable:
        """sqrt(), exp() or log() of a size as a formula."""

        def formula(*x):
            if reading_of(x) is None:
                return plain(*x)
            for n in x if name != "exp" else ():
                check_domain(n, "root" if name == "sqrt" else "logarithm")
            if name == "exp":
                reading.values["overflow"] = None
            return SymFloat(getattr(sympy, name)(*map(formula_of, x)), reading)

        plain = getattr(math, name)
        return formula

    replaced = [
        (builtins, "len", length),
        (builtins, "range", Range),
        (builtins, "enumerate", enumerate_type(enumerate)),
        (builtins, "sum", sum_type(sum, reading)),
        (builtins, "zip", of_each(zip, lambda t, items: tuple(items))),
        *[(math, name, real(name)) for name in ("sqrt", "exp", "log")],
        (Tensor, "of", staticmethod(tensor_of)),
        (next(c for c in Tensor.__mro__ if "dtype" in vars(c)), "dtype", property(dtype)),
    ]
    STAND_INS.update(value for *_, value in replaced if isinstance(value, type | FunctionType))
    plain = [(owner, name, vars(owner)[name]) for owner, name, _ in replaced]
    with _lock.lock:
        try:
            with compiling, global_compiler_lock:  # a compilation of another thread ends first
                put(replaced)
            backend = Backend(reading)
            with (
                observe(reading=backend, on_random=drawn, on_read=lambda _, x: backend.note_read(x)),
                around_compilations(lambda: put(plain), lambda: put(replaced)),
            ):
                yield
        finally:
            with compiling, global_compiler_lock:
                put(plain)

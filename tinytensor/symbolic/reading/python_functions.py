"""Python's own functions while a function is read: len(), range(), sum(), math.sqrt() ... that know sizes.

They are those of the whole process, and are put in for the time of a reading, while no thread compiles. A kernel that
is compiled meanwhile, by any thread, gets Python's own.
"""

import builtins
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sympy

from tinytensor.core.observers import observe
from tinytensor.core.tensor import Tensor
from tinytensor.ops import argument_errors
from tinytensor.platform.locks import ThreadLock
from tinytensor.runtime import entry_points
from tinytensor.runtime import kernel as runtime_kernel
from tinytensor.runtime.compiler import compiling, global_compiler_lock
from tinytensor.symbolic.reading.engine import Backend
from tinytensor.symbolic.reading.loops import as_tensor, enumerate_type, of_each, range_type, reversed_type, sum_type
from tinytensor.symbolic.reading.sizes import SymFloat, formula_of, is_users
from tinytensor.symbolic.reading.tensors import reading_of, tensor_of


def asked_by_user() -> bool:
    """Does the user's code call the function that calls this one, or the public function around that?"""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == argument_errors.__file__:
        frame = frame.f_back
    return is_users(frame.f_code.co_filename)


def if_symbolic(original: Callable, replacement: Callable) -> Callable:
    return lambda *args: (original if reading_of(args) is None else replacement)(*args)


def finite(answer: bool) -> Callable:
    """math.isfinite() or isinf() of a size; of a real number of sizes it is known where the engine asks."""

    def function(x):
        if type(x) is SymFloat and is_users(sys._getframe(2).f_code.co_filename):
            x.reading.refuse(f"is {x.expr} finite?")
        return answer

    return function


_lock = ThreadLock(reentrant=True)  # one reading at a time


def put(values: list[tuple]) -> None:
    """Set attributes; a compilation of another thread ends first."""
    with compiling, global_compiler_lock:
        for owner, name, value in values:
            setattr(owner, name, value)


@contextmanager
def functions_for_sizes(reading) -> Iterator[None]:
    """Inside, this thread reads: the engine asks `state.reading`, and len(), range(), math.sqrt() know sizes."""
    thread, plain_len, plain_build, plain_dtype = threading.get_ident(), len, entry_points.build, Tensor.dtype

    def drawn(what: str, generator) -> None:
        reading.refuse(f"{what}: random numbers are no function of the arguments")

    def length(x, /):
        x = as_tensor(x)
        return x.shape[0] if isinstance(x, Tensor) and reading_of(x) and x.ndim else plain_len(x)

    def dtype(x):
        if x._data.dtype.kind == "f" and threading.get_ident() == thread and asked_by_user():
            reading.values["float64"] = None
        return plain_dtype.fget(x)

    def built(*args):
        """Kernels are compiled with Python's own functions."""
        put(plain)
        try:
            return plain_build(*args)
        finally:
            put(replaced)

    def real(name: str) -> Callable:
        """sqrt(), exp() or log() of a size as a formula."""
        formula = lambda *x: SymFloat(getattr(sympy, name)(*map(formula_of, x)), reading)  # noqa: E731
        return if_symbolic(getattr(math, name), formula)

    replaced = [
        (builtins, "len", length),
        (builtins, "range", range_type(range)),
        (builtins, "enumerate", enumerate_type(enumerate)),
        (builtins, "reversed", reversed_type(reversed)),
        (builtins, "sum", sum_type(sum, reading)),
        (builtins, "zip", of_each(zip, lambda t, items: tuple(items))),
        *[(math, name, real(name)) for name in ("sqrt", "exp", "log")],
        (math, "isfinite", if_symbolic(math.isfinite, finite(True))),
        (math, "isinf", if_symbolic(math.isinf, finite(False))),
        (runtime_kernel, "build", built),
        (Tensor, "of", staticmethod(tensor_of)),
        (next(c for c in Tensor.__mro__ if "dtype" in vars(c)), "dtype", property(dtype)),
    ]
    plain = [(owner, name, vars(owner)[name]) for owner, name, _ in replaced]
    with _lock.lock:
        try:
            put(replaced)
            with observe(reading=Backend(reading), on_random=drawn):
                yield
        finally:
            put(plain)

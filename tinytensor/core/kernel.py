"""Kernels: a kernel computes arrays from arrays. Here it is Python's source; the native backend has its machine code.

A kernel is `name(*inputs, *settings, *outputs)`. It gets its outputs instead of returning them, and allocates nothing:
the caller decides where results lie, so a recording can run the same launch again on the same memory. Three forms
exist. A `Definition` is a function of core/reference.py. `@elementwise` takes a formula between scalars, and the loop
around it (broadcasting, strides, 0-d and empty arrays) is the same for all formulas. `@kernel` takes a serial loop over
one task's share of whole arrays, which gets `task` and `tasks` after its arguments; it knows nothing of threads.

**Every size and index that a kernel uses was checked against the very arrays it gets, in the same launch.** So a kernel
declares its arrays' sizes, "x[R, D], y[R, D]", which are checked before each launch (`shape_checks.py`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tinytensor.core.shape_checks import checker

OBJECT = np.dtype(object)  # the dtype of exact scalars; every such tensor has this very object, so `is` may compare it

# Never fastmath=True: it lets LLVM assume that there are no NaNs, and isnan(nan) becomes False.
# "reassoc" lets a sum along a row be vectorised. It stays off where the bits of one row of the
# result must not depend on how rows are blocked (matmul, linear).
FAST = frozenset({"contract", "reassoc", "nsz"})
EXACT_ORDER = frozenset({"contract", "nsz"})

KERNELS: dict[str, "Kernel"] = {}  # the table of all kernels; the tests walk it

GRAIN = 2000  # nanoseconds of work that are worth a task of their own: each task costs some 100 more
MOST_TASKS = 32


class Launch(NamedTuple):
    """A kernel with its arguments, in the form that native code takes."""

    entry: int  # the address of the machine code
    buffer: np.ndarray | None  # the packed arguments, int64 words
    tasks: int
    args: tuple  # addresses in the buffer keep no array alive: the arrays could be freed before the kernel runs


def is_ours(function: Callable) -> bool:
    """Does tinytensor itself declare the function? Tables and fast paths leave out a user's kernels and operations."""
    return function.__module__.partition(".")[0] == "tinytensor"


def by_name(declared: Any) -> str:
    """`__reduce__` of what a declaration makes: pickle writes its name, as it does for a function."""
    return declared.__qualname__


def exact(args: tuple) -> bool:
    """Does an array hold exact scalars? One is enough: Python's source works on any mixture of numbers.

    This compares `dtype.kind`, since the dtype of a user's own launch may equal OBJECT without being OBJECT.
    """
    return any(arg.__class__ is np.ndarray and arg.dtype.kind == "O" for arg in args)


def num_tasks(nanoseconds: int, units: int) -> int:
    """The number of tasks for this many nanoseconds of work in this many separable units.

    The number of tasks depends on shapes only, so results do not depend on the number of threads. (Each task of a sum
    adds up its own part, and floating-point addition is not associative.) It is a power of two if there are enough
    units: on two threads, three tasks take as long as four.
    """
    return max(1, min(1 << min(int(nanoseconds) // GRAIN, MOST_TASKS).bit_length() >> 1, units))


def task_range(n, task, tasks):
    """(first, end) of the task's equal share of n items.

    One formula computes the end of a range and the start of the next, so each item is in exactly one range, in spite of
    rounding: 10 items make 3, 3 and 4 for three tasks.
    """
    return (n * task // tasks, n * (task + 1) // tasks) if tasks > 1 else (0, n)  # a division takes nanoseconds


class Kernel:
    """A named kernel: call it with arrays; `py_func` is its Python source."""

    __reduce__ = by_name
    names: tuple[str, ...]  # its parameters
    plan: Callable | None = (
        None  # called instead, with the arguments: it makes the launches (native/kernels/launches.py)
    )

    def __init__(self, py_func: Callable):
        self.py_func = py_func
        self.name = py_func.__name__
        self.__doc__, self.__module__, self.__qualname__ = py_func.__doc__, py_func.__module__, py_func.__qualname__
        if is_ours(py_func):
            if self.name in KERNELS:
                raise ValueError(f"kernel {self.name}: the name is taken by {KERNELS[self.name].py_func.__module__}")
            KERNELS[self.name] = self

    def __repr__(self):
        return f"<kernel {self.name}>"

    def __call__(self, *args):
        """Run all tasks of the kernel now."""
        self.run_now(args)

    def run_now(self, args: tuple) -> None:
        """Run all tasks of the kernel now, on these arguments."""
        self.interpret(*args)

    def prepare(self, args: tuple) -> Launch:
        """A launch of these arguments, which may run many times."""
        return Launch(0, None, 1, args)

    def run(self, launch: Launch) -> None:
        """Run all tasks of a launch."""
        self.interpret(*launch.args)

    def interpret(self, *args) -> None:
        """Run the Python source."""
        raise NotImplementedError


class Elementwise(Kernel):
    """y[...] = f(a[...], b[...], ...): `kernel(*inputs, *settings, y)`, each of them an array or a number."""

    def __init__(self, py_func: Callable):
        super().__init__(py_func)
        self.names = (*py_func.__code__.co_varnames[: py_func.__code__.co_argcount], "y")

    def interpret(self, *args) -> None:
        y = args[-1]
        with np.errstate(all="ignore"):  # on NumPy's scalars, since Python's own floats raise at a division by zero
            for at, values in zip(np.ndindex(y.shape), np.broadcast(*args), strict=True):
                y[at] = self.py_func(*values[:-1])


class Loop(Kernel):
    """A loop over one task's share of whole arrays. Arrays are C-contiguous except those named in `strided`."""

    def __init__(self, py_func: Callable, shapes: str, tasks: Callable | None, fastmath: frozenset, strided: tuple):
        super().__init__(py_func)
        names = py_func.__code__.co_varnames[: py_func.__code__.co_argcount]
        self.takes_tasks = names[-2:] == ("task", "tasks")  # does the loop take its share?
        if tasks is not None and not self.takes_tasks:
            raise TypeError(f"kernel {self.name}: the last two parameters must be task and tasks, not {names[-2:]}")
        names = names[:-2] if self.takes_tasks else names
        unknown = set(strided) - set(names)
        if unknown:
            raise ValueError(f"kernel {self.name}: strided names {unknown}, which are not parameters")
        # One entry for each parameter, since `prepare` goes through arguments by place: names would be slower.
        self.names, self.strided = names, tuple(name in strided for name in names)
        self.shapes, self.check = shapes, checker(self.name, names, shapes, py_func.__globals__)
        self.tasks, self.divisible = tasks or (lambda *args: 1), tasks is not None

    def shares(self, args: tuple) -> list[tuple[int, ...]]:
        """The last arguments of the source in each task's call: (task, tasks), or none."""
        tasks = self.tasks(*args)
        return [(task, tasks) for task in range(tasks)] if self.takes_tasks else [()]

    def interpret(self, *args) -> None:
        self.check(args)
        with np.errstate(all="ignore"):  # compiled code does not warn either
            for part in self.shares(args):
                self.py_func(*args, *part)


class Definition(Kernel):
    """A function that returns the outputs by the names of their parameters (core/reference.py)."""

    def __init__(self, py_func: Callable, shapes: str, names: tuple[str, ...]):
        super().__init__(py_func)
        self.names = names
        self.check = checker(self.name, names, shapes, py_func.__globals__)

    def interpret(self, *args) -> None:
        self.check(args)
        with np.errstate(all="ignore"):
            for name, value in self.py_func(*args).items():
                args[self.names.index(name)][...] = value

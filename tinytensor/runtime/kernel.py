"""Kernels: a kernel is a plain Python loop with its native build; proofs and debuggers run its Python source.

A kernel is a serial loop over one task's share of the work: `name(*inputs, *settings, *outputs, *saved, *scratch, task,
tasks)`. It gets its outputs instead of returning them, and allocates nothing: the caller decides where results lie, so
a recording can run the same launch again on the same memory. It knows nothing of threads; the driver decides which
thread takes which task. Two forms exist. `@elementwise` takes a formula between scalars, and the loop around it
(broadcasting, strides, 0-d and empty arrays) is the same for all formulas. `@kernel` takes a loop over whole arrays.

The Python function is kept beside the build, as `py_func`. A debugger steps through it (NUMBA_DISABLE_JIT=1), and a
proof runs it over exact scalars: so a proof is about the very source that was compiled, not a copy of it.

**Every size and index that a kernel uses was checked against the very arrays it gets, in the same launch.** Compiled
code does no bounds checks, and would read or corrupt adjacent memory. So a kernel declares its arrays' sizes, "x[R, D],
y[R, D]", which are checked before each launch (`shape_checks.py`); its loop checks numbers that it reads from arrays.

Every compiled kernel has the same signature, `entry(buffer, task, tasks)`. The buffer holds the packed arguments
(`entry_points.py`, `launch_args.py`). So a launch is three integers: an address, a buffer and a number of tasks. Native
code can run a list of them without Python, whatever the kernels are; this makes a replay fast. Eager mode runs the same
machine code on buffers of the same layout, so both give the same bits.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import config

from tinytensor.runtime import scheduler
from tinytensor.runtime.compiler import compiling, inlined
from tinytensor.runtime.entry_points import (
    EntryPoint,
    NoBuild,
    build,
    by_name,
    elementwise_entry_point,
    exact,
    is_ours,
    loop_entry_point,
)
from tinytensor.runtime.launch_args import ElementwiseArgs, LoopArgs
from tinytensor.runtime.shape_checks import checker

# Never fastmath=True: it lets LLVM assume that there are no NaNs, and isnan(nan) becomes False.
# "reassoc" lets a sum along a row be vectorised. It stays off where the bits of one row of the
# result must not depend on how rows are blocked (matmul, linear).
FAST = frozenset({"contract", "reassoc", "nsz"})
EXACT_ORDER = frozenset({"contract", "nsz"})

KERNELS: dict[str, "Kernel"] = {}  # the table of all kernels; the tests walk it

GRAIN = 2000  # nanoseconds of work that are worth a task of their own: each task costs some 100 more
MOST_TASKS = 32
FEW = 3  # nearly all formulas have at most this many operands
NANOSECONDS = 1  # the time of a formula for one element, about


class Launch(NamedTuple):
    """A kernel with its arguments, in the form that native code takes."""

    entry: int  # the address of the machine code
    buffer: np.ndarray  # the packed arguments, int64 words
    tasks: int
    args: tuple  # addresses in the buffer keep no array alive: the arrays could be freed before the kernel runs


def num_tasks(nanoseconds: int, units: int) -> int:
    """The number of tasks for this many nanoseconds of work in this many separable units.

    The number of tasks depends on shapes only, so results do not depend on the number of threads. (Each task of a sum
    adds up its own part, and floating-point addition is not associative.) It is a power of two if there are enough
    units: on two threads, three tasks take as long as four.
    """
    return max(1, min(1 << min(int(nanoseconds) // GRAIN, MOST_TASKS).bit_length() >> 1, units))


def device_function(py_func: Callable) -> Callable:
    """Declare a small function that kernels call; it computes in the order of its source.

    It is inlined into each kernel that calls it (`inlined` says why). Python calls it as a plain function.
    """
    return inlined(py_func, EXACT_ORDER)


def reassoc_device_function(py_func: Callable) -> Callable:
    """Declare a device function whose sums may be reordered: registers of terms first, then the lanes."""
    return inlined(py_func, FAST)


@device_function
def task_range(n, task, tasks):
    """(first, end) of the task's equal share of n items.

    One formula computes the end of a range and the start of the next, so each item is in exactly one range, in spite of
    rounding: 10 items make 3, 3 and 4 for three tasks.
    """
    return (n * task // tasks, n * (task + 1) // tasks) if tasks > 1 else (0, n)  # a division takes nanoseconds


class Kernel:
    """A named kernel: call it with arrays; `py_func` is its Python source."""

    __reduce__ = by_name

    def __init__(self, py_func: Callable, fastmath: frozenset):
        self.py_func, self.fastmath = py_func, fastmath
        self.name = py_func.__name__
        self.__doc__, self.__module__, self.__qualname__ = py_func.__doc__, py_func.__module__, py_func.__qualname__
        # By the types of the arguments: the address of a build, and the layout of the arguments in a buffer.
        self.entries: dict[tuple, tuple[int, Any]] = {}
        self.builds: list[object] = []  # keeps the builds, and with them their machine code, alive
        if is_ours(py_func):
            if self.name in KERNELS:
                raise ValueError(f"kernel {self.name}: the name is taken by {KERNELS[self.name].py_func.__module__}")
            KERNELS[self.name] = self

    def __repr__(self):
        return f"<kernel {self.name}>"

    def __call__(self, *args):
        """Run all tasks of the kernel now."""
        self.interpret(*args) if config.DISABLE_JIT else self.run_now(args)

    def run_now(self, args: tuple) -> None:
        """Run the native build, all of its tasks."""
        self.run(self.prepare(args))

    @staticmethod
    def run(launch: Launch) -> None:
        """Run all tasks of a launch."""
        size = sum([a.size for a in launch.args if a.__class__ is np.ndarray]) if launch.tasks > 1 else 0
        scheduler.run(launch.entry, launch.buffer, launch.tasks, size)

    def prepare(self, args: tuple) -> Launch:
        """A launch of these arguments, checked and packed, which may run many times."""
        raise NotImplementedError

    def interpret(self, *args) -> None:
        """Run the Python source (NUMBA_DISABLE_JIT=1)."""
        raise NotImplementedError

    def _build(self, key: tuple, args: tuple, source: Callable[[], EntryPoint], layout: Callable) -> tuple[int, Any]:
        """Compile the build for arguments of these types; returns its address, and the layout of the arguments.

        The table is read again under the lock: another thread may have compiled this very build meanwhile.
        """
        if config.DISABLE_JIT or exact(args):
            raise NoBuild
        with compiling:
            if key not in self.entries:
                self.builds.append(build(self.name, self.fastmath, source()))
                self.entries[key] = self.builds[-1].address, layout()
            return self.entries[key]


class Elementwise(Kernel):
    """y[...] = f(a[...], b[...], ...): `kernel(*inputs, *settings, y)`, each of them an array or a number.

    Inputs of any strides are read where they lie, and broadcast without a copy: a dimension that an input lacks, or has
    once, gets the stride 0, so that each step along it comes to the same element again. No element of y depends on
    another, so the tasks may be any equal shares of y's elements.
    """

    def __init__(self, py_func: Callable):
        super().__init__(py_func, EXACT_ORDER)
        self.names = (*py_func.__code__.co_varnames[: py_func.__code__.co_argcount], "y")

    def _specialize(self, args: tuple) -> tuple[list[np.ndarray], tuple[int, ElementwiseArgs]]:
        """The operands as arrays, and their build. (Lists inside tuple(): a generator is slower for few elements.)"""
        # A number becomes an array without dimensions, so that it has an address. With many operands the key says which
        # were numbers: such a build reads them once, before the loops; with few operands one build serves both.
        arrays = [a if a.__class__ is np.ndarray else np.asarray(a) for a in args]
        key = tuple([a.dtype for a in arrays])
        if len(key) > FEW:
            key += tuple([a.__class__ is np.ndarray for a in args])
        build = self.entries.get(key)
        return arrays, build or self._build(key, args, lambda: self._source(key), lambda: ElementwiseArgs(arrays))

    def run_now(self, args: tuple) -> None:
        """Run the native build; a single task of few operands needs no buffer that outlives the call."""
        arrays, (entry, layout) = self._specialize(args)
        if len(args) > FEW or not layout.run(self.name, entry, arrays):
            super().run_now(args)

    def prepare(self, args: tuple) -> Launch:
        (*arrays, y), (entry, layout) = self._specialize(args)
        return Launch(
            entry, layout.pack(self.name, (*arrays, y)), num_tasks(y.size * NANOSECONDS, y.size), (*arrays, y)
        )

    def interpret(self, *args) -> None:
        y = args[-1]
        with np.errstate(all="ignore"):  # on NumPy's scalars, since Python's own floats raise at a division by zero
            for at, values in zip(np.ndindex(y.shape), np.broadcast(*args), strict=True):
                y[at] = self.py_func(*values[:-1])

    def _source(self, key: tuple) -> EntryPoint:
        """The source of the build: the loop around the formula."""
        n = len(self.names)
        operands = list(zip(key[:n], key[n:] or [True] * n, strict=True))
        scope = {"formula": inlined(self.py_func, self.fastmath), "task_range": task_range}
        return elementwise_entry_point(self.name, self.py_func, operands, scope)


class Loop(Kernel):
    """A loop over one task's share of whole arrays. Arrays are C-contiguous except those named in `strided`.

    There is a build for each combination of dtypes and numbers of dimensions, but not for each shape: sizes are read
    from the buffer, so that a longer sentence compiles nothing.
    """

    def __init__(self, py_func: Callable, shapes: str, tasks: Callable | None, fastmath: frozenset, strided: tuple):
        super().__init__(py_func, fastmath)
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

    def _specialize(self, args: tuple) -> tuple[int, LoopArgs]:
        """The build for arguments of these types; their sizes are checked first."""
        self.check(args)
        key = tuple([(a.dtype, a.ndim) if a.__class__ is np.ndarray else a.__class__ for a in args])
        return self.entries.get(key) or self._build(
            key,
            args,
            lambda: loop_entry_point(self.name, self.py_func, args, self.strided, self.takes_tasks),
            lambda: LoopArgs(self.names, self.strided, args),
        )

    def prepare(self, args: tuple) -> Launch:
        entry, layout = self._specialize(args)
        return Launch(entry, layout.pack(self.name, args), self.tasks(*args), args)

    def shares(self, args: tuple) -> list[tuple[int, ...]]:
        """The last arguments of the source in each task's call: (task, tasks), or none."""
        tasks = self.tasks(*args)
        return [(task, tasks) for task in range(tasks)] if self.takes_tasks else [()]

    def interpret(self, *args) -> None:
        self.check(args)
        with np.errstate(all="ignore"):  # compiled code does not warn either
            for part in self.shares(args):
                self.py_func(*args, *part)


def elementwise(py_func: Callable) -> Elementwise:
    """Declare a formula between scalars as a kernel."""
    return Elementwise(py_func)


def kernel(
    shapes: str = "", tasks: Callable | None = None, fastmath: frozenset = FAST, strided: tuple[str, ...] = ()
) -> Callable[[Callable], Loop]:
    """Declare a serial loop over one task's share of whole arrays as a kernel.

    `shapes` declares the sizes of the arrays (others are not checked). `tasks(*args)` is the number of tasks, by shapes
    and settings alone (see `num_tasks`); without it there is one task, and no parameters `task` and `tasks`. Tasks run
    in any order and at the same time: no two write the same element, and none reads an element that another writes.
    `strided` names the arrays that may have any strides (transposed, sliced, or broadcast with stride 0).
    """
    return lambda py_func: Loop(py_func, shapes, tasks, fastmath, strided)

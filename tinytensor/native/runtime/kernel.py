"""Native kernels: a kernel is a plain Python loop with its native build; proofs and debuggers run its Python source.

A kernel is a serial loop over one task's share of the work: `name(*inputs, *settings, *outputs, *saved, *scratch, task,
tasks)` (core/kernel.py). It knows nothing of threads; the driver decides which thread takes which task.

The Python function is kept beside the build, as `py_func`. A debugger steps through it (NUMBA_DISABLE_JIT=1), and a
proof runs it over exact scalars: so a proof is about the very source that was compiled, not a copy of it.

Compiled code does no bounds checks, and would read or corrupt adjacent memory. So each launch checks the sizes of its
arrays: those that core/reference.py states for the kernel of this name, and others that the kernel adds; its loop
checks numbers that it reads from arrays.

Every compiled kernel has the same signature, `entry(buffer, task, tasks)`. The buffer holds the packed arguments
(`entry_points.py`, `launch_args.py`). So a launch is three integers: an address, a buffer and a number of tasks. Native
code can run a list of them without Python, whatever the kernels are; this makes a replay fast. Eager mode runs the same
machine code on buffers of the same layout, so both give the same bits.
"""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import config

from tinytensor.core import kernel as core_kernel
from tinytensor.core.kernel import EXACT_ORDER, FAST, Kernel, Launch, exact, num_tasks
from tinytensor.core.reference import REFERENCE
from tinytensor.native.runtime import scheduler
from tinytensor.native.runtime.compiler import compiling, inlined
from tinytensor.native.runtime.entry_points import EntryPoint, NoBuild, build, elementwise_entry_point, loop_entry_point
from tinytensor.native.runtime.launch_args import ElementwiseArgs, LoopArgs

LOOPS = Path(__file__).parents[1] / "kernels"  # kernels of these files have reference kernels
FEW = 3  # nearly all formulas have at most this many operands
NANOSECONDS = 1  # the time of a formula for one element, about


def device_function(py_func: Callable) -> Callable:
    """Declare a small function that kernels call; it computes in the order of its source.

    It is inlined into each kernel that calls it (`inlined` says why). Python calls it as a plain function.
    """
    return inlined(py_func, EXACT_ORDER)


def reassoc_device_function(py_func: Callable) -> Callable:
    """Declare a device function whose sums may be reordered: registers of terms first, then the lanes."""
    return inlined(py_func, FAST)


task_range = device_function(core_kernel.task_range)


class Native(Kernel):
    """What native kernels have in common: their builds, by the types of the arguments."""

    def __init__(self, *declared):
        super().__init__(*declared)
        self.entries: dict[tuple, tuple[int, Any]] = {}  # the address of a build, and the layout of the arguments
        self.builds: list[object] = []  # keeps the builds, and with them their machine code, alive

    def __call__(self, *args):
        """Run all tasks of the kernel now."""
        self.interpret(*args) if config.DISABLE_JIT else self.run_now(args)

    def run_now(self, args: tuple) -> None:
        """Run the native build, all of its tasks."""
        self.run(self.prepare(args))

    def run(self, launch: Launch) -> None:
        """Run all tasks of a launch."""
        size = sum([a.size for a in launch.args if a.__class__ is np.ndarray]) if launch.tasks > 1 else 0
        scheduler.run(launch.entry, launch.buffer, launch.tasks, size)

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


class Elementwise(Native, core_kernel.Elementwise):
    """y[...] = f(a[...], b[...], ...): `kernel(*inputs, *settings, y)`, each of them an array or a number.

    Inputs of any strides are read where they lie, and broadcast without a copy: a dimension that an input lacks, or has
    once, gets the stride 0, so that each step along it comes to the same element again. No element of y depends on
    another, so the tasks may be any equal shares of y's elements.
    """

    fastmath = EXACT_ORDER

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

    def _source(self, key: tuple) -> EntryPoint:
        """The source of the build: the loop around the formula."""
        n = len(self.names)
        operands = list(zip(key[:n], key[n:] or [True] * n, strict=True))
        scope = {"formula": inlined(self.py_func, self.fastmath), "task_range": task_range}
        return elementwise_entry_point(self.name, self.py_func, operands, scope)


def join_shapes(stated: str, more: str, parameters: tuple[str, ...]) -> str:
    """A reference kernel's statement, as far as its arrays are among these parameters, and after it another one."""
    parts = ast.parse(f"({stated},)", mode="eval").body.elts
    kept = [p for p in parts if {n.id for n in ast.walk(p) if isinstance(n, ast.Name)} & {*parameters}]
    return ", ".join([*(ast.unparse(p) for p in kept), *filter(None, [more])])


class Loop(Native, core_kernel.Loop):
    """A loop over one task's share of whole arrays.

    There is a build for each combination of dtypes and numbers of dimensions, but not for each shape: sizes are read
    from the buffer, so that a longer sentence compiles nothing.
    """

    def __init__(self, py_func: Callable, shapes: str, tasks: Callable | None, fastmath: frozenset, strided: tuple):
        reference = REFERENCE.get(py_func.__name__)
        if reference is not None and Path(py_func.__code__.co_filename).parent == LOOPS:
            parameters = py_func.__code__.co_varnames[: py_func.__code__.co_argcount]
            shapes = join_shapes(reference.shapes, shapes, parameters)
        super().__init__(py_func, shapes, tasks, fastmath, strided)
        self.fastmath = fastmath

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


def elementwise(py_func: Callable) -> Elementwise:
    """Declare a formula between scalars as a kernel."""
    return Elementwise(py_func)


def kernel(
    shapes: str = "", tasks: Callable | None = None, fastmath: frozenset = FAST, strided: tuple[str, ...] = ()
) -> Callable[[Callable], Loop]:
    """Declare a loop as a native kernel, as core/backend.py's `kernel` does."""
    return lambda py_func: Loop(py_func, shapes, tasks, fastmath, strided)

"""The backend: the object that computes. `dispatch.py` calls it; no other file of the core knows which one it is.

`Backend` is the reference backend: it runs the definitions of core/reference.py and the Python source of formulas. The
native backend (native/runtime/native_backend.py) replaces it when it is imported, before any operation is declared; its
kernels stand in `kernels` then.
"""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from tinytensor.core.backend_choice import BACKEND
from tinytensor.core.kernel import EXACT_ORDER, FAST, Definition, Elementwise, Kernel, Loop
from tinytensor.core.reference import REFERENCE
from tinytensor.core.state import state


class Backend:
    """Computes with NumPy alone, slowly; `launch`, `empty`, `move`, `host` and `check` are those of dispatch.py."""

    Elementwise, Loop = Elementwise, Loop  # the forms of kernels that are declared by a formula, and by a loop
    compiles = False  # is there machine code, which tinytensor.compile makes a Program of?
    Program: type

    def launch(self, kernel: Kernel, args: tuple) -> None:
        if state.profile is not None:
            state.profile.launch(kernel, kernel.prepare(args))
        else:
            kernel.run_now(args)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.empty(shape, dtype)

    def move(self, x: np.ndarray, y: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            np.copyto(y, x, "unsafe")

    def host(self, function: Callable, args: tuple, undo: Callable | None) -> None:
        function(*args)

    def check(self, flag: np.ndarray, tell: Callable[[np.ndarray], None]) -> None:
        if flag[0]:
            flag[0] = 0
            tell(flag)

    def device_function(self, py_func: Callable, fastmath: frozenset) -> Callable:
        """A function that kernels call."""
        return py_func

    def same_memory(self, one: np.ndarray, other: np.ndarray) -> bool:
        """Do two arrays have the same elements in memory, in the same order?"""
        return one.__array_interface__ == other.__array_interface__

    threads_wanted = 1

    def set_num_threads(self, n: int) -> None:
        """Nothing: all runs on one thread."""

    def get_num_threads(self) -> int:
        return 1


current = Backend()
kernels = SimpleNamespace()  # the kernels that operations launch, by name
if BACKEND == "reference":
    vars(kernels).update({name: Definition(*declared) for name, declared in REFERENCE.items()})


def use(backend: Backend, of_backend: dict[str, Kernel]) -> None:
    """Let a backend compute from now on, with these kernels."""
    global current
    current = backend
    vars(kernels).update(of_backend)


def device_function(py_func: Callable) -> Callable:
    """Declare a small function that kernels call; it computes in the order of its source.

    It is inlined into each kernel that calls it. Python calls it as a plain function.
    """
    return current.device_function(py_func, EXACT_ORDER)


def elementwise(py_func: Callable) -> Elementwise:
    """Declare a formula between scalars as a kernel."""
    return current.Elementwise(py_func)


def kernel(
    shapes: str = "", tasks: Callable | None = None, fastmath: frozenset = FAST, strided: tuple[str, ...] = ()
) -> Callable[[Callable], Loop]:
    """Declare a serial loop over one task's share of whole arrays as a kernel.

    `shapes` declares the sizes of the arrays (others are not checked). `tasks(*args)` is the number of tasks, by shapes
    and settings alone (see `num_tasks`); without it there is one task, and no parameters `task` and `tasks`. Tasks run
    in any order and at the same time: no two write the same element, and none reads an element that another writes.
    `strided` names the arrays that may have any strides (transposed, sliced, or broadcast with stride 0).
    """
    return lambda py_func: current.Loop(py_func, shapes, tasks, fastmath, strided)

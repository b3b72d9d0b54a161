"""The native backend: kernels run as machine code, or are noted in a recording, or run over exact scalars."""

from collections.abc import Callable

import numpy as np
from numba import config

from tinytensor.core import late_bound
from tinytensor.core.backend import Backend
from tinytensor.core.dispatch import may_be_copied
from tinytensor.core.kernel import OBJECT, Kernel, exact
from tinytensor.core.poison import fresh
from tinytensor.core.state import state
from tinytensor.native.runtime.compiler import inlined
from tinytensor.native.runtime.entry_points import NoBuild
from tinytensor.native.runtime.kernel import Elementwise, Loop
from tinytensor.native.runtime.launch_args import same_memory
from tinytensor.native.runtime.scheduler import Program, threads


class Native(Backend):
    """Computes by Numba's machine code; `copy` is the kernel that moves large arrays."""

    Elementwise, Loop = Elementwise, Loop
    compiles, Program = not config.DISABLE_JIT, Program

    def __init__(self, copy: Kernel):
        self.copy = copy

    def launch(self, kernel: Kernel, args: tuple) -> None:
        """Run a kernel.

        Proofs and debuggers run the kernel's Python source. It has no entry for native code, so it is a host call. The
        kernel raises NoBuild when it finds no build; asking beforehand would delay every launch.
        """
        if kernel.plan is not None:
            kernel.plan(*args)
            return
        now = state.__dict__
        try:
            if now["recording"] is not None:
                now["recording"].launch(kernel, args)
            elif now["profile"] is not None:
                now["profile"].launch(kernel, kernel.prepare(args))
            else:
                kernel.run_now(args)
            return
        except NoBuild:
            pass
        self.host(late_bound.lift(kernel) if exact(args) else kernel.interpret, args, None)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if state.recording is not None:
            return state.recording.pool.buffer(shape, dtype)
        return fresh(shape, dtype)

    def move(self, x: np.ndarray, y: np.ndarray) -> None:
        if x.dtype is OBJECT or y.dtype is OBJECT:
            self.host(_move_objects, (x, y), None)  # numbers become objects here, and native code has none
        elif x.dtype is y.dtype and may_be_copied(y):
            np.copyto(y, x)
        else:
            self.launch(self.copy, (x, y))

    def host(self, function: Callable, args: tuple, undo: Callable | None) -> None:
        if state.recording is not None:
            state.recording.host(function, args, undo)
        elif state.reading is None or not state.reading.host(function, args):
            function(*args)

    def check(self, flag: np.ndarray, tell: Callable[[np.ndarray], None]) -> None:
        super().check(flag, tell)
        if state.recording is not None:
            state.recording.check(flag, tell)

    def device_function(self, py_func: Callable, fastmath: frozenset) -> Callable:
        return inlined(py_func, fastmath)

    def same_memory(self, one: np.ndarray, other: np.ndarray) -> bool:
        return same_memory(one, other)

    @property
    def threads_wanted(self) -> int:
        return threads.wanted

    def set_num_threads(self, n: int) -> None:
        threads.wanted = min(n, config.NUMBA_NUM_THREADS)

    def get_num_threads(self) -> int:
        return threads.number()


def _move_objects(x: np.ndarray, y: np.ndarray) -> None:
    np.copyto(y, x, "unsafe")

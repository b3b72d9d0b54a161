"""The one door: every number that the engine computes passes `launch`.

The door has three readings of the same line `launch(kernel, x, w, y)`:

- compute: run the kernel's native build over all of its tasks;
- record: run it and note the launch in a recording, which `tinytensor.compile` replays as one native program;
- prove: where an array holds exact scalars (dtype object), run the kernel's own Python source over them.

This is why there must be no second door. A number that came about elsewhere, by `x + y` on NumPy arrays in some rule,
would look right when it is computed. But a replay would not compute it again; it would hand out the number of the first
run. And a proof would know nothing of it. So operations, gradients and optimizers compute by launches, and a test
refuses NumPy's arithmetic outside of kernels.

Besides launches a recording holds `host` calls: Python functions that must run again at each replay (the generator
drawing random numbers, say). They are rare, for the native program has to stop for each of them.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tinytensor.core import provided
from tinytensor.kernels.copy import copy as _copy
from tinytensor.native.entries import OBJECT, NoBuild, exact
from tinytensor.native.kernel import Kernel
from tinytensor.native.uninitialized import fresh

SMALL_COPY = 1 << 15  # elements of a copy that is not worth a launch
WATCHERS = frozenset({"recording", "profile", "anomaly"})  # switches of State


class State(threading.local):
    """What is switched on in this thread; another thread that computes at the same time has its own switches."""

    def __init__(self):  # Python calls it in each thread. A look at an attribute costs there; `state.__dict__` is one.
        self.grad = True  # operations on tensors that require grad go on the tape
        self.recording = None  # the Recording that notes launches, if any
        self.anomaly = None  # anomaly mode's Search for NaN and inf (autograd/anomaly_mode.py), if any
        self.profile = None  # the Profile that times launches, if any
        self.told_of_nodes = self.draws = None  # `prove` and viz are told (node, args, y), `prove` (what, generator)

    def __setattr__(self, name: str, value) -> None:
        """Set a switch, and keep `watched`: does a recording, a profile or anomaly mode look at each launch?"""
        now = self.__dict__
        now[name] = value
        if name in WATCHERS:
            now["watched"] = any(now.get(watcher) for watcher in WATCHERS)


state = State()


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised output buffer.

    All outputs come from here, because a recording keeps their addresses: it must own the memory behind them.
    """
    if state.recording is not None:
        return state.recording.pool.buffer(shape, dtype)
    return fresh(shape, dtype)


def launch(kernel: Kernel, *args) -> None:
    """Run `kernel(*inputs, *settings, *outputs, *saved, *scratch)`; the only way to compute anything.

    Python's source (read by a proof or by a debugger) has no entry that native code could run, so it is a host call.
    The kernel finds out that there is no build when it looks for one; asking beforehand would delay every launch.
    """
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
    host(provided.lift(kernel) if exact(args) else kernel.interpret, *args)


def _move_objects(x: np.ndarray, y: np.ndarray) -> None:
    np.copyto(y, x, "unsafe")
    if x.dtype.kind == "b":
        provided.carry_over(x, y)


def host(function: Callable, *args, undo: Callable | None = None) -> None:
    """Run a Python function now and, if this run is being recorded, at every replay.

    With `undo` a replay may run it before its first launch, so that the native program need not stop for it: it neither
    reads nor writes what launches do, but for arrays of its own (the optimizer writes the learning rate so). Should the
    replay then stop before the place where the function was called, `undo(*args)` takes its effect back.
    """
    if state.recording is None:
        function(*args)
    else:
        state.recording.host(function, args, undo)


def check(flag: np.ndarray, tell: Callable[[np.ndarray], None]) -> None:
    """Stop here if a kernel has set flag[0] (int64, at first 0): `tell(flag)` raises what there is to say.

    Native code cannot raise Python's errors, so a kernel that meets an index out of range sets a flag, and goes on. A
    replay stops at this very place too, before any later launch has run, so that nothing is computed from a value that
    the index should have given, and no weight is changed by it.
    """
    if flag[0]:
        flag[0] = 0
        tell(flag)
    if state.recording is not None:
        state.recording.check(flag, tell)


def may_be_copied(y: np.ndarray) -> bool:
    """May NumPy itself copy into y? A small copy takes less time than a launch, and computes nothing."""
    return y.size < SMALL_COPY and state.recording is None and state.profile is None


def move(x: np.ndarray, y: np.ndarray) -> None:
    """Copy `x` (broadcast) into `y`, changing layout and dtype, through the door, so that a replay copies too."""
    if x.dtype is OBJECT or y.dtype is OBJECT:
        host(_move_objects, x, y)  # numbers become objects here, for which there is no native code
    elif x.dtype is y.dtype and may_be_copied(y):
        np.copyto(y, x)
    else:
        launch(_copy, x, y)


def contiguous(array: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    """`array` itself if it is C-contiguous and of this dtype, else a copy (which a replay repeats).

    Loops over whole arrays are compiled for neighbours that lie side by side, which is what makes vectors possible.
    Were each compiled for gaps too, it would be compiled twice; so a transposed array is copied first.
    """
    if array.flags.c_contiguous and (dtype is None or array.dtype == dtype):
        return array
    result = empty(array.shape, dtype or array.dtype)
    move(array, result)
    return result


@contextmanager
def outside_recording() -> Iterator[None]:
    """What is made in here lives on between replays: optimizer state, say."""
    recording, state.recording = state.recording, None
    try:
        yield
    finally:
        state.recording = recording

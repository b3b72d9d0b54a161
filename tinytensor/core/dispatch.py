"""The one door: every number that the engine computes passes `launch`.

The door reads the same line `launch(kernel, x, w, y)` in three ways:

- compute: run the kernel's native build over all of its tasks;
- record: run it and note the launch in a recording, which `tinytensor.compile` replays as one native program;
- prove: where an array holds exact scalars (dtype object), run the kernel's own Python source over them.

So there must be no second door. A number that is computed elsewhere, by `x + y` on NumPy arrays in some rule, looks
right at first. But a replay would not compute it again; it would return the number of the first run. And a proof would
not see it. So operations, gradients and optimizers compute by launches, and a test refuses NumPy's arithmetic outside
of kernels.

Besides launches a recording holds `host` calls: Python functions that must run again at each replay (the generator
drawing random numbers, say). They are rare, since the native program has to stop for each of them.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tinytensor.core import late_bound
from tinytensor.kernels.copy import copy as _copy
from tinytensor.runtime.entry_points import OBJECT, NoBuild, exact
from tinytensor.runtime.kernel import Kernel
from tinytensor.runtime.poison import fresh

SMALL_COPY = 1 << 15  # elements of a copy that is not worth a launch
WATCHERS = frozenset({"recording", "reading", "profile", "anomaly", "on_op"})  # switches of State


class State(threading.local):
    """The switches of this thread; another thread that computes at the same time has its own."""

    # Python calls this in each thread. Thread-local attributes are slow, so hot paths read `state.__dict__` once.
    def __init__(self):
        self.grad = True  # operations on tensors that require grad go on the tape
        self.recording = None  # the Recording that notes launches, if any
        self.reading = None  # what reads a function without values (symbolic/reading), if a function is read
        self.anomaly = None  # anomaly mode's Search for NaN and inf (autograd/anomaly_mode.py), if any
        self.profile = None  # the Profile that times launches, if any
        self.on_op = None  # called by each operation (op, args, y), whose y it returns
        self.on_read = None  # called by each read of values outside of kernels (what, tensor)
        self.on_node = None  # called by each node (node, args, y)
        self.on_random = None  # called by each draw of random numbers (what, generator)

    def __setattr__(self, name: str, value) -> None:
        """Set a switch, and update `watched`: does one of WATCHERS look at each operation or launch?"""
        now = self.__dict__
        now[name] = value
        if name in WATCHERS:
            now["watched"] = any(now.get(watcher) for watcher in WATCHERS)


state = State()


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised output buffer.

    All outputs come from here: a recording keeps their addresses, so it must own their memory.
    """
    if state.recording is not None:
        return state.recording.pool.buffer(shape, dtype)
    return fresh(shape, dtype)


def launch(kernel: Kernel, *args) -> None:
    """Run `kernel(*inputs, *settings, *outputs, *saved, *scratch)`; the only way to compute anything.

    Proofs and debuggers run the kernel's Python source. It has no entry for native code, so it is a host call. The
    kernel raises NoBuild when it finds no build; asking beforehand would delay every launch.
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
    host(late_bound.lift(kernel) if exact(args) else kernel.interpret, *args)


def _move_objects(x: np.ndarray, y: np.ndarray) -> None:
    np.copyto(y, x, "unsafe")
    if x.dtype.kind == "b":
        late_bound.carry_over(x, y)


def host(function: Callable, *args, undo: Callable | None = None) -> None:
    """Run a Python function now and, if this run is being recorded, at every replay.

    With `undo` a replay may run it before its first launch, so that the native program does not stop for it: such a
    function touches no array of the launches except its own (the optimizer writes the learning rate so). If the replay
    then stops before the place where the function was called, `undo(*args)` takes its effect back. The first argument
    is an empty list, in which the function notes the state before it changes anything, and `undo` finds it: an
    interrupt may stop the function at any place.
    """
    if state.recording is not None:
        state.recording.host(function, args, undo)
    elif state.reading is None or not state.reading.host(function, args):
        function(*args)


def check(flag: np.ndarray, tell: Callable[[np.ndarray], None]) -> None:
    """Stop here if a kernel has set flag[0] (int64, at first 0): `tell(flag)` raises the error.

    Native code cannot raise Python's errors, so a kernel that meets an index out of range sets a flag, and goes on. A
    replay stops at this very place too, before any later launch runs, so that nothing is computed from the missing
    value, and no weight is changed by it.
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
    """Copy `x` (broadcast) into `y`, changing layout and dtype; a replay copies too."""
    if x.dtype is OBJECT or y.dtype is OBJECT:
        host(_move_objects, x, y)  # numbers become objects here, and native code has none
    elif x.dtype is y.dtype and may_be_copied(y):
        np.copyto(y, x)
    else:
        launch(_copy, x, y)


def contiguous(array: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    """`array` itself if it is C-contiguous and of this dtype, else a copy (which a replay repeats).

    Loops over whole arrays are compiled for elements that lie side by side, as vector instructions need them. Builds
    for any strides would double the compile time; so a transposed array is copied first.
    """
    if array.flags.c_contiguous and (dtype is None or array.dtype == dtype):
        return array
    result = empty(array.shape, dtype or array.dtype)
    move(array, result)
    return result


@contextmanager
def outside_recording() -> Iterator[None]:
    """A context for arrays that live on between replays, such as optimizer state: nothing is recorded inside."""
    recording, state.recording = state.recording, None
    try:
        yield
    finally:
        state.recording = recording

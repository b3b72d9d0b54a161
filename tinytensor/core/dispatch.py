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

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tinytensor.core import backend
from tinytensor.core.kernel import Kernel
from tinytensor.core.state import state

SMALL_COPY = 1 << 15  # elements of a copy that is not worth a launch


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised output buffer.

    All outputs come from here: a recording keeps their addresses, so it must own their memory.
    """
    return backend.current.empty(shape, dtype)


def launch(kernel: Kernel, *args) -> None:
    """Run `kernel(*inputs, *settings, *outputs, *saved)`; the only way to compute anything."""
    backend.current.launch(kernel, args)


def host(function: Callable, *args, undo: Callable | None = None) -> None:
    """Run a Python function now and, if this run is being recorded, at every replay.

    With `undo` a replay may run it before its first launch, so that the native program does not stop for it: such a
    function touches no array of the launches except its own (the optimizer writes the learning rate so). If the replay
    then stops before the place where the function was called, `undo(*args)` takes its effect back. The first argument
    is an empty list, in which the function notes the state before it changes anything, and `undo` finds it: an
    interrupt may stop the function at any place.
    """
    backend.current.host(function, args, undo)


def check(flag: np.ndarray, tell: Callable[[np.ndarray], None]) -> None:
    """Stop here if a kernel has set flag[0] (int64, at first 0): `tell(flag)` raises the error.

    Native code cannot raise Python's errors, so a kernel that meets an index out of range sets a flag, and goes on. A
    replay stops at this very place too, before any later launch runs, so that nothing is computed from the missing
    value, and no weight is changed by it.
    """
    backend.current.check(flag, tell)


def may_be_copied(y: np.ndarray) -> bool:
    """May NumPy itself copy into y? A small copy takes less time than a launch, and computes nothing."""
    return y.size < SMALL_COPY and state.recording is None and state.profile is None


def move(x: np.ndarray, y: np.ndarray) -> None:
    """Copy `x` (broadcast) into `y`, changing layout and dtype; a replay copies too."""
    backend.current.move(x, y)


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

"""The one door: every number that the engine computes passes `launch`.

The door has three readings of the same line `launch(kernel, x, w, y)`:

- compute: run the kernel's Numba build;
- record: run it and note `(kernel, arrays)` on a tape, which `tinytensor.compile` replays;
- prove: where an array holds exact scalars (dtype object), run the kernel's own Python source over them.

Besides launches a recording holds `host` calls: Python functions that must run again at each replay (the
optimizer reading its learning rate, the generator drawing a dropout mask).
"""

import math
import threading
from collections.abc import Callable
from contextlib import contextmanager
from operator import is_
from weakref import WeakSet

import numba
import numpy as np

from tinytensor.kernels.kernel import Kernel

OBJECT = np.dtype(object)
LINE = 64  # bytes in a cache line, and in the widest vector


class State(threading.local):
    """What is switched on in this thread."""

    grad = True  # operations on tensors that require grad go on the tape
    recording = None  # the Recording that notes launches, if any
    meta = False  # shapes only: nothing is allocated, nothing is run
    anomaly = False  # look for NaN and inf after each operation
    watch = None  # is told of each node that goes on the tape, as watch(node, args, y): `prove` looks on from here


state = State()


class Recording:
    """The launches and host calls of one run, and what must hold for them to be replayed.

    Buffers come from a pool: one goes back when the last tensor that looks at it is gone, and may serve a later
    launch. A replay keeps the order, so what was free while recording is free in the replay.
    """

    def __init__(self):
        self.steps: list[tuple[Callable, tuple]] = []
        self.seen: dict[int, object] = {}  # tensors from outside that were used, by id
        self.guards: list[tuple[Callable, tuple]] = []  # a question and the answer it must still have
        self.leases: WeakSet[Lease] = WeakSet()  # buffers that somebody looks at
        self.free: dict[int, list[np.ndarray]] = {}  # buffers that nobody looks at, by size in bytes
        self.open = True

    def guard(self, question: Callable) -> None:
        """Replay only while `question()` answers with the very objects (a tuple of them) that it answers now."""
        self.guards.append((question, question()))

    def holds(self) -> bool:
        for question, answer in self.guards:
            now = question()
            if len(now) != len(answer) or not all(map(is_, now, answer)):
                return False
        return True

    def owns(self, array: np.ndarray) -> bool:
        lease = _lease(array)
        return lease is not None and lease.recording is self

    def buffer(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        size = math.prod(shape) * dtype.itemsize
        if size == 0 or dtype is OBJECT:
            return np.empty(shape, dtype)
        free = self.free.get(size)
        memory = free.pop() if free else _aligned(size)
        lease = Lease(self, memory, shape, dtype)
        self.leases.add(lease)
        return np.asarray(lease)

    def note(self, step: Callable, args: tuple) -> None:
        self.steps.append((step, tuple(_owned(a) for a in args)))

    def replay(self) -> None:
        with np.errstate(all="ignore"):  # as Elementwise has it: inf and NaN are results like others
            for step, args in self.steps:
                step(*args)


def _aligned(size: int) -> np.ndarray:
    """Bytes that begin where a cache line does: vector loads then never straddle two."""
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size]


class Lease:
    """A buffer of a recording while some array looks at it."""

    def __init__(self, recording: Recording, memory: np.ndarray, shape: tuple[int, ...], dtype: np.dtype):
        self.recording, self.memory = recording, memory
        data = (memory.ctypes.data, False)
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": data, "version": 3}

    def __del__(self):
        if self.recording.open:
            self.recording.free.setdefault(self.memory.size, []).append(self.memory)


def _lease(array: np.ndarray) -> Lease | None:
    base = array.base
    while base is not None and not isinstance(base, Lease):  # arrays, and what as_strided() puts between them
        base = getattr(base, "base", None)
    return base


def _owned(value):
    """An argument as a recording keeps it: arrays on leased buffers look at the buffer, so that leases can end."""
    if isinstance(value, list):
        return [_owned(v) for v in value]
    lease = _lease(value) if isinstance(value, np.ndarray) else None
    if lease is None:
        return value
    offset = value.__array_interface__["data"][0] - lease.memory.__array_interface__["data"][0]
    return np.ndarray(value.shape, value.dtype, lease.memory, offset, value.strides)


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised output buffer; while only shapes matter, one element seen through zero strides."""
    if state.meta:
        return np.lib.stride_tricks.as_strided(np.empty((), dtype), shape, (0,) * len(shape))
    if state.recording is not None:
        return state.recording.buffer(shape, dtype)
    return np.empty(shape, dtype)


def launch(kernel: Kernel, *args) -> None:
    """Run `kernel(*inputs, *settings, *outputs, *saved, *scratch)`; the only way to compute anything."""
    if state.meta:
        return
    for arg in args:
        if arg.__class__ is np.ndarray and arg.dtype is OBJECT:
            kernel = _lifted(kernel)
            break
    kernel(*args)
    if state.recording is not None:
        state.recording.note(kernel.bind(args) if isinstance(kernel, Kernel) else kernel, args)


def host(function: Callable, *args) -> None:
    """Run a Python function now and, if this run is being recorded, at every replay."""
    if state.meta:
        return
    recording, state.recording = state.recording, None  # at a replay it is off as well
    try:
        function(*args)
    finally:
        state.recording = recording
    if recording is not None:
        recording.note(function, args)


def _lifted(kernel: Kernel) -> Callable:
    global _lift
    if _lift is None:  # on demand: SymPy costs a second to import, and training never needs it
        from tinytensor.symbolic import lift as _lift
    return _lift(kernel)


_lift = None


def copy(x: np.ndarray, y: np.ndarray) -> None:
    """Move data, changing layout and dtype: y[...] = x[...] (no arithmetic, so no kernel)."""
    np.copyto(y, x, casting="unsafe")


def move(x: np.ndarray, y: np.ndarray) -> None:
    """Copy `x` into `y` through the door, so that a replay copies too."""
    host(copy, x, y)


def contiguous(array: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    """`array` itself if it is C-contiguous and of this dtype, else a copy (which a replay repeats)."""
    dtype = array.dtype if dtype is None else dtype
    if array.flags.c_contiguous and array.dtype == dtype:
        return array
    result = empty(array.shape, dtype)
    move(array, result)
    return result


@contextmanager
def outside_recording():
    """What is made in here lives on between replays: optimizer state, say."""
    recording, state.recording = state.recording, None
    try:
        yield
    finally:
        state.recording = recording


# ---------------------------------------------------------------------------------------------- threads


def set_num_threads(n: int) -> None:
    """Let kernels started by this Python thread use up to `n` threads (no result depends on it, not by a bit)."""
    if n < 1:
        raise ValueError(f"set_num_threads({n}): expected 1 or more")
    numba.set_num_threads(min(n, numba.config.NUMBA_NUM_THREADS))


def get_num_threads() -> int:
    """How many threads a kernel may use."""
    return numba.get_num_threads()

"""What a recording holds: the launches of one run, as a program that native code runs again.

While a recording is open, the door notes each launch here as it makes it: the address of the kernel's entry, the packed
arguments, the number of tasks. When it is closed, the launches that follow one another become programs, with the few
host calls between them. `replay()` runs them in order.

Every buffer of a recorded run belongs to the recording. Memory comes from a pool: a buffer goes back when the last
tensor that looks at it is gone, and may then serve a later launch. A replay keeps the order, so what was free while
recording is free in the replay.
"""

import math
from collections.abc import Callable
from operator import is_
from weakref import WeakSet

import numpy as np

from tinytensor.door import OBJECT
from tinytensor.kernels.driver import Program
from tinytensor.kernels.kernel import Kernel, Launch

LINE = 64  # bytes in a cache line, and in the widest vector


class Recording:
    """The launches and host calls of one run, and what must hold for them to be replayed."""

    def __init__(self):
        self.noted: list[tuple[Kernel | None, Launch | tuple]] = []  # (kernel, launch), or (None, (function, args))
        self.early: list[tuple[Callable, tuple]] = []  # host calls that may run before everything else
        self.checks: list[tuple[np.ndarray, Callable]] = []  # flags, and what is said when one is set
        self.seen: dict[int, object] = {}  # tensors from outside that were used, by id
        self.guards: list[tuple[Callable, tuple]] = []  # a question and the answer it must still have
        self.leases: WeakSet[Lease] = WeakSet()  # buffers that somebody looks at
        self.free: dict[int, list[np.ndarray]] = {}  # buffers that nobody looks at, by size in bytes
        self.open = True
        self.parts: list[Program | tuple[Callable, tuple]] = []

    # ------------------------------------------------------------------------------------------------ while it is open

    def launch(self, kernel: Kernel, args: tuple) -> None:
        """Run a launch, and note it. Its arguments look at the memory itself, so that leases of buffers can end."""
        launch = kernel.prepare(tuple(_owned(a) for a in args))
        kernel.run(launch)
        self.noted.append((kernel, launch))

    def host(self, function: Callable, args: tuple, early: bool) -> None:
        """Note a host call that has just been made."""
        args = tuple(_owned(a) for a in args)
        if early:
            self.early.append((function, args))
        else:
            self.noted.append((None, (function, args)))

    def check(self, flag: np.ndarray, tell: Callable) -> None:
        """Note that a replay stops here if the flag is set."""
        self.checks.append((flag, tell))
        self.noted.append((None, (flag,)))

    def guard(self, question: Callable) -> None:
        """Replay only while `question()` answers with the very objects (a tuple of them) that it answers now."""
        self.guards.append((question, question()))

    def buffer(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialised array on memory of the pool."""
        size = math.prod(shape) * dtype.itemsize
        if size == 0 or dtype is OBJECT:
            return np.empty(shape, dtype)
        free = self.free.get(size)
        memory = free.pop() if free else _aligned(size)
        lease = Lease(self, memory, shape, dtype)
        self.leases.add(lease)
        return np.asarray(lease)

    def owns(self, array: np.ndarray) -> bool:
        """Is the array on a buffer of this recording?"""
        lease = lease_of(array)
        return lease is not None and lease.recording is self

    # ------------------------------------------------------------------------------------------------ when it is closed

    def close(self) -> None:
        """Make programs of what was noted."""
        self.open = False
        rows: list[tuple[int, int, int]] = []
        for kernel, what in self.noted:
            if kernel is not None:
                rows.append((what.entry, what.block.ctypes.data, what.tasks))
            elif len(what) == 1:  # a flag to look at
                rows.append((0, what[0].ctypes.data, 0))
            else:
                self._end_program(rows)
                self.parts.append(what)
        self._end_program(rows)

    def _end_program(self, rows: list) -> None:
        if rows:
            self.parts.append(Program(rows))
            rows.clear()

    def holds(self) -> bool:
        """Do all questions have the answers that they had?"""
        for question, answer in self.guards:
            now = question()
            if len(now) != len(answer) or not all(map(is_, now, answer)):
                return False
        return True

    def replay(self) -> None:
        """Run everything that was noted, again."""
        for function, args in self.early:
            function(*args)
        for part in self.parts:
            if part.__class__ is Program:
                if not part.run():
                    self._stopped()
            else:
                function, args = part
                function(*args)

    def _stopped(self) -> None:
        for flag, tell in self.checks:
            if flag[0]:
                flag[0] = 0
                tell(flag)

    def arrays(self) -> list[np.ndarray]:
        """Every array that a launch or a host call looks at."""
        found = []
        for kernel, what in self.noted:
            args = what.args if kernel is not None else what[-1] if len(what) == 2 else ()
            for group in args:
                found += [a for a in (group if isinstance(group, list) else [group]) if isinstance(a, np.ndarray)]
        return found


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


def lease_of(array: np.ndarray) -> Lease | None:
    """The lease of the buffer that an array looks at, if it is one of a recording."""
    base = array.base
    while base is not None and not isinstance(base, Lease):  # arrays, and what as_strided() puts between them
        base = getattr(base, "base", None)
    return base


def _owned(value):
    """An argument as a recording keeps it: arrays on leased buffers look at the buffer, so that leases can end."""
    if isinstance(value, list):
        return [_owned(v) for v in value]
    lease = lease_of(value) if isinstance(value, np.ndarray) else None
    if lease is None:
        return value
    offset = value.__array_interface__["data"][0] - lease.memory.__array_interface__["data"][0]
    return np.ndarray(value.shape, value.dtype, lease.memory, offset, value.strides)

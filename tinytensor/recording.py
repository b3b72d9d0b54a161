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
from typing import Any
from weakref import WeakSet

import numpy as np

from tinytensor.door import OBJECT, state
from tinytensor.kernels.driver import STOPPED, Program
from tinytensor.kernels.kernel import Kernel

LINE = 64  # bytes in a cache line, and in the widest vector


class Recording:
    """The launches and host calls of one run, and what must hold for them to be replayed."""

    def __init__(self):
        self.noted: list[tuple[Kernel | Callable | None, Any]] = []  # (kernel, launch), (function, args), (None, flag)
        self.early: list[tuple[int, Callable, tuple, Callable]] = []  # host calls that run before: place ... and undo
        self.checks: list[tuple[int, np.ndarray, Callable]] = []  # place, flag, and what is said when it is set
        self.seen: dict[int, Seen] = {}  # tensors from outside that were used, by id
        self.guards: list[tuple[Callable, tuple]] = []  # a question and the answer it must still have
        self.leases: WeakSet[Lease] = WeakSet()  # buffers that somebody looks at
        self.free: dict[int, list[np.ndarray]] = {}  # buffers that nobody looks at, by size in bytes
        self.open = True
        self.parts: list[tuple[int, Program | Callable, tuple]] = []  # place, what to run, its arguments

    # ------------------------------------------------------------------------------------------------ while it is open

    def launch(self, kernel: Kernel, args: tuple) -> None:
        """Run a launch, and note it. Its arguments look at the memory itself, so that leases of buffers can end."""
        launch = kernel.prepare(tuple([_owned(a) for a in args]))
        kernel.run(launch)
        self.noted.append((kernel, launch))

    def host(self, function: Callable, args: tuple, undo: Callable | None) -> None:
        """Note a host call that has just been made."""
        args = tuple([_owned(a) for a in args])
        if undo is None:
            self.noted.append((function, args))
        else:
            self.early.append((len(self.noted), function, args, undo))

    def check(self, flag: np.ndarray, tell: Callable) -> None:
        """Note that a replay stops here if the flag is set."""
        self.checks.append((len(self.noted), flag, tell))
        self.noted.append((None, flag))

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

    def notice(self, tensor) -> None:
        """Remember a tensor that was not made here, as it is before its first use: its gradient may be a condition."""
        if id(tensor) not in self.seen and not self.owns(tensor._data):
            self.seen[id(tensor)] = Seen(tensor)

    def notice_gradient(self, tensor, replaced: bool) -> None:
        """Remember a tensor whose gradient is now looked at, or replaced by another one or none."""
        self.notice(tensor)
        seen = self.seen.get(id(tensor))
        if seen is not None and seen.gradient_matters is None:
            seen.gradient_matters = not replaced
            if replaced:
                seen.stand_in = None

    # ------------------------------------------------------------------------------------------------ when it is closed

    def close(self) -> None:
        """Make programs of what was noted."""
        self.open = False
        rows: list[tuple[int, int, int]] = []

        def end_program(place: int) -> None:
            if rows:
                self.parts.append((place, Program(rows).run, ()))
                rows.clear()

        for place, (what, how) in enumerate(self.noted):
            if isinstance(what, Kernel):
                rows.append((how.entry, how.block.ctypes.data, how.tasks))
            elif what is None:
                rows.append((0, how.ctypes.data, 0))
            else:
                end_program(place)
                self.parts.append((place, what, how))
        end_program(len(self.noted))

    def holds(self) -> bool:
        """Do all questions have the answers that they had?"""
        for question, answer in self.guards:
            now = question()
            if len(now) != len(answer) or not all(map(is_, now, answer)):
                return False
        return True

    def replay(self) -> None:
        """Run everything that was noted, again."""
        for _, function, args, _ in self.early:
            function(*args)
        if state.profile is not None:
            self._replay_one_by_one(state.profile)
            return
        reached = 0
        try:
            for place, run, args in self.parts:
                if run(*args) is STOPPED:
                    reached, flag, tell = next(check for check in self.checks if check[1][0])
                    flag[0] = 0
                    tell(flag)
                reached = place
        except BaseException:
            for place, _, args, undo in reversed(self.early):
                if place > reached:
                    undo(*args)
            raise

    def _replay_one_by_one(self, profile) -> None:
        """Run everything that was noted while somebody takes the time of each launch."""
        for what, how in self.noted:
            if isinstance(what, Kernel):
                profile.launch(what, how)
            elif what is not None:
                profile.host(what, how)
            elif how[0]:
                _, flag, tell = next(check for check in self.checks if check[1] is how)
                flag[0] = 0
                tell(flag)

    def arrays(self) -> list[np.ndarray]:
        """Every array that a launch or a host call looks at."""
        found = []
        for what, how in self.noted:
            args = how.args if isinstance(what, Kernel) else (how,) if what is None else how
            for group in args:
                found += [a for a in (group if isinstance(group, list) else [group]) if isinstance(a, np.ndarray)]
        return found


class Seen:
    """A tensor from outside a recording, as it was before its first use there.

    A gradient that it had is an input of the run: the recording works on a copy of its own, the stand-in. But most
    training steps begin with zero_grad(): a gradient that is replaced before anything has looked at it might as well
    not have been there, and the first step, which meets none, serves for all later ones.
    """

    def __init__(self, tensor):
        self.tensor = tensor
        self.data, self.version = tensor._data, tensor._version.count
        self.requires_grad, self.hooks = tensor.requires_grad, list(tensor._hooks or ())
        self.gradient_matters: bool | None = None  # unknown until the run looks at it or replaces it
        self.stand_in = None
        self.dtype = None  # of its gradient
        self.grad = grad = tensor.held_grad()
        if grad is not None:
            self.dtype = grad.dtype
            self.stand_in = tensor._grad = type(grad)(grad._data.copy())

    def is_as_it_was(self) -> bool:
        """Does the tensor stand where it stood, and will backward() find there what it found?"""
        tensor = self.tensor
        if tensor._data is not self.data or tensor.requires_grad is not self.requires_grad:
            return False
        grad = tensor._grad  # one that was left by a replay has a dtype too
        if self.gradient_matters is not False and (None if grad is None else grad.dtype) is not self.dtype:
            return False
        return list(tensor._hooks) == self.hooks if tensor._hooks else not self.hooks


class Left:
    """A gradient that a replay has left in the recording's own memory, until somebody looks at it.

    The next replay will write over that memory, and most gradients are never looked at from outside the step. So
    `tensor.grad` makes a copy when it is asked for, and a replay that comes before that makes none.
    """

    __slots__ = ("array", "dtype")

    def __init__(self, array: np.ndarray):
        self.array, self.dtype = array, array.dtype


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

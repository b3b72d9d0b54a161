"""The scheduler: native code that runs a program of launches, on one thread or on several.

A launch is three numbers: the address of a kernel's entry, the address of its packed arguments, and its number of
tasks. A program is an array of them, one row a launch. Kernels are serial loops over one task's share and know nothing
of threads; `_run_together` is the only function of tinytensor that is compiled with `parallel=True`.

All threads walk the same program. At each launch a thread takes tasks one by one, first those of its own share, then
those left in the shares of other threads, and goes on when all tasks of the launch are done. There is no barrier: a
thread that the system has suspended delays the others only if it holds a task. The same share of each launch mostly
means the same rows of the arrays, so a thread finds its data in the cache of its own processor. The bits of a result
depend on the tasks alone, never on the threads that take them.
"""

import os
import time
from collections.abc import Callable

import numba
import numpy as np
from llvmlite import binding, ir
from numba import config, njit, prange, types
from numba.extending import intrinsic

from tinytensor.core.poison import LINE
from tinytensor.native.platform.locks import ThreadLock
from tinytensor.native.platform.operating_system import called_by_compiled_code
from tinytensor.native.runtime.cache import builds_of, kept
from tinytensor.native.runtime.compiler import colourless, signals_wait

ENTRY, BUFFER, TASKS = range(3)  # the columns of a program
DONE, SHARES = 0, 1  # the rows of a group's counters: the number of tasks done; from row 1, those taken of each share
SPACING = 2 * LINE // 8  # int64 from one counter to the next: no two may share a line, and processors fetch pairs
PATIENCE = 200  # looks at a counter before a waiting thread offers its processor to others
WORD = ir.IntType(64)


@intrinsic
def call(typing, entry, buffer, task, tasks):
    """entry(buffer, task, tasks), at its address."""

    def codegen(context, builder, signature, args):
        ty = ir.FunctionType(ir.VoidType(), [WORD] * 3)
        builder.call(builder.inttoptr(args[0], ty.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp, types.intp), codegen


@intrinsic
def _add_atomically(typing, address, value):
    """Add `value` to the number at the address in one atomic step; returns the number before."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", builder.inttoptr(args[0], WORD.as_pointer()), args[1], "acq_rel")

    return types.intp(types.intp, types.intp), codegen


@intrinsic
def _load_atomically(typing, address):
    """The number at the address; values that other threads wrote before they set it are visible from now on."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(builder.inttoptr(args[0], WORD.as_pointer()), "acquire", 8)

    return types.intp(types.intp), codegen


def native(parallel: bool = False, nogil: bool = True):
    """Compile a function of the runtime on its first call; its build is cached as those of kernels are."""

    def decorate(function):
        if config.DISABLE_JIT:  # for a debugger: the Python source runs
            return function
        with kept(function):
            compiled = njit(nogil=nogil, error_model="numpy", parallel=parallel)(function)
            compiled._cache = builds_of(function, function.__name__)  # as njit(cache=True) sets Numba's own cache
            compiled.compile = signals_wait()(colourless()(compiled.compile))
            return compiled

    return decorate


for name, address in called_by_compiled_code().items():
    if binding.address_of_symbol(name) is None:  # LLVM knows those of the C library, and of Numba
        binding.add_symbol(name, address)
_pause = types.ExternalFunction("tinytensor_pause", types.int32())


@native()
def _run_alone(program, times, progress, position):
    """Run every task of every launch, in order, on the calling thread, `times` times; False if a flag was set.

    At the end it writes `position` to progress[0]: no signal comes between the last launch and that.
    """
    for _ in range(times):
        for i in range(program.shape[0]):
            entry, buffer, tasks = program[i, ENTRY], program[i, BUFFER], program[i, TASKS]
            if tasks == 0 and _load_atomically(buffer) != 0:
                return False
            for task in range(tasks):
                call(entry, buffer, task, tasks)
    progress[0] = position
    return True


@native()
def _run_one(entry, buffer, tasks):
    """Run every task of one launch, in order, on the calling thread."""
    for task in range(tasks):
        call(entry, buffer.ctypes.data, task, tasks)


@native(parallel=True)
def _run_together(program, groups, counters, threads, progress, position):
    """Run a program on this number of threads; False if a flag was set, otherwise progress[0] is `position` at the end.

    A group is a launch with many tasks, or a stretch of launches with one task each, or the test of a flag. Each group
    has counters: of the tasks that are done, and of those taken from each thread's share.
    """
    for i in range(groups.shape[0]):
        for k in range(threads + 1):
            counters[i, k, 0] = 0
    for me in prange(threads):
        for i in range(groups.shape[0]):
            first, last, tasks = groups[i, 0], groups[i, 1], groups[i, 2]
            if tasks == 0:  # all earlier launches are done, so every thread sees the same flag
                if _load_atomically(program[first, BUFFER]) != 0:
                    break
                continue
            mine = 0
            for turn in range(threads):
                owner = (me + turn) % threads
                start, end = owner * tasks // threads, (owner + 1) * tasks // threads
                taken = counters[i, SHARES + owner].ctypes.data
                # A read costs less than an addition: all processors can hold the line of a counter that is not written.
                while start < end and _load_atomically(taken) < end - start:
                    task = start + _add_atomically(taken, 1)
                    if task >= end:
                        break
                    for k in range(first, last):
                        call(program[k, ENTRY], program[k, BUFFER], task, tasks)
                    mine += 1
            done = counters[i, DONE].ctypes.data
            if mine > 0:
                _add_atomically(done, mine)
            looks = 0
            while _load_atomically(done) < tasks:
                looks += 1
                if looks > PATIENCE:
                    _pause()
    for i in range(groups.shape[0]):  # a result from the threads would take Numba 0.25 seconds longer to compile
        if groups[i, 2] == 0 and _load_atomically(program[groups[i, 0], BUFFER]) != 0:
            return False
    progress[0] = position
    return True


# ----------------------------------------------------------------------------------------------- how many threads


class _Threads:
    """The number of threads that a program may use, and whether this process may start any."""

    def __init__(self):
        self.wanted = 0  # 0: all of Numba's threads
        self.started = False  # has a region with several threads been run?
        self.forked = False  # is this a child of a process that had started threads?
        self.one_region = ThreadLock()

    def number(self) -> int:
        if self.forked:  # a child process has no OpenMP threads, and starting them again ends the process
            return 1
        return self.wanted or numba.config.NUMBA_NUM_THREADS

    def after_fork(self) -> None:
        """Note in a child process that the threads of its parent do not exist here."""
        self.forked = self.started


threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=threads.after_fork)


class ThreadTuner:
    """Chooses one or several threads for a piece of work from measured times.

    Several threads lose on a busy machine: one waits for another that the system has suspended, up to a time slice of
    some 4 ms. The tuner keeps the best single-thread time and a running balance of what several threads gained or lost.
    If they lost more than one run, the work stays on one thread for 20 times the loss (at most 1 s), then tries again.
    After a long winning streak one loss is treated as noise: it retries after 1 times the loss, then 2 times, and so
    on.
    """

    MEASURED = 3  # first runs on one thread, to measure their time; the very first meets cold caches
    REMEASURE = 256  # runs between two measurements of the time on one thread
    CREDIT = 8  # the most that may be won beforehand, in runs on one thread: it covers a rare disturbance
    WORTH = 20  # the loss of a trial, times at most this, is the time until the next one ...
    LONGEST = 1.0  # ... but at most this many seconds: the machine may be calm again

    def __init__(self):
        self.runs = 0
        self.alone = float("inf")  # seconds on one thread
        self.lost = 0.0  # seconds by which runs on several threads took longer, in total
        self.rest = 0.0  # seconds that the work still stays on one thread
        self.factor = self.WORTH  # the next rest is the loss times this

    def run(self, alone: Callable[..., bool], together: Callable[..., bool]) -> bool:
        """Run the work in one of two ways: on one thread, or on several if that pays."""
        self.runs += 1
        single = self.rest > 0 or self.runs <= self.MEASURED or self.runs % self.REMEASURE == 0
        counts = single or threads.started  # the first run on several threads of a process starts them
        start = time.perf_counter()
        whole = alone() if single else together()
        if whole and counts:  # the time of a run that a flag has stopped means nothing
            self._note(time.perf_counter() - start, single)
        return whole

    def _note(self, took: float, alone: bool) -> None:
        """Remember the time of a run, and decide on the next ones."""
        if alone:  # a longer time may be a disturbance, or a slower machine; a shorter time is taken as it is
            self.alone = took if took < self.alone else self.alone + (took - self.alone) / 8
            self.rest -= took
            return
        self.lost += took - self.alone
        if self.lost > self.alone:
            self.rest, self.lost = min(self.factor * self.lost, self.LONGEST), 0.0
            self.factor = min(2 * self.factor, self.WORTH)
        elif self.lost < -self.CREDIT * self.alone:  # a large gain: the machine is calm
            self.lost, self.factor = -self.CREDIT * self.alone, 1


class Program:
    """Launches that follow one another without Python in between; a call runs them all.

    Native code writes `position` to progress[0] when all have run. So a caller knows it after an interrupt, too: Python
    raises that when the native code returns, in place of its result.
    """

    def __init__(self, launches: list[tuple[int, int, int]], progress: np.ndarray | None = None, position: int = 0):
        self.progress, self.position = np.zeros(1, np.int64) if progress is None else progress, position
        self.program = np.array(launches, np.int64).reshape(-1, 3)
        groups = _groups(self.program[:, TASKS])
        self.groups = np.array(groups, np.int64).reshape(-1, 3)
        self.counters = _counters(len(groups), numba.config.NUMBA_NUM_THREADS)
        self.divisible = any(tasks > 1 for _, _, tasks in groups)
        self.times = 1  # passes through all launches in one run
        self.tuner = ThreadTuner()

    def __call__(self) -> bool:
        """Run all launches, in order; False if a flag was set: the launches after it did not run."""
        n = threads.number() if self.divisible else 1
        if n == 1:
            return _run_alone(self.program, self.times, self.progress, self.position)
        return all(
            self.tuner.run(
                lambda: _run_alone(self.program, 1, self.progress, self.position),
                lambda: run_together(self.program, self.groups, self.counters, n, self.progress, self.position),
            )
            for _ in range(self.times)
        )


_tuners: dict[tuple, ThreadTuner] = {}  # of single launches, by what is equal in those that take about the same time
MAX_TUNERS = 1024


def run(entry: int, buffer: np.ndarray, tasks: int, size: int) -> None:
    """Run one launch, on several threads if it has tasks for them; `size` is the number of its arrays' elements."""
    n = threads.number() if tasks > 1 else 1
    if n == 1:
        _run_one(entry, buffer, tasks)
        return
    key = entry, tasks, size
    tuner = _tuners.get(key)
    if tuner is None:
        if len(_tuners) >= MAX_TUNERS:  # so that programs with ever new sizes do not fill the memory
            _tuners.clear()
        tuner = _tuners[key] = ThreadTuner()

    def together() -> bool:
        groups = np.array([(0, 1, tasks)], np.int64)
        program = np.array([(entry, buffer.ctypes.data, tasks)], np.int64)
        return run_together(program, groups, _counters(1, n), n, np.zeros(1, np.int64), 0)

    tuner.run(lambda: _run_one(entry, buffer, tasks) is None, together)


def _groups(tasks: np.ndarray) -> list[tuple[int, int, int]]:
    """(first launch, one after the last, tasks) of each group: successive launches of one task go to one thread."""
    groups: list[tuple[int, int, int]] = []
    for i, n in enumerate(tasks.tolist()):
        if n == 1 and groups and groups[-1][2] == 1:
            groups[-1] = groups[-1][0], i + 1, 1
        else:
            groups.append((i, i + 1, n))
    return groups


def _counters(groups: int, n: int) -> np.ndarray:
    """The counters of `n` threads for this number of groups, each counter in cache lines of its own."""
    return np.zeros((groups, SHARES + n, SPACING), np.int64)


def run_together(
    program: np.ndarray, groups: np.ndarray, counters: np.ndarray, n: int, progress: np.ndarray, position: int
) -> bool:
    """Run a program on `n` threads; False if a flag was set, otherwise progress[0] is `position` at the end."""
    numba.set_num_threads(n)
    with threads.one_region.lock:  # the counters serve one run; and Numba's workqueue aborts when two threads enter it
        threads.started = True
        return _run_together(program, groups, counters, n, progress, position)

"""The launch cache: an operation's launches are noted once, and repeated on other arrays in one native call.

Forward and backward functions look at shapes, make views, allocate memory, and launch kernels. A program of small
tensors spends its time in this Python code, not in kernels. But all of it follows from the shapes, strides and dtypes
of the arrays, and from the settings: a recording could not be replayed otherwise. So when a function is called with
such arguments a second time, it runs dry: on stand-ins, arrays of the same layout on memory of their own. A `DryRun`
stands where a recording would, and notes the launches without making them. From then on the same call is
new memory for the results and one native call, which compares the arrays with the stand-ins, and makes the launches.

This is done for small calls only, whose memory is worth keeping, and for the engine's own functions only: the tests
know that these compute by launches alone. A function that does anything else, a host call say, is called as usual.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tinytensor.core.dispatch import state
from tinytensor.core.kernel import OBJECT, Kernel, is_ours
from tinytensor.core.poison import fresh, poison, poisoned
from tinytensor.core.recorder_base import NotRecordable, Recorder
from tinytensor.core.tensor import Tensor
from tinytensor.native.platform.locks import ThreadLock
from tinytensor.native.platform.object_layout import ITEMS
from tinytensor.native.runtime.kernel import Elementwise
from tinytensor.native.runtime.launch_args import FITS, OTHER, NativePlan
from tinytensor.native.runtime.scheduler import Program

MOST = 256  # calls of a function that are remembered
LARGE = 1 << 20  # bytes: a larger array is not remembered, since notes keep the memory of intermediate results

_ndarray = np.ndarray


class DryRun(Recorder):
    """Notes the launches of a function that runs on stand-ins, without making them."""

    in_program = False

    def __init__(self):
        self.pool = self
        self.buffers: list[np.ndarray] = []  # the memory that the function has allocated
        self.rows: list[tuple] = []  # (kernel, launch), or (None, flag, the function that raises its error)

    def buffer(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        self.buffers.append(fresh(shape, dtype))
        if self.buffers[-1].nbytes > LARGE:
            raise NotRecordable
        return self.buffers[-1]

    def launch(self, kernel: Kernel, args: tuple) -> None:
        self.rows.append((kernel, kernel.prepare(args)))

    def check(self, flag: np.ndarray, tell: Callable) -> None:
        self.rows.append((None, flag, tell))

    def notice(self, tensor: Tensor) -> None:
        """Nothing: a rule uses only its arguments, and tensors that were computed from them."""

    def owns(self, array: np.ndarray) -> bool:
        raise NotRecordable

    @property
    def function_guards(self) -> Any:
        raise NotRecordable


class LaunchPlan:
    """The launches of a call, noted in a dry run; `replay(args)` repeats them on the arrays of another call."""

    def __init__(self, function: Callable, args: tuple):
        """Run the call dry; raises NotRecordable if notes cannot repeat it."""
        # For Python, and so for the key of a call, 0.0, -0.0, 0 and False are equal.
        numbers = {i: a for i, a in enumerate(args) if isinstance(a, int | float | np.generic)}
        if any(isinstance(a, np.generic) for a in numbers.values()):  # notes compare the sign of Python floats only
            raise NotRecordable
        stand_ins = {i: _stand_in(a) for i, a in enumerate(args) if a.__class__ is _ndarray}
        dry_run = DryRun()
        state.recording = dry_run
        try:
            results = function(*[stand_ins.get(i, a) for i, a in enumerate(args)])
        except Exception as error:  # the function may refuse the numbers of stand-ins
            raise NotRecordable from error
        finally:
            state.recording = None
        self.one = results.__class__ is _ndarray
        results = (results,) if self.one else results

        # The items of the native call are the arguments, and after them the memory of the results. Each result lies in
        # one item; in most cases it is the whole item, and needs no view.
        items = dict(stand_ins)
        self.new: list[tuple[tuple, np.dtype]] = []
        self.results: list[tuple[int, tuple | None] | None] = []
        for r in results:
            if r is None:
                self.results.append(None)
                continue
            i = _owner(r, items)
            if i is None:
                made = _owner(r, dict(enumerate(dry_run.buffers)))
                if made is None:  # an empty array, or NumPy's own memory, which no launch writes
                    raise NotRecordable
                buffer = dry_run.buffers[made]
                i, whole = len(args) + len(self.new), r.flags.c_contiguous and r.nbytes == buffer.nbytes
                items[i] = r if whole else buffer
                self.new.append((items[i].shape, items[i].dtype))
            a = items[i]
            if (r.shape, r.strides, r.dtype) == (a.shape, a.strides, a.dtype):
                self.results.append((i, None))
            elif a.flags.c_contiguous:
                self.results.append((i, (r.shape, r.dtype, _extent(r)[0] - _extent(a)[0], r.strides)))
            else:
                raise NotRecordable

        addresses, rows, dealt = [], [], []
        for row in dry_run.rows:
            if row[0] is None:
                rows.append((0, row[1]))
                continue
            kernel, launch = row
            rows.append((launch.entry, launch.buffer))
            dealt.append((launch.entry, launch.buffer.ctypes.data, launch.tasks))
            for at, a in _addresses(kernel, launch.args):
                i = _owner(a, items)
                if i is not None:
                    addresses.append((launch.buffer.ctypes.data + 8 * at, i, _extent(a)[0] - _extent(items[i])[0]))
        self.dry_run = dry_run  # keeps the memory that repeated launches use: intermediate results and settings
        on_threads = any(tasks > 1 for _, _, tasks in dealt)
        if on_threads and len(dealt) < len(rows):  # the native call tells which flag was set, a program does not
            raise NotRecordable
        self.noted = NativePlan(stand_ins, numbers, addresses, [] if on_threads else rows)
        as_made = self.results == [(len(args) + i, None) for i in range(len(self.new))]
        self.replay = self._for_any() if not as_made else self._for_one_array() if self.one else self._for_new_arrays()
        if on_threads:
            self.replay = self._on_threads(self.replay, Program(dealt))
        if fresh is poisoned:
            self.replay = self._on_spoiled(self.replay)

    def _for_one_array(self) -> Callable:
        """`replay` for a call that returns one new array; it returns OTHER if the arguments do not match the notes."""
        call, at, ((shape, dtype),) = self.noted.call, self.noted.at, self.new

        def replay(args: tuple):
            y = fresh(shape, dtype)
            items = (*args, y)
            status = call(at, id(items) + ITEMS)
            return y if status == FITS else self._otherwise(status)

        return replay

    def _for_new_arrays(self) -> Callable:
        """`replay` for a call that returns several arrays, all of them new."""
        call, at, new = self.noted.call, self.noted.at, self.new

        def replay(args: tuple):
            made = tuple([fresh(shape, dtype) for shape, dtype in new])
            items = args + made
            status = call(at, id(items) + ITEMS)
            return made if status == FITS else self._otherwise(status)

        return replay

    def _for_any(self) -> Callable:
        """`replay` for any results: new arrays, arguments, or views of either."""
        call, at, new = self.noted.call, self.noted.at, self.new

        def replay(args: tuple):
            items = args + tuple([fresh(shape, dtype) for shape, dtype in new])
            status = call(at, id(items) + ITEMS)
            if status != FITS:
                return self._otherwise(status)
            results = [r if r is None else items[r[0]] if r[1] is None else _seen(items[r[0]], *r[1]) for r in sources]
            return results[0] if one else tuple(results)

        sources, one = self.results, self.one
        return replay

    @staticmethod
    def _on_threads(replay: Callable, program: Program) -> Callable:
        """`replay` for launches with several tasks: it fills the blocks, and the program runs them.

        The program releases the interpreter's lock, so another thread could fill the blocks anew meanwhile: hence a
        lock. A thread that finds it closed makes the call as usual, rather than wait.
        """
        held = ThreadLock()

        def on_threads(args: tuple):
            lock = held.lock
            if not lock.acquire(blocking=False):
                return OTHER
            try:
                results = replay(args)
                if results is not OTHER:
                    program()
                return results
            finally:
                lock.release()

        return on_threads

    def _on_spoiled(self, replay: Callable) -> Callable:
        """`replay` with TINYTENSOR_POISON=nan: the memory of intermediate results is spoiled before each call.

        The native call keeps the interpreter's lock, so threads take turns with this memory. NumPy's `fill` releases
        it, and would overwrite another thread's numbers in the middle of its call: hence a lock around both.
        """
        held = ThreadLock()

        def on_spoiled(args: tuple):
            with held.lock:
                for buffer in self.dry_run.buffers:
                    poison(buffer)
                return replay(args)

        return on_spoiled

    def _otherwise(self, status: int):
        """OTHER, or the error of the flag that a kernel has set."""
        if status == OTHER:
            return OTHER
        _, flag, tell = self.dry_run.rows[status]
        return tell(flag)


def _seen(a: np.ndarray, shape: tuple, dtype: np.dtype, offset: int, strides: tuple) -> np.ndarray:
    return _ndarray(shape, dtype, a, offset, strides)


def _stand_in(a: np.ndarray) -> np.ndarray:
    """An array of the same shape, strides and dtype, on memory of its own."""
    if not a.size or a.dtype is OBJECT or a.dtype is not np.dtype(a.dtype.type) or min(a.strides, default=0) < 0:
        raise NotRecordable
    begin, end = _extent(a)
    if end - begin > LARGE:
        raise NotRecordable
    return _ndarray(a.shape, a.dtype, fresh(end - begin, np.uint8), 0, a.strides)


def _extent(a: np.ndarray) -> tuple[int, int]:
    """The addresses at which an array's memory begins and ends."""
    begin = a.__array_interface__["data"][0]
    return begin, begin + sum([(n - 1) * step for n, step in zip(a.shape, a.strides)]) + a.itemsize


def _owner(a: np.ndarray, others: dict[int, np.ndarray]) -> int | None:
    """The number of the other array whose memory contains this one; None if there is none."""
    begin, end = _extent(a)
    for i, other in others.items():
        first, last = _extent(other)
        if first <= begin and end <= last and a.size:
            return i
    return None


def _addresses(kernel: Kernel, args: tuple) -> list[tuple[int, np.ndarray]]:
    """The arrays of a launch, with the place in its block at which the address of each stands."""
    arrays, at = [], 2
    if isinstance(kernel, Elementwise):
        return list(enumerate(args, at))
    at = 0
    for a in args:
        if a.__class__ is _ndarray:
            arrays.append((at, a))
            at += 2 * a.ndim
        at += 1
    return arrays


class LaunchCache:
    """A function on arrays and settings whose repeated calls are short."""

    __slots__ = ("function", "known", "latest")

    def __init__(self, function: Callable):
        self.function = function
        self.known: dict[tuple, Callable | None] = {}  # by the whole key: the way of the call; None after the first one
        self.latest: dict[tuple, Callable] = {}  # by shapes and settings alone: the way of the last such call

    def __call__(self, *args):
        if state.watched:
            return self.function(*args)
        return self.run(args, tuple([a.shape if a.__class__ is _ndarray else a for a in args]))

    def run(self, args: tuple, short: tuple):
        """The results of a call that is not watched. `short` has the shapes of arrays, and the settings."""
        try:
            way = self.latest.get(short)
        except TypeError:  # a setting that is a list
            return self.function(*args)
        results = OTHER if way is None else way(args)
        return self._looked_at(args, short) if results is OTHER else results

    def _looked_at(self, args: tuple, short: tuple):
        """The results by the long way, which looks for an earlier call on arrays with these strides and dtypes."""
        several = any(isinstance(x, Tensor) for a in args if a.__class__ is tuple for x in a)  # of an input *xs
        if several or not is_ours(self.function):
            return self.function(*args)
        key = tuple([(a.shape, a.strides, a.dtype) if a.__class__ is _ndarray else (a.__class__, a) for a in args])
        if key not in self.known:
            if len(self.known) >= MOST:  # so that programs with ever new sizes do not fill the memory
                self.known.clear()
                self.latest.clear()
            self.known[key] = None
            return self.function(*args)
        if self.known[key] is None:
            self.known[key] = self._way(args)
        self.latest[short] = self.known[key]
        results = self.known[key](args)
        # Arrays with equal keys can still differ: a dtype that came out of a pickle is another object.
        return self.function(*args) if results is OTHER else results

    def _way(self, args: tuple) -> Callable[[tuple], Any]:
        """The function that makes such calls from now on: notes if possible, else the function itself."""
        try:
            return LaunchPlan(self.function, args).replay
        except NotRecordable:
            return lambda args: self.function(*args)


@functools.cache
def with_launch_cache(function: Callable) -> LaunchCache:
    """The function, with short repeated calls."""
    return LaunchCache(function)


@functools.cache
def on_tensors(rule: Callable) -> Callable:
    """A rule on tensors and settings, with short repeated calls; its results are not differentiated again."""

    @functools.wraps(rule)
    def on_arrays(*args):
        r = rule(*[Tensor.of(a) if a.__class__ is _ndarray else a for a in args])
        return r._data if isinstance(r, Tensor) else tuple([x._data for x in r])

    quick = LaunchCache(on_arrays)

    def call(*args):
        if state.recording is not None:  # a recording must notice the tensors themselves
            return rule(*args)
        r = quick(*[a._data if isinstance(a, Tensor) else a for a in args])
        return Tensor.of(r) if r.__class__ is _ndarray else tuple([Tensor.of(x) for x in r])

    return call

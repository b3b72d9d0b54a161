"""What an operation does again, on other arrays, as one native call.

What runs forward and backward looks at shapes, makes views, asks for memory, and launches kernels. A program of small
tensors spends its day with that, not in kernels. But all of it follows from the shapes, strides and dtypes of the
arrays, and from the settings: a recording could not be replayed otherwise. So when a function is called with such
arguments a second time, it is rehearsed: it runs on stand-ins, arrays that look the same on memory that nobody uses. A
`Rehearsal` stands where a recording would, and notes the launches without making them. From then on the same call is
new memory for the results and one native call, which compares the arrays with the stand-ins, and makes the launches.

Only what is small is done so: launches of one task each. And only what the engine declares, of which the tests know
that it computes by nothing but launches. A function that does anything else, a host call say, is called as ever.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tinytensor.core.dispatch import OBJECT, state
from tinytensor.core.recorder import NotRecordable, Recorder
from tinytensor.core.tensor import Tensor
from tinytensor.cpython.object_layout import ITEMS
from tinytensor.native.blocks import FITS, OTHER, Noted
from tinytensor.native.entries import is_ours
from tinytensor.native.kernel import Elementwise, Kernel
from tinytensor.native.uninitialized import fresh, spoil, spoiled

MOST = 256  # calls of a function that are remembered
LARGE = 1 << 20  # bytes of an array that is not small: what is made again keeps what it needs in between

_ndarray = np.ndarray


class Rehearsal(Recorder):
    """Notes the launches of a function that runs on stand-ins, without making them."""

    def __init__(self):
        self.pool = self
        self.buffers: list[np.ndarray] = []  # the memory that was asked for
        self.rows: list[tuple] = []  # (kernel, launch), or (None, flag, what is said when it is set)

    def buffer(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        self.buffers.append(fresh(shape, dtype))
        if self.buffers[-1].nbytes > LARGE:
            raise NotRecordable
        return self.buffers[-1]

    def launch(self, kernel: Kernel, args: tuple) -> None:
        launch = kernel.prepare(args)
        if launch.tasks != 1:
            raise NotRecordable
        self.rows.append((kernel, launch))

    def check(self, flag: np.ndarray, tell: Callable) -> None:
        self.rows.append((None, flag, tell))

    def notice(self, tensor: Tensor) -> None:
        """A rule uses a tensor: one of its arguments, or one that was made of these."""

    def owns(self, array: np.ndarray) -> bool:
        raise NotRecordable

    @property
    def surroundings(self) -> Any:
        raise NotRecordable


class Notes:
    """What a call does, found by a rehearsal; `again(args)` does it on the arrays of another call."""

    def __init__(self, function: Callable, args: tuple):
        """NotRecordable, if there is no other way than to call the function."""
        # For Python, and so for the key under which a call is known, 0.0, -0.0, 0 and False are the same.
        numbers = {i: a for i, a in enumerate(args) if isinstance(a, int | float | np.generic)}
        if any(isinstance(a, np.generic) for a in numbers.values()):  # where would its sign be?
            raise NotRecordable
        stand_ins = {i: _stand_in(a) for i, a in enumerate(args) if a.__class__ is _ndarray}
        rehearsal = Rehearsal()
        state.recording = rehearsal
        try:
            results = function(*[stand_ins.get(i, a) for i, a in enumerate(args)])
        except Exception as error:  # stand-ins hold other numbers, which it may refuse
            raise NotRecordable from error
        finally:
            state.recording = None
        self.one = results.__class__ is _ndarray
        results = (results,) if self.one else results

        # The items of the native call are the arguments, and after them the memory of the results. Each result lies in
        # one of them; in most cases it is all of that, and needs no view.
        items = dict(stand_ins)
        self.new: list[tuple[tuple, np.dtype]] = []
        self.results: list[tuple[int, tuple | None] | None] = []
        for r in results:
            if r is None:
                self.results.append(None)
                continue
            i = _owner(r, items)
            if i is None:
                made = _owner(r, dict(enumerate(rehearsal.buffers)))
                if made is None:  # an array of no elements lies nowhere, and NumPy's own where no launch writes
                    raise NotRecordable
                buffer = rehearsal.buffers[made]
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

        places, rows = [], []
        for row in rehearsal.rows:
            if row[0] is None:
                rows.append((0, row[1]))
                continue
            kernel, launch = row
            rows.append((launch.entry, launch.block))
            for at, a in _addresses(kernel, launch.args):
                i = _owner(a, items)
                if i is not None:
                    places.append((launch.block.ctypes.data + 8 * at, i, _extent(a)[0] - _extent(items[i])[0]))
        self.rehearsal = rehearsal  # whose memory is used again: what lies between the launches, and settings
        self.noted = Noted(stand_ins, numbers, places, rows)
        as_made = self.results == [(len(args) + i, None) for i in range(len(self.new))]
        self.again = self._for_any() if not as_made else self._for_one_array() if self.one else self._for_new_arrays()
        if fresh is spoiled:
            self.again = self._on_spoiled(self.again)

    def _for_one_array(self) -> Callable:
        """The same call on other arguments, where it makes one array; OTHER if they are others than were noted."""
        call, at, ((shape, dtype),) = self.noted.call, self.noted.at, self.new

        def again(args: tuple):
            y = fresh(shape, dtype)
            items = (*args, y)
            told = call(at, id(items) + ITEMS)
            return y if told == FITS else self._otherwise(told)

        return again

    def _for_new_arrays(self) -> Callable:
        """The same where it returns the several arrays that it makes."""
        call, at, new = self.noted.call, self.noted.at, self.new

        def again(args: tuple):
            made = tuple([fresh(shape, dtype) for shape, dtype in new])
            items = args + made
            told = call(at, id(items) + ITEMS)
            return made if told == FITS else self._otherwise(told)

        return again

    def _for_any(self) -> Callable:
        """The same for any number of arrays, some of which may be arguments, or views."""
        call, at, new = self.noted.call, self.noted.at, self.new

        def again(args: tuple):
            items = args + tuple([fresh(shape, dtype) for shape, dtype in new])
            told = call(at, id(items) + ITEMS)
            if told != FITS:
                return self._otherwise(told)
            results = [r if r is None else items[r[0]] if r[1] is None else _seen(items[r[0]], *r[1]) for r in found]
            return results[0] if one else tuple(results)

        found, one = self.results, self.one
        return again

    def _on_spoiled(self, again: Callable) -> Callable:
        """The same where unwritten memory is to show: what lies between the launches is nothing before each call.

        The native call keeps the interpreter's lock, so no other thread sees this memory in use. NumPy's `fill` gives
        it up, and another thread would find its own numbers overwritten in the middle: hence a lock around both.
        """
        lock = threading.Lock()

        def on_spoiled(args: tuple):
            with lock:
                for buffer in self.rehearsal.buffers:
                    spoil(buffer)
                return again(args)

        return on_spoiled

    def _otherwise(self, told: int):
        """Say what there is to say where a flag was set."""
        if told == OTHER:
            return OTHER
        _, flag, tell = self.rehearsal.rows[told]
        return tell(flag)


def _seen(a: np.ndarray, shape: tuple, dtype: np.dtype, offset: int, strides: tuple) -> np.ndarray:
    return _ndarray(shape, dtype, a, offset, strides)


def _stand_in(a: np.ndarray) -> np.ndarray:
    """An array that looks like this one, on memory of its own."""
    if not a.size or a.dtype is OBJECT or a.dtype is not np.dtype(a.dtype.type) or min(a.strides, default=0) < 0:
        raise NotRecordable
    begin, end = _extent(a)
    if end - begin > LARGE:
        raise NotRecordable
    return _ndarray(a.shape, a.dtype, fresh(end - begin, np.uint8), 0, a.strides)


def _extent(a: np.ndarray) -> tuple[int, int]:
    """Where its memory begins and ends."""
    begin = a.__array_interface__["data"][0]
    return begin, begin + sum([(n - 1) * step for n, step in zip(a.shape, a.strides)]) + a.itemsize


def _owner(a: np.ndarray, others: dict[int, np.ndarray]) -> int | None:
    """The number of the array in whose memory this one lies."""
    begin, end = _extent(a)
    for i, other in others.items():
        first, last = _extent(other)
        if first <= begin and end <= last and a.size:
            return i
    return None


def _addresses(kernel: Kernel, args: tuple) -> list[tuple[int, np.ndarray]]:
    """The arrays of a launch, with the place in its block at which the address of each stands."""
    found, at = [], 2
    if isinstance(kernel, Elementwise):
        return list(enumerate(args, at))
    at = 0
    for a in args:
        if a.__class__ is _ndarray:
            found.append((at, a))
            at += 2 * a.ndim
        at += 1
    return found


class Again:
    """A function on arrays and settings, which does quickly what it does again."""

    __slots__ = ("function", "known", "latest")

    def __init__(self, function: Callable):
        self.function = function
        self.known: dict[tuple, Callable | None] = {}  # by all that counts: how it is done; None after the first call
        self.latest: dict[tuple, Callable] = {}  # by the shapes and settings: how the last such call was done

    def __call__(self, *args):
        if state.watched:
            return self.function(*args)
        return self.run(args, tuple([a.shape if a.__class__ is _ndarray else a for a in args]))

    def run(self, args: tuple, short: tuple):
        """The results; nobody watches. `short` has the shapes of arrays, and the settings."""
        try:
            way = self.latest.get(short)
        except TypeError:  # a setting that is a list
            return self.function(*args)
        results = OTHER if way is None else way(args)
        return self._looked_at(args, short) if results is OTHER else results

    def _looked_at(self, args: tuple, short: tuple):
        """The long way: has there been such a call before, on arrays with these strides and dtypes?"""
        several = any(isinstance(x, Tensor) for a in args if a.__class__ is tuple for x in a)  # of an input *xs
        if several or not is_ours(self.function):
            return self.function(*args)
        key = tuple([(a.shape, a.strides, a.dtype) if a.__class__ is _ndarray else (a.__class__, a) for a in args])
        if key not in self.known:
            if len(self.known) >= MOST:  # programs whose sizes are always new need not fill the memory
                self.known.clear()
                self.latest.clear()
            self.known[key] = None
            return self.function(*args)
        if self.known[key] is None:
            self.known[key] = self._way(args)
        self.latest[short] = self.known[key]
        results = self.known[key](args)
        # Arrays can differ in what the key does not have: a dtype that came out of a pickle is another object.
        return self.function(*args) if results is OTHER else results

    def _way(self, args: tuple) -> Callable[[tuple], Any]:
        """How such a call is done from now on."""
        try:
            return Notes(self.function, args).again
        except NotRecordable:
            return lambda args: self.function(*args)


@functools.cache
def again(function: Callable) -> Again:
    """The function, which does quickly what it does again."""
    return Again(function)


@functools.cache
def on_tensors(rule: Callable) -> Callable:
    """A rule, on tensors and settings, which does quickly what it does again; nobody differentiates what it does."""

    @functools.wraps(rule)
    def on_arrays(*args):
        r = rule(*[Tensor.of(a) if a.__class__ is _ndarray else a for a in args])
        return r._data if isinstance(r, Tensor) else tuple([x._data for x in r])

    quick = Again(on_arrays)

    def call(*args):
        if state.recording is not None:  # it must hear of the tensors themselves
            return rule(*args)
        r = quick(*[a._data if isinstance(a, Tensor) else a for a in args])
        return Tensor.of(r) if r.__class__ is _ndarray else tuple([Tensor.of(x) for x in r])

    return call

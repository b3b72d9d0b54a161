"""The memory of a recording: a pool of buffers, each leased to the arrays that use it.

A recorded launch holds addresses, so the memory behind them must stay until the recording is freed. If each result kept
a buffer of its own, a training step would need the sum of all its results; but at any moment few of them are in use. So
a buffer returns to the pool when the last array that uses it is gone, and may serve a later launch of the same run.

Is that safe in a replay, where no array comes or goes? A replay makes the same launches in the same order. The run
reused a buffer only after the last launch that read its old value, and so does the replay.
"""

import math
from weakref import WeakSet

import numpy as np

from tinytensor.core.kernel import OBJECT
from tinytensor.core.poison import aligned, fresh, poison, poisoned

BYTE = np.dtype(np.uint8)


class Pool:
    """The buffers of one recording."""

    def __init__(self):
        self.leases: WeakSet[Lease] = WeakSet()  # buffers in use
        self.free: dict[int, list[np.ndarray]] = {}  # buffers that no array uses, by size in bytes
        self.all: list[np.ndarray] = []

    def buffer(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialised array on memory of the pool."""
        size = math.prod(shape) * dtype.itemsize
        if size == 0 or dtype is OBJECT:
            return np.empty(shape, dtype)
        free = self.free.get(size)
        memory = free.pop() if free else self._more(size)
        if fresh is poisoned:  # the new lease must not depend on the buffer's old contents
            poison(memory)
        lease = Lease(self, memory, shape, dtype)
        self.leases.add(lease)
        return np.asarray(lease)

    def _more(self, size: int) -> np.ndarray:
        self.all.append(aligned((size,), BYTE))
        return self.all[-1]

    def poison(self) -> None:
        """Poison all buffers before a replay, if that is switched on: it may read only values that it wrote itself."""
        if fresh is poisoned:
            for memory in self.all:
                poison(memory)

    def owns(self, array: np.ndarray) -> bool:
        """Does the array use a buffer of this pool?"""
        lease = lease_of(array)
        return lease is not None and lease.pool is self


class Lease:
    """A buffer of a pool while an array uses it.

    NumPy makes an array of any object with an `__array_interface__`, and keeps the object alive as the array's base; so
    do all views of the array. When the last of them is gone, Python calls `__del__` here at once.
    """

    def __init__(self, pool: Pool, memory: np.ndarray, shape: tuple[int, ...], dtype: np.dtype):
        self.pool, self.memory = pool, memory
        data = (memory.ctypes.data, False)
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": data, "version": 3}

    def __del__(self):
        self.pool.free.setdefault(self.memory.size, []).append(self.memory)


def lease_of(array: np.ndarray) -> Lease | None:
    """The lease of the buffer that an array uses, if the buffer belongs to a recording."""
    base = array.base
    while base is not None and not isinstance(base, Lease):  # arrays, and the objects that as_strided() puts between
        base = getattr(base, "base", None)
    return base


def owned(value):
    """An argument as a recording keeps it: an array on a leased buffer refers to the memory itself, not to the lease.

    If the recording kept the array, the lease would never end, and no buffer would come back.
    """
    if isinstance(value, list):
        return [owned(v) for v in value]
    lease = lease_of(value) if isinstance(value, np.ndarray) else None
    if lease is None:
        return value
    offset = value.__array_interface__["data"][0] - lease.memory.__array_interface__["data"][0]
    return np.ndarray(value.shape, value.dtype, lease.memory, offset, value.strides)

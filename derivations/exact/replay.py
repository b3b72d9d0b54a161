"""A recorded program, launch by launch, over exact scalars: the very launches that a replay makes.

A recording holds launches on arrays whose memory is reused (`pool.py`). `Replay` gives each block of memory a
counterpart of as many exact scalars, and each array of a launch becomes the same view of the counterpart. So it runs
what was recorded, not the function. A buffer that is reused too early has the wrong value here, too, and reading a
buffer that was never written raises an error.

Arrays of whole numbers and truth values stay as they are: launches on such arrays alone run their native code.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from tinytensor.core.kernel import OBJECT, Kernel
from tinytensor.native.recording.recording import Recording
from tinytensor.native.simd.isa import BYTES
from tinytensor.symbolic.exact.lifting import lift
from tinytensor.symbolic.exact.scalars import get_scalar_type


class Replay:
    """The memory of a recording, with exact scalars in the place of its floats."""

    def __init__(self, recording: Recording):
        self.recording = recording
        self.blocks: list[tuple[int, int, np.ndarray, dict]] = []  # first byte, one after the last, memory, scalars
        for function, args, _ in (early[1:] for early in recording.early):
            function(*args)
        for array in recording.arrays():
            self._block(array)

    def _block(self, array: np.ndarray) -> tuple[int, int, np.ndarray, dict]:
        """The memory in which an array lies."""
        first, last = byte_bounds(array)
        for block in self.blocks:
            if block[0] <= first and last <= block[1]:
                return block
        while isinstance(array.base, np.ndarray):
            array = array.base
        self.blocks.append((*byte_bounds(array), array, {}))
        return self.blocks[-1]

    def scalars(self, array: np.ndarray) -> np.ndarray:
        """The array of exact scalars that replaces an array of floats; any other array is returned as it is.

        Memory from outside the recording holds its present numbers, as fractions; the recording's own is still empty.
        """
        if array.dtype.kind != "f":
            return array
        if array.size == 0:
            return np.empty(array.shape, object)
        begin, _, memory, counterparts = self._block(array)
        size = array.itemsize
        if size not in counterparts:
            counterparts[size] = np.full(memory.nbytes // size, None, object)
            if memory.dtype == array.dtype:
                of = get_scalar_type().of
                counterparts[size][:] = [of(x) for x in memory.ravel(order="K").tolist()]
        offset = (array.__array_interface__["data"][0] - begin) // size
        strides = [s // size * OBJECT.itemsize for s in array.strides]
        return as_strided(counterparts[size][offset:], array.shape, strides)

    def launches(self) -> Iterator[tuple[Kernel | Callable, list]]:
        """Run each launch and host call, one after the other; before each, yield it and its arguments."""
        for what, how in self.recording.noted:
            if what is None:
                if how[0]:
                    raise RuntimeError("replay: a check has found a value that is impossible")
                continue
            originals = how.args if isinstance(what, Kernel) else how
            args = [self.scalars(a) if isinstance(a, np.ndarray) else a for a in originals]
            yield what, args
            if not isinstance(what, Kernel):
                what(*args)
            elif all(a is b for a, b in zip(args, originals, strict=True)):
                what.run(how)
            else:
                _lift(what)(*args)


def _lift(kernel: Kernel) -> Callable:
    """The lifted kernel, with registers of as many numbers as they hold of float32."""
    try:
        return lift(kernel, BYTES=BYTES * OBJECT.itemsize // np.dtype(np.float32).itemsize)
    except TypeError:  # the kernel has no constant BYTES
        return lift(kernel)

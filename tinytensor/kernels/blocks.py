"""The block of a launch: its arguments as words of memory, from which an entry reads them (`entries.py`).

Python writes one word for each argument: of a number its bits, of an array where its object stands. The rest is native,
since it is on the way of every launch, and Python would take longer over it than a small kernel takes over its work.
An array's object has, after what every Python object begins with, the address of the data, the number of dimensions,
and the addresses of its sizes and strides. NumPy's C header says so to every extension that is compiled with it, and so
it can't change without breaking all of them.
"""

import struct

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from tinytensor.kernels.driver import call, native

_WORD = ir.IntType(64)
HEAD = object.__basicsize__  # bytes with which every Python object begins
DATA, NDIM, SIZES, STRIDES = range(4)  # the words of an array's object after these
# The bits of a number, as `struct` calls them; what is smaller than a word stands at its beginning.
LETTERS = {"f4": "f4x", "f8": "d", "i4": "i4x", "i8": "q", "u1": "B7x", "b1": "?7x"}
FITS = -1  # what is told where no argument is wrong


@intrinsic
def word(typing, address, i):
    """The i-th word at an address."""

    def codegen(context, builder, signature, args):
        return builder.load(builder.gep(builder.inttoptr(args[0], _WORD.as_pointer()), [args[1]]))

    return types.intp(types.intp, types.intp), codegen


# --------------------------------------------------------------------------------------------------------------- loops


@native()
def _fill_loop(block, kinds):
    """Make a block of its first words: of an array its address, sizes and strides in bytes.

    The last argument comes first, so that no word is written over before it is read. An array without elements has the
    address 0. Before a loop that writes becomes vectors, compiled code asks whether the arrays may overlap, as far as
    the loop would go in each of them. An empty one, somewhere near another, would then decide by chance which way of
    adding up is taken, and so the last bits of a sum.

    Returns the number of an argument whose elements do not lie side by side where they must, or FITS.
    """
    wrong, end = FITS, block.size
    for i in range(kinds.shape[0] - 1, -1, -1):
        ndim, step = kinds[i, 0], kinds[i, 1]
        if ndim < 0:
            end -= 1
            block[end] = block[i]
            continue
        array = block[i] + HEAD
        sizes, strides = word(array, SIZES), word(array, STRIDES)
        size, gap = 1, False
        for d in range(ndim - 1, -1, -1):
            n, stride = word(sizes, d), word(strides, d)
            end -= 1
            block[end] = stride
            block[end - ndim] = n
            gap |= n != 1 and stride != step * size
            size *= n
        end -= ndim + 1
        block[end] = word(array, DATA) if size else 0
        if gap and size and not kinds[i, 2]:
            wrong = i
    return wrong


@native()
def _run_loop(entry, block, kinds):
    """Make a block of its first words, and run the loop on it as one task."""
    wrong = _fill_loop(block, kinds)
    if wrong == FITS:
        call(entry, block.ctypes.data, 0, 1)
    return wrong


class LoopLayout:
    """How the arguments of a loop lie in its block, for arguments of these types."""

    def __init__(self, names: tuple[str, ...], strided: tuple[bool, ...], args: tuple):
        letters, kinds, self.size = "=", [], 0
        for a, any_strides in zip(args, strided, strict=True):
            if isinstance(a, np.ndarray):
                letters += "q"
                kinds.append((a.ndim, a.itemsize, any_strides))
                self.size += 1 + 2 * a.ndim
            else:
                number = isinstance(a, np.generic) and a.dtype.str[1:]
                letters += LETTERS[number] if number else "q" if isinstance(a, int) else "d"
                kinds.append((-1, 0, 0))
                self.size += 1
        self.names, self.write = names, struct.Struct(letters).pack_into
        self.kinds = np.array(kinds, np.int64).reshape(-1, 3)

    def block(self, name: str, args: tuple) -> np.ndarray:
        """The block of these arguments; TypeError where neighbours are not neighbours in memory, as the build thinks.

        Of such an array it would read the wrong numbers.
        """
        block = self._words(args)
        self._tell(_fill_loop(block, self.kinds), name, args)
        return block

    def run(self, name: str, entry: int, args: tuple) -> None:
        """Run a loop as one task, on a block that is needed only for that."""
        self._tell(_run_loop(entry, self._words(args), self.kinds), name, args)

    def _words(self, args: tuple) -> np.ndarray:
        block = np.empty(self.size, np.int64)
        self.write(block, 0, *[id(a) if a.__class__ is np.ndarray else a for a in args])
        return block

    def _tell(self, wrong: int, name: str, args: tuple) -> None:
        if wrong != FITS:
            raise TypeError(
                f"kernel {name}: {self.names[wrong]} of shape {args[wrong].shape} is not contiguous; copy it first"
            )


# ------------------------------------------------------------------------------------------------------------ formulas


@njit(forceinline=True)
def _ndim(array):
    return word(array + HEAD, NDIM) & 0xFFFFFFFF  # an int, beside which lies nothing


@njit(forceinline=True)
def _size(array, d):
    """The size of the d-th dimension from the right, counted from 1; one that is lacking has size 1."""
    ndim = _ndim(array)
    return word(word(array + HEAD, SIZES), ndim - d) if d <= ndim else 1


@njit(forceinline=True)
def _fill(block, itemsizes):
    """Make the block of a formula, at whose end stands where the objects of its arrays are, the last of them y.

    It is another than that of a loop: what lies in memory as one dimension is one dimension here, so that almost always
    one or two are left. Its words: how many dimensions there are beside the innermost one, and how many rows of that
    one; the addresses of the operands; for each dimension, the inner ones first, its size and the strides of the
    operands. Strides count elements, and are 0 where an operand has a dimension once or not at all: each step along it
    then comes to the same element again.

    Returns the number of an array that does not broadcast to the last one, or FITS.
    """
    n = itemsizes.size
    objects, here = block.size - n, 2 + n  # where the objects are; where the next dimension belongs
    first, before, total = here, here, 1
    y = block[objects + n - 1]
    for i in range(n):
        block[2 + i] = word(block[objects + i] + HEAD, DATA)
        for d in range(_ndim(y) + 1, _ndim(block[objects + i]) + 1):
            if _size(block[objects + i], d) != 1:
                return i
    block[first] = 1
    for d in range(1, _ndim(y) + 1):
        size, as_one = _size(y, d), here > first
        total *= size
        if size == 1:
            for i in range(n):
                if _size(block[objects + i], d) != 1:
                    return i
            continue
        for i in range(n):
            array = block[objects + i]
            mine, stride = _size(array, d), 0
            if mine != 1:
                if mine != size:
                    return i
                stride = word(word(array + HEAD, STRIDES), _ndim(array) - d) // itemsizes[i]
            as_one &= stride == block[before + 1 + i] * block[before]
            block[here + 1 + i] = stride
        if as_one:  # all operands step through it and the one before as through one
            block[before] *= size
        else:
            block[here] = size
            before, here = here, here + 1 + n
    if here == first:  # one number: no step is made
        for i in range(n):
            block[first + 1 + i] = 1
        here += 1 + n
    block[0] = (here - first) // (1 + n) - 1
    block[1] = total // block[first] if block[first] else 0
    return FITS


@native()
def _fill_formula(block, itemsizes):
    return _fill(block, itemsizes)


@native()
def _run_formula(entry, itemsizes, first, second, third):
    """Fill a block of two or three operands, and run the formula on it as one task."""
    n = itemsizes.size
    y = second if n == 2 else third
    block = np.empty(2 + n + max(_ndim(y), 1) * (1 + n) + n, np.int64)
    block[block.size - n], block[block.size - n + 1], block[block.size - 1] = first, second, y
    wrong = _fill(block, itemsizes)
    if wrong == FITS:
        call(entry, block.ctypes.data, 0, 1)
    return wrong


class FormulaLayout:
    """How the operands of a formula lie in its block, for arrays of these types."""

    def __init__(self, arrays: list[np.ndarray]):
        self.itemsizes = np.array([a.itemsize for a in arrays], np.int64)
        self.write = struct.Struct(f"={len(arrays)}q").pack_into

    def block(self, name: str, arrays: list[np.ndarray]) -> np.ndarray:
        """The block of these arrays; ValueError where one does not broadcast to the last."""
        n = len(arrays)
        block = np.empty(2 + n + (arrays[-1].ndim or 1) * (1 + n) + n, np.int64)
        self.write(block, block.nbytes - 8 * n, *map(id, arrays))
        wrong = _fill_formula(block, self.itemsizes)
        if wrong != FITS:
            self._refuse(wrong, name, arrays)
        return block

    def run(self, name: str, entry: int, arrays: list[np.ndarray]) -> None:
        """Run a formula of two or three operands as one task, on a block that is needed only for that."""
        wrong = _run_formula(entry, self.itemsizes, id(arrays[0]), id(arrays[1]), id(arrays[-1]))
        if wrong != FITS:
            self._refuse(wrong, name, arrays)

    @staticmethod
    def _refuse(wrong: int, name: str, arrays: list[np.ndarray]) -> None:
        raise ValueError(
            f"kernel {name}: an array of shape {arrays[wrong].shape} does not broadcast to {arrays[-1].shape}"
        )

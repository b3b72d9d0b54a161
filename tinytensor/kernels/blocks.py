"""The block of a launch: its arguments as words of memory, from which an entry reads them (`entries.py`).

Python writes one word for each argument: of a number its bits, of an array where its object stands. The rest is native,
since it is on the way of every launch, and Python would take longer over it than a small kernel takes over its work.
An array's object has, after what every Python object begins with, the address of the data, the number of dimensions,
and the addresses of its sizes and strides. NumPy's C header says so to every extension that is compiled with it, and so
it can't change without breaking all of them.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from tinytensor.kernels.driver import native

_WORD = ir.IntType(64)
HEAD = object.__basicsize__  # bytes with which every Python object begins
DATA, NDIM, SIZES, STRIDES = range(4)  # the words of an array's object after these
INT, FLOAT = "q", "d"  # of Python's own numbers, as `struct` calls them
FITS = -1  # what is told where no argument is wrong


class Layout(NamedTuple):
    """How the arguments of a loop lie in its block, for arguments of these types."""

    write: Callable  # write(block, 0, *arguments): a word for each, of an array the id of its object
    kinds: np.ndarray  # (n, 3): dimensions (-1: a number), bytes of an element, may it have any strides?
    size: int  # words


def layout_of(args: tuple, strided: tuple[bool, ...]) -> Layout:
    """The layout for arguments of these types; what has another size than a word stands at its beginning."""
    letters, kinds, size = "=", [], 0
    for a, any_strides in zip(args, strided, strict=True):
        if isinstance(a, np.ndarray):
            letters += INT
            kinds.append((a.ndim, a.itemsize, any_strides))
            size += 1 + 2 * a.ndim
        else:
            number = isinstance(a, np.generic) and a.dtype.kind + str(a.dtype.itemsize)
            letter = {"f4": "f4x", "i4": "i4x", "b1": "?7x", "f8": FLOAT, "i8": INT}[number] if number else None
            letters += letter or (INT if isinstance(a, int) else FLOAT)
            kinds.append((-1, 0, 0))
            size += 1
    return Layout(struct.Struct(letters).pack_into, np.array(kinds, np.int64).reshape(-1, 3), size)


def words(n: int) -> Callable:
    """write(block, at, *numbers) of n whole numbers: where in the block, in bytes, and what to write there."""
    return struct.Struct(f"={n}{INT}").pack_into


@intrinsic
def word(typing, address, i):
    """The i-th word at an address."""

    def codegen(context, builder, signature, args):
        return builder.load(builder.gep(builder.inttoptr(args[0], _WORD.as_pointer()), [args[1]]))

    return types.intp(types.intp, types.intp), codegen


@native()
def fill_loop(block, kinds):
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


@njit(forceinline=True)
def _ndim(array):
    return word(array + HEAD, NDIM) & 0xFFFFFFFF  # an int, beside which lies nothing


@njit(forceinline=True)
def _size(array, d):
    """The size of the d-th dimension from the right, the first of which is 1; a dimension that is lacking has size 1."""
    ndim = _ndim(array)
    return word(word(array + HEAD, SIZES), ndim - d) if d <= ndim else 1


@native()
def fill_formula(block, itemsizes):
    """Make the block of a formula, at whose end stands where the objects of its arrays are, the last of them y.

    It is another than that of a loop: what lies in memory as one dimension is one dimension here, so that almost always
    one or two are left. Its words: how many dimensions there are beside the innermost one, and how many rows of that
    one; the addresses of the operands; for each dimension, the inner ones first, its size and the strides of the
    operands. Strides count elements, and are 0 where an operand has a dimension once or not at all: each step along it
    then comes to the same element again.

    Returns the number of an array that does not broadcast to the last one, or FITS.
    """
    n = itemsizes.size
    objects, dims = block[block.size - n :], block[2 + n : block.size - n].reshape(-1, 1 + n)
    y = objects[n - 1]
    for i in range(n):
        block[2 + i] = word(objects[i] + HEAD, DATA)
        for d in range(_ndim(y) + 1, _ndim(objects[i]) + 1):
            if _size(objects[i], d) != 1:
                return i
    found, total = 0, 1
    dims[0] = 1
    for d in range(1, _ndim(y) + 1):
        size, as_one = _size(y, d), found > 0
        for i in range(n):
            mine, stride = _size(objects[i], d), 0
            if mine != 1:
                if mine != size:
                    return i
                stride = word(word(objects[i] + HEAD, STRIDES), _ndim(objects[i]) - d) // itemsizes[i]
            as_one &= stride == dims[found - 1, 1 + i] * dims[found - 1, 0]
            dims[found, 1 + i] = stride
        total *= size
        if as_one and size != 1:  # all operands step through it and the one before as through one
            dims[found - 1, 0] *= size
        elif size != 1:
            dims[found, 0] = size
            found += 1
    block[0] = max(found - 1, 0)
    block[1] = total // dims[0, 0] if dims[0, 0] else 0
    return FITS

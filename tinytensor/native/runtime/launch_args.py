"""Launch arguments: the arguments of a kernel packed as 64-bit words, which its entry point reads (`entry_points.py`).

Python writes one word for each argument: the bits of a number, or the address of an array's object. The rest is native
code, because every launch needs it, and Python would take longer than a small kernel takes for its work. The layout of
an array's object is in native/platform/object_layout.py.
"""

import struct
from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytensor.native.platform.object_layout import DATA, DTYPE, HEAD, NDIM, SIZES, STRIDES, words_at
from tinytensor.native.runtime.compiler import inlined
from tinytensor.native.runtime.scheduler import WORD, call, native
from tinytensor.native.simd.address import array_at

SINGLE_TASK_SIZE = 8000  # elements of a formula that is one task: 8 microseconds of work
# The bits of a number, as `struct` names them; a number smaller than a word stands at the word's beginning.
LETTERS = {"f4": "f4x", "f8": "d", "i4": "i4x", "i8": "q", "u1": "B7x", "b1": "?7x"}
FITS = -1  # the answer if no argument is wrong
OTHER = -2  # the answer if the arrays differ from those of the plan
LARGE = -3  # the answer for a formula of more than one task, or of more than MAX_DIMS dimensions
STACK_WORDS = 160  # words of an argument buffer on the stack
MAX_DIMS = 16  # of a formula whose arguments are packed on the stack
_ARRAY = id(np.ndarray)


@intrinsic
def word(typing, address, i):
    """The i-th word at an address."""

    def codegen(context, builder, signature, args):
        return builder.load(builder.gep(builder.inttoptr(args[0], WORD.as_pointer()), [args[1]]))

    return types.intp(types.intp, types.intp), codegen


@intrinsic
def _words_at(typing, address, n):
    """The n words at an address, as an array."""
    ty = types.Array(types.intp, 1, "C")

    def codegen(context, builder, signature, args):
        address, n = args
        return array_at(context, builder, ty, address, [n], [ir.Constant(WORD, 8)])

    return ty(types.intp, types.intp), codegen


@intrinsic
def _stack_words(typing):
    """The address of ROOM words on the stack, which live as long as the call: allocating them would take longer."""

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(cgutils.alloca_once(builder, WORD, size=STACK_WORDS), WORD)

    return types.intp(), codegen


def _compile_for_words(function: Callable, words: int = 5) -> Callable:
    """The build of a native function for this many words.

    Numba's own call first looks up the build for the arguments' types. Here there is only one build.
    """
    return function.compile((types.intp,) * words)


@inlined
def _ndim(array):
    return word(array + HEAD, NDIM) & 0xFFFFFFFF  # an int, beside which lies nothing


# --------------------------------------------------------------------------------------------------------------- loops


@inlined
def _expand_arrays(buffer, arg_table):
    """Expand the first words to the buffer: each array becomes its address, sizes and strides in bytes.

    The last argument is expanded first, so that no word is overwritten before it is read. An array without elements has
    the address 0. Compiled code checks whether the arrays of a vectorized loop overlap. The address of an empty array
    could be near another array by chance, and would then decide the order of a sum, and so its last bits.

    Returns the number of an argument whose elements must lie side by side and do not, or FITS.
    """
    wrong, end = FITS, buffer.size
    for i in range(arg_table.shape[0] - 1, -1, -1):
        ndim, step = arg_table[i, 0], arg_table[i, 1]
        if ndim < 0:
            end -= 1
            buffer[end] = buffer[i]
            continue
        array = buffer[i] + HEAD
        sizes, strides = word(array, SIZES), word(array, STRIDES)
        size, gap = 1, False
        for d in range(ndim - 1, -1, -1):
            n, stride = word(sizes, d), word(strides, d)
            end -= 1
            buffer[end] = stride
            buffer[end - ndim] = n
            gap |= n != 1 and stride != step * size
            size *= n
        end -= ndim + 1
        buffer[end] = word(array, DATA) if size else 0
        if gap and size and not arg_table[i, 2]:
            wrong = i
    return wrong


@native()
def _pack_loop_args(buffer, arg_table):
    return _expand_arrays(buffer, arg_table)


class LoopArgs:
    """Packs the arguments of a loop, for arguments of these types."""

    def __init__(self, names: tuple[str, ...], strided: tuple[bool, ...], args: tuple):
        letters, arg_table, self.size = "=", [], 0
        for a, any_strides in zip(args, strided, strict=True):
            if isinstance(a, np.ndarray):
                letters += "q"
                arg_table.append((a.ndim, a.itemsize, any_strides))
                self.size += 1 + 2 * a.ndim
            else:
                number = isinstance(a, np.generic) and a.dtype.str[1:]
                letters += LETTERS[number] if number else "q" if isinstance(a, int) else "d"
                arg_table.append((-1, 0, 0))
                self.size += 1
        self.names = names
        self.arg_table = np.array(arg_table, np.int64).reshape(-1, 3)
        # The first words, as a function of the arguments: it is on the way of every launch, and a list of what to do
        # with each of them would take three times as long.
        each = [f"id({n})" if ndim >= 0 else n for n, (ndim, _, _) in zip(names, arg_table, strict=True)]
        text = f"lambda {', '.join(names)}, *, pack=pack: pack({', '.join(each)})"
        pack = {"pack": struct.Struct(letters).pack}
        self.words: Callable[..., bytes] = eval(compile(text, __file__, "eval"), globals(), pack)

    def pack(self, name: str, args: tuple) -> np.ndarray:
        """A buffer of these arguments; TypeError if an array has gaps and the build is for arrays without gaps.

        The build would read wrong numbers from such an array.
        """
        buffer = np.empty(self.size, np.int64)
        buffer[: len(args)] = np.frombuffer(self.words(*args), np.int64)
        self._check(_pack_loop_args(buffer, self.arg_table), name, args)
        return buffer

    def _check(self, wrong: int, name: str, args: tuple) -> None:
        if wrong != FITS:
            raise TypeError(
                f"kernel {name}: {self.names[wrong]} of shape {args[wrong].shape} is not contiguous; copy it first"
            )


# --------------------------------------------------------------------------------------------------- native plans


@native(nogil=False)
def _run_plan(words, items):
    """Repeat the launches of a plan on other arrays: the items of a tuple of Python objects.

    Returns OTHER if an array's dtype, sizes or strides, or a number's type or bits, differ from those of the plan.
    Stops at a flag that is set and returns its number; otherwise returns FITS. It keeps the interpreter's lock, since
    the buffers serve one run at a time.
    """
    array_type, inputs, numbers = word(words, 0), word(words, 1), word(words, 2)
    addresses, rows = word(words, 3), word(words, 4)
    at = 5
    for _ in range(numbers):
        item = word(items, word(words, at))
        if word(item + HEAD, -1) != word(words, at + 1) or word(item + HEAD, 0) != word(words, at + 2):
            return OTHER
        at += 3
    for _ in range(inputs):
        item, ndim = word(items, word(words, at)), word(words, at + 1)
        if word(item + HEAD, -1) != array_type:  # is it an array at all? The last word before the array's own says
            return OTHER
        if _ndim(item) != ndim or word(item + HEAD, DTYPE) != word(words, at + 2):
            return OTHER
        sizes, strides = word(item + HEAD, SIZES), word(item + HEAD, STRIDES)
        at += 3
        for d in range(ndim):
            if word(sizes, d) != word(words, at) or word(strides, d) != word(words, at + 1):
                return OTHER
            at += 2
    for _ in range(addresses):
        _words_at(word(words, at), 1)[0] = word(word(items, word(words, at + 1)) + HEAD, DATA) + word(words, at + 2)
        at += 3
    for i in range(rows):
        entry, buffer = word(words, at), word(words, at + 1)
        if entry:
            call(entry, buffer, 0, 1)
        elif word(buffer, 0):
            _words_at(buffer, 1)[0] = 0
            return i
        at += 2
    return FITS


class NativePlan:
    """A launch plan: the launches and flags of one call; `call` repeats them on other arrays.

    It fills the buffers of all launches. Of these, it makes those in `rows`, which have one task each; launches with
    several tasks are left to a program.
    """

    def __init__(
        self,
        inputs: dict[int, np.ndarray],
        numbers: dict[int, float],
        addresses: list[tuple],
        rows: list[tuple[int, np.ndarray]],
    ):
        """`inputs` and `numbers` by their number among the items; addresses (of a word in a buffer, item, offset in
        bytes); rows (address of the entry, its buffer), or (0, flag)."""
        words = [_ARRAY, len(inputs), len(numbers), len(addresses), len(rows)]
        for i, value in numbers.items():  # an object is its type, and then, for a float, its 64 bits
            words += [i, id(value.__class__), *words_at(id(value) + HEAD, 1)]
        for i, a in inputs.items():
            words += [i, a.ndim, id(a.dtype)]
            words += [n for size_and_stride in zip(a.shape, a.strides, strict=True) for n in size_and_stride]
        words += [word for address in addresses for word in address]
        words += [word for entry, buffer in rows for word in (entry, buffer.ctypes.data)]
        self.words, self.buffers = np.array(words, np.int64), [buffer for _, buffer in rows]
        self.call, self.at = _compile_for_words(_run_plan, 2), self.words.ctypes.data  # call(at, id(items) + ITEMS)


# ----------------------------------------------------------------------------------------------------- the same memory


@native(nogil=False)
def _same_memory(one, other):
    one, other = one + HEAD, other + HEAD
    same = word(one, DATA) == word(other, DATA) and word(one, DTYPE) == word(other, DTYPE)
    same &= _ndim(one - HEAD) == _ndim(other - HEAD)
    for d in range(_ndim(one - HEAD) if same else 0):
        same &= word(word(one, SIZES), d) == word(word(other, SIZES), d)
        same &= word(word(one, STRIDES), d) == word(word(other, STRIDES), d)
    return 1 if same else 0


def same_memory(one: np.ndarray, other: np.ndarray) -> bool:
    """Do two arrays have the same elements in memory, in the same order? (NumPy's own check takes ten times longer.)"""
    if config.DISABLE_JIT:
        return one.__array_interface__ == other.__array_interface__
    return bool(_same_memory(id(one), id(other)))


# ------------------------------------------------------------------------------------------------------------ formulas


@inlined
def _size(array, d):
    """The size of the d-th dimension from the right, counted from 1; a missing dimension has size 1."""
    ndim = _ndim(array)
    return word(word(array + HEAD, SIZES), ndim - d) if d <= ndim else 1


@inlined
def _pack_elementwise(buffer, itemsizes):
    """Pack the operands of a formula. The buffer ends with the addresses of their array objects, y's last.

    Dimensions that are contiguous in every operand are merged, so one or two are left in most cases. The words are: the
    number of dimensions beside the innermost one; the number of its rows; the addresses of the operands; for each
    dimension, the inner ones first, its size and the strides of the operands. Strides count elements. The stride is 0
    where an operand has a dimension of size 1 or lacks it: each step along the dimension reads the same element.

    Returns the number of an array that does not broadcast to the last one, or FITS.
    """
    n = itemsizes.size
    objects, here = buffer.size - n, 2 + n  # where the objects are; where the next dimension belongs
    first, before, total = here, here, 1
    y = buffer[objects + n - 1]
    for i in range(n):
        buffer[2 + i] = word(buffer[objects + i] + HEAD, DATA)
        for d in range(_ndim(y) + 1, _ndim(buffer[objects + i]) + 1):
            if _size(buffer[objects + i], d) != 1:
                return i
    buffer[first] = 1
    for d in range(1, _ndim(y) + 1):
        size, as_one = _size(y, d), here > first
        total *= size
        if size == 1:
            for i in range(n):
                if _size(buffer[objects + i], d) != 1:
                    return i
            continue
        for i in range(n):
            array = buffer[objects + i]
            mine, stride = _size(array, d), 0
            if mine != 1:
                if mine != size:
                    return i
                stride = word(word(array + HEAD, STRIDES), _ndim(array) - d) // itemsizes[i]
            as_one &= stride == buffer[before + 1 + i] * buffer[before]
            buffer[here + 1 + i] = stride
        if as_one:  # all operands step through it and the one before as through one
            buffer[before] *= size
        else:
            buffer[here] = size
            before, here = here, here + 1 + n
    if here == first:  # one number: no step is made
        for i in range(n):
            buffer[first + 1 + i] = 1
        here += 1 + n
    buffer[0] = (here - first) // (1 + n) - 1
    buffer[1] = total // buffer[first] if buffer[first] else 0
    return FITS


@native(nogil=False)  # as the next one: what both call is compiled once, since Numba tells them apart by this as well
def _pack_elementwise_args(buffer, itemsizes):
    return _pack_elementwise(buffer, itemsizes)


@native(nogil=False)
def _run_elementwise(entry, itemsizes, first, second, third):
    """Fill a buffer of two operands (the third is 0 then) or three, and run the formula on it as one task.

    It keeps Python's lock, since it ends before another thread could start.
    """
    n, y = 3 if third else 2, third if third else second
    if _ndim(y) > MAX_DIMS:
        return LARGE
    buffer = _words_at(_stack_words(), STACK_WORDS)
    buffer[STACK_WORDS - n], buffer[STACK_WORDS - n + 1], buffer[STACK_WORDS - 1] = first, second, y
    wrong = _pack_elementwise(buffer, _words_at(itemsizes, n))
    if wrong == FITS:
        if buffer[1] * buffer[2 + n] >= SINGLE_TASK_SIZE:
            return LARGE
        call(entry, buffer.ctypes.data, 0, 1)
    return wrong


class ElementwiseArgs:
    """Packs the operands of a formula, for arrays of these types."""

    def __init__(self, arrays: list[np.ndarray]):
        self.itemsizes = np.array([a.itemsize for a in arrays], np.int64)
        self.sizes_at = self.itemsizes.ctypes.data
        self.write = struct.Struct(f"={len(arrays)}q").pack_into
        self.call = _compile_for_words(_run_elementwise)

    def pack(self, name: str, arrays: list[np.ndarray]) -> np.ndarray:
        """The buffer of these arrays; ValueError where one does not broadcast to the last."""
        n = len(arrays)
        buffer = np.empty(2 + n + (arrays[-1].ndim or 1) * (1 + n) + n, np.int64)
        self.write(buffer, buffer.nbytes - 8 * n, *map(id, arrays))
        wrong = _pack_elementwise_args(buffer, self.itemsizes)
        if wrong != FITS:
            self._refuse(wrong, name, arrays)
        return buffer

    def run(self, name: str, entry: int, arrays: list[np.ndarray]) -> bool:
        """Run a formula of two or three operands as one task, on a buffer that lives only as long as the call.

        Returns False if the formula is LARGE, which is then not run.
        """
        third = id(arrays[2]) if len(arrays) == 3 else 0
        wrong = self.call(entry, self.sizes_at, id(arrays[0]), id(arrays[1]), third)
        if wrong >= 0:
            self._refuse(wrong, name, arrays)
        return wrong == FITS

    @staticmethod
    def _refuse(wrong: int, name: str, arrays: list[np.ndarray]) -> None:
        raise ValueError(
            f"kernel {name}: an array of shape {arrays[wrong].shape} does not broadcast to {arrays[-1].shape}"
        )

"""What a kernel is: a plain Python loop, its native build, and its source for the symbolic reading.

A kernel is a serial loop over one task's share of the work: `name(*inputs, *settings, *outputs, *saved, *scratch, task,
tasks)`. It knows nothing of threads and allocates nothing. Into how many tasks a launch is cut depends on shapes alone,
so no bit of a result depends on the number of threads; which thread takes which task, the driver decides.

Two forms exist. `@elementwise` takes a formula between scalars, and the loop around it (broadcasting, strides, 0-d and
empty arrays) is written here, once for all formulas. `@kernel` takes a loop over whole arrays.

Compiled, every kernel has the same shape, `entry(block, task, tasks)`: the block is a piece of memory that holds the
arguments, as `pack` writes and `_unpack` reads it. So a launch is an address, a block and a number of tasks, which a
recording can keep and native code can run; eager mode runs the very same machine code.

`KERNELS` is the table of all kernels; the tests walk it.
"""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from tinytensor.kernels import driver
from tinytensor.kernels.cache import can_keep, is_kept, kept, progress

# Never fastmath=True: it lets LLVM assume that there are no NaNs, and isnan(nan) becomes False.
# "reassoc" lets a sum along a row be vectorised. It stays off where the bits of one row of the
# result must not depend on how rows are blocked (matmul, linear).
FAST = frozenset({"contract", "reassoc", "nsz"})
EXACT_ORDER = frozenset({"contract", "nsz"})

KERNELS: dict[str, "Kernel"] = {}

GRAIN = 4000  # nanoseconds of work that are worth a task of their own: dealing one costs some 100
MOST_TASKS = 32
NANOSECONDS = 1  # what a formula takes for an element, about
_WORD = ir.IntType(64)
_compiling = threading.RLock()


class Launch(NamedTuple):
    """A kernel with its arguments, as native code takes them."""

    entry: int  # the address of the machine code
    block: np.ndarray  # the packed arguments, int64 words
    tasks: int
    args: tuple  # what the block has the addresses of: as long as it is used, these must live


# ------------------------------------------------------------------------------------------------ shares of the work


def cut(nanoseconds: int, units: int) -> int:
    """Into how many tasks to cut so much work that consists of so many parts which can be told apart."""
    return max(1, min(int(nanoseconds) // GRAIN, units, MOST_TASKS))


def helper(py_func: Callable) -> Callable:
    """A small function that kernels call; it is compiled into each of them.

    Forced inline: the machine code of an entry is then one piece. Were helpers functions of their own, two entries
    would bring a copy each, and which of the two runs would depend on what was loaded first.
    """
    with kept(py_func):
        return njit(error_model="numpy", fastmath=set(EXACT_ORDER), forceinline=True)(py_func)


@helper
def share(n, task, tasks):
    """(first, one after the last) of n things: the task's equal share."""
    return n * task // tasks, n * (task + 1) // tasks


# ------------------------------------------------------------------------------------------------------ the block


def pack(args: tuple) -> np.ndarray:
    """The block of a launch: of an array its address, sizes and strides in bytes, of a number its bits.

    An array without elements has the address 0. Before a loop that writes becomes vectors, compiled code asks whether
    the arrays may overlap, as far as the loop would go in each of them. An empty one, somewhere near another, would
    then decide by chance which way of adding up is taken, and so the last bits of a sum.
    """
    words: list[int] = []
    for a in args:
        if a.__class__ is np.ndarray:
            words.append(a.__array_interface__["data"][0] if a.size else 0)
            words += a.shape
            words += a.strides
        else:
            words.append(_bits(a))
    return np.array(words, np.int64)


def _bits(number) -> int:
    """A number as the int64 in whose first bytes it stands."""
    if isinstance(number, int | np.integer | np.bool_):
        return int(number)
    word = np.zeros(1, np.int64)
    number = np.asarray(number, getattr(number, "dtype", np.float64))
    word.view(number.dtype)[0] = number
    return int(word[0])


@intrinsic
def _unpack(typing, block, kinds):
    """The arguments that `pack` wrote, as a tuple of these types. The arrays are borrowed: no reference is counted."""
    wanted = kinds.instance_type

    def codegen(context, builder, signature, args):
        words, at, members = builder.inttoptr(args[0], _WORD.as_pointer()), 0, []
        for kind in wanted.types:
            first = builder.gep(words, [ir.Constant(_WORD, at)])
            if isinstance(kind, types.Array):
                n = kind.ndim
                each = [builder.load(builder.gep(first, [ir.Constant(_WORD, i)])) for i in range(1 + 2 * n)]
                element = context.get_data_type(kind.dtype)
                array = make_array(kind)(context, builder)
                populate_array(
                    array,
                    data=builder.inttoptr(each[0], element.as_pointer()),
                    shape=each[1 : 1 + n],
                    strides=each[1 + n :],
                    itemsize=context.get_constant(types.intp, context.get_abi_sizeof(element)),
                    meminfo=None,
                )
                members.append(array._getvalue())
                at += 1 + 2 * n
            else:
                place = builder.bitcast(first, context.get_data_type(kind).as_pointer())
                members.append(context.data_model_manager[kind].from_data(builder, builder.load(place)))
                at += 1
        return context.make_tuple(builder, wanted, members)

    return wanted(block, kinds), codegen


@intrinsic
def _word(typing, block, i):
    """The i-th word of a block."""

    def codegen(context, builder, signature, args):
        return builder.load(builder.gep(builder.inttoptr(args[0], _WORD.as_pointer()), [args[1]]))

    return types.intp(block, types.intp), codegen


def _element(context, builder, address, i, kind):
    pointer = builder.inttoptr(address, context.get_data_type(kind).as_pointer())
    return context.data_model_manager[kind], builder.gep(pointer, [i])


@intrinsic
def _get(typing, address, i, array):
    """The i-th element of those that begin at the address; `array` is the type of an array that has such elements."""
    kind = array.instance_type.dtype

    def codegen(context, builder, signature, args):
        model, place = _element(context, builder, args[0], args[1], kind)
        return model.load_from_data_pointer(builder, place)

    return kind(types.intp, types.intp, array), codegen


@intrinsic
def _put(typing, address, i, array, value):
    """Write the i-th element of those that begin at the address, as the type of its array asks for."""
    kind = array.instance_type.dtype

    def codegen(context, builder, signature, args):
        model, place = _element(context, builder, args[0], args[1], kind)
        builder.store(model.as_data(builder, context.cast(builder, args[3], value, kind)), place)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, array, value), codegen


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep Python's collector still: it would look through all that the compiler makes, again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# ------------------------------------------------------------------------------------------------------- kernels


class Kernel:
    """A named kernel: call it with arrays; `py_func` is its Python source."""

    def __init__(self, py_func: Callable, fastmath: frozenset):
        self.py_func, self.fastmath = py_func, fastmath
        self.name = py_func.__name__
        self.__doc__ = py_func.__doc__
        self.entries: dict[tuple, int] = {}  # the addresses of the builds, by the types of the arguments
        self.builds: dict[tuple, object] = {}  # the builds themselves: the machine code lives as long as they do
        if py_func.__module__.startswith("tinytensor."):  # a user's kernels are his own affair
            if self.name in KERNELS:
                raise ValueError(f"kernel {self.name}: the name is taken by {KERNELS[self.name].py_func.__module__}")
            KERNELS[self.name] = self

    def __repr__(self):
        return f"<kernel {self.name}>"

    def __call__(self, *args):
        """Run it now, all of its tasks."""
        if config.DISABLE_JIT:
            self.interpret(*args)
            return
        self.run(self.prepare(args))

    @staticmethod
    def run(launch: Launch) -> None:
        """Run all tasks of a launch."""
        driver.run(launch.entry, launch.block.__array_interface__["data"][0], launch.tasks)

    def prepare(self, args: tuple) -> Launch:
        """A launch of these arguments."""
        raise NotImplementedError

    def interpret(self, *args) -> None:
        """Run the Python source, as NUMBA_DISABLE_JIT=1 asks for."""
        raise NotImplementedError

    def _address(self, key: tuple, source: Callable[[], tuple[str, dict]]) -> int:
        """The address of the build for arguments of these types; it is compiled or loaded when first asked for."""
        address = self.entries.get(key)
        if address is None:
            with _compiling:
                if key not in self.entries:
                    self.builds[key] = self._build(*source())
                    self.entries[key] = self.builds[key].address
                address = self.entries[key]
        return address

    def _build(self, text: str, scope: dict):
        """Compile (or load) the entry in `text`; so that Numba can keep it, it stands in the kernel's own file."""
        function = self.py_func
        name = text.removeprefix("def ").split("(")[0]
        scope |= {"__name__": function.__module__, "share": share, "word": _word, "get": _get, "put": _put}
        exec(compile(text, function.__code__.co_filename, "exec"), scope)
        with kept(function), _no_collector():
            if not is_kept(function, name):
                progress.compiling(self.name)
            signature = types.void(types.intp, types.intp, types.intp)
            options = {"error_model": "numpy", "fastmath": set(self.fastmath), "cache": can_keep(function)}
            return numba.cfunc(signature, **options)(scope[name])


class Elementwise(Kernel):
    """y[...] = f(a[...], b[...], ...): `kernel(*inputs, *settings, y)`, each of them an array or a number.

    The block of a formula is another than that of a loop: what lies in memory as one dimension is one there, so that
    almost always one or two are left. Its words: how many outer dimensions there are, the size of the innermost one and
    how many rows of that size there are; for each operand its address and its innermost stride; for each outer
    dimension, the inner ones first, its size and the strides of the operands. Strides count elements.
    """

    def __init__(self, py_func: Callable):
        super().__init__(py_func, EXACT_ORDER)
        self.names = (*py_func.__code__.co_varnames[: py_func.__code__.co_argcount], "y")

    def prepare(self, args: tuple) -> Launch:
        arrays = [a if a.__class__ is np.ndarray else np.asarray(a) for a in args]
        few = len(args) <= 3  # then one build does for arrays and numbers
        key = tuple([(a.dtype, few or given.__class__ is np.ndarray) for a, given in zip(arrays, args, strict=True)])
        y = arrays[-1]
        dims = _dims(self.name, arrays)
        inner, *outer = dims or [(1,) + (1,) * len(arrays)]
        rows = y.size // inner[0] if inner[0] else 0
        words = [len(outer), inner[0], rows]
        for array, stride in zip(arrays, inner[1:], strict=True):
            words += [array.__array_interface__["data"][0], stride]
        for dim in outer:
            words += dim
        entry = self._address(key, lambda: self._source(key))
        block = np.array(words, np.int64)
        return Launch(entry, block, cut(y.size * NANOSECONDS, y.size), (*arrays,))

    def interpret(self, *args) -> None:
        y = args[-1]
        with np.errstate(all="ignore"):  # on NumPy's scalars, since Python's own floats raise at a division by zero
            for at, values in zip(np.ndindex(y.shape), np.broadcast(*args), strict=True):
                y[at] = self.py_func(*values[:-1])

    def _source(self, key: tuple) -> tuple[str, dict]:
        """The loop around the formula. The innermost loop stands there three times, so that LLVM makes vectors of it:

        for neighbours in memory, for a second operand that is one number, and for any strides. What was given as a
        number is read once, before the loops.
        """
        names = [f"p{i}" for i in range(len(key))]
        *inputs, y = names
        stepped = [p for p, (_, is_array) in zip(names, key, strict=True) if is_array]
        told = "_".join(d.str[1:] + ("" if is_array else "n") for d, is_array in key)
        lines = [f"def {self.name}_{told}(block, task, tasks):"]
        lines += ["    outer, inner, rows = word(block, 0), word(block, 1), word(block, 2)"]
        for i, p in enumerate(names):
            lines += [f"    {p}, s{p} = word(block, {3 + 2 * i}), word(block, {4 + 2 * i})"]
        lines += [f"    n{p} = get({p}, 0, T{p})" for p in inputs if p not in stepped]
        lines += ["    at, last = share(rows * inner, task, tasks)"]
        lines += ["    row, j = at // max(inner, 1), at % max(inner, 1)"]
        lines += ["    while at < last:"]
        lines += ["        count = min(inner - j, last - at)", "        rest = row"]
        lines += [f"        o{p} = j * s{p}" for p in stepped]
        lines += ["        for d in range(outer):", f"            w = {3 + 2 * len(names)} + d * {1 + len(names)}"]
        lines += ["            i = rest"]
        lines += [
            "            if d < outer - 1:",
            "                i, rest = rest % word(block, w), rest // word(block, w)",
        ]
        lines += [f"            o{p} += i * word(block, w + {1 + n})" for n, p in enumerate(names) if p in stepped]

        def loop(steps: dict[str, str], **others: str) -> list[str]:
            got = {p: f"get({p}, o{p} + {steps[p]}, T{p})" if p in steps else f"n{p}" for p in inputs} | others
            result = f"formula({', '.join(got.values())})"
            return [
                "            for k in range(count):",
                f"                put({y}, o{y} + {steps[y]}, T{y}, {result})",
            ]

        near = " and ".join(f"s{p} == 1" for p in stepped)
        lines += [f"        if {near}:", *loop(dict.fromkeys(stepped, "k"))]
        if stepped == names and len(inputs) == 2:
            a, b = inputs
            lines += [
                f"        elif s{a} == 1 and s{b} == 0 and s{y} == 1:",
                f"            number = get({b}, o{b}, T{b})",
            ]
            lines += loop({a: "k", y: "k"}, **{b: "number"})
        lines += ["        else:", *loop({p: f"k * s{p}" for p in stepped})]
        lines += ["        at, row, j = at + count, row + 1, 0"]
        options = {"error_model": "numpy", "fastmath": set(EXACT_ORDER), "forceinline": True}
        formula = njit(**options)(self.py_func)
        return "\n".join(lines), {"formula": formula} | {
            f"T{p}": types.Array(from_dtype(d), 1, "C") for p, (d, _) in zip(names, key, strict=True)
        }


def _dims(name: str, arrays: list[np.ndarray]) -> list[tuple[int, ...]]:
    """(size, stride of each operand in elements) of each dimension of the last array, y, innermost first.

    Neighbouring dimensions that all operands step through as through one are one.
    """
    y = arrays[-1]
    if all(a.shape == y.shape and a.flags.c_contiguous for a in arrays):
        return [(y.size,) + (1,) * len(arrays)]
    dims: list[tuple[int, ...]] = []
    for d in range(1, y.ndim + 1):
        n = y.shape[-d]
        if n == 1:
            continue
        dim = (n,)
        for a in arrays:
            size = a.shape[-d] if d <= a.ndim else 1
            if size not in (1, n):
                raise ValueError(f"kernel {name}: an array of shape {a.shape} does not broadcast to {y.shape}")
            dim += (0 if size == 1 else a.strides[-d] // a.itemsize,)
        if dims and all(step == inner * dims[-1][0] for step, inner in zip(dim[1:], dims[-1][1:], strict=True)):
            dims[-1] = (n * dims[-1][0], *dims[-1][1:])
        else:
            dims.append(dim)
    return dims


class Loop(Kernel):
    """A loop over one task's share of whole arrays. Arrays are C-contiguous but for those named in `strided`."""

    def __init__(self, py_func: Callable, tasks: Callable | None, fastmath: frozenset, strided: tuple[str, ...]):
        super().__init__(py_func, fastmath)
        names = py_func.__code__.co_varnames[: py_func.__code__.co_argcount]
        self.dealt = names[-2:] == ("task", "tasks")  # is it told which share is its own?
        if tasks is not None and not self.dealt:
            raise TypeError(f"kernel {self.name}: the last two parameters must be task and tasks, not {names[-2:]}")
        names = names[:-2] if self.dealt else names
        unknown = set(strided) - set(names)
        if unknown:
            raise ValueError(f"kernel {self.name}: strided names {unknown}, which are not parameters")
        self.names, self.strided = names, tuple(name in strided for name in names)
        self.tasks, self.divisible = tasks or (lambda *args: 1), tasks is not None

    def prepare(self, args: tuple) -> Launch:
        if len(args) != len(self.names):
            raise TypeError(f"kernel {self.name}: expected {len(self.names)} arguments {self.names}, got {len(args)}")
        for a, strided, name in zip(args, self.strided, self.names, strict=True):
            if a.__class__ is np.ndarray and not strided and not a.flags.c_contiguous:
                raise TypeError(f"kernel {self.name}: {name} of shape {a.shape} is not contiguous; copy it first")
        key = tuple([(a.dtype, a.ndim) if a.__class__ is np.ndarray else a.__class__ for a in args])
        entry = self._address(key, lambda: self._source(args))
        return Launch(entry, pack(args), self.tasks(*args), args)

    def shares(self, args: tuple) -> list[tuple[int, ...]]:
        """What the source is called with after `args`, once for each task: (task, tasks), or nothing."""
        tasks = self.tasks(*args)
        return [(task, tasks) for task in range(tasks)] if self.dealt else [()]

    def interpret(self, *args) -> None:
        with np.errstate(all="ignore"):  # compiled code does not warn either
            for share in self.shares(args):
                self.py_func(*args, *share)

    def _source(self, args: tuple) -> tuple[str, dict]:
        kinds = [
            types.Array(from_dtype(a.dtype), a.ndim, "A" if strided else "C")
            if isinstance(a, np.ndarray)
            else _kind_of_number(a)
            for a, strided in zip(args, self.strided, strict=True)
        ]
        told = "_".join(f"{k.dtype}{k.ndim}" if isinstance(k, types.Array) else str(k) for k in kinds)
        names = ", ".join(self.names)
        text = (
            f"def {self.name}_{told}(block, task, tasks):\n"
            f"    {names}{',' if len(self.names) == 1 else ''} = unpack(block, KINDS)\n"
            f"    kernel({names}{', task, tasks' if self.dealt else ''})\n"
        )
        # written into the entry before anything is compiled: a second function would be compiled twice
        kernel = njit(error_model="numpy", fastmath=set(self.fastmath), inline="always")(self.py_func)
        return text, {"unpack": _unpack, "KINDS": types.Tuple(kinds), "kernel": kernel}


def _kind_of_number(a) -> types.Type:
    if isinstance(a, np.generic):
        return from_dtype(a.dtype)
    return types.int64 if isinstance(a, int) else types.float64


def elementwise(py_func: Callable) -> Elementwise:
    """Declare a formula between scalars as a kernel."""
    return Elementwise(py_func)


def kernel(
    tasks: Callable | None = None, fastmath: frozenset = FAST, strided: tuple[str, ...] = ()
) -> Callable[[Callable], Loop]:
    """Declare a serial loop over one task's share of whole arrays as a kernel.

    `tasks(*args)` says into how many tasks a launch is cut, by shapes and settings alone (see `cut`); without it there
    is one, and the loop needs no parameters `task` and `tasks`. Tasks run in any order and at the same time: no two
    write the same element, and none reads what another writes. `strided` names the arrays that may have any strides
    (transposed, sliced, or broadcast with stride 0).
    """
    return lambda py_func: Loop(py_func, tasks, fastmath, strided)

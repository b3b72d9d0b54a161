"""Entry points: `entry(buffer, task, tasks)`, the signature that the machine code of every kernel has.

The three arguments are integers, in C's calling convention. The buffer holds the kernel's own arguments
(`launch_args.py`), so one native program can call kernels of any signature. The entry point of a loop reads the
arguments from the buffer and calls the loop. The entry point of a formula is the loop around the formula. Both become
one piece of machine code.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.ccallback import CFunc
from numba.core.compiler import CompilerBase
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from tinytensor.core.kernel import is_ours
from tinytensor.native.runtime.cache import builds_of, is_kept, kept, progress
from tinytensor.native.runtime.compiler import KernelCompiler, Lowering, colourless, signals_wait
from tinytensor.native.runtime.launch_args import word
from tinytensor.native.runtime.scheduler import WORD
from tinytensor.native.simd.address import array_at


class EntryPoint(NamedTuple):
    """The input of a compilation: a function, the types of its arguments, and the class of Numba's compiler for it."""

    label: str  # the kernel's name, with the types
    function: Callable
    arg_types: tuple[types.Type, ...]
    compiler: type[CompilerBase]


class NoBuild(Exception):
    """There is no native code for a launch: it is on exact scalars, or NUMBA_DISABLE_JIT asks for Python's source."""


# -------------------------------------------------------------------------------------------------- loops


def _unpack_args(context, builder, buffer, arg_types: tuple) -> list:
    """The arguments in a buffer, each of its type."""
    words, at, values = builder.inttoptr(buffer, WORD.as_pointer()), 0, []
    for ty in arg_types:
        first = builder.gep(words, [ir.Constant(WORD, at)])
        if isinstance(ty, types.Array):
            n = ty.ndim
            each = [builder.load(builder.gep(first, [ir.Constant(WORD, i)])) for i in range(1 + 2 * n)]
            values.append(array_at(context, builder, ty, each[0], each[1 : 1 + n], each[1 + n :]))
            at += 1 + 2 * n
        else:
            ptr = builder.bitcast(first, context.get_data_type(ty).as_pointer())
            values.append(context.data_model_manager[ty].from_data(builder, builder.load(ptr)))
            at += 1
    return values


class _LowerWithEntry(Lower):
    """Numba's last step before LLVM's; it adds the entry, which calls the loop.

    Only the entry is visible from outside, so LLVM inlines the loop into it, and makes one piece of code. (If Numba
    inlined the loop, it would copy it before it infers types, which takes a tenth of the time to compile.)
    """

    def lower_normal_function(self, fndesc) -> None:
        super().lower_normal_function(fndesc)
        self.function.linkage = "internal"
        self.function.attributes.add("alwaysinline")
        context, words = self.context, ir.FunctionType(ir.VoidType(), [WORD] * 3)
        entry = ir.Function(self.module, words, fndesc.llvm_cfunc_wrapper_name)
        builder = ir.IRBuilder(entry.append_basic_block("entry"))
        buffer, *task_args = entry.args
        shared = fndesc.args[-2:] == ("task", "tasks")
        arguments = fndesc.argtypes[:-2] if shared else fndesc.argtypes
        values = _unpack_args(context, builder, buffer, arguments) + (task_args if shared else [])
        status, _ = self.call_conv.call_function(builder, self.function, fndesc.restype, fndesc.argtypes, values)
        with builder.if_then(status.is_error, likely=False):  # an error in a user's loop is printed, not passed on
            python = context.get_python_api(builder)
            lock = python.gil_ensure()
            self.call_conv.raise_error(builder, python, status)
            name = python.string_from_string(context.insert_const_string(self.module, fndesc.qualname))
            python.err_write_unraisable(name)
            python.decref(name)
            python.gil_release(lock)
        builder.ret_void()

    def create_cfunc_wrapper(self) -> None:
        """Nothing: Numba's wrapper would only pass its arguments on, and the entry has its name."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _LoweringWithEntry(Lowering):
    _name = "kernel_lowering_with_entry"
    lowering_class = _LowerWithEntry


class _LoopCompiler(KernelCompiler):
    lowering = _LoweringWithEntry


def _element(context, builder, address, i, ty):
    pointer = builder.inttoptr(address, context.get_data_type(ty).as_pointer())
    return context.data_model_manager[ty], builder.gep(pointer, [i])


@intrinsic
def _get_element(typing, address, i, array):
    """The i-th element from the address on; `array` is the type of an array of such elements."""
    ty = array.instance_type.dtype

    def codegen(context, builder, signature, args):
        model, ptr = _element(context, builder, args[0], args[1], ty)
        return model.load_from_data_pointer(builder, ptr)

    return ty(types.intp, types.intp, array), codegen


@intrinsic
def _set_element(typing, address, i, array, value):
    """Write the i-th element from the address on, converted to the element type of `array`."""
    ty = array.instance_type.dtype

    def codegen(context, builder, signature, args):
        model, ptr = _element(context, builder, args[0], args[1], ty)
        builder.store(model.as_data(builder, context.cast(builder, args[3], value, ty)), ptr)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, array, value), codegen


def loop_entry_point(name: str, py_func: Callable, args: tuple, strided: tuple[bool, ...], shared: bool) -> EntryPoint:
    """The entry of a loop for arguments of these types.

    `strided` says which arrays may have any strides; in the others, neighbours in a row are neighbours in memory, which
    compiled code needs for vectors. `shared`: does the loop take (task, tasks)?
    """
    arg_types = [
        types.Array(from_dtype(a.dtype), a.ndim, "A" if any_strides else "C")
        if a.__class__ is np.ndarray
        else _number_type(a)
        for a, any_strides in zip(args, strided, strict=True)
    ]
    label = "_".join(f"{k.dtype}{k.ndim}" if isinstance(k, types.Array) else str(k) for k in arg_types)
    return EntryPoint(f"{name}_{label}", py_func, (*arg_types, *(types.intp, types.intp) * shared), _LoopCompiler)


def _number_type(a) -> types.Type:
    if isinstance(a, np.generic):
        return from_dtype(a.dtype)
    return types.int64 if isinstance(a, int) else types.float64


# ------------------------------------------------------------------------------------------------- formulas


def elementwise_entry_point(name: str, py_func: Callable, key: list[tuple[np.dtype, bool]], scope: dict) -> EntryPoint:
    """The entry of a formula for operands of these (dtype, is it an array?), the last of them y: the loop around it.

    The loop is generated as text, with a name for each operand: each operand has a type of its own, and Numba compiles
    no loop over values of several types. The text calls functions in `scope`: the `formula` and `task_range`. Its file
    name is that of the formula, so that Numba can keep the build.

    The innermost loop stands there more than once, so that LLVM makes vectors of it: for neighbours in memory, for one
    of two operands that is one number, and for any strides. It runs for several rows at once, those along the dimension
    next to the innermost one: where a row begins is computed once for them all, which takes as long as a short row.
    Operands given as numbers are read once, before the loops.
    """
    names = [f"p{i}" for i in range(len(key))]
    *inputs, y = names
    stepped = [p for p, (_, is_array) in zip(names, key, strict=True) if is_array]
    label = "_".join([name, *(d.str[1:] + ("" if is_array else "n") for d, is_array in key)])
    lines = [f"def {label}(buffer, task, tasks):"]
    n = len(names)
    lines += [f"    outer, rows, inner = word(buffer, 0), word(buffer, 1), word(buffer, {2 + n})"]
    lines += [f"    {p}, s{p} = word(buffer, {2 + i}), word(buffer, {3 + n + i})" for i, p in enumerate(names)]
    lines += [f"    n{p} = get({p}, 0, T{p})" for p in inputs if p not in stepped]
    row_strides = zip(names, range(4 + 2 * n, 4 + 3 * n), strict=True)  # of the dimension next to the innermost one
    lines += [f"    r{p} = word(buffer, {at}) if outer else 0" for p, at in row_strides if p in stepped]
    lines += ["    at, last = task_range(rows * inner, task, tasks)"]
    lines += ["    row, j = at // max(inner, 1), at % max(inner, 1)"]
    lines += ["    while at < last:"]
    lines += ["        count, several, rest = min(inner - j, last - at), 1, row"]
    lines += [f"        o{p} = j * s{p}" for p in stepped]
    lines += ["        for d in range(outer):", f"            w = {2 + n} + (d + 1) * {1 + n}"]
    lines += ["            i = rest"]
    lines += [
        "            if d < outer - 1:",
        "                i, rest = rest % word(buffer, w), rest // word(buffer, w)",
        "            if d == 0 and j == 0:",
        "                several = max(1, min(word(buffer, w) - i, (last - at) // inner))",
    ]
    lines += [f"            o{p} += i * word(buffer, w + {1 + k})" for k, p in enumerate(names) if p in stepped]

    def loop(steps: dict[str, str], *before: str, **others: str) -> list[str]:
        got = {p: f"get({p}, o{p} + {steps[p]}, T{p})" if p in steps else f"n{p}" for p in inputs} | others
        result = f"formula({', '.join(got.values())})"
        rows = ["            for _ in range(several):", *before]
        rows += ["                for k in range(count):"]
        rows += [f"                    put({y}, o{y} + {steps[y]}, T{y}, {result})"]
        return rows + [f"                o{p} += r{p}" for p in stepped]

    neighbours = " and ".join(f"s{p} == 1" for p in stepped)
    lines += [f"        if {neighbours}:", *loop(dict.fromkeys(stepped, "k"))]
    if stepped == names and len(inputs) == 2:
        for a, b in (inputs, inputs[::-1]):
            lines += [f"        elif s{a} == 1 and s{b} == 0 and s{y} == 1:"]
            lines += loop({a: "k", y: "k"}, f"                number = get({b}, o{b}, T{b})", **{b: "number"})
    lines += ["        else:", *loop({p: f"k * s{p}" for p in stepped})]
    lines += ["        at, row, j = at + several * count, row + several, 0"]
    scope |= {f"T{p}": types.Array(from_dtype(d), 1, "C") for p, (d, _) in zip(names, key, strict=True)}
    scope |= {"__name__": py_func.__module__, "word": word, "get": _get_element, "put": _set_element}
    with global_compiler_lock:  # this is a part of the compilation
        exec(compile("\n".join(lines), py_func.__code__.co_filename, "exec"), scope)
    return EntryPoint(label, scope[label], (types.intp,) * 3, KernelCompiler)


# ------------------------------------------------------------------------------------------------------- the build


@contextmanager
def _no_collector() -> Iterator[None]:
    """Switch Python's garbage collector off: it would search the compiler's many objects again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def build(name: str, fastmath: frozenset, entry: EntryPoint) -> CFunc:
    """Compile (or load) an entry of a kernel; its `.address` is the address of the machine code."""
    # The collector is switched on before signals are let in: a function that it calls would swallow a signal's error.
    with kept(entry.function), signals_wait(), _no_collector(), colourless():
        if not is_kept(entry.function, entry.label):
            progress.compiling(name)
        # Kernels allocate nothing, so references to memory are not counted: Numba would write that code beside each
        # slice, and LLVM would remove it again. Only a user's own kernel may allocate.
        options = {"error_model": "numpy", "fastmath": set(fastmath), "_nrt": not is_ours(entry.function)}
        compiled = CFunc(entry.function, (entry.arg_types, types.void), {}, options, pipeline_class=entry.compiler)
        # As numba.cfunc(cache=True) sets Numba's own cache.
        compiled._cache = builds_of(entry.function, entry.label)
        compiled.compile()
        return compiled

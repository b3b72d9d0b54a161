"""Vector registers as ordinary values in kernels: a register holds `lanes(x)` neighbouring elements of a row of x.

A compiler turns some plain loops into vector instructions by itself. But the loops that decide the speed of a model
(matrix products, attention) keep a dozen sums in registers from their first term to the last, and no compiler finds
that by itself. So these loops say it:

    s = zero(x)
    for k in range(K):
        s = fma(splat(a, i, k), load(b, k, j), s)      # s[l] += a[i, k] * b[k, j + l] for every lane l
    store(s, y, i, j)

Each function below is plain Python first, with a tuple of numbers as a register. That code runs where Numba is switched
off, and where the proofs run a kernel over exact numbers. Compiled code gets an LLVM vector and one or a few
instructions instead. These test no bounds and take no index from the end: a kernel slices, then counts from 0.

`at` is the index of an element, one whole number for each dimension of the array. The elements that follow it in its
row must be neighbours in memory (`load_splat` alone reads any strides).
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.cgutils import pack_array
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

from tinytensor.native.simd import compiled_math as simd_math
from tinytensor.native.simd.address import array_at, array_field, element_ptr, int64
from tinytensor.native.simd.isa import BYTES

# --- LLVM: types, and instructions that the compiled functions share


class Vector(types.Type):
    """The Numba type of a register of `count` numbers."""

    def __init__(self, dtype: types.Type, count: int):
        self.dtype, self.count = dtype, count
        super().__init__(f"vector({dtype}, {count})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, vector):
        super().__init__(dmm, vector, ir.VectorType(dmm.lookup(vector.dtype).get_value_type(), vector.count))


def vector_type(x: types.Array, *_) -> Vector:
    return Vector(x.dtype, BYTES * 8 // x.dtype.bitwidth)


def element_type_of(ty: types.Type) -> types.Type:
    """The type of the numbers in an array, in a register, in several of these."""
    return element_type_of(ty.dtype) if hasattr(ty, "dtype") else ty


def compiled(plain: Callable, result: Callable) -> Callable:
    """Define `plain` in compiled code, where `result(*types)` is the type of its result.

    The decorated function writes the instructions: plain.emit. It takes the LLVM type of the result, and the Numba
    types and the LLVM values of the arguments.
    """

    class Template(AbstractTemplate):
        key = plain
        prefer_literal = True  # the size of a tile is part of its type

        def generic(self, args, kws):
            # A register is written without conversion to the array's dtype: floats would overrun an array of bytes.
            held = {(element_type_of(a), isinstance(a, types.Array)) for a in args if hasattr(a, "dtype")}
            held = {ty for ty, is_array in held if is_array or isinstance(ty, types.Float)}  # no booleans
            if len(held) > 1:
                raise TypingError(f"{plain.__name__}: the elements are of several types: {sorted(map(str, held))}")
            arg_types = [types.intp if isinstance(a, types.Integer) else a for a in args]
            if plain is splat:
                arg_types[1] = args[0].dtype
            return signature(result(*args), *arg_types)

    infer_global(plain, types.Function(Template))

    def decorate(emit):
        @lower_builtin(plain, types.VarArg(types.Any))
        def lowered(context, builder, sig, args):
            ty = context.get_value_type(sig.return_type)
            value = emit(context, builder, ty, sig.args, args)
            return context.get_dummy_value() if value is None else value

        plain.emit = emit
        return emit

    return decorate


def compile_lanewise(plain: Callable, emit: Callable) -> None:
    """Compile `plain`, whose result has the type of its last argument, as emit(builder, *values)."""
    compiled(plain, _same)(lambda context, builder, ty, arg_types, args: emit(builder, *args))


def _same(*arg_types):
    return arg_types[-1]


def branch(builder, condition, then: Callable, otherwise: Callable, likely: bool | None = None) -> list:
    """The values of then() where the condition holds, those of otherwise() elsewhere; None (a write) is left out."""
    with builder.if_else(condition, likely=likely) as (first, second):
        with first:
            values, end = then(), builder.block
        with second:
            others, other_end = otherwise(), builder.block
    joined = []
    for value, other in zip(values, others, strict=True):
        if value is not None:
            joined.append(builder.phi(value.type))
            joined[-1].add_incoming(value, end)
            joined[-1].add_incoming(other, other_end)
    return joined


def is_float(ty: types.Type | ir.Type) -> bool:
    return isinstance(getattr(ty, "element", ty), ir.FloatType | ir.DoubleType)


@cache  # a constant keeps its text for LLVM, which is long for a register
def constant(ty: ir.VectorType, value) -> ir.Constant:
    return ir.Constant(ty, [value] * ty.count if value else None)


def broadcast(builder, ty: ir.VectorType, value):
    v = builder.insert_element(ir.Constant(ty, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(v, v, constant(ir.VectorType(ir.IntType(32), ty.count), 0))


def _mask(builder, count, n: int):
    """True in the first `count` of n lanes. The lanes are compared as 32-bit numbers, as many at a time as floats."""
    most, short = ir.Constant(count.type, n), ir.IntType(32)
    count = builder.trunc(builder.select(builder.icmp_signed("<", count, most), count, most), short)
    whole = ir.VectorType(short, n)
    return builder.icmp_signed("<", ir.Constant(whole, list(range(n))), broadcast(builder, whole, count))


def _call(builder, name: str, result: ir.Type, args: list):
    """Call an LLVM intrinsic."""
    ty = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, ty, name), args)


def _name(ty: ir.VectorType) -> str:
    """The name of a vector type in LLVM's intrinsics: v8f32."""
    letter, bits = {"float": ("f", 32), "double": ("f", 64)}.get(str(ty.element)) or ("i", ty.element.width)
    return f"v{ty.count}{letter}{bits}"


def read(builder, address, dtype: types.Type):
    value = builder.load(address)
    value.align = dtype.bitwidth // 8
    return value


def write(builder, value, address, dtype: types.Type):
    builder.store(value, address).align = dtype.bitwidth // 8


def read_first(builder, count, address, dtype: types.Type):
    ty = address.type.pointee
    align = ir.Constant(ir.IntType(32), dtype.bitwidth // 8)
    mask = _mask(builder, count, ty.count)
    return _call(builder, f"llvm.masked.load.{_name(ty)}.p0", ty, [address, align, mask, constant(ty, 0)])


def write_first(builder, count, value, address, dtype: types.Type):
    align = ir.Constant(ir.IntType(32), dtype.bitwidth // 8)
    mask = _mask(builder, count, value.type.count)
    _call(builder, f"llvm.masked.store.{_name(value.type)}.p0", ir.VoidType(), [value, address, align, mask])


def emit_fma(builder, a, b, c):
    if is_float(c.type):  # "fmuladd": one instruction where the machine has it, and never a call into the C library
        return _call(builder, f"llvm.fmuladd.{_name(c.type)}", c.type, [a, b, c])
    return builder.add(builder.mul(a, b), c)


def emit_add(builder, a, b):
    return (builder.fadd if is_float(a.type) else builder.add)(a, b)


def emit_less(builder, a, b, sign: str = "<"):
    return (builder.fcmp_ordered if is_float(a.type) else builder.icmp_signed)(sign, a, b)


# --- What a register holds


def lanes(x):
    """The number of elements of the array x that fill a register."""
    return BYTES // x.itemsize


@compiled(lanes, lambda x: types.intp)
def _lanes(context, builder, ty, arg_types, args):
    return ir.Constant(ty, vector_type(arg_types[0]).count)


def zero(x):
    """0 in every lane, of the dtype of x."""
    return (x.dtype.type(0),) * lanes(x)


@compiled(zero, vector_type)
def _zero(context, builder, ty, arg_types, args):
    return constant(ty, 0)


def splat(x, value):
    """`value` in every lane, as a number of the dtype of x."""
    return (x.dtype.type(value),) * lanes(x)


@compiled(splat, vector_type)
def _fill(context, builder, ty, arg_types, args):
    return broadcast(builder, ty, args[1])


# --- Memory


def load(x, *at):
    """The elements of x from `at` on."""
    return load_first(lanes(x), x, *at)


@compiled(load, vector_type)
def _load(context, builder, ty, arg_types, args):
    x, *at = args
    return read(builder, element_ptr(context, builder, arg_types[0], x, at, ty), arg_types[0].dtype)


def load_first(count, x, *at):
    """The `count` elements of x from `at` on, then zeros; no element beyond them is read."""
    n, row, j = max(0, min(count, lanes(x))), at[:-1], at[-1]
    v, zeros = tuple(x[row + (slice(j, j + n),)]), (x.dtype.type(0),) * (lanes(x) - n)
    fits = len(v) == n and (n < 2 or x.strides[-1] == x.itemsize)  # none missing, and neighbours
    return v + zeros if fits else x[row + (max(j + n - 1, x.shape[-1]),)]  # an index outside of x, so x raises


@compiled(load_first, lambda count, x, *at: vector_type(x))
def _load_first(context, builder, ty, arg_types, args):
    count, x, *at = args
    return read_first(builder, count, element_ptr(context, builder, arg_types[1], x, at, ty), arg_types[1].dtype)


def split(x, *sizes):
    """Pieces of these sizes, one after the other, of a one-dimensional x."""
    pieces, at = (), 0
    for size in sizes:
        pieces += (x[at : at + size],)
        at += size
    return pieces


@compiled(split, lambda x, *sizes: types.UniTuple(x, len(sizes)))
def _split(context, builder, ty, arg_types, args):
    x, *sizes = args
    ptr, pieces = array_field(context, builder, arg_types[0], x, "data"), []
    step = int64(arg_types[0].dtype.bitwidth // 8)
    for size in sizes:
        pieces.append(array_at(context, builder, arg_types[0], builder.ptrtoint(ptr, ir.IntType(64)), [size], [step]))
        ptr = builder.gep(ptr, [size])
    return pack_array(builder, pieces)


def load_splat(x, *at):
    """The one element x[at] in every lane."""
    return (x[at],) * lanes(x)


@compiled(load_splat, vector_type)
def _splat(context, builder, ty, arg_types, args):
    x, *at = args
    return broadcast(builder, ty, read(builder, element_ptr(context, builder, arg_types[0], x, at), arg_types[0].dtype))


def store(v, x, *at):
    """Write v over the elements of x from `at` on."""
    store_first(len(v), v, x, *at)


@compiled(store, lambda v, x, *at: types.none)
def _store(context, builder, ty, arg_types, args):
    v, x, *at = args
    write(builder, v, element_ptr(context, builder, arg_types[1], x, at, v.type), arg_types[1].dtype)


def store_first(count, v, x, *at):
    """Write the first `count` lanes of v over the elements of x from `at` on; no element beyond them is written."""
    for lane in range(min(count, len(v))):
        x[at[:-1] + (at[-1] + lane,)] = v[lane]


@compiled(store_first, lambda count, v, x, *at: types.none)
def _store_first(context, builder, ty, arg_types, args):
    count, v, x, *at = args
    write_first(builder, count, v, element_ptr(context, builder, arg_types[2], x, at, v.type), arg_types[2].dtype)


# --- Arithmetic, lane by lane


def fma(a, b, c):
    """a * b + c, rounded once where the machine can."""
    return tuple([x * y + z for x, y, z in zip(a, b, c, strict=True)])


def add(a, b):
    """a + b."""
    return tuple([x + y for x, y in zip(a, b, strict=True)])


def sub(a, b):
    """a - b."""
    return tuple([x - y for x, y in zip(a, b, strict=True)])


def mul(a, b):
    """a * b."""
    return tuple([x * y for x, y in zip(a, b, strict=True)])


def div(a, b):
    """a / b."""
    return tuple([x / y for x, y in zip(a, b, strict=True)])


def where_less(a, b, x, y):
    """x where a < b; y elsewhere, and where one of a and b is NaN."""
    return tuple([x[lane] if a[lane] < b[lane] else y[lane] for lane in range(len(a))])


def maximum(a, b):
    """The larger one; b where one of the two is NaN."""
    return tuple([x if x > y else y for x, y in zip(a, b, strict=True)])


def select_first(count, x, y):
    """The first `count` lanes of x, then those of y."""
    return tuple([x[lane] if lane < count else y[lane] for lane in range(len(x))])


compile_lanewise(fma, emit_fma)
compile_lanewise(add, emit_add)
compile_lanewise(sub, lambda builder, a, b: (builder.fsub if is_float(a.type) else builder.sub)(a, b))
compile_lanewise(mul, lambda builder, a, b: (builder.fmul if is_float(a.type) else builder.mul)(a, b))
compile_lanewise(div, lambda builder, a, b: builder.fdiv(a, b))  # no kernel divides registers of integers
compile_lanewise(where_less, lambda builder, a, b, x, y: builder.select(emit_less(builder, a, b), x, y))
compile_lanewise(maximum, lambda builder, a, b: builder.select(emit_less(builder, b, a), a, b))
compile_lanewise(select_first, lambda builder, count, x, y: builder.select(_mask(builder, count, x.type.count), x, y))


def _each_lane(context, builder, register: Vector, function: Callable, x):
    """The C library's function of each number, one lane after the other."""
    call, y = context.get_function(function, signature(register.dtype, register.dtype)), x
    for lane in range(register.count):
        at = ir.Constant(ir.IntType(32), lane)
        y = builder.insert_element(y, call(builder, [builder.extract_element(x, at)]), at)
    return y


def _exponentials(context, builder, register: Vector, xs: list) -> list:
    """simd_math.exp of each, all lanes at once; for dtypes with the C library's exp, one lane after the other."""
    ty = xs[0].type
    if str(ty.element) != "float":
        return [_each_lane(context, builder, register, np.exp, x) for x in xs]
    whole = ir.VectorType(ir.IntType(32), ty.count)

    def powers_of_two(exponents):
        return [builder.bitcast(builder.shl(e, constant(whole, 23)), ty) for e in exponents]

    def products(a, b):
        return [builder.fmul(*pair, flags=("nsz",)) for pair in zip(a, b, strict=True)]

    def sums(a, b, c):
        """a b + c. Each product is fused with a sum, so a kernel's "reassoc" finds nothing to reorder."""
        return [emit_fma(builder, *three) for three in zip(a, b, c, strict=True)]

    def constants_of(number):
        return [constant(ty, float(number))] * len(xs)

    lowest, highest = constant(ty, float(simd_math._LOWEST)), constant(ty, float(simd_math._HIGHEST))
    c = [builder.select(emit_less(builder, x, lowest), lowest, x) for x in xs]
    c = [builder.select(emit_less(builder, highest, x), highest, x) for x in c]
    shifted = sums(c, constants_of(simd_math._LOG2_E), constants_of(simd_math._ROUND))
    n = [builder.fsub(*pair, flags=("nsz",)) for pair in zip(shifted, constants_of(simd_math._ROUND), strict=True)]
    r = sums(n, constants_of(-simd_math._LN2_LOW), sums(n, constants_of(-simd_math._LN2_HIGH), c))
    q = constants_of(simd_math._Q4)
    for coefficient in (simd_math._Q3, simd_math._Q2, simd_math._Q1, simd_math._Q0):
        q = sums(r, q, constants_of(coefficient))
    p = sums([builder.fmul(x, x) for x in r], q, r)
    p = [builder.fadd(*pair, flags=("nsz",)) for pair in zip(constants_of(1.0), p, strict=True)]
    bits = [builder.bitcast(s, whole) for s in shifted]
    tree_reduce = [builder.ashr(b, constant(whole, 1)) for b in bits]
    others = [builder.sub(*pair) for pair in zip(bits, tree_reduce, strict=True)]
    return products(products(p, powers_of_two(tree_reduce)), powers_of_two(others))


def exp(x):
    """e^x: in float32 the polynomial of simd_math.exp, with its bounds; -inf gives 0, inf gives inf, NaN stays."""
    return tuple([np.exp(number) for number in x])


@compiled(exp, _same)
def _exp(context, builder, ty, arg_types, args):
    return _exponentials(context, builder, arg_types[0], args)[0]


def exps(*registers):
    """exp of each register, computed in step.

    A polynomial's terms wait for each other. If registers are computed one after the other, a processor works on three
    or four at once, as many as its waiting instructions cover; in step, it works on the other registers meanwhile.
    """
    return tuple([exp(register) for register in registers])


@compiled(exps, lambda *registers: types.UniTuple(registers[0], len(registers)))
def _exps(context, builder, ty, arg_types, args):
    return context.make_tuple(
        builder, types.UniTuple(arg_types[0], len(args)), _exponentials(context, builder, arg_types[0], args)
    )


def log(x):
    """ln x: in float32 the polynomial of simd_math.log, with its bounds; 0 gives -inf, a negative number NaN."""
    return tuple([np.log(number) for number in x])


@compiled(log, _same)
def _log(context, builder, ty, arg_types, args):
    x = args[0]
    if str(ty.element) != "float":
        return _each_lane(context, builder, arg_types[0], np.log, x)
    whole = ir.VectorType(ir.IntType(32), ty.count)

    def constants_of(number):
        return constant(ty, float(number))

    def bits_of(number):
        return constant(whole, int(number))

    small = emit_less(builder, x, constants_of(simd_math._LEAST_NORMAL))
    c = builder.select(small, builder.fmul(x, constants_of(simd_math._TWO_TO_23)), x)
    bits = builder.sub(builder.bitcast(c, whole), bits_of(simd_math._ROOT_HALF))
    n = builder.sitofp(builder.ashr(bits, bits_of(simd_math._FRACTION)), ty)
    n = builder.fsub(n, builder.select(small, constants_of(simd_math._TWENTY_THREE), constants_of(0)), flags=("nsz",))
    bits = builder.add(builder.and_(bits, bits_of(simd_math._FRACTION_BITS)), bits_of(simd_math._ROOT_HALF))
    f = builder.fsub(builder.bitcast(bits, ty), constants_of(1), flags=("nsz",))
    p = constants_of(simd_math._C8)
    for power in (7, 6, 5, 4, 3, 2, 1, 0):
        p = emit_fma(builder, f, p, constants_of(getattr(simd_math, f"_C{power}")))
    low = emit_fma(builder, builder.fmul(f, f), p, builder.fmul(n, constants_of(simd_math._LN2_LOW)))
    y = emit_fma(builder, n, constants_of(simd_math._LN2_HIGH), builder.fadd(f, low, flags=("nsz",)))
    y = builder.select(emit_less(builder, x, constants_of(math.inf)), y, constants_of(math.inf))
    end = builder.select(emit_less(builder, x, constants_of(0), "=="), constants_of(-math.inf), constants_of(math.nan))
    return builder.select(emit_less(builder, constants_of(0), x), y, end)


# --- Across the lanes


def tree_reduce(builder, v, join):
    """One number from the lanes of v: join(lower half, upper half) until one is left."""
    n = v.type.count
    while n > 1:
        n //= 2
        positions = ir.VectorType(ir.IntType(32), n)
        lower = builder.shuffle_vector(v, v, ir.Constant(positions, list(range(n))))
        upper = builder.shuffle_vector(v, v, ir.Constant(positions, list(range(n, 2 * n))))
        v = join(lower, upper)
    return builder.extract_element(v, ir.Constant(ir.IntType(32), 0))


def sum_lanes(v):
    """The sum of the lanes: the upper half is added to the lower half until one number is left."""
    while len(v) > 1:
        v = add(v[: len(v) // 2], v[len(v) // 2 :])
    return v[0]


@compiled(sum_lanes, lambda v: v.dtype)
def _total(context, builder, ty, arg_types, args):
    return tree_reduce(builder, args[0], lambda a, b: emit_add(builder, a, b))


def max_lanes(v):
    """The largest lane, found in the order of `sum_lanes`."""
    while len(v) > 1:
        v = maximum(v[: len(v) // 2], v[len(v) // 2 :])
    return v[0]


@compiled(max_lanes, lambda v: v.dtype)
def _largest(context, builder, ty, arg_types, args):
    return tree_reduce(builder, args[0], lambda a, b: builder.select(emit_less(builder, b, a), a, b))

"""Score tile: WIDTH registers of LANES numbers each, the unit in which attention works.

A score tile holds a value for each pair of LANES queries and WIDTH keys (or the reverse): scores, probabilities, or the
gradients of both. The lanes are queries (or keys), and not the numbers of a head's row, which would leave most of a
register empty in a narrow head (4 or 8 numbers). The numbers of a row come one at a time, each broadcast to all lanes.

As in `vector.py`, each function is plain Python first, with tuples of tuples as tiles. Its compiled meaning follows it.

| ISA | registers | lanes | score tile | why |
|---|---|---|---|---|
| AVX2 | 16 of 8 float32 | 16, a pair of registers | 4 x 16 | a pair shares each broadcast; four pairs of sums fit |
| AVX-512 | 32 of 16 | 16 | 8 x 16 | broadcasts are free; eight sums keep two FMAs a cycle busy |
| NEON | 32 of 4 | 8, a pair of registers | 8 x 8 | room for eight pairs of sums |
| none | 16 of 4 | 8 | 4 x 8 | as AVX2, in two halves |

`x` with one index `at` is a row of scratch memory: a register or a tile begins at x[at]. `x` with indices i and j is a
matrix with rows anywhere, each contiguous.
"""

import math
from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.cgutils import pack_array, unpack_tuple

from tinytensor.core.poison import LINE
from tinytensor.native.simd import compiled_math as simd_math
from tinytensor.native.simd.address import array_field, element_ptr, element_ptr_and_strides, gep_bytes, int64, prefetch
from tinytensor.native.simd.isa import BYTES, SIMD
from tinytensor.native.simd.vector import (
    Vector,
    add,
    branch,
    broadcast,
    compile_lanewise,
    compiled,
    constant,
    emit_fma,
    exp,
    fma,
    mul,
    read,
    read_first,
    store,
    sub,
    sum_lanes,
    tree_reduce,
    write,
    write_first,
)

LANES = 16 if BYTES >= 32 else 8
HALF = LANES // 2
WIDTH = 8 if SIMD in ("avx512", "neon") else 4
NARROW = 4  # columns of the narrowest heads in use


# --- LLVM: types, masks, addresses


def _register_type(x, *_) -> Vector:
    return Vector(x.dtype, LANES)


def _score_tile_type(x, *_) -> types.UniTuple:
    return types.UniTuple(_register_type(x), WIDTH)


def _splat_type(value) -> Vector:
    return Vector(value, LANES)


def _mask_type(numbers) -> types.UniTuple:
    """The type of the booleans for a tile of such numbers (those of an array or a register).

    A boolean is a whole number as wide as a number of the register, -1 or 0: AVX2 compares and selects by these, and
    LLVM would pack single bits between one loop and the next.
    """
    return types.UniTuple(Vector(types.int32 if numbers.dtype == types.float32 else types.int64, LANES), WIDTH)


def _compare(builder, sign: str, a, b):
    """The comparison a < b (or another one), lane by lane."""
    bits = 32 if isinstance(a.type.element, ir.FloatType) else 64
    return builder.sext(builder.fcmp_ordered(sign, a, b), ir.VectorType(ir.IntType(bits), LANES))


def _select(builder, mask, a, b):
    return builder.select(builder.icmp_signed("<", mask, constant(mask.type, 0)), a, b)


def _and_mask(builder, mask, a):
    """a, or 0 where the boolean is false: all its bits are equal, so `and` does it, and no sum waits for a select."""
    return builder.bitcast(builder.and_(mask, builder.bitcast(a, mask.type)), a.type)


def _llvm_type(context, array: types.Array, lanes: int = LANES) -> ir.VectorType:
    """The LLVM type of a register of elements of the array."""
    return ir.VectorType(context.get_data_type(array.dtype), lanes)


def _splat_each(context, builder, array, x, at, step=None, lanes: int = LANES) -> list:
    """x[at + t step] in every lane, for each t."""
    ty, ptrs = _llvm_type(context, array, lanes), [int64(t) for t in range(WIDTH)]
    start = element_ptr(context, builder, array, x, [at], ty.element)
    ptrs = ptrs if step is None else [builder.mul(step, ptr) for ptr in ptrs]
    return [broadcast(builder, ty, read(builder, builder.gep(start, [ptr]), array.dtype)) for ptr in ptrs]


def _registers(context, builder, array, x, at, count: int) -> list:
    """The addresses of `count` registers that lie in x one after the other."""
    start = element_ptr(context, builder, array, x, [at], _llvm_type(context, array))
    return [builder.gep(start, [int64(t)]) for t in range(count)]


def _shuffle(builder, a, b, order):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order)))


def _same(c, *_):
    return c


def _for_each_register(plain: Callable, emit: Callable) -> None:
    """Compile `plain`, which treats all registers of a tile alike, as emit(builder, register, *others) for each.

    The others are the same register of further tiles, or one register that all of them share.
    """

    @compiled(plain, _same)
    def emit_each(context, builder, ty, arg_types, args):
        parts = [
            unpack_tuple(builder, a) if isinstance(k, types.UniTuple) else [a] * WIDTH for k, a in zip(arg_types, args)
        ]
        return pack_array(builder, [emit(builder, *registers) for registers in zip(*parts, strict=True)])


def _compile_load(plain: Callable, lanes: int, is_tile: bool = False) -> None:
    """Compile plain(x, at), which loads the first `lanes` of a register, or of each register of a tile."""

    def result(x, at):
        return types.UniTuple(Vector(x.dtype, lanes), WIDTH) if is_tile else Vector(x.dtype, lanes)

    @compiled(plain, result)
    def emit_load(context, builder, ty, arg_types, args):
        pointer = _llvm_type(context, arg_types[0], lanes).as_pointer()
        ptrs = _registers(context, builder, arg_types[0], *args, WIDTH if is_tile else 1)
        registers = [read(builder, builder.bitcast(ptr, pointer), arg_types[0].dtype) for ptr in ptrs]
        return pack_array(builder, registers) if is_tile else registers[0]


# --- Registers of LANES


def load_register(x, at):
    """The LANES elements of x from `at` on."""
    return tuple([x[at + lane] for lane in range(LANES)])


def load_half_register(x, at):
    """The first half of a register of x."""
    return load_register(x, at)[:HALF]


_compile_load(load_register, LANES)
_compile_load(load_half_register, HALF)


def splat(value):
    """`value` in every lane."""
    return (value,) * LANES


@compiled(splat, _splat_type)
def _splat(context, builder, ty, arg_types, args):
    return broadcast(builder, ty, args[0])


def neg_inf(value):
    """-inf in every lane, of the type of `value`: the maximum of no numbers."""
    return (None,) * LANES


@compiled(neg_inf, _splat_type)
def _neg_inf(context, builder, ty, arg_types, args):
    return constant(ty, float("-inf"))


# --- Score tiles


def splat_tile(value):
    """A tile with `value` in every lane of every register."""
    return ((value,) * LANES,) * WIDTH


@compiled(splat_tile, lambda value: types.UniTuple(_splat_type(value), WIDTH))
def _splat_tile(context, builder, ty, arg_types, args):
    return pack_array(builder, [broadcast(builder, ty.element, args[0])] * WIDTH)


def load_score_tile(x, at):
    """The tile whose registers follow each other in x, from x[at] on."""
    return tuple([load_register(x, at + t * LANES) for t in range(WIDTH)])


def store_score_tile(c, x, at):
    """Write the registers of c over those of a tile of x; half registers go over the first halves."""
    for t in range(WIDTH):
        store(c[t], x, at + t * LANES)


@compiled(store_score_tile, lambda *_: types.none)
def _store_score_tile(context, builder, ty, arg_types, args):
    c, x, at = args
    for v, ptr in zip(unpack_tuple(builder, c), _registers(context, builder, arg_types[1], x, at, WIDTH), strict=True):
        write(builder, v, builder.bitcast(ptr, v.type.as_pointer()), arg_types[1].dtype)


def load_half_score_tile(x, at):
    """The first halves of the registers of a tile of x."""
    return tuple([load_half_register(x, at + t * LANES) for t in range(WIDTH)])


_compile_load(load_score_tile, LANES, is_tile=True)
_compile_load(load_half_score_tile, HALF, is_tile=True)


def _edge_rows(context, builder, array, x, i, j, rows: int, lanes: int, whole, part) -> list:
    """The results of whole(address) or part(address, count), one for each row of a block of the matrix x.

    A block that lies inside x needs no masks: AVX2 stores by a mask at a tenth of the speed.
    """
    ty = _llvm_type(context, array, lanes)
    sizes = unpack_tuple(builder, array_field(context, builder, array, x, "shape"))
    height, width = (builder.sub(size, at) for size, at in zip(sizes, (i, j), strict=True))
    # Each row has an address of its own. With one for all, a step of AVX2 takes a thirtieth longer.
    ptrs = [element_ptr(context, builder, array, x, [builder.add(i, int64(t)), j], ty) for t in range(rows)]
    fits = builder.and_(*(builder.icmp_signed(">=", size, int64(n)) for size, n in ((height, rows), (width, lanes))))

    def at_edge():
        short, results = builder.select(builder.icmp_signed("<", width, int64(lanes)), width, int64(lanes)), []
        for t, ptr in enumerate(ptrs):
            count = builder.select(builder.icmp_signed("<", int64(t), height), short, int64(0))
            results.append(part(ptr, builder.trunc(count, ir.IntType(32))))  # as many bits as a lane has, or nearly
        return results

    return branch(builder, fits, lambda: [whole(ptr) for ptr in ptrs], at_edge)


def _emit_load_rows(context, builder, array, ptr, rows: int, lanes: int) -> list:
    def whole(address):
        return read(builder, address, array.dtype)

    def part(address, count):
        return read_first(builder, count, address, array.dtype)

    return _edge_rows(context, builder, array, *ptr, rows, lanes, whole, part)


def _emit_store_rows(context, builder, array, rows: list, ptr) -> None:
    """Write the rows, as far as the matrix goes.

    Where the matrix ends within a row's lanes, halves of the row are written in turn, down to NARROW lanes. In a narrow
    head all gradients of queries are such rows; to write them by masks took AVX2 a third of all the time for heads of
    four columns.
    """
    (x, i, j), lanes = ptr, rows[0].type.count

    def store_rows():
        wholes, parts = iter(rows), iter(rows)

        def whole(address):
            write(builder, next(wholes), address, array.dtype)

        def part(address, count):
            write_first(builder, count, next(parts), address, array.dtype)

        _edge_rows(context, builder, array, x, i, j, len(rows), lanes, whole, part)

    if SIMD == "avx512" or lanes <= NARROW:  # AVX-512's masks cost nothing
        return store_rows()
    width = builder.sub(unpack_tuple(builder, array_field(context, builder, array, x, "shape"))[1], j)
    with builder.if_else(builder.icmp_signed(">=", width, int64(lanes))) as (then, otherwise):
        with then:
            store_rows()
        with otherwise:
            for first in (0, lanes // 2):
                with builder.if_then(builder.icmp_signed(">", width, int64(first))):
                    part = [_shuffle(builder, row, row, range(first, first + lanes // 2)) for row in rows]
                    _emit_store_rows(context, builder, array, part, (x, i, builder.add(j, int64(first))))


def load_rows(x, i, j):
    """The elements of x[i : i + WIDTH, j : j + LANES]; zeros where x ends before."""
    c = ()
    for t in range(WIDTH):
        zeros = i + t >= x.shape[0]
        row = [x.dtype.type(0) if zeros or k >= x.shape[1] else x[i + t, k] for k in range(j, j + LANES)]
        c += (tuple(row),)
    return c


@compiled(load_rows, _score_tile_type)
def _load_rows(context, builder, ty, arg_types, args):
    return pack_array(builder, _emit_load_rows(context, builder, arg_types[0], args, WIDTH, LANES))


def store_rows(c, x, i, j):
    """Write c over x[i : i + WIDTH, j : j + LANES], as far as x goes."""
    for t in range(min(WIDTH, x.shape[0] - i)):
        for lane in range(min(LANES, x.shape[1] - j)):
            x[i + t, j + lane] = c[t][lane]


@compiled(store_rows, lambda *_: types.none)
def _store_rows(context, builder, ty, arg_types, args):
    c, *ptr = args
    _emit_store_rows(context, builder, arg_types[1], unpack_tuple(builder, c), ptr)


def _transpose(builder, rows: list) -> list:
    """Groups of WIDTH lanes of WIDTH registers, transposed.

    Neighbouring rows are merged number by number, then those by pairs, then (of eight) by fours. The first two steps
    stay within four lanes, as the machine's own instructions for this do.
    """

    def merged(a, b, *order):
        """These lanes of a and b, merged in groups; the lanes of b are numbered after those of a."""
        lanes, unit = a.type.count, len(order)
        ptrs = [first + p % unit + p // unit * lanes for first in range(0, lanes, unit) for p in order]
        return _shuffle(builder, a, b, ptrs)

    def four(rows):
        ones = [merged(*pair, *order) for pair in (rows[:2], rows[2:]) for order in ((0, 4, 1, 5), (2, 6, 3, 7))]
        return [merged(*pair, *order) for pair in (ones[::2], ones[1::2]) for order in ((0, 1, 4, 5), (2, 3, 6, 7))]

    if len(rows) == 4:
        return four(rows)
    pairs = list(zip(four(rows[:4]), four(rows[4:]), strict=True))
    left = [merged(*pair, 0, 1, 2, 3, 8, 9, 10, 11) for pair in pairs]
    return left + [merged(*pair, 4, 5, 6, 7, 12, 13, 14, 15) for pair in pairs]


def load_columns(x, i, j):
    """The columns of x[i : i + LANES, j : j + WIDTH], a register for each; zeros where x ends before."""
    return load_rows(x.T, j, i)


@compiled(load_columns, _score_tile_type)
def _load_columns(context, builder, ty, arg_types, args):
    rows = _emit_load_rows(context, builder, arg_types[0], args, LANES, WIDTH)
    parts = [rows[first : first + WIDTH] for first in range(0, LANES, WIDTH)]
    while len(parts) > 1:  # row t, row t + WIDTH and so on side by side
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [[_shuffle(builder, a, b, range(2 * a.type.count)) for a, b in zip(*pair)] for pair in pairs]
    return pack_array(builder, _transpose(builder, parts[0]))


def store_columns(c, x, i, j):
    """Write the registers of c over the columns of x[i : i + LANES, j : j + WIDTH], as far as x goes."""
    store_rows(c, x.T, j, i)


@compiled(store_columns, lambda *_: types.none)
def _store_columns(context, builder, ty, arg_types, args):
    c, *ptr = args
    rows = _transpose(builder, unpack_tuple(builder, c))
    rows = [_shuffle(builder, a, a, range(first, first + WIDTH)) for first in range(0, LANES, WIDTH) for a in rows]
    _emit_store_rows(context, builder, arg_types[1], rows, ptr)


def prefetch_rows(x, b, h, i, written):
    """Prefetch the rows x[b, h, i : i + LANES], which will soon be read or written; nothing where x has no such rows.

    The memory may bring them near in the meantime. No number depends on it.
    """


@compiled(prefetch_rows, lambda *_: types.none)
def _prefetch_rows(context, builder, ty, arg_types, args):
    x, b, h, i, written = args
    shape = unpack_tuple(builder, array_field(context, builder, arg_types[0], x, "shape"))
    start, (*_, down, along) = element_ptr_and_strides(context, builder, arg_types[0], x, [b, h, i, int64(0)], True)
    left, width = builder.sub(shape[2], i), builder.mul(shape[3], along)
    rows = builder.select(builder.icmp_signed("<", left, int64(LANES)), left, int64(LANES))
    with cgutils.for_range(builder, rows) as row:
        line = gep_bytes(builder, start, builder.mul(row.index, down))
        with cgutils.for_range_slice(builder, int64(0), width, int64(LINE)) as (offset, _):
            prefetch(builder, gep_bytes(builder, line, offset), written.constant)


def mul_register(c, v):
    """Each register of c times v."""
    return tuple([mul(register, v) for register in c])


_for_each_register(mul_register, lambda builder, a, v: builder.fmul(a, v))


def fma_tiles(a, b, c):
    """a * b + c, register by register."""
    return tuple([fma(*registers) for registers in zip(a, b, c, strict=True)])


_for_each_register(fma_tiles, emit_fma)


def sum_registers(c):
    """The sum of the registers: the second half is added to the first until one is left."""
    while len(c) > 1:
        c = [add(a, b) for a, b in zip(c[: len(c) // 2], c[len(c) // 2 :], strict=True)]
    return c[0]


@compiled(sum_registers, lambda c: c.dtype)
def _sum_registers(context, builder, ty, arg_types, args):
    rows = unpack_tuple(builder, args[0])
    while len(rows) > 1:
        half = len(rows) // 2
        rows = [builder.fadd(a, b) for a, b in zip(rows[:half], rows[half:], strict=True)]
    return rows[0]


def sum_elements(x, at):
    """The sum of the WIDTH elements of x from `at` on, in the same order."""
    return sum_lanes([x[at + t] for t in range(WIDTH)])


@compiled(sum_elements, lambda x, at: x.dtype)
def _sum_elements(context, builder, ty, arg_types, args):
    ptr = element_ptr(context, builder, arg_types[0], args[0], args[1:], _llvm_type(context, arg_types[0], WIDTH))
    return tree_reduce(builder, read(builder, ptr, arg_types[0].dtype), builder.fadd)


def sub_register(c, v):
    """c[t] - v for each register c[t]."""
    return tuple([sub(register, v) for register in c])


_for_each_register(sub_register, lambda builder, a, v: builder.fsub(a, v))


def sub_elements(c, x, at):
    """c[t] - x[at + t] for each register c[t]."""
    return tuple([sub(c[t], splat(x[at + t])) for t in range(WIDTH)])


@compiled(sub_elements, _same)
def _sub_elements(context, builder, ty, arg_types, args):
    c, x, at = args
    pairs = zip(unpack_tuple(builder, c), _splat_each(context, builder, arg_types[1], x, at), strict=True)
    return pack_array(builder, [builder.fsub(a, b) for a, b in pairs])


def mul_tiles(a, b):
    """a[t] b[t] for each of their registers."""
    return tuple([mul(*registers) for registers in zip(a, b, strict=True)])


_for_each_register(mul_tiles, lambda builder, a, b: builder.fmul(a, b))


def _min_zero(builder, a):
    zero = constant(a.type, 0)
    return builder.select(builder.fcmp_ordered(">", a, zero), zero, a)


def min_zero(c):
    """c where it is at most 0, 0 where it is above; NaN stays."""
    return tuple([tuple([type(x)(0) if x > type(x)(0) else x for x in register]) for register in c])


_for_each_register(min_zero, _min_zero)


_FACTORIALS = [1 / math.factorial(k) for k in range(13, 1, -1)]  # of e^r - 1 - r: enough for float64
# e^x = 2^n e^r with n = rint(x / log 2). Columns: log 2 in two parts, n times the first exact; the terms of e^r from
# r^2 on; the number of bits of the fraction; the bias of the exponent; the x whose e^x is the least normal number.
_FLOAT32 = (
    (simd_math._LN2_HIGH, simd_math._LN2_LOW),
    (simd_math._Q4, simd_math._Q3, simd_math._Q2, simd_math._Q1, simd_math._Q0),
)
_EXP = {
    "float": (*_FLOAT32, 23, 127, -87.33654),
    "double": ((6.93145751953125e-1, 1.42860682030941723e-6), _FACTORIALS, 52, 1023, -708.3964),
}


def _exp(builder, x):
    """As in fastmath, but shorter, since 2^n is a normal number (any number for a NaN, and NaN times it is NaN)."""
    ty = x.type
    (high, low), terms, bits, bias, least = _EXP[str(ty.element)]
    whole = ir.VectorType(ir.IntType(32 if bits == 23 else 64), LANES)
    rounding = constant(ty, 1.5 * 2.0**bits + bias)  # added to a number, it leaves no bits for a fraction
    shifted = emit_fma(
        builder, x, constant(ty, float(simd_math._LOG2_E) if bits == 23 else math.log2(math.e)), rounding
    )
    n = builder.fsub(shifted, rounding)
    r = emit_fma(builder, n, constant(ty, -float(low)), emit_fma(builder, n, constant(ty, -float(high)), x))
    p = constant(ty, float(terms[0]))
    for term in (*terms[1:], 1.0, 1.0):
        p = emit_fma(builder, r, p, constant(ty, float(term)))
    power = builder.shl(builder.bitcast(shifted, whole), constant(whole, bits))  # its last bits are n + bias
    y = builder.fmul(p, builder.bitcast(power, ty))
    return builder.select(builder.fcmp_ordered("<", x, constant(ty, least)), constant(ty, 0.0), y)


def exp_tile(c):
    """e^c[t] for each register c[t], whose numbers are at most 0, apart from rounding.

    Differences from the largest score are so. Results below the least normal number are 0. float32: relative error at
    most 7.71e-8, 0.89 units in the last place (every float32 up to 0 was checked).
    """
    return tuple([exp(register) for register in c])


_for_each_register(exp_tile, _exp)


# --- Matrix products


def outer(c, x, at, step, b):
    """c[t] + x[at + t step] b, for whole or half registers."""
    return tuple([fma((x[at + t * step],) * len(b), b, c[t]) for t in range(WIDTH)])


@compiled(outer, _same)
def _outer(context, builder, ty, arg_types, args):
    c, x, at, step, b = args
    pairs = zip(
        _splat_each(context, builder, arg_types[1], x, at, step, b.type.count), unpack_tuple(builder, c), strict=True
    )
    return pack_array(builder, [emit_fma(builder, a, b, part) for a, part in pairs])


def masked_outer(c, x, at, step, b, visible):
    """`outer` with 0 in place of b for each t whose visible[at + t step] is not above 0: b may be infinite there."""
    zeros = splat(type(x[at])(0))
    steps = range(at, at + WIDTH * step, step)
    return tuple([fma(splat(x[k]), b if visible[k] > 0 else zeros, c[t]) for t, k in enumerate(steps)])


@compiled(masked_outer, _same)
def _masked_outer(context, builder, ty, arg_types, args):
    c, x, at, step, b, visible = args
    numbers, sums = _splat_each(context, builder, arg_types[5], visible, at, step), unpack_tuple(builder, c)
    for t, factor in enumerate(_splat_each(context, builder, arg_types[1], x, at, step)):
        mask = _compare(builder, ">", numbers[t], constant(b.type, 0))
        sums[t] = emit_fma(builder, factor, _and_mask(builder, mask, b), sums[t])
    return pack_array(builder, sums)


def inner(a, c, x, at):
    """a + sum_t c[t] x[at + t], added in the order of t."""
    for t in range(WIDTH):
        a = fma(c[t], splat(x[at + t]), a)
    return a


@compiled(inner, _same)
def _inner(context, builder, ty, arg_types, args):
    a, c, x, at = args
    for part, b in zip(unpack_tuple(builder, c), _splat_each(context, builder, arg_types[2], x, at), strict=True):
        a = emit_fma(builder, part, b, a)
    return a


def masked_inner(a, c, x, at, visible):
    """`inner` with 0 in place of x[at + t] in lanes where t is not visible: it may be infinite, and 0 inf is NaN."""
    for t in range(WIDTH):
        a = fma(c[t], select(visible[t], splat(x[at + t]), splat(type(x[at])(0))), a)
    return a


@compiled(masked_inner, _same)
def _masked_inner(context, builder, ty, arg_types, args):
    a, c, x, at, visible = args
    parts = unpack_tuple(builder, c), _splat_each(context, builder, arg_types[2], x, at), unpack_tuple(builder, visible)
    for part, b, s in zip(*parts, strict=True):
        a = emit_fma(builder, part, _and_mask(builder, s, b), a)
    return a


def _splat_elements(context, builder, array, x, i, j, columns: int) -> list[list]:
    """x[i + t, j + n] in every lane, for each t and each of the columns; where x ends before, its last row is taken."""
    ty, element = _llvm_type(context, array), context.get_data_type(array.dtype).as_pointer()
    height, _ = unpack_tuple(builder, array_field(context, builder, array, x, "shape"))
    last = builder.sub(height, int64(1))
    start, (down, _) = element_ptr_and_strides(context, builder, array, x, [int64(0), j], True)
    rows = []
    for t in range(WIDTH):
        row = builder.add(i, int64(t))
        row = builder.select(builder.icmp_signed("<", row, last), row, last)
        first = builder.bitcast(gep_bytes(builder, start, builder.mul(row, down)), element)
        ptrs = [builder.gep(first, [int64(n)]) for n in range(columns)]
        rows.append([broadcast(builder, ty, read(builder, ptr, array.dtype)) for ptr in ptrs])
    return rows


def outer_rows(c, x, i, j, b, at, columns):
    """c[t] + sum_n x[i + t, j + n] b_n over `columns` columns; b_n is the register of b at `at` + n LANES.

    Where x ends before row i + t, its last row is used instead.
    """
    for n in range(columns):
        b_n = load_register(b, at + n * LANES)
        c = tuple([fma(splat(x[min(i + t, x.shape[0] - 1), j + n]), b_n, c[t]) for t in range(WIDTH)])
    return c


@compiled(outer_rows, _same)
def _outer_rows(context, builder, ty, arg_types, args):
    c, x, i, j, b, at, columns = args
    columns, c = columns.constant, unpack_tuple(builder, c)
    factors = [
        read(builder, ptr, arg_types[4].dtype) for ptr in _registers(context, builder, arg_types[4], b, at, columns)
    ]
    for t, elements in enumerate(_splat_elements(context, builder, arg_types[1], x, i, j, columns)):
        for element, factor in zip(elements, factors, strict=True):
            c[t] = emit_fma(builder, element, factor, c[t])
    return pack_array(builder, c)


def _inner_of_rows(context, builder, arg_types, args, columns: int, visible=None):
    c, x, i, j, y, at, *_ = args
    ptrs = _registers(context, builder, arg_types[4], y, at, columns)
    sums = [read(builder, ptr, arg_types[4].dtype) for ptr in ptrs]
    rows = _splat_elements(context, builder, arg_types[1], x, i, j, columns)
    for t, (part, elements) in enumerate(zip(unpack_tuple(builder, c), rows, strict=True)):
        if visible is not None:
            elements = [_and_mask(builder, visible[t], e) for e in elements]
        sums = [emit_fma(builder, part, e, a) for e, a in zip(elements, sums, strict=True)]
    for a, ptr in zip(sums, ptrs, strict=True):
        write(builder, a, ptr, arg_types[4].dtype)


def inner_rows(c, x, i, j, y, at, columns):
    """y_n += sum_t c[t] x[i + t, j + n], added in the order of t; y_n is the register of y at `at` + n LANES."""
    for n in range(columns):
        a = load_register(y, at + n * LANES)
        for t in range(WIDTH):
            a = fma(c[t], splat(x[min(i + t, x.shape[0] - 1), j + n]), a)
        store(a, y, at + n * LANES)


@compiled(inner_rows, lambda *_: types.none)
def _inner_rows(context, builder, ty, arg_types, args):
    _inner_of_rows(context, builder, arg_types, args, args[-1].constant)


def masked_inner_rows(c, x, i, j, y, at, visible):
    """`inner_rows` for one column, with 0 in place of x[i + t, j] in the lanes where t is not visible."""
    a = load_register(y, at)
    for t in range(WIDTH):
        b = splat(x[min(i + t, x.shape[0] - 1), j])
        a = fma(c[t], select(visible[t], b, splat(type(b[0])(0))), a)
    store(a, y, at)


@compiled(masked_inner_rows, lambda *_: types.none)
def _masked_inner_rows(context, builder, ty, arg_types, args):
    _inner_of_rows(context, builder, arg_types, args, 1, unpack_tuple(builder, args[-1]))


# --- Masks: which key is visible to which query


def select(visible, a, b):
    """The lanes of a where `visible` is true, those of b elsewhere."""
    return tuple([a[lane] if visible[lane] else b[lane] for lane in range(LANES)])


compile_lanewise(select, _select)


def registers_less_than(m, ends):
    """Lane l of register t: is m + t < ends[lane]?"""
    return tuple([tuple([m + t < end for end in ends]) for t in range(WIDTH)])


@compiled(registers_less_than, lambda m, ends: _mask_type(ends))
def _registers_less_than(context, builder, ty, arg_types, args):
    m, ends = args
    first = broadcast(builder, ends.type, builder.sitofp(m, ends.type.element))
    ptrs = [builder.fadd(first, constant(ends.type, float(t))) for t in range(WIDTH)]
    return pack_array(builder, [_compare(builder, "<", ptr, ends) for ptr in ptrs])


def lanes_less_than(m, x, at):
    """Lane l of register t: is m + lane < x[at + t]?"""
    return tuple([tuple([m + lane < x[at + t] for lane in range(LANES)]) for t in range(WIDTH)])


@compiled(lanes_less_than, lambda m, x, at: _mask_type(x))
def _lanes_less_than(context, builder, ty, arg_types, args):
    m, x, at = args
    ends = _splat_each(context, builder, arg_types[1], x, at)
    first = broadcast(builder, ends[0].type, builder.sitofp(m, ends[0].type.element))
    ptrs = builder.fadd(first, ir.Constant(first.type, [float(lane) for lane in range(LANES)]))
    return pack_array(builder, [_compare(builder, "<", ptrs, end) for end in ends])


def is_positive(c):
    """Lane by lane: is the number above 0?"""
    return tuple([tuple([x > 0 for x in register]) for register in c])


@compiled(is_positive, lambda c: _mask_type(c.dtype))
def _is_positive(context, builder, ty, arg_types, args):
    return pack_array(
        builder, [_compare(builder, ">", a, constant(a.type, 0.0)) for a in unpack_tuple(builder, args[0])]
    )


def logical_and(a, b):
    """Lane by lane: are both true?"""
    return tuple([tuple([x and y for x, y in zip(*masks, strict=True)]) for masks in zip(a, b, strict=True)])


_for_each_register(logical_and, lambda builder, a, b: builder.and_(a, b))


def _zero_where_not(builder, a, mask):
    return _select(builder, mask, a, constant(a.type, 0))


def zero_where_not(c, visible):
    """The visible lanes of c, 0 elsewhere."""
    return tuple([select(mask, register, splat(type(register[0])(0))) for mask, register in zip(visible, c)])


_for_each_register(zero_where_not, _zero_where_not)


def _max_tree(builder, rows: list):
    while len(rows) > 1:
        rows = [
            builder.select(builder.fcmp_ordered(">", a, b), a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)
        ]
    return rows[0]


def max_registers(top, c):
    """The largest of top and of the registers of c, lane by lane."""
    for t in range(WIDTH):
        top = tuple([x if y is None or x > y else y for x, y in zip(c[t], top, strict=True)])
    return top


@compiled(max_registers, _same)
def _max_registers(context, builder, ty, arg_types, args):
    top, c = args
    return _max_tree(builder, [top, _max_tree(builder, unpack_tuple(builder, c))])


def masked_max_registers(top, c, visible):
    """`max_registers` over the visible lanes."""
    for t in range(WIDTH):
        lanes = zip(c[t], visible[t], top, strict=True)
        top = tuple([x if is_visible and (y is None or x > y) else y for x, is_visible, y in lanes])
    return top


@compiled(masked_max_registers, _same)
def _masked_max_registers(context, builder, ty, arg_types, args):
    top, c, visible = args
    parts = zip(unpack_tuple(builder, c), unpack_tuple(builder, visible), strict=True)
    visible_scores = [_select(builder, s, a, constant(a.type, float("-inf"))) for a, s in parts]
    return _max_tree(builder, [top, _max_tree(builder, visible_scores)])

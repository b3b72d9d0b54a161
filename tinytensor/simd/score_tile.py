"""Squares: WIDTH registers of LANES numbers each, the unit in which attention works.

A square holds values for all pairs of LANES queries and WIDTH keys (or the reverse): their scores, their probabilities,
or the gradients of both. Rows of a narrow head (4 or 8 numbers) would leave most of a register empty; so the lanes of a
square's registers are queries (or keys), and the numbers of a head's rows come one at a time, each in all lanes.

As in `vectors.py`, each function is plain Python first, a square being a tuple of tuples, and compiled code gets
LLVM's vectors. The size of a square depends on the machine. AVX2 has 16 registers of eight float32. Each number that
goes into all lanes is read by an instruction of its own, and a cycle has no more of these than multiplications. So 16
lanes, a pair of registers, share each number that is read, and the registers have room for four pairs of sums. AVX-512
has 32 registers of 16 lanes, and multiplies by a number in memory: eight sums are enough for two multiply-adds a cycle,
and more lanes would stay empty where a sentence ends or a query sees no further keys. NEON has 32 registers of four:
eight pairs.

`x` with one place `at` is a row of scratch memory, in which a register or a square begins at that place. `x` with
places i and j is a matrix, whose rows may lie anywhere but hold their elements side by side.
"""

import math
from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.cgutils import pack_array, unpack_tuple

from tinytensor.simd import math as simd_math
from tinytensor.simd.address import address, ask_for, beyond, corner, number, part_of
from tinytensor.simd.isa import BYTES, LINE, SIMD
from tinytensor.simd.vector import (
    Vector,
    add,
    broadcast,
    compiled,
    constant,
    exp,
    fma,
    halves,
    mul,
    multiply_add,
    read,
    read_first,
    store,
    sub,
    total,
    write,
    write_first,
)

LANES = 16 if BYTES >= 32 else 8
HALF = LANES // 2
WIDTH = 8 if SIMD in ("avx512", "neon") else 4
NARROW = 4  # columns of the narrowest heads in use

# ------------------------------------------------------------------------------------------ registers of LANES


def register(x, at):
    """The LANES elements of x from `at` on."""
    v = ()
    for lane in range(LANES):
        v += (x[at + lane],)
    return v


def half(x, at):
    """The first half of a register of x."""
    return register(x, at)[:HALF]


def every(value):
    """`value` in every lane."""
    return (value,) * LANES


def nothing(value):
    """A number below every other one of the kind of `value`, in every lane: the maximum of no numbers."""
    return (None,) * LANES


# --------------------------------------------------------------------------------------------------- squares


def full(value):
    """A square with `value` in every lane of every register."""
    return ((value,) * LANES,) * WIDTH


def read_square(x, at):
    """The square whose registers stand in x one after the other."""
    c = ()
    for t in range(WIDTH):
        c += (register(x, at + t * LANES),)
    return c


def write_square(c, x, at):
    """Write the registers of c over those of a square of x; half registers go over the first halves."""
    for t in range(WIDTH):
        store(c[t], x, at + t * LANES)


def read_half(x, at):
    """The first halves of the registers of a square of x."""
    c = ()
    for t in range(WIDTH):
        c += (half(x, at + t * LANES),)
    return c


def read_block(x, i, j):
    """The elements of x[i : i + WIDTH, j : j + LANES]; zeros where x ends before."""
    c = ()
    for t in range(WIDTH):
        v = ()
        for lane in range(LANES):
            v += (x[i + t, j + lane] if i + t < x.shape[0] and j + lane < x.shape[1] else x.dtype.type(0),)
        c += (v,)
    return c


def write_block(c, x, i, j):
    """Write c over x[i : i + WIDTH, j : j + LANES], as far as x goes."""
    for t in range(min(WIDTH, x.shape[0] - i)):
        for lane in range(min(LANES, x.shape[1] - j)):
            x[i + t, j + lane] = c[t][lane]


def read_columns(x, i, j):
    """The columns of x[i : i + LANES, j : j + WIDTH], a register for each; zeros where x ends before."""
    return read_block(x.T, j, i)


def write_columns(c, x, i, j):
    """Write the registers of c over the columns of x[i : i + LANES, j : j + WIDTH], as far as x goes."""
    write_block(c, x.T, j, i)


def expect(x, b, h, i, written):
    """Prefetch the rows x[b, h, i : i + LANES], which will soon be read or written; nothing where x has no such rows.

    The memory may bring them near in the meantime. No number depends on it.
    """


def scale_each(c, v):
    """Each register of c times v."""
    b = ()
    for t in range(WIDTH):
        b += (mul(c[t], v),)
    return b


def fma_each(a, b, c):
    """a * b + c, register by register."""
    d = ()
    for t in range(WIDTH):
        d += (fma(a[t], b[t], c[t]),)
    return d


def add_up(c):
    """The sum of the registers: the second half is added to the first until one is left."""
    while len(c) > 1:
        b = ()
        for t in range(len(c) // 2):
            b += (add(c[t], c[t + len(c) // 2]),)
        c = b
    return c[0]


def add_neighbours(x, at):
    """The sum of the WIDTH elements of x from `at` on, in the same order."""
    v = ()
    for t in range(WIDTH):
        v += (x[at + t],)
    return total(v)


def minus(c, v):
    """c[t] - v for each register c[t]."""
    b = ()
    for t in range(WIDTH):
        b += (sub(c[t], v),)
    return b


def minus_each(c, x, at):
    """c[t] - x[at + t] for each register c[t]."""
    b = ()
    for t in range(WIDTH):
        b += (sub(c[t], every(x[at + t])),)
    return b


def times(a, b):
    """a[t] b[t] for each of their registers."""
    c = ()
    for t in range(WIDTH):
        c += (mul(a[t], b[t]),)
    return c


def at_most_zero(c):
    """c where it is at most 0, 0 where it is above; NaN stays."""
    b = ()
    for t in range(WIDTH):
        v = ()
        for lane in range(LANES):
            zero = type(c[t][lane])(0)
            v += (zero if c[t][lane] > zero else c[t][lane],)
        b += (v,)
    return b


def exp_each(c):
    """e^c[t] for each register c[t], whose numbers are at most 0, apart from rounding.

    Differences from the largest score are so. Results below the least normal number are 0. float32: relative error at
    most 7.71e-8, 0.89 units in the last place (every float32 up to 0 was checked).
    """
    b = ()
    for t in range(WIDTH):
        b += (exp(c[t]),)
    return b


# ------------------------------------------------------------------------------------------- matrix products


def outer(c, x, at, step, b):
    """c[t] + x[at + t step] b, for whole or half registers."""
    d = ()
    for t in range(WIDTH):
        d += (fma((x[at + t * step],) * len(b), b, c[t]),)
    return d


def outer_seen(c, x, at, step, b, seen):
    """`outer` with 0 in place of b for each t whose seen[at + t step] is not above 0: b may be infinite there."""
    d = ()
    for t in range(WIDTH):
        factor = b if seen[at + t * step] > 0 else every(type(x[at])(0))
        d += (fma(every(x[at + t * step]), factor, c[t]),)
    return d


def inner(a, c, x, at):
    """a + sum_t c[t] x[at + t], added in the order of t."""
    for t in range(WIDTH):
        a = fma(c[t], every(x[at + t]), a)
    return a


def inner_seen(a, c, x, at, seen):
    """`inner` with 0 in place of x[at + t] in lanes that have not seen t: it may be infinite, and 0 inf is NaN."""
    for t in range(WIDTH):
        a = fma(c[t], where(seen[t], every(x[at + t]), every(type(x[at])(0))), a)
    return a


def outer_rows(c, x, i, j, b, at, columns):
    """c[t] + sum_n x[i + t, j + n] b_n over `columns` columns; b_n is the register of b at `at` + n LANES.

    Where x ends before row i + t, its last row is used instead.
    """
    for n in range(columns):
        d = ()
        for t in range(WIDTH):
            d += (fma(every(x[min(i + t, x.shape[0] - 1), j + n]), register(b, at + n * LANES), c[t]),)
        c = d
    return c


def inner_rows(c, x, i, j, y, at, columns):
    """y_n += sum_t c[t] x[i + t, j + n], added in the order of t; y_n is the register of y at `at` + n LANES."""
    for n in range(columns):
        a = register(y, at + n * LANES)
        for t in range(WIDTH):
            a = fma(c[t], every(x[min(i + t, x.shape[0] - 1), j + n]), a)
        store(a, y, at + n * LANES)


def inner_rows_seen(c, x, i, j, y, at, seen):
    """`inner_rows` for one column, with 0 in place of x[i + t, j] in the lanes that have not seen t."""
    a = register(y, at)
    for t in range(WIDTH):
        b = every(x[min(i + t, x.shape[0] - 1), j])
        a = fma(c[t], where(seen[t], b, every(type(b[0])(0))), a)
    store(a, y, at)


# ----------------------------------------------------------------------------------- who has seen whom: booleans


def where(seen, a, b):
    """The lanes of a where `seen` is true, those of b elsewhere (only plain Python calls it by name)."""
    v = ()
    for lane in range(LANES):
        v += (a[lane] if seen[lane] else b[lane],)
    return v


def before(m, ends):
    """Lane l of register t: is m + t < ends[lane]?"""
    c = ()
    for t in range(WIDTH):
        v = ()
        for lane in range(LANES):
            v += (m + t < ends[lane],)
        c += (v,)
    return c


def before_each(m, x, at):
    """Lane l of register t: is m + lane < x[at + t]?"""
    c = ()
    for t in range(WIDTH):
        v = ()
        for lane in range(LANES):
            v += (m + lane < x[at + t],)
        c += (v,)
    return c


def positive(c):
    """Lane by lane: is the number above 0?"""
    b = ()
    for t in range(WIDTH):
        v = ()
        for lane in range(LANES):
            v += (c[t][lane] > 0,)
        b += (v,)
    return b


def both(a, b):
    """Lane by lane: are both true?"""
    c = ()
    for t in range(WIDTH):
        v = ()
        for lane in range(LANES):
            v += (a[t][lane] and b[t][lane],)
        c += (v,)
    return c


def only(c, seen):
    """The lanes of c that are seen, 0 elsewhere."""
    b = ()
    for t in range(WIDTH):
        v = ()
        for lane in range(LANES):
            v += (c[t][lane] if seen[t][lane] else type(c[t][lane])(0),)
        b += (v,)
    return b


def largest_of(top, c):
    """The largest of top and of the registers of c, lane by lane."""
    for t in range(WIDTH):
        v = ()
        for lane in range(LANES):
            v += (c[t][lane] if top[lane] is None or c[t][lane] > top[lane] else top[lane],)
        top = v
    return top


def largest_seen(top, c, seen):
    """`largest_of` over the lanes that are seen."""
    for t in range(WIDTH):
        v = ()
        for lane in range(LANES):
            v += (c[t][lane] if seen[t][lane] and (top[lane] is None or c[t][lane] > top[lane]) else top[lane],)
        top = v
    return top


# --------------------------------------------------------------------------------- their compiled meaning


def _vector_of(x, *_) -> Vector:
    return Vector(x.dtype, LANES)


def _square_of(x, *_) -> types.UniTuple:
    return types.UniTuple(_vector_of(x), WIDTH)


def _vector_full_of(value) -> Vector:
    return Vector(value, LANES)


def _vector_of_truths(number) -> Vector:
    """The type of the booleans for a register of such numbers.

    A boolean is a whole number as wide as a number of the register, -1 or 0: AVX2 compares and selects by these, and
    LLVM would pack single bits between one loop and the next.
    """
    return Vector(types.int32 if number == types.float32 else types.int64, LANES)


def _truths(vector: Vector) -> types.UniTuple:
    return types.UniTuple(_vector_of_truths(vector.dtype), WIDTH)


def _truth(builder, sign: str, a, b):
    """The comparison a < b (or another one), lane by lane."""
    bits = 32 if isinstance(a.type.element, ir.FloatType) else 64
    return builder.sext(builder.fcmp_ordered(sign, a, b), ir.VectorType(ir.IntType(bits), LANES))


def _where(builder, truth, a, b):
    return builder.select(builder.icmp_signed("<", truth, constant(truth.type, 0)), a, b)


def _if_seen(builder, truth, a):
    """a, or 0 where the boolean is false: all its bits are equal, so `and` does it, and no sum waits for a select."""
    return builder.bitcast(builder.and_(truth, builder.bitcast(a, truth.type)), a.type)


def _kind(context, array: types.Array, lanes: int = LANES) -> ir.VectorType:
    """The LLVM type of a register of elements of the array."""
    return ir.VectorType(context.get_data_type(array.dtype), lanes)


def _each(context, builder, array, x, at, step=None, lanes: int = LANES) -> list:
    """x[at + t step] in every lane, for each t."""
    kind, places = _kind(context, array, lanes), [number(t) for t in range(WIDTH)]
    start = address(context, builder, array, x, [at], kind.element)
    places = places if step is None else [builder.mul(step, place) for place in places]
    return [broadcast(builder, kind, read(builder, builder.gep(start, [place]), array.dtype)) for place in places]


def _registers(context, builder, array, x, at, count: int) -> list:
    """The addresses of `count` registers that lie in x one after the other."""
    start = address(context, builder, array, x, [at], _kind(context, array))
    return [builder.gep(start, [number(t)]) for t in range(count)]


def _half_of(x, *_) -> Vector:
    return Vector(x.dtype, HALF)


def _halves(context, builder, array, x, at, count: int) -> list:
    """The addresses of the first halves of `count` registers that lie in x one after the other."""
    kind = _kind(context, array, HALF).as_pointer()
    return [builder.bitcast(place, kind) for place in _registers(context, builder, array, x, at, count)]


@compiled(half, _half_of)
def _half(context, builder, kind, kinds, args):
    return read(builder, _halves(context, builder, kinds[0], *args, 1)[0], kinds[0].dtype)


@compiled(read_half, lambda x, at: types.UniTuple(_half_of(x), WIDTH))
def _read_half(context, builder, kind, kinds, args):
    places = _halves(context, builder, kinds[0], *args, WIDTH)
    return pack_array(builder, [read(builder, place, kinds[0].dtype) for place in places])


@compiled(register, _vector_of)
def _register(context, builder, kind, kinds, args):
    return read(builder, _registers(context, builder, kinds[0], *args, 1)[0], kinds[0].dtype)


@compiled(every, _vector_full_of)
def _every(context, builder, kind, kinds, args):
    return broadcast(builder, kind, args[0])


@compiled(nothing, _vector_full_of)
def _nothing(context, builder, kind, kinds, args):
    return constant(kind, float("-inf"))


@compiled(full, lambda value: types.UniTuple(_vector_full_of(value), WIDTH))
def _full(context, builder, kind, kinds, args):
    return pack_array(builder, [broadcast(builder, kind.element, args[0])] * WIDTH)


@compiled(read_square, _square_of)
def _read_square(context, builder, kind, kinds, args):
    places = _registers(context, builder, kinds[0], *args, WIDTH)
    return pack_array(builder, [read(builder, place, kinds[0].dtype) for place in places])


@compiled(write_square, lambda *_: types.none)
def _write_square(context, builder, kind, kinds, args):
    c, x, at = args
    for v, place in zip(unpack_tuple(builder, c), _registers(context, builder, kinds[1], x, at, WIDTH), strict=True):
        write(builder, v, builder.bitcast(place, v.type.as_pointer()), kinds[1].dtype)


def _block(context, builder, array, x, i, j, rows: int, lanes: int, whole, part) -> list:
    """The results of whole(address) or part(address, count), one for each row of a block of the matrix x.

    A block that lies inside x needs no masks: AVX2 stores by a mask at a tenth of the speed.
    """
    kind = _kind(context, array, lanes)
    sizes = unpack_tuple(builder, part_of(context, builder, array, x, "shape"))
    height, width = (builder.sub(size, at) for size, at in zip(sizes, (i, j), strict=True))
    # Each row has an address of its own. With one for all, a step of AVX2 takes a thirtieth longer.
    places = [address(context, builder, array, x, [builder.add(i, number(t)), j], kind) for t in range(rows)]
    fits = builder.and_(*(builder.icmp_signed(">=", size, number(n)) for size, n in ((height, rows), (width, lanes))))
    with builder.if_else(fits) as (then, otherwise):
        with then:
            all_of = [whole(place) for place in places], builder.block
        with otherwise:
            short = builder.select(builder.icmp_signed("<", width, number(lanes)), width, number(lanes))
            some_of = []
            for t, place in enumerate(places):
                count = builder.select(builder.icmp_signed("<", number(t), height), short, number(0))
                count = builder.trunc(count, ir.IntType(32))  # as many bits as a lane has, or nearly
                some_of.append(part(place, count))
            some_of = some_of, builder.block
    results = []
    for pair in zip(all_of[0], some_of[0], strict=True):
        result = builder.phi(pair[0].type) if pair[0] is not None else None
        for value, block in zip(pair, (all_of[1], some_of[1]), strict=True):
            if result is not None:
                result.add_incoming(value, block)
        results.append(result)
    return results


def _read_rows(context, builder, array, place, rows: int, lanes: int) -> list:
    def whole(address):
        return read(builder, address, array.dtype)

    def part(address, count):
        return read_first(builder, count, address, array.dtype)

    return _block(context, builder, array, *place, rows, lanes, whole, part)


def _write_rows(context, builder, array, rows: list, place) -> None:
    """Write the rows, as far as the matrix goes.

    Where the matrix ends within a row's lanes, halves of the row are written in turn, down to NARROW lanes. In a narrow
    head all gradients of queries are such rows; to write them by masks took AVX2 a third of all the time for heads of
    four columns.
    """
    (x, i, j), lanes = place, rows[0].type.count

    def write_block():
        left = {"whole": iter(rows), "part": iter(rows)}

        def whole(address):
            write(builder, next(left["whole"]), address, array.dtype)

        def part(address, count):
            write_first(builder, count, next(left["part"]), address, array.dtype)

        _block(context, builder, array, x, i, j, len(rows), lanes, whole, part)

    if SIMD == "avx512" or lanes <= NARROW:  # AVX-512's masks cost nothing
        return write_block()
    width = builder.sub(unpack_tuple(builder, part_of(context, builder, array, x, "shape"))[1], j)
    with builder.if_else(builder.icmp_signed(">=", width, number(lanes))) as (then, otherwise):
        with then:
            write_block()
        with otherwise:
            for first in (0, lanes // 2):
                with builder.if_then(builder.icmp_signed(">", width, number(first))):
                    part = [_shuffled(builder, row, row, range(first, first + lanes // 2)) for row in rows]
                    _write_rows(context, builder, array, part, (x, i, builder.add(j, number(first))))


@compiled(read_block, _square_of)
def _read_block(context, builder, kind, kinds, args):
    return pack_array(builder, _read_rows(context, builder, kinds[0], args, WIDTH, LANES))


@compiled(write_block, lambda *_: types.none)
def _write_block(context, builder, kind, kinds, args):
    c, *place = args
    _write_rows(context, builder, kinds[1], unpack_tuple(builder, c), place)


@compiled(expect, lambda *_: types.none)
def _expect(context, builder, kind, kinds, args):
    x, b, h, i, written = args
    shape = unpack_tuple(builder, part_of(context, builder, kinds[0], x, "shape"))
    start, (*_, down, along) = corner(context, builder, kinds[0], x, [b, h, i, number(0)], True)
    left, width = builder.sub(shape[2], i), builder.mul(shape[3], along)
    rows = builder.select(builder.icmp_signed("<", left, number(LANES)), left, number(LANES))
    with cgutils.for_range(builder, rows) as row:
        line = beyond(builder, start, builder.mul(row.index, down))
        with cgutils.for_range_slice(builder, number(0), width, number(LINE)) as (offset, _):
            ask_for(builder, beyond(builder, line, offset), written.constant)


def _shuffled(builder, a, b, order):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order)))


def _turned(builder, rows: list) -> list:
    """Groups of WIDTH lanes of WIDTH registers, transposed.

    Neighbouring rows are merged number by number, then those by pairs, then (of eight) by fours. The first two steps
    stay within four lanes, as the machine's own instructions for this do.
    """

    def merged(a, b, *order):
        """These lanes of a and b, merged in groups; the lanes of b are numbered after those of a."""
        lanes, unit = a.type.count, len(order)
        places = [first + p % unit + p // unit * lanes for first in range(0, lanes, unit) for p in order]
        return _shuffled(builder, a, b, places)

    def four(rows):
        ones = [merged(*pair, *order) for pair in (rows[:2], rows[2:]) for order in ((0, 4, 1, 5), (2, 6, 3, 7))]
        return [merged(*pair, *order) for pair in (ones[::2], ones[1::2]) for order in ((0, 1, 4, 5), (2, 3, 6, 7))]

    if len(rows) == 4:
        return four(rows)
    pairs = list(zip(four(rows[:4]), four(rows[4:]), strict=True))
    left = [merged(*pair, 0, 1, 2, 3, 8, 9, 10, 11) for pair in pairs]
    return left + [merged(*pair, 4, 5, 6, 7, 12, 13, 14, 15) for pair in pairs]


@compiled(read_columns, _square_of)
def _read_columns(context, builder, kind, kinds, args):
    rows = _read_rows(context, builder, kinds[0], args, LANES, WIDTH)
    parts = [rows[first : first + WIDTH] for first in range(0, LANES, WIDTH)]
    while len(parts) > 1:  # row t, row t + WIDTH and so on side by side
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [[_shuffled(builder, a, b, range(2 * a.type.count)) for a, b in zip(*pair)] for pair in pairs]
    return pack_array(builder, _turned(builder, parts[0]))


@compiled(write_columns, lambda *_: types.none)
def _write_columns(context, builder, kind, kinds, args):
    c, *place = args
    rows = _turned(builder, unpack_tuple(builder, c))
    rows = [_shuffled(builder, a, a, range(first, first + WIDTH)) for first in range(0, LANES, WIDTH) for a in rows]
    _write_rows(context, builder, kinds[1], rows, place)


def _same(c, *_):
    return c


def _in_each(plain: Callable, emit: Callable) -> None:
    """Compile `plain`, which treats all registers of a square alike, as emit(builder, register, *others) for each.

    The others are the same register of further squares, or one register that all of them share.
    """

    @compiled(plain, _same)
    def lowered(context, builder, kind, kinds, args):
        parts = [
            unpack_tuple(builder, a) if isinstance(k, types.UniTuple) else [a] * WIDTH for k, a in zip(kinds, args)
        ]
        return pack_array(builder, [emit(builder, *registers) for registers in zip(*parts, strict=True)])


@compiled(add_up, lambda c: c.dtype)
def _add_up(context, builder, kind, kinds, args):
    rows = unpack_tuple(builder, args[0])
    while len(rows) > 1:
        half = len(rows) // 2
        rows = [builder.fadd(a, b) for a, b in zip(rows[:half], rows[half:], strict=True)]
    return rows[0]


@compiled(add_neighbours, lambda x, at: x.dtype)
def _add_neighbours(context, builder, kind, kinds, args):
    place = address(context, builder, kinds[0], args[0], args[1:], _kind(context, kinds[0], WIDTH))
    return halves(builder, read(builder, place, kinds[0].dtype), builder.fadd)


@compiled(minus_each, _same)
def _minus_each(context, builder, kind, kinds, args):
    c, x, at = args
    pairs = zip(unpack_tuple(builder, c), _each(context, builder, kinds[1], x, at), strict=True)
    return pack_array(builder, [builder.fsub(a, b) for a, b in pairs])


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
    kind = x.type
    (high, low), terms, bits, bias, least = _EXP[str(kind.element)]
    whole = ir.VectorType(ir.IntType(32 if bits == 23 else 64), LANES)
    rounding = constant(kind, 1.5 * 2.0**bits + bias)  # added to a number, it leaves no bits for a fraction
    shifted = multiply_add(
        builder, x, constant(kind, float(simd_math._LOG2_E) if bits == 23 else math.log2(math.e)), rounding
    )
    n = builder.fsub(shifted, rounding)
    r = multiply_add(builder, n, constant(kind, -float(low)), multiply_add(builder, n, constant(kind, -float(high)), x))
    p = constant(kind, float(terms[0]))
    for term in (*terms[1:], 1.0, 1.0):
        p = multiply_add(builder, r, p, constant(kind, float(term)))
    power = builder.shl(builder.bitcast(shifted, whole), constant(whole, bits))  # its last bits are n + bias
    y = builder.fmul(p, builder.bitcast(power, kind))
    return builder.select(builder.fcmp_ordered("<", x, constant(kind, least)), constant(kind, 0.0), y)


def _zero_above(builder, a):
    zero = constant(a.type, 0)
    return builder.select(builder.fcmp_ordered(">", a, zero), zero, a)


def _or_zero(builder, a, truth):
    return _where(builder, truth, a, constant(a.type, 0))


_in_each(scale_each, lambda builder, a, v: builder.fmul(a, v))
_in_each(fma_each, multiply_add)
_in_each(minus, lambda builder, a, v: builder.fsub(a, v))
_in_each(times, lambda builder, a, b: builder.fmul(a, b))
_in_each(at_most_zero, _zero_above)
_in_each(exp_each, _exp)
_in_each(both, lambda builder, a, b: builder.and_(a, b))
_in_each(only, _or_zero)


@compiled(outer, _same)
def _outer(context, builder, kind, kinds, args):
    c, x, at, step, b = args
    pairs = zip(_each(context, builder, kinds[1], x, at, step, b.type.count), unpack_tuple(builder, c), strict=True)
    return pack_array(builder, [multiply_add(builder, a, b, part) for a, part in pairs])


@compiled(outer_seen, _same)
def _outer_seen(context, builder, kind, kinds, args):
    c, x, at, step, b, seen = args
    numbers, sums = _each(context, builder, kinds[5], seen, at, step), unpack_tuple(builder, c)
    for t, factor in enumerate(_each(context, builder, kinds[1], x, at, step)):
        truth = _truth(builder, ">", numbers[t], constant(b.type, 0))
        sums[t] = multiply_add(builder, factor, _if_seen(builder, truth, b), sums[t])
    return pack_array(builder, sums)


@compiled(inner, _same)
def _inner(context, builder, kind, kinds, args):
    a, c, x, at = args
    for part, b in zip(unpack_tuple(builder, c), _each(context, builder, kinds[2], x, at), strict=True):
        a = multiply_add(builder, part, b, a)
    return a


@compiled(inner_seen, _same)
def _inner_seen(context, builder, kind, kinds, args):
    a, c, x, at, seen = args
    parts = unpack_tuple(builder, c), _each(context, builder, kinds[2], x, at), unpack_tuple(builder, seen)
    for part, b, s in zip(*parts, strict=True):
        a = multiply_add(builder, part, _if_seen(builder, s, b), a)
    return a


def _of_rows(context, builder, array, x, i, j, columns: int) -> list[list]:
    """x[i + t, j + n] in every lane, for each t and each of the columns; where x ends before, its last row is taken."""
    kind, element = _kind(context, array), context.get_data_type(array.dtype).as_pointer()
    height, _ = unpack_tuple(builder, part_of(context, builder, array, x, "shape"))
    last = builder.sub(height, number(1))
    start, (down, _) = corner(context, builder, array, x, [number(0), j], True)
    rows = []
    for t in range(WIDTH):
        row = builder.add(i, number(t))
        row = builder.select(builder.icmp_signed("<", row, last), row, last)
        first = builder.bitcast(beyond(builder, start, builder.mul(row, down)), element)
        places = [builder.gep(first, [number(n)]) for n in range(columns)]
        rows.append([broadcast(builder, kind, read(builder, place, array.dtype)) for place in places])
    return rows


@compiled(outer_rows, _same)
def _outer_rows(context, builder, kind, kinds, args):
    c, x, i, j, b, at, columns = args
    columns, c = columns.constant, unpack_tuple(builder, c)
    factors = [read(builder, place, kinds[4].dtype) for place in _registers(context, builder, kinds[4], b, at, columns)]
    for t, elements in enumerate(_of_rows(context, builder, kinds[1], x, i, j, columns)):
        for element, factor in zip(elements, factors, strict=True):
            c[t] = multiply_add(builder, element, factor, c[t])
    return pack_array(builder, c)


def _inner_of_rows(context, builder, kinds, args, columns: int, seen=None):
    c, x, i, j, y, at, *_ = args
    places = _registers(context, builder, kinds[4], y, at, columns)
    sums = [read(builder, place, kinds[4].dtype) for place in places]
    rows = _of_rows(context, builder, kinds[1], x, i, j, columns)
    for t, (part, elements) in enumerate(zip(unpack_tuple(builder, c), rows, strict=True)):
        if seen is not None:
            elements = [_if_seen(builder, seen[t], e) for e in elements]
        sums = [multiply_add(builder, part, e, a) for e, a in zip(elements, sums, strict=True)]
    for a, place in zip(sums, places, strict=True):
        write(builder, a, place, kinds[4].dtype)


@compiled(inner_rows, lambda *_: types.none)
def _inner_rows(context, builder, kind, kinds, args):
    _inner_of_rows(context, builder, kinds, args, args[-1].constant)


@compiled(inner_rows_seen, lambda *_: types.none)
def _inner_rows_seen(context, builder, kind, kinds, args):
    _inner_of_rows(context, builder, kinds, args, 1, unpack_tuple(builder, args[-1]))


@compiled(before, lambda m, ends: _truths(ends))
def _before(context, builder, kind, kinds, args):
    m, ends = args
    first = broadcast(builder, ends.type, builder.sitofp(m, ends.type.element))
    places = [builder.fadd(first, constant(ends.type, float(t))) for t in range(WIDTH)]
    return pack_array(builder, [_truth(builder, "<", place, ends) for place in places])


@compiled(before_each, lambda m, x, at: _truths(x))
def _before_each(context, builder, kind, kinds, args):
    m, x, at = args
    ends = _each(context, builder, kinds[1], x, at)
    first = broadcast(builder, ends[0].type, builder.sitofp(m, ends[0].type.element))
    places = builder.fadd(first, ir.Constant(first.type, [float(lane) for lane in range(LANES)]))
    return pack_array(builder, [_truth(builder, "<", places, end) for end in ends])


@compiled(positive, lambda c: _truths(c.dtype))
def _positive(context, builder, kind, kinds, args):
    return pack_array(builder, [_truth(builder, ">", a, constant(a.type, 0.0)) for a in unpack_tuple(builder, args[0])])


def _highest(builder, rows: list):
    while len(rows) > 1:
        rows = [
            builder.select(builder.fcmp_ordered(">", a, b), a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)
        ]
    return rows[0]


@compiled(largest_of, _same)
def _largest(context, builder, kind, kinds, args):
    top, c = args
    return _highest(builder, [top, _highest(builder, unpack_tuple(builder, c))])


@compiled(largest_seen, _same)
def _largest_seen(context, builder, kind, kinds, args):
    top, c, seen = args
    parts = zip(unpack_tuple(builder, c), unpack_tuple(builder, seen), strict=True)
    seen_ones = [_where(builder, s, a, constant(a.type, float("-inf"))) for a, s in parts]
    return _highest(builder, [top, _highest(builder, seen_ones)])

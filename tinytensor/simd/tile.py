"""Tiles: blocks of registers as one value, for loops that keep a dozen sums at once.

A tile is a tuple of rows, and a row is a tuple of registers side by side (see vectors). The kernel writes its size as
two numbers, so compiled code knows every register of it by name, and keeps each in place from the first product to the
last. `height` and `width` are the numbers of its rows and columns that lie within the array: no element outside is read
or written.
"""

from collections.abc import Callable

from llvmlite import ir
from llvmlite.ir.instructions import LoadInstr
from numba import types
from numba.core import cgutils

from tinytensor.simd.address import ask_for, beyond, corner, number
from tinytensor.simd.isa import LINE
from tinytensor.simd.vector import (
    add,
    broadcast,
    compiled,
    constant,
    fma,
    lanes,
    less,
    load,
    load_first,
    multiply_add,
    plus,
    read,
    read_first,
    register_of,
    splat,
    store_first,
    write,
    write_first,
    zero,
)

STEPS = 4  # products of a sum between two tests for its end


def zero_tile(x, rows, columns):
    """`rows` rows of `columns` registers: 0 everywhere."""
    return ((zero(x),) * columns,) * rows


def load_tile(c, height, width, x, i, j):
    """The elements of x[i : i + height, j : j + width] as a tile of the size of c; zeros around them."""
    tile = ()
    for r in range(len(c)):
        registers = ()
        for v in range(len(c[0])):
            n = len(c[0][0])
            registers += (load_first(width - v * n, x, i + r, j + v * n) if r < height else zero(x),)
        tile += (registers,)
    return tile


def fma_tile(c, height, a, i, k, b, row, j):
    """c + a[i : i + height, k] b[row, j:], as fma; the rows of c past `height` are undefined."""
    n, right, tile = len(c[0][0]), (), ()
    for v in range(len(c[0])):
        right += (load(b, row, j + v * n),)
    for r in range(len(c)):
        left, registers = splat(a, i + min(r, height - 1), k), ()
        for v in range(len(c[0])):
            registers += (fma(left, right[v], c[r][v]),)
        tile += (registers,)
    return tile


def sum_tile(c, height, a, i, k, b, row, j, count, asks):
    """c + a[i : i + height, k : k + count] b[row : row + count, j:], one product after the other.

    With `asks` it prefetches the rows of a below these, which the next tile needs. That changes no number, but wastes
    time where these rows are near already.
    """
    for t in range(count):
        c = fma_tile(c, height, a, i, k + t, b, row + t, j)
    return c


def fetch_tile(c, y, i, j):
    """Prefetch the place of y to which a tile of the size of c will be written; nothing is read or written.

    This takes as long as a hundred products. A kernel that prefetches before it multiplies does not wait at its write.
    """


def store_tile(c, height, width, y, i, j):
    """Write the first `height` rows and `width` columns of c over y[i : i + height, j : j + width]."""
    for r in range(min(height, len(c))):
        for v in range(len(c[0])):
            n = len(c[0][0])
            store_first(width - v * n, c[r][v], y, i + r, j + v * n)


def add_tile(a, b):
    """a + b."""
    tile = ()
    for r in range(len(a)):
        registers = ()
        for v in range(len(a[0])):
            registers += (add(a[r][v], b[r][v]),)
        tile += (registers,)
    return tile


def relu_tile(c, height):
    """0 where c <= 0; c elsewhere, and where it is NaN; the rows of c past `height` are undefined."""
    tile = ()
    for r in range(len(c)):
        registers = ()
        for v in range(len(c[0])):
            register = ()
            for lane in range(len(c[0][0])):
                x = c[r][v][lane]
                register += (type(x)(0) if r < height and x <= type(x)(0) else x,)
            registers += (register,)
        tile += (registers,)
    return tile


def load_transposed(height, width, x, i, j):
    """The columns of x[i : i + height, j : j + width] as rows of a square tile; zeros around them."""
    rows, tile = (), ()
    for lane in range(lanes(x)):
        rows += (load_first(width, x, i + lane, j) if lane < height else zero(x),)
    for r in range(lanes(x)):
        register = ()
        for lane in range(lanes(x)):
            register += (rows[lane][r],)
        tile += ((register,),)
    return tile


# --------------------------------------------------------------------------------- their compiled meaning


def _tile_type(x: types.Array, rows: types.IntegerLiteral, columns: types.IntegerLiteral) -> types.UniTuple:
    return types.UniTuple(types.UniTuple(register_of(x), columns.literal_value), rows.literal_value)


def _tile(builder, kind: ir.ArrayType, register: Callable):
    """The tile of the registers register(r, v)."""
    tile = ir.Constant(kind, ir.Undefined)
    for r in range(kind.count):
        for v in range(kind.element.count):
            tile = builder.insert_value(tile, register(r, v), (r, v))
    return tile


@compiled(zero_tile, _tile_type)
def _zero_tile(context, builder, kind, kinds, args):
    return _tile(builder, kind, lambda r, v: constant(kind.element.element, 0))


class _ReadAnew(LoadInstr):
    """A "volatile" load, which the compiler keeps exactly where it stands; llvmlite cannot express it."""

    def descr(self, buf):
        super().descr(buf)
        buf[-1] = buf[-1].replace("load", "load volatile", 1)


def read_anew(builder, place):
    value = _ReadAnew(builder.block, place)
    builder._insert(value)
    return value


@compiled(sum_tile, lambda c, *_: c)
def _sum_tile(context, builder, kind, kinds, args):
    """A loop over STEPS products at a time, which prefetches the next rows or does not, and a loop over the others.

    Two addresses move through it, by strides that are read anew for each step. If the compiler knew that these stay
    the same, it would keep an address for each row and step, and load the values of later steps first: more than the
    registers can hold.
    """
    c, height, a, i, k, b, row, j, count, asks = args
    whole, rows, columns = kind.element.element, kind.count, kind.element.count
    left, (*_, down, along) = corner(context, builder, kinds[2], a, [i, k], False)
    right, (*_, next_row, _) = corner(context, builder, kinds[5], b, [row, j], True)
    last, offset, offsets = builder.mul(builder.sub(height, number(1)), down), number(0), []
    for r in range(rows):
        offsets.append(builder.select(builder.icmp_signed("<", number(r), height), offset, last))
        offset = builder.add(offset, down)
    below = builder.mul(down, number(rows))  # from here to the next tile
    along, next_row, below = (cgutils.alloca_once_value(builder, stride) for stride in (along, next_row, below))

    def moved(place, stride):
        return beyond(builder, place, read_anew(builder, stride))

    def step(left, right, sums, asked):
        next_tile = builder.gep(left, [read_anew(builder, below)]) if asked else None
        for r in asked:
            ask_for(builder, builder.gep(next_tile, [offsets[r]]), write=False)
        b = [read(builder, _register_at(builder, right, whole, v), kinds[5].dtype) for v in range(columns)]
        added = []
        for r in range(rows):
            place = builder.bitcast(beyond(builder, left, offsets[r]), whole.element.as_pointer())
            x = broadcast(builder, whole, read(builder, place, kinds[2].dtype))
            added += [multiply_add(builder, x, b[v], sums[r * columns + v]) for v in range(columns)]
        return moved(left, along), moved(right, next_row), added

    def loop(times, steps, state, asks=False):
        before, body, after = (builder.block, *(builder.append_basic_block(name) for name in ("products", "summed")))
        builder.cbranch(builder.icmp_signed(">", times, number(0)), body, after)
        builder.position_at_end(body)
        turn, *moving = [builder.phi(x.type) for x in (times, *state)]
        left, right, *sums = moving
        for t in range(steps):  # each row is prefetched once in STEPS products, some of which share a line
            left, right, sums = step(left, right, sums, range(t, rows, steps) if asks else ())
        rest = builder.sub(turn, number(1))
        for phi, first, then in zip([turn, *moving], [times, *state], [rest, left, right, *sums], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(then, builder.block)
        builder.cbranch(builder.icmp_signed(">", rest, number(0)), body, after)
        body = builder.block
        builder.position_at_end(after)
        joined = [builder.phi(x.type) for x in state]
        for phi, first, then in zip(joined, state, [left, right, *sums], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(then, body)
        return joined

    state = [left, right, *(builder.extract_value(c, (r, v)) for r in range(rows) for v in range(columns))]
    times = builder.sdiv(count, number(STEPS))
    if rows > STEPS:
        asking = builder.select(asks, times, number(0))
        state = loop(asking, STEPS, state, asks=True)
        times = builder.sub(times, asking)
    state = loop(times, STEPS, state)
    state = loop(builder.srem(count, number(STEPS)), 1, state)
    return _tile_of(builder, kind, state[2:])


def _register_at(builder, place, kind: ir.VectorType, v: int):
    """The address of the v-th register after an address."""
    size = kind.element.width if isinstance(kind.element, ir.IntType) else 32 if kind.element == ir.FloatType() else 64
    return builder.bitcast(beyond(builder, place, number(v * kind.count * size // 8)), kind.as_pointer())


def _at_edge(builder, kind: ir.ArrayType, height, width, whole: Callable, part: Callable) -> list:
    """The registers whole(r, v) where the tile lies within height and width, else part(r, v, count of lanes inside)."""
    rows, columns, n = kind.count, kind.element.count, kind.element.element.count
    places = [(r, v) for r in range(rows) for v in range(columns)]
    tall = builder.icmp_signed(">=", height, number(rows))
    wide = builder.icmp_signed(">=", width, number(columns * n))
    with builder.if_else(builder.and_(tall, wide), likely=True) as (inside, edge):
        with inside:
            values = [whole(r, v) for r, v in places]
            inside_end = builder.block
        with edge:
            counts = [builder.sub(width, number(v * n)) for v in range(columns)]
            valid = [builder.icmp_signed("<", number(r), height) for r in range(rows)]
            others = [part(r, v, builder.select(valid[r], counts[v], number(0))) for r, v in places]
            edge_end = builder.block
    if values[0] is None:
        return []
    joined = []
    for value, other in zip(values, others, strict=True):
        either = builder.phi(value.type)
        either.add_incoming(value, inside_end)
        either.add_incoming(other, edge_end)
        joined.append(either)
    return joined


def _tile_of(builder, kind: ir.ArrayType, registers: list):
    return _tile(builder, kind, lambda r, v: registers[r * kind.element.count + v])


def _places(context, builder, array: types.Array, value, kind: ir.ArrayType, i, j) -> Callable:
    """address(r, v) of a register of the tile that begins at value[i, j]."""
    first, (*_, stride, _) = corner(context, builder, array, value, [i, j], True)
    rows = [first]
    for _ in range(1, kind.count):
        rows.append(beyond(builder, rows[-1], stride))
    return lambda r, v: _register_at(builder, rows[r], kind.element.element, v)


def _read_tile(context, builder, kind: ir.ArrayType, height, width, array: types.Array, x, i, j) -> list:
    address = _places(context, builder, array, x, kind, i, j)
    return _at_edge(
        builder,
        kind,
        height,
        width,
        lambda r, v: read(builder, address(r, v), array.dtype),
        lambda r, v, count: read_first(builder, count, address(r, v), array.dtype),
    )


@compiled(load_tile, lambda c, *_: c)
def _load_tile(context, builder, kind, kinds, args):
    _, height, width, x, i, j = args
    return _tile_of(builder, kind, _read_tile(context, builder, kind, height, width, kinds[3], x, i, j))


@compiled(fetch_tile, lambda *_: types.none)
def _fetch_tile(context, builder, kind, kinds, args):
    c, y, i, j = args
    first, (*_, stride, _) = corner(context, builder, kinds[1], y, [i, j], True)
    row = c.type.element.count * c.type.element.element.count * kinds[1].dtype.bitwidth // 8
    for r in range(c.type.count):
        for at in range(0, row, LINE):
            ask_for(builder, builder.gep(first, [builder.add(builder.mul(stride, number(r)), number(at))]), write=True)


@compiled(store_tile, lambda *_: types.none)
def _store_tile(context, builder, kind, kinds, args):
    c, height, width, y, i, j = args
    address = _places(context, builder, kinds[3], y, c.type, i, j)
    registers = {
        (r, v): builder.extract_value(c, (r, v)) for r in range(c.type.count) for v in range(c.type.element.count)
    }
    _at_edge(
        builder,
        c.type,
        height,
        width,
        lambda r, v: write(builder, registers[r, v], address(r, v), kinds[3].dtype),
        lambda r, v, count: write_first(builder, count, registers[r, v], address(r, v), kinds[3].dtype),
    )


@compiled(add_tile, lambda a, b: a)
def _add_tile(context, builder, kind, kinds, args):
    def register(r, v):
        return plus(builder, *[builder.extract_value(c, (r, v)) for c in args])

    return _tile(builder, kind, register)


@compiled(relu_tile, lambda c, height: c)
def _relu_tile(context, builder, kind, kinds, args):
    zeros = constant(kind.element.element, 0)

    def register(r, v):
        x = builder.extract_value(args[0], (r, v))
        return builder.select(less(builder, x, zeros, "<="), zeros, x)

    return _tile(builder, kind, register)


def _square_type(height, width, x: types.Array, *_) -> types.UniTuple:
    register = register_of(x)
    return types.UniTuple(types.UniTuple(register, 1), register.count)


@compiled(load_transposed, _square_type)
def _load_transposed(context, builder, kind, kinds, args):
    height, width, x, i, j = args
    rows = _read_tile(context, builder, kind, height, width, kinds[2], x, i, j)
    n = kind.count
    places = ir.VectorType(ir.IntType(32), n)
    step = n // 2
    while step:  # in each square of 2 step x 2 step, the upper right quarter and the lower left one change places
        low = ir.Constant(places, [p if not p & step else n + p - step for p in range(n)])
        high = ir.Constant(places, [p + step if not p & step else n + p for p in range(n)])
        for r in range(n):
            if not r & step:
                a, b = rows[r], rows[r + step]
                rows[r], rows[r + step] = builder.shuffle_vector(a, b, low), builder.shuffle_vector(a, b, high)
        step //= 2
    return _tile_of(builder, kind, rows)

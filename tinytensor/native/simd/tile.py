"""Tiles: blocks of registers as one value, for loops that keep a dozen sums at once.

A tile is a tuple of rows, and a row is a tuple of registers side by side (see vectors). The kernel writes its size as
two numbers, so compiled code knows every register of it by name, and keeps each in its register from the first product
to the last. `height` and `width` are the numbers of its rows and columns that lie within the array: no element outside
is read or written.
"""

from collections.abc import Callable

from llvmlite import ir
from llvmlite.ir.instructions import LoadInstr
from numba import types
from numba.core import cgutils

from tinytensor.core.poison import LINE
from tinytensor.native.simd.address import element_ptr_and_strides, gep_bytes, int64, prefetch
from tinytensor.native.simd.vector import (
    add,
    branch,
    broadcast,
    compiled,
    constant,
    emit_add,
    emit_fma,
    emit_less,
    fma,
    lanes,
    load,
    load_first,
    load_splat,
    read,
    read_first,
    store_first,
    vector_type,
    write,
    write_first,
    zero,
)

STEPS = 4  # products of a sum between two tests for its end


# --- LLVM: tiles as values, and at the edges of an array


def _tile_type(x: types.Array, rows: types.IntegerLiteral, columns: types.IntegerLiteral) -> types.UniTuple:
    return types.UniTuple(types.UniTuple(vector_type(x), columns.literal_value), rows.literal_value)


def _tile(builder, ty: ir.ArrayType, register: Callable):
    """The tile of the registers register(r, v)."""
    tile = ir.Constant(ty, ir.Undefined)
    for r in range(ty.count):
        for v in range(ty.element.count):
            tile = builder.insert_value(tile, register(r, v), (r, v))
    return tile


def _register_at(builder, ptr, ty: ir.VectorType, v: int):
    """The address of the v-th register after an address."""
    size = ty.element.width if isinstance(ty.element, ir.IntType) else 32 if ty.element == ir.FloatType() else 64
    return builder.bitcast(gep_bytes(builder, ptr, int64(v * ty.count * size // 8)), ty.as_pointer())


def _at_edge(builder, ty: ir.ArrayType, height, width, whole: Callable, part: Callable) -> list:
    """The registers whole(r, v) where the tile lies within height and width, else part(r, v, count of lanes inside)."""
    rows, columns, n = ty.count, ty.element.count, ty.element.element.count
    positions = [(r, v) for r in range(rows) for v in range(columns)]
    tall = builder.icmp_signed(">=", height, int64(rows))
    wide = builder.icmp_signed(">=", width, int64(columns * n))

    def at_edge():
        counts = [builder.sub(width, int64(v * n)) for v in range(columns)]
        valid = [builder.icmp_signed("<", int64(r), height) for r in range(rows)]
        return [part(r, v, builder.select(valid[r], counts[v], int64(0))) for r, v in positions]

    inside = builder.and_(tall, wide)
    return branch(builder, inside, lambda: [whole(r, v) for r, v in positions], at_edge, likely=True)


def _tile_of(builder, ty: ir.ArrayType, registers: list):
    return _tile(builder, ty, lambda r, v: registers[r * ty.element.count + v])


def _register_ptrs(context, builder, array: types.Array, value, ty: ir.ArrayType, i, j) -> Callable:
    """address(r, v) of a register of the tile that begins at value[i, j]."""
    first, (*_, stride, _) = element_ptr_and_strides(context, builder, array, value, [i, j], True)
    rows = [first]
    for _ in range(1, ty.count):
        rows.append(gep_bytes(builder, rows[-1], stride))
    return lambda r, v: _register_at(builder, rows[r], ty.element.element, v)


def _read_tile(context, builder, ty: ir.ArrayType, height, width, array: types.Array, x, i, j) -> list:
    register_ptr = _register_ptrs(context, builder, array, x, ty, i, j)
    return _at_edge(
        builder,
        ty,
        height,
        width,
        lambda r, v: read(builder, register_ptr(r, v), array.dtype),
        lambda r, v, count: read_first(builder, count, register_ptr(r, v), array.dtype),
    )


def zero_tile(x, rows, columns):
    """`rows` rows of `columns` registers: 0 everywhere."""
    return ((zero(x),) * columns,) * rows


@compiled(zero_tile, _tile_type)
def _zero_tile(context, builder, ty, arg_types, args):
    return _tile(builder, ty, lambda r, v: constant(ty.element.element, 0))


def load_tile(c, height, width, x, i, j):
    """The elements of x[i : i + height, j : j + width] as a tile of the size of c; zeros around them."""
    n, tile = len(c[0][0]), ()
    for r in range(len(c)):
        row = [load_first(width - v * n, x, i + r, j + v * n) if r < height else zero(x) for v in range(len(c[0]))]
        tile += (tuple(row),)
    return tile


@compiled(load_tile, lambda c, *_: c)
def _load_tile(context, builder, ty, arg_types, args):
    _, height, width, x, i, j = args
    return _tile_of(builder, ty, _read_tile(context, builder, ty, height, width, arg_types[3], x, i, j))


class _VolatileLoad(LoadInstr):
    """A "volatile" load, which the compiler neither moves nor merges; llvmlite cannot express it."""

    def descr(self, buf):
        super().descr(buf)
        buf[-1] = buf[-1].replace("load", "load volatile", 1)


def volatile_load(builder, ptr):
    value = _VolatileLoad(builder.block, ptr)
    builder._insert(value)
    return value


def sum_tile(c, height, a, i, k, b, row, j, count, prefetching):
    """The microkernel: c + a[i : i + height, k : k + count] b[row : row + count, j:], one product after the other.

    The rows of c past `height` are undefined.

    With `prefetching` it prefetches the rows of a below these, which the next tile needs. That changes no number, but
    wastes time where these rows are near already.
    """
    n = len(c[0][0])
    for t in range(count):
        right, tile = [load(b, row + t, j + v * n) for v in range(len(c[0]))], ()
        for r in range(len(c)):
            left = load_splat(a, i + min(r, height - 1), k + t)
            tile += (tuple([fma(left, *pair) for pair in zip(right, c[r], strict=True)]),)
        c = tile
    return c


@compiled(sum_tile, lambda c, *_: c)
def _sum_tile(context, builder, ty, arg_types, args):
    """A loop over STEPS products at a time, which prefetches the next rows or does not, and a loop over the others.

    Two addresses move through it, by strides that are read again in each step. If the compiler knew that these stay
    the same, it would keep an address for each row and step, and load the values of later steps first: more than the
    registers can hold.
    """
    c, height, a, i, k, b, row, j, count, prefetching = args
    whole, rows, columns = ty.element.element, ty.count, ty.element.count
    left, (*_, down, along) = element_ptr_and_strides(context, builder, arg_types[2], a, [i, k], False)
    right, (*_, next_row, _) = element_ptr_and_strides(context, builder, arg_types[5], b, [row, j], True)
    last, offset, offsets = builder.mul(builder.sub(height, int64(1)), down), int64(0), []
    for r in range(rows):
        offsets.append(builder.select(builder.icmp_signed("<", int64(r), height), offset, last))
        offset = builder.add(offset, down)
    below = builder.mul(down, int64(rows))  # from here to the next tile
    along, next_row, below = (cgutils.alloca_once_value(builder, stride) for stride in (along, next_row, below))

    def moved(ptr, stride):
        return gep_bytes(builder, ptr, volatile_load(builder, stride))

    def step(left, right, sums, asked):
        next_tile = builder.gep(left, [volatile_load(builder, below)]) if asked else None
        for r in asked:
            prefetch(builder, builder.gep(next_tile, [offsets[r]]), write=False)
        b = [read(builder, _register_at(builder, right, whole, v), arg_types[5].dtype) for v in range(columns)]
        added = []
        for r in range(rows):
            ptr = builder.bitcast(gep_bytes(builder, left, offsets[r]), whole.element.as_pointer())
            x = broadcast(builder, whole, read(builder, ptr, arg_types[2].dtype))
            added += [emit_fma(builder, x, b[v], sums[r * columns + v]) for v in range(columns)]
        return moved(left, along), moved(right, next_row), added

    def loop(times, steps, state, prefetching=False):
        before, body, after = (builder.block, *(builder.append_basic_block(name) for name in ("products", "summed")))
        builder.cbranch(builder.icmp_signed(">", times, int64(0)), body, after)
        builder.position_at_end(body)
        turn, *moving = [builder.phi(x.type) for x in (times, *state)]
        left, right, *sums = moving
        for t in range(steps):  # each row is prefetched once in STEPS products, some of which share a line
            left, right, sums = step(left, right, sums, range(t, rows, steps) if prefetching else ())
        rest = builder.sub(turn, int64(1))
        for phi, first, then in zip([turn, *moving], [times, *state], [rest, left, right, *sums], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(then, builder.block)
        builder.cbranch(builder.icmp_signed(">", rest, int64(0)), body, after)
        body = builder.block
        builder.position_at_end(after)
        joined = [builder.phi(x.type) for x in state]
        for phi, first, then in zip(joined, state, [left, right, *sums], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(then, body)
        return joined

    state = [left, right, *(builder.extract_value(c, (r, v)) for r in range(rows) for v in range(columns))]
    times = builder.sdiv(count, int64(STEPS))
    if rows > STEPS:
        asking = builder.select(prefetching, times, int64(0))
        state = loop(asking, STEPS, state, prefetching=True)
        times = builder.sub(times, asking)
    state = loop(times, STEPS, state)
    state = loop(builder.srem(count, int64(STEPS)), 1, state)
    return _tile_of(builder, ty, state[2:])


def prefetch_tile(c, y, i, j):
    """Prefetch the memory of y to which a tile of the size of c will be written; nothing is read or written.

    This takes as long as a hundred products. A kernel that prefetches before it multiplies does not wait at its write.
    """


@compiled(prefetch_tile, lambda *_: types.none)
def _prefetch_tile(context, builder, ty, arg_types, args):
    c, y, i, j = args
    first, (*_, stride, _) = element_ptr_and_strides(context, builder, arg_types[1], y, [i, j], True)
    row = c.type.element.count * c.type.element.element.count * arg_types[1].dtype.bitwidth // 8
    for r in range(c.type.count):
        for at in range(0, row, LINE):
            prefetch(builder, builder.gep(first, [builder.add(builder.mul(stride, int64(r)), int64(at))]), write=True)


def store_tile(c, height, width, y, i, j):
    """Write the first `height` rows and `width` columns of c over y[i : i + height, j : j + width]."""
    for r in range(min(height, len(c))):
        for v in range(len(c[0])):
            n = len(c[0][0])
            store_first(width - v * n, c[r][v], y, i + r, j + v * n)


@compiled(store_tile, lambda *_: types.none)
def _store_tile(context, builder, ty, arg_types, args):
    c, height, width, y, i, j = args
    register_ptr = _register_ptrs(context, builder, arg_types[3], y, c.type, i, j)
    registers = {
        (r, v): builder.extract_value(c, (r, v)) for r in range(c.type.count) for v in range(c.type.element.count)
    }
    _at_edge(
        builder,
        c.type,
        height,
        width,
        lambda r, v: write(builder, registers[r, v], register_ptr(r, v), arg_types[3].dtype),
        lambda r, v, count: write_first(builder, count, registers[r, v], register_ptr(r, v), arg_types[3].dtype),
    )


def add_tile(a, b):
    """a + b."""
    return tuple([tuple([add(x, y) for x, y in zip(*rows, strict=True)]) for rows in zip(a, b, strict=True)])


@compiled(add_tile, lambda a, b: a)
def _add_tile(context, builder, ty, arg_types, args):
    def register(r, v):
        return emit_add(builder, *[builder.extract_value(c, (r, v)) for c in args])

    return _tile(builder, ty, register)


def relu_tile(c, height):
    """0 where c <= 0; c elsewhere, and where it is NaN; the rows of c past `height` are undefined."""
    tile = ()
    for r in range(len(c)):
        row = [tuple([type(x)(0) if r < height and x <= type(x)(0) else x for x in register]) for register in c[r]]
        tile += (tuple(row),)
    return tile


@compiled(relu_tile, lambda c, height: c)
def _relu_tile(context, builder, ty, arg_types, args):
    zeros = constant(ty.element.element, 0)

    def register(r, v):
        x = builder.extract_value(args[0], (r, v))
        return builder.select(emit_less(builder, x, zeros, "<="), zeros, x)

    return _tile(builder, ty, register)


def _transposed_type(height, width, x: types.Array, *_) -> types.UniTuple:
    register = vector_type(x)
    return types.UniTuple(types.UniTuple(register, 1), register.count)


def load_transposed(height, width, x, i, j):
    """The columns of x[i : i + height, j : j + width] as rows of a square tile; zeros around them."""
    rows = [load_first(width, x, i + lane, j) if lane < height else zero(x) for lane in range(lanes(x))]
    return tuple([(column,) for column in zip(*rows, strict=True)])


@compiled(load_transposed, _transposed_type)
def _load_transposed(context, builder, ty, arg_types, args):
    height, width, x, i, j = args
    rows = _read_tile(context, builder, ty, height, width, arg_types[2], x, i, j)
    n = ty.count
    positions = ir.VectorType(ir.IntType(32), n)
    step = n // 2
    while step:  # in each square of 2 step x 2 step, the upper right quarter and the lower left one change places
        low = ir.Constant(positions, [p if not p & step else n + p - step for p in range(n)])
        high = ir.Constant(positions, [p + step if not p & step else n + p for p in range(n)])
        for r in range(n):
            if not r & step:
                a, b = rows[r], rows[r + step]
                rows[r], rows[r + step] = builder.shuffle_vector(a, b, low), builder.shuffle_vector(a, b, high)
        step //= 2
    return _tile_of(builder, ty, rows)

"""Matrix products: y = a b for batches of matrices of any strides, with a term to add and max(0, .) at the end.

A tile of y (HEIGHT rows, two registers wide) stays in registers while k runs; each number of it is the sum

    ((a_i0 b_0j + a_i1 b_1j) + a_i2 b_2j) + ...        one fused multiply-add after the other, in order of k

for all shapes, strides and edges. So the bits of a row of y depend only on that row of a (and on b): decoding one token
at a time gives the same bits as a full pass. And one task computes each number of y, from its first product to the
last, so no bit depends on the way the work is dealt.

Registers hold neighbours, so a row of b must lie in one piece. If it does, b is read in place; if not (b is a
transposed weight), DEPTH rows of two registers are copied into a panel first. a is read one number at a time, so its
strides matter only where a whole row falls on one place of the cache: then blocks of it are copied as well.
"""

from functools import lru_cache

from tinytensor.native.kernel import EXACT_ORDER, MOST_TASKS, helper, kernel, share
from tinytensor.native.simd import BYTES, LINE, NEAR
from tinytensor.native.tiles import (
    add_tile,
    fetch_tile,
    load_tile,
    load_transposed,
    relu_tile,
    store_tile,
    sum_tile,
    zero_tile,
)
from tinytensor.native.vectors import lanes, load_first, store

HEIGHT = 8 if BYTES == 64 else 6  # rows of a tile: of 6, and two of b and one of a, are 15 of AVX2's 16 registers
HALF = 4  # rows of the tile for up to as many remaining rows: a whole tile would compute rows in vain
DEPTH = 256  # rows of a panel: with its two registers of 64 bytes it fills the nearest cache to two thirds
TILES = 192 // HEIGHT  # of a block, one below the other: DEPTH numbers of each of their rows fit the second cache
COLUMNS = 128  # of a block, about: the block's part of a is used this often once it is in the cache
# A panel that serves fewer rows is not worth a copy. AVX-512 multiplies twice as long by each piece of a row it reads.
FEW = 64 if BYTES == 64 else 24
SPAN = 1 << 15  # bytes: where a panel's rows, read in place, spread over more, they push each other out of the cache
PAGE = 4096  # bytes: numbers that are whole pages apart share one place in the nearest cache
MANY = 4  # panels that a copied block of a should serve
PRODUCTS = 250_000  # of two numbers: some 4 microseconds, worth a task
SHARED = 60_000  # products worth a task where a second thread is awake, as in a program


def panel_shape(K: int, itemsize: int) -> tuple[int, int]:
    """Return rows and columns of a panel: as many rows as squares of a register's numbers fill, and two registers."""
    square = BYTES // itemsize
    return -(-min(K, DEPTH) // square) * square, 2 * square


@lru_cache(maxsize=1024)  # to compute a plan again takes as long as a small product
def matmul_plan(
    n: int, M: int, K: int, N: int, itemsize: int, apart: int = 0, in_program: bool = False
) -> tuple[int, int, tuple[int, int, int]]:
    """Return rows and columns of a block of y, and the shape of the scratch array: for each task, a panel.

    The blocks are dealt to the tasks. A large product has blocks that suit the caches; a smaller one gets smaller
    blocks, first with fewer columns, then with fewer rows, until every task has enough of them.

    A single launch has to wake the second thread, which takes as long as half a million products; in a program both are
    awake. So smaller products have two tasks there, and each thread reads the rows that it wrote.

    `apart` is the number of bytes between neighbours in a row of a. If these are whole pages, a block of a is copied
    beside the panel, in rows of an odd number of lines, which spread over all places of a cache.
    """
    deep, width = panel_shape(K, itemsize)
    far = apart != 0 and apart % PAGE == 0
    tiles, panels = max(1, -(-M // HEIGHT)), max(1, -(-N // width))
    down = -(-tiles // TILES)
    high = -(-tiles // (down if down > 8 else 1 << (down - 1).bit_length()))
    wide = -(-panels // -(-panels * width // (2 * COLUMNS if far else COLUMNS)))
    products = n * M * K * N
    wanted = min(MOST_TASKS // 2, max(products // PRODUCTS, min(2, products // SHARED) if in_program else 0))

    def blocks():
        return n * -(-tiles // high) * -(-panels // wide)

    def too_few():  # three blocks on two threads take as long as four
        return wanted > 1 and (blocks() < wanted or (blocks() < 8 and blocks() % 2))

    while too_few() and wide > (MANY if far else 1):
        wide = -(-wide // 2)
    while too_few() and high > 1:
        high = -(-high // 2)
    tasks = min(MOST_TASKS, blocks()) if wanted > 1 else 1
    rows, columns = high * HEIGHT, wide * width
    if far and wide > 1:
        line = LINE // itemsize
        width = (-(-(width + rows) // line) | 1) * line
    return rows, columns, (tasks, deep, width)


@helper
def pack(b, first, last, j, width, panel):
    """panel[k - first] = b[k, j : j + width] and zeros after it, for the rows first <= k < last."""
    n = lanes(b)
    if b.strides[1] == b.itemsize:
        for k in range(first, last):
            store(load_first(width, b, k, j), panel, k - first, 0)
            store(load_first(width - n, b, k, j + n), panel, k - first, n)
    elif b.strides[0] == b.itemsize:  # columns of b lie in one piece: squares of b are loaded, transposed, and stored
        for v in range(0, 2 * n, n):
            for k in range(first, last, n):
                square = load_transposed(width - v, last - k, b.T, j + v, k)
                store_tile(square, n, n, panel, k - first, v)
    else:
        for k in range(first, last):
            for v in range(2 * n):
                panel[k - first, v] = b[k, j + v] if v < width else b.dtype.type(0)


@helper
def copy_block(a, begin, end, first, last, panel, column):
    """panel[k - first, column + i - begin] = a[i, k], first <= k < last, begin <= i < end; columns of a are dense.

    A tile takes HEIGHT numbers of a line, and the next tile the next ones. If all of these lines share one place in the
    cache, each is fetched again for every tile. Here each line is read once, as a whole.
    """
    columns = a.T
    for k in range(first, last):
        for i in range(begin, end, lanes(a)):
            store(load_first(end - i, columns, k, i), panel, k - first, column + i - begin)


@helper
def pieces(size, unit):
    """The number of pieces of length `unit` in `size`, the last perhaps shorter. (A division is as slow as a tile.)"""
    return (size + unit - 1) // unit if size > unit else min(size, 1)


@helper
def tiles(blank, begin, end, a, above, before, b, row, column, first, last, K, term, relu, y, j, width, asks):
    """y[begin:end, j : j + width], tile by tile, from the products first <= k < last.

    a[i, k] stands at a[i - above, k - before], b[k, j] at b[row + k, column]. `blank` is a tile of zeros; all have its
    size. `asks`: are the rows of the next tile, and y, prefetched?
    """
    for i in range(begin, end, len(blank)):
        height = min(len(blank), end - i)
        if asks:
            fetch_tile(blank, y, i, j)
        c = load_tile(blank, height, width, y, i, j) if first > 0 else blank
        c = sum_tile(c, height, a, i - above, first - before, b, row + first, column, last - first, asks)
        if last == K:
            if term.size > 0:
                c = add_tile(c, load_tile(blank, height, width, term, i, j))
            if relu:
                c = relu_tile(c, height)
        store_tile(c, height, width, y, i, j)


@kernel(
    "a[n, M, K], b[n, K, N], term[n, M | 0, N | 0], y[n, M, N], rows > 0, columns > 0, scratch[T, deep, wide],"
    "T > 0, deep >= panel_shape(K, y.itemsize)[0], wide * y.itemsize >= 2 * BYTES, dense(term, scratch)",
    tasks=lambda a, b, term, relu, rows, columns, y, scratch: scratch.shape[0],
    fastmath=EXACT_ORDER,
    strided=("a", "b", "term", "scratch"),
)
def matmul(a, b, term, relu, rows, columns, y, scratch, task, tasks):
    r"""y_{nij} = \sum_k a_{nik} b_{nkj} + t_{nij}, then max(0, y_{nij}) if relu (NaN stays NaN).

    a (n, M, K) and b (n, K, N) with any strides, y (n, M, N); K = 0 gives zeros, the empty sums. The term t (n, M, N)
    is added last; its rows lie in one piece, and may all be the same row (a bias); a term of size 0 is none. t must not
    be y, which holds unfinished sums. `rows`, `columns` and scratch come from matmul_plan.
    """
    n, M, N = y.shape
    K = a.shape[2]
    across, down = pieces(N, columns), pieces(M, rows)
    first_block, last_block = share(n * across * down, task, tasks)
    for block in range(first_block, last_block):
        m, begin, left = block, 0, 0
        if across * down > 1:
            m, begin, left = block // (across * down), block % down * rows, block // down % across * columns
        end, right = min(begin + rows, M), min(left + columns, N)
        over = (end - begin) % HEIGHT
        even = end if over > HALF else end - over
        panel = scratch[task]
        full = 2 * lanes(y)
        room = scratch.shape[2] - full
        copied = a.strides[1] == a.itemsize and room >= (rows + lanes(y) - 1) // lanes(y) * lanes(y)
        asks = M * K * a.itemsize > NEAR
        for first in range(0, max(K, 1), DEPTH):
            last = min(first + DEPTH, K)
            factor, above, before = a[m], 0, 0
            if copied:
                copy_block(factor, begin, end, first, last, panel, full)
                factor, above, before = panel.T, begin - full, first
            far = end - begin >= FEW and (last - first) * abs(b.strides[1]) > SPAN
            rest = left
            if M == 1 and b.strides[2] == b.itemsize:  # a single row: two sums would wait, so take eight
                for j in range(left, right - 4 * full + 1, 4 * full):
                    place = first, last, K, term[m], relu, y[m], j, 4 * full, False
                    tiles(zero_tile(y, 1, 8), begin, end, factor, above, before, b[m], 0, j, *place)
                    rest = j + 4 * full
            for j in range(rest, right, full):
                width = min(full, right - j)
                source, row, column = b[m], 0, j
                if far or width % lanes(y) > 0 or b.strides[2] != b.itemsize:  # so that no register reads beyond a row
                    pack(b[m], first, last, j, width, panel)
                    source, row, column = panel, -first, 0
                place = factor, above, before, source, row, column, first, last, K, term[m], relu, y[m], j, width, asks
                if width <= lanes(y):
                    tiles(zero_tile(y, HEIGHT, 1), begin, end, *place)
                else:
                    tiles(zero_tile(y, HEIGHT, 2), begin, even, *place)
                    if over == 1:
                        tiles(zero_tile(y, 1, 2), even, end, *place)
                    elif over <= HALF:
                        tiles(zero_tile(y, HALF, 2), even, end, *place)

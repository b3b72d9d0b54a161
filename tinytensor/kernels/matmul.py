"""Matrix products: y = a b for batches of matrices of any strides, with a term to add and max(0, .) at the end.

A tile of y (HEIGHT rows, two registers wide) stays in registers while k runs; each number of it is the sum

    ((a_i0 b_0j + a_i1 b_1j) + a_i2 b_2j) + ...        one fused multiply-add after the other, in order of k

for all shapes, strides and edges. So the bits of a row of y depend only on that row of a (and on b): decoding one token
at a time gives the same bits as a full pass. And one task computes each number of y, from its first product to the
last, so no bit depends on the way the work is dealt.

Registers hold neighbours, so a row of b must lie in one piece. If it does, b is read in place; if not (b is a
transposed weight), DEPTH rows of two registers are copied into a panel first. a is read one number at a time, so its
strides matter less: its blocks are copied in large products only, whose numbers would come from far away again and
again. There, unfinished sums wait in scratch as well, tile after tile, because the rows of a tile of y lie on as many
pages of memory, and to look up a page takes as long as several products.
"""

from functools import lru_cache

from numba import config

from tinytensor.runtime.kernel import EXACT_ORDER, MOST_TASKS, device_function, kernel, task_range
from tinytensor.simd.isa import BYTES, LINE, NEAR, SECOND
from tinytensor.simd.tile import (
    add_tile,
    load_tile,
    load_transposed,
    prefetch_tile,
    relu_tile,
    store_tile,
    sum_tile,
    zero_tile,
)
from tinytensor.simd.vector import lanes, load, load_first, store

HEIGHT = 8 if BYTES == 64 else 6  # rows of a tile: of 6, and two of b and one of a, are 15 of AVX2's 16 registers
HALF = 4  # rows of the tile for up to as many remaining rows: a whole tile would compute rows in vain
DEPTH = 256  # rows of a panel: with its two registers of 64 bytes it fills the nearest cache to two thirds
GROUP = 4  # panels that are copied together in a large product: a page of b is looked up once for all of them
TILES = 192 // HEIGHT  # of a block, one below the other: DEPTH numbers of each of their rows fit the second cache
COLUMNS = 128  # of a block, about: the block's part of a is used this often once it is in the cache
# Rows and columns, about, of a block whose part of a is copied. The copy fills a quarter of the second cache, or half.
SIDE = 512 if SECOND >= 1 << 21 else 256
# A panel that serves fewer rows is not worth a copy. AVX-512 multiplies twice as long by each piece of a row it reads.
FEW = 64 if BYTES == 64 else 24
SPAN = 1 << 15  # bytes: where a panel's rows, read in place, spread over more, they push each other out of the cache
ACROSS = 16 if BYTES == 64 else 8  # numbers of a row of copied tiles: whole registers
BESIDE = ACROSS // HEIGHT * HEIGHT  # those of them that are used, by one tile or by two
AT_ONCE = 16  # rows of k that are copied together: a page of the copy is looked up once for all of them
MANY = 4  # panels that a copied block of a should serve
LARGE = 256  # rows and columns of a product that is worth copies of a
PRODUCTS = 250_000  # of two numbers: some 4 microseconds, worth a task
SHARED = 60_000  # products worth a task where a second thread is awake, as in a program


def panel_shape(K: int, itemsize: int) -> tuple[int, int]:
    """Return rows and columns of a panel: as many rows as squares of a register's numbers fill, and two registers."""
    square = BYTES // itemsize
    return -(-min(K, DEPTH) // square) * square, 2 * square


def copy_shape(K: int, rows: int, itemsize: int, columns_dense: bool) -> tuple[int, int]:
    """Return the shape of a copied block of a: tile after tile if a's columns are dense, else row after row.

    Such rows are longer by one line than they need be: by an odd number of lines, so that they use the whole cache.
    """
    deep = panel_shape(K, itemsize)[0]
    return (-(-rows // BESIDE) * deep, ACROSS) if columns_dense else (rows, deep + LINE // itemsize)


def copy_fits(copy, tasks: int, K: int, rows: int, a) -> bool:
    """Has the copy the shape of such blocks of a, one for each task, and has a dense rows or columns?"""
    dense = a.itemsize in a.strides[1:]
    return dense and copy.shape == (tasks, *copy_shape(K, rows, a.itemsize, a.strides[1] == a.itemsize))


@lru_cache(maxsize=1024)  # to compute a plan again takes as long as a small product
def matmul_plan(
    n: int, M: int, K: int, N: int, itemsize: int, strides: tuple[int, int] = (0, 0), in_program: bool = False
) -> tuple[int, int, tuple[int, int, int], tuple[int, int, int]]:
    """Return rows and columns of a block of y, and for each task the shapes of its scratch and of its copy of a.

    The blocks are dealt to the tasks. A large product has blocks that suit the caches; a smaller one gets smaller
    blocks, first with fewer columns, then with fewer rows, until every task has enough of them.

    A single launch has to wake the second thread, which takes as long as half a million products; in a program both are
    awake. So smaller products have two tasks there, and each thread reads the rows that it wrote.

    `strides` are those of a, in bytes. Blocks of a are copied if its columns are dense, so that a sum walks from line
    to line; or if its rows are longer than two panels. Such blocks are larger. Few tasks share them, since each task
    has memory of its own for a copy: twice as many as the machine has threads. No bit depends on their number.
    """
    deep, width = panel_shape(K, itemsize)
    columns_dense, rows_dense = (stride == itemsize for stride in strides)
    tiles, panels = max(1, -(-M // HEIGHT)), max(1, -(-N // width))
    copied = M >= LARGE and (
        (columns_dense and N > LARGE // 4 and K >= DEPTH // 4) or (rows_dense and N >= LARGE and K > 2 * DEPTH)
    )
    products = n * M * K * N
    wanted = min(MOST_TASKS // 2, max(products // PRODUCTS, min(2, products // SHARED) if in_program else 0))

    def blocks():
        return n * -(-tiles // high) * -(-panels // wide)

    def too_few():  # three blocks on two threads take as long as four
        return wanted > 1 and (blocks() < wanted or (blocks() < 8 and blocks() % 2))

    if copied:
        wanted = min(wanted, 2 * config.NUMBA_NUM_THREADS)
        high, wide = -(-tiles // -(-M // SIDE)), -(-panels // -(-N // SIDE))
        while too_few() and (wide > MANY or high > 1):
            if high == 1 or (wide > MANY and wide * width > max(COLUMNS, high * HEIGHT)):
                wide = -(-wide // 2)
            else:
                high = -(-high // 2)
    else:
        down = -(-tiles // TILES)
        high = -(-tiles // (down if down > 8 else 1 << (down - 1).bit_length()))
        wide = -(-panels // -(-panels * width // COLUMNS))
        while too_few() and wide > 1:
            wide = -(-wide // 2)
        while too_few() and high > 1:
            high = -(-high // 2)
    tasks = min(wanted if copied else MOST_TASKS, blocks()) if wanted > 1 else 1
    rows, columns = high * HEIGHT, wide * width
    if copied:
        deep = min(GROUP, wide) * deep + (rows * wide if K > DEPTH else 0)
    copy = (tasks, *copy_shape(K, rows, itemsize, columns_dense)) if copied else (0, 0, 0)
    return rows, columns, (tasks, deep, width), copy


@device_function
def pack(b, first, last, j, width, deep, panels):
    """panels[g deep + k - first] = b[k, j + g n : j + (g + 1) n], n numbers of two registers; zeros beyond the width.

    The rows are first <= k < last. All panels of a group take their numbers from a row of b at once.
    """
    n = lanes(b)
    if b.strides[1] == b.itemsize:
        for some in range(first, last, AT_ONCE):
            row = some - first
            for v in range(0, width, 2 * n):
                for k in range(some, min(some + AT_ONCE, last)):
                    store(load_first(width - v, b, k, j + v), panels, row + k - some, 0)
                    store(load_first(width - v - n, b, k, j + v + n), panels, row + k - some, n)
                row += deep
    elif b.strides[0] == b.itemsize:  # columns of b lie in one piece: squares of b are loaded, transposed, and stored
        for v in range(0, width, n):
            for k in range(first, last, n):
                square = load_transposed(width - v, last - k, b.T, j + v, k)
                store_tile(square, n, n, panels, v // (2 * n) * deep + k - first, v % (2 * n))
    else:
        for k in range(first, last):
            for v in range(-(-width // (2 * n)) * 2 * n):
                panels[v // (2 * n) * deep + k - first, v % (2 * n)] = b[k, j + v] if v < width else b.dtype.type(0)


@device_function
def copy_columns(a, begin, end, first, last, deep, copy):
    """copy[t deep + k - first, r] = a[begin + t BESIDE + r, k], first <= k < last, r < BESIDE; columns of a are dense.

    A tile takes HEIGHT numbers of a line of a, and the next tile the next ones, from as many lines as there are k. In
    the copy, the numbers of a tile lie in one piece, in the order in which it takes them.
    """
    columns, n = a.T, lanes(a)
    for some in range(first, last, AT_ONCE):
        row = some - first
        for i in range(begin, end, BESIDE):
            for k in range(some, min(some + AT_ONCE, last)):
                for r in range(0, BESIDE, n):
                    if i + r + n <= end:
                        store(load(columns, k, i + r), copy, row + k - some, r)
                    else:
                        store(load_first(end - i - r, columns, k, i + r), copy, row + k - some, r)
            row += deep


@device_function
def copy_rows(a, begin, end, first, last, copy):
    """copy[i - begin, k - first] = a[i, k], begin <= i < end, first <= k < last; rows of a are dense."""
    n = lanes(a)
    for i in range(begin, end):
        for k in range(first, last, n):
            v = load(a, i, k) if k + n <= last else load_first(last - k, a, i, k)
            store(v, copy, i - begin, k - first)


@device_function
def pieces(size, unit):
    """The number of pieces of length `unit` in `size`, the last perhaps shorter. (A division is as slow as a tile.)"""
    return (size + unit - 1) // unit if size > unit else min(size, 1)


@device_function
def tiles(blank, begin, end, a, away, b, beside, first, last, K, sums, at, kept, term, relu, y, j, width, asks):
    """y[begin:end, j : j + width], tile by tile, from the products first <= k < last.

    With above, before, apart = away, a[i, k] stands at a[i - above, k - before]; or, where copied tiles are apart, at
    a[i - above - t BESIDE, k - before + t apart] in the t-th of them. With row, column = beside, b[k, j] stands at
    b[row + k, column]. Unfinished sums are `kept` in the rows sums[at + i], or else in y. `blank` is a tile of zeros;
    all have its size. `asks`: are the rows of the next tile, and y, prefetched?
    """
    above, before, apart = away
    row, column = beside
    for i in range(begin, end, len(blank)):
        height = min(len(blank), end - i)
        t = (i - above) // BESIDE if apart > 0 else 0
        if asks and (last == K or not kept):
            prefetch_tile(blank, y, i, j)
        c = blank
        if first > 0:
            c = load_tile(c, height, width, sums, at + i, 0) if kept else load_tile(c, height, width, y, i, j)
        up, back = above + t * BESIDE, before - t * apart
        c = sum_tile(c, height, a, i - up, first - back, b, row + first, column, last - first, asks and apart == 0)
        if last == K:
            if term.size > 0:
                c = add_tile(c, load_tile(blank, height, width, term, i, j))
            if relu:
                c = relu_tile(c, height)
        if last == K or not kept:
            store_tile(c, height, width, y, i, j)
        else:
            store_tile(c, height, width, sums, at + i, 0)


@kernel(
    "a[n, M, K], b[n, K, N], term[n, M | 0, N | 0], y[n, M, N], rows > 0, columns > 0, scratch[T, deep, wide],"
    "copy[copies, high, across], T > 0, deep >= panel_shape(K, y.itemsize)[0], wide * y.itemsize >= 2 * BYTES,"
    "dense(term, scratch, copy), copy.size == 0 or copy_fits(copy, T, K, rows, a)",
    tasks=lambda a, b, term, relu, rows, columns, y, scratch, copy: scratch.shape[0],
    fastmath=EXACT_ORDER,
    strided=("a", "b", "term", "scratch", "copy"),
)
def matmul(a, b, term, relu, rows, columns, y, scratch, copy, task, tasks):
    r"""y_{nij} = \sum_k a_{nik} b_{nkj} + t_{nij}, then max(0, y_{nij}) if relu (NaN stays NaN).

    a (n, M, K) and b (n, K, N) with any strides, y (n, M, N); K = 0 gives zeros, the empty sums. The term t (n, M, N)
    is added last; its rows lie in one piece, and may all be the same row (a bias); a term of size 0 is none. t must not
    be y, which may hold unfinished sums. `rows`, `columns`, scratch and copy come from matmul_plan.
    """
    n, M, N = y.shape
    K = a.shape[2]
    full = 2 * lanes(y)
    deep = pieces(min(K, DEPTH), lanes(y)) * lanes(y)
    high, panels = min(rows, M), pieces(min(columns, N), full)  # of a block, which may be larger than y
    group = min(GROUP, panels)
    group = group if scratch.shape[1] >= group * deep else 1
    kept = K > DEPTH and scratch.shape[1] >= group * deep + panels * high
    across, down = pieces(N, columns), pieces(M, rows)
    first_block, last_block = task_range(n * across * down, task, tasks)
    panel = scratch[task]
    columns_dense = a.strides[1] == a.itemsize
    asks = M * K * a.itemsize > NEAR
    for block in range(first_block, last_block):
        m, begin, left = block, 0, 0
        if across * down > 1:
            m, begin, left = block // (across * down), block % down * rows, block // down % across * columns
        end, right = min(begin + rows, M), min(left + columns, N)
        over = (end - begin) % HEIGHT
        even = end if over > HALF else end - over
        for first in range(0, max(K, 1), DEPTH):
            last = min(first + DEPTH, K)
            factor, away = a[m], (0, 0, 0)
            if copy.size > 0:
                factor, away = copy[task], (begin, first, deep if columns_dense else 0)
                if columns_dense:
                    copy_columns(a[m], begin, end, first, last, deep, factor)
                    factor = factor.T
                else:
                    copy_rows(a[m], begin, end, first, last, factor)
            far = end - begin >= FEW and (last - first) * abs(b.strides[1]) > SPAN
            rest = left
            if M == 1 and b.strides[2] == b.itemsize:  # a single row: two sums would wait, so take eight
                for j in range(left, right - 4 * full + 1, 4 * full):
                    place = first, last, K, panel, 0, False, term[m], relu, y[m], j, 4 * full, False
                    tiles(zero_tile(y, 1, 8), begin, end, factor, away, b[m], (0, j), *place)
                    rest = j + 4 * full
            for j in range(rest, right, full):
                width, p = min(full, right - j), (j - rest) // full
                source, beside = b[m], (0, j)
                if far or b.strides[2] != b.itemsize:
                    if p % group == 0:
                        pack(b[m], first, last, j, min(group * full, right - j), deep, panel)
                    source, beside = panel, (p % group * deep - first, 0)
                elif width % lanes(y) > 0:  # so that no register reads beyond a row
                    pack(b[m], first, last, j, width, deep, panel)
                    source, beside = panel, (-first, 0)
                at = group * deep + p * high - begin
                place = first, last, K, panel, at, kept, term[m], relu, y[m], j, width, asks
                if width <= lanes(y):
                    tiles(zero_tile(y, HEIGHT, 1), begin, end, factor, away, source, beside, *place)
                else:
                    tiles(zero_tile(y, HEIGHT, 2), begin, even, factor, away, source, beside, *place)
                    if over == 1:
                        tiles(zero_tile(y, 1, 2), even, end, factor, away, source, beside, *place)
                    elif over <= HALF:
                        tiles(zero_tile(y, HALF, 2), even, end, factor, away, source, beside, *place)

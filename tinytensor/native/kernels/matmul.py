"""Matrix products: y = a b for batches of matrices of any strides, with a term to add and max(0, .) at the end.

The loops are BLIS's, from outside to inside: blocks of MC x NC elements of y (which the tasks share), KC products at a
time, panels of NR columns, tiles of MR rows (`macrokernel`), and the sums over k in registers (the microkernel,
`sum_tile`). Each number of a tile is the sum

    ((a_i0 b_0j + a_i1 b_1j) + a_i2 b_2j) + ...        one fused multiply-add after the other, in order of k

for all shapes, strides and edges. So the bits of a row of y depend only on that row of a (and on b): decoding one token
at a time gives the same bits as a full pass. And one task computes each number of y, from its first product to the
last, so no bit depends on how blocks are shared by tasks.

A row of b must be contiguous, since a register holds neighbours. If it is, b is read in place; if not (b is a
transposed weight), KC rows of NR columns are packed into a panel first (`pack_b`). a is read one number at a time, so
its strides matter less. It is packed only in large products, where it would be re-read from outer caches
(`pack_a_columns`, `pack_a_rows`). Partial sums then stay in packed scratch too: the rows of a tile of y lie on
different pages, and a TLB miss costs several FMAs.
"""

from functools import lru_cache
from typing import NamedTuple

from numba import config

from tinytensor.core.kernel import EXACT_ORDER, MOST_TASKS
from tinytensor.core.poison import LINE
from tinytensor.native.runtime.kernel import device_function, kernel, task_range
from tinytensor.native.simd.isa import BYTES, NEAR, SECOND
from tinytensor.native.simd.tile import (
    add_tile,
    load_tile,
    load_transposed,
    prefetch_tile,
    relu_tile,
    store_tile,
    sum_tile,
    zero_tile,
)
from tinytensor.native.simd.vector import lanes, load, load_first, store

MR = 8 if BYTES == 64 else 6  # rows of a tile: of 6, and two of b and one of a, are 15 of AVX2's 16 registers
MR_EDGE = 4  # rows of the tile for up to as many remaining rows: a whole tile would compute rows in vain
KC = 256  # rows of a panel: with its two registers of 64 bytes it fills the nearest cache to two thirds
GROUP = 4  # panels that are copied together in a large product: a page of b is looked up once for all of them
MC = 192 // MR * MR  # rows of a block: KC numbers of each of them fit the second cache
NC = 128  # of a block, about: the block's part of a is used this often once it is in the cache
# Rows and columns, about, of a block whose part of a is packed: it then fills a quarter of the second cache, or half.
MC_PACKED = 512 if SECOND >= 1 << 21 else 256
# A panel that serves fewer rows is not worth packing. AVX-512 multiplies twice as long by each piece of a row it reads.
MIN_ROWS = 64 if BYTES == 64 else 24
SPAN = 1 << 15  # bytes: where a panel's rows, read in place, spread over more, they push each other out of the cache
A_LANES = 16 if BYTES == 64 else 8  # numbers of a row of copied tiles: whole registers
A_ROWS = A_LANES // MR * MR  # those of them that are used, by one tile or by two
AT_ONCE = 16  # rows of k that are packed together: one TLB look-up of a packed page serves all of them
MIN_PANELS = 4  # panels that a copied block of a should serve
LARGE = 256  # rows and columns of a product that is worth copies of a
PRODUCTS = 250_000  # of two numbers: some 4 microseconds, worth a task
SHARED = 60_000  # products worth a task where a second thread is awake, as in a program


def panel_shape(K: int, itemsize: int) -> tuple[int, int]:
    """Return rows and columns of a panel: as many rows as squares of a register's numbers fill, and two registers."""
    square = BYTES // itemsize
    return -(-min(K, KC) // square) * square, 2 * square


def packed_a_shape(K: int, rows: int, itemsize: int, columns_dense: bool) -> tuple[int, int]:
    """Return the shape of a copied block of a: tile after tile if a's columns are dense, else row after row.

    Such rows are longer by one line than they need be: by an odd number of lines, so that they use the whole cache.
    """
    deep = panel_shape(K, itemsize)[0]
    return (-(-rows // A_ROWS) * deep, A_LANES) if columns_dense else (rows, deep + LINE // itemsize)


def packed_a_fits(packed_a, tasks: int, K: int, rows: int, a) -> bool:
    """Has packed_a the shape of such blocks of a, one for each task, and has a dense rows or columns?"""
    dense = a.itemsize in a.strides[1:]
    return dense and packed_a.shape == (tasks, *packed_a_shape(K, rows, a.itemsize, a.strides[1] == a.itemsize))


class MatmulPlan(NamedTuple):
    """The settings and scratch of a product, in the order of the kernel's arguments."""

    mc: int  # rows of a block of y
    nc: int  # its columns
    scratch: tuple[int, int, int]  # for each task: panels of b and partial sums
    packed_a: tuple[int, int, int]  # for each task: a packed block of a; (0, 0, 0) if a is read in place


@lru_cache(maxsize=1024)  # to compute a plan again takes as long as a small product
def matmul_plan(
    n: int, M: int, K: int, N: int, itemsize: int, strides: tuple[int, int] = (0, 0), in_program: bool = False
) -> MatmulPlan:
    """Return how a product is divided: the blocks of y, and the shapes of scratch and of the packed blocks of a.

    The tasks share the blocks. A large product has blocks that suit the caches; a smaller one gets smaller
    blocks, first with fewer columns, then with fewer rows, until every task has enough of them.

    A single launch has to wake the second thread, which takes as long as half a million products; in a program both are
    awake. So smaller products have two tasks there, and each thread reads the rows that it wrote.

    `strides` are those of a, in bytes. Blocks of a are copied if its columns are dense, so that a sum walks from line
    to line; or if its rows are longer than two panels. Such blocks are larger. Few tasks share them, since each task
    has memory of its own for a packed block: twice as many as the machine has threads. No bit depends on their number.
    """
    deep, width = panel_shape(K, itemsize)
    columns_dense, rows_dense = (stride == itemsize for stride in strides)
    tall, panels = max(1, -(-M // MR)), max(1, -(-N // width))
    copied = M >= LARGE and (
        (columns_dense and N > LARGE // 4 and K >= KC // 4) or (rows_dense and N >= LARGE and K > 2 * KC)
    )
    products = n * M * K * N
    wanted = min(MOST_TASKS // 2, max(products // PRODUCTS, min(2, products // SHARED) if in_program else 0))

    def blocks():
        return n * -(-tall // high) * -(-panels // wide)

    def too_few():  # three blocks on two threads take as long as four
        return wanted > 1 and (blocks() < wanted or (blocks() < 8 and blocks() % 2))

    if copied:
        wanted = min(wanted, 2 * config.NUMBA_NUM_THREADS)
        high, wide = -(-tall // -(-M // MC_PACKED)), -(-panels // -(-N // MC_PACKED))
        while too_few() and (wide > MIN_PANELS or high > 1):
            if high == 1 or (wide > MIN_PANELS and wide * width > max(NC, high * MR)):
                wide = -(-wide // 2)
            else:
                high = -(-high // 2)
    else:
        down = -(-tall * MR // MC)
        high = -(-tall // (down if down > 8 else 1 << (down - 1).bit_length()))
        wide = -(-panels // -(-panels * width // NC))
        while too_few() and wide > 1:
            wide = -(-wide // 2)
        while too_few() and high > 1:
            high = -(-high // 2)
    tasks = min(wanted if copied else MOST_TASKS, blocks()) if wanted > 1 else 1
    rows, columns = high * MR, wide * width
    if copied:
        deep = min(GROUP, wide) * deep + (rows * wide if K > KC else 0)
    packed_a = (tasks, *packed_a_shape(K, rows, itemsize, columns_dense)) if copied else (0, 0, 0)
    return MatmulPlan(rows, columns, (tasks, deep, width), packed_a)


@device_function
def pack_b(b, first, last, j, width, deep, panels):
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
def pack_a_columns(a, begin, end, first, last, deep, packed_a):
    """packed_a[t deep + k - first, r] = a[begin + t A_ROWS + r, k], r < A_ROWS; columns of a are dense.

    A tile takes MR numbers of a line of a, and the next tile the next ones, from as many lines as there are k. Packed,
    the numbers of a tile are contiguous, in the order in which it takes them.
    """
    columns, n = a.T, lanes(a)
    for some in range(first, last, AT_ONCE):
        row = some - first
        for i in range(begin, end, A_ROWS):
            for k in range(some, min(some + AT_ONCE, last)):
                for r in range(0, A_ROWS, n):
                    if i + r + n <= end:
                        store(load(columns, k, i + r), packed_a, row + k - some, r)
                    else:
                        store(load_first(end - i - r, columns, k, i + r), packed_a, row + k - some, r)
            row += deep


@device_function
def pack_a_rows(a, begin, end, first, last, packed_a):
    """packed_a[i - begin, k - first] = a[i, k], begin <= i < end, first <= k < last; rows of a are dense."""
    n = lanes(a)
    for i in range(begin, end):
        for k in range(first, last, n):
            v = load(a, i, k) if k + n <= last else load_first(last - k, a, i, k)
            store(v, packed_a, i - begin, k - first)


@device_function
def ceil_div(size, unit):
    """The number of pieces of length `unit` in `size`, the last perhaps shorter. (A division is as slow as a tile.)"""
    return (size + unit - 1) // unit if size > unit else min(size, 1)


@device_function
def macrokernel(tile, rows, a_panel, b_panel, steps, sums, epilogue, y, j, width, prefetching):
    """y[begin:end, j : j + width], tile by tile, from the products first <= k < last: `rows` is (begin, end).

    `tile` is a tile of zeros; all have its size. These tuples describe the operands:

    - a_panel (a, above, before, apart): a[i, k] is a[i - above, k - before], or, where packed tiles are `apart`,
      a[i - above - t A_ROWS, k - before + t apart] in the t-th of them;
    - b_panel (b, row, column): b[k, j] is b[row + k, column];
    - steps (first, last, K);
    - sums (sums, at, packed): partial sums are packed in the rows sums[at + i], or else stored in y;
    - epilogue (term, relu), after the last product.

    `prefetching`: are the rows of the next tile, and y, prefetched?
    """
    begin, end = rows
    a, above, before, apart = a_panel
    b, row, column = b_panel
    first, last, K = steps
    partial, at, packed = sums
    term, relu = epilogue
    for i in range(begin, end, len(tile)):
        height = min(len(tile), end - i)
        t = (i - above) // A_ROWS if apart > 0 else 0
        if prefetching and (last == K or not packed):
            prefetch_tile(tile, y, i, j)
        c = tile
        if first > 0:
            c = load_tile(c, height, width, partial, at + i, 0) if packed else load_tile(c, height, width, y, i, j)
        up, back = above + t * A_ROWS, before - t * apart
        c = sum_tile(
            c, height, a, i - up, first - back, b, row + first, column, last - first, prefetching and apart == 0
        )
        if last == K:
            if term.size > 0:
                c = add_tile(c, load_tile(tile, height, width, term, i, j))
            if relu:
                c = relu_tile(c, height)
        if last == K or not packed:
            store_tile(c, height, width, y, i, j)
        else:
            store_tile(c, height, width, partial, at + i, 0)


@kernel(
    "mc > 0, nc > 0, scratch[T, deep, wide], packed_a[copies, high, across], T > 0,"
    "deep >= panel_shape(K, y.itemsize)[0], wide * y.itemsize >= 2 * BYTES, dense(term, scratch, packed_a),"
    "packed_a.size == 0 or packed_a_fits(packed_a, T, K, mc, a)",
    tasks=lambda a, b, term, relu, mc, nc, y, scratch, packed_a: scratch.shape[0],
    fastmath=EXACT_ORDER,
    strided=("a", "b", "term", "scratch", "packed_a"),
)
def matmul(a, b, term, relu, mc, nc, y, scratch, packed_a, task, tasks):
    r"""y_{nij} = \sum_k a_{nik} b_{nkj} + t_{nij}, then max(0, y_{nij}) if relu (NaN stays NaN).

    a (n, M, K) and b (n, K, N) with any strides, y (n, M, N); K = 0 gives zeros, the empty sums. The term t (n, M, N)
    is added last; its rows are contiguous, and may all be the same row (a bias); a term of size 0 is none. t must not
    be y, which may hold partial sums. mc, nc, scratch and packed_a come from matmul_plan.
    """
    n, M, N = y.shape
    K = a.shape[2]
    NR = 2 * lanes(y)
    deep = ceil_div(min(K, KC), lanes(y)) * lanes(y)
    high, panels = min(mc, M), ceil_div(min(nc, N), NR)  # of a block, which may be larger than y
    group = min(GROUP, panels)
    group = group if scratch.shape[1] >= group * deep else 1
    sums_packed = K > KC and scratch.shape[1] >= group * deep + panels * high
    across, down = ceil_div(N, nc), ceil_div(M, mc)
    first_block, last_block = task_range(n * across * down, task, tasks)
    panel = scratch[task]
    columns_dense = a.strides[1] == a.itemsize
    prefetching = M * K * a.itemsize > NEAR
    for block in range(first_block, last_block):
        m, begin, left = block, 0, 0
        if across * down > 1:
            m, begin, left = block // (across * down), block % down * mc, block // down % across * nc
        end, right = min(begin + mc, M), min(left + nc, N)
        over = (end - begin) % MR
        even = end if over > MR_EDGE else end - over
        for first in range(0, max(K, 1), KC):
            last = min(first + KC, K)
            left_factor, above, before, apart = a[m], 0, 0, 0
            if packed_a.size > 0:
                left_factor, above, before = packed_a[task], begin, first
                if columns_dense:
                    pack_a_columns(a[m], begin, end, first, last, deep, left_factor)
                    left_factor, apart = left_factor.T, deep
                else:
                    pack_a_rows(a[m], begin, end, first, last, left_factor)
            a_panel, steps, epilogue = (left_factor, above, before, apart), (first, last, K), (term[m], relu)
            packs_b = end - begin >= MIN_ROWS and (last - first) * abs(b.strides[1]) > SPAN
            rest = left
            if M == 1 and b.strides[2] == b.itemsize:  # a single row: two sums would wait, so take eight
                for j in range(left, right - 4 * NR + 1, 4 * NR):
                    call = a_panel, (b[m], 0, j), steps, (panel, 0, False), epilogue, y[m], j, 4 * NR, False
                    macrokernel(zero_tile(y, 1, 8), (begin, end), *call)
                    rest = j + 4 * NR
            for j in range(rest, right, NR):
                width, p = min(NR, right - j), (j - rest) // NR
                right_factor, row, column = b[m], 0, j
                if packs_b or b.strides[2] != b.itemsize:
                    if p % group == 0:
                        pack_b(b[m], first, last, j, min(group * NR, right - j), deep, panel)
                    right_factor, row, column = panel, p % group * deep - first, 0
                elif width % lanes(y) > 0:  # so that no register reads beyond a row
                    pack_b(b[m], first, last, j, width, deep, panel)
                    right_factor, row, column = panel, -first, 0
                b_panel, sums = (right_factor, row, column), (panel, group * deep + p * high - begin, sums_packed)
                call = a_panel, b_panel, steps, sums, epilogue, y[m], j, width, prefetching
                if width <= lanes(y):
                    macrokernel(zero_tile(y, MR, 1), (begin, end), *call)
                else:
                    macrokernel(zero_tile(y, MR, 2), (begin, even), *call)
                    if over == 1:
                        macrokernel(zero_tile(y, 1, 2), (even, end), *call)
                    elif over <= MR_EDGE:
                        macrokernel(zero_tile(y, MR_EDGE, 2), (even, end), *call)

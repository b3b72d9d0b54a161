"""Matrix products: y = a b for batches of matrices, and the linear layer y = x W^T + bias.

b is copied into panels of WIDTH columns, so that the innermost loop runs over WIDTH neighbouring numbers
whatever the strides of b are. A tile is ROWS rows by WIDTH columns of y; each number of it is the sum

    ((a_i0 b_0j + a_i1 b_1j) + a_i2 b_2j) + ...        one fused multiply-add after the other, in order of k

and there is only this one path. So the bits of a row of y depend on nothing but that row of a (and b):
decoding one token at a time gives what a full pass gives.
"""

from tinytensor.kernels.kernel import EXACT_ORDER, helper, kernel

WIDTH = 32  # columns of a panel: two AVX-512 or four AVX2 vectors of float32
ROWS = 4  # rows of a tile: each number of b, once loaded, is used in four rows
TASKS = 64  # the tiles are dealt to at most so many iterations, however many threads there are
SMALL = 1 << 16  # multiplications; below this, starting the threads costs more than they save


def matmul_scratch(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> tuple[int]:
    """Return the shape of the scratch array for a (n, M, K) times b (n, K, N): all panels, and a tile per task.

    It is fastest where it begins at a multiple of 64 bytes: then no vector straddles two cache lines.
    """
    n, k, columns = b_shape
    return (n * k * -(-columns // WIDTH) * WIDTH + TASKS * ROWS * WIDTH,)


def linear_scratch(x_shape: tuple[int, int], weight_shape: tuple[int, int]) -> tuple[int]:
    """Return the shape of the scratch array for x (M, K) and weight (N, K)."""
    return matmul_scratch((1, *x_shape), (1, *weight_shape[::-1]))


@helper
def pack(b, first, panel):
    """panel[k, j] = b[k, first + j] for the WIDTH columns from `first` on; 0 beyond the last column."""
    first = max(first, 0)  # never negative: said here so that the compiler drops Numba's wrap-around test
    width = min(WIDTH, b.shape[1] - first)
    if width < WIDTH:
        for i in range(panel.size):
            panel[i] = b.dtype.type(0)
    if b.strides[1] == b.itemsize:  # rows of b lie in one piece: this loop becomes vector copies
        for k in range(b.shape[0]):
            for j in range(width):
                panel[k * WIDTH + j] = b[k, first + j]
    else:
        for k8 in range(0, b.shape[0], 8):
            for j in range(width):
                for k in range(k8, min(k8 + 8, b.shape[0])):
                    panel[k * WIDTH + j] = b[k, first + j]


@helper
def tile(a, i, panel, acc):
    """acc[r, j] += sum_k a[i + r, k] panel[k, j] for ROWS rows; past the last row, the last row again."""
    last, K = a.shape[0] - 1, a.shape[1]
    i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
    for k4 in range(K // 4):
        k = 4 * k4
        a00, a01, a02, a03 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
        a10, a11, a12, a13 = a[i1, k], a[i1, k + 1], a[i1, k + 2], a[i1, k + 3]
        a20, a21, a22, a23 = a[i2, k], a[i2, k + 1], a[i2, k + 2], a[i2, k + 3]
        a30, a31, a32, a33 = a[i3, k], a[i3, k + 1], a[i3, k + 2], a[i3, k + 3]
        o = k * WIDTH
        for j in range(WIDTH):
            b0, b1, b2, b3 = panel[o + j], panel[o + WIDTH + j], panel[o + 2 * WIDTH + j], panel[o + 3 * WIDTH + j]
            acc[j] = acc[j] + a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
            acc[WIDTH + j] = acc[WIDTH + j] + a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
            acc[2 * WIDTH + j] = acc[2 * WIDTH + j] + a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
            acc[3 * WIDTH + j] = acc[3 * WIDTH + j] + a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
    for k in range(K // 4 * 4, K):
        a00, a10, a20, a30 = a[i, k], a[i1, k], a[i2, k], a[i3, k]
        o = k * WIDTH
        for j in range(WIDTH):
            acc[j] = acc[j] + a00 * panel[o + j]
            acc[WIDTH + j] = acc[WIDTH + j] + a10 * panel[o + j]
            acc[2 * WIDTH + j] = acc[2 * WIDTH + j] + a20 * panel[o + j]
            acc[3 * WIDTH + j] = acc[3 * WIDTH + j] + a30 * panel[o + j]


@helper
def rows(a, begin, end, panel, first, bias, relu, acc, y):
    """y[i, first + j] for the rows begin <= i < end and the columns of one panel, tile by tile."""
    begin, first = max(begin, 0), max(first, 0)  # as in pack
    zero = y.dtype.type(0)
    width = min(WIDTH, y.shape[1] - first)
    for i in range(begin, end, ROWS):
        for j in range(ROWS * WIDTH):
            acc[j] = zero
        tile(a, i, panel, acc)
        for r in range(min(ROWS, end - i)):
            if bias.size > 0:
                for j in range(width):
                    acc[r * WIDTH + j] += bias[first + j]
            if relu:
                for j in range(width):
                    t = acc[r * WIDTH + j]
                    negative = t <= zero  # False for NaN, which stays
                    y[i + r, first + j] = zero if negative else t
            else:
                for j in range(width):
                    y[i + r, first + j] = acc[r * WIDTH + j]


@helper
def tiles_of(t, tasks, a, bias, relu, y, scratch):
    """The t-th of `tasks` equal shares of all tiles, in the order batch, panel, rows."""
    n, M, K = a.shape
    panels, blocks = (y.shape[2] + WIDTH - 1) // WIDTH, (M + ROWS - 1) // ROWS
    size, tiles = K * WIDTH, n * panels * blocks
    tile_at = n * panels * size + t * ROWS * WIDTH
    acc = scratch[tile_at : tile_at + ROWS * WIDTH]
    begin, end = t * tiles // tasks, (t + 1) * tiles // tasks
    while begin < end:
        p, block = begin // blocks, begin % blocks
        count = min(blocks - block, end - begin)  # of the tiles in this panel
        b, i = p // panels, block * ROWS
        panel = scratch[p * size : (p + 1) * size]
        rows(a[b], i, min(i + count * ROWS, M), panel, p % panels * WIDTH, bias, relu, acc, y[b])
        begin += count


@kernel(fastmath=EXACT_ORDER, strided=("a", "b"))
def matmul(a, b, y, scratch, task, tasks):
    """y_nij = sum_k a_nik b_nkj; a (n, M, K) and b (n, K, N) with any strides, y (n, M, N); K = 0 gives zeros."""
    n, M, N = y.shape
    K = a.shape[2]
    panels = (N + WIDTH - 1) // WIDTH
    parts = min(TASKS, n * panels * ((M + ROWS - 1) // ROWS))
    size = K * WIDTH
    if n * M * N * K < SMALL:
        for p in range(n * panels):
            pack(b[p // panels], p % panels * WIDTH, scratch[p * size : (p + 1) * size])
        for t in range(parts):
            tiles_of(t, parts, a, scratch[:0], 0, y, scratch)
    else:
        for p in range(n * panels):
            pack(b[p // panels], p % panels * WIDTH, scratch[p * size : (p + 1) * size])
        for t in range(parts):
            tiles_of(t, parts, a, scratch[:0], 0, y, scratch)


@kernel(fastmath=EXACT_ORDER, strided=("x", "weight"))
def linear(x, weight, bias, relu, y, scratch, task, tasks):
    """y_ij = sum_k x_ik weight_jk + bias_j, then max(0, y_ij) if relu (NaN stays NaN); bias of size 0: none.

    x (M, K) and weight (N, K) with any strides, bias (N) or (0), y (M, N). The bias is added last.
    """
    M, N = y.shape
    K = x.shape[1]
    panels = (N + WIDTH - 1) // WIDTH
    parts = min(TASKS, panels * ((M + ROWS - 1) // ROWS))
    size = K * WIDTH
    if M * N * K < SMALL:
        for p in range(panels):
            pack(weight.T, p * WIDTH, scratch[p * size : (p + 1) * size])
        for t in range(parts):
            tiles_of(t, parts, x[None], bias, relu, y[None], scratch)
    else:
        for p in range(panels):
            pack(weight.T, p * WIDTH, scratch[p * size : (p + 1) * size])
        for t in range(parts):
            tiles_of(t, parts, x[None], bias, relu, y[None], scratch)

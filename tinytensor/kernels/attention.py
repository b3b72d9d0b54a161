r"""Scaled dot-product attention, y_i = sum_m softmax_m(scale q_i . k_m) v_m, and its gradients.

No C x M array is made. One iteration takes one head; it copies the head's keys and values into
panels of WIDTH columns and then takes ROWS queries at a time: scores, probabilities, weighted sum.
All of that lives in one flat scratch array per iteration, addressed by offsets. A tile is ROWS x WIDTH
numbers, row after row; the scores of ROWS queries are one tile per panel of keys.

Sums run in the order of k and of m, one fused multiply-add after the other, and where a sum has WIDTH
lanes, key m always falls in lane m % WIDTH. So a row of y has the same bits alone, with only the keys it
sees, as in a causal pass over all rows: a key/value cache changes nothing.
"""

import numpy as np

from tinytensor.kernels.fastmath import exp
from tinytensor.kernels.kernel import EXACT_ORDER, helper, kernel, share

WIDTH = 16  # columns of a panel: one AVX-512 or two AVX2 vectors of float32
ROWS = 4  # queries taken together: each key and value, once loaded, is used four times
TILE = ROWS * WIDTH
TASKS = 16  # the heads are dealt to at most so many iterations, however many threads there are


def attention_scratch(B: int, H: int, C: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention`: a flat buffer for each iteration.

    It is fastest where it begins at a multiple of 64 bytes: then no vector straddles two cache lines.
    """
    each = round_up(K) * WIDTH + panels_of(Kv) * WIDTH * WIDTH + TILE
    size = panels_of(M) * each + 2 * TILE + WIDTH + round_up(C) * round_up(K)
    return max(1, min(TASKS, B * H)), panels_of(size) * WIDTH


def attention_backward_scratch(B: int, H: int, C: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention_backward`: a flat buffer for each iteration."""
    k, kv = round_up(K), round_up(Kv)
    size = panels_of(M) * (2 * (k + kv) * WIDTH + panels_of(K) * WIDTH * WIDTH + 2 * TILE) + TILE
    size += round_up(C) * (k + kv)
    return max(1, min(TASKS, B * H)), panels_of(size) * WIDTH


@helper
def panels_of(size):
    """How many panels of WIDTH columns hold `size` columns."""
    return (size + WIDTH - 1) // WIDTH


@helper
def round_up(size):
    """The next multiple of ROWS."""
    return (size + ROWS - 1) // ROWS * ROWS


@helper
def fill(x, value):
    """x[...] = value."""
    for i in range(x.size):
        x[i] = value


@helper
def copy_rows(x, scale, y):
    """y[i, j] = scale x[i, j], and 0 where y is larger than x."""
    fill(y.reshape(y.size), y.dtype.type(0))
    for i in range(min(x.shape[0], y.shape[0])):
        for j in range(min(x.shape[1], y.shape[1])):
            y[i, j] = scale * x[i, j]


@helper
def pack(x, y):
    """y[p, k, j] = x[p WIDTH + j, k], the panels of x^T, and 0 where they are larger than x^T."""
    fill(y.reshape(y.size), y.dtype.type(0))
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            y[i // WIDTH, k, i % WIDTH] = x[i, k]


@helper
def unpack(y, x):
    """The inverse of pack."""
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            x[i, k] = y[i // WIDTH, k, i % WIDTH]


@helper
def multiply(a, at, row, step, K, b, b_step, y, first, y_step, panels):
    """y[p, r, j] += sum_k a[r, k] b[p, k, j]: a tile of y for each panel of b; K is a multiple of 4.

    a begins at `at` and has the strides (row, step), y at `first`; b_step and y_step are those of p.
    """
    at, row, step = max(at, 0), max(row, 0), max(step, 0)
    for k in range(0, K, 4):
        i0 = at + k * step
        i1, i2, i3 = i0 + row, i0 + 2 * row, i0 + 3 * row
        a00, a01, a02, a03 = a[i0], a[i0 + step], a[i0 + 2 * step], a[i0 + 3 * step]
        a10, a11, a12, a13 = a[i1], a[i1 + step], a[i1 + 2 * step], a[i1 + 3 * step]
        a20, a21, a22, a23 = a[i2], a[i2 + step], a[i2 + 2 * step], a[i2 + 3 * step]
        a30, a31, a32, a33 = a[i3], a[i3 + step], a[i3 + 2 * step], a[i3 + 3 * step]
        for p in range(panels):
            m, n = max(p * b_step + k * WIDTH, 0), max(first + p * y_step, 0)
            for j in range(WIDTH):
                b0, b1, b2, b3 = b[m + j], b[m + WIDTH + j], b[m + 2 * WIDTH + j], b[m + 3 * WIDTH + j]
                t0, t1, t2, t3 = y[n + j], y[n + WIDTH + j], y[n + 2 * WIDTH + j], y[n + 3 * WIDTH + j]
                y[n + j] = t0 + a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                y[n + WIDTH + j] = t1 + a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                y[n + 2 * WIDTH + j] = t2 + a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
                y[n + 3 * WIDTH + j] = t3 + a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3


@helper
def weigh(tiles, panels, rows, first, y):
    """y[r, j] += sum_pm tiles[p, r, m] rows[p, m, j], a tile, over all of `panels` tiles; rows begin at `first`."""
    for p in range(panels):
        a, b = max(p * TILE, 0), max(first + p * WIDTH * WIDTH, 0)
        for j in range(WIDTH):
            o = b + j
            t0, t1, t2, t3 = y[j], y[WIDTH + j], y[2 * WIDTH + j], y[3 * WIDTH + j]
            for m in range(WIDTH):  # sixteen turns: unrolled, so that the loop over j becomes vectors
                value = rows[o + m * WIDTH]
                t0 = t0 + tiles[a + m] * value
                t1 = t1 + tiles[a + WIDTH + m] * value
                t2 = t2 + tiles[a + 2 * WIDTH + m] * value
                t3 = t3 + tiles[a + 3 * WIDTH + m] * value
            y[j], y[WIDTH + j], y[2 * WIDTH + j], y[3 * WIDTH + j] = t0, t1, t2, t3


@helper
def weigh_some(tiles, tile, count, rows, first, y):
    """The same for the first `count` columns of one tile, which begins at `tile`."""
    tile, first = max(tile, 0), max(first, 0)
    for m in range(count):
        a0, a1 = tiles[tile + m], tiles[tile + WIDTH + m]
        a2, a3 = tiles[tile + 2 * WIDTH + m], tiles[tile + 3 * WIDTH + m]
        b = first + m * WIDTH
        for j in range(WIDTH):
            value = rows[b + j]
            y[j] = y[j] + a0 * value
            y[WIDTH + j] = y[WIDTH + j] + a1 * value
            y[2 * WIDTH + j] = y[2 * WIDTH + j] + a2 * value
            y[3 * WIDTH + j] = y[3 * WIDTH + j] + a3 * value


@helper
def weigh_row(weight, rows, row, y, at):
    """The same for one number of a tile: y[at + j] += weight rows[row + j]."""
    row, at = max(row, 0), max(at, 0)
    for j in range(WIDTH):
        y[at + j] = y[at + j] + weight * rows[row + j]


@helper
def seen(i, r, C, M, is_causal):
    """How many keys query i + r may see, masks apart."""
    if i + r >= C:
        return 0
    return min(i + r + 1, M) if is_causal else M


@helper
def hide(mask, count, value, x, at):
    """Set the masked ones of the first `count` numbers of a row of tiles to `value`; the row begins at `at`."""
    at = max(at, 0)
    for m in range(count):
        if not mask[m]:
            x[at + m // WIDTH * TILE + m % WIDTH] = value


@helper
def first_seen(mask, count, x, at):
    """The first number of a row of tiles that is not masked, 0 if all are."""
    at = max(at, 0)
    for m in range(count):
        if mask[m]:
            return x[at + m // WIDTH * TILE + m % WIDTH]
    return x.dtype.type(0)


@helper
def largest(tiles, count, y):
    """y[r] = the largest of the first `count` > 0 numbers of each row of the tiles, the four rows side by side."""
    t0, t1, t2, t3 = tiles[0], tiles[WIDTH], tiles[2 * WIDTH], tiles[3 * WIDTH]
    for p in range(panels_of(count)):
        o = max(p * TILE, 0)
        for j in range(min(WIDTH, count - p * WIDTH)):
            t0, t1 = max(t0, tiles[o + j]), max(t1, tiles[o + WIDTH + j])
            t2, t3 = max(t2, tiles[o + 2 * WIDTH + j]), max(t3, tiles[o + 3 * WIDTH + j])
    y[0], y[1], y[2], y[3] = t0, t1, t2, t3


@helper
def totals(tiles, panels, lanes, y):
    """y[r] = sum_pj tiles[p, r, j]: WIDTH lanes, then the lanes in order, the four rows side by side."""
    fill(lanes, lanes.dtype.type(0))
    for p in range(panels):
        o = max(p * TILE, 0)
        for j in range(TILE):
            lanes[j] += tiles[o + j]
    t0, t1, t2, t3 = lanes[0], lanes[WIDTH], lanes[2 * WIDTH], lanes[3 * WIDTH]
    for j in range(1, WIDTH):
        t0, t1 = t0 + lanes[j], t1 + lanes[WIDTH + j]
        t2, t3 = t2 + lanes[2 * WIDTH + j], t3 + lanes[3 * WIDTH + j]
    y[0], y[1], y[2], y[3] = t0, t1, t2, t3


@helper
def exponentials(x, at, count, panels, shift):
    """x = exp(x - shift) for the first `count` numbers of a row of tiles, 0 for the others."""
    zero = x.dtype.type(0)
    for p in range(panels):
        o = max(at + p * TILE, 0)
        for j in range(WIDTH):
            x[o + j] = exp(x[o + j] - shift) if j < count - p * WIDTH else zero


@helper
def exponentials_backward(ps, ds, at, count, panels, shift, delta):
    """p = exp(s - shift) in place of s, and dS = p (dP - delta) in place of dP; both 0 beyond the first `count`."""
    zero = ps.dtype.type(0)
    for n in range(panels):
        o = max(at + n * TILE, 0)
        for j in range(WIDTH):
            s, d = ps[o + j] - shift, ds[o + j] - delta
            p = exp(s) if j < count - n * WIDTH else zero
            ps[o + j] = p
            ds[o + j] = p * d if j < count - n * WIDTH else zero


@helper
def head(q, k, v, mask, b, h, scale, is_causal, y, lse, scratch):
    """One head of attention: q (C, K), k (M, K), v (M, Kv), mask[b, h] (C, M), y (C, Kv), lse (C)."""
    C, K = q.shape
    M, Kv = v.shape
    keys, columns, K4 = panels_of(M), panels_of(Kv), round_up(K)
    zero, one = y.dtype.type(0), y.dtype.type(1)
    n = keys * K4 * WIDTH
    kt, scratch = scratch[:n], scratch[n:]  # keys, transposed
    n = columns * keys * WIDTH * WIDTH
    vs, scratch = scratch[:n], scratch[n:]  # values
    n = keys * TILE
    ps, scratch = scratch[:n], scratch[n:]  # scores of ROWS queries, then probabilities
    acc, lanes, scratch = scratch[:TILE], scratch[TILE : 2 * TILE], scratch[2 * TILE :]
    top, inverse, scratch = scratch[:ROWS], scratch[ROWS : 2 * ROWS], scratch[WIDTH:]
    qs = scratch[: round_up(C) * K4]  # queries, scaled
    pack(k, kt.reshape((keys, K4, WIDTH)))
    copy_rows(q, scale, qs.reshape((round_up(C), K4)))
    n = keys * WIDTH
    for c in range(columns):
        copy_rows(v[:, c * WIDTH :], one, vs[c * n * WIDTH : (c + 1) * n * WIDTH].reshape((n, WIDTH)))
    for i in range(0, C, ROWS):
        rows = min(ROWS, C - i)
        together = seen(i, 0, C, M, is_causal)  # keys that all rows see
        whole, panels = together // WIDTH, panels_of(seen(i, rows - 1, C, M, is_causal))
        fill(ps[: panels * TILE], zero)
        multiply(qs, i * K4, K4, 1, K4, kt, K4 * WIDTH, ps, 0, TILE, panels)
        if mask.size > 0:  # a masked score becomes one that is not: the maximum and exp see nothing of it
            for r in range(rows):
                row, count = mask[b, h, i + r], seen(i, r, C, M, is_causal)
                hide(row, count, first_seen(row, count, ps, r * WIDTH), ps, r * WIDTH)
        fill(top, zero)
        if panels > 0:
            largest(ps, together, top)
        for r in range(ROWS):
            count = seen(i, r, C, M, is_causal)
            for m in range(together, count):
                top[r] = max(top[r], ps[m // WIDTH * TILE + r * WIDTH + m % WIDTH])
            exponentials(ps, r * WIDTH, count, panels, top[r])
            if mask.size > 0 and r < rows:
                hide(mask[b, h, i + r], count, zero, ps, r * WIDTH)
        totals(ps, panels, lanes, inverse)
        for r in range(rows):
            lse[i + r] = top[r] + np.log(inverse[r])
            inverse[r] = zero if inverse[r] == zero else one / inverse[r]  # 0 where all is masked
        for c in range(columns):
            first = c * keys * WIDTH * WIDTH
            fill(acc, zero)
            weigh(ps, whole, vs, first, acc)
            weigh_some(ps, whole * TILE, together % WIDTH, vs, first + whole * WIDTH * WIDTH, acc)
            for r in range(1, rows):  # keys that only some rows see, each by itself: 0 times inf would be NaN
                for m in range(together, seen(i, r, C, M, is_causal)):
                    p = ps[m // WIDTH * TILE + r * WIDTH + m % WIDTH]
                    weigh_row(p, vs, first + m * WIDTH, acc, r * WIDTH)
            for r in range(rows):
                for j in range(min(WIDTH, Kv - c * WIDTH)):
                    y[i + r, c * WIDTH + j] = acc[r * WIDTH + j] * inverse[r]


@kernel(tasks=lambda *args: args[-1].shape[0], fastmath=EXACT_ORDER, strided=("q", "k", "v", "mask", "y"))
def attention(q, k, v, mask, scale, is_causal, y, lse, scratch, task, tasks):
    r"""y_i = sum_m p_im v_m with p_im = softmax_m(scale q_i . k_m) and lse_i = log sum_m exp(scale q_i . k_m).

    q (B, H, C, K), k (B, H, M, K), v (B, H, M, Kv), y (B, H, C, Kv) with any strides, lse (B, H, C).
    mask: bool (B, H, C, M), True where i may attend to m, or (0, 0, 0, 0); is_causal: m <= i only.
    A row that may attend to nothing has y = 0 and lse = -inf.
    """
    B, H = q.shape[:2]
    first, last = share(B * H, task, tasks)
    for bh in range(first, last):
        b, h = bh // H, bh % H
        head(q[b, h], k[b, h], v[b, h], mask, b, h, scale, is_causal, y[b, h], lse[b, h], scratch[task])


@helper
def head_backward(g, q, k, v, mask, b, h, y, lse, scale, is_causal, dq, dk, dv, scratch):
    """One head of attention_backward; shapes as in `head`."""
    C, K = q.shape
    M, Kv = v.shape
    keys, columns = panels_of(M), panels_of(K)
    K4, Kv4 = round_up(K), round_up(Kv)
    zero, one = y.dtype.type(0), y.dtype.type(1)
    n = keys * K4 * WIDTH
    kt, dkt, scratch = scratch[:n], scratch[n : 2 * n], scratch[2 * n :]  # keys, transposed, and their gradient
    n = keys * Kv4 * WIDTH
    vt, dvt, scratch = scratch[:n], scratch[n : 2 * n], scratch[2 * n :]  # values, likewise
    n = columns * keys * WIDTH * WIDTH
    ks, scratch = scratch[:n], scratch[n:]  # keys
    n = keys * TILE
    ps, ds, scratch = scratch[:n], scratch[n : 2 * n], scratch[2 * n :]  # s, then p; dP, then dS, of ROWS queries
    acc, scratch = scratch[:TILE], scratch[TILE:]
    n = round_up(C)
    qs, gs = scratch[: n * K4], scratch[n * K4 : n * (K4 + Kv4)]  # queries, scaled, and the gradient of y
    copy_rows(q, scale, qs.reshape((n, K4)))
    copy_rows(g, one, gs.reshape((n, Kv4)))
    pack(k, kt.reshape((keys, K4, WIDTH)))
    pack(v, vt.reshape((keys, Kv4, WIDTH)))
    n = keys * WIDTH
    for c in range(columns):
        copy_rows(k[:, c * WIDTH :], one, ks[c * n * WIDTH : (c + 1) * n * WIDTH].reshape((n, WIDTH)))
    fill(dkt, zero)
    fill(dvt, zero)
    for i in range(0, C, ROWS):
        rows = min(ROWS, C - i)
        panels = panels_of(seen(i, rows - 1, C, M, is_causal))
        fill(ps[: panels * TILE], zero)
        fill(ds[: panels * TILE], zero)
        multiply(qs, i * K4, K4, 1, K4, kt, K4 * WIDTH, ps, 0, TILE, panels)
        multiply(gs, i * Kv4, Kv4, 1, Kv4, vt, Kv4 * WIDTH, ds, 0, TILE, panels)
        for r in range(ROWS):  # a row beyond C sees nothing: its p and dS are 0
            count = seen(i, r, C, M, is_causal)
            shift, delta = zero, zero  # delta = g_i . y_i = sum_m p_im dP_im
            if r < rows:
                shift = lse[i + r]
                for j in range(Kv):
                    delta += g[i + r, j] * y[i + r, j]
                if mask.size > 0:  # exp sees nothing of what is masked
                    hide(mask[b, h, i + r], count, shift, ps, r * WIDTH)
            exponentials_backward(ps, ds, r * WIDTH, count, panels, shift, delta)
            if mask.size > 0 and r < rows:
                hide(mask[b, h, i + r], count, zero, ps, r * WIDTH)
                hide(mask[b, h, i + r], count, zero, ds, r * WIDTH)
        for c in range(columns):
            fill(acc, zero)
            weigh(ds, panels, ks, c * keys * WIDTH * WIDTH, acc)
            for r in range(rows):
                for j in range(min(WIDTH, K - c * WIDTH)):
                    dq[i + r, c * WIDTH + j] = scale * acc[r * WIDTH + j]
        for j in range(0, Kv4, ROWS):  # dV^T += g^T P and dK^T += (scale q)^T dS, four of their rows at a time
            multiply(gs, i * Kv4 + j, 1, Kv4, ROWS, ps, TILE, dvt, j * WIDTH, Kv4 * WIDTH, panels)
        for j in range(0, K4, ROWS):
            multiply(qs, i * K4 + j, 1, K4, ROWS, ds, TILE, dkt, j * WIDTH, K4 * WIDTH, panels)
    unpack(dkt.reshape((keys, K4, WIDTH)), dk)
    unpack(dvt.reshape((keys, Kv4, WIDTH)), dv)


@kernel(
    tasks=lambda *args: args[-1].shape[0],
    fastmath=EXACT_ORDER,
    strided=("g", "q", "k", "v", "mask", "y", "dq", "dk", "dv"),
)
def attention_backward(g, q, k, v, mask, y, lse, scale, is_causal, dq, dk, dv, scratch, task, tasks):
    r"""The gradients of attention; p is computed again, from lse.

    dv_m = sum_i p_im g_i, dS_im = p_im (g_i . v_m - g_i . y_i), dq_i = scale sum_m dS_im k_m,
    dk_m = scale sum_i dS_im q_i. Shapes as in `attention`; g, dq, dk and dv may have any strides.
    """
    B, H = q.shape[:2]
    first, last = share(B * H, task, tasks)
    for bh in range(first, last):
        b, h = bh // H, bh % H
        head_backward(
            g[b, h],
            q[b, h],
            k[b, h],
            v[b, h],
            mask,
            b,
            h,
            y[b, h],
            lse[b, h],
            scale,
            is_causal,
            dq[b, h],
            dk[b, h],
            dv[b, h],
            scratch[task],
        )

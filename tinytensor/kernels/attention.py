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
from numba import prange

from tinytensor.kernels.fastmath import exp
from tinytensor.kernels.kernel import EXACT_ORDER, helper, kernel

WIDTH = 16  # columns of a panel: one AVX-512 or two AVX2 vectors of float32
ROWS = 4  # queries taken together: each key and value, once loaded, is used four times
TILE = ROWS * WIDTH
TASKS = 64  # the heads are dealt to at most so many iterations, however many threads there are


def attention_scratch(B: int, H: int, C: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention`: per iteration one flat buffer."""
    keys, k, columns = -(-M // WIDTH), K, -(-Kv // WIDTH)
    panels = keys * k * WIDTH + columns * keys * WIDTH * WIDTH
    return max(1, min(TASKS, B * H)), panels + (keys + 1) * TILE + 2 * WIDTH + ROWS * k


def attention_backward_scratch(B: int, H: int, C: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention_backward`: per iteration one flat buffer."""
    keys, k, kv, columns = -(-M // WIDTH), -(-K // ROWS) * ROWS, -(-Kv // ROWS) * ROWS, -(-K // WIDTH)
    panels = 2 * keys * (k + kv) * WIDTH + columns * keys * WIDTH * WIDTH
    return max(1, min(TASKS, B * H)), panels + (2 * keys + 1) * TILE + ROWS * (k + kv)


@helper
def fill(x, at, size, value):
    """x[at : at + size] = value."""
    at = max(at, 0)  # never negative: said here so that the compiler drops Numba's wrap-around test
    for i in range(size):
        x[at + i] = value


@helper
def pack(x, rows, buffer, at):
    """Panels of x^T for x (M, K): buffer[p, k, j] = x[p WIDTH + j, k], each panel of `rows` >= K rows; else 0."""
    at = max(at, 0)
    M, K = x.shape
    panels = (M + WIDTH - 1) // WIDTH
    fill(buffer, at, panels * rows * WIDTH, buffer.dtype.type(0))
    for p in range(panels):
        for j in range(min(WIDTH, M - p * WIDTH)):
            for k in range(K):
                buffer[at + (p * rows + k) * WIDTH + j] = x[p * WIDTH + j, k]


@helper
def pack_columns(x, rows, buffer, at):
    """Panels of x (M, K): buffer[c, m, j] = x[m, c WIDTH + j], each panel of `rows` >= M rows; else 0."""
    at = max(at, 0)
    M, K = x.shape
    panels = (K + WIDTH - 1) // WIDTH
    fill(buffer, at, panels * rows * WIDTH, buffer.dtype.type(0))
    for c in range(panels):
        for m in range(M):
            for j in range(min(WIDTH, K - c * WIDTH)):
                buffer[at + (c * rows + m) * WIDTH + j] = x[m, c * WIDTH + j]


@helper
def unpack(buffer, at, rows, x):
    """The inverse of pack: x[p WIDTH + j, k] = buffer[p, k, j]."""
    at = max(at, 0)
    M, K = x.shape
    for p in range((M + WIDTH - 1) // WIDTH):
        for j in range(min(WIDTH, M - p * WIDTH)):
            for k in range(K):
                x[p * WIDTH + j, k] = buffer[at + (p * rows + k) * WIDTH + j]


@helper
def take_rows(x, first, scale, buffer, at, row):
    """buffer[r, k] = scale x[first + r, k] for ROWS rows of length `row` >= K; 0 beyond the last row or column."""
    at = max(at, 0)
    fill(buffer, at, ROWS * row, buffer.dtype.type(0))
    for r in range(min(ROWS, x.shape[0] - first)):
        for k in range(x.shape[1]):
            buffer[at + r * row + k] = scale * x[first + r, k]


@helper
def multiply(buffer, a, row, step, K, panel, acc):
    """acc[r, j] += sum_k a[r, k] panel[k, j]: a tile; a, panel and acc are offsets, a has strides (row, step)."""
    a, panel, acc = max(a, 0), max(panel, 0), max(acc, 0)
    a1, a2, a3 = a + max(row, 0), a + max(2 * row, 0), a + max(3 * row, 0)
    for k4 in range(K // 4):
        k, s = 4 * k4 * step, step
        a00, a01, a02, a03 = buffer[a + k], buffer[a + k + s], buffer[a + k + 2 * s], buffer[a + k + 3 * s]
        a10, a11, a12, a13 = buffer[a1 + k], buffer[a1 + k + s], buffer[a1 + k + 2 * s], buffer[a1 + k + 3 * s]
        a20, a21, a22, a23 = buffer[a2 + k], buffer[a2 + k + s], buffer[a2 + k + 2 * s], buffer[a2 + k + 3 * s]
        a30, a31, a32, a33 = buffer[a3 + k], buffer[a3 + k + s], buffer[a3 + k + 2 * s], buffer[a3 + k + 3 * s]
        o = panel + 4 * k4 * WIDTH
        for j in range(WIDTH):
            b0, b1 = buffer[o + j], buffer[o + WIDTH + j]
            b2, b3 = buffer[o + 2 * WIDTH + j], buffer[o + 3 * WIDTH + j]
            t0, t1, t2, t3 = (
                buffer[acc + j],
                buffer[acc + WIDTH + j],
                buffer[acc + 2 * WIDTH + j],
                buffer[acc + 3 * WIDTH + j],
            )
            buffer[acc + j] = t0 + a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
            buffer[acc + WIDTH + j] = t1 + a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
            buffer[acc + 2 * WIDTH + j] = t2 + a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
            buffer[acc + 3 * WIDTH + j] = t3 + a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
    for k in range(K // 4 * 4, K):
        for r in range(ROWS):
            add_row(buffer, buffer[a + r * row + k * step], panel + k * WIDTH, acc + r * WIDTH)


@helper
def add_row(buffer, factor, row, acc):
    """acc[j] += factor row[j]: a row of a tile; row and acc are offsets."""
    row, acc = max(row, 0), max(acc, 0)
    for j in range(WIDTH):
        buffer[acc + j] = buffer[acc + j] + factor * buffer[row + j]


@helper
def seen(i, r, C, M, is_causal):
    """How many keys query i + r may see."""
    if i + r >= C:
        return 0
    return min(i + r + 1, M) if is_causal else M


@helper
def hide(mask, count, value, buffer, at):
    """Set the masked ones of the first `count` scores (or probabilities) of a row to `value`."""
    at = max(at, 0)
    for m in range(count):
        if not mask[m]:
            buffer[at + m // WIDTH * TILE + m % WIDTH] = value


@helper
def first_seen(mask, count, buffer, at):
    """The first score of a row that is not masked, 0 if all are."""
    for m in range(count):
        if mask[m]:
            return buffer[at + m // WIDTH * TILE + m % WIDTH]
    return buffer.dtype.type(0)


@helper
def largest(buffer, at, count, lanes):
    """The largest of the first `count` > 0 scores of a row; `lanes` is the offset of WIDTH numbers of scratch."""
    at, lanes = max(at, 0), max(lanes, 0)
    fill(buffer, lanes, WIDTH, buffer[at])
    for p in range((count + WIDTH - 1) // WIDTH):
        for j in range(WIDTH):
            t = buffer[lanes + j]
            buffer[lanes + j] = max(t, buffer[at + p * TILE + j] if j < count - p * WIDTH else t)
    top = buffer[lanes]
    for j in range(1, WIDTH):
        top = max(top, buffer[lanes + j])
    return top


@helper
def exponentials(buffer, at, count, panels, shift):
    """Replace the first `count` scores s of a row by exp(s - shift), the others of its `panels` panels by 0."""
    at = max(at, 0)
    zero = buffer.dtype.type(0)
    for p in range(panels):
        for j in range(WIDTH):
            o = at + p * TILE + j
            buffer[o] = exp(buffer[o] - shift) if j < count - p * WIDTH else zero


@helper
def total(buffer, at, panels, lanes):
    """The sum of a row; `lanes` is the offset of WIDTH numbers of scratch."""
    at, lanes = max(at, 0), max(lanes, 0)
    fill(buffer, lanes, WIDTH, buffer.dtype.type(0))
    for p in range(panels):
        for j in range(WIDTH):
            buffer[lanes + j] += buffer[at + p * TILE + j]
    result = buffer[lanes]
    for j in range(1, WIDTH):
        result += buffer[lanes + j]
    return result


@helper
def head(q, k, v, mask, b, h, scale, is_causal, y, lse, buffer):
    """One head of attention: q (C, K), k (M, K), v (M, Kv), mask[b, h] (C, M), y (C, Kv), lse (C)."""
    C, K = q.shape
    M, Kv = v.shape
    keys, columns = (M + WIDTH - 1) // WIDTH, (Kv + WIDTH - 1) // WIDTH
    zero, one = buffer.dtype.type(0), buffer.dtype.type(1)
    kt = 0  # offsets: keys, transposed
    vs = kt + keys * K * WIDTH  # values
    ps = vs + columns * keys * WIDTH * WIDTH  # scores, then probabilities
    acc = ps + keys * TILE
    lanes = acc + TILE
    inverse = lanes + WIDTH
    qs = inverse + WIDTH  # queries
    pack(k, K, buffer, kt)
    pack_columns(v, keys * WIDTH, buffer, vs)
    for i in range(0, C, ROWS):
        rows = min(ROWS, C - i)
        together = seen(i, 0, C, M, is_causal)  # keys that all rows see
        panels = (seen(i, rows - 1, C, M, is_causal) + WIDTH - 1) // WIDTH
        take_rows(q, i, scale, buffer, qs, K)
        fill(buffer, ps, panels * TILE, zero)
        for p in range(panels):
            multiply(buffer, qs, K, 1, K, kt + p * K * WIDTH, ps + p * TILE)
        for r in range(rows):
            row, count = ps + r * WIDTH, seen(i, r, C, M, is_causal)
            if mask.size > 0:  # a masked score becomes one that is not: the maximum and exp see nothing of it
                hide(mask[b, h, i + r], count, first_seen(mask[b, h, i + r], count, buffer, row), buffer, row)
            top = largest(buffer, row, count, lanes) if count > 0 else zero
            exponentials(buffer, row, count, panels, top)
            if mask.size > 0:
                hide(mask[b, h, i + r], count, zero, buffer, row)
            t = total(buffer, row, panels, lanes)
            lse[i + r] = top + np.log(t)
            buffer[inverse + r] = t if t == zero else one / t  # 0 where all is masked
        for c in range(columns):
            values = vs + c * keys * WIDTH * WIDTH
            fill(buffer, acc, TILE, zero)
            for p in range((together + WIDTH - 1) // WIDTH):
                count = min(WIDTH, together - p * WIDTH)
                multiply(buffer, ps + p * TILE, WIDTH, 1, count, values + p * WIDTH * WIDTH, acc)
            for r in range(1, rows):  # keys that only some rows see, in a loop of their own: 0 times inf is NaN
                for m in range(together, seen(i, r, C, M, is_causal)):
                    weight = buffer[ps + m // WIDTH * TILE + r * WIDTH + m % WIDTH]
                    add_row(buffer, weight, values + m * WIDTH, acc + r * WIDTH)
            for r in range(rows):
                for j in range(min(WIDTH, Kv - c * WIDTH)):
                    y[i + r, c * WIDTH + j] = buffer[acc + r * WIDTH + j] * buffer[inverse + r]


@kernel(parallel=True, fastmath=EXACT_ORDER, strided=("q", "k", "v", "mask", "y"))
def attention(q, k, v, mask, scale, is_causal, y, lse, scratch):
    r"""y_i = sum_m p_im v_m with p_im = softmax_m(scale q_i . k_m) and lse_i = log sum_m exp(scale q_i . k_m).

    q (B, H, C, K), k (B, H, M, K), v (B, H, M, Kv), y (B, H, C, Kv) with any strides, lse (B, H, C).
    mask: bool (B, H, C, M), True where i may attend to m, or (0, 0, 0, 0); is_causal: m <= i only.
    A row that may attend to nothing has y = 0 and lse = -inf.
    """
    B, H = q.shape[:2]
    tasks = scratch.shape[0]
    for task in prange(tasks):
        for bh in range(task * B * H // tasks, (task + 1) * B * H // tasks):
            b, h = bh // H, bh % H
            head(q[b, h], k[b, h], v[b, h], mask, b, h, scale, is_causal, y[b, h], lse[b, h], scratch[task])


@helper
def score_gradients(buffer, p_row, row, panels, delta):
    """dS = p (dP - delta) in place of dP, for one row."""
    p_row, row = max(p_row, 0), max(row, 0)
    for p in range(panels):
        for j in range(WIDTH):
            o = row + p * TILE + j
            buffer[o] = buffer[p_row + p * TILE + j] * (buffer[o] - delta)


@helper
def head_backward(g, q, k, v, mask, b, h, y, lse, scale, is_causal, dq, dk, dv, buffer):
    """One head of attention_backward; shapes as in `head`."""
    C, K = q.shape
    M, Kv = v.shape
    keys, columns = (M + WIDTH - 1) // WIDTH, (K + WIDTH - 1) // WIDTH
    K4, Kv4 = (K + ROWS - 1) // ROWS * ROWS, (Kv + ROWS - 1) // ROWS * ROWS
    zero, one = buffer.dtype.type(0), buffer.dtype.type(1)
    kt = 0  # offsets: keys, transposed
    vt = kt + keys * K4 * WIDTH  # values, transposed
    dkt = vt + keys * Kv4 * WIDTH  # their gradients
    dvt = dkt + keys * K4 * WIDTH
    ks = dvt + keys * Kv4 * WIDTH  # keys
    ps = ks + columns * keys * WIDTH * WIDTH  # scores, then probabilities
    ds = ps + keys * TILE  # gradients of the probabilities, then of the scores
    acc = ds + keys * TILE
    qs = acc + TILE  # queries
    gs = qs + ROWS * K4
    pack(k, K4, buffer, kt)
    pack(v, Kv4, buffer, vt)
    pack_columns(k, keys * WIDTH, buffer, ks)
    fill(buffer, dkt, keys * (K4 + Kv4) * WIDTH, zero)
    for i in range(0, C, ROWS):
        rows = min(ROWS, C - i)
        panels = (seen(i, rows - 1, C, M, is_causal) + WIDTH - 1) // WIDTH
        take_rows(q, i, scale, buffer, qs, K4)
        take_rows(g, i, one, buffer, gs, Kv4)
        fill(buffer, ps, panels * TILE, zero)
        fill(buffer, ds, panels * TILE, zero)
        for p in range(panels):
            multiply(buffer, qs, K4, 1, K, kt + p * K4 * WIDTH, ps + p * TILE)
            multiply(buffer, gs, Kv4, 1, Kv, vt + p * Kv4 * WIDTH, ds + p * TILE)
        for r in range(ROWS):  # a row beyond C sees nothing: its p and dS are 0
            row, count = ps + r * WIDTH, seen(i, r, C, M, is_causal)
            shift, delta = zero, zero  # delta = g_i . y_i = sum_m p_im dP_im
            if r < rows:
                shift = lse[i + r]
                for j in range(Kv):
                    delta += g[i + r, j] * y[i + r, j]
                if mask.size > 0:
                    hide(mask[b, h, i + r], count, shift, buffer, row)
            exponentials(buffer, row, count, panels, shift)
            if mask.size > 0 and r < rows:
                hide(mask[b, h, i + r], count, zero, buffer, row)
            score_gradients(buffer, row, ds + r * WIDTH, panels, delta)
        for c in range(columns):
            fill(buffer, acc, TILE, zero)
            for p in range(panels):
                multiply(buffer, ds + p * TILE, WIDTH, 1, WIDTH, ks + (c * keys + p) * WIDTH * WIDTH, acc)
            for r in range(rows):
                for j in range(min(WIDTH, K - c * WIDTH)):
                    dq[i + r, c * WIDTH + j] = scale * buffer[acc + r * WIDTH + j]
        for p in range(panels):  # dV^T += g^T P and dK^T += (scale q)^T dS, four rows at a time
            for j in range(0, Kv4, ROWS):
                multiply(buffer, gs + j, 1, Kv4, ROWS, ps + p * TILE, dvt + (p * Kv4 + j) * WIDTH)
            for j in range(0, K4, ROWS):
                multiply(buffer, qs + j, 1, K4, ROWS, ds + p * TILE, dkt + (p * K4 + j) * WIDTH)
    unpack(buffer, dkt, K4, dk)
    unpack(buffer, dvt, Kv4, dv)


@kernel(parallel=True, fastmath=EXACT_ORDER, strided=("g", "q", "k", "v", "mask", "y", "dq", "dk", "dv"))
def attention_backward(g, q, k, v, mask, y, lse, scale, is_causal, dq, dk, dv, scratch):
    r"""The gradients of attention; p is computed again, from lse.

    dv_m = sum_i p_im g_i, dS_im = p_im (g_i . v_m - g_i . y_i), dq_i = scale sum_m dS_im k_m,
    dk_m = scale sum_i dS_im q_i. Shapes as in `attention`; g, dq, dk and dv may have any strides.
    """
    B, H = q.shape[:2]
    tasks = scratch.shape[0]
    for task in prange(tasks):
        for bh in range(task * B * H // tasks, (task + 1) * B * H // tasks):
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

r"""Scaled dot-product attention, y_i = sum_m softmax_m(scale q_i . k_m) v_m, and its gradients.

No C x M array is made. LANES queries and WIDTH keys at a time are a square of WIDTH registers (see `squares.py`).
Forward keeps the scores of LANES queries with all keys that they see, a lane for each query, and goes over them twice:
for the largest, then for probabilities and weighted sums. Backward takes LANES keys, a lane for each, and goes over the
queries, WIDTH at a time. The gradient of the queries (dq) needs a sum across the lanes: for it the numbers of a square
come one at a time, and the lanes are columns of the keys, half a register of them where a head is narrow.

A row of y depends only on the keys that it sees, to the last bit. Sums over k and m run in their order, one fused
multiply-add after the other, and the sum of probabilities adds WIDTH neighbours as a tree, in which a hidden key counts
0. So a row has the same bits alone, with only the keys that it sees, as in a causal pass over all rows or with further
keys hidden by a mask: a key/value cache does not change them.

The *reach* of a row is the number of keys up to the last one that it sees. Causality, padding and the empty part of a
cache only limit the reach. Where every row of a square reaches its last key, no key is hidden and none is tested; only
a mask with holes below the reach is read key by key. A hidden key has the probability 0, which is enough if its numbers
are finite; to test this, they are multiplied by 0. But hidden numbers may be anything, and 0 inf is NaN: then each
hidden number is left out one by one.
"""

from tinytensor.runtime.kernel import EXACT_ORDER, device_function, kernel, num_tasks, task_range
from tinytensor.simd.isa import NEAR
from tinytensor.simd.math import log
from tinytensor.simd.score_tile import (
    HALF,
    LANES,
    WIDTH,
    add_neighbours,
    add_up,
    at_most_zero,
    before,
    before_each,
    both,
    every,
    exp_each,
    expect,
    fma_each,
    full,
    half,
    inner,
    inner_rows,
    inner_rows_seen,
    inner_seen,
    largest_of,
    largest_seen,
    minus,
    minus_each,
    nothing,
    only,
    outer,
    outer_rows,
    outer_seen,
    positive,
    read_block,
    read_columns,
    read_half,
    read_square,
    register,
    scale_each,
    times,
    write_block,
    write_columns,
    write_square,
)
from tinytensor.simd.vector import add, div, split, store, store_first, total, where_less
from tinytensor.simd.vector import log as logs

COLUMNS = 4  # of a head's row, taken together: four chains of sums, and no more registers than AVX2 has
AHEAD = 4  # heads are prefetched by this many, some microseconds where they are small


def whole(size: int, unit: int) -> int:
    """The next multiple of `unit`; a plain function: a device function that Python calls is compiled at each start."""
    return (size + unit - 1) // unit * unit


up = device_function(whole)


def attention_scratch(B: int, H: int, C: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention`: a row for each task.

    Heads of 8 columns take half a nanosecond for a pair of a query and a key with eight lanes; half of that time goes
    into e^x.
    """
    tasks = num_tasks(B * H * C * M * (12 + K + Kv) // 60, B * H * whole(C, LANES) // LANES)
    return tasks, (whole(K, WIDTH) + whole(Kv, WIDTH) + 2 * whole(M, WIDTH) + 1) * LANES


def attention_backward_scratch(B: int, H: int, C: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention_backward`: a row for each task."""
    tasks = num_tasks(B * H * C * M * (12 + K + Kv) // 30, B * H)
    of_keys = 2 * whole(K, WIDTH) + 2 * whole(Kv, WIDTH) + whole(K, LANES) + 2 * WIDTH
    return tasks, of_keys * LANES + whole(C, LANES) * (whole(K, WIDTH) + whole(K, LANES) + whole(Kv, WIDTH) + 5)


def attention_of_one_scratch(B: int, H: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention_of_one`: a row for each task."""
    tasks = num_tasks(B * H * M * (12 + K + Kv) // 60, B * H)
    return tasks, whole(K, LANES) + whole(Kv, LANES) + LANES + 2 * whole(M, WIDTH * LANES)


@device_function
def reach(mask, b, h, i, M, is_causal):
    """(the reach of query i; does the mask hide keys below it?)"""
    count = min(i + 1, M) if is_causal else M
    if mask.size == 0:
        return count, False
    row, last, number = mask[b, h, i], 0, 0
    for m in range(count):
        if row[m]:
            last, number = m + 1, number + 1
    return last, number < last


@device_function
def look(mask, b, h, i, queries, m, keys, x, at, per_query, per_key):
    """x[at + t per_query + n per_key] = 1 where the mask lets query i + t see key m + n, else 0; t < queries, n < keys.

    This is a square: one of the two steps is 1 and counts lanes, the other is LANES and counts registers.
    """
    C, M = mask.shape[2:]
    for t in range(queries):
        for n in range(keys):
            seen = mask[b, h, min(i + t, C - 1), min(m + n, M - 1)]  # beyond the ends: the reach decides there
            x[at + t * per_query + n * per_key] = x.dtype.type(1) if seen else x.dtype.type(0)


@device_function
def columns_of(x, i, factor, y, at):
    """The columns of x[i : i + LANES] times `factor`, one register for each, at y[at:]; zeros where x ends before."""
    for j in range(0, x.shape[1], WIDTH):
        write_square(scale_each(read_columns(x, i, j), factor), y, at + j * LANES)


@device_function
def rows_of(y, at, factor, x, i):
    """The inverse of `columns_of`: x[i : i + LANES] from its columns, each times `factor`, as far as x goes."""
    for j in range(0, x.shape[1], WIDTH):
        write_columns(scale_each(read_square(y, at + j * LANES), factor), x, i, j)


@device_function
def clear(y):
    """y = 0."""
    for at in range(0, y.size, LANES):
        store(every(y.dtype.type(0)), y, at)


@device_function
def zeros_of(x):
    """0 times each number of x, which are whole squares, added up to one register."""
    c = full(x.dtype.type(0))
    for at in range(0, x.size, WIDTH * LANES):
        c = fma_each(read_square(x, at), full(x.dtype.type(0)), c)
    return add_up(c)


@device_function
def zeros_of_rows(x, i):
    """0 times each number of the rows x[i : i + WIDTH], added up to one register."""
    v = every(x.dtype.type(0))
    for j in range(0, x.shape[1], LANES):
        v = add(v, add_up(scale_each(read_block(x, i, j), every(x.dtype.type(0)))))
    return v


@device_function
def finite(zeros):
    """Were all the numbers finite, given the sum of their products with 0? The product of inf with 0 is NaN."""
    return total(zeros) == 0


@device_function
def add_keys(y, at, x, keys, first, columns):
    """The square at y[at:] += sum_n x[n + t LANES] keys[n] over LANES keys, whose registers stand at keys[first:].

    Half of each register is enough for few columns.
    """
    if columns <= HALF:
        c = read_half(y, at)
        for n in range(LANES):
            c = outer(c, x, n, LANES, half(keys, first + n * LANES))
        write_square(c, y, at)
    else:
        c = read_square(y, at)
        for n in range(LANES):
            c = outer(c, x, n, LANES, register(keys, first + n * LANES))
        write_square(c, y, at)


@kernel(
    "q[B, H, C, K], k[B, H, M, K], v[B, H, M, Kv], mask[B | 0, H | 0, C | 0, M | 0], y[B, H, C, Kv], lse[B, H, C],"
    "scratch[T, attention_scratch(B, H, C, M, K, Kv)[1]], T > 0, dense(q, k, v, y)",
    tasks=lambda *args: args[-1].shape[0],
    fastmath=EXACT_ORDER,
    strided=("q", "k", "v", "mask", "y"),
)
def attention(q, k, v, mask, scale, is_causal, y, lse, scratch, task, tasks):
    r"""y_i = sum_m p_im v_m with p_im = softmax_m(scale q_i . k_m) and lse_i = log sum_m exp(scale q_i . k_m).

    q (B, H, C, K), k (B, H, M, K), v (B, H, M, Kv), y (B, H, C, Kv): the elements of a row are neighbours, all else may
    have any strides; lse (B, H, C). mask: bool (B, H, C, M), True where i may attend to m, or (0, 0, 0, 0);
    is_causal: m <= i only. A row that may attend to nothing has y = 0 and lse = -inf.
    """
    B, H, C, K = q.shape
    M, Kv = v.shape[2:]
    zero, one = y.dtype.type(0), y.dtype.type(1)
    n = up(M, WIDTH) * LANES
    # Scaled queries, a lane for each, and their results, as columns; two registers for each key; each query's reach.
    qs, ys, scores, looks, ends = split(scratch[task], up(K, WIDTH) * LANES, up(Kv, WIDTH) * LANES, n, n, LANES)
    squares, least, most, holes = up(C, LANES) // LANES, 0, 0, False
    first, last = task_range(B * squares * H, task, tasks)
    for unit in range(first, last):  # heads side by side: most often one mask serves all of them
        b, h = unit // H // squares, unit % H
        i = (squares - 1 - unit // H % squares) * LANES  # the last queries first: causal ones take longest
        if unit == first or h == 0 or (mask.size > 0 and mask.strides[1] != 0):
            least, most, holes = M, 0, False
            for t in range(LANES):
                count, hole = reach(mask, b, h, min(i + t, C - 1), M, is_causal)
                ends[t] = y.dtype.type(count)
                least, most, holes = min(least, count), max(most, count), holes or hole
        keys, values, end = k[b, h], v[b, h], register(ends, 0)
        columns_of(q[b, h], i, every(scale), qs, 0)
        top = nothing(zero)
        for m in range(0, most, WIDTH):
            s = full(zero)
            for j in range(0, K - K % COLUMNS, COLUMNS):
                s = outer_rows(s, keys, m, j, qs, j * LANES, COLUMNS)
            for j in range(K - K % COLUMNS, K):
                s = outer_rows(s, keys, m, j, qs, j * LANES, 1)
            write_square(s, scores, m * LANES)
            if holes:
                look(mask, b, h, i, LANES, m, WIDTH, looks, m * LANES, 1, LANES)
                top = largest_seen(top, s, both(before(m, end), positive(read_square(looks, m * LANES))))
            elif m + WIDTH > least:
                top = largest_seen(top, s, before(m, end))
            else:
                top = largest_of(top, s)
        top = where_less(every(zero), end, top, every(zero))
        clear(ys)
        norm = every(zero)
        for m in range(0, most, WIDTH):
            p = minus(read_square(scores, m * LANES), top)
            hidden = holes or m + WIDTH > least
            if hidden:
                p = at_most_zero(p)  # before exp: seen scores are so already, hidden ones may be anything
            p = exp_each(p)
            if hidden:
                p = only(p, before(m, end))
            if holes:
                p = only(p, positive(read_square(looks, m * LANES)))
            if hidden and not finite(zeros_of_rows(values, m)):
                if not holes:
                    write_square(full(one), looks, m * LANES)
                seen = both(before(m, end), positive(read_square(looks, m * LANES)))
                for j in range(Kv):
                    inner_rows_seen(p, values, m, j, ys, j * LANES, seen)
            else:
                for j in range(0, Kv - Kv % COLUMNS, COLUMNS):
                    inner_rows(p, values, m, j, ys, j * LANES, COLUMNS)
                for j in range(Kv - Kv % COLUMNS, Kv):
                    inner_rows(p, values, m, j, ys, j * LANES, 1)
            norm = add(norm, add_up(p))
        store_first(C - i, add(top, logs(norm)), lse, b, h, i)
        rows_of(ys, 0, div(every(one), where_less(every(zero), norm, norm, every(one))), y[b, h], i)


@kernel(
    "q[B, H, 1, K], k[B, H, M, K], v[B, H, M, Kv], mask[B | 0, H | 0, 1 | 0, M | 0], y[B, H, 1, Kv], lse[B, H, 1],"
    "scratch[T, attention_of_one_scratch(B, H, M, K, Kv)[1]], T > 0, dense(q, k, v, y)",
    tasks=lambda *args: args[-1].shape[0],
    fastmath=EXACT_ORDER,
    strided=("q", "k", "v", "mask", "y"),
)
def attention_of_one(q, k, v, mask, scale, is_causal, y, lse, scratch, task, tasks):
    """`attention` for C = 1, with the same bits: there one query beside a cache of keys would fill a single lane.

    The lanes of a score are keys here, those of a result its columns.
    """
    B, H, _, K = q.shape
    M, Kv = v.shape[2:]
    zero, one = y.dtype.type(0), y.dtype.type(1)
    n = up(M, WIDTH * LANES)  # whole squares of keys
    # Of each key its score, and LANES if it is seen, else 0.
    scores, ends, qs, ys, tops = split(scratch[task], n, n, up(K, LANES), up(Kv, LANES), LANES)
    count, holes = 0, False
    first, last = task_range(B * H, task, tasks)
    for unit in range(first, last):
        b, h = unit // H, unit % H
        if unit == first or h == 0 or (mask.size > 0 and mask.strides[1] != 0):
            count, holes = reach(mask, b, h, 0, M, is_causal)
            for m in range(ends.size):
                seen = m < count and (not holes or mask[b, h, 0, min(m, M - 1)])
                ends[m] = y.dtype.type(LANES) if seen else zero
        keys, values = k[b, h], v[b, h]
        clear(qs)
        for j in range(K):
            qs[j] = scale * q[b, h, 0, j]
        for m in range(0, count, LANES):
            s = every(zero)
            for j in range(0, K, WIDTH):
                s = inner(s, read_columns(keys, m, j), qs, j)
            store(s, scores, m)
        shift = zero  # the first score that is seen, then the largest
        for m in range(count):
            if ends[count - 1 - m] > zero:
                shift = scores[count - 1 - m]
        for m in range(ends.size):
            if ends[m] <= zero:
                scores[m] = shift  # before exp: a hidden score may be anything
        top = every(shift)
        for m in range(0, count, WIDTH * LANES):
            top = largest_of(top, read_square(scores, m))
        store(top, tops, 0)
        for t in range(LANES):
            shift = max(shift, tops[t])
        for m in range(0, count, WIDTH * LANES):
            write_square(exp_each(minus(read_square(scores, m), every(shift))), scores, m)
        for m in range(ends.size):
            if ends[m] <= zero:
                scores[m] = zero
        norm = zero
        for m in range(0, count, WIDTH):
            norm += add_neighbours(scores, m)
        clear(ys)
        for m in range(0, count, WIDTH):
            for j in range(0, Kv, LANES):
                rows = read_block(values, m, j)
                if holes or m + WIDTH > count:
                    rows = only(rows, before_each(0, ends, m))
                store(inner(register(ys, j), rows, scores, m), ys, j)
        lse[b, h, 0] = shift + log(norm)
        inverse = one / norm if count > 0 else zero
        for j in range(Kv):
            y[b, h, 0, j] = ys[j] * inverse


@kernel(
    "q[B, H, C, K], k[B, H, M, K], v[B, H, M, Kv], mask[B | 0, H | 0, C | 0, M | 0], g[B, H, C, Kv], y[B, H, C, Kv],"
    "lse[B, H, C], dq[B, H, C, K], dk[B, H, M, K], dv[B, H, M, Kv],"
    "scratch[T, attention_backward_scratch(B, H, C, M, K, Kv)[1]], T > 0, dense(g, q, k, v, y, dq, dk, dv)",
    tasks=lambda *args: args[-1].shape[0],
    fastmath=EXACT_ORDER,
    strided=("g", "q", "k", "v", "mask", "y", "dq", "dk", "dv"),
)
def attention_backward(g, q, k, v, mask, y, lse, scale, is_causal, dq, dk, dv, scratch, task, tasks):
    r"""The gradients of attention; p is computed again, from lse.

    dv_m = sum_i p_im g_i, dS_im = p_im (g_i . v_m - g_i . y_i), dq_i = scale sum_m dS_im k_m,
    dk_m = scale sum_i dS_im q_i. Shapes as in `attention`; g, dq, dk and dv are strided like the others.
    """
    B, H, C, K = q.shape
    M, Kv = v.shape[2:]
    zero, one = y.dtype.type(0), y.dtype.type(1)
    wide, n = up(K, LANES), up(C, LANES)
    ks, vs, dks, dvs, rows, slopes, looks, shifts, deltas, ends, least, most, dqs, qs, gs = split(
        scratch[task],
        up(K, WIDTH) * LANES,  # ks: LANES keys, a lane for each: columns
        up(Kv, WIDTH) * LANES,  # vs: their values, likewise
        up(K, WIDTH) * LANES,  # dks, dvs: the gradients of both
        up(Kv, WIDTH) * LANES,
        wide * LANES,  # rows: the same keys by rows, squares that hold LANES columns of WIDTH of them
        WIDTH * LANES,  # slopes: dS of one square
        WIDTH * LANES,  # looks: which query sees which key in it
        n,  # shifts, deltas, ends: lse, g . y and reach of each query
        n,
        n,
        n,  # least, most: of the reaches of WIDTH queries
        n,
        n * wide,  # dqs: squares that hold LANES columns of WIDTH queries
        n * up(K, WIDTH),  # qs: columns of LANES queries, and so on
        n * up(Kv, WIDTH),  # gs: the same of g
    )
    holes = False
    first, last = task_range(B * H, task, tasks)
    for unit in range(first, last):
        b, h = unit // H, unit % H
        if unit == first or h == 0 or (mask.size > 0 and mask.strides[1] != 0):
            holes = False
            for i in range(0, C, WIDTH):
                low, high = M, 0
                for t in range(WIDTH):
                    count, hole = 0, False
                    if i + t < C:
                        count, hole = reach(mask, b, h, i + t, M, is_causal)
                    ends[i + t] = y.dtype.type(count)
                    low, high, holes = min(low, count), max(high, count), holes or hole
                least[i], most[i] = y.dtype.type(low), y.dtype.type(high)
        keys, values, gradients, results = k[b, h], v[b, h], g[b, h], y[b, h]
        # Distant memory arrives within the time of some heads; for memory that is near, prefetching only costs time.
        asks, later = q.size * q.itemsize > NEAR, min(unit + AHEAD, B * H - 1)
        later_b, later_h = later // H, later % H
        for i in range(0, C, LANES):
            if asks:
                expect(q, later_b, later_h, i, False)
                expect(g, later_b, later_h, i, False)
                expect(y, later_b, later_h, i, False)
                expect(dq, later_b, later_h, i, True)
            columns_of(q[b, h], i, every(scale), qs, i * up(K, WIDTH))
            products = full(zero)
            for j in range(0, Kv, WIDTH):
                columns = read_columns(gradients, i, j)
                products = fma_each(columns, read_columns(results, i, j), products)
                write_square(columns, gs, i * up(Kv, WIDTH) + j * LANES)
            store(add_up(products), deltas, i)
        for i in range(up(C, WIDTH)):
            shifts[i] = lse[b, h, i] if ends[i] > zero else zero
        clear(dqs)
        zeros = add(zeros_of(qs), zeros_of(gs))
        for m in range(0, M, LANES):
            if asks:
                expect(k, later_b, later_h, m, False)
                expect(v, later_b, later_h, m, False)
                expect(dk, later_b, later_h, m, True)
                expect(dv, later_b, later_h, m, True)
            columns_of(keys, m, every(one), ks, 0)
            columns_of(values, m, every(one), vs, 0)
            for j in range(0, K, LANES):
                for n in range(0, LANES, WIDTH):
                    write_square(read_block(keys, m + n, j), rows, (j + n) * LANES)
            clear(dks)
            clear(dvs)
            careful = not finite(add(zeros, zeros_of(ks)))
            for i in range(0, C, WIDTH):
                if most[i] <= m:
                    continue
                a = i // LANES * LANES * up(K, WIDTH) + i % LANES
                c = i // LANES * LANES * up(Kv, WIDTH) + i % LANES
                s, d = full(zero), full(zero)
                for j in range(K):
                    s = outer(s, qs, a + j * LANES, 1, register(ks, j * LANES))
                s = minus_each(s, shifts, i)
                hidden = holes or least[i] < m + LANES
                if hidden:
                    s = only(s, before_each(m, ends, i))  # before exp: a hidden score may be anything
                if holes:
                    look(mask, b, h, i, WIDTH, m, LANES, looks, 0, LANES, 1)
                    s = only(s, positive(read_square(looks, 0)))
                p = exp_each(s)
                for j in range(Kv):
                    d = outer(d, gs, c + j * LANES, 1, register(vs, j * LANES))
                d = times(p, minus_each(d, deltas, i))
                if hidden:  # compared anew, since LLVM packs booleans that it keeps for another branch
                    p, d = only(p, before_each(m, ends, i)), only(d, before_each(m, ends, i))
                if holes:
                    p, d = only(p, positive(read_square(looks, 0))), only(d, positive(read_square(looks, 0)))
                if hidden and careful:
                    if not holes:
                        write_square(full(one), looks, 0)
                    seen = both(before_each(m, ends, i), positive(read_square(looks, 0)))
                    write_square(only(full(one), seen), looks, 0)
                    for j in range(Kv):
                        store(inner_seen(register(dvs, j * LANES), p, gs, c + j * LANES, seen), dvs, j * LANES)
                    for j in range(K):
                        store(inner_seen(register(dks, j * LANES), d, qs, a + j * LANES, seen), dks, j * LANES)
                    write_square(d, slopes, 0)
                    for j in range(0, K, LANES):
                        s = read_square(dqs, i * wide + j * WIDTH)
                        for n in range(LANES):
                            s = outer_seen(s, slopes, n, LANES, register(rows, (j + n) * LANES), looks)
                        write_square(s, dqs, i * wide + j * WIDTH)
                else:
                    for j in range(Kv):
                        store(inner(register(dvs, j * LANES), p, gs, c + j * LANES), dvs, j * LANES)
                    for j in range(K):
                        store(inner(register(dks, j * LANES), d, qs, a + j * LANES), dks, j * LANES)
                    write_square(d, slopes, 0)
                    for j in range(0, K, LANES):
                        add_keys(dqs, i * wide + j * WIDTH, slopes, rows, j * LANES, K - j)
            rows_of(dks, 0, every(one), dk[b, h], m)
            rows_of(dvs, 0, every(one), dv[b, h], m)
        for i in range(0, C, WIDTH):
            for j in range(0, K, LANES):
                s = scale_each(read_square(dqs, i * wide + j * WIDTH), every(scale))
                write_block(s, dq[b, h], i, j)

r"""Scaled dot-product attention, y_i = sum_m softmax_m(scale q_i . k_m) v_m, and its gradients.

No C x M array is made. The unit is a score tile of LANES queries and WIDTH keys, or the reverse (`simd/score_tile.py`).
Forward holds LANES queries in the lanes of a register. It stores their scores with all visible keys and reads them
twice: for the maximum, then for the probabilities and weighted sums. This is not the online softmax of flash attention,
which reads keys once and rescales its sums whenever the maximum grows: here no sum is rescaled, so a row has the same
bits however its keys are cut into tiles. The backward pass holds LANES keys in the lanes and loops over the queries,
WIDTH at a time. dq sums over keys, i.e. across lanes. To avoid a horizontal sum, each dS is broadcast and multiplied by
a row of k (half a register of it in narrow heads).

A row of y depends only on the keys that it sees, to the last bit. Sums over k and m run in their order, one fused
multiply-add after the other, and the sum of probabilities adds WIDTH neighbours as a tree, in which a masked key counts
0. So a row has the same bits alone, with only its visible keys, as in a causal pass over all rows or with further keys
masked: a key/value cache does not change them.

The *visible range* of a row is the number of keys up to the last one that it sees. Causality, padding and the empty
part of a cache only limit it. Where each row of a tile sees the last key of the tile, nothing is masked and nothing is
tested. Only a mask with holes below the visible range is read key by key.

A masked key has probability 0, so 0 * v contributes nothing, unless v is inf or NaN (0 * inf = NaN). `finite` checks
rows by summing 0 * v; only if that is not 0 are masked elements skipped one by one (`accumulate_visible`).
"""

from tinytensor.core.kernel import EXACT_ORDER, num_tasks
from tinytensor.native.runtime.kernel import device_function, kernel, task_range
from tinytensor.native.simd.isa import NEAR
from tinytensor.native.simd.math import log
from tinytensor.native.simd.score_tile import (
    HALF,
    LANES,
    WIDTH,
    exp_tile,
    fma_tiles,
    inner,
    inner_rows,
    is_positive,
    lanes_less_than,
    load_columns,
    load_half_register,
    load_half_score_tile,
    load_register,
    load_rows,
    load_score_tile,
    logical_and,
    masked_inner,
    masked_inner_rows,
    masked_max_registers,
    masked_outer,
    max_registers,
    min_zero,
    mul_register,
    mul_tiles,
    neg_inf,
    outer,
    outer_rows,
    prefetch_rows,
    registers_less_than,
    splat,
    splat_tile,
    store_columns,
    store_rows,
    store_score_tile,
    sub_elements,
    sub_register,
    sum_elements,
    sum_registers,
    zero_where_not,
)
from tinytensor.native.simd.vector import add, div, split, store, store_first, sum_lanes, where_less
from tinytensor.native.simd.vector import log as logs

COLUMNS = 4  # of a head's row, taken together: four chains of sums, and no more registers than AVX2 has
AHEAD = 4  # heads are prefetched by this many, some microseconds where they are small


def next_multiple(size: int, unit: int) -> int:
    """The next multiple of `unit`; a plain function: a device function that Python calls is compiled at each start."""
    return (size + unit - 1) // unit * unit


round_up = device_function(next_multiple)


def attention_scratch(B: int, H: int, C: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention`: a row for each task.

    Heads of 8 columns take half a nanosecond for a pair of a query and a key with eight lanes; half of that time goes
    into e^x.
    """
    tasks = num_tasks(B * H * C * M * (12 + K + Kv) // 60, B * H * next_multiple(C, LANES) // LANES)
    return tasks, (next_multiple(K, WIDTH) + next_multiple(Kv, WIDTH) + 2 * next_multiple(M, WIDTH) + 1) * LANES


def attention_backward_scratch(B: int, H: int, C: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention_backward`: a row for each task."""
    tasks = num_tasks(B * H * C * M * (12 + K + Kv) // 30, B * H)
    of_keys = 2 * next_multiple(K, WIDTH) + 2 * next_multiple(Kv, WIDTH) + next_multiple(K, LANES) + 2 * WIDTH
    return tasks, of_keys * LANES + next_multiple(C, LANES) * (
        next_multiple(K, WIDTH) + next_multiple(K, LANES) + next_multiple(Kv, WIDTH) + 5
    )


def attention_of_one_scratch(B: int, H: int, M: int, K: int, Kv: int) -> tuple[int, int]:
    """Return the shape of the scratch array of `attention_of_one`: a row for each task."""
    tasks = num_tasks(B * H * M * (12 + K + Kv) // 60, B * H)
    return tasks, next_multiple(K, LANES) + next_multiple(Kv, LANES) + LANES + 2 * next_multiple(M, WIDTH * LANES)


@device_function
def visible_range(mask, b, h, i, M, is_causal):
    """(the visible range of query i; does the mask have holes below it?)"""
    count = min(i + 1, M) if is_causal else M
    if mask.size == 0:
        return count, False
    row, last, number = mask[b, h, i], 0, 0
    for m in range(count):
        if row[m]:
            last, number = m + 1, number + 1
    return last, number < last


@device_function
def visible_ranges(mask, b, h, C, M, is_causal, ends, least, most):
    """Write the visible range of each query to `ends`, and those of WIDTH queries to `least` and `most`.

    Returns whether the mask has holes below a visible range.
    """
    has_holes = False
    for i in range(0, C, WIDTH):
        low, high = M, 0
        for t in range(WIDTH):
            count, hole = 0, False
            if i + t < C:
                count, hole = visible_range(mask, b, h, i + t, M, is_causal)
            ends[i + t] = ends.dtype.type(count)
            low, high, has_holes = min(low, count), max(high, count), has_holes or hole
        least[i], most[i] = ends.dtype.type(low), ends.dtype.type(high)
    return has_holes


@device_function
def load_mask(mask, b, h, i, queries, m, keys, x, at, per_query, per_key):
    """x[at + t per_query + n per_key] = 1 where the mask lets query i + t see key m + n, else 0; t < queries, n < keys.

    The result is a score tile: one of the two steps is 1 and counts lanes, the other is LANES and counts registers.
    """
    C, M = mask.shape[2:]
    for t in range(queries):
        for n in range(keys):
            visible = mask[b, h, min(i + t, C - 1), min(m + n, M - 1)]  # past the ends the visible range decides
            x[at + t * per_query + n * per_key] = x.dtype.type(1) if visible else x.dtype.type(0)


@device_function
def columns_of(x, i, factor, y, at):
    """The columns of x[i : i + LANES] times `factor`, one register for each, at y[at:]; zeros where x ends before."""
    for j in range(0, x.shape[1], WIDTH):
        store_score_tile(mul_register(load_columns(x, i, j), factor), y, at + j * LANES)


@device_function
def rows_of(y, at, factor, x, i):
    """The inverse of `columns_of`: x[i : i + LANES] from its columns, each times `factor`, as far as x goes."""
    for j in range(0, x.shape[1], WIDTH):
        store_columns(mul_register(load_score_tile(y, at + j * LANES), factor), x, i, j)


@device_function
def clear(y):
    """y = 0."""
    for at in range(0, y.size, LANES):
        store(splat(y.dtype.type(0)), y, at)


@device_function
def zeros_of(x):
    """0 times each number of x, which is whole score tiles, summed to one register."""
    c = splat_tile(x.dtype.type(0))
    for at in range(0, x.size, WIDTH * LANES):
        c = fma_tiles(load_score_tile(x, at), splat_tile(x.dtype.type(0)), c)
    return sum_registers(c)


@device_function
def zeros_of_rows(x, i):
    """0 times each number of the rows x[i : i + WIDTH], added up to one register."""
    v = splat(x.dtype.type(0))
    for j in range(0, x.shape[1], LANES):
        v = add(v, sum_registers(mul_register(load_rows(x, i, j), splat(x.dtype.type(0)))))
    return v


@device_function
def finite(zeros):
    """Were all the numbers finite, given the sum of their products with 0? The product of inf with 0 is NaN."""
    return sum_lanes(zeros) == 0


@device_function
def add_keys(y, at, x, keys, first, columns):
    """The score tile at y[at:] += sum_n x[n + t LANES] keys[n] over LANES keys, whose registers begin at keys[first].

    Half of each register is enough for few columns.
    """
    if columns <= HALF:
        c = load_half_score_tile(y, at)
        for n in range(LANES):
            c = outer(c, x, n, LANES, load_half_register(keys, first + n * LANES))
        store_score_tile(c, y, at)
    else:
        c = load_score_tile(y, at)
        for n in range(LANES):
            c = outer(c, x, n, LANES, load_register(keys, first + n * LANES))
        store_score_tile(c, y, at)


@kernel(
    "scratch[T, attention_scratch(B, H, C, M, K, Kv)[1]], T > 0",
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
    n = round_up(M, WIDTH) * LANES
    # As columns: scaled queries, a lane for each, and results. Two registers for each key; each query's visible range.
    qs, ys, scores, mask_tile, ends = split(
        scratch[task], round_up(K, WIDTH) * LANES, round_up(Kv, WIDTH) * LANES, n, n, LANES
    )
    tiles, least, most, has_holes = round_up(C, LANES) // LANES, 0, 0, False
    first, last = task_range(B * tiles * H, task, tasks)
    for unit in range(first, last):  # heads side by side: most often one mask serves all of them
        b, h = unit // H // tiles, unit % H
        i = (tiles - 1 - unit // H % tiles) * LANES  # the last queries first: causal ones take longest
        if unit == first or h == 0 or (mask.size > 0 and mask.strides[1] != 0):
            least, most, has_holes = M, 0, False
            for t in range(LANES):
                count, hole = visible_range(mask, b, h, min(i + t, C - 1), M, is_causal)
                ends[t] = y.dtype.type(count)
                least, most, has_holes = min(least, count), max(most, count), has_holes or hole
        keys, values, end = k[b, h], v[b, h], load_register(ends, 0)
        columns_of(q[b, h], i, splat(scale), qs, 0)
        top = neg_inf(zero)
        for m in range(0, most, WIDTH):
            s = splat_tile(zero)
            for j in range(0, K - K % COLUMNS, COLUMNS):
                s = outer_rows(s, keys, m, j, qs, j * LANES, COLUMNS)
            for j in range(K - K % COLUMNS, K):
                s = outer_rows(s, keys, m, j, qs, j * LANES, 1)
            store_score_tile(s, scores, m * LANES)
            if has_holes:
                load_mask(mask, b, h, i, LANES, m, WIDTH, mask_tile, m * LANES, 1, LANES)
                top = masked_max_registers(
                    top, s, logical_and(registers_less_than(m, end), is_positive(load_score_tile(mask_tile, m * LANES)))
                )
            elif m + WIDTH > least:
                top = masked_max_registers(top, s, registers_less_than(m, end))
            else:
                top = max_registers(top, s)
        top = where_less(splat(zero), end, top, splat(zero))
        clear(ys)
        norm = splat(zero)
        for m in range(0, most, WIDTH):
            p = sub_register(load_score_tile(scores, m * LANES), top)
            hidden = has_holes or m + WIDTH > least
            if hidden:
                p = min_zero(p)  # before exp: visible scores are so already, masked ones may be anything
            p = exp_tile(p)
            if hidden:
                p = zero_where_not(p, registers_less_than(m, end))
            if has_holes:
                p = zero_where_not(p, is_positive(load_score_tile(mask_tile, m * LANES)))
            if hidden and not finite(zeros_of_rows(values, m)):
                if not has_holes:
                    store_score_tile(splat_tile(one), mask_tile, m * LANES)
                visible = logical_and(registers_less_than(m, end), is_positive(load_score_tile(mask_tile, m * LANES)))
                for j in range(Kv):
                    masked_inner_rows(p, values, m, j, ys, j * LANES, visible)
            else:
                for j in range(0, Kv - Kv % COLUMNS, COLUMNS):
                    inner_rows(p, values, m, j, ys, j * LANES, COLUMNS)
                for j in range(Kv - Kv % COLUMNS, Kv):
                    inner_rows(p, values, m, j, ys, j * LANES, 1)
            norm = add(norm, sum_registers(p))
        store_first(C - i, add(top, logs(norm)), lse, b, h, i)
        rows_of(ys, 0, div(splat(one), where_less(splat(zero), norm, norm, splat(one))), y[b, h], i)


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
    n = round_up(M, WIDTH * LANES)  # whole tiles of keys
    # Of each key its score, and LANES if it is visible, else 0.
    scores, ends, qs, ys, tops = split(scratch[task], n, n, round_up(K, LANES), round_up(Kv, LANES), LANES)
    count, has_holes = 0, False
    first, last = task_range(B * H, task, tasks)
    for unit in range(first, last):
        b, h = unit // H, unit % H
        if unit == first or h == 0 or (mask.size > 0 and mask.strides[1] != 0):
            count, has_holes = visible_range(mask, b, h, 0, M, is_causal)
            for m in range(ends.size):
                visible = m < count and (not has_holes or mask[b, h, 0, min(m, M - 1)])
                ends[m] = y.dtype.type(LANES) if visible else zero
        keys, values = k[b, h], v[b, h]
        clear(qs)
        for j in range(K):
            qs[j] = scale * q[b, h, 0, j]
        for m in range(0, count, LANES):
            s = splat(zero)
            for j in range(0, K, WIDTH):
                s = inner(s, load_columns(keys, m, j), qs, j)
            store(s, scores, m)
        shift = zero  # the first visible score, then the largest
        for m in range(count):
            if ends[count - 1 - m] > zero:
                shift = scores[count - 1 - m]
        for m in range(ends.size):
            if ends[m] <= zero:
                scores[m] = shift  # before exp: a hidden score may be anything
        top = splat(shift)
        for m in range(0, count, WIDTH * LANES):
            top = max_registers(top, load_score_tile(scores, m))
        store(top, tops, 0)
        for t in range(LANES):
            shift = max(shift, tops[t])
        for m in range(0, count, WIDTH * LANES):
            store_score_tile(exp_tile(sub_register(load_score_tile(scores, m), splat(shift))), scores, m)
        for m in range(ends.size):
            if ends[m] <= zero:
                scores[m] = zero
        norm = zero
        for m in range(0, count, WIDTH):
            norm += sum_elements(scores, m)
        clear(ys)
        for m in range(0, count, WIDTH):
            for j in range(0, Kv, LANES):
                rows = load_rows(values, m, j)
                if has_holes or m + WIDTH > count:
                    rows = zero_where_not(rows, lanes_less_than(0, ends, m))
                store(inner(load_register(ys, j), rows, scores, m), ys, j)
        lse[b, h, 0] = shift + log(norm)
        inverse = one / norm if count > 0 else zero
        for j in range(Kv):
            y[b, h, 0, j] = ys[j] * inverse


@device_function
def score_tile(qs, a, ks, K, gs, c, vs, Kv, shifts, deltas, ends, i, m, hidden, has_holes, mask_tile):
    """(p, dS) of the queries i ... i + WIDTH - 1 and the keys m ... m + LANES - 1; both are 0 where a key is masked.

    `hidden`: is a key of the tile beyond a query's visible range, or masked? If `has_holes`, mask_tile says which are.
    """
    s, d = splat_tile(shifts.dtype.type(0)), splat_tile(shifts.dtype.type(0))
    for j in range(K):
        s = outer(s, qs, a + j * LANES, 1, load_register(ks, j * LANES))
    s = sub_elements(s, shifts, i)
    if hidden:
        s = zero_where_not(s, lanes_less_than(m, ends, i))  # before exp: a masked score may be anything
    if has_holes:
        s = zero_where_not(s, is_positive(load_score_tile(mask_tile, 0)))
    p = exp_tile(s)
    for j in range(Kv):
        d = outer(d, gs, c + j * LANES, 1, load_register(vs, j * LANES))
    d = mul_tiles(p, sub_elements(d, deltas, i))
    if hidden:  # compared a second time, since LLVM packs booleans that it keeps for another branch
        p = zero_where_not(p, lanes_less_than(m, ends, i))
        d = zero_where_not(d, lanes_less_than(m, ends, i))
    if has_holes:
        p = zero_where_not(p, is_positive(load_score_tile(mask_tile, 0)))
        d = zero_where_not(d, is_positive(load_score_tile(mask_tile, 0)))
    return p, d


@device_function
def accumulate(p, d, qs, a, ks_rows, K, gs, c, Kv, slopes, dqs, at, dks, dvs):
    """dv += p^T g, dk += dS^T q, dq += dS k, for one score tile; dq's tiles begin at dqs[at]."""
    for j in range(Kv):
        store(inner(load_register(dvs, j * LANES), p, gs, c + j * LANES), dvs, j * LANES)
    for j in range(K):
        store(inner(load_register(dks, j * LANES), d, qs, a + j * LANES), dks, j * LANES)
    store_score_tile(d, slopes, 0)
    for j in range(0, K, LANES):
        add_keys(dqs, at + j * WIDTH, slopes, ks_rows, j * LANES, K - j)


@device_function
def accumulate_visible(p, d, visible, qs, a, ks_rows, K, gs, c, Kv, slopes, dqs, at, dks, dvs, mask_tile):
    """`accumulate` that skips masked pairs one by one: a masked inf or NaN has no effect."""
    store_score_tile(zero_where_not(splat_tile(slopes.dtype.type(1)), visible), mask_tile, 0)
    for j in range(Kv):
        store(masked_inner(load_register(dvs, j * LANES), p, gs, c + j * LANES, visible), dvs, j * LANES)
    for j in range(K):
        store(masked_inner(load_register(dks, j * LANES), d, qs, a + j * LANES, visible), dks, j * LANES)
    store_score_tile(d, slopes, 0)
    for j in range(0, K, LANES):
        s = load_score_tile(dqs, at + j * WIDTH)
        for n in range(LANES):
            s = masked_outer(s, slopes, n, LANES, load_register(ks_rows, (j + n) * LANES), mask_tile)
        store_score_tile(s, dqs, at + j * WIDTH)


@kernel(
    "scratch[T, attention_backward_scratch(B, H, C, M, K, Kv)[1]], T > 0",
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
    wide, n = round_up(K, LANES), round_up(C, LANES)
    # Columns hold a lane for each of LANES keys (or queries), tiles a register for each of WIDTH.
    ks, vs, dks, dvs, ks_rows, slopes, mask_tile, shifts, deltas, ends, least, most, dqs, qs, gs = split(
        scratch[task],
        round_up(K, WIDTH) * LANES,  # ks, vs: LANES keys and their values, as columns
        round_up(Kv, WIDTH) * LANES,
        round_up(K, WIDTH) * LANES,  # dks, dvs: the gradients of both
        round_up(Kv, WIDTH) * LANES,
        wide * LANES,  # ks_rows: the same keys as tiles of WIDTH keys and LANES columns
        WIDTH * LANES,  # slopes: dS of one tile
        WIDTH * LANES,  # mask_tile: above 0 where a query sees a key
        n,  # shifts, deltas, ends: lse, g . y and visible range of each query
        n,
        n,
        n,  # least, most: of the visible ranges of WIDTH queries
        n,
        n * wide,  # dqs: dq as tiles of WIDTH queries and LANES columns
        n * round_up(K, WIDTH),  # qs, gs: scaled queries, and g, as columns
        n * round_up(Kv, WIDTH),
    )
    has_holes = False
    first, last = task_range(B * H, task, tasks)
    for unit in range(first, last):
        b, h = unit // H, unit % H
        if unit == first or h == 0 or (mask.size > 0 and mask.strides[1] != 0):
            has_holes = visible_ranges(mask, b, h, C, M, is_causal, ends, least, most)
        keys, values, gradients, results = k[b, h], v[b, h], g[b, h], y[b, h]
        # Distant memory arrives within the time of some heads; for memory that is near, prefetching only costs time.
        prefetching, later = q.size * q.itemsize > NEAR, min(unit + AHEAD, B * H - 1)
        later_b, later_h = later // H, later % H
        for i in range(0, C, LANES):
            if prefetching:
                prefetch_rows(q, later_b, later_h, i, False)
                prefetch_rows(g, later_b, later_h, i, False)
                prefetch_rows(y, later_b, later_h, i, False)
                prefetch_rows(dq, later_b, later_h, i, True)
            columns_of(q[b, h], i, splat(scale), qs, i * round_up(K, WIDTH))
            products = splat_tile(zero)
            for j in range(0, Kv, WIDTH):
                columns = load_columns(gradients, i, j)
                products = fma_tiles(columns, load_columns(results, i, j), products)
                store_score_tile(columns, gs, i * round_up(Kv, WIDTH) + j * LANES)
            store(sum_registers(products), deltas, i)
        for i in range(round_up(C, WIDTH)):
            shifts[i] = lse[b, h, i] if ends[i] > zero else zero
        clear(dqs)
        zeros = add(zeros_of(qs), zeros_of(gs))
        for m in range(0, M, LANES):
            if prefetching:
                prefetch_rows(k, later_b, later_h, m, False)
                prefetch_rows(v, later_b, later_h, m, False)
                prefetch_rows(dk, later_b, later_h, m, True)
                prefetch_rows(dv, later_b, later_h, m, True)
            columns_of(keys, m, splat(one), ks, 0)
            columns_of(values, m, splat(one), vs, 0)
            for j in range(0, K, LANES):
                for n in range(0, LANES, WIDTH):
                    store_score_tile(load_rows(keys, m + n, j), ks_rows, (j + n) * LANES)
            clear(dks)
            clear(dvs)
            has_non_finite = not finite(add(zeros, zeros_of(ks)))
            for i in range(0, C, WIDTH):
                if most[i] <= m:
                    continue
                a = i // LANES * LANES * round_up(K, WIDTH) + i % LANES
                c = i // LANES * LANES * round_up(Kv, WIDTH) + i % LANES
                hidden = has_holes or least[i] < m + LANES
                if has_holes:
                    load_mask(mask, b, h, i, WIDTH, m, LANES, mask_tile, 0, LANES, 1)
                p, d = score_tile(qs, a, ks, K, gs, c, vs, Kv, shifts, deltas, ends, i, m, hidden, has_holes, mask_tile)
                if hidden and has_non_finite:
                    if not has_holes:
                        store_score_tile(splat_tile(one), mask_tile, 0)
                    visible = logical_and(lanes_less_than(m, ends, i), is_positive(load_score_tile(mask_tile, 0)))
                    accumulate_visible(
                        p, d, visible, qs, a, ks_rows, K, gs, c, Kv, slopes, dqs, i * wide, dks, dvs, mask_tile
                    )
                else:
                    accumulate(p, d, qs, a, ks_rows, K, gs, c, Kv, slopes, dqs, i * wide, dks, dvs)
            rows_of(dks, 0, splat(one), dk[b, h], m)
            rows_of(dvs, 0, splat(one), dv[b, h], m)
        for i in range(0, C, WIDTH):
            for j in range(0, K, LANES):
                s = mul_register(load_score_tile(dqs, i * wide + j * WIDTH), splat(scale))
                store_rows(s, dq[b, h], i, j)

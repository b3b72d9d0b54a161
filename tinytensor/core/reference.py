"""The reference kernels: what each kernel computes, from the mathematics: no blocks, no registers, no tasks.

    @sizes("x[R, N], y[R, N]")
    def softmax(x, y, *, shift=row_max):
        e = np.exp(x - shift(x))
        return {"y": e / e.sum(-1, keepdims=True)}

A function takes a kernel's arguments, and returns the outputs by the names of their parameters. It takes them on
floats and on exact scalars (dtype object). `sizes` states the sizes of the arrays; each launch is checked against them.

With TINYTENSOR_BACKEND=reference these functions compute everything. Otherwise a native kernel of the same name does,
which is tested equal to the function here, and proved equal to it (derivations/proofs/kernels.py). An absent input is
an empty array.

A softmax does not change if a number is subtracted from all scores. Floats need the largest score of a row, so that
none overflows; a proof says with `shift` which number it takes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Declared(NamedTuple):
    """A reference kernel: its function, the sizes of its arrays, and its parameters."""

    function: Callable[..., dict]
    shapes: str
    names: tuple[str, ...]


REFERENCE: dict[str, Declared] = {}  # by name


def sizes(shapes: str) -> Callable[[Callable], Callable]:
    """Declare a function as a reference kernel whose arrays have these sizes (core/shape_checks.py)."""

    def declare(function: Callable) -> Callable:
        code = function.__code__
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][: bool(code.co_flags & 4)]  # *xs
        names = *code.co_varnames[: code.co_argcount], *(f"*{name}" for name in rest)
        REFERENCE[function.__name__] = Declared(function, shapes, names)
        return function

    return declare


def total(x: np.ndarray) -> np.ndarray:
    """The sums over the last dimension, which is kept."""
    return x.sum(-1, keepdims=True)


def log_total(x: np.ndarray) -> np.ndarray:
    """The logarithms of these sums; that of an empty sum is -inf, for exact scalars too."""
    return np.log(total(x)) if x.shape[-1] else np.full((*x.shape[:-1], 1), -np.inf)


def row_max(x: np.ndarray) -> np.ndarray:
    """The largest number of each row; -inf of an empty one."""
    return x.max(-1, keepdims=True, initial=-np.inf)


def report(wrong: np.ndarray, index: np.ndarray) -> list[int]:
    """[1, one of the wrong numbers of an index], or [0, 0] if none is wrong."""
    return [1, index[wrong][0]] if wrong.any() else [0, 0]


# --- Reductions and scans of x (outer, n, inner) over n


@sizes("x[O, N, I], y[O, I]")
def reduce_sum(x, y):
    """y_oi = sum_j x_oji, in the dtype of y."""
    return {"y": x.sum(1, dtype=y.dtype)}


@sizes("x[O, N, I], y[O, I]")
def reduce_squares(x, y):
    """y_oi = sum_j x_oji^2, in the dtype of y."""
    x = x.astype(y.dtype)
    return {"y": (x * x).sum(1)}


@sizes("x[O, N, I], y[O, I]")
def reduce_prod(x, y):
    """y_oi = prod_j x_oji, in the dtype of y."""
    return {"y": x.prod(1, dtype=y.dtype)}


@sizes("x[O, N, I], y[O, I], index[O, I]")
def reduce_max(x, y, index):
    """y_oi = max_j x_oji, and its first j; a NaN counts as the maximum."""
    at = x.argmax(1)[:, None]
    return {"y": np.take_along_axis(x, at, 1)[:, 0], "index": at[:, 0]}


@sizes("x[O, N, I], y[O, I], index[O, I]")
def reduce_min(x, y, index):
    """y_oi = min_j x_oji, and its first j; a NaN counts as the minimum."""
    at = x.argmin(1)[:, None]
    return {"y": np.take_along_axis(x, at, 1)[:, 0], "index": at[:, 0]}


@sizes("x[O, N, I], y[O, I]")
def reduce_any(x, y):
    """y_oi = is one of x_oji true?"""
    return {"y": x.any(1)}


@sizes("x[O, N, I], y[O, I]")
def reduce_all(x, y):
    """y_oi = are all x_oji true?"""
    return {"y": x.all(1)}


def log_sum_exp(x, *, shift=row_max):
    """m + log(sum_j exp(x_j - m)) of each row, which is kept, with m = max_j x_j, or 0 where it is not finite."""
    m = shift(x)
    return m + log_total(np.exp(x - m))


def finite_row_max(x: np.ndarray) -> np.ndarray:
    m = row_max(x)
    return np.where(np.isfinite(m), m, x.dtype.type(0))  # inf - inf would make a NaN of a sum that has a value


@sizes("x[O, N, I], y[O, I]")
def reduce_logsumexp(x, y, *, shift=finite_row_max):
    """y_oi = log(sum_j exp(x_oji))."""
    return {"y": log_sum_exp(np.moveaxis(x, 1, 2), shift=shift)[..., 0]}


@sizes("x[O, N, I], y[O, N, I]")
def cumsum(x, reverse, y):
    """y_oji = x_o0i + ... + x_oji, or x_oji + ... + x_o,n-1,i if reverse (the backward)."""
    return {"y": np.flip(np.flip(x, 1).cumsum(1), 1) if reverse else x.cumsum(1)}


@sizes("y[1]")
def sum_of_squares(y, *xs):
    """y = the sum of the squares of all elements of all xs."""
    return {"y": sum((x * x).sum() for x in xs)}


# --- Rows and elements by an index; a number in it that is out of range is reported, reads 0, and writes nothing


def read_at(x, index, axis):
    """x at the index along an axis, and the report of numbers out of range."""
    wrong = (index < 0) | (index >= x.shape[axis])
    inside = np.where(wrong, 0, index)
    if x.shape[axis] == 0:
        y = np.zeros(index.shape + x.shape[1:] * (x.ndim > index.ndim), x.dtype)
    else:
        y = np.take_along_axis(x, inside, axis) if x.ndim == index.ndim else x[inside]
    wrong_y = wrong.reshape(wrong.shape + (1,) * (y.ndim - wrong.ndim))
    return {"y": np.where(wrong_y, x.dtype.type(0), y), "bad": report(wrong, index)}


@sizes("x[V, D], index[R], y[R, D], bad[2]")
def take(x, index, y, bad):
    """y_rd = x_index_r,d."""
    return read_at(x, index, 0)


@sizes("g[R, D], index[R], dx[V, D]")
def scatter_add(g, index, dx):
    """dx_vd = the sum of g_rd over the r with index_r = v; the backward of take."""
    dx, inside = np.zeros_like(dx), (index >= 0) & (index < len(dx))
    np.add.at(dx, index[inside], g[inside])
    return {"dx": dx}


@sizes("source[O, R, D], index[R], y[O, V, D], bad[2]")
def write_rows(source, index, y, bad):
    """y_o,index_r,d = source_ord in the order of r, so that the last one stays."""
    y = y.copy()
    inside = (index >= 0) & (index < y.shape[1])
    for r in np.flatnonzero(inside):
        y[:, index[r]] = source[:, r]
    return {"y": y, "bad": report(~inside, index)}


@sizes("x[O, N, I], index[O, M, I], y[O, M, I], bad[2]")
def gather(x, index, y, bad):
    """y_oji = x_o,index_oji,i."""
    return read_at(x, index, 1)


@sizes("g[O, M, I], index[O, M, I], dx[O, N, I]")
def gather_backward(g, index, dx):
    """dx_oki = the sum of g_oji over the j with index_oji = k."""
    dx = np.zeros_like(dx)
    inside = np.nonzero((index >= 0) & (index < dx.shape[1]))
    np.add.at(dx, (inside[0], index[inside], inside[2]), g[inside])
    return {"dx": dx}


@sizes("x[R, N], y[R, N]")
def argsort(x, descending, y):
    """The positions that sort each row; equal elements keep their order, and NaN is the largest."""
    if descending:  # the reversed row sorted, and the result reversed: equal elements keep their order, too
        return {"y": x.shape[1] - 1 - x[:, ::-1].argsort(1, kind="stable")[:, ::-1]}
    return {"y": x.argsort(1, kind="stable")}


@sizes("p[R, N], bad[2]")
def check_weights(p, needed, bad):
    """bad = (1, -1) if a weight is negative or not finite, (1, m) if a row has m < needed positive ones."""
    valid, positive = (np.isfinite(p) & (p >= 0)).all(1), (p > 0).sum(1)
    wrong = ~valid | (positive < needed)
    return {"bad": [1, np.where(valid, positive, -1)[wrong][-1]] if wrong.any() else bad}


@sizes("p[R, N], u[R], y[R]")
def sample_rows(p, u, y):
    """y_r = the first j with p_rj > 0 and p_r0 + ... + p_rj > u_r sum_k p_rk, else the last one; -1 if all are 0."""
    sums = p.cumsum(1)
    ends = sums[:, -1:] if p.shape[1] else np.zeros((len(p), 1), p.dtype)
    after = (p > 0) & (sums > u[:, None] * ends)
    rows = [(np.flatnonzero(a), np.flatnonzero(w > 0)) for a, w in zip(after, p)]
    return {"y": [first[0] if first.size else last[-1] if last.size else -1 for first, last in rows]}


# --- Softmax and loss


@sizes("x[R, N], y[R, N]")
def softmax(x, y, *, shift=row_max):
    """y_rj = exp(x_rj) / sum_k exp(x_rk)."""
    e = np.exp(x - shift(x))
    return {"y": e / total(e)}


@sizes("g[R, N], y[R, N], dx[R, N]")
def softmax_backward(g, y, dx):
    """dx_rj = y_rj (g_rj - sum_k g_rk y_rk)."""
    return {"dx": y * (g - total(g * y))}


@sizes("x[R, N], y[R, N]")
def log_softmax(x, y, *, shift=row_max):
    """y_rj = x_rj - log(sum_k exp(x_rk))."""
    m = shift(x)
    return {"y": (x - m) - log_total(np.exp(x - m))}


@sizes("g[R, N], y[R, N], dx[R, N]")
def log_softmax_backward(g, y, dx):
    """dx_rj = g_rj - exp(y_rj) sum_k g_rk."""
    return {"dx": g - np.exp(y) * total(g)}


@sizes("x[R, V], target[R], losses[R], lse[R], bad[2]")
def cross_entropy(x, target, ignore_index, label_smoothing, losses, lse, bad, *, shift=row_max, zero=0):
    """losses_r = -sum_v p_rv log softmax(x_r)_v with p_rv = (1 - s) [v = target_r] + s / V; eq. 13 of document 003."""
    logp = log_softmax(x, None, shift=shift)["y"]
    wrong = (target != ignore_index) & ((target < 0) | (target >= x.shape[1]))
    kept = (target != ignore_index) & ~wrong
    picked = np.where(np.arange(x.shape[1]) == target[:, None], logp, 0).sum(1)
    if label_smoothing == 0:  # 0 times an infinite logit would be NaN
        losses = -picked
    else:
        losses = -((1 - label_smoothing) * picked + label_smoothing * (logp.sum(1) / max(x.shape[1], 1)))
    lse = log_sum_exp(x, shift=shift)[:, 0]
    return {"losses": np.where(kept, losses, zero), "lse": np.where(kept, lse, zero), "bad": report(wrong, target)}


@sizes("x[R, V], g[R], target[R], lse[R], dx[R, V]")
def cross_entropy_backward(g, x, target, lse, ignore_index, label_smoothing, dx):
    """dx_rv = g_r (exp(x_rv - lse_r) - p_rv) with p as above; 0 where target_r = ignore_index."""
    V = x.shape[1]
    kept = ((target != ignore_index) & (target >= 0) & (target < V))[:, None]
    onehot = np.arange(V) == target[:, None]
    p = np.where(onehot, 1 - label_smoothing, 0) + label_smoothing / max(V, 1)
    return {"dx": np.where(kept, g[:, None] * (np.exp(x - lse[:, None]) - p), 0)}


@sizes("losses[R], target[R], y[1], count[1]")
def mean_of_counted(losses, target, ignore_index, y, count):
    """y = sum_r losses_r / n, and count = n: the number of targets other than ignore_index; if it is 0, y is NaN."""
    n = (target != ignore_index).sum()
    return {"y": losses.sum(keepdims=True) / n, "count": np.array([n])}


# --- Norms; sums holds the gradients of the weight and of the bias, or the first alone; sums of size 0 are not wanted


@sizes("x[R, D], weight[D | 0], bias[D | 0], y[R, D], mean[R], rstd[R]")
def layer_norm(x, weight, bias, eps, y, mean, rstd):
    """y_rd = w_d (x_rd - mean_r) rstd_r + b_d with rstd_r = 1 / sqrt(sum_d (x_rd - mean_r)^2 / D + eps)."""
    mean = total(x) / x.shape[1]
    rstd = 1 / np.sqrt(total((x - mean) ** 2) / x.shape[1] + eps)
    y = (x - mean) * rstd
    y = y * weight if weight.size else y
    return {"y": y + bias if bias.size else y, "mean": mean[:, 0], "rstd": rstd[:, 0]}


@sizes("g[R, D], x[R, D], weight[D | 0], mean[R], rstd[R], dx[R, D], sums[S, D | 0]")
def layer_norm_backward(g, x, weight, mean, rstd, dx, sums):
    """dx_rd = rstd_r (h_rd - sum_k h_rk (1 + n_rd n_rk) / D), n_rd = (x_rd - mean_r) rstd_r, h_rd = w_d g_rd."""
    n = (x - mean[:, None]) * rstd[:, None]
    h = g * weight if weight.size else g
    dx = rstd[:, None] * (h - total(h) / x.shape[1] - n * (total(h * n) / x.shape[1]))
    return {"dx": dx, "sums": np.stack([(g * n).sum(0), g.sum(0)])[: len(sums)] if sums.size else sums}


@sizes("x[R, D], weight[D | 0], y[R, D], rstd[R]")
def rms_norm(x, weight, eps, y, rstd):
    """y_rd = w_d x_rd rstd_r with rstd_r = 1 / sqrt(sum_d x_rd^2 / D + eps)."""
    rstd = 1 / np.sqrt(total(x**2) / x.shape[1] + eps)
    return {"y": x * rstd * weight if weight.size else x * rstd, "rstd": rstd[:, 0]}


@sizes("g[R, D], x[R, D], weight[D | 0], rstd[R], dx[R, D], sums[S, D | 0]")
def rms_norm_backward(g, x, weight, rstd, dx, sums):
    """dx_rd = rstd_r (h_rd - n_rd sum_k h_rk n_rk / D) with n_rd = x_rd rstd_r and h_rd = w_d g_rd."""
    n = x * rstd[:, None]
    h = g * weight if weight.size else g
    dx = rstd[:, None] * (h - n * (total(h * n) / x.shape[1]))
    return {"dx": dx, "sums": (g * n).sum(0)[None] if sums.size else sums}


# --- Products, attention


@sizes("a[n, M, K], b[n, K, N], term[n, M | 0, N | 0], y[n, M, N]")
def matmul(a, b, term, relu, y):
    """y_nij = sum_k a_nik b_nkj + term_nij, then max(0, y_nij) if relu (NaN stays NaN)."""
    y = a @ b + term if term.size else a @ b
    return {"y": np.where(y <= 0, 0, y) if relu else y}


def visible_keys(mask, is_causal, shape):
    """Which keys does each query see? (B, H, C, M)"""
    visible = np.tri(*shape[-2:], dtype=bool) if is_causal else np.ones(shape[-2:], bool)
    return np.broadcast_to(visible & mask if mask.size else visible, shape)


def sum_where(visible, weights, x, axis):
    """The sum of weights times x where visible; what is hidden adds nothing, even if it is inf or NaN."""
    return np.where(visible[..., None], weights[..., None] * x, 0).sum(axis)


@sizes(
    "q[B, H, C, K], k[B, H, M, K], v[B, H, M, Kv], mask[B | 0, H | 0, C | 0, M | 0], y[B, H, C, Kv], lse[B, H, C],"
    "dense(q, k, v, y)"
)
def attention(q, k, v, mask, scale, is_causal, y, lse, *, shift=row_max, zero=0.0):
    """y_i = sum_m p_im v_m with p_im = softmax_m(scale q_i . k_m) over the keys that i sees; 0 if it sees none."""
    scores = scale * (q @ np.swapaxes(k, -1, -2))
    visible = visible_keys(mask, is_causal, scores.shape)
    some = visible.any(-1, keepdims=True)
    top = np.where(some, shift(np.where(visible, scores, -np.inf)), zero)
    e = np.where(visible, np.exp(scores - top), zero)
    norm = total(e) + zero
    y = sum_where(visible, e / np.where(some, norm, 1), v[:, :, None], -2)
    return {"y": y, "lse": (top + np.log(norm))[..., 0]}


@sizes(
    "q[B, H, C, K], k[B, H, M, K], v[B, H, M, Kv], mask[B | 0, H | 0, C | 0, M | 0], g[B, H, C, Kv], y[B, H, C, Kv],"
    "lse[B, H, C], dq[B, H, C, K], dk[B, H, M, K], dv[B, H, M, Kv], dense(g, q, k, v, y, dq, dk, dv)"
)
def attention_backward(g, q, k, v, mask, y, lse, scale, is_causal, dq, dk, dv):
    """With p as above and dS_im = p_im (g_i . v_m - g_i . y_i): dv_m = sum_i p_im g_i,

    dq_i = scale sum_m dS_im k_m, dk_m = scale sum_i dS_im q_i.
    """
    scores = scale * (q @ np.swapaxes(k, -1, -2))
    visible = visible_keys(mask, is_causal, scores.shape)
    p = np.where(visible, np.exp(scores - lse[..., None]), 0)
    dS = np.where(visible, p * (g @ np.swapaxes(v, -1, -2) - total(g * y)), 0)
    return {
        "dq": scale * sum_where(visible, dS, k[:, :, None], -2),
        "dk": scale * sum_where(visible, dS, q[:, :, :, None], -3),
        "dv": sum_where(visible, p, g[:, :, :, None], -3),
    }


# --- Random numbers: a function of a key, the number of the draw, and the position of the element
# Whole numbers below 2^64, which wrap; what is written in remainders here are bits in the kernels.


def mixed(n):
    """A permutation of the numbers below 2^32: the function that C. Wellons found to be least biased of its kind."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        n = (n ^ n // 2**shift) * factor % 2**32
    return n ^ n // 2**16


def drawn(at, n):
    """The numbers below 2^32 for this part's n elements, whose positions are counted in the whole."""
    golden, size = 0x9E3779B9, 2**32
    key, draw, part = at.astype(np.uint64)
    position = part * np.uint64(n) + np.arange(n, dtype=np.uint64)
    upper = mixed((position // size + draw * golden) % size)
    summed = (mixed((position * golden + upper) % size) + mixed((key ^ upper) % size)) % size
    return mixed(np.where(summed == 0, np.uint64(golden), summed))  # mixed(0) is 0, which is not to be drawn each time


@sizes("stream[3], at[3]")
def next_draw(stream, at):
    """at = stream = [key, number of the draw, number of the part], and the stream goes on to the next draw."""
    return {"at": stream.copy(), "stream": stream + np.array([0, 1, 0])}


@sizes("at[3], y[N], 0 <= shift < 64")
def uniform(at, shift, scale, y):
    """y_i = scale times the number drawn for i without its last `shift` bits."""
    return {"y": scale * (drawn(at, y.size) // 2**shift).astype(y.dtype)}


@sizes("x[N], at[3], y[N]")
def drop(x, at, threshold, scale, y):
    """y_i = scale x_i where the number drawn for i is below the threshold (of 2^32), else 0."""
    return {"y": np.where(drawn(at, x.size) < threshold, scale * x, 0)}

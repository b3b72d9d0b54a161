"""The definition of each kernel, from the mathematics and not from the kernel: no blocks, no registers, no tasks.

Each function takes the kernel's arguments and returns its outputs by the names of their parameters. The numbers are
exact scalars of the kind in use: SymPy's expressions where the kernels are proved for all values, at small sizes
(`tests/symbolic`), residues modulo a prime at medium sizes (`kernels.py`).

A softmax does not change if a number is subtracted from all scores, as the part `theorems` proves for any size.
Residues do not know that, so for them it is the largest score, as in the kernels: `shift` says which.
"""

from collections.abc import Callable

import numpy as np

from tinytensor.symbolic.exact.scalars import Exact, get_scalar_type

# --- Sums and rows


def zero() -> Exact:
    return get_scalar_type().of(0)


def total(values: np.ndarray) -> np.ndarray:
    """A sum over the last dimension, which is kept; an exact 0 for an empty sum."""
    return values.sum(-1, keepdims=True) + zero()


def reduced(x, y, *_):
    return {"y": x.sum(1)}


def running(x, reverse, y, lost):
    return {"y": np.flip(np.flip(x, 1).cumsum(1), 1) if reverse else x.cumsum(1)}


def matvec(a, b, y):
    return {"y": (a * b[:, None]).sum(2) + zero()}


def read_at(x, index, axis):
    """x at the index along an axis, 0 where the index is out of range, and the report of that."""
    wrong = (index < 0) | (index >= x.shape[axis])
    inside = np.where(wrong, 0, index)
    y = np.take_along_axis(x, inside, axis) if x.ndim == index.ndim else x[inside]
    bad = [1, index[wrong][0]] if wrong.any() else [0, 0]
    return {"y": np.where(wrong.reshape(wrong.shape + (1,) * (y.ndim - wrong.ndim)), zero(), y), "bad": bad}


def taken(x, index, y, bad):
    return read_at(x, index, 0)


def scattered(g, index, dx):
    expected = np.full(dx.shape, zero())
    inside = (index >= 0) & (index < len(dx))
    np.add.at(expected, index[inside], g[inside])
    return {"dx": expected}


def written(source, index, y, bad):
    y = y.copy()
    for r, v in enumerate(index):  # in the order of r: the last one stays
        if 0 <= v < y.shape[1]:
            y[:, v] = source[:, r]
    return {"y": y, "bad": read_at(np.empty((y.shape[1], 0), object), index, 0)["bad"]}


def gathered(x, index, y, bad):
    return read_at(x, index, 1)


# --- Softmax and loss


def unshifted(x: np.ndarray) -> int:
    return 0


def largest(x: np.ndarray) -> np.ndarray:
    """The largest number of each row, by witness."""
    at = np.array([[e.witness for e in row] for row in x]).argmax(1)
    return np.take_along_axis(x, at[:, None], 1)


def softmax(x, shift: Callable = unshifted):
    e = np.exp(x - shift(x))
    return e / total(e)


def log_sum_exp(x, shift: Callable = unshifted):
    m = shift(x)
    return m + np.log(total(np.exp(x - m)))


def log_softmax(x, shift: Callable = unshifted):
    m = shift(x)
    return (x - m) - np.log(total(np.exp(x - m)))


def cross_entropy(x, target, ignore_index, smoothing, *_, shift: Callable = unshifted):
    """-sum_v p_v log softmax(x)_v with p = (1 - s) [v = target] + s / V; eq. 13 of document 003."""
    onehot = np.arange(x.shape[1]) == target[:, None]
    p = np.where(onehot, 1 - smoothing, 0) + smoothing / get_scalar_type().of(max(x.shape[1], 1))
    wrong = (target != ignore_index) & ((target < 0) | (target >= x.shape[1]))
    kept = (target != ignore_index) & ~wrong
    losses = np.where(kept, -(p * log_softmax(x, shift)).sum(1), zero())
    bad = [1, target[wrong][0]] if wrong.any() else [0, 0]
    return {"losses": losses, "lse": np.where(kept, log_sum_exp(x, shift)[:, 0], zero()), "bad": bad}


def mean_of_counted(losses, target, ignore_index, *_):
    n = get_scalar_type().of(int((target != ignore_index).sum()))
    return {"y": [losses.sum() / n], "count": [n]}


# --- Norms


def normed(x, eps, centre=True):
    """(x - mean) / sqrt(var + eps), the mean, and the reciprocal root."""
    D = x.shape[1]
    mean = total(x) / D if centre else 0 * total(x)
    rstd = 1 / np.sqrt(total((x - mean) ** 2) / D + eps)
    return (x - mean) * rstd, mean[:, 0], rstd[:, 0]


def layer_norm(x, weight, bias, eps, *_):
    y, mean, rstd = normed(x, eps)
    y = y * weight if weight.size else y
    return {"y": y + bias if bias.size else y, "mean": mean, "rstd": rstd}


def rms_norm(x, weight, eps, *_):
    y, _, rstd = normed(x, eps, centre=False)
    return {"y": y * weight if weight.size else y, "rstd": rstd}


# --- Products, attention


def matmul(a, b, term, relu, *_):
    y = a @ b + term if term.size else a @ b
    return {"y": np.where(np.array([[[e.witness > 0 for e in row] for row in m] for m in y]), y, 0) if relu else y}


def attention(q, k, v, mask, scale, is_causal, *_, shift: Callable = unshifted):
    """Row i of a head: the mean of the v_m that i may see, weighted by exp(scale q_i . k_m); 0 if i sees none."""
    B, H, C, _ = q.shape
    y, lse = np.full((B, H, C, v.shape[-1]), zero()), np.empty((B, H, C), object)
    for b, h, i in np.ndindex(B, H, C):
        keys = [m for m in range(k.shape[2]) if (not is_causal or m <= i) and (not mask.size or mask[b, h, i, m])]
        if not keys:
            lse[b, h, i] = zero().log()
            continue
        scores = scale * (k[b, h, keys] @ q[b, h, i])[None]
        top = shift(scores)
        weights = np.exp(scores - top)
        lse[b, h, i] = (top + np.log(total(weights)))[0, 0]
        y[b, h, i] = (weights @ v[b, h, keys] / total(weights))[0]
    return {"y": y, "lse": lse}


# --- Optimizers


def sgd(p, g, buf, scale, hyper):
    lr, momentum, dampening, decay, nesterov, maximize, first = hyper
    d = (-g if maximize == 1 else g) + decay * p
    factor = scale if scale.size else 1
    if not buf.size:
        return {"p": p - factor * lr * d}
    buf = d if first == 1 else momentum * buf + (1 - dampening) * d
    return {"p": p - factor * lr * (d + momentum * buf if nesterov == 1 else buf), "buf": buf}


def adam(p, g, m, v, scale, hyper):
    lr, b1, b2, eps, decay, decoupled, t, maximize = hyper
    factor = scale if scale.size else 1
    p = p - factor * lr * decay * p if decoupled == 1 else p
    d = (-g if maximize == 1 else g) + (0 if decoupled == 1 else decay) * p
    m, v = b1 * m + (1 - b1) * d, b2 * v + (1 - b2) * d**2
    step = lr / (1 - b1**t) * m / (np.sqrt(v) / (1 - b2**t).sqrt() + eps)
    return {"p": p - factor * step, "m": m, "v": v}


# --- Chance
# Whole numbers are exact as they are. The draw for a place is written in remainders, where kernels use bits.


def scattered_bits(n: int) -> int:
    """A permutation of the numbers below 2^32: the function that C. Wellons found to be least biased of its kind."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        n = (n ^ n // 2**shift) * factor % 2**32
    return n ^ n // 2**16


def lot(key: int, draw: int, position: int) -> int:
    golden, size = 0x9E3779B9, 2**32
    upper = scattered_bits((position // size + draw * golden) % size)
    lower, keyed = scattered_bits((position * golden + upper) % size), scattered_bits((key ^ upper) % size)
    return scattered_bits((lower + keyed) % size)


def drawn_here(at, n):
    """The numbers of this part's n places, counted in the whole."""
    return [lot(int(at[0]), int(at[1]), int(at[2]) * n + i) for i in range(n)]


def uniform(at, shift, scale, y):
    return {"y": np.array([scale * (number >> shift) for number in drawn_here(at, y.size)], object)}


def dropped(x, at, threshold, scale, y):
    kept = [number < threshold for number in drawn_here(at, x.size)]
    return {"y": np.array([scale * v if k else zero() for v, k in zip(x, kept, strict=True)], object)}

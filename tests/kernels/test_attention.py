"""Attention and its gradients against NumPy in float64, and the promises about bits: rows and threads."""

import numba
import numpy as np
import pytest

from tinytensor.native.kernels.attention import (
    attention,
    attention_backward,
    attention_backward_scratch,
    attention_of_one,
    attention_of_one_scratch,
    attention_scratch,
)

# run as Python, the kernel works on NumPy's scalars, which warn of log(0) and -inf + inf
pytestmark = [pytest.mark.filterwarnings("ignore:divide by zero"), pytest.mark.filterwarnings("ignore:invalid value")]
JIT = not numba.config.DISABLE_JIT
SIZES = range(1, 41) if JIT else (1, 2, 4, 5, 17)
NO_MASK = np.zeros((0, 0, 0, 0), bool)
NAMES = ("y", "lse", "dq", "dk", "dv")


def empty(shape, dtype):
    """A (B, H, C, K) view of a (B, C, H, K) array full of NaN: a number that is forgotten, or read too early, shows."""
    b, h, c, k = shape
    return np.full((b, c, h, k), np.nan, dtype).transpose(0, 2, 1, 3)


def forward(q, k, v, mask=NO_MASK, scale=0.25, is_causal=0):
    sizes = (*q.shape[:3], k.shape[2], q.shape[3], v.shape[3])
    y, lse = empty((*q.shape[:3], v.shape[3]), q.dtype), np.full(q.shape[:3], np.nan, q.dtype)
    scratch = np.full(attention_scratch(*sizes), np.nan, q.dtype)
    attention(q, k, v, mask, q.dtype.type(scale), is_causal, y, lse, scratch)
    return y, lse


def forward_of_one(q, k, v, mask=NO_MASK, scale=0.25, is_causal=0):
    """The same by the kernel for one query."""
    y, lse = empty((*q.shape[:3], v.shape[3]), q.dtype), np.full(q.shape[:3], np.nan, q.dtype)
    scratch = np.full(attention_of_one_scratch(*q.shape[:2], *k.shape[2:], v.shape[3]), np.nan, q.dtype)
    attention_of_one(q, k, v, mask, q.dtype.type(scale), is_causal, y, lse, scratch)
    return y, lse


def both(g, q, k, v, mask=NO_MASK, scale=0.25, is_causal=0):
    y, lse = forward(q, k, v, mask, scale, is_causal)
    sizes = (*q.shape[:3], k.shape[2], q.shape[3], v.shape[3])
    dq, dk, dv = (empty(x.shape, x.dtype) for x in (q, k, v))
    scratch = np.full(attention_backward_scratch(*sizes), np.nan, q.dtype)
    attention_backward(g, q, k, v, mask, y, lse, q.dtype.type(scale), is_causal, dq, dk, dv, scratch)
    return y, lse, dq, dk, dv


def reference(g, q, k, v, mask=NO_MASK, scale=0.25, is_causal=0):
    """The same in float64, by the C x M matrices; no mask: -inf and 0 where a row may attend to nothing."""
    g, q, k, v = (x.astype(np.float64) for x in (g, q, k, v))
    s = scale * q @ k.swapaxes(2, 3)
    seen = np.tril(np.ones(s.shape[2:], bool)) if is_causal else np.ones(s.shape[2:], bool)
    seen = seen & mask if mask.size else np.broadcast_to(seen, s.shape)
    top = np.where(seen, s, -np.inf).max(-1, keepdims=True, initial=-np.inf)
    top[top == -np.inf] = 0
    e = np.where(seen, np.exp(np.where(seen, s - top, 0)), 0)
    total = e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    p = e / np.where(total == 0, 1, total)
    y = p @ v
    ds = p * (g @ v.swapaxes(2, 3) - (g * y).sum(-1, keepdims=True))
    return y, lse, scale * ds @ k, scale * ds.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ g


def check(got, expected, dtype):
    """Within 64 units of rounding of the largest number of each result (a sum of up to some 64 terms)."""
    unit = 64 * np.finfo(dtype).eps
    for name, a, b in zip(NAMES, got, expected, strict=True):
        finite = np.isfinite(b)
        assert (np.isneginf(a) == np.isneginf(b)).all(), name
        bound = unit * max(1.0, np.abs(b[finite]).max(initial=0))
        error = np.abs(a - np.where(finite, b, 0))[finite].max(initial=0)
        assert error <= bound, (name, error, bound)


def draw(rng, dtype, B, H, C, M, K, Kv):
    """g, q, k, v as heads of a fused (B, C, H K) buffer: strided."""
    shapes = ((C, Kv), (C, K), (M, K), (M, Kv))
    return [rng.standard_normal((B, c, H, d)).astype(dtype).transpose(0, 2, 1, 3) for c, d in shapes]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("which", range(4), ids=["C", "M", "K", "Kv"])
def test_every_size(which, dtype):
    rng = np.random.default_rng(which)
    for size in SIZES:
        sizes = [int(s) for s in rng.integers(1, max(SIZES) + 1, 4)]
        sizes[which] = size
        arrays = draw(rng, dtype, 1, 2, *sizes)
        is_causal = size % 2
        check(both(*arrays, is_causal=is_causal), reference(*arrays, is_causal=is_causal), dtype)


@pytest.mark.parametrize("is_causal", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_masks(dtype, is_causal):
    rng = np.random.default_rng(0)
    for C, M in ((9, 9), (21, 18), (3, 37)) if JIT else ((5, 5), (3, 18)):
        arrays = draw(rng, dtype, 2, 3, C, M, 8, 5)
        mask = rng.random((2, 3, C, M)) < 0.5
        mask[0, 0, 1] = False  # a row without keys
        mask[1] = False  # no keys at all
        got = both(*arrays, mask, is_causal=is_causal)
        check(got, reference(*arrays, mask, is_causal=is_causal), dtype)
        y, lse, dq, dk, dv = got
        assert (y[1] == 0).all() and (lse[1] == -np.inf).all() and (y[0, 0, 1] == 0).all() and (dq[0, 0, 1] == 0).all()
        assert (dq[1] == 0).all() and (dk[1] == 0).all() and (dv[1] == 0).all()
        row = np.ascontiguousarray(mask[:1, :1, :1])  # a padding mask: one row for all, by strides of 0
        padding = np.lib.stride_tricks.as_strided(row, mask.shape, (0, 0, 0, row.strides[3]))
        check(both(*arrays, padding, is_causal=is_causal), reference(*arrays, padding, is_causal=is_causal), dtype)


def test_wrong_number_is_noticed():
    rng = np.random.default_rng(0)
    arrays = draw(rng, np.float32, 1, 2, 5, 18, 3, 4)
    got, expected = both(*arrays, is_causal=1), reference(*arrays, is_causal=1)
    check(got, expected, np.float32)
    for i in range(5):
        wrong = [x.copy() for x in got]
        wrong[i].flat[-1] += np.float32(1e-4)
        with pytest.raises(AssertionError):
            check(wrong, expected, np.float32)


def test_causal_mask_is_the_loop_bound():
    rng = np.random.default_rng(0)
    for C, M in ((7, 7), (20, 33), (33, 20)) if JIT else ((5, 5), (5, 3)):
        arrays = draw(rng, np.float32, 1, 2, C, M, 4, 4)
        mask = np.ascontiguousarray(np.broadcast_to(np.tril(np.ones((C, M), bool)), (1, 2, C, M)))
        for a, b in zip(both(*arrays, is_causal=1), both(*arrays, mask), strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("empty_size", range(6), ids=["B", "H", "C", "M", "K", "Kv"])
def test_empty(empty_size):
    sizes = [2, 3, 5, 6, 4, 7]
    sizes[empty_size] = 0
    rng = np.random.default_rng(0)
    arrays = draw(rng, np.float32, *sizes)
    for is_causal in (0, 1):
        check(both(*arrays, is_causal=is_causal), reference(*arrays, is_causal=is_causal), np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_has_the_same_bits_alone(dtype):
    """Row i of a causal pass equals that query alone with its i + 1 keys: the promise behind the key/value cache."""
    rng = np.random.default_rng(0)
    for C, K, Kv in ((96, 8, 8), (41, 5, 19), (70, 33, 16)) if JIT else ((6, 3, 3), (18, 2, 2)):
        _, q, k, v = draw(rng, dtype, 1, 2, C, C, K, Kv)
        y, lse = forward(q, k, v, is_causal=1)
        for i in range(C):
            for kernel in (forward, forward_of_one):
                alone, alone_lse = kernel(q[:, :, i : i + 1], k[:, :, : i + 1], v[:, :, : i + 1])
                assert alone.tobytes() == y[:, :, i : i + 1].tobytes(), i
                assert alone_lse.tobytes() == lse[:, :, i : i + 1].tobytes(), i


def test_one_query_has_the_bits_of_many():
    """`attention_of_one` is `attention` with other lanes, with holes in a mask, hidden garbage and no keys, too."""
    rng = np.random.default_rng(0)
    for M, K, Kv in ((1, 1, 1), (7, 9, 3), (64, 32, 32), (133, 8, 17)) if JIT else ((1, 1, 1), (13, 3, 9)):
        _, q, k, v = draw(rng, np.float32, 2, 3, 1, M, K, Kv)
        masks = [NO_MASK, rng.random((2, 3, 1, M)) < 0.5, np.broadcast_to(np.arange(M) < M // 2, (2, 3, 1, M))]
        masks[1][0, 0], masks[1][1, 2] = False, True
        for mask in masks:
            hidden = k.copy(), v.copy()
            if mask.size:
                for x in hidden:
                    x[~mask[:, :, 0]] = np.nan
            for is_causal in (0, 1):
                y, lse = forward(q, k, v, mask, is_causal=is_causal)
                for keys, values in ((k, v), hidden):
                    one, one_lse = forward_of_one(q, keys, values, mask, is_causal=is_causal)
                    assert one.tobytes() == y.tobytes() and one_lse.tobytes() == lse.tobytes()


def test_the_number_of_threads_does_not_change_a_bit(one_and_two_threads):
    rng = np.random.default_rng(0)
    for B, H, C, M, K, Kv in ((3, 3, 51, 51, 8, 8), (1, 2, 199, 199, 4, 4), (9, 8, 25, 26, 3, 2)):
        arrays = draw(rng, np.float32, B, H, C, M, K, Kv)
        one, two = one_and_two_threads(lambda arrays=arrays: both(*arrays, is_causal=1), launches=2)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


def test_nan_stays_where_it_belongs():
    rng = np.random.default_rng(0)
    for key in (0, 5, 16):
        _, q, k, v = draw(rng, np.float32, 1, 1, 18, 18, 3, 3)
        k[0, 0, key, 1] = np.nan
        y, lse = forward(q, k, v, is_causal=1)
        assert (np.isnan(y).all(-1) == (np.arange(18) >= key)).all()
        assert (np.isnan(lse) == (np.arange(18) >= key)).all()
        _, q, k, v = draw(rng, np.float32, 1, 1, 18, 18, 3, 3)
        v[0, 0, key, 1] = np.inf
        y, lse = forward(q, k, v, is_causal=1)
        assert (y[0, 0, key:, 1] == np.inf).all() and np.isfinite(y[0, 0, :key]).all() and np.isfinite(lse).all()
        _, q, k, v = draw(rng, np.float32, 1, 1, 18, 18, 3, 3)
        q[0, 0, key, 0] = np.nan
        y, lse = forward(q, k, v, is_causal=1)
        assert (np.isnan(y[0, 0]).all(-1) == (np.arange(18) == key)).all()


def padded(x, M, rng):
    """x with so many positions that what comes after its own is garbage."""
    B, H, C, K = x.shape
    longer = np.full((B, M, H, K), np.nan, x.dtype).transpose(0, 2, 1, 3)
    longer[:, :, :C] = x
    longer[:, :, C + 1 :] = rng.standard_normal(longer[:, :, C + 1 :].shape)  # a NaN, then numbers
    return longer


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hidden_keys_change_no_bit_of_a_row(dtype):
    """A cache of fixed size whose empty part is hidden, whatever it holds: as if there were no further keys."""
    rng = np.random.default_rng(0)
    for C, M, K, Kv in ((41, 64, 8, 8), (19, 50, 5, 19)) if JIT else ((5, 12, 3, 3),):
        g, q, k, v = draw(rng, dtype, 2, 2, C, C, K, Kv)
        y, lse, dq, dk, dv = both(g, q, k, v, is_causal=1)
        long_k, long_v = padded(k, M, rng), padded(v, M, rng)
        mask = np.zeros((2, 1, C, M), bool)
        mask[:, :, :, :C] = np.tril(np.ones((C, C), bool))
        got = both(g, q, long_k, long_v, np.broadcast_to(mask, (2, 2, C, M)))
        for a, b in zip(got, (y, lse, dq, dk, dv), strict=True):
            assert a[:, :, : b.shape[2]].tobytes() == b.tobytes()
            assert (a[:, :, b.shape[2] :] == 0).all()
        for i in range(C):
            row = np.broadcast_to(mask[:, :, i : i + 1], (2, 2, 1, M))
            for kernel in (forward, forward_of_one):
                alone, alone_lse = kernel(q[:, :, i : i + 1], long_k, long_v, row)
                assert alone.tobytes() == y[:, :, i : i + 1].tobytes(), i
                assert alone_lse.tobytes() == lse[:, :, i : i + 1].tobytes(), i


def test_hidden_keys_may_be_infinite():
    """0 times inf is NaN: so nothing is multiplied by the probability 0 of what is hidden, also not in a gradient."""
    rng = np.random.default_rng(0)
    C = 11
    arrays = draw(rng, np.float32, 1, 1, C, C, 5, 6)
    mask = rng.random((1, 1, C, C)) < 0.5
    mask[0, 0, :, 2] = mask[0, 0, :, 7] = False
    for seen, is_causal in ((mask, 0), (NO_MASK, 1)):
        expected = both(*arrays, seen, is_causal=is_causal)
        for which in (2, 3):  # k, v
            for value in (np.inf, np.nan):
                changed = [x.copy() for x in arrays]
                changed[which][0, 0, 7] = value
                y, lse, dq, dk, dv = both(*changed, seen, is_causal=is_causal)
                rows = slice(None) if seen.size else slice(7)  # those that do not see the seventh
                for a, b in zip((y, lse, dq), expected, strict=False):
                    assert a[:, :, rows].tobytes() == b[:, :, rows].tobytes()
                if seen.size:
                    assert dk.tobytes() == expected[3].tobytes() and dv.tobytes() == expected[4].tobytes()
                else:
                    assert not np.isfinite(y[:, :, 7:]).all()
    changed = [x.copy() for x in arrays]
    changed[0][0, 0, 3] = np.nan  # the gradient of row 3, which sees the keys up to it
    *_, dk, dv = both(*changed, is_causal=1)
    assert np.isnan(dv[0, 0, :4]).all() and np.isfinite(dv[0, 0, 4:]).all() and np.isfinite(dk[0, 0, 4:]).all()


def test_scores_far_from_zero():
    """exp(1000) is inf, yet the softmax of (1000, 999) is an ordinary number: the maximum is taken off."""
    one = np.ones((1, 1, 1, 1), np.float32)
    k = np.array([1000, 999], np.float32).reshape(1, 1, 2, 1)
    v = np.array([1, 0], np.float32).reshape(1, 1, 2, 1)
    for sign in (1, -1):
        y, lse = forward(one, np.float32(sign) * k, v, scale=1)
        top = 1000 if sign == 1 else -999
        np.testing.assert_allclose(lse, top + np.log1p(np.exp(-1)), rtol=1e-7)
        np.testing.assert_allclose(y, 1 / (1 + np.exp(-sign)), rtol=2e-7)

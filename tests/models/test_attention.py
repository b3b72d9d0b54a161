"""Attention: the definitions against sums written out, all heads at once against the loop over heads, and masks."""

import itertools
import math
from functools import partial

import numpy as np
import pytest

import tinytensor as tt
from models.attention import (
    MultiHead,
    algorithm_1,
    algorithm_2,
    attention,
    feed_forward,
    join,
    project,
    simple_self_attention,
)
from models.decoder import Config, Decoder
from models.transformer import Config as TransformerConfig
from models.transformer import Transformer
from tests.models.whole_models import assert_near
from tinytensor import nn, tensor

D, H, D_K, D_V = 6, 3, 4, 5  # nothing divides anything: no width can stand in for another
near = partial(assert_near, document="004")


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def leaf(*shape, seed=0):
    return tensor(draw(*shape, seed=seed), requires_grad=True)


def multi_head(bias=False, seed=3):
    tt.manual_seed(seed)
    module = MultiHead(D, H, D_K, D_V, bias).double()
    for p in module.parameters():
        nn.init.normal_(p, std=0.7)
    return module


def heads_of(module):
    """Its weights, head by head, as algorithm_2 takes them (leaves of their own)."""
    W = [[tensor(w, requires_grad=True) for w in W.detach().numpy()] for W in (module.W_Q, module.W_K, module.W_V)]
    betas = [None] * 3
    if module.beta_Q is not None:
        betas = [
            [tensor(b, requires_grad=True) for b in beta.detach().numpy().reshape(H, -1)]
            for beta in (module.beta_Q, module.beta_K, module.beta_V)
        ]
    return W, tensor(module.W_O.detach().numpy().copy(), requires_grad=True), betas


# --- The definitions


def by_sums(Q, K, V, allowed=None):
    """001, steps 1 to 3, one number after the other: (weights, output). A row that may attend to nothing gives 0."""
    n, m = len(Q), len(K)
    A = np.zeros((n, m))
    for i in range(n):
        seen = [j for j in range(m) if allowed is None or allowed[i, j]]
        scores = {j: sum(q * k for q, k in zip(Q[i], K[j], strict=True)) / math.sqrt(len(Q[i])) for j in seen}
        total = math.fsum(math.exp(s) for s in scores.values())
        for j in seen:
            A[i, j] = math.exp(scores[j]) / total
    O = np.array([[math.fsum(A[i, j] * V[j, c] for j in range(m)) for c in range(V.shape[1])] for i in range(n)])
    return A, O


def test_simple_self_attention_equals_its_sums():
    X = draw(5, 3)
    expected = np.zeros((5, 3))
    for i in range(5):
        w = [math.exp(X[i] @ X[j]) for j in range(5)]
        expected[i] = sum(w[j] * X[j] for j in range(5)) / sum(w)
    near(simple_self_attention(tensor(X)).numpy(), expected)
    shuffled = [3, 0, 4, 1, 2]  # shuffle the inputs, and the outputs are shuffled in the same way (002)
    near(simple_self_attention(tensor(X[shuffled])).numpy(), expected[shuffled])


def test_attention_equals_its_sums():
    Q, K, V = draw(4, D_K), draw(7, D_K, seed=1), draw(7, D_V, seed=2)
    near(attention(tensor(Q), tensor(K), tensor(V)).numpy(), by_sums(Q, K, V)[1])


def test_algorithm_1_equals_its_sums():
    X, W_q, W_k, W_v = draw(5, D), draw(D, D_K, seed=1), draw(D, D_K, seed=2), draw(D, D_V, seed=3)
    Y = algorithm_1(*map(tensor, (X, W_q, W_k, W_v)))
    assert Y.shape == (5, D_V)
    near(Y.numpy(), by_sums(X @ W_q, X @ W_k, X @ W_v)[1])


def test_algorithm_1_is_algorithm_2_with_one_head():
    X, W = leaf(5, D), [leaf(D, n, seed=seed) for seed, n in enumerate((D_K, D_K, D_V), 1)]
    cotangent = tensor(draw(5, D_V, seed=4))
    results = []
    for Y in (
        algorithm_1(X, *W),
        nn.functional.scaled_dot_product_attention(*(project(X[None], w[None]) for w in W))[0, 0],
        algorithm_2(X, *([w] for w in W), tt.eye(D_V, dtype=tt.float64)),
    ):
        grads = tt.autograd.grad((Y * cotangent).sum(), [X, *W])
        results.append([t.detach().numpy() for t in (Y, *grads)])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            near(a, b)


@pytest.mark.parametrize("bias", [False, True])
def test_algorithm_2_equals_fused_attention(bias):
    """Values and every gradient; d_k, d_v and D / H differ."""
    module = multi_head(bias)
    X, (W, W_o, betas) = leaf(7, D), heads_of(module)
    cotangent = draw(7, D, seed=4)
    Y = algorithm_2(X, *W, W_o, *betas)
    if bias:
        Y = Y + module.beta_O.detach()  # Algorithm 2 has no bias after W^O; 000 gives none
    (Y * tensor(cotangent)).sum().backward()
    Z = leaf(1, 7, D)  # the same numbers, as a batch of one
    fused = module(Z)
    (fused * tensor(cotangent)).sum().backward()
    near(fused.detach().numpy()[0], Y.detach().numpy())
    near(Z.grad.numpy()[0], X.grad.numpy())
    near(module.W_O.grad.numpy(), W_o.grad.numpy())
    for parameter, single in zip((module.W_Q, module.W_K, module.W_V), W, strict=True):
        near(parameter.grad.numpy(), [w.grad.numpy() for w in single])
    if bias:
        for parameter, single in zip((module.beta_Q, module.beta_K, module.beta_V), betas, strict=True):
            expected = np.concatenate([b.grad.numpy() for b in single])
            near(parameter.grad.numpy(), expected, largest=np.abs(module.W_V.grad.numpy()).max())  # that of K is 0
        near(module.beta_O.grad.numpy(), cotangent.sum(0))


def test_a_column_of_ones_times_beta_is_the_bias():
    """Q = X W + 1 beta^T: the form of 000 for rows, written out."""
    module = multi_head(bias=True)
    X = draw(1, 7, D)
    Q = project(tensor(X), module.W_Q, module.beta_Q).detach().numpy()
    ones, beta = np.ones((7, 1)), module.beta_Q.detach().numpy().reshape(H, 1, D_K)
    for h in range(H):
        near(Q[0, h], X[0] @ module.W_Q.detach().numpy()[h] + ones @ beta[h])


def test_join_puts_the_heads_side_by_side():
    heads, W = draw(2, H, 7, D_V), draw(H * D_V, D, seed=1)
    side_by_side = np.concatenate([heads[:, h] for h in range(H)], axis=-1)
    near(join(tensor(heads), tensor(W)).numpy(), side_by_side @ W)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh"])
def test_feed_forward(activation):
    X, W_1, b_1, W_2, b_2 = draw(2, 3, D), draw(D, 8, seed=1), draw(8, seed=2), draw(8, D, seed=3), draw(D, seed=4)
    inner = X @ W_1 + b_1
    part = {
        "relu": inner > 0,
        "gelu": (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2,
        "gelu-tanh": (1 + np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3))) / 2,
    }
    expected = (inner * part[activation]) @ W_2 + b_2
    Y = feed_forward(*map(tensor, (X, W_1, b_1, W_2, b_2)), activation)
    near(Y.numpy(), expected)
    without = feed_forward(*map(tensor, (X, W_1)), None, tensor(W_2), None, activation)
    zeros = feed_forward(*map(tensor, (X, W_1, b_1 * 0, W_2, b_2 * 0)), activation)
    near(without.numpy(), zeros.numpy())


# --- Masks, self and cross

B, N, M = 2, 5, 7


def masked_case(cross, is_causal, padding):
    """(X, memory or None, mask or None, what may be attended to (B, n, m))."""
    X = draw(B, N, D)
    memory = draw(B, M, D, seed=1) if cross else None
    m = M if cross else N
    allowed = np.ones((B, N, m), bool)
    if is_causal:
        allowed &= np.array([[j <= i for j in range(m)] for i in range(N)])
    mask = None
    if padding == "keys":
        real = np.array([[j < n for j in range(m)] for n in (m, 3)])
        allowed, mask = allowed & real[:, None], real[:, None, None]
    elif padding == "any":  # of every head and row its own; row 2 of the first sentence may attend to nothing
        real = np.random.default_rng(5).random((B, N, m)) < 0.6
        real[..., 0], real[0, 2] = True, False
        allowed, mask = allowed & real, real[:, None]
    return X, memory, mask, allowed


MASKS = list(itertools.product([False, True], [False, True], [None, "keys", "any"]))


def run(module, X, memory, mask, is_causal, of="__call__"):
    memory, mask = (None if x is None else tensor(x) for x in (memory, mask))
    return getattr(module, of)(tensor(X), memory, mask, is_causal)


@pytest.mark.parametrize(("cross", "is_causal", "padding"), MASKS)
def test_every_combination_of_masks_equals_its_sums(cross, is_causal, padding):
    module = multi_head(bias=True)
    X, memory, mask, allowed = masked_case(cross, is_causal, padding)
    result = run(module, X, memory, mask, is_causal).detach().numpy()
    weights = run(module, X, memory, mask, is_causal, "weights").detach().numpy()
    (W, W_o, betas), source = heads_of(module), X if memory is None else memory
    W, betas = ([[t.detach().numpy() for t in single] for single in group] for group in (W, betas))
    for b in range(B):
        heads = []
        for h in range(H):
            Q, K, V = (of @ W[i][h] + betas[i][h] for i, of in enumerate((X[b], source[b], source[b])))
            A, O = by_sums(Q, K, V, allowed[b])
            near(weights[b, h], A)
            heads.append(O)
        Y = np.concatenate(heads, 1) @ W_o.detach().numpy() + module.beta_O.detach().numpy()
        near(result[b], Y)


@pytest.mark.parametrize(("cross", "is_causal", "padding"), MASKS)
def test_gradients_with_every_combination_of_masks(cross, is_causal, padding):
    """The fused path against the same made of small operations: weights times values."""
    module = multi_head(bias=True)
    X, memory, mask, _ = masked_case(cross, is_causal, padding)
    X = tensor(X, requires_grad=True)
    memory = None if memory is None else tensor(memory, requires_grad=True)
    mask = None if mask is None else tensor(mask)
    V = project(X if memory is None else memory, module.W_V, module.beta_V)
    written_out = join(module.weights(X, memory, mask, is_causal) @ V, module.W_O, module.beta_O)
    cotangent = tensor(draw(B, N, D, seed=9))
    leaves = [X, *([] if memory is None else [memory]), *module.parameters()]
    grads = [tt.autograd.grad((Y * cotangent).sum(), leaves) for Y in (module(X, memory, mask, is_causal), written_out)]
    largest = max(b.abs().max().item() for b in grads[1])  # that of beta_K is a difference of such numbers, and 0
    for a, b in zip(*grads, strict=True):
        near(a.numpy(), b.numpy(), largest=largest)


@pytest.mark.parametrize(("cross", "is_causal", "padding"), MASKS)
def test_each_row_is_a_convex_combination(cross, is_causal, padding):
    """001: weights that are positive and sum to 1, and an output inside the hull of the values, so inside their box."""
    module = multi_head()
    X, memory, mask, allowed = masked_case(cross, is_causal, padding)
    A = run(module, X, memory, mask, is_causal, "weights").detach().numpy()
    V = project(tensor(X if memory is None else memory), module.W_V).detach().numpy()  # (B, H, m, d_v)
    O = A @ V
    allowed = np.broadcast_to(allowed[:, None], A.shape)
    assert (A[allowed] > 0).all() and (A[~allowed] == 0).all()
    some = allowed.any(-1)
    np.testing.assert_allclose(A.sum(-1), some, rtol=1e-14)
    for b, h, i in np.argwhere(some):
        seen = V[b, h, allowed[b, h, i]]
        assert (O[b, h, i] >= seen.min(0) - 1e-14).all() and (O[b, h, i] <= seen.max(0) + 1e-14).all()


def test_fully_masked_rows_give_0_and_no_gradient():
    module = multi_head()
    X, _, mask, _ = masked_case(False, False, "any")
    X = tensor(X, requires_grad=True)
    memory = tensor(draw(B, N, D, seed=1))
    Y = module(X, memory, tensor(mask))
    assert not Y.detach().numpy()[0, 2].any()
    assert not module.weights(X, memory, tensor(mask)).detach().numpy()[0, :, 2].any()
    Y.sum().backward()
    gone = np.zeros((B, N), bool)
    gone[0, 2] = True
    assert not X.grad.numpy()[gone].any() and X.grad.numpy()[~gone].any(-1).all()
    assert np.isfinite(X.grad.numpy()).all()
    Y, X.grad = module(X, memory, tensor(np.zeros((B, 1, 1, N), bool))), None
    Y.sum().backward()
    assert not Y.detach().numpy().any() and not X.grad.numpy().any()


def test_masked_keys_and_values_do_not_matter():
    module = multi_head(bias=True)
    X, memory, mask, _ = masked_case(True, False, "keys")
    changed = memory.copy()
    changed[1, 3:] = 1e30
    a, b = (run(module, X, source, mask, False).detach().numpy() for source in (memory, changed))
    np.testing.assert_array_equal(a, b)  # bit for bit
    changed[1, 2] += 1
    c = run(module, X, changed, mask, False).detach().numpy()
    assert (a[1] != c[1]).all() and (a[0] == c[0]).all()


# --- Caches


def test_cached_rows_equal_causal_attention():
    module, X = multi_head(bias=True), tensor(draw(B, N, D))
    cache = []
    steps = [module(X[:, i : i + 1], cache=cache) for i in range(N)]
    assert cache[0].shape == (B, H, N, D_K) and cache[1].shape == (B, H, N, D_V)
    np.testing.assert_array_equal(tt.cat(steps, 1).detach().numpy(), module(X, is_causal=True).detach().numpy())


def test_keys_and_values_of_the_memory_are_computed_once():
    module, X, memory = multi_head(), tensor(draw(B, N, D)), tensor(draw(B, M, D, seed=1))
    cache = []
    first = module(X, memory, cache=cache)
    K, V = cache
    second = module(X, memory * 0, cache=cache)  # it is not looked at any more
    assert cache[0] is K and cache[1] is V
    np.testing.assert_array_equal(first.detach().numpy(), second.detach().numpy())


# --- Errors


@pytest.mark.parametrize(
    ("mask", "came"),
    [
        (np.ones((B, 1, 1, M + 1), bool), r"shape \(2, 1, 1, 8\) and dtype bool"),
        (np.ones((B, 1, M, N), bool), r"shape \(2, 1, 7, 5\)"),
        (np.ones((B, M), bool), r"shape \(2, 7\)"),
        (np.ones((1, B, 1, 1, M), bool), r"shape \(1, 2, 1, 1, 7\)"),
        (np.zeros((B, 1, 1, M)), "dtype float64"),
        (np.ones((B, 1, 1, M), np.int64), "dtype int64"),
    ],
)
@pytest.mark.parametrize("of", ["__call__", "weights"])
def test_mask_of_wrong_shape_or_dtype_is_refused(mask, came, of):
    X, memory = draw(B, N, D), draw(B, M, D)
    with pytest.raises(ValueError, match=came + r".*expected bool.*\(batch, heads, rows, keys\) = \(2, 3, 5, 7\)"):
        run(multi_head(), X, memory, mask, False, of)


def test_input_of_wrong_shape_is_refused():
    module = multi_head()
    with pytest.raises(RuntimeError, match=r"\(1, 5, 7\).*\(12, 6\)"):
        module(tensor(draw(1, 5, 7)))
    for X, memory in ((draw(5, D), None), (draw(2, 5, D), draw(5, D))):
        for of in ("__call__", "weights"):
            with pytest.raises(ValueError, match=r"rows of shape \(5, 6\); expected \(batch, rows, d_model\)"):
                run(module, X, memory, None, False, of)
    with pytest.raises(RuntimeError, match=r"query \(2, 3, 5, 4\), key \(3, 3, 5, 4\).*do not broadcast"):
        module(tensor(draw(2, 5, D)), tensor(draw(3, 5, D)))


# --- Dropout beside the mask


def with_dropout(C: int):
    """What computes C positions with dropout and a causal mask: functions of the input and whether it is masked."""
    module = nn.MultiheadAttention(D, H, dropout=0.5, batch_first=True).double()
    layer = nn.TransformerEncoderLayer(D, H, 8, dropout=0.5, batch_first=True).double()
    after = tensor(~np.tri(C, dtype=bool))

    def function(x, masked):
        return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5, is_causal=masked)

    def with_a_mask(x, masked):
        mask = tensor(np.tri(C, dtype=bool) if masked else np.ones((C, C), bool))
        return nn.functional.scaled_dot_product_attention(x, x, x, mask, dropout_p=0.5)

    def of_the_module(x, masked):
        return module(x, x, x, attn_mask=after if masked else None, is_causal=masked)[0]

    def of_the_layer(x, masked):
        return layer(x, after if masked else None, is_causal=masked)

    return function, with_a_mask, of_the_module, of_the_layer


@pytest.mark.parametrize("which", range(4), ids=["function", "mask", "MultiheadAttention", "TransformerEncoderLayer"])
def test_dropout_keeps_the_mask_causal(which):
    """At a size above the registers; without the mask the same test sees a difference."""
    C, position = 43, 30
    call = with_dropout(C)[which]
    x = draw(1, C, D)
    other = x.copy()
    other[:, position:] += 1

    def outputs(values, masked):
        tt.manual_seed(7)  # the same places are dropped
        return call(tensor(values), masked).detach().numpy()[:, :position]

    assert np.array_equal(outputs(x, True), outputs(other, True))
    assert not np.array_equal(outputs(x, False), outputs(other, False))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_later_tokens_change_no_earlier_logits(dropout):
    tt.manual_seed(1)
    C, position = 43, 30
    decoder = Decoder(Config(D=8, H=2, F=8, L=2, V=11, C=C, dropout=dropout)).double()
    both = Transformer(
        TransformerConfig(N=2, d_model=8, h=2, d_ff=8, n_vol=11, n_max=C, dropout=dropout)
    ).double()  # in training
    tokens = np.random.default_rng(0).integers(3, 11, (1, C))
    other = tokens.copy()
    other[:, position:] = 3 + (other[:, position:] - 2) % 8
    for run in (lambda t: decoder(t)[0], lambda t: both(tensor(tokens), t)[0]):
        results = []
        for values in (tokens, other):
            tt.manual_seed(7)
            results.append(run(tensor(values)).detach().numpy())
        assert np.array_equal(results[0][:, :position], results[1][:, :position])
        assert not np.array_equal(results[0][:, position:], results[1][:, position:])

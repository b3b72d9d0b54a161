"""Attention of rows that a mask closes, whole or in part: 0, with finite gradients, whatever kind of mask closes them.

PyTorch gives NaN for some of these (pytorch#41508, #103963); where it gives numbers, ours are the same.
"""

import math

import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn

CLOSED = tt.tensor([[True, True, False, False], [False] * 4, [False, True, True, True]])  # of 3 rows and 4 keys


def added(allowed: tt.Tensor) -> tt.Tensor:
    """The float mask of a bool one: 0 where a row may attend, else -inf."""
    return tt.zeros(allowed.shape, dtype=tt.float64).masked_fill(allowed.logical_not(), -math.inf)


MASKS = {
    "bool": CLOSED,
    "float": added(CLOSED),
    "float, with biases": added(CLOSED) + tt.tensor([[0.5, -2.0, 1.0, 3.0]]),
    "one row for all": tt.tensor([[False] * 4]),
    "one row for all, float": tt.full((1, 4), -math.inf, dtype=tt.float64),
}


def parts(*lead):
    tt.manual_seed(0)
    return [tt.randn(*lead, n, 2, dtype=tt.float64, requires_grad=True) for n in (3, 4, 4)]


def by_hand(q, k, v, mask):
    """softmax over the keys that are open, row by row."""
    rows = []
    for i in range(3):
        row = mask[min(i, len(mask) - 1)]
        indices = [m for m in range(4) if row[m].item() != (False if mask.dtype == tt.bool else -math.inf)]
        scores = [(q[i] * k[m]).sum() / math.sqrt(2) + (0 if mask.dtype == tt.bool else row[m]) for m in indices]
        if not indices:
            rows.append(0 * (q[i] + k[0] + v[0]))
            continue
        weights = tt.stack(scores).softmax(0)
        rows.append(sum(weights[n] * v[m] for n, m in enumerate(indices)))
    return tt.stack(rows)


WAYS = {
    "scaled_dot_product_attention": lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask),
    "its weights": lambda q, k, v, mask: F.attention_weights(q, k, mask) @ v,
    "with dropout of nothing": lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask, dropout_p=1e-12),
    "heads": lambda *args: F.scaled_dot_product_attention(*(x[None, None] for x in args[:3]), args[3])[0, 0],
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mask", MASKS)
def test_value_and_derivatives(way, mask):
    attend, mask = WAYS[way], MASKS[mask]
    arguments = parts()
    y, expected = attend(*arguments, mask), by_hand(*arguments, mask)
    assert tt.allclose(y, expected, rtol=1e-12, atol=1e-12)
    for g, e in zip(
        tt.autograd.grad((y**3).sum(), arguments), tt.autograd.grad((expected**3).sum(), arguments), strict=True
    ):
        assert tt.allclose(g, e, rtol=1e-10, atol=1e-12)
    assert tt.gradcheck(lambda *arguments: attend(*arguments, mask), tuple(arguments))
    assert tt.autograd.gradgradcheck(lambda *arguments: attend(*arguments, mask), tuple(arguments))


def test_gradient_of_an_added_bias():
    q, k, v = parts()
    bias = (tt.tensor([[0.5, -2.0, 1.0, 3.0]], dtype=tt.float64) + tt.zeros(3, 1, dtype=tt.float64)).requires_grad_()
    attend = lambda bias: F.scaled_dot_product_attention(q, k, v, bias + added(CLOSED))  # noqa: E731
    (g,) = tt.autograd.grad((attend(bias) ** 2).sum(), bias)
    assert g[1].tolist() == [0] * 4 and g[0, 2].item() == 0 and g[0, 0].item() != 0
    assert tt.gradcheck(attend, (bias,))


def test_compiled_attention_has_the_same_bits():
    def step(q, k, v, mask):
        for x in (q, k, v):
            x.grad = None
        (F.scaled_dot_product_attention(q, k, v, mask) ** 2).sum().backward()
        return [x.grad for x in (q, k, v)]

    arguments, replayed = parts(), tt.compile(step)
    for name in ("float", "float, with biases", "float"):
        expected = [g.tolist() for g in step(*arguments, MASKS[name])]
        assert [g.tolist() for g in replayed(*arguments, MASKS[name])] == expected


def test_more_queries_than_keys_and_causal():
    q, k, _ = parts()
    y = F.scaled_dot_product_attention(k, q, q, is_causal=True)
    assert tt.allclose(y[0], q[0]) and y.isfinite().all()
    assert tt.gradcheck(lambda k, q: F.scaled_dot_product_attention(k, q, q, is_causal=True), (k, q))


CAUSAL = nn.Transformer.generate_square_subsequent_mask(4, dtype=tt.float64)
LEFT = tt.tensor(
    [[True, True, False, False], [False] * 4, [True] * 4]
)  # what is padding; the last sequence is all of it
KINDS = {
    "float and bool": (CAUSAL, LEFT),
    "bool and bool": (CAUSAL != 0, LEFT),
    "float and float": (CAUSAL, added(LEFT.logical_not())),
    "bool and float": (CAUSAL != 0, added(LEFT.logical_not())),
}


def made(category):
    tt.manual_seed(1)
    return category.double().eval()


@pytest.mark.parametrize("category", KINDS)
@pytest.mark.parametrize("weights", [True, False])
def test_multihead_attention_padded_on_the_left(category, weights):
    causal, padding = KINDS[category]
    attention, x = made(nn.MultiheadAttention(6, 2, batch_first=True)), tt.randn(3, 4, 6, dtype=tt.float64)
    with tt.no_grad():
        attention.out_proj.bias.fill_(0.25)
    x.requires_grad_()
    y, A = attention(x, x, x, key_padding_mask=padding, attn_mask=causal, need_weights=weights)
    assert (y[0, :2] == 0.25).all() and (y[2] == 0.25).all() and (y[1] != 0.25).all()
    if weights:
        assert (A[0, :2] == 0).all() and tt.allclose(A[1].sum(-1), tt.ones(4, dtype=tt.float64))
    y.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in (x, *attention.parameters()))
    alone, _ = attention(x[:1, 2:], x[:1, 2:], x[:1, 2:], attn_mask=causal[2:, 2:])
    assert tt.allclose(y[0, 2:], alone[0])  # what is open is as if the padding were not there


@pytest.mark.parametrize("category", KINDS)
def test_layers_padded_on_the_left(category):
    causal, padding = KINDS[category]
    x = tt.randn(3, 4, 6, dtype=tt.float64)
    encoder = made(nn.TransformerEncoderLayer(6, 2, 8, batch_first=True))
    decoder = made(nn.TransformerDecoderLayer(6, 2, 8, batch_first=True))
    for layer, y in (
        (encoder, encoder(x, src_mask=causal, src_key_padding_mask=padding)),
        (decoder, decoder(x, x, tgt_mask=causal, tgt_key_padding_mask=padding, memory_key_padding_mask=padding)),
    ):
        assert y.isfinite().all()
        y.square().sum().backward()
        assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_softmax_of_a_closed_row_is_nan():
    assert tt.full((3,), -math.inf).softmax(0).isnan().all()

"""N-gram baselines: right by hand, honest (probabilities sum to 1, nothing learned from held-out tokens), strong."""

import numpy as np
import pytest

from models.data.ngram import NGram, baselines

V = 7


def sample(n, seed, transition):
    """n tokens of a Markov chain of order 2: transition (V, V, V), the last axis is the next token's probability."""
    rng = np.random.default_rng(seed)
    cumulated, uniform, tokens = transition.cumsum(-1), rng.random(n), [0, 0]
    for u in uniform:
        tokens.append(min(int(np.searchsorted(cumulated[tokens[-2], tokens[-1]], u)), V - 1))
    return np.array(tokens[2:])


def chain(seed, concentration=0.3):
    return np.random.default_rng(seed).dirichlet(np.full(V, concentration), (V, V))


def all_grams(order):
    return np.indices((V,) * order).reshape(order, -1).T  # (V^order, order)


MODELS = [(1, True), (2, False), (2, True), (3, True), (3, False), (4, True)]


@pytest.mark.parametrize(("order", "interpolate"), MODELS)
@pytest.mark.parametrize("n", [5, 40, 3000])
def test_probabilities_sum_to_one_after_every_history(order, interpolate, n):
    model = NGram(sample(n, 1, chain(2)), V, order, interpolate)
    for k in range(1, order + 1):  # shorter histories too
        p = model.probability(all_grams(k)).reshape(-1, V)
        assert p.min() > 0
        np.testing.assert_allclose(p.sum(-1), 1, rtol=0, atol=1e-12)


def test_lost_probability_mass_is_noticed():
    """Negative control of the test above."""
    model = NGram(sample(3000, 1, chain(2)), V, 2)
    model.tables[2].freed *= 0.9
    p = model.probability(all_grams(2)).reshape(-1, V)
    assert abs(p.sum(-1) - 1).max() > 1e-3


def test_unigram_by_hand():
    # counts: a 3 times, b twice, c once; n_1 ... n_4 are 1, 1, 1, 0, with one added 2, 2, 2, 1; Y = 2 / (2 + 2*2) = 1/3
    # d(1) = 1 - 2/3 * 2/2 = 1/3, d(2) = 2 - 3/3 * 2/2 = 1, d(3) = 3 - 4/3 * 1/2 = 7/3; freed (1/3 + 1 + 7/3) / 6
    model = NGram([0, 1, 0, 2, 1, 0], 4, order=1)
    expected = np.array([3 - 7 / 3, 2 - 1, 1 - 1 / 3, 0]) / 6 + 11 / 18 / 4
    np.testing.assert_allclose(model.probability(np.arange(4)[:, None]), expected, rtol=1e-14)
    # the mean is over all held-out tokens but the first
    assert model.cross_entropy([3, 0, 1, 1]) == pytest.approx(-np.log(expected[[0, 1, 1]]).mean(), rel=1e-14)


def test_interpolated_bigram_by_hand():
    # bigrams ab 2, ba 1, bc 1, ca 1: n = 3, 1, 0, 0, plus one: 4, 2, 1, 1; Y = 4/8; d(1) = 1 - 2/2 * 2/4 = 1/2,
    # d(2) = max(1/2, 2 - 3/2 * 1/2) = 5/4. Different tokens before a: 2, before b: 1, before c: 1; of those counts
    # n = 2, 1, 0, 0, plus one 3, 2, 1, 1; Y = 3/7; d(1) = 1 - 6/7 * 2/3 = 3/7, d(2) = 2 - 9/7 * 1/2 = 19/14
    model = NGram([0, 1, 0, 1, 2, 0], 3, order=2)
    unigram = np.array([2 - 19 / 14, 4 / 7, 4 / 7]) / 4 + (19 / 14 + 6 / 7) / 4 / 3
    after = np.array([[0, 2, 0], [1, 0, 1], [1, 0, 0]])  # after[h, w] = c(h w)
    discount = np.array([0, 1 / 2, 5 / 4])[after]
    total = after.sum(-1, keepdims=True)
    expected = (after - discount) / total + discount.sum(-1, keepdims=True) / total * unigram
    np.testing.assert_allclose(model.probability(all_grams_of(3)).reshape(3, 3), expected, rtol=1e-14)


def all_grams_of(v):
    return np.indices((v, v)).reshape(2, -1).T


def test_unseen_history_uses_the_shorter_one():
    model = NGram([0, 1, 0, 1, 2, 0], 4, order=3)
    unseen = np.array([[3, 1, 2], [2, 1, 0]])
    np.testing.assert_array_equal(model.probability(unseen), model.probability(unseen[:, 1:]))
    seen = np.array([[0, 1, 2]])
    assert model.probability(seen) != model.probability(seen[:, 1:])


def test_first_tokens_have_short_histories():
    model = NGram(sample(500, 3, chain(4)), V, order=4)
    tokens = np.array([3, 1, 4, 1, 5, 2])
    p = [model.probability(tokens[None, max(0, i - 3) : i + 1])[0] for i in range(1, 6)]
    assert model.cross_entropy(tokens) == pytest.approx(-np.log(p).mean(), rel=1e-14)
    assert model.cross_entropy(tokens[:2]) == pytest.approx(-np.log(p[0]), rel=1e-14)


def test_uniform_tokens_cost_log_v():
    rng = np.random.default_rng(0)
    train, heldout = rng.integers(V, size=200_000), rng.integers(V, size=20_000)
    for name, loss in baselines(train, heldout, V).items():
        assert loss == pytest.approx(np.log(V), abs=0.005), name


@pytest.mark.slow
def test_second_order_chain_is_learned_to_its_entropy():
    p = chain(5)
    train, heldout = sample(100_000, 6, p), sample(20_000, 7, p)
    true = -np.log(p[heldout[:-2], heldout[1:-1], heldout[2:]]).mean()
    losses = baselines(train, heldout, V)
    assert list(losses) == ["unigram", "bigram", "interpolated bigram", "interpolated trigram"]
    assert true - 0.001 < losses["interpolated trigram"] < true + 0.01
    assert losses["interpolated bigram"] > losses["interpolated trigram"] + 0.2
    assert losses["unigram"] > losses["interpolated bigram"] + 0.05


@pytest.mark.slow
def test_shuffled_tokens_teach_no_more_than_unigrams():
    """Negative control: counted on the same tokens in another order, the models know no more than the unigram's."""
    p = chain(5)
    train, heldout = sample(100_000, 6, p), sample(20_000, 7, p)
    shuffled = baselines(np.random.default_rng(0).permutation(train), heldout, V)
    in_order = baselines(train, heldout, V)
    assert shuffled["unigram"] == in_order["unigram"]
    for name in ("bigram", "interpolated bigram", "interpolated trigram"):
        assert shuffled[name] > in_order["unigram"] - 0.02 > in_order[name]


def test_few_data_favour_the_shorter_history():
    p = np.broadcast_to(chain(8)[0], (V, V, V))  # only one token back matters: the bigram is the right model
    train, heldout = sample(300, 9, p), sample(5_000, 10, p)
    interpolated, alone = (NGram(train, V, 3, interpolate).cross_entropy(heldout) for interpolate in (True, False))
    assert interpolated < alone - 0.02


def test_nothing_is_learned_from_heldout_tokens():
    p = chain(11)
    train, heldout = sample(2_000, 12, p), sample(2_000, 13, p)
    model = NGram(train, V, 3)
    first = model.cross_entropy(heldout)
    model.cross_entropy(heldout[::-1])
    assert model.cross_entropy(heldout) == first


@pytest.mark.parametrize("tokens", [[0], [0, 0], [0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]])
def test_smallest_texts_have_finite_losses(tokens):
    for order in range(1, min(len(tokens), 3) + 1):
        model = NGram(tokens, V, order)
        assert np.isfinite(model.cross_entropy([0, 1, 2, 3, 1, 1]))
        np.testing.assert_allclose(model.probability(all_grams(order)).reshape(-1, V).sum(-1), 1, rtol=0, atol=1e-12)


def test_wrong_tokens_raise():
    with pytest.raises(ValueError, match="tokens from 0 to 7 do not fit a vocabulary of 7: 0 to 6"):
        NGram([0, 7], V, 1)
    with pytest.raises(ValueError, match="tokens from -1 to 0"):
        NGram([0, 1], V, 1).cross_entropy([0, -1])
    with pytest.raises(ValueError, match="order 3 needs from 1 to 2"):
        NGram([0, 1], V, 3)
    with pytest.raises(ValueError, match="order 0"):
        NGram([0, 1], V, 0)
    with pytest.raises(ValueError, match="1 tokens leave nothing to predict"):
        NGram([0, 1], V, 1).cross_entropy([0])
    with pytest.raises(ValueError, match="do not fit 64-bit"):
        NGram([0, 1, 2], 3_000_000, 3)

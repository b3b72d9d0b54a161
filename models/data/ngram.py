"""N-gram models predict the next token by counting: their losses are the marks that a transformer has to beat.

Interpolated Kneser-Ney models. For a history h, with c(h w) the count of h followed by w:

    p_n(w | h) = [c(h w) - d(c)] / c(h)  +  p_{n-1}(w | h') * sum_w d(c(h w)) / c(h)

The discount d is taken from every n-gram that was seen, and the probability that it frees goes to the model whose
history h' is one token shorter; the last one is uniform, p_0 = 1/V. After an unseen history the shorter one decides.
In the shorter models a count is the number of different tokens seen before the n-gram: "Francisco" is frequent, but
only after "San". d comes from the training tokens alone, from how many n-grams occur once, twice, ... (Chen and
Goodman, An empirical study of smoothing techniques for language modeling, 1999, section 3.5 and eq. 26).
"""

import numpy as np


def baselines(train_tokens, heldout_tokens, vocab_size) -> dict[str, float]:
    """Cross-entropy in nats per held-out token of four n-gram models counted on the training tokens.

    All are means over the same N-1 positions as the transformer's eq. (16): every held-out token but the first, whose
    history is empty.
    """
    models = {
        "unigram": NGram(train_tokens, vocab_size, order=1),
        "bigram": NGram(train_tokens, vocab_size, order=2, interpolate=False),
        "interpolated bigram": NGram(train_tokens, vocab_size, order=2),
        "interpolated trigram": NGram(train_tokens, vocab_size, order=3),
    }
    return {name: model.cross_entropy(heldout_tokens) for name, model in models.items()}


class NGram:
    """p(token | the order-1 tokens before it), counted on `tokens`; with `interpolate=False` the discounted mass is
    spread evenly over all V tokens instead of going to the shorter histories.

    n-grams are kept as numbers in base V: the n-gram (u, v, w) is u*V^2 + v*V + w, its history (u, v) is key // V.
    """

    def __init__(self, tokens, vocab_size, order, interpolate=True):
        tokens = _checked(tokens, vocab_size)
        if not 1 <= order <= len(tokens):
            raise ValueError(f"NGram: order {order} needs from 1 to {len(tokens)} (the number of training tokens)")
        if vocab_size**order > np.iinfo(np.int64).max:
            raise ValueError(f"NGram: {vocab_size}^{order} n-grams do not fit 64-bit numbers; use a smaller order")
        self.vocab_size, self.order, self.tables = vocab_size, order, {}
        keys, counts = np.unique(self._keys(_windows(tokens, order)), return_counts=True)
        self.tables[order] = _Table(keys, counts, vocab_size)
        for n in range(order - 1, 0, -1) if interpolate else ():
            keys, counts = np.unique(keys % vocab_size**n, return_counts=True)  # the first token dropped
            self.tables[n] = _Table(keys, counts, vocab_size)

    def _keys(self, grams):
        return grams @ self.vocab_size ** np.arange(grams.shape[1])[::-1]

    def probability(self, grams) -> np.ndarray:
        """grams: (R, k) tokens, k <= order. p(last token | the k-1 before it): (R,) float64."""
        p = np.full(len(grams), 1 / self.vocab_size)
        for n in range(1, grams.shape[1] + 1):
            if n in self.tables:
                p = self.tables[n].refine(self._keys(grams[:, -n:]), p)
        return p

    def cross_entropy(self, tokens) -> float:
        """-mean(log p) in nats over every token but the first."""
        tokens = _checked(tokens, self.vocab_size)
        if len(tokens) < 2:
            raise ValueError(f"cross_entropy: {len(tokens)} tokens leave nothing to predict: at least 2 are needed")
        grams = [tokens[None, : i + 1] for i in range(1, min(self.order - 1, len(tokens)))]  # histories still short
        if len(tokens) >= self.order:
            grams.append(_windows(tokens, self.order)[1 if self.order == 1 else 0 :])
        return float(-np.mean(np.log(np.concatenate([self.probability(g) for g in grams]))))


class _Table:
    """The n-grams of one length: sorted keys with their discounted counts, sorted histories with their sums."""

    def __init__(self, keys, counts, vocab_size):
        discount = _discounts(counts)[np.minimum(counts, 3)]
        self.vocab_size, self.keys, self.kept = vocab_size, keys, counts - discount
        self.histories, inverse = np.unique(keys // vocab_size, return_inverse=True)
        self.total = np.bincount(inverse, counts)
        self.freed = np.bincount(inverse, discount)

    def refine(self, keys, shorter):
        """p_n from p_{n-1} for the n-grams `keys`: the equation at the top of this file."""
        at, seen = _find(self.keys, keys)
        history, known = _find(self.histories, keys // self.vocab_size)
        p = (self.kept[at] * seen + self.freed[history] * shorter) / self.total[history]
        return np.where(known, p, shorter)


def _discounts(counts) -> np.ndarray:
    """[0, d(1), d(2), d(3)] with d(j) = j - (j+1) Y n_{j+1} / n_j and Y = n_1 / (n_1 + 2 n_2); d(3) is for 3 and more.

    n_j is how many n-grams were seen j times. One is added to each n_j, and no discount is below Y: so 0 < d(j) < j for
    any text, however small.
    """
    n = np.bincount(counts, minlength=5)[:5] + 1
    y = n[1] / (n[1] + 2 * n[2])
    return np.array([0] + [max(y, j - (j + 1) * y * n[j + 1] / n[j]) for j in (1, 2, 3)])


def _find(sorted_keys, keys):
    """Where each key stands in sorted_keys (some valid place if nowhere), and whether it is there."""
    at = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return at, sorted_keys[at] == keys


def _windows(tokens, n):
    return np.lib.stride_tricks.sliding_window_view(tokens, n)  # (N-n+1, n)


def _checked(tokens, vocab_size):
    tokens = np.asarray(tokens, dtype=np.int64)
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < vocab_size:
        raise ValueError(
            f"NGram: tokens from {tokens.min()} to {tokens.max()} do not fit a vocabulary of {vocab_size}: "
            f"0 to {vocab_size - 1}"
        )
    return tokens

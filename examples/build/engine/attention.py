"""Step 8: attention. Lessons 9 and 10 teach it: eqs. (2) to (7) of document 003.

Each position of a text asks with a query q, shows a key k, and offers a value v. The weights say how much each position
reads of each other one:

    S = q kᵀ / √K        S' = S + M        Y = softmax(S') v

K is the width of a query. M is the mask: -∞ where a position would read a later one, else 0. It is added before the
softmax, since e^-∞ = 0 and the other weights still sum to 1. (Weights that are set to 0 afterwards do not.)

Several heads read side by side. Each has K = D / H of the D components. So (B, n, D) becomes (B, H, n, K): first
(B, n, H, K) by `reshape`, then swap two axes. A reshape to (B, H, n, K) alone would mix positions and components.
"""

import numpy as np

from .matrices import matmul, reshape, swap
from .softmax import softmax


def causal_mask(n):
    """M (n, n) as an array: row i is the position that asks, column m the one that is read; -∞ where m > i, else 0."""
    # hole
    return np.triu(np.full((n, n), -np.inf), 1)


def attention_weights(q, k):
    """softmax(q kᵀ / √K + M), for q and k (..., n, K): a tensor (..., n, n) of which each row sums to 1."""
    # hole
    n, K = q.shape[-2:]
    scores = matmul(q, swap(k, -1, -2)) * (1 / np.sqrt(K))
    return softmax(scores + causal_mask(n))


def attention(q, k, v):
    """What each position reads: the weights times v, (..., n, K)."""
    # hole
    return matmul(attention_weights(q, k), v)


def split_heads(x, H):
    """From (B, n, D) to (B, H, n, K), with K = D / H."""
    # hole
    B, n, D = x.shape
    return swap(reshape(x, (B, n, H, D // H)), 1, 2)


def join_heads(x):
    """From (B, H, n, K) back to (B, n, D)."""
    # hole
    B, H, n, K = x.shape
    return reshape(swap(x, 1, 2), (B, n, H * K))

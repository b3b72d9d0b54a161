"""The decoder-only transformer of document 003: equations (1) to (16), in order and in its own letters.

    D  width of the model          H  heads             K  width of a head, D / H
    F  width of the feed-forward   L  layers            V  size of the vocabulary
    C  size of the context window  B  sequences side by side (not in the document)

This page is the code that trains. Each equation has a line, which begins with its number. Where one kernel computes
several equations, their lines stand above its call. `w` is the module that owns the weights (model.py); a weight X_j^k
of the document, which is summed over its lower index, is stored as w.X[j, k], lower index first. The document has some
letters twice (V is the vocabulary and a weight, K and F are widths and weights, L the layers and the logits). Here the
sizes belong to the configuration and the weights to the module: `config.V`, `w.V`.

The switches of config.py act inside the methods of `w` (`normalized`, `drop`, `positioned`, `output`), and a bias that
document 003 does not have is None. A cache (cache.py) holds keys and values of earlier tokens. Equation (17) is
`loss.backward()`, and (18) is the optimizer's step: see `training_step` in models/training/trainer.py.

How the text is read where it leaves a choice:

- Eq. (3) multiplies row i by K and row m by Q, but in (5) and (6) row i attends to m <= i. As everywhere else, the row
  that attends has the query here: S_im = q_i . k_m. With the names Q and K exchanged this is eq. (3).
- Eq. (6) stands for Y_i = sum_m softmax_m(S'_im) (Z V)_m, and (5) for m <= i.
- The norms divide by sqrt(variance + eps): without eps a constant vector would be divided by zero.
- "Before proceeding, these values are normalized: Z -> ..." after eq. (1), and then Z -> Z' -> Z'' for the layers: does
  each layer normalise its input, and does eq. (9) add to the normalised Z? Three readings differ (`residual`):

      "literal"   each layer begins with Z -> norm(Z), and eq. (9) adds A to that normalised Z
      "once"      only the embedding is normalised; later layers take Z' as it comes
      "pre-norm"  each layer attends to norm(Z), and eq. (9) adds A to Z as it was, as in GPT-2
"""

from models.attention import affine, feed_forward, project, side_by_side
from models.decoder.cache import Cache, with_earlier
from tinytensor import Tensor
from tinytensor.nn import Module, functional


def embedding(w: Module, t: Tensor, at: Tensor | None = None) -> Tensor:
    """Equation (1): Z (B, C, D) of tokens t (B, C) at positions 0, 1, ..., or of one token at position `at` (1,)."""
    Z = w.positioned(functional.embedding(t, w.E), at)  # (1)  Z_i^j = E_{t_i}^j + P_i^j: (B, C, D)
    return w.drop(w.normalized_once(Z))


def block(w: Module, Z: Tensor, cache: Cache | None = None, layer: int = 0) -> Tensor:
    """Equations (2) to (10): one layer, Z (B, C, D) to Z' (B, C, D)."""
    Z, N = w.normalized(Z)  # N = (Z - <Z>) / sqrt(sigma(Z) + eps), and Z -> N in the literal reading: (B, C, D)
    # Three products, not one with all weights side by side: its gradient would have to be put together from three
    # parts again, and that costs more than it saves.
    q = project(N, w.Q, w.q)  # (2)  q_i^k = N_i^j Q_j^k for each head, and so k and v: (B, H, C, K)
    k = project(N, w.K, w.k)
    v = project(N, w.V, w.v)
    k, v, known = with_earlier(cache, layer, k, v)
    causal = w.config.causal and q.shape[2] > 1  # the last row alone may attend to all
    # (3)  S_im = q_i . k_m / sqrt(K): (B, H, C, C)
    # (4)  S'_im = S_im + M_im
    # (5)  M_im = 0 if m <= i, otherwise -inf
    # (6)  Y_i = sum_m softmax_m(S'_im) v_m: (B, H, C, K)
    Y = functional.scaled_dot_product_attention(q, k, v, known, w.dropout, causal)
    Y_hat = side_by_side(Y)  # (7)  Y_hat_i = Y_i of head 1 ⊕ ... ⊕ Y_i of head H, side by side: (B, C, D)
    A = affine(Y_hat, w.W, w.w)  # (8)  A_i^j = W_l^j Y_hat_i^l: (B, C, D)
    Z_hat = Z + w.drop(A)  # (9)  Z_hat = Z + A: (B, C, D)
    Z_bar = w.middle(Z_hat)  # (Z_hat - <Z_hat>) / sqrt(sigma(Z_hat) + eps): (B, C, D)
    X = feed_forward(Z_bar, w.F, w.b, w.G, w.c, w.config.activation)
    return Z_hat + w.drop(X)  # (10)  Z' = Z_hat + G max(0, F Z_bar + b) + c: (B, C, D)


def logits(w: Module, Z: Tensor) -> Tensor:
    """Equation (11): L (B, C, V) of Z (B, C, D) after the last layer."""
    return affine(w.normalized_last(Z), w.output)  # (11)  L_i^m = Z'_i^j O_j^m: (B, C, V)


def loss(L: Tensor, t: Tensor, total: Tensor | None = None) -> Tensor:
    """Equations (12) to (16): the loss 𝓛 () of logits L (B, C, V) and right tokens t (B, C).

    Positions whose t is IGNORE_INDEX (-100) are not counted. Where the batch is a part of a larger one, `total` () says
    how many positions are counted in all of it; the losses of the parts add up.
    """
    L, t = L.flatten(0, 1), t.flatten()  # the positions of all sequences: (B C, V) and (B C)
    # (12)  𝓛_i = -log(exp L_i^t / sum_j exp L_i^j)
    # (13)  which is the cross-entropy H(p, q) = -sum_j p^j log q^j
    # (14)  of q^j = exp L_i^j / sum_m exp L_i^m
    # (15)  and p^j = 1 if j = t, otherwise 0
    # (16)  𝓛 = <𝓛_i>, the mean over the counted positions: ()
    if total is None:
        return functional.cross_entropy(L, t)
    return functional.cross_entropy(L, t, reduction="sum") / total

"""Attention and the feed-forward network, the parts of every model here, in the letters of 000 and 001.

First the definitions, to be read: the self-attention without parameters that 002 starts from, Algorithm 1 of 000, and
Algorithm 2 with its loop over heads. Then the same with all heads at once, as the models use it, on batches; a test
shows that both agree.

Two departures from the sources (both from 000): with X in R^{N x D}, one row a token, the form with biases is
Q = X W + 1 beta^T, 1 being a column of N ones (the source has Prince's Q = beta 1^T + Omega X, for columns); and the
weights of Algorithm 2 are D x d_k, D x d_v and h d_v x D (the source has d_k x d_k, ..., which fits only if d_k = D).

Masks are bool, True where a row may attend, and broadcast to (B, h, rows, keys).
"""

import math

import numpy as np

from tinytensor import Tensor, cat, empty, empty_permuted, linear, nn, softmax, tensor
from tinytensor.nn import Parameter, functional, init
from tinytensor.nn.functional import attention_weights

# --- The definitions, to be read


def simple_self_attention(X: Tensor) -> Tensor:
    r"""y_i = \sum_j w_{ij} x_j, w_{ij} = softmax_j(x_i \cdot x_j): where 002 begins, without parameters.

    X (N, D) gives (N, D).
    """
    return softmax(X @ X.mT, -1) @ X


def attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    r"""Attention(Q, K, V) = softmax(Q K^T / \sqrt{d_k}) V (000; 001; 004).

    Q (n, d_k), K (m, d_k), V (m, d_v) give (n, d_v). Each row of weights is positive and sums to 1, so that each row of
    the result is a convex combination of the rows of V (001).
    """
    d_k = Q.shape[-1]
    return softmax(Q @ K.mT / math.sqrt(d_k), -1) @ V


def algorithm_1(X: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    """Scaled dot-product self-attention: X (N, D), weights (D, d_k), (D, d_k) and (D, d_v) give (N, d_v) (000)."""
    Q = X @ W_q  # (N, d_k)
    K = X @ W_k  # (N, d_k)
    V = X @ W_v  # (N, d_v)
    return attention(Q, K, V)


def algorithm_2(X: Tensor, W_q, W_k, W_v, W_o: Tensor, beta_q=None, beta_k=None, beta_v=None) -> Tensor:
    """Multi-head self-attention, head by head (000; head_i and W^O of 001): X (N, D) gives (N, D).

    W_q and W_k are lists of h weights (D, d_k), W_v of (D, d_v); W_o is (h d_v, D). The biases, if given, are lists of
    h vectors (d_k), (d_k) and (d_v).
    """
    heads = []
    for h in range(len(W_q)):
        Q_h, K_h, V_h = X @ W_q[h], X @ W_k[h], X @ W_v[h]
        if beta_q is not None:
            Q_h, K_h, V_h = Q_h + beta_q[h], K_h + beta_k[h], V_h + beta_v[h]
        heads.append(attention(Q_h, K_h, V_h))  # (N, d_v)
    H = cat(heads, dim=-1)  # (N, h d_v): side by side, along the features
    return H @ W_o


# --- All heads at once, in batches


def project(X: Tensor, W: Tensor, beta: Tensor | None = None) -> Tensor:
    """X W_j + beta_j for every head j: X (B, n, D), W (h, D, d), beta (h d) give (B, h, n, d)."""
    if X.ndim != 3:
        raise ValueError(f"attention: rows of shape {X.shape}; expected (batch, rows, d_model)")
    h, _, d = W.shape
    all_heads = W.transpose(0, 1).flatten(1)  # (D, h d): W_1, ..., W_h side by side, as they lie in memory
    return linear(X, all_heads.t(), beta).unflatten(-1, (h, d)).transpose(1, 2)


def weights_of_heads(h: int, D: int, d: int, device=None) -> Parameter:
    """W_1, ..., W_h (h, D, d), which lie side by side in memory: one matrix (D, h d) multiplies for all heads."""
    return Parameter(empty_permuted((h, D, d), (1, 0, 2), device=device))


def lying_side_by_side(array: np.ndarray) -> np.ndarray:
    """The array of weights of heads (h, D, d), in the memory that `weights_of_heads` gives them."""
    return np.ascontiguousarray(array.transpose(1, 0, 2)).transpose(1, 0, 2)


def affine(X: Tensor, W: Tensor, beta: Tensor | None = None) -> Tensor:
    """X W + beta: X (..., D), W (D, d), beta (d) give (..., d)."""
    return linear(X, W.t(), beta)


def side_by_side(heads: Tensor) -> Tensor:
    """Concat(head_1, ..., head_h), along the features: heads (B, h, n, d) give (B, n, h d)."""
    return heads.transpose(1, 2).flatten(2)


def join(heads: Tensor, W: Tensor, beta: Tensor | None = None) -> Tensor:
    """Concat(head_1, ..., head_h) W + beta: heads (B, h, n, d), W (h d, D), beta (D) give (B, n, D)."""
    return affine(side_by_side(heads), W, beta)


def remember(cache: list, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
    """All keys and values so far, (B, h, m, d) each; `cache`, a KV cache that grows, keeps them, and is [] at first."""
    if cache:
        K, V = cat([cache[0], K], dim=2), cat([cache[1], V], dim=2)
    cache[:] = [K, V]
    return K, V


def feed_forward(X: Tensor, W_1: Tensor, b_1, W_2: Tensor, b_2, activation: str = "relu") -> Tensor:
    """max(0, X W_1 + b_1) W_2 + b_2, or GELU in place of max(0, .) (000; 004; eq. 10 of 003).

    X (..., D), W_1 (D, d_ff), W_2 (d_ff, D); a bias may be None. "gelu-tanh" is GPT-2's formula for GELU, with tanh.
    """
    if activation == "relu":
        inner = linear(X, W_1.t(), b_1, relu=True)  # (..., d_ff)
    else:
        inner = functional.gelu(affine(X, W_1, b_1), "tanh" if activation == "gelu-tanh" else "none")
    return affine(inner, W_2, b_2)


def scaled_normal(weight: Parameter, terms) -> None:
    """Initial values with variance 1 / terms: a sum over `terms` products with them keeps its terms' variance."""
    if weight.device != "meta":
        init.normal_(weight, std=1 / math.sqrt(terms))


class MultiHead(nn.Module):
    r"""MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, head_j = Attention(Q W_j^Q, K W_j^K, V W_j^V) (001; 004).

    `depth` residual sublayers share the variance that W^O may add to the stream.
    """

    def __init__(self, d_model, h, d_k, d_v, bias: bool = False, depth: int = 1, device=None):
        super().__init__()
        self.depth = depth
        self.W_Q = weights_of_heads(h, d_model, d_k, device)
        self.W_K = weights_of_heads(h, d_model, d_k, device)
        self.W_V = weights_of_heads(h, d_model, d_v, device)
        self.W_O = Parameter(empty(h * d_v, d_model, device=device))
        self.beta_Q, self.beta_K, self.beta_V, self.beta_O = (
            (Parameter(empty(n, device=device)) if bias else None) for n in (h * d_k, h * d_k, h * d_v, d_model)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.W_Q, self.W_K, self.W_V):
            scaled_normal(weight, weight.shape[1])
        scaled_normal(self.W_O, self.depth * self.W_O.shape[0])
        for bias in (self.beta_Q, self.beta_K, self.beta_V, self.beta_O):
            if bias is not None:
                init.zeros_(bias)

    def forward(
        self,
        X: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: list | None = None,
    ) -> Tensor:
        """(B, n, d_model) for the rows X (B, n, d_model), which attend to themselves or to `memory` (B, m, d_model).

        `cache`, [] at first, keeps keys and values: those of `memory` are computed once, those of X are appended to
        earlier ones.
        """
        Q = project(X, self.W_Q, self.beta_Q)  # (B, h, n, d_k)
        if memory is not None and cache:
            K, V = cache
        else:
            source = X if memory is None else memory
            K = project(source, self.W_K, self.beta_K)  # (B, h, m, d_k)
            V = project(source, self.W_V, self.beta_V)  # (B, h, m, d_v)
            if cache is not None:
                K, V = remember(cache, K, V)
        mask = self._mask(mask, is_causal, Q, K)
        heads = functional.scaled_dot_product_attention(Q, K, V, mask, is_causal=is_causal and mask is None)
        return join(heads, self.W_O, self.beta_O)

    def weights(
        self, X: Tensor, memory: Tensor | None = None, mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """A = softmax(Q K^T / sqrt(d_k)) (001, step 2) of each head: (B, h, n, m), each row a convex combination."""
        Q = project(X, self.W_Q, self.beta_Q)
        K = project(X if memory is None else memory, self.W_K, self.beta_K)
        mask = self._mask(mask, is_causal, Q, K)
        return attention_weights(Q, K, mask, is_causal=is_causal and mask is None)

    @staticmethod
    def _mask(mask: Tensor | None, is_causal: bool, Q: Tensor, K: Tensor) -> Tensor | None:
        """The mask combined with the causal one; None if no other mask than the causal one is needed."""
        if mask is None:
            return None
        expected = (*Q.shape[:3], K.shape[2])
        fits = mask.ndim <= 4 and all(a in (1, b) for a, b in zip(mask.shape[::-1], expected[::-1]))
        if not fits or mask.dtype.kind != "b":
            raise ValueError(
                f"MultiHead: a mask of shape {mask.shape} and dtype {mask.dtype}; expected bool (True: may attend) "
                f"that broadcasts to (batch, heads, rows, keys) = {expected}; for padding: (batch, 1, 1, keys)"
            )
        return mask & tensor(np.tri(*expected[2:], dtype=bool)) if is_causal else mask

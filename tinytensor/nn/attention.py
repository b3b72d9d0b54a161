"""Multi-head attention as a module, with PyTorch's parameters and masks."""

import math

from tinytensor.core.dtypes import bool_
from tinytensor.core.tensor import Tensor
from tinytensor.nn import functional as F
from tinytensor.nn import init
from tinytensor.nn.layers import Linear
from tinytensor.nn.module import Module, Parameter
from tinytensor.ops.creation import empty, ones, zeros
from tinytensor.ops.elementwise import where
from tinytensor.ops.fused import linear


class MultiheadAttention(Module):
    """H heads of scaled dot-product attention, joined and projected (001; PyTorch's parameters and shapes).

    query (B, C, E), key (B, M, kdim), value (B, M, vdim) if `batch_first`, else with positions first; without a batch
    (C, E) and so on. The masks `key_padding_mask` (B, M) and `attn_mask` (C, M) or (B H, C, M) are bool, True for
    positions NOT to attend to (as in PyTorch), or float, added to the scores. Returns (y, weights); the weights are
    None unless `need_weights`, and averaged over the heads if `average_attn_weights`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim {embed_dim} is not a multiple of num_heads {num_heads}")
        if add_bias_kv or add_zero_attn:
            raise NotImplementedError("MultiheadAttention: add_bias_kv and add_zero_attn are not offered")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first = dropout, batch_first
        self.together = self.kdim == self.vdim == embed_dim
        where = {"device": device, "dtype": dtype}
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"):
            self.register_parameter(name, None)
        if self.together:
            self.in_proj_weight = Parameter(empty(3 * embed_dim, embed_dim, **where))
        else:
            self.q_proj_weight = Parameter(empty(embed_dim, embed_dim, **where))
            self.k_proj_weight = Parameter(empty(embed_dim, self.kdim, **where))
            self.v_proj_weight = Parameter(empty(embed_dim, self.vdim, **where))
        if bias:
            self.in_proj_bias = Parameter(zeros(3 * embed_dim, **where))
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, **where)
        if bias:
            init.zeros_(self.out_proj.bias)
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        batched = query.ndim == 3
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise RuntimeError(
                f"MultiheadAttention: query {query.shape}, key {key.shape}, value {value.shape}: expected all of them "
                "with a batch (3 dimensions) or all without (2)"
            )
        if not batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        E, H = self.embed_dim, self.num_heads
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        if self.together:
            matrices = self.in_proj_weight.chunk(3)
        else:
            matrices = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        # A walkthrough shows the names of these variables.
        Q, K, V = (linear(x, w, b) for x, w, b in zip((query, key, value), matrices, biases, strict=True))
        Q, K, V = (x.unflatten(-1, (H, E // H)).transpose(1, 2) for x in (Q, K, V))  # (B, H, C, E / H)
        mask = self._mask(attn_mask, key_padding_mask, is_causal and attn_mask is None, Q, K, batched)
        p = self.dropout if self.training else 0.0
        if need_weights:
            weights = F.dropout(F.attention_weights(Q, K, mask), p)
            heads = weights.matmul(V)
        else:
            weights, heads = None, F.scaled_dot_product_attention(Q, K, V, mask, p)
        output = self.out_proj(heads.transpose(1, 2).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output if self.batch_first else output.transpose(0, 1), weights

    def _mask(self, attn_mask, key_padding_mask, is_causal, q, k, batched) -> Tensor | None:
        """All masks as one: bool with True for "may attend", or float, added to the scores, if any of them is float."""
        B, H, C, M = *q.shape[:3], k.shape[2]
        masks = []
        if is_causal:
            masks.append(ones(C, M).triu(1) != 0)
        if attn_mask is not None:
            if attn_mask.shape not in ((C, M), (B * H, C, M)):
                raise RuntimeError(
                    f"MultiheadAttention: attn_mask of shape {attn_mask.shape}, expected {(C, M)} or {(B * H, C, M)}"
                )
            masks.append(attn_mask.reshape((B, H, C, M)) if attn_mask.ndim == 3 else attn_mask)
        if key_padding_mask is not None:
            expected = (B, M) if batched else (M,)
            if key_padding_mask.shape != expected:
                raise RuntimeError(
                    f"MultiheadAttention: key_padding_mask of shape {key_padding_mask.shape}, expected {expected}"
                )
            masks.append(key_padding_mask.reshape((B, 1, 1, M)))
        if not masks:
            return None
        if all(m.dtype == bool_ for m in masks):
            forbidden = masks[0]
            for m in masks[1:]:
                forbidden = forbidden.logical_or(m)
            return forbidden.logical_not()
        added = [where(m, -math.inf, zeros((), dtype=q.dtype)) if m.dtype == bool_ else m for m in masks]
        total = added[0]
        for m in added[1:]:
            total = total + m
        return total

    def extra_repr(self):
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"

"""The Transformer of 001 as PyTorch's modules: encoder and decoder layers, stacks of them, and both together.

Names, shapes and masks are PyTorch's, so that its weights can be loaded: a bool mask is True for positions NOT to
attend to, a float mask is added to the scores. This project's documents have their models in `models/`.
"""

import copy
import math
from collections.abc import Callable

from tinytensor.core.tensor import Tensor
from tinytensor.nn import functional as F
from tinytensor.nn import init
from tinytensor.nn.attention import MultiheadAttention
from tinytensor.nn.containers import ModuleList
from tinytensor.nn.layers import Dropout, LayerNorm, Linear
from tinytensor.nn.module import Module, check_layers
from tinytensor.ops.creation import full

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}


class _Layer(Module):
    """The common parts of encoder and decoder layers: attention, two linear maps with an activation between, norms."""

    sublayers: int  # each has a norm and a dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if isinstance(activation, str) and activation not in ACTIVATIONS:
            what = type(self).__name__
            raise RuntimeError(f"{what}: activation must be 'relu', 'gelu' or a function, got {activation!r}")
        where = {"device": device, "dtype": dtype}
        for name in ("self_attn", "multihead_attn")[: self.sublayers - 1]:
            attention = MultiheadAttention(d_model, nhead, dropout, bias=bias, batch_first=batch_first, **where)
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        for i in range(1, self.sublayers + 1):
            self.add_module(f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        for i in range(1, self.sublayers + 1):
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.norm_first = norm_first
        self.activation = ACTIVATIONS[activation] if isinstance(activation, str) else activation

    def _around(self, i: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """norm(x + sublayer i of x), or x + sublayer i of norm(x) if `norm_first`; dropout acts on the sublayer."""
        norm, dropout = self._modules[f"norm{i}"], self._modules[f"dropout{i}"]
        if self.norm_first:
            return x + dropout(sublayer(norm(x)))
        return norm(x + dropout(sublayer(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _causal(mask: Tensor | None, is_causal: bool | None) -> dict:
    return {"attn_mask": mask, "is_causal": bool(is_causal), "need_weights": False}


class TransformerEncoderLayer(_Layer):
    """Self-attention, then the feed-forward network: src (N, S, E) if `batch_first`, else (S, N, E), or (S, E).

    From Vaswani and others (2017).
    """

    sublayers = 2

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, key_padding_mask=src_key_padding_mask, **_causal(src_mask, is_causal))[0]

        return self._around(2, self._around(1, src, attend), self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output (`memory`), then the feed-forward network."""

    sublayers = 3

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            masks = _causal(tgt_mask, tgt_is_causal)
            return self.self_attn(x, x, x, key_padding_mask=tgt_key_padding_mask, **masks)[0]

        def look(x: Tensor) -> Tensor:
            masks = _causal(memory_mask, memory_is_causal)
            return self.multihead_attn(x, memory, memory, key_padding_mask=memory_key_padding_mask, **masks)[0]

        x = self._around(2, self._around(1, tgt, attend), look)
        return self._around(3, x, self._feed_forward)


class _Stack(Module):
    """Copies of a layer, one after the other, then a norm if there is one."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__()
        check_layers(type(self).__name__, num_layers)
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def _through(self, x: Tensor, *args, **kwargs) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args, **kwargs)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Copies of an encoder layer."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        return self._through(src, mask, src_key_padding_mask, is_causal=is_causal)


class TransformerDecoder(_Stack):
    """Copies of a decoder layer."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self._through(tgt, memory, *masks, tgt_is_causal, memory_is_causal)


class Transformer(Module):
    """Encoder and decoder (001): y (N, T, E) from src (N, S, E) and tgt (N, T, E), or with positions first."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        where = {"device": device, "dtype": dtype}
        settings = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias

        def stack(cls: type, layer: type, n: int) -> Module:
            return cls(layer(*settings, **where), n, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))

        self.encoder = custom_encoder or stack(TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)
        self.decoder = custom_decoder or stack(TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(f"Transformer: src {src.shape} and tgt {tgt.shape} must have the width {self.d_model}")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device=None, dtype=None) -> Tensor:
        """A mask to add to the scores: 0 for earlier positions and the position itself, -inf for later ones."""
        return full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)

"""The KV cache: keys and values of tokens that a decoder has read; a later call computes only those of new tokens."""

from models.decoder.config import Config
from tinytensor import Tensor, arange, int64, zeros


class Cache:
    """The KV cache of a decoder: `Decoder.forward` computes only keys and values of new tokens.

    There is memory for all C places from the beginning, and a mask hides the places beyond the last known token. So
    every token takes the same launches, the first one too, and a step that adds a token can be recorded. No gradient
    goes through a cache.
    """

    def __init__(self, config: Config, batch: int, dtype):
        shape = batch, config.H, config.C, config.K
        self.at = zeros(1, dtype=int64)  # how many tokens are known, in a tensor: a recorded step counts too
        self.layers = [(zeros(shape, dtype=dtype), zeros(shape, dtype=dtype)) for _ in range(config.L)]  # K and V
        self.positions = arange(config.C)

    def clear(self) -> None:
        """Forget all tokens; the memory stays where it is."""
        self.at.zero_()

    @property
    def filled(self) -> Tensor:
        """Which places hold a token, including the one that is being added: (C,)."""
        return self.positions <= self.at

    def remember(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values of new tokens, (B, H, n, K) each; return them with those of earlier tokens."""
        n = k.shape[2]
        for memory, new in zip(self.layers[layer], (k.detach(), v.detach()), strict=True):
            if n == 1:
                memory.index_copy_(2, self.at, new)
            else:
                memory[:, :, :n] = new
        return self.layers[layer] if n == 1 else (k, v)


def with_earlier(cache: Cache | None, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys and values (B, H, n, K) of new tokens with those before them, and which places hold a token (None: all)."""
    if cache is None:
        return k, v, None
    n = k.shape[2]
    k, v = cache.remember(layer, k, v)
    return k, v, cache.filled if k.shape[2] > n else None

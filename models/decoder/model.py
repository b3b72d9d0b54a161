"""The modules that own document 003's weights: shapes, initial values, and the methods in which switches act.

The page of equations that they compute is equations.py.
"""

import math

from models.attention import scaled_normal, weights_of_heads
from models.decoder import equations
from models.decoder.cache import Cache
from models.decoder.config import Config
from tinytensor import Tensor, empty, nn
from tinytensor.nn import Parameter, functional, init


def _norm(config: Config, device) -> nn.Module:
    r"""Z -> (Z - <Z>) / sqrt(sigma(Z) + eps), with parameters only if asked for."""
    if config.norm == "rms":
        return nn.RMSNorm(config.D, config.eps, elementwise_affine=False, device=device)
    affine = config.norm != "plain"
    return nn.LayerNorm(config.D, config.eps, affine, bias=config.norm == "affine", device=device)


class Block(nn.Module):
    """One layer, equations (2) to (10): the weights, and the switches."""

    def __init__(self, config: Config, device=None):
        super().__init__()
        D, H, K, F = config.D, config.H, config.K, config.F
        self.config = config
        self.enter = _norm(config, device)  # after eq. (1)
        self.Q = weights_of_heads(H, D, K, device)  # eq. (2): Q_j^k for each head
        self.K = weights_of_heads(H, D, K, device)
        self.V = weights_of_heads(H, D, K, device)
        self.W = Parameter(empty(H * K, D, device=device))  # eq. (8): W_l^j
        self.middle = _norm(config, device)  # after eq. (9)
        self.F = Parameter(empty(D, F, device=device))  # eq. (10): F_k^l
        self.b = Parameter(empty(F, device=device)) if config.bias else None  # b^l
        self.G = Parameter(empty(F, D, device=device))  # G_l^j
        self.c = Parameter(empty(D, device=device)) if config.bias else None  # c^j
        self.q, self.k, self.v, self.w = (  # biases of Q, K, V and W, which 003 does not have
            (Parameter(empty(n, device=device)) if config.attention_bias else None) for n in (H * K, H * K, H * K, D)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initial values; the document gives none.

        A weight that is summed over n terms gets the variance 1/n, so that unit variance stays unit variance; W and G,
        which add to Z twice in each of L layers, get 1/2L of that (GPT-2's factor). Biases are 0.
        """
        config = self.config
        for weight, terms in ((self.Q, config.D), (self.K, config.D), (self.V, config.D), (self.F, config.D)):
            scaled_normal(weight, terms)
        for weight, terms in ((self.W, config.D), (self.G, config.F)):
            scaled_normal(weight, 2 * config.L * terms)
        for bias in (self.b, self.c, self.q, self.k, self.v, self.w):
            if bias is not None:
                init.zeros_(bias)

    @property
    def dropout(self) -> float:
        """The part of the attention weights that is dropped: none but in training."""
        return self.config.dropout if self.training else 0.0

    def drop(self, x: Tensor) -> Tensor:
        """Dropout of a term that is added to Z."""
        return functional.dropout(x, self.dropout)

    def normalized(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """(the Z of eq. (9), the N of eq. (2)): one of them or both are norm(Z), as `residual` says."""
        N = Z if self.config.residual == "once" else self.enter(Z)
        return (N if self.config.residual == "literal" else Z), N

    def forward(self, Z: Tensor, cache: Cache | None = None, layer: int = 0) -> Tensor:
        """Z (B, C, D) to Z' (B, C, D)."""
        return equations.block(self, Z, cache, layer)


class Decoder(nn.Module):
    """Equations (1) to (16): tokens (B, C) to logits (B, C, V), and to the loss if there are targets.

    With device="meta" only shapes are made, and the sizes (all but L) may be SymPy symbols: `num_parameters()` is then
    eq. (19).
    """

    def __init__(self, config: Config, device=None):
        super().__init__()
        if not isinstance(config.L, int):
            raise TypeError(
                f"Decoder: L = {config.L}: the number of layers must be a number, the other sizes may be symbols"
            )
        D, V, C = config.D, config.V, config.C
        self.config = config
        self.E = Parameter(empty(V, D, device=device))  # eq. (1): E_k^j
        self.P = Parameter(empty(C, D, device=device)) if config.positions else None  # eq. (1): P_i^j
        self.blocks = nn.ModuleList([Block(config, device) for _ in range(config.L)])
        self.final = _norm(config, device) if config.final_norm else None
        self.O = None if config.tied else Parameter(empty(D, V, device=device))  # eq. (11): O_j^m
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Rows of E and P whose sum has unit variance, or a deviation of 0.02 (GPT-2) if E is O too; O as in Block."""
        if self.E.device == "meta":
            return
        std = 0.02 if self.config.tied else math.sqrt(0.5)
        init.normal_(self.E, std=std)
        if self.P is not None:
            init.normal_(self.P, std=std)
        if self.O is not None:
            scaled_normal(self.O, self.config.D)

    # --- The switches

    @property
    def output(self) -> Tensor:
        """O (D, V) of eq. (11), or the transpose of E."""
        return self.E.t() if self.O is None else self.O

    def positioned(self, Z: Tensor, at: Tensor | None) -> Tensor:
        """Z + P, the rows of P for the positions 0, 1, ..., or for `at` (1,); Z as it is without positions."""
        if self.P is None:
            return Z
        return Z + (self.P[: Z.shape[1]] if at is None else functional.embedding(at, self.P))

    def normalized_once(self, Z: Tensor) -> Tensor:
        """The norm after eq. (1), if only the embedding has one."""
        return self.blocks[0].enter(Z) if self.config.residual == "once" else Z

    def normalized_last(self, Z: Tensor) -> Tensor:
        """The norm before eq. (11), if there is one."""
        return Z if self.final is None else self.final(Z)

    def drop(self, Z: Tensor) -> Tensor:
        """Dropout of the embedding."""
        return functional.dropout(Z, self.config.dropout, self.training)

    # --- The forward

    def embed(self, tokens: Tensor, at: Tensor | None = None) -> Tensor:
        """Z (B, C, D) of tokens (B, C) that stand at the positions 0, 1, ..., or of one that stands at `at` (1,)."""
        return equations.embedding(self, tokens, at)

    def logits(self, Z: Tensor) -> Tensor:
        """L (B, C, V) of Z (B, C, D) after the last layer."""
        return equations.logits(self, Z)

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor | None = None,
        cache: Cache | None = None,
        total: Tensor | None = None,
        last: bool = False,
    ):
        """(logits (B, C, V), loss ()) of int64 tokens (B, C); the loss is None without targets (B, C).

        Targets that are IGNORE_INDEX (-100) are not counted in the mean of eq. (16). `cache`, from `new_cache()`, keeps
        keys and values: later calls then take only the tokens that are new, one at a time. Where the batch is a part of
        a larger one, `total` () says how many targets are counted in all of it; the losses of the parts add up. With
        `last` only the logits after the last token are computed (B, 1, V), which are enough to go on from.
        """
        C = tokens.shape[1]
        known = 0 if cache is None or C == 1 else cache.at.item()  # a token too many fails where its place is looked up
        if known + C > self.config.C:
            raise ValueError(f"Decoder: {known + C} tokens, but the context holds C = {self.config.C}")
        if known and C > 1:
            raise ValueError(
                f"Decoder: with {known} tokens in the cache the others come one at a time, not {C} at once"
            )
        Z = self.embed(tokens, None if cache is None or C > 1 else cache.at)  # (1): (B, C, D)
        for i, block in enumerate(self.blocks):
            Z = block(Z, cache, i)  # (2)-(10): (B, C, D)
        if cache is not None:
            cache.at += C
        if last and C > 1:
            Z = Z[:, -1:]
        logits = self.logits(Z)  # (11): (B, C, V)
        return logits, None if targets is None else equations.loss(logits, targets, total)

    def new_cache(self, batch: int = 1) -> Cache:
        """An empty cache for `forward` on so many sequences side by side."""
        return Cache(self.config, batch, self.E.dtype)

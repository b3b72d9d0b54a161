"""The decoder-only transformer of document 003, equations 1-16, in its own letters.

    D  width of the model          H  heads             K  width of a head, D / H
    F  width of the feed-forward   L  layers            V  size of the vocabulary
    C  size of the context window  B  sequences side by side (not in the document)

A weight X_j^k of the document, which is summed over its lower index, is stored as X[j, k]: lower index first.
The document has some letters twice (V is the vocabulary and a weight, K and F are widths and weights, L the layers and
the loss). Here the sizes belong to the configuration and the weights to the module: `config.V`, `block.V`.

How the text is read where it leaves a choice:

- Eq. (3) multiplies row i by K and row m by Q, but in (5) and (6) row i attends to m <= i. As everywhere else, the row
  that attends has the query here: S_im = q_i . k_m. With the names Q and K exchanged this is eq. (3).
- Eq. (6) stands for Y_i = sum_m softmax_m(S'_im) (Z V)_m, and (5) for m <= i.
- The norms divide by sqrt(variance + eps): without eps a constant vector would be divided by zero.
- "Before proceeding, these values are normalized: Z -> ..." after eq. (1), and then Z -> Z' -> Z'' for the layers: does
  each layer normalise what it gets, and does eq. (9) add to the normalised Z? Three readings differ (`residual`):

      "literal"   each layer begins with Z -> norm(Z), and eq. (9) adds A to that normalised Z
      "once"      only the embedding is normalised; later layers take Z' as it comes
      "pre-norm"  each layer attends to norm(Z), and eq. (9) adds A to Z as it was: what GPT-2 does
"""

import math
from dataclasses import asdict, dataclass, replace

from models.attention import feed_forward, join, project, scaled_normal, weights_of_heads
from models.options import check, option, setting
from tinytensor import Tensor, arange, empty, int64, linear, nn, zeros
from tinytensor.nn import Parameter, functional, init

RESIDUALS = ("literal", "once", "pre-norm")
NORMS = ("plain", "scale", "affine", "rms")
ACTIVATIONS = ("relu", "gelu")


@dataclass(frozen=True)
class Config:
    """The sizes of a decoder, and the switches by which other layouts differ from document 003's."""

    D: int = option(32, "width", least=1)
    H: int = option(4, "heads", least=1)
    F: int = option(64, "feed-forward width", least=1)
    L: int = option(2, "layers", least=1, most=1000)
    V: int = option(300, "vocabulary", least=1)
    C: int = option(96, "context window", least=1)
    residual: str = option("literal", "how eqs. (1), (9), (10) are read", RESIDUALS)  # see the top of this file
    norm: str = option("plain", "parameters of the norms: none, gamma, gamma and delta; or RMS without any", NORMS)
    final_norm: bool = option(False, "one more norm before eq. (11)")
    activation: str = option("relu", "of eq. (10)", ACTIVATIONS)
    attention_bias: bool = option(False, "biases of Q, K, V and W")
    bias: bool = option(True, "b and c of eq. (10)")
    tied: bool = option(False, "the transpose of E as O")
    positions: bool = option(True, "the P of eq. (1)")
    causal: bool = option(True, "the mask of eqs. (4) and (5)")
    dropout: float = option(0.0, "part of the weights and of what is added to Z that is dropped", least=0.0, below=1)
    eps: float = setting(1e-5, least=0.0, most=1.0)

    def __post_init__(self):
        check(self)
        if isinstance(self.D, int) and isinstance(self.H, int) and self.D % self.H:
            raise ValueError(f"D = {self.D} is not divisible by H = {self.H}: each head has the width K = D / H")

    @property
    def K(self):
        """The width of a head, D / H (a SymPy expression where the sizes are symbols)."""
        return self.D // self.H if isinstance(self.D, int) and isinstance(self.H, int) else self.D / self.H

    count = "eq. (19): N = [(4D + 1) D + (2D + 1) F] L + (C + 2V) D"
    sizes_shown = ("D", "H", "F", "L", "V", "C")

    def sizes(self) -> str:
        """The sizes in words."""
        shown = ", ".join(f"{letter} = {getattr(self, letter):,}" for letter in self.sizes_shown)
        return shown.replace(", F =", f" (K = {self.K}), F =")

    def weights(self) -> int:
        """No more parameters than there are at least: eq. (19) without biases, and E and O tied."""
        return (4 * self.D + 2 * self.F) * self.D * self.L + self.V * self.D

    def activations(self) -> int:
        """No more numbers than training keeps at least for a window: Q, K, V, A and eq. (10)'s F, and the logits."""
        return self.C * ((4 * self.D + self.F) * self.L + self.V)

    def to_dict(self) -> dict:
        return asdict(self)

    def replace(self, **changes) -> "Config":
        return replace(self, **changes)


_GPT2 = {"residual": "pre-norm", "final_norm": True, "activation": "gelu", "tied": True}

CONFIGS = {
    # document 003's own example, after eq. (19): 38,848 parameters
    "toth-tiny": Config(),
    # nanoGPT's character model for the CPU (no biases, norms with gamma only): 804,096
    "nano": Config(D=128, H=4, F=512, L=4, V=65, C=64, norm="scale", bias=False, **_GPT2),
    # GPT-2 small: 124,439,808
    "gpt2": Config(
        D=768, H=12, F=3072, L=12, V=50257, C=1024, norm="affine", attention_bias=True, dropout=0.1, **_GPT2
    ),
    # the sizes of microgpt, one layer that learns names: 4,192
    "micro": Config(D=16, H=4, F=64, L=1, V=27, C=16, residual="once", norm="rms", bias=False),
}


def _norm(config: Config, device) -> nn.Module:
    r"""Z -> (Z - <Z>) / sqrt(sigma(Z) + eps), with parameters only if asked for."""
    if config.norm == "rms":
        return nn.RMSNorm(config.D, config.eps, elementwise_affine=False, device=device)
    affine = config.norm != "plain"
    return nn.LayerNorm(config.D, config.eps, affine, bias=config.norm == "affine", device=device)


class Cache:
    """Keys and values of the tokens that a decoder has seen: `Decoder.forward` computes only those of new ones.

    There is memory for all C places from the beginning, and what stands beyond the last known token is hidden. So every
    token takes the same launches, the first one too, and a step that adds one can be recorded. No gradient goes through
    a cache.
    """

    def __init__(self, config: Config, batch: int, dtype):
        shape = batch, config.H, config.C, config.K
        self.at = zeros(1, dtype=int64)  # how many tokens are known, in a tensor: a recorded step counts too
        self.layers = [(zeros(shape, dtype=dtype), zeros(shape, dtype=dtype)) for _ in range(config.L)]  # K and V
        self.places = arange(config.C)

    def clear(self) -> None:
        """Forget all tokens; the memory stays where it is."""
        self.at.zero_()

    @property
    def filled(self) -> Tensor:
        """Which places hold a token, the one that is being added too: (C,)."""
        return self.places <= self.at

    def remember(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of new tokens, (B, H, n, K) each: put in memory, they come back with those before them."""
        n = k.shape[2]
        for memory, new in zip(self.layers[layer], (k.detach(), v.detach()), strict=True):
            if n == 1:
                memory.index_copy_(2, self.at, new)
            else:
                memory[:, :, :n] = new
        return self.layers[layer] if n == 1 else (k, v)


class Block(nn.Module):
    """Equations (2) to (10): one layer, Z (B, C, D) -> Z' (B, C, D)."""

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

        What is summed over n terms gets the variance 1/n, so that unit variance stays unit variance; W and G, which add
        to Z twice in each of L layers, 1/2L of that (GPT-2's factor). Biases are 0.
        """
        config = self.config
        for weight, terms in ((self.Q, config.D), (self.K, config.D), (self.V, config.D), (self.F, config.D)):
            scaled_normal(weight, terms)
        for weight, terms in ((self.W, config.D), (self.G, config.F)):
            scaled_normal(weight, 2 * config.L * terms)
        for bias in (self.b, self.c, self.q, self.k, self.v, self.w):
            if bias is not None:
                init.zeros_(bias)

    def heads(self, Z: Tensor) -> list[Tensor]:
        """q, k, v: the products of Z (B, C, D) with Q, K and V, (B, H, C, K) each.

        Three products, not one with all weights side by side: its gradient would have to be put together from three
        parts again, and that costs more than it saves.
        """
        return [project(Z, weight, bias) for weight, bias in ((self.Q, self.q), (self.K, self.k), (self.V, self.v))]

    def forward(self, Z: Tensor, cache: Cache | None = None, layer: int = 0) -> Tensor:
        config, p = self.config, self.config.dropout if self.training else 0.0
        N = Z if config.residual == "once" else self.enter(Z)  # after (1): (B, C, D)
        Z = N if config.residual == "literal" else Z
        q, k, v = self.heads(N)  # (2): (B, H, C, K) each
        mask, causal = None, config.causal and q.shape[2] > 1  # the last row alone may attend to all
        if cache is not None:
            k, v = cache.remember(layer, k, v)  # keys and values of earlier tokens before those of these
            mask = cache.filled if k.shape[2] > q.shape[2] else None
        Y = functional.scaled_dot_product_attention(q, k, v, mask, p, causal)  # (3)-(6): (B, H, C, K)
        A = join(Y, self.W, self.w)  # (7), the heads side by side, and (8): (B, C, D)
        Z = Z + functional.dropout(A, p)  # (9): (B, C, D)
        N = self.middle(Z)  # after (9): (B, C, D)
        X = feed_forward(N, self.F, self.b, self.G, self.c, config.activation)  # (10), without the Z
        return Z + functional.dropout(X, p)  # (10): (B, C, D)


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
        """Rows of E and P that add up to unit variance, or of 0.02 (GPT-2's) where E serves as O too; O as in Block."""
        if self.E.device == "meta":
            return
        std = 0.02 if self.config.tied else math.sqrt(0.5)
        init.normal_(self.E, std=std)
        if self.P is not None:
            init.normal_(self.P, std=std)
        if self.O is not None:
            scaled_normal(self.O, self.config.D)

    def embed(self, tokens: Tensor, at: Tensor | None = None) -> Tensor:
        """Z (B, C, D) of tokens (B, C) that stand at the positions 0, 1, ..., or of one that stands at `at` (1,)."""
        Z = functional.embedding(tokens, self.E)  # (1): E_{t_i}^j, (B, C, D)
        if self.P is not None:
            P = self.P[: tokens.shape[1]] if at is None else functional.embedding(at, self.P)
            Z = Z + P  # (1): + P_i^j, (C, D)
        if self.config.residual == "once":
            Z = self.blocks[0].enter(Z)  # after (1)
        return functional.dropout(Z, self.config.dropout, self.training)

    def logits(self, Z: Tensor) -> Tensor:
        """L (B, C, V) of Z (B, C, D) after the last layer."""
        if self.final is not None:
            Z = self.final(Z)
        return linear(Z, self.E if self.O is None else self.O.t())  # (11)

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor | None = None,
        cache: Cache | None = None,
        total: Tensor | None = None,
    ):
        """(logits (B, C, V), loss ()) of int64 tokens (B, C); the loss is None without targets (B, C).

        Targets that are IGNORE_INDEX (-100) are not counted in the mean of eq. (16). `cache`, from `new_cache()`, keeps
        keys and values: later calls then take only the tokens that are new, one at a time. Where the batch is a part of
        a larger one, `total` () says how many targets are counted in all of it; the losses of the parts add up.
        """
        C = tokens.shape[1]
        known = 0 if cache is None or C == 1 else cache.at.item()  # one more is refused where its place is looked up
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
        logits = self.logits(Z)  # (11): (B, C, V)
        if targets is None:
            return logits, None
        reduction = "mean" if total is None else "sum"
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)  # (12)-(16): ()
        return logits, loss if total is None else loss / total

    def new_cache(self, batch: int = 1) -> Cache:
        """An empty cache for `forward` on so many sequences side by side."""
        return Cache(self.config, batch, self.E.dtype)

"""The encoder-decoder transformer of documents 000 and 004, in the letters of 004.

    N       stacks of the encoder, and of the decoder     d_model  width
    h       heads     d_k, d_v  widths of a head's keys and values; by default d_model / h each
    d_ff    inner width of the feed-forward network       n_vol    size of the vocabulary, which both languages share
    B       sentences side by side (not in the documents)
    Z_{i,1..4}  the results of the sublayers of encoder stack i; Z_{i,1..6} those of decoder stack i

How the documents are read where they leave a choice, or err:

- Components of the positional encoding are counted from 0, and so are positions: counted from 1 a shift of positions
  would not be a rotation. `PE(X) + X` of 004 adds the table, which does not depend on X.
- 004 lists no parameters for LayerNorm; 000 has gamma and delta, one for each feature (it prints them as numbers):
  `affine`. 000's biases in attention, which 004 does not have: `bias`.
- 004 calls y_0, with which the output begins, "simply a zero vector", which no one-hot row is: `begin` = "zero". The
  usual token with an embedding of its own: `begin` = "token".
- 004 trains on "i am a student" and waits for a stop sign at inference, which was then never learnt. Here every output
  ends with STOP.
- 004 takes the mask away at inference. Here it stays on (see models/inference/translate.py).
- 004 has LayerNorm after the sum, LayerNorm(X + Z): `norm` = "after". The residual stream of 002 has it before the
  sublayer, X + f(LayerNorm(X)), and once more at the end of the stream: `norm` = "before".
- 004 sums the cross-entropy over the words; a mean, as in document 003, makes steps alike: `reduction`.
"""

import math

import numpy as np

from models.attention import MultiHead, feed_forward, scaled_normal
from models.transformer.config import BEGIN, PAD, Config
from tinytensor import Tensor, cat, empty, full_like, linear, nn, tensor, where
from tinytensor.nn import Parameter, functional, init


def positional_encoding(n: int, d_model: int) -> np.ndarray:
    r"""The table r of 000 and 004, (n, d_model), float64: position i, component j, both from 0.

    r_{i,j} = \sin(i / 10000^{j / d_model}) if j is even, \cos(i / 10000^{(j-1) / d_model}) if j is odd.
    """
    i = np.arange(n)[:, None]
    j = np.arange(d_model)[None, :]
    angle = i / 10000 ** ((j - j % 2) / d_model)
    return np.where(j % 2 == 0, np.sin(angle), np.cos(angle))


class Sublayer(nn.Module):
    """The residual connection round a sublayer f, and its LayerNorm: LayerNorm(X + f(X)), or X + f(LayerNorm(X)).

    Its input and output, (B, n, d_model), are the residual stream of 002; a forward hook can read them.
    """

    def __init__(self, config: Config, device=None):
        super().__init__()
        self.before, self.dropout = config.norm == "before", config.dropout
        self.norm = _layer_norm(config, device)

    def forward(self, X: Tensor, f) -> Tensor:
        p = self.dropout
        if self.before:
            return X + functional.dropout(f(self.norm(X)), p, self.training)
        return self.norm(X + functional.dropout(f(X), p, self.training))


def _layer_norm(config: Config, device) -> nn.LayerNorm:
    return nn.LayerNorm(config.d_model, config.eps, config.affine, device=device)


def _multi_head(config: Config, depth: int, device) -> MultiHead:
    return MultiHead(config.d_model, config.h, *config.head_widths(), config.bias, depth, device)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (000; 004)."""

    def __init__(self, config: Config, depth: int, device=None):
        super().__init__()
        d_model, d_ff = config.d_model, config.d_ff
        self.W_1 = Parameter(empty(d_model, d_ff, device=device))
        self.b_1 = Parameter(empty(d_ff, device=device))
        self.W_2 = Parameter(empty(d_ff, d_model, device=device))
        self.b_2 = Parameter(empty(d_model, device=device))
        scaled_normal(self.W_1, d_model)
        scaled_normal(self.W_2, depth * d_ff)
        init.zeros_(self.b_1)
        init.zeros_(self.b_2)

    def forward(self, X: Tensor) -> Tensor:
        return feed_forward(X, self.W_1, self.b_1, self.W_2, self.b_2)


class EncoderStack(nn.Module):
    """Stack i of the encoder: Z_{i,1} to Z_{i,4} of 004; Algorithm 3 of 000, where Y = MultiHead(X) is missing."""

    def __init__(self, config: Config, device=None):
        super().__init__()
        depth = 2 * config.N if config.norm == "before" else 1  # sublayers that add up in one stream
        self.attention = _multi_head(config, depth, device)  # W^{Q,E}, W^{K,E}, W^{V,E}, W^{O,E}
        self.add_attention = Sublayer(config, device)
        self.ffn = FeedForward(config, depth, device)  # W_1^{FF,E}, b_1^{FF,E}, W_2^{FF,E}, b_2^{FF,E}
        self.add_ffn = Sublayer(config, device)

    def forward(self, Z: Tensor, mask: Tensor | None) -> Tensor:
        Z = self.add_attention(Z, lambda X: self.attention(X, mask=mask))  # Z_{i,1}, Z_{i,2}: (B, n_input, d_model)
        return self.add_ffn(Z, self.ffn)  # Z_{i,3}, Z_{i,4}: (B, n_input, d_model)


class DecoderStack(nn.Module):
    """Stack i of the decoder: Z_{i,1} to Z_{i,6} of 004."""

    def __init__(self, config: Config, device=None):
        super().__init__()
        depth = 3 * config.N if config.norm == "before" else 1
        self.masked = _multi_head(config, depth, device)  # W^{Q,DM}, W^{K,DM}, W^{V,DM}, W^{O,DM}
        self.add_masked = Sublayer(config, device)
        self.attention = _multi_head(config, depth, device)  # W^{Q,D}, W^{K,D}, W^{V,D}, W^{O,D}
        self.add_attention = Sublayer(config, device)
        self.ffn = FeedForward(config, depth, device)
        self.add_ffn = Sublayer(config, device)

    def forward(self, Z: Tensor, encoded: Tensor, mask: Tensor | None, is_causal: bool, cache=(None, None)) -> Tensor:
        own, other = cache  # keys and values of the output so far, and of the input
        Z = self.add_masked(Z, lambda X: self.masked(X, is_causal=is_causal, cache=own))  # Z_{i,1}, Z_{i,2}
        Z = self.add_attention(Z, lambda X: self.attention(X, encoded, mask, cache=other))  # Z_{i,3}, Z_{i,4}
        return self.add_ffn(Z, self.ffn)  # Z_{i,5}, Z_{i,6}: (B, n_output, d_model)


class Transformer(nn.Module):
    """The encoder-decoder: tokens of both languages to logits and the loss of 004.

    With device="meta" only shapes are made, and the sizes (all but N) may be SymPy symbols: `num_parameters()` is then
    a formula.
    """

    def __init__(self, config: Config, device=None):
        super().__init__()
        if not isinstance(config.N, int):
            raise TypeError(
                f"Transformer: N = {config.N}: the number of stacks must be a number, the other sizes may be symbols"
            )
        self.config = config
        d_model, n_vol = config.d_model, config.n_vol
        self.W_Embedding = Parameter(empty(n_vol, d_model, device=device))
        self.encoder = nn.ModuleList([EncoderStack(config, device) for _ in range(config.N)])
        self.decoder = nn.ModuleList([DecoderStack(config, device) for _ in range(config.N)])
        ends = config.norm == "before"  # the stream is normalised once more where it is read for the last time
        self.encoder_norm = _layer_norm(config, device) if ends else None
        self.decoder_norm = _layer_norm(config, device) if ends else None
        self.W_S = None if config.tied else Parameter(empty(d_model, n_vol, device=device))
        self.b_S = Parameter(empty(n_vol, device=device))
        self._positions = None  # the table of positional encodings, made when it is first needed
        scaled_normal(self.W_Embedding, d_model)  # the embedding is scaled by sqrt(d_model): unit variance
        if self.W_S is not None:
            scaled_normal(self.W_S, d_model)
        init.zeros_(self.b_S)

    # --- The parts

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """X' = X + PE, X = sqrt(d_model) X_input W_Embedding, (B, n, d_model), for tokens (B, n) from position `first`.

        One-hot rows times a matrix are rows of the matrix: so rows are looked up.
        """
        if tokens.ndim != 2:
            raise ValueError(f"Transformer: tokens of shape {tokens.shape}; expected (B, n)")
        config, n = self.config, tokens.shape[1]
        if first + n > config.n_max:
            raise ValueError(
                f"Transformer: a sentence of {first + n} words, but the model takes n_max = {config.n_max}"
            )
        X = functional.embedding(tokens, self.W_Embedding) * math.sqrt(config.d_model)
        if config.begin == "zero":
            X = where((tokens == BEGIN).unsqueeze(-1), 0.0, X)  # y_0 is the zero vector
        if config.positions:
            if self._positions is None:
                self._positions = positional_encoding(config.n_max, config.d_model)
            X = X + tensor(self._positions[first : first + n], dtype=X.dtype)
        return functional.dropout(X, config.dropout, self.training)

    def encode(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(Z^E_{N,4} (B, n_input, d_model), mask (B, 1, 1, n_input)) of tokens (B, n_input); the mask hides PAD."""
        Z = self.embed(inputs)
        mask = (inputs != PAD)[:, None, None, :]
        for stack in self.encoder:
            Z = stack(Z, mask)
        return (Z if self.encoder_norm is None else self.encoder_norm(Z)), mask

    def decode(
        self, shifted: Tensor, encoded: Tensor, mask: Tensor, cache: list | None = None, is_causal: bool = True
    ) -> Tensor:
        """The logits Z (B, n_output, n_vol) of the words after y_0, y_1, ..., given as tokens (B, n_output).

        `cache`, from `new_cache()`, keeps keys and values, those of the input too: later calls take only the tokens
        that are new, one at a time.
        """
        n = shifted.shape[-1]
        first = cache[0][0][0].shape[2] if cache and cache[0][0] else 0  # words that the cache knows already
        if first and n > 1:
            raise ValueError(f"Transformer: with {first} words in the cache the others come one at a time, not {n}")
        Z = self.embed(shifted, first)
        for i, stack in enumerate(self.decoder):
            Z = stack(Z, encoded, mask, is_causal and n > 1, (None, None) if cache is None else cache[i])
        Z = Z if self.decoder_norm is None else self.decoder_norm(Z)
        return linear(Z, self.W_Embedding if self.W_S is None else self.W_S.t(), self.b_S)  # Z = Z_{N,6} W^S + b^S

    def new_cache(self) -> list:
        """An empty cache for `decode`: for each stack the keys and values of the output, and of the input."""
        return [([], []) for _ in self.decoder]

    # --- Training

    def forward(self, inputs: Tensor, outputs: Tensor, total: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(logits (B, n_output, n_vol), loss ()) of tokens (B, n_input) and (B, n_output), int64, PAD at their ends.

        The decoder is given the outputs shifted to the right, y_0 before them. L = sum_i CrossEntropy(y_i, p_i), or its
        mean; PAD is not counted. Where the batch is a part of a larger one, `total` () says how many words are counted
        in all of it, for the mean; the losses of the parts add up.
        """
        if inputs.ndim != 2 or outputs.ndim != 2 or inputs.shape[0] != outputs.shape[0]:
            raise ValueError(
                f"Transformer: inputs {inputs.shape}, outputs {outputs.shape}: expected (B, n_input), (B, n_output)"
            )
        logits = self.decode(shift(outputs), *self.encode(inputs))
        if total is None:
            return logits, self.loss(logits, outputs, self.config.reduction)
        return logits, self.loss(logits, outputs, "sum") / total

    def loss(self, logits: Tensor, outputs: Tensor, reduction: str) -> Tensor:
        """The cross-entropy of 004 between outputs (B, n_output) and P = softmax(logits)."""
        return functional.cross_entropy(
            logits.flatten(0, 1),
            outputs.flatten(),
            ignore_index=PAD,
            reduction=reduction,
            label_smoothing=self.config.label_smoothing if self.training else 0.0,
        )


def shift(outputs: Tensor) -> Tensor:
    """Y'_output: y_0 before the words, the last one gone; (B, n) int64."""
    return cat([full_like(outputs[:, :1], BEGIN), outputs[:, :-1]], dim=1)

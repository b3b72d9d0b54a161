"""The sizes of the encoder-decoder, its switches, named configurations, and the first tokens of its vocabulary."""

from dataclasses import asdict, dataclass, replace

from models.options import check, option, setting

PAD, BEGIN, STOP = range(3)  # the first tokens of the vocabulary
SPECIAL = ("<pad>", "<begin>", "<stop>")


@dataclass(frozen=True)
class Config:
    """The sizes of an encoder-decoder, and its switches."""

    N: int = option(2, "stacks of the encoder, and of the decoder", least=1, most=1000)
    d_model: int = option(64, "width of the model", least=1)
    h: int = option(4, "heads", least=1)
    d_k: int | None = option(None, "width of a head's queries and keys", least=1, default_text="d_model / h")
    d_v: int | None = option(None, "width of a head's values", least=1, default_text="d_model / h")
    d_ff: int = option(128, "inner width of the feed-forward network", least=1)
    n_vol: int = option(300, "size of the vocabulary", least=4, default_text="as the data need")
    n_max: int = option(64, "most words in a sentence", least=1)
    norm: str = option("after", "LayerNorm after the sum (004) or before the sublayer (002)", ("after", "before"))
    affine: bool = option(True, "gamma and delta of LayerNorm (000)")
    bias: bool = option(False, "biases of queries, keys, values and W^O (000)")
    tied: bool = option(False, "the transpose of W_Embedding as W^S")
    begin: str = option("zero", "y_0: the zero vector (004), or a token of its own", ("zero", "token"))
    positions: bool = option(True, "the positional encoding")
    dropout: float = option(0.0, "part of embeddings and sublayers' outputs that is dropped", least=0.0, below=1)
    label_smoothing: float = option(0.0, "part of the target's probability that all words share", least=0.0, below=1)
    reduction: str = option("sum", "of the cross-entropy over the words: as in 004, or their mean", ("sum", "mean"))
    eps: float = setting(1e-5, least=0.0, most=1.0)

    def __post_init__(self):
        check(self)
        if None not in (self.d_k, self.d_v):
            return
        if isinstance(self.d_model, int) and isinstance(self.h, int) and self.d_model % self.h:
            raise ValueError(
                f"d_model = {self.d_model} is not divisible by h = {self.h}, but d_k and d_v are d_model / h: choose "
                "other sizes, or give both d_k and d_v"
            )

    def head_widths(self):
        """(d_k, d_v); SymPy expressions where the sizes are symbols."""
        numbers = isinstance(self.d_model, int) and isinstance(self.h, int)
        width = self.d_model // self.h if numbers else self.d_model / self.h
        return (width if self.d_k is None else self.d_k), (width if self.d_v is None else self.d_v)

    count = "[6 d_model h (d_k + d_v) + 2 (2 d_model d_ff + d_ff + d_model)] N + 2 n_vol d_model + n_vol, and the norms"
    sizes_shown = ("N", "d_model", "h", "d_k", "d_v", "d_ff", "n_vol", "n_max")

    def sizes(self) -> str:
        """The sizes in words."""
        values = self.to_dict() | dict(zip(("d_k", "d_v"), self.head_widths()))
        return ", ".join(f"{name} = {values[name]:,}" for name in self.sizes_shown)

    def weights(self) -> int:
        """A lower bound on the numbers in the model: its parameters, tied and without norms, and the table r."""
        d_k, d_v = self.head_widths()
        stacks = (6 * self.h * (d_k + d_v) + 4 * self.d_ff) * self.d_model * self.N
        return stacks + (self.n_vol + self.n_max * self.positions) * self.d_model

    def activations(self) -> int:
        """A lower bound on the numbers that training keeps for a pair of sentences of one word each."""
        return 2 * (4 * self.d_model + self.d_ff) * self.N + self.n_vol

    def to_dict(self) -> dict:
        return asdict(self)

    def replace(self, **changes) -> "Config":
        return replace(self, **changes)


CONFIGS = {
    # learns the French of grammar.py in a few minutes
    "translate": Config(reduction="mean"),
    # the same for a few thousand pairs of a user's own, against learning the training part by heart
    "pairs": Config(reduction="mean", dropout=0.2, label_smoothing=0.1),
    # the base model of "Attention is all you need", with its shared vocabulary of 37,000 pieces
    "base": Config(
        N=6, d_model=512, h=8, d_ff=2048, n_vol=37000, n_max=512, tied=True, begin="token",
        dropout=0.1, label_smoothing=0.1, reduction="mean",
    ),
}  # fmt: skip

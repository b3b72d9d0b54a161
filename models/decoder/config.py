"""The sizes of document 003's decoder, the switches by which other layouts differ from it, and named configurations."""

from dataclasses import asdict, dataclass, replace

from models.options import check, option, setting

RESIDUALS = ("literal", "once", "pre-norm")
NORMS = ("plain", "scale", "affine", "rms")
ACTIVATIONS = ("relu", "gelu", "gelu-tanh")


@dataclass(frozen=True)
class Config:
    """The sizes of a decoder, and the switches by which other layouts differ from document 003's."""

    D: int = option(32, "width", least=1)
    H: int = option(4, "heads", least=1)
    F: int = option(64, "feed-forward width", least=1)
    L: int = option(2, "layers", least=1, most=1000)
    V: int = option(300, "vocabulary", least=1)
    C: int = option(96, "context window", least=1)
    residual: str = option("literal", "how eqs. (1), (9), (10) are read", RESIDUALS)  # see equations.py
    norm: str = option("plain", "parameters of the norms: none, gamma, gamma and delta; or RMS without any", NORMS)
    final_norm: bool = option(False, "one more norm before eq. (11)")
    activation: str = option("relu", "of eq. (10)", ACTIVATIONS)
    attention_bias: bool = option(False, "biases of Q, K, V and W")
    bias: bool = option(True, "b and c of eq. (10)")
    tied: bool = option(False, "the transpose of E as O")
    positions: bool = option(True, "the P of eq. (1)")
    causal: bool = option(True, "the mask of eqs. (4) and (5)")
    dropout: float = option(0.0, "part of the weights and of the terms added to Z that is dropped", least=0.0, below=1)
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
        """A lower bound on the number of parameters: eq. (19) without biases, with E and O tied."""
        return (4 * self.D + 2 * self.F) * self.D * self.L + self.V * self.D

    def activations(self) -> int:
        """A lower bound on the numbers that training keeps for a window: Q, K, V, A, the F of eq. (10), the logits."""
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
        D=768,
        H=12,
        F=3072,
        L=12,
        V=50257,
        C=1024,
        norm="affine",
        **_GPT2 | {"attention_bias": True, "dropout": 0.1, "activation": "gelu-tanh"},
    ),
    # the sizes of microgpt, one layer that learns names: 4,192
    "micro": Config(D=16, H=4, F=64, L=1, V=27, C=16, residual="once", norm="rms", bias=False),
}

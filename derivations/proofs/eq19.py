"""The models have as many parameters as eq. (19) of 003, and the shapes listed in 000 and 004, say: for any sizes.

The counts are derived from the shapes that the modules of `models` declare when they are built without data
(device="meta") with SymPy symbols for sizes: the formula checks the code, and the code the formula.

The number of layers is a number in the code, a loop over so many blocks, so it cannot stay a symbol. A claim about any
number of layers rests on an assumption that it names: a further layer adds as many parameters as the one before. This
is shown for layers 2 to 5, and the count of one block, in which L does not occur, equals it. Trusted besides: SymPy's
arithmetic. Models that are built with data are counted, too, at the sizes named.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise, product

from sympy import Expr, collect, expand, latex, symbols

from derivations.claims import Evidence, Refuted, claim
from models.attention import MultiHead
from models.decoder import CONFIGS, Block, Config, Decoder
from models.transformer import CONFIGS as TRANSLATION
from models.transformer import Config as TransformerConfig
from models.transformer import EncoderStack, Transformer

D, H, K, F, L, V, C = symbols("D H K F L V C", positive=True, integer=True)  # 003
N, d_model, h, d_k, d_v, d_ff, n_vol = symbols("N d_model h d_k d_v d_ff n_vol", positive=True, integer=True)  # 004

EQ_19 = ((4 * D + 1) * D + (2 * D + 1) * F) * L + (C + 2 * V) * D
EQ_19_LATEX = r"N=\left[(4D+1)D+(2D+1)F\right]L+(C+2V)D"

# 004's list of variables, with d_k = d_v = d_model / h as 004 constrains them, and the biases of the FFN and of W^S
OF_004 = (
    N * (12 * d_model**2 + 4 * d_model * d_ff + 2 * d_ff + 2 * d_model) + 2 * n_vol * d_model + n_vol
)  # fmt: skip

SIZES = {"D": D, "H": H, "F": F, "V": V, "C": C}
SIZES_004 = {"d_model": d_model, "h": h, "d_ff": d_ff, "n_vol": n_vol}


class FreeHeads(Config):
    """Document 003's sizes with a width K of the heads that D and H do not determine."""

    @property
    def K(self):
        return K


proof = partial(claim, "eq19", category="proof", size="any size")
check = partial(claim, "eq19", category="check")
ALIKE = "for more than 5 layers: they are alike, a further one adds as many as each of layers 2 to 5"


def of_layers(statement: str, assumptions=(), source: str = ""):
    """A claim of kind proof whose count goes through `any_depth`."""
    return proof(statement, size="any widths, any number of layers", assumptions=(*assumptions, ALIKE), source=source)


def count(module) -> Expr:
    """The number of parameters that a module declares, a polynomial in the sizes."""
    return expand(module.num_parameters())


def require(counted, formula, what: str) -> None:
    """Raise Refuted unless a count and a formula are the same polynomial, or number."""
    if expand(counted - formula) != 0:
        raise Refuted(f"{what}: the shapes give {counted}, the formula {formula}")


def any_depth(counts: Callable[[int], Expr], layers: Expr) -> Expr:
    """The count for any number of layers, from counts(1), ..., counts(5), whose differences must be the same."""
    values = [counts(n) for n in range(1, 6)]
    steps = [expand(b - a) for a, b in pairwise(values)]
    if len(set(steps)) > 1:
        raise Refuted(f"a further layer does not always add the same number of parameters: {steps}")
    return expand(values[0] + (layers - 1) * steps[0])


def decoder(make=Config, **switches) -> Expr:
    """The parameters of 003's decoder in D, H, F, L, V, C (and K), with these switches of its configuration."""
    return any_depth(lambda n: count(Decoder(make(**SIZES, L=n, **switches), device="meta")), L)


def transformer(**switches) -> Expr:
    """The parameters of the encoder-decoder in N, d_model, h, d_ff, n_vol (and d_k, d_v)."""
    return any_depth(lambda n: count(Transformer(TransformerConfig(**SIZES_004, N=n, **switches), "meta")), N)


def at(formula: Expr, config) -> Expr:
    """The formula's value at the sizes of a configuration."""
    return formula.subs({s: getattr(config, s.name) for s in formula.free_symbols})


def shapes(module) -> str:
    """The parameters of a module as a table: name, shape, number."""
    rows = [(name, " x ".join(map(str, p.shape)), str(expand(p.numel()))) for name, p in module.named_parameters()]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths)).rstrip() for row in rows)


# --- Document 003


@of_layers(
    "document 003's model has as many parameters as eq. (19) says",
    assumptions=("H K = D",),
    source="003 eq. (19)",
)
def eq_19():
    counted = decoder()
    require(counted, EQ_19, "003's decoder")
    return Evidence(latex=f"{EQ_19_LATEX}\n\n= {latex(counted)}", text=f"counted: {counted}")


@of_layers(
    "with heads of any width K, eq. (19) holds if and only if H K = D",
    source="003 eqs. (2), (8), (19)",
)
def eq_19_condition():
    counted = decoder(FreeHeads)
    require(counted, L * (4 * D * H * K + 2 * D * F + D + F) + (C + 2 * V) * D, "003's decoder with K free")
    difference = 4 * D * L * (H * K - D)  # D and L are positive: zero exactly where H K = D
    require(counted - EQ_19, difference, "the count less eq. (19)")
    return Evidence(latex=f"N={latex(collect(counted, (L, D)))}\n\nN-N_{{(19)}}={latex(difference)}")


@proof(
    "one layer has (4D + 1) D + (2D + 1) F parameters, for any number of layers",
    assumptions=("H K = D",),
    source="003 eqs. (2)-(10)",
)
def eq_19_layer():
    block = Block(Config(**SIZES, L=L), device="meta")
    counted = count(block)
    require(counted, (4 * D + 1) * D + (2 * D + 1) * F, "one block")
    if L in counted.free_symbols:
        raise Refuted(f"the count of one block contains L: {counted}")
    two, one = (count(Decoder(Config(**SIZES, L=n), device="meta")) for n in (2, 1))
    require(two - one, counted, "a second layer")
    return Evidence(text=shapes(block))


@check(
    'the "tiny" model of 003 has 38,848 parameters',
    size="D=32 H=4 F=64 L=2 V=300 C=96",
    source="003 after eq. (19)",
)
def tiny():
    config = CONFIGS["toth-tiny"]
    require(Decoder(config).num_parameters(), 38_848, "the model as built")
    require(at(EQ_19, config), 38_848, "eq. (19)")
    return Evidence(text=shapes(Decoder(config)))


# (switch, its addition to eq. 19), each by itself
SWITCHES = [
    ({"attention_bias": True}, 4 * D * L),
    ({"bias": False}, -(D + F) * L),
    ({"norm": "scale"}, 2 * D * L),
    ({"norm": "affine"}, 4 * D * L),
    ({"norm": "affine", "final_norm": True}, 4 * D * L + 2 * D),
    ({"norm": "rms"}, 0 * D),
    ({"tied": True}, -D * V),
    ({"positions": False}, -C * D),
    ({"residual": "once"}, 0 * D),
    ({"residual": "pre-norm"}, 0 * D),
    ({"activation": "gelu"}, 0 * D),
    ({"activation": "gelu-tanh"}, 0 * D),
]


@of_layers(
    "what eq. (19) leaves out, term by term: biases of attention, norms with parameters, tied or fixed embeddings",
    assumptions=("H K = D",),
    source="003 eq. (19)",
)
def eq_19_switches():
    lines = []
    for switches, term in SWITCHES:
        require(decoder(**switches), EQ_19 + term, f"with {switches}")
        lines.append(f"{', '.join(f'{k} = {v}' for k, v in switches.items()):<36} {expand(term)}")
    return Evidence(text="\n".join(lines))


DECODERS = [  # D, H, F, L, V, C
    (8, 1, 3, 1, 5, 4),
    (12, 3, 20, 2, 7, 9),
    (6, 6, 11, 3, 13, 2),
    (20, 5, 8, 5, 31, 17),
    (32, 4, 64, 7, 300, 96),
]


@check(
    "num_parameters() of built decoders gives the formulas' numbers",
    size=f"{len(DECODERS)} tuples of sizes, {1 + len(SWITCHES)} layouts each",
    source="003 eq. (19)",
)
def eq_19_sweep():
    for switches, term in [({}, 0), *SWITCHES]:
        for sizes in DECODERS:
            config = Config(*sizes, **switches)
            require(Decoder(config).num_parameters(), at(EQ_19 + term, config), f"{config}")


@check(
    "the published counts of nanoGPT's character model (804,096) and of GPT-2 small (124,439,808)",
    size="the published sizes",
    assumptions=("GPT-2's weights are tied: O is the transpose of E",),
)
def published_decoders():
    for name, published in (("nano", 804_096), ("gpt2", 124_439_808)):
        require(Decoder(CONFIGS[name], device="meta").num_parameters(), published, name)


# --- Documents 000, 001, 004


@of_layers(
    "the encoder-decoder has the parameters that 004 lists",
    assumptions=(
        "d_k = d_v = d_model / h",
        "LayerNorm without parameters (004 lists none)",
    ),
    source="004 Variables",
)
def of_004():
    require(transformer(affine=False), OF_004, "004's encoder-decoder")
    return Evidence(latex=latex(OF_004))


@proof(
    "one multi-head attention has 2 D h (d_k + d_v) parameters, its biases h (2 d_k + d_v) + D",
    source="000 Algorithm 2 (corrected); 001",
)
def multi_head():
    weights = count(MultiHead(D, h, d_k, d_v, device="meta"))
    require(weights, 2 * D * h * (d_k + d_v), "the weights")
    require(count(MultiHead(D, h, d_k, d_v, True, device="meta")) - weights, h * (2 * d_k + d_v) + D, "the biases")
    return Evidence(text=shapes(MultiHead(D, h, d_k, d_v, True, device="meta")))


@of_layers(
    "with d_k and d_v free, 004's count is N (6 d_model h (d_k + d_v) + 4 d_model d_ff + 2 d_ff + 2 d_model) + ...",
    assumptions=("LayerNorm without parameters",),
    source="004 Variables",
)
def of_004_free():
    counted = transformer(affine=False, d_k=d_k, d_v=d_v)
    formula = OF_004 - 12 * N * d_model**2 + 6 * N * d_model * h * (d_k + d_v)
    require(counted, formula, "004's encoder-decoder with d_k and d_v free")
    return Evidence(latex=f"{latex(collect(expand(formula), (N, d_model, n_vol)))}")


SWITCHES_004 = [  # the addition of each to OF_004, which has norms without parameters
    ({"affine": True}, 10 * N * d_model),  # two norms in a stack of the encoder, three in the decoder's
    ({"affine": False, "bias": True}, 12 * N * d_model),
    ({"affine": False, "tied": True}, -n_vol * d_model),
    ({"affine": False, "norm": "before"}, 0 * N),
    ({"affine": True, "norm": "before"}, 10 * N * d_model + 4 * d_model),  # two more at the ends
    ({"affine": False, "begin": "token"}, 0 * N),
    ({"affine": True, "bias": True, "tied": True}, 22 * N * d_model - n_vol * d_model),
]


@of_layers(
    "affine norms add 10 N d_model to 004's count, biases of attention 12 N d_model; tying takes n_vol d_model away",
    assumptions=("d_k = d_v = d_model / h",),
    source="000; 004",
)
def of_004_switches():
    lines = []
    for switches, term in SWITCHES_004:
        require(transformer(**switches), OF_004 + term, f"with {switches}")
        lines.append(f"{', '.join(f'{k} = {v}' for k, v in switches.items()):<40} {expand(term)}")
    return Evidence(text="\n".join(lines))


@proof(
    "a transformer layer of 000 with all biases and two affine norms has 4 D^2 + 2 D d_ff + 9 D + d_ff parameters",
    assumptions=("d_k = d_v = D / h", "W^(o) has a bias; without it, as 000 prints it, 8 D"),
    source="000 Algorithms 2 and 3",
)
def layer_of_000():
    stack = EncoderStack(TransformerConfig(**{**SIZES_004, "d_model": D}, bias=True), device="meta")
    require(count(stack), 4 * D**2 + 2 * D * d_ff + 9 * D + d_ff, "one layer")
    return Evidence(text=shapes(stack))


TRANSFORMERS = [  # N, d_model, h, d_k, d_v, d_ff, n_vol
    (1, 8, 2, 4, 4, 5, 11),
    (2, 12, 3, 2, 5, 7, 20),
    (3, 10, 5, 7, 1, 16, 13),
    (4, 6, 1, 9, 8, 3, 40),
    (2, 64, 4, 16, 16, 128, 300),
]


@check(
    "num_parameters() of built encoder-decoders gives the formulas' numbers",
    size=f"{len(TRANSFORMERS)} tuples of sizes, 16 layouts each",
    source="000; 004",
)
def of_004_sweep():
    for affine, bias, tied, norm in product((False, True), (False, True), (False, True), ("after", "before")):
        layout = {"affine": affine, "bias": bias, "tied": tied, "norm": norm}
        formula = transformer(d_k=d_k, d_v=d_v, **layout)
        for sizes in TRANSFORMERS:
            config = TransformerConfig(*sizes, **layout)
            require(Transformer(config).num_parameters(), at(formula, config), f"{config}")


PAPER = 65_000_000  # "Attention is all you need", table 3, the base model


@check(
    "the paper's base model, 65 million by its table, has 63.1 million with one matrix for both embeddings and the "
    "softmax, 82.0 million without",
    size="N=6 d_model=512 h=8 d_ff=2048 n_vol=37000",
    assumptions=("a shared vocabulary of 37,000 byte-pair tokens (the paper: about 37,000)",),
    source='004; "Attention is all you need", table 3',
)
def base():
    config = TRANSLATION["base"]
    tied, plain, untied, biased = (
        Transformer(config.replace(**changes), device="meta").num_parameters()
        for changes in ({}, {"tied": False, "affine": False}, {"tied": False}, {"bias": True})
    )
    require(plain, 81_995_912, "as 004 lists it")
    require(at(OF_004, config), plain, "004's formula")
    require(untied - plain, 30_720, "affine norms")
    require(tied, 63_051_912 + 30_720, "with a tied softmax")
    rows = config.d_model  # parameters of one more token in the vocabulary; its bias in the softmax is one more
    missing = PAPER - tied
    tokens = missing / (rows + 1)
    off = {name: abs(n / PAPER - 1) for name, n in (("tied", tied), ("untied", untied))}
    if not off["tied"] < 0.03 < 0.25 < off["untied"]:
        raise Refuted(f"tied {tied:,} and untied {untied:,} against {PAPER:,}: {off}")
    text = [
        f"as 004 lists it, W^S a matrix of its own     {plain:>12,}",
        f"  affine norms                               {untied - plain:>+12,}",
        f"  W^S is the transpose of W_Embedding        {tied - untied:>+12,}",
        f"with the paper's shared matrix               {tied:>12,}   ({off['tied']:.1%} below 65 million)",
        f"  biases of attention would add              {biased - tied:>+12,}",
        f"  learned positions (512) would add          {512 * config.d_model:>+12,}",
        f"the paper, rounded                           {PAPER:>12,}",
        f"  missing                                    {missing:>+12,}",
        f"  in tokens of the vocabulary                {tokens:>12,.0f}   (37,000 would be {37000 + tokens:,.0f})",
        "",
        "The difference comes from the vocabulary. Sharing one matrix takes 18.9 million away. The rest is",
        "too large for a bias, norm or learned position: only the vocabulary, which the paper gives as",
        '"about 37,000" shared byte-pair tokens, or the rounding of its table, can explain it.',
    ]
    return Evidence(text="\n".join(text))

r"""The table of a model: its variables and operations, in the order and the letters of its document.

A decoder has those of document 003, equations (1) to (16); an encoder-decoder those of document 004, which numbers the
results of its sublayers (Z_{1,1} ...), and of 000 where 004 has none. The table is made from the modules themselves:
the shapes are those of their parameters, and what is absent (a bias, P, a norm) has no line. JavaScript runs it
(program.js); a test runs it in the engine and compares it with the model. So a layout needs no code here, as long as
its modules are known; `table` refuses any other module.

A variable has three dimensions in the page: heads, rows and columns. Operations, and what they do forward:

    rows      y_i = E_{t_i}, the rows of a table for the tokens    scores   q k^T / sqrt(K), for each head
    sinusoids the positional encoding of 000                       mask     -inf where m > i
    add       a + b, of b the first n rows                         softmax  along the last dimension
    norm      (x - <x>) / sqrt(sigma + eps) gamma + delta          mix      the weights times the rows v
    project   N W_h + b_h, for each head                           beside   the heads side by side
    affine    X W + b                                              cross_entropy, mean, sum
    relu, gelu

In cross-attention q comes from other rows than k and v. A page computes one pair of sentences, which has no padding: so
the mask of an encoder-decoder that hides padding has no line.
"""

from models.attention import MultiHead
from models.decoder import Block, Decoder
from models.show.lines import Lines, Names, Table, attention, feed_forward, loss, norm
from models.transformer import BEGIN, STOP, DecoderStack, EncoderStack, FeedForward, Sublayer, Transformer
from tinytensor import nn
from tinytensor.nn import Module

OF_DECODERS = (Decoder, Block, nn.ModuleList, nn.LayerNorm, nn.RMSNorm)
OF_TRANSFORMERS = (Transformer, EncoderStack, DecoderStack, Sublayer, MultiHead, FeedForward)
OF_TRANSFORMERS += (nn.ModuleList, nn.LayerNorm)


class UnknownModule(ValueError):
    """A model has a part that the table has no lines for; the message names it."""


def table(model: Module) -> Table:
    """The table of a decoder or an encoder-decoder; UnknownModule if a part of it is none of its document's."""
    known_models = {Decoder: (OF_DECODERS, _decoder), Transformer: (OF_TRANSFORMERS, _transformer)}
    if type(model) not in known_models:
        raise UnknownModule(
            f"show: a {type(model).__name__} was given; expected a Decoder of models.decoder or a Transformer of "
            "models.transformer, and no subclass of them"
        )
    known, make = known_models[type(model)]
    for name, module in model.named_modules():
        if type(module) not in known:
            names = ", ".join(cls.__name__ for cls in known)
            raise UnknownModule(
                f"show: {name} is a {type(module).__name__}, and there are no equations for it; known are {names}"
            )
    return make(model)


# --- The decoder of 003


def _decoder(model: Decoder) -> Table:
    made = Table({letter: getattr(model.config, letter) for letter in "DHKFLVC"})
    made.begin_part("Input")
    Z = _embedding(made, model)
    for number, block in enumerate(model.blocks, 1):
        made.begin_part(f"Layer {number}", f"layer {number}", f"{number}.")
        Z = _block(made, block, f"blocks.{number - 1}", Z)
    made.begin_part("Output")
    _head(made, model, Z)
    return made


def _embedding(made: Table, w: Decoder) -> str:
    """Equation (1), and the norm after it if only the embedding has one."""
    made.begin("Embedding")
    E = made.weight("E", "E", "E", "E", ("V", "D"), "(1)", "E_k^j, one row for each token")
    formula = "E_{t_i}^j"
    if w.P is None:
        Z = made.value("rows", [E], "Z", "Z", "Z", ("n", "D"), "(1)", f"Z_i^j = {formula}")
    else:
        looked = made.value("rows", [E], "E_t", "E_t", "E of the tokens", ("n", "D"), "(1)", formula)
        P = made.weight("P", "P", "P", "P", ("C", "D"), "(1)", "P_i^j, one row for each position")
        Z = made.value("add", [looked, P], "Z", "Z", "Z", ("n", "D"), "(1)", f"Z_i^j = {formula} + P_i^j")
    if w.config.residual == "once":
        made.begin("Normalize, once")
        names = "N", "N, the normalized Z", ("n", "D"), "after (1)"
        Z = norm(made, w.blocks[0].enter, "blocks.0.enter", Z, "N", names, "after (1)")
    return Z


def _block(made: Table, w: Block, parameter: str, Z: str) -> str:
    """Equations (2) to (10) of one layer, whose parameters' names begin with `parameter`."""
    attributes = {f"bias of {letter}": letter.lower() for letter in "QKVW"}
    lines = Lines(made, _names_of_003(w), w, parameter, attributes)
    N, stream = Z, ("n", "D")
    if w.config.residual != "once":
        made.begin("Normalize")
        names = "N", "N, the normalized Z", stream, "after (1)"
        N = norm(made, w.enter, f"{parameter}.enter", Z, "N", names, "after (1)")
        Z = N if w.config.residual == "literal" else Z
    A = attention(lines, N, N, w.config.causal)
    Z = lines.value("add", [Z, A], "Zhat")
    made.begin("Normalize again")
    names = r"\bar Z", "Z bar", stream, "after (9)"
    Zbar = norm(made, w.middle, f"{parameter}.middle", Z, "Zbar", names, "after (9)")
    made.begin("Feed-forward")
    if w.config.activation == "gelu-tanh":
        raise UnknownModule("show: the page has no equations for the activation gelu-tanh; it has those of gelu")
    X = feed_forward(lines, Zbar, w.config.activation)
    return lines.value("add", [Z, X], "Z'")


def _names_of_003(w: Block) -> Names:
    """The names of the variables in a block."""
    width, square, stream, inner = ("H", "n", "K"), ("H", "n", "n"), ("n", "D"), ("n", "F")
    formula = r"S'_{i m} = S_{i m} + M_{i m}, M_{i m} = -\infty where m > i"
    gelu = w.config.activation == "gelu"
    activation = (r"U \Phi", r"U \Phi ( U )") if gelu else (r"U^{+}", r"\max ( 0 , U )")
    names = {
        "S": ("S", "S, the scores", square, "(3)", r"S_{i m} = q_i \cdot k_m / \sqrt K"),
        "S'": ("S'", "S with the mask", square, "(4), (5)", formula),
        "weights": (r"\alpha", "attention weights", square, "(6)", r"\alpha_{i m} = \mathrm{softmax}_m ( <0>_{i m} )"),
        "Y": ("Y", "Y, the heads", width, "(6)", r"Y_i = \sum_m \alpha_{i m} v_m"),
        "Yhat": (r"\hat Y", "Y hat", ("n", "H K"), "(7)", r"\hat Y_i = Y_i^{(1)} \oplus \dots \oplus Y_i^{(H)}"),
        "W": ("W", "W", ("H K", "D"), "(8)", "W_l^j"),
        "bias of W": (r"\beta_W", "bias W", ("D",), "(8)", r"\beta_W, the bias"),
        "A": ("A", "A", stream, "(8)", r"A_i^j = W_l^j \hat Y_i^l [+ \beta^j]"),
        "Zhat": (r"\hat Z", "Z hat", stream, "(9)", r"\hat Z = Z + A"),
        "F": ("F", "F", ("D", "F"), "(10)", "F_k^l"),
        "b": ("b", "bias b", ("F",), "(10)", "b, the bias"),
        "U": ("U", "U, before the activation", inner, "(10)", r"U = F \bar Z [+ b]"),
        "inner": (activation[0], "the activation of U", inner, "(10)", activation[1]),
        "G": ("G", "G", ("F", "D"), "(10)", "G_l^j"),
        "c": ("c", "bias c", ("D",), "(10)", "c, the bias"),
        "X": ("X", "X, the feed-forward network's output", stream, "(10)", "X = G <0> [+ c]"),
        "Z'": ("Z'", "Z prime", stream, "(10)", r"Z' = \hat Z + X"),
    }
    for letter, said in (("Q", "queries"), ("K", "keys"), ("V", "values")):
        small, bias = letter.lower(), rf"\beta_{letter}"
        names[letter] = (letter, letter, ("H", "D", "K"), "(2)", f"{letter}_j^k, for each head")
        names[f"bias of {letter}"] = (bias, f"bias {letter}", ("H K",), "(2)", f"{bias}, the bias")
        names[small] = (small, said, width, "(2)", rf"{small}_i^k = N_i^j {letter}_j^k [+ \beta^k]")
    return names


def _head(made: Table, w: Decoder, Z: str) -> None:
    """Equations (11) to (16)."""
    if w.final is not None:
        made.begin("Normalize, the last time")
        names = r"\bar Z", "the last Z, normalized", ("n", "D"), "before (11)"
        Z = norm(made, w.final, "final", Z, "Zlast", names, "before (11)")
    tied, words = w.O is None, ("n", "V")
    each = r"\mathcal{L}_i = - \log q_i^t, p_i^t = 1"
    names = {
        "O": ("O", "O", ("D", "V"), "(11)", "O_j^m"),
        "L": ("L", "L, the logits", words, "(11)", "L_i^m = Z_i^j E_m^j" if tied else "L_i^m = Z'_i^j O_j^m"),
        "q": ("q", "q, the probabilities", words, "(14)", r"q_i^j = \frac{\exp L_i^j}{\sum_m \exp L_i^m}"),
        "losses": (r"\mathcal{L}_i", "the loss of each token", ("n",), "(12), (13), (15)", each),
        "loss": (r"\mathcal{L}", "the loss", (), "(16)", r"\mathcal{L} = \langle \mathcal{L}_i \rangle"),
    }
    made.begin("Logits")
    lines = Lines(made, names, w)
    L = lines.value("affine", [Z, "E" if tied else lines.weight("O")], "L", transposed=tied)
    loss(lines, L, mean=True)


# --- The encoder-decoder of 004

ATTENTIONS = {  # by half and attribute: the letters over its weights in 004, the part, and what goes before its keys
    ("encoder", "attention"): ("E", "", ""),
    ("decoder", "masked"): ("DM", ": masked self-attention", "masked."),
    ("decoder", "attention"): ("D", ": cross-attention", "cross."),
}


def _transformer(model: Transformer) -> Table:
    config = model.config
    d_k, d_v = config.head_widths()
    sizes = {name: getattr(config, name) for name in config.sizes_shown} | {"d_k": d_k, "d_v": d_v}
    made = Table(sizes, {"begin": BEGIN, "zero": config.begin == "zero", "stop": STOP})
    made.begin_part("Embedding")
    made.begin("Embedding")
    about = "W_E, one row for each word of both languages"
    W = made.weight("E", "W_Embedding", "W_E", "W Embedding", ("n_vol", "d_model"), "004 Variables", about)
    made.begin_part("Source", "the source", "source.")
    encoded = _embed(made, model, W, "X", "source", "n_input")
    for i, module in enumerate(model.encoder, 1):
        stack = Stack(made, module, "encoder", i, "n_input")
        encoded = stack.add_and_norm("attention", 1, encoded)
        encoded = stack.add_and_norm("ffn", 3, encoded)
    encoded = _last_norm(made, model.encoder_norm, "encoder_norm", encoded, "n_input")
    made.begin_part("Target", "the target", "target.")
    Z = _embed(made, model, W, "Y", "tokens", "n_output")
    for i, module in enumerate(model.decoder, 1):
        stack = Stack(made, module, "decoder", i, "n_output")
        Z = stack.add_and_norm("masked", 1, Z)
        Z = stack.add_and_norm("attention", 3, Z, encoded)
        Z = stack.add_and_norm("ffn", 5, Z)
    Z = _last_norm(made, model.decoder_norm, "decoder_norm", Z, "n_output")
    made.begin_part("Output")
    _words(made, model, Z, W)
    return made


def _embed(made: Table, w: Transformer, W: str, letter: str, read: str, n: str) -> str:
    """X = sqrt(d_model) X_input W_Embedding, and X' = X + PE; Y and Y' for the target, whose first row y_0 may be 0."""
    made.begin("Embedding")
    d_model, stream, zero = w.config.d_model, (n, "d_model"), w.config.begin == "zero"
    options = {"scaled": d_model**0.5, "read": read} | ({"blank": BEGIN} if zero else {})
    formula = r"X = \sqrt{d_{\mathrm{model}}} X_{\mathrm{input}} W_E"
    if letter == "Y":
        formula = r"Y = \sqrt{d_{\mathrm{model}}} Y_{\mathrm{output}} W_E, one row later, after y_0" + " = 0" * zero
    X = made.value("rows", [W], letter, letter, letter, stream, "004 Training", formula, **options)
    if not w.config.positions:
        return X
    formula = r"r_{i j} = \sin ( i / 10000^{j / d} ) for even j, \cos ( i / 10000^{(j - 1) / d} ) for odd j"
    label = "000 Positional encoding"
    PE = made.value("sinusoids", [], "PE", "r", "r", stream, label, formula, read=read, columns=d_model)
    formula = f"{letter}' = {letter} + r"
    return made.value("add", [X, PE], f"{letter}'", f"{letter}'", f"{letter} prime", stream, "004 Training", formula)


class Stack:
    """The lines of a stack: Z^E_{i,1} to Z^E_{i,4} of the encoder, Z_{i,1} to Z_{i,6} of the decoder."""

    def __init__(self, made: Table, module: Module, half: str, i: int, n: str):
        self.made, self.module, self.half, self.i, self.stream = made, module, half, i, (n, "d_model")
        self.E = "E" if half == "encoder" else "D"
        self.parameter = f"{half}.{i - 1}"

    def called(self, letter: str, k: int, equation: str) -> tuple:
        """The names of Z_{i,k}, or of a value beside it."""
        over = "^E" if (letter, self.E) == ("Z", "E") else ""
        return rf"{letter}{over}_{{{self.i},{k}}}", f"{letter} {self.i} {k}", self.stream, equation

    def add_and_norm(self, name: str, k: int, X: str, source: str | None = None) -> str:
        """The sublayer Z_{i,k} and the norm Z_{i,k+1} of the sum; or, with the norm before it, the order of 002."""
        made, around = self.made, getattr(self.module, f"add_{name}")
        if (self.half, name) in ATTENTIONS:
            stack, part = f"{self.half} stack {self.i}", ATTENTIONS[self.half, name][1]
            made.begin_part(stack.capitalize() + part, stack, f"{self.E}{self.i}.")
        gain = around.norm, f"{self.parameter}.add_{name}.norm"
        about, first, rows = "000 Layer normalization", around.before, X
        if first:
            made.begin(f"Normalize before Z {self.i},{k}")
            rows = norm(made, *gain, X, f"N{k}", self.called("N", k, "002"), about)
        sublayer = self.feed_forward(rows, k) if name == "ffn" else self.attention(name, k, rows, source)
        made.begin("Add" if first else "Add and normalize")
        letter, equation = ("Z", "002") if first else ("R", "004 Training")
        names = self.called(letter, k + 1, equation)
        formula = f"{names[0]} = {made.tex(X)} + {made.tex(sublayer)}"
        total = made.value("add", [X, sublayer], f"{letter}{k + 1}", *names, formula)
        return total if first else norm(made, *gain, total, f"Z{k + 1}", self.called("Z", k + 1, "004 Training"), about)

    def feed_forward(self, rows: str, k: int) -> str:
        self.made.begin("Feed-forward")
        Z, inner = self.called("Z", k, "004 Training"), (self.stream[0], "d_ff")
        names = {
            "F": ("W_1", "W 1", ("d_model", "d_ff"), "004 Variables", f"W_1^{{FF,{self.E}}}"),
            "b": ("b_1", "b 1", ("d_ff",), "004 Variables", f"b_1^{{FF,{self.E}}}"),
            "U": ("U", "U, before the activation", inner, "004 Functions", "U = <0> W_1 + b_1"),
            "inner": (r"U^{+}", "the activation of U", inner, "004 Functions", r"\max ( 0 , U )"),
            "G": ("W_2", "W 2", ("d_ff", "d_model"), "004 Variables", f"W_2^{{FF,{self.E}}}"),
            "c": ("b_2", "b 2", ("d_model",), "004 Variables", f"b_2^{{FF,{self.E}}}"),
            "X": (*Z, rf"{Z[0]} = \mathrm{{FFN}}({self.made.tex(rows)}) = U^{{+}} W_2 + b_2"),
        }
        attributes = {"F": "W_1", "b": "b_1", "G": "W_2", "c": "b_2"}
        return feed_forward(Lines(self.made, names, self.module.ffn, f"{self.parameter}.ffn", attributes), rows, "relu")

    def attention(self, name: str, k: int, rows: str, source: str | None) -> str:
        over, _, at = ATTENTIONS[self.half, name]
        n, m = self.stream[0], "n_input" if source else self.stream[0]
        names = _of_004(over, n, m, self.called("Z", k, "004 Training"))
        attributes = {letter: f"W_{letter}" for letter in "QKV"} | {"W": "W_O", "bias of W": "beta_O"}
        attributes |= {f"bias of {letter}": f"beta_{letter}" for letter in "QKV"}
        lines = Lines(self.made, names, getattr(self.module, name), f"{self.parameter}.{name}", attributes, at)
        return attention(lines, rows, source or rows, name == "masked")


def _of_004(over: str, n: str, m: str, Z: tuple) -> Names:
    """The names of the variables of a multi-head attention; `over` stands over its weights, Z is its result."""
    square, functions = ("h", n, m), "004 Functions"
    mask = r"\mathrm{Mask}(S)_{i m} = S_{i m} where m \le i, else -\infty"
    concat = r"C = \mathrm{Concat} ( \mathrm{head}_1, \dots, \mathrm{head}_h )"
    W = f"W^{{O,{over}}}"
    names = {
        "S": ("S", "S, the scores", square, functions, r"S = \frac{q k^\top}{\sqrt{d_k}}"),
        "S'": (r"\mathrm{Mask}(S)", "S with the mask", square, functions, mask),
        "weights": ("A", "attention weights", square, functions, r"A = \mathrm{softmax} ( <0> )"),
        "Y": (r"\mathrm{head}", "the heads", ("h", n, "d_v"), functions, r"\mathrm{head}_j = A v"),
        "Yhat": ("C", "the heads side by side", (n, "h d_v"), functions, concat),
        "W": (W, f"W O {over}", ("h d_v", "d_model"), "004 Variables", W),
        "bias of W": (r"\beta^O", "beta O", ("d_model",), "000 Algorithm 2", r"\beta^O, the bias"),
        "A": (*Z, rf"{Z[0]} = C {W} [+ \beta^O]"),
    }
    for letter, spoken, rows, d in (("Q", "queries", n, "d_k"), ("K", "keys", m, "d_k"), ("V", "values", m, "d_v")):
        small, W, bias = letter.lower(), f"W^{{{letter},{over}}}", rf"\beta^{letter}"
        names[letter] = (W, f"W {letter} {over}", ("h", "d_model", d), "004 Variables", f"{W}, for each head")
        names[f"bias of {letter}"] = (bias, f"beta {letter}", (f"h {d}",), "000 Algorithm 2", f"{bias}, the bias")
        equation = functions if n == m else "000 Cross-attention"
        names[small] = (small, spoken, ("h", rows, d), equation, f"{small} = <0> {W} [+ {bias}]")
    return names


def _last_norm(made: Table, last: Module | None, parameter: str, Z: str, n: str) -> str:
    """The norm at the end of a residual stream, if the stream has one."""
    if last is None:
        return Z
    made.begin("Normalize, the last time")
    names = r"\bar Z", "the last Z, normalized", (n, "d_model"), "002"
    return norm(made, last, parameter, Z, "last", names, "000 Layer normalization")


def _words(made: Table, w: Transformer, Z: str, W: str) -> None:
    """Logits, probabilities and the loss of 004."""
    tied, words, smoothing = w.W_S is None, ("n_output", "n_vol"), w.config.label_smoothing
    mean, training = w.config.reduction == "mean", "004 Training"
    logits = r"Z = <0> W_E^\top + b^S" if tied else "Z = <0> W^S + b^S"
    each = r"\mathcal{L}_i = - \log P_{i, y_i}"
    if smoothing:
        each = rf"\mathcal{{L}}_i = - {1 - smoothing:g} \log P_{{i, y_i}} - {smoothing:g} \langle \log P_i \rangle"
    total = r"\mathcal{L} = \langle \mathcal{L}_i \rangle" if mean else r"\mathcal{L} = \sum_i \mathcal{L}_i"
    names = {
        "O": ("W^S", "W S", ("d_model", "n_vol"), "004 Variables", "W^S"),
        "c": ("b^S", "b S", ("n_vol",), "004 Variables", "b^S"),
        "L": ("Z", "Z, the logits", words, training, logits),
        "q": ("P", "P, the probabilities", words, training, r"P = \mathrm{softmax} ( Z )"),
        "losses": (r"\mathcal{L}_i", "the loss of each word", ("n_output",), training, each),
        "loss": (r"\mathcal{L}", "the loss", (), "003 (16)" if mean else training, total),
    }
    made.begin("Logits")
    lines = Lines(made, names, w, "", {"O": "W_S", "c": "b_S"})
    L = lines.value("affine", [Z, W if tied else lines.weight("O"), lines.weight("c")], "L", transposed=tied)
    loss(lines, L, mean, smoothing=smoothing)

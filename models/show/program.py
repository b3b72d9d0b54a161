r"""The table of a decoder: its variables and operations, in the order of equations (1) to (16) of document 003.

The table is made from the modules themselves: the shapes are those of their parameters, and what is absent (a bias, P,
a norm) has no line. JavaScript runs it (program.js); a test runs it in the engine and compares it with the model. So a
layout needs no code here, as long as its modules are known; `table` refuses any other module.

A variable has three dimensions in the page: heads, rows and columns. Operations, and what they do forward:

    rows      y_i = E_{t_i}, the rows of a table for the tokens    scores   q k^T / sqrt(K), for each head
    add       a + b, of b the first n rows                         mask     -inf where m > i
    norm      (x - <x>) / sqrt(sigma + eps) gamma + delta          softmax  along the last dimension
    project   N W_h + b_h, for each head                           mix      the weights times the rows v
    affine    X W + b                                              beside   the heads side by side
    relu, gelu                                                     cross_entropy, mean
"""

from dataclasses import asdict, dataclass, field

from models.decoder import Block, Decoder
from tinytensor import nn
from tinytensor.nn import Module

KNOWN = (Decoder, Block, nn.ModuleList, nn.LayerNorm, nn.RMSNorm)


class UnknownModule(ValueError):
    """A model has a part that the table has no lines for; the message names it."""


@dataclass(frozen=True)
class Variable:
    """An array of the model: a weight, or a value that it computes from a text of n tokens."""

    key: str  # unique: "2.Q" is the Q of layer 2
    tex: str  # its name, as LaTeX
    said: str  # its name, read aloud
    letters: tuple[str, ...]  # its shape in the letters of 003; n is the number of tokens
    equation: str  # its equation of 003
    formula: str  # LaTeX
    section: str
    layer: int = 0  # from 1; 0 outside of the layers
    weight: str | None = None  # the name of the parameter in the model


@dataclass(frozen=True)
class Operation:
    """One line of the program: `output` from `inputs`, which are keys of variables."""

    op: str
    inputs: tuple[str, ...]
    output: str
    options: dict = field(default_factory=dict)
    backward: tuple[str, ...] = ()  # for each input, its line of (17), as LaTeX


@dataclass
class Table:
    sizes: dict[str, int]
    variables: list[Variable] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    section: str = ""
    layer: int = 0

    def begin(self, section: str) -> None:
        """The next variables belong to this section of the page."""
        self.section = section

    def weight(self, key, parameter, tex, said, letters, equation, about) -> str:
        """Add a weight; `parameter` is its name in the model. Returns its key."""
        key = f"{self.layer}.{key}" if self.layer else key
        here = self.section, self.layer
        self.variables.append(Variable(key, tex, said, letters, equation, about, *here, weight=parameter))
        return key

    def value(self, op, inputs, key, tex, said, letters, equation, formula, **options) -> str:
        """Add a value and the operation that computes it from `inputs`, of which None are left out."""
        key = f"{self.layer}.{key}" if self.layer else key
        given = tuple(name for name in inputs if name is not None)
        names = {variable.key: variable.tex for variable in self.variables}
        lines = backward(op, [names[name] for name in given], tex, options)
        self.operations.append(Operation(op, given, key, options, lines))
        self.variables.append(Variable(key, tex, said, letters, equation, formula, self.section, self.layer))
        return key

    def as_json(self) -> dict:
        """The table in lists and dictionaries."""
        return {
            "sizes": self.sizes,
            "variables": [asdict(variable) for variable in self.variables],
            "operations": [asdict(operation) for operation in self.operations],
        }


# ------------------------------------------------------------------------------------------- the lines of equation (17)

# For each input, the adjoint that an operation sends it: 0, 1, 2 are the inputs, y is the output, d(...) the adjoint.
SENT = {
    "rows": (r"d(0)_k = \sum_{i : t_i = k} d(y)_i",),
    "add": ("d(0) = d(y)", "d(1)_i = d(y)_i"),
    "norm": (  # r is 1 over the root, z the normalized row before gamma and delta
        r"d(0) = r \left( h - \langle h \rangle - z \langle h z \rangle \right), h = \gamma d(y)",
        r"d(1) = \sum_i z_i d(y)_i",
        r"d(2) = \sum_i d(y)_i",
    ),
    "rms": (r"d(0) = r \left( h - z \langle h z \rangle \right), h = \gamma d(y)", r"d(1) = \sum_i z_i d(y)_i"),
    "project": (
        r"d(0) = \sum_h d(y)_h {1}_h^\top",
        r"d(1)_h = {0}^\top d(y)_h",
        r"d(2)_h = \sum_i d(y)_{h i}",
    ),
    "scores": (r"d(0) = d(y) {1} / \sqrt K", r"d(1) = d(y)^\top {0} / \sqrt K"),
    "mask": ("d(0) = d(y)",),
    "softmax": (r"d(0) = {y} \left( d(y) - \sum_m {y}_m d(y)_m \right)",),
    "mix": (r"d(0) = d(y) {1}^\top", r"d(1) = {0}^\top d(y)"),
    "beside": ("d(0)_h = d(y), the part of head h",),
    "affine": (r"d(0) = d(y) {1}^\top", r"d(1) = {0}^\top d(y)", r"d(2) = \sum_i d(y)_i"),
    "transposed": (r"d(0) = d(y) {1}", r"d(1) = d(y)^\top {0}"),
    "relu": (r"d(0) = d(y) where {0} > 0, else 0",),
    "gelu": (r"d(0) = d(y) \left( \Phi ( {0} ) + {0} \varphi ( {0} ) \right)",),
    "cross_entropy": ("d(0)_i = (q_i - p_i) d(y)",),
    "mean": ("d(0) = d(y) / N",),
}


def backward(op: str, inputs: list[str], output: str, options: dict) -> tuple[str, ...]:
    """The line of (17) for each input of an operation, in LaTeX, with the names of the variables."""
    kind = "rms" if options.get("rms") else "transposed" if options.get("transposed") else op
    lines = []
    for line in SENT[kind][: len(inputs)]:
        line = line.replace(r"\gamma ", "") if len(inputs) == 1 else line  # this norm has no gamma
        for place, name in [*enumerate(inputs), ("y", output)]:
            adjoint = rf"\frac{{\partial \mathcal{{L}}}}{{\partial {name}}}"
            line = line.replace(f"d({place})", adjoint).replace(f"{{{place}}}", f"{{{name}}}")
        lines.append(line)
    return tuple(lines)


# ------------------------------------------------------------------------------------------------------- the modules

LAYER_NORM = r"\frac{Z - \langle Z \rangle}{\sqrt{\sigma(Z) + \epsilon}}"
RMS_NORM = r"\frac{Z}{\sqrt{\langle Z^2 \rangle + \epsilon}}"


def table(model: Module) -> Table:
    """The table of a decoder; UnknownModule if a part of it is none of document 003's."""
    if type(model) is not Decoder:
        raise UnknownModule(
            f"show: a {type(model).__name__} was given; expected a Decoder of models.decoder, and no subclass of it"
        )
    for name, module in model.named_modules():
        if type(module) not in KNOWN:
            known = ", ".join(kind.__name__ for kind in KNOWN)
            raise UnknownModule(
                f"show: {name} is a {type(module).__name__}, and there are no equations for it; known are {known}"
            )
    config = model.config
    made = Table({letter: getattr(config, letter) for letter in "DHKFLVC"})
    Z = _embedding(made, model)
    for number, block in enumerate(model.blocks, 1):
        made.layer = number
        Z = _block(made, block, f"blocks.{number - 1}", Z)
    made.layer = 0
    _head(made, model, Z)
    return made


def _norm(made: Table, norm: Module, parameter: str, Z: str, key: str, tex: str, said: str, equation: str) -> str:
    """A norm of the rows of Z, with the parameters that it has."""
    rms = isinstance(norm, nn.RMSNorm)
    of = next(variable.tex for variable in made.variables if variable.key == Z)
    inputs, formula = [Z], f"{tex} = " + (RMS_NORM if rms else LAYER_NORM).replace("Z", f"{{{of}}}")
    for name, letter, spoken in (("weight", r"\gamma", "gamma"), ("bias", r"\delta", "delta")):
        if getattr(norm, name, None) is not None:
            about = f"{letter} of the norm"
            made_key = f"{spoken} of {key}"
            inputs.append(made.weight(made_key, f"{parameter}.{name}", letter, spoken, ("D",), equation, about))
            formula += letter if name == "weight" else f" + {letter}"
    return made.value("norm", inputs, key, tex, said, ("n", "D"), equation, formula, rms=rms, eps=norm.eps)


def _bias(made: Table, w: Module, name: str, parameter: str, key: str, tex: str, letters, equation: str) -> str | None:
    """A bias, or None if the module has none."""
    if getattr(w, name) is None:
        return None
    said = f"bias {key.removeprefix('bias of ')}"
    return made.weight(key, f"{parameter}.{name}", tex, said, letters, equation, f"{tex}, the bias")


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
        norm = w.blocks[0].enter
        Z = _norm(made, norm, "blocks.0.enter", Z, "N", "N", "N, the normalized Z", "after (1)")
    return Z


def _block(made: Table, w: Block, parameter: str, Z: str) -> str:
    """Equations (2) to (10) of one layer, whose parameters' names begin with `parameter`."""
    N, width = Z, ("H", "n", "K")
    if w.config.residual != "once":
        made.begin("Normalize")
        N = _norm(made, w.enter, f"{parameter}.enter", Z, "N", "N", "N, the normalized Z", "after (1)")
        Z = N if w.config.residual == "literal" else Z
    made.begin("Queries, keys and values")
    found = []
    for letter, said in (("Q", "queries"), ("K", "keys"), ("V", "values")):
        about = f"{letter}_j^k, for each head"
        weight = made.weight(letter, f"{parameter}.{letter}", letter, letter, ("H", "D", "K"), "(2)", about)
        small = letter.lower()
        place = f"bias of {letter}", rf"\beta_{letter}", ("H K",), "(2)"
        bias = _bias(made, w, small, parameter, *place)
        formula = f"{small}_i^k = N_i^j {letter}_j^k" + (r" + \beta^k" if bias else "")
        value = made.value("project", [N, weight, bias], small, small, said, width, "(2)", formula)
        found.append(value)
    q, k, v = found
    square = ("H", "n", "n")
    made.begin("Scores")
    formula = r"S_{i m} = q_i \cdot k_m / \sqrt K"
    S = made.value("scores", [q, k], "S", "S", "S, the scores", square, "(3)", formula)
    if w.config.causal:
        formula = r"S'_{i m} = S_{i m} + M_{i m}, M_{i m} = -\infty where m > i"
        S = made.value("mask", [S], "S'", "S'", "S with the mask", square, "(4), (5)", formula)
    made.begin("Attention")
    formula = rf"\alpha_{{i m}} = \mathrm{{softmax}}_m ( {'S' + chr(39) if w.config.causal else 'S'}_{{i m}} )"
    weights = made.value("softmax", [S], "weights", r"\alpha", "attention weights", square, "(6)", formula)
    formula = r"Y_i = \sum_m \alpha_{i m} v_m"
    Y = made.value("mix", [weights, v], "Y", "Y", "Y, the heads", width, "(6)", formula)
    made.begin("Heads together")
    stream = ("n", "D")
    formula = r"\hat Y_i = Y_i^{(1)} \oplus \dots \oplus Y_i^{(H)}"
    Y = made.value("beside", [Y], "Yhat", r"\hat Y", "Y hat", ("n", "H K"), "(7)", formula)
    W = made.weight("W", f"{parameter}.W", "W", "W", ("H K", "D"), "(8)", "W_l^j")
    bias = _bias(made, w, "w", parameter, "bias of W", r"\beta_W", ("D",), "(8)")
    formula = r"A_i^j = W_l^j \hat Y_i^l" + (r" + \beta^j" if bias else "")
    A = made.value("affine", [Y, W, bias], "A", "A", "A", stream, "(8)", formula)
    Z = made.value("add", [Z, A], "Zhat", r"\hat Z", "Z hat", stream, "(9)", r"\hat Z = Z + A")
    made.begin("Normalize again")
    Zbar = _norm(made, w.middle, f"{parameter}.middle", Z, "Zbar", r"\bar Z", "Z bar", "after (9)")
    made.begin("Feed-forward")
    F = made.weight("F", f"{parameter}.F", "F", "F", ("D", "F"), "(10)", "F_k^l")
    b = _bias(made, w, "b", parameter, "b", "b", ("F",), "(10)")
    formula = r"U = F \bar Z" + (" + b" if b else "")
    U = made.value("affine", [Zbar, F, b], "U", "U", "U, before the activation", ("n", "F"), "(10)", formula)
    if w.config.activation == "gelu-tanh":
        raise UnknownModule("show: the page has no equations for the activation gelu-tanh; it has those of gelu")
    relu = w.config.activation == "relu"
    formula = r"\max ( 0 , U )" if relu else r"U \Phi ( U )"
    name = r"U^{+}" if relu else r"U \Phi"
    U = made.value("relu" if relu else "gelu", [U], "inner", name, "the activation of U", ("n", "F"), "(10)", formula)
    G = made.weight("G", f"{parameter}.G", "G", "G", ("F", "D"), "(10)", "G_l^j")
    c = _bias(made, w, "c", parameter, "c", "c", ("D",), "(10)")
    formula = f"X = G {name}" + (" + c" if c else "")
    X = made.value("affine", [U, G, c], "X", "X", "X, the feed-forward network's output", stream, "(10)", formula)
    return made.value("add", [Z, X], "Z'", "Z'", "Z prime", stream, "(10)", r"Z' = \hat Z + X")


def _head(made: Table, w: Decoder, Z: str) -> None:
    """Equations (11) to (16)."""
    if w.final is not None:
        made.begin("Normalize, the last time")
        Z = _norm(made, w.final, "final", Z, "Zlast", r"\bar Z", "the last Z, normalized", "before (11)")
    made.begin("Logits")
    tied = w.O is None
    if tied:
        O, formula = "E", r"L_i^m = Z_i^j E_m^j"
    else:
        O, formula = made.weight("O", "O", "O", "O", ("D", "V"), "(11)", "O_j^m"), r"L_i^m = Z'_i^j O_j^m"
    L = made.value("affine", [Z, O], "L", "L", "L, the logits", ("n", "V"), "(11)", formula, transposed=tied)
    made.begin("Probabilities and loss")
    formula = r"q_i^j = \frac{\exp L_i^j}{\sum_m \exp L_i^m}"
    made.value("softmax", [L], "q", "q", "q, the probabilities", ("n", "V"), "(14)", formula)
    formula = r"\mathcal{L}_i = - \log q_i^t, p_i^t = 1"
    name = r"\mathcal{L}_i"
    each = made.value(
        "cross_entropy", [L], "losses", name, "the loss of each token", ("n",), "(12), (13), (15)", formula
    )
    formula = r"\mathcal{L} = \langle \mathcal{L}_i \rangle"
    made.value("mean", [each], "loss", r"\mathcal{L}", "the loss", (), "(16)", formula)

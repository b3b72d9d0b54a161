"""The lines that a table is made of: variables, operations, and the modules that the models of both documents share.

program.py makes the tables of the models with them.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tinytensor import nn
from tinytensor.nn import Module


@dataclass(frozen=True)
class Variable:
    """An array of the model: a weight, or a value that it computes from a text of n tokens."""

    key: str  # unique: "2.Q" is the Q of layer 2
    tex: str  # its name, as LaTeX
    said: str  # its name, read aloud
    letters: tuple[str, ...]  # its shape in the letters of the document; n is the number of tokens
    equation: str  # its equation of the document
    formula: str  # LaTeX
    part: str  # of the page: "Layer 1"
    section: str  # of the part
    of: str = ""  # the part in a sentence: "layer 1"
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
    pair: dict | None = None  # of a translator: {"begin", "zero", "stop"}, the tokens y_0 (0 where zero) and STOP
    variables: list[Variable] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    part: str = ""
    of: str = ""
    prefix: str = ""  # of the keys
    section: str = ""

    def begin_part(self, part: str, of: str = "", prefix: str = "") -> None:
        """The next variables belong to this part of the page; `of` names it in a sentence."""
        self.part, self.of, self.prefix = part, of, prefix

    def begin(self, section: str) -> None:
        """The next variables belong to this section of the part."""
        self.section = section

    def weight(self, key, parameter, tex, said, letters, equation, about) -> str:
        """Add a weight; `parameter` is its name in the model. Returns its key."""
        return self._add(key, tex, said, letters, equation, about, weight=parameter)

    def value(self, op, inputs, key, tex, said, letters, equation, formula, **options) -> str:
        """Add a value and the operation that computes it from `inputs`, of which None are left out."""
        used = tuple(name for name in inputs if name is not None)
        lines = backward(op, [self.tex(name) for name in used], tex, options)
        key = self._add(key, tex, said, letters, equation, formula)
        self.operations.append(Operation(op, used, key, options, lines))
        return key

    def _add(self, key, tex, said, letters, equation, formula, weight=None) -> str:
        key, here = self.prefix + key, (self.part, self.section, self.of)
        self.variables.append(Variable(key, tex, said, letters, equation, formula, *here, weight))
        return key

    def tex(self, key: str) -> str:
        """The name of a variable, as LaTeX."""
        return next(variable.tex for variable in self.variables if variable.key == key)

    def as_json(self) -> dict:
        """The table in lists and dictionaries."""
        return {
            "sizes": self.sizes,
            "pair": self.pair,
            "variables": [asdict(variable) for variable in self.variables],
            "operations": [asdict(operation) for operation in self.operations],
        }


# --- The lines of equation (17)

# For each input, the adjoint that an operation sends it: 0, 1, 2 are the inputs, y is the output, d(...) the adjoint.
SENT = {
    "rows": (r"d(0)_k = \sum_{i : t_i = k} d(y)_i",),
    "scaled": (r"d(0)_k = \sqrt{d_{\mathrm{model}}} \sum_{i : t_i = k} d(y)_i",),
    "sinusoids": (),
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
    "transposed": (r"d(0) = d(y) {1}", r"d(1) = d(y)^\top {0}", r"d(2) = \sum_i d(y)_i"),
    "relu": (r"d(0) = d(y) where {0} > 0, else 0",),
    "gelu": (r"d(0) = d(y) \left( \Phi ( {0} ) + {0} \varphi ( {0} ) \right)",),
    "cross_entropy": ("d(0)_i = (q_i - p_i) d(y)",),
    "smoothing": (r"d(0)_i = \left( P_i - Y_i \right) d(y), Y_i are the right probabilities",),
    "mean": ("d(0) = d(y) / N",),
    "sum": ("d(0)_i = d(y)",),
}


def backward(op: str, inputs: list[str], output: str, options: dict) -> tuple[str, ...]:
    """The line of (17) for each input of an operation, in LaTeX, with the names of the variables."""
    special = ("rms", "transposed", "scaled", "smoothing")
    rule = next((name for name in special if options.get(name) not in (None, False)), op)
    lines = []
    for line in SENT[rule][: len(inputs)]:
        line = line.replace(r"\gamma ", "") if len(inputs) == 1 else line  # this norm has no gamma
        for index, name in [*enumerate(inputs), ("y", output)]:
            adjoint = rf"\frac{{\partial \mathcal{{L}}}}{{\partial {name}}}"
            line = line.replace(f"d({index})", adjoint).replace(f"{{{index}}}", f"{{{name}}}")
        lines.append(line)
    return tuple(lines)


# --- The modules

# What a document calls a variable: LaTeX, read aloud, shape, equation, formula. In a formula <0> is the first input,
# and what stands in [ ] belongs to a bias that the module may lack.
Names = Mapping[str, tuple[str, str, tuple[str, ...], str, str]]

LAYER_NORM = r"\frac{Z - \langle Z \rangle}{\sqrt{\sigma(Z) + \epsilon}}"
RMS_NORM = r"\frac{Z}{\sqrt{\langle Z^2 \rangle + \epsilon}}"


@dataclass(frozen=True)
class Lines:
    """Adds the weights and values of a module to a table, under the names that a document has for them."""

    made: Table
    names: Names
    module: Module
    parameter: str = ""  # the module's name in the model
    attributes: Mapping[str, str] = field(default_factory=dict)  # its names of weights, where they are not the keys
    at: str = ""  # goes before the keys

    def weight(self, key: str) -> str | None:
        """Add a weight; None if the module has none of this name."""
        attribute = self.attributes.get(key, key)
        if getattr(self.module, attribute) is None:
            return None
        parameter = f"{self.parameter}.{attribute}".removeprefix(".")
        return self.made.weight(self.at + key, parameter, *self.names[key])

    def value(self, op: str, inputs: list[str | None], key: str, **options) -> str:
        """Add a value and its operation; the last input is None if the module has no bias."""
        tex, said, letters, equation, formula = self.names[key]
        for index, name in enumerate(inputs):
            if name is not None:
                formula = formula.replace(f"<{index}>", self.made.tex(name))
        formula = re.sub(r" ?\[(.*?)\]", "" if inputs[-1] is None else r" \1", formula)
        return self.made.value(op, inputs, self.at + key, tex, said, letters, equation, formula, **options)


def norm(made: Table, module: Module, parameter: str, Z: str, key: str, names: tuple, about: str) -> str:
    """A norm of the rows of Z, with the parameters that it has; `about` is their equation."""
    tex, said, letters, equation = names
    rms = isinstance(module, nn.RMSNorm)
    inputs, formula = [Z], f"{tex} = " + (RMS_NORM if rms else LAYER_NORM).replace("Z", f"{{{made.tex(Z)}}}")
    for attribute, letter, spoken in (("weight", r"\gamma", "gamma"), ("bias", r"\delta", "delta")):
        if getattr(module, attribute, None) is not None:
            own = f"{spoken} of {key}", f"{parameter}.{attribute}", letter, spoken
            inputs.append(made.weight(*own, letters[-1:], about, f"{letter} of the norm"))
            formula += letter if attribute == "weight" else f" + {letter}"
    return made.value("norm", inputs, key, tex, said, letters, equation, formula, rms=rms, eps=module.eps)


def attention(lines: Lines, rows: str, source: str, causal: bool) -> str:
    """Attention of the `rows` to the `source`; in self-attention they are the same."""
    lines.made.begin("Queries, keys and values")
    q, k, v = (
        lines.value("project", [read, lines.weight(letter), lines.weight(f"bias of {letter}")], letter.lower())
        for letter, read in (("Q", rows), ("K", source), ("V", source))
    )
    lines.made.begin("Scores")
    S = lines.value("scores", [q, k], "S")
    if causal:
        S = lines.value("mask", [S], "S'")
    lines.made.begin("Attention")
    weights = lines.value("softmax", [S], "weights")
    Y = lines.value("mix", [weights, v], "Y")
    lines.made.begin("Heads together")
    Y = lines.value("beside", [Y], "Yhat")
    return lines.value("affine", [Y, lines.weight("W"), lines.weight("bias of W")], "A")


def feed_forward(lines: Lines, rows: str, activation: str) -> str:
    """The two matrices of a feed-forward network, and the activation between them."""
    U = lines.value("affine", [rows, lines.weight("F"), lines.weight("b")], "U")
    U = lines.value(activation, [U], "inner")
    return lines.value("affine", [U, lines.weight("G"), lines.weight("c")], "X")


def loss(lines: Lines, L: str, mean: bool, **smoothing: float) -> None:
    """Probabilities from the logits, the loss of each token, and their mean or sum."""
    lines.made.begin("Probabilities and loss")
    lines.value("softmax", [L], "q")
    losses = lines.value("cross_entropy", [L], "losses", **smoothing)
    lines.value("mean" if mean else "sum", [losses], "loss")

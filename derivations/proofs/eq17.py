"""Equation (17) of document 003 for any sizes: the gradients of its equations (1) to (16), derived by differentiation.

`with_adjoints` of adjoints.py differentiates every line of the three programs of equations.py with SymPy's diff and
sums, over all lines that use a name, the gradients through them. The result has the form that one writes by hand, in
cached interim results of the forward pass. Every gradient is then proved equal to the closed form in equations.py. All
sizes and the number of layers stay symbols: no statement here depends on a number.

Assumed: N > 0 (a position counts), ε > 0, T > 0 (every position may attend to at least one), and that the derivative of
max(0, x) at 0 is 0. Trusted: SymPy's diff of one line and its arithmetic, and the index calculus.

To plant a mistake: `derive(...)` returns `Derivation(embedding, block, head)`; each of its programs has
`replaced(name, change)`, each `*_closed()` is a dict {entry: Closed(form, through)}. `prove_forms(program, closed)`
proves all of a dict, or raises Refuted with a counterexample. `derive` takes the functions that make the forward
programs, so a mistake may be planted there, too; `prove_layers(derivation, stack(...))` compares with the model of L
layers.
"""

from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from unicodedata import combining

from sympy import Expr, Indexed, Integer

from derivations import equations
from derivations.adjoints import Program, prove_form, with_adjoints
from derivations.claims import INDEX, SYMPY, Evidence, Refuted, claim
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, adjoint_of, d, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, Index, derivative, fresh, normal, total
from tinytensor.symbolic.index_calculus.notation import tex, text

from derivations.equations import RESIDUALS, C, Closed, D, E, F, G, K, M, NORM, O, P, Q, S, T, V, W, X, Y, Z  # isort: skip
from derivations.equations import ZK, ZQ, ZV, Zbar, Zhat, Zp, b, c, e, f, h, i, j, k, logits, loss, nL, ε, σ  # isort: skip

# ---- the derivation -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Derivation:
    """The three programs, each followed by its adjoints, down to those of its parameters."""

    embedding: Program  # from the adjoint of X: those of E and P
    block: Program  # from the adjoint of Z': those of X and of the weights of one layer
    head: Program  # from the loss: those of the logits, O and Z'


COUNTED = "N > 0: at least one position counts"
KINK = "the derivative of max(0, x) at 0 is taken to be 0"
SPREAD = "ε > 0"
ATTENDS = "every position may attend to at least one: T > 0"
OF_A_MODEL = (COUNTED, KINK, SPREAD, ATTENDS)


def derive(
    residual: str = "literal", embedding=equations.embedding, block=equations.block, head=equations.head
) -> Derivation:
    """Differentiate the three programs, given by the functions that make them (pass another to plant a mistake)."""
    return Derivation(
        with_adjoints(embedding(residual), X), with_adjoints(block(residual), Zp), with_adjoints(head(), loss)
    )


derivation = cache(derive)


def prove_forms(program: Program, closed: dict[Expr, Closed]) -> None:
    """Prove every closed form of a dict, for all sizes, or raise Refuted with a counterexample."""
    for left, by_hand in closed.items():
        prove_form(program, left, by_hand.form, by_hand.through)


# ---- any number of layers -------------------------------------------------------------------------------------------

λ = Index("λ", nL)  # a layer: X of layer 1 is the first block's input, X of layer λ + 1 the output of block λ
deep_X = Array("X", (nL + 1, C, D), "<_^")


def placed(expr: Expr, layers: dict[Name, Expr]) -> Expr:
    """expr with the layer as one more index of the arrays in `layers` and their adjoints; Z' is the next layer's X."""
    deep = {}
    for entry in expr.atoms(Indexed):
        array = entry.base.of or entry.base
        if array in layers:
            more = Array(array.label.name, (nL, *array.sizes), "<" + array.positions, text=array.text, tex=array.tex)
            more = deep_X if array in (X, Zp) else more
            deep[entry] = (d(more) if entry.base.of else more)[layers[array], *entry.indices]
    return expr.xreplace(deep)


def layers_of(p: Program) -> dict[Name, Expr]:
    """The layer of a program's arrays: λ for the block's; the others meet it in layers 1 and L + 1."""
    if Zp not in p.definitions:
        return {X: Integer(1), Zp: nL + 1}
    return dict.fromkeys([*p.parameters, *p.definitions], λ) | {Zp: λ + 1}


def stack(*programs: Program) -> list[Definition]:
    """Embedding, block and head as one model of L layers: the lines of the block hold for each λ = 1..L."""
    return [
        Definition(placed(line.left, layers_of(p)), placed(line.right, layers_of(p)))
        for p in programs
        for line in p.lines
    ]


def prove_layers(derivation: Derivation, lines: list[Definition]) -> None:
    """Prove that the adjoints in a model of L layers are those of the three programs, put in their places; or Refuted.

    Every array with indices, and every layer λ = 1..L, at once: the uses of each array in all lines of the stack
    are differentiated, and compared with the derivation.
    """
    for program in (derivation.head, derivation.block, derivation.embedding):
        layers = layers_of(program)
        for line in (line for line in program.lines if line.is_adjoint):
            adjoint = adjoint_of(placed(line.name.of[line.left.indices], layers), lines, loss)
            expected = placed(fresh(line.right), layers)
            if normal(adjoint - expected) != 0:
                raise Refuted(
                    f"{text(line.left)} in L layers is {text(adjoint)}, but the derivation says {text(expected)}"
                )


# ---- the claims -----------------------------------------------------------------------------------------------------

proof = partial(claim, "eq17", category="proof", size="any size", source="003 eq. (17)", trusted=(SYMPY, INDEX))


def shown(lines, numbers=()) -> Evidence:
    """Evidence of (left, right) pairs, one equation a line; `numbers` are the equations' numbers in the source."""
    lines = list(lines)
    tags = [rf" \tag{{{number}}}" if number else "" for number in numbers] or [""] * len(lines)
    return Evidence(
        latex="\n\n".join(f"{tex(left)} = {tex(right)}{tag}" for (left, right), tag in zip(lines, tags, strict=True)),
        text="\n".join(f"{text(left)} = {text(right)}" for left, right in lines),
    )


def proved(program: Program, closed: dict[Expr, Closed], *arrays: Array) -> Evidence:
    """Prove the closed forms of the adjoints of these arrays, and show them."""
    chosen = {left: by_hand for left, by_hand in closed.items() if left.base.of in arrays}
    prove_forms(program, chosen)
    return shown((left, by_hand.form) for left, by_hand in chosen.items())


@proof(
    "equations (1) to (16) as definitions: every index in its range, every name defined once and before it is used",
    category="display",
    source="003 eqs. (1)-(16)",
    trusted=(INDEX,),
)
def definitions():
    lines = [*equations.embedding().lines, *equations.block().lines, *equations.head().lines]
    numbers = [line.source.replace("(", "").replace(")", "") for line in lines]
    evidence = shown(((line.left, line.right) for line in lines), numbers)
    notes = [line.source + (f"   erratum {line.erratum}" if line.erratum else "") for line in lines]
    columns = [" " * (42 - sum(not combining(x) for x in one)) for one in evidence.text.splitlines()]
    text = "\n".join(map("".join, zip(evidence.text.splitlines(), columns, notes)))
    return Evidence(evidence.latex, text)


@proof(
    "the adjoints of all names, line by line backward, in cached interim results: reverse mode in symbols",
    category="display",
)
def adjoints():
    derived = derivation()
    lines = [line for p in (derived.head, derived.block, derived.embedding) for line in p.lines if line.is_adjoint]
    if missing := {logits, O, G, c, F, b, W, V, Q, K, E, P} - {line.name.of for line in lines}:
        raise Refuted(f"eq. (17) needs the gradient of {missing.pop().label}, which was not derived")
    return shown((line.left, line.right) for line in lines)


@proof(
    "∂𝓛/∂L is softmax minus one-hot, times w_i/N: 0 at padding; and from it ∂𝓛/∂O and ∂𝓛/∂Z'",
    assumptions=(COUNTED,),
)
def head_gradients():
    return proved(derivation().head, equations.head_closed(), logits, O, Zp)


@proof(
    "∂𝓛/∂G, ∂c, ∂F, ∂b: the feed-forward",
    assumptions=(KINK,),
)
def feed_forward_gradients():
    return proved(derivation().block, equations.block_closed(), c, G, f, b, F, Zbar)


@proof("through a norm: r (dz - <dz> - z <z dz>), with r = 1/sqrt(variance + ε)", assumptions=(SPREAD,))
def norm_gradients():
    return proved(derivation().block, equations.block_closed(), Zhat, X)


@proof("∂𝓛/∂W: the output projection of the heads")
def projection_gradients():
    return proved(derivation().block, equations.block_closed(), W, Y)


@proof(
    "through the softmax: ∂S = σ (∂σ - Σ σ ∂σ), for any mask",
    assumptions=(ATTENDS,),
)
def softmax_gradients():
    return proved(derivation().block, equations.block_closed(), σ, S)


@proof("∂𝓛/∂Q, ∂K, ∂V, and the three branches meeting the residual in ∂𝓛/∂Z", assumptions=(ATTENDS,))
def attention_gradients():
    return proved(derivation().block, equations.block_closed(), ZQ, ZK, ZV, Q, K, V, Z)


@proof("∂𝓛/∂E sums over all positions that hold the token; and ∂𝓛/∂P, which (17) leaves out but (19) counts")
def embedding_gradients():
    return proved(derivation().embedding, equations.embedding_closed(), E, P)


@proof(
    "any number of layers: in a model of L layers, the adjoints in layer λ are those of one block, with the "
    "adjoint of X in layer λ + 1 for that of Z'; and in layer L + 1 that of X is the one from the head",
    size="any size, any number of layers",
    assumptions=(
        "induction: a statement shown for the last layer, and from each layer to the one before, holds for all",
        *OF_A_MODEL,
    ),
)
def layers():
    derived = derivation()
    prove_layers(derived, stack(equations.embedding(), equations.block(), equations.head()))
    top, in_block = placed(d(Zp)[i, j], {Zp: nL + 1}), layers_of(derived.block)
    steps = [line for line in derived.block.lines if d(Zp) in names_in(line.right) or line.name == d(X)]
    return shown(
        [
            (top, placed(derived.head[d(Zp)].right, layers_of(derived.head))),
            *((placed(line.left, in_block), placed(line.right, in_block)) for line in steps),
            (d(P)[i, j], placed(derived.embedding[d(P)].right, layers_of(derived.embedding))),
        ]
    )


def declare_layers(residual: str, what: str) -> None:
    @proof(
        f"any number of layers in the reading {what}: the same induction",
        size="any size, any number of layers",
        assumptions=("induction, as above", *OF_A_MODEL),
        source="003 eqs. (1), (9), (10), (17)",
    )
    def layers_too():
        derived = derivation(residual)
        prove_layers(derived, stack(equations.embedding(residual), equations.block(residual), equations.head()))
        line, layer_of = derived.block[d(X)], layers_of(derived.block)
        return shown([(placed(line.left, layer_of), placed(line.right, layer_of))])


declare_layers("pre-norm", '"pre-norm", in which (9) adds to the input of the norm')
declare_layers("once", '"once", in which the embedding alone is normalised before (2)')


@proof(
    "the other two readings of the residual (normalised once; before each branch): the same closed forms",
    assumptions=OF_A_MODEL,
    source="003 eqs. (1), (9), (10)",
)
def other_readings():
    for residual in RESIDUALS[1:]:
        derived = derivation(residual)
        prove_forms(derived.embedding, equations.embedding_closed(residual))
        prove_forms(derived.block, equations.block_closed(residual))


@proof(
    "a second way: norm, attention and loss each written as one expression and differentiated at once, without "
    "names in between, give the same",
    assumptions=(COUNTED, SPREAD, ATTENDS),
)
def at_once():
    block = equations.block()
    norm = block.excerpt((*NORM, Z), [X[i, j]], [ε])
    attention = block.excerpt((S, e, T, σ, Y), [ZQ[h, i, k], ZK[h, i, k], ZV[h, i, k]], [M])
    for p, output, inputs in (
        (norm, Z[i, j], (X,)),
        (attention, Y[h, i, k], (ZQ, ZK)),
        (equations.head(), loss, (Zp,)),
    ):
        backward = with_adjoints(p, name_of(output))
        whole = p.expand(output, p.definitions)
        whole = total(d(output) * whole, *output.indices) if isinstance(output, Indexed) else whole
        for array in inputs:
            entry = p.parameters[array]
            new = {index: index.fresh() for index in entry.indices}
            direct = derivative(whole, entry.xreplace(new)).xreplace({v: k for k, v in new.items()})
            rest = normal(direct - backward.expand(d(entry), backward.definitions))
            if rest != 0:
                raise Refuted(f"{text(d(entry))}: differentiated at once, the rest of the difference is {text(rest)}")


@proof(
    "(7), the concatenation: row (h - 1) K + k of W stands for head h and component k, each row once",
    category="check",
    size="H, K = 1..8",
    assumptions=(
        "any size by division with remainder: (h - 1) K + k - 1 has the quotient h - 1 and the remainder k - 1",
    ),
    source="003 eqs. (7), (8)",
    trusted=(),
)
def concatenation():
    for heads, width in product(range(1, 9), repeat=2):
        rows = [(a - 1) * width + b for a in range(1, heads + 1) for b in range(1, width + 1)]
        if rows != list(range(1, heads * width + 1)):
            raise Refuted(f"H = {heads}, K = {width}: the rows of W are {rows}")

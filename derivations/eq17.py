r"""Equation (17) of document 003 for any sizes: the gradients of its equations (1) to (16), derived by differentiation.

The source is followed line by line: three programs (`embedding`, `block`, `head`) hold its equations as definitions, in
its letters, corrected where it errs (the erratum stands next to the line, by its place in errata.py). `adjoint` of
derivations.index then differentiates every line with SymPy's diff and adds up, over all lines that use a name, what
comes back through them. The result has the form that one writes by hand, in cached interim results of the forward pass.
Every gradient is then proved equal to the closed form in `embedding_closed`, `block_closed` or `head_closed`, written
by hand. All sizes stay symbols: no statement here depends on a number.

    C  positions   D  width   H  heads   K  width of a head   F  width of the feed-forward   V  vocabulary   L  layers

How the letters are read. The source has some of them twice; here an index m runs over positions in (3) to (6) and over
the vocabulary from (11) on, as it does there. Left superscript: the head. The products Z Q, Z K and Z V of one position
and one head have names of their own, since their gradients are used twice. σ is the softmax over m (the source's norms
divide by another σ, the variance, which is s here). The letters K, V, F and L are sizes and arrays in the source; in
the code the sizes are nK, nV, nF and nL. That H K = D is not assumed.

Mask: (4) adds M_im in {0, -∞} before the exponential; here e_im = M_im exp S_im with M_im in {1, 0}, which is the same
(exp(-∞) = 0) and keeps ∞ out of the algebra. No property of M, w, N or t is used but that they are not learned; so the
results hold for any mask, with any positions left out of the loss, and for tokens that occur more than once.

max(0, x) has the derivative θ(x) = 1 where x > 0, else 0, at 0 as well.

To plant a mistake: `derive(...)` returns `Derivation(embedding, block, head)`; each of its programs has
`replaced(name, change)`, each `*_closed()` is a dict {entry: Closed(form, through)}. `check(program, closed)` proves
all of a dict, or raises Refuted with a counterexample. `derive` takes the functions that make the forward programs, so
a mistake may go there too; `induction(derivation, stack(...))` compares with the model of L layers.
"""

from dataclasses import dataclass
from functools import cache
from unicodedata import combining

from sympy import Expr, Indexed, Integer, Rational, Symbol, exp, log, sqrt

from derivations.claims import INDEX, SYMPY, Evidence, Refuted, claim
from derivations.index import (
    Array,
    Definition,
    Index,
    Program,
    Size,
    adjoint,
    d,
    delta,
    derivative,
    equal,
    free,
    fresh,
    name,
    names,
    normal,
    relu,
    step,
    tex,
    text,
    total,
    uses,
)

RESIDUALS = ("literal", "once", "pre-norm")  # how (1), (9) and (10) are read: see models/decoder.py

# ---- letters --------------------------------------------------------------------------------------------------------

C, D, H = Size("C", "i m p"), Size("D", "j n"), Size("H", "h")
nK, nF, nV, nL = Size("K", "k"), Size("F", "l"), Size("V", "m u"), Size("L", "λ")  # K, F, V are weights in the code

i, m = Index("i", C), Index("m", C)  # positions: i attends to m
j = Index("j", D)  # components of the model's vectors
h, k, l = Index("h", H), Index("k", nK), Index("l", nF)  # heads, components within a head, units of the feed-forward
u = Index("m", nV)  # the vocabulary: the source's m again, from (11) on
t_ = Index("k", nV)  # rows of E: the source's k in E_k^j

ε, N = Symbol("epsilon", positive=True), Symbol("N", positive=True)  # of the norms; number of counted positions

t, y = Array("t", (C,), values=nV), Array("y", (C,), values=nV)  # tokens, and those that are to be predicted
w = Array("w", (C,))  # 1 where a position counts, 0 where it is padding
M = Array("M", (C, C))  # 1 where i may attend to m, 0 where not
E, P = Array("E", (nV, D), "_^"), Array("P", (C, D), "_^")
Q, K, V = (Array(name, (H, D, nK), "<_^") for name in "QKV")  # X_j^k of the source for each head; lower index first
W = Array("W", (H, nK, D), "__^")
F, b = Array("F", (D, nF), "_^"), Array("b", (nF,), "^")
G, c = Array("G", (nF, D), "_^"), Array("c", (D,), "^")
O = Array("O", (D, nV), "_^")

X = Array("X", (C, D), "_^")  # what a block gets: (1), or Z' of the block before
Z = Array("Z", (C, D), "_^")
ZQ, ZK, ZV = (Array(f"Z{name}", (H, C, nK), "<_^", text=f"(Z{name})") for name in "QKV")
S, e, σ = Array("S", (H, C, C), "<__"), Array("e", (H, C, C), "<__"), Array("σ", (H, C, C), "<__", tex=r"\sigma")
T = Array("T", (H, C), "<_")
Y = Array("Y", (H, C, nK), "<_^")
A = Array("A", (C, D), "_^")
X0 = Array("X0", (C, D), "_^", text="X⁰", tex="{X^{0}}")  # only where the embedding is normalised once: (1) as it is
Zhat = Array("Zhat", (C, D), "_^", text="Ẑ", tex=r"\hat{Z}")
Zbar = Array("Zbar", (C, D), "_^", text="Z̄", tex=r"\bar{Z}")
f, R = Array("f", (C, nF), "_^"), Array("R", (C, nF), "_^")
Zp = Array("Zp", (C, D), "_^", text="Z'", tex="{Z'}")

logits = Array("L", (C, nV), "_^")
num, den = Array("num", (C, nV), "_^", tex=r"\mathrm{num}"), Array("den", (C,), tex=r"\mathrm{den}")
q = Array("q", (C, nV), "_^")
loss_i, loss = Array("loss_i", (C,), text="𝓛", tex=r"\mathcal{L}"), Symbol("loss", real=True)


# ---- equations (1) to (16) ------------------------------------------------------------------------------------------


def norm_names(hat: bool = False) -> tuple[Array, ...]:
    """Mean μ, deviation v, variance s and r = 1/sqrt(s + ε): with a hat for the norm of Ẑ, without for the first."""
    names = []
    for letter, shown, latex, sizes in (
        ("mu", "μ", r"\mu", (C,)),
        ("v", "v", "v", (C, D)),
        ("s", "s", "s", (C,)),
        ("r", "r", "r", (C,)),
    ):
        text, tex = (shown + "\N{COMBINING CIRCUMFLEX ACCENT}", rf"\hat{{{latex}}}") if hat else (shown, latex)
        names.append(Array(letter + "hat" * hat, sizes, "_^"[: len(sizes)], text=text, tex=tex))
    return tuple(names)


def normalised(p: Program, x: Array, z: Array, hat: bool = False, source: str = "after (1)") -> None:
    """z = (x - <x>) / sqrt(variance of x + ε), row by row."""
    mu, v, s, r = norm_names(hat)
    p.let(mu[i], total(x[i, j], j) / D, source)
    p.let(v[i, j], x[i, j] - mu[i], source)
    p.let(s[i], total(v[i, j] ** 2, j) / D, source)
    p.let(
        r[i],
        (s[i] + ε) ** Rational(-1, 2),
        source,
        "003 after (1), (9): no ε is 0/0 for constant vectors",
    )
    p.let(z[i, j], v[i, j] * r[i], source)


def embedding(residual: str = "literal") -> Program:
    """Equation (1): tokens to what the first block gets."""
    p = Program([E[t_, j], P[i, j]], [t, ε])
    raw = X0 if residual == "once" else X
    p.let(raw[i, j], E[t[i], j] + P[i, j], "(1)")
    if residual == "once":  # only here; the other readings normalise at the start of each block
        normalised(p, X0, X)
    return p


def block(residual: str = "literal") -> Program:
    """The norm after (1), and (2) to (10): one layer, X to Z'."""
    p = Program([X[i, j], Q[h, j, k], K[h, j, k], V[h, j, k], W[h, k, j], F[j, l], b[l], G[l, j], c[j]], [M, ε])
    z, kept = attended(residual)
    if z == Z:
        normalised(p, X, Z)
    p.let(ZQ[h, i, k], total(z[i, j] * Q[h, j, k], j), "(2)")
    p.let(ZK[h, i, k], total(z[i, j] * K[h, j, k], j), "(2)")
    p.let(ZV[h, i, k], total(z[i, j] * V[h, j, k], j), "(2)")
    p.let(
        S[h, i, m],
        total(ZQ[h, i, k] * ZK[h, m, k], k) / sqrt(nK),
        "(3)",
        "003 (3): i attends to m, so Q belongs to i and K to m",
    )
    p.let(e[h, i, m], M[i, m] * exp(S[h, i, m]), "(4), (5)", "003 (5): j <= i, but j is not an index of M: m <= i")
    p.let(T[h, i], total(e[h, i, m], m), "(6)")
    p.let(σ[h, i, m], e[h, i, m] / T[h, i], "(6)", "003 (6): of the masked S', over m")
    p.let(Y[h, i, k], total(σ[h, i, m] * ZV[h, m, k], m), "(6)", "003 (6): m runs over positions: times Z V, not V")
    p.let(A[i, j], total(Y[h, i, k] * W[h, k, j], h, k), "(7), (8)")  # row (h - 1) K + k of W, see `concatenation`
    p.let(Zhat[i, j], kept[i, j] + A[i, j], "(9)")
    normalised(p, Zhat, Zbar, hat=True, source="after (9)")
    p.let(f[i, l], total(Zbar[i, j] * F[j, l], j) + b[l], "(10)")
    p.let(R[i, l], relu(f[i, l]), "(10)")
    p.let(Zp[i, j], Zhat[i, j] + total(R[i, l] * G[l, j], l) + c[j], "(10)")
    return p


def attended(residual: str) -> tuple[Array, Array]:
    """What Q, K and V are multiplied by, and what (9) adds to."""
    if residual not in RESIDUALS:
        raise ValueError(f"residual = {residual!r}: choose one of {', '.join(RESIDUALS)}")
    return {"literal": (Z, Z), "once": (X, X), "pre-norm": (Z, X)}[residual]


def head() -> Program:
    """Equations (11) to (16): Z' of the last block to the loss."""
    p = Program([Zp[i, j], O[j, u]], [y, w, N])
    p.let(logits[i, u], total(Zp[i, j] * O[j, u], j), "(11)", "003 (11), (12): probabilities only after (14)")
    p.let(num[i, u], exp(logits[i, u]), "(14)")
    p.let(den[i], total(num[i, u], u), "(14)", "003 (14): the sum is of exp L, over an index of its own")
    p.let(q[i, u], num[i, u] / den[i], "(14)")
    p.let(loss_i[i], -log(q[i, y[i]]), "(12)")  # with (15) this is (13)
    p.let(loss, total(w[i] * loss_i[i], i) / N, "(16)", "003 (16): the mean over counted positions is meant")
    return p


# ---- equation (17) --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Derivation:
    """The three programs, each followed by its adjoints: what was asked for is the adjoints of the parameters."""

    embedding: Program  # from the adjoint of X: those of E and P
    block: Program  # from the adjoint of Z': those of X and of the weights of one layer
    head: Program  # from the loss: those of the logits, O and Z'


def derive(residual: str = "literal", embedding=embedding, block=block, head=head) -> Derivation:
    """Differentiate the three programs (functions that make them: another one may be given to plant a mistake)."""
    return Derivation(adjoint(embedding(residual), X), adjoint(block(residual), Zp), adjoint(head(), loss))


# ---- the same, written by hand --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Closed:
    """What one would write for a gradient, and the names whose definitions are put in to prove it."""

    form: Expr
    through: tuple[Array, ...] = ()


def head_closed() -> dict[Expr, Closed]:
    """Softmax minus one-hot, over N, where a position counts; then two products."""
    return {
        d(logits)[i, u]: Closed(w[i] / N * (q[i, u] - delta(u, y[i])), (num, q, d(num), d(den), d(q), d(loss_i))),
        d(O)[j, u]: Closed(total(Zp[i, j] * d(logits)[i, u], i)),
        d(Zp)[i, j]: Closed(total(O[j, u] * d(logits)[i, u], u)),
    }


def norm_closed(z: Array, x: Array, hat: bool = False) -> Closed:
    """The adjoint of x from that of z = norm(x): r (dz - <dz> - z <z dz>), with r = 1/sqrt(s + ε)."""
    mu, v, s, r = norm_names(hat)
    dz = d(z)
    form = r[i] * (dz[i, j] - total(dz[i, j], j) / D - z[i, j] * total(z[i, j] * dz[i, j], j) / D)
    return Closed(form, (mu, v, z, d(mu), d(v), d(s), d(r)))


def block_closed(residual: str = "literal") -> dict[Expr, Closed]:
    """Feed-forward, norm, output projection, attention, and what comes back to X through all of them."""
    z, kept = attended(residual)
    middle = norm_closed(Zbar, Zhat, hat=True)
    branches = total(Q[h, j, k] * d(ZQ)[h, i, k] + K[h, j, k] * d(ZK)[h, i, k] + V[h, j, k] * d(ZV)[h, i, k], h, k)
    closed = {
        # (10): the feed-forward
        d(c)[j]: Closed(total(d(Zp)[i, j], i)),
        d(G)[l, j]: Closed(total(R[i, l] * d(Zp)[i, j], i)),
        d(f)[i, l]: Closed(step(f[i, l]) * total(G[l, j] * d(Zp)[i, j], j), (d(R),)),
        d(b)[l]: Closed(total(d(f)[i, l], i)),
        d(F)[j, l]: Closed(total(Zbar[i, j] * d(f)[i, l], i)),
        d(Zbar)[i, j]: Closed(total(F[j, l] * d(f)[i, l], l)),
        # after (9): the norm, and the residual beside it
        d(Zhat)[i, j]: Closed(d(Zp)[i, j] + middle.form, middle.through),
        # (7), (8): the output projection
        d(W)[h, k, j]: Closed(total(Y[h, i, k] * d(Zhat)[i, j], i), (d(A),)),
        d(Y)[h, i, k]: Closed(total(W[h, k, j] * d(Zhat)[i, j], j), (d(A),)),
        # (6): the softmax
        d(σ)[h, i, m]: Closed(total(ZV[h, m, k] * d(Y)[h, i, k], k)),
        d(S)[h, i, m]: Closed(σ[h, i, m] * (d(σ)[h, i, m] - total(σ[h, i, m] * d(σ)[h, i, m], m)), (e, σ, d(e), d(T))),
        # (3): the scores
        d(ZQ)[h, i, k]: Closed(total(ZK[h, m, k] * d(S)[h, i, m], m) / sqrt(nK)),
        d(ZK)[h, m, k]: Closed(total(ZQ[h, i, k] * d(S)[h, i, m], i) / sqrt(nK)),
        d(ZV)[h, m, k]: Closed(total(σ[h, i, m] * d(Y)[h, i, k], i)),
        # (2): the weights of the heads
        d(Q)[h, j, k]: Closed(total(z[i, j] * d(ZQ)[h, i, k], i)),
        d(K)[h, j, k]: Closed(total(z[i, j] * d(ZK)[h, i, k], i)),
        d(V)[h, j, k]: Closed(total(z[i, j] * d(ZV)[h, i, k], i)),
    }
    # (9) and the three branches meet in what was attended to; then the norm
    closed[d(z)[i, j]] = Closed(branches + (d(Zhat)[i, j] if kept == z else 0))
    if z == Z:
        first = norm_closed(Z, X)
        closed[d(X)[i, j]] = Closed(first.form + (d(Zhat)[i, j] if kept == X else 0), first.through)
    return closed


def embedding_closed(residual: str = "literal") -> dict[Expr, Closed]:
    """Rows of E collect from every position that holds their token; P from its own position."""
    raw = X0 if residual == "once" else X
    closed = {
        d(E)[t_, j]: Closed(total(delta(t_, t[i]) * d(raw)[i, j], i)),
        d(P)[i, j]: Closed(d(raw)[i, j]),
    }
    if residual == "once":
        closed[d(X0)[i, j]] = norm_closed(X, X0)
    return closed


def check(program: Program, closed: dict[Expr, Closed]) -> None:
    """Prove every closed form of a dict, for all sizes, or raise Refuted with a counterexample."""
    for left, by_hand in closed.items():
        equal(program, left, by_hand.form, by_hand.through)


# ---- any number of layers -------------------------------------------------------------------------------------------

λ = Index("λ", nL)  # a layer. X of layer 1 is what the first block gets, X of layer λ + 1 what block λ gives
deep_X = Array("X", (nL + 1, C, D), "<_^")


def placed(expr: Expr, layers: dict[Array, Expr]) -> Expr:
    """expr with the layer as one more index of the arrays in `layers` and their adjoints; Z' is the next layer's X."""
    deep = {}
    for entry in expr.atoms(Indexed):
        array = entry.base.of or entry.base
        if array in layers:
            more = Array(array.label.name, (nL, *array.sizes), "<" + array.places, text=array.text, tex=array.tex)
            more = deep_X if array in (X, Zp) else more
            deep[entry] = (d(more) if entry.base.of else more)[layers[array], *entry.indices]
    return expr.xreplace(deep)


def places(p: Program) -> dict[Array, Expr]:
    """In which layer the arrays of a program are: the block's in layer λ; the others meet it in layers 1 and L + 1."""
    if Zp not in p.definitions:
        return {X: Integer(1), Zp: nL + 1}
    return dict.fromkeys([*p.parameters, *p.definitions], λ) | {Zp: λ + 1}


def stack(*programs: Program) -> list[Definition]:
    """Embedding, block and head as one model of L layers: the lines of the block stand for each λ = 1..L."""
    return [
        Definition(placed(line.left, places(p)), placed(line.right, places(p)))
        for p in programs
        for line in p.definitions.values()
    ]


def induction(derivation: Derivation, lines: list[Definition]) -> None:
    """Prove that the adjoints in a model of L layers are those of the three programs, put in their places; or Refuted.

    Every array with indices, and every layer λ = 1..L, at once: the uses of each array in all lines of the stack
    are differentiated, and compared with what the derivation says.
    """
    for program in (derivation.head, derivation.block, derivation.embedding):
        adjoints = [array for array in program.definitions if isinstance(array, Array) and array.of]
        for line in (program[array] for array in adjoints):
            entry = line.name.of[line.left.indices]
            new = {index: index.fresh() for index in (*free(entry), λ)}
            found = uses(lines, placed(entry, places(program)).xreplace(new)).xreplace({d(loss): Integer(1)})
            expected = placed(fresh(line.right), places(program)).xreplace(new)
            if normal(found - expected) != 0:
                raise Refuted(
                    f"{text(line.left)} in L layers is {text(found)}, but the derivation says {text(expected)}"
                )


# ---- what is claimed ------------------------------------------------------------------------------------------------

BY = (SYMPY, INDEX)
derivation = cache(derive)


def shown(lines) -> Evidence:
    """Evidence of (left, right) pairs, one equation a line."""
    lines = list(lines)
    return Evidence(
        latex="\n\n".join(f"{tex(left)} = {tex(right)}" for left, right in lines),
        text="\n".join(f"{text(left)} = {text(right)}" for left, right in lines),
    )


def proved(program: Program, closed: dict[Expr, Closed], *arrays: Array) -> Evidence:
    """Check the closed forms of the adjoints of these arrays, and show them."""
    chosen = {left: by_hand for left, by_hand in closed.items() if left.base.of in arrays}
    check(program, chosen)
    return shown((left, by_hand.form) for left, by_hand in chosen.items())


@claim(
    "eq17",
    "equations (1) to (16) as definitions: every index in its range, every name defined once and before it is used",
    kind="proof",
    size="any size",
    source="003 eqs. (1)-(16)",
    trusted=(INDEX,),
)
def definitions():
    lines = [line for p in (embedding(), block(), head()) for line in p.definitions.values()]
    evidence = shown((line.left, line.right) for line in lines)
    notes = [line.source + (f"   erratum {line.erratum}" if line.erratum else "") for line in lines]
    columns = [" " * (42 - sum(not combining(x) for x in one)) for one in evidence.text.splitlines()]
    text = "\n".join(map("".join, zip(evidence.text.splitlines(), columns, notes)))
    return Evidence(evidence.latex, text)


@claim(
    "eq17",
    "the adjoints of all names, line by line backward, in cached interim results: reverse mode in symbols",
    kind="proof",
    size="any size",
    source="003 eq. (17)",
    trusted=BY,
)
def adjoints():
    found = derivation()
    wanted = {logits, O, G, c, F, b, W, V, Q, K, E, P}
    lines = [line for p in (found.head, found.block, found.embedding) for line in p.definitions.values()]
    lines = [line for line in lines if isinstance(line.name, Array) and line.name.of]
    if missing := wanted - {line.name.of for line in lines}:
        raise Refuted(f"eq. (17) needs the gradient of {missing.pop().label}, which was not derived")
    return shown((line.left, line.right) for line in lines)


@claim(
    "eq17",
    "∂𝓛/∂L is softmax minus one-hot, times w_i/N: 0 at padding; and from it ∂𝓛/∂O and ∂𝓛/∂Z'",
    kind="proof",
    size="any size",
    assumptions=("N > 0: at least one position counts",),
    source="003 eq. (17)",
    trusted=BY,
)
def head_gradients():
    return proved(derivation().head, head_closed(), logits, O, Zp)


@claim(
    "eq17",
    "∂𝓛/∂G, ∂c, ∂F, ∂b: the feed-forward",
    kind="proof",
    size="any size",
    assumptions=("the derivative of max(0, x) at 0 is taken to be 0",),
    source="003 eq. (17)",
    trusted=BY,
)
def feed_forward_gradients():
    return proved(derivation().block, block_closed(), c, G, f, b, F, Zbar)


@claim(
    "eq17",
    "through a norm: r (dz - <dz> - z <z dz>), with r = 1/sqrt(variance + ε)",
    kind="proof",
    size="any size",
    assumptions=("ε > 0",),
    source="003 eq. (17)",
    trusted=BY,
)
def norm_gradients():
    return proved(derivation().block, block_closed(), Zhat, X)


@claim(
    "eq17",
    "∂𝓛/∂W: the output projection of the heads",
    kind="proof",
    size="any size",
    source="003 eq. (17)",
    trusted=BY,
)
def projection_gradients():
    return proved(derivation().block, block_closed(), W, Y)


@claim(
    "eq17",
    "through the softmax: ∂S = σ (∂σ - Σ σ ∂σ), whatever the mask",
    kind="proof",
    size="any size",
    assumptions=("every position may attend to one at least: T > 0",),
    source="003 eq. (17)",
    trusted=BY,
)
def softmax_gradients():
    return proved(derivation().block, block_closed(), σ, S)


@claim(
    "eq17",
    "∂𝓛/∂Q, ∂K, ∂V, and the three branches meeting the residual in ∂𝓛/∂Z",
    kind="proof",
    size="any size",
    source="003 eq. (17)",
    trusted=BY,
)
def attention_gradients():
    return proved(derivation().block, block_closed(), ZQ, ZK, ZV, Q, K, V, Z)


@claim(
    "eq17",
    "∂𝓛/∂E collects from all positions that hold the token; and ∂𝓛/∂P, which (17) leaves out but (19) counts",
    kind="proof",
    size="any size",
    source="003 eq. (17)",
    trusted=BY,
)
def embedding_gradients():
    return proved(derivation().embedding, embedding_closed(), E, P)


@claim(
    "eq17",
    "any number of layers: in a model of L layers, the adjoints in layer λ are those of one block, with the "
    "adjoint of X in layer λ + 1 for that of Z'; and in layer L + 1 that of X is what the head gives back",
    kind="proof",
    size="any size, any number of layers",
    assumptions=("induction: what is shown for the last layer, and from each layer to the one before, holds for all",),
    source="003 eq. (17)",
    trusted=BY,
)
def layers():
    found = derivation()
    induction(found, stack(embedding(), block(), head()))
    top, in_block = placed(d(Zp)[i, j], {Zp: nL + 1}), places(found.block)
    steps = [line for line in found.block.definitions.values() if d(Zp) in names(line.right) or line.name == d(X)]
    return shown(
        [
            (top, placed(found.head[d(Zp)].right, places(found.head))),
            *((placed(line.left, in_block), placed(line.right, in_block)) for line in steps),
            (d(P)[i, j], placed(found.embedding[d(P)].right, places(found.embedding))),
        ]
    )


@claim(
    "eq17",
    "the other two readings of the residual (normalised once; before each branch): the same closed forms",
    kind="proof",
    size="any size",
    source="003 eqs. (1), (9), (10)",
    trusted=BY,
)
def other_readings():
    for residual in RESIDUALS[1:]:
        check(adjoint(embedding(residual), X), embedding_closed(residual))
        check(adjoint(block(residual), Zp), block_closed(residual))


@claim(
    "eq17",
    "a second way: norm, attention and loss each written as one expression and differentiated at once, without "
    "names in between, give the same",
    kind="proof",
    size="any size",
    source="003 eq. (17)",
    trusted=BY,
)
def at_once():
    norm, attention = Program([X[i, j]], [ε]), Program([ZQ[h, i, k], ZK[h, i, k], ZV[h, i, k]], [M])
    normalised(norm, X, Z)
    for line in (line for line in block().definitions.values() if line.name in (S, e, T, σ, Y)):
        attention.let(line.left, line.right)
    for p, output, inputs in ((norm, Z[i, j], (X,)), (attention, Y[h, i, k], (ZQ, ZK)), (head(), loss, (Zp,))):
        backward = adjoint(p, name(output))
        whole = p.expand(output, p.definitions)
        whole = total(d(output) * whole, *output.indices) if isinstance(output, Indexed) else whole
        for array in inputs:
            entry = p.parameters[array]
            new = {index: index.fresh() for index in entry.indices}
            direct = derivative(whole, entry.xreplace(new)).xreplace({v: k for k, v in new.items()})
            rest = normal(direct - backward.expand(d(entry), backward.definitions))
            if rest != 0:
                raise Refuted(f"{text(d(entry))}: differentiated at once, what is left over is {text(rest)}")


@claim(
    "eq17",
    "(7), the concatenation: row (h - 1) K + k of W stands for head h and component k, each row once",
    kind="check",
    size="H, K = 1..8",
    assumptions=(
        "any size by division with remainder: (h - 1) K + k - 1 has the quotient h - 1 and the remainder k - 1",
    ),
    source="003 eqs. (7), (8)",
    trusted=(),
)
def concatenation():
    for heads in range(1, 9):
        for width in range(1, 9):
            rows = [(a - 1) * width + b for a in range(1, heads + 1) for b in range(1, width + 1)]
            if rows != list(range(1, heads * width + 1)):
                raise Refuted(f"H = {heads}, K = {width}: the rows of W are {rows}")

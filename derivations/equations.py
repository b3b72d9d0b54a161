"""Document 003's equations, to be read beside it: (1) to (16) as definitions, and the gradients of (17) in closed form.

The code follows the source line by line, with its letters and equation numbers: `embedding` has (1), `block` the norm
and (2) to (10), `head` (11) to (16). Errors of the source are corrected, with the erratum next to the line (by its
place in errata.py). The gradients are stated as one writes them by hand, in cached interim results of the forward pass;
eq17.py proves that they are the derivatives. All sizes stay symbols:

    C  positions   D  width   H  heads   K  width of a head   F  width of the feed-forward   V  vocabulary   L  layers

The letters. The source uses some of them twice; here an index m runs over positions in (3) to (6) and over the
vocabulary from (11) on, as in the source. Left superscript: the head. The products Z Q, Z K and Z V of one position and
one head have names of their own, since their gradients are used twice. σ is the softmax over m (the source's norms
divide by another σ, the variance, which is s here). The letters K, V, F and L are sizes and arrays in the source; in
the code the sizes are nK, nV, nF and nL. H K = D is not assumed.

Mask: (4) adds M_im in {0, -∞} before the exponential; here e_im = M_im exp S_im with M_im in {1, 0}, which is the same
(exp(-∞) = 0) and keeps ∞ out of the algebra. The only property of M, w, N and t in use is that they are not learned; so
the gradients hold for any mask, with any positions left out of the loss, and for tokens that occur more than once.

max(0, x) has the derivative θ(x) = 1 where x > 0, else 0, at 0 as well. Read total(x, j) as Σ_j x, delta as δ, d(X)
as ∂𝓛/∂X, and p.let(left, right, "(n)") as "equation (n): left = right".
"""

from dataclasses import dataclass

from sympy import Expr, Rational, Symbol, exp, log, sqrt

from derivations.adjoints import Program
from tinytensor.symbolic.index_calculus.adjoints import Name, d
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, delta, total
from tinytensor.symbolic.index_calculus.functions import relu, theta

RESIDUALS = ("literal", "once", "pre-norm")  # how (1), (9) and (10) are read: see models/decoder/equations.py

# ---- letters --------------------------------------------------------------------------------------------------------

C, D, H = Size("C", "i m p"), Size("D", "j n"), Size("H", "h")
nK, nF, nV, nL = Size("K", "k"), Size("F", "l"), Size("V", "m u"), Size("L", "λ")  # K, F, V are weights in the code

i, m = Index("i", C), Index("m", C)  # positions: i attends to m
j = Index("j", D)  # components of the model's vectors
h, k, l = Index("h", H), Index("k", nK), Index("l", nF)  # heads, components within a head, units of the feed-forward
u = Index("m", nV)  # the vocabulary: the source's m again, from (11) on
t_ = Index("k", nV)  # rows of E: the source's k in E_k^j

ε, N = Symbol("epsilon", positive=True), Symbol("N", positive=True)  # of the norms; number of counted positions

t, y = Array("t", (C,), values=nV), Array("y", (C,), values=nV)  # tokens, and the tokens to predict
w = Array("w", (C,))  # 1 where a position counts, 0 where it is padding
M = Array("M", (C, C))  # 1 where i may attend to m, else 0
E, P = Array("E", (nV, D), "_^"), Array("P", (C, D), "_^")
Q, K, V = (Array(name, (H, D, nK), "<_^") for name in "QKV")  # X_j^k of the source for each head; lower index first
W = Array("W", (H, nK, D), "__^")
F, b = Array("F", (D, nF), "_^"), Array("b", (nF,), "^")
G, c = Array("G", (nF, D), "_^"), Array("c", (D,), "^")
O = Array("O", (D, nV), "_^")

X = Array("X", (C, D), "_^")  # the input of a block: (1), or Z' of the block before
Z = Array("Z", (C, D), "_^")
ZQ, ZK, ZV = (Array(f"Z{name}", (H, C, nK), "<_^", text=f"(Z{name})") for name in "QKV")
S, e, σ = Array("S", (H, C, C), "<__"), Array("e", (H, C, C), "<__"), Array("σ", (H, C, C), "<__", tex=r"\sigma")
T = Array("T", (H, C), "<_")
Y = Array("Y", (H, C, nK), "<_^")
A = Array("A", (C, D), "_^")
NORM = mu, v, s, r = (  # mean, deviation, variance, and 1/sqrt(s + ε), for the first norm
    Array("mu", (C,), text="μ", tex=r"\mu"),
    Array("v", (C, D), "_^"),
    Array("s", (C,)),
    Array("r", (C,)),
)
NORM_HAT = tuple(  # and with a hat, for Ẑ
    Array(
        f"{x.label}hat", x.sizes, x.positions, text=x.text + "\N{COMBINING CIRCUMFLEX ACCENT}", tex=rf"\hat{{{x.tex}}}"
    )
    for x in NORM
)
X0 = Array("X0", (C, D), "_^", text="X⁰", tex="{X^{0}}")  # (1) before its norm, in the reading "once"
Zhat = Array("Zhat", (C, D), "_^", text="Ẑ", tex=r"\hat{Z}")
Zbar = Array("Zbar", (C, D), "_^", text="Z̄", tex=r"\bar{Z}")
f, R = Array("f", (C, nF), "_^"), Array("R", (C, nF), "_^")
Zp = Array("Zp", (C, D), "_^", text="Z'", tex="{Z'}")

logits = Array("L", (C, nV), "_^")
num, den = Array("num", (C, nV), "_^", tex=r"\mathrm{num}"), Array("den", (C,), tex=r"\mathrm{den}")
q = Array("q", (C, nV), "_^")
loss_i, loss = Array("loss_i", (C,), text="𝓛", tex=r"\mathcal{L}"), Symbol("loss", real=True)


# ---- equations (1) to (16) ------------------------------------------------------------------------------------------


def normalised(p: Program, x: Array, z: Array, letters: tuple[Array, ...], source: str) -> None:
    """z = (x - <x>) / sqrt(variance of x + ε), row by row."""
    mu, v, s, r = letters
    p.let(mu[i], total(x[i, j], j) / D, source)
    p.let(v[i, j], x[i, j] - mu[i], source)
    p.let(s[i], total(v[i, j] ** 2, j) / D, source)
    p.let(r[i], (s[i] + ε) ** Rational(-1, 2), source, "003 after (1), (9): no ε is 0/0 for constant vectors")
    p.let(z[i, j], v[i, j] * r[i], source)


def attended(residual: str) -> tuple[Array, Array]:
    """The factor of Q, K and V, and the term to which (9) adds."""
    if residual not in RESIDUALS:
        raise ValueError(f"residual = {residual!r}: choose one of {', '.join(RESIDUALS)}")
    return {"literal": (Z, Z), "once": (X, X), "pre-norm": (Z, X)}[residual]


def embedding(residual: str = "literal") -> Program:
    """Equation (1): tokens to the input of the first block."""
    p = Program([E[t_, j], P[i, j]], [t, ε])
    raw = X0 if residual == "once" else X
    p.let(raw[i, j], E[t[i], j] + P[i, j], "(1)")
    if residual == "once":  # only here; the other readings normalise at the start of each block
        normalised(p, X0, X, NORM, "after (1)")
    return p


def block(residual: str = "literal") -> Program:
    """The norm after (1), and (2) to (10): one layer, X to Z'."""
    p = Program([X[i, j], Q[h, j, k], K[h, j, k], V[h, j, k], W[h, k, j], F[j, l], b[l], G[l, j], c[j]], [M, ε])
    z, kept = attended(residual)
    if z == Z:
        normalised(p, X, Z, NORM, "after (1)")
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
    normalised(p, Zhat, Zbar, NORM_HAT, "after (9)")
    p.let(f[i, l], total(Zbar[i, j] * F[j, l], j) + b[l], "(10)")
    p.let(R[i, l], relu(f[i, l]), "(10)")
    p.let(Zp[i, j], Zhat[i, j] + total(R[i, l] * G[l, j], l) + c[j], "(10)")
    return p


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


# ---- equation (17), in closed form -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Closed:
    """A gradient as one writes it by hand, and the names whose definitions are put in to prove it."""

    form: Expr
    through: tuple[Name, ...] = ()


def head_closed() -> dict[Expr, Closed]:
    """Softmax minus one-hot, over N, where a position counts; then two products."""
    return {
        d(logits)[i, u]: Closed(w[i] / N * (q[i, u] - delta(u, y[i])), (num, q, d(num), d(den), d(q), d(loss_i))),
        d(O)[j, u]: Closed(total(Zp[i, j] * d(logits)[i, u], i)),
        d(Zp)[i, j]: Closed(total(O[j, u] * d(logits)[i, u], u)),
    }


def norm_closed(z: Array, letters: tuple[Array, ...] = NORM) -> Closed:
    """The adjoint of x from that of z = norm(x): r (dz - <dz> - z <z dz>), with r = 1/sqrt(s + ε)."""
    mu, v, s, r = letters
    dz = d(z)
    form = r[i] * (dz[i, j] - total(dz[i, j], j) / D - z[i, j] * total(z[i, j] * dz[i, j], j) / D)
    return Closed(form, (mu, v, z, d(mu), d(v), d(s), d(r)))


def block_closed(residual: str = "literal") -> dict[Expr, Closed]:
    """Feed-forward, norm, output projection, attention, and the gradient of X through all of them."""
    z, kept = attended(residual)
    middle = norm_closed(Zbar, NORM_HAT)
    branches = total(Q[h, j, k] * d(ZQ)[h, i, k] + K[h, j, k] * d(ZK)[h, i, k] + V[h, j, k] * d(ZV)[h, i, k], h, k)
    closed = {
        # (10): the feed-forward
        d(c)[j]: Closed(total(d(Zp)[i, j], i)),
        d(G)[l, j]: Closed(total(R[i, l] * d(Zp)[i, j], i)),
        d(f)[i, l]: Closed(theta(f[i, l]) * total(G[l, j] * d(Zp)[i, j], j), (d(R),)),
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
    # (9) and the three branches meet in the input of attention; then the norm
    closed[d(z)[i, j]] = Closed(branches + (d(Zhat)[i, j] if kept == z else 0))
    if z == Z:
        first = norm_closed(Z)
        closed[d(X)[i, j]] = Closed(first.form + (d(Zhat)[i, j] if kept == X else 0), first.through)
    return closed


def embedding_closed(residual: str = "literal") -> dict[Expr, Closed]:
    """A row of E sums over all positions that hold its token; P takes its own position's gradient."""
    raw = X0 if residual == "once" else X
    closed = {
        d(E)[t_, j]: Closed(total(delta(t_, t[i]) * d(raw)[i, j], i)),
        d(P)[i, j]: Closed(d(raw)[i, j]),
    }
    if residual == "once":
        closed[d(X0)[i, j]] = norm_closed(X)
    return closed

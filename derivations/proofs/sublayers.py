"""The parts of documents 000 and 004 that 003 lacks, and their gradients, for any sizes.

They are attention of the decoder to the encoder's output (cross-attention: other positions, values of another width
than keys), LayerNorm with gamma and delta around a sum ("Add & Norm"), and the two ends: the scaled embedding and the
linear layer with a bias before a summed cross-entropy. The feed-forward is that of 003. As for eq. (17), each line is
differentiated and the result proved equal to the closed form that one writes by hand; the chain rule from one sublayer
to the next is `with_adjoints` again. Self-attention is the case in which U is X: its gradient is the sum of the two.

The letters are those of equations.py, and these:

    B  positions of the encoder's output U     J  width of the values of a head (d_v; K is d_k)     n  stacks

Here M is 0 for the encoder's padding. A check in float64 compares the closed forms with the gradients of
`models.attention`.
"""

from functools import partial

import numpy as np
from sympy import Indexed, Symbol, exp, log, sqrt

from derivations import equations
from derivations.adjoints import Program, with_adjoints
from derivations.claims import INDEX, NUMBA, SYMPY, Evidence, Refuted, claim
from derivations.equations import Closed
from derivations.proofs.eq17 import Definition, prove_forms, shown
from models.attention import MultiHead
from tinytensor import nn, tensor
from tinytensor.symbolic.index_calculus.adjoints import adjoint_of, d
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, delta, fresh, normal, total
from tinytensor.symbolic.index_calculus.notation import text

from derivations.equations import C, D, E, H, K, NORM, Q, X, Z, den, h, i, j, k, logits, nK, nV, num, q, t, t_, u, y, ε  # isort: skip

nB, nJ, nN = Size("B", "p s"), Size("J", "a b"), Size("N", "λ")
p, a, λ = Index("p", nB), Index("a", nJ), Index("λ", nN)
U = Array("U", (nB, D), "_^")  # the encoder's output
V, W = Array("V", (H, D, nJ), "<_^"), Array("W", (H, nJ, D), "__^")
M = Array("M", (C, nB))
XQ, UK = Array("XQ", (H, C, nK), "<_^", text="(XQ)"), Array("UK", (H, nB, nK), "<_^", text="(UK)")
UV = Array("UV", (H, nB, nJ), "<_^", text="(UV)")
S, e, σ = Array("S", (H, C, nB), "<__"), Array("e", (H, C, nB), "<__"), Array("σ", (H, C, nB), "<__", tex=r"\sigma")
T, Y, A = Array("T", (H, C), "<_"), Array("Y", (H, C, nJ), "<_^"), Array("A", (C, D), "_^")
R = Array("R", (C, D), "_^")  # X + A, before the norm
γ, δ = Array("gamma", (D,), text="γ", tex=r"\gamma"), Array("delta", (D,), text="δ", tex=r"\delta")
N = Array("N", (C, D), "_^")  # the sublayer's output
O, c = Array("O", (D, nV), "_^"), Array("c", (nV,), "^")  # W^S and b^S of 004
begins = Array("w", (C,))  # 0 at y_0, whose row is 0, else 1
loss = Symbol("loss", real=True)


def cross_attention() -> Program:
    """MultiHead(X, U, U) of 004: queries from X, keys and values from U."""
    made = Program([X[i, j], U[p, j], Q[h, j, k], K[h, j, k], V[h, j, a], W[h, a, j]], [M])
    made.let(XQ[h, i, k], total(X[i, j] * Q[h, j, k], j), "Q W^Q")
    made.let(UK[h, p, k], total(U[p, j] * K[h, j, k], j), "K W^K")
    made.let(UV[h, p, a], total(U[p, j] * V[h, j, a], j), "V W^V")
    made.let(S[h, i, p], total(XQ[h, i, k] * UK[h, p, k], k) / sqrt(nK), "Attention")
    made.let(e[h, i, p], M[i, p] * exp(S[h, i, p]), "softmax")
    made.let(T[h, i], total(e[h, i, p], p), "softmax")
    made.let(σ[h, i, p], e[h, i, p] / T[h, i], "softmax")
    made.let(Y[h, i, a], total(σ[h, i, p] * UV[h, p, a], p), "Attention")
    made.let(A[i, j], total(Y[h, i, a] * W[h, a, j], h, a), "MultiHead")
    return made


def cross_closed() -> dict:
    """The gradients of cross-attention, from that of A."""
    through_softmax = σ[h, i, p] * (d(σ)[h, i, p] - total(σ[h, i, p] * d(σ)[h, i, p], p))
    return {
        d(W)[h, a, j]: Closed(total(Y[h, i, a] * d(A)[i, j], i)),
        d(Y)[h, i, a]: Closed(total(W[h, a, j] * d(A)[i, j], j)),
        d(σ)[h, i, p]: Closed(total(UV[h, p, a] * d(Y)[h, i, a], a)),
        d(S)[h, i, p]: Closed(through_softmax, (e, σ, d(e), d(T))),
        d(XQ)[h, i, k]: Closed(total(UK[h, p, k] * d(S)[h, i, p], p) / sqrt(nK)),
        d(UK)[h, p, k]: Closed(total(XQ[h, i, k] * d(S)[h, i, p], i) / sqrt(nK)),
        d(UV)[h, p, a]: Closed(total(σ[h, i, p] * d(Y)[h, i, a], i)),
        d(Q)[h, j, k]: Closed(total(X[i, j] * d(XQ)[h, i, k], i)),
        d(K)[h, j, k]: Closed(total(U[p, j] * d(UK)[h, p, k], p)),
        d(V)[h, j, a]: Closed(total(U[p, j] * d(UV)[h, p, a], p)),
        d(X)[i, j]: Closed(total(Q[h, j, k] * d(XQ)[h, i, k], h, k)),
        d(U)[p, j]: Closed(total(K[h, j, k] * d(UK)[h, p, k], h, k) + total(V[h, j, a] * d(UV)[h, p, a], h, a)),
    }


def add_and_norm() -> Program:
    """LayerNorm(X + A), with gamma and delta: one of each for every feature."""
    made = Program([X[i, j], A[i, j], γ[j], δ[j]], [ε])
    made.let(R[i, j], X[i, j] + A[i, j], "Z = Y + X")
    equations.normalised(made, R, Z, NORM, "LayerNorm")
    made.let(N[i, j], γ[j] * Z[i, j] + δ[j], "y = γ z + δ")
    return made


def norm_closed() -> dict:
    """The gradients of Add & Norm: those of the plain norm, with γ dN for dZ."""
    r = NORM[-1]
    g = γ[j] * d(N)[i, j]
    form = r[i] * (g - total(g, j) / D - Z[i, j] * total(Z[i, j] * g, j) / D)
    through = (*NORM[:2], Z, d(Z), *map(d, NORM))
    return {
        d(γ)[j]: Closed(total(Z[i, j] * d(N)[i, j], i)),
        d(δ)[j]: Closed(total(d(N)[i, j], i)),
        d(R)[i, j]: Closed(form, through),
        d(X)[i, j]: Closed(d(R)[i, j]),
        d(A)[i, j]: Closed(d(R)[i, j]),
    }


def embedding() -> Program:
    """X = sqrt(d_model) X_input W_Embedding; y_0 has the row 0. Positions are added, and have no gradient."""
    made = Program([E[t_, j]], [t, begins])
    made.let(X[i, j], begins[i] * sqrt(D) * E[t[i], j], "X = sqrt(d_model) X_input W_Embedding")
    return made


def ending() -> Program:
    """Z = N W^S + b^S, P = softmax(Z), L = the sum of the cross-entropies."""
    made = Program([N[i, j], O[j, u], c[u]], [y])
    made.let(logits[i, u], total(N[i, j] * O[j, u], j) + c[u], "Z = Z_{N,6} W^S + b^S")
    made.let(num[i, u], exp(logits[i, u]), "P = softmax(Z)")
    made.let(den[i], total(num[i, u], u), "P = softmax(Z)")
    made.let(q[i, u], num[i, u] / den[i], "P = softmax(Z)")
    made.let(loss, total(-log(q[i, y[i]]), i), "L = sum of the cross-entropies")
    return made


def ends_closed() -> tuple[dict, dict]:
    """The gradients at the two ends: P - Y and those that follow from it; and the rows of the embedding."""
    end = {
        d(logits)[i, u]: Closed(q[i, u] - delta(u, y[i]), (num, q, d(num), d(den), d(q))),
        d(O)[j, u]: Closed(total(N[i, j] * d(logits)[i, u], i)),
        d(c)[u]: Closed(total(d(logits)[i, u], i)),
        d(N)[i, j]: Closed(total(O[j, u] * d(logits)[i, u], u)),
    }
    start = {d(E)[t_, j]: Closed(sqrt(D) * total(delta(t_, t[i]) * begins[i] * d(X)[i, j], i))}
    return end, start


# --- The claims

proof = partial(claim, "sublayers", category="proof", size="any size", trusted=(SYMPY, INDEX))


def forms(closed: dict, *arrays: Array) -> Evidence:
    """The closed forms of these gradients, written out."""
    return shown((left, one.form) for left, one in closed.items() if left.base.of in arrays or not arrays)


@proof(
    "cross-attention: the gradients of its weights, of the decoder's rows by their queries, of the encoder's output "
    "by its keys and values, from all positions that attend to it",
    assumptions=("every position may attend to at least one of the encoder's: T > 0",),
    source="000 Cross-attention; 004 Functions, Training",
)
def cross_attention_gradients():
    prove_forms(with_adjoints(cross_attention(), A), cross_closed())
    return forms(cross_closed(), σ, S, XQ, UK, UV, Q, K, V, W, X, U)


def prove_stacks(closed) -> None:
    """Prove that `closed`, for stack λ, summed over the stacks, is the gradient of the encoder's output; or Refuted."""
    own = (*cross_attention().definitions, X, Q, K, V, W)  # each stack has its own
    deep = {x: Array(x.label.name, (nN, *x.sizes), f"<{x.positions}") for x in own}
    deep |= {d(x): d(more) for x, more in deep.items()}

    def placed(expr):
        return expr.xreplace({x: deep[x.base][λ, *x.indices] for x in expr.atoms(Indexed) if x.base in deep})

    lines = [Definition(placed(line.left), placed(line.right)) for line in cross_attention().lines]
    adjoint, expected = adjoint_of(U[p, j], lines), total(placed(fresh(closed)), λ)
    if normal(adjoint - expected) != 0:
        raise Refuted(f"{text(d(U)[p, j])} with n stacks is {text(adjoint)}, not {text(expected)}")


@proof(
    "the encoder's output, which every stack of the decoder reads, gets the sum of their gradients",
    size="any size, any number of stacks",
    assumptions=("every position may attend to at least one of the encoder's: T > 0",),
    source="004 Training",
)
def all_stacks():
    prove_stacks(cross_closed()[d(U)[p, j]].form)


@proof(
    "Add & Norm with gamma and delta: r (g - <g> - z <z g>) with g = γ dN, the same to both summands",
    assumptions=("ε > 0",),
    source="000 Layer normalization; 004 Training",
)
def add_and_norm_gradients():
    prove_forms(with_adjoints(add_and_norm(), N), norm_closed())
    return forms(norm_closed())


@proof(
    "the two ends: P - Y_output for the logits of a summed cross-entropy, its sum for b^S; and sqrt(d_model) "
    "times the sum over its places for a word's embedding, none from y_0",
    source="000 Linear layer; 004 Training",
)
def ends():
    end, start = ends_closed()
    prove_forms(with_adjoints(ending(), loss), end)
    prove_forms(with_adjoints(embedding(), X), start)
    return forms(end | start)


@claim(
    "sublayers",
    "the engine's multi-head attention and its LayerNorm have these gradients",
    category="check",
    size="C=3 B=4 D=5 H=2 K=2 J=3, a padded position, float64",
    source="000; 004",
    trusted=(NUMBA, "the plain loops of `value`"),
)
def engine_sublayers():
    return Evidence(text="\n".join(f"{name:<12} {off:.1e}" for name, off in engine_differences().items()))


def engine_differences(cross=cross_closed, norm=norm_closed) -> dict[str, float]:
    """The distance of the engine's gradients from the closed forms, by plain loops; Refuted beyond 1e-12."""
    rng = np.random.default_rng(0)
    sizes = {C: 3, nB: 4, D: 5, H: 2, nK: 2, nJ: 3}

    def random(array: Array) -> np.ndarray:
        return rng.normal(size=[sizes[s] for s in array.sizes])

    at = {x: random(x) for x in (X, U, Q, K, V, W)} | sizes
    at[M], at[d(A)] = np.tile([1, 1, 0, 1], (3, 1)), random(A)
    attention = MultiHead(5, 2, 2, 3).double()
    weights = {Q: attention.W_Q, K: attention.W_K, V: attention.W_V, W: attention.W_O}
    for array, weight in weights.items():
        weight.data = tensor(at[array].reshape(weight.shape))
    x, u_ = (tensor(at[one][None], requires_grad=True) for one in (X, U))
    attention(x, u_, tensor(at[M][:, None].astype(bool)[None, :, 0])).backward(tensor(at[d(A)][None]))
    theirs = {one: weight.grad.numpy() for one, weight in weights.items()}
    theirs |= {one: leaf.grad.numpy()[0] for one, leaf in ((X, x), (U, u_))}
    ours = _backward(cross_attention(), cross()).run(at)

    at = {one: random(one) for one in (X, A, γ, δ)} | {C: 3, D: 5, ε: 0.1, d(N): random(N)}
    layer = nn.LayerNorm(5, 0.1).double()
    layer.weight.data, layer.bias.data = tensor(at[γ]), tensor(at[δ])
    added = tensor(at[X] + at[A], requires_grad=True)
    layer(added).backward(tensor(at[d(N)]))
    theirs |= {γ: layer.weight.grad.numpy(), δ: layer.bias.grad.numpy(), R: added.grad.numpy()}
    ours |= {name: one for name, one in _backward(add_and_norm(), norm()).run(at).items() if name not in ours}

    off = {}
    for one, theirs_ in theirs.items():
        other = np.asarray(ours[d(one)], float).reshape(theirs_.shape)
        off[f"d{one.label}"] = worst = float(np.abs(theirs_ - other).max() / np.abs(theirs_).max())
        if not worst <= 1e-12:
            raise Refuted(f"d{one.label}: the engine and the closed form differ by {worst:.1e} of the largest entry")
    return off


def _backward(program: Program, closed: dict) -> Program:
    """The program followed by closed forms in place of derived adjoints; the adjoint of its output is given."""
    output = program.lines[-1].name
    new = program.copy(d(output))
    for left, one in closed.items():
        new.let(left, one.form)
    return new

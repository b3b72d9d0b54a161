"""The documents' statements on attention, norms and positions are true, for any size; gradients obey the symmetries.

The index calculus proves the statements for sizes that stay symbols, on document 003's own equations as equations.py
has them; those about positional encoding and limits are proved by SymPy. Causality and equivariance are properties of
whole programs: they are proved by induction over the definitions, and for any number of layers because each layer
preserves them. Further assumptions of a theorem (D even, T > 0, ...) stand in its claim. Trusted: SymPy and the index
calculus.

A symmetry is a change of the parameters that does not change the loss. Along it the gradient has no component, which
gives one identity between gradients for each symmetry (E. Noether), without any other gradient to compare with. At the
end the same identities are checked on the engine's gradients, in float64 at one size.
"""

from functools import partial

import numpy as np
from sympy import Expr, Indexed, Integer, Integers, Matrix, Mul, Reals, Sum, Symbol, cos, exp, expand, expand_log, eye

import tinytensor
from derivations import equations
from derivations.adjoints import Program, prove_form, with_adjoints
from derivations.claims import INDEX, NUMBA, SYMPY, Evidence, Refuted, claim, holds
from models.data.text import IGNORE_INDEX
from models.decoder import Config, Decoder
from models.transformer import Config as TransformerConfig
from models.transformer import EncoderStack, positional_encoding
from tinytensor import nn, tensor
from tinytensor.symbolic.index_calculus.adjoints import Name, d, names_in
from tinytensor.symbolic.index_calculus.formulas import (
    Array,
    Index,
    Size,
    delta,
    derivative,
    fresh,
    normal,
    spread,
    total,
)
from tinytensor.symbolic.index_calculus.functions import theta
from tinytensor.symbolic.index_calculus.notation import tex, text

from sympy import latex, limit, log, oo, pi, simplify, sin, solveset, sqrt, symbols, trigsimp  # isort: skip
from derivations.equations import RESIDUALS, A, C, D, E, F, G, H, K, M, O, P, Q, R, S, T, V, W, X, Y, Z  # isort: skip
from derivations.equations import NORM_HAT, X0, ZK, ZQ, ZV, Zbar, Zhat, Zp, b, c, den, e, f, h, i, j, k, l, logits, loss  # isort: skip
from derivations.equations import loss_i, m, nF, nK, num, q, r, s, t, t_, u, v, y, ε, mu, σ  # isort: skip

k2, p = Index("k'", nK), Index("p", C)

theorem = partial(claim, "theorems", category="proof", size="any size", trusted=(SYMPY, INDEX))
symmetry = partial(theorem, source="003 eq. (17)")  # of the loss: proved for the lines of the model that it affects


def zero(expr: Expr, what: str) -> None:
    """Raise unless the normal form of an expression in indices is 0."""
    rest = normal(expr)
    if rest != 0:
        raise Refuted(f"{what}: the rest of the difference is {text(rest)}")


def identity(program: Program, new: Expr, one: Expr, other: Expr, through) -> None:
    """Prove one = other, two expressions in the names of a program, for all indices of `new`, a new name for `one`."""
    program = program.copy()
    program.let(new, one)
    prove_form(program, new, other, through)


# --- Softmax and attention


@theorem(
    "the weights of attention are not negative and sum to 1: each output is a convex combination of the values",
    assumptions=("real scores", "each row may attend to at least one position"),
    source="000; 001; 003 eq. (6)",
)
def convex_combination():
    low = Symbol("b", real=True)
    block = equations.block().copy(low)
    identity(block, Array("one", (H, C))[h, i], total(σ[h, i, m], m), 1, [σ, T])
    # sum_m sigma (v - b) = Y - b, since the rows sum to 1: v >= b for all m gives Y >= b, and likewise from above
    above = total(σ[h, i, m] * (ZV[h, m, k] - low), m)
    identity(block, Array("above", (H, C, nK))[h, i, k], above, Y[h, i, k] - low, [Y, σ, T])
    allowed, score = Symbol("M", nonnegative=True), Symbol("S", real=True)  # M_im is 0 or 1
    holds((allowed * exp(score)).is_nonnegative, "e_im >= 0")
    holds(exp(score).is_positive, "the sum of a row is positive where one M_im is 1")
    holds(exp(-oo) == 0, "a score of -oo has the weight 0")
    return Evidence(latex=r"\sigma_{im}\ge 0,\quad\sum_m\sigma_{im}=1,\quad Y_i^k-b=\sum_m\sigma_{im}\,((ZV)_m^k-b)")


@theorem(
    "softmax does not change when a number is added to all scores of a row",
    assumptions=("exp(s + c) = exp(s) exp(c)",),
    source="003 eqs. (6), (12)",
)
def shift_invariance():
    score, number = symbols("s c", real=True)
    holds(expand(exp(score + number)) == exp(score) * exp(number), "exp(s + c) = exp(s) exp(c)")
    factor, row = Array("factor", (H, C)), Array("row", (H, C))  # exp(c)
    block = equations.block().copy(factor)
    block.let(row[h, i], total(factor[h, i] * e[h, i, m], m))
    shifted = factor[h, i] * e[h, i, m] / row[h, i]
    identity(block, Array("shifted", (H, C, C))[h, i, m], shifted, σ[h, i, m], [row, σ, T])
    return Evidence(latex=r"\mathrm{softmax}_m(S_{im}+c_i)=\mathrm{softmax}_m(S_{im})")


h2, i2 = Index("h'", H), Index("i'", C)


def softmax_slope(closed: Expr) -> None:
    """Prove that `closed`, in σ and in h, i, m, h', i', p, is the derivative of σ_im of head h by S_i'p of h'."""
    softmax = equations.block().excerpt((e, T, σ), [S[h, i, m]], [M])  # for any scores
    through = (σ, T, e)
    direct = derivative(softmax.expand(σ[h, i, m], through), S[h2, i2, p])
    zero(direct - softmax.expand(closed, through), "the slope of the softmax")


@theorem(
    "a dot product measures how alike two vectors are: |x - y|^2 = |x|^2 + |y|^2 - 2 x.y, so among vectors of equal "
    "length the one with the larger product is nearer",
    source="002 Self-attention; 000 Dot-product self-attention",
)
def alike():
    one, other = Array("x", (D,)), Array("y", (D,))
    square = lambda a: total(a[j] ** 2, j)  # noqa: E731
    product = total(one[j] * other[j], j)
    apart = total((one[j] - other[j]) ** 2, j)
    holds(normal(apart - square(one) - square(other) + 2 * product) == 0, "the cosine rule holds in any dimension")
    return Evidence(latex=f"{tex(apart)}={tex(square(one))}+{tex(square(other))}-2{tex(product)}")


SLOPE = delta(h, h2) * delta(i, i2) * σ[h, i, m] * (delta(m, p) - σ[h, i, p])


@theorem(
    "in a row the larger score has the larger weight; a weight grows with its own score, falls with the others of its "
    "row, and depends on no other row",
    assumptions=("real scores", "both positions may be attended to"),
    source="000 Softmax layer; 001 Step 2, Softmax insights; 002 Self-attention",
)
def larger_score():
    gap = σ[h, i, m] - σ[h, i, p]
    identity(equations.block(), Array("gap", (H, C, C, C))[h, i, m, p], gap, (e[h, i, m] - e[h, i, p]) / T[h, i], [σ])
    score = Symbol("S", real=True)
    holds(
        exp(score).diff(score).is_positive, "exp grows: e_im > e_ip if and only if S_im > S_ip, M_im and M_ip being 1"
    )
    softmax_slope(SLOPE)
    one, other, rest = symbols("a b c", positive=True)  # two weights of a row, and the sum of the others
    holds((one * (other + rest)).is_positive, "a (1 - a) = a (b + c) > 0: it grows with its own score")
    holds((-one * other).is_negative, "- a b < 0: it falls with another score of the row")
    return Evidence(
        latex=f"{tex(gap)}=\\frac{{{tex(e[h, i, m] - e[h, i, p])}}}{{{tex(T[h, i])}}}\n\n"
        r"\frac{\partial\,{}^{h}\sigma_{im}}{\partial\,{}^{h'}S_{i'p}}="
        r"\delta_{hh'}\,\delta_{ii'}\;{}^{h}\sigma_{im}\left(\delta_{mp}-{}^{h}\sigma_{ip}\right)"
    )


@theorem(
    "softmax saturates: of n scores, one larger than the others by g or more, every slope is at most (n - 1) exp(-g); "
    "so large scores have small gradients, those of softmax(t s) too",
    size="any number of scores",
    assumptions=("one maximum alone; between equal ones the slope is 1/T (1 - 1/T), however large they are",),
    source="000 Scaling (corrected); 001 Step 1, Softmax insights; 002 Scaled dot-product",
)
def saturation():
    softmax_slope(SLOPE)
    # after subtracting the maximum (shift invariance) the others sum to r, and have a = r / (1 + r) of the row together
    n, g, t_, r_ = symbols("n g t r", positive=True)
    one, rest = symbols("p c", nonnegative=True)  # a weight below the maximum, and the others below: a = p + c
    a = one + rest
    holds((a - a * (1 - a)).expand().is_nonnegative, "the slope (1 - a) a of the maximum by its score is at most a")
    holds((a - one * (1 - one)).expand().is_nonnegative, "p (1 - p) of another by its own score is at most a")
    share = Symbol("q", nonnegative=True)
    holds((a - one * (1 - share)).expand().is_nonnegative, "p times any other weight 1 - q is at most a")
    holds(simplify(r_ - r_ / (1 + r_)).is_positive, "a is less than r")
    holds(exp(-g).diff(g).is_negative, "and r at most (n - 1) exp(-g), since exp(-g) falls")
    holds(limit((n - 1) * exp(-g), g, oo) == 0, "which goes to 0")
    holds(limit(t_ * (n - 1) * exp(-t_ * g), t_, oo) == 0, "and so do the slopes of softmax(t s) by s")
    return Evidence(
        latex=r"\left|\frac{\partial\sigma_m}{\partial S_p}\right|\le 1-\sigma_{\max}\le(n-1)\,e^{-g}\to 0,\qquad"
        r"\left|\frac{\partial\,\mathrm{softmax}_m(tS)}{\partial S_p}\right|\le t\,(n-1)\,e^{-tg}\to 0"
    )


@theorem(
    "softmax(t s) goes to the hard argmax as t grows: 1/T for each of T equal maxima, 0 for the others",
    size="any number of scores",
    assumptions=("the other n - T scores lie below the maximum by g > 0 or more",),
    source="001",
    trusted=(SYMPY,),
)
def hard_argmax():
    """After subtracting the maximum (shift invariance) each has 1/(T + r), where r sums exp(-t g_j) of the others."""
    count, maxima, g, scale, r = symbols("n T g t r", positive=True)
    holds(exp(-scale * g).diff(g).is_negative, "exp(-t g) falls with g, so that r <= (n - T) exp(-t g)")
    holds(limit((count - maxima) * exp(-scale * g), scale, oo) == 0, "the bound of r goes to 0")
    lacking = 1 / maxima - 1 / (maxima + r)
    holds(simplify(lacking).is_positive, "a maximum has less than 1/T")
    holds(simplify(r / maxima**2 - lacking).is_positive, "but lacks less than r / T^2")
    holds(simplify(r / maxima - r / (maxima + r)).is_positive, "the others together have less than r / T")
    return Evidence(latex=r"0\le\frac{1}{T}-p_{\max}\le\frac{n-T}{T^2}\,e^{-tg}\to 0")


@theorem(
    "Var(q . k) = d_k (s_q^2 s_k^2 + m_q^2 s_k^2 + m_k^2 s_q^2); it is d_k for means of 0 and variances of 1",
    assumptions=(
        "all components are independent",
        "those of q have mean m_q and variance s_q^2, those of k m_k and s_k^2",
    ),
    source="000; 001 (corrected); 002",
)
def variance_of_scores():
    d_k = Size("d_k", "a b")
    variance = variance_of_dot_product(d_k)
    mq, mk, sq, sk = MOMENTS
    zero(variance - d_k * (sq**2 * sk**2 + mq**2 * sk**2 + mk**2 * sq**2), "Var(q . k)")
    zero(variance.xreplace(STANDARD) - d_k, "at means of 0 and variances of 1")
    zero(variance.xreplace(STANDARD) * (1 / sqrt(d_k)) ** 2 - 1, "of q . k / sqrt(d_k)")
    return Evidence(latex=rf"\mathrm{{Var}}(q\cdot k)={latex(variance)}")


MOMENTS = symbols("m_q m_k s_q s_k", real=True)
STANDARD = dict(zip(MOMENTS, map(Integer, (0, 0, 1, 1)), strict=True))


def variance_of_dot_product(d_k: Size) -> Expr:
    """E(q . k)^2 - (E q . k)^2, from E(q_a q_b) = m_q^2 + delta(a, b) s_q^2 and the same for k."""
    mq, mk, sq, sk = MOMENTS
    a, a_ = Index("a", d_k), Index("b", d_k)
    square = total((mq**2 + delta(a, a_) * sq**2) * (mk**2 + delta(a, a_) * sk**2), a, a_)
    return normal(square - total(mq * mk, a) ** 2)


# --- Norms


@theorem(
    "a normalised vector has mean 0 and variance s / (s + eps), which is 1 only for eps = 0",
    assumptions=("s + eps > 0",),
    source="000 Layer normalization; 002; 003 after eq. (1)",
)
def norm_statistics():
    block = equations.block()
    identity(block, Array("mean", (C,))[i], total(Z[i, j], j) / D, 0, [Z, v, mu])
    identity(block, Array("variance", (C,))[i], total(Z[i, j] ** 2, j) / D, s[i] / (s[i] + ε), [Z, r, s])
    spread_ = Symbol("s", positive=True)
    holds(simplify(1 - spread_ / (spread_ + ε)).is_positive, "s / (s + eps) < 1")
    return Evidence(latex=r"\frac1D\sum_j Z_i^j=0,\qquad\frac1D\sum_j (Z_i^j)^2=\frac{s_i}{s_i+\epsilon}")


# --- The stream and the loss


def streamed(block: Program) -> Evidence:
    """Prove that a layer's output is its input plus the outputs of its two sublayers, and nothing else."""
    written = A[i, j] + total(R[i, l] * G[l, j], l) + c[j]
    identity(block, Array("change", (C, D))[i, j], Zp[i, j] - X[i, j], written, [Zp, Zhat])
    return Evidence(latex=rf"{{Z'}}_i^j=X_i^j+{tex(written)}")


@theorem(
    "the residual stream is the embedding plus all outputs of attention and the feed-forward so far",
    size="any size, any number of layers",
    assumptions=(
        'the readings "pre-norm" (002) and "once"; in 003\'s literal one each layer normalises the stream',
        "induction over the layers: the step is shown for one of them",
    ),
    source="002 High-level overview; 000 Residual connections; 003 eqs. (9), (10)",
)
def residual_stream():
    for residual in ("pre-norm", "once"):
        one = streamed(equations.block(residual))
    every = r"X_{i}^{j}\Big|_{\lambda=1}+\sum_{\lambda}\Big(A_i^j+\sum_l R_i^l G_l^j+c^j\Big)_{\lambda}"
    return Evidence(latex=f"{one.latex}\n\n{{Z'}}_i^j\\Big|_{{\\lambda=L}}={every}")


def cross_entropy(wanted: Expr) -> None:
    """Prove that (13), with (14) as q and `wanted` as p, is the loss of a position by (12)."""
    entropy = -total(wanted * log(q[i, u]), u)
    identity(equations.head(), Array("entropy", (C,))[i], entropy, loss_i[i], [loss_i])


@theorem(
    "the cross-entropy (13) of (15) and (14) is the loss (12)",
    assumptions=("exp L > 0, so that the logarithm exists",),
    source="003 eqs. (12), (13), (14), (15); 004 Training",
)
def loss_is_cross_entropy():
    cross_entropy(delta(u, y[i]))
    printed = -log(num[i, y[i]] / den[i])  # (12) itself, in which (14) does not occur
    identity(equations.head(), Array("printed", (C,))[i], printed, loss_i[i], [loss_i, q])
    score, row = Symbol("L", real=True), Symbol("T", positive=True)
    holds(expand_log(-log(exp(score) / row)) == log(row) - score, "-log(exp L / T) = log T - L")
    return Evidence(latex=r"-\sum_j\delta_{jt}\log q^j=-\log q^t=-\log\frac{\exp L_i^t}{\sum_k\exp L_i^k}")


# --- Properties of whole programs


def positions(entry: Indexed) -> list[Expr]:
    """The indices of an entry that stand where positions 1..C belong."""
    return [index for index, size in zip(entry.indices, entry.base.sizes, strict=True) if size == C]


def causal(program: Program, mask: Array) -> None:
    """Prove that the value of every name at position i depends on the inputs at positions 1..i, and on no other.

    The mask is 0 for m > i. A name with two positions, such as S_im, depends on 1..max(i, m). By induction over the
    definitions: each product may hold entries at its own positions, and at a position m that is summed over if a
    factor in it is 0 for m > i. Such factors are the mask, and names whose every product has such a factor.
    """
    vanishing = {mask}  # names with positions i, m that are 0 for m > i
    for definition in program.lines:
        own = positions(definition.left) if isinstance(definition.left, Indexed) else []
        products = [product for product, _ in spread(definition.right)]
        for product in products:
            factors = [x for x in Mul.make_args(product) if isinstance(x, Indexed) and x.base in vanishing]
            before = {m for i, m in map(positions, factors) if i in own}
            for entry in product.atoms(Indexed):
                late = [index for index in positions(entry) if index not in own and index not in before]
                if late:
                    raise Refuted(
                        f"{text(definition.left)} = {text(definition.right)}: {text(entry)} is taken at all positions "
                        f"{late[0].name}, later ones as well"
                    )
        if len(own) == 2 and all(_vanishes(product, own, vanishing) for product in products):
            vanishing.add(definition.name)


def _vanishes(product: Expr, own: list, vanishing: set) -> bool:
    factors = Mul.make_args(product)
    return any(isinstance(x, Indexed) and x.base in vanishing and positions(x) == own for x in factors)


@theorem(
    "the model is causal: the values at position i depend on tokens 1 to i only, through any number of layers",
    assumptions=("M_im = 0 for m > i", "any L: every block preserves this property of the embedding"),
    source="003 eqs. (1)-(12); 004",
    trusted=(SYMPY, INDEX),
)
def causality():
    for residual in RESIDUALS:
        causal(equations.embedding(residual), M)
        causal(equations.block(residual), M)
    causal(equations.head().excerpt((logits, num, den, q), [Zp[i, j], O[j, u]]), M)
    return Evidence(text="so keys and values of earlier tokens can be kept: later tokens do not change them")


def by_itself(program: Program) -> None:
    """Prove that each position is computed from itself alone, with weights that all positions share; or Refuted.

    By induction over the definitions: a name at position i may depend on entries at position i, and on entries without
    a position.
    """
    for definition in program.lines:
        own = positions(definition.left)
        if len(own) != 1:
            raise Refuted(f"{text(definition.left)} has {len(own)} positions, not one")
        for entry in definition.right.atoms(Indexed):
            if any(index not in own for index in positions(entry)):
                raise Refuted(f"{text(definition.left)} = {text(definition.right)}: {text(entry)} stands elsewhere")


@theorem(
    "norms, feed-forward and logits act position by position, with the same weights at each: attention alone "
    "moves information between positions",
    source="000 Feed forward neural network, Positional encoding; 003 eq. (10); 004 Functions",
    trusted=(SYMPY, INDEX),
)
def position_by_position():
    for residual in RESIDUALS:
        block = equations.block(residual)
        by_itself(block.excerpt((*NORM_HAT, Zbar, f, R, Zp), [Zhat[i, j], F[j, l], b[l], G[l, j], c[j]], [ε]))
        mixing = [line.name for line in block.lines if len(positions(line.left)) == 2 or line.name == Y]
        if mixing != [S, e, σ, Y]:
            raise Refuted(f"positions meet in {', '.join(str(x.label) for x in mixing)}")
        rest = [line.name for line in block.lines if line.name not in (*mixing, T)]
        by_itself(block.excerpt(rest, [*block.parameters.values(), Y[h, i, k]], [ε]))
    by_itself(equations.head().excerpt((logits, num, den, q), [Zp[i, j], O[j, u]]))
    return Evidence(text="S, e, σ and Y have or join two positions; every other line has one")


def permuted(program: Program, order: Array, moved: set) -> None:
    """Prove that a program whose inputs `moved` come in the order `order` gives every name in this order.

    By induction over the definitions: with all names moved, the right-hand side must be the old one at moved
    positions. The one law used is that a sum over all positions may be taken in any order.
    """
    moved = set(moved)
    for definition in program.lines:
        if isinstance(definition.left, Symbol):
            raise TypeError(f"permuted: {definition.left} has no position")
        changed = _any_order(_moved(fresh(definition.right), order, moved), order)
        expected = fresh(definition.right).xreplace({x: order[x] for x in positions(definition.left)})
        if normal(changed - expected) != 0:
            raise Refuted(
                f"{text(definition.left)} = {text(definition.right)}: moved it is {text(normal(changed))}, "
                f"not {text(normal(expected))}"
            )
        moved.add(definition.name)


def _moved(expr: Expr, order: Array, moved: set) -> Expr:
    """Every entry of the names `moved` taken at order[i] in place of i."""
    if isinstance(expr, Indexed):
        indices = [_moved(x, order, moved) for x in expr.indices]
        if expr.base in moved:
            indices = [order[x] if size == C else x for x, size in zip(indices, expr.base.sizes, strict=True)]
        return expr.base[tuple(indices)]
    if isinstance(expr, Sum):
        return Sum(_moved(expr.function, order, moved), *expr.limits)
    return expr.func(*[_moved(a, order, moved) for a in expr.args]) if expr.args else expr


def _any_order(expr: Expr, order: Array) -> Expr:
    """sum_m g(order[m]) = sum_m g(m), if m occurs nowhere else."""
    if not expr.args or isinstance(expr, Indexed):
        return expr
    if not isinstance(expr, Sum):
        return expr.func(*[_any_order(a, order) for a in expr.args])
    inner = _any_order(expr.function, order)
    for index, *_ in expr.limits:
        renamed = inner.xreplace({order[index]: (new := index.fresh())}) if index.size == C else inner
        if index.size == C and not renamed.has(index):
            inner = renamed.xreplace({new: index})
    return Sum(inner, *expr.limits)


@theorem(
    "without mask and positions a layer is permutation equivariant: tokens in another order give outputs in that order",
    assumptions=("a sum over all positions may be taken in any order",),
    source="000 Positional encoding; 002 (corrected)",
)
def equivariance():
    order = Array("π", (C,), values=C)
    for residual in RESIDUALS:
        unmasked = equations.block(residual).replaced(e, lambda _: exp(S[h, i, m]))
        permuted(unmasked, order, {X})
    alone = Program([E[t_, j]], [t])
    alone.let(X[i, j], E[t[i], j])
    permuted(alone, order, {t})
    return Evidence(latex=r"Z'_i(X_{\pi(1)},\ldots,X_{\pi(C)})=Z'_{\pi(i)}(X_1,\ldots,X_C)")


# --- Positional encoding

POSITION, SHIFT = symbols("n k", integer=True)
OMEGA = Symbol("omega", real=True)  # 1 / 10000^(i/D) of a pair of components i, i + 1


def pair(position) -> Matrix:
    """Components i and i + 1 of the encoding, for even i: 000 and 004, i counted from 0."""
    return Matrix([sin(OMEGA * position), cos(OMEGA * position)])


@theorem(
    "a shift of k positions rotates each pair of components by an angle that depends on k alone",
    assumptions=("components are counted from 0", "D is even"),
    source="000; 002 Positional Encoding; 004",
    trusted=(SYMPY,),
)
def shift_is_rotation():
    angle = OMEGA * SHIFT
    rotation = Matrix([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])
    difference = (pair(POSITION + SHIFT) - rotation * pair(POSITION)).expand(trig=True).expand()
    holds(difference.is_zero_matrix, f"r_{{n+k}} = R(k) r_n; the rest is {difference}")
    holds(not rotation.has(POSITION), "R does not depend on n")
    holds(trigsimp(rotation.T * rotation) == eye(2) and trigsimp(rotation.det()) == 1, "R is a rotation")
    product = trigsimp((pair(POSITION + SHIFT).T * pair(POSITION))[0])
    holds(product == cos(angle), f"r_n . r_{{n+k}} = sum cos(omega k) depends on k alone ({product})")
    return Evidence(
        latex=rf"\begin{{pmatrix}}\sin\omega(n+k)\\\cos\omega(n+k)\end{{pmatrix}}={latex(rotation)}"
        r"\begin{pmatrix}\sin\omega n\\\cos\omega n\end{pmatrix}"
    )


@theorem(
    "no two positions have the same encoding",
    assumptions=("components are counted from 0, so that the first pair has omega = 1", "exact numbers"),
    source="000 (Bishop & Bishop)",
    trusted=(SYMPY,),
)
def encoding_is_unique():
    one, other = symbols("n m", integer=True)
    first = (pair(one) - pair(other)).subs(OMEGA, 1)
    x, turns = Symbol("x", real=True), Symbol("z", integer=True, zero=False)
    square = 4 * sin((one - other) / 2) ** 2
    holds(simplify(first.dot(first).expand() - square) == 0, "|r_n - r_m|^2 >= 4 sin^2((n - m)/2)")
    whole = Symbol("w", integer=True)
    for roots in solveset(sin(x), x, Reals).args:  # even and odd multiples of pi
        holds(
            roots.base_sets == (Integers,) and expand(roots.lamda(whole) / pi).is_integer,
            f"{roots}: whole multiples of pi",
        )
    holds((2 * turns * pi).is_irrational, "n - m = 2 pi z is irrational for a whole number z that is not 0")
    table = positional_encoding(5000, 64)
    nearest = np.linalg.norm(table[1:] - table[0], axis=1).min()  # over all pairs: the distance depends on n - m alone
    return Evidence(
        latex=r"|r_n-r_m|^2\ge 4\sin^2\frac{n-m}{2}=0\iff n-m=2\pi z,\quad \pi\notin\mathbb{Q}",
        text=f"float64, D = 64, 5,000 positions: the nearest two are {nearest:.2f} apart",
    )


@theorem(
    "the encoding is bounded: each component lies in [-1, 1], and every vector has the length sqrt(D/2)",
    assumptions=("D is even",),
    source="000 (Bishop & Bishop)",
    trusted=(SYMPY,),
)
def encoding_is_bounded():
    holds(trigsimp(pair(POSITION).dot(pair(POSITION))) == 1, "sin^2 + cos^2 = 1 for each of the D/2 pairs")
    x = Symbol("x", real=True)
    holds(trigsimp(1 - sin(x) ** 2) == cos(x) ** 2 and (cos(x) ** 2).is_nonnegative, "|sin| <= 1")
    return Evidence(latex=r"|r_n|^2=\sum_{\omega}\left(\sin^2\omega n+\cos^2\omega n\right)=\frac{D}{2}")


# --- Symmetries of the loss


def fragment(program: Program, *names: Name, known=()) -> Program:
    """These lines of a program, and their adjoints from any adjoint of the last one, for any continuation of the model.

    Other inputs of these lines, and the parameters `given`, may be anything. No other line may use the other
    parameters, or the names of these lines before the last one.
    """
    used = set().union(*(names_in(program[x].right) for x in names)) - set(names)
    own = {*names[:-1], *used.intersection(program.parameters)} - set(known)
    for other in program.lines:
        if other.name not in names and names_in(other.right) & own:
            raise Refuted(f"{text(other.left)} = {text(other.right)} uses a name that should have no other use")
    parameters = [entry for array, entry in program.parameters.items() if array in used & own]
    return with_adjoints(program.excerpt(names, parameters, sorted(used - own, key=str)), names[-1])


@symmetry("per head Q^T dL/dQ = (K^T dL/dK)^T: Q -> Q B, K -> K B^-T leaves every score as it is")
def queries_and_keys():
    for residual in RESIDUALS:
        lines = fragment(equations.block(residual), ZQ, ZK, S, known=[X])
        along_q = total(Q[h, j, k] * d(Q)[h, j, k2], j)
        along_k = total(K[h, j, k2] * d(K)[h, j, k], j)
        identity(lines, Array("I", (H, nK, nK))[h, k, k2], along_q, along_k, [d(Q), d(K), d(ZQ), d(ZK), ZQ, ZK])
    return Evidence(latex=f"{tex(along_q)}={tex(along_k)}")


@symmetry("per head V^T dL/dV = (W dL/dW^T)^T: V -> V B, W -> B^-1 W leaves the head's output as it is")
def values_and_output():
    for residual in RESIDUALS:
        lines = fragment(equations.block(residual), ZV, Y, A, known=[X])
        along_v = total(V[h, j, k] * d(V)[h, j, k2], j)
        along_w = total(W[h, k2, j] * d(W)[h, k, j], j)
        identity(lines, Array("I", (H, nK, nK))[h, k, k2], along_v, along_w, [d(V), d(W), d(ZV), d(Y), Y, ZV])
    return Evidence(latex=f"{tex(along_v)}={tex(along_w)}")


@symmetry(
    "per unit of the feed-forward F . dL/dF + b dL/db = G . dL/dG: c F, c b and G / c do the same for c > 0",
    assumptions=("max(0, x) = x theta(x)",),
)
def relu_units():
    lines = fragment(equations.block().replaced(R, lambda _: f[i, l] * theta(f[i, l])), f, R, Zp)
    into = total(F[j, l] * d(F)[j, l], j) + b[l] * d(b)[l]
    out = total(G[l, j] * d(G)[l, j], j)
    identity(lines, Array("I", (nF,))[l], into, out, [d(F), d(b), d(G), d(f), d(R), R, f])
    return Evidence(latex=f"{tex(into)}={tex(out)}")


@symmetry("the gradients of the logits sum to 0 over the vocabulary, and so do those of O: softmax ignores a shift")
def logits_and_output():
    lines = with_adjoints(equations.head(), loss)
    through = [*equations.head_closed()[d(logits)[i, u]].through, d(logits), den]
    over_logits, over_O = total(d(logits)[i, u], u), total(d(O)[j, u], u)
    identity(lines, Array("I", (C,))[i], over_logits, 0, through)
    identity(lines, Array("I", (D,))[j], over_O, total(Zp[i, j] * over_logits, i), [d(O)])
    return Evidence(latex=f"{tex(over_logits)}=0,\\qquad {tex(over_O)}=0")


@symmetry("the gradients of the scores of a row sum to 0")
def scores():
    softmax = equations.block().excerpt((e, T, σ), [S[h, i, m]], [M])  # for any scores
    over = total(d(S)[h, i, m], m)
    identity(with_adjoints(softmax, σ), Array("I", (H, C))[h, i], over, 0, [d(S), e, σ, d(e), d(T), T])
    return Evidence(latex=f"{tex(over)}=0")


@symmetry(
    "before a norm the gradient of a vector sums to 0 over its components, and so does dL/dP_i",
    assumptions=(
        'the input of the norm has no other use: readings "literal" and "once", not "pre-norm"',
        "s + eps > 0",
    ),
)
def before_a_norm():
    back = [d(mu), d(v), d(s), d(r), v, mu]
    over, over_P = total(d(X)[i, j], j), total(d(P)[i, j], j)
    row = Array("I", (C,))[i]
    identity(fragment(equations.block("literal"), mu, v, s, r, Z), row, over, 0, [d(X), Z, *back])
    identity(with_adjoints(equations.embedding("literal"), X), row, over_P, over, [d(P)])
    identity(with_adjoints(equations.embedding("once"), X), row, over_P, 0, [d(P), d(X0), X, *back])
    return Evidence(latex=f"{tex(over_P)}=0")


@symmetry(
    "along the centred vector the gradient before a norm is eps / (s + eps) of that after it: 0 for eps = 0",
    assumptions=("s + eps > 0",),
)
def norm_and_scale():
    lines = fragment(equations.block("literal"), mu, v, s, r, Z)
    along, after = total(v[i, j] * d(X)[i, j], j), total(Z[i, j] * d(Z)[i, j], j)
    names = [d(X), d(mu), d(v), d(s), d(r), Z, v, mu, s]
    identity(lines, Array("I", (C,))[i], along, (1 - s[i] * r[i] ** 2) * after, names)
    variance = Symbol("s", positive=True)
    holds(simplify(1 - variance / (variance + ε) - ε / (variance + ε)) == 0, "1 - s r^2 = eps / (s + eps)")
    return Evidence(latex=rf"{tex(along)}=\frac{{\epsilon}}{{s_i+\epsilon}}\,{tex(after)}")


@symmetry("summed over the vocabulary dL/dE is dL/dP summed over positions: E + c, P - c is the same embedding")
def embeddings():
    over_E, over_P = total(d(E)[t_, j], t_), total(d(P)[i, j], i)
    for residual in RESIDUALS:
        identity(with_adjoints(equations.embedding(residual), X), Array("I", (D,))[j], over_E, over_P, [d(E), d(P)])
    return Evidence(latex=f"{tex(over_E)}={tex(over_P)}")


# --- The same of the engine, in float64

SIZES = Config(D=12, H=3, F=10, L=2, V=11, C=9)
CLOSE = 1e-10  # of the largest entry; rounding is some 1e-15 of it, and more after some hundred operations


engine_check = partial(
    theorem,
    category="check",
    size=f"D={SIZES.D} H={SIZES.H} F={SIZES.F} L={SIZES.L} V={SIZES.V} C={SIZES.C}, float64",
    trusted=(NUMBA,),
)


def gradients(config=SIZES, seed: int = 0) -> tuple[Config, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(configuration, parameters, gradients) of a random decoder: a repeated token, padding, two sequences."""
    tinytensor.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = Decoder(config).double().eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    tokens, targets = rng.integers(0, config.V, (2, 2, config.C))
    tokens[0, 1], targets[0, -2:] = tokens[0, 4], IGNORE_INDEX
    model(tensor(tokens), tensor(targets))[1].backward()
    values = {name: p.detach().numpy() for name, p in model.named_parameters()}
    return config, values, {name: p.grad.numpy() for name, p in model.named_parameters()}


def identities(config: Config, x: dict, dx: dict) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Both sides of every identity above, from parameters x and gradients dx."""
    sides = {
        "sum_m dO = 0": (dx["O"].sum(1), 0 * dx["O"][:, 0]),
        "sum_j dP = 0": (dx["P"].sum(1), 0 * dx["P"][:, 0]),
        "sum_k dE = sum_i dP": (dx["E"].sum(0), dx["P"].sum(0)),
    }
    for layer in range(config.L):
        Q, K, V, W, F, b, G = (x[f"blocks.{layer}.{name}"] for name in "QKVWFbG")
        dQ, dK, dV, dW, dF, db, dG = (dx[f"blocks.{layer}.{name}"] for name in "QKVWFbG")
        W, dW = (w.reshape(config.H, config.K, config.D) for w in (W, dW))
        sides |= {
            f"Q, K of layer {layer + 1}": (np.einsum("hja,hjb->hab", Q, dQ), np.einsum("hjb,hja->hab", K, dK)),
            f"V, W of layer {layer + 1}": (np.einsum("hja,hjb->hab", V, dV), np.einsum("hbj,haj->hab", W, dW)),
            f"F, b, G of layer {layer + 1}": ((F * dF).sum(0) + b * db, (G * dG).sum(1)),
        }
    return sides


def compare(sides: dict[str, tuple[np.ndarray, np.ndarray]], scale: float) -> Evidence:
    """Both sides agree to CLOSE, relative to `scale`."""
    lines = []
    for identity, (one, other) in sides.items():
        off = float(np.abs(one - other).max()) / scale
        if not off <= CLOSE:
            raise Refuted(f"{identity}: the two sides differ by {off:.2e} of the largest gradient")
        lines.append(f"{identity:<22} {off:.1e}")
    return Evidence(text="\n".join(lines))


@engine_check("engine: the gradients of the parameters obey the identities above", source="003 eq. (17)")
def engine_symmetries():
    config, x, dx = gradients()
    return compare(identities(config, x, dx), max(np.abs(g).max() for g in dx.values()))


@engine_check(
    "engine: a later token changes no earlier output, and with keys and values kept the outputs are those of one run"
)
def engine_causality():
    model, tokens = _decoder(SIZES)
    with tinytensor.no_grad():
        whole = model(tensor(tokens))[0].numpy()
        other = tokens.copy()
        other[:, 5:] = (other[:, 5:] + 1) % SIZES.V
        changed = model(tensor(other))[0].numpy()
        cache = model.new_cache(len(tokens))
        kept = [model(tensor(tokens[:, i : i + 1]), cache=cache)[0].numpy() for i in range(SIZES.C)]
    holds(np.abs(whole[:, 5:] - changed[:, 5:]).max() > 1e-3, "later outputs do change")
    sides = {
        "earlier outputs": (whole[:, :5], changed[:, :5]),
        "keys and values kept": (np.concatenate(kept, axis=1), whole),
    }
    return compare(sides, np.abs(whole).max())


@engine_check("engine: tokens in another order give outputs in that order, without mask and positions")
def engine_equivariance():
    model, tokens = _decoder(SIZES.replace(causal=False, positions=False))
    order = np.random.default_rng(1).permutation(SIZES.C)
    with tinytensor.no_grad():
        one, other = (model(tensor(x))[0].numpy() for x in (tokens[:, order], tokens))
        stack = EncoderStack(TransformerConfig(N=1, d_model=12, h=3, d_ff=10, n_vol=11)).double()
        Z_ = np.random.default_rng(2).normal(size=(2, SIZES.C, 12))
        layer, moved = (stack(tensor(x), None).numpy() for x in (Z_, Z_[:, order]))
    holds(np.abs(one - other).max() > 1e-3, "the order matters to the outputs")
    sides = {"003's decoder": (one, other[:, order]), "000's layer": (moved, layer[:, order])}
    return compare(sides, max(np.abs(other).max(), np.abs(layer).max()))


def _decoder(config: Config) -> tuple[Decoder, np.ndarray]:
    tinytensor.manual_seed(0)
    model = Decoder(config).double().eval()
    return model, np.random.default_rng(0).integers(0, config.V, (2, config.C))

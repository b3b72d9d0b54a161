"""Errors in print: the printed form is computed and is wrong, the corrected form is computed and is right. And choices.

Wrong means: the shapes clash, probabilities do not sum to 1, a count differs, a position sees the future, a name has no
value. If a text is not wrong but leaves a choice that matters, the readings are computed and differ, and `choice` says
which one is taken here. Most claims are arithmetic in float64 at small sizes, all different, and trust the engine's
operations and the models; claims for "any size" trust SymPy.

Slips of a name that affect no computation are left out: in 004 Z_{1,4} for Z_{1,5} and MultiHead_i for MultiHead_1, in
000 MLP for FFNN, in 003 sigma for a variance and for the softmax.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
from sympy import Integer, exp, limit, oo, simplify, sqrt, symbols

import tinytensor
from derivations.claims import NUMBA, NUMPY, SYMPY, Evidence, Refuted, claim, holds
from derivations.proofs import eq19, theorems
from models.attention import algorithm_1, algorithm_2, attention, join, project
from models.decoder import CONFIGS, Block, Config, Decoder
from models.transformer import BEGIN, STOP, Transformer, positional_encoding
from models.transformer import Config as TransformerConfig
from tinytensor import Tensor, cat, nn, tensor
from tinytensor.autograd import grad
from tinytensor.nn import functional
from tinytensor.symbolic.index_calculus.formulas import Size

SMALL = Config(D=6, H=2, F=10, L=2, V=11, C=7)
SMALL_004 = TransformerConfig(N=2, d_model=6, h=2, d_ff=10, n_vol=11, n_max=9)


def erratum(
    source: str,
    statement: str,
    printed: str,
    right: str,
    size: str = "small sizes, all different",
    trusted=(NUMBA,),
    category: str = "erratum",
):
    """`claim` for this part: the place, the error, and as LaTeX the printed and the right form."""
    return claim(
        "errata",
        f"{source}: {statement}",
        category=category,
        size=size,
        source=source,
        trusted=trusted,
        printed=printed,
        right=right,
    )


choice = partial(erratum, category="choice")  # no error, but more than one reading; `right` is ours


# --- What "wrong" means


def clashes(printed: Callable, error: type[Exception] = ValueError) -> str:
    """The error that the printed form raises when it is computed; Refuted if it raises none."""
    try:
        value = printed()
    except error as wrong:
        return " ".join(str(wrong).split())
    raise Refuted(f"the printed form can be computed: it gives {np.shape(value) or value}")


def agree(a, b, what: str, within: float = 1e-12) -> None:
    """Raise unless two arrays have the same shape and agree to `within`."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise Refuted(f"{what}: the shapes {a.shape} and {b.shape} differ")
    off = np.max(np.abs(a - b), initial=0)
    if not off <= within:  # NaN is not
        raise Refuted(f"{what}: they differ by {off:.3g}")


def differ(a, b, what: str, by: float = 1e-3) -> float:
    """The difference of two arrays of one shape; raises unless it is more than `by`."""
    off = float(np.max(np.abs(np.asarray(a) - np.asarray(b))))
    if not off > by:
        raise Refuted(f"{what}: printed and corrected form agree to {off:.3g}")
    return off


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def model(config=SMALL, seed: int = 1):
    """A decoder or an encoder-decoder in float64, its parameters random and nowhere 0."""
    tinytensor.manual_seed(seed)
    made = (Decoder if isinstance(config, Config) else Transformer)(config).double().eval()
    for p in made.parameters():
        nn.init.normal_(p, std=0.5)
    return made


def tokens(*shape: int, V: int = SMALL.V, seed: int = 0) -> Tensor:
    return tensor(np.random.default_rng(seed).integers(3, V, shape))


# --- Document 003, forward


@erratum(
    "003 after (2)",
    "with D = 512 and H = 4 a head has the width 128, not 64",
    r"D=512,\ H=4:\quad K=64",
    r"K=\frac{D}{H}=128",
    trusted=(SYMPY,),
)
def head_width():
    K = Config(D=512, H=4).K
    holds(K == 128 and Config(D=512, H=8).K == 64, f"D / H = 128 at H = 4, and 64 at H = 8 (K = {K})")
    free = eq19.decoder(eq19.FreeHeads)  # the count with K free: 4 D H K for Q, K, V and W
    weights = {k: free.coeff(eq19.L).subs({eq19.D: 512, eq19.H: 4, eq19.K: k, eq19.F: 0}) - 512 for k in (64, 128)}
    holds(weights[64] == 2 * 512**2, "literally, K = 64 at H = 4, the 4 D^2 of eq. (19) becomes 2 D^2")
    holds(weights[128] == 4 * 512**2, "with K = 128 it is 4 D^2")
    holds(Config(D=256, H=4).K == 64, "002's example, 256 / 4 = 64, is right")


@erratum(
    "003 before (3)",
    "the similarity matrix S is C x C, not D x D",
    r"S\in\mathbb{R}^{D\times D}",
    r"S\in\mathbb{R}^{C\times C}",
    size="C=5 D=8 K=3",
    trusted=(NUMPY,),
)
def similarity_shape():
    C, D, K = 5, 8, 3
    Z = numbers(C, D)
    S = np.einsum("ij,jl,mn,nl->im", Z, numbers(D, K), Z, numbers(D, K, seed=1)) / np.sqrt(K)
    holds(S.shape == (C, C) != (D, D), f"eq. (3) gives C x C (it gives {S.shape})")


@erratum(
    "003 (3)",
    "row i attends and has the query: S_im = q_i . k_m; printed, Q and K are exchanged",
    r"S_{im}=\frac{1}{\sqrt{K}}\delta_{kl}(Z_i^jK_j^l)(Z_m^nQ_n^k)",
    r"S_{im}=\frac{1}{\sqrt{K}}\delta_{kl}(Z_i^jQ_j^l)(Z_m^nK_n^k)",
)
def query_and_key():
    Z, Q, K, V = (numbers(*s, seed=n) for n, s in enumerate([(7, 6), (6, 3), (6, 3), (6, 3)]))

    def gradients(swap: bool):
        q, k = tensor(Q, requires_grad=True), tensor(K, requires_grad=True)
        a, b = (tensor(Z) @ w for w in ((k, q) if swap else (q, k)))  # the factors of rows i and m
        Y = functional.scaled_dot_product_attention(a, b, tensor(Z @ V), is_causal=True)
        (Y * tensor(numbers(7, 3, seed=9))).sum().backward()
        return Y.detach().numpy(), q.grad.numpy(), k.grad.numpy()

    usual, printed = gradients(False), gradients(True)
    differ(usual[0], printed[0], "the attention of eq. (3) as printed")
    Q, K = K, Q
    renamed = gradients(True)
    agree(usual[0], renamed[0], "with the names exchanged eq. (3) is the usual attention")
    agree(usual[1], renamed[2], "and dL/dQ is its dL/dK")
    agree(usual[2], renamed[1], "and dL/dK is its dL/dQ")


@erratum(
    "003 (5)",
    "the mask is 0 for m <= i; j is not an index of M_im",
    r"M_{im}=0\ \text{if}\ j\le i,\quad -\infty\ \text{otherwise}",
    r"M_{im}=0\ \text{if}\ m\le i,\quad -\infty\ \text{otherwise}",
    size="C=5",
    trusted=(NUMPY,),
)
def mask_index():
    C = 5
    i, m = np.indices((C, C))
    S = numbers(C, C)
    for j in range(C):  # "if j <= i", for any j: whole rows are open or closed
        printed = np.where(j <= i, 0, -np.inf)
        holds((printed == printed[:, :1]).all(), "the printed mask does not depend on m")
        A = softmax((S + printed)[j:])
        holds((A[m[j:] > i[j:]] > 0).all(), f"with j = {j} positions see later ones")
    A = softmax(S + np.where(m <= i, 0, -np.inf))
    holds((A[m > i] == 0).all() and (A[m <= i] > 0).all(), "with m <= i each position sees itself and earlier ones")
    agree(A.sum(1), np.ones(C), "the rows sum to 1")


@erratum(
    "003 (6)",
    "the sum runs over positions m, of softmax_m(S'_im) times Z V; printed, V_j^k has D rows, not C",
    r"Y_i^k=\sigma(S_{im})\delta^{jm}V_j^k",
    r"Y_i^k=\sum_m \mathrm{softmax}_m(S'_{im})\, Z_m^n V_n^k",
)
def weighted_values():
    C, D, K = 5, 8, 3
    Z, Q, Kw, V = (numbers(*s, seed=n) for n, s in enumerate([(C, D), (D, K), (D, K), (D, K)]))
    S = (Z @ Q) @ (Z @ Kw).T / np.sqrt(K)
    masked = np.where(np.tri(C, dtype=bool), S, -np.inf)
    clash = clashes(lambda: np.einsum("im,jm,jk->ik", softmax(S), np.eye(C), V))  # sigma(S_im) delta^jm V_j^k
    A = softmax(S)
    holds((A[~np.tri(C, dtype=bool)] > 0).all(), "sigma(S), without the mask, sees the future")
    Y = np.einsum("im,mn,nk->ik", softmax(masked), Z, V)
    engine = functional.scaled_dot_product_attention(tensor(Z @ Q), tensor(Z @ Kw), tensor(Z @ V), is_causal=True)
    agree(Y, engine.numpy(), "the corrected eq. (6) and the engine's attention")
    return Evidence(text=f"printed: {clash}")


@erratum(
    "003 after (1), (9)",
    "a norm needs eps; without it a constant vector is 0/0, and at D = 2 all gradients vanish",
    r"Z_i^j\to\frac{Z_i^j-\langle Z^j\rangle_i}{\sqrt{\sigma(Z^j)_i}}",
    r"Z_i^j\to\frac{Z_i^j-\langle Z^j\rangle_i}{\sqrt{\sigma(Z^j)_i+\epsilon}}",
)
def norm_eps():
    x = np.ones((1, 6))
    with np.errstate(invalid="ignore"):
        printed = (x - x.mean()) / np.sqrt(x.var())
    holds(np.isnan(printed).all(), "the printed norm of a constant vector is not a number")
    agree(nn.LayerNorm(6, 1e-5, False)(tensor(x)).numpy(), np.zeros((1, 6)), "with eps it is 0")
    a, b = symbols("a b", real=True)
    d, eps = symbols("d epsilon", positive=True)  # a - b = d > 0; the other sign is its mirror image
    mean = (a + b) / 2
    variance = ((a - mean) ** 2 + (b - mean) ** 2) / 2
    z = ((a - mean) / sqrt(variance + eps)).subs(a, b + d)
    holds(simplify(z.subs(eps, 0)) == 1, "at D = 2 without eps the norm of (a, b) is the sign of a - b")
    slope = simplify(z.diff(d))
    holds(simplify(slope.subs(eps, 0)) == 0, "so that its gradient is 0")
    holds(slope.subs({eps: 1, d: 1}) != 0, "with eps it is not")


@choice(
    "003 (1), (9), (10)",
    '"Z -> norm(Z)" can be read in three ways, which give three losses; "literal" is the printed one',
    r"Z\to\mathrm{norm}(Z),\qquad \hat{Z}=Z+A",
    r"\hat{Z}=\mathrm{norm}(Z)+A\quad\text{in every layer}",
)
def three_readings():
    t = tokens(1, SMALL.C)
    losses = {}
    for residual in ("literal", "once", "pre-norm"):
        made = model(SMALL.replace(residual=residual))
        losses[residual] = made(t, tokens(1, SMALL.C, seed=1))[1].item()
    values = sorted(losses.values())
    holds(min(b - a for a, b in pairwise(values)) > 1e-3, f"the losses differ: {losses}")
    holds(Config().residual == "literal", "the model's default is the literal reading")
    return Evidence(text="\n".join(f"{name:<10} loss {loss:.4f}" for name, loss in losses.items()))


@erratum(
    "003 (11), (12)",
    "logits are no probability distribution; their softmax is one",
    r"L_i^m:\ \text{a probability distribution}",
    r"q_i^m=\frac{\exp L_i^m}{\sum_k\exp L_i^k}:\ \text{a probability distribution}",
)
def logits_are_not_probabilities():
    logits = model()(tokens(1, SMALL.C))[0][0]
    rows = logits.detach().numpy()
    holds((rows < 0).any() and (np.abs(rows.sum(1) - 1) > 1e-3).all(), "logits are negative, and no row sums to 1")
    p = tinytensor.softmax(logits, -1).detach().numpy()
    holds((p > 0).all(), "the softmax is positive")
    agree(p.sum(1), np.ones(SMALL.C), "its rows sum to 1")


@erratum(
    "003 (14)",
    "the exponential is missing in the denominator: exp L^j / sum_k exp L^k",
    r"q^j=\frac{\exp L_i^j}{\sum_j L_i^j}",
    r"q^j=\frac{\exp L_i^j}{\sum_k \exp L_i^k}",
)
def softmax_denominator():
    L = numbers(9)
    q = np.exp(L) / L.sum()
    holds(abs(q.sum() - 1) > 1e-3, "the printed q sums to 1 only by chance")
    corrected = np.exp(L) / np.exp(L).sum()
    agree(corrected.sum(), 1, "the corrected q")
    agree(
        -np.log(corrected),
        functional.cross_entropy(tensor(np.tile(L, (9, 1))), tensor(np.arange(9)), reduction="none").numpy(),
        "and -log q is the loss of eq. (12)",
    )
    return Evidence(text=f"the printed q sums to {q.sum():.2f}")


@choice(
    "003 (16)",
    "the mean over N counted positions puts 1/N into every gradient, and 0 at padding; 004's sum does not",
    r"\mathcal{L}=\langle\mathcal{L}_i\rangle",
    r"\mathcal{L}=\frac{1}{N}\sum_i w_i\mathcal{L}_i,\quad N=\sum_i w_i",
)
def mean_over_counted():
    logits, targets = numbers(5, 4), np.array([1, -100, 3, 0, -100])

    def gradient(reduction):
        x = tensor(logits, requires_grad=True)
        functional.cross_entropy(x, tensor(targets), reduction=reduction).backward()
        return x.grad.numpy()

    counted = targets >= 0
    one_hot = np.eye(4)[np.where(counted, targets, 0)]
    derived = counted[:, None] / counted.sum() * (softmax(logits) - one_hot)
    agree(gradient("mean"), derived, "w_i / N (p - one-hot)")
    agree(gradient("sum"), counted.sum() * derived, "the gradient of the sum is N times that of the mean")
    return Evidence(latex=r"\frac{\partial\mathcal{L}}{\partial L_i^m}=\frac{w_i}{N}\,(p_i^m-\delta_{m t_i})")


# --- Document 003, training, counts


@erratum(
    "003 (17)",
    "dL/dE_k sums over all positions of token k",
    r"\frac{\partial\mathcal{L}}{\partial E_{t_i}^j}",
    r"\frac{\partial\mathcal{L}}{\partial E_k^j}=\sum_i\delta_{k t_i}\frac{\partial\mathcal{L}}{\partial Z_i^j}",
)
def repeated_tokens():
    made = model()
    t = tensor(np.array([[3, 5, 3, 3, 7, 5, 1]]))
    made(t, tokens(1, 7, seed=1))[1].backward()
    dZ = made.P.grad.numpy()  # dL/dZ_i of eq. (1), since P_i stands at position i alone
    gathered = np.zeros((SMALL.V, SMALL.D))
    np.add.at(gathered, t.numpy()[0], dZ)
    agree(made.E.grad.numpy(), gathered, "dL/dE_k and the sum over the positions of token k")
    differ(made.E.grad.numpy()[3], dZ[0], "dL/dE_{t_1} and dL/dZ_1, where token t_1 is repeated")


@erratum(
    "003 (17)",
    "P is left out, though eq. (19) counts it among the learned parameters",
    r"\frac{\partial\mathcal{L}}{\partial L_i^m},\ldots,\frac{\partial\mathcal{L}}{\partial E_{t_i}^j}",
    r"\ldots,\frac{\partial\mathcal{L}}{\partial E_k^j},\frac{\partial\mathcal{L}}{\partial P_i^j}",
    trusted=(SYMPY,),
)
def positions_are_learned():
    listed = set("OGcFbWVQKE")  # eq. (17), besides the logits L_i^m
    learned = {name.split(".")[-1] for name, _ in Decoder(Config(), device="meta").named_parameters()}
    holds(learned - listed == {"P"} and not listed - learned, f"P alone is missing (missing: {learned - listed})")
    holds(eq19.decoder().coeff(eq19.C) == eq19.D, "eq. (19) counts P: C D")


@erratum(
    "003 after (19)",
    "the vocabulary has V = 300 words; D is 32",
    r"\text{a vocabulary size of}\ D=300",
    r"\text{a vocabulary size of}\ V=300",
    trusted=(SYMPY,),
)
def vocabulary_of_the_example():
    sizes = {eq19.F: 64, eq19.L: 2, eq19.C: 96}
    holds(eq19.EQ_19.subs({**sizes, eq19.D: 32, eq19.V: 300}) == 38_848, "D = 32 and V = 300 give 38,848")
    least = eq19.EQ_19.subs({**sizes, eq19.D: 300, eq19.V: 1})
    holds(least > 38_848, f"no vocabulary makes D = 300 give 38,848: with V = 1 it is {least} already")


@choice(
    "003",
    "letters with two or three meanings (K, V, F, L, H, t, σ): here each thing has a name of its own",
    r"K,\ V,\ F,\ L,\ H,\ t,\ \sigma",
    r"K\ \text{and}\ K_j^k,\quad L,\ L_i^m\ \text{and}\ \mathcal{L},\quad t_i\ \text{and}\ y_i,\quad\ldots",
)
def letters_twice():
    sizes = {name for name in ("D", "H", "K", "F", "L", "V", "C") if hasattr(Config(), name)}
    weights = {name.split(".")[-1] for name, _ in Block(Config(), device="meta").named_parameters()}
    holds(sizes & weights == {"K", "V", "F"}, f"sizes and weights share K, V and F (they share {sizes & weights})")
    block = Block(CONFIGS["toth-tiny"])
    for letter in sizes & weights:
        size, weight = getattr(block.config, letter), getattr(block, letter)
        holds(isinstance(size, int) and isinstance(weight, Tensor), f"{letter} is one thing in each namespace")
    # in one namespace, as the source has it: the number of layers has no entries, that of heads cannot be called
    L, H = SMALL.L, SMALL.H
    lines = [clashes(lambda: L[0], TypeError), clashes(lambda: H(0.5, 0.5), TypeError)]  # L_i of (12), H(p, q) of (13)
    made, t = model(), tokens(1, SMALL.C)
    copied, predicted = (made(t, y)[1].item() for y in (t, tokens(1, SMALL.C, seed=1)))
    differ(copied, predicted, "the loss (12) with the t of (1), the token that is read, and with the one to come")
    meanings = [f"{letter}: {'; '.join(meanings)}" for letter, meanings in LETTERS.items()]
    return Evidence(text="\n".join([*meanings, "", *(f"in one namespace: {line}" for line in lines)]))


LETTERS = {  # of 003: their meanings and places
    "K": ("the width of a head, after (2)", "the weights K_j^k, (2)"),
    "V": ("the size of the vocabulary, (1)", "the weights V_j^k, (2)"),
    "F": ("the width of the feed-forward, before (10)", "the weights F_k^l, (10)"),
    "L": ("the logits L_i^m, (11)", "the loss 𝓛, and 𝓛_i, (12), (16)", "the number of layers, (19)"),
    "H": ("the number of heads, after (2)", "the cross-entropy H(p, q), (13)"),
    "t": ("the tokens t_i that are read, (1)", "the correct token t, (12), (15)"),
    "σ": ("the variance, after (1)", "the softmax, (6)"),
}


# --- Document 000


@erratum(
    "000 scaling",
    'large scores make gradients vanish, not "too sharp"',
    r"\text{large}\ QK^T:\ \text{gradients that are too sharp}",
    r"\frac{\partial p}{\partial s}=p(1-p)\to 0\quad (s\to\infty)",
    size="any gap",
    trusted=(SYMPY,),
)
def saturation():
    s, p = symbols("s p", positive=True)
    weight = exp(s) / (1 + exp(s))  # of the larger of two scores, s apart
    slope = weight.diff(s)
    holds(simplify(slope - weight * (1 - weight)) == 0, "the slope of the softmax is p (1 - p)")
    holds(limit(slope, s, oo) == 0, "it goes to 0 as the scores grow")
    top = (p * (1 - p)).subs(p, Integer(1) / 2)
    holds(slope.subs(s, 0) == top and top < 1, "and is at most 1/4: nothing becomes sharp")


@erratum(
    "000 biases",
    "with one row for each token it is Q = X W + 1 beta^T; printed is the form for columns, with 1^T as N x 1",
    r"Q=\beta_q1^T+\Omega_qX,\quad 1^T\in\mathbb{R}^{N\times 1}",
    r"Q=XW+1\beta_q^T,\quad 1\in\mathbb{R}^{N\times 1}",
)
def bias_form():
    N, D, d_k = 5, 8, 3
    X, W, beta = numbers(N, D), numbers(D, d_k), numbers(d_k, 1)
    lines = [clashes(lambda: W.T @ X), clashes(lambda: beta @ np.ones((N, 1)))]  # Omega X; beta 1^T
    Q = X @ W + np.ones((N, 1)) @ beta.T
    agree(Q, project(tensor(X[None]), tensor(W[None]), tensor(beta[:, 0])).numpy()[0, 0], "X W + 1 beta^T")
    agree((beta @ np.ones((1, N)) + W.T @ X.T).T, Q, "Prince's form, whose tokens are columns")
    return Evidence(text="\n".join(f"printed: {line}" for line in lines))


@erratum(
    "000 softmax",
    "j is free and bound: summed literally, every weight is 1/n; the sum runs over j'",
    r"a_{ij}=\frac{\exp((QK^T)_{ij}/\sqrt{d_k})}{\sum_{j=1}^{n}\exp((QK^T)_{ij}/\sqrt{d_k})}",
    r"a_{ij}=\frac{\exp((QK^T)_{ij}/\sqrt{d_k})}{\sum_{j'=1}^{N}\exp((QK^T)_{ij'}/\sqrt{d_k})}",
    trusted=(NUMPY,),
)
def softmax_index():
    S = numbers(5, 5)
    n = S.shape[1]
    printed = np.array([[np.exp(s) / sum(np.exp(s) for _ in range(n)) for s in row] for row in S])
    agree(printed, np.full((n, n), 1 / n), "n times the same term below")
    corrected = np.exp(S) / np.exp(S).sum(1, keepdims=True)
    differ(corrected, printed, "the corrected softmax")
    agree(corrected.sum(1), np.ones(n), "its rows")


@erratum(
    "000 weighted sum",
    "the softmax is missing in (Q K^T / sqrt(d_k)) V",
    r"\left(\frac{QK^T}{\sqrt{d_k}}\right)V",
    r"\mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V",
)
def softmax_missing():
    Q, K, V = numbers(5, 3), numbers(5, 3, seed=1), numbers(5, 4)
    S = Q @ K.T / np.sqrt(3)
    holds((np.abs(S.sum(1) - 1) > 1e-3).all() and (S < 0).any(), "scores are no weights: rows do not sum to 1")
    printed = S @ V
    holds((np.clip(printed, V.min(0), V.max(0)) != printed).any(), "the printed form leaves the range of the values")
    Y = attention(tensor(Q), tensor(K), tensor(V)).numpy()
    agree(Y, softmax(S) @ V, "softmax(S) V and the model's attention")
    holds((np.clip(Y, V.min(0), V.max(0)) == Y).all(), "which does not leave it")


@erratum(
    "000 Algorithm 2",
    "the weights are D x d_k, D x d_v and H d_v x D; printed, d_k x d_k fits only if d_k = D",
    r"W_h^{(q)}: d_k\times d_k,\quad W_h^{(v)}: d_k\times d_v,\quad W^{(o)}: Hd_v\times d_k",
    r"W_h^{(q)}: D\times d_k,\quad W_h^{(v)}: D\times d_v,\quad W^{(o)}: Hd_v\times D",
    trusted=(NUMPY,),
)
def algorithm_2_shapes():
    N, D, H, d_k, d_v = 5, 8, 2, 3, 4
    X = numbers(N, D)
    clash = clashes(lambda: X @ numbers(d_k, d_k))
    heads = [
        softmax((X @ q) @ (X @ k).T / np.sqrt(d_k)) @ (X @ v)
        for q, k, v in (
            (numbers(D, d_k, seed=h), numbers(D, d_k, seed=h + 9), numbers(D, d_v, seed=h)) for h in range(H)
        )
    ]
    holds((np.concatenate(heads, -1) @ numbers(H * d_v, D)).shape == (N, D), "the corrected shapes give N x D, as X")
    h, k, v, d = symbols("H d_k d_v D", positive=True)
    printed, corrected = 2 * h * k * (k + v), 2 * d * h * (k + v)
    holds(simplify((corrected - printed) / (2 * h * (k + v)) - (d - k)) == 0, "the counts agree only if d_k = D")
    holds(corrected.subs({h: H, k: d_k, v: d_v, d: D}) == 2 * D * H * (d_k + d_v), "the corrected count")
    return Evidence(text=f"printed: {clash}")


@erratum(
    "000 Algorithm 3",
    "Y is used and never computed: the line Y = MultiHead(X) is missing",
    r"Z=\mathrm{LayerNorm}(Y+X)",
    r"Y=\mathrm{MultiHead}(X),\quad Z=\mathrm{LayerNorm}(Y+X)",
    trusted=(NUMPY,),
)
def algorithm_3():
    names = {
        "LayerNorm": lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5),
        "MLP": lambda z: np.maximum(0, z),
        "MultiHead": lambda x: softmax(x @ x.T) @ x,
    }

    def run(*lines):
        scope = {**names, "X": numbers(5, 8)}
        exec("\n".join(lines), scope)
        return scope["result"]

    body = ("Z = LayerNorm(Y + X)", "result = LayerNorm(MLP(Z) + Z)")
    missing = clashes(lambda: run(*body), NameError)
    holds(run("Y = MultiHead(X)", *body).shape == (5, 8), "with the line the algorithm runs and gives N x D")
    return Evidence(text=f"printed: {missing}")


@erratum(
    "000 LayerNorm",
    "the sums run to D, not to an M that has no meaning; gamma and delta have D components",
    r"\mu_n=\frac{1}{D}\sum_{i=1}^{M}x_{ni},\quad y_{ni}=\gamma z_{ni}+\delta",
    r"\mu_n=\frac{1}{D}\sum_{i=1}^{D}x_{ni},\quad y_{ni}=\gamma_i z_{ni}+\delta_i",
)
def layer_norm_sums():
    D = 8
    x = numbers(5, D)
    for M in (D - 1, D):
        mean = x[:, :M].sum(1, keepdims=True) / D
        variance = ((x - mean)[:, :M] ** 2).sum(1, keepdims=True) / D
        z = (x - mean) / np.sqrt(variance + 1e-5)
        centred = np.allclose(z.mean(1), 0, atol=1e-12)
        holds(centred == (M == D), f"the mean is 0 if and only if M = D (M = {M})")
    norm = nn.LayerNorm(D).double()
    agree(norm(tensor(x)).detach().numpy(), z, "with M = D and gamma = 1, delta = 0 it is the engine's")
    holds(norm.weight.shape == norm.bias.shape == (D,), "gamma and delta: one for each feature")


def shift_residual(table: Callable[[int, int], np.ndarray], shift: int = 3, n: int = 64, D: int = 8) -> float:
    """The distance of r_{n + shift} from the best linear function of r_n, over n positions: 0 if a shift is linear."""
    r = table(n + shift, D)
    before, after = r[:n], r[shift:]
    return float(np.abs(before @ np.linalg.lstsq(before, after, rcond=None)[0] - after).max())


def counted_from_1(n: int, D: int) -> np.ndarray:
    """The printed table with components counted from 1, as the documents count everything else."""
    i, j = np.arange(n)[:, None], np.arange(1, D + 1)[None, :]
    return np.where(j % 2 == 0, np.sin(i / 10000 ** (j / D)), np.cos(i / 10000 ** ((j - 1) / D)))


@choice(
    "000 and 004 positional encoding",
    "components count from 0: from 1 a shift of positions is not linear",
    r"r_{ni}=\sin\frac{n}{T^{i/D}}\ \text{for even}\ i,\quad\text{the first}\ i\ \text{unstated}",
    r"i=0,\ldots,D-1",
    trusted=(NUMPY,),
)
def encoding_origin():
    right, wrong = shift_residual(positional_encoding), shift_residual(counted_from_1)
    holds(right < 1e-12, f"counted from 0 a shift is linear (residual {right:.1e})")
    holds(wrong > 1e-3, f"counted from 1 it is not (residual {wrong:.1e})")
    return Evidence(text=f"residual of the best linear map: {right:.1e} from 0, {wrong:.2g} from 1")


@erratum(
    "000 positional encoding",
    '"i is the position of a token": n is the position, i the component',
    r"r_{ni}:\ i\ \text{is the position of a token}",
    r"r_{ni}:\ n\ \text{is the position},\ i\ \text{the component}",
    trusted=(NUMPY,),
)
def encoding_letters():
    r = positional_encoding(6, 8)
    n, i = 5, 3
    agree(r[n, i], np.cos(n / 1e4 ** ((i - 1) / 8)), "r_ni with n the position and i the component")
    exchanged = np.cos(i / 1e4 ** ((n - 1) / 8))
    differ(r[n, i], exchanged, "with the letters exchanged")


# --- Documents 001, 002


@erratum(
    "001 scaling",
    "the variance d_k of q . k needs means of 0, not only variances of 1",
    r"\mathrm{Var}(q_i)=\mathrm{Var}(k_i)=1\ \Rightarrow\ \mathrm{Var}(q\cdot k)=d_k",
    r"\ldots\ \text{and}\ \mathrm{E}(q_i)=\mathrm{E}(k_i)=0\ \Rightarrow\ \mathrm{Var}(q\cdot k)=d_k",
    size="d_k=16, 200,000 draws",
    trusted=(NUMPY,),
)
def variance_needs_means(draws: int = 200_000):
    d_k, rng = 16, np.random.default_rng(0)
    means = {}
    for mean in (0, 1):
        dots = ((rng.normal(mean, 1, (draws, d_k))) * rng.normal(mean, 1, (draws, d_k))).sum(1)
        exact = d_k * (1 + 2 * mean**2)  # d_k (s_q^2 s_k^2 + m_q^2 s_k^2 + m_k^2 s_q^2); see the part theorems
        fourth = ((dots - dots.mean()) ** 4).mean()
        error = np.sqrt((fourth - dots.var() ** 2) / draws)  # the standard error of a sample variance
        holds(abs(dots.var() - exact) < 5 * error, f"the variance is {exact} (sampled {dots.var():.2f} +- {error:.2f})")
        means[mean] = dots.var()
    holds(means[1] > 2 * d_k, "with means of 1 it is not d_k")
    return Evidence(text="\n".join(f"means {m}: variance {v:.1f}, d_k = {d_k}" for m, v in means.items()))


@erratum(
    "001 concatenation",
    "[head_1; ...; head_h] with semicolons stacks rows; N x (h d_v) needs them side by side",
    r"H=[\mathrm{head}_1;\ldots;\mathrm{head}_h]\in\mathbb{R}^{N\times hd_v}",
    r"H=[\mathrm{head}_1,\ldots,\mathrm{head}_h]\in\mathbb{R}^{N\times hd_v}",
)
def concatenation():
    N, h, d_v, D = 5, 2, 3, 8
    heads, W = numbers(h, N, d_v), numbers(h * d_v, D)
    stacked = np.concatenate(list(heads), axis=0)
    holds(stacked.shape == (h * N, d_v), f"stacked they are (h N) x d_v ({stacked.shape})")
    clash = clashes(lambda: stacked @ W)
    Y = np.concatenate(list(heads), axis=1) @ W
    agree(Y, join(tensor(heads[None]), tensor(W)).numpy()[0], "side by side, times W^O, and the model")
    return Evidence(text=f"stacked: {clash}")


@erratum(
    "001 output shape",
    "the output is N x d_model; that of a single head is N x d_v, the same only where d_v = d_model",
    r"\mathrm{MultiHead}(X)\ \text{has the shape of}\ \mathrm{head}_i,\ N\times d_{\text{model}}",
    r"\mathrm{MultiHead}(X)\in\mathbb{R}^{N\times d_{\text{model}}},\quad\mathrm{head}_i\in\mathbb{R}^{N\times d_v}",
)
def shape_of_a_head():
    N, h, D, d_k, d_v = 5, 2, 8, 3, 4
    X = tensor(numbers(N, D))
    W_q, W_k, W_v = ([tensor(numbers(D, d, seed=i)) for i in range(h)] for d in (d_k, d_k, d_v))
    head = algorithm_1(X, W_q[0], W_k[0], W_v[0])
    output = algorithm_2(X, W_q, W_k, W_v, tensor(numbers(h * d_v, D)))
    holds(head.shape == (N, d_v) != (N, D), f"head_1 is N x d_v ({head.shape})")
    holds(output.shape == X.shape == (N, D), f"the output is N x d_model, as X ({output.shape})")
    clash = clashes(lambda: head.numpy() + X.numpy())  # the input of the next layer, if heads had its shape
    return Evidence(text=f"a single head added to X: {clash}")


@erratum(
    "002 scaling",
    "a vector of k numbers c has the length c sqrt(k), but its dot product grows like k",
    r"|(c,\ldots,c)|=c\sqrt{k}\ \Rightarrow\ \text{divide}\ q\cdot k\ \text{by}\ \sqrt{k}",
    r"\sqrt{\mathrm{Var}(q\cdot k)}=\sqrt{k}\ \Rightarrow\ \text{divide}\ q\cdot k\ \text{by}\ \sqrt{k}",
    size="any size",
    trusted=(SYMPY,),
)
def length_argument():
    k, c = symbols("k c", positive=True)
    length, dot = c * sqrt(k), c**2 * k
    holds(all((c * sqrt(n)) ** 2 == sum(c * c for _ in range(n)) for n in range(1, 9)), "the length is c sqrt(k)")
    scaled = dot / sqrt(k)
    holds(
        limit(scaled, k, oo) == oo and simplify(scaled / length) == c, "divided by sqrt(k) it still grows like sqrt(k)"
    )
    width = Size("d_k", "a b")
    variance = theorems.variance_of_dot_product(width).xreplace(theorems.STANDARD)
    holds(sqrt(variance) / sqrt(width) == 1, "sqrt(k) cancels the growth of the standard deviation")


@erratum(
    "002 softmax",
    "negative inputs kill no gradient: softmax depends on differences alone; one score far above the others kills it",
    r"s_j<0:\ e^{s_j}\approx 0\ \text{kills the gradient}",
    r"\mathrm{softmax}(s-c)=\mathrm{softmax}(s);\quad s_{\max}-s_j\to\infty\ \text{kills it}",
)
def negative_scores():
    S = numbers(6)
    low = S - 100
    holds((np.exp(low) < 1e-40).all(), "scores that are negative, their exponentials almost 0")

    def jacobian(s):
        x, units = tensor(s, requires_grad=True), tensor(np.eye(len(s)))
        return np.stack([grad(tinytensor.softmax(x, -1), x, unit)[0].numpy() for unit in units])

    agree(softmax(low), softmax(S), "the weights of scores that lie 100 lower")
    agree(jacobian(low), jacobian(S), "and their gradients")
    holds(np.abs(jacobian(low)).max() > 0.1, "which are not killed")
    far = np.where(np.arange(6) == 2, 100.0, 50.0)
    holds(np.abs(jacobian(far)).max() < 1e-20, "positive scores with a gap of 50 have none; see the part theorems")


@erratum(
    "002 positional encoding",
    "self-attention is permutation equivariant, not invariant",
    r"f(X_\pi)=f(X)",
    r"f(X_\pi)=f(X)_\pi",
)
def equivariant():
    X, order = numbers(6, 4), np.array([3, 0, 5, 1, 4, 2])
    W = [numbers(4, 3, seed=n) for n in range(3)]

    def f(X):
        return attention(*(tensor(X @ w) for w in W)).numpy()

    differ(f(X[order]), f(X), "invariant it is not")
    agree(f(X[order]), f(X)[order], "equivariant it is")


# --- Document 004


def decoded(made: Transformer, inputs: Tensor, shifted: Tensor, is_causal: bool = True) -> np.ndarray:
    with tinytensor.no_grad():
        return made.decode(shifted, *made.encode(inputs), is_causal=is_causal).numpy()[0]


@erratum(
    "004 inference",
    "the mask stays on: without it the outputs are not those of training, and earlier ones change",
    r"\mathrm{MaskedMultiHead}^{I}=\mathrm{MultiHead}",
    r"\mathrm{MaskedMultiHead}^{I}=\mathrm{MaskedMultiHead}^{T}",
)
def mask_at_inference():
    inputs, words = tokens(1, 5), tokens(1, 6, seed=1)
    lines = []
    for N in (1, 2):
        made = model(SMALL_004.replace(N=N))
        trained, printed = (decoded(made, inputs, words, is_causal) for is_causal in (True, False))
        earlier, last = np.abs(trained - printed)[:-1].max(), np.abs(trained - printed)[-1].max()
        holds(earlier > 1e-3, f"with {N} stacks the earlier positions differ from training")
        holds(last < 1e-12 if N == 1 else last > 1e-3, "the last one differs as soon as there are two stacks")
        lines.append(f"N = {N}: without the mask earlier positions change by {earlier:.2g}, the last one by {last:.1g}")
    shorter, longer = decoded(made, inputs, words[:, :5]), decoded(made, inputs, words)
    agree(shorter, longer[:5], 'with the mask a further word changes no earlier output: "he" cannot become "i"')
    shorter, longer = (decoded(made, inputs, w, is_causal=False) for w in (words[:, :3], words))
    differ(shorter, longer[:3], "without it, further words do")
    return Evidence(text="\n".join(lines))


@erratum(
    "004 caveats",
    '"feeding the words one by one does not make sense": with keys and values kept it gives the same',
    r"\text{words fed one by one: self-attention makes no sense}",
    r"\text{words fed one by one, keys and values kept: the same outputs}",
)
def one_by_one():
    made = model(SMALL_004)
    inputs, words = tokens(1, 5), tokens(1, 6, seed=1)
    together = decoded(made, inputs, words)
    with tinytensor.no_grad():
        encoded, cache = made.encode(inputs), made.new_cache()
        kept = [made.decode(words[:, i : i + 1], *encoded, cache=cache).numpy()[0, 0] for i in range(6)]
        alone = [made.decode(words[:, i : i + 1], *encoded).numpy()[0, 0] for i in range(6)]
    agree(np.stack(kept), together, "one by one with a cache, and all at once")
    differ(np.stack(alone), together, "one by one without a cache")


@erratum(
    "004 training",
    "Z_{1,1} in R^{n x h d_v} and Y' in R^{n_input x d_model}: d_model columns, and n_output rows",
    r"Z_{1,1}\in\mathbb{R}^{n\times hd_v},\quad Y'\in\mathbb{R}^{n_{\text{input}}\times d_{\text{model}}}",
    r"Z_{1,1}\in\mathbb{R}^{n\times d_{\text{model}}},\quad Y'\in\mathbb{R}^{n_{\text{output}}\times d_{\text{model}}}",
)
def shapes_of_004():
    made = model(SMALL_004.replace(d_v=4))  # h d_v = 8, d_model = 6
    inputs, words = tokens(1, 5), tokens(1, 7, seed=1)
    with tinytensor.no_grad():
        Y = made.embed(words)
        Z = made.decoder[0].masked(Y, is_causal=True)
    d_model, wide = SMALL_004.d_model, SMALL_004.h * 4
    holds(Y.shape[1:] == (7, d_model) != (inputs.shape[1], d_model), f"Y' is n_output x d_model ({Y.shape[1:]})")
    holds(Z.shape[1:] == (7, d_model) != (7, wide), f"Z_{{1,1}} is n_output x d_model ({Z.shape[1:]}), after W^O")
    clash = clashes(lambda: Y.numpy()[0] + numbers(7, wide))
    return Evidence(text=f"printed: LayerNorm(Y' + Z_1,1) with h d_v columns: {clash}")


@erratum(
    "004 loss",
    'the cross-entropy is between Y_output and P, not "Y and P": the embedding Y has d_model columns',
    r"\text{the cross-entropy of}\ Y\ \text{and}\ P",
    r"\text{the cross-entropy of}\ Y_{\text{output}}\ \text{and}\ P",
)
def loss_of_004():
    made = model(SMALL_004)
    inputs, outputs = tokens(1, 5), tokens(1, 7, seed=1)
    logits, loss = made(inputs, outputs)
    P, Y = tinytensor.softmax(logits, -1).detach().numpy()[0], made.embed(outputs).detach().numpy()[0]
    clash = clashes(lambda: -(Y * np.log(P)).sum())
    Y_output = np.eye(SMALL_004.n_vol)[outputs.numpy()[0]]
    agree(loss.item(), -(Y_output * np.log(P)).sum(), "the sum over words of the cross-entropy of Y_output and P")
    return Evidence(text=f"printed: {clash}")


@erratum(
    "004 targets",
    "inference waits for a stop word that is in no target: every step of training makes it less likely",
    r"Y_{\text{output}}=(\text{i, am, a, student}),\quad\text{iterate until a stop sign}",
    r"Y_{\text{output}}=(\text{i, am, a, student, stop})",
)
def stop_word():
    made, inputs, words = model(SMALL_004), tokens(1, 5), tokens(1, 4, seed=1)
    holds((words.numpy() != STOP).all(), "no word of the printed target is the stop word")
    slopes = {}
    for name, outputs in (("printed", words), ("right", cat([words, tensor(np.array([[STOP]]))], 1))):
        made.zero_grad()
        logits, loss = made(inputs, outputs)
        loss.backward()
        slopes[name] = made.b_S.grad.numpy()[STOP]  # the derivative of the loss by the bias of the stop word's logit
        p = tinytensor.softmax(logits, -1).detach().numpy()[0, :, STOP]
        agree(
            slopes[name], (p - (outputs.numpy()[0] == STOP)).sum(), "it is p_i(stop), less 1 where stop is the target"
        )
    holds(slopes["printed"] > 0, "as printed it is a sum of probabilities, above 0 for all weights")
    holds(slopes["right"] < 0, "with the stop word at the end a step makes it likelier")
    return Evidence(
        latex=r"\frac{\partial L}{\partial b^S_{\text{stop}}}=\sum_i P_{i,\text{stop}}>0",
        text="\n".join(
            f"{name}: the derivative of the loss by the stop word's bias is {x:+.3f}" for name, x in slopes.items()
        ),
    )


@choice(
    "004 y_0",
    "a zero vector is no one-hot row; it is the row of no word, and its embedding is 0",
    r"y_0=0,\quad\text{each}\ y_k\ \text{a one-hot row}",
    r"y_0=0\quad\text{(a row of its own as an option)}",
)
def first_word():
    zero = np.zeros(SMALL_004.n_vol)
    one_hot = np.eye(SMALL_004.n_vol)
    holds(zero.sum() == 0 and (one_hot.sum(1) == 1).all(), "one-hot rows sum to 1, the zero vector to 0")
    begin = tensor(np.array([[BEGIN]]))
    table = positional_encoding(1, SMALL_004.d_model)
    as_printed, as_token = (
        model(SMALL_004.replace(begin=category)).embed(begin).detach().numpy()[0] for category in ("zero", "token")
    )
    agree(as_printed, table, "with y_0 = 0 only the position is left")
    differ(as_token, table, "a token of its own has an embedding")


@choice(
    "004 variables",
    "LayerNorm's parameters are not listed: gamma and delta add 10 N d_model",
    r"\mathrm{LayerNorm}:\ \text{no parameters are listed}",
    r"\gamma,\delta\in\mathbb{R}^{d_{\text{model}}}\ \text{in each of}\ 5N\ \text{norms}",
    size="any size",
    trusted=(SYMPY,),
)
def norm_parameters():
    affine = eq19.transformer(affine=True)
    eq19.require(eq19.transformer(affine=False), eq19.OF_004, "without them 004's list is complete")
    eq19.require(affine - eq19.OF_004, 10 * eq19.N * eq19.d_model, "with them")

"""The functions, as a user writes them; their arguments; where they come from; their gradients in words.

`TABLE` has an entry for each function. Below each function stands a gradient by hand with a mistake that people make:
`check` refutes it. There `g` is the gradient of the function's result.
"""

from collections.abc import Callable
from dataclasses import dataclass

import tinytensor as tt
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index


def layer_norm(x, w, b):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, unbiased=False, keepdim=True)
    z = (x - mean) / (var + 1e-5).sqrt()
    return z * w + b


def wrong_layer_norm(x, w, g):
    var = x.var(-1, unbiased=False, keepdim=True)
    return g * w / (var + 1e-5).sqrt()


def rms_norm(x, w):
    r = (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    return x * r * w


def wrong_rms_norm(x, w, g):
    r = (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    return r * (w * g - r**2 * x * (x * w * g).sum(-1, keepdim=True))


def swiglu(x, W, V):
    a = x @ W
    b = x @ V
    s = a.sigmoid()
    return a * s * b


def wrong_swiglu(x, W, V, g):
    a, b = x @ W, x @ V
    s = a.sigmoid()
    return x.mT @ (g * b * s * (1 - s))


def rotary(x, cos, sin):
    first, second = x.chunk(2, -1)
    return tt.cat([first * cos - second * sin, first * sin + second * cos], -1)


def wrong_rotary(cos, sin, g):
    first, second = g.chunk(2, -1)
    return tt.cat([first * cos - second * sin, first * sin + second * cos], -1)


def causal_attention(Q, K, V):
    T, d = Q.shape
    later = tt.ones(T, T).triu(1).bool()
    S = Q @ K.mT / d**0.5
    P = S.masked_fill(later, float("-inf")).softmax(-1)
    return P @ V


def wrong_causal_attention(Q, K, g):
    return (Q @ K.mT / Q.shape[1] ** 0.5).softmax(-1).mT @ g


def alibi_attention(Q, K, V, m):
    T, d = Q.shape
    later = tt.ones(T, T).triu(1).bool()
    i = tt.arange(T, dtype=Q.dtype)
    S = Q @ K.mT / d**0.5 - m * (i[:, None] - i)
    P = S.masked_fill(later, float("-inf")).softmax(-1)
    return P @ V


def wrong_alibi_attention(Q, K, m, g):
    T, d = Q.shape
    later = tt.ones(T, T).triu(1).bool()
    i = tt.arange(T, dtype=Q.dtype)
    S = Q @ K.mT / d**0.5 + m * (i[:, None] - i)
    P = S.masked_fill(later, float("-inf")).softmax(-1)
    return P.mT @ g


def focal_loss(x, t):
    q = x.softmax(-1)
    p = q[tt.arange(x.shape[0]), t]
    return -((1 - p) ** 2 * p.log()).mean()


def wrong_focal_loss(x, t):
    q = x.softmax(-1)
    p = q[tt.arange(x.shape[0]), t]
    return (1 - p[:, None]) ** 2 * (q - F.one_hot(t, x.shape[1])) / x.shape[0]


def info_nce(A, B):
    S = A @ B.mT / 0.07
    return F.cross_entropy(S, tt.arange(A.shape[0]))


def wrong_info_nce(A, B):
    N = A.shape[0]
    q = (A @ B.mT / 0.07).softmax(-1)
    return (q - tt.eye(N)) @ B / N


def dpo_loss(w, l, w_ref, l_ref):
    u = 0.1 * ((w - w_ref) - (l - l_ref))
    return -F.logsigmoid(u).mean()


def wrong_dpo_loss(w, l, w_ref, l_ref):
    u = 0.1 * ((w - w_ref) - (l - l_ref))
    return -0.1 * u.sigmoid() / u.shape[0]


def cosine_loss(p, z):
    return -F.cosine_similarity(p, z, dim=-1).mean()


def wrong_cosine_loss(p, z):
    return -z / (p.norm(dim=-1, keepdim=True) * z.norm(dim=-1, keepdim=True)) / p.shape[0]


def gru_cell(x, h, Wr, Ur, Wz, Uz, W, U):
    r = (x @ Wr + h @ Ur).sigmoid()
    z = (x @ Wz + h @ Uz).sigmoid()
    c = (x @ W + (r * h) @ U).tanh()
    return z * h + (1 - z) * c


def wrong_gru_cell(x, h, Wr, Ur, Wz, Uz, W, U, g):
    r = (x @ Wr + h @ Ur).sigmoid()
    z = (x @ Wz + h @ Uz).sigmoid()
    c = (x @ W + (r * h) @ U).tanh()
    return h.mT @ (g * (1 - z) * (1 - c**2))


def label_smoothing(x, t):
    return F.cross_entropy(x, t, label_smoothing=0.1)


def wrong_label_smoothing(x, t):
    return (x.softmax(-1) - 0.9 * F.one_hot(t, x.shape[1])) / x.shape[0]


def log_determinant(L):
    return 2 * L.diagonal().log().sum()


def wrong_log_determinant(L):
    return 2 / L


@dataclass(frozen=True)
class Entry:
    """A function; the sizes of its arguments; what it is, and where it is defined; its gradient in words.

    wrong: a gradient of `argument` by hand with a mistake; mistake: what is wrong in it.
    """

    title: str
    function: Callable
    arguments: dict[str, object]
    about: str
    source: str
    gradient: str
    argument: str
    wrong: Callable
    mistake: str


ENTRIES = [
    Entry(
        "Layer norm",
        layer_norm,
        {"x": ("N", "D"), "w": ("D",), "b": ("D",)},
        "Each row of x gets mean 0 and variance 1, and is then scaled by w and shifted by b.",
        "Ba, Kiros, Hinton: Layer Normalization, 2016, arXiv:1607.06450, equations (3) and (4).",
        "The gradient that reaches z loses its mean and its part along z, because a change of x in these two directions "
        "does not change z. What remains is divided by the standard deviation.",
        "x",
        wrong_layer_norm,
        "This gradient takes mean and variance for constants. They depend on x.",
    ),
    Entry(
        "RMSNorm",
        rms_norm,
        {"x": ("N", "D"), "w": ("D",)},
        "Each row of x is divided by the root of the mean of its squares, and scaled by w. No mean is subtracted.",
        "Zhang, Sennrich: Root Mean Square Layer Normalization, 2019, arXiv:1910.07467, equation (4).",
        "As in layer norm, the gradient loses its part along the row. The mean stays, because it was not subtracted.",
        "x",
        wrong_rms_norm,
        "The sum over the row should be a mean: the factor 1/D is missing in the second term.",
    ),
    Entry(
        "SwiGLU",
        swiglu,
        {"x": ("N", "D"), "W": ("D", "F"), "V": ("D", "F")},
        "A hidden layer with a gate: one product of matrices passes through a σ(a), the other one is multiplied to it.",
        "Shazeer: GLU Variants Improve Transformer, 2020, arXiv:2002.05202, equation (5), without biases and with β = 1.",
        "The branch b gets the gradient times the gate. The branch a gets it times the slope of a σ(a), which is "
        "σ (1 + a (1 − σ)).",
        "W",
        wrong_swiglu,
        "This is the slope of σ(a), and not that of a σ(a): the product rule was forgotten.",
    ),
    Entry(
        "Rotary embedding",
        rotary,
        {"x": ("T", "2*K"), "cos": ("T", "K"), "sin": ("T", "K")},
        "Pairs of entries of x are rotated by angles that grow with the position. Here a pair is an entry of the first "
        "half and one of the second half, as in the programs of many language models.",
        "Su et al.: RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021, arXiv:2104.09864, equation (34); "
        "there a pair is two neighbours.",
        "The gradient is rotated back, by the negative angle.",
        "x",
        wrong_rotary,
        "The gradient is rotated forward once more. The transpose of a rotation is the rotation by the negative angle.",
    ),
    Entry(
        "Causal attention",
        causal_attention,
        {"Q": ("T", "d"), "K": ("T", "d"), "V": ("T", "v")},
        "Each position takes an average of the values of all positions up to its own, with weights from a softmax.",
        "Vaswani et al.: Attention Is All You Need, 2017, arXiv:1706.03762, equation (1), with the mask of section 3.2.3.",
        "The weights P get the products of incoming gradients with values. The scores S get P times the difference "
        "between that and its mean under P. Then the rules of two products of matrices follow. A masked weight is 0, "
        "and so is its score's gradient.",
        "V",
        wrong_causal_attention,
        "The mask was forgotten in the backward pass.",
    ),
    Entry(
        "Attention with ALiBi",
        alibi_attention,
        {"Q": ("T", "d"), "K": ("T", "d"), "V": ("T", "v"), "m": ()},
        "Causal attention whose scores fall with the distance, by the slope m. It needs no embedding of positions.",
        "Press, Smith, Lewis: Train Short, Test Long, 2021, arXiv:2108.12409, section 3.",
        "As in causal attention, since the distance is a constant. If the slope is learned, its gradient is the sum of "
        "the scores' gradients, each times the negative distance.",
        "V",
        wrong_alibi_attention,
        "The sign of the slope is wrong, so that distant positions get the larger weights.",
    ),
    Entry(
        "Focal loss",
        focal_loss,
        {"x": ("N", "K"), "t": Index(("N",), "K")},
        "Cross-entropy in which examples that are already classified well count less: the factor (1 − p)^γ, with γ = 2.",
        "Lin et al.: Focal Loss for Dense Object Detection, 2017, arXiv:1708.02002, equation (4), with γ = 2.",
        "The difference between probabilities and targets, as in cross-entropy, times a number for each example. The "
        "number has two terms, since p stands in the factor and in the logarithm.",
        "x",
        wrong_focal_loss,
        "The factor (1 − p)² is taken for a constant. It depends on x, too.",
    ),
    Entry(
        "InfoNCE",
        info_nce,
        {"A": ("N", "D"), "B": ("N", "D")},
        "Row n of A belongs to row n of B, and shall be more similar to it than to all other rows: cross-entropy over "
        "the similarities, divided by the temperature 0.07.",
        "van den Oord, Li, Vinyals: Representation Learning with Contrastive Predictive Coding, 2018, arXiv:1807.03748, "
        "equation (4); the temperature is that of Wu et al., 2018, arXiv:1805.01978.",
        "Softmax minus the identity, over N, goes back through the product of matrices and the temperature.",
        "A",
        wrong_info_nce,
        "The division by the temperature was forgotten.",
    ),
    Entry(
        "DPO",
        dpo_loss,
        {"w": ("N",), "l": ("N",), "w_ref": ("N",), "l_ref": ("N",)},
        "Direct preference optimization: w and l are log-probabilities of the preferred and of the other answer, w_ref "
        "and l_ref those of the reference model; β = 0.1.",
        "Rafailov et al.: Direct Preference Optimization, 2023, arXiv:2305.18290, equation (7).",
        "The preferred answer is pushed up and the other one down by the same amount: β times the probability σ(−u) "
        "with which the model now orders the pair wrongly.",
        "w",
        wrong_dpo_loss,
        "σ(u) stands for σ(−u): the pairs that the model orders well would be pushed most.",
    ),
    Entry(
        "Cosine similarity loss",
        cosine_loss,
        {"p": ("N", "D"), "z": ("N", "D")},
        "The negative cosine of the angle between two rows, as a mean over all pairs of rows.",
        "Chen, He: Exploring Simple Siamese Representation Learning, 2020, arXiv:2011.10566, equation (1).",
        "The other vector without its part along this one, divided by both lengths: only the direction matters.",
        "p",
        wrong_cosine_loss,
        "The length of p is taken for a constant. It depends on p.",
    ),
    Entry(
        "GRU cell",
        gru_cell,
        {
            "x": ("N", "D"), "h": ("N", "H"),
            "Wr": ("D", "H"), "Ur": ("H", "H"), "Wz": ("D", "H"), "Uz": ("H", "H"), "W": ("D", "H"), "U": ("H", "H"),
        },
        "One step of a recurrent network: the gate r says how much of the old state the candidate c sees, and the gate "
        "z how much of the old state stays.",
        "Cho et al.: Learning Phrase Representations using RNN Encoder–Decoder, 2014, arXiv:1406.1078, equations (5) to "
        "(8).",
        "Four paths lead back to h: through z h, through both gates, and through r h in the candidate.",
        "U",
        wrong_gru_cell,
        "U is multiplied by r h, and not by h.",
    ),
    Entry(
        "Label smoothing",
        label_smoothing,
        {"x": ("N", "K"), "t": Index(("N",), "K")},
        "Cross-entropy with targets that are no longer 0 and 1: the right class gets 0.9, and 0.1 is shared by all K.",
        "Szegedy et al.: Rethinking the Inception Architecture for Computer Vision, 2015, arXiv:1512.00567, section 7.",
        "As in cross-entropy: softmax minus the targets, over N. The targets are the smoothed ones.",
        "x",
        wrong_label_smoothing,
        "The share of 0.1/K of each class is missing.",
    ),
    Entry(
        "Log-determinant from a Cholesky factor",
        log_determinant,
        {"L": ("D", "D")},
        "If A = L Lᵀ, and L is lower triangular with positive entries on its diagonal, this is the logarithm of A's "
        "determinant.",
        "Rasmussen, Williams: Gaussian Processes for Machine Learning, 2006, appendix A.4.",
        "Only the diagonal of L has a gradient: 2 over the entry.",
        "L",
        wrong_log_determinant,
        "Entries off the diagonal have a gradient here. The function does not depend on them.",
    ),
]  # fmt: skip
TABLE = {entry.function.__name__: entry for entry in ENTRIES}

"""The functions, as a user writes them; their arguments; where they come from; their gradients in words.

`TABLE` has an entry for each function. Below each function stands a gradient by hand with a mistake that people make:
`check` refutes it. There `g` is the gradient of the function's result. The last three entries have a Hessian or a
Jacobian in place of a gradient.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import tinytensor as tt
from tinytensor import linalg
from tinytensor.nn import functional as F
from tinytensor.symbolic import Check, Derivation, Hessian, Index, Jacobian, check, derive, positive_definite


def layer_norm(x, w, b):
    mu = x.mean(-1, keepdim=True)
    var = x.var(-1, keepdim=True, correction=0)
    r = (var + 1e-5).rsqrt()
    z = (x - mu) * r
    return z * w + b


def wrong_layer_norm(x, w, g):
    r = (x.var(-1, keepdim=True, correction=0) + 1e-5).rsqrt()
    return r * w * g


def rms_norm(x, w):
    r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    z = x * r
    return z * w


def wrong_rms_norm(x, w, g):
    r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    z = x * r
    return r * (w * g - z * (z * w * g).sum(-1, keepdim=True))


def swiglu(x, W, V, U):
    return (F.silu(x @ W) * (x @ V)) @ U


def wrong_swiglu(x, W, V, U, g):
    s = (x @ W).sigmoid()
    return x.T @ (s * (1 - s) * (x @ V) * (g @ U.T))


def rotary(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return tt.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def wrong_rotary(cos, sin, g):
    a, b = g[..., ::2], g[..., 1::2]
    return tt.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def causal(Q, K, V):
    T = Q.shape[0]
    S = Q @ K.T / math.sqrt(Q.shape[-1])
    P = S.masked_fill(tt.ones(T, T, dtype=tt.bool).triu(1), -math.inf).softmax(-1)
    return P @ V


def wrong_causal(Q, K, g):
    P = (Q @ K.T / math.sqrt(Q.shape[-1])).softmax(-1)
    return P.T @ g


def alibi(Q, K, V, m):
    T = Q.shape[0]
    i = tt.arange(T, dtype=tt.float64)
    S = Q @ K.T / math.sqrt(Q.shape[-1]) + m * (i - i[:, None])
    S = S.masked_fill(tt.ones(T, T, dtype=tt.bool).triu(1), -math.inf)
    P = F.softmax(S, -1)
    return P @ V


def wrong_alibi(Q, K, m, g):
    T = Q.shape[0]
    i = tt.arange(T, dtype=tt.float64)
    S = Q @ K.T / math.sqrt(Q.shape[-1]) + m * (i[:, None] - i)
    S = S.masked_fill(tt.ones(T, T, dtype=tt.bool).triu(1), -math.inf)
    return F.softmax(S, -1).T @ g


def focal(z, t):
    logp = F.log_softmax(z, -1)[tt.arange(z.shape[0]), t]
    p = logp.exp()
    return -((1 - p) ** 2 * logp).mean()


def wrong_focal(z, t):
    logq = F.log_softmax(z, -1)
    p = logq[tt.arange(z.shape[0]), t].exp()
    return (1 - p[:, None]) ** 2 * (logq.exp() - F.one_hot(t, z.shape[-1])) / z.shape[0]


def infonce(q, k):
    q = F.normalize(q, dim=-1)
    k = F.normalize(k, dim=-1)
    S = q @ k.T / 0.07
    return F.cross_entropy(S, tt.arange(q.shape[0]))


def wrong_infonce(q, k):
    N = q.shape[0]
    r = q.norm(dim=-1, keepdim=True)
    q, k = q / r, F.normalize(k, dim=-1)
    P = (q @ k.T / 0.07).softmax(-1)
    return (P - tt.eye(N)) @ k / (0.07 * N * r)


def dpo(win, lose, win0, lose0):
    return -F.logsigmoid(0.1 * ((win - win0) - (lose - lose0))).mean()


def wrong_dpo(win, lose, win0, lose0):
    a = 0.1 * ((win - win0) - (lose - lose0))
    return -0.1 * a.sigmoid() / a.shape[0]


def cosine(a, b):
    c = (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))
    return 1 - c.mean()


def wrong_cosine(a, b):
    return -b / (a.norm(dim=-1, keepdim=True) * b.norm(dim=-1, keepdim=True)) / a.shape[0]


def gru(x, h, Wz, Uz, bz, Wr, Ur, br, Wn, Un, bn):
    z = (x @ Wz + h @ Uz + bz).sigmoid()
    r = (x @ Wr + h @ Ur + br).sigmoid()
    n = (x @ Wn + (r * h) @ Un + bn).tanh()
    return (1 - z) * n + z * h


def wrong_gru(x, h, Wz, Uz, bz, g):
    z = (x @ Wz + h @ Uz + bz).sigmoid()
    return x.T @ ((1 - z) * g)


def rnn(x, h0, W, U, b):
    h, states = h0, []
    for t in range(x.shape[0]):
        h = (x[t] @ W + h @ U + b).tanh()
        states.append(h)
    return tt.stack(states)


def wrong_rnn(x, h0, W, U, b, g):
    states = [h0]
    for t in range(x.shape[0]):
        states.append((x[t] @ W + states[-1] @ U + b).tanh())
    dU = tt.zeros_like(U)
    for t in range(x.shape[0]):
        dU = dU + states[t][:, None] * ((1 - states[t + 1] ** 2) * g[t])
    return dU


def lstm(x, h0, c0, Wi, Ui, Wf, Uf, Wo, Uo, Wg, Ug):
    h, c = h0, c0
    for t in range(x.shape[0]):
        i = (x[t] @ Wi + h @ Ui).sigmoid()
        f = (x[t] @ Wf + h @ Uf).sigmoid()
        o = (x[t] @ Wo + h @ Uo).sigmoid()
        u = (x[t] @ Wg + h @ Ug).tanh()
        c = f * c + i * u
        h = o * c.tanh()
    return h


def wrong_lstm(x, h0, c0, Wi, Ui, Wf, Uf, Wo, Uo, Wg, Ug, g):
    h, c, forgets = h0, c0, []
    for t in range(x.shape[0]):
        i = (x[t] @ Wi + h @ Ui).sigmoid()
        f = (x[t] @ Wf + h @ Uf).sigmoid()
        o = (x[t] @ Wo + h @ Uo).sigmoid()
        u = (x[t] @ Wg + h @ Ug).tanh()
        c = f * c + i * u
        h = o * c.tanh()
        forgets.append(f)
    dc = g * o * (1 - c.tanh() ** 2)
    for f in reversed(forgets):
        dc = f * dc
    return dc


def linear_attention(q, k, v):
    S, rows = tt.zeros(k.shape[1], v.shape[1], dtype=tt.float64), []
    for t in range(q.shape[0]):
        S = S + k[t][:, None] * v[t]
        rows.append(q[t] @ S)
    return tt.stack(rows)


def wrong_linear_attention(q, k, g):
    return k @ (q.T @ g)


def unrolled_descent(w, X, y, rates):
    for k in range(rates.shape[0]):
        w = w - rates[k] * (X.T @ (X @ w - y)) / X.shape[0]
    return ((X @ w - y) ** 2).mean()


def wrong_unrolled_descent(w, X, y, rates):
    for k in range(rates.shape[0]):
        w = w - rates[k] * (X.T @ (X @ w - y)) / X.shape[0]
    return 2 * X.T @ (X @ w - y) / X.shape[0]


def convolution(x, w):
    return F.conv1d(x, w)


def wrong_convolution(x, w, g):
    K = w.shape[-1]
    terms = [tt.einsum("not,nct->oc", g, x[..., K - 1 - k : x.shape[-1] - k]) for k in range(K)]
    return tt.stack(terms, -1)


def smoothing(z, t):
    return F.cross_entropy(z, t, label_smoothing=0.1)


def wrong_smoothing(z, t):
    return (z.softmax(-1) - 0.9 * F.one_hot(t, z.shape[-1])) / z.shape[0]


def log_determinant(L):
    return 2 * L.diagonal().log().sum()


def wrong_log_determinant(L):
    return 2 / L


def log_det(A):
    return tt.logdet(A)


def wrong_log_det(A):
    return linalg.inv(A)


def inverse(A):
    return linalg.inv(A)


def wrong_inverse(A, g):
    return -linalg.inv(A) @ g @ linalg.inv(A)


def gaussian(x, m, S):
    d = x - m
    return -0.5 * (d @ linalg.solve(S, d)) - 0.5 * tt.logdet(S) - 0.5 * len(x) * math.log(2 * math.pi)


def wrong_gaussian(x, m, S):
    d = x - m
    return linalg.inv(S) @ tt.outer(d, d) @ linalg.inv(S) - linalg.inv(S)


def quadratic(x, A):
    return x @ A @ x


def wrong_quadratic(x, A):
    return 2 * A @ x


def trace_of_product(A, X, B):
    return tt.trace(A @ X @ B)


def wrong_trace_of_product(A, B):
    return A @ B


def ridge(X, y, lam):
    w = linalg.solve(X.T @ X + lam * tt.eye(X.shape[1], dtype=tt.float64), X.T @ y)
    return ((X @ w - y) ** 2).sum() + lam * (w * w).sum()


def wrong_ridge(X, y, lam):
    w = linalg.solve(X.T @ X + lam * tt.eye(X.shape[1], dtype=tt.float64), X.T @ y)
    return 2 * lam * (w * w).sum()


def logistic(X, w, y):
    A = X @ w
    return F.binary_cross_entropy_with_logits(A, y)


def wrong_logistic(X, w):
    p = (X @ w).sigmoid()
    return X.T @ (p * (1 - p)).diag() @ X


def softmax_loss(z, t):
    return F.cross_entropy(z, t)


def wrong_softmax_loss(z, N, K):
    q = z.softmax(-1)
    rows, classes = tt.eye(N, dtype=z.dtype), tt.eye(K, dtype=z.dtype)
    return tt.einsum("nm,ni,ik->nimk", rows, q, classes) / N


def softmax(x):
    return x.softmax(-1)


def wrong_softmax(x):
    q = x.softmax(-1)
    return (q * (1 - q)).diag()


LIMIT = 120.0  # seconds of computing for a derivation: the longest takes 30 on a slow machine


@dataclass(frozen=True)
class Entry:
    """A function; the sizes of its arguments; what it is, and where it is defined; its gradient in words.

    wrong: a gradient of `argument` by hand with a mistake; mistake: what is wrong in it. question: what people ask, to
    which the gradient is the answer. where: facts about the arguments, and options: those of `derive`, order=2 for a
    Hessian and jacobian=True for a Jacobian; `wrong` is then the block by `argument`.
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
    question: str = ""
    where: tuple = ()
    options: dict[str, object] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """What is derived: the gradient, the Hessian or the Jacobian."""
        return (
            "Jacobian" if self.options.get("jacobian") else "Hessian" if self.options.get("order") == 2 else "gradient"
        )

    @property
    def by_hand(self) -> dict[str, object]:
        """The wrong one as an argument of `check`."""
        keyword = {"gradient": "by_hand", "Hessian": "hessian", "Jacobian": "jacobian"}[self.what]
        return {keyword: {self.argument: self.wrong}}

    def derived(self, limit: float | None = LIMIT) -> Derivation | Hessian | Jacobian:
        """The derivation."""
        return derive(self.function, self.where, limit, **self.options, **self.arguments)

    def checked(self, derivation: Derivation | Hessian | Jacobian, limit: float | None = LIMIT) -> Check:
        """The verdict on the wrong one, beside the derivation of the right one."""
        return check(derivation.derivation, **self.by_hand, limit=limit)


def is_late(derivation: Derivation | Hessian | Jacobian) -> bool:
    """Was it ended by its limit, with nothing wrong until then?"""
    return bool(derivation.stopped) and not derivation.differs


ENTRIES = [
    Entry(
        title="Layer norm",
        function=layer_norm,
        arguments={"x": ("N", "D"), "w": ("D",), "b": ("D",)},
        about="Each row of x gets mean 0 and variance 1, and is then scaled by w and shifted by b.",
        source="Ba, Kiros, Hinton: Layer Normalization, 2016, arXiv:1607.06450, equations (3) and (4).",
        gradient=(
            "The gradient that reaches z loses its mean and its part along z, because a change of x in these two "
            "directions does not change z. What remains is divided by the standard deviation."
        ),
        argument="x",
        wrong=wrong_layer_norm,
        mistake="This gradient takes mean and variance for constants. They depend on x.",
    ),
    Entry(
        title="RMSNorm",
        function=rms_norm,
        arguments={"x": ("N", "D"), "w": ("D",)},
        about=(
            "Each row of x is divided by the root of the mean of its squares, and scaled by w. No mean is subtracted."
        ),
        source="Zhang, Sennrich: Root Mean Square Layer Normalization, 2019, arXiv:1910.07467, equation (4).",
        gradient=(
            "As in layer norm, the gradient loses its part along the row. The mean stays, because it was not "
            "subtracted."
        ),
        argument="x",
        wrong=wrong_rms_norm,
        mistake="The sum over the row should be a mean: the factor 1/D is missing in the second term.",
    ),
    Entry(
        title="SwiGLU",
        function=swiglu,
        arguments={"x": ("N", "D"), "W": ("D", "F"), "V": ("D", "F"), "U": ("F", "D")},
        about="A feed-forward layer with a gate: x W passes through silu, a σ(a), and is multiplied by x V.",
        source="Shazeer: GLU Variants Improve Transformer, 2020, arXiv:2002.05202, equation (6).",
        gradient=(
            "The gradient of the hidden layer goes to x V times silu(x W), and to x W times x V and the slope of "
            "silu, which is σ (1 + a (1 − σ)) at a."
        ),
        argument="W",
        wrong=wrong_swiglu,
        mistake="This is the slope of σ(a), and not that of a σ(a): the product rule was forgotten.",
    ),
    Entry(
        title="Rotary embedding",
        function=rotary,
        arguments={"x": ("T", "K*2"), "cos": ("T", "K"), "sin": ("T", "K")},
        about=(
            "Pairs of neighbours in a row of x are rotated, each by an angle of its own that grows with the position."
        ),
        source=(
            "Su et al.: RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021, arXiv:2104.09864, "
            "equation (34)."
        ),
        gradient="The gradient is rotated back, by the negative angle.",
        argument="x",
        wrong=wrong_rotary,
        mistake=(
            "The gradient is rotated forward once more. The transpose of a rotation is the rotation by the negative "
            "angle."
        ),
    ),
    Entry(
        title="Causal attention",
        function=causal,
        arguments={"Q": ("T", "d"), "K": ("T", "d"), "V": ("T", "v")},
        about=(
            "Each position takes an average of the values of all positions up to its own, with weights from a softmax."
        ),
        source=(
            "Vaswani et al.: Attention Is All You Need, 2017, arXiv:1706.03762, equation (1), with the mask of "
            "section 3.2.3."
        ),
        gradient=(
            "The weights P get the products of incoming gradients with values. The scores S get P times the "
            "difference between that and its mean under P. Then the rules of two products of matrices follow. A "
            "masked weight is 0, and so is its score's gradient."
        ),
        argument="V",
        wrong=wrong_causal,
        mistake="The mask was forgotten in the backward pass.",
    ),
    Entry(
        title="Attention with ALiBi",
        function=alibi,
        arguments={"Q": ("T", "d"), "K": ("T", "d"), "V": ("T", "v"), "m": ()},
        about=(
            "Causal attention whose scores fall with the distance, by the slope m. It needs no embedding of positions."
        ),
        source="Press, Smith, Lewis: Train Short, Test Long, 2021, arXiv:2108.12409, section 3.",
        gradient=(
            "As in causal attention, since the distance is a constant. If the slope is learned, its gradient is the "
            "sum of the scores' gradients, each times the negative distance."
        ),
        argument="V",
        wrong=wrong_alibi,
        mistake="The sign of the slope is wrong, so that distant positions get the larger weights.",
    ),
    Entry(
        title="Focal loss",
        function=focal,
        arguments={"z": ("N", "K"), "t": Index(("N",), "K")},
        about=(
            "Cross-entropy in which examples that are already classified well count less: the factor (1 − p)^γ, with "
            "γ = 2."
        ),
        source="Lin et al.: Focal Loss for Dense Object Detection, 2017, arXiv:1708.02002, equation (4), with γ = 2.",
        gradient=(
            "The difference between probabilities and targets, as in cross-entropy, times a number for each example. "
            "The number has two terms, since p stands in the factor and in the logarithm."
        ),
        argument="z",
        wrong=wrong_focal,
        mistake="The factor (1 − p)² is taken for a constant. It depends on z, too.",
    ),
    Entry(
        title="InfoNCE",
        function=infonce,
        arguments={"q": ("N", "D"), "k": ("N", "D")},
        about=(
            "Row n of q belongs to row n of k, and should be more similar to it than to all other rows: cross-entropy "
            "over the cosines, divided by the temperature 0.07."
        ),
        source=(
            "van den Oord, Li, Vinyals: Representation Learning with Contrastive Predictive Coding, 2018, "
            "arXiv:1807.03748, equation (4); cosine and temperature as in Chen et al.: SimCLR, 2020, "
            "arXiv:2002.05709, equation (1)."
        ),
        gradient=(
            "Softmax minus the identity, over N, goes back through the temperature and the product of matrices. Then "
            "each row loses its part along the vector itself, since only the direction matters."
        ),
        argument="q",
        wrong=wrong_infonce,
        mistake="The length of q is taken for a constant. It depends on q.",
    ),
    Entry(
        title="DPO",
        function=dpo,
        arguments={"win": ("N",), "lose": ("N",), "win0": ("N",), "lose0": ("N",)},
        about=(
            "Direct preference optimization: win and lose are log-probabilities of the preferred and of the other "
            "answer, win0 and lose0 those of the reference model; β = 0.1."
        ),
        source="Rafailov et al.: Direct Preference Optimization, 2023, arXiv:2305.18290, equation (7).",
        gradient=(
            "The preferred answer is pushed up and the other one down by the same amount: β times the probability "
            "σ(−a) with which the model now orders the pair wrongly."
        ),
        argument="win",
        wrong=wrong_dpo,
        mistake="σ(a) stands for σ(−a): the pairs that the model orders well would be pushed most.",
    ),
    Entry(
        title="Cosine similarity loss",
        function=cosine,
        arguments={"a": ("N", "D"), "b": ("N", "D")},
        about="One minus the cosine of the angle between row n of a and row n of b, as a mean over all n.",
        source=(
            "Chen, He: Exploring Simple Siamese Representation Learning, 2020, arXiv:2011.10566, equation (1), "
            "without the one."
        ),
        gradient=(
            "The other vector without its part along this one, divided by both lengths: only the direction matters."
        ),
        argument="a",
        wrong=wrong_cosine,
        mistake="The length of a is taken for a constant. It depends on a.",
    ),
    Entry(
        title="GRU cell",
        function=gru,
        arguments={"x": ("N", "D"), "h": ("N", "H")}
        | {f"{a}{gate}": s for gate in "zrn" for a, s in {"W": ("D", "H"), "U": ("H", "H"), "b": ("H",)}.items()},
        about=(
            "One step of a recurrent network: the gate r says how much of the old state the candidate n sees, and the "
            "gate z how much of the old state stays."
        ),
        source=(
            "Cho et al.: Learning Phrase Representations using RNN Encoder–Decoder, 2014, arXiv:1406.1078, equations "
            "(5) to (8), with biases."
        ),
        gradient="Four paths lead back to h: through z h, through both gates, and through r h in the candidate.",
        argument="Wn",
        wrong=wrong_gru,
        mistake="The slope of tanh, 1 − n², was forgotten.",
    ),
    Entry(
        title="Recurrent network: backpropagation through time",
        function=rnn,
        arguments={"x": ("T", "D"), "h0": ("K",), "W": ("D", "K"), "U": ("K", "K"), "b": ("K",)},
        about=(
            "A state h is computed anew at each time from an input and from the state before, by the same weights. The "
            "loop has as many steps as x has rows."
        ),
        source=(
            "Elman: Finding Structure in Time, 1990, Cognitive Science 14; Werbos: Backpropagation Through Time, 1990, "
            "Proceedings of the IEEE 78."
        ),
        gradient=(
            "The gradient is a recurrence, too, and runs backward: δ_t is what reaches the state at t through later "
            "states. It begins with 0 after the last step, and each step back multiplies what has arrived by the slope "
            "of tanh and by U transposed. A weight's gradient is the sum of its gradients at all times."
        ),
        argument="U",
        wrong=wrong_rnn,
        mistake="The gradient goes back one step only: what reaches a state through later states is missing.",
        question="How does the gradient go back through all steps of a recurrent network?",
    ),
    Entry(
        title="LSTM",
        function=lstm,
        arguments={"x": ("T", "D"), "h0": ("K",), "c0": ("K",)}
        | {f"{a}{gate}": s for gate in "ifog" for a, s in {"W": ("D", "K"), "U": ("K", "K")}.items()},
        about=(
            "A recurrent network with two states. The cell c forgets by the gate f and is written to by the gate i; "
            "the gate o says how much of it the output h shows."
        ),
        source=(
            "Hochreiter, Schmidhuber: Long Short-Term Memory, 1997, Neural Computation 9; with the forget gate of "
            "Gers, Schmidhuber, Cummins, 2000, Neural Computation 12; without biases."
        ),
        gradient=(
            "Two recurrences run backward. δc goes from c to the c before it by a product with f alone, without a "
            "matrix: where f is near 1, it neither vanishes nor grows. δh collects what the four gates send back."
        ),
        argument="c0",
        wrong=wrong_lstm,
        mistake="The product of the forget gates alone: the cell also acts through h on all later gates.",
        question="What are the gradients of an LSTM's weights over a whole sequence?",
    ),
    Entry(
        title="Linear attention",
        function=linear_attention,
        arguments={"q": ("T", "K"), "k": ("T", "K"), "v": ("T", "V")},
        about=(
            "Attention without a softmax, as a recurrence: the state S is the sum of the products of keys and values "
            "up to now, and a query reads from it."
        ),
        source=(
            "Katharopoulos et al.: Transformers are RNNs, 2020, arXiv:2006.16236, section 3.4, without the "
            "normalizer and with the identity as feature map."
        ),
        gradient=(
            "The state's gradient is a sum from the end: at time t it holds the products of all later queries with "
            "their gradients. A value gets its key's row of it."
        ),
        argument="v",
        wrong=wrong_linear_attention,
        mistake="Queries before the value count, too: the order in time was forgotten.",
        question="How is linear attention, as a recurrence of states, differentiated?",
    ),
    Entry(
        title="Gradient descent, unrolled",
        function=unrolled_descent,
        arguments={"w": ("D",), "X": ("N", "D"), "y": ("N",), "rates": ("K",)},
        about=(
            "The loss of least squares after K steps of gradient descent from w, each with a rate of its own: what "
            "meta-learning and the tuning of rates differentiate."
        ),
        source=(
            "Maclaurin, Duvenaud, Adams: Gradient-based Hyperparameter Optimization through Reversible Learning, 2015, "
            "arXiv:1502.03492, section 2; Finn, Abbeel, Levine: MAML, 2017, arXiv:1703.03400, section 2.2."
        ),
        gradient=(
            "δ_t runs backward through the steps, each of which multiplies it by the identity minus the rate times the "
            "Hessian, XᵀX/N. A rate's gradient is minus the product of the gradient of its step with δ_t."
        ),
        argument="w",
        wrong=wrong_unrolled_descent,
        mistake="The gradient at the last w: the steps before it are taken for the identity.",
        question="How do I differentiate through K steps of gradient descent?",
    ),
    Entry(
        title="Convolution",
        function=convolution,
        arguments={"x": ("N", "C", "L"), "w": ("O", "C", "K")},
        about="Each window of K places of x, in all channels, is multiplied by the kernel and summed.",
        source="LeCun et al.: Backpropagation Applied to Handwritten Zip Code Recognition, 1989, Neural Computation 1.",
        gradient=(
            "The kernel's gradient is a convolution of x with the incoming gradient. x gets a sum over the windows in "
            "which it stands: a convolution with the flipped kernel."
        ),
        argument="w",
        wrong=wrong_convolution,
        mistake="The kernel is flipped. That belongs to the gradient of x.",
        question="What is the gradient of a convolution by its input, and by its kernel?",
    ),
    Entry(
        title="Label smoothing",
        function=smoothing,
        arguments={"z": ("N", "K"), "t": Index(("N",), "K")},
        about=(
            "Cross-entropy with targets that are no longer 0 and 1: the right class gets 0.9, and 0.1 is shared by "
            "all K."
        ),
        source=(
            "Szegedy et al.: Rethinking the Inception Architecture for Computer Vision, 2015, arXiv:1512.00567, "
            "section 7."
        ),
        gradient="As in cross-entropy: softmax minus the targets, over N. The targets are the smoothed ones.",
        argument="z",
        wrong=wrong_smoothing,
        mistake="The share of 0.1/K of each class is missing.",
    ),
    Entry(
        title="Log-determinant from a Cholesky factor",
        function=log_determinant,
        arguments={"L": ("D", "D")},
        about=(
            "If A = L Lᵀ, and L is lower triangular with positive entries on its diagonal, this is the logarithm of "
            "A's determinant."
        ),
        source="Rasmussen, Williams: Gaussian Processes for Machine Learning, 2006, appendix A.4.",
        gradient="Only the diagonal of L has a gradient: 2 over the entry.",
        argument="L",
        wrong=wrong_log_determinant,
        mistake="Entries off the diagonal have a gradient here. The function does not depend on them.",
    ),
    Entry(
        title="Log determinant",
        function=log_det,
        arguments={"A": ("D", "D")},
        about="The logarithm of the determinant of a matrix, such as in a Gaussian's density or a normalizing flow.",
        source="Petersen, Pedersen: The Matrix Cookbook, 2012, equation (57).",
        gradient="The inverse, transposed. Only for a symmetric matrix the transposition changes nothing.",
        argument="A",
        wrong=wrong_log_det,
        mistake="The transposition is missing. A is not symmetric here.",
        question="Is the derivative of log det A the inverse of A, or its transpose?",
    ),
    Entry(
        title="Inverse of a matrix",
        function=inverse,
        arguments={"A": ("D", "D")},
        about="The inverse of a square matrix, and how a gradient goes back through it.",
        source="Petersen, Pedersen: The Matrix Cookbook, 2012, equation (59).",
        gradient=(
            "From A A⁻¹ = I follows dA⁻¹ = −A⁻¹ dA A⁻¹. So the gradient that arrives stands between two inverses, both "
            "transposed, with a minus."
        ),
        argument="A",
        wrong=wrong_inverse,
        mistake="The inverses are those of the forward direction, dA⁻¹; on the way back both are transposed.",
        question="How do I differentiate through the inverse of a matrix?",
    ),
    Entry(
        title="Gaussian log density",
        function=gaussian,
        arguments={"x": ("D",), "m": ("D",), "S": ("D", "D")},
        about="The logarithm of the density of a normal distribution with mean m and covariance S, at x.",
        source="Bishop: Pattern Recognition and Machine Learning, 2006, equations (2.43) and (C.28).",
        gradient=(
            "With Z = S⁻¹ (x − m), the gradient of the mean is Z, and that of the covariance half of Z Zᵀ − S⁻¹. Its "
            "mean over data is 0 where S is the mean of (x − m)(x − m)ᵀ."
        ),
        argument="S",
        wrong=wrong_gaussian,
        mistake="The factor 1/2 is missing: it stands in front of both terms of the density.",
        question="What is the gradient of the multivariate normal log likelihood with respect to mean and covariance?",
        where=(positive_definite("S"),),
    ),
    Entry(
        title="Quadratic form",
        function=quadratic,
        arguments={"x": ("D",), "A": ("D", "D")},
        about="xᵀ A x for any square matrix A, which need not be symmetric.",
        source="Petersen, Pedersen: The Matrix Cookbook, 2012, equation (81).",
        gradient="(A + Aᵀ) x: x stands in two places. Only for a symmetric A this is 2 A x.",
        argument="x",
        wrong=wrong_quadratic,
        mistake="2 A x holds for a symmetric A alone.",
        question="Is the gradient of xᵀ A x equal to 2 A x, or to (A + Aᵀ) x?",
    ),
    Entry(
        title="Trace of a product",
        function=trace_of_product,
        arguments={"A": ("D", "D"), "X": ("D", "D"), "B": ("D", "D")},
        about="tr(A X B): each function that is linear in a matrix X has this form, or is a sum of such.",
        source="Petersen, Pedersen: The Matrix Cookbook, 2012, equation (101).",
        gradient="The other factors in a circle, transposed: tr(A X B) = tr(B A X), so the gradient is (B A)ᵀ = Aᵀ Bᵀ.",
        argument="X",
        wrong=wrong_trace_of_product,
        mistake="Both transpositions are missing.",
        question="What is the derivative of tr(A X B) with respect to X?",
    ),
    Entry(
        title="Ridge regression, by its penalty",
        function=ridge,
        arguments={"X": ("N", "D"), "y": ("N",), "lam": ()},
        about=(
            "The smallest value of ‖X w − y‖² + λ ‖w‖², at w = (Xᵀ X + λ I)⁻¹ Xᵀ y, as a function of the data and of λ."
        ),
        source="Hastie, Tibshirani, Friedman: The Elements of Statistical Learning, 2009, equation (3.44).",
        gradient=(
            "The gradient by λ is ‖w‖², as if w did not depend on λ: at a minimum a change of w does not count. The "
            "proof finds this by (Xᵀ X + λ I) w = Xᵀ y."
        ),
        argument="lam",
        wrong=wrong_ridge,
        mistake="This is the derivative of λ² ‖w‖² with a constant w.",
        question="How does the loss of ridge regression change with λ?",
    ),
    Entry(
        title="The Hessian of logistic regression",
        function=logistic,
        arguments={"X": ("N", "D"), "w": ("D",), "y": ("N",)},
        about="Two classes y, 0 and 1, and the scores X w: the mean of the cross-entropies, differentiated twice by w.",
        source="Bishop: Pattern Recognition and Machine Learning, 2006, section 4.3.3, with a mean in place of a sum.",
        gradient=(
            "The gradient is Xᵀ (p − y)/N with p = σ(X w). The slope of σ is p (1 − p), so the second derivatives are "
            "Xᵀ diag(p (1 − p)) X/N. They do not depend on the targets, and no eigenvalue is negative: the loss is "
            "convex in w. Newton's method with this matrix is called iteratively reweighted least squares"
        ),
        argument="w",
        wrong=wrong_logistic,
        mistake="The loss is a mean over N examples, so that its Hessian is one, too: the factor 1/N is missing.",
        question="What is the Hessian of the logistic loss?",
        options={"order": 2, "wrt": "w"},
    ),
    Entry(
        title="The Hessian of softmax cross-entropy",
        function=softmax_loss,
        arguments={"z": ("N", "K"), "t": Index(("N",), "K")},
        about="Cross-entropy of K classes as a function of the logits z. Its second derivatives by z.",
        source="Bishop: Pattern Recognition and Machine Learning, 2006, section 4.3.4, for the logits.",
        gradient=(
            "The gradient is (q − onehot(t))/N with q = softmax(z). The targets are constant: what remains is the "
            "Jacobian of softmax, (diag(q) − q qᵀ)/N for each row. Different rows do not meet: δ(j, n)"
        ),
        argument="z",
        wrong=wrong_softmax_loss,
        mistake="Each probability depends on all logits of its row, since the denominator does: − q qᵀ is missing.",
        question="What is the second derivative of cross-entropy by the logits?",
        options={"order": 2},
    ),
    Entry(
        title="The Jacobian of softmax",
        function=softmax,
        arguments={"x": ("N",)},
        about="How each probability of a softmax changes with each number that goes in.",
        source="Bishop: Pattern Recognition and Machine Learning, 2006, equation (4.106).",
        gradient=(
            "More of a number makes its own probability larger and all others smaller: diag(q) − q qᵀ, where q is the "
            "result. Each row has the sum 0, for the probabilities always have the sum 1"
        ),
        argument="x",
        wrong=wrong_softmax,
        mistake="These are the entries of the diagonal alone. Off the diagonal stands −qᵢ qⱼ, which is not 0.",
        question="What is the Jacobian of softmax, off the diagonal, too?",
        options={"jacobian": True},
    ),
]
TABLE = {entry.function.__name__: entry for entry in ENTRIES}

"""The models compute the formulas of the documents: each formula is one line of NumPy, or loops.

Document 003's equations run in the part `program`; here are those of 000, 001, 002 and 004, and the step (18). The
formulas use nothing of the engine. Both sides are float64 and round, each in its own order, so they are compared with a
bound (some hundred operations of 1e-16 each): a check, at the sizes named.
"""

import math
from functools import partial

import numpy as np

import tinytensor
from derivations.claims import NUMBA, NUMPY, Evidence, Refuted, claim
from models import decoder
from models.attention import algorithm_1, simple_self_attention
from models.transformer import BEGIN, Config, Transformer
from tinytensor import nn, optim, tensor

CLOSE = 1e-12

check = partial(claim, "forward", category="check", trusted=(NUMBA, NUMPY))


def compared(pairs: dict[str, tuple]) -> Evidence:
    """Compare each value of the model with the formula's, relative to the largest entry; Refuted if they differ."""
    lines = []
    for name, (theirs, ours) in pairs.items():
        theirs, ours = np.asarray(theirs), np.asarray(ours)
        if theirs.shape != ours.shape:
            raise Refuted(f"{name}: the model gives {theirs.shape}, the formula {ours.shape}")
        off = float(np.abs(theirs - ours).max() / np.abs(ours).max())
        if not off <= CLOSE:
            raise Refuted(f"{name}: the model and the formula differ by {off:.1e} of the largest entry")
        lines.append(f"{name:<28} {off:.1e}")
    return Evidence(text="\n".join(lines))


# --- Document 004, with 000's


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def mask(x):
    """Mask(x): x_ij if i >= j, -infinity otherwise."""
    i, j = np.indices(x.shape)
    return np.where(i >= j, x, -np.inf)


def attention(Q, K, V, masked=lambda x: x):
    d_k = Q.shape[-1]
    return softmax(masked(Q @ K.T / math.sqrt(d_k))) @ V


def multi_head(p, Q, K, V, masked=lambda x: x):
    """Concat(head_1, ..., head_h) W^O + beta_O, head_j = Attention(Q W_j^Q + beta, K W_j^K + beta, V W_j^V + beta)."""
    betas = [p[f"beta_{x}"].reshape(len(p[f"W_{x}"]), -1) for x in "QKV"]
    heads = [
        attention(Q @ W_Q + b_Q, K @ W_K + b_K, V @ W_V + b_V, masked)
        for W_Q, W_K, W_V, b_Q, b_K, b_V in zip(p["W_Q"], p["W_K"], p["W_V"], *betas, strict=True)
    ]
    return np.concatenate(heads, axis=-1) @ p["W_O"] + p["beta_O"]


def layer_norm(p, x, eps):
    D = x.shape[-1]
    mu = x.sum(-1, keepdims=True) / D
    variance = ((x - mu) ** 2).sum(-1, keepdims=True) / D
    return p["weight"] * (x - mu) / np.sqrt(variance + eps) + p["bias"]


def ffn(p, x):
    return np.maximum(0, x @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]


def pe(n, d_model):
    """PE: sin(i / 10000^(j / d_model)) for even j, cos(i / 10000^((j - 1) / d_model)) for odd j, both from 0."""
    return np.array(
        [
            [
                math.sin(i / 10000 ** (j / d_model)) if j % 2 == 0 else math.cos(i / 10000 ** ((j - 1) / d_model))
                for j in range(d_model)
            ]
            for i in range(n)
        ]
    )


def translated(p, config: Config, one_hot_input, one_hot_output, masked=mask) -> dict:
    """Document 004's training phase for one pair of sentences, given as one-hot rows; `p` has the parameters."""

    def of(*names):
        start = ".".join(names) + "."
        return {name.removeprefix(start): value for name, value in p.items() if name.startswith(start)}

    d_model, eps = config.d_model, config.eps
    X = math.sqrt(d_model) * one_hot_input @ p["W_Embedding"]
    Z_E = pe(len(X), d_model) + X
    for i in range(config.N):
        stack = f"encoder.{i}"
        Z_1 = multi_head(of(stack, "attention"), Z_E, Z_E, Z_E)
        Z_2 = layer_norm(of(stack, "add_attention.norm"), Z_E + Z_1, eps)
        Z_3 = ffn(of(stack, "ffn"), Z_2)
        Z_E = layer_norm(of(stack, "add_ffn.norm"), Z_2 + Z_3, eps)
    shifted = np.vstack([np.zeros((1, config.n_vol)), one_hot_output[:-1]])  # y_0, y_1, ..., y_{n-1}
    Y = math.sqrt(d_model) * shifted @ p["W_Embedding"]
    Z_D = pe(len(Y), d_model) + Y
    for i in range(config.N):
        stack = f"decoder.{i}"
        Z_1 = multi_head(of(stack, "masked"), Z_D, Z_D, Z_D, masked)
        Z_2 = layer_norm(of(stack, "add_masked.norm"), Z_D + Z_1, eps)
        Z_3 = multi_head(of(stack, "attention"), Z_2, Z_E, Z_E)
        Z_4 = layer_norm(of(stack, "add_attention.norm"), Z_2 + Z_3, eps)
        Z_5 = ffn(of(stack, "ffn"), Z_4)
        Z_D = layer_norm(of(stack, "add_ffn.norm"), Z_4 + Z_5, eps)
    Z = Z_D @ p["W_S"] + p["b_S"]
    P = softmax(Z)
    loss = -(one_hot_output * np.log(P)).sum()
    return {"Z^E_{N,4}": Z_E, "Z": Z, "P": P, "L": loss}


SIZES = Config(N=2, d_model=10, h=3, d_k=2, d_v=4, d_ff=7, n_vol=13, n_max=9, bias=True)


def both_translations(config: Config = SIZES, **changes) -> dict[str, tuple]:
    """The results of the encoder-decoder and of the formulas, for random weights and sentences."""
    tinytensor.manual_seed(0)
    model = Transformer(config).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    rng = np.random.default_rng(0)
    inputs, outputs = (rng.integers(BEGIN + 1, config.n_vol, (1, n)) for n in (5, 7))
    encoded, _ = model.encode(tensor(inputs))
    logits, loss = model(tensor(inputs), tensor(outputs))
    theirs = [encoded[0], logits[0], tinytensor.softmax(logits, -1)[0], loss]
    parameters = {name: value.detach().numpy() for name, value in model.named_parameters()}
    one_hot = np.eye(config.n_vol)
    ours = translated(parameters, config, one_hot[inputs[0]], one_hot[outputs[0]], **changes)
    return {name: (one.detach().numpy(), other) for one, (name, other) in zip(theirs, ours.items(), strict=True)}


@check(
    "documents 000 and 004: the encoder-decoder computes the formulas of the training phase, line by line",
    size="N=2 d_model=10 h=3 d_k=2 d_v=4 d_ff=7 n_vol=13, 5 words to 7, float64",
    assumptions=("000's biases of attention, and gamma and delta, are on; the mask is that of 004",),
    source="000; 004 Functions, Training",
)
def encoder_decoder():
    return compared(both_translations())


# --- Documents 001, 002


def entries(X, W_q, W_k, W_v) -> np.ndarray:
    """alpha_ij and o_i of 001, one number at a time."""
    Q, K, V = X @ W_q, X @ W_k, X @ W_v
    N, d_k = Q.shape
    o = np.zeros((N, V.shape[1]))
    for i in range(N):
        s = [sum(Q[i, c] * K[j, c] for c in range(d_k)) / math.sqrt(d_k) for j in range(N)]
        below = sum(math.exp(s[j]) for j in range(N))
        for j in range(N):
            o[i] += math.exp(s[j]) / below * V[j]
    return o


@check(
    "documents 000 and 001: Algorithm 1 is the weighted sum of values, entry by entry",
    size="N=6 D=5 d_k=3 d_v=4, float64",
    source="000 Algorithm 1; 001",
)
def entry_by_entry():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((6, 5), (5, 3), (5, 3), (5, 4))]
    return compared({"Algorithm 1": (algorithm_1(*map(tensor, arrays)).numpy(), entries(*arrays))})


@check(
    "document 002: self-attention without parameters is the average of the inputs by softmax_j(x_i . x_j)",
    size="6 vectors of 4 numbers, float64",
    source="002 Self-attention",
)
def simple_attention():
    x = np.random.default_rng(0).normal(size=(6, 4))
    y = np.zeros_like(x)
    for i in range(6):
        raw = [math.exp(x[i] @ x[j]) for j in range(6)]
        y[i] = sum(raw[j] / sum(raw) * x[j] for j in range(6))
    return compared({"y": (simple_self_attention(tensor(x)).numpy(), y)})


# --- Document 003 (18)


@check(
    "eq. (18): a step of the engine's SGD subtracts the gradient, times the rate, from every parameter",
    size="D=4 H=2 F=5 L=1 V=6 C=3, float64, to the last bit but one",
    source="003 eq. (18)",
)
def descent(rate: float = 0.1):
    model, before, slopes = before_a_step(L=1)
    optim.SGD(model.parameters(), lr=0.1).step()
    for name, p in model.named_parameters():
        is_step(name, p.detach().numpy(), before[name], rate, slopes[name])


def with_gradients(model: decoder.Decoder) -> decoder.Decoder:
    """The model after a backward pass on one sequence."""
    model(tensor([[1, 4, 1]]), tensor([[4, 1, 2]]))[1].backward()
    return model


def before_a_step(L: int) -> tuple[decoder.Decoder, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A model with gradients, and copies of its parameters and their gradients."""
    tinytensor.manual_seed(0)
    model = with_gradients(decoder.Decoder(decoder.Config(D=4, H=2, F=5, L=L, V=6, C=3)).double())
    parameters = dict(model.named_parameters())
    before = {name: p.detach().numpy().copy() for name, p in parameters.items()}
    return model, before, {name: p.grad.numpy().copy() for name, p in parameters.items()}


def is_step(name: str, after: np.ndarray, before: np.ndarray, rate: float, slope: np.ndarray) -> None:
    """Refuted unless `after` is before - rate slope, up to the rounding of the product and of the difference."""
    step, expected = rate * slope, before - rate * slope
    if not (np.abs(after - expected) <= np.spacing(np.abs(step)) + np.spacing(np.abs(expected))).all():
        raise Refuted(f"{name}: the step is not {name} - {rate} times its gradient")


@check(
    "after eq. (18): with a rate for each parameter of each layer, and one for each head of Q, a step subtracts from "
    "each its own rate times its gradient",
    size="D=4 H=2 F=5 L=2 V=6 C=3, float64, to the last bits",
    source="003 after eq. (18)",
)
def rates(first: float = 0.01):
    model, before, slopes = before_a_step(L=2)
    named, heads = list(model.named_parameters()), np.array([1.0, 3.0])[:, None, None]
    model.zero_grad()
    model.blocks[0].Q.register_hook(lambda g: g * tensor(heads))  # (H, D, K)
    with_gradients(model)
    optim.SGD([{"params": [p], "lr": first * (n + 1)} for n, (_, p) in enumerate(named)], lr=1.0).step()
    for n, (name, p) in enumerate(named):
        slope = slopes[name] * heads if name == "blocks.0.Q" else slopes[name]
        is_step(name, p.detach().numpy(), before[name], first * (n + 1), slope)

"""Modules with their options in combination: cases in which each value of each option meets each value of the others.

Mistakes hide where two options meet: a causal mask that is forgotten where weights are dropped, a bias that counts only
without a cache. So a module is not tried with one option changed at a time, but in few cases with all pairs. In each,
its results are compared with the formulas in NumPy, and its gradients by all parameters and inputs at once with the
slope of these formulas along a random direction.

What is dropped is drawn anew for the formulas, in the order in which they say it: from the same seed it is the same.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np

import tinytensor as tt
from models import decoder as decoders
from models import transformer as transformers
from tinytensor.nn import attention as attentions
from tinytensor.nn import functional
from tinytensor.nn import transformer as layers

STEP, WITHIN = 1e-6, 1e-6  # of a slope by central differences, and how near it is, relatively
SEED = 7

Options = dict[str, tuple]
Values = dict[str, np.ndarray]


def all_pairs(options: Options, allowed: Callable[[dict], bool] = lambda case: True) -> list[dict]:
    """Few cases, one value for each option, in which each pair of values occurs that is allowed.

    Greedy: the next one, of many cases that are drawn by lot, is the one with most pairs that have not occurred yet.
    """
    rng = np.random.default_rng(0)
    drawn = [{name: values[rng.integers(len(values))] for name, values in options.items()} for _ in range(400)]
    drawn = [case for case in drawn if allowed(case)]
    pairs = [set(itertools.combinations(case.items(), 2)) for case in drawn]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(drawn)), key=lambda i: len(pairs[i] & missing))
        missing -= pairs[best]
        chosen.append(drawn[best])
    return chosen


# --- The formulas


class Draws:
    """What is kept of each array, in the order in which it is asked for: as `dropout` draws it from the same seed."""

    def __init__(self, p: float):
        self.p = p
        tt.manual_seed(SEED)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x * functional.dropout(tt.ones(*x.shape, dtype=tt.float64), self.p).numpy() if self.p else x


def softmax(S: np.ndarray) -> np.ndarray:
    e = np.exp(S - S.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm(x: np.ndarray, eps: float, gamma=None, delta=None, centre: bool = True) -> np.ndarray:
    c = x - x.mean(-1, keepdims=True) * centre
    y = c / np.sqrt((c**2).mean(-1, keepdims=True) + eps)
    return y * (1 if gamma is None else gamma) + (0 if delta is None else delta)


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


ACTIVATIONS = {"relu": relu, "gelu": gelu}


def attention(q, k, v, added, draws: Callable) -> tuple[np.ndarray, np.ndarray]:
    """(the heads' results, their weights), which are 0 where -inf is added: q (B, H, C, K), k and v (B, H, M, .)."""
    weights = np.empty((*q.shape[:3], k.shape[2]))
    for at in np.ndindex(q.shape[:2]):
        weights[at] = softmax(q[at] @ k[at].T / math.sqrt(q.shape[-1]) + added[at])
    weights = draws(weights)
    return weights @ v, weights


def causal(n: int) -> np.ndarray:
    return np.where(np.tri(n), 0, -np.inf)


def mean_loss(logits: np.ndarray, targets: np.ndarray, ignored: int, smoothing: float = 0.0, mean: bool = True):
    losses = []
    for row, t in zip(logits.reshape(-1, logits.shape[-1]), targets.ravel(), strict=True):
        if t != ignored:
            shares = -np.log(softmax(row))
            losses.append((1 - smoothing) * shares[t] + smoothing * shares.mean())
    return np.sum(losses) / (len(losses) if mean else 1)


# --- Comparison


def wrong(module, call: Callable, formulas: Callable, inputs: Values, p: float, way: str = "eager") -> list[str]:
    """What differs: results of call(**inputs), or gradients by all parameters of the module and all inputs.

    formulas(draws, values) gives the same results of the parameters and inputs by their names. way: "compiled" is a
    replay, and "cache" has no gradient.
    """
    rng = np.random.default_rng(3)
    values = {name: rng.standard_normal(q.shape) / 2 for name, q in module.named_parameters()}
    for name, q in module.named_parameters():
        q.data = tt.tensor(values[name])
    leaves = {name: tt.tensor(x, requires_grad=True) for name, x in inputs.items()}
    values |= inputs
    expected = formulas(Draws(p), values)
    weights = [tt.tensor(rng.standard_normal(np.shape(e))) for e in expected]

    def step():
        results = call(**leaves)
        if way == "cache":
            return results, []
        total = sum((r * g).sum() for r, g in zip(results, weights, strict=True))
        by = [*module.parameters(), *leaves.values()]
        gradients = tt.autograd.grad(total, by, allow_unused=True, materialize_grads=True)
        return [r.detach() for r in results], list(gradients)

    runs = [step]  # the first run of a module may prepare what later ones use
    if way == "compiled":
        runs += [tt.compile(step, fullgraph=True)] * 2
    for run in runs:
        tt.manual_seed(SEED)
        results, gradients = run()
    pairs = zip(results, expected, strict=True)
    result = [f"result {i}" for i, (r, e) in enumerate(pairs) if not np.allclose(r.detach().numpy(), e, 1e-9, 1e-9)]
    if gradients:
        directions = [rng.standard_normal(x.shape) for x in values.values()]

        def along(step: float) -> float:
            moved = {name: x + step * d for (name, x), d in zip(values.items(), directions, strict=True)}
            results = formulas(Draws(p), moved)
            return sum((r * g.numpy()).sum() for r, g in zip(results, weights, strict=True))

        slope = sum((g.numpy() * d).sum() for g, d in zip(gradients, directions, strict=True))
        about = (along(STEP) - along(-STEP)) / (2 * STEP)
        if not abs(slope - about) <= WITHIN * max(1, abs(about), math.sqrt(sum(x.size for x in values.values()))):
            result.append(f"gradient: {slope} along a direction in which the slope is {about}")
    return result


# --- Masks, as PyTorch has them

FORMS = (None, "bool", "float")


def mask(form: str | None, *shape: int, seed: int = 0) -> tuple:
    """(what a module is given, what is added to the scores): each row sees its first key. True is NOT to attend."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(shape) < 0.4
    hidden[..., 0] = False
    if form is None:
        return None, np.zeros(shape)
    if form == "bool":
        return tt.tensor(hidden), np.where(hidden, -np.inf, 0)
    added = np.where(hidden, -np.inf, rng.standard_normal(shape))
    return tt.tensor(added), added


def heads(x: np.ndarray, weight: np.ndarray, bias, H: int) -> np.ndarray:
    """(B, H, C, K) of x (B, C, E): PyTorch's weights have what comes out first."""
    y = x @ weight.T + (0 if bias is None else bias)
    return y.reshape(*y.shape[:2], H, -1).transpose(0, 2, 1, 3)


def multihead(w: Values, name: str, H: int, query, key, value, added, draws) -> tuple[np.ndarray, np.ndarray]:
    """nn.MultiheadAttention on (B, C, E): the result, and the weights of each head."""
    E = query.shape[-1]
    together = w.get(f"{name}in_proj_weight")
    parts = [w[f"{name}{x}_proj_weight"] for x in "qkv"] if together is None else np.split(together, 3)
    biases = np.split(w[f"{name}in_proj_bias"], 3) if f"{name}in_proj_bias" in w else [None] * 3
    q, k, v = (heads(x, p, b, H) for x, p, b in zip((query, key, value), parts, biases, strict=True))
    y, weights = attention(q, k, v, np.broadcast_to(added, (*q.shape[:3], k.shape[2])), draws)
    y = y.transpose(0, 2, 1, 3).reshape(*query.shape[:2], E)
    return y @ w[f"{name}out_proj.weight"].T + w.get(f"{name}out_proj.bias", 0), weights


MULTIHEAD: Options = {
    "batched": (True, False),
    "batch_first": (True, False),
    "bias": (True, False),
    "other_widths": (True, False),
    "need_weights": (True, False),
    "average": (True, False),
    "attn_mask": (None, "bool", "bool of each head", "float", "float of each head"),
    "padding": FORMS,
    "is_causal": (True, False),
    "dropout": (0.0, 0.4),
    "training": (True, False),
    "heads": (2, 3),
    "way": ("eager", "compiled"),
}


def multihead_wrong(c: dict) -> list[str]:
    """nn.MultiheadAttention with these options."""
    B, C, M, E, H = 3 if c["batched"] else 1, 4, 5, 6, c["heads"]
    widths = {"kdim": 3, "vdim": 7} if c["other_widths"] else {}
    options = {"dropout": c["dropout"], "bias": c["bias"], "batch_first": c["batch_first"], **widths}
    module = attentions.MultiheadAttention(E, H, **options).double().train(c["training"])
    p = c["dropout"] if c["training"] else 0.0
    rng = np.random.default_rng(1)
    sizes = {"query": (B, C, E), "key": (B, M, widths.get("kdim", E)), "value": (B, M, widths.get("vdim", E))}
    inputs = {name: rng.standard_normal(shape) for name, shape in sizes.items()}
    form, _, of_each = (c["attn_mask"] or "").partition(" ")
    attn_mask, added = mask(form or None, *((B * H, C, M) if of_each else (C, M)), seed=4)
    added = added.reshape(B, H, C, M) if of_each else added
    if c["is_causal"] and attn_mask is None:
        added = added + np.where(np.tri(C, M), 0, -np.inf)
    padding, hidden = mask(c["padding"], B, M, seed=5)
    if padding is not None and not c["batched"]:
        padding = padding[0]

    def laid(x):
        """As the module gets and gives it: without a batch, or with positions first."""
        return x if c["batched"] and c["batch_first"] else x.transpose(0, 1) if c["batched"] else x.squeeze(0)

    def call(query, key, value):
        settings = {"key_padding_mask": padding, "need_weights": c["need_weights"], "attn_mask": attn_mask}
        settings |= {"average_attn_weights": c["average"], "is_causal": c["is_causal"]}
        y, weights = module(laid(query), laid(key), laid(value), **settings)
        return (y,) if weights is None else (y, weights)

    def formulas(draws, w):
        y, weights = multihead(w, "", H, *(w[n] for n in sizes), added + hidden[:, None, None, :], draws)
        y = y.transpose(1, 0, 2) if c["batched"] and not c["batch_first"] else y if c["batched"] else y[0]
        weights = weights.mean(1) if c["average"] else weights
        return (y, weights if c["batched"] else weights[0]) if c["need_weights"] else (y,)

    return wrong(module, call, formulas, inputs, p, c["way"])


TRANSFORMER: Options = {
    "batched": (True, False),
    "batch_first": (True, False),
    "norm_first": (True, False),
    "bias": (True, False),
    "activation": ("relu", "gelu"),
    "dropout": (0.0, 0.3),
    "training": (True, False),
    "layers": (1, 2),
    "src_mask": FORMS,
    "tgt_mask": FORMS,
    "memory_mask": FORMS,
    "src_key_padding_mask": (None, "bool"),
    "tgt_key_padding_mask": (None, "bool"),
    "memory_key_padding_mask": (None, "bool"),
    "src_is_causal": (True, False),
    "tgt_is_causal": (True, False),
    "memory_is_causal": (True, False),
    "way": ("eager", "compiled"),
}


def transformer_wrong(c: dict) -> list[str]:
    """nn.Transformer, and so its layers and stacks, with these options."""
    B, S, T, E, H, eps = 2 if c["batched"] else 1, 4, 3, 4, 2, 1e-5
    L = c["layers"]
    settings = {name: c[name] for name in ("dropout", "activation", "batch_first", "norm_first", "bias")}
    module = layers.Transformer(E, H, L, L, 5, layer_norm_eps=eps, **settings).double().train(c["training"])
    p = c["dropout"] if c["training"] else 0.0
    rng = np.random.default_rng(1)
    inputs = {"src": rng.standard_normal((B, S, E)), "tgt": rng.standard_normal((B, T, E))}
    shapes = {"src": (S, S), "tgt": (T, T), "memory": (T, S)}
    arguments, added = {}, {}
    for seed, (name, shape) in enumerate(shapes.items()):
        arguments[f"{name}_mask"], added[name] = mask(c[f"{name}_mask"], *shape, seed=seed)
        arguments[f"{name}_is_causal"] = c[f"{name}_is_causal"]
        if c[f"{name}_is_causal"] and c[f"{name}_mask"] is None:
            added[name] = added[name] + np.where(np.tri(*shape), 0, -np.inf)
        padding, hidden = mask(c[f"{name}_key_padding_mask"], B, shape[1], seed=9 + seed)
        arguments[f"{name}_key_padding_mask"] = padding if padding is None or c["batched"] else padding[0]
        added[name] = added[name] + hidden[:, None, None, :]
    first = c["batch_first"] or not c["batched"]  # are sentences the first dimension of what is dropped?

    def laid(x):
        return x.squeeze(0) if not c["batched"] else x if c["batch_first"] else x.transpose(0, 1)

    def formulas(draws, w):
        def kept(x):  # places are counted in the array as the module has it
            return draws(x) if first else draws(x.transpose(1, 0, 2)).transpose(1, 0, 2)

        def layer(name, x, *sublayers):
            for i, sublayer in enumerate(sublayers, 1):
                gamma, delta = w[f"{name}.norm{i}.weight"], w.get(f"{name}.norm{i}.bias")
                if c["norm_first"]:
                    x = x + kept(sublayer(norm(x, eps, gamma, delta)))
                else:
                    x = norm(x + kept(sublayer(x)), eps, gamma, delta)
            return x

        def attend(name, mask, memory=None):
            return lambda x: multihead(w, name, H, x, *[x if memory is None else memory] * 2, added[mask], draws)[0]

        def forward(name):
            def inner(x):
                return ACTIVATIONS[c["activation"]](
                    x @ w[f"{name}.linear1.weight"].T + w.get(f"{name}.linear1.bias", 0)
                )

            return lambda x: kept(inner(x)) @ w[f"{name}.linear2.weight"].T + w.get(f"{name}.linear2.bias", 0)

        def end(half, x):
            return norm(x, eps, w[f"{half}.norm.weight"], w.get(f"{half}.norm.bias"))

        memory, y = w["src"], w["tgt"]
        for i in range(L):
            name = f"encoder.layers.{i}"
            memory = layer(name, memory, attend(f"{name}.self_attn.", "src"), forward(name))
        memory = end("encoder", memory)
        for i in range(L):
            name = f"decoder.layers.{i}"
            looks = attend(f"{name}.self_attn.", "tgt"), attend(f"{name}.multihead_attn.", "memory", memory)
            y = layer(name, y, *looks, forward(name))
        y = end("decoder", y)
        return ((y if c["batch_first"] else y.transpose(1, 0, 2)) if c["batched"] else y[0],)

    return wrong(module, lambda src, tgt: (module(laid(src), laid(tgt), **arguments),), formulas, inputs, p, c["way"])


# --- The models of the documents

WAYS = ("eager", "compiled", "cache")  # in eager mode, as a replay, or token by token

DECODER: Options = {
    "residual": decoders.RESIDUALS,
    "norm": decoders.NORMS,
    "final_norm": (True, False),
    "activation": ("relu", "gelu"),  # gelu-tanh: tests/models/training/test_exchange.py
    "attention_bias": (True, False),
    "bias": (True, False),
    "tied": (True, False),
    "positions": (True, False),
    "causal": (True, False),
    "dropout": (0.0, 0.3),
    "training": (True, False),
    "padding": (True, False),
    "layers": (1, 2),
    "shorter": (True, False),  # than the context
    "way": WAYS,
}


def decoder_wrong(c: dict) -> list[str]:
    """models.decoder.Decoder with these options."""
    D, H, B, C = 6, 2, 3, 5
    named = ("residual", "norm", "final_norm", "activation", "attention_bias", "bias", "tied", "positions", "causal")
    sizes = {"D": D, "H": H, "F": 7, "L": c["layers"], "V": 9, "C": C + 2 * c["shorter"], "eps": 0.1}
    config = decoders.Config(**sizes, dropout=c["dropout"], **{name: c[name] for name in named})
    module = decoders.Decoder(config).double().train(c["training"])
    p = c["dropout"] if c["training"] else 0.0
    rng = np.random.default_rng(1)
    tokens, targets = rng.integers(0, 9, (2, B, C))
    tokens[:, 3] = tokens[:, 0]
    if c["padding"]:
        targets[0, 3:], targets[2, 4:] = -100, -100

    def call():
        if c["way"] != "cache":
            return module(tt.tensor(tokens), tt.tensor(targets))
        cache, known = module.new_cache(B), 2 * c["padding"]  # the first two together, or all of them one by one
        ends = [known, *range(known + 1, C + 1)] if known else range(1, C + 1)
        parts = [module(tt.tensor(tokens[:, a:b]), cache=cache)[0] for a, b in itertools.pairwise([0, *ends])]
        logits = tt.cat(parts, 1)
        return logits, functional.cross_entropy(logits.flatten(0, 1), tt.tensor(targets.ravel()))

    def formulas(draws, w):
        def normed(x, name):
            gamma, delta = w.get(f"{name}.weight"), w.get(f"{name}.bias")
            return norm(x, 0.1, gamma, delta, centre=c["norm"] != "rms")

        unseen = causal(C) if c["causal"] or c["way"] == "cache" else np.zeros((C, C))  # a cache has no later tokens
        if c["way"] == "cache" and c["padding"] and not c["causal"]:
            unseen[0, 1] = 0  # but the first two, which came together
        Z = w["E"][tokens] + (w["P"][:C] if c["positions"] else 0)
        Z = draws(normed(Z, "blocks.0.enter") if c["residual"] == "once" else Z)
        for i in range(c["layers"]):
            b = f"blocks.{i}"
            N = Z if c["residual"] == "once" else normed(Z, f"{b}.enter")
            Z = N if c["residual"] == "literal" else Z
            q, k, v = (
                np.einsum("bid,hdk->bhik", N, w[f"{b}.{X}"]) + w.get(f"{b}.{x}", np.zeros(D)).reshape(H, 1, -1)
                for X, x in ("Qq", "Kk", "Vv")
            )
            Y = attention(q, k, v, np.broadcast_to(unseen, (B, H, C, C)), draws)[0]
            Y = Y.transpose(0, 2, 1, 3).reshape(B, C, D)
            Z = Z + draws(Y @ w[f"{b}.W"] + w.get(f"{b}.w", 0))
            X = ACTIVATIONS[c["activation"]](normed(Z, f"{b}.middle") @ w[f"{b}.F"] + w.get(f"{b}.b", 0))
            Z = Z + draws(X @ w[f"{b}.G"] + w.get(f"{b}.c", 0))
        Z = normed(Z, "final") if c["final_norm"] else Z
        logits = Z @ (w["E"].T if c["tied"] else w["O"])
        return logits, mean_loss(logits, targets, -100)

    return wrong(module, call, formulas, {}, p, c["way"])


ENCODER_DECODER: Options = {
    "norm": ("after", "before"),
    "affine": (True, False),
    "bias": (True, False),
    "tied": (True, False),
    "begin": ("zero", "token"),
    "positions": (True, False),
    "dropout": (0.0, 0.3),
    "training": (True, False),
    "label_smoothing": (0.0, 0.2),
    "reduction": ("sum", "mean"),
    "widths": (None, (2, 5)),
    "padded inputs": (True, False),
    "padded outputs": (True, False),
    "stacks": (1, 2),
    "way": WAYS,
}


def encoder_decoder_wrong(c: dict) -> list[str]:
    """models.transformer.Transformer with these options."""
    d, h, V, B, n, m = 4, 2, 8, 3, 5, 4
    d_k, d_v = c["widths"] or (None, None)
    named = ("norm", "affine", "bias", "tied", "begin", "positions", "dropout", "label_smoothing", "reduction")
    sizes = {"N": c["stacks"], "d_model": d, "h": h, "d_k": d_k, "d_v": d_v, "d_ff": 5, "n_vol": V, "n_max": 6}
    config = transformers.Config(**sizes, eps=0.1, **{name: c[name] for name in named})
    module = transformers.Transformer(config).double().train(c["training"])
    p = c["dropout"] if c["training"] else 0.0
    rng = np.random.default_rng(1)
    inputs, outputs = rng.integers(3, V, (B, n)), rng.integers(3, V, (B, m))
    outputs[:, -1] = transformers.STOP
    if c["padded inputs"]:
        inputs[0, 2:], inputs[1, 4:] = 0, 0
    if c["padded outputs"]:
        outputs[1, 2:], outputs[2, 3:] = 0, 0
    shifted = np.concatenate([np.full((B, 1), transformers.BEGIN), outputs[:, :-1]], 1)

    def call():
        if c["way"] != "cache":
            return module(tt.tensor(inputs), tt.tensor(outputs))
        cache, encoded = module.new_cache(), module.encode(tt.tensor(inputs))
        words = [module.decode(tt.tensor(shifted[:, i : i + 1]), *encoded, cache) for i in range(m)]
        logits = tt.cat(words, 1)
        return logits, module.loss(logits, tt.tensor(outputs), c["reduction"])

    def formulas(draws, w):
        def embedded(tokens):
            X = w["W_Embedding"][tokens] * math.sqrt(d)
            if c["begin"] == "zero":
                X = np.where((tokens == transformers.BEGIN)[..., None], 0, X)
            if c["positions"]:
                for i, j in np.ndindex(X.shape[1:]):
                    angle = i / 10000 ** ((j - j % 2) / d)
                    X[:, i, j] += math.cos(angle) if j % 2 else math.sin(angle)
            return draws(X)

        def normed(x, name):
            return norm(x, 0.1, w.get(f"{name}.weight"), w.get(f"{name}.bias"))

        def added_to(x, name, f):
            if c["norm"] == "before":
                return x + draws(f(normed(x, f"{name}.norm")))
            return normed(x + draws(f(x)), f"{name}.norm")

        def attend(name, unseen, memory=None):
            def f(x):
                def of_heads(y, X):
                    bias = w[f"{name}.beta_{X}"].reshape(h, 1, -1) if c["bias"] else 0
                    return np.einsum("bid,hdk->bhik", y, w[f"{name}.W_{X}"]) + bias

                source = x if memory is None else memory
                q, k, v = of_heads(x, "Q"), of_heads(source, "K"), of_heads(source, "V")
                y = attention(q, k, v, np.broadcast_to(unseen, (*q.shape[:3], k.shape[2])), lambda x: x)[0]
                y = y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
                return y @ w[f"{name}.W_O"] + (w[f"{name}.beta_O"] if c["bias"] else 0)

            return f

        def forward(name):
            return lambda x: relu(x @ w[f"{name}.W_1"] + w[f"{name}.b_1"]) @ w[f"{name}.W_2"] + w[f"{name}.b_2"]

        hidden = np.where(inputs == 0, -np.inf, 0)[:, None, None, :]
        Z = embedded(inputs)
        for i in range(c["stacks"]):
            Z = added_to(Z, f"encoder.{i}.add_attention", attend(f"encoder.{i}.attention", hidden))
            Z = added_to(Z, f"encoder.{i}.add_ffn", forward(f"encoder.{i}.ffn"))
        memory = normed(Z, "encoder_norm") if c["norm"] == "before" else Z
        Z = embedded(shifted)
        for i in range(c["stacks"]):
            Z = added_to(Z, f"decoder.{i}.add_masked", attend(f"decoder.{i}.masked", causal(m)))
            Z = added_to(Z, f"decoder.{i}.add_attention", attend(f"decoder.{i}.attention", hidden, memory))
            Z = added_to(Z, f"decoder.{i}.add_ffn", forward(f"decoder.{i}.ffn"))
        Z = normed(Z, "decoder_norm") if c["norm"] == "before" else Z
        logits = Z @ (w["W_Embedding"].T if c["tied"] else w["W_S"]) + w["b_S"]
        smoothing = c["label_smoothing"] if c["training"] else 0.0
        return logits, mean_loss(logits, outputs, 0, smoothing, c["reduction"] == "mean")

    return wrong(module, call, formulas, {}, p, c["way"])


SUBJECTS = {  # what is tried: (its options, which of them go together, what is wrong with one case)
    "nn.MultiheadAttention": (MULTIHEAD, lambda c: True, multihead_wrong),
    "nn.Transformer": (TRANSFORMER, lambda c: True, transformer_wrong),
    "Decoder": (DECODER, lambda c: c["way"] != "cache" or not c["training"], decoder_wrong),
    "Transformer": (ENCODER_DECODER, lambda c: c["way"] != "cache" or not c["training"], encoder_decoder_wrong),
}


def cases(subject: str) -> list[dict]:
    options, allowed, _ = SUBJECTS[subject]
    return all_pairs(options, allowed)

"""The encoder-decoder of models/transformer/ as a PyTorch program with the same weights, and cases for both.

`oracle/generate_transformer.py` runs the cases in PyTorch and stores what comes out; the tests run them in tinytensor
and compare. Nothing here imports either library. Values come from NumPy's RandomState, whose stream is frozen, seeded
by each weight's own name.
"""

import math
import zlib

import numpy as np

PAD, BEGIN, STOP = range(3)
SIZES = {"N": 2, "d_model": 6, "h": 2, "d_ff": 7, "n_vol": 9, "n_max": 8}
DEFAULTS = {
    "norm": "after", "affine": True, "bias": False, "tied": False, "begin": "zero", "positions": True,
    "label_smoothing": 0.0, "reduction": "sum", "eps": 1e-5,
}  # fmt: skip

BARE = (".b_1", ".b_2")  # biases that PyTorch's layers have not with bias=False, and ours always have

PADDING = {  # the lengths of (three inputs, three outputs)
    "no padding": ((5, 5, 5), (4, 4, 4)),
    "padded inputs": ((3, 5, 1), (4, 4, 4)),
    "padded outputs": ((5, 5, 5), (2, 4, 3)),
    "both padded": ((3, 5, 1), (2, 4, 3)),
}

# name -> (configuration, lengths)
CASES = {
    f"{norm}, bias {bias}, {padding}": ({"norm": norm, "bias": bias}, lengths)
    for norm in ("after", "before")
    for bias in (False, True)
    for padding, lengths in PADDING.items()
}
CASES |= {
    f"{norm}, {what}": ({"norm": norm, **changes}, PADDING["both padded"])
    for norm in ("after", "before")
    for what, changes in {
        "no bias anywhere": {"affine": False, "bare": True},
        "not affine": {"affine": False},
        "tied, begin token": {"tied": True, "begin": "token"},
        "smoothed mean": {"label_smoothing": 0.3, "reduction": "mean"},
        "no positions, odd width": {"positions": False, "d_model": 5, "h": 1, "eps": 1e-3},
        "odd width": {"d_model": 5, "h": 1, "N": 1},
    }.items()
}


def settings(changes: dict) -> dict:
    """All settings of a case; `bare`, PyTorch's bias=False, stands for feed-forward biases of 0."""
    return {**SIZES, **DEFAULTS, "bare": False, **changes}


def draw(name: str, *shape) -> np.ndarray:
    """Float64 from -1 to 1 that belong to a name."""
    return np.random.RandomState(zlib.crc32(name.encode())).random_sample(shape) * 2 - 1


def words(what: str, lengths, n_vol: int) -> np.ndarray:
    """Sentences of those lengths with PAD after them; the outputs end with STOP."""
    tokens = np.zeros((len(lengths), max(lengths)), np.int64)
    for row, n in zip(tokens, lengths, strict=True):
        row[:n] = 3 + (draw(f"{what} {n} {len(lengths)}", n) + 1) / 2 * (n_vol - 3)
        if what == "outputs":
            row[n - 1] = STOP
    return tokens


def shapes(c: dict) -> dict[str, tuple]:
    """The parameters of the models with these settings, d_k = d_v = d_model / h: name -> shape."""
    d, h, d_ff, n_vol = c["d_model"], c["h"], c["d_ff"], c["n_vol"]
    norm = {"weight": (d,), "bias": (d,)} if c["affine"] else {}
    attention = {f"W_{x}": (h, d, d // h) for x in "QKV"} | {"W_O": (d, d)}
    if c["bias"]:
        attention |= {f"beta_{x}": (d,) for x in "QKVO"}
    ffn = {"W_1": (d, d_ff), "b_1": (d_ff,), "W_2": (d_ff, d), "b_2": (d,)}
    results = {"W_Embedding": (n_vol, d), "b_S": (n_vol,)} | ({} if c["tied"] else {"W_S": (d, n_vol)})
    for half, attentions in (("encoder", ["attention"]), ("decoder", ["masked", "attention"])):
        parts = dict.fromkeys(attentions, attention) | {"ffn": ffn}
        parts |= {f"add_{name}.norm": norm for name in list(parts)}
        for i in range(c["N"]):
            results |= {f"{half}.{i}.{part}.{name}": s for part, of in parts.items() for name, s in of.items()}
        if c["norm"] == "before":
            results |= {f"{half}_norm.{name}": s for name, s in norm.items()}
    return results


def value(c: dict, name: str, shape: tuple) -> np.ndarray:
    """Values of one parameter: about 1 for gamma, so that rows stay as different as they came, else about 0."""
    if c["bare"] and name.endswith(BARE):
        return np.zeros(shape)
    return 1 + draw(name, *shape) / 2 if name.endswith("norm.weight") else draw(name, *shape)


def weights(c: dict) -> dict[str, np.ndarray]:
    return {name: value(c, name, shape) for name, shape in shapes(c).items()}


def encoding(n: int, d_model: int) -> list[list[float]]:
    """The positional encoding of 004, by its cases, one number after the other."""

    def entry(i, j):
        if j % 2 == 0:
            return math.sin(i / 10000 ** (j / d_model))
        return math.cos(i / 10000 ** ((j - 1) / d_model))

    return [[entry(i, j) for j in range(d_model)] for i in range(n)]


def in_pytorch(torch, changes: dict, lengths) -> dict[str, np.ndarray]:
    """Logits, loss and every gradient ("<name>.grad") from nn.TransformerEncoder and nn.TransformerDecoder.

    PyTorch's parameters are computed from ours inside the graph, so that the gradients come out in our layout.
    """
    c = settings(changes)
    p = {name: torch.tensor(w, requires_grad=True) for name, w in weights(c).items()}
    inputs, outputs = (torch.tensor(words(what, n, c["n_vol"])) for what, n in zip(("inputs", "outputs"), lengths))
    shifted = torch.cat([torch.full_like(outputs[:, :1], BEGIN), outputs[:, :-1]], 1)
    d, N = c["d_model"], c["N"]

    def attention(name):
        W = [p[f"{name}.W_{x}"].transpose(1, 2).reshape(-1, d) for x in "QKV"]
        made = {"in_proj_weight": torch.cat(W), "out_proj.weight": p[f"{name}.W_O"].T}
        if not c["bare"]:
            beta = [p.get(f"{name}.beta_{x}", torch.zeros(d, dtype=torch.float64)) for x in "QKVO"]
            made |= {"in_proj_bias": torch.cat(beta[:3]), "out_proj.bias": beta[3]}
        return made

    def norm(name):
        made = {"weight": p.get(f"{name}.weight", torch.ones(d, dtype=torch.float64))}
        return made if c["bare"] else made | {"bias": p.get(f"{name}.bias", torch.zeros(d, dtype=torch.float64))}

    def ffn(name):
        made = {"linear1.weight": p[f"{name}.W_1"].T, "linear2.weight": p[f"{name}.W_2"].T}
        return made if c["bare"] else made | {"linear1.bias": p[f"{name}.b_1"], "linear2.bias": p[f"{name}.b_2"]}

    def run(half, *tensors, **masks):
        encodes = half == "encoder"
        Layer = torch.nn.TransformerEncoderLayer if encodes else torch.nn.TransformerDecoderLayer
        Stacks = torch.nn.TransformerEncoder if encodes else torch.nn.TransformerDecoder
        before, bias = c["norm"] == "before", not c["bare"]
        layer = Layer(
            d, c["h"], c["d_ff"], dropout=0.0, layer_norm_eps=c["eps"], batch_first=True, norm_first=before, bias=bias
        )
        last = torch.nn.LayerNorm(d, c["eps"], bias=bias) if before else None
        stacks = Stacks(layer, N, last, **({"enable_nested_tensor": False} if encodes else {})).double()
        attentions = {"attention": "self_attn"} if encodes else {"masked": "self_attn", "attention": "multihead_attn"}
        parameters = {}
        for i in range(N):
            parts = {"": ffn(f"{half}.{i}.ffn")}
            parts |= {f"{theirs}.": attention(f"{half}.{i}.{ours}") for ours, theirs in attentions.items()}
            for j, sublayer in enumerate([*attentions, "ffn"], 1):
                parts[f"norm{j}."] = norm(f"{half}.{i}.add_{sublayer}.norm")
            parameters |= {f"layers.{i}.{part}{name}": t for part, of in parts.items() for name, t in of.items()}
        if before:
            parameters |= {f"norm.{name}": t for name, t in norm(f"{half}_norm").items()}
        missing = parameters.keys() ^ dict(stacks.named_parameters()).keys()
        assert not missing, missing
        return torch.func.functional_call(stacks, parameters, tensors, masks)

    def embed(tokens):
        X = p["W_Embedding"][tokens] * math.sqrt(d)
        if c["begin"] == "zero":
            X = X.masked_fill((tokens == BEGIN)[..., None], 0.0)
        return X + torch.tensor(encoding(tokens.shape[1], d), dtype=torch.float64) if c["positions"] else X

    encoded = run("encoder", embed(inputs), src_key_padding_mask=inputs == PAD)
    n = outputs.shape[1]
    Z = run(
        "decoder", embed(shifted), encoded, tgt_mask=torch.ones(n, n, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=shifted == PAD, memory_key_padding_mask=inputs == PAD,
    )  # fmt: skip
    logits = Z @ (p["W_Embedding"].T if c["tied"] else p["W_S"]) + p["b_S"]
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), outputs.flatten(), ignore_index=PAD, reduction=c["reduction"],
        label_smoothing=c["label_smoothing"],
    )  # fmt: skip
    loss.backward()
    result = {"logits": logits, "loss": loss} | {
        f"{name}.grad": t.grad for name, t in p.items() if not (c["bare"] and name.endswith(BARE))
    }
    return {name: np.array(t.detach().numpy(), order="C") for name, t in result.items()}

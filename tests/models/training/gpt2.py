"""GPT-2's definition in NumPy, in float64, and small random weights in Hugging Face's layout."""

import math

import numpy as np

CONFIG = {
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "n_inner": None,
    "n_embd": 24,
    "n_head": 3,
    "n_layer": 2,
    "n_positions": 32,
    "vocab_size": 300,
}
TEXT = "the cat sat on the mat, and the dog did not.\n" * 4


def random_weights(D: int = 24, L: int = 2, C: int = 32, V: int = 300) -> dict[str, np.ndarray]:
    """Weights that make every part of the model matter, by Hugging Face's names."""
    shapes = {"wte.weight": (V, D), "wpe.weight": (C, D)}
    for i in range(L):
        matrices = {"attn.c_attn": (D, 3 * D), "attn.c_proj": (D, D), "mlp.c_fc": (D, 4 * D), "mlp.c_proj": (4 * D, D)}
        for name, shape in matrices.items():
            shapes |= {f"h.{i}.{name}.weight": shape, f"h.{i}.{name}.bias": shape[1:]}
        shapes |= {f"h.{i}.{norm}.{part}": (D,) for norm in ("ln_1", "ln_2") for part in ("weight", "bias")}
    shapes |= {f"ln_f.{part}": (D,) for part in ("weight", "bias")}
    chance = np.random.default_rng(0)
    made = {name: chance.normal(0, 0.3, shape) + ("ln_" in name and "weight" in name) for name, shape in shapes.items()}
    return {name: array.astype(np.float32) for name, array in made.items()}


ACTIVATIONS = {
    "gelu_new": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "relu": lambda x: np.maximum(x, 0),
}


def gpt2_logits(weights, tokens, activation="gelu_new", eps=1e-5, scale=None, causal=True, heads=3) -> np.ndarray:
    """The logits (n, V) of tokens (n,): GPT-2, head by head; a bias that is missing is 0."""
    w = {name: np.asarray(array, np.float64) for name, array in weights.items()}

    def norm(x, name):
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return y * w[f"{name}.weight"] + w.get(f"{name}.bias", 0)

    def affine(x, name):
        return x @ w[f"{name}.weight"] + w.get(f"{name}.bias", 0)

    n, D = len(tokens), w["wte.weight"].shape[1]
    x = w["wte.weight"][tokens] + w["wpe.weight"][:n]
    for i in range(sum(name.endswith("c_fc.weight") for name in w)):
        q, k, v = np.split(affine(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, axis=-1)
        results = []
        for h in range(heads):
            part = slice(h * D // heads, (h + 1) * D // heads)
            scores = q[:, part] @ k[:, part].T / math.sqrt(D // heads if scale is None else scale)
            scores = np.where(np.tri(n), scores, -np.inf) if causal else scores
            attention = np.exp(scores - scores.max(-1, keepdims=True))
            results.append(attention / attention.sum(-1, keepdims=True) @ v[:, part])
        x = x + affine(np.concatenate(results, -1), f"h.{i}.attn.c_proj")
        inner = ACTIVATIONS[activation](affine(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"))
        x = x + affine(inner, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w.get("lm_head.weight", w["wte.weight"]).T


def train_vocabulary():
    """Byte-level BPE of 290 tokens, as GPT-2's is made, with its special token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=290, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False
    )
    made.train_from_iterator([TEXT], trainer)
    return made

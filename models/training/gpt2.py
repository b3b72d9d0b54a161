"""GPT-2 beside the decoder of document 003: the same weights under other names, in other shapes.

| GPT-2, in layer i           | here                    | shapes                                          |
|-----------------------------|-------------------------|-------------------------------------------------|
| wte.weight, wpe.weight      | E, P                    | (V, D), (C, D)                                  |
| ln_1, ln_2, ln_f            | enter, middle, final    | (D)                                             |
| attn.c_attn.weight          | Q, K, V side by side    | (D, 3D) there, three of (H, D, K) here          |
| attn.c_attn.bias            | q, k, v side by side    | (3D), three of (H K)                            |
| attn.c_proj                 | W, w                    | (D, D), (D)                                     |
| mlp.c_fc, mlp.c_proj        | F, b, G, c              | (D, F), (F), (F, D), (D)                        |
| lm_head.weight, if not tied | O                       | (V, D) there, (D, V) here                       |

Hugging Face stores the four matrices of a layer as (in, out), and so does this decoder; nanoGPT, with PyTorch's Linear,
stores them as (out, in).
"""

import re
from collections.abc import Callable, Iterable

import numpy as np

from models.decoder import Config, Decoder
from models.training.checkpoint import CheckpointError
from tinytensor import Tensor

MATRICES = re.compile(r"(c_attn|c_proj|c_fc)\.weight$")  # those that nanoGPT stores the other way round
MASKS = re.compile(r"h\.\d+\.attn\.(masked_)?bias$")  # older files hold the causal mask, which is no weight
ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu", "relu": "relu"}


class ExchangeError(CheckpointError):
    """A folder does not hold a model that can be read, or a run cannot be written in the other layout."""


# --- Configurations


def config_from(described: dict, tied: bool) -> Config:
    """The configuration that a config.json of Hugging Face describes; ExchangeError if it is not GPT-2's."""
    if described.get("model_type", "gpt2") != "gpt2":
        raise ExchangeError(f"config.json describes a {described['model_type']!r} model; only 'gpt2' can be imported")
    for name, usual in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
        if described.get(name, usual) is not usual:
            raise ExchangeError(f"config.json says {name} = {described[name]!r}; this decoder has it only as {usual}")
    activation = described.get("activation_function", "gelu_new")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ExchangeError(f"config.json says activation_function = {activation!r}; expected {', '.join(ACTIVATIONS)}")
    D = _needed(described, "n_embd")
    return Config(
        D=D,
        H=_needed(described, "n_head"),
        F=4 * D if described.get("n_inner") is None else _needed(described, "n_inner"),
        L=_needed(described, "n_layer"),
        V=_needed(described, "vocab_size"),
        C=_needed(described, "n_positions" if "n_positions" in described else "n_ctx"),
        eps=_number(described, "layer_norm_epsilon", 1e-5),
        dropout=_number(described, "resid_pdrop", 0.1),
        activation=ACTIVATIONS[activation],
        **_layout("affine", True, tied),
    )


def config_from_arguments(arguments: dict, tied: bool) -> Config:
    """The configuration that the model_args of nanoGPT describe."""
    D, bias = _needed(arguments, "n_embd"), arguments.get("bias", True)
    if type(bias) is not bool:
        raise ExchangeError(f"the configuration says bias = {bias!r}; expected true or false")
    return Config(
        D=D,
        H=_needed(arguments, "n_head"),
        F=4 * D,
        L=_needed(arguments, "n_layer"),
        V=_needed(arguments, "vocab_size"),
        C=_needed(arguments, "block_size"),
        dropout=_number(arguments, "dropout", 0.0),
        activation="gelu",
        **_layout("affine" if bias else "scale", bias, tied),
    )


def _layout(norm: str, bias: bool, tied: bool) -> dict:
    return {
        "residual": "pre-norm",
        "final_norm": True,
        "norm": norm,
        "tied": tied,
        "attention_bias": bias,
        "bias": bias,
    }


def _needed(described: dict, name: str) -> int:
    value = described.get(name)
    if type(value) is not int or value < 1:
        raise ExchangeError(f"the configuration says {name} = {value!r}; a whole number of 1 or more is needed")
    return value


def _number(described: dict, name: str, usual: float) -> float:
    value = described.get(name, usual)
    if type(value) not in (int, float):
        raise ExchangeError(f"the configuration says {name} = {value!r}; a number is needed")
    return float(value)


def described(config: Config) -> dict:
    """The config.json of Hugging Face for a decoder; ExchangeError if GPT-2 lacks one of its switches."""
    needed = {"residual": "pre-norm", "final_norm": True, "positions": True, "causal": True}
    odd = [f"{name} = {getattr(config, name)}" for name, value in needed.items() if getattr(config, name) != value]
    if config.norm == "rms":
        odd.append("norm = rms")
    if odd:
        usual = ", ".join(f"{name} = {value}" for name, value in needed.items())
        raise ExchangeError(
            f"this run has {', '.join(odd)}, for which GPT-2's layout has no place; it needs {usual} and norms that "
            "are not rms, as --config nano and --config gpt2 have them"
        )
    activation = {here: there for there, here in reversed(ACTIVATIONS.items())}[config.activation]
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": activation,
        "n_embd": config.D,
        "n_head": config.H,
        "n_inner": config.F,
        "n_layer": config.L,
        "n_positions": config.C,
        "n_ctx": config.C,
        "vocab_size": config.V,
        "layer_norm_epsilon": config.eps,
        "tie_word_embeddings": config.tied,
        **{f"{layer}_pdrop": config.dropout for layer in ("attn", "embd", "resid")},
        "bos_token_id": None,
        "eos_token_id": None,
        "torch_dtype": "float32",
    }


# --- Weights


def weights_from(config: Config, names: Iterable[str], read: Callable[[str], np.ndarray]) -> dict[str, Tensor]:
    """The decoder's weights, from those of GPT-2, which `read` gives by their names without "transformer.".

    Matrices are (in, out). ExchangeError if a weight is missing, has another shape, holds NaN or inf, or is left over.
    """
    left, weights = {name for name in names if not MASKS.search(name)}, {}
    D, H, K = config.D, config.H, config.K

    def take(name: str, *shape: int) -> np.ndarray:
        if name not in left:
            raise ExchangeError(f"the weight {name} is missing")
        left.remove(name)
        array = read(name)
        if array.shape != shape or array.dtype != np.float32:
            raise ExchangeError(f"{name} is {array.dtype} {array.shape}; expected float32 {shape}")
        if not np.isfinite(array).all():
            raise ExchangeError(f"{name} holds NaN or inf")
        return array

    def norm(here: str, there: str) -> None:
        weights[f"{here}.weight"] = take(f"{there}.weight", D)
        if config.norm == "affine":
            weights[f"{here}.bias"] = take(f"{there}.bias", D)

    def matrix(here: str, bias: str, there: str, *shape: int) -> None:
        weights[here] = take(f"{there}.weight", *shape)
        if config.bias:
            weights[bias] = take(f"{there}.bias", shape[1])

    weights["E"], weights["P"] = take("wte.weight", config.V, D), take("wpe.weight", config.C, D)
    for i in range(config.L):
        here, there = f"blocks.{i}", f"h.{i}"
        norm(f"{here}.enter", f"{there}.ln_1")
        together = take(f"{there}.attn.c_attn.weight", D, 3 * D)
        for n, letter in enumerate("QKV"):
            weights[f"{here}.{letter}"] = together[:, n * D : (n + 1) * D].reshape(D, H, K).transpose(1, 0, 2)
        if config.attention_bias:
            biases = take(f"{there}.attn.c_attn.bias", 3 * D)
            weights |= {f"{here}.{letter}": biases[n * D : (n + 1) * D] for n, letter in enumerate("qkv")}
        matrix(f"{here}.W", f"{here}.w", f"{there}.attn.c_proj", D, D)
        norm(f"{here}.middle", f"{there}.ln_2")
        matrix(f"{here}.F", f"{here}.b", f"{there}.mlp.c_fc", D, config.F)
        matrix(f"{here}.G", f"{here}.c", f"{there}.mlp.c_proj", config.F, D)
    norm("final", "ln_f")
    if not config.tied:
        weights["O"] = take("lm_head.weight", config.V, D).T
    left.discard("lm_head.weight")
    if left:
        raise ExchangeError(f"GPT-2 has no weight {', '.join(sorted(left)[:5])}: is this another model?")
    order = Decoder(config, device="meta").state_dict()
    return {name: Tensor.of(weights[name]) for name in order}


def weights_for(config: Config, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of GPT-2 under Hugging Face's names, from a decoder's. Biases that it lacks are 0, and gammas 1.

    The dictionary is empty afterwards, so that no second copy is held.
    """
    D, arrays = config.D, {}

    def take(name: str, size: int = 0, value: float = 0.0) -> np.ndarray:
        return weights.pop(name).numpy() if name in weights else np.full(size, value, np.float32)

    def norm(here: str, there: str) -> None:
        arrays[f"{there}.weight"], arrays[f"{there}.bias"] = take(f"{here}.weight", D, 1.0), take(f"{here}.bias", D)

    arrays["wte.weight"], arrays["wpe.weight"] = take("E"), take("P")
    for i in range(config.L):
        here, there = f"blocks.{i}", f"h.{i}"
        norm(f"{here}.enter", f"{there}.ln_1")
        heads = [take(f"{here}.{letter}").transpose(1, 0, 2).reshape(D, D) for letter in "QKV"]
        arrays[f"{there}.attn.c_attn.weight"] = np.concatenate(heads, axis=1)
        arrays[f"{there}.attn.c_attn.bias"] = np.concatenate([take(f"{here}.{letter}", D) for letter in "qkv"])
        matrices = (("W", "w", "attn.c_proj", D), ("F", "b", "mlp.c_fc", config.F), ("G", "c", "mlp.c_proj", D))
        for letter, bias, name, out in matrices:
            arrays[f"{there}.{name}.weight"] = take(f"{here}.{letter}")
            arrays[f"{there}.{name}.bias"] = take(f"{here}.{bias}", out)
        norm(f"{here}.middle", f"{there}.ln_2")
    norm("final", "ln_f")
    arrays = {f"transformer.{name}": array for name, array in arrays.items()}
    if not config.tied:
        arrays["lm_head.weight"] = take("O").T
    return {name: Tensor.of(array) for name, array in arrays.items()}

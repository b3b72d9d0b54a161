"""Folders with a model of another program: Hugging Face's GPT-2, and nanoGPT's.

    Hugging Face   config.json; model.safetensors, or several of them with model.safetensors.index.json, or
                   pytorch_model.bin; tokenizer.json, or vocab.json and merges.txt
    nanoGPT        ckpt.pt; meta.json or meta.pkl, or one of the vocabularies above

No code of a file is run. What a folder holds is checked before a run is written.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from models.data.tokenizers import LibraryTokenizer, TextError, Tokenizer
from models.data.vocabularies import json_object, vocabulary
from models.decoder import Config
from models.training import checkpoint, memory
from models.training.gpt2 import (
    MATRICES,
    ExchangeError,
    config_from,
    config_from_arguments,
    described,
    weights_for,
    weights_from,
)
from models.training.trainer import Settings
from tinytensor import Tensor, load
from tinytensor.interop.io.files import writing
from tinytensor.interop.io.serialization import Stored, save_file, write_atomically
from tinytensor.nn.module import WRAPPERS

INDEX, WEIGHTS, PICKLED, CHECKPOINT = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin",
    "ckpt.pt",
)


def import_folder(folder: Path) -> checkpoint.Checkpoint:
    """The model in a folder as the first checkpoint of a run; ExchangeError if the folder does not hold one."""
    try:
        if not folder.is_dir():
            raise ExchangeError("this is no folder")
        config, tokenizer, weights = (_nanogpt if (folder / CHECKPOINT).is_file() else _hugging_face)(folder)
    except (ExchangeError, TextError) as error:
        raise ExchangeError(f"{folder}: {error}") from None
    except OSError as error:
        raise ExchangeError(f"{folder}: {error.filename or 'a file'} cannot be read: {error.strerror}") from None
    task = {"name": "text", "config": config.to_dict(), "tokenizer": tokenizer.to_dict(), "file": None}
    state = {"task": task, "settings": asdict(Settings()), "log": [], "imported": str(folder.resolve())}
    return checkpoint.Checkpoint(0, weights, {}, state)


# --- Hugging Face


def _hugging_face(folder: Path) -> tuple[Config, Tokenizer, dict[str, Tensor]]:
    if not (folder / "config.json").is_file():
        raise ExchangeError(f"there is neither config.json (Hugging Face) nor {CHECKPOINT} (nanoGPT)")
    about = json_object(folder / "config.json")
    names, read = _arrays(folder)
    plain = _plain(names)

    def read_plain(name: str) -> np.ndarray:
        return read(plain[name])

    tied = about.get("tie_word_embeddings", True)
    if type(tied) is not bool:
        raise ExchangeError(f"config.json says tie_word_embeddings = {tied!r}; expected true or false")
    if tied and "lm_head.weight" in plain and not np.array_equal(*map(read_plain, ("lm_head.weight", "wte.weight"))):
        raise ExchangeError("config.json says that lm_head.weight is wte.weight, but their values differ")
    config = _checked(lambda: config_from(about, tied))
    tokenizer = vocabulary(folder, config.V)
    return config, tokenizer, weights_from(config, plain, read_plain)


def _checked(make: Callable[[], Config]) -> Config:
    """A configuration that this machine can hold."""
    try:
        config = make()
        memory.check_fits(f"a model of {config.sizes()}", config.weights())
    except ExchangeError:
        raise
    except (ValueError, TypeError) as error:
        raise ExchangeError(f"its configuration cannot be used: {error}") from None
    return config


def _arrays(folder: Path) -> tuple[Iterable[str], Callable[[str], np.ndarray]]:
    """(the names of the weights, a function that reads one of them)."""
    if (folder / INDEX).is_file():
        files_by_name = json_object(folder / INDEX).get("weight_map")
        if not isinstance(files_by_name, dict) or not all(
            isinstance(file, str) and file == Path(file).name for file in files_by_name.values()
        ):
            raise ExchangeError(f"{INDEX} has no weight_map from names to files of this folder")
        files = {file: _stored(folder / file) for file in sorted(set(files_by_name.values()))}
        for name, file in files_by_name.items():
            if name not in files[file].shapes:
                raise ExchangeError(f"{INDEX} says that {name} is in {file}, where it is not")
        return files_by_name, lambda name: _read(files[files_by_name[name]], name)
    if (folder / WEIGHTS).is_file():
        stored = _stored(folder / WEIGHTS)
        return stored.shapes, lambda name: _read(stored, name)
    if (folder / PICKLED).is_file():
        tensors = _loaded(folder / PICKLED)
        return tensors, lambda name: tensors[name].detach().numpy()
    raise ExchangeError(f"there are no weights: none of {WEIGHTS}, {INDEX} and {PICKLED}")


def _plain(names: Iterable[str]) -> dict[str, str]:
    """The names by what they are without transformer., and without what DistributedDataParallel and compile add."""
    names = list(names)
    plain = {WRAPPERS.sub("", name).removeprefix("transformer."): name for name in names}
    if len(plain) < len(names):
        raise ExchangeError("a weight is there twice, with and without transformer., module. or _orig_mod. in its name")
    return plain


def _stored(path: Path) -> Stored:
    if not path.is_file():
        raise ExchangeError(f"{path.name} is missing")
    try:
        return Stored(path, "import")
    except (ValueError, RecursionError) as error:
        raise ExchangeError(str(error)) from None


def _read(stored: Stored, name: str) -> np.ndarray:
    try:
        return stored.read(name, widen=True)
    except (ValueError, TypeError) as error:
        raise ExchangeError(str(error)) from None


def _loaded(path: Path) -> dict[str, Any]:
    """The dictionary in a file of PyTorch, whose tensors stay in it until they are used."""
    try:
        value = load(path, mmap=True, widen=True)
    except (ValueError, TypeError) as error:
        raise ExchangeError(str(error)) from None
    return _named_tensors(value, path.name) if path.name == PICKLED else _dictionary(value, path.name)


def _dictionary(value: Any, what: str) -> dict:
    if not isinstance(value, dict):
        raise ExchangeError(f"{what} holds a {type(value).__name__}; expected a dictionary")
    return value


def _named_tensors(value: Any, what: str) -> dict[str, Tensor]:
    for name, tensor in _dictionary(value, what).items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ExchangeError(f"{what} holds a {type(tensor).__name__} under {name!r}; expected tensors by name")
    return value


# --- NanoGPT


def _nanogpt(folder: Path) -> tuple[Config, Tokenizer, dict[str, Tensor]]:
    held = _loaded(folder / CHECKPOINT)
    if not {"model", "model_args"} <= held.keys():
        raise ExchangeError(f"{CHECKPOINT} has no model and model_args, which nanoGPT writes")
    arguments = _dictionary(held["model_args"], "model_args")
    model = _named_tensors(held["model"], "model")
    tensors = {plain: model[name] for plain, name in _plain(model).items()}

    def read(name: str) -> np.ndarray:
        array = tensors[name].detach().numpy()
        return array.T if MATRICES.search(name) else array

    tied = "lm_head.weight" not in tensors or (
        "wte.weight" in tensors and np.array_equal(read("lm_head.weight"), read("wte.weight"))
    )
    config = _checked(lambda: config_from_arguments(arguments, tied))
    return config, vocabulary(folder, config.V, CHECKPOINT), weights_from(config, tensors, read)


# --- Export


def export_run(run: Path, folder: Path) -> Config:
    """Write the model of a run in Hugging Face's layout to a folder, which must be new or empty; its configuration."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExchangeError(f"{folder} is a file, or not empty; name a new folder")
    saved = checkpoint.load(run, ("weights",))
    from models.tasks import TASKS  # tasks draw pictures, which an import does not need

    with checkpoint.reading(run):
        task, state = TASKS[saved.state["task"]["name"]], saved.state["task"]
        if task.name != "text":
            raise checkpoint.CheckpointError(f"{run} was trained with --task {task.name}; GPT-2 is a model of text")
        config, tokenizer = task.described(state)
        for name, parameter in task.Model(config, device="meta").state_dict().items():
            if saved.weights[name].shape != parameter.shape:
                raise ValueError(f"{name} has the shape {saved.weights[name].shape}; expected {parameter.shape}")
    about, words = described(config), _tokenizer_json(tokenizer)
    with writing("the model", folder):
        folder.mkdir(parents=True, exist_ok=True)
        save_file(weights_for(config, saved.weights), folder / WEIGHTS, {"format": "pt"})
        write_atomically(folder / "tokenizer.json", words.encode())
        details = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config.C}
        write_atomically(folder / "tokenizer_config.json", json.dumps(details, indent=2).encode())
        write_atomically(folder / "config.json", json.dumps(about, indent=2).encode())
    return config


def _tokenizer_json(tokenizer: Tokenizer) -> str:
    """The text of a tokenizer.json for a tokenizer of a run."""
    if isinstance(tokenizer, LibraryTokenizer):
        return tokenizer.described
    return tokenizer.to_library().to_str()

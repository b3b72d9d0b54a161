"""Vocabularies that come with a model or with files of tokens: those of Hugging Face, and nanoGPT's meta.pkl.

No code of a file is run: a pickle may hold text, numbers, lists and dictionaries only.
"""

import json
from pathlib import Path
from typing import Any

from models.data.tokenizers import GivenTokenizer, LibraryTokenizer, TextError, Tokenizer
from tinytensor.interop.io.files import described
from tinytensor.interop.io.unpickling import unpickle

MOST_JSON = 100_000_000  # bytes; GPT-2's tokenizer.json has 2 million


def meta(path: Path) -> dict:
    """The content of nanoGPT's meta.pkl, or of the same as JSON; TextError if it is no dictionary."""
    if path.suffix == ".json":
        return json_object(path)
    try:
        return _dictionary(unpickle(path.read_bytes(), {}, _refuse), path.name)
    except (ValueError, TypeError, LookupError) as error:
        raise TextError(f"{path.name} cannot be read: {described(path.read_bytes()[:4096], error)}") from None


def _refuse(number: Any) -> Any:
    raise ValueError("it names a value outside itself")


def _characters(held: dict, V: int | None) -> GivenTokenizer:
    """The characters of nanoGPT's vocabulary, in the order of their ids."""
    by_id = held.get("itos")
    if not isinstance(by_id, dict):
        raise TextError("the meta file has no itos, the character of each id")
    V = len(by_id) if V is None else V
    pieces = [by_id.get(i, by_id.get(str(i))) for i in range(V)]  # JSON makes text of the ids
    try:
        return GivenTokenizer(pieces)
    except (ValueError, TypeError) as error:
        raise TextError(f"the itos of the meta file does not name {V} characters, one for each id: {error}") from None


def vocabulary(folder: Path, V: int | None, beside: str = "") -> Tokenizer:
    """The tokenizer that lies in a folder, for a model of V tokens (None: as many as it has); TextError if none does.

    It is tokenizer.json, or GPT-2's vocab.json and merges.txt; `beside` a file of nanoGPT also meta.json or meta.pkl.
    """
    for name in ("meta.json", "meta.pkl") if beside else ():
        if (folder / name).is_file():
            return _characters(meta(folder / name), V)
    try:
        if (folder / "tokenizer.json").is_file():
            json_object(folder / "tokenizer.json")
            return LibraryTokenizer(_text(folder / "tokenizer.json"), V)
        if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
            return LibraryTokenizer(_bytes_described(folder), V)
    except (ValueError, ImportError) as error:
        raise TextError(str(error)) from None
    names = "tokenizer.json, or vocab.json and merges.txt"
    names += f"; meta.json or meta.pkl beside {beside}" if beside else ""
    raise TextError(f"there is no vocabulary: {names} are needed")


def _bytes_described(folder: Path) -> str:
    """The tokenizer.json of byte-level BPE, from the two files that GPT-2 came with."""
    ids = json_object(folder / "vocab.json")
    lines = [line for line in _text(folder / "merges.txt").split("\n") if line and not line.startswith("#version")]
    merges = [line.split(" ") for line in lines]
    if not all(type(i) is int for i in ids.values()) or not all(len(pair) == 2 for pair in merges):
        raise TextError("vocab.json must give an id to each piece, and merges.txt two pieces in each line")
    special = [name for name in ("<|endoftext|>",) if name in ids]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
    }
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "normalizer": None,
            "post_processor": None,
            "added_tokens": [{"id": ids[name], "content": name, **flags} for name in special],
            "pre_tokenizer": bytes_,
            "decoder": bytes_,
            "model": model | {"vocab": ids, "merges": merges},
        }
    )


def _text(path: Path) -> str:
    if path.stat().st_size > MOST_JSON:
        raise TextError(f"{path.name} has {path.stat().st_size:,} bytes; expected at most {MOST_JSON:,}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        reason = described(path.read_bytes()[:4096], "save it as UTF-8")
        raise TextError(f"{path.name} is not UTF-8 at byte {error.start}: {reason}") from None


def json_object(path: Path) -> dict:
    """The object in a JSON file; TextError if there is none."""
    try:
        return _dictionary(json.loads(_text(path)), path.name)
    except TextError:
        raise
    except (ValueError, RecursionError) as error:
        raise TextError(f"{path.name} is no JSON: {described(path.read_bytes()[:4096], str(error)[:200])}") from None


def _dictionary(value: Any, what: str) -> dict:
    if not isinstance(value, dict):
        raise TextError(f"{what} holds a {type(value).__name__}; expected a dictionary")
    return value

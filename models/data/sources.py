"""Where the text of a run comes from: a file, a folder of files, lines of JSON, or files of tokens.

    FILE            one UTF-8 text, which gzip may have compressed, as all of these but files of tokens; or a pipe
    FOLDER          the texts in it and below it that end in .txt or .md, in the order of their names
    FILE.jsonl      a JSON object in each line; the text is in one of its fields
    FOLDER          with train.bin and val.bin: tokens of 16 bits, as nanoGPT's prepare.py writes them, and a vocabulary

Files of tokens are mapped into memory: they may be larger than it.
"""

import hashlib
from pathlib import Path

import numpy as np

from models.data.decoding import ending, is_pipe
from models.data.text import Corpus, NoText, read_json, read_text, report_lines
from models.data.tokenizers import TextError, Tokenizer
from models.data.vocabularies import vocabulary

TRAIN, HELDOUT = "train.bin", "val.bin"
ENDINGS = (".txt", ".md")
FIELD = "text"
CHUNK = 1 << 22  # tokens that are looked at together
UPPER, LOWER = 15, 255  # tokens of 32 bits: no upper half is above 15, while a lower half is above 255


def holds_tokens(path: Path) -> bool:
    """Is this a folder with files of tokens?"""
    return path.is_dir() and ((path / TRAIN).exists() or (path / HELDOUT).exists())


def documents(path: Path, field: str | None, note) -> list[str]:
    """The texts of a file or a folder; TextError if there are none. `note` reports what was changed or left out.

    `field` names the field of .jsonl files, and is refused for other ones.
    """
    if not path.is_dir() and (ending(path) == ".jsonl" or (field is not None and is_pipe(path))):
        return [_of_json_lines(path, FIELD if field is None else field, note)]
    if field is not None:
        raise TextError(f"--field {field}: {path} is no .jsonl file, which alone has fields")
    if not path.is_dir():
        return [read_text(path, note)]
    files = sorted(file for file in path.rglob("*") if ending(file) in ENDINGS and file.is_file())
    if not files:
        raise TextError(f"{path} is a folder without {', '.join(ENDINGS)} files, and without {TRAIN} and {HELDOUT}")
    texts = []
    for file in files:
        try:
            texts.append(read_text(file, note))
        except NoText as error:
            note(f"{error}; skipped")
    if not texts:
        raise NoText(f"{path}: no file in this folder holds a text: there is nothing to learn from")
    return texts


def _of_json_lines(path: Path, field: str, note) -> str:
    """The texts of all lines, one after the other; what follows each is a line end."""
    texts, bad = [], []
    for number, line in enumerate(read_text(path, note).split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = read_json(line)
        except (ValueError, RecursionError):
            bad.append((number, "this is no JSON"))
            continue
        value = entry.get(field) if isinstance(entry, dict) else None
        if isinstance(value, str):
            texts.append(value)
        else:
            bad.append((number, f"there is no text under {field!r}"))
    if not any(text.strip() for text in texts):
        reason = f": line {bad[0][0]}: {bad[0][1]}; --field names the field" if bad else ""
        raise TextError(f"{path} holds no text under {field!r}{reason}")
    report_lines(path, bad, False, note)
    return "".join(f"{text}\n" for text in texts)


def tokens(folder: Path, tokenizer=None) -> Corpus:
    """The files of tokens in a folder, with the vocabulary that lies beside them, or with the one given.

    TextError, before anything is computed, if a file is missing, of an odd length, seems to hold numbers of 32 or 64
    bits, or holds a token outside the vocabulary.
    """
    parts = [_mapped(folder / name) for name in (TRAIN, HELDOUT)]
    try:
        tokenizer = vocabulary(folder, None, TRAIN) if tokenizer is None else tokenizer
    except TextError as error:
        raise TextError(f"{folder}: {error}") from None
    for name, part in zip((TRAIN, HELDOUT), parts, strict=True):
        _check_width(folder / name, part)
        largest = max(int(part[i : i + CHUNK].max()) for i in range(0, len(part), CHUNK))
        if largest >= tokenizer.vocab_size:
            raise TextError(
                f"{folder / name} holds the token {largest}, but the vocabulary has {tokenizer.vocab_size} tokens: "
                "is it the vocabulary of these files?"
            )
    return Corpus(tokenizer, *parts, 0, 0)


def _check_width(path: Path, part: np.ndarray) -> None:
    """TextError for a file of wider numbers: their upper parts are 0, or at most UPPER in a large vocabulary."""
    if bytes(part[:3]).startswith(b"\x93NUMPY"):
        raise TextError(f"{path} is an array of NumPy (.npy); write the numbers alone, with array.tofile()")
    for bits in (64, 32):
        count = bits // 16
        numbers = part[: len(part) // count * count].reshape(-1, count)
        if len(part) % count or not len(part):
            continue
        chunks = (numbers[i : i + CHUNK] for i in range(0, len(numbers), CHUNK))
        lowest, second, *rest = np.max([chunk.max(0) for chunk in chunks], 0)
        if not any(rest) and (0 == second < lowest or (second <= UPPER and lowest > LOWER)):
            raise TextError(
                f"{path} seems to hold numbers of {bits} bits, whose upper parts are {'at most ' if second else ''}"
                f"{second}; tokens of 16 bits are needed: "
                f'np.fromfile("{path.name}", "<i{bits // 8}").astype("<u2").tofile(...)'
            )


def check_vocabulary(folder: Path, own: Tokenizer, known: Tokenizer) -> None:
    """TextError unless the tokens of a folder, whose vocabulary is `own`, stand for the same text in another one."""
    if own.ids() != known.ids():
        raise TextError(
            f"the tokens of {folder} belong to another vocabulary than the run's; name the text that they were made of"
        )


def _mapped(path: Path) -> np.ndarray:
    """The tokens of a file, in the file itself."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise TextError(f"{path} is no file")
        if size % 2 or not size:
            raise TextError(
                f"{path} has {size} bytes; tokens of 16 bits take an even number, and at least one is needed"
            )
        return np.memmap(path, "<u2", "r")
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}; {TRAIN} and {HELDOUT} are needed") from None


def fingerprint(corpus: Corpus) -> dict:
    """The fingerprint of files of tokens, which are not copied for it: {"tokens", "sha256"}."""
    digest = hashlib.sha256()
    for part in (corpus.train, corpus.heldout):
        for i in range(0, len(part), CHUNK):
            digest.update(part[i : i + CHUNK].tobytes())
        digest.update(b"|")
    return {"tokens": len(corpus.train) + len(corpus.heldout), "sha256": digest.hexdigest()}

"""`show(model, "page.html", tokenizer)`: one file that shows a trained model at work, and learns in the browser.

The file needs no network and no server, and a policy in its head forbids it to load anything. The weights stand in it
as text: the model's as float32, those of earlier steps of its training as float16.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from pathlib import Path

import numpy as np

from models.data import grammar, pairs
from models.data.tokenizers import KINDS, BPETokenizer, Tokenizer
from models.decoder import Decoder
from models.inference.translate import translate
from models.show.letters import letters
from models.show.lines import Table
from models.show.program import table
from models.transformer import Transformer
from tinytensor import Tensor
from tinytensor.interop.io.serialization import write_atomically
from tinytensor.utils.display.latex import mathml, split

LARGEST = 8_000_000  # bytes of a page
PROGRAM = ("operations.js", "program.js", "worker.js")  # what a worker runs, too
SCRIPTS = ("tokenizer.js", "draw.js", "plan.js", "pair.js", "tour.js", "page.js")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; worker-src blob:"
TEXT = "The value of the expression is the result."


def show(
    model: Decoder | Transformer,
    path: str | Path,
    tokenizer: Tokenizer,
    text: str | None = None,
    *,
    target: str | None = None,
    step: int = 0,
    settings: Mapping | None = None,
    snapshots: Mapping[int, Mapping[str, Tensor]] | None = None,
    losses: Iterable[tuple[int, float]] = (),
    title: str = "The trained model",
) -> Path:
    """Write one HTML file that shows this model, by the equations of its document; return its path.

    A decoder has equations (1) to (18) of document 003, an encoder-decoder those of 004. `text` is the first text of
    the page (by default a sentence that fits); for an encoder-decoder it is the source sentence, and `target` is its
    translation (by default the model's own). `step` is the number of steps that the model
    was trained for, `settings` are those of the optimizer (optimizer, lr, betas, weight_decay, clip), `snapshots` are
    the weights at earlier steps, by name, and `losses` the training's (step, loss). Raises UnknownModule, a ValueError,
    for a module that the page has no equations for, and ValueError for a text or a model that the page cannot hold.
    ModuleNotFoundError if latex2mathml is missing (the viz extra).
    """
    made = table(model)
    if made.pair is None:
        if target is not None:
            raise ValueError("show: a target was given, but a decoder has none; give its text alone")
        texts = {"text": first_text(tokenizer, model, text)}
    else:
        source, target = first_pair(tokenizer, model, text, target)
        texts = {"text": target, "source": source}
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    names = [variable.weight for variable in made.variables if variable.weight is not None]
    data = {
        "title": title,
        **texts,
        "table": _typeset(made),
        "shapes": {v.key: _as_cube(weights[v.weight].shape) for v in made.variables if v.weight},
        "tokenizer": tokenizer.to_dict(),
        "settings": {"optimizer": "adamw", "lr": 0.015, "betas": [0.9, 0.99], "weight_decay": 0.1, "clip": 1.0}
        | {k: v for k, v in (settings or {}).items() if k in ("optimizer", "lr", "betas", "weight_decay", "clip")}
        | {"eps": 1e-8},
        "losses": [[int(at), float(loss)] for at, loss in losses],
        "models": [{"step": step, "type": "float32", "weights": _base64(weights, names, np.float32)}],
    }
    earlier = {s: w for s, w in sorted((snapshots or {}).items()) if s < step}
    size = sum(weights[name].size for name in names)
    room = LARGEST - len(_page(data)) - 1000
    if room < 0:
        raise ValueError(
            f"show: a model of {size:,} parameters needs a page of more than {LARGEST / 1e6:.0f} MB, which browsers "
            "open slowly: show a smaller one"
        )
    chosen = _spread(list(earlier), room // (size * 2 * 4 // 3 + 100))
    for at in chosen:
        arrays = {name: value.numpy() for name, value in earlier[at].items()}
        data["models"].insert(-1, {"step": at, "type": "float16", "weights": _base64(arrays, names, np.float16)})
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _page(data).encode())
    return path


# --- Checks


def check_tokenizer(tokenizer: Tokenizer, name: str, V: int) -> None:
    """Raise ValueError for a tokenizer of another vocabulary (`name` is V), or one that tokenizer.js cannot follow."""
    if tokenizer.vocab_size != V:
        raise ValueError(f"show: the tokenizer knows {tokenizer.vocab_size} tokens, but the model has {name} = {V}")
    if tokenizer.scheme not in KINDS:
        raise ValueError("show: the page cannot follow the tokenizer of an imported model")
    pattern = getattr(tokenizer, "pattern", BPETokenizer.PIECES)
    if pattern not in (BPETokenizer.PIECES, pairs.PATTERN):
        raise ValueError(
            f"show: the tokenizer cuts texts at {pattern!r}, which the page cannot do in JavaScript; "
            f"expected {BPETokenizer.PIECES!r}, or {pairs.PATTERN!r} for pairs of sentences"
        )


def first_text(tokenizer: Tokenizer, model: Decoder, text: str | None) -> str:
    """The first text of a decoder's page; ValueError for one that the model cannot read."""
    C = model.config.C
    check_tokenizer(tokenizer, "V", model.config.V)
    text = _fitting(tokenizer, C, TEXT) if text is None else text
    tokens = tokenizer.encode(text)
    if not tokens:
        raise ValueError("show: the text is empty; give at least one character")
    if len(tokens) > C:
        raise ValueError(f"show: the text has {len(tokens)} tokens, but the context holds C = {C}: give a shorter one")
    if tokenizer.unknown_count(tokens):
        pieces = tokenizer.split(text) if tokenizer.scheme == "word" else text
        _refuse_unknown({piece for piece in pieces if piece not in tokenizer.tokens})
    return text


def first_pair(tokenizer: Tokenizer, model: Transformer, source: str | None, target: str | None) -> tuple[str, str]:
    """The first sentences of a translator's page; ValueError for ones that the model cannot read."""
    n_max = model.config.n_max
    check_tokenizer(tokenizer, "n_vol", model.config.n_vol)
    source = pairs.tidy(_fitting(tokenizer, n_max - 1, f" {grammar.KNOWN}") if source is None else source)
    if not source:
        raise ValueError("show: the source sentence is empty; give at least one word")
    _check_sentence(tokenizer, "source sentence", source, n_max)
    if target is None:
        tokens = pairs.encode(tokenizer, source)
        target = _readable(tokenizer, translate(model, [tokens], limit=2 * len(tokens) + 10)[0], n_max)
    else:
        _check_sentence(tokenizer, "target with <stop>", target, n_max, ends=1)
    return source, pairs.tidy(target)


def _readable(tokenizer: Tokenizer, tokens: list[int], n_max: int) -> str:
    """The text of a translation, as far as a model of n_max tokens can read it, <stop> included.

    A model that has learned little writes tokens whose text, read again, may be more tokens: "a", "b" for "a b".
    """
    tokens = list(tokens)
    while len(pairs.encode(tokenizer, text := pairs.decode(tokenizer, tokens))) >= n_max:
        tokens.pop()
    return text


def _check_sentence(tokenizer: Tokenizer, name: str, sentence: str, n_max: int, ends: int = 0) -> None:
    count = len(pairs.encode(tokenizer, sentence)) + ends
    if count > n_max:
        raise ValueError(
            f"show: the {name} has {count} tokens, but the model takes n_max = {n_max}: give a shorter one"
        )
    _refuse_unknown(set(pairs.unknown_words(tokenizer, sentence)))


def _refuse_unknown(pieces: set[str]) -> None:
    """Raise ValueError if there are any pieces, which the vocabulary lacks."""
    unknown = sorted(pieces)
    if unknown:
        named = ", ".join(map(repr, unknown[:10])) + (" ..." if len(unknown) > 10 else "")
        raise ValueError(f"show: the model's vocabulary does not have {named}: leave out what it does not know")


def _fitting(tokenizer: Tokenizer, C: int, text: str) -> str:
    """A first text of at most C tokens: this one if the vocabulary knows it, else pieces of the vocabulary."""
    tokens = tokenizer.encode(text)
    if tokenizer.unknown_count(tokens) == 0:
        return tokenizer.decode(tokens[:C])
    pieces = tokenizer.tokens[tokenizer.unknown + 1 :][: min(C, 8)]
    while len(tokenizer.encode("".join(pieces))) > C or tokenizer.unknown_count(tokenizer.encode("".join(pieces))):
        pieces.pop()
    return "".join(pieces)


# --- The data


def _as_cube(shape: tuple[int, ...]) -> list[int]:
    """A shape as heads, rows and columns."""
    return [1] * (3 - len(shape)) + list(shape)


def _base64(arrays: Mapping[str, np.ndarray], names: list[str], dtype) -> str:
    """The weights one after the other, in the order of the table."""
    numbers = np.concatenate([np.ascontiguousarray(arrays[name]).reshape(-1) for name in names])
    limit = np.finfo(dtype).max
    return b64encode(np.clip(numbers, -limit, limit).astype(np.dtype(dtype).newbyteorder("<")).tobytes()).decode()


def _spread(steps: list[int], count: int) -> list[int]:
    """Of some steps at most `count`, the first one among them, the others at even distances in the list."""
    if len(steps) <= count:
        return steps
    return [steps[round(i * (len(steps) - 1) / max(1, count - 1))] for i in range(count)]


def _typeset(made: Table) -> dict:
    """The table as JSON can hold it, with MathML in place of LaTeX; each formula stands once, in "math"."""
    known: dict[str, int] = {}

    def number(latex: str) -> int:
        return known.setdefault(latex, len(known))

    data = made.as_json()
    for variable in data["variables"]:
        variable["tex"], variable["formula"] = number(variable["tex"]), number(variable["formula"])
    for operation in data["operations"]:
        operation["backward"] = [number(line) for line in operation["backward"]]
    data["letters"] = [row | {"tex": number(row["tex"])} for row in letters(made)]
    data["math"] = [_formula(latex) for latex in known]
    return data


def _formula(latex: str) -> str:
    return " ".join(escape(text) if words else mathml(text) for text, words in split(latex))


# --- The file


def _page(data: dict) -> str:
    """The whole file."""
    folder = resources.files("models.show")
    frame, style = ((folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css"))
    code, program = (
        "\n".join((folder / name).read_text(encoding="utf-8") for name in names) for names in (SCRIPTS, PROGRAM)
    )
    # "<" cannot stand in the data, so that no token or title ends the script element.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "POLICY": POLICY,
        "TITLE": escape(data["title"]),
        "STYLE": style,
        "DATA": text,
        "PROGRAM": program,
        "CODE": code,
    }
    pieces = frame.split("@@")  # text, name, text, name, ...
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))

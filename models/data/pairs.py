"""Pairs of sentences: read from a file, divided, and put into batches of one length."""

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field

import numpy as np

from models.data import tables
from models.data.decoding import ending
from models.data.text import TextError, go_to, read_text, report_lines
from models.data.tokenizers import Tokenizer
from models.transformer import PAD, SPECIAL, STOP

WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # of batches: few, as each is recorded on its own
PATTERN = r" ?\w{1,100}| ?[^\w\s]{1,100}|\s"  # inside which byte pairs merge: words with the space before them


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str
    line: int = field(default=0, compare=False, kw_only=True)  # where it stands in its file


def tidy(sentence: str) -> str:
    """One space between words and none at the ends, and composed letters: é is one character."""
    return " ".join(unicodedata.normalize("NFC", sentence).split())


def read_pairs(path, columns: tables.Columns | None = None, strict: bool = False, note=print) -> list[Pair]:
    """The pairs of a file: one a line, source and target in the columns named, by numbers from 1 or by names.

    Tabs stand between the columns; in a file .csv commas; a file .jsonl holds an object on each line. Without `columns`
    they are "source" and "target" where the first line, or the object, has these names; else the first two, or the
    second and the fourth if most lines have numbers in the first and the third (sentence pairs as Tatoeba exports them,
    with the numbers of the sentences). Further columns are not read. Lines that cannot be used are reported to `note`
    with their numbers and skipped; with `strict` they raise TextError.
    """
    text, suffix = read_text(path, note), ending(path).lower()
    if suffix == ".jsonl":
        rows = tables.objects(path, text, columns or NAMES)
    else:
        between = "," if suffix == ".csv" else "\t"
        rows = tables.rows(path, text, between, columns or _usual_columns(path, text, between, note))
    pairs: dict[Pair, None] = {}  # in the order of the file
    bad, repeated = [], 0
    if suffix != ".csv":  # there an empty line may stand between quotation marks
        bad = [(number, "it is empty") for number, line in enumerate(text.split("\n")[:-1], 1) if not line.strip()]
    for number, cells in rows:
        if isinstance(cells, str):
            bad.append((number, cells))
            continue
        pair = Pair(*map(tidy, cells), line=number)
        if not (pair.source and pair.target):
            bad.append((number, "a sentence is empty"))
        elif pair in pairs:
            repeated += 1
        else:
            pairs[pair] = None
    bad.sort()
    report_lines(path, bad, strict, note)
    if repeated:
        note(f"{path}: {repeated:,} lines repeat a pair and count once")
    if len(pairs) < 2:
        seen = "" if suffix == ".jsonl" else tables.seeming(text, between)
        needed = "at least 2 are needed, one to train on and one held out"
        raise TextError(f"{path}: {len(pairs)} usable pairs; {needed}{seen}")
    return list(pairs)


NAMES = ("source", "target")


def _usual_columns(path, text: str, between: str, note) -> tables.Columns:
    """The columns of a file that names none, or only its first line names them."""
    cells = [cells for _, cells in tables.lines(path, text, between)]
    if cells and {cell.strip() for cell in cells[0]} >= set(NAMES):
        return NAMES
    numbered = sum(len(c) >= 4 and c[0].strip().isdigit() and c[2].strip().isdigit() for c in cells)
    if numbered <= len(cells) / 2:
        return 1, 2
    note(f"{path}: columns 1 and 3 hold numbers; the sentences are taken from columns 2 and 4")
    return 2, 4


def held_out(source: str, fraction: float = 0.1) -> bool:
    """Is a source sentence held out, with all its translations? Its hash decides, the same on every machine."""
    return int.from_bytes(hashlib.sha256(source.encode()).digest()[:8]) < fraction * 2**64


def split_pairs(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """(train, held out): about a tenth of the source sentences is held out, at least one and not all."""
    train = [pair for pair in pairs if not held_out(pair.source)]
    rest = [pair for pair in pairs if held_out(pair.source)]
    if not train or not rest:  # a handful of pairs: the last source sentence is held out
        last = pairs[-1].source
        train, rest = [p for p in pairs if p.source != last], [p for p in pairs if p.source == last]
    if not train:
        raise TextError(f"all pairs have one source sentence, {pairs[-1].source!r}: there is nothing to hold out")
    return train, rest


# --- Tokens


def train_tokenizer(cls: type[Tokenizer], pairs: list[Pair], vocab_size: int | None) -> Tokenizer:
    """One vocabulary for both languages, since 004 has one W_Embedding for both."""
    texts = [" " + sentence for pair in pairs for sentence in (pair.source, pair.target)]
    if cls.scheme == "bpe":
        return cls.train(texts, vocab_size, SPECIAL, pattern=PATTERN, exact=False)
    return cls.train(texts, vocab_size, SPECIAL)


def encode(tokenizer: Tokenizer, sentence: str) -> list[int]:
    """Tokens of a sentence. A space goes before it, so that its first word is the same token as elsewhere."""
    return tokenizer.encode(" " + tidy(sentence))


def decode(tokenizer: Tokenizer, tokens: list[int]) -> str:
    return tokenizer.decode(tokens).strip()


def words(sentence: str) -> list[str]:
    """The words and punctuation marks of a sentence, each with the space before it."""
    return re.findall(PATTERN, " " + tidy(sentence))


def unknown_words(tokenizer: Tokenizer, sentence: str) -> list[str]:
    """The words of a sentence that the vocabulary lacks, in whole or in part."""
    return [piece.strip() for piece in words(sentence) if tokenizer.unknown_count(tokenizer.encode(piece))]


def labels(tokenizer: Tokenizer, tokens: list[int]) -> list[str]:
    """A label for each token on the axis of a picture."""
    return [tokenizer.tokens[i] if i < tokenizer.unknown else tokenizer.decode([i]).strip() for i in tokens]


# --- Batches

Example = tuple[list[int], list[int]]  # tokens of the source, and of the target with STOP at its end


def example(tokenizer: Tokenizer, pair: Pair) -> Example:
    """A pair in tokens. The target ends with STOP: 004's own example lacks it, but waits for it at inference."""
    return encode(tokenizer, pair.source), [*encode(tokenizer, pair.target), STOP]


def width_for(most: int, *lengths: int) -> int:
    """The least of WIDTHS that holds sentences of these lengths, but no more than `most`."""
    longest = max(lengths)
    return min(most, next((width for width in WIDTHS if width >= longest), longest))


def pad(rows: list[list[int]], width: int) -> np.ndarray:
    """Sentences as an array (B, width) of int64, PAD after their ends."""
    batch = np.full((len(rows), width), PAD, dtype=np.int64)
    for row, tokens in zip(batch, rows):
        row[: len(tokens)] = tokens
    return batch


class PairBatches:
    """Endless training batches of pairs of about one length, every pair once per epoch, in random order.

    No sentence is longer than `most`. A batch has `batch_size` rows and one of a few widths, so that its step is one of
    a few recordings. Pairs that do not fill a batch of their own width go into a wider one. The last batch of an epoch
    is filled up with empty rows, which do not count.
    """

    def __init__(self, examples: list[Example], most: int, batch_size: int, generator: np.random.Generator):
        self.examples, self.batch_size, self.generator = examples, batch_size, generator
        self._widths = np.array([width_for(most, len(x), len(y)) for x, y in examples])
        self.epoch = -1
        self._begin_epoch()

    def _begin_epoch(self):
        self.epoch, self.position = self.epoch + 1, 0
        self._epoch_state = self.generator.bit_generator.state
        order = self.generator.permutation(len(self.examples))
        batches, left = [], np.array([], dtype=np.int64)
        for width in sorted(set(self._widths)):
            left = np.concatenate([left, order[self._widths[order] == width]])
            full = len(left) - len(left) % self.batch_size
            batches += [(width, rows) for rows in left[:full].reshape(-1, self.batch_size)]
            left = left[full:]
        if len(left):
            batches.append((width, left))
        self._batches = [batches[i] for i in self.generator.permutation(len(batches))]

    def next(self) -> tuple[np.ndarray, np.ndarray]:
        """x, y: (batch_size, width) int64 each."""
        if self.position == len(self._batches):
            self._begin_epoch()
        width, rows = self._batches[self.position]
        self.position += 1
        return batch([self.examples[i] for i in rows], width, self.batch_size)

    def state_dict(self) -> dict:
        return {"epoch": self.epoch, "position": self.position, "generator": self._epoch_state}

    def load_state_dict(self, state: dict):
        """Continue where `state` was taken, with the same pairs."""
        go_to(self, state, lambda: len(self._batches))


def batch(examples: list[Example], width: int, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """x, y: (batch_size, width), empty rows after the examples."""
    empty = [[]] * (batch_size - len(examples))
    return pad([x for x, _ in examples] + empty, width), pad([y for _, y in examples] + empty, width)


def evaluation_batches(examples: list[Example], most: int, batch_size: int):
    """Yield x, y as PairBatches does, every pair once, short ones first."""
    examples = sorted(examples, key=lambda pair: width_for(most, *map(len, pair)))
    for first in range(0, len(examples), batch_size):
        chosen = examples[first : first + batch_size]
        yield batch(chosen, width_for(most, *map(len, chosen[-1])), batch_size)

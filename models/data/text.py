"""Text for training: where it comes from, which part is held out, and in what order it is read.

The tokens of all training parts stand in one long row, one document after the other, and a window may cross from one
document into the next: the model then sees a change of subject, as it would in any text. The held-out row likewise.
"""

import json
import re
from dataclasses import dataclass

import numpy as np

from models.data.decoding import text_of
from models.data.tokenizers import TextError, Tokenizer, without_surrogates

SHOWN = 10  # so many unusable lines are reported one by one
IGNORE_INDEX = -100  # a target that is not counted in the mean of eq. (16): cross_entropy's ignore_index


def default_corpus() -> list[str]:
    """The prose of Python's own language reference: the topics that `help()` prints, in alphabetical order.

    Every Python carries its version's text (`pydoc_data.topics`; 79 topics with 3.11, of whose 465,000 characters
    244,000 are left here). A quarter of the topics are sections of longer ones printed again ("if" and "for" stand in
    "compound" too). They are left out: otherwise much of the held-out text would stand in the training text as well.
    """
    from pydoc_data.topics import topics

    documents = [prose(document) for document in without_copies([topics[name] for name in sorted(topics)])]
    return [document for document in documents if document]


WRITTEN = str.maketrans({'"': "", "“": '"', "”": '"', "‘": "'", "’": "'", "—": "-", "–": "-", "…": "..."})


def prose(document: str) -> str:
    """The sentences of a text that Sphinx laid out, one paragraph a line: no grammar, programs, tables or headings.

    A paragraph is prose if it begins with a capital letter, ends as a sentence does, and most of what stands between
    its blanks are words. Bullets, stars of emphasis, numbers of footnotes and the marks "..." around code go; quotation
    marks and dashes become those of a keyboard.
    """
    document = re.sub(r"(?m)^( *)(\S.*)\n(?=\1   \S)", r"\1\2\n\n", document)  # a term is parted from its definition
    paragraphs = []
    for block in re.split(r"\n\s*\n|\n(?= *\* )", document):
        line = " ".join(block.translate(WRITTEN).split())
        line = re.sub(r"^(\*|\[\d+\]|\d+\.) ", "", line)
        line = re.sub(r" ?\[\d+\]", "", line)
        line = re.sub(r"(?<!\w)(\*{1,2})(\w|\w[^*]*\w)\1(?!\w)", r"\2", line)
        pieces = line.split()
        words = [piece for piece in pieces if re.fullmatch(r"\(?[A-Za-z][a-z'-]*[.,:;!?)]*", piece)]
        if re.match(r"\(?[A-Z]", line) and line.endswith((".", ":", ".)")) and 4 <= len(words) > 0.6 * len(pieces):
            paragraphs.append(line + "\n")
    return "".join(paragraphs)


def without_copies(documents: list[str]) -> list[str]:
    """The documents, without those that mostly (by half of the characters) repeat paragraphs of longer documents.

    Paragraphs that differ in white space only are the same.
    """
    paragraphs = [[" ".join(p.split()) for p in re.split(r"\n\s*\n", document)] for document in documents]
    seen, kept = set(), []
    for i in sorted(range(len(documents)), key=lambda i: (-len(documents[i]), i)):
        repeated = sum(len(p) for p in paragraphs[i] if p in seen)
        if 2 * repeated <= sum(map(len, paragraphs[i])):
            kept.append(i)
        seen.update(paragraphs[i])
    return [documents[i] for i in sorted(kept)]


class NoText(TextError):
    """A file holds no text, or one character, after which there is nothing to predict."""


def read_text(path, note=print) -> str:
    r"""A UTF-8 file as text; every line ends in \n, and a byte order mark is dropped. `note` reports changes.

    A file that gzip has compressed is unpacked. TextError if the file is missing, a folder, or not UTF-8; NoText if it
    has fewer than two characters.
    """
    text = text_of(path)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        note(f"{path}: line ends CRLF or CR were read as LF")
    if not text.strip():
        empty = "holds white space only" if text else "is empty"
        raise NoText(f"{path} {empty}: there is nothing to learn from")
    if len(text) == 1:
        raise NoText(f"{path} holds one character, {text!r}: there is nothing after it to predict")
    return text


def read_json(line: str):
    """The JSON value of a line, with U+FFFD for half a UTF-16 pair, which is no character; ValueError if it is none."""
    value = json.loads(line)
    if r"\ud" in line.lower():  # a pair has become one character
        value = json.loads(without_surrogates(json.dumps(value, ensure_ascii=False)))
    return value


def report_lines(path, bad: list[tuple[int, str]], strict: bool, note) -> None:
    """Report which lines of a file cannot be used, and why; with `strict` the first one raises TextError."""
    if bad and strict:
        raise TextError(f"{path}, line {bad[0][0]}: {bad[0][1]} ({len(bad)} such lines)")
    for number, reason in bad[:SHOWN]:
        note(f"{path}, line {number}: {reason}; skipped")
    if len(bad) > SHOWN:
        rest = ", ".join(str(number) for number, _ in bad[SHOWN:])
        note(f"{path}: {len(bad) - SHOWN:,} more lines skipped: {rest}")


def split(documents: list[str], fraction: float = 0.1) -> tuple[list[str], list[str]]:
    """(training parts, held-out parts): the end of each document is held out, about `fraction` of its characters.

    The cut is the last line end before that place, or sentence end, or white space, so that no word is halved; if
    none of them leaves the held-out part below twice the fraction, the cut is at the place itself.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"split: fraction must lie between 0 and 1, not {fraction}")
    cuts = [_cut(document, fraction) for document in documents]
    train = [document[:cut] for document, cut in zip(documents, cuts, strict=True)]
    return train, [document[cut:] for document, cut in zip(documents, cuts, strict=True)]


def _cut(document, fraction):
    limit = round(len(document) * (1 - fraction))
    for boundary in ("\n", ". ", " "):
        boundary_at = document.rfind(boundary, 0, limit)
        if boundary_at > len(document) * (1 - 2 * fraction):
            return boundary_at + len(boundary)
    return limit


@dataclass
class Corpus:
    """Text ready for training: tokens, the tokenizer they belong to, and the lengths in characters (0: not known).

    Tokens are int64 arrays, or files of 16-bit numbers that are mapped into memory.
    """

    tokenizer: Tokenizer
    train: np.ndarray
    heldout: np.ndarray
    train_characters: int
    heldout_characters: int


def prepare(
    documents: list[str], tokenizer: type[Tokenizer] | Tokenizer, vocab_size=None, fraction=0.1, **options
) -> Corpus:
    """Split the documents, train the tokenizer on the training parts only, and encode both parts.

    `tokenizer` is a class, to be trained to `vocab_size` with its own options, or a tokenizer that is trained already.
    """
    train, heldout = split(documents, fraction)
    if isinstance(tokenizer, type):
        tokenizer = tokenizer.train(train, vocab_size, **options)

    def encode(texts):
        return np.array([i for text in texts for i in tokenizer.encode(text)], dtype=np.int64)

    return Corpus(tokenizer, encode(train), encode(heldout), sum(map(len, train)), sum(map(len, heldout)))


def check_context(train_tokens, heldout_tokens, context: int):
    """Raise TextError unless a window of `context` tokens and the one to predict fits each of the two parts."""
    shorter = min(len(train_tokens), len(heldout_tokens))
    if shorter < context + 1:
        advice = f"use a context of at most {shorter - 1}, or a longer text" if shorter > 1 else "use a longer text"
        raise TextError(
            f"the text is too short: {len(train_tokens)} training and {len(heldout_tokens)} held-out tokens, "
            f"where a context of {context} needs {context + 1} of each: {advice}"
        )


class Batches:
    """Endless training batches: windows of `context`+1 tokens, every token seen once per epoch, in random order.

    An epoch cuts the row of tokens into windows from a random offset (so that the seams, and with them the positions of
    the tokens, differ from epoch to epoch) and shuffles them. A batch may end one epoch and begin the next.

    `generator` is `numpy.random.default_rng(seed)`, for this use alone: with its state at the beginning of the epoch
    and the position in it, a run continues bit for bit (`state_dict`, which JSON can hold).
    """

    def __init__(self, tokens, context: int, batch_size: int, generator: np.random.Generator):
        if not isinstance(generator.bit_generator, np.random.PCG64):  # others keep arrays, which JSON cannot hold
            raise TypeError("Batches: generator must be numpy.random.default_rng(seed)")
        if context < 1 or batch_size < 1:
            raise ValueError(f"Batches: context ({context}) and batch_size ({batch_size}) must be at least 1")
        if len(tokens) < context + 1:
            raise TextError(f"Batches: {len(tokens)} tokens do not fill one window of context + 1 = {context + 1}")
        self.tokens = np.asarray(tokens)  # a mapped file stays one
        self.context, self.batch_size, self.generator = context, batch_size, generator
        self.epoch = -1
        self._begin_epoch()

    def _begin_epoch(self):
        self.epoch, self.position = self.epoch + 1, 0
        self._epoch_state = self.generator.bit_generator.state
        spare = len(self.tokens) - 1 - self.context  # the last place where a window can start
        offset = self.generator.integers(min(self.context, spare + 1))
        self._starts = self.generator.permutation(np.arange(offset, spare + 1, self.context))

    def next(self) -> tuple[np.ndarray, np.ndarray]:
        """x, y: (batch_size, context) int64 each; y is the token after x's."""
        starts = []
        while len(starts) < self.batch_size:
            if self.position == len(self._starts):
                self._begin_epoch()
            taken = self._starts[self.position : self.position + self.batch_size - len(starts)]
            self.position += len(taken)
            starts.extend(taken)
        windows = np.array(starts)[:, None] + np.arange(self.context)  # (B, C)
        return tuple(np.asarray(self.tokens[at], dtype=np.int64) for at in (windows, windows + 1))

    def state_dict(self) -> dict:
        return {
            "tokens": len(self.tokens),
            "context": self.context,
            "epoch": self.epoch,
            "position": self.position,
            "generator": self._epoch_state,
        }

    def load_state_dict(self, state: dict):
        """Continue where `state` was taken. The tokens and the context must be the same as then."""
        for name, here in (("tokens", len(self.tokens)), ("context", self.context)):
            if state[name] != here:
                raise ValueError(
                    f"Batches: saved with {name} = {state[name]}, but here it is {here}: "
                    "to continue a run, use the text and the context it was begun with"
                )
        go_to(self, state, lambda: len(self._starts))


def go_to(batches, state: dict, positions) -> None:
    """Move batches to the place that `state` names; ValueError unless it is one of the epoch's places()."""
    batches.generator.bit_generator.state = state["generator"]
    batches.epoch = state["epoch"] - 1
    batches._begin_epoch()
    if state["position"] not in range(positions() + 1):
        raise ValueError(f"place {state['position']!r} in an epoch of {positions()}")
    batches.position = state["position"]


def evaluation_batches(tokens, context: int, batch_size: int, stride: int | None = None):
    """Yield x, y: (batch_size, context) int64 each, in which every token but the first is a counted target once.

    Windows start every `stride` tokens (default: `context`). Targets that an earlier window counted are IGNORE_INDEX
    in y; so are whole rows that fill up the last batch. With stride = context // 2 each counted target but the first
    ones has at least half a context before it; that costs twice the time. The mean of eq. (16) over all of the text
    is the sum of the counted losses over the number of counted targets, not the mean of the batches' means.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise ValueError(f"evaluation_batches: stride must be from 1 to context = {context}, not {stride}")
    tokens = np.asarray(tokens)  # a mapped file stays one
    last = len(tokens) - 1 - context  # where the last window starts
    if last < 0:
        raise TextError(f"evaluation: {len(tokens)} tokens do not fill one window of context + 1 = {context + 1}")
    starts, counted = [*range(0, last, stride), last], 0
    for first in range(0, len(starts), batch_size):
        x = np.zeros((batch_size, context), dtype=np.int64)
        y = np.full((batch_size, context), IGNORE_INDEX, dtype=np.int64)
        for row, start in enumerate(starts[first : first + batch_size]):
            x[row] = tokens[start : start + context]
            new = counted - start  # the targets before this one are counted
            y[row, new:] = tokens[counted + 1 : start + context + 1]
            counted = start + context
        yield x, y

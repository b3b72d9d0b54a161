"""Tokenizers: text to integers and back. Characters, words, and byte-pair encoding (BPE).

Two more come with models that were trained elsewhere, and keep the ids that they have there. The three that a text
trains number their vocabulary the same way:

    0 ... S-1     special tokens (<pad>, <bos>, ...), S = 0 unless asked for; no text ever encodes to them
    S             the unknown: every character or word outside the vocabulary
    S+1 ... V-1   the pieces of text

`decode(encode(text)) == text` holds for every text without unknowns. A tokenizer is its `to_dict()`: a few lists of
strings that go into the checkpoint, so that a trained model never meets another vocabulary than its own.
"""

import json
import re
from collections import Counter

from tinytensor.native.platform.distribution import install

UNKNOWN = "\ufffd"  # the Unicode replacement character: an unknown decodes to it


class TextError(ValueError):
    """The text cannot be used as asked; the message says why and what to do."""


class Tokenizer:
    """The base of all three: a list of tokens, in which a token's place is its id.

    `special` maps the name of each special token to its id; `unknown` is the id of the unknown token.
    """

    scheme = ""

    def __init__(self, pieces, special=()):
        for named, held in (("pieces", pieces), ("special", special)):  # a checkpoint may hold anything
            if not isinstance(held, list | tuple) or not all(isinstance(piece, str) for piece in held):
                raise ValueError(f"{type(self).__name__}: {named} must be a list of strings")
        self.tokens = [*special, UNKNOWN, *pieces]
        self.special = {name: i for i, name in enumerate(special)}
        self.unknown = len(special)
        self._ids = {piece: i for i, piece in enumerate(self.tokens) if i > self.unknown}
        if len(self.special) + 1 + len(self._ids) != len(self.tokens):
            raise ValueError(f"{type(self).__name__}: a piece or a special token is listed twice")

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    @classmethod
    def train(cls, texts, vocab_size=None, special=()):
        """The unknown and the most frequent pieces of `texts`: at most `vocab_size` tokens in all (None: every piece).

        `texts` is a list of strings. Equally frequent pieces are taken in alphabetical order.
        """
        pieces = _by_frequency(piece for text in texts for piece in cls.split(text))
        if vocab_size is not None:
            pieces = pieces[: _room_for_pieces(cls, vocab_size, special)]
        return cls(pieces, special)

    @staticmethod
    def split(text: str) -> list[str]:
        """The pieces of a text, in order; joined they are the text again."""
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces; a piece outside the vocabulary becomes `unknown`."""
        return [self._ids.get(piece, self.unknown) for piece in self.split(text)]

    def decode(self, ids) -> str:
        """The text of some ids: special tokens vanish, an unknown becomes U+FFFD."""
        pieces = []
        for i in ids:
            if not 0 <= i < self.vocab_size:  # a negative index would quietly count from the end
                raise ValueError(f"decode: id {i} is outside the vocabulary of {self.vocab_size} tokens")
            if i >= self.unknown:
                pieces.append(self.tokens[i])
        return "".join(pieces)

    @property
    def opening(self) -> str:
        """The beginning of a sample without a prompt: the end of a line, or the first piece if no piece ends a line."""
        known = self.tokens[self.unknown + 1 :]
        return "\n" if "\n" in known else known[0] if known else ""

    def unknown_count(self, ids) -> int:
        """How many of the ids are the unknown, that is, how many pieces of a text the vocabulary lacks."""
        return sum(1 for i in ids if i == self.unknown)

    def knows(self, piece: str) -> bool:
        """Does the vocabulary have a piece of text, as a whole or in parts?"""
        return not self.unknown_count(self.encode(piece))

    def ids(self) -> dict[str, int]:
        """The id of each piece of text in the vocabulary."""
        return self._ids

    def to_dict(self) -> dict:
        """Everything needed to build the tokenizer again, as JSON can hold it; see `tokenizer_from_dict`."""
        return {"kind": self.scheme, "special": list(self.special), "pieces": self.tokens[self.unknown + 1 :]}

    @classmethod
    def from_dict(cls, d: dict):
        return cls(d["pieces"], d["special"])

    def to_library(self):
        """The same tokenizer in the `tokenizers` library, which other programs read."""
        library = _library()
        made = library.Tokenizer(self._library_model(library))
        made.decoder = library.decoders.Fuse()
        return made

    def _library_model(self, library):
        """Single characters: BPE without merges."""
        known = {UNKNOWN: self.unknown} if self.unknown >= 0 else {}
        return library.models.BPE(known | self._ids, [], unk_token=UNKNOWN if known else None)

    def __repr__(self):
        return f"{type(self).__name__}(vocab_size={self.vocab_size}, special={list(self.special)})"


class CharTokenizer(Tokenizer):
    """One token per character."""

    scheme = "char"

    @staticmethod
    def split(text):
        return list(text)


class WordTokenizer(Tokenizer):
    """One token per word or punctuation mark, each with the space before it; other white space by the character.

    "The cat  sat." is "The", " cat", " ", " sat", "." : with the spaces kept, joining the pieces gives the text back.
    """

    scheme = "word"
    PIECES = r" ?\w+| ?[^\w\s]|\s"

    @staticmethod
    def split(text):
        return re.findall(WordTokenizer.PIECES, text)

    def to_library(self):
        made = super().to_library()
        made.pre_tokenizer = _cutter(_library(), self.PIECES)
        return made

    def _library_model(self, library):
        return library.models.WordLevel(self._ids | {UNKNOWN: self.unknown}, unk_token=UNKNOWN)


class BPETokenizer(Tokenizer):
    """Byte-pair encoding over characters: starting from single ones, the most frequent neighbours become a new token.

    This is done V-1-S-A times; A is the number of characters in the vocabulary (the alphabet). Bytes as the alphabet
    would take 256 of toth-tiny's 300 tokens and leave 44 merges; the characters that occur in an English text are about
    100. Merges stay inside the pieces that `pattern` cuts a text into. The `tokenizers` library does the work.
    """

    scheme = "bpe"

    # A word, a run of punctuation, or one character of white space. Measured with toth-tiny on the default corpus
    # (3,000 steps of 16 windows), held-out nats per character: 1.25 so, and if white space merges too; 1.26 if words
    # and punctuation merge; 1.28 if words take the space before them, as GPT-2's do; 1.37 with single characters.
    # Training time grows with the square of a piece's length (17 s for 300,000 letters without a space): hence 100.
    PIECES = r"\w{1,100}|[^\w\s]{1,100}|\s"

    def __init__(self, pieces, special, merges, pattern):
        super().__init__(pieces, special)
        self.merges, self.pattern = merges, pattern
        library = _library()
        ids = self._ids | {UNKNOWN: self.unknown}
        self._bpe = library.Tokenizer(library.models.BPE(ids, merges, unk_token=UNKNOWN))
        self._bpe.pre_tokenizer = _cutter(library, pattern)

    @classmethod
    def train(cls, texts, vocab_size, special=(), limit_alphabet=None, pattern=PIECES, exact=True):
        """Merge until there are exactly `vocab_size` tokens: special, unknown, the alphabet and the merged ones.

        Where the merges run out before that, TextError is raised, unless `exact` is False.

        The alphabet is every character of `texts`, but at most `limit_alphabet` of them, the most frequent ones; the
        others become unknown. By default characters take no more than half of the vocabulary, unless merges run out.
        """
        room = _room_for_pieces(cls, vocab_size, special)
        texts = [without_surrogates(text) for text in texts]
        characters = _by_frequency(character for text in texts for character in text)
        library = _library()
        for limit in (vocab_size // 2, room) if limit_alphabet is None else (limit_alphabet,):
            alphabet = characters[: min(limit, room)]
            bpe = library.Tokenizer(library.models.BPE())
            bpe.pre_tokenizer = _cutter(library, pattern)
            # The alphabet is handed over complete: the library would choose among equally rare characters at random.
            trainer = library.trainers.BpeTrainer(
                vocab_size=room, initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False
            )
            bpe.train_from_iterator(texts, trainer)
            pieces = sorted(bpe.get_vocab(), key=bpe.token_to_id)
            if len(pieces) == room:
                break
        if exact and len(pieces) < room:
            reached = vocab_size - room + len(pieces)
            raise TextError(
                f"BPETokenizer: the vocabulary is to have {vocab_size} tokens, but this text yields only {reached} "
                f"({len(alphabet)} characters, {len(pieces) - len(alphabet)} merges): "
                f"use a longer text, or a vocabulary of at most {reached}"
            )
        merges = [tuple(pair) for pair in json.loads(bpe.to_str())["model"]["merges"]]
        return cls(pieces, special, merges, pattern)

    def encode(self, text):
        return self._bpe.encode(without_surrogates(text)).ids

    def to_library(self):
        made = _library().Tokenizer.from_str(self._bpe.to_str())
        made.decoder = _library().decoders.Fuse()
        return made

    def to_dict(self):
        return super().to_dict() | {"merges": [list(pair) for pair in self.merges], "pattern": self.pattern}

    @classmethod
    def from_dict(cls, d):
        return cls(d["pieces"], d["special"], [tuple(pair) for pair in d["merges"]], d["pattern"])


class GivenTokenizer(Tokenizer):
    """One token per character, with given ids and no unknown: the vocabulary of a model that was trained elsewhere.

    `encode` raises TextError for a character outside the vocabulary.
    """

    scheme = "given"

    def __init__(self, pieces):
        super().__init__(pieces)
        if any(len(piece) != 1 for piece in pieces):
            raise ValueError("GivenTokenizer: every piece must be one character")
        self.tokens, self.unknown = list(pieces), -1
        self._ids = {piece: i for i, piece in enumerate(pieces)}

    def encode(self, text):
        lacking = sorted(set(text) - self._ids.keys())
        if lacking:
            raise TextError(f"the vocabulary of this model lacks {', '.join(map(repr, lacking[:10]))}")
        return [self._ids[character] for character in text]

    def knows(self, piece):
        return set(piece) <= self._ids.keys()

    def to_dict(self):
        return {"kind": self.scheme, "pieces": self.tokens}

    @classmethod
    def from_dict(cls, d):
        return cls(d["pieces"])


class LibraryTokenizer(Tokenizer):
    """A tokenizer of the `tokenizers` library, such as GPT-2's, whose pieces are sequences of bytes.

    `described` is the text of its tokenizer.json. The model's vocabulary may be larger than the tokenizer's: `decode`
    leaves out the ids between them. Its special tokens (<|endoftext|>) may stand in a text; `decode` drops them.
    """

    scheme, unknown, special = "library", -1, {}

    def __init__(self, described: str, vocab_size: int | None = None):
        self.described = described
        try:
            self._library = _library().Tokenizer.from_str(described)
            self._known = set(self._library.get_vocab(with_added_tokens=True).values())
        except ImportError:
            raise
        except Exception as error:  # the library raises Exception itself
            raise ValueError(f"LibraryTokenizer: this is no tokenizer.json: {str(error)[:200]}") from None
        self._size = max(self._known, default=0) + 1 if vocab_size is None else vocab_size
        if not self._known or not 0 <= min(self._known) <= max(self._known) < self._size:
            largest = max(self._known, default=None)
            raise ValueError(f"LibraryTokenizer: its largest id is {largest}, but the model has {self._size} tokens")

    @property
    def vocab_size(self):
        return self._size

    def ids(self):
        return self._library.get_vocab(with_added_tokens=True)

    def encode(self, text):
        return self._library.encode(without_surrogates(text), add_special_tokens=False).ids

    def decode(self, ids):
        ids = [int(i) for i in ids]
        if ids and not 0 <= min(ids) <= max(ids) < self._size:
            raise ValueError(f"decode: an id is outside the vocabulary of {self._size} tokens")
        return self._library.decode([i for i in ids if i in self._known])

    @property
    def opening(self):
        """The end of a line, or any token that stands for text."""
        return "\n" if self.encode("\n") else next((t for i in sorted(self._known) if (t := self.decode([i]))), "")

    def to_dict(self):
        return {"kind": self.scheme, "described": self.described, "vocab_size": self._size}

    @classmethod
    def from_dict(cls, d):
        if not isinstance(d["described"], str) or type(d["vocab_size"]) is not int:
            raise ValueError("LibraryTokenizer: a text and a whole number are needed")
        return cls(d["described"], d["vocab_size"])

    def __repr__(self):
        return f"LibraryTokenizer(vocab_size={self.vocab_size})"


KINDS = {cls.scheme: cls for cls in (CharTokenizer, WordTokenizer, BPETokenizer)}  # those that a text trains
ALL_KINDS = KINDS | {cls.scheme: cls for cls in (GivenTokenizer, LibraryTokenizer)}  # the others come with a model


def tokenizer_from_dict(d: dict) -> Tokenizer:
    """The tokenizer whose `to_dict()` this is."""
    if d.get("kind") not in ALL_KINDS:
        raise ValueError(f"tokenizer_from_dict: kind {d.get('kind')!r} is not one of {', '.join(ALL_KINDS)}")
    return ALL_KINDS[d["kind"]].from_dict(d)


def _by_frequency(pieces) -> list[str]:
    """Distinct pieces, most frequent first, ties in alphabetical order; without the unknown's own character."""
    counts = Counter(pieces)
    known = sorted((piece for piece in counts if piece != UNKNOWN), key=lambda piece: (-counts[piece], piece))
    if counts and not known:
        raise TextError(
            "the text holds nothing but U+FFFD, the sign for characters that could not be read: save it as UTF-8"
        )
    return known


def _room_for_pieces(cls, vocab_size, special) -> int:
    room = vocab_size - len(special) - 1
    if room < 1:
        raise ValueError(
            f"{cls.__name__}: a vocabulary of {vocab_size} has no room for text beside "
            f"{len(special)} special tokens and the unknown: use at least {len(special) + 2}"
        )
    return room


def without_surrogates(text: str) -> str:
    """Half a UTF-16 pair may stand in a Python string but is no character; the library refuses it."""
    return re.sub("[\ud800-\udfff]", UNKNOWN, text)


def _library():
    """The `tokenizers` package, loaded when a BPE tokenizer is first made: nothing else needs it."""
    try:
        import tokenizers
    except ImportError:
        raise ImportError(f"BPETokenizer needs the tokenizers library: {install('train')}") from None
    return tokenizers


def _cutter(library, pattern):
    return library.pre_tokenizers.Split(library.Regex(pattern), behavior="isolated")

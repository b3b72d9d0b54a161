"""`--task text`: the decoder of document 003 learns to continue a text."""

import math
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np

from models.data import sources, text
from models.data.ngram import baselines
from models.data.text import Corpus, TextError
from models.data.tokenizers import KINDS, Tokenizer, WordTokenizer
from models.decoder import CONFIGS, Config, Decoder
from models.inference import report
from models.inference.generate import TEMPERATURE, write
from models.options import data_path, proposed
from models.tasks.task import Glimpse, Task, check_known, fingerprint, say, written_files
from tinytensor.viz import plots

MOST_COUNTED = 5_000_000  # tokens; n-gram models of more take long, and much memory
MADE_FOR_CHARACTERS = ("nano", "micro")


class TextTask(Task):
    name = "text"
    summary = "The decoder of document 003 learns to continue a text; by default Python's own language reference."
    Config, Model, CONFIGS, default = Config, Decoder, CONFIGS, "toth-tiny"
    examples = "windows"
    source, sized_by_data = "text", ("V",)

    def __init__(self, config: Config, corpus: Corpus, file: str | None, field: str | None = None):
        super().__init__(config, corpus.tokenizer, file)
        self.corpus, self.field = corpus, field
        self.of_tokens = corpus.train.dtype.itemsize == 2  # read from files of tokens
        self._fingerprint = None

    @classmethod
    def add_options(cls, group):
        inputs = "learn from your own: a UTF-8 file or a pipe, a folder of .txt and .md files, a .jsonl file (all of "
        inputs += f"them also .gz), or a folder with {sources.TRAIN}, {sources.HELDOUT} and a vocabulary "
        inputs += "(models/README.md)"
        group.add_argument("--text", metavar="FILE", type=data_path, help=inputs)
        group.add_argument("--field", metavar="NAME", help=f"field of a .jsonl file (default: {sources.FIELD})")
        about = "kind of the tokens (default: bpe; char for nano and micro)"
        group.add_argument("--tokenizer", choices=list(KINDS), help=about)

    @classmethod
    def begin(cls, config, flags, name, known=None):
        if known is not None:
            return cls._beginning_with(config, flags, known)
        if "text" in flags and sources.holds_tokens(flags["text"]):
            return cls._of_tokens(config, flags)
        scheme = flags.get("tokenizer", "char" if name in MADE_FOR_CHARACTERS else "bpe")
        vocabulary = config.V if scheme == "bpe" else flags.get("V")  # without --V all characters or words
        file = str(flags["text"].resolve()) if "text" in flags else None
        options = (
            {"exact": "V" in flags} if scheme == "bpe" else {}
        )  # without --V a text may yield a smaller vocabulary
        field = flags.get("field")
        corpus = text.prepare(_documents(file, field), KINDS[scheme], vocabulary, **options)
        V = corpus.tokenizer.vocab_size
        if scheme == "bpe" and vocabulary > V:
            say(f"the vocabulary has {V} tokens instead of {vocabulary}: this text yields no more")
        if "V" in flags and flags["V"] != V:
            raise TextError(f"--V {flags['V']}: this text has only {V} different tokens ({scheme}); leave --V out")
        text.check_context(corpus.train, corpus.heldout, config.C)
        return cls(config.replace(V=V), corpus, file, field)

    @classmethod
    def _of_tokens(cls, config, flags, known=None):
        """The task of files of tokens, whose vocabulary lies beside them; with `known` it must be an earlier run's."""
        for option in ("tokenizer", "field") if known is None else ("field",):
            if option in flags:
                raise TextError(f"--{option}: {flags['text']} holds tokens already; leave --{option} out")
        corpus = sources.tokens(flags["text"])
        if known is not None:
            sources.check_vocabulary(flags["text"], corpus.tokenizer, known)
            corpus.tokenizer = known
        V = corpus.tokenizer.vocab_size
        if flags.get("V", V) != V:
            raise TextError(f"--V {flags['V']}: the vocabulary of {flags['text']} has {V} tokens; leave --V out")
        text.check_context(corpus.train, corpus.heldout, config.C)
        return cls(config.replace(V=V), corpus, str(flags["text"].resolve()))

    @classmethod
    def _beginning_with(cls, config, flags, known):
        """The task with the vocabulary of an earlier run."""
        if "text" in flags and sources.holds_tokens(flags["text"]):
            return cls._of_tokens(config, flags, known)
        file, field = str(flags["text"].resolve()) if "text" in flags else None, flags.get("field")
        documents = _documents(file, field)
        words = known.scheme == WordTokenizer.scheme
        pieces = Counter(piece for document in documents for piece in (known.split(document) if words else document))
        check_known(pieces, known.knows, "words" if words else "characters", replaced=known.unknown >= 0)
        corpus = text.prepare(documents, known)
        text.check_context(corpus.train, corpus.heldout, config.C)
        return cls(config, corpus, file, field)

    @classmethod
    def restore(cls, state):
        config, tokenizer = cls.described(state)
        file, field = state["file"], state.get("field")
        if file is not None and sources.holds_tokens(Path(file)):
            return cls(config, sources.tokens(Path(file), tokenizer), file)
        return cls(config, text.prepare(_documents(file, field), tokenizer), file, field)

    def state(self):
        return super().state() | ({} if self.field is None else {"field": self.field})

    @classmethod
    def options(cls, state):
        own = {"field": state.get("field")}
        if state["tokenizer"]["kind"] not in KINDS:  # it came with files of tokens, or with a model
            own["tokenizer"] = None
        return super().options(state) | own

    @classmethod
    def of_file(cls, config: Config, tokenizer: Tokenizer, file: Path, field: str | None = None) -> "TextTask":
        """All of a file or folder as held-out text, in windows of C tokens, or of all but one in a shorter text.

        Of a folder with files of tokens it is the held-out one.
        """
        if sources.holds_tokens(file):
            if field is not None:
                raise TextError(f"--field: {file} holds tokens already; leave --field out")
            corpus = sources.tokens(file)
            sources.check_vocabulary(file, corpus.tokenizer, tokenizer)
            tokens, characters = corpus.heldout, 0
        else:
            documents = _documents(str(file), field)
            tokens = np.array([i for document in documents for i in tokenizer.encode(document)], dtype=np.int64)
            characters = sum(map(len, documents))
        if len(tokens) < 2:
            raise TextError(f"{file} holds {len(tokens)} tokens: at least two are needed, as one is predicted")
        if unknown := tokenizer.unknown_count(tokens):
            say(f"{unknown:,} of {len(tokens):,} tokens of {file} are not in the vocabulary, and count as the unknown")
        corpus = Corpus(tokenizer, tokens[:0], tokens, 0, characters)
        return cls(config.replace(C=min(config.C, len(tokens) - 1)), corpus, str(file), field)

    @classmethod
    def recipe(cls, config, flags):
        """AdamW needs smaller steps for a wider model, eq. (18) as it stands large ones and no decay.

        The rate and the decay of 0.1 are the best of six runs of toth-tiny on the default corpus, of 4,000 steps each.
        """
        sgd = flags.get("optimizer") == "sgd"
        return {"lr": 1.5, "weight_decay": 0.0} if sgd else {"lr": 0.48 / config.D}

    def fingerprint(self):
        if not self.of_tokens:
            return fingerprint([self.corpus.train, self.corpus.heldout])
        if self._fingerprint is None:  # files of tokens may be long, and each checkpoint asks
            self._fingerprint = sources.fingerprint(self.corpus)
        return self._fingerprint

    def batches(self, batch_size, generator):
        return text.Batches(self.corpus.train, self.config.C, batch_size, generator)

    def heldout_batches(self, batch_size):
        """Windows overlap by half, so that each token has at least C / 2 tokens before it (but for the first ones)."""
        C = self.config.C
        return text.evaluation_batches(self.corpus.heldout, C, batch_size, max(1, C // 2))

    def describe(self):
        corpus, title = self.corpus, self.file or "Python's language reference"
        if self.of_tokens:
            return [f"tokens: {title}, {corpus.tokenizer}, {len(corpus.train):,} and {len(corpus.heldout):,} held out"]
        return [
            f"text: {title}, {corpus.train_characters:,} characters and {corpus.heldout_characters:,} held out",
            f"tokens: {corpus.tokenizer}, {len(corpus.train):,} and {len(corpus.heldout):,}",
        ]

    def marks(self) -> dict[str, float]:
        """Held-out losses to compare with, by name."""
        V = self.config.V
        if len(self.corpus.train) > MOST_COUNTED:
            return {"uniform": math.log(V)}
        return {"uniform": math.log(V)} | baselines(self.corpus.train, self.corpus.heldout, V)

    def _word(self) -> str:
        """A prompt that the text knows: "The", or the first word of the held-out part that looks like no option."""
        heldout = self.tokenizer.decode(int(i) for i in self.corpus.heldout[:200])
        words = ["The"] if "The" in heldout else [word[:20] for word in heldout.split() if word[0] != "-"]
        return words[0] if words else self.tokenizer.opening

    def _beginning(self) -> tuple[list[int], list[str]]:
        """Held-out tokens that a picture has room for, and their labels."""
        shown = [int(i) for i in self.corpus.heldout[: min(self.config.C, 32)]]
        return shown, [self.tokenizer.decode([i]).replace("\n", "\\n").replace(" ", "␣") for i in shown]

    def _sample(self, model, count, seed):
        return write(model, self.tokenizer, self._word(), count, seed, temperature=TEMPERATURE)

    def glimpse(self, model, seed):
        shown, labels = self._beginning()
        about = f"The model writes, at temperature {TEMPERATURE}; attention is shown over the first held-out tokens."
        written = self._sample(model, 120, seed).strip("\n")
        return Glimpse(about, written, report.attention_maps(model, shown), labels, labels)

    def finish(self, model, folder, rows, seed):
        """The result beside the n-gram models; pictures of the loss and the attention, and a sample."""
        corpus, marks, heldout = self.corpus, self.marks(), rows[-1]["heldout_loss"]
        print("\nheld-out loss in nats per token")
        for name, value in [*marks.items(), ("this model", heldout)]:
            print(f"  {name:<22}{value:.3f}{'' if name == 'this model' else f'   ({value - heldout:+.3f})'}")
        if corpus.heldout_characters:
            print(f"  this model, per character: {heldout * len(corpus.heldout) / corpus.heldout_characters:.3f}\n")
        with self.attempt(f"the picture {folder / 'loss.png'}"):
            plots.save(plots.loss(rows, marks), folder / "loss.png")
        with self.attempt(f"the picture {folder / 'attention.png'}"):
            shown, labels = self._beginning()
            plots.save(plots.attention(report.attention_maps(model, shown), labels, labels), folder / "attention.png")
        with self.attempt("a sample"):
            written = self._sample(model, 200, seed)
            print("a sample:", *(textwrap.fill(line, 79) for line in written.split("\n")), "", sep="\n")
            (folder / "sample.txt").write_text(written + "\n", encoding="utf-8")
        print(f"written to {folder}: {written_files(folder, 'loss.png', 'attention.png', 'sample.txt')}")
        print(f"more samples: {proposed('sample', folder, '--prompt', self._word())}")


def _documents(file: str | None, field: str | None) -> list[str]:
    """The texts to learn from."""
    if file is None and field is not None:
        raise TextError(f"--field {field}: name a .jsonl file with --text")
    return text.default_corpus() if file is None else sources.documents(Path(file), field, say)

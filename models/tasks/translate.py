"""`--task translate`: the encoder-decoder of documents 000 and 004 learns to translate."""

from collections import Counter
from pathlib import Path

from models.data import grammar, pairs
from models.data.pairs import Pair
from models.data.text import TextError, report_lines
from models.data.tokenizers import BPETokenizer, Tokenizer, WordTokenizer
from models.inference.translate import cross_attention, residual_stream, translate
from models.options import columns, data_path, proposed
from models.tasks.task import Glimpse, Task, check_known, fingerprint, say, written_files
from models.transformer import CONFIGS, PAD, Config, Transformer
from tinytensor.nn import functional
from tinytensor.viz import plots

KINDS = {cls.scheme: cls for cls in (WordTokenizer, BPETokenizer)}
PIECES = 2000  # size of the vocabulary of a user's own pairs, if no option gives it

Data = tuple[list[Pair], dict[str, list[Pair]]]  # training pairs; held-out pairs by the name of the part


class TranslateTask(Task):
    name = "translate"
    summary = "The encoder-decoder of documents 000 and 004 learns to translate; by default some French."
    Config, Model, CONFIGS, default = Config, Transformer, CONFIGS, "translate"
    examples = "pairs"
    source, sized_by_data = "pairs", ("n_vol",)
    nothing = PAD, PAD

    def __init__(self, config: Config, tokenizer: Tokenizer, file: str | None, reading: dict, data: Data, note=say):
        """`data` are the pairs; `reading` says how they are read from the file (see `pairs.read_pairs`)."""
        super().__init__(config, tokenizer, file)
        self.reading = reading
        if tokenizer.vocab_size != config.n_vol:
            raise TextError(
                f"the vocabulary has {tokenizer.vocab_size} tokens, but the model n_vol = {config.n_vol}: a model and "
                "its data need one vocabulary"
            )
        self.train, self.heldout = data
        self.examples_of = {name: self._encoded(name, part, note) for name, part in self.parts.items()}

    @property
    def parts(self) -> dict[str, list[Pair]]:
        return {"training": self.train, **self.heldout}

    def _encoded(self, name: str, part: list[Pair], note) -> list[pairs.Example]:
        """The pairs of a part in tokens; pairs that are too long are reported and left out."""
        encoded = [pairs.example(self.tokenizer, pair) for pair in part]
        n_max = self.config.n_max
        longest = [max(map(len, tokens)) for tokens in encoded]
        if self.file is None and max(longest) > n_max:
            raise TextError(f"the French learnt here has sentences of {max(longest)} tokens, but n_max = {n_max}")
        fits = [length <= n_max for length in longest]
        long = [(pair.line, f"more than n_max = {n_max} tokens") for pair, fit in zip(part, fits) if not fit]
        report_lines(f"{self.file}, {name}", long, self.reading["strict"], note)
        part[:] = [pair for pair, fit in zip(part, fits) if fit]
        if not part:
            raise TextError(f"{name}: no pair has at most n_max = {n_max} tokens: give a larger --n-max")
        return [tokens for tokens, fit in zip(encoded, fits) if fit]

    @classmethod
    def add_options(cls, group):
        group.add_argument(
            "--pairs",
            metavar="FILE",
            type=data_path,
            help="pairs of your own: source, tab, target; or a file .csv, or .jsonl",
        )
        which = "which columns, from 1, or their names (default: source,target; else 1,2, or 2,4 beside numbers)"
        group.add_argument("--columns", metavar="N,N", type=columns(2), help=which)
        group.add_argument("--strict", action="store_true", help="refuse a file with bad lines (default: skip them)")
        about = "kind of the tokens (default: word; bpe for your own pairs)"
        group.add_argument("--tokenizer", choices=list(KINDS), help=about)

    @classmethod
    def begin(cls, config, flags, name, known=None):
        file = str(flags["pairs"].resolve()) if "pairs" in flags else None
        reading = {"columns": flags.get("columns"), "strict": flags.get("strict", False)}
        data = read(file, reading, say)
        if known is not None:
            all_pairs = [pair for part in (data[0], *data[1].values()) for pair in part]
            words = Counter(
                word for pair in all_pairs for side in (pair.source, pair.target) for word in pairs.words(side)
            )
            check_known(words, known.knows, "words")
            return cls(config, known, file, reading, data)
        tokenizer_class = KINDS[flags.get("tokenizer", "word" if file is None else "bpe")]
        size = flags.get("n_vol", PIECES if tokenizer_class is BPETokenizer else None)
        tokenizer = pairs.train_tokenizer(tokenizer_class, data[0], size)
        return cls(config.replace(n_vol=tokenizer.vocab_size), tokenizer, file, reading, data)

    @classmethod
    def restore(cls, state):
        config, tokenizer = cls.described(state)
        file, reading = state["file"], state["reading"]
        return cls(config, tokenizer, file, reading, read(file, reading, say))

    @classmethod
    def configuration(cls, flags):
        return flags.get("config", "pairs" if "pairs" in flags else cls.default)

    @classmethod
    def recipe(cls, config, flags):
        return {
            "steps": 3000,
            "batch_size": 64,
            "lr": 0.2 / config.d_model,
            "weight_decay": 0.01,
            "warmup": 300,
            "evaluate_every": 500,
        }

    def state(self):
        return super().state() | {"reading": self.reading}

    @classmethod
    def options(cls, state):
        return super().options(state) | state["reading"]

    def fingerprint(self):
        return fingerprint(tokens for part in self.examples_of.values() for pair in part for tokens in pair)

    @property
    def averages(self):
        return self.config.reduction == "mean"

    def batches(self, batch_size, generator):
        return pairs.PairBatches(self.examples_of["training"], self.config.n_max, batch_size, generator)

    def heldout_batches(self, batch_size):
        return pairs.evaluation_batches(self.examples_of["held out"], self.config.n_max, batch_size)

    def counted(self, x, y):
        return int((y != PAD).sum())

    def sum_of_losses(self, model, x, y):
        logits, _ = model(x, y)
        return functional.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=PAD, reduction="sum")

    def describe(self):
        title = self.file or "the French of models/data/grammar.py"
        counts = ", ".join(f"{len(part):,} {name}" for name, part in self.parts.items())
        return [f"pairs: {title}: {counts}", f"tokens: {self.tokenizer}, for both languages"]

    def finish(self, model, folder, rows, seed):
        """Exact matches, BLEU and chrF of each held-out part; translations; pictures of attention and stream."""
        with self.attempt(f"the picture {folder / 'loss.png'}"):
            plots.save(plots.loss(rows), folder / "loss.png")
        print(f"\nheld-out loss: {rows[-1]['heldout_loss']:.4f} nats per token")
        tables = {name: f"{name.replace(' ', '-')}.tsv" for name in self.heldout}
        for name, part in self.heldout.items():
            with self.attempt(f"the translations of the part {name!r}"):
                sources, references = _references(part)
                translations = translate_sentences(model, self.tokenizer, sources)
                exact, bleu, chrf = scores(translations, references)
                print(f"{name}, {len(sources):,} sentences: exact {exact:.2%}, BLEU {bleu:.2f}, chrF {chrf:.2f}")
                lines = [f"{s}\t{t}\t{' | '.join(r)}\n" for s, t, r in zip(sources, translations, references)]
                table = "source\tfound\texpected\n" + "".join(lines)
                (folder / tables[name]).write_text(table, encoding="utf-8")
        shown = self._shown_sentence()
        with self.attempt(f"the picture {folder / 'attention.png'}"):
            print(f"\n{shown} -> {draw_attention(model, self.tokenizer, shown, folder / 'attention.png')}")
        with self.attempt(f"the picture {folder / 'stream.png'}"):
            # By its tokens: its text, read again, may be other ones, and more than the model takes.
            source = pairs.encode(self.tokenizer, shown)
            output = translate(model, [source])[0]
            words = {
                "encoder": pairs.labels(self.tokenizer, source),
                "decoder": ["∅", *pairs.labels(self.tokenizer, output)],
            }
            plots.save(plots.stream(residual_stream(model, source, output), words), folder / "stream.png")
        files = written_files(folder, "loss.png", "attention.png", "stream.png", *tables.values())
        print(f"written to {folder}: {files}")
        end = ["--"] if shown.startswith("-") else []  # else the sentence looks like an option
        print(f"more: {proposed('translate', '--checkpoint', folder, *end, shown)}")

    def glimpse(self, model, seed):
        first, limit = self._shown_sentence(), 20  # a model that has not learnt to stop yet would go on to the end
        part = dict(zip(*_references(self.heldout["held out"])))
        sources = [first, *[source for source in list(part)[:5] if source != first]]
        tokens = [pairs.encode(self.tokenizer, source) for source in sources]
        translations = translate(model, tokens, limit=limit)
        lines = [f"{s} → {pairs.decode(self.tokenizer, words)}" for s, words in zip(sources, translations)]
        lines[1:] = [f"{line}   (right: {' | '.join(part[s])})" for line, s in zip(lines[1:], sources[1:])]
        about = "Translations, likeliest word by likeliest word; attention is that of the first one to its source."
        rows = [*pairs.labels(self.tokenizer, translations[0]), "<stop>" if len(translations[0]) < limit else "…"]
        maps = cross_attention(model, tokens[0], translations[0])
        return Glimpse(about, "\n".join(lines), maps, rows, pairs.labels(self.tokenizer, tokens[0]))

    def example(self):
        sentence = self._shown_sentence()
        return None if pairs.unknown_words(self.tokenizer, sentence) else sentence

    def _shown_sentence(self) -> str:
        """A sentence that fits into a picture: the example of 004, or a held-out one."""
        if self.file is None:
            return grammar.KNOWN
        return min(self.heldout["held out"], key=lambda pair: abs(len(pair.source.split()) - 5)).source


def read(file: str | None, reading: dict, note) -> Data:
    """(training pairs, held-out pairs by the name of the part)."""
    if file is None:
        train, heldout, new = ([Pair(s.source, s.target) for s in part] for part in grammar.split(grammar.pairs()))
        return train, {"held out": heldout, "new combinations": new}
    chosen = reading["columns"] and tuple(reading["columns"])
    train, heldout = pairs.split_pairs(pairs.read_pairs(file, chosen, reading["strict"], note))
    return train, {"held out": heldout}


def _references(part: list[Pair]) -> tuple[list[str], list[list[str]]]:
    """Each source sentence once, with all its translations."""
    targets: dict[str, list[str]] = {}
    for pair in part:
        targets.setdefault(pair.source, []).append(pair.target)
    return list(targets), list(targets.values())


def translate_sentences(model: Transformer, tokenizer: Tokenizer, sentences: list[str], **how) -> list[str]:
    """The translations, computed side by side, sentences of about one length together."""
    tokens = [pairs.encode(tokenizer, sentence) for sentence in sentences]
    order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
    translations = [""] * len(tokens)
    for first in range(0, len(order), 256):
        chosen = order[first : first + 256]
        for i, words in zip(chosen, translate(model, [tokens[i] for i in chosen], **how)):
            translations[i] = pairs.decode(tokenizer, words)
    return translations


def scores(translations: list[str], references: list[list[str]]) -> tuple[float, float, float]:
    """(part that equals a reference, BLEU, chrF); the last two by sacrebleu, from 0 to 100."""
    from sacrebleu.metrics import BLEU, CHRF

    most = max(map(len, references))
    columns = [[r[i] if i < len(r) else None for r in references] for i in range(most)]  # as sacrebleu wants them
    exact = sum(sentence in r for sentence, r in zip(translations, references)) / len(translations)
    return exact, BLEU().corpus_score(translations, columns).score, CHRF().corpus_score(translations, columns).score


def draw_attention(model: Transformer, tokenizer: Tokenizer, sentence: str, path: Path, **how) -> str:
    """The translation of a sentence; the picture shows how each of its words attends to the source."""
    source = pairs.encode(tokenizer, sentence)
    output = translate(model, [source], **how)[0]
    maps = cross_attention(model, source, output)
    rows = [*pairs.labels(tokenizer, output), "<stop>"]
    plots.save(plots.attention(maps, rows, pairs.labels(tokenizer, source)), path)
    return pairs.decode(tokenizer, output)

"""`--task text`: the decoder of document 003 learns to continue a text."""

import math
import shlex
import textwrap

from models.data import text
from models.data.ngram import baselines
from models.data.text import Corpus, TextError
from models.data.tokenizers import KINDS
from models.decoder import CONFIGS, Config, Decoder
from models.inference import report
from models.inference.generate import TEMPERATURE, write
from models.options import called, path
from models.tasks.task import Glimpse, Task, fingerprint, say
from tinytensor.viz import plots

MADE_FOR_CHARACTERS = ("nano", "micro")


class TextTask(Task):
    name = "text"
    summary = "The decoder of document 003 learns to continue a text; by default Python's own language reference."
    Config, Model, CONFIGS, default = Config, Decoder, CONFIGS, "toth-tiny"
    examples = "windows"
    source, sized_by_data = "text", ("V",)

    def __init__(self, config: Config, corpus: Corpus, file: str | None):
        super().__init__(config, corpus.tokenizer, file)
        self.corpus = corpus

    @classmethod
    def add_options(cls, group):
        group.add_argument("--text", metavar="FILE", type=path, help="learn from a UTF-8 file of your own")
        kinds = "kind of the tokens (default: bpe; char for nano and micro)"
        group.add_argument("--tokenizer", choices=list(KINDS), help=kinds)

    @classmethod
    def begin(cls, config, given, name):
        kind = given.get("tokenizer", "char" if name in MADE_FOR_CHARACTERS else "bpe")
        vocabulary = config.V if kind == "bpe" else given.get("V")  # without --V all characters or words
        file = str(given["text"].resolve()) if "text" in given else None
        options = {"exact": "V" in given} if kind == "bpe" else {}  # without --V a text may yield a smaller vocabulary
        corpus = text.prepare(_documents(file), KINDS[kind], vocabulary, **options)
        V = corpus.tokenizer.vocab_size
        if kind == "bpe" and vocabulary > V:
            say(f"the vocabulary has {V} tokens instead of {vocabulary}: this text yields no more")
        if "V" in given and given["V"] != V:
            raise TextError(f"--V {given['V']}: this text has only {V} different tokens ({kind}); leave --V out")
        text.check_context(corpus.train, corpus.heldout, config.C)
        return cls(config.replace(V=V), corpus, file)

    @classmethod
    def restore(cls, state):
        config, tokenizer = cls.described(state)
        return cls(config, text.prepare(_documents(state["file"]), tokenizer), state["file"])

    @classmethod
    def recipe(cls, config, given):
        """AdamW needs smaller steps for a wider model, eq. (18) as it stands large ones and no decay.

        The rate and the decay of 0.1 are the best of six runs of toth-tiny on the default corpus, of 4,000 steps each.
        """
        sgd = given.get("optimizer") == "sgd"
        return {"lr": 1.5, "weight_decay": 0.0} if sgd else {"lr": 0.48 / config.D}

    def fingerprint(self):
        return fingerprint([self.corpus.train, self.corpus.heldout])

    def batches(self, batch_size, generator):
        return text.Batches(self.corpus.train, self.config.C, batch_size, generator)

    def heldout_batches(self, batch_size):
        """Windows overlap by half, so that each token has at least C / 2 tokens before it (but for the first ones)."""
        C = self.config.C
        return text.evaluation_batches(self.corpus.heldout, C, batch_size, max(1, C // 2))

    def describe(self):
        corpus, title = self.corpus, self.file or "Python's language reference"
        return [
            f"text: {title}, {corpus.train_characters:,} characters and {corpus.heldout_characters:,} held out",
            f"tokens: {corpus.tokenizer}, {len(corpus.train):,} and {len(corpus.heldout):,}",
        ]

    def marks(self) -> dict[str, float]:
        """Held-out losses to compare with, by name."""
        V = self.config.V
        return {"uniform": math.log(V)} | baselines(self.corpus.train, self.corpus.heldout, V)

    def _word(self) -> str:
        """A prompt that the text knows: "The", or the word with which the held-out part begins."""
        heldout = self.tokenizer.decode(int(i) for i in self.corpus.heldout[:200])
        return "The" if "The" in heldout else (heldout.split() or [self.tokenizer.opening])[0][:20]

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
        print(f"  this model, per character: {heldout * len(corpus.heldout) / corpus.heldout_characters:.3f}\n")
        plots.save(plots.loss(rows, marks), folder / "loss.png")
        shown, labels = self._beginning()
        plots.save(plots.attention(report.attention_maps(model, shown), labels, labels), folder / "attention.png")
        written = self._sample(model, 200, seed)
        (folder / "sample.txt").write_text(written + "\n", encoding="utf-8")
        print("a sample:", *(textwrap.fill(line, 79) for line in written.split("\n")), "", sep="\n")
        print(f"written to {folder}: log.csv, loss.png, attention.png, sample.txt and checkpoints")
        print(f"more samples: {called.command} sample {folder} --prompt {shlex.quote(self._word())}")


def _documents(file: str | None) -> list[str]:
    """The texts to learn from."""
    if file is None:
        return text.default_corpus()
    return [text.read_text(file, say)]

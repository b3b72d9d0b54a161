"""The base of tasks: data, a model for them, its loss, and the results shown at the end. `--task` names one."""

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.data.text import IGNORE_INDEX
from models.data.tokenizers import TextError, Tokenizer, tokenizer_from_dict
from models.options import called
from models.training import ranks
from tinytensor import Tensor, nn
from tinytensor.interop.io.files import NotWritten, reason_of
from tinytensor.nn import functional


@dataclass(frozen=True)
class Glimpse:
    """A sample and an attention map of a model in the middle of its training."""

    about: str  # one sentence about `text`, and about the tokens of the map
    text: str
    maps: np.ndarray  # attention weights (layers, heads, rows, columns)
    rows: Sequence[str]  # labels
    columns: Sequence[str]


class Task:
    """One task with its data read and its model's configuration known.

    Subclasses give what differs between tasks (the data's options, batches, the final report); the Trainer does the
    rest. A model takes a batch and returns (logits, loss).
    """

    name: str
    summary: str  # one sentence for --help
    Config: type
    Model: type[nn.Module]
    CONFIGS: dict  # configurations by name; `default` is one of the names
    default: str
    examples: str  # the name of a batch's rows, in the plural
    predicted: str = "token"  # the name of a target: the loss is in nats per token
    source: str  # the option that names a file with the data
    sized_by_data: tuple[str, ...]  # fields that the data decide if no option does; the first is the vocabulary's size
    chosen_by_data: tuple[str, ...] = ()  # those that only the data decide

    def __init__(self, config, tokenizer: Tokenizer, file: str | None):
        """`file` holds the data (None: the task's own)."""
        self.config, self.tokenizer, self.file = config, tokenizer, file
        self.attempt = Attempts()

    # --- How it is made

    @classmethod
    def add_options(cls, group) -> None:
        """Options of this task's data, added to a group of an argument parser."""
        raise NotImplementedError

    @classmethod
    def begin(cls, config, flags: dict, name: str, known: Tokenizer | None = None) -> "Task":
        """The task from the given options, with the configuration called `name`, which they change.

        With `known`, the tokenizer of an earlier run, the vocabulary is that of this run, and V that of `config`.
        """
        raise NotImplementedError

    @classmethod
    def described(cls, state: dict) -> tuple:
        """(configuration, tokenizer) as `state()` described them; ValueError if their vocabularies differ in size."""
        config, tokenizer = cls.Config(**state["config"]), tokenizer_from_dict(state["tokenizer"])
        name = cls.sized_by_data[0]
        if getattr(config, name) != tokenizer.vocab_size:
            known = f"the tokenizer knows {tokenizer.vocab_size} tokens"
            raise ValueError(f"{known}, but the model was made for {name} = {getattr(config, name)}")
        return config, tokenizer

    @classmethod
    def restore(cls, state: dict) -> "Task":
        """The task as `state()` described it, its data read anew."""
        raise NotImplementedError

    @classmethod
    def configuration(cls, flags: dict) -> str:
        """The name of the configuration to begin with."""
        return flags.get("config", cls.default)

    @classmethod
    def recipe(cls, config, flags: dict) -> dict:
        """Settings that this task uses in place of the defaults, if no option sets them."""
        return {}

    def state(self) -> dict:
        """The values that `restore` needs beside the configuration, as JSON can hold them."""
        return {"tokenizer": self.tokenizer.to_dict(), "file": self.file}

    @classmethod
    def options(cls, state: dict) -> dict:
        """The values of this task's options in the run that `state()` described."""
        return state["config"] | {cls.source: state["file"], "tokenizer": state["tokenizer"]["kind"]}

    def fingerprint(self) -> dict:
        """A fingerprint by which a resumed run recognises its data: {"tokens", "sha256"}."""
        raise NotImplementedError

    # --- For the Trainer

    def build(self) -> nn.Module:
        return self.Model(self.config)

    averages = True  # is the model's loss a mean over the counted targets? else their sum
    nothing = 0, IGNORE_INDEX  # the entries of a row of x and of a row of y that the loss does not count

    def batches(self, batch_size: int, generator: np.random.Generator):
        """Endless training batches: next() gives arrays; state_dict() and load_state_dict() keep the place."""
        raise NotImplementedError

    def heldout_batches(self, batch_size: int) -> Iterable[tuple[np.ndarray, ...]]:
        """Batches that count every held-out target once."""
        raise NotImplementedError

    def counted(self, x: np.ndarray, y: np.ndarray) -> int:
        """How many targets of a batch the loss counts."""
        return int((y != IGNORE_INDEX).sum())

    def sum_of_losses(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The cross-entropy of a held-out batch, summed over the counted targets."""
        logits, _ = model(x)
        return functional.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=IGNORE_INDEX, reduction="sum")

    # --- For people

    def describe(self) -> list[str]:
        """Lines about the data."""
        raise NotImplementedError

    def glimpse(self, model: nn.Module, seed: int) -> Glimpse:
        """A sample and an attention map of the model as it is now; no number is drawn from the run's generator."""
        raise NotImplementedError

    def example(self) -> str | None:
        """A text with which the page of the trained model opens; None if any will do."""
        return None

    def finish(self, model: nn.Module, folder: Path, rows: list[dict], seed: int) -> None:
        """Print the results and draw the pictures. `rows` are those of the log. A part that fails is left out."""
        raise NotImplementedError


def check_known(counts: Counter[str], known: Callable[[str], bool], what: str, replaced: bool = True) -> None:
    """Tell which pieces of some data the vocabulary of an earlier run lacks; TextError if they are most of the data.

    `counts` says how often each piece occurs, `known` whether the vocabulary has it; `what` names the pieces. Where the
    vocabulary has no unknown token that could stand for them (`replaced` is False), any such piece is a TextError.
    """
    lacking = [piece for piece, _ in counts.most_common() if not known(piece)]
    times, total = sum(counts[piece] for piece in lacking), counts.total()
    shown = ", ".join(map(repr, lacking[:10])) + (f" and {len(lacking) - 10} more" if len(lacking) > 10 else "")
    problem = (
        f"{what} of these data that the vocabulary of the earlier run lacks: {shown} ({times:,} of {total:,} places)"
    )
    if lacking and not replaced:
        raise TextError(f"{problem}; it has no unknown token for them: take them out, or train without --init-from")
    if 2 * times > total:
        raise TextError(f"{problem}; there is too little to learn from: train a new model, without --init-from")
    if lacking:
        say(f"{problem}; each becomes the unknown token")


def fingerprint(rows: Iterable[Iterable[int]]) -> dict:
    """The fingerprint of some rows of tokens."""
    tokens = np.array([i for row in rows for i in (*row, -1)], dtype=np.int64)
    return {"tokens": int((tokens >= 0).sum()), "sha256": hashlib.sha256(tokens.tobytes()).hexdigest()}


class Attempts:
    """Lets a run go on where something that only shows it fails; each such thing is reported once.

    A pipe that nothing reads any more (BrokenPipeError) is no such failure.
    """

    def __init__(self):
        self.failed: set[str] = set()

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Report an error of the block, which shows `what` of the run, in place of raising it."""
        try:
            yield
        except BrokenPipeError:
            raise
        except Exception as error:
            if what not in self.failed:
                self.failed.add(what)
                own = isinstance(error, NotWritten)
                why = reason_of(error) if isinstance(error, OSError) and not own else str(error)
                with suppress(OSError):
                    say(f"{what} failed, and the run goes on ({'' if own else f'{type(error).__name__}: '}{why})")


def written_files(folder: Path, *names: str) -> str:
    """The results in the folder of a run: the log, those of these files and folders that are there, checkpoints."""
    return ", ".join(["log.csv", *(name for name in names if (folder / name).exists())]) + " and checkpoints"


def say(note: str) -> None:
    """Tell the user about the data."""
    if ranks.rank() == 0:
        print(f"{called.name}: {note}", file=sys.stderr)

"""Bad arguments to `python -m models`: every option of every command with values that no one should give.

A command may do what it was asked, in bounded time, or refuse it with one sentence and exit code 2.
"""

import argparse
import contextlib
import io
import math
import os
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from models.command import cli
from models.tasks import TASKS
from models.training.trainer import Trainer

from .tally import Diary, Tally, TooLong, limited

ONE_IN = {"short": 80, "sample": 25, "long": 1}  # how many of the cases each size of the run tries
SECONDS = 600
VALUES = [
    "", "-1", "0", "1", "0.5", "1e-300", "1e300", "nan", "inf", "-inf", "10000000000000", "9" * 30, "9" * 5000, "x",
    "a\0b", "\udcff", "1,2", "1,nan", "1,-1", "1,,2", "/dev/zero", "/dev/null", "/", "/proc/self/mem", "x" * 5000,
    "😀", "--", "None", "true",
]  # fmt: skip
TINY = "--D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --steps 1 --evaluate-every 1 --log-every 1 --tokenizer char"
PAIRS = "--d-model 8 --h 2 --d-ff 8 --N 1 --batch-size 2 --steps 1 --tokenizer word"


def run(arguments: list[str], seconds: float = SECONDS) -> tuple[int | str, str]:
    """(exit code, what went to the standard error), or ("what it did instead", where)."""
    out, err = io.StringIO(), io.StringIO()
    try:
        streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with limited(seconds), streams[0], streams[1], warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cli.main(arguments), err.getvalue()
    except TooLong:
        return f"no end in {seconds:.0f} s", ""
    except SystemExit as error:
        return (0, "") if not error.code else (f"SystemExit({error.code})", err.getvalue())
    except BaseException as error:
        return f"{type(error).__name__}: {error}", ""


def judge(tally: Tally, title: str, code: int | str, err: str) -> None:
    """Enter an outcome of `run`: done, or refused in one line; a loss that is not finite ends with 1 and a line."""
    if isinstance(code, str):
        tally.find(f"{title}: {code[:300]}")
    elif code == 0:
        tally.enter("taken")
    elif (
        code in (1, 2)
        and err.startswith("models: ")
        and err.splitlines()[-1].startswith("models: ")
        and len(err) < 9000
    ):
        tally.enter("refused")
    else:
        tally.find(f"{title}: exit code {code}, {err[:300]!r}")


def prepare(folder: Path, tasks: tuple[str, ...] = ("text", "translate", "recommend")) -> dict[str, Path]:
    """A text, pairs and sequences to learn from, and a finished run of each of the tasks, all tiny."""
    text, pairs, sequences = folder / "verse.txt", folder / "pairs.tsv", folder / "sequences.csv"
    text.write_text("the cat sat on the mat and the dog lay by the door\n" * 30)
    words = ["je", "tu", "il", "nous", "vous", "ils", "elle", "on"]
    pairs.write_text("".join(f"{a} suis {b}\ti am {b} {a}\n" for a in words for b in words))
    rows = [f"u{u},i{(u + t) % 7},{t}" for u in range(20) for t in range(6)]
    sequences.write_text("user,item,time\n" + "\n".join(rows) + "\n")
    begun = {
        "text": ["train", "--text", str(text), *TINY.split()],
        "translate": ["train", "--task", "translate", "--pairs", str(pairs), *PAIRS.split()],
        "recommend": ["train", "--task", "recommend", "--sequences", str(sequences), *TINY.split()[:-2]],
    }
    runs = {}
    for name in tasks:
        runs[name] = folder / name
        code, err = run([*begun[name], "--out", str(runs[name])], 300)
        if code != 0:
            raise RuntimeError(f"the {name} run to begin with failed: {code} {err}")
    return runs | {"begun": begun}


def _options(task, command: str) -> list[argparse.Action]:
    subparsers = next(a for a in cli.parser(task)._actions if isinstance(a, argparse._SubParsersAction))
    return [action for action in subparsers.choices[command]._actions if action.dest != "help"]


def cases(runs: dict, one_in: int):
    """Yield command lines."""
    chance = random.Random(1)
    usual = {
        "sample": ["sample", str(runs["text"]), "--tokens", "3"],
        "translate": ["translate", "--checkpoint", str(runs["translate"]), "je suis tu"],
        "info": ["info", str(runs["text"])],
    }
    lists = [(task, "train", runs["begun"][name]) for name, task in TASKS.items()]
    lists += [(TASKS["text"], command, arguments) for command, arguments in usual.items()]
    lists += [(TASKS["text"], "train", ["train", "--resume", str(runs["text"])])]
    for task, command, arguments in lists:
        for action in _options(task, command):
            for value in VALUES if action.nargs != 0 else [None]:
                if chance.randrange(one_in) == 0:
                    values = [value] if value is not None else []
                    name = action.option_strings[-1] if action.option_strings else None
                    joined = [f"{name}={value}"] if name and value is not None else [name] if name else values
                    yield arguments + joined


@contextlib.contextmanager
def in_a_folder(begin: Callable = lambda folder: None):
    """A folder of its own, which is the current one, and what `begin(folder)` gives; then trainings take one step."""
    real = Trainer.train
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        begun = begin(Path(name))
        Trainer.train = lambda self, progress=None: _one_step(self)
        try:
            yield Path(name), begun
        finally:
            Trainer.train = real
            os.chdir("/")


def fuzz(size: str, diary: Diary) -> Tally:
    tally = Tally()
    with in_a_folder(prepare) as (folder, runs):
        for number, arguments in diary.mine(enumerate(cases(runs, ONE_IN[size]))):
            message = " ".join(a if len(a) < 60 else f"{a[:60]}..." for a in map(ascii, arguments))
            diary.enter(message)
            train = arguments[0] == "train" and "--resume" not in arguments
            out = ["--out", str(folder / f"run-{number}")] if train and "--out" not in arguments[-1] else []
            judge(tally, message, *run([*arguments[:1], *out, *arguments[1:]]))
    return tally


def _one_step(trainer: Trainer) -> bool:
    """In the place of the training of as many steps as were asked for: one, and a look at the held-out data."""
    trainer.save()
    loss = trainer.advance()
    if not math.isfinite(loss):
        trainer.explain()
    row = {"step": 1, "loss": loss, "lr": 0.0, "heldout_loss": trainer.evaluate()}
    trainer.log.rows.append(row)
    trainer.log.append(trainer.folder / "log.csv", row)
    trainer.save()  # refused, as at the end of the real one, if a parameter is not finite
    return True

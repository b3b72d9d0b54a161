"""What fails while a run is shown: the run goes on, says so once, and is saved."""

import errno
import io
import json
import re
import sys
from shlex import split

import numpy as np
import pytest

from models.command import cli, live, monitors
from models.command.cli import main
from models.data import pairs
from models.data.tokenizers import tokenizer_from_dict
from models.inference import report
from models.tasks.recommend import RecommendTask
from models.tasks.text import TextTask
from models.tasks.translate import TranslateTask
from models.training import checkpoint
from models.training.trainer import Trainer
from models.transformer import STOP
from tinytensor.viz import plots

TINY = split("--tokenizer char --steps 4 --D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --eager --log-every 1")
FULL = OSError(errno.ENOSPC, "No space left on device")


def train(verse, folder, *options: str) -> int:
    return main(["train", "--text", str(verse), "--out", str(folder), *TINY, "--evaluate-every", "2", *options])


LIVE, TRACE, CURVES = ["--live", "--live-port", "0"], ["--profile", "trace.json"], ["--tensorboard"]
SHOWN = {  # where an error is raised: how it is reported, and with which options
    (TextTask, "glimpse"): ("a sample", []),
    (TextTask, "marks"): ("the results", []),
    (TextTask, "_sample"): ("a sample", []),
    (plots, "loss"): ("the picture {run}/loss.png", []),
    (plots, "attention"): ("the picture {run}/attention.png", []),
    (report, "attention_maps"): ("the picture {run}/attention.png", []),
    (cli, "show"): ("the page {run}/page.html", []),
    (live.Page, "show"): ("the live page", LIVE),
    (live.Page, "look"): ("the live page", LIVE),
    (live, "gradient_norms"): ("the live page", LIVE),
    (monitors.Trace, "look"): ("the trace", TRACE),
    (monitors.Trace, "end"): ("the trace", TRACE),
    (monitors.Curves, "__init__"): ("TensorBoard's curves", CURVES),
    (monitors.Curves, "look"): ("TensorBoard's curves", CURVES),
    (monitors.Curves, "end"): ("TensorBoard's curves", CURVES),
}


ERRORS = [RuntimeError("out of luck"), FULL, MemoryError("too large")]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("number", range(len(SHOWN)), ids=[f"{room.__name__}.{name}" for room, name in SHOWN])
def test_error_while_showing_ends_no_run(number, verse, tmp_path, monkeypatch, capsys):
    where, error = list(SHOWN)[number], ERRORS[number % len(ERRORS)]

    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(plots, "save", lambda figure, path: None)
    monkeypatch.setattr(cli, "show", lambda model, path, *arguments, **options: path)
    what, options = SHOWN[where]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "SAMPLED", (0, 1, 2))
    monkeypatch.setattr(*where, fail)
    assert train(verse, "run", *options) == 0
    said = capsys.readouterr().err
    assert said.count(f"models: {what.format(run='run')} failed, and the run goes on ({type(error).__name__}: ") == 1
    assert checkpoint.load(tmp_path / "run", ()).step == 4
    assert len((tmp_path / "run" / "log.csv").read_text().splitlines()) == 5


def test_error_of_the_run_itself_ends_it(verse, tmp_path, monkeypatch):
    """The negative control."""

    def fail(trainer):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(Trainer, "evaluate", fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        train(verse, tmp_path / "run")


@pytest.mark.slow
def test_sample_that_fails_leaves_the_model_in_training(verse, tmp_path, monkeypatch):
    def fail(task, model, seed):
        model.eval()
        raise RuntimeError

    def advance(trainer):
        assert trainer.model.training
        return before(trainer)

    before = Trainer.advance
    monkeypatch.setattr(TextTask, "glimpse", fail)
    monkeypatch.setattr(Trainer, "advance", advance)
    assert train(verse, tmp_path / "run") == 0


@pytest.mark.slow
@pytest.mark.parametrize("task", ["translate", "recommend"])
def test_pictures_of_other_tasks_may_fail(task, tmp_path, monkeypatch, capsys):
    def fail(*arguments, **options):
        raise FULL

    monkeypatch.setattr(plots, "save", fail)
    monkeypatch.setattr({"translate": TranslateTask, "recommend": RecommendTask}[task], "glimpse", fail)
    (tmp_path / "pairs.tsv").write_text("".join(f"a cat {i}\tun chat {i}\n" for i in range(40)))
    (tmp_path / "chosen.csv").write_text("user,item,time\n" + "".join(f"u{i % 5},i{i % 7},{i}\n" for i in range(60)))
    data = {
        "translate": ["--pairs", tmp_path / "pairs.tsv", "--d-model", 8, "--h", 2, "--d-ff", 8, "--N", 1],
        "recommend": ["--sequences", tmp_path / "chosen.csv", "--D", 8, "--H", 2, "--F", 8, "--L", 1, "--C", 8],
    }[task]
    command = ["train", "--task", task, *data, "--steps", 1, "--batch-size", 4, "--eager", "--out", tmp_path / "run"]
    assert main([*map(str, command)]) == 0
    out, err = capsys.readouterr()
    pictures = {"translate": ["loss.png", "attention.png", "stream.png"], "recommend": ["loss.png"]}[task]
    for name in pictures:
        assert err.count(f"models: the picture {tmp_path / 'run' / name} failed") == 1
    assert err.count("models: a sample failed") == 1
    assert "written to " in out and "png" not in out
    assert checkpoint.load(tmp_path / "run", ()).step == 1


class Output(io.StringIO):
    """An output that fails from the writing of some words on, and works no more."""

    def __init__(self, words: str, error: OSError):
        super().__init__()
        self.words, self.error = words, error

    def write(self, text):
        if self.words in self.getvalue() + text:
            raise self.error
        return super().write(text)


@pytest.mark.slow
def test_output_on_a_full_disk_ends_no_run(verse, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Output("step      2", FULL))
    assert train(verse, tmp_path / "run") == 0
    assert "models: a line of the progress failed" in capsys.readouterr().err
    assert checkpoint.load(tmp_path / "run", ()).step == 4
    assert (tmp_path / "run" / "page.html").exists()


def test_run_whose_output_is_read_no_longer_is_saved(verse, tmp_path, monkeypatch, capsys):
    """As `train ... | head`: the reader ends after some lines."""
    monkeypatch.setattr(sys, "stdout", Output("step      2", BrokenPipeError(errno.EPIPE, "Broken pipe")))
    assert train(verse, tmp_path / "run") == 141
    assert capsys.readouterr().err == ""
    assert checkpoint.load(tmp_path / "run", ()).step == 2


WORDS = split("the cat sat there when rain began again in nine trains that went to their nearest station")


@pytest.mark.slow
def test_translation_that_reads_as_more_tokens_is_shown(tmp_path, monkeypatch, capsys):
    """What a model without much training writes, to the last of n_max tokens, is other tokens when it is read again."""
    n_max, lengths = 24, []

    def endless(model, sources, **how):
        if checkpoint.latest(run) is None:  # the sample before the first step
            return [[STOP + 1] * (n_max - 1) for _ in sources]
        tokenizer = tokenizer_from_dict(checkpoint.load(run, ()).state["task"]["tokenizer"])
        limit = n_max - 1
        drawn = np.random.RandomState(0).randint(tokenizer.unknown + 1, tokenizer.vocab_size, (200, limit)).tolist()
        longest = max(drawn, key=lambda tokens: len(pairs.encode(tokenizer, pairs.decode(tokenizer, tokens))))
        lengths.append(len(pairs.encode(tokenizer, pairs.decode(tokenizer, longest))))
        return [longest for _ in sources]

    run = tmp_path / "run"
    for module in ("models.tasks.translate.translate", "models.show.page.translate"):
        monkeypatch.setattr(module, endless)
    (tmp_path / "pairs.tsv").write_text("".join(f"{a} {b}\t{b} {a} assis\n" for a in WORDS for b in WORDS))
    sizes = f"--n-max {n_max} --n-vol 90 --d-model 8 --h 2 --d-ff 8 --N 1 --batch-size 4 --eager".split()
    begin = ["train", "--task", "translate", "--pairs", str(tmp_path / "pairs.tsv"), "--steps", "1", "--out", str(run)]
    for command in ([*begin, *sizes], ["train", "--resume", str(run), "--steps", "2", "--eager"]):
        assert main(command) == 0
        out, err = capsys.readouterr()
        assert err == "" and "stream.png" in out and "page.html in a browser" in out
        text = json.loads(re.search(r'"text":("[^"]*")', (run / "page.html").read_text())[1])
        tokenizer = tokenizer_from_dict(checkpoint.load(run, ()).state["task"]["tokenizer"])
        assert 10 < len(pairs.encode(tokenizer, text)) < n_max  # there is room for <stop>
        for name in ("stream.png", "page.html"):
            (run / name).unlink()
    assert max(lengths) > n_max  # the premise: such a translation was shown

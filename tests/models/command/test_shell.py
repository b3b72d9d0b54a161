"""Pipes, names of files and proposed commands, as a user's shell hands them over and takes them back."""

import gzip
import os
import re
import shutil
import signal
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import split

import pytest

from models.command import cli
from models.command.cli import main
from models.command.resume import with_kept_data
from models.options import called, data_path, proposed
from models.training import checkpoint, ranks
from models.training.trainer import Trainer
from tests.tools.platforms import posix

TINY = split("--tokenizer char --steps 2 --D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --eager")
TRANSLATOR = split("--steps 1 --d-model 8 --h 2 --d-ff 8 --N 1 --batch-size 4 --eager")
PAIRS = "".join(f"the cat {i}\tle chat {i}\n" for i in range(40))
CHOSEN = "user,item,time\n" + "".join(f"u{i % 5},i{i % 7},{i}\n" for i in range(60))


@contextmanager
def piped(content: bytes):
    """The name of a pipe that holds some bytes, as a shell makes it of <(...)."""
    read, write = os.pipe()

    def fill():
        with suppress(BrokenPipeError), os.fdopen(write, "wb") as file:  # it may be read by nobody
            file.write(content)

    writer = threading.Thread(target=fill)
    writer.start()
    try:
        yield f"/dev/fd/{read}"
    finally:
        os.close(read)
        writer.join()


def weights(folder):
    return {name: w.numpy().tobytes() for name, w in checkpoint.load(folder).weights.items()}


# --- Pipes


@pytest.mark.slow
@posix
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_text_of_a_pipe_is_kept_in_the_run(pack, verse, tmp_path, capsys):
    content, run, moved = verse.read_bytes(), tmp_path / "run", tmp_path / "moved"
    with piped(pack(content)) as pipe:
        assert main(["train", "--text", pipe, "--out", str(run), *TINY]) == 0
    assert (run / "text.txt").read_bytes() == content
    assert main(["train", "--config", str(run / "config.toml"), "--out", str(tmp_path / "again"), "--eager"]) == 0
    assert weights(run) == weights(tmp_path / "again")
    run.rename(moved)
    assert main(["train", "--resume", str(moved), "--steps", "3", "--eager"]) == 0
    assert main(["evaluate", str(moved)]) == 0
    with piped(pack(content)) as pipe:
        assert main(["evaluate", str(moved), "--text", pipe]) == 0
    assert f"{pipe}: {len(content) - 1:,} targets" in capsys.readouterr().out


@posix
@pytest.mark.parametrize(
    ("option", "content", "kept", "options"),
    [
        ("--text", '{"x": "the cat sat on the mat"}\n' * 30, "text.jsonl", ["--field", "x", *TINY]),
        ("--pairs", PAIRS, "pairs.tsv", ["--task", "translate", *TRANSLATOR]),
        (
            "--sequences",
            CHOSEN,
            "sequences.csv",
            ["--task", "recommend", "--D", "8", "--F", "8", "--steps", "1", "--eager"],
        ),
    ],
)
def test_other_data_of_a_pipe_are_kept(option, content, kept, options, tmp_path, monkeypatch):
    for task in cli.TASKS.values():
        monkeypatch.setattr(task, "finish", lambda *arguments: None)
    monkeypatch.setattr(cli, "_offer_page", lambda *arguments: None)
    with piped(content.encode()) as pipe:
        assert main(["train", option, pipe, "--out", str(tmp_path / "run"), *options]) == 0
    assert (tmp_path / "run" / kept).read_text() == content
    assert main(["train", "--resume", str(tmp_path / "run"), "--steps", "3", "--eager"]) == 0


@posix
@pytest.mark.parametrize("content", [b"", b"short", b"\xff", b"\x89PNG\0"])
def test_pipe_that_is_refused_leaves_nothing(content, tmp_path, capsys):
    for folder in (tmp_path / "old", tmp_path / "deep" / "new"):
        (tmp_path / "old").mkdir(exist_ok=True)
        with piped(content) as pipe:
            assert main(["train", "--text", pipe, "--out", str(folder), *TINY]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "text.txt" not in said
        assert pipe in said or content == b"short"
        assert folder.exists() == (folder.name == "old") and not list((tmp_path / "old").iterdir())


@posix
def test_several_ranks_cannot_share_a_pipe(verse, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ranks, "count", lambda: 2)
    with piped(b"") as pipe:
        kept = cli._pipe_kept({"text": Path(pipe)}, "text", tmp_path / "run")
        with pytest.raises(cli.UsageError, match="2 processes need the data; write them to a file"), kept:
            pass
    with cli._pipe_kept({"text": verse}, "text", tmp_path / "run"):  # a file may be read by all
        pass


def test_file_of_the_same_name_is_no_pipe_of_the_run(verse, tmp_path):
    """A run's own file takes the place of a pipe's; another file that is gone stays gone."""
    (tmp_path / "verse.txt").write_text("another")
    state = {"file": str(tmp_path / "nowhere" / "verse.txt")}
    assert with_kept_data(tmp_path, state) is state
    assert with_kept_data(tmp_path, {"file": None}) == {"file": None}


def test_run_without_a_checkpoint_may_begin_again(tmp_path):
    for name in ("config.toml", "text.txt"):
        (tmp_path / name).write_text("")
    assert cli._new_folder(tmp_path, "x") == tmp_path
    (tmp_path / "config.toml").unlink()
    with pytest.raises(cli.UsageError, match="is not empty"):
        cli._new_folder(tmp_path, "x")


# --- Proposed commands


@pytest.fixture
def named(monkeypatch):
    """`models` as the only word before the arguments of a proposed command."""
    monkeypatch.setattr(called, "name", "models")
    monkeypatch.setattr(called, "command", "models")


AWKWARD = ["a run", "it's", '"so"', "$HOME", "a;b", "-x", "*", "ünï", "a\nb"]


@pytest.mark.parametrize("name", AWKWARD)
def test_proposed_command_is_quoted_for_a_shell(name, named):
    words = split(proposed("sample", Path(name), "--prompt", name))
    assert words[:2] == ["models", "sample"] and Path(words[2]) == Path(name) and words[3:] == ["--prompt", name]
    assert not words[2].startswith("-")


def commands(printed: str) -> list[list[str]]:
    """The arguments of the commands that a text proposes."""
    matches = re.findall(r"(?:: |use )((?:python -m models|--resume) .+?)(?: to go on.*)?$", printed, re.MULTILINE)
    return [split(command.removeprefix("python -m models")) for command in matches]


@pytest.mark.slow
def test_every_proposed_command_works_as_it_stands(verse, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run, text = "-it's a $run", '-my "text".txt'
    shutil.copy(verse, text)
    train = ["train", f"--text={text}", f"--out={run}", *TINY]
    assert main(train) == 0
    (sample,) = commands(capsys.readouterr().out)
    assert main(sample) == 0
    assert main(train) == 2
    (resume,) = commands(capsys.readouterr().err)
    assert main(["train", *resume, "--steps", "3", "--eager"]) == 0


def test_stopped_run_proposes_how_to_go_on(verse, tmp_path, monkeypatch, capsys):
    def advance(trainer):
        trainer.stop = True
        return before(trainer)

    before, run = Trainer.advance, tmp_path / "a 'run'"
    monkeypatch.setattr(Trainer, "advance", advance)
    assert main(["train", "--text", str(verse), "--out", str(run), *TINY]) == 128 + signal.SIGINT
    (resume,) = commands(capsys.readouterr().out)
    assert resume[:2] == ["train", "--resume"] and Path(resume[2]) == run


@pytest.mark.slow
def test_translator_proposes_a_sentence_that_a_shell_takes(tmp_path, capsys):
    run = tmp_path / "a run"
    sentences = [f'- it\'s no. {i}, "{i}" & {i}?' for i in range(40)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{s}\n" for s in sentences))
    command = ["train", "--task", "translate", "--pairs", str(tmp_path / "pairs.tsv"), "--out", str(run), *TRANSLATOR]
    assert main(command) == 0
    (translate,) = commands(capsys.readouterr().out)
    assert translate[-1] in sentences
    assert main(translate) == 0


# --- Names not in UTF-8


@posix
@pytest.mark.parametrize("option", ["--text", "--init-from"])
def test_name_that_is_not_utf8_gets_a_sentence(option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("caf\udce9.txt").write_text("the cat sat on the mat\n" * 40)
    assert main(["train", *TINY, option, "caf\udce9.txt"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "surrogates" not in said
    assert re.search(
        rf"argument {option}: 'caf\\udce9.txt': the name of this file, .* is not UTF-8, .* rename it", said
    )


@posix
def test_folder_whose_name_is_not_utf8_gets_a_sentence(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["train", *TINY, "--text", "text.txt"]) == 2
    assert "a folder above it, is not UTF-8" in capsys.readouterr().err
    assert data_path(str(tmp_path / "ünï 😀")) == tmp_path / "ünï 😀"


@pytest.mark.slow
@posix
def test_run_may_have_such_a_name(verse, tmp_path, capsys):
    run = str(tmp_path / "caf\udce9")
    assert main(["train", "--text", str(verse), "--out", run, *TINY]) == 0
    assert main(["train", "--resume", run, "--steps", "3", "--eager"]) == 0
    assert main(["sample", run, "--tokens", "2"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.count("open ") == 2
    with piped(verse.read_bytes()) as pipe:  # the file that repeats the run would have to hold the name
        assert main(["train", "--text", pipe, "--out", f"{run}2", *TINY]) == 2
    assert "is not UTF-8" in capsys.readouterr().err
    assert not os.path.exists(f"{run}2")


@pytest.mark.slow
@posix
def test_folder_of_texts_may_hold_such_names(verse, tmp_path, capsys):
    (tmp_path / "texts").mkdir()
    shutil.copy(verse, tmp_path / "texts" / "caf\udce9.txt")
    (tmp_path / "texts" / "\udcff.txt").write_text("")
    assert main(["train", "--text", str(tmp_path / "texts"), "--out", str(tmp_path / "run"), *TINY]) == 0
    assert r"\udcff.txt is empty: there is nothing to learn from; skipped" in capsys.readouterr().err

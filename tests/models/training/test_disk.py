"""A disk that is full or read-only: a sentence, the last checkpoint, and a run that goes on from it bit for bit."""

import errno
import os
import re
from shlex import split

import pytest

from models.command import cli
from models.command.cli import main
from models.tasks.text import TextTask
from models.training import checkpoint

TINY = split("--tokenizer char --steps 8 --D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --eager --log-every 1")
TINY += split("--checkpoint-every 2 --evaluate-every 4")


@pytest.fixture
def quick(monkeypatch):
    """Runs that end without pictures and a page."""
    monkeypatch.setattr(TextTask, "finish", lambda *arguments: None)
    monkeypatch.setattr(cli, "_offer_page", lambda *arguments: None)


@pytest.fixture
def begin(verse, tmp_path, quick):
    return lambda *options: main(["train", "--text", str(verse), "--out", str(tmp_path / "run"), *TINY, *options])


@pytest.fixture
def disk(monkeypatch):
    """disk(n): the disk is full from the n-th file on that is to reach it; disk(None): there is room."""
    room, written, sync = [None], [0], os.fsync

    def fsync(handle):
        written[0] += 1
        if room[0] is not None and written[0] > room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    def full(files):
        room[0], written[0] = files, 0

    monkeypatch.setattr(os, "fsync", fsync)
    full.written = written
    return full


def weights(folder):
    return {name: w.numpy().tobytes() for name, w in checkpoint.load(folder).weights.items()}


SAYS = r"models: (the .+) cannot be written to \S*/run\S*: the disk is full"


@pytest.mark.slow
def test_full_disk_leaves_the_last_checkpoint(begin, disk, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    assert begin() == 0
    whole, files, said = weights(run), disk.written[0], set()
    for room in range(0, files, 5):
        (tmp_path / "run").rename(tmp_path / f"before-{room}")
        disk(room)
        capsys.readouterr()
        code, err = begin(), capsys.readouterr().err
        disk(None)
        assert "Errno" not in err and "Traceback" not in err
        reached = checkpoint.steps(run)
        if code:
            last = re.search(SAYS, err.splitlines()[-1])
            assert last and err.count(f"{last[1]} cannot be written") == 1
            said.add(re.sub(r"\d+", "n", last[1]))
            there = f"the checkpoint of step {reached[-1]} is there, to go on with: " if reached else ""
            assert not reached or err.endswith(f"{there}python -m models train --resume {run}\n")
            assert not list((run / checkpoint.FOLDER).glob(".unfinished*")) if run.is_dir() else True
        if reached:
            assert main(["train", "--resume", str(run), "--eager"]) == 0
            assert weights(run) == whole
            assert [line.split(",")[0] for line in (run / "log.csv").read_text().splitlines()[1:]] == list("12345678")
    assert said == {"the file that repeats this run", "the checkpoint of step n", "the log"}


def test_log_that_lacks_a_row_has_it_in_the_end(begin, tmp_path, monkeypatch, capsys):
    from models.training.trainer import Log

    before = Log.append

    def append(log, path, row):
        if row["step"] in (3, 6):
            with path.open("a") as file:
                file.write("3,0.")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        before(log, path, row)

    monkeypatch.setattr(Log, "append", append)
    assert begin() == 0
    said = "models: writing log.csv failed, and the run goes on (a row of the log cannot be written to "
    assert capsys.readouterr().err.count(said) == 1
    log = (tmp_path / "run" / "log.csv").read_text()
    assert [line.count(",") for line in log.splitlines()] == [4] * 9
    assert [line.split(",")[0] for line in log.splitlines()[1:]] == list("12345678")


IN_PLACE = {  # a file or a folder in the way of a resumed run: what is said, and whether the run ends
    "log.csv": ("the log cannot be written to {run}/log.csv: a folder has this name", True),
    ".lock": ("the lock of the run cannot be written to {run}/.lock: a folder has this name", True),
    "snapshots": ("a snapshot for the page failed, and the run goes on (the snapshot of step 10 cannot be", False),
    "tensorboard": ("{run}/tensorboard is a file, where a folder is needed", False),
    "checkpoints": ("{run} holds no checkpoint", True),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", IN_PLACE)
def test_something_else_has_the_name(name, begin, tmp_path, capsys):
    run = tmp_path / "run"
    assert begin() == 0
    path = run / name
    path.rename(tmp_path / "aside") if path.exists() else None
    path.mkdir() if name in ("log.csv", ".lock") else path.write_text("")
    capsys.readouterr()
    message, ends = IN_PLACE[name]
    code = main(["train", "--resume", str(run), "--steps", "10", "--eager", "--tensorboard"])
    said = capsys.readouterr().err
    assert message.format(run=run) in said and said.count("\n") == 1
    assert (code != 0) == ends
    assert ends or checkpoint.load(run, ()).step == 10


def test_file_in_the_place_of_the_folder_of_runs(verse, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").write_text("")
    for out in ([], ["--out", "runs/mine"]):
        assert main(["train", "--text", str(verse), *TINY, *out]) == 2
        said = capsys.readouterr().err
        assert re.fullmatch(
            r"models: the run cannot be written to runs/\S+: runs is a file, where a folder is needed\n", said
        )


def test_other_outputs_are_named(begin, tmp_path, monkeypatch, capsys, disk):
    run = str(tmp_path / "run")
    assert begin("--residual", "pre-norm", "--final-norm", "--steps", "1") == 0
    capsys.readouterr()
    disk(0)
    for what, *command in (
        ["the page", "show", run, "--out", str(tmp_path / "page.html")],
        ["the model", "export", run, str(tmp_path / "model")],
    ):
        assert main(command) in (1, 2)
        expected = f"models: {what} cannot be written to {command[-1]}: the disk is full\n"
        assert capsys.readouterr().err == expected

"""Checkpoints: whole at any moment, and a resumed run ends with the bits of one that never stopped."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from models.training import checkpoint
from models.training.checkpoint import Checkpoint, CheckpointError
from tests.tools.platforms import posix
from tests.tools.sampling_rate import some
from tests.tools.wait_for_step import step_of, wait_for_step
from tinytensor import tensor

ROOT = Path(__file__).parents[3]


def weights_of(folder):
    saved = checkpoint.load(folder)
    return saved.step, {name: w.numpy().tobytes() for name, w in saved.weights.items()}


def a_checkpoint(step, value=1.0):
    return Checkpoint(step, {"w": tensor([value, 2.0])}, {"0.exp_avg": tensor([3.0, value])}, {"log": [{"step": step}]})


# --- One checkpoint


def test_saved_checkpoint_is_loaded(tmp_path):
    path = checkpoint.save(tmp_path, a_checkpoint(7))
    assert path == checkpoint.latest(tmp_path) == tmp_path / "checkpoints" / "step-00000007"
    saved = checkpoint.load(tmp_path)
    assert (saved.step, saved.state) == (7, {"log": [{"step": 7}]})
    assert saved.weights["w"].tolist() == [1.0, 2.0]
    assert saved.optimizer["0.exp_avg"].tolist() == [3.0, 1.0]


def test_too_large_step_number_is_refused(tmp_path):
    saved = a_checkpoint(7)
    saved.state["seed"] = 2**128 - 1
    checkpoint.save(tmp_path, saved)
    assert checkpoint.load(tmp_path).state["seed"] == 2**128 - 1
    saved.step, saved.state["seed"] = 8, 10**400
    checkpoint.save(tmp_path, saved)
    with pytest.raises(CheckpointError, match=r"does not hold what it should \(1000.* is larger than any number"):
        checkpoint.load(tmp_path)


def test_files_are_safetensors_and_json(tmp_path):
    path = checkpoint.save(tmp_path, a_checkpoint(7))
    assert sorted(p.name for p in path.iterdir()) == sorted((*checkpoint.FILES, checkpoint.MANIFEST))
    json.loads((path / "state.json").read_text())
    for source in (ROOT / "models").glob("*.py"):
        assert "import pickle" not in source.read_text()


def test_the_last_two_are_kept(tmp_path):
    for step in (0, 5, 10, 15, 100_000_000):
        checkpoint.save(tmp_path, a_checkpoint(step))
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step-00000015", "step-100000000"]
    assert checkpoint.load(tmp_path).step == 100_000_000


def test_the_best_is_kept_beside_the_last_two(tmp_path):
    for step, best in ((0, None), (5, 5), (10, 5), (15, 5), (20, 20), (25, 20)):
        checkpoint.save(tmp_path, a_checkpoint(step), best=best)
        assert best is None or best in checkpoint.steps(tmp_path)
        assert len(checkpoint.steps(tmp_path)) <= 3
    assert checkpoint.steps(tmp_path) == [20, 25]


def test_existing_checkpoint_is_not_rewritten(tmp_path):
    path = checkpoint.save(tmp_path, a_checkpoint(5))
    before = (path / "state.json").stat().st_mtime_ns
    checkpoint.save(tmp_path, a_checkpoint(5, value=9.0))
    assert (path / "state.json").stat().st_mtime_ns == before


class PowerCut(BaseException):
    pass


def test_checkpoint_survives_a_failure_of_any_call(tmp_path, monkeypatch):
    """Every call that changes the disk is made to fail in turn; what stays behind must be loadable."""
    real = {name: getattr(os, name) for name in ("replace", "fsync", "mkdir", "open", "rmdir", "unlink")}
    budget = [0]

    def limited(name):
        def call(*args, **kwargs):
            budget[0] -= 1
            if budget[0] < 0:
                raise PowerCut
            return real[name](*args, **kwargs)

        return call

    outcomes = []
    for calls in range(200):
        run = tmp_path / str(calls)
        checkpoint.save(run, a_checkpoint(1, value=1.0), keep=1)
        for name in real:
            monkeypatch.setattr(os, name, limited(name))
        budget[0] = calls
        try:
            checkpoint.save(run, a_checkpoint(2, value=2.0), keep=1)
            finished = True
        except PowerCut:
            finished = False
        for name in real:
            monkeypatch.setattr(os, name, real[name])
        saved = checkpoint.load(run)
        assert saved.weights["w"].tolist()[0] == saved.step == saved.state["log"][0]["step"]
        assert saved.optimizer["0.exp_avg"].tolist()[1] == saved.step
        outcomes.append(saved.step)
        checkpoint.save(run, a_checkpoint(3, value=3.0), keep=1)  # leftovers do not hinder a save
        assert checkpoint.load(run).step == 3
        if finished:
            break
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {1, 2}
    assert len(outcomes) > 10


def test_bytes_reach_the_disk_before_the_name(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(handle):
        events.append(("fsync", os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    def watched_replace(old, new):
        events.append(("replace", str(new)))
        replace(old, new)

    if not Path("/proc/self/fd").exists():
        pytest.skip("the names of open files are not known here")
    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    final = checkpoint.save(tmp_path, a_checkpoint(1))
    committed = events.index(("replace", str(final)))
    synced = [Path(name) for category, name in events[:committed] if category == "fsync"]
    assert sum(path.parent.name == ".unfinished-step-00000001" for path in synced) == 4  # each file,
    assert synced[-1].name == ".unfinished-step-00000001"  # then the folder that names them,
    assert ("fsync", str(final.parent)) in events[committed:]  # and then the folder above


def test_other_folders_are_no_checkpoints(tmp_path):
    for name in (".unfinished-step-00000009", "step-9", "step-0000000x", "notes"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert checkpoint.latest(tmp_path) is None
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("name", [*checkpoint.FILES, checkpoint.MANIFEST])
@pytest.mark.parametrize("damage", ["missing", "cut", "one bit", "empty", "a folder"])
def test_damaged_checkpoint_is_refused(tmp_path, name, damage):
    file = checkpoint.save(tmp_path, a_checkpoint(3)) / name
    content = bytearray(file.read_bytes())
    file.unlink()
    content[len(content) // 2] ^= 1
    if damage == "a folder":
        file.mkdir()
    elif damage != "missing":
        file.write_bytes({"cut": content[: len(content) // 2], "one bit": content, "empty": b""}[damage])
    with pytest.raises(CheckpointError, match=r"step-00000003 .*remove it to go on from the one before"):
        checkpoint.load(tmp_path)


def test_next_save_removes_leftovers_of_killed_saves(tmp_path):
    checkpoint.save(tmp_path, a_checkpoint(1))
    (tmp_path / "checkpoints" / ".unfinished-step-00000002").mkdir()
    (tmp_path / "checkpoints" / ".unfinished-step-00000002" / ".weights.safetensors.abc").write_bytes(b"half")
    (tmp_path / ".log.csv.abc").write_bytes(b"half")
    checkpoint.save(tmp_path, a_checkpoint(3))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-00000001", "step-00000003"]


# --- Resuming


def columns(trainer):
    return [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in trainer.log.rows]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ({"dropout": 0.2}, {}),
        ({"tied": True, "norm": "affine", "attention_bias": True}, {"head_lr": (0.5, 2.0), "layer_lr": (1.0, 0.1)}),
        ({}, {"optimizer": "sgd", "lr": 0.3, "weight_decay": 0.0, "clip": 0.5}),
    ],
)
def test_resumed_run_equals_an_unbroken_run(begin, eager, model, changes):
    whole = begin("whole", eager=eager, model=model, **changes)
    assert whole.train()
    stops = [1, 9, 10, 23]  # before a row of the log is due, at one, ...
    trainer = begin("parts", eager=eager, model=model, **changes)
    for stop in [*stops, None]:

        def progress(row, trainer=trainer, stop=stop):
            trainer.stop = row["step"] == stop

        assert trainer.train(progress) == (stop is None)
        if stop is not None:
            trainer = begin("parts", eager=not eager, model=model, **changes)  # eager and replayed may alternate
            trainer.restore(checkpoint.load(trainer.folder))
            assert trainer.step == stop
    assert weights_of(whole.folder) == weights_of(trainer.folder)
    assert columns(whole) == columns(trainer)
    lines = [(t.folder / "log.csv").read_text().splitlines() for t in (whole, trainer)]
    assert [line.split(",")[:3] for line in lines[0]] == [line.split(",")[:3] for line in lines[1]]


def test_resumed_log_has_no_row_twice(begin):
    trainer = begin(checkpoint_every=10)

    class Killed(Exception):
        pass

    def progress(row):
        if row["step"] == 17:
            raise Killed

    with pytest.raises(Killed):
        trainer.train(progress)
    assert len((trainer.folder / "log.csv").read_text().splitlines()) == 1 + 5  # 4, 8, 10, 12, 16
    second = begin(checkpoint_every=10).restore(checkpoint.load(trainer.folder))
    assert second.step == 10
    assert second.train()
    steps = [int(line.split(",")[0]) for line in (trainer.folder / "log.csv").read_text().splitlines()[1:]]
    assert steps == [4, 8, 10, 12, 16, 20, 24, 28, 30]


# --- Real signals


OPTIONS = (
    "--steps 400 --checkpoint-every 4 --log-every 10 --evaluate-every 200 --batch-size 2 --tokenizer char --dropout 0.1"
)
SIZES = "--D 8 --H 2 --F 8 --L 1 --C 8 --threads 1"


def start(*arguments):
    command = [sys.executable, "-m", "models", "train", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process):
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


@pytest.fixture(scope="module")
def uninterrupted(verse, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    code, output = finish(start("--text", verse, "--out", out, *OPTIONS.split(), *SIZES.split()))
    assert code == 0, output
    return out


@pytest.mark.slow
@posix
def test_run_survives_sigkill_bit_for_bit(verse, uninterrupted, tmp_path):
    out, chance = tmp_path / "run", random.Random(os.getpid())
    process = start("--text", verse, "--out", out, *OPTIONS.split(), *SIZES.split())
    killed = []
    for step in some((1, 80, 160, 240, 320), one_in=4):
        wait_for_step(out, step, process)
        time.sleep(chance.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        finish(process)
        result = checkpoint.load(out)  # whole
        assert all(np.isfinite(w.numpy()).all() for w in result.weights.values())
        killed.append(result.step)
        process = start("--resume", out, "--threads", 1)
    code, output = finish(process)
    assert code == 0, output
    assert killed[0] < 400, "it was over before it could be killed"
    assert weights_of(out) == weights_of(uninterrupted)
    steps = [line.split(",")[:3] for line in (out / "log.csv").read_text().splitlines()]
    assert steps == [line.split(",")[:3] for line in (uninterrupted / "log.csv").read_text().splitlines()]


@pytest.mark.slow
@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_save_a_checkpoint(verse, uninterrupted, tmp_path, number):
    out = tmp_path / "run"
    process = start("--text", verse, "--out", out, *OPTIONS.split(), *SIZES.split())
    wait_for_step(out, 8, process)
    process.send_signal(number)
    code, output = finish(process)
    assert code == 128 + number, output
    assert f"go on with: python -m models train --resume {out}" in output
    stopped = step_of(out)
    assert 8 <= stopped < 400
    code, output = finish(start("--resume", out, "--eager"))
    assert code == 0, output
    assert f"going on after step {stopped} of 400" in output
    assert weights_of(out) == weights_of(uninterrupted)


@pytest.mark.slow
@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_first_step_compiles_ends_at_once(verse, tmp_path, number):
    """In a process of its own: nothing has been learnt that would be worth the wait for the end of the step."""
    program = (
        "import sys, time; from models.command import cli; from models.training.trainer import Trainer\n"
        "Trainer.advance = lambda self: (print('compiling', flush=True), time.sleep(600))\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "train", "--text", str(verse), "--out", str(tmp_path / "run")]
    command += [*OPTIONS.split(), *SIZES.split()]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "compiling" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=300)  # half of what the step would take
    assert (process.returncode, "Traceback" in err) == (130 if number == signal.SIGINT else -signal.SIGTERM, False)


@pytest.mark.slow
def test_resumed_finished_run_only_reports(uninterrupted, tmp_path):
    out = tmp_path / "copy"
    shutil.copytree(uninterrupted, out)
    (out / "loss.png").unlink()
    code, output = finish(start("--resume", out))
    assert code == 0, output
    assert (out / "loss.png").exists()
    assert weights_of(out) == weights_of(uninterrupted)


@pytest.mark.slow
@posix
def test_two_processes_do_not_share_a_folder(verse, tmp_path):
    out = tmp_path / "run"
    first = start("--text", verse, "--out", out, *OPTIONS.split(), *SIZES.split())
    try:
        wait_for_step(out, 4, first)
        first.send_signal(signal.SIGSTOP)
        code, output = finish(start("--resume", out))
        assert code == 2
        assert "another process is training in" in output
    finally:
        first.kill()
        finish(first)

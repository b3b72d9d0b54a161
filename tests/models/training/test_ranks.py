"""`mpiexec -n 2 python -m models train`: a run is one run, whichever ranks take part, are killed, or resume it."""

import csv
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from shlex import split

import numpy as np
import pytest

import tinytensor
from models.data.text import IGNORE_INDEX
from models.tasks.text import TextTask
from models.tasks.translate import TranslateTask
from models.training import checkpoint, ranks
from tests.tools import mpi
from tests.tools.wait_for_step import step_of, wait_for_step
from tinytensor import tensor

OPTIONS = "--steps 240 --checkpoint-every 10 --log-every 10 --evaluate-every 120 --batch-size 5 --tokenizer char"
SIZES = "--D 8 --H 2 --F 8 --L 1 --C 8 --dropout 0.1"


def begin(verse, out, n, *options):
    arguments = ["--text", verse, "--out", out, *OPTIONS.split(), *SIZES.split(), *options]
    return mpi.start(n, "-m", "models", "train", *arguments)


def process_of(rank: int, out: Path) -> int:
    """The id of the process that is this rank of the run in a folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:  # it has ended
                continue
            if str(out).encode() in command and f"\0PMI_RANK={rank}\0".encode() in b"\0" + environment:
                return int(entry.name)
    raise AssertionError(f"there is no rank {rank}")


def losses(out) -> list[float]:
    with (out / "log.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def alone(verse, tmp_path_factory):
    """The run of one process."""
    out = tmp_path_factory.mktemp("alone") / "run"
    code, output = mpi.finish(begin(verse, out, 1))
    assert code == 0, output
    return out


@pytest.mark.slow
def test_killed_run_resumes_on_another_number_of_ranks(verse, alone, tmp_path):
    out = tmp_path / "run"
    process = begin(verse, out, 2)
    wait_for_step(out, 50, process)
    assert step_of(out) >= 50, process.communicate()[0]
    os.kill(process_of(1, out), signal.SIGKILL)
    code, output = mpi.finish(process, limit=120)  # a process that waited for that rank would wait for 30 minutes
    assert code == 9
    page = (mpi.ROOT / "examples" / "guide" / "processes.md").read_text()
    (shown,) = re.findall(r"```\n(=+\n=   BAD.*?)```", page, re.DOTALL)
    for line in shown.splitlines():  # what the page shows, but for the machine
        assert line in output or "PID" in line, output
    assert 50 <= checkpoint.load(out).step < 240  # whole
    code, output = mpi.run(3, "-m", "models", "train", "--resume", out, "--eager")
    assert code == 0, output
    for once in ("going on after step", f"run: {out}", "held-out loss in nats", "written to "):
        assert output.count(once) == 1, output  # rank 0 speaks
    assert "on 3 ranks with 1 thread each" in output
    # The same batches in the same order on any number of ranks: only rounding differs, which grows step by step.
    np.testing.assert_allclose(losses(out), losses(alone), rtol=2e-3)
    one, several = (checkpoint.load(folder) for folder in (alone, out))
    assert several.state["batches"] == one.state["batches"]
    assert several.state["generator"] == one.state["generator"]


@pytest.mark.slow
def test_rank_0_draws_the_progress_bar_in_a_terminal(verse, tmp_path):
    ours, theirs = pty.openpty()
    arguments = ["--text", verse, "--out", tmp_path / "run", *OPTIONS.split(), *SIZES.split(), "--steps", 20]
    command = [mpi.mpiexec(), "-n", "2", sys.executable, "-m", "models", "train", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=mpi.ROOT, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # at the end of a terminal
        while part := os.read(ours, 1000):
            shown += part
    os.close(ours)
    assert process.wait() == 0
    assert b"20/20" in shown
    assert shown.count(b" 0/20") == 1  # as each bar begins: there is one


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["all", "one rank"])
def test_ctrl_c_saves_once_and_ends_all_ranks(verse, tmp_path, whom):
    out = tmp_path / "run"
    process = begin(verse, out, 2)
    wait_for_step(out, 20, process)
    assert step_of(out) >= 20, process.communicate()[0]
    os.kill(process.pid if whom == "all" else process_of(1, out), signal.SIGINT)
    code, output = mpi.finish(process)
    assert code == 128 + signal.SIGINT, output
    step = checkpoint.load(out).step
    assert 20 <= step < 240
    go_on = f"mpiexec -n 2 python -m models train --resume {out}"
    assert output.count(f"stopped after step {step}; go on with: {go_on}") == 1
    assert "Traceback" not in output


@pytest.mark.slow
def test_a_run_with_the_same_ranks_repeats_bit_for_bit(verse, tmp_path):
    results = []
    for name in ("first", "second"):
        code, output = mpi.finish(begin(verse, tmp_path / name, 2, "--steps", 20, "--batch-size", 1))
        assert code == 0, output  # one of the two has no data
        saved = checkpoint.load(tmp_path / name)
        results.append({key: value.numpy().tobytes() for key, value in saved.weights.items()})
    assert results[0] == results[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--text", "/nowhere.txt"), "models: /nowhere.txt: there is no such file"),
        (("--bogus",), "models: unrecognized arguments: --bogus (see python -m models train --help)"),
        (("--D", 9), "models: D = 9 is not divisible by H = 4: each head has the width K = D / H"),
    ],
)
def test_wrong_option_is_reported_once(tmp_path, options, sentence):
    code, output = mpi.run(2, "-m", "models", "train", "--out", tmp_path / "run", *options)
    assert code == 2, output
    assert output.splitlines() == [sentence]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_refusal_of_rank_0_is_reported_once(verse, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    code, output = mpi.finish(begin(verse, tmp_path, 2))
    assert code == 2, output
    assert output.splitlines() == [f"models: --out {tmp_path} is not empty; name a new folder"]


@pytest.mark.slow
def test_error_on_one_rank_ends_all(verse, tmp_path):
    code, output = mpi.finish(begin(verse, tmp_path / "run", 2, "--lr", "1e30", "--clip", "0"))
    assert code == 1, output
    assert output.count("is the last good checkpoint") == 1
    assert "rank 0 of 2 ended with this, and with it all of them" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "content", "sentence"),
    [
        ("mpi4py.py", "class rc: pass\ndef __getattr__(name): raise ImportError('no library')", "mpi4py finds no MPI"),
        ("sitecustomize.py", "import sys; sys.modules['mpi4py'] = None", "mpi4py is not installed"),
    ],
)
def test_missing_extra_is_named_by_one_rank(verse, tmp_path, path, content, sentence):
    (tmp_path / path).write_text(content)
    code, output = mpi.run(
        2, "-m", "models", "train", "--text", verse, "--out", tmp_path / "run", PYTHONPATH=f"{tmp_path}:{mpi.ROOT}"
    )
    assert code == 2, output
    assert len(output.splitlines()) == 1, output
    assert output.startswith(f"models: init_process_group: {sentence}")
    assert "pip install" in output


# --- Who has which rows


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 8])
def test_parts_hold_each_row_once_and_padding(parts):
    x = np.arange(1, 16).reshape(5, 3)
    y = x + 100
    results = [ranks.rows_of((x, y), (0, IGNORE_INDEX), part, parts) for part in range(parts)]
    assert {a.shape for part in results for a in part} == {
        (ranks.share(5, parts), 3)
    }  # all take the same recorded step
    for whole, own, nothing in ((x, [p[0] for p in results], 0), (y, [p[1] for p in results], IGNORE_INDEX)):
        together = np.concatenate(own)
        assert together[:5].tolist() == whole.tolist()
        assert (together[5:] == nothing).all()


@pytest.mark.slow
def test_one_process_loads_no_mpi():
    assert (ranks.rank(), ranks.count()) == (0, 1)
    look = "main(['info', 'toth-tiny']); assert 'mpi4py' not in sys.modules"
    code = f"import sys; from models.command.cli import main; {look}"
    done = subprocess.run([sys.executable, "-c", code], cwd=mpi.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("task", [TextTask, TranslateTask])
def test_losses_of_parts_add_up_to_the_batch(task):
    tinytensor.manual_seed(0)
    model = task.Model(task.CONFIGS["micro"] if task is TextTask else task.CONFIGS["translate"].replace(n_vol=30))
    x, y = np.random.default_rng(0).integers(3, 27, (2, 5, 8))
    y[0, 2:] = y[4] = task.nothing[1]  # parts count different numbers of targets, and one of three none
    counted = (y != task.nothing[1]).sum()
    whole = model(tensor(x), tensor(y))[1].item()
    parts = [ranks.rows_of((x, y), task.nothing, part, 3) for part in range(3)]
    losses = [model(tensor(a), tensor(b), total=tensor(float(counted)))[1].item() for a, b in parts]
    assert sum(losses) == pytest.approx(whole, rel=1e-6)
    means = [model(tensor(a), tensor(b))[1].item() for a, b in parts[:2]]
    assert sum(means) / 2 != pytest.approx(whole, rel=1e-3)  # a mean of means is another number


@pytest.mark.slow
def test_parts_of_one_process_have_the_bits_of_ranks(verse, tmp_path):
    """Both add the same parts in the same order; without dropout, whose masks each rank draws for its own part."""
    arguments = [
        "--text",
        verse,
        *split("--tokenizer char --steps 4 --batch-size 5 --eager"),
        *SIZES.split(),
        "--dropout",
        "0",
    ]
    results = []
    for n, parts in ((3, 1), (1, 3)):
        out = tmp_path / f"on-{n}"
        code, output = mpi.run(n, "-m", "models", "train", *arguments, "--accumulate", parts, "--out", out)
        assert code == 0, output
        results.append({name: w.numpy().tobytes() for name, w in checkpoint.load(out).weights.items()})
    assert results[0] == results[1]

"""`train --profile` and `--tensorboard`: the files that they write, and what they leave alone."""

import importlib.util
import json
from itertools import pairwise
from shlex import split

import pytest

from models.command import cli, monitors
from models.command.cli import main
from models.training import checkpoint
from tests.tools.packages import missing
from tinytensor.native.platform.distribution import install

TINY = split("--D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --tokenizer char --evaluate-every 5 --log-every 5")


def trained(verse, out, *options, steps=15):
    assert main(["train", "--text", str(verse), *TINY, "--steps", str(steps), "--out", str(out), *options]) == 0
    return {name: w.numpy().tobytes() for name, w in checkpoint.load(out).weights.items()}


def test_trace_holds_steps_and_kernels_and_changes_no_bit(verse, tmp_path, capsys):
    file = tmp_path / "trace.json"
    plain, traced = trained(verse, tmp_path / "a"), trained(verse, tmp_path / "b", "--profile", str(file))
    assert plain == traced
    assert f"open {file} at https://ui.perfetto.dev" in capsys.readouterr().out
    events = json.loads(file.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    steps = [event for event in spans if event["cat"] == "steps"]
    kernels = [event for event in spans if event["cat"] == "kernels"]
    assert [event["name"] for event in steps] == [f"step {n}" for n in range(4, 14)]
    assert min(event["ts"] for event in spans) == 0
    for before, after in pairwise(steps):  # one after the other
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-6
    inside = [k for k in kernels if any(s["ts"] <= k["ts"] and k["ts"] + k["dur"] <= s["ts"] + s["dur"] for s in steps)]
    assert len(inside) > 0.9 * len(kernels) > 100
    assert any(event["name"] == "matmul" and event["args"]["GFLOP/s"] > 0 for event in kernels)
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"tinytensor", "steps", "kernels"}


def test_short_run_is_traced_as_a_whole(verse, tmp_path):
    trained(verse, tmp_path / "run", "--profile", str(tmp_path / "t.json"), "--eager", steps=2)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event.get("cat") == "steps"] == ["step 1", "step 2"]


def test_curves_are_those_of_the_log(verse, tmp_path):
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader", reason=missing("tensorboard")
    )
    out = tmp_path / "run"
    trained(verse, out, "--tensorboard", "--eager", steps=10)
    (file,) = (out / monitors.TENSORBOARD).iterdir()
    results = {}
    for event in loader.EventFileLoader(str(file)).Load():
        for value in event.summary.value:
            results[value.tag, event.step] = value.tensor.float_val[0]
    rows = checkpoint.load(out).state["log"]
    expected = {(name, row["step"]): row[name] for row in rows for name in row if name != "step"}
    assert results == pytest.approx(expected, rel=1e-6)
    assert len(results) == 8  # four curves, at two steps


def test_files_that_cannot_be_written_are_refused(verse, tmp_path, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None if name == "tensorboard" else real(name))
    for arguments, sentence in (
        (["--profile", tmp_path], "is a folder; name a file"),
        (["--profile", tmp_path / "no" / "t.json"], f"there is no folder {tmp_path / 'no'}; make it first"),
        (["--tensorboard"], f"--tensorboard needs the package tensorboard: {install('tensorboard')}"),
    ):
        assert main(["train", *map(str, arguments), "--out", str(tmp_path / "run")]) == 2
        error = capsys.readouterr().err
        assert sentence in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()

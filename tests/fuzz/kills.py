"""Processes that are killed at any moment: the last checkpoint is whole, and the run goes on to the same bits."""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from models.training import checkpoint
from tests.tools import wait_for_step as runs

from .tally import ROOT, Diary, Tally

STEPS = {"short": 300, "sample": 3000, "long": 3000}  # of a run
RUNS = {"short": 1, "sample": 1, "long": 20}
KILLS = {"short": 2, "sample": 6, "long": 6}  # of each run, at most
OPTIONS = (
    "--checkpoint-every 3 --log-every 10 --evaluate-every 1000 --batch-size 2 --tokenizer char "
    "--dropout 0.1 --D 8 --H 2 --F 8 --L 1 --C 8 --threads 1"
)


def start(*arguments) -> subprocess.Popen:
    command = [sys.executable, "-m", "models", "train", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def weights(run: Path) -> dict[str, bytes]:
    return {name: w.numpy().tobytes() for name, w in checkpoint.load(run).weights.items()}


def fuzz(size: str, diary: Diary) -> Tally:
    """The short form kills after a step that a fixed seed draws, the others after a time, which is never the same."""
    short = size == "short"
    tally, chance, steps = Tally(), random.Random(4 if short else None), STEPS[size]
    options = ["--steps", steps, *OPTIONS.split()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "verse.txt"
        text.write_text("the cat sat on the mat and the dog lay by the door\n" * 30)
        whole = start("--text", text, "--out", folder / "whole", *options)
        _, err = whole.communicate(timeout=600)
        if whole.returncode:
            raise RuntimeError(f"the run to compare with failed: {err}")
        for number in diary.mine(range(RUNS[size])):
            out, kills = folder / f"run-{number}", 0
            process = start("--text", text, "--out", out, *options)
            while True:
                diary.enter(f"run {number}, kill {kills}")
                by = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
                if short:
                    step = steps * kills // 2 + chance.randrange(steps // 4)
                    when = f"step {step}"
                    runs.wait_for_step(out, step, process)
                else:
                    wait = chance.uniform(0.3, 3)
                    when = f"{wait:.2f} s"
                    time.sleep(wait)
                process.send_signal(by)
                _, err = process.communicate(timeout=300)
                message = f"run {number}, {by.name} after {when}"
                if "Traceback" in err and by != signal.SIGINT:
                    tally.find(f"{message}: {err[-300:]}")
                if checkpoint.latest(out) is None:  # it was killed before it had begun
                    arguments = ["--text", text, "--out", out, *options]
                else:
                    result = checkpoint.load(out)
                    if not all(np.isfinite(w.numpy()).all() for w in result.weights.values()):
                        tally.find(f"{message}: weights that are not finite")
                    arguments = ["--resume", out, "--threads", 1]
                    if result.step == steps:
                        break
                tally.enter("whole after a kill")
                kills += 1
                process = start(*arguments)
                if kills >= KILLS[size]:
                    _, err = process.communicate(timeout=600)
                    break
            if weights(out) != weights(folder / "whole"):
                tally.find(f"run {number}: after {kills} kills the weights are others")
            tally.enter("same bits at the end")
    return tally

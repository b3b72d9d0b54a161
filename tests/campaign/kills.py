"""Processes that are killed at any moment: the last checkpoint is whole, and the run goes on to the same bits."""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from models import checkpoint

from .tally import ROOT, Diary, Tally

OPTIONS = (
    "--steps 3000 --checkpoint-every 3 --log-every 10 --evaluate-every 1000 --batch-size 2 --tokenizer char "
    "--dropout 0.1 --D 8 --H 2 --F 8 --L 1 --C 8 --threads 1"
)


def start(*arguments) -> subprocess.Popen:
    command = [sys.executable, "-m", "models", "train", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def weights(run: Path) -> dict[str, bytes]:
    return {name: w.numpy().tobytes() for name, w in checkpoint.load(run).weights.items()}


def campaign(long: bool, diary: Diary) -> Tally:
    tally, chance = Tally(), random.Random()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "verse.txt"
        text.write_text("the cat sat on the mat and the dog lay by the door\n" * 30)
        whole = start("--text", text, "--out", folder / "whole", *OPTIONS.split())
        _, err = whole.communicate(timeout=600)
        if whole.returncode:
            raise RuntimeError(f"the run to compare with failed: {err}")
        for number in diary.mine(range(20 if long else 1)):
            out, kills = folder / f"run-{number}", 0
            process = start("--text", text, "--out", out, *OPTIONS.split())
            while True:
                diary.enter(f"run {number}, kill {kills}")
                by, wait = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]), chance.uniform(0.3, 3)
                time.sleep(wait)
                process.send_signal(by)
                _, err = process.communicate(timeout=300)
                told = f"run {number}, {by.name} after {wait:.2f} s"
                if "Traceback" in err and by != signal.SIGINT:
                    tally.find(f"{told}: {err[-300:]}")
                if checkpoint.latest(out) is None:  # it was killed before it had begun
                    arguments = ["--text", text, "--out", out, *OPTIONS.split()]
                else:
                    found = checkpoint.load(out)
                    if not all(np.isfinite(w.numpy()).all() for w in found.weights.values()):
                        tally.find(f"{told}: weights that are not finite")
                    arguments = ["--resume", out, "--threads", 1]
                    if found.step == 3000:
                        break
                tally.enter("whole after a kill")
                kills += 1
                process = start(*arguments)
                if kills >= 6:
                    _, err = process.communicate(timeout=600)
                    break
            if weights(out) != weights(folder / "whole"):
                tally.find(f"run {number}: after {kills} kills the weights are others")
            tally.enter("same bits at the end")
    return tally

"""How far a run has come that trains in another process."""

import subprocess
import time
from pathlib import Path

from models.training import checkpoint

LIMIT = 300  # seconds after which a run hangs


def step_of(folder: Path) -> int:
    """The step of the latest checkpoint in a run's folder; -1 where there is none."""
    path = checkpoint.latest(folder)
    return -1 if path is None else int(path.name.removeprefix("step-"))


def wait_for_step(folder: Path, step: int, process: subprocess.Popen) -> None:
    """Come back when the run has saved that step, or has ended."""
    limit = time.monotonic() + LIMIT
    while step_of(folder) < step and process.poll() is None:
        assert time.monotonic() < limit, "no checkpoint appeared"
        time.sleep(0.001)

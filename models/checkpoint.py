"""Checkpoints: everything a run needs to go on bit for bit, in a folder that appears by one rename.

    checkpoints/step-00001000/
        weights.safetensors     the parameters, under the names of the module
        optimizer.safetensors   what the optimizer keeps for each parameter, as "0.exp_avg", "1.exp_avg", ...
        state.json              the rest: configuration, settings, vocabulary, generators, place in the data, log

All of it is written to a temporary folder first and has reached the disk before that folder gets its name. So a process
that is killed at any moment leaves the last checkpoint whole, and a loss of power does too. Nothing is ever unpickled.
"""

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tinytensor import Tensor
from tinytensor.serialization import load_file, save_file, sync_directory, write_atomically

FOLDER = "checkpoints"
_NAME = re.compile(r"step-(\d{8,})")
_UNFINISHED = ".unfinished-"  # how the names of folders begin that do not count


class CheckpointError(ValueError):
    """There is nothing to go on from, or it cannot be read; the message says why."""


@dataclass
class Checkpoint:
    """The contents of one checkpoint."""

    step: int
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict  # what JSON can hold


def save(run: Path, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write a checkpoint of the run in the folder `run`, then remove all but the last `keep`; returns its path."""
    folder = run / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{checkpoint.step:08d}"
    if not final.exists():
        unfinished = folder / f"{_UNFINISHED}{final.name}"
        shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed here
        unfinished.mkdir()
        save_file(checkpoint.weights, unfinished / "weights.safetensors")
        save_file(checkpoint.optimizer, unfinished / "optimizer.safetensors")
        write_atomically(unfinished / "state.json", json.dumps({"step": checkpoint.step} | checkpoint.state).encode())
        sync_directory(unfinished)
        os.replace(unfinished, final)  # this is the moment at which it exists
        sync_directory(folder)
    for step in _steps(folder)[:-keep]:
        old = folder / f"step-{step:08d}"
        gone = folder / f"{_UNFINISHED}{old.name}"  # half removed, it must not look like a checkpoint
        os.replace(old, gone)
        shutil.rmtree(gone)
    return final


def _steps(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, in order."""
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def latest(run: Path) -> Path | None:
    """The last checkpoint of the run in the folder `run`, or None."""
    steps = _steps(run / FOLDER)
    return run / FOLDER / f"step-{steps[-1]:08d}" if steps else None


def load(run: Path) -> Checkpoint:
    """Read the last checkpoint of the run in the folder `run`; CheckpointError if there is none or it is damaged."""
    path = latest(run)
    if path is None:
        raise CheckpointError(f"{run} holds no checkpoint: name the folder of a run that was begun with `train --out`")
    try:
        state = json.loads((path / "state.json").read_bytes())
        weights, optimizer = (load_file(path / f"{name}.safetensors") for name in ("weights", "optimizer"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): remove it to go on from the one before") from None
    return Checkpoint(state.pop("step"), weights, optimizer, state)

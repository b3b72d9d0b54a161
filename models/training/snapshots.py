"""Snapshots: the weights at some twenty steps of a run as 16-bit numbers, to look at how a model learned (models/show).

    snapshots/step-00000100.safetensors     the parameters, under the names of the module

No run goes on from a snapshot: checkpoints are for that. A resumed run writes the snapshots of its steps again, with
the same bytes, and keeps the earlier ones.
"""

import re
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from models.training.checkpoint import CheckpointError
from tinytensor import Tensor, tensor
from tinytensor.interop.io.files import writing
from tinytensor.interop.io.serialization import write_atomically
from tinytensor.nn import Module

FOLDER = "snapshots"
LARGEST = 1_500_000  # parameters of a model of which snapshots are kept: a page holds no larger one
_NAME = re.compile(r"step-(\d{8,18})\.safetensors")


def due(step: int) -> bool:
    """Is there a snapshot after so many steps? After 0, 10, 20, 30, 50, 70, 100, 200, 300, 500, 700, 1,000 ..."""
    digits = str(step)
    return step == 0 or (len(digits) > 1 and digits[0] in "12357" and set(digits[1:]) == {"0"})


def keep(run: Path, step: int, model: Module) -> Path | None:
    """Write the snapshot of a step, if the model is not too large for a page; returns its path."""
    if model.num_parameters() > LARGEST:
        return None
    folder = run / FOLDER
    path = folder / f"step-{step:08d}.safetensors"
    limit = np.finfo(np.float16).max
    weights = {name: p.numpy() for name, p in model.state_dict().items()}
    halves = {name: np.clip(w, -limit, limit).astype(np.float16, order="C") for name, w in weights.items()}
    with writing(f"the snapshot of step {step:,}", path):
        folder.mkdir(exist_ok=True)
        for left in folder.glob(".step-*"):  # of a process that was killed while it wrote
            left.unlink()
        write_atomically(path, save(halves))
    return path


def read(run: Path, until: int, model: Module) -> dict[int, dict[str, Tensor]]:
    """The snapshots of a run of this model before step `until`, by their steps; CheckpointError if one is damaged."""
    shapes = {name: p.shape for name, p in model.state_dict().items()}
    snapshots = {}
    for path in sorted((run / FOLDER).glob("step-*.safetensors")):
        named = _NAME.fullmatch(path.name)
        if named is None or int(named[1]) >= until:
            continue
        try:
            arrays = load(path.read_bytes())
        except SafetensorError as error:
            raise CheckpointError(f"{path} is no snapshot ({error}): remove it") from None
        if {name: a.shape for name, a in arrays.items()} != shapes or not all(
            np.isfinite(a).all() for a in arrays.values()
        ):
            raise CheckpointError(f"{path} does not hold the weights of this model: remove it")
        snapshots[int(named[1])] = {name: tensor(a.astype(np.float32)) for name, a in arrays.items()}
    return snapshots

"""Checkpoints: everything a run needs to go on bit for bit, in a folder that appears by one rename.

    checkpoints/step-00001000/
        weights.safetensors     the parameters, under the names of the module
        optimizer.safetensors   what the optimizer keeps for each parameter, as "0.exp_avg", "1.exp_avg", ...
        state.json              the rest: configuration, settings, vocabulary, generators, place in the data, log
        manifest.json           the SHA-256 of each of the three

All of it is written to a temporary folder first and has reached the disk before that folder gets its name. So a process
that is killed at any moment leaves the last checkpoint whole, and a loss of power does too. Nothing is ever unpickled.

A file is read only if its hash is right, and its contents are used only if they fit the model: hashes reveal damage by
a disk or a copy, but a program that writes other contents can write their hashes too.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.attention import lying_side_by_side
from models.data.tokenizers import TextError
from models.options import proposed
from tinytensor import Tensor
from tinytensor.interop.io.files import writing
from tinytensor.interop.io.serialization import load_file, save_file, write_atomically
from tinytensor.native.platform.operating_system import sync_directory
from tinytensor.nn import Module

FOLDER = "checkpoints"
FILES = ("weights.safetensors", "optimizer.safetensors", "state.json")
MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{8,18})")
_UNFINISHED = ".unfinished-"  # how the names of folders begin that do not count


class CheckpointError(ValueError):
    """There is nothing to go on from, or it cannot be read; the message says why."""


@dataclass
class Checkpoint:
    """The contents of one checkpoint."""

    step: int
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict  # of values that JSON can hold


def save(run: Path, checkpoint: Checkpoint, keep: int = 2, best: int | None = None) -> Path:
    """Write a checkpoint of the run in the folder `run`, then remove all but the last `keep`; returns its path.

    That of step `best` is kept too.

    The remains of processes that were killed while they saved are removed too.
    """
    folder = run / FOLDER
    with writing(f"the checkpoint of step {checkpoint.step:,}", folder, lambda: still_there(run)):
        folder.mkdir(parents=True, exist_ok=True)
        for left in [*folder.glob(f"{_UNFINISHED}*"), *run.glob(".log.csv.*")]:
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        final = folder / f"step-{checkpoint.step:08d}"
        if not final.exists():
            _write(checkpoint, folder / f"{_UNFINISHED}{final.name}", final)
        for step in _steps(folder)[:-keep]:
            if step == best:
                continue
            old = folder / f"step-{step:08d}"
            gone = folder / f"{_UNFINISHED}{old.name}"  # half removed, it must not look like a checkpoint
            os.replace(old, gone)
            shutil.rmtree(gone)
    return final


def _write(checkpoint: Checkpoint, unfinished: Path, final: Path) -> None:
    """Write the files of a checkpoint to a folder that does not count, and give it its name."""
    try:
        unfinished.mkdir()
        save_file(checkpoint.weights, unfinished / "weights.safetensors")
        save_file(checkpoint.optimizer, unfinished / "optimizer.safetensors")
        write_atomically(unfinished / "state.json", json.dumps({"step": checkpoint.step} | checkpoint.state).encode())
        write_atomically(unfinished / MANIFEST, json.dumps(_hashes(unfinished), indent=1).encode())
        sync_directory(unfinished)
        os.replace(unfinished, final)  # this is the moment at which it exists
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)  # a full disk has no room for it
        raise
    sync_directory(final.parent)


def still_there(run: Path) -> str:
    """What is there of a run of which something could not be written, and how to go on, for the user."""
    saved = steps(run)
    if not saved:
        return "the run has no checkpoint yet"
    return f"the checkpoint of step {saved[-1]:,} is there, to go on with: {proposed('train', '--resume', run)}"


def _hashes(path: Path) -> dict[str, str]:
    hashes = {}
    for name in FILES:
        with (path / name).open("rb") as file:
            hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def _steps(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, in order."""
    try:
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror}") from None
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def steps(run: Path) -> list[int]:
    """The steps of the checkpoints of the run in the folder `run`, in order."""
    return _steps(run / FOLDER)


def latest(run: Path) -> Path | None:
    """The last checkpoint of the run in the folder `run`, or None."""
    saved = steps(run)
    return run / FOLDER / f"step-{saved[-1]:08d}" if saved else None


@contextmanager
def reading(path: Path):
    """Errors over the contents of a checkpoint, raised in the block, become a CheckpointError.

    Each part of the program that reads a value from a file raises its own error: for a name that is missing, a number
    that is text, sizes that do not fit. All of them are faults of the file, and nothing was changed.
    """
    try:
        yield
    except (CheckpointError, TextError):  # an error about the text of the run, which is another file
        raise
    except KeyError as error:
        raise CheckpointError(f"{path} does not hold {error}, which a run of this kind has; {_REMEDY}") from None
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RuntimeError, MemoryError) as error:
        raise CheckpointError(f"{path} does not hold what it should ({_in_a_line(error)}); {_REMEDY}") from None


_REMEDY = "it was damaged or changed: remove it to go on from the one before"


def _in_a_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]} ..."


def load(run: Path, tensors: tuple[str, ...] = ("weights", "optimizer"), *, step: int | None = None) -> Checkpoint:
    """Read the last checkpoint of the run in the folder `run`, or that of a step; CheckpointError if it is damaged.

    Tensors that `tensors` does not name are not read, since the optimizer's take twice the memory of the weights.
    """
    path = latest(run) if step is None else run / FOLDER / f"step-{step:08d}"
    if path is None:
        raise CheckpointError(f"{run} holds no checkpoint: name the folder of a run that was begun with `train --out`")
    with reading(path):
        try:
            manifest = json.loads((path / MANIFEST).read_bytes())
            changed = [name for name, digest in _hashes(path).items() if manifest[name] != digest]
            if changed:
                raise ValueError(f"{changed[0]} is not the file that was written: its SHA-256 is another")
            state = json.loads((path / "state.json").read_bytes(), parse_int=_whole)
            weights, optimizer = (
                load_file(path / f"{name}.safetensors") if name in tensors else {} for name in ("weights", "optimizer")
            )
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read ({error}); {_REMEDY}") from None
        step = state.pop("step")
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError(f"step = {step!r}")
    return Checkpoint(step, weights, optimizer, state)


def _whole(digits: str) -> int:
    """A whole number of state.json; the largest that a run writes are a generator's, of 128 bits."""
    if len(digits) > 40:
        raise ValueError(f"{digits[:20]}... is larger than any number that a run writes")
    return int(digits)


def load_weights(model: Module, weights: dict[str, Tensor]) -> None:
    """Copy the weights of a checkpoint into its model; ValueError, before any is changed, if one does not fit.

    load_state_dict() checks names and shapes; here, dtypes must be those of the model, and numbers finite.
    """
    for name, own in model.state_dict().items():
        if name not in weights:
            continue  # load_state_dict() names all that are missing
        value = weights[name]
        if value.dtype != own.dtype:
            raise ValueError(f"{name} is stored as {value.dtype}, the model has {own.dtype}")
        check_finite(name, value)
    model.load_state_dict(weights)


def built(make: Callable[..., Module], config, weights: dict[str, Tensor]) -> Module:
    """A new model make(config) with these weights, whose memory it takes over: there is no second copy of them.

    ValueError if a weight does not fit. The dictionary is empty afterwards.
    """
    model = make(config, device="meta")
    own = dict(model.named_parameters())
    if own.keys() != weights.keys():
        odd = sorted(own.keys() ^ weights.keys())
        raise ValueError(f"the model's weights have other names: {', '.join(odd[:5])}")
    for name, parameter in own.items():
        value = weights.pop(name)
        if value.dtype != parameter.dtype or value.shape != parameter.shape:
            stored, needed = (f"{x.dtype} {x.shape}" for x in (value, parameter))
            raise ValueError(f"{name} is stored as {stored}, the model has {needed}")
        check_finite(name, value)
        if value.ndim == 3:  # weights of heads
            value = Tensor.of(lying_side_by_side(value.numpy()))
        parameter.data = value
    return model


def check_finite(name: str, value: Tensor) -> None:
    """Raise ValueError for NaN and inf, which a run never saves."""
    if not np.isfinite(value.numpy()).all():
        raise ValueError(f"{name} holds NaN or inf")

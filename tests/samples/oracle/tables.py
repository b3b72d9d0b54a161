"""Tables of PyTorch's results: of a stored one only those arrays are written anew that say something else.

The last bits of PyTorch's results are those of the processor that computed them: the width of its vectors decides in
which order sums are taken. So a table that was made on one machine differs in some bits from a fresh run on another,
and stays as it is where that is all.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.samples.ops import difference


def tolerance(name: str, dtype: np.dtype) -> float:
    """How far an array may be from the stored one, for what is not a long computation: some units in the last place."""
    return 1e-6 if dtype == np.float32 else 1e-12


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the metadata of a table; none if there is no such file."""
    if not path.exists():
        return {}, {}
    with safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def differences(
    path: Path, arrays: dict, metadata: dict[str, str] | None = None, tolerance: Callable = tolerance
) -> dict[str, str]:
    """Where a fresh run differs from a stored table by more than last bits: what, and how."""
    stored, facts = read(path)
    message = {} if facts == (metadata or {}) else {"metadata": "other facts are stored"}
    for name in stored.keys() ^ arrays.keys():
        message[name] = "only stored" if name in stored else "only fresh"
    for name in stored.keys() & arrays.keys():
        old, new = stored[name], arrays[name]
        differs = difference(new, old, tolerance(name, old.dtype))
        if old.dtype != new.dtype or differs:
            message[name] = differs or f"{new.dtype}, stored {old.dtype}"
    return message


def keep(
    path: Path, arrays: dict, metadata: dict[str, str] | None = None, tolerance: Callable = tolerance
) -> dict[str, str]:
    """Store a fresh run where it differs from what is stored; the arrays that do not differ keep their bits."""
    arrays = {name: np.array(a, order="C") for name, a in arrays.items()}
    message = differences(path, arrays, metadata, tolerance)
    if message:
        stored, _ = read(path)
        same = {name: stored[name] for name in stored.keys() & arrays.keys() - message.keys()}
        path.parent.mkdir(exist_ok=True)
        save_file(arrays | same, path, metadata)
    return message

"""Weights in safetensors files: no pickle, nothing is executed by loading. Tied tensors are stored once."""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from tinytensor.creation import tensor
from tinytensor.tensors import Tensor

STORED = "F32", "F64", "I32", "I64", "BOOL"  # the format's names of the dtypes that tensors have
TIED = "tinytensor.tied"  # the entry of the file's metadata that says which names share one tensor


def save_file(
    tensors: Mapping[str, Tensor], path: str | os.PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors to a safetensors file, atomically: the file is the old one or the new one, never a part.

    Names that share memory are stored once; `load_file` gives each of them its tensor again. float32, float64, int32,
    int64 and bool are stored.
    """
    arrays, owner, tied = {}, {}, {}
    for name, value in tensors.items():
        array = value.detach()._values("save_file")
        if array.dtype == object:
            raise TypeError(f"save_file: {name} holds exact scalars; only numbers can be stored")
        place = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        if array.size and place in owner:
            tied[name] = owner[place]
        else:
            owner[place] = name
            arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
    extra = dict(metadata or {}) | ({TIED: json.dumps(tied)} if tied else {})
    write_atomically(Path(path), to_bytes(arrays, extra or None))


def load_file(path: str | os.PathLike) -> dict[str, Tensor]:
    """Read a safetensors file (PyTorch's too) as named tensors; names stored as tied share one tensor."""
    result = {}
    with _opened(path, "load_file") as file:
        for name in file.keys():  # noqa: SIM118 (not a dict)
            dtype = file.get_slice(name).get_dtype()
            if dtype not in STORED:
                raise TypeError(f"load_file: {name} in {path} is stored as {dtype}; expected {', '.join(STORED)}")
            result[name] = tensor(file.get_tensor(name))
        tied = json.loads((file.metadata() or {}).get(TIED, "{}"))
    if not isinstance(tied, dict):
        raise ValueError(f"load_file: {path} says that {tied!r} is tied; expected names and their owners' names")
    for name, owner in tied.items():
        if name in result or owner not in result:
            raise ValueError(f"load_file: {path} ties {name} to {owner}: expected a name without a value, and one with")
        result[name] = result[owner]
    return result


def load_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The strings that a safetensors file carries beside its tensors."""
    with _opened(path, "load_metadata") as file:
        return dict(file.metadata() or {})


@contextmanager
def _opened(path: str | os.PathLike, what: str):
    try:
        with safe_open(path, framework="np") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{what}: {path} is not a safetensors file ({error})") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Put a file in place by one rename, after its bytes have reached the disk."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o666 & ~_umask())  # a temporary file is for its owner only; this one is to stay
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def _umask() -> int:
    os.umask(mask := os.umask(0))  # it can be read only by setting it
    return mask


def sync_directory(path: Path) -> None:
    """Make renames in a directory survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

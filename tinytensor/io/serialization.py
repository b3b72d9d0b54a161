"""Tensors in safetensors files: no pickle, and loading executes no code. Tied tensors are stored once.

`save_file` and `load_file` are for named tensors, a module's weights. `save` and `load` also take lists and
dictionaries with tensors and numbers in them: the tensors are stored as in any other safetensors file, under readable
names, and the form around them is text in the file's metadata. So every reader of safetensors can read the tensors.
"""

import json
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save as to_bytes

from tinytensor.core.devices import check_device, device
from tinytensor.core.dtype_objects import DType, named
from tinytensor.core.dtypes import bool_, float32, float64, int32, int64, uint8
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import tensor

# the format's names of the dtypes that tensors have
STORED = {"F32": float32, "F64": float64, "U8": uint8, "I32": int32, "I64": int64, "BOOL": bool_}
TIED = "tinytensor.tied"  # the entry of the file's metadata that lists the names which share one tensor


def save_file(
    tensors: Mapping[str, Tensor], path: str | os.PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors to a safetensors file, atomically: the file is the old one or the new one, never a part.

    Tensors that share memory are stored once; `load_file` gives all their names one tensor again. The dtypes are
    float32, float64, uint8, int32, int64 and bool.
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
        tied = (file.metadata() or {}).get(TIED, "{}")
    return _with_tied(result, tied, f"load_file: {path}")


def _with_tied(tensors: dict[str, Tensor], told: str, where: str) -> dict[str, Tensor]:
    """The tensors, with the names that share one of them added: `told` is the JSON that lists these."""
    try:
        tied = json.loads(told)
    except (ValueError, RecursionError):
        tied = told
    if not isinstance(tied, dict):
        raise ValueError(f"{where} says that {told[:100]!r} is tied; expected names and their owners' names")
    for name, owner in tied.items():
        if name in tensors or owner not in tensors:
            raise ValueError(f"{where} ties {name} to {owner}: expected a name without a value, and one with")
        tensors[name] = tensors[owner]
    return tensors


def load_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The metadata of a safetensors file: the strings that it holds beside its tensors."""
    with _opened(path, "load_metadata") as file:
        return dict(file.metadata() or {})


@contextmanager
def _opened(path: str | os.PathLike, what: str):
    try:
        with safe_open(path, framework="np") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{what}: {path} is not a safetensors file ({error})") from None


# ------------------------------------------------------------------------------------------------ save and load

FORM = "tinytensor.form"  # the entry of the metadata that describes the lists and values around the tensors
DEEPEST = 100  # levels of nested lists; a deeper value is a circle or an attack


def save(obj: Any, f: str | os.PathLike | BinaryIO, *args, **options) -> None:
    """Write tensors, numbers, text, None, and lists, tuples and dictionaries of them, to one file that holds no code.

    `load` restores the same value: keys and their order, dtypes, requires_grad, NumPy arrays, and one tensor for all
    places that held the same one. A path is written atomically. Raises TypeError for any other value, such as a Module:
    save its state_dict(). PyTorch's further arguments choose between kinds of pickle, and have no effect here.
    """
    arrays: dict[str, np.ndarray] = {}
    form = _form(obj, (), arrays, {})
    content = to_bytes(arrays, {FORM: json.dumps(form)})
    if hasattr(f, "write"):
        f.write(content)
    else:
        write_atomically(Path(f), content)


def _form(value: Any, path: tuple, arrays: dict[str, np.ndarray], owner: dict) -> Any:
    """The form of a value for JSON: a plain value is itself, any other is {its kind: its contents}."""
    where = ".".join(map(str, path)) or "the object"
    if len(path) > DEEPEST:
        raise ValueError(f"save: {'.'.join(map(str, path[:3]))}... goes deeper than {DEEPEST} levels; is it a circle?")
    if isinstance(value, Tensor | np.ndarray):
        array = value.detach()._values("save") if isinstance(value, Tensor) else value
        if array.dtype not in STORED.values():
            raise TypeError(f"save: {where} holds {array.dtype}; expected {', '.join(map(str, STORED.values()))}")
        place = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        name = owner.get(place) if array.size else None
        if name is None:
            name = where
            while name in arrays:  # {"a.b": x, "a": {"b": y}}
                name += "_"
            arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
            owner[place] = name
        kind = "array" if isinstance(value, np.ndarray) else "leaf" if value.requires_grad else "tensor"
        return {kind: name}
    if isinstance(value, Mapping):
        kind = "OrderedDict" if isinstance(value, OrderedDict) else "dict"
        pairs = [(_form(k, (*path, k), {}, {}), _form(v, (*path, k), arrays, owner)) for k, v in value.items()]
        return {kind: pairs}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_form(v, (*path, i), arrays, owner) for i, v in enumerate(value)]}
    if isinstance(value, device | DType | np.dtype):
        return {"device": str(value)} if isinstance(value, device) else {"dtype": value.name}
    if isinstance(value, np.bool_ | np.number):
        return value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    kind = type(value).__name__
    advice = f"save the vars() of a {kind}"
    if hasattr(value, "state_dict"):
        advice = (
            f"save the state_dict() of this {kind}, and later give it to one that the program has built anew: "
            "save(x.state_dict(), path), x.load_state_dict(load(path))"
        )
    raise TypeError(
        f"save: {where} is a {kind}; a file without code holds tensors, numbers, text, None, lists, tuples and "
        f"dictionaries of them: {advice}"
    )


def load(
    f: str | os.PathLike | BinaryIO,
    map_location: str | device | Mapping | Callable | None = None,
    pickle_module=None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **options,
) -> Any:
    """The value that `save` wrote; for any other safetensors file its tensors by name.

    Everything is on the CPU; a `map_location` that names another device raises. A pickled file (PyTorch's own) raises
    ValueError, because reading it would run code from it; the message says how to convert it. A damaged file raises
    ValueError, too.
    """
    places = map_location.values() if isinstance(map_location, Mapping) else [map_location]
    for place in places:
        if not callable(place) or isinstance(place, str):
            check_device(place, "load", "cpu")
    where = getattr(f, "name", "the file") if hasattr(f, "read") else os.fspath(f)
    content = f.read() if hasattr(f, "read") else Path(f).read_bytes()
    if content[8:9] != b"{" and content.startswith((b"PK", b"\x80")):  # a zip, or a bare pickle
        raise ValueError(
            f"load: {where} is pickled, as PyTorch's files are, and reading it could run any code; convert it once, "
            "where PyTorch is: safetensors.torch.save_file(torch.load(path, weights_only=True), 'new.safetensors') for "
            "a state_dict, and load that"
        )
    try:
        found = dict(deserialize(content))
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"load: {where} is not a safetensors file ({error})") from None
    arrays = {}
    for name, entry in found.items():
        if entry["dtype"] not in STORED:
            raise TypeError(f"load: {name} in {where} is stored as {entry['dtype']}; expected {', '.join(STORED)}")
        arrays[name] = np.frombuffer(entry["data"], STORED[entry["dtype"]]).reshape(entry["shape"]).copy()
    tensors = {name: Tensor.of(array) for name, array in arrays.items()}
    try:
        if FORM in metadata:
            return _value(json.loads(metadata[FORM]), tensors, 0)
        return _with_tied(tensors, metadata.get(TIED, "{}"), where)
    except (ValueError, TypeError, LookupError, RuntimeError) as error:
        raise ValueError(f"load: {where} is damaged: {type(error).__name__}: {error}") from None


def _value(form: Any, tensors: dict, depth: int) -> Any:
    """The value of a form that `_form` made."""
    if depth > DEEPEST:
        raise ValueError(f"its form is deeper than {DEEPEST} levels")
    if not isinstance(form, dict):
        if isinstance(form, list):
            raise ValueError("a list stands where a kind is expected")
        return form
    ((kind, held),) = form.items()
    if kind in ("tensor", "array"):
        return tensors[held] if kind == "tensor" else tensors[held].numpy()
    if kind == "leaf":  # the same memory may also be stored as a tensor that does not require grad
        return tensors.setdefault((kind, held), tensors[held].detach().requires_grad_())
    if kind in ("dict", "OrderedDict", "list", "tuple") and not isinstance(held, list):
        raise ValueError(f"a {kind} is a list there, not {type(held).__name__}")
    if kind in ("dict", "OrderedDict"):
        pairs = [(_value(k, tensors, depth + 1), _value(v, tensors, depth + 1)) for k, v in held]
        return dict(pairs) if kind == "dict" else OrderedDict(pairs)
    if kind in ("list", "tuple"):
        values = [_value(v, tensors, depth + 1) for v in held]
        return values if kind == "list" else tuple(values)
    return {"device": device, "dtype": lambda name: named(np.dtype(name))}[kind](held)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file and put it in place by one rename, after its bytes have reached the disk."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o666 & ~_umask())  # a temporary file is private to its owner; give it usual permissions
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def _umask() -> int:
    os.umask(mask := os.umask(0))  # the mask can be read only by setting it
    return mask


def sync_directory(path: Path) -> None:
    """Flush a directory to the disk, so that renames in it survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

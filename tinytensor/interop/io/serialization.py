"""Tensors in safetensors files: no pickle, and loading executes no code. Tied tensors are stored once.

`save_file` and `load_file` are for named tensors, a module's weights. `save` and `load` also take lists and
dictionaries with tensors and numbers in them: the tensors are stored as in any other safetensors file, under readable
names, and the form around them is text in the file's metadata. So every reader of safetensors can read the tensors.
Files whose names end in .pt or .pth have PyTorch's format instead (pytorch.py).
"""

import io
import json
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open

from tinytensor.core.devices import check_device, device
from tinytensor.core.dtype_objects import DType, named
from tinytensor.core.dtypes import bool_, float32, float64, int32, int64, uint8
from tinytensor.core.tensor import Tensor
from tinytensor.interop.io import pytorch
from tinytensor.interop.io.files import described
from tinytensor.interop.io.pytorch import WIDER, widened
from tinytensor.interop.io.values import DEEPEST, check_depth, check_whole, named_place, plain, unsupported
from tinytensor.native.platform.operating_system import sync_directory

# the format's names of the dtypes that tensors have
STORED = {"F32": float32, "F64": float64, "U8": uint8, "I32": int32, "I64": int64, "BOOL": bool_}
LETTERS = {dtype: letters for letters, dtype in STORED.items()}
NARROW = {"F16": "float16", "BF16": "bfloat16", "I8": "int8", "I16": "int16"}  # those that `widen` makes wider
RESERVED = "__metadata__"  # the format's own name of the metadata, among the names of the tensors
LONGEST_HEADER = 100_000_000  # bytes; readers of safetensors refuse a longer one
TIED = "tinytensor.tied"  # the entry of the file's metadata that lists the names which share one tensor
FORM = "tinytensor.form"  # the entry that describes the lists and values around the tensors


def save_file(
    tensors: Mapping[str, Tensor], path: str | os.PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors to a safetensors file, atomically: the file is the old one or the new one, never a part.

    Tensors that share memory are stored once; `load_file` gives all their names one tensor again. The dtypes are
    float32, float64, uint8, int32, int64 and bool. Raises TypeError or ValueError, before anything is written, for a
    name or a text of the metadata that the format cannot hold.
    """
    if own := {TIED, FORM} & set(metadata or {}):
        raise ValueError(f"save_file: metadata holds {min(own)!r}, an entry that this library writes: leave it out")
    arrays, owner, tied = {}, {}, {}
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"save_file: {name} is a {type(value).__name__}; expected a tensor")
        array = value.detach()._values("save_file")
        if array.dtype == object:
            raise TypeError(f"save_file: {name} holds exact scalars; only numbers can be stored")
        memory = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        if array.size and memory in owner:
            tied[name] = owner[memory]
        else:
            owner[memory] = name
            arrays[name] = array
    extra = dict(metadata or {}) | ({TIED: json.dumps(tied)} if tied else {})
    with atomically(Path(path)) as file:
        _write(file, arrays, extra, "save_file")


def _write(file: BinaryIO, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str], what: str) -> None:
    """Write the format of safetensors: the length of a header, the header, and the arrays one after the other.

    The largest elements come first, so that all arrays are aligned. No copy is made but of an array that is strided.
    """
    _check_header(arrays, metadata, what)
    header: dict[str, Any] = {RESERVED: dict(metadata)} if metadata else {}
    names, at = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name)), 0
    for name in names:
        array = arrays[name]
        offsets = [at, at := at + array.nbytes]
        header[name] = {"dtype": LETTERS[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        size = f"{len(text):,} bytes beside the tensors' own, above {LONGEST_HEADER:,}"
        raise ValueError(f"{what}: names, numbers and text take {size}: put long lists of numbers into tensors")
    file.write(len(text).to_bytes(8, "little") + text)
    for name in names:
        file.write(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)


def _check_header(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str], what: str) -> None:
    """Raise TypeError or ValueError for names and metadata with which no reader could read the file."""
    for name in arrays:
        if name == RESERVED:
            raise ValueError(f"{what}: {name!r} is no name for a tensor: safetensors keeps its metadata there")
    texts = [("a tensor's name", name) for name in arrays]
    texts += [("the metadata", text) for pair in metadata.items() for text in pair]
    for where, text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{what}: {where} holds {text!r}, a {type(text).__name__}; expected text")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError(f"{what}: {where} holds half a surrogate pair, which no file can: {text[:100]!r}")


def load_file(path: str | os.PathLike, *, widen: bool = False) -> dict[str, Tensor]:
    """Read a safetensors file (PyTorch's too) as named tensors; names stored as tied share one tensor.

    With `widen` bfloat16 and float16 become float32, int8 and int16 int32; without it they raise TypeError.
    """
    stored = Stored(path, "load_file")
    result = {name: Tensor.of(stored.read(name, widen)) for name in stored.shapes}
    return _with_tied(result, stored.metadata.get(TIED, "{}"), f"load_file: {path}")


class Stored:
    """A safetensors file whose arrays are read one by one: the largest is the most memory that is taken at once.

    `shapes` has the names of the arrays and their sizes, `metadata` the file's strings. `what` names the caller in
    errors. Raises ValueError if the file is no safetensors file.
    """

    def __init__(self, path: str | os.PathLike, what: str):
        self.path, self.what = path, what
        with opened(path, what) as file:  # this checks the header and the lengths
            self.metadata = dict(file.metadata() or {})
        with Path(path).open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        self.entries, self.begin = header, 8 + length
        self.shapes = {name: tuple(entry["shape"]) for name, entry in header.items()}

    def read(self, name: str, widen: bool = False) -> np.ndarray:
        """One array, in memory of its own; TypeError for a dtype that tensors do not have."""
        entry = self.entries[name]
        stored, (begin, end) = entry["dtype"], entry["data_offsets"]
        check_stored(where := f"{self.what}: {name} in {self.path}", stored, widen)
        dtype = _numpy_dtype(stored)
        array = np.fromfile(self.path, dtype, (end - begin) // dtype.itemsize, offset=self.begin + begin)
        return widened(_shaped(array, entry["shape"], where), NARROW.get(stored))


def _shaped(array: np.ndarray, shape: list[int], where: str) -> np.ndarray:
    """The elements of a file in their shape; ValueError for a shape that no array can have, such as (2^62, 0)."""
    try:
        return array.reshape(shape)
    except ValueError:
        raise ValueError(f"{where} has the shape {tuple(shape)}, which is beyond what memory can address") from None


def _numpy_dtype(stored: str) -> np.dtype:
    """NumPy's dtype for one of the format's; for bfloat16, which NumPy lacks, uint16."""
    return np.dtype(np.uint16 if stored == "BF16" else STORED.get(stored) or NARROW[stored])


def check_stored(where: str, stored: str, widen: bool) -> None:
    """Raise TypeError for a stored dtype that tensors do not have; those of NARROW pass with `widen`."""
    if stored in NARROW and not widen:
        advice = f"with widen=True it is read as {WIDER[NARROW[stored]]}"
        raise TypeError(f"{where} is stored as {stored}; expected {', '.join(STORED)}; {advice}")
    if stored not in STORED and stored not in NARROW:
        raise TypeError(f"{where} is stored as {stored}; expected {', '.join(STORED)}")


def _with_tied(tensors: dict[str, Tensor], text: str, where: str) -> dict[str, Tensor]:
    """The tensors, with the names that share one of them added: `told` is the JSON that lists these."""
    try:
        tied = json.loads(text)
    except (ValueError, RecursionError):
        tied = text
    if not isinstance(tied, dict):
        raise ValueError(f"{where} says that {text[:100]!r} is tied; expected names and their owners' names")
    for name, owner in tied.items():
        if name in tensors or owner not in tensors:
            raise ValueError(f"{where} ties {name} to {owner}: expected a name without a value, and one with")
        tensors[name] = tensors[owner]
    return tensors


def load_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The metadata of a safetensors file: the strings that it holds beside its tensors."""
    with opened(path, "load_metadata") as file:
        return dict(file.metadata() or {})


@contextmanager
def opened(path: str | os.PathLike, what: str) -> Iterator[Any]:
    """An open safetensors file; ValueError if it is none."""
    try:
        with safe_open(path, framework="np") as file:
            yield file
    except SafetensorError as error:
        with Path(path).open("rb") as held:
            reason = described(held.read(LOOKED_AT), error)
        raise ValueError(f"{what}: {path} is not a safetensors file ({reason})") from None


# --- Save and load

LOOKED_AT = 4096  # bytes by which a file that cannot be read is described
PYTORCH = (".pt", ".pth")  # files of these names get PyTorch's format


def save(obj: Any, f: str | os.PathLike | BinaryIO, *args, **options) -> None:
    """Write tensors, numbers, text, None, and lists, tuples and dictionaries of them, to one file that holds no code.

    `load` restores the same value: keys and their order, dtypes, requires_grad, NumPy arrays, and one tensor for all
    places that held the same one. A path is written atomically. A path that ends in .pt or .pth is written in PyTorch's
    format, which `torch.load(path, weights_only=True)` reads; it keeps views of one memory, and takes no NumPy arrays.
    Raises TypeError for any other value, such as a Module: save its state_dict(). PyTorch's further arguments choose
    between kinds of pickle, and have no effect here.
    """
    if not hasattr(f, "write") and Path(f).suffix in PYTORCH:
        with atomically(Path(f)) as file:
            pytorch.write(obj, file)
        return
    arrays: dict[str, np.ndarray] = {}
    form = _form(obj, (), arrays, {})
    with nullcontext(f) if hasattr(f, "write") else atomically(Path(f)) as file:
        _write(file, arrays, {FORM: json.dumps(form)}, "save")


def _form(value: Any, path: tuple, arrays: dict[str, np.ndarray], owner: dict) -> Any:
    """The form of a value for JSON: a plain value is itself, any other is {its kind: its contents}."""
    where = named_place(path)
    check_depth(path)
    if isinstance(value, Tensor | np.ndarray):
        array = value.detach()._values("save") if isinstance(value, Tensor) else value
        if array.dtype not in STORED.values():
            raise TypeError(f"save: {where} holds {array.dtype}; expected {', '.join(map(str, STORED.values()))}")
        memory = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        name = owner.get(memory) if array.size else None
        if name is None:
            name = where
            while name in arrays:  # {"a.b": x, "a": {"b": y}}
                name += "_"
            arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
            owner[memory] = name
        tag = "array" if isinstance(value, np.ndarray) else "leaf" if value.requires_grad else "tensor"
        return {tag: name}
    if isinstance(value, Mapping):
        tag = "OrderedDict" if isinstance(value, OrderedDict) else "dict"
        return {tag: [(_key_form(k, path), _form(v, (*path, k), arrays, owner)) for k, v in value.items()]}
    if isinstance(value, list | tuple):
        tag = "list" if isinstance(value, list) else "tuple"
        return {tag: [_form(v, (*path, i), arrays, owner) for i, v in enumerate(value)]}
    if isinstance(value, device):
        return {"device": str(value)}
    if isinstance(dtype := value, DType | np.dtype) and dtype.kind in "biufcO" and dtype.isnative:
        return {"dtype": value.name}
    value = plain(value)
    if value is None or type(value) in (bool, int, float, str):
        check_whole(path, value)
        return value
    raise unsupported(path, value)


def _key_form(key: Any, path: tuple) -> Any:
    """The form of a key of the dictionary at a place; TypeError for one with a tensor in it."""
    tensors: dict[str, np.ndarray] = {}
    form = _form(key, (*path, key), tensors, {})
    if tensors:
        raise TypeError(f"save: a key of {named_place(path)} holds a tensor; expected text, numbers, None or tuples")
    return form


def load(
    f: str | os.PathLike | BinaryIO,
    map_location: str | device | Mapping | Callable | None = None,
    pickle_module=None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    widen: bool = False,
    **options,
) -> Any:
    """The value that `save` or PyTorch wrote; for any other safetensors file its tensors by name.

    No code of a file is run. Of PyTorch's files (.pt, .pth) tensors, optimizers' states, numbers and text in lists and
    dictionaries are read, with their views; a file that asks for anything else raises ValueError, and so does a damaged
    one. With `widen` bfloat16 and float16 become float32, int8 and int16 int32; without it they raise TypeError.
    With `mmap` the tensors of PyTorch's file at a path stay in it, and take memory only where they are read.
    Everything is on the CPU; a `map_location` that names another device raises RuntimeError.
    """
    locations = map_location.values() if isinstance(map_location, Mapping) else [map_location]
    for location in locations:
        if not callable(location) or isinstance(location, str):
            check_device(location, "load", "cpu")
    where = getattr(f, "name", "the file") if hasattr(f, "read") else os.fspath(f)
    with nullcontext(f) if hasattr(f, "read") else Path(f).open("rb") as file:
        begun = file.read(9)
        if begun[8:9] != b"{" and begun.startswith(b"PK"):  # a zip archive
            if not hasattr(f, "read"):
                file.seek(0)
                return pytorch.read(file, os.fstat(file.fileno()).st_size, where, widen, f if mmap else None)
            content = begun + file.read()
            return pytorch.read(io.BytesIO(content), len(content), where, widen)
        if begun[8:9] != b"{" and begun.startswith(b"\x80"):  # a bare pickle
            raise ValueError(
                f"load: {where} is a bare pickle, as PyTorch before 1.6 wrote them, and reading it could run any code; "
                "convert it once, where PyTorch is: torch.save(torch.load(path, weights_only=True), 'new.pt'), and "
                "load that"
            )
        content = begun + file.read()
    try:
        tensors_by_name = dict(deserialize(content))
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except (SafetensorError, ValueError) as error:
        format_name = "file of PyTorch" if Path(str(where)).suffix in PYTORCH else "safetensors file"
        raise ValueError(f"load: {where} is not a {format_name} ({described(content, error)})") from None
    arrays = {}
    for name, entry in tensors_by_name.items():
        stored = entry["dtype"]
        check_stored(f"load: {name} in {where}", stored, widen)
        raw = _shaped(np.frombuffer(entry["data"], _numpy_dtype(stored)), entry["shape"], f"load: {name} in {where}")
        arrays[name] = raw.copy() if stored in STORED else widened(raw, NARROW[stored])
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
    ((tag, held),) = form.items()
    if tag in ("tensor", "array"):
        return tensors[held] if tag == "tensor" else tensors[held].numpy()
    if tag == "leaf":  # the same memory may also be stored as a tensor that does not require grad
        return tensors.setdefault((tag, held), tensors[held].detach().requires_grad_())
    if tag in ("dict", "OrderedDict", "list", "tuple") and not isinstance(held, list):
        raise ValueError(f"a {tag} is a list there, not {type(held).__name__}")
    if tag in ("dict", "OrderedDict"):
        pairs = [(_value(k, tensors, depth + 1), _value(v, tensors, depth + 1)) for k, v in held]
        return dict(pairs) if tag == "dict" else OrderedDict(pairs)
    if tag in ("list", "tuple"):
        values = [_value(v, tensors, depth + 1) for v in held]
        return values if tag == "list" else tuple(values)
    return {"device": device, "dtype": lambda name: named(np.dtype(name))}[tag](held)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file and put it in place by one rename, after its bytes have reached the disk."""
    with atomically(path) as file:
        file.write(content)


@contextmanager
def atomically(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which gets its name by one rename after its bytes have reached the disk; not at an error."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w+b") as file:
            if hasattr(os, "fchmod"):  # a temporary file is private to its owner; give it usual permissions
                os.fchmod(handle, 0o666 & ~_umask())
            yield file
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

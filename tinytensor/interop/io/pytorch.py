"""PyTorch's files (.pt, .pth), read and written without PyTorch, and without running code from them.

Such a file is a zip archive, with nothing compressed:

    archive/data.pkl    a pickle: the dictionaries and lists, in which a tensor is a call of `_rebuild_tensor_v2`
    archive/data/0      the bytes of a storage, the memory that one or more tensors share; then 1, 2, ...
    archive/byteorder   "little" or "big"
    archive/version     "3"

A tensor is a storage, the place of its first element in it, its sizes and its strides. All of these are checked against
the file before memory is taken. Every byte of the archive is covered by a checksum, which is compared too.
"""

import os
import struct
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from tinytensor.core.devices import device
from tinytensor.core.dtype_objects import NAMED, DType
from tinytensor.core.dtypes import bool_, float32, float64, int32, int64, uint8
from tinytensor.core.tensor import Tensor
from tinytensor.interop.io.unpickling import Callee, Inner, checked_key, unpickle
from tinytensor.interop.io.values import DTYPES, check_depth, check_whole, named_place, plain, unsupported

STORAGES = {
    "Float": float32,
    "Double": float64,
    "Byte": uint8,
    "Int": int32,
    "Long": int64,
    "Bool": bool_,
    "Half": np.dtype("float16"),
    "BFloat16": "bfloat16",
    "Char": np.dtype("int8"),
    "Short": np.dtype("int16"),
}
WIDER = {"float16": float32, "bfloat16": float32, "int8": int32, "int16": int32}  # what `widen` makes of these dtypes
CHUNK = 1 << 20  # bytes that are read at once
ROOT = "archive"
ALIGNED = 64  # storages begin at multiples of this, so that a mapped file has aligned arrays


class NotWidened(TypeError):
    """A tensor is stored with a dtype that tensors do not have."""


def check_widened(where: str, dtype: object, widen: bool) -> None:
    """Raise NotWidened for a dtype that tensors do not have, unless it can be widened and is to be."""
    if str(dtype) in WIDER and not widen:
        wider = WIDER[str(dtype)]
        raise NotWidened(f"{where} is stored as {dtype}; load(path, widen=True) reads it as {wider}, of more memory")


def widened(raw: np.ndarray, dtype: object) -> np.ndarray:
    """An array of a stored dtype in the dtype that tensors have for it; bfloat16 comes as uint16."""
    if dtype == "bfloat16":  # the upper half of a float32
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(WIDER[str(dtype)]) if str(dtype) in WIDER else raw


# --- Reading


def read(file: BinaryIO, size: int, where: str, widen: bool, mapped: str | os.PathLike | None = None) -> Any:
    """The value in a file of PyTorch of so many bytes; ValueError or TypeError, with one sentence, if it is refused.

    With `mapped`, its path, tensors lie in the file and take memory where they are read; changes stay in memory.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _Archive(archive, size, widen, mapped).value()
    except NotWidened as error:
        raise TypeError(f"load: {where}: {error}") from None
    except (ValueError, TypeError, LookupError, RuntimeError, OverflowError, EOFError, NotImplementedError) as error:
        raise _damaged(where, error) from None
    except (zipfile.BadZipFile, struct.error, MemoryError) as error:
        raise _damaged(where, error) from None


def _damaged(where: str, error: Exception) -> ValueError:
    text = " ".join(str(error.args[0] if error.args else type(error).__name__).split())[:300]
    return ValueError(f"load: {where} cannot be read as a file of PyTorch: {text}")


class _Storage(Inner):
    """The memory that one or more tensors of a file share."""

    def __init__(self, array: np.ndarray, reference: tuple):
        self.owner, self.reference = Tensor.of(array), reference


class _Kind(Inner):
    """The class of a storage, which names its dtype."""

    def __init__(self, dtype: object):
        self.dtype = dtype


class _Archive:
    """An open zip archive of PyTorch, and the storages that were read so far."""

    def __init__(self, archive: zipfile.ZipFile, size: int, widen: bool, mapped: str | os.PathLike | None):
        self.archive, self.size, self.widen, self.mapped = archive, size, widen, mapped
        self.storages: dict[str, _Storage] = {}
        entries = archive.infolist()
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
                raise ValueError(f"{entry.filename} is compressed, which PyTorch's files never are")
        if sum(entry.file_size for entry in entries) > size or len({e.filename for e in entries}) < len(entries):
            raise ValueError(f"its entries overlap: together they are longer than the file of {size} bytes")
        root = next((e.filename for e in entries if e.filename.endswith("/data.pkl")), None)
        if root is None:
            raise ValueError("the zip archive holds no data.pkl")
        self.entries = {entry.filename.removeprefix(root.removesuffix("data.pkl")): entry for entry in entries}
        if any(name.startswith("code/") for name in self.entries):
            raise ValueError("it is a TorchScript program; save the state_dict() of the module where PyTorch is")

    def value(self) -> Any:
        """The value of data.pkl."""
        self.big = "byteorder" in self.entries and self._bytes("byteorder") == b"big"
        result = unpickle(self._bytes("data.pkl"), NAMES, self._storage)
        for name in set(self.entries) - {"data.pkl", "byteorder"} - {f"data/{key}" for key in self.storages}:
            self._copy(name, None)  # no tensor needs it, but its checksum is compared
        return result

    def _bytes(self, name: str) -> bytes:
        content = np.empty(self.entries[name].file_size, np.uint8)
        self._copy(name, content)
        return content.tobytes()

    def _copy(self, name: str, to: np.ndarray | None) -> None:
        """Read an entry in pieces into an array of bytes; the zip module compares its checksum at the end."""
        at = 0
        with self.archive.open(self.entries[name]) as entry:
            while piece := entry.read(CHUNK):
                if to is not None:
                    to[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
                at += len(piece)
        if at != self.entries[name].file_size:
            raise ValueError(f"{name} ends after {at} bytes of {self.entries[name].file_size}")

    def _storage(self, reference: Any) -> _Storage:
        """The storage that a persistent number ("storage", class, key, place, count of elements) describes."""
        fits = (
            type(reference) is tuple
            and len(reference) == 5
            and reference[0] == "storage"
            and isinstance(reference[1], _Kind)
        )
        if not fits or [type(part) for part in reference[2:]] != [str, str, int]:
            raise ValueError("its description of a storage is none of PyTorch's")
        _, storage_type, key, _, count = reference
        if key not in self.storages:
            self.storages[key] = _Storage(self._array(storage_type.dtype, key, count), (storage_type, count))
        if self.storages[key].reference != (storage_type, count):
            raise ValueError(f"the storage {key[:100]} is described twice, in different ways")
        return self.storages[key]

    def _array(self, dtype: object, key: str, count: int) -> np.ndarray:
        """The elements of a storage."""
        entry = self.entries.get(f"data/{key}")
        if entry is None:
            raise ValueError(f"there is no storage {key[:100]}")
        check_widened("a tensor", dtype, self.widen)
        stored = np.dtype(np.uint16 if dtype == "bfloat16" else np.uint8 if dtype == bool_ else dtype)
        if count != entry.file_size // stored.itemsize:
            raise ValueError(f"the storage {key} is to hold {count} elements, but has {entry.file_size} bytes")
        raw = self._mapped(entry, stored, count)
        if raw is None:
            content = np.empty(entry.file_size, np.uint8)
            self._copy(f"data/{key}", content)
            raw = content[: count * stored.itemsize].view(stored)
        if self.big != (sys.byteorder == "big"):
            raw = raw.byteswap()
        return raw != 0 if dtype == bool_ else widened(raw, dtype)

    def _mapped(self, entry: zipfile.ZipInfo, stored: np.dtype, count: int) -> np.ndarray | None:
        """The elements of a storage in the file itself; None if they are not to be there, or not aligned."""
        if self.mapped is None or not count:
            return None
        self._copy(f"data/{entry.filename.rpartition('/')[2]}", None)  # the checksum
        with open(self.mapped, "rb") as file:
            file.seek(entry.header_offset)
            begin = entry.header_offset + 30 + sum(struct.unpack("<26xHH", file.read(30)))
        if begin % stored.itemsize or begin + entry.file_size > self.size:
            return None
        return np.memmap(self.mapped, stored, "c", begin, count).view(np.ndarray)


def _tensor(storage, offset, size, stride, requires_grad, hooks, metadata=None) -> Tensor:
    """`torch._utils._rebuild_tensor_v2`: a tensor whose memory is a part of a storage."""
    numbers = type(size) is type(stride) is tuple and all(type(n) is int for n in (offset, *size, *stride))
    if not isinstance(storage, _Storage) or not numbers or len(size) != len(stride):
        raise ValueError("a tensor needs a storage, an offset, and as many sizes as strides")
    owner = storage.owner._data
    if min(offset, *size, *stride, 0) < 0:
        raise ValueError(f"a tensor has negative numbers: offset {offset}, sizes {size}, strides {stride}")
    if type(requires_grad) is not bool or type(hooks) is not OrderedDict or hooks or metadata not in (None, {}):
        raise ValueError("a tensor has hooks or attributes, which no file of tensors needs")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride)) if 0 not in size else offset - 1
    if last >= len(owner):
        raise ValueError(f"a tensor ends at element {last} of a storage of {len(owner)}")
    if 0 in size:
        try:
            array = np.empty(size, owner.dtype)
        except ValueError:
            raise ValueError(f"a tensor has the shape {size}, which is beyond what memory can address") from None
    else:
        array = as_strided(owner[offset:], size, [step * owner.itemsize for step in stride])
    tensor = Tensor.of(array)
    tensor._version = storage.owner._version  # tensors on one storage share the count of its changes
    return tensor.requires_grad_(requires_grad)


def _parameter(data, requires_grad, hooks) -> Tensor:
    """`torch._utils._rebuild_parameter`: a tensor that requires grad."""
    if not isinstance(data, Tensor) or type(requires_grad) is not bool or type(hooks) is not OrderedDict or hooks:
        raise ValueError("a parameter needs a tensor, and has no hooks")
    return data.requires_grad_(requires_grad)


def _size(numbers) -> tuple:
    """`torch.Size`: a tuple of whole numbers."""
    if type(numbers) is not tuple or not all(type(n) is int for n in numbers):
        raise ValueError("a size holds something else than whole numbers")
    return numbers


def _device(name, index=None) -> device:
    """`torch.device`, by its name."""
    if type(name) is not str or type(index) not in (int, type(None)):
        raise ValueError("a device has no name")
    return device(name, index)


def _counter(held) -> Counter:
    """`collections.Counter`, in which MultiStepLR keeps its milestones."""
    if type(held) is not dict:
        raise ValueError("a Counter holds something else than a dictionary")
    return Counter(held)


NAMES: Mapping[str, Any] = {  # those that a file may use; all else is refused
    "collections.OrderedDict": Callee(lambda: OrderedDict()),  # entries are set afterwards, with their keys checked
    "collections.Counter": Callee(_counter),
    "torch._utils._rebuild_tensor_v2": Callee(_tensor),
    "torch._utils._rebuild_parameter": Callee(_parameter),
    "torch.Size": Callee(_size),
    "torch.device": Callee(_device),
    **{f"torch.{name}Storage": _Kind(dtype) for name, dtype in STORAGES.items()},
    **{f"torch.{dtype}": NAMED[dtype] for dtype in DTYPES},
}


# --- Writing


def write(value: Any, file: BinaryIO) -> None:
    """Write a value as `torch.save` does, so that `torch.load(weights_only=True)` reads it.

    Tensors that overlap in memory share a storage in the file, too. Raises TypeError for other values than tensors,
    numbers, text, None, dtypes, devices, and lists, tuples and dictionaries of these.
    """
    pickler = _Pickler()
    pickler.collect(value, ())
    pickler.locate()
    pickler.write(value)
    with zipfile.ZipFile(file, "w") as archive:
        _add(archive, "data.pkl", b"\x80\x02" + bytes(pickler.out) + b".")
        _add(archive, "byteorder", sys.byteorder.encode())
        for number, storage in enumerate(pickler.storages):
            _add(archive, f"data/{number}", storage.view(np.uint8).data)
        _add(archive, "version", b"3\n")


def _add(archive: zipfile.ZipFile, name: str, content: bytes | memoryview) -> None:
    """Add an entry whose content begins at a multiple of ALIGNED; PyTorch fills the header in the same way."""
    entry = zipfile.ZipInfo(f"{ROOT}/{name}")
    entry.file_size = len(content)
    gap = -(archive.start_dir + 30 + len(entry.filename) + 4) % ALIGNED
    entry.extra = struct.pack("<2sH", b"FB", gap) + b"Z" * gap
    with archive.open(entry, "w") as record:
        record.write(content)


CLASSES = {np.dtype(dtype): f"{name}Storage" for name, dtype in STORAGES.items() if dtype in DTYPES}


PLAIN = (bool, int, float, str, device, DType, np.dtype)  # values without parts


def _check_key(key: Any, path: tuple) -> None:
    """Raise TypeError for a key of the dictionary at a place with which no reader would read the file."""
    try:
        checked_key(_as_written(key))
    except ValueError as error:
        raise TypeError(
            f"save: at {named_place(path)} {error}; in PyTorch's files expected text, numbers, None or short tuples"
        ) from None


def _as_written(key: Any) -> Any:
    """A key as a reader meets it: text and numbers of Python's own types."""
    if isinstance(key, tuple):
        return tuple(map(_as_written, key))
    key = plain(key)
    if isinstance(key, device):  # which is a text for programs
        return key
    return next((own(key) for own in (bool, int, float, str) if isinstance(key, own)), key)


class _Pickler:
    """The pickle of a value, in instructions of protocol 2; the storages stand beside it."""

    def __init__(self):
        self.out = bytearray()
        self.arrays: dict[int, np.ndarray] = {}  # by the id of the tensor
        self.storages: list[np.ndarray] = []
        self.locations: dict[int, tuple[int, int, np.ndarray]] = {}  # storage, offset in it, the array itself
        self.memo: dict[int, int] = {}  # tensors that are written already

    def collect(self, value: Any, path: tuple) -> None:
        """Find the tensors, and refuse what cannot be written before anything is."""
        check_depth(path)
        if isinstance(value, Tensor):
            array = value.detach()._values("save")
            if array.dtype not in DTYPES:
                held = f"save: {named_place(path)} holds {array.dtype}"
                raise TypeError(f"{held}; expected {', '.join(map(str, DTYPES))}")
            self.arrays[id(value)] = array
        elif isinstance(value, Mapping):
            for key, held in value.items():
                self.collect(key, (*path, key))
                _check_key(key, path)
                self.collect(held, (*path, key))
        elif isinstance(value, list | tuple):
            for i, held in enumerate(value):
                self.collect(held, (*path, i))
        elif isinstance(value, np.ndarray):
            raise TypeError(f"save: {named_place(path)} is a NumPy array; in PyTorch's files use tinytensor.tensor(it)")
        elif isinstance(value, DType | np.dtype) and value not in DTYPES:
            expected = ", ".join(map(str, DTYPES))
            raise TypeError(f"save: {named_place(path)} is the dtype {value}; in PyTorch's files expected {expected}")
        elif value is not None and not isinstance(plain(value), PLAIN):
            raise unsupported(path, value)
        check_whole(path, value)

    def locate(self) -> None:
        """Give tensors storages: one for those that overlap in memory, else one for each."""
        shared = []  # (address, end, id, array) of arrays that can be described as a part of a storage
        for known, array in self.arrays.items():
            steps = [step for n, step in zip(array.shape, array.strides) if n > 1]
            if array.size and all(step >= 0 and step % array.itemsize == 0 for step in steps):
                shared.append((*byte_bounds(array), known, array))
            else:
                self._place_alone(known, array)
        shared.sort(key=lambda entry: (entry[3].dtype.str, *entry[:2]))
        while shared:
            (low, high, _, first), together = shared[0], 1
            while together < len(shared) and shared[together][0] < high and shared[together][3].dtype == first.dtype:
                high = max(high, shared[together][1])
                together += 1
            group, shared = shared[:together], shared[together:]
            if together == 1 and high - low > first.nbytes:  # a part of a larger array, of which nothing else is saved
                self._place_alone(group[0][2], first)
                continue
            for address, _, known, array in group:
                self.locations[known] = len(self.storages), (address - low) // array.itemsize, array
            self.storages.append(as_strided(first, ((high - low) // first.itemsize,), (first.itemsize,)))

    def _place_alone(self, known: int, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array).reshape(array.shape)
        self.locations[known] = len(self.storages), 0, array
        self.storages.append(array.reshape(-1))

    # --- The instructions

    def write(self, value: Any) -> None:
        """Add the instructions that make a value."""
        value = plain(value)
        if value is None or isinstance(value, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self._whole(value)
        elif isinstance(value, float):
            self.out += struct.pack(">cd", b"G", value)
        elif isinstance(value, device):
            self._call("torch device", (value.type,) if value.index is None else (value.type, value.index))
        elif isinstance(value, str):
            encoded = value.encode("utf-8", "surrogatepass")
            self.out += struct.pack("<cI", b"X", len(encoded)) + encoded
        elif isinstance(value, DType | np.dtype):
            self._name(f"torch {value}")
        elif isinstance(value, Tensor):
            self._tensor(value)
        elif isinstance(value, Mapping):
            self._mapping(value)
        else:
            self.out += b"(" if isinstance(value, tuple) else b"]("
            for held in value:
                self.write(held)
            self.out += b"t" if isinstance(value, tuple) else b"e"

    def _whole(self, value: int) -> None:
        if -(2**31) <= value < 2**31:
            self.out += struct.pack("<ci", b"J", value)
        else:
            length = value.bit_length() // 8 + 1
            self.out += bytes([0x8A, length]) + value.to_bytes(length, "little", signed=True)

    def _name(self, name: str) -> None:
        """A name of a module: "torch device"."""
        self.out += b"c" + name.replace(" ", "\n").encode() + b"\n"

    def _call(self, name: str, arguments: tuple) -> None:
        self._name(name)
        self.write(arguments)
        self.out += b"R"

    def _mapping(self, value: Mapping) -> None:
        if isinstance(value, Counter):
            self._call("collections Counter", (dict(value),))
            return
        if isinstance(value, OrderedDict):
            self._call("collections OrderedDict", ())
        else:
            self.out += b"}"
        self.out += b"("
        for key, held in value.items():
            self.write(key)
            self.write(held)
        self.out += b"u"

    def _tensor(self, value: Tensor) -> None:
        if id(value) in self.memo:
            self.out += struct.pack("<cI", b"j", self.memo[id(value)])
            return
        number, offset, array = self.locations[id(value)]
        self._name("torch._utils _rebuild_tensor_v2")
        self.out += b"(("
        self.write("storage")
        self._name(f"torch {CLASSES[array.dtype]}")
        for part in (str(number), "cpu", self.storages[number].size):
            self.write(part)
        self.out += b"tQ"
        for part in (offset, array.shape, tuple(step // array.itemsize for step in array.strides)):
            self.write(part)
        self.write(value.requires_grad)
        self._call("collections OrderedDict", ())
        self.out += b"tR"
        self.memo[id(value)] = len(self.memo)
        self.out += struct.pack("<cI", b"r", self.memo[id(value)])

"""PyTorch's files: read with the same values or refused with a sentence; what is written, PyTorch reads.

The stored files were made by generate_pytorch.py, with PyTorch 2.13.
"""

import io
import json
import mmap
import os
import pickle
import random
import re
import struct
import tracemalloc
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file as save_by_safetensors

import tinytensor as tt
from tests.tools.packages import missing
from tests.tools.sampling_rate import THOROUGH, some
from tinytensor import nn
from tinytensor.interop.io.serialization import load_file

HERE = Path(__file__).parent
BASE = [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]
TENSORS = {  # of values.pt
    "base": BASE,
    "transposed": np.transpose(BASE).tolist(),
    "row": [5.0, 6.0, 7.0],
    "again": BASE,
    "expanded": [1.0] * 5,
    "empty": [],
    "one": 2.5,
    "parameter": [1.0, 1.0],
    "leaf": [1.0, 1.0],
    "double": [1 / 3],
    "long": 2**40,
    "bool": [True, False, True, True],
    "int": [-7],
    "byte": [255],
}
DTYPES = {"double": tt.float64, "long": tt.int64, "bool": tt.bool, "int": tt.int32, "byte": tt.uint8}
OTHERS = {
    "plain": [1, -(2**70), 2.5, None, True, "é\U0001f600", (1, (2,), ()), {3: {}, (1, "x"): []}, 300, 70_000],
    "dtype": tt.float32,
    "device": tt.device("cpu"),
    "size": (2, 3),
    "counter": Counter({3: 2}),
}


def in_words(value) -> str:
    """Everything about a value, as text; NaN equals itself."""
    if isinstance(value, tt.Tensor):
        about = value.dtype, value.shape, value.stride(), value.requires_grad
        return f"tensor{about}{value.detach().numpy().tobytes().hex()}"
    if isinstance(value, dict):
        return f"{type(value).__name__}({', '.join(f'{in_words(k)}: {in_words(v)}' for k, v in value.items())})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(in_words, value))})"
    return repr(value)


# --- Reading


@pytest.mark.parametrize("name", ["values.pt", "values4.pt"])
def test_stored_file_is_read(name):
    result = tt.load(HERE / name)
    assert list(result) == [*TENSORS, *OTHERS]
    for key, value in TENSORS.items():
        assert result[key].tolist() == value and result[key].dtype == DTYPES.get(key, tt.float32)
        assert result[key].requires_grad is (key in ("parameter", "leaf"))
    assert in_words({key: result[key] for key in OTHERS}) == in_words(OTHERS)
    assert result["empty"].shape == (0, 3) and result["expanded"].stride() == (0,)
    with (HERE / name).open("rb") as file:
        assert in_words(tt.load(file, weights_only=True, map_location="cpu")) == in_words(result)


def test_views_share_memory_after_reading():
    result = tt.load(HERE / "values.pt")
    assert result["again"] is result["base"] and result["transposed"].stride() == (1, 4)
    result["base"][1, 1] = 50.0
    assert result["row"].tolist() == [50.0, 6.0, 7.0] and result["transposed"][1, 1].item() == 50.0
    w = tt.ones(3, requires_grad=True)
    y = (result["row"] * w).sum()
    result["base"].zero_()  # backward reads the row, and notices that its memory was changed
    with pytest.raises(RuntimeError, match="in place"):
        y.backward()


def test_mapped_file_has_the_same_values(tmp_path):
    path, result = tmp_path / "x.pt", tt.load(HERE / "values.pt")
    path.write_bytes((HERE / "values.pt").read_bytes())
    mapped = tt.load(path, mmap=True)
    assert in_words(mapped) == in_words(result)
    holder = mapped["base"].numpy()
    while not isinstance(holder, mmap.mmap):  # it fails at None, where an array has memory of its own
        holder = holder.base
    mapped["base"].zero_()  # in memory; the file keeps its values
    assert mapped["row"].tolist() == [0.0] * 3 and in_words(tt.load(path)) == in_words(result)
    path.write_bytes(path.read_bytes().replace(struct.pack("<3f", 5, 6, 7), struct.pack("<3f", 5, 6, 8)))
    with pytest.raises(ValueError, match="Bad CRC-32"):
        tt.load(path, mmap=True)


def test_narrow_dtypes_are_widened_on_request():
    with pytest.raises(TypeError, match=r"narrow.pt: a tensor is stored as float16; load\(path, widen=True\) reads it"):
        tt.load(HERE / "narrow.pt")
    actual = tt.load(HERE / "narrow.pt", widen=True)
    assert actual["half"].tolist() == [1.0, -0.5, 65504.0] and actual["half"].dtype == tt.float32
    assert actual["bfloat16"].tolist() == [1.0, -0.5, pytest.approx(3.0e38, rel=2**-8)]
    assert actual["char"].tolist() == [-128, 127] and actual["short"].tolist() == [-300, 300]
    assert actual["bfloat16"].dtype == tt.float32 and actual["char"].dtype == actual["short"].dtype == tt.int32


def test_safetensors_are_widened_on_request(tmp_path):
    path = tmp_path / "x.safetensors"
    save_by_safetensors({"h": np.array([[0.5, 2.0]], np.float16), "c": np.array([-3], np.int8)}, path)
    categories = {"b": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [0, 4]}}
    header = json.dumps(categories | {"e": {"dtype": "BF16", "shape": [0], "data_offsets": [4, 4]}}).encode()
    (tmp_path / "b.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes([0x80, 0x3F, 0, 0xC0]))
    for read in (tt.load, load_file):
        result = read(path, widen=True)
        assert (
            result["h"].tolist() == [[0.5, 2.0]] and result["h"].dtype == tt.float32 and result["c"].dtype == tt.int32
        )
        result = read(tmp_path / "b.safetensors", widen=True)
        assert result["b"].tolist() == [[1.0], [-2.0]] and result["e"].shape == (0,)
        with pytest.raises(TypeError, match=r"[be] in .* is stored as BF16; .* with widen=True it is read as float32"):
            read(tmp_path / "b.safetensors")


def test_training_of_pytorch_goes_on_here():
    held = tt.load(HERE / "training.pt")
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = tt.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = tt.optim.lr_scheduler.MultiStepLR(optimizer, [2, 5])
    for name, part in {"model": model, "optimizer": optimizer}.items():
        part.load_state_dict(held[name])
    assert scheduler.state_dict()["last_epoch"] == 0 and held["scheduler"]["milestones"] == Counter([2, 5])
    (model(tt.tensor([[1.0, 2.0], [-1.0, 0.5]])) ** 2).sum().backward()
    optimizer.step()
    for p, expected in zip(model.parameters(), held["after"], strict=True):
        np.testing.assert_allclose(p.tolist(), expected, rtol=1e-6, atol=1e-7)


# --- Writing


def test_written_file_is_read_again(tmp_path):
    result = tt.load(HERE / "values.pt")
    for name in ("x.pt", "x.pth"):
        tt.save(result, tmp_path / name)
        reloaded = tt.load(str(tmp_path / name))
        assert in_words(reloaded) == in_words(result) and reloaded["again"] is reloaded["base"]
        reloaded["base"][1, 1] = 50.0
        assert reloaded["row"].tolist() == [50.0, 6.0, 7.0]
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert archive.testzip() is None
        for entry in archive.infolist():
            with archive.open(entry) as file:
                assert file._orig_compress_start % 64 == 0  # aligned, for programs that map the file


@pytest.mark.parametrize(
    ("made", "storages"),
    [
        (lambda x: [x, x.t(), x[1]], 1),
        (lambda x: [x[0], x[2]], 2),  # they do not overlap
        (lambda x: [x[:, 1]], 1),
        (lambda x: [x[:, 1], x[1]], 1),
        (lambda x: [x, x.clone()], 2),
        (lambda x: [tt.zeros(0), x.expand(5, 6, 6), x], 2),
    ],
)
def test_storages_are_shared_where_tensors_overlap(made, storages, tmp_path):
    values = made(tt.arange(36.0).reshape(6, 6))
    tt.save(values, tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert sum("/data/" in name for name in archive.namelist()) == storages
    assert [v.tolist() for v in tt.load(tmp_path / "x.pt")] == [v.tolist() for v in values]


def test_a_slice_does_not_drag_its_whole_array(tmp_path):
    big = tt.zeros(1000, 1000)
    tt.save({"row": big[3], "column": big[:, 3]}, tmp_path / "together.pt")
    tt.save({"column": big[:, 3]}, tmp_path / "alone.pt")
    assert (tmp_path / "alone.pt").stat().st_size < 10_000 < 3_000_000 < (tmp_path / "together.pt").stat().st_size


def test_backwards_arrays_are_written(tmp_path):
    x = tt.from_numpy(np.arange(4.0)[::-1])
    tt.save(x, tmp_path / "x.pt")
    assert tt.load(tmp_path / "x.pt").tolist() == [3.0, 2.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [np.ones(2)]}, r"save: a.0 is a NumPy array; in PyTorch's files use tinytensor.tensor\(it\)"),
        ({"m": nn.Linear(1, 1)}, r"save: m is a Linear; .*save the state_dict\(\) of this Linear"),
        ([{1, 2}], "save: 0 is a set"),
        (tt.tensor([1], dtype=object), "save: the object holds object; expected float32"),
        ({tt.ones(1): 1}, "save: at the object a Tensor is the key of a dictionary"),
        ({"a": {tt.device("cpu"): 1}}, "save: at a a device is the key of a dictionary"),
        ({tt.float32: 1}, "save: at the object a DType is the key of a dictionary"),
        ({2**70: 1}, "save: at the object a int is the key of a dictionary"),
        ({tuple(range(200)): 1}, "save: at the object a tuple is the key of a dictionary"),
        ([np.dtype("float16")], "save: 0 is the dtype float16; in PyTorch's files expected float32"),
        ([np.dtype("S3")], r"save: 0 is the dtype \|S3"),
        ([np.complex64(1)], "save: 0 is a complex64"),
    ],
)
def test_values_that_cannot_be_written(value, message, tmp_path):
    (tmp_path / "x.pt").write_text("old")
    with pytest.raises(TypeError, match=message):
        tt.save(value, tmp_path / "x.pt")
    assert os.listdir(tmp_path) == ["x.pt"] and (tmp_path / "x.pt").read_text() == "old"


SMALL_VALUES = {
    "lists": lambda i: [],
    "tuples": lambda i: (),
    "dictionaries": lambda i: {},
    "nested": lambda i: {"a": [[], {}]},
    "ordered": lambda i: OrderedDict(),
    "counters": lambda i: Counter(),
    "numbers of NumPy as keys": lambda i: {np.int64(i): (np.float32(0.5),)},
}


@pytest.mark.parametrize("name", SMALL_VALUES)
def test_many_small_values_come_back(name, tmp_path):
    """The reader's bound on memory leaves room for them."""
    value = [SMALL_VALUES[name](i) for i in range(5000)]
    tt.save(value, tmp_path / "x.pt")
    assert tt.load(tmp_path / "x.pt") == value


def test_circles_and_huge_numbers_are_not_written(tmp_path):
    circle: list = []
    circle.append(circle)
    with pytest.raises(ValueError, match=r"goes deeper than 100 levels; is it a circle\?"):
        tt.save(circle, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="save: a is a whole number of 5001 bits, above 2,000"):
        tt.save({"a": 2**5000}, tmp_path / "x.pt")


def test_pytorch_reads_and_writes_the_same(tmp_path):
    torch = pytest.importorskip("torch", reason=missing("torch"))
    actual = tt.load(HERE / "values.pt")
    tt.save(actual, tmp_path / "ours.pt")
    for options in ({}, {"mmap": True}):
        theirs = torch.load(tmp_path / "ours.pt", weights_only=True, **options)
        for key, value in TENSORS.items():
            assert theirs[key].tolist() == value and theirs[key].stride() == actual[key].stride()
            assert str(theirs[key].dtype) == f"torch.{actual[key].dtype:}"
            assert theirs[key].requires_grad is actual[key].requires_grad
        assert theirs["plain"] == OTHERS["plain"] and theirs["counter"] == OTHERS["counter"]
        assert theirs["dtype"] is torch.float32 and theirs["device"] == torch.device("cpu")
        assert theirs["row"].data_ptr() == theirs["base"].data_ptr() + 5 * 4 and theirs["again"] is theirs["base"]
    torch.save(theirs, tmp_path / "theirs.pt")
    assert in_words(tt.load(tmp_path / "theirs.pt")) == in_words(actual)


def test_pytorch_goes_on_with_training_from_here(tmp_path):
    torch = pytest.importorskip("torch", reason=missing("torch"))
    x = [[1.0, 2.0], [-1.0, 0.5]]

    def made(library):
        layers = library.nn.Linear(2, 3), library.nn.Tanh(), library.nn.Linear(3, 1)
        model = library.nn.Sequential(*layers)
        optimizer = library.optim.AdamW(model.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad()
            (model(library.tensor(x)) ** 2).sum().backward()
            optimizer.step()
            return [p.tolist() for p in model.parameters()]

        return model, optimizer, step

    model, optimizer, step = made(tt)
    step()
    tt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.pt")
    theirs = made(torch)
    for part, held in zip(theirs, torch.load(tmp_path / "x.pt", weights_only=True).values()):
        part.load_state_dict(held)
    for a, b in zip(step(), theirs[2](), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


# --- What is refused


def archive(content: bytes, compress=zipfile.ZIP_STORED, **entries: bytes) -> bytes:
    """A file of PyTorch with this pickle; `entries` stand beside it (s0: the storage 0)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compress) as made:
        made.writestr("x/data.pkl", content)
        made.writestr("x/byteorder", entries.pop("byteorder", b"little"))
        for name, held in entries.items():
            made.writestr(f"x/data/{name.removeprefix('s')}", held)
    return file.getvalue()


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK%ctQ"
HOOKS = b"ccollections\nOrderedDict\n)R"


def tensor(offset=b"K\0", size=b"K\x02\x85", stride=b"K\x01\x85", grad=b"\x89", count=2, storage=None, hooks=HOOKS):
    """The pickle of a tensor of two elements, with other arguments."""
    storage = STORAGE.replace(b"%c", bytes([count])) if storage is None else storage
    body = storage + offset + size + stride + grad + hooks
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + body + b"tR."


def refusal(content: bytes) -> str:
    """The sentence with which a file is refused."""
    with pytest.raises((ValueError, TypeError)) as raised:
        tt.load(io.BytesIO(content), widen=True)
    text = str(raised.value)
    assert text.startswith("load: the file ") and "\n" not in text and len(text) < 500
    return text


def test_a_tensor_made_by_hand_is_read():
    result = tt.load(io.BytesIO(archive(tensor(), s0=struct.pack("<2f", 1, 2))))
    assert result.tolist() == [1.0, 2.0]
    result = tt.load(io.BytesIO(archive(tensor(), s0=struct.pack(">2f", 1, 2), byteorder=b"big")))
    assert result.tolist() == [1.0, 2.0]
    result = tt.load(
        io.BytesIO(archive(tensor(storage=STORAGE.replace(b"Float", b"Bool").replace(b"%c", b"\x02")), s0=b"\x02\x00"))
    )
    assert result.numpy().view(np.uint8).tolist() == [1, 0]  # a bool of another byte than 0 and 1 is True


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (os.system, ("touch sprung",), "posix.system"),
        (eval, ("open('sprung', 'w')",), "builtins.eval"),
        (exec, ("open('sprung', 'w')",), "builtins.exec"),
        (getattr, (os, "system"), "builtins.getattr"),
        (os.mkdir, ("sprung",), "posix.mkdir"),
        (bytearray, (2**40,), "builtins.bytearray"),
    ],
)
def test_names_to_call_are_refused(function, arguments, name, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Trap:
        def __reduce__(self):
            return function, arguments if function is not getattr else ("x", "upper")

    asked = refusal(archive(pickle.dumps({"a": [Trap()]}, protocol)))
    spelled = name if protocol > 2 else name.replace("builtins", "__builtin__")
    assert f"it asks for {spelled}, which no file of tensors needs; nothing of it was run" in asked
    assert os.listdir(tmp_path) == []


def test_modules_and_old_files_get_a_sentence():
    with pytest.raises(ValueError, match=r"it asks for torch.nn.modules.linear.Linear, which no file of tensors needs"):
        tt.load(HERE / "module.pt")
    with pytest.raises(ValueError, match=r"legacy.pt is a bare pickle, as PyTorch before 1.6 wrote them.* torch.save"):
        tt.load(HERE / "legacy.pt")
    assert "it asks for x.Y" in refusal(archive(b"\x80\x02cx\nY\n."))


def push(*values) -> bytes:
    return b"".join(pickle.dumps(value, 2)[2:-1] for value in values)


FLOATS = struct.pack("<2f", 1, 2)
REFUSED = {
    "offset beyond": (tensor(offset=b"K\x01"), "ends at element 2 of a storage of 2"),
    "size beyond": (tensor(size=b"K\x03\x85"), "ends at element 2 of a storage of 2"),
    "stride beyond": (tensor(stride=b"K\x02\x85"), "ends at element 2 of a storage of 2"),
    "empty, but beyond": (tensor(offset=b"K\x09", size=b"K\0\x85"), "ends at element 8 of a storage of 2"),
    "negative stride": (tensor(stride=push(-1) + b"\x85", offset=b"K\x01"), "has negative numbers"),
    "negative size": (tensor(size=push(-2) + b"\x85"), "has negative numbers"),
    "negative offset": (tensor(offset=push(-1)), "has negative numbers"),
    "huge sizes": (tensor(size=push((2**62, 2**62)), stride=push((0, 0))), "too big"),
    "many dimensions": (tensor(size=push((1,) * 100), stride=push((1,) * 100)), "dimension"),
    "fewer strides": (tensor(stride=b")"), "as many sizes as strides"),
    "sizes that are text": (tensor(size=push(("2",))), "as many sizes as strides"),
    "sizes that are bools": (tensor(size=b"\x88\x85"), "as many sizes as strides"),
    "a number as storage": (tensor(storage=b"K\x01"), "needs a storage"),
    "hooks": (tensor(hooks=b"}"), "hooks or attributes"),
    "too few arguments": (tensor(hooks=b""), "missing 1 required positional argument"),
    "too many arguments": (tensor(hooks=HOOKS + b"NNNN"), "takes from 6 to 7 positional arguments"),
    "grad of whole numbers": (
        tensor(grad=b"\x88", storage=STORAGE.replace(b"%c", b"\x01").replace(b"Float", b"Long"), size=b"K\x01\x85"),
        "only floating-point tensors have gradients",
    ),
    "count beyond": (tensor(count=3), "is to hold 3 elements, but has 8 bytes"),
    "no storage": (tensor(storage=STORAGE.replace(b"\x000X", b"\x009X").replace(b"%c", b"\x02")), "no storage 9"),
    "a path as storage": (
        tensor(storage=STORAGE.replace(b"\x01\x00\x00\x000X", b"\x07\x00\x00\x00../../eX").replace(b"%c", b"\x02")),
        "no storage ../../e",
    ),
    "another persistent number": (b"\x80\x02K\x01Q.", "its description of a storage is none"),
    "a list of arguments": (b"\x80\x02ccollections\nOrderedDict\n]R.", "no function of the table"),
    "a call of text": (b"\x80\x02X\x01\0\0\0x)R.", "no function of the table"),
    "a call of a dtype": (b"\x80\x02ctorch\nfloat32\n)R.", "no function of the table"),
    "OrderedDict of a bomb": (b"\x80\x02ccollections\nOrderedDict\n]\x85R.", "takes 0 positional arguments but 1"),
    "a Counter of a list": (b"\x80\x02ccollections\nCounter\n]\x85R.", "something else than a dictionary"),
    "a size of text": (b"\x80\x02ctorch\nSize\nX\x01\0\0\0x\x85R.", "whole numbers"),
    "a device of a list": (b"\x80\x02ctorch\ndevice\n]\x85R.", "a device has no name"),
    "an unknown device": (b"\x80\x02ctorch\ndevice\nX\x03\0\0\0abc\x85R.", "'abc' is no device"),
    "a parameter of None": (b"\x80\x02ctorch._utils\n_rebuild_parameter\nN\x88" + HOOKS + b"\x87R.", "needs a tensor"),
    "a storage as the value": (b"\x80\x02" + STORAGE.replace(b"%c", b"\x02") + b".", "outside a tensor"),
    "a function as the value": (b"\x80\x02]ctorch\nSize\na.", "outside a tensor"),
    "attributes": (b"\x80\x02" + HOOKS + push({"keys": 1}) + b"b.", "attributes at byte"),
    "attributes of a dictionary": (b"\x80\x02}}b.", "a value of another kind"),
    "a list as key": (b"\x80\x02}]Ns.", "a list is the key"),
    "a slow key": (b"\x80\x02}K\x01" + b"q\x00h\x00\x86" * 200 + b"Ns.", "more than 100 parts"),
    "a huge key": (b"\x80\x02}" + push(2**64) + b"Ns.", "a int is the key"),
    "no end": (b"\x80\x02K\x01", "pickle exhausted before seeing STOP"),
    "nothing": (b"", "pickle exhausted before seeing STOP"),
    "no value": (b"\x80\x02.", "lacks its value"),
    "a mark as value": (b"\x80\x02(.", "lacks its value"),
    "two values": (b"\x80\x02NN.", "leaves 1 values"),
    "no mark": (b"\x80\x02t.", "lacks its mark"),
    "an odd pair": (b"\x80\x02}(Nu.", "a key at byte"),
    "text without end": (b"\x80\x02X\xff\xff\xff\x7fx.", "expected 2147483647 bytes .* only 2 remain"),
    "long text": (b"\x80\x04\x8d" + b"\xff" * 8 + b".", "byte count > sys.maxsize"),
    "a number of less than no bytes": (b"\x80\x02\x8b\xff\xff\xff\xff.", "byte count < 0: -1"),
    "a name without end": (b"\x80\x02cos", "no newline found"),
    "a name that is a number": (b"\x80\x04K\x01K\x02\x93.", "is no text"),
    "protocol 9": (b"\x80\x09N.", "protocol 9"),
    "an instruction of classes": (b"\x80\x02(ios\nsystem\n.", "is none that tensors need"),
    "a place far away": (b"\x80\x02Nr\xff\xff\xff\x7f.", "is remembered before value 0"),
    "a place that is empty": (b"\x80\x02h\x05.", "value 5 is used"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_hostile_pickles_are_refused(case):
    content, message = REFUSED[case]
    said = refusal(archive(content, s0=FLOATS))
    assert re.search(message, said), said


def test_hostile_archives_are_refused(tmp_path):
    good = archive(tensor(), s0=FLOATS)
    assert "cannot be read as a file of PyTorch" in refusal(good[:-10])
    assert "holds no data.pkl" in refusal(good.replace(b"data.pkl", b"data.pkX"))
    assert "Bad CRC-32" in refusal(good.replace(FLOATS, struct.pack("<2f", 1, 3)))
    bomb = archive(pickle.dumps("x" * 10**8, 2), zipfile.ZIP_DEFLATED)
    assert len(bomb) < 200_000 and "data.pkl is compressed, which PyTorch's files never are" in refusal(bomb)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(twice := io.BytesIO(good), "a") as made:
        made.writestr("x/data/0", FLOATS)
    assert "its entries overlap" in refusal(twice.getvalue())
    with zipfile.ZipFile(file := io.BytesIO(), "w") as made:
        made.writestr("../../x/data.pkl", tensor())
        made.writestr("../../x/data/0", FLOATS)
        made.writestr("/etc/passwd", b"x")
    assert tt.load(io.BytesIO(file.getvalue())).tolist() == [1.0, 2.0]  # nothing is unpacked, so paths do no harm
    with zipfile.ZipFile(file := io.BytesIO(), "w") as made:
        made.writestr("x/data.pkl", b"")
        made.writestr("x/code/__torch__.py", b"")
    assert "it is a TorchScript program" in refusal(file.getvalue())


def test_entries_that_share_bytes_are_refused():
    """A file of 100 kB whose 1,000 entries lie on the same bytes would fill 100 MB."""
    storage = bytes(100_000)
    good = bytearray(archive(b"\x80\x02N.", s0=storage))
    end = good.rfind(b"PK\x05\x06")
    start = struct.unpack("<I", good[end + 16 : end + 20])[0]
    last = good.rfind(b"PK\x01\x02")
    directory, count = bytes(good[start:end]), 3
    for i in range(1, 1000):
        entry = bytearray(good[last:end])
        entry = entry.replace(b"x/data/0", b"x/data/%d" % i)
        entry[28:30] = struct.pack("<H", len(b"x/data/%d" % i))
        directory, count = directory + bytes(entry), count + 1
    tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(directory), start, 0)
    assert "its entries overlap: together they are longer" in refusal(bytes(good[:start]) + directory + tail)


MANY = tensor()[2:-2]  # the pickle of a tensor up to its call: the function and its arguments
BOMBS = {
    "one list, often": b"]\x94(" + b"h\x00" * 50_000 + b"e",
    "doubling lists": b"N\x94" + b"](h\x00h\x00e" * 5 + b"](" + b"q\x00](h\x00h\x00e" * 20_000 + b"e",
    "doubling tuples": b"N" + b"q\x00h\x00\x86" * 20_000,
    "empty lists": b"](" + b"]" * 100_000 + b"e",
    "empty dictionaries": b"](" + b"}" * 100_000 + b"e",
    "dictionaries": b"](" + b"}K\x01Ns" * 20_000 + b"e",
    "OrderedDicts": b"](ccollections\nOrderedDict\nq\x00" + b"h\x00)R" * 25_000 + b"e",
    "tensors": b"](" + MANY.replace(b"v2\n", b"v2\nq\x00") + b"q\x01" + b"h\x00h\x01R" * 20_000 + b"e",
    "remembered values": b"N" + b"\x94" * 100_000,
    "marks": b"(" * 100_000,
}


def outcome(content: bytes):
    """(the value in a file, None), or (None, the sentence with which it is refused)."""
    try:
        return tt.load(io.BytesIO(content)), None
    except (ValueError, TypeError) as error:
        return None, str(error)


def peak_memory(content: bytes) -> int:
    """The bytes that reading a file takes at most; the outcome may be either."""
    tracemalloc.start()
    said = outcome(content)[1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said is None or (said.startswith("load: the file ") and len(said) < 500)
    return peak


def memory_is_bounded(content: bytes) -> bool:
    """Whether reading a file takes a small multiple of its size, in one of three runs.

    Three, because tracemalloc counts what other threads and finalizers of earlier tests allocate meanwhile.
    """
    return any(peak_memory(content) < 64 * len(content) + 200_000 for _ in range(3))


@pytest.mark.parametrize("case", BOMBS)
def test_memory_stays_a_small_multiple_of_the_file(case):
    assert memory_is_bounded(archive(b"\x80\x04" + BOMBS[case] + b".", s0=FLOATS))


def changed(content: bytes, chance: random.Random) -> bytes:
    """A file with a few bytes changed, taken out or put in, or cut short."""
    made = bytearray(content)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(made))
        how = chance.random()
        if how < 0.6:
            made[at] = chance.randrange(256)
        elif how < 0.8:
            made[at] ^= 1 << chance.randrange(8)
        else:
            made[at : at + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
    return bytes(made[: chance.randrange(len(made))] if chance.random() < 0.05 else made)


def test_changed_files_are_refused_or_the_same():
    whole = (HERE / "values.pt").read_bytes()
    right, refused = in_words(tt.load(io.BytesIO(whole))), 0
    for seed in some(range(10_000), 40):
        result, said = outcome(changed(whole, random.Random(seed)))
        assert in_words(result) == right if said is None else said.startswith("load: the file "), seed
        refused += said is not None
    assert refused > (5000 if THOROUGH else 125)


def test_changed_pickles_are_refused_or_read():
    """The same with right checksums: every instruction is reached, and the value may be another one."""
    with zipfile.ZipFile(HERE / "values.pt") as stored:
        entries = {f"s{n.rpartition('/')[2]}": stored.read(n) for n in stored.namelist() if "/data/" in n}
        whole = stored.read("values/data.pkl")
    for seed in some(range(10_000), 25):
        content = archive(changed(whole, random.Random(seed)), **entries)
        assert memory_is_bounded(content), seed


def test_a_difference_is_noticed():
    assert in_words([1, 2]) != in_words((1, 2)) and in_words(tt.ones(1)) != in_words(tt.ones(1, requires_grad=True))
    assert in_words(tt.ones(2, 2)) != in_words(tt.ones(1, 1).expand(2, 2)) and in_words({1: 0.0}) != in_words({1: -0.0})


def test_an_ordered_dict_stays_one(tmp_path):
    tt.save(OrderedDict(a=tt.ones(1)), tmp_path / "x.pt")
    assert type(tt.load(tmp_path / "x.pt")) is OrderedDict

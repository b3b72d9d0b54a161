"""Weights in files: what goes in comes out, tied tensors stay tied, a failure leaves the old file, and no pickle."""

import ast
import io
import json
import math
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file as save_by_safetensors

import tinytensor as tt
from tinytensor import nn
from tinytensor.interop.io import serialization
from tinytensor.interop.io.serialization import load_file, load_metadata, save_file

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.int32, tt.int64, tt.bool])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
def test_round_trip(dtype, shape, path):
    x = tt.tensor(np.random.RandomState(0).randint(0, 2, shape), dtype=dtype)
    save_file({"x": x}, path)
    y = load_file(path)["x"]
    assert y.dtype == dtype and y.shape == shape and y.tolist() == x.tolist()


def test_bits_survive(path):
    x = tt.tensor([np.nan, np.inf, -0.0, 5e-324, 1 / 3], dtype=tt.float64)
    save_file({"x": x}, path)
    assert load_file(path)["x"].numpy().tobytes() == x.numpy().tobytes()


def test_strided_tensors_and_parameters(path):
    m = nn.Linear(2, 3)
    save_file({"t": m.weight.t(), "w": m.weight, "row": m.weight[1]}, path)
    loaded = load_file(path)
    assert loaded["t"].tolist() == m.weight.t().tolist() and loaded["row"].tolist() == m.weight[1].tolist()
    assert loaded["w"].tolist() == m.weight.tolist() and not loaded["w"].requires_grad
    loaded["w"].zero_()  # memory of its own
    assert load_file(path)["w"].any()


def test_tied_tensors_are_stored_once_and_stay_tied(path):
    x, y = tt.ones(3), tt.ones(3)
    save_file({"b": x, "a": x, "c": y}, path, {"note": "here"})
    with safe_open(path, "np") as file:
        assert sorted(file.keys()) == ["b", "c"]  # equal values are not the same tensor
        assert json.loads(file.metadata()["tinytensor.tied"]) == {"a": "b"}
    loaded = load_file(path)
    assert loaded["a"] is loaded["b"] and loaded["c"] is not loaded["a"]
    assert load_metadata(path)["note"] == "here"


def test_tied_modules_load(path):
    def tied():
        m = nn.ModuleDict({"embed": nn.Embedding(4, 3), "out": nn.Linear(3, 4, bias=False)})
        m["out"].weight = m["embed"].weight
        return m

    a, b = tied(), tied()
    save_file(a.state_dict(), path)
    b.load_state_dict(load_file(path))
    assert b["out"].weight is b["embed"].weight and b["out"].weight.tolist() == a["embed"].weight.tolist()


def test_files_written_by_safetensors_load(path):
    save_by_safetensors({"w": np.ones((2, 2), np.float32)}, path, {"tied": "not JSON, and not ours"})
    assert load_file(path)["w"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    save_by_safetensors({"w": np.ones(2, np.float16)}, path)
    with pytest.raises(TypeError, match=r"load_file: w in .* is stored as F16; expected F32, F64"):
        load_file(path)
    assert load_metadata(path) == {}


@pytest.mark.parametrize("content", [b"", b"text", b"\x80\x04pickled", b"\xff" * 100])
def test_other_files_are_refused(content, path):
    path.write_bytes(content)
    for read in (load_file, load_metadata):
        with pytest.raises(ValueError, match=rf"{read.__name__}: .*weights.safetensors is not a safetensors file"):
            read(path)


def test_a_file_cut_short(path):
    save_file({"x": tt.ones(100)}, path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is not a safetensors file"):
        load_file(path)


def test_a_missing_file(path):
    with pytest.raises(FileNotFoundError, match="weights"):
        load_file(path)


def test_exact_scalars_are_refused(path):
    with pytest.raises(TypeError, match="save_file: x holds exact scalars"):
        save_file({"x": tt.tensor([1], dtype=object)}, path)
    assert not path.exists()


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_failed_save_file_leaves_the_old_file(failing, path, monkeypatch):
    save_file({"x": tt.ones(2)}, path)
    before = path.read_bytes()

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(serialization.os, failing, fail)
    with pytest.raises(OSError, match="no space left"):
        save_file({"x": tt.zeros(2)}, path)
    monkeypatch.undo()
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
    save_file({"x": tt.zeros(2)}, path)
    assert path.read_bytes() != before


def test_the_bytes_reach_the_disk_before_the_name(path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(serialization.os, name, lambda *a, n=name, f=real: (done.append(n), f(*a))[1])
    save_file({"x": tt.ones(2)}, path)
    assert done == ["fsync", "replace", "fsync"]  # the file, the rename, the directory


# --- No pickle

EXECUTES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def unpicklers(source: str) -> list[str]:
    """What in a source could run code that stands in a file of data."""
    results = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "import_module":
            names = [ast.literal_eval(node.args[0])] if isinstance(node.args[0], ast.Constant) else []
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            names = ["pickle"]
        results += [name for name in names if name.partition(".")[0] in EXECUTES]
    return results


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from pickle import load", "def f():\n import os, shelve as s", "np.load(f, allow_pickle=True)"],
)
def test_use_of_pickle_is_found(source):
    assert unpicklers(source)


def test_no_pickle_anywhere():
    files = [p for folder in ("tinytensor", "models", "examples") for p in (ROOT / folder).rglob("*.py")]
    assert len(files) > 30
    results = {str(p.relative_to(ROOT)): results for p in files if (results := unpicklers(p.read_text()))}
    assert results == {
        "tinytensor/native/runtime/cache.py": ["pickle"],  # Numba keeps machine code so
        "tinytensor/distributed/collectives.py": ["pickle"],  # what ranks of one run say to each other, never a file
    }


# --- Save and load


def same(a, b):
    """Are two values alike in everything that a program could ask of them?"""
    if type(a) is not type(b):
        return isinstance(a, np.generic) and a.item() == b
    if isinstance(a, tt.Tensor | np.ndarray):
        flags = isinstance(a, np.ndarray) or a.requires_grad is b.requires_grad
        return flags and a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a.tolist(), b.tolist())
    if isinstance(a, dict):
        return list(a) == list(b) and [type(k) for k in a] == [type(k) for k in b] and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


VALUES = {
    "a tensor": tt.arange(6).reshape(2, 3),
    "0-d": tt.tensor(1.5),
    "empty": tt.zeros(0, 3),
    "strided": tt.arange(6).reshape(2, 3).t(),
    "a leaf": tt.ones(2, requires_grad=True),
    "an array": np.arange(3.0),
    "a number": 3,
    "plain": [None, True, False, 1, -(2**70), 1e-300, math.inf, "text \u00e9 \U0001f600", "", ()],
    "nested": {"a": [{"b": (tt.ones(2), [tt.zeros(1), 2.5])}], 3: {}, (1, "x"): [], None: 1, 2.5: {"a": {}}},
    "ordered": OrderedDict([("b", tt.ones(1)), ("a", tt.zeros(1))]),
    "names that meet": {"a.b": tt.ones(1), "a": {"b": tt.zeros(1)}},
    "of NumPy": {"x": np.float32(0.5), "n": np.int64(3), "b": np.bool_(True)},
    "dtype and device": [tt.float64, tt.device("cpu"), tt.device("cuda", 1)],
    "a dictionary that looks like a form": {"tensor": "x", "dict": [["a", 1]]},
}


@pytest.mark.parametrize("name", VALUES)
def test_saved_values_come_back(name, path):
    tt.save(VALUES[name], path)
    assert same(VALUES[name], tt.load(path))
    memory = io.BytesIO()
    tt.save(VALUES[name], memory)
    memory.seek(0)
    assert same(VALUES[name], tt.load(memory, map_location="cpu", weights_only=True))
    with safe_open(path, "np"):  # and every reader of safetensors can look into the file
        pass


def test_a_difference_is_noticed():
    assert not same([1, 2], (1, 2)) and not same({1: 2}, {"1": 2}) and not same(tt.ones(1), tt.zeros(1))
    assert not same(tt.ones(1), tt.ones(1, requires_grad=True)) and not same(1, True) and not same(1, 1.0)


def test_header_length_like_a_pickle_opcode_loads(path):
    lengths = set()
    for n in range(1, 400):
        tt.save("x" * n, path)
        assert tt.load(path) == "x" * n
        lengths.add(path.read_bytes()[0])
    assert 0x80 in lengths


def test_shared_memory_stays_shared(path):
    x, p = tt.ones(3), tt.ones(2, requires_grad=True)
    tt.save({"a": x, "b": [x, x.clone()], "p": p, "d": p.detach()}, path)
    with safe_open(path, "np") as file:
        assert sorted(file.keys()) == ["a", "b.1", "p"]
    result = tt.load(path)
    assert result["b"][0] is result["a"] is not result["b"][1]
    assert result["p"].requires_grad and not result["d"].requires_grad
    result["d"].zero_()
    assert result["p"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("make", [lambda p: tt.optim.AdamW(p, amsgrad=True), lambda p: tt.optim.SGD(p, momentum=0.9)])
def test_a_run_goes_on_from_a_checkpoint(make, path):
    def walk(model, optimizer, scheduler, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (model(tt.ones(2, 3)) ** 2).sum().backward()
            optimizer.step()
            scheduler.step()
        return [p.tolist() for p in model.parameters()]

    def made():
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = make(model.parameters())
        return model, optimizer, tt.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    one, other = made(), made()
    walk(*one, 3)
    names = ("model", "optimizer", "scheduler")
    tt.save({"epoch": 3} | {n: part.state_dict() for n, part in zip(names, one, strict=True)}, path)
    checkpoint = tt.load(path, map_location=tt.device("cpu"))
    assert checkpoint["epoch"] == 3
    for n, part in zip(names, other, strict=True):
        part.load_state_dict(checkpoint[n])
    assert walk(*other, 3) == walk(*one, 3)


def test_load_reads_plain_safetensors_files(path):
    x = tt.ones(2)
    save_file({"w": x, "v": x}, path)
    result = tt.load(path)
    assert result["w"].tolist() == [1.0, 1.0] and result["v"] is result["w"]
    save_by_safetensors({"w": np.ones(2, np.float16)}, path)
    with pytest.raises(TypeError, match=r"load: w in .* is stored as F16; expected F32"):
        tt.load(path)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"model": nn.Linear(1, 1)}, r"model is a Linear; .*save the state_dict\(\) of this Linear, and later give it"),
        (nn.Linear(1, 1), r"the object is a Linear; .*x.load_state_dict\(load\(path\)\)$"),
        ({"a": [tt.optim.SGD([tt.ones(1)])]}, r"a.0 is a SGD; .*save the state_dict\(\) of this SGD"),
        ([1, {2: lambda x: x}], "1.2 is a function"),
        (object(), r"the object is a object; .*save the vars\(\) of a object"),
        ({"s": {1, 2}}, "s is a set"),
        (1j, "the object is a complex"),
        (tt.tensor([1], dtype=object), "the object holds object"),
        ({"a": np.array(["x"])}, "a holds <U1"),
    ],
)
def test_unsupported_values_are_refused(value, where, path):
    path.write_text("old")
    with pytest.raises(TypeError, match=where):
        tt.save(value, path)
    assert path.read_text() == "old" and os.listdir(path.parent) == [path.name]


SURROGATE = "a\ud800"
UNREADABLE = [  # what would be written, and no reader could read
    (tt.save, ({"__metadata__": tt.ones(1)},), ValueError, "save: '__metadata__' is no name for a tensor"),
    (tt.save, ({SURROGATE: tt.ones(1)},), ValueError, r"save: a tensor's name holds half a surrogate pair.*'a.ud800'"),
    (tt.save, ({tt.ones(1): 1},), TypeError, "save: a key of the object holds a tensor; expected text"),
    (tt.save, ({"a": {(1, tt.ones(1)): 1}},), TypeError, "save: a key of a holds a tensor; expected text"),
    (tt.save, ([np.dtype("S3")],), TypeError, "save: 0 is a BytesDType"),
    (tt.save, ([np.dtype(">f4")],), TypeError, "save: 0 is a Float32DType"),
    (tt.save, ([np.complex64(1)],), TypeError, "save: 0 is a complex"),
    (tt.save, ([10**5000],), ValueError, "save: 0 is a whole number of 16610 bits, above 2,000"),
    (tt.save, ("x" * 10**8,), ValueError, r"save: names, numbers and text take 100,000,\d+ bytes"),
    (save_file, ({"__metadata__": tt.ones(1)},), ValueError, "save_file: '__metadata__' is no name for a tensor"),
    (save_file, ({SURROGATE: tt.ones(1)},), ValueError, "save_file: a tensor's name holds half a surrogate pair"),
    (save_file, ({1: tt.ones(1)},), TypeError, "save_file: a tensor's name holds 1, a int; expected text"),
    (save_file, ({"a": [1]},), TypeError, "save_file: a is a list; expected a tensor"),
    (save_file, ({}, {"a": 1}), TypeError, "save_file: the metadata holds 1, a int; expected text"),
    (save_file, ({}, {"a": SURROGATE}), ValueError, "save_file: the metadata holds half a surrogate pair"),
    (save_file, ({}, {"tinytensor.tied": "x"}), ValueError, "metadata holds 'tinytensor.tied', an entry that this"),
    (save_file, ({}, {"tinytensor.form": "x"}), ValueError, "metadata holds 'tinytensor.form', an entry that this"),
]


@pytest.mark.parametrize(("write", "arguments", "error", "message"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_no_reader_could_read_is_not_written(write, arguments, error, message, path):
    path.write_text("old")
    with pytest.raises(error, match=message):
        write(arguments[0], path, *arguments[1:])
    assert path.read_text() == "old" and os.listdir(path.parent) == [path.name]


class Pair(NamedTuple):
    x: int


def test_subclasses_of_lists_and_tuples_come_back_as_these(path):
    tt.save([Pair(1), type("Row", (list,), {})([2])], path)
    assert tt.load(path) == [(1,), [2]]


SEEMING = [
    (b"", "it is empty"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "it seems to be a Git LFS pointer.*git lfs pull"),
    (b"\n<!DOCTYPE html><html>", "it seems to be an HTML page.*download the file again"),
    (b"<html lang=en>", "it seems to be an HTML page"),
    (b"\x1f\x8b\x08\0\0\0\0\0\0", "it seems to be a file that gzip has compressed"),
    (b"\x93NUMPY\x01\0v\0", "it seems to be an array of NumPy"),
]


@pytest.mark.parametrize(("content", "seen"), SEEMING)
def test_sentence_says_what_a_file_seems_to_be(content, seen, path):
    path.write_bytes(content)
    for read in (load_file, load_metadata, tt.load):
        with pytest.raises(ValueError, match=rf"weights.safetensors is not a safetensors file \({seen}"):
            read(path)
    pytorch = path.with_suffix(".pt")
    pytorch.write_bytes(content)
    with pytest.raises(ValueError, match=rf"load: .*weights.pt is not a file of PyTorch \({seen}"):
        tt.load(pytorch)


def test_shape_beyond_memory_is_named(path):
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**62, 0], "data_offsets": [0, 0]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    for read in (load_file, tt.load):
        with pytest.raises(ValueError, match=rf"x in .* has the shape \({2**62}, 0\), which is beyond"):
            read(path)


def test_circular_value_is_refused(path):
    value = []
    value.append(value)
    with pytest.raises(ValueError, match=r"save: 0.0.0... goes deeper than 100 levels; is it a circle\?"):
        tt.save(value, path)


def test_pickled_files_are_not_read(path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(path.parent / "sprung"),))

    for protocol in (2, 3, 4, 5):
        path.write_bytes(pickle.dumps({"a": Trap()}, protocol))
        with pytest.raises(ValueError, match=r"is a bare pickle.*could run any code; convert it once.*torch.save"):
            tt.load(path)
    with zipfile.ZipFile(path, "w") as file:  # as PyTorch writes them
        file.writestr("archive/data.pkl", pickle.dumps(Trap()))
    with pytest.raises(ValueError, match=r"it asks for posix.mkdir, which no file of tensors needs"):
        tt.load(path)
    with path.open("rb") as file, pytest.raises(ValueError, match=rf"load: {path} cannot be read as a file of PyTorch"):
        tt.load(file)
    assert os.listdir(path.parent) == [path.name]


def test_map_location(path):
    tt.save([tt.ones(1)], path)
    for position in (None, "cpu", tt.device("cpu", 0), lambda storage, location: storage, {"cuda:0": "cpu"}):
        assert tt.load(path, map_location=position)[0].device == "cpu"
    for position in ("cuda", tt.device("cuda", 0), {"cpu": "cuda:0"}, "meta"):
        with pytest.raises(RuntimeError, match=r"load: device '.*' is not available"):
            tt.load(path, map_location=position)


FORMS = [
    *('{"tensor": "nothing"}', '{"tensor": 1}', '{"tensor": ["x"]}', '{"code": "x"}', "[1]", "{}", "not JSON", ""),
    *('{"dict": [[{"list": []}, 1]]}', '{"dict": [1]}', '{"dict": [[1, 2, 3]]}', '{"list": 5}', '{"dtype": "x"}'),
    *('{"device": "nowhere"}', '{"a": 1, "b": 2}', '{"leaf": "i"}', '{"list": [' * 2000 + "]}" * 2000),
    *('{"list": ' * 99 + "[" * 99 + "]" * 99 + "}" * 99, "[" * 100_000, "9" * 5000),
]


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_hostile_headers_raise_one_sentence(form, path):
    arrays = {"x": np.ones(2, np.float32), "i": np.ones(2, np.int64)}
    save_by_safetensors(arrays, path, {"tinytensor.form": form})
    with pytest.raises(ValueError, match=r"load: .* is damaged: \w+: ") as raised:
        tt.load(path)
    assert len(str(raised.value)) < 500 and raised.value.__cause__ is None


def test_damaged_files_raise_one_sentence(path):
    tt.save({"x": tt.ones(50), "y": [1, 2, {"z": tt.zeros(3)}]}, path)
    whole = path.read_bytes()
    state, refused = np.random.RandomState(0), 0
    for _ in range(1500):
        content = bytearray(whole)
        for at in state.randint(0, len(whole), state.randint(1, 4)):
            content[at] = state.randint(256)
        path.write_bytes(content[: state.randint(len(whole))] if state.rand() < 0.2 else content)
        said = None
        try:
            tt.load(path)
        except (ValueError, TypeError) as error:
            said, refused = str(error), refused + 1
        assert said is None or said.startswith("load: ")
    assert refused > 300


@pytest.mark.parametrize("content", [b"", b"{}", b"text", b"\xff" * 100, b"\x00" * 16])
def test_load_of_other_files_is_refused(content, path):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"load: .*weights.safetensors is not a safetensors file"):
        tt.load(path)


def test_failed_save_leaves_the_old_file(path, monkeypatch):
    tt.save([1], path)
    monkeypatch.setattr(serialization.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        tt.save([2], path)
    monkeypatch.undo()
    assert tt.load(path) == [1] and os.listdir(path.parent) == [path.name]
    tt.save([3], str(path))
    assert tt.load(str(path)) == [3]

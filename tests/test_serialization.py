"""Weights in files: what goes in comes out, tied tensors stay tied, a failure leaves the old file, and no pickle."""

import ast
import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file as save_by_safetensors

import tinytensor as tt
from tinytensor import nn, serialization
from tinytensor.serialization import load_file, load_metadata, save_file

ROOT = Path(__file__).parent.parent


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.int32, tt.int64, tt.bool_])
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


def test_files_of_others(path):
    save_by_safetensors({"w": np.ones((2, 2), np.float32)}, path, {"tied": "not JSON, and not ours"})
    assert load_file(path)["w"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    save_by_safetensors({"w": np.ones(2, np.float16)}, path)
    with pytest.raises(TypeError, match=r"load_file: w in .* is stored as F16; expected F32, F64"):
        load_file(path)
    assert load_metadata(path) == {}


@pytest.mark.parametrize("content", [b"", b"text", b"\x80\x04pickled", b"\xff" * 100])
def test_what_is_not_a_safetensors_file(content, path):
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
def test_a_failure_leaves_the_old_file(failing, path, monkeypatch):
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


# -------------------------------------------------------------------------------------------------------- no pickle

EXECUTES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def unpicklers(source: str) -> list[str]:
    """What in a source could run code that stands in a file of data."""
    found = []
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
        found += [name for name in names if name.partition(".")[0] in EXECUTES]
    return found


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from pickle import load", "def f():\n import os, shelve as s", "np.load(f, allow_pickle=True)"],
)
def test_a_pickle_is_found(source):
    assert unpicklers(source)


def test_no_pickle_anywhere():
    files = [p for folder in ("tinytensor", "models", "examples") for p in (ROOT / folder).rglob("*.py")]
    assert len(files) > 30
    assert {str(p): found for p in files if (found := unpicklers(p.read_text()))} == {}

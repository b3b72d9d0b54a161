"""What stands in a stored table stays, bit for bit, until PyTorch says something else."""

import numpy as np
import pytest

from tests.samples.oracle import tables


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "folder" / "table.safetensors"
    arrays = {"a": np.array([1.0, 2.0]), "b": np.array([3.0, 4.0], np.float32), "n": np.array([1, 2])}
    assert tables.keep(path, arrays, {"facts": "x"}).keys() == arrays.keys() | {"metadata"}
    return path, arrays


def test_last_bits_do_not_change_the_table(table):
    path, arrays = table
    content = path.read_bytes()
    other = arrays | {"a": np.nextafter(arrays["a"], 9), "b": np.nextafter(arrays["b"], np.float32(9))}
    assert not tables.differences(path, other, {"facts": "x"})
    assert not tables.keep(path, other, {"facts": "x"})
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("changes", "facts", "message"),
    [
        ({"a": np.array([1.0, 2.0 + 1e-10])}, "x", {"a"}),
        ({"a": np.array([1.0, np.nan])}, "x", {"a"}),
        ({"a": np.array([1.0, 2.0], np.float32)}, "x", {"a"}),
        ({"n": np.array([1, 3])}, "x", {"n"}),
        ({"new": np.array([0.0])}, "x", {"new"}),
        ({}, "y", {"metadata"}),
    ],
)
def test_changed_answer_is_stored_alone(table, changes, facts, message):
    path, arrays = table
    beside = np.nextafter(arrays["b"], np.float32(9))
    assert tables.keep(path, arrays | {"b": beside} | changes, {"facts": facts}).keys() == message
    stored, metadata = tables.read(path)
    assert stored["b"].tobytes() == arrays["b"].tobytes() != beside.tobytes()
    assert metadata == {"facts": facts}
    for name, array in changes.items():
        assert stored[name].dtype == array.dtype and np.array_equal(stored[name], array, equal_nan=array.dtype != int)


def test_removed_array_leaves_the_table(table):
    path, arrays = table
    del arrays["n"]
    assert tables.keep(path, arrays, {"facts": "x"}) == {"n": "only stored"}
    assert tables.read(path)[0].keys() == {"a", "b"}


def test_caller_sets_the_tolerance(table):
    path, arrays = table
    other = arrays | {"a": np.array([1.0, 2.0 + 1e-10])}
    assert not tables.differences(path, other, {"facts": "x"}, lambda name, dtype: 1e-9)
    assert tables.differences(path, other, {"facts": "x"}, lambda name, dtype: 0.0).keys() == {"a"}

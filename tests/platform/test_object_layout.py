"""The layout of objects in memory: what the engine reads is there, and another layout is refused at the import."""

import numpy as np
import pytest

from tinytensor.native.platform import object_layout
from tinytensor.native.platform.object_layout import addresses, differences

ARRAYS = {
    "a view with a base": np.arange(24.0).reshape(2, 3, 4)[:, ::2],
    "one number": np.array(1),
    "nothing": np.zeros((0, 3), np.float32),
    "truth values": np.ones(3, bool),
    "read backwards": np.arange(5)[::-1],
    "read-only": np.broadcast_to(np.float32(1), (2, 2)),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_lie_as_the_table_says(array):
    assert differences(array) == []


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("DATA", 2, "data"),
        ("NDIM", 0, "ndim"),
        ("SIZES", 3, "sizes"),
        ("STRIDES", 2, "strides"),
        ("BASE", 5, "base"),
        ("DTYPE", 4, "dtype"),
        ("HEAD", 24, "type"),
    ],
)
def test_another_layout_is_refused(name, value, part, monkeypatch):
    monkeypatch.setattr(object_layout, name, value)
    with pytest.raises(ImportError, match=rf"lays objects out otherwise than kernels read them .*array's {part}"):
        object_layout.check()


def test_addresses_tell_tuples_of_other_objects_apart():
    one, other = object(), object()
    assert addresses((one, other)) == addresses((one, other)) != addresses((other, one))

"""Arrays that come from outside and lie oddly in memory: right values, shared memory, or a refusal."""

import numpy as np
import pytest

import tinytensor as tt

RECORDS = np.zeros(4, [("a", "f4"), ("b", "u1")])
RECORDS["a"] = [1, 2, 3, 4]


@pytest.mark.parametrize("take", [tt.from_numpy, tt.as_tensor, lambda a: tt.as_tensor(a, dtype=tt.float32)])
@pytest.mark.parametrize("array", [RECORDS["a"], RECORDS["a"][::2], RECORDS["a"].reshape(2, 2).T], ids=str)
def test_field_of_a_structured_array_is_refused(take, array):
    with pytest.raises(ValueError, match=r"from_numpy: the strides .* are no multiples of the 4 bytes of float32"):
        take(array)


@pytest.mark.parametrize(
    "make", [tt.tensor, lambda a: tt.from_numpy(a.copy()), lambda a: tt.as_tensor(a, dtype=tt.float64)]
)
def test_copy_of_a_structured_field(make):
    x = make(RECORDS["a"])
    assert (x * 2).tolist() == [2, 4, 6, 8] and RECORDS["b"].tolist() == [0] * 4


def test_strides_of_one_element_do_not_matter():
    assert (tt.from_numpy(RECORDS["a"][:1]) * 2).tolist() == [2]


SHARED = {
    "backwards": lambda: np.arange(6.0)[::-1],
    "every second": lambda: np.arange(12.0)[::2],
    "transposed": lambda: np.arange(6.0).reshape(2, 3).T,
    "fields of one size": lambda: np.zeros(3, [("a", "f8"), ("b", "f8")])["b"],
    "not aligned": lambda: np.zeros(49, np.uint8)[1:].view(np.float64),
    "nothing": lambda: np.zeros((0, 3)),
}


@pytest.mark.parametrize("name", SHARED)
def test_shared_arrays_are_read_and_written_in_place(name):
    array = SHARED[name]()
    x, before = tt.from_numpy(array), array.copy()
    assert np.allclose(x.exp().numpy(), np.exp(before))
    x.mul_(2).add_(1)
    assert np.array_equal(array, before * 2 + 1)


@pytest.mark.parametrize("array", [np.broadcast_to(np.float32(1), (2, 2)), np.frombuffer(bytes(8), np.float32)])
def test_readonly_array_is_copied(array):
    x = tt.from_numpy(array)
    x.add_(1)
    assert x.tolist() == (np.array(array) + 1).tolist() and not array.flags.writeable

"""Indices into tensors without elements: none is read or written, and a wrong index is refused all the same."""

import pytest

import tinytensor as tt

CALLS = {
    "x[[i]]": lambda x, i: x[tt.tensor([i])],
    "x[[i], :]": lambda x, i: x[tt.tensor([i]), :],
    "x[[i]] = v": lambda x, i: x.__setitem__(tt.tensor([i]), 1.0),
    "x[i] = v": lambda x, i: x.__setitem__(i, 1.0),
    "index_put_": lambda x, i: x.index_put_((tt.tensor([i]),), tt.tensor(1.0)),
    "index_put_, added": lambda x, i: x.index_put_((tt.tensor([i]),), tt.tensor(1.0), accumulate=True),
    "index_fill": lambda x, i: x.index_fill(0, tt.tensor([i]), 1.0),
    "index_add": lambda x, i: x.index_add(0, tt.tensor([i]), tt.empty(1, *x.shape[1:])),
    "index_copy": lambda x, i: x.index_copy(0, tt.tensor([i]), tt.empty(1, *x.shape[1:])),
    "index_select": lambda x, i: x.index_select(0, tt.tensor([i])),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("shape", [(3, 0), (3, 2, 0), (3, 0, 2)], ids=str)
def test_an_index_is_within_the_dimension(shape, call):
    for right in (0, 2):
        call(tt.zeros(shape), right)
    for wrong in (3, 5, -4, -9):
        with pytest.raises(IndexError, match=f"index {wrong} is (out of range|outside)"):
            call(tt.zeros(shape), wrong)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_dimension_of_size_0_has_no_index(call):
    for wrong in (0, 5, -1):
        with pytest.raises(IndexError, match=f"index {wrong} is (out of range|outside)"):
            call(tt.zeros(0, 2), wrong)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (3, 2)], ids=str)
def test_no_index_is_always_right(shape):
    x, none = tt.zeros(shape), tt.empty(0, dtype=tt.int64)
    assert x[none].shape == (0, *shape[1:])
    x[none] = 1.0
    assert not x.any()

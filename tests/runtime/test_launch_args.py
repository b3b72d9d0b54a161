"""Blocks: native code finds in an array's object what NumPy says of the array, and refuses what does not fit."""

import numpy as np
import pytest
from numba import config

from tinytensor.native.kernels import KERNELS
from tinytensor.native.runtime.kernel import kernel
from tinytensor.native.runtime.launch_args import ElementwiseArgs, LoopArgs

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is packed")

BASE = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
ARRAYS = {
    "contiguous": BASE,
    "transposed": BASE.transpose(3, 1, 0, 2),
    "every other": BASE[:, ::2, 1:, ::3],
    "backwards": BASE[:, ::-1],
    "repeated": np.broadcast_to(BASE[:, :1], BASE.shape),
    "without elements": BASE[:, :0],
    "one number": np.array(1.5),
    "a view of one row": BASE[1, 2, 3],
    "bools": BASE > 3,
    "whole numbers": BASE.astype(np.int64)[0],
}


def address(a):
    return a.__array_interface__["data"][0] if a.size else 0


@pytest.mark.parametrize("name", ARRAYS)
def test_loop_block_holds_addresses_shapes_and_strides(name):
    a = ARRAYS[name]
    args = (7, a, 0.25, np.float32(0.5), a, True)
    words = LoopArgs(tuple("nabcdt"), (False, True, False, False, True, False), args).pack("loop", args).tolist()
    array = [address(a), *a.shape, *a.strides]
    assert words[0] == 7 and words[-1] == 1
    assert words[1 : 1 + len(array)] == words[-1 - len(array) : -1] == array
    numbers = np.array(words[1 + len(array) : 3 + len(array)])
    assert numbers[:1].view(np.float64)[0] == 0.25 and numbers[1:].view(np.float32)[0] == 0.5


@pytest.mark.parametrize("name", ARRAYS)
def test_contiguous_loop_refuses_gaps(name):
    a = ARRAYS[name]
    layout = LoopArgs(("x",), (False,), (a,))
    if a.flags.c_contiguous:
        layout.pack("loop", (a,))
    else:
        with pytest.raises(TypeError, match=r"kernel loop: x of shape .* is not contiguous"):
            layout.pack("loop", (a,))


@pytest.mark.parametrize("name", [name for name in ARRAYS if ARRAYS[name].dtype.kind == "f"])
def test_formula_reads_strided_arrays_in_place(name):
    a = ARRAYS[name]
    for y in (np.empty(a.shape, a.dtype), np.empty((2, *a.shape), a.dtype), np.empty(a.shape[::-1], a.dtype).T):
        KERNELS["mul"](a, np.array(2, a.dtype), y)
        np.testing.assert_array_equal(y, np.broadcast_to(a * 2, y.shape))


def test_adjacent_dimensions_are_merged():
    def dims(*arrays):
        return ElementwiseArgs(list(arrays)).pack("formula", list(arrays))[0] + 1

    x, y = np.ones((4, 5, 6)), np.empty((4, 5, 6))
    assert dims(x, y) == 1
    assert dims(x.transpose(2, 0, 1), np.empty((6, 4, 5))) == 2
    assert dims(np.ones(6), y) == 2  # every row the same: both others are one
    assert dims(np.ones((5, 1)), y) == 3
    assert dims(np.ones(()), y) == 1


@pytest.mark.parametrize("shape", [(4,), (3, 1, 4), (2, 2), (5, 3, 4)])
@pytest.mark.parametrize("size", [(3, 4), (3000, 4)])
def test_incompatible_shapes_are_refused(shape, size):
    y, x = np.empty(size), np.empty((*shape[:-1], shape[-1] + 1))
    with pytest.raises(ValueError, match=r"kernel add: an array of shape .* does not broadcast"):
        KERNELS["add"](np.empty(size), x, y)
    with pytest.raises(ValueError, match=r"kernel add: an array of shape .* does not broadcast"):
        KERNELS["add"].prepare((x, np.empty(size), y))


def test_small_and_large_work_have_the_same_bits():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 100, 300)).astype(np.float32)
    whole, rows = np.empty_like(a), np.empty_like(a)
    KERNELS["true_divide"](a, b, whole)
    for i in range(len(a)):
        KERNELS["true_divide"](a[i], b[i], rows[i])
    assert whole.tobytes() == rows.tobytes()


@kernel()
def _seventh(x, y):
    y[0] = x[6]


def test_a_wrong_number_of_arguments_is_refused():
    with pytest.raises(TypeError, match="expected 2 arguments"):
        _seventh(np.ones(7))

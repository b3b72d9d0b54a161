"""Memory that was not written shows: in eager mode, in a recording, in each replay, and in what is done again."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.core import dispatch as door
from tinytensor.core import poison
from tinytensor.core.tensor import Tensor
from tinytensor.native.fast import launch_cache
from tinytensor.native.runtime import native_backend
from tinytensor.native.runtime.kernel import kernel


@kernel("x[N], y[N]")
def forgets_the_last(x, y):
    for i in range(x.size - 1):
        y[i] = x[i]


@kernel("x[N], y[N]")
def adds_to_what_is_there(x, y):
    for i in range(x.size):
        y[i] += x[i]


@kernel("x[N], y[N]")
def doubles(x, y):
    for i in range(x.size):
        y[i] = x[i] + x[i]


def made_by(*kernels):
    """Each kernel's result goes to the next one."""

    def run(x: np.ndarray) -> np.ndarray:
        for each in kernels:
            y = door.empty(x.shape, x.dtype)
            door.launch(each, x, y)
            x = y
        return x

    return run


def eager(run):
    return run


def in_a_replay(run):
    step = tt.compile(lambda x: Tensor.of(run(x._data)), fullgraph=True)
    return lambda x: step(tt.tensor(x)).numpy()


def done_again(run):
    return launch_cache.LaunchCache(run)


@pytest.fixture(params=[eager, in_a_replay, done_again])
def way(request, monkeypatch):
    monkeypatch.setattr(launch_cache, "is_ours", lambda function: True)  # these are the engine's own otherwise
    return request.param


X = np.arange(5.0)


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ([doubles], 2 * X),
        ([forgets_the_last], [0, 1, 2, 3, np.nan]),
        ([forgets_the_last, doubles], [0, 2, 4, 6, np.nan]),  # memory between two launches
        ([adds_to_what_is_there], [np.nan] * 5),
        ([doubles, adds_to_what_is_there], [np.nan] * 5),
    ],
)
def test_unwritten_memory_is_nan(way, kernels, expected):
    run = way(made_by(*kernels))
    for _ in range(4):  # the first is recorded or noted, the others are replays
        np.testing.assert_array_equal(run(X), expected)


def test_reused_buffer_is_nan_again():
    """This shows in the run that is recorded; the native program of a replay lends nothing, and can't spoil it."""
    run = made_by(doubles, doubles, adds_to_what_is_there)  # the third result lies where the first one lay
    assert np.isnan(in_a_replay(run)(X)).all()


def test_unwritten_integers_are_minus_1():
    assert (tt.empty(3, dtype=tt.int64) == -1).all()
    assert (tt.empty(2, 3, dtype=tt.int32) == -1).all()
    assert tt.empty(3).isnan().all()
    assert tt.empty(()).isnan()
    assert tt.empty(0).shape == (0,)


def test_nan_fill_is_off_by_default():
    assert poison.allocator_for("") is np.empty
    assert poison.allocator_for("nan") is poison.poisoned is native_backend.fresh
    with pytest.raises(ValueError, match="TINYTENSOR_POISON=zero: expected nan"):
        poison.allocator_for("zero")

"""Drawing in kernels: the numbers look drawn by lot, and depend on key, draw and place alone."""

import numpy as np
import pytest
from numba import config

import tinytensor as tt
from tinytensor.native.kernels.random import drawn, drop, mixed, next_draw, uniform

N = 1 << 20


def numbers(key=1, draw=0, n=N):
    """drawn(key, draw, 0 ... n - 1), in NumPy's unsigned arithmetic."""

    def mix(x):
        x = x ^ (x >> np.uint64(16))
        x = x * np.uint64(0x7FEB352D) & np.uint64(0xFFFFFFFF)
        x = x ^ (x >> np.uint64(15))
        x = x * np.uint64(0x846CA68B) & np.uint64(0xFFFFFFFF)
        return x ^ (x >> np.uint64(16))

    low, spread = np.uint64(0xFFFFFFFF), 0x9E3779B9
    index = np.arange(n, dtype=np.uint64)
    upper = mix(np.uint64(draw * spread % 2**32))
    return mix((mix((index * np.uint64(spread) + upper) & low) + mix((np.uint64(key) ^ upper) & low)) & low)


def kept(threshold, key=1, draw=0, n=N):
    y = np.empty(n, np.float32)
    drop(np.ones(n, np.float32), np.array([key, draw, 0]), threshold, np.float32(1), y)
    return y != 0


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_kernel_source_and_numpy_agree(share):
    threshold = round(share * 2**32)
    for key, draw in ((1, 0), (2**32 - 1, 5), (12345, 2**31)):
        expected = numbers(key, draw) < threshold
        np.testing.assert_array_equal(kept(threshold, key, draw), expected)
        assert [drawn(key, draw, i) < threshold for i in range(50)] == expected[:50].tolist()


def test_mixed_is_one_to_one():
    assert len({mixed(n) for n in range(20_000)}) == 20_000


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_dropout_keeps_the_expected_share(share):
    threshold = round(share * 2**32)
    for draw in range(5):
        assert abs(kept(threshold, draw=draw).mean() - share) < 5 * np.sqrt(share * (1 - share) / N)


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).mean() / np.sqrt((a * a).mean() * (b * b).mean())


def test_places_draws_and_keys_are_independent():
    u = numbers() / 2**32
    bound = 5 / np.sqrt(N)
    for lag in (1, 2, 3, 8, 32, 96, 1024):
        assert abs(correlation(u[lag:], u[:-lag])) < bound, lag
    for other in (numbers(draw=1), numbers(key=2), numbers(key=2, draw=1), numbers(key=0, draw=7)):
        assert abs(correlation(u, other / 2**32)) < bound
    counts = np.histogram(u, 256, (0, 1))[0]
    assert abs(((counts - N / 256) ** 2 / (N / 256)).sum() - 255) < 5 * np.sqrt(2 * 255)
    for bit in range(32):
        assert abs((numbers() >> np.uint64(bit) & np.uint64(1)).mean() - 0.5) < 0.5 * bound
    # the negative control: a sequence that is evenly spread, but not drawn by lot
    even = np.arange(N) * 0.6180339887498949 % 1
    assert abs(correlation(even[1:], even[:-1])) > bound


@pytest.mark.parametrize("key", [0, 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("index", [0, 1, 2**31 - 1])
def test_draws_at_one_index_are_independent(key, index):
    """Seed 0 has key 0, and a token is drawn at index 0."""
    n = 4000
    u = np.array([drawn(key, draw, index) for draw in range(n)]) / 2**32
    counts = np.histogram(u, 16, (0, 1))[0]
    assert ((counts - n / 16) ** 2 / (n / 16)).sum() < 15 + 5 * np.sqrt(2 * 15)
    assert abs(correlation(u[1:], u[:-1])) < 5 / np.sqrt(n)


def test_key_0_has_no_first_number_0():
    """At key 0, draw 0 and place 0 all terms are 0: multinomial() then took the first class, however rare."""
    assert drawn(0, 0, 0) not in (0, drawn(0, 0, 1), drawn(0, 1, 0), drawn(1, 0, 0))
    tt.manual_seed(0)
    assert tt.tensor([1e-20, *[1.0] * 9]).multinomial(1).item() > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_numbers_are_below_one(dtype):
    n = 200 if config.DISABLE_JIT else N
    bits = 24 if dtype is np.float32 else 32
    y = np.empty(n, dtype)
    uniform(np.array([1, 0, 0]), 32 - bits, dtype(2.0**-bits), y)
    assert y.tolist() == ((numbers(n=n) >> np.uint64(32 - bits)) / 2**bits).tolist()  # exactly: nothing was rounded
    assert y.min() >= 0
    assert y.max() < 1


def test_next_draw_advances_the_stream():
    stream, at = np.array([7, 3, 1]), np.zeros(3, np.int64)
    next_draw(stream, at)
    assert (at.tolist(), stream.tolist()) == ([7, 3, 1], [7, 4, 1])
    next_draw(stream, at)
    assert (at.tolist(), stream.tolist()) == ([7, 4, 1], [7, 5, 1])


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_parts_draw_the_numbers_of_the_whole(parts):
    n = 600
    whole, dropped = np.empty(n, np.float32), np.empty(n, np.float32)
    for part in range(parts):
        own, at = slice(part * n // parts, (part + 1) * n // parts), np.array([5, 8, part])
        uniform(at, 8, np.float32(2.0**-24), whole[own])
        drop(np.ones(n // parts, np.float32), at, 1 << 31, np.float32(2), dropped[own])
    expected = numbers(5, 8, n)
    assert whole.tolist() == ((expected >> np.uint64(8)) / 2**24).tolist()
    assert dropped.tolist() == (2 * (expected < 1 << 31)).tolist()

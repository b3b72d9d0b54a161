"""Sizes that depend on one another: convolutions, windows and pools, with steps and margins, for any size."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F
from tinytensor.symbolic import derive

NCL = ("N", "C", "L")


def windows(x, w):
    K = w.shape[0]
    return sum(w[k] * x[k : x.shape[0] - K + 1 + k] for k in range(K))


def convolution_of_a_plane(x, w):
    (H, W), (K, M) = x.shape, w.shape
    rows = tt.stack([x[i : H - K + 1 + i] for i in range(K)])
    return sum((w[:, j, None, None] * rows[:, :, j : W - M + 1 + j]).sum(0) for j in range(M))


def moving_mean(x):
    return (x[:-2] + x[1:-1] + x[2:]) / 3


def largest_of_pairs(x):
    return x.reshape(x.shape[0] // 2, 2).amax(1)


def squares_of_windows(x):
    H, W = x.shape
    return (x.reshape(H // 2, 2, W // 2, 2).mean((1, 3)) ** 2).sum()


def _conv(**options):
    function = lambda x, w: F.conv1d(x, w, **options)  # noqa: E731
    function.__name__ = "conv1d " + " ".join(f"{k} {v}" for k, v in options.items())
    return function


def right_kernel(x, w, g):
    K = w.shape[0]
    return tt.stack([(x[k : x.shape[0] - K + 1 + k] * g).sum() for k in range(K)])


def flipped_kernel(x, w, g):
    K = w.shape[0]
    return tt.stack([(x[K - 1 - k : x.shape[0] - k] * g).sum() for k in range(K)])


def kernel_of_first_window(x, w, g):
    return x[: w.shape[0]] * g.sum()


CONV, PLANE, WIDE = {"x": NCL, "w": ("O", "C", "K")}, {"x": ("H", "W"), "w": ("K", "M")}, ("N", "C", "2*M + 1")
ROWS = [  # function, arguments, and where
    (_conv(), CONV),
    (_conv(), CONV, "L >= K"),
    (_conv(padding=1), CONV, "L >= K"),
    (_conv(padding=1), {"x": NCL, "w": ("O", "C", 3)}),
    (_conv(dilation=2), {"x": NCL, "w": ("O", "C", 3)}, "L > 4"),
    (_conv(stride=2), {"x": WIDE, "w": ("O", "C", 3)}),
    (_conv(stride=2, padding=1), {"x": ("N", "C", "2*M+2"), "w": ("O", "C", 3)}),
    (_conv(stride=2), {"x": NCL, "w": ("O", "C", 3)}),  # refused, with the size that is meant
    (convolution_of_a_plane, PLANE, ("H >= K", "W >= M")),
    (moving_mean, {"x": ("N",)}),
    (largest_of_pairs, {"x": ("N",)}, "N % 2 == 0"),
    (squares_of_windows, {"x": ("H*2", "W*2")}),
]  # fmt: skip
BY_HAND = [  # function, arguments, where, the argument, wrong gradients of it, and right ones
    (windows, {"x": ("N",), "w": ("K",)}, "N >= K", "w", [flipped_kernel, kernel_of_first_window], [right_kernel]),
    (moving_mean, {"x": ("N",)}, "N > 1", "x", ["g[1:-1] / 3", "g / 3", "cat([g[:1], g[:1], g]) / 3"], []),
]


@pytest.mark.slow
def test_size_of_a_sum_is_read_from_the_shape():
    derivation = derive(_conv(stride=2), x=WIDE, w=("O", "C", 3))
    assert "M = (x.shape[2] - 1) // 2" in derivation.source()
    with pytest.raises(ValueError, match=r"x has the shape \(2, 3, 8\); expected \(N, C, 2\*M \+ 1\), which"):
        derivation.evaluate(x=np.ones((2, 3, 8)), w=np.ones((2, 3, 3)))

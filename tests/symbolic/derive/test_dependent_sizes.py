"""Sizes that depend on one another: convolutions, windows and pools, with steps and margins, for any size."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F
from tinytensor.symbolic import check, derive
from tinytensor.symbolic.reading.errors import NotDerivable

NCL = ("N", "C", "L")


def conv(x, w, **options):
    return F.conv1d(x, w, **options)


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


ANY = "proved for any size"
ROWS = [  # function, arguments, where, the verdict, lines
    (
        _conv(),
        {"x": NCL, "w": ("O", "C", "K")},
        (),
        "proved for L ≥ K",
        ["Y_noi = Σ_cj x[n, c, i + j - 1] w_ocj", "∂𝓛/∂w_oci = Σ_an x[n, c, i + a - 1] ∂𝓛/∂Y_noa"],
    ),
    (_conv(), {"x": NCL, "w": ("O", "C", "K")}, "L >= K", "proved for L ≥ K", []),
    (_conv(padding=1), {"x": NCL, "w": ("O", "C", "K")}, "L >= K", "proved for L ≥ K", []),
    (_conv(padding=1), {"x": NCL, "w": ("O", "C", 3)}, (), ANY, []),
    (_conv(dilation=2), {"x": NCL, "w": ("O", "C", 3)}, "L > 4", "proved for L > 4", []),
    (_conv(stride=2), {"x": ("N", "C", "2*M + 1"), "w": ("O", "C", 3)}, (), ANY, []),
    (_conv(stride=2, padding=1), {"x": ("N", "C", "2*M+2"), "w": ("O", "C", 3)}, (), ANY, []),
    (
        windows,
        {"x": ("N",), "w": ("K",)},
        "N >= K",
        "proved for N ≥ K",
        ["Y_i = Σ_j x[i + j - 1] w_j", "∂𝓛/∂w_i = Σ_a x[i + a - 1] ∂𝓛/∂Y_a"],
    ),
    (
        convolution_of_a_plane,
        {"x": ("H", "W"), "w": ("K", "M")},
        ("H >= K", "W >= M"),
        "proved for H ≥ K and W ≥ M",
        ["∂𝓛/∂w_ij = Σ_ab rows[i, b, j + a - 1] ∂𝓛/∂Y_ba"],
    ),
    (moving_mean, {"x": ("N",)}, "N > 1", "proved for N > 1", []),
    (largest_of_pairs, {"x": ("N",)}, "N % 2 == 0", "proved for even N", []),
    (squares_of_windows, {"x": ("H*2", "W*2")}, (), ANY, []),
]


@pytest.mark.parametrize(
    ("function", "arguments", "where", "verdict", "lines"), ROWS, ids=lambda x: getattr(x, "__name__", "")
)
def test_gradients_are_proved(function, arguments, where, verdict, lines):
    derivation = derive(function, where, **arguments)
    assert derivation, derivation.verdict
    assert derivation.verdict.startswith(verdict)
    shown = [line.strip() for line in str(derivation).splitlines()]
    for wanted in lines:
        assert any(line.startswith(wanted) for line in shown), (wanted, str(derivation))


def right_kernel(x, w, g):
    K = w.shape[0]
    return tt.stack([(x[k : x.shape[0] - K + 1 + k] * g).sum() for k in range(K)])


def flipped_kernel(x, w, g):
    K = w.shape[0]
    return tt.stack([(x[K - 1 - k : x.shape[0] - k] * g).sum() for k in range(K)])


def kernel_of_first_window(x, w, g):
    return x[: w.shape[0]] * g.sum()


def test_kernel_by_hand_is_proved():
    checked = check(windows, {"w": right_kernel}, "N >= K", x=("N",), w=("K",))
    assert checked, str(checked)


@pytest.mark.parametrize("hand", [flipped_kernel, kernel_of_first_window])
def test_wrong_kernel_by_hand_is_refuted(hand):
    assert check(windows, {"w": hand}, "N >= K", x=("N",), w=("K",))["w"].verdict == "refuted"


@pytest.mark.parametrize(
    ("wrong", "shape"), [("g[1:-1] / 3", ""), ("g / 3", ""), ("cat([g[:1], g[:1], g]) / 3", "")], ids=str
)
def test_wrong_mean_by_hand_is_refuted(wrong, shape):
    assert check(moving_mean, {"x": wrong}, "N > 1", x=("N",))["x"].verdict == "refuted"


def test_size_below_zero_is_a_condition():
    derivation = derive(moving_mean, x=("N",))
    assert derivation.verdict == 'proved only for N > 1; if that is what you mean, say where="N > 1"'
    assert not derivation
    assert not check(derivation, {"x": "0 * x"})


def test_function_that_takes_no_sizes_has_its_own_error():
    def demanding(x, y):
        raise RuntimeError("never")

    with pytest.raises(RuntimeError, match="never"):
        derive(demanding, x=("N",), y=("K",))


@pytest.mark.parametrize("size", ["2*M + ", "M + 1.5", "M - 1", "2*M + f(3)"])
def test_size_that_is_no_sum_is_named(size):
    with pytest.raises(ValueError, match="the size"):
        derive(lambda x: x.sum(), x=(size,))


def test_steps_of_an_even_size_are_refused_with_a_way_around():
    with pytest.raises(NotDerivable, match=r'write the size as "2\*M \+ 1"'):
        derive(_conv(stride=2), x=NCL, w=("O", "C", 3))


def test_size_of_a_sum_is_read_from_the_shape():
    derivation = derive(_conv(stride=2), x=("N", "C", "2*M + 1"), w=("O", "C", 3))
    assert "M = (x.shape[2] - 1) // 2" in derivation.source()
    with pytest.raises(ValueError, match=r"dimension 2 of x has size 8; expected 2\*M \+ 1"):
        derivation.evaluate(x=np.ones((2, 3, 8)), w=np.ones((2, 3, 3)))

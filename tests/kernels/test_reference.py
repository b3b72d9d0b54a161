"""Each native kernel computes what the reference kernel of its name computes (core/reference.py).

Both get the same arrays, with unwritten outputs, at sizes beyond a register and a block. They may differ by what
rounding in another order gives.
"""

from unittest.mock import patch

import numpy as np
import pytest
from numba import config

import tinytensor as tt
from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import launch
from tinytensor.core.kernel import KERNELS, Definition, Elementwise
from tinytensor.core.reference import REFERENCE

ROUNDING = 200  # units in the last place of 1, for sums of a thousand terms of either sign
NO_MASK, INDEX = np.empty((0, 0, 0, 0), bool), np.array([3, 0, 3, 7, -1, 9, 2])
# kernels that have no reference kernel: a launch of one that has makes launches of these
PARTS = {"partial_sum", "partial_squares", "sumsq", "matvec", "attention_of_one"}
STEPS = {"sgd", "adam"}  # fused steps, which tests/optim compares with the rules of their optimizers


class Calls:
    """The arguments of launches; outputs hold a number that is no result."""

    def __init__(self, dtype: type):
        self.dtype, self.rng = dtype, np.random.default_rng(0)

    def x(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape).astype(self.dtype)

    def y(self, *shape: int, dtype=None) -> np.ndarray:
        return np.full(shape, 7, dtype or self.dtype)

    def of(self, name: str) -> list[tuple]:
        return getattr(self, name, lambda: self.reduction())()

    def reduction(self) -> list[tuple]:
        return [(self.x(*s), self.y(s[0], s[2])) for s in ((3, 700, 1), (2, 700, 5), (1, 100_000, 1), (4, 0, 2))]

    def extreme(self) -> list[tuple]:
        return [(self.x(*s), self.y(s[0], s[2]), self.y(s[0], s[2], dtype=int)) for s in ((3, 70, 1), (2, 70, 5))]

    reduce_max = reduce_min = extreme

    def reduce_prod(self) -> list[tuple]:
        return [(self.x(3, 17, 2), self.y(3, 2))]

    def truths(self) -> list[tuple]:
        return [(self.x(3, 4, 5) > 1, self.y(3, 5, dtype=bool))]

    reduce_any = reduce_all = truths

    def cumsum(self) -> list[tuple]:
        return [(self.x(*s), reverse, self.y(*s)) for s in ((2, 100, 1), (2, 90, 5)) for reverse in (0, 1)]

    def sum_of_squares(self) -> list[tuple]:
        return [(self.y(1), self.x(3), self.x(50_000))]

    def take(self) -> list[tuple]:
        return [(self.x(8, 5), INDEX, self.y(7, 5), np.zeros(2, int))]

    def scatter_add(self) -> list[tuple]:
        return [(self.x(7, 5), INDEX, self.y(8, 5))]

    def write_rows(self) -> list[tuple]:
        return [(self.x(2, 7, 5), INDEX, self.x(2, 8, 5), np.zeros(2, int))]

    def gather(self) -> list[tuple]:
        index = self.rng.integers(-1, 5, (2, 7, 3))
        return [(self.x(2, 4, 3), index, self.y(2, 7, 3), np.zeros(2, int))]

    def gather_backward(self) -> list[tuple]:
        return [(self.x(2, 7, 3), self.rng.integers(-1, 5, (2, 7, 3)), self.y(2, 4, 3))]

    def argsort(self) -> list[tuple]:
        x = np.round(self.x(3, 50))  # with equal elements
        x[0, :3] = np.nan
        return [(x, descending, self.y(3, 50, dtype=int)) for descending in (0, 1)]

    def check_weights(self) -> list[tuple]:
        return [(p, needed, np.zeros(2, int)) for p in (abs(self.x(3, 5)), self.x(3, 5)) for needed in (1, 6)]

    def sample_rows(self) -> list[tuple]:
        p, u = np.maximum(self.x(50, 9), 0), self.rng.random(50).astype(self.dtype)
        p[0] = 0
        return [(p, u, self.y(50, dtype=int))]

    def rows(self) -> list[tuple]:
        return [(self.x(3, n), self.y(3, n)) for n in (1, 7, 83)]

    softmax = log_softmax = rows

    def slopes(self) -> list[tuple]:
        return [(self.x(3, n), self.x(3, n), self.y(3, n)) for n in (1, 7, 83)]

    softmax_backward = log_softmax_backward = slopes

    def cross_entropy(self) -> list[tuple]:
        target, s = np.array([3, -100, 82, 83]), self.dtype(0.1)
        outputs = self.y(4), self.y(4), np.zeros(2, int)
        return [(self.x(4, 83), target, -100, smoothing, *outputs) for smoothing in (s, 0 * s)]

    def cross_entropy_backward(self) -> list[tuple]:
        target = np.array([3, -100, 82])
        return [(self.x(3), self.x(3, 83), target, self.x(3) + 5, -100, self.dtype(0.1), self.y(3, 83))]

    def mean_of_counted(self) -> list[tuple]:
        return [(self.x(7), INDEX, ignored, self.y(1), self.y(1)) for ignored in (3, -100)]

    def layer_norm(self) -> list[tuple]:
        outputs = self.y(9, 37), self.y(9), self.y(9)
        wb = [(self.x(37), self.x(37)), (self.x(0), self.x(0))]
        return [(self.x(9, 37), *sums, self.dtype(1e-5), *outputs) for sums in wb]

    def layer_norm_backward(self) -> list[tuple]:
        saved = self.x(400), abs(self.x(400)), self.y(400, 37)
        sums = self.y(2, 37), self.y(1, 37), self.y(1, 0)
        return [(self.x(400, 37), self.x(400, 37), self.x(37), *saved, each) for each in sums]

    def rms_norm(self) -> list[tuple]:
        return [(self.x(9, 37), w, self.dtype(1e-5), self.y(9, 37), self.y(9)) for w in (self.x(37), self.x(0))]

    def rms_norm_backward(self) -> list[tuple]:
        saved = abs(self.x(400)), self.y(400, 37)
        return [(self.x(400, 37), self.x(400, 37), self.x(37), *saved, s) for s in (self.y(1, 37), self.y(1, 0))]

    def matmul(self) -> list[tuple]:
        none, y = self.x(2, 0, 0), self.y(2, 19, 35)
        calls = [
            (self.x(2, 19, 70), self.x(2, 70, 35), term, relu, y)
            for term in (none, self.x(2, 19, 35))
            for relu in (0, 1)
        ]
        return [*calls, (self.x(2, 70, 35), self.x(2, 35, 1), none, 0, self.y(2, 70, 1))]

    def heads(self, C: int) -> tuple:
        return self.x(2, 3, C, 8), self.x(2, 3, 41, 8), self.x(2, 3, 41, 5)

    def attention(self) -> list[tuple]:
        calls = []
        for C, mask in ((21, NO_MASK), (21, self.x(2, 3, 21, 41) > 1.5), (1, NO_MASK)):
            settings = mask, self.dtype(0.3), int(not mask.size)
            calls.append((*self.heads(C), *settings, self.y(2, 3, C, 5), self.y(2, 3, C)))
        return calls

    def attention_backward(self) -> list[tuple]:
        q, k, v = self.heads(21)
        settings = NO_MASK, self.x(2, 3, 21, 5), abs(self.x(2, 3, 21)) + 5, self.dtype(0.3), 1
        return [(self.x(2, 3, 21, 5), q, k, v, *settings, *(self.y(*x.shape) for x in (q, k, v)))]

    def next_draw(self) -> list[tuple]:
        return [(np.array([7, 3, 2]), self.y(3, dtype=int))]

    def uniform(self) -> list[tuple]:
        return [
            (np.array([key, draw, 2]), 8, self.dtype(2.0**-24), self.y(50)) for key, draw in ((2**31 + 5, 7), (0, 0))
        ]

    def drop(self) -> list[tuple]:
        return [(self.x(50), np.array([5, 7, 2]), 2**31, self.dtype(2), self.y(50))]


def copies(args: tuple) -> tuple:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def differences(name: str, reference, dtype: type) -> list[str]:
    """The arguments that differ after a launch of the native kernel and one of the reference kernel."""
    wrong = []
    for args in Calls(dtype).of(name):
        native, expected = copies(args), copies(args)
        launch(getattr(kernels, name), *native)
        with np.errstate(all="ignore"):
            outputs = reference(*expected)
        names = REFERENCE[name].names
        for output, value in outputs.items():
            got = native[names.index(output)]
            close = np.allclose(
                got, value, ROUNDING * np.finfo(dtype).eps, ROUNDING * np.finfo(dtype).eps, equal_nan=True
            )
            if not close and not (output == "bad" and got[0] == value[0] == 1):  # it reports one of the wrong numbers
                wrong.append(f"{name}: {output}")
    return wrong


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", REFERENCE)
def test_native_kernel_is_the_reference_kernel(name, dtype):
    assert differences(name, REFERENCE[name].function, dtype) == []


def test_wrong_reference_kernel_is_noticed():
    def wrong(*args):
        return {output: np.asarray(value) * 1.0001 for output, value in REFERENCE["matmul"].function(*args).items()}

    assert differences("matmul", wrong, np.float64) == ["matmul: y"] * 5


@pytest.mark.skipif(config.DISABLE_JIT, reason="Python's source is not profiled")
def test_every_native_loop_is_among_these():
    with tt.profile() as profile:
        for name in REFERENCE:
            for args in Calls(np.float64).of(name):
                launch(getattr(kernels, name), *args)
    loops = {name for name, kernel in KERNELS.items() if not isinstance(kernel, Elementwise)}
    assert loops - PARTS - STEPS <= set(REFERENCE)
    assert set(profile.rows) - {"copy"} == loops - STEPS


def test_sizes_are_checked_alike():
    with patch.dict(KERNELS, clear=True):
        reference = Definition(*REFERENCE["softmax"])
    errors = []
    for kernel in (reference, kernels.softmax):
        with pytest.raises(
            ValueError, match=r"softmax\(x, y\): expected x\[R, N\], y\[R, N\]; got x \(2, 3\), y \(2, 4\)"
        ) as error:
            kernel(np.zeros((2, 3)), np.zeros((2, 4)))
        errors.append(str(error.value))
    assert errors[0] == errors[1]

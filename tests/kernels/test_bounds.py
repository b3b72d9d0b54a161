"""No kernel touches memory that is not its own: wrong sizes are refused, wrong numbers passed over.

Each kernel is called as in the table of proofs, and then with one thing wrong at a time: an array too small, too large,
empty or with another number of dimensions; a number in an array of whole numbers, or a setting, that is far out of
range or negative. It must refuse (`ValueError`, before anything is written) or compute. Two witnesses look on: the
Python source runs on arrays that refuse every index out of range (and negative ones: compiled code would wrap or
overrun), and the compiled build on arrays that end, and then begin, at a page that no process may touch.
"""

import ctypes
import math
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
from numba import config

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS)]  # this file is run as a program, too

from tests.kernels.test_compiled import calls, interpreted  # noqa: E402
from tests.tools.sampling_rate import some  # noqa: E402
from tinytensor.native.kernels import KERNELS  # noqa: E402
from tinytensor.native.kernels.matmul import A_ROWS, GROUP, KC, MR, packed_a_shape, panel_shape  # noqa: E402
from tinytensor.native.runtime.kernel import Loop, kernel  # noqa: E402
from tinytensor.native.simd.vector import load, store  # noqa: E402

LOOPS = [name for name, k in KERNELS.items() if isinstance(k, Loop)]
FAR = (10**10, -(10**10), -1, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
PAGE = mmap.PAGESIZE


# ------------------------------------------------------------------------------------------------ what is wrong


def resized(a: np.ndarray, d: int, n: int) -> np.ndarray:
    """The array with n places along dimension d: its first ones, and then the last one again."""
    at = np.minimum(np.arange(n), a.shape[d] - 1) if a.shape[d] else np.zeros(0, int)
    return np.take(a, at, d) if a.shape[d] or n == 0 else np.zeros((*a.shape[:d], n, *a.shape[d + 1 :]), a.dtype)


def wrong_arrays(a: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for d, n in enumerate(a.shape):
        for other in {0, 1, n - 1, n + 1, 3 * n} - {n, -1}:
            yield f"{other} in dimension {d}", resized(a, d, other)
    yield "one dimension more", a[..., None].copy()
    if a.ndim > 0:
        yield "one dimension less", a.reshape(*a.shape[:-2], math.prod(a.shape[-2:]))
    if a.dtype.kind == "i":
        for value in FAR:
            for i_flat in {0, a.size // 2, a.size - 1} if a.size else ():
                changed = a.copy()
                changed.flat[i_flat] = value
                yield f"{value} at {i_flat}", changed
    elif a.ndim > 1 and a.shape[-1] > 1:
        yield "stretched rows", np.broadcast_to(a[..., :1], a.shape)
        yield "rows with gaps", np.repeat(a, 3, -1)[..., ::3]


def wrong_calls(name: str, dtype: type) -> Iterator[tuple[str, list, dict]]:
    """(what is wrong, the arguments, constants); the first of each sample has nothing wrong."""
    for n, (make, constants) in enumerate(calls(name, dtype)):
        yield f"{name}-{n}", make(), constants
        for i, parameter in enumerate(KERNELS[name].names):
            argument = make()[i]
            if isinstance(argument, np.ndarray):
                others = wrong_arrays(argument)
            else:
                others = [(str(v), v) for v in (*FAR, 0, 7)] if isinstance(argument, int) else []
            for label, other in others:
                args = make()
                args[i] = other
                yield f"{name}-{n}: {parameter}: {label}", args, constants


# ----------------------------------------------------------------------------------------- the source, by places


class Strict(np.ndarray):
    """An array that refuses an index out of range, and one that counts from the end."""

    def _checked(self, key):
        for k, n in zip(key if isinstance(key, tuple) else (key,), self.shape, strict=False):
            if not isinstance(k, slice) and not 0 <= k < n:
                raise IndexError(f"index {key} is outside {self.shape}")
        return key

    def __getitem__(self, key):
        return super().__getitem__(self._checked(key))

    def __setitem__(self, key, value):
        super().__setitem__(self._checked(key), value)


def refused(k: Loop, args: list) -> bool:
    """Are these arguments refused? (It is the first thing that a launch does.)"""
    try:
        k.check(tuple(args))
    except ValueError:
        return True
    return False


def runs_in_bounds(k: Loop, args: list, constants: dict) -> bool:
    """Run the source on strict arrays, unless the arguments are refused; did it run?"""
    if refused(k, args):
        return False
    interpreted(k, [a.copy().view(Strict) if isinstance(a, np.ndarray) else a for a in args], constants)
    return True


@pytest.mark.parametrize("name", LOOPS)
def test_the_source_stays_inside_its_arrays(name):
    cases = some(wrong_calls(name, np.float64), one_in=7)
    ran = [runs_in_bounds(KERNELS[name], args, constants) for _, args, constants in cases]
    assert any(ran) and not all(ran)


@pytest.mark.parametrize("name", LOOPS)
def test_every_array_declares_its_sizes(name):
    for make, _ in calls(name, np.float64):
        arrays = {n for n, a in zip(KERNELS[name].names, make(), strict=True) if isinstance(a, np.ndarray)}
        assert arrays == {n for n in KERNELS[name].names if f"{n}[" in KERNELS[name].shapes}


@pytest.mark.parametrize("name", ["adam", "take", "gather_backward", "softmax_backward", "cross_entropy", "rms_norm"])
def test_source_without_checks_leaves_its_arrays(name, monkeypatch):
    monkeypatch.setattr(KERNELS[name], "check", lambda args: None)

    def leaves(args: list, constants: dict) -> bool:
        try:
            runs_in_bounds(KERNELS[name], args, constants)
        except IndexError:
            return True
        except (ValueError, TypeError, AttributeError, ZeroDivisionError):  # another number of dimensions, say
            pass
        return False

    assert any(leaves(args, constants) for _, args, constants in wrong_calls(name, np.float64))


def test_each_condition_of_a_statement_must_hold():
    """Conditions with `or`, too: one that holds excuses no other."""

    @kernel("x[N], y[N], N > 2, N == 1 or N > 3, N < 9")
    def copied(x, y):
        for i in range(x.size):
            y[i] = x[i]

    accepted = [n for n in range(12) if not refused(copied, [np.zeros(n), np.zeros(n)])]
    assert accepted == [4, 5, 6, 7, 8]
    assert refused(copied, [np.zeros(4), np.zeros(5)])


def test_size_error_says_what_was_expected():
    x, index, bad = np.zeros((3, 2)), np.zeros(4, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match=r"expected x\[V, D\], .*; got x \(3, 2\), index \(4,\), y \(5, 2\)"):
        KERNELS["take"](x, index, np.zeros((5, 2)), bad)
    with pytest.raises(ValueError, match=r"x 1\.5"):
        KERNELS["take"](1.5, index, np.zeros((4, 2)), bad)
    with pytest.raises(TypeError, match=r"take\(x, index, y, bad\): expected 4 arguments, got 2"):
        KERNELS["take"](x, index)
    with pytest.raises(ValueError, match=r"sizes are given for .*, which is not a parameter"):
        kernel("z[N]")(lambda x: None)


# ------------------------------------------------------------------------------- the compiled build, by guard pages


# To look it up anew for each page would take half of the test's time.
_protect = None if sys.platform == "win32" else ctypes.CDLL(None).mprotect


def guarded(a: np.ndarray, at_end: bool) -> np.ndarray:
    """The array, with the same strides, in memory that ends (or begins) at a page that must not be touched."""
    low, high = np.lib.array_utils.byte_bounds(a)
    size = high - low if a.size else 0
    pages = -(-size // PAGE) + 2  # the first and the last are guards
    memory = mmap.mmap(-1, pages * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (start, start + (pages - 1) * PAGE):
        if _protect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), 0):
            raise OSError("a page could not be guarded")
    offset = (pages - 1) * PAGE - size if at_end else PAGE
    copy = np.ndarray(a.shape, a.dtype, memory, offset, a.strides)
    once = tuple(slice(None) if step else slice(0, 1) for step in a.strides)  # what is broadcast has one place for many
    copy[once] = a[once]
    return copy


def large_products(dtype: type) -> Iterator[tuple[str, list, dict]]:
    """Products with copies of a, groups of panels and unfinished sums, each at its least size; and with less of it.

    The samples of the proofs have blocks that are too small for them. A block of far more rows or columns than y has
    needs as much memory as one with all of y; with less memory than that, the kernel must do without.
    """
    rng = np.random.default_rng(0)
    wide = panel_shape(KC, np.dtype(dtype).itemsize)[1]
    # rows, products of a sum, columns, and the rows and columns of a block
    sizes = [(2 * A_ROWS + 1, KC + 3, 3 * wide + 5, A_ROWS + MR, 2 * wide)]
    far = (MR, FAR[3]), (FAR[3], 40), (FAR[0], FAR[0])
    sizes += [(MR + 3, KC + 1, (GROUP + 1) * wide + 1, *block) for block in far]
    sizes += [(A_ROWS - 1, 7, wide + 3, A_ROWS, wide + 3), (1, KC + 9, 5 * wide + 1, 1, 5 * wide)]
    for at, (M, K, N, rows, columns) in enumerate(sizes):
        high, panels = min(rows, M), -(-min(columns, N) // wide)
        deep = panel_shape(K, np.dtype(dtype).itemsize)[0]
        needed = min(GROUP, panels) * deep + (panels * high if K > KC else 0)
        whole = rng.standard_normal((1, M, K)).astype(dtype), rng.standard_normal((1, K, N)).astype(dtype)
        for flip_a, flip_b in product((False, True), repeat=2):
            a, b = (
                x.transpose(0, 2, 1).copy().transpose(0, 2, 1) if flip else x
                for x, flip in zip(whole, (flip_a, flip_b), strict=True)
            )
            copies = [(0, 0, 0)]
            copies += [(2, *packed_a_shape(K, rows, a.itemsize, flip_a))] if rows == high or rows < FAR[0] else []
            for depth, copy in product((needed, needed - 1, deep), copies):
                if depth >= deep:
                    scratch, copy = (np.full(shape, np.nan, dtype) for shape in ((2, depth, wide), copy))
                    term, y = np.empty((1, 0, 0), dtype), np.empty((1, M, N), dtype)
                    label = f"matmul-large-{at}: {flip_a} {flip_b} {depth} {copy.shape}"
                    yield label, [a, b, term, 0, rows, columns, y, scratch, copy], {}


def run_guarded(names: list[str]) -> None:
    """Call compiled kernels on guarded arrays; says before each call what it does: a crash is in the last one."""
    for name in names:
        for dtype in (np.float32, np.float64):
            ran, more = 0, large_products(dtype) if name == "matmul" else ()
            for label, args, _ in chain(some(wrong_calls(name, dtype), one_in=7), more):
                if isinstance(KERNELS[name], Loop) and refused(KERNELS[name], args):
                    continue
                for at_end in (True, False):
                    print(label, np.dtype(dtype), "end" if at_end else "begin", flush=True)
                    try:
                        KERNELS[name](*[guarded(a, at_end) if isinstance(a, np.ndarray) else a for a in args])
                        ran += 1
                    except (ValueError, TypeError):
                        assert "large" not in label, label
            assert ran > 0
    print("whole")


@kernel("x[N], y[N]")
def past_the_end(x, y):
    """y_i = x_i, a register at a time: too much is read and written where N is no multiple of a register."""
    for i in range(0, x.size, 4):
        store(load(x, i), y, i)


def plant() -> None:
    past_the_end(guarded(np.zeros(5), True), guarded(np.zeros(5), True))


def in_a_process(*arguments: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"NUMBA_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)


needs_guards = pytest.mark.skipif(
    config.DISABLE_JIT or not sys.platform.startswith(("linux", "darwin")), reason="compiled code and guard pages"
)


@needs_guards
def test_the_compiled_build_stays_inside_its_arrays():
    done = in_a_process(*KERNELS)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "whole", (done.returncode, lines[-1:], done.stderr[-2000:])
    assert len(lines) > 20 * len(KERNELS)


@needs_guards
def test_read_past_the_end_is_noticed():
    assert in_a_process("past_the_end").returncode < 0  # ended by a signal


if __name__ == "__main__":
    plant() if sys.argv[1:] == ["past_the_end"] else run_guarded(sys.argv[1:])

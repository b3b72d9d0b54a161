"""Each function of registers: its compiled meaning against its plain one, on every width that this machine has."""

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import njit

from tinytensor.native.runtime.kernel import kernel
from tinytensor.native.simd import compiled_math as simd_math
from tinytensor.native.simd.isa import BYTES, SIMD, widths_of
from tinytensor.native.simd.vector import (
    add,
    div,
    exp,
    exps,
    fma,
    lanes,
    load,
    load_first,
    load_splat,
    log,
    max_lanes,
    maximum,
    mul,
    select_first,
    splat,
    split,
    store,
    store_first,
    sub,
    sum_lanes,
    where_less,
    zero,
)
from tinytensor.symbolic import lift
from tinytensor.symbolic.exact.scalars import Symbolic

DTYPES = (np.float32, np.float64)
compile_ = njit(error_model="numpy")


def width(dtype) -> int:
    return BYTES // np.dtype(dtype).itemsize


def both(function, *args):
    """The arguments after the compiled function has run on them, and after the plain one."""
    plain = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(all="ignore"):
        compile_(function)(*args)
        function(*plain)
    return args, plain


def draw(dtype, *shape):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def arithmetic(x, a, y):
    u, v = load(x, 0, 0), load(x, 1, 0)
    store(fma(u, v, load(x, 2, 0)), y, 0, 0)
    store(add(u, v), y, 1, 0)
    store(sub(u, v), y, 2, 0)
    store(mul(u, v), y, 3, 0)
    store(div(u, v), y, 4, 0)
    store(maximum(u, v), y, 5, 0)
    store(where_less(u, v, zero(x), u), y, 6, 0)
    store(load_splat(a, 1, 2), y, 7, 0)
    store(splat(x, lanes(x)), y, 8, 0)
    store(exp(u), y, 9, 0)
    store(log(exp(u)), y, 10, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(dtype):
    x, a = draw(dtype, 3, width(dtype)), draw(dtype, 3, 3).T
    (_, _, y), (_, _, expected) = both(arithmetic, x, a, np.full((11, width(dtype)), np.nan, dtype))
    np.testing.assert_allclose(y, expected, rtol=4 * np.finfo(dtype).eps, atol=2 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(y[1:9], expected[1:9])
    assert (expected[8] == width(dtype)).all() and (expected[7] == a[1, 2]).all()


def specials(x, y):
    u, v = load(x, 0), load(x, lanes(x))
    store(maximum(u, v), y, 0, 0)
    store(maximum(v, u), y, 1, 0)
    store(where_less(u, v, splat(x, 1), splat(x, 2)), y, 2, 0)
    store(exp(u), y, 3, 0)
    store(log(u), y, 4, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_inf(dtype):
    n = width(dtype)
    ends = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    for a in ends:
        for b in ends:
            x = np.array([a] * n + [b] * n, dtype)
            (_, y), (_, expected) = both(specials, x, np.zeros((5, n), dtype))
            np.testing.assert_array_equal(y, expected)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="in Python both are np.exp")
def test_exp_equals_fastmath_exp():
    @compile_
    def scalars(x, y):
        for i in range(x.size):
            y[i] = simd_math.exp(x[i])

    @compile_
    def registers(x, y):
        for i in range(0, x.size, lanes(x)):
            store(exp(load(x, i)), y, i)

    bits = np.arange(0, 2**32, 16411, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits, bits])[: bits.size // 16 * 16].view(np.float32)
    y, z = np.empty_like(x), np.empty_like(x)
    scalars(x, y)
    registers(x, z)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(z))
    same = ~np.isnan(y)
    assert (np.abs(y[same].view(np.int32) - z[same].view(np.int32)) <= 1).all()  # an fma more or less
    assert same.mean() > 0.9


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_equals_fastmath_and_numpy(dtype):
    def scalars(x, y):
        for i in range(x.size):
            y[i] = simd_math.log(x[i])

    def registers(x, y):
        for i in range(0, x.size, lanes(x)):
            store(log(load(x, i)), y, i)

    bits = np.arange(0, 2**32, 1048573, dtype=np.uint64).astype(np.uint32)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        x = bits[: bits.size // 16 * 16].view(np.float32).astype(dtype)
    (_, y), (_, expected) = both(scalars, x, np.empty_like(x))
    (_, z), _ = both(registers, x, np.empty_like(x))
    np.testing.assert_array_equal(y, z)
    np.testing.assert_allclose(z, expected, rtol=2 * np.finfo(dtype).eps)  # a unit of each


def in_step(x, y):
    u, v, w = exps(load(x, 0, 0), load(x, 1, 0), load(x, 2, 0))
    store(u, y, 0, 0)
    store(v, y, 1, 0)
    store(w, y, 2, 0)


def one_by_one(x, y):
    for i in range(3):
        store(exp(load(x, i, 0)), y, i, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_interleaved_exponentials_have_the_same_bits(dtype):
    x = 9 * draw(dtype, 3, width(dtype))
    x[0, 0], x[1, 0], x[2, 0] = np.inf, -np.inf, np.nan
    (_, together), (_, plain) = both(in_step, x, np.zeros_like(x))
    (_, alone), _ = both(one_by_one, x, np.zeros_like(x))
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(together, plain, rtol=4 * np.finfo(dtype).eps)


def edges(x, count, y):
    n = lanes(x)
    store_first(count, load(x, 0, 0), y, 0, 1)
    store(load_first(count, x, 1, n - count), y, 1, 0)  # reads the end of the row and nothing after it
    store(select_first(count, load(x, 0, 0), load(x, 1, 0)), y, 2, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_edges(dtype):
    n = width(dtype)
    x = draw(dtype, 2, n)
    for count in range(n + 1):
        y = np.full((3, n + 1), -7, dtype)
        (_, _, y), (_, _, expected) = both(edges, x, count, y)
        np.testing.assert_array_equal(y, expected)
        assert (y[0, count + 1 :] == -7).all() and (y[0, 1 : count + 1] == x[0, :count]).all()


def test_memory_beyond_the_edge_is_not_read():
    """A page that must not be read follows the row; the machine would stop the program."""
    program = """
import ctypes, mmap, numpy as np
from numba import njit
from tinytensor.native.simd.vector import load_first, store_first
page = mmap.PAGESIZE
pages = mmap.mmap(-1, 2 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0) == 0
x = np.frombuffer(pages, np.float32, page // 4)
@njit
def last_three(x):
    at = x.size - 3
    store_first(3, load_first(3, x, at), x, at)
last_three(x)
print("untouched")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "untouched\n", done.stderr


def pieces(x, n, y):
    one, two, three = split(x, n, 2, lanes(x))
    y[0], y[1] = one.size, one[n - 1]
    y[2], y[3] = two.size, two[1]
    y[4], y[5], y[6] = three.size, three[0], sum_lanes(load(three, 0))
    two[0] = y[0]  # a piece is a view


@pytest.mark.parametrize("dtype", DTYPES)
def test_pieces(dtype):
    x = draw(dtype, 3 + 2 + width(dtype))
    (compiled, _, y), (plain, _, expected) = both(pieces, x.copy(), 3, np.zeros(7, dtype))
    np.testing.assert_array_equal(y[:6], expected[:6])
    np.testing.assert_allclose(y[6], x[5:].sum(), rtol=1e-5)
    assert (expected[:6] == [3, x[2], 2, x[4], width(dtype), x[5]]).all()
    np.testing.assert_array_equal(compiled, plain)
    assert compiled[3] == 3 != x[3] and (np.delete(compiled, 3) == np.delete(x, 3)).all()


def sums(x, y):
    v = load(x, 0)
    y[0], y[1] = sum_lanes(v), max_lanes(v)


@pytest.mark.parametrize("dtype", DTYPES)
def test_across_the_lanes(dtype):
    x = draw(dtype, width(dtype)) * dtype(1e6) ** draw(dtype, width(dtype))  # sizes that show the order of a sum
    (_, y), (_, expected) = both(sums, x, np.zeros(2, dtype))
    np.testing.assert_array_equal(y, expected)
    assert expected[1] == x.max()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_whole_numbers(dtype):
    def kernel(x, y):
        store(fma(load(x, 0, 0), load(x, 1, 0), splat(x, -5)), y, 0)

    n = width(dtype)
    x = np.random.default_rng(0).integers(-99, 99, (2, n)).astype(dtype)
    (_, y), (_, expected) = both(kernel, x, np.zeros(n, dtype))
    np.testing.assert_array_equal(y, x[0] * x[1] - 5)
    np.testing.assert_array_equal(expected, y)


def scaled_sum(x, y):
    s = zero(x)
    for j in range(0, x.shape[1], lanes(x)):
        s = fma(load_splat(x, 1, j), load_first(x.shape[1] - j, x, 0, j), s)
    y[0] = sum_lanes(s)


def test_proofs_read_register_code():
    fifths = [[Fraction(i, 5) for i in range(7)], [Fraction(i, 3) for i in range(7)]]
    x = np.array(fifths, object)
    y = np.full(1, None)
    lift(kernel()(scaled_sum), BYTES=16)(x, y)  # registers of two numbers
    assert y[0] == Symbolic(sum(a * b for a, b in zip(fifths[0], np.repeat(fifths[1][::2], 2), strict=False)))


# --------------------------------------------------------------------------------------- narrower registers

ROOT = Path(__file__).parents[2]
NARROWER = {"avx512": ("avx2", "none"), "avx2": ("none",), "neon": ("none",), "none": ()}[SIMD]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_compiler_gets_the_register_width():
    """Kernels that say nothing of registers get no wider ones either, and builds for them are kept apart."""
    program = """
import tinytensor
from numba.core.registry import cpu_target
print(*cpu_target.target_context.codegen().magic_tuple())
"""
    printed = {}
    for simd in (SIMD, *NARROWER):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=os.environ | {"TINYTENSOR_SIMD": simd},
        )
        printed[simd] = done.stdout
        assert ("+avx512f" in done.stdout) == (simd == "avx512"), done.stderr
    assert "avx512" not in printed or printed["avx512"] != printed["avx2"]


def test_wider_registers_than_the_machine_are_refused():
    done = subprocess.run(
        [sys.executable, "-c", "import tinytensor.native.simd.vector"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"TINYTENSOR_SIMD": "avx9000"},
    )
    assert done.returncode != 0
    assert "TINYTENSOR_SIMD=avx9000: this machine has" in done.stderr


@pytest.mark.skipif(SIMD != "avx2" or numba.config.DISABLE_JIT, reason="for registers of AVX2")
def test_no_wider_register_is_used():
    @compile_
    def kernel(x, y):
        for i in range(0, x.size, lanes(x)):
            store(fma(load(x, i), load(x, i), zero(x)), y, i)

    kernel(np.ones(64, np.float32), np.ones(64, np.float32))
    assembly = next(iter(kernel.inspect_asm().values()))
    assert "ymm" in assembly and "zmm" not in assembly


def test_register_width_of_each_machine():
    """LLVM names no features of Apple's processors; on a PC of which it names none, nothing wider is used."""
    assert widths_of({}, "arm64-apple-darwin24.0.0") == ["neon", "none"]
    assert widths_of({"neon": True, "sve": True}, "aarch64-unknown-linux-gnu") == ["neon", "none"]
    assert widths_of({}, "x86_64-apple-darwin24.0.0") == ["none"]
    assert widths_of({"fma": True, "avx512f": False}, "x86_64-unknown-linux-gnu") == ["avx2", "none"]
    assert widths_of({"fma": True, "avx512f": True}, "x86_64-unknown-linux-gnu") == ["avx512", "avx2", "none"]

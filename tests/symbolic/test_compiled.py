"""What ships is the compiled build, what is proved is the source: on floats both give the same, up to rounding.

The two differ in that the compiler may fuse a multiplication with an addition and (except in matrix products,
attention and optimizers) add in another order, and in that its float32 exp is a polynomial, 8.6e-8 from the exact one
at most. Each moves one intermediate result by less than 1.5 units of rounding. The numbers of the samples are of size 1
and their sums short (but for one of 514 terms, added in 16 or more chains), so few of these errors meet in one output:
8 units bound them, 5.8 in that long sum and 2.3 elsewhere is what was seen.
"""

import linecache
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config
from symbolic.kernel_samples import SAMPLES, names

import tinytensor.kernels
from tinytensor.kernels import KERNELS
from tinytensor.kernels.kernel import Elementwise
from tinytensor.symbolic.lifting import rebind

BOUND = 8  # units of rounding of the largest number among the results (or of 1)
FOLDER = str(Path(tinytensor.kernels.__file__).parent)


def as_float(value, name: str, dtype: np.dtype, is_formula: bool):
    """An argument of a sample in floats: the witness of each symbol, NaN for what the kernel has yet to write."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        dtype = np.float64 if name == "hyper" else dtype
        floats = [np.nan if e is None else getattr(e, "witness", e) for e in value.flat]
        y = np.empty_like(value, dtype, order="K" if all(value.strides) else "C")  # transposed where the sample is
        y[...] = np.array(floats, dtype).reshape(value.shape)
        return y
    if isinstance(value, np.ndarray | np.bool_) or (isinstance(value, int) and not is_formula):
        return value.copy() if isinstance(value, np.ndarray) else value
    return dtype(getattr(value, "witness", value))


def floats(kernel, sample, dtype) -> list:
    is_formula = isinstance(kernel, Elementwise)
    return [as_float(a, n, dtype, is_formula) for a, n in zip(sample.args, names(kernel), strict=True)]


def interpreted(kernel, args, constants) -> None:
    """The kernel's source in plain Python, its helpers too."""
    source = rebind(kernel.py_func, lambda code, name, value: constants.get(name, value))
    with np.errstate(all="ignore"):
        if isinstance(kernel, Elementwise):
            args[-1][...] = source(*args[:-1])
        else:
            for share in kernel.shares(args):
                source(*args, *share)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, in units of rounding of the largest number (or of 1); infinite where only one is NaN."""
    if a.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else np.inf
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    finite = np.isfinite(a)
    if not finite.any():
        return 0.0
    unit = np.finfo(a.dtype).eps * max(1.0, np.abs(b[finite]).max())
    return float(np.abs(a[finite] - b[finite]).max() / unit)


@pytest.mark.skipif(config.DISABLE_JIT, reason="there is no compiled build")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SAMPLES)
def test_compiled_and_source_agree(name, dtype):
    kernel = KERNELS[name]
    for sample in SAMPLES[name]:
        compiled, source = floats(kernel, sample, dtype), floats(kernel, sample, dtype)
        kernel(*compiled)
        interpreted(kernel, source, sample.constants)
        for parameter, a, b in zip(names(kernel), compiled, source, strict=True):
            if isinstance(a, np.ndarray) and parameter != "scratch":
                assert distance(a, b) <= BOUND, (name, parameter, a, b)


# lines that no exact scalar reaches: only a NaN gets there, or nothing does
UNREACHED = {("first_nan", "return j"), ("first_equal", "return 0")}


def test_every_line_is_proved():
    """The samples of the proofs run every line of every kernel: no branch ships without a proof."""
    codes, ran = set(), set()

    def enter(frame, event, arg):
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        codes.add(frame.f_code)
        return run

    def run(frame, event, arg):
        ran.add((frame.f_code, frame.f_lineno))
        return run

    before = sys.gettrace()
    for name, samples in SAMPLES.items():
        for sample in samples:
            args = floats(KERNELS[name], sample, np.float64)
            sys.settrace(enter)
            try:
                interpreted(KERNELS[name], args, sample.constants)
            finally:
                sys.settrace(before)
    missed = set()
    for code in codes:
        for line in {line for *_, line in code.co_lines() if line and line > code.co_firstlineno}:
            text = linecache.getline(code.co_filename, line).strip()
            if (code, line) not in ran and not text.startswith("def "):
                missed.add((code.co_name, text))
    assert missed == UNREACHED

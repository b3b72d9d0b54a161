"""The shipped compiled build and the proved source give the same on floats, up to rounding.

The two differ in that the compiler may fuse a multiplication with an addition and (except in matrix products,
attention and optimizers) add in another order, and in that its float32 exp is a polynomial, 8.51e-8 from the exact one
at most. Each moves one intermediate result by less than 1.5 units of rounding. The numbers of the samples are of size 1
and their sums short (but for one of 514 terms, added in 16 or more chains), so few of these errors meet in one output:
8 units bound them; 5.8 were seen in that long sum, and 2.3 elsewhere.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numba import config

from tests.kernels.kernel_samples import SAMPLES, SPECIAL, interpreted
from tinytensor.native import kernels, runtime, simd
from tinytensor.native.kernels import KERNELS
from tinytensor.native.runtime.kernel import Elementwise

NUMBERS = (0.75, -0.5, 1.625, 0.0)  # for formulas: both sides of 0, and 0
TRUTH = {"bitwise_and", "bitwise_or", "bitwise_xor"}  # formulas that floats do not have
BOUND = 8  # units of rounding of the largest number among the results (or of 1)
FOLDERS = tuple(str(Path(room.__file__).parent) for room in (kernels, runtime, simd))


def as_float(value, name: str, dtype: np.dtype):
    """An argument of a sample in floats: the witness of each symbol, NaN for entries yet to be written."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        dtype = np.float64 if name == "hyper" else dtype
        floats = [np.nan if e is None else getattr(e, "witness", e) for e in value.flat]
        y = np.empty_like(value, dtype, order="K" if all(value.strides) else "C")  # transposed where the sample is
        y[...] = np.array(floats, dtype).reshape(value.shape)
        return y
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and name != "hyper":
        return value.astype(dtype)
    if isinstance(value, np.ndarray | int):
        return value.copy() if isinstance(value, np.ndarray) and value.flags.writeable else value
    return dtype(getattr(value, "witness", value))


def floats(kernel, sample, dtype, compiled: bool) -> list:
    args = [as_float(a, n, dtype) for a, n in zip(sample.args, kernel.names, strict=True)]
    if compiled and sample.built:
        args[kernel.names.index("scratch")] = np.full(sample.built, np.nan, dtype)
    return args


def formula_args(kernel, dtype) -> list:
    """Arguments of a formula: all pairs (or triples) of a few numbers, so that each branch is taken; its constants."""
    constants = [dtype(value) for value in kernel.py_func.__defaults__ or ()]
    inputs = len(kernel.names) - 1 - len(constants)
    grid = np.array(list(product(NUMBERS, repeat=inputs)), bool if kernel.name in TRUTH else dtype).T
    one = kernel.py_func(*(x[0] for x in grid), *constants)
    return [*map(np.ascontiguousarray, grid), *constants, np.empty(grid.shape[1], np.asarray(one).dtype)]


def calls(name: str, dtype, compiled: bool = False) -> list[tuple[Callable, dict]]:
    """(a function that makes the arguments, constants) for each call of a kernel on floats, or of the compiled one."""
    if isinstance(KERNELS[name], Elementwise):
        return [(partial(formula_args, KERNELS[name], dtype), {})]
    samples = [sample for sample in SAMPLES[name] if sample.fits_builds or not compiled]
    samples += [] if compiled else SPECIAL.get(name, [])  # of which some have sums that no rounding can be foretold of
    return [(partial(floats, KERNELS[name], sample, dtype, compiled), sample.constants) for sample in samples]


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
@pytest.mark.parametrize("name", KERNELS)
def test_compiled_and_source_agree(name, dtype):
    kernel = KERNELS[name]
    for make, constants in calls(name, dtype, compiled=True):
        compiled, source = make(), make()
        kernel(*compiled)
        interpreted(kernel, source, constants)
        for parameter, a, b in zip(kernel.names, compiled, source, strict=True):
            if isinstance(a, np.ndarray) and parameter not in ("scratch", "packed_a"):
                assert distance(a, b) <= BOUND, (name, parameter, a, b)

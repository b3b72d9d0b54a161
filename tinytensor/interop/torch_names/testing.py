"""tinytensor.testing: assert_close, for tests."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import as_tensor

# rtol and atol of a dtype; a comparison of two dtypes takes the larger ones
TOLERANCES = {"float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    r"""|actual - expected| \le atol + rtol |expected| everywhere, else AssertionError.

    The tolerances are PyTorch's for the dtype: 1.3e-6 and 1e-5 for float32, 1e-7 for float64, 0 for whole numbers. Both
    may be tensors, arrays, numbers, or lists and dicts of them; `msg` replaces the message, or makes another of it.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: give both rtol and atol, or neither; got rtol {rtol} and atol {atol}")

    def fail(what: str, where: str) -> None:
        said = f"assert_close{where and f', at {where}'}: {what}"
        raise AssertionError(said if msg is None else msg(said) if callable(msg) else msg)

    def compare(a: Any, b: Any, where: str) -> None:
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            if a.keys() != b.keys():
                fail(f"the keys are {list(a)}, expected {list(b)}", where)
            for key in b:
                compare(a[key], b[key], f"{where}[{key!r}]")
        elif all(isinstance(x, Sequence) and not isinstance(x, str) for x in (a, b)):
            if len(a) != len(b):
                fail(f"the lengths are {len(a)}, expected {len(b)}", where)
            for i, pair in enumerate(zip(a, b)):
                compare(*pair, f"{where}[{i}]")
        elif any(isinstance(x, Sequence | Mapping) or x is None for x in (a, b)):
            if a is not b:
                raise TypeError(f"assert_close: {type(a).__name__} and {type(b).__name__} can't be compared")
        else:
            numbers(*(as_tensor(np.asarray(x) if isinstance(x, Number) else x).detach() for x in (a, b)), where)

    def numbers(a: Tensor, b: Tensor, where: str) -> None:
        if a.shape != b.shape:
            fail(f"the shapes are {a.shape}, expected {b.shape}", where)
        if check_dtype and a.dtype != b.dtype:
            fail(f"the dtypes are {a.dtype}, expected {b.dtype}", where)
        if check_stride and a.stride() != b.stride():
            fail(f"the strides are {a.stride()}, expected {b.stride()}", where)
        x, y = a.numpy(), b.numpy()
        relative, absolute = rtol, atol
        if rtol is None:
            relative, absolute = map(max, *(TOLERANCES.get(str(v.dtype), (0, 0)) for v in (x, y)))
        wrong = ~np.isclose(x, y, relative, absolute, equal_nan)
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            fail(
                f"{wrong.sum()} of {wrong.size} numbers are not close (rtol {relative}, atol {absolute}); the first is "
                f"{x[first]}, expected {y[first]}, with index {first}",
                where,
            )

    compare(actual, expected, "")

"""Printing of tensors, in PyTorch's format and with its options."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.dtypes import bool_, get_default_dtype, int64

# `sci_mode` None: numbers have exponents if they would be too long without
_SHORT = {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80, "sci_mode": None}
_DEFAULT = _SHORT | {"precision": 4, "edgeitems": 3}
PROFILES = {"default": _DEFAULT, "short": _SHORT, "full": _DEFAULT | {"threshold": math.inf}}

_options = dict(_DEFAULT)

OPENING = "tensor("  # the text before the numbers


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed: digits, the count above which numbers are left out, how many at each end, the width.

    `profile` ("default", "short" or "full") sets all options; other given options override it. With `sci_mode` True
    all numbers have exponents, with False none has.
    """
    if profile is not None and str(profile).lower() not in PROFILES:
        raise ValueError(f"set_printoptions: profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    options = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in options.items():
        least = 1 if name == "linewidth" else 0
        whole = isinstance(value, int) or (name == "threshold" and value == math.inf)
        if value is not None and not (whole and value >= least):
            raise ValueError(f"set_printoptions: {name} must be a whole number of {least} or more, got {value!r}")
    _options.update(PROFILES[str(profile).lower()] if profile is not None else {})
    _options.update({name: value for name, value in options.items() if value is not None})
    if sci_mode is not None or profile is not None:
        _options["sci_mode"] = sci_mode


def text(tensor: Any) -> str:
    """The text that print() shows for a tensor: its numbers, and its dtype, device and gradient if they are unusual."""
    suffixes, empty = [], not tensor.is_meta and not tensor.numel()
    if tensor.is_meta:
        suffixes += ["device='meta'", f"size={tensor.shape}"]
    elif empty and tensor.ndim != 1:
        suffixes += [f"size={tensor.shape}"]
    seen = () if tensor.is_meta or empty else (int64, bool_)  # the numbers show these dtypes
    if tensor.dtype not in (get_default_dtype(), *seen):
        suffixes += [f"dtype={tensor.dtype!s}"]
    if tensor.node is not None:
        suffixes += [f"grad_fn=<{tensor.node.op.name}>"]
    elif tensor.requires_grad:
        suffixes += ["requires_grad=True"]
    if tensor.is_meta:
        return _behind(f"{OPENING}...", suffixes)
    return _numbers_text(tensor._values("printing a tensor"), suffixes)


def _numbers_text(values: np.ndarray, suffixes: list[str]) -> str:
    """The numbers of an array, and the suffixes behind them."""
    if values.dtype.kind == "O":
        return _behind(f"{OPENING}{np.array2string(values, separator=', ', prefix=OPENING)}", suffixes)
    if not values.size:
        return _behind(f"{OPENING}[]", suffixes)
    kept = _kept(values, _options["edgeitems"] if values.size > _options["threshold"] else values.size)
    write, width = _writer(list(_numbers(kept)))
    return _behind(OPENING + _laid_out(kept, values.ndim, write, width, len(OPENING)), suffixes)


def _kept(values: np.ndarray, ends: int) -> Any:
    """The numbers as nested lists; a dimension longer than two times `ends` keeps its two ends, with ... between."""
    if not values.ndim:
        return values.item()
    n = len(values)
    if n <= 2 * ends:
        return [_kept(v, ends) for v in values]
    return [*(_kept(v, ends) for v in values[:ends]), ..., *(_kept(v, ends) for v in values[n - ends :])]


def _numbers(kept: Any) -> Iterator:
    """The numbers in nested lists, one after the other."""
    if not isinstance(kept, list):
        yield kept
        return
    for part in kept:
        if part is not ...:
            yield from _numbers(part)


def _writer(numbers: list) -> tuple[Callable[[Any], str], int]:
    """The function that writes one of these numbers, and the width of a number.

    All finite numbers except 0 decide together: whole numbers have no digits after the point; if one is more than 1000
    times another, or too large or too small to read, all have exponents.
    """
    if not any(isinstance(x, float) for x in numbers):
        width = max((len(str(x)) for x in numbers), default=0)
        return (lambda x: f"{x!s:>{width}}"), width
    digits, sizes = _options["precision"], [abs(x) for x in numbers if x and math.isfinite(x)]
    whole = all(x.is_integer() for x in sizes)
    exponents = False
    if sizes:
        least, most = min(sizes), max(sizes)
        exponents = most / least > 1000 or most > 1e8 or (not whole and least < 1e-4)
        exponents = exponents if _options["sci_mode"] is None else _options["sci_mode"]

    def spelled(x: float) -> str:
        if exponents:
            return f"{x:.{digits}e}"
        if whole:
            return f"{x:.0f}." if math.isfinite(x) else f"{x:.0f}"
        return f"{x:.{digits}f}"

    width = max((len(spelled(x)) for x in numbers if x and math.isfinite(x)), default=1)
    return (lambda x: f"{spelled(x):>{width}}"), width


def _laid_out(kept: Any, ndim: int, write: Callable[[Any], str], width: int, indent: int) -> str:
    """Nested lists as text: as many numbers in a line as fit, an empty line between matrices."""
    if not ndim:
        return write(kept)
    if ndim > 1:
        parts = ["..." if part is ... else _laid_out(part, ndim - 1, write, width, indent + 1) for part in kept]
        return f"[{(',' + chr(10) * (ndim - 1) + ' ' * (indent + 1)).join(parts)}]"
    words = [" ..." if x is ... else write(x) for x in kept]
    each = max(1, (_options["linewidth"] - indent) // (width + 2))
    lines = [", ".join(words[i : i + each]) for i in range(0, len(words), each)]
    return f"[{(',' + chr(10) + ' ' * (indent + 1)).join(lines)}]"


def _behind(body: str, suffixes: list[str]) -> str:
    """The suffixes behind the numbers; a suffix that does not fit in the line begins a new one."""
    line = len(body) - body.rfind("\n") + 1
    for suffix in suffixes:
        if line + len(suffix) + 2 > _options["linewidth"]:
            body += f",\n{' ' * len(OPENING)}{suffix}"
            line = len(OPENING) + len(suffix)
        else:
            body += f", {suffix}"
            line += len(suffix) + 2
    return f"{body})"


late_bound.text = text

"""PyTorch's other names of arguments: `axis=` for `dim=`, `input=` and `other=` for the tensors of an operation.

They are looked up only after a call turns out to have a keyword that the function does not know, so other calls do not
pay for them.
"""

import warnings
from collections.abc import Collection
from enum import Enum

from tinytensor.core import late_bound


class memory_format(Enum):  # PyTorch's name of this class
    """The layout in memory of a result; there is no other choice than that of the operation."""

    preserve_format = "preserve_format"


preserve_format = memory_format.preserve_format
# Names that a function may have instead; the first one that it has, and that the call has not given, is meant.
ALIASES = {
    "axis": ("dim", "dims"),
    "axis0": ("dim0",),
    "axis1": ("dim1",),
    "keepdims": ("keepdim",),
    "input": ("x", "a", "p", "values"),
    "other": ("b", "dim"),  # max(input=x, other=y)
    "tensor1": ("a",),
    "sections": ("indices_or_sections",),
    "indices": ("indices_or_sections",),
    "split_size": ("split_size_or_sections",),
    "size": ("sizes", "shape"),
} | dict.fromkeys(("exponent", "mat2", "vec", "vec2", "tensor", "tensor2", "end", "min", "max"), ("b",))


def renamed(what: str, names: Collection[str], positional: Collection[str], keywords: dict) -> dict:
    """The keywords of a call under the function's own names; `positional` names those given by position."""
    if "out" in keywords and "out" not in names:
        if keywords["out"] is not None:
            raise TypeError(f"{what}: out= is not offered; write y.copy_({what}(...)), or take the result") from None
        keywords = {key: value for key, value in keywords.items() if key != "out"}
    if keywords.get("memory_format") is preserve_format and "memory_format" not in names:
        keywords = {key: value for key, value in keywords.items() if key != "memory_format"}
    if "reduction" in names:
        keywords = with_reduction(what, keywords)
    result = {}
    for key, value in keywords.items():
        free = [name for name in ALIASES.get(key, ()) if name in names and not (name in positional or name in keywords)]
        result[free[0] if free and key not in names else key] = value
    return result


def with_reduction(what: str, keywords: dict) -> dict:
    """PyTorch's older words for the reduction of a loss: reduce=False is "none", size_average=False is "sum"."""
    older = {name: keywords[name] for name in ("size_average", "reduce") if name in keywords}
    if not older:
        return keywords
    keywords = {name: value for name, value in keywords.items() if name not in older}
    asked = {name: value for name, value in older.items() if value is not None}
    if asked:
        means = "mean" if asked.get("size_average", True) else "sum"
        reduction = means if asked.get("reduce", True) else "none"
        warnings.warn(f"{what}: instead of {', '.join(asked)} give reduction={reduction!r}", stacklevel=4)
        keywords["reduction"] = reduction
    return keywords


def in_older_order(what: str, parameters: dict, args: tuple) -> tuple[tuple, dict] | None:
    """The arguments of a call in PyTorch's older order, `x.add_(2, y)` for `x.add_(y, alpha=2)`; None for others.

    The numbers among the tensors are the factors that the function takes by name only, in its order of names.
    """
    factors = [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    numbers = [a for a in args if isinstance(a, int | float)]
    tensors = tuple(a for a in args if not isinstance(a, int | float))
    if not 0 < len(numbers) <= len(factors) or not {"alpha", "value"} & {*factors}:
        return None
    if len(tensors) != len(parameters) - len(factors):
        return None
    named = dict(zip(factors, numbers))
    written = ", ".join(f"{name}={number!r}" for name, number in named.items())
    warnings.warn(f"{what}: write {written} behind the tensors, in place of a number before one", stacklevel=4)
    return tensors, named


late_bound.renamed = renamed

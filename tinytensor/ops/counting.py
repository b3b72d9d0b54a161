"""Counting and searching: histograms, unique values, sorted sequences, membership."""

import builtins
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tinytensor.core.dtypes import bool_, int32, int64, result_type
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension_with_size, only_floats, whole_number
from tinytensor.ops.creation import arange, linspace, ones, tensor, zeros
from tinytensor.ops.elementwise import floor, isnan, where
from tinytensor.ops.index import gather, nonzero, put, scatter_rows
from tinytensor.ops.indexing import scatter
from tinytensor.ops.order import argsort, sort
from tinytensor.ops.reduce import cumsum, sum
from tinytensor.ops.shape import cat, clone, flatten, make_contiguous, movedim, narrow, reshape


@register("bincount Tensor.bincount")
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """y_v = how often v stands in a vector of whole numbers of 0 or more, or the sum of the weights where it stands."""
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise RuntimeError(f"bincount: expected a vector of whole numbers, got {x.dtype} of shape {x.shape}")
    if weights is not None and weights.shape != x.shape:
        raise RuntimeError(f"bincount: weights of shape {weights.shape} do not fit x of shape {x.shape}")
    if whole_number(minlength, "bincount: minlength") < 0 or (x.numel() and x.min().item() < 0):
        raise RuntimeError("bincount: expected whole numbers of 0 or more")
    n = builtins.max(minlength, x.max().item() + 1 if x.numel() else 0)
    if weights is None:
        weights = ones(x.shape, dtype=int64)
    elif weights.dtype.kind != "f":
        weights = weights.double()
    return scatter_rows(weights, x.to(int64), (n,))


def _runs(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The runs of equal rows: the first row of each run, the run of each row, and the length of each run."""
    n = x.shape[0]
    begins = ones(builtins.min(n, 1), dtype=bool_)
    if n > 1:
        differ = narrow(x, 0, 1, n - 1) != narrow(x, 0, 0, n - 1)
        begins = cat([begins, differ if x.ndim == 1 else differ.any(1)])
    starts = flatten(nonzero(begins))
    ends = cat([starts, tensor([n])])
    return x[starts], cumsum(begins, 0) - 1, narrow(ends, 0, 1, starts.numel()) - starts


def _asked_for(values: Tensor, inverse: Tensor, counts: Tensor, return_inverse: bool, return_counts: bool):
    if not return_inverse and not return_counts:
        return values
    return (values, *[inverse] * return_inverse, *[counts] * return_counts)


def _as_rows(what: str, x: Tensor, dim: int | None) -> tuple[Tensor, Callable]:
    """The elements, or the slices along `dim` as rows, for unique() to compare; and a function from rows to slices."""
    if dim is None:
        return flatten(x.detach()), lambda rows: rows
    dim = dimension_with_size(x, dim, what)
    moved = movedim(x.detach(), dim, 0)
    if not x.numel() and x.shape[dim]:
        raise RuntimeError(f"{what}: the slices of shape {x.shape} along dimension {dim} are empty")
    back = lambda rows: make_contiguous(movedim(reshape(rows, (rows.shape[0], *moved.shape[1:])), 0, dim))  # noqa: E731
    return reshape(moved, (x.shape[dim], math.prod(moved.shape[1:]))), back


def _sorting(rows: Tensor) -> Tensor:
    """The indices that sort elements, or rows by their first number, equal ones by their second, and so on."""
    if rows.ndim == 1:
        return argsort(rows)
    order = arange(rows.shape[0])
    for column in range(rows.shape[1])[::-1]:
        order = order[argsort(rows[order, column])]
    return order


@register("unique Tensor.unique")
def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
):
    """The different elements of x in ascending order; where each element of x is among them; how often each comes.

    With `dim`, the slices along this dimension are compared, and sorted by their elements one after another.
    """
    rows, back = _as_rows("unique", x, dim)
    order = _sorting(rows)
    values, run, counts = _runs(rows[order])
    inverse = put(zeros(run.shape, dtype=int64), order, run)
    inverse = reshape(inverse, x.shape) if dim is None else inverse
    return _asked_for(back(values), inverse, counts, return_inverse, return_counts)


@register("unique_consecutive Tensor.unique_consecutive")
def unique_consecutive(x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None):
    """x with one element for each run of equal ones; in which run each element of x is; how long each run is.

    With `dim`, the slices along this dimension are compared.
    """
    rows, back = _as_rows("unique_consecutive", x, dim)
    values, run, counts = _runs(rows)
    run = reshape(run, x.shape) if dim is None else run
    return _asked_for(back(values), run, counts, return_inverse, return_counts)


@register("searchsorted")
def searchsorted(
    sorted_sequence: Tensor,
    values: Tensor | float | Sequence,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """y = how many elements of a sorted vector are smaller than each value (right: not larger).

    A sequence of several dimensions has a row for each row of values. A sequence that is not sorted needs the indices
    that sort it, `sorter`, of its shape.
    """
    if side not in (None, "left", "right") or (right and side == "left"):
        raise RuntimeError(f"searchsorted: side must be 'left' or 'right', and agree with right={right}; got {side!r}")
    if not isinstance(values, Tensor):
        known = None if isinstance(values, Sequence) else result_type(sorted_sequence, values)
        values = tensor(values, dtype=known)
    sequence, shape = sorted_sequence.detach(), values.shape
    if sorter is not None:
        if sorter.shape != sequence.shape or sorter.dtype != int64:
            raise RuntimeError(
                f"searchsorted: the sorter is {sorter.dtype} {sorter.shape}: expected the int64 indices that sort the "
                f"sequence, of shape {sequence.shape}"
            )
        sequence = gather(sequence, -1, sorter)
    if sequence.ndim != 1 and (sequence.ndim != values.ndim or sequence.shape[:-1] != shape[:-1]):
        raise RuntimeError(f"searchsorted: rows of shape {sequence.shape} do not fit values of shape {shape}")
    rows = values.detach() if sequence.ndim > 1 else flatten(values.detach())
    # Sorted together, equal elements keeping their order, each value stands behind the elements that it counts.
    behind = right or side == "right"
    order = argsort(cat([sequence, rows] if behind else [rows, sequence], -1), -1)
    n = sequence.shape[-1]
    of_sequence = order < n if behind else order >= rows.shape[-1]
    counts = scatter(zeros(order.shape, dtype=int64), -1, order, cumsum(of_sequence, -1))
    counts = narrow(counts, -1, n if behind else 0, rows.shape[-1])
    if rows.dtype.kind == "f":  # NaN stands behind everything, NaN included
        counts = where(isnan(rows), n, counts)
    return reshape(make_contiguous(counts), shape).to(int32 if out_int32 else int64)


@register("bucketize")
def bucketize(
    x: Tensor | float | Sequence, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """y = the number of the bucket, between sorted boundaries, into which each element of x falls."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize: expected a vector of boundaries, got shape {boundaries.shape}")
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


class Histogram(NamedTuple):
    """The result of histogram(): the sum of weights between each edge and the next, and the edges."""

    hist: Tensor
    bin_edges: Tensor


def _check_bins(what: str, bins: int) -> None:
    if not 0 < whole_number(bins, f"{what}: bins") < 2**31:
        raise RuntimeError(f"{what}: bins must be between 1 and 2**31 - 1, got {bins}")


def _ends(what: str, x: Tensor, low: float, high: float, has_range: bool, widen: float) -> tuple[float, float]:
    """The range of the bins: as given, or that of the elements; by `widen` larger at both ends if it is empty."""
    if not has_range and x.numel():
        low, high = x.min().item(), x.max().item()
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise RuntimeError(f"{what}: expected a finite range whose max is not below its min, got {low} to {high}")
    return (low - widen, high + widen) if low == high else (low, high)


def _counted(bin_index: Tensor, inside: Tensor, weight: Tensor, bins: int) -> Tensor:
    """y_b = the sum of the weights of the elements that are inside the range and in bin b."""
    bin_index = where(inside, bin_index, 0).to(int64).clamp(0, bins - 1)
    return scatter_rows(where(inside, weight, 0), bin_index, (bins,))


@register("histc Tensor.histc")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """y_b = how many elements are in part b of the range from min to max, cut into equal parts; others do not count.

    If min and max are both 0, the range is that of the elements. There is no gradient.
    """
    only_floats("histc", x)
    _check_bins("histc", bins)
    flat = flatten(x.detach())
    low, high = _ends("histc", flat, min, max, min != max or min != 0, 1)
    bin_index = (flat - low) * bins / (high - low)
    return _counted(floor(bin_index), (flat >= low) & (flat <= high), ones(flat.shape, dtype=x.dtype), bins)


@register("histogram Tensor.histogram")
def histogram(
    x: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """y_b = how many elements e_b <= x < e_{b+1}, the last one also x = e_n: (hist, bin_edges).

    `bins` are the edges e, or the number of equal parts of the `range` (that of the elements unless given). An element
    counts as its `weight`, 1 unless given. With `density` the sum of y_b (e_{b+1} - e_b) is 1. There is no gradient.
    """
    only_floats("histogram", x)
    flat = flatten(x.detach())
    if isinstance(bins, Tensor):
        if bins.ndim != 1 or bins.numel() < 2 or bins.dtype != x.dtype or range is not None:
            raise RuntimeError(
                f"histogram: the edges are {bins.dtype} {bins.shape}: expected a vector of 2 or more of {x.dtype}, "
                "and no range beside it"
            )
        edges = clone(bins.detach())
    else:
        _check_bins("histogram", bins)
        if range is not None and len(range) != 2:
            raise RuntimeError(f"histogram: the range is two numbers, got {range}")
        edges = linspace(*_ends("histogram", flat, *(range or (0, 1)), range is not None, 0.5), bins + 1, dtype=x.dtype)
    if weight is not None and (weight.shape != x.shape or weight.dtype != x.dtype):
        raise RuntimeError(f"histogram: the weight is {weight.dtype} {weight.shape}: expected {x.dtype} {x.shape}")
    weight = ones(flat.shape, dtype=x.dtype) if weight is None else flatten(weight.detach())
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    hist = _counted(searchsorted(edges, flat, right=True) - 1, inside, weight, edges.numel() - 1)
    return Histogram(hist / sum(hist) / (edges[1:] - edges[:-1]) if density else hist, edges)


@register("isin")
def isin(
    elements: Tensor | float | Sequence,
    test_elements: Tensor | float | Sequence,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:
    """y = [the element is among the test elements]."""
    elements, tests = (x.detach() if isinstance(x, Tensor) else tensor(x) for x in (elements, test_elements))
    if not tests.numel():
        is_member = zeros(elements.shape, dtype=bool_)
    else:
        tests = sort(flatten(tests))[0]
        at = searchsorted(tests, elements).clamp(max=tests.numel() - 1)
        is_member = tests[at] == elements
    return ~is_member if invert else is_member

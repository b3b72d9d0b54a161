"""Sorting, the largest elements, drawing by weights, and dropout."""

import numpy as np

from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import check, contiguous, empty, host, launch, move
from tinytensor.core.dtypes import int64
from tinytensor.core.op import op
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension, only_floats
from tinytensor.ops.arrays import as_rows, setting
from tinytensor.ops.creation import zeros
from tinytensor.ops.generator import Generator, drawn_from
from tinytensor.ops.index import gather, no_index_is_bad
from tinytensor.ops.reduce import ValuesIndices
from tinytensor.ops.shape import make_contiguous, narrow, stack


@register("argsort Tensor.argsort")
def argsort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort x along `dim` (equal elements keep their order; NaN counts as the largest)."""
    dim = dimension(x, dim, "argsort")
    if x.ndim == 0:
        return zeros((), dtype=int64)
    last = np.moveaxis(x.detach()._data, dim, -1)
    rows = as_rows(last)
    index = empty(rows.shape, int64)
    launch(kernels.argsort, rows, int(descending), index)
    return Tensor.of(contiguous(np.moveaxis(index.reshape(last.shape), -1, dim)))


@register("sort Tensor.sort")
def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesIndices:
    """x in ascending (or descending) order along `dim`: (values, indices)."""
    index = argsort(x, dim, descending)
    return ValuesIndices((gather(x, dim, index) if x.ndim else x.clone(), index))


@register("topk Tensor.topk")
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest (or smallest) elements along `dim`, in order: (values, indices)."""
    at = dimension(x, dim, "topk")
    n = x.shape[at] if x.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(f"topk: k = {k} is outside 0 to {n}, the size of dimension {dim} of shape {x.shape}")
    if x.ndim == 0:
        return ValuesIndices((x.clone(), zeros((), dtype=int64)))
    index = make_contiguous(narrow(argsort(x, at, largest), at, 0, k))
    return ValuesIndices((gather(x, at, index), index))


@register("multinomial Tensor.multinomial")
def multinomial(p: Tensor, num_samples: int, replacement: bool = False, *, generator=None) -> Tensor:
    """Indices drawn with probabilities proportional to p (rows of a matrix, or one vector)."""
    if p.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: expected weights of shape (n,) or (rows, n), got {p.shape}")
    only_floats("multinomial", p)
    if not 0 < num_samples < 2**31:
        raise RuntimeError(f"multinomial: num_samples must be between 1 and 2**31 - 1, got {num_samples}")
    rows = as_rows(p.detach()._data if p.ndim == 2 else p.detach()._data[None])
    bad, needed = no_index_is_bad(), 1 if replacement else num_samples
    launch(kernels.check_weights, rows, needed, bad)
    check(bad, lambda bad: _refuse_weights(bad[1], needed))
    draws, bits = [], 24 if p.dtype.itemsize == 4 else 32  # more than a float32 holds would be rounded up to 1
    for _ in range(num_samples):
        at, u, y = empty((3,), int64), empty(rows.shape[:1], rows.dtype), empty(rows.shape[:1], int64)
        launch(kernels.next_draw, drawn_from("multinomial", generator).stream, at)
        launch(kernels.uniform, at, 32 - bits, setting(2.0**-bits, rows.dtype), u)
        launch(kernels.sample_rows, rows, u, y)
        draws.append(Tensor.of(y))
        if not replacement and num_samples > 1:
            remaining = empty(rows.shape, rows.dtype)
            move(rows, remaining)
            host(_strike_out, remaining, y)
            rows = remaining
    result = stack(draws, 1)
    return result if p.ndim == 2 else result[0]


@op
class dropped:
    r"y_i = s x_i where the number drawn for place i is below the threshold (of 2^{32}), else 0"

    def forward(x, at, threshold, scale):
        rows = contiguous(x).reshape(-1)
        y = empty(rows.shape, x.dtype)
        launch(kernels.drop, rows, at, threshold, setting(scale, x.dtype), y)
        return y.reshape(x.shape)

    def grad_x(g, at, threshold, scale):
        return dropped(g, at, threshold, scale)


def drop(x: Tensor, keep: float, generator: Generator | None = None) -> Tensor:
    """y = x / keep with probability `keep`, else 0, element by element.

    Only the number of the draw is kept; the gradient draws the same numbers again.
    """
    at = empty((3,), int64)
    launch(kernels.next_draw, drawn_from("dropout", generator).stream, at)
    return dropped(x, Tensor.of(at), round(keep * 2**32), 1 / keep)


def _refuse_weights(positive: int, needed: int) -> None:
    if positive < 0:
        raise RuntimeError("multinomial: the weights must be finite and not negative")
    raise RuntimeError(
        f"multinomial: a row has {positive} positive weights, too few for {needed} draws"
        f"{' without replacement' if needed > 1 else ''}"
    )


def _strike_out(rows: np.ndarray, chosen: np.ndarray) -> None:
    rows[np.arange(len(rows)), chosen] = 0

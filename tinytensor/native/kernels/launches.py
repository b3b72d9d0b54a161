"""The launches of native kernels that take more than a reference kernel's arguments: scratch, plans, several launches.

An operation launches `matmul(a, b, term, relu, y)`; what blocks there are, and the memory that they need, is decided
here. `launch_matmul` has the parameters of the reference kernel `matmul`.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from tinytensor.core import backend
from tinytensor.core.dispatch import contiguous, empty, launch
from tinytensor.core.kernel import KERNELS
from tinytensor.core.reference import REFERENCE
from tinytensor.core.state import state
from tinytensor.native.kernels import attention, copy, index, matmul, matvec, norm, reduce, scan, sums, update
from tinytensor.native.runtime.native_backend import Native

FUSED = ("sgd", "adam")  # whole steps of optimizers, which the reference backend makes by their rules
SHORT = 32  # products of a row by a vector that matmul adds one after another


class Planned:
    """A kernel whose `plan`, a function of this file, makes the launches."""

    def __init__(self, name: str, plan: Callable):
        self.name, self.plan = name, plan

    def __repr__(self):
        return f"<kernel {self.name}>"


PLANNED: dict[str, Planned] = {}


def planned(plan: Callable) -> Callable:
    """Declare the function `launch_NAME`, which makes the launches of the reference kernel NAME."""
    name = plan.__name__.removeprefix("launch_")
    PLANNED[name] = Planned(name, plan)
    return plan


# --- Sums

sum_parts = lru_cache(maxsize=1024)(reduce.sum_parts)  # it takes as long as a small sum


def sum_in_parts(whole, partial, x, y) -> None:
    """A long sum in two launches, partial sums and then their sum; one launch if there are rows for all threads."""
    while (parts := sum_parts(*x.shape)) > 1:
        part_sums = empty((x.shape[0], parts, x.shape[2]), y.dtype)
        launch(partial, x, part_sums)
        whole, partial, x = reduce.reduce_sum, reduce.partial_sum, part_sums
    launch(whole, x, y)


@planned
def launch_reduce_sum(x, y):
    sum_in_parts(reduce.reduce_sum, reduce.partial_sum, x, y)


@planned
def launch_reduce_squares(x, y):
    sum_in_parts(reduce.reduce_squares, reduce.partial_squares, x, y)


@planned
def launch_sum_of_squares(y, *xs):
    parts = [update.sumsq_parts(x.size) for x in xs]
    all_parts, begin = empty((sum(parts),), y.dtype), 0
    for x, n in zip(xs, parts):
        launch(update.sumsq, x, all_parts[begin : begin + n])
        begin += n
    launch(reduce.reduce_sum, all_parts.reshape(1, -1, 1), y.reshape(1, 1))


@planned
def launch_cumsum(x, reverse, y):
    launch(scan.cumsum, x, reverse, y, empty((x.shape[0], x.shape[2]), x.dtype))


@planned
def launch_argsort(x, descending, y):
    launch(index.argsort, x, descending, y, empty(x.shape, y.dtype))


# --- Norms: each block of rows adds up its own part of the weight's gradient


def sum_in_blocks(kernel, x, y, *args) -> None:
    """Launch the backward kernel of a norm, whose last argument is the sums of each block; y is their sums."""
    blocks = norm.norm_blocks(*x.shape)
    partial = y[:, None] if blocks == 1 else empty((len(y), blocks, y.shape[1]), x.dtype)
    launch(kernel, *args, partial)
    if blocks > 1 and y.size:
        launch(reduce.reduce_sum, partial, y)


@planned
def launch_layer_norm_backward(g, x, weight, mean, rstd, dx, sums):
    sum_in_blocks(norm.layer_norm_backward, x, sums, g, x, weight, mean, rstd, dx)


@planned
def launch_rms_norm_backward(g, x, weight, rstd, dx, sums):
    sum_in_blocks(norm.rms_norm_backward, x, sums, g, x, weight, rstd, dx)


# --- Products, attention


@lru_cache(maxsize=64)
def _nothing(n: int, dtype: np.dtype) -> np.ndarray:
    """An empty array, by which the kernel recognises that no block of a is packed."""
    return np.empty((n, 0, 0), dtype)


@planned
def launch_matmul(a, b, term, relu, y):
    if y.shape[2] == 1 and a.shape[2] > SHORT and term.size == 0 and not relu:
        dense = a.itemsize in a.strides[1:]
        if dense or a.shape[2] > sums.BLOCK:
            launch(matvec.matvec, a if dense else contiguous(a), contiguous(b[:, :, 0]), y[:, :, 0])
            return
    in_program = state.recording is not None and state.recording.in_program
    plan = matmul.matmul_plan(*a.shape, b.shape[2], a.itemsize, a.strides[1:], in_program)
    rows, columns, panels, copies = plan
    packed_a = empty(copies, a.dtype) if copies[0] else _nothing(0, a.dtype)
    launch(matmul.matmul, a, b, term, relu, rows, columns, y, empty(panels, a.dtype), packed_a)


@planned
def launch_attention(q, k, v, mask, scale, is_causal, y, lse):
    B, H, C, K = q.shape
    M, Kv = v.shape[2:]
    if C == 1:
        scratch = empty(attention.attention_of_one_scratch(B, H, M, K, Kv), q.dtype)
        launch(attention.attention_of_one, q, k, v, mask, scale, is_causal, y, lse, scratch)
    else:
        scratch = empty(attention.attention_scratch(B, H, C, M, K, Kv), q.dtype)
        launch(attention.attention, q, k, v, mask, scale, is_causal, y, lse, scratch)


@planned
def launch_attention_backward(g, q, k, v, mask, y, lse, scale, is_causal, dq, dk, dv):
    scratch = empty(attention.attention_backward_scratch(*q.shape[:3], *v.shape[2:3], q.shape[3], v.shape[3]), q.dtype)
    launch(attention.attention_backward, g, q, k, v, mask, y, lse, scale, is_causal, dq, dk, dv, scratch)


backend.use(Native(copy.copy), {name: PLANNED.get(name) or KERNELS[name] for name in (*REFERENCE, *FUSED)})

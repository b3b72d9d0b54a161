"""Collective operations, which all ranks make together: sums, copies, barriers.

MPI carries bytes, and kernels add numbers: first rank 0's, then rank 1's, and so on, for any machine, MPI and array
size. So all ranks get the same bits in each run. (MPI's own Allreduce adds in an order of its choice, which may depend
on all of these.) A sum takes two rounds, as MPI's own does for large arrays: each rank receives the others' numbers of
one part of the array and adds them up; then each sends its sums to all. So a rank sends about twice the array, for any
number of ranks.

Each of these functions is a host call (dispatch.py): a recorded step repeats it at each replay.
"""

import pickle
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from tinytensor.core.dispatch import empty, host, move
from tinytensor.core.poison import LINE
from tinytensor.core.recorder import notice
from tinytensor.core.tensor import Tensor
from tinytensor.distributed.group import Group
from tinytensor.distributed.group import group as joined
from tinytensor.ops.elementwise import add, maximum, minimum, mul, true_divide


class ReduceOp(Enum):
    """The operation by which all_reduce combines the ranks' tensors."""

    SUM, AVG, PRODUCT, MIN, MAX = "sum", "avg", "product", "min", "max"


_PAIRWISE = {ReduceOp.SUM: add, ReduceOp.AVG: add, ReduceOp.PRODUCT: mul, ReduceOp.MIN: minimum, ReduceOp.MAX: maximum}


def _all(what: str, process_group: None, async_op: bool = False) -> Group:
    """The group of all ranks, the only one."""
    here = joined(what)
    if process_group is not None:
        raise ValueError(f"{what}: there is one group, of all ranks; leave group out")
    if async_op:
        raise ValueError(
            f"{what}: async_op is not offered; DistributedDataParallel sends gradients while backward goes on"
        )
    return here


def _ready(what: str, tensor: Tensor, process_group: None, async_op: bool) -> Group:
    """The group, after a check of the arguments of a collective operation."""
    here = _all(what, process_group, async_op)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{what}: expected a tensor, got {type(tensor).__name__}")
    if tensor.is_meta or tensor.dtype.kind == "O":
        raise TypeError(f"{what}: a tensor of {'meta' if tensor.is_meta else 'exact scalars'} has no bytes to send")
    notice(tensor)
    return here


def parted(n: int, itemsize: int, ranks: int) -> tuple[int, int]:
    """The shape of an array that holds n numbers, in a row for each rank, such that no cache line is in two rows."""
    line = LINE // itemsize
    return ranks, -(-n // (ranks * line)) * line


def combined(parts: np.ndarray, op: ReduceOp) -> np.ndarray:
    """Combine row 0 with row 1, the result with row 2, and so on; the final result is in row 0."""
    total = Tensor.of(parts[0])
    for part in parts[1:]:
        _PAIRWISE[op](total, Tensor.of(part), into=total)
    if op is ReduceOp.AVG:
        true_divide(total, len(parts), into=total)
    return parts[0]


def check_op(what: str, op: ReduceOp, tensor: Tensor) -> None:
    """Raise for an operation that the tensor's dtype does not support."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{what}: expected a ReduceOp as op (ReduceOp.SUM, say), got {op!r}")
    if tensor.dtype.kind == "b" or (op is ReduceOp.AVG and tensor.dtype.kind != "f"):
        raise RuntimeError(f"{what}: ReduceOp.{op.name} of a tensor of {tensor.dtype}; convert it to float first")


def _wait_for(here: Group, start: str, *arrays: np.ndarray) -> None:
    here.wait(getattr(here, start)(*arrays), "all_reduce")


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: None = None, async_op: bool = False) -> None:
    """Replace this tensor by the sum over all ranks (or the result of `op`), on each rank.

    y = ((x_0 + x_1) + x_2) + ...: in the order of the ranks, so that all ranks, and all runs, get the same bits. All
    ranks call it with tensors of one shape and dtype. It is not on the tape. RuntimeError for a tensor of bools, or a
    mean of whole numbers; ValueError if there is no group.
    """
    here = _ready("all_reduce", tensor, group, async_op)
    check_op("all_reduce", op, tensor)
    array = tensor._data
    sent, received = (empty(parted(array.size, array.itemsize, here.size), array.dtype) for _ in range(2))
    own = sent.reshape(-1)[: array.size].reshape(array.shape)
    move(array, own)
    host(_wait_for, here, "exchange", sent, received)
    host(_wait_for, here, "gather", combined(received, op), sent)
    move(own, array)
    tensor._version.count += 1


def broadcast(tensor: Tensor, src: int = 0, group: None = None, async_op: bool = False) -> None:
    """Replace this tensor by that of rank `src`, on each rank; all have one shape and dtype.

    ValueError if there is no such rank, or no group.
    """
    here = _ready("broadcast", tensor, group, async_op)
    if src not in range(here.size):
        raise ValueError(f"broadcast: src={src}, but the ranks are 0 to {here.size - 1}")
    array = empty(tensor.shape, tensor.dtype)
    move(tensor._data, array)
    host(_wait_for, here, "spread", array, src)
    move(array, tensor._data)
    tensor._version.count += 1


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: None = None, async_op: bool = False) -> None:
    """Put each rank's tensor into the list, on each rank: that of rank r at place r; all have one shape and dtype."""
    here = _ready("all_gather", tensor, group, async_op)
    if len(tensor_list) != here.size:
        raise ValueError(f"all_gather: a list of {len(tensor_list)} tensors for {here.size} ranks")
    for other in tensor_list:
        if (other.shape, other.dtype) != (tensor.shape, tensor.dtype):
            raise ValueError(
                f"all_gather: the list holds a tensor {other.shape} of {other.dtype}, but the gathered tensor is "
                f"{tensor.shape} of {tensor.dtype}"
            )
        notice(other)
    own, received = empty(tensor.shape, tensor.dtype), empty((here.size, *tensor.shape), tensor.dtype)
    move(tensor._data, own)
    host(_wait_for, here, "gather", own, received)
    for other, row in zip(tensor_list, received, strict=True):
        move(row, other._data)
        other._version.count += 1


def barrier(group: None = None, async_op: bool = False) -> None:
    """Wait until all ranks have called it."""
    here = _all("barrier", group, async_op)
    host(lambda: here.wait(here.comm.Ibarrier(), "barrier"))


def all_gather_object(object_list: list, obj: Any, group: None = None) -> None:
    """Put each rank's object into the list, on each rank; an object may be any that can be pickled."""
    here = _all("all_gather_object", group)
    if len(object_list) != here.size:
        raise ValueError(f"all_gather_object: a list of length {len(object_list)} for {here.size} ranks")
    data = np.frombuffer(pickle.dumps(obj), np.uint8)
    lengths = [int(n) for (n,) in here.numbers(data.size)]
    own, received = np.zeros(max(lengths), np.uint8), np.empty((here.size, max(lengths)), np.uint8)
    own[: data.size] = data
    here.wait(here.gather(own, received), "all_gather_object")
    object_list[:] = [pickle.loads(row[:n].tobytes()) for row, n in zip(received, lengths, strict=True)]


def broadcast_object_list(object_list: list, src: int = 0, group: None = None) -> None:
    """Put the objects of rank `src` into this list, on each rank."""
    here = _all("broadcast_object_list", group)
    if src not in range(here.size):
        raise ValueError(f"broadcast_object_list: src={src}, but the ranks are 0 to {here.size - 1}")
    everyones: list = [None] * here.size
    all_gather_object(everyones, list(object_list) if here.rank == src else None)
    object_list[:] = everyones[src]

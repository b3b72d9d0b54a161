"""DistributedDataParallel: train one model on several processes, each with a part of the batch.

Every rank has all weights, and computes the gradient of its part of the batch. The sum of these gradients is that of
the whole batch; then each rank takes the same step. Only gradients are sent, the first while `backward()` computes the
others: parameters are grouped in buckets, the last ones first, since backward() reaches these first. When the last
gradient of a bucket is complete, its numbers go to the ranks that add them up; when the next bucket is complete, the
sums of the first one go back to all. `backward()` returns when all sums have arrived.

The additions are kernels, in the order of the ranks (distributed/collectives.py), and the messages are host calls. So a
step under `tinytensor.compile` replays them at the same places, between the launches that compute the gradients.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinytensor.autograd.backward import queue_callback
from tinytensor.core.dispatch import host, move
from tinytensor.core.memory_order import laid_like
from tinytensor.core.modes import no_grad
from tinytensor.core.recorder import notice
from tinytensor.core.tensor import Tensor
from tinytensor.distributed.collectives import ReduceOp, all_gather_object, broadcast, combined, parted
from tinytensor.distributed.group import Group, group
from tinytensor.nn.module import Module, Parameter

MEGABYTE = 1 << 20
BUCKET_MB = 1.0  # small enough to stay in a processor's cache; each bucket costs two messages to each rank


class _Bucket:
    """Parameters whose gradients are sent together, and the memory of these gradients."""

    def __init__(self, parameters: list[tuple[str, Parameter]], here: Group):
        self.here, self.names = here, {p: name for name, p in parameters}
        dtype = parameters[0][1].dtype
        size = sum(p.numel() for _, p in parameters)
        shape = parted(size, dtype.itemsize, here.size)
        self.sent, self.received = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.grads: dict[Parameter, Tensor] = {}  # the later .grad: the parameter's part of `sent`
        start, flat = 0, self.sent.reshape(-1)
        for _, p in parameters:
            self.grads[p] = Tensor.of(laid_like(flat[start : start + p.numel()], p._data))
            start += p.numel()
        self.missing = set(self.names)  # parameters whose gradients backward() has not completed yet
        self.request: Any = None  # the message that is being sent

    def begin(self, call: str, *arrays: np.ndarray) -> None:
        self.request = getattr(self.here, call)(*arrays)

    def end(self, *arrays: np.ndarray) -> None:
        """Wait for the message, which fills these arrays."""
        self.here.wait(self.request, "DistributedDataParallel")
        self.request = None


class _Reducer:
    """Fills the buckets while backward() goes on, and sends them in their order, which is the same on all ranks."""

    def __init__(self, parameters: list[tuple[str, Parameter]], here: Group, size: float, op: ReduceOp, unused: bool):
        self.op, self.unused = op, unused
        self.buckets: list[_Bucket] = []
        waiting: dict[np.dtype, list] = {}
        for name, p in reversed(parameters):
            waiting.setdefault(p.dtype, []).append((name, p))
            if sum(q._data.nbytes for _, q in waiting[p.dtype]) >= size:
                self.buckets.append(_Bucket(waiting.pop(p.dtype), here))
        self.buckets += [_Bucket(rest, here) for rest in waiting.values()]
        self.bucket_of = {p: bucket for bucket in self.buckets for p in bucket.names}
        self.local = False  # within no_sync(): gradients stay here, and add up
        self._begin()
        for p in self.bucket_of:
            p.register_post_accumulate_grad_hook(self._complete)

    def _begin(self) -> None:
        """Prepare for the next backward()."""
        self.walking, self.sent = False, 0  # the number of buckets that have been sent
        for bucket in self.buckets:
            bucket.missing = set(bucket.names)

    def _complete(self, p: Parameter) -> None:
        """Called when this parameter's gradient is complete."""
        if self.local:
            return
        if not self.walking:
            self.walking = True
            queue_callback(self._finish)
        bucket = self.bucket_of[p]
        grad, current = bucket.grads[p], p.held_grad()
        if current is not grad:
            notice(grad)
            move(current._data, grad._data)
            grad._version.count += 1
            p.grad = grad
        elif self.op is not ReduceOp.AVG:  # a mean is right: the old gradient is equal on all ranks, so it stays
            raise RuntimeError(
                f"DistributedDataParallel: {bucket.names[p]} had a gradient already, the sum of all ranks', which "
                "would be summed again: set it to None first (optimizer.zero_grad())"
            )
        bucket.missing.discard(p)
        self._send()

    def _send(self) -> None:
        """Send the next buckets that are full; after each, the sums of the one before go back to all ranks."""
        while self.sent < len(self.buckets) and not self.buckets[self.sent].missing:
            bucket = self.buckets[self.sent]
            host(bucket.begin, "exchange", bucket.sent, bucket.received)
            if self.sent:
                self._add_up(self.buckets[self.sent - 1])
            self.sent += 1

    def _add_up(self, bucket: _Bucket) -> None:
        host(bucket.end, bucket.received)
        host(bucket.begin, "gather", combined(bucket.received, self.op), bucket.sent)

    def _finish(self) -> None:
        """Called at the end of backward(): wait until all sums have arrived."""
        unused = [(p, bucket) for bucket in self.buckets for p in bucket.names if p in bucket.missing]
        if unused and not self.unused:
            names = ", ".join(bucket.names[p] for p, bucket in unused[:5])
            raise RuntimeError(
                f"DistributedDataParallel: backward() found no gradient of {names}, and other ranks may wait for it; "
                "with find_unused_parameters=True such a gradient counts as zeros"
            )
        with no_grad():
            for p, bucket in unused:
                bucket.grads[p].zero_()
                p.grad = bucket.grads[p]
                bucket.missing.discard(p)
        self._send()
        self._add_up(self.buckets[-1])
        for bucket in self.buckets:
            host(bucket.end, bucket.sent)
        self._begin()


class DistributedDataParallel(Module):
    r"""g = \frac{1}{n} \sum_r g_r: the gradients that `backward()` leaves are the mean of those of n ranks.

    It wraps `module` and is called like it: each rank calls it with its own part of the batch. When it is made, all
    ranks get the weights and buffers of rank 0. From then on they have the same bits, since each takes the same steps:
    the additions are made in the order of the ranks. With `reduce_op=ReduceOp.SUM` the gradients are summed: use it if
    each rank divides its loss by the joint count of all ranks.

    `bucket_cap_mb` is the size of a bucket of gradients in megabytes. `.grad` is a part of that memory, which the next
    backward() overwrites. `broadcast_buffers` sends rank 0's buffers to all before each call in training. With
    `find_unused_parameters` a parameter that was not used has a gradient of zeros; otherwise RuntimeError. ValueError
    if there is no group, or the ranks have different modules. The names of `state_dict()` begin with "module.", as in
    PyTorch; `ddp.module.state_dict()` has those of the module.

    From Li and others, "PyTorch Distributed" (2020).
    """

    def __init__(
        self,
        module: Module,
        device_ids: None = None,
        output_device: None = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        process_group: None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        *,
        reduce_op: ReduceOp = ReduceOp.AVG,
    ):
        super().__init__()
        here = group("DistributedDataParallel")
        if device_ids is not None or output_device is not None or dim != 0 or process_group is not None:
            raise ValueError(
                "DistributedDataParallel: each rank is a process on the CPU, in one group, with a part of a batch: "
                "leave out device_ids, output_device, dim and process_group"
            )
        if reduce_op not in (ReduceOp.AVG, ReduceOp.SUM):
            raise ValueError(
                f"DistributedDataParallel: reduce_op must be ReduceOp.AVG or ReduceOp.SUM, not {reduce_op!r}"
            )
        parameters = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not parameters:
            raise ValueError(f"DistributedDataParallel: {type(module).__name__} has no parameter that requires grad")
        _check_equal(here, module)
        self.module, self.broadcast_buffers = module, broadcast_buffers
        for tensor in (*module.parameters(), *module.buffers()):
            broadcast(tensor)
        self._reducer = None
        if here.size > 1:
            size = (BUCKET_MB if bucket_cap_mb is None else bucket_cap_mb) * MEGABYTE
            self._reducer = _Reducer(parameters, here, size, reduce_op, find_unused_parameters)

    def forward(self, *args, **kwargs) -> Any:
        if self.broadcast_buffers and self.training:
            for buffer in self.module.buffers():
                broadcast(buffer)
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within this, backward() adds up gradients on each rank; the first one outside sends all of them."""
        if self._reducer is None:
            yield
            return
        self._reducer.local = True
        try:
            yield
        finally:
            self._reducer.local = False


def _check_equal(here: Group, module: Module) -> None:
    """Raise ValueError if the ranks have different modules: their messages would not match."""
    own = [(name, t.shape, t.dtype.str) for name, t in (*module.named_parameters(), *module.named_buffers())]
    everyones: list = [None] * here.size
    all_gather_object(everyones, own)
    for rank, theirs in enumerate(everyones):
        if theirs != everyones[0]:
            first = next(((a, b) for a, b in zip(everyones[0], theirs) if a != b), None)
            how = f"{first[0][0]} {first[0][1]} and {first[1][0]} {first[1][1]}" if first else "one has more"
            raise ValueError(f"DistributedDataParallel: ranks 0 and {rank} have different modules: {how}")

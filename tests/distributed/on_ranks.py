"""What the tests let several ranks do: `mpiexec -n 3 python tests/distributed/on_ranks.py collectives`.

Each function checks on every rank what can be checked there, and returns what rank 0 is to print, as JSON.
"""

import copy
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from models.data import text
from models.data.text import IGNORE_INDEX
from models.data.tokenizers import CharTokenizer
from models.decoder import Config, Decoder
from models.tasks.text import TextTask
from models.training import ranks
from models.training.trainer import Settings, Trainer
from tinytensor import distributed as dist
from tinytensor import nn
from tinytensor.core import tape
from tinytensor.core.op import Node
from tinytensor.nn import functional as F
from tinytensor.nn.parallel import DistributedDataParallel

VERSE = "the cat sat on the mat; the dog lay by the door. a bird sang in the tree, and the rain fell on the roof.\n"
U = np.finfo(np.float32).eps / 2


def everyones(value) -> list:
    result = [None] * dist.get_world_size()
    dist.all_gather_object(result, value)
    return result


def refused(cls: type[Exception], words: str, call) -> None:
    with pytest.raises(cls, match=re.escape(words)):
        call()


def bits(tensors) -> str:
    return hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in tensors)).hexdigest()


# --- Collectives


def collectives():
    rank, size = dist.get_rank(), dist.get_world_size()
    generators = [np.random.default_rng(r) for r in range(size)]
    for shape in ((), (1,), (7,), (3, 5), (64, 65), (0, 3)):
        for dtype in (tt.float32, tt.float64, tt.int32, tt.int64, tt.uint8):
            drawn = [np.asarray(g.normal(size=shape) * 50).astype(dtype) for g in generators]
            for op, combine in (("SUM", np.add), ("PRODUCT", np.multiply), ("MIN", np.minimum), ("MAX", np.maximum)):
                expected = drawn[0]
                for other in drawn[1:]:
                    expected = combine(expected, other)
                x = tt.tensor(drawn[rank])
                dist.all_reduce(x, dist.ReduceOp[op])
                assert x.numpy().tobytes() == np.asarray(expected).tobytes(), (op, shape, dtype)
            x = tt.tensor(drawn[rank])
            dist.broadcast(x, src=size - 1)
            assert x.numpy().tobytes() == drawn[-1].tobytes()
            every = [tt.zeros(shape, dtype=dtype) for _ in range(size)]
            dist.all_gather(every, tt.tensor(drawn[rank]))
            assert [e.numpy().tobytes() for e in every] == [d.tobytes() for d in drawn]
    x = tt.full((3,), rank + 1.0)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert x.tolist() == [(size + 1) / 2] * 3
    mask = tt.tensor([rank == 0, rank == size - 1])
    dist.broadcast(mask, size - 1)
    assert mask.tolist() == [size == 1, True]
    x = tt.arange(6.0).reshape(2, 3).t()  # not in one piece
    dist.all_reduce(x)
    assert x.tolist() == [[0, 3.0 * size], [size, 4.0 * size], [2.0 * size, 5.0 * size]]
    objects = [f"rank {rank}", None]
    dist.broadcast_object_list(objects, size - 1)
    assert objects == [f"rank {size - 1}", None]
    dist.barrier()

    @tt.compile(fullgraph=True)
    def step(x):
        total = x * (rank + 1)
        dist.all_reduce(total)
        return total.sum()

    assert [step(tt.full((40,), float(i))).item() for i in range(4)] == [20.0 * i * size * (size + 1) for i in range(4)]

    leaf = tt.ones(2, requires_grad=True)
    y = leaf * leaf
    dist.broadcast(leaf)
    refused(RuntimeError, "changed in place", y.sum().backward)

    for op, x in (("SUM", tt.zeros(2, dtype=tt.bool)), ("AVG", tt.zeros(2, dtype=tt.int64))):
        refused(RuntimeError, "convert it to float", partial(dist.all_reduce, x, dist.ReduceOp[op]))
    refused(TypeError, "expected a tensor, got list", lambda: dist.all_reduce([1.0]))
    refused(TypeError, "expected a ReduceOp", lambda: dist.all_reduce(tt.zeros(2), "sum"))
    refused(TypeError, "has no bytes", lambda: dist.all_reduce(tt.empty(2, device="meta")))
    refused(ValueError, "there is one group", lambda: dist.all_reduce(tt.zeros(2), group="mine"))
    refused(ValueError, "async_op is not offered", lambda: dist.broadcast(tt.zeros(2), 0, async_op=True))
    refused(ValueError, f"the ranks are 0 to {size - 1}", lambda: dist.broadcast(tt.zeros(2), size))
    refused(ValueError, "the ranks are 0 to", lambda: dist.broadcast_object_list([1], -1))
    refused(ValueError, f"for {size} ranks", lambda: dist.all_gather([], tt.zeros(2)))
    refused(ValueError, "but the gathered tensor is", lambda: dist.all_gather([tt.zeros(3)] * size, tt.zeros(2)))
    refused(ValueError, f"for {size} ranks", lambda: dist.all_gather_object([], 1))
    refused(RuntimeError, "belongs to a group already", dist.init_process_group)
    dist.destroy_process_group()
    refused(ValueError, "call init_process_group() first", dist.get_rank)
    refused(ValueError, "call init_process_group() first", lambda: dist.all_reduce(tt.zeros(1)))
    refused(ValueError, "call init_process_group() first", lambda: DistributedDataParallel(nn.Linear(1, 1)))
    refused(ValueError, "backend 'nccl'", lambda: dist.init_process_group("nccl"))
    refused(ValueError, "world_size=17, but MPI says", lambda: dist.init_process_group(world_size=17))
    dist.init_process_group("mpi", world_size=size, rank=rank)
    cores = len(os.sched_getaffinity(0))
    assert tt.get_num_threads() == max(1, cores // size)
    return everyones(rank)


# --- DistributedDataParallel


def data_parallel():
    """A module of two kinds of numbers, whose gradients are the mean; in eager mode and recorded, the same bits."""
    rank, size = dist.get_rank(), dist.get_world_size()
    seen = []
    for compiled in (False, True):
        tt.manual_seed(100 * rank)  # construction makes them equal
        model = nn.Sequential(nn.Linear(4, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 3))
        ddp = DistributedDataParallel(model, bucket_cap_mb=1e-4)
        assert len(set(everyones(bits(model.parameters())))) == 1
        assert next(iter(ddp.state_dict())) == "module.0.weight"
        optimizer = tt.optim.AdamW(model.parameters(), lr=0.01)

        def step(x, y, ddp=ddp, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(ddp(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = tt.compile(step, fullgraph=True) if compiled else step
        rng, every = np.random.default_rng(rank), []
        for number in range(6):
            if number % size == rank:
                time.sleep(0.05)  # ranks of unequal speed
            run(tt.tensor(rng.normal(size=(5, 4)).astype(np.float32)), tt.tensor(rng.integers(0, 3, 5)))
            every.append(bits([*model.parameters(), *(p.grad for p in model.parameters())]))
        assert all(len(set(entry)) == 1 for entry in zip(*everyones(every)))  # at every step
        if compiled:
            assert sum(map(len, run.recordings.values())) == 1
        seen.append(every)
    assert seen[0] == seen[1]

    # the mean of what each rank has alone, and sums under no_sync()
    model = nn.Linear(3, 2)
    ddp = DistributedDataParallel(model)
    x = tt.tensor(np.random.default_rng(rank).normal(size=(4, 3)).astype(np.float32))
    alone = tt.autograd.grad((model(x) ** 2).sum(), list(model.parameters()))
    dist_mean = [a.clone() for a in alone]
    for mean in dist_mean:
        dist.all_reduce(mean, dist.ReduceOp.AVG)
    (ddp(x) ** 2).sum().backward()
    assert all((p.grad == mean).all() for p, mean in zip(model.parameters(), dist_mean))
    ddp.zero_grad()
    with ddp.no_sync():
        (ddp(x) ** 2).sum().backward()
        assert all((p.grad == a).all() for p, a in zip(model.parameters(), alone))
    (ddp(x) ** 2).sum().backward()
    assert all(tt.allclose(p.grad, 2 * mean) for p, mean in zip(model.parameters(), dist_mean))

    if size > 1:
        refused(ValueError, "have different modules", lambda: DistributedDataParallel(nn.Linear(3, 2 + rank)))
        summed = DistributedDataParallel(nn.Linear(3, 2), reduce_op=dist.ReduceOp.SUM)
        summed(x).sum().backward()
        refused(RuntimeError, "would be summed again", lambda: summed(x).sum().backward())
        two = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2)])
        for unused in (False, True):
            both = DistributedDataParallel(two, find_unused_parameters=unused)
            if unused:
                two[0](x).sum().backward()
                assert two[1].weight.grad.abs().sum().item() == 0
            else:
                refused(RuntimeError, "found no gradient of 1.", lambda: two[0](x).sum().backward())
            for p in two.parameters():
                p._post_accumulate_grad_hooks.clear()
            del both
    refused(ValueError, "no parameter that requires grad", lambda: DistributedDataParallel(nn.ReLU()))
    refused(ValueError, "leave out device_ids", lambda: DistributedDataParallel(nn.Linear(1, 1), device_ids=[0]))
    refused(ValueError, "reduce_op must be", lambda: DistributedDataParallel(nn.Linear(1, 1), reduce_op=max))
    return seen[0]


# --- The joint batch

SMALL = Config(D=16, H=2, F=24, L=2, V=20, C=12)


def leads_to_a_leaf(edge) -> bool:
    """Is there nothing between here and a leaf but another look at its numbers?"""
    views = isinstance(edge, Node) and (edge.op.view is not None or edge.op.name == "clone")
    return isinstance(edge, tt.Tensor) or (views and all(leads_to_a_leaf(e) for e in edge.edges if e is not None))


def absolute(value):
    array = getattr(value, "_data", value)
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return value
    return tt.Tensor.of(np.abs(array)) if isinstance(value, tt.Tensor) else np.abs(array)


def sums_of_absolute_terms(model, loss) -> dict[str, np.ndarray]:
    """For each entry of each gradient, a sum over rows t of x_t dy_t: the sum of |x_t| |dy_t|.

    A rule that gives the gradient of a weight is linear in what arrives and in the input, so that it gives this when
    it is called with absolute values. All other gradients stay as they are.
    """
    plain = tape._gradients

    def gradients(node, g, *how):
        result = plain(node, g, *how)
        ends = [edge is not None and leads_to_a_leaf(edge) for edge in node.edges]
        if not any(ends) or leads_to_a_leaf(node):
            return result
        twin = copy.copy(node)
        twin.saved = {name: absolute(value) for name, value in node.saved.items()}
        positive = plain(twin, g.abs(), *how)
        return [a if end else r for a, r, end in zip(positive, result, ends)]

    tape._gradients = gradients
    try:
        loss.backward()
    finally:
        tape._gradients = plain
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


def joint_batch(rows: int, drop: bool) -> dict:
    """How far the gradients of all ranks are from those of one process, in units of the bound on rounding.

    The bound is derived in examples/guide/processes.md. With `drop` the last rank's gradient is lost.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, SMALL.V, (2, rows, SMALL.C))
    y[0, 3:] = y[-1, ::2] = IGNORE_INDEX  # parts count different numbers of targets
    counted = int((y != IGNORE_INDEX).sum())

    def made():
        tt.manual_seed(1)
        return Decoder(SMALL)

    one = made()
    whole, loss = one(tt.tensor(x), tt.tensor(y))
    loss.backward()
    expected = {name: p.grad.numpy() for name, p in one.named_parameters()}
    second = made()
    terms = sums_of_absolute_terms(second, second(tt.tensor(x), tt.tensor(y))[1])

    model = made()
    own = ranks.rows_of((x, y), (0, IGNORE_INDEX), rank, size)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.002, reduce_op=dist.ReduceOp.SUM)
    logits, part = ddp(tt.tensor(own[0]), tt.tensor(own[1]), total=tt.tensor(float(counted)))
    n = len(logits)
    here = whole[rank * n : (rank + 1) * n].detach().numpy()
    assert logits[: len(here)].detach().numpy().tobytes() == here.tobytes()  # rows know nothing of each other
    ((part * 0) if drop and rank == size - 1 else part).backward()
    gamma = (rows * SMALL.C + size + 1) * U
    gamma /= 1 - gamma
    worst, different = 0.0, 0
    for name, p in model.named_parameters():
        error = np.abs(p.grad.numpy().astype(float) - expected[name])
        bound = 2 * gamma * terms[name].astype(float) * (1 + 2 * gamma)
        assert (error[bound == 0] == 0).all()
        worst = max(worst, (error[bound > 0] / bound[bound > 0]).max())
        different += int((error > 0).sum())
    assert len(set(everyones(bits(p.grad for p in model.parameters())))) == 1
    return {"worst": worst, "different": different, "entries": sum(p.numel() for p in model.parameters())}


def curve(rows: int, dtype=tt.float32, dropout: float = 0.0, eager: bool = False, lost: str | None = None) -> dict:
    """What a run computes: the weights are the same bits on all ranks at every step, and begin the same in each dtype.

    Rank 0's gradient of the parameter `lost` is zeros.
    """
    corpus = text.prepare([VERSE * 12], CharTokenizer)
    config = Config(D=8, H=2, F=12, L=2, V=corpus.tokenizer.vocab_size, C=10, dropout=dropout)
    tt.manual_seed(0)
    beginning = Decoder(config).state_dict()  # float32, which float64 holds exactly
    tt.set_default_dtype(dtype)
    settings = Settings(steps=25, batch_size=rows, lr=0.02, warmup=5)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(TextTask(config, corpus, None), settings, Path(folder), eager=eager)
        trainer.model.load_state_dict(beginning)
        if lost is not None and trainer.rank == 0:
            dict(trainer.model.named_parameters())[lost].register_hook(lambda g: g * 0)
        trainer.join()
        losses, norms, every = [], [], []
        for number in range(settings.steps):
            if number % 7 == 3 * trainer.rank:
                time.sleep(0.02)
            losses.append(trainer.advance())
            norms.append(trainer.norm.item())
            every.append(bits([*trainer.model.parameters(), trainer.norm]))
    result = everyones(every)
    assert all(len(set(step)) == 1 for step in zip(*result))
    assert len(set(every)) == settings.steps
    tt.set_default_dtype(tt.float32)
    last = np.concatenate([p.detach().numpy().ravel() for p in trainer.model.parameters()])
    return {"losses": losses, "norms": norms, "weights": last.tolist(), "bits": every}


def everything() -> dict:
    """All of the above, in one start."""
    collectives()
    return {
        "data parallel": data_parallel(),
        "joint": [joint_batch(rows, drop=False) for rows in (7, 2)],
        "dropped": joint_batch(7, drop=True),
        "float64": curve(7, tt.float64, dropout=0.2),
        "float32": curve(7, dropout=0.2),
        "eager": curve(7, dropout=0.2, eager=True),
        "one row": curve(1, dropout=0.2),
        "lost": curve(7, dropout=0.2, eager=True, lost="blocks.1.b"),
    }


# --- What goes wrong


def fails(how, at="1"):
    """The last rank fails in some way at a moment when the others wait for it."""
    x = tt.ones(3)
    for _ in range(int(at)):
        dist.all_reduce(x)
    if dist.get_rank() == dist.get_world_size() - 1:
        if how == "raises":
            raise ArithmeticError("what nobody expects")
        if how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "leaves":
            sys.exit(3)
        if how == "makes another call":
            time.sleep(600)  # beyond the limit of the test
    dist.all_reduce(x)
    dist.barrier()


def main():
    name, *arguments = sys.argv[1:]
    waits = timedelta(seconds=2) if "makes another call" in arguments else None
    dist.init_process_group(timeout=waits)
    result = globals()[name](*arguments)
    if dist.get_rank() == 0:
        print(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

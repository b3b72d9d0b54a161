"""python -m tests.benchmarks.ranks: several ranks against one process, what they say, and how far it goes on paper.

It starts itself under mpiexec, with one thread a rank, and prints tables:

- a ping-pong between two ranks: the time of an empty message (alpha), and of a byte of a long one (1 / beta);
- training steps on 1 and on 2 ranks: tokens a second, the share of the time in MPI, the bytes that a rank sends;
- the model on paper, `predicted`, with these figures, for more ranks than there are processors here.

The measured rows are only worth something on processors that nobody else uses.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.tools.mpi import mpiexec
from tinytensor.nn.parallel import BUCKET_MB, MEGABYTE

ROOT = Path(__file__).parents[2]
STEPS = {  # a configuration, and the rows of its batch that are shared by the ranks
    "micro": (32,),
    "toth-tiny": (16, 64),
    "nano": (12, 24, 96),
}
SCALED = {
    "translate": ("toth-tiny", 64, 24),
    "gpt2": ("nano", 480, 1024),
}  # on paper: like which, rows, tokens of a row
PAPER = (2, 4, 8, 16, 32, 64, 128)
BUCKET = int(BUCKET_MB * MEGABYTE)  # bytes
NUMBER = 4  # bytes of a float32
ETHERNET = {"alpha": 30e-6, "beta": 1.25e9}  # seconds, bytes a second: ten gigabits, by TCP


@dataclass(frozen=True)
class Costs:
    """What a step costs one process, in seconds: `fixed`, whatever the batch, and `row` for each of its rows."""

    fixed: float
    row: float
    size: int  # bytes of all gradients


def predicted(costs: Costs, rows: int, ranks: int, alpha: float, beta: float) -> float:
    """Seconds of a step of so many rows on so many ranks.

    Each computes its rows, and updates all weights. A bucket makes two rounds, in which a rank sends a message to each
    other one; in both together it sends 2 (ranks - 1) / ranks of what all gradients hold. Nothing is hidden behind the
    computing, so that it is a bound from above where a network carries bytes by itself.
    """
    if ranks == 1:
        return costs.fixed + costs.row * rows
    messages = 2 * max(1, math.ceil(costs.size / BUCKET)) * (ranks - 1) + (ranks - 1)  # the last ones carry the loss
    bytes_sent = 2 * (ranks - 1) / ranks * costs.size
    return costs.fixed + costs.row * math.ceil(rows / ranks) + messages * alpha + bytes_sent / beta


def scaled(costs: Costs, name: str, like: str, tokens: int) -> Costs:
    """The costs of a configuration that is not run here: a row in proportion to its weights times its tokens."""
    from models.decoder import CONFIGS
    from models.tasks import TASKS

    task = next(task for task in TASKS.values() if name in task.CONFIGS)
    n = task.Model(task.CONFIGS[name], device="meta").num_parameters() * NUMBER / costs.size  # times as many weights
    return Costs(costs.fixed * n, costs.row * n * tokens / CONFIGS[like].C, round(costs.size * n))


# --- On the ranks


def ping_pong(comm, size: int, repeat: int) -> float:
    """Seconds that `size` bytes take from one rank to the other; they are written anew before each message."""
    data, taken = np.zeros(size, np.uint8), []
    for _ in range(repeat):
        data += 1
        comm.Barrier()
        began = time.perf_counter()
        if comm.Get_rank() == 0:
            comm.Send(data, 1)
            comm.Recv(data, 1)
        else:
            comm.Recv(data, 0)
            comm.Send(data, 0)
        taken.append((time.perf_counter() - began) / 2)
    return statistics.median(taken)


def training(name: str, rows: int, seconds: float, passes: int) -> dict:
    """The median time of a step with a joint batch of so many rows."""
    import tinytensor as tt
    from models.decoder import CONFIGS, Decoder
    from models.training import ranks
    from models.training.trainer import training_step
    from tinytensor import distributed
    from tinytensor.distributed.group import group
    from tinytensor.nn.parallel import DistributedDataParallel

    config, here = CONFIGS[name], group("benchmark")
    tt.manual_seed(0)
    model = Decoder(config)
    optimizer = tt.optim.AdamW(model.parameters(), lr=1e-3)
    several = here.size > 1
    together = DistributedDataParallel(model, reduce_op=distributed.ReduceOp.SUM) if several else model
    step = tt.compile(training_step(together, optimizer, 1.0))
    drawn = np.random.default_rng(0).integers(0, config.V, (8, 2, rows, config.C))
    batches = [[tt.tensor(a) for a in ranks.rows_of(tuple(xy), (0, 0), here.rank, here.size)] for xy in drawn]
    total = {"total": tt.tensor(float(rows * config.C))} if several else {}

    def run(count: int) -> float:
        began = time.perf_counter()
        for number in range(count):
            loss, _ = step(*batches[number % len(batches)], **total)
            loss = loss.item()
            if several:
                ranks.numbers(loss, False)
        return (time.perf_counter() - began) / count

    run(5)
    count = max(5, int(here.numbers(seconds / run(5))[0][0]))
    taken, in_mpi, sent = [], here.seconds, here.bytes
    for _ in range(passes):
        distributed.barrier()
        taken.append(run(count))
    whole = sum(taken) * count
    return {
        "seconds": statistics.median(taken),
        "update": updating(model, optimizer),
        "share": (here.seconds - in_mpi) / whole,
        "bytes": (here.bytes - sent) / (passes * count),
        "size": sum(p._data.nbytes for p in model.parameters()),
        "tokens": rows * config.C,
    }


def updating(model, optimizer) -> float:
    """The median time of clipping and updating all weights."""
    import tinytensor as tt
    from tinytensor.nn.utils import clip_grad_norm_

    grads = [tt.full_like(p, 1e-3) for p in model.parameters()]

    @tt.compile
    def update():
        for p, g in zip(model.parameters(), grads, strict=True):
            p.grad = g
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    taken = []
    for _ in range(30):
        began = time.perf_counter()
        update()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def worker(options) -> None:
    import tinytensor as tt
    from tinytensor import distributed
    from tinytensor.distributed.group import group

    distributed.init_process_group()
    tt.set_num_threads(1)
    here, result = group("benchmark"), {}
    if here.size == 2:
        sizes = [8, *(1 << n for n in range(10, 23, 2))]
        result["ping-pong"] = {n: ping_pong(here.comm, n, 400 if n < 1e5 else 60) for n in sizes}
    steps = {}
    for name, batches in STEPS.items():
        for rows in batches:
            steps[f"{name} {rows}"] = training(name, rows, options.seconds, options.passes)
    if here.rank == 0:
        print(json.dumps(result | {"steps": steps}))
    distributed.destroy_process_group()


# --- The report


def measured(ranks: int, options) -> dict:
    """What that many ranks find."""
    command = [mpiexec(), "-n", str(ranks), sys.executable, "-m", __spec__.name, "--worker"]
    command += ["--seconds", str(options.seconds), "--passes", str(options.passes)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    if done.returncode:
        raise RuntimeError(f"{ranks} ranks failed: {done.stderr[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def line(times: dict[str, float]) -> tuple[float, float]:
    """(alpha, beta): seconds of a message of 8 bytes; bytes a second of those from 256 KB on, the slowest of them."""
    by_size = {int(n): t for n, t in times.items()}
    alpha = by_size[8]
    return alpha, min(n / (t - alpha) for n, t in by_size.items() if n >= 1 << 18)


def report(one: dict, two: dict) -> str:
    alpha, beta = line(two["ping-pong"])
    lines = [f"ping-pong between two ranks: {alpha * 1e6:.1f} µs, {beta / 1e9:.1f} GB/s", ""]
    lines += ["| a message of | takes | at |", "|---|---|---|"]
    for n, t in two["ping-pong"].items():
        lines.append(f"| {int(n):,} bytes | {t * 1e6:,.1f} µs | {int(n) / t / 1e9:.2f} GB/s |")
    lines += ["", "| training step | 1 rank | 2 ranks | tokens/s | speed-up | predicted | in MPI | sent by a rank |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    costs = {}
    for name, batches in STEPS.items():
        first = one["steps"][f"{name} {batches[0]}"]
        costs[name] = Costs(first["update"], (first["seconds"] - first["update"]) / batches[0], first["size"])
        for rows in batches:
            a, b = (entry["steps"][f"{name} {rows}"] for entry in (one, two))
            paper = predicted(costs[name], rows, 1, alpha, beta) / predicted(costs[name], rows, 2, alpha, beta)
            lines.append(
                f"| {name}, {rows} rows | {a['seconds'] * 1e3:.2f} ms | {b['seconds'] * 1e3:.2f} ms "
                f"| {a['tokens'] / a['seconds']:,.0f} → {b['tokens'] / b['seconds']:,.0f} "
                f"| {a['seconds'] / b['seconds']:.2f}× | {paper:.2f}× | {b['share']:.0%} | {b['bytes'] / 1e6:.2f} MB |"
            )
    costs |= {name: scaled(costs[like], name, like, tokens) for name, (like, _, tokens) in SCALED.items()}
    for where, network in (("as between the ranks here", {"alpha": alpha, "beta": beta}), ("by Ethernet", ETHERNET)):
        lines += ["", f"Speed-up on paper, messages {where} ({network['alpha'] * 1e6:.0f} µs, "]
        lines[-1] += f"{network['beta'] / 1e9:.2f} GB/s):"
        lines += ["", f"| ranks | {' | '.join(map(str, PAPER))} | most |", "|---" * (len(PAPER) + 2) + "|"]
        for name, batches in (STEPS | {name: (rows,) for name, (_, rows, _) in SCALED.items()}).items():
            for rows in batches:
                alone = predicted(costs[name], rows, 1, **network)
                gains = {n: alone / predicted(costs[name], rows, n, **network) for n in range(1, 1025)}
                best = max(gains, key=gains.get)
                shown = " | ".join(f"{gains[n]:.1f}×" for n in PAPER)
                lines.append(f"| {name}, {rows:,} rows | {shown} | {gains[best]:.1f}× at {best} |")
    for name, cost in costs.items():
        lines += ["", f"{name}: {cost.fixed * 1e3:.2f} ms a step and {cost.row * 1e3:.3f} ms a row, "]
        lines[-1] += f"{cost.size / 1e6:.2f} MB of gradients"
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ranks", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="that a step is repeated in a pass (default: 1)")
    parser.add_argument("--passes", type=int, default=5, help="of each row; the median counts (default: 5)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        worker(options)
        return 0
    try:
        print(report(*(measured(n, options) for n in (1, 2))))
    except RuntimeError as error:
        print(f"ranks: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""One measurement in a process of its own: `python -m tests.benchmarks.worker JOB`, JOB and the answer being JSON.

A job says which work, by which peer, with which settings. The answer has figures (in seconds, or bytes), what is
needed to check that all peers computed the same, and how many processors other programs used meanwhile.
"""

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import data
from .calls import CALLS, repeated
from .machine import Others, peak_memory, resident

PAUSE = 10  # steps that warm up: the first ten, whose losses are compared


def timed(run: Callable[[], object], seconds: float, least: int = 7) -> list[float]:
    """How long each call took, called for so many seconds and at least so many times."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def counting(step: Callable[[int], object], first: int) -> Callable[[], object]:
    """Calls of `step` with first, first + 1, ..."""
    numbers = iter(range(first, sys.maxsize))
    return lambda: step(next(numbers))


def train(peer, job: dict) -> dict:
    """Training steps: their median (or mean, where single long ones count), and the losses of the first ten."""
    settings, figures, losses, flops, others = job["settings"], {}, {}, {}, []
    for number, label in enumerate(settings["cases"]):
        case = data.read(Path(job["data"]), number)
        step = peer.training_step(case)
        losses[label] = [float(step(i)) for i in range(PAUSE)]
        run = counting(step, PAUSE)
        timed(run, job["seconds"] / 4)
        watch = Others()  # compiling, before this, may have used programs of its own
        times = timed(run, job["seconds"], least=10)
        others.append(watch.processors())
        count = case.tokens if settings.get("per_token") else 1
        figures[label] = (statistics.fmean if settings.get("mean") else statistics.median)(times) / count
        flops[label] = case.flops / count
    known = [each for each in others if each is not None]
    return {"figures": figures, "same": losses, "flops": flops, "others": max(known, default=None)}


def sample(peer, job: dict) -> dict:
    """A token at temperature 1 of a text that fills the context; the likeliest tokens are compared.

    A whole text is timed, from the call to its last token: who computes several at once gains nothing by where the
    clock is looked at. The first texts are not counted: in them a step is recorded, or memory met for the first time.
    """
    case = data.read(Path(job["data"]))
    count, draw = case.config["C"] - 1, peer.sampler(case)
    likeliest = [int(token) for token in draw(count, 0)]

    def a_token() -> float:
        start = time.perf_counter()
        for _ in draw(count, 1.0):
            pass
        return (time.perf_counter() - start) / count

    a_token()
    others, results, end = Others(), [], time.perf_counter() + job["seconds"]
    while len(results) < 7 or time.perf_counter() < end:
        results.append(a_token())
    figures = {"token": statistics.median(results)}
    return {"figures": figures, "same": {"tokens": likeliest}, "others": others.processors()}


def prefill(peer, job: dict) -> dict:
    """The first token after a text of 128 tokens, which is read in one pass."""
    return _prompted(peer, job, whole=False)


def after(peer, job: dict) -> dict:
    """A token after a text of 128 tokens, without the time for the text: the likeliest one, 32 times."""
    return _prompted(peer, job, whole=True)


def _prompted(peer, job: dict, whole: bool, text: int = 128, more: int = 32) -> dict:
    case = data.read(Path(job["data"]))
    tokens, write = case.x[0, 0, :text].tolist(), peer.prompted(case)
    made = write(tokens, 1 + more)
    write(tokens, 1)
    others = Others()
    figure = statistics.median(timed(lambda: write(tokens, 1), job["seconds"], least=5))
    if whole:
        figure = (statistics.median(timed(lambda: write(tokens, 1 + more), job["seconds"], least=3)) - figure) / more
    return {"figures": {"token": figure}, "same": {"tokens": made}, "others": others.processors()}


def matmul(peer, job: dict) -> dict:
    """Matrix products, each form and shape for itself."""
    import numpy as np

    rng, figures, flops, same, others = np.random.default_rng(0), {}, {}, {}, Others()
    eager = job["settings"]["eager"]
    for form, M, K, N in job["settings"]["products"]:
        a = rng.standard_normal((K, M) if form == "Aᵀ·B" else (M, K)).astype(np.float32)
        b = rng.standard_normal((N, K) if form == "A·Bᵀ" else (K, N)).astype(np.float32)
        work = 2.0 * M * K * N
        n = max(1, min(256, int(3e7 / work)))  # a few hundred microseconds a call
        run = (peer.eager_products if eager else peer.products)(form, a, b, n)
        label = f"{'eager ' * eager}matmul {form}: {M} × {K} × {N}"
        timed(run, job["seconds"] / 4, least=2)
        figures[label] = statistics.median(timed(run, job["seconds"])) / n
        flops[label] = work
    return {"figures": figures, "same": same, "flops": flops, "others": others.processors()}


def ops(peer, job: dict) -> dict:
    """Operations forward and backward, as kernels: what a call costs beside them is taken off."""
    import numpy as np

    rng, figures, flops, others = np.random.default_rng(0), {}, {}, Others()
    for name, shapes in job["settings"]["operations"].items():
        for shape in shapes:
            arrays = {"x": rng.standard_normal(shape).astype(np.float32)}
            arrays["g"] = rng.standard_normal(() if name == "cross_entropy" else shape).astype(np.float32)
            if name == "attention":
                arrays |= {n: rng.standard_normal(shape).astype(np.float32) for n in "kv"}
            if name == "cross_entropy":
                arrays["targets"] = rng.integers(0, shape[1], shape[0])
            if name == "layer_norm" and shape[-1] == 128:  # nano's norms have gamma
                arrays["weight"] = np.ones(shape[-1], np.float32)
            for direction, (run, n, idle) in peer.operation(name, arrays).items():
                timed(run, job["seconds"] / 4, least=2)
                spent = statistics.median(timed(run, job["seconds"]))
                if idle is not None:
                    timed(idle, job["seconds"] / 4, least=2)
                    spent = max(spent - statistics.median(timed(idle, job["seconds"] / 4)), spent / 100)
                label = f"{name} {direction}: {' × '.join(map(str, shape))}"
                figures[label] = spent / n
                if name == "attention":  # two products of the triangle that the mask leaves, and two for each of them
                    B, H, C, K = shape
                    flops[label] = B * H * C * (C + 1) * K * (2.0 if direction == "forward" else 4.0)
    return {"figures": figures, "flops": flops, "others": others.processors()}


def calls(peer, job: dict) -> dict:
    """Calls as a program makes them: Python's part counts. So many are timed together."""
    (name, times), figures, others = job["settings"].values(), {}, Others()
    for label, call in CALLS[name](peer.library).items():
        run = repeated(call, times)
        timed(run, job["seconds"] / 4, least=2)
        figures[f"{name}: {label}"] = statistics.median(timed(run, job["seconds"])) / times
    return {"figures": figures, "others": others.processors()}


def start(peer, job: dict) -> dict:
    """The end of the first training step, counted from the moment at which the process was started."""
    loss = float(peer.training_step(data.read(Path(job["data"])))(0))
    taken = time.monotonic() - job["began"]
    return {"figures": {"first step": taken}, "same": {"first step": [loss]}, "others": job["before"]}


def memory(peer, job: dict) -> dict:
    """The most memory that a training step, after ten of them, has above what the imports left."""
    others, case = Others(), data.read(Path(job["data"]))
    before = resident()
    step = peer.training_step(case)
    losses = [float(step(i)) for i in range(PAUSE)]
    most = peak_memory(lambda: [step(i) for i in range(PAUSE, 2 * PAUSE)])
    return {"figures": {"peak": most - before}, "same": {"peak": losses}, "others": others.processors()}


def prepare(peer, job: dict) -> dict:
    """Write the weights and batches of a row, for all its sides."""
    settings = job["settings"]
    cases = settings["cases"].values() if "cases" in settings else [settings]
    data.write(Path(job["data"]), map(data.make, cases))
    return {"figures": {}, "others": None}


def peak(peer, job: dict) -> dict:
    """Multiplications and additions a second that the processor can do, on so many threads, and a round trip."""
    from .peak import rate, round_trip

    others = Others()
    figures = {"rate": rate(job["threads"], job["settings"]["lanes"]), "round trip": round_trip()}
    return {"figures": figures, "others": others.processors()}


WORKS = {
    work.__name__: work for work in (train, sample, prefill, after, matmul, ops, calls, start, memory, prepare, peak)
}


def main(text: str) -> None:
    job = json.loads(text)
    peer = None
    if job["place"]:
        module, name = job["place"].split(":")
        peer = getattr(importlib.import_module(module), name)(job["threads"])
    print(json.dumps(WORKS[job["work"]](peer, job)))


if __name__ == "__main__":
    main(sys.argv[1])

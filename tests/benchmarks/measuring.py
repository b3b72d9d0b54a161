"""Processes in turn: each side of a row measures in a process of its own, pass by pass, when the machine is calm.

Two libraries in one process would make each other slow, as the threads of one spin while the other works; and a side
that is measured now and another an hour later meet two different machines.
"""

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from .machine import wait_until_calm
from .peers import PEERS, Peer
from .rows import MANY, Row, Side, on

ROOT = Path(__file__).parents[2]
CALM = 0.1  # processors that others may use while something is measured
EQUAL = 1e-4  # by which losses may differ

# What makes a peer use narrower vectors than the processor has, for the widths that TINYTENSOR_SIMD knows.
NARROW = {
    "avx512": {},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
}


@dataclass
class Options:
    """How much is measured, and how."""

    out: Path
    threads: int = 2  # what MANY stands for
    passes: int = 5
    seconds: float = 1.0  # that a training step is repeated; shorter things take parts of it
    patience: float = 20.0  # seconds to wait for a calm machine
    simd: str | None = None
    peers_simd: str | None = None
    compile_anew: bool = True  # may torch.compile begin with an empty cache?
    lock: Path | None = None
    limit: float = 600.0  # seconds for one process
    tell: Callable[[str], None] = print
    peers: dict[str, Peer] = field(default_factory=lambda: dict(PEERS))


@dataclass
class Result:
    """What the passes of one side found; and why there is nothing, if so."""

    side: Side
    figures: list[dict[str, float]] = field(default_factory=list)  # one for each pass
    others: list[float | None] = field(default_factory=list)  # processors that other programs used meanwhile
    flops: dict[str, float] = field(default_factory=dict)
    same: dict[str, list[float]] = field(default_factory=dict)
    failure: str | None = None

    def calm(self) -> list[dict[str, float]]:
        """The passes on a calm machine, or all if there are none."""
        calm = [f for f, others in zip(self.figures, self.others) if others is None or others < CALM]
        return calm or self.figures

    @property
    def disturbed(self) -> bool:
        """Was the machine busy in each pass?"""
        return bool(self.others) and all(others is not None and others >= CALM for others in self.others)

    def of(self, label: str) -> list[float]:
        return [f[label] for f in self.calm()]

    def median(self, label: str) -> float:
        return statistics.median(self.of(label))


@dataclass
class Measured:
    """A row with what its sides found: ours first."""

    row: Row
    results: list[Result]

    @property
    def ours(self) -> Result:
        return self.results[0]

    def who(self, result: Result) -> str:
        """A side's name; ourselves under other circumstances by these."""
        side = result.side
        if result is self.ours:
            return side.peer
        if side.peer == self.ours.side.peer:
            return on(self.row.threads if side.threads is None else side.threads)
        return PEERS[side.peer].title if side.peer in PEERS else side.peer

    def lines(self) -> list[str]:
        """The lines of the report that the figures belong to."""
        return list(dict.fromkeys(label.split(": ")[0] for label in self.labels()))

    def labels(self, line: str | None = None) -> list[str]:
        figures = next((r.figures[0] for r in self.results if r.figures), {})
        return [label for label in figures if line is None or label.split(": ")[0] == line]

    def ratios(self, other: Result, line: str) -> dict[str, float]:
        """How many times as much as we the other side takes, label by label: ratios of medians."""
        return {label: other.median(label) / self.ours.median(label) for label in self.shared(other, line)}

    def shared(self, other: Result, line: str) -> list[str]:
        """The labels that both have figures of."""
        if not (self.ours.figures and other.figures):
            return []
        return [label for label in self.labels(line) if label in other.figures[0]]

    def spread(self, other: Result, line: str) -> tuple[float, float]:
        """The least and the largest ratio of one pass."""
        pairs = zip(self.ours.figures, other.figures)
        means = [mean([b[label] / a[label] for label in self.shared(other, line)]) for a, b in pairs]
        return min(means), max(means)

    def share(self, result: Result, line: str, peaks: dict[int, float]) -> float | None:
        """The part of the processor's multiply-adds that a side used, as a mean over a line's figures."""
        threads = self.row.threads if result.side.threads is None else result.side.threads
        there = (result.calm() or [{}])[0]
        labels = [label for label in self.labels(line) if label in result.flops and label in there]
        if not labels or threads not in peaks:
            return None
        return mean([result.flops[label] / result.median(label) / peaks[threads] for label in labels])

    def missed(self, peaks: dict[int, float]) -> list[str]:
        """The goals that were not reached, in words, and which part of the peak they would take."""
        results = []
        for line in self.lines():
            for other in self.results[1:]:
                goal, ratios = other.side.goal_of(line), self.ratios(other, line)
                if goal is None or not ratios:
                    continue
                name = f"{title(self.row, line)} against {self.who(other)}"
                if (reached := mean(ratios.values())) < goal:
                    part = self.share(self.ours, line, peaks)
                    takes = "" if part is None else f" (which takes {part * goal / reached:.0%} of the FMA peak)"
                    results.append(f"{name}: {reached:.2f} of {goal:.3g}{takes}")
                worst = min(ratios, key=ratios.get)
                if self.row.least is not None and ratios[worst] < self.row.least:
                    results.append(f"{name}: {worst.split(': ')[-1]} has {ratios[worst]:.2f} of {self.row.least:.3g}")
            if self.row.limit is not None and self.ours.figures:
                taken = max(self.ours.median(label) for label in self.labels(line))
                if taken > self.row.limit:
                    results.append(
                        f"{title(self.row, line)}: {taken:.3g} of at most {self.row.limit:.3g} {self.row.unit}"
                    )
        return results

    def differences(self) -> dict[str, float]:
        """By how much the losses of each other side differ from those of PyTorch, or of ours if it is not there."""
        judge = next((r for r in self.results if r.side.peer == "torch" and r.same), self.ours)
        return {
            self.who(result): max(
                abs(a - b) if len(values) == len(judge.same[label]) else math.inf
                for label, values in result.same.items()
                for a, b in zip(values, judge.same[label])
            )
            for result in self.results
            if result is not judge and result.same and judge.same
        }


def mean(ratios) -> float:
    """The geometric mean."""
    return statistics.geometric_mean(ratios)


def title(row: Row, line: str) -> str:
    """The name of a line of the report: the row's, and the line's own where a row has several."""
    return f"{line if row.many else row.name}, {on(row.threads)}"


def with_threads(row: Row, threads: int) -> Row:
    """The row with a number in the place of MANY."""
    return replace(row, threads=threads) if row.threads == MANY else row


class Runner:
    """Measures rows; keeps what may be kept from one row to the next."""

    def __init__(self, options: Options):
        self.options = options
        self.reported: set[str] = set()
        self.round_trips: list[float] = []
        options.out.mkdir(parents=True, exist_ok=True)

    def measure(self, row: Row) -> Measured:
        """All passes of a row, its sides alternating; a side that fails or is missing has a line that says why."""
        options, row = self.options, with_threads(row, self.options.threads)
        results = [Result(side) for side in row.sides]
        measured = Measured(row, results)
        with tempfile.TemporaryDirectory() as folder:
            path, failure = Path(folder) / "data.npz", None
            if row.work not in ("matmul", "ops", "calls"):
                failure = self._prepare(row, path)
            for result in results:
                result.failure = failure or self._missing(row, result.side)
                if result.failure is None and row.work == "start" and not result.side.empty:
                    self._pass(row, result, path, keep=False)  # so that its caches are warm
            for _ in range(min(options.passes, row.passes)):
                for result in results:
                    if result.failure is None:
                        self._pass(row, result, path)
        for result in results:
            if result.failure is not None:
                self._tell(f"{measured.who(result)}: {result.failure}")
        return measured

    def peak(self, threads: int) -> float:
        """Multiplications and additions a second of the processor, measured now; and how far processors are apart."""
        from .peak import lanes

        settings = {"lanes": lanes(self.options.simd)}
        job = {"work": "peak", "settings": settings, "place": None, "threads": threads}
        results = [self._process(job, {}, patience=True)["figures"] for _ in range(2)]
        self.round_trips += [figures["round trip"] for figures in results]
        return max(figures["rate"] for figures in results)

    def _tell(self, line: str) -> None:
        if line not in self.reported:
            self.reported.add(line)
            self.options.tell(line)

    def _missing(self, row: Row, side: Side) -> str | None:
        """Why this side can't be measured, if so."""
        peer = self.options.peers[side.peer]
        if peer.version() is None:
            return f"{peer.package} is not installed (pip install -e '.[bench]'), so it is left out"
        cached = side.peer != "torch.compile" or side.empty or self.options.compile_anew or self._mark(row).exists()
        return None if cached else f"has not compiled {row.name!r} here yet, and compiling takes long: left out"

    def _mark(self, row: Row) -> Path:
        """A file that says that torch.compile's cache has what this row needs."""
        version = self.options.peers["torch.compile"].version()
        name = "".join(c if c.isalnum() else "-" for c in f"{row.group} {row.title} {version}")
        return self._torch_cache() / f"{name}.done"

    def _torch_cache(self) -> Path:
        """Where torch.compile keeps its code, apart for each width: it takes that of another one, and crashes."""
        return self.options.out / "torch-compile" / (self.options.peers_simd or "widest")

    def _prepare(self, row: Row, path: Path) -> str | None:
        """Write weights and batches; why that failed, if so."""
        try:
            self._run({"work": "prepare", "settings": row.settings, "data": str(path)}, Side("tinytensor"), row)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return f"no weights and batches: {error}"
        return None

    def _pass(self, row: Row, result: Result, path: Path, keep: bool = True) -> None:
        side = result.side
        job = {"work": row.work, "settings": row.settings, "data": str(path)}
        try:
            answer = self._run(job, side, row)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            result.failure = str(error)
            return
        if side.peer == "torch.compile" and not side.empty:
            self._mark(row).touch()
        if keep:
            result.figures.append(answer["figures"])
            others = answer["others"]
            result.others.append(max(0.0, others - 1) if side.busy and others is not None else others)
            result.flops, result.same = answer.get("flops", {}), answer.get("same", {})

    def _run(self, job: dict, side: Side, row: Row) -> dict:
        """One process of one side."""
        options, environment = self.options, {}
        threads = row.threads if side.threads is None else side.threads
        job |= {"place": None if job["work"] == "prepare" else options.peers[side.peer].path, "threads": threads}
        job["seconds"] = options.seconds / {"matmul": 30, "ops": 10, "calls": 10}.get(row.work, 1)
        if options.peers[side.peer].package == "numba":  # tinytensor, or what bounds it
            environment |= {"TINYTENSOR_SIMD": options.simd} if options.simd else {}
        elif options.peers_simd:
            environment |= NARROW[options.peers_simd]
        # The peers were installed with their bytecode. Where Python may not keep what it makes of sources here,
        # each start would pay for compiling them, and only the peers' caches would be warm.
        environment["PYTHONDONTWRITEBYTECODE"] = ""
        environment["OPENBLAS_NUM_THREADS"] = str(threads) if side.peer == "numpy" else "1"
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(self._torch_cache())
        with contextlib.ExitStack() as stack:
            if side.empty:
                empty = stack.enter_context(tempfile.TemporaryDirectory())
                environment |= {"NUMBA_CACHE_DIR": empty, "TORCHINDUCTOR_CACHE_DIR": empty}
            return self._process(job, environment, patience=job["work"] != "prepare", busy=side.busy)

    def _process(self, job: dict, environment: dict, patience: bool = False, busy: bool = False) -> dict:
        """A worker's answer; RuntimeError with the last line of what it said if it has none."""
        options = self.options
        self._torch_cache().mkdir(parents=True, exist_ok=True)
        with _locked(options.lock), _busy_loop(busy):
            before = wait_until_calm(CALM, options.patience) if patience and not busy else None
            job = job | {"before": before, "began": time.monotonic()}
            done = subprocess.run(
                [sys.executable, "-m", f"{__package__}.worker", json.dumps(job)],
                capture_output=True, text=True, cwd=ROOT, env=os.environ | environment, timeout=options.limit,
            )  # fmt: skip
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise RuntimeError(f"failed: {lines[-1] if lines else f'ended with {done.returncode}'}")
        return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def _locked(path: Path | None) -> Iterator[None]:
    """Hold a lock that other measurements on this machine take as well."""
    if path is None:
        yield
        return
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _busy_loop(wanted: bool) -> Iterator[None]:
    """A program beside that never pauses."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()

"""profile: which kernels a step runs, how often, and how long each takes.

    with tinytensor.profile() as profile:
        step(x, y)
    print(profile)

While it is on, launches are made one by one and timed, also those of a replay, which otherwise run as one program. So
the table shows the time of the kernels; the time between them is longer than without the profiler.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinytensor.core.dispatch import state
from tinytensor.core.kernel import Kernel, Launch
from tinytensor.core.recorder import STOPPED


def _pairs(q, k, is_causal: int) -> int:
    """The number of pairs of a query and a key in all heads, without regard to masks."""
    B, H, C = q.shape[:3]
    M = k.shape[2]
    return B * H * (sum(min(i + 1, M) for i in range(C)) if is_causal else C * M)


# floating-point operations of a launch, for kernels that mainly multiply; a multiplication and an addition are two
FLOPS: dict[str, Callable[[dict], int]] = {
    "matmul": lambda of: 2 * of["y"].size * of["a"].shape[2],
    "attention": lambda of: 2 * _pairs(of["q"], of["k"], of["is_causal"]) * (of["q"].shape[3] + of["v"].shape[3]),
    "attention_backward": lambda of: (
        2 * _pairs(of["q"], of["k"], of["is_causal"]) * (3 * of["q"].shape[3] + 2 * of["v"].shape[3])
    ),
}


@dataclass
class Row:
    """The measurements of one kernel."""

    calls: int = 0
    seconds: float = 0.0
    flops: int = 0


@dataclass
class Span:
    """A time from `start` to `end`, in the seconds of time.perf_counter()."""

    name: str
    start: float
    end: float
    flops: int = 0


class Profile:
    """The kernels that ran while it was on, by name; `print` shows them, the slowest first.

    It keeps the time of each launch too, some hundred bytes each: `export_chrome_trace` writes them.
    """

    def __init__(self) -> None:
        self.rows: dict[str, Row] = defaultdict(Row)
        self.launches: list[Span] = []
        self.marks: list[Span] = []

    def __enter__(self) -> "Profile":
        self.before, state.profile = state.profile, self
        return self

    def __exit__(self, *exc):
        state.profile = self.before
        return False

    def launch(self, kernel: Kernel, launch: Launch) -> None:
        """Run a launch, and add its time to the kernel's."""
        flops = FLOPS.get(kernel.name)
        count = flops(dict(zip(kernel.names, launch.args, strict=True))) if flops else 0
        self._timed(kernel.name, count, kernel.run, launch)

    def host(self, function: Callable, args: tuple) -> None:
        """Run a host call of a replay, and add its time to a row of its own."""
        self._timed(f"Python: {getattr(function, '__name__', function)}", 0, function, *args)

    def parts(self, noted: list) -> Iterator[tuple[int, Callable, tuple]]:
        """The noted steps of a recording one by one, in the form that `Recording.replay` runs."""
        for position, (what, how) in enumerate(noted, start=1):
            if what is None:
                yield position, _look, (how,)
            else:
                yield position, self.launch if isinstance(what, Kernel) else self.host, (what, how)

    def _timed(self, name: str, flops: int, function: Callable, *args) -> None:
        start = time.perf_counter()
        function(*args)
        end, row = time.perf_counter(), self.rows[name]
        row.calls, row.seconds, row.flops = row.calls + 1, row.seconds + end - start, row.flops + flops
        self.launches.append(Span(name, start, end, flops))

    def mark(self, name: str, start: float, end: float) -> None:
        """Name a time in seconds of time.perf_counter(), such as that of a step; a trace shows it above the kernels."""
        self.marks.append(Span(name, start, end))

    def export_chrome_trace(self, path: str | os.PathLike) -> None:
        """Write all launches and marks as a trace, which https://ui.perfetto.dev and chrome://tracing open.

        It is JSON in the Trace Event format: times in microseconds since the first one, a row for the marks and one for
        the kernels. OSError if the file cannot be written.
        """
        zero = min((span.start for span in self.marks + self.launches), default=0.0)
        events: list[dict] = [_named("process_name", 0, "tinytensor")]
        for row, (title, spans) in enumerate((("steps", self.marks), ("kernels", self.launches)), start=1):
            events.append(_named("thread_name", row, title))
            for span in spans:
                event = {"name": span.name, "cat": title, "ph": "X", "pid": 1, "tid": row}
                event |= {"ts": 1e6 * (span.start - zero), "dur": 1e6 * (span.end - span.start)}
                if span.flops:
                    event["args"] = {"GFLOP/s": span.flops / (span.end - span.start) / 1e9}
                events.append(event)
        Path(path).write_text(json.dumps({"displayTimeUnit": "ms", "traceEvents": events}), encoding="utf-8")

    def __str__(self) -> str:
        total = sum(row.seconds for row in self.rows.values()) or 1.0
        lines = [f"{'kernel':28} {'calls':>7} {'ms':>10} {'share':>7} {'us a call':>10} {'GFLOP/s':>8}"]
        for name, row in sorted(self.rows.items(), key=lambda item: -item[1].seconds):
            speed = f"{row.flops / row.seconds / 1e9:8.1f}" if row.flops else " " * 8
            columns = f"{row.calls:7} {1e3 * row.seconds:10.3f} {row.seconds / total:7.1%}"
            lines.append(f"{name:28} {columns} {1e6 * row.seconds / row.calls:10.1f} {speed}".rstrip())
        lines.append(f"{'all':28} {sum(row.calls for row in self.rows.values()):7} {1e3 * total:10.3f}")
        return "\n".join(lines)


def _named(what: str, row: int, name: str) -> dict:
    """The event that gives the process, or a row of a trace, its name."""
    return {"name": what, "ph": "M", "pid": 1, "tid": row, "args": {"name": name}}


def _look(flag: np.ndarray) -> bool | None:
    """STOPPED if the flag is set, as a program would return."""
    return STOPPED if flag[0] else None


def profile() -> Profile:
    """Record which kernels run, how often and how long (a context; print it, or read its `rows`)."""
    return Profile()

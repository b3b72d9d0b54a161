"""What `train` shows of a run beside its bar: a trace of some steps for --profile, curves for --tensorboard."""

import time
from pathlib import Path

from tinytensor.profiler import Profile

SKIPPED, TRACED = 3, 10  # the first steps, which compile and record; the steps after them, which a trace shows
TENSORBOARD = "tensorboard"  # the folder of the curves in that of the run


class Trace:
    """The trace of a few steps, in a file that https://ui.perfetto.dev opens."""

    def __init__(self, file: Path, steps: int):
        """`steps` is how many the run will take: a short run is traced from an earlier step on."""
        self.file, self.profile = file, Profile()
        self.first = max(0, min(SKIPPED, steps - TRACED))
        self.seen, self.on, self.began = 0, False, 0.0
        self.start()

    def start(self) -> None:
        """Begin where the first traced step begins."""
        if self.seen == self.first:
            self.profile.__enter__()
            self.on = True
        self.began = time.perf_counter()

    def look(self, row: dict) -> None:
        """Called after each step."""
        self.seen += 1
        if self.on:
            self.profile.mark(f"step {row['step']}", self.began, time.perf_counter())
        if self.seen == self.first + TRACED:
            self.end()
        self.start()

    def end(self) -> None:
        """Write the file, after the last traced step or where the run ends before it."""
        if self.on:
            self.profile.__exit__()
            self.on = False
            self.profile.export_chrome_trace(self.file)


class Curves:
    """The rows of the log as curves for TensorBoard."""

    NAMES = ("loss", "heldout_loss", "lr", "tokens_per_second")

    def __init__(self, run: Path):
        from tinytensor.utils.tensorboard import SummaryWriter  # imports a package that few runs need

        self.writer = SummaryWriter(run / TENSORBOARD)

    def look(self, row: dict) -> None:
        """Called after each step; rows of the log have a rate."""
        if "lr" in row:
            for name in self.NAMES:
                if name in row:
                    self.writer.add_scalar(name, row[name], row["step"])

    def end(self) -> None:
        self.writer.close()

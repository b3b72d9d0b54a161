"""The time of a proof: shown while it runs, and limited."""

import math
import sys
import time


class TooLong(RuntimeError):
    """A proof that takes longer than its limit."""


class Progress:
    """A running proof: how much of it is done, and its deadline."""

    command = "prove"
    advice = (
        'give smaller shapes (a proof for all values at a small size says the most), size="real" (residues instead of '
        "formulas), or another limit (None: as long as it takes)"
    )
    long = 10.0  # seconds, after which the progress is shown

    def __init__(self, name: str, limit: float | None, progress: bool | None):
        self.name, self.limit = name, limit
        self.wanted = sys.stderr.isatty() if progress is None else progress
        self.total, self.so_far, self.tenths = 0.0, 0.0, 0
        self.start = self.clock()
        self.end = math.inf if limit is None else self.start + limit
        self.show_from = self.start + self.long

    def clock(self) -> float:
        """The seconds that the limit counts."""
        return time.monotonic()

    def begin(self, total: float) -> None:
        """The work begins: `total` of it in all."""
        self.total, self.so_far, self.tenths = total, 0.0, 0

    def done(self, amount: float) -> None:
        """Some of it is done."""
        self.check()
        self.count(amount)

    def count(self, amount: float) -> None:
        """Some of it is done, whatever the time is."""
        self.so_far += amount
        self.show()

    def show(self) -> None:
        """A line for each tenth of the work, if that is wanted and the proof takes long."""
        if not self.wanted or not self.total or self.clock() < self.show_from:
            return
        share = min(1.0, self.so_far / self.total)
        if int(10 * share) > self.tenths:
            self.tenths = int(10 * share)
            left = (self.clock() - self.start) * (1 - share) / share
            print(f"{self.name}: {100 * share:.0f} %, about {left / 60:.1f} minutes left", file=sys.stderr)

    def check(self) -> None:
        """TooLong if the time is up."""
        if self.clock() > self.end:
            part = f" with about {min(99, 100 * self.so_far / self.total):.0f} % of it done" if self.total else ""
            raise TooLong(
                f"{self.command}: {self.name} was stopped after limit = {self.limit:g} seconds{part}; {self.advice}"
            )

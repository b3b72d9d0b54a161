"""The time of `prove`, `derive` and `check`: limited, and shown while they work.

A long computation is ended between two of its steps: its functions call `step`, a look at the clock, which may raise.
Nothing is ended inside of a step, so that no cache of SymPy and no patched function is left half done. The clock is
that of the thread's own computing, so that a busy machine changes no verdict.
"""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

SECONDS = 20.0  # the limit of a derivation unless another one is given
SYMBOLS = 0.75  # the share of the time that formulas have before the comparison in numbers, which has the rest
ADVICE = "give a part of the function, whose formulas are shorter, or a longer limit (limit=120; None: no limit)"

_limit: ContextVar["TimeLimit | None"] = ContextVar("limit", default=None)  # of the work in this thread


class TooLong(RuntimeError):
    """A proof or a derivation that takes longer than its limit."""


class TimeLimit:
    """The time of one call of a command, which is spent in several parts, and how much of the work is done.

    advice: what to do when the time is up. long: seconds, after which the progress is shown.
    """

    def __init__(
        self,
        command: str,
        name: str,
        limit: float | None,
        progress: bool | None,
        advice: str = ADVICE,
        long: float = 2.0,
    ):
        if limit is not None and not limit > 0:
            raise ValueError(f"{command}: limit={limit!r}; expected seconds above 0, or None for no limit")
        self.command, self.name, self.limit, self.advice = command, name, limit, advice
        self.wanted = sys.stderr.isatty() if progress is None else progress
        self.stage, self.left, self.start = "", math.inf if limit is None else limit, self.clock()
        self.end, self.show_from = self.start + self.left, self.start + long
        self.begin(100)

    def clock(self) -> float:
        """The seconds that the limit counts."""
        return time.thread_time()

    def begin(self, total: float) -> None:
        """The work begins: `total` of it in all, infinite if that is not known yet."""
        self.total, self.so_far, self.tenths = total, 0.0, 0

    def step(self) -> None:
        """A look at the clock: TooLong if the time is up."""
        self.show()
        if self.clock() > self.end:
            raise TooLong(f"{self.command}: {self.name}: {self.out_of_time(self.stopped)}")

    def show(self) -> None:
        """A line for each tenth of the work, if that is wanted and it takes long."""
        if not self.wanted or self.clock() < self.show_from:
            return
        share = min(1.0, self.so_far / self.total)
        if int(10 * share) > self.tenths:
            self.tenths = int(10 * share)
            left = (self.clock() - self.start) * (1 - share) / share
            print(f"{self.name}: {100 * share:.0f} %, about {left / 60:.1f} minutes left", file=sys.stderr)

    @property
    def stopped(self) -> str:
        """While what the work was ended, or how much of it was done, in words."""
        part = min(99, 100 * self.so_far / self.total)
        return f"while {self.stage}" if self.stage else f"with about {part:.0f} % of it done"

    def out_of_time(self, stopped: str, numbers: str = "") -> str:
        """That the work was ended, what is known from numbers, and what to do."""
        return f"stopped at limit = {self.limit:.4g} seconds, {stopped}{numbers and '; '}{numbers}; {self.advice}"


@contextmanager
def replaced(variable: ContextVar, value) -> Iterator:
    """Inside, a variable has this value in this thread."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


@contextmanager
def limited(limit: TimeLimit, share: float = 1.0) -> Iterator[None]:
    """Inside, each step of the work raises TooLong when this share of the time that is left is up."""
    is_part, end, start = _limit.get() is limit, limit.end, limit.clock()  # a part of the work that goes on
    limit.end = start + share * (end - start if is_part else limit.left)
    try:
        with replaced(_limit, limit):
            yield
    finally:
        if is_part:
            limit.end = end
        else:
            limit.left -= limit.clock() - start


@contextmanager
def at_most(share: float) -> Iterator[None]:
    """Inside, the work ends, without an error, after this share of the time that is left in this thread."""
    with suppress(TooLong), limited(_limit.get() or TimeLimit("derive", "", None, False), share):
        yield


def step(done: float = 0) -> None:
    """A step of the work in this thread begins, and so much more of it is done: TooLong if the time is up."""
    limit = _limit.get()
    if limit is not None:
        limit.so_far += done
        limit.step()


def stage(words: str = "", done: float = 0) -> None:
    """What comes now, in words, and how many percent more of the work in this thread are done."""
    limit = _limit.get()
    if limit is not None:
        limit.stage = words or limit.stage
        limit.so_far += done
        limit.show()


def is_up() -> bool:
    """Is the time of the work in this thread over?"""
    limit = _limit.get()
    return limit is not None and limit.clock() > limit.end


def stopped() -> str:
    """While what the work in this thread was ended, in words."""
    return _limit.get().stopped

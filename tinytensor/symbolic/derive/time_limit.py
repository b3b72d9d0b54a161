"""The time that `derive` and `check` take: limited, and shown while they work.

The clock is that of the thread's own computing, so that a busy machine changes no verdict. It is read at each step of
the calculus (index_calculus/interruption.py) and between points of the comparison in numbers.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from tinytensor.symbolic.index_calculus.interruption import each_step, replaced
from tinytensor.symbolic.prove.progress import Progress, TooLong

SECONDS = 20.0  # the limit unless another one is given
SYMBOLS = 0.75  # the share of the time that formulas have before the comparison in numbers, which has the rest
ADVICE = "give a part of the function, whose formulas are shorter, or a longer limit (limit=120; None: no limit)"

_limit: ContextVar["TimeLimit | None"] = ContextVar("limit", default=None)  # of the work in this thread


class TimeLimit(Progress):
    """The progress of one call of `derive` or `check`, and its time, which is spent in several parts."""

    long = 2.0  # seconds, after which the progress is shown

    def __init__(self, command: str, name: str, limit: float | None, progress: bool | None):
        if limit is not None and not limit > 0:
            raise ValueError(f"{command}: limit={limit!r}; expected seconds above 0, or None for no limit")
        super().__init__(name, limit, progress)
        self.command, self.stage, self.left = command, "", math.inf if limit is None else limit
        self.begin(100)

    def clock(self) -> float:
        return time.thread_time()

    def step(self) -> None:
        """A look at the clock: TooLong if the time is up."""
        self.show()
        if self.clock() > self.end:
            raise TooLong(f"{self.command}: {self.name}: {self.out_of_time(stopped())}")

    def out_of_time(self, stopped: str, numbers: str = "") -> str:
        """That the work was ended, what is known from numbers, and what to do."""
        return f"stopped at limit = {self.limit:.4g} seconds, {stopped}{numbers and '; '}{numbers}; {ADVICE}"


@contextmanager
def limited(limit: TimeLimit, share: float = 1.0) -> Iterator[None]:
    """Inside, each step of the calculus raises TooLong when this share of the time that is left is up."""
    is_part, end, start = _limit.get() is limit, limit.end, limit.clock()  # a part of the work that goes on
    limit.end = start + share * (end - start if is_part else limit.left)
    try:
        with replaced(_limit, limit), each_step(limit.step):
            yield
    finally:
        if is_part:
            limit.end = end
        else:
            limit.left -= limit.clock() - start


def stage(words: str = "", done: float = 0) -> None:
    """What comes now, in words, and how many percent more of the work in this thread are done."""
    limit = _limit.get()
    if limit is not None:
        limit.stage = words or limit.stage
        limit.count(done)


@contextmanager
def at_most(share: float) -> Iterator[None]:
    """Inside, the work ends, without an error, after this share of the time that is left in this thread."""
    with suppress(TooLong), limited(_limit.get() or TimeLimit("derive", "", None, False), share):
        yield


def is_up() -> bool:
    """Is the time of the work in this thread over?"""
    limit = _limit.get()
    return limit is not None and limit.clock() > limit.end


def stopped() -> str:
    """While what the work in this thread was ended, in words."""
    return f"while {_limit.get().stage}"

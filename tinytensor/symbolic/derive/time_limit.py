"""The time that `derive` and `check` take: limited, and shown while they work.

The clock is that of the thread's own computing, so that a busy machine changes no verdict. It is read at each step of
the calculus (index_calculus/interruption.py) and between points of the comparison in numbers.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tinytensor.symbolic.index_calculus.interruption import each_step, replaced
from tinytensor.symbolic.prove.progress import Progress, TooLong

SECONDS = 20.0  # the limit unless another one is given
SYMBOLS = 0.75  # the share of the limit that a derivation has before the comparison in numbers, which has the rest
ADVICE = "give a part of the function, whose formulas are shorter, or a longer limit (limit=120; None: no limit)"

_limit: ContextVar["TimeLimit | None"] = ContextVar("limit", default=None)  # of the work in this thread


class TimeLimit(Progress):
    """The progress and the deadline of one call of `derive` or `check`."""

    advice = ADVICE
    long = 2.0  # seconds, after which the progress is shown

    def __init__(self, command: str, name: str, limit: float | None, progress: bool | None):
        if limit is not None and not limit > 0:
            raise ValueError(f"{command}: limit={limit!r}; expected seconds above 0, or None for no limit")
        self.command = command
        super().__init__(name, limit, progress)
        self.stage = ""

    def clock(self) -> float:
        return time.thread_time()

    def step(self) -> None:
        """A look at the clock: TooLong if the time is up."""
        self.show()
        self.check()

    @property
    def is_up(self) -> bool:
        return self.clock() > self.end

    @property
    def used(self) -> float:
        """The seconds of computing since the beginning."""
        return self.clock() - self.start


@contextmanager
def limited(limit: TimeLimit) -> Iterator[TimeLimit]:
    """Inside, each step of the calculus raises TooLong when the time is up."""
    limit.begin(100)
    with replaced(_limit, limit), each_step(limit.step):
        yield limit


def stage(words: str = "", done: float = 0) -> None:
    """What comes now, in words, and how many percent more of the work in this thread are done."""
    limit = _limit.get()
    if limit is not None:
        limit.stage = words or limit.stage
        limit.count(done)


@contextmanager
def at_most(share: float) -> Iterator[None]:
    """Inside, the work ends, without an error, after this share of the time that is left in this thread."""
    limit = _limit.get() or TimeLimit("derive", "", None, False)
    end, now = limit.end, limit.clock()
    limit.end = now + share * (end - now)
    try:
        yield
    except TooLong:
        pass
    finally:
        limit.end = end


def is_up() -> bool:
    """Is the time of the work in this thread over?"""
    limit = _limit.get()
    return limit is not None and limit.is_up


def stopped() -> str:
    """While what the work in this thread was ended, in words."""
    return f"while {_limit.get().stage}"


def out_of_time(limit: float | None, stopped: str, numbers: str) -> str:
    """That the work was ended, what is known from numbers, and what to do."""
    return f"stopped at limit = {limit:.4g} seconds, {stopped}{numbers and '; '}{numbers}; {ADVICE}"


def rest_of(limit: float | None, used: float) -> float | None:
    """What is left of a limit, but the share that a comparison in numbers has at least; None if there is no limit."""
    return None if limit is None else max(limit - used, (1 - SYMBOLS) * limit)


def in_time(command: str, name: str, seconds: float | None, limit: float | None, progress: bool | None, make: Callable):
    """make(), in these seconds, and those that were used; TooLong in the name of the command if they are not enough.

    limit: that of the command, which the error names.
    """
    with limited(TimeLimit(command, name, seconds, progress)) as time_limit:
        stage("formulas were written")
        try:
            return make(), time_limit.used
        except TooLong:
            raise TooLong(f"{command}: {name}: {out_of_time(limit, stopped(), '')}") from None

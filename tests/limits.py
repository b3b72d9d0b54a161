"""Ends what takes too long, by an error that is raised in it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

# The clock of a timer says which signal it sends: time that passes, or time that this process has the processor.
SIGNALS = {signal.ITIMER_REAL: signal.SIGALRM, signal.ITIMER_PROF: signal.SIGPROF}


@contextmanager
def limited(seconds: float, error: type[BaseException], clock: int = signal.ITIMER_REAL) -> Iterator[None]:
    """Inside, `error` is raised when the seconds of that clock are over."""

    def over(number, frame):
        raise error

    before = signal.signal(SIGNALS[clock], over)
    signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        signal.setitimer(clock, 0)
        signal.signal(SIGNALS[clock], before)

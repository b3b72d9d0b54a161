"""Ends what takes too long, by an error that is raised in it."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.tools.platforms import POSIX

# The clock of a timer says which signal it sends: time that passes, or time that this process has the processor.
# Windows has neither.
SIGNALS = {signal.ITIMER_REAL: signal.SIGALRM, signal.ITIMER_PROF: signal.SIGPROF} if POSIX else {}
PASSING = signal.ITIMER_REAL if POSIX else 0
SOON = 0.001


@contextmanager
def limited(seconds: float, error: type[BaseException], clock: int = PASSING) -> Iterator[None]:
    """Inside, `error` is raised when the seconds of that clock are over.

    The signal may come in a finalizer or in a callback of the garbage collector. Python drops what these raise, and
    calls `sys.unraisablehook` instead. Then the timer is set once more.
    """

    def over(number, frame):
        raise error

    def dropped(unraisable):
        if isinstance(unraisable.exc_value, error):
            signal.setitimer(clock, SOON)
        else:
            hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, dropped
    before = signal.signal(SIGNALS[clock], over)
    signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        signal.setitimer(clock, 0)
        signal.signal(SIGNALS[clock], before)
        sys.unraisablehook = hook

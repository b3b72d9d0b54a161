"""A long computation of the calculus can be ended between two of its steps.

Its functions call `step`, which calls what `each_step` has set for this thread: a look at the clock, which may raise.
Nothing is ended inside of a step, so that no cache of SymPy and no patched function is left half done.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_current = threading.local()  # .check: called at each step in this thread


def step() -> None:
    """A step of a computation begins."""
    check = getattr(_current, "check", None)
    if check is not None:
        check()


@contextmanager
def each_step(check: Callable[[], None] | None) -> Iterator[None]:
    """Inside, each step in this thread calls `check` first, and no other one."""
    before, _current.check = getattr(_current, "check", None), check
    try:
        yield
    finally:
        _current.check = before

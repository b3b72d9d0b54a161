"""A long computation of the calculus can be ended between two of its steps.

Its functions call `step`, which calls what `each_step` has set for this thread: a look at the clock, which may raise.
Nothing is ended inside of a step, so that no cache of SymPy and no patched function is left half done.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)  # called at each step


@contextmanager
def replaced(variable: ContextVar, value) -> Iterator:
    """Inside, a variable has this value in this thread."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def step() -> None:
    """A step of a computation begins."""
    check = _check.get()
    if check is not None:
        check()


def each_step(check: Callable[[], None] | None) -> AbstractContextManager:
    """Inside, each step in this thread calls `check` first, and no other one."""
    return replaced(_check, check)

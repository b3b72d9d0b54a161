"""Switches: contexts and decorators that set a field of this thread's state for a while (grad modes, anomaly mode)."""

import functools
import inspect
from collections.abc import Callable
from contextlib import ContextDecorator

from tinytensor.core.dispatch import state


class Switch(ContextDecorator):
    """Set a field of the state, and restore its earlier value at the end, so that switches nest."""

    field: str
    value = True

    def __init__(self) -> None:
        self.before = []  # a stack, since a decorated function may call itself

    def __enter__(self):
        self.before.append(getattr(state, self.field))
        setattr(state, self.field, self.value)
        return self

    def __exit__(self, *exc):
        setattr(state, self.field, self.before.pop())
        return False

    def _recreate_cm(self):
        """A context of its own for each call of a decorated function, in any thread."""
        return self.__class__()

    def __call__(self, function: Callable) -> Callable:
        if not inspect.isgeneratorfunction(function):
            return super().__call__(function)

        # A generator runs in pieces, and its caller runs between them. The switch must hold for the pieces only: if it
        # were entered once around all of them, it would be on for the caller as well.
        @functools.wraps(function)
        def generator(*args, **kwargs):
            pieces = function(*args, **kwargs)
            go_on = functools.partial(next, pieces)
            while True:
                try:
                    with self._recreate_cm():
                        value = go_on()
                except StopIteration as stop:
                    return stop.value
                try:
                    go_on = functools.partial(pieces.send, (yield value))
                except BaseException as error:  # from the caller's throw() or close()
                    go_on = functools.partial(pieces.throw, error)

        return generator

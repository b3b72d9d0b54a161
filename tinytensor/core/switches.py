"""A field of this thread's state that is set for a while: the contexts and decorators of modes and of anomaly mode, and
who is told of what goes on the tape."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager

from tinytensor.core.dispatch import state


class Switch(ContextDecorator):
    """Set a field of the state, and put back what was found there, so that switches nest and leave nothing behind."""

    field: str
    value = True

    def __init__(self):
        self.before = []  # a stack, since a decorated function may call itself

    def __enter__(self):
        self.before.append(getattr(state, self.field))
        setattr(state, self.field, self.value)
        return self

    def __exit__(self, *exc):
        setattr(state, self.field, self.before.pop())
        return False

    def _recreate_cm(self):
        """Each call of a decorated function, in whatever thread, has a context of its own."""
        return self.__class__()

    def __call__(self, function: Callable) -> Callable:
        if not inspect.isgeneratorfunction(function):
            return super().__call__(function)

        # A generator runs in pieces, between which its caller runs. The switch must hold for the pieces only: entered
        # once around all of them it would be on for the caller as well.
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
                except BaseException as error:  # the caller threw it in; close() does that too
                    go_on = functools.partial(pieces.throw, error)

        return generator


@contextmanager
def watching(note: Callable) -> Iterator[None]:
    """In this thread, `note(node, args, y)` is told of every operation that goes on the tape."""
    before, state.told_of_nodes = state.told_of_nodes, note
    try:
        yield
    finally:
        state.told_of_nodes = before

"""What is switched on or off for a while, in this thread: is there a tape?

The switches themselves are fields of `launch.state`, one set for each thread. A mode is a context that sets a field and
puts back what it found, so that modes nest, and an exception leaves nothing behind.
"""

import functools
import inspect
from collections.abc import Callable
from contextlib import ContextDecorator

from tinytensor.door import state


class no_grad(ContextDecorator):
    """Compute without the tape (a context, or a decorator of a function or a generator)."""

    mode = False

    def __new__(cls, function: Callable | None = None):
        return super().__new__(cls) if function is None else cls()(function)  # @no_grad is @no_grad()

    def __init__(self):
        self.before = []  # a stack, since a decorated function may call itself

    def __enter__(self):
        self.before.append(state.grad)
        state.grad = self.mode
        return self

    def __exit__(self, *exc):
        state.grad = self.before.pop()
        return False

    def _recreate_cm(self):
        """Each call of a decorated function, in whatever thread, has a context of its own."""
        return self.__class__()

    def __call__(self, function: Callable) -> Callable:
        if not inspect.isgeneratorfunction(function):
            return super().__call__(function)

        # A generator runs in pieces, between which its caller runs. The mode must hold for the pieces only: entered
        # once around all of them it would switch off the caller's tape as well.
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


class enable_grad(no_grad):
    """Compute with the tape, inside no_grad() too."""

    mode = True


class set_grad_enabled(no_grad):
    """Switch recording on the tape on or off (a function, a context or a decorator).

    As a function it acts when it is called, so it acts then in the other two uses as well; these first go back to what
    was before, and switch when they are entered.
    """

    def __new__(cls, mode: bool):
        return super().__new__(cls)

    def __init__(self, mode: bool):
        self.mode, self.outside = bool(mode), state.grad
        self.before = []
        state.grad = self.mode

    def __enter__(self):
        state.grad = self.outside
        return super().__enter__()

    def _recreate_cm(self):
        return self.__class__(self.mode)

    def __call__(self, function: Callable) -> Callable:
        state.grad = self.outside
        return super().__call__(function)


inference_mode = no_grad  # PyTorch's has more rules, all of them for speed; the result is the same


def is_grad_enabled() -> bool:
    """Are operations put on the tape?"""
    return state.grad

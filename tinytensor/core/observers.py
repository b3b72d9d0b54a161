"""Functions that see what the engine does in a thread: operations, reads of values, nodes of the tape, random draws."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tinytensor.core.dispatch import state


@contextmanager
def observe(**observers: Callable) -> Iterator[None]:
    """Inside, this thread calls these functions, by the names that `State` has for them, such as on_node=note."""
    before = {name: getattr(state, name) for name in observers}
    try:
        for name, observer in observers.items():
            setattr(state, name, observer)
        yield
    finally:
        for name, observer in before.items():
            setattr(state, name, observer)

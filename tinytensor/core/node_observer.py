"""A function that sees each operation as it goes on the tape."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tinytensor.core.dispatch import state


@contextmanager
def observe_nodes(note: Callable) -> Iterator[None]:
    """Inside, call `note(node, args, y)` for every operation that goes on the tape in this thread."""
    before, state.on_node = state.on_node, note
    try:
        yield
    finally:
        state.on_node = before

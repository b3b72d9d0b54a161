"""What the engine reports to the recorder, `state.recording` (recorder_base.py); without one, nothing happens."""

from collections.abc import Callable
from typing import Any

from tinytensor.core.state import state

STOPPED = False  # the result of running a recorded program in which a flag was set; otherwise it is True


def is_recording() -> bool:
    """Are launches noted now? A replay runs them on other values, so code that is recorded reads none."""
    return state.recording is not None


def guard(question: Callable) -> None:
    """A replay needs the objects that `question()` returns now."""
    if state.recording is not None:
        state.recording.guard(question)


def notice(tensor: Any) -> None:
    """This tensor is about to be used.

    The state of a tensor from outside the step (its gradient, say) is a condition under which the recording may be
    replayed; so the recording looks at it before the step can change it.
    """
    if state.recording is not None:
        state.recording.notice(tensor)


def notice_gradient(tensor: Any, replaced: bool) -> None:
    """This tensor's gradient is about to be read, or to be replaced (None replaces it too)."""
    if state.recording is not None:
        state.recording.notice_gradient(tensor, replaced)


def refuse(problem: str) -> None:
    """The step does something that a replay could not repeat."""
    if state.recording is not None:
        state.recording.refuse(problem)


def is_from_outside(tensor: Any) -> bool:
    """Is there a recording that has not made this tensor?"""
    return state.recording is not None and not state.recording.pool.owns(tensor._data)

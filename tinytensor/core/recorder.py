"""Recorder: the object that notes launches while `state.recording` is set.

There are two. A `Recording` (native/recording/recording.py) notes a training step, to replay it as native programs. A
`DryRun` (native/fast/launch_cache.py) notes the launches of one call, to repeat them on other arrays.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytensor.core.state import state

STOPPED = False  # the result of running a program in which a flag was set; otherwise it is True


class NotRecordable(Exception):
    """The recorder cannot note this, so the call is made without it."""


class Recorder:
    """The calls that dispatch.py and tensors make while `state.recording` is set; a recorder defines some of them."""

    pool: Any  # gives memory: buffer(shape, dtype), and owns(array)
    in_program = True  # do the noted launches run one after the other, with all threads awake?
    function_guards: Any  # the objects outside the run that its code has read (native/recording/guards.py)

    def launch(self, kernel: Any, args: tuple) -> None:
        """A launch: run it, note it, or both."""
        raise NotRecordable

    def host(self, function: Callable, args: tuple, undo: Callable | None) -> None:
        """A Python function that runs now and at each replay."""
        raise NotRecordable

    def check(self, flag: np.ndarray, tell: Callable) -> None:
        """A place at which the run stops with `tell(flag)` if a kernel has set the flag."""
        raise NotRecordable

    def guard(self, question: Callable) -> None:
        """A question whose answer must be the same objects at a replay."""
        raise NotRecordable

    def notice(self, tensor: Any) -> None:
        """A tensor is about to be used."""
        raise NotRecordable

    def notice_gradient(self, tensor: Any, replaced: bool) -> None:
        """A tensor's gradient is about to be read or replaced."""
        raise NotRecordable

    def refuse(self, problem: str) -> None:
        """The run does something that a replay could not repeat."""
        raise NotRecordable


# What the engine tells the recorder; without one, nothing happens.


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

"""Recorder, the base of what notes the launches of a run; recorder.py has what the engine reports to it.

There are two. A `Recording` (native/recording/recording.py) notes a training step, to replay it as native programs. A
`DryRun` (native/fast/launch_cache.py) notes the launches of one call, to repeat them on other arrays.
"""

from collections.abc import Callable
from typing import Any

import numpy as np


class NotRecordable(Exception):
    """The recorder cannot note this, so the call is made without it."""


class Recorder:
    """The calls that dispatch.py and tensors make while a run is recorded; a recorder defines some of them."""

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

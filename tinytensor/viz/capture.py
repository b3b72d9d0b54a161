"""`watch()`: what a forward pass leaves beside the tape, so that all of it can be shown.

Inside, each operation that goes on the tape leaves its arguments, its result, and the place where it was called: the
modules that were being called, and the variable that took its result. Both are found on Python's own stack, so modules
and models are written as always, and an eager call outside of `watch()` costs nothing.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from weakref import WeakKeyDictionary, ref

import numpy as np

from tinytensor.core.dispatch import state
from tinytensor.core.observers import observe
from tinytensor.core.op import Node
from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module


@dataclass
class Captured:
    """A call of an operation: its arguments as objects and as arrays, its result, and where it was called."""

    args: tuple
    values: tuple
    y: np.ndarray
    calls: tuple[ref[Module], ...]  # the modules whose calls it was a part of, the outermost first
    variable: str = ""  # the local variable, in the innermost of these calls, that took the result

    @property
    def modules(self) -> tuple[Module, ...]:
        """The modules that still exist; they are held weakly, since a module may hold a result and so its node."""
        return tuple([module for call in self.calls if (module := call()) is not None])


captured: WeakKeyDictionary[Node, Captured] = WeakKeyDictionary()  # when a tape is dropped, its entries go with it


@contextmanager
def watch() -> Iterator[None]:
    """Inside (and in this thread) the arguments and the result of each operation on the tape are kept, to be shown.

    Operations that a Module computes are shown under the module's name, with the names of its variables. Copies are
    kept, because a value may be changed in place later; so do not train inside.
    """

    def note(node: Node, args: tuple, y: np.ndarray) -> None:
        frames = list(_frames(sys._getframe(1)))
        calls = tuple([ref(module) for module in dict.fromkeys(inside for _, inside in frames) if module is not None])
        captured[node] = Captured(args, tuple(map(array_of, args)), y.copy(), calls)
        for frame, module in frames:
            _name_variables(frame, module)
        if before is not None:
            before(node, args, y)

    before = state.on_node  # the block around this one is called as well
    with observe(on_node=note):
        yield


def _frames(innermost: FrameType) -> Iterator[tuple[FrameType, Module | None]]:
    """The functions that are running, the outermost first, each with the innermost Module that is being called."""
    stack, frame = [], innermost
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    inside = None
    for frame in reversed(stack):
        if frame.f_code is Module.__call__.__code__:
            inside = frame.f_locals["self"]
        yield frame, inside


def _name_variables(frame: FrameType, module: Module | None) -> None:
    """Note the local variables of a function that hold results which the module that runs has computed.

    The engine's own variables are left out, and so are parameters, whose values were computed elsewhere.
    """
    code, room = frame.f_code, frame.f_globals.get("__name__", "")
    engine = room.startswith("tinytensor.") and (not room.startswith("tinytensor.nn.") or room.endswith(".module"))
    if module is None or engine or code.co_name.startswith("<"):
        return
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name, value in frame.f_locals.items():
        if isinstance(value, Tensor) and value.node in captured and name not in parameters:
            entry = captured[value.node]
            if not entry.variable and entry.calls and entry.calls[-1]() is module:
                entry.variable = name


def array_of(value: object) -> object:
    """A copy of the array of a tensor, of an array, and of each one in a tuple; other values as they are."""
    if isinstance(value, tuple):
        return tuple(map(array_of, value))
    value = value._data if isinstance(value, Tensor) else value
    return value.copy() if isinstance(value, np.ndarray) else value

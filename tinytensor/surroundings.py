"""What a function reads beyond its arguments: its closure, globals, the attributes of objects and modules.

A replay runs launches, and no Python. Which launches there are, and with what numbers, was decided by Python, which
looked at a rate in a closure, at `dropout.p`, at `self.k`. So `compile` has to know where the function looks, and a
replay has to ask whether the same things are still there. Where it looks is read from the bytecode of the user's own
functions, from the compiled one on through all that can be reached from it: a global name, a cell, an attribute's name.
More places than are ever read do little harm (another recording); one too few would be a wrong result without a word.

Not followed: the code of libraries (this one included; its modules' attributes are all looked at instead), and what C
objects hold.
"""

import builtins
import dis
import functools
import random
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from operator import is_
from pathlib import Path
from typing import Any

import numpy as np

from tinytensor.nn.module import Module
from tinytensor.tensors import Tensor

PLAIN = (int, float, complex, str, bytes, bool, type(None), range, slice, np.generic, np.dtype)
LARGE = 1000  # entries of a list or dictionary; of one with more, looked at in each replay, only the number counts
_MISSING = object()
_LIBRARIES = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(Path(__file__).parent),
    "<frozen",
)
_FIELDS = frozenset(vars(Module()))  # what every module has, the containers of its parts among them
_MAKING = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__repr__", "__setattr__", "__delattr__"}


class Surroundings:
    """The places where a function may look, and what was there when it was about to run."""

    def __init__(self, function: Callable, objects: Iterable = ()):
        self.names: set[str] = set()  # attributes whose values the code reads or sets
        self.called: set[str] = set()  # attributes that it calls: opt.step() says nothing of an attribute self.step
        self.asked: set[str] = set()  # names in strings, for getattr() and hasattr(): they need not be there
        known = -1
        while known != len(self.names) + len(self.called) + len(self.asked):  # each name may open more code
            known = len(self.names) + len(self.called) + len(self.asked)
            self._begin()
            for value in (function, *objects):
                self._visit(value, getattr(value, "__name__", type(value).__name__))
        self.full = [whole for whole in self.wholes if len(whole)]  # of the others the length says all
        self.then = self._now()
        self.chances = [(state, state()) for state in self.generators]

    def _begin(self) -> None:
        self.cells: list[types.CellType] = []
        self.parts: list[tuple[Callable, list[str]]] = []  # some attributes: get(name, default), names
        self.wholes: list[Any] = []  # lists, and the keys and values of dictionaries
        self.labels: dict[str, list[str]] = {"cells": [], "parts": []}
        self.visited: dict[int, Any] = {}  # by identity; it keeps them alive, so that no other object gets an id
        self.generators: list[Callable] = [random.getstate, np.random.get_state]
        self.iterators: list[str] = []

    # ----------------------------------------------------------------------------------------------------- at a replay

    def hold(self) -> bool:
        """Is everything still there: the very objects, or numbers and texts of the same value?"""
        try:
            now = self._now()
        except ValueError:  # a variable that was deleted
            return False
        if len(now) == len(self.then) and all(map(is_, now, self.then)):
            return True
        if len(now) != len(self.then) or not all(map(_same, now, self.then)):
            return False
        self.then = now  # so that the next look is short
        return True

    def _now(self) -> list:
        """What is in all places, one behind the other: one list, because this runs in each replay."""
        found = [cell.cell_contents for cell in self.cells]
        for get, names in self.parts:
            found += map(get, names, repeat(_MISSING))
        found += chain.from_iterable(self.full)
        found += map(len, self.wholes)  # else what moves from the end of one to the beginning of the next is not seen
        return found

    # -------------------------------------------------------------------------------------------- after the recording

    def changed(self) -> str | None:
        """The name of a place that the function itself has changed, since a replay would not change it."""
        if self.hold():
            return None
        labels = [*self.labels["cells"], *self.labels["parts"]]
        places = zip(labels, self._now(), self.then)
        return next((name for name, now, then in places if not _same(now, then)), "the contents of a container")

    def drew(self) -> bool:
        """Were numbers drawn from Python's or NumPy's generators?"""
        return any(repr(state()) != repr(before) for state, before in self.chances)

    def knows(self, array: np.ndarray) -> bool:
        """Is this array, or one that it is a view of, in one of the places?"""
        while isinstance(array, np.ndarray):
            if id(array) in self.visited:
                return True
            array = array.base
        return False

    @property
    def has_arrays(self) -> bool:
        return any(isinstance(value, np.ndarray) for value in self.visited.values())

    # --------------------------------------------------------------------------------------------------- finding places

    def _visit(self, value, label: str) -> None:
        """Note where the function may look within a value."""
        if isinstance(value, PLAIN) or id(value) in self.visited:
            return
        self.visited[id(value)] = value
        if isinstance(value, Tensor):  # its values are read where they lie; but what somebody has written on it
            self._attributes(vars(value), label)
        elif isinstance(value, types.MethodType):
            self._visit(value.__self__, label)
            self._visit(value.__func__, label)
        elif isinstance(value, staticmethod | classmethod):
            self._visit(value.__func__, label)
        elif isinstance(value, property):
            self._visit(value.fget, label)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self._visit(part, label)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value, frozenset())
        elif isinstance(value, types.ModuleType):
            if not _of_a_library(value.__name__):
                self._attributes(vars(value), value.__name__)
        elif isinstance(value, Module):
            self._module(value, label)
        elif isinstance(value, dict):
            self._whole(value, label)
            if len(value) <= LARGE:
                self._whole(value.values(), label)
        elif isinstance(value, list | set | deque):
            self._whole(value, label)
        elif isinstance(value, tuple | frozenset):  # these can't change, but what is in them can
            for v in value:
                self._visit(v, label)
        elif isinstance(value, np.random.Generator):
            self.generators.append(lambda: value.bit_generator.state)
        elif isinstance(value, np.random.RandomState):
            self.generators.append(value.get_state)
        elif isinstance(value, random.Random):
            self.generators.append(value.getstate)
        elif hasattr(type(value), "__next__"):
            self.iterators.append(label)
        elif hasattr(value, "__wrapped__"):  # a function behind a cache, or compiled itself
            self._visit(value.__wrapped__, label)
        else:
            self._object(value, label)

    def _function(self, function: types.FunctionType) -> None:
        code = function.__code__
        if code.co_filename.startswith(_LIBRARIES):
            self._visit(getattr(function, "__wrapped__", None), function.__name__)  # no_grad() around the user's own
            return
        read = _read(code)
        self.names |= read.names
        self.called |= read.called
        self.asked |= read.asked
        self.names -= {name for name in self.names if name.startswith("__")}
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:  # a variable that has no value yet
                continue
            self.cells.append(cell)
            self.labels["cells"].append(name)
            self._visit(value, name)
        names = function.__globals__
        self._part(names.get, [n for n in sorted(read.globals) if n in names or not hasattr(builtins, n)], "")
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._visit(default, function.__name__)
        for name in read.modules:
            self._visit(sys.modules.get(name), name)

    def _part(self, get: Callable, names: list[str], label: str) -> None:
        """Look at these names again, but for those of imported modules, which programs don't rebind."""
        kept = [name for name in names if not isinstance(get(name, None), types.ModuleType)]
        if kept:
            self.parts.append((get, kept))
            self.labels["parts"] += [label + name for name in kept]
        for name in names:
            self._visit(get(name, None), label + name)

    def _whole(self, value, label: str) -> None:
        if len(value) <= LARGE:
            self.wholes.append(value)
            for v in value:
                self._visit(v, label)
        else:
            self._part(lambda name, default: len(value), [f"the length of {label}"], "")

    def _attributes(self, found: dict, label: str, followed: frozenset[str] = frozenset()) -> None:
        """The attributes that the code names, and of those that it calls, such as can be called.

        Not those that a replay changes as the step itself does (`followed`: an optimizer counts its steps).
        """
        named = (n for n in found if n in self.names or (n in self.called and callable(found[n])))
        self._part(found.get, [n for n in named if n not in followed], f"{label}.")

    def _object(self, value, label: str) -> None:
        kind = type(value)
        if getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):  # its attributes stay
            for v in vars(value).values():
                self._visit(v, label)
        elif hasattr(value, "__dict__"):
            found = vars(value)
            self._attributes(found, label, getattr(kind, "followed", frozenset()))
            # values that it does not have itself: one of its class, or one that the code asks hasattr() about
            absent = [n for n in self.names - found.keys() if n in self.asked or _is_data(getattr(kind, n, _is_data))]
            self._part(found.get, sorted(absent), f"{label}.")
        if not _of_a_library(kind.__module__):
            slots = {s for c in kind.__mro__ for s in getattr(c, "__slots__", ()) if s in self.names}
            self._part(functools.partial(getattr, value), sorted(slots), f"{label}.")
        self._class(kind, _MAKING)

    def _class(self, kind: type, without: frozenset | set) -> None:
        """The methods that the code calls, the operators and properties, and the values that a class has."""
        libraries = [c for c in kind.__mro__ if c is not object and _of_a_library(c.__module__)]
        for c in kind.__mro__:
            if _of_a_library(c.__module__):
                continue
            found = vars(c)
            self._part(found.get, [n for n in found if n in self.names and _is_data(found[n])], f"{c.__name__}.")
            for name, value in found.items():
                operator = name.startswith("__") and name not in without
                theirs = any(name in vars(library) for library in libraries)  # a library calls it: forward(), say
                if not _is_data(value) and (operator or theirs or name in self.names or name in self.called):
                    self._visit(value, name)

    def _module(self, module: Module, label: str) -> None:
        """Of a module of this library all attributes, since the code that reads them is not followed."""
        found = vars(module)
        if any(c is not Module and c is not object and _of_a_library(c.__module__) for c in type(module).__mro__):
            self._whole(found.values(), label)
        else:
            self._part(found.get, [] if "training" in self.names else ["training"], f"{label}.")
        self._object(module, label)
        self._visit(getattr(module, "forward", None), f"{label}.forward")  # of the object itself, if it has one
        for field in _FIELDS:
            held = found.get(field)
            if isinstance(held, dict | list) and id(held) not in self.visited:
                self.visited[id(held)] = held
                self._whole(held.values() if isinstance(held, dict) else held, label)


# ------------------------------------------------------------------------------------------------- reading bytecode


class _Read:
    """The names that a function's code reads: globals, attributes, imported modules."""

    def __init__(self, code: types.CodeType):
        self.globals: set[str] = set()
        self.names: set[str] = set()
        self.called: set[str] = set()
        self.asked: set[str] = set()
        self.modules: set[str] = set()
        for i in dis.get_instructions(code):
            if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"):
                self.globals.add(i.argval)
            elif i.opname == "LOAD_METHOD" or (i.opname == "LOAD_ATTR" and sys.version_info >= (3, 12) and i.arg & 1):
                self.called.add(i.argval)
            elif i.opname in ("LOAD_ATTR", "STORE_ATTR", "IMPORT_FROM", "LOAD_SUPER_ATTR"):
                self.names.add(i.argval)
            elif i.opname == "IMPORT_NAME":
                self.modules.add(i.argval)
        strings = {c for c in code.co_consts if isinstance(c, str) and c.isidentifier()}
        if {"getattr", "hasattr", "setattr"} & self.globals:
            self.names |= strings
            self.asked |= strings
        for inner in code.co_consts:  # functions and comprehensions within
            if isinstance(inner, types.CodeType):
                for mine, theirs in zip(vars(self).values(), vars(_read(inner)).values(), strict=True):
                    mine |= theirs


_read = functools.cache(_Read)


@functools.cache
def _of_a_library(module: str) -> bool:
    """Does a module belong to Python, to an installed package or to this one?"""
    file = getattr(sys.modules.get(module), "__file__", None)
    return module in sys.builtin_module_names or (file is not None and file.startswith(_LIBRARIES))


def _is_data(value) -> bool:
    """Is this, found in a class, a value and no method or property? Programs set values anew, and seldom methods."""
    return not (callable(value) or isinstance(value, staticmethod | classmethod | property))


def _same(a, b) -> bool:
    """The same object, or the same value of what can't change."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return isinstance(a, PLAIN) and repr(a) == repr(b)  # -0.0 == 0.0, but is another number

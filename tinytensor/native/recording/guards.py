"""The values that a function reads beyond its arguments: its closure, globals, attributes of objects and modules.

A replay runs launches, and no Python. But Python chose these launches and their numbers when it was recorded, and for
that it read a rate in a closure, `dropout.p`, `self.k`. So `compile` lists the variables that the function reads, and a
replay checks that they hold the same values. Missing a variable gives a silently wrong replay. Guarding one too many
only causes re-recording: a guard on a step counter would re-record every step.

Chains of attributes in the code (bytecode.py) are followed on the actual objects. `self.model.scale` is a chain
from a variable whose object is known: each of its steps is guarded, and a method or property on the way is read
with the object as its `self`. If the receiver is not known (`for block in self.blocks: block.scale`, the result of a
call), the name counts on every object that the code can reach: the object at the end of a chain, and its contents. An
object that chains only pass through does not count as reached: a trainer, with all its counters, is mostly one of
these.

Two things are not followed: the code of libraries (this one included; all attributes of its modules are guarded
instead), and the contents of C objects.
"""

import builtins
import functools
import random
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from operator import contains, itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from tinytensor.core.dtype_objects import DType
from tinytensor.core.tensor import Tensor
from tinytensor.native.platform.object_layout import addresses
from tinytensor.native.recording.bytecode import chains_of
from tinytensor.nn.module import Module

PLAIN = (int, float, complex, str, bytes, bool, type(None), range, slice, np.generic, np.dtype, DType)
LARGE = 1000  # entries of a list or dictionary that each replay compares; of a larger one it compares only the length
_MISSING = object()
_UNKNOWN = object()  # the end of a chain that can't be found without running code
_LIBRARIES = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(Path(__file__).parents[2]),
    "<frozen",
)
_FIELDS = frozenset(vars(Module()))  # the attributes of every module, among them the containers of its parts
_MAKING = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__repr__", "__setattr__", "__delattr__"}


class _Made:
    """An object that the step makes by calling a class: attributes of the class are conditions, its own are not."""

    def __init__(self, cls: type):
        self.cls = cls


class Guards:
    """The variables that a function may read, and their values before it ran."""

    def __init__(self, function: Callable, arguments: Iterable = (), objects: Iterable = ()):
        """`arguments` are the positional ones, `objects` all arguments that the function can read parts of."""
        self.names: set[str] = set()  # attributes that the code reads or sets on receivers that are not known
        self.called: set[str] = set()  # attributes that it calls: block.step() does not read a number block.step
        self.asked: set[str] = set()  # names in strings, for getattr() and hasattr(): they may be absent
        self.set: set[str] = set()  # names to which the code assigns: their values may change during the run
        arguments = [_UNKNOWN if isinstance(g, (Tensor, tuple, list, dict, *PLAIN)) else g for g in arguments]
        known = -1
        while known != (known := sum(map(len, (self.names, self.called, self.asked, self.set)))):
            self._begin()  # each name may lead to more code, and the code to more names
            if isinstance(function, types.FunctionType | types.MethodType):
                self._function(function, *arguments)
                values = [value for value in objects if not any(value is g for g in arguments)]
            else:
                values = [function, *objects]
            for value in values:
                self._visit(value, ask(value, "__name__", type(value).__name__))
        self.recorded_values = self._current_values()
        self._sort_by_access()
        self.rng_states = [(state, state()) for state in self.generators]

    def _begin(self) -> None:
        self.cells: dict[int, tuple[types.CellType, str]] = {}  # by identity, with the names of the variables
        # by the identity of their holder: get(name, default), the names with their labels, the holder
        self.holders: dict[int, tuple[Callable, dict[str, str], Any]] = {}
        self.containers: list[Any] = []  # lists, and the keys and values of dictionaries
        self.visited: dict[int, Any] = {}  # by identity; it keeps the objects alive, so that their ids stay theirs
        self.followed: dict[tuple[int, ...], tuple] = {}  # functions, with their known arguments
        self.made: dict[type, _Made] = {}
        self.generators: list[Callable] = [random.getstate, np.random.get_state]
        self.iterators: list[str] = []

    # --- At a replay

    def hold(self) -> bool:
        """Do all variables hold what they held: the same objects, or numbers and texts of the same value?"""
        try:
            glance = self._read_fast()
            same = addresses(glance) == self.addresses and [*map(len, self.full)] == self.lengths
            if same and not any(self.empty) and not any(map(contains, *self.absent)):
                return True
            now = self._current_values()
        except (KeyError, ValueError):  # a name or a variable that was deleted
            return False
        if len(now) != len(self.recorded_values) or not all(map(_same, now, self.recorded_values)):
            return False
        self.recorded_values = now
        self._remember(glance)  # so that the next look is short
        return True

    def _current_values(self) -> list:
        """The values of all variables, in one list."""
        values = [cell.cell_contents for cell, _ in self.cells.values()]
        for get, names, _ in self.holders.values():
            values += map(get, names, repeat(_MISSING))
        values += chain.from_iterable(self.containers)
        values += map(
            len, self.containers
        )  # else a value that moves from the end of one to the start of the next is missed
        return values

    def _sort_by_access(self) -> None:
        """Sort the variables by the fastest way to read them, since every replay reads all of them."""
        self.variables = [cell for cell, _ in self.cells.values()]
        self.empty = [whole for whole in self.containers if not len(whole) and not hasattr(type(whole), "__bool__")]
        self.full = [whole for whole in self.containers if len(whole) or hasattr(type(whole), "__bool__")]
        self.lengths = [*map(len, self.full)]
        self.read_together: list[tuple[Callable, Any]] = []  # a function that reads all names of a dictionary, and that
        self.absent: tuple[list, list[str]] = [], []  # dictionaries, and a name that each of them lacks
        self.read_singly: list[tuple[Callable, dict[str, str]]] = []  # slots, say
        for get, names, _ in self.holders.values():
            held = getattr(get, "__self__", None)
            if type(held) not in (dict, types.MappingProxyType):
                self.read_singly.append((get, names))
                continue
            there = [n for n in names if n in held]
            if there:  # the first name is repeated: for a single name itemgetter() would return no tuple
                self.read_together.append((itemgetter(*there, there[0]), held))
            for name in names.keys() - there:
                self.absent[0].append(held)
                self.absent[1].append(name)
        self._remember(self._read_fast())

    def _remember(self, glance: tuple) -> None:
        self.current = glance  # kept alive, so that no other object gets an address of these
        self.addresses = addresses(glance)

    def _read_fast(self) -> tuple:
        """The values of all variables, read in the fastest way; KeyError if a name is gone."""
        values = [cell.cell_contents for cell in self.variables]
        for take, held in self.read_together:
            values += take(held)
        for get, names in self.read_singly:
            values += map(get, names, repeat(_MISSING))
        for whole in self.full:
            values += whole
        return tuple(values)

    # --- After the recording

    def changed(self) -> str | None:
        """The name of a variable that the function itself has changed; a replay would not change it."""
        if self.hold():
            return None
        labels = [name for _, name in self.cells.values()]
        labels += [label for _, names, _ in self.holders.values() for label in names.values()]
        values_now = zip(labels, self._current_values(), self.recorded_values)
        return next((name for name, now, then in values_now if not _same(now, then)), "the contents of a container")

    def uses_other_generators(self) -> bool:
        """Did the function draw numbers from Python's or NumPy's generators?"""
        return any(repr(state()) != repr(before) for state, before in self.rng_states)

    def knows(self, array: np.ndarray) -> bool:
        """Is this array, or an array that it is a view of, the value of one of them?"""
        while isinstance(array, np.ndarray):
            if id(array) in self.visited:
                return True
            array = array.base
        return False

    @property
    def has_arrays(self) -> bool:
        return any(isinstance(value, np.ndarray) for value in self.visited.values())

    # --- Chains that the code spells out

    def _function(self, function: Callable, *arguments) -> None:
        """Read a function's code with the arguments that are known: a method's `self`."""
        if isinstance(function, types.MethodType):
            return self._function(function.__func__, function.__self__, *arguments)
        if not _is_users(function):
            inner = ask(function, "__wrapped__")
            if inner is not None:  # no_grad() around a function of the user's
                self._function(inner, *arguments)
            else:  # it may return its arguments, or call their methods
                for value in (None if isinstance(function, types.FunctionType) else function, *arguments):
                    self._visit(value, getattr(function, "__name__", "an argument"))
            return None
        key = (id(function), *map(id, arguments))
        if key in self.followed:
            return None
        self.followed[key] = (function, *arguments)
        code = function.__code__
        known = dict(zip(code.co_varnames[: code.co_argcount], arguments))
        for value in arguments[code.co_argcount :]:
            self._visit(value, function.__name__)
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:  # a variable that has no value yet
                continue
            self.cells[id(cell)] = cell, name
            known[name] = self._steady(name, value, name)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._visit(default, function.__name__)
        return self._code(code, function.__globals__, known)

    def _code(self, code: types.CodeType, names: dict, known: dict[str, Any]) -> None:
        """Follow the chains of a piece of code; `names` are its globals, `known` the objects of some variables."""
        read = chains_of(code)
        self.names |= read.asked
        self.asked |= read.asked
        self.set |= read.set
        for name in known.keys() & read.varying:
            self._visit(known[name], name)
        known = {name: value for name, value in known.items() if name not in read.varying}
        for module in read.modules:
            self._visit(sys.modules.get(module), module)
            package = names.get("__package__") or ""
            while package:  # from .config import rate, from ..config import rate
                self._visit(sys.modules.get(f"{package}.{module}".rstrip(".")), module)
                package = package.rpartition(".")[0]
        if read.asks_super and code.co_varnames:  # super() takes the first argument without naming it
            self._visit(known.get(code.co_varnames[0], _UNKNOWN), code.co_varnames[0])
        for root, attributes, alias in read.chains:
            value, label = _UNKNOWN, root or ""
            if root in known:
                value = known[root]
            elif root is not None and root not in read.local:
                value = self._global(names, root)
            for name, how in attributes:
                label = f"{label}.{name}"
                value = self._attribute(value, name, how, label)
            if read.matches and isinstance(value, type):  # `case Point(x, y)` does not name the attributes
                self.names |= {*getattr(value, "__match_args__", ())}
            if alias:
                known[alias] = value
            else:
                self._visit(value, label)
        for inner in read.inner:
            self._code(inner, names, {name: known[name] for name in inner.co_freevars if name in known})

    def _global(self, names: dict, name: str) -> Any:
        if name not in names and hasattr(builtins, name):
            return _UNKNOWN
        self._note(names.get, names, name, name)
        return self._steady(name, names.get(name, _UNKNOWN), name)

    def _steady(self, name: str, value: Any, label: str) -> Any:
        """The value of a name, or _UNKNOWN if the code may assign another value while it runs."""
        if name not in self.set:
            return value
        self._visit(value, label)
        return _UNKNOWN

    def _attribute(self, value: Any, name: str, how: str, label: str) -> Any:
        """value.name, if it can be found without running code; each variable that decides it is noted."""
        if how == "set" and not isinstance(value, _Made):
            self.set.add(name)
        if value is _UNKNOWN:
            if not name.startswith("__"):
                (self.called if how == "call" else self.names).add(name)
            return _UNKNOWN
        if isinstance(value, types.ModuleType):
            entry = vars(value).get(name, _UNKNOWN)
            if _of_a_library(value.__name__):
                return entry
            self._note(vars(value).get, vars(value), name, label)
            if entry is _UNKNOWN and "__getattr__" in vars(value):
                self._function(vars(value)["__getattr__"])
            return self._steady(name, entry, label)
        cls = value.cls if isinstance(value, _Made) else value if isinstance(value, type) else type(value)
        is_object = cls is type(value)  # neither a class nor an object that the step will make
        own = getattr(value, "__dict__", {}) if is_object else {}
        theirs = _of_a_library(cls.__module__)
        entry = _class_attribute(cls, name)
        for hook in ("__setattr__" if how == "set" else "__getattribute__", "__getattr__"):  # hooks that do run code
            if _is_users(special := _class_attribute(cls, hook)) and (hook != "__getattr__" or name not in own):
                self._bound(special, value, cls)
                self._visit(value, label)
                self.names.add(name)
        if name in getattr(cls, "followed", ()):  # a replay changes it as the step does: an optimizer's step count
            return _UNKNOWN
        if name in own and not hasattr(type(entry), "__set__"):  # a property would take precedence
            if not _is_frozen(cls):
                self._note(own.get, own, name, label)
            return self._steady(name, own[name], label)
        if isinstance(value, Module):
            for entries in (own.get(registry, {}) for registry in ("_parameters", "_buffers", "_modules")):
                if name in entries:
                    self._note(entries.get, entries, name, label)
                    return self._steady(name, entries[name], label)
        if is_object and isinstance(entry, types.MemberDescriptorType) and not theirs:  # one of its __slots__
            self._note(functools.partial(getattr, value), value, name, label)
            return self._steady(name, getattr(value, name, _UNKNOWN), label)
        if is_object and hasattr(value, "__dict__") and not theirs:  # it may get its own attribute of this name later
            self._note(own.get, own, name, label)
        if entry is not _MISSING:
            for c in cls.__mro__:
                if not _of_a_library(c.__module__):
                    self._note(vars(c).get, c, name, f"{c.__name__}.{name}")
                if name in vars(c):
                    break
        if entry is not _MISSING and _is_data(entry) and not hasattr(type(entry), "__get__"):
            return self._steady(name, entry, label)
        if entry is not _MISSING:
            self._bound(entry, value if is_object or isinstance(value, _Made) else _UNKNOWN, cls)
        elif not isinstance(value, _Made):
            self._visit(value, label)
        return _UNKNOWN

    def _bound(self, member: Any, receiver: Any, cls: type) -> None:
        """Read a function or property that was found in a class, with `receiver` as its `self`."""
        if isinstance(member, staticmethod):
            self._function(member.__func__, *([cls] if member is vars(cls).get("__new__") else []))
        elif isinstance(member, classmethod):
            self._function(member.__func__, cls)
        elif isinstance(member, property):
            for function in filter(None, (member.fget, member.fset, member.fdel)):
                self._function(function, receiver)
        else:
            self._function(member.func if isinstance(member, functools.cached_property) else member, receiver)

    # --- Objects that the code can reach

    def _visit(self, value, label: str) -> None:
        """Note the variables that the function may read within a value that it can reach."""
        if isinstance(value, PLAIN) or value is _UNKNOWN or value is _MISSING or id(value) in self.visited:
            return
        self.visited[id(value)] = value
        if isinstance(value, dict | list | set | deque | tuple) and not _of_a_library(type(value).__module__):
            self._object(value, label)  # its class is the user's, with attributes and methods besides
        if isinstance(value, Tensor):  # a replay reads its numbers anew; attributes that the user set on it are guarded
            self._attributes(vars(value), label)
        elif isinstance(value, _Made):
            self._class(value.cls, value, frozenset())
        elif isinstance(value, staticmethod | classmethod | property | functools.cached_property):
            self._bound(value, _UNKNOWN, type(value))
        elif isinstance(value, functools.partial):
            self._function(value.func, *value.args)
            for part in (value.args, value.keywords):
                self._visit(part, label)
        elif isinstance(value, types.FunctionType | types.MethodType):
            self._attributes(vars(value) if isinstance(value, types.FunctionType) else {}, label)
            self._function(value)
        elif isinstance(value, type):
            if not _of_a_library(value.__module__):
                self._visit(self.made.setdefault(value, _Made(value)), label)
            self._class(type(value), value, _MAKING)
        elif isinstance(value, types.ModuleType):
            if not _of_a_library(value.__name__):
                self._attributes(vars(value), value.__name__)
        elif isinstance(value, Module):
            self._module(value, label)
        elif isinstance(value, dict):
            self._container(value, label)
            if len(value) <= LARGE:
                self._container(value.values(), label)
        elif isinstance(value, list | set | deque):
            self._container(value, label)
        elif isinstance(value, tuple | frozenset):  # these can't change, but the objects in them can
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
        elif (inner := ask(value, "__wrapped__")) is not None:  # a function behind a cache, or compiled itself
            self._visit(inner, label)
        else:
            self._object(value, label)

    def _part(self, get: Callable, holder: Any, names: Iterable[str], label: str) -> None:
        for name in names:
            self._note(get, holder, name, label + name)
            self._visit(get(name, None), label + name)

    def _note(self, get: Callable, holder: Any, name: str, label: str) -> None:
        """Guard this name, unless it names an imported module: programs don't rebind these."""
        if not isinstance(get(name, None), types.ModuleType):
            self.holders.setdefault(id(holder), (get, {}, holder))[1].setdefault(name, label)

    def _container(self, value, label: str) -> None:
        if len(value) <= LARGE:
            self.containers.append(value)
            for v in value:
                self._visit(v, label)
        else:
            self._part(lambda name, default: len(value), value, [f"the length of {label}"], "")

    def _attributes(self, attributes: dict, label: str, followed: frozenset[str] = frozenset()) -> None:
        """Note the attributes that the code names; those that it only calls count if they are callable.

        Attributes that a replay changes as the step does are left out (`followed`: an optimizer counts its steps).
        """
        named = (n for n in attributes if n in self.names or (n in self.called and callable(attributes[n])))
        self._part(attributes.get, attributes, [n for n in named if n not in followed], f"{label}.")

    def _object(self, value, label: str) -> None:
        cls = type(value)
        if _is_frozen(cls):  # its attributes can't be reassigned
            for v in vars(value).values():
                self._visit(v, label)
        elif hasattr(value, "__dict__"):
            attributes = vars(value)
            self._attributes(attributes, label, getattr(cls, "followed", frozenset()))
            # attributes that it lacks itself: its class has a value, or the code calls hasattr() for it
            absent = [
                n for n in self.names - attributes.keys() if n in self.asked or _is_data(getattr(cls, n, _is_data))
            ]
            self._part(attributes.get, attributes, sorted(absent), f"{label}.")
        if not _of_a_library(cls.__module__):
            slots = {s for c in cls.__mro__ for s in getattr(c, "__slots__", ()) if s in self.names}
            self._part(functools.partial(getattr, value), value, sorted(slots), f"{label}.")
        self._class(cls, value, _MAKING)

    def _class(self, cls: type, receiver: Any, without: frozenset | set) -> None:
        """Note the methods that the code calls, the operators, properties and values of a class."""
        lines = receiver.__mro__ if isinstance(receiver, type) else ()
        libraries = [c for c in cls.__mro__ if c is not object and _of_a_library(c.__module__)]
        for c in (*cls.__mro__, *lines):
            if _of_a_library(c.__module__):
                continue
            attributes = vars(c)
            self._part(
                attributes.get,
                c,
                [n for n in attributes if n in self.names and _is_data(attributes[n])],
                f"{c.__name__}.",
            )
            for name, value in attributes.items():
                operator = name.startswith("__") and c not in lines
                theirs = any(name in vars(library) for library in libraries)  # the library calls it: forward(), say
                unasked = (operator or theirs) and name not in without
                if not _is_data(value) and (unasked or name in self.names or name in self.called):
                    self._note(attributes.get, c, name, f"{c.__name__}.{name}")
                    self._bound(value, _UNKNOWN if c in lines else receiver, cls)

    def _module(self, module: Module, label: str) -> None:
        """Note the parts of a module. Of this library's modules all attributes count: their code is not followed."""
        attributes = vars(module)
        if any(c is not Module and c is not object and _of_a_library(c.__module__) for c in type(module).__mro__):
            self._container(attributes.values(), label)
        else:
            self._part(attributes.get, attributes, ["training"], f"{label}.")
        self._object(module, label)
        self._visit(getattr(module, "forward", None), f"{label}.forward")  # it may be an attribute of the object itself
        for field in _FIELDS:
            held = attributes.get(field)
            if isinstance(held, dict | list) and id(held) not in self.visited:
                self.visited[id(held)] = held
                self._container(held.values() if isinstance(held, dict) else held, label)


def ask(value: Any, name: str, otherwise: Any = None) -> Any:
    """The attribute, or `otherwise` if there is none; the user's own __getattr__ may raise any exception."""
    try:
        return getattr(value, name, otherwise)
    except Exception:
        return otherwise


@functools.cache
def _of_a_library(module: str) -> bool:
    """Does a module belong to Python, to an installed package or to this one?"""
    file = getattr(sys.modules.get(module), "__file__", None)
    return module in sys.builtin_module_names or (file is not None and file.startswith(_LIBRARIES))


def _class_attribute(cls: type, name: str) -> Any:
    """The entry of a class or one of its bases under a name, without calling descriptors."""
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), _MISSING)


def _is_users(function: Any) -> bool:
    """Is this a function of the user's program, whose code is read?"""
    return isinstance(function, types.FunctionType) and not function.__code__.co_filename.startswith(_LIBRARIES)


def _is_frozen(cls: type) -> bool:
    return getattr(getattr(cls, "__dataclass_params__", None), "frozen", False)


def _is_data(value) -> bool:
    """Is this entry of a class a value, and not a method or property?"""
    return not (callable(value) or isinstance(value, staticmethod | classmethod | property))


def _same(a, b) -> bool:
    """Are these the same object, or immutable ones of the same value?"""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return isinstance(a, PLAIN) and repr(a) == repr(b)  # -0.0 == 0.0, but they are two numbers

"""The part of Python that can be read: a look at each function of the user's that runs, before it runs.

Sizes and tensors refuse by themselves whatever asks them. Left to this file is code that tells a size from a number
without asking it: type(N), (20).__eq__(N), `except TypeError`, other modules; and code whose calls differ.
"""

import argparse
import builtins
import dataclasses
import dis
import functools
import inspect
import itertools
import math
import operator
import re
import struct
import sys
import threading
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from weakref import ProxyTypes, WeakSet

import numpy as np
import sympy

from tinytensor.autograd.function import Context
from tinytensor.core.dispatch import state
from tinytensor.core.kernel import Kernel
from tinytensor.core.op import Op
from tinytensor.core.tensor import Tensor
from tinytensor.native.runtime.compiler import around_compilations
from tinytensor.ops.shape import cast
from tinytensor.symbolic.prove.advice import line
from tinytensor.symbolic.reading.sizes import SymFloat, SymInt, is_users
from tinytensor.symbolic.reading.tensors import SymbolicTensor, note_names

STORES = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "SEND"}
LOADED = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "IMPORT_NAME"}
LOCAL = {"LOAD_FAST", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLOSURE"}  # the last is for a function or a class inside
TYPES = {"isinstance", "callable", "is_tensor", "__class__"}
ASKS = "a step asks for a type, or which object a name has: the answer of the first step may be another one"
ASKS_AFTERWARDS = "the code asks for a type, where a loop over a size makes a number: begin it with tt.zeros(())"
MODULES = {"math", "numpy", "operator", "functools", "itertools", "collections", "tinytensor", "typing", "einops"}
READABLE = (
    "abs all any bool dict divmod enumerate filter float format int isinstance iter len list map max min next pow"
)
READABLE += " callable print range repr reversed round set slice sorted str sum super tuple zip frozenset complex bytes"
BUILTINS = set(READABLE.split())
KNOWN = {*MODULES, *sys.stdlib_module_names, "torch", "jax", "sympy"} - {"__main__"}
INSIDE = "symbolic", "native", "core"  # rooms of tinytensor that are not for a function
REFLECTION = {"random", "methodcaller", "attrgetter", "frompyfunc", "vectorize", "is_", "is_not"}
REFLECTION |= {"format", "format_map", "overload", "register"}  # "{0.__doc__}".format(N)
REFLECTION |= {"gi_frame", "cr_frame", "ag_frame"}
REFLECTION |= {"set_printoptions", "set_num_threads", "set_default_dtype", "seterr", "seterrcall", "setbufsize"}
INNER = {name for name in dir(Tensor) if name.startswith("_") and not name.startswith("__")} | {"node"}
INNER |= {*dir(SymInt), *dir(SymFloat)} - {*dir(int), *dir(float)}
DROPPING = {"__exit__", "__len__", "__length_hint__"}  # Python may drop the error that ends a call of these
UNSEEN = {"__del__", "__prepare__"}  # no line shows when Python calls these, or what they give
DUNDERS = {"__init__", "__post_init__", "__len__", "__call__", "__matmul__", "__setitem__"}
PLAIN = (int, float, str, bytes, type(None), list, tuple, dict, set, frozenset, slice, complex, type(...), range)
PLAIN += types.SimpleNamespace, argparse.Namespace, Fraction, type(NotImplemented)
OF_TEXTS = tuple.__new__, object, dataclasses._HAS_DEFAULT_FACTORY  # which namedtuples and dataclasses use


def check_code(code: types.CodeType, module: dict, local: dict, reading, inside: Collection[str]) -> None:
    """Refuse what the sizes themselves could not notice; module, local: the function's globals, and its arguments.

    inside: names that it shares with functions of the same call, whose values another call makes anew.
    """
    names = _names(code, module, local, reading, inside)
    for problem in itertools.chain(_questions(code, module, local), names, _changes(code, local)):
        reading.refuse(f"{code.co_name}() {problem}")
    for problem in in_a_step(instructions_of(code)) if reading.open_loops else ():
        reading.refuse(f"{code.co_name}(): {problem}")
    if reading.counted and asks_for_type(code):
        reading.refuse(ASKS_AFTERWARDS)


@functools.lru_cache(1024)
def instructions_of(code: types.CodeType) -> list[dis.Instruction]:
    """The instructions of a code, which is looked at for several things; each loads or stores one local name."""
    result = []
    for i in dis.get_instructions(code):
        verbs = re.findall("(?:LOAD|STORE)_FAST", i.opname)  # LOAD_FAST_CHECK ..., by Python's version
        names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
        result += [i._replace(opname=verb, argval=name) for verb, name in zip(verbs, names)] or [i]
    return [i for i in result if i.opname != "EXTENDED_ARG"]


@functools.lru_cache(1024)
def names_of(code: types.CodeType) -> frozenset[str]:
    """The names in a code, and in the functions and classes in it."""
    inner = [names_of(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return frozenset(code.co_names).union(*inner)


def with_the_one_before(instructions: list) -> Iterator[tuple[dis.Instruction, dis.Instruction, str]]:
    """Each instruction behind the one before it (the first behind itself), and the name in it."""
    for before, i in itertools.pairwise([instructions[0], *instructions]):
        yield before, i, i.argval if isinstance(i.argval, str) else ""


def _questions(code: types.CodeType, module: dict, local: dict) -> Iterator[str]:
    """What would ask an object without asking the size in it, in words."""
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        yield "is a coroutine, whose __aexit__() may end an exception"
    exits = {i.offset for i in instructions_of(code) if i.opname in ("WITH_EXCEPT_START", "RERAISE")}
    for before, i, name in with_the_one_before(instructions_of(code)):
        if i.opname == "PUSH_EXC_INFO" and exits.isdisjoint(range(i.offset, i.offset + 8)):
            yield "catches exceptions: an error at these sizes may be none at others"
        if name == "self" and i.opname.startswith("STORE"):
            yield "gives self another object"
        if i.opname in ("LOAD_ATTR", "LOAD_METHOD") and _hides_a_question(code, name, before, local):
            yield f"uses .{name}, which need not ask the size"
        if i.opname == "MATCH_CLASS" and (i.argval or before.argval):
            yield "matches the attributes of an object, which may be a size"
        no_function = name in DROPPING and before.opname != "MAKE_FUNCTION"
        if i.opname == "STORE_NAME" and (no_function or name in UNSEEN or name == "__getattr__"):
            yield f"has a {name}, of which no line shows what it does"
        if i.opname == "IS_OP" and _may_be_number(before, module, local):
            yield "compares with `is`, which does not ask the size"


def _hides_a_question(code: types.CodeType, attribute: str, before: dis.Instruction, local: dict) -> bool:
    """May an attribute tell a size from a number, or be an inner one of a tensor?"""
    of_self = before.argval == "self" in local and not (isinstance(local["self"], Tensor) or is_atom(local["self"]))
    inner = attribute in INNER and not of_self
    of_class = attribute == "__class__" or (attribute == "__qualname__" and before.argval == "__class__")
    in_dataclass = attribute == "__setattr__" and code.co_name == "__init__" and local.get(before.argval) is object
    safe = not attribute.startswith("__") or attribute in DUNDERS or of_class or in_dataclass
    return attribute in REFLECTION or inner or not safe


def _may_be_number(i: dis.Instruction, module: dict, local: dict) -> bool:
    """May an instruction load a number, a text or a tuple? A constant, an outer name and a class show what they are."""
    known = {"LOAD_CONST": i.argval, "LOAD_GLOBAL": module.get(i.argval), "LOAD_DEREF": local.get(i.argval)}
    return i.argval != "__class__" and type(known.get(i.opname, 0)) in (int, float, str, bytes, tuple)


def _names(code: types.CodeType, module: dict, local: dict, reading, inside: Collection[str]) -> Iterator[str]:
    """The names whose objects may tell a size from a number; the state of the others is kept in the reading."""
    before, reading.names = reading.names, reading.names | names_of(code)
    names = reading.names
    for (name, _), (held, _) in reading.outside.items() if before != names else ():
        if not allowed(held, names):  # a function may get what another one holds
            yield f"has a name of what {name} holds, which may tell a size from a number"
    for i, following in itertools.pairwise([*instructions_of(code), None]):
        name = i.argval
        if i.opname == "IMPORT_NAME" and (name.partition(".")[0] not in MODULES or name not in sys.modules):
            yield f"imports {name}, whose functions may tell a size from a number"
        held = local.get(name) if i.opname in ("LOAD_FAST", "LOAD_CLOSURE") else None
        if not allowed(held, names, started=True) or is_asking(held):
            yield f"uses {name}, which may tell a size from a number"
        if i.opname in LOADED:
            value = held = loaded(i, module, local)
            if asks_by_name(i, value, code, names):
                yield f"uses {name}, which may tell a size from a number"
            if isinstance(value, types.ModuleType) and following.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                held = used_of(value, names)
            if i.opname != "LOAD_DEREF" or name not in inside:
                reading.outside.setdefault((name, id(held)), (held, snapshot(held)))


def asks_by_name(i: dis.Instruction, value, code: types.CodeType, names: Collection[str]) -> bool:
    """May a loaded object tell a size from a number, unless it is called at once, by its name?"""
    called = i.argval in TYPES and "NULL" in i.argrepr
    hashes = value is hash and code.co_name == "__hash__"
    return not (hashes or allowed(value, names)) or (is_asking(value) and not called)


def _changes(code: types.CodeType, local: dict) -> Iterator[str]:
    """What outlives the call, in words."""
    for before, i, name in with_the_one_before(instructions_of(code)):
        verb, _, space = i.opname.partition("_")
        outer = verb in ("STORE", "DELETE") and (space == "GLOBAL" or (space == "DEREF" and name in code.co_freevars))
        kept = i.opname == "STORE_ATTR" and isinstance(local.get("ctx"), Context) and "ctx" in str(before.argval)
        if outer or (i.opname == "STORE_ATTR" and code.co_name != "__init__" and not kept):
            yield f"changes {name}: another call would differ"


def asks_for_type(code: types.CodeType) -> bool:
    """May code ask for the type of a number?"""
    return not TYPES.isdisjoint(code.co_names) or any(i.opname == "MATCH_CLASS" for i in instructions_of(code))


def in_a_step(instructions: list[dis.Instruction]) -> Iterator[str]:
    """What a step of a loop must not do, since the steps are read as one."""
    for before, i, name in with_the_one_before(instructions):
        same = i.opname == "IS_OP" and (before.opname, before.argval) != ("LOAD_CONST", None)
        if same or i.opname == "MATCH_CLASS" or (name in TYPES and "LOAD" in i.opname):
            yield ASKS
        if i.opname in STORES:
            yield f"a step of a loop changes an object ({i.opname.lower()} {name}): stack or add up tensors instead"


def loaded(i: dis.Instruction, module: dict, local: dict):
    """The object that an instruction of LOADED takes from outside of its function; None if there is none."""
    if i.opname == "IMPORT_NAME":
        return sys.modules.get(i.argval)
    return local.get(i.argval) if i.opname == "LOAD_DEREF" else module.get(i.argval, vars(builtins).get(i.argval))


# of a class: what Python calls, or takes as it is
METHODS = types.FunctionType, staticmethod, classmethod, type, types.GetSetDescriptorType, types.MemberDescriptorType
STAND_INS = WeakSet()  # the classes that stand in for range() ... in a reading
HEAP = 1 << 9  # the flag of a class that Python code may have made


class Unknown:
    """In a snapshot: an object whose changes are not seen; no two are equal."""

    def __init__(self, value):
        self.type = type(value).__name__


def unknown_in(held) -> str:
    """The type of an unknown object in a snapshot; empty if there is none."""
    if isinstance(held, tuple):
        return next(filter(None, map(unknown_in, held)), "")
    return held.type if isinstance(held, Unknown) else ""


def is_forged(cls: type) -> bool:
    """Does a class say that it is in a module which has another one, or none, by its name?"""
    if not cls.__flags__ & HEAP or home_of(cls) not in KNOWN or cls in HOLDING or cls in STAND_INS:
        return False
    value = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is not cls


def classes_of(value) -> tuple[type, ...]:
    """The classes of an object, or those that a class itself has."""
    return (value if isinstance(value, type) else type(value)).__mro__


def home_of(value) -> str:
    """The package from which a function, a class or an object comes: _operator is operator."""
    home = getattr(value, "__module__", None)
    home = (home if isinstance(home, str) and home else type(value).__module__).partition(".")[0]
    public = home.removeprefix("_")
    return public if public in sys.stdlib_module_names else home


def used_of(module: types.ModuleType, names: Collection[str]) -> list:
    """What code with these names uses of a module, and of the modules in it."""
    held = {n: vars(module)[n] for n in names if n in vars(module)}
    inner = {n: part for n, part in held.items() if isinstance(part, types.ModuleType)}
    names = [n for n in names if n not in inner]
    return [*(p for n, p in held.items() if n not in inner), *(p for m in inner.values() for p in used_of(m, names))]


CREATING = {"__new__", "__new_member__", "__reduce_ex__", "__replace__"}  # of the classes of Enum and dataclasses
BOXES = list, tuple, set, frozenset, deque, bytearray
ATOMS = {SymInt, SymFloat, int, float, bool, complex, str, bytes, type(None)}
FIXED = {  # types of objects that never change
    *(*ATOMS, type(...), type(NotImplemented), range),
    *(Fraction, Decimal, date, datetime, timedelta, re.Pattern, PosixPath, PurePosixPath, WindowsPath, PureWindowsPath),
    *(types.CodeType, types.GenericAlias, types.UnionType, operator.itemgetter, np.ufunc, struct.Struct),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType),
}
HOLDING = {  # types of objects whose parts are known
    *(object, type, int, float, str, bytes, dict, slice, property, staticmethod, classmethod, *BOXES),
    *(types.FunctionType, types.MethodType, types.BuiltinMethodType, types.MethodWrapperType, types.MappingProxyType),
    *(types.SimpleNamespace, *argparse.Namespace.__mro__, functools.partial, np.ndarray, type(np.shape)),
    type(vars(Collection)["_abc_impl"]),
}
# modules of such types
OPEN = {"tinytensor", "collections", "abc", "typing", "enum", "types", "dataclasses", "numbers"}


PARTS = {  # what an object of such a type, or of the user's own that is one, holds beside its attributes
    types.BuiltinMethodType | types.MethodWrapperType: lambda x: [
        part for part in [x.__self__] if not isinstance(part, types.ModuleType)
    ],
    staticmethod | classmethod: lambda x: [x.__func__],
    property: lambda x: [x.fget, x.fset, x.fdel],
    types.MethodType: lambda x: [x.__self__, x.__func__],
    functools.partial: lambda x: [x.func, x.args, x.keywords],
    types.FunctionType: lambda x: [
        *(x.__defaults__ or ()),
        *(x.__kwdefaults__ or {}).values(),
        *(cell.cell_contents for cell in x.__closure__ or () if cell != types.CellType()),
    ],
    OrderedDict: lambda x: [part for item in OrderedDict.items(x) for part in item],  # in an order of its own
    dict: lambda x: [part for item in dict.items(x) for part in item],
    **{box: lambda x, box=box: list(box.__iter__(x)) for box in BOXES},
    np.ndarray: lambda x: x.ravel().tolist() if x.dtype.hasobject else [],
}


def parts(value) -> list:
    """What an object holds beside its attributes."""
    for classes, held in PARTS.items():
        if issubclass(type(value), classes):
            return held(value)
    library = type(value).__module__ in ("builtins", "collections") and not isinstance(value, str | bytes | range)
    return list(value) if isinstance(value, list) or (library and isinstance(value, Collection)) else []


def attributes(value) -> dict:
    """The variables of an object, and of the user's classes that it has, or is; a class has a metaclass, too."""
    slot, classes = types.MemberDescriptorType, type(value).__mro__
    slots = [n for c in classes for n, v in vars(c).items() if type(v) is slot and hasattr(value, n)]
    held = {} if isinstance(value, type) else getattr(value, "__dict__", {})
    held = held if isinstance(held, dict) else {}  # not of an object that makes up its attributes
    held = {n: p for n, p in (held | {n: getattr(value, n) for n in slots}).items() if not n.startswith("__")}
    users = [c for c in (*classes, *(value.__mro__ if isinstance(value, type) else ())) if home_of(c) not in KNOWN]
    held = dict(item for c in reversed(users) for item in vars(c).items() if type(item[1]) is not slot) | held
    methods = staticmethod | classmethod | property
    return {n: p for n, p in held.items() if not n.startswith("__") or callable(p) or isinstance(p, methods)}


def snapshot(value, seen: dict | None = None):
    """All that an object holds, to see whether the function changes it; where this is not known, nothing is equal."""
    seen = {} if seen is None else seen
    if type(value) in ProxyTypes or any(map(is_forged, classes_of(value))):  # what a proxy stands for may be gone
        return Unknown(value)
    if is_fixed(value):
        return id(value), value  # which is alive, so no other object gets its id
    if isinstance(value, np.random.Generator):
        return id(value), str(value.bit_generator.state)
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    if (held := parts_of_library(value)) is None and is_unknown(value):
        return Unknown(value)
    numbers = numbers_in(value) if held is None else None
    if isinstance(value, Tensor):
        held = [value._grad, value._hooks, value.__dict__]
    elif held is None:
        held = [*attributes(value).values(), *parts(value)]
    return id(value), [value], numbers, *[snapshot(part, seen) for part in held]


def is_fixed(value) -> bool:
    """Is it an object that never changes?"""
    plain = isinstance(value, np.generic | np.dtype | sympy.Basic) and home_of(type(value)) in ("numpy", "sympy")
    return type(value) in FIXED or (plain and not isinstance(value, np.void) and not getattr(value, "metadata", None))


def parts_of_library(value) -> list | None:
    """What an operation, a module, or a function or class of a library may hold of the user's; None for other objects.

    Such an object itself is the same as long as it is alive.
    """
    if isinstance(value, Op):
        return [part for name, part in vars(value).items() if name not in vars(cast)]
    if isinstance(value, Kernel):
        return [value.py_func]
    is_function = isinstance(value, types.FunctionType) and not is_users(value.__code__, value.__globals__)
    if is_function or (isinstance(value, type) and home_of(value) in KNOWN):
        held = [part for n, part in vars(value).items() if type(part) in (dict, *BOXES) and not n.startswith("_")]
        bound = parts(value) if is_function else []
        return held + [part for part in bound if isinstance(part, types.BuiltinMethodType)]
    if isinstance(value, types.ModuleType):
        held = {} if value.__name__.partition(".")[0] in KNOWN else vars(value)
        return [part for n, part in held.items() if not (n.startswith("__") or isinstance(part, types.ModuleType))]
    return None


def is_unknown(value) -> bool:
    """May an object change where no attribute, no part and no number of it does?"""
    homes = {home_of(c) for c in type(value).__mro__ if c not in HOLDING} & KNOWN
    changes_by_itself = isinstance(value, Iterator | np.dtype)
    return changes_by_itself or bool(homes - OPEN)


def numbers_in(value):
    """The numbers, or the text, that an object is beside what it holds, and their form; None if it is neither."""
    if isinstance(value, Tensor):
        return value._requires_grad, getattr(value._data, "term", None) or numbers_in(value._data)
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.flags.num, None if value.dtype.hasobject else value.tobytes()
    return value if isinstance(value, int | float | str | bytes) else None


def changed_names(outside: dict) -> dict[str, str]:
    """The names of the objects that hold something else than when they were seen, and how."""
    changed = {name: unknown_in(before) for (name, _), (x, before) in outside.items() if snapshot(x) != before}
    return {n: f"holds a {of}, whose changes are not seen" if of else "changed" for n, of in changed.items()}


def allowed(value, names=(), started: bool = False, seen: frozenset = frozenset()) -> bool:
    """Values, tinytensor's things, the user's own functions and classes, and the builtins and modules of the lists.

    So is all that an object holds, of its attributes those with these names. started: an iterator may be one that the
    function itself has made.
    """
    if type(value) in ProxyTypes:  # which answers for another object, that may be gone
        return False
    if seen and is_asking(value):
        return False
    if id(value) in seen or is_atom(value):
        return True
    if isinstance(value, Iterator):
        return started
    known = is_open(value) if isinstance(value, types.ModuleType) else not is_hidden(value) and is_public(value)
    return known and all(allowed(part, names, started, seen | {id(value)}) for part in in_reach(value, names))


def is_atom(value) -> bool:
    """Is it a number, a text, or a tensor without attributes of the user's?"""
    return type(value) in ATOMS or (type(value) in (Tensor, SymbolicTensor) and not value.__dict__)


def is_asking(value) -> bool:
    """Is it a function that asks for a type? In a loop, such a one is refused by its name."""
    return value is isinstance or value is callable


def is_open(module: types.ModuleType) -> bool:
    """Is it a module of the lists, and no inner room of tinytensor, or one that is not Python's?"""
    home, _, room = module.__name__.partition(".")
    inner = home == "tinytensor" and room.partition(".")[0] in INSIDE
    return not inner and (home in MODULES or home not in sys.stdlib_module_names)


def is_hidden(value) -> bool:
    """May an object, or one of a class, ask for a type, or do what is not seen?"""
    classes = classes_of(value)
    asks = isinstance(value, type) and vars(value).get("_is_protocol")  # isinstance() asks for attributes
    asks = asks or "registry" in getattr(value, "__dict__", ())  # singledispatch() asks for a type
    users = [vars(c) for c in classes if home_of(c) not in KNOWN]
    unseen = any(not UNSEEN.isdisjoint(held) for held in users)
    dropping = [held[n] for held in users for n in DROPPING & held.keys()]
    is_seen = all(isinstance(method, types.FunctionType) for method in dropping)  # where it ends an exception
    hides = hides_errors((*classes, *type(value).__mro__))
    return bool(asks or unseen or not is_seen or hides or any(map(is_forged, classes)))


def in_reach(value, names: Collection[str]) -> list:
    """What code with these names may reach in a module or an object; a function is looked at when it runs."""
    if isinstance(value, types.ModuleType):
        home = value.__name__.partition(".")[0]
        only_modules = home in ("torch", "jax", "sympy")
        if value is np:  # which imports some of its modules when they are asked for
            any(getattr(np, n, None) is names for n in names)
        held = [part for n, part in vars(value).items() if n in names]
        return [part for part in held if isinstance(part, types.ModuleType) or not only_modules]
    held = [] if isinstance(value, types.FunctionType) else parts(value)
    if type(value).__module__ in ("collections", "argparse", "types"):
        return [*held, *attributes(value).values()]
    named = {*names, "_value_", "_parameters", "_buffers", "_modules"}  # of a member of an Enum, and of a Module
    return held + [
        part for n, part in attributes(value).items() if n in named or (n.startswith("__") and n not in CREATING)
    ]


def plain_name(value) -> str:
    """The name of a function or a class, without a call of the __getattr__() of an object that has none."""
    try:
        return object.__getattribute__(value, "__name__")
    except AttributeError:
        return ""


def is_listed(value, name: str) -> bool:
    """Is it one of Python's builtins of the list, or an object that holds a code of its own?"""
    itself = isinstance(value, type) or getattr(value, "__self__", None) is builtins  # and not str.format
    holds_code = isinstance(value, types.CodeType | types.MethodType | staticmethod | classmethod | property)
    return holds_code or (name in BUILTINS and itself)


def is_public(value) -> bool:
    """Is it a plain value, the user's own, or of the builtins and modules of the lists?"""
    if isinstance(value, PLAIN) or any(value is part for part in OF_TEXTS):
        return True
    if isinstance(value, type) and issubclass(value, BaseException):  # what is raised; to catch it is refused
        return True
    if isinstance(value, types.FunctionType) and is_users(value.__code__, value.__globals__):
        return True
    home, name = home_of(value), plain_name(value)
    if home == "builtins":
        return is_listed(value, name)
    ours = isinstance(value, type | types.FunctionType) and value.__module__.startswith("tinytensor.symbolic.reading")
    stands_in = ours and any(value is held for module in (builtins, math) for held in vars(module).values())
    if value is state or (ours and not stands_in):  # len(), math.sqrt() ... of a reading stand in
        return False
    random = "random" in type(value).__module__ or name in REFLECTION or name.endswith("(vectorized)")
    return home not in KNOWN or (home in MODULES and not random)


def hides_errors(classes: tuple) -> bool:
    """Has a class of the user's a __getattr__ that answers where a property of it ends by an AttributeError?"""
    held = [part for c in classes if home_of(c) not in KNOWN for part in vars(c).items()]
    names = {name for name, _ in held}
    computed = any(hasattr(type(part), "__get__") and not isinstance(part, METHODS) for _, part in held)
    return "__getattr__" in names and (computed or "__getattribute__" in names)


def is_of_library(frame) -> bool:
    """Is this a compiled text that a dataclass or a namedtuple of a library has as a method?"""
    code = frame.f_code
    if code.co_filename != "<string>" or not code.co_argcount:
        return False
    classes = classes_of(frame.f_locals.get(code.co_varnames[0]))
    held = [part for c in classes if home_of(c) in KNOWN and not is_forged(c) for part in vars(c).values()]
    return any(code is getattr(inspect.unwrap(part), "__code__", None) for part in held if callable(part))


def ends_exception(frame) -> bool:
    """Does a `with` of this frame wait for what __exit__() returns about an exception?"""
    if frame is None or not is_users(frame.f_code, frame.f_globals):
        return False
    return last_of(frame) == "WITH_EXCEPT_START"


def last_of(frame) -> str:
    """The name of the instruction at which a frame is."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


def returns_nothing(frame, result) -> bool:
    """Does a function return None or False? An object may be another truth value when Python asks it."""
    return (result is None or result is False) and last_of(frame).startswith("RETURN")


def is_left_by_error(frame) -> bool:
    """Does a function that ends without a result end by an error that it has not raised itself?

    Those of __next__() and __getitem__() end a loop.
    """
    last = last_of(frame)
    regular = last.startswith(("RETURN", "YIELD", "RAISE", "SEND")) or last == "RESUME"
    return not regular and frame.f_code.co_name not in ("__next__", "__getitem__")


def is_first_call(seen: dict, frame, is_plain: Callable[..., bool], *circumstances) -> bool:
    """Is a code called with these objects, but for plain ones, for the first time?"""
    held = [x for x in frame.f_locals.values() if not is_plain(x)]
    key = frame.f_code, *circumstances, *map(id, held)
    return key not in seen and bool(seen.setdefault(key, (held,)))  # which are alive, so no other gets the id of one


@contextmanager
def only_readable(reading) -> Iterator[None]:
    """Inside, each function of the user's is looked at when it is called with objects first, and in a loop.

    The local names of tensors are noted when it returns.
    """
    seen, around = {}, sys._getframe(2)  # the frame of the `with`

    def shared(frame) -> Iterator[str]:
        """The names whose objects are local to a function on the way here, inside of the reading."""
        local, names = frame.f_locals, frame.f_code.co_freevars
        while (frame := frame.f_back) not in (around, None):
            held = frame.f_locals
            yield from (n for n in names if n in frame.f_code.co_cellvars and local.get(n) is held.get(n))

    def look(frame, event, arg):
        code = frame.f_code
        if frame.f_back is None:  # Numba shows the calls of its own functions as frames without globals
            return
        if event == "return" and ends_exception(frame.f_back) and not returns_nothing(frame, arg):
            reading.refuse("__exit__() ends an exception, or begins another: it may be none at other sizes")
        if not is_users(code, frame.f_globals) or is_of_library(frame):
            return
        if event == "return":
            if arg is None and is_left_by_error(frame):
                reading.left.append(f"{code.co_name}(){line(frame)}")
            return note_names(frame.f_locals)
        if event != "call":
            return
        if frame.f_builtins and frame.f_builtins is not vars(builtins):
            reading.refuse(f"{code.co_name}() has other builtins than Python's")
        if is_first_call(seen, frame, is_atom, bool(reading.open_loops), reading.counted):
            check_code(code, frame.f_globals, frame.f_locals, reading, {*shared(frame)})

    with watching(look, sys.setprofile, sys.getprofile()):
        yield


@contextmanager
def watching(look: Callable, install: Callable, before: Callable | None) -> Iterator[None]:
    """Inside, look() sees the calls of this thread: install is sys.setprofile or sys.settrace, before its function.

    Numba calls a million functions for a kernel; to look at each takes longer than to compile.
    """
    thread = threading.get_ident()

    def watch(function: Callable | None) -> None:
        if threading.get_ident() == thread:
            install(function)

    install(look)
    try:
        with around_compilations(lambda: watch(None), lambda: watch(look)):
            yield
    finally:
        install(before)

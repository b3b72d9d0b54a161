"""The part of Python that can be read: a look at each function of the user's that runs, before it runs.

Sizes and tensors refuse by themselves whatever asks them. Left to this file is code that tells a size from a number
without asking it: type(N), (20).__eq__(N), `except TypeError`, other modules; and code whose calls differ. So the
objects that a function takes from outside are those of a list: numbers, texts, tensors, lists and dicts of such
objects, functions and plain classes of the user's, and what LIBRARY and tinytensor have. All others are refused.
"""

import builtins
import collections
import dataclasses
import dis
import functools
import inspect
import itertools
import re
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fractions import Fraction
from weakref import WeakSet

import numpy as np

from tinytensor.autograd.function import Context
from tinytensor.core.kernel import Kernel
from tinytensor.core.op import Op
from tinytensor.core.tensor import Tensor
from tinytensor.native.runtime.compiler import around_compilations
from tinytensor.ops.shape import cast
from tinytensor.symbolic.exact.scalars import Exact
from tinytensor.symbolic.prove.advice import line
from tinytensor.symbolic.reading.sizes import SymFloat, SymInt, is_users, is_users_file
from tinytensor.symbolic.reading.tensors import SymbolicTensor, note_names

STORES = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "SEND"}
LOADED = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"}
LOCAL = {"LOAD_FAST", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLOSURE"}  # the last is for a function or a class inside
TYPES = {"isinstance", "callable", "is_tensor", "__class__"}
ASKS = "a step asks for a type: the answer of the first step may be another one"
BUILTINS = (
    "abs all any bool dict divmod enumerate filter float format int iter len list map max min next pow "
    "print range repr reversed round set slice sorted str sum super tuple zip frozenset complex object"
)
OPERATOR = "add sub mul truediv floordiv mod pow neg pos abs matmul lt le gt ge eq ne getitem iadd not_ truth and_ or_"
LIBRARY = {  # the functions and classes that can be read, by their module; all of them where no names are given
    "builtins": BUILTINS.split(),
    "_operator": OPERATOR.split(),
    "operator": ["itemgetter"],
    "functools": ["partial", "reduce"],
    "_functools": ["reduce"],
    **dict.fromkeys(("math", "itertools", "numpy", "einops.einops")),
}
INSIDE = "symbolic", "native", "utils", "cli", "serialization"  # rooms of tinytensor that are not for a function
HEAP = 1 << 9  # the flag of a class that Python code may have made
STAND_INS = WeakSet()  # functions and classes that stand in for len(), range() ... in a reading, or a text by hand
REFLECTION = {"format", "format_map", "gi_frame", "cr_frame", "ag_frame"}  # "{0.__doc__}".format(N)
INNER = {name for name in dir(Tensor) if name.startswith("_") and not name.startswith("__")} | {"node"}
INNER |= {*dir(SymInt), *dir(SymFloat)} - {*dir(int), *dir(float)}
INNER |= {"tobytes", "tofile", "data", "ctypes"}  # of an array of objects, these say which objects they are
UNSEEN = {"__del__", "__getattr__", "__getattribute__", "__class__"}  # methods that no line calls, and those after
UNSEEN |= {"__exit__", "__len__", "__length_hint__"}  # which Python drops an error
DUNDERS = {"__init__", "__post_init__", "__len__", "__call__", "__matmul__", "__setitem__", "__class__"}
OF_CLASS = {"__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__orig_bases__"}
OF_CLASS |= {"__annotations__", "__firstlineno__", "__static_attributes__", "__annotate_func__", "__match_args__"}
OF_CLASS |= {"__dataclass_fields__", "__dataclass_params__", "__annotations_cache__", "__replace__"}
MISSING = iter(())  # what a module does not have, but may make up
STATE = re.compile("set|get|num_|load|save|genfrom|from(file|regex)|memmap|.*seed|profile")  # of settings and files
ATOMS = {SymInt, SymFloat, int, float, bool, complex, Fraction, range, str, bytes}
ATOMS |= {type(None), type(...), type(NotImplemented)}
FUNCTIONS = type, types.FunctionType, types.BuiltinFunctionType, np.ufunc, type(np.shape)
BASES = object, tuple  # of plain classes and their objects
OF_NAMEDTUPLE = type(vars(collections.namedtuple("Pair", "a b"))["a"])
METHODS = {  # functions of Python's that hold the user's
    "collections": {"_make", "_replace", "_asdict", "__getnewargs__", "__repr__"},  # of a namedtuple
    "contextlib": {"inner"},  # @tt.no_grad()
    "dataclasses": {"wrapper"},  # __repr__() of a dataclass; from Python 3.13 on, that of reprlib
    "reprlib": {"wrapper"},
}


def check_code(code: types.CodeType, module: dict, local: dict, reading, inside: Collection[str]) -> None:
    """Refuse what the sizes themselves could not notice; module, local: the function's globals, and its arguments.

    inside: names that it shares with functions of the same call, whose values another call makes anew.
    """
    for problem in itertools.chain(_questions(code, local), _names(code, module, local, reading, inside)):
        reading.refuse(f"{code.co_name}() {problem}")
    for problem in in_a_step(instructions_of(code)) if reading.open_loops else ():
        reading.refuse(f"{code.co_name}(): {problem}")


@functools.lru_cache(1024)
def instructions_of(code: types.CodeType) -> list[dis.Instruction]:
    """The instructions of a code, which is looked at for several things; each loads or stores one local name."""
    result = []
    for i in dis.get_instructions(code):
        verbs = re.findall("(?:LOAD|STORE)_FAST", i.opname)  # LOAD_FAST_CHECK ..., by Python's version
        names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
        result += [i._replace(opname=verb, argval=name) for verb, name in zip(verbs, names)] or [i]
    return [i for i in result if i.opname != "EXTENDED_ARG"]


def catches(instructions: list[dis.Instruction]) -> bool:
    """Is there an `except`? The end of a `with` and a `finally` raise the error once more."""
    exits = {i.offset for i in instructions if i.opname in ("WITH_EXCEPT_START", "RERAISE")}
    starts = (i.offset for i in instructions if i.opname == "PUSH_EXC_INFO")
    return any(exits.isdisjoint(range(start, start + 8)) for start in starts)


def with_the_one_before(instructions: list) -> Iterator[tuple[dis.Instruction, dis.Instruction, str]]:
    """Each instruction behind the one before it (the first behind itself), and the name in it."""
    for before, i in itertools.pairwise([instructions[0], *instructions]):
        yield before, i, i.argval if isinstance(i.argval, str) else ""


def _questions(code: types.CodeType, local: dict) -> Iterator[str]:
    """What would ask an object without asking the size in it, or outlives the call, in words."""
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        yield "is a coroutine, whose __aexit__() may end an exception"
    if catches(instructions_of(code)):
        yield "catches exceptions: an error at these sizes may be none at others"
    first = code.co_varnames[:1] if code.co_name == "__init__" else ()
    for before, i, name in with_the_one_before(instructions_of(code)):
        if i.opname.startswith("LOAD") and i.opname.endswith(("_ATTR", "_METHOD")) and is_inner(name):
            yield f"uses .{name}, which need not ask the size"
        if i.opname in ("MATCH_CLASS", "LOAD_BUILD_CLASS", "IMPORT_NAME"):
            yield f"asks for a class, makes one or imports ({i.opname.lower()}): do it outside of the function"
        if i.opname == "IS_OP" and (before.opname, before.argval) != ("LOAD_CONST", None):
            yield "compares with `is`, which does not ask the size"
        verb, _, space = i.opname.partition("_")
        outer = space == "GLOBAL" or (space == "DEREF" and name in code.co_freevars)
        kept = before.argval in first or (isinstance(local.get("ctx"), Context) and "ctx" in str(before.argval))
        if verb in ("STORE", "DELETE") and (outer or (space == "ATTR" and not kept)):
            yield f"changes {name}: another call would differ"


def is_inner(attribute: str) -> bool:
    """May an attribute tell a size from a number, or be an inner one of a tensor?"""
    return attribute in REFLECTION | INNER or (attribute.startswith("__") and attribute not in DUNDERS)


def _names(code: types.CodeType, module: dict, local: dict, reading, inside: Collection[str]) -> Iterator[str]:
    """The names whose objects may tell a size from a number; the state of the others is kept in the reading."""
    for i, name, value in loads(code, module, local):
        if asks_by_name(i, value):
            continue
        if i.opname != "LOAD_DEREF" or (name in code.co_freevars and name not in inside):
            held = snapshot(value)
            reading.outside.setdefault((name, id(value)), (value, held))
            if of := unknown_in(held):
                yield f"uses {name}, which holds a {of}: it may tell a size from a number, or change unseen"


def asks_by_name(i: dis.Instruction, value) -> bool:
    """Is isinstance() or callable() called here by its name, by which a step of a loop is refused?"""
    return (value is isinstance or value is callable) and i.argval in TYPES and "NULL" in i.argrepr


def loads(code: types.CodeType, module: dict, local: dict) -> Iterator[tuple[dis.Instruction, str, object]]:
    """The instructions that take an object from outside of a function: its name, also in modules, and the object."""
    instructions = instructions_of(code)
    for n, i in enumerate(instructions):
        if i.opname in LOADED:
            name, value = i.argval, module.get(i.argval, vars(builtins).get(i.argval))
            value = local.get(name) if i.opname == "LOAD_DEREF" else value
            for part in instructions[n + 1 :]:
                if type(value) is not types.ModuleType or part.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    break
                name, value = f"{name}.{part.argval}", vars(value).get(part.argval, MISSING)
            yield i, name, value


def in_a_step(instructions: list[dis.Instruction]) -> Iterator[str]:
    """What a step of a loop must not do, since the steps are read as one."""
    for _, i, name in with_the_one_before(instructions):
        if name in TYPES and "LOAD" in i.opname:
            yield ASKS
        if i.opname in STORES:
            yield f"a step of a loop changes an object ({i.opname.lower()} {name}): stack or add up tensors instead"


# ------------------------------------------------------------------------------------------------ objects


class Unknown:
    """In a snapshot: an object that is not of the list, whose changes are not seen; no two are equal."""

    def __init__(self, value):
        self.type = value.__name__ if type(value) in FUNCTIONS else type(value).__name__


def unknown_in(held) -> str:
    """The type of an unknown object in a snapshot; empty if there is none."""
    if isinstance(held, tuple):
        return next(filter(None, map(unknown_in, held)), "")
    return held.type if isinstance(held, Unknown) else ""


def snapshot(value, seen: dict | None = None):
    """All that an object holds, to see whether the function changes it."""
    seen = {} if seen is None else seen
    if type(value) in ATOMS:
        return id(value), value  # which is alive, so no other object gets its id
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    if (known := contents(value)) is None:
        return Unknown(value)
    numbers, held = known
    return id(value), [value], numbers, *[snapshot(part, seen) for part in held]


def changed_names(outside: dict, state: Callable = snapshot) -> dict[str, str]:
    """The names of the objects that hold something else than when state() saw them, and how."""
    changed = {name: unknown_in(before) for (name, _), (x, before) in outside.items() if state(x) != before}
    return {n: f"holds a {of}, whose changes are not seen" if of else "changed" for n, of in changed.items()}


HOLDING = {  # what objects of these types hold, and nothing else
    **dict.fromkeys((list, tuple, set, frozenset), list),
    dict: lambda x: [part for item in x.items() for part in item],
    collections.OrderedDict: lambda x: [vars(x), *(part for item in x.items() for part in item)],
    slice: lambda x: [x.start, x.stop, x.step],
    types.SimpleNamespace: lambda x: [vars(x)],
    types.MethodType: lambda x: [x.__self__, x.__func__],
    types.BuiltinMethodType: lambda x: [x.__self__],
    staticmethod: lambda x: [x.__func__],
    classmethod: lambda x: [x.__func__],
    property: lambda x: [x.fget, x.fset, x.fdel],
    functools.partial: lambda x: [x.func, x.args, x.keywords, vars(x)],
    types.FunctionType: lambda x: [
        *(x.__defaults__ or ()),
        *(x.__kwdefaults__ or {}).values(),
        *(cell.cell_contents for cell in x.__closure__ or () if cell != types.CellType()),
        *(part for name, part in vars(x).items() if not name.startswith("__")),  # as __signature__
    ],
    Kernel: lambda x: [x.py_func],
    Op: lambda x: [part for name, part in vars(x).items() if name not in vars(cast)],
}


def contents(value) -> tuple[object, list] | None:
    """The numbers that an object is, and the objects that it holds; None if it is not of the list."""
    cls = type(value)
    if issubclass(cls, Tensor):
        return _contents_of_tensor(value)
    if cls is np.ndarray:
        return None if value.dtype.hasobject else (array_numbers(value), [])
    if is_constant(value) or is_listed(value) or (cls is type and is_base(value)):
        variables = getattr(value, "__dict__", {}).items()  # to which code may have added
        return None, [part for name, part in variables if type(part) in (list, dict, set) and not name.startswith("_")]
    if cls is types.BuiltinMethodType and (value.__name__ in REFLECTION or type(value.__self__) is types.ModuleType):
        return None
    if cls is types.FunctionType and not is_readable(value):
        return None
    if cls in HOLDING:
        return None, HOLDING[cls](value)
    if issubclass(cls, type):
        return (None, parts_of_class(value)) if is_plain(value) else None
    if cls is np.random.Generator:
        return str(value.bit_generator.state), []
    return (None, parts_of_object(value)) if all(is_base(c) or is_plain(c) for c in cls.__mro__) else None


def _contents_of_tensor(x: Tensor) -> tuple[object, list]:
    numbers = getattr(x._data, "term", None) or array_numbers(x._data)
    classes = [] if issubclass(type(x), SymbolicTensor) else [type(x)]
    return (x._requires_grad, numbers), [*classes, x._grad, x._hooks, x.__dict__]


def array_numbers(x: np.ndarray) -> tuple:
    return x.shape, x.dtype.str, x.flags.num, x.tobytes()


def is_constant(value) -> bool:
    """Is it a number or a dtype of NumPy's, an exact scalar, a field of a namedtuple, or a constant of dataclasses?"""
    if issubclass(type(value), Exact):
        return is_in_library(type(value))
    if issubclass(type(value), np.dtype):
        return value.metadata is None
    number = issubclass(type(value), np.generic) and type(value) is not np.void and is_listed(type(value))
    return number or type(value) is OF_NAMEDTUPLE or value is dataclasses._HAS_DEFAULT_FACTORY


def is_listed(value) -> bool:
    """Is it a function or a class of LIBRARY, or one that tinytensor has for users?"""
    if any(value is function for function in STAND_INS):
        return True
    if type(value) not in FUNCTIONS:  # of a class with a metaclass, the user's code says what it is
        return False
    name, module = value.__name__, str(getattr(value, "__module__", "numpy"))
    static = isinstance(value, type) and not value.__flags__ & HEAP  # whose names no code changes
    if isinstance(value, types.BuiltinFunctionType) and getattr(value.__self__, "__name__", "") in LIBRARY:
        static, module = isinstance(value.__self__, types.ModuleType), value.__self__.__name__
    if is_for_users(module):
        held = [vars(m).get(name) for m in (sys.modules.get(module), sys.modules["tinytensor"]) if m]
        same = any(part is value for part in held)
        return same and not STATE.match(name)
    if module not in LIBRARY or not (static or vars(sys.modules[module]).get(name) is value):
        return False
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    return is_error or (name in LIBRARY[module] if LIBRARY[module] else not STATE.match(name))


def is_for_users(module: str) -> bool:
    """Is a module, by its name, one of tinytensor's whose objects a function may have?"""
    home, _, room = module.partition(".")
    return home == "tinytensor" and room.partition(".")[0] not in INSIDE


def is_readable(function: types.FunctionType) -> bool:
    """Is it the user's, which is looked at when it runs, or tinytensor's, or one of METHODS?"""
    code, module = function.__code__, function.__globals__
    name = str(module.get("__name__"))
    of_library = code.co_name in METHODS.get(name, ()) and module is vars(sys.modules[name])
    ours = is_for_users(name) and not STATE.match(code.co_name)
    return of_library or ours or is_users(code, module)


def is_base(cls: type) -> bool:
    """Is it one of BASES, a class of tinytensor, or the Module of PyTorch?"""
    pytorch = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    known = any(cls is base for base in (*BASES, pytorch))
    return known or (is_for_users(str(cls.__module__)) and is_listed(cls))


def is_plain(cls: type) -> bool:
    """Is it a class of the user's, of which each method is called by a line, and whose objects have no slots?"""
    held = vars(cls)
    ours = str(held.get("__module__")).partition(".")[0] == "tinytensor" or is_listed(cls)
    stored = type(held.get("__dict__")) in (type(None), types.GetSetDescriptorType) and not held.get("__slots__")
    return type(cls) is type and bool(cls.__flags__ & HEAP) and not ours and stored and UNSEEN.isdisjoint(held)


def parts_of_class(cls: type) -> list:
    """What a class of the user's holds."""
    return [*cls.__bases__, *(part for name, part in vars(cls).items() if name not in OF_CLASS)]


def parts_of_object(value) -> list:
    """The class of an object, its variables, and the items of a namedtuple."""
    slots = [n for c in type(value).__mro__ for n, v in vars(c).items() if type(v) is types.MemberDescriptorType]
    held = [getattr(value, n) for n in slots if hasattr(value, n)]
    held += tuple.__iter__(value) if isinstance(value, tuple) else ()
    return [type(value), *held, getattr(value, "__dict__", None)]


# ------------------------------------------------------------------------------------------------ calls


def is_of_library(frame) -> bool:
    """Is this a compiled text that a dataclass or a namedtuple of a library has as a method?"""
    code = frame.f_code
    if code.co_filename != "<string>" or not code.co_argcount:
        return False
    value = frame.f_locals.get(code.co_varnames[0])
    classes = (value if isinstance(value, type) else type(value)).__mro__
    held = [part for c in classes if is_in_library(c) for part in vars(c).values()]
    return any(code is getattr(inspect.unwrap(part), "__code__", None) for part in held if callable(part))


def is_in_library(cls: type) -> bool:
    """Is a class the one that a module of a library has by its name?"""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    return bool(file) and vars(module).get(cls.__name__) is cls and not is_users_file(file)


def last_of(frame) -> str:
    """The name of the instruction at which a frame is."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


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


def is_atom(value) -> bool:
    """Is it a number, a text, or a tensor without attributes of the user's?"""
    return type(value) in ATOMS or (type(value) in (Tensor, SymbolicTensor) and not value.__dict__)


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
        if event not in ("call", "return") or not is_users(code, frame.f_globals) or is_of_library(frame):
            return
        if event == "return":
            if arg is None and is_left_by_error(frame):
                dropped = "ends by an error that Python drops: at other sizes it may be none"
                reading.doubts.append(f"{code.co_name}(){line(frame)} {dropped}")
            return note_names(frame.f_locals)
        if frame.f_builtins and frame.f_builtins is not vars(builtins):
            reading.refuse(f"{code.co_name}() has other builtins than Python's")
        if is_first_call(seen, frame, is_atom, bool(reading.open_loops)):
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

"""The part of Python that can be read: a look at each function of the user's that runs, before it runs.

Sizes and tensors refuse by themselves whatever asks them. Left to this file is code that tells a size from a number
without asking it: type(N), (20).__eq__(N), `except TypeError`, other modules; and code whose calls differ.
"""

import builtins
import dis
import functools
import sys
import types
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from tinytensor.autograd.function import Context
from tinytensor.core.meta import Meta
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.reading.sizes import SymFloat, SymInt, is_users

STORES = {f"{verb}_{what}" for verb in ("STORE", "DELETE") for what in ("ATTR", "SUBSCR", "GLOBAL")} | {"SEND"}
CHANGES = "append extend insert pop popitem remove clear update setdefault discard sort reverse appendleft popleft"
MUTATORS = {*CHANGES.split(), "next", "send", "setattr", "delattr", "write"}
TYPES = {"isinstance", "issubclass", "callable", "is_tensor", "hasattr", "getattr"}
ASKS = "a step asks for a type, or which object a name has: the answer of the first step may be another one"
MODULES = {"math", "numpy", "operator", "functools", "itertools", "collections", "tinytensor", "typing", "einops"}
READABLE = (
    "abs all any bool dict divmod enumerate filter float format int isinstance iter len list map max min next pow"
)
READABLE += " callable print range repr reversed round set slice sorted str sum super tuple zip frozenset complex bytes"
BUILTINS = set(READABLE.split())
KNOWN = {*MODULES, *sys.stdlib_module_names, "torch", "jax", "sympy"} - {"__main__"}
REFLECTION = {"random", "methodcaller", "attrgetter", "frompyfunc", "vectorize", "is_", "is_not"}
INNER = {name for name in dir(Tensor) if name.startswith("_") and not name.startswith("__")} | {"node"}
EXITS = {"__exit__", "__aexit__"}
DUNDERS = {"__init__", "__name__", "__doc__", "__len__", "__call__", "__matmul__", "__setitem__"}
MADE = {"__init__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__repr__"}
PLAIN = (int, float, str, bytes, type(None), list, tuple, dict, set, frozenset, slice, complex, type(...))


def check_code(code: types.CodeType, module: dict, own: dict, reading) -> None:
    """Refuse what the sizes themselves could not notice; module, own: the function's globals, and its arguments."""
    instructions = list(dis.get_instructions(code))

    def refuse(what: str):
        reading.refuse(f"{code.co_name}() {what}")

    for before, i in zip([None, *instructions], instructions, strict=False):
        name = i.argval if isinstance(i.argval, str) else ""
        after = [j.opname for j in instructions if i.offset < j.offset < i.offset + 8]
        caught = i.opname == "PUSH_EXC_INFO" and not {"WITH_EXCEPT_START", "RERAISE"} & set(after)
        if "EXC_MATCH" in i.opname or caught:
            refuse("catches exceptions: an error at these sizes may be none at others")
        inner = name in INNER and before.argval != "self"
        if i.opname in ("LOAD_ATTR", "LOAD_METHOD") and (
            name in REFLECTION or inner or (name.startswith("__") and name not in DUNDERS)
        ):
            refuse(f"uses .{name}, which need not ask the size")
        if i.opname == "STORE_NAME" and name in EXITS and before.opname != "MAKE_FUNCTION":
            refuse(f"has an {name} that is no function: it may end an exception")
        if i.opname == "IMPORT_NAME" and name.partition(".")[0] not in MODULES:
            refuse(f"imports {name}, whose functions may tell a size from a number")
        if i.opname == "LOAD_FAST" and name in own and not allowed(own[name], code.co_names, started=True):
            refuse(f"uses {name}, which may tell a size from a number")
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF") and name:
            value = own.get(name) if i.opname == "LOAD_DEREF" else module.get(name, vars(builtins).get(name))
            if not allowed(value, code.co_names):
                refuse(f"uses {name}, which may tell a size from a number")
            if isinstance(value, types.ModuleType):  # what the code uses of it
                value = (
                    [vars(value).get(n) for n in code.co_names]
                    if is_users(getattr(value, "__file__", None) or "")
                    else 0
                )
            reading.outside.setdefault(name, (value, snapshot(value)))
        known = {"LOAD_CONST": before and before.argval, "LOAD_GLOBAL": module.get(before and before.argval)}
        if i.opname == "IS_OP" and type(known.get(before.opname, 0)) in (int, float, str, bytes, tuple):
            refuse("compares with `is`, which does not ask the size")
        same = i.opname == "IS_OP" and (before.opname, before.argval) != ("LOAD_CONST", None)
        if reading.open_loops and (same or i.opname == "MATCH_CLASS" or (name in TYPES and "LOAD" in i.opname)):
            reading.refuse(ASKS)
        outer = i.opname == "STORE_GLOBAL" or (i.opname == "STORE_DEREF" and name in code.co_freevars)
        kept = i.opname == "STORE_ATTR" and isinstance(own.get("ctx"), Context) and "ctx" in str(before.argval)
        if outer or (i.opname == "STORE_ATTR" and code.co_name != "__init__" and not kept):
            refuse(f"changes {name}: another call would differ")
        if reading.open_loops and (i.opname in STORES or (i.opname.startswith("LOAD_") and name in MUTATORS)):
            refuse(f"changes an object in a step of a loop ({i.opname.lower()} {name})")


def home_of(value) -> str:
    """The package from which a function, a class or an object comes: _operator is operator."""
    home = (getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]
    return home.removeprefix("_") if home in sys.stdlib_module_names else home


def parts(value) -> dict | list | None:
    """What an object holds, the attributes of the user's own by their names; None for those of others."""
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *cells]
    library = type(value).__module__ in ("builtins", "collections") and not isinstance(value, str | bytes | range)
    if isinstance(value, dict) or (library and isinstance(value, Mapping)):
        return [part for item in value.items() for part in item]
    if isinstance(value, list | tuple | set) or (library and isinstance(value, Collection)):
        return list(value)
    own = [c for c in (value if isinstance(value, type) else type(value)).__mro__ if home_of(c) not in KNOWN]
    if not own or isinstance(value, types.ModuleType):
        return None
    slots = {n: getattr(value, n) for c in own for n in vars(c).get("__slots__", ()) if hasattr(value, n)}
    held = dict(item for c in reversed(own) for item in vars(c).items()) | slots
    held |= {} if isinstance(value, type) else getattr(value, "__dict__", {})
    return {n: p for n, p in held.items() if not n.startswith("__")}


def snapshot(value, seen: frozenset = frozenset()):
    """What an object from outside holds, to see whether the function changes it."""
    if type(value) in (SymInt, SymFloat) or id(value) in seen:
        return id(value)
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Tensor):
        return id(getattr(value._data, "term", 0)) if isinstance(value._data, Meta) else hash(value._data.tobytes())
    if isinstance(value, Iterator):
        return object()  # whoever uses it changes it
    if (held := parts(value)) is None:
        return value if isinstance(value, int | float | str) else id(value)
    held = held.values() if isinstance(held, dict) else held
    return id(type(value)), *[snapshot(part, seen | {id(value)}) for part in held]


def allowed(value, names=(), started: bool = False, seen: frozenset = frozenset()) -> bool:
    """Values, tinytensor's things, the user's own functions and classes, and the builtins and modules of the lists.

    So is all that an object holds, of its attributes those with these names. started: an iterator may be one that the
    function itself has made.
    """
    if id(value) in seen or isinstance(value, int | float | str | Tensor | property):
        return True
    if isinstance(value, types.ModuleType):
        home = value.__name__.partition(".")[0]
        known = home in MODULES or home not in sys.stdlib_module_names
        used = [p for n, p in vars(value).items() if n in names] if home not in ("torch", "jax", "sympy") else []
        return known and all(allowed(part, names, started, seen | {id(value)}) for part in used)
    if isinstance(value, type) and issubclass(value, BaseException):  # what is raised; to catch it is refused
        return True
    if isinstance(value, Iterator):
        return started
    if hasattr(value, "registry"):  # singledispatch() asks for a type
        return False
    exits = [
        vars(c)[n] for c in (value if isinstance(value, type) else type(value)).__mro__ for n in EXITS & vars(c).keys()
    ]
    if not all(isinstance(one, types.FunctionType) for one in exits):  # others end an exception, and are not seen
        return False
    held = None if isinstance(value, types.FunctionType) else parts(value)  # a function is looked at when it runs
    held = [p for n, p in held.items() if n in names] if isinstance(held, dict) else held or []
    if not all(allowed(part, names, started, seen | {id(value)}) for part in held):
        return False
    if isinstance(value, PLAIN):
        return True
    home, name = home_of(value), getattr(value, "__name__", "")
    if home == "builtins":
        return name in BUILTINS or isinstance(value, types.CodeType | types.MethodType | staticmethod | classmethod)
    known = home in MODULES and "random" not in type(value).__module__ and name not in REFLECTION
    return known or home not in KNOWN


def is_made(frame) -> bool:
    """Is the text of this code made by a library, as that of a namedtuple, or of a dataclass of the user's?"""
    home = frame.f_globals.get("__name__", "")
    file = getattr(sys.modules.get(home), "__file__", "") or ""
    return home.startswith("namedtuple_") or frame.f_code.co_name in MADE or (file and not is_users(file))


def ends_exception(frame) -> bool:
    """Does a `with` of this frame wait for what __exit__() returns about an exception?"""
    at = frame.f_lasti
    return is_users(frame.f_code.co_filename) and dis.opname[frame.f_code.co_code[at]] == "WITH_EXCEPT_START"


@contextmanager
def only_readable(reading) -> Iterator[None]:
    """Inside, each function of the user's is looked at when it is called first, and when it is called in a loop.

    The local names of tensors are noted when it returns.
    """
    seen = set()

    def look(frame, event, arg):
        code = frame.f_code
        if code.co_filename == "<string>" and is_made(frame):
            return
        if event == "return" and ends_exception(frame.f_back) and arg:
            reading.refuse("__exit__() ends an exception: an error at these sizes may be none at others")
        if event == "return" and is_users(code.co_filename):
            for name, value in frame.f_locals.items():
                if isinstance(value, Tensor) and not name.startswith((".", "_")):
                    term = getattr(value._data, "term", None)
                    if term is not None and not term.label:
                        term.label = name
            return
        if event == "call" and reading.comprehensions and is_users(code.co_filename):
            reading.refuse("a function of your own takes a list over a size, which has one item here")
        key = code, bool(reading.open_loops)
        if event != "call" or key in seen:
            return
        seen.add(key)
        if is_users(code.co_filename):
            check_code(code, frame.f_globals, frame.f_locals, reading)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)

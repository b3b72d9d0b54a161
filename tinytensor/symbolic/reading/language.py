"""The part of Python that can be read: a look at each function of the user's that runs, before it runs.

Sizes and tensors refuse by themselves whatever asks them. Left to this file is code that tells a size from a number
without asking it: type(N), (20).__eq__(N), `except TypeError`, other modules; and code whose calls differ.
"""

import builtins
import dis
import functools
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tinytensor.autograd.function import Context
from tinytensor.core.meta import Meta
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.reading.sizes import SymFloat, SymInt, is_users

STORES = {f"{verb}_{what}" for verb in ("STORE", "DELETE") for what in ("ATTR", "SUBSCR", "GLOBAL")} | {"SEND"}
CHANGES = "append extend insert pop popitem remove clear update setdefault discard sort reverse appendleft popleft"
MUTATORS = {*CHANGES.split(), "next", "send", "setattr", "delattr", "write"}
MODULES = {"math", "numpy", "operator", "functools", "itertools", "collections", "tinytensor", "typing", "einops"}
READABLE = (
    "abs all any bool dict divmod enumerate filter float format int isinstance iter len list map max min next pow"
)
READABLE += " callable print range repr reversed round set slice sorted str sum super tuple zip frozenset complex bytes"
BUILTINS = set(READABLE.split())
REFLECTION = {"random", "methodcaller", "attrgetter", "frompyfunc", "vectorize"}
DUNDERS = {"__init__", "__name__", "__doc__", "__len__", "__call__", "__matmul__", "__setitem__"}
PLAIN = (int, float, str, bytes, type(None), list, tuple, dict, set, frozenset, slice, complex, type(...))


def check_code(code: types.CodeType, values: dict, reading) -> None:
    """Refuse what the sizes themselves could not notice."""
    instructions = list(dis.get_instructions(code))

    def refuse(what: str):
        reading.refuse(f"{code.co_name}() {what}")

    for before, i in zip([None, *instructions], instructions, strict=False):
        name = i.argval if isinstance(i.argval, str) else ""
        after = [j.opname for j in instructions if i.offset < j.offset < i.offset + 8]
        caught = i.opname == "PUSH_EXC_INFO" and not {"WITH_EXCEPT_START", "RERAISE"} & set(after)
        if "EXC_MATCH" in i.opname or caught:
            refuse("catches exceptions: an error at these sizes may be none at others")
        if i.opname in ("LOAD_ATTR", "LOAD_METHOD") and (
            name in REFLECTION or (name.startswith("__") and name not in DUNDERS)
        ):
            refuse(f"uses .{name}, which need not ask the size")
        if i.opname == "IMPORT_NAME" and name.partition(".")[0] not in MODULES:
            refuse(f"imports {name}, whose functions may tell a size from a number")
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF") and name:
            value = values.get(name, vars(builtins).get(name))
            if not allowed(name, value):
                refuse(f"uses {name}, which may tell a size from a number")
            if isinstance(value, types.ModuleType):  # what the code uses of it
                value = (
                    [vars(value).get(n) for n in code.co_names]
                    if is_users(getattr(value, "__file__", None) or "")
                    else 0
                )
            reading.outside.setdefault(name, (value, snapshot(value)))
        if i.opname == "IS_OP" and before.opname not in ("LOAD_CONST", "LOAD_GLOBAL"):  # `is None`, `is tt.float64`
            refuse("compares with `is`, which does not ask the size")
        outer = i.opname == "STORE_GLOBAL" or (i.opname == "STORE_DEREF" and name in code.co_freevars)
        kept = i.opname == "STORE_ATTR" and isinstance(values.get("ctx"), Context) and "ctx" in str(before.argval)
        if outer or (i.opname == "STORE_ATTR" and code.co_name != "__init__" and not kept):
            refuse(f"changes {name}: another call would differ")
        if reading.open_loops and (i.opname in STORES or (i.opname.startswith("LOAD_") and name in MUTATORS)):
            refuse(f"changes an object in a step of a loop ({i.opname.lower()} {name})")


def snapshot(value, depth: int = 8):
    """What an object from outside holds, to see whether the function changes it."""
    if type(value) in (SymInt, SymFloat):
        return id(value)
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Tensor):
        return id(value) if isinstance(value._data, Meta) else hash(value._data.tobytes())
    if isinstance(value, types.MethodType):
        return snapshot([value.__self__, value.__func__], depth)
    if isinstance(value, functools.partial):
        return snapshot([value.func, value.args, value.keywords], depth)
    if isinstance(value, types.FunctionType) and depth:
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return snapshot([*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *cells], depth - 1)
    if isinstance(value, list | tuple | dict | set) and depth:
        parts = value.items() if isinstance(value, dict) else value
        return tuple(snapshot(part, depth - 1) for part in parts)
    home = value.__module__ if isinstance(value, type) else type(value).__module__
    known = home.partition(".")[0] in MODULES or home.partition(".")[0] in sys.stdlib_module_names - {"__main__"}
    if depth and hasattr(value, "__dict__") and not known:
        return snapshot({n: p for n, p in vars(value).items() if not (n.startswith("__") or callable(p))}, depth - 1)
    return value if isinstance(value, int | float | str) else id(value)


def allowed(name: str, value) -> bool:
    """Values, tinytensor's things, the user's own functions and classes, and the builtins and modules of the lists."""
    if isinstance(value, PLAIN):
        return True
    if isinstance(value, types.ModuleType):
        home = value.__name__.partition(".")[0]
        return home in MODULES or home not in sys.stdlib_module_names
    if isinstance(value, type) and issubclass(value, BaseException):  # what is raised; to catch it is refused
        return True
    if (
        type(value).__module__ in ("itertools", "collections") or "random" in type(value).__module__
    ):  # counters and iterators: another call would differ
        return False
    home = (getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]
    if home == "builtins":
        return name in BUILTINS
    return home in MODULES or home not in {*sys.stdlib_module_names, "torch", "jax", "sympy"} or home == "__main__"


@contextmanager
def only_readable(reading) -> Iterator[None]:
    """Inside, each function of the user's is looked at when it is called first, and when it is called in a loop.

    The local names of tensors are noted when it returns.
    """
    seen = set()

    def look(frame, event, arg):
        code = frame.f_code
        if code.co_filename == "<string>" and frame.f_globals.get("__name__") != "__main__":  # made for a namedtuple
            return
        if event == "return" and is_users(code.co_filename):
            for name, value in frame.f_locals.items():
                if isinstance(value, Tensor) and not name.startswith((".", "_")):
                    term = getattr(value._data, "term", None)
                    if term is not None and not term.label:
                        term.label = name
            return
        key = code, bool(reading.open_loops)
        if event != "call" or key in seen:
            return
        seen.add(key)
        if is_users(code.co_filename):
            check_code(code, {**frame.f_globals, **frame.f_locals}, reading)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)

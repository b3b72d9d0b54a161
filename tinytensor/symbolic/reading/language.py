"""The part of Python that can be read: a look at each function of the user's that runs, before it runs.

Sizes and tensors refuse by themselves whatever asks them. Left to this file is code that tells a size from a number
without asking it: type(N), (20).__eq__(N), `except TypeError`, other modules; and code whose calls differ.
"""

import builtins
import dis
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.reading.sizes import SymFloat, SymInt, is_users

STORES = {f"{verb}_{what}" for verb in ("STORE", "DELETE") for what in ("ATTR", "SUBSCR", "GLOBAL")} | {"SEND"}
CHANGES = "append extend insert pop popitem remove clear update setdefault discard sort reverse appendleft popleft"
MUTATORS = {*CHANGES.split(), "next", "send", "setattr", "delattr", "write"}
MODULES = {"math", "numpy", "operator", "functools", "itertools", "collections", "tinytensor", "typing", "einops"}
READABLE = (
    "abs all any bool dict divmod enumerate filter float format int isinstance iter len list map max min next pow"
)
READABLE += " print range repr reversed round set slice sorted str sum super tuple zip frozenset complex bytes"
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
            reading.outside.setdefault(name, (value, snapshot(value)))
        if i.opname == "IS_OP" and before.opname not in ("LOAD_CONST", "LOAD_GLOBAL"):  # `is None`, `is tt.float64`
            refuse("compares with `is`, which does not ask the size")
        if i.opname == "STORE_GLOBAL" or (i.opname == "STORE_ATTR" and code.co_name != "__init__"):
            refuse(f"changes {name}: another call would differ")
        if reading.open_loops and (i.opname in STORES or (i.opname.startswith("LOAD_") and name in MUTATORS)):
            refuse(f"changes an object in a step of a loop ({i.opname.lower()} {name})")


def snapshot(value, depth: int = 4):
    """What an object from outside holds, to see whether the function changes it."""
    if type(value) in (SymInt, SymFloat):
        return id(value)
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Tensor):
        return value._version.count
    if isinstance(value, types.FunctionType):
        return snapshot([*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()], depth - 1)
    if isinstance(value, list | tuple | dict | set) and depth:
        parts = value.items() if isinstance(value, dict) else value
        return tuple(snapshot(part, depth - 1) for part in parts)
    engines = type(value).__module__.startswith("tinytensor.")
    if depth and hasattr(value, "__dict__") and not engines and not isinstance(value, type | types.ModuleType):
        return snapshot({name: part for name, part in vars(value).items() if not name.startswith("_")}, depth - 1)
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
    if type(value).__module__ in ("itertools", "collections"):  # counters and iterators: another call would differ
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
        generated = code.co_filename == "<string>" and frame.f_globals.get("__name__") != "__main__"  # namedtuples
        if is_users(code.co_filename) and not generated:
            check_code(code, {**frame.f_globals, **frame.f_locals}, reading)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)

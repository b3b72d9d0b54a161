"""The chains of attributes that the bytecode of a function reads.

`self.config.rate` is a chain: a variable, and attributes of its value. `compile` has to know them
(native/recording/guards.py says why), and reads them from the bytecode:

- Python gives no notice when an attribute is read from an object's dictionary. A tracer would see each instruction,
  but a program has only one tracer, and debuggers and coverage tools need it.
- The source is not always available (a shell, `exec`), and `ast` would need the rules of scopes again, which the
  compiler has already applied.
- `code.co_names` has the names, but not the objects whose attributes they are: after `self.optimizer.step()` a counter
  `self.step` would be a condition of a replay, and each step of a training would be recorded anew.

A chain is a sequence of instructions: one loads a variable, and each of the next ones loads an attribute of the value
before it. `config = self.config` gives the end of a chain a name, which counts as known if nothing else is ever stored
there. A chain ends where two paths through the code meet, and at each instruction that this file does not know. The
code may then do anything with the chain's last object, and the reader of the chains must allow for that. So a new
Python with other instructions makes the answer longer, not wrong.
"""

import dis
import functools
import re
import sys
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

_LOADS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_NAME", "LOAD_GLOBAL")
_ATTRIBUTES = {"LOAD_ATTR": "read", "LOAD_METHOD": "call", "STORE_ATTR": "set", "DELETE_ATTR": "set"}
_BY_STRINGS = {"getattr", "hasattr", "setattr", "delattr", "vars", "__dict__", "attrgetter", "methodcaller"}
_SILENT = ("EXTENDED_ARG", "NOP", "RESUME", "PUSH_NULL", "NOT_TAKEN")


def _instructions(code: types.CodeType) -> Iterator[tuple[str, Any, bool]]:
    """Each instruction in the terms of Python 3.11, with its argument and whether two ways meet before it."""
    joins = False
    for i in dis.get_instructions(code):
        joins |= i.is_jump_target
        if i.opname in _SILENT:
            continue
        if i.opname == "LOAD_ATTR" and sys.version_info >= (3, 12) and i.arg & 1:
            yield "LOAD_METHOD", i.argval, joins
        elif isinstance(i.argval, tuple) and "_FAST" in i.opname:  # two in one: LOAD_FAST_LOAD_FAST
            for op, name in zip(re.findall("LOAD_FAST|STORE_FAST", i.opname), i.argval, strict=True):
                yield op, name, joins
                joins = False
        else:
            yield i.opname, i.argval, joins
        joins = False


class Chains:
    """What a piece of code says: chains of names, each from a variable on or from a value without a name."""

    def __init__(self, code: types.CodeType):
        # the variable (or None); (attribute, "read", "call" or "set"); another variable that gets what is at the end
        self.chains: list[tuple[str | None, list[tuple[str, str]], str | None]] = []
        self.local = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        self.varying: set[str] = set()  # local variables that are set, but for those set once to the end of a chain
        self.set: set[str] = set()  # variables beyond this code that it sets
        self.asked: set[str] = set()
        self.modules: set[str] = set()
        self.matches = False  # `case Config(rate=r)` reads attributes, whose names lie in a tuple
        self.inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]  # functions and comprehensions within
        self._chains(code)
        said = {name for root, attributes, _ in self.chains for name in (root, *(a for a, _ in attributes))}
        self.asks_super = "super" in said
        if _BY_STRINGS & said:
            self.asked = {c for c in code.co_consts if isinstance(c, str) and c.isidentifier()}
        if self.matches:
            tuples = [c for c in code.co_consts if isinstance(c, tuple)]
            self.asked |= {name for names in tuples for name in names if isinstance(name, str)}
        if "setattr" in said:
            self.set |= self.asked
        for inner in self.inner:
            self.varying |= chains_of(inner).varying & {*inner.co_freevars}

    def _chains(self, code: types.CodeType) -> None:
        instructions = [*_instructions(code)]
        captured = {*code.co_cellvars, *code.co_freevars}
        stores = Counter(name for op, name, _ in instructions if op.startswith(("STORE_FAST", "LOAD_FAST_AND_CLEAR")))
        arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        met = {*code.co_varnames[:arguments]}  # variables that had, or may have had, another value before
        now = None  # the chain at whose end is the value on top of the stack

        def end(alias: str | None = None) -> None:
            nonlocal now
            if now is not None:
                self.chains.append((*now, alias))
            now = None

        for op, name, joins in instructions:
            if joins:  # the value may come from the other way
                end()
            if op == "LOAD_CLOSURE" or (op.startswith("LOAD_FAST") and name in captured):
                end()  # for a function within, which is read with what is known here
            elif op.startswith(_LOADS):
                end()
                met.add(name)
                now = name, []
            elif op in _ATTRIBUTES:
                now = now or (None, [])
                now[1].append((name, _ATTRIBUTES[op]))
                if _ATTRIBUTES[op] == "set":
                    end()
            elif op == "COPY" and now and name == 1:  # self.a += 1, a = b = self.c: the chain goes on with one of two
                self.chains.append((now[0], [*now[1]], None))
            elif op == "STORE_FAST" and now and stores[name] == 1 and name not in met:
                end(alias=name)
            else:
                end()
                if op.startswith(("STORE_", "DELETE_")):
                    self.varying |= self.local & {name}
                    if name in code.co_freevars or op.endswith("_GLOBAL"):
                        self.set.add(name)
                        self.chains.append((name, [], None))
                elif op in ("IMPORT_FROM", "LOAD_SUPER_ATTR"):
                    self.chains.append((None, [(name, "read")], None))
                elif op == "MATCH_CLASS":
                    self.matches = True
                elif op == "IMPORT_NAME":
                    self.modules.add(name)
                else:  # an instruction that is not known may do anything with a variable
                    self.chains += [
                        (n, [], None) for n in self.local if n == name or (type(name) is tuple and n in name)
                    ]


chains_of = functools.cache(Chains)

"""Values out of a pickle, without running code: a pickle is a program, and this machine has few instructions.

Python's own pickle module calls every function that a file names. Here a file can only name an entry of a given table,
and can only call those entries that are functions made for files (pytorch.py has the table). The instructions for
objects of arbitrary classes do not exist.

Memory stays below 64 times the length of the pickle, which is a small part of a file of tensors: pickletools, which
reads the instructions and executes none, refuses a length beyond the end, the memo grows by one place at a time, and
the machine counts the memory of the objects it makes.
"""

import pickletools
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

LONGEST_KEY = 100  # parts of a tuple that is a key; the hash of nested tuples could take forever
LARGEST_KEY = 2**61 - 1  # whole numbers below it have different hashes
MARK = object()
TAKES = {tuple: 90, list: 90, dict: 90, OrderedDict: 700}  # bytes of a new object and its place
FIRST = {list: 60, dict: 190}  # bytes that its first entry adds


class Callee:
    """A function that a pickle may call; it checks its arguments itself."""

    def __init__(self, function: Callable):
        self.function = function


class Inner:
    """The base of values that are parts of others, such as the memory of a tensor; the result may not hold one."""


def unpickle(content: bytes, names: Mapping[str, Any], persistent: Callable[[Any], Inner]) -> Any:
    """The value of a pickle whose globals are entries of `names` and whose persistent numbers `persistent` resolves.

    Raises ValueError, TypeError or LookupError for a name that is not in the table, for an unknown instruction, and for
    a program that does not end in one value.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of escapes in a text, which pickletools reads
        return _Machine(content, names, persistent).run()


class _Machine:
    def __init__(self, content: bytes, names: Mapping[str, Any], persistent: Callable[[Any], Inner]):
        self.content, self.names, self.persistent = content, names, persistent
        self.at, self.stack, self.memo = 0, [], []
        self.left = 100_000 + 48 * len(content)  # bytes that objects may still take; 12 more are places on the stack

    def run(self) -> Any:
        for code, argument, at in pickletools.genops(self.content):
            if code.name == "STOP":
                break
            if code.name not in INSTRUCTIONS:
                raise ValueError(f"instruction {code.name} at byte {at} is none that tensors need")
            self.at = at
            INSTRUCTIONS[code.name](self, argument)
        value = self.pop()
        if self.stack:
            raise ValueError(f"it leaves {len(self.stack)} values beside its result")
        _check_result(value)
        return value

    # --- Stack

    def make(self, value: Any) -> None:
        """Push a new object, and count its memory."""
        self.take(TAKES.get(type(value), 1000))
        self.stack.append(value)

    def take(self, size: int) -> None:
        """Count memory that objects take."""
        self.left -= size
        if self.left < 0:
            raise ValueError("it makes more objects than a file of its length needs")

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise ValueError(f"an instruction at byte {self.at} lacks its value")
        return self.stack.pop()

    def top(self, *types: type) -> Any:
        """The value on top, which must be of one of these kinds."""
        if not self.stack or type(self.stack[-1]) not in types:
            raise ValueError(f"an instruction at byte {self.at} has a value of another kind than it needs")
        return self.stack[-1]

    def holder(self, *types: type) -> Any:
        """The list or dictionary on top, to which entries are added."""
        value = self.top(*types)
        if not value:
            self.take(FIRST.get(type(value), 0))
        return value

    def marked(self) -> list:
        """Pop the values above the last mark, and the mark."""
        mark = next((i for i in range(len(self.stack) - 1, -1, -1) if self.stack[i] is MARK), None)
        if mark is None:
            raise ValueError(f"an instruction at byte {self.at} lacks its mark")
        values = self.stack[mark + 1 :]
        del self.stack[mark:]
        return values

    # --- Instructions

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def protocol(self, number: int) -> None:
        if number not in (2, 3, 4, 5):
            raise ValueError(f"protocol {number} of pickle is not known")

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self.make(tuple(reversed(values)))

    def put(self, index: int) -> None:
        """Remember the value on top; pickles number their values in order."""
        if index > len(self.memo):
            raise ValueError(f"value {index} is remembered before value {len(self.memo)}")
        value = self.pop()
        self.memo[index : index + 1] = [value]
        self.stack.append(value)

    def get(self, index: int) -> None:
        if index >= len(self.memo):
            raise ValueError(f"value {index} is used, but only {len(self.memo)} are remembered")
        self.stack.append(self.memo[index])

    def named(self, path: str) -> None:
        """A name of a module, which only the table resolves; nothing is imported."""
        full = path.replace(" ", ".", 1)
        if full not in self.names:
            raise LookupError(f"it asks for {full[:200]}, which no file of tensors needs; nothing of it was run")
        self.stack.append(self.names[full])

    def stacked_name(self, _) -> None:
        name, module = self.pop(), self.pop()
        if type(name) is not str or type(module) is not str:
            raise ValueError(f"the name at byte {self.at} is no text")
        self.named(f"{module} {name}")

    def call(self, _) -> None:
        arguments, callee = self.pop(), self.pop()
        if not isinstance(callee, Callee) or type(arguments) is not tuple:
            raise ValueError(f"a call at byte {self.at} is of a value that is no function of the table")
        self.make(callee.function(*arguments))

    def build(self, _) -> None:
        """The attributes of an object: only PyTorch's `_metadata` of a state_dict, versions that are not needed."""
        state = self.pop()
        self.top(OrderedDict)
        if type(state) is not dict or not set(state) <= {"_metadata"}:
            raise ValueError(f"attributes at byte {self.at} are set, which no file of tensors needs")

    def append(self, _) -> None:
        value = self.pop()
        self.holder(list).append(value)

    def appends(self, _) -> None:
        if values := self.marked():
            self.holder(list).extend(values)

    def set_item(self, _) -> None:
        value, key = self.pop(), self.pop()
        self.holder(dict, OrderedDict, Counter)[checked_key(key)] = value

    def set_items(self, _) -> None:
        values = self.marked()
        if len(values) % 2:
            raise ValueError(f"a key at byte {self.at} lacks its value")
        holder = self.holder(dict, OrderedDict, Counter) if values else {}
        for key, value in zip(values[::2], values[1::2], strict=True):
            holder[checked_key(key)] = value

    def persistent_value(self, _) -> None:
        self.stack.append(self.persistent(self.pop()))


INSTRUCTIONS: dict[str, Callable[[_Machine, Any], None]] = {  # by pickletools' names
    "PROTO": _Machine.protocol,
    "FRAME": lambda m, length: None,
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "BINFLOAT", "LONG1", "LONG4"), _Machine.push),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _Machine.push),
    "MARK": lambda m, _: m.push(MARK),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "TUPLE1": lambda m, _: m.tuple_of(1),
    "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3),
    "TUPLE": lambda m, _: m.make(tuple(m.marked())),
    "EMPTY_LIST": lambda m, _: m.make([]),
    "EMPTY_DICT": lambda m, _: m.make({}),
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "MEMOIZE": lambda m, _: m.put(len(m.memo)),
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "GLOBAL": _Machine.named,
    "STACK_GLOBAL": _Machine.stacked_name,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.build,
    "BINPERSID": _Machine.persistent_value,
}


def checked_key(key: Any) -> Any:
    """A key of a dictionary: text, a number, None, or a short tuple of these. Hashes of other values may be slow."""
    parts, count = [key], 0
    while parts:
        part = parts.pop()
        count += 1
        if type(part) is tuple and len(part) < LONGEST_KEY:
            parts += part
        elif not (part is None or type(part) in (str, bool, float) or (type(part) is int and abs(part) < LARGEST_KEY)):
            raise ValueError(f"a {type(part).__name__} is the key of a dictionary")
        if count > LONGEST_KEY:
            raise ValueError(f"the key of a dictionary has more than {LONGEST_KEY} parts")
    return key


def _check_result(value: Any) -> None:
    """Raise ValueError if a value that is a part of others stands in the result itself."""
    seen, open_values = set(), [value]
    while open_values:
        value = open_values.pop()
        if isinstance(value, Inner | Callee):
            raise ValueError(f"its value holds a {type(value).__name__} outside a tensor")
        if isinstance(value, list | tuple | dict) and id(value) not in seen:
            seen.add(id(value))
            open_values += value.values() if isinstance(value, dict) else value

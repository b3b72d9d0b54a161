"""Values out of a pickle, without running code: a pickle is a program, and this machine has few instructions.

Python's own pickle module calls every function that a file names. Here a file can only name an entry of a given table,
and can only call those entries that are functions made for files (pytorch.py has the table). The instructions for
objects of arbitrary classes do not exist.

Memory stays below 64 times the length of the pickle, which is a small part of a file of tensors: a length that goes
beyond the end raises, the memo grows by one place at a time, and the machine counts the memory of the objects it makes.
"""

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

LONGEST_KEY = 100  # parts of a tuple that is a key; the hash of nested tuples could take forever
LARGEST_KEY = 2**61 - 1  # whole numbers below it have different hashes
MARK = object()
TAKES = {tuple: 150, list: 150, dict: 400, OrderedDict: 700}  # bytes of a new object, its place and its first entries


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
    return _Machine(content, names, persistent).run()


class _Machine:
    def __init__(self, content: bytes, names: Mapping[str, Any], persistent: Callable[[Any], Inner]):
        self.content, self.names, self.persistent = content, names, persistent
        self.at, self.stack, self.memo = 0, [], []
        self.left = 100_000 + 48 * len(content)  # bytes that objects may still take; 12 more are places on the stack

    def run(self) -> Any:
        while (code := self.take(1)[0]) != ord("."):
            if code not in INSTRUCTIONS:
                raise ValueError(f"instruction {bytes([code])!r} at byte {self.at - 1} is none that tensors need")
            INSTRUCTIONS[code](self)
        value = self.pop()
        if self.stack:
            raise ValueError(f"it leaves {len(self.stack)} values beside its result")
        _check_result(value)
        return value

    # --- Reading and stack

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or count > len(self.content) - self.at:
            raise ValueError(f"{count} bytes are needed at byte {self.at} of {len(self.content)}")
        self.at += count
        return self.content[self.at - count : self.at]

    def number(self, layout: str) -> Any:
        """The next number, in a layout of struct."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def line(self) -> str:
        """The next bytes up to a line end, as text."""
        end = self.content.index(b"\n", self.at, self.at + 1000)
        text = self.take(end - self.at).decode()
        self.at += 1
        return text

    def make(self, value: Any) -> None:
        """Push a new object, and count its memory."""
        self.left -= TAKES.get(type(value), 1000)
        if self.left < 0:
            raise ValueError("it makes more objects than a file of its length needs")
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise ValueError(f"an instruction before byte {self.at} lacks its value")
        return self.stack.pop()

    def top(self, *types: type) -> Any:
        """The value on top, which must be of one of these kinds."""
        if not self.stack or type(self.stack[-1]) not in types:
            raise ValueError(f"an instruction before byte {self.at} has a value of another kind than it needs")
        return self.stack[-1]

    def marked(self) -> list:
        """Pop the values above the last mark, and the mark."""
        mark = next((i for i in range(len(self.stack) - 1, -1, -1) if self.stack[i] is MARK), None)
        if mark is None:
            raise ValueError(f"an instruction before byte {self.at} lacks its mark")
        values = self.stack[mark + 1 :]
        del self.stack[mark:]
        return values

    # --- Instructions

    def protocol(self) -> None:
        if (number := self.number("<B")) not in (2, 3, 4, 5):
            raise ValueError(f"protocol {number} of pickle is not known")

    def text(self, length: int) -> None:
        self.stack.append(self.take(length).decode("utf-8", "surrogatepass"))

    def long(self, length: int) -> None:
        self.stack.append(int.from_bytes(self.take(length), "little", signed=True))

    def truth(self, value: bool | None) -> None:
        self.stack.append(value)

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

    def named(self, module: str, name: str) -> None:
        """A name of a module, which only the table resolves; nothing is imported."""
        full = f"{module}.{name}"
        if full not in self.names:
            raise LookupError(f"it asks for {full[:200]}, which no file of tensors needs; nothing of it was run")
        self.stack.append(self.names[full])

    def stacked_name(self) -> None:
        name, module = self.pop(), self.pop()
        if type(name) is not str or type(module) is not str:
            raise ValueError(f"the name before byte {self.at} is no text")
        self.named(module, name)

    def call(self) -> None:
        arguments, callee = self.pop(), self.pop()
        if not isinstance(callee, Callee) or type(arguments) is not tuple:
            raise ValueError(f"a call before byte {self.at} is of a value that is no function of the table")
        self.make(callee.function(*arguments))

    def build(self) -> None:
        """The attributes of an object: only PyTorch's `_metadata` of a state_dict, versions that are not needed."""
        state = self.pop()
        self.top(OrderedDict)
        if type(state) is not dict or not set(state) <= {"_metadata"}:
            raise ValueError(f"attributes before byte {self.at} are set, which no file of tensors needs")

    def append(self) -> None:
        value = self.pop()
        self.top(list).append(value)

    def appends(self) -> None:
        values = self.marked()
        self.top(list).extend(values)

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self.top(dict, OrderedDict, Counter)[_checked_key(key)] = value

    def set_items(self) -> None:
        values = self.marked()
        if len(values) % 2:
            raise ValueError(f"a key before byte {self.at} lacks its value")
        holder = self.top(dict, OrderedDict, Counter)
        for key, value in zip(values[::2], values[1::2], strict=True):
            holder[_checked_key(key)] = value

    def persistent_value(self) -> None:
        self.stack.append(self.persistent(self.pop()))


INSTRUCTIONS: dict[int, Callable[[_Machine], None]] = {
    ord(code): instruction
    for code, instruction in {
        "\x80": _Machine.protocol,
        "\x95": lambda m: m.number("<Q"),  # the length of a frame
        "N": lambda m: m.truth(None),
        "\x88": lambda m: m.truth(True),
        "\x89": lambda m: m.truth(False),
        "J": lambda m: m.stack.append(m.number("<i")),
        "K": lambda m: m.stack.append(m.number("<B")),
        "M": lambda m: m.stack.append(m.number("<H")),
        "G": lambda m: m.stack.append(m.number(">d")),
        "\x8a": lambda m: m.long(m.number("<B")),
        "\x8b": lambda m: m.long(m.number("<i")),
        "X": lambda m: m.text(m.number("<I")),
        "\x8c": lambda m: m.text(m.number("<B")),
        "\x8d": lambda m: m.text(m.number("<Q")),
        "(": lambda m: m.stack.append(MARK),
        ")": lambda m: m.stack.append(()),
        "\x85": lambda m: m.tuple_of(1),
        "\x86": lambda m: m.tuple_of(2),
        "\x87": lambda m: m.tuple_of(3),
        "t": lambda m: m.make(tuple(m.marked())),
        "]": lambda m: m.make([]),
        "}": lambda m: m.make({}),
        "a": _Machine.append,
        "e": _Machine.appends,
        "s": _Machine.set_item,
        "u": _Machine.set_items,
        "q": lambda m: m.put(m.number("<B")),
        "r": lambda m: m.put(m.number("<I")),
        "\x94": lambda m: m.put(len(m.memo)),
        "h": lambda m: m.get(m.number("<B")),
        "j": lambda m: m.get(m.number("<I")),
        "c": lambda m: m.named(m.line(), m.line()),
        "\x93": _Machine.stacked_name,
        "R": _Machine.call,
        "b": _Machine.build,
        "Q": _Machine.persistent_value,
    }.items()
}


def _checked_key(key: Any) -> Any:
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

"""`for t in range(N)` over a symbolic size: the body runs once, at a step t with 0 <= t < N, on carried values.

Before the body runs, each of the frame's local names that it stores, and that is a tensor or a number (loss = 0.0),
gets a tensor whose term is a carried value. After it, a name that has another tensor is carried from step to step, and
gets the loop's result. All others are what they were. What else could change in a step is refused: by a look at all
objects that it can reach, before and after it, at its instructions, and at the user's functions that it calls
(language.py).

Where a question has another answer in the first step, or a name has no value before it, that step runs by itself. A
loop whose indices fall, x[-1 - t], is read from its end, with the position in the place of the step. A comprehension
is such a loop, whose item sum(), stack() or cat() must take.
"""

import ctypes
import sys
import types
from collections.abc import Sequence
from itertools import takewhile

from sympy import Expr

from tinytensor.core.dispatch import state as dispatch_state
from tinytensor.core.dtypes import float64
from tinytensor.core.tensor import Tensor
from tinytensor.ops import argument_errors
from tinytensor.ops.reduce import reduce_sum
from tinytensor.ops.shape import cat, flip, stack
from tinytensor.symbolic.reading.language import (
    LOCAL,
    changed_names,
    in_a_step,
    instructions_of,
    last_of,
    snapshot,
    with_the_one_before,
)
from tinytensor.symbolic.reading.sizes import MANY, StepNumber, SymInt, asked_by_user, formula_of
from tinytensor.symbolic.reading.tensors import (
    Rows,
    SymbolicData,
    SymbolicTensor,
    Term,
    Unusable,
    as_term,
    note_names,
    span_of,
    tensor_of,
)

STORED = {"STORE_FAST", "STORE_DEREF", "STORE_NAME"}
CONSTANTS = "LOAD_CONST", "LOAD_SMALL_INT"
BESIDE = {"END_FOR", "POP_TOP", "POP_ITER", "SWAP", "STORE_FAST", "KW_NAMES", "PRECALL", *CONSTANTS}
ELSEWHERE = "a comprehension over a size that is not in sum(), stack() or cat(): write a `for` statement"
AUGMENTED = "a number in the first step that is a tensor later is changed: write y = y + x for y += x"
COLLECTS = "{0} collects a tensor of each step: append() one in a step, which may read [-1]; after the loop read "
COLLECTS += "items, slices or a `for`, or tt.stack({0}) first"


class Items(Sequence):
    """`count` items that a loop over a size runs through: of range(), enumerate(), zip(), reversed(), or of a tensor.

    once: are they those of an iterator, which has none left for a second loop?
    """

    run, why = False, "the numbers of a range of sizes are used elsewhere than in a `for` statement"

    def __init__(self, count: SymInt | int, item, reading, once: bool = False):
        self.count, self.item, self.reading, self.once = count, item, reading, once

    def __getattribute__(self, name: str):
        if name != "append" and asked_by_user():
            object.__getattribute__(self, "_refuse")()
        return object.__getattribute__(self, name)

    def _refuse(self, *args):
        self.reading.refuse(self.why)

    __contains__ = __eq__ = __hash__ = __bool__ = __len__ = __getitem__ = __setitem__ = __delitem__ = _refuse
    __add__ = __radd__ = __iadd__ = __mul__ = __copy__ = __deepcopy__ = __reduce_ex__ = __format__ = _refuse
    __repr__ = __getattr__ = _refuse

    def taken(self) -> "Items":
        """The same, for a loop."""
        if self.once and self.run:
            self.reading.refuse("a second loop runs an iterator, which has no items left: make a new one")
        self.run = True
        return self

    def __reversed__(self) -> "Items":
        """The same items from the last to the first."""
        return Items(self.count, lambda t: self.item(self.count - 1 - t), self.reading, True)

    def __iter__(self):
        return self.taken().loop(sys._getframe(1))

    def loop(self, frame):
        """The loop whose iterator a frame makes, for the items in it."""
        if type(self.count) is int:
            return iter([self.item(i) for i in range(self.count)])
        running = [i.opname for i in instructions_of(frame.f_code) if i.offset >= frame.f_lasti]
        if running[0] != "GET_ITER":
            self.reading.refuse(
                "a range of sizes, or a tensor, is run by something else than a `for` statement or a comprehension: "
                "write `for t in range(N):`"
            )
        return Loop(self, running[1] == "FOR_ITER")


def items_of(x) -> Items | None:
    """What a loop runs through: the items of a range of sizes, of a tensor, or of a list that a loop has collected."""
    if isinstance(x, SymbolicTensor):
        return Items(x.shape[0], x.__getitem__, x.reading)
    return x.taken() if isinstance(x, Items) else None


SymbolicTensor.__iter__ = lambda x: items_of(x).loop(sys._getframe(1))  # `for row in x`
SymbolicTensor.__reversed__ = lambda x: reversed(items_of(x))


def of_each(plain, combine):
    """enumerate() or zip(): of tensors and ranges of one symbolic size, their items side by side."""

    def function(*parts, **keywords):
        sources = [items_of(p) for p in parts]
        known = [r for r in sources if r is not None]
        reading = next((r.reading for r in known if type(r.count) is SymInt), None)
        if reading is None:
            return plain(*parts, **keywords)
        if keywords or len(known) < len(sources):
            reading.refuse("a tensor beside something that may have another length")
        count = min(r.count for r in sources)
        return Items(count, lambda t: combine(t, [r.item(t) for r in sources]), reading, True)

    return function


def enumerate_type(plain):
    """enumerate(), also of a tensor of a symbolic size."""
    return lambda iterable, start=0: of_each(lambda x: plain(x, start), lambda t, each: (t + start, each[0]))(iterable)


_range = range  # Python's own; in a reading, the name says the class below


class RangeType(type):
    def __instancecheck__(cls, x):
        return isinstance(x, _range) or (type(x) is Items and not x.once)


class Range(metaclass=RangeType):
    """The class that stands in for Python's range."""

    def __new__(cls, *numbers):
        if not any(type(n) is SymInt for n in numbers):
            return _range(*numbers)
        start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
        if type(step) is SymInt:  # as in chunk(2)
            step.reading.take_multiples(step.expr)
        count = -(-(stop - start) // step) if step > 0 else -(-(start - stop) // -step)
        reading = next(n.reading for n in numbers if type(n) is SymInt)
        if not count >= 0:
            count = 0
        return Items(count, lambda t: start + t * step, reading)  # range(0, 2*N, N) has two numbers


# ------------------------------------------------------------------------------------------------ lists


class Growing(Items):
    """A list to which each step of a loop appends one tensor. A step may read the last item.

    before: the list before the loop.
    """

    def __init__(self, name: str, before: list, loop: "Loop"):
        self.name, self.reading, self.before, self.owner = name, loop.reading, before, loop
        self.why, self.appended, self.carried = COLLECTS.format(name), None, None

    def append(self, x) -> None:
        if self.appended is not None or not isinstance(x, Tensor):
            self._refuse()
        self.appended = x

    def __getitem__(self, key):
        if type(key) is not int or key != -1:
            self._refuse()
        if self.appended is None and self.carried is None:
            if not self.before or not isinstance(self.before[-1], Tensor):
                self._refuse()
            self.carried = self.owner.carried(self.name, self.before[-1])
        return self.carried if self.appended is None else self.appended

    def close(self) -> "Collected":
        """The list with the tensors of all steps. None of its items may be changed in place from now on."""
        states, loop = len(self.before) == 1 and self.carried is not None, self.owner
        rows = loop.rows(self.appended, self.name if states else "")
        rows = flip(rows, 0) if loop.down else rows
        for n, x in enumerate((self.appended, *self.before)):
            if isinstance(x._data, SymbolicData):
                x._data.memory.append(lambda: True)
            else:
                self.reading.outside[f"item {n} of {self.name}", id(x)] = x, snapshot(x)
        return Collected(self.name, cat((stack(self.before), rows)) if self.before and not states else rows)


class Collected(Items):
    """The list after the loop. tensor: all items along a new first dimension."""

    def __init__(self, name: str, tensor: Tensor):
        super().__init__(tensor.shape[0], tensor.__getitem__, tensor.reading)
        self.name, self.tensor, self.why = name, tensor, COLLECTS.format(name)

    def __getitem__(self, key):
        turned = isinstance(key, slice) and key == slice(None, None, -1)
        part = flip(self.tensor, 0) if turned else self.tensor[key]
        return Collected(self.name, part) if isinstance(key, slice) else part

    def __len__(self):
        raise TypeError(f"the length of {self.name} is a SymInt: use len()")  # Python goes on where it unpacks

    def __bool__(self):
        return self.count != 0

    def __iter__(self):
        if not asked_by_user():  # stack() and cat() take all items as one
            return iter([tensor_of(Rows(self.tensor))])
        return self.loop(sys._getframe(1))


# ------------------------------------------------------------------------------------------------ carried values


class CarriedNumber(SymbolicTensor):
    """A carried value that is a number of Python's before the first step, and what a step computes from such alone.

    h += x makes a new tensor of it. Another name of h has the number in the first step, and that tensor in the others.
    """

    __slots__ = ()


def _augmented(plain):
    def method(x, y):
        if x._data.term.name != "carried":
            x.reading.refuse(AUGMENTED)
        result = plain(x, y)
        x._data = Unusable(AUGMENTED, x)
        return result

    return method


for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(CarriedNumber, f"__i{_name}__", _augmented(getattr(SymbolicTensor, f"__{_name}__")))


class Carried:
    """A value that goes from step to step: its terms before a step, before the first one (start), after a step (end).

    tensor: the value before a step, in the body. final: the term after the loop. shape: that of all of them.
    """

    def __init__(self, name: str, x, loop: "Loop"):
        self.name, self.term, self.final = name, Term("carried", name), Term("final", name)
        for term in (self.term, self.final):
            term.depends = term.is_real = term.on_tape = True
        self.term.inside = loop
        shape = map(loop.reading.number, loop.reading.learnt.get((loop.step, f"shape of {name}"), ()))
        shape, dtype, span = (x.shape, x._data.dtype, span_of(x)) if isinstance(x, Tensor) else (shape, float64, None)
        self.tensor = tensor_of(SymbolicData(loop.reading, self.term, shape, dtype, span))
        self.tensor.__class__ = SymbolicTensor if isinstance(x, Tensor) else CarriedNumber
        self.shape, self.dtype = self.tensor.shape, dtype

    @property
    def is_changed(self) -> bool:
        """Has the step changed it in place, or would it if it were no number at first?"""
        return type(self.tensor._data) is Unusable or self.tensor._data.term is not self.term


def set_locals(frame, values: dict) -> None:
    """Give local names of a frame these values."""
    frame.f_locals.update(values)
    if sys.version_info < (3, 13):  # f_locals is a copy
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _is_followed(x) -> bool:
    """A tensor without values, or items that a step can't use up: the reading itself sees each change of these."""
    if type(x) is Items:
        return x.run or not x.once
    return (isinstance(x, SymbolicTensor) and not vars(x)) or type(x) in (Collected, Loop)


# ------------------------------------------------------------------------------------------------ loops


class Loop:
    """A loop over a size while it is read, and then its description.

    is_statement: is it no comprehension? count, steps: the number of its items, and of the steps that are read as one.
    step: the name of its number, from 0 on. down: do the items run from the last to the first? states: the carried
    values. collected: terms of all steps. peeled: is the first step read by itself?

    Of the body's names, variables are those of the loop, stored those that a step stores, lists those to which it
    appends, and later those that are loaded after the loop.
    """

    def __init__(self, items: Items, is_statement: bool):
        self.reading, self.is_statement, self.begun, self.peeled = items.reading, is_statement, False, False
        self.step = f"t{self.reading.loops or ''}"
        self.down = (self.step, "fall") in self.reading.learnt
        items = reversed(items) if self.down else items
        self.count, self.item = items.count, items.item
        self.t = StepNumber(self.step, integer=True, nonnegative=True)
        self.reading.loops += 1
        self.states: dict[str, Carried] = {}
        self.collected: list[Term] = []

    def __iter__(self):
        return self

    def __next__(self):
        self.frame = sys._getframe(1)
        names = dict(self.frame.f_locals)
        if self.begun:
            self._close(names)
            raise StopIteration
        self._look_at_body()
        # the first step is another one by a name without a value before it, or by a question in a step
        apart = (self.stored - names.keys()) & self.later or (self.step, "first step") in self.reading.learnt
        if apart and self.is_statement and not self.peeled and self.count >= 1:
            self.peeled = True
            return self.item(self.count - 1 if self.down else 0)
        self._begin(names)
        t = SymInt(self.t, self.reading)
        return self.item(t + 1 if self.peeled and not self.down else t)

    # ------------------------------------------------------------------------------------ the instructions

    def _look_at_body(self) -> None:
        """Note the body's names; refuse what a step must not do."""
        code, refuse = instructions_of(self.frame.f_code), self.reading.refuse
        if last_of(self.frame) != "FOR_ITER":
            refuse("a range of sizes is run by next(): write a `for` statement")
        start = next(i for i in code if i.offset >= self.frame.f_lasti)
        step = [i for i in code if start.offset < i.offset < start.argval]
        yields = [i for i in code if i.opname == "YIELD_VALUE"]
        self.caller, self.call = None, range(0)
        if any(i in step for i in yields):
            if len(yields) > 1 or self.frame.f_back.f_code.co_filename != __file__:  # sum() runs it
                refuse(ELSEWHERE)
            self.is_statement = False
        elif not self.is_statement:
            if step[-2].opname == "LIST_APPEND":
                self.caller, self.call = _call_of_list(self.frame, start.argval)
            if self.caller is None:
                refuse(ELSEWHERE)
        self.variables, waiting = set(), 1
        for i in step:
            if waiting:
                waiting += i.arg - 1 if i.opname == "UNPACK_SEQUENCE" else -1
                self.variables.add(i.argval)
        self.stored = {i.argval for i in step if i.opname in STORED} - self.variables
        loaded = [(i.argval, name) for i, _, name in with_the_one_before(step) if i.opname in LOCAL]
        self.appended = {local for local, name in loaded if name == "append"}
        self.later = {i.argval for i in code if i.offset >= start.argval and i.opname in LOCAL}
        for problem in in_a_step(step):
            refuse(problem)

    def later_steps(self) -> Expr:
        """p of p >= 0, which all steps but the first meet."""
        return self.steps.expr - 2 - self.t if self.down else self.t - 1

    # ------------------------------------------------------------------------------------ before the step

    def _begin(self, names: dict) -> None:
        """Give the step a name, and the frame the values before it: carried ones, and lists that collect."""
        reading, self.begun, self.before = self.reading, True, names
        self.steps = self.count - 1 if self.peeled else self.count
        if reading.open_loops:
            reading.refuse("a loop over a size inside of another; write one of them for all steps at once")
        term = Term("loop", reading=reading)
        term.loop, self.where = self, term.where
        reading.steps[self.t] = self.steps.expr
        self.lists = {n: Growing(n, names[n], self) for n in self.appended if type(names.get(n)) is list}
        used = {n: x for n, x in names.items() if n not in self.lists and not _is_followed(x)}
        seen = reading.outside | {(name, id(x)): (x, None) for name, x in used.items()}
        self.seen = {key: (x, snapshot(x)) for key, (x, _) in seen.items()}
        reading.open_loops.append(self)
        stored = {n: x for n, x in names.items() if n in self.stored and isinstance(x, Tensor | int | float)}
        set_locals(self.frame, {n: self.carried(n, x) for n, x in stored.items()} | self.lists)

    def carried(self, name: str, x) -> Tensor:
        """The value that a name has before a step: x in the first one."""
        self.states[name] = Carried(name, x, self)
        return self.states[name].tensor

    # ------------------------------------------------------------------------------------ after the step

    def _close(self, after: dict) -> None:
        """Close the loop, and give the frame the values after it."""
        reading = self.reading
        self._learn_shapes(after)
        self._check_lists(after)
        self._read_ends(after)
        for name in changed_names(reading.outside | self.seen):
            reading.refuse(f"{name} is changed in a step, or may be: stack or add up tensors instead")
        reading.open_loops.pop()
        results = {name: rows.close() for name, rows in self.lists.items()}
        for name, state in self.states.items():
            if name not in self.lists:
                results[name] = self._result(name, after[name])
            del state.tensor
        set_locals(self.frame, results)
        if self.is_statement:
            note_names(after)
        else:
            reading.comprehensions.append(self)
        del self.before, self.lists, self.seen, self.frame  # nothing keeps the tensors from before

    def _learn_shapes(self, after: dict) -> None:
        """Begin anew where what is a number before the loop has a shape after the step."""
        for name, state in self.states.items():
            shape = getattr(after.get(name), "shape", ()) if type(state.tensor) is CarriedNumber else ()
            if len(state.shape) < len(shape) <= MANY:
                self.reading.restart(self.step, f"shape of {name}", [*map(formula_of, shape)])

    def _check_lists(self, after: dict) -> None:
        """Refuse a list that is not appended to once, or that another name shows."""
        for name, rows in self.lists.items():
            if after.get(name) is not rows or rows.appended is None:
                self.reading.refuse(f"{name} collects something else than one tensor in each step")
            if sys.getrefcount(rows.before) > 3:  # here, in rows and in self.before
                self.reading.refuse(f"{name}, to which a step appends, has another name: make a new list")

    def _read_ends(self, after: dict) -> None:
        """Read what the step has made of each name."""
        ends = []
        for name, start in self.before.items():
            x, state, rows = after.get(name), self.states.get(name), self.lists.get(name)
            if state is None and (x is start or rows is not None or name in self.variables):
                continue
            start, x = (rows.before[-1], rows.appended) if rows is not None else (start, x)
            self._check(name, x, state)
            if rows is None and not getattr(as_term(start), "on_tape", False) and not self.steps >= 1:
                self.reading.refuse(f"{name} is a constant after a loop without a step")
            state.start, state.end, state.memory = as_term(start), as_term(x), x._data.memory
            ends.append(x)
        if len({*map(id, ends)}) < len(ends):
            self.reading.refuse("two names of one tensor at the end of a step: clone() one of them")

    def _check(self, name: str, x, state: Carried | None) -> None:
        """Refuse what is no state."""
        refuse = self.reading.refuse
        if not isinstance(x, Tensor) or state is None:
            refuse(f"{name} changes from step to step and is no tensor from the start: begin with tt.zeros(())")
        if type(x) is CarriedNumber:
            refuse(f"{name} is a number that a step sets: begin with tt.tensor()")
        fits = len(x.shape) == len(state.shape) and all(n == m for n, m in zip(x.shape, state.shape, strict=True))
        if not fits or x._data.dtype != state.dtype or state.dtype.kind in "iu":
            refuse(f"{name} changes its shape or dtype from step to step, or is a whole number")
        tensors = [rows.appended for rows in self.lists.values() if rows.name != name]
        tensors += [carried.tensor for carried in self.states.values() if carried is not state]
        shared = any(y is x for y in tensors) or sum(alive() is not None for alive in x._data.memory) > 1
        if shared and state.is_changed:
            refuse(f"the next step changes {name} in place, which has another name or is collected: clone() it")

    def _result(self, name: str, end: Tensor) -> Tensor:
        """The value that a carried name has after the loop; what the steps change in place remains the same object.

        What the first step alone changes in place may not be used.
        """
        state, start = self.states[name], self.before[name]
        result = tensor_of(SymbolicData(self.reading, state.final, state.shape, state.dtype, memory=state.memory))
        if state.is_changed and type(state.tensor) is not CarriedNumber:
            dispatch_state.reading.assign_result(start, result if end is state.tensor else state.tensor)
            if end is state.tensor:
                return start
        state.memory.append(lambda: None if self.steps >= 1 else True)  # else it is the old tensor
        return result

    def rows(self, item, state: str = "") -> Tensor:
        """The tensors of all steps along a new first dimension, by their numbers.

        state: the carried value whose values are these, which has its first one here, too.
        """
        term = Term("rows", as_term(item))
        term.state = state
        self.collected.append(term)
        sizes = (self.steps + int(state != ""), *item.shape)
        return tensor_of(SymbolicData(self.reading, term, sizes, item._data.dtype))

    # ------------------------------------------------------------------------------------ comprehensions

    def all_rows(self, items) -> list:
        """The items of all steps, where the call of stack() or cat() with the list asks for them."""
        frame, codes = sys._getframe(1), []
        while frame is not None and (frame is not self.caller or frame.f_lasti not in self.call):
            codes += [frame.f_code] if frame.f_code.co_filename != argument_errors.__file__ else []
            frame = frame.f_back
        if frame is None or codes[-1] not in JOINS or len(items) != 1:
            self.reading.refuse(ELSEWHERE)
        del self.caller
        rows = self.rows(items[0])
        return [tensor_of(Rows(flip(rows, 0) if self.down else rows))]


JOINS = stack.__code__, cat.__code__


def _call_of_list(frame, end: int) -> tuple:
    """The frame and the bytes that call a function of the list of a comprehension, and of constants."""
    after = [i for i in instructions_of(frame.f_code) if i.offset >= end]
    if after[0].opname == "RETURN_VALUE":  # before Python 3.12, a function makes the list
        frame = frame.f_back
        after = [i for i in instructions_of(frame.f_code) if i.offset > frame.f_lasti]
    names = [i.opname for i in takewhile(lambda i: not i.opname.startswith("CALL"), after)]
    call, following = [*after[len(names) :], None, None][:2]
    constants = sum(name in CONSTANTS for name in names)
    if call is None or not BESIDE.issuperset(names) or call.arg != 1 + constants - (call.opname == "CALL_KW"):
        return None, range(0)
    return frame, range(call.offset, following.offset)


def sum_type(plain, reading):
    """sum(), also of a generator over a symbolic size."""

    def function(items, /, start=0):
        before = len(reading.comprehensions)
        items = [*items] if isinstance(items, types.GeneratorType) else items
        if len(reading.comprehensions) == before:
            return plain(items, start)
        loop = reading.comprehensions.pop()
        if loop.caller is not None or len(items) != 1:
            reading.refuse(ELSEWHERE)
        if not isinstance(items[0], Tensor):
            reading.refuse("a sum over a size of items that are no tensors: use tt.arange()")
        if not loop.steps >= 1:
            reading.refuse("a sum over a size without an item is a number: begin with tt.zeros(())")
        return start + reduce_sum(loop.rows(*items), (0,), False)

    return function

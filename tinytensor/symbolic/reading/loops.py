"""`for t in range(N)` over a symbolic size: the body runs once, at a step t with 0 <= t < N, on carried values.

Before the body runs, each of the frame's local names that it stores, and that is a tensor or a number (loss = 0.0),
gets a tensor whose term is a carried value. After it, a name that has another tensor is carried from step to step, and
gets the loop's result. All others are what they were. What else could change in a step is refused: by a look at all
objects that it can reach, before and after it, at its instructions, and at the user's functions that it calls
(language.py).

Where a name is no tensor and no number before the first step (h = None), or has no value at all, that step runs by
itself. A loop whose indices fall, x[-1 - t], is read from its end, with the position in the place of the step.
"""

import ast
import builtins
import ctypes
import linecache
import sys
import types
from collections.abc import Sequence
from functools import cache

from sympy import Expr

from tinytensor.core.dispatch import state as dispatch_state
from tinytensor.core.dtypes import float64
from tinytensor.core.tensor import Tensor
from tinytensor.ops.methods import FUNCTIONS
from tinytensor.ops.reduce import reduce_sum
from tinytensor.ops.shape import cat, flip, stack
from tinytensor.symbolic.reading.language import (
    LOCAL,
    changed_names,
    in_a_step,
    instructions_of,
    snapshot,
    with_the_one_before,
)
from tinytensor.symbolic.reading.sizes import (
    MANY,
    StepNumber,
    SymInt,
    asked_by_user,
    formula_of,
    is_code_of,
    refusing,
)
from tinytensor.symbolic.reading.tensors import (
    Rows,
    SymbolicData,
    SymbolicTensor,
    Term,
    as_term,
    note_names,
    span_of,
    tensor_of,
)

STORED = {"STORE_FAST", "STORE_DEREF", "STORE_NAME"}
ELSEWHERE = "a comprehension over a size that is not in sum(), stack() or cat(): write a `for` statement"


class SymbolicItems:
    """`count` items of enumerate(), zip() or reversed(), of sizes and tensors. Only one loop may run them."""

    run = False

    def __init__(self, count: SymInt | int, item, reading=None):
        self.count, self.item, self.reading = count, item, reading or getattr(count, "reading", None)

    def __getattribute__(self, name: str):
        if asked_by_user():
            object.__getattribute__(self, "_refuse")()
        return object.__getattribute__(self, name)

    def taken(self) -> "SymbolicItems":
        """The same, for a loop: a second one would have no items, as one over an iterator has none."""
        if self.run:
            self.reading.refuse("a second loop runs an iterator, which has no items left: make a new one")
        self.run = True
        return self

    def turned(self) -> "SymbolicItems":
        """The same items from the last to the first."""
        return SymbolicItems(self.count, lambda t: self.item(self.count - 1 - t), self.reading)

    def __iter__(self):
        return self.taken().loop(sys._getframe(1))

    _refuse = refusing("the numbers of a range of sizes are used elsewhere than in a `for` statement")
    __getitem__ = __contains__ = __eq__ = __hash__ = __bool__ = __len__ = __getattr__ = __reduce_ex__ = _refuse

    def loop(self, frame):
        """The loop whose iterator a frame makes, for the items in it."""
        if type(self.count) is int:
            return iter([self.item(i) for i in range(self.count)])
        running = [i.opname for i in instructions_of(frame.f_code) if i.offset >= frame.f_lasti and i.opname != "CACHE"]
        if running[:2] == ["GET_ITER", "FOR_ITER"]:
            return Loop(self, frame)
        if running[0] == "GET_ITER" and (node := _comprehension(frame)) is not None:
            return Comprehension(self, frame, node)
        self.reading.refuse(
            "a range of sizes, or a tensor, is run by something else than a `for` statement or a comprehension of "
            "which Python keeps the source: write `for t in range(N):`"
        )


class SymbolicRange(SymbolicItems, Sequence):
    """A range of sizes, or the rows of a tensor: each loop runs all of it."""

    __reversed__ = SymbolicItems.turned

    def taken(self) -> "SymbolicRange":
        return self


def range_of(x) -> SymbolicItems | None:
    """What a loop runs through: the items of a range of sizes, of a tensor, or of a list that a loop has collected."""
    x = as_tensor(x)
    if isinstance(x, SymbolicTensor):
        return SymbolicRange(x.shape[0], x.__getitem__)
    return x.taken() if isinstance(x, SymbolicItems) else None


SymbolicTensor.__iter__ = lambda x: range_of(x).loop(sys._getframe(1))  # `for row in x`
SymbolicTensor.__reversed__ = lambda x: reversed(range_of(x))


def as_tensor(items):
    """What a loop has collected, as one tensor."""
    return items.all() if type(items) is Items else items


def of_each(plain, combine):
    """enumerate() or zip(): of tensors and ranges of one symbolic size, their items side by side."""

    def function(*parts, **keywords):
        ranges = [range_of(p) for p in parts]
        known = [r for r in ranges if r is not None]
        reading = next((r.reading for r in known if type(r.count) is SymInt), None)
        if reading is None:
            return plain(*map(as_tensor, parts), **keywords)
        if keywords or len(known) < len(ranges):
            reading.refuse("a tensor beside something that may have another length")
        return SymbolicItems(min(r.count for r in ranges), lambda t: combine(t, [r.item(t) for r in ranges]))

    return function


def enumerate_type(plain):
    """enumerate(), also of a tensor of a symbolic size."""
    return lambda iterable, start=0: of_each(lambda x: plain(x, start), lambda t, each: (t + start, each[0]))(iterable)


def range_type(plain):
    """The class that stands in for Python's range."""

    ranges = plain | SymbolicRange

    class Range(metaclass=type("RangeType", (type,), {"__instancecheck__": lambda cls, x: isinstance(x, ranges)})):
        def __new__(cls, *numbers):
            if not any(type(n) is SymInt for n in numbers):
                return plain(*numbers)
            start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
            if type(step) is SymInt:  # as in chunk(2)
                step.reading.take_multiples(step.expr)
            count = -(-(stop - start) // step) if step > 0 else -(-(start - stop) // -step)
            reading = next(n.reading for n in numbers if type(n) is SymInt)
            if not count >= 0:
                count = 0
            return SymbolicRange(count, lambda t: start + t * step, reading)  # range(0, 2*N, N) has two numbers

    return Range


RUNNING = "ops", "symbolic/reading/language.py"  # code that runs through the items of a list


class Items(Sequence):
    """A list to which each step of a loop appends one tensor. A step may read the last item; after the loop, all.

    before: the list before the loop. tensor: after it, all items along a new first dimension.
    """

    __class__ = property(lambda self: list)

    def __init__(self, name: str, reading, before=(), loop=None, tensor=None):
        self.name, self.reading, self.before, self.loop = name, reading, before, loop
        self.tensor, self.appended, self.carried = tensor, None, None

    def _refuse(self, *args):
        self.reading.refuse(
            f"{self.name} collects a tensor of each step: append() one in a step, which may read [-1]; after the loop "
            f"read items, slices or a `for`, or tt.stack({self.name}) first"
        )

    __contains__ = __eq__ = __add__ = __radd__ = __iadd__ = __mul__ = __setitem__ = __delitem__ = _refuse
    __copy__ = __deepcopy__ = __reduce_ex__ = __format__ = __repr__ = index = count = _refuse
    __hash__ = None

    def __getattr__(self, name: str):
        if hasattr(list, name):
            self._refuse()
        raise AttributeError(name)

    def append(self, x) -> None:
        if self.tensor is not None or self.appended is not None or not isinstance(x, Tensor):
            self._refuse()
        self.appended = x

    def last(self) -> Tensor:
        """The last item before the loop."""
        return self.before[-1] if self.before and isinstance(self.before[-1], Tensor) else self._refuse()

    def __getitem__(self, key):
        if self.tensor is None:
            if type(key) is not int or key != -1:
                self._refuse()
            if self.appended is None and self.carried is None:
                self.carried = self.loop.carried(self.name, self.last())
            return self.carried if self.appended is None else self.appended
        turned = isinstance(key, slice) and key == slice(None, None, -1)
        part = flip(self.tensor, 0) if turned else self.tensor[key]
        return Items(self.name, self.reading, tensor=part) if isinstance(key, slice) else part

    def all(self) -> Tensor:
        return self._refuse() if self.tensor is None else self.tensor

    def __len__(self):
        raise TypeError(f"the length of {self.name} is a SymInt: use len()")  # Python goes on where it unpacks

    def __bool__(self):
        return self.all().shape[0] != 0

    def __iter__(self):
        if is_code_of(sys._getframe(1), *RUNNING):  # stack() and cat() take all items as one
            return iter([tensor_of(Rows(self.all()))])
        return range_of(self).loop(sys._getframe(1))

    def __reversed__(self):
        return reversed(range_of(self))

    def close(self) -> "Items":
        """The list with the tensors of all steps. None of its items may be changed in place from now on."""
        states = len(self.before) == 1 and self.carried is not None
        rows = self.loop.rows(self.appended, self.name if states else "")
        rows = flip(rows, 0) if self.loop.down else rows
        self.tensor = cat((stack(self.before), rows)) if self.before and not states else rows
        for n, x in enumerate((self.appended, *self.before)):
            if isinstance(x._data, SymbolicData):
                x._data.memory.append(lambda: True)
            else:
                self.reading.outside[f"item {n} of {self.name}", id(x)] = x, snapshot(x)
        return self


# ------------------------------------------------------------------------------------------------ the syntax tree


SHARED = ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop  # Python has one node of each


def _codes(code: types.CodeType) -> set[types.CodeType]:
    """A code, and those of the functions in it."""
    return {code}.union(*(_codes(part) for part in code.co_consts if isinstance(part, types.CodeType)))


@cache
def _compiled(source: str) -> tuple[ast.Module, set[types.CodeType]]:
    """The tree of a source, whose nodes know their parents, and the codes that Python makes of it."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, SHARED):
                child.parent = node
    return tree, _codes(compile(source, "", "exec", dont_inherit=True))


def _comprehension(frame) -> ast.GeneratorExp | ast.ListComp | None:
    """The comprehension whose iterator the frame makes; None if the source is not that of its code."""
    tree, codes = _compiled("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    for node in ast.walk(tree) if frame.f_code in codes else ():
        if isinstance(node, ast.GeneratorExp | ast.ListComp):
            spans = [(n.lineno, n.end_lineno, n.col_offset, n.end_col_offset) for n in (node, node.generators[0].iter)]
            if positions in spans:  # by Python's version
                return node
    return None


def _called(function: ast.expr, frame):
    """What a name stands for in a frame, or a name in a module; None if it is something else."""
    if isinstance(function, ast.Name):
        spaces = frame.f_locals, frame.f_globals, vars(builtins)
        return next((space[function.id] for space in spaces if function.id in space), None)
    module = _called(function.value, frame) if isinstance(function, ast.Attribute) else None
    return vars(module).get(function.attr) if isinstance(module, types.ModuleType) else None


def _names(nodes, context: type) -> set[str]:
    names = (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, context)}


class _Body:
    """What the instructions of a loop say: the local names that a step stores and loads.

    variables: those of the loop. in_place: those that a step changes in place. lists: those to which it appends. later:
    those that are loaded after the loop.
    """

    def __init__(self, frame, refuse):
        code = instructions_of(frame.f_code)
        start = next(i for i in code if i.offset > frame.f_lasti)
        step = [i for i in code if start.offset < i.offset < start.argval]
        self.variables, waiting = set(), 1
        for i in step:
            if waiting:
                waiting += i.arg - 1 if i.opname == "UNPACK_SEQUENCE" else -1
                self.variables.add(i.argval)
            if i.opname == "YIELD_VALUE":
                refuse("a loop over a size that ends before its last step")
        self.stored = {i.argval for i in step if i.opname in STORED} - self.variables
        self.loaded, self.in_place, self.lists = {i.argval for i in step if i.opname in LOCAL}, set(), set()
        for before, i, name in with_the_one_before(step):
            if name.endswith("_") and not name.endswith("__") and before.opname in LOCAL:
                self.in_place.add(before.argval)
            if i.opname in STORED and before.opname == "BINARY_OP" and "=" in before.argrepr:
                self.in_place.add(name)
            if name == "append" and before.opname in LOCAL:
                self.lists.add(before.argval)
        self.stored |= self.in_place
        for problem in in_a_step(step):
            refuse(problem)
        self.later = {i.argval for i in code if i.offset >= start.argval and i.opname in LOCAL}


# ------------------------------------------------------------------------------------------------ one step


class CarriedNumber(SymbolicTensor):
    """A state that is a number before the first step, which no operator changes in place."""

    __slots__ = ()


for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(CarriedNumber, f"__i{_name}__", getattr(SymbolicTensor, f"__{_name}__"))


class Carried:
    """A value that goes from step to step: its terms before a step, before the first one (start), after a step (end).

    tensor: the value before a step, in the body. final: the term after the loop. shape: that of all of them.
    """

    def __init__(self, name: str, x, loop: "Steps"):
        self.name, self.term, self.end, self.final = name, Term("carried", name), None, Term("final", name)
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
        """Has the step changed it in place?"""
        return self.tensor._data.term is not self.term

    def set_ends(self, start, end: Tensor) -> None:
        self.start, self.end = as_term(start), as_term(end)
        self.memory = end._data.memory

    def set_unchanged(self, start) -> None:
        """No step changes it: what was read of it is of its first value."""
        term, same = self.term, as_term(start)
        term.name, term.args = "same", (same,)
        for attribute in ("depends", "is_real", "on_tape"):
            setattr(term, attribute, getattr(same, attribute, False))


def _is_number(end: Term, numbers: set[Term]) -> bool:
    """Does Python compute it from these terms and from numbers alone?"""
    waiting, seen = [end], set(numbers)
    for part in waiting:
        if isinstance(part, Term) and part not in seen:
            seen.add(part)
            waiting += part.args or [None]
        if not isinstance(part, Term | int | float):
            return False
    return True


def set_locals(frame, values: dict) -> None:
    """Give local names of a frame these values."""
    frame.f_locals.update(values)
    if sys.version_info < (3, 13):  # f_locals is a copy
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


class Steps:
    """A loop over a size while it is read, and then its description.

    count, steps: the number of its items, and of the steps that are read as one. step: the name of its number, from 0
    on. down: do the items run from the last to the first? states: the carried values. collected: terms of all steps.
    peeled: is the first step read by itself?
    """

    def __init__(self, items: SymbolicItems):
        self.reading, self.begun, self.peeled = items.reading, False, False
        self.step = f"t{self.reading.loops or ''}"
        self.down = (self.step, "fall") in self.reading.learnt
        items = items.turned() if self.down else items
        self.count, self.item = items.count, items.item
        self.t = StepNumber(self.step, integer=True, nonnegative=True)
        self.reading.loops += 1
        self.states: dict[str, Carried] = {}
        self.collected: list[Term] = []

    def __iter__(self):
        return self

    def begin(self, steps, used: dict) -> None:
        """Give the step a name. used: the objects that it reads, by their names."""
        reading, self.begun, self.steps = self.reading, True, steps
        if reading.open_loops:
            reading.refuse("a loop over a size inside of another; write one of them for all steps at once")
        term = Term("loop", reading=reading)
        term.loop, self.where = self, term.where
        reading.steps[self.t] = steps.expr
        seen = reading.outside | {(name, id(x)): (x, None) for name, x in used.items()}
        self.seen = {key: (x, snapshot(x)) for key, (x, _) in seen.items()}
        reading.open_loops.append(self)

    def later_steps(self) -> Expr:
        """p of p >= 0, which all steps but the first meet."""
        return self.steps.expr - 2 - self.t if self.down else self.t - 1

    def end(self) -> None:
        """Close the loop; refuse a step that has changed an object."""
        for name in changed_names(self.reading.outside | self.seen):
            self.reading.refuse(f"{name} is changed in a step, or may be: stack or add up tensors instead")
        del self.seen
        self.reading.open_loops.pop()

    def rows(self, item, state: str = "") -> Tensor:
        """The tensors of all steps along a new first dimension, by their numbers.

        state: the carried value whose values are these, which has its first one here, too.
        """
        term = Term("rows", as_term(item))
        term.state = state
        self.collected.append(term)
        sizes = (self.steps + int(state != ""), *item.shape)
        return tensor_of(SymbolicData(self.reading, term, sizes, item._data.dtype))


def _is_followed(x) -> bool:
    """A tensor without values, or a list of all steps: the reading itself sees each change of these."""
    return (isinstance(x, SymbolicTensor) and not vars(x)) or (type(x) is Items and x.tensor is not None)


class Loop(Steps):
    """A `for` statement over a size."""

    def __init__(self, items: SymbolicItems, frame):
        super().__init__(items)
        self.frame, self.body = frame, _Body(frame, self.reading.refuse)

    def __next__(self):
        if sys._getframe(1) is not self.frame:
            self.reading.refuse("a range of sizes is run by next(): write a `for` statement")
        names, body = dict(self.frame.f_locals), self.body
        if self.begun:
            self._close(names)
            raise StopIteration
        if not self.peeled and self._starts_apart(names) and self.count >= 1:
            self.peeled = True
            return self.item(self.count - 1 if self.down else 0)
        self.before = names
        lists = {n: names[n] for n in body.lists if type(names.get(n)) is list}
        self.lists = {n: Items(n, self.reading, rows, self) for n, rows in lists.items()}
        used = (body.loaded | body.stored) - lists.keys() - body.variables
        used = {n: x for n, x in names.items() if n in used and not _is_followed(x)}
        self.begin(self.count - 1 if self.peeled else self.count, used)
        self._set_carried(names)
        t = SymInt(self.t, self.reading)
        return self.item(t + 1 if self.peeled and not self.down else t)

    def _starts_apart(self, names: dict) -> bool:
        """Is the first step another one: by what a name holds before it, or by a question in a step?"""
        stored = [names[n] for n in self.body.stored if n in names]
        no_state = any(type(x) not in (int, float) and not isinstance(x, Tensor) for x in stored)
        missing = (self.body.stored - names.keys()) & self.body.later
        return no_state or bool(missing) or (self.step, "first step") in self.reading.learnt

    def _set_carried(self, names: dict) -> None:
        """Give the frame the values before a step: carried ones, and lists that collect."""
        stored = sorted(self.body.stored & names.keys())
        values = {n: self.carried(n, names[n]) for n in stored if isinstance(names[n], Tensor | int | float)}
        set_locals(self.frame, values | self.lists)

    def carried(self, name: str, x) -> Tensor:
        """The value that a name has before a step: x in the first one."""
        self.states[name] = Carried(name, x, self)
        return self.states[name].tensor

    def _close(self, after: dict) -> None:
        """Close the loop, and give the frame the values after it."""
        self._learn_shapes(after)
        self._check_lists(after)
        results = self._read_ends(after)
        self._check_numbers()
        note_names(after)
        self.end()
        results |= {name: items.close() for name, items in self.lists.items()}
        for name, state in self.states.items():
            if name not in self.lists:
                results[name] = self._result(name, after[name])
            del state.tensor
        set_locals(self.frame, results)
        del self.before, self.lists, self.frame  # nothing keeps the tensors from before

    def _read_ends(self, after: dict) -> dict:
        """Read what the step has made of each name; the values that it has not changed."""
        unchanged, ends = {}, {}
        for name, old in self.before.items():
            x, state = after.get(name), self.states.get(name)
            if name in self.lists:
                if state is not None:
                    ends[name] = x.appended
                    self._check(name, x.appended, state)
                    state.set_ends(x.last(), x.appended)
            elif state is not None and x is state.tensor and not state.is_changed:
                unchanged[name] = old
                state.set_unchanged(old)
            elif x is not old and name not in self.body.variables:
                ends[name] = x
                self._check(name, x, state)
                if not getattr(as_term(old), "on_tape", False) and not self.steps >= 1:
                    self.reading.refuse(f"{name} is a constant after a loop without a step")
                state.set_ends(old, x)
        self.states = {name: self.states[name] for name in ends}
        if len({*map(id, ends.values())}) < len(ends):
            self.reading.refuse("two names of one tensor at the end of a step: clone() one of them")
        return unchanged

    def _learn_shapes(self, after: dict) -> None:
        """Begin anew where what is a number before the loop has a shape after the step."""
        for name, state in self.states.items():
            shape = getattr(after.get(name), "shape", ()) if type(state.tensor) is CarriedNumber else ()
            if len(state.shape) < len(shape) <= MANY:
                self.reading.restart(self.step, f"shape of {name}", [*map(formula_of, shape)])

    def _check_numbers(self) -> None:
        """Refuse a state that remains a number in Python, where it is a tensor here."""
        numbers = {name: state for name, state in self.states.items() if type(state.tensor) is CarriedNumber}
        for name, state in numbers.items():
            if _is_number(state.end, {number.term for number in numbers.values()}):
                self.reading.refuse(f"{name} is a number that changes from step to step: begin with tt.tensor()")

    def _check_lists(self, after: dict) -> None:
        """Refuse a list that is not appended to once, or that another name shows."""
        for name, items in self.lists.items():
            if after.get(name) is not items or items.appended is None:
                self.reading.refuse(f"{name} collects something else than one tensor in each step")
            if sys.getrefcount(items.before) > 3:  # here, in items and in self.before
                self.reading.refuse(f"{name}, to which a step appends, has another name: make a new list")

    def _result(self, name: str, end: Tensor):
        """The value that a carried name has after the loop; what the steps change in place remains the same object.

        What the first step alone changes in place may not be used.
        """
        state, old = self.states[name], self.before[name]
        result = tensor_of(SymbolicData(self.reading, state.final, state.shape, state.dtype, memory=state.memory))
        if state.is_changed:
            dispatch_state.reading.assign_result(old, result if end is state.tensor else state.tensor)
            if end is state.tensor:
                return old
        state.memory.append(lambda: None if self.steps >= 1 else True)  # else it is the old tensor
        return result

    def _check(self, name: str, x, state: Carried | None) -> None:
        """Refuse what is no state."""
        refuse = self.reading.refuse
        if not isinstance(x, Tensor) or state is None:
            refuse(f"{name} changes from step to step and is no tensor from the start: begin with tt.zeros(())")
        fits = len(x.shape) == len(state.shape) and all(n == m for n, m in zip(x.shape, state.shape, strict=True))
        if not fits or x._data.dtype != state.dtype or state.dtype.kind in "iu":
            refuse(f"{name} changes its shape or dtype from step to step, or is a whole number")
        tensors = [items.appended for items in self.lists.values() if items.name != name]
        tensors += [carried.tensor for carried in self.states.values() if carried is not state]
        shared = any(y is x for y in tensors) or sum(alive() is not None for alive in x._data.memory) > 1
        if shared and (state.is_changed or name in self.body.in_place):
            refuse(f"the next step changes {name} in place, which has another name or is collected: clone() it")


# ------------------------------------------------------------------------------------------------ comprehensions


def _joins(call: ast.Call, frame) -> bool:
    """Is it stack() or cat() of its first argument, without a call in the others?"""
    joins = [stack, cat, *(FUNCTIONS[name] for name in ("stack", "cat", "concat", "concatenate"))]
    settings = [n for argument in (*call.args[1:], *call.keywords) for n in ast.walk(argument)]
    called = _called(call.func, frame)
    return any(called is join for join in joins) and not any(isinstance(n, ast.Call) for n in settings)


class Comprehension(Steps):
    """sum(... for t in range(N)), or stack([... for t in range(N)]): the item of one step."""

    def __init__(self, items: SymbolicItems, frame, node: ast.GeneratorExp | ast.ListComp):
        super().__init__(items)
        self.generator = isinstance(node, ast.GeneratorExp)
        names = _names([node.elt], ast.Load) & {*frame.f_locals} - _names([node], ast.Store)
        self.names = {name: frame.f_locals[name] for name in names}
        inner = any(isinstance(n, ast.NamedExpr | ast.Await | ast.Yield) for n in ast.walk(node.elt))
        if len(node.generators) > 1 or node.generators[0].ifs or inner:
            self.reading.refuse("a comprehension over a size with a condition, or two loops: write a `for` statement")
        call = node.parent
        is_argument = isinstance(call, ast.Call) and call.args[:1] == [node]
        if not is_argument or not (self.generator or _joins(call, frame)):
            self.reading.refuse(ELSEWHERE)

    def __next__(self):
        if self.begun:
            self.end()
            self.reading.comprehensions.append(self)
            raise StopIteration
        if self.generator and sys._getframe(2).f_code.co_filename != __file__:  # sum() runs it
            self.reading.refuse(ELSEWHERE)
        self.begin(self.count, self.names)
        return self.item(SymInt(self.t, self.reading))

    def all_rows(self, items) -> list:
        """The items of all steps, for stack() and cat()."""
        if len(items) != 1:
            self.reading.refuse(ELSEWHERE)
        rows = self.rows(items[0])
        return [tensor_of(Rows(flip(rows, 0) if self.down else rows))]


def sum_type(plain, reading):
    """sum(), also of a generator over a symbolic size."""

    def function(items, /, start=0):
        before = len(reading.comprehensions)
        items = [*items] if isinstance(items, types.GeneratorType) else items
        if len(reading.comprehensions) == before:
            return plain(items, start)
        if not isinstance(items[0], Tensor):
            reading.refuse("a sum over a size of items that are no tensors: use tt.arange()")
        comprehension = reading.comprehensions.pop()
        if not comprehension.steps >= 1:
            reading.refuse("a sum over a size without an item is a number: begin with tt.zeros(())")
        return start + reduce_sum(comprehension.rows(*items), (0,), False)

    return function

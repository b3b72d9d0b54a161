"""`for t in range(N)` over a symbolic size: the body runs once, at a step t with 0 <= t < N, on carried values.

Before the body runs, each tensor among the frame's local names is given the term of a carried value: the objects
change, so the frame need not. After it, a name that has another tensor is carried from step to step, and its tensor
becomes the loop's result. All other tensors get their own terms back. What else could change in a step is refused: by
the syntax tree of the loop, by a look at the local names, and in the user's functions that it calls (language.py).

Where a state begins as a number (loss = 0.0), or as another name's tensor (h = h0), the first step runs by itself. If
it is the step that the body describes, at t = 0, it is taken back into the loop.
"""

import ast
import dis
import linecache
import operator
import sys
import types
from functools import cache

import numpy as np
from sympy import Dummy

from tinytensor.core.registry import OPS
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.reading.language import MUTATORS, snapshot
from tinytensor.symbolic.reading.sizes import SymFloat, SymInt, add, constant, multiply
from tinytensor.symbolic.reading.tensors import (
    LastStep,
    Rows,
    SymbolicData,
    SymbolicTensor,
    Term,
    as_term,
    span_of,
    tensor_of,
)

NUMBERS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "true_divide": operator.truediv}
NUMBERS |= {"neg": operator.neg, "power": operator.pow, "square": lambda x: x * x}
JOINS = {"stack", "cat", "concat", "concatenate"}  # what takes the list that a loop has collected


class SymbolicRange:
    """range(), enumerate() or zip() of sizes and tensors: `count` items. Only a `for` statement may run it.

    down: do the items run from the last to the first?
    """

    def __init__(self, count: SymInt, item, down: bool = False):
        self.count, self.item, self.reading, self.down = count, item, count.reading, down

    def __iter__(self):
        return _loop(self.count, self.item, self.reading, self.down)

    def __reversed__(self):
        return SymbolicRange(self.count, self.item, not self.down)

    def _refuse(self, *args):
        self.reading.refuse("the numbers of a range of sizes are used elsewhere than in a `for` statement")

    __len__ = __getitem__ = __contains__ = __eq__ = __hash__ = __bool__ = __getattr__ = __reduce_ex__ = _refuse


def of_each(plain, combine):
    """enumerate() or zip(): of tensors and ranges of one symbolic size, their items side by side."""

    def symbolic(p) -> bool:
        return isinstance(p, SymbolicRange) or (isinstance(p, SymbolicTensor) and type(p.shape[0]) is SymInt)

    def function(*parts, **keywords):
        if not any(map(symbolic, parts)):
            return plain(*parts, **keywords)
        reading = next(p.reading if isinstance(p, SymbolicRange) else p._data.reading for p in parts if symbolic(p))
        counts = [p.count if isinstance(p, SymbolicRange) else getattr(p, "shape", (None,))[0] for p in parts]
        downs = {isinstance(p, SymbolicRange) and p.down for p in parts}
        if keywords or None in counts or len(downs) > 1 or (True in downs and any(n != counts[0] for n in counts)):
            reading.refuse("a tensor beside something that may have another length")
        count, down = min(counts), downs.pop()
        items = [p.item if isinstance(p, SymbolicRange) else p.__getitem__ for p in parts]
        each = lambda t: combine(count - 1 - t if down else t, [item(t) for item in items])  # noqa: E731
        return [each(t) for t in range(count)] if type(count) is int else SymbolicRange(count, each, down)

    return function


def enumerate_type(plain):
    """enumerate(), also of a tensor of a symbolic size."""
    return lambda iterable, start=0: of_each(lambda x: plain(x, start), lambda t, each: (t + start, each[0]))(iterable)


def reversed_type(plain):
    """reversed(), also of a tensor of a symbolic size."""

    def function(x):
        if isinstance(x, SymbolicTensor) and type(x.shape[0]) is SymInt:
            return SymbolicRange(x.shape[0], x.__getitem__, True)
        return x.__reversed__() if isinstance(x, SymbolicRange) else plain(x)

    return function


def range_type(plain):
    """The class that stands in for Python's range."""

    class Range(metaclass=type("RangeType", (type,), {"__instancecheck__": lambda cls, x: isinstance(x, plain)})):
        def __new__(cls, *numbers):
            if not any(type(n) is SymInt for n in numbers):
                return plain(*numbers)
            start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
            if type(step) is SymInt:  # as in chunk(2)
                step.reading.take_multiples(step)
            count = -(-(stop - start) // step) if step > 0 else -(-(start - stop) // -step)
            if type(count) is int:  # range(0, 2*N, N) has two numbers for each N
                return [start + i * step for i in plain(count)]
            if not count >= 0:
                return []
            if type(step) is int and step < 0:
                return SymbolicRange(count, lambda t: start + (count - 1) * step - t * step, True)
            return SymbolicRange(count, lambda t: start + t * step)

    return Range


# ------------------------------------------------------------------------------------------------ the syntax tree


@cache
def _tree(file: str, source: str) -> ast.Module:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node
    return tree


def _statement(frame) -> ast.AST | None:
    """The `for` statement or the comprehension whose iterator the frame makes; None if it is something else."""
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] != "GET_ITER":
        return None
    source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    for node in ast.walk(_tree(frame.f_code.co_filename, source)) if source else ():
        iterated = (
            node.generators[0].iter
            if isinstance(node, ast.GeneratorExp | ast.ListComp)
            else getattr(node, "iter", None)
        )
        if isinstance(node, ast.For | ast.GeneratorExp | ast.ListComp):
            spans = [(n.lineno, n.end_lineno, n.col_offset, n.end_col_offset) for n in (node, iterated)]
            if positions in spans:  # by Python's version
                return node
    return None


def _loop(count, item, reading, down: bool):
    frame = sys._getframe(2)
    if type(count) is int:
        return iter([item(i) for i in range(count)])
    statement = _statement(frame)
    if isinstance(statement, ast.For):
        return Loop(count, item, reading, frame, statement, down)
    if statement is not None:
        return Comprehension(count, item, reading, statement, down, frame)
    reading.refuse(
        "a range of sizes, or a tensor, is run by something else than a `for` statement or a comprehension of which "
        "Python keeps the source: write `for t in range(N):`"
    )


SymbolicTensor.__iter__ = lambda x: _loop(x.shape[0], x.__getitem__, x._data.reading, False)  # `for row in x`


def _names(nodes, context: type) -> set[str]:
    names = (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, context)}


class _Body:
    """What the syntax tree of a loop says: the names that are stored and read, and the lists that collect."""

    def __init__(self, statement: ast.For, refuse):
        body = statement.body
        self.variables = _names([statement.target], ast.Store)
        self.stored, self.loaded = _names(body, ast.Store) - self.variables, _names(body, ast.Load)
        self.lists, self.backward, forward = set(), set(), set()
        if statement.orelse:
            refuse("a loop over a size with an `else`")
        for node in (n for one in body for n in ast.walk(one)):
            if isinstance(node, ast.Break | ast.Return | ast.Yield | ast.YieldFrom | ast.Try | ast.With | ast.Raise):
                refuse("a loop over a size that ends before its last step")
            if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                refuse("a step changes more than its local names")
            if isinstance(node, ast.Global | ast.Nonlocal | ast.FunctionDef | ast.ClassDef | ast.Lambda | ast.Delete):
                refuse("a step changes more than its local names")
            if isinstance(node, ast.Attribute) and node.attr in MUTATORS:
                appended = node.attr == "append" and isinstance(node.value, ast.Name)
                if not appended or not isinstance(node.parent.parent, ast.Expr):
                    refuse(f"a step changes a list or another object ({node.attr}): stack or add up tensors instead")
                self.lists.add(node.value.id)
        function = statement
        while not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            function = function.parent
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in self.lists and isinstance(node.ctx, ast.Load):
                call, used = node.parent, node
                if isinstance(call, ast.Subscript) and ast.unparse(call.slice) == "::-1":
                    self.backward.add(node.id)
                    call, used = call.parent, call
                joined = isinstance(call, ast.Call) and call.args[:1] == [used]
                name = getattr(call.func, "attr", getattr(call.func, "id", "")) if joined else ""
                if name not in JOINS and not (isinstance(call, ast.Attribute) and call.attr == "append"):
                    refuse(
                        f"{node.id} collects a tensor of each step, and is used elsewhere than in stack() or cat(); "
                        f"tt.stack({node.id}) first"
                    )
                if joined:
                    forward |= {node.id} if used is node else set()
        for name in forward & self.backward:
            refuse(f"{name} is joined in both orders; tt.stack({name}) first")
        end = statement.end_lineno
        after = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        self.later = {n.id for n in after if n.lineno > end}


# ------------------------------------------------------------------------------------------------ one step


class Carried:
    """A value that goes from step to step: its term in the body, before the first step, and after the step."""

    def __init__(self, name: str, term: Term, start, data: SymbolicData):
        self.name, self.term, self.start, self.data = name, term, start, data
        self.end = self.final = None


def begin(loop, count) -> None:
    """Note where the terms of a step begin, and give the step a name."""
    reading = loop.reading
    if reading.open_loops:
        reading.refuse("a loop over a size inside of another; write one of them for all steps at once")
    Term("begin", reading=reading).loop = loop
    loop.step = f"t{len(reading.steps) or ''}"
    reading.symbols[loop.step] = Dummy(loop.step, integer=True, nonnegative=True)
    reading.steps[loop.step] = count.p


def end(loop) -> None:
    """Note where the terms of a step end."""
    Term("end", reading=loop.reading).loop = loop
    loop.reading.closed.add(loop.step)


class Loop:
    """A loop while it is read, and then its description: step, count, down, the carried values and what it collects.

    shift: t of the body is the number of the step, from 1 on, minus it.
    """

    def __init__(self, count: SymInt, item, reading, frame, statement: ast.For, down: bool):
        self.count, self.item, self.reading, self.frame, self.down = count, item, reading, frame, down
        self.body = _Body(statement, reading.refuse)
        self.begun = self.peeled = False
        self.shift, self.first_term, self.initial = 1, len(reading.terms), dict(frame.f_locals)
        self.states: dict[str, Carried] = {}
        self.collected: list[Term] = []
        self.first_lengths: dict[str, int] = {}

    def __iter__(self):
        return self

    def __next__(self):
        if sys._getframe(1) is not self.frame:
            self.reading.refuse("a range of sizes is run by next(): write a `for` statement")
        if self.begun:
            self._close()
            raise StopIteration
        names, body = self.frame.f_locals, self.body
        stored = body.stored & names.keys()
        numbers = any(not isinstance(names[n], Tensor) for n in stored)
        used = [id(x._data) for n, x in names.items() if isinstance(x, Tensor) and n in body.loaded | stored]
        fresh = (body.stored - names.keys()) & body.later
        if not self.peeled and (numbers or len(set(used)) < len(used) or fresh) and self.count >= 1:
            self.peeled = True
            self.first_lengths = {n: len(names[n]) for n in body.lists}
            return self.item(self.count - 1 if self.down else 0)
        self._carry(dict(names))
        t = SymInt({(self.step,): 1}, self.reading)
        return self.item(t + 1 if self.peeled and not self.down else t)

    def _carry(self, before: dict):
        """Give each tensor among the local names the term of a carried value."""
        reading = self.reading
        self.begun, self.before, self.kept, objects = True, before, {}, {}
        for name in [n for n, x in before.items() if isinstance(x, Tensor) and n not in self.body.variables]:
            objects.setdefault(id(before[name]), []).append(name)
        begin(self, self.count - 1 if self.peeled else self.count)
        for names in objects.values():  # h = h0: the name that the body reads stands for the tensor
            used = [n for n in names if n in self.body.loaded | self.body.stored] or names[:1]
            if len(used) > 1:
                reading.refuse(f"{' and '.join(used)} are one tensor at the start of a loop: clone() one of them")
            x = before[used[0]]
            data, term = x._data, Term("carried", used[0])
            term.depends = term.on_tape = True
            term.inside = self
            own = SymbolicData(reading, term, data.shape, data.dtype, span_of(x))
            self.kept |= {n: (data, type(x), own) for n in names}
            x.__class__, x._data = SymbolicTensor, own
        self.lengths = {name: len(before[name]) for name in self.body.lists}
        held = (self.body.loaded | self.body.stored) - self.body.lists - self.body.variables
        self.held = {n: snapshot(x) for n, x in before.items() if n in held and not isinstance(x, Tensor)}
        reading.open_loops.append(self)

    def _close(self):
        reading, after = self.reading, dict(self.frame.f_locals)
        for name in [n for n, held in self.held.items() if snapshot(self.before[n]) != held]:
            reading.refuse(f"{name} is changed in a step: stack or add up tensors instead")
        for name, old in self.before.items():
            x = after.get(name)
            unchanged = x is old and (name not in self.kept or x._data is self.kept[name][2])
            if unchanged or name in self.body.lists or name in self.body.variables:
                continue
            if not isinstance(x, Tensor) or name not in self.kept:
                reading.refuse(
                    f"{name} changes from step to step and is no tensor from the start: begin with tt.zeros(())"
                )
            data, _, own = self.kept[name]
            fits = len(x.shape) == len(data.shape) and all(n == m for n, m in zip(x.shape, data.shape, strict=True))
            if not fits or x._data.dtype != data.dtype or data.dtype.kind in "iu":
                reading.refuse(f"{name} changes its shape or dtype from step to step, or is a whole number")
            state = self.states[name] = Carried(name, own.term, None, x._data)
            state.end = as_term(x)
        for name, x in after.items():  # what the user calls the results of a step
            term = getattr(x._data, "term", None) if isinstance(x, Tensor) else None
            if term is not None and term.name not in ("carried", "argument") and not term.label:
                term.label = name
        tensors = [after[name] for name in self.states]
        if len({id(x) for x in tensors}) < len(tensors):
            reading.refuse("two names of one tensor at the end of a step: clone() one of them")
        rows = {n: after[n] for n in self.body.lists}
        for name, collected in rows.items():
            if len(collected) != self.lengths[name] + 1 or not isinstance(collected[-1], Tensor):
                reading.refuse(f"{name} collects something else than one tensor in each step")
        ends = {name: collected[-1] for name, collected in rows.items()}
        row_terms = {name: (as_term(x), x.shape, x._data.dtype) for name, x in ends.items()}
        for name, (data, cls, own) in self.kept.items():  # the tensors from before the loop are themselves again
            x = self.before[name]
            x._data, x.__class__ = data, cls
            if name in self.states:
                self.states[name].start = as_term(x)
            elif own.term.name == "carried" and not any(own.term is s.term for s in self.states.values()):
                same = as_term(x)
                own.term.name, own.term.args = "same", (same,)
                own.term.depends = isinstance(same, Term) and same.depends
                own.term.on_tape = isinstance(same, Term) and same.on_tape
        reading.open_loops.pop()
        whole = self.peeled and self._takes_first_step(rows, row_terms)
        count = self.count if whole or not self.peeled else self.count - 1
        self.steps = count
        self.shift = 2 if whole and not self.down else 1
        for name, collected in rows.items():
            if whole:
                del collected[self.first_lengths[name]]
            collected[-1] = _rows(self, collected[-1], count, name in self.body.backward)
        end(self)
        for name, x in after.items():
            if name in self.states:
                state = self.states[name]
                state.final = Term("final", name)
                state.final.depends = state.final.on_tape = True
                x._data, x.__class__ = SymbolicData(reading, state.final, x.shape, x._data.dtype), SymbolicTensor
            elif (name not in self.before or name in self.body.variables) and isinstance(x, Tensor):
                x._data = LastStep(reading, Term("last", name), (), x._data.dtype)

    def _takes_first_step(self, rows: dict, row_terms: dict) -> bool:
        """Is the first step, which ran by itself, the body at t = 0 (or from the other end)? Then it is taken back."""
        at = constant(-1) if not self.down else add(self.count.p, constant(-1))
        initial = {}
        for name, state in self.states.items():
            if name not in self.initial:
                return False  # its first value is made in the first step
            first = self.initial[name]
            initial[name] = (as_term(first), state.start)
            if not isinstance(first, Tensor | int | float):
                return False
        known = {id(state.term): initial[name][0] for name, state in self.states.items()}
        pairs = [(state.end, initial[name][1]) for name, state in self.states.items()]
        pairs += [(row_terms[n][0], as_term(collected[self.first_lengths[n]])) for n, collected in rows.items()]
        matched = _Match(self.step, at, known)
        if not all(matched.same(body, first) for body, first in pairs):
            return False
        terms = self.reading.terms
        begin = next(n for n, term in enumerate(terms) if getattr(term, "loop", None) is self)
        del terms[self.first_term : begin]
        for name, state in self.states.items():
            state.start = initial[name][0]
        return True


class _Match:
    """Is a term the one that another becomes, with a number for a step and other terms for the carried values?"""

    def __init__(self, step: str, at: dict, known: dict[int, object]):
        self.step, self.at, self.known, self.pairs = step, at, known, {}

    def same(self, body, first) -> bool:
        if isinstance(body, Term):
            if id(body) in self.known:
                return _equal(self.known[id(body)], first)
            if body is first:
                return True
            if not isinstance(first, Term):
                return (value := self._number(body)) is not None and _equal(value, first)
            if body.name == "same":
                return self.same(body.args[0], first)
            if (id(body), id(first)) not in self.pairs:
                alike = (body.name, len(body.args), body.op) == (first.name, len(first.args), first.op)
                self.pairs[id(body), id(first)] = alike and all(map(self.same, body.args, first.args))
            return self.pairs[id(body), id(first)]
        if type(body) is SymInt:
            p = self._put(body.p)
            q = first.p if type(first) is SymInt else constant(first) if type(first) is int else None
            return p == q
        if isinstance(body, tuple):
            return isinstance(first, tuple) and len(body) == len(first) and all(map(self.same, body, first))
        if isinstance(body, slice):
            parts = [[s.start, s.stop, s.step] for s in (body, first)] if isinstance(first, slice) else ([0], [1])
            return all(map(self.same, *parts))
        return _equal(body, first)

    def _number(self, body):
        """What Python computes in the first step, where the state is a number: 0.5 * 0.0."""
        args = [self.known.get(id(a), a) if isinstance(a, Term) else a for a in body.args]
        args = [self._number(a) if isinstance(a, Term) else a for a in args]
        if body.name in NUMBERS and all(type(a) in (int, float) for a in args):
            return NUMBERS[body.name](*args)
        return None

    def _put(self, p: dict) -> dict:
        result: dict = {}
        for m, c in p.items():
            term = {tuple(n for n in m if n != self.step): c}
            for _ in range(m.count(self.step)):
                term = multiply(term, self.at)
            result = add(result, term)
        return result


def _equal(one, other) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        arrays = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        return arrays and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, Term) or isinstance(other, Term):
        return one is other
    if type(one) is SymFloat:
        return type(other) is SymFloat and one.expr == other.expr
    return type(one) is type(other) and one == other


# ------------------------------------------------------------------------------------------------ comprehensions


class Comprehension:
    """sum(... for t in range(N)), or stack([... for t in range(N)]): the item of one step."""

    def __init__(self, count: SymInt, item, reading, node: ast.GeneratorExp | ast.ListComp, down: bool, frame):
        self.count = self.steps = count
        self.item, self.reading, self.down, self.shift = item, reading, down, 1
        self.states: dict[str, Carried] = {}
        self.collected: list[Term] = []
        self.step, self.begun, self.generator = "", False, isinstance(node, ast.GeneratorExp)
        names = _names([node.elt], ast.Load) & frame.f_locals.keys() - _names([node], ast.Store)
        self.used = {name: frame.f_locals[name] for name in names}
        self.held = {name: snapshot(x) for name, x in self.used.items()}
        call = node.parent
        name = getattr(call.func, "attr", getattr(call.func, "id", "")) if isinstance(call, ast.Call) else ""
        direct = isinstance(call, ast.Call) and call.args[:1] == [node]
        inner = [n for n in ast.walk(node.elt) if isinstance(n, ast.NamedExpr | ast.Await | ast.Yield)]
        if len(node.generators) > 1 or node.generators[0].ifs or inner:
            reading.refuse("a comprehension over a size with a condition, or with two loops: write a `for` statement")
        if not direct or name not in ({"sum"} if self.generator else JOINS):
            reading.refuse(
                "a comprehension over a size that is not in sum(), stack() or cat(): write a `for` statement"
            )

    def __iter__(self):
        return self

    def __next__(self):
        reading = self.reading
        if self.begun:
            self._end()
            raise StopIteration
        self.begun = True
        begin(self, self.count)
        reading.open_loops.append(self)
        return self.item(SymInt({(self.step,): 1}, reading))

    def _end(self) -> None:
        reading = self.reading
        for name in [n for n, x in self.used.items() if snapshot(x) != self.held[n]]:
            reading.refuse(f"{name} is changed in a step: stack or add up tensors instead")
        reading.open_loops.pop()
        end(self)
        if not self.generator:
            reading.comprehensions.append(self)

    def rows(self, items) -> list:
        """The items of all steps, for stack() and cat()."""
        if len(items) != 1:
            self.reading.refuse(
                "a comprehension over a size that is not in sum(), stack() or cat(): write a `for` statement"
            )
        return [_rows(self, items[0], self.count, False)]

    def total(self, item, start):
        """The sum of the items of all steps."""
        reading = self.reading
        if not isinstance(item, Tensor):
            reading.refuse("a sum over a size of items that are no tensors: use tt.arange()")
        y = item._data
        carried = Term("carried", "s")
        carried.depends, carried.on_tape, carried.inside = True, True, self
        state = self.states["s"] = Carried(
            "s", carried, as_term(start), SymbolicData(reading, carried, y.shape, y.dtype)
        )
        state.end = Term("add", carried, as_term(item), op=OPS["add"], reading=reading)
        self._end()
        state.final = Term("final", "s")
        state.final.depends = True
        state.final.on_tape = getattr(as_term(item), "on_tape", False)
        return tensor_of(SymbolicData(reading, state.final, y.shape, y.dtype))


def _rows(loop, item, count, backward: bool) -> SymbolicTensor:
    term = Term("rows", as_term(item))
    term.loop, term.row_ndim, term.backward = loop, len(item.shape), backward
    loop.collected.append(term.args[0])
    return tensor_of(Rows(loop.reading, term, SymbolicData(loop.reading, term, item.shape, item._data.dtype), count))


def sum_type(plain, reading):
    """sum(), also of a generator over a symbolic size."""

    def function(items, /, start=0):
        if not isinstance(items, types.GeneratorType):
            return plain(items, start)
        opened = len(reading.open_loops)
        for first in items:
            if len(reading.open_loops) > opened and isinstance(reading.open_loops[-1], Comprehension):
                result = reading.open_loops[-1].total(first, start)
                items.close()
                return result
            return plain(items, start + first)
        return start

    return function

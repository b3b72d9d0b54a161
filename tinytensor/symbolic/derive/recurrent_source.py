"""The program in NumPy of a derivation with loops: a `for` forward, and one backward for the adjoints."""

from collections.abc import Iterable

from sympy import Expr, Indexed, S, Symbol

from tinytensor.symbolic.derive.recurrences import Recurrence
from tinytensor.symbolic.derive.source import Source
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, Index
from tinytensor.symbolic.index_calculus.numpy_printer import NumPyPrinter, line, wrap_terms
from tinytensor.symbolic.reading.errors import NotDerivable


class _AtStep(Array):
    """An array at one step of a loop, x[t], whose name is its code."""


class _SymbolAtStep(Symbol):
    """A number at one step of a loop, and the step itself, whose name is its code."""


class RecurrentSource(Source):
    """The text of a program with loops."""

    @property
    def recurrences(self) -> list[Recurrence]:
        return self.derived.recurrences

    def _needed_lines(self) -> list[Definition]:
        """All lines; those of the states' adjoints have δ on the left."""
        adjoints = self.derived.adjoints
        for r in self.recurrences:
            adjoints = r.lines_of_adjoints(adjoints)
        self.backward = list(adjoints.values())
        return [*self.derived.forward, *self.backward]

    def code_name(self, one: Name) -> str:
        """The name of an array in the code of one step."""
        return str(getattr(one, "label", one)) if isinstance(one, _AtStep | _SymbolAtStep) else self.identifier(one)

    # ------------------------------------------------------------------------------------------------ one step

    def at_step(self, expr: Expr, step: Index) -> Expr:
        """The expression at one step, in arrays such as x[t]."""
        change = {}
        for e in expr.atoms(Indexed):
            if not any(S(i).has(step) for i in e.indices):
                continue
            if any(S(i).has(Indexed) for i in e.indices):
                raise NotDerivable(
                    "derive: a table of indices is read inside of a loop over a size; read it before the loop, for all "
                    "steps at once"
                )
            key, rest, sizes = [], [], []
            for i, n in zip(e.indices, e.base.sizes, strict=True):
                if S(i).has(step):
                    key.append(self._number(S(i).xreplace({step: step + 1}) - 1, step))
                else:
                    key.append(":")
                    rest.append(i)
                    sizes.append(n)
            while key[-1] == ":":
                key.pop()
            code = f"{self.code_name(e.base)}[{', '.join(key)}]"
            change[e] = _AtStep(code, tuple(sizes))[tuple(rest)] if rest else _SymbolAtStep(code, real=True)
        expr = expr.xreplace(change)
        return expr.xreplace({step: _SymbolAtStep(f"({step.name} + 1)", integer=True, positive=True)})

    def _number(self, expr: Expr, step: Index) -> str:
        name = _SymbolAtStep(step.name, integer=True, positive=True)
        return NumPyPrinter(self.code_name, self.identifier).number(S(expr).expand().xreplace({step: name})).text

    def _line_at_step(self, one: Definition, step: Index) -> str:
        """The line at one step: h[t] = ..."""
        writer = NumPyPrinter(self.code_name, self.identifier, self._order())
        left, right = (self.at_step(e, step) for e in (one.left, one.right))
        axes = left.indices if isinstance(left, Indexed) else ()
        return f"{left.base.label if axes else left} = {writer.whole(right, axes)}"

    def _empty(self, name: Array, value: str = "empty") -> str:
        return f"{self.identifier(name)} = np.{value}(({self._shape(name.sizes)}{',' * (len(name.sizes) == 1)}))"

    def _whole_line(self, one: Definition) -> list[str]:
        shape = f"  # ({self._shape(one.name.sizes)})" if isinstance(one.name, Array) else ""
        *before, last = wrap_terms(line(one, self.printer), 110)
        return [*before, last + shape]

    # ------------------------------------------------------------------------------------------------ the text

    def _body(self) -> list[str]:
        lines = self._arguments_lines()
        made: set = set()
        waiting = list(self.derived.forward)
        by_step = {r.step: r for r in self.recurrences}
        while waiting:
            one = waiting[0]
            loop = by_step.get(one.left.indices[0]) if isinstance(one.left, Indexed) else None
            read = names_in(one.right)  # a line that reads the states comes after their loop
            loop = loop or next((r for r in self.recurrences if any(s.before in read for s in r.states)), None)
            own = [x for x in waiting if loop and isinstance(x.left, Indexed) and x.left.indices[0] == loop.step]
            for line_ in own or [one]:
                lines += self._constant_lines(line_, made)
            if own:
                lines += self._forward_loop(loop, own)
                waiting = [x for x in waiting if x not in own]
            else:
                lines += self._whole_line(waiting.pop(0))
        lines += ["", *self._upstream()]
        return [*lines, *self._backward(), "", *self._results()]

    def _arguments_lines(self) -> list[str]:
        lines = self._size_lines()
        for name, a in self.arguments.items():
            if any(len(dim) != 1 for dim in a.dims):
                lines.append(f"{name} = {name}.reshape({self._shape(a.sizes) or '()'})")
        for array in self.recorded:
            if isinstance(array, Array):
                lines.append(f"{self.identifier(array)} = {self.identifier(array)}.reshape({self._shape(array.sizes)})")
        return [*lines, ""]

    def _constant_lines(self, one: Definition, made: set) -> list[str]:
        new = [c for c in self.constants if c in names_in(one.right) and c not in made and c not in self.recorded]
        made.update(new)
        return [self._chosen_line(c) for c in new]

    def _forward_loop(self, loop: Recurrence, own: list[Definition]) -> list[str]:
        n = self.printer.number(loop.count).text
        lines = [self._empty(x.name) for x in own]
        writer = NumPyPrinter(self.identifier, self.identifier, self._order())
        for state in loop.states:
            name = self.identifier(state.before)
            sizes = (loop.count + 1, *state.before.sizes[1:])
            lines.append(f"{name} = np.empty(({self._shape(sizes)}{',' * (len(sizes) == 1)}))")
            indices = state.initial.indices([loop.step])
            first = writer.whole(S(state.initial.entry(*indices)), tuple(indices))
            lines.append(f"{name}[{n if loop.down else 0}] = {first}")
        lines.append(f"for {loop.step.name} in {f'reversed(range({n}))' if loop.down else f'range({n})'}:")
        t = loop.step.name
        changed = {state.before: state.before for state in loop.states}
        for one in own:
            right = one.right
            if loop.down:  # the array of the code has the state before step t at t + 1
                at = {e for e in right.atoms(Indexed) if e.base in changed}
                right = right.xreplace({e: Indexed(e.base, e.indices[0] + 1, *e.indices[1:]) for e in at})
            lines.append("    " + self._line_at_step(Definition(one.left, right), loop.step))
        for state in loop.states:
            after = t if loop.down else f"{t} + 1"
            lines.append(f"    {self.identifier(state.before)}[{after}] = {self.identifier(state.out)}[{t}]")
        for state in loop.states:
            name = self.identifier(state.before)
            lines.append(f"{self.identifier(state.final)} = {name}[{0 if loop.down else n}]")
            part = "1:" if loop.down else ":-1"
            lines.append(f"{name} = {name}[{part}]")
        return lines

    def _backward(self) -> list[str]:
        lines: list[str] = []
        waiting = list(self.backward)
        loops = list(reversed(self.recurrences))
        names = {x.name for x in waiting}
        done: set[Name] = set()

        def ready(one: Definition, besides: Iterable[Name] = ()) -> bool:
            return not ((names_in(one.right) & names) - done - {*besides})

        while waiting:
            own = {a for r in loops for a in r.adjoints}
            now = [x for x in waiting if x.name not in own and ready(x)]
            if now:
                lines += self._whole_line(now[0])
                done.add(now[0].name)
                waiting.remove(now[0])
                continue
            if not loops:
                raise NotDerivable("derive: the adjoints of the loops depend on one another in a circle")
            loop = loops.pop(0)
            lines += self._backward_loop(loop, waiting, ready, done)
        return lines

    def _backward_loop(self, loop: Recurrence, waiting: list[Definition], ready, done: set[Name]) -> list[str]:
        """The loop for δ, and for the adjoints of one step that lead to it."""
        n, t = self.printer.number(loop.count).text, loop.step.name
        lasts = [x for x in waiting if x.name in loop.adjoints and not x.left.indices[0].has(Index)]
        steps = [x for x in waiting if x.name in loop.adjoints and x.left.indices[0].has(Index)]
        lines, inside = [], []
        for one in lasts:
            lines.append(self._empty(one.name))
            indices = one.left.indices[1:]
            at = self.printer.number(one.left.indices[0] - 1).text
            lines.append(f"{self.identifier(one.name)}[{at}] = {self.printer.whole(one.right, indices)}")
        needed, queue = set(), list(steps)
        while queue:
            one = queue.pop()
            for x in waiting:
                if x.name in names_in(one.right) and x.name not in loop.adjoints and x.name not in needed:
                    needed.add(x.name)
                    queue.append(x)
        rest = [x for x in waiting if x.name in needed]
        known: set[Name] = set(loop.adjoints)
        while rest:
            one = next((x for x in rest if ready(x, known) and _has_steps(x, loop)), None)
            if one is None:
                raise NotDerivable("derive: the adjoint of a loop needs a sum over all of its steps at each step")
            rest.remove(one)
            known.add(one.name)
            inside.append(one)
        lines += [self._empty(x.name) for x in inside]
        lines.append(f"for {t} in {f'range({n})' if loop.down else f'reversed(range({n}))'}:")
        for one in inside:
            lines.append("    " + self._line_at_step(self._with_step(one, one.left.indices[0], loop), loop.step))
        for one in steps:
            (index,) = one.left.indices[0].atoms(Index)
            lines.append("    " + self._line_at_step(self._with_step(one, index, loop), loop.step))
        done.update(x.name for x in (*inside, *steps))
        for one in (*lasts, *steps, *inside):
            waiting.remove(one)
        return lines

    def _with_step(self, one: Definition, index: Index, loop: Recurrence) -> Definition:
        """The line with the loop's own index for the step."""
        return Definition(one.left.xreplace({index: loop.step}), one.right.xreplace({index: loop.step}))


def _has_steps(one: Definition, loop: Recurrence) -> bool:
    """Has the line an entry for each step of the loop?"""
    return isinstance(one.left, Indexed) and getattr(one.left.indices[0], "size", 0) == loop.count

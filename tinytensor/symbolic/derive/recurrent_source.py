"""The program in NumPy of a derivation with loops: a `for` forward, and one backward for the adjoints."""

from collections.abc import Iterable, Sequence

from sympy import Expr, Indexed, S, Symbol

from tinytensor.symbolic.derive.adjoints import reachable
from tinytensor.symbolic.derive.recurrences import Recurrence
from tinytensor.symbolic.derive.source import Source
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size
from tinytensor.symbolic.index_calculus.numpy_printer import label
from tinytensor.symbolic.reading.errors import NotDerivable


class _AtStep(Array):
    """An array at one step of a loop, x[t], whose name is its code."""


class _SymbolAtStep(Symbol):
    """A number at one step of a loop, and the step itself, whose name is its code."""


class RecurrentSource(Source):
    """The text of a program with loops."""

    def _needed_lines(self) -> list[Definition]:
        """All lines; those of the states' adjoints have δ on the left."""
        adjoints = self.derived.adjoints
        for r in self.derived.recurrences:
            adjoints = r.lines_of_adjoints(adjoints)
        return [*self.derived.forward, *adjoints.values()]

    def identifier(self, name: Name | Size) -> str:
        """The name in code; what stands at one step of a loop is its own code."""
        return label(name) if isinstance(name, _AtStep | _SymbolAtStep) else super().identifier(name)

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
            key, indices, sizes = [], [], []
            for i, n in zip(e.indices, e.base.sizes, strict=True):
                if S(i).has(step):
                    key.append(self._number(S(i).xreplace({step: step + 1}) - 1, step))
                else:
                    key.append(":")
                    indices.append(i)
                    sizes.append(n)
            while key[-1] == ":":
                key.pop()
            code = f"{self.identifier(e.base)}[{', '.join(key)}]"
            change[e] = _AtStep(code, tuple(sizes))[tuple(indices)] if indices else _SymbolAtStep(code, real=True)
        expr = expr.xreplace(change)
        return expr.xreplace({step: _SymbolAtStep(f"({step.name} + 1)", integer=True, positive=True)})

    def _number(self, expr: Expr, step: Index) -> str:
        name = _SymbolAtStep(step.name, integer=True, positive=True)
        return self.printer.number(S(expr).expand().xreplace({step: name})).text

    def _line_at_step(self, line: Definition, step: Index) -> str:
        """The line at one step: h[t] = ..."""
        left, right = (self.at_step(e, step) for e in (line.left, line.right))
        axes = left.indices if isinstance(left, Indexed) else ()
        return f"{left.base.label if axes else left} = {self.printer.whole(right, axes)}"

    def _empty(self, name: str, sizes: Sequence[Expr]) -> str:
        return f"{name} = np.empty(({self._shape(sizes)}{',' * (len(sizes) == 1)}))"

    # ------------------------------------------------------------------------------------------------ the text

    def _forward(self, lines: list[Definition]) -> list[str]:
        code: list[str] = []
        waiting = list(lines)
        by_step = {r.step: r for r in self.derived.recurrences}
        while waiting:
            first = waiting[0]
            loop = by_step.get(first.left.indices[0]) if isinstance(first.left, Indexed) else None
            read = names_in(first.right)  # a line that reads the states comes after their loop
            loop = loop or next((r for r in self.derived.recurrences if any(s.before in read for s in r.states)), None)
            inside = [x for x in waiting if loop and isinstance(x.left, Indexed) and x.left.indices[0] == loop.step]
            if inside:
                code += [needed for x in inside for needed in self._needed_by(x)]
                code += self._forward_loop(loop, inside)
            else:
                code += self._whole_line(first)
            waiting = [x for x in waiting if x not in (inside or [first])]
        return code

    def _forward_loop(self, loop: Recurrence, inside: list[Definition]) -> list[str]:
        n = self.printer.number(loop.count).text
        lines = [self._empty(self.identifier(x.name), x.name.sizes) for x in inside]
        for state in loop.states:
            name = self.identifier(state.before)
            lines.append(self._empty(name, (loop.count + 1, *state.before.sizes[1:])))
            indices = state.indices
            first = self.printer.whole(S(state.initial.entry(*indices)), tuple(indices))
            lines.append(f"{name}[{n if loop.down else 0}] = {first}")
        lines.append(f"for {loop.step.name} in {f'reversed(range({n}))' if loop.down else f'range({n})'}:")
        t = loop.step.name
        states = {state.before for state in loop.states}
        for line in inside:
            right = line.right
            if loop.down:  # the array of the code has the state before step t at t + 1
                entries = {e for e in right.atoms(Indexed) if e.base in states}
                right = right.xreplace({e: Indexed(e.base, e.indices[0] + 1, *e.indices[1:]) for e in entries})
            lines.append("    " + self._line_at_step(Definition(line.left, right), loop.step))
        for state in loop.states:
            after = t if loop.down else f"{t} + 1"
            lines.append(f"    {self.identifier(state.before)}[{after}] = {self.identifier(state.out)}[{t}]")
        for state in loop.states:
            name = self.identifier(state.before)
            lines.append(f"{self.identifier(state.final)} = {name}[{0 if loop.down else n}]")
            part = "1:" if loop.down else ":-1"
            lines.append(f"{name} = {name}[{part}]")
        return lines

    def _backward(self, lines: list[Definition]) -> list[str]:
        code: list[str] = []
        waiting = list(lines)
        loops = list(reversed(self.derived.recurrences))
        names = {x.name for x in waiting}
        done: set[Name] = set()

        def ready(line: Definition, besides: Iterable[Name] = ()) -> bool:
            return not ((names_in(line.right) & names) - done - {*besides})

        while waiting:
            of_states = {a for r in loops for a in r.adjoints}
            now = [x for x in waiting if x.name not in of_states and ready(x)]
            if now:
                code += self._whole_line(now[0])
                done.add(now[0].name)
                waiting.remove(now[0])
                continue
            if not loops:
                raise NotDerivable("derive: the adjoints of the loops depend on one another in a circle")
            loop = loops.pop(0)
            code += self._backward_loop(loop, waiting, ready, done)
        return code

    def _backward_loop(self, loop: Recurrence, waiting: list[Definition], ready, done: set[Name]) -> list[str]:
        """The loop for δ, and for the adjoints of one step that lead to it."""
        n, t = self.printer.number(loop.count).text, loop.step.name
        of_states = [x for x in waiting if x.name in loop.adjoints]
        lasts = [x for x in of_states if not x.left.indices[0].has(Index)]
        steps = [x for x in of_states if x not in lasts]
        inside = _in_order(loop, waiting, steps, ready)
        lines = [needed for x in (*lasts, *inside, *steps) for needed in self._needed_by(x)]
        for x in lasts:
            lines.append(self._empty(self.identifier(x.name), x.name.sizes))
            last = self.printer.number(x.left.indices[0] - 1).text
            lines.append(f"{self.identifier(x.name)}[{last}] = {self.printer.whole(x.right, x.left.indices[1:])}")
        lines += [self._empty(self.identifier(x.name), x.name.sizes) for x in inside]
        lines.append(f"for {t} in {f'range({n})' if loop.down else f'reversed(range({n}))'}:")
        for x in (*inside, *steps):
            (index,) = x.left.indices[0].atoms(Index)
            with_step = Definition(*(side.xreplace({index: loop.step}) for side in (x.left, x.right)))
            lines.append("    " + self._line_at_step(with_step, loop.step))
        done.update(x.name for x in (*inside, *steps))
        waiting[:] = [x for x in waiting if x not in (*of_states, *inside)]
        return lines


def _in_order(loop: Recurrence, waiting: list[Definition], steps: list[Definition], ready) -> list[Definition]:
    """The lines that lead to those of the states' adjoints, each after those that it uses."""
    known: set[Name] = set(loop.adjoints)
    lines = {x.name: x for x in waiting if x.name not in known}
    left = list(reachable(lines, [n for x in steps for n in names_in(x.right)]).values())
    result: list[Definition] = []
    while left:
        line = next((x for x in left if ready(x, known) and _has_steps(x, loop)), None)
        if line is None:
            raise NotDerivable("derive: the adjoint of a loop needs a sum over all of its steps at each step")
        left.remove(line)
        known.add(line.name)
        result.append(line)
    return result


def _has_steps(line: Definition, loop: Recurrence) -> bool:
    """Has the line an entry for each step of the loop?"""
    return isinstance(line.left, Indexed) and getattr(line.left.indices[0], "size", 0) == loop.count

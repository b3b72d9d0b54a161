"""Lines of a program in NumPy, and its loops: a `for` forward, and one backward for the adjoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sympy import Expr, Indexed, S, Symbol

from tinytensor.symbolic.derive.adjoints import reachable
from tinytensor.symbolic.index_calculus.adjoints import Name, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, Index
from tinytensor.symbolic.index_calculus.numpy_printer import NumPyPrinter
from tinytensor.symbolic.reading.errors import NotDerivable


class ArrayAtStep(Array):
    """An array at one step of a loop, x[t], whose name is its code."""


class SymbolAtStep(Symbol):
    """A number at one step of a loop, and the step itself, whose name is its code."""


class CodeLine(NamedTuple):
    """A line of the program: the entry that it defines, and a formula whose array `code` has for {}."""

    left: Expr
    right: Expr
    axes: Sequence[Index]  # of the formula's array
    code: str = "{}"

    @property
    def name(self) -> Name:
        return name_of(self.left)


@dataclass
class CodeLoop:
    """A loop that computes arrays, one of which has a first entry and one for each step."""

    step: Index
    count: Expr
    down: bool
    arrays: Sequence[Array]

    def parts(self, waiting: list[CodeLine]) -> tuple[list[CodeLine], list[CodeLine]]:
        """Of the lines that have no code: the first entries, and what a step computes, in order.

        A step computes the entries of the arrays, and the lines that lead to these, each after those that it uses.
        """
        of_arrays = [x for x in waiting if x.name in self.arrays]
        firsts = [x for x in of_arrays if not x.left.indices[0].has(Index)]
        steps = [x for x in of_arrays if x not in firsts]
        lines = {x.name: x for x in waiting if x.name not in self.arrays}
        left = [*reachable(lines, [n for x in steps for n in names_in(x.right)]).values()]
        inside: list[CodeLine] = []
        while left:
            names = {x.name for x in left}
            line = next((x for x in left if not names_in(x.right) & names and self._has_steps(x)), None)
            if line is None:
                raise NotDerivable("derive: the adjoint of a loop needs a sum over all of its steps at each step")
            left.remove(line)
            inside.append(line)
        return firsts, [*inside, *steps]

    def _has_steps(self, line: CodeLine) -> bool:
        """Has the line an entry for each step of the loop?"""
        return isinstance(line.left, Indexed) and getattr(line.left.indices[0], "size", 0) == self.count

    def code(self, firsts: list[CodeLine], steps: list[CodeLine], printer: NumPyPrinter) -> list[str]:
        """The code of what `parts` gives."""
        lines = []
        for x in (*firsts, *(x for x in steps if x.name not in self.arrays)):
            shape = ", ".join(printer.piece(S(n)).text for n in x.name.sizes)
            lines.append(f"{printer.name(x.name)} = np.empty(({shape}{',' * (len(x.name.sizes) == 1)}))")
        for x in firsts:
            first = printer.piece(x.left.indices[0] - 1).text
            lines.append(f"{printer.name(x.name)}[{first}] = {printer.whole(x.right, x.left.indices[1:])}")
        numbers = f"range({printer.piece(self.count).text})"
        lines.append(f"for {self.step.name} in {f'reversed({numbers})' if self.down else numbers}:")
        return [*lines, *("    " + self._line(x, printer) for x in steps)]

    def _line(self, line: CodeLine, printer: NumPyPrinter) -> str:
        """The line at one step: h[t] = ..."""
        (index,) = line.left.indices[0].atoms(Index)
        left, right = (self._at_step(e.xreplace({index: self.step}), printer) for e in (line.left, line.right))
        axes = left.indices if isinstance(left, Indexed) else ()
        return f"{left.base.label if axes else left} = {printer.whole(right, axes)}"

    def _at_step(self, expr: Expr, printer: NumPyPrinter) -> Expr:
        """The expression at one step, in arrays such as x[t]; those in an index of another one come first."""
        while entries := [e for e in expr.atoms(Indexed) if e.has(self.step)]:
            inner = [e for e in entries if not any(S(i).has(*entries) for i in e.indices)]
            expr = expr.xreplace({e: self._entry(e, printer) for e in inner})
        return expr.xreplace({self.step: SymbolAtStep(f"({self.step.name} + 1)", integer=True, positive=True)})

    def _entry(self, entry: Indexed, printer: NumPyPrinter) -> Expr:
        """An entry at one step; that of a table of indices counts from 0 in code."""
        step = SymbolAtStep(self.step.name, integer=True, positive=True)
        numbers = [(S(i).xreplace({self.step: step + 1}) - 1).expand() for i in entry.indices]
        key = [printer.piece(n).text if n.has(step) else ":" for n in numbers]
        while key[-1] == ":":
            key.pop()
        code, values = f"{printer.name(entry.base)}[{', '.join(key)}]", entry.base.values
        others = [(n, i) for n, i in zip(entry.base.sizes, entry.indices, strict=True) if not S(i).has(self.step)]
        if not others:
            symbol = SymbolAtStep(code, real=True, integer=values is not None or None)
            return symbol if values is None else symbol + 1
        sizes, indices = zip(*others, strict=True)
        return Indexed(ArrayAtStep(code, sizes, values=values), *indices)

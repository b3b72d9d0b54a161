"""The adjoint of a recurrence: a recurrence that runs the other way.

A loop (loops.py) with the states h has, for each of them, the adjoint δ, an array with one entry more than steps:

    h_0 = initial,  h_t = out_t = f(h_(t-1), x_t, W),  final = h_n
    δ_n = ∂𝓛/∂final,  ∂𝓛/∂h_t = δ_t + what reaches h_t otherwise,  δ_(t-1) = Σ ∂f_t/∂h_(t-1) ∂𝓛/∂h_t

δ_t is what reaches h_t through later steps and the final value. The lines of one step are differentiated as all other
lines are. To that end the program gets one more line for each loop, its link, whose adjoint is 1:

    link = Σ initial δ_0 + Σ_t Σ out_t δ_t

The states before a step, and the final ones, are parameters of that program. Its derivatives by them are the right
sides of the recurrence of δ, and its derivatives by all other names are their adjoints: this is the chain rule for the
steps one after the other, by induction over the steps.
"""

from collections.abc import Callable, Iterator, Sequence

from sympy import Add, Expr, Indexed, S, Symbol

from tinytensor.symbolic.derive.loops import Loop, State
from tinytensor.symbolic.derive.values import Lines
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d
from tinytensor.symbolic.index_calculus.formulas import Array, Index, total
from tinytensor.symbolic.index_calculus.notation import name_tex


class Recurrence:
    """The adjoints of the states of a loop, and the link between its steps."""

    def __init__(self, loop: Loop, lines: Lines):
        self.loop, self.step, self.count, self.down = loop, loop.step, loop.count, loop.down
        self.states: list[State] = loop.states
        self.link = Symbol(lines.unused("link"), real=True)
        self.adjoints: list[Array] = []
        self.sequences: list[Array] = []  # in code: all values of a state, the initial one among them
        for state in self.states:
            name = str(state.out.label)
            self.sequences.append(Array(lines.unused(f"{name}_states"), (self.count + 1, *state.out.sizes[1:])))
            plain = lines.unused("δ" if len(self.states) == 1 else f"δ_{name}")
            sizes = (self.count + 1, *state.out.sizes[1:])
            label = {} if len(self.states) == 1 else {"text": f"δ{name}", "tex": rf"\delta {name_tex(name)}"}
            self.adjoints.append(Array(plain, sizes, **label))

    @property
    def entries(self) -> list[Expr]:
        """The parameters: the states before step t, and the final ones."""
        result = []
        for state in self.states:
            indices = state.indices
            result += [state.before[(Index("t", self.count), *indices)], state.final_at(indices)]
        return result

    def position(self, t: Expr, after: bool) -> Expr:
        """The index of δ for the state before or after step t."""
        return t + (1 if after != self.down else 0)

    def at_end(self, final: bool) -> Expr:
        """The index of δ for the final or the initial state."""
        return self.count + 1 if final != self.down else 1

    @property
    def definition(self) -> Definition:
        """link = Σ initial δ_0 + Σ_t Σ out_t δ_t."""
        terms = []
        for state, adjoint in zip(self.states, self.adjoints, strict=True):
            indices = state.indices
            first = Indexed(adjoint, self.at_end(False), *indices)  # there are 0 steps or more: a condition of the loop
            terms.append(total(state.initial.entry(*indices) * first, *indices))
            after = adjoint[(self.position(self.step, True), *indices)]
            terms.append(total(state.out[(self.step, *indices)] * after, self.step, *indices))
        return Definition(self.link, Add(*terms))

    def lines_of_adjoints(self, adjoints: dict[Name, Definition]) -> dict[Name, Definition]:
        """The adjoints with δ on the left for those of the states."""
        changed = {}
        for state, adjoint in zip(self.states, self.adjoints, strict=True):
            line = adjoints[d(state.before)]
            t, *indices = line.left.indices
            changed[line.name] = Definition(adjoint[(self.position(t, False), *indices)], line.right)
            line = adjoints[d(state.final)]
            indices = getattr(line.left, "indices", ())
            changed[line.name] = Definition(Indexed(adjoint, self.at_end(True), *indices), line.right)
        return {name: changed.get(name, line) for name, line in adjoints.items()}

    def lines_of_states(self) -> Iterator[Definition]:
        """The lines in code of all values of the states, and of those after the loop."""
        for state, sequence in zip(self.states, self.sequences, strict=True):
            indices = state.indices
            yield Definition(Indexed(sequence, self.at_end(False), *indices), S(state.initial.entry(*indices)))
            after = sequence[(self.position(self.step, True), *indices)]
            yield Definition(after, state.out[(self.step, *indices)])
            t = Index("t", self.count)
            yield Definition(state.before[(t, *indices)], sequence[(self.position(t, False), *indices)])
            yield Definition(state.final_at(indices), Indexed(sequence, self.at_end(True), *indices))

    def in_code(self, expr: Expr) -> Expr:
        """An expression with entries of those for the states before a step and after the loop."""
        return self._in_arrays(expr, self.sequences, lambda t: self.position(t, False), self.at_end(True))

    def shown(self, expr: Expr) -> Expr:
        """An expression as it is printed: h_(t-1) for the state before step t, and δ_t for what reaches h_t."""
        last, back, shift = (1, 1, 0) if self.down else (self.count, -1, -1)
        deltas = [e for e in expr.atoms(Indexed) if e.base in self.adjoints]
        expr = expr.xreplace({e: Indexed(e.base, e.indices[0] + shift, *e.indices[1:]) for e in deltas})
        return self._in_arrays(expr, [state.out for state in self.states], lambda t: t + back, last)

    def _in_arrays(self, expr: Expr, arrays: Sequence[Array], before: Callable[[Expr], Expr], final: Expr) -> Expr:
        """An expression with entries of these arrays for the states before a step and after the loop."""
        change = {}
        for state, array in zip(self.states, arrays, strict=True):
            for e in expr.atoms(Indexed):
                if e.base == state.before:
                    change[e] = Indexed(array, before(e.indices[0]), *e.indices[1:])
                elif e.base == state.final:
                    change[e] = Indexed(array, final, *e.indices)
            if isinstance(state.final, Symbol):
                change[state.final] = Indexed(array, final)
        return expr.xreplace(change)


def as_shown(expr: Expr, recurrences: Sequence[Recurrence]) -> Expr:
    """An expression as it is printed; see Recurrence.shown."""
    for r in recurrences:
        expr = r.shown(expr)
    return expr


def first_values(left: Expr, recurrences: Sequence[Recurrence]) -> list[tuple[Expr, Expr]]:
    """Where the line is that of a state: the state before the first step, and its value, to be printed behind it."""
    for r in recurrences:
        for state in r.states:
            if isinstance(left, Indexed) and left.base == state.out:
                indices, first = left.indices[1:], r.count + 1 if r.down else 0
                return [(Indexed(state.out, first, *indices), as_shown(state.initial.entry(*indices), recurrences))]
    return []

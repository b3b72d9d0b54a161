"""The result of `derive`: formulas, their proof, and the program that computes them."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from sympy import Expr, Indexed

from tinytensor.symbolic.calculus.adjoints import Definition, Name, d
from tinytensor.symbolic.calculus.notation import equation, equation_tex
from tinytensor.symbolic.derive.deriving import Derived, derive_lines
from tinytensor.symbolic.derive.source import Source, evaluate


class Formula:
    """A line of a derivation: `left` = `right`, in index notation."""

    def __init__(self, line: Definition, names: Sequence[Name] = ()):
        self.left: Expr = line.left
        self.right: Expr = line.right
        self.names = tuple(names)

    def __str__(self) -> str:
        return equation(self.left, self.right, self.names)

    __repr__ = __str__

    def latex(self) -> str:
        """The formula as LaTeX, without dollar signs."""
        return equation_tex(self.left, self.right, self.names)

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"


class Derivation:
    """The gradients of a function for any size, with their proof; see `derive`."""

    def __init__(self, name: str, found: Derived):
        self.name, self._found = name, found
        self.names = (*found.trace.arrays.values(), *[line.name for line in found.forward])
        self.lines = [Formula(line, self.names) for line in found.forward]
        self.adjoints = [Formula(line, self.names) for line in found.adjoints.values()]
        trace = found.trace
        self.gradients: dict[str, Formula] = {
            n: Formula(found.adjoints[d(trace.arrays[n])], self.names)
            for n, a in trace.tensors.items()
            if a.below is None and d(trace.arrays[n]) in found.adjoints
        }

    @property
    def proved(self) -> bool:
        """Is every line equal to the derivative, for all sizes and values, under the assumptions?"""
        return not self._found.unproved

    __bool__ = property(lambda self: self.proved).fget

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the proof rests on, besides what is trusted: SymPy's diff and arithmetic, and the index calculus."""
        trace = self._found.trace
        sizes = "; ".join(", ".join(f"{s} = {n}" for s, n in at.items()) for at in trace.at)
        return (f"the function makes the same calls at every size as it does at {sizes}", *trace.lines.notes)

    @property
    def loss(self) -> str:
        """What 𝓛 is, in words."""
        output = self._found.output
        if isinstance(output, Indexed):
            return f"𝓛: any scalar that is computed from {output.base.text}"
        return "𝓛: the result" if output.name == "loss" else f"𝓛: {output.name}, the result"

    def __str__(self) -> str:
        verdict = "proved for any size" if self.proved else f"NOT proved: {', '.join(self._found.unproved)}"
        forward = "\n".join(f"    {line}" for line in self.lines)
        backward = "\n".join(f"    {line}" for line in self.adjoints)
        return f"{self.name}:\n{forward}\n\n{self.loss}\n{backward}\n\n{verdict}"

    __repr__ = __str__

    @cached_property
    def _program(self) -> Source:
        return Source(self.name, self._found)

    def source(self) -> str:
        """Python on NumPy, which runs alone: a function that returns the value and the gradients."""
        return self._program.text()

    def evaluate(self, **arrays) -> dict[str, np.ndarray]:
        """The gradients by argument, and "value", at arrays: a run of `source()`.

        arrays: one for each tensor argument, of any sizes that fit together. `upstream` is the gradient of an array
        result, ones unless given. A size that no shape gives is a further argument. TypeError, ValueError or IndexError
        where an argument is missing, has another shape, or has an index out of range.
        """
        return evaluate(self._program, arrays)

    def latex(self) -> str:
        """All lines as LaTeX, one below the other."""
        lines = [x.latex().replace(" = ", " &= ", 1) for x in (*self.lines, *self.adjoints)]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"


def derive(fn: Callable, **arguments) -> Derivation:
    """Derive the gradient of a function for any size, in index notation, and prove it.

    arguments: those of fn. A tuple of sizes, ("N", "D"), is a tensor of floats; `Index(("N",), "K")` one of integers
    from 0 to K - 1; everything else is given to fn as it is. A size is a name, a number, or a product, "2*K".
    """
    return Derivation(getattr(fn, "__name__", type(fn).__name__), derive_lines(fn, arguments))

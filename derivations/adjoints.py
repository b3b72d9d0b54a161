"""Programs that are written by hand, followed by their adjoints, and the proof of closed forms.

    Program         definitions in order; parts of them, copies, and their values by plain loops
    line            a definition as a line of NumPy
    with_adjoints   the same program run backward: the derivatives of the last name by every name before it
    prove_form      closed form = derived form, by putting definitions in for names and comparing normal forms

To refute a formula that is wrong on purpose: `program.replaced(name, change)` is the program with `change` applied to
one right-hand side, and `prove_form` with it, or with another closed form, raises Refuted with a counterexample.
"""

import random
from collections.abc import Callable, Iterable

from sympy import Expr, Indexed, S

from derivations.claims import Refuted
from tinytensor.symbolic.index_calculus import adjoints
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, adjoint_of, d, name_of, value_of
from tinytensor.symbolic.index_calculus.formulas import (
    Array,
    Size,
    everywhere,
    free,
    index_order,
    normal,
    random_entries,
    sizes_of,
    value,
)
from tinytensor.symbolic.index_calculus.notation import text
from tinytensor.symbolic.index_calculus.numpy_printer import NumPyPrinter, label
from tinytensor.symbolic.index_calculus.vanishing import Facts, vanishes


class Program(adjoints.Program):
    """Definitions in order, of which parts and variants are made."""

    def __getitem__(self, name: Name) -> Definition:
        return self.definitions[name]

    def excerpt(self, names: Iterable[Name], parameters: Iterable[Expr], constants: Iterable[Name] = ()) -> "Program":
        """The definitions of these names alone, over other parameters and constants."""
        new = Program(parameters, constants)
        for name in names:
            new.let(*self[name])
        return new

    def copy(self, *constants: Name) -> "Program":
        """A copy of the program, to be continued, with further constants."""
        return self.excerpt(self.definitions, self.parameters.values(), [*self.constants, *constants])

    def replaced(self, name: Name, change: Callable[[Expr], Expr]) -> "Program":
        """The same program with `change(right)` for the right-hand side of one name: for planting mistakes."""
        new = Program(self.parameters.values(), self.constants)
        for line in self.lines:
            new.let(*line._replace(right=change(line.right)) if line.name == name else line)
        return new

    def run(self, point: dict) -> dict:
        """All names as arrays, by plain loops, from `point`: sizes, parameters and constants with their values."""
        point = dict(point)
        for line in self.lines:
            point[line.name] = value_of(line, point)
        return point

    def point(self, seed: int = 0) -> dict:
        """Sizes 2 and 3, and random parameters and constants: symbols above 0, entries of both signs."""
        rng = random.Random(seed)
        inputs = [*self.parameters, *self.constants]
        sizes = {s for x in [*inputs, *self.definitions] if isinstance(x, Array) for s in sizes_of(x)}
        point = {size: 2 + (n + seed) % 2 for n, size in enumerate(sorted(sizes, key=str))}
        for x in inputs:
            point[x] = random_entries(x, point, rng, _either_sign) if isinstance(x, Array) else rng.uniform(0.5, 1.5)
        return point


def _either_sign(rng: random.Random) -> float:
    return rng.choice((-1, 1)) * rng.uniform(0.5, 1.5)


def line(definition: Definition) -> str:
    """`name = expression` in NumPy, for a definition whose indices stand in the order of the array's axes."""
    axes = definition.left.indices if isinstance(definition.left, Indexed) else ()
    return f"{label(definition.name)} = {NumPyPrinter().whole(definition.right, axes)}"


def with_adjoints(program: Program, output: Name) -> Program:
    """The program followed by the adjoints of its names, from the last to the first: reverse mode in symbols.

    output: a symbol (the loss, whose adjoint is 1), or an array; its adjoint is then a constant of the new program, to
    be computed by the program that uses the output.
    """
    result = program.copy(*([d(output)] if isinstance(output, Array) else []))
    for entry in reversed(program.entries):
        if name_of(entry) != output:
            result.let(d(entry), adjoint_of(entry, program.lines, output))
    return result


def prove_form(program: Program, left: Expr, closed, through: Iterable[Name] = ()) -> None:
    """Prove that `left`, as the program defines it, is `closed`, for all sizes and values; or raise Refuted.

    through: the names that are replaced by their definitions, on both sides. If the normal forms then differ, the two
    are evaluated at small sizes: Refuted names an entry where they differ, or says that no proof was found.
    """
    closed = S(closed)
    if loose := free(closed) - free(left):
        raise Refuted(f"{text(left)}: index {loose.pop().name} of the closed form {text(closed)} is not on the left")
    derived = program[name_of(left)].at(left)
    difference = program.expand(derived - closed, set(through))
    theorem = vanishes([difference], Facts(program.lines))
    if theorem is not None and not theorem.hypotheses:
        return
    indices = sorted(free(left), key=index_order)
    for seed in range(3):
        for here in everywhere(indices, program.run(program.point(seed))):
            expected, claimed = float(value(derived, here)), float(value(closed, here))
            if abs(expected - claimed) > 1e-6 * (abs(expected) + abs(claimed)):
                sizes = ", ".join(f"{s} = {n}" for s, n in here.items() if isinstance(s, Size))
                entry = ", ".join(f"{i.name} = {here[i]}" for i in indices)
                raise Refuted(
                    f"{text(left)}: derived {text(derived)}, closed form {text(closed)}; with {sizes}, "
                    f"at {entry or 'the only entry'}: {expected:.6g} against {claimed:.6g}"
                )
    raise Refuted(f"{text(left)}: no proof: the rest of the difference is {text(normal(difference))}")

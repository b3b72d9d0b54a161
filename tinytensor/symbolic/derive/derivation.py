"""The result of `derive`: formulas, their proof, and the program that computes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

import numpy as np
from sympy import Add, Expr, Indexed, Mul, Sum

from tinytensor.display.notebook import Latex, formula, sentence, shown
from tinytensor.nn.module import Module
from tinytensor.symbolic.certificates.certificate import Certificate, CertifiedProgram
from tinytensor.symbolic.certificates.terms import NotCertifiable
from tinytensor.symbolic.derive.adjoints import DerivedLines, derive_lines
from tinytensor.symbolic.derive.arguments import arguments as as_arguments
from tinytensor.symbolic.derive.arguments import symbols_of
from tinytensor.symbolic.derive.conditions import SizeCondition, conditions_in, in_words, restrictions, verdict
from tinytensor.symbolic.derive.facts import with_facts
from tinytensor.symbolic.derive.modules import as_function
from tinytensor.symbolic.derive.recurrences import Recurrence, as_shown, first_values
from tinytensor.symbolic.derive.recurrent_source import RecurrentSource
from tinytensor.symbolic.derive.samples import Sample, allclose, excuses, refused_sizes, samples
from tinytensor.symbolic.derive.source import Source, evaluate, evaluate_at
from tinytensor.symbolic.derive.time_limit import (
    SYMBOLS,
    TimeLimit,
    is_up,
    limited,
    out_of_time,
    rest_of,
    stage,
    stopped,
)
from tinytensor.symbolic.derive.trace import format_sizes
from tinytensor.symbolic.derive.values import ExtremeMask, Value, value_of_name
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d, expanded, name_of
from tinytensor.symbolic.index_calculus.formulas import Array, Size
from tinytensor.symbolic.index_calculus.linear_algebra import MatrixEntry
from tinytensor.symbolic.index_calculus.matrices import Matrices, Matrix
from tinytensor.symbolic.index_calculus.notation import equation, equation_tex, tex, text
from tinytensor.symbolic.index_calculus.vanishing import Theorem, together
from tinytensor.symbolic.prove.progress import TooLong


class Typeset:
    """What a notebook shows as its LaTeX."""

    def latex(self) -> str:
        """The formula as LaTeX, without dollar signs."""
        raise NotImplementedError

    def _repr_latex_(self) -> str:
        return Latex(self.latex())._repr_latex_()

    def _repr_html_(self) -> str | None:
        return Latex(self.latex())._repr_html_()


class Formula(Typeset):
    """A line of a derivation: `left` = `right`, in index notation."""

    def __init__(
        self,
        line: Definition,
        names: Sequence[Name] = (),
        sizes: Mapping[Size, Expr] | None = None,
        recurrences: Sequence[Recurrence] = (),
    ):
        self.left: Expr = line.left
        self.right: Expr = line.right
        self.names = tuple(names)
        self.sizes = dict(sizes or {})  # those that the user did not name, in those that have a name
        self.recurrences = tuple(recurrences)

    @property
    def indices(self) -> tuple:
        """The indices on the left."""
        return getattr(self.left, "indices", ())

    @property
    def shown(self) -> tuple[Expr, Expr]:
        """Both sides as they are printed."""
        right = self.right.xreplace(self.sizes)
        return as_shown(self.left, self.recurrences), as_shown(right, self.recurrences)

    def __str__(self) -> str:
        steps = ", ".join(equation(*pair) for pair in first_values(self.left, self.recurrences))
        return equation(*self.shown, self.names) + (f", {steps}" if steps else "")

    __repr__ = __str__

    def latex(self) -> str:
        """The formula as LaTeX, without dollar signs."""
        steps = ",\\quad ".join(equation_tex(*pair) for pair in first_values(self.left, self.recurrences))
        return equation_tex(*self.shown, self.names) + (rf",\quad {steps}" if steps else "")


@dataclass(frozen=True)
class MatrixFormula(Typeset):
    """A line of a derivation in matrix notation, as text, LaTeX and NumPy code (`right`)."""

    line: Formula
    left: str
    left_tex: str
    right: Matrix

    def __str__(self) -> str:
        return f"{self.left} = {self.right.text}"

    __repr__ = __str__

    def latex(self) -> str:
        """The formula as LaTeX, without dollar signs."""
        return f"{self.left_tex} = {self.right.tex}"


class Derivation(Typeset):
    """The gradients of a function for any size, with their proof; see `derive`."""

    def __init__(
        self,
        name: str,
        derived: DerivedLines,
        fn: Callable,
        arguments: dict[str, object],
        where: Sequence[SizeCondition] = (),
        limit: float | None = None,
        progress: bool | None = None,
        share: float = 1.0,
        used: float = 0.0,
    ):
        self.limit, self.progress = limit, progress
        self._rest = rest_of(limit and share * limit, used)  # the seconds for the comparison in numbers
        self.name, self.derived, self.fn, self.arguments, self.where = name, derived, fn, arguments, tuple(where)
        self.names = (*derived.trace.arrays.values(), *[line.name for line in derived.forward])
        recurrences, shown = derived.recurrences, derived.adjoints
        for r in recurrences:
            shown = r.lines_of_adjoints(shown)
        trace = derived.trace
        sizes = trace.unnamed_sizes
        self.lines = [Formula(line, self.names, sizes, recurrences) for line in derived.forward]
        self.adjoints = [Formula(line, self.names, sizes, recurrences) for line in shown.values()]
        self.gradients: dict[str, Formula] = {
            n: Formula(derived.adjoints[d(trace.arrays[n])], self.names, sizes, recurrences)
            for n, a in trace.tensors.items()
            if a.below is None and d(trace.arrays[n]) in derived.adjoints
        }

    @property
    def proved(self) -> bool:
        """Is every line equal to the derivative, for all sizes and values that meet the conditions?

        The formulas must also give the value and the gradients of the function itself in numbers (samples.py). False
        where a condition on sizes is neither in `where` nor demanded by the function itself, which has no value at all
        other sizes that were tried.
        """
        return self.theorem is not None and not self.restrictions

    @cached_property
    def known(self) -> Theorem:
        """What is proved of the lines, where numbers do not refute it either."""
        return together([self.derived.theorem], self._compared[1])

    @property
    def theorem(self) -> Theorem | None:
        """That every line is equal to the derivative, with the conditions; None if something is not proved."""
        return None if self.unproved or self.differs or self.stopped else self.known

    @property
    def stopped(self) -> str:
        """After which time, and where, the work was ended; empty if it was not. Nothing is proved then."""
        return self.derived.stopped or self._compared[2]

    @property
    def unproved(self) -> list[str]:
        """The lines that are not proved."""
        return self.derived.unproved

    def entry(self, name: str) -> tuple[Expr, Expr]:
        """An entry of the gradient of an argument, and its formula in names of the function alone."""
        line = self.derived.adjoints[d(self.derived.trace.arrays[name])]
        return line.left, expanded(line.right, list(self.derived.adjoints.values()))

    @cached_property
    def samples(self) -> list[Sample]:
        """The function at small sizes, and at values with zeros and ties."""
        return self._samples[0]

    def _time(self, seconds: float | None) -> TimeLimit:
        return TimeLimit("derive", self.name, seconds, self.progress)

    @cached_property
    def _samples(self) -> tuple[list[Sample], str, float]:
        """The samples, whether and where their computation was stopped, and its seconds."""
        arguments = as_arguments(self.arguments, {})
        with limited(self._time(self._rest)) as limit:
            stage("numbers were compared", 80)
            points = samples(self.fn, arguments, symbols_of(arguments), self._numbers())
            return points, stopped() if is_up() else "", limit.used

    def _numbers(self) -> list[float]:
        """The first few numbers in the function's own calls, such as the bounds of a clamp."""
        numbers = (a for term in self.derived.trace.program.terms for a in term.args)
        own = (float(a) for a in numbers if type(a) in (int, float) and abs(a) < 100)
        return list(dict.fromkeys(own))[:8]

    def inside(self, sample: Sample) -> bool:
        """Does the point meet the conditions on sizes, and has the function a value and gradients there?"""
        return sample.finite and all(c.holds(sample.at) for c in self.size_conditions)

    @property
    def size_conditions(self) -> tuple[SizeCondition, ...]:
        """The conditions on sizes, those of `where` first."""
        return tuple(self.derived.trace.size_conditions)

    @cached_property
    def restrictions(self) -> list[SizeCondition]:
        """The conditions on sizes that `where` does not have, and that exclude a size that the function takes."""
        return restrictions(self.size_conditions, self.where, self.samples)

    @cached_property
    def _compared(self) -> tuple[str, set[str], str, int]:
        """Where the formulas and the function differ by more than rounding; the conditions that exclude it else.

        Besides: whether and where the comparison was stopped, and the number of points in which they agree.
        """
        if not self.gradients:
            return "", set(), self.derived.stopped, 0
        _, late, used = self._samples
        with limited(self._time(rest_of(self._rest, used))):
            stage("numbers were compared", 90)
            differs, needed, number = self._compare()
            return differs, needed, late or (stopped() if is_up() else ""), number

    def _compare(self) -> tuple[str, set[str], int]:
        """The comparison of the formulas with the function, at the points for which there is time."""
        needed: set[str] = set()
        plain = number = 0
        for one in filter(self.inside, self.samples):
            if is_up():
                break
            edges = one.edges - {"equality"}
            name, divided = self._differs_at(one)
            if divided and one.far:
                continue
            if name:
                excused = excuses(edges, one.inputs) | ({"denominator"} if divided and self._divides else set())
                if not excused:
                    return _difference(name, one.at), needed, number
                needed |= excused
            plain += not edges and not name
            number += not name
        if not plain and not is_up():
            return "at no point that was tried has the function a value and are all conditions met", needed, number
        return "", needed, number

    @cached_property
    def _divides(self) -> bool:
        """Has a formula of a gradient a denominator that may be 0, such as x in (1 - h)/x?"""
        return self.derived.trace.lines.signs.divides(*(line.right for line in self.adjoints))

    def _differs_at(self, sample: Sample) -> tuple[str, bool]:
        """The name of a result in which the formulas and the function differ at a point, empty if in none.

        Besides: are all entries that differ NaN or infinite by the formulas?
        """
        values = evaluate_at(
            self._program, sample, **({} if sample.upstream is None else {"upstream": sample.upstream})
        )
        if values is None:
            return "value", False
        wanted = {"value": sample.value, **{n: sample.gradients[n] for n in self.gradients}}
        for name, own in wanted.items():
            if not allclose(values[name], own):
                finite = np.isfinite(values[name])
                same_shape = values[name].shape == own.shape
                return name, same_shape and allclose(np.where(finite, values[name], own), own)
        return "", False

    @property
    def differs(self) -> str:
        """Where the formulas and the function itself differ by more than rounding; empty if nowhere."""
        return self._compared[0]

    def __bool__(self) -> bool:
        """Is every line proved, under the conditions on values that the verdict names? See `proved`."""
        return self.proved

    @property
    def value_conditions(self) -> tuple[str, ...]:
        """The conditions on values, in words: denominators, arguments of roots and logarithms, ties."""
        return in_words(self.known)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the proof rests on, besides what is trusted: SymPy's diff and arithmetic, and the index calculus."""
        return (*self.derived.trace.lines.notes, *map(str, self.size_conditions), *self.value_conditions)

    @property
    def verdict(self) -> str:
        """Whether every line is proved, and under which conditions, in words."""
        if self.derived.unproved:
            return f"NOT proved: {', '.join(self.derived.unproved)}"
        if self.differs:
            return f"NOT proved: {self.differs}"
        if self.stopped:
            number = self._compared[3]
            numbers = f"in numbers, these formulas agree with backward() at the {number} points that were compared"
            return f"NOT proved: {out_of_time(self.limit, self.stopped, numbers if number else '')}"
        return verdict(self.theorem, self.restrictions, self.refused)

    @property
    def refused(self) -> str:
        """The sizes that the function itself refuses, of those that were tried."""
        own = [s for s in self.samples if all(c.holds(s.at) for c in self.size_conditions)]
        return refused_sizes(own, symbols_of(as_arguments(self.arguments, {})))

    @property
    def loss(self) -> str:
        """What 𝓛 is, in words."""
        output = self.derived.output
        if isinstance(output, Indexed):
            short = self._gradients_in_matrices.get(d(output.base))
            named = f"; {short} = ∂𝓛/∂{output.base.text}" if short else ""
            return f"𝓛: any scalar that is computed from {output.base.text}{named}"
        return "𝓛: the result" if output.name == "loss" else f"𝓛: {output.name}, the result"

    def __str__(self) -> str:
        forward, backward = ("\n".join(self._two_columns(lines)) for lines in (self.lines, self.adjoints))
        forward = "\n".join([*(f"    {one}" for one in self._entries_apart()), forward])
        return f"{self.name}:\n{forward}\n\n{self.loss}\n{backward}\n\n{self.verdict}"

    __repr__ = __str__

    def _entries_apart(self) -> list[str]:
        """Which entries the indices of arguments are whose sizes were taken apart: x_ij is entry 2 i + j - 2 of x."""
        trace, result = self.derived.trace, []
        written = as_arguments(self.arguments, {})
        for name, a in trace.tensors.items():
            if a.dims == written[name].dims:
                continue
            value = value_of_name(trace.arrays[name], Value(a.dims, None))
            all_indices, entries = value.indices(), []
            indices = list(all_indices)
            for dim in a.dims:
                own, indices = indices[: len(dim)], indices[len(dim) :]
                steps = [Mul(*dim[n + 1 :]) for n in range(len(dim))]
                number = Add(*[(i - 1) * step for i, step in zip(own, steps, strict=True)]) + 1
                entries += [text(number.xreplace(trace.unnamed_sizes).expand())] if dim else []
            result.append(f"{text(value.entry(*all_indices))} is entry {', '.join(entries)} of {name}, from 1 on")
        return result

    def _matrix_form(self, one: Formula) -> tuple[str, str] | None:
        """What stands beside a line, as text and as LaTeX: its matrix form, if it has sums or defines a short name."""
        name, form = name_of(one.left), self._in_matrices(one)
        if name in self._gradients_in_matrices and form is None:
            short, whole = (Matrices(self.names, n).entry(one.left) for n in (self._gradients_in_matrices, None))
            return f"{short.text} = {whole.text}", f"{short.tex} = {whole.tex}"
        if form is None or not (one.right.has(Sum, MatrixEntry) or name in self._gradients_in_matrices):
            return None
        return str(form), form.latex()

    def _two_columns(self, lines: list[Formula]) -> list[str]:
        """Each line in indices and, where it has sums that are matrix products, beside it in matrices."""
        forms = [beside and beside[0] for beside in map(self._matrix_form, lines)]
        width = max(
            (len(str(x)) for x, form in zip(lines, forms, strict=True) if form and len(str(x)) <= 60), default=0
        )
        return [f"    {x!s:<{width}}    {form}" if form else f"    {x}" for x, form in zip(lines, forms, strict=True)]

    def matrix(self) -> list[MatrixFormula]:
        """The lines in matrix notation, ∂𝓛/∂W = Xᵀ G, those whose sums are all matrix products.

        G is the gradient of an inner name or of the result; G_A, G_S where there are several.
        index_calculus/matrices.py writes the forms.
        """
        return [one for one in map(self._in_matrices, (*self.lines, *self.adjoints)) if one is not None]

    @cached_property
    def _gradients_in_matrices(self) -> dict[Name, str]:
        """The short names of gradients."""
        arguments = [d(self.derived.trace.arrays[n]) for n in self.gradients]
        used = [a for x in self.adjoints for a in (*x.right.atoms(Array), name_of(x.left)) if getattr(a, "of", None)]
        inner = [a for a in dict.fromkeys(used) if a not in arguments and len(a.sizes) <= 2]
        return {a: "G" if len(inner) == 1 else f"G_{a.of.text}" for a in inner}

    def _in_matrices(self, one: Formula) -> MatrixFormula | None:
        of_states = {array for r in one.recurrences for array in (*r.adjoints, *[state.out for state in r.states])}
        if one.recurrences and (one.shown != (one.left, one.right) or name_of(one.left) in of_states):
            return None
        short = self._gradients_in_matrices
        matrices, name = Matrices(self.names, short), name_of(one.left)
        right = matrices.form(one.left, one.right)
        if right is None:
            return None
        if not isinstance(name, Array):
            return MatrixFormula(one, text(one.left, self.names), tex(one.left, self.names), right)
        left = matrices.entry(one.left)
        if name not in short:
            return MatrixFormula(one, left.text, left.tex, right)
        whole = Matrices(self.names).entry(one.left)
        return MatrixFormula(one, f"{left.text} = {whole.text}", f"{left.tex} = {whole.tex}", right)

    @cached_property
    def _program(self) -> Source:
        return (RecurrentSource if self.derived.recurrences else Source)(self.name, self.derived)

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

    def certificate(self, file: str | Path | None = None) -> str:
        """The derivation as a file of Coq, with a theorem for each gradient: its text, which is also written to `file`.

        `tinytensor certify FILE` lets Coq's kernel check it. NotCertifiable (a TypeError) where the derivation is not
        proved, or has a function that the library of Coq does not have.
        """
        text = str(Certificate(self._certified_program()))
        if file is not None:
            Path(file).write_text(text, encoding="utf-8")
        return text

    def _certified_program(self) -> CertifiedProgram:
        if not self.proved:
            raise NotCertifiable(f"certificate: {self.name} is {self.verdict}")
        trace = self.derived.trace
        if self.derived.recurrences:
            raise NotCertifiable(
                "certificate: a recurrence has no certificate yet; give the number of steps as a number"
            )
        if any(isinstance(one, ExtremeMask) for one in trace.lines.constants.values()):
            raise NotCertifiable(
                "certificate: the places of the largest entries are data, and no theorem says where they are; "
                "leave out what subtracts or takes a maximum, as softmax does by itself"
            )
        values = {n: value_of_name(trace.arrays[n], Value(a.dims, None)) for n, a in trace.tensors.items()}
        entries = {n: value.entry(*value.indices()) for n, value in values.items()}
        parameters = [entries[n] for n, a in trace.tensors.items() if a.below is None]
        constants = [trace.arrays[n] for n, a in trace.tensors.items() if a.below is not None]
        names = [*map(name_of, parameters), *[line.name for line in self.derived.forward]]
        of = {d(name): name for name in names}
        return CertifiedProgram(
            title=self.name,
            parameters=parameters,
            constants=[*constants, *trace.lines.constants],
            lines=self.derived.forward,
            gradients={of[n]: line for n, line in self.derived.adjoints.items()},
            output=self.derived.output,
            printed=lambda line: str(Formula(line, self.names)),
            names=self.names,
            conditions=[*map(str, self.size_conditions), *self.value_conditions],
        )

    def latex(self) -> str:
        """All lines as LaTeX, one below the other."""
        lines = [x.latex().replace(" = ", " &= ", 1) for x in (*self.lines, *self.adjoints)]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def _repr_html_(self) -> str | None:
        """The derivation in a notebook: the lines, typeset, with their matrix forms beside them."""
        first, second = self._rows(self.lines), self._rows(self.adjoints)
        if first is None or second is None:
            return None
        proved = f"<p><b>{escape(self.verdict)}</b></p>"
        assumed = "".join(f"<li>{sentence(one)}</li>" for one in self.assumptions)
        what = f"<p>{escape(self.loss)}</p>"
        more = f"<details><summary>assumptions</summary><ul>{assumed}</ul></details>"
        return shown(f"<p>{escape(self.name)}</p>", first, what, second, proved, more)

    def _rows(self, lines: list[Formula]) -> str | None:
        """Lines as a table; None, for which a notebook takes LaTeX or text, if one could not be typeset."""
        rows = []
        for one in lines:
            beside = self._matrix_form(one)
            cells = [formula(one.latex()), formula(beside[1]) if beside else ""]
            if None in cells:
                return None
            rows.append(f"<tr><td>{cells[0]}</td><td>{cells[1]}</td></tr>")
        return f'<div class="wide" style="padding: 0"><table>{"".join(rows)}</table></div>'


def _difference(name: str, at: dict) -> str:
    what = "the value" if name == "value" else f"the gradient of {name} by backward()"
    return f"{what} does not match these formulas at {format_sizes(at) or 'this function'}"


def derive_within(
    share: float,
    fn: Callable,
    where: str | Sequence[str],
    limit: float | None,
    progress: bool | None,
    arguments: dict[str, object],
) -> Derivation:
    """The derivation in a share of the limit; the rest is for a check that follows."""
    notes: list[str] = []
    if isinstance(fn, Module):
        fn, arguments, notes = as_function(fn, arguments)
    where, arguments = with_facts(where, arguments)
    conditions = conditions_in(where, symbols_of(as_arguments(arguments, {})))
    name = getattr(fn, "__name__", type(fn).__name__)
    name = "the function" if name == "<lambda>" else name
    TimeLimit("derive", name, limit, False)  # a limit that is no time is refused
    seconds = None if limit is None else SYMBOLS * share * limit
    with limited(TimeLimit("derive", name, seconds, progress)) as time:
        try:
            derived = derive_lines(fn, arguments, conditions)
        except TooLong:  # before there are any formulas
            raise TooLong(f"derive: {name}: {out_of_time(limit, stopped(), '')}") from None
        used = time.used
    derived.trace.lines.notes.update(dict.fromkeys(notes))
    return Derivation(name, derived, fn, arguments, conditions, limit, progress, share, used)

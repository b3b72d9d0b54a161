"""What `derive` and its like give: lines, one verdict on them, one comparison in numbers, and one way to show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

from sympy import Expr, Sum

from tinytensor.symbolic.derive.adjoints import DerivedLines
from tinytensor.symbolic.derive.conditions import VALUES, SizeCondition, in_words, restrictions, verdict
from tinytensor.symbolic.derive.recurrences import as_shown, first_values
from tinytensor.symbolic.derive.samples import Comparison, Sample, compare, refused_sizes
from tinytensor.symbolic.derive.source import Source, evaluate
from tinytensor.symbolic.derive.trace import format_sizes
from tinytensor.symbolic.derive.values import ExtremeMask
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, expanded, name_of
from tinytensor.symbolic.index_calculus.formulas import Array
from tinytensor.symbolic.index_calculus.linear_algebra import MatrixEntry
from tinytensor.symbolic.index_calculus.matrices import Matrices, Matrix
from tinytensor.symbolic.index_calculus.notation import array_tex, equation, equation_tex, tex, text
from tinytensor.symbolic.index_calculus.vanishing import Theorem, together
from tinytensor.symbolic.time_limit import TimeLimit, limited, stage
from tinytensor.utils.display.notebook import Latex, formula, sentence, shown

Key = str | tuple[str, str]  # an argument, or the two names of a block


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
    """A line of a derivation: `left` = `right`, in index notation.

    names: in the order of a product's factors. derived: the lines that say what the names stand for.
    """

    def __init__(self, line: Definition, names: Sequence[Name], derived: DerivedLines):
        self.left: Expr = line.left
        self.right: Expr = line.right
        self.names, self.derived, self.recurrences = tuple(names), derived, derived.recurrences

    @property
    def shown(self) -> tuple[Expr, Expr]:
        """Both sides as they are printed."""
        right = self.right.xreplace(self.derived.trace.unnamed_sizes)
        return as_shown(self.left, self.recurrences), as_shown(right, self.recurrences)

    def written(self, typeset: bool) -> str:
        """The formula as text or as LaTeX; behind that of a state its first value."""
        write, separator = (equation_tex, r",\quad ") if typeset else (equation, ", ")
        steps = first_values(self.left, self.recurrences)
        return separator.join((write(*self.shown, self.names), *(write(*pair) for pair in steps)))

    def __str__(self) -> str:
        return self.written(False)

    __repr__ = __str__

    def latex(self) -> str:
        """The formula as LaTeX, without dollar signs."""
        return self.written(True)


class Block(Formula):
    """A block of a Hessian or a Jacobian: ∂²𝓛/∂a_i∂b_j, or ∂Y_i/∂b_j, in index notation.

    of, by: the entries a_i and b_j; the result itself for a Jacobian. pattern: of the left side in text and in LaTeX.
    """

    def __init__(self, line: Definition, of: Expr, by: Expr, pattern: tuple[str, str], *origin):
        super().__init__(line, *origin)
        self.of, self.by, self.pattern = of, by, pattern

    def written(self, typeset: bool) -> str:
        """The block as text or as LaTeX."""
        write = tex if typeset else text
        of, by, right = (write(e, self.names) for e in (self.of, self.by, self.right))
        return f"{self.pattern[typeset].format(of, by)} = {right}"

    @property
    def is_matrix(self) -> bool:
        """Is it the block of two vectors?"""
        return all(len(getattr(e, "indices", ())) == 1 for e in (self.of, self.by))

    @property
    def left_in_matrices(self) -> tuple[str, str]:
        """The left side in matrix notation, as text and as LaTeX: ∂²𝓛/∂w∂wᵀ."""
        names = [name_of(e) for e in (self.of, self.by)]
        of, by = (str(getattr(name, "text", name)) for name in names)
        of_tex, by_tex = (array_tex(n) if isinstance(n, Array) else tex(n, self.names) for n in names)
        turned = ("ᵀ", r"^{\top}") if "²" in self.pattern[0] else ("", "")
        return self.pattern[0].format(of, by + turned[0]), self.pattern[1].format(of_tex, by_tex + turned[1])


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


class Result(Typeset):
    """Derivatives of a function for any size, as lines of a program, with their proof.

    name: that of the function. derived: its lines and those of its gradients. gradients: the formulas that are wanted,
    by argument, or by the two names of a block. where: that of `derive`.
    """

    name: str
    derived: DerivedLines
    gradients: Mapping
    names: tuple[Name, ...]  # in the order of a product's factors
    where: tuple[SizeCondition, ...]
    derivation: "Result"  # the first derivatives, which a Derivation is itself
    time: TimeLimit
    lines: list[Formula]  # of the function
    title: str  # what stands above the derivatives
    groups: list[list[Formula]]  # the derivatives; each group has columns of its own
    short_names: dict[Name, str]  # of gradients in matrix notation: G
    directions: Mapping[str, Name] = {}  # of a product: the name of the direction for each argument
    more: Sequence[Definition] = ()  # the lines besides those of the derivation

    # ------------------------------------------------------------------------------------------------ the verdict

    @property
    def proved(self) -> bool:
        """Is every line equal to the derivative, for all sizes and values that meet the conditions?

        The formulas must also give the value and the derivatives of the function itself in numbers (samples.py). False
        where a condition on sizes is neither in `where` nor demanded by the function itself, which has no value at all
        other sizes that were tried.
        """
        return self.theorem is not None and not self.restrictions

    def __bool__(self) -> bool:
        """Is every line proved, under the conditions on values that the verdict names? See `proved`."""
        return self.proved

    @property
    def stopped(self) -> str:
        """After which time, and where, the work was ended; empty if it was not. Nothing is proved then."""
        return self.derived.stopped or self._compared.stopped

    @property
    def differs(self) -> str:
        """Where the formulas and the function itself differ by more than rounding, or it fails; empty if nowhere."""
        return self._compared.example or (f"the function fails at {sizes}" if (sizes := self.refused) else "")

    @property
    def verdict(self) -> str:
        """Whether every line is proved, and under which conditions, in words."""
        if self.differs:
            return f"NOT proved: {self.differs}"
        if self.stopped:
            agreed = len(self._compared.agreed)
            numbers = f"in numbers, these formulas agree with backward() at the {agreed} points that were compared"
            return f"NOT proved: {self.time.out_of_time(self.stopped, numbers if agreed else '')}"
        return verdict(self.theorem, self.restrictions)

    @cached_property
    def known(self) -> Theorem:
        """What is proved of the lines, where numbers do not refute it either."""
        return together([self.derived.theorem], self._compared.needed)

    @property
    def theorem(self) -> Theorem | None:
        """That every line is equal to the derivative, with the conditions; None if something is not proved."""
        return None if self.differs or self.stopped else self.known

    @property
    def value_conditions(self) -> tuple[str, ...]:
        """The conditions on values, in words: denominators, arguments of roots and logarithms, ties."""
        return in_words(self.known)

    @property
    def size_conditions(self) -> tuple[SizeCondition, ...]:
        """The conditions on sizes, those of `where` first."""
        return tuple(self.derived.trace.size_conditions)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the proof rests on, besides what is trusted: SymPy's diff and arithmetic, and the index calculus."""
        lines = self.derived.trace.lines
        masks = [mask.note(name) for name, mask in lines.constants.items() if isinstance(mask, ExtremeMask)]
        return (*lines.notes, *masks, *map(str, self.size_conditions), *self.value_conditions)

    @cached_property
    def restrictions(self) -> list[SizeCondition]:
        """The conditions on sizes that `where` does not have, and that exclude a size that the function takes."""
        return restrictions(self.size_conditions, self.where, self.derivation.samples)

    @cached_property
    def refused(self) -> str:
        """The sizes that the function itself refuses, of those that were tried."""
        first = self.derivation
        within = [s for s in first.samples if all(c.holds(s.at) for c in self.size_conditions)]
        return refused_sizes(within, first.symbols)

    # ------------------------------------------------------------------------------------------------ numbers

    def inside(self, sample: Sample) -> bool:
        """Does the point meet the conditions on sizes, and has the function a value and gradients there?"""
        return sample.finite and all(c.holds(sample.at) for c in self.size_conditions)

    @property
    def samples(self) -> list[Sample]:
        """The points at which the formulas are compared with the function."""
        return self._compared.samples

    @cached_property
    def _compared(self) -> Comparison:
        """The formulas beside the function; where the first derivatives differ from it, no others are compared."""
        first = self.derivation
        if first is not self and (first.differs or first.stopped):
            return first._compared
        with limited(self.time):
            stage("numbers were compared", 80)
            samples = self.points()
            compared = compare(filter(self.inside, samples) if self.gradients else (), self._difference)
            if self.gradients and not (compared.example or compared.stopped or compared.tried()):
                compared.example = self._never(samples)
            compared.samples = samples
            return compared

    def points(self) -> list[Sample]:
        """Runs of the function; the first few of them if the time is up."""
        raise NotImplementedError

    def _difference(self, sample: Sample) -> tuple[str | None, set[str]]:
        """What differs from the function at a point, for `compare`."""
        edges = set(sample.edges - {"equality"})
        differs, divided = self.differs_at(sample)
        if differs is None or (divided and sample.far):
            return None, edges
        if not differs:
            return "", edges
        edges |= {"denominator"} if divided and self._divides else set()
        return f"{differs} at {format_sizes(sample.at) or 'this function'}", edges

    def _never(self, samples: list[Sample]) -> str:
        """Why no point counts as one at which the formulas hold."""
        if not samples:
            return "there are too many numbers to compare; give a size a name in the place of its number"
        met = {key for sample in filter(self.inside, samples) for key in sample.edges}
        if failing := [words for key, words in VALUES.items() if key in met]:
            return f"at no point that was tried are all conditions met, such as: {' and '.join(failing)}"
        if self.size_conditions and not any(all(c.holds(s.at) for c in self.size_conditions) for s in samples):
            return f"at no point that was tried is {' and '.join(map(str, self.size_conditions))}"
        error = next((f": {s.error}" for s in samples if s.error), "")
        return f"at no point that was tried has the function a value and gradients that are finite{error}"

    def differs_at(self, sample: Sample) -> tuple[str | None, bool]:
        """What differs from the function at a point, in words, empty if nothing does, None if nothing is compared.

        Besides: is all that differs NaN or infinite by the formulas?
        """
        raise NotImplementedError

    @cached_property
    def _divides(self) -> bool:
        """Has a formula of a derivative a denominator that may be 0, such as x in (1 - h)/x?"""
        lines = (line.right for group in self.groups for line in group)
        return self.derived.trace.lines.signs.divides(*lines)

    # ------------------------------------------------------------------------------------------------ the program

    @cached_property
    def _program(self) -> Source:
        results = {key: (name_of(line.left), self.dims(key)) for key, line in self.results.items()}
        return Source(self.name, self.derived, results, self.directions, self.more)

    @property
    def results(self) -> Mapping[Key, Formula]:
        """What the program gives besides the value."""
        return self.gradients

    def source(self) -> str:
        """Python on NumPy, which runs alone: a function that returns the value and the derivatives."""
        return self._program.text()

    def evaluate(self, **arrays) -> dict:
        """The derivatives by argument, or by the names of a block, and "value", at arrays: a run of `source()`.

        arrays: one for each tensor argument, of any sizes that fit together. `upstream` is the gradient of an array
        result, ones unless given; W_dot is the direction of W. A size that no shape gives is a further argument.
        TypeError, ValueError or IndexError where an argument is missing, has another shape, or has an index out of
        range.
        """
        return evaluate(self._program, arrays)

    # ------------------------------------------------------------------------------------------------ for `check`

    def dims(self, key: Key) -> tuple:
        """The dimensions of a derivative: those of an argument or of the result, and of both for a block."""
        if isinstance(key, tuple):
            return (*self.dims(key[0]), *self.dims(key[1]))
        tensors = self.derived.trace.tensors
        return tensors[key].dims if key in tensors else self.derived.trace.result.dims

    def entry(self, key: Key) -> tuple[Expr, Expr]:
        """An entry of a derivative, and its formula in names of the function alone."""
        line = self.gradients[key]
        return line.left, expanded(line.right, list(self.derived.adjoints.values()))

    def label(self, key: Key) -> str:
        """A derivative in words: ∂𝓛/∂w."""
        return f"∂𝓛/∂{key}"

    # ------------------------------------------------------------------------------------------------ in print

    def __str__(self) -> str:
        forward = [f"    {entry}" for entry in self.derivation.entries_apart()]
        forward = "\n".join([*forward, *self._two_columns(self.lines)])
        below = "\n".join(row for group in self.groups for row in self._two_columns(group))
        return f"{self.name}:\n{forward}\n\n{self.title}\n{below}\n\n{self.verdict}"

    __repr__ = __str__

    def _two_columns(self, lines: list[Formula]) -> list[str]:
        """Each line in indices and, where it has sums that are matrix products, beside it in matrices."""
        forms = [beside and beside[0] for beside in map(self._matrix_form, lines)]
        width = max(
            (len(str(x)) for x, form in zip(lines, forms, strict=True) if form and len(str(x)) <= 60), default=0
        )
        return [f"    {x!s:<{width}}    {form}" if form else f"    {x}" for x, form in zip(lines, forms, strict=True)]

    def _matrix_form(self, line: Formula) -> tuple[str, str] | None:
        """What stands beside a line, as text and as LaTeX: its matrix form, if it has sums or defines a short name."""
        name, form = name_of(line.left), self.in_matrices(line)
        if name in self.short_names and form is None:
            return self._left_in_matrices(line)
        if form is None or not (
            line.right.has(Sum, MatrixEntry) or isinstance(line, Block) or name in self.short_names
        ):
            return None
        return str(form), form.latex()

    def in_matrices(self, line: Formula) -> MatrixFormula | None:
        """A line in matrix notation; None if it has no such form."""
        of_states = {array for r in line.recurrences for array in (*r.adjoints, *[state.out for state in r.states])}
        if line.recurrences and (line.shown != (line.left, line.right) or name_of(line.left) in of_states):
            return None
        block = isinstance(line, Block)
        if block and (line.right == 0 or not line.is_matrix):
            return None
        right = Matrices(self.names, self.short_names).form(line.left, line.right)
        return None if right is None else MatrixFormula(line, *self._left_in_matrices(line), right)

    def _left_in_matrices(self, line: Formula) -> tuple[str, str]:
        """The left side in matrix notation, as text and as LaTeX: of a gradient with a short name, G = ∂𝓛/∂A."""
        if isinstance(line, Block):
            return line.left_in_matrices
        if not isinstance(name_of(line.left), Array):
            return text(line.left, self.names), tex(line.left, self.names)
        whole = Matrices(self.names).entry(line.left)
        if name_of(line.left) not in self.short_names:
            return whole.text, whole.tex
        short = Matrices(self.names, self.short_names).entry(line.left)
        return f"{short.text} = {whole.text}", f"{short.tex} = {whole.tex}"

    def matrix(self) -> list[MatrixFormula]:
        """The lines in matrix notation, ∂𝓛/∂W = Xᵀ G, those whose sums are all matrix products.

        G is the gradient of an inner name or of the result; G_A, G_S where there are several.
        index_calculus/matrices.py writes the forms.
        """
        forms = (self.in_matrices(line) for group in (self.lines, *self.groups) for line in group)
        return [form for form in forms if form is not None]

    def latex(self) -> str:
        """All lines as LaTeX, one below the other."""
        lines = [x.latex().replace(" = ", " &= ", 1) for group in (self.lines, *self.groups) for x in group]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def _repr_html_(self) -> str | None:
        """The derivation in a notebook: the lines, typeset, with their matrix forms beside them."""
        first, *below = map(self._rows, (self.lines, *self.groups))
        proved = f"<p><b>{escape(self.verdict)}</b></p>"
        assumed = "".join(f"<li>{sentence(assumption)}</li>" for assumption in self.assumptions)
        more = f"<details><summary>assumptions</summary><ul>{assumed}</ul></details>"
        return shown(f"<p>{escape(self.name)}</p>", first, f"<p>{escape(self.title)}</p>", *below, proved, more)

    def _rows(self, lines: list[Formula]) -> str | None:
        """Lines as a table; None, for which a notebook takes LaTeX or text, if one could not be typeset."""
        rows = []
        for line in lines:
            beside = self._matrix_form(line)
            cells = [formula(line.latex()), formula(beside[1]) if beside else ""]
            if None in cells:
                return None
            rows.append(f"<tr><td>{cells[0]}</td><td>{cells[1]}</td></tr>")
        return f'<div class="wide" style="padding: 0"><table>{"".join(rows)}</table></div>'

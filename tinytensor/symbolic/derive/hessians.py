"""Hessians in blocks, and Jacobians of results that are no numbers, for any size, with their proof.

A block ∂²𝓛/∂a∂b is the derivative of the gradient by a, line by line (forward_mode.py): each line of the function and
each adjoint has its derivative by b, and each of these is proved equal to SymPy's derivative of that line, by normal
forms. A Jacobian is the vector-Jacobian product of the first derivation with 1 in one place. Both are then compared in
numbers with the engine's double backward, and with differences of its gradients.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from html import escape

import numpy as np
from sympy import Add, Expr, Indexed, KroneckerDelta, Mul, S, Symbol

from tinytensor.core.tensor import Tensor
from tinytensor.display.notebook import formula, sentence, shown
from tinytensor.symbolic.derive.adjoints import simplifier_of
from tinytensor.symbolic.derive.conditions import in_words, restrictions, verdict
from tinytensor.symbolic.derive.derivation import Derivation, Formula, MatrixFormula, Typeset
from tinytensor.symbolic.derive.forward_mode import (
    Entry,
    Slopes,
    plain_moved,
    shortest,
    with_first_indices,
    with_one_hot,
)
from tinytensor.symbolic.derive.samples import Sample, excuses, mismatch
from tinytensor.symbolic.derive.second_samples import (
    ENTRIES,
    SecondSample,
    agree,
    differences_agree,
    hessian_block,
    second_sample,
    times_left,
)
from tinytensor.symbolic.derive.source import Source, evaluate, evaluate_at
from tinytensor.symbolic.derive.trace import format_sizes
from tinytensor.symbolic.derive.values import Value
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d, expanded, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, Index, free, fresh, normal
from tinytensor.symbolic.index_calculus.functions import detach
from tinytensor.symbolic.index_calculus.matrices import Matrices, Matrix, NoMatrixForm
from tinytensor.symbolic.index_calculus.notation import tex, text
from tinytensor.symbolic.index_calculus.vanishing import Theorem, together, vanishes
from tinytensor.symbolic.reading.errors import NotDerivable

Block = tuple[str, str]  # two arguments, or a result and an argument
FAR = 0.01  # numbers from 0, where differences are compared


class BlockFormula(Formula):
    """A block of a Hessian or a Jacobian: ∂²𝓛/∂a_i∂b_j, or ∂Y_i/∂b_j, in index notation.

    of, by: the entries a_i and b_j; the result itself for a Jacobian.
    """

    def __init__(self, line: Definition, of: Expr, by: Expr, second: bool, names: Sequence[Name] = ()):
        super().__init__(line, names)
        self.of, self.by, self.second = of, by, second

    @property
    def indices(self) -> tuple:
        """The indices on the left, those of the two entries."""
        return tuple(i for e in (self.of, self.by) for i in getattr(e, "indices", ()))

    def __str__(self) -> str:
        above, below = ("∂²𝓛", "∂{}∂{}") if self.second else ("∂{}", "∂{}")
        left = f"{above}/{below}".format(text(self.of, self.names), text(self.by, self.names))
        return f"{left} = {text(self.right, self.names)}"

    __repr__ = __str__

    def latex(self) -> str:
        """The formula as LaTeX, without dollar signs."""
        of, by = tex(self.of, self.names), tex(self.by, self.names)
        if self.second:
            left = rf"\frac{{\partial^2\mathcal{{L}}}}{{\partial {of}\,\partial {by}}}"
        else:
            left = rf"\frac{{\partial {of}}}{{\partial {by}}}"
        return f"{left} = {tex(self.right, self.names)}"


class BlockMatrices(Matrices):
    """Matrix forms of blocks: δ(i, j) v_i is diag(v), and δ(i, j) the identity."""

    def product(self, inside: Expr, over: list[Index], rows, columns) -> Matrix:
        """A product of entries; one with a delta of rows and columns is a diagonal matrix."""
        deltas = [f for f in Mul.make_args(inside) if isinstance(f, KroneckerDelta) and set(f.args) == {rows, columns}]
        if not deltas or rows is None or columns is None:
            if isinstance(inside, Mul) and any(isinstance(f, Add) and f.has(KroneckerDelta) for f in inside.args):
                spread = inside.expand(deep=False)
                if isinstance(spread, Add) and not over:
                    return self.of(spread, rows, columns)
            return super().product(inside, over, rows, columns)
        rest = (inside / deltas[0]).xreplace({columns: rows})
        if not free(rest):
            return self.scale_by(self.delta(deltas[0], rows, columns), rest)
        vector = self.broadcast_to(super().product(rest, over, rows, None), rows, None)
        number = self.diagonal(vector)
        return Matrix(number.text, number.tex, number.code, rows, columns, number.level)

    def delta(self, expr: KroneckerDelta, rows=None, columns=None) -> Matrix:
        """The identity where both arguments are indices."""
        if not all(isinstance(a, Index) for a in expr.args):
            return super().delta(expr)
        rows, columns = (rows, columns) if rows is not None else expr.args
        return Matrix("I", "I", f"np.eye({self.writer.number(rows.size).text})", rows, columns)


class Derivatives(Typeset):
    """Formulas that follow from a derivation, with their proof: the common part of `Hessian` and `Jacobian`."""

    title = ""

    def __init__(self, derivation: Derivation, wrt: Iterable[str] = ()):
        self.derivation, self.derived = derivation, derivation.derived
        self.name, self.where, self.limit = derivation.name, derivation.where, derivation.limit
        if self.derived.recurrences:
            raise NotDerivable(
                f"derive: {derivation.name}: a recurrence has first derivatives alone; give the number of its steps "
                "as a number instead of a size"
            )
        names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        if unknown := [n for n in names if n not in derivation.gradients]:
            raise ValueError(
                f"derive: wrt has {unknown[0]!r}; the arguments that have a derivative are "
                f"{', '.join(derivation.gradients)}"
            )
        self.wrt = names or tuple(derivation.gradients)
        self.unproved: list[str] = list(self.derived.unproved)
        self.theorems: list[Theorem] = []
        self.names = derivation.names
        self.simplify = simplifier_of(self.derived)
        self.blocks: dict[Block, BlockFormula] = {}

    # ------------------------------------------------------------------------------------------------ formulas

    def entry_of(self, name: str, used: Sequence[Index] = ()) -> Expr:
        """An entry of an argument, with letters for its indices that are not used."""
        array, argument = self.derived.trace.arrays[name], self.derived.trace.tensors[name]
        at = Value(argument.dims, None).indices(used)
        return array[tuple(at)] if at else array

    def shorten(self, expr: Expr, by: Expr) -> Expr:
        """The shortest form of a derivative by an entry."""
        return shortest(expr, self.derived.forward, self.simplify, getattr(by, "indices", ()))

    def is_zero(self, expr: Expr) -> bool:
        """Is an expression 0, in the names of the function, or with some of their definitions?

        Conditions on values under which it is so are noted.
        """
        inner = [x for g in self.derived.groups if g.closed or len(g.lines) > 1 for x in g.lines]
        adjoints = list(self.derived.adjoints.values())
        ways = ([], inner, adjoints, [*self.derived.forward, *adjoints])
        theorem = vanishes((expanded(expr, lines) for lines in ways), self.derived.facts)
        if theorem is None or "equality" in theorem.hypotheses:
            return False
        self.theorems.append(theorem)
        return True

    @cached_property
    def arrays(self) -> dict[Block, Array | Symbol]:
        """A name in code for each block."""
        taken = {str(getattr(n, "label", n)) for n in (*self.names, *self.derived.trace.arrays.values())}
        result = {}
        for block, one in self.blocks.items():
            name = self.prefix + "_".join(["", *block])
            while name in taken:
                name += "_"
            taken.add(name)
            sizes = tuple(i.size for e in (one.of, one.by) for i in getattr(e, "indices", ()))
            result[block] = Array(name, sizes) if sizes else Symbol(name, real=True)
        return result

    prefix = "D"

    def _entry_in_code(self, block: Block) -> Expr:
        one, array = self.blocks[block], self.arrays[block]
        at = tuple(i for e in (one.of, one.by) for i in getattr(e, "indices", ()))
        return array[at] if at else array

    def _dims(self, name: str):
        return self.derived.trace.tensors[name].dims

    def _lines(self) -> dict[Block, tuple[Definition, tuple]]:
        """The blocks as lines of a program, and their dimensions."""
        return {
            block: (
                Definition(self._entry_in_code(block), one.right),
                (*self._dims_of(block[0]), *self._dims(block[1])),
            )
            for block, one in self.blocks.items()
        }

    def _dims_of(self, name: str):
        return self._dims(name)

    # ------------------------------------------------------------------------------------------------ the program

    @cached_property
    def _program(self) -> Source:
        return Source(self.derivation.name, self.derived, self._lines(), self.with_gradients)

    with_gradients = True

    def source(self) -> str:
        """Python on NumPy, which runs alone: a function that returns the value, the gradients and the blocks."""
        return self._program.text()

    def evaluate(self, **arrays) -> dict:
        """The value, the gradients and the blocks at arrays: a run of `source()`; see Derivation.evaluate."""
        return evaluate(self._program, arrays)

    def at(self, one: Sample) -> dict | None:
        """The same at a point of the samples; None if the formulas have no numbers there."""
        return evaluate_at(self._program, one)

    # ------------------------------------------------------------------------------------------------ for `check`

    @property
    def gradients(self) -> dict[Block, BlockFormula]:
        """The blocks, as `check` reads them."""
        return self.blocks

    @property
    def stopped(self) -> str:
        """While what the derivation was ended by its time limit; empty if it was not."""
        return self.derivation.stopped

    @property
    def refused(self) -> str:
        """The sizes that the function itself refuses."""
        return self.derivation.refused

    @property
    def samples(self) -> list[Sample]:
        """The points at which blocks are compared in numbers."""
        return [one for one in self.derivation.samples if self._is_small(one)]

    def inside(self, one: Sample) -> bool:
        """Does the point meet the conditions on sizes?"""
        return self.derivation.inside(one)

    def entry(self, block: Block) -> tuple[Expr, Expr]:
        """An entry of a block, and its formula in names of the function alone."""
        return self._entry_in_code(block), expanded(self.blocks[block].right, list(self.derived.adjoints.values()))

    def in_first_indices(self, expr: Expr, block: Block) -> Expr:
        """A formula for a block with the first of two indices that a delta makes equal."""
        one = self.blocks[block]
        return with_first_indices(expr, *(getattr(e, "indices", ()) for e in (one.of, one.by)))

    def label(self, block: Block) -> str:
        """A block in words: ∂²𝓛/∂w∂b, ∂Y/∂x."""
        return "∂²𝓛/∂{}∂{}".format(*block) if self.blocks[block].second else "∂{}/∂{}".format(*block)

    def shape(self, block: Block) -> tuple[Expr, ...]:
        """The shape of a block."""
        return tuple(Mul(*dim) for dim in (*self._dims_of(block[0]), *self._dims(block[1])))

    def mismatch(self, one: Sample, block: Block, own: np.ndarray) -> str:
        """The first entry in which a block by hand differs from the engine's at a point, in words."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ the verdict

    def differs_at(self, one: Sample, seed: int) -> str:
        """What differs from the engine at a point, in words; empty if nothing does."""
        raise NotImplementedError

    @cached_property
    def _compared(self) -> tuple[str, set[str]]:
        needed: set[str] = set()
        plain = 0
        for seed, one in enumerate(self.derivation.samples):
            if not self._is_small(one) or not self.inside(one):
                continue
            differs = self.differs_at(one, seed)
            if differs:
                edges = excuses(one.edges - {"equality"}, one.inputs)
                edges |= {"denominator"} if self._undefined_at(one) else set()
                if not edges:
                    return f"{differs} at {format_sizes(one.at) or 'this function'}", needed
                needed |= edges
            plain += not differs and not one.edges - {"equality"}
        return ("" if plain else "at no point that was tried are all conditions met"), needed

    def _is_small(self, one: Sample) -> bool:
        """Has each block few entries at a point?"""
        return all(np.prod(self.shape_at(one, block), dtype=float) <= ENTRIES for block in self.blocks)

    def shape_at(self, one: Sample, block: Block) -> tuple[int, ...]:
        """The shape of a block at a point."""
        first = tuple(one.inputs[block[0]].shape) if self.with_gradients else np.shape(one.value)
        return (*first, *one.inputs[block[1]].shape)

    def _undefined_at(self, one: Sample) -> bool:
        values = self.at(one)
        return self._divides and values is not None and not all(np.isfinite(x).all() for x in values.values())

    @cached_property
    def _divides(self) -> bool:
        return self.derived.trace.lines.signs.divides(*(one.right for one in self.blocks.values()))

    @property
    def differs(self) -> str:
        """Where the formulas and the engine differ by more than rounding; empty if nowhere."""
        return self.derivation.differs or self._compared[0]

    @property
    def known(self) -> Theorem:
        """What is proved of the blocks and of the first derivation."""
        return together([self.derivation.known, *self.theorems], self._compared[1])

    @property
    def theorem(self) -> Theorem | None:
        """That each block is equal to the derivative, with the conditions; None if something is not proved."""
        return None if self.derivation.theorem is None or self.unproved or self.differs else self.known

    @property
    def proved(self) -> bool:
        """Is each block proved, and the first derivation, for all sizes and values that meet the conditions?"""
        return self.derivation.proved and self.theorem is not None

    def __bool__(self) -> bool:
        return self.proved

    @property
    def value_conditions(self) -> tuple[str, ...]:
        """The conditions on values, in words: those of the gradients."""
        return in_words(self.known)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the proof rests on, besides what is trusted."""
        held = ["what detach() holds constant is constant in second derivatives, too"] * self.holds
        return tuple(dict.fromkeys((*self.derivation.assumptions, *held, *self.value_conditions)))

    @property
    def size_conditions(self) -> tuple:
        """The conditions on sizes."""
        return self.derivation.size_conditions

    @property
    def verdict(self) -> str:
        """Whether all blocks are proved, and under which conditions, in words."""
        if not self.derivation.proved:
            return self.derivation.verdict
        if self.unproved:
            return f"NOT proved: {', '.join(self.unproved)}"
        if self.differs:
            return f"NOT proved: {self.differs}"
        first = self.derivation
        restricted = restrictions(first.size_conditions, first.where, first.samples)
        return verdict(self.theorem, restricted, first.refused)

    def compares_differences(self, one: Sample) -> bool:
        """Are differences close to derivatives at a point? Not near zeros, where a small eps may make a sharp bend."""
        floats = [x.detach().numpy() for x in one.inputs.values() if isinstance(x, Tensor) and x.requires_grad]
        return not one.edges and not self.holds and all((np.abs(x) > FAR).all() for x in floats)

    @cached_property
    def holds(self) -> bool:
        """Does detach() hold a number constant? Differences of gradients see it move, derivatives do not."""
        return any(x.right.has(detach) for x in (*self.derived.forward, *self.derived.adjoints.values()))

    # ------------------------------------------------------------------------------------------------ in print

    @property
    def shown_blocks(self) -> list[BlockFormula]:
        """The blocks that are printed."""
        return list(self.blocks.values())

    def matrix(self) -> list[MatrixFormula]:
        """The lines and the blocks in matrix notation, where all sums are matrix products."""
        first = map(self.derivation._in_matrices, self.first_lines)
        return [m for m in (*first, *map(self.in_matrices, self.shown_blocks)) if m is not None]

    def in_matrices(self, one: BlockFormula) -> MatrixFormula | None:
        """A block in matrix notation; None if it has more than two indices, or no such form."""
        at = [i for e in (one.of, one.by) for i in getattr(e, "indices", ())]
        if one.right == 0 or len(at) != 2 or any(len(getattr(e, "indices", ())) > 1 for e in (one.of, one.by)):
            return None
        left = Array("block", tuple(i.size for i in at))[tuple(at)]
        short = self.derivation._gradients_in_matrices
        try:
            right = BlockMatrices(self.names, short).form(left, one.right)
        except NoMatrixForm:
            return None
        if right is None:
            return None
        names = [str(getattr(name_of(e), "text", e)) for e in (one.of, one.by)]
        typeset = [tex(e, self.names).partition("_")[0] for e in (one.of, one.by)]
        if one.second:
            shown_left = f"∂²𝓛/∂{names[0]}∂{names[1]}ᵀ"
            tex_left = rf"\frac{{\partial^2\mathcal{{L}}}}{{\partial {typeset[0]}\,\partial {typeset[1]}^{{\top}}}}"
        else:
            shown_left = f"∂{names[0]}/∂{names[1]}"
            tex_left = rf"\frac{{\partial {typeset[0]}}}{{\partial {typeset[1]}}}"
        return MatrixFormula(one, shown_left, tex_left, right)

    def latex(self) -> str:
        """All lines as LaTeX, one below the other."""
        lines = [x.latex().replace(" = ", " &= ", 1) for x in (*self.first_lines, *self.shown_blocks)]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    @property
    def first_lines(self) -> list[Formula]:
        """The lines of the function, and those of the gradients that are shown."""
        return [*self.derivation.lines, *self.adjoints]

    @property
    def adjoints(self) -> list[Formula]:
        """The gradients that are shown."""
        return []

    def adjoints_in(self, formulas: Iterable[Expr], names: Iterable[Name] = ()) -> list[Formula]:
        """The gradients with these names, those in these formulas, and those that they use."""
        lines = self.derived.adjoints
        waiting = [*names, *(n for right in formulas for n in names_in(right))]
        used: set[Name] = set()
        while waiting:
            name = waiting.pop()
            if name in lines and name not in used:
                used.add(name)
                waiting += names_in(lines[name].right)
        return [x for x, line in zip(self.derivation.adjoints, lines.values(), strict=True) if line.name in used]

    def rows(self) -> list[tuple[str, str]]:
        """The blocks as text, each with its matrix form beside it."""
        return [(str(one), str(self.in_matrices(one) or "")) for one in self.shown_blocks]

    def __str__(self) -> str:
        first = self.derivation
        forward = "\n".join(first._two_columns(first.lines))
        rows = self.rows()
        width = max((len(one) for one, beside in rows if beside and len(one) <= 60), default=0)
        blocks = [f"    {one:<{width}}    {beside}" if beside else f"    {one}" for one, beside in rows]
        backward = first._two_columns(self.adjoints)
        middle = "\n".join([self.title, *backward, *blocks])
        return f"{first.name}:\n{forward}\n\n{middle}\n\n{self.verdict}"

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        """The derivation in a notebook: the lines, typeset."""
        rows = []
        for one in (*self.first_lines, *self.shown_blocks):
            beside = self.in_matrices(one) if isinstance(one, BlockFormula) else None
            cells = [formula(one.latex()), formula(beside.latex()) if beside else ""]
            if None in cells:
                return None
            rows.append(f"<tr><td>{cells[0]}</td><td>{cells[1]}</td></tr>")
        table = f'<div class="wide" style="padding: 0"><table>{"".join(rows)}</table></div>'
        assumed = "".join(f"<li>{sentence(one)}</li>" for one in self.assumptions)
        more = f"<details><summary>assumptions</summary><ul>{assumed}</ul></details>"
        return shown(f"<p>{escape(self.derivation.name)}</p>", table, f"<p><b>{escape(self.verdict)}</b></p>", more)


class Hessian(Derivatives):
    """The second derivatives of a function's number, in blocks, with their proof; see `derive(..., order=2)`.

    hessian: the formula of each block, by its two arguments: `hessian["w", "b"]` is ∂²𝓛/∂w∂b. derivation: the first
    derivatives.
    """

    prefix = "H"

    def __init__(self, derivation: Derivation, wrt: Iterable[str] = ()):
        super().__init__(derivation, wrt)
        if isinstance(self.derived.output, Indexed):
            raise NotDerivable(
                "derive: order=2 needs a function whose result is a number; reduce it, as in .sum(), or ask for its "
                "Jacobian by jacobian=True"
            )
        slopes: dict[str, dict[Expr, Slopes]] = {}
        for first in self.wrt:
            gradient = self.derived.adjoints[d(self.derived.trace.arrays[first])]
            for other in self.wrt:
                by = self.entry_of(other, getattr(gradient.left, "indices", ()))
                own = slopes.setdefault(other, {})
                own[by] = own.get(by) or self._slopes(by)
                entry = own[by].of(gradient.name)
                self._prove(own[by], gradient.name, f"∂²𝓛/∂{first}∂{other}")
                right = S.Zero if entry is None else entry.right
                array = self.derived.trace.arrays[first]
                at = getattr(gradient.left, "indices", ())
                of = array[at] if at else array
                line = Definition(gradient.left, right)
                self.blocks[first, other] = BlockFormula(line, of, by, True, self.names)

    @property
    def hessian(self) -> dict[Block, BlockFormula]:
        """The formula of each block, by its two arguments."""
        return self.blocks

    def _slopes(self, by: Expr) -> Slopes:
        derived = self.derived
        closed = {
            g.output.name: g.closed for g in derived.groups if g.closed and g.output.name != name_of(derived.output)
        }
        line = derived.adjoints[d(name_of(by))]
        loss = Entry(derived.output, line.at(by))
        lines = [*derived.forward, *derived.adjoints.values()]
        return Slopes(lines, by, closed, lambda e: self.shorten(e, by), {derived.output: loss})

    def _prove(self, slopes: Slopes, name: Name, what: str) -> None:
        """Prove the derivative of each line on which this one rests: that of the line, by SymPy, is the same."""
        waiting, seen = [name], slopes.proved
        while waiting:
            one = waiting.pop()
            if one in seen or one not in slopes.lines or one == self.derived.output:
                continue
            seen.add(one)
            line = slopes.lines[one]
            waiting += sorted(names_in(line.right), key=str)
            own = slopes.of(one)
            plain = plain_moved(line, slopes)
            if not self.is_zero((S.Zero if own is None else own.right) - plain):
                slopes.failed.add(one)
        if slopes.failed and what not in self.unproved:
            self.unproved.append(what)

    @property
    def title(self) -> str:
        """What stands above the blocks."""
        return "𝓛: the result" if self.derived.output.name == "loss" else f"𝓛: {self.derived.output.name}, the result"

    @property
    def adjoints(self) -> list[Formula]:
        """The gradients by the arguments of the blocks, and those that they or the blocks use."""
        names = [d(self.derived.trace.arrays[n]) for n in self.wrt]
        return self.adjoints_in((one.right for one in self.blocks.values()), names)

    @property
    def shown_blocks(self) -> list[BlockFormula]:
        """The blocks, one of ∂²𝓛/∂a∂b and ∂²𝓛/∂b∂a."""
        order = {name: n for n, name in enumerate(self.wrt)}
        return [one for (a, b), one in self.blocks.items() if order[a] <= order[b]]

    # ------------------------------------------------------------------------------------------------ numbers

    @cached_property
    def second_samples(self) -> dict[int, SecondSample]:
        """The engine's second derivatives at the points of the samples, by their numbers."""
        return {}

    def second(self, one: Sample, seed: int) -> SecondSample:
        """The engine's second derivatives at a point."""
        if seed not in self.second_samples:
            self.second_samples[seed] = second_sample(self.derivation.fn, one, self.wrt, seed)
        return self.second_samples[seed]

    def differs_at(self, one: Sample, seed: int) -> str:
        """What differs from the engine at a point, in words; empty if nothing does."""
        values, engine = self.at(one), self.second(one, seed)
        if values is None:
            return "the formulas have no value"
        for (a, b), wanted in engine.rows.items():
            own, left = values[a, b], engine.left[a]
            if not np.isfinite(wanted).all():
                continue
            if not agree(times_left(left, own), wanted, times_left(np.abs(left), np.abs(own))):
                return f"∂²𝓛/∂{a}∂{b} does not match the engine's double backward"
        blocks = {block: values[block] for block in self.blocks}
        if self.compares_differences(one) and not differences_agree(self.derivation.fn, one, self.wrt, blocks, seed):
            return "the Hessian does not match finite differences of the gradients"
        return ""

    def mismatch(self, one: Sample, block: Block, own: np.ndarray) -> str:
        """The first entry in which a block by hand differs from the engine's at a point, in words."""
        shape = self.shape_at(one, block)
        if own.shape != shape:
            return f": the block has the shape {shape}, by hand {own.shape}"
        seed = next(n for n, other in enumerate(self.derivation.samples) if other is one)
        engine = self.second(one, seed)
        if engine.error:
            values = self.at(one)
            return mismatch(own * np.nan if values is None else values[block], own)
        left, wanted = engine.left[block[0]], engine.rows[block]
        if agree(times_left(left, own), wanted, times_left(np.abs(left), np.abs(own))):
            return ""
        whole = mismatch(hessian_block(self.derivation.fn, one, self.wrt, block), own)
        return whole or ": a product with the Hessian differs"


class Jacobian(Derivatives):
    """The Jacobian of a function's array, ∂Y/∂x by arguments, with its proof; see `derive(..., jacobian=True)`.

    jacobian: the formula for each argument. derivation: the same function with a gradient that arrives at its result,
    which is the vector-Jacobian product.
    """

    prefix, with_gradients = "J", False

    @property
    def title(self) -> str:
        """What stands above the blocks."""
        return f"the Jacobian of {self.output}"

    def __init__(self, derivation: Derivation, wrt: Iterable[str] = ()):
        super().__init__(derivation, wrt)
        derived, output = self.derived, self.derived.output
        at = getattr(output, "indices", ())
        self.output = str(getattr(name_of(output), "label", output))
        adjoints = list(derived.adjoints.values())
        for name in self.wrt:
            by = self.entry_of(name, at)
            line = derived.adjoints[d(derived.trace.arrays[name])]
            product = expanded(line.at(by), adjoints)
            hot = with_one_hot(product, d(name_of(output)), at) if at else product
            right = self.shorten(hot, by)
            if not self.is_zero(right - self._plain(product, at)):
                self.unproved.append(f"∂{self.output}/∂{name}")
            self.blocks[self.output, name] = BlockFormula(Definition(output, right), output, by, False, self.names)

    def _plain(self, product: Expr, at: Sequence[Index]) -> Expr:
        """The vector-Jacobian product with 1 in one place, as a normal form."""
        if not at:
            return product
        arriving, product = d(name_of(self.derived.output)), fresh(product)
        ones = {
            e: Mul(*[KroneckerDelta(i, j) for i, j in zip(e.indices, at, strict=True)])
            for e in product.atoms(Indexed)
            if e.base == arriving
        }
        return normal(product.xreplace(ones))

    @property
    def jacobian(self) -> dict[str, BlockFormula]:
        """The formula for each argument."""
        return {name: one for (_, name), one in self.blocks.items()}

    def _dims_of(self, name: str):
        return self.derived.trace.result.dims

    def differs_at(self, one: Sample, seed: int) -> str:
        """What differs from backward() at a point, in words; empty if nothing does."""
        values = self.at(one)
        if values is None:
            return "the formulas have no value"
        left = np.ones(()) if one.upstream is None else one.upstream
        for (_, name), own in ((block, values[block]) for block in self.blocks):
            wanted = one.gradients[name]
            if not agree(times_left(left, own), wanted, times_left(np.abs(left), np.abs(own))):
                return f"∂{self.output}/∂{name} does not match backward()"
        return ""

    def mismatch(self, one: Sample, block: Block, own: np.ndarray) -> str:
        """The first entry in which a block by hand differs from the derived one at a point, in words."""
        values = self.at(one)
        if values is None:
            return ": the derived block has no value"
        if own.shape != values[block].shape:
            return f": the block has the shape {values[block].shape}, by hand {own.shape}"
        left = np.ones(()) if one.upstream is None else one.upstream
        wanted = one.gradients[block[1]]
        if agree(times_left(left, own), wanted, times_left(np.abs(left), np.abs(own))):
            return mismatch(values[block], own)
        return mismatch(values[block], own) or ": a product with the Jacobian differs"

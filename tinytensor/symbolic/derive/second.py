"""Hessians, Jacobians and their products with a direction, for any size, with their proof.

A direction of the arguments goes forward through the lines of a program: Ȧ is the derivative of A in this direction. So
does the derivative of each adjoint: ∂𝓛̇/∂W is the part of the Hessian-vector product that belongs to W (Pearlmutter
1994, Fast Exact Multiplication by the Hessian). A gradient is a program as the function is: its lines are
differentiated by the same rules, and their shorter forms proved and chosen by the same function (adjoints.py). What is
derived is a choice of lines and of a direction:

    jvp           the lines of the function
    hvp           these, and those of its gradients
    gauss_newton  the lines up to the result z of a model; the Hessian of the loss in z; back through the adjoints of z
    order=2       those of hvp, for a direction that is 1 in one place and 0 elsewhere: the block ∂²𝓛/∂a∂b
    jacobian=True the gradients of the function, for an arriving gradient that is 1 in one place: ∂Y/∂a

All are compared in numbers with the engine, and with differences, as products with a random direction.
"""

import itertools
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from sympy import Add, Expr, Indexed, S, Symbol

from tinytensor.core import late_bound
from tinytensor.symbolic.derive.adjoints import inlined, lines_to, proved_forms, reachable, simplifier_of
from tinytensor.symbolic.derive.derivation import Derivation
from tinytensor.symbolic.derive.forward_mode import (
    Moved,
    contracted,
    shortest,
    with_first_indices,
    with_one_hot,
    words_of,
)
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.results import Block, Formula, Key, MatrixFormula, Result
from tinytensor.symbolic.derive.samples import Sample, mismatch, small_enough
from tinytensor.symbolic.derive.second_samples import ENTRIES, of_gauss_newton, of_gradients, of_value
from tinytensor.symbolic.derive.source import evaluate_at
from tinytensor.symbolic.derive.values import Value, as_plain_entry, entry_like, renamed
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d, expanded, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, free, total
from tinytensor.symbolic.index_calculus.functions import detach
from tinytensor.symbolic.index_calculus.linear_algebra import Cholesky, OfMatrix, SymmetricArray
from tinytensor.symbolic.index_calculus.numpy_printer import label
from tinytensor.symbolic.index_calculus.vanishing import Theorem, together
from tinytensor.symbolic.prove.progress import TooLong
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.reading.tensors import terms_of

NEAR = 0.01  # to 0: numbers at which differences are not compared


class Second(Result):
    """Derivatives of the lines of a derivation: blocks of a matrix, or its product with a direction.

    derivation: the first derivatives. wrt: the arguments by which these are. directions: the name of the direction for
    each argument, Ẇ in formulas and W_dot in `evaluate`.
    """

    about = ""
    shown_blocks: list[Formula]  # the lines that are printed below the gradients
    engine = staticmethod(of_gradients)  # the comparison: of derivatives of the gradients, or of the value
    with_gradients = False  # are the gradients shown, and computed, too?

    def __init__(self, derivation: Derivation, wrt: Iterable[str] = ()):
        self.derivation, self.derived = derivation, derivation.derived
        self.name, self.where, self.names = derivation.name, derivation.where, derivation.names
        self.short_names = derivation.short_names
        self.limit, self.progress, self.lines = derivation.limit, derivation.progress, derivation.lines
        if self.derived.recurrences:
            raise NotDerivable(
                f"derive: {derivation.name}: a recurrence has first derivatives alone; give the number of its steps "
                "as a number instead of a size"
            )
        if self.derived.stopped:  # there are no gradients
            raise TooLong
        names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        if unknown := [n for n in names if n not in derivation.gradients]:
            raise ValueError(
                f"derive: wrt has {unknown[0]!r}; the arguments that have a derivative are "
                f"{', '.join(derivation.gradients)}"
            )
        self.wrt = names or tuple(derivation.gradients)
        self.theorems: list[Theorem] = []
        self.simplify = simplifier_of(self.derived)
        self.arrays = self.derived.trace.arrays
        self.output = name_of(self.derived.output)
        names = (*self.arrays.values(), *self.derived.trace.lines.constants, *self.names, *self.derived.raw)
        self.taken = set().union(*map(words_of, names))  # no other name is one of these
        self.gradients: dict[Key, Formula] = {}
        self.derive()

    def derive(self) -> None:
        """Write the lines, and prove each."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ the proof

    def in_forms(
        self, raw: dict[Name, Definition], forms: dict[Name, Definition], wanted: Iterable[Name]
    ) -> dict[Name, Definition]:
        """The lines that lead to those that are wanted, each in its form if that is proved to be the raw line."""
        lines, theorems = proved_forms(self.derived, raw, forms, list(wanted))
        self.theorems += theorems
        return lines

    def move_gradients(self, moved: Moved, known: dict[Name, Name]) -> dict[str, Name]:
        """The derivatives of the lines and of the adjoints, forward: the names of those of the gradients."""
        adjoints = self.differentiable(known)
        lines = {n: adjoints[d(self.arrays[n])] for n in self.wrt}
        first = [(adjoints[d(array)], direction) for array, direction in known.items()]
        by_gradients = [total(x.right * entry_like(x.left, by), *getattr(x.left, "indices", ())) for x, by in first]
        moved.symmetric = {known[array] for array in self.factored if array in known}
        moved.move(self.derived.forward, known, {self.output: Add(*by_gradients)})
        moved.move(reachable(adjoints, [x.name for x in lines.values()]).values(), known)
        return {n: moved.result(line, known) for n, line in lines.items()}

    @cached_property
    def factored(self) -> set[Array]:
        """The symmetric matrices S of which the function reads the Cholesky factor alone, also that of c S + B.

        chol(S) is that of (S + Sᵀ)/2, so that the gradient in a direction V changes as in (V + Vᵀ)/2: along this one S
        stays symmetric, and what is equal at symmetric matrices has equal derivatives.
        """
        symmetric = (array for array in self.arrays.values() if isinstance(array, SymmetricArray))
        return {array for array in symmetric if self._is_factored(array)}

    def _is_factored(self, array: Array) -> bool:
        """Does the function read the Cholesky factor of an array alone, perhaps of c S + B for the array S?"""
        for line in self.derived.forward:
            right = line.right.xreplace({e: S.One for e in line.right.atoms(OfMatrix) if e.matrix.has(Cholesky(array))})
            if array not in names_in(right):
                continue
            if not isinstance(line.left, Indexed) or line.name.sizes != array.sizes:
                return False
            number = right.coeff(array[line.left.indices])
            remainder = right - number * array[line.left.indices]
            if free(number) or array in names_in(number) | names_in(remainder) or not self._is_factored(line.name):
                return False
        return True

    def differentiable(self, directions: Iterable[Name]) -> dict[Name, Definition]:
        """The adjoints in forms that may be differentiated by these arguments, whose equality holds along the way.

        Those of a gradient may be equal at symmetric matrices alone.
        """
        if not any(isinstance(name, SymmetricArray) and name not in self.factored for name in directions):
            return self.derived.adjoints
        raw = list(self.derived.raw.values())
        return {x.name: Definition(x.left, expanded(x.right, raw)) for x in raw}

    @cached_property
    def known(self) -> Theorem:
        """What is proved of the gradients and of their derivatives, where numbers do not refute it either."""
        return together([self.derivation.known, *self.theorems], self._compared[1])

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the proof rests on, besides what is trusted."""
        held = ["what detach() holds constant is constant in second derivatives, too"] * self.holds
        return tuple(dict.fromkeys((*self.derivation.assumptions, *held, *self.value_conditions)))

    @cached_property
    def holds(self) -> bool:
        """Does detach() hold a number constant? Differences of gradients see it move, derivatives do not."""
        return any(x.right.has(detach) for x in (*self.derived.forward, *self.derived.adjoints.values()))

    # ------------------------------------------------------------------------------------------------ numbers

    time = None, ""

    @property
    def samples(self) -> list[Sample]:
        """The points at which the formulas are compared with the function."""
        return self.derivation.samples

    def compare(self, *point) -> str | None:
        """What differs from the engine, or from differences, at a point, for a direction and the products with it."""
        with late_bound.pytorch_follows_us(), np.errstate(all="ignore"), double_precision():
            return self.engine(self.derivation.fn, *point)

    def differs_at(self, sample: Sample) -> tuple[str | None, bool]:
        """What differs from the engine, or from differences, at a point; and is a product NaN by the formulas?"""
        along = self.direction_at(sample, self.wrt)
        directions = [along]
        symmetric = {n: (x + x.T) / 2 for n, x in along.items() if isinstance(self.arrays[n], SymmetricArray)}
        if symmetric and any(line.right.has(Cholesky) for line in self.derived.forward):
            directions.append(along | symmetric)  # the engine factors a lower triangle: differences are of these
        for direction in directions:
            products = self.product_at(sample, direction)
            if products is None:
                return "the formulas have no value", False
            smooth = direction is directions[-1] and self.is_smooth(sample)
            differs = self.compare(sample, direction, products, smooth)
            if differs:
                break
        return differs and f"{self.about}{differs}", not all(np.isfinite(x).all() for x in products.values())

    def direction_at(self, sample: Sample, names: Iterable[str]) -> dict[str, np.ndarray]:
        """A random direction at a point."""
        rng = np.random.default_rng(0)
        return {n: rng.normal(size=tuple(sample.inputs[n].shape)) for n in names}

    def product_at(self, sample: Sample, along: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """The products with a direction by the formulas at a point; None if they have no numbers there."""
        raise NotImplementedError

    def is_smooth(self, sample: Sample) -> bool:
        """Are differences close to derivatives at a point? Not near zeros, where a small eps may make a sharp bend.

        Nor far from them, where large numbers cancel.
        """
        unsure = sample.far or any((np.abs(x) <= NEAR).any() for x in sample.floats)
        return not (sample.edges or self.holds or unsure)

    # ------------------------------------------------------------------------------------------------ in print

    @property
    def title(self) -> str:
        """What stands above the lines."""
        return self.derivation.title

    @property
    def results(self) -> dict[Key, Formula]:
        """What the program gives besides the value."""
        return self.derivation.gradients | self.gradients if self.with_gradients else self.gradients

    @property
    def adjoints(self) -> list[Formula]:
        """The gradients that the lines use, those by the arguments of a Hessian, and those that they use in turn."""
        wanted = [d(self.arrays[n]) for n in self.wrt] if self.with_gradients else []
        wanted += [n for x in self.shown_blocks for n in names_in(x.right)]
        used = reachable(self.derived.adjoints, wanted)
        pairs = zip(self.derivation.adjoints, self.derived.adjoints, strict=True)
        return [formula for formula, name in pairs if name in used]

    @property
    def groups(self) -> list[list[Formula]]:
        """What stands below the title: gradients, and the derivatives."""
        return [group for group in (self.adjoints, self.shown_blocks) if group]


# ------------------------------------------------------------------------------------------------ blocks


class Blocks(Second):
    """A matrix of derivatives in blocks, by the two names of each."""

    prefix = ""  # of the names in code
    pattern = "", ""  # of a block in text and in LaTeX

    def add(self, block: tuple[str, str], of: Expr, by: Expr, product: Expr, hot: Expr) -> None:
        """The block of the entry `of` by the entry `by`, from a product that is linear in a name.

        hot: the entry of that name which is 1, where all others are 0.
        """
        plain, by_indices = with_one_hot(product, hot), getattr(by, "indices", ())
        right = shortest(contracted(plain), self.derived.forward, self.simplify, by_indices)
        name = "_".join([self.prefix, *block])
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        indices = (*getattr(of, "indices", ()), *by_indices)
        left = Array(name, [i.size for i in indices])[indices] if indices else Symbol(name, real=True)
        raw, form = ({name_of(left): Definition(left, side)} for side in (plain, right))
        (line,) = self.in_forms(raw, form, raw).values()
        self.gradients[block] = Block(line, of, by, self.pattern, self.names, self.derived)

    @property
    def shown_blocks(self) -> list[Formula]:
        """The blocks, one of ∂²𝓛/∂a∂b and ∂²𝓛/∂b∂a."""
        return [
            x for (a, b), x in self.gradients.items() if a not in self.wrt or self.wrt.index(a) <= self.wrt.index(b)
        ]

    def label(self, block: tuple[str, str]) -> str:
        """A block in words: ∂²𝓛/∂w∂b, ∂Y/∂x."""
        return self.pattern[0].format(*block)

    # ------------------------------------------------------------------------------------------------ for `check`

    def in_first_indices(self, expr: Expr, block: tuple[str, str]) -> Expr:
        """A formula for a block with the first of two indices that a delta makes equal."""
        return with_first_indices(expr, getattr(self.gradients[block].by, "indices", ()))

    @property
    def samples(self) -> list[Sample]:
        """The points at which no block is too large."""
        return small_enough(self.derivation.samples, self._entries, ENTRIES)

    def _entries(self, sample: Sample) -> float:
        """The number of entries of the largest block at a point."""
        return max(np.prod(self._shape_at(sample, block), dtype=float) for block in self.gradients)

    def _shape_at(self, sample: Sample, block: tuple[str, str]) -> tuple[int, ...]:
        parts = (sample.inputs[n].shape if n in self.arrays else np.shape(sample.value) for n in block)
        return tuple(itertools.chain(*parts))

    def product_at(self, sample: Sample, along: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """The products with a direction by the formulas at a point; None if they have no numbers there."""
        values = evaluate_at(self._program, sample)
        if values is None:
            return None
        products: dict[str, np.ndarray] = {}
        for first, second in self.gradients:
            product = np.tensordot(values[first, second], along[second], along[second].ndim)
            products[first] = products.get(first, 0) + product
        return products

    def mismatch(self, sample: Sample, block: tuple[str, str], by_hand: np.ndarray) -> str:
        """The first entry in which a block by hand differs from the derived one at a point, if its product is wrong."""
        shape = self._shape_at(sample, block)
        if by_hand.shape != shape:
            return f": the block has the shape {shape}, by hand {by_hand.shape}"
        along = self.direction_at(sample, block[1:])
        product = np.tensordot(by_hand, along[block[1]], along[block[1]].ndim)
        differs = self.compare(sample, along, {block[0]: product}, False)
        if differs == "":
            return ""
        values = evaluate_at(self._program, sample)
        whole = mismatch(by_hand * np.nan if values is None else values[block], by_hand)
        return whole or (f": a product{differs}" if differs else "")


class Hessian(Blocks):
    """The second derivatives of a function's number, in blocks, with their proof; see `derive(..., order=2)`.

    hessian: the formula of each block, by its two arguments: `hessian["w", "b"]` is ∂²𝓛/∂w∂b. derivation: the first
    derivatives.
    """

    about, prefix, with_gradients = "the Hessian", "H", True
    contents = "The value, the gradients and the blocks by pairs of arguments"
    pattern = "∂²𝓛/∂{}∂{}", r"\frac{{\partial^2\mathcal{{L}}}}{{\partial {}\,\partial {}}}"

    def derive(self) -> None:
        """The product with a direction of each argument, and what it is for a direction that is 1 in one place."""
        if isinstance(self.derived.output, Indexed):
            raise NotDerivable(
                "derive: order=2 needs a function whose result is a number; reduce it, as in .sum(), or ask for its "
                "Jacobian by jacobian=True"
            )
        for second in self.wrt:
            moved = Moved(self.simplify, self.taken)
            direction = moved.dotted(self.arrays[second])
            results = self.move_gradients(moved, {self.arrays[second]: direction})
            lines = self.in_forms(moved.raw, moved.forms, results.values())
            for first, name in results.items():
                line = lines[name]
                of = entry_like(line.left, self.arrays[first])
                by = self.derived.trace.entry_of(second, getattr(of, "indices", ()))
                product = expanded(line.right, list(lines.values()))
                self.add((first, second), of, by, product, entry_like(by, direction))
        self.gradients = {(a, b): self.gradients[a, b] for a in self.wrt for b in self.wrt}

    @property
    def hessian(self) -> dict[tuple[str, str], Block]:
        """The formula of each block."""
        return self.gradients


class Jacobian(Blocks):
    """The Jacobian of a function's array, ∂Y/∂x by arguments, with its proof; see `derive(..., jacobian=True)`.

    jacobian: the formula for each argument. derivation: the same function with a gradient that arrives at its result,
    which is the vector-Jacobian product.
    """

    about, prefix, engine = "the Jacobian", "J", staticmethod(of_value)
    contents = "The value and the blocks by result and argument"
    pattern = "∂{}/∂{}", r"\frac{{\partial {}}}{{\partial {}}}"

    def derive(self) -> None:
        """The vector-Jacobian product for a gradient that arrives in one place."""
        output, adjoints = self.derived.output, self.derived.adjoints
        indices = getattr(output, "indices", ())
        for name in self.wrt:
            by = self.derived.trace.entry_of(name, indices)
            product = expanded(adjoints[d(self.arrays[name])].at(by), list(adjoints.values()))
            self.add((label(self.output), name), output, by, product, d(output))

    @property
    def jacobian(self) -> dict[str, Block]:
        """The formula for each argument."""
        return {name: block for (_, name), block in self.gradients.items()}

    @property
    def title(self) -> str:
        """What stands above the blocks."""
        return f"the Jacobian of {label(self.output)}"


# ------------------------------------------------------------------------------------------------ products


class Products(Second):
    """A product of a Jacobian, a Hessian or a Gauss-Newton matrix with a direction, as lines with their proof.

    products: the formula for each argument (of a Jacobian: of the result).
    """

    contents = "The value and the products by argument"

    def derive(self) -> None:
        """Write the lines, and put in those that are shorter in the place of their names."""
        moved = Moved(lambda expr: shortest(expr, self.derived.forward, self.simplify), self.taken)
        self.directions = {n: moved.dotted(self.arrays[n]) for n in self.wrt}
        results = self.move(moved, {self.arrays[n]: direction for n, direction in self.directions.items()})
        forms = inlined(moved.forms, list(results.values()), self.simplify)
        self.moved = self.in_forms(moved.raw, forms, results.values())
        self.names = (*self.names, *self.directions.values(), *self.moved)
        self.gradients = {n: Formula(self.moved[name], self.names, self.derived) for n, name in results.items()}
        self.between = [line for n, line in self.moved.items() if n not in results.values()]

    def move(self, moved: Moved, known: dict[Name, Name]) -> dict[str, Name]:
        """Make the lines; the names of the results."""
        raise NotImplementedError

    @property
    def products(self) -> dict[str, Formula]:
        """The formula of each product."""
        return self.gradients

    def product_at(self, sample: Sample, along: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """The products with a direction by the formulas at a point; None if they have no numbers there."""
        names = {self._program.identifier(self.directions[n]): x for n, x in along.items()}
        values = evaluate_at(self._program, sample, **names)
        return values and {n: values[n] for n in self.products}

    @property
    def title(self) -> str:
        """What stands above the lines."""
        names = ", ".join(str(getattr(n, "text", n)) for n in self.directions.values())
        return f"{self.about}; {names}: the direction"

    @property
    def shown_blocks(self) -> list[Formula]:
        """The lines of the product."""
        return [Formula(line, self.names, self.derived) for line in self.moved.values()]

    def in_matrices(self, line: Formula) -> MatrixFormula | None:
        """A line in matrix notation; those of the product have no such form."""
        return None if name_of(line.left) in self.moved else super().in_matrices(line)


class JacobianProduct(Products):
    """Ẏ = J v, the derivative of the result in a direction of the arguments; see `jvp`."""

    about, engine = "the Jacobian-vector product", staticmethod(of_value)

    def move(self, moved: Moved, known: dict[Name, Name]) -> dict[str, Name]:
        """The derivative of each line, forward."""
        moved.move(self.derived.forward, known)
        line = next(x for x in self.derived.forward if x.name == self.output)
        name = "product" if isinstance(self.output, Symbol) or label(self.output) == "value" else label(self.output)
        return {name: moved.result(line, known)}


class HessianProduct(Products):
    """H v, the derivative of the gradient in a direction of the arguments; see `hvp`."""

    about = "the Hessian-vector product"

    def move(self, moved: Moved, known: dict[Name, Name]) -> dict[str, Name]:
        """The derivative of each line, forward, and of each adjoint."""
        if isinstance(self.derived.output, Indexed):
            raise NotDerivable("hvp: the function's result is no number; reduce it, as in .sum()")
        return self.move_gradients(moved, known)


class GaussNewtonProduct(Products):
    """Jᵀ H_z J v: J is the Jacobian of a line z, H_z the Hessian of the loss in z; see `gauss_newton`."""

    about = "the Gauss-Newton product"

    def __init__(self, derivation: Derivation, of: str, wrt: Iterable[str] = ()):
        names = {label(x.name): x.name for x in derivation.derived.forward}
        if of not in names or isinstance(names[of], Symbol):
            arrays = ", ".join(n for n, name in names.items() if not isinstance(name, Symbol))
            raise ValueError(f"gauss_newton: of={of!r} is no array of the function; expected one of {arrays}")
        self.of = names[of]
        super().__init__(derivation, wrt)

    def move(self, moved: Moved, known: dict[Name, Name]) -> dict[str, Name]:
        """Forward to z, through the Hessian of the loss in z, and back."""
        derived, z = self.derived, self.of
        if isinstance(derived.output, Indexed):
            raise NotDerivable("gauss_newton: the function's result is no number; reduce it, as in .sum()")
        self.calls = self._calls_of_z()
        part = lines_to(derived, z)
        moved.move(part.forward, known)
        if z not in known:
            raise NotDerivable(f"gauss_newton: {z.text} does not depend on {', '.join(self.wrt)}")
        after, before = {z: known[z]}, {x.name for x in part.forward}
        moved.move([x for x in derived.forward if x.name not in before], after)
        moved.move([self._gradient()], after)
        moved.result(self._gradient(), after)
        dots = {name: moved.dotted(name) for name in (*part.raw, d(z))}
        for lines, into in ((part.raw, moved.raw), (part.adjoints, moved.forms)):
            for line in lines.values():
                dotted_line = Definition(renamed(line.left, dots), renamed(line.right, dots))
                into[dotted_line.name] = dotted_line
        return {n: dots[d(self.arrays[n])] for n in self.wrt}

    def _gradient(self) -> Definition:
        """The gradient of the loss by z, in the names of the function: as it is derived, for any values of z.

        A shown one may be equal only for those that z has as a function of the arguments: log(e^x) is x.
        """
        raw = self.derived.raw
        if (line := raw.get(d(self.of))) is None:
            raise NotDerivable(f"gauss_newton: the loss does not depend on {self.of.text}")
        return Definition(line.left, expanded(line.right, list(raw.values())))

    @property
    def title(self) -> str:
        """What stands above the lines."""
        return f"{super().title}; second derivatives of the lines up to {self.of.text} are left out"

    def _calls_of_z(self) -> list[tuple[str, int]]:
        """The operations whose result is z, each with the number of its calls on the tape before; no views of z."""
        trace, counts, calls = self.derived.trace, Counter(), []
        after_z: set[int] = set()  # the ids of terms
        for term in trace.program.terms:
            if not {*map(id, terms_of(term.args))}.isdisjoint(after_z):
                after_z.add(id(term))
            elif term.op is not None and term.on_tape and self._is_z(trace.values.get(id(term))):
                after_z.add(id(term))
                calls.append((term.name, counts[term.name]))
            counts[term.name] += int(term.op is not None and term.on_tape)
        if not calls:
            raise NotDerivable(f"gauss_newton: no call of the function has the result {self.of.text}")
        return calls

    def _is_z(self, value: Value | None) -> bool:
        entry = None if value is None else as_plain_entry(value)
        return entry is not None and self.derived.trace.lines.renames.get(name_of(entry), name_of(entry)) == self.of

    def engine(self, *point) -> str | None:
        """What differs from the engine's product of the three matrices; no difference of gradients is this product."""
        return of_gauss_newton(*point, self.calls)

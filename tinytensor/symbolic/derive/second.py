"""Hessians, Jacobians and their products with a direction, for any size, with their proof.

A direction of the arguments goes forward through the lines of a program: Ȧ is the derivative of A in this direction. So
does the derivative of each adjoint: ∂𝓛̇/∂W is the part of the Hessian-vector product that belongs to W (Pearlmutter
1994, Fast Exact Multiplication by the Hessian). A gradient is a program as the function is: its lines are
differentiated by the same rules, and their shorter forms proved and chosen by the same function (adjoints.py). What is
derived is a choice of lines, and of a direction:

    Jacobian      the lines of the function
    Hessian       these, and those of its gradients
    GaussNewton   the lines up to the result z of a model; the Hessian of the loss in z; back through the adjoints of z

A product has a direction with a name. A block ∂²𝓛/∂a∂b is the product for a direction that is 1 in one place and 0
elsewhere; ∂Y/∂a the gradient of the function, for an arriving gradient that is 1 in one place. All are compared in
numbers with the engine, and with differences, as products with a random direction.
"""

import itertools
import sys
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from sympy import Add, Expr, Indexed, Symbol

from tinytensor.autograd import grad
from tinytensor.core import late_bound
from tinytensor.core.observers import observe
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import tensor
from tinytensor.symbolic.derive.adjoints import inlined, lines_to, proved_forms, reachable, simplifier_of
from tinytensor.symbolic.derive.derivation import Derivation
from tinytensor.symbolic.derive.forward_mode import (
    Moved,
    short_form,
    with_one_hot,
    words_of,
)
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.results import Block, Formula, Key, MatrixFormula, Result
from tinytensor.symbolic.derive.samples import Sample, composed_call, gradients, mismatch, small_enough
from tinytensor.symbolic.derive.source import Source, evaluate_at
from tinytensor.symbolic.derive.values import entry_like, renamed, tensors_of
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d, expanded, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, total
from tinytensor.symbolic.index_calculus.functions import detach
from tinytensor.symbolic.index_calculus.linear_algebra import Cholesky, SymmetricArray
from tinytensor.symbolic.index_calculus.numpy_printer import label
from tinytensor.symbolic.index_calculus.vanishing import Theorem, together
from tinytensor.symbolic.numbers import agrees, differing_entry
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.time_limit import TimeLimit, TooLong

ENTRIES = 60_000  # of a block: larger ones are not compared in numbers
NEAR = 0.01  # to 0: numbers at which differences are not compared

Arrays = dict[str, np.ndarray]


class Second(Result):
    """A matrix of derivatives in blocks, or its product with a direction.

    derivation: the first derivatives. wrt: the arguments by which these are. gradients: the formulas, by the two names
    of a block, or by the name of what a product belongs to. directions: the name of the direction for each argument, Ẇ
    in formulas and W_dot in `evaluate`.
    """

    about, product_title, prefix = "", "", ""  # in words, and before the names of blocks in code
    pattern = "", ""  # of a block in text and in LaTeX
    has_differences = True

    def __init__(self, derivation: Derivation, time: TimeLimit, wrt: str | Iterable[str] = (), in_blocks: bool = False):
        self.derivation, self.derived, self.in_blocks = derivation, derivation.derived, in_blocks
        self.name, self.where, self.names = derivation.name, derivation.where, derivation.names
        self.lines, self.short_names, self.time = derivation.lines, derivation.short_names, time
        if self.derived.recurrences:
            raise NotDerivable(
                f"derive: {derivation.name}: a recurrence has first derivatives alone; give the number of its steps "
                "as a number instead of a size"
            )
        if self.derived.stopped:  # there are no gradients
            raise TooLong(f"derive: {self.name}: {derivation.time.out_of_time(self.derived.stopped)}")
        names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        if unknown := [n for n in names if n not in derivation.gradients]:
            raise ValueError(
                f"derive: wrt has {unknown[0]!r}; the arguments that have a derivative are "
                f"{', '.join(derivation.gradients)}"
            )
        self.wrt = names or tuple(derivation.gradients)
        self.arrays, self.output = self.derived.trace.arrays, name_of(self.derived.output)
        names = (*self.arrays.values(), *self.derived.trace.lines.constants, *self.names, *self.derived.raw)
        self.taken = set().union(*map(words_of, names))  # no other name is one of these
        self.simplify = simplifier_of(self.derived)
        self.theorems: list[Theorem] = []
        self.more: list[Definition] = []
        self.gradients: dict[Key, Formula] = {}
        self.shown: list[Formula] = []  # the lines that are printed below the gradients
        (self._write_blocks if in_blocks else self._write_product)()

    def move(self, moved: Moved, known: dict[Name, Name]) -> dict[str, Name]:
        """Make the lines of the product with a direction; the names of the results. known: the names that move."""
        raise NotImplementedError

    def _write_product(self) -> None:
        """Write the lines, and put in those that are shorter in the place of their names."""
        moved = Moved(lambda expr: short_form(expr, self.derived.forward, self.simplify), self.taken)
        self.directions = {n: moved.dotted(self.arrays[n]) for n in self.wrt}
        results = self.move(moved, {self.arrays[n]: direction for n, direction in self.directions.items()})
        forms = inlined(moved.forms, list(results.values()), self.simplify)
        lines = self._proved(moved.raw, forms, results.values())
        self.names = (*self.names, *self.directions.values(), *lines)
        self.shown = [Formula(line, self.names, self.derived) for line in lines.values()]
        named = {n if n in self.arrays else "product": name for n, name in results.items()}
        self.gradients = {n: Formula(lines[name], self.names, self.derived) for n, name in named.items()}
        self.more = [*lines.values()]

    def _write_blocks(self) -> None:
        """The product with a direction of each argument, and what it is for a direction that is 1 in one place."""
        for second in self.wrt:
            moved = Moved(self.simplify, self.taken)
            direction = moved.dotted(self.arrays[second])
            results = self.move(moved, {self.arrays[second]: direction})
            lines = self._proved(moved.raw, moved.forms, results.values())
            for first, name in results.items():
                of = entry_like(lines[name].left, self.arrays[first])
                by = self.derived.trace.entry_of(second, getattr(of, "indices", ()))
                product = expanded(lines[name].right, list(lines.values()))
                self._add((first, second), of, by, with_one_hot(product, entry_like(by, direction)))
        self.gradients = {(a, b): self.gradients[a, b] for a in self.wrt for b in self.wrt}
        pairs = itertools.combinations_with_replacement(self.wrt, 2)
        self.shown = [self.gradients[pair] for pair in pairs]  # one of ∂²𝓛/∂a∂b and ∂²𝓛/∂b∂a

    def _add(self, block: tuple[str, str], of: Expr, by: Expr, plain: Expr) -> None:
        """The block of the entry `of` by the entry `by`."""
        by_indices = getattr(by, "indices", ())
        right = short_form(plain, self.derived.forward, self.simplify, by_indices)
        name = "_".join([self.prefix, *block])
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        indices = (*getattr(of, "indices", ()), *by_indices)
        left = Array(name, [i.size for i in indices])[indices] if indices else Symbol(name, real=True)
        raw, form = ({name_of(left): Definition(left, side)} for side in (plain, right))
        (line,) = self._proved(raw, form, raw).values()
        self.more.append(line)
        self.gradients[block] = Block(line, of, by, self.pattern, self.names, self.derived)

    # ------------------------------------------------------------------------------------------------ the proof

    def _proved(
        self, raw: dict[Name, Definition], forms: dict[Name, Definition], wanted: Iterable[Name]
    ) -> dict[Name, Definition]:
        """The lines that lead to those that are wanted, each in its form if that is proved to be the raw line."""
        lines, theorems = proved_forms(self.derived, raw, forms, list(wanted))
        self.theorems += theorems
        return lines

    @cached_property
    def known(self) -> Theorem:
        """What is proved of the gradients and of their derivatives, where numbers do not refute it either."""
        return together([self.derivation.known, *self.theorems], self._compared.needed)

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

    def points(self) -> list[Sample]:
        """The points at which no block is too large."""

        def entries(sample: Sample) -> float:
            shapes = {n: tuple(sample.inputs[n].shape) for n in self.wrt}
            of_blocks = (shapes.get(a, np.shape(sample.value)) + shapes[b] for a, b in self.gradients)
            return max(np.prod(shape, dtype=float) for shape in of_blocks) if self.in_blocks else 0.0

        return small_enough(self.derivation.samples, entries, ENTRIES)

    def differs_at(self, sample: Sample) -> tuple[str | None, bool]:
        """What differs from the engine, or from differences, at a point; and is a product NaN by the formulas?"""
        rng = np.random.default_rng(0)
        along = {n: rng.normal(size=tuple(sample.inputs[n].shape)) for n in self.wrt}
        if any(line.right.has(Cholesky) for line in self.derived.forward):  # the engine factors a lower triangle
            symmetric = (n for n in along if isinstance(self.arrays[n], SymmetricArray))
            along |= {n: (along[n] + along[n].T) / 2 for n in symmetric}
        products = self._product_at(sample, along)
        if products is None:
            return "the formulas have no value", False
        with late_bound.pytorch_follows_us(), np.errstate(all="ignore"), double_precision():
            differs = self._differs(sample, along, products)
        return differs and f"{self.about}{differs}", not all(np.isfinite(x).all() for x in products.values())

    def _product_at(self, sample: Sample, along: Arrays) -> Arrays | None:
        """The products with a direction by the formulas at a point; None if they have no numbers there."""
        directions = {self._program.identifier(name): along[n] for n, name in self.directions.items()}
        values = evaluate_at(self._program, sample, **directions)
        if values is None or not self.in_blocks:
            return values and {n: values[n] for n in self.gradients}
        products: Arrays = {}
        for first, second in self.gradients:
            product = np.tensordot(values[first, second], along[second], along[second].ndim)
            products[first] = products.get(first, 0) + product
        return products

    def _differs(self, sample: Sample, along: Arrays, products: Arrays) -> str | None:
        """What differs of products with a direction, in words; None if nothing could be compared.

        Differences tell whether the engine's pass through a gradient is right itself; where an operation has none, they
        are all there is.
        """
        try:
            pairs = self.engine(sample, along, products)
        except Exception:  # an operation whose rule has no rule
            pairs = []
        finite = [(got, want) for got, want in pairs if np.isfinite(want).all()]
        for got, want in finite:
            if got.shape != want.shape or differing_entry(want, got, size=sample.size) is not None:
                return " does not match the engine's backward passes"
        close = None
        if self.has_differences and self._is_smooth(sample):
            close = self._are_differences(sample, along, products)
        if close is False:
            return " does not match finite differences"
        return "" if close or (pairs and len(pairs) == len(finite)) else None

    def engine(self, sample: Sample, along: Arrays, products: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
        """Numbers of the products, each beside the same one by the engine's backward passes."""
        raise NotImplementedError

    def values(self, inputs: dict[str, object], **options) -> list[Tensor]:
        """The arrays of which a product is the derivative in a direction."""
        raise NotImplementedError

    def _are_differences(self, sample: Sample, along: Arrays, products: Arrays) -> bool | None:
        """Are the products difference quotients? None where these say nothing."""
        flat = np.concatenate([x.ravel() for x in products.values()])

        def line(step: float) -> np.ndarray:
            arrays = self.values(leaves(sample, {n: step * x for n, x in along.items()}))
            return np.concatenate([x.detach().numpy().ravel() for x in arrays])

        return agrees(line, flat, np.abs(flat).max(initial=0))

    def _is_smooth(self, sample: Sample) -> bool:
        """Are differences close to derivatives at a point? Not near zeros, where a small eps may make a sharp bend.

        Nor far from them, where large numbers cancel.
        """
        unsure = sample.far or any((np.abs(x) <= NEAR).any() for x in sample.floats)
        return not (sample.edges or self.holds or unsure)

    # ------------------------------------------------------------------------------------------------ for `check`

    def mismatch(self, sample: Sample, block: Key, by_hand: np.ndarray) -> str | None:
        """The first entry in which a block by hand differs from the derived one at a point, in words.

        None if the derived one has no numbers there, or numbers refute it.
        """
        values = None if self.differs else evaluate_at(self._program, sample)
        if values is None or not np.isfinite(values[block]).all():
            return None
        return mismatch(values[block], by_hand, sample.size)

    def label(self, block: Key) -> str:
        """A block in words: ∂²𝓛/∂w∂b, ∂Y/∂x."""
        return self.pattern[0].format(*block)

    # ------------------------------------------------------------------------------------------------ in print

    @property
    def title(self) -> str:
        """What stands above the lines."""
        names = ", ".join(str(getattr(n, "text", n)) for n in self.directions.values())
        return f"{self.product_title}; {names}: the direction"

    def in_matrices(self, line: Formula) -> MatrixFormula | None:
        """A line in matrix notation; those of a product have no such form."""
        return None if line in self.shown and not self.in_blocks else super().in_matrices(line)

    @property
    def adjoints(self) -> list[Formula]:
        """The gradients that the program gives, those that the lines use, and those that they use in turn."""
        wanted = [d(self.arrays[n]) for n in self.wrt] if self.results is not self.gradients else []
        wanted += [n for x in self.shown for n in names_in(x.right)]
        used = reachable(self.derived.adjoints, wanted)
        pairs = zip(self.derivation.adjoints, self.derived.adjoints, strict=True)
        return [formula for formula, name in pairs if name in used]

    @property
    def groups(self) -> list[list[Formula]]:
        """What stands below the title: gradients, and the derivatives."""
        return [group for group in (self.adjoints, self.shown) if group]


def leaves(sample: Sample, moved: Arrays) -> dict[str, object]:
    """The arguments at a point, perhaps moved a little, as new leaves of the tape."""
    values = dict(sample.inputs)
    for name, x in sample.inputs.items():
        if isinstance(x, Tensor) and x.requires_grad:
            values[name] = tensor(x.detach().numpy() + moved.get(name, 0), requires_grad=True)
    return values


def pulled(slopes: list[Tensor], along: Iterable[np.ndarray], inputs: list[Tensor]) -> list[np.ndarray]:
    """The derivatives of Σ slope · along by the inputs, by a backward pass."""
    number = sum((slope * tensor(x)).sum() for slope, x in zip(slopes, along, strict=True))
    return [x.detach().numpy() for x in gradients(number, inputs, retain_graph=True)]


# ------------------------------------------------------------------------------------------------ the matrices


class Jacobian(Second):
    """The Jacobian of a function's result; see `jvp`, and `derive(..., jacobian=True)`."""

    about, product_title, prefix = "the Jacobian", "the Jacobian-vector product", "J"
    pattern = "∂{}/∂{}", r"\frac{{\partial {}}}{{\partial {}}}"

    @property
    def jacobian(self) -> dict[str, Formula]:
        """The block ∂Y/∂x for each argument x."""
        return {name: block for (_, name), block in self.gradients.items()}

    def move(self, moved: Moved, known: dict[Name, Name]) -> dict[str, Name]:
        """The derivative of each line, forward."""
        moved.move(self.derived.forward, known)
        line = next(x for x in self.derived.forward if x.name == self.output)
        return {label(self.output): moved.result(line, known)}

    def _write_blocks(self) -> None:
        """The vector-Jacobian product for a gradient that arrives in one place."""
        output, adjoints = self.derived.output, self.derived.adjoints
        for name in self.wrt:
            by = self.derived.trace.entry_of(name, getattr(output, "indices", ()))
            product = expanded(adjoints[d(self.arrays[name])].at(by), list(adjoints.values()))
            self._add((label(self.output), name), output, by, with_one_hot(product, d(output)))
        self.shown = [*self.gradients.values()]

    def engine(self, sample: Sample, along: Arrays, products: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
        """The product times an arriving gradient beside the gradient times the direction."""
        (product,) = products.values()
        left = np.ones(()) if sample.upstream is None else sample.upstream
        gradient = np.array(sum((sample.gradients[n] * x).sum() for n, x in along.items()))
        return [((left * product).sum(), gradient)]

    def values(self, inputs: dict[str, object], **options) -> list[Tensor]:
        """The function's result."""
        return [self.derivation.fn(**inputs)]

    @property
    def title(self) -> str:
        """What stands above the lines."""
        return f"{self.about} of {label(self.output)}" if self.in_blocks else super().title


class Hessian(Second):
    """The second derivatives of a function's number; see `hvp`, and `derive(..., order=2)`."""

    about, product_title, prefix = "the Hessian", "the Hessian-vector product", "H"
    pattern = "∂²𝓛/∂{}∂{}", r"\frac{{\partial^2\mathcal{{L}}}}{{\partial {}\,\partial {}}}"

    @property
    def hessian(self) -> dict[tuple[str, str], Formula]:
        """The formula of each block, by its two arguments: `hessian["w", "b"]` is ∂²𝓛/∂w∂b."""
        return self.gradients

    def move(self, moved: Moved, known: dict[Name, Name]) -> dict[str, Name]:
        """The derivative of each line, forward, and of each adjoint."""
        self.refuse_arrays()
        adjoints = self._differentiable(known)
        lines = {n: adjoints[d(self.arrays[n])] for n in self.wrt}
        first = [(adjoints[d(array)], direction) for array, direction in known.items()]
        by_gradients = [total(x.right * entry_like(x.left, by), *getattr(x.left, "indices", ())) for x, by in first]
        moved.move(self.derived.forward, known, {self.output: Add(*by_gradients)})
        moved.move(reachable(adjoints, [x.name for x in lines.values()]).values(), known)
        return {n: moved.result(line, known) for n, line in lines.items()}

    def refuse_arrays(self) -> None:
        """NotDerivable where the function's result is no number."""
        if isinstance(self.derived.output, Indexed):
            raise NotDerivable(
                f"derive: {self.about} needs a function whose result is a number; reduce it, as in .sum(), or ask for "
                "its Jacobian by jacobian=True"
            )

    def _differentiable(self, directions: Iterable[Name]) -> dict[Name, Definition]:
        """The adjoints in forms that may be differentiated by these arguments.

        A shown gradient may be equal at symmetric matrices alone, as the rule of a Cholesky factor is.
        """
        if not any(isinstance(name, SymmetricArray) for name in directions):
            return self.derived.adjoints
        if any(line.right.has(Cholesky) for line in self.derived.forward):
            raise NotDerivable(
                f"derive: {self.name}: the gradient of a Cholesky factor is that at symmetric matrices, which has no "
                "second derivative; name the other arguments by wrt"
            )
        raw = list(self.derived.raw.values())
        return {x.name: Definition(x.left, expanded(x.right, raw)) for x in raw}

    def engine(self, sample: Sample, along: Arrays, products: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
        """The products beside those of a backward pass through the gradients."""
        inputs = leaves(sample, {})
        wanted = pulled(self.values(inputs, create_graph=True), along.values(), [inputs[n] for n in along])
        return [*zip(products.values(), wanted, strict=True)]

    def values(self, inputs: dict[str, object], **options) -> list[Tensor]:
        """The gradients."""
        return gradients(self.derivation.fn(**inputs), [inputs[n] for n in self.wrt], **options)

    @property
    def results(self) -> dict[Key, Formula]:
        """What the program gives besides the value."""
        return self.derivation.gradients | self.gradients if self.in_blocks else self.gradients

    @property
    def title(self) -> str:
        """What stands above the lines."""
        return self.derivation.title if self.in_blocks else super().title


class GaussNewton(Hessian):
    """Jᵀ H_z J v: J is the Jacobian of a line z, H_z the Hessian of the loss in z; see `gauss_newton`."""

    about, product_title = "the Gauss-Newton product", "the Gauss-Newton product"
    has_differences = False  # no difference of gradients is this product

    def __init__(self, derivation: Derivation, time: TimeLimit, wrt: str | Iterable[str], of: str):
        lines = {label(x.name): x for x in derivation.derived.forward}
        if of not in lines or isinstance(lines[of].name, Symbol):
            arrays = ", ".join(n for n, line in lines.items() if not isinstance(line.name, Symbol))
            raise ValueError(f"gauss_newton: of={of!r} is no array of the function; expected one of {arrays}")
        self.of = lines[of]
        super().__init__(derivation, time, wrt)

    def move(self, moved: Moved, known: dict[Name, Name]) -> dict[str, Name]:
        """Forward to z, through the Hessian of the loss in z, and back."""
        self.refuse_arrays()
        derived, z = self.derived, self.of.name
        part = lines_to(derived, z)
        moved.move(part.forward, known)
        if z not in known:
            raise NotDerivable(f"gauss_newton: {z.text} does not depend on {', '.join(self.wrt)}")
        if d(z) not in derived.raw:
            raise NotDerivable(f"gauss_newton: the loss does not depend on {z.text}")
        # The gradient by z as it is derived, for any values of z: a shown one may be equal only for those that z has
        # as a function of the arguments, such as log(e^x) for x.
        gradient = Definition(derived.raw[d(z)].left, expanded(derived.raw[d(z)].right, list(derived.raw.values())))
        after, before = {z: known[z]}, {x.name for x in part.forward}
        moved.move([*(x for x in derived.forward if x.name not in before), gradient], after)
        moved.result(gradient, after)
        dots = {name: moved.dotted(name) for name in (*part.raw, d(z))}
        for lines, into in ((part.raw, moved.raw), (part.adjoints, moved.forms)):
            for line in lines.values():
                dotted_line = Definition(renamed(line.left, dots), renamed(line.right, dots))
                into[dotted_line.name] = dotted_line
        return {n: dots[d(self.arrays[n])] for n in self.wrt}

    def engine(self, sample: Sample, along: Arrays, products: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
        """The products beside those with the three matrices: J v by two backward passes, H_z by two, and Jᵀ by one.

        The tensor z is known by its numbers, where these are no special ones.
        """
        if not self._is_smooth(sample):
            return []
        numbers = evaluate_at(Source("z", self.derived, {"z": (self.of.name, ())}, {}, ()), sample)["z"].ravel()
        inputs, z = leaves(sample, {}), []

        def note(op, args, result):
            of_line = not z and composed_call(sys._getframe(2)) is None
            for x in tensors_of([result]) if of_line else ():
                if x.requires_grad and x.numel() == numbers.size and np.allclose(x._data.ravel(), numbers):
                    z.append(x)
            return result

        with observe(on_op=note):
            result = self.derivation.fn(**inputs)
        moving, arriving = [inputs[n] for n in along], [tensor(np.zeros(x.shape), requires_grad=True) for x in z]
        slopes = list(grad(z, moving, arriving, create_graph=True, materialize_grads=True))
        forward = pulled(slopes, along.values(), arriving)
        middle = pulled(gradients(result, z, create_graph=True), forward, z)
        return [*zip(products.values(), pulled(z, middle, moving), strict=True)]

    @property
    def title(self) -> str:
        """What stands above the lines."""
        return f"{super().title}; second derivatives of the lines up to {self.of.name.text} are left out"

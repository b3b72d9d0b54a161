"""Products with second derivatives and Jacobians, for any size, with their proof: `jvp`, `hvp`, `gauss_newton`.

A direction of the arguments goes forward through the lines: Ȧ is the derivative of A in this direction. So does the
derivative of each adjoint: ∂𝓛̇/∂W is the part of the Hessian-vector product that belongs to W (Pearlmutter 1994, Fast
Exact Multiplication by the Hessian). The Gauss-Newton product goes forward to the result z of a model, is multiplied by
the Hessian of the loss in z, and goes back. Each line is proved equal to SymPy's derivative of the line from which it
was made, and the products are compared in numbers with the engine and with differences.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from unicodedata import normalize

import numpy as np
from sympy import Expr, Indexed, S, Symbol

from tinytensor.autograd import grad
from tinytensor.core import late_bound
from tinytensor.core.observers import observe
from tinytensor.ops.creation import tensor
from tinytensor.symbolic.derive.adjoints import inlined, lines_to
from tinytensor.symbolic.derive.derivation import Derivation, Formula, derive_within
from tinytensor.symbolic.derive.facts import Fact
from tinytensor.symbolic.derive.forward_mode import Slope, moved, plain_moved
from tinytensor.symbolic.derive.hessians import Derivatives
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.samples import Sample, allclose
from tinytensor.symbolic.derive.second_samples import STEPS, close_to, difference, leaves, products
from tinytensor.symbolic.derive.source import Source, evaluate_at
from tinytensor.symbolic.derive.time_limit import SECONDS, SYMBOLS, TimeLimit, in_time
from tinytensor.symbolic.derive.values import as_plain_entry
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d, expanded, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import Array
from tinytensor.symbolic.index_calculus.notation import name_tex
from tinytensor.symbolic.reading.errors import NotDerivable

DOT = "\N{COMBINING DOT ABOVE}"


def dotted(name: Name) -> Name:
    """The derivative of a name in the direction: Ȧ of A, ∂𝓛̇/∂A of ∂𝓛/∂A."""
    if isinstance(name, Symbol):
        own = "𝓛" if name.name == "loss" else name.name
        return Symbol(normalize("NFC", f"{own[0]}{DOT}{own[1:]}"), real=True)
    label = f"{name.label}_dot"
    if name.of is not None:
        of = name.of.text
        typeset = rf"\left(\frac{{\partial\dot{{\mathcal{{L}}}}}}{{\partial {name_tex(of)}}}\right)"
        return Array(label, name.sizes, text=f"∂𝓛{DOT}/∂{of}", tex=typeset)
    own = name.text
    return Array(label, name.sizes, text=normalize("NFC", f"{own[0]}{DOT}{own[1:]}"), tex=rf"\dot{{{name_tex(own)}}}")


def _entry_like(entry: Expr, name: Name) -> Expr:
    return name[entry.indices] if isinstance(entry, Indexed) else name


class Products(Derivatives):
    """A product of a Jacobian, a Hessian or a Gauss-Newton matrix with a direction, as lines with their proof.

    products: the formula for each argument (of a Jacobian: of the result). directions: the name of the direction for
    each argument, Ẇ in formulas and W_dot in `evaluate`. derivation: the first derivatives.
    """

    with_gradients = False
    about = ""

    def __init__(self, derivation: Derivation, wrt: Iterable[str] = ()):
        super().__init__(derivation, wrt)
        arrays = self.derived.trace.arrays
        self.directions = {n: dotted(arrays[n]) for n in self.wrt}
        self.moved_lines: dict[Name, Definition] = {}  # as they are shown, in the order in which they are computed
        self.plain: dict[Name, Definition] = {}  # by SymPy's derivative
        self.results: dict[str, Name] = {}
        self.make()

    def make(self) -> None:
        """Write the lines, and prove each."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ lines

    def move(self, lines: Iterable[Definition], known: dict[Name, Name]) -> None:
        """Append the derivative of each line that depends on a name that moves; `known` has these names.

        A line whose derivative is 0 moves nothing.
        """

        def slopes(name: Name) -> Slope | None:
            moving = known.get(name)
            return None if moving is None else lambda at: moving[tuple(at)] if at else moving

        for line in lines:
            if not names_in(line.right) & known.keys():
                continue
            plain = plain_moved(line, slopes)
            if plain == 0:
                continue
            new = dotted(line.name)
            left = _entry_like(line.left, new)
            short = self.shorten(moved(line, slopes, own=not line.is_adjoint), S.Zero)
            known[line.name] = new
            self.moved_lines[new], self.plain[new] = Definition(left, short), Definition(left, plain)

    def result(self, line: Definition, known: dict[Name, Name]) -> Name:
        """The name of the derivative of a line; it is 0 where the direction does not move the line."""
        new = dotted(line.name)
        if line.name not in known:
            self.moved_lines[new] = self.plain[new] = Definition(_entry_like(line.left, new), S.Zero)
        return new

    def finish(self, wanted: list[Name]) -> None:
        """Put in the lines that are shorter in the place of their names, and prove what remains."""
        self.moved_lines = inlined(self.moved_lines, wanted, self.simplify)
        hidden = [x for n, x in self.plain.items() if n not in self.moved_lines]
        for name, line in self.moved_lines.items():
            if not self.is_zero(expanded(self.plain[name].at(line.left), hidden) - line.right):
                self.unproved.append(str(getattr(name, "text", name)))
        self.moved_lines = {n: self.moved_lines[n] for n in self.plain if n in self.moved_lines}
        self.names = (*self.names, *self.directions.values(), *self.moved_lines)

    @property
    def products(self) -> dict[str, Formula]:
        """The formula of each product."""
        return {n: Formula(self.moved_lines[name], self.names) for n, name in self.results.items()}

    # ------------------------------------------------------------------------------------------------ the program

    @cached_property
    def _program(self) -> Source:
        ends = set(self.results.values())
        between = [line for n, line in self.moved_lines.items() if n not in ends]
        more = {n: (self.moved_lines[name], self._dims_of(n)) for n, name in self.results.items()}
        return Source(self.derivation.name, self.derived, more, False, self.directions, between)

    def direction_at(self, one: Sample, seed: int) -> dict[str, np.ndarray]:
        """A random direction at a point."""
        rng = np.random.default_rng(seed)
        return {n: rng.normal(size=tuple(one.inputs[n].shape)) for n in self.wrt}

    def values_at(self, one: Sample, along: dict[str, np.ndarray]) -> dict | None:
        """The products by the formulas at a point, in a direction; None if they have no numbers there."""
        return evaluate_at(
            self._program, one, **{self._program.identifier(self.directions[n]): x for n, x in along.items()}
        )

    def at(self, one: Sample) -> dict | None:
        """The products by the formulas at a point, in a random direction."""
        return self.values_at(one, self.direction_at(one, 0))

    def _is_small(self, one: Sample) -> bool:
        return True

    @property
    def _divides(self) -> bool:
        return True

    # ------------------------------------------------------------------------------------------------ in print

    @property
    def title(self) -> str:
        """What stands above the lines."""
        names = ", ".join(str(getattr(n, "text", n)) for n in self.directions.values())
        return f"{self.about}; {names}: the direction"

    @property
    def shown_blocks(self) -> list[Formula]:
        """The lines of the product."""
        return [Formula(line, self.names) for line in self.moved_lines.values()]

    def in_matrices(self, one: Formula) -> None:
        """No line has a matrix form beside it."""
        return None

    @property
    def adjoints(self) -> list[Formula]:
        """The gradients that the lines use."""
        return self.adjoints_in(line.right for line in self.moved_lines.values())


class JacobianProduct(Products):
    """Ẏ = J v, the derivative of the result in a direction of the arguments; see `jvp`."""

    about = "the Jacobian-vector product"

    def make(self) -> None:
        """The derivative of each line, forward."""
        known = {self.derived.trace.arrays[n]: one for n, one in self.directions.items()}
        self.move(self.derived.forward, known)
        output = name_of(self.derived.output)
        self.output = "product" if isinstance(output, Symbol) else str(output.label)
        line = next(x for x in self.derived.forward if x.name == output)
        self.results = {self.output: self.result(line, known)}
        self.finish([*self.results.values()])

    def _dims_of(self, name: str):
        return self.derived.trace.result.dims

    def differs_at(self, one: Sample, seed: int) -> str:
        """What differs from backward(), or from differences of the value, at a point."""
        along = self.direction_at(one, seed)
        values = self.values_at(one, along)
        if values is None:
            return "the formulas have no value"
        own = values[self.output]
        left = np.ones(()) if one.upstream is None else one.upstream
        wanted = sum((one.gradients[n] * x).sum() for n, x in along.items())
        size = sum(np.abs(one.gradients[n] * x).sum() for n, x in along.items())
        if not np.isfinite(own).all() or abs((left * own).sum() - wanted) > 1e-7 * (1 + size):
            return "the Jacobian-vector product does not match backward()"
        if self.compares_differences(one) and not any(
            close_to(self._quotient(one, along, step), own) for step in STEPS
        ):
            return "the Jacobian-vector product does not match differences of the value"
        return ""

    def _quotient(self, one: Sample, along: dict[str, np.ndarray], step: float) -> np.ndarray:
        with late_bound.pytorch_follows_us(), np.errstate(all="ignore"):
            high, low = (
                self.derivation.fn(**leaves(one, {n: sign * step * x for n, x in along.items()})).detach().numpy()
                for sign in (1, -1)
            )
        return (high - low) / (2 * step)


class HessianProduct(Products):
    """H v, the derivative of the gradient in a direction of the arguments; see `hvp`."""

    about = "the Hessian-vector product"

    def make(self) -> None:
        """The derivative of each line, forward, and of each adjoint."""
        derived = self.derived
        if isinstance(derived.output, Indexed):
            raise NotDerivable("hvp: the function's result is no number; reduce it, as in .sum()")
        known = {derived.trace.arrays[n]: one for n, one in self.directions.items()}
        self.move(derived.forward, known)
        self.move(derived.adjoints.values(), known)
        lines = {n: derived.adjoints[d(derived.trace.arrays[n])] for n in self.wrt}
        self.results = {n: self.result(line, known) for n, line in lines.items()}
        self.finish([*self.results.values()])

    def engine_at(self, one: Sample, along: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same products by the engine's double backward."""
        rows = products(self.derivation.fn, leaves(one), self.wrt, along)
        return {n: sum(rows[a, n] for a in self.wrt) for n in self.wrt}

    def differs_at(self, one: Sample, seed: int) -> str:
        """What differs from the engine, or from differences of the gradients, at a point."""
        along = self.direction_at(one, seed)
        values = self.values_at(one, along)
        if values is None:
            return "the formulas have no value"
        with late_bound.pytorch_follows_us(), np.errstate(all="ignore"):
            try:
                engine = self.engine_at(one, along)
            except RuntimeError:  # an operation whose rule has no rule: differences are all there is
                engine = {}
        for name, wanted in engine.items():
            if np.isfinite(wanted).all() and not allclose(values[name], wanted):
                return f"{self.about} by {name} does not match the engine"
        if self.compares_differences(one) and not self.differences_agree(one, along, {n: values[n] for n in self.wrt}):
            return f"{self.about} does not match differences of the gradients"
        return ""

    def differences_agree(self, one: Sample, along: dict[str, np.ndarray], own: dict[str, np.ndarray]) -> bool:
        """Are the products those of differences of the gradients, at one of the steps?"""
        size = max(np.abs(x).max(initial=0) for x in own.values())
        for step in STEPS:
            quotient = difference(self.derivation.fn, one, self.wrt, along, step)
            if all(close_to(quotient[n], own[n], size) for n in self.wrt):
                return True
        return False


class GaussNewtonProduct(HessianProduct):
    """Jᵀ H_z J v: J is the Jacobian of a line z, H_z the Hessian of the loss in z; see `gauss_newton`."""

    about = "the Gauss-Newton product"

    def __init__(self, derivation: Derivation, of: str, wrt: Iterable[str] = ()):
        names = {str(getattr(x.name, "label", x.name)): x.name for x in derivation.derived.forward}
        if of not in names or isinstance(names[of], Symbol):
            arrays = ", ".join(n for n, name in names.items() if not isinstance(name, Symbol))
            raise ValueError(f"gauss_newton: of={of!r} is no array of the function; expected one of {arrays}")
        self.of = names[of]
        super().__init__(derivation, wrt)

    def make(self) -> None:
        """Forward to z, through the Hessian of the loss in z, and back."""
        derived, z = self.derived, self.of
        if isinstance(derived.output, Indexed):
            raise NotDerivable("gauss_newton: the function's result is no number; reduce it, as in .sum()")
        part = lines_to(derived, z)
        self.unproved += part.unproved
        self.theorems += part.theorems
        known = {derived.trace.arrays[n]: one for n, one in self.directions.items()}
        self.move(part.forward, known)
        if z not in known:
            raise NotDerivable(f"gauss_newton: {z.text} does not depend on {', '.join(self.wrt)}")
        after, before = {z: known[z]}, {x.name for x in part.forward}
        self.move([x for x in derived.forward if x.name not in before], after)
        self.move([self._gradient(z)], after)
        self.result(self._gradient(z), after)
        for lines, into in ((part.raw, self.plain), (part.adjoints, self.moved_lines)):
            for one in lines.values():
                left = _entry_like(one.left, dotted(one.name))
                into[name_of(left)] = Definition(left, _with_dots(one.right, {*part.raw, d(z)}))
        self.results = {n: dotted(d(derived.trace.arrays[n])) for n in self.wrt}
        self.finish([*self.results.values()])

    def _gradient(self, z: Array) -> Definition:
        """The gradient of the loss by z, in the names of the function alone."""
        for lines in (self.derived.adjoints, self.derived.raw):
            if d(z) in lines:
                return Definition(lines[d(z)].left, expanded(lines[d(z)].right, list(lines.values())))
        raise NotDerivable(f"gauss_newton: the loss does not depend on {z.text}")

    @property
    def title(self) -> str:
        """What stands above the lines."""
        return f"{super().title}; second derivatives of the lines up to {self.of.text} are left out"

    @cached_property
    def _call(self) -> tuple[str, int]:
        """The operation whose result is z, and the number of its calls on the tape before."""
        trace, counts = self.derived.trace, Counter()
        for term in trace.program.terms:
            if term.op is None or not term.on_tape:
                continue
            value = trace.values.get(id(term))
            entry = None if value is None else as_plain_entry(value)
            if entry is not None and name_of(entry) == self.of:
                return term.name, counts[term.name]
            counts[term.name] += 1
        raise NotDerivable(f"gauss_newton: no single call of the function has the result {self.of.text}")

    def engine_at(self, one: Sample, along: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same products by the engine: J v by two backward passes, H_z by two, and Jᵀ by one."""
        values = leaves(one)
        name, number = self._call
        calls = []

        def note(op, args, result):
            first = result[0] if isinstance(result, tuple) else result
            if op.name == name and first._requires_grad:
                calls.append(first)
            return result

        with observe(on_op=note), double_precision():
            whole = self.derivation.fn(**values)
        z = calls[number] if number < len(calls) else whole.detach()
        inputs = [values[n] for n in self.wrt]
        zeros = {n: np.zeros(values[n].shape) for n in self.wrt}
        if not z._requires_grad:
            return zeros
        arriving = tensor(np.zeros(z.shape), requires_grad=True)
        slopes = grad(z, inputs, arriving, create_graph=True, materialize_grads=True)
        number = sum((slope * tensor(along[n])).sum() for n, slope in zip(self.wrt, slopes, strict=True))
        (forward,) = grad(number, [arriving], retain_graph=True, materialize_grads=True)
        (slope,) = grad(whole, [z], create_graph=True, materialize_grads=True)
        number = (slope * forward.detach()).sum()
        if not number._requires_grad:
            return zeros
        (middle,) = grad(number, [z], retain_graph=True, materialize_grads=True)
        back = grad(z, inputs, middle.detach(), materialize_grads=True)
        return {n: x.detach().numpy() for n, x in zip(self.wrt, back, strict=True)}

    def differences_agree(self, one: Sample, along: dict[str, np.ndarray], own: dict[str, np.ndarray]) -> bool:
        """Of the three factors no difference of gradients is the product: `engine_at` alone is compared."""
        return True


def _with_dots(expr: Expr, names: set[Name]) -> Expr:
    """The expression with dotted names in the place of adjoints."""
    entries = {e: dotted(e.base)[e.indices] for e in expr.atoms(Indexed) if e.base in names}
    return expr.xreplace(entries | {s: dotted(s) for s in expr.atoms(Symbol) if s in names})


def _product(
    command: str,
    make: Callable[[Derivation], Products],
    fn: Callable | Derivation,
    where: str | Fact | Sequence[str | Fact],
    limit: float | None,
    progress: bool | None,
    arguments: dict,
) -> Products:
    start = TimeLimit(command, "", limit, False)
    if not isinstance(fn, Derivation):
        fn = derive_within(SYMBOLS, fn, where, limit, progress, arguments)
    elif where or arguments:
        raise TypeError("a derivation has its arguments and its `where` already; leave them out")
    return in_time(command, fn.name, limit, start.used, progress, lambda: make(fn))


def jvp(
    fn: Callable | Derivation,
    where: str | Fact | Sequence[str | Fact] = (),
    limit: float | None = SECONDS,
    progress: bool | None = None,
    *,
    wrt: str | Iterable[str] = (),
    **arguments,
) -> JacobianProduct:
    """The derivative of a function in a direction, J v, for any size, with its proof: `torch.func.jvp`, `jax.jvp`.

    fn, where and arguments are those of `derive`; fn may also be its result. wrt: the arguments that move, all unless
    named. The direction of W is written Ẇ; `evaluate` takes it as W_dot.
    """
    return _product("jvp", lambda one: JacobianProduct(one, wrt), fn, where, limit, progress, arguments)


def hvp(
    fn: Callable | Derivation,
    where: str | Fact | Sequence[str | Fact] = (),
    limit: float | None = SECONDS,
    progress: bool | None = None,
    *,
    wrt: str | Iterable[str] = (),
    **arguments,
) -> HessianProduct:
    """The Hessian times a direction, H v, for any size, with its proof: `torch.autograd.functional.hvp`.

    The Hessian itself is never formed: this is the form for models with many parameters. The arguments are those of
    `jvp`; the function's result is a number.
    """
    return _product("hvp", lambda one: HessianProduct(one, wrt), fn, where, limit, progress, arguments)


def gauss_newton(
    fn: Callable | Derivation,
    of: str,
    where: str | Fact | Sequence[str | Fact] = (),
    limit: float | None = SECONDS,
    progress: bool | None = None,
    *,
    wrt: str | Iterable[str] = (),
    **arguments,
) -> GaussNewtonProduct:
    """The Gauss-Newton matrix times a direction, Jᵀ H_z J v, for any size, with its proof.

    of: the name of the array z that is the model's result, as `derive` prints it: the loss is a function of z, and J is
    the Jacobian of z. Where the loss is convex in z the matrix has no negative eigenvalue, which the Hessian may have.
    The other arguments are those of `hvp`.
    """
    return _product("gauss_newton", lambda one: GaussNewtonProduct(one, of, wrt), fn, where, limit, progress, arguments)

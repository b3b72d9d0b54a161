"""The gradient of a function for any size: reverse mode over its lines, written as a person would, and proved.

The program of trace.py is differentiated line by line (index_calculus/adjoints.py): these are the raw adjoints, which
the rules of derivatives prove. Shorter forms are then sought, in the time that is left: a group with a closed form uses
it, an adjoint that is used once is put in, a product of factors that has a name becomes that name. Whatever the search
did, a line is shown only if it is proved equal to the raw adjoint, for all sizes and values, by putting definitions in
and comparing normal forms; else the raw adjoint is shown.
"""

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from sympy import Add, Expr, Function, Indexed, KroneckerDelta, Mul, Pow, S, Sum, Symbol, exp

from tinytensor.symbolic.derive.conditions import SizeCondition
from tinytensor.symbolic.derive.factors import adjoint_in_factors, canonical, cost, factor, fold, rebuild
from tinytensor.symbolic.derive.recurrences import Recurrence
from tinytensor.symbolic.derive.shorter import forget, shorten
from tinytensor.symbolic.derive.trace import Trace, trace
from tinytensor.symbolic.derive.values import ExtremeMask, Group, Lines, formula_key, name_like, renamed
from tinytensor.symbolic.index_calculus.adjoints import (
    Definition,
    Name,
    Program,
    adjoint_of,
    d,
    expanded,
    lengths,
    name_of,
    names_in,
)
from tinytensor.symbolic.index_calculus.formulas import Array, Index, free, fresh, normal, total
from tinytensor.symbolic.index_calculus.functions import same, upto
from tinytensor.symbolic.index_calculus.linear_algebra import OfMatrix, array_of, has_matrices
from tinytensor.symbolic.index_calculus.matrix_laws import (
    Gram,
    grams,
    in_products,
    normal_of_matrices,
    phi_of,
    shortened,
)
from tinytensor.symbolic.index_calculus.numpy_printer import label
from tinytensor.symbolic.index_calculus.vanishing import (
    Facts,
    Share,
    Theorem,
    defined,
    differentiable,
    together,
    vanishes,
)
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.time_limit import TooLong, at_most, stage, stopped

SHORT = 8  # the cost of a line that may be put in for its name
SEARCH = 0.6  # of the time that is left, for the search of shorter forms; the rest is for their proofs
LONG = 60  # operations: a longer formula is not written in the names of arguments alone, which takes long


@dataclass
class DerivedLines:
    """The lines of a derivation: forward, and the adjoints of the arguments and of what they are written in."""

    trace: Trace
    output: Expr  # the entry of the result
    program: Program
    recurrences: Sequence[Recurrence] = ()
    raw: dict[Name, Definition] = field(default_factory=dict)  # adjoints by plain differentiation
    adjoints: dict[Name, Definition] = field(default_factory=dict)  # as they are shown, as they are computed
    theorems: list[Theorem] = field(default_factory=list)  # that shown lines are the raw ones
    stopped: str = ""  # while what was done the time was up, if it was before all adjoints were known

    @cached_property
    def forward(self) -> list[Definition]:
        """The lines of the function."""
        return [line for line in self.program.lines if d(line.name) not in self.links]

    @cached_property
    def links(self) -> dict[Name, Expr]:
        """The adjoints of the links of loops, which are 1."""
        return {d(r.link): S.One for r in self.recurrences}

    @property
    def loss(self) -> Symbol | None:
        """The result, if it is a number."""
        return self.output if isinstance(self.output, Symbol) else None

    @property
    def wanted(self) -> list[Name]:
        """The adjoints of the arguments."""
        return [d(name_of(entry)) for entry in self.trace.parameters.values()]

    @property
    def groups(self) -> list[Group]:
        return self.trace.lines.groups

    @cached_property
    def inner(self) -> list[Definition]:
        """The lines that are made together, such as those of a softmax."""
        return [line for g in self.groups if g.closed or len(g.lines) > 1 for line in g.lines]

    @cached_property
    def products(self) -> tuple[Gram, ...]:
        """The definitions of matrices with products, such as Xᵀ X + λ I, whose inverses stand in formulas."""
        opaque = [e for line in self.forward for e in line.right.atoms(OfMatrix)]
        inverted = {array_of(e.matrix) for e in opaque}
        return grams(line for line in self.forward if line.name in inverted)

    @cached_property
    def facts(self) -> Facts:
        """What a comparison of formulas may use: definitions, products, shares of largest entries."""
        shares = []
        for array, mask in self.trace.lines.constants.items():
            if isinstance(mask, ExtremeMask) and mask.function.endswith("_shared"):
                over = [mask.indices[n] for n in mask.axes]
                whole = expanded(mask.of, self.forward)
                equal = same(whole - total(array[mask.indices] * whole, *over))
                shares.append(Share(array[mask.indices], equal / total(equal, *over), equal))
        return Facts([line for group in self.groups for line in group.lines], self.products, shares)

    @property
    def theorem(self) -> Theorem:
        """What is proved: the shown adjoints that are, and that the lines have derivatives."""
        smooth = differentiable(x.right for x in (*self.forward, *self.adjoints.values()))
        ties = {"tie" for mask in self.trace.lines.constants.values() if isinstance(mask, ExtremeMask)}
        return together([*self.trace.domains, *self.theorems, smooth], ties, self.trace.size_conditions)

    @cached_property
    def line_keys(self) -> tuple[dict[tuple, Definition], dict[tuple, Definition]]:
        """The forward lines by their formulas, and the short ones by their formulas in the names of arguments alone."""
        short = [line for line, length in lengths(self.forward) if length <= LONG]
        as_written = {line_key(line.right, line): line for line in self.forward}
        return as_written, {line_key(expanded(line.right, self.forward), line): line for line in short}


def line_key(right: Expr, line: Definition) -> tuple:
    """The same for the same right side of a line, in whatever names of the left side's indices."""
    indices = getattr(line.left, "indices", ())
    if not has_matrices(right):
        return formula_key(right, indices)
    marks = {i: _mark(i.size, n) for n, i in enumerate(indices)}  # an order of indices that does not depend on letters
    return formula_key(normal_of_matrices(right.xreplace(marks)), [*marks.values()])


@cache
def _mark(size: Expr, number: int) -> Index:
    return Index(f"#{number}", size)


def derive_lines(fn: Callable, arguments: dict[str, object], where: Sequence[SizeCondition] = ()) -> DerivedLines:
    """The forward lines and the proved adjoints of a function, at sizes that meet the conditions."""
    forget()
    stage("the function was read")
    traced = trace(fn, arguments, where=where)
    try:
        output = _tidy(traced, _output(traced))
        recurrences = [Recurrence(loop, traced.lines) for loop in traced.loops if loop.states]
        program = _program(traced, output, recurrences)
        for group in traced.lines.groups:
            refuse_no_number(Add(*[line.right for line in group.lines]), group.where)
    except NotDerivable:
        raise
    except TypeError as error:  # indices of two ranges meet
        raise NotDerivable(f"derive: {error}; prove() checks the function at small sizes") from error
    derived = DerivedLines(traced, output, program, recurrences)
    states = [d(name_of(entry)) for r in recurrences for entry in r.entries]
    try:
        stage("the function was differentiated", 20)
        for line in _raw_adjoints(derived):
            refuse_no_number(line.right)
            derived.raw[line.name] = line
            stage("", 20 / len(program.entries))
        derived.adjoints, derived.theorems = _shortest(derived, [*derived.wanted, *states])
    except TooLong:
        derived.stopped = stopped()
    return derived


def refuse_no_number(formula: Expr, where: str = "") -> None:
    """NotDerivable where a formula has no value at all, as (x - x)/(x - x)."""
    if formula.has(S.NaN, S.ComplexInfinity):
        raise NotDerivable(f"derive{where}: a formula with 0/0 or 1/0, which is no number")


def _raw_adjoints(derived: DerivedLines) -> Iterator[Definition]:
    """The adjoints of all names by plain differentiation, from the last name to the first."""
    for entry in reversed(derived.program.entries):
        name = name_of(entry)
        if name != name_of(derived.output) and d(name) not in derived.links:
            right = adjoint_of(entry, derived.program.lines, derived.loss)
            yield Definition(d(entry), right.xreplace(derived.links))


def lines_to(derived: DerivedLines, name: Name) -> DerivedLines:
    """The same derivation with the array of a line, `name`, as the result of the function."""
    lines = {line.name: line for group in derived.groups for line in group.lines}
    needed = reachable(lines, [name])
    kept = [group for group in derived.groups if any(line.name in needed for line in group.lines)]
    traced = copy.copy(derived.trace)
    traced.lines = replace(traced.lines, groups=kept)
    output = lines[name].left
    part = DerivedLines(traced, output, _program(traced, output))
    part.raw = {line.name: line for line in _raw_adjoints(part)}
    part.adjoints, part.theorems = _shortest(part, part.wanted)
    return part


def inlined(lines: dict[Name, Definition], wanted: list[Name], simplify: Callable) -> dict[Name, Definition]:
    """The lines that lead to those that are wanted, without those that are shorter in the place of their names."""
    return [*_inline(reachable(lines, wanted), wanted, simplify)][-1]


def _output(traced: Trace) -> Expr:
    """The entry of the result's name; a formula becomes a last line."""
    value = traced.result
    if value.finite is not None or value.dtype != "f":
        raise NotDerivable("derive: the result is no tensor of finite floats; return one that has a gradient")
    indices = value.indices()
    if value.dims and not indices:
        raise NotDerivable("derive: the result is an array of one entry; let it be a number, by reshape(())")
    expr = value.entry(*indices)
    groups = traced.lines.groups
    last = groups[-1].output.left if groups else None
    if any(groups[-1] is state.group for loop in traced.loops for state in loop.states):
        last = None  # whose gradient is also that of later steps
    if last is not None and expr == last.xreplace(dict(zip(getattr(last, "indices", ()), indices))):
        return last
    _, left, indices = traced.lines.left("Y" if indices else "loss", value)
    where = getattr(traced.program.result, "where", "")
    groups.append(Group([Definition(left, fresh(S(value.entry(*indices))))], where=where))
    return left


def _tidy(traced: Trace, output: Expr) -> Expr:
    """Put in lines that a person would not write; name the result. The entry of the result is given back."""
    groups = traced.lines.groups
    _put_in_terms(groups, name_of(output))
    for group in groups:
        if len(group.lines) == 1 and not group.closed:
            (line,) = group.lines
            try:
                group.lines[:] = [Definition(line.left, canonical(line.right))]
            except TypeError as error:  # indices of two ranges meet
                raise NotDerivable(f"derive: {error}{group.where}") from error
    last = groups[-1] if groups and groups[-1].output.left == output else None
    if last is not None and not last.by_user and not last.wanted:
        last.wanted = "Y" if isinstance(output, Indexed) else "loss"
    for group in groups:
        if group.wanted and label(group.output.name) != group.wanted:
            output = _rename(traced.lines, output, group.output.name, traced.lines.unused(group.wanted))
    return _free_names(traced, output)


def _put_in_terms(groups: list[Group], output: Name) -> None:
    """Put in the lines that operations made for one term or argument of another line."""
    for group in list(groups):
        name = group.output.name
        users = [g for g in groups if any(name in names_in(x.right) for x in g.lines)]
        if not group.inline or name == output or len(users) != 1:
            continue
        (user,) = users
        line = user.output
        alone = len(user.lines) == 1 and not user.closed and _occurrences(line.right, name) == 1
        if alone and _may_inline(line.right, name, group.inline):
            user.lines[:] = [Definition(line.left, canonical(expanded(line.right, group.lines)))]
            groups.remove(group)


def _free_names(traced: Trace, output: Expr) -> Expr:
    """Give lines the names that they left to the user's tensors, where no such tensor became a line."""
    groups, lines = traced.lines.groups, traced.lines
    for wanted in sorted(lines.avoided - lines.names):
        names = [line.name for group in groups for line in group.lines]
        numbered = [n for n in names if re.fullmatch(rf"{re.escape(wanted)}\d+", label(n))]
        if numbered:
            output = _rename(lines, output, numbered[0], wanted)
            lines.names.add(wanted)
    return output


def _rename(lines: Lines, output: Expr, old: Name, wanted: str) -> Expr:
    """Give a line another name everywhere; the entry of the result is given back."""
    new = name_like(old, wanted)
    change = {old: new, d(old): d(new)}
    for group in lines.groups:
        for part in (group.lines, group.closed):
            part[:] = [Definition(renamed(x.left, change), renamed(x.right, change)) for x in part]
    for constant, mask in lines.constants.items():
        if isinstance(mask, ExtremeMask):
            lines.constants[constant] = replace(mask, of=renamed(mask.of, change))
    return renamed(output, change)


def _may_inline(expr: Expr, name: Name, inline: str) -> bool:
    """May the definition of the name stand in its place: a term, or an argument if `inline` is "anywhere"?"""
    if isinstance(expr, Indexed | Symbol):
        return True
    (inner,) = [a for a in expr.args if not isinstance(a, tuple) and name in names_in(a)]
    if isinstance(expr, Mul) and any(names_in(a) for a in expr.args if a != inner):
        return False
    if isinstance(expr, Pow | Function) and (inline != "anywhere" or expr.func is exp):
        return False
    return _may_inline(inner, name, inline)


def _program(traced: Trace, output: Expr, recurrences: Sequence[Recurrence] = ()) -> Program:
    parameters, constants = [*traced.parameters.values()], [*traced.tables, *traced.lines.constants]
    constants += [d(name_of(output))] if isinstance(output, Indexed) else []
    for r in recurrences:
        parameters += r.entries
        constants += r.adjoints
    program = Program(parameters, constants)
    traced.lines.groups.extend(Group([r.definition]) for r in recurrences)
    for group in traced.lines.groups:
        for line in group.lines:
            program.let(line.left, line.right)
    return program


# ------------------------------------------------------------------------------------------------ as a person writes


def _shortest(derived: DerivedLines, wanted: list[Name]) -> tuple[dict[Name, Definition], list[Theorem]]:
    """The adjoints in the shortest forms that are proved in time, at worst the raw ones."""
    forms: dict[Name, Definition] = {}
    stage("the gradients were written in fewer terms")
    with at_most(SEARCH):
        for shorter in _rewrite(derived, wanted):
            forms = shorter
    stage("the gradients were proved", 20)
    return proved_forms(derived, derived.raw, forms, wanted)


def _rewrite(derived: DerivedLines, wanted: list[Name]) -> Iterator[dict[Name, Definition]]:
    """The adjoints in closed forms and in factors, without those that are used once: each time in shorter forms."""
    forms = _in_factors(derived)
    for name in _adjoints_of_constants(derived):
        if name in forms and _vanishes(derived, name):
            forms[name] = Definition(forms[name].left, S.Zero)
    forms = reachable(forms, wanted)
    yield forms
    simplify = simplifier_of(derived)
    for name, line in forms.items():
        forms = forms | {name: Definition(line.left, simplify(line.right))}
        yield forms
    for shorter in _inline(forms, wanted, simplify):
        forms = shorter
        yield forms
    forms = _by_products(derived, forms, wanted) if derived.products else forms
    yield _with_phi(derived, forms)


def _in_factors(derived: DerivedLines) -> dict[Name, Definition]:
    """Each adjoint as the sum of closed forms and of a product for each place of its name."""
    closed = {(n, c.name): c for n, group in enumerate(derived.groups) for c in group.closed}
    inner = {line.name for group in derived.groups if group.closed for line in group.lines[:-1]}
    ones = derived.links | ({} if derived.loss is None else {d(derived.loss): S.One})
    forms: dict[Name, Definition] = {}
    for entry in reversed(derived.program.entries):
        name = name_of(entry)
        if d(name) not in derived.raw or name in inner:
            continue
        users = [(n, g) for n, g in enumerate(derived.groups) if any(name in names_in(x.right) for x in g.lines)]
        lines = [x for n, g in users if (n, name) not in closed for x in g.lines]
        parts = [adjoint_in_factors(entry, lines, derived.loss)]
        parts += [closed[n, name].at(entry) for n, _ in users if (n, name) in closed]
        forms[d(name)] = Definition(d(entry), Add(*parts).xreplace(ones))
    return forms


def _with_phi(derived: DerivedLines, adjoints: dict[Name, Definition]) -> dict[Name, Definition]:
    """The adjoints with a line Φ, a lower triangle with half of the diagonal, in each that goes through a Cholesky."""
    result: dict[Name, Definition] = {}
    for name, line in adjoints.items():
        right = line.right
        for s in sorted(right.atoms(Sum), key=str) if has_matrices(right) else ():
            if (parts := phi_of(s)) is not None:
                (row, column), phi, outside = parts
                array = Array(derived.trace.lines.unused("Φ"), (row.size, column.size))
                result[array] = Definition(array[row, column], phi)
                terms = [total(term * array[row, column], row, column) for term in Add.make_args(outside)]
                right = right.xreplace({s: Add(*map(canonical, terms))})
        result[name] = Definition(line.left, right)
    return result


def _by_products(derived: DerivedLines, adjoints: dict[Name, Definition], wanted: list[Name]):
    """The adjoints with the shorter form that Xᵀ X C⁻¹ = I - λ C⁻¹ gives, as where a minimum does not depend on λ."""
    output = [derived.forward[-1]] if isinstance(derived.output, Symbol) else []
    for name in wanted:
        line = adjoints[name]
        if isinstance(line.right, Indexed | Symbol) or (isinstance(line.right, Mul) and not has_matrices(line.right)):
            continue
        before = [x for n, x in adjoints.items() if n != name]
        whole = expanded(expanded(line.right, before), [x for x in derived.forward if x not in output])
        if whole.count_ops() > LONG * 8:
            continue
        form = normal_of_matrices(whole, products=derived.products)
        form = factor(canonical(in_products(form, derived.forward)))
        if cost(form) <= cost(line.right):
            adjoints[name] = Definition(line.left, form)
    return reachable(adjoints, wanted)


def simplifier_of(derived: DerivedLines) -> Callable[[Expr], Expr]:
    """Shorter forms: sums that are numbers by the definition of a mean, names for products, common factors in front."""
    simple = {x.name for x in derived.forward if _is_linear_in_names(x.right)}

    def numbers(expr: Expr) -> Expr:
        expr = rebuild(expr, numbers)
        if isinstance(expr, Sum) and isinstance(expr.function, Add) and cost(expr) <= LONG:
            whole = _normal_inside(expr)
            expr = whole if cost(whole) < cost(expr) else expr
        if isinstance(expr, Sum) and names_in(expr) & simple:
            whole = _normal_inside(expr, lambda form: derived.program.expand(form, simple))
            return expr if names_in(whole) else whole
        return expr

    def simplify(expr: Expr) -> Expr:
        for _ in range(4):
            before, expr = expr, shorten(factor(fold(numbers(canonical(expr)), derived.forward, derived.output)))
            if expr == before:
                break
        if has_matrices(expr):
            return _by_matrix_laws(expr, derived)
        for line in reversed(derived.forward):  # 1 - sign(x) y, where y is x/(1 + |x|)
            if line.name in names_in(expr) and cost(line.right) <= SHORT and not line.right.has(Sum):
                whole = shorten(expanded(expr, [line]))
                expr = whole if cost(whole) < cost(expr) else expr
        form = factor(canonical(in_products(expr, derived.forward)))  # A² for Σ_j A_ij A_jk
        return form if len(Add.make_args(form)) < len(Add.make_args(expr)) else expr

    return simplify


def _normal_inside(expr: Expr, change: Callable[[Expr], Expr] = S) -> Expr:
    """The normal form, after a change, of a sum that may stand inside of others, whose indices are then free in it."""
    loose = {i: i.fresh() for i in free(expr)}
    return normal(change(expr.xreplace(loose))).xreplace({new: i for i, new in loose.items()})


def _by_matrix_laws(expr: Expr, derived: DerivedLines) -> Expr:
    """The shortest of the forms that the laws of matrices give, with and without the definitions of names."""
    lines = [x for x in derived.forward if has_matrices(x.right) and x.left != derived.output]
    forms = [expr, shortened(expr), normal_of_matrices(expr), normal_of_matrices(expanded(expr, lines))]
    forms = [factor(canonical(in_products(form, lines))) for form in forms]
    return min(forms, key=lambda form: (sum(term.has(upto) for term in Add.make_args(form)), cost(form)))


def _is_linear_in_names(right: Expr) -> bool:
    """Is this a sum of names, each times numbers, sizes and deltas only?"""
    if isinstance(right, Add):
        return all(map(_is_linear_in_names, right.args))
    if isinstance(right, Sum):
        return _is_linear_in_names(right.function)
    named_ = [f for f in Mul.make_args(right) if names_in(f) and not isinstance(f, KroneckerDelta | upto)]
    if len(named_) == 1 and isinstance(named_[0], Sum | Add):
        return _is_linear_in_names(named_[0])
    return len(named_) <= 1 and all(isinstance(f, Indexed | Symbol) for f in named_)


def _adjoints_of_constants(derived: DerivedLines) -> list[Name]:
    """The adjoints of maxima and the like: they often cancel, as in a softmax that subtracts its largest entry."""
    constants = set(derived.trace.lines.constants)
    return [d(x.name) for x in derived.forward if names_in(x.right) & constants]


def _vanishes(derived: DerivedLines, name: Name) -> bool:
    """Is this adjoint 0, whatever the values are?"""
    later = list(derived.raw.values())
    later = later[: [x.name for x in later].index(name)]
    whole = expanded(derived.raw[name].right, later)
    return normal(expanded(whole, derived.forward)) == 0


def reachable(adjoints: dict[Name, Definition], wanted: list[Name]) -> dict[Name, Definition]:
    """Only the adjoints to which those of the arguments lead."""
    needed, waiting = set(), list(wanted)
    while waiting:
        name = waiting.pop()
        if name in adjoints and name not in needed:
            needed.add(name)
            waiting += [n for n in names_in(adjoints[name].right) if n in adjoints]
    return {n: x for n, x in adjoints.items() if n in needed}


def _inline(adjoints: dict[Name, Definition], wanted: list[Name], simplify: Callable):
    """Put in each adjoint that makes the whole shorter, unless a sum would then stand inside of another sum."""
    known: dict[tuple[Definition, Definition], Definition] = {}  # the second line with the first one put in
    changed = True
    while changed:
        changed = False
        yield adjoints
        for name in [n for n in adjoints if n not in wanted]:
            line = adjoints[name]
            users = {n: x for n, x in adjoints.items() if n != name and _occurrences(x.right, name)}
            for x in users.values():
                if (line, x) not in known:
                    known[line, x] = Definition(x.left, simplify(expanded(x.right, [line])))
            new = {n: known[line, x] for n, x in users.items()}
            gain = sum(cost(users[n].right) - cost(x.right) for n, x in new.items()) + 1 + cost(line.right)
            once = sum(_occurrences(x.right, name) for x in users.values()) <= 1
            if line.right != 0 and (
                gain < (0 if once else 1) or any(_nesting(x.right) > _nesting(users[n].right) for n, x in new.items())
            ):
                continue
            adjoints = {n: new.get(n, x) for n, x in adjoints.items() if n != name}
            changed = True


def _occurrences(expr: Expr, name: Name) -> int:
    """The number of places in which a name stands."""
    if isinstance(expr, Indexed | Symbol):
        return int(name_of(expr) == name)
    return sum(_occurrences(a, name) for a in expr.args)


def _nesting(expr: Expr) -> int:
    """The number of sums and brackets inside of sums."""
    return sum(len([x for x in s.function.atoms(Sum, Add) if names_in(x)]) for s in expr.atoms(Sum))


# ------------------------------------------------------------------------------------------------ the proof


def proved_forms(
    derived: DerivedLines, raw: dict[Name, Definition], forms: dict[Name, Definition], wanted: list[Name]
) -> tuple[dict[Name, Definition], list[Theorem]]:
    """The lines that lead to those that are wanted, with their proofs: a form that is not proved in time stays raw."""
    proved: dict[Name, tuple[Definition, Theorem]] = {}
    with at_most(1):
        for line, theorem in _proofs(derived, raw, forms):
            proved[line.name] = line, theorem
    shown: dict[Name, Definition] = {}
    for name, line in raw.items():
        line, _ = proved.get(name, (line, None))
        shown |= {n: x for n, x in forms.items() if n not in raw and n in names_in(line.right)}
        shown[name] = line
    shown = reachable(shown, wanted)
    signs, plain = derived.trace.lines.signs, (x for n, x in shown.items() if n in raw and n not in proved)
    return shown, [*(t for _, t in proved.values()), *(defined(line.right, {}, signs) for line in plain)]


def _proofs(derived: DerivedLines, raw: dict, forms: dict) -> Iterator[tuple[Definition, Theorem]]:
    """The forms that are equal to the raw lines, with the proof of each."""
    hidden = [x for n, x in raw.items() if n not in forms]
    helpers = [x for n, x in forms.items() if n not in raw]
    first_order = raw is derived.raw
    adjoints = [] if first_order else list(derived.adjoints.values())
    for line in (x for n, x in forms.items() if n in raw):
        difference = raw[line.name].at(line.left) - expanded(line.right, helpers)
        ways = [(hidden, ()), (hidden, derived.inner), (hidden, [*derived.forward, *adjoints])]
        without = [x for n, x in raw.items() if n != line.name]
        if without and (derived.products or not first_order):  # a form may have used what another line is
            ways.append((without, [*derived.forward, *adjoints]))
        theorem = vanishes((expanded(expanded(difference, a), b) for a, b in ways), derived.facts)
        if theorem is not None and "equality" not in theorem.hypotheses:  # which may hold nowhere, as of x == x.max()
            yield line, theorem
        stage("", 20 / len(forms))

"""The gradient of a function for any size: reverse mode over its lines, written as a person would, and proved.

The program of tracing.py is differentiated line by line (calculus/adjoints.py): these are the raw adjoints. They are
then rewritten: a group with a closed form uses it, an adjoint that is used once is put in, a product of factors that
has a name becomes that name. Whatever the rewriting did, each line that is shown is proved equal to the raw adjoint,
for all sizes and values, by putting definitions in and comparing normal forms.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sympy import Add, Expr, Function, Indexed, Mul, Pow, S, Sum, Symbol, factor_terms

from tinytensor.symbolic.calculus.adjoints import Definition, Name, Program, adjoint_of, d, name_of, names_in
from tinytensor.symbolic.calculus.formulas import Array, fresh, normal
from tinytensor.symbolic.derive.recording import NotDerivable
from tinytensor.symbolic.derive.tracing import Trace, trace
from tinytensor.symbolic.derive.values import Group, Value, named


@dataclass
class Derived:
    """The lines of a derivation: forward, and the adjoints of the arguments and of what they are written in."""

    trace: Trace
    output: Expr  # the entry of the result
    forward: list[Definition]
    raw: dict[Name, Definition]  # adjoints by plain differentiation
    adjoints: dict[Name, Definition]  # as they are shown, in the order in which they are computed
    unproved: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def groups(self) -> list[Group]:
        return self.trace.lines.groups


def derive_lines(fn: Callable, given: dict[str, object]) -> Derived:
    """The forward lines and the proved adjoints of a function."""
    start = time.perf_counter()
    found = trace(fn, given)
    output = _output(found)
    program = _program(found, output)
    loss = output if isinstance(output, Symbol) else None
    raw: dict[Name, Definition] = {}
    for entry in reversed(program.entries):
        if name_of(entry) != name_of(output):
            raw[d(name_of(entry))] = Definition(d(entry), adjoint_of(entry, program.lines, loss))
    derived = Derived(found, output, program.lines, raw, {})
    wanted = [d(found.arrays[n]) for n, a in found.tensors.items() if a.below is None]
    shown = _shown(derived, program, wanted)
    _prove(derived, program, shown)
    derived.adjoints = shown
    derived.seconds = time.perf_counter() - start
    return derived


def _output(found: Trace) -> Expr:
    """The entry of the result's name; a formula becomes a last line."""
    value = found.result
    if value.finite is not None or value.kind != "f":
        raise NotDerivable("derive: the result is no tensor of finite floats; return one that has a gradient")
    indices = value.indices()
    expr = value.entry(*indices)
    groups = found.lines.groups
    last = groups[-1].output.left if groups else None
    if last is not None and expr == last.xreplace(dict(zip(getattr(last, "indices", ()), indices))):
        return last
    _, left, at = found.lines.left("Y" if indices else "loss", value)
    groups.append(Group([Definition(left, fresh(S(value.entry(*at))))]))
    return left


def _program(found: Trace, output: Expr) -> Program:
    tensors = found.tensors
    parameters = []
    for name, a in tensors.items():
        array = found.arrays[name]
        value = named(array, Value(a.dims, None))
        if a.below is None:
            parameters.append(value.entry(*value.indices()))
    constants = [found.arrays[n] for n, a in tensors.items() if a.below is not None]
    extra = [d(name_of(output))] if isinstance(output, Indexed) else []
    program = Program(parameters, [*constants, *found.lines.constants, *extra])
    for group in found.lines.groups:
        for line in group.lines:
            program.let(line.left, line.right)
    return program


# ------------------------------------------------------------------------------------------------ as a person writes


def _shown(derived: Derived, program: Program, wanted: list[Name]) -> dict[Name, Definition]:
    """The adjoints in closed forms, without those that are used once."""
    adjoints: dict[Name, Definition] = {}
    closed = {}  # (group number, array): the contribution
    inner = set()
    for number, group in enumerate(derived.groups):
        for c in group.closed:
            closed[number, name_of(c.entry)] = c
        if group.closed:
            inner |= {line.name for line in group.lines[:-1]}
    loss = derived.output if isinstance(derived.output, Symbol) else None
    for name, line in derived.raw.items():
        array = name.of if isinstance(name, Array) else None
        own = array if array is not None else next(e for e in program.entries if _is(e, name))
        if own in inner:
            continue
        entry = line.left
        groups = [(n, g) for n, g in enumerate(derived.groups) if any(own in names_in(x.right) for x in g.lines)]
        if not any((n, own) in closed for n, _ in groups):
            adjoints[name] = Definition(entry, factor_terms(line.right))
            continue
        plain_lines = [x for n, g in groups if (n, own) not in closed for x in g.lines]
        source = own[entry.indices] if isinstance(entry, Indexed) else own
        total_ = adjoint_of(source, plain_lines, loss) if plain_lines else S.Zero
        parts = []
        for n, _ in groups:
            if (n, own) in closed:
                c = closed[n, own]
                change = dict(zip(c.entry.indices, entry.indices, strict=True)) if isinstance(entry, Indexed) else {}
                form = fresh(c.form).xreplace(change)
                parts.append(form.xreplace({d(loss): S.One}) if loss is not None else form)
        adjoints[name] = Definition(entry, Add(*parts, factor_terms(total_)))
    for name in _of_constants(derived):
        if name in adjoints and _vanishes(derived, program, name):
            adjoints[name] = Definition(adjoints[name].left, S.Zero)
    adjoints = _needed(adjoints, wanted)
    adjoints = _put_in(adjoints, wanted)
    linear = [x.name for x in derived.forward if not x.right.has(Function) and x.right.has(Sum)]
    adjoints = {n: Definition(x.left, _without_zeros(x.right, program, linear)) for n, x in adjoints.items()}
    return {n: Definition(x.left, fold(x.right, derived.forward)) for n, x in adjoints.items()}


def _of_constants(derived: Derived) -> list[Name]:
    """The adjoints of maxima and the like: they often cancel, as in a softmax that subtracts its largest entry."""
    constants = set(derived.trace.lines.constants)
    return [d(x.name) for x in derived.forward if names_in(x.right) & constants]


def _vanishes(derived: Derived, program: Program, name: Name) -> bool:
    """Is this adjoint 0, whatever the values are?"""
    later = list(derived.raw.values())
    later = later[: [x.name for x in later].index(name)]
    whole = _expand(derived.raw[name].right, later)
    return normal(program.expand(whole, {x.name for x in derived.forward})) == 0


def _without_zeros(expr: Expr, program: Program, linear: list[Name]) -> Expr:
    """The expression without sums of terms that are 0 by the definition of a mean."""
    if not expr.args or isinstance(expr, Indexed | Sum):
        return expr
    if isinstance(expr, Add) and linear and normal(program.expand(expr, set(linear))) == 0:
        return S.Zero
    return expr.func(*[_without_zeros(a, program, linear) for a in expr.args])


def _is(entry: Expr, adjoint: Name) -> bool:
    return isinstance(entry, Symbol) and d(entry) == adjoint


def _needed(adjoints: dict[Name, Definition], wanted: list[Name]) -> dict[Name, Definition]:
    """Only the adjoints to which those of the arguments lead."""
    found, waiting = set(), list(wanted)
    while waiting:
        name = waiting.pop()
        if name in adjoints and name not in found:
            found.add(name)
            waiting += [n for n in names_in(adjoints[name].right) if n in adjoints]
    return {n: x for n, x in adjoints.items() if n in found}


def _put_in(adjoints: dict[Name, Definition], wanted: list[Name]) -> dict[Name, Definition]:
    """Put in each adjoint that stands in one place only, unless it is a sum of terms inside of another sum."""
    adjoints = dict(adjoints)
    changed = True
    while changed:
        changed = False
        for name in list(adjoints):
            if name in wanted:
                continue
            places = [(n, _places(x.right, name)) for n, x in adjoints.items() if n != name]
            places = [(n, p) for n, p in places if p]
            if not places:
                del adjoints[name]
                changed = True
                continue
            line = adjoints[name]
            trivial = not line.right.has(Add, Sum)
            zero = line.right == 0
            once = len(places) == 1 and places[0][1] == 1
            if not (zero or once or (trivial and line.right.count_ops() <= 3)):
                continue
            for user, _ in places:
                old = adjoints[user]
                if not zero and not trivial and _in_sum(old.right, name):
                    break
                right = _expand(old.right, [line])
                adjoints[user] = Definition(old.left, factor_terms(right) if zero else right)
            else:
                del adjoints[name]
                changed = True
    return adjoints


def _places(expr: Expr, name: Name) -> int:
    """The number of places in which a name stands."""
    if isinstance(expr, Indexed | Symbol):
        return int(name_of(expr) == name)
    return sum(_places(a, name) for a in expr.args)


def _in_sum(expr: Expr, name: Name) -> bool:
    return any(_places(s, name) for s in expr.atoms(Sum))


def fold(expr: Expr, lines: Iterable[Definition]) -> Expr:
    """Products of factors that have a name become that name: e_i / s is σ_i, where σ_i = e_i / s."""
    for line in lines:
        right = line.right
        factors = Mul.make_args(right)
        if not isinstance(line.left, Indexed) or len(factors) < 2 or right.has(Sum) or right.is_Add:
            continue
        keys = [f for f in factors if isinstance(f, Indexed)]
        if keys:
            expr = _fold_one(expr, line, keys[0])
    return expr


def _fold_one(expr: Expr, line: Definition, key: Indexed) -> Expr:
    if not expr.args or isinstance(expr, Indexed):
        return expr
    expr = (
        expr.func(*[_fold_one(a, line, key) if not isinstance(a, tuple) else a for a in expr.args])
        if not (isinstance(expr, Sum))
        else expr.func(_fold_one(expr.function, line, key), *expr.limits)
    )
    if not isinstance(expr, Mul):
        return expr
    for factor in expr.args:
        base = factor.base if isinstance(factor, Pow) else factor
        if isinstance(base, Indexed) and base.base == key.base:
            change = dict(zip(key.indices, base.indices, strict=True))
            if set(line.left.indices) - set(change):
                continue
            left = line.left.xreplace(change)
            new = expr / line.right.xreplace(change) * left
            if new.count_ops() < expr.count_ops():
                return _fold_one(new, line, key)
    return expr


# ------------------------------------------------------------------------------------------------ the proof


def _prove(derived: Derived, program: Program, shown: dict[Name, Definition]) -> None:
    """Prove each shown adjoint equal to the raw one, or note it as unproved."""
    raw = Program(program.parameters.values(), [*program.constants, *_taken(shown)])
    for line in program.lines:
        raw.let(line.left, line.right)
    hidden = [x for n, x in derived.raw.items() if n not in shown]
    forward = [line.name for line in program.lines]
    inner = [line.name for g in derived.groups if g.closed or len(g.lines) > 1 for line in g.lines]
    for name, line in shown.items():
        own = derived.raw[name]
        first = _expand(own.at(line.left), hidden) - line.right
        for through in ((), inner, forward):
            if normal(program.expand(first, set(through))) == 0:
                break
        else:
            derived.unproved.append(str(name.label if isinstance(name, Array) else name))


def _taken(shown: dict[Name, Definition]) -> list[Name]:
    return list(shown)


def _expand(expr: Expr, lines: list[Definition]) -> Expr:
    """expr with these adjoints replaced by their definitions, those computed last first."""
    for line in reversed(lines):
        expr = fresh(expr)
        entries = {e for e in expr.atoms(Indexed, Symbol) if name_of(e) == line.name}
        expr = expr.xreplace({e: line.at(e) for e in entries})
    return expr

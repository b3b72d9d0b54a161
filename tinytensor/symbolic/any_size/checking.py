"""check: is a gradient that was derived by hand the derivative? Proved for any size, or refuted at the smallest one.

The gradient by hand is a function of tensors, or a formula. Its numbers are compared with backward() at small sizes and
edge values first: the first sizes at which they differ refute it, and the terms that only one of the two has are named.
Else it is read as a program of index formulas, as the function itself is. Lines of it that the function has, too, get
the function's names, and the two gradients are compared by normal forms.
"""

import builtins
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import NamedTuple

import numpy as np
from sympy import Add, Dummy, Expr, Indexed, Mul, Pow, S, Symbol

from tinytensor.autograd.function import Context, Function
from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.nn import functional
from tinytensor.ops.creation import ones, tensor
from tinytensor.ops.methods import FUNCTIONS
from tinytensor.symbolic.any_size.arguments import Index
from tinytensor.symbolic.any_size.conditions import VALUES, Signs, SizeCondition, restrictions, verdict
from tinytensor.symbolic.any_size.derivation import Derivation, Formula, derive
from tinytensor.symbolic.any_size.deriving import LONG, Derived, line_key
from tinytensor.symbolic.any_size.meanings import as_number
from tinytensor.symbolic.any_size.recording import NotDerivable
from tinytensor.symbolic.any_size.samples import close, edges_noted, excuses
from tinytensor.symbolic.any_size.sizes import asked
from tinytensor.symbolic.any_size.tracing import told, trace
from tinytensor.symbolic.any_size.values import Chosen, Value, formula_key
from tinytensor.symbolic.calculus.adjoints import Definition, Name, contradiction, d, expanded, lengths, name_of
from tinytensor.symbolic.calculus.formulas import (
    Array,
    Size,
    absolute,
    fresh,
    held,
    larger,
    normal,
    normal_of_quotients,
    normal_of_steps,
    of_whole_numbers,
    relu,
    same,
    sign,
    theta,
    total,
    vanishes_in_cells,
)
from tinytensor.symbolic.calculus.formulas import Index as Bound
from tinytensor.symbolic.calculus.notation import text

UPSTREAM = "g"  # the argument of a gradient by hand that takes the gradient of the function's result


@dataclass(frozen=True)
class Checked:
    """The verdict on the gradient of one argument.

    verdict: "proved", "refuted" or "undecided". term: what differs, in the names of the function, or `why` nothing is
    decided. example: the smallest sizes, and an entry, where the numbers differ. statement: what is proved, with its
    conditions on sizes and values. conditions: those on values, and those on sizes. restricted: is one of them neither
    in `where` nor demanded by the function?

    It is true if the gradient is proved and not restricted. The conditions on values do not make it false: they are of
    a short list, denominators, arguments of roots and logarithms, and numbers that are compared.
    """

    argument: str
    verdict: str
    expected: Formula | None = None
    why: str = ""
    example: str = ""
    statement: str = ""
    conditions: tuple[str, ...] = ()
    restricted: bool = False
    find_term: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def term(self) -> str:
        """What differs; it is looked for when it is read, which takes longer than the numbers that refute."""
        return self.why or (self.find_term() if self.find_term is not None else "")

    def __bool__(self) -> bool:
        """Is it proved, for all sizes that the function takes or `where` names, and all values but the named ones?"""
        return self.verdict == "proved" and not self.restricted

    def __str__(self) -> str:
        if self.verdict == "proved":
            return f"∂𝓛/∂{self.argument}: {self.statement}"
        parts = [f"∂𝓛/∂{self.argument}: {self.verdict}", self.term, self.example]
        parts += [f"expected {self.expected}"] if self.expected else []
        return "\n    ".join(part for part in parts if part)

    __repr__ = __str__


class Check:
    """The verdicts of `check`, by argument; true if all are proved, each under the conditions that its line names."""

    def __init__(self, derivation: Derivation, verdicts: dict[str, Checked]):
        self.derivation, self.verdicts = derivation, verdicts

    def __bool__(self) -> bool:
        """Are all proved, each under the conditions on values (of the short list) that its line names?

        False where one is proved for some sizes only, and `where` does not say that this is meant.
        """
        return all(self.verdicts.values())

    def __getitem__(self, argument: str) -> Checked:
        return self.verdicts[argument]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the proof rests on."""
        more = (one for v in self.verdicts.values() for one in v.conditions)
        return tuple(dict.fromkeys((*self.derivation.assumptions, *more)))

    def __str__(self) -> str:
        return "\n".join(map(str, self.verdicts.values()))

    __repr__ = __str__


def check(
    fn: Callable | Derivation,
    by_hand: dict[str, object] | None = None,
    where: str | Sequence[str] = (),
    **arguments,
) -> Check:
    """Prove or refute gradients that were derived by hand, for any size.

    fn: a function, or the result of `derive` for it, which is then used for several checks. by_hand: for each argument
    of fn its gradient: a function of tensors that takes fn's arguments by their names (and `g`, the gradient of fn's
    result, where that is no number), the same as text ("X.T @ (X @ w - y) * 2 / N", in which sizes may be used), or a
    formula of a derivation. Without it fn is an autograd.Function, and its own backward is checked. where and arguments
    are those of `derive`.

    Each gradient is compared with backward() in numbers at small sizes first, and proved only if no number refutes it
    and the derivation itself is proved. The result is true if all gradients are proved; the line of each names the
    conditions, or the term that differs where one is refuted.
    """
    if isinstance(fn, Derivation):
        if where or arguments:
            raise TypeError("check: a derivation has its arguments and its `where` already; leave them out")
        derivation = fn
    else:
        if isinstance(fn, type) and hasattr(fn, "backward") and by_hand is None:  # ours, or PyTorch's
            fn, by_hand = _of_function(fn, arguments)
        derivation = None
    if not isinstance(by_hand, dict) or not by_hand:
        raise TypeError('check: by_hand is a dictionary from the arguments to their gradients: {"X": lambda X, g: ...}')
    if derivation is None:
        derivation = derive(fn, where, **arguments)
    if unknown := [name for name in by_hand if name not in derivation.gradients]:
        raise ValueError(
            f"check: by_hand has a gradient of {unknown[0]!r}; the arguments that have one are "
            f"{', '.join(derivation.gradients)}"
        )
    return Check(derivation, {name: _checked(derivation, name, hand) for name, hand in by_hand.items()})


def _takes_context(function: type) -> bool:
    """Does its forward take ctx? It does not where the user has written setup_context."""
    declared = next(c for c in function.__mro__ if "setup_context" in vars(c))
    return declared.__module__ in (Function.__module__, "torch.autograd.function")


def _of_function(function: type, arguments: dict) -> tuple[Callable, dict[str, Callable]]:
    """An autograd.Function as a function, and its backward as a gradient by hand for each float argument."""
    names = list(arguments)
    with_context = _takes_context(function)

    def context(values: list):
        ctx = Context(tuple(isinstance(v, Tensor) and v.dtype.kind == "f" for v in values))
        if with_context:
            result = function.forward(ctx, *values)
        else:
            result = function.forward(*values)
            function.setup_context(ctx, tuple(values), result)
        ctx._saved = [(t, None, 0) for t in ctx._to_save]
        return ctx, result

    def forward(**values):
        return context(list(values.values()))[1]

    def backward(place: int, values: dict):
        given = [values[n] for n in names]
        ctx, result = context(given)
        found = function.backward(ctx, values[UPSTREAM] if result.ndim else ones((), dtype=result.dtype))
        return (found if isinstance(found, tuple) else (found,))[place]

    forward.__name__ = function.__name__
    by_hand = {}
    for place, (name, value) in enumerate(arguments.items()):
        if isinstance(value, tuple | list):
            by_hand[name] = lambda place=place, **values: backward(place, values)
    return forward, by_hand


def _checked(derivation: Derivation, name: str, hand) -> Checked:
    found = derivation.found
    entry = found.adjoints[d(found.trace.arrays[name])].left
    expected = derivation.gradients[name]
    if isinstance(hand, Formula):
        left = dict(zip(getattr(hand.left, "indices", ()), getattr(entry, "indices", ()), strict=True))
        return _proved(derivation, name, _Hand(hand.right.xreplace(left)), Compared())
    function = _function(hand)

    def own() -> _Hand:
        try:
            return _by_hand(derivation, name, function, entry)
        except NotDerivable as error:
            return _Hand(None, why=str(error))

    def term() -> str:
        read = own()
        return read.shape if read.entry is None else _term(derivation, name, read)

    compared = _compared(derivation, name, function)
    if compared.example:
        return Checked(name, "refuted", expected, "", compared.example, find_term=term)
    read = own()
    if read.entry is None:
        return Checked(name, "refuted" if read.shape else "undecided", expected, read.shape or read.why)
    return _proved(derivation, name, read, compared)


class Compared(NamedTuple):
    """A gradient by hand beside backward(), in numbers.

    example: the smallest sizes, and an entry there, at which they differ; empty if they differ nowhere but where a
    condition on values fails. needed: those conditions, and "equality" for equal numbers in x == y. agreed: the sizes
    of the points at which they agree, with the conditions that fail there.
    """

    example: str = ""
    needed: frozenset[str] = frozenset()
    agreed: tuple[tuple[dict, frozenset[str]], ...] = (({}, frozenset()),)

    def tried(self, sizes: Sequence[SizeCondition], besides: frozenset[str]) -> bool:
        """Do they agree at a point at which these conditions on sizes, and all on values but `besides`, are met?"""
        return any(not edges - besides and all(c.holds(at) for c in sizes) for at, edges in self.agreed)


@dataclass(frozen=True)
class _Hand:
    """A gradient by hand as an entry in the names of the function, and its conditions.

    The entry is None if its shape is wrong, as `shape` says, or if it is no formula, as `why` says.
    """

    entry: Expr | None
    sizes: tuple[SizeCondition, ...] = ()
    values: tuple[str, ...] = ()  # keys of VALUES
    why: str = ""
    shape: str = ""


def _proved(derivation: Derivation, name: str, own: _Hand, compared: Compared) -> Checked:
    """Compare normal forms, where no number refutes the gradient by hand."""
    expected, found = derivation.gradients[name], derivation.found
    if found.unproved or derivation.differs:
        return Checked(name, "undecided", expected, derivation.verdict)
    derived = _derived(derivation, name)
    try:
        keys = _equal(derived, own.entry, found)
    except TypeError as error:  # indices of two ranges meet
        return Checked(name, "undecided", expected, str(error))
    if not keys:
        return Checked(name, "undecided", expected, find_term=lambda: _term(derivation, name, own))
    if "equality" in compared.needed - keys:
        return Checked(name, "undecided", expected, "where numbers that are compared by == are equal, the two differ")
    if not compared.tried(own.sizes, frozenset() if "equality" in keys else frozenset({"equality"})):
        return Checked(name, "undecided", expected, "at no point that was tried are all conditions met")
    if why := contradiction(derived - own.entry, found.forward):
        return Checked(name, "undecided", expected, why)
    keys = {*keys, *compared.needed, *own.values} | {k for k in VALUES if VALUES[k] in derivation.value_conditions}
    values = tuple(VALUES[k] for k in VALUES if k in keys)
    sizes = tuple(dict.fromkeys((*derivation.size_conditions, *own.sizes)))
    restricted = restrictions(sizes, derivation.where, derivation.samples)
    statement = verdict(sizes, values, restricted, derivation.refused)
    return Checked(name, "proved", expected, "", "", statement, (*map(str, sizes), *values), bool(restricted))


def _derived(derivation: Derivation, name: str) -> Expr:
    """The derived entry, in names of the function alone."""
    found = derivation.found
    return expanded(found.adjoints[d(found.trace.arrays[name])].right, list(found.adjoints.values()))


def _equal(derived: Expr, own: Expr, found: Derived) -> set[str]:
    """The conditions on values under which the two are equal, keys of VALUES and ""; empty if they are not equal."""
    for lines in ([], found.forward):
        rest = normal(_without_held(expanded(derived - own, lines)))
        if rest == 0:
            return {""}
    for whole in (rest, _with_chosen(rest, found)):
        whole = _in_whole_numbers(whole)
        if whole == 0:
            return {""}
        if normal_of_quotients(whole) == 0:
            return {"denominator"} if _divides(whole) else {""}
    whole = _in_whole_numbers(rest)
    if whole.has(theta, relu, larger, absolute, sign, same) and (
        normal_of_steps(whole) == 0 or vanishes_in_cells(whole)
    ):
        found_keys = {"tie"} | ({"denominator"} if _divides(whole) else set())
        return found_keys | ({"equality"} if whole.has(same) else set())
    return set()


def _in_whole_numbers(expr: Expr) -> Expr:
    """The normal form with one form for comparisons of whole numbers; new numbers of indices may change their order."""
    for _ in range(4):
        before, expr = expr, normal(of_whole_numbers(normal(expr)))
        if expr == before:
            break
    return expr


def _with_chosen(expr: Expr, found: Derived) -> Expr:
    """The expression with the shares of a largest entry written out: [x_i = m]/Σ_j [x_j = m], for the largest m."""
    hidden = {equality: Dummy() for equality in expr.atoms(same)}  # by hand, the largest entry stands in these
    expr = expr.xreplace(hidden)
    for array, one in found.trace.lines.constants.items():
        if isinstance(one, Chosen) and one.function.endswith("_shared"):
            over = [one.indices[n] for n in one.axes]
            whole = expanded(one.of, found.forward)
            equal = same(whole - total(array[one.indices] * whole, *over))
            share = equal / total(equal, *over)
            entries = [entry for entry in expr.atoms(Indexed) if entry.base == array]
            expr = expr.xreplace({e: fresh(share).xreplace(dict(zip(one.indices, e.indices))) for e in entries})
    return expr.xreplace({hidden_one: equality for equality, hidden_one in hidden.items()})


def _without_held(expr: Expr) -> Expr:
    """The expression with numbers for those that detach() held constant: only a derivative tells the two apart."""
    return expr.replace(held, lambda x: x)


def _divides(expr: Expr) -> bool:
    """Has it a denominator that may be 0?"""
    signs = Signs([])
    return any(p.exp.is_negative is not False and not signs.not_zero(p.base) for p in expr.atoms(Pow))


def _term(derivation: Derivation, name: str, own: _Hand) -> str:
    """What differs, in the names of the function."""
    derived = _derived(derivation, name)
    terms = []
    for lines in ([], derivation.found.forward):
        one, other = (normal(expanded(e, lines)) for e in (derived, own.entry))
        if one != other:
            terms.append("; ".join(_difference(one, other)))
    return min(terms, key=len) if terms else ""


# ------------------------------------------------------------------------------------------------ the hand's formula


def _function(hand) -> Callable:
    """A gradient by hand as a function of tensors by name."""
    if callable(hand):
        return hand
    if not isinstance(hand, str):
        raise TypeError(
            f"check: a gradient by hand is a function of tensors, a text or a formula, not {type(hand).__name__}"
        )
    code = compile(hand, "<the gradient by hand>", "eval")
    known = {n: getattr(functional, n) for n in dir(functional) if n[0] != "_"} | FUNCTIONS
    known |= {n: _of_numbers(known[n], getattr(builtins, n)) for n in known.keys() & {"min", "max", "abs", "round"}}

    def function(**values):
        return eval(code, known | values)

    function.needs = frozenset(_names(code))
    function.__name__ = hand
    return function


def _of_numbers(function: Callable, built_in: Callable) -> Callable:
    """The function of tensors, or Python's own of that name where no tensor is given: min(N, 4)."""
    return lambda *args, **keywords: (function if any(isinstance(a, Tensor) for a in args) else built_in)(
        *args, **keywords
    )


def _names(code: CodeType) -> Iterator[str]:
    """The names that a text reads, also inside of its lambdas."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _takes(function: Callable, names, sizes) -> set[str]:
    """The names among these that a function takes; sizes only where it names them itself."""
    if (needs := getattr(function, "needs", None)) is not None:
        return {*names, *sizes} & needs
    code = function.__code__
    own = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return ({*names, *sizes} & own) | (set(names) if code.co_flags & inspect.CO_VARKEYWORDS else set())


def _by_hand(derivation: Derivation, name: str, function: Callable, entry: Expr) -> _Hand:
    """The gradient by hand as an entry, in the names of the function."""
    found = derivation.found
    given = dict(derivation.given)
    if isinstance(found.output, Indexed):
        if UPSTREAM in given:
            raise ValueError(f"check: the function has an argument {UPSTREAM!r}, the name of the incoming gradient")
        given[UPSTREAM] = tuple(_as_written(dim) for dim in found.trace.result.dims)

    def call(**values):
        sizes = {n: asked(m) for n, m in _sizes_in(given, values).items()}
        return function(**_arguments(function, sizes, values))

    split = found.trace.split
    names = [str(getattr(x.name, "label", x.name)) for x in found.forward]
    taken = {*names, *(f"d{n}" for n in (*names, *found.trace.tensors)), *found.trace.lines.names}
    other = trace(call, given, needs_gradient=False, where=derivation.size_conditions, split=split, reserved=taken)
    if other.split != split:
        raise NotDerivable("check: the gradient by hand takes sizes apart in another way than the function")
    value = other.result
    want = found.trace.tensors[name].shape
    if tuple(value.shape) != tuple(want):
        came, wanted = (f"({', '.join(map(str, shape))})" for shape in (value.shape, want))
        return _Hand(None, shape=f"the gradient by hand has the shape {came}, but {name} has {wanted}")
    changed = _constants(found.trace, other)
    own = _with(changed, S(as_number(value).entry(*getattr(entry, "indices", ()))))
    own = expanded(own, _renamed(found, other, changed))
    if isinstance(found.output, Indexed):
        g, output = other.arrays[UPSTREAM], name_of(found.output)
        own = own.xreplace({e: d(output)[e.indices] for e in own.atoms(Indexed) if e.base == g})
    return _Hand(own, tuple(other.size_conditions), tuple(other.value_conditions))


def _sizes_in(given: dict, values: dict) -> dict[str, int]:
    """The sizes by name, read from the shapes of the arguments; a product such as "2*K" is divided by what is known."""
    numbers: dict[str, int] = {}
    for key, value in given.items():
        if isinstance(value, tuple | list | Index) and isinstance(values.get(key), Tensor):
            shape = value.shape if isinstance(value, Index) else value
            numbers |= {n: m for n, m in zip(shape, values[key].shape, strict=True) if isinstance(n, str)}
    return numbers


def _arguments(function: Callable, sizes: dict, values: dict) -> dict:
    """What a gradient by hand takes of the sizes and values."""
    takes = _takes(function, values, sizes)
    return {k: v for k, v in (sizes | values).items() if k in takes}


def _as_written(dim: tuple[Expr, ...]) -> str | Expr:
    """A dimension with its factors in their order, "K*2", which tells x[..., ::2] from x[..., :K]."""
    return "*".join(map(str, dim)) if dim and all(n.is_Symbol or n.is_Integer for n in dim) else Mul(*dim)


def _constants(function, hand) -> dict[Name, Name]:
    """The constants of the program by hand: those that the function has, too, and new names for all others.

    Two programs may give one name to different constants, which must not be taken for each other.
    """
    changed: dict[Name, Name] = {}
    kept = {_base(value): arrays for arrays, value in function.tables}
    for arrays, value in hand.tables:
        same_numbers = (
            name
            for name, others in kept.items()
            if all(a.shape == b.shape and (a == b).all() for a, b in zip(arrays, others, strict=True))
        )
        name = _base(value)
        changed[name] = next(same_numbers, _new_constant(name, function))
    chosen = {
        _key_of_chosen(one, function, {}): n for n, one in function.lines.constants.items() if isinstance(one, Chosen)
    }
    for name, one in hand.lines.constants.items():
        if isinstance(one, Chosen):
            own = chosen.get(_key_of_chosen(one, hand, changed))
            changed[name] = _new_constant(name, function) if own is None else own
    return changed


def _new_constant(name: Name, function) -> Name:
    """A name that the function does not have, for a constant of the gradient by hand."""
    new = function.lines.unused(f"{name.name}_by_hand")
    return Array(new, name.sizes) if isinstance(name, Array) else Symbol(new, real=True)


def _base(value: Value) -> Name:
    """The array of a constant."""
    return name_of(value.entry(*value.indices()))


def _key_of_chosen(one: Chosen, program, changed: dict[Name, Name]) -> tuple:
    """The same for constants that mark the same places of the same array."""
    lines = [line for group in program.lines.groups for line in group.lines]
    whole = _with(changed, expanded(one.of, lines))
    return one.function, one.axes, *formula_key(whole, one.indices)


def _with(changed: dict[Name, Name], expr: Expr) -> Expr:
    """expr with the names of constants changed."""
    entries = {e: changed[e.base][e.indices] for e in expr.atoms(Indexed) if e.base in changed}
    return expr.xreplace(entries | {s: changed[s] for s in expr.atoms(Symbol) if s in changed})


def _renamed(found, other, changed: dict[Name, Name]) -> list[Definition]:
    """The definitions of the names by hand: a line that the function has, too, is defined as the function's name.

    A line is compared in the function's names first. One that is written in other steps is compared in the names of
    arguments alone, if it is short then: to expand a long one takes long.
    """
    known, known_whole = found.line_keys
    lines = [Definition(x.left, _with(changed, x.right)) for group in other.lines.groups for x in group.lines]
    result = []
    for line, length in lengths(lines):
        right = expanded(line.right, result)
        whole = expanded(line.right, lines) if length <= LONG else None
        for power in (1, -1):  # √s by hand, and 1/√s in the function
            match = known.get(line_key(right**power, line))
            if match is None and whole is not None:
                match = known_whole.get(line_key(whole**power, line))
            if match is not None:
                change = dict(zip(getattr(match.left, "indices", ()), getattr(line.left, "indices", ()), strict=True))
                result.append(Definition(line.left, match.left.xreplace(change) ** power))
                break
        else:
            result.append(line)
    return result


def entry_of_difference(one: Derivation, other: Derivation) -> Expr:
    """An entry of one function's result without that of another's, as a normal form; 0 if they are the same."""
    entries = []
    for found in (one.found, other.found):
        *before, last = found.forward
        entries.append((last.left, expanded(last.right, before)))
    (left, first), (name, second) = entries
    second = second.xreplace(dict(zip(getattr(name, "indices", ()), getattr(left, "indices", ()), strict=True)))
    rest = normal(first - second)
    return rest if rest == 0 else normal_of_steps(rest)


# ------------------------------------------------------------------------------------------------ what differs


def _difference(derived: Expr, own: Expr) -> list[str]:
    """The terms that only one of two normal forms has, in words."""
    rest = derived - own
    missing = [t for t in Add.make_args(derived) if t != 0 and t not in Add.make_args(own)]
    extra = [t for t in Add.make_args(own) if t != 0 and t not in Add.make_args(derived)]
    pairs: dict[Expr, list[Expr]] = {}  # a factor: the terms by hand that lack it
    for term in list(missing):
        other, factor = next(((t, r) for t in extra if (r := _ratio(term, t)) is not None), (None, None))
        if other is not None:
            pairs.setdefault(factor, []).append(other)
            missing.remove(term)
            extra.remove(other)
    parts = []
    for factor, terms in pairs.items():
        how = "the sign is wrong" if factor == -1 else f"the factor {text(factor)} is missing"
        everywhere = len(terms) == len(Add.make_args(own))
        where = "everywhere" if everywhere and len(terms) > 1 else "in the term " + ", ".join(map(text, terms))
        parts.append(f"{how} {where}")
    parts += [f"the term {text(t)} is missing" for t in missing]
    parts += [f"the term {text(t)} is not in the derivative" for t in extra]
    return parts or [f"the difference is {text(rest)}"]


def _ratio(one: Expr, other: Expr) -> Expr | None:
    """one / other if that is made of numbers and sizes."""
    ratio = Mul(one, 1 / other)
    symbols = {s for s in ratio.free_symbols if not isinstance(s, Size)}
    return None if symbols or ratio.atoms(Bound, Indexed) else ratio


def _compared(derivation: Derivation, name: str, function: Callable) -> Compared:
    """The gradient by hand beside backward() at the samples that meet the function's conditions on sizes.

    An exception that it raises at every one of them is the caller's mistake, and goes on.
    """
    needed: set[str] = set()
    agreed: list[tuple[dict, frozenset[str]]] = []
    equal, example = "", ""  # equal: a point at which they differ, and only an x == y is a tie
    failures: list[Exception] = []
    ran = False
    inside = [one for one in derivation.samples if derivation.inside(one)]
    for one in sorted(inside, key=lambda s: (sum(s.at.values()), max(s.at.values(), default=0))):
        values = dict(one.inputs)
        if one.upstream is not None:
            values[UPSTREAM] = tensor(one.upstream)
        edges, problem = set(one.edges), ""
        try:
            with no_grad(), edges_noted(values) as more:
                own = function(**_arguments(function, {str(s): n for s, n in one.at.items()}, values))
            edges |= more
            ran = True
            own = own.detach().numpy() if isinstance(own, Tensor) else np.asarray(own)
            problem = _mismatch(one.gradients[name], own)
        except Exception as error:
            failures.append(error)
            problem = f": the gradient by hand fails: {type(error).__name__}: {error}".splitlines()[0]
        if not problem:
            agreed.append((one.at, frozenset(edges)))
            continue
        inputs = ", ".join(f"{k} = {_short(one.inputs[k])}" for k in derivation.found.trace.tensors)
        problem = f"at {told(one.at) or 'one number'}{problem} ({inputs})"
        edges = excuses(edges, one.inputs)
        if not edges:
            example = example or problem
            if ran:
                break
        equal = equal or (problem if edges == {"equality"} else "")
        needed |= edges
    if failures and len(failures) == len(inside):
        raise failures[0]
    if equal and not any(not edges for _, edges in agreed):  # it always compares equal numbers, as in x == x.max()
        example = example or equal
    return Compared(example, frozenset(needed), tuple(agreed))


def _mismatch(want: np.ndarray, own: np.ndarray) -> str:
    """The first entry in which the two differ, in words; empty if none does."""
    if own.shape != want.shape:
        return f": the derivative has the shape {want.shape}, by hand {own.shape}"
    if close(own, want):
        return ""
    with np.errstate(all="ignore"):
        off = ~(np.abs(want - own) <= 1e-8 * (1 + np.abs(want)))
    where = tuple(int(n) for n in np.argwhere(off)[0])
    return f", entry {list(where)}: the derivative is {want[where]:.6g}, by hand {own[where]:.6g}"


def _short(x: Tensor) -> str:
    return str(x.tolist()) if x.numel() <= 6 else f"random, of shape {tuple(x.shape)}"

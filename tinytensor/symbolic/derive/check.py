"""check: is a gradient that was derived by hand the derivative? Proved for any size, or refuted at the smallest one.

The gradient by hand is a function of tensors. First its numbers are compared with backward() at small
sizes and edge values (samples.py): the first sizes at which they differ refute it. If they agree, it is read as
index formulas in the names of the function (by_hand.py), and the normal forms of the two gradients are compared. Where
they differ, the terms that only one of the two has are named.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial

from sympy import Add, Expr, Indexed, Mul

from tinytensor.autograd.function import Context, Function
from tinytensor.core.tensor import Tensor
from tinytensor.ops.shape import stack
from tinytensor.symbolic.derive.by_hand import (
    UPSTREAM,
    HandGradient,
    WrongShape,
    compare_at_samples,
    formula_by_hand,
    function_by_hand,
    read_by_hand,
)
from tinytensor.symbolic.derive.conditions import in_words, restrictions, verdict
from tinytensor.symbolic.derive.derivation import Derivation, first_derivatives
from tinytensor.symbolic.derive.facts import Fact
from tinytensor.symbolic.derive.forward_mode import with_first_indices
from tinytensor.symbolic.derive.recurrences import as_shown
from tinytensor.symbolic.derive.results import Formula, Key, Result
from tinytensor.symbolic.derive.samples import Comparison
from tinytensor.symbolic.derive.second import Hessian, Jacobian
from tinytensor.symbolic.index_calculus.adjoints import Definition, contradiction, expanded, name_of
from tinytensor.symbolic.index_calculus.formulas import Index as Bound
from tinytensor.symbolic.index_calculus.formulas import Size
from tinytensor.symbolic.index_calculus.matrix_laws import normal_of_matrices
from tinytensor.symbolic.index_calculus.notation import text
from tinytensor.symbolic.index_calculus.numpy_printer import label
from tinytensor.symbolic.index_calculus.vanishing import together, vanishes, with_shares, without_detach
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.reading.language import snapshot
from tinytensor.symbolic.reading.tensors import reading_of
from tinytensor.symbolic.time_limit import SECONDS, TimeLimit, TooLong, limited, stage, stopped

TERM = 5.0  # seconds in which a term that differs is looked for


@dataclass(frozen=True)
class Checked:
    """The verdict on the gradient of one argument.

    label: what is checked: ∂𝓛/∂w, or a block of second derivatives. refuted: do numbers differ? term: what differs, in
    the names of the function, or `why` nothing is decided. example: the smallest sizes, and an entry, where the numbers
    differ. statement: what is proved, with its conditions on sizes and values. conditions: those on values, and those
    on sizes. restricted: is one of them neither in `where` nor demanded by the function?

    It is true if the gradient is proved and not restricted. The conditions on values do not make it false: they are of
    a short list, denominators, arguments of roots and logarithms, and numbers that are compared.
    """

    argument: Key
    label: str
    expected: Formula | None
    refuted: bool = False
    why: str = ""
    example: str = ""
    statement: str = ""
    conditions: tuple[str, ...] = ()
    restricted: bool = False
    find_term: Callable[[], str] = field(default=str, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """ "proved", "refuted" or "undecided"."""
        return "refuted" if self.refuted else "proved" if self.statement else "undecided"

    @cached_property
    def term(self) -> str:
        """What differs; it is looked for when it is read, which takes longer than the numbers that refute."""
        return self.why or self.find_term()

    def __bool__(self) -> bool:
        """Is it proved, for all sizes that the function takes or `where` names, and all values but the named ones?"""
        return bool(self.statement) and not self.restricted

    def __str__(self) -> str:
        if self.statement:
            return f"{self.label}: {self.statement}"
        parts = [f"{self.label}: {self.verdict}", self.term, self.example]
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
        conditions = (v.conditions for v in self.verdicts.values())
        return tuple(dict.fromkeys(itertools.chain(self.derivation.assumptions, *conditions)))

    def __str__(self) -> str:
        return "\n".join(map(str, self.verdicts.values()))

    __repr__ = __str__


def check(
    fn: Callable | Derivation,
    by_hand: dict[str, object] | None = None,
    where: str | Fact | Sequence[str | Fact] = (),
    limit: float | None = SECONDS,
    progress: bool | None = None,
    *,
    hessian: dict[Key, object] | None = None,
    jacobian: dict[str, object] | None = None,
    **arguments,
) -> Check:
    """Prove or refute gradients that were derived by hand, for any size; and blocks of a Hessian or a Jacobian.

    fn: a function, or the result of `derive` for it, which is then used for several checks. by_hand: for each argument
    of fn its gradient: a function of tensors that takes fn's arguments by their names (and `g`, the gradient of fn's
    result, where that is no number), or the same as text ("X.T @ (X @ w - y) * 2 / N", in which sizes may be used).
    Without it fn is an autograd.Function, and its own backward is checked. where and arguments are those of `derive`.

    hessian: second derivatives of a number by hand, as by_hand has gradients: {("w", "b"): ...} for ∂²𝓛/∂w∂b, whose
    shape is that of w followed by that of b; {"w": ...} for ∂²𝓛/∂w∂w. jacobian: derivatives of a result that is no
    number: {"x": ...} for ∂Y/∂x, whose shape is that of Y followed by that of x.

    limit, progress: those of `derive`. A gradient that is not decided in this time is "undecided", and what the numbers
    say stands beside it; numbers that refute it do so in any case.

    Each gradient is compared with backward() in numbers at small sizes first, and proved only if no number refutes it
    and the derivation itself is proved. The result is true if all gradients are proved; the line of each names the
    conditions, or the term that differs where one is refuted.
    """
    if isinstance(fn, type) and hasattr(fn, "backward") and by_hand is None:  # ours, or PyTorch's
        fn, by_hand = _of_function(fn, arguments)
    wanted = [group for group in (by_hand, hessian, jacobian) if group is not None]
    if not wanted or not all(isinstance(group, dict) and group for group in wanted):
        raise TypeError('check: by_hand is a dictionary from the arguments to their gradients: {"X": lambda X, g: ...}')
    derivation, time = first_derivatives("check", fn, where, limit, progress, arguments)
    tasks = _tasks(derivation, time, by_hand or {}, hessian or {}, jacobian or {})
    verdicts: dict[Key, Checked] = {}
    with limited(time):
        for name, (result_of, key, hand) in tasks.items():
            what = f"gradient of {key}" if isinstance(key, str) else f"block of {', '.join(key)}"
            stage(f"the {what} was compared in numbers")
            try:
                verdicts[name] = _checked(result_of(), key, hand, time)
            except TooLong as error:  # before there are formulas of the blocks
                verdicts[name] = Checked(key, what, None, why=str(error))
            stage("", 100 / len(tasks))
    return Check(derivation, verdicts)


def _tasks(
    derivation: Derivation, time: TimeLimit, by_hand: dict, hessian: dict, jacobian: dict
) -> dict[Key, tuple[Callable[[], Result], Key, Callable]]:
    """By the names of the user: the result in which a derivative by hand is looked up, by which key, and itself."""
    if by_hand.keys() & (hessian.keys() | jacobian.keys()):
        raise ValueError("check: a name is in two of by_hand, hessian and jacobian; check them one after the other")
    known = [name for name, a in derivation.derived.trace.tensors.items() if a.below is None]
    blocks = {name: (name, name) if isinstance(name, str) else name for name in hessian}
    unknown = [name for name in (*by_hand, *jacobian) if name not in known]
    unknown += [b for b in blocks.values() if not isinstance(b, tuple) or len(b) != 2 or not {*b} <= {*known}]
    if unknown:
        raise ValueError(
            f"check: there is no derivative by {unknown[0]!r}; the arguments that have one are {', '.join(known)}, and "
            "a block of a Hessian is by two of them"
        )
    output = label(name_of(derivation.derived.output))
    second = cache(lambda: Hessian(derivation, time, dict.fromkeys(itertools.chain(*blocks.values())), True))
    first = cache(lambda: Jacobian(derivation, time, jacobian, True))
    tasks = {name: (lambda: derivation, name, hand) for name, hand in by_hand.items()}
    tasks |= {name: (second, blocks[name], hand) for name, hand in hessian.items()}
    tasks |= {name: (first, (output, name), hand) for name, hand in jacobian.items()}
    return {name: (of, key, function_by_hand(hand)) for name, (of, key, hand) in tasks.items()}


def _declared_by_user(function: type, name: str) -> bool:
    """Has the user written this method of a Function? It is else that of the class Function, ours or PyTorch's."""
    declared = next(c for c in function.__mro__ if name in vars(c))
    return declared.__module__ not in (Function.__module__, "torch.autograd.function")


class _CheckedContext(Context):
    """The context of a Function that is checked: if its code asks which inputs need a gradient, all of them do."""

    __slots__ = ("ask",)
    needs_input_grad = property(lambda ctx: ctx.ask(), lambda ctx, needs: None)


def _of_function(function: type, arguments: dict) -> tuple[Callable, dict[str, Callable]]:
    """An autograd.Function as a function, and its backward as a gradient by hand for each float argument.

    A number is the result twice: its backward then meets every upstream gradient, the sum of two, and not 1 alone.
    """
    if _declared_by_user(function, "apply"):
        raise TypeError(
            f"check: {function.__name__} has an apply of its own, which its forward and backward do not say; check a "
            "Function without it, and derive what apply does beside it"
        )

    def forward(**values):
        _, result = _run_forward(function, list(values.values()))
        return stack([result, result]) if isinstance(result, Tensor) and not result.ndim else result

    forward.__name__ = function.__name__
    by_hand = {}
    for position, (name, value) in enumerate(arguments.items()):
        if isinstance(value, tuple | list):
            by_hand[name] = lambda position=position, **values: _run_backward(function, [*arguments], values)[position]
    for part in (forward, *by_hand.values()):
        part.forward = function  # whose file is the user's
    return forward, by_hand


def _run_forward(function: type, values: list) -> tuple[_CheckedContext, object]:
    """The context and the result of the forward of an autograd.Function, which the tape does not see."""
    reading = reading_of(values)

    def ask() -> tuple[bool, ...]:
        if reading is not None:
            reading.values.setdefault("needs")
        return tuple(isinstance(v, Tensor) and v.dtype.kind == "f" for v in values)

    ctx = _CheckedContext(())
    ctx.ask = ask
    if reading is not None:
        reading.off_tape = True
    try:
        if _declared_by_user(function, "setup_context"):
            result = function.forward(*values)
            function.setup_context(ctx, tuple(values), result)
        else:
            result = function.forward(ctx, *values)
    finally:
        if reading is not None:
            reading.off_tape = False
    if ctx._constant or ctx._dirty:
        method = "mark_non_differentiable" if ctx._constant else "mark_dirty"
        raise NotDerivable(
            f"check: the forward of {function.__name__} calls {method}(), of which backward says nothing"
        )
    ctx._saved = [(t, None, 0) for t in ctx._to_save]
    return ctx, result


def _run_backward(function: type, names: list[str], values: dict) -> Sequence:
    """What the backward of an autograd.Function returns for these arguments of its forward, after a run of that."""
    inputs = [values[n] for n in names]
    ctx, result = _run_forward(function, inputs)
    if (reading := reading_of(inputs)) is not None:
        reading.outside["ctx", id(ctx)] = vars(ctx), snapshot(vars(ctx))
    title = function.__name__
    g = values[UPSTREAM]
    gradients = function.backward(ctx, g if result.ndim else g[0] + g[1])
    gradients = gradients if isinstance(gradients, tuple | list) else (gradients,)
    if len(gradients) < len(inputs) or any(extra is not None for extra in gradients[len(inputs) :]):
        raise NotDerivable(
            f"check: {title}.backward returned {len(gradients)} gradients for {len(inputs)} arguments of forward"
        )
    return gradients


def _checked(result: Result, name: Key, hand: Callable | Formula, time: TimeLimit) -> Checked:
    decided = partial(Checked, name, result.label(name), result.gradients.get(name))
    compared = Comparison() if isinstance(hand, Formula) else compare_at_samples(result, name, hand)
    if compared.example:
        find = partial(_find_term, result, name, partial(_read, result, name, hand))
        return decided(refuted=True, example=compared.example, find_term=find)
    try:
        if not (result.stopped or compared.stopped):
            stage(f"the gradient of {name} was proved")
            return _proved(result, name, hand, compared, decided)
    except TooLong:
        pass
    except NotDerivable as error:
        return decided(isinstance(error, WrongShape), str(error))
    numbers = f"in numbers, it agrees with backward() at the {len(compared.agreed)} points that were compared"
    why = result.time.out_of_time(result.stopped, numbers) if result.stopped else time.out_of_time(stopped(), numbers)
    return decided(why=why)


def _proved(result: Result, name: Key, hand: Callable | Formula, compared: Comparison, decided: Callable) -> Checked:
    """Compare normal forms, where no number refutes the gradient by hand; NotDerivable says why nothing is decided."""
    by_hand, derived = _read(result, name, hand), result.derived
    if result.theorem is None:
        raise NotDerivable(result.verdict)
    _, entry = result.entry(name)
    try:
        theorem = vanishes((expanded(entry - by_hand.entry, lines) for lines in ([], derived.forward)), derived.facts)
    except TypeError as error:  # indices of two ranges meet
        raise NotDerivable(str(error)) from None
    if theorem is None:
        return decided(find_term=partial(_find_term, result, name, lambda: by_hand))
    keys = theorem.hypotheses
    if "equality" in compared.needed - keys:
        raise NotDerivable("where numbers that are compared by == are equal, the two differ")
    if not compared.tried(by_hand.sizes, frozenset() if "equality" in keys else frozenset({"equality"})):
        raise NotDerivable("at no point that was tried are all conditions met")
    difference = expanded(entry - by_hand.entry, derived.forward)
    if why := contradiction(with_shares(difference, derived.facts.shares, "tie" in keys), derived.forward):
        raise NotDerivable(why)
    whole = together([result.known, theorem], {*compared.needed, *by_hand.values}, by_hand.sizes)
    restricted = restrictions(whole.sizes, result.where, result.derivation.samples)
    conditions = (*map(str, whole.sizes), *in_words(whole))
    statement = verdict(whole, restricted)
    return decided(statement=statement, conditions=conditions, restricted=bool(restricted))


def _read(result: Result, name: Key, hand: Callable | Formula) -> HandGradient:
    return (formula_by_hand if isinstance(hand, Formula) else read_by_hand)(result, name, hand)


# ------------------------------------------------------------------------------------------------ what differs


def _find_term(result: Result, name: Key, read: Callable[[], HandGradient]) -> str:
    """What differs, in words; empty if it is not seen in a few seconds."""
    try:
        with limited(TimeLimit("check", result.name, TERM, False)):
            return _term(result, name, read()) if name in result.gradients else ""
    except WrongShape as error:
        return str(error)
    except (TooLong, NotDerivable):
        return ""


def _term(derivation: Result, name: Key, by_hand: HandGradient) -> str:
    """What differs, in the names of the function; of a block in the first of two indices that a delta makes equal."""
    by = getattr(getattr(derivation.gradients[name], "by", None), "indices", ())

    def shown(expr: Expr, lines: list[Definition]) -> Expr:
        expr = normal_of_matrices(without_detach(expanded(expr, lines)))
        return as_shown(with_first_indices(expr, by) if by else expr, derivation.derived.recurrences)

    _, entry = derivation.entry(name)
    pairs = [(shown(entry, lines), shown(by_hand.entry, lines)) for lines in ([], derivation.derived.forward)]
    terms = ["; ".join(_difference(*pair)) for pair in pairs if pair[0] != pair[1]]
    return min(terms, key=len) if terms else ""


def _difference(derived: Expr, by_hand: Expr) -> list[str]:
    """The terms that only one of two normal forms has, in words."""
    terms, terms_by_hand = Add.make_args(derived), Add.make_args(by_hand)
    missing = [t for t in terms if t != 0 and t not in terms_by_hand]
    extra = [t for t in terms_by_hand if t != 0 and t not in terms]
    lacking: dict[Expr, list[Expr]] = {}  # a factor: the terms by hand that lack it
    for term in list(missing):
        match, factor = next(((t, r) for t in extra if (r := _ratio(term, t)) is not None), (None, None))
        if match is not None:
            lacking.setdefault(factor, []).append(match)
            missing.remove(term)
            extra.remove(match)
    parts = []
    for factor, without in lacking.items():
        how = "the sign is wrong" if factor == -1 else f"the factor {text(factor)} is missing"
        everywhere = len(without) == len(terms_by_hand) > 1
        parts.append(f"{how} {'everywhere' if everywhere else 'in the term ' + ', '.join(map(text, without))}")
    parts += [f"the term {text(t)} is missing" for t in missing]
    parts += [f"the term {text(t)} is not in the derivative" for t in extra]
    return parts or [f"the difference is {text(derived - by_hand)}"]


def _ratio(numerator: Expr, denominator: Expr) -> Expr | None:
    """numerator / denominator if that is made of numbers and sizes."""
    ratio = Mul(numerator, 1 / denominator)
    symbols = {s for s in ratio.free_symbols if not isinstance(s, Size)}
    return None if symbols or ratio.atoms(Bound, Indexed) else ratio

"""Theorems, which the five rules of this file alone can make; and the laws by which a formula is seen to be 0.

    vanishes        a formula is 0
    vanishes_at_size  so is a formula without indices, by its fraction alone
    defined         an operation has a value and, but for kinks and jumps, a derivative
    differentiable  formulas that have a value have a derivative
    together        several theorems, under more hypotheses

The laws of `vanishes`:

    sums        the normal form of formulas.py, with the laws of matrices (matrix_laws.py)
    places      comparisons of whole numbers in one form, sums of them as counts; an index over few numbers in cases
    fractions   roots, exponentials, angles and quotients (quotients.py)
    maxima      the share of a largest entry written out; it is 1 where no other entry is as large
    steps       [-x > 0] is 1 - [x > 0] where x is not 0; cases of steps that lie at numbers

Each law that needs a condition brings it: the hypotheses of a theorem are what was used, and nothing else. That x/x is
1 is SymPy's arithmetic; the call that divides has brought its condition. Numbers may refute a formula elsewhere; here
nothing is evaluated.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import NamedTuple

from sympy import Add, Dummy, Expr, Indexed, Integer, KroneckerDelta, S, Sum, floor

from tinytensor.symbolic.index_calculus.formulas import (
    Index,
    Size,
    fits,
    free,
    fresh,
    index_order,
    normal,
    not_negative,
    with_equal_indices,
)
from tinytensor.symbolic.index_calculus.functions import detach, floored, same, theta, upto, with_need
from tinytensor.symbolic.index_calculus.matrix_laws import Gram, normal_of_matrices
from tinytensor.symbolic.index_calculus.quotients import Fractions, in_steps, off_ties
from tinytensor.symbolic.index_calculus.signs import KINKS, Signs, of_numbers, requirements, varies

NEAR = 4  # offsets of a comparison that are written out
CASES = 8  # values of indices that are looked at one by one
CELLS = 64  # cells between the corners of steps that are looked at
STEPS = with_need("tie")
_SEAL = object()


@dataclass(frozen=True)
class Theorem:
    """What holds for all values that meet the hypotheses, keys of conditions.VALUES, and all sizes that meet `sizes`.

    zeros: formulas that are 0. smooth: formulas that have a value and a derivative. "equality" among the hypotheses,
    beside "tie": numbers in x == y are not equal, which may be so at no value, as in x == x.max().
    """

    zeros: tuple[Expr, ...]
    smooth: tuple[Expr, ...]
    hypotheses: frozenset[str]
    sizes: tuple = ()
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("Theorem: only the rules of vanishing.py make theorems")


class Share(NamedTuple):
    """A constant that is the share of a largest entry among equal ones, [x_i = m]/Σ_j [x_j = m].

    entry: of the constant. alone: the same where no other entry is as large, [x_i = m].
    """

    entry: Indexed
    share: Expr
    alone: Expr


@dataclass(frozen=True)
class Facts:
    """What is known of names: definitions (for their signs), those of matrices with products, shares of maxima."""

    lines: Sequence = ()
    products: tuple[Gram, ...] = ()
    shares: Sequence[Share] = ()


def vanishes(forms: Iterable[Expr], facts: Facts = Facts()) -> Theorem | None:
    """The theorem that a formula is 0, or None if no law says so.

    forms: the formula, and the same with definitions in the place of names; each is tried. Where one needs that numbers
    in x == y differ, the others come first.
    """
    known, formula, tried = Signs(facts.lines), None, []
    for form in forms:
        formula = form if formula is None else formula
        tried.append(_in_one_form(normal_of_matrices(without_detach(form), products=facts.products)))
        if tried[-1] == 0:
            return Theorem((formula,), (), frozenset(), (), _SEAL)
    proofs: list[set[str]] = []
    for form, more in _with_and_without_shares(tried, facts.shares):
        if (hypotheses := _hypotheses(form, known)) is not None:
            proofs.append(hypotheses | more)
            if "equality" not in proofs[-1]:
                break
    return Theorem((formula,), (), frozenset(proofs[-1]), (), _SEAL) if proofs else None


def vanishes_at_size(formula: Expr, fractions: Fractions | None = None) -> Theorem | None:
    """The theorem that a formula without indices is 0; fractions: those of other formulas, with parts in common."""
    fractions = Fractions(Signs()) if fractions is None else fractions
    return Theorem((formula,), (), frozenset(fractions.assumed), (), _SEAL) if fractions.vanishes(formula) else None


def defined(formula: Expr, entries: Mapping[Expr, Expr], known: Signs) -> Theorem:
    """The theorem that a formula of some names has a value, and a derivative but for kinks, at these entries for names.

    SymPy may take a division out of the formula with the entries in it: x/x is 1.
    """
    needed = ((key, term.xreplace(entries)) for key, term in requirements(formula))
    keys = {key for key, term in needed if key not in KINKS and not known.meets(key, term)}
    return Theorem((), (formula.xreplace(entries),), frozenset(keys), (), _SEAL)


def differentiable(formulas: Iterable[Expr]) -> Theorem:
    """The theorem that formulas have a derivative where they have a value: off kinks and jumps of numbers."""
    formulas = tuple(formulas)
    keys = {key for form in formulas for key, term in requirements(form) if key in KINKS and of_numbers(term)}
    return Theorem((), formulas, frozenset(keys), (), _SEAL)


def together(theorems: Iterable[Theorem], hypotheses: Iterable[str] = (), sizes: Iterable = ()) -> Theorem:
    """The theorem that all of these hold, under their hypotheses and more, at sizes that meet these conditions, too."""
    theorems = tuple(theorems)
    zeros, smooth = tuple(x for t in theorems for x in t.zeros), tuple(x for t in theorems for x in t.smooth)
    keys = frozenset(hypotheses).union(*(t.hypotheses for t in theorems))
    within = dict.fromkeys((*itertools.chain(*(t.sizes for t in theorems)), *sizes))
    return Theorem(zeros, smooth, keys, tuple(within), _SEAL)


def _with_and_without_shares(forms: list[Expr], shares: Sequence[Share]) -> Iterator[tuple[Expr, set[str]]]:
    yield from ((form, set()) for form in dict.fromkeys(forms))
    for alone in (False, True):
        if (form := with_shares(forms[-1], shares, alone)) != forms[-1]:
            yield _in_one_form(form), {"tie"} if alone else set()


def _hypotheses(form: Expr, known: Signs) -> set[str] | None:
    """The conditions under which a normal form is 0 by fractions, by cases of indices, or between corners."""
    form = _without_known_steps(form, known)
    for ties in (False, True) if form.has(*STEPS) else (False,):
        fractions = Fractions(known, ties)
        if form == 0 or fractions.vanishes(form):
            return fractions.assumed
    few = [i for i in sorted(free(form), key=index_order) if i.size.is_Integer and i.size <= CASES]
    if few and math.prod(int(i.size) for i in few) <= CASES:
        rows = itertools.product(*[map(Integer, range(1, int(i.size) + 1)) for i in few])
        cases = (_in_one_form(fresh(form).xreplace(dict(zip(few, row, strict=True)))) for row in rows)
        all_of = [_hypotheses(case, known) for case in cases]
        return None if None in all_of else set().union(*all_of)
    assumed = known.needs(form) | {"tie"} | ({"equality"} if form.has(same) else set())
    return assumed if form.has(*STEPS) and _vanishes_in_cells(in_steps(form), {}, [CELLS], known, assumed) else None


def without_detach(expr: Expr) -> Expr:
    """The expression with numbers for those that detach() held constant: only a derivative tells the two apart."""
    return expr.replace(detach, lambda x: x)


# ---- indices ---------------------------------------------------------------------------------------------------------


def _in_one_form(expr: Expr) -> Expr:
    """A normal form with one form for comparisons of whole numbers; new numbers of indices may change their order."""
    if expr.has(floored):
        expr = normal(expr.replace(floored, _floor))
    for _ in range(4 if expr.has(upto, KroneckerDelta) else 0):
        before = expr
        try:
            expr = normal(of_whole_numbers(counted(normal(with_one_index(expr)))))
        except TypeError:  # indices of two ranges are compared: the form stays as it is
            break
        if expr == before:
            break
    return expr


def _least(number: Expr) -> Expr:
    """A bound from below of an expanded number: an index with a factor above 0 is 1, with one below 0 its size."""
    for i in sorted(number.atoms(Index), key=index_order):
        slope = number.coeff(i)
        constant = (number - slope * i).expand()
        if not slope.has(i) and not constant.has(i) and (slope.is_positive or slope.is_negative):
            number = (constant + slope * (1 if slope.is_positive else i.size)).expand()
    return number


def _floor(x: Expr) -> Expr:
    """⌊x⌋, known where x is a whole number and a fraction: ⌊i - 1/2⌋ is i - 1."""
    fraction, whole_number = x.expand().as_coeff_Add()
    return whole_number + floor(fraction) if whole_number.is_integer else floored(x)


def with_one_index(expr: Expr) -> Expr:
    """Each term with one index for two that its delta makes equal, where only one fits in the place of the other."""

    def goes(i: Expr, j: Expr, term: Expr) -> bool:
        if not isinstance(i, Index) or j.has(i) or not fits(j, i.size) or term.has(Sum):
            return False
        return not isinstance(j, Index) or not fits(i, j.size)  # where either fits, the normal form has chosen

    return with_equal_indices(expr, goes)


def of_whole_numbers(expr: Expr) -> Expr:
    """The expression with one form for each comparison of whole numbers.

    m <= i is also not i + 1 <= m; and m <= i + 2 is m <= i, or m = i + 1, or m = i + 2.
    """

    def compared(index: Expr, limit: Expr) -> Expr:
        distance = (limit - index).expand()
        if not_negative(_least(distance)):
            return S.One
        if not_negative(_least(-distance - 1)):
            return S.Zero
        symbols = sorted(distance.atoms(Index, Size, Indexed), key=lambda s: (str(s), isinstance(s, Index)))
        if not symbols:
            return upto(index, limit)
        if distance.coeff(symbols[0]).is_negative:
            return 1 - compared(S.Zero, -distance - 1)
        offset, difference = distance.as_coeff_Add()
        indices = [s for s in symbols if isinstance(s, Index)]
        if offset.is_Integer and abs(offset) <= NEAR and len(indices) == len(symbols) == 2:
            i, j = indices
            if difference == i - j:
                between = range(1, int(offset) + 1) if offset > 0 else range(int(offset) + 1, 1)
                steps = Add(*[KroneckerDelta(j, i + k) for k in between])
                return upto(j, i) + (steps if offset > 0 else -steps)
        return upto(S.Zero, distance)

    return expr.replace(upto, compared)


def counted(expr: Expr) -> Expr:
    """A normal form with the count for each sum of one comparison, if the bound lies in the range of the index."""
    sums = {s: count for s in expr.atoms(Sum) if (count := _count(s)) is not None}
    return expr.xreplace(sums) if sums else expr


def _count(sum_: Sum) -> Expr | None:
    """The number of values of the index for which the comparison holds; None if it is not that of a sum like this."""
    index = sum_.limits[0][0]
    outside, comparison = sum_.function.as_independent(index, as_Add=False)
    if len(sum_.limits) != 1 or not isinstance(comparison, upto):
        return None
    distance = (comparison.args[1] - comparison.args[0]).expand()  # the comparison holds where this is 0 or more
    slope = distance.coeff(index)
    bound = (distance - slope * index).expand()
    if index in free(bound) or abs(slope) != 1:
        return None
    size = S(index.size)
    if slope == 1:  # from -bound on
        return fresh(outside) * (size + 1 + bound) if fits(-bound, size + 1) else None
    return fresh(outside) * bound if fits(bound + 1, size + 1) else None  # up to the bound


# ---- maxima and steps ------------------------------------------------------------------------------------------------


def with_shares(expr: Expr, shares: Sequence[Share], alone: bool) -> Expr:
    """The expression with the shares of a largest entry written out; alone: no other entry is as large."""
    hidden = {equality: Dummy() for equality in expr.atoms(same)}  # by hand, the largest entry stands in these
    expr = expr.xreplace(hidden)
    for entry, share, single in shares:
        entries = [e for e in expr.atoms(Indexed) if e.base == entry.base]
        written = single if alone else share
        expr = expr.xreplace({e: fresh(written).xreplace(dict(zip(entry.indices, e.indices))) for e in entries})
    return expr.xreplace({dummy: equality for equality, dummy in hidden.items()})


def _without_known_steps(form: Expr, known: Signs) -> Expr:
    """The form without the steps of numbers whose sign is known: [x = 0] is 0 and [x > 0] is 1 for a sum of e^u."""

    def step(x: Expr) -> Expr:
        return S.One if known.positive(x) else S.Zero if known.not_negative(-x) else theta(x)

    return form.replace(theta, step).replace(same, lambda x: S.Zero if known.not_zero(x) else same(x))


def _vanishes_in_cells(expr: Expr, bounds: dict, left: list[int], known: Signs, assumed: set[str]) -> bool:
    """Is it 0 wherever no two numbers that are compared are equal, by a look at each cell between corners?

    Its steps must lie at numbers, [a v + b > 0] for numbers a and b, such as those of a clamp, |v| or a Huber loss.
    Each is 0 or 1 in a cell, within `bounds` of some expressions; `left` counts the cells that may still be looked at.
    `assumed` gets the conditions that the cells need.
    """
    steps = [s for s in expr.atoms(theta) if not s.args[0].has(theta) and varies(s.args[0])]
    if not steps:
        left[0] -= 1
        fractions = Fractions(known)
        vanishes_here = fractions.vanishes(expr.replace(same, lambda x: off_ties(x, known)))
        assumed |= fractions.assumed
        return vanishes_here
    if not all(free(s) <= free(expr) for s in steps):  # a step inside of a sum is 0 for some of its terms, 1 for others
        return False
    step = min(steps, key=str)
    compared = normal(step.args[0])
    if compared.is_number:
        value = S.One if compared.is_positive else S.Zero
        return _vanishes_in_cells(expr.xreplace({step: value}), bounds, left, known, assumed)
    number, multiple = compared.as_coeff_Add()
    slope, inner = multiple.primitive()
    slope, inner = (-slope, -inner) if inner.could_extract_minus_sign() else (slope, inner)
    corner = -number / slope
    low, high = bounds.get(inner, (S.NegativeInfinity, S.Infinity))
    for above, inside in ((True, (max(low, corner), high)), (False, (low, min(high, corner)))):
        value = S.One if above == (slope > 0) else S.Zero
        if inside[0] < inside[1] and not (
            left[0] > 0
            and _vanishes_in_cells(expr.xreplace({step: value}), bounds | {inner: inside}, left, known, assumed)
        ):
            return False
    return True

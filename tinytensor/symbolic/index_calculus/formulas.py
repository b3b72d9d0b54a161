r"""Index calculus: formulas with indices, sums and Kronecker deltas, for sizes that stay symbols.

SymPy supplies the expressions, their arithmetic and the derivative of an elementary function. Sums over indices, which
it gets wrong or leaves as they are, are handled here, by a few rules that each fit in one function:

    fits          an index may stand where its range lies within the range of the place        X_i, i = 1..C
    total         a sum binds its index under a name that no other index has, so nothing is captured
    normal        one form for equal expressions: a sum of products, each product under its sums; then
        spread        products of sums are multiplied out                        (Σ_i a_i)(Σ_j b_j) = Σ_ij a_i b_j
        contract      a delta takes its sum away                                 Σ_i δ(i,j) f(i) = f(j)
                      or fixes an index that stays                               δ(i,j) f(i) = δ(i,j) f(j)
                      a sum over nothing counts                                  Σ_i a = C a
        close         independent sums part again, and bound indices get numbers that depend on the formula alone
    value         the meaning of an expression: plain loops over numbers, with which every rule must agree

Contraction needs no case distinction (SymPy makes a Piecewise of it), because the types say that j lies in the range of
i; if they do not, nothing is contracted, and if they cannot be compared, TypeError is raised.

Every proof for sizes that stay symbols trusts this file, SymPy's arithmetic and its `diff`. The part `index` compares
each rule with plain loops at small sizes. Never trusted here: `simplify`, `doit` or `subs` of a Sum, and derivatives by
a MatrixSymbol; tests/derivations/test_calculus.py shows why.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np
from sympy import Add, Dummy, Expr, Function, Indexed, IndexedBase, KroneckerDelta, Min, Mul, Pow, S, Sum, Symbol, exp
from sympy.concrete.expr_with_limits import ExprWithLimits

from tinytensor.symbolic.index_calculus.functions import HEADS
from tinytensor.symbolic.time_limit import step

# ---- sizes, indices, arrays -----------------------------------------------------------------------------------------


class Size(Symbol):
    """The range of an index: a whole number of 1 or more that stays a symbol; `letters` are for indices without one.

    A class of its own, since the source has a size K and a weight K: Size("K") and the label of an array K differ.
    """

    made: ClassVar[dict[str, "Size"]] = {}  # one for each name; SymPy's cache drops those not used recently

    def __new__(cls, name: str, letters: str):
        if name not in cls.made:
            cls.made[name] = super().__new__(cls, name, integer=True, positive=True)
            cls.made[name].letters = letters.split()
        self = cls.made[name]
        if self.letters != letters.split():
            raise ValueError(f"Size({name!r}, {letters!r}): this size has the letters {' '.join(self.letters)} already")
        return self


class Index(Dummy):
    """An index that runs over 1..size. Two Index objects differ even if their names are equal."""

    def __new__(cls, name: str, size: Expr):
        self = super().__new__(cls, name, integer=True, positive=True)
        self.size = size
        return self

    def fresh(self) -> "Index":
        """Another index with the same range."""
        return Index(self.name, self.size)

    @property
    def letters(self) -> list[str]:
        """Its possible names in print, the best first: `name`, unless that is the number of a bound index."""
        named = [] if ":" in self.name else [self.name]
        return [*named, *getattr(self.size, "letters", []), *"abcdefgh"]

    def _sympystr(self, printer) -> str:
        return f"{self.name.partition(':')[0]}:{self.size}"  # by name and range, for the order of terms


class Array(IndexedBase):
    """A name with indices, each with its range: Array("X", (C, D))[i, j].

    values: for a table of indices such as tokens, their range. positions: where each index is printed, "_" below, "^"
    above, "<" above on the left. of: the array whose adjoint this one is. text and tex: its printed forms.
    """

    def __new__(cls, name, sizes, positions="", values=None, text="", tex="", of=None):
        known = {} if values is None else {"integer": True, "positive": True}
        self = super().__new__(cls, name, shape=tuple(sizes), **known)
        self.sizes, self.values, self.of = tuple(sizes), values, of
        self.positions = positions or "_" * len(self.sizes)
        self.text, self.tex = text or str(name), tex or text or str(name)
        return self

    def __getitem__(self, indices) -> Indexed:
        indices = indices if isinstance(indices, tuple) else (indices,)
        if len(indices) != len(self.sizes):
            raise TypeError(f"{self.label}: {len(indices)} indices, but it has {len(self.sizes)}")
        for index, size in zip(indices, self.sizes, strict=True):
            if not fits(index, size):
                raise TypeError(
                    f"{self.label}: {index} stands where an index of 1..{size} belongs, "
                    f"but it runs up to {top(index)}: {_wider(index, size)}check the order of the indices"
                )
        return super().__getitem__(indices if len(indices) > 1 else indices[0])


Name = Array | Symbol


def name_of(entry: Expr) -> Name:
    """The array of an entry; a symbol is its own name."""
    return entry.base if isinstance(entry, Indexed) else entry


@lru_cache(10_000)
def names_in(expr: Expr) -> frozenset[Name]:
    """The arrays and symbols (other than sizes and indices) in an expression."""
    names = {x for x in expr.atoms(Array, Symbol) if not isinstance(x, Size | Index)}
    return frozenset(names - {x.label for x in names if isinstance(x, Array)})


def _wider(index, size: Expr) -> str:
    """The advice to write a size so that it is large enough for an index at each of its numbers, if that helps."""
    room = [S(index) - 1, S(size) - top(index)]
    if any(e.has(Function) for e in room):
        return ""
    wider = size - Min(*[e.xreplace(dict.fromkeys(e.atoms(Size, Index), S.One)) for e in room])
    return f'write the size as "{wider}", or ' if all(not_negative(e.xreplace({size: wider})) for e in room) else ""


def top(index) -> Expr:
    """The largest value that an index, a number, index + number or an entry of a table of indices can take."""
    index = S(index)
    if isinstance(index, Indexed):
        if index.base.values is None:
            raise TypeError(f"{index} is not an index: its values have no range")
        return index.base.values
    return index.xreplace({i: i.size for i in index.atoms(Index)})


def fits(index, size) -> bool | None:
    """Is 1 <= index <= size always? None if the two ranges cannot be compared, as that of i - j."""
    if isinstance(index, Index):
        return index.size == size or not_negative(S(size) - index.size)
    terms = S(index).expand().as_coefficients_dict().items()
    if any(number.is_negative and term.atoms(Index) for term, number in terms):
        return None  # it falls where an index rises: top() is not its largest value
    return not_negative(S(index) - 1) and not_negative(S(size) - top(index))


def not_negative(number: Expr) -> bool | None:
    """Is a number of sizes and indices 0 or more, whatever they are? They are 1 or more each."""
    if (known := number.is_nonnegative) is not None:
        return known
    if number.has(ExprWithLimits):  # whose own index is no number
        return None
    above = {x: 1 + Dummy(nonnegative=True, integer=True) for x in number.atoms(Size, Index)}
    return number.xreplace(above).expand().is_nonnegative


def delta(i, j) -> Expr:
    """1 where i = j, otherwise 0, for indices, one of which runs within the range of the other."""
    if fits(i, top(j)) is None:
        raise TypeError(f"delta: {i} and {j} run over different ranges")
    return KroneckerDelta(i, j)


def with_equal_indices(expr: Expr, goes: Callable[[Expr, Expr, Expr], bool]) -> Expr:
    """Each term with one index for two that a delta of it makes equal: j for i where goes(i, j, term)."""
    terms = []
    for term in Add.make_args(expr):
        for pair in [f for f in Mul.make_args(term) if isinstance(f, KroneckerDelta)]:
            for i, j in (pair.args, pair.args[::-1]):
                if goes(i, j, term):
                    term = pair * (term / pair).xreplace({i: j})
        terms.append(term)
    return Add(*terms)


def total(expr, *indices: Index) -> Expr:
    """The sum of expr over indices; each is bound under a new name, so `expr` may be used again."""
    new = {i: i.fresh() for i in indices}
    expr = S(expr).xreplace(new)
    if expr == 0:  # SymPy's derivative of Sum(0)**2 is NaN
        return S.Zero
    return Sum(expr, *[(i, 1, i.size) for i in new.values()]) if new else expr


def fresh(expr: Expr) -> Expr:
    """The same expression, each sum with a new bound index, which no index put in later can equal."""
    if not expr.has(Sum):
        return expr
    if isinstance(expr, Sum):
        return total(fresh(expr.function), *[limit[0] for limit in expr.limits])
    return expr.func(*[fresh(a) for a in expr.args])


def opened(sum_: Sum) -> tuple[Expr, list[Index]]:
    """The summand of a sum, and its indices, which are new."""
    new = {limit[0]: limit[0].fresh() for limit in sum_.limits}
    return sum_.function.xreplace(new), [*new.values()]


def free(expr: Expr) -> set[Index]:
    """The indices that are not bound by a sum."""
    if isinstance(expr, Index):
        return {expr}
    inner = set().union(*[free(a) for a in expr.args]) if expr.args and not isinstance(expr, Array) else set()
    return inner - {limit[0] for limit in expr.limits} if isinstance(expr, Sum) else inner


def derivative(expr: Expr, by: Expr) -> Expr:
    """d expr / d by, with SymPy's diff, for an entry of an array with indices that do not occur in expr."""
    clash = free(by) & free(expr)
    if clash:
        raise TypeError(f"derivative by {by}: {clash.pop()} stands in the expression too; take another index")
    return fresh(expr).diff(by)


# ---- the normal form ------------------------------------------------------------------------------------------------


def normal(expr) -> Expr:
    """The normal form: equal polynomials in entries, deltas and functions of them have the same one.

    A difference whose normal form is 0 is 0, for all sizes and values. The converse does not hold: the arguments of
    functions (exp, a power that is no positive whole number) are normalised, but their laws are not used.
    """
    expr = S(expr)
    if loose := [i for i in free(expr) if isinstance(i, _Numbered)]:
        raise TypeError(f"normal: {loose[0]} belongs to a sum of a normal form; put a fresh index in its place")
    form = Add(*[close(*contract(product, bound)) for product, bound in spread(expr)])
    inside = any(p.has(Sum) for p in form.atoms(Function, Pow) if not isinstance(p, Sum | KroneckerDelta))
    return normal(form) if inside and form != expr else form  # a contraction may have changed the arguments


def spread(expr: Expr, inner: Callable[[Expr], Expr] = normal) -> list[tuple[Expr, list[Index]]]:
    """expr as a sum of products, each with its bound indices, which are new.

    inner: the normal form of the arguments of functions and of powers.
    """
    step()
    if isinstance(expr, Add):
        return [term for a in expr.args for term in spread(a, inner)]
    if isinstance(expr, Sum) and expr.function == 0:
        return [(S.Zero, [])]
    if isinstance(expr, Sum):
        inside, indices = opened(expr)
        return [(product, bound + indices) for product, bound in spread(inside, inner)]
    if isinstance(expr, Mul):
        return _multiplied(expr.args, inner)
    if isinstance(expr, Pow) and (expr.base.is_Add or expr.base.is_Mul or expr.has(Sum) or not expr.exp.is_number):
        return _spread_power(expr, inner)
    if isinstance(expr, exp):  # e^(a + b) = e^a e^b: a factor that has no index of a sum can leave it
        return [(Mul(*[exp(term) for term in Add.make_args(inner(expr.args[0]))]), [])]
    if isinstance(expr, Function) and not isinstance(expr, KroneckerDelta):
        return [(expr.func(*map(inner, expr.args)), [])]
    return [(expr, [])]


def _spread_power(expr: Pow, inner: Callable[[Expr], Expr]) -> list[tuple[Expr, list[Index]]]:
    if expr.exp.is_Integer and expr.exp > 0 and (expr.base.is_Add or expr.base.has(Sum)):
        return _multiplied([expr.base] * int(expr.exp), inner)
    power = inner(expr.base) ** inner(expr.exp)
    return _multiplied(power.args, inner) if power.is_Mul and power != expr else [(power, [])]


def _multiplied(factors: Iterable[Expr], inner: Callable[[Expr], Expr]) -> list[tuple[Expr, list[Index]]]:
    terms = [(S.One, [])]
    for factor in factors:
        parts = spread(factor, inner)
        terms = [(p * q, a + b) for p, a in terms for q, b in parts]
    return terms


def contract(product: Expr, bound: list[Index]) -> tuple[Expr, list[Index]]:
    """Use every delta of a product, and count the sums over nothing."""
    bound = list(bound)
    step()
    while (used := _one_delta(product, bound)) is not None:
        product, bound = used
    for i in [i for i in bound if not product.has(i)]:
        product, bound = product * i.size, [j for j in bound if j is not i]
    return product, bound


def _one_delta(product: Expr, bound: list[Index]) -> tuple[Expr, list[Index]] | None:
    """The product after one use of one delta, or None if no delta can be used."""
    factors = Mul.make_args(product)
    if (changed := _entry_for_number(factors)) is not None:
        return changed, bound
    for n, factor in enumerate(factors):
        if not isinstance(factor, KroneckerDelta):
            continue
        beside = Mul(*factors[:n], *factors[n + 1 :])
        shift = min(x.as_coeff_Add()[0] for x in factor.args)
        if shift.is_Integer and shift > 0 and free(factor):  # i + 1 = j + 1 is i = j
            return beside * KroneckerDelta(*[x - shift for x in factor.args]), bound
        for x, y in (factor.args, factor.args[::-1]):
            if isinstance(x, Index) and (used := _with_value(x, y, factor, beside, bound)) is not None:
                return used
    return None


def _with_value(x: Index, y: Expr, factor: Expr, beside: Expr, bound: list[Index]) -> tuple[Expr, list[Index]] | None:
    """The product of the delta of x and y and what stands beside it, with y for x; None if x has to stay."""
    if y.has(x):
        return None
    if not free(y) and (y - x.size).is_positive:
        return S.Zero, []  # x never gets as far as y
    within = fits(y, x.size)
    if within is None and _is_index(y) and not fits(x, top(y)) and not (top(y).is_number or x.size.is_number):
        raise TypeError(f"contract: {x} and {y} run over different ranges")
    # within: None for 3, or an index up to 3, which lies in the range at some sizes only: the delta stays
    if within and x in bound:
        return beside.xreplace({x: y}), [i for i in bound if i is not x]
    # of two indices that are not bound, the first in a fixed order stays
    if within and beside.has(x) and y not in bound and not (isinstance(y, Index) and index_order(x) < index_order(y)):
        return factor * beside.xreplace({x: y}), bound
    return None


def _is_index(expr: Expr) -> bool:
    """Is it an index or an entry of a table of indices, perhaps with a number added?"""
    moving = [term for term in Add.make_args(expr) if free(term)]
    return len(moving) == 1 and isinstance(moving[0], Index | Indexed)


def _entry_for_number(factors: tuple[Expr, ...]) -> Expr | None:
    """The product with an entry for a number that it equals, in another delta: δ(t_n, 1) δ(i, 1) = δ(t_n, 1) δ(i, t_n).

    The entry lies in the range of its index at all sizes, which a number such as 3 does not.
    """
    deltas = [f for f in factors if isinstance(f, KroneckerDelta)]
    for of_entry, of_index in itertools.permutations(deltas, 2):
        for entry, number in (of_entry.args, of_entry.args[::-1]):
            if isinstance(entry, Indexed) and not free(number) and number in of_index.args:
                (index,) = set(of_index.args) - {number}
                if isinstance(index, Index):
                    return Mul(*[f for f in factors if f is not of_index], KroneckerDelta(index, entry))
    return None


def index_order(i: Index):
    """The key of a fixed order of indices."""
    return i.name, i.dummy_index


def close(product: Expr, bound: list[Index], sum_of: Callable[[Expr, set[Index]], Expr] | None = None) -> Expr:
    """The product under its sums, as a product of independent sums with numbered indices.

    sum_of: what makes such a sum of a product and its bound indices.
    """
    groups = []  # (indices, factors) of sums that have an index in common
    for factor in Mul.make_args(product):
        indices, factors = {i for i in bound if factor.has(i)}, [factor]
        for group in [g for g in groups if g[0] & indices]:
            groups.remove(group)
            indices, factors = indices | group[0], factors + group[1]
        groups.append((indices, factors))
    return Mul(*[(sum_of or numbered)(Mul(*factors), indices) for indices, factors in groups])


def numbered(
    product: Expr,
    bound: set[Index],
    use: Callable[[Index], str] = lambda index: "",
    order: Callable[[Expr], Expr] = lambda form: form,
) -> Expr:
    """The sum of a product, with bound indices numbered so that the result does not depend on their names.

    Of all ways to number the indices of each range, the one whose formula sorts first is taken. use: what two indices
    have in common that a change of names could exchange; order: what each formula becomes.
    """
    if not bound:
        return order(product)
    taken = product.atoms(Index)  # among them the numbers of sums in functions
    ranges: dict[Expr, dict[str, list[Index]]] = {}
    for i in sorted(bound, key=index_order):
        ranges.setdefault(i.size, {}).setdefault(use(i), []).append(i)
    choices = []
    for size, uses in sorted(ranges.items(), key=str):
        count = sum(map(len, uses.values())) + len(taken)
        numbers = [b for n in range(count) if (b := bound_index(size, n)) not in taken]
        orders = itertools.product(*[itertools.permutations(uses[key]) for key in sorted(uses)])
        choices.append([dict(zip(itertools.chain(*indices), numbers)) for indices in orders])
    forms = []
    for choice in itertools.product(*choices):
        step()
        names = {i: b for part in choice for i, b in part.items()}
        forms.append((order(product.xreplace(names)), sorted(names.values(), key=str)))
    form, indices = min(forms, key=lambda form: str(form[0])) if len(forms) > 1 else forms[0]
    return Sum(form, *[(i, 1, i.size) for i in indices])


class _Numbered(Index):
    """A bound index of a normal form."""


@cache
def bound_index(size: Expr, number: int) -> _Numbered:
    """The index of this range with this number, used in normal forms only.

    SymPy sorts those with the same number by range, which is in the name, and not by which was made first: a size
    stands before a formula of sizes, since letters stand before "~".
    """
    return _Numbered(f"{number}:{size}" if S(size).is_Atom else f"{number}:~{size}", size)


# ---- the meaning: plain loops ----------------------------------------------------------------------------------------


def value(expr: Expr, point: dict):
    """The value of an expression by plain loops: the meaning that every rule above must preserve.

    point: numbers for indices, sizes and symbols, and NumPy arrays (entry 1 comes first) for Arrays. Exact for
    Fractions as long as no function or root occurs.
    """
    if expr in point:
        return point[expr]
    if expr.is_NumberSymbol or expr.is_infinite:  # pi, e
        return float(expr)
    if expr.is_Rational:
        return int(expr) if expr.is_Integer else Fraction(int(expr.p), int(expr.q))
    if isinstance(expr, Sum):
        return sum(value(expr.function, here) for here in everywhere([limit[0] for limit in expr.limits], point))
    if isinstance(expr, Indexed):
        return point[expr.base][tuple(value(i, point) - 1 for i in expr.indices)]
    if hasattr(expr, "number_at"):  # a number that is made from a whole matrix (linear_algebra.py)
        return expr.number_at(point)
    arguments = [value(a, point) for a in expr.args]
    if isinstance(expr, KroneckerDelta):
        return int(arguments[0] == arguments[1])
    return (MEANING.get(expr.func) or HEADS[expr.func].value)(*arguments)


MEANING = {
    Add: lambda *terms: sum(terms),
    Mul: lambda *factors: math.prod(factors),
    Pow: lambda base, exponent: Fraction(base) ** exponent if isinstance(base, int) else base**exponent,
}


def everywhere(indices: Iterable[Index], point: dict) -> Iterator[dict]:
    """`point` with numbers for these indices as well, one dict for each combination of their values."""
    indices = list(indices)
    for numbers in itertools.product(*[range(1, value(i.size, point) + 1) for i in indices]):
        yield point | dict(zip(indices, numbers))


def sizes_of(array: Array) -> set[Size]:
    """The symbols in an array's sizes, and in the range of its values."""
    return {symbol for size in (*array.sizes, S(array.values or 0)) for symbol in size.atoms(Size)}


def random_entries(
    array: Array, point: dict, rng: random.Random, number: Callable[[random.Random], object]
) -> np.ndarray:
    """Random entries: numbers, or indices where the array is a table of them."""
    entries = np.empty([value(size, point) for size in array.sizes], dtype=object)
    for where in np.ndindex(entries.shape):
        entries[where] = number(rng) if array.values is None else rng.randint(1, value(array.values, point))
    return entries

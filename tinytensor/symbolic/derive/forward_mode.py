"""Derivatives forward through the lines of a derivation, in the names of the function.

    Moved         the derivatives of lines in a direction, as lines
    plain_moved   the derivative of a line, where that of each name in it is known: the chain rule
    moved         the same in the factors of the line
    with_one_hot  a linear product where its name is 1 in one place: an entry of the matrix
    short_form    a shorter form of a formula that is equal

The lines are those of the function and those of its adjoints, so that the derivative of an adjoint is a second
derivative. All but plain_moved and with_one_hot are proposals; adjoints.py proves each of them.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from unicodedata import normalize

from sympy import Add, Expr, Indexed, KroneckerDelta, Mul, Pow, S, Sum, Symbol

from tinytensor.symbolic.derive.factors import by_name, canonical, cost, occurrences, use
from tinytensor.symbolic.derive.values import entry_like
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import (
    Array,
    Index,
    close,
    contract,
    derivative,
    fits,
    fresh,
    normal,
    opened,
    total,
    with_equal_indices,
)
from tinytensor.symbolic.index_calculus.notation import name_tex
from tinytensor.symbolic.index_calculus.numpy_printer import label

DOT = "\N{COMBINING DOT ABOVE}"


def _dotted(name: Name, primes: str) -> Name:
    """The derivative of a name in the direction, perhaps with primes: Ȧ of A, ∂𝓛̇/∂A of ∂𝓛/∂A."""
    if isinstance(name, Symbol):
        return Symbol(_with_dot("𝓛" if name.name == "loss" else name.name) + primes, real=True)
    in_code = f"{name.label}_dot{'_' * len(primes)}"
    if name.of is None:
        typeset = rf"\dot{{{name_tex(name.text)}}}{primes}"
        return Array(in_code, name.sizes, text=_with_dot(name.text) + primes, tex=typeset)
    of = name.of.text
    typeset = rf"\left(\frac{{\partial\dot{{\mathcal{{L}}}}}}{{\partial {name_tex(of)}}}\right)"
    return Array(in_code, name.sizes, text=f"∂𝓛{DOT}/∂{of}", tex=typeset)


def _with_dot(text: str) -> str:
    return normalize("NFC", f"{text[0]}{DOT}{text[1:]}")


def words_of(name: Name) -> set[str]:
    """The name in code and in print."""
    return {label(name), getattr(name, "text", str(name))}


class Moved:
    """The derivatives of a program's lines in a direction, each a line with a name of its own: Ȧ for A.

    raw: by SymPy's derivative of each line, in the order in which they are computed. forms: as they may be shown.
    taken: names of the derivation, in code and in print, which may have a dot themselves.
    """

    def __init__(self, shorten: Callable[[Expr], Expr], taken: Iterable[str] = ()):
        self.raw: dict[Name, Definition] = {}
        self.forms: dict[Name, Definition] = {}
        self.shorten, self.taken = shorten, {*taken}
        self.dots: dict[Name, Name] = {}

    def dotted(self, name: Name) -> Name:
        """The derivative of a name in the direction, under a name that nothing else has."""
        if name not in self.dots:
            names = (_dotted(name, "'" * n) for n in itertools.count())
            self.dots[name] = next(new for new in names if not words_of(new) & self.taken)
            self.taken |= words_of(self.dots[name])
        return self.dots[name]

    def move(self, lines: Iterable[Definition], known: dict[Name, Name], forms: Mapping[Name, Expr] = {}) -> None:
        """Append the derivative of each line that depends on a name that moves; `known` has these names.

        A line whose derivative is 0 moves nothing. forms: other forms of the derivatives of some names.
        """
        for line in lines:
            plain = plain_moved(line, known)
            if plain == 0:
                continue
            in_factors = moved(line, known)
            ways = dict.fromkeys((in_factors, forms.get(line.name, in_factors)))
            right = min(map(self.shorten, ways), key=cost)
            new = known[line.name] = self.dotted(line.name)
            self.raw[new], self.forms[new] = (Definition(entry_like(line.left, new), side) for side in (plain, right))

    def result(self, line: Definition, known: dict[Name, Name]) -> Name:
        """The name of the derivative of a line; it is 0 where the direction does not move the line."""
        new = self.dotted(line.name)
        if line.name not in known:
            self.raw[new] = self.forms[new] = Definition(entry_like(line.left, new), S.Zero)
        return new


def moved(line: Definition, known: Mapping[Name, Name]) -> Expr:
    """The derivative of a line's right side, by the derivatives of the names in it; factors stay as they are.

    That of a line of the function may be written in the line's own value, as exp(x) has it.
    """
    value = None if line.is_adjoint else line.left
    terms = []
    for name in sorted(names_in(line.right) & known.keys(), key=str):
        for product, over, indices in occurrences(fresh(line.right), S.One, [], name, value):
            terms.append(close_terms(Mul(product, _entry(known[name], indices)), over))
    return Add(*terms)


def plain_moved(line: Definition, known: Mapping[Name, Name]) -> Expr:
    """The same by SymPy's derivative of the line, as a normal form."""
    result = S.Zero
    for name in sorted(names_in(line.right) & known.keys(), key=str):
        indices = [Index(f"u{k}", size) for k, size in enumerate(getattr(name, "sizes", ()))]
        slope = derivative(line.right, _entry(name, indices))
        result += total(slope * _entry(known[name], indices), *indices)
    return normal(result)


def _entry(name: Name, indices: Sequence[Expr]) -> Expr:
    return name[tuple(indices)] if indices else name


# ------------------------------------------------------------------------------------------------ deltas in brackets


def close_terms(product: Expr, bound: Sequence[Index]) -> Expr:
    """The sum of a product over indices, with its deltas used."""
    product, bound = contract(product, list(bound))
    return canonical(close(product, bound))


def contracted(expr: Expr) -> Expr:
    """The expression with each delta of a bound index used."""
    if isinstance(expr, Sum):
        inside, bound = opened(expr)
        return close_terms(contracted(inside), bound)
    if isinstance(expr, Add | Mul):
        return expr.func(*[contracted(a) for a in expr.args])
    return canonical(expr)


def with_one_hot(product: Expr, hot: Expr) -> Expr:
    """A product that is linear in the name of the entry `hot`, where this entry is 1, and all others are 0."""
    product = fresh(product)
    entries = [e for e in product.atoms(Indexed, Symbol) if name_of(e) == name_of(hot)]
    indices = getattr(hot, "indices", ())
    ones = {e: Mul(*map(KroneckerDelta, getattr(e, "indices", ()), indices)) for e in entries}
    return product.xreplace(ones)


def with_first_indices(expr: Expr, by: Sequence[Index]) -> Expr:
    """Each term with another index in the place of one of `by` that a delta of the term makes equal to it."""

    def goes(i: Expr, j: Expr, term: Expr) -> bool:
        return i in by and isinstance(j, Index) and j not in by and bool(fits(j, i.size))

    return with_equal_indices(expr.expand(deep=False) if isinstance(expr, Mul) else expr, goes)


# ------------------------------------------------------------------------------------------------ shorter forms


def short_form(
    expr: Expr, lines: Iterable[Definition], simplify: Callable[[Expr], Expr], by: Sequence[Index] = ()
) -> Expr:
    """A shorter form of a formula, with quotients of the lines by their names; indices of `by` are avoided."""
    expr = simplify(with_first_indices(contracted(expr), by))
    for line in lines:
        if _is_quotient(line.right):  # such as exp(A_i)/Σ_j exp(A_j)
            expr = use(expr, Definition(line.left, canonical(line.right)), by_name)
    return expr


def _is_quotient(right: Expr) -> bool:
    return any(isinstance(f, Pow) and f.exp == -1 and f.base.has(Sum) for f in Mul.make_args(right))

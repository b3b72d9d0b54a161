r"""Formulas as a person writes them: sums folded, frequent parts named, the shift of a softmax removed.

A loop over symbols computes a long formula: x_0 w_0 + x_1 w_1 + x_2 w_2 for a product, and all of it again wherever the
product is read. Here terms that differ in their indices alone become a sum, \sum_{k=0}^{2} x_k w_k, and formulas that
differ in their indices alone, and stand in several places, get a name with these indices,

    a_j = \sum_{k=0}^{2} x_k w_{j k}.

Both only rewrite the formula: a sum is folded only if its terms are exactly those of the formula.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import sympy

FOLDED = 3  # terms that make a sum; two suffice if they are long enough for a name
NAMED = 6  # a formula of so many operations gets a name
LETTERS = "kjilmnpq"  # of sums and names
ENTRY_LETTERS = "ijmnpq"  # of entries
NAMES = "abcdfhruvst"

Index = tuple  # (letter, shift): k + 1 is ("k", 1), and a number is ("", 3)


class Entry(sympy.Symbol):
    """An entry of a tensor of symbols, x_{0 k}: the name of the tensor, and its indices."""

    __slots__ = ("base", "indices")

    def __new__(cls, base: str, indices: Sequence[Index]):
        entry = super().__new__(cls, f"{base}_{{{' '.join(map(_index, indices))}}}" if indices else base)
        entry.base, entry.indices = base, tuple(indices)
        return entry

    @classmethod
    def class_key(cls):
        """SymPy's key for the order of factors: that of other symbols."""
        return sympy.Symbol.class_key()

    def _latex(self, printer):
        return sympy.latex(sympy.Symbol(self.base)) + "_{" + " ".join(map(_index, self.indices)) + "}"


def _index(index: Index) -> str:
    letter, shift = index
    return f"{letter}{shift:+d}" if letter and shift else letter or str(shift)


def entries(expr: sympy.Expr) -> sympy.Expr:
    """The formula with an Entry in place of each symbol x_0_1 that `symbols` makes."""

    def entry(symbol: sympy.Symbol) -> sympy.Symbol:
        base, *numbers = symbol.name.split("_")
        while numbers and not numbers[0].isdecimal():
            base = f"{base}_{numbers.pop(0)}"
        if not numbers or not all(n.isdecimal() for n in numbers):
            return symbol
        return Entry(base, [("", int(n)) for n in numbers])

    return expr.xreplace({s: entry(s) for s in expr.free_symbols})


# -------------------------------------------------------------------------------------- terms that differ in indices


def pattern(expr: sympy.Expr) -> tuple[tuple, tuple[Index, ...]]:
    """(the formula without its indices, its indices in the order of their places)."""
    if isinstance(expr, Entry):
        return (("entry", expr.base, len(expr.indices)), expr.indices)
    if isinstance(expr, sympy.Sum):
        inner, indices = pattern(expr.function)
        return (("sum", inner, str(expr.limits)), indices)
    if not expr.args:
        return (("atom", str(expr)), ())
    parts = [pattern(a) for a in expr.args]
    if expr.is_Add or expr.is_Mul:
        parts.sort(key=repr)
    return ((expr.func.__name__, *(p for p, _ in parts)), tuple(itertools.chain(*(i for _, i in parts))))


def with_indices(expr: sympy.Expr, indices: Sequence[Index]) -> sympy.Expr:
    """The formula with other indices, given in the order of `pattern`."""
    return _fill_indices(expr, iter(indices))


def _fill_indices(expr, indices: Iterator[Index]):
    if isinstance(expr, Entry):
        return Entry(expr.base, [next(indices) for _ in expr.indices])
    if isinstance(expr, sympy.Sum):
        return sympy.Sum(_fill_indices(expr.function, indices), *expr.limits)
    if not expr.args:
        return expr
    args = list(expr.args)
    if expr.is_Add or expr.is_Mul:
        args.sort(key=lambda a: repr(pattern(a)))
    return expr.func(*(_fill_indices(a, indices) for a in args))


def classes(rows: Sequence[Sequence[Index]]) -> list[list[int]] | None:
    """The places of these index lists that vary, those that vary together in one class; None if letters differ."""
    columns = list(zip(*rows, strict=True))
    groups: list[list[int]] = []
    for position, column in enumerate(columns):
        if len({letter for letter, _ in column}) > 1:
            return None
        if len(set(column)) == 1:
            continue
        if column[0][0]:
            return None
        for others in groups:
            first = columns[others[0]]
            if len({a - b for (_, a), (_, b) in zip(column, first, strict=True)}) == 1:
                others.append(position)
                break
        else:
            groups.append([position])
    return groups


def grid(rows: Sequence[Sequence[Index]], together: list[list[int]]) -> list[range] | None:
    """The ranges over which the classes run; None unless the rows are all of their combinations, each once."""
    values = [tuple(row[positions[0]][1] for positions in together) for row in rows]
    ranges = [range(min(v), max(v) + 1) for v in zip(*values, strict=True)]
    count = 1
    for r in ranges:
        count *= len(r)
    return ranges if len(set(values)) == len(values) == count else None


def _bound(expr: sympy.Expr) -> set[str]:
    """The letters over which sums run."""
    return {str(letter) for s in expr.atoms(sympy.Sum) for letter, *_ in s.limits}


def _letters(expr: sympy.Expr) -> set[str]:
    return _bound(expr) | {letter for e in expr.atoms(Entry) for letter, _ in e.indices}


def _lettered(row: Sequence[Index], together: list[list[int]], letters: Sequence[str]) -> list[Index]:
    """A list of indices with a letter for each class."""
    indices = list(row)
    for letter, positions in zip(letters, together, strict=True):
        for position in positions:
            indices[position] = letter, row[position][1] - row[positions[0]][1]
    return indices


# ----------------------------------------------------------------------------------------------------------- sums


def fold_sums(expr: sympy.Expr) -> sympy.Expr:
    """The formula with sums for terms that differ in their indices alone."""
    if not expr.args or isinstance(expr, Entry):
        return expr
    args = [fold_sums(a) for a in expr.args]
    expr = expr.func(*args) if list(expr.args) != args else expr
    return _fold_terms(expr) if expr.is_Add else expr


def _fold_terms(expr: sympy.Add) -> sympy.Expr:
    groups: dict[tuple, list[tuple]] = {}
    for term in expr.args:
        factor, rest = term.as_coeff_Mul()
        what, indices = pattern(rest)
        groups.setdefault(what, []).append((indices, factor, rest))
    terms = []
    for group in groups.values():
        terms += _fold_group(group)
    return sympy.Add(*terms)


def _fold_group(group: list[tuple]) -> list[sympy.Expr]:
    """A group of terms as c times a sum, and a term for the one whose factor is not c."""
    plain = [factor * rest for _, factor, rest in group]
    rows = [indices for indices, _, _ in group]
    if len(group) < (FOLDED if length(group[0][2]) < NAMED else 2) or not rows[0]:
        return plain
    together = classes(rows)
    ranges = None if not together else grid(rows, together)
    if ranges is None:
        return _fold_in_parts(group) or plain
    factors = [factor for _, factor, _ in group]
    usual = max(factors, key=factors.count)
    others = [(factor - usual) * rest for _, factor, rest in group if factor != usual]
    if len(others) > (1 if len(group) >= FOLDED else 0):
        return plain
    body = group[0][2]
    free = [letter for letter in LETTERS if letter not in _letters(body)][: len(together)]
    body = with_indices(body, _lettered(rows[0], together, free))
    limits = [(sympy.Symbol(letter), r[0], r[-1]) for letter, r in zip(free, ranges, strict=True)]
    return [usual * sympy.Sum(body, *limits), *others]


def one_for_all(values: np.ndarray) -> tuple[sympy.Expr, list[tuple[str, int]]] | None:
    """(an entry with letters for its place, each letter and how far it runs) if all entries differ in indices alone."""
    rows, what = [], set()
    for at in np.ndindex(values.shape):
        key, indices = pattern(values[at])
        what.add(key)
        rows.append([*indices, *(("", n) for n in at)])
        if len(what) > 1:
            return None
    together = classes(rows)
    n, sizes = len(rows[0]) - values.ndim, [size for size in values.shape if size > 1]
    if together is None or len(together) != len(sizes):
        return None
    letters = [letter for letter in ENTRY_LETTERS if letter not in _letters(values.flat[0])]
    if any(positions[-1] < n for positions in together) or len(letters) < len(together):
        return None
    together.sort(key=lambda positions: positions[-1])
    letters = letters[: len(together)]
    at_first = _lettered(rows[0], [[*positions[-1:], *positions[:-1]] for positions in together], letters)
    return with_indices(values.flat[0], at_first[:n]), list(zip(letters, sizes, strict=True))


def _fold_in_parts(group: list[tuple]) -> list[sympy.Expr] | None:
    """A group that is no single sum, split by the index at one place; None if that makes it no shorter."""
    best = None
    for position in range(len(group[0][0])):
        parts: dict[Index, list[tuple]] = {}
        for member in group:
            parts.setdefault(member[0][position], []).append(member)
        if 1 < len(parts) < len(group):
            terms = [term for part in parts.values() for term in _fold_group(part)]
            if len(terms) < len(group if best is None else best):
                best = terms
    return best


# ------------------------------------------------------------------------------------------ the shift of a softmax


def remove_shift(expr: sympy.Expr) -> sympy.Expr:
    """The formula without the largest score that loops subtract before exp, as in e^{a - m} / (1 + e^{b - m})."""
    if not expr.args:
        return expr
    expr = expr.func(*map(remove_shift, expr.args))
    if expr.is_Add:
        return _shift_apart(expr)
    if expr.is_Mul or expr.is_Pow:
        return sympy.powsimp(expr, combine="exp")
    if isinstance(expr, sympy.log):
        powers = [a for a in sympy.Mul.make_args(expr.args[0]) if isinstance(a, sympy.exp)]
        if powers and expr.args[0].is_Mul:
            rest = sympy.Mul(*(a for a in sympy.Mul.make_args(expr.args[0]) if a not in powers))
            return sympy.Add(*(p.args[0] for p in powers), sympy.log(rest))
    return expr


def _shift_apart(expr: sympy.Add) -> sympy.Expr:
    """c + a e^{u - m} + b e^{v - m} as e^{-m} (c e^m + a e^u + b e^v)."""
    terms = []
    for term in expr.args:
        factors = list(sympy.Mul.make_args(term))
        power = next((a for a in factors if isinstance(a, sympy.exp)), None)
        if power is not None:
            factors.remove(power)
        terms.append((sympy.Mul(*factors), sympy.S.Zero if power is None else power.args[0]))
    powers = [power for _, power in terms if power != 0]
    if not 0 < len(powers) < len(terms):
        return expr
    shared = set.intersection(*({-u for u in sympy.Add.make_args(power)} for power in powers))
    # in a single e^{a - b}, the shift can't be told from a term: the subtracted one counts
    shift = sympy.Add(*(u for u in shared if len(powers) > 1 or not u.could_extract_minus_sign()))
    if shift == 0 or any(power + shift == 0 for power in powers):
        return expr
    return sympy.exp(-shift) * sympy.Add(*(rest * sympy.exp(power + shift) for rest, power in terms))


# ---------------------------------------------------------------------------------------------------------- names


def name_frequent_parts(exprs: Sequence[sympy.Expr]) -> tuple[list[sympy.Expr], list[tuple[sympy.Expr, sympy.Expr]]]:
    """The formulas with names for their frequent parts, and (name, formula) of each."""
    exprs, definitions = list(exprs), []
    taken = {str(s) for e in exprs for s in e.free_symbols} | {e.base for x in exprs for e in x.atoms(Entry)}
    for name in (n for n in NAMES if n not in taken):
        family = _most_frequent([*exprs, *(formula for _, formula in definitions)])
        if family is None:
            break
        first, rows = family[0], [pattern(member)[1] for member in family]
        together = _varying(rows, _bound(first))
        letters = _letters(_without_letters(first, list(itertools.chain(*together))))
        free = [letter for letter in LETTERS if letter not in letters][: len(together)]
        if len(free) < len(together):
            break

        def named(indices: Sequence[Index], name: str = name) -> sympy.Symbol:
            return Entry(name, indices) if indices else sympy.Symbol(name)

        meant = {e: named([row[n] for n, *_ in together]) for e, row in zip(family, rows, strict=True)}
        exprs = [e.xreplace(meant) for e in exprs]
        definitions = [(left, formula.xreplace(meant)) for left, formula in definitions]
        general = with_indices(first, _lettered(rows[0], together, free)) if together else first
        definitions.append((named([(letter, 0) for letter in free]), general))
    return exprs, definitions


def _varying(rows: Sequence[Sequence[Index]], bound: set[str]) -> list[list[int]]:
    """The positions of indices that vary, or have a letter that no sum binds; equal ones in one list."""
    together: dict[tuple, list[int]] = {}
    for position, column in enumerate(zip(*rows, strict=True)):
        letter = column[0][0]
        if len(set(column)) > 1 or (letter and letter not in bound):
            together.setdefault(column, []).append(position)
    return list(together.values())


def _without_letters(expr: sympy.Expr, varying: list[int]) -> sympy.Expr:
    """The formula without letters at the places that vary."""
    return with_indices(expr, [("", 0) if n in varying else i for n, i in enumerate(pattern(expr)[1])])


def _most_frequent(exprs: Iterable[sympy.Expr]) -> list[sympy.Expr] | None:
    """The largest formulas that differ in their indices alone and stand in several places."""
    families: dict[tuple, list[sympy.Expr]] = {}
    for expr in exprs:
        for e in sympy.preorder_traversal(expr):
            if _may_have_a_name(e) and length(e) >= NAMED:
                families.setdefault(pattern(e)[0], []).append(e)
    several = [family for family in families.values() if len(family) > 1]
    return list(dict.fromkeys(max(several, key=lambda family: length(family[0])))) if several else None


def _may_have_a_name(e: sympy.Expr) -> bool:
    """Sums, roots and functions may; a product may not, but its factors may."""
    return e.is_Add or isinstance(e, sympy.Sum | sympy.Function) or (e.is_Pow and e.exp.is_Rational and e.exp.q > 1)


def length(expr: sympy.Expr) -> int:
    """The length of a formula for a reader: its number of operations, with three for a sum."""
    return int(expr.count_ops()) + 3 * len(expr.atoms(sympy.Sum))

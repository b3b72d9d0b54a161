"""Formulas of the index calculus as terms of Coq, and their derivatives with the weight moved down to the entries.

An index runs from 1 in formulas and from 0 in Coq, where a sum over 1..n is `Σ k < n, ...`. A term is a tree, since a
certificate needs its parts: the entries in it, each with its weight and the sums around it (`entries_of`). The tactic
`backward` of derivations/coq/Tinytensor.v goes through a formula in the same order.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count

from sympy import Add, Expr, Indexed, KroneckerDelta, Mul, Pow, S, Sum, Symbol, pi, preorder_traversal

from tinytensor.symbolic.index_calculus.adjoints import Name, name_of
from tinytensor.symbolic.index_calculus.formulas import Index, Size
from tinytensor.symbolic.index_calculus.functions import ABOVE, HEADS, TABLE, Functions, upto
from tinytensor.symbolic.index_calculus.order import factors_of, signed, terms_of
from tinytensor.symbolic.index_calculus.signs import Signs, needs_of


class NotCertifiable(TypeError):
    """A formula that a certificate cannot hold."""


def _operator(head: str, turned: bool = False) -> Callable:
    """An operator of a term and a term or a number; turned: the term is on its right side."""

    def method(self: "Term", value: "Term | int") -> "Term":
        term = value if isinstance(value, Term) else number(str(value))
        sides = (term, self) if turned else (self, term)
        return product(*sides) if head == "*" else Term(head, sides)

    return method


@dataclass(frozen=True)
class Term:
    """A formula: `head`, and its parts.

    head: "entry" (name; its indices are texts), "number" (text), "delta", "upto" (texts), "+", "-", "*", "/", "neg",
    "power" (text: the exponent), "total" (text: its index, size), or the name of a function.
    """

    head: str
    parts: tuple["Term", ...] = ()
    text: str = ""
    name: Name | None = None
    indices: tuple[str, ...] = ()
    size: str = ""

    __add__, __sub__, __rsub__ = _operator("+"), _operator("-"), _operator("-", turned=True)
    __mul__, __rmul__ = _operator("*"), _operator("*", turned=True)
    __truediv__, __rtruediv__ = _operator("/"), _operator("/", turned=True)

    def __neg__(self) -> "Term":
        return Term("neg", (self,))

    def __pow__(self, n: int) -> "Term":
        return Term("power", (self,), str(n))


def number(text: str) -> Term:
    return Term("number", text=text)


ZERO, ONE = number("0"), number("1")


def product(*factors: Term) -> Term:
    """A product, without factors of 1."""
    factors = tuple(f for f in factors if f != ONE)
    return factors[0] if len(factors) == 1 else Term("*", factors) if factors else ONE


def total(binders: Iterable[tuple[str, str]], body: Term) -> Term:
    """The nested sum over (index, size)."""
    for index, size in reversed(list(binders)):
        body = Term("total", (body,), text=index, size=size)
    return body


# ---- from formulas ---------------------------------------------------------------------------------------------------


def unused(index: str, taken: Collection[str]) -> str:
    """The index with a number, so that the name is not taken."""
    return next(name for n in count(1) if (name := f"{index}{n}") not in taken)


class Reader:
    """Reads formulas as terms.

    order: the names of the program, in the order of a product's factors. taken: names that no index may have.
    """

    def __init__(self, names: Mapping, order: Sequence[Name], taken: Collection[str]):
        self.names, self.order, self.taken = names, order, set(taken)
        self.compound = {
            Add: self._sum,
            Mul: self._product,
            Pow: self._power,
            Sum: self._total,
            KroneckerDelta: partial(self._indicator, "delta"),
            upto: partial(self._indicator, "upto"),
        }

    def letter(self, index: Index, used: Iterable[str]) -> str:
        """A name for an index: its own letter, unless that is in use."""
        used = {*used, *self.taken}
        letters = [letter for letter in index.letters if letter.isidentifier() and letter.isascii()]
        numbered = (f"{letter}{n}" for n in count(1) for letter in letters)
        return next(name for name in chain(letters, numbered) if name not in used)

    def term(self, expr: Expr, indices: Mapping[Index, str]) -> Term:
        """A formula whose free indices have the names `indices`."""
        if (read := self.compound.get(expr.func)) is not None:
            return read(expr, indices)
        if isinstance(expr, Index) or (isinstance(expr, Indexed) and expr.base.values is not None):
            return Term("INR", indices=(self.position(expr, indices),)) + 1
        if isinstance(expr, Size):
            return number(f"INR {self.names[expr]}")
        if isinstance(expr, Indexed | Symbol):
            positions = tuple(self.position(i, indices) for i in getattr(expr, "indices", ()))
            return Term("entry", name=name_of(expr), indices=positions)
        if expr is pi:
            return PI
        if expr.is_Rational:
            return self._product(expr, indices)
        if expr.func in HEADS and HEADS[expr.func].coq:
            return Term(HEADS[expr.func].coq, tuple(self.term(e, indices) for e in expr.args))
        raise NotCertifiable(
            f"certificate: {expr.func.__name__} is not among the functions whose derivative the library of Coq has: "
            f"{', '.join(sorted(row.coq for row in TABLE.values() if row.coq))}"
        )

    def binders(self, indices: Iterable[Index], used: Iterable[str] = ()) -> dict[Index, tuple[str, str]]:
        """Names for these indices, other ones than those in use, with their sizes."""
        result: dict[Index, tuple[str, str]] = {}
        for i in indices:
            result[i] = self.letter(i, [*used, *(name for name, _ in result.values())]), self.size(i.size)
        return result

    def size(self, size: Expr) -> str:
        """A size as a whole number of Coq."""
        if isinstance(size, Size):
            return self.names[size]
        if size.is_Integer:
            return str(size)
        offset, symbol = size.as_coeff_Add()
        if isinstance(symbol, Size) and offset.is_Integer:
            return f"({self.names[symbol]} {'-' if offset < 0 else '+'} {abs(offset)})"
        raise NotCertifiable(f"certificate: the size {size} is no symbol; give it a name of its own")

    def position(self, index: Expr, indices: Mapping[Index, str]) -> str:
        """An index that counts from 1 as one that counts from 0."""
        index = S(index)
        if isinstance(index, Index):
            return indices[index]
        if isinstance(index, Indexed) and index.base.values is not None:
            return f"({' '.join([self.names[index.base], *[self.position(i, indices) for i in index.indices]])})"
        if index.is_Integer and index >= 1:
            return str(index - 1)
        if isinstance(index, Add):
            offset, variable = index.as_coeff_Add()
            if offset.is_Integer and offset >= 0 and isinstance(variable, Index | Indexed):
                return f"({self.position(variable, indices)} + {offset})%nat"
        raise NotCertifiable(
            f"certificate: the index {index} is no index, entry of a table or number; none moves backward"
        )

    def _indicator(self, head: str, expr: Expr, indices) -> Term:
        return Term(head, indices=tuple(self.position(i, indices) for i in expr.args))

    def _total(self, expr: Sum, indices) -> Term:
        binders = self.binders((index for index, *_ in expr.limits), indices.values())
        inner = {index: name for index, (name, _) in binders.items()}
        return total(binders.values(), self.term(expr.function, {**indices, **inner}))

    def _sum(self, expr: Add, indices) -> Term:
        first, *others = terms_of(expr, self.order)
        result = self.term(first, indices)
        for minus, term in signed(others):
            result = Term("-" if minus else "+", (result, self.term(term, indices)))
        return result

    def _product(self, expr: Mul, indices) -> Term:
        coefficient, above, below = factors_of(expr, self.order)
        minus, coefficient = coefficient < 0, abs(coefficient)
        factors = [number(str(coefficient.p)), *[self.term(a, indices) for a in above]]
        under = product(number(str(coefficient.q)), *[self.term(b, indices) for b in below])
        if under == ONE:
            result = product(*factors)
        elif above and coefficient == 1 and all(isinstance(a, Sum) for a in above):
            result = product(Term("/", (ONE, under)), *factors)
        else:
            result = Term("/", (product(*factors), under))
        return Term("neg", (result,)) if minus else result

    def _power(self, expr: Pow, indices) -> Term:
        base, power = expr.args
        if power.is_number and power.is_negative:
            return Term("/", (ONE, self.term(1 / expr, indices)))
        inner = self.term(base, indices)
        if power.is_Rational and power.q == 2:
            inner, power = Term("sqrt", (inner,)), S(power.p)
        if power == 1:
            return inner
        if power.is_Integer:
            return Term("power", (inner,), text=str(power))
        return Term("Rpower", (inner, self.term(power, indices)))


# ---- to text ---------------------------------------------------------------------------------------------------------

LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "power": 4, "total": 0}
FACTOR = 2  # the level of the first factor of a product, and of a term that is added


def text(t: Term, called: Callable[[Name], str], level: int = 0) -> str:
    """A term in Coq's syntax, in brackets if it binds less than `level`; `called` gives the text of a name."""
    binds = LEVELS.get(t.head, 5)
    inner = lambda part, above: text(part, called, above)  # noqa: E731
    if t.head == "number":
        shown = t.text
        binds = 6 if shown.isdigit() or shown.startswith("(") or shown.isidentifier() else 5
    elif t.head == "entry":
        shown = " ".join([called(t.name), *t.indices])
        binds = 5 if " " in shown else 6
    elif t.head in ("delta", "upto", "INR"):
        shown = " ".join([t.head, *t.indices])
    elif t.head == "total":
        return f"(Σ {t.text} < {t.size}, {inner(t.parts[0], 0)})"
    elif t.head in ("+", "-", "*", "/"):
        left, *right = t.parts
        shown = f" {t.head} ".join([inner(left, binds), *[inner(p, binds + 1) for p in right]])
    elif t.head == "neg":
        shown = f"- {inner(t.parts[0], 4)}"
        binds = 1 if level > 1 else 2
    elif t.head == "power":
        shown = f"{inner(t.parts[0], 5)} ^ {t.text}"
    else:
        shown = " ".join([t.head, *[inner(p, 6) for p in t.parts]])
    return f"({shown})" if binds < level else shown


# ---- change ----------------------------------------------------------------------------------------------------------


def names_in(term: Term) -> set[Name]:
    """The names of the entries in a term."""
    names = {term.name} if term.head == "entry" else set()
    return names.union(*map(names_in, term.parts))


def words_in(term: Term) -> set[str]:
    """The words in a term that may be sizes, tables, or indices that no sum in it binds."""
    words = re.findall(r"\w+", " ".join([*term.indices, term.size, term.text]))
    inner = {*words}.union(*map(words_in, term.parts))
    return inner - {term.text} if term.head == "total" else inner


def renamed(term: Term, new: Mapping[str, str], taken: Collection[str]) -> Term:
    """The term with other names for its free indices."""
    if term.head == "total":
        index, inside = term.text, {a: b for a, b in new.items() if a != term.text}
        if index in inside.values():
            index = unused(index, {*inside.values(), *taken})
            inside[term.text] = index
        return Term("total", (renamed(term.parts[0], inside, taken),), index, size=term.size)
    parts = tuple(renamed(p, new, taken) for p in term.parts)
    return Term(term.head, parts, term.text, term.name, tuple(reindexed(i, new) for i in term.indices), term.size)


def reindexed(position: str, new: Mapping[str, str]) -> str:
    """A position with other names for its indices; no table has the name of an index."""
    return re.sub(r"\w+", lambda word: new.get(word[0], word[0]), position)


# ---- derivatives -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightedEntry:
    """An entry in a formula: the derivative of the formula by it is the sum of `weight` over `binders`."""

    entry: Term
    weight: Term
    binders: tuple[tuple[str, str], ...]

    def free_positions(self, sizes: Sequence[str]) -> list[int]:
        """The numbers of its indices that are variables, each the first of its name, over the array's whole size."""
        variables, bound = self.entry.indices, dict(self.binders)
        return [n for n, i in enumerate(variables) if bound.get(i) == sizes[n] and i not in variables[:n]]


PI = number("PI")
IN_COQ = Functions(lambda name, *arguments: Term(TABLE[name].coq, arguments), PI, Term("sqrt", (PI,)))


def entries_of(term: Term, active: set[Name], weight: Term = ONE, binders: tuple = ()) -> list[WeightedEntry]:
    """The entries of active names in a term, with their weights."""
    if term.head == "entry":
        return [WeightedEntry(term, weight, binders)] * (term.name in active)
    inside = (*binders, (term.text, term.size)) if term.head == "total" else binders
    parts = [(part, arrives) for part, arrives in flow(term, weight) if names_in(part) & active]
    return [entry for part, arrives in parts for entry in entries_of(part, active, arrives, inside)]


def flow(term: Term, weight: Term) -> Iterator[tuple[Term, Term]]:
    """Each part of a term of this weight, with its own weight."""
    parts = term.parts
    match term.head:
        case "total" | "+":
            yield from ((part, weight) for part in parts)
        case "-":
            yield from zip(parts, (weight, -weight), strict=True)
        case "neg":
            yield parts[0], -weight
        case "*":
            yield from ((part, product(weight, *parts[:n], *parts[n + 1 :])) for n, part in enumerate(parts))
        case "/":
            over, under = parts
            yield over, weight / under
            yield under, weight * -(over / under**2)
        case "power":
            n = int(term.text)
            yield parts[0], product(weight, number(str(n)), Term("power", parts, str(n - 1)) if n > 2 else parts[0])
        case "Rpower":
            base, power = parts
            yield base, weight * (term * power / base)
            yield power, product(weight, term, Term("ln", (base,)))
        case head if row := next((r for r in TABLE.values() if r.coq == head), None):
            for n, part in enumerate(parts):
                yield part, weight * row.derivative(IN_COQ, term, parts, n)


# ---- conditions ------------------------------------------------------------------------------------------------------


def conditions_of(formula: Expr, signs: Signs) -> Iterator[tuple[Expr, str, Expr]]:
    """(left, relation, right) for each condition of a derivative that signs do not meet, such as 0 < x.

    The denominators of a product are one, since Coq divides by their product: (N - 1) r.
    """
    below: set[Expr] = set()
    for e in preorder_traversal(formula):
        if isinstance(e, Mul):
            inverses = [p for p in e.args if isinstance(p, Pow) and p.exp.is_Integer and p.exp < 0]
            denominator = Mul(*[p.base for p in inverses])
            if not signs.not_zero(denominator):
                yield denominator, "<>", S.Zero
            below.update(inverses)
        for key, term in needs_of(e).items() if e not in below else ():
            if not signs.meets(key, term):
                left, *right = e.args[:1] if isinstance(e, Pow) else e.args
                yield left, "inside" if key == "arc" else ">" if key in ABOVE else "<>", (*right, S.Zero)[0]


def condition_text(left: str, relation: str, right: str) -> str:
    return {"<>": f"{left} <> {right}", ">": f"0 < {left}", "inside": f"-1 < {left} < 1"}[relation]

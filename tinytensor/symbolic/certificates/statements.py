"""What Coq prints of a certificate, with nothing left out: its definitions, and the statements of its theorems.

A formula has arithmetic, sums over sizes, entries of arrays, definitions, and functions of the library; what else a
word may mean, it is refused. A formula can be computed, with intervals that contain the real number. So hypotheses can
be met if some numbers are seen to meet them; a theorem without such numbers may say nothing.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from math import inf, nextafter
from random import Random

from mpmath import iv

from tinytensor.symbolic.certificates.certificate import MEANINGS, MOST
from tinytensor.symbolic.index_calculus.functions import ABOVE, TABLE, Row
from tinytensor.symbolic.time_limit import TimeLimit, TooLong, limited, step

TRIES, LARGEST, MANY = 300, 4, 97  # witnesses; their largest size; a size that is large enough for each index
SECONDS = 60  # of computing, at most, for the search of a witness
TINY = 2.0**-900  # what floats may round to 0 is below it
RANGES = ((0, 1), (-1, 1), (1, 3), (-2, 0), (0, 32))  # of the entries of an array
NOT_MET = f"its hypotheses were not shown to be met: {TRIES} choices of small sizes and of numbers do not meet them"
NOT_MET_IN_TIME = "its hypotheses were not shown to be met by a search for sizes and numbers"
DERIVATIVE = ("@is_derive", "R_AbsRing", "R_NormedModule")
REAL = ("R", ("AbsRing.sort", "R_AbsRing"))
Term = str | tuple  # a word; (function, argument, ...); or ("fun" or "forall", name, type, term)
Values = Mapping[str, object]  # of names
Formula = Callable[[Values], object]


class Unread(ValueError):
    """A text is not of this grammar."""


# ---- terms -----------------------------------------------------------------------------------------------------------


def parsed(text: str) -> Term:
    """A term as Coq prints it with all its arguments, up to a colon; A -> B is forall _ : A, B."""
    groups: list[list] = [[]]
    text = re.sub(r"\b(?:Init|RinvImpl|Rdefinitions|RbaseSymbolsImpl)\.", "", text)
    for word in re.findall(r"=>|[(),:]|[^\s(),:]+", text):
        if word == "(":
            groups.append([])
        elif word == ")":
            inner = groups.pop()
            groups[-1].append(inner)
        else:
            groups[-1].append(word)
    return _term(groups[0])


def _term(words: list) -> Term:
    """The term of these words, among which are lists of words that stood in brackets."""
    if words[0] not in ("fun", "forall"):
        words = words[: words.index(":")] if ":" in words else words
        parts = [word if isinstance(word, str) else _term(word) for word in words]
        return tuple(parts) if len(parts) > 1 else parts[0]
    end = words.index("=>" if words[0] == "fun" else ",")
    binders, term = words[1:end], _term(words[end + 1 :])
    for group in reversed([binders] if ":" in binders else binders):
        colon = group.index(":")
        for name in reversed(group[:colon]):
            term = (words[0], name, _term(group[colon + 1 :]), term)
    return term


def words_of(term: Term) -> Iterator[str]:
    if isinstance(term, str):
        yield term
    else:
        for part in term:
            yield from words_of(part)


def replaced(term: Term, old: Term, new: Term) -> Term:
    if term == old:
        return new
    return term if isinstance(term, str) else tuple(replaced(part, old, new) for part in term)


# ---- values ----------------------------------------------------------------------------------------------------------


def monotone(value: Callable[[float], float], x):
    """The values of a monotone function on an interval: from a float below it to one above it, and a little more."""
    ends = value(nextafter(float(x.a), -inf)), value(nextafter(float(x.b), inf))
    return iv.mpf([min(ends), max(ends)]) * iv.mpf([1 - 2**-40, 1 + 2**-40]) + iv.mpf([-TINY, TINY])


def less(a, b) -> bool:
    """Is each number of one interval below each of another one?"""
    return (a < b) is True


def differ(a, b) -> bool:
    return less(a, b) or less(b, a)


def where(is_inside: bool, x):
    """x; elsewhere Coq has values of its own, as for 1/0 and ln 0."""
    if not is_inside:
        raise ArithmeticError
    return x


def over(a, b):
    return a / where(differ(b, 0), b)


def in_domain(row: Row, *arguments):
    """The values of a function on intervals inside of its domain."""
    for term in [term for key, term in row.needs.items() if key in ABOVE]:
        where(less(0, term(None, *arguments)), None)
    return row.interval(*arguments) if row.interval else monotone(row.value, *arguments)


def counted(n: int) -> Iterator[int]:
    """The numbers below n, with a look at the clock."""
    for k in range(n):
        step()
        yield k


LIBRARY: dict[str, tuple[int, Callable]] = {  # the functions, with the number of their arguments
    **{row.coq: (row.arguments, partial(in_domain, row)) for row in TABLE.values() if row.coq},
    "Rpower": (2, lambda x, y: iv.exp(y * iv.log(where(less(0, x), x)))),
    "PI": (0, lambda: iv.mpf(iv.pi)),
    "delta": (2, lambda i, j: iv.mpf(i == j)),
    "upto": (2, lambda i, j: iv.mpf(i <= j)),
    "Rplus": (2, operator.add),
    "Rmult": (2, operator.mul),
    "Rminus": (2, operator.sub),
    "Ropp": (1, operator.neg),
    "Rdiv": (2, over),
    "Rinv": (1, partial(over, 1)),
    "pow": (2, operator.pow),
    "total": (2, lambda n, f: sum(map(f, counted(n)), iv.mpf(0))),
    "INR": (1, iv.mpf),
    "IZR": (1, iv.mpf),
    "Z0": (0, int),
    "Zpos": (1, int),
    "Zneg": (1, operator.neg),
    "xH": (0, lambda: 1),
    "xO": (1, lambda n: 2 * n),
    "xI": (1, lambda n: 2 * n + 1),
    "O": (0, int),
    "S": (1, lambda n: n + 1),
    "Nat.add": (2, operator.add),
    "Nat.mul": (2, operator.mul),
    "Nat.sub": (2, lambda a, b: max(a - b, 0)),
}


def numbers_for(types: Mapping[str, Term], sizes: set[str], seed: int) -> dict:
    """Values for names of these types: small sizes, indices 0, and numbers of a range for each array."""
    random, values = Random(seed), {}
    for name, of in types.items():
        low, high = random.choice(RANGES)
        number = lambda *_, r=random, a=low, b=high: iv.mpf(64 * a + r.randint(1, 63) * (b - a)) / 64  # noqa: E731
        if of == "nat":
            values[name] = (random.randint(1, LARGEST) if seed else 2) if name in sizes else 0
        elif "R" not in words_of(of):
            values[name] = cache(lambda *_, r=random: r.randint(0, 1))
        else:
            values[name] = number() if of == "R" else cache(number)
    return values


# ---- formulas --------------------------------------------------------------------------------------------------------


class Definitions(dict[str, tuple[list[str], Callable]]):
    """The definitions of a certificate, as parameters and values; and why some are `refused`."""

    def __init__(self, printed: Mapping[str, str]):
        super().__init__()
        self.names, self.refused = {*printed, *MEANINGS}, []
        for name, text in printed.items():
            try:
                if name in MEANINGS:
                    raise Unread("the name has a meaning already")
                self[f"certificate.{name}"] = self._definition(parsed(text))
            except ValueError as error:
                self.refused.append(f"{name}: {error}")

    def _definition(self, term: Term) -> tuple[list[str], Callable]:
        parameters, types = [], {}
        while term[0] == "fun":
            _, name, of, term = term
            parameters.append(name)
            types = self.bound(types, name, of)
        value = self.formula(term, types)
        return parameters, cache(lambda *values: value(dict(zip(parameters, values))))

    def bound(self, types: Mapping[str, Term], name: str, of: Term) -> dict[str, Term]:
        """The types of names, and of one that a term binds."""
        if name in self.names:
            raise Unread(f"it binds {name}, which has a meaning already")
        if not is_number(of):
            raise Unread(f"{name} is no number, array or table")
        return {**types, name: of}

    def formula(self, term: Term, types: Mapping[str, Term]) -> Formula:
        """The values of a term, whose names have these types."""
        head, *arguments = (term,) if isinstance(term, str) else term
        if head == "fun":
            index, of, body = arguments
            value = self.formula(body, self.bound(types, index, of))
            return lambda e: lambda i: value({**e, index: i})
        parts = [self.formula(argument, types) for argument in arguments]
        if head in types:
            return lambda e: e[head](*[part(e) for part in parts]) if parts else e[head]
        parameters, function = self.get(head) or LIBRARY.get(head, (None, None))
        count = len(parameters) if isinstance(parameters, list) else parameters
        if count != len(parts):
            raise Unread(f"{head} has no meaning here, or not all its arguments")
        return lambda e: function(*[part(e) for part in parts])


def is_number(of: Term) -> bool:
    """Is it the type of a number, an array or a table?"""
    while of[:3] == ("forall", "_", "nat"):
        of = of[3]
    return of in ("nat", "R")


# ---- theorems --------------------------------------------------------------------------------------------------------


def refusal(statement: str, known: Definitions) -> str:
    """Why a statement is no theorem of a certificate; empty if it is.

    Its hypotheses say that sizes are above 0, that indices and entries of tables are below a size, and compare numbers,
    for all such indices; and some numbers meet them. It ends in one derivative, by an entry that its function moves.
    """
    try:
        read = Statement(parsed(statement), known)
    except ValueError as error:
        return str(error)
    try:
        with limited(TimeLimit("certify", "the hypotheses", SECONDS, progress=False)):
            return "" if any(map(read.is_met, range(TRIES))) else NOT_MET
    except TooLong:
        return f"{NOT_MET_IN_TIME}: it is stopped after {SECONDS} seconds of computing"


class Statement:
    """A theorem as it is read: the types of its names, its sizes, and its hypotheses as tests of values."""

    def __init__(self, term: Term, known: Definitions):
        self.known, self.types, hypotheses = known, {}, []
        while term[0] == "forall":
            _, name, of, term = term
            if name != "_":
                self.types = known.bound(self.types, name, of)
            elif not is_number(of):  # the type of a name that is not used
                hypotheses.append(of)
        self.sizes = {h[2] for h in hypotheses if h[:2] == ("lt", "O") and h[2] in self.types}
        self.tests = [self.hypothesis(h) for h in hypotheses]
        self.read_derivative(term)

    def is_met(self, seed: int) -> bool:
        """Are all hypotheses true at some numbers, where each formula in them has a value?"""
        values = numbers_for(self.types, self.sizes, seed)
        try:
            return all(test(values) for test in self.tests)
        except (ArithmeticError, ValueError):
            return False

    def hypothesis(self, term: Term) -> Formula:
        """A comparison, for all its indices in their ranges."""
        types, limits = self.types, {}
        while term[0] == "forall" and term[1] != "_":
            _, index, of, term = term
            types, limits[index] = self.known.bound(types, index, of), None
        for index in limits:
            match term:
                case ("forall", "_", ("lt", left, size), inner) if left == index:
                    limits[index], term = self.limit(size), inner
                case _:
                    raise Unread(f"its hypothesis has an index {index} without a range")
        test = self.comparison(term, types)
        return lambda e: all(map(test, points(e, limits)))

    def comparison(self, term: Term, types: Mapping[str, Term]) -> Formula:
        """a < b of whole numbers, or of numbers: a < b, a <> b, or a < b < c."""
        match term:
            case ("lt", a, b):
                word = next(words_of(a))
                if not (word == "O" and b in self.sizes) and word not in types.keys() - self.sizes:
                    raise Unread("its hypothesis on whole numbers is none on a size, an index or a table")
                compare, parts = operator.lt, (self.known.formula(a, types), self.limit(b))
            case ("and", *sides) if all(side[0] == "Rlt" for side in sides):
                compare, parts = operator.and_, [self.comparison(side, types) for side in sides]
            case ("Rlt", *sides) | ("not", ("@eq", "R", *sides)):
                compare, parts = less if term[0] == "Rlt" else differ, [self.known.formula(x, types) for x in sides]
            case _:
                raise Unread("its hypothesis is no comparison")
        return lambda e: compare(*[part(e) for part in parts])

    def limit(self, term: Term) -> Formula:
        """What an index is below: a formula of sizes, above 0 where these are large."""
        value = self.known.formula(term, dict.fromkeys(self.sizes, "nat"))
        if value(dict.fromkeys(self.sizes, MANY)) <= 0:
            raise Unread("its hypothesis has no index in its range")
        return value

    def read_derivative(self, term: Term) -> None:
        """A conclusion: the derivative of a function by the entry at its point.

        What moves is the name of the point, or the entry X i of it, as (put1 X i r).
        """
        match term:
            case (*head, ("fun", r, of, body), point, gradient) if tuple(head) == DERIVATIVE and of in REAL:
                array, *entry = (point,) if isinstance(point, str) else point
            case _:
                raise Unread("its conclusion is not of the form is_derive (fun r => ...) point formula")
        indices = {i for i in entry if self.types.get(i) == "nat" and i not in self.sizes}
        if array not in self.types or len(indices) < len(entry) or len(entry) > MOST:
            raise Unread("its function does not move an entry of an argument")
        self.known.bound({}, r, "R")
        moved = (f"put{len(entry)}", array, *entry, r) if entry else r
        for name in {array, r} & {*words_of(replaced(body, moved, "_"))}:
            raise Unread(f"{name} is not expected in its function")
        for formula in (replaced(body, moved, array), gradient):
            self.known.formula(formula, self.types)
            self.check_arguments(formula)

    def check_arguments(self, term: Term) -> None:
        """Each definition has its parameters for arguments, under their own names."""
        if isinstance(term, tuple):
            parameters = self.known.get(term[0], ((), None))[0]
            for parameter, argument in zip(parameters, term[1:]):
                if argument != parameter != "_":
                    raise Unread(f"{term[0]} has another argument than {parameter}")
            for part in term:
                self.check_arguments(part)


def points(values: Values, limits: Mapping[str, Formula]) -> Iterator[Values]:
    """These values of names, with all values of indices below their limits."""
    if not limits:
        yield values
        return
    (index, size), *others = limits.items()
    for n in counted(size(values)):
        yield from points({**values, index: n}, dict(others))

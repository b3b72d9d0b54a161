"""What Coq prints of a certificate, read by a closed grammar: its definitions, and the statements of its theorems.

A formula has arithmetic, sums over sizes, entries of arrays, definitions, and functions of the library; what else a
word may mean, it is refused. A formula can be computed, with intervals that contain the real number. So hypotheses can
be met if some numbers are seen to meet them; a theorem without such numbers may say nothing.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from math import inf, nextafter
from random import Random

from mpmath import iv

from tinytensor.symbolic.certificates.certificate import MEANINGS, MOST
from tinytensor.symbolic.derive.time_limit import TimeLimit, limited
from tinytensor.symbolic.index_calculus.functions import ABOVE, TABLE, Row
from tinytensor.symbolic.index_calculus.interruption import step
from tinytensor.symbolic.prove.progress import TooLong

NAME = r"[^\W\d][\w']*"
TOKEN = re.compile(rf"%nat|{NAME}|\d+|<>|\S")
NUMBERS = re.compile(r"(?:nat -> )*(?:nat|R)")  # the type of a number, an array or a table
TRIES, LARGEST, MANY = 300, 4, 97  # witnesses; their largest size; a size that is large enough for each index
SECONDS = 60  # of computing, at most, for the search of a witness
TINY = 2.0**-900  # what floats may round to 0 is below it
RANGES = ((0, 1), (-1, 1), (1, 3), (-2, 0), (0, 32))  # of the entries of an array
NO_DERIVATIVE = "its conclusion is not of the form is_derive (fun r => ...) point formula"
NOT_MET = f"its hypotheses were not shown to be met: {TRIES} choices of small sizes and of numbers do not meet them"
NOT_MET_IN_TIME = "its hypotheses were not shown to be met by a search for sizes and numbers"
Values = Mapping[str, object]  # of names
Formula = Callable[[Values], object]


class Unread(ValueError):
    """A text is not of this grammar."""


def parts_of(text: str, separator: str, most: int = 0) -> list[str]:
    """The parts of a text between separators that stand in no brackets."""
    parts, depth, n = [""], 0, 0
    while n < len(text):
        depth += (text[n] in "([{") - (text[n] in ")]}")
        if not depth and text.startswith(separator, n) and not (most and len(parts) > most):
            parts, n = [*parts, ""], n + len(separator)
        else:
            parts[-1], n = parts[-1] + text[n], n + 1
    return [part.strip() for part in parts if part.strip()]


def typed(binders: str) -> list[tuple[str, str]]:
    """The names in a text of binders with their types: (N D : nat) (x : nat -> R), or n : nat."""
    groups = parts_of(binders, " ") if binders.startswith("(") else [binders]
    pairs = [group.strip("()").partition(" : ") for group in groups]
    return [(name, of) for names, _, of in pairs for name in names.split()]


def taken_apart(text: str) -> tuple[dict[str, str], list[str], str]:
    """The names that a statement binds, with their types, its hypotheses, and its conclusion."""
    types: dict[str, str] = {}
    hypotheses: list[str] = []
    while True:
        if text.startswith("forall "):
            binders, text = parts_of(text.removeprefix("forall "), ",", 1)
            types |= typed(binders)
        elif len(parts := parts_of(text, "->", 1)) == 2:
            if not re.fullmatch(r"(?:nat|R|->|[() ])+", parts[0]):  # the type of a name that is not used
                hypotheses.append(parts[0])
            text = parts[1]
        else:
            return types, hypotheses, text


# ---- values ----------------------------------------------------------------------------------------------------------


def monotone(value: Callable[[float], float], x):
    """The values of a monotone function on an interval: from a float below it to one above it, and a little more."""
    ends = value(nextafter(float(x.a), -inf)), value(nextafter(float(x.b), inf))
    return iv.mpf([min(ends), max(ends)]) * iv.mpf([1 - 2**-40, 1 + 2**-40]) + iv.mpf([-TINY, TINY])


RELATIONS = {"<": lambda a, b: (a < b) is True, "<>": lambda a, b: (a < b) is True or (b < a) is True}


def inside(relation: str, x):
    """An interval of numbers that have this relation to 0: elsewhere Coq has values of its own, as for 1/0 and ln 0."""
    if not RELATIONS[relation](iv.mpf(0), x):
        raise ArithmeticError
    return x


def in_domain(row: Row, *arguments):
    """The values of a function on intervals inside of its domain."""
    for term in [term for key, term in row.needs.items() if key in ABOVE]:
        inside("<", term(None, *arguments))
    return row.interval(*arguments) if row.interval else monotone(row.value, *arguments)


LIBRARY: dict[str, tuple[Callable, tuple[str, ...]]] = {  # the functions, and the types of their arguments
    **{row.coq: (partial(in_domain, row), ("R",) * row.arguments) for row in TABLE.values() if row.coq},
    "Rpower": (lambda x, y: iv.exp(y * iv.log(inside("<", x))), ("R", "R")),
    "PI": (lambda: iv.mpf(iv.pi), ()),
    "INR": (iv.mpf, ("nat",)),
    "delta": (lambda i, j: iv.mpf(i == j), ("nat", "nat")),
    "upto": (lambda i, j: iv.mpf(i <= j), ("nat", "nat")),
}
ARITHMETIC = {  # the difference of whole numbers is 0 at least
    "+": operator.add,
    "*": operator.mul,
    "/": lambda a, b: a / inside("<>", b),
    "-": lambda a, b: max(a - b, 0) if isinstance(a, int) else a - b,
}


def numbers_for(types: Mapping[str, str], sizes: set[str], seed: int) -> dict:
    """Values for names of these types: small sizes, indices 0, and numbers of a range for each array."""
    random, values = Random(seed), {}
    for name, of in types.items():
        low, high = random.choice(RANGES)
        number = lambda *_, r=random, a=low, b=high: iv.mpf(64 * a + r.randint(1, 63) * (b - a)) / 64  # noqa: E731
        if of == "nat":
            values[name] = (random.randint(1, LARGEST) if seed else 2) if name in sizes else 0
        elif of.endswith("nat"):
            values[name] = cache(lambda *_, r=random: r.randint(0, 1))
        else:
            values[name] = cache(number) if "->" in of else number()
    return values


# ---- formulas --------------------------------------------------------------------------------------------------------


class Definition:
    """A definition as Coq prints it, name = fun (N : nat) (x : nat -> R) => formula: its parameters and its values."""

    def __init__(self, printed: str, known: "Definitions"):
        value = printed.partition(" = ")[2]
        binders, _, formula = value[4:].partition(" => ") if value.startswith("fun ") else ("", "", value)
        self.parameters = typed(binders)
        read = Reader(formula, dict(self.parameters), known).whole()
        self.value = cache(lambda *values: read(dict(zip((name for name, _ in self.parameters), values))))


class Definitions(dict[str, Definition]):
    """The definitions of a certificate, and why some are `refused`."""

    def __init__(self, printed: Mapping[str, str]):
        super().__init__()
        self.names, self.refused = {*printed, *MEANINGS}, []
        for name, text in printed.items():
            try:
                if name in MEANINGS:
                    raise Unread("the name has a meaning already")
                self[name] = Definition(text, self)
            except Unread as error:
                self.refused.append(f"{name}: {error}")


class Reader:
    """Reads a formula whose names have these types.

    stead: in the conclusion of a theorem, what stands in the place of a parameter of this name, and may stand nowhere
    else; definitions get their other parameters by their names. None elsewhere.
    """

    def __init__(self, text: str, types: Mapping[str, str], known: Definitions, stead: Mapping | None = None):
        self.text, self.tokens, self.known = text, TOKEN.findall(text), known
        self.stead = None if stead is None else {name: TOKEN.findall(moved) for name, moved in stead.items()}
        self.types: dict[str, str] = {}
        self.bind(types)

    def bind(self, types: Mapping[str, str]) -> None:
        for name, of in types.items():
            if name in self.known.names:
                raise Unread(f"it binds {name}, which has a meaning already")
            if not NUMBERS.fullmatch(of):
                raise Unread(f"{name} : {of} is no number, array or table")
        self.types = self.types | dict(types)

    def whole(self, part: Callable | None = None, of: str = "R") -> Formula:
        """The whole text as a formula, or as this part of the grammar."""
        result = (part or self.sum)(of)
        if self.tokens:
            raise self.unexpected(self.tokens[0])
        return result

    def unexpected(self, token: str) -> Unread:
        return Unread(f"{token or 'the end'} is not expected in: {self.text}")

    def take(self, *expected: str) -> str:
        token = self.tokens.pop(0) if self.tokens else ""
        if not token or (expected and token not in expected):
            raise self.unexpected(token)
        return token

    def sees(self, *tokens: str) -> bool:
        return bool(self.tokens) and self.tokens[0] in tokens

    def comparison(self, of: str) -> Formula:
        """a < b, a <> b, or a < b < c."""
        sides, signs = [self.sum(of)], []
        while self.tokens or not signs:
            signs.append(RELATIONS[self.take(*RELATIONS)])
            sides.append(self.sum(of))
        return lambda e: all(sign(a(e), b(e)) for sign, a, b in zip(signs, sides, sides[1:]))

    def sum(self, of: str) -> Formula:
        if of == "R" and self.sees("Σ"):
            return self.total()
        return self.chain(of, "+-", partial(self.chain, signs="*/", part=self.factor))

    def chain(self, of: str, signs: str, part: Callable[[str], Formula]) -> Formula:
        value = part(of)
        while self.sees(*signs):
            sign = self.take()
            if of == "nat" and sign == "/":
                raise Unread(f"it divides whole numbers: {self.text}")
            value = applied(ARITHMETIC[sign], [value, part(of)])
        return value

    def factor(self, of: str) -> Formula:
        if of == "R" and self.sees("-", "/"):
            sign = self.take()
            return applied(lambda a: -a if sign == "-" else ARITHMETIC["/"](1, a), [self.factor(of)])
        value = self.call(of)
        if of == "R" and self.sees("^"):
            self.take()
            return applied(lambda a, n: a**n, [value, self.call("nat", alone=True)])
        return value

    def total(self) -> Formula:
        self.take("Σ")
        index, _, size = self.take(), self.take("<"), self.call("nat", alone=True)
        self.take(",")
        outside = self.types
        self.bind({index: "nat"})
        value, self.types = self.sum("R"), outside
        return lambda e: sum(map(value, with_index([e], index, size)), iv.mpf(0))

    def call(self, of: str, alone: bool = False) -> Formula:
        """A number, what stands in brackets, or a word: with its arguments, unless it stands alone."""
        token = self.take()
        if token == "(":
            value = self.sum(of)
            self.take(")")
        elif token.isdecimal():
            number = int(token) if of == "nat" else iv.mpf(token)
            value = lambda e: number  # noqa: E731
        else:
            value = self.word(token, of, alone)
        if of == "nat" and self.sees("%nat"):
            self.take()
        return value

    def word(self, token: str, of: str, alone: bool) -> Formula:
        """A name that has a value, a definition, or a function of the library, with its arguments."""
        if token in self.types:
            *types, result = self.types[token].split(" -> ")
            function = None
        elif token in self.known:
            types, result, function = self.known[token].parameters, "R", self.known[token].value
        else:
            function, types, result = *LIBRARY.get(token, (None, ())), "R" if token in LIBRARY else ""
        if result != of or (alone and types):
            raise self.unexpected(token)
        if token in self.known:
            return applied(function, self.parameters_of(token))
        arguments = [self.call(each, alone=True) for each in types]
        if function is not None:
            return applied(function, arguments)
        return lambda e: e[token](*[index(e) for index in arguments]) if arguments else e[token]

    def parameters_of(self, name: str) -> list[Formula]:
        """The arguments of a definition."""
        arguments = []
        for parameter, of in self.known[name].parameters:
            before = self.tokens[:]
            moved = (self.stead or {}).get(parameter, [])
            if moved and before[: len(moved)] == moved:
                del self.tokens[: len(moved)]
                arguments.append(lambda e: None)
            elif "->" in of:
                token = self.take()
                if self.types.get(token) != of:
                    raise self.unexpected(token)
                arguments.append(lambda e, token=token: e[token])
            else:
                arguments.append(self.call(of, alone=True))
            said = before[: len(before) - len(self.tokens)]
            if self.stead is not None and parameter != "_" and said != (moved or [parameter]):
                raise Unread(f"{name} has {' '.join(said)} for {' '.join(moved or [parameter])}")
        return arguments


def applied(function: Callable, arguments: list[Formula]) -> Formula:
    """The values of a function of formulas."""
    return lambda e: function(*[argument(e) for argument in arguments])


# ---- statements ------------------------------------------------------------------------------------------------------


def refusal(statement: str, known: Definitions) -> str:
    """Why a statement, as Coq prints it, is no theorem of a certificate; empty if it is.

    Its hypotheses say that sizes are above 0, that indices and entries of tables are below a size, and compare numbers,
    for all such indices; and some numbers meet them. It ends in one derivative, by an entry that its function moves.
    """
    types, hypotheses, conclusion = taken_apart(" ".join(statement.split()))
    sizes = {n for n in types if f"(0 < {n})%nat" in hypotheses}
    try:
        tests = [hypothesis(said, types, sizes, known) for said in hypotheses]
        read_derivative(conclusion, types, sizes, known)
    except Unread as error:
        return str(error)
    try:
        with limited(TimeLimit("certify", "the hypotheses", SECONDS, progress=False)):
            return "" if any(is_met(tests, numbers_for(types, sizes, seed)) for seed in range(TRIES)) else NOT_MET
    except TooLong:
        return f"{NOT_MET_IN_TIME}: it is stopped after {SECONDS} seconds of computing"


def is_met(tests: list[Formula], values: dict) -> bool:
    """Are all hypotheses true at these values, where each formula in them has a value?"""
    try:
        return all(test(values) for test in tests)
    except (ArithmeticError, ValueError):
        return False


def hypothesis(text: str, types: Mapping[str, str], sizes: set[str], known: Definitions) -> Formula:
    """A hypothesis as a test of values, for all its indices in their ranges."""
    inner, ranges, said = taken_apart(text[1:-1]) if text.startswith("(forall ") else ({}, [], text)
    limits = []
    for index, within in zip(inner, [*ranges, *[""] * len(inner)]):
        if not within.startswith(f"({index} < "):
            raise Unread(f"its hypothesis {text} has an index without a range")
        limits.append((index, limit(within[1:-5].partition(" < ")[2], sizes, known)))
    if len(ranges) > len(inner):
        raise Unread(f"its hypothesis {text} has a hypothesis of its own")
    if len(parts_of(said, " ")) == 1:  # (a < b)%nat
        test = below(said, types | inner, sizes, known)
    else:
        reader = Reader(said, types | inner, known)
        test = reader.whole(reader.comparison)

    def holds(values: dict) -> bool:
        points = iter([values])
        for index, size in limits:
            points = with_index(points, index, size)
        return all(map(test, points))

    return holds


def with_index(points: Iterable[Values], index: str, size: Formula) -> Iterator[Values]:
    """These values of names, with each value of an index below a size."""
    for values in points:
        for n in range(size(values)):
            step()
            yield {**values, index: n}


def limit(text: str, sizes: set[str], known: Definitions) -> Formula:
    """What an index is below: a formula of sizes, above 0 where these are large."""
    value = Reader(text, dict.fromkeys(sizes, "nat"), known).whole(of="nat")
    if value(dict.fromkeys(sizes, MANY)) <= 0:
        raise Unread(f"no index is below {text}")
    return value


def below(text: str, types: Mapping[str, str], sizes: set[str], known: Definitions) -> Formula:
    """A hypothesis on whole numbers: 0 is below a size, or an index or an entry of a table below a limit."""
    left, _, right = text[1:-5].partition(" < ")
    above, reader = limit(right, sizes, known), Reader(left, types, known)
    if (left == "0" and right not in sizes) or (left != "0" and left.split()[0] not in types.keys() - sizes):
        raise Unread(f"its hypothesis {text} is none on a size, an index or a table")
    value = reader.whole(reader.call, "nat")
    return lambda e: value(e) < above(e)


def read_derivative(text: str, types: Mapping[str, str], sizes: set[str], known: Definitions) -> None:
    """Read a conclusion: the derivative of a function by the entry at its point.

    What moves is the name of the point, or the entry X i of it, as (put1 X i r).
    """
    words = parts_of(text, " ")
    curve = re.fullmatch(rf"\(fun ({NAME}) : (?:R|R_AbsRing) => (.*)\)", words[1]) if len(words) == 4 else None
    if not curve or words[0] != "is_derive":
        raise Unread(NO_DERIVATIVE)
    (r, body), (array, *entry) = curve.groups(), words[2].strip("()").split()
    indices = [i for i in entry if types.get(i) == "nat" and i not in sizes]
    array_type = " -> ".join([*["nat"] * len(entry), "R"])
    if types.get(array) != array_type or len({*indices}) < len(entry) or len(entry) > MOST:
        raise Unread(f"its function does not move {words[2]}")
    Reader("", types | {r: "R"}, known)
    moved = f"(put{len(entry)} {array} {' '.join(entry)} {r})" if entry else r
    still = {name: of for name, of in types.items() if name != array} | ({} if entry else {r: "R"})
    Reader(body, still, known, {array: moved}).whole()
    Reader(words[3], types, known, {}).whole()

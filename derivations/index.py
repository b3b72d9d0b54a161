r"""Index calculus: formulas with indices, sums and Kronecker deltas, for sizes that stay symbols.

SymPy supplies the expressions, their arithmetic and the derivative of an elementary function. What it gets wrong or
leaves undone with sums over indices is done here, by a few rules that each fit in one function:

    fits          an index may stand where its range lies within the range of the place        X_i, i = 1..C
    total         a sum binds its index under a name that nobody else has, so nothing is captured
    normal        one form for equal expressions: a sum of products, each product under its sums; then
        spread        products of sums are multiplied out                        (Σ_i a_i)(Σ_j b_j) = Σ_ij a_i b_j
        contract      a delta takes its sum away                                 Σ_i δ(i,j) f(i) = f(j)
                      or fixes an index that stays                               δ(i,j) f(i) = δ(i,j) f(j)
                      a sum over nothing counts                                  Σ_i a = C a
        close         independent sums part again, and bound indices get numbers that depend on the formula alone
    Program       a list of definitions, name[indices] := expression in earlier names
    adjoint       the same program run backward: how the last name depends on every name before it
    equal         closed form = derived form, by putting definitions in for names and comparing normal forms

Contraction needs no case distinction (SymPy makes a Piecewise of it), because the types say that j lies in the range of
i; where they do not, nothing is contracted, and where they cannot be compared, TypeError. Never trusted here:
`simplify`, `doit` or `subs` of a Sum, and derivatives by a MatrixSymbol; tests/derivations/test_index.py shows why.

To refute a formula that is wrong on purpose: `program.replaced(name, change)` is the program with `change` applied to
one right-hand side, and `equal` with it, or with another closed form, raises Refuted with a counterexample.
"""

import itertools
import math
import random
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from sympy import Add, Dummy, Expr, Function, Indexed, IndexedBase, KroneckerDelta, Mul, Pow, S, Sum, Symbol, exp, log
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from derivations.claims import Evidence, Refuted, claim

# ---- sizes, indices, arrays -----------------------------------------------------------------------------------------


class Size(Symbol):
    """How far an index runs: a whole number of 1 or more that stays a symbol; `letters` are for indices that have none.

    A class of its own, since the source has a size K and a weight K: Size("K") and the label of an array K differ.
    """

    def __new__(cls, name: str, letters: str):
        self = super().__new__(cls, name, integer=True, positive=True)
        self.letters = letters.split()
        return self


class Index(Dummy):
    """An index that runs over 1..size. Each Index is another one, whatever its name."""

    def __new__(cls, name: str, size: Expr):
        self = super().__new__(cls, name, integer=True, positive=True)
        self.size = size
        return self

    def fresh(self) -> "Index":
        """Another index with the same range."""
        return Index(self.name, self.size)

    @property
    def letters(self) -> list[str]:
        """What it may be called in print, the best first: its name, unless that is the number of a bound index."""
        own = [] if self.name.isdigit() else [self.name]
        return [*own, *getattr(self.size, "letters", []), *"abcdefgh"]

    def _sympystr(self, printer) -> str:
        return f"{self.name}:{self.size}"  # by name and range, for the order of terms


class Array(IndexedBase):
    """A name with indices, each with its range: Array("X", (C, D))[i, j].

    values: for a table of indices such as tokens, how far these go. places: where each index is printed, "_" below,
    "^" above, "<" above on the left. of: the array that this one is the adjoint of. text and tex: how it is printed.
    """

    def __new__(cls, name, sizes, places="", values=None, text="", tex="", of=None):
        known = {} if values is None else {"integer": True, "positive": True}
        self = super().__new__(cls, name, shape=tuple(sizes), **known)
        self.sizes, self.values, self.of = tuple(sizes), values, of
        self.places = places or "_" * len(self.sizes)
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
                    f"but it runs up to {top(index)}: check the order of the indices"
                )
        return super().__getitem__(indices if len(indices) > 1 else indices[0])


class relu(Function):
    """max(0, x), whose derivative is `step`. (SymPy's Max has Heaviside, which is 1/2 at 0.)"""

    nargs = 1

    def fdiff(self, argindex=1):
        return step(self.args[0])


class step(Function):
    """1 where x > 0, otherwise 0, at 0 as well; its derivative is taken to be 0."""

    nargs = 1

    def fdiff(self, argindex=1):
        return S.Zero


def top(index) -> Expr:
    """The largest value that an index, a number, index + number or an entry of a table of indices can take."""
    index = S(index)
    if isinstance(index, Indexed):
        if index.base.values is None:
            raise TypeError(f"{index} is not an index: its values have no range")
        return index.base.values
    return index.xreplace({i: i.size for i in index.atoms(Index)})


def fits(index, size) -> bool | None:
    """Whether 1 <= index <= size always; None if the two ranges cannot be compared."""
    if isinstance(index, Index) and index.size == size:
        return True
    return (S(index) - 1).is_nonnegative and (size - top(index)).is_nonnegative


def delta(i, j) -> Expr:
    """1 where i = j, otherwise 0, for indices of which one runs within the range of the other."""
    if fits(i, top(j)) is None:
        raise TypeError(f"delta: {i} and {j} run over different ranges")
    return KroneckerDelta(i, j)


def total(expr, *indices: Index) -> Expr:
    """The sum of expr over indices; each is bound under a new name, so `expr` may be used again."""
    new = {i: i.fresh() for i in indices}
    expr = S(expr).xreplace(new)
    return Sum(expr, *[(i, 1, i.size) for i in new.values()]) if new else expr


def fresh(expr: Expr) -> Expr:
    """The same expression, each sum with a new bound index: nothing that is put in or differentiated can be caught."""
    if not expr.has(Sum):
        return expr
    if isinstance(expr, Sum):
        return total(fresh(expr.function), *[limit[0] for limit in expr.limits])
    return expr.func(*[fresh(a) for a in expr.args])


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
    """The normal form: equal polynomials in entries, deltas and functions of such have the same one.

    A difference whose normal form is 0 is 0, for all sizes and values. The converse is not promised: the functions in
    it (exp, a power that is no positive whole number) are looked into, but their laws are not used.
    """
    expr = S(expr)
    if loose := [i for i in free(expr) if isinstance(i, _Numbered)]:
        raise TypeError(f"normal: {loose[0]} belongs to a sum of a normal form; put a fresh index in its place")
    form = Add(*[close(*contract(product, bound)) for product, bound in spread(expr)])
    inside = any(p.has(Sum) for p in form.atoms(Function, Pow) if not isinstance(p, Sum | KroneckerDelta))
    return normal(form) if inside and form != expr else form  # a contraction may have changed what is inside


def spread(expr: Expr) -> list[tuple[Expr, list[Index]]]:
    """expr as a sum of products, each with its bound indices, which are new."""
    if isinstance(expr, Add):
        return [term for a in expr.args for term in spread(a)]
    if isinstance(expr, Sum):
        expr = total(expr.function, *[limit[0] for limit in expr.limits])
        indices = [limit[0] for limit in expr.limits]
        return [(product, bound + indices) for product, bound in spread(expr.function)]
    if isinstance(expr, Mul):
        return _multiplied(expr.args)
    if isinstance(expr, Pow) and expr.exp.is_Integer and expr.exp > 0 and (expr.base.is_Add or expr.base.has(Sum)):
        return _multiplied([expr.base] * int(expr.exp))
    if isinstance(expr, Pow) and (expr.base.is_Add or expr.base.is_Mul or expr.base.has(Sum)):
        power = normal(expr.base) ** expr.exp
        return _multiplied(power.args) if power.is_Mul and power != expr else [(power, [])]
    if isinstance(expr, Function) and not isinstance(expr, KroneckerDelta):
        return [(expr.func(*[normal(a) for a in expr.args]), [])]
    return [(expr, [])]


def _multiplied(factors) -> list[tuple[Expr, list[Index]]]:
    terms = [(S.One, [])]
    for factor in factors:
        terms = [(p * q, a + b) for p, a in terms for q, b in spread(factor)]
    return terms


def contract(product: Expr, bound: list[Index]) -> tuple[Expr, list[Index]]:
    """Use every delta of a product, and count the sums over nothing."""
    bound = list(bound)
    while (used := _one_delta(product, bound)) is not None:
        product, bound = used
    for i in [i for i in bound if not product.has(i)]:
        product, bound = product * i.size, [j for j in bound if j is not i]
    return product, bound


def _one_delta(product: Expr, bound: list[Index]) -> tuple[Expr, list[Index]] | None:
    """The product after one use of one delta, or None if there is nothing left to do."""
    factors = Mul.make_args(product)
    for at, factor in enumerate(factors):
        if not isinstance(factor, KroneckerDelta):
            continue
        rest = Mul(*factors[:at], *factors[at + 1 :])
        for x, y in (factor.args, factor.args[::-1]):
            if not isinstance(x, Index) or y.has(x):
                continue
            if not free(y) and (y - x.size).is_positive:
                return S.Zero, []  # x never gets as far as y
            within = fits(y, x.size)
            if within is None:
                raise TypeError(f"contract: {x} and {y} run over different ranges")
            if within and x in bound:
                return rest.xreplace({x: y}), [i for i in bound if i is not x]
            # both stay: whichever comes first in a fixed order stands for both
            if within and rest.has(x) and y not in bound and (not isinstance(y, Index) or _order(y) < _order(x)):
                return factor * rest.xreplace({x: y}), bound
    return None


def _order(i: Index):
    return i.name, i.dummy_index


def close(product: Expr, bound: list[Index]) -> Expr:
    """The product under its sums, as a product of independent sums with numbered indices."""
    groups = []  # (indices, factors) of sums that have an index in common
    for factor in Mul.make_args(product):
        indices, factors = {i for i in bound if factor.has(i)}, [factor]
        for group in [g for g in groups if g[0] & indices]:
            groups.remove(group)
            indices, factors = indices | group[0], factors + group[1]
        groups.append((indices, factors))
    return Mul(*[_numbered(Mul(*factors), indices) for indices, factors in groups])


def _numbered(product: Expr, bound: set[Index]) -> Expr:
    """The sum of a product, with bound indices numbered so that the result does not depend on their names.

    Of all ways to number the indices of each range that one is taken whose formula comes first in the alphabet.
    """
    if not bound:
        return product
    taken = product.atoms(Index)  # among them the numbers of sums in functions
    ranges = {}
    for i in sorted(bound, key=_order):
        ranges.setdefault(i.size, []).append(i)
    choices = []
    for size, indices in sorted(ranges.items(), key=str):
        numbers = [b for n in range(len(indices) + len(taken)) if (b := _bound(size, n)) not in taken]
        choices.append([dict(zip(order, numbers)) for order in itertools.permutations(indices)])
    forms = []
    for choice in itertools.product(*choices):
        names = {i: b for part in choice for i, b in part.items()}
        forms.append((product.xreplace(names), sorted(names.values(), key=str)))
    form, indices = min(forms, key=lambda form: str(form[0])) if len(forms) > 1 else forms[0]
    return Sum(form, *[(i, 1, i.size) for i in indices])


class _Numbered(Index):
    """A bound index of a normal form."""


@cache
def _bound(size: Expr, number: int) -> _Numbered:
    """The index of this range that carries this number in normal forms, and stands nowhere else."""
    return _Numbered(str(number), size)


# ---- programs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Definition:
    """left := right, where `left` is an entry (or a symbol) and its indices are the only free ones on the right.

    source: which equation of the source this is; erratum: "place: what is wrong there", where it is put right here.
    """

    left: Expr
    right: Expr
    source: str = ""
    erratum: str = ""

    @property
    def name(self) -> Array | Symbol:
        return name(self.left)

    def at(self, left: Expr) -> Expr:
        """The right-hand side for other indices."""
        if isinstance(self.left, Symbol):
            return fresh(self.right)
        return fresh(self.right).xreplace(dict(zip(self.left.indices, left.indices, strict=True)))


def name(entry: Expr) -> Array | Symbol:
    """The array of an entry; a symbol is its own name."""
    return entry.base if isinstance(entry, Indexed) else entry


def names(expr: Expr) -> set[Array | Symbol]:
    """The arrays and symbols (other than sizes and indices) that an expression is made of."""
    arrays = expr.atoms(Array)
    return arrays | {s for s in expr.atoms(Symbol) if not isinstance(s, Size | Index)} - {a.label for a in arrays}


def d(x):
    """The adjoint of an array, an entry or a symbol: how the last number of a program changes with it."""
    if isinstance(x, Indexed):
        return d(x.base)[x.indices]
    if isinstance(x, Array):
        return Array(f"d{x.label}", x.sizes, x.places, of=x)
    return Symbol(f"d{x.name}", real=True)


class Program:
    """Definitions in order, each in terms of parameters, constants and names before it.

    parameters: entries such as E[k, j], whose letters are used when they are printed; adjoints are derived for them.
    constants: arrays and symbols for which none are.
    """

    def __init__(self, parameters=(), constants=()):
        self.parameters = {name(entry): entry for entry in parameters}
        self.constants = tuple(constants)
        self.definitions: dict[Array | Symbol, Definition] = {}

    def let(self, left: Expr, right, source: str = "", erratum: str = "") -> None:
        """Append left := right; raises TypeError where a name is taken or unknown, or an index is not on the left."""
        right, new = S(right), name(left)
        known = {*self.parameters, *self.constants, *self.definitions}
        if new in known:
            raise TypeError(f"{new} is defined already: a name keeps its meaning")
        if unknown := names(right) - known:
            raise TypeError(f"{left}: {unknown.pop()} is not defined before it is used")
        if loose := free(right) - free(left):
            raise TypeError(f"{left}: index {loose.pop()} stands on the right only: sum over it, or put it on the left")
        self.definitions[new] = Definition(left, right, source, erratum)

    def __getitem__(self, name: Array | Symbol) -> Definition:
        return self.definitions[name]

    def replaced(self, name: Array | Symbol, change) -> "Program":
        """The same program with `change(right)` for the right-hand side of one name: for planting mistakes."""
        other = Program(self.parameters.values(), self.constants)
        for definition in self.definitions.values():
            right = change(definition.right) if definition.name == name else definition.right
            other.let(definition.left, right, definition.source, definition.erratum)
        return other

    def expand(self, expr: Expr, through) -> Expr:
        """expr with the definitions of the names `through` put in for them, the last one first."""
        for definition in reversed(self.definitions.values()):
            if definition.name in through:
                expr = fresh(expr)
                entries = {e for e in expr.atoms(Indexed, Symbol) if name(e) == definition.name}
                expr = expr.xreplace({e: definition.at(e) for e in entries})
        return expr

    def run(self, at: dict) -> dict:
        """All names as arrays, by plain loops, from `at`: sizes, parameters and constants with their values."""
        at = dict(at)
        for definition in self.definitions.values():
            if isinstance(definition.left, Symbol):
                at[definition.left] = value(definition.right, at)
                continue
            result = np.empty([value(size, at) for size in definition.name.sizes], dtype=object)
            for where in np.ndindex(result.shape):
                numbers = dict(zip(definition.left.indices, (n + 1 for n in where)))
                result[where] = value(definition.right, at | numbers)
            at[definition.name] = result
        return at

    def point(self, seed: int = 0) -> dict:
        """Sizes 2 and 3, and random parameters and constants: symbols above 0, entries of both signs."""
        rng = random.Random(seed)
        given = [*self.parameters, *self.constants]
        sizes = {s for x in [*given, *self.definitions] if isinstance(x, Array) for s in _sizes(x)}
        at = {size: 2 + (n + seed) % 2 for n, size in enumerate(sorted(sizes, key=str))}
        for x in given:
            above = rng.uniform(0.5, 1.5)
            at[x] = _random(x, at, rng, _either_sign) if isinstance(x, Array) else above
        return at


def _either_sign(rng: random.Random) -> float:
    return rng.choice((-1, 1)) * rng.uniform(0.5, 1.5)


def _sizes(array: Array) -> set[Size]:
    """The symbols of an array's sizes, and of how far its values go."""
    return {symbol for size in (*array.sizes, S(array.values or 0)) for symbol in size.atoms(Size)}


def _random(array: Array, at: dict, rng: random.Random, number) -> np.ndarray:
    """Random entries: numbers, or indices where the array is a table of them."""
    entries = np.empty([value(size, at) for size in array.sizes], dtype=object)
    for where in np.ndindex(entries.shape):
        entries[where] = number(rng) if array.values is None else rng.randint(1, value(array.values, at))
    return entries


def uses(definitions, entry: Expr) -> Expr:
    """The adjoint of an entry: the sum, over all definitions that use it, of their adjoint times their derivative.

    Where the derivative contains what the definition has computed already, the name stands for it: exp(S) becomes e,
    (s + eps)^(-3/2) becomes r^3. These are the cached interim results. SymPy's `subs` only proposes this: putting the
    right-hand side back has to give the same normal form.
    """
    adjoint = S.Zero
    for definition in definitions:
        if name(entry) not in names(definition.right):
            continue
        partial = derivative(definition.right, entry)
        kept = partial.subs(definition.right, definition.left)
        if kept != partial:
            back = kept.xreplace({definition.left: definition.right})
            if normal(back - partial) != 0:
                raise AssertionError(f"{definition.left} does not stand for {definition.right} in {partial}")
        adjoint += total(d(definition.left) * kept, *sorted(free(definition.left), key=_order))
    return normal(adjoint)


def adjoint(program: Program, output: Array | Symbol) -> Program:
    """The program followed by the adjoints of its names, from the last to the first: reverse mode in symbols.

    output: a symbol (the loss, whose adjoint is 1), or an array; its adjoint is then a constant of the new program,
    to be had from whatever the output is used for.
    """
    seed = [d(output)] if isinstance(output, Array) else []
    result = Program(program.parameters.values(), [*program.constants, *seed])
    for definition in program.definitions.values():
        result.let(definition.left, definition.right, definition.source, definition.erratum)
    entries = [*program.parameters.values(), *(definition.left for definition in program.definitions.values())]
    for entry in reversed(entries):
        if name(entry) == output:
            continue
        new = {i: i.fresh() for i in free(entry)}
        derived = uses(program.definitions.values(), entry.xreplace(new))
        if not seed:
            derived = derived.xreplace({d(output): S.One})
        result.let(d(entry), derived.xreplace({v: k for k, v in new.items()}))
    return result


def equal(program: Program, left: Expr, closed, through=()) -> None:
    """Prove that `left`, as the program defines it, is `closed`, for all sizes and values; or raise Refuted.

    through: the names that have their definitions put in for them, on both sides. If the normal forms then differ, the
    two are evaluated at small sizes: Refuted names an entry where they differ, or says that no proof was found.
    """
    closed = S(closed)
    if loose := free(closed) - free(left):
        raise Refuted(f"{text(left)}: index {loose.pop().name} of the closed form {text(closed)} is not on the left")
    derived = program[name(left)].at(left)
    rest = normal(program.expand(derived - closed, set(through)))
    if rest == 0:
        return
    for seed in range(3):
        at = program.run(program.point(seed))
        indices = sorted(free(left), key=_order)
        for numbers in itertools.product(*[range(1, value(i.size, at) + 1) for i in indices]):
            where = at | dict(zip(indices, numbers))
            one, other = float(value(derived, where)), float(value(closed, where))
            if abs(one - other) > 1e-6 * (abs(one) + abs(other)):
                sizes = ", ".join(f"{s} = {n}" for s, n in at.items() if isinstance(s, Size))
                entry = ", ".join(f"{i.name} = {n}" for i, n in zip(indices, numbers))
                raise Refuted(
                    f"{text(left)}: derived {text(derived)}, closed form {text(closed)}; with {sizes}, "
                    f"at {entry or 'the only entry'}: {one:.6g} against {other:.6g}"
                )
    raise Refuted(f"{text(left)}: no proof: what is left of the difference is {text(rest)}")


def value(expr: Expr, at: dict):
    """The value of an expression by plain loops: the meaning that every rule above has to preserve.

    at: numbers for indices, sizes and symbols, and NumPy arrays (entry 1 comes first) for Arrays. Exact for Fractions
    as long as no function or root occurs.
    """
    if expr in at:
        return at[expr]
    if expr.is_Rational:
        return int(expr) if expr.is_Integer else Fraction(int(expr.p), int(expr.q))
    if isinstance(expr, Sum):
        indices = [limit[0] for limit in expr.limits]
        ranges = [range(1, value(limit[2], at) + 1) for limit in expr.limits]
        return sum(value(expr.function, at | dict(zip(indices, ns))) for ns in itertools.product(*ranges))
    if isinstance(expr, Indexed):
        return at[expr.base][tuple(value(i, at) - 1 for i in expr.indices)]
    arguments = [value(a, at) for a in expr.args]
    if isinstance(expr, KroneckerDelta):
        return int(arguments[0] == arguments[1])
    return _MEANING[expr.func](*arguments)


_MEANING = {
    Add: lambda *terms: sum(terms),
    Mul: lambda *factors: math.prod(factors),
    Pow: lambda base, exponent: Fraction(base) ** exponent if isinstance(base, int) else base**exponent,
    exp: math.exp,
    log: math.log,
    relu: lambda x: max(x, 0),
    step: lambda x: int(x > 0),
}


# ---- printing -------------------------------------------------------------------------------------------------------


_SYMBOLS = {  # as text and as LaTeX
    "epsilon": ("ε", r"\epsilon"),
    "loss": ("𝓛", r"\mathcal{L}"),
}


class _Letters:
    """What both printers share: a letter for each bound index that no other index in sight has."""

    def __init__(self):
        super().__init__()
        self.letters = {}

    def doprint(self, expr):
        self.letters = {i: i.name for i in free(expr)}
        return super().doprint(expr)

    def _print_Sum(self, expr):
        outside = dict(self.letters)
        for index, *_ in expr.limits:
            self.letters[index] = next(one for one in index.letters if one not in self.letters.values())
        result = self._sum("".join(self.letters[limit[0]] for limit in expr.limits), expr.function)
        self.letters = outside
        return result

    def _print_Index(self, expr):
        return self.letters.get(expr, expr.name)

    def _places(self, expr):
        """The indices of an entry: above on the left, below, above."""
        of = expr.base
        parts = {"<": "", "_": "", "^": ""}
        for place, index in zip(of.places, expr.indices, strict=True):
            printed = self._print(index)
            parts[place] += printed if isinstance(index, Index) or place == "<" else self._index(printed)
        return parts.values()

    def _print_Mul(self, expr):
        """A fraction of what is multiplied and divided, after it the adjoints, and last the sums."""
        number, rest = expr.as_coeff_Mul()
        if number < 0:
            return f"-{self._print(-expr)}"
        above, below, adjoints, sums = [], [], [], []
        for factor in Mul.make_args(rest):
            if isinstance(factor, Sum):
                sums.append(factor)
            elif factor.is_Pow and factor.exp.is_number and factor.exp.is_negative:
                below.append(1 / factor)
            elif any(a.of for a in factor.atoms(Array)):
                adjoints.append(factor)
            elif factor != 1:
                above.append(factor)
        above = [str(number.p)] * (number.p != 1) + [self._factor(f) for f in above]
        below = [str(number.q)] * (number.q != 1) + [self._factor(f) for f in below]
        fraction = [self._fraction(" ".join(above) or "1", below)] if below else above
        last = [*adjoints, *sums][-1:]
        return " ".join([*fraction, *map(self._factor, [*adjoints, *sums][:-1]), *map(self._last, last)])

    def _factor(self, expr):
        return self._bracket(self._print(expr)) if expr.is_Add or isinstance(expr, Sum) else self._print(expr)

    def _last(self, expr):
        return self._print(expr) if isinstance(expr, Sum) else self._factor(expr)


class _Text(_Letters, StrPrinter):
    printmethod = None  # print all by the methods below, none as the expression itself would

    def _print_Symbol(self, expr):
        return _SYMBOLS.get(expr.name, (expr.name, expr.name))[0]

    def _bracket(self, printed):
        return f"({printed})"

    _index = _bracket  # what stands for an index: a token, λ + 1

    def _sum(self, indices, inside):
        return f"Σ_{indices} {self._factor(inside)}"

    def _print_Indexed(self, expr):
        left, below, above = self._places(expr)
        of = expr.base
        left = left.replace("h", "ʰ") if left in ("", "h") else f"^({left})"
        shown = f"{left}{(of.of or of).text}" + (f"_{below}" if below else "") + (f"^{above}" if above else "")
        return f"∂𝓛/∂{shown}" if of.of else shown

    def _fraction(self, above, below):
        return f"{above}/{below[0] if len(below) == 1 else '(' + ' '.join(below) + ')'}"

    def _print_Pow(self, expr, rational=False):
        base = self._factor(expr.base)
        if expr.exp == S.Half:
            return f"√{base}"
        if expr.exp.is_number and expr.exp.is_negative:
            return f"1/{self._factor(1 / expr)}"
        base = f"({base})" if "^" in base and not base.startswith("(") else base
        return base + str(expr.exp).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))

    def _print_KroneckerDelta(self, expr):
        return f"δ({self._print(expr.args[0])}, {self._print(expr.args[1])})"

    def _print_relu(self, expr):
        return f"max(0, {self._print(expr.args[0])})"

    def _print_step(self, expr):
        return f"θ({self._print(expr.args[0])})"


class _TeX(_Letters, LatexPrinter):
    def _bracket(self, printed):
        return rf"\left({printed}\right)"

    def _index(self, printed):
        return printed

    def _sum(self, indices, inside):
        return rf"\sum_{{{indices}}} {self._factor(inside)}"

    def _print_exp(self, expr, exp=None):
        return rf"\exp\left({self._print(expr.args[0])}\right)"

    def _print_Indexed(self, expr):
        left, below, above = self._places(expr)
        of = expr.base
        shown = f"{{}}^{{{left}}}" if left else ""
        shown += (of.of or of).tex + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")
        return rf"\frac{{\partial\mathcal{{L}}}}{{\partial {shown}}}" if of.of else shown

    def _fraction(self, above, below):
        return rf"\frac{{{above}}}{{{' '.join(below)}}}"

    def _print_Symbol(self, expr, style="plain"):
        return _SYMBOLS.get(expr.name, (expr.name, expr.name))[1]

    def _print_Pow(self, expr):
        if isinstance(expr.base, Indexed) and "^" in expr.base.base.places and expr.exp.is_positive:
            return rf"\left({self._print(expr.base)}\right)^{{{self._print(expr.exp)}}}"
        return super()._print_Pow(expr)

    def _print_KroneckerDelta(self, expr):
        return rf"\delta_{{{self._print(expr.args[0])}\,{self._print(expr.args[1])}}}"

    def _print_relu(self, expr, exp=None):
        return rf"\max\left(0, {self._print(expr.args[0])}\right)"

    def _print_step(self, expr, exp=None):
        return rf"\theta\left({self._print(expr.args[0])}\right)"


def text(expr: Expr) -> str:
    """An expression in index notation, as text."""
    return _Text().doprint(expr)


def tex(expr: Expr) -> str:
    """An expression in index notation, as LaTeX."""
    return _TeX().doprint(expr)


# ---- what is claimed: the rules, against plain loops ----------------------------------------------------------------


def rules():
    """(rule, an expression, what it becomes), for each rule of this file."""
    n, m = Size("n", "i j"), Size("m", "k l")
    i, j, p, k = Index("i", n), Index("j", n), Index("p", n), Index("k", m)
    a, b, X, Y = Array("a", (n,)), Array("b", (n,)), Array("X", (n, m)), Array("Y", (n + 1, m))
    t = Array("t", (n,), values=m)  # a table of indices, such as tokens
    yield "a delta takes its sum away", total(delta(i, j) * a[i] * b[i], i), a[j] * b[j]
    yield "a delta with a table of indices takes its sum away", total(delta(k, t[i]) * X[i, k], k), X[i, t[i]]
    yield "two deltas take two sums away", total(delta(i, p) * delta(j, p) * a[i] * b[j], i, j), a[p] * b[p]
    yield "of two deltas that share a sum one stays", total(delta(i, j) * delta(i, p) * a[i], i), delta(j, p) * a[j]
    yield "a delta is its own square", total(delta(i, j) ** 2 * a[i], i), a[j]
    yield "a delta that stays fixes an index", delta(i, j) * a[i] * b[j], delta(i, j) * a[j] * b[i]
    yield "a delta that stays fixes an index to a table", delta(k, t[i]) * X[i, k], delta(k, t[i]) * X[i, t[i]]
    yield "a trace counts", total(delta(i, j), i, j), n
    yield "a sum over nothing counts", total(a[j], i, k), n * m * a[j]
    yield "a delta beyond the range is 0", KroneckerDelta(i, n + 1) * a[i], S.Zero
    yield "a delta within a larger range", total(delta(i, j) * Y[i + 1, k], i), Y[j + 1, k]
    yield "products of sums are multiplied out", total(a[i], i) * total(b[i], i), total(a[i] * b[j], i, j)
    yield "a square of a sum is two sums", total(a[i] * X[i, k], i) ** 2, total(a[i] * a[j] * X[i, k] * X[j, k], i, j)
    yield "sums in sums become one", total(a[i] * total(X[i, k], k), i), total(a[i] * X[i, k], k, i)
    yield "independent sums part", total(a[i] * b[j] * X[i, k], i, j, k), total(b[i], i) * total(a[i] * X[i, k], i, k)
    yield "a bound index may have any name", total(a[i] * b[j] * a[p], i, p), total(a[p] * b[j] * a[i], p, i)
    yield "inside a function too", step(total(a[i] - b[i], i)) * a[j], step(total(a[p], p) - total(b[i], i)) * a[j]
    yield "a power of a sum is one quantity", total(a[j] / total(a[i], i), j), total(a[i], i) * total(a[p], p) ** -1


def same(one: Expr, other: Expr, seed: int = 0, largest: int = 3) -> None:
    """Compare two expressions by plain loops, in exact fractions: all sizes up to `largest`, all values of indices."""
    rng = random.Random(seed)
    arrays = sorted(one.atoms(Array) | other.atoms(Array), key=str)
    indices = sorted(free(one) | free(other), key=_order)
    sizes = {s for e in (one, other, *[i.size for i in indices]) for s in e.atoms(Size)}
    sizes = sorted(sizes.union(*[_sizes(a) for a in arrays]), key=str)
    for numbers in itertools.product(range(1, largest + 1), repeat=len(sizes)):
        at = dict(zip(sizes, numbers))
        for array in arrays:
            at[array] = _random(array, at, rng, lambda rng: Fraction(rng.randint(1, 9), rng.randint(1, 5)))
        for where in itertools.product(*[range(1, value(i.size, at) + 1) for i in indices]):
            here = at | dict(zip(indices, where))
            if (left := value(one, here)) != (right := value(other, here)):
                raise Refuted(f"{text(one)} is {left}, but {text(other)} is {right}, with {dict(zip(sizes, numbers))}")


def random_expression(rng: random.Random, indices: list[Index], depth: int = 3) -> Expr:
    """Some sum, product, square or sum over an index of entries and deltas in these indices, of two ranges."""
    kinds = {size: [i for i in indices if i.size == size] for size in _RANGES}
    if depth == 0 or rng.random() < 0.15:
        i, j = (rng.choice(kinds[_RANGES[0]]) for _ in range(2))
        k = rng.choice(kinds[_RANGES[1]])
        return rng.choice([_a[i], _X[i, k], _X[j, _t[i]], delta(i, j), delta(k, _t[i]), S(rng.randint(-3, 3))])
    kind = rng.choice(["+", "*", "*", "square", "sum", "sum"])
    if kind == "sum":
        bound = Index("b", rng.choice(_RANGES))
        return total(random_expression(rng, [*indices, bound], depth - 1), bound)
    one, other = (random_expression(rng, indices, depth - 1) for _ in range(2))
    return one + other if kind == "+" else one * other if kind == "*" else one**2


_RANGES = (Size("n", "i j"), Size("m", "k l"))
_a, _X = Array("a", _RANGES[:1]), Array("X", _RANGES)
_t = Array("t", _RANGES[:1], values=_RANGES[1])
FREE = [Index("i", _RANGES[0]), Index("j", _RANGES[0]), Index("k", _RANGES[1])]


@claim(
    "index",
    "each rewriting rule keeps the value, and the normal form knows it",
    kind="check",
    size="all sizes 1 to 3, all values of indices, in exact fractions",
    trusted=("the plain loops of `value`",),
)
def each_rule():
    for rule, one, other in rules():
        try:
            same(one, other)
        except Refuted as error:
            raise Refuted(f"{rule}: {error}") from None
        if normal(one - other) != 0:
            raise Refuted(f"{rule}: the normal form does not know it: {text(normal(one - other))} is left")
    return Evidence(text="\n".join(f"{text(one)} = {text(other)}   ({rule})" for rule, one, other in rules()))


@claim(
    "index",
    "the normal form keeps the value, and is its own normal form",
    kind="check",
    size="200 random expressions at all sizes 1 and 2, in exact fractions",
    trusted=("the plain loops of `value`",),
)
def normal_form():
    rng = random.Random(0)
    for seed in range(200):
        expr = random_expression(rng, FREE)
        form = normal(expr)
        same(expr, form, seed, largest=2)
        if normal(form) != form or normal(fresh(expr)) != form:
            raise Refuted(f"{text(expr)}: the normal form {text(form)} depends on the names of its bound indices")

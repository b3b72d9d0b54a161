"""Formulas in index notation as NumPy code that people read: each definition is one line.

A formula becomes a Piece: the text, the indices of its axes, and how tightly its outermost operator binds. Pieces meet
by broadcasting: the axes that one lacks are put in, X - m[:, None]. A sum is `.sum(-1)`, `@` or, where these do not say
it, an einsum. Indices count from 1 in formulas and from 0 in code.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sympy import Add, E, Expr, Indexed, KroneckerDelta, Mul, Pow, S, Sum, Symbol, exp, log, pi

from tinytensor.symbolic.index_calculus.adjoints import Name
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, fits, free
from tinytensor.symbolic.index_calculus.functions import HEADS, POLYGAMMA, TABLE, Indicator, detach, floored, upto
from tinytensor.symbolic.index_calculus.order import decimal, factors_of, fraction, is_negative, signed, terms_of
from tinytensor.symbolic.index_calculus.signs import of_numbers

SUM, PRODUCT, POWER, ATOM = 1, 2, 3, 4  # how tightly an operator binds

HELPERS = {row.name: row.helper for row in TABLE.values() if row.helper} | {  # functions that NumPy lacks
    "polygamma": POLYGAMMA,
    "softmax": '''def softmax(x, axis=-1):
    """exp(x) / Σ exp(x) along an axis, without overflow."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)''',
    "logsumexp": '''def logsumexp(x, axis=-1):
    """log Σ exp(x) along an axis, without overflow."""
    m = x.max(axis, keepdims=True)
    return np.log(np.exp(x - m).sum(axis)) + m.squeeze(axis)''',
    "largest_shared": '''def largest_shared(x, axis):
    """1 at the largest entry along an axis, shared among equal ones, 0 elsewhere."""
    chosen = 1.0 * (x == x.max(axis, keepdims=True))
    return chosen / chosen.sum(axis, keepdims=True)''',
    "largest_first": '''def largest_first(x, axis):
    """1 at the first of the largest entries along an axis, 0 elsewhere."""
    axis = tuple(np.atleast_1d(axis))
    last = np.moveaxis(x, axis, range(-len(axis), 0))
    rows = last.reshape(-1, np.prod(last.shape[-len(axis) :], dtype=int))
    chosen = np.eye(rows.shape[1])[rows.argmax(-1)].reshape(last.shape)
    return np.moveaxis(chosen, range(-len(axis), 0), axis)''',
}


@dataclass(frozen=True)
class Piece:
    """Code for an array: its text, the index of each axis, and how tightly its outermost operator binds."""

    text: str
    axes: tuple[Index, ...] = ()
    level: int = ATOM

    def at(self, level: int) -> str:
        """The text, in brackets if it binds less tightly than this."""
        return self.text if self.level >= level else f"({self.text})"


def wrap_terms(code: str, width: int) -> list[str]:
    """A line `name = a + b - c` as one line, or as one for each term if it is longer than width."""
    name, _, right = code.partition(" = ")
    terms, depth, start = [], 0, 0
    for n, letter in enumerate(right):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and right[n : n + 3] in (" + ", " - "):
            terms.append(right[start:n])
            start = n + 1
    terms.append(right[start:])
    if len(code) <= width or len(terms) == 1:
        return [code]
    return [f"{name} = (", *(f"    {term}" for term in terms), ")"]


def label(name: Name) -> str:
    """The name of an array or a symbol in code."""
    return str(name.label if isinstance(name, Array) else name)


def helpers(code: str) -> list[str]:
    """The definitions of the functions that a text uses and that NumPy lacks."""
    used: list[str] = []
    for name in reversed(HELPERS):
        if f"{name}(" in code or any(f" {name}(" in HELPERS[caller] for caller in used):
            used.insert(0, name)
    return [HELPERS[name] for name in used]


class _FromZero(Array):
    """A table of indices as its array in code, which counts from 0."""


def _from_zero(term: Expr) -> Expr:
    """A term with an entry of a table of indices, which counts from 1 in formulas and from 0 in its array."""
    number, entry = term.as_coeff_Mul()
    if not isinstance(entry, Indexed) or entry.base.values is None:
        return term
    return number * (_FromZero(entry.base.label, entry.base.sizes)[entry.indices] + 1)


class NumPyPrinter:
    """Writes formulas as code.

    name: the name of an array or a symbol in code. size: that of a size. order: names in the order in which a product
    shows them.
    """

    def __init__(
        self,
        name: Callable[[Name], str] = label,
        size: Callable[[Size], str] = "size.{0.name}".format,
        order: Sequence[Name] = (),
    ):
        self.name, self.size, self.order = name, size, tuple(order)

    def whole(self, expr: Expr, axes: Sequence[Index] = ()) -> str:
        """The code of an array with just these axes."""
        piece = self.piece(expr, tuple(axes))
        if set(axes) - set(piece.axes):  # constant along an axis, which the array must have
            shape = ", ".join(self.piece(a.size).text for a in axes)
            inside = self.align(piece, axes).text
            inside += ".0" * inside.removeprefix("-").isdigit()  # an array of floats
            return f"np.full(({shape}{',' * (len(axes) == 1)}), {inside})"
        return self.align(piece, axes).text

    # ------------------------------------------------------------------------------------------------ expressions

    def piece(self, expr: Expr, axes: tuple[Index, ...] = ()) -> Piece:
        """The code of an expression; its axes are in the order of `axes` where the code allows."""
        if isinstance(expr, Index):
            return Piece(f"np.arange(1, {self.piece(expr.size + 1).text})", (expr,))
        if isinstance(expr, Symbol):
            return Piece(self.size(expr) if isinstance(expr, Size) else self.name(expr))
        if expr.is_number and expr.is_Atom:
            return self.atom(expr)
        if isinstance(expr, KroneckerDelta | upto):
            return (self.delta if isinstance(expr, KroneckerDelta) else self.upto)(*expr.args)
        if isinstance(expr, Indexed) and expr.base.values is None:
            return self.entry(expr, axes)
        rules = ((Add | Indexed, self.add), (Mul, self.multiply), (Pow, self.power), (Sum, self.sum))
        return next((rule for cls, rule in rules if isinstance(expr, cls)), self.function)(expr, axes)

    def atom(self, expr: Expr) -> Piece:
        """A number."""
        if expr in (pi, E):
            return Piece("np.pi" if expr is pi else "np.e")
        if expr.is_Integer:
            return Piece(str(expr), (), ATOM if expr >= 0 else SUM)
        short = decimal(expr)
        if expr.is_Rational and not short and expr.q <= 1000:
            return Piece(f"{expr.p} / {expr.q}", (), PRODUCT)
        return Piece((short or repr(float(expr))).replace("inf", "np.inf"), (), ATOM if expr.is_positive else SUM)

    def add(self, expr: Expr, axes: tuple[Index, ...]) -> Piece:
        expr = Add(*[_from_zero(term) for term in Add.make_args(expr)])
        if not isinstance(expr, Add):
            return self.piece(expr, axes)
        terms = terms_of(expr, self.order)
        moved = [t for t in terms if isinstance(t, Index)]
        if len(moved) == 1 and (expr - moved[0]).is_integer and not free(expr - moved[0]):
            first = expr - moved[0] + 1
            stop = self.piece(moved[0].size + first).text
            start = "" if first == 0 else f"{self.piece(first).text}, "
            return Piece(f"np.arange({start}{stop})", (moved[0],))
        parts = [(negative, self.piece(term, axes)) for negative, term in signed(terms)]
        union = self.union_axes([p for _, p in parts], axes)
        body = ""
        for negative, piece in parts:
            body += (" - " if negative else " + ") if body else "-" * negative
            body += self.align(piece, union).at(PRODUCT if negative else SUM)
        return Piece(body, union, SUM)

    def multiply(self, expr: Expr, axes: tuple[Index, ...]) -> Piece:
        """Factors, then divisors; a softmax is recognised."""
        return self.softmax(expr, axes) or self.summed(expr, [], axes)

    def product(self, left: list[Piece], right: list[Piece], axes: tuple[Index, ...], sign: str = "") -> Piece:
        whole = self.union_axes([*left, *right], axes)
        if len(left) == 1 and not right and not sign:
            return left[0]
        left = [self.align(p, whole) for p in left] or [Piece("1")]
        body = " * ".join(p.at(PRODUCT if n == 0 else POWER) for n, p in enumerate(left))
        right = [self.align(p, whole) for p in right]
        if len(right) == 1:
            body += f" / {right[0].at(POWER)}"
        elif right:
            body += f" / ({' * '.join(p.at(PRODUCT if n == 0 else POWER) for n, p in enumerate(right))})"
        return Piece(sign + body, whole, SUM if sign else PRODUCT)

    def power(self, expr: Pow, axes: tuple[Index, ...]) -> Piece:
        base, power = expr.args
        if power.is_number and power.is_negative:
            return self.product([], [self.piece(1 / expr, axes)], axes)
        inside = self.piece(base, axes)
        if power == S.Half:
            return Piece(f"np.sqrt({inside.text})", inside.axes)
        above = self.piece(power, axes)
        whole = self.union_axes([inside, above], axes)
        below = self.align(inside, whole).at(ATOM)
        if base.is_Integer and not power.is_number:
            below = f"({float(base)})" if base < 0 else f"{float(base)}"  # NumPy refuses negative powers of ints
        elif inside.axes and base.is_integer and power != 2:  # which may also be too large for them
            below = f"(1.0 * {below})"
        return Piece(f"{below}**{self.align(above, whole).at(ATOM)}", whole, POWER)

    def function(self, expr: Expr, axes: tuple[Index, ...]) -> Piece:
        if isinstance(expr, detach):
            return self.piece(expr.args[0], axes)
        if isinstance(expr, log) and (result := self.logsumexp(expr.args[0], axes)) is not None:
            return result
        row = HEADS.get(expr.func)
        if row is None or not row.numpy:
            raise TypeError(f"numpy_printer: no NumPy code for {expr.func.__name__} in {expr}")
        if row.head is floored and not of_numbers(expr.args[0]):  # (n - 1)/150 is rounded once, n/150 - 1/150 not
            over, under = expr.args[0].as_numer_denom()
            above = self.piece(over, axes)
            return Piece(f"np.floor({above.at(PRODUCT)} / {self.piece(under, axes).at(POWER)})", above.axes)
        inside = [self.piece(a, axes) for a in expr.args]
        whole = self.union_axes(inside, axes)
        return Piece(row.numpy.format(*(self.align(p, whole).text for p in inside)), whole)

    # ------------------------------------------------------------------------------------------------ entries

    def entry(self, expr: Indexed, axes: tuple[Index, ...]) -> Piece:
        """An entry of an array: slices where each index has an axis of its own, otherwise arrays of indices."""
        name = self.name(expr.base)
        pairs = list(zip(expr.indices, expr.base.sizes, strict=True))
        if (cut := self.cut(name, pairs, axes)) is not None:
            return cut
        numbers = [self.from_zero(i, axes) for i, _ in pairs]
        whole = self.union_axes(numbers, axes)
        return Piece(f"{name}[{', '.join(self.align(p, whole).text for p in numbers)}]", whole)

    def cut(self, name: str, pairs: list[tuple[Expr, Expr]], axes: tuple[Index, ...]) -> Piece | None:
        """An entry by slices and at most one array of indices; None if two indices share an axis, or it is no slice."""
        keys = [self.entry(i, axes) if isinstance(i, Indexed) else self.slice(i, n) for i, n in pairs]
        tables = [i for i, _ in pairs if isinstance(i, Indexed)]
        if None in keys or len(tables) > 1 or (tables and any(not free(i) for i, _ in pairs if i not in tables)):
            return None
        kept = [i for key in keys for i in key.axes]
        return None if len(set(kept)) < len(kept) else Piece(name + _key([key.text for key in keys]), tuple(kept))

    def slice(self, index: Expr, size: Expr) -> Piece | None:
        """The part of a dimension through which an index runs, as a slice or a number; None if it is neither."""
        if not free(index):
            behind = index - size - 1  # counted from the end
            return Piece(str(behind)) if behind.is_Integer and not S(size).is_Integer else self.piece(index - 1)
        (i, *more) = free(index)
        offset = index - i
        if more or free(offset):
            return None
        behind = size - offset - i.size
        start = "" if offset == 0 else self.piece(offset).text
        if behind == 0:
            return Piece(f"{start}:", (i,))
        return Piece(
            f"{start}:{-behind if behind.is_Integer and behind > 0 else self.piece(offset + i.size).text}", (i,)
        )

    def from_zero(self, index: Expr, axes: tuple[Index, ...] = ()) -> Piece:
        """An index as code, which counts from 0."""
        return self.entry(index, axes) if isinstance(index, Indexed) else self.piece(S(index) - 1, axes)

    def delta(self, i: Expr, j: Expr) -> Piece:
        """eye where one is an index, and the other one too, an entry of a table or a number; otherwise a comparison."""
        for row, column in ((i, j), (j, i)):
            if not isinstance(column, Index) or column in free(row):
                continue
            eye = f"np.eye({self.piece(column.size).text})"
            if isinstance(row, Index) and row.size == column.size:
                return Piece(eye, (row, column))
            if isinstance(row, Indexed) and row.base.values == column.size:
                rows = self.entry(row, ())
                return Piece(f"{eye}[{rows.text}]", (*rows.axes, column))
            if not free(row) and fits(row, column.size):
                return Piece(f"{eye}[{self.piece(row - 1).text}]", (column,))
        return self.compare(i, "==", j)

    def upto(self, index: Expr, limit: Expr) -> Piece:
        """tri where both are indices of one range; otherwise a comparison."""
        if isinstance(index, Index) and isinstance(limit, Index) and index.size == limit.size:
            return Piece(f"np.tri({self.piece(index.size).text})", (limit, index))
        return self.compare(index, "<=", limit)

    def compare(self, i: Expr, sign: str, j: Expr) -> Piece:
        both = [self.from_zero(i), self.from_zero(j)]
        whole = self.union_axes(both, ())
        left, right = (self.align(p, whole).at(SUM) for p in both)
        return Piece(f"1.0 * ({left} {sign} {right})", whole, PRODUCT)

    # ------------------------------------------------------------------------------------------------ sums

    def sum(self, expr: Sum, axes: tuple[Index, ...]) -> Piece:
        return self.summed(expr.function, [limit[0] for limit in expr.limits], axes)

    def summed(self, inside: Expr, over: list[Index], axes: tuple[Index, ...]) -> Piece:
        """A product, and its sum over indices."""
        sign, rows = "-" if is_negative(inside) else "", (*axes, *over)
        number, above, below = (S.One, [inside], []) if inside.is_Add else factors_of(inside, self.order)
        numbers, divisors = fraction(abs(number))
        numbers += [i.size for i in over if not inside.has(i)]
        over = [i for i in over if inside.has(i)]
        left, right = ([self.piece(f, rows) for f in part] for part in ([*numbers, *above], [*divisors, *below]))
        part = [p for p in left if set(p.axes) & set(over)]
        part += [Piece(f"1 / {p.at(POWER)}", p.axes, PRODUCT) for p in right if set(p.axes) & set(over)]
        left, right = ([p for p in pieces if not set(p.axes) & set(over)] for pieces in (left, right))
        left += [self.contraction(part, over, axes)] if part else []
        return self.product(left, right, axes, sign)

    def contraction(self, operands: list[Piece], over: list[Index], axes: tuple[Index, ...]) -> Piece:
        """The sum over indices of a product of pieces: a sum along axes, a matrix product, or an einsum."""
        if len(operands) == 2 and len(over) == 1 and (result := self.matmul(*operands, over, axes)) is not None:
            return result
        larger = max(operands, key=lambda p: len(p.axes))
        if all(set(p.axes) <= set(larger.axes) for p in operands):
            return self.sum_along(self.product(operands, [], larger.axes), over)
        return self.einsum(operands, over, axes)

    def sum_along(self, piece: Piece, over: Iterable[Index]) -> Piece:
        """piece.sum(axes)"""
        positions, rank = sorted(piece.axes.index(i) for i in over), len(piece.axes)
        if positions == list(range(rank)):
            key = ""
        elif len(positions) == 1:
            key = "-1" if positions[0] == rank - 1 else str(positions[0])
        else:
            key = str(tuple(positions))
        kept = tuple(a for n, a in enumerate(piece.axes) if n not in positions)
        return Piece(f"{piece.at(ATOM)}.sum({key})", kept)

    def matmul(self, a: Piece, b: Piece, over: list[Index], axes: tuple[Index, ...]) -> Piece | None:
        """a @ b, of matrices, vectors or stacks of matrices; None if this is no matrix product."""
        (k,) = over
        batch = tuple(i for i in a.axes if i in b.axes and i is not k)
        n = len(batch)
        rows, columns = ([i for i in p.axes if i is not k and i not in batch] for p in (a, b))
        if batch and [len(rows), len(columns), a.axes[:n], b.axes[:n]] != [1, 1, batch, batch]:
            return None
        if min(len(rows), len(columns)) > 1:
            return None
        if len(rows) <= 1 and (len(columns) > 1 or _stands_before(columns, rows, axes)):
            a, b, rows, columns = b, a, columns, rows
        if a.axes[-1] is not k and len(a.axes) != n + 2:
            return None
        turned = ".mT" if batch else ".T"
        a = a if a.axes[-1] is k else Piece(a.at(ATOM) + turned)
        b = b if b.axes[n] is k or len(b.axes) != n + 2 else Piece(b.at(ATOM) + turned)
        return Piece(f"{a.at(PRODUCT)} @ {b.at(POWER)}", (*batch, *rows, *columns), PRODUCT)

    def einsum(self, operands: list[Piece], over: list[Index], axes: tuple[Index, ...]) -> Piece:
        """einsum("him,hmk->hik", ...), with the letters of the formula where no other index has them."""
        kept = tuple(i for i in self.union_axes(operands, axes) if i not in over)
        letters = _letters([*kept, *itertools.chain(*[p.axes for p in operands])])
        inputs = ",".join("".join(letters[i] for i in p.axes) for p in operands)
        output = "".join(letters[i] for i in kept)
        arguments = ", ".join([p.text for p in operands] + ["optimize=True"] * (len(operands) > 2))
        return Piece(f'np.einsum("{inputs}->{output}", {arguments})', kept)

    # ------------------------------------------------------------------------------------------------ softmax

    def softmax(self, expr: Expr, axes: tuple[Index, ...]) -> Piece | None:
        """softmax(x), for m exp(x) / Σ m exp(x), where m is a mask or absent; None if the product is not this."""
        share = next(shares_of(expr), None)
        return share and self.normalized_exp("softmax", *share, axes)

    def logsumexp(self, expr: Expr, axes: tuple[Index, ...]) -> Piece | None:
        """logsumexp(x), for log Σ exp(x)."""
        if not isinstance(expr, Sum):
            return None
        over = [limit[0] for limit in expr.limits]
        result = self.normalized_exp("logsumexp", expr.function, over, (*axes, *over))
        return result and Piece(result.text, tuple(i for i in result.axes if i not in over))

    def normalized_exp(self, name: str, inside: Expr, over: list[Index], axes: tuple[Index, ...]) -> Piece | None:
        exponents = [f.args[0] for f in Mul.make_args(inside) if isinstance(f, exp)]
        mask = Mul(*[f for f in Mul.make_args(inside) if not isinstance(f, exp)])
        if not exponents or mask.is_negative or not all(map(_is_mask, Mul.make_args(mask))):
            return None
        x = self.piece(Add(*exponents), axes)
        if mask != 1:
            m = self.piece(mask, axes)
            whole = self.union_axes([x, m], axes)
            x = Piece(f"np.where({self.align(m, whole).text}, {self.align(x, whole).text}, -np.inf)", whole)
        if set(over) - set(x.axes):
            return None
        positions = tuple(sorted(x.axes.index(i) - len(x.axes) for i in over))
        axis = "" if positions == (-1,) else f", {positions if len(positions) > 1 else positions[0]}"
        return Piece(f"{name}({x.text}{axis})", x.axes)

    # ------------------------------------------------------------------------------------------------ axes

    def union_axes(self, pieces: Iterable[Piece], axes: Sequence[Index]) -> tuple[Index, ...]:
        """The axes of all pieces: first those in `axes`, in that order, then others as they come."""
        every = list(dict.fromkeys(i for p in pieces for i in p.axes))
        later = [i for i in every if i not in axes]
        return (*[i for i in axes if i in every], *later)

    def align(self, piece: Piece, axes: Sequence[Index]) -> Piece:
        """The piece with its axes in this order, and an axis of length 1 for each that it lacks."""
        kept = [i for i in axes if i in piece.axes]
        body = piece
        if list(piece.axes) != kept:
            order = [piece.axes.index(i) for i in kept]
            move = ".T" if len(order) == 2 else f".transpose({', '.join(map(str, order))})"
            body = Piece(piece.at(ATOM) + move, tuple(kept))
        if kept and kept != list(axes[len(axes) - len(kept) :]):  # NumPy adds missing axes in front by itself
            first = list(axes).index(kept[0])
            key = ", ".join(":" if i in kept else "None" for i in axes[first:])
            body = Piece(f"{body.at(ATOM)}[{key}]", tuple(axes[first:]))
        return body


def shares_of(expr: Expr) -> Iterator[tuple[Expr, list[Index]]]:
    """u and the indices i, for each way in which a product is u_i / Σ_i u_i."""
    for factor in Mul.make_args(expr):
        if isinstance(factor, Pow) and factor.exp == -1 and isinstance(factor.base, Sum):
            inside, over = factor.base.function, [limit[0] for limit in factor.base.limits]
            part = expr / factor
            new = sorted(free(part) - free(inside), key=str)  # an index that stands in the sum already is another one
            for chosen in itertools.permutations(new, len(over)):
                alike = all(i.size == b.size for i, b in zip(chosen, over, strict=True))
                if alike and inside.xreplace(dict(zip(over, chosen, strict=True))) == part:
                    yield part, list(chosen)


def _stands_before(a: list[Index], b: list[Index], axes: Sequence[Index]) -> bool:
    """Do the indices a stand before b in these axes? Those of nothing stand behind all."""
    if not a or not b:
        return bool(a)
    return all(i in axes for i in (*a, *b)) and axes.index(a[0]) < axes.index(b[0])


def _is_mask(factor: Expr) -> bool:
    """Is a factor 1 or 0 everywhere?"""
    return factor == 1 or isinstance(factor, Indicator | KroneckerDelta)


def _key(keys: list[str]) -> str:
    while keys and keys[-1] == ":":
        keys.pop()
    return f"[{', '.join(keys)}]" if keys else ""


def _letters(indices: Iterable[Index]) -> dict[Index, str]:
    """One ASCII letter for each index, those of the formula where possible."""
    letters: dict[Index, str] = {}
    for index in indices:
        if index not in letters:
            wanted = [n for n in (*index.letters, *"abcdefghijklmnopqrstuvwxyz") if len(n) == 1 and n.isascii()]
            letters[index] = next(n for n in wanted if n not in letters.values())
    return letters

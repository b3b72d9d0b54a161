"""The table of semantics, a call of an operation, and broadcasting."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from sympy import Add, Expr, Indexed, S, Sum

from tinytensor.symbolic.derive.values import Dims, Lines, Value, as_plain_entry
from tinytensor.symbolic.index_calculus.formulas import Size, not_negative
from tinytensor.symbolic.reading.errors import NotDerivable, Split

OP_SEMANTICS: dict[str, Callable] = {}
INDEX_OPERATIONS = {"take", "entries", "gather", "scatter_rows", "gather_backward", "eq", "ne", "permute", "clone"}
INDEX_OPERATIONS |= {"reshape_view", "expand", "spread", "slice", "cross_entropy_rows", "cross_entropy_mean"}
# These take whole numbers as indices, or only move them; all others get them as numbers.

TAKES_INFINITIES = {"full", "where", "isnan", "isfinite", "cast", "clone", "overwrite"}
TAKES_INFINITIES |= {"reshape_view", "permute", "expand", "spread", "slice", "diagonal"}
TAKES_MASKS = TAKES_INFINITIES | {"exp", "softmax", "reduce_logsumexp", "add", "sub", "mul", "true_divide"}
TAKES_MASKS |= {"reduce_amax", "reduce_amin", "reduce_max", "reduce_min"}  # which say what to do instead
# These keep where a value is -inf, or ask; all others make formulas of entries, in which it would be lost.


def semantics_of(*names: str) -> Callable:
    """Declare a function as the semantics of these operations."""

    def enter(function):
        OP_SEMANTICS.update(dict.fromkeys(names, function))
        return function

    return enter


REFUSED = {  # operations that are read, and that no index formula follows, and what to do instead
    "flip": "an index that runs backward is not part of the index calculus; reverse the argument outside",
    "round": "rounding to the even neighbour has no index formula; use floor(x + 1/2)",
}


class SymbolicCall:
    """A call of an operation, its tensors as values and its numbers as formulas of the sizes."""

    def __init__(self, op: str, args: list, lines: Lines, wanted: str, where: str):
        self.op, self.args, self.lines, self.wanted, self.where = op, args, lines, wanted, where
        self.conditions: dict[str, None] = {}  # keys of conditions.VALUES
        self.never_negative: Callable[[Expr], bool] = not_negative  # of a formula of sizes

    def refuse(self, why: str) -> NotDerivable:
        return NotDerivable(f"derive: {self.op}{self.where}: {why}")

    def name(self, value: Value, otherwise: str, inline: str = "") -> Value:
        """Make the value a line, under the user's name for it if there is one."""
        by_user = bool(self.wanted)
        return self.lines.name(
            value, self.wanted or otherwise, where=self.where, by_user=by_user, inline="" if by_user else inline
        )

    def operand(self, value: Value, letter: str) -> Value:
        """The value, as a line of its own if its formula is one that a person would name."""
        expr = value.entry(*value.indices())
        long = expr.has(Sum, Add) or len(expr.atoms(Indexed)) > 1
        if value.finite is None and value.sizes and long and not isinstance(expr, Indexed):
            return self.lines.name(value, letter, where=self.where)
        return value

    def check_finite(self, op: str) -> None:
        """Refuse what is infinite, also in places, unless an operation takes it."""
        for value in [a for a in self.args if isinstance(a, Value)]:
            if value.finite is not None and op not in TAKES_MASKS:
                raise self.refuse(
                    "an input is -inf in places, and only softmax, exp and the like take that; mask later"
                )
            if op not in TAKES_INFINITIES and value.entry(*value.indices()) in INFINITE:
                raise self.refuse(
                    "an input is infinite, which is no number: masked_fill() or where() makes a mask of -inf"
                )

    def as_name(self, value: Value, otherwise: str) -> Value:
        """The value as the entries of a name; it becomes a line if it is a formula."""
        bare = Value(value.dims, value.entry)
        if as_plain_entry(bare) is None:
            value = replace(self.lines.name(bare, otherwise, where=self.where), finite=value.finite)
        return value


def number(expr: Expr) -> Value:
    """A formula without indices as a value without dimensions."""
    return Value((), lambda: expr, "n" if expr.is_Integer else "f")


def as_number(value: Value) -> Value:
    """Whole numbers that were indices, which count from 1, as the numbers that they are, from 0 on."""
    if value.dtype != "i":
        return value
    return Value(value.dims, lambda *i: value.entry(*i) - 1, "n")


def as_index(value: Value) -> Value:
    """Whole numbers as indices, which count from 1; that they fit is checked where they are used (Array)."""
    return Value(value.dims, lambda *i: value.entry(*i) + 1, "i") if value.dtype == "n" else value


INFINITE = S.Infinity, S.NegativeInfinity
WHOLE = {"n", "b"}  # kinds of numbers that are whole


def broadcast(call: SymbolicCall, *values: Value) -> tuple[Dims, list[Callable]]:
    """The dimensions of the values together, and for each value its entry with the indices of all."""
    rank = max(len(v.dims) for v in values)
    padded = [((),) * (rank - len(v.dims)) + v.dims for v in values]
    dims = tuple(common_dimension(call, column) for column in zip(*padded, strict=True))
    return dims, [partial(unbroadcast, v.entry, old, dims) for v, old in zip(values, padded, strict=True)]


def kept_indices(old: Dims, dims: Dims, *indices: Expr) -> Iterable[Expr]:
    """The indices of a value with the dimensions `old`, by those of `dims`, to which it was broadcast."""
    groups = zip(old, by_dimension(indices, dims), strict=True)
    return chain.from_iterable(group for kept, group in groups if kept)


def unbroadcast(entry: Callable, old: Dims, dims: Dims, *indices: Expr) -> Expr:
    """The entry of a value with the dimensions `old`, by indices of `dims`, to which it was broadcast."""
    return entry(*kept_indices(old, dims, *indices))


def common_dimension(call: SymbolicCall, column: Iterable[tuple[Expr, ...]]) -> tuple[Expr, ...]:
    """The dimension that these make together, where () has one entry; NotDerivable if they do not fit."""
    dims = list(dict.fromkeys(dim for dim in column if dim))
    if len(dims) <= 1:
        return dims[0] if dims else ()
    short, *_, long = sorted(dims, key=len)
    if len(short) == 1 and isinstance(short[0], Size) and len(long) > 1:
        raise Split(short[0], long)
    sizes = f"{factors_text(short)} and {factors_text(long)}"
    raise call.refuse(f"dimensions of sizes {sizes} meet, factored in different ways")


def moved(x: Value, dims: Dims, source: Callable[..., Iterable[Expr]]) -> Value:
    """The entries of x elsewhere: `source` gives the indices of x from those of the result."""
    entry, finite = (function and (lambda *i, of=function: of(*source(*i))) for function in (x.entry, x.finite))
    return replace(x, dims=dims, entry=entry, finite=finite)


def permuted(x: Value, order: Sequence[int]) -> Value:
    """The value with its dimensions in another order."""
    dims = tuple(x.dims[n] for n in order)

    def source(*indices):
        groups = by_dimension(indices, dims)
        return chain.from_iterable(groups[order.index(n)] for n in range(len(order)))

    return moved(x, dims, source)


def transposed(x: Value) -> Value:
    """The value with its last two dimensions exchanged."""
    *batch, rows, columns = range(len(x.dims))
    return permuted(x, (*batch, columns, rows))


def factors_text(dim: tuple[Expr, ...]) -> str:
    """The size of a dimension, a product of factors, as text."""
    return "*".join(map(str, dim))


def by_dimension(indices: Iterable[Expr], dims: Dims) -> list[tuple[Expr, ...]]:
    """The indices of each dimension, one for each of its factors."""
    left = iter(indices)
    return [tuple(islice(left, len(dim))) for dim in dims]


def elementwise(call: SymbolicCall, formula: Callable[..., Expr], *values: Value, dtype: str = "f") -> Value:
    """The value whose entries are the formula of the entries of these values, broadcast together."""
    dims, entries = broadcast(call, *values)
    return Value(dims, lambda *i: formula(*[entry(*i) for entry in entries]), dtype)

"""The arguments of a function that is derived: sizes that are symbols, and numbers that stand for them in a run."""

from dataclasses import dataclass
from typing import ClassVar

from sympy import Expr, Integer, Mul, S

from tinytensor.symbolic.derive.values import Dims, Factored, dims_of
from tinytensor.symbolic.index_calculus.formulas import Size, not_negative

LETTERS = "i j k l m p q r s u v"


class Index:
    """An argument of whole numbers from 0 to below - 1, such as tokens or targets: Index(("N",), "K")."""

    def __init__(self, shape: tuple, below: str | int):
        self.shape, self.below = shape if isinstance(shape, tuple | list) else (shape,), below

    def __repr__(self):
        return f"Index({self.shape!r}, {self.below!r})"


@dataclass(frozen=True)
class Argument(Factored):
    """A tensor argument: its name, the factors of each dimension, and the range of its entries if they are indices."""

    name: str
    dims: Dims
    below: Expr | None = None
    what: str = ""  # what is known of it: "symmetric", "positive definite"


class Extent(Size):
    """A size that a user named; sizes of derivations/ have letters of their own, so that the two do not meet.

    SymPy orders symbols by the names of their classes: this one comes before Index, so a sum is printed as D + i.
    """

    made: ClassVar[dict[str, Size]] = {}


def size(name: str) -> Size:
    """The size of this name, with letters for its indices."""
    if name in Extent.made:
        return Extent.made[name]
    letter = [name.lower()] if len(name) == 1 and name.lower() not in LETTERS.split() else []
    return Extent(name, " ".join([*letter, LETTERS]))


def multiples(whole: Size, number: Integer) -> tuple[tuple[Expr, Expr], ...]:
    """N as 2 N2 and as N2 2: the halves of N, and its every other entry."""
    parts = number, size(f"{whole}{number}")
    return parts, parts[::-1]


def factors(dimension, split: dict[Expr, tuple[Expr, ...]]) -> tuple[Expr, ...]:
    """The factors of one dimension: "N", 3, "H*K", "2*K"; a size in `split` is taken apart."""
    if isinstance(dimension, Expr):  # of a result: N - 1, D + K
        return tuple(dims_of([dimension])[0])
    if isinstance(dimension, int) and dimension < 1:
        raise ValueError(_no_size(dimension))
    if isinstance(dimension, int):
        return () if dimension == 1 else (Integer(dimension),)
    if not isinstance(dimension, str):
        raise TypeError(f'derive: the size {dimension!r} is neither a name nor a number; write ("N", "D"), or ("N", 3)')
    result = []
    if "+" in dimension or "-" in dimension:
        return (_sum(dimension),)
    for part in map(str.strip, dimension.split("*")):
        if part.isdigit() and int(part) == 0:
            raise ValueError(_no_size(dimension))
        if part.isdigit():
            result += [Integer(part)] if part != "1" else []
        elif part.isidentifier():
            result += split.get(size(part), (size(part),))
        else:
            raise ValueError(f'derive: the size {dimension!r} is no product of names and numbers, such as "N" or "2*K"')
    return tuple(result)


def _no_size(dimension) -> str:
    return f"derive: the size {dimension!r}: a size is a name or a whole number from 1 on; nothing has no derivative"


def _sum(dimension: str) -> Expr:
    """A dimension that is a sum, "2*M + 1": a size of its own, which is 1 or more for all sizes."""
    result = S.Zero
    for term in map(str.strip, dimension.replace("-", "+-").split("+")):
        sign, parts = (-1 if term.startswith("-") else 1), [p.strip() for p in term.removeprefix("-").split("*")]
        if not all(part.isdigit() or part.isidentifier() for part in parts):
            raise ValueError(f'derive: the size {dimension!r} is no sum of names and numbers, such as "N" or "2*M + 1"')
        result += sign * Mul(*[Integer(part) if part.isdigit() else size(part) for part in parts])
    if not not_negative(result - 1):
        raise ValueError(f"derive: the size {dimension!r} is below 1 for some sizes; expected one such as 2*M + 1")
    return result


def arguments(values: dict[str, object], split: dict) -> dict[str, object]:
    """The arguments by their names: tensors as `Argument`, everything else as it came."""
    result = dict(values)
    for name, value in values.items():
        if isinstance(value, Index):
            below = Mul(*factors(value.below, split))
            result[name] = Argument(name, tuple(factors(n, split) for n in value.shape), below)
        elif isinstance(value, tuple | list) and all(isinstance(n, str | int | Expr) for n in value):
            result[name] = Argument(name, tuple(factors(n, split) for n in value), None, getattr(value, "what", ""))
    return result


def symbols_of(args: dict[str, object]) -> list[Size]:
    """All size symbols of the arguments, in the order in which they came."""
    expressions = [e for a in args.values() if isinstance(a, Argument) for e in (*a.sizes, S(a.below or 0))]
    return list(dict.fromkeys(s for e in expressions for s in sorted(e.atoms(Size), key=str)))

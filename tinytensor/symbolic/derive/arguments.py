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
    """The factors of one dimension: "N", 3, "H*K", "2*K"; a size in `split` is taken apart.

    A sum, "2*M + 1", is a size of its own.
    """
    if isinstance(dimension, Expr):  # of a result: N - 1, D + K
        return tuple(dims_of([dimension])[0])
    if not isinstance(dimension, str | int):
        raise TypeError(f'derive: the size {dimension!r} is neither a name nor a number; write ("N", "D"), or ("N", 3)')
    whole, products = S.Zero, []
    for term in (dimension if isinstance(dimension, str) else str(int(dimension))).replace("-", "+-").split("+"):
        parts = [part.strip() for part in term.removeprefix("-").split("*")]
        if not all(part.isdigit() or part.isidentifier() for part in parts):
            raise ValueError(
                f'derive: the size {dimension!r} is no product of names and numbers, and no sum of such: "2*M + 1"'
            )
        products.append([Integer(part) if part.isdigit() else size(part) for part in parts])
        whole += (-1 if term.startswith("-") else 1) * Mul(*products[-1])
    if not not_negative(whole - 1):
        raise ValueError(f"derive: the size {dimension!r} may be below 1, and nothing has no derivative")
    return (whole,) if len(products) > 1 else tuple(f for n in products[0] if n != 1 for f in split.get(n, (n,)))


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

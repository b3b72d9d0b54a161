"""Facts about arguments that a proof may use: a symmetric, or a positive definite, matrix.

    derive(f, where=symmetric("S"), S=("D", "D"), x="D")

The gradient stays that of all entries as independent numbers, at a symmetric matrix, as backward() computes it.
"""

import re
from dataclasses import dataclass

import numpy as np

from tinytensor.symbolic.index_calculus.formulas import Array
from tinytensor.symbolic.index_calculus.linear_algebra import PositiveDefiniteArray, SymmetricArray


@dataclass(frozen=True)
class Fact:
    """What is known of an argument: it is "symmetric" or "positive definite"."""

    argument: str
    what: str

    def __repr__(self) -> str:
        return f'{self.what.replace(" ", "_")}("{self.argument}")'

    def __str__(self) -> str:
        what = self.what if self.what == "symmetric" else f"symmetric and {self.what}"
        return (
            f"{self.argument} is {what}; its gradient is that of all entries as independent numbers, as backward() "
            "gives it, at such matrices"
        )


def symmetric(argument: str) -> Fact:
    """The fact that an argument of `derive` is a symmetric matrix: one of the conditions `where`."""
    return Fact(argument, "symmetric")


def positive_definite(argument: str) -> Fact:
    """The fact that an argument of `derive` is a symmetric positive definite matrix: one of the conditions `where`."""
    return Fact(argument, "positive definite")


class Shape(tuple):
    """The shape of an argument of which a fact is known, `what`."""

    what = ""


ARRAYS: dict[str, type[Array]] = {"": Array, "symmetric": SymmetricArray, "positive definite": PositiveDefiniteArray}


def with_facts(where, arguments: dict[str, object]) -> tuple[object, dict[str, object]]:
    """The other conditions of `where`; and the arguments, with what is known of them."""
    conditions = [where] if isinstance(where, str | Fact) else list(where or ())
    conditions = [c if isinstance(c, Fact) else _fact_of(c) or c for c in conditions]
    arguments = dict(arguments)
    for fact in [c for c in conditions if isinstance(c, Fact)]:
        shape = arguments.get(fact.argument)
        if not isinstance(shape, tuple | list) or len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(
                f"{fact.what}({fact.argument!r}): expected the name of an argument that is a square matrix, such as "
                f'("D", "D"); {fact.argument} is {shape!r}'
            )
        known, arguments[fact.argument] = getattr(shape, "what", ""), Shape(shape)
        arguments[fact.argument].what = known if known == "positive definite" else fact.what
    return [c for c in conditions if not isinstance(c, Fact)], arguments


def _fact_of(text: str) -> Fact | None:
    """The fact that a text such as symmetric(S) states; None for a condition on sizes."""
    match = re.fullmatch(r"""\s*(symmetric|positive_definite)\(["']?(\w+)["']?\)\s*""", text)
    return Fact(match[2], match[1].replace("_", " ")) if match else None


def of_fact(values: np.ndarray, what: str, style: str) -> np.ndarray:
    """A matrix with this property, made from any square one; by style also badly scaled, or nearly diagonal ones."""
    if not what:
        return values
    n = len(values)
    if what == "symmetric":
        return (values + values.T) / 2
    made = values @ values.T / max(n, 1) + np.eye(n)
    if style == "between 0 and 1" and n:  # rows of very different sizes, the largest neither first nor last
        scale = 10.0 ** np.roll(np.linspace(-1, 1, n), n // 2)
        made = made * scale[:, None] * scale
    return made.round(2) + 0.05 * np.eye(n) if n <= 2 and style == "of both signs" else made

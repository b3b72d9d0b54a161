"""The common part of claims over residues modulo a random prime: their assumptions, and their equations."""

import math

import numpy as np

from derivations.claims import BOUND, Refuted
from tinytensor.symbolic.exact.finite_field import Field, Residue

HASHED = "values of exp, log, sqrt ... count as drawn at random: a keyed hash of 512 bits gives them"
CHANCE = "the operating system's random numbers"


def tangents(x: np.ndarray) -> np.ndarray:
    """The tangent of each entry of x."""
    return np.array([e.tangent for e in x.flat], object)


class Equations:
    """Equations between residues: whether all hold, and the size of the formulas that were found to be 0."""

    def __init__(self, scalars: Field):
        self.field, self.size, self.count = scalars, 0.0, 0

    def equal(self, what: str, one: Residue, other: Residue) -> None:
        self.zero(what, one.value - other.value, one.size + other.size)

    def zero(self, what: str, value: int, size: float) -> None:
        self.count += 1
        self.size += size
        if value % self.field.prime:
            raise Refuted(f"{what} differs from the formula", rule=what)

    def adjoint(self, what: str, slope: tuple[int, float], gradients: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """<gradient, v> = D_v, where D_v is the `slope`, with the size of its formula.

        gradients: for each differentiated array its gradient, and the tangents v of all its entries.
        """
        along, size = -slope[0], slope[1]
        for gradient, v in gradients:
            for g, direction in zip(gradient.flat, v.flat, strict=True):
                along, size = along + Residue.of(g).value * direction, size + Residue.of(g).size + 1
        self.zero(f"<{what}, v>", along, size)

    def figures(self, wrong: str) -> list[str]:
        """The prime, the size and the probability, in sentences; Refuted if the probability is too large."""
        error = self.field.error(self.size)
        if error > BOUND:
            raise Refuted(f"a wrong {wrong} could pass with a probability of 2^{error:.0f}, above 2^{BOUND}")
        return [
            f"{self.count:,} equations modulo p = {self.field.prime}, drawn at random",
            f"all formulas together have at most 2^{math.log2(self.size):.1f} variables and constants",
            f"probability that a wrong {wrong} passes: below 2^{math.ceil(error)}",
        ]

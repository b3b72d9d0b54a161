"""Proofs about what ships: the engine's own code and kernels, run over exact scalars instead of floats.

    x = symbols("x", 2, 3)
    x.requires_grad_()
    x.softmax(-1)[0, 0].backward()
    x.grad[0, 0].item().equals(...)     # every entry of every gradient is a formula

A tensor of dtype object goes through the same operations, rules and kernels as any other; `lift` is how the door
reads a kernel then.
"""

import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import sympy

from tinytensor.symbolic.lift import NotLiftable, lift
from tinytensor.symbolic.scalars import Condition, Exact, Symbolic, Undecided, path
from tinytensor.tensor import Tensor

_STEPS = 509  # witnesses are multiples of 1/509: a prime, so that sums and products rarely meet


def symbols(name: str, *shape, witness=None, positive: bool = False) -> Tensor:
    """A tensor of symbols name_0, name_1, ... with a witness for each, for proofs.

    Witnesses are fractions between -2 and 2 (0 and 2 if `positive`), no two alike, drawn from a generator that the
    name seeds; or give them: an array or nested lists of the tensor's shape. They decide comparisons only.
    """
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    values = np.empty(shape, object)
    if witness is None:
        low = 1 if positive else -2 * _STEPS
        steps = [n for n in range(low, 2 * _STEPS) if n]
        numbers = [Fraction(n, _STEPS) for n in random.Random(name).sample(steps, values.size)]
    else:
        numbers = np.broadcast_to(np.asarray(witness, object), shape).reshape(-1)
    flat = values.reshape(-1)
    for i, number in enumerate(numbers):
        flat[i] = Symbolic(sympy.Symbol(f"{name}_{i}" if shape else name), number)
    return Tensor(values)


__all__ = ["Condition", "Exact", "NotLiftable", "Symbolic", "Undecided", "lift", "path", "symbols"]

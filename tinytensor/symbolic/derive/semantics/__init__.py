"""What each operation computes, entry by entry: the meaning of a recorded call, for sizes that stay symbols.

`MEANINGS[name](step)` gives the value of the call's result. Formulas of a few terms stay formulas; a result that is
used in several places, or that a person would name, becomes a line of the program. Fused operations come with the
closed form of their gradient, which is proved each time it is used (derive/adjoints.py).

That the engine's kernels compute these formulas is not proved here: the program is compared with the run.

step.py         the table; a recorded call; values of different shapes together; operations that are refused
elementwise.py  element by element
shapes.py       views, slices, pieces put together, diagonals
indexing.py     entries at places that a tensor of integers names
sums.py         sums, extremes, products, running sums; products of matrices
fused.py        softmax, cross-entropy, norms, attention
"""

from tinytensor.symbolic.derive.semantics import elementwise, fused, indexing, shapes, sums
from tinytensor.symbolic.derive.semantics.step import (
    INDEX_OPERATIONS,
    OP_SEMANTICS,
    REFUSED,
    FactoredIndex,
    SymbolicCall,
    as_number,
    number,
)

__all__ = ["INDEX_OPERATIONS", "MEANINGS", "REFUSED", "Places", "Step", "as_number", "number"]
__all__ += ["elementwise", "fused", "indexing", "shapes", "sums"]  # whose meanings enter the table

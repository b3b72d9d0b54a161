"""The semantics of operations: what each computes, entry by entry, for sizes that stay symbols.

`OP_SEMANTICS[name](call)` returns the value of a term's result. Formulas of a few terms stay formulas; a
result that is used several times, or that a person would name, becomes a line of the program. A fused operation comes
with the closed form of its gradient, which is proved each time it is used (derive/adjoints.py).

That the engine's kernels compute these formulas is not proved here: the program is compared with the function. The
tests prove it of the elementwise operations, whose kernels run on symbols.

symbolic_call.py  the table; a call; broadcasting; operations that are refused
constants.py      arrays that the engine makes of sizes
elementwise.py    element by element
shapes.py         views, slices, concatenation, diagonals
indexing.py       entries at the positions in a tensor of integers
sums.py           sums, extremes, products, running sums; products of matrices
linear_algebra.py inverses, determinants, Cholesky factors
fused.py          softmax, cross-entropy, norms, attention
"""

from tinytensor.symbolic.derive.semantics import constants, elementwise, fused, indexing, linear_algebra, shapes, sums
from tinytensor.symbolic.derive.semantics.symbolic_call import (
    INDEX_OPERATIONS,
    OP_SEMANTICS,
    REFUSED,
    SymbolicCall,
    as_number,
    moved,
    number,
)

__all__ = ["INDEX_OPERATIONS", "OP_SEMANTICS", "REFUSED", "SymbolicCall", "as_number", "moved", "number"]
# whose meanings enter the table
__all__ += ["constants", "elementwise", "fused", "indexing", "linear_algebra", "shapes", "sums"]

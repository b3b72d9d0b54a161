"""Sums of comparisons of whole numbers as counts: Σ_j [i ≤ j] is N - i + 1 for i and j from 1 to N."""

from sympy import Expr, Mul, S, Sum

from tinytensor.symbolic.index_calculus.formulas import fits, free, fresh, upto


def counted(expr: Expr) -> Expr:
    """A normal form with the count for each sum of one comparison, if the bound lies in the range of the index."""
    sums = {s: count for s in expr.atoms(Sum) if (count := _count(s)) is not None}
    return expr.xreplace(sums) if sums else expr


def _count(sum_: Sum) -> Expr | None:
    """The number of values of the index for which the comparison holds; None if it is not that of a sum like this."""
    if len(sum_.limits) != 1:
        return None
    index = sum_.limits[0][0]
    moving = [f for f in Mul.make_args(sum_.function) if index in free(f)]
    if len(moving) != 1 or not isinstance(moving[0], upto):
        return None
    outside = sum_.function / moving[0]
    distance = (moving[0].args[1] - moving[0].args[0]).expand()  # the comparison holds where this is 0 or more
    slope = distance.coeff(index)
    bound = (distance - slope * index).expand()
    if index in free(bound) or index in free(outside) or abs(slope) != 1:
        return None
    size = S(index.size)
    if slope == 1:  # from -bound on
        return fresh(outside) * (size + 1 + bound) if fits(-bound, size + 1) else None
    return fresh(outside) * bound if fits(bound + 1, size + 1) else None  # up to the bound

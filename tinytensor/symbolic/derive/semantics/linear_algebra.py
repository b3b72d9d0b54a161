"""The semantics of inverses, determinants and Cholesky factors of matrices.

A matrix that is inverted has a name: an argument, or a line. A number in front, as in (2π S)⁻¹, is taken out. The laws
and the derivatives are in index_calculus/linear_algebra.py.
"""

from typing import NamedTuple

from sympy import Expr, KroneckerDelta, S, log

from tinytensor.symbolic.derive.semantics.sums import product_of
from tinytensor.symbolic.derive.semantics.symbolic_call import SymbolicCall, factors_text, semantics_of, transposed
from tinytensor.symbolic.derive.values import Value
from tinytensor.symbolic.index_calculus.adjoints import expanded
from tinytensor.symbolic.index_calculus.functions import absolute, sign
from tinytensor.symbolic.index_calculus.linear_algebra import (
    Cholesky,
    Determinant,
    LogAbsDet,
    Matrix,
    array_of,
    as_entry,
    entry,
    inverse_of,
    is_lower,
    is_positive_definite,
    size_of,
)
from tinytensor.symbolic.index_calculus.matrix_laws import normal_of_matrices


class Operand(NamedTuple):
    """A square matrix that an operation takes: number * matrix, or its transpose; is it symmetric at all arguments?"""

    number: Expr
    matrix: Matrix
    turned: bool
    symmetric: bool

    @property
    def inverse(self) -> Matrix:
        return inverse_of(self.matrix, self.symmetric)

    @property
    def determined(self) -> tuple:
        """What the determinant is made from."""
        return (self.matrix, S.true) if self.symmetric else (self.matrix,)

    def inverse_entry(self, i, j) -> Expr:
        return entry(self.inverse, *((j, i) if self.turned else (i, j))) / self.number


def operand_of(call: SymbolicCall, value: Value) -> Operand:
    """The matrix that a value is; a formula becomes a line."""
    if len(value.dims) != 2:
        raise call.refuse("a batch of matrices; take one of them, as an argument of its own")
    if any(len(dim) != 1 for dim in value.dims) or value.dims[0] != value.dims[1]:
        sizes = " and ".join(factors_text(dim) or "1" for dim in value.dims)
        raise call.refuse(f"a matrix with dimensions of the sizes {sizes}; expected one name or number for both")
    i, j = value.indices()
    expr = normal_of_matrices(value.entry(i, j), symmetry=False)
    number, factor = expr.as_independent(i, j, as_Add=False)
    matrix_entry = as_entry(factor)
    square = matrix_entry is not None and set(array_of(matrix_entry[0]).sizes) == {i.size}
    if not square or set(matrix_entry[1:]) != {i, j}:
        named = call.lines.name(value, "C", where=call.where)
        number, matrix_entry = S.One, as_entry(named.entry(i, j))
    if matrix_entry is None:
        raise call.refuse("a matrix that changes from step to step of a loop over a size; prove() it at one size")
    matrix, turned = matrix_entry[0], matrix_entry[1] == j
    lines = [line for group in call.lines.groups for line in group.lines]
    written = expanded(entry(matrix, i, j), lines)
    symmetric = normal_of_matrices(written - written.xreplace({i: j, j: i})) == 0
    return Operand(number, matrix, turned, symmetric)


def regular_operand(call: SymbolicCall) -> Operand:
    """The first operand, which must be regular: a condition, unless it is known to be."""
    operand = operand_of(call, call.args[0])
    if not is_positive_definite(operand.matrix) and not is_lower(operand.matrix):
        call.conditions["regular"] = None
    return operand


@semantics_of("solve")
def solve(call: SymbolicCall) -> Value:
    a, b = call.args
    operand = regular_operand(call)
    if len(b.dims) != 2:
        raise call.refuse("a batch of right sides; take one of them")
    inverse = Value(a.dims, operand.inverse_entry)
    if b.dims == a.dims and b.entry(*(indices := b.indices())) == KroneckerDelta(*indices):
        return inverse
    return call.name(product_of(call, inverse, call.operand(b, "u")), "Z", "term")


@semantics_of("det")
def det(call: SymbolicCall) -> Value:
    operand = regular_operand(call)
    result = operand.number ** size_of(operand.matrix) * Determinant(*operand.determined)
    return Value((), lambda: result)


@semantics_of("slogdet")
def slogdet(call: SymbolicCall) -> tuple[Value, Value]:
    """log |det A|, and the sign of det A, which is constant where A is regular."""
    operand = regular_operand(call)
    number, size = operand.number, size_of(operand.matrix)
    result = (S.Zero if number == 1 else size * log(absolute_of(number))) + LogAbsDet(*operand.determined)
    signed = number**size * Determinant(*operand.determined)
    return Value((), lambda: result), Value((), lambda: sign(signed))


def absolute_of(number: Expr) -> Expr:
    """|x|, as x where it is known to be 0 or more."""
    return abs(number) if number.is_number else number if number.is_nonnegative else absolute(number)


@semantics_of("cholesky")
def cholesky(call: SymbolicCall) -> Value:
    operand = operand_of(call, call.args[0])
    if not operand.symmetric:
        name = array_of(operand.matrix).label
        raise call.refuse(
            f'{name} is not known to be symmetric; where=positive_definite("{name}") says so of an argument; take '
            "(A + A.T)/2 of another matrix"
        )
    if operand.number != 1:
        raise call.refuse("a number in front of the matrix; take it out: cholesky(c S) is √c cholesky(S)")
    if not is_positive_definite(operand.matrix):
        call.conditions["definite"] = None
    return Value(call.args[0].dims, lambda i, j: entry(Cholesky(operand.matrix), i, j))


@semantics_of("pinv")
def pinv(call: SymbolicCall) -> Value:
    """(Aᵀ A)⁻¹ Aᵀ for independent columns, Aᵀ (A Aᵀ)⁻¹ for independent rows."""
    a = call.args[0]
    if len(a.dims) != 2 or any(len(dim) != 1 for dim in a.dims):
        raise call.refuse("expected one matrix, with a name or a number for each size")
    (rows,), (columns,) = a.dims
    tall = call.never_negative(rows - columns)
    if not tall and not call.never_negative(columns - rows):
        raise call.refuse(
            f'the formulas for tall and for wide matrices differ; choose one: where="{rows} >= {columns}"'
        )
    call.conditions["rank"] = None
    columns_of = a if tall else transposed(a)
    rows_of = transposed(columns_of)
    square = product_of(call, rows_of, columns_of)
    inverse = Value(square.dims, operand_of(call, square).inverse_entry)
    result = product_of(call, inverse, rows_of)
    return call.name(result if tall else transposed(result), "Z", "term")

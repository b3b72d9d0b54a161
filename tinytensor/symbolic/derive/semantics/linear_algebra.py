"""The semantics of inverses, determinants and Cholesky factors of matrices.

A matrix that is inverted has a name: an argument, or a line. A number in front, as in (2π S)⁻¹, is taken out. The laws
and the derivatives are in index_calculus/linear_algebra.py.
"""

from typing import NamedTuple

from sympy import Expr, KroneckerDelta, S, log

from tinytensor.symbolic.derive.conditions import size_condition
from tinytensor.symbolic.derive.semantics.symbolic_call import (
    SymbolicCall,
    common_dimension,
    factors_text,
    semantics_of,
)
from tinytensor.symbolic.derive.values import Value
from tinytensor.symbolic.index_calculus.adjoints import expanded
from tinytensor.symbolic.index_calculus.formulas import Index, total
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


def operand(call: SymbolicCall, value: Value) -> Operand:
    """The matrix that a value is; a formula becomes a line."""
    value = call.finite(value)
    if len(value.dims) != 2:
        raise call.refuse("a batch of matrices; take one of them, as an argument of its own")
    if any(len(dim) != 1 for dim in value.dims) or value.dims[0] != value.dims[1]:
        sizes = " and ".join(factors_text(dim) or "1" for dim in value.dims)
        raise call.refuse(f"a matrix with dimensions of the sizes {sizes}; expected one name or number for both")
    i, j = value.indices()
    expr = normal_of_matrices(value.entry(i, j), symmetry=False)
    number, own = expr.as_independent(i, j, as_Add=False)
    whole = as_entry(own)
    if whole is None or set(whole[1:]) != {i, j}:
        named = call.lines.name(value, "C", where=call.where)
        number, whole = S.One, as_entry(named.entry(i, j))
    if whole is None:
        raise call.refuse("a matrix that changes from step to step of a loop over a size; prove() it at one size")
    matrix, turned = whole[0], whole[1] == j
    lines = [line for group in call.lines.groups for line in group.lines]
    written = expanded(entry(matrix, i, j), lines)
    symmetric = normal_of_matrices(written - entry_turned(written, i, j)) == 0
    return Operand(number, matrix, turned, symmetric)


def entry_turned(expr: Expr, i: Index, j: Index) -> Expr:
    """The entry j, i for the entry i, j."""
    return expr.xreplace({i: j, j: i})


def _regular(call: SymbolicCall, own: Operand) -> None:
    """Note that the matrix must be regular, unless it is known to be."""
    if not is_positive_definite(own.matrix) and not is_lower(own.matrix):
        call.conditions["regular"] = None


@semantics_of("solve")
def solve(call: SymbolicCall) -> Value:
    a, b = call.args
    own, b = operand(call, a), call.finite(b)
    _regular(call, own)
    if len(b.dims) != 2:
        raise call.refuse("a batch of right sides; take one of them")
    inner = common_dimension(call, [a.dims[1], b.dims[0]])
    if isinstance(b.entry(*b.indices()), KroneckerDelta):  # the inverse itself
        return Value(a.dims, own.inverse_entry)
    b = call.operand(b, "u")

    def solution(*at):
        (k,) = Value((inner,), None).indices()
        return total(own.inverse_entry(at[0], k) * b.entry(k, *at[1:]), k)

    return call.name(Value((a.dims[0], b.dims[1]), solution), "Z", "term")


@semantics_of("det")
def det(call: SymbolicCall) -> Value:
    own = operand(call, call.args[0])
    _regular(call, own)
    result = own.number ** size_of(own.matrix) * Determinant(*own.determined)
    return Value((), lambda: result)


@semantics_of("slogdet")
def slogdet(call: SymbolicCall) -> tuple[Value, Value]:
    """log |det A|, and the sign of det A, which is constant where A is regular."""
    own = operand(call, call.args[0])
    _regular(call, own)
    number = S.Zero if own.number == 1 else size_of(own.matrix) * log(absolute_of(own.number))
    result = number + LogAbsDet(*own.determined)
    signed = own.number ** size_of(own.matrix) * Determinant(*own.determined)
    return Value((), lambda: result), Value((), lambda: sign(signed))


def absolute_of(number: Expr) -> Expr:
    """|x|, as x where it is known to be 0 or more."""
    return abs(number) if number.is_number else number if number.is_nonnegative else absolute(number)


@semantics_of("cholesky")
def cholesky(call: SymbolicCall) -> Value:
    own = operand(call, call.args[0])
    if not own.symmetric:
        name = array_of(own.matrix).label
        raise call.refuse(
            f'{name} is not known to be symmetric; where=positive_definite("{name}") says so of an argument; take '
            "(A + A.T)/2 of another matrix"
        )
    if own.number != 1:
        raise call.refuse("a number in front of the matrix; take it out: cholesky(c S) is √c cholesky(S)")
    if not is_positive_definite(own.matrix):
        call.conditions["definite"] = None
    return Value(call.args[0].dims, lambda i, j: entry(Cholesky(own.matrix), i, j))


@semantics_of("pinv")
def pinv(call: SymbolicCall) -> Value:
    """(Aᵀ A)⁻¹ Aᵀ for independent columns, Aᵀ (A Aᵀ)⁻¹ for independent rows."""
    a = call.finite(call.args[0])
    if len(a.dims) != 2 or any(len(dim) != 1 for dim in a.dims):
        raise call.refuse("expected one matrix, with a name or a number for each size")
    (rows,), (columns,) = a.dims
    tall = call.never_negative(rows - columns)
    if not tall and not call.never_negative(columns - rows):
        raise call.refuse(
            f'the formulas for tall and for wide matrices differ; choose one: where="{rows} >= {columns}"'
        )
    if (condition := size_condition(">=", rows, columns) if tall else size_condition("<=", rows, columns)) is not None:
        call.size_conditions.append(condition)
    call.conditions["rank"] = None
    turned = Value(a.dims[::-1], lambda i, j: a.entry(j, i))
    one, other = (turned, a) if tall else (a, turned)

    def product(i, j):
        (k,) = Value((one.dims[1],), None).indices()
        return total(one.entry(i, k) * other.entry(k, j), k)

    own = operand(call, Value((one.dims[0], other.dims[1]), product))

    def entry_of_it(i, j):
        (k,) = Value((a.dims[1] if tall else a.dims[0],), None).indices()
        inverse = own.inverse_entry(i, k) if tall else own.inverse_entry(k, j)
        return total(inverse * (a.entry(j, k) if tall else a.entry(k, i)), k)

    return call.name(Value((a.dims[1], a.dims[0]), entry_of_it), "Z", "term")

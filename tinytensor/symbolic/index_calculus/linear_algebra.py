r"""Matrices in the index calculus: entries of inverses and Cholesky factors, determinants, and their derivatives.

A matrix is an Array with two indices of one range, the inverse of a matrix, or the Cholesky factor of one. Its entry is
`entry(M, i, j)`, opaque but for

    derivatives    d(A⁻¹) = -A⁻¹ dA A⁻¹,  d det A = det A tr(A⁻¹ dA),  d log|det A| = tr(A⁻¹ dA),
                   dL = L Φ(L⁻¹ dS L⁻ᵀ), where Φ takes the lower triangle and half of the diagonal
    identities     Σ_j A_ij A⁻¹_jk = δ(i,k); an entry of L, or of L⁻¹, above the diagonal is 0
    symmetry       S_ij = S_ji, L Lᵀ = S, L⁻ᵀ L⁻¹ = S⁻¹ for a symmetric S

The Cholesky factor is that of the symmetric part, (S + Sᵀ)/2, as the engine's rule (and PyTorch's) shares the gradient
between the two triangles. So the laws of symmetry hold at symmetric matrices, but not for their derivatives by single
entries: `normal_of_matrices` (matrix_laws.py) uses them, to compare values; no line is rewritten by them before it is
differentiated.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import sympy
from sympy import Basic, Expr, Indexed, KroneckerDelta, S, Symbol

from tinytensor.symbolic.index_calculus.formulas import Array, Index, normal, total, value
from tinytensor.symbolic.index_calculus.functions import upto


class SymmetricArray(Array):
    """A matrix whose entries i, j and j, i are equal: a fact about an argument."""


class PositiveDefiniteArray(SymmetricArray):
    """A symmetric matrix with xᵀ S x > 0 for each x that is not 0."""


class _Called:
    """What SymPy's printers, which know other classes of these names, print."""

    def _sympystr(self, printer) -> str:
        return f"{type(self).__name__}({', '.join(map(printer._print, self.args))})"


class Inverse(_Called, Basic):
    """A⁻¹ of a matrix."""

    in_code = "{}_inv", "np.linalg.inv({})"  # its name and its value in a program
    printed = "{}⁻¹", "{{{}}}^{{-1}}"


class SymmetricInverse(Inverse):
    """S⁻¹ of a matrix that is symmetric by its definition."""


class Cholesky(_Called, Basic):
    """The lower triangular L with L Lᵀ = (S + Sᵀ)/2 and a diagonal above 0."""

    in_code = "{}_chol", "np.linalg.cholesky({})"
    printed = "chol({})", r"\operatorname{{chol}}\left({}\right)"


Matrix = Array | Inverse | Cholesky


def inverse_of(matrix: Matrix, symmetric: bool = False) -> Matrix:
    """The inverse as a matrix; that of an inverse is the matrix itself."""
    if isinstance(matrix, Inverse):
        return matrix.args[0]
    symmetric = symmetric or isinstance(matrix, SymmetricArray)
    return (SymmetricInverse if symmetric else Inverse)(matrix)


def array_of(matrix: Matrix) -> Array:
    """The array from which a matrix is made."""
    return matrix if isinstance(matrix, Array) else array_of(matrix.args[0])


def size_of(matrix: Matrix) -> Expr:
    """The number of its rows."""
    return array_of(matrix).sizes[0]


def is_symmetric(matrix: Matrix) -> bool:
    return isinstance(matrix, SymmetricArray | SymmetricInverse)


def is_lower(matrix: Matrix) -> bool:
    """Is it a Cholesky factor, or the inverse of one?"""
    return isinstance(matrix, Cholesky) or (isinstance(matrix, Inverse) and is_lower(matrix.args[0]))


def is_positive_definite(matrix: Matrix) -> bool:
    if isinstance(matrix, Inverse):
        return is_positive_definite(matrix.args[0])
    return isinstance(matrix, PositiveDefiniteArray)


def with_array(matrix: Matrix, array: Array) -> Matrix:
    """The same matrix of another array."""
    return array if isinstance(matrix, Array) else matrix.func(with_array(matrix.args[0], array))


# ---- entries and determinants ----------------------------------------------------------------------------------------


class OfMatrix(_Called, Expr):
    """A number that is made from a matrix, args[0]."""

    is_commutative = True

    @property
    def matrix(self) -> Matrix:
        return self.args[0]

    def _eval_derivative(self, by):
        if not isinstance(by, Indexed) or by.base != array_of(self.matrix):
            return S.Zero
        return self.slope(by)

    def slope(self, by: Indexed) -> Expr:
        """The derivative by an entry of the array, with indices that stand nowhere else."""
        raise NotImplementedError

    def number_at(self, point: dict):
        """The meaning in numbers (formulas.value): a fraction where the array has fractions and no root is taken."""
        matrix = _numbers(self.matrix, point)
        if isinstance(self, MatrixEntry):
            return matrix[tuple(value(i, point) - 1 for i in self.args[1:])]
        determinant = _plain(sympy.Matrix(matrix).det())
        return determinant if isinstance(self, Determinant) else math.log(abs(determinant))


class MatrixEntry(OfMatrix):
    """The entry i, j of an inverse or of a Cholesky factor."""

    def slope(self, by: Indexed) -> Expr:
        return _slope(*self.args, by)

    def _eval_is_positive(self):
        return True if isinstance(self.matrix, Cholesky) and self.args[1] == self.args[2] else None


class Determinant(OfMatrix):
    """det A; a second argument says that A is symmetric by its definition."""

    in_code = "det_{}", "np.linalg.det({})"
    printed = "det({})", r"\det {}"

    def slope(self, by: Indexed) -> Expr:
        return self * _slope_of_log(*self.args, by=by)

    def _eval_is_positive(self):
        return True if is_positive_definite(self.matrix) else None


class LogAbsDet(OfMatrix):
    """log |det A|; a second argument says that A is symmetric by its definition."""

    in_code = "logdet_{}", "np.linalg.slogdet({})[1]"
    printed = "log|det({})|", r"\log\left|\det {}\right|"

    def slope(self, by: Indexed) -> Expr:
        return _slope_of_log(*self.args, by=by)


def entry(matrix: Matrix, i, j) -> Expr:
    """The entry i, j of a matrix."""
    return matrix[i, j] if isinstance(matrix, Array) else MatrixEntry(matrix, S(i), S(j))


def has_matrices(expr: Expr) -> bool:
    """Does an inverse, a factor or a determinant stand in the expression, or an entry of a symmetric argument?"""
    return expr.has(OfMatrix) or any(isinstance(a, SymmetricArray) for a in expr.atoms(Array))


def _slope_of_log(matrix: Matrix, symmetric=False, *, by: Indexed) -> Expr:
    """d log|det A| = tr(A⁻¹ dA)."""
    a, b = (Index(letter, size_of(matrix)) for letter in "ab")
    inverse = inverse_of(matrix, bool(symmetric))
    return normal(total(entry(inverse, b, a) * _slope(matrix, a, b, by), a, b))


def _slope(matrix: Matrix, i, j, by: Indexed) -> Expr:
    """The derivative of the entry i, j by an entry of the array."""
    if isinstance(matrix, Array):
        return KroneckerDelta(i, by.indices[0]) * KroneckerDelta(j, by.indices[1])
    inner = matrix.args[0]
    a, b, p = (Index(letter, size_of(matrix)) for letter in "abp")
    if isinstance(matrix, Inverse) and not isinstance(inner, Cholesky):
        both = -entry(matrix, i, a) * _slope(inner, a, b, by) * entry(matrix, b, j)
        return normal(total(both, a, b))
    factor = inner if isinstance(matrix, Inverse) else matrix
    left = inverse_of(factor)
    rows = (p, j) if isinstance(matrix, Cholesky) else (i, p)
    slope = S.One
    if isinstance(factor.args[0], Array):
        a, b = by.indices
    else:
        slope = _slope(factor.args[0], a, b, by)
    change = (  # L⁻¹ dS L⁻ᵀ for the symmetric part of dS
        entry(left, rows[0], a) * entry(left, rows[1], b) + entry(left, rows[0], b) * entry(left, rows[1], a)
    ) / 2
    lower = upto(rows[1], rows[0]) - KroneckerDelta(*rows) / 2
    both = entry(factor, i, p) * lower if isinstance(matrix, Cholesky) else -lower * entry(left, p, j)  # L Φ, -Φ L⁻¹
    return total(both * change, p) if slope == 1 else normal(total(both * change * slope, a, b, p))


def parts_of_entry(factor: Expr) -> tuple:
    """The matrix or array of an entry, and its indices; None alone for another formula."""
    if isinstance(factor, MatrixEntry):
        return factor.args
    return (factor.base, *factor.indices) if isinstance(factor, Indexed) else (None,)


def as_entry(factor: Expr) -> tuple[Matrix, Expr, Expr] | None:
    """The matrix and the two indices of an entry; None for another formula."""
    parts = parts_of_entry(factor)
    return parts if len(parts) == 3 else None


# ---- replacing an array, and the meaning in numbers ------------------------------------------------------------------


def in_names(expr: Expr, name: Array, left: Indexed, right: Expr) -> Expr:
    """The expression with the matrix `right`, an entry of another one, for the array `name` inside of opaque parts."""
    matrix, *indices = parts_of_entry(right)
    turned = indices != [*left.indices]
    if (turned and indices != [*left.indices[::-1]]) or not isinstance(matrix, Array) or matrix.sizes != name.sizes:
        return expr
    changes = {}
    for e in [e for e in expr.atoms(OfMatrix) if array_of(e.matrix) == name]:
        order = -1 if turned and not is_lower(e.matrix) else 1
        changes[e] = e.func(with_array(e.matrix, matrix), *e.args[1:][::order])
    return expr.xreplace(changes)


def _plain(number: Expr) -> Fraction | float:
    return Fraction(number.p, number.q) if number.is_Rational else float(number)


def _numbers(matrix: Matrix, point: dict) -> np.ndarray:
    if isinstance(matrix, Array):
        return np.asarray(point[matrix])
    inner = _numbers(matrix.args[0], point)
    if isinstance(matrix, Inverse):
        return np.array([*map(_plain, sympy.Matrix(inner).inv())], object).reshape(inner.shape)
    inner = inner.astype(float)
    return np.linalg.cholesky((inner + inner.T) / 2)


# ---- in print --------------------------------------------------------------------------------------------------------


class NamedNumber(Symbol):
    """A determinant, for printers."""

    tex = ""


def with_names(expr: Expr, typeset: Callable[[str], str]) -> Expr:
    """The expression with an array, A⁻¹ or chol(S), for each matrix, and a name for each determinant; for printers.

    The label of such an array is its NumPy code. typeset: the LaTeX of a name.
    """
    changes: dict[Expr, Expr] = {}
    for e in expr.atoms(OfMatrix):
        text, tex, code = written(e.matrix, typeset)
        if isinstance(e, MatrixEntry):
            n = size_of(e.matrix)
            cls = SymmetricArray if is_symmetric(e.matrix) else Array
            changes[e] = cls(code, (n, n), text=text, tex=tex)[e.args[1:]]
        else:
            changes[e] = NamedNumber(e.printed[0].format(text), real=True)
            changes[e].tex = e.printed[1].format(tex)
    return expr.xreplace(changes) if changes else expr


def written(matrix: Matrix, typeset: Callable[[str], str]) -> tuple[str, str, str]:
    """A matrix as text, as LaTeX and as NumPy code."""
    if isinstance(matrix, Array):
        return matrix.text, typeset(matrix.text), str(matrix.label)
    patterns = *matrix.printed, matrix.in_code[1]
    return tuple(map(str.format, patterns, written(matrix.args[0], typeset)))

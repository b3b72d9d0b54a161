"""Functions of matrices: solving, inverses, determinants, factorizations, norms.

NumPy's LAPACK computes the values for each matrix of a batch (..., n, n); the gradients are formulas between tensors.
For exact numbers elimination computes the values, so that the rules are proved like all others.
"""

import builtins
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tinytensor.core.dispatch import empty, host
from tinytensor.core.dtypes import int64
from tinytensor.core.kernel import OBJECT
from tinytensor.core.op import op
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension, list_of_tensors, only_floats, whole_number
from tinytensor.ops.arrays import apply_formula
from tinytensor.ops.creation import eye, zeros
from tinytensor.ops.elementwise import absolute, log
from tinytensor.ops.manipulation import diag_embed
from tinytensor.ops.products import matmul
from tinytensor.ops.reduce import norm, sum
from tinytensor.ops.shape import (
    broadcast_tensors,
    cat,
    clone,
    diagonal,
    expand,
    flatten,
    make_contiguous,
    movedim,
    roll,
    squeeze,
    transpose,
    tril,
    triu,
    unsqueeze,
)


class LinAlgError(RuntimeError):
    """A matrix has no solution or factorization: it is singular, or not positive definite."""


def _t(x: Tensor) -> Tensor:
    return transpose(x, -1, -2)


def _matrices(what: str, *xs: Tensor, square: bool = True) -> tuple[Tensor, ...]:
    """The arguments, checked: floating-point matrices (..., m, n), square unless square=False."""
    for x in xs:
        if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
            expected = "square matrices (..., n, n)" if square else "matrices (..., m, n)"
            raise RuntimeError(f"{what}: expected {expected}, got shape {x.shape}")
    return only_floats(what, *xs)


def _constant(what: str, x: Tensor, advice: str) -> Tensor:
    """x outside the tape; refused if it requires a gradient, which the operation does not have."""
    if x.requires_grad:
        raise NotImplementedError(f"{what}: its gradient is not offered; {advice}")
    return x.detach()


def _lapack(what: str, function: Callable, exact: Callable, x: np.ndarray, *more: np.ndarray) -> None:
    """The last array y = NumPy's function of the others (floats), or `exact` of each matrix (exact numbers)."""
    *inputs, y = x, *more
    if y.dtype is not OBJECT:
        try:
            with np.errstate(all="ignore"):  # NaN and infinities give NaN, det() gives 0
                y[...] = function(*inputs)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"{what}: {error}; shape {x.shape}") from None
        return
    for at in np.ndindex(x.shape[:-2]):
        y[at] = exact(*(a[at] for a in inputs))


def _eliminated(a: np.ndarray, b: np.ndarray) -> tuple:
    """(a^{-1} b, det a) of exact numbers, by Gauss's elimination."""
    n, det = len(a), 1
    rows = [[*left, *right] for left, right in zip(a.tolist(), b.tolist(), strict=True)]
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k] != 0), None)
        if pivot is None:
            return None, 0
        rows[k], rows[pivot] = rows[pivot], rows[k]
        det = det * rows[k][k] * (1 if pivot == k else -1)
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
    return np.array([row[n:] for row in rows], object).reshape(b.shape), det


def _exact_solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    solution, det = _eliminated(a, b)
    if det == 0:
        raise LinAlgError("solve: the matrix is singular")
    return solution


def _exact_det(a: np.ndarray):
    return _eliminated(a, a[:, :0])[1]


def _exact_cofactors(a: np.ndarray) -> np.ndarray:
    y = np.empty(a.shape, object)
    for i, j in np.ndindex(a.shape):
        rest = [[v for k, v in enumerate(row) if k != j] for h, row in enumerate(a.tolist()) if h != i]
        minor = np.array(rest, object).reshape(len(rest), len(rest))
        y[i, j] = _exact_det(minor) * (-1) ** (i + j)
    return y


def _exact_cholesky(a: np.ndarray) -> np.ndarray:
    """By Banachiewicz's formulas; it reads the mean of both triangles, as the rule shares the gradient."""
    rows, y = a.tolist(), [[0] * len(a) for _ in a]
    for i in range(len(a)):
        for j in range(i + 1):
            rest = (rows[i][j] + rows[j][i]) / 2 - builtins.sum([y[i][k] * y[j][k] for k in range(j)])
            y[i][j] = rest.sqrt() if i == j else rest / y[j][j]
    return np.array(y, object)


# --- Solving


@op
class solve_op:
    r"y = a^{-1} b, for each matrix of the batch"

    def forward(a, b):
        y = empty(b.shape, b.dtype)
        host(_lapack, "solve", np.linalg.solve, _exact_solve, a, b, y)
        return y

    def grad_a(g, y, a):
        return -matmul(solve_op(_t(a), g), _t(y))

    def grad_b(g, a):
        return solve_op(_t(a), g)


def _together(a: Tensor, b: Tensor, what: str) -> tuple[Tensor, Tensor]:
    """a and b (..., m, n) and (..., m, k) with one batch."""
    batch = broadcast_shape(f"{what}: the batch", a.shape[:-2], b.shape[:-2])
    if a.shape[-2] != b.shape[-2]:
        raise RuntimeError(f"{what}: matrices of {a.shape} and a right side of {b.shape} do not have as many rows")
    return expand(a, batch + a.shape[-2:]), expand(b, batch + b.shape[-2:])


@register("linalg.solve")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B (X A = B unless `left`), so X = A^{-1} B, of square matrices A (..., n, n).

    B is (..., n, k), or (..., n) where that is A's batch and n.
    """
    A, B = _matrices("solve", A)[0], B
    only_floats("solve", A, B)
    if B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]):
        if not left:
            raise RuntimeError(f"solve: left=False expects matrices (..., k, n), got shape {B.shape}")
        return squeeze(solve_op(*_together(A, unsqueeze(B, -1), "solve")), -1)
    if B.ndim < 2:
        raise RuntimeError(f"solve: a right side of shape {B.shape} does not fit matrices of {A.shape}")
    return _solve_matrices("solve", A, B, left)


def _solve_matrices(what: str, A: Tensor, B: Tensor, left: bool = True) -> Tensor:
    """A^{-1} B, or B A^{-1}, of matrices; B is never a batch of vectors."""
    if left:
        return solve_op(*_together(A, B, what))
    return make_contiguous(_t(solve_op(*_together(_t(A), _t(B), what))))


@register("linalg.solve_triangular")
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with A X = B (X A = B unless `left`), so X = A^{-1} B, of triangular A (..., n, n).

    The other triangle is not read. With `unitriangular` the diagonal counts as 1, and is not read either.
    """
    (A,) = _matrices("solve_triangular", A)
    A = (triu if upper else tril)(A, (1 if upper else -1) if unitriangular else 0)
    A = A + eye(A.shape[-1], dtype=A.dtype) if unitriangular else A
    return _solve_matrices("solve_triangular", A, *_matrices("solve_triangular", B, square=False), left)


@register("inverse linalg.inv linalg.inverse Tensor.inverse")
def inverse(A: Tensor) -> Tensor:
    """Y = A^{-1} of square matrices (..., n, n)."""
    (A,) = _matrices("inv", A)
    return solve_op(A, expand(eye(A.shape[-1], dtype=A.dtype), A.shape))


@register("matrix_power linalg.matrix_power Tensor.matrix_power")
def matrix_power(x: Tensor, n: int) -> Tensor:
    """y = x x ... x, n times, of square matrices (..., M, M); the identity for n = 0, of the inverse for n < 0."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"matrix_power: expected square matrices (..., M, M), got {x.shape}")
    if whole_number(n, "matrix_power: n") < 0:
        return matrix_power(inverse(x), -n)
    if n == 0:
        return clone(expand(eye(x.shape[-1], dtype=x.dtype), x.shape))
    half = matrix_power(x, n // 2) if n > 1 else x
    return clone(x) if n == 1 else matmul(matmul(half, half), x) if n % 2 else matmul(half, half)


# --- Determinants


@op
class det_op:
    r"y = \det a, for each matrix of the batch"

    def forward(a):
        y = empty(a.shape[:-2], a.dtype)
        host(_lapack, "det", np.linalg.det, _exact_det, a, y)
        return y

    def grad_a(g, a):
        return unsqueeze(unsqueeze(g, -1), -1) * cofactors(a)


@op
class cofactors:
    r"y_{ij} = \partial \det a / \partial a_{ij}, which is (\det a) (a^{-1})_{ji} where a is regular"

    def forward(a):
        y = empty(a.shape, a.dtype)
        host(_lapack, "det", _cofactors_by_svd, _exact_cofactors, a, y)
        return y

    def definition(a):
        return unsqueeze(unsqueeze(det_op(a), -1), -1) * _t(inverse(a))


def _cofactors_by_svd(a: np.ndarray) -> np.ndarray:
    """\\det(u v) u diag(the product of the other singular values) v: there is no division, so a may be singular."""
    u, s, v = np.linalg.svd(a)
    others = np.stack([np.delete(s, i, -1).prod(-1) for i in range(s.shape[-1])] or [s.sum(-1)], -1)
    turn = (np.linalg.det(u) * np.linalg.det(v))[..., None]
    return u * (others[..., : s.shape[-1]] * turn)[..., None, :] @ v


@register("det linalg.det Tensor.det")
def det(A: Tensor) -> Tensor:
    r"""y = \det A of square matrices (..., n, n).

    The gradient is right at singular matrices too; a second derivative there raises LinAlgError.
    """
    return det_op(*_matrices("det", A))


class SignLogabsdet(NamedTuple):
    """The result of slogdet()."""

    sign: Tensor
    logabsdet: Tensor


@op
class slogdet_op:
    r"y = \ln |\det a|, and the sign of \det a"

    saved, outputs = ("sign",), 2

    def forward(a):
        y, sign = (empty(a.shape[:-2], a.dtype) for _ in range(2))
        if a.dtype is OBJECT:
            host(_lapack, "slogdet", np.linalg.det, _exact_det, a, sign)
            return apply_formula(log.kernel, apply_formula(absolute.kernel, sign)), sign
        host(_sign_and_log, a, sign, y)
        return y, sign

    def grad_a(g, a):
        return unsqueeze(unsqueeze(g, -1), -1) * _t(inverse(a))


def _sign_and_log(a: np.ndarray, sign: np.ndarray, y: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        sign[...], y[...] = np.linalg.slogdet(a)


@register("slogdet linalg.slogdet Tensor.slogdet")
def slogdet(A: Tensor) -> SignLogabsdet:
    r"""y = \ln |\det A| of square matrices (..., n, n), of any size: (sign, logabsdet); 0 and -inf of singular ones."""
    y, sign = slogdet_op(*_matrices("slogdet", A))
    return SignLogabsdet(sign.sign(), y)


@register("logdet Tensor.logdet")
def logdet(A: Tensor) -> Tensor:
    r"""y = \ln \det A of square matrices (..., n, n); NaN where the determinant is below 0."""
    sign, y = slogdet(A)
    return log(sign) + y  # ln 1 = 0, ln 0 = -inf, ln -1 = NaN


# --- Factorizations


@op
class cholesky_op:
    r"y y^T = a, y lower triangular with a diagonal above 0; of a the lower triangle is read"

    def forward(a):
        y = empty(a.shape, a.dtype)
        host(_lapack, "cholesky", np.linalg.cholesky, _exact_cholesky, a, y)
        return y

    def grad_a(g, y):
        # dy = y Phi(y^{-1} da y^{-T}), Phi the lower triangle with half of the diagonal
        inner = tril(matmul(_t(y), tril(g)))
        inner = inner - diag_embed(diagonal(inner, 0, -2, -1) / 2)
        half = _t(solve_op(_t(y), _t(solve_op(_t(y), inner))))
        return (half + _t(half)) / 2


def _cholesky_of(what: str, A: Tensor, upper: bool) -> Tensor:
    y = cholesky_op(*_matrices(what, A))
    return _t(y) if upper else y


@register("linalg.cholesky")
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L L^T = A of symmetric positive definite matrices (..., n, n), L lower triangular (`upper`: L^T).

    The lower triangle of A is read, and the gradient shared with the upper one. LinAlgError if A is not one.
    """
    return _cholesky_of("cholesky", A, upper)


@register("cholesky Tensor.cholesky")
def cholesky_by_position(A: Tensor, upper: bool = False) -> Tensor:
    """L L^T = A: linalg.cholesky, with `upper` as a positional argument."""
    return _cholesky_of("cholesky", A, upper)


@register("cholesky_solve Tensor.cholesky_solve")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X = (L L^T)^{-1} B for the L of cholesky() (`upper`: for its L^T)."""
    (L,) = _matrices("cholesky_solve", _t(L) if upper else L)
    L = tril(L)
    half = _solve_matrices("cholesky_solve", L, *_matrices("cholesky_solve", B, square=False))
    return _solve_matrices("cholesky_solve", _t(L), half)


@register("cholesky_inverse Tensor.cholesky_inverse")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """Y = (L L^T)^{-1} for the L of cholesky() (`upper`: for its L^T)."""
    (L,) = _matrices("cholesky_inverse", L)
    return cholesky_solve(expand(eye(L.shape[-1], dtype=L.dtype), L.shape), L, upper)


class QR(NamedTuple):
    """The result of qr()."""

    Q: Tensor
    R: Tensor


def _into(what: str, function: Callable, shapes: Sequence[tuple], x: Tensor) -> list[Tensor]:
    """The results, of these shapes, of a NumPy function of x, outside the tape."""
    if x.dtype is OBJECT:
        raise NotImplementedError(f"{what}: exact numbers have no such factorization; take floats")
    results = [empty(shape, x.dtype) for shape in shapes]
    host(_write, what, function, x.detach()._data, results)
    return [Tensor.of(r) for r in results]


def _write(what: str, function: Callable, x: np.ndarray, results: list[np.ndarray]) -> None:
    try:
        with np.errstate(all="ignore"):
            values = function(x)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{what}: {error}; shape {x.shape}") from None
    for result, y in zip(results, values if isinstance(values, tuple) else (values,), strict=True):
        result[...] = y


@register("linalg.qr")
def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Q R = A of matrices (..., m, n), Q with orthonormal columns, R upper triangular: (Q, R).

    Q is (..., m, k) and R (..., k, n) with k = min(m, n), or k = m if mode is "complete"; with "r" Q is empty. There is
    a gradient for "reduced", and "complete" with m <= n, where the first k columns of A are independent.
    """
    (A,) = _matrices("qr", A, square=False)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr: mode {mode!r}: expected 'reduced', 'complete' or 'r'")
    (m, n), batch = A.shape[-2:], A.shape[:-2]
    k = m if mode == "complete" else builtins.min(m, n)
    if mode == "r":
        A = _constant("qr", A, "mode='reduced' has one")
        (R,) = _into("qr", lambda a: np.linalg.qr(a, "r"), [(*batch, k, n)], A)
        return QR(zeros(0, dtype=A.dtype), R)
    if A.requires_grad and k > n:
        _constant("qr", A, f"of mode='complete' with more rows than columns {A.shape}; mode='reduced' has one")
    Q, R = _into("qr", lambda a: tuple(np.linalg.qr(a, mode)), [(*batch, m, k), (*batch, k, n)], A)
    if not A.requires_grad or not k:
        return QR(Q, R)
    # Of B = A R^{-1}, with R as it is now, B^T B is the identity, and its Cholesky factor how R moves as A does.
    first, known = A[..., :k], R[..., :k]
    near = _t(solve_op(_t(known), _t(first)))
    moves = _t(cholesky_op(matmul(_t(near), near)))
    Q = _t(solve_op(_t(moves), _t(near)))
    return QR(Q, cat([matmul(moves, known), matmul(_t(Q), A[..., k:])], -1) if n > k else matmul(moves, known))


@register("qr Tensor.qr")
def qr_by_some(A: Tensor, some: bool = True) -> QR:
    """Q R = A: linalg.qr, "complete" unless `some`."""
    return qr(A, "reduced" if some else "complete")


_ADVICE = "compute it from solve(), cholesky() or det(), which have gradients, or detach() the input"


class EigenvaluesEigenvectors(NamedTuple):
    """The result of eigh()."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _uplo(UPLO: str) -> str:
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"eigh: UPLO is the triangle that is read, 'L' or 'U', not {UPLO!r}")
    return UPLO.upper()


@register("linalg.eigh")
def eigh(A: Tensor, UPLO: str = "L") -> EigenvaluesEigenvectors:
    r"""A v_i = \lambda_i v_i of symmetric matrices (..., n, n), ascending; the v_i are columns. No gradient."""
    (A,) = _matrices("eigh", A)
    A, UPLO = _constant("eigh", A, _ADVICE), _uplo(UPLO)
    return EigenvaluesEigenvectors(*_into("eigh", lambda a: tuple(np.linalg.eigh(a, UPLO)), [A.shape[:-1], A.shape], A))


@register("linalg.eigvalsh")
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    r"""A v_i = \lambda_i v_i: the \lambda_i of symmetric matrices (..., n, n), in ascending order. No gradient."""
    return eigh(A, UPLO).eigenvalues


class SVD(NamedTuple):
    """The result of linalg.svd()."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _singular(what: str, A: Tensor, full: bool) -> SVD:
    (A,) = _matrices(what, A, square=False)
    A = _constant(what, A, _ADVICE)
    (m, n), batch = A.shape[-2:], A.shape[:-2]
    k = builtins.min(m, n)
    shapes = [(*batch, m, m if full else k), (*batch, k), (*batch, n if full else k, n)]
    return SVD(*_into(what, lambda a: tuple(np.linalg.svd(a, full)), shapes, A))


@register("linalg.svd")
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """U diag(S) V^T = A of matrices (..., m, n), S in descending order: (U, S, Vh). No gradient.

    U is (..., m, m) and Vh (..., n, n), or (..., m, k) and (..., k, n), k = min(m, n), without `full_matrices`.
    """
    return _singular("svd", A, full_matrices)


@register("linalg.svdvals")
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """U diag(S) V^T = A: the singular values S of matrices (..., m, n), in descending order. No gradient."""
    return _singular("svdvals", A, False).S


class USV(NamedTuple):
    """The result of the older svd(): V, not its transpose."""

    U: Tensor
    S: Tensor
    V: Tensor


@register("svd Tensor.svd")
def svd_with_v(A: Tensor, some: bool = True, compute_uv: bool = True) -> USV:
    """U diag(S) V^T = A of matrices (..., m, n): (U, S, V). linalg.svd gives V^T. No gradient."""
    U, S, Vh = _singular("svd", A, not some)
    return (
        USV(U, S, _t(Vh))
        if compute_uv
        else USV(
            zeros(*A.shape[:-1], A.shape[-2], dtype=A.dtype),
            S,
            zeros(*A.shape[:-2], A.shape[-1], A.shape[-1], dtype=A.dtype),
        )
    )


def _limit(S: Tensor, shape: tuple, atol, rtol) -> Tensor:
    """The limit above which singular values count: atol, or rtol times the largest; max(m, n) eps if none is given."""
    if rtol is None:
        some = atol is not None and (not isinstance(atol, Tensor) or builtins.bool((atol > 0).all()))
        rtol = 0.0 if some else builtins.max(shape[-2:]) * float(np.finfo(S.dtype).eps)
    largest = S.amax(-1, keepdim=True) if S.shape[-1] else sum(S, -1, keepdim=True)
    parts = [unsqueeze(v, -1) if isinstance(v, Tensor) and v.ndim else v for v in (atol or 0.0, rtol)]
    return (largest * parts[1]).clamp(min=parts[0])


@register("linalg.matrix_rank")
def matrix_rank(
    A: Tensor, tol=None, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> Tensor:
    """y = how many singular values of matrices (..., m, n) are above a limit, int64.

    It is the larger of `atol` and `rtol` times the largest of them; rtol is max(m, n) eps unless one is given.
    """
    S = _singular("matrix_rank", A.detach(), False).S
    return sum(_limit(S, A.shape, tol if atol is None else atol, rtol) < S, -1)


@op
class pinv_op:
    r"y = a^+, the inverse of Moore and Penrose: a y a = a, y a y = y, a y and y a symmetric"

    def forward(a, atol, rtol):
        y = empty((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
        host(_lapack, "pinv", lambda x: _pseudoinverse(x, atol, rtol), _exact_pinv, a, y)
        return y

    def grad_a(g, y, a):
        # Golub and Pereyra 1973, for changes that leave the rank as it is
        back = matmul(matmul(_t(y), g), _t(y))
        outside = _t(g) - matmul(a, matmul(y, _t(g)))
        inside = _t(g) - matmul(matmul(_t(g), y), a)
        return matmul(outside, matmul(y, _t(y))) + matmul(matmul(_t(y), y), inside) - back


def _pseudoinverse(a: np.ndarray, atol: float, rtol: float | None) -> np.ndarray:
    if rtol is None:
        rtol = 0.0 if atol else builtins.max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
    u, s, v = np.linalg.svd(a, False)
    limit = np.maximum(rtol * s.max(-1, initial=0, keepdims=True), atol)
    counts = s > limit
    inverted = np.where(counts, 1 / np.where(counts, s, 1), 0)
    return np.swapaxes(v, -1, -2) * inverted[..., None, :] @ np.swapaxes(u, -1, -2)


def _exact_pinv(a: np.ndarray) -> np.ndarray:
    """(a^T a)^{-1} a^T of exact numbers, where the columns are independent, or the same of rows."""
    return _exact_solve(a.T @ a, a.T) if a.shape[0] >= a.shape[1] else _exact_solve(a @ a.T, a).T


@register("pinverse linalg.pinv Tensor.pinverse")
def pinv(
    A: Tensor,
    rcond: float | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    hermitian: bool = False,
) -> Tensor:
    r"""Y = A^+ of matrices (..., m, n), the inverse of Moore and Penrose (..., n, m).

    Singular values up to the larger of `atol` and `rtol` (or rcond) times the largest count as 0; rtol is max(m, n) eps
    unless one is given. The gradient is that among matrices of the same rank.
    """
    (A,) = _matrices("pinv", A, square=False)
    rtol = rcond if rtol is None else rtol
    return pinv_op(A, float(atol or 0), None if rtol is None else float(rtol))


class LeastSquares(NamedTuple):
    """The result of lstsq()."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@register("linalg.lstsq")
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    r"""X = A^+ B, for which |A X - B|^2 is smallest, and of several X the shortest: (solution, residuals, rank, ...).

    A is (..., m, n), B (..., m, k), or (..., m) where that is A's batch and m. The singular values give the solution,
    whatever the driver. The driver says which results come with it: "gelsy" (the default) the rank; "gelsd" and
    "gelss" the rank, the singular values and, for m > n and full rank, the residuals |A X - B|^2; "gels" only these.
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"lstsq: driver {driver!r}: expected gels, gelsy, gelsd or gelss")
    _matrices("lstsq", A, square=False)
    only_floats("lstsq", A, B)
    vectors = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    A, B = _together(A, unsqueeze(B, -1) if vectors else B, "lstsq")
    X = matmul(pinv(A, rcond), B)
    rank, values, residuals = matrix_rank(A, rtol=rcond), zeros(0, dtype=A.dtype), flatten(X)[:0]
    (m, n), more = A.shape[-2:], driver in ("gelsd", "gelss")
    if (more or driver == "gels") and m > n and builtins.bool((rank == n).all()):
        residuals = sum((matmul(A, X) - B) ** 2, -2)
    if more:
        values = svdvals(A.detach())
    if driver == "gels":
        rank = zeros(0, dtype=int64)
    return LeastSquares(squeeze(X, -1) if vectors else X, residuals, rank, values)


# --- Products


@register("linalg.multi_dot")
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Y = A_1 A_2 ... A_n, in the order of products that costs least; A_1 may be a row (m), A_n a column (m)."""
    parts = list(list_of_tensors(tensors, "multi_dot"))
    if len(parts) < 2:
        raise RuntimeError(f"multi_dot: expected at least 2 tensors, got {len(parts)}")
    row, column = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = unsqueeze(parts[0], 0) if row else parts[0]
    parts[-1] = unsqueeze(parts[-1], 1) if column else parts[-1]
    shapes = [x.shape for x in parts]
    if builtins.any(len(s) != 2 for s in shapes) or builtins.any(a[-1] != b[0] for a, b in pairwise(shapes)):
        raise RuntimeError(f"multi_dot: matrices of shapes {', '.join(map(str, shapes))} do not fit one another")
    y = _chain(parts, _cheapest([s[0] for s in shapes] + [shapes[-1][1]]), 0, len(parts) - 1)
    y = squeeze(y, 0) if row else y
    return squeeze(y, -1) if column else y


@register("chain_matmul")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """Y = A_1 A_2 ... A_n, in the order of products that costs least."""
    return clone(matrices[0]) if len(matrices) == 1 else multi_dot(matrices)


def _cheapest(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices i ... j; matrix i is sizes[i] by sizes[i + 1]."""
    cost, cut = {(i, i): 0 for i in range(len(sizes) - 1)}, {}
    for length in range(1, len(sizes) - 1):
        for i in range(len(sizes) - 1 - length):
            j = i + length
            ways = [(cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i, j], cut[i, j] = builtins.min(ways)
    return cut


def _chain(parts: list[Tensor], cut: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return parts[i]
    return matmul(_chain(parts, cut, i, cut[i, j]), _chain(parts, cut, cut[i, j] + 1, j))


@register("linalg.cross")
def linalg_cross(a: Tensor, b: Tensor, *, dim: int = -1) -> Tensor:
    """y = a x b = (a_2 b_3 - a_3 b_2, a_3 b_1 - a_1 b_3, a_1 b_2 - a_2 b_1), along `dim`; others broadcast."""
    if a.ndim != b.ndim:
        raise RuntimeError(f"cross: expected as many dimensions of both, got {a.shape} and {b.shape}")
    dim = dimension(a, dim, "cross")
    if a.ndim == 0 or a.shape[dim] != 3 or b.shape[dim] != 3:
        raise RuntimeError(f"cross: expected the size 3 along dimension {dim}, got shapes {a.shape} and {b.shape}")
    a, b = broadcast_tensors(a, b)
    return roll(a, -1, dim) * roll(b, -2, dim) - roll(a, -2, dim) * roll(b, -1, dim)


@register("cross Tensor.cross")
def cross(a: Tensor, b: Tensor, dim: int | None = None) -> Tensor:
    """y = a x b, of vectors along `dim`: the first dimension of size 3 unless given."""
    if dim is None:
        dim = next((d for d, n in enumerate(a.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError(f"cross: no dimension of shape {a.shape} has the size 3")
    return linalg_cross(a, b, dim=dim)


@register("linalg.vecdot")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    r"""z = \sum_i x_i y_i of vectors along `dim`; other dimensions broadcast."""
    x, y = only_floats("vecdot", x, y)
    return sum(x * y, dim)


@register("linalg.matmul")
def linalg_matmul(a: Tensor, b: Tensor) -> Tensor:
    r"""y_{ij} = \sum_k a_{ik} b_{kj}: matmul()."""
    return matmul(a, b)


@register("linalg.diagonal")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """y_i = A_{ii} of matrices (..., m, n), a view; another diagonal by `offset`."""
    return diagonal(A, offset, dim1, dim2)


# --- Norms


@register("linalg.vector_norm")
def vector_norm(
    x: Tensor, ord: float = 2, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype=None
) -> Tensor:
    r"""y = (\sum_i |x_i|^p)^{1/p} over `dim` (all unless given), p = `ord`; inf: the largest |x|."""
    only_floats("vector_norm", x)
    return norm(x if dtype is None else x.to(dtype), ord, dim, keepdim)


@register("linalg.matrix_norm")
def matrix_norm(
    A: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype=None
) -> Tensor:
    r"""y = (\sum_{ij} a_{ij}^2)^{1/2} ("fro") of matrices in two dimensions, or another norm.

    1 and -1: the largest and the smallest sum of a column's |a|; inf and -inf: of a row's; 2 and -2: the largest and
    the smallest singular value; "nuc": their sum. The last three have no gradient.
    """
    only_floats("matrix_norm", A)
    if not isinstance(dim, Sequence) or len(dim) != 2 or A.ndim < 2:
        raise RuntimeError(f"matrix_norm: expected two dimensions of a matrix, got dim={dim} for shape {A.shape}")
    rows, columns = (dimension(A, d, "matrix_norm") for d in dim)
    if rows == columns:
        raise RuntimeError(f"matrix_norm: dim={dim} is twice the same dimension")
    A = A if dtype is None else A.to(dtype)
    if ord == "fro":
        return norm(A, 2, (rows, columns), keepdim)
    y = movedim(A, (rows, columns), (-2, -1))
    if ord in ("nuc", 2, -2):
        S = svdvals(y)
        y = sum(S, -1) if ord == "nuc" else S.amax(-1) if ord == 2 else S.amin(-1)
    elif not isinstance(ord, str) and abs(ord) in (1, math.inf):
        sums = sum(absolute(y), -2 if abs(ord) == 1 else -1)
        y = sums.amax(-1) if ord > 0 else sums.amin(-1)
    else:
        raise RuntimeError(f"matrix_norm: ord={ord!r}: expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    for d in sorted((rows, columns)) if keepdim else ():
        y = unsqueeze(y, d)
    return y


@register("linalg.norm")
def linalg_norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype=None,
) -> Tensor:
    r"""y = (\sum_i |x_i|^p)^{1/p}: vector_norm() over one `dim`, matrix_norm() over two; p = `ord`, 2 unless given.

    With `ord` but no `dim`, A must be a vector or a matrix; without both, the norm is over all elements.
    """
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if dims is None and A.ndim not in (1, 2):
        raise RuntimeError(f"norm: with ord={ord!r} and no dim expected a vector or a matrix, got shape {A.shape}")
    if (A.ndim if dims is None else len(dims)) == 2:
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"norm: ord={ord!r} is a norm of matrices, in two dimensions; got dim={dim}")
    return vector_norm(A, ord, dims, keepdim, dtype=dtype)

"""Functions of matrices that people derive by hand, with the number of terms of a textbook's gradient.

A gradient's terms are counted with all brackets multiplied out, in the names of the function's own lines and arguments,
and of Φ: -(S⁻¹ - S⁻¹ d dᵀ S⁻¹)/2 has two.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import tinytensor as tt
from tinytensor import linalg
from tinytensor.symbolic import derive, positive_definite, symmetric
from tinytensor.symbolic.derive.derivation import Derivation


def eye(n):
    return tt.eye(n, dtype=tt.float64)


def gaussian(x, m, S):
    d = x - m
    return -0.5 * (d @ linalg.inv(S) @ d) - 0.5 * tt.logdet(S) - 0.5 * len(x) * math.log(2 * math.pi)


def gaussian_by_solve(x, m, S):
    d = x - m
    return -0.5 * (d @ linalg.solve(S, d)) - 0.5 * linalg.slogdet(S).logabsdet


def gaussian_by_cholesky(x, m, S):
    L = linalg.cholesky(S)
    d = x - m
    z = linalg.solve_triangular(L, d[:, None], upper=False)
    return -0.5 * (z * z).sum() - L.diagonal().log().sum()


def gaussian_by_det(x, m, S):
    d = x - m
    return -0.5 * (d @ linalg.inv(S) @ d) - 0.5 * tt.log(linalg.det(2 * math.pi * S))


def gaussian_of_precision(x, m, P):
    d = x - m
    return 0.5 * tt.logdet(P) - 0.5 * (d @ P @ d)


def gaussian_of_factor(x, m, L):
    d = x - m
    z = linalg.solve_triangular(L, d[:, None], upper=False)
    return -0.5 * (z * z).sum() - L.diagonal().log().sum()


def divergence(m, S, n, T):
    d = n - m
    inverse = linalg.inv(T)
    return 0.5 * (tt.trace(inverse @ S) + d @ inverse @ d - len(m) + tt.logdet(T) - tt.logdet(S))


def ridge(X, y, lam):
    C = X.T @ X + lam * eye(X.shape[1])
    w = linalg.solve(C, X.T @ y)
    return ((X @ w - y) ** 2).sum() + lam * (w * w).sum()


def ridge_on_other_data(X, y, lam, Z, t):
    w = linalg.solve(X.T @ X + lam * eye(X.shape[1]), X.T @ y)
    return ((Z @ w - t) ** 2).sum()


def gain(P, H, R):
    return P @ H.T @ linalg.inv(H @ P @ H.T + R)


def evidence(K, y, s):
    C = K + s**2 * eye(len(y))
    return -0.5 * (y @ linalg.solve(C, y)) - 0.5 * tt.logdet(C)


def log_det_with_noise(K, s):
    return tt.logdet(K + s**2 * eye(K.shape[0]))


def quadratic(x, A):
    return x @ A @ x


def trace_of_product(A, X, B):
    return tt.trace(A @ X @ B)


def squared_distance(A, X, B):
    return ((A @ X - B) ** 2).sum()


def frobenius(A, X, B):
    return linalg.norm(A @ X - B)


def mahalanobis(x, m, S):
    d = x - m
    return tt.sqrt(d @ linalg.inv(S) @ d)


def wasserstein(m, n, a, b):  # of Gaussians whose covariances have the same eigenvectors, and the eigenvalues a and b
    return ((m - n) ** 2).sum() + ((a.sqrt() - b.sqrt()) ** 2).sum()


def log_det(A):
    return tt.logdet(A)


def log_abs_det(A):
    return linalg.slogdet(A).logabsdet


def determinant(A):
    return linalg.det(A)


def inverse(A):
    return linalg.inv(A)


def trace_of_inverse(A):
    return tt.trace(linalg.inv(A))


def through_inverse(A, b):
    return b @ linalg.inv(A) @ b


def log_det_of_gram(X):
    return tt.logdet(X.T @ X)


def factor(S):
    return linalg.cholesky(S)


def sample_of_gaussian(m, S, e, t):
    return ((m + linalg.cholesky(S) @ e - t) ** 2).sum()


def solved_by_factor(S, x):
    return x @ tt.cholesky_solve(x[:, None], linalg.cholesky(S))[:, 0]


def pseudoinverse(A, b):
    return linalg.pinv(A) @ b


def cube(A):
    return tt.trace(linalg.matrix_power(A, 3))


def inverse_square(A):
    return tt.trace(linalg.matrix_power(A, -2))


def largest_column(A):
    return linalg.norm(A, 1)


def with_outer(x, y, A):
    return (tt.outer(x, y) * A).sum()


def with_kron(A, B, C):
    return (tt.kron(A, B) @ C).sum()


def with_diag(x, A):
    return tt.trace(tt.diag(x) @ A)


def diagonal_squares(A):
    return (tt.diag(A) ** 2).sum()


def upper_part(A, B):
    return (tt.triu(A) * B).sum()


def below_diagonal(A, x):
    return x @ tt.tril(A, -1) @ x


@dataclass(frozen=True)
class OfMatrices:
    """A function, the sizes of its arguments, the facts, and for each gradient the number of terms in a textbook."""

    function: Callable
    arguments: dict
    terms: dict[str, int]
    where: tuple = ()

    def __str__(self):
        return self.function.__name__ + "".join(f" {fact.what}" for fact in self.where if not isinstance(fact, str))


D, N, DD, NN = ("D",), ("N",), ("D", "D"), ("N", "N")
XM, COVARIANCE = {"x": D, "m": D}, (positive_definite("S"),)
TABLE = [
    OfMatrices(gaussian, XM | {"S": DD}, {"x": 1, "m": 1, "S": 2}, COVARIANCE),
    OfMatrices(gaussian, XM | {"S": DD}, {"x": 1, "m": 1, "S": 2}, (symmetric("S"),)),
    OfMatrices(gaussian, XM | {"S": DD}, {"x": 2, "m": 2, "S": 2}),
    OfMatrices(gaussian_by_solve, XM | {"S": DD}, {"x": 1, "m": 1, "S": 2}, COVARIANCE),
    OfMatrices(gaussian_by_cholesky, XM | {"S": DD}, {"x": 1, "m": 1, "S": 2}, COVARIANCE),
    OfMatrices(gaussian_by_det, XM | {"S": DD}, {"x": 1, "m": 1, "S": 2}, COVARIANCE),
    OfMatrices(gaussian_of_precision, XM | {"P": DD}, {"x": 1, "m": 1, "P": 2}, (positive_definite("P"),)),
    OfMatrices(gaussian_of_factor, XM | {"L": DD}, {"x": 1, "m": 1, "L": 2}),
    OfMatrices(
        divergence,
        {"m": D, "S": DD, "n": D, "T": DD},
        {"m": 1, "n": 1, "S": 2, "T": 3},
        (positive_definite("S"), positive_definite("T")),
    ),
    OfMatrices(ridge, {"X": ("N", "D"), "y": N, "lam": ()}, {"lam": 1, "y": 2, "X": 2}),
    OfMatrices(
        ridge_on_other_data,
        {"X": ("N", "D"), "y": N, "lam": (), "Z": ("M", "D"), "t": ("M",)},
        {"lam": 2, "y": 2, "X": 6, "Z": 2, "t": 2},
    ),
    OfMatrices(
        gain,
        {"P": DD, "H": ("M", "D"), "R": ("M", "M")},
        {"P": 2, "H": 3, "R": 1},
        (positive_definite("P"), positive_definite("R")),
    ),
    OfMatrices(evidence, {"K": NN, "y": N, "s": ()}, {"K": 2, "y": 1, "s": 2}, (positive_definite("K"),)),
    OfMatrices(log_det_with_noise, {"K": NN, "s": ()}, {"K": 1, "s": 1}, (positive_definite("K"),)),
    OfMatrices(quadratic, {"x": D, "A": DD}, {"x": 2, "A": 1}),
    OfMatrices(quadratic, {"x": D, "A": DD}, {"x": 1, "A": 1}, (symmetric("A"),)),
    OfMatrices(trace_of_product, {"A": ("K", "N"), "X": ("N", "M"), "B": ("M", "K")}, {"A": 1, "X": 1, "B": 1}),
    OfMatrices(squared_distance, {"A": ("N", "D"), "X": ("D", "K"), "B": ("N", "K")}, {"A": 2, "X": 2, "B": 2}),
    OfMatrices(frobenius, {"A": ("N", "D"), "X": ("D", "K"), "B": ("N", "K")}, {"A": 2, "X": 2, "B": 2}),
    OfMatrices(mahalanobis, XM | {"S": DD}, {"x": 1, "m": 1, "S": 1}, COVARIANCE),
    OfMatrices(wasserstein, {"m": D, "n": D, "a": D, "b": D}, {"m": 2, "n": 2, "a": 2, "b": 2}),
    OfMatrices(log_det, {"A": DD}, {"A": 1}),
    OfMatrices(log_abs_det, {"A": DD}, {"A": 1}),
    OfMatrices(determinant, {"A": DD}, {"A": 1}),
    OfMatrices(inverse, {"A": DD}, {"A": 1}),
    OfMatrices(trace_of_inverse, {"A": DD}, {"A": 1}),
    OfMatrices(through_inverse, {"A": DD, "b": D}, {"A": 1, "b": 2}),
    OfMatrices(log_det_of_gram, {"X": ("N", "D")}, {"X": 1}, ("N >= D",)),
    OfMatrices(factor, {"S": DD}, {"S": 2}, COVARIANCE),  # L⁻ᵀ (Φ + Φᵀ) L⁻¹/2
    OfMatrices(sample_of_gaussian, {"m": D, "S": DD, "e": D, "t": D}, {"m": 3, "S": 2, "e": 3, "t": 3}, COVARIANCE),
    OfMatrices(solved_by_factor, {"S": DD, "x": D}, {"S": 1, "x": 1}, COVARIANCE),
    OfMatrices(pseudoinverse, {"A": ("N", "D"), "b": N}, {"A": 3, "b": 1}, ("N >= D",)),
    OfMatrices(cube, {"A": DD}, {"A": 1}),
    OfMatrices(inverse_square, {"A": DD}, {"A": 1}),
    OfMatrices(largest_column, {"A": ("N", "K")}, {"A": 1}),
    OfMatrices(with_outer, {"x": N, "y": ("K",), "A": ("N", "K")}, {"x": 1, "y": 1, "A": 1}),
    OfMatrices(with_kron, {"A": ("N", "K"), "B": ("M", "L"), "C": ("K*L", "P")}, {"A": 1, "B": 1, "C": 1}),
    OfMatrices(with_diag, {"x": D, "A": DD}, {"x": 1, "A": 1}),
    OfMatrices(diagonal_squares, {"A": DD}, {"A": 1}),
    OfMatrices(upper_part, {"A": DD, "B": DD}, {"A": 2, "B": 2}),  # 1 - [i ≤ d - 1] counts twice
    OfMatrices(below_diagonal, {"A": DD, "x": D}, {"A": 1, "x": 2}),
]


@cache
def derived(number: int) -> Derivation:
    one = TABLE[number]
    return derive(one.function, where=one.where, **one.arguments)

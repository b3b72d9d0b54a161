"""Functions of matrices that people derive by hand."""

import math
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


D, N, DD, NN = ("D",), ("N",), ("D", "D"), ("N", "N")
XM, COVARIANCE = {"x": D, "m": D}, (positive_definite("S"),)
TABLE = {  # name: (function, arguments, and where)
    "gaussian positive definite": (gaussian, XM | {"S": DD}, COVARIANCE),
    "gaussian symmetric": (gaussian, XM | {"S": DD}, (symmetric("S"),)),
    "gaussian": (gaussian, XM | {"S": DD}),
    "gaussian_by_solve positive definite": (gaussian_by_solve, XM | {"S": DD}, COVARIANCE),
    "gaussian_by_cholesky positive definite": (gaussian_by_cholesky, XM | {"S": DD}, COVARIANCE),
    "gaussian_by_det positive definite": (gaussian_by_det, XM | {"S": DD}, COVARIANCE),
    "gaussian_of_precision positive definite": (gaussian_of_precision, XM | {"P": DD}, (positive_definite("P"),)),
    "gaussian_of_factor": (gaussian_of_factor, XM | {"L": DD}),
    "divergence positive definite positive definite": (
        divergence,
        {"m": D, "S": DD, "n": D, "T": DD},
        (positive_definite("S"), positive_definite("T")),
    ),
    "ridge": (ridge, {"X": ("N", "D"), "y": N, "lam": ()}),
    "ridge_on_other_data": (ridge_on_other_data, {"X": ("N", "D"), "y": N, "lam": (), "Z": ("M", "D"), "t": ("M",)}),
    "gain positive definite positive definite": (
        gain,
        {"P": DD, "H": ("M", "D"), "R": ("M", "M")},
        (positive_definite("P"), positive_definite("R")),
    ),
    "evidence positive definite": (evidence, {"K": NN, "y": N, "s": ()}, (positive_definite("K"),)),
    "log_det_with_noise positive definite": (log_det_with_noise, {"K": NN, "s": ()}, (positive_definite("K"),)),
    "quadratic": (quadratic, {"x": D, "A": DD}),
    "quadratic symmetric": (quadratic, {"x": D, "A": DD}, (symmetric("A"),)),
    "trace_of_product": (trace_of_product, {"A": ("K", "N"), "X": ("N", "M"), "B": ("M", "K")}),
    "squared_distance": (squared_distance, {"A": ("N", "D"), "X": ("D", "K"), "B": ("N", "K")}),
    "frobenius": (frobenius, {"A": ("N", "D"), "X": ("D", "K"), "B": ("N", "K")}),
    "mahalanobis positive definite": (mahalanobis, XM | {"S": DD}, COVARIANCE),
    "wasserstein": (wasserstein, {"m": D, "n": D, "a": D, "b": D}),
    "log_det": (log_det, {"A": DD}),
    "log_abs_det": (log_abs_det, {"A": DD}),
    "determinant": (determinant, {"A": DD}),
    "inverse": (inverse, {"A": DD}),
    "trace_of_inverse": (trace_of_inverse, {"A": DD}),
    "through_inverse": (through_inverse, {"A": DD, "b": D}),
    "log_det_of_gram": (log_det_of_gram, {"X": ("N", "D")}, ("N >= D",)),
    "factor positive definite": (factor, {"S": DD}, COVARIANCE),
    "sample_of_gaussian positive definite": (sample_of_gaussian, {"m": D, "S": DD, "e": D, "t": D}, COVARIANCE),
    "solved_by_factor positive definite": (solved_by_factor, {"S": DD, "x": D}, COVARIANCE),
    "pseudoinverse": (pseudoinverse, {"A": ("N", "D"), "b": N}, ("N >= D",)),
    "cube": (cube, {"A": DD}),
    "inverse_square": (inverse_square, {"A": DD}),
    "largest_column": (largest_column, {"A": ("N", "K")}),
    "with_outer": (with_outer, {"x": N, "y": ("K",), "A": ("N", "K")}),
    "with_kron": (with_kron, {"A": ("N", "K"), "B": ("M", "L"), "C": ("K*L", "P")}),
    "with_diag": (with_diag, {"x": D, "A": DD}),
    "diagonal_squares": (diagonal_squares, {"A": DD}),
    "upper_part": (upper_part, {"A": DD, "B": DD}),
    "below_diagonal": (below_diagonal, {"A": DD, "x": D}),
    "trace with a symmetric factor": (lambda A, S: tt.trace(A @ S), {"A": DD, "S": DD}, symmetric("S")),
    "trace_of_product of squares": (trace_of_product, {"A": DD, "X": DD, "B": DD}),
}


@cache
def derived(name: str) -> Derivation:
    function, arguments, *where = TABLE[name]
    return derive(function, *where, **arguments)

"""Functions of matrices that people derive by hand."""

import math

import tinytensor as tt
from examples.gradients.functions import inverse, log_det, quadratic, trace_of_product
from tests.symbolic.programs import derivations, programs
from tinytensor import linalg
from tinytensor.symbolic import positive_definite, symmetric


def eye(n):
    return tt.eye(n, dtype=tt.float64)


def gaussian(x, m, S):
    d = x - m
    return -0.5 * (d @ linalg.inv(S) @ d) - 0.5 * tt.logdet(S) - 0.5 * len(x) * math.log(2 * math.pi)


def gaussian_of_precision(x, m, P):
    d = x - m
    return 0.5 * tt.logdet(P) - 0.5 * (d @ P @ d)


def divergence(m, S, n, T):
    d = n - m
    inverse = linalg.inv(T)
    return 0.5 * (tt.trace(inverse @ S) + d @ inverse @ d - len(m) + tt.logdet(T) - tt.logdet(S))


def evidence(K, y, s):
    C = K + s**2 * eye(len(y))
    return -0.5 * (y @ linalg.solve(C, y)) - 0.5 * tt.logdet(C)


def ridge_of(X):
    return X @ linalg.inv(X.T @ X + eye(X.shape[1]))


def trace_of_inverse(A):
    return tt.trace(linalg.inv(A))


D, N, M, NUMBER, ND, MD, DD, NN = ("D",), ("N",), ("M",), (), ("N", "D"), ("M", "D"), ("D", "D"), ("N", "N")
XM, COVARIANCE = {"x": D, "m": D}, (positive_definite("S"),)


class OfCovariance:
    """Functions of a positive definite S."""

    def gaussian_by_solve(x: D, m: D, S: DD):
        d = x - m
        return -0.5 * (d @ linalg.solve(S, d)) - 0.5 * linalg.slogdet(S).logabsdet

    def gaussian_by_cholesky(x: D, m: D, S: DD):
        L = linalg.cholesky(S)
        d = x - m
        z = linalg.solve_triangular(L, d[:, None], upper=False)
        return -0.5 * (z * z).sum() - L.diagonal().log().sum()

    def gaussian_by_det(x: D, m: D, S: DD):
        d = x - m
        return -0.5 * (d @ linalg.inv(S) @ d) - 0.5 * tt.log(linalg.det(2 * math.pi * S))

    def mahalanobis(x: D, m: D, S: DD):
        d = x - m
        return tt.sqrt(d @ linalg.inv(S) @ d)


class Matrices:
    """Functions with the sizes of their arguments."""

    def gaussian_of_factor(x: D, m: D, L: DD):
        d = x - m
        z = linalg.solve_triangular(L, d[:, None], upper=False)
        return -0.5 * (z * z).sum() - L.diagonal().log().sum()

    def ridge(X: ND, y: N, lam: NUMBER):
        C = X.T @ X + lam * eye(X.shape[1])
        w = linalg.solve(C, X.T @ y)
        return ((X @ w - y) ** 2).sum() + lam * (w * w).sum()

    def ridge_on_other_data(X: ND, y: N, lam: NUMBER, Z: MD, t: M):
        w = linalg.solve(X.T @ X + lam * eye(X.shape[1]), X.T @ y)
        return ((Z @ w - t) ** 2).sum()


TABLE = {  # name: (function, arguments, and where)
    **programs(OfCovariance, None, COVARIANCE),
    **programs(Matrices),
    "gaussian positive definite": (gaussian, XM | {"S": DD}, COVARIANCE),
    "gaussian symmetric": (gaussian, XM | {"S": DD}, (symmetric("S"),)),
    "gaussian": (gaussian, XM | {"S": DD}),
    "gaussian_of_precision positive definite": (gaussian_of_precision, XM | {"P": DD}, (positive_definite("P"),)),
    "divergence positive definite positive definite": (divergence, {"m": D, "S": DD, "n": D, "T": DD},
        (positive_definite("S"), positive_definite("T"))),
    "gain positive definite positive definite": (lambda P, H, R: P @ H.T @ linalg.inv(H @ P @ H.T + R),
        {"P": DD, "H": ("M", "D"), "R": ("M", "M")}, (positive_definite("P"), positive_definite("R"))),
    "evidence positive definite": (evidence, {"K": NN, "y": N, "s": ()}, (positive_definite("K"),)),
    "log_det_with_noise positive definite": (lambda K, s: tt.logdet(K + s**2 * eye(K.shape[0])), {"K": NN, "s": ()},
        (positive_definite("K"),)),
    "quadratic": (quadratic, {"x": D, "A": DD}),
    "quadratic symmetric": (quadratic, {"x": D, "A": DD}, (symmetric("A"),)),
    "trace_of_product": (trace_of_product, {"A": ("K", "N"), "X": ("N", "M"), "B": ("M", "K")}),
    "squared_distance": (lambda A, X, B: ((A @ X - B) ** 2).sum(), {"A": ("N", "D"), "X": ("D", "K"), "B": ("N", "K")}),
    "frobenius": (lambda A, X, B: linalg.norm(A @ X - B), {"A": ("N", "D"), "X": ("D", "K"), "B": ("N", "K")}),
    "wasserstein": (lambda m, n, a, b: ((m - n) ** 2).sum() + ((a.sqrt() - b.sqrt()) ** 2).sum(),
        {"m": D, "n": D, "a": D, "b": D}),
    "log_det": (log_det, {"A": DD}),
    "log_abs_det": (lambda A: linalg.slogdet(A).logabsdet, {"A": DD}),
    "determinant": (lambda A: linalg.det(A), {"A": DD}),
    "inverse": (inverse, {"A": DD}),
    "trace_of_inverse": (trace_of_inverse, {"A": DD}),
    "through_inverse": (lambda A, b: b @ linalg.inv(A) @ b, {"A": DD, "b": D}),
    "log_det_of_gram": (lambda X: tt.logdet(X.T @ X), {"X": ("N", "D")}, ("N >= D",)),
    "factor positive definite": (lambda S: linalg.cholesky(S), {"S": DD}, COVARIANCE),
    "sample_of_gaussian positive definite": (lambda m, S, e, t: ((m + linalg.cholesky(S) @ e - t) ** 2).sum(),
        {"m": D, "S": DD, "e": D, "t": D}, COVARIANCE),
    "solved_by_factor positive definite": (lambda S, x: x @ tt.cholesky_solve(x[:, None], linalg.cholesky(S))[:, 0],
        {"S": DD, "x": D}, COVARIANCE),
    "pseudoinverse": (lambda A, b: linalg.pinv(A) @ b, {"A": ("N", "D"), "b": N}, ("N >= D",)),
    "cube": (lambda A: tt.trace(linalg.matrix_power(A, 3)), {"A": DD}),
    "inverse_square": (lambda A: tt.trace(linalg.matrix_power(A, -2)), {"A": DD}),
    "largest_column": (lambda A: linalg.norm(A, 1), {"A": ("N", "K")}),
    "with_outer": (lambda x, y, A: (tt.outer(x, y) * A).sum(), {"x": N, "y": ("K",), "A": ("N", "K")}),
    "with_kron": (lambda A, B, C: (tt.kron(A, B) @ C).sum(), {"A": ("N", "K"), "B": ("M", "L"), "C": ("K*L", "P")}),
    "with_diag": (lambda x, A: tt.trace(tt.diag(x) @ A), {"x": D, "A": DD}),
    "upper_part": (lambda A, B: (tt.triu(A) * B).sum(), {"A": DD, "B": DD}),
    "below_diagonal": (lambda A, x: x @ tt.tril(A, -1) @ x, {"A": DD, "x": D}),
    "trace with a symmetric factor": (lambda A, S: tt.trace(A @ S), {"A": DD, "S": DD}, symmetric("S")),
    "trace_of_product of squares": (trace_of_product, {"A": DD, "X": DD, "B": DD}),
    # a part of a matrix, or of a batch, is not taken for the whole
    "a block": (lambda A: linalg.inv(A[:-1, :-1]).sum(), {"A": DD}, "D > 1"),
    "columns of a wide matrix": (lambda A: linalg.slogdet(A[:, :-1])[1], {"A": ("D", "D+1")}),
    "a block of an inverse": (lambda A: linalg.inv(linalg.inv(A)[:-1, :-1]).sum(), {"A": DD}, "D > 1"),
    "products of two of a batch": (lambda X: (X[1].T @ X[1] @ linalg.inv(X[0].T @ X[0] + eye(X.shape[2]))).trace(),
        {"X": (2, "N", "D")}),
    "a product of more columns": (lambda X: (X.T @ ridge_of(X[:, 1:])).square().sum(), {"X": ND}, "D > 1"),
    "a product of fewer columns": (lambda X: (X.T @ ridge_of(X[:, :-1])).square().sum(), {"X": ND}, "D > 1"),
    "a kink of an entry of an inverse": (lambda A: A.inverse().abs().sum(), {"A": DD}),
}  # fmt: skip
derived = derivations(TABLE)

"""Parametrizations of weights: normed, orthogonal, and with a largest singular value of 1."""

import math

from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.nn.functional import normalize
from tinytensor.nn.module import Module
from tinytensor.nn.utils.parametrize import register_parametrization
from tinytensor.ops.arguments import dimension
from tinytensor.ops.creation import eye, randn, zeros
from tinytensor.ops.matrices import qr, solve
from tinytensor.ops.shape import cat


def norm_except_dim(v: Tensor, pow: int = 2, dim: int | None = 0) -> Tensor:
    """|v| of each slice along `dim`, in a shape that broadcasts to v's; of all of v if `dim` is None or -1."""
    if dim in (None, -1):  # PyTorch's -1, which is not the last dimension
        return v.norm(pow)
    dim = dimension(v, dim, "weight_norm")
    rest = [d for d in range(v.ndim) if d != dim]
    return v.norm(pow, rest, keepdim=True) if rest else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim: int | None):
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    r"""Train w = g \, v / |v| by its length g and its direction v, for each slice along `dim` (Salimans, Kingma 2016).

    They are `parametrizations.NAME.original0` and `original1` in the state.
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """The weight divided by its largest singular value, u^T W v, whose vectors each call in training improves."""

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float):
        super().__init__()
        if n_power_iterations < 1:
            raise ValueError(f"spectral_norm: n_power_iterations must be 1 or more, got {n_power_iterations}")
        self.dim, self.eps, self.n_power_iterations = dimension(weight, dim, "spectral_norm"), eps, n_power_iterations
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            for name, n in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, normalize(randn(n, dtype=weight.dtype), dim=0, eps=eps))
            self._improve(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _improve(self, matrix: Tensor, iterations: int) -> None:
        with no_grad():
            for _ in range(iterations):
                self._u.copy_(normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(normalize(matrix.t() @ self._u, dim=0, eps=self.eps))

    def forward(self, W: Tensor) -> Tensor:
        if W.ndim == 1:
            return normalize(W, dim=0, eps=self.eps)
        matrix = self._matrix(W)
        if self.training:
            self._improve(matrix, self.n_power_iterations)
        return W / (self._u.clone() @ (matrix @ self._v.clone()))  # later calls change the vectors in place

    def right_inverse(self, W: Tensor) -> Tensor:
        return W


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    r"""W / \sigma(W), of the largest singular value of W, whose rows lie along `dim` (0); Miyato and others (2018).

    It is the product u^T W v of two buffers, `parametrizations.NAME.0._u` and `_v` in the state. Each call in training
    makes `n_power_iterations` of the power method, and so changes them.
    """
    weight = getattr(module, name)
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim or 0, eps))


def _matrix_exp(A: Tensor) -> Tensor:
    """e^A of matrices (..., n, n): the series, of A divided by a power of 2 that makes it small, then squared again."""
    largest = A.detach().abs().sum(-1).amax().item() if A.numel() else 0.0
    squarings = max(math.frexp(largest)[1], 0) if math.isfinite(largest) else 0
    one, small = eye(A.shape[-1], dtype=A.dtype), A / 2**squarings
    result = one.expand(A.shape)
    for k in range(18, 0, -1):  # the next term, 1 / 19!, is less than float64 resolves
        result = one + small @ result / k
    for _ in range(squarings):
        result = result @ result
    return result


def _householder_product(A: Tensor) -> Tensor:
    """The first k columns of the product of n reflections that the columns of A (..., n, k) below the diagonal give."""
    n, k = A.shape[-2:]
    v = A.tril(-1) + eye(n, k, dtype=A.dtype)
    scale = 2 / (v * v).sum(-2)
    Q = eye(n, k, dtype=A.dtype).expand(A.shape)
    for i in reversed(range(k)):
        column = v[..., i : i + 1]
        Q = Q - scale[..., None, i : i + 1] * column @ (column.mT @ Q)
    return Q


class _Orthogonal(Module):
    """Q with orthonormal columns, or rows if it has fewer of them, from a matrix X of any numbers."""

    base: Tensor | None

    def __init__(self, shape: tuple[int, ...], orthogonal_map: str, use_trivialization: bool):
        super().__init__()
        self.shape, self.orthogonal_map = shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        X = X.mT if wide else X
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            Q = _householder_product(X) * X.detach().diagonal(0, -2, -1).trunc().unsqueeze(-2)
        else:
            X = X.tril()
            X = cat([X, zeros(*X.shape[:-1], n - k, dtype=X.dtype)], -1) if n > k else X
            A, one = X - X.mT, eye(n, dtype=X.dtype)
            Q = _matrix_exp(A) if self.orthogonal_map == "matrix_exp" else solve(one - A / 2, one + A / 2)
            Q = Q[..., :k]
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if wide else Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(f"orthogonal: expected a matrix of shape {self.shape}, got {Q.shape}")
        if not hasattr(self, "base"):
            raise NotImplementedError("orthogonal: use_trivialization=False, so no value can be assigned")
        wide = Q.shape[-2] < Q.shape[-1]
        tall = (Q.mT if wide else Q).detach()
        n, k = tall.shape[-2:]
        whole = cat([tall, randn(*tall.shape[:-1], n - k, dtype=tall.dtype)], -1) if n > k else tall
        q, r = qr(whole)
        self.base = q * r.diagonal(0, -2, -1).sign().unsqueeze(-2)
        return -eye(*Q.shape[-2:], dtype=Q.dtype).expand(Q.shape).clone()  # of which Q is the base


MAPS = ("matrix_exp", "cayley", "householder")


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    r"""Keep Q^T Q = I (Q Q^T = I for fewer rows than columns) of a weight; Lezcano-Casado (2019).

    Q = Q_0 f(X), where Q_0 is the factor Q of a QR decomposition of what is assigned (first the weight), and X is
    trained. f is "matrix_exp", e^{X - X^T} (for a square weight), "householder", a product of reflections (for
    others), or "cayley". Without Q_0 (`use_trivialization=False`, except for "householder") no value can be assigned.

    A compiled step with "matrix_exp" runs without a recording, since the numbers decide how often a matrix is squared.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        raise ValueError(f"orthogonal: expected a matrix {name!r}, or a batch of them, in {type(module).__name__}")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in MAPS or (orthogonal_map == "householder" and not use_trivialization):
        raise ValueError(
            f"orthogonal: orthogonal_map {orthogonal_map!r} with use_trivialization={use_trivialization}: expected one "
            f"of {', '.join(MAPS)}, and True for householder"
        )
    made = _Orthogonal(weight.shape, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)

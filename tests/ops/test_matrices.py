"""Factorizations fulfil their equations, gradients are derivatives, twice; what has none says what to do."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import linalg


def random(*shape, seed=0, plus=0.0):
    values = np.random.RandomState(seed).random_sample(shape) * 2 - 1 + plus * np.eye(*shape[-2:])
    return tt.tensor(values, dtype=tt.float64, requires_grad=True)


def close(a, b):
    return tt.allclose(a, b, rtol=1e-11, atol=1e-12)


def symmetric(x):
    return x + x.mT


SHAPES = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factorizations_satisfy_their_equations(shape):
    A = random(*shape).detach()
    for full in (True, False):
        U, S, Vh = linalg.svd(A, full)
        k = S.shape[-1]
        assert close(U[..., :k] * S.unsqueeze(-2) @ Vh[..., :k, :], A)
        assert close(U.mT @ U, tt.eye(U.shape[-1], dtype=A.dtype)) and (S[..., 1:] <= S[..., :-1]).all()
    U, S, V = tt.svd(A)
    assert close(U * S.unsqueeze(-2) @ V.mT, A)
    Q, R = linalg.qr(A)
    assert close(Q @ R, A) and close(R.triu(), R) and close(Q.mT @ Q, tt.eye(Q.shape[-1], dtype=A.dtype))
    C = A @ A.mT
    values, vectors = linalg.eigh(C)
    assert close(C @ vectors, vectors * values.unsqueeze(-2)) and close(linalg.eigvalsh(C), values)
    Y = linalg.pinv(A)
    assert close(A @ Y @ A, A) and close(Y @ A @ Y, Y) and close((A @ Y).mT, A @ Y) and close((Y @ A).mT, Y @ A)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "function", "inputs"),
    [
        ("slogdet", lambda a: linalg.slogdet(a).logabsdet, [(3, 3)]),
        ("slogdet of a negative determinant", lambda a: tt.slogdet(a * tt.tensor([1.0, -1, 1]).double())[1], [(3, 3)]),
        ("cholesky_solve", lambda b, a: tt.cholesky_solve(b, a), [(3, 2), (3, 3)]),
        ("cholesky_solve of an upper one", lambda b, a: tt.cholesky_solve(b, a, True), [(3, 2), (3, 3)]),
        ("cholesky_inverse", lambda a: tt.cholesky_inverse(a), [(2, 2)]),
        ("cholesky of a batch", lambda a: linalg.cholesky(a @ a.mT), [(2, 2, 2)]),
        ("qr of a wide matrix", lambda a: linalg.qr(a), [(2, 4)]),
        ("qr of a tall matrix", lambda a: linalg.qr(a), [(4, 2)]),
        ("lstsq", lambda a, b: linalg.lstsq(a, b).solution, [(4, 2), (4,)]),
        ("residuals", lambda a, b: linalg.lstsq(a, b, driver="gelsd")[:2], [(4, 2), (4, 1)]),
        ("pinv of rank 1", lambda a: linalg.pinv(a[:, :1] * a[:1]), [(3, 3)]),
    ],
)
def test_gradients_are_derivatives_twice(name, function, inputs):
    tensors = tuple(random(*shape, seed=i, plus=2.0 if len(shape) > 1 else 0) for i, shape in enumerate(inputs))
    assert tt.gradcheck(function, tensors)
    assert tt.gradgradcheck(function, tensors)


def test_gradient_of_det_at_singular_matrices():
    for values in ([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]], [[1.0, 2], [2, 4]], [[0.0, 0], [0, 0]], [[0.0]]):
        A = tt.tensor(values, dtype=tt.float64, requires_grad=True)
        n = len(values)
        expected = [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(values, i, 0), j, 1)) for j in range(n)]
            for i in range(n)
        ]
        (g,) = tt.autograd.grad(tt.det(A), A, create_graph=True)
        assert np.allclose(g.tolist(), expected, atol=1e-12)
        with pytest.raises(linalg.LinAlgError, match="Singular matrix"):
            tt.autograd.grad(g.sum(), A)


def test_matrices_of_size_0():
    A = tt.zeros(2, 0, 0, requires_grad=True)
    assert tt.det(A).tolist() == [1, 1] and linalg.inv(A).shape == A.shape and linalg.slogdet(A)[1].tolist() == [0, 0]
    tt.det(A).sum().backward()
    assert A.grad.shape == A.shape


@pytest.mark.parametrize(
    "function",
    [
        linalg.eigh,
        linalg.eigvalsh,
        linalg.svd,
        linalg.svdvals,
        tt.svd,
        lambda a: linalg.norm(a, "nuc"),
        lambda a: linalg.matrix_norm(a, 2),
        lambda a: linalg.qr(a, "r"),
        lambda a: linalg.qr(a[:, :1], "complete"),
    ],
)
def test_functions_without_gradient_say_what_to_do(function):
    A = random(2, 2)
    with pytest.raises(NotImplementedError, match=r"its gradient is not offered; .*(detach\(\) the input|has one)"):
        function(A)
    function(A.detach())


def test_matrix_functions_in_a_recording():
    b = random(3, seed=1).detach()

    @tt.compile
    def step(A):
        A.grad = None
        y = (linalg.solve(A, b) ** 2).sum() + tt.logdet(A @ A.mT) + linalg.cholesky(A @ A.mT).sum()
        y.backward()
        return y, A.grad, linalg.qr(A.detach()).R

    for seed in range(3):
        A, same = random(3, 3, seed=seed, plus=3.0), random(3, 3, seed=seed, plus=3.0)
        y = (linalg.solve(same, b) ** 2).sum() + tt.logdet(same @ same.mT) + linalg.cholesky(same @ same.mT).sum()
        y.backward()
        for got, expected in zip(step(A), (y, same.grad, linalg.qr(same.detach()).R), strict=True):
            assert got.tolist() == expected.tolist()


def test_error_in_a_replay_is_raised():
    step = tt.compile(linalg.inv)
    step(tt.eye(2))
    with pytest.raises(linalg.LinAlgError, match="ingular"):
        step(tt.zeros(2, 2))


def test_lapack_errors_name_the_function():
    A = tt.full((2, 2), tt.nan)
    for function in (linalg.svd, linalg.pinv, linalg.svdvals, linalg.matrix_rank):
        with pytest.raises(linalg.LinAlgError, match=rf"{function.__name__}: SVD did not converge; shape \(2, 2\)"):
            function(A)
    with pytest.raises(TypeError, match=r"matrix_power: n must be a whole number, got 1.5"):
        tt.matrix_power(tt.eye(2), 1.5)
    with pytest.raises(RuntimeError, match="at least 2 tensors, got 0"):
        tt.chain_matmul()


def test_multi_dot_takes_the_cheapest_order():
    from tinytensor.ops.matrices import _cheapest

    assert _cheapest([30, 35, 15, 5, 10, 20, 25])[0, 5] == 2  # ((1 (2 3)) ((4 5) 6)): a textbook's example


def test_results_have_named_fields():
    A = tt.eye(2)
    assert linalg.qr(A).Q.shape == (2, 2) and linalg.svd(A).Vh.shape == (2, 2) and tt.svd(A).V.shape == (2, 2)
    assert linalg.slogdet(A).sign.item() == 1 and linalg.eigh(A).eigenvectors.shape == (2, 2)
    assert linalg.lstsq(A, A).rank.item() == 2 and issubclass(linalg.LinAlgError, RuntimeError)

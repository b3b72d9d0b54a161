"""derive and check take functions that were written for NumPy and PyTorch, unchanged."""

import numpy as np
import pytest

from tests.tools.packages import missing
from tinytensor.symbolic import Index, check, derive

ND, DK = ("N", "D"), ("D", "K")


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def test_functions_of_numpy_are_derived():
    derivation = derive(softmax, x=ND)
    assert derivation.proved
    assert str(derivation.gradients["x"]) == "∂𝓛/∂x_nd = Y_nd (∂𝓛/∂Y_nd - Σ_i Y_ni ∂𝓛/∂Y_ni)"


@pytest.mark.slow
def test_gradient_by_hand_may_be_written_for_numpy():
    def by_hand(X, w, y):
        return 2 * np.matmul(X.T, np.matmul(X, w) - y) / len(y)

    def loss(X, w, y):
        return np.mean(np.square(np.matmul(X, w) - y))

    sizes = {"X": ND, "w": ("D",), "y": ("N",)}
    assert check(loss, {"w": by_hand}, **sizes)
    verdict = check(loss, {"w": lambda X, w, y: by_hand(X, w, y) / 2}, **sizes)
    assert "the factor 2 is missing" in str(verdict)


def test_functions_of_pytorch_are_derived_and_checked():
    torch = pytest.importorskip("torch", reason=missing("torch"))

    def loss(X, W, t):
        return torch.nn.functional.cross_entropy(X @ W, t)

    class Right(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return torch.matmul(torch.square(x), w)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return 2 * x * torch.matmul(g, w.t()), torch.square(x).t() @ g

    class Wrong(Right):
        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return x * torch.matmul(g, w.t()), torch.square(x).t() @ g

    assert derive(loss, X=ND, W=DK, t=Index(("N",), "K")).proved
    assert check(Right, x=ND, w=DK)
    verdict = check(Wrong, x=ND, w=DK)
    assert verdict["w"]
    assert "the factor 2 is missing" in str(verdict["x"])

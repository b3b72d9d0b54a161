"""derive and check take functions that were written for PyTorch, unchanged; those for NumPy are in reviewed.py."""

import pytest

from tests.tools.packages import missing
from tinytensor.symbolic import Index, check, derive

ND, DK = ("N", "D"), ("D", "K")


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

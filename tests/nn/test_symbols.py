"""Losses and norms of symbols, which only the native backend's kernels are proved on."""

import tinytensor as tt
from tinytensor.nn import functional as F
from tinytensor.symbolic import symbols


def test_norm_of_one_symbol():
    x = symbols("x", 1)
    assert F.rms_norm(x, (1,)).tolist() == (x / (x * x).sqrt()).tolist()


def test_loss_of_a_symbol():
    p = symbols("p", 1, witness=[0.25])
    assert F.binary_cross_entropy(p, tt.tensor([1.0])).item().equals(-p.log()[0].item())

"""Values and gradients where a formula that looks right loses digits, against true ones."""

import mpmath
import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F

SURE = [-100.0, -30.0, -15.0, -1.0, 0.0, 1.0, 5.0, 15.0, 17.0, 30.0, 50.0, 80.0]


def value_and_gradient(function, x: list[float], dtype) -> tuple[np.ndarray, np.ndarray]:
    """The values of a function of each number, and their derivatives."""
    x = tt.tensor(x, dtype=dtype, requires_grad=True)
    y = function(x)
    y.sum().backward()
    return y.detach().numpy().astype(np.float64), x.grad.numpy().astype(np.float64)


def true_values(function, x: list[float]) -> np.ndarray:
    with mpmath.workdps(60):
        return np.array([float(function(mpmath.mpf(v))) for v in x])


@pytest.mark.parametrize(("dtype", "tolerance"), [(tt.float32, 4e-7), (tt.float64, 1e-15)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: -F.logsigmoid(x),
        lambda x: F.binary_cross_entropy_with_logits(x, tt.ones_like(x), reduction="none"),
        lambda x: F.binary_cross_entropy_with_logits(-x, tt.zeros_like(x), reduction="none"),
        lambda x: F.soft_margin_loss(x, tt.ones_like(x), reduction="none"),
        lambda x: F.soft_margin_loss(-x, -tt.ones_like(x), reduction="none"),
        lambda x: tt.logaddexp(-x, tt.zeros_like(x)),
    ],
    ids=["logsigmoid", "bce of 1", "bce of 0", "soft margin of 1", "soft margin of -1", "logaddexp"],
)
def test_confident_right_answers_cost_something(function, dtype, tolerance):
    """ln(1 + e^-x) is e^-x where x is large, and 0 only where e^-x is."""
    y, slope = value_and_gradient(function, SURE, dtype)
    np.testing.assert_allclose(y, true_values(lambda v: mpmath.log1p(mpmath.exp(-v)), SURE), rtol=tolerance)
    np.testing.assert_allclose(slope, true_values(lambda v: -1 / (1 + mpmath.exp(v)), SURE), rtol=tolerance)

"""What an operation computes, where its inputs are -inf in places."""

import math

import pytest

import tinytensor as tt
from tinytensor.symbolic import derive


@pytest.mark.parametrize(("k", "value"), [(0, "exp(x_nn)"), (-1, "[0 ≠ 0] exp(x_nn)")])
def test_a_diagonal_of_masked_numbers_keeps_the_mask(k, value):
    def masked(x):
        below = tt.ones(len(x), len(x)).tril(k)
        return x.masked_fill(below == 0, -math.inf).diagonal().exp().sum()

    derivation = derive(masked, x=("N", "N"))
    assert derivation
    assert value in str(derivation.lines[0])

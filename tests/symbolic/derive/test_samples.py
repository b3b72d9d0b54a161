"""Points at which numbers refute: on both sides of what is compared, and where rounding decides a comparison."""

import sys

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F
from tinytensor.symbolic import check, derive
from tinytensor.symbolic.derive import domains, samples
from tinytensor.symbolic.derive.derivation import Derivation
from tinytensor.symbolic.index_calculus import functions
from tinytensor.symbolic.index_calculus.adjoints import Definition
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size

X, XYZ = {"x": ("N",)}, dict.fromkeys("xyz", ("N", "D"))


def triplet(x, y, z):
    return F.relu(F.pairwise_distance(x, y) - F.pairwise_distance(x, z) + 1).mean()


def test_rounding_that_decides_a_comparison_refutes_no_gradient(monkeypatch):
    derivation = derive(triplet, **XYZ)
    assert derivation and "no two numbers that are compared are equal" in derivation.verdict
    assert not check(derivation, {"z": "-(x - z) / N"})
    assert check(derivation, {"y": lambda x, y, z, N: _gradient(x, y, z) / N})
    assert check(derivation, {"y": lambda x, y, z, N: -_gradient(x, y, z) / N})["y"].verdict == "refuted"
    monkeypatch.setattr(domains, "CANCELLED", 0.0)
    assert "does not match" in derive(triplet, **XYZ).verdict


def _gradient(x, y, z):
    near, far = F.pairwise_distance(x, y), F.pairwise_distance(x, z)
    return -(x - y + 1e-6) / near.unsqueeze(1) * (near - far + 1 > 0).unsqueeze(1)


def test_a_small_number_is_a_tie_beside_large_ones_alone():
    small = [np.array([1e-15, 3.0])]
    assert domains.edges_of("relu", small, lambda: 1.0) == {"tie"}
    assert domains.edges_of("relu", small, lambda: 1e-3) == set() == domains.edges_of("relu", small)
    assert domains.edges_of("relu", [np.array([1e-13])], lambda: 1.0) == set()


@pytest.mark.parametrize(
    ("fn", "gradient"),
    [
        (lambda x: tt.where(x > 77.5, 3 * x, x * x).sum(), "2 * x"),
        (lambda x: tt.maximum(x * x, x * 0 + 5000).sum(), "0 * x"),
        (lambda x: x.clamp(-500, 500).sum(), "1.0 * (x > -500)"),
        (lambda x: F.relu(x / 2 - 40).sum(), "0 * x"),
    ],
)
def test_a_mistake_beyond_a_number_that_is_compared_is_refuted(fn, gradient, monkeypatch):
    assert check(fn, {"x": gradient}, **X)["x"].verdict == "refuted"
    monkeypatch.setattr(sys.modules[Derivation.__module__], "compared_numbers", lambda lines: [])
    assert check(fn, {"x": gradient}, **X)["x"].verdict != "refuted"


def test_a_small_bound_is_that_of_norms_alone(monkeypatch):
    assert check(lambda x: x.clamp(min=1e-6).sum(), {"x": "1 + 0 * x"}, **X)["x"].verdict == "refuted"
    near = lambda x, y: F.normalize(x - y + 1e-6, dim=-1, eps=1e-5)  # noqa: E731
    arguments = dict.fromkeys("xy", ("N", "D"))
    assert "every norm is above the bound" in derive(near, **arguments).verdict
    monkeypatch.setattr(domains, "_is_clamped_norm", lambda *_: False)
    assert "does not match" in derive(near, **arguments).verdict


def test_numbers_that_lines_compare_with():
    size = Size("of_compared_numbers", "n")
    x, a, y = (Array(name, (size,))[Index("n", size)] for name in "xay")
    steps = functions.theta(2 * x - 15) + functions.larger(x, 20) - functions.relu(a) + functions.same(x - 10**6)
    lines = [Definition(a, 5 * (x + 30)), Definition(y, steps)]
    assert samples.compared_numbers(lines) == [-30.0, 7.5, 20.0]

"""Values and derivatives where rules change, against PyTorch's, but for what OURS lists with a reason."""

import math
import re
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from oracle.tables import read
from special_points import CASES, evaluate

import tinytensor as tt
import tinytensor.nn.functional as F

STORED = Path(__file__).parents[1] / "oracle" / "points"
TOLERANCE = {"float64": 1e-9, "float32": 3e-5}

# Where ours is another answer, and why: {reason: regular expressions of "expression at where|what"}.
OURS = {
    "PyTorch's is NaN, and the mathematics has a number: the limit, or 0 where the value does not move": (
        r"lib\.(atan2|logaddexp|copysign)\(x, y\) at pairs\|(first|second) [xy]",
        r"lib\.logcumsumexp\(x, -1\) at infinities\|(first|second) x",
        r"F\.(normalize|cosine_similarity)\(.*\|second x",
        r"lib\.dist\(x, x\) at .*\|second x",
        r"x\.norm\((0.5|1.5|2|3), -1\) at .*\|second x",
        r"x\.norm\(0.5, -1\) at infinities\|first x",
        r"lib\.(prod|cumprod)\(x, -1\) at (NaN|infinities)\|(first|second) x",
        r"x\.prod\(\) at infinities\|second x",
        r"lib\.nanmean\(x, -1\) at NaN\|first x",
        r"lib\.cdist\(x, x\.flip\(0\), (1.0|1.5|3.0)\) at (NaN|infinities)\|first x",
        r"lib\.lerp\(x, y, 0\.5\) at pairs\|value",
        r"F\.gelu\(x\) at points\|(value|first x)",  # in float32 at inf
    ),
    "0 ln y is 0 for every y, also 0 and infinite: its slope by y is 0": (
        r"lib\.xlogy\(x, y\) at pairs\|(first|second) [xy]",
    ),
    "PyTorch stores no second derivative of cdist, which has none": (r"lib\.cdist\(.*\|second x",),
    "where the value is NaN, or not finite, a slope means nothing": (
        r"lib\.(acosh|atanh|logit)\(x\) at points\|(first|second) x",
        r"lib\.hypot\(x, y\) at pairs\|value",
        r"lib\.pow\(x, y\) at pairs\|second x",
        r"lib\.fmod\(x, y\) at pairs\|(first|second) y",
        r"F\.binary_cross_entropy_with_logits\(.*",  # targets that are infinite or NaN
        r"F\.hardswish\(x\) at points\|(first|second) x",
        r"lib\.cdist\(x, x\.flip\(0\), (0.0|inf)\) at (NaN|infinities)\|(value|first x)",
        r"x\.norm\(-?inf, -1\) at NaN\|(first|second) x",
        r"x\.var\(-1, correction=[01]\) at infinities\|first x",
    ),
    "at -0, which is at the edge of the domain or beside it, the slope has the other sign": (
        r"x \*\* -?[01]\.5 at points\|(first|second) x",
    ),
    "bounds that are equal are the value, so its slope is theirs (PyTorch gives none below them)": (
        r"x\.clamp\(y, y\) at pairs\|first y",
    ),
    "of equal elements another one is taken, or the gradient is shared among them": (
        r"x\.kthvalue\(1, -1\)\[0\] at .*\|first x",
        r"lib\.median\(x, -1\)\[0\] at NaN\|first x",
        r"lib\.cdist\(x, x\.flip\(0\), inf\) at (ties|zeros)\|first x",
    ),
    "the slope at 0 is that from the left, of which PyTorch's second derivative takes another": (
        r"F\.prelu\(x, y\[:1\]\) at pairs\|second [xy]",
    ),
    "rounding, times 1 / sqrt(eps), in float32": (r"F\.layer_norm\(x, x\.shape\[-1:\]\) at ties\|first x",),
}


def reason(name: str) -> str | None:
    return next((why for why, cases in OURS.items() if any(re.fullmatch(case, name) for case in cases)), None)


@cache
def stored(real: str) -> dict[str, np.ndarray]:
    return read(STORED / f"{real}.safetensors")[0]


def differences(case: str, real: str) -> dict[str, str]:
    """What of a case differs from PyTorch's answer. A gradient that PyTorch does not give counts as zeros."""
    ours = {f"{case}|{what}": value for what, value in evaluate(tt, F, case, real).items()}
    theirs = {name: value for name, value in stored(real).items() if name.startswith(f"{case}|")}
    told = {}
    for name in ours.keys() | theirs.keys():
        there = [found[name] for found in (ours, theirs) if name in found]
        a, b = there if len(there) == 2 else (there[0], np.zeros_like(there[0]))
        limit = TOLERANCE[real]
        same = a.shape == b.shape and np.isclose(a, b, rtol=limit, atol=limit, equal_nan=True)
        if not np.all(same):
            told[name] = f"ours {a.tolist()}, PyTorch's {b.tolist()}"
    return told


@pytest.mark.parametrize("real", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_special_points(case, real):
    wrong = {name: told for name, told in differences(case, real).items() if reason(name) is None}
    assert wrong == {}


def test_each_exception_is_needed():
    told = [name for real in TOLERANCE for case in CASES for name in differences(case, real)]
    listed = [case for cases in OURS.values() for case in cases]
    assert [case for case in listed if not any(re.fullmatch(case, name) for name in told)] == []


def test_a_planted_value_is_noticed(monkeypatch):
    assert differences("lib.abs(x) at points", "float64") == {}
    monkeypatch.setattr(tt, "abs", lambda x: tt.maximum(x, -x) + (x == 0))  # 1 at 0
    assert "lib.abs(x) at points|value" in differences("lib.abs(x) at points", "float64")


RIGHT = {  # what was wrong once: (expression of x and y, x, y, value, gradients)
    "xlogy": ("tt.xlogy(x, y)", 0.0, 3.0, 0.0, (math.log(3), 0.0)),
    "logaddexp of an infinity": ("tt.logaddexp(x, y)", math.inf, 0.0, math.inf, (1.0, 0.0)),
    "logaddexp of two infinities": ("tt.logaddexp(x, y)", -math.inf, -math.inf, -math.inf, (0.5, 0.5)),
    "logaddexp of equals": ("tt.logaddexp(x, y)", 1.0, 1.0, 1 + math.log(2), (0.5, 0.5)),
    "atan2 at the origin": ("tt.atan2(x, y)", 0.0, 0.0, 0.0, (0.0, 0.0)),
    "atan2 left of the origin": ("tt.atan2(x, y)", 0.0, -0.0, math.pi, (0.0, 0.0)),
    "atan2 below the cut": ("tt.atan2(x, y)", -0.0, -1.0, -math.pi, (-1.0, 0.0)),
    "atan2 of infinities": ("tt.atan2(x, y)", math.inf, -math.inf, 0.75 * math.pi, (0.0, 0.0)),
    "a length of nothing, p = 3": ("tt.stack([x, y]).norm(3)", 0.0, 0.0, 0.0, (0.0, 0.0)),
    "a length of nothing, p = 1.5": ("tt.stack([x, y]).norm(1.5)", 0.0, 0.0, 0.0, (0.0, 0.0)),
    "a length with a zero, p = 0.5": ("tt.stack([x, y]).norm(0.5)", 0.0, 4.0, 4.0, (0.0, 1.0)),
    "a distance with an equal coordinate": (
        "tt.cdist(tt.stack([x, y])[None], tt.tensor([[1.0, 0.0]], dtype=x.dtype), 0.5).sum()",
        1.0,
        4.0,
        4.0,
        (0.0, 1.0),
    ),
    "layer norm of one element": ("F.layer_norm(x.reshape(1), (1,)).sum() + 0 * y", 0.1, 1.0, 0.0, (0.0, 0.0)),
}


@pytest.mark.parametrize("real", ["float64", "float32"])
@pytest.mark.parametrize("name", RIGHT)
def test_right_values(name, real):
    expression, *numbers, value, slopes = RIGHT[name]
    x, y = (tt.tensor(n, dtype=getattr(tt, real), requires_grad=True) for n in numbers)
    result = eval(expression, {"tt": tt, "F": F, "x": x, "y": y})
    result.backward()
    found = [result.item(), x.grad.item(), y.grad.item()]
    assert found == pytest.approx([value, *slopes], rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("loss", "curvature"), [(F.huber_loss, 1.0), (F.smooth_l1_loss, 1.0), (partial(F.smooth_l1_loss, beta=0.25), 4.0)]
)
def test_the_curvature_of_a_loss_where_prediction_and_target_are_equal(loss, curvature):
    x = tt.tensor(2.0, dtype=tt.float64, requires_grad=True)
    (slope,) = tt.autograd.grad(loss(x, tt.tensor(2.0, dtype=tt.float64)), x, create_graph=True)
    assert slope.item() == 0
    assert tt.autograd.grad(slope, x)[0].item() == curvature


def test_layer_norm_of_millions():
    """In float32, rows of which one sum would lose the late terms: as exact as the same rows in float64."""
    tt.manual_seed(0)
    x = tt.randn(1, 9_000_000) * 3 + 5
    y, exact = F.layer_norm(x, x.shape[1:]), F.layer_norm(x.double(), x.shape[1:])
    assert (y.double() - exact).abs().max().item() < 2e-6


def test_layer_norm_of_one_element_has_no_slope():
    x = tt.tensor([[3.3], [1e4], [0.1], [-7.7]], requires_grad=True)
    w, b = (tt.tensor([n], requires_grad=True) for n in (1.7, 0.3))
    y = F.layer_norm(x, (1,), w, b)
    (y * tt.tensor([[0.3], [0.7], [1.1], [-0.3]])).sum().backward()
    assert x.grad.flatten().tolist() == [0] * 4 and w.grad.item() == 0 and y.flatten().tolist() == [b.item()] * 4

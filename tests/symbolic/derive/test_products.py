"""jvp, hvp and gauss_newton for any size: their lines, what is refused, and how they are shown."""

from functools import cache, partial

import numpy as np
import pytest

import tinytensor as tt
from tests.symbolic.derive.derived_functions import FUNCTIONS, arrays
from tests.symbolic.derive.second_functions import (
    LAYERS,
    ND,
    REGRESSION,
    N,
    attention_row,
    classifier,
    logistic,
    mlp,
)
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index, NotDerivable, TooLong, check, derive, gauss_newton, hvp, jvp
from tinytensor.symbolic.derive.second import Second


def relu_mlp(X, W, V, t):
    return F.cross_entropy((X @ W).relu() @ V, t)


def names_with_a_dot(x, dx_dot):
    A = (x * dx_dot).exp()
    A_dot = A.sin()
    s = A_dot.sum()
    ṡ = (A * A_dot).sum()
    return s * ṡ


def squares(X, w, y):
    A = X @ w
    return ((A - y) ** 2).sum()


def twice(x, w):
    z = x * w
    return (z.exp() + (x * w) ** 2 * z).sum()


def after_an_angle(x, w):
    angle = tt.atan2(x, w)
    z = x / w
    return (z.exp() + angle).sum()


CLASSES = Index(N, "K")
PAIR = {"X": ND, "W": ("D", "H"), "V": ("H", "K"), "t": CLASSES}
CLASSIFIER = {"X": ND, "W": ("D", "K"), "t": CLASSES}
LINES = {  # the product, its function, its arguments, those that move, and the line of gauss_newton
    "Hessian of logistic regression": (hvp, logistic, REGRESSION, ("w",), ""),
    "Hessian of two layers": (hvp, mlp, LAYERS, ("W", "V"), ""),
    "Gauss-Newton of two layers": (gauss_newton, mlp, LAYERS, ("W", "V"), "A2"),
    "Gauss-Newton of a classifier with relu": (gauss_newton, relu_mlp, PAIR, ("W", "V"), "A2"),
    "Hessian of a classifier": (hvp, classifier, CLASSIFIER, ("W",), ""),
    "directional derivative of cross-entropy": (jvp, lambda z, t: F.cross_entropy(z, t),
        {"z": ("N", "K"), "t": CLASSES}, ("z",), ""),
    "directional derivative of softmax": (jvp, lambda x: x.softmax(-1), {"x": ND}, ("x",), ""),
    "directional derivative of layer norm": (jvp, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        {"x": ND, "w": ("D",), "b": ("D",)}, ("x",), ""),
    "directional derivative of a row of attention": (jvp, attention_row,
        {"q": ("d",), "K": ("T", "d"), "V": ("T", "v")}, ("q",), ""),
    "Hessian of positive parts": (hvp, lambda x: (x.relu() ** 2).sum(), {"x": N}, ("x",), ""),
    "directional derivative of positive parts": (jvp, lambda x: x.relu().sum(), {"x": N}, ("x",), ""),
    "a direction that moves nothing": (hvp, lambda x, y: x.sum() + (y**2).sum(), {"x": N, "y": N}, ("x",), ""),
    "Hessian of a norm": (hvp, lambda x: x.norm(), {"x": N}, ("x",), ""),
    "Hessian of names with a dot": (hvp, names_with_a_dot, {"x": N, "dx_dot": N}, ("x", "dx_dot"), ""),
    "directional derivative of names with a dot": (jvp, names_with_a_dot, {"x": N, "dx_dot": N}, ("x",), ""),
    "a line that has the name of the user's tensor": (gauss_newton, squares, REGRESSION, ("w",), "A"),
    "a line that is made once more": (gauss_newton, twice, {"x": N, "w": N}, ("x", "w"), "z"),
    "a line inside of operations that are read as one": (gauss_newton, after_an_angle, {"x": N, "w": N},
        ("x", "w"), "z"),
}  # fmt: skip


@cache
def product(name: str) -> Second:
    of_product, fn, arguments, wrt, of = LINES[name]
    return of_product(fn, *[of] * bool(of), wrt=wrt, **arguments)


@pytest.mark.one_in(40)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_has_a_proved_product(name):
    fn, arguments = FUNCTIONS[name]
    p = jvp(fn, **arguments)
    assert p.proved, p.verdict


def test_a_result_that_is_called_value_keeps_its_value():
    def function(x):
        value = x.exp()
        return value

    results = jvp(function, x=N).evaluate(x=np.zeros(2), x_dot=np.array([2.0, 3.0]))
    assert results["value"].tolist() == [1, 1] and results["product"].tolist() == [2, 3]


def test_there_are_no_second_derivatives_of_a_derivation_that_was_stopped():
    """Not 0, and not "A does not depend on w": its gradients are not known."""
    derivation = derive(logistic, **REGRESSION)
    derivation.derived.stopped = "while the function was differentiated"
    for wanted in (hvp, partial(gauss_newton, of="A")):
        with pytest.raises(TooLong):
            wanted(derivation)
    assert check(derivation, hessian={"w": "X.T @ X"})["w"].verdict == "undecided"


@pytest.mark.slow
def test_what_does_not_fit_is_refused():
    with pytest.raises(NotDerivable, match="whose result is a number; reduce it"):
        hvp(lambda x: x.softmax(-1), x=N)
    with pytest.raises(ValueError, match="of='B' is no array of the function; expected one of A"):
        gauss_newton(logistic, "B", wrt="w", **REGRESSION)
    with pytest.raises(NotDerivable, match="A does not depend on y"):
        gauss_newton(logistic, "A", wrt="y", **REGRESSION)
    derivation = derive(logistic, **REGRESSION)
    with pytest.raises(TypeError, match="has its arguments"):
        hvp(derivation, X=ND)
    p = product("Hessian of logistic regression")
    inputs = arrays(p.derivation, (3, 2))
    with pytest.raises(TypeError, match="w_dot missing"):
        p.evaluate(**inputs)
    with pytest.raises(ValueError, match=r"w_dot has the shape \(3,\); expected \(D,\), which is \(2,\)"):
        p.evaluate(**inputs, w_dot=np.ones(3))


@pytest.mark.slow
def test_print_latex_and_notebook():
    p = product("Hessian of logistic regression")
    assert "the Hessian-vector product; ẇ: the direction" in str(p)
    assert r"\dot{w}_{d}" in p.latex() and r"\dot{\mathcal{L}}" in p.latex()
    html = p._repr_html_()
    assert html is None or "<table>" in html
    assert "def value_and_gradients(X, w, y, w_dot):" in p.source()

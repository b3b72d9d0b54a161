"""jvp, hvp and gauss_newton for any size: their lines, the engine's products, differences, and planted mistakes."""

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
    believe,
    classifier,
    logistic,
    mlp,
    plant_factor,
)
from tinytensor.autograd.functional import hvp as engine_hvp
from tinytensor.autograd.functional import jvp as engine_jvp
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index, NotDerivable, TooLong, check, derive, gauss_newton, hvp, jvp
from tinytensor.symbolic.derive.second import Products


def relu_mlp(X, W, V, t):
    return F.cross_entropy((X @ W).relu() @ V, t)


def names_with_a_dot(x, dx_dot):
    A = (x * dx_dot).exp()
    A_dot = A.sin()
    s = A_dot.sum()
    ṡ = (A * A_dot).sum()
    return s * ṡ


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
}  # fmt: skip


@cache
def product(name: str) -> Products:
    of_product, fn, arguments, wrt, of = LINES[name]
    return of_product(fn, *[of] * bool(of), wrt=wrt, **arguments)


def evaluated(p: Products, numbers: tuple[int, ...], seed: int) -> tuple[dict, dict, dict]:
    """Arguments of these sizes, directions, and the values of the program."""
    rng, inputs = np.random.default_rng(seed), arrays(p.derivation, numbers, seed)
    along = {n: rng.normal(size=inputs[n].shape) for n in p.wrt}
    return inputs, along, p.evaluate(**inputs, **{f"{n}_dot": x for n, x in along.items()})


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, row in LINES.items() if row[0] is not gauss_newton])
def test_values_are_those_of_autograd_functional_at_three_sizes(name):
    p, (of_product, fn, _, wrt, *_) = product(name), LINES[name]
    for seed, numbers in enumerate([(2, 4, 2, 3), (3, 2, 4, 2), (1, 6, 3, 1)]):
        inputs, along, values = evaluated(p, numbers, seed)
        constants = {n: tt.tensor(x) for n, x in inputs.items() if n not in wrt}

        def of_moving(*moving):
            return fn(**constants, **dict(zip(wrt, moving, strict=True)))  # noqa: B023

        moving = tuple(tt.tensor(inputs[n]) for n in wrt)
        _, result = (engine_hvp if of_product is hvp else engine_jvp)(
            of_moving, moving, tuple(tt.tensor(along[n]) for n in wrt)
        )
        wanted = [x.numpy() for x in result] if of_product is hvp else [result.numpy()]
        for product_of_engine, name_of_result in zip(wanted, p.products, strict=True):
            np.testing.assert_allclose(values[name_of_result], product_of_engine, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, row in LINES.items() if row[0] is gauss_newton])
def test_gauss_newton_is_the_product_of_three_matrices(name):
    """Jᵀ H J v with matrices that the engine makes, at three sizes."""
    p, (_, fn, _, wrt, *_) = product(name), LINES[name]
    activation = tt.tanh if fn is mlp else tt.relu
    for seed, numbers in enumerate([(2, 3, 2, 3), (3, 2, 1, 2), (1, 4, 3, 1)]):
        inputs, along, values = evaluated(p, numbers, seed)
        last = tt.tensor(inputs["Y" if fn is mlp else "t"])
        X, W, V = (tt.tensor(inputs[n]) for n in ("X", "W", "V"))
        loss = (lambda z: ((z - last) ** 2).mean()) if fn is mlp else (lambda z: F.cross_entropy(z, last))  # noqa: B023
        z = activation(X @ W) @ V
        H = tt.autograd.functional.hessian(loss, z).numpy().reshape(z.numel(), z.numel())
        J = tt.autograd.functional.jacobian(lambda W, V: activation(X @ W) @ V, (W, V))  # noqa: B023
        J = np.concatenate([x.numpy().reshape(z.numel(), -1) for x in J], 1)
        v = np.concatenate([along[n].ravel() for n in wrt])
        ours = np.concatenate([values[n].ravel() for n in wrt])
        np.testing.assert_allclose(ours, J.T @ H @ J @ v, rtol=1e-8, atol=1e-10)


@pytest.mark.one_in(40)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_has_a_proved_product(name):
    fn, arguments = FUNCTIONS[name]
    p = jvp(fn, **arguments)
    assert p.proved, p.verdict


def test_gauss_newton_of_a_line_that_has_the_name_of_the_users_tensor():
    def squares(X, w, y):
        A = X @ w
        return ((A - y) ** 2).sum()

    assert gauss_newton(squares, "A", wrt="w", **REGRESSION).verdict == "proved for any size"


def twice(x, w):
    z = x * w
    return (z.exp() + (x * w) ** 2 * z).sum()


def after_an_angle(x, w):
    angle = tt.atan2(x, w)
    z = x / w
    return (z.exp() + angle).sum()


@pytest.mark.parametrize("fn", [twice, after_an_angle])
def test_gauss_newton_meets_each_call_that_makes_the_line(fn):
    """The second one is made once more in the code; several operations are read as one before the other."""
    p = gauss_newton(fn, "z", x=N, w=N)
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
    with pytest.raises(NotDerivable, match="is no number; reduce it"):
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
    with pytest.raises(ValueError, match=r"w_dot has the shape \(3,\); expected that of w, \(2,\)"):
        p.evaluate(**inputs, w_dot=np.ones(3))


NOTICED = "Hessian of a norm", "directional derivative of softmax", "Gauss-Newton of two layers"


@pytest.mark.parametrize("name", NOTICED)
def test_a_wrong_line_is_not_shown_and_noticed_by_numbers(name, monkeypatch):
    plant_factor(monkeypatch)
    assert product.__wrapped__(name).proved
    believe(monkeypatch)
    assert "does not match" in product.__wrapped__(name).verdict


@pytest.mark.slow
def test_print_latex_and_notebook():
    p = product("Hessian of logistic regression")
    assert "the Hessian-vector product; ẇ: the direction" in str(p)
    assert r"\dot{w}_{d}" in p.latex() and r"\dot{\mathcal{L}}" in p.latex()
    html = p._repr_html_()
    assert html is None or "<table>" in html
    assert "def value_and_gradients(X, w, y, w_dot):" in p.source()

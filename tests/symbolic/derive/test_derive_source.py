"""The program of a derivation: its text, ties, sizes, and arguments that do not fit."""

import numpy as np
import pytest
from sympy import exp

import tinytensor as tt
from tests.symbolic.derive.derived_functions import FUNCTIONS, arrays, derived
from tinytensor.symbolic import Index, derive
from tinytensor.symbolic.index_calculus import formulas
from tinytensor.symbolic.index_calculus.formulas import Array, Size, total
from tinytensor.symbolic.index_calculus.numpy_printer import NumPyPrinter

ODD = (3, 2, 5, 4, 7, 6)


def engine(fn, arguments: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The value and the gradients of backward()."""
    inputs = {n: tt.tensor(x, requires_grad=True) for n, x in arguments.items()}
    value = fn(**inputs)
    value.backward(tt.ones(*value.shape))
    return {"value": value.detach().numpy(), **{n: x.grad.numpy() for n, x in inputs.items()}}


def difference(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> float:
    assert left.keys() == right.keys()
    assert {n: x.shape for n, x in left.items()} == {n: x.shape for n, x in right.items()}
    return max(float(np.abs(left[n] - right[n]).max()) for n in left)


@pytest.mark.parametrize("name", ["largest", "first largest", "softmax_by_hand"])
def test_ties_are_shared_as_in_the_engine(name):
    d = derived(name)
    inputs = {"x": np.array([[1.0, 2.0, 2.0], [1.0, 2.0, -1.0], [1.0, 0.0, 2.0]])}
    assert difference(d.evaluate(**inputs), engine(FUNCTIONS[name][0], inputs)) < 1e-10


def test_program_reads_as_a_person_writes():
    text = derived("cross entropy").source()
    for line in (
        "    N, D = X.shape",
        "    K = W.shape[1]",
        "    A = X @ W  # (N, K)",
        "    q = softmax(A)  # (N, K)",
        "    loss = -np.log(q[np.arange(N), t]).sum() / N",
        "    dA = (q - np.eye(K)[t]) / N  # (N, K)",
        "    dX = dA @ W.T  # (N, D)",
        "    dW = X.T @ dA  # (D, K)",
        '    return {"value": loss, "X": dX, "W": dW}',
    ):
        assert line in text.splitlines()
    assert "def largest_shared" not in text  # helpers only where they are used


def test_products_of_sizes_are_taken_apart():
    text = derived("merged").source()
    assert "N, H, K = X.shape" in text
    assert "W = W.reshape(H, K, D)" in text
    assert "np.reshape(dW, (H * K, D))" in text


def test_size_of_a_later_argument_is_read_first():
    """A head for each weight: K is the width of x by the number of weights."""
    d = derive(lambda x, w: (x.view(x.shape[0], w.shape[0], -1) * w[:, None]).pow(2).sum(), x=("N", "H*K"), w=("H",))
    assert d and "    H, = w.shape\n    K = x.shape[1] // H\n" in d.source()
    x, w = np.arange(12.0).reshape(2, 6), np.array([1.0, -2.0, 3.0])
    each = np.repeat(w, 2) ** 2
    right = {"value": (x**2 * each).sum(), "x": 2 * x * each, "w": 2 * w * (x**2).sum(0).reshape(3, 2).sum(1)}
    assert difference(d.evaluate(x=x, w=w), right) < 1e-12


def test_large_scores_do_not_overflow():
    inputs = arrays(derived("cross entropy"), ODD) | {"W": np.full((2, 5), 1e4)}
    result = derived("cross entropy").evaluate(**inputs)
    assert all(np.isfinite(x).all() for x in result.values())


def test_an_index_and_a_fraction_have_a_number_for_each_entry():
    """np.arange(1.1, N + 1.1) would have 16 entries for N = 15."""
    d = derive(lambda x: (x * (tt.arange(len(x)) + 1.1)).sum(), x=("N",))
    for n in (1, 15, 255):
        np.testing.assert_allclose(d.evaluate(x=np.ones(n))["x"], np.arange(n) + 1.1)


def test_powers_of_whole_numbers_are_floats():
    for p, right in ((9, lambda n: n**9.0), (-9, lambda n: n**-9.0)):
        d = derive(lambda x, p=p: (x * (tt.arange(len(x), dtype=tt.float64) + 1) ** p).sum(), x=("N",))
        assert d
        np.testing.assert_allclose(d.evaluate(x=np.ones(300))["x"], right(np.arange(1, 301)))


def test_share_of_another_sum_is_no_softmax():
    N = Size("N_of_shares", "n i")
    n, i, x, y = formulas.Index("n", N), formulas.Index("i", N), Array("x", (N,)), Array("X", (N, N))
    for above, below in ((exp(x[n] * x[n]), exp(x[i] * x[n])), (exp(y[n, n]), exp(y[n, i]))):
        assert "softmax" not in NumPyPrinter().whole(above / total(below, i), (n,))
    assert "softmax" in NumPyPrinter().whole(exp(x[n]) / total(exp(x[i]), i), (n,))


def test_size_that_no_shape_gives_is_an_argument():
    d = derive(lambda X: X.reshape(X.shape[0], -1).sum(0), X=("N", "H*K"))
    X = np.arange(24.0).reshape(2, 12)
    with pytest.raises(TypeError, match="which no shape gives"):
        d.evaluate(X=X)
    result = d.evaluate(X=X, H=3, K=4)
    assert difference(result, {"value": X.sum(0), "X": np.ones((2, 12))}) < 1e-12


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"t": None}, TypeError, "t missing; expected X, W, t as arrays"),
        ({"more": 1}, TypeError, "more is none of its arguments"),
        ({"X": np.ones((3, 2, 1))}, ValueError, r"X has the shape \(3, 2, 1\); expected \(N, D\)"),
        ({"W": np.ones((4, 5))}, ValueError, r"W has the shape \(4, 5\); expected \(D, K\), which is \(2, 5\)"),
        ({"t": np.array([0, 5, 1])}, IndexError, "t has the entry 5; expected 0 to 4"),
        ({"t": np.array([0, -1, 1])}, IndexError, "t has the entry -1; expected 0 to 4"),
        ({"t": np.array([0.0, 1.0, 1.0])}, TypeError, "expected whole numbers, for it is an Index"),
    ],
)
def test_wrong_arguments_are_refused(change, error, message):
    d = derived("cross entropy")
    inputs = {n: x for n, x in (arrays(d, ODD) | change).items() if x is not None}
    with pytest.raises(error, match=message):
        d.evaluate(**inputs)


def test_upstream_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="upstream has the shape"):
        derived("embedding").evaluate(**arrays(derived("embedding"), ODD), upstream=np.ones(3))


def test_index_has_no_gradient():
    d = derive(lambda E, t: E[t].sum(), E=("V", "D"), t=Index(("N",), "V"))
    assert d.evaluate(E=np.ones((3, 2)), t=np.array([1, 1])).keys() == {"value", "E"}


def test_gradients_are_arrays_of_floats():
    result = derive(lambda x, y: x.sum() + y.detach().sum(), x=("N",), y=("M",)).evaluate(x=np.ones(3), y=np.ones(2))
    assert difference(result, {"value": np.array(5.0), "x": np.ones(3), "y": np.zeros(2)}) == 0
    assert {x.dtype for x in result.values()} == {np.dtype(np.float64)}

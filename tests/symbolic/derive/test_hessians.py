"""Hessians and Jacobians for any size: a textbook's lines, the engine's double backward, differences, and mistakes."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import tinytensor as tt
from tests.symbolic.derive.derived_functions import arrays
from tests.symbolic.derive.second_functions import CASES, REGRESSION, D, N, believe, derived, logistic, plant_factor
from tinytensor.autograd import grad
from tinytensor.nn import functional as F
from tinytensor.symbolic import Hessian, Index, Jacobian, NotDerivable, check, derive
from tinytensor.symbolic.derive import second, second_samples
from tinytensor.symbolic.index_calculus.adjoints import d as adjoint
from tinytensor.symbolic.index_calculus.adjoints import expanded
from tinytensor.symbolic.index_calculus.formulas import derivative
from tinytensor.symbolic.index_calculus.vanishing import vanishes

BLOCKS = [(name, block) for name, case in CASES.items() for block in case.textbook]


def terms(text: str) -> int:
    """The number of names, numbers and sums in a formula."""
    return len(re.findall(r"[^\s()\[\],+\-/√>]+", text))


@pytest.mark.parametrize(("name", "block"), BLOCKS)
def test_no_block_is_longer_than_a_textbooks(name, block):
    own = str(derived(name).blocks[block]).partition(" = ")[2]
    assert terms(own) <= terms(CASES[name].textbook[block]), own


@pytest.mark.parametrize(
    ("name", "block"), [b for b in BLOCKS if b[0] in ("logistic regression", "softmax", "layer norm", "norm")]
)
def test_blocks_are_a_textbooks_word_by_word(name, block):
    own = str(derived(name).blocks[block]).partition(" = ")[2]
    assert own == CASES[name].textbook[block]


def engine_block(fn, values: dict, first: str | None, other: str) -> np.ndarray:
    """A block by loops over backward passes: a row for each entry of the gradient, or of the result."""
    result = fn(**values)
    if first is not None:
        (result,) = grad(result, [values[first]], create_graph=True)
    rows = []
    for entry in result.reshape(-1):
        if entry.requires_grad:
            (row,) = grad(entry, [values[other]], retain_graph=True, materialize_grads=True)
            rows.append(row.detach().numpy())
        else:
            rows.append(np.zeros(values[other].shape))
    return np.reshape(rows, (*result.shape, *values[other].shape))


@pytest.mark.parametrize("name", CASES)
def test_blocks_are_those_of_backward_at_three_sizes(name):
    d, case = derived(name), CASES[name]
    for seed, numbers in enumerate([(2, 4, 2, 3), (3, 2, 4, 2), (1, 6, 3, 1)]):
        numbers = tuple(2 * n for n in numbers) if name == "halves" else numbers
        inputs = arrays(d.derivation, numbers, seed)
        values = {n: tt.tensor(x, requires_grad=x.dtype.kind == "f") for n, x in inputs.items()}
        results = d.evaluate(**inputs)
        for first, other in d.blocks:
            wanted = engine_block(case.fn, values, first if isinstance(d, Hessian) else None, other)
            np.testing.assert_allclose(results[first, other], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["logistic regression", "norm", "two layers"])
def test_blocks_are_differences_of_gradients(name):
    d, step = derived(name), 1e-5
    inputs = arrays(d.derivation, (3, 2, 2, 2))
    results = d.evaluate(**inputs)
    for first, other in d.blocks:
        wanted = np.empty(results[first, other].shape)
        for at in np.ndindex(inputs[other].shape):
            sides = []
            for sign in (1, -1):
                moved = {n: x.copy() for n, x in inputs.items()}
                moved[other][at] += sign * step
                sides.append(d.derivation.evaluate(**moved)[first])
            wanted[(..., *at)] = (sides[0] - sides[1]) / (2 * step)
        np.testing.assert_allclose(results[first, other], wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "name", ["least squares", "quadratic form", "norm", "log-sum-exp", "squares of positive parts"]
)
def test_blocks_are_the_plain_derivative_of_the_plain_derivative(name):
    """The proof goes line by line; here the gradient is written in arguments alone, and differentiated as a whole."""
    d = derived(name)
    raw, forward = d.derived.raw, d.derived.forward
    for (first, _), one in d.blocks.items():
        line = raw[adjoint(d.derived.trace.arrays[first])]
        whole = expanded(expanded(line.at(one.of), list(raw.values())), forward)
        shown = expanded(expanded(one.right, list(d.derived.adjoints.values())), forward)
        assert vanishes([derivative(whole, one.by) - shown], d.derived.facts) is not None


def test_hessian_is_symmetric():
    d = derived("two layers")
    values = d.evaluate(**arrays(d.derivation, (3, 2, 2, 2)))
    whole = values["W", "V"], np.moveaxis(values["V", "W"], (0, 1), (2, 3))
    np.testing.assert_allclose(*whole, atol=1e-12)


# ------------------------------------------------------------------------------------------------ blocks by hand

LOGISTIC = "(lambda p: {})((X @ w).sigmoid())"
SOFTMAX = "(lambda q: {})(softmax(x, -1))"


LOGITS_BY_HAND = "(lambda q, rows, classes: {})(softmax(z, -1), diag(ones(N)), diag(ones(K)))"
DIAGONAL, OUTER = "einsum('nm,ni,ik->nimk', rows, q, classes)", "einsum('nm,ni,nk->nimk', rows, q, q)"


def logits(form: str) -> str:
    """A Hessian in logits by hand, of δ(n, m) times a matrix for each row."""
    return LOGITS_BY_HAND.format(form)


def entropy(z, t):
    return F.cross_entropy(z, t)


LOGITS = {"z": ("N", "K"), "t": Index(N, "K")}
# function, arguments, block, right ones, and wrong ones with words of the term that is named
BY_HAND = {
    "logistic regression": (
        logistic,
        REGRESSION,
        ("w", "w"),
        [LOGISTIC.format("X.T @ diag(p * (1 - p)) @ X / N"), LOGISTIC.format("(X * (p - p**2)[:, None]).T @ X / N")],
        [
            (LOGISTIC.format("X.T @ diag(p * (1 - p)) @ X"), "the factor 1/N is missing"),
            (LOGISTIC.format("X.T @ diag(p) @ X / N"), "σ(A_n)² X_nd X_ni is missing"),
            (LOGISTIC.format("X.T @ diag(p * (1 + p)) @ X / N"), "the sign is wrong"),
            (LOGISTIC.format("2 * X.T @ diag(p * (1 - p)) @ X / N"), "the factor 1/2 is missing"),
            (LOGISTIC.format("X @ X.T"), "the shape (N, N)"),
            (LOGISTIC.format("-X.T @ diag(p * (1 - p)) @ X / N"), "the sign is wrong"),
        ],
    ),
    "logistic regression, mixed": (
        logistic,
        REGRESSION,
        ("w", "y"),
        ["-X.T / N"],
        [("X.T / N", "the sign is wrong"), ("-X / N", "the shape (N, D)"), ("-X.T", "the factor 1/N is missing")],
    ),
    "least squares": (
        lambda X, w, y: ((X @ w - y) ** 2).mean(),
        REGRESSION,
        ("w", "w"),
        ["2 * X.T @ X / N", "2 / N * einsum('nd,ne->de', X, X)"],
        [("X.T @ X / N", "the factor 2 is missing"), ("2 * X.T @ X", "the factor 1/N is missing")],
    ),
    "ridge": (
        lambda X, w, y, c: ((X @ w - y) ** 2).sum() / 2 + c / 2 * (w**2).sum(),
        REGRESSION | {"c": ()},
        ("w", "w"),
        ["X.T @ X + c * diag(ones(D))"],
        [("X.T @ X", "the term c δ(d, i) is missing"), ("X.T @ X + c", "the term c is not in the derivative")],
    ),
    "cross-entropy in logits": (
        entropy,
        LOGITS,
        ("z", "z"),
        [logits(f"({DIAGONAL} - {OUTER}) / N")],
        [
            (logits(f"{DIAGONAL} / N"), "δ(j, n)/N is missing"),
            (logits(f"{DIAGONAL} - {OUTER}"), "the factor 1/N is missing"),
            (logits(f"({DIAGONAL} + {OUTER}) / N"), "the sign is wrong"),
            (logits(f"({DIAGONAL} - einsum('ni,mk->nimk', q, q)) / N"), "is missing"),
        ],
    ),
    "quadratic form": (
        lambda x, A: x @ A @ x,
        {"x": N, "A": ("N", "N")},
        ("x", "x"),
        ["A + A.T"],
        [("2 * A", "A_in is missing"), ("(A + A.T) / 2", "the factor 2 is missing")],
    ),
    "quadratic form, mixed": (
        lambda x, A: x @ A @ x,
        {"x": N, "A": ("N", "N")},
        ("x", "A"),
        ["einsum('ij,k->ijk', diag(1 + 0 * x), x) + einsum('ik,j->ijk', diag(1 + 0 * x), x)"],
        [("einsum('ij,k->ijk', diag(1 + 0 * x), x)", "is missing")],
    ),
    "norm": (
        lambda x: x.norm(),
        {"x": N},
        ("x", "x"),
        ["(diag(ones(N)) - outer(x, x) / (x @ x)) / x.norm()"],
        [("diag(ones(N)) / x.norm()", "is missing"), ("(diag(ones(N)) + outer(x, x) / (x @ x)) / x.norm()", "sign")],
    ),
    "positive parts": (
        lambda x: (x.relu() ** 2).sum(),
        {"x": N},
        ("x", "x"),
        ["2 * diag((x > 0) * 1.0)"],
        [("2 * diag(ones(N))", "> 0] δ(i, n) is missing"), ("diag((x > 0) * 1.0)", "the factor 2 is missing")],
    ),
    "softmax": (
        lambda x: x.softmax(-1),
        {"x": N},
        "x",
        [SOFTMAX.format("diag(q) - outer(q, q)")],
        [
            (SOFTMAX.format("diag(q)"), "Y_i Y_n is missing"),
            (SOFTMAX.format("diag(q) + outer(q, q)"), "the sign is wrong"),
            (SOFTMAX.format("diag(q * (1 - q))"), "is missing"),
            (SOFTMAX.format("q * (1 - q)"), "the shape (N)"),
        ],
    ),
    "layer norm without weights": (
        lambda x: (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt(),
        {"x": N},
        "x",
        ["(lambda r, z: (diag(ones(N)) - outer(z, z) / N - 1 / N) * r)(1 / (x.var(correction=0) + 1e-5).sqrt(), "
        "(x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt())"],
        [
            ("(diag(ones(N)) - 1 / N) / (x.var(correction=0) + 1e-5).sqrt()", ""),
            ("diag(ones(N)) / (x.var(correction=0) + 1e-5).sqrt()", ""),
        ],
    ),
}  # fmt: skip
WRONG = [(name, wrong, words) for name, row in BY_HAND.items() for wrong, words in row[4]]


def checked(name: str, by_hand):
    fn, arguments, block, _, _ = BY_HAND[name]
    option = {"jacobian": {block: by_hand}} if isinstance(block, str) else {"hessian": {block: by_hand}}
    return check(fn, **option, **arguments)


@pytest.mark.parametrize(("name", "wrong", "words"), WRONG)
def test_wrong_blocks_are_refuted_by_term(name, wrong, words):
    result = checked(name, wrong)
    assert not result
    (one,) = result.verdicts.values()
    assert one.verdict == "refuted", str(result)
    assert words in one.term, one.term


@pytest.mark.parametrize(("name", "right"), [(name, right) for name, row in BY_HAND.items() for right in row[3]])
def test_right_blocks_are_proved(name, right):
    result = checked(name, right)
    assert result, str(result)


SQUARES = lambda X, w, y: ((X @ w - y) ** 2).mean()  # noqa: E731
CLASS = Index(N, "K")
SOMEWHERE = [  # wrong at some sizes or values only
    (SQUARES, REGRESSION, {"hessian": {"w": "2 * X.T @ X / max(N, 3)"}}),
    (SQUARES, REGRESSION, {"hessian": {"w": "2 * X.T @ X / N * (1 if D > 2 else 2)"}}),
    (SQUARES, REGRESSION, {"hessian": {"w": "2 * X.T @ X / N * (arange(D) < 8)"}}),
    (SQUARES, REGRESSION, {"hessian": {"w": "2 * X.T @ X / N * (N < 100)"}}),
    (lambda x: x.softmax(-1), {"x": N}, {"jacobian": {"x": SOFTMAX.format("diag(q) - outer(q, q) * (N > 1)")}}),
    (lambda x: x.softmax(-1), {"x": N}, {"jacobian": {"x": SOFTMAX.format("diag(q) - outer(q, q).tril(6)")}}),
    (lambda x: (x.relu() ** 2).sum(), {"x": N}, {"hessian": {"x": "2 * diag((x > 0.5) * 1.0)"}}),
    (lambda x: (x.abs() * x).sum(), {"x": N}, {"hessian": {"x": "2 * diag(ones(N))"}}),
    (lambda x, t: (x[t] ** 2).sum(), {"x": ("K",), "t": CLASS}, {"hessian": {"x": "2 * diag(ones(K)) * N / K"}}),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "arguments", "by_hand"), SOMEWHERE)
def test_blocks_that_are_wrong_somewhere_are_not_proved(fn, arguments, by_hand):
    result = check(fn, **by_hand, **arguments)
    assert not result, str(result)


def test_conditions_of_a_block_by_hand_stand_in_its_line():
    result = check(SQUARES, hessian={"w": "2 * X.T @ X / N + 0 * w.log().sum()"}, **REGRESSION)
    assert result and str(result).endswith("where every argument of a logarithm is above 0")
    result = check(SQUARES, hessian={"w": "2 * X.T @ X / N * (y != 1.0).prod()"}, **REGRESSION)
    assert TIES in str(result)  # it is wrong where an entry of y is 1


def test_a_block_of_a_derivation_is_proved():
    d = derived("logistic regression")
    assert check(d.derivation, hessian={"w": d.hessian["w", "w"]})


def test_what_check_cannot_use_is_refused():
    with pytest.raises(ValueError, match="in two of by_hand, hessian and jacobian"):
        check(logistic, {"w": "w"}, hessian={"w": "X.T @ X"}, **REGRESSION)
    with pytest.raises(ValueError, match="wrt has 'v'"):
        check(logistic, hessian={"v": "X.T @ X"}, **REGRESSION)
    with pytest.raises(TypeError, match="by_hand is a dictionary"):
        check(logistic, hessian={}, **REGRESSION)


# ------------------------------------------------------------------------------------------------ conditions, refusals

TIES = "no two numbers that are compared are equal"


@pytest.mark.parametrize(
    ("fn", "condition"),
    [
        (lambda x: (x.relu() ** 2).sum(), TIES),
        (lambda x: x.relu().sum(), TIES),
        (lambda x: (x * x.abs()).sum(), TIES),
        (lambda x: x.max() ** 2, TIES),
        (lambda x: F.smooth_l1_loss(x, 0 * x), TIES),
        (lambda x: (x * x.floor()).sum(), "no number that is rounded is whole"),
        (lambda x: x.norm(), "every argument of a root is above 0"),
        (lambda x: (x * x.log()).sum(), "every argument of a logarithm is above 0"),
    ],
)  # fmt: skip
def test_kinks_and_edges_stand_in_the_verdict(fn, condition):
    d = derive(fn, order=2, x=N)
    assert d.proved, d.verdict
    assert condition in d.verdict and condition in d.assumptions


def test_second_derivative_of_relu_is_0_off_the_kink():
    d = derive(lambda x: x.relu().sum(), order=2, x=N)
    assert str(d.hessian["x", "x"]) == "∂²𝓛/∂x_n∂x_i = 0"


def test_no_condition_stands_where_none_is_needed():
    assert derived("logistic regression").verdict == "proved for any size"
    assert derived("softmax").verdict == "proved for any size"


def test_what_is_held_constant_stays_so():
    d = derive(lambda x: (x * x.detach()).sum(), order=2, x=N)
    assert d.proved and str(d.hessian["x", "x"]).endswith("= 0")
    assert any("detach()" in one for one in d.assumptions)


def test_conditions_on_sizes_are_those_of_the_function():
    d = derive(lambda x: (x**3).sum() if len(x) > 3 else x.sum(), order=2, x=N)
    assert not d and "proved only for N > 3" in d.verdict
    assert derive(lambda x: (x**3).sum() if len(x) > 3 else x.sum(), "N > 3", order=2, x=N)


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(NotDerivable, match="result is a number; reduce it"):
        derive(lambda x: x.softmax(-1), order=2, x=N)
    with pytest.raises(ValueError, match="order is an argument of the function, and an option of derive"):
        derive(lambda x, order: (x**order).sum(), order=2, x=N)
    with pytest.raises(ValueError, match="order=3; expected 1 for the gradient"):
        derive(lambda x: x.sum(), order=3, x=N)
    with pytest.raises(ValueError, match="a Hessian is of a number"):
        derive(lambda x: x.sum(), order=2, jacobian=True, x=N)
    with pytest.raises(ValueError, match="wrt is for order=2"):
        derive(lambda x: x.sum(), wrt="x", x=N)
    with pytest.raises(ValueError, match="wrt has 't'; the arguments that have a derivative are z"):
        derive(entropy, order=2, wrt="t", **LOGITS)


# ------------------------------------------------------------------------------------------------ planted mistakes


def cube():
    return derive(lambda x: (x**3).sum(), order=2, x=N)


def test_a_wrong_chain_rule_is_not_shown(monkeypatch):
    right = cube()
    plant_factor(monkeypatch)
    assert cube().proved and str(cube()) == str(right)


def test_a_wrong_block_that_the_proof_lets_pass_is_noticed_by_numbers(monkeypatch):
    plant_factor(monkeypatch)
    believe(monkeypatch)
    assert "does not match the engine's double backward" in cube().verdict


def test_a_wrong_double_backward_is_noticed_by_differences(monkeypatch):
    product = second_samples.product
    monkeypatch.setattr(second_samples, "product", lambda *a: {k: 2 * x for k, x in product(*a).items()})
    plant_factor(monkeypatch)
    believe(monkeypatch)
    assert "finite differences" in cube().verdict


def test_a_wrong_delta_of_a_jacobian_is_not_shown(monkeypatch):
    contracted = second.contracted
    monkeypatch.setattr(second, "contracted", lambda expr: -contracted(expr))
    d = derive(lambda x: x.softmax(-1), jacobian=True, x=N)
    assert d.proved and "δ(i, n)" in str(d.jacobian["x"])
    believe(monkeypatch)
    assert "does not match backward()" in derive(lambda x: x.softmax(-1), jacobian=True, x=N).verdict


# ------------------------------------------------------------------------------------------------ in print


def test_hessian_prints_the_lines_that_it_uses():
    assert (
        str(derived("least squares"))
        == """least_squares:
    A_n = Σ_d X_nd w_d          A = X w
    𝓛 = 1/N Σ_n (A_n - y_n)²    𝓛 = 𝟏ᵀ (A - y)^∘2/N

𝓛: the result
    ∂𝓛/∂A_n = 2 (A_n - y_n)/N     G = ∂𝓛/∂A = 2 (A - y)/N
    ∂𝓛/∂w_d = Σ_n X_nd ∂𝓛/∂A_n    ∂𝓛/∂w = Xᵀ G
    ∂²𝓛/∂w_d∂w_i = 2/N Σ_n X_nd X_ni    ∂²𝓛/∂w∂wᵀ = 2 Xᵀ X/N

proved for any size"""
    )


MATRICES = {
    "logistic regression": "∂²𝓛/∂w∂wᵀ = Xᵀ diag(σ(A) ⊙ (1 - σ(A))) X/N",
    "ridge": "∂²𝓛/∂w∂wᵀ = c I + Xᵀ X",
    "norm": "∂²𝓛/∂x∂xᵀ = I/𝓛 - x xᵀ/𝓛³",
    "softmax": "∂Y/∂x = diag(Y) - Y Yᵀ",
    "Poisson regression": "∂²𝓛/∂w∂wᵀ = Xᵀ diag(e) X",
}


@pytest.mark.parametrize("name", MATRICES)
def test_blocks_of_vectors_have_a_matrix_form(name):
    assert MATRICES[name] in [str(one) for one in derived(name).matrix()]


@pytest.mark.parametrize("name", MATRICES)
def test_matrix_forms_have_the_values_of_the_blocks(name):
    d = derived(name)
    (block, one) = next((b, one) for b, one in d.blocks.items() if d.in_matrices(one) is not None)
    inputs = arrays(d.derivation, (4, 3))
    space: dict = {"np": np, "size": SimpleNamespace(N=4, D=3)}
    body = d.source().replace(
        "    return {", f"    matrix = {d.in_matrices(one).right.code}\n    return {{'form': matrix, "
    )
    exec(body, space)
    results = space["value_and_gradients"](**inputs)
    np.testing.assert_allclose(results["form"], results[block], rtol=1e-9, atol=1e-12)


def test_interface():
    d = derived("logistic regression")
    assert isinstance(d, Hessian) and isinstance(derived("softmax"), Jacobian)
    assert set(d.hessian) == {("w", "w")}
    assert set(derived("layer norm").jacobian) == {"x", "w", "b"}
    assert set(derive(lambda x, y: (x * y).sum(), order=2, x=N, y=N).hessian) == {(a, b) for a in "xy" for b in "xy"}
    assert str(d.derivation.gradients["w"]).startswith("∂𝓛/∂w_d")
    assert D == ("D",)

"""The mistakes: that they are planted and taken out again, that survivors are named, and why a change is left out."""

import ast
from functools import partial

import numpy as np
import pytest
from sympy import Rational

from derivations import eq17, mutants, planting
from derivations.claims import Refuted, check, claims_of
from derivations.engine import CALLS, prove_op
from derivations.index import Array, Index, Size, total
from tinytensor.autograd import tape
from tinytensor.kernels import softmax as softmax_kernels
from tinytensor.tensor import OPS, Tensor

CLAIMS = {claim.run.__name__: claim for claim in claims_of(["mutants"])}


def changed(source: str, values_only: bool = False) -> list[str]:
    function = ast.parse(source).body[0]
    return [ast.unparse(new.body[-1]) for _, _, new in planting.code_mistakes(function, values_only)]


# ------------------------------------------------------------------------------------------------ how they are made


def test_changes_of_code():
    assert changed("def f(g, y):\n    return g * y") == [
        "return g / y",
        "return g",
        "return y",
        "return y * y",
        "return g * g",
    ]
    assert "return g + y" in changed("def f(g, y):\n    return g - y")
    assert "return y - g" in changed("def f(g, y):\n    return g - y")
    assert "return g" in changed("def f(g, y):\n    return -g")
    assert "return f(y, g)" in changed("def f(g, y):\n    return f(g, y)")
    assert "return (None, y)" in changed("def f(g, y):\n    return (g, y)")
    assert {"x = 2", "x -= 2", "pass"} <= set(changed("def f():\n    x += 2"))


def test_indices_and_bounds_stay_where_only_values_are_changed():
    source = "def f(x, y):\n    y[i + 1] = x[2 * j] - x[0]"
    assert len(changed(source)) > len(changed(source, values_only=True))
    assert all(("i + 1" in c and "2 * j" in c) or c == "y[i + 1] = x[0]" for c in changed(source, values_only=True))


def test_changes_of_formulas():
    n = Size("n", "a")
    a, b = Index("a", n), Index("b", n)
    X, Y = Array("X", (n, n)), Array("Y", (n,))
    told = dict(planting.formula_mistakes(Y[a] + Rational(1, 2) * total(X[a, b] * Y[b], b)))
    assert "without Y[a:n]" in told
    assert "the mean for the sum" in told
    assert any("indices swapped" in what for what in told)
    assert not dict(planting.formula_mistakes(Y[a]))


def test_symmetry_is_no_mistake():
    """What leaves the normal form as it was is not among the mistakes: here the order of the summed indices."""
    n = Size("n", "a")
    a, b = Index("a", n), Index("b", n)
    X = Array("X", (n, n))
    assert not any("swapped" in what for what, _ in planting.formula_mistakes(total(X[a, b], a, b)))


# -------------------------------------------------------------------------------------------- how they are planted


def test_a_rule_is_planted_and_taken_out():
    op, wrong = planting.rule_with("tanh", "grad_x", "y * y", "y")
    before = op.rules[0]
    with planting.planted_rule(op, wrong):
        assert op.rules[0] is not before
        assert not prove_op("tanh", CALLS["tanh"][0])
    assert op.rules[0] is before
    assert prove_op("tanh", CALLS["tanh"][0])


def test_a_kernel_is_planted_and_taken_out():
    before = softmax_kernels.softmax_backward
    wrong = planting.kernel_with("softmax", "b[j] * (a[j] - dot)", "b[j] * a[j]")
    with planting.planted_kernel("softmax", wrong, "softmax_backward"):
        assert not prove_op("softmax", CALLS["softmax"][0])
    assert softmax_kernels.softmax_backward is before
    assert prove_op("softmax", CALLS["softmax"][0])


def test_a_walk_is_planted_and_taken_out():
    with planting.planted_walk(*mutants.HAND_WALKS["overwritten where gradients meet"]):
        assert Tensor.backward is not tape.backward
    assert Tensor.backward is tape.backward


@pytest.mark.parametrize("name", ["maximum", "softmax"])
def test_interpreted_kernels_give_what_compiled_ones_give(name):
    compiled = mutants.numbers(name, ties=True)
    with planting.interpreted():
        assert mutants.same(mutants.numbers(name, ties=True), compiled)
    assert not mutants.same(mutants.numbers(name, ties=False), compiled)
    assert any(isinstance(found, np.ndarray) for found in compiled)


def test_a_mistake_that_fits_nowhere_any_more_is_noticed():
    with pytest.raises(LookupError, match="plant this mistake in another way"):
        planting.rule_with("tanh", "grad_x", "not there", "")


# -------------------------------------------------------------------------------------- what becomes of them


def attempted(name: str, function: str, change: str) -> mutants.Tally:
    tally, op = mutants.Tally(), OPS[name]
    rule = next(f for f in planting.rules_of(planting.declaration(op)) if f.name == function)
    place, new = next((place, new) for what, place, new in planting.code_mistakes(rule) if what == change)
    error = partial(planting.planted_rule, op, planting.unreached(rule, place))
    mutants.attempt(tally, "it", name, partial(planting.planted_rule, op, new), error)
    return tally


def test_noticed():
    assert attempted("mul", "grad_a", "g * b  ->  g").noticed == [("it", "refuted")]


def test_left_out_with_a_reason(monkeypatch):
    assert attempted("relu", "grad_x", "y  ->  x").left_out == [("it", "same numbers")]
    assert attempted("maximum", "grad_a", "g / 2  ->  g").left_out == [("it", "at ties only")]
    assert attempted("power", "grad_a", "g * 0  ->  g").noticed == [("it", "refuted")]
    monkeypatch.setitem(CALLS, "power", CALLS["power"][:1])  # without the calls in which the exponent is a number
    assert attempted("power", "grad_a", "g * 0  ->  g").left_out == [("it", "never reached")]


def test_a_survivor_fails_and_is_named(monkeypatch):
    """A checker that passes everything notices nothing: then every mistake that changes a number is a survivor."""
    monkeypatch.setattr(mutants, "notices", lambda check: "")
    monkeypatch.setattr(mutants, "why_not", lambda *args: "")
    tally = attempted("mul", "grad_a", "g * b  ->  g")
    assert tally.survivors == ["it"]
    with pytest.raises(Refuted, match="not noticed: it"):
        tally.evidence(0)


def test_a_lenient_checker_leaves_survivors(monkeypatch):
    monkeypatch.setattr(mutants, "passes", lambda op: True)
    monkeypatch.setattr(mutants, "why_not", lambda *args: "")
    result = check(CLAIMS["engine_by_hand"])
    assert "not noticed: sub: sign" in result.why
    assert result.why.count(";") > 25


def test_too_few_mistakes_fail():
    with pytest.raises(Refuted, match="only 1 mistakes"):
        mutants.Tally([("it", "refuted")]).evidence(25)


@pytest.mark.parametrize("name", ["engine_by_hand", "formulas_chosen"])
def test_those_by_hand_are_noticed(name):
    result = check(CLAIMS[name])
    assert result.error is None, result.why
    assert int(result.evidence.text.split()[0]) >= 25


def test_a_derivation_that_is_not_checked_leaves_survivors(monkeypatch):
    monkeypatch.setattr(eq17, "check", lambda program, closed: None)
    monkeypatch.setattr(mutants, "difference", lambda *args, **kwargs: 0.0)
    assert check(CLAIMS["formulas_chosen"]).why.count(";") > 25


def test_nothing_is_left_planted():
    functions = [f for op in OPS.values() for f in (*op.rules.values(), op.grads, op.backward, op.definition) if f]
    assert not [f for f in functions if f.__code__.co_filename == "planted"]

"""The claims about ties, zeros and repeats hold; a rule that is wrong only there is refuted only there."""

import pytest

import tinytensor as tt
from derivations.claims import Refuted, claims_of, result_of
from derivations.proofs import kinks
from derivations.proofs.engine import CALLS, prove_op
from tinytensor.core.op import OPS
from tinytensor.ops.elementwise import where
from tinytensor.symbolic import prove, symbols

CLAIMS = claims_of(["kinks"])


def claim(name):
    return next(c for c in CLAIMS if c.run.__name__ == name)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.run.__name__)
def test_the_claims_hold(claim):
    result = result_of(claim)
    assert result.error is None, result.why
    assert result.evidence.text


def swap(monkeypatch, name, rules):
    monkeypatch.setattr(OPS[name], "rules", OPS[name].rules | rules)
    monkeypatch.setattr(OPS[name], "_saved_values", {})


def among_equals(g, y, x, dims):
    """The whole gradient to each of the equal ones."""
    return where(x == x.amax(dims, keepdim=True), 1, 0) * g.reshape(x.amax(dims, keepdim=True).shape)


WRONG_AT_A_KINK = {  # operation: rules that are right beside the kink
    "maximum": {0: lambda g, a, b: where(a >= b, g, 0), 1: lambda g, a, b: where(b >= a, g, 0)},
    "clamp_min": {0: lambda g, a, b: where(a > b, g, 0), 1: lambda g, a, b: where(a > b, 0, g)},
    "absolute": {0: lambda g, x: where(x >= 0, g, -g)},
    "relu": {0: lambda g, x: where(x >= 0, g, 0)},
    "clamped": {0: lambda g, x, low, high: where((x > low).logical_and(x < high), g, 0)},
    "power": {0: lambda g, a, b: where(a == 0, 0, g * b * a ** (b - 1))},
    "xlogy": {0: lambda g, a, b: g * where(a == 0, 0, b.log())},
    "reduce_amax": {0: among_equals},
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", WRONG_AT_A_KINK)
def test_rule_wrong_only_at_a_kink_is_refuted(name, monkeypatch):
    swap(monkeypatch, name, WRONG_AT_A_KINK[name])
    assert prove_op(name, CALLS[name][0]), "the planted rule is right where no two numbers are equal"
    error = result_of(claim("kinks")).error
    assert isinstance(error, Refuted) and error.rule.startswith(f"{name}, input")


def test_gradient_of_overwritten_values_is_refuted(monkeypatch):
    swap(monkeypatch, "put", {2: lambda g, positions: g.flatten()[positions]})
    once, second = CALLS["put"]
    assert prove_op("put", once) and not prove_op("put", second)
    assert isinstance(result_of(claim("writes")).error, Refuted)


def test_index_fill_counting_an_index_twice_is_refuted(monkeypatch):
    right = tt.Tensor.index_fill

    class Twice(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x, index, value):
            ctx.save_for_backward(x, index)
            return right(x, 1, index, value)

        @staticmethod
        def backward(ctx, g):
            _, index = ctx.saved_tensors
            return right(g, 1, index, 0), None, g[:, index].sum()

    monkeypatch.setattr(tt.Tensor, "index_fill", lambda x, dim, index, value: Twice.apply(x, index, value))
    x, v = symbols("x", 2, 4), symbols("v")
    assert prove(lambda x, v: x.index_fill(1, tt.tensor([1, 3]), v), x, v)
    assert isinstance(result_of(claim("index_fill")).error, Refuted)


def test_copies_that_do_not_add_gradients_are_refuted(monkeypatch):
    swap(monkeypatch, "take", {0: lambda g, x_shape, index: OPS["put"](tt.zeros(x_shape, dtype=g.dtype), index, g)})
    x = symbols("x", 2)
    assert prove(lambda x: x[[1, 0]], x)
    assert isinstance(result_of(claim("copies")).error, Refuted)


def test_comparing_operation_without_a_point_fails(monkeypatch):
    monkeypatch.delitem(kinks.KINKS, "relu")
    assert "relu" in result_of(claim("complete")).why


@pytest.mark.slow
def test_edge_missing_in_the_table_fails(monkeypatch):
    monkeypatch.setitem(kinks.KINKS, "relu", [(([0.0, 1.0],), {})])
    assert "KINKS does not list" in result_of(claim("kinks")).why


def test_wrong_share_in_the_table_is_refuted(monkeypatch):
    monkeypatch.setitem(kinks.KINKS, "absolute", [(([0.0, 1.0],), {"x": kinks.RIGHT})])
    assert result_of(claim("kinks")).error.rule == "absolute, input x"

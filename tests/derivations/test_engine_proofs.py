"""The claims about the engine hold, and a wrong rule makes them fail with its name."""

import numpy as np
import pytest

from derivations.claims import Refuted, claims_of, result_of
from derivations.proofs import engine
from tinytensor.core.op import OPS

CLAIMS = {claim.statement: claim for claim in claims_of(["engine"])}


def claim(start: str):
    return next(c for statement, c in CLAIMS.items() if statement.startswith(start))


def test_every_file_of_operations_has_claims():
    assert len(CLAIMS) == len(engine.FILES) + 9
    assert set(engine.FILE_OF.values()) == set(engine.FILES)
    assert sum(c.category == "proof at sizes" for c in CLAIMS.values()) == len(CLAIMS) - 2


def holds(one):
    result = result_of(one)
    assert result.error is None, result.why
    assert result.evidence.text


QUICK = ("ops/shape.py", "ops/index.py", "ops/in_place.py", "no operation", "every fused", "in every layout")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("start", QUICK)
def test_claims_hold(start):
    holds(claim(start))


@pytest.mark.slow
@pytest.mark.parametrize("statement", [s for s in CLAIMS if not s.startswith(QUICK)])
def test_claims_that_take_long_hold(statement):
    holds(CLAIMS[statement])


@pytest.mark.slow
def test_one_layer_of_document_003():
    result = result_of(claim("document 003, one layer"))
    assert result.error is None, result.why
    first, second, *_ = result.evidence.text.splitlines()
    c = engine.SIZES
    parameters = 2 * c.V * c.D + c.C * c.D + 4 * c.D**2 + 2 * c.D * c.F + c.D + c.F  # eq. (19) for L = 1
    assert first.startswith(f"{parameters} entries of model.E (6, 4), model.P (3, 4), model.O (4, 6)")
    assert int(second.split()[0]) > 550
    assert "signs of linear_relu before max(0, .): [[[" in result.evidence.text


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("start", "op", "attribute", "wrong", "rule"),
    [
        ("ops/shape.py", "flip", "rules", {0: lambda g, y, x, dims: g}, "flip, input x"),
        (
            "ops/index.py",
            "take",
            "rules",
            {0: lambda g, x_shape, index: OPS["scatter_rows"](-g, index, x_shape)},
            "take, input x",
        ),
        ("every fused", "silu", "definition", lambda x: x * x, "silu, definition"),
        (
            "document 003, one layer",
            "add",
            "rules",
            {0: lambda g, y, a, b: g, 1: lambda g, y, a, b: g * 2},
            "add, input b",
        ),
        (
            "second derivatives",
            "mul",
            "rules",
            {0: lambda g, y, a, b: g * b, 1: lambda g, y, a, b: g * a * 2},
            "mul, input b",
        ),
    ],
)
def test_a_broken_rule_fails_and_is_named(start, op, attribute, wrong, rule, monkeypatch):
    monkeypatch.setattr(OPS[op], attribute, wrong)
    monkeypatch.setattr(OPS[op], "_saved_values", {})
    result = result_of(claim(start))
    assert isinstance(result.error, Refuted)
    assert result.error.rule.partition(";")[0] == rule
    assert result.why.startswith(f"rule {rule}")


def test_an_op_without_a_proof_fails(monkeypatch):
    monkeypatch.setitem(OPS, "unheard_of", OPS["mul"])
    assert "unheard_of" in result_of(claim("no operation")).why


@pytest.mark.slow
def test_sample_point_of_equal_signs_fails_for_relu(monkeypatch):
    """All signs alike: half of the rule would never be tested."""
    real = engine.prove_model

    class OneSign:
        def __init__(self, proof):
            self.proof = proof

        def __getattr__(self, name):
            if name == "signs":
                return {what: np.full(signs.shape, "+") for what, signs in self.proof.signs.items()}
            return getattr(self.proof, name)

    monkeypatch.setattr(engine, "prove_model", lambda *args: OneSign(real(*args)))
    assert "one sign only" in result_of(claim("the same if eq. (9)")).why


# --- The mask


def test_mask_claim_holds():
    result = result_of(claim("the mask"))
    assert result.error is None, result.why


@pytest.mark.parametrize(
    "wrong",
    [
        lambda i, m: m < i,  # not oneself
        lambda i, m: m <= i + 1,
        lambda i, m: m >= i,  # turned round
        lambda i, m: True,  # none
        lambda i, m: i >= 1,  # as 003 prints (5): j <= i with a j of its own
    ],
)
def test_a_wrong_mask_is_refuted(wrong):
    with pytest.raises(Refuted, match="entry"):
        engine.prove_mask((3, 3), None, True, wrong)


def test_causal_mask_forgotten_beside_another_is_refuted():
    with pytest.raises(Refuted, match="entry"):
        engine.prove_mask((3, 3), engine.HOLES, True, lambda i, m: bool(engine.HOLES.numpy()[i, m]))


def test_models_without_the_mask_are_noticed(monkeypatch):
    monkeypatch.setattr(engine, "OPTIONS", {"without": {"causal": False}})
    result = result_of(claim("in every layout"))
    assert isinstance(result.error, Refuted) and "without: position m is seen" in result.why

"""The engine's rules for any size: all hold, planted mistakes are refuted, and no rule is left out in silence."""

import pytest

from derivations.claims import Refuted
from derivations.proofs import rules
from tests.tools.sampling_rate import some
from tinytensor.core.op import OPS


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", list(some(rules.covered(), 5)))
def test_rule_is_the_derivative(name):
    verdict = rules.check_rules(name)
    assert verdict, str(verdict)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["matmul", "softmax", "reduce_mean", "tanh", "cat"])
def test_planted_mistakes_in_rules_are_refuted(name):
    verdict = rules.check_rules(name, lambda gradient: lambda g, **arguments: 2 * gradient(g=g, **arguments))
    assert not any(verdict.verdicts.values())
    assert "the factor 1/2 is missing" in str(verdict)


def test_claim_names_a_wrong_rule(monkeypatch):
    monkeypatch.setattr(rules, "covered", lambda: ["exp"])
    monkeypatch.setitem(OPS["exp"].rules, 0, lambda g, y: g * y * y)
    with pytest.raises(Refuted, match="exp"):
        rules.rules()


def test_every_rule_is_covered_or_has_a_reason():
    ruled = {name for name, op in OPS.items() if op.rules}
    assert ruled - set(rules.covered()) - set(rules.AT_SIZES) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(some(rules.FUSED, 3)))
def test_fused_operation_is_its_definition(name):
    assert rules.difference(name) == 0


@pytest.mark.slow
def test_planted_mistakes_in_definitions_are_noticed():
    assert rules.difference("softmax", lambda y: 2 * y) != 0
    assert rules.difference("layer_norm", lambda y: y - y.mean()) != 0


def test_every_definition_is_covered_or_has_a_reason():
    fused = {name for name, op in OPS.items() if op.definition is not None}
    assert fused == set(rules.FUSED) | set(rules.UNFUSED)

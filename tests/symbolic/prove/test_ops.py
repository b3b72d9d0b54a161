"""The tape over symbols: every gradient rule gives SymPy's derivative of the operation's result.

The table of calls and the proofs stand in derivations/proofs/engine.py; here each is a test, and wrong rules are
planted that must be noticed.
"""

import pytest

from derivations.proofs.engine import CALLS, NO_DERIVATIVE, prove_op, unproved
from tinytensor.core.kernel import OBJECT
from tinytensor.core.op import OPS
from tinytensor.core.tensor import Tensor

SAMPLES = [pytest.param(name, args, id=f"{name}-{i}") for name in CALLS for i, args in enumerate(CALLS[name])]


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("name", "args"), SAMPLES)
def test_gradients_are_the_derivatives(name, args):
    proof = prove_op(name, args)
    assert proof, proof
    assert proof.entries == sum(a.numel() for a in args if isinstance(a, Tensor) and a.dtype is OBJECT)
    assert (name in proof.fused) == (OPS[name].definition is not None)


def test_every_op_has_a_proof_or_a_reason():
    assert unproved() == set()
    assert set(CALLS) | set(NO_DERIVATIVE) <= set(OPS), "the table proves ops that are gone"
    assert not any(OPS[name].differentiable for name in NO_DERIVATIVE)


def test_an_op_without_a_proof_is_noticed(monkeypatch):
    monkeypatch.setitem(OPS, "unheard_of", OPS["mul"])
    assert unproved() == {"unheard_of"}


@pytest.mark.parametrize(
    ("name", "rule", "wrong", "message"),
    [
        ("mul", "rules", {0: lambda g, y, a, b: g * a, 1: lambda g, y, a, b: g * a}, "the rule of mul for its input a"),
        ("softmax", "definition", lambda x: x.exp(), "but its definition gives"),
    ],
)
def test_a_wrong_rule_is_noticed(name, rule, wrong, message, monkeypatch):
    monkeypatch.setattr(OPS[name], rule, wrong)
    monkeypatch.setattr(OPS[name], "_saved_values", {})
    proof = prove_op(name, CALLS[name][0])
    assert not proof
    assert proof.verdict == "refuted"
    assert message in repr(proof)

"""The models compute the documents' formulas; and each formula, changed in one place, differs from the model."""

import math

import numpy as np
import pytest

from derivations.claims import Refuted, claims_of, result_of
from derivations.proofs import forward


@pytest.mark.parametrize("claim", claims_of(["forward"]), ids=lambda claim: claim.run.__name__)
def test_claim_holds(claim):
    result = result_of(claim)
    assert result.error is None, result.why


WRONG = {  # a function of the formulas: what it is replaced by
    "pe": lambda n, d: np.roll(forward_pe(n + 1, d), -1, axis=0)[:n],  # positions from 1
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(0, keepdims=True),  # by columns
    "ffn": lambda p, x: (x @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"],  # without max(0, .)
    "layer_norm": lambda p, x, eps: forward_layer_norm(p, x, 2 * eps),
    "attention": lambda Q, K, V, masked=lambda x: x: forward.softmax(masked(Q @ K.T / math.sqrt(len(V)))) @ V,
    "multi_head": lambda p, Q, K, V, masked=lambda x: x: forward_multi_head(p | {"beta_O": 0}, Q, K, V, masked),
}
forward_pe, forward_layer_norm, forward_multi_head = forward.pe, forward.layer_norm, forward.multi_head


@pytest.mark.parametrize("name", WRONG)
def test_another_formula_is_noticed(name, monkeypatch):
    monkeypatch.setattr(forward, name, WRONG[name])
    with pytest.raises(Refuted, match="the model and the formula differ"):
        forward.encoder_decoder()


@pytest.mark.parametrize("masked", [lambda x: x, lambda x: forward.mask(x.T).T], ids=["none", "turned round"])
def test_another_mask_is_noticed(masked):
    with pytest.raises(Refuted, match=r"^Z: the model and the formula differ"):
        forward.compared(forward.both_translations(masked=masked))


def test_another_shape_or_no_number_is_noticed():
    for other, said in ((np.ones(4), "the model gives"), (np.full(3, np.nan), "differ by nan")):
        with pytest.raises(Refuted, match=said):
            forward.compared({"x": (np.ones(3), other)})


def test_weights_that_are_not_scaled_are_noticed(monkeypatch):
    real = forward.entries
    monkeypatch.setattr(forward, "entries", lambda X, q, k, v: real(X, q * math.sqrt(3), k, v))
    with pytest.raises(Refuted, match="Algorithm 1: the model and the formula differ"):
        forward.entry_by_entry()


def test_another_rate_is_noticed():
    with pytest.raises(Refuted, match=r"the step is not .* - 0\.1001 times its gradient"):
        forward.descent(rate=0.1001)

"""The errata hold; and each check refuses a printed form that is right, and a correction that is wrong."""

import numpy as np
import pytest

from derivations.claims import Refuted, claims_of, result_of
from derivations.proofs import errata


@pytest.mark.one_in(3)
@pytest.mark.parametrize("claim", claims_of(["errata"]), ids=lambda claim: claim.run.__name__)
def test_claim_holds(claim):
    result = result_of(claim)
    assert result.error is None, result.why


def test_each_erratum_names_its_place():
    result = claims_of(["errata"])
    assert {c.category for c in result} == {"erratum", "choice"}
    assert all(c.source[:3] in ("000", "001", "002", "003", "004") for c in result)
    assert all(c.printed != c.right for c in result)


# --- Negative controls


def test_computable_printed_form_is_no_clash():
    with pytest.raises(Refuted, match=r"can be computed: it gives \(2, 2\)"):
        errata.clashes(lambda: np.eye(2) @ np.eye(2))


def test_other_errors_are_no_clash():
    with pytest.raises(ZeroDivisionError):
        errata.clashes(lambda: 1 / 0)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [(np.ones(3), np.ones(4), "shapes"), (1.0, 1.001, "differ by"), (np.nan, np.nan, "differ by nan")],
)
def test_agree_refuses(a, b, said):
    with pytest.raises(Refuted, match=said):
        errata.agree(a, b, "two things")


def test_differ_refuses_equal_values_and_nan():
    for a, b in ((np.ones(3), np.ones(3)), (np.nan, 1.0)):
        with pytest.raises(Refuted, match="agree"):
            errata.differ(a, b, "two things")


def test_encoding_counted_from_1_is_noticed(monkeypatch):
    monkeypatch.setattr(errata, "positional_encoding", errata.counted_from_1)
    with pytest.raises(Refuted, match="counted from 0 a shift is linear"):
        errata.encoding_origin()


def not_normalised(x):
    return np.exp(x)


@pytest.mark.parametrize("name", ["mask_index", "weighted_values", "softmax_missing", "mean_over_counted"])
def test_softmax_without_its_sum_is_noticed(monkeypatch, name):
    monkeypatch.setattr(errata, "softmax", not_normalised)
    with pytest.raises(Refuted):
        getattr(errata, name)()


def test_model_without_the_mask_is_noticed(monkeypatch):
    real = errata.decoded
    monkeypatch.setattr(
        errata, "decoded", lambda made, inputs, shifted, is_causal=True: real(made, inputs, shifted, False)
    )
    with pytest.raises(Refuted):
        errata.mask_at_inference()


def test_heads_of_another_width_are_noticed(monkeypatch):
    monkeypatch.setattr(errata.Config, "K", property(lambda self: 64))
    with pytest.raises(Refuted):
        errata.head_width()


def test_model_that_stops_anyway_is_noticed(monkeypatch):
    monkeypatch.setattr(errata, "STOP", int(errata.tokens(1, 4, seed=1).numpy()[0, 2]))
    with pytest.raises(Refuted, match="no word of the printed target"):
        errata.stop_word()


def test_one_token_for_both_meanings_of_t_is_noticed(monkeypatch):
    real = errata.tokens
    monkeypatch.setattr(errata, "tokens", lambda *shape, seed=0: real(*shape))
    with pytest.raises(Refuted, match="agree"):
        errata.letters_twice()

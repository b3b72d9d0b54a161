"""The counts hold, and notice a parameter too many, too few, or of another shape."""

import pytest
from sympy import expand

import models.decoder.model
import models.transformer.model
from derivations.claims import Refuted, claims_of, result_of
from derivations.proofs import eq19
from models.decoder import Block, Config, Decoder
from tinytensor import empty
from tinytensor.nn import Parameter


@pytest.mark.one_in(3)
@pytest.mark.parametrize("claim", claims_of(["eq19"]), ids=lambda claim: claim.run.__name__)
def test_claim_holds(claim):
    result = result_of(claim)
    assert result.error is None, result.why


def test_eq19_has_claims():
    assert len(claims_of(["eq19"])) > 10


# --- Negative controls


def planted(monkeypatch, change):
    """Blocks of the decoder are made, and then changed."""

    class Planted(Block):
        def __init__(self, config, device=None):
            super().__init__(config, device)
            change(self, config, device)

    monkeypatch.setattr(models.decoder.model, "Block", Planted)


def extra_bias(block, config, device):
    block.extra = Parameter(empty(config.D, device=device))


def no_output_bias(block, config, device):
    block.c = None


def wide_output(block, config, device):
    block.W = Parameter(empty(config.H * config.K, config.F, device=device))


def more_in_deeper_models(block, config, device):
    if config.L > 2:
        extra_bias(block, config, device)


@pytest.mark.parametrize("change", [extra_bias, no_output_bias, wide_output, more_in_deeper_models])
def test_a_block_of_another_shape_is_noticed(monkeypatch, change):
    planted(monkeypatch, change)
    with pytest.raises(Refuted, match=r"the shapes give|not always add the same"):
        eq19.eq_19()


def test_a_feed_forward_of_another_shape_is_noticed(monkeypatch):
    class Planted(models.transformer.model.FeedForward):
        def __init__(self, config, depth, device=None):
            super().__init__(config, depth, device)
            self.b_2 = None

    monkeypatch.setattr(models.transformer.model, "FeedForward", Planted)
    with pytest.raises(Refuted, match="004's encoder-decoder: the shapes give"):
        eq19.of_004()


def test_the_message_has_both_counts(monkeypatch):
    planted(monkeypatch, extra_bias)
    with pytest.raises(Refuted, match=r"003's decoder: the shapes give .*2\*D\*L.*, the formula .*D\*\(C \+ 2\*V\)"):
        eq19.eq_19()


@pytest.mark.parametrize(
    "wrong",
    [
        eq19.EQ_19 + eq19.V,
        eq19.EQ_19.subs(eq19.C, eq19.D),
        eq19.EQ_19.subs(4, 3),
        (4 * eq19.D + 1) * eq19.D * eq19.L,
    ],
)
def test_a_wrong_formula_is_refuted(wrong):
    with pytest.raises(Refuted):
        eq19.require(eq19.decoder(), wrong, "003")


def test_eq_19_fails_where_heads_do_not_fill_the_width():
    free = eq19.decoder(eq19.FreeHeads)
    with pytest.raises(Refuted):
        eq19.require(free, eq19.EQ_19, "K free")
    eq19.require(free.subs(eq19.K, eq19.D / eq19.H), eq19.EQ_19, "K = D / H")


def test_count_must_be_linear_in_the_layers():
    with pytest.raises(Refuted, match="not always add the same"):
        eq19.any_depth(lambda n: expand(eq19.D * n**2), eq19.L)


def test_any_depth_matches_deeper_models():
    sizes = {"D": 6, "H": 2, "F": 5, "V": 7, "C": 3}
    symbols = {getattr(eq19, name): value for name, value in sizes.items()}
    for layers in (1, 9):
        counted = Decoder(Config(**sizes, L=layers), device="meta").num_parameters()
        assert eq19.decoder().subs(symbols | {eq19.L: layers}) == counted


def test_paper_count_needs_the_shared_matrix(monkeypatch):
    monkeypatch.setitem(eq19.TRANSLATION, "base", eq19.TRANSLATION["base"].replace(tied=False))
    with pytest.raises(Refuted):
        eq19.base()

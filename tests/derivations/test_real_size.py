"""The claims at real size: that they hold (one that is small), and that they fail when they should."""

from dataclasses import replace

import pytest

from derivations import real_size
from derivations.claims import Refuted, claims_of, result_of
from models.decoder import CONFIGS
from tests.mutants.planting import kernel_with, planted_kernel, planted_rule, rule_with
from tinytensor.kernels import attention, matmul, vectors
from tinytensor.symbolic import prove
from tinytensor.symbolic import sampling as sampling_of

CLAIMS = {claim.statement: claim for claim in claims_of(["real_size"])}


def claim(part: str):
    return next(c for statement, c in CLAIMS.items() if part in statement)


def test_what_is_claimed():
    assert len(CLAIMS) == 1 + len(real_size.LAYOUTS) + len(real_size.STACKS_LAYOUTS)
    assert {c.kind for c in CLAIMS.values()} == {"sampled"}
    first = next(iter(CLAIMS.values()))
    assert first.size == f"{CONFIGS['toth-tiny'].sizes()}, B = 2"


def test_sizes_are_beyond_blocks():
    """A square of attention has 8 queries at least, a tile of a product 6 rows; registers hold at most 8 doubles."""
    config = real_size.SMALLER
    assert config.C > attention.LANES >= attention.WIDTH
    assert config.C * 2 > matmul.HEIGHT * 2
    assert min(config.D, config.F, config.V) > 2 * vectors.BYTES // 8
    sizes = [config.C, config.D, config.F, config.V, config.K, config.H, 2]
    assert len(set(sizes)) >= 6


def test_a_layout_holds_and_says_how_safely():
    result = result_of(claim("microgpt's layout"))
    assert result.error is None, result.why
    lines = result.evidence.text.splitlines()
    assert lines[0].endswith("entries of gradients, all at once: <gradient, v> = D_v loss")
    (told,) = (line for line in lines if line.startswith("probability that a wrong gradient passes: below 2^"))
    assert int(told.partition("^")[2]) <= real_size.BOUND


def test_a_wrong_kernel_fails(monkeypatch):
    monkeypatch.setattr(sampling_of, "LOCATING", 0)
    kernel, right, wrong = "rms_norm_backward", "total(sum_hn) / count", "total(sum_hn)"
    with planted_kernel(kernel, kernel_with(kernel, right, wrong)):
        result = result_of(claim("microgpt's layout"))
    assert isinstance(result.error, Refuted)
    assert "refuted: Loss" in result.why


def test_a_wrong_rule_fails(monkeypatch):
    monkeypatch.setattr(sampling_of, "LOCATING", 0)
    with planted_rule(*rule_with("gelu_erf", "grad_x", "gelu_erf_backward(g, x", "gelu_erf_backward(g * 2, x")):
        assert isinstance(result_of(claim("nanoGPT's layout")).error, Refuted)


def test_a_proof_that_is_not_safe_enough_is_no_evidence():
    proof = prove(lambda x: x * x, (3,), size="real")
    real_size.accept(proof)
    with pytest.raises(Refuted, match="could pass with a probability"):
        real_size.accept(replace(proof, error=-99.0))
    with pytest.raises(Refuted):
        real_size.accept(replace(proof, verdict="undecided"))

"""A claim that is false at one width of vector registers is noticed there, and at no other."""

import pytest

from derivations.claims import LONG, PARTS
from tests.tools import widths
from tinytensor.native.simd import isa

PLANTED = """
from derivations import __main__ as command, claims
from tinytensor.native.simd.isa import BYTES

claims.import_module = lambda name: None

@claims.claim("index", "a register has more than 16 bytes", category="check", size="1")
def planted():
    claims.holds(BYTES > 16, "16 is more than 16")

raise SystemExit(command.main(["index"]))
"""


@pytest.mark.parametrize("width", [isa.SIMD, "none"])
def test_claim_that_is_false_at_one_width_is_noticed(width, capfd):
    false = isa._REGISTER[width] == 16
    assert widths.main([width], [["-c", PLANTED]]) == false
    said = capfd.readouterr().out
    assert said.startswith(f"TINYTENSOR_SIMD={width}: ")
    assert ("FAILED index: a register has more than 16 bytes" in said) is false


def test_widths_and_parts_that_are_run(monkeypatch):
    for simd, narrower in (("avx512", ("avx2", "none")), ("avx2", ("none",)), ("none", ()), ("neon", ())):
        monkeypatch.setattr(isa, "SIMD", simd)
        assert widths.narrower() == narrower
    parts = {part for program in widths.programs() for part in program[2:]}
    assert parts == {*PARTS} - {*LONG, *widths.OF_LETTERS} | {"kernels"}

"""What a claim is: a statement, how it is established, at which sizes, under which assumptions, and whom it trusts.

A part of the derivations is a module of this package that declares claims:

    @claim("eq19", "the parameters of document 003's model are as many as eq. (19) says", kind="proof", size="any size")
    def eq_19():
        if counted != formula:
            raise Refuted(f"counted {counted}, but eq. (19) gives {formula}")
        return Evidence(latex=r"N = ...")

The function is the evidence: it returns (an `Evidence` to show, or None) if the claim holds and raises if it does not.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from sympy.logic.boolalg import BooleanTrue

PARTS = {  # module: what it establishes
    "index": "The rules of the index calculus keep the value of what they rewrite.",
    "eq17": "Equation (17) of document 003 for any sizes: its gradients, derived by differentiation.",
    "sublayers": "What 000 and 004 have beyond 003, with gradients for any sizes: cross-attention, Add & Norm, ends.",
    "eq19": "The models have as many parameters as eq. (19) of 003, and the shapes listed in 000 and 004, say.",
    "program": "The derivation of eq. (17) runs: written out as NumPy, it is compared with the engine.",
    "forward": "What the models compute is what the formulas of 000, 001, 002 and 004 say; and a step (18).",
    "engine": "The gradients of the engine that ships are derivatives: every rule, every fused operation, the models.",
    "kinks": "Where rules change: repeated places, equal numbers, zeros and the edges of clamps.",
    "real_size": "The same at sizes at which models are trained, but for a probability that is stated.",
    "kernels": "The kernels' own source at sizes beyond their blocks: definitions, adjoints, but for a probability.",
    "rounding": "How far the shipped steps in float32 and float64 are from the true gradients, which balls enclose.",
    "theorems": "What the documents say of attention, norms and positions is true; gradients obey the symmetries.",
    "errata": "What is wrong in the documents: what is printed is computed to be wrong, what is corrected to be right.",
}

LONG = ("real_size", "kernels", "rounding")  # these take longer than all others together

KINDS = {
    "proof": "holds for all values and any size",
    "proof at sizes": "holds for all values, at the sizes and options named: of others it says nothing",
    "sampled": "holds at the sizes named, but for a stated probability: one random point modulo a random prime",
    "check": "numbers or sampled points were compared: evidence, not a proof",
    "erratum": "an error in print: what is printed is shown to be wrong, and the corrected form to be right",
    "choice": "left open in print: the readings are computed and differ, and one of them is taken here",
    "enclosure": "true numbers lie within certified bounds, at the one sample named: of others it says nothing",
    "display": "what is defined, or derived by the rules, is written out: nothing is compared",
}

BOUND = -100  # log2: a sampled claim of which a wrong one could pass with a probability above this one is none

# Whom a claim trusts beyond CPython, which all of them trust.
SYMPY = "SymPy's diff and its arithmetic"
INDEX = "the index calculus"
NUMBA = "Numba compiling what it is given"
NUMPY = "NumPy"


class Refuted(AssertionError):
    """A claim does not hold: what differs, and the rule that is to blame where one is known."""

    def __init__(self, message: str, rule: str = ""):
        super().__init__(message)
        self.rule = rule


def holds(condition, what: str) -> None:
    """Raise Refuted unless Python, NumPy or SymPy says True (None, SymPy's "unknown", is not enough)."""
    if not isinstance(condition, bool | np.bool_ | BooleanTrue) or not condition:
        raise Refuted(f"it is not so that {what} ({condition})")


@dataclass(frozen=True)
class Evidence:
    """What a report shows of a claim that holds: LaTeX without dollar signs, and text (monospace, lines kept)."""

    latex: str = ""
    text: str = ""


@dataclass(frozen=True)
class Claim:
    """One statement and the function that establishes it."""

    part: str
    statement: str
    kind: str
    size: str
    assumptions: tuple[str, ...]
    source: str
    trusted: tuple[str, ...]
    run: Callable[[], Evidence | None]
    printed: str = ""  # of an erratum or a choice, as LaTeX: what stands in the document,
    right: str = ""  # and what should stand there, or is taken here


@dataclass(frozen=True)
class Result:
    """What came of a claim: its evidence if `error` is None."""

    claim: Claim
    seconds: float
    evidence: Evidence
    error: Exception | None = None

    @property
    def why(self) -> str:
        """Why the claim failed: the exception's message, after its kind and the name of the rule where there is one."""
        if self.error is None:
            return ""
        kind = "" if isinstance(self.error, Refuted) else f"{type(self.error).__name__}: "
        rule = getattr(self.error, "rule", "")
        return kind + (f"rule {rule}: " if rule else "") + (str(self.error) or "no message")


CLAIMS: list[Claim] = []  # in the order of declaration


def claim(
    part: str,
    statement: str,
    *,
    kind: str,
    size: str,
    assumptions=(),
    source: str = "",
    trusted=(SYMPY,),
    printed: str = "",
    right: str = "",
):
    """Declare the decorated function to be the evidence for `statement`; the function itself is unchanged.

    part: one of PARTS; kind: one of KINDS; size: "any size", or the sizes at which it was run; assumptions and trusted:
    tuples of sentences; source: "003 eq. (17)"; printed and right: LaTeX, for errata and choices, which need both.
    """
    if part not in PARTS:
        raise ValueError(f"claim: part {part!r}: choose one of {', '.join(PARTS)}")
    if kind not in KINDS:
        raise ValueError(f"claim: kind {kind!r}: choose one of {', '.join(KINDS)}")
    if (kind == "proof" and not size.startswith("any")) or (kind == "proof at sizes" and size.startswith("any size")):
        raise ValueError(f'claim: a {kind} of size {size!r}: a "proof" is for any size, others are "proof at sizes"')
    if (kind in ("erratum", "choice")) != bool(printed and right):
        raise ValueError("claim: what is printed and what is right belong to an erratum or a choice, and to no other")
    for name, value in (("assumptions", assumptions), ("trusted", trusted)):
        if isinstance(value, str):
            raise TypeError(f"claim: {name} = {value!r}: a tuple of sentences is needed, not one string")

    def declare(function: Callable[[], Evidence | None]):
        if any(c.part == part and c.statement == statement for c in CLAIMS):
            raise ValueError(f"claim: {part} already has a claim with this statement: {statement}")
        CLAIMS.append(
            Claim(part, statement, kind, size, tuple(assumptions), source, tuple(trusted), function, printed, right)
        )
        return function

    return declare


def result_of(claim: Claim) -> Result:
    """Run one claim; an exception of any kind makes it fail, and stops nothing else."""
    start = time.perf_counter()
    try:
        evidence, error = claim.run() or Evidence(), None
    except Exception as exception:
        evidence, error = Evidence(), exception
    return Result(claim, time.perf_counter() - start, evidence, error)


def claims_of(parts: Sequence[str]) -> list[Claim]:
    """The claims of these parts, part by part; their modules are imported, so that the claims are declared."""
    for part in parts:
        import_module(f"{__package__}.proofs.{part}")
    return [claim for part in parts for claim in CLAIMS if claim.part == part]

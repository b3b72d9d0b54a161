"""The form of a claim: a statement with its evidence, its kind, its sizes, its assumptions and what it trusts.

A part of the derivations is a module of this package that declares claims:

    @claim("eq19", "the parameters are as many as eq. (19) says", category="proof", size="any size")
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


class Refuted(AssertionError):
    """A claim does not hold: the difference, and the wrong rule if it is known."""

    def __init__(self, message: str, rule: str = ""):
        super().__init__(message)
        self.rule = rule


PARTS = {  # module: its statement
    "index": "Each rule of the index calculus keeps the value of the expression that it rewrites.",
    "eq17": "Equation (17) of document 003 for any sizes: its gradients, derived by differentiation.",
    "sublayers": "Parts of 000 and 004 that 003 lacks, with gradients for any size: cross-attention, Add & Norm, ends.",
    "eq19": "The models have as many parameters as eq. (19) of 003, and the shapes listed in 000 and 004, say.",
    "program": "The derivation of eq. (17) runs: written out as NumPy, it is compared with the engine.",
    "forward": "The models compute the formulas of 000, 001, 002 and 004; and a step (18).",
    "engine": "The gradients of the engine that ships are derivatives: every rule, every fused operation, the models.",
    "rules": "The backward rules of the engine that are tensor code are derivatives, for any size.",
    "kinks": "Where rules change: repeated places, equal numbers, zeros and the edges of clamps.",
    "coq": "Derived gradients and scalar rules, as theorems that the kernel of Coq checks.",
    "real_size": "The same at the sizes of training, up to a stated probability.",
    "kernels": "The kernels' source at sizes beyond their blocks: definitions, adjoints, up to a stated probability.",
    "rounding": "The distance of the shipped steps (float32, float64) from the true gradients, which balls enclose.",
    "theorems": "The documents' statements on attention, norms and positions are true; gradients obey the symmetries.",
    "errata": "Errors in the documents: each printed form is computed and is wrong, each corrected form is right.",
}

LONG = ("real_size", "kernels", "rounding")  # these take longer than all others together

KINDS = {
    "proof": "holds for all values and any size",
    "proof at sizes": "holds for all values, at the sizes and options named; says nothing about others",
    "sampled": "holds at the sizes named, up to a stated probability: one random point modulo a random prime",
    "check": "numbers or sampled points were compared: evidence, not a proof",
    "erratum": "an error in print: the printed form is shown to be wrong, and the corrected form to be right",
    "choice": "left open in print: the readings are computed and differ, and one of them is taken here",
    "enclosure": "true numbers lie within certified bounds, at the one sample named; says nothing about others",
    "display": "definitions, or results of the rules, are written out: nothing is compared",
}

BOUND = -100  # log2 of the largest probability with which a wrong sampled claim may pass

# The things that claims trust beyond CPython, which all of them trust.
SYMPY = "SymPy's diff and its arithmetic"
INDEX = "the index calculus"
NUMBA = "Numba's compiler"
NUMPY = "NumPy"


def holds(condition, what: str) -> None:
    """Raise Refuted unless Python, NumPy or SymPy says True (None, SymPy's "unknown", is not enough)."""
    if not isinstance(condition, bool | np.bool_ | BooleanTrue) or not condition:
        raise Refuted(f"it is not so that {what} ({condition})")


@dataclass(frozen=True)
class Evidence:
    """The part of a report about a claim that holds: LaTeX without dollar signs, and text (monospace, lines kept)."""

    latex: str = ""
    text: str = ""


@dataclass(frozen=True)
class Claim:
    """One statement and the function that establishes it."""

    part: str
    statement: str
    category: str
    size: str
    assumptions: tuple[str, ...]
    source: str
    trusted: tuple[str, ...]
    run: Callable[[], Evidence | None]
    printed: str = ""  # for an erratum or a choice, as LaTeX: the form in the document,
    right: str = ""  # and the right form, or the one that is chosen here

    @property
    def extent(self) -> str:
        """The sizes at which it is claimed, and the conditions under which it is."""
        return f"{self.size}, assuming {'; '.join(self.assumptions)}" if self.assumptions else self.size


@dataclass(frozen=True)
class Result:
    """The outcome of a claim: its evidence if `error` is None."""

    claim: Claim
    seconds: float
    evidence: Evidence
    error: Exception | None = None

    @property
    def why(self) -> str:
        """Why the claim failed: the exception's message, after its kind and the name of the rule, if any."""
        if self.error is None:
            return ""
        prefix = "" if isinstance(self.error, Refuted) else f"{type(self.error).__name__}: "
        rule = getattr(self.error, "rule", "")
        return prefix + (f"rule {rule}: " if rule else "") + (str(self.error) or "no message")


CLAIMS: list[Claim] = []  # in the order of declaration


def claim(
    part: str,
    statement: str,
    *,
    category: str,
    size: str,
    assumptions=(),
    source: str = "",
    trusted=(SYMPY,),
    printed: str = "",
    right: str = "",
):
    """Declare the decorated function to be the evidence for `statement`; the function itself is unchanged.

    part: one of PARTS; category: one of KINDS; size: "any size", or the sizes at which it was run; assumptions and
    trusted: tuples of sentences; source: "003 eq. (17)"; printed and right: LaTeX, for errata and choices, which need
    both.
    """
    if part not in PARTS:
        raise ValueError(f"claim: part {part!r}: choose one of {', '.join(PARTS)}")
    if category not in KINDS:
        raise ValueError(f"claim: category {category!r}: choose one of {', '.join(KINDS)}")
    if (category == "proof" and not size.startswith("any")) or (
        category == "proof at sizes" and size.startswith("any size")
    ):
        raise ValueError(
            f'claim: a {category} of size {size!r}: a "proof" is for any size, others are "proof at sizes"'
        )
    if (category in ("erratum", "choice")) != bool(printed and right):
        raise ValueError(
            "claim: `printed` and `right` belong to an erratum or a choice, which need both; other kinds take none"
        )
    for name, value in (("assumptions", assumptions), ("trusted", trusted)):
        if isinstance(value, str):
            raise TypeError(f"claim: {name} = {value!r}: a tuple of sentences is needed, not one string")

    def declare(function: Callable[[], Evidence | None]):
        if any(c.part == part and c.statement == statement for c in CLAIMS):
            raise ValueError(f"claim: {part} already has a claim with this statement: {statement}")
        CLAIMS.append(
            Claim(part, statement, category, size, tuple(assumptions), source, tuple(trusted), function, printed, right)
        )
        return function

    return declare


def result_of(claim: Claim) -> Result:
    """Run one claim; any exception makes it fail, and the other claims still run."""
    start = time.perf_counter()
    try:
        evidence, error = claim.run() or Evidence(), None
    except Exception as exception:
        evidence, error = Evidence(), exception
    return Result(claim, time.perf_counter() - start, evidence, error)


def claims_of(parts: Sequence[str]) -> list[Claim]:
    """The claims of these parts, part by part; importing their modules declares them."""
    for part in parts:
        import_module(f"{__package__}.proofs.{part}")
    return [claim for part in parts for claim in CLAIMS if claim.part == part]

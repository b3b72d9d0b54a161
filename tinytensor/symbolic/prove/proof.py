"""The result of `prove`: a verdict, the evidence for it, its text for a reader, and that text in a notebook."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy

from tinytensor.symbolic.exact.scalars import Condition, Symbolic, differ
from tinytensor.symbolic.exact.tensors import SMALL_EXPRESSION
from tinytensor.utils.display.notebook import sentence, shown


@dataclass(frozen=True)
class WrongRule:
    """A rule of an operation (or its definition) that is wrong: the entry, the value, and the right value."""

    op: str
    input: str  # empty if the value of the definition differs
    index: tuple[int, ...]
    got: Symbolic
    right: Symbolic
    through_definition: bool = False  # of a fused operation, as for second derivatives
    rule_at: str = ""  # the line of the rule
    called_at: str = ""  # the line of the user's code that calls the operation

    @property
    def rule(self) -> str:
        """The name of the rule."""
        if not self.input:
            return f"{self.op}, definition"
        return f"{self.op}, input {self.input}{', through its definition' if self.through_definition else ''}"

    @property
    def differs(self) -> bool:
        """Are the two different numbers at the sample point? (If not, no proof was found.)"""
        return differ(self.got.witness, self.right.witness)

    @property
    def sentences(self) -> list[str]:
        """Both formulas, and the lines that they come from."""
        says, then = f"{self.op} is", "but its definition gives"
        if self.input:
            what = "the definition" if self.through_definition else "the rule"
            says = f"{what} of {self.op} for its input {self.input} gives"
            then = "but the derivative is" if self.differs else "which is not proved equal to"
        lines = [f"{says} {shorten(self.got)} at {list(self.index)}, {then} {shorten(self.right)}"]
        lines += [f"the rule: {self.rule_at}"] * bool(self.rule_at)
        return lines + [f"called here: {self.called_at}"] * bool(self.called_at)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The result of `prove`; true if and only if all was proved, at its shapes and under the conditions `where`."""

    name: str
    size: str
    scope: str  # for which values
    entries: int  # compared at the inputs
    operations: tuple[str, ...]
    assumptions: tuple[str, ...]  # in sentences; of residues also the prime, the degree and the probability
    where: tuple[str, ...] = ()  # the conditions of the verdict in words; `assumptions` has them in full
    against: tuple[str, ...] = ()  # why it is not proved, in sentences
    refuted: bool = False  # by numbers that differ
    # of formulas:
    steps: int = 0  # compared on the way, at the results of operations
    fused: tuple[str, ...] = ()  # those of the operations that were compared with their definition
    signs: dict[str, np.ndarray] = field(default_factory=dict, repr=False)  # by tensor compared with 0: "+" or "-"
    conditions: tuple[Condition, ...] = field(default=(), repr=False)
    wrong: tuple[WrongRule, ...] = ()
    # of residues:
    prime: int = 0
    formula: float = 0.0  # log2 of the size of the formula that is 0: a bound of its degree
    error: float = 0.0  # log2 of the probability that a wrong gradient passes
    comparisons: int = 0  # decided by floats

    @property
    def verdict(self) -> str:
        """The word: proved, where nothing speaks against it; refuted; or undecided, where no number differs either."""
        return "refuted" if self.refuted else "undecided" if self.against else "proved"

    def __bool__(self):
        """Proved? At these shapes alone, for real numbers without rounding, and under the conditions `where`.

        The verdict's line names them: the path through comparisons (signs, the order of numbers: no two compared
        numbers are equal); denominators, logarithms, roots and arcs that exist; inputs as they were passed in (whole
        numbers, masks, settings, buffers, a Module's mode); values held constant; random numbers of this run. Off the
        path, numbers were tried and did not refute it. Second derivatives, and code that asks for more than its
        inputs (the time, a file), are not covered.
        """
        return self.verdict == "proved"

    def __repr__(self):
        first = f"{self.verdict}: {self.name} at {self.size}"
        if self:
            first += f": {self.entries:,} entries of gradients, {self.scope}"
            first += f" where {join_words(self.where)}" if self.where else ""
        return "\n  ".join([first, *self.against, *(self.assumptions if self or self.prime else ())])

    def _repr_html_(self) -> str | None:
        """The verdict and its sentences in a notebook."""
        verdict, *lines = map(str.strip, str(self).splitlines())
        items = "".join(f"<li>{sentence(line)}</li>" for line in lines)
        return shown(f"<p><b>{self.verdict}</b>{sentence(verdict.removeprefix(self.verdict))}</p><ul>{items}</ul>")


def join_words(words: Sequence[str]) -> str:
    """Words as a list in a sentence: a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def shorten(value: Symbolic) -> str:
    """A formula for a sentence, as one product if that is shorter; its value at the sample point if it is long."""
    forms = [value.expr]
    if value.expr.count_ops() <= SMALL_EXPRESSION:
        forms.append(sympy.factor(sympy.cancel(value.expr)))
    text = min((str(form).replace("'", "") for form in forms), key=len)
    return text if len(text) <= 120 else f"{value.witness:.6g} (a formula of {len(text)} letters)"


def format_numbers(values: np.ndarray) -> str:
    """An array on one line; of more than 50 numbers those at the edges."""
    rounded = np.array2string(values, precision=4, separator=", ", threshold=50)
    return " ".join(rounded.split())

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
    """A rule of an operation (or its definition) that is wrong: the place, the value, and the right value."""

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

    def __str__(self):
        says, then = f"{self.op} is", "but its definition gives"
        if self.input:
            what = "the definition" if self.through_definition else "the rule"
            says = f"{what} of {self.op} for its input {self.input} gives"
            then = "but the derivative is" if self.differs else "which is not proved equal to"
        lines = [f"{says} {shorten(self.got)} at {list(self.index)}, {then} {shorten(self.right)}"]
        lines += [f"the rule: {self.rule_at}"] * bool(self.rule_at)
        return "\n  ".join([*lines, *[f"called here: {self.called_at}"] * bool(self.called_at)])


@dataclass(frozen=True)
class Counterexample:
    """An entry of a gradient at one point: the tape's value, and the derivative."""

    input: str
    index: tuple[int, ...]
    tape: float
    derivative: float
    point: dict[str, np.ndarray]

    def __str__(self):
        return (
            f"the gradient of {self.input} at {list(self.index)} is {self.tape:.6g} on the tape, but the derivative of "
            f"the forward is {self.derivative:.6g}\n  at {_point(self.point)}"
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of `prove`; true if and only if all was proved, at its shapes and under the conditions `where`."""

    name: str
    verdict: str  # "proved", "refuted", or "undecided": equal numbers at the sample point, but no proof
    size: str
    entries: int  # compared at the inputs
    operations: tuple[str, ...]
    assumptions: tuple[str, ...]  # in sentences
    on_floats: str = ""  # the difference when the same code runs on floats
    on_numbers: str = ""  # what speaks against a proof: numbers off its path, or a question (questions.py)
    where: tuple[str, ...] = ()  # the conditions of the verdict in words; `assumptions` has them in full

    def __bool__(self):
        """Proved? At these shapes alone, for real numbers without rounding, and under the conditions `where`.

        The verdict's line names them: the path through comparisons (signs, the order of numbers: no two compared
        numbers are equal); denominators, logarithms, roots and arcs that exist; inputs as they were passed in (whole
        numbers, masks, settings, buffers, a Module's mode); values held constant; random numbers of this run. Off the
        path, numbers were tried and did not refute it. Second derivatives, and code that asks for more than its
        inputs (the time, a file), are not covered.
        """
        return self.verdict == "proved"

    def _repr_html_(self) -> str | None:
        """The verdict and its sentences in a notebook."""
        verdict, *lines = map(str.strip, str(self).splitlines())
        items = "".join(f"<li>{sentence(line)}</li>" for line in lines)
        return shown(f"<p><b>{self.verdict}</b>{sentence(verdict.removeprefix(self.verdict))}</p><ul>{items}</ul>")


@dataclass(frozen=True, kw_only=True)
class Proof(Result):
    """A proof by formulas."""

    steps: int  # compared on the way, at the results of operations
    fused: tuple[str, ...]  # those of the operations that were compared with their definition
    signs: dict[str, np.ndarray] = field(repr=False)  # by tensor compared with 0: "+" or "-" for each entry
    conditions: tuple[Condition, ...] = field(repr=False)
    wrong: tuple[WrongRule, ...] = ()
    counterexample: Counterexample | None = None
    unexplained: tuple[str, ...] = ()  # values whose gradient is another one than the rules give, which are right
    off_tape: tuple[str, ...] = ()  # values held constant that the caller has not named
    changed: tuple[str, ...] = ()  # values that the function changed without the tape
    point: dict[str, np.ndarray] = field(default_factory=dict, repr=False)  # the inputs for these numbers
    elsewhere: bool = False  # the counterexample is at another point than the first sample point

    def __repr__(self):
        lines = [f"{self.verdict}: {self.name} at {self.size}"]
        if self.off_tape:
            lines[0] += f": {self.off_tape[0]} depends on the inputs, has a derivative, and is not on the tape"
            names = ", ".join(f'"{what}"' for what in self.off_tape)
            lines.append(
                f"leave detach(), .data and no_grad() out, or say that it is meant: prove(..., constant=[{names}])"
            )
        if self:
            shapes = "this shape" if self.size.count("(") == 1 else "these shapes"
            lines[0] += f": {self.entries} entries of gradients, at {shapes}, for all values"
            lines[0] += f" where {join_words(self.where)}" if self.where else ""
            lines += self.assumptions
        lines += [line for wrong in self.wrong for line in str(wrong).splitlines()]
        if self.unexplained:
            lines.append(
                "every rule is right by itself: a hook, or the walk over the tape, changes the gradient of "
                f"{join_words(self.unexplained)}"
            )
        if self.changed:
            lines.append(f"the function changes {join_words(self.changed)} without the tape (.data, a detached view)")
        if self.counterexample is not None:
            lines.append(str(self.counterexample))
        if self.elsewhere:
            lines.append("at the first sample point, where comparisons come out otherwise, the gradients are right")
        if self.on_numbers:
            lines.append(self.on_numbers)
            lines += [f"at {_point(self.point)}"] if self.point else []
        if self.on_floats:
            lines.append(f"{self.on_floats}: the code computes something else where it is proved")
        return "\n  ".join(lines)


def join_words(words: Sequence[str]) -> str:
    """Words as a list in a sentence: a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _point(point: dict[str, np.ndarray]) -> str:
    return "; ".join(f"{name} = {format_numbers(value)}" for name, value in point.items())


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

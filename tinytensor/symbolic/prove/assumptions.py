"""The assumptions of a proof, sorted and put into sentences.

A proof holds where every comparison comes out as it did at the sample point. Each is a condition `difference > 0`.
Most give the sign of one number (at a ReLU) or the larger of two (at a maximum); their sentences use the numbers'
names. The rest are shown as formulas.
"""

from dataclasses import dataclass, field

import numpy as np
import sympy

from tinytensor.core.op import OPS
from tinytensor.symbolic.derive.conditions import VALUES
from tinytensor.symbolic.exact.scalars import Symbolic
from tinytensor.symbolic.index_calculus.signs import Signs
from tinytensor.symbolic.prove.passes import Pass
from tinytensor.symbolic.prove.proof import join_words

SHOWN, LENGTH = 4, 60  # if formulas are more or longer than this, only their number is shown


@dataclass
class Comparisons:
    """The comparisons of one pass, sorted by their kind."""

    signs: dict[str, np.ndarray] = field(default_factory=dict)  # by tensor: "+", "-", or "." where no sign was compared
    larger: dict[str, list[str]] = field(default_factory=dict)  # by number: the numbers that it is larger than
    formulas: dict[str, dict[sympy.Expr, str]] = field(default_factory=dict)  # by step: formulas that are positive

    def sentences(self) -> list[str]:
        """All comparisons as sentences."""
        lines = [f"signs of {what}: {_pattern(signs)}" for what, signs in self.signs.items()]
        lines += [f"{name} is larger than {', '.join(smaller)}" for name, smaller in self.larger.items()]
        for label, formulas in self.formulas.items():
            if len(formulas) <= SHOWN and all(len(f) <= LENGTH for f in formulas.values()):
                lines += [f"{f} > 0 (in {label})" for f in formulas.values()]
            else:
                counted = f"{len(formulas)} comparisons of {label}"
                lines.append(f"{counted} come out as at the sample point (.conditions has them)")
        return lines


def comparisons(run: Pass) -> Comparisons:
    """The comparisons that a pass made."""
    result = Comparisons()
    for number, condition in enumerate(run.conditions):
        expr = condition.difference.expr
        plus, minus = _difference(expr)
        if plus in run.forward.names and minus in run.forward.names:
            smaller = result.larger.setdefault(_entry(run, plus), [])
            if _entry(run, minus) not in smaller:
                smaller.append(_entry(run, minus))
        elif (plus is None) != (minus is None) and (plus or minus) in run.forward.names:
            what, index, shape = run.forward.names[plus or minus]
            result.signs.setdefault(what, np.full(shape, "."))[index] = "-" if plus is None else "+"
        else:
            label = next((call.label for call in run.forward.calls if number < call.n_conditions), "backward")
            readable = {s: sympy.Symbol(_entry(run, s)) for s in expr.free_symbols & run.forward.names.keys()}
            result.formulas.setdefault(label, {})[expr] = str(expr.xreplace(readable))
    for call in run.forward.calls:
        if call.op is OPS["linear_relu"]:  # it compares a sum with 0, which has no name of its own
            label, sums = f"{call.label} before max(0, .)", OPS["linear"](*call.args)._data
            formulas, result.signs[label] = result.formulas.pop(call.label, {}), np.full(sums.shape, "-")
            for index in np.ndindex(sums.shape):
                expr = Symbolic.of(sums[index]).expr
                formulas = {f: text for f, text in formulas.items() if f not in (expr, -expr)}
                result.signs[label][index] = "-" if Symbolic.of(call.result[index]).expr == 0 else "+"
            result.signs.pop(call.label, None)
            result.formulas |= {call.label: formulas} if formulas else {}
    return result


def assumptions(run: Pass) -> list[str]:
    """The path through the comparisons, and the other assumptions of a proof, in sentences."""
    lines = comparisons(run).sentences()
    lines += [f"held constant, since it is not on the tape: {what}" for what in run.constant]
    return lines + domain(run)


def path_in_words(run: Pass) -> list[str]:
    """The path through the comparisons, in a few words for the verdict."""
    compared = comparisons(run)
    groups = {"signs": compared.signs, "the order of numbers": compared.larger, "comparisons": compared.formulas}
    words = [what for what, entries in groups.items() if entries]
    constants = [f"{what} is held constant" for what in run.constant]
    plural = len(words) > 1 or "signs" in words or "comparisons" in words
    if not words:
        return constants
    path = f"{join_words(words)} {'are' if plural else 'is'} as below"
    return [path, "no two compared numbers are equal", *constants]


def domain(run: Pass) -> list[str]:
    """What numbers must be for the values and gradients to exist: of all divisions, roots and so on in the run.

    A formula does not tell: x / x is 1.
    """
    known = Signs({symbol: formula for call in run.forward.calls for symbol, formula in call.formulas.items()})
    needed = {key for key, term in run.needed if not known.meets(key, term)}
    return [words for key, words in VALUES.items() if key in needed]


def _difference(expr: sympy.Expr) -> tuple[sympy.Symbol | None, sympy.Symbol | None]:
    """(a, b) of a - b, where each may be missing; (None, None) if it is something else."""
    terms = sympy.Add.make_args(expr)
    plus, minus = [t for t in terms if t.is_Symbol], [-t for t in terms if (-t).is_Symbol]
    if len(plus) > 1 or len(minus) > 1 or len(plus) + len(minus) != len(terms):
        return None, None
    return (plus or [None])[0], (minus or [None])[0]


def _entry(run: Pass, symbol: sympy.Symbol) -> str:
    what, index, _ = run.forward.names[symbol]
    return f"{what}{list(index)}" if index else what


def _pattern(signs: np.ndarray) -> str:
    if signs.ndim < 2:
        return "[" + " ".join(signs.flat) + "]"
    return "[" + ", ".join(map(_pattern, signs)) + "]"

"""The assumptions of a proof, sorted and put into sentences.

A proof holds where every comparison comes out as it did at the sample point. Each is a condition `difference > 0`.
Most give the sign of one number, as at a ReLU; the rest are shown as formulas, in the numbers' names.
"""

from typing import NamedTuple

import numpy as np
import sympy

from tinytensor.core.op import OPS
from tinytensor.symbolic.derive.conditions import VALUES
from tinytensor.symbolic.exact.scalars import Symbolic
from tinytensor.symbolic.index_calculus.signs import Signs
from tinytensor.symbolic.prove.passes import Pass
from tinytensor.symbolic.prove.proof import join_words

SHOWN, LENGTH = 12, 60  # if formulas of a step are more or longer than this, only their number is shown


class Comparisons(NamedTuple):
    """The comparisons of a pass."""

    signs: dict[str, np.ndarray]  # by tensor: "+", "-", or "." where no sign was compared
    formulas: dict[str, dict[str, None]]  # by step: what is above what


def comparisons(run: Pass) -> Comparisons:
    """The comparisons that a pass made."""
    signs, formulas, names = {}, {}, {**run.forward.names}
    readable = {symbol: sympy.Symbol(f"{what}{list(i)}" if i else what) for symbol, (what, i, _) in names.items()}
    for call in run.forward.calls:
        if call.op is OPS["linear_relu"]:  # it compares sums with 0, which have no symbols
            sums, what = OPS["linear"](*call.args)._data, f"{call.label} before max(0, .)"
            for values in (sums, call.result):
                names |= {Symbolic.of(value).expr: (what, index, sums.shape) for index, value in np.ndenumerate(values)}
    for number, condition in enumerate(run.conditions):
        expr = condition.difference.expr
        if expr in names or -expr in names:
            what, index, shape = names.get(expr) or names[-expr]
            signs.setdefault(what, np.full(shape, "."))[index] = "+" if expr in names else "-"
        else:
            label = next((call.label for call in run.forward.calls if number < call.n_conditions), "backward")
            above = [t for t in sympy.Add.make_args(expr) if not t.could_extract_minus_sign()]
            left, right = (e.xreplace(readable) for e in (sympy.Add(*above), sympy.Add(*above) - expr))
            formulas.setdefault(label, {})[f"{left} > {right}"] = None
    return Comparisons(signs, formulas)


def in_words(run: Pass, compared: Comparisons) -> tuple[list[str], list[str]]:
    """The assumptions of a proof in sentences, and in a few words for the verdict."""
    sentences = [f"signs of {what}: {_pattern(signs)}" for what, signs in compared.signs.items()]
    for label, formulas in compared.formulas.items():
        if len(formulas) <= SHOWN and all(len(formula) <= LENGTH for formula in formulas):
            sentences.append(f"{', '.join(formulas)} (in {label})")
        else:
            counted = f"{len(formulas)} comparisons of {label}"
            sentences.append(f"{counted} come out as at the sample point (.conditions has them)")
    compares = ["signs"] * bool(compared.signs) + ["comparisons"] * bool(compared.formulas)
    words = [f"{join_words(compares)} are as below", "no two compared numbers are equal"] if compares else []
    sentences += [f"held constant, since it is not on the tape: {what}" for what in run.constant]
    words += [f"{what} is held constant" for what in run.constant]
    exist = domain(run)
    return sentences + exist, words + exist


def domain(run: Pass) -> list[str]:
    """What numbers must be for the values and gradients to exist: of all divisions, roots and so on in the run.

    A formula does not tell: x / x is 1.
    """
    known = Signs({symbol: formula for call in run.forward.calls for symbol, formula in call.formulas.items()})
    needed = {key for key, term in run.needed if not known.meets(key, term)}
    return [words for key, words in VALUES.items() if key in needed]


def _pattern(signs: np.ndarray) -> str:
    if signs.ndim < 2:
        return "[" + " ".join(signs.flat) + "]"
    return "[" + ", ".join(map(_pattern, signs)) + "]"

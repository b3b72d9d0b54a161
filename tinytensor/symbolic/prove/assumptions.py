"""The assumptions of a proof, sorted and put into sentences.

A proof holds where every comparison comes out as it did at the sample point. Each is a condition `difference > 0`.
Most give the sign of one number, as at a ReLU; the rest are shown as formulas, in the numbers' names.
"""

import numpy as np
import sympy

from tinytensor.core.op import OPS
from tinytensor.symbolic.derive.conditions import VALUES
from tinytensor.symbolic.exact.scalars import Symbolic
from tinytensor.symbolic.index_calculus.signs import Signs
from tinytensor.symbolic.prove.passes import Pass
from tinytensor.symbolic.prove.proof import join_words

SHOWN, LENGTH = 12, 60  # if formulas of a step are more or longer than this, only their number is shown


def comparisons(run: Pass) -> tuple[dict[str, np.ndarray], dict[str, dict[str, None]]]:
    """The comparisons of a pass: by tensor the signs, "." where none was compared; by step what is above what."""
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
    return signs, formulas


def in_words(run: Pass, signs: dict, formulas: dict) -> tuple[list[str], list[str]]:
    """The assumptions of a proof, with its comparisons, in sentences, and in a few words for the verdict."""
    sentences = [f"signs of {what}: {_pattern(known)}" for what, known in signs.items()]
    for label, compared in formulas.items():
        if len(compared) <= SHOWN and all(len(formula) <= LENGTH for formula in compared):
            sentences.append(f"{', '.join(compared)} (in {label})")
        else:
            counted = f"{len(compared)} comparisons of {label}"
            sentences.append(f"{counted} come out as at the sample point (.conditions has them)")
    compares = ["signs"] * bool(signs) + ["comparisons"] * bool(formulas)
    words = [f"{join_words(compares)} are as below", "no two compared numbers are equal"] if compares else []
    sentences += [f"held constant, since it is not on the tape: {what}" for what in run.constant]
    words += [f"{what} is held constant" for what in run.constant]
    # what divisions, roots ... of the run need for a value; a formula does not tell: x / x is 1
    known = Signs({symbol: formula for call in run.forward.calls for symbol, formula in call.formulas.items()})
    needed = {key for key, term in run.needed if not known.meets(key, term)}
    exist = [sentence for key, sentence in VALUES.items() if key in needed]
    return sentences + exist, words + exist


def _pattern(signs: np.ndarray) -> str:
    if signs.ndim < 2:
        return "[" + " ".join(signs.flat) + "]"
    return "[" + ", ".join(map(_pattern, signs)) + "]"

"""Where operations have a value and a derivative: the conditions of their formulas, in formulas and in numbers.

Each function brings its own conditions (index_calculus/functions.py), and each power those of its base. Kinks and jumps
are looked for in the lines of a derivation (adjoints.py): a line may be smooth where its parts are not.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
from sympy import Expr, S, Symbol

from tinytensor.symbolic.derive.semantics.elementwise import FORMULAS, SMALL
from tinytensor.symbolic.derive.values import Value
from tinytensor.symbolic.index_calculus.functions import ABOVE
from tinytensor.symbolic.index_calculus.numpy_printer import NumPyPrinter
from tinytensor.symbolic.index_calculus.signs import Signs, requirements
from tinytensor.symbolic.index_calculus.vanishing import Theorem, defined, together
from tinytensor.symbolic.numbers import CANCELLED

SINGULAR = 1e7  # a larger condition number leaves too few digits of an inverse for a comparison
DIVISIONS = "true_divide", "floor_divide", "remainder"  # 0/x is 0 to SymPy: a 0 gets a name, so that x must not be 0
ROUNDED_ZERO = 1e-14  # of a denominator: a sum that is 0 but for rounding
NEARLY_EQUAL = 1e-9  # a distance of compared numbers, above which rounding is not looked at


def domain_of(op: str, args: list, signs: Signs) -> Theorem:
    """Where an operation on these arguments has a value; one that is not elementwise brings its own conditions."""
    if op == "clipped_log" or op not in FORMULAS:
        return together([], ["clipped"] if op == "clipped_log" else [])
    entries = [S(a.entry(*a.indices())) if isinstance(a, Value) else S(a) for a in args]
    formula, names = _with_names(op, tuple(e if e.is_number else None for e in entries))
    return defined(formula, dict(zip(names, entries, strict=True)), signs)


def edges_of(op: str, arrays: list, size: Callable[[], float] = lambda: 0.0) -> set[str]:
    """The keys of VALUES that fail in a call with these arguments, tensors as arrays.

    "equality" is a tie in x == y, whose formula is right at ties, too: it matters where a proof leaves equalities out.
    size: of the largest number on the way to the arguments, whose rounding may decide a comparison: that is a tie, too.
    """
    if op in STRUCTURE or op not in FORMULAS:
        key, fails = STRUCTURE.get(op, ("", lambda *_: False))
        return {key} if fails(*arrays) else set()
    numbers = tuple(Fraction(x) if isinstance(x, int | float) and np.isfinite(x) else None for x in arrays)
    with np.errstate(all="ignore"):
        needed = [(key, np.asarray(term(*arrays), float)) for key, term in _decisive(op, numbers)]
    edges = {"equality" if op in ("eq", "ne") else key for key, term in needed if _fails(key, term, size)}
    return edges | ({"norm"} if op == "clamp_min" and _is_clamped_norm(*arrays) else set())


def _with_names(op: str, numbers: tuple) -> tuple[Expr, list[Expr]]:
    """The formula of an operation with names for its arguments, and these; a number stands for itself.

    numbers: the arguments that are numbers, None for each other one.
    """
    named = [x is None or (x == 0 and op in DIVISIONS) for x in numbers]
    names = [Symbol(f"a{n}", real=True) if is_named else S(numbers[n]) for n, is_named in enumerate(named)]
    return FORMULAS[op](*names), names


def _fails(key: str, decisive: np.ndarray, size: Callable[[], float]) -> bool:
    """Does a condition fail at one of the numbers that decide it? size: of the largest one on the way to them."""
    distance = decisive if key in ABOVE else np.abs(decisive)
    limit = ROUNDED_ZERO if key == "denominator" else 0.0
    if key == "tie" and np.any((distance > 0) & (distance < NEARLY_EQUAL)):
        limit = CANCELLED * size()
    return bool(np.any(np.less_equal(distance, limit)))


@cache
def _decisive(op: str, numbers: tuple) -> list[tuple[str, Callable]]:
    """The conditions of an operation, each with the number that decides as a function of the arguments."""
    formula, _ = _with_names(op, numbers)
    needed = [(key, NumPyPrinter(name=str).piece(term).text) for key, term in requirements(formula)]
    arguments = ", ".join(f"a{n}" for n in range(len(numbers)))
    return [(key, eval(f"lambda {arguments}: {text}", {"np": np})) for key, text in needed]


def _is_clamped_norm(a: np.ndarray, low: np.ndarray | float) -> bool:
    """May these numbers be norms of which a small bound keeps one from being 0?"""
    return np.ndim(low) == 0 and 0 < low <= SMALL and bool(np.all(a >= 0) and np.any(a <= low))


def _has_zero_row(a: np.ndarray, eps: float) -> bool:
    """Is a row 0 whose length is a denominator?"""
    return eps == 0 and bool(np.any(np.all(np.equal(a, 0), -1)))


def _is_singular(a: np.ndarray, *_) -> bool:
    return np.ndim(a) == 2 and a.size and np.linalg.cond(a) > SINGULAR


STRUCTURE: dict[str, tuple[str, Callable[..., bool]]] = {  # an operation that is not its formula: what fails, and where
    "clipped_log": ("clipped", lambda a, *_: np.any(np.less(a, 1e-12))),
    "attention": ("row", lambda q, k, v, mask, *_: mask is not None and not np.all(np.any(mask, -1))),
    "softmax": ("row", lambda a, *_: np.size(a) and np.any(np.all(np.isneginf(a), -1))),
    "reduce_logsumexp": ("row", lambda a, *_: np.size(a) and np.all(np.isneginf(a))),
    "layer_norm": ("denominator", lambda a, *more: _has_zero_row(a - np.mean(a, -1, keepdims=True), more[-1])),
    "rms_norm": ("denominator", lambda a, *more: _has_zero_row(a, more[-1])),
    "linear_relu": ("tie", lambda x, w, b: np.any(np.equal(x @ w.T + (0 if b is None else b), 0))),
    **dict.fromkeys(
        ("reduce_amax", "reduce_amin", "reduce_max", "reduce_min"),
        ("tie", lambda a, *_: a.size != np.unique(a, equal_nan=False).size),
    ),
    **dict.fromkeys(("isfinite", "isnan"), ("finite", lambda a, *_: not np.all(np.isfinite(a)))),
    "reduce_prod": ("factor", lambda a, *_: np.any(np.less_equal(a, 0))),
    "reduce_norm": ("root", lambda a, axes, *_: np.any(np.all(np.equal(a, 0), tuple(axes)))),
    "power_of_length": ("root", lambda a, exponent, *_: exponent <= 1 and np.any(np.equal(a, 0))),
    **dict.fromkeys(("solve", "det", "slogdet"), ("regular", _is_singular)),
    "pinv": ("rank", _is_singular),
}

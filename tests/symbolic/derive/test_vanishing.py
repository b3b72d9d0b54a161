"""`vanishes`: what it proves, the conditions that its laws bring, and random formulas beside their normal forms."""

import ast
import cmath
import itertools
import math
import random
import sys
import types
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import mpmath
import pytest
import sympy
from sympy import Expr, KroneckerDelta, Pow, Rational, S, Symbol, asin, atan, cos, exp, log, sin, sqrt, tanh

from tests.tools.sampling_rate import THOROUGH, some
from tinytensor.symbolic.derive.conditions import verdict
from tinytensor.symbolic.index_calculus import formulas, functions, quotients, vanishing
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, delta, total, value
from tinytensor.symbolic.index_calculus.functions import absolute, larger, relu, same, sigmoid, sign, theta, upto
from tinytensor.symbolic.index_calculus.quotients import UNDEFINED, Fractions
from tinytensor.symbolic.index_calculus.signs import Signs
from tinytensor.symbolic.index_calculus.vanishing import Theorem, vanishes

n, m = Size("n", "i j"), Size("m", "k l")
i, j, k = Index("i", n), Index("j", n), Index("k", m)
p = Index("p", S(3))
x, y, A = Array("x", (n,)), Array("y", (n,)), Array("A", (n, m))
a, b, c = x[i], y[i], x[j]

CONDITIONS = [  # formula, the conditions under which it is 0, and values of a and b at which it is not
    ((a**2 - b**2) / (a - b) - a - b, {"denominator"}, (1, 1)),
    (1 / (a * (a + b)) - (1 / a - 1 / (a + b)) / b, {"denominator"}, (1, 0)),
    (sqrt(a * b) / a - b / sqrt(a * b), {"denominator", "root"}, (0, 1)),
    (sqrt(a) * sqrt(b) - sqrt(a * b), {"root"}, (-1, -1)),
    (log(a * b) - log(a) - log(b), {"logarithm"}, (-1, -1)),
    (exp(b * log(a) + log(a) / 2) - a**b * sqrt(a), {"logarithm", "root"}, (-1, 1)),
    (a**b * a - a ** (b + 1), {"logarithm"}, (-1, 0.5)),
    (theta(a) + theta(-a) - 1, {"tie"}, (0, 1)),
    (sign(a) - 2 * theta(a) + 1, {"tie"}, (0, 1)),
    (theta(a * b**2) - theta(a), {"tie"}, (1, 0)),
    (theta(a - 1) * theta(1 - a) + theta(2 - a) + theta(a - 2) - 1, {"tie"}, (2, 1)),
    (same(a - b) * b, {"tie", "equality"}, (1, 1)),
    (theta(a) * log(a) - log(a), {"logarithm"}, (-1, 1)),
    (log(a**2) - 2 * log(absolute(a)), {"logarithm"}, (0, 1)),
    (log(a**3) - 3 * log(a), {"logarithm"}, (-1, 1)),
    (log(sqrt(a)) - log(a) / 2, {"root", "logarithm"}, (-1, 1)),
    (theta(a**2) - theta(-exp(a)) - 1, {"tie"}, (0, 1)),
]
OF_THREE = sum(KroneckerDelta(p, number) for number in (1, 2, 3))
BY_CASES = [  # of an index, of steps, or of the factors of a denominator in a sum
    (theta(a - 2) * theta(1 - a), {"tie"}),
    (theta(a - 2) * theta(1 - a) + same(b), {"tie", "equality"}),
    (theta(2 * a + 2 * b - 4) * theta(1 - a - b), {"tie"}),
    (total((1 - 2 / (y[j] ** 2 + 1)) ** -1 / c**3 - 2 / (y[j] ** 2 - 1) / c**3 - c**-3, j), {"denominator"}),
    (OF_THREE - 1 + KroneckerDelta(p, 2) * ((a**2 - b**2) / (a - b) - a - b), {"denominator"}),
]
UNCONDITIONAL = [
    sqrt(1 + a**2) ** 2 - 1 - a**2,
    relu(a) - a * theta(a),
    relu(a) ** 2 - a * relu(a),
    absolute(a) - 2 * relu(a) + a,
    larger(a, b) - b - relu(a - b),
    sigmoid(a) - exp(a) / (1 + exp(a)),
    functions.softplus(a) - functions.softplus(-a) - a,
    log(exp(a) + exp(b)) - a - functions.softplus(b - a),
    tanh(a) - (exp(a) - exp(-a)) / (exp(a) + exp(-a)),
    sin(a) ** 2 + cos(a) ** 2 - 1,
    sin(3 * a + b) - 3 * sin(a) * cos(b) * cos(a) ** 2 + sin(a) ** 3 * cos(b) - cos(3 * a) * sin(b),
    exp(a * theta(b)) - theta(b) * exp(a) + theta(b) - 1,
    total(exp(c) / (1 + exp(c)) + 1 / (1 + exp(c)), j) - n,
    total(exp(c) * b, j) / total(exp(c), j) - b,
    total(exp(c) ** 2 / (1 + exp(c)), j) - total(exp(c), j) + total(sigmoid(c), j),
    total(j, j) - n * (n + 1) / 2,
    total(upto(i, j), j) - n + i - 1,
    total(upto(j, i), j) - i,
    upto(i, j) + upto(j + 1, i) - 1,
    OF_THREE - 1,
    sqrt(total(c**2, j)) ** 2 - total(c**2, j),
    total(delta(i, j) / (1 + exp(c)), j) - sigmoid(-a),
    b / (total(exp(c), j) + same(total(exp(c), j))) - b / total(exp(c), j),
    theta(1 + a**2) - theta(-exp(a)) - 1,
    functions.floored(j - Rational(1, 2)) - j + 1,
    total(upto(j, i) * A[i, k], j, k) - i * total(A[i, k], k),
]
FALSE = [
    functions.floored(a + Rational(1, 2)) - a,
    total(upto(2 * j, i), j) - i,
    total(theta(c), j) ** 2 - n * total(theta(c), j),
    theta(a) * theta(Rational(1, 2) - a),
    theta((a - 1) ** 2 - a**2 + 2 * a - 2) - 1,
    theta(-A[i, k])
    + (theta(b - 2) - theta(b - 2) * theta(b - 1)) * sum(theta(Array(f"v{q}", (n,))[i]) for q in range(7)),
    sqrt(a**2) - a,
    log(a**2) - 2 * log(b),
    exp(a + b) - exp(a) - exp(b),
    total(sqrt(c), j) - sqrt(total(c, j)),
    theta(a) - theta(-a),
    total(1 / c, j) - 1 / total(c, j),
    sin(2 * a) - 2 * sin(a),
    theta(2 - a),
    theta(a - 2),
    total(upto(i - 5, j), j) - n + i - 6,
    total(upto(j, i + 5), j) - i - 5,
    theta(i - j) + theta(j - i) - 1,
    theta((i - 3) ** 2) - 1,
    theta(i - 3) + theta(3 - i) * theta(4 - i) - 1,
    theta(functions.floored(a)) + theta(-functions.floored(a)) - 1,
    *[sum(KroneckerDelta(p, number) for number in (1, 2, 3) if number != left) - 1 for left in (1, 2, 3)],
    theta((n - 1) * a) - theta(a),
    *[Symbol(name, real=True) / (1 + a) - 1 for name in ("divisor", "divisor0", "_divisor0", "divisor#0")],
]


def number(formula: Expr, left: float, right: float) -> float | None:
    """The value at entries of these numbers; None if there is none."""
    try:
        result = value(formula, {n: 1, i: 1, x: {(0,): left}, y: {(0,): right}})
    except (ZeroDivisionError, ValueError):
        return None
    return None if isinstance(result, complex) else float(result)


def holds(theorem: Theorem, point: tuple[float, float]) -> bool:
    """Is the formula 0 at a point at which all hypotheses are met, if it has none?"""
    return bool(theorem.hypotheses) or number(*theorem.zeros, *point) == 0


@pytest.mark.parametrize("row", CONDITIONS, ids=lambda row: str(row[0])[:50])
def test_a_lost_condition_proves_what_is_wrong(row, monkeypatch):
    formula, conditions, point = row
    assert holds(vanishes([formula]), point)
    hypotheses = vanishing._hypotheses
    monkeypatch.setattr(vanishing, "_hypotheses", lambda *a: None if (h := hypotheses(*a)) is None else h - conditions)
    assert not holds(vanishes([formula]), point)


def test_conditions_of_formulas_with_parts_in_common_are_kept():
    """The second formula is looked up, and needs the law that was used for the first."""
    fractions = Fractions(Signs())
    pair = [log(a * b) - log(a) - log(b), 2 * log(a * b) - 2 * log(a) - log(b) - log(b)]
    assert [vanishing.vanishes_at_size(f, fractions).hypotheses for f in pair] == [{"logarithm"}] * 2


def test_theorems_are_made_by_the_rules_alone():
    theorem = vanishes([S.Zero])
    for make in (
        lambda: Theorem((S.One,), (), frozenset()),
        lambda: Theorem((S.One,), (), frozenset(), (), object()),
        lambda: replace(theorem, zeros=(S.One,)),
        lambda: type("Mine", (Theorem,), {})((S.One,), (), frozenset()),
    ):
        with pytest.raises(TypeError, match="only the rules"):
            make()
    with pytest.raises(FrozenInstanceError):
        theorem.zeros = (S.One,)
    with pytest.raises(TypeError, match="only a theorem is proved"):
        verdict(True, [])


def made_in(path: Path) -> set[str]:
    """The functions of a file that call Theorem or name its seal, that say a proof, or that state one of a gradient."""
    result = set()
    for function in ast.walk(ast.parse(path.read_text("utf-8"))):
        for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            states = called and any(k.arg == "statement" for k in node.keywords)
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            said = text.startswith(("proved for", "proved only for"))
            sealed = "_SEAL" in (getattr(node, "id", ""), getattr(node, "attr", ""))
            if sealed or said or states or (called and node.func.id == "Theorem"):
                result.add(f"{path.name}: {function.name}")
    return result


def test_nothing_else_makes_a_theorem_or_says_proved(tmp_path):
    names = ("__post_init__", "vanishes", "vanishes_at_size", "defined", "differentiable", "together")
    rules = {f"vanishing.py: {name}" for name in names}
    files = [f for f in Path(vanishing.__file__).parents[1].rglob("*.py") if f.parent.name != "prove"]
    assert set().union(*map(made_in, files)) == rules | {"conditions.py: verdict", "check.py: _proved"}
    planted = tmp_path / "planted.py"
    for text in (
        "Theorem((x,), (), frozenset())",
        "make(vanishing._SEAL)",
        "'proved for any size'",
        "Checked(x, statement='proved')",
    ):
        planted.write_text(f"def f(x):\n    return {text}\n")
        assert made_in(planted) == {"planted.py: f"}


DIFFERENTIABLE = [  # formula, the conditions under which it has a value, and those under which it has a derivative then
    (relu(a), set(), {"tie"}),
    (larger(a, b), set(), {"tie"}),
    (functions.floored(a) * a, set(), {"step"}),
    (theta(n - m) * a, set(), set()),
    (1 / a, {"denominator"}, set()),
    (1 / (1 + a**2), set(), set()),
    (sqrt(a**2 + b**2), {"root"}, set()),
    (log(a) / log(2), {"logarithm"}, set()),
    (a**b, {"logarithm"}, set()),
    (asin(a), {"arc"}, set()),
    (functions.arctan2(a, b), {"denominator"}, {"tie"}),
    (sigmoid(a) + a / n, set(), set()),
]


def faults(rules) -> set[str]:
    """What a module with the rules of vanishing.py gets wrong."""
    result = set()
    for formula, conditions in [*(row[:2] for row in CONDITIONS), *((f, set()) for f in UNCONDITIONAL), *BY_CASES]:
        theorem = rules.vanishes([formula])
        result |= set() if theorem is not None and theorem.hypotheses == conditions else {str(formula)}
    for formula, conditions, _ in CONDITIONS[:7]:  # by fractions alone
        theorem = rules.vanishes_at_size(formula)
        result |= set() if theorem is not None and theorem.hypotheses == conditions else {str(formula)}
    for formula in FALSE:
        proved = rules.vanishes([formula]) is not None or rules.vanishes_at_size(formula) is not None
        result |= {str(formula)} if proved else set()
    for formula, values, slopes in DIFFERENTIABLE:
        defined, smooth = rules.defined(formula, {}, Signs()), rules.differentiable([formula])
        right = (defined.smooth, defined.hypotheses, smooth.hypotheses) == ((formula,), values, slopes)
        result |= set() if right else {str(formula)}
    for offset, (first, last) in itertools.product(range(-6, 7), ((i, j), (j, i), (i, n), (n, i), (2 * i, j), (-i, j))):
        comparison = upto(first, last + offset)
        form = rules.of_whole_numbers(comparison)
        at = ({n: 5, i: left, j: right} for left, right in itertools.product(range(1, 6), repeat=2))
        result |= set() if all(value(comparison, here) == value(form, here) for here in at) else {str(comparison)}
    largest, entry = Symbol("largest", real=True), Array("s", (n,))
    alone = same(a - largest)
    facts = rules.Facts(shares=[rules.Share(entry[i], alone / total(same(c - largest), j), alone)])
    for formula, conditions in (
        (entry[j] - same(c - largest), {"tie"}),
        (entry[j] * alone - entry[i] * same(c - largest), {"denominator"}),
    ):
        theorem = rules.vanishes([formula], facts)
        result |= set() if theorem is not None and theorem.hypotheses == conditions else {str(formula)}
    v = Symbol("v", real=True)
    result |= {"names"} if rules.defined(1 / v, {v: 1 + a**2}, Signs()).hypotheses else set()
    tie, denominator = rules.differentiable([theta(a)]), rules.defined(1 / a, {}, Signs())
    bounded = rules.together([denominator], (), ["N > 1"])
    both = rules.together([tie, bounded], ["row"], ["M > 1"])
    if (both.hypotheses, both.sizes) != ({"tie", "denominator", "row"}, ("N > 1", "M > 1")):
        result.add("together")
    return result if both.smooth == (*tie.smooth, *denominator.smooth) else result | {"together"}


def test_the_rules_are_right():
    assert faults(vanishing) == set()


def test_a_condition_is_that_of_the_formula_before_sympy_simplifies_it():
    """x/x, whose division is gone from the formula with x in it."""
    u, v = Symbol("u", real=True), Symbol("v", real=True)
    theorem = vanishing.defined(u / v, {u: a, v: a}, Signs())
    assert theorem.smooth == (S.One,) and theorem.hypotheses == {"denominator"}


MISTAKES = {  # in which file, for which text, what stands there
    "a condition of a call is lost": ("vanishing", "if key not in KINKS and not known.meets(key, term)}", "if False}"),
    "a denominator is not looked at": ("vanishing", "not known.meets(key, term)}", "key != 'denominator'}"),
    "no sign is known": ("vanishing", "and not known.meets(key, term)}", "}"),
    "a kink is lost": ("vanishing", "if key in KINKS and of_numbers", "if key == 'step' and of_numbers"),
    "a jump is lost": ("vanishing", "if key in KINKS and of_numbers", "if key == 'tie' and of_numbers"),
    "kinks of sizes are conditions": ("vanishing", "if key in KINKS and of_numbers(term)}", "if key in KINKS}"),
    "one theorem's conditions": ("vanishing", "t.hypotheses for t in theorems", "t.hypotheses for t in theorems[:1]"),
    "more conditions are lost": ("vanishing", "frozenset(hypotheses).union(", "frozenset().union("),
    "sizes of theorems are lost": ("vanishing", "(t.sizes for t in theorems)", "(t.sizes for t in theorems[:0])"),
    "conditions of quotients are lost": ("vanishing", "return fractions.assumed\n", "return set()\n"),
    "turned round without 1": ("vanishing", "compared(S.Zero, -distance - 1)", "compared(S.Zero, -distance)"),
    "one offset left out": ("vanishing", "range(1, int(offset) + 1) if", "range(1, int(offset)) if"),
    "one offset below left out": ("vanishing", "else range(int(offset) + 1, 1)", "else range(int(offset) + 2, 1)"),
    "a count from the bound on": ("vanishing", "(size + 1 + bound) if", "(size + bound) if"),
    "a count up to the bound": ("vanishing", "* bound if fits", "* (bound + 1) if fits"),
    "a first bound outside": ("vanishing", "if fits(-bound, size + 1) else", "if True else"),
    "a last bound outside": ("vanishing", "if fits(bound + 1, size + 1) else", "if True else"),
    "cells above alone": ("vanishing", ", (False, (low, min(high, corner)))):", ",):"),
    "cells below alone": ("vanishing", "in ((True, (max(low, corner), high)),", "in ((False, (low, corner)),"),
    "each step rises": ("vanishing", "if above == (slope > 0)", "if above"),
    "one case of an index": ("vanishing", "for row in rows)", "for row in [*rows][:1])"),
    "the first value left out": ("vanishing", "range(1, int(i.size) + 1)", "range(2, int(i.size) + 1)"),
    "the last value left out": ("vanishing", "range(1, int(i.size) + 1)", "range(1, int(i.size))"),
    "cells beyond the last": ("vanishing", "left[0] > 0\n            and ", "left[0] <= 0 or "),
    "a narrow cell": ("vanishing", "if inside[0] < inside[1] and", "if inside[0] < inside[1] - 1 and"),
    "a corner on the other side": ("vanishing", "corner = -number / slope", "corner = number / slope"),
    "a corner of another sum": ("vanishing", "(-slope, -inner) if inner.could", "(slope, -inner) if inner.could"),
    "a step at 0": ("vanishing", "S.One if known.positive(x) else", "S.One if known.not_negative(x) else"),
    "a step below 0": ("vanishing", "known.not_negative(-x) else theta", "known.not_negative(x) else theta"),
    "all numbers differ": ("vanishing", "S.Zero if known.not_zero(x) else same(x)", "S.Zero"),
    "a largest entry without a tie": ("vanishing", '{"tie"} if alone else set()', "set()"),
    "the share of another entry": ("vanishing", ".xreplace(dict(zip(entry.indices, e.indices))) for", "for"),
    "⌊x⌋ of each number": ("vanishing", "if whole_number.is_integer else floored(x)", ""),
    "⌊x⌋ and 1": ("vanishing", "whole_number + floor(fraction) if", "whole_number + floor(fraction) + 1 if"),
    "an index at its other end": ("vanishing", "1 if slope.is_positive else", "1 if slope.is_negative else"),
    "0 as below 0": ("vanishing", "not_negative(_least(-distance - 1))", "not_negative(_least(-distance))"),
    "-1 as not below 0": ("vanishing", "not_negative(_least(distance))", "not_negative(_least(distance + 1))"),
    "a sum as a difference": ("vanishing", "if difference == i - j:", "if True:"),
    "offsets below added": ("vanishing", "(steps if offset > 0 else -steps)", "steps"),
    "a count of each slope": ("vanishing", "or abs(slope) != 1", ""),
    "conditions of one case": ("vanishing", "set().union(*all_of)", "all_of[0]"),
    "a proof from nothing": ("vanishing", "proofs[-1]), (), _SEAL) if proofs else None", "()), (), _SEAL)"),
    "a proof at a size from nothing": ("vanishing", "_SEAL) if fractions.vanishes(formula) else None", "_SEAL)"),
    "conditions at a size are lost": ("vanishing", "frozenset(fractions.assumed)", "frozenset()"),
    "a term with names": ("vanishing", "(key, term.xreplace(entries)) for", "(key, term) for"),
    "no tie between cells": ("vanishing", 'known.needs(form) | {"tie"}', "known.needs(form)"),
    "no equality": ("vanishing", '({"equality"} if form.has(same) else set())', "set()"),
    "powers without conditions": ("quotients", "self.assumed |= self.known.needs(formula)", "pass"),
    "the sign of a root": ("quotients", "(self.flat(absolute(self.back(u))), n)", "(u, n)"),
    "arguments above 0 are not noted": ("quotients", "                self.assumed.add(key)\n", ""),
    "logarithms of all numbers": ("quotients", 'self.assumed.add("logarithm")', "pass"),
    "ties of squares": ("quotients", 'self.assumed |= {"tie"} if differs else set()', "pass"),
    "squares of whole numbers": ("quotients", "self.ties and varies(self.back(f))", "self.ties"),
    "ties of whole numbers": ("quotients", "negative and varies(self.back(argument))", "negative"),
    "cells of whole numbers": ("vanishing", "has(theta) and varies(s.args[0])]", "has(theta)]"),
    "ties of steps": ("quotients", '            self.assumed.add("tie")\n', ""),
    "a size that may be 0": ("quotients", "self.sign(f, above=True)", "self.sign(f)"),
    "sin² - cos² = 1": ("quotients", "1 - cosine**2, 2", "1 + cosine**2, 2"),
    "one angle too few": ("quotients", "for _ in range(abs(int(factor))):", "for _ in range(abs(int(factor)) - 1):"),
    "a sum of powers up to N - 1": ("quotients", "(power + 1, size + 1)", "(power + 1, size)"),
    "a remainder left out": ("quotients", "(self.back(remainder.as_expr()", "(self.back(0 * remainder.as_expr()"),
    "steps as numbers": ("quotients", "self.roots[variable] = variable, 2", "pass"),
    "e^(step) without its 1": ("quotients", "1 + steps[0] * (self.exp", "steps[0] * (self.exp"),
    "half of a logarithm": ("quotients", "self.log(argument) / self.roots[base][1]", "self.log(argument)"),
    "a logarithm without its power": ("quotients", 'power * self.atom("log", base)', 'self.atom("log", base)'),
    "a logarithm of each number": ("quotients", "self.assume_above_zero(*[base for base, _ in factors])", "pass"),
    "a root of each sign": ("quotients", "if number > 0 and len(unknown) == 1 and unknown[0][1] % 2:", "if unknown:"),
    "1/p without its power": ("quotients", "divisor ** (highest - n)", "divisor"),
    "a power of a root": ("quotients", "b ** (n // degree) *", "b ** (n // degree + 1) *"),
}  # fmt: skip


@pytest.mark.parametrize("what", list(some(MISTAKES, 3)))
def test_a_mistake_in_a_rule_is_noticed(what, monkeypatch):
    """The files are read anew, one of them with the mistake."""
    file, right, wrong = MISTAKES[what]
    for original in (quotients, vanishing):
        text = Path(original.__file__).read_text("utf-8")
        if original.__name__.endswith(file):
            assert text.count(right) == 1
            text = text.replace(right, wrong)
        module = types.ModuleType(original.__name__)
        monkeypatch.setitem(sys.modules, original.__name__, module)
        exec(compile(text, original.__file__, "exec"), module.__dict__)
    assert faults(module)


def test_a_sum_that_may_be_empty_is_not_above_0():
    over = Index("j", n - 1)
    assert Signs().positive(total(exp(x[j]), j)) and not Signs().positive(total(exp(x[over]), over))


def random_formula(rng: random.Random, indices: list[Index], depth: int) -> Expr:
    """Some formula of entries in these indices."""
    row, column = rng.choice([i for i in indices if i.size == n]), rng.choice([i for i in indices if i.size == m])
    if depth == 0:
        return rng.choice([x[row], y[row], A[row, column], S(rng.randint(1, 3)), Rational(1, 2), n, theta(x[row] - 1)])
    if rng.random() < 0.25:
        bound = Index(rng.choice("jkl"), rng.choice((n, m)))
        return total(random_formula(rng, [*indices, bound], depth - 1), bound)
    f, g = (random_formula(rng, indices, depth - rng.randint(1, 2) if depth > 1 else 0) for _ in range(2))
    heads = [exp, log, sqrt, sin, cos, tanh, relu, absolute, sign, theta, sigmoid, functions.softplus, functions.Phi]
    ways = [f + g, f - g, f * g, f / g, f * f, larger(f, g), f ** Rational(rng.randint(-3, 3), 2), f * delta(row, i)]
    return rng.choice([*ways, *ways, *(head(f) for head in heads), f ** x[row] if depth < 3 else f * g, same(f - g)])


def random_term(rng: random.Random, depth: int) -> Expr:
    """Some formula of the two entries, without sums."""
    if depth == 0:
        return rng.choice([a, a, b, S(rng.randint(1, 3)), Rational(1, 2)])
    f, g = random_term(rng, depth - 1), random_term(rng, rng.randint(0, depth - 1))
    row = rng.choice([row for row in functions.TABLE.values() if row.slope is not None or "tie" in row.needs])
    arguments = (f, g)[: 2 if isinstance(row.slope, tuple) else 1]
    return rng.choice([f + g, f - g, f * g, f / g, f ** Rational(rng.randint(-3, 3), 2), *[row.head(*arguments)] * 4])


def in_sympy(formula: Expr) -> Expr:
    """The same in SymPy's own functions."""
    formula = formula.replace(theta, lambda u: sympy.Piecewise((1, u > 0), (0, True)))
    formula = formula.replace(same, lambda u: sympy.Piecewise((1, sympy.Eq(u, 0)), (0, True)))
    formula = formula.replace(functions.arctan2, lambda y, x: 2 * atan(y / (sqrt(y**2 + x**2) + x)))
    rows = [row for row in functions.TABLE.values() if row.form is not None and issubclass(row.head, functions.Head)]
    changed = formula
    for row in rows:
        changed = changed.replace(row.head, row.form)
    return changed if changed == formula else in_sympy(changed)


def test_derivatives_of_random_terms_are_sympys():
    """Our functions in SymPy's own ones, so that none of our derivatives is used."""
    rng, compared, u, v = random.Random(3), 0, Symbol("u", real=True), Symbol("v", real=True)
    for _ in range(2_400 if THOROUGH else 800):
        formula = random_term(rng, rng.choice((2, 2, 3)))
        slope = formula.diff(a)
        if formula.has(*UNDEFINED) or slope.has(*UNDEFINED):
            continue
        point = {u: rng.uniform(-2, 2), v: rng.uniform(-2, 2)}
        at = {n: 1, i: 1, x: {(0,): point[u]}, y: {(0,): point[v]}}
        try:
            ours = value(slope, at)
            theirs = in_sympy(formula).xreplace({a: u, b: v}).diff(u)
            if theirs.has(*UNDEFINED):
                continue
            with mpmath.workdps(50):  # terms may cancel
                theirs = complex(sympy.lambdify((u, v), theirs, "mpmath")(*map(mpmath.mpf, point.values())))
        except (ZeroDivisionError, ValueError, OverflowError, TypeError, NameError):  # no value, or none of SymPy's
            continue
        if not isinstance(ours, complex) and math.isfinite(ours) and cmath.isfinite(theirs):
            compared += 1
            assert abs(ours - theirs) <= 1e-6 * (1 + abs(ours)), formula
    assert compared > (1_500 if THOROUGH else 500)


def without_rounding(function):
    """A function of numbers that are 0 where only rounding keeps them from it, as 1 - 2 + s - s + 1 is."""
    return lambda *numbers: function(*[0 if abs(x) < 1e-12 else x for x in numbers])


def without_ties(meaning):
    def apart(*numbers):
        if len({*numbers, *([0] if len(numbers) == 1 else [])}) == 1:
            raise ValueError("a tie")
        return meaning(*numbers)

    return apart


def root_above_zero(base, exponent):
    if base <= 0 and not float(exponent).is_integer():
        raise ValueError("the argument of a root is not above 0")
    return power(base, exponent)


power = formulas.MEANING[Pow]


@pytest.mark.parametrize("ties", [False, True])
def test_random_formulas_have_the_values_of_their_normal_forms(ties, monkeypatch):
    """Entries of both signs; a formula that has no value at a point is not compared there."""
    monkeypatch.setitem(formulas.MEANING, Pow, root_above_zero)
    for function in (theta, relu, absolute, sign, larger, same):
        row = functions.HEADS[function]
        meaning = without_ties(row.value) if ties else without_rounding(row.value)
        monkeypatch.setitem(functions.HEADS, function, replace(row, value=meaning))

    def entry(rng: random.Random) -> float:
        return rng.choice((-1, 1, 1, 1)) * rng.uniform(0.3, 2)

    rng, compared = random.Random(1 + ties), 0
    for _ in range(50_000 if THOROUGH else 500):
        formula = random_formula(rng, [i, k], 3)
        fractions = Fractions(Signs(), ties)
        try:
            fractions._note_arguments(formula)
            form = fractions.back(fractions.flat(formula))
        except (ZeroDivisionError, TypeError):  # SymPy has made a product of the exponential of a sum of logarithms
            continue
        if formula.has(*UNDEFINED) or form.has(*UNDEFINED):
            continue
        for _ in range(2):
            at = {n: rng.randint(1, 3), m: rng.randint(1, 2), i: 1, k: 1}
            at |= {array: formulas.random_entries(array, at, rng, entry) for array in (x, y, A)}
            try:
                numbers = [complex(value(e, at)) for e in (formula, form)]
            except (ZeroDivisionError, ValueError, OverflowError, TypeError):  # a tie among them
                continue
            if all(z.imag == 0 and math.isfinite(z.real) for z in numbers):
                compared += 1
                assert abs(numbers[0] - numbers[1]) <= 1e-6 * (1 + abs(numbers[0])), (formula, form)
    assert compared > (30_000 if THOROUGH else 270)

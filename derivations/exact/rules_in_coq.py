"""Rules of scalar operations as theorems of Coq: the derivative of g f(x), where g is the gradient of the result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sympy import Expr, Symbol

from tinytensor.symbolic.certificates.certificate import RESERVED, header
from tinytensor.symbolic.certificates.terms import Reader, condition_text, conditions_of, text
from tinytensor.symbolic.index_calculus.notation import text as printed
from tinytensor.symbolic.index_calculus.signs import Signs


@dataclass(frozen=True)
class ScalarRule:
    """An operation, one of its inputs, its formula, and the gradient that its rule gives this input.

    upstream: the symbol of the gradient of the result, in `gradient`.
    """

    operation: str
    wanted: Symbol
    formula: Expr
    gradient: Expr
    upstream: Symbol


def rules_in_coq(title: str, rules: Sequence[ScalarRule]) -> str:
    """A file with a theorem for each rule."""
    return "\n".join([*header(title), *[line for one in rules for line in _theorem(one)]]) + "\n"


def _theorem(rule: ScalarRule) -> Iterator[str]:
    variables = sorted(rule.formula.free_symbols | rule.gradient.free_symbols - {rule.upstream}, key=str)
    names = {v: f"{v}_" if str(v) in RESERVED else str(v) for v in variables} | {rule.upstream: "g"}
    reader = Reader(names, list(names), names.values())
    formula, gradient = (reader.term(e, {}) for e in (rule.formula, rule.gradient))
    moved = names | {rule.wanted: "r"}
    shown = text(formula, moved.__getitem__)
    shown = shown if " " not in shown else f"({shown})"
    yield ""
    yield f"(* {rule.operation}: y = {printed(rule.formula)}, ∂𝓛/∂{rule.wanted} = {printed(rule.gradient)} *)"
    every = " ".join(["g", *[names[v] for v in variables]])
    yield f"Theorem rule_of_{rule.operation}_{rule.wanted} : forall {every} : R,"
    for left, relation, right in dict.fromkeys(conditions_of(rule.formula, Signs())):
        left, right = (text(reader.term(side, {}), names.__getitem__) for side in (left, right))
        yield f"  {condition_text(left, relation, right)} ->"
    yield f"  is_derive (fun r => g * {shown}) {names[rule.wanted]} ({text(gradient, names.__getitem__)})."
    yield "Proof. rule. Qed."

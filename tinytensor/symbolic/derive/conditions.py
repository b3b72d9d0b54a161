"""The conditions of a proof: at which sizes and values it holds.

A condition on sizes is a relation, N > 3 or N % 2 = 1, which a question of the code about its sizes has decided. A
condition on values is one of the short list VALUES. Where it fails, a function has no derivative, or one by convention:
denominators, arguments of logarithms and roots, numbers that are compared.
"""

import ast
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sympy import Add, Eq, Expr, Ge, Gt, Integer, Le, Lt, Mod, Ne, S, ceiling, floor
from sympy.parsing.sympy_parser import parse_expr

from tinytensor.symbolic.index_calculus.formulas import Size, not_negative
from tinytensor.symbolic.index_calculus.vanishing import Theorem
from tinytensor.symbolic.prove.proof import join_words

RELATIONS = {"<": Lt, "<=": Le, ">": Gt, ">=": Ge, "==": Eq, "!=": Ne}
OPPOSITE = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
VALUES = {  # the short list: what is assumed of values, by the kind of the number that decides
    "denominator": "no denominator is 0",
    "logarithm": "every argument of a logarithm is above 0",
    "clipped": "every probability lies above 1e-12",
    "root": "every argument of a root is above 0",
    "arc": "every argument of asin and acos lies between -1 and 1",
    "softplus": "no argument of softplus is above its threshold",
    "unit": "every argument of erfinv lies between -1 and 1",
    "gamma": "every argument of the gamma function is above 0",
    "tie": "no two numbers that are compared are equal",
    "step": "no number that is rounded is whole",
    "factor": "every factor of a product is above 0",
    "regular": "every matrix that is inverted is regular",
    "definite": "every matrix that has a Cholesky factor is positive definite",
    "rank": "every matrix with a pseudoinverse has full rank",
    "norm": "every norm is above the bound that keeps it from 0",
    "row": "every row of attention may attend to at least one place",
    "probability": "every probability lies between 0 and 1",
    "finite": "every number that isfinite() is asked about is finite",
    "overflow": "no power with a size in its exponent overflows",
    "range": "every whole number lies within its dtype",
    "cast": "no cast to a shorter float rounds",
    "needs": "every input needs a gradient",
    "float64": "floats are float64, those of the default dtype, too",
}


@dataclass(frozen=True)
class SizeCondition:
    """left operation right, for formulas of the sizes; `%` on the left is Mod."""

    left: Expr
    operation: str
    right: Expr

    def holds(self, numbers: dict[Size, int]) -> bool:
        """Is it true at these numbers for the sizes? A size without a number leaves it true."""
        try:
            decided = RELATIONS[self.operation](self.left.xreplace(numbers), self.right.xreplace(numbers))
        except (TypeError, ZeroDivisionError):  # a divisor is 0
            return False
        return decided != False  # noqa: E712

    def __str__(self) -> str:
        if isinstance(self.left, Mod) and self.left.args[1] == 2 and self.operation == "==" and self.right in (0, 1):
            return f"{'odd' if self.right == 1 else 'even'} {self.left.args[0]}"
        return self.code({"==": "=", "!=": "≠", "<=": "≤", ">=": "≥"}.get(self.operation))

    def code(self, sign: str | None = None) -> str:
        """The condition as `where` takes it, or with another sign for its operation."""
        left = self.left
        if isinstance(left, Mod):
            left = " % ".join(str(part) if part.is_Atom else f"({part})" for part in left.args)
        return f"{left} {sign or self.operation} {self.right}"


def size_condition(operation: str, left: Expr, right: Expr) -> SizeCondition | None:
    """The condition in its shortest form; None if it is true for all sizes, which are whole numbers from 1 on."""
    left, right = S(left), S(right)
    if left.has(Mod):
        return None if left.is_number else SizeCondition(left, operation, right)
    if _always(operation, left, right):
        return None
    difference = (left - right).expand()
    sizes = sorted(difference.atoms(Size), key=str)
    if len(sizes) == 1 and (slope := difference.coeff(sizes[0])).is_number and slope != 0:
        number = difference - slope * sizes[0]
        if number.is_number:  # slope N + number ? 0
            operation = operation if slope.is_positive else OPPOSITE[operation]
            return _whole_bound(sizes[0], operation, -number / slope)
    return SizeCondition(left, operation, right)


def _whole_bound(size: Size, operation: str, bound: Expr) -> SizeCondition | None:
    """size operation bound with a whole bound, as > and < where that is possible."""
    if operation in (">", "<="):
        bound = floor(bound)
    elif operation in (">=", "<"):
        bound = ceiling(bound)
    if operation == ">=":
        operation, bound = ">", bound - 1
    elif operation == "<=":
        operation, bound = "<", bound + 1
    elif operation == "!=" and bound == 1:
        operation = ">"
    return None if _always(operation, size, bound) else SizeCondition(size, operation, bound)


def _always(operation: str, left: Expr, right: Expr) -> bool:
    """Is the relation true for all sizes?"""
    difference = (left - right).expand()
    if operation == "!=":
        fraction = difference.is_Rational and not difference.is_Integer
        return fraction or _always(">", left, right) or _always("<", left, right)
    if operation == "==":
        return difference == 0
    difference = difference if operation[0] == ">" else -difference
    return bool(not_negative(difference if operation[1:] else difference - 1))


def remainder(left: Expr, divisor: Expr, result: Expr) -> SizeCondition | None:
    """left % divisor = result, with whole numbers where left is a fraction of one: (N/2) % 1 = 1/2 is N % 2 = 1."""
    left, divisor, result = S(left).expand(), S(divisor), S(result)
    scale = math.lcm(*(int(c.q) for c in left.as_coefficients_dict().values() if c.is_Rational))
    left, divisor, result = (left * scale).expand(), divisor * scale, result * scale
    if divisor.is_Integer:  # each coefficient counts modulo the divisor
        coefficients = left.as_coefficients_dict()
        if all(c.is_Integer and t.is_integer for t, c in coefficients.items()):
            result = (result - coefficients.pop(S.One, 0)) % divisor
            left = Add(*[t * (c % divisor) for t, c in coefficients.items()])
    return None if left.is_number else SizeCondition(Mod(left, divisor, evaluate=False), "==", result)


def conditions_in(where, sizes: Sequence[Size]) -> list[SizeCondition]:
    """The conditions of `where`: a text such as "N > 3", "N % 2 == 0" or "2 < N < 9", or a list of such texts."""
    known = {str(s): s for s in sizes}
    conditions: list[SizeCondition] = []
    for condition in (where,) if isinstance(where, str) else where or ():
        try:
            node = ast.parse(condition.strip(), mode="eval").body
            for part in node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]:
                sides = [_side(side, known) for side in (part.left, *part.comparators)]
                for left, operation, right in zip(sides, part.ops, sides[1:]):
                    made = size_condition(COMPARED[type(operation)], left, right)
                    conditions += [made] if made is not None else []
        except (SyntaxError, LookupError, TypeError, AttributeError, NameError, ZeroDivisionError) as error:
            raise ValueError(
                f"where: {condition!r} is no condition on the sizes {', '.join(known) or '(there are none)'}; "
                'expected a comparison such as "N > 3" or "N % 2 == 0"'
            ) from error
    return conditions


COMPARED = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def _side(node: ast.expr, known: dict[str, Size]) -> Expr:
    """One side of a comparison as a formula of the sizes; there are no other names, and no numbers but whole ones."""
    side = parse_expr(ast.unparse(node), known, global_dict={"Integer": Integer})
    if not isinstance(side, Expr) or side.has(floor, S.ComplexInfinity):
        raise TypeError
    return side


def restrictions(conditions: Iterable[SizeCondition], where: Sequence[SizeCondition], samples) -> list[SizeCondition]:
    """The conditions that are none of `where`, and that exclude a size at which the function has a value."""
    result = []
    for condition in conditions:
        outside = [s for s in samples if not condition.holds(s.at)]
        if condition not in where and not (outside and not any(s.finite for s in outside)):
            result.append(condition)
    return result


def in_words(theorem: Theorem) -> tuple[str, ...]:
    """The conditions on values."""
    return tuple(VALUES[k] for k in VALUES if k in theorem.hypotheses)


def verdict(theorem: Theorem, restricted: Sequence[SizeCondition]) -> str:
    """What is proved, with its conditions, in words: the only place that says so."""
    if not isinstance(theorem, Theorem):
        raise TypeError("verdict: only a theorem is proved")
    sizes, values = [*map(str, theorem.sizes)], in_words(theorem)
    sentence = "proved only for " if restricted else "proved for "
    sentence += join_words(sizes) or "any size"
    if values:
        sentence += f", where {join_words(values)}"
    if restricted:
        where = " and ".join(condition.code() for condition in restricted)
        sentence += f'; if that is what you mean, say where="{where}"'
    return sentence

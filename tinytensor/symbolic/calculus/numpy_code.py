"""Formulas in index notation as NumPy code: each definition is one line, and each sum one einsum."""

import itertools
import re

from sympy import Expr, Function, Indexed, KroneckerDelta, Mul, Pow, fraction
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from tinytensor.symbolic.calculus.adjoints import Definition, Name
from tinytensor.symbolic.calculus.formulas import Array, Index, contract, free, spread


class _Scalar(StrPrinter):
    """Numbers, sizes and symbols as Python: 1/sqrt(size.K)."""

    def _print_Size(self, expr):
        return f"size.{expr.name}"


def line(definition: Definition) -> str:
    """`name = expression` in NumPy, for a definition whose indices stand in the order of the array's axes."""
    axes = definition.left.indices if isinstance(definition.left, Indexed) else ()
    right = code(definition.right, axes)
    if set(axes) - free(definition.right):  # constant along an axis, which the array must have
        right += f" + zeros(({', '.join(_Scalar().doprint(a.size) for a in axes)},))"
    return f"{label(definition.name)} = {right}"


def label(name: Name) -> str:
    """The name of an array or a symbol in code."""
    return str(name.label if isinstance(name, Array) else name)


def code(expr: Expr, axes: tuple[Index, ...]) -> str:
    """NumPy code for an array with these axes, or one that broadcasts to them."""
    terms = [term(contract(product, bound)[0], axes) for product, bound in spread(expr)]
    return " + ".join(sorted(terms, key=lambda one: one.startswith("-"))).replace("+ -", "- ")


def term(product: Expr, axes: tuple[Index, ...]) -> str:
    """A product, summed over the indices that are no axes: an einsum of its factors, times those without index."""
    factors = Mul.make_args(product)
    number = Mul(*[f for f in factors if not free(f)])
    operands = [operand(f) for f in factors if free(f)]
    sign, number = ("-", -number) if number.could_extract_minus_sign() else ("", number)
    if not operands:
        return sign + _Scalar().doprint(number)
    kept = [a for a in axes if any(a in indices for _, indices in operands)]
    if len(operands) == 1 and operands[0][1] == kept:
        body = operands[0][0]
    else:
        body = einsum(operands, kept)
    if kept != list(axes[len(axes) - len(kept) :]):  # NumPy adds missing axes in front, others are put in here
        body = f"{_grouped(body)}[{', '.join(':' if a in kept else 'None' for a in axes)}]"
    above, below = fraction(number)
    if above != 1:
        body = f"{_Scalar().doprint(number)} * {_grouped(body)}"
    elif below != 1:
        body = f"{_grouped(body)} / {_Scalar().parenthesize(below, PRECEDENCE['Mul'])}"
    return sign + body


def _grouped(body: str) -> str:
    """The code in brackets, unless it is a name, an entry or one call."""
    return body if re.fullmatch(r"\w+(\([^()]*\))?(\[[^]]*\])?", body) else f"({body})"


def einsum(operands: list[tuple[str, list[Index]]], kept: list[Index]) -> str:
    """einsum("him,hmk->hik", ...), with the letters of the formula where no other index has them."""
    letters: dict[Index, str] = {}
    for index in [*kept, *itertools.chain(*[indices for _, indices in operands])]:
        if index not in letters:
            letters[index] = next(one for one in index.letters if one not in letters.values())
    inputs = ",".join("".join(letters[i] for i in indices) for _, indices in operands)
    output = "".join(letters[i] for i in kept)
    return f'einsum("{inputs}->{output}", {", ".join(name for name, _ in operands)})'


def operand(factor: Expr) -> tuple[str, list[Index]]:
    """A factor as NumPy code, and the indices of its axes."""
    if isinstance(factor, Indexed):
        tables = [i for i in factor.indices if isinstance(i, Indexed)]
        axes = [i.indices[0] if i in tables else i for i in factor.indices]
        places = [label(i.base) if i in tables else ":" for i in factor.indices]
        while places and places[-1] == ":":
            places.pop()
        return label(factor.base) + (f"[{', '.join(places)}]" if tables else ""), axes
    if isinstance(factor, KroneckerDelta):
        (table,) = [x for x in factor.args if isinstance(x, Indexed)]  # two bare indices would have been contracted
        (other,) = [x for x in factor.args if x is not table]
        return f"eye(size.{other.size.name})[{label(table.base)}]", [table.indices[0], other]
    argument = factor.args[0]
    axes = list(dict.fromkeys(i for e in _entries(argument) for i in operand(e)[1]))
    inside = code(argument, tuple(axes))
    if isinstance(factor, Pow):
        power = factor.exp
        root = f"sqrt({inside})" if abs(power).q == 2 else _grouped(inside)
        power = power * abs(power).q  # sqrt takes the half power
        return (f"1 / {root}" if power == -1 else root if power == 1 else f"{root}**{power}"), axes
    assert isinstance(factor, Function), factor
    return f"{factor.func.__name__}({inside})", axes


def _entries(expr: Expr) -> list[Indexed]:
    """The entries of arrays in an expression from left to right, without those that are indices of others."""
    return [expr] if isinstance(expr, Indexed) else [e for a in expr.args for e in _entries(a)]

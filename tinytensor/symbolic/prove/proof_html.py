"""A proof as a notebook shows it: its verdict and its assumptions, and what is wrong as formulas."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy

from tinytensor.symbolic.exact.scalars import Symbolic
from tinytensor.utils.display.notebook import formula, sentence, shown

LONG = 60  # a formula of more operations is shown by its value


def result_html(result: Any, wrong_rules: Sequence = (), signs: Mapping[str, np.ndarray] = MappingProxyType({})):
    """A result of `prove` as HTML."""
    verdict, *lines = (line.strip() for line in str(result).splitlines())
    parts = [f"<p><b>{result.verdict}</b>{sentence(verdict.removeprefix(result.verdict))}</p>"]
    for wrong in wrong_rules:
        text = str(wrong).splitlines()
        lines = [line for line in lines if line not in text]
        parts += _wrong(wrong)
    return shown(*parts, _list(lines, signs))


def _list(lines: list[str], signs: Mapping[str, np.ndarray]) -> str | None:
    """Sentences as a list; the signs at which a proof holds as the matrix that they are."""
    items = []
    for line in lines:
        what = next((name for name in signs if line.startswith(f"signs of {name}:")), None)
        matrix = None if what is None or signs[what].ndim > 2 else formula(_matrix(signs[what]))
        items.append(f"<li>signs of {escape(what)}:{matrix}</li>" if matrix else f"<li>{sentence(line)}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _matrix(signs: np.ndarray) -> str:
    rows = np.atleast_2d(np.where(signs == ".", r"\cdot", signs))
    return r"\begin{bmatrix} " + r" \\ ".join(" & ".join(row) for row in rows) + r" \end{bmatrix}"


def _wrong(wrong: Any) -> list[str | None]:
    """A wrong rule: the formula that it gives, and the right one."""
    lines_of_code = {"rule": wrong.rule_at, "called here": wrong.called_at}
    where = "".join(f"<li>{name}: {escape(line)}</li>" for name, line in lines_of_code.items() if line)
    indices = f"_{{{' '.join(map(str, wrong.index))}}}" if wrong.index else ""
    said, then = wrong.words
    name = rf"\mathrm{{d}}{_upright(wrong.input)}" if wrong.input else rf"\mathrm{{{_upright(wrong.op)}}}"
    lines = [f"<p>{escape(said)}</p>", formula(f"{name}{indices} = {_latex(wrong.got)}")]
    lines += [f"<p>{then}</p>", formula(_latex(wrong.right))]
    return [*lines, f"<ul>{where}</ul>" if where else ""]


def _latex(value: Symbolic) -> str:
    if value.expr.count_ops() > LONG:
        return rf"{value.witness:.6g} \ldots"
    return sympy.latex(value.expr.xreplace({s: _entry(s) for s in value.expr.free_symbols}))


def _entry(symbol: sympy.Symbol) -> sympy.Symbol:
    """An entry x'[0, 1] of a proof as x_{0 1}."""
    match = re.fullmatch(r"(.*?)'?\[([\d, ]*)\]", symbol.name)
    if match is None:
        return sympy.Symbol(symbol.name.replace("'", ""))
    name = sympy.latex(sympy.Symbol(_upright(match[1])))
    return sympy.Symbol(f"{name}_{{{match[2].replace(',', '')}}}" if match[2] else name)


def _upright(name: str) -> str:
    return name.replace("#", r"\#").replace("_", r"\_")

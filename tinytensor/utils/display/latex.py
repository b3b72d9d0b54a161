"""Equations and rules as MathML, which browsers typeset by themselves: from LaTeX, by latex2mathml (viz extra).

An operation's equation is LaTeX with words among it ("y = \\max(0, x); the gradient at 0 is 0"). A rule is Python; a
rule of one expression is also written as mathematics, from its syntax tree alone, so that the formula shows the code
that runs.
"""

import ast
import re
from functools import cache
from html import escape

from tinytensor.native.platform.distribution import missing_package

# --- Equations


_WORD = re.compile(r"[(\[]?[A-Za-z]{2,}([_'-][A-Za-z]+)*[.,;:)\]]*")


def split(equation: str) -> list[tuple[str, bool]]:
    """An equation as pieces, (text, is it words?): words are set upright, and lines may break between them."""
    pieces: list[tuple[str, bool]] = []
    tokens = _tokens(equation)
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        after_words = bool(pieces) and pieces[-1][1]
        article = token == "a" and after_words and _WORD.fullmatch(following)  # and not a variable of the equation
        words = bool(_WORD.fullmatch(token) or article)
        if pieces and words == after_words:
            pieces[-1] = f"{pieces[-1][0]} {token}", words
        else:
            pieces.append((token, words))
    return pieces


def _tokens(equation: str) -> list[str]:
    """Split at blanks outside of braces."""
    tokens, depth = [""], 0
    for letter in " ".join(equation.split()):
        depth += (letter == "{") - (letter == "}")
        if letter == " " and depth == 0:
            tokens.append("")
        else:
            tokens[-1] += letter
    return tokens


def with_words(equation: str) -> str:
    """An equation as HTML: its formulas as MathML, and its words as they are."""
    return " ".join(escape(text) if words else mathml(text) for text, words in split(equation))


@cache
def mathml(latex: str, display: str = "inline") -> str:
    """LaTeX as MathML; `display` is "inline", or "block" for a formula in a line of its own."""
    try:
        from latex2mathml.converter import convert
    except ModuleNotFoundError:
        missing_package("latex2mathml", "typesetting")
    return convert(latex, display=display)


# --- Rules

GREEK = {"gamma", "delta", "epsilon", "eps", "mu", "sigma", "alpha", "beta", "pi", "lambda", "theta"}
FUNCTIONS = {"exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "arcsin", "arccos", "arctan", "min", "max"}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Gt: ">", ast.Lt: "<", ast.GtE: r"\ge", ast.LtE: r"\le", ast.Eq: "="}
SIGNS |= {ast.NotEq: r"\neq"}


class NoFormula(Exception):
    """This piece of Python is not written as mathematics."""


def rule_as_latex(source: str) -> str | None:
    r"""A rule that is one expression, as \partial L / \partial x = ...; None if it is more than that."""
    try:
        (function,) = ast.parse(source).body
        body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        if len(body) != 1 or not isinstance(body[0], ast.Return) or not function.name.startswith("grad_"):
            return None
        name = function.name.removeprefix("grad_")
        return rf"\frac{{\partial L}}{{\partial {_name(name)}}} = {_latex(body[0].value)}"
    except (SyntaxError, ValueError, AttributeError, NoFormula):
        return None


def _name(name: str) -> str:
    if name.endswith("_shape"):
        return rf"\mathrm{{shape}}({_name(name.removesuffix('_shape'))})"
    if name in GREEK:
        return "\\" + name.replace("eps", "epsilon").replace("epsilonilon", "epsilon")
    return name if len(name) == 1 else r"\mathrm{" + name.replace("_", r"\_") + "}"


def _latex(e: ast.AST) -> str:
    """An expression as LaTeX."""
    if isinstance(e, ast.Name):
        return _name(e.id)
    if isinstance(e, ast.Constant) and isinstance(e.value, int | float):
        digits, _, exponent = f"{e.value:g}".partition("e")
        return rf"{digits} \cdot 10^{{{int(exponent)}}}" if exponent else digits
    if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
        return f"-{_tight(e.operand)}"
    if isinstance(e, ast.BinOp):
        return _binary(e)
    if isinstance(e, ast.Compare) and len(e.ops) == 1 and type(e.ops[0]) in SIGNS:
        return f"{_latex(e.left)} {SIGNS[type(e.ops[0])]} {_latex(e.comparators[0])}"
    if isinstance(e, ast.Attribute) and ast.unparse(e) == "math.pi":
        return r"\pi"
    if isinstance(e, ast.Attribute) and e.attr in ("T", "mT"):
        return rf"{_tight(e.value)}^\top"
    if isinstance(e, ast.Call) and not e.keywords:
        return _call(e)
    raise NoFormula


def _binary(e: ast.BinOp) -> str:
    left, right = e.left, e.right
    if isinstance(e.op, ast.Div):
        return rf"\frac{{{_latex(left)}}}{{{_latex(right)}}}"
    if isinstance(e.op, ast.Pow):
        return f"{_tight(left, power=True)}^{{{_latex(right)}}}"
    if isinstance(e.op, ast.Mult):
        between = r"\," if ast.Constant in (type(left), type(right)) else r"\odot"
        return f"{_tight(left)} {between} {_tight(right)}"
    if isinstance(e.op, ast.MatMult):
        return rf"{_tight(left)}\, {_tight(right)}"
    if type(e.op) in SIGNS:
        return f"{_latex(left)} {SIGNS[type(e.op)]} {_tight(right) if isinstance(e.op, ast.Sub) else _latex(right)}"
    raise NoFormula


def _tight(e: ast.AST, power: bool = False) -> str:
    """An expression as an operand: sums in parentheses, and products too if they are raised to a power."""
    loose = isinstance(e, ast.BinOp) and (power or isinstance(e.op, ast.Add | ast.Sub))
    loose = loose or isinstance(e, ast.UnaryOp | ast.Compare)
    return rf"\left({_latex(e)}\right)" if loose else _latex(e)


def _call(e: ast.Call) -> str:
    """A call of a function, or of a method, whose object counts as the first argument."""
    if isinstance(e.func, ast.Attribute) and ast.unparse(e.func.value) == "math":
        name, args = e.func.attr, e.args
    elif isinstance(e.func, ast.Attribute):
        name, args = e.func.attr, [e.func.value, *e.args]
    elif isinstance(e.func, ast.Name):
        name, args = e.func.id, e.args
    else:
        raise NoFormula
    name = name.strip("_").removesuffix("_op")
    if name in ("abs", "absolute"):
        return rf"\left|{_latex(args[0])}\right|"
    if name == "sqrt":
        return rf"\sqrt{{{_latex(args[0])}}}"
    if name in ("transpose", "mT") and [ast.unparse(a) for a in args[1:]] in (["-1", "-2"], ["-2", "-1"], []):
        return rf"{_tight(args[0])}^\top"
    if name == "matmul":
        return rf"{_tight(args[0])}\, {_tight(args[1])}"
    function = f"\\{name}" if name in FUNCTIONS else r"\mathrm{" + name.replace("_", r"\_") + "}"
    return rf"{function}\left({', '.join(map(_latex, args))}\right)"

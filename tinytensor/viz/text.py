"""`explain(loss)`: the backward pass as numbered text, visit by visit.

The words for equations and arrays are here, too, since pictures have the same labels.
"""

import re
from collections.abc import Callable, Mapping
from html import escape
from types import MappingProxyType

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.utils.display.latex import rule_as_latex, with_words
from tinytensor.utils.display.notebook import shown
from tinytensor.viz.groups import local
from tinytensor.viz.record import UNKNOWN, Argument, BackwardTrace, Leaf, Rule, Share, Step, Value
from tinytensor.viz.trace import look

FEW = 12  # up to so many numbers are written out; more are summarized
LINES = 14  # the most lines of a rule that are shown

# --- Numbers


def number(x) -> str:
    """One number, with four significant digits."""
    return f"{x:.4g}" if isinstance(x, float | np.floating) else str(x)


def numbers(array: np.ndarray | None, few: int = FEW) -> str:
    """An array in words: its numbers if they are few, else its shape, its norm and its range."""
    if array is None:
        return "not kept on the tape"
    if array.size <= few and array.size:
        return _nested(array)
    words = summary(array)
    return f"shape {array.shape}, {words}" if words else f"shape {array.shape}"


def summary(array: np.ndarray) -> str:
    """The range and the norm of numbers, or how many truth values are True; "" for other elements."""
    if array.size == 0:
        return "no numbers"
    if array.dtype.kind == "b":
        return f"{int(array.sum())} of {array.size} are True"
    if array.dtype.kind not in "fiu":
        return ""
    odd = int(array.size - np.isfinite(array).sum()) if array.dtype.kind == "f" else 0
    if odd:
        return f"{odd} of {array.size} are NaN or inf"
    low, high = array.min(), array.max()
    if low == high:
        return f"each {number(low)}"
    wide = array.astype(np.float64)
    largest = np.abs(wide).max()  # its square may be too large for a float, or too small
    norm = float(largest) * float(np.sqrt(np.square(wide / largest).sum()))
    return f"from {number(low)} to {number(high)}, norm {number(norm)}"


def _nested(array: np.ndarray) -> str:
    if array.ndim == 0:
        return number(array[()])
    return f"[{', '.join(_nested(array[i, ...]) for i in range(len(array)))}]"  # exact scalars have no ndim


def setting(value: object) -> str:
    """An argument that has no gradient: an array, or a setting such as a dimension."""
    if isinstance(value, np.ndarray):
        return numbers(value)
    if isinstance(value, tuple) and any(isinstance(v, np.ndarray) for v in value):
        return f"({', '.join(map(setting, value))})"
    text = number(value) if isinstance(value, float) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- Equations

_LETTERS = """odot ⊙ oplus ⊕ cdot · times × le ≤ ge ≥ neq ≠ approx ≈ in ∈ sum Σ prod Π int ∫ partial ∂ infty ∞
lfloor ⌊ rfloor ⌋ ell ℓ alpha α beta β gamma γ delta δ epsilon ε eta η theta θ lambda λ mu μ pi π rho ρ sigma σ
tau τ phi φ varphi φ Phi Φ omega ω"""
_SIGNS = dict(zip(_LETTERS.split()[::2], _LETTERS.split()[1::2], strict=True))


def plain(equation: str) -> str:
    """An equation without its LaTeX, for a terminal: \\frac{a}{b} is a/b, \\sum_i is Σ_i."""
    text = re.sub(r"\\([,;:! ])", " ", equation)
    text = re.sub(r"\\frac\{\\partial L\}\{\\partial (\\?\w+|\\?\w+_\{\w+\})\}", r"∂L/∂\1", text)
    text = re.sub(r"\\(t?frac|sqrt)(\d|\\[A-Za-z]+)", r"\\\1{\2}", text)  # \frac12 is \frac{1}{2}
    text = re.sub(r"\\(t?frac\{[^{}]*\})(\w|\\[A-Za-z]+)", r"\\\1{\2}", text)
    text = re.sub(r"\\(?:mathrm|mathbf|text|operatorname)\{([^{}]*)\}", r"\1", text)
    before = ""
    while before != text:  # from the inside outwards
        before = text
        text = re.sub(r"([_^])\{([^{}]*)\}", lambda m: m[1] + _grouped(m[2]), text)
        text = re.sub(r"\\sqrt\{([^{}]*)\}", lambda m: "√" + _grouped(m[1]), text)
        text = re.sub(r"\\t?frac\{([^{}]*)\}\{([^{}]*)\}", lambda m: f"{_grouped(m[1])}/{_grouped(m[2])}", text)
    text = re.sub(r"\\(left|right)\b", "", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda m: _SIGNS.get(m[1], m[1]), text)
    return " ".join(text.replace("{", "(").replace("}", ")").split())


def _grouped(text: str) -> str:
    """The text in parentheses, unless it is one word or one sign: e^(x_i), but e^x and √π."""
    return text if re.fullmatch(r"[^\W_]*|[.\w\\]*\.\.[.\w\\]*|\\[A-Za-z]+|√?\\?[A-Za-z]+", text) else f"({text})"


def first_line(text: str) -> str:
    return text.partition("\n")[0]


# --- Words


def visit(step: Step) -> str:
    """The text for a step where another step names it."""
    return f"{step.mark}. {step.op.name}"


def call(step: Step) -> str:
    """The computation: d = add(c, a). An unknown argument, a constant that no rule reads, is three dots."""
    words = [local(argument(a), step.group) for a in step.arguments]
    while words and words[-1] == "…":
        words.pop()
    return f"{step.name} = {step.op.name}({', '.join(words)})"


def argument(a: Argument) -> str:
    """An argument by its name, or by its value if it is a small constant."""
    if a.called:
        return a.called
    if isinstance(a.value, np.ndarray) and a.value.size > 4:
        return f"{a.name} {a.value.shape}"
    return "…" if a.value is UNKNOWN else setting(a.value)


def shapes(step: Step, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """The shapes of the arguments that have a gradient, the result's, and its dtype; "" if all are single numbers.

    `names` are others for the arguments.
    """
    if not any((step.shape, *(a.source.shape for a in step.arguments if a.source is not None))):
        return ""
    words = [f"{names.get(a.name, a.name)} {a.source.shape}" for a in step.arguments if a.source is not None]
    return f"{', '.join(words)} → {step.shape} {step.dtype}"


def equation(step: Step) -> str:
    if hasattr(step.node, "function"):
        return f"what {step.node.function.__name__}.forward computes"
    return plain(first_line(step.op.equation)) or "none is declared"


def why_now(
    step: Step,
    seen: BackwardTrace,
    visit: Callable[[Step], str] = visit,
    waits: Callable[[Step, Step], str] | None = None,
) -> str:
    """The reason why the walk takes this node now: the youngest of those that wait, with its consumers done.

    `visit` names a step that was visited, and `waits` one that waits (and its reader).
    """
    if step is seen.result:
        return "backward() is called of it, and no node is younger"
    waits = waits or (lambda other, step: f"{local(other.name, step.group)} ({other.op.name})")
    others = ", ".join(waits(other, step) for other in step.waiting)
    youngest = f"it is younger than all others that wait ({others})" if others else "no other node waits"
    readers = [reader for reader in step.consumers if reader.turn]
    done = ", ".join(visit(reader) for reader in sorted(readers, key=lambda reader: reader.order))
    return f"{youngest}; what reads {local(step.name, step.group)} has been visited: {done}"


def sum_of(value: Value) -> str:
    """The shares that arrived, and their sum: 1 (from 2. add, as a) + -3 (from 3. mul, as a) = -2."""
    if value.gradient is None:
        return "nothing: no rule sent a gradient here"
    terms = [] if value.seed is None else [(numbers(value.seed), "where the walk starts")]
    terms += [(numbers(s.sent), f"from {visit(s.sender)}, for its {s.argument}") for s in value.shares]
    total = f" = {numbers(value.gradient)}" if len(terms) > 1 or value.hooks else ""
    words = " + ".join(f"{term} ({source})" for term, source in terms)
    if value.hooks:
        words += f", after {value.hooks} hook{'s' if value.hooks > 1 else ''}"
    return words + total


def sends(share: Share) -> str:
    """A share on its way out, with changes of its shape or dtype."""
    fitted = ""
    if share.raw.shape != share.sent.shape:
        fitted = f" (the rule gave {share.raw.shape}; summed over what broadcasting had repeated)"
    elif share.raw.dtype != share.sent.dtype:
        fitted = f" (the rule gave {share.raw.dtype})"
    return f"{numbers(share.sent)} to {share.target.name}, for {share.argument}{fitted}"


def rule(applied: Rule) -> list[str]:
    """The source of a rule (or its formulas, if a kernel computes them), its place, and the values that it read."""
    code = applied.source.split("\n") if applied.source else [f"{applied.name}, whose source is in no file"]
    lines = [plain(line) for line in applied.formulas] or code
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"    ... ({len(lines) - LINES + 1} more lines)"]
    lines[0] += f"    # {applied.where}" if applied.where else ""
    read = [f"{name} = {setting(value)}" for name, value in applied.reads.items()]
    return lines + ([f"reads {'; '.join(read)}"] if read else [])


# --- Explanation


class Explanation:
    """A backward pass in words: print it. `seen` holds the record that the words come from."""

    def __init__(self, seen: BackwardTrace):
        self.seen = seen

    def __str__(self) -> str:
        lines = self._before()
        for step in self.seen.walked:
            lines += ["", f"{step.turn}. {call(step)}"]
            rows = [(name if i == 0 else "", line) for name, part in self._rows(step) for i, line in enumerate(part)]
            lines += [f"   {name:<9} {line}".rstrip() for name, line in rows]
        lines += [line for said in self._never() for line in ("", said)]
        lines += ["", "At the leaves, when all nodes have been visited:"]
        for leaf in self.seen.leaves:
            lines += self._leaf(leaf)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        """The explanation in a notebook: the same, with equations and rules typeset."""
        paragraphs = [f"<p>{escape(line)}</p>" for line in self._before()]
        for step in self.seen.walked:
            paragraphs.append(f"<p><b>{step.turn}. {escape(call(step))}</b></p>")
            table = self._table(step)
            paragraphs.append(None if table is None else f"<table>{table}</table>")
        leaves = "".join(f"<li>{escape(' '.join(map(str.strip, self._leaf(leaf))))}</li>" for leaf in self.seen.leaves)
        paragraphs += [f"<p>{escape(line)}</p>" for line in self._never()]
        return shown(*paragraphs, f"<p>At the leaves, when all nodes have been visited:</p><ul>{leaves}</ul>")

    def _before(self) -> list[str]:
        result, n, m = self.seen.result, len(self.seen.steps), len(self.seen.leaves)
        return [
            f"backward() of {result.name} = {numbers(result.value)}, through {n} operation{'s' * (n != 1)} "
            f"to {m} lea{'f' if m == 1 else 'ves'}.",
            "#n is the result of the n-th operation that was recorded; 1., 2. ... are the visits of the walk.",
        ]

    def _never(self) -> list[str]:
        never = [step.name for step in self.seen.steps if not step.turn]
        return [f"Never visited, for no rule sent a gradient there: {', '.join(never)}"] if never else []

    def _rows(self, step: Step) -> list[tuple[str, list[str]]]:
        """What is said of a visit, by the word before it."""
        rows = [("equation", [equation(step)]), *([("shapes", [words])] if (words := shapes(step)) else [])]
        rows += [("value", [numbers(step.value)])] if step.value is not None else []
        rows += [("why now", [why_now(step, self.seen)]), ("arrives", [sum_of(step)])]
        for i, applied in enumerate(step.rules):
            rows.append(("rule" if i == 0 else "", [*([f"({step.road})"] if i == 0 else []), *rule(applied)]))
        rows += [("sends" if i == 0 else "", [sends(share)]) for i, share in enumerate(step.sends)]
        return rows if step.sends else [*rows, ("sends", ["nothing"])]

    def _table(self, step: Step) -> str | None:
        """The same as rows of a table; None if latex2mathml, which typesets, is missing."""
        rows, rules = [], iter(step.rules)
        try:
            for name, part in self._rows(step):
                cell = "<br>".join(map(escape, part))
                if name == "equation" and step.op.equation and not hasattr(step.node, "function"):
                    cell = with_words(first_line(step.op.equation))
                elif name == "rule" or (name == "" and rows[-1][0] == "rule"):
                    applied, name = next(rules), "rule"
                    latex = applied.formulas or filter(
                        None, [rule_as_latex(applied.source) if applied.source else None]
                    )
                    before, code = ("", part) if applied is not step.rules[0] else (f"<p>{part[0]}</p>", part[1:])
                    cell = before + "".join(f"<p>{with_words(line)}</p>" for line in latex)
                    cell += f"<pre>{escape(chr(10).join(code))}</pre>"
                rows.append((name, cell))
        except ModuleNotFoundError:
            return None
        before = ["", *(name for name, _ in rows)]
        words = ["" if name == last else name for (name, _), last in zip(rows, before, strict=False)]
        return "".join(f"<tr><th>{word}</th><td>{cell}</td></tr>" for word, (_, cell) in zip(words, rows, strict=True))

    def _leaf(self, leaf: Leaf) -> list[str]:
        lines = [f"   {leaf.name} {leaf.shape}: {sum_of(leaf)}"]
        if leaf.gradient is not None and leaf.before is not None:
            lines.append(f"      {leaf.name}.grad holds {numbers(leaf.before)} already; backward() adds to that")
        return lines


def explain(
    loss: Tensor, names: Module | Mapping[str, object] | None = None, gradient: Tensor | None = None
) -> Explanation:
    r"""The backward pass from `loss` L in words, visit by visit.

    \frac{\partial L}{\partial x} = \sum_y \frac{\partial L}{\partial y} \frac{\partial y}{\partial x}, over all y that
    were computed from x: each term leaves one node, and the sum is complete when x is visited.

    For each node, in the order of the visits of `backward()`: the operation and its equation, shapes, the reason why it
    comes now, the gradient that arrives and its terms, the rule with its place in the source and the values that it
    read, and the gradients that it sends. The text shows what the engine does during this call; afterwards the tape,
    every `.grad` and all hooks are as they were (hooks run).

    `names` are a Module or a dictionary of names to tensors and Modules, `vars()` for instance. `gradient` is the
    gradient to start from if `loss` is not one number. RuntimeError if the tape was freed, or if `loss` requires no
    grad.
    """
    return Explanation(look(loss, names, gradient, "explain"))

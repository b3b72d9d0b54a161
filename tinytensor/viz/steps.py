"""The steps of a walkthrough as HTML: what a node reads and gives, what arrives at it, and what it sends."""

import re
from collections import Counter
from html import escape

import numpy as np

from tinytensor.utils.display.latex import rule_as_latex, split
from tinytensor.viz.arrays import Axes, Store, tag
from tinytensor.viz.expand_fused import definition
from tinytensor.viz.groups import base, is_view, local, word_for
from tinytensor.viz.record import UNKNOWN, Argument, BackwardTrace, Rule, Share, Step, Value
from tinytensor.viz.text import first_line, numbers, setting, shapes, why_now

HEADS, TOKENS = 8, 24  # the most heads and tokens of attention that are shown as tables


class Writer:
    """Writes the steps of a walkthrough as HTML."""

    def __init__(self, seen: BackwardTrace, tokens: tuple[list[str], list[str]] | None):
        self.seen, self.tokens, self.store = seen, tokens, Store()
        self.visits = {step: number for number, step in enumerate(seen.walked, 1)}
        self.scores = scores(seen, tokens)
        attending = [step for step in seen.steps if step in self.scores or attends(step)]
        self.heads = {step.shape[:2] for step in attending if len(step.shape) == 4}

    def forward(self, step: Step) -> str:
        """The step that computes a value."""
        parts = [self.equation(step), self.attention(step), tag("h3", "It reads")]
        for a in step.arguments:
            parts.append(self.argument(a, step))
        parts += [tag("h3", "It gives"), self.array(step.value, step)]
        return "".join(parts)

    def backward(self, step: Step) -> str:
        """The step in which the walk visits a node."""
        why = (
            why_now(step, self.seen, named, through)
            if step.part_of is None
            else f"it is a part of {step.part_of.op.name}"
        )
        parts = [tag("h3", "Why this node now"), tag("p", why[0].upper() + why[1:] + ".")]
        loss = names_of(step, self.seen).get("L", "L")
        parts += [tag("h3", f"The gradient arrives: g = ∂{loss}/∂{local(step.name, step.group)}"), self.sum(step)]
        parts += [tag("h3", f"The rule: {step.road}"), self.equation(step)]
        parts += [self.rule(rule, names_of(step, self.seen)) for rule in step.rules]
        parts.append(tag("h3", "It sends"))
        for share in step.sends:
            others = [s for s in share.target.shares if s.sender in self.visits and s is not share]
            before = [s for s in others if self.visits[s.sender] < self.visits[step]]
            parts.append(tag("p", f"to {through(share.target, step)}{self.use(share, step, 'for')}", "from"))
            parts.append(self.array(share.sent, share.target))
            if share.raw.shape != share.sent.shape:
                parts.append(tag("p", f"The rule gave {share.raw.shape}: summed over what broadcasting had repeated."))
            if before:
                there = " and ".join(f"{numbers(s.sent, 4)} from {named(s.sender)}" for s in before)
                parts.append(tag("p", f"It is added to the gradient there: {there}."))
        return "".join(parts) if step.sends else "".join([*parts, tag("p", "nothing")])

    def end(self) -> str:
        """The last step: the gradients of the leaves."""
        words = "All nodes have been visited, so nothing can arrive any more. backward() leaves these in .grad."
        parts = [tag("p", words)]
        for leaf in self.seen.leaves:
            parts.append(f'<section data-leaf="{escape(leaf.name)}">{tag("h3", f"{leaf.name}.grad")}{self.sum(leaf)}')
            if leaf.before is not None and leaf.gradient is not None:
                parts.append(
                    tag("p", f"{leaf.name}.grad holds {numbers(leaf.before)} already; backward() adds to that.")
                )
            parts.append("</section>")
        return "".join(parts)

    def array(self, array: np.ndarray | None, value: Value | None) -> str:
        """An array that belongs to a value (its numbers or its gradient), with the words of its rows and columns."""
        if array is None or value is None or array.ndim < 2:
            return self.store.array(array)
        viewed, (queries, keys) = base(value), self.tokens or ([], [])
        rows, columns, apart = [], [], []
        down, right = array.shape[-2:] if not turned(value) else array.shape[:-3:-1]
        if viewed in self.scores and (down, right) == (len(queries), len(keys)):
            rows, columns = queries, keys
        elif isinstance(viewed, Step) and self.tokens:
            rows = next((words for words in (queries, keys) if len(words) == down), [])
        rows, columns = (columns, rows) if turned(value) else (rows, columns)
        if array.ndim == 4 and array.shape[:2] in self.heads:
            B, H = array.shape[:2]
            apart = [f"head {h + 1}" + f" of sequence {b + 1}" * (B > 1) for b in range(B) for h in range(H)]
        return self.store.array(array, Axes(tuple(rows), tuple(columns), tuple(apart)))

    def equation(self, step: Step) -> str:
        declared = first_line(getattr(step.op, "equation", ""))
        names = names_of(step, self.seen)
        unknown = tag("p", "An autograd.Function of the user's: no equation is declared.")
        written = self.store.formula(renamed(declared, names)) if declared else unknown
        return written + (tag("p", words, "where") if (words := shapes(step, names)) else "")

    def argument(self, a: Argument, step: Step) -> str:
        if a.source is None and not isinstance(a.value, np.ndarray):
            return tag("p", f"{a.name}: {'not kept' if a.value is UNKNOWN else setting(a.value)}")
        value = a.value if isinstance(a.value, np.ndarray) else a.source.value
        constant = ", a constant" if a.source is None else ""
        called = through(a.source, step) if a.source is not None else a.called
        name = f"{a.name}: {called}" if called and called != a.name else a.name
        name = called if names_of(step, self.seen) else name
        return tag("p", f"{name}{constant}", "from") + self.array(value, a.source)

    def sum(self, value: Value) -> str:
        """The shares that arrived, one below the other, and their sum."""
        if value.gradient is None:
            return tag("p", "Nothing: no rule sent a gradient here.")
        terms = (
            []
            if value.seed is None
            else [("where the walk starts: the derivative of the result with respect to itself", value.seed)]
        )
        terms += [(f"from {named(s.sender)}{self.use(s, s.sender, 'for its')}", s.sent) for s in value.shares]
        rows = [
            f"<b>{'+' if i else ''}</b><div>{self.array(array, value)}{tag('span', words, 'from')}</div>"
            for i, (words, array) in enumerate(terms)
        ]
        if len(terms) > 1 or value.hooks:
            hooks = f"after {value.hooks} hook{'s' * (value.hooks > 1)}" if value.hooks else ""
            total = self.array(value.gradient, value)
            rows.append(f'<b>=</b><div class="total">{total}{tag("span", hooks, "from")}</div>')
        return f'<div class="sum">{"".join(rows)}</div>'

    def use(self, share: Share, step: Step, before: str) -> str:
        """Which argument of the operation a share is for, where the user's names do not say it."""
        clear = names_of(step, self.seen) and Counter(a.called for a in step.arguments)[share.target.name] == 1
        return "" if clear else f", {before} {share.argument}"

    def rule(self, rule: Rule, names: dict[str, str]) -> str:
        """A rule as formulas, with these names, and code; or as formulas alone where a kernel computes them."""
        latex = rule_as_latex(rule.source) if rule.source and not rule.formulas else None
        parts = [self.store.formula(renamed(each, names)) for each in rule.formulas or filter(None, [latex])]
        where = f"{rule.where}, computed by kernels" if rule.formulas and rule.where else rule.where
        if not rule.formulas:
            parts.append(tag("pre", rule.source or f"{rule.name}, whose source is in no file"))
            others = [
                f"{own} is your {name}"
                for own, name in names.items()
                if own != name and re.search(rf"\b{own}\b", rule.source)
            ]
            parts.append(tag("p", f"In this code {' and '.join(others)}.", "where") if others else "")
        parts.append(tag("p", where, "where") if where else "")
        read = [f"{name} = {setting(value)}" for name, value in rule.reads.items()]
        return "".join([*parts, tag("p", f"It reads {'; '.join(read)}.", "where") if read else ""])

    def attention(self, step: Step) -> str:
        """The weights of attention as tables: a row for each query, a column for each key, darker where larger."""
        weights = attention_weights(step, self.tokens)
        if weights is None:
            return ""
        queries, keys = self.tokens or ([], [])
        C, M = weights.shape[-2:]
        queries = queries if len(queries) == C else [str(i) for i in range(C)]
        keys = keys if len(keys) == M else [str(i) for i in range(M)]
        heads = weights.reshape(-1, C, M)
        parts = [tag("h3", "Its weights: how much each query (row) takes from each key (column)")]
        if C > TOKENS or M > TOKENS:
            return "".join(parts + [self.store.array(head) for head in heads[:HEADS]])
        parts.append('<div class="attention">')
        for i, head in enumerate(heads[:HEADS]):
            top = "".join(f'<th scope="col">{escape(key)}</th>' for key in keys)
            body = "".join(
                f'<tr><th scope="row">{escape(queries[q])}</th>'
                + "".join(f'<td style="--w:{w:.2f}">{f"{w:.2f}".lstrip("0") or "0"}</td>' for w in row)
                + "</tr>"
                for q, row in enumerate(head)
            )
            caption = f"head {i + 1}" if len(heads) > 1 else "weights"
            parts.append(f"<figure><table><tr><td></td>{top}</tr>{body}</table>{tag('figcaption', caption)}</figure>")
        more = tag("p", f"and {len(heads) - HEADS} more", "where") if len(heads) > HEADS else ""
        return "".join([*parts, "</div>", more])


def names_of(step: Step, seen: BackwardTrace) -> dict[str, str]:
    """The names in an operation's formulas -> the user's: its arguments, y and L; {} if a name has more than a letter.

    It is {} also where a name of the user means something else in the formulas: g, the gradient that arrives, or e.
    """
    names = {a.name: a.called for a in step.arguments}
    names |= {"y": local(step.name, step.group), "L": seen.result.name}
    plain = all(re.fullmatch(r"[^\W\d_]", name) and name not in "ge" for name in names.values())
    return names if plain else {}


def renamed(equation: str, names: dict[str, str]) -> str:
    """An equation in LaTeX with other names; its words stay."""
    parts = [
        text if words else re.sub(r"(?<![\\A-Za-z])[A-Za-z]+", lambda letters: names.get(letters[0], letters[0]), text)
        for text, words in split(equation)
    ]
    return " ".join(parts)


def named(step: Step) -> str:
    """A step where another step names it: a view by what reads it, behind all views."""
    passed = []
    while is_view(step) and len(step.consumers) == 1:
        passed.append(step.op.name.removesuffix("_view"))
        step = step.consumers[0]
    words = f" through {', '.join(passed)}" if passed else ""
    return f"{local(step.name, step.group)} ({step.op.name}){words}"


def through(value: Value, reader: Step | None) -> str:
    """A value by its name, and if it is a view without one, by its base's name and the views."""
    views, at = [], value
    while at.name != word_for(value):
        views.append(at.op.name.removesuffix("_view"))
        at = next(a.source for a in at.arguments if a.source is not None)
    name = local(at.name, (reader or value).group)
    return f"{name} through {', '.join(reversed(views))}" if views else name


def turned(value: Value) -> bool:
    """Does a view exchange the rows and the columns of its base's matrices?"""
    times = 0
    while is_view(value):
        dims = next((a.value for a in value.arguments if a.name == "dims"), None)
        if value.op.name == "permute" and isinstance(dims, tuple):
            times += tuple(dims[-2:]) == (len(dims) - 1, len(dims) - 2)
        value = next(a.source for a in value.arguments if a.source is not None)
    return times % 2 == 1


def attends(step: Step) -> bool:
    """Is it attention, or a part of its definition?"""
    return "attention" in (step.op.name, step.part_of.op.name if step.part_of else "")


def scores(seen: BackwardTrace, tokens: tuple[list[str], list[str]] | None) -> set[Value]:
    """The values with a row for each query and a column for each key: softmax's, and those beside it of its shape."""
    if tokens is None:
        return set()
    sizes = len(tokens[0]), len(tokens[1])
    todo: list[Value] = [s for s in seen.steps if s.shape[-2:] == sizes and ("softmax" in s.op.name or attends(s))]
    scored: set[Value] = set()
    while todo:
        value = todo.pop()
        scored.add(value)
        beside = [a.source for a in getattr(value, "arguments", ()) if isinstance(a.source, Step)] + value.consumers
        todo += [other for other in beside if other.shape == value.shape and other not in scored]
    return scored


def attention_weights(step: Step, tokens: tuple[list[str], list[str]] | None) -> np.ndarray | None:
    """The weights of a node that is attention: (heads, queries, keys), of the first sequence of a batch.

    The fused operation keeps none, so they come from its definition (unfolded, they are its only quotient). A softmax
    counts as attention if its last two dimensions are the numbers of tokens.
    """
    if step.op.name == "attention" and step.gradient is not None:
        inner = definition(step)
        products = [part for part in inner.steps if part.op.name == "matmul"] if inner is not None else []
        weights = products[-1].arguments[0].value if products else None
        return weights[0] if isinstance(weights, np.ndarray) and weights.ndim == 4 else None
    if step.op.name == "true_divide" and step.part_of is not None and step.part_of.op.name == "attention":
        return None if step.value is None else step.value[0]
    sizes = None if tokens is None else (len(tokens[0]), len(tokens[1]))
    if "softmax" in step.op.name and step.value is not None and step.value.ndim >= 2 and step.value.shape[-2:] == sizes:
        if step.op.name.startswith("log"):
            return None
        heads = step.value if step.value.ndim < 4 else step.value.reshape(-1, *step.value.shape[-3:])[0]
        return heads.reshape(-1, *sizes)
    return None

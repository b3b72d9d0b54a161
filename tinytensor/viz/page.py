"""`walkthrough(loss, "backward.html")`: one file that steps through forward and backward, a node at a time.

The page needs no network and no server: style, code, graph and data stand in the file, and a policy in its head forbids
it to load anything. Each step is a piece of HTML that is written here; `walkthrough.js` puts it into the panel,
highlights the graph, and turns arrays (each is stored once) into tables of numbers or heat maps. The page works from
the keyboard, announces its steps to screen readers, and prints as the list of all steps.
"""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.tools.typeset import mathml, rule_as_latex, split
from tinytensor.viz.drawing import Drawing
from tinytensor.viz.seen import UNKNOWN, Argument, Rule, Seen, Step, Value, definition, look, unfolded
from tinytensor.viz.text import call, first_line, number, numbers, setting, shapes, summary, visit, why_now

NUMBERS = 48  # up to so many numbers are written; more are a heat map
SIDE = 64  # the most rows and columns of a heat map; a larger array is sampled
SUMMED = 1 << 20  # with more numbers, only those shown are summarized: adding up all would take a while
HEADS, TOKENS = 8, 24  # the most heads and tokens of attention that are shown as tables

# ------------------------------------------------------------------------------------------------------- arrays


class Store:
    """The arrays and equations of a page: each is stored once, and shown by its number."""

    def __init__(self):
        self.arrays: list[dict] = []
        self.math: list[str] = []
        self._known: dict[object, int] = {}

    def array(self, array: np.ndarray | None) -> str:
        """HTML for the place of an array."""
        if array is None:
            return (
                '<p class="where">not kept on the tape: run the forward pass inside <code>watch()</code> to see it</p>'
            )
        key = (array.shape, array.dtype.str, array.tobytes() if array.dtype != object else id(array))
        if key not in self._known:
            self._known[key] = len(self.arrays)
            self.arrays.append(as_json(array))
        return f'<div class="array" data-array="{self._known[key]}"></div>'

    def formula(self, equation: str) -> str:
        """HTML for the place of an equation, which may have words in it."""
        if equation not in self._known:
            self._known[equation] = len(self.math)
            parts = [escape(text) if words else mathml(text) for text, words in split(equation)]
            self.math.append(" ".join(parts))
        return f'<div class="math" data-math="{self._known[equation]}"></div>'


def sample(array: np.ndarray) -> tuple[np.ndarray, str]:
    """An array as a matrix that fits a heat map, float64, and its range in words.

    The last dimension goes to the right, those before it go down. Of a large array only the shown numbers are read.
    """
    shape = array.shape if array.ndim > 1 else (1, array.size)
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    down, right = (np.unique(np.linspace(0, n - 1, min(n, SIDE)).round().astype(int)) for n in (rows, columns))
    places = np.unravel_index(down, shape[:-1])
    shown = array.reshape(shape)[(*(place[:, None] for place in places), right)].astype(np.float64)
    part = f"{len(down)} of {rows} rows and {len(right)} of {columns} columns are shown"
    if array.size > SUMMED:
        return shown, f"{part}: {summary(shown)}"
    return shown, summary(array) + (f"; {part}" if shown.size < array.size else "")


def as_json(array: np.ndarray) -> dict:
    """An array for the page: rows of numbers if they are few, else a byte for each (0 is NaN, 128 is 0)."""
    shape = "" if array.ndim == 0 else f"shape {array.shape}"
    if array.size <= NUMBERS or array.dtype.kind not in "fiub":
        rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
        return {"text": shape, "numbers": [[number(x) for x in row] for row in rows]}
    shown, words = sample(array)
    largest = float(np.nanmax(np.abs(np.where(np.isfinite(shown), shown, np.nan)), initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        bytes_ = np.where(np.isnan(shown), 0, 128 + np.clip(shown / largest, -1, 1) * 127).astype(np.uint8)
    return {
        "text": f"{shape}, {words}",
        "rows": shown.shape[0],
        "columns": shown.shape[1],
        "heat": b64encode(bytes_.tobytes()).decode(),
    }


# ------------------------------------------------------------------------------------------------- pieces of HTML


def tag(name: str, text: str, kind: str = "") -> str:
    """An element with text in it."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<{name}{attribute}>{escape(text)}</{name}>"


class Writer:
    """Writes the steps of a walkthrough as HTML."""

    def __init__(self, seen: Seen, tokens: tuple[list[str], list[str]] | None):
        self.seen, self.tokens, self.store = seen, tokens, Store()
        self.visits = {step: number for number, step in enumerate(seen.walked, 1)}

    def forward(self, step: Step, number: int) -> str:
        """The step that computes a value."""
        parts = [self.head(f"Forward, {number} of {len(self.seen.steps)}", call(step)), self.equation(step)]
        parts += [self.attention(step), tag("h3", "It reads")]
        for a in step.arguments:
            parts.append(self.argument(a))
        parts += [tag("h3", "It gives"), self.store.array(step.value)]
        return "".join(parts)

    def backward(self, step: Step, number: int) -> str:
        """The step in which the walk visits a node."""
        why = why_now(step, self.seen) if step.part_of is None else f"it is a part of {step.part_of.op.name}"
        parts = [self.head(f"Backward, {number} of {len(self.visits)}", call(step))]
        parts += [tag("h3", "Why this node now"), tag("p", why[0].upper() + why[1:] + ".")]
        parts += [tag("h3", f"The gradient arrives: g = ∂L/∂{step.name}"), self.sum(step)]
        parts += [tag("h3", f"The rule: {step.road}"), self.equation(step)]
        parts += [self.rule(rule) for rule in step.rules]
        parts.append(tag("h3", "It sends"))
        for share in step.sends:
            others = [s for s in share.target.shares if s.sender in self.visits and s is not share]
            before = [s for s in others if self.visits[s.sender] < number]
            parts.append(tag("p", f"to {share.target.name}, for {share.argument}", "from"))
            parts.append(self.store.array(share.sent))
            if share.given.shape != share.sent.shape:
                parts.append(
                    tag("p", f"The rule gave {share.given.shape}: summed over what broadcasting had repeated.")
                )
            if before:
                there = " and ".join(f"{numbers(s.sent, 4)} from {visit(s.sender)}" for s in before)
                parts.append(tag("p", f"It is added to the gradient there: {there}."))
        return "".join(parts) if step.sends else "".join([*parts, tag("p", "nothing")])

    def end(self) -> str:
        """The last step: the gradients of the leaves."""
        n = len(self.seen.leaves)
        parts = [self.head("The end", f"The gradients of {n} lea{'f' if n == 1 else 'ves'} are complete")]
        parts.append(
            tag("p", "All nodes have been visited, so nothing can arrive any more. backward() leaves these in .grad.")
        )
        for leaf in self.seen.leaves:
            parts.append(f'<section data-leaf="{escape(leaf.name)}">{tag("h3", f"{leaf.name}.grad")}{self.sum(leaf)}')
            if leaf.before is not None and leaf.gradient is not None:
                parts.append(
                    tag("p", f"{leaf.name}.grad holds {numbers(leaf.before)} already; backward() adds to that.")
                )
            parts.append("</section>")
        return "".join(parts)

    def head(self, phase: str, title: str) -> str:
        return tag("p", phase, "phase") + tag("h2", title)

    def equation(self, step: Step) -> str:
        declared = first_line(getattr(step.op, "equation", ""))
        if not declared:
            return tag("p", "An autograd.Function of the user's: no equation is declared.") + tag(
                "p", shapes(step), "where"
            )
        return self.store.formula(declared) + tag("p", shapes(step), "where")

    def argument(self, a: Argument) -> str:
        if a.source is None and not isinstance(a.value, np.ndarray):
            return tag("p", f"{a.name}: {'not kept' if a.value is UNKNOWN else setting(a.value)}")
        value = a.value if isinstance(a.value, np.ndarray) else a.source.value
        constant = ", a constant" if a.source is None else ""
        name = f"{a.name}: {a.called}" if a.called and a.called != a.name else a.name
        return tag("p", f"{name}{constant}", "from") + self.store.array(value)

    def sum(self, value: Value) -> str:
        """The shares that arrived, one below the other, and their sum."""
        if value.gradient is None:
            return tag("p", "Nothing: no rule sent a gradient here.")
        terms = (
            []
            if value.seed is None
            else [("where the walk starts: the derivative of the result by itself", value.seed)]
        )
        terms += [(f"from {visit(s.sender)}, for its {s.argument}", s.sent) for s in value.shares]
        rows = [
            f"<b>{'+' if i else ''}</b><div>{self.store.array(array)}{tag('span', words, 'from')}</div>"
            for i, (words, array) in enumerate(terms)
        ]
        if len(terms) > 1 or value.hooks:
            hooks = f"after {value.hooks} hook{'s' * (value.hooks > 1)}" if value.hooks else ""
            total = self.store.array(value.gradient)
            rows.append(f'<b>=</b><div class="total">{total}{tag("span", hooks, "from")}</div>')
        return f'<div class="sum">{"".join(rows)}</div>'

    def rule(self, rule: Rule) -> str:
        """A rule as formulas and code, or as formulas alone where a kernel computes them."""
        latex = rule_as_latex(rule.source) if rule.source and not rule.formulas else None
        parts = [self.store.formula(formula) for formula in rule.formulas or filter(None, [latex])]
        where = f"{rule.where}, computed by one kernel" if rule.formulas and rule.where else rule.where
        if not rule.formulas:
            parts.append(tag("pre", rule.source or f"{rule.name}, whose source is in no file"))
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


# ------------------------------------------------------------------------------------------------------- the page

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
BUTTONS = (
    ("first", "|◀", "To the first step (Home)"),
    ("back", "◀", "One step back (left arrow)"),
    ("next", "▶", "One step on (right arrow)"),
    ("end", "▶|", "To the end (End)"),
)


def page(drawing: Drawing, tokens: tuple[list[str], list[str]] | None, title: str) -> str:
    """The whole file."""
    seen, key = drawing.seen, drawing.key
    writer, n = Writer(seen, tokens), len(seen.steps)
    frames = [
        {"at": key[step], "title": f"Forward, {i} of {n}: {call(step)}", "html": writer.forward(step, i)}
        for i, step in enumerate(seen.steps, 1)
    ]
    for step, i in writer.visits.items():
        what = f"Backward, {i} of {len(writer.visits)}: {call(step)}; g = {numbers(step.gradient, 4)}"
        frames.append({"at": key[step], "title": what, "html": writer.backward(step, i), "backward": True})
    frames.append({"at": None, "title": "The end: the gradients of the leaves", "html": writer.end()})
    end = len(frames) - 1
    known = {
        key[step]: [i, n + writer.visits[step] - 1 if step in writer.visits else end]
        for i, step in enumerate(seen.steps)
    }
    known |= {key[leaf]: [0, end] for leaf in seen.leaves}
    data = {"frames": frames, "arrays": writer.store.arrays, "math": writer.store.math, "known": known, "turn": n}
    # A script has no escapes, so nothing in it may look like its end tag.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    files = resources.files("tinytensor.viz")
    style, code = ((files / f"walkthrough.{end}").read_text(encoding="utf-8") for end in ("css", "js"))
    buttons = [f'<button id="{name}" aria-label="{say}" title="{say}">{sign}</button>' for name, sign, say in BUTTONS]
    turn = '<button id="turn" class="wide" title="To the first step of the backward pass">backward</button>'
    svg = drawing.svg.replace('role="img"', 'role="img" focusable="false"', 1)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p>Arrow keys step; Home and End jump; a click on a box goes there.</p></header>
<main>
<section id="graph" aria-label="The graph" tabindex="0">{svg}</section>
<section id="panel" aria-label="This step" tabindex="0"></section>
<ol id="print"></ol>
</main>
<nav aria-label="Steps">{"".join(buttons[:2])}
<input id="slider" type="range" min="0" max="{end}" value="0" aria-label="Step">
{"".join(buttons[2:])}{turn}<output id="count" for="slider"></output></nav>
<p id="said" class="hidden" role="status" aria-live="polite"></p>
<noscript><p>This page steps with JavaScript, which is off here; explain(loss) prints the same as text.</p></noscript>
<script id="data" type="application/json">{text}</script>
<script>{code}</script>
</body>
</html>
"""


def walkthrough(
    loss: Tensor,
    path: str | Path,
    names: Module | Mapping[str, object] | None = None,
    tokens: Sequence[str] | tuple[Sequence[str], Sequence[str]] | None = None,
    gradient: Tensor | None = None,
    unfold: bool = False,
    title: str = "A backward pass, step by step",
) -> Path:
    """Write one HTML file that steps through the forward and the backward pass of `loss`; return its path.

    `tokens` are the labels of the axes of attention: one list, or a tuple of two, the queries' and the keys'.
    `names`, `gradient` and `unfold` are as for `draw`; the page shows what the engine did during this call, and nothing
    is changed. Run the forward pass inside `watch()` to see all values: the tape keeps only those that rules read.
    ModuleNotFoundError if grandalf or latex2mathml is missing (the viz extra).
    """
    seen = look(loss, names, gradient, "walkthrough")
    pair = None
    if tokens is not None:
        two = isinstance(tokens, tuple) and len(tokens) == 2 and not isinstance(tokens[0], str)
        pair = tuple([list(map(str, side)) for side in (tokens if two else (tokens, tokens))])
    text = page(Drawing(unfolded(seen) if unfold else seen), pair, title)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path

"""`draw(loss)`: the graph that backward() walks, with values, shapes and gradients, as DOT text, SVG and PNG.

Operations are boxes with corners, leaves are boxes with round ends, and the result has a thick frame; colours (safe for
colour blindness, after Okabe and Ito) repeat this. A line leads from a value down to each operation that reads it, one
for each use, as the data go; a gradient that is one number stands beside the line on which it comes back, with an arrow
up. The operations of a module have a frame, and views are names on the lines.
"""

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.native.platform.distribution import missing_package
from tinytensor.nn.module import Module
from tinytensor.viz import plots
from tinytensor.viz.expand_fused import expanded
from tinytensor.viz.groups import Use, is_view, local, uses, word_for
from tinytensor.viz.layout import smooth
from tinytensor.viz.record import BackwardTrace, Group, Leaf, Step, Value, chain
from tinytensor.viz.scene import Line, Scene, all_groups, arrange
from tinytensor.viz.text import argument, numbers
from tinytensor.viz.trace import look

LETTER = 7.3  # the width of a letter of the font, in pixels
LINE_HEIGHT = 17  # pixels from one line to the next
LONGEST = 34  # letters of a line in a box; longer lines are cut

STYLE = """
.tt-graph { --paper: #fff; --ink: #1d1f23; --soft: #5b616b; --op: #e3f0fa; --op-line: #0072b2; --leaf: #fdf3d6;
  --leaf-line: #b67c00; --back: #b33f00; --group: #7f8792;
  font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
@media (prefers-color-scheme: dark) { .tt-graph { --paper: #17191c; --ink: #e8eaed; --soft: #a3aab5; --op: #12303f;
  --op-line: #56b4e9; --leaf: #3a2f12; --leaf-line: #e6b040; --back: #ff9a57; --group: #7d8590; } }
.tt-graph .paper { fill: var(--paper); }
.tt-graph text { fill: var(--ink); text-anchor: middle; }
.tt-graph .call { font-weight: 700; }
.tt-graph .soft { fill: var(--soft); }
.tt-graph .gradient, .tt-graph .share { fill: var(--back); }
.tt-graph .share, .tt-graph .mark { font-size: 10px; text-anchor: start; paint-order: stroke; stroke: var(--paper);
  stroke-width: 3px; }
.tt-graph .mark { fill: var(--soft); font-style: italic; }
.tt-graph .op rect { fill: var(--op); stroke: var(--op-line); }
.tt-graph .leaf rect { fill: var(--leaf); stroke: var(--leaf-line); }
.tt-graph .fold rect { fill: var(--paper); stroke: var(--group); stroke-width: 2; }
.tt-graph .frame rect { fill: none; stroke: var(--group); stroke-dasharray: 2 3; }
.tt-graph .frame text { text-anchor: start; fill: var(--soft); font-weight: 700; }
.tt-graph .inner rect { stroke-dasharray: 5 3; }
.tt-graph .result rect { stroke-width: 3; }
.tt-graph path { fill: none; stroke: var(--soft); stroke-width: 1.3; }
.tt-graph .tip { fill: var(--soft); stroke: none; }
.tt-graph .up { display: none; }
"""
COLOURS = {"op": ("#e3f0fa", "#0072b2"), "leaf": ("#fdf3d6", "#b67c00")}  # for DOT and PNG, which have no CSS
SOFT, BACK = "#5b616b", "#b33f00"


def brief(array: np.ndarray | None) -> str:
    """A value in a few letters: its numbers, or its norm."""
    if array is None:
        return "…"
    if 0 < array.size <= 4 and len(written := numbers(array)) <= LONGEST - len(str(array.shape)):
        return written
    words = numbers(array, few=0).split(", ")[1:]  # without the shape, which stands beside it
    return next((w for w in words if w.startswith(("norm", "each")) or "NaN" in w), "")


def truncate(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def call(step: Step) -> str:
    """The computation: d = add(c, a). A view among the arguments may have the name of its base."""
    known = [a for a in step.arguments if a.called or isinstance(a.value, np.ndarray)]
    names = [word_for(a.source) if a.source else argument(a) for a in known]
    return f"{local(step.name, step.group)} = {step.op.name}({', '.join(local(n, step.group) for n in names)})"


def lines_of(value: Value) -> list[tuple[str, str]]:
    """The lines of a box, each with its kind: the call or name, shape and value, gradient."""
    name = local(value.name, value.group)
    if isinstance(value, Step):
        first = call(value) if len(call(value)) <= LONGEST else f"{name} = {value.op.name}(…)"
    else:
        first = name if len(name) <= LONGEST else "…" + name[1 - LONGEST :]
    shown = brief(value.value)
    rows = [("call", first), ("soft value", f"{value.shape or ''} {shown}".strip())]
    rows += [] if value.gradient is None else [("gradient", f"gradient {brief(value.gradient)}")]
    if isinstance(value, Step) and value.part_of is not None:
        rows.append(("soft", f"in {value.part_of.op.name}"))
    return [(css_class, truncate(row)) for css_class, row in rows]


def classes_of(value: Value | Group, seen: BackwardTrace) -> str:
    """The classes of a box."""
    if isinstance(value, Group):
        return "op fold"
    classes = ["leaf" if isinstance(value, Leaf) else "op"]
    classes += ["inner"] if isinstance(value, Step) and value.part_of is not None else []
    return " ".join(classes + (["result"] if value is seen.result else []))


def so_far(gradient: np.ndarray) -> str:
    """The text for a gradient to which more may be added."""
    return truncate(f"gradient so far {brief(gradient)}")


def number_back(use: Use) -> str:
    """The gradient that comes back to a source, if it is one number."""
    return brief(use.share.sent) if use.share is not None and use.share.sent.size == 1 else ""


class Drawing:
    """A graph, ready to be shown: it shows itself in a notebook; `dot` and `svg` are text; `save` writes a file.

    With `views` all views are boxes; else only the result and those with a name of the user's are.
    """

    def __init__(self, seen: BackwardTrace, views: bool = False, grows: bool = False):
        self.seen, self.grows = seen, grows
        self.values: list[Value] = [*seen.steps, *seen.leaves]
        self.key = {value: f"n{i}" for i, value in enumerate(self.values)}  # the boxes' names in DOT and SVG
        self.groups = all_groups(seen.steps)
        self.key |= {group: f"g{i}" for i, group in enumerate(self.groups)}
        self.views = views
        self._scene: Scene | None = None
        self._uses: dict[bool, list[Use]] = {}
        self._sizes: dict[Value | Group, tuple[float, float]] = {}

    def __repr__(self) -> str:
        return f"<drawing of {len(self.seen.steps)} operations and {len(self.seen.leaves)} leaves: .save('graph.svg')>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write the graph to a .svg, .png or .dot file; its folder is created."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".png":
            self._png(path)
        elif path.suffix in (".svg", ".dot"):
            path.write_text(self.svg if path.suffix == ".svg" else self.dot, encoding="utf-8")
        else:
            raise ValueError(f"save: expected a name that ends in .svg, .png or .dot, got {path.name!r}")
        return path

    # --- What is drawn

    def hidden(self, value: Value, views: bool | None = None) -> bool:
        """Is it a view that is drawn as a mark on a line?"""
        shown = self.views if views is None else views
        return not shown and is_view(value) and value is not self.seen.result and not value.named

    def scene(self, is_open: Callable[[Group], bool] = lambda group: True, views: bool | None = None) -> Scene:
        """The places of all boxes and lines with some of the groups open."""
        values = [value for value in self.values if not self.hidden(value, views)]
        return arrange(values, self.uses(views), self.seen.result, is_open, self.size)

    def uses(self, views: bool | None = None) -> list[Use]:
        """The lines between the values that are drawn."""
        shown = self.views if views is None else views
        if shown not in self._uses:
            self._uses[shown] = list(uses(self.seen, lambda value: self.hidden(value, shown)))
        return self._uses[shown]

    @property
    def whole(self) -> Scene:
        """The scene with all groups open; it is computed once."""
        self._scene = self._scene or self.scene()
        return self._scene

    def output(self, group: Group) -> Step:
        """The last operation of a group, whose result goes on."""
        return [step for step in self.seen.steps if group in chain(step.group)][-1]

    def rows(self, value: Value | Group) -> list[tuple[str, str]]:
        """The lines of text in a box; a closed group has those of its output."""
        if not isinstance(value, Group):
            return lines_of(value)
        n = sum(value in chain(step.group) and not is_view(step) for step in self.seen.steps)
        rows = [("call", f"▸ {local(value.path, value.parent)}"), ("soft", f"{n} operations")]
        return rows + [row for row in lines_of(self.output(value)) if row[0] in ("soft value", "gradient")]

    def size(self, value: Value | Group) -> tuple[float, float]:
        """The width and height of a box."""
        if value not in self._sizes:
            rows = self.rows(value)
            words = [text for _, text in rows]
            if self.grows:
                words += [so_far(g) for _, g in (self.output(value) if isinstance(value, Group) else value).sums()]
            gradients = sum(share.sent.size == 1 for share in getattr(value, "sends", ()))
            width = max(max(map(len, words)) * LETTER + 22, 58 * gradients)
            self._sizes[value] = width, len(rows) * LINE_HEIGHT + 12
        return self._sizes[value]

    @staticmethod
    def share(line: Line) -> str:
        """The gradient that comes back on a line, if it is one number."""
        return number_back(line.uses[0]) if len(line.uses) == 1 else ""

    # --- Pictures

    @property
    def dot(self) -> str:
        """The graph in the language of Graphviz; needs no library."""
        lines = ["digraph tape {", '  node [shape=box, fontname="monospace", style=filled];']
        for value in self.values:
            if self.hidden(value):
                continue
            label = "\\n".join(quoted(line) for _, line in lines_of(value))
            classes = classes_of(value, self.seen).split()
            fill, line = COLOURS[classes[0]]
            style = "filled,rounded" if "leaf" in classes else "filled,dashed" if "inner" in classes else "filled"
            thick = ", penwidth=3" if "result" in classes else ""
            box = f'{self.key[value]} [label="{label}", style="{style}", fillcolor="{fill}", color="{line}"{thick}];'
            groups = value.group.chain[::-1] if value.group else ()
            frames = [f'subgraph cluster_{self.key[g]} {{ label="{quoted(local(g.path, g.parent))}"; ' for g in groups]
            lines.append(f"  {''.join(frames)}{box}{' }' * len(frames)}")
        for use in self.uses():
            share = number_back(use)
            words = quoted(" ".join(filter(None, [use.mark, share and f"↑ {share}"])))
            label = f' [label="{words}"]' if words else ""
            lines.append(f"  {self.key[use.source]} -> {self.key[use.step]}{label};")
        return "\n".join([*lines, "}", ""])

    @property
    def svg(self) -> str:
        """The graph as SVG, with its style inside: light or dark, as the reader's screen."""
        scene = self.whole
        w, h = scene.width, scene.height
        label = f"{len(self.seen.steps)} operations and {len(self.seen.leaves)} leaves, the result lowest"
        parts = [
            f'<svg class="tt-graph" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h:.0f}" width="{w:.0f}" '
            f'height="{h:.0f}" role="img" aria-label="{label}">',
            f'<style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>',
        ]
        for group, box in scene.frames.items():
            left, top = box.x - box.width / 2, box.y - box.height / 2
            parts.append(
                f'<g class="frame" id="{self.key[group]}" transform="translate({left:.0f} {top:.0f})">'
                f'<rect width="{box.width:.0f}" height="{box.height:.0f}" rx="8"/>'
                f'<text x="10" y="17">{escape(local(group.path, group.parent))}</text></g>'
            )
        for line in scene.lines:
            path, tips, text = line_marks(line.points)
            share, mark = self.share(line), line.uses[0].mark
            x, y = text
            names = f"<title>{escape(line.uses[0].words)}</title>"
            words = f'<text class="mark" x="{x:.0f}" y="{y - 13:.0f}">{escape(mark)}{names}</text>' if mark else ""
            words += f'<text class="share" x="{x:.0f}" y="{y:.0f}">↑ {escape(share)}</text>' if share else ""
            parts.append(f'<g class="edge"><path d="{path}"/><path class="tip" d="{tips[0]}"/>{words}</g>')
        for value, box in scene.boxes.items():
            left, top = box.x - box.width / 2, box.y - box.height / 2
            parts.append(self.box(value).replace("<g ", f'<g transform="translate({left:.1f} {top:.1f})" ', 1))
        return "\n".join([*parts, "</svg>"])

    def box(self, value: Value | Group) -> str:
        """A box as SVG, with its left upper corner at the origin."""
        width, height = self.size(value)
        radius = min(14, height / 2) if isinstance(value, Leaf) else 8 if isinstance(value, Group) else 2
        rows = self.rows(value)
        text = "".join(
            f'<text class="{css_class}" x="{width / 2:.1f}" y="{19 + i * LINE_HEIGHT}">{escape(row)}</text>'
            for i, (css_class, row) in enumerate(rows)
        )
        return (
            f'<g class="{classes_of(value, self.seen)}" id="{self.key[value]}">'
            f"<title>{escape('; '.join(row for _, row in rows))}</title>"
            f'<rect width="{width:.1f}" height="{height:.1f}" rx="{radius}"/>{text}</g>'
        )

    def _png(self, path: Path) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
            from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
            from matplotlib.path import Path as Curve
        except ModuleNotFoundError:
            missing_package("matplotlib", "a PNG")
        scene = self.whole
        figure = Figure((scene.width / 100, scene.height / 100))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, scene.width), ylim=(scene.height, 0))
        axes.set_axis_off()
        words = {"family": "monospace", "parse_math": False}
        for group, box in scene.frames.items():
            corner = box.x - box.width / 2, box.y - box.height / 2
            frame = Rectangle(corner, box.width, box.height, fill=False, edgecolor=SOFT, linestyle=":", linewidth=1)
            axes.add_patch(frame)
            title = local(group.path, group.parent)
            axes.text(corner[0] + 10, corner[1] + 15, title, size=8, color=SOFT, weight="bold", **words)
        for line in scene.lines:
            curves = [point for curve in smooth(line.points) for point in curve]
            codes = [Curve.MOVETO, *[Curve.CURVE4] * len(curves)]
            axes.add_patch(PathPatch(Curve([line.points[0], *curves], codes), fill=False, color=SOFT, lw=1))
            x, y = line.points[-1]
            axes.fill([x, x - 4, x + 4], [y, y - 8, y - 8], color=SOFT, lw=0)
            share = self.share(line)
            axes.text(x + 5, y - 9, share and f"↑ {share}", size=6.5, color=BACK, **words)
            axes.text(x + 5, y - 22, line.uses[0].mark, size=6.5, color=SOFT, style="italic", **words)
        for value, box in scene.boxes.items():
            classes = classes_of(value, self.seen).split()
            fill, line = COLOURS[classes[0]]
            corner = (box.x - box.width / 2 + 4, box.y - box.height / 2 + 4)
            rounding = 12 if "leaf" in classes else 2
            axes.add_patch(
                FancyBboxPatch(
                    *(corner, box.width - 8, box.height - 8),
                    boxstyle=f"round,pad=4,rounding_size={rounding}",
                    facecolor=fill,
                    edgecolor=line,
                    linewidth=2.5 if "result" in classes else 1,
                    linestyle="--" if "inner" in classes else "-",
                )
            )
            for i, (css_class, row) in enumerate(lines_of(value)):
                weight = "bold" if i == 0 else "normal"
                y = box.y - box.height / 2 + 15 + i * LINE_HEIGHT
                style = {"size": 8.4, "weight": weight, "color": BACK if css_class == "gradient" else "#1d1f23"} | words
                axes.text(box.x, y, row, ha="center", va="center", **style)
        boxes = "; ".join(lines_of(value)[0][1] for value in self.values)
        plots.save(figure, path, f"The graph of a backward pass, with the boxes: {boxes}", dpi=150)


def quoted(text: str) -> str:
    """Text inside the quotation marks of a DOT file."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def line_marks(points: list[tuple[float, float]]) -> tuple[str, tuple[str, str], tuple[float, float]]:
    """A line as SVG: its path, its two heads (at the reader, at the source), and the place of the text beside it."""
    (x, y), (u, v) = points[0], points[-1]
    path = f"M{x:.0f} {y:.0f}" + "".join(
        "C" + " ".join(f"{a:.0f} {b:.0f}" for a, b in curve) for curve in smooth([*points[:-1], (u, v - 6)])
    )
    return path, (f"M{u:.0f} {v:.0f}l-4 -8h8z", f"M{x:.0f} {y:.0f}l-4 8h8z"), (u + 5, v - 9)


def draw(
    loss: Tensor,
    names: Module | Mapping[str, object] | None = None,
    gradient: Tensor | None = None,
    unfold: bool = False,
    views: bool = False,
) -> Drawing:
    """The graph that `loss.backward()` walks: operations, leaves, shapes, values and gradients.

    With `unfold` a fused operation (attention, a layer norm) is drawn as its definition in simpler ones, with dashed
    frames; the gradients in them are those of the definition, and equal the others up to rounding. Values that the tape
    did not keep are three dots, unless the forward pass ran inside `watch()`; then the operations of each module have a
    frame, too. Views (a transposition, a slice) are names on the lines, or boxes with `views`. `names` and `gradient`
    are as for `explain`, and nothing is changed either. ModuleNotFoundError if SVG or PNG lack a library (`dot` needs
    none).
    """
    seen = look(loss, names, gradient, "draw")
    return Drawing(expanded(seen) if unfold else seen, views)

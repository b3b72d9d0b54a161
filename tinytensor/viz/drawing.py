"""`draw(loss)`: the graph that backward() walks, with values, shapes and gradients, as DOT text, SVG and PNG.

Operations are boxes with corners, leaves are boxes with round ends, and the result has a thick frame; colours (safe for
colour blindness, after Okabe and Ito) repeat this. A line leads from a value down to each operation that reads it, one
for each use; a gradient that is one number stands beside the line on which it comes back.
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.tools.extras import need
from tinytensor.viz.layout import Box, Layout, layout, smooth
from tinytensor.viz.seen import Leaf, Seen, Step, Value, look, unfolded
from tinytensor.viz.text import argument, numbers

LETTER = 7.3  # the width of a letter of the font, in pixels
LINE_HEIGHT = 17  # pixels from one line to the next
LONGEST = 34  # letters of a line in a box; longer lines are cut

STYLE = """
.tt-graph { --paper: #fff; --ink: #1d1f23; --soft: #5b616b; --op: #e3f0fa; --op-line: #0072b2; --leaf: #fdf3d6;
  --leaf-line: #b67c00; font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
@media (prefers-color-scheme: dark) { .tt-graph { --paper: #17191c; --ink: #e8eaed; --soft: #a3aab5; --op: #12303f;
  --op-line: #56b4e9; --leaf: #3a2f12; --leaf-line: #e6b040; } }
.tt-graph .paper { fill: var(--paper); }
.tt-graph text { fill: var(--ink); text-anchor: middle; }
.tt-graph .call { font-weight: 700; }
.tt-graph .soft, .tt-graph .share { fill: var(--soft); }
.tt-graph .share { font-size: 10px; text-anchor: start; paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
.tt-graph .op rect { fill: var(--op); stroke: var(--op-line); }
.tt-graph .leaf rect { fill: var(--leaf); stroke: var(--leaf-line); }
.tt-graph .inner rect { stroke-dasharray: 5 3; }
.tt-graph .result rect { stroke-width: 3; }
.tt-graph path { fill: none; stroke: var(--soft); stroke-width: 1.3; }
.tt-graph .tip { fill: var(--soft); stroke: none; }
.tt-graph .up { display: none; }
"""
COLOURS = {"op": ("#e3f0fa", "#0072b2"), "leaf": ("#fdf3d6", "#b67c00")}  # for DOT and PNG, which have no CSS


def brief(array: np.ndarray | None) -> str:
    """A value in a few letters: its numbers, or its norm."""
    if array is None:
        return "…"
    if 0 < array.size <= 4 and len(written := numbers(array)) <= LONGEST - len(str(array.shape)):
        return written
    words = numbers(array, few=0).split(", ")[1:]  # without the shape, which stands beside it
    return next((w for w in words if w.startswith(("norm", "each")) or "NaN" in w), "")


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def lines_of(value: Value) -> list[tuple[str, str]]:
    """The lines of a box, each with its kind: the call or name, shape and value, gradient."""
    if isinstance(value, Step):
        known = [a for a in value.arguments if a.called or isinstance(a.value, np.ndarray)]
        first = f"{value.name} = {value.op.name}({', '.join(argument(a) for a in known)})"
        first = first if len(first) <= LONGEST else f"{value.name} = {value.op.name}(…)"
    else:
        first = value.name if len(value.name) <= LONGEST else "…" + value.name[1 - LONGEST :]
    shown = brief(value.value)
    rows = [("call", first), ("soft value", f"{value.shape} {shown}" if shown else f"{value.shape}")]
    rows += [] if value.gradient is None else [("soft gradient", f"∂ {brief(value.gradient)}")]
    if isinstance(value, Step) and value.part_of is not None:
        rows.append(("soft", f"in {value.part_of.op.name}"))
    return [(kind, cut(row)) for kind, row in rows]


def kind_of(value: Value, seen: Seen) -> str:
    """The classes of a box."""
    kinds = ["leaf" if isinstance(value, Leaf) else "op"]
    kinds += ["inner"] if isinstance(value, Step) and value.part_of is not None else []
    return " ".join(kinds + (["result"] if value is seen.result else []))


class Drawing:
    """A graph, ready to be shown: it shows itself in a notebook; `dot` and `svg` are text; `save` writes a file."""

    def __init__(self, seen: Seen):
        self.seen = seen
        self.values: list[Value] = [*seen.steps, *seen.leaves]
        self.key = {value: f"n{i}" for i, value in enumerate(self.values)}  # the boxes' names in DOT and SVG
        self.edges = [(a.source, step, i) for step in seen.steps for i, a in enumerate(step.arguments) if a.source]
        self.shares = {(share.sender, share.place): share for step in seen.steps for share in step.sends}
        self._layout: Layout | None = None

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

    @property
    def dot(self) -> str:
        """The graph in the language of Graphviz; needs no library."""
        lines = ["digraph tape {", '  node [shape=box, fontname="monospace", style=filled];']
        for value in self.values:
            label = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for _, line in lines_of(value))
            kinds = kind_of(value, self.seen).split()
            fill, line = COLOURS[kinds[0]]
            style = "filled,rounded" if "leaf" in kinds else "filled,dashed" if "inner" in kinds else "filled"
            thick = ", penwidth=3" if "result" in kinds else ""
            lines.append(
                f'  {self.key[value]} [label="{label}", style="{style}", fillcolor="{fill}", color="{line}"{thick}];'
            )
        for source, step, i in self.edges:
            label = f' [label="{share}"]' if (share := self.share(step, i)) else ""
            lines.append(f"  {self.key[source]} -> {self.key[step]}{label};")
        return "\n".join([*lines, "}", ""])

    def share(self, step: Step, place: int) -> str:
        """The gradient that a step sent to one of its arguments, if it is one number."""
        share = self.shares.get((step, place))
        return brief(share.sent) if share is not None and share.sent.size == 1 else ""

    @property
    def layout(self) -> Layout:
        """The places of all boxes and lines; computed once."""
        if self._layout is None:
            boxes = {}
            for value in self.values:
                lines = lines_of(value)
                labels = 58 * sum(bool(self.share(value, i)) for i in range(len(getattr(value, "arguments", ()))))
                boxes[value] = Box(
                    max(max(len(row) for _, row in lines) * LETTER + 22, labels), len(lines) * LINE_HEIGHT + 12
                )
            edges = [(source, step) for source, step, _ in self.edges]
            self._layout = layout(boxes, edges, self.seen.result)
        return self._layout

    @property
    def svg(self) -> str:
        """The graph as SVG, with its style inside: light or dark, as the reader's screen."""
        place = self.layout
        w, h = place.width, place.height
        label = f"{len(self.seen.steps)} operations and {len(self.seen.leaves)} leaves, the result lowest"
        parts = [
            f'<svg class="tt-graph" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h:.0f}" width="{w:.0f}" '
            f'height="{h:.0f}" role="img" aria-label="{label}">',
            f'<style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>',
        ]
        for (source, step, i), points in zip(self.edges, place.lines, strict=True):
            parts.append(self._line(source, step, i, points))
        parts += [self._box(value, place.boxes[value]) for value in self.values]
        return "\n".join([*parts, "</svg>"])

    def _line(self, source: Value, step: Step, i: int, points: list[tuple[float, float]]) -> str:
        (x, y), (u, v) = points[0], points[-1]
        path = f"M{x:.1f} {y:.1f}" + "".join(
            "C" + " ".join(f"{a:.1f} {b:.1f}" for a, b in curve) for curve in smooth([*points[:-1], (u, v - 6)])
        )
        share = escape(self.share(step, i))
        text = f'<text class="share" x="{u + 5:.1f}" y="{v - 9:.1f}">{share}</text>' if share else ""
        return (
            f'<g class="edge" data-from="{self.key[source]}" data-to="{self.key[step]}" data-place="{i}">'
            f'<path d="{path}"/><path class="tip" d="M{u:.1f} {v:.1f}l-4 -8h8z"/>'
            f'<path class="tip up" d="M{x:.1f} {y:.1f}l-4 8h8z"/>{text}</g>'
        )

    def _box(self, value: Value, box: Box) -> str:
        left, top = box.x - box.width / 2, box.y - box.height / 2
        radius = min(14, box.height / 2) if isinstance(value, Leaf) else 2
        rows = lines_of(value)
        title = escape("; ".join(row for _, row in rows))
        text = "".join(
            f'<text class="{kind}" x="{box.x:.1f}" y="{top + 19 + i * LINE_HEIGHT:.1f}">{escape(row)}</text>'
            for i, (kind, row) in enumerate(rows)
        )
        return (
            f'<g class="{kind_of(value, self.seen)}" id="{self.key[value]}"><title>{title}</title>'
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius}"/>'
            f"{text}</g>"
        )

    def _png(self, path: Path) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
            from matplotlib.patches import FancyBboxPatch, PathPatch
            from matplotlib.path import Path as Line
        except ModuleNotFoundError:
            need("matplotlib", "a PNG")
        place = self.layout
        figure = Figure((place.width / 100, place.height / 100))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, place.width), ylim=(place.height, 0))
        axes.set_axis_off()
        for (_, step, i), points in zip(self.edges, place.lines, strict=True):
            curves = [point for curve in smooth(points) for point in curve]
            codes = [Line.MOVETO, *[Line.CURVE4] * len(curves)]
            axes.add_patch(PathPatch(Line([points[0], *curves], codes), fill=False, color="#5b616b", lw=1))
            x, y = points[-1]
            axes.fill([x, x - 4, x + 4], [y, y - 8, y - 8], color="#5b616b", lw=0)
            axes.text(x + 5, y - 9, self.share(step, i), size=6.5, family="monospace", color="#5b616b")
        for value, box in place.boxes.items():
            kinds = kind_of(value, self.seen).split()
            fill, line = COLOURS[kinds[0]]
            corner = (box.x - box.width / 2 + 4, box.y - box.height / 2 + 4)
            rounding = 12 if "leaf" in kinds else 2
            axes.add_patch(
                FancyBboxPatch(
                    *(corner, box.width - 8, box.height - 8),
                    boxstyle=f"round,pad=4,rounding_size={rounding}",
                    facecolor=fill,
                    edgecolor=line,
                    linewidth=2.5 if "result" in kinds else 1,
                    linestyle="--" if "inner" in kinds else "-",
                )
            )
            for i, (_, row) in enumerate(lines_of(value)):
                weight = "bold" if i == 0 else "normal"
                y = box.y - box.height / 2 + 15 + i * LINE_HEIGHT
                style = {"size": 8.4, "family": "monospace", "weight": weight, "parse_math": False}
                axes.text(box.x, y, row, ha="center", va="center", color="#1d1f23", **style)
        figure.savefig(path, dpi=150)


def draw(
    loss: Tensor,
    names: Module | Mapping[str, object] | None = None,
    gradient: Tensor | None = None,
    unfold: bool = False,
) -> Drawing:
    """The graph that `loss.backward()` walks: operations, leaves, shapes, values and gradients.

    With `unfold` a fused operation (attention, a layer norm) is drawn as its definition in simpler ones, with dashed
    frames; the gradients in them are those of the definition, and equal the others up to rounding. Values that the tape
    did not keep are three dots, unless the forward pass ran inside `watch()`. `names` and `gradient` are as for
    `explain`, and nothing is changed either. ModuleNotFoundError if SVG or PNG lack a library (`dot` needs none).
    """
    seen = look(loss, names, gradient, "draw")
    return Drawing(unfolded(seen) if unfold else seen)

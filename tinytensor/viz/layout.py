"""The places of the boxes of a graph, and the lines between them.

The layers, the order within each and the places are found by grandalf, a small library in plain Python (the viz extra
installs it). It was chosen because it works wherever Python does: pygraphviz, the wheel with Graphviz itself, loads X11
and GLib from the system on import, which a bare machine lacks, and other packages have binaries for some machines only.
It takes the sizes of boxes into account, and needs a twentieth of a second for 250 of them.

The layers are counted from the result, so a parameter stands right above the operation that reads it, and not at the
top beside all others. Sizes are in pixels, y goes down.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tinytensor.tools.extras import need

BETWEEN = 26  # pixels from one box to its neighbour
LAYER = 48  # pixels from one layer to the next
FALL = 21  # the last pixels of a line lead straight down, so that it does not cross the text beside its end


@dataclass
class Box:
    """A box with its centre and its size."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0


@dataclass
class Layout:
    """Boxes by key, and for each edge the points of its line, from the lower end of one box to the top of another."""

    boxes: dict[Hashable, Box]
    lines: list[list[tuple[float, float]]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


def layout(boxes: dict[Hashable, Box], edges: Sequence[tuple[Hashable, Hashable]], bottom: Hashable) -> Layout:
    """Place the boxes so that each edge leads down, and `bottom`, to which all lead, stands lowest.

    Edges between the same two boxes run side by side.
    """
    placed = Layout(boxes)
    routes = _sugiyama(boxes, dict.fromkeys(edges), bottom) if len(boxes) > 1 else {}
    low = max(box.y + box.height / 2 for box in boxes.values())
    for box in boxes.values():
        box.y = low - box.y  # grandalf has put the result on top
    ends = _side_by_side(boxes, edges)
    leaving = Counter()
    alike = Counter(edges)
    for edge, arrives in zip(edges, ends, strict=True):
        source, target = boxes[edge[0]], boxes[edge[1]]
        aside = (leaving[edge] - (alike[edge] - 1) / 2) * min(24.0, source.width / (alike[edge] + 1))
        leaving[edge] += 1
        middle = [(x + aside, low - y) for x, y in reversed(routes[edge])]
        start = (source.x + aside, source.y + source.height / 2)
        top = target.y - target.height / 2
        placed.lines.append([start, *middle, (arrives, top - FALL), (arrives, top)])
    left = min([box.x - box.width / 2 for box in boxes.values()] + [x for line in placed.lines for x, _ in line])
    right = max([box.x + box.width / 2 for box in boxes.values()] + [x for line in placed.lines for x, _ in line])
    top = min(box.y - box.height / 2 for box in boxes.values())
    bottom_end = max(box.y + box.height / 2 for box in boxes.values())
    for box in boxes.values():
        box.x, box.y = box.x - left + BETWEEN, box.y - top + BETWEEN
    placed.lines = [[(x - left + BETWEEN, y - top + BETWEEN) for x, y in line] for line in placed.lines]
    placed.width, placed.height = right - left + 2 * BETWEEN, bottom_end - top + 2 * BETWEEN
    return placed


def _side_by_side(boxes: dict[Hashable, Box], edges: Sequence[tuple[Hashable, Hashable]]) -> list[float]:
    """The point where each edge arrives at the top of its box: side by side, in the order of the edges' origins."""
    arriving: dict[Hashable, list[int]] = {}
    for i, (_, target) in enumerate(edges):
        arriving.setdefault(target, []).append(i)
    ends = [0.0] * len(edges)
    for target, numbers in arriving.items():
        numbers.sort(key=lambda i: boxes[edges[i][0]].x)
        step = min(58.0, boxes[target].width / len(numbers))
        for place, i in enumerate(numbers):
            ends[i] = boxes[target].x + (place - (len(numbers) - 1) / 2) * step
    return ends


def _sugiyama(boxes: dict[Hashable, Box], edges: dict, top: Hashable) -> dict[tuple, list[tuple[float, float]]]:
    """Place the boxes with `top` on top; returns the bends of each edge in the layers between its boxes."""
    try:
        from grandalf.graphs import Edge, Graph, Vertex
        from grandalf.layouts import SugiyamaLayout, VertexViewer
    except ModuleNotFoundError:
        need("grandalf", "a drawing")
    vertices = {}
    for key, box in boxes.items():
        vertices[key] = Vertex(key)
        vertices[key].view = VertexViewer(box.width, box.height)
    lines = {edge: Edge(vertices[edge[1]], vertices[edge[0]]) for edge in edges}
    for line in lines.values():
        line.view = _Bends()
    (component,) = Graph(list(vertices.values()), list(lines.values())).C
    sugiyama = SugiyamaLayout(component)
    sugiyama.xspace, sugiyama.yspace = BETWEEN, LAYER
    sugiyama.init_all(roots=[vertices[top]], inverted_edges=[])  # a tape has no circle
    sugiyama.draw(3)
    for key, box in boxes.items():
        box.x, box.y = vertices[key].view.xy
    bends = {edge: [Box(BETWEEN / 2, 0, x, y) for x, y in line.view.points[1:-1]] for edge, line in lines.items()}
    _push_apart([*boxes.values(), *(bend for line in bends.values() for bend in line)])
    return {edge: [(bend.x, bend.y) for bend in line] for edge, line in bends.items()}


def _push_apart(boxes: Iterable[Box]) -> None:
    """Make room between the boxes and lines of a layer: grandalf lets them overlap if their widths differ much."""
    rows: dict[float, list[Box]] = {}
    for box in boxes:
        rows.setdefault(box.y, []).append(box)
    for row in rows.values():
        row.sort(key=lambda box: box.x)
        before = sum(box.x for box in row)
        for left, box in pairwise(row):
            box.x = max(box.x, left.x + (left.width + box.width) / 2 + BETWEEN)
        moved = (sum(box.x for box in row) - before) / len(row)
        for box in row:
            box.x -= moved


class _Bends:
    """Holds the points of an edge, written by grandalf."""

    points: Sequence[tuple[float, float]] = ()

    def setpath(self, points: Sequence[tuple[float, float]]) -> None:
        self.points = list(points)


def smooth(points: Sequence[tuple[float, float]]) -> list[tuple[tuple[float, float], ...]]:
    """A line through the points that leaves and arrives vertically: Bézier curves, two handles and an end each."""
    curves = []
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (y1 - y0) / 2
        curves.append(((x0, y0 + half), (x1, y1 - half), (x1, y1)))
    return curves

"""The places of the boxes of a graph, and the lines between them.

The layers, the order within each and the places are found by grandalf, a library in plain Python (of the viz extra),
which takes the sizes of boxes into account.

The layers are counted from the result, so a parameter stands right above the operation that reads it, and not at the
top beside all others. Sizes are in pixels, y goes down.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tinytensor.native.platform.distribution import missing_package

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
    tall = _heights(boxes.values())
    fed = {target for source, target in edges if boxes[source].height}
    for key, box in boxes.items():
        if key not in fed:  # what nothing leads to stands near its reader, beside a taller box too
            box.y += (tall[box.y] - box.height) / 2
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
        for rank, i in enumerate(numbers):
            ends[i] = boxes[target].x + (rank - (len(numbers) - 1) / 2) * step
    return ends


def _sugiyama(boxes: dict[Hashable, Box], edges: dict, top: Hashable) -> dict[tuple, list[tuple[float, float]]]:
    """Place the boxes with `top` on top; returns the bends of each edge in the layers between its boxes."""
    try:
        from grandalf.graphs import Edge, Graph, Vertex
        from grandalf.layouts import SugiyamaLayout, VertexViewer
    except ModuleNotFoundError:
        missing_package("grandalf", "a drawing")
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
    _straighten(boxes, bends)
    tall = _heights(boxes.values())
    ends = -0.5, 0.5  # beside the boxes of a layer a line runs straight
    return {e: [(b.x, b.y + end * tall.get(b.y, 0.0)) for b in line for end in ends] for e, line in bends.items()}


def _heights(boxes: Iterable[Box]) -> dict[float, float]:
    """The height of the tallest box of each layer, by the place of the layer."""
    tall: dict[float, float] = {}
    for box in boxes:
        tall[box.y] = max(tall.get(box.y, 0.0), box.height)
    return tall


def _straighten(boxes: dict[Hashable, Box], bends: dict[tuple, list[Box]], rounds: int = 12) -> None:
    """Move boxes and bends sideways within their layers: to the middle of their neighbours, without overlaps.

    grandalf has found the order within each layer. Its places do not know how much the widths differ; here wide boxes
    stay, and what hangs at them moves.
    """
    fed = {target for _, target in bends}
    pulls: dict[int, list[tuple[Box, float]]] = {}
    rows: dict[float, list[Box]] = {}
    for (source, target), line in bends.items():
        # From the target up to the source. A leaf follows its reader, and hardly the other way round.
        for low, high in pairwise([boxes[target], *line, boxes[source]]):
            straight = 4.0 if low in line and high in line else 1.0
            pulls.setdefault(id(low), []).append((high, straight if source in fed else 0.05))
            pulls.setdefault(id(high), []).append((low, straight))
    for box in [*boxes.values(), *(bend for line in bends.values() for bend in line)]:
        rows.setdefault(box.y, []).append(box)
    for row in rows.values():
        row.sort(key=lambda box: box.x)
    order = [rows[y] for y in sorted(rows)]
    for turn in range(rounds):
        for row in order if turn % 2 == 0 else reversed(order):
            wanted = []
            for box in row:
                near = pulls.get(id(box), [])
                total = sum(w for _, w in near)
                wanted.append(sum(other.x * w for other, w in near) / total if near else box.x)
            _place(row, wanted)


def _place(row: list[Box], wanted: list[float]) -> None:
    """Put the boxes of a layer as near to the wanted places as their order and widths allow (least squares)."""
    gaps = [0.0, *((a.width + b.width) / 2 + BETWEEN for a, b in pairwise(row))]
    offsets = [sum(gaps[: i + 1]) for i in range(len(row))]
    blocks: list[list[float]] = []  # place, weight, number of boxes: boxes that touch move together
    for box, x, offset in zip(row, wanted, offsets, strict=True):
        blocks.append([x - offset, box.width, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            x1, w1, n1 = blocks.pop()
            x0, w0, n0 = blocks.pop()
            blocks.append([(x0 * w0 + x1 * w1) / (w0 + w1), w0 + w1, n0 + n1])
    centers = [x for x, _, n in blocks for _ in range(int(n))]
    for box, x, offset in zip(row, centers, offsets, strict=True):
        box.x = x + offset


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

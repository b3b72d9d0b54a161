"""A picture of a graph with some of its groups open: the places of boxes, of the frames around groups, and of lines.

Each open group is laid out by itself, between its inputs above and its output below, and then stands as one large box
in the layout around it. So the boxes of a group stay together, and a line enters its frame at the top and leaves it at
the bottom.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tinytensor.viz.groups import Use
from tinytensor.viz.layout import Box, layout
from tinytensor.viz.record import Group, Step, Value, chain

Point = tuple[float, float]
TITLE = 26  # pixels at the top of a frame, for its name
ABOVE, BELOW = "above", "below"  # where lines come from and go to outside of a group


@dataclass
class Line:
    """A line, and the uses that run along it: several if they lead into or out of a closed group."""

    points: list[Point]
    uses: list[Use]


@dataclass
class Scene:
    """The places in a picture. A closed group has a box, an open one has a frame."""

    boxes: dict[Value | Group, Box]
    frames: dict[Group, Box]
    lines: list[Line]
    width: float
    height: float


@dataclass
class _Part:
    """The layout inside a group, or of the whole picture; `paths` are the pieces of lines that run in it."""

    boxes: dict[Value | Group, Box]
    frames: dict[Group, Box]
    paths: dict[Use, list[Point]]
    width: float
    height: float

    def moved(self, x: float, y: float) -> "_Part":
        def move(boxes: dict) -> dict:
            return {key: replace(box, x=box.x + x, y=box.y + y) for key, box in boxes.items()}

        paths = {use: [(u + x, v + y) for u, v in path] for use, path in self.paths.items()}
        return _Part(move(self.boxes), move(self.frames), paths, self.width, self.height)


def arrange(
    values: Iterable[Value],
    uses: Iterable[Use],
    result: Value,
    is_open: Callable[[Group], bool],
    size: Callable[[Value | Group], tuple[float, float]],
) -> Scene:
    """Lay out these values and the uses between them; a group is drawn as its box, or if it is open, with its inside.

    `size` gives the width and the height of a box, with everything that is written in it.
    """
    values, uses = list(values), list(uses)
    around = {value: chain(value.group)[::-1] for value in values}  # the outermost group first
    whole = _inside(None, 0, around, uses, result, is_open, size)
    lines: dict[tuple, Line] = {}
    for use in uses:
        if use in whole.paths:
            path = whole.paths[use]
            lines.setdefault(tuple(path), Line(path, [])).uses.append(use)
    return Scene(whole.boxes, whole.frames, list(lines.values()), whole.width, whole.height)


def _inside(
    group: Group | None,
    depth: int,
    around: dict[Value, tuple[Group, ...]],
    uses: list[Use],
    result: Value,
    is_open: Callable[[Group], bool],
    size: Callable[[Value | Group], tuple[float, float]],
) -> _Part:
    """The layout inside a group that has `depth` groups around it and itself, or of the whole (None, 0)."""

    def stands_for(value: Value) -> Value | Group | None:
        """The box in this group that is the value, or has it inside; None if the value is outside."""
        groups = around[value]
        if group is not None and (len(groups) < depth or groups[depth - 1] is not group):
            return None
        return groups[depth] if len(groups) > depth else value

    members = dict.fromkeys(box for value in around if (box := stands_for(value)) is not None)
    parts = {
        inner: _inside(inner, depth + 1, around, uses, result, is_open, size)
        for inner in members
        if isinstance(inner, Group) and is_open(inner)
    }
    boxes = {}
    for box in members:
        w, h = size(box)
        boxes[box] = Box(max(parts[box].width, w), parts[box].height + TITLE) if box in parts else Box(w, h)

    # A line for each use; one for all uses that lead from one closed group, or into one.
    keys: dict[Use, tuple] = {}
    for use in uses:
        a, b = stands_for(use.source), stands_for(use.step)
        if a is not b:
            a, b = ABOVE if a is None else a, BELOW if b is None else b
            together = b is BELOW or (isinstance(b, Group) and b not in parts) or isinstance(a, Group)
            keys[use] = (a, b) if together else (a, b, use)
    unique = list(dict.fromkeys(keys.values()))
    edges: list[tuple] = [(key[0], key[1]) for key in unique]
    for outside in (ABOVE, BELOW):
        if any(outside in edge for edge in edges):
            boxes[outside] = Box(1.0, 0.0)
    if ABOVE in boxes:  # it stands above all
        fed = {b for _, b in edges}
        edges += [(ABOVE, box) for box in members if box not in fed]
    placed = layout(boxes, edges, BELOW if BELOW in boxes else stands_for(result))
    real = [box for key, box in placed.boxes.items() if key not in (ABOVE, BELOW)]
    top = min(box.y - box.height / 2 for box in real) - 14
    bottom = max(box.y + box.height / 2 for box in real) + 14
    if group is None:
        top, bottom = 0.0, placed.height
    routes = {}
    for key, line in zip(unique, placed.lines, strict=False):
        if key[0] == ABOVE:
            line = [(line[1][0], top), *line[1:]]
        if key[1] == BELOW:
            line = [*line[:-2], (line[-3][0], bottom)]
        routes[key] = [(x, y - top) for x, y in line]
    found = {key: replace(box, y=box.y - top) for key, box in placed.boxes.items() if key not in (ABOVE, BELOW)}

    whole = _Part({}, {}, {}, placed.width, bottom - top)
    for box, place in found.items():
        if box not in parts:
            whole.boxes[box] = place
            continue
        left = place.x - parts[box].width / 2
        parts[box] = part = parts[box].moved(left, place.y - place.height / 2 + TITLE)
        whole.frames |= {box: place} | part.frames
        whole.boxes |= part.boxes
        whole.paths |= part.paths
    for use, key in keys.items():
        path = routes[key]
        if key[0] in parts:  # it goes on where it has left the frame
            path = [*parts[key[0]].paths[use], *path[1:]]
        if key[1] in parts:
            path = [*path[:-2], *parts[key[1]].paths[use]]
        whole.paths[use] = path
    return whole


def all_groups(steps: Iterable[Step]) -> list[Group]:
    """The groups of these steps, the outer ones before those in them."""
    return list(dict.fromkeys(group for step in steps for group in chain(step.group)[::-1]))

"""A picture of a graph with some of its groups open: the places of boxes, of the frames around groups, and of lines.

Each open group is laid out by itself, between its inputs above and its output below, and then stands as one large box
in the layout around it. So the boxes of a group stay together, and a line enters its frame at the top and leaves it at
the bottom.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tinytensor.viz.groups import Use
from tinytensor.viz.layout import Box, layout
from tinytensor.viz.record import Group, Step, Value, chain

Point = tuple[float, float]
TITLE = 26  # pixels at the top of a frame, for its name
MARGIN = 14  # pixels between a frame and the boxes in it
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
    uses = list(uses)
    around = {value: chain(value.group)[::-1] for value in values}  # the outermost group first
    whole = _Plan(around, uses, result, is_open, size).inside(None, 0)
    lines: dict[tuple, Line] = {}
    for use in uses:
        if use in whole.paths:
            path = whole.paths[use]
            lines.setdefault(tuple(path), Line(path, [])).uses.append(use)
    return Scene(whole.boxes, whole.frames, list(lines.values()), whole.width, whole.height)


@dataclass
class _Plan:
    """What is laid out: see `arrange`; `around` has the groups around each value."""

    around: dict[Value, tuple[Group, ...]]
    uses: list[Use]
    result: Value
    is_open: Callable[[Group], bool]
    size: Callable[[Value | Group], tuple[float, float]]

    def stands_for(self, value: Value, group: Group | None, depth: int) -> Value | Group | None:
        """The box in a group that is the value, or has it inside; None if the value is outside of the group."""
        groups = self.around[value]
        if group is not None and (len(groups) < depth or groups[depth - 1] is not group):
            return None
        return groups[depth] if len(groups) > depth else value

    def inside(self, group: Group | None, depth: int) -> _Part:
        """The layout inside a group (`depth` counts it and those around it), or of the whole (None, 0)."""
        drawn = (self.stands_for(value, group, depth) for value in self.around)
        members = dict.fromkeys(box for box in drawn if box is not None)
        parts = {g: self.inside(g, depth + 1) for g in members if isinstance(g, Group) and self.is_open(g)}
        boxes = {}
        for box in members:
            w, h = self.size(box)
            boxes[box] = Box(max(parts[box].width, w), parts[box].height + TITLE) if box in parts else Box(w, h)
        keys = self.keys(group, depth, parts)
        routes, top, bottom, width = self.routes(boxes, list(dict.fromkeys(keys.values())), group, depth)

        whole = _Part({}, {}, {}, width, bottom - top)
        for box in members:
            frame = replace(boxes[box], y=boxes[box].y - top)
            if box not in parts:
                whole.boxes[box] = frame
                continue
            left = frame.x - parts[box].width / 2
            parts[box] = part = parts[box].moved(left, frame.y - frame.height / 2 + TITLE)
            whole.frames |= {box: frame} | part.frames
            whole.boxes |= part.boxes
            whole.paths |= part.paths
        for use, key in keys.items():
            path = [(x, y - top) for x, y in routes[key]]
            if key[0] in parts:  # it goes on where it has left the frame
                path = [*parts[key[0]].paths[use], *path[1:]]
            if key[1] in parts:
                path = [*path[:-2], *parts[key[1]].paths[use]]
            whole.paths[use] = path
        return whole

    def keys(self, group: Group | None, depth: int, parts: Mapping[Group, _Part]) -> dict[Use, tuple]:
        """The line in this group on which each use runs, by its ends.

        Each use has its own line, but those that lead from one group, into a closed one, or out have one together.
        """
        keys: dict[Use, tuple] = {}
        for use in self.uses:
            a, b = self.stands_for(use.source, group, depth), self.stands_for(use.step, group, depth)
            if a is not b:
                a, b = ABOVE if a is None else a, BELOW if b is None else b
                together = b is BELOW or (isinstance(b, Group) and b not in parts) or isinstance(a, Group)
                keys[use] = (a, b) if together else (a, b, use)
        return keys

    def routes(
        self, boxes: dict, keys: list[tuple], group: Group | None, depth: int
    ) -> tuple[dict[tuple, list[Point]], float, float, float]:
        """Place the boxes; the points of each line, the top and the bottom of all of it, and its width."""
        edges: list[tuple] = [(key[0], key[1]) for key in keys]
        fed = {b for _, b in edges}
        members = list(boxes)
        for outside in (ABOVE, BELOW):
            if any(outside in edge for edge in edges):
                boxes[outside] = Box(1.0, 0.0)
        if ABOVE in boxes:  # it stands above all
            edges += [(ABOVE, box) for box in members if box not in fed]
        lowest = BELOW if BELOW in boxes else self.stands_for(self.result, group, depth)
        placed = layout(boxes, edges, lowest)
        top, bottom = 0.0, placed.height
        if group is not None:
            top = min(boxes[box].y - boxes[box].height / 2 for box in members) - MARGIN
            bottom = max(boxes[box].y + boxes[box].height / 2 for box in members) + MARGIN
        routes = {}
        for key, line in zip(keys, placed.lines, strict=False):  # the last edges are no lines
            line = [(line[1][0], top), *line[1:]] if key[0] == ABOVE else line
            routes[key] = [*line[:-2], (line[-3][0], bottom)] if key[1] == BELOW else line
        return routes, top, bottom, placed.width


def all_groups(steps: Iterable[Step]) -> list[Group]:
    """The groups of these steps, the outer ones before those in them."""
    return list(dict.fromkeys(group for step in steps for group in chain(step.group)[::-1]))

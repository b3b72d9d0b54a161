"""`walkthrough(loss, "backward.html")`: one file that steps through forward and backward, a node at a time.

The page needs no network and no server: style, code, graph and data stand in the file, and a policy in its head forbids
it to load anything. Each step is a piece of HTML that `steps.py` writes; `walkthrough.js` puts it into the panel, and
turns arrays (each is stored once) into tables of numbers or heat maps; `walkthrough_graph.js` draws and lights the
graph. The page works from the keyboard, announces its steps to screen readers, and prints as the list of all steps.

The places of all boxes are computed here, once for each group that may be open (with those around it) and once with all
groups open, each without views and with them: the page has no layout of its own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.viz.drawing import STYLE, Drawing, brief, call, line_marks, number_back, so_far
from tinytensor.viz.expand_fused import expanded
from tinytensor.viz.groups import is_view, local
from tinytensor.viz.record import Step, chain
from tinytensor.viz.scene import Scene
from tinytensor.viz.steps import Writer
from tinytensor.viz.text import numbers
from tinytensor.viz.trace import look

FEW = 40  # so many boxes are shown with all groups open; of more, the reader opens one group after the other

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(drawing: Drawing, tokens: tuple[list[str], list[str]] | None, title: str) -> str:
    """The whole file."""
    writer = Writer(drawing.seen, tokens)
    data = steps(drawing, writer) | graph(drawing) | {"arrays": writer.store.arrays, "math": writer.store.math}
    # A script has no escapes, so nothing in it may look like its end tag.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028")
    files = resources.files("tinytensor.viz")
    names = ("walkthrough.css", "walkthrough_graph.js", "walkthrough.js")
    style, *code = ((files / name).read_text(encoding="utf-8") for name in names)
    return Template((files / "walkthrough.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        style=STYLE + style,
        policy=POLICY,
        hint="a click on a box goes there, or opens it (▸)" if drawing.groups else "a click on a box goes there",
        label=f"{len(drawing.seen.steps)} operations and {len(drawing.seen.leaves)} leaves, the result lowest",
        data=text,
        code="\n".join(code),
    )


def steps(drawing: Drawing, writer: Writer) -> dict:
    """The frames, from the first operation to the end, and what is known of each value at which of them."""
    seen, key = drawing.seen, drawing.key
    n, walked = len(seen.steps), seen.walked
    end = n + len(walked)
    visit = {step: n + i for i, step in enumerate(walked)}
    frames: list[dict] = [{"at": key[s], "what": call(s), "html": writer.forward(s)} for s in seen.steps]
    for step in walked:
        what = f"{call(step)}; g = {numbers(step.gradient, 4)}"
        frames.append({"at": key[step], "what": call(step), "said": what, "html": writer.backward(step)})
    leaves = f"The gradients of {len(seen.leaves)} lea{'f' if len(seen.leaves) == 1 else 'ves'} are complete"
    frames.append({"at": None, "what": leaves, "html": writer.end()})
    for frame, step in zip(frames, (*seen.steps, *walked), strict=False):
        if step.group:
            frame["group"] = step.group.path

    values = {}
    for i, value in enumerate(drawing.values):
        complete = visit.get(value, end)
        sums = [[visit[share.sender], so_far(g)] for share, g in value.sums() if share is not None]
        sums += [] if value.gradient is None else [[complete, f"gradient {brief(value.gradient)}"]]
        values[key[value]] = {
            "known": [i if isinstance(value, Step) else 0, complete],
            "sums": sums,
            "groups": [key[group] for group in chain(value.group)[::-1]],
            "view": drawing.hidden(value, views=False),
        }
    return {"frames": frames, "turn": n, "values": values}


def graph(drawing: Drawing) -> dict:
    """The boxes, and their places and the lines in each scene: with views and without, for each group that is open."""
    key, groups, n = drawing.key, drawing.groups, len(drawing.seen.steps)
    visit = {step: n + i for i, step in enumerate(drawing.seen.walked)}
    scenes: dict[str, dict] = {}
    uses: dict[str, list] = {}
    for views in ("", "views") if any(map(is_view, drawing.seen.steps)) else ("",):
        shown = drawing.uses(bool(views))
        sent = [-1 if use.share is None else visit[use.share.sender] for use in shown]
        uses[views] = [
            [key[use.source], key[use.step], when, number_back(use), use.mark, use.words]
            for use, when in zip(shown, sent, strict=True)
        ]
        number = {use: i for i, use in enumerate(shown)}
        scenes[views] = {"all": _bounds(drawing.scene(views=bool(views)), drawing, number)}
        for group in (None, *groups) if groups else ():
            scene = drawing.scene(chain(group).__contains__, bool(views))
            scenes[views][key[group] if group else ""] = _bounds(scene, drawing, number)
    outer = [group for group in groups if group.parent is None]
    first = key[outer[0]] if len(outer) == 1 else ""
    titles = {
        key[group]: {
            "path": group.path,
            "title": local(group.path, group.parent),
            "parent": key[group.parent] if group.parent else "",
            "output": key[drawing.output(group)],
        }
        for group in groups
    }
    return {
        "boxes": {key[value]: drawing.box(value) for value in (*drawing.values, *groups)},
        "groups": titles,
        "uses": uses,
        "scenes": scenes,
        "open": "all" if not groups or len(scenes[""]["all"]["boxes"]) <= FEW else first,
    }


def _bounds(scene: Scene, drawing: Drawing, number: dict) -> dict:
    """A scene as numbers."""

    def rows(boxes: dict) -> list[list]:
        bounds = {k: (b.x - b.width / 2, b.y - b.height / 2, b.width, b.height) for k, b in boxes.items()}
        return [[drawing.key[k], *map(round, box)] for k, box in bounds.items()]

    lines = []
    for line in scene.lines:
        path, tips, text = line_marks(line.points)
        lines.append([path, *tips, *map(round, text), [number[use] for use in line.uses]])
    return {
        "size": [round(scene.width), round(scene.height)],
        "boxes": rows(scene.boxes),
        "frames": rows(scene.frames),
        "lines": lines,
    }


def words_of(tokens: object) -> tuple[list[str], list[str]] | None:
    """The words of the queries and of the keys."""
    if tokens is None:
        return None
    two = isinstance(tokens, tuple) and len(tokens) == 2 and not isinstance(tokens[0], str)
    sides = tokens if two else (tokens, tokens)
    for side in sides:
        if isinstance(side, str) or not isinstance(side, Iterable):
            raise TypeError(
                "walkthrough: tokens must be a list of words, or a tuple of two lists (queries, keys), got "
                f"{type(side).__name__}"
            )
    queries, keys = ([str(word) for word in side] for side in sides)
    return queries, keys


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

    `tokens` are the words at the rows and columns of attention: one list, or a tuple of two, the queries' and the
    keys'. `names`, `gradient` and `unfold` are as for `draw`; the page shows what the engine did during this call, and
    nothing is changed. Run the forward pass inside `watch()` to see all values (the tape keeps only those that rules
    read), and to see the operations of each module as one box, which opens. The address of the page follows its steps:
    a link to `backward.html#step=12` leads to the twelfth. TypeError for names, tokens or a title of another kind;
    ModuleNotFoundError if grandalf or latex2mathml is missing (the viz extra).
    """
    pair = words_of(tokens)
    if not isinstance(title, str):
        raise TypeError(f"walkthrough: title must be a string, got {type(title).__name__}")
    seen = look(loss, names, gradient, "walkthrough")
    text = page(Drawing(expanded(seen) if unfold else seen, grows=True), pair, title)
    path = Written(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


class Written(type(Path())):
    """The path of a page, which a notebook shows."""

    def _repr_html_(self) -> str:
        frame = 'style="width: 100%; height: 40rem; border: 0" title="A backward pass, step by step"'
        return f'<iframe {frame} srcdoc="{escape(self.read_text(encoding="utf-8"))}"></iframe>'

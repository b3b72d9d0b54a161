"""Plots in one style: curves, heat maps, attention, the residual stream.

Each function returns a figure of matplotlib, which `save` writes, and `show` writes and shows in a notebook. Plots can
be read without seeing colours: lines also differ in their dashes, heat maps go from dark to light, and where the sign
of a number matters the two ends are blue and red, which no common kind of colour blindness confuses.

A picture says in words what it shows, for readers who do not see it: `show(figure, path, alt="...")`. Without `alt` the
words are those of the figure itself: its titles, the names of its axes and curves (`describe`). The PNG file carries
them, as its "Description".

matplotlib (the extra `viz`) is loaded when the first figure is made; it needs no screen and opens no
window.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.native.platform.distribution import install

# Okabe and Ito's colours (2008), without yellow, which is too pale for lines; neighbours differ in lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", "-.", ":", "-", "--", "-.")
GRID = "#dddddd"
SEQUENTIAL, SIGNED = "viridis", "RdBu_r"  # for numbers from 0 on; for numbers of both signs, 0 in the middle

Numbers = Tensor | np.ndarray | Sequence


class Picture:
    """A file with a picture, which a notebook shows; `alt` says in words what the picture shows."""

    def __init__(self, path: Path, alt: str = ""):
        self.path, self.alt = path, alt

    def __repr__(self):
        return f"Picture({str(self.path)!r})"

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict[str, object], dict[str, object]]:
        """The picture and its alternative text, in the words of Jupyter's messages."""
        data = {"image/png": self.path.read_bytes(), "text/plain": self.alt or repr(self)}
        return data, {"image/png": {"alt": self.alt}}


DARK = False  # with True, `save` also writes the picture for dark pages: 01.png, and beside it 01.dark.png
ON_DARK = {  # the colours of a figure, those of `draw` too, and what takes their place on a dark page
    "#ffffff": "#131416",
    "#000000": "#e8eaed",
    "#262626": "#e8eaed",
    "#1d1f23": "#e8eaed",
    "#5b616b": "#a3aab5",
    "#cccccc": "#444950",
    "#e3f0fa": "#12303f",
    "#fdf3d6": "#3a2f12",
    "#b67c00": "#e6b040",
    "#b33f00": "#ff9a57",
    GRID: "#33373d",
    **dict(zip(map(str.lower, COLOURS), ("#4aa8e0", "#ff8f4a", "#2fc79b", "#e3a3c6", "#a5d8f5", "#f2b632"))),
}


def save(figure, path: str | Path, alt: str = "", dpi: int = 120) -> Picture:
    """Write a figure to a PNG file with its description: `alt`, or the words of the figure itself."""
    path = Path(path)
    words = {"Software": None, "Description": alt or describe(figure)}  # no version: the same picture, the same file
    with warnings.catch_warnings():  # letters that the font lacks are drawn as boxes
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(path, dpi=dpi, metadata=words)
        if DARK:
            with _recoloured(figure):
                figure.savefig(path.with_suffix(f".dark{path.suffix}"), dpi=dpi, metadata=words)
    return Picture(path, words["Description"])


def show(figure, path: str | Path, alt: str = "") -> Picture:
    """Write a figure, create its folder, and print its path; as the last line of a cell, a notebook shows it, too.

    `alt` says in a sentence what one sees, for readers who do not see it; without it, `describe` does.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    print(f"picture: {path}")
    return save(figure, path, alt)


def describe(figure) -> str:
    """The words of a figure: for each panel its title, the names of its axes, its curves, rows and columns."""
    title = figure.get_suptitle() if hasattr(figure, "get_suptitle") else ""
    panels = [words for panel in figure.axes if (words := _words(panel))]
    written = [text.get_text() for text in figure.texts if text.get_text() and text.get_text() != title]
    return ". ".join([*filter(None, [title]), *panels, *written])


def _words(panel) -> str:
    """What a panel says about itself; "" for the bar of a colour scale."""
    if panel.get_label() == "<colorbar>":
        return ""
    names = [name for name in panel.get_legend_handles_labels()[1] if name]
    noun = "heat map" if panel.images else "plot"
    parts = [f"{noun}: {panel.get_title()}" if panel.get_title() else noun]
    parts += [f"{axis} axis: {name}" for axis in "xy" if (name := getattr(panel, f"get_{axis}label")())]
    if panel.images:
        for side, labels in (("rows", panel.get_yticklabels()), ("columns", panel.get_xticklabels())):
            called = [label.get_text() for label in labels if label.get_text()]
            parts += [f"{side}: {' '.join(called)}"] if called else []
    parts += [f"curves: {', '.join(dict.fromkeys(names))}"] if names else []
    return "; ".join(parts)


@contextmanager
def _recoloured(figure) -> Iterator[None]:
    """The figure in the colours of dark pages, for a while. What stands on a coloured ground keeps its colour."""
    from matplotlib.colors import to_hex, to_rgba

    ground = [p for p in figure.axes if p.images or any(getattr(c, "filled", False) for c in p.collections)]
    kept = {each for panel in ground for each in (*panel.texts, *panel.lines, *panel.collections)}
    before = []
    for artist in set(figure.findobj()) - kept:
        for property_name in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
            if not hasattr(artist, f"set_{property_name}") or not hasattr(artist, f"get_{property_name}"):
                continue
            old = getattr(artist, f"get_{property_name}")()
            try:
                colour = to_rgba(np.squeeze(old) if isinstance(old, np.ndarray) else old)
            except (ValueError, TypeError):  # several colours, or none
                continue
            new = ON_DARK.get(to_hex(colour).lower())
            if new is not None and colour[3] > 0:  # what is transparent, as the frame of a scale, stays so
                before.append((getattr(artist, f"set_{property_name}"), old))
                getattr(artist, f"set_{property_name}")(new)
    try:
        yield
    finally:
        for change, old in reversed(before):
            change(old)


def panels(rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.4, 3.8)):
    """A new figure of `size` inches and its panels, an array (rows, columns) of matplotlib's axes.

    ImportError with what to install if there is no matplotlib.
    """
    try:
        from matplotlib import cycler, rc_context
        from matplotlib.figure import Figure
    except ImportError as e:
        raise ImportError(f"plots need matplotlib: {install('viz')}") from e
    style = {
        "axes.prop_cycle": cycler(color=COLOURS, linestyle=DASHES),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "axes.titlesize": "medium",
        "axes.labelsize": "medium",
        "xtick.labelsize": "small",
        "ytick.labelsize": "small",
    }
    with rc_context(style):  # panels keep the style they are made with; other plots do not change
        figure = Figure(figsize=size, layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False)


def array(values: Numbers) -> np.ndarray:
    """The numbers as an array, taken off the tape."""
    return values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)


def lines(panel, x: Numbers, curves: Mapping[str, Numbers], **style) -> None:
    """One curve for each name over the same x, with a legend; `style` is passed to matplotlib's plot."""
    for name, y in curves.items():
        panel.plot(array(x), array(y), label=name, **style)
    panel.legend(frameon=False, fontsize="small")


def heat(
    panel,
    values: Numbers,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    signed: bool = False,
    numbers: bool = False,
    bounds: tuple[float, float] | None = None,
):
    """The matrix `values` (rows, columns) as a heat map; returns the image that `figure.colorbar` takes.

    `rows` and `columns` are labels, `numbers` writes each value into its field. Unless there are `bounds`, colours go
    from 0 to the largest value; with `signed` from minus the largest magnitude to it, so that 0 is white.
    """
    values = array(values)
    most = float(np.max(np.abs(values), initial=0.0)) or 1.0
    low, high = bounds or ((-most if signed else min(0.0, float(np.min(values)))), most)
    shown = panel.imshow(values, cmap=SIGNED if signed else SEQUENTIAL, vmin=low, vmax=high, aspect="auto")
    panel.grid(False)
    # A label may be a token, and a token may be "$", which would begin a formula.
    if columns is not None:
        panel.set_xticks(range(len(columns)), columns, parse_math=False)
    if rows is not None:
        panel.set_yticks(range(len(rows)), rows, parse_math=False)
    if numbers:
        for (i, j), value in np.ndenumerate(values):
            dark = np.mean(shown.to_rgba(value)[:3]) < 0.5
            panel.text(j, i, f"{value:.2f}", ha="center", va="center", size=7, color="white" if dark else "black")
    return shown


def loss(rows: Sequence[Mapping], baselines: Mapping[str, float] | None = None, unit: str = "nats per token"):
    """The loss over the steps, training and held out, with other models' losses as level lines.

    `rows` has "step" and "loss" of each step, and "heldout_loss" where it was measured.
    """
    figure, [[panel]] = panels(size=(6.4, 4.4))
    panel.plot([r["step"] for r in rows], [r["loss"] for r in rows], label="training", linewidth=1)
    held = [(r["step"], r["heldout_loss"]) for r in rows if r.get("heldout_loss") is not None]
    if held:
        panel.plot(*zip(*held, strict=True), "o-", label="held out", markersize=4)
    for i, (name, value) in enumerate((baselines or {}).items()):
        style = {"color": COLOURS[(i + 2) % len(COLOURS)], "linestyle": (0, (4, 1 + i))}
        panel.axhline(value, linewidth=1.2, label=f"{name} ({value:.3f})", **style)
    panel.set(xlabel="step", ylabel=unit, title="loss")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")  # clear of all lines
    return figure


def attention(maps: Numbers, rows: Sequence[str], columns: Sequence[str]):
    """The attention weights `maps` (layers, heads, rows, columns), a field for each layer and head.

    Row i says how the i-th token spreads its attention over the tokens of the columns, and sums to 1. All fields share
    one scale of colours, from 0 to 1.
    """
    maps = array(maps)
    L, H, n, m = maps.shape
    style = {"fontsize": 6 if max(n, m) > 16 else 8, "family": "monospace"}
    high, wide = (max(1.4, min(4.0, 0.2 * side)) for side in (n, m))
    figure, grid = panels(L, H, size=(wide * H + 1.2, high * L + 0.6))
    for (layer, head), panel in np.ndenumerate(grid):
        labels = rows if head == 0 else [""] * n, columns if layer == L - 1 else [""] * m
        shown = heat(panel, maps[layer, head], *labels, bounds=(0.0, 1.0))
        panel.set_aspect("equal")
        panel.set_title(f"layer {layer + 1}, head {head + 1}", fontsize="small")
        panel.tick_params(axis="x", labelrotation=90)
        for label in [*panel.get_xticklabels(), *panel.get_yticklabels()]:
            label.set(**style)
    figure.colorbar(shown, ax=grid, label="attention weight", aspect=30)
    return figure


def stream(entries: Sequence[tuple[str, Numbers, Numbers]], words: Mapping[str, Sequence[str]]):
    """What each sublayer writes into the residual stream of document 002, for each word.

    `entries` holds (name, the stream before the sublayer, the stream after it), (words, d_model) each, from the first
    sublayer to the last, named as "decoder.0.attention". `words` has the labels of the columns for each part of the
    model, which is the beginning of the names. On the left is the length of the sublayer's addition, divided by that of
    the stream after it; on the right the cosine of the stream with the embedding that it began with: how much of it is
    left.
    """
    most = max(sum(name.startswith(part) for name, *_ in entries) for part in words)
    figure, grid = panels(len(words), 2, size=(11, (1.4 + 0.45 * most) * len(words)))
    titles = ("length of the addition / length of the stream", "cosine of the stream with its embedding")
    for row, (part, labels) in zip(grid, words.items()):
        sublayers = [(name, array(before), array(after)) for name, before, after in entries if name.startswith(part)]
        first = sublayers[0][1]  # (words, d_model)
        called = [_sublayer(name[len(part) :].lstrip(".")) for name, *_ in sublayers]
        written = [_length(after - before) / _length(after) for _, before, after in sublayers]
        kept = [(after * first).sum(-1) / (_length(after) * _length(first)) for _, _, after in sublayers]
        for panel, values, title, signed in zip(row, (written, kept), titles, (False, True)):
            bounds = (-1.0, 1.0) if signed else (0.0, max(1.0, float(np.max(values))))
            shown = heat(panel, np.stack(values), called, labels, signed=signed, numbers=True, bounds=bounds)
            panel.invert_yaxis()  # the first sublayer is below
            panel.set_title(f"{part}: {title}", fontsize="small")
            figure.colorbar(shown, ax=panel)
    figure.suptitle("the residual stream, from the first sublayer (below) to the last (above)", fontsize="medium")
    return figure


def _sublayer(name: str) -> str:
    """ "0.attention" as people count: "stack 1, attention"."""
    stack, _, sublayer = name.partition(".")
    return f"stack {int(stack) + 1}, {sublayer}" if stack.isdigit() else name


def _length(x: np.ndarray) -> np.ndarray:
    return np.sqrt((x * x).sum(-1))

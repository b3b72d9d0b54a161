"""The plots: they show the numbers they are given, in colours and dashes that can be told apart."""

import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

import tinytensor as tt
from tinytensor.native.platform.distribution import install
from tinytensor.viz import plots

ROWS = [{"step": i, "loss": 3 / (i + 1), "heldout_loss": 1.0 if i % 2 else None} for i in range(6)]
MAPS = np.full((2, 3, 4, 5), 0.2)


def entries():
    before, after = tt.ones(3, 4), tt.ones(3, 4) * 2
    return [(f"{part}.0.attention", before, after) for part in ("encoder", "decoder")]


FIGURES = {
    "loss": lambda: plots.loss(ROWS, {"bigram": 2.0, "$trigram": 1.5}),
    "attention": lambda: plots.attention(MAPS, ["$", "b", "c", "d"], list("vwxyz")),
    "stream": lambda: plots.stream(entries(), {"encoder": list("abc"), "decoder": list("$yz")}),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_reproducible(name, tmp_path, capsys):
    for file in ("a.png", "b.png"):
        shown = plots.show(FIGURES[name](), tmp_path / "new" / file, alt="two curves that fall")
        assert capsys.readouterr().out == f"picture: {tmp_path / 'new' / file}\n"
        data, metadata = shown._repr_mimebundle_()
        assert data["image/png"].startswith(b"\x89PNG")
        assert metadata == {"image/png": {"alt": "two curves that fall"}}
    assert len({(tmp_path / "new" / file).read_bytes() for file in ("a.png", "b.png")}) == 1


def test_loss_plot_shows_the_measured_values():
    figure = plots.loss(ROWS, {"bigram": 2.0})
    (panel,), (legend,) = figure.axes, figure.legends
    training, held, bigram = panel.lines
    assert training.get_ydata() == pytest.approx([r["loss"] for r in ROWS])
    assert list(held.get_xdata()) == [1, 3, 5]
    assert set(bigram.get_ydata()) == {2.0}
    assert [text.get_text() for text in legend.get_texts()] == ["training", "held out", "bigram (2.000)"]


def stands_clear(figure, legend) -> bool:
    """Does a legend lie inside its figure and outside of all panels, with their labels?"""
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    (left, below), (right, above) = figure.bbox.get_points()
    inside = left <= box.x0 and below <= box.y0 and box.x1 <= right and box.y1 <= above
    return inside and not any(box.overlaps(panel.get_tightbbox()) for panel in figure.axes)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_legend_of_loss_plot_is_clear_of_its_lines(count):
    marks = dict.fromkeys(["uniform", "unigram", "bigram", "interpolated bigram", "interpolated trigram"][:count], 2.0)
    figure = plots.loss(ROWS, marks)
    assert stands_clear(figure, *figure.legends)
    panel = plots.loss(ROWS, marks).axes[0]
    assert not stands_clear(panel.figure, panel.legend())


def test_attention_plot_has_a_panel_for_each_head():
    maps = np.random.default_rng(0).random((2, 3, 4, 5))
    *panels, scale = plots.attention(maps, list("abcd"), list("vwxyz")).axes
    assert np.array_equal(np.stack([panel.images[0].get_array() for panel in panels]).reshape(maps.shape), maps)
    assert {panel.images[0].get_clim() for panel in panels} == {scale.get_ylim()} == {(0.0, 1.0)}


def test_stream_plot_shows_lengths_and_cosines():
    start = tt.tensor([[3.0, 4.0], [1.0, 0.0]])
    figure = plots.stream([("decoder.1.ffnn", start, start * tt.tensor([[2.0], [-1.0]]))], {"decoder": ["a", "b"]})
    written, kept = (panel for panel in figure.axes if panel.get_yticklabels() and panel.images)
    assert [text.get_text() for text in written.texts] == ["0.50", "2.00"]
    assert [text.get_text() for text in kept.texts] == ["1.00", "-1.00"]
    assert [label.get_text() for label in kept.get_yticklabels()] == ["stack 2, ffnn"]


def test_zero_is_white_where_signs_matter():
    _, [[panel]] = plots.panels()
    shown = plots.heat(panel, [[-1.0, 0.0, 3.0]], signed=True)
    assert np.allclose(shown.to_rgba(0.0)[:3], 1.0, atol=0.05)
    assert shown.norm.vmin == -3.0


# How the three kinds of cones of a colour-blind eye see a colour: Viénot, Brettel and Mollon (1999), in linear RGB.
BLIND = {
    "protan": [[0.1124, 0.8876, 0.0], [0.1124, 0.8876, 0.0], [0.0040, -0.0040, 1.0]],
    "deutan": [[0.2928, 0.7072, 0.0], [0.2928, 0.7072, 0.0], [-0.0223, 0.0223, 1.0]],
}


def seen(colour: str, category: str) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.clip(np.array(BLIND[category]) @ linear, 0, 1) ** (1 / 2.2)


def nearest(colours, category: str) -> float:
    """How far apart the two most similar colours are, from 0 (the same) to the root of 3 (black and white)."""
    each = [seen(colour, category) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for i, a in enumerate(each) for b in each[:i])


@pytest.mark.parametrize("category", BLIND)
def test_colours_can_be_told_apart(category):
    assert nearest(plots.COLOURS, category) > 0.1
    assert nearest([f"C{i}" for i in range(7)], category) < 0.1  # what matplotlib takes otherwise


def test_lines_differ_without_colours():
    styles = list(zip(plots.COLOURS, plots.DASHES, strict=True))
    assert all(a != b for a, b in zip(plots.DASHES, plots.DASHES[1:]))
    assert len(set(styles)) == len(styles)


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=re.escape(f"plots need matplotlib: {install('viz')}")):
        plots.panels()


def test_other_plots_keep_their_style():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.panels()
    assert dict(matplotlib.rcParams) == before


def test_matplotlib_is_loaded_on_demand():
    code = "import sys, tinytensor.viz.plots; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_picture_says_what_it_shows(tmp_path):
    figure, [[left, right]] = plots.panels(1, 2)
    plots.lines(left, [0, 1], {"training": [1, 2], "held out": [2, 1]})
    left.set(title="loss", xlabel="step")
    figure.colorbar(plots.heat(right, [[1.0, 2.0]], ["the"], ["cat", "sat"]), ax=right)
    words = "plot: loss; x axis: step; curves: training, held out. heat map; rows: the; columns: cat sat"
    assert plots.describe(figure) == words
    plots.save(figure, tmp_path / "a.png")
    plots.show(figure, tmp_path / "b.png", alt="Two curves that cross.")
    with Image.open(tmp_path / "a.png") as a, Image.open(tmp_path / "b.png") as b:
        assert (a.info["Description"], b.info["Description"]) == (words, "Two curves that cross.")
    assert not list(tmp_path.glob("*.dark.png"))


def test_picture_for_dark_pages_leaves_the_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "DARK", True)
    figure, [[panel]] = plots.panels()
    plots.lines(panel, [0, 1], {"y": [1, 2]})
    plots.save(figure, tmp_path / "a.png")
    before = (tmp_path / "a.png").read_bytes()
    plots.save(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == before
    with Image.open(tmp_path / "a.png") as light, Image.open(tmp_path / "a.dark.png") as dark:
        corners = [image.convert("RGB").getpixel((0, 0)) for image in (light, dark)]
    assert corners == [(255, 255, 255), (0x13, 0x14, 0x16)]


def test_picture_for_dark_pages_shows_its_scale(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "DARK", True)
    figure, [[panel]] = plots.panels()
    figure.colorbar(plots.heat(panel, [[0.0, 1.0]], ["a"], ["b", "c"]))
    plots.save(figure, tmp_path / "a.png")
    shades = {}
    for name in ("a.png", "a.dark.png"):
        with Image.open(tmp_path / name) as picture:
            width, height = picture.size
            scale = picture.convert("RGB").crop((width * 3 // 4, 0, width, height))
            colours = [colour for _, colour in scale.getcolors(maxcolors=width * height)]
            shades[name] = sum(max(colour) - min(colour) > 60 for colour in colours)  # letters are grey
    assert shades["a.dark.png"] > 100 < shades["a.png"]

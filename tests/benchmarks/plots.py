"""The curves: time per token against batch, context, width and depth, both axes logarithmic."""

from pathlib import Path

from .measuring import Measured


def draw(path: Path, rows: list[Measured]) -> None:
    """One panel for each row; a library has the same colour and the same dashes in all of them."""
    from matplotlib.ticker import LogLocator

    from tinytensor.viz.plots import COLOURS, DASHES, panels, save  # only processes that measure it load the engine

    names = dict.fromkeys(m.who(result) for m in rows for result in m.results if result.figures)
    styles = {
        name: {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]} for i, name in enumerate(names)
    }
    wide = min(2, len(rows))
    high = -(-len(rows) // wide)
    figure, grid = panels(high, wide, size=(5 * wide, 3.6 * high))
    for panel in grid.flat[len(rows) :]:
        panel.remove()
    for panel, measured in zip(grid.flat, rows):
        labels = measured.labels()
        for result in measured.results:
            if result.figures:
                times = [result.median(label) * 1e6 for label in labels]
                name = measured.who(result)
                panel.plot(
                    [int(label) for label in labels], times, label=name, marker="o", markersize=4, **styles[name]
                )
        panel.set(xscale="log", yscale="log", xlabel=measured.row.axis, ylabel="µs per token")
        panel.set_xticks([int(label) for label in labels], labels)
        panel.xaxis.set_minor_formatter("")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("")
        panel.legend(frameon=False, fontsize="small")
    figure.suptitle("A training step of toth-tiny, one size changed at a time")
    save(figure, path)

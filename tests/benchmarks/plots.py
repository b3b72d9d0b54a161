"""The curves: time per token against batch, context, width and depth, both axes logarithmic."""

from pathlib import Path

from .measuring import Measured

COLOURS = {"tinytensor": "#2a78d6", "torch": "#eb6834", "torch.compile": "#1baf7a", "jax": "#4a3aa7"}


def draw(path: Path, rows: list[Measured]) -> None:
    """One panel for each row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, ScalarFormatter

    figure = Figure(figsize=(5 * min(2, len(rows)), 3.6 * -(-len(rows) // 2)), layout="constrained")
    panels = figure.subplots(-(-len(rows) // 2), min(2, len(rows)), squeeze=False).ravel()
    for panel in panels[len(rows) :]:
        panel.remove()
    for panel, measured in zip(panels, rows):
        labels = measured.labels()
        for result in measured.results:
            if not result.figures:
                continue
            peer = result.side.peer
            name = measured.who(result)
            times = [result.median(label) * 1e6 for label in labels]
            style = {"color": COLOURS.get(peer, "#666666"), "linewidth": 2, "marker": "o", "markersize": 4}
            panel.plot([int(label) for label in labels], times, label=name, **style)
        panel.set(xscale="log", yscale="log", xlabel=measured.row.axis, ylabel="µs per token")
        panel.set_xticks([int(label) for label in labels], labels)
        panel.minorticks_off()
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(ScalarFormatter())
        panel.grid(color="#dddddd", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False)
    figure.suptitle("A training step of toth-tiny, one size changed at a time")
    FigureCanvasAgg(figure).print_png(path)

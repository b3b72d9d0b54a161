"""Show what the engine does: the backward pass in words, as a graph, and step by step.

    print(explain(loss, model))                 # every visit of the walk, in words: needs no extra
    draw(loss, model).save("graph.svg")         # the graph with values, shapes and gradients
    walkthrough(loss, "backward.html", model)   # a page that steps through it, node by node

In a notebook a drawing shows itself, and so does a tensor that is the last line of a cell (`notebook.py`).

Nothing here computes a gradient: all numbers come from the tape itself, which is watched while it walks.
`import tinytensor` does not load this package; the extra `viz` has the libraries for pictures.
"""

from tinytensor.viz.capture import watch
from tinytensor.viz.drawing import Drawing, draw
from tinytensor.viz.page import walkthrough
from tinytensor.viz.record import BackwardTrace, Leaf, Share, Step
from tinytensor.viz.text import Explanation, explain
from tinytensor.viz.trace import look

__all__ = [
    "BackwardTrace",
    "Drawing",
    "Explanation",
    "Leaf",
    "Share",
    "Step",
    "draw",
    "explain",
    "look",
    "walkthrough",
    "watch",
]

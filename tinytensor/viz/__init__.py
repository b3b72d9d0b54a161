"""Show what the engine does: the backward pass in words, as a graph, and step by step.

    print(explain(loss, model))                 # every visit of the walk, in words: needs no extra
    draw(loss, model).save("graph.svg")         # the graph with values, shapes and gradients
    walkthrough(loss, "backward.html", model)   # a page that steps through it, node by node

In a notebook a drawing shows itself, and so does a tensor that is the last line of a cell (`notebook.py`).

Nothing here computes a gradient: all numbers come from the tape itself, which is watched while it walks.
`import tinytensor` does not load this package; the extra `viz` has the libraries for pictures.
"""

from tinytensor.viz.drawing import Drawing, draw
from tinytensor.viz.page import walkthrough
from tinytensor.viz.record import Leaf, Seen, Share, Step
from tinytensor.viz.seen import look
from tinytensor.viz.text import Explanation, explain
from tinytensor.viz.watching import watch

__all__ = ["Drawing", "Explanation", "Leaf", "Seen", "Share", "Step", "draw", "explain", "look", "walkthrough", "watch"]

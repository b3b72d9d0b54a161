"""Rooms that are loaded at their first use, so that the import of tinytensor does not pay for them.

SymPy takes a second to import, and training never needs it; pictures and completed docstrings are rarely asked for.
"""

from tinytensor.core import provided


def lift(kernel):
    from tinytensor.symbolic import lift

    return lift(kernel)


def carry_over(x, y):
    from tinytensor.symbolic.given import carry_over

    return carry_over(x, y)


def html(tensor):
    from tinytensor.viz.notebook import html

    return html(tensor)


def documentation(function, docstring):
    from tinytensor.tools.documentation import complete

    return complete(function, docstring)


provided.lift, provided.carry_over = lift, carry_over
provided.html, provided.documentation = html, documentation

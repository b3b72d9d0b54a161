"""Rooms that are loaded at their first use, so that the import of tinytensor does not pay for them.

SymPy takes a second to import, and training never needs it; pictures and completed docstrings are rarely asked for.
"""

from importlib import import_module

from tinytensor.core import provided


def lift(kernel):
    return import_module("tinytensor.symbolic.lifting").lift(kernel)


def carry_over(x, y):
    return import_module("tinytensor.symbolic.given").carry_over(x, y)


def html(tensor):
    return import_module("tinytensor.viz.notebook").html(tensor)


def documentation(function, docstring):
    return import_module("tinytensor.tools.documentation").complete(function, docstring)


provided.lift, provided.carry_over = lift, carry_over
provided.html, provided.documentation = html, documentation

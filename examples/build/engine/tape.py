"""Step 2: the tape. Lesson 2 teaches it.

A program finds the slope of its own result if each number remembers how it was made. A `Tensor` is such a number. Its
`edges` are pairs (source, pull): a tensor from which it was made, and a function that turns its own gradient into the
part of the gradient that this source receives. If y was made from x with the slope dy/dx, this is the chain rule:

    dL/dx = dL/dy · dy/dx        so        pull = lambda g: g * slope

Write `pull_by` and `record` at the end of the file first, then `receive` and `send`, then the operators: each is one
line, as `__add__` is. Two facts help: a - b = a + (-b), and a / b = a · b^(-1). (`unbroadcast` in shapes.py changes
nothing yet: it is the task of step 4.)
"""

import numpy as np

from . import slopes
from .shapes import unbroadcast


class Tensor:
    """A number (from step 4 on: an array) that remembers how it was made."""

    __array_ufunc__ = None  # then NumPy leaves `array * tensor` to __rmul__ below

    def __init__(self, data, edges=()):
        """data: the value; edges: pairs (source, pull), none for a tensor that you make yourself."""
        self.data = np.asarray(data, dtype=float)
        self.edges = list(edges)
        self.grad = 0.0  # the gradient that has arrived so far

    @property
    def shape(self):
        return self.data.shape

    def receive(self, g):
        """Add g to the gradient that has arrived so far; first give it this tensor's shape: unbroadcast(g, shape)."""
        # hole
        self.grad = self.grad + unbroadcast(g, self.shape)

    def send(self):
        """Send this tensor's gradient back: each source receives what its pull makes of it."""
        # hole
        for source, pull in self.edges:
            source.receive(pull(self.grad))

    def __add__(self, other):
        return record(slopes.add, self, other)

    def __mul__(self, other):
        # hole
        return record(slopes.mul, self, other)

    def __pow__(self, n):
        """self^n for a number n. The rule that `record` gets may have one input only: lambda a: ..."""
        # hole
        return record(lambda a: slopes.power(a, n), self)

    def __neg__(self):
        # hole
        return self * -1.0

    def __sub__(self, other):
        # hole
        return self + -as_tensor(other)

    def __truediv__(self, other):
        # hole
        return self * as_tensor(other) ** -1

    def exp(self):
        # hole
        return record(slopes.exp, self)

    def log(self):
        # hole
        return record(slopes.log, self)

    def tanh(self):
        # hole
        return record(slopes.tanh, self)

    def relu(self):
        # hole
        return record(slopes.relu, self)

    # 2 + x, 2 * x, 2 - x, 2 / x: the tensor stands on the right
    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other):
        return as_tensor(other) - self

    def __rtruediv__(self, other):
        return as_tensor(other) / self


def as_tensor(x):
    """x itself if it is a tensor, else a tensor with its value."""
    return x if isinstance(x, Tensor) else Tensor(x)


def pull_by(slope):
    """The function pull of the chain rule: it multiplies a gradient g by this slope.

    (It has a function of its own, since a lambda in a loop would see only the slope of the last turn.)
    """
    # hole
    return lambda g: g * slope


def record(rule, *inputs):
    """The tensor that a rule of step 1 computes, with an edge to each input.

    rule(*values) returns the value and the slopes. Inputs may be plain numbers: `as_tensor` makes tensors of them.
    """
    # hole
    inputs = [as_tensor(x) for x in inputs]
    value, slopes_of_inputs = rule(*(x.data for x in inputs))
    return Tensor(value, [(x, pull_by(slope)) for x, slope in zip(inputs, slopes_of_inputs)])

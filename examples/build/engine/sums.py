"""Step 4, second part: sums. Lesson 5 teaches it.

A sum is the opposite of broadcasting: forward, many entries become one; backward, the gradient of this one is handed to
all of them, so it is broadcast. (Write `unbroadcast` in shapes.py first.)

    y = Σ_i x_i          dL/dx_i = dL/dy
    y = (1/N) Σ_i x_i    dL/dx_i = dL/dy / N

From here on an operation makes its tensor itself, with a pull of its own: Tensor(value, [(x, pull)]). It is called
`total`, since Python has a function `sum`.
"""

import numpy as np

from .tape import Tensor


def total(x, axis=None, keepdims=False):
    """The sum of x over an axis, or over all of x if axis is None, as x.data.sum(axis, keepdims=keepdims).

    Its pull gives back an array of x's shape. If the axis has gone, np.expand_dims brings it back before
    np.broadcast_to repeats it.
    """

    # hole
    def pull(g):
        if axis is not None and not keepdims:
            g = np.expand_dims(g, axis)
        return np.broadcast_to(g, x.shape)

    return Tensor(x.data.sum(axis=axis, keepdims=keepdims), [(x, pull)])


def mean(x, axis=None, keepdims=False):
    """The mean of x over an axis, or over all of x: the sum divided by the number N of its terms."""
    # hole
    y = total(x, axis, keepdims)
    return y * (y.data.size / x.data.size)

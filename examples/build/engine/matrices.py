"""Step 5: matrices, and parts of arrays. Lessons 5 and 8 teach it.

Most of the work of a network is one equation, the matrix product. Its gradients are two more matrix products:

    Y = A B        dL/dA = dL/dY Bᵀ        dL/dB = Aᵀ dL/dY

(The shapes leave no other choice: for A (m, k) and B (k, n), dL/dY has the shape (m, n).) Arrays may have more axes in
front, and are then stacks of matrices: ᵀ swaps the last two axes, np.swapaxes(a, -1, -2).

The other three move numbers and change none. Backward, each gradient goes the same way back. `take` picks entries or
rows: a row may be picked twice, then it receives two gradients, and they add up.
"""

import numpy as np

from .tape import Tensor, as_tensor


def matmul(a, b):
    """The matrix product of a (..., m, k) and b (..., k, n)."""
    # hole
    a, b = as_tensor(a), as_tensor(b)
    return Tensor(
        a.data @ b.data,
        [
            (a, lambda g: g @ np.swapaxes(b.data, -1, -2)),
            (b, lambda g: np.swapaxes(a.data, -1, -2) @ g),
        ],
    )


def reshape(x, shape):
    """The entries of x in another shape."""
    # hole
    return Tensor(x.data.reshape(shape), [(x, lambda g: g.reshape(x.shape))])


def swap(x, i, j):
    """x with the axes i and j swapped."""
    # hole
    return Tensor(np.swapaxes(x.data, i, j), [(x, lambda g: np.swapaxes(g, i, j))])


def take(x, index):
    """x[index], for whatever NumPy takes as an index: x[2], x[:, 1:], x[np.array([0, 2, 2])].

    In the last one the row 2 is picked twice. `d[index] += g` would add only one of the two gradients;
    np.add.at(d, index, g) adds both.
    """

    # hole
    def pull(g):
        d = np.zeros_like(x.data)
        np.add.at(d, index, g)
        return d

    return Tensor(x.data[index], [(x, pull)])


Tensor.__matmul__ = matmul  # x @ w
Tensor.__getitem__ = take  # x[index]

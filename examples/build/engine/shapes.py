"""Step 4, first part: the shape of a gradient. Lesson 5 teaches it.

An array of shape (3,) that is added to one of shape (4, 3) is used four times, once in each row: NumPy calls this
broadcasting. Each of the four uses sends a gradient back, and gradients of several uses add up. So what arrives with
the shape (4, 3) must be summed to the shape (3,).

Shapes are compared from the right. `shape` may have fewer axes than g: sum over the axes in front. Where `shape` has
1 and g has more: sum over this axis, and keep it (`keepdims=True`). `Tensor.receive` of step 2 calls `unbroadcast` each
time, so once it is written, every operation of steps 1 and 2 works for arrays.

(Until step 4 leave it as it is: a number has no axes to sum over.)
"""


def unbroadcast(g, shape):
    """Sum the array g to `shape`, which was broadcast to the shape of g."""
    # hole: return g
    if g.shape == shape:
        return g
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    for axis, size in enumerate(shape):
        if size == 1:
            g = g.sum(axis=axis, keepdims=True)
    return g

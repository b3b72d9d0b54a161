"""Step 3: the order. Lesson 3 teaches it.

A tensor may send its gradient back when the gradient is complete: when every tensor that was made from it has sent its
own. So the order matters. A tensor that is used twice must wait for both uses, and then one visit is enough. (Without
the wait, a chain of 18 doublings would need 2^18 visits.)

Write `order`. One way: count for each tensor how many edges lead to it. `last` is ready. Take a ready tensor, put it on
the list, and lower the count of its sources: a source whose count becomes 0 is ready. Use lists and a loop: a function
that calls itself stops after some 1,000 calls, and a chain of tensors may be longer.

Then `backward`: d(last)/d(last) = 1, and each tensor sends, in order. Tensors without edges keep the gradient that they
have, and the new one is added: so `zero_grad` sets it to 0 between two steps of training.
"""

import numpy as np


def order(last):
    """A list of all tensors that lead to `last`, each of them once, and each after all tensors made from it."""
    # hole
    uses, found = {last: 0}, [last]
    while found:
        for source, _ in found.pop().edges:
            if source not in uses:
                uses[source] = 0
                found.append(source)
            uses[source] += 1
    ready, ordered = [last], []
    while ready:
        tensor = ready.pop()
        ordered.append(tensor)
        for source, _ in tensor.edges:
            uses[source] -= 1
            if uses[source] == 0:
                ready.append(source)
    return ordered


def zero_grad(tensors):
    """Set the gradient of each tensor to 0.0."""
    # hole
    for tensor in tensors:
        tensor.grad = 0.0


def backward(last):
    """Add d(last)/d(x) to x.grad for each tensor x that led to `last` and has no edges.

    For an array `last` this is the gradient of the sum of its entries: its own gradient is np.ones_like(last.data).
    Tensors that have edges start from 0 each time: a second call must not send the gradients of the first call again.
    """
    # hole
    tensors = order(last)
    zero_grad([tensor for tensor in tensors if tensor.edges])
    last.grad = np.ones_like(last.data)
    for tensor in tensors:
        tensor.send()

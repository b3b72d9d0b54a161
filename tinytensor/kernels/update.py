"""Optimizer steps on flat arrays, in place, and what clipping by norm needs.

Hyper-parameters come in one small float64 array, so that a recorded step sees their present values. `scale`
multiplies the learning rate: (0,) for none, (1,) for one factor, or one factor for each element of p.
"""

import numpy as np

from tinytensor.kernels.kernel import EXACT_ORDER, kernel

BLOCK = 4096  # elements that one thread treats at a time


@kernel(fastmath=EXACT_ORDER)
def sgd(p, g, buf, scale, hyper, task, tasks):
    """p -= lr d with d = g + wd p.

    With momentum b = momentum b + (1 - dampening) d (at first b = d) stands for d, with Nesterov's d + momentum b.
    hyper = [lr, momentum, dampening, weight_decay, nesterov, maximize, first], the last three 0 or 1.
    buf is (0,) without momentum.
    """
    kind = p.dtype.type
    lr, momentum, keep, decay = kind(hyper[0]), kind(hyper[1]), kind(1 - hyper[2]), kind(hyper[3])
    nesterov, maximize, first = hyper[4] != 0, hyper[5] != 0, hyper[6] != 0
    common = scale[0] if scale.size == 1 else kind(1)
    each = scale.size > 1
    for i in range(p.size):
        d = -g[i] if maximize else g[i]
        d += decay * p[i]
        if buf.size > 0:
            b = d if first else momentum * buf[i] + keep * d
            buf[i] = b
            d = d + momentum * b if nesterov else b
        p[i] -= lr * (scale[i] if each else common) * d


@kernel(fastmath=EXACT_ORDER)
def adam(p, g, m, v, scale, hyper, task, tasks):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps).

    hyper = [lr, b1, b2, eps, weight_decay, decoupled, t, maximize]. Weight decay adds wd p to g (Adam), or if
    decoupled (AdamW) p is multiplied by 1 - lr wd first.
    """
    kind = p.dtype.type
    beta2, eps, sign = kind(hyper[2]), kind(hyper[3]), kind(1 - 2 * hyper[7])
    new1, new2 = kind(1 - hyper[1]), kind(1 - hyper[2])
    decay, shrink = kind(hyper[4] * (1 - hyper[5])), kind(hyper[0] * hyper[4] * hyper[5])  # one of them is 0
    step = kind(hyper[0] / (1 - hyper[1] ** hyper[6]))
    root = kind(np.sqrt(1 - hyper[2] ** hyper[6]))
    common = scale[0] if scale.size == 1 else kind(1)
    each = scale.size > 1
    for block in range((p.size + BLOCK - 1) // BLOCK):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, p.size)
        pb, gb, mb, vb = p[start:stop], g[start:stop], m[start:stop], v[start:stop]
        factors = scale[start:stop]  # empty unless there is one for each element
        for i in range(pb.size):
            factor = factors[i] if each else common
            pb[i] *= kind(1) - factor * shrink
            d = sign * gb[i] + decay * pb[i]
            mb[i] += new1 * (d - mb[i])
            vb[i] = beta2 * vb[i] + new2 * d * d
            pb[i] -= step * factor * mb[i] / (np.sqrt(vb[i]) / root + eps)


def sumsq_scratch(n):
    """The shape of the scratch array of sumsq for x (n,)."""
    return ((n + BLOCK - 1) // BLOCK,)


@kernel()
def sumsq(x, y, scratch, task, tasks):
    """y[0] = sum_i x_i^2: x (n,), y (1,), scratch of the shape sumsq_scratch(n)."""
    blocks = scratch.size
    for block in range(blocks):
        part = x[block * BLOCK : min((block + 1) * BLOCK, x.size)]
        total = x.dtype.type(0)
        for i in range(part.size):
            total += part[i] * part[i]
        scratch[block] = total
    total = x.dtype.type(0)
    for block in range(blocks):
        total += scratch[block]
    y[0] = total


@kernel(fastmath=EXACT_ORDER)
def isfinite_all(x, y, task, tasks):
    """y[0] = is no element of x (n,) infinite or NaN? y is bool (1,)."""
    zero = x.dtype.type(0)
    finite = True
    for i in range(x.size):
        finite = finite and x[i] - x[i] == zero  # inf - inf is NaN
    y[0] = finite

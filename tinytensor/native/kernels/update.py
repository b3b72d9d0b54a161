"""Optimizer steps on flat arrays, in place, and the sum of squares for clipping by norm.

Hyper-parameters come in one small float64 array, so that a recorded step sees their present values. `scale`
multiplies the learning rate: (0,) for none, (1,) for one factor, or one factor for each element of p.
"""

import numpy as np

from tinytensor.core.kernel import EXACT_ORDER, num_tasks
from tinytensor.native.kernels.sums import BLOCK, block_squares, row_sum
from tinytensor.native.runtime.kernel import kernel, task_range


@kernel(
    "p[N], g[N], buf[N | 0], scale[N | 1 | 0], hyper[7]",
    tasks=lambda p, *_: num_tasks(p.size // 2, p.size),
    fastmath=EXACT_ORDER,
)
def sgd(p, g, buf, scale, hyper, task, tasks):
    """p -= lr d with d = g + wd p.

    With momentum, b = momentum b + (1 - dampening) d (at first b = d) replaces d; Nesterov's uses d + momentum b.
    hyper = [lr, momentum, dampening, weight_decay, nesterov, maximize, first], the last three 0 or 1.
    buf is (0,) without momentum.
    """
    cast = p.dtype.type
    lr, momentum, keep, decay = cast(hyper[0]), cast(hyper[1]), cast(1 - hyper[2]), cast(hyper[3])
    nesterov, maximize, first = hyper[4] != 0, hyper[5] != 0, hyper[6] != 0
    common = scale[0] if scale.size == 1 else cast(1)
    each = scale.size > 1
    start, stop = task_range(p.size, task, tasks)
    ps, gs, bs, factors = p[start:stop], g[start:stop], buf[start:stop], scale[start:stop]  # the last two may be empty
    for i in range(ps.size):
        d = -gs[i] if maximize else gs[i]
        if decay != 0:  # with an infinite p the product would be 0 * inf
            d += decay * ps[i]
        if buf.size > 0:
            b = d if first else momentum * bs[i] + keep * d
            bs[i] = b
            d = d + momentum * b if nesterov else b
        ps[i] -= lr * (factors[i] if each else common) * d


@kernel(
    "p[N], g[N], m[N], v[N], scale[N | 1 | 0], hyper[8]",
    tasks=lambda p, *_: num_tasks(p.size, p.size),
    fastmath=EXACT_ORDER,
)
def adam(p, g, m, v, scale, hyper, task, tasks):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps).

    hyper = [lr, b1, b2, eps, weight_decay, decoupled, t, maximize]. Weight decay adds wd p to g (Adam), or if
    decoupled (AdamW) p is multiplied by 1 - lr wd first.
    """
    cast = p.dtype.type
    beta2, eps, sign = cast(hyper[2]), cast(hyper[3]), cast(1 - 2 * hyper[7])
    new1, new2 = cast(1 - hyper[1]), cast(1 - hyper[2])
    decay, shrink = cast(hyper[4] * (1 - hyper[5])), cast(hyper[0] * hyper[4] * hyper[5])  # one of them is 0
    step = cast(hyper[0] / (1 - hyper[1] ** hyper[6]))
    grow = cast(1 / np.sqrt(1 - hyper[2] ** hyper[6]))
    common = scale[0] if scale.size == 1 else cast(1)
    each = scale.size > 1
    start, stop = task_range(p.size, task, tasks)
    ps, gs, ms, vs = p[start:stop], g[start:stop], m[start:stop], v[start:stop]
    factors = scale[start:stop]  # empty unless there is one for each element
    for i in range(ps.size):
        factor = factors[i] if each else common
        old = ps[i] * (cast(1) - factor * shrink)
        d = sign * gs[i]
        if decay != 0:  # as above
            d += decay * old
        mean = ms[i] + new1 * (d - ms[i])
        square = beta2 * vs[i] + new2 * d * d
        ms[i] = mean
        vs[i] = square
        ps[i] = old - step * factor * mean / (np.sqrt(square) * grow + eps)


def sumsq_parts(n):
    """The number of parts of the sum over n elements."""
    return num_tasks(n // 10, n)


@kernel("x[N], parts[P]", tasks=lambda x, parts: parts.size)
def sumsq(x, parts, task, tasks):
    """The sum of parts is sum_i x_i^2: x (n,), parts (sumsq_parts(n),)."""
    start, stop = task_range(parts.size, task, tasks)
    for part in range(start, stop):
        begin, end = task_range(x.size, part, parts.size)
        parts[part] = row_sum(x[begin:end], block_squares, 8 * BLOCK, x.dtype.type(0))

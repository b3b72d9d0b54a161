"""Rules that are right, wrong, or right at times: functions for the tests of `prove`."""

import math

import numpy as np

import tinytensor as tt
from tinytensor.core.dispatch import empty, launch


def function(forward, backward):
    """An autograd.Function of these two: backward(g, *inputs)."""

    class Made(tt.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Made.apply


def square(slope):
    """x^2 with this slope: slope(g, x)."""
    return function(lambda x: x * x, slope)


@tt.elementwise
def softsign_kernel(x):
    return x / (type(x)(1) + abs(x))


@tt.op
class wrong_softsign:
    r"y = x / (1 + |x|), without the square in its slope"

    kernel = softsign_kernel

    def grad_x(g, x):
        return g / (1 + x.abs())


# ------------------------------------------------------------------ kernels of the user's own


def times(n):
    """A function of kernels: all of these have one code."""

    @tt.device_function
    def multiplied(x):
        return x * n

    return multiplied


double, triple = times(2), times(3)


@tt.op
class five_times:
    r"y = 5 x"

    def kernel(x):
        return double(x) + triple(x)

    def grad_x(g):
        return 5 * g


@tt.kernel("x[N], y[N]")
def adds_up(x, y):
    for j in range(x.size):
        y[j] = x[j]
    for j, total in enumerate(y):  # of which a step writes what the next one reads
        if j + 1 < y.size:
            y[j + 1] += total


@tt.kernel("g[N], dx[N]")
def adds_up_backward(g, dx):
    total = type(g[0])(0)
    for j in range(g.size):
        total += g[g.size - 1 - j]
        dx[g.size - 1 - j] = total


@tt.op
class running_sums:
    r"y_i = \sum_{j \le i} x_j"

    def forward(x):
        y = empty(x.shape, x.dtype)
        launch(adds_up, x, y)
        return y

    def backward(g):
        dx = empty(g.shape, g.dtype)
        launch(adds_up_backward, g, dx)
        return (dx,)


@tt.op
class grown:
    r"y = e^s x, for a setting s that is computed with in Python"

    def forward(x, s):
        y = empty(x.shape, x.dtype)
        launch(tt.OPS["mul"].kernel, x, math.exp(s), y)
        return y

    def grad_x(g, s):
        return g * math.exp(s)


@tt.op
class steep:
    r"y = 10^{13} \tanh x: far from 0, the derivative 1 - \tanh^2 x is 0 as a float, and the rule's form of it is not"

    def kernel(x):
        return np.tanh(x) * 10**13

    def grad_x(g, x):
        return g * (4 * 10**13) / (x.exp() + (-x).exp()) ** 2

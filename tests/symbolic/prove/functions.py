"""Rules that are right, wrong, or right at times: functions for the tests of `prove`."""

import tinytensor as tt


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

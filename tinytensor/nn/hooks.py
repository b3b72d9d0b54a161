"""Backward hooks of modules: an identity around the inputs of a module's call, and one around its results.

On the way back the gradients of the results pass the identity of the results first (`way_out`), then the module, and
arrive together at the identity of the inputs (`way_in`). There a hook gets both, and may replace those of the inputs.
"""

from collections.abc import Callable, Sequence

from tinytensor.autograd.function import Function
from tinytensor.core.tensor import Tensor


class _Passage(Function):
    """The identity of several tensors; on the way back, `pass_on` may replace their gradients."""

    @staticmethod
    def forward(ctx, pass_on, *tensors):
        ctx.pass_on = pass_on
        return tensors

    @staticmethod
    def backward(ctx, *gradients):
        return None, *ctx.pass_on(gradients)


def call_with_backward_hooks(module, hooks: Sequence[Callable], args: tuple, kwargs: dict):
    """module.forward(*args, **kwargs); on the way back each hook(module, grad_input, grad_output) is called.

    grad_input has a gradient for each positional argument (None if it is no tensor or has no gradient); a hook's result
    replaces it.
    """
    grad_output: list[tuple] = []
    asks = any(isinstance(a, Tensor) and a._requires_grad for a in args)

    def way_in(gradients: tuple) -> tuple:
        for hook in tuple(hooks):
            replaced = hook(module, gradients, grad_output[0])
            if replaced is not None:
                gradients = (replaced,) if isinstance(replaced, Tensor) else tuple(replaced)
        return gradients

    def way_out(gradients: tuple) -> tuple:
        grad_output[:] = [gradients]
        if not asks:  # no gradient will arrive at way_in
            way_in((None,) * len(args))
        return gradients

    results = module.forward(*(_Passage.apply(way_in, *args) if asks else args), **kwargs)
    if isinstance(results, Tensor):
        return _Passage.apply(way_out, results)[0]
    if not isinstance(results, tuple):
        raise TypeError(
            f"register_full_backward_hook: forward of {type(module).__name__} must return a tensor or a tuple, "
            f"got {type(results).__name__}"
        )
    return _Passage.apply(way_out, *results)

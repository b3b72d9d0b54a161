"""Hooks of modules: keyword arguments for those of forward, and those of backward.

For these an identity stands behind the inputs of a module's call, and one behind its results. On the way back the
gradients of the results pass the identity of the results first (`way_out`), where pre-hooks may replace them, then the
module, and arrive together at the identity of the inputs (`way_in`). There a hook gets both, and may replace those of
the inputs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tinytensor.autograd.function import Function
from tinytensor.core.hooks import RemovableHandle
from tinytensor.core.tensor import Tensor


class WithKwargs(NamedTuple):
    """A hook of a module's forward that takes the keyword arguments, too."""

    hook: Callable


def register(hooks: list, hook: Any, prepend: bool) -> RemovableHandle:
    """Put a hook behind those that are there, or before them; returns a handle that removes it."""
    hooks.insert(0 if prepend else len(hooks), hook)
    return RemovableHandle(hooks, hook)


def arguments_after(module, hook: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments of forward after a pre-hook, which may replace them."""
    if not isinstance(hook, WithKwargs):
        replaced = hook(module, args)
        return args if replaced is None else replaced if isinstance(replaced, tuple) else (replaced,), kwargs
    replaced = hook.hook(module, args, kwargs)
    if replaced is None:
        return args, kwargs
    if not (isinstance(replaced, tuple) and len(replaced) == 2):
        raise RuntimeError(
            f"register_forward_pre_hook: a hook with_kwargs of {type(module).__name__} must return None or a tuple "
            f"(args, kwargs), got {type(replaced).__name__}"
        )
    return replaced


class _Passage(Function):
    """The identity of several tensors; on the way back, `pass_on` may replace their gradients."""

    @staticmethod
    def forward(ctx, pass_on, *tensors):
        ctx.pass_on = pass_on
        return tensors

    @staticmethod
    def backward(ctx, *gradients):
        return None, *ctx.pass_on(gradients)


def backward_hooks(module, args: tuple) -> tuple[tuple, Callable]:
    """Identities around a call: the arguments behind one, and a function that puts the results behind another.

    On the way back each hook(module, grad_input, grad_output) is called. grad_input has a gradient for each positional
    argument (None if it is no tensor or has no gradient); a hook's result replaces it, and that of a
    pre-hook(module, grad_output) replaces grad_output.
    """
    grad_output: list[tuple] = []  # from way_out to way_in
    asks = any(isinstance(a, Tensor) and a._requires_grad for a in args)

    def way_in(gradients: tuple) -> tuple:
        if not grad_output:  # of a second derivative: it comes from the gradient, and not through the results
            return gradients
        arrived = grad_output.pop()
        for hook in tuple(module._backward_hooks):
            gradients = _after(module, "register_full_backward_hook", hook(module, gradients, arrived), gradients)
        return gradients

    def way_out(gradients: tuple) -> tuple:
        for hook in tuple(module._backward_pre_hooks):
            gradients = _after(module, "register_full_backward_pre_hook", hook(module, gradients), gradients)
        grad_output[:] = [gradients]
        if not asks and any(g is not None for g in way_in((None,) * len(args))):  # no gradient will arrive there
            raise RuntimeError(
                f"register_full_backward_hook: no input of {type(module).__name__} requires grad, so a hook has no "
                "gradient to replace; expected None"
            )
        return gradients

    def results_behind(results: Tensor | tuple) -> Tensor | tuple:
        if isinstance(results, Tensor):
            return _Passage.apply(way_out, results)[0]
        if not isinstance(results, tuple):
            raise TypeError(
                f"register_full_backward_hook: forward of {type(module).__name__} must return a tensor or a tuple, "
                f"got {type(results).__name__}"
            )
        return _Passage.apply(way_out, *results)

    return _Passage.apply(way_in, *args) if asks else args, results_behind


def _after(module, what: str, replaced: Any, gradients: Sequence) -> tuple:
    """The gradients after a hook, which may have replaced them."""
    if replaced is None:
        return gradients
    replaced = (replaced,) if isinstance(replaced, Tensor) else tuple(replaced)
    if len(replaced) != len(gradients):
        raise RuntimeError(
            f"{what}: a hook of {type(module).__name__} returned {len(replaced)} gradients, expected {len(gradients)}"
        )
    return replaced

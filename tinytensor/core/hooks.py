"""Hooks of tensors: functions that see a gradient when it is complete, and gradients that are kept."""

import weakref
from collections.abc import Callable
from typing import Self

from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.core.views import regenerate_grad_fn


class RemovableHandle:
    """Removes a hook: `handle.remove()`, `handle()`, or at the end of `with handle:`; a second time nothing happens."""

    def __init__(self, hooks: list, hook: Callable):
        self.hooks, self.hook = hooks, [hook]

    def remove(self) -> None:
        while self.hook:
            self.hooks.remove(self.hook.pop())

    __call__ = remove

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error) -> None:
        self.remove()


@register("Tensor.register_hook")
def register_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call `hook(grad)` when this tensor's gradient is complete; a gradient that the hook returns replaces it.

    A gradient is complete when all its shares have arrived, so a hook sees each gradient once. A computed tensor's
    hooks are kept at its node, since the tensor itself may be gone by then. Returns a handle that removes the hook.
    """
    regenerate_grad_fn(self)
    if not self._requires_grad:
        raise RuntimeError("register_hook: this tensor does not require grad")
    holder = self if self.node is None else self.node
    holder._hooks = holder._hooks or []
    holder._hooks.append(hook)
    return RemovableHandle(holder._hooks, hook)


@register("Tensor.retain_grad")
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this computed tensor in `.grad` too."""
    regenerate_grad_fn(self)
    if not self._requires_grad:
        raise RuntimeError("retain_grad: this tensor does not require grad, so no gradient will reach it")
    if self.node is not None:
        # A weak reference: the tensor holds the node, and if the node held the tensor, neither would be freed.
        self.node.retained = weakref.ref(self)

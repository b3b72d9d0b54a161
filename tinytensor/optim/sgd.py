"""SGD: stochastic gradient descent."""

from collections.abc import Iterable

from tinytensor.ops.elementwise import where
from tinytensor.optim.fused import fused_kernel
from tinytensor.optim.optimizer import Optimizer


class SGD(Optimizer):
    r"""x \to x - \rho \, \partial L / \partial x (003, eq. 18), with momentum and weight decay if asked for."""

    fused = fused_kernel("sgd")
    numbers = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "first")
    slots = ("momentum_buffer",)

    def _update(self, p, g, h, b):
        if b is not None:  # momentum: a sum of all gradients so far, of which older ones count less
            b.copy_(where(h.first != 0, g, b * h.momentum + g * (1 - h.dampening)))
            g = g + b * h.momentum if h.nesterov else b
        p.sub_(g * h.lr)

    def _needs(self, slot, group):
        return group["momentum"] != 0

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **options,
    ):
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"nesterov": nesterov, "maximize": maximize}, options)

    def _check(self, group):
        super()._check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: nesterov needs a momentum and no dampening")


__all__ = ["SGD"]

"""Adam, and AdamW, whose weight decay is decoupled from the gradient."""

from collections.abc import Iterable

from tinytensor.optim.fused import fused_kernel
from tinytensor.optim.optimizer import Optimizer


class Adam(Optimizer):
    r"""x \to x - \rho \hat m / (\sqrt{\hat v} + \epsilon), m and v the gradient's moments; decay joins the gradient.

    From Kingma and Ba (2015).
    """

    fused = fused_kernel("adam")
    numbers = ("lr", "beta1", "beta2", "eps", "weight_decay", "decoupled", "t", "maximize")
    slots = ("exp_avg", "exp_avg_sq")
    extra = ("max_exp_avg_sq",)

    def _update(self, p, g, h, m, v, largest):
        m.add_((g - m) * (1 - h.beta1))
        v.mul_(h.beta2).add_(g * g * (1 - h.beta2))
        if largest is not None:  # AMSGrad divides by the largest v so far; from Reddi, Kale and Kumar (2018)
            v = largest.copy_(largest.maximum(v))
        root = v.sqrt() / (1 - h.beta2**h.t).sqrt()  # of \hat v = v / (1 - beta2^t)
        p.sub_(h.lr / (1 - h.beta1**h.t) * m / (root + h.eps))

    def _needs(self, slot, group):
        return slot in self.slots or group["amsgrad"]

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **options,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(params, defaults | {"maximize": maximize}, options)


class AdamW(Adam):
    r"""Adam in which weight decay shrinks the parameter itself: x \to (1 - \rho \lambda) x first.

    From Loshchilov and Hutter (2019).
    """

    decoupled = True

    def _update(self, p, g, h, *slots):
        p.mul_(1 - h.lr * h.weight_decay)
        super()._update(p, g, h, *slots)

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **options,
    ):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, **options)


__all__ = ["Adam", "AdamW"]

"""RMSprop, Adagrad, Adadelta and Adamax: each element has a learning rate, which adapts to its gradients so far."""

from collections.abc import Iterable

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.optim.optimizer import Optimizer


class RMSprop(Optimizer):
    r"""x \to x - \rho \, g / (\sqrt{v} + \epsilon), v a running mean of g^2 (less that of g, squared, if centered).

    From Hinton (2012).
    """

    numbers = ("lr", "alpha", "eps", "momentum", "weight_decay")
    slots = ("square_avg", "momentum_buffer", "grad_avg")

    def _update(self, p, g, h, v, b, mean):
        v.mul_(h.alpha).add_(g * g * (1 - h.alpha))
        if mean is not None:  # centered: the variance takes the place of the mean square
            mean.add_((g - mean) * (1 - h.alpha))
            v = v - mean * mean
        d = g / (v.sqrt() + h.eps)
        p.sub_(h.lr * (d if b is None else b.mul_(h.momentum).add_(d)))

    def _needs(self, slot, group):
        return {"momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}.get(slot, True)

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        maximize: bool = False,
        **options,
    ):
        defaults = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, defaults | {"centered": centered, "maximize": maximize}, options)


class Adagrad(Optimizer):
    r"""x \to x - \rho_t \, g / (\sqrt{\sum g^2} + \epsilon), \rho_t = \rho / (1 + (t - 1)\, lr\_decay).

    From Duchi, Hazan and Singer (2011).
    """

    numbers = ("lr", "weight_decay", "eps")
    slots = ("sum",)

    def _update(self, p, g, h, total):
        total.add_(g * g)
        p.sub_(h.lr * (g / (total.sqrt() + h.eps)))

    def _values(self, group, entry, t):
        return super()._values(group, entry, t) | {"lr": group["lr"] / (1 + (t - 1) * group["lr_decay"])}

    def _prepare(self, group, p):
        is_new = "sum" not in self.state.get(p, ())
        super()._prepare(group, p)
        if is_new:
            self.state[p]["sum"] = Tensor.of(np.full(p.shape, group["initial_accumulator_value"], p.dtype))

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **options,
    ):
        defaults = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults | {"initial_accumulator_value": initial_accumulator_value}, options)


class Adadelta(Optimizer):
    r"""x \to x - \rho \, d, d = g \sqrt{u + \epsilon} / \sqrt{v + \epsilon}, v and u running means of g^2 and d^2.

    From Zeiler (2012).
    """

    numbers = ("lr", "rho", "eps", "weight_decay")
    slots = ("square_avg", "acc_delta")

    def _update(self, p, g, h, v, u):
        v.mul_(h.rho).add_(g * g * (1 - h.rho))
        d = (u + h.eps).sqrt() / (v + h.eps).sqrt() * g
        u.mul_(h.rho).add_(d * d * (1 - h.rho))
        p.sub_(h.lr * d)

    def __init__(
        self,
        params: Iterable,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **options,
    ):
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults, options)


class Adamax(Optimizer):
    r"""Adam with the largest |g| (which decays by \beta_2) in the place of \sqrt{v}; Kingma and Ba (2015)."""

    numbers = ("lr", "beta1", "beta2", "eps", "weight_decay", "t")
    slots = ("exp_avg", "exp_inf")

    def _update(self, p, g, h, m, largest):
        m.add_((g - m) * (1 - h.beta1))
        largest.copy_((largest * h.beta2).maximum(g.abs() + h.eps))
        p.sub_(h.lr * (m / (largest * (1 - h.beta1**h.t))))

    def __init__(
        self,
        params: Iterable,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **options,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults, options)


__all__ = ["Adadelta", "Adagrad", "Adamax", "RMSprop"]

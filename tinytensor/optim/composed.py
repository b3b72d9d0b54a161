"""RMSprop, Adagrad, Adadelta and Adamax: their steps are written in operations, without kernels of their own."""

from collections.abc import Iterable

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.optim.optimizer import Optimizer


class Composed(Optimizer):
    """A step p -= lr * direction, where `_direction` computes the direction from the gradient."""

    names: tuple[str, ...]  # the hyper-parameters that `_direction` takes, as 0-d tensors

    def _hyper(self, group, entry):
        rate = group["lr"] / (1 + (entry["step"] - 1) * group.get("lr_decay", 0))
        return rate, *(*(group[name] for name in self.names), entry["step"], *[0] * 6)[:7]

    def _makeup(self):
        asked = ("weight_decay", "maximize", "centered")  # these decide the operations of a step
        return *super()._makeup(), *(bool(group.get(name)) for group in self.param_groups for name in asked)

    def _update(self, p, group, hyper):
        lr, *numbers = self._as_tensors(p, hyper)
        entry, g = self.state[p], self._gradient(p)
        g = -g if group["maximize"] else g
        if group["weight_decay"]:
            g = g + p * numbers[self.names.index("weight_decay")]
        slots = [entry[name] if self._needs(name, group) else None for name in self.slots]
        p.sub_(lr * self._direction(g, *slots, *numbers[: len(self.names) + 1]))

    def _direction(self, g: Tensor, *slots_and_numbers) -> Tensor:
        """The direction, from the gradient, the slots, the hyper-parameters `names`, and the step's number."""
        raise NotImplementedError


class RMSprop(Composed):
    r"""x \to x - \rho \, g / (\sqrt{v} + \epsilon), v a running mean of g^2 (less that of g, squared, if centered).

    From Hinton (2012).
    """

    slots = ("square_avg", "momentum_buffer", "grad_avg")
    names = ("alpha", "eps", "momentum", "weight_decay")

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

    def _needs(self, slot, group):
        return {"momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}.get(slot, True)

    def _direction(self, g, v, buffer, mean, alpha, eps, momentum, decay, t):
        v.mul_(alpha).add_(g * g * (1 - alpha))
        spread = v
        if mean is not None:
            mean.add_((g - mean) * (1 - alpha))
            spread = v - mean * mean
        d = g / (spread.sqrt() + eps)
        return d if buffer is None else buffer.mul_(momentum).add_(d)


class Adagrad(Composed):
    r"""x \to x - \rho_t \, g / (\sqrt{\sum g^2} + \epsilon), \rho_t = \rho / (1 + (t - 1)\, lr\_decay).

    From Duchi, Hazan and Singer (2011).
    """

    slots = ("sum",)
    names = ("weight_decay", "eps")

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

    def _prepare(self, group, p):
        is_new = "sum" not in self.state.get(p, ())
        super()._prepare(group, p)
        if is_new:
            self.state[p]["sum"] = Tensor.of(np.full(p.shape, group["initial_accumulator_value"], p.dtype))

    def _direction(self, g, total, decay, eps, t):
        total.add_(g * g)
        return g / (total.sqrt() + eps)


class Adadelta(Composed):
    r"""x \to x - \rho \, d, d = g \sqrt{u + \epsilon} / \sqrt{v + \epsilon}, v and u running means of g^2 and d^2.

    From Zeiler (2012).
    """

    slots = ("square_avg", "acc_delta")
    names = ("rho", "eps", "weight_decay")

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

    def _direction(self, g, v, u, rho, eps, decay, t):
        v.mul_(rho).add_(g * g * (1 - rho))
        d = (u + eps).sqrt() / (v + eps).sqrt() * g
        u.mul_(rho).add_(d * d * (1 - rho))
        return d


class Adamax(Composed):
    r"""Adam with the largest |g| (which decays by \beta_2) in the place of \sqrt{v}; Kingma and Ba (2015)."""

    slots = ("exp_avg", "exp_inf")
    names = ("beta1", "beta2", "eps", "weight_decay")

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

    def _hyper(self, group, entry):
        beta1, beta2 = group["betas"]
        return super()._hyper(group | {"beta1": beta1, "beta2": beta2}, entry)

    def _direction(self, g, m, largest, beta1, beta2, eps, decay, t):
        m.add_((g - m) * (1 - beta1))
        largest.copy_((largest * beta2).maximum(g.abs() + eps))
        return m / (largest * (1 - beta1**t))

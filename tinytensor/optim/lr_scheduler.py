"""Learning-rate schedules: `scheduler.step()` after each optimizer step sets the rate for the next one."""

import math
from collections.abc import Callable
from typing import Any

from tinytensor.door import host
from tinytensor.optim.optimizer import Optimizer


class LambdaLR:
    """lr = initial lr * lr_lambda(step), for steps 0, 1, 2, ... (one function, or one a group)."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list, last_epoch: int = -1):
        self.optimizer = optimizer
        n = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * n
        if len(self.lr_lambdas) != n:
            raise ValueError(f"LambdaLR: {len(self.lr_lambdas)} functions for {n} parameter groups")
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [g["initial_lr"] for g in optimizer.param_groups]
        self.last_epoch = last_epoch + 1
        self._apply()

    def _apply(self) -> None:
        for group, base, factor in zip(self.optimizer.param_groups, self.base_lrs, self.lr_lambdas, strict=True):
            group["lr"] = self._rate(base, factor(self.last_epoch))

    def _rate(self, base: float, factor: float) -> float:
        return base * factor

    def step(self) -> None:
        """Go on to the next step's rate (in a replay too)."""
        host(self._go, 1, undo=lambda n: self._go(-n))

    def _go(self, n: int) -> None:
        self.last_epoch += n
        self._apply()

    def get_last_lr(self) -> list[float]:
        """The rate of each group."""
        return [g["lr"] for g in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        return {"last_epoch": self.last_epoch, "base_lrs": self.base_lrs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.last_epoch, self.base_lrs = state_dict["last_epoch"], state_dict["base_lrs"]
        self._apply()


class ConstantLR(LambdaLR):
    """lr = initial lr * factor for the first total_iters steps, then the initial lr."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1):
        super().__init__(optimizer, lambda t: factor if t < total_iters else 1.0, last_epoch)


class StepLR(LambdaLR):
    r"""lr = initial lr * \gamma^{\lfloor t / step\_size \rfloor}."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        super().__init__(optimizer, lambda t: gamma ** (t // step_size), last_epoch)


class MultiStepLR(LambdaLR):
    r"""lr = initial lr * \gamma^{number of milestones passed}."""

    def __init__(self, optimizer: Optimizer, milestones: list[int], gamma: float = 0.1, last_epoch: int = -1):
        super().__init__(optimizer, lambda t: gamma ** sum(t >= m for m in milestones), last_epoch)


class ExponentialLR(LambdaLR):
    r"""lr = initial lr * \gamma^t."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        super().__init__(optimizer, lambda t: gamma**t, last_epoch)


class CosineAnnealingLR(LambdaLR):
    r"""lr = eta_min + (initial lr - eta_min) (1 + \cos(\pi t / T_max)) / 2."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self.eta_min = eta_min  # super().__init__() sets the first rate
        super().__init__(optimizer, lambda t: (1 + math.cos(math.pi * t / T_max)) / 2, last_epoch)

    def _rate(self, base: float, factor: float) -> float:
        return self.eta_min + (base - self.eta_min) * factor


class WarmupCosineLR(LambdaLR):
    """From 0 up in a straight line over `warmup` steps, then down half a cosine to `floor` * lr at step `total`."""

    def __init__(self, optimizer: Optimizer, warmup: int, total: int, floor: float = 0.1, last_epoch: int = -1):
        def factor(t: int) -> float:
            if t < warmup:
                return (t + 1) / warmup
            progress = min(1.0, (t - warmup) / max(1, total - warmup))
            return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

        super().__init__(optimizer, factor, last_epoch)


class NoamLR(LambdaLR):
    r"""lr = initial lr * d_{model}^{-1/2} \min(t^{-1/2}, t\, warmup^{-3/2}), t = 1, 2, ... (Vaswani 2017)."""

    def __init__(self, optimizer: Optimizer, d_model: int, warmup: int, last_epoch: int = -1):
        scale = d_model**-0.5
        super().__init__(optimizer, lambda t: scale * min((t + 1) ** -0.5, (t + 1) * warmup**-1.5), last_epoch)

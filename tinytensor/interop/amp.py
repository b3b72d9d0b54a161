"""tinytensor.amp: PyTorch's names of automatic mixed precision; all is float32 or float64 here.

Programs that use it run: the context does nothing, and the scaler works on a CPU as PyTorch's does.
"""

from collections.abc import Iterable
from contextlib import ContextDecorator
from math import inf
from typing import Any

import numpy as np

from tinytensor.core.devices import device as as_device
from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.ops.argument_errors import shown
from tinytensor.ops.creation import as_dtype
from tinytensor.ops.elementwise import isfinite
from tinytensor.optim.optimizer import Optimizer

__all__ = ["GradScaler", "autocast"]


class autocast(ContextDecorator):
    """A context, or a decorator, in which everything is computed in the same way as outside.

    For "cuda" it accepts any `dtype`, as PyTorch does without CUDA; for the CPU it raises for a `dtype` that tensors
    lack here (bfloat16, say).
    """

    def __init__(self, device_type: str = "cpu", dtype=None, enabled: bool = True, cache_enabled: bool | None = None):
        if enabled and dtype is not None and as_device(device_type).type == "cpu":
            as_dtype(dtype)

    def __enter__(self) -> "autocast":
        return self

    def __exit__(self, *exc) -> bool:
        return False


class GradScaler:
    r"""PyTorch's scaler: the loss times s, the gradients divided by s, and no step where one is infinite or NaN.

    It works for "cpu", as PyTorch's does. For "cuda", the device that PyTorch assumes, it is switched off, as PyTorch's
    is without CUDA: the loss stays as it is, and `step` is the optimizer's. float32 and float64 need no scaling, but a
    step with an infinite gradient or NaN would leave NaN in the parameters.

    After a step that was left out, s becomes s times `backoff_factor`; after `growth_interval` steps one after the
    other, s times `growth_factor`, unless that is infinite in float32. An iteration is `scale(loss).backward()`,
    `unscale_(optimizer)` if the gradients are to be clipped, `step(optimizer)`, and `update()` after all optimizers.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        self._enabled = enabled and as_device(device).type == "cpu"
        if not self._enabled:
            return
        if not growth_factor > 1:
            raise ValueError(f"GradScaler: growth_factor is {growth_factor}; expected more than 1")
        if not backoff_factor < 1:
            raise ValueError(f"GradScaler: backoff_factor is {backoff_factor}; expected less than 1")
        self._scale, self._growth_factor, self._backoff_factor = float(init_scale), growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._used = False  # has anything been scaled?
        self._infinite: dict[
            int, bool
        ] = {}  # by the id of an optimizer whose gradients were unscaled: was one infinite?
        self._stepped: set[int] = set()  # the ids of optimizers whose step was asked for

    def is_enabled(self) -> bool:
        """Does it scale?"""
        return self._enabled

    def scale(self, outputs: Tensor | Iterable):
        """The outputs times the scale: a tensor, or tensors in lists, tuples and other iterables."""
        if not self._enabled:
            return outputs
        self._used = True
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if not isinstance(outputs, Iterable):
            raise ValueError(f"GradScaler.scale: expected a tensor or an iterable of tensors, got {shown(outputs)}")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, in place; look for infinities and NaN."""
        if not self._enabled:
            return
        if id(optimizer) in self._infinite:
            after = "step()" if id(optimizer) in self._stepped else "unscale_()"
            raise RuntimeError(f"GradScaler.unscale_: {after} of this optimizer came before; call update() in between")
        self._check_used("unscale_")
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        with no_grad():
            infinite = [not bool(isfinite(g).all()) for g in gradients]
            for g in gradients:
                g.mul_(1 / self._scale if self._scale else inf)
        if not gradients:
            raise RuntimeError("GradScaler: no parameter of this optimizer has a gradient; call backward() first")
        self._infinite[id(optimizer)] = any(infinite)

    def step(self, optimizer: Optimizer, *args, **kwargs) -> Any:
        """optimizer.step(), unless a gradient is infinite or NaN; the gradients are unscaled before, if they were not.

        Returns what the optimizer's step returns, None if it was left out.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if args or "closure" in kwargs:
            raise RuntimeError(
                "GradScaler.step: a closure is not offered, since it computes gradients without the scale"
            )
        if id(optimizer) in self._stepped:
            raise RuntimeError("GradScaler.step: step() of this optimizer came before; call update() in between")
        if id(optimizer) not in self._infinite:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._infinite[id(optimizer)] else optimizer.step(**kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """End the iteration: shrink or grow the scale, or take the new one."""
        if not self._enabled:
            return
        self._check_used("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._infinite:
            raise RuntimeError("GradScaler.update: no step() or unscale_() since the last update")
        elif any(self._infinite.values()):
            self._scale, self._growth_tracker = self._times(self._backoff_factor), 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown, self._growth_tracker = self._times(self._growth_factor), 0
                self._scale = grown if grown < inf else self._scale
        self._infinite, self._stepped = {}, set()

    def _check_used(self, method: str) -> None:
        if not self._used:
            raise RuntimeError(f"GradScaler.{method}: nothing was scaled; call scale(loss).backward() first")

    def _times(self, factor: float) -> float:
        """The scale times a factor, rounded to float32, the dtype of the scale."""
        with np.errstate(over="ignore"):
            return float(np.float32(self._scale * factor))

    def get_scale(self) -> float:
        """The factor on the loss: 1 if it is switched off."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of steps one after the other after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps one after the other after which the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale, its factors and the number of steps since it changed; empty if it is switched off."""
        if not self._enabled:
            return {}
        factors = {"growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor}
        steps = {"growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker}
        return {"scale": self._scale} | factors | steps

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state that `state_dict()` returned; RuntimeError for the empty one of a scaler that is off."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("GradScaler.load_state_dict: the state is empty: that of a scaler that was switched off")
        self._scale = float(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]

    def __getstate__(self) -> dict[str, Any]:
        """What pickle writes; between unscale_() and update() there is a state of optimizers, which it can't keep."""
        if self._enabled and self._infinite:
            raise RuntimeError("GradScaler: it can be pickled after update(), not between unscale_() or step() and it")
        return vars(self).copy()

"""tinytensor.amp: PyTorch's names of automatic mixed precision; all is float32 or float64.

Programs that use it run: the context does nothing, and the scaler scales only if it is made for "cpu".
"""

from contextlib import ContextDecorator

import numpy as np

from tinytensor.core.devices import device as as_device
from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import as_dtype
from tinytensor.optim.optimizer import Optimizer


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
    """A factor on the loss, by which the gradients are divided again; a step with an infinite one is left out.

    With device "cpu" it does that, as PyTorch's: the factor halves after a step that was left out, and doubles after
    `growth_interval` others. For "cuda", the default, it passes everything through, as PyTorch's does without CUDA.
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
        if self._enabled and not (growth_factor > 1 and 0 < backoff_factor < 1):
            raise ValueError(
                "GradScaler: expected a growth_factor above 1 and a backoff_factor between 0 and 1, "
                f"got {growth_factor} and {backoff_factor}"
            )
        self._scale, self._growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._unscaled: dict[int, bool] = {}  # of each optimizer, by its id, since the last update: are all finite?
        self._stepped: set[int] = set()

    def is_enabled(self) -> bool:
        """Does it scale?"""
        return self._enabled

    def scale(self, outputs):
        """The outputs (a tensor, or several in lists and tuples) times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, list | tuple):
            return type(outputs)(map(self.scale, outputs))
        raise ValueError(f"GradScaler.scale: expected a tensor, or tensors in a list or tuple, got {outputs!r}")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the optimizer's parameters by the factor, in place, and look for infinite ones."""
        if not self._enabled:
            return
        if id(optimizer) in self._unscaled:
            raise RuntimeError("GradScaler.unscale_: called already for this optimizer since the last update()")
        if id(optimizer) in self._stepped:
            raise RuntimeError("GradScaler.unscale_: called after step(); call it before")
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not gradients:
            raise RuntimeError("GradScaler.unscale_: no parameter of the optimizer has a gradient; call backward()")
        with no_grad():
            self._unscaled[id(optimizer)] = all(g.isfinite().all().item() for g in gradients)
            for g in gradients:
                g.mul_(1 / self._scale)

    def step(self, optimizer: Optimizer, *args, **kwargs) -> Tensor | None:
        """optimizer.step(), unless a gradient is infinite or NaN; None then. The gradients are unscaled first."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: an enabled one takes no closure; call backward() and step() in turn")
        if id(optimizer) in self._stepped:
            raise RuntimeError("GradScaler.step: called already for this optimizer since the last update()")
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return optimizer.step(*args, **kwargs) if self._unscaled[id(optimizer)] else None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Shrink the factor if a step was left out, let it grow if enough in a row were not, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._unscaled:
            raise RuntimeError("GradScaler.update: no gradient was looked at since the last one; call step() first")
        elif not all(self._unscaled.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale = grown if grown <= np.finfo(np.float32).max else self._scale
                self._growth_tracker = 0
        self._unscaled.clear()
        self._stepped.clear()

    def get_scale(self) -> float:
        """The factor on the loss; 1 if it is not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By what the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by what the factor grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the factor is multiplied after a step that was left out."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by what the factor is multiplied after a step that was left out."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps in a row the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps in a row the factor grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict:
        """The factor and how it changes; empty if it is not enabled."""
        return {key: getattr(self, name) for key, name in _STATE.items()} if self._enabled else {}

    def load_state_dict(self, state_dict: dict) -> None:
        """Take over what `state_dict` returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("GradScaler.load_state_dict: it is empty, as that of a scaler that is not enabled")
        for key, name in _STATE.items():
            setattr(self, name, state_dict[key])


_STATE = {  # PyTorch's keys, and our names
    **{name: f"_{name}" for name in ("scale", "growth_factor", "backoff_factor", "growth_interval")},
    "_growth_tracker": "_growth_tracker",
}

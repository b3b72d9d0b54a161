"""tinytensor.amp: PyTorch's names of automatic mixed precision, without effect; all is float32 or float64.

Programs that use it run: the context does nothing, the scaler scales by 1.
"""

from contextlib import ContextDecorator

from tinytensor.core.devices import device
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import as_dtype
from tinytensor.optim.optimizer import Optimizer


class autocast(ContextDecorator):
    """A context, or a decorator, in which everything is computed in the same way as outside.

    For "cuda" it accepts any `dtype`, as PyTorch does without CUDA; for the CPU it raises for a `dtype` that tensors
    lack here (bfloat16, say).
    """

    def __init__(self, device_type: str = "cpu", dtype=None, enabled: bool = True, cache_enabled: bool | None = None):
        if enabled and dtype is not None and device(device_type).type == "cpu":
            as_dtype(dtype)

    def __enter__(self) -> "autocast":
        return self

    def __exit__(self, *exc) -> bool:
        return False


class GradScaler:
    """PyTorch's protection of float16 gradients from rounding to 0; here it scales by 1."""

    def __init__(self, device: str = "cpu", *args, enabled: bool = True, **options):
        pass

    def is_enabled(self) -> bool:
        """False: float32 and float64 need no scaling."""
        return False

    def scale(self, outputs):
        """The outputs as they are."""
        return outputs

    def unscale_(self, optimizer: Optimizer) -> None:
        """Nothing was scaled."""

    def step(self, optimizer: Optimizer, *args, **kwargs) -> Tensor | None:
        """optimizer.step()"""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | None = None) -> None:
        """Do nothing: there is no scale to change."""

    def get_scale(self) -> float:
        """The factor on the loss: 1."""
        return 1.0

    def state_dict(self) -> dict:
        """An empty dictionary: there is no factor to store."""
        return {}

    def load_state_dict(self, state_dict: dict) -> None:
        """Do nothing: there is no state to restore."""

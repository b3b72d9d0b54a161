"""Automatic mixed precision, which there is none of: all is computed in float32 (or float64), and nothing is cast.

Programs written for it run: the context does nothing, the scaler scales by 1.
"""

from contextlib import ContextDecorator

from tinytensor.core.devices import device
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import as_dtype
from tinytensor.optim.optimizer import Optimizer


class autocast(ContextDecorator):
    """A context, or a decorator, in which everything is computed as it is outside.

    On "cuda", which is not here, PyTorch switches it off; on the CPU it computes in float32, and another dtype, asked
    for by name, is refused.
    """

    def __init__(self, device_type: str = "cpu", dtype=None, enabled: bool = True, cache_enabled: bool | None = None):
        if enabled and dtype is not None and device(device_type).type == "cpu":
            as_dtype(dtype)

    def __enter__(self) -> "autocast":
        return self

    def __exit__(self, *exc) -> bool:
        return False


class GradScaler:
    """What guards float16 gradients from rounding to 0 in PyTorch: here it is off, and passes everything on."""

    def __init__(self, device: str = "cpu", *args, enabled: bool = True, **options):
        pass

    def is_enabled(self) -> bool:
        """False: what float32 and float64 hold needs no scaling."""
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
        """There is no scale to change."""

    def get_scale(self) -> float:
        """The factor on the loss: 1."""
        return 1.0

    def state_dict(self) -> dict:
        """Empty: there is no factor to remember."""
        return {}

    def load_state_dict(self, state_dict: dict) -> None:
        """There is no state to go on from."""

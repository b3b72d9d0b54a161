"""tinytensor.cuda.amp: older names of the classes of tinytensor.amp."""

from tinytensor.amp import GradScaler as _GradScaler
from tinytensor.amp import autocast as _autocast

__all__ = ["GradScaler", "autocast"]


class autocast(_autocast):
    """The context for "cuda", which is absent: it does nothing."""

    def __init__(self, enabled: bool = True, dtype=None, cache_enabled: bool | None = None):
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """The scaler for "cuda", which is absent: it is switched off."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)

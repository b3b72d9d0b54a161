"""tinytensor.cuda.amp: older names of the classes of tinytensor.amp."""

from tinytensor.torch_names.amp import GradScaler
from tinytensor.torch_names.amp import autocast as _autocast

__all__ = ["GradScaler", "autocast"]


class autocast(_autocast):
    """The context for "cuda", which is absent: it does nothing."""

    def __init__(self, enabled: bool = True, dtype=None, cache_enabled: bool | None = None):
        super().__init__("cuda", dtype, enabled, cache_enabled)

"""torch.amp: PyTorch's names of automatic mixed precision (interop/amp.py)."""

from tinytensor.interop.amp import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]

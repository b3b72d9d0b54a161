"""torch.utils.tensorboard: PyTorch's SummaryWriter (interop/tensorboard.py)."""

from tinytensor.interop.tensorboard import SummaryWriter

__all__ = ["SummaryWriter"]
__path__: list[str] = []  # PyTorch has a folder here: `from torch.utils.tensorboard.writer import SummaryWriter`

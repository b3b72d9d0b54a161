"""Optimizers and learning-rate schedules, under PyTorch's names."""

from tinytensor.optim import lr_scheduler
from tinytensor.optim.optimizer import SGD, Adam, AdamW, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
